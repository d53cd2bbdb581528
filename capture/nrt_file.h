/*
 * capture/nrt_file.h - a file that the agent leaves beside the rings for this process: what it asks (nrt_settings.h,
 * nrt_control.h). It counts only when root or the user of the process owns it and nobody else may write it. Internal.
 */
#ifndef MRD_CAPTURE_NRT_FILE_H
#define MRD_CAPTURE_NRT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "capture/nrt_control.h"
#include "capture/ring_name.h"

typedef enum {
    MRD_NRT_FILE_READ,
    MRD_NRT_FILE_GONE,
    MRD_NRT_FILE_FOREIGN /* somebody else owns it or may write it */
} mrd_nrt_file_state;

/* The path of this process's file, whose name `print` makes; "" when it is too long. */
void mrd_nrt_file_path(void (*print)(const mrd_ring_name *name, char *text), char path[PATH_MAX]);
/* True: it is another than *last, which is the file as it was seen then; zeroed at first, and st_ino 0: there is none. */
bool mrd_nrt_file_changed(const char *path, struct stat *last);
/* The first MRD_CONTROL_MAX bytes, and a NUL. */
mrd_nrt_file_state mrd_nrt_file_read(const char *path, char ret_text[MRD_CONTROL_MAX + 1]);

#endif
