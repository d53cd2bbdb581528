#include "agent/files/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/conf/agent_waits.h"
#include "base/obj.h"
#include "trace/import/capture_names.h"
#include "trace/import/import.h"

#define WATCHED   (IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ONLYDIR)
#define FRAMEWORK "framework-trace"
/* maximum total bytes of the paths that one slice of a search returns */
#define PATHS (32u << 10)

typedef struct {
    DIR *stream;
    struct stat st;
    /* length of the path from the capture directory to this directory, with a slash at the end */
    size_t rel_len;
} level;

struct mrd_folder {
    char *proc_root, *path;
    bool claimed; /* true if a process named the directory, false if the operator named it */
    mrd_safe_open_claim claim;
    mrd_safe_open_user user;
    int root, fd;
    dev_t dev;
    ino_t ino;
    mrd_strlist names;
    mrd_strlist emptied; /* subdirectories from which files were removed */
    /* The members from here on are the state of the current search. */
    /* index in `names` of the next named file; names.n means that none is left */
    size_t next_name;
    bool looking;
    level levels[MRD_FOLDER_DEPTH + 1];
    size_t depth; /* number of open directories, each one a subdirectory of the previous one */
    char rel[PATH_MAX];
    uint64_t entries;
    int watches[MRD_FOLDER_WATCHES];
    size_t n_watches;
    mrd_folder_state state;
    char why[MRD_WHY_MAX], ignored[256], refused[256];
    mrd_folder_file found[MRD_FOLDER_SLICE];
    size_t n_found;
    char rels[PATHS]; /* buffer for the paths of found files */
    size_t rels_len;
};

/* ---- Kinds of files ---- */

