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
#define PATHS     (32u << 10) /* bytes of the paths of one slice */

typedef struct {
    DIR *stream;
    struct stat st;
    size_t rel_len; /* of the path to it, with its slash */
} level;

struct mrd_folder {
    char *proc_root, *path;
    bool claimed; /* named by a process; otherwise the operator's */
    mrd_safe_open_claim claim;
    mrd_safe_open_user user;
    int root, fd;
    dev_t dev;
    ino_t ino;
    mrd_strlist names;
    mrd_strlist emptied; /* subdirectories from which files were removed */
    /* A look under way. */
    size_t next_name; /* names.n means that all were found, or that there are none */
    bool looking;
    level levels[MRD_FOLDER_DEPTH + 1];
    size_t depth; /* open levels */
    char rel[PATH_MAX];
    uint64_t entries;
    int watches[MRD_FOLDER_WATCHES];
    size_t n_watches;
    mrd_folder_state state;
    char why[MRD_WHY_MAX], ignored[256], refused[256];
    mrd_folder_file found[MRD_FOLDER_SLICE];
    size_t n_found;
    char rels[PATHS]; /* their paths */
    size_t rels_len;
};

/* ---- Kinds ---- */

const char *
mrd_folder_kind(const char *name)
{
    static const struct {
        const char *suffix, *kind;
    } rows[] = {
        { ".pftrace", "Perfetto" }, /* output of a viewer for a device profile */
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

/* ---- The folder ---- */

mrd_folder *
mrd_folder_new(const mrd_folder_options *options)
{
    mrd_folder *f = calloc(1, sizeof(*f));

    if (f == NULL)
        return NULL;
    f->root = f->fd = -1;
    f->claimed = options->claim != NULL;
    f->user.uid = MRD_OWNED_ANY;
    if (f->claimed) {
        f->claim = *options->claim;
        f->user.uid = f->claim.uid;
    }
    f->proc_root = strdup(options->proc_root == NULL ? "/proc" : options->proc_root);
    f->path = strdup(options->path);
    if (f->proc_root == NULL || f->path == NULL) {
        mrd_folder_free(f, -1);
        return NULL;
    }
    return f;
}

void
mrd_folder_free(mrd_folder *f, int inotify)
{
    if (f == NULL)
        return;
    while (f->depth > 0)
        closedir(f->levels[--f->depth].stream);
    for (size_t i = 0; i < f->n_watches && inotify >= 0; i++)
        (void) inotify_rm_watch(inotify, f->watches[i]);
    mrd_strlist_fini(&f->names);
    mrd_strlist_fini(&f->emptied);
    if (f->fd >= 0)
        close(f->fd);
    if (f->root >= 0)
        close(f->root);
    free(f->proc_root);
    free(f->path);
    free(f);
}

mrd_err
mrd_folder_name(mrd_folder *f, const char *name)
{
    if (mrd_folder_is_named(f, name))
        return MRD_OK;
    return f->names.n == MRD_FOLDER_NAMES ? MRD_LIMIT
                                          : mrd_strlist_add(&f->names, mrd_str_of(name));
}

void
mrd_folder_whole(mrd_folder *f)
{
    mrd_strlist_fini(&f->names);
}

/* ---- Opening it ---- */

static bool
refuse(mrd_folder *f, const mrd_why *why, bool lost)
{
    f->state.err = MRD_DENIED;
    f->state.lost = lost;
    snprintf(f->why, sizeof(f->why), "%s", why->text);
    return false;
}

bool
mrd_folder_is_named(const mrd_folder *f, const char *rel)
{
    return mrd_strlist_has(&f->names, mrd_str_of(rel));
}

/* Opens the directory that the path refers to now, which may have been created or replaced. */
static bool
open_folder(mrd_folder *f)
{
    mrd_why why = { 0 };
    struct stat st;
    int fd = -1;
    mrd_err err;

    if (!f->claimed) {
        fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    } else if (f->root < 0 &&
               mrd_safe_open_root(f->proc_root, &f->claim, &f->root, &f->user, &why) != MRD_OK) {
        return refuse(f, &why, true);
    } else {
        err = mrd_safe_open_dir(f->root, f->path, &f->user, &fd, &why);
        if (err == MRD_DENIED && f->fd < 0)
            return refuse(f, &why, false);
    }
    if (fd < 0 || fstat(fd, &st) != 0) {
        if (fd >= 0)
            close(fd);
        return f->fd >= 0;
    }
    if (f->fd >= 0)
        close(f->fd);
    f->fd = fd;
    return true;
}

static void
watch(mrd_folder *f, int inotify, int fd)
{
    char path[64];
    int wd;

    if (inotify < 0 || f->n_watches == MRD_FOLDER_WATCHES) {
        f->state.blind = true;
        return;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if ((wd = inotify_add_watch(inotify, path, WATCHED)) < 0) {
        f->state.blind = true;
        return;
    }
    for (size_t i = 0; i < f->n_watches; i++)
        if (f->watches[i] == wd)
            return;
    f->watches[f->n_watches++] = wd;
}

/* ---- Searching it ---- */

/* Takes the descriptor. */
static void
enter(mrd_folder *f, int inotify, int fd, size_t rel_len)
{
    level *l = &f->levels[f->depth];

    *l = (level){ .rel_len = rel_len };
    if (fstat(fd, &l->st) != 0 || (l->stream = fdopendir(fd)) == NULL) {
        close(fd);
        return;
    }
    watch(f, inotify, fd);
    f->depth++;
}

static void
count_refused(mrd_folder *f, const char *rel)
{
    if (f->state.refused++ == 0)
        snprintf(f->refused, sizeof(f->refused), "%.255s", rel);
}

/* Reads a trace file that changed of late: it may be replaced or removed before it is complete. */
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
meet_file(mrd_folder *f, int up, const char *name, const struct stat *st, const struct stat *parent)
{
    mrd_folder_file *to = &f->found[f->n_found];
    size_t len;

    if (mrd_folder_kind(f->rel) == NULL && !mrd_folder_is_named(f, f->rel)) {
        if (f->state.ignored++ == 0)
            snprintf(f->ignored, sizeof(f->ignored), "%.255s", f->rel);
        return;
    }
    if (!mrd_safe_open_is_own(&f->user, st, parent)) {
        count_refused(f, f->rel);
        return;
    }
    len = strlen(f->rel) + 1;
    to->rel = memcpy(f->rels + f->rels_len, f->rel, len);
    f->rels_len += len;
    to->size = (uint64_t) st->st_size;
    to->mtime = (mrd_wall_ns){ st->st_mtim.tv_sec * MRD_SEC + st->st_mtim.tv_nsec };
    to->ctime = (mrd_wall_ns){ st->st_ctim.tv_sec * MRD_SEC + st->st_ctim.tv_nsec };
    look_into(up, name, st, to);
    f->n_found++;
}

/* Opens the subdirectory first and checks it afterwards, because a name that was checked may refer
 * to another directory by now. */
static void
meet_folder(mrd_folder *f, int inotify, int up, const char *name, size_t rel_len)
{
    struct stat st;
    int fd;

    if (f->depth > MRD_FOLDER_DEPTH) {
        f->state.deep++;
        return;
    }
    fd = openat(up, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &st) != 0 || !mrd_safe_open_may_enter(&f->user, &st)) {
        count_refused(f, f->rel);
        close(fd);
        return;
    }
    enter(f, inotify, fd, rel_len);
}

/* Handles an entry of the innermost open level. */
static void
meet(mrd_folder *f, int inotify, const char *name)
{
    level *l = &f->levels[f->depth - 1];
    size_t n = strlen(name);
    int up = dirfd(l->stream);
    struct stat st;

    if (l->rel_len + n + 2 > sizeof(f->rel) || fstatat(up, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    memcpy(f->rel + l->rel_len, name, n + 1);
    if (S_ISREG(st.st_mode)) {
        meet_file(f, up, name, &st, &l->st);
    } else if (!S_ISDIR(st.st_mode)) {
        count_refused(f, f->rel);
    } else if (!mrd_safe_open_may_enter(&f->user, &st)) {
        count_refused(f, f->rel);
    } else {
        size_t len = l->rel_len + n;

        meet_folder(f, inotify, up, name, len + 1);
        f->rel[len] = '/';
    }
}

/* Looks for the next named file; searches nothing below the directory itself. */
static void
meet_name(mrd_folder *f, int inotify)
{
    const char *name = f->names.v[f->next_name++];

    if (strchr(name, '/') == NULL && *name != '\0')
        meet(f, inotify, name);
    while (f->depth > (f->next_name < f->names.n ? 1u : 0u))
        closedir(f->levels[--f->depth].stream);
}

static bool
begin(mrd_folder *f, int inotify)
{
    f->state =
        (mrd_folder_state){ .why = f->why, .ignored_name = f->ignored, .refused_name = f->refused };
    f->why[0] = f->ignored[0] = f->refused[0] = '\0';
    f->entries = 0;
    f->state.there = open_folder(f);
    f->state.blind = !f->state.there;
    if (!f->state.there)
        return false;
    f->looking = true;
    f->next_name = 0;
    enter(f, inotify, openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0);
    return true;
}

/* Returns true if the slice can take one more file, with a path of any length. */
static bool
has_room(const mrd_folder *f)
{
    return f->n_found < MRD_FOLDER_SLICE && f->rels_len + sizeof(f->rel) <= sizeof(f->rels);
}

void
mrd_folder_slice(mrd_folder *f, int inotify, mrd_folder_state *ret_state)
{
    mrd_local_ns end = mrd_local_add(mrd_local_now(), MRD_FOLDER_TIME);

    f->n_found = f->rels_len = 0;
    if (f->looking || begin(f, inotify)) {
        while (f->depth > 0 && has_room(f) && mrd_local_before(mrd_local_now(), end)) {
            const struct dirent *e;

            if (f->next_name < f->names.n) {
                meet_name(f, inotify);
                continue;
            }
            e = readdir(f->levels[f->depth - 1].stream);
            if (e != NULL && ++f->entries > MRD_FOLDER_ENTRIES) {
                f->state.left_out = 1;
                e = NULL;
            }
            if (e == NULL)
                closedir(f->levels[--f->depth].stream);
            else if (e->d_name[0] != '.')
                meet(f, inotify, e->d_name);
        }
    }
    f->state.over = f->depth == 0;
    f->looking = !f->state.over;
    *ret_state = f->state;
}

const mrd_folder_file *
mrd_folder_found(const mrd_folder *f, size_t *ret_n)
{
    *ret_n = f->n_found;
    return f->found;
}

/* Returns true for the same file, or for a directory of the directory's user. */
static bool
may_remove(const mrd_folder *f, const struct stat *st, const struct stat *want)
{
    if (want != NULL)
        return st->st_ino == want->st_ino && st->st_dev == want->st_dev;
    return S_ISDIR(st->st_mode) &&
           (f->user.uid == MRD_OWNED_ANY || f->user.uid == (int64_t) st->st_uid);
}

/* Removes a name below `root`: the file `want`, or, if NULL, an empty directory. */
static bool
remove_name(const mrd_folder *f, int root, const char *path, const struct stat *want)
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
    if ((fd = mrd_safe_open_descend(root, up, &f->user)) < 0)
        return false;
    good = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && may_remove(f, &st, want) &&
           unlinkat(fd, name, want == NULL ? AT_REMOVEDIR : 0) == 0;
    close(fd);
    return good;
}

/* Notes a directory for mrd_folder_tidy. If out of memory, the directory stays. */
static void
remember_emptied(mrd_folder *f, const char *path)
{
    if (!mrd_strlist_has(&f->emptied, mrd_str_of(path)))
        (void) mrd_strlist_add(&f->emptied, mrd_str_of(path));
}

void
mrd_folder_remove(mrd_folder *f, const char *rel, int fd)
{
    char path[PATH_MAX];
    struct stat st;
    char *slash;

    if (f->fd < 0 || strlen(rel) >= sizeof(path) || fstat(fd, &st) != 0)
        return;
    strcpy(path, rel);
    if (!remove_name(f, f->fd, path, &st))
        return;
    slash = strrchr(path, '/');
    *(slash == NULL ? path : slash) = '\0';
    remember_emptied(f, path);
}

void
mrd_folder_tidy(mrd_folder *f)
{
    for (size_t i = f->emptied.n; i-- > 0;) {
        char *path = f->emptied.v[i], *slash;

        while (*path != '\0' && remove_name(f, f->fd, path, NULL)) {
            slash = strrchr(path, '/');
            *(slash == NULL ? path : slash) = '\0';
        }
        if (*path == '\0' && f->root >= 0)
            (void) remove_name(f, f->root, f->path, NULL);
    }
    mrd_strlist_fini(&f->emptied);
}

mrd_err
mrd_folder_open(mrd_folder *f, const char *rel, int *ret_fd, struct stat *ret_st, mrd_why *why)
{
    if (f->fd < 0)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "its folder does not exist");
    return mrd_safe_open_file(f->fd, rel, &f->user, ret_fd, ret_st, why);
}
