/*
 * agent/rings/discover.h - finds the directories of rings. These are the node's ring directory and,
 * in the host's pid namespace, the /dev/shm of every container through /proc/<pid>/root.
 *
 * Inotify reports new files. Searches are also repeated, because inotify does not work everywhere.
 * A search is split into turns. One turn takes a few milliseconds for all directories together,
 * regardless of the number of files. The search through the root directories of processes is split
 * in the same way. A user may have at most as many directories as there are free slots. Only one
 * thread may call these functions.
 */
#ifndef MRD_AGENT_RINGS_DISCOVER_H
#define MRD_AGENT_RINGS_DISCOVER_H

#include "base/buf.h"
#include "base/clock.h"

typedef struct mrd_discover mrd_discover;

/* Called in every search for every ring file and every note of losses (agent/rings/ring_notes.h).
 * Returns MRD_OK also if the file is already open or not wanted. Returns MRD_AGAIN to request
 * another search soon. */
typedef mrd_err (*mrd_discover_found)(void *self, unsigned dir, int dir_fd, const char *file_name);

/* Starts to search for ring directories. Errors: NOMEM. */
mrd_err mrd_discover_open(const char *ring_dir, const char *proc_root, bool containers,
                          mrd_discover **ret_discover, mrd_why *why);
void mrd_discover_close(mrd_discover *discover);
/* Searches for rings if a search is due. */
void mrd_discover_step(mrd_discover *discover, mrd_local_ns now, mrd_discover_found found,
                       void *self);
/* Searches all directories for rings now, for at most 2 s. */
void mrd_discover_all(mrd_discover *discover, mrd_discover_found found, void *self);
/* Returns the inotify descriptor, or -1 if inotify is not available. */
int mrd_discover_fd(const mrd_discover *discover);
mrd_local_ns
/* Returns when mrd_discover_step is due, unless inotify reports a change before. */
mrd_discover_next(const mrd_discover *discover);
int mrd_discover_dir_fd(const mrd_discover *discover, unsigned dir);
/* Returns the user of a process that has this directory as its /dev/shm. If there are several,
 * prefers a process of root or of the directory's owner. */
uint32_t mrd_discover_dir_user(const mrd_discover *discover, unsigned dir);
/* Returns the Kubernetes uid of the pod that has the directory as its /dev/shm; "" if there is
 * none. */
const char *mrd_discover_dir_pod(const mrd_discover *discover, unsigned dir);
/* Adds `change` to the number of open rings in a directory. The directory stays open while it has
 * open rings. */
void mrd_discover_hold(mrd_discover *discover, unsigned dir, int change);
/* Returns how many root directories of processes the last search could not enter for lack of
 * permission. */
unsigned mrd_discover_denied(const mrd_discover *discover);
unsigned mrd_discover_dirs(const mrd_discover *discover);

#endif
