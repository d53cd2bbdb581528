/*
 * capture/nrt/nrt_wait.h - lets a session switch on recording in a preloaded program that does not
 * record yet. Internal.
 *
 * When the program opens the runtime, the library creates a small ring, by which the agent finds
 * the program. It also starts a thread that reads the settings file (nrt_settings.h) a few times
 * per second and switches recording on and off. While the system trace is recorded, the trace
 * thread does this instead. Programs that are linked with libmeridian and requested nothing get
 * neither ring nor thread.
 */
#ifndef MRD_CAPTURE_NRT_NRT_WAIT_H
#define MRD_CAPTURE_NRT_NRT_WAIT_H

void mrd_nrt_wait_begin(void); /* call it when the runtime is open; further calls do nothing */
void mrd_nrt_wait_end(void);

#endif
