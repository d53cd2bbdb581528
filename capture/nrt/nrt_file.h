/*
 * capture/nrt/nrt_file.h - reads a file that the agent writes next to the rings, with requests to
 * this process (nrt_settings.h, nrt_control.h). The file is used only if root or the user of the
 * process owns it and no other user may write it. Internal.
 */
#ifndef MRD_CAPTURE_NRT_NRT_FILE_H
#define MRD_CAPTURE_NRT_NRT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "capture/nrt/nrt_control.h"
#include "capture/ring/ring_name.h"

typedef enum {
    MRD_NRT_FILE_READ,
    MRD_NRT_FILE_GONE,
    MRD_NRT_FILE_FOREIGN /* another user owns it or may write it */
} mrd_nrt_file_state;

/* Stores the path of this process's file in the directory of rings. `print` writes the file's name.
 * Stores "" if the path is too long. */
void mrd_nrt_file_path(void (*print)(const mrd_ring_name *name, char *text), char path[PATH_MAX]);
/* Returns true if the file has changed since the previous call. *last holds the file's state
 * between calls. The caller zeroes it before the first call. Its st_ino is 0 if there was no
 * file. */
bool mrd_nrt_file_changed(const char *path, struct stat *last);
/* Reads the first MRD_CONTROL_MAX bytes of the file and appends a NUL. */
mrd_nrt_file_state mrd_nrt_file_read(const char *path, char ret_text[MRD_CONTROL_MAX + 1]);

#endif
