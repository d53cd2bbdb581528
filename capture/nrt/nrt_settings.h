/*
 * capture/nrt/nrt_settings.h - the agent's requests to this process while sessions record
 * (docs/reference/nrt.md, "What a session changes"). They are the cores and event types of the
 * system trace, and whether to record at all. The request is a file next to the rings. The file is
 * used only if root or the user of the process owns it and no other user may write it. Internal.
 * Threads: the library's trace thread, and the thread that waits to be switched on (nrt_wait.c).
 */
#ifndef MRD_CAPTURE_NRT_NRT_SETTINGS_H
#define MRD_CAPTURE_NRT_NRT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "capture/nrt/nrt_control.h"

typedef struct {
    bool any_core, core[MRD_CONTROL_CORES];
    char types[2048]; /* a comma list; "" means all */
    int recording;    /* 1 starts recording, 0 stops it, -1 leaves it unchanged */
} mrd_nrt_settings;

/* The file as one thread has read it last. The caller zeroes it before the first call. */
typedef struct {
    struct stat last; /* state of the file when it was read; an st_ino of 0 means no file */
} mrd_nrt_settings_seen;

/* Returns true if the settings changed since the last call. A missing file requests everything, and
 * lets the program decide whether to record. */
bool mrd_nrt_settings_poll(mrd_nrt_settings_seen *seen, mrd_nrt_settings *settings);

#endif
