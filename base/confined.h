/*
 * base/confined.h - runs a program of somebody else's within limits: wall time, memory of it and all
 * its children together, bytes and files of its working folder.
 *
 * A watcher stands between: a process of ours (this program again, see mrd_confined_watch) that
 * starts the program, measures it ten times a second, and ends it with all its children, also those
 * that left its process group: they become children of the watcher. The watcher does so as well
 * when the caller is gone, however it ended. When the watcher is killed, a second one does so. A program
 * that kills both leaves its children behind: it has our user, and could kill us as well.
 *
 * Memory is what the processes have together, what they share counted once; files in /dev/shm count as
 * far as they are mapped. The folder counts with files that are open and removed; its folders may be
 * 32 deep. There may be 4096 processes.
 *
 * The program gets: its folder as working folder, HOME and TMPDIR; PATH, LD_LIBRARY_PATH and the
 * locale of the caller and no other variable; no descriptor but /dev/null and a pipe for its
 * output; a session and process group of its own; no new privileges, no core file, lower priority;
 * it is the first that the kernel ends for want of memory. Where the kernel has Landlock it can
 * write into its folder, /dev/null and /dev/shm only.
 *
 * Threads: any. Uses posix_spawn, never fork, so that it may run beside NNG.
 */
#ifndef MRD_BASE_CONFINED_H
#define MRD_BASE_CONFINED_H

#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* First argument of a program of ours that is to be a watcher. */
#define MRD_CONFINED_WORD "--watch-confined"
#define MRD_CONFINED_SAID 400 /* bytes of the program's output that are kept, the last ones */

typedef struct {
    const char *const *argv; /* argv[0]: path of the program; ends with NULL */
    const char *dir;         /* absolute path of an existing folder */
    const char *watcher;     /* program that calls mrd_confined_watch; NULL: this one */
    mrd_dur_ns time;         /* limits; 0: none */
    uint64_t memory, disk;   /* bytes */
    uint64_t files;
    uint64_t keep_free; /* bytes of the folder's file system that others find free; 0: any */
    bool remove;        /* the folder goes when the caller was killed */
    bool (*going_on)(void *self); /* asked ten times a second; false: end it. NULL: never */
    void *self;
} mrd_confined_options;

typedef struct {
    mrd_dur_ns took;
    uint64_t memory;              /* most that was seen at one time */
    unsigned left;                /* processes that it left behind, and that were ended */
    char said[MRD_CONFINED_SAID]; /* the end of its output; what a terminal obeys is a space, an end
                                     of a line stays one */
} mrd_confined_result;

/*
 * Runs it to its end. *ret_result is filled in every case. Errors: NOTFOUND, the program or its
 * watcher cannot be run; TIMEOUT, LIMIT (memory or folder), FULL (keep_free), CANCELLED: it was ended; IO: it ended
 * with a status or a signal; each with a sentence that has the end of its output.
 */
mrd_err mrd_confined_run(const mrd_confined_options *options, mrd_confined_result *ret_result,
                         mrd_why *why);

/* The watcher; main calls it first when its first argument is MRD_CONFINED_WORD, and returns what it returns. */
int mrd_confined_watch(int argc, char **argv);

#endif
