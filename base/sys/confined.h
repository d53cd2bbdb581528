/*
 * base/sys/confined.h - runs a foreign program with limits on wall time, on the memory of all its
 * processes together, and on the bytes and files in its working directory.
 *
 * A watcher process (this program again, see mrd_confined_watch) starts the program, measures it
 * ten times a second, and kills it with all its descendants if necessary. The watcher is a
 * subreaper, so it also finds descendants that left the process group. It kills them as well when
 * the caller exits or is killed. If the watcher itself is killed, a second watcher takes over. A
 * program that kills both watchers leaves its children running. It could also kill the caller,
 * because it runs as the same user.
 *
 * Memory counts shared pages once. Files in /dev/shm count only in their mapped parts. The
 * directory's size includes files that are open and already removed. The directory may be 32 levels
 * deep, and there may be 4096 processes.
 *
 * The program's environment has PATH, LD_LIBRARY_PATH and the locale of the caller, and HOME and
 * TMPDIR, which are its working directory. Its only descriptors are /dev/null and a pipe for its
 * output. It has its own session and process group, no new privileges, no core file, a lower
 * priority, and the highest OOM score. If the kernel has Landlock, the program can write only to
 * its directory, /dev/null and /dev/shm.
 *
 * Threads: any. The module uses posix_spawn instead of fork, because NNG forbids fork.
 */
#ifndef MRD_BASE_SYS_CONFINED_H
#define MRD_BASE_SYS_CONFINED_H

#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* If this is the first argument of one of Meridian's programs, the program runs as a watcher. */
#define MRD_CONFINED_WORD "--watch-confined"
/* maximum bytes kept of the program's output; they are its last bytes */
#define MRD_CONFINED_SAID 400

typedef struct {
    /* Arguments of the program, ended by NULL. argv[0] is the program's path. */
    const char *const *argv;
    const char *dir; /* absolute path of an existing directory */
    /* Path of the program that is started as the watcher; its main calls mrd_confined_watch. NULL
     * means this program. */
    const char *watcher;
    mrd_dur_ns time;       /* maximum wall time; 0 means no limit */
    uint64_t memory, disk; /* limits in bytes for the memory and the directory; 0 means no limit */
    uint64_t files;
    /* Free bytes that must remain on the file system of the directory. 0 means no limit. */
    uint64_t keep_free;
    bool remove; /* Whether the watcher removes the directory if the caller is killed. */
    /* Called ten times a second. The program is killed when it returns false. May be NULL. */
    bool (*going_on)(void *self);
    void *self;
} mrd_confined_options;

typedef struct {
    mrd_dur_ns took;
    uint64_t memory; /* peak memory in bytes */
    unsigned left;   /* processes that outlived the program and were killed */
    /* The end of the program's output. Control characters other than line ends are replaced by
     * spaces. */
    char said[MRD_CONFINED_SAID];
} mrd_confined_result;

/*
 * Runs the program until it ends. *ret_result is always filled.
 * Errors: NOTFOUND if the program or the watcher cannot be started. TIMEOUT, LIMIT (memory or
 * directory), FULL (keep_free) or CANCELLED if it was killed. IO if it exited with a status or a
 * signal. Messages contain the end of the program's output.
 */
mrd_err mrd_confined_run(const mrd_confined_options *options, mrd_confined_result *ret_result,
                         mrd_why *why);

/* Runs the watcher and returns its exit status. main must call it first if argv[1] is
 * MRD_CONFINED_WORD. */
int mrd_confined_watch(int argc, char **argv);

#endif