const char *
mrd_folder_kind(const char *name)
{
    static const struct {
        const char *suffix, *kind;
    } rows[] = {
        /* the vendor's viewer of device profiles can write such files */
        { ".pftrace", "Perfetto" },
        { ".json", FRAMEWORK },
        { ".json.gz", FRAMEWORK },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        if (mrd_str_ends(mrd_str_of(name), rows[i].suffix))
            return rows[i].kind;
    return mrd_capture_kind(mrd_str_of(name));
}

bool
mrd_folder_is_trace(const char *name)
{
    static const char *const ends[] = { ".json", ".json.gz", ".xplane.pb" };

    for (size_t i = 0; i < MRD_COUNT(ends); i++)
        if (mrd_str_ends(mrd_str_of(name), ends[i]))
            return true;
    return false;
}

bool
mrd_folder_content(int fd, const char *name)
{
    const char *kind = mrd_folder_kind(name);
    mrd_in *in = NULL;
    mrd_bytes data;
    bool known = false;

    if (kind == NULL || strcmp(kind, FRAMEWORK) != 0)
        return kind != NULL;
    if (mrd_in_fd(fd, name, &in, NULL) == MRD_OK &&
        mrd_in_fill(in, MRD_PROBE_BYTES, &data, NULL) == MRD_OK)
        known = mrd_import_detect((mrd_str){ (const char *) data.p, data.len }, name) != NULL;
    mrd_in_close(in);
    return known;
}

/* ---- Creating and freeing the folder ---- */

mrd_folder *
mrd_folder_new(const mrd_folder_options *options)
{
    mrd_folder *folder = calloc(1, sizeof(*folder));

    if (folder == NULL)
        return NULL;
    folder->root = folder->fd = -1;
    folder->claimed = options->claim != NULL;
    folder->user.uid = MRD_OWNED_ANY;
    if (folder->claimed) {
        folder->claim = *options->claim;
        folder->user.uid = folder->claim.uid;
    }
    folder->proc_root = strdup(options->proc_root == NULL ? "/proc" : options->proc_root);
    folder->path = strdup(options->path);
    if (folder->proc_root == NULL || folder->path == NULL) {
        mrd_folder_free(folder, -1);
        return NULL;
    }
    return folder;
}

void
mrd_folder_free(mrd_folder *folder, int inotify)
{
    if (folder == NULL)
        return;
    while (folder->depth > 0)
        closedir(folder->levels[--folder->depth].stream);
    for (size_t i = 0; i < folder->n_watches && inotify >= 0; i++)
        (void) inotify_rm_watch(inotify, folder->watches[i]);
    mrd_strlist_fini(&folder->names);
    mrd_strlist_fini(&folder->emptied);
    if (folder->fd >= 0)
        close(folder->fd);
    if (folder->root >= 0)
        close(folder->root);
    free(folder->proc_root);
    free(folder->path);
    free(folder);
}

mrd_err
mrd_folder_name(mrd_folder *folder, const char *name)
{
    if (mrd_folder_is_named(folder, name))
        return MRD_OK;
    return folder->names.n == MRD_FOLDER_NAMES ? MRD_LIMIT
                                               : mrd_strlist_add(&folder->names, mrd_str_of(name));
}

void
mrd_folder_whole(mrd_folder *folder)
{
    mrd_strlist_fini(&folder->names);
}

/* ---- Opening the capture directory ---- */

static bool
refuse(mrd_folder *folder, const mrd_why *why, bool lost)
{
    folder->state.err = MRD_DENIED;
    folder->state.lost = lost;
    snprintf(folder->why, sizeof(folder->why), "%s", why->text);
    return false;
}

bool
mrd_folder_is_named(const mrd_folder *folder, const char *rel)
{
    return mrd_strlist_has(&folder->names, mrd_str_of(rel));
}

/* Opens the directory at the path. The directory may have been created or replaced since the last
 * search. */
static bool
open_folder(mrd_folder *folder)
{
    mrd_why why = { 0 };
    struct stat st;
    int fd = -1;
    mrd_err err;

    if (!folder->claimed) {
        fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    } else if (folder->root < 0 &&
               mrd_safe_open_root(folder->proc_root, &folder->claim, &folder->root, &folder->user,
                                  &why) != MRD_OK) {
        return refuse(folder, &why, true);
    } else {
        err = mrd_safe_open_dir(folder->root, folder->path, &folder->user, &fd, &why);
        if (err == MRD_DENIED && folder->fd < 0)
            return refuse(folder, &why, false);
    }
    if (fd < 0 || fstat(fd, &st) != 0) {
        if (fd >= 0)
            close(fd);
        return folder->fd >= 0;
    }
    if (folder->fd >= 0)
        close(folder->fd);
    folder->fd = fd;
    return true;
}

static void
watch(mrd_folder *folder, int inotify, int fd)
{
    char path[64];
    int wd;

    if (inotify < 0 || folder->n_watches == MRD_FOLDER_WATCHES) {
        folder->state.blind = true;
        return;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if ((wd = inotify_add_watch(inotify, path, WATCHED)) < 0) {
        folder->state.blind = true;
        return;
    }
    for (size_t i = 0; i < folder->n_watches; i++)
        if (folder->watches[i] == wd)
            return;
    folder->watches[folder->n_watches++] = wd;
}

/* ---- Searching the capture directory ---- */

/* Adds a subdirectory to the search, so that its entries are read next. Takes ownership of fd. */
static void
enter(mrd_folder *folder, int inotify, int fd, size_t rel_len)
{
    level *l = &folder->levels[folder->depth];

    *l = (level){ .rel_len = rel_len };
    if (fstat(fd, &l->st) != 0 || (l->stream = fdopendir(fd)) == NULL) {
        close(fd);
        return;
    }
    watch(folder, inotify, fd);
    folder->depth++;
}

static void
count_refused(mrd_folder *folder, const char *rel)
{
    if (folder->state.refused++ == 0)
        snprintf(folder->refused, sizeof(folder->refused), "%.255s", rel);
}

/* Reads the marks (hashes of small parts) of a trace file that changed recently. They are needed if
 * the file is replaced or removed before it is complete. */
static void
look_into(int up, const char *name, const struct stat *st, mrd_folder_file *to)
{
    struct stat now;
    int fd;

    to->is_trace = mrd_folder_is_trace(name) && st->st_size > 0;
    to->marks.size = 0;
    if (!to->is_trace || mrd_wall_diff(mrd_wall_now(), to->mtime) > MRD_WAIT_FILE_LATELY)
        return;
    fd = openat(up, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino) {
        mrd_file_marks_read(fd, to->size, &to->marks);
        to->is_trace = mrd_folder_content(fd, name);
    }
    close(fd);
}

static void
meet_file(mrd_folder *folder, int up, const char *name, const struct stat *st,
          const struct stat *parent)
{
    mrd_folder_file *to = &folder->found[folder->n_found];
    size_t len;

    if (mrd_folder_kind(folder->rel) == NULL && !mrd_folder_is_named(folder, folder->rel)) {
        if (folder->state.ignored++ == 0)
            snprintf(folder->ignored, sizeof(folder->ignored), "%.255s", folder->rel);
        return;
    }
    if (!mrd_safe_open_is_own(&folder->user, st, parent)) {
        count_refused(folder, folder->rel);
        return;
    }
    len = strlen(folder->rel) + 1;
    to->rel = memcpy(folder->rels + folder->rels_len, folder->rel, len);
    folder->rels_len += len;
    to->size = (uint64_t) st->st_size;
    to->mtime = (mrd_wall_ns){ st->st_mtim.tv_sec * MRD_SEC + st->st_mtim.tv_nsec };
    to->ctime = (mrd_wall_ns){ st->st_ctim.tv_sec * MRD_SEC + st->st_ctim.tv_nsec };
    look_into(up, name, st, to);
    folder->n_found++;
}

/* Opens a subdirectory and adds it to the search. The open descriptor is checked and not the name,
 * because the name could refer to another directory after the check. */
static void
meet_folder(mrd_folder *folder, int inotify, int up, const char *name, size_t rel_len)
{
    struct stat st;
    int fd;

    if (folder->depth > MRD_FOLDER_DEPTH) {
        folder->state.deep++;
        return;
    }
    fd = openat(up, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &st) != 0 || !mrd_safe_open_may_enter(&folder->user, &st)) {
        count_refused(folder, folder->rel);
        close(fd);
        return;
    }
    enter(folder, inotify, fd, rel_len);
}

/* Handles an entry of the subdirectory that was opened last. */
static void
meet(mrd_folder *folder, int inotify, const char *name)
{
    level *l = &folder->levels[folder->depth - 1];
    size_t n = strlen(name);
    int up = dirfd(l->stream);
    struct stat st;

    if (l->rel_len + n + 2 > sizeof(folder->rel) ||
        fstatat(up, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    memcpy(folder->rel + l->rel_len, name, n + 1);
    if (S_ISREG(st.st_mode)) {
        meet_file(folder, up, name, &st, &l->st);
    } else if (!S_ISDIR(st.st_mode)) {
        count_refused(folder, folder->rel);
    } else if (!mrd_safe_open_may_enter(&folder->user, &st)) {
        count_refused(folder, folder->rel);
    } else {
        size_t len = l->rel_len + n;

        meet_folder(folder, inotify, up, name, len + 1);
        folder->rel[len] = '/';
    }
}

/* Looks for the next file that a process named. These files are directly in the capture directory,
 * so no subdirectory is searched. */
static void
meet_name(mrd_folder *folder, int inotify)
{
    const char *name = folder->names.v[folder->next_name++];

    if (strchr(name, '/') == NULL && *name != '\0')
        meet(folder, inotify, name);
    while (folder->depth > (folder->next_name < folder->names.n ? 1u : 0u))
        closedir(folder->levels[--folder->depth].stream);
}

static bool
begin(mrd_folder *folder, int inotify)
{
    folder->state = (mrd_folder_state){ .why = folder->why,
                                        .ignored_name = folder->ignored,
                                        .refused_name = folder->refused };
    folder->why[0] = folder->ignored[0] = folder->refused[0] = '\0';
    folder->entries = 0;
    folder->state.there = open_folder(folder);
    folder->state.blind = !folder->state.there;
    if (!folder->state.there)
        return false;
    folder->looking = true;
    folder->next_name = 0;
    enter(folder, inotify, openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0);
    return true;
}

/* Returns true if the current slice can return one more file, with a path of any length. */
static bool
has_room(const mrd_folder *folder)
{
    return folder->n_found < MRD_FOLDER_SLICE &&
           folder->rels_len + sizeof(folder->rel) <= sizeof(folder->rels);
}

void
mrd_folder_slice(mrd_folder *folder, int inotify, mrd_folder_state *ret_state)
{
    mrd_local_ns end = mrd_local_add(mrd_local_now(), MRD_FOLDER_TIME);

    folder->n_found = folder->rels_len = 0;
    if (folder->looking || begin(folder, inotify)) {
        while (folder->depth > 0 && has_room(folder) && mrd_local_before(mrd_local_now(), end)) {
            const struct dirent *entry;

            if (folder->next_name < folder->names.n) {
                meet_name(folder, inotify);
                continue;
            }
            entry = readdir(folder->levels[folder->depth - 1].stream);
            if (entry != NULL && ++folder->entries > MRD_FOLDER_ENTRIES) {
                folder->state.left_out = 1;
                entry = NULL;
            }
            if (entry == NULL)
                closedir(folder->levels[--folder->depth].stream);
            else if (entry->d_name[0] != '.')
                meet(folder, inotify, entry->d_name);
        }
    }
    folder->state.over = folder->depth == 0;
    folder->looking = !folder->state.over;
    *ret_state = folder->state;
}

const mrd_folder_file *
mrd_folder_found(const mrd_folder *folder, size_t *ret_n)
{
    *ret_n = folder->n_found;
    return folder->found;
}

/* Returns true if the file or directory with the stat result `st` may be removed. If `want` is not
 * NULL, `st` must be exactly this file. Otherwise it must be a directory of the user. */
static bool
may_remove(const mrd_folder *folder, const struct stat *st, const struct stat *want)
{
    if (want != NULL)
        return st->st_ino == want->st_ino && st->st_dev == want->st_dev;
    return S_ISDIR(st->st_mode) &&
           (folder->user.uid == MRD_OWNED_ANY || folder->user.uid == (int64_t) st->st_uid);
}

/* Removes the entry `path` below `root`. If `want` is not NULL, the entry must be exactly this
 * file. Otherwise it must be an empty directory. */
static bool
remove_name(const mrd_folder *folder, int root, const char *path, const struct stat *want)
{
    char up[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t) (slash - path);
    const char *name = slash == NULL ? path : slash + 1;
    struct stat st;
    int fd;
    bool good;

    if (n >= sizeof(up) || *name == '\0')
        return false;
    memcpy(up, path, n);
    up[n] = '\0';
    if ((fd = mrd_safe_open_descend(root, up, &folder->user)) < 0)
        return false;
    good = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && may_remove(folder, &st, want) &&
           unlinkat(fd, name, want == NULL ? AT_REMOVEDIR : 0) == 0;
    close(fd);
    return good;
}

/* Remembers a directory from which a file was removed, for mrd_folder_tidy. If out of memory, the
 * directory will not be removed. */
static void
remember_emptied(mrd_folder *folder, const char *path)
{
    if (!mrd_strlist_has(&folder->emptied, mrd_str_of(path)))
        (void) mrd_strlist_add(&folder->emptied, mrd_str_of(path));
}

void
mrd_folder_remove(mrd_folder *folder, const char *rel, int fd)
{
    char path[PATH_MAX];
    struct stat st;
    char *slash;

    if (folder->fd < 0 || strlen(rel) >= sizeof(path) || fstat(fd, &st) != 0)
        return;
    strcpy(path, rel);
    if (!remove_name(folder, folder->fd, path, &st))
        return;
    slash = strrchr(path, '/');
    *(slash == NULL ? path : slash) = '\0';
    remember_emptied(folder, path);
}

void
mrd_folder_tidy(mrd_folder *folder)
{
    for (size_t i = folder->emptied.n; i-- > 0;) {
        char *path = folder->emptied.v[i], *slash;

        while (*path != '\0' && remove_name(folder, folder->fd, path, NULL)) {
            slash = strrchr(path, '/');
            *(slash == NULL ? path : slash) = '\0';
        }
        if (*path == '\0' && folder->root >= 0)
            (void) remove_name(folder, folder->root, folder->path, NULL);
    }
    mrd_strlist_fini(&folder->emptied);
}

mrd_err
mrd_folder_open(mrd_folder *folder, const char *rel, int *ret_fd, struct stat *ret_st, mrd_why *why)
{
    if (folder->fd < 0)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "its folder does not exist");
    return mrd_safe_open_file(folder->fd, rel, &folder->user, ret_fd, ret_st, why);
}
