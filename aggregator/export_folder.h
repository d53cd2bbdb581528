/*
 * aggregator/export_folder.h - one session's copy in a folder of shared storage, which other users may write into at the same time.
 *
 * Ways    everything below the target is reached from its parent's descriptor, and no link is followed: whatever is renamed or
 *         replaced meanwhile, nothing outside of the target is written, and only what was made here changes owner or
 *         permissions. The session's folder and those below have to be ours or the target's owner's; else it is refused.
 * Files   each under a temporary name, synced, renamed, its folder synced. Folders and their parents are synced once in an attempt,
 *         new or not. A file that has the same size and time (to the second where the target keeps no more), one name and our owner
 *         is not copied again. Owner, group and permissions follow the target.
 * Owner   with one, the session's folder is ours, mode 0700, and its files 0600, until all is there; then what is in it goes to the
 *         user (and the user's primary group), the folder itself last; what is not of the session is removed before. Nothing is
 *         written into a folder that is the user's: it is compared, and has to hold the session as it is.
 * Who we are  is what the file system says of a file that we make: a server may turn root into somebody else.
 *
 * Threads: belongs to one.
 */
#ifndef MRD_AGGREGATOR_EXPORT_FOLDER_H
#define MRD_AGGREGATOR_EXPORT_FOLDER_H

#include "base/buf.h"

typedef struct mrd_export_folder mrd_export_folder;

typedef struct {
    const char *target;           /* an existing folder; may be a link */
    const char *below;            /* the session's folder below it; made, with those above */
    int64_t owner;                /* the user who gets it; -1: nobody */
    int64_t rate;                 /* bytes/s, 0: no limit */
    bool (*going_on)(void *self); /* asked at each step; false ends what is under way */
    void *self;
} mrd_export_folder_options;

/* Text is borrowed. Errors: IO, FULL, DENIED (it is somebody else's), NOMEM. */
mrd_err mrd_export_folder_open(const mrd_export_folder_options *options,
                               mrd_export_folder **ret_folder, mrd_why *why);
/* The file `from` as `name` ("profile/x") in the folder; adds the bytes that were written to *bytes. In a folder that is the
 * user's: compares. Errors: IO, FULL, DENIED, EXISTS (it is the user's and holds something else), CANCELLED, NOMEM. */
mrd_err mrd_export_folder_put(mrd_export_folder *f, const char *name, const char *from,
                              uint64_t *bytes, mrd_why *why);
/* All is there: the folder still has its name, and goes to its owner. names: n lists of all that was put.
 * Errors: DENIED (CAP_CHOWN), IO, EXISTS (it was renamed or replaced meanwhile), NOMEM. */
mrd_err mrd_export_folder_finish(mrd_export_folder *f, const mrd_strlist *names, size_t n,
                                 mrd_why *why);
void mrd_export_folder_close(mrd_export_folder *f); /* NULL is fine */

#endif
