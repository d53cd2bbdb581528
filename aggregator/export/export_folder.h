/*
 * aggregator/export/export_folder.h - copies one session into a directory of shared storage that
 * other users may write to at the same time.
 *
 * Paths   Every file and directory below the target is opened relative to the descriptor of its
 *         parent, and no link is followed. So renames and replacements cannot make us write outside
 *         of the target. Only files and directories that we created change owner or permissions.
 *         The session's directory and its subdirectories must belong to us or to the target's
 *         owner, or the export is refused.
 * Files   Each file is written under a temporary name, synced and renamed, and its directory is
 *         synced. Directories and their parents are synced once per attempt. A file is not copied
 *         again if size, time (in seconds if the target has no finer times) and owner match and it
 *         has only one hard link. New files get owner, group and permissions of the target.
 * Owner   If the options name an owner, the session's directory is ours with mode 0700, and its
 *         files have 0600, until the copy is complete. Other files in it are removed. Then the
 *         contents, and last the directory itself, are given to the user and the user's primary
 *         group. A directory that belongs to the user already is only compared, and must contain
 *         the session unchanged.
 * We      "Ours" means: with the owner that the file system shows for a file that we create. It
 *         may differ from our user, because a file server may map root to another user.
 *
 * Threads: an export belongs to one thread.
 */
#ifndef MRD_AGGREGATOR_EXPORT_EXPORT_FOLDER_H
#define MRD_AGGREGATOR_EXPORT_EXPORT_FOLDER_H

#include "base/buf.h"

typedef struct mrd_export_folder mrd_export_folder;

typedef struct {
    const char *target; /* an existing directory; may be a link */
    /* path of the session's directory below the target; it is created with its parents */
    const char *below;
    /* id of the user that receives the copy; -1 means that the owner stays */
    int64_t owner;
    int64_t rate; /* bytes/s, 0: no limit */
    /* called between steps; the export is cancelled when it returns false */
    bool (*going_on)(void *self);
    void *self;
} mrd_export_folder_options;

/* Opens or creates the session's directory. The texts in `options` are borrowed. Errors: IO, FULL,
 * DENIED (the directory belongs to another user), NOMEM. */
mrd_err mrd_export_folder_open(const mrd_export_folder_options *options,
                               mrd_export_folder **ret_folder, mrd_why *why);
/* Copies the file `from` to `name` ("profile/x") in the directory, and adds the written bytes to
 * *bytes. If the directory was given to the user before, compares the files instead. Errors: IO,
 * FULL, DENIED, EXISTS (the user's copy has other contents), CANCELLED, NOMEM. */
mrd_err mrd_export_folder_put(mrd_export_folder *folder, const char *name, const char *from,
                              uint64_t *bytes, mrd_why *why);
/* Completes the export after the last file: checks that the directory still has its name, and gives
 * it to its owner. `names` are n lists of all copied files. Errors: DENIED (CAP_CHOWN is missing),
 * IO, EXISTS (the directory was renamed or replaced meanwhile), NOMEM. */
mrd_err mrd_export_folder_finish(mrd_export_folder *folder, const mrd_strlist *names, size_t n,
                                 mrd_why *why);
void mrd_export_folder_close(mrd_export_folder *folder); /* NULL is fine */

#endif
