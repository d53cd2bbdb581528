/*
 * capture/nrt_settings.h - what the agent asks of this process while sessions record (docs/nrt.md, "What a
 * session changes"): which cores and event types of the system trace, and whether to record at all. It
 * comes as a file beside the rings, which counts only when root or the user of the process owns it and
 * nobody else may write it. Internal. Threads: that of data source 1, and the one that waits to be switched on (nrt_wait.c).
 */
#ifndef MRD_CAPTURE_NRT_SETTINGS_H
#define MRD_CAPTURE_NRT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "capture/nrt_control.h"

typedef struct {
    bool any_core, core[MRD_CONTROL_CORES];
    char types[2048]; /* a comma list; "": all */
    int recording;    /* 1, 0; -1: as it is */
} mrd_nrt_settings;

/* What one thread has seen of it; zeroed at first. */
typedef struct {
    struct stat last; /* of the file as it was read; st_ino 0: there was none */
} mrd_nrt_settings_seen;

/* True: they changed since the last call. A file that is gone asks for everything, and leaves it to the program
 * whether it records. */
bool mrd_nrt_settings_poll(mrd_nrt_settings_seen *seen, mrd_nrt_settings *settings);

#endif
