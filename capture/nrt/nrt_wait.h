/*
 * capture/nrt/nrt_wait.h - a preloaded program that does not record waits until a session switches it
 * on. Internal.
 *
 * When the program opens the runtime, it gets a small ring, from which the agent learns of it. It
 * also gets a thread that reads the settings file (nrt_settings.h) a few times per second. The same
 * thread switches programs on and off that record without the system trace; with the trace, the
 * trace's thread does that. Programs that are linked with libmeridian and requested nothing get
 * neither ring nor thread.
 */
#ifndef MRD_CAPTURE_NRT_NRT_WAIT_H
#define MRD_CAPTURE_NRT_NRT_WAIT_H

void mrd_nrt_wait_begin(void); /* the runtime is open; may be repeated */
void mrd_nrt_wait_end(void);

#endif
