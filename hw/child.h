/*
 * hw/child.h - a vendor tool as a child process: started with posix_spawn (no code of ours runs in
 * the child, so it is safe at any time, NNG's threads included), its output read without blocking,
 * ended for certain. One thread.
 */
#ifndef MRD_HW_CHILD_H
#define MRD_HW_CHILD_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"

typedef struct {
    pid_t pid; /* -1: none */
    int fd;    /* its standard output, non-blocking; -1 */
} mrd_child;

#define MRD_CHILD_NONE ((mrd_child){ -1, -1 })

/* Where a tool is: `given` itself, else on PATH, else in /opt/aws/neuron/bin. "" never finds one.
 */
bool mrd_child_find(const char *given, const char *name, char path[1024]);
/* Starts argv[0] with stdin and stderr closed to it; config (may be empty) can be read by it as
 * /proc/self/fd/3. */
mrd_err mrd_child_start(const char *const *argv, mrd_str config, mrd_child *ret_child,
                        mrd_why *why);
/* Waits until output is there or the deadline passed. Appends at most `max` bytes to *to. Errors:
 * AGAIN nothing yet, CLOSED it closed its output, NOMEM. */
mrd_err mrd_child_read(mrd_child *child, mrd_local_ns deadline, size_t max, mrd_buf *to);
/* Its end in words ("exited with 2", "killed by signal 9", "still running"). Reaps. */
void mrd_child_end(mrd_child *child, char text[64]);
/* SIGTERM, then SIGKILL, reaps, closes. */
void mrd_child_stop(mrd_child *child);

#endif
