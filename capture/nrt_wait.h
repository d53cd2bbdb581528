/*
 * capture/nrt_wait.h - a preloaded program that does not record waits to be switched on by a session. Internal.
 *
 * When it opens the runtime it gets a small ring, by which the agent knows it, and a thread that looks at the settings
 * file (nrt_settings.h) a few times in a second. The same thread switches programs on and off that record without
 * the system trace, whose own thread looks there else. Nothing of it happens in programs that are linked
 * with libmeridian and have not asked for anything.
 */
#ifndef MRD_CAPTURE_NRT_WAIT_H
#define MRD_CAPTURE_NRT_WAIT_H

void mrd_nrt_wait_begin(void); /* the runtime is open; again is fine */
void mrd_nrt_wait_end(void);

#endif
