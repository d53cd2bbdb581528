/*
 * aggregator/export/export_folder.h - copies one session into a directory of shared storage that other
 * users may write to at the same time
 *
 * Paths   all files below the target are opened relative to its parent's descriptor, and no link is
 *         followed. So renames and replacements cannot make us write outside of the target. Only
 *         files and directories that we created change owner or permissions. The session's
 *         directory and its subdirectories must belong to us or to the target's owner, or the
 *         export is refused.
 * Files   are written under a temporary name, synced and renamed, and their directory is synced.
 *         Directories and their parents are synced once per attempt. A file is not copied again if
 *         size, time (in seconds if the target has no finer times) and owner match and it has one
 *         name. Owner, group and permissions follow the target.
 * Owner   with an owner, the session's directory is ours with mode 0700, and its files have 0600,
 *         until the copy is complete. Other files in it are removed. Then the contents, and last
 *         the directory itself, are given to the user and the user's primary group. A directory
 *         that belongs to the user already is only compared, and must contain the session
 *         unchanged.
 * We      are the owner that the file system shows for a file that we create, because a server may
 *         map root to another user.
 *
 * Threads: belongs to one.
 */
#ifndef MRD_AGGREGATOR_EXPORT_EXPORT_FOLDER_H
#define MRD_AGGREGATOR_EXPORT_EXPORT_FOLDER_H

#include "base/buf.h"

typedef struct mrd_export_folder mrd_export_folder;

typedef struct {
    const char *target;           /* an existing directory; may be a link */
    const char *below;            /* the session's directory below it; created with its parents */
    int64_t owner;                /* the user that receives it. -1 means the owner stays */
    int64_t rate;                 /* bytes/s, 0: no limit */
    bool (*going_on)(void *self); /* called at each step; false cancels the export */
    void *self;
} mrd_export_folder_options;

/* Text is borrowed. Errors: IO, FULL, DENIED (it belongs to another user), NOMEM. */
mrd_err mrd_export_folder_open(const mrd_export_folder_options *options,
                               mrd_export_folder **ret_folder, mrd_why *why);
/* Copies the file `from` to `name` ("profile/x") in the directory, and adds the written bytes to
 * *bytes. In a directory that belongs to the user, compares instead. Errors: IO, FULL, DENIED,
 * EXISTS (it belongs to the user and has other contents), CANCELLED, NOMEM. */
mrd_err mrd_export_folder_put(mrd_export_folder *folder, const char *name, const char *from,
                              uint64_t *bytes, mrd_why *why);
/* All files are copied: checks that the directory still has its name, and gives it to its owner.
 * `names` are n lists of all copied files. Errors: DENIED (CAP_CHOWN), IO, EXISTS (it was renamed
 * or replaced meanwhile), NOMEM. */
mrd_err mrd_export_folder_finish(mrd_export_folder *folder, const mrd_strlist *names, size_t n,
                                 mrd_why *why);
void mrd_export_folder_close(mrd_export_folder *folder); /* NULL is fine */

#endif
