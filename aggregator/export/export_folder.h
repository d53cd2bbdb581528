/*
 * aggregator/export/export_folder.h - copies one session into a directory of shared storage. Other
 * users may write to the target directory at the same time.
 *
 * Paths   Every file and directory below the target is opened relative to the descriptor of its
 *         parent, and links are not followed. So a user who renames or replaces directories cannot
 *         make the export write outside of the target. The export changes owner and permissions
 *         only of files and directories that it created. The session's directory and its
 *         subdirectories must be the exporter's own or belong to the target's owner, otherwise the
 *         export is refused.
 * Files   Each file is written under a temporary name, synced and renamed, and its directory is
 *         synced. Directories and their parents are synced once per attempt. A file is not copied
 *         again if its copy has the same size and time, an expected owner and one hard link. Times
 *         are compared in seconds if the target has no finer times. New files get owner, group and
 *         permissions of the target.
 * Owner   If the options name an owner, the copy is private at first: the session's directory is
 *         the exporter's own with mode 0700, and its files have mode 0600. At the end, other files
 *         in the directory are removed. Then the contents and last the directory are given to the
 *         user and to the user's primary group. If the directory already belongs to the user,
 *         nothing is written. The files are only compared with the session's files, and must be the
 *         same.
 * Own     A file is the exporter's own if its owner is the one that the file system shows for files
 *         that this process creates. This may be another user than the user of the process, because
 *         a file server may map root to another user.
 *
 * Threads: only one thread at a time may use an export.
 */
#ifndef MRD_AGGREGATOR_EXPORT_EXPORT_FOLDER_H
#define MRD_AGGREGATOR_EXPORT_EXPORT_FOLDER_H

#include "base/buf.h"

typedef struct mrd_export_folder mrd_export_folder;

typedef struct {
    const char *target; /* an existing directory; may be a link */
    /* path of the session's directory below the target. Missing directories are created */
    const char *below;
    /* id of the user that receives the copy; -1 means that no user does */
    int64_t owner;
    int64_t rate; /* maximum speed in bytes/s; 0 means no limit */
    /* called between the steps of an export; if it returns false, the export is cancelled */
    bool (*going_on)(void *self);
    void *self;
} mrd_export_folder_options;

/* Opens or creates the session's directory. The caller keeps the texts in `options` valid. Errors:
 * IO, FULL, DENIED (the directory belongs to another user), NOMEM. */
mrd_err mrd_export_folder_open(const mrd_export_folder_options *options,
                               mrd_export_folder **ret_folder, mrd_why *why);
/* Copies the file `from` to `name` (for example "profile/x") below the session's directory. Adds
 * the number of written bytes to *bytes. If the directory already belongs to the user, only
 * compares the files. Errors: IO, FULL, DENIED, EXISTS (the user's copy differs), CANCELLED,
 * NOMEM. */
mrd_err mrd_export_folder_put(mrd_export_folder *folder, const char *name, const char *from,
                              uint64_t *bytes, mrd_why *why);
/* Completes the export after the last file. Checks that the path still leads to the session's
 * directory, and gives the directory to the user if the options name one. `names` is an array of
 * `n` lists, which together contain all copied files. Errors: DENIED (CAP_CHOWN is missing), IO,
 * EXISTS (the directory was renamed or replaced), NOMEM. */
mrd_err mrd_export_folder_finish(mrd_export_folder *folder, const mrd_strlist *names, size_t n,
                                 mrd_why *why);
void mrd_export_folder_close(mrd_export_folder *folder); /* ignores NULL */

#endif
