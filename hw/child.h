/*
 * hw/child.h - runs a vendor tool as a child process and reads its output.
 *
 * posix_spawn starts the child. It runs none of this program's code in the child, and is therefore
 * safe while NNG's threads run. Output is read without blocking. mrd_child_stop always ends and
 * reaps the child. Threads: one at a time.
 */
#ifndef MRD_HW_CHILD_H
#define MRD_HW_CHILD_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"

typedef struct {
    pid_t pid; /* -1 if there is no child */
    int fd;    /* read end of the child's standard output, non-blocking, or -1 */
} mrd_child;

#define MRD_CHILD_NONE ((mrd_child){ -1, -1 })

/* Stores the path of a tool: `given` if it is not NULL, otherwise `name` in a directory of PATH or
 * in /opt/aws/neuron/bin. Returns false if the tool does not exist, or if `given` is "", which
 * disables the tool. */
bool mrd_child_find(const char *given, const char *name, char path[1024]);
/* Starts the program argv[0] with stdin and stderr closed. The child can read the text `config`,
 * which may be empty, from /proc/self/fd/3. */
mrd_err mrd_child_start(const char *const *argv, mrd_str config, mrd_child *ret_child,
                        mrd_why *why);
/* Waits for output until the deadline, and appends at most `max` bytes to *to. Errors: AGAIN (no
 * output before the deadline), CLOSED (end of the output), NOMEM. */
mrd_err mrd_child_read(mrd_child *child, mrd_local_ns deadline, size_t max, mrd_buf *to);
/* Writes how the child ended to `text`: "exited with 2", "killed by signal 9" or "still running".
 * Reaps a child that has ended. */
void mrd_child_end(mrd_child *child, char text[64]);
/* Sends SIGTERM and then SIGKILL, reaps the child, and closes the descriptor. */
void mrd_child_stop(mrd_child *child);

#endif
