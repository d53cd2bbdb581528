/* base/sys/confined_int.h - what a watcher (confined_watch.c) reports to its caller (confined.c), and
 * what it measures (confined_measure.c). */
#ifndef MRD_BASE_SYS_CONFINED_INT_H
#define MRD_BASE_SYS_CONFINED_INT_H

#include "base/sys/confined.h"

#include <sys/types.h>

#define MRD_CONFINED_MAGIC     0x636f6e66u
#define MRD_CONFINED_PROCESSES 4096 /* maximum number of processes of one program */
#define MRD_CONFINED_DEPTH     32   /* of folders below its own */

typedef enum {
    MRD_CONFINED_EXITED,   /* code: its status */
    MRD_CONFINED_SIGNALED, /* code: the signal */
    MRD_CONFINED_NOT_RUN,  /* code: errno */
    MRD_CONFINED_TIME,
    MRD_CONFINED_MEMORY, /* `code` is unused, `bytes` is the memory in use */
    MRD_CONFINED_DISK,   /* ... are in the folder */
    MRD_CONFINED_FILES,  /* `bytes` is the number of files */
    MRD_CONFINED_DEEP,   /* the directory is deeper than MRD_CONFINED_DEPTH */
    MRD_CONFINED_MANY,   /* there are MRD_CONFINED_PROCESSES processes */
    MRD_CONFINED_FULL,   /* the file system has less than keep_free bytes left */
    MRD_CONFINED_STOPPED /* the caller cancelled or exited */
} mrd_confined_end;

/* The watcher writes one report to its output when it ends. */
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
/* Appends all descendants of the watcher. Orphans become children of the watcher. */
void mrd_confined_descendants(mrd_confined_processes *to);
/* Returns the memory of the processes in bytes. A result up to `above` may count shared pages more
 * than once. */
uint64_t mrd_confined_memory(const mrd_confined_processes *processes, uint64_t above);
/* Measures the directory, including files that are open and removed. Stops after files_max files. */
void mrd_confined_measure(const char *dir, const mrd_confined_processes *processes,
                          uint64_t files_max, mrd_confined_folder *ret);

#endif
