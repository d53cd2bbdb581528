/* base/sys/confined_int.h - the report that a watcher (confined_watch.c) sends to its caller
 * (confined.c), and the functions with which it measures the program (confined_measure.c). */
#ifndef MRD_BASE_SYS_CONFINED_INT_H
#define MRD_BASE_SYS_CONFINED_INT_H

#include "base/sys/confined.h"

#include <sys/types.h>

#define MRD_CONFINED_MAGIC     0x636f6e66u
#define MRD_CONFINED_PROCESSES 4096 /* maximum number of processes of one confined program */
#define MRD_CONFINED_DEPTH     32   /* maximum depth of subdirectories in the program's directory */

typedef enum {
    MRD_CONFINED_EXITED,   /* the program exited; `code` is its status */
    MRD_CONFINED_SIGNALED, /* a signal killed the program; `code` is the signal */
    MRD_CONFINED_NOT_RUN,  /* the program could not be started; `code` is the errno value */
    MRD_CONFINED_TIME,
    /* the memory limit was exceeded: `code` is unused, `bytes` is the memory in use */
    MRD_CONFINED_MEMORY,
    MRD_CONFINED_DISK,   /* the directory's limit of bytes was exceeded; `bytes` is its size */
    MRD_CONFINED_FILES,  /* the program made too many files; `bytes` is their number */
    MRD_CONFINED_DEEP,   /* the program made directories deeper than MRD_CONFINED_DEPTH */
    MRD_CONFINED_MANY,   /* the program has MRD_CONFINED_PROCESSES processes or more */
    MRD_CONFINED_FULL,   /* the file system has less than keep_free free bytes */
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

/* Appends the child processes of all threads of the process `parent`. */
void mrd_confined_children(pid_t parent, mrd_confined_processes *to);
/* Appends all descendants of the watcher. Orphans become children of the watcher. */
void mrd_confined_descendants(mrd_confined_processes *to);
/* Returns the memory of the processes in bytes. The result is exact only if it is larger than
 * `above`. A smaller result may count shared pages more than once, because an exact measurement
 * takes longer. */
uint64_t mrd_confined_memory(const mrd_confined_processes *processes, uint64_t above);
/* Measures the size of the directory. Files that are open and already removed count, too. Stops
 * after files_max files. */
void mrd_confined_measure(const char *dir, const mrd_confined_processes *processes,
                          uint64_t files_max, mrd_confined_folder *ret);

#endif
