/*
 * capture/nrt/nrt_settings.h - the agent's requests to this process while sessions record
 * (docs/reference/nrt.md, "What a session changes"). The settings are the cores and event types of
 * the system trace, and whether to record at all. The agent writes them to a file next to the
 * rings. The file is used only if root or the user of the process owns it and no other user may
 * write it. Internal. Threads: the library's trace thread, and the thread that waits to be switched
 * on (nrt_wait.c).
 */
#ifndef MRD_CAPTURE_NRT_NRT_SETTINGS_H
#define MRD_CAPTURE_NRT_NRT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "capture/nrt/nrt_control.h"

typedef struct {
    bool any_core, core[MRD_CONTROL_CORES];
    char types[2048]; /* event types, separated by commas; "" means all */
    int recording;    /* 1 starts recording, 0 stops it, -1 lets the program decide */
} mrd_nrt_settings;

/* The state of the file when a thread last read it. The caller zeroes this struct before the first
 * call. */
typedef struct {
    struct stat last; /* state of the file when it was read; an st_ino of 0 means no file */
} mrd_nrt_settings_seen;

/* Reads the settings and returns true if they changed since the last call. If the file is missing,
 * the settings are all cores and types, and the program decides whether to record. */
bool mrd_nrt_settings_poll(mrd_nrt_settings_seen *seen, mrd_nrt_settings *settings);

#endif
