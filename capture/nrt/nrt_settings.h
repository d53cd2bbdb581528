/*
 * capture/nrt/nrt_settings.h - the agent's requests to this process while sessions record (docs/reference/nrt.md,
 * "What a session changes"). They are the cores and event types of the system trace, and whether to
 * record at all. The request is a file next to the rings. It is used only if root or the user of
 * the process owns it and no other user may write it. Internal. Threads: the thread of data source
 * 1, and the thread that waits to be switched on (nrt_wait.c).
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
    int recording;    /* 1 on, 0 off, -1 leaves it unchanged */
} mrd_nrt_settings;

/* One thread's view of the file; zeroed at first. */
typedef struct {
    struct stat last; /* of the file as it was read; st_ino 0 means no file */
} mrd_nrt_settings_seen;

/* Returns true if the settings changed since the last call. A missing file requests everything, and
 * lets the program decide whether to record. */
bool mrd_nrt_settings_poll(mrd_nrt_settings_seen *seen, mrd_nrt_settings *settings);

#endif
