/*
 * hw/child.h - runs a vendor tool as a child process. The child is started with posix_spawn, which
 * runs none of this program's code in the child and is therefore safe while NNG's threads run. Its
 * output is read without blocking, and it is always ended and reaped. One thread.
 */
#ifndef MRD_HW_CHILD_H
#define MRD_HW_CHILD_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"

typedef struct {
    pid_t pid; /* -1 if there is no child */
    int fd;    /* its standard output, non-blocking, or -1 */
} mrd_child;

#define MRD_CHILD_NONE ((mrd_child){ -1, -1 })

/* Finds a tool: `given` if it is set, else `name` on PATH, else in /opt/aws/neuron/bin. If `given`
 * is "", the tool is disabled and the function returns false. */
bool mrd_child_find(const char *given, const char *name, char path[1024]);
/* Starts argv[0] with stdin and stderr closed. The child can read `config`, which may be empty, as
 * /proc/self/fd/3. */
mrd_err mrd_child_start(const char *const *argv, mrd_str config, mrd_child *ret_child,
                        mrd_why *why);
/* Waits for output until the deadline, and appends at most `max` bytes to *to. Errors: AGAIN if
 * there is none yet, CLOSED at the end of its output, NOMEM. */
mrd_err mrd_child_read(mrd_child *child, mrd_local_ns deadline, size_t max, mrd_buf *to);
/* Describes how the child ended ("exited with 2", "killed by signal 9", "still running"). Reaps it. */
void mrd_child_end(mrd_child *child, char text[64]);
/* Sends SIGTERM and then SIGKILL, reaps the child, and closes the descriptor. */
void mrd_child_stop(mrd_child *child);

#endif
