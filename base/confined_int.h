/* base/confined_int.h - what a watcher (confined_watch.c) tells whoever started it (confined.c). */
#ifndef MRD_BASE_CONFINED_INT_H
#define MRD_BASE_CONFINED_INT_H

#include "base/confined.h"

#define MRD_CONFINED_MAGIC 0x636f6e66u

typedef enum {
    MRD_CONFINED_EXITED,   /* code: its status */
    MRD_CONFINED_SIGNALED, /* code: the signal */
    MRD_CONFINED_NOT_RUN,  /* code: errno */
    MRD_CONFINED_TIME,
    MRD_CONFINED_MEMORY, /* code: unused; `bytes` were used */
    MRD_CONFINED_DISK,   /* ... are in the folder */
    MRD_CONFINED_FILES,  /* so many files are */
    MRD_CONFINED_STOPPED /* the caller wanted it, or is gone */
} mrd_confined_end;

/* One of these through the watcher's output, at its end. */
typedef struct {
    uint32_t magic, end;
    int32_t code;
    uint32_t left;
    uint64_t memory, bytes;
    char said[MRD_CONFINED_SAID];
} mrd_confined_report;

#endif
