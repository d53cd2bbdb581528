/*
 * agent/discover.h - where rings are: the node's own ring directory and, with the host's pid
 * namespace, the /dev/shm of every container through /proc/<pid>/root.
 *
 * New files are seen by inotify and, because that is not everywhere, by looking again. A look takes
 * as many turns as it needs: a turn of all directories together takes a few milliseconds, however
 * many files there are, and a user may have as many directories as are left for others. The look at
 * the processes' roots likewise. One thread.
 */
#ifndef MRD_AGENT_DISCOVER_H
#define MRD_AGENT_DISCOVER_H

#include "base/buf.h"
#include "base/clock.h"

typedef struct mrd_discover mrd_discover;

/* Handles a ring file or a note of losses. Called for every such file in every search. MRD_OK means
 * that the file is open already or not wanted. MRD_AGAIN means that the file should be found again
 * by the next search, which comes soon. */
typedef mrd_err (*mrd_discover_found)(void *self, unsigned dir, int dir_fd, const char *file_name);

/* Errors: NOMEM. */
mrd_err mrd_discover_open(const char *ring_dir, const char *proc_root, bool containers,
                          mrd_discover **ret_discover, mrd_why *why);
void mrd_discover_close(mrd_discover *d);
/* Looks where it is time to look. */
void mrd_discover_step(mrd_discover *d, mrd_local_ns now, mrd_discover_found found, void *self);
/* Looks everywhere now, for 2 s at most. */
void mrd_discover_all(mrd_discover *d, mrd_discover_found found, void *self);
int mrd_discover_fd(const mrd_discover *d);            /* inotify, -1 without */
mrd_local_ns mrd_discover_next(const mrd_discover *d); /* when step has something to do by itself */
int mrd_discover_dir_fd(const mrd_discover *d, unsigned dir);
/* User of a process that has it as /dev/shm: its owner or root if there is such a one. */
uint32_t mrd_discover_dir_user(const mrd_discover *d, unsigned dir);
/* Uid of the pod whose processes have it as /dev/shm; empty if it is no pod's. */
const char *mrd_discover_dir_pod(const mrd_discover *d, unsigned dir);
/* Rings of a directory keep it: the number of them that are open. */
void mrd_discover_hold(mrd_discover *d, unsigned dir, int change);
/* Processes whose root could not be looked into for want of permission, at the last look. */
unsigned mrd_discover_denied(const mrd_discover *d);
unsigned mrd_discover_dirs(const mrd_discover *d);

#endif
