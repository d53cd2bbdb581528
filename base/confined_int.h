/* base/confined_int.h - what a watcher (confined_watch.c) tells whoever started it (confined.c), and
 * what it measures (confined_measure.c). */
#ifndef MRD_BASE_CONFINED_INT_H
#define MRD_BASE_CONFINED_INT_H

#include "base/confined.h"

#include <sys/types.h>

#define MRD_CONFINED_MAGIC     0x636f6e66u
#define MRD_CONFINED_PROCESSES 4096 /* of a program at one time */
#define MRD_CONFINED_DEPTH     32   /* of folders below its own */

typedef enum {
    MRD_CONFINED_EXITED,   /* code: its status */
    MRD_CONFINED_SIGNALED, /* code: the signal */
    MRD_CONFINED_NOT_RUN,  /* code: errno */
    MRD_CONFINED_TIME,
    MRD_CONFINED_MEMORY, /* code: unused; `bytes` were used */
    MRD_CONFINED_DISK,   /* ... are in the folder */
    MRD_CONFINED_FILES,  /* so many files are */
    MRD_CONFINED_DEEP,   /* its folders are deeper than MRD_CONFINED_DEPTH */
    MRD_CONFINED_MANY,   /* it has MRD_CONFINED_PROCESSES */
    MRD_CONFINED_FULL,   /* less than keep_free is left of the file system */
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

typedef struct {
    pid_t v[MRD_CONFINED_PROCESSES];
    size_t n;
} mrd_confined_processes;

typedef struct {
    uint64_t bytes, files;
    bool deep;
} mrd_confined_folder;

/* Appends the children of all threads of a process. */
void mrd_confined_children(pid_t parent, mrd_confined_processes *to);
/* All that descend from the watcher, whose child becomes what has lost its parent. */
void mrd_confined_descendants(mrd_confined_processes *to);
/* Bytes of memory that they have together. Up to `above` it may count twice what they share. */
uint64_t mrd_confined_memory(const mrd_confined_processes *p, uint64_t above);
/* What is in the folder, with files that are open and removed; ends beyond files_max. */
void mrd_confined_measure(const char *dir, const mrd_confined_processes *p, uint64_t files_max,
                          mrd_confined_folder *ret);

#endif
