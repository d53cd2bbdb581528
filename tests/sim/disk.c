#include "tests/sim/disk_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/vec.h"

#define DISKS_MAX 64
#define SECOND    1000000000
#define FILES_MAX 16384u     /* maximum number of concurrently open files of all machines */
#define FD_FIRST  0x40000000 /* a file descriptor is this + generation << 14 + index in `files` */

static sim_disk *disks[DISKS_MAX];
static const char *redirect_from, *redirect_to;
static open_file *files[FILES_MAX];
static unsigned generations[FILES_MAX], next_place;

static int
no(int err)
{
    errno = err;
    return -1;
}

/* ---- Hash of all calls, and injected faults ---- */

static void
mix(sim_disk *d, const sim_disk_op *op, int64_t result, const void *bytes, size_t len)
{
    uint64_t v[3] = { op->call, op->len, (uint64_t) result };
    uint32_t crc = mrd_crc32c(0, v, sizeof(v));

    crc = mrd_crc32c(crc, op->path, strlen(op->path));
    if (len > 0)
        crc = mrd_crc32c(crc, bytes, len);
    d->hash = (d->hash ^ crc) * 0x100000001b3;
}

/* Returns false with errno if the call fails or the machine died in it. */
static bool
ask(sim_disk *d, const sim_disk_op *op, sim_disk_verdict *v)
{
    *v = (sim_disk_verdict){ 0 };
    if (!d->dead && d->o.before != NULL)
        d->o.before(d->o.self, op, v);
    if (d->dead) {
        *v = (sim_disk_verdict){ .err = EIO };
        errno = EIO;
        return false;
    }
    d->dead = v->dies && op->call != SIM_DISK_WRITE; /* a write may be partial */
    if (d->dead || (v->err != 0 && !v->limited)) {
        errno = d->dead ? EIO : v->err;
        mix(d, op, -errno, NULL, 0);
        return false;
    }
    mix(d, op, 0, NULL, 0);
    return true;
}

static bool
has_room(const sim_disk *d, uint64_t more)
{
    return d->o.quota == 0 || (d->used <= d->o.quota && d->o.quota - d->used >= more);
}

/* ---- Paths ---- */

sim_disk *
sim_disk_of(const char *path, const char **ret_rest)
{
    size_t len;

    if (path != NULL && redirect_to != NULL && strcmp(path, redirect_from) == 0)
        path = redirect_to;
    if (path == NULL || strncmp(path, SIM_ROOT, strlen(SIM_ROOT)) != 0)
        return NULL;
    path += strlen(SIM_ROOT);
    len = strcspn(path, "/");
    for (unsigned i = 0; i < DISKS_MAX; i++) {
        if (disks[i] == NULL || strlen(disks[i]->machine) != len ||
            memcmp(disks[i]->machine, path, len) != 0)
            continue;
        *ret_rest = path + len;
        return disks[i];
    }
    return NULL;
}

/* Copies the next component of a path to name. Returns false at its end. */
static bool
next_part(const char **path, char name[256])
{
    size_t len;

    for (;;) {
        *path += strspn(*path, "/");
        len = strcspn(*path, "/");
        if (len != 1 || **path != '.')
            break;
        *path += 1;
    }
    if (len == 0 || len > 255)
        return false;
    memcpy(name, *path, len);
    name[len] = '\0';
    *path += len;
    return true;
}

static inode *
find_from(inode *at, const char *path)
{
    char name[256];

    while (next_part(&path, name)) {
        const dir_entry *e;

        if (at->kind != NODE_FOLDER) {
            errno = ENOTDIR;
            return NULL;
        }
        if ((e = sim_table_find(&at->shown, name)) == NULL) {
            errno = ENOENT;
            return NULL;
        }
        at = e->to;
    }
    return at;
}

inode *
sim_disk_find(sim_disk *d, const char *path)
{
    if (d->dead) {
        errno = EIO;
        return NULL;
    }
    return find_from(d->root, path);
}

/* Returns the directory above the last component, which is copied to name. */
static inode *
find_above(sim_disk *d, const char *path, char name[256])
{
    char above[SIM_PATH_MAX], next[256];
    const char *rest = path;
    inode *at;

    name[0] = '\0';
    above[0] = '\0';
    while (next_part(&rest, next)) {
        if (name[0] != '\0' && strlen(above) + strlen(name) + 2 < sizeof(above)) {
            strcat(above, "/");
            strcat(above, name);
        }
        memcpy(name, next, sizeof(next));
    }
    if (name[0] == '\0') {
        errno = EEXIST; /* the root */
        return NULL;
    }
    at = sim_disk_find(d, above);
    if (at != NULL && at->kind != NODE_FOLDER) {
        errno = ENOTDIR;
        return NULL;
    }
    return at;
}

/* ---- Open files ---- */

bool
sim_disk_is_fd(int fd)
{
    return fd >= FD_FIRST;
}

open_file *
sim_disk_file(int fd)
{
    open_file *f = fd < FD_FIRST ? NULL : files[(unsigned) fd % FILES_MAX];

    if (f == NULL || f->fd != fd) {
        errno = EBADF;
        return NULL;
    }
    return f;
}

static int
file_new(sim_disk *d, inode *at, const char *path, int flags)
{
    open_file *f = calloc(1, sizeof(*f));
    unsigned place = next_place;

    sim_must(f != NULL);
    while (files[place] != NULL) {
        if ((place = (place + 1) % FILES_MAX) == next_place) {
            free(f);
            return no(EMFILE);
        }
    }
    next_place = (place + 1) % FILES_MAX;
    generations[place] = (generations[place] + 1) % 0xfff0;
    f->disk = d;
    f->at = sim_inode_ref(at);
    at->opens++;
    d->opens++;
    f->flags = flags;
    f->errors = at->told || at->errors == 0 ? at->errors : at->errors - 1;
    f->fd = (int) (FD_FIRST + generations[place] * FILES_MAX + place);
    snprintf(f->path, sizeof(f->path), "%s", path);
    files[place] = f;
    return f->fd;
}

int
sim_disk_open_again(int fd, int flags)
{
    const open_file *f = sim_disk_file(fd);

    if (f == NULL)
        return -1;
    if (f->disk->dead)
        return no(EIO);
    if (f->at->kind != NODE_FOLDER && (flags & O_DIRECTORY) != 0)
        return no(ENOTDIR);
    return file_new(f->disk, f->at, f->path, flags);
}

int
sim_disk_close(int fd)
{
    open_file *f = sim_disk_file(fd);

    if (f == NULL)
        return -1;
    files[(unsigned) fd % FILES_MAX] = NULL;
    if (f->at->lock == f)
        f->at->lock = NULL;
    f->at->opens--;
    f->disk->opens--;
    sim_inode_give_back(f->at);
    sim_inode_unref(f->at);
    free(f);
    return 0;
}

static void
touch(inode *x)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    x->mtime = now.tv_sec * SECOND + now.tv_nsec;
}

static inode *
make(sim_disk *d, const char *path, node_kind kind, unsigned mode, sim_disk_call call)
{
    char name[256];
    sim_disk_verdict v;
    name_op op = { 0 };
    inode *above, *x;

    if (!ask(d, &(sim_disk_op){ d, call, path, 0, 0 }, &v))
        return NULL;
    if ((above = find_above(d, path, name)) == NULL)
        return NULL;
    if (sim_table_find(&above->shown, name) != NULL || !has_room(d, NAME_COST)) {
        errno = has_room(d, NAME_COST) ? EEXIST : ENOSPC;
        return NULL;
    }
    x = sim_inode_new(d, kind, mode);
    touch(x);
    sim_names_set(d, &op, above, name, x);
    sim_names_add(d, &op);
    sim_inode_unref(x); /* the directory holds a reference */
    return x;
}

int
sim_disk_open(sim_disk *d, const char *path, int flags, unsigned mode)
{
    inode *x = sim_disk_find(d, path);
    int fd;

    if (x == NULL && (errno != ENOENT || (flags & O_CREAT) == 0))
        return -1;
    if (x != NULL && (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return no(EEXIST);
    if (x == NULL && (x = make(d, path, NODE_FILE, mode, SIM_DISK_CREATE)) == NULL)
        return -1;
    if (x->kind == NODE_LINK)
        return no(ELOOP);
    if (x->kind == NODE_FOLDER && (flags & O_ACCMODE) != O_RDONLY)
        return no(EISDIR);
    if (x->kind != NODE_FOLDER && (flags & O_DIRECTORY) != 0)
        return no(ENOTDIR);
    if ((fd = file_new(d, x, path, flags)) < 0)
        return -1;
    if ((flags & O_TRUNC) != 0 && x->len > 0 && sim_disk_resize(fd, 0) != 0) {
        int err = errno;

        sim_disk_close(fd);
        return no(err);
    }
    return fd;
}

ssize_t
sim_disk_read(int fd, void *to, size_t len, uint64_t at)
{
    const open_file *f = sim_disk_file(fd);
    size_t n;

    if (f == NULL)
        return -1;
    if (f->disk->dead)
        return no(EIO);
    if (f->at->kind == NODE_FOLDER)
        return no(EISDIR);
    if (at >= f->at->len)
        return 0;
    n = f->at->len - (size_t) at;
    n = n < len ? n : len;
    memcpy(to, f->at->data + at, n);
    return (ssize_t) n;
}

/* Returns how many of the bytes fit on the disk. As in a real system, a write is then short, and
 * the next write fails. */
static size_t
room_for(const sim_disk *d, const inode *x, size_t len, uint64_t at)
{
    uint64_t end = at + len, more = end > x->len ? end - x->len : 0, left;

    if (has_room(d, more))
        return len;
    left = d->o.quota > d->used ? d->o.quota - d->used : 0;
    return more - left >= len ? 0 : len - (size_t) (more - left);
}

ssize_t
sim_disk_write(int fd, const void *from, size_t len, uint64_t at)
{
    open_file *f = sim_disk_file(fd);
    sim_disk_verdict v;
    sim_disk_op op;
    sim_disk *d;
    size_t n = len, room;

    if (f == NULL || (f->flags & O_ACCMODE) == O_RDONLY)
        return no(EBADF);
    d = f->disk;
    op = (sim_disk_op){ d, SIM_DISK_WRITE, f->path, len, (uint64_t) at };
    /* ask() runs code of the test, which may close the file. */
    if (!ask(d, &op, &v) || (f = sim_disk_file(fd)) == NULL)
        return -1;
    at = (f->flags & O_APPEND) != 0 ? f->at->len : at;
    n = v.limited && v.at_most < n ? v.at_most : v.dies && !v.limited ? 0 : n;
    room = room_for(d, f->at, n, at);
    if (n > 0 && room > 0) {
        n = room;
        if (at + n > f->at->len) {
            sim_inode_set_len(f->at, (size_t) at + n);
            f->at->resized = true;
        }
        memcpy(f->at->data + at, from, n);
        sim_inode_mark_dirty(f->at, (size_t) at, (size_t) at + n);
        touch(f->at);
        mix(d, &op, (int64_t) n, from, n);
    }
    d->dead = v.dies;
    if (v.dies)
        return no(EIO);
    if (n == 0 && len > 0)
        return no(v.err != 0 ? v.err : EIO);
    return room == 0 && n > 0 ? no(ENOSPC) : (ssize_t) n;
}

int
sim_disk_resize(int fd, uint64_t len)
{
    open_file *f = sim_disk_file(fd);
    sim_disk_verdict v;
    sim_disk *d;

    if (f == NULL)
        return -1;
    if ((f->flags & O_ACCMODE) == O_RDONLY)
        return no(EINVAL);
    d = f->disk;
    if (!ask(d, &(sim_disk_op){ d, SIM_DISK_SIZE, f->path, (size_t) len, 0 }, &v) ||
        (f = sim_disk_file(fd)) == NULL)
        return -1;
    if (len > f->at->len && !has_room(d, len - f->at->len))
        return no(ENOSPC);
    if (len < f->at->len) /* if the file grows again, this part must be zero, not the old bytes */
        sim_inode_mark_dirty(f->at, (size_t) len, f->at->len);
    sim_inode_set_len(f->at, (size_t) len);
    touch(f->at);
    f->at->resized = true;
    return 0;
}

/* Handles a failed sync. A random part of the unsynced data reaches the medium. Readers still see
 * the rest, but later syncs do not write it. */
static void
lose(inode *x)
{
    sim_inode_sync_some(x, true);
    x->unsure = true;
    x->errors++;
    x->told = false;
}

int
sim_disk_list(int fd)
{
    const open_file *f = sim_disk_file(fd);
    sim_disk_verdict v;

    return f != NULL && ask(f->disk, &(sim_disk_op){ f->disk, SIM_DISK_LIST, f->path, 0, 0 }, &v)
               ? 0
               : -1;
}

int
sim_disk_sync(int fd)
{
    open_file *f = sim_disk_file(fd);
    sim_disk_verdict v;
    sim_disk *d;
    bool ok;
    inode *x;

    if (f == NULL)
        return -1;
    d = f->disk;
    ok = ask(d,
             &(sim_disk_op){ d, f->at->kind == NODE_FOLDER ? SIM_DISK_SYNC_FOLDER : SIM_DISK_SYNC,
                             f->path, 0, 0 },
             &v);
    if (d->dead || (f = sim_disk_file(fd)) == NULL)
        return no(EIO);
    x = f->at;
    if (!ok && x->kind == NODE_FILE && sim_inode_is_dirty(x)) {
        int err = errno;

        lose(x);
        x->told = true;
        f->errors = x->errors;
        return no(err);
    }
    if (!ok || v.lies)
        return ok ? 0 : -1;
    if (x->kind == NODE_FOLDER)
        sim_names_sync(d, x);
    else
        sim_inode_sync(x);
    if (f->errors == x->errors)
        return 0;
    f->errors = x->errors;
    x->told = true;
    return no(EIO);
}

int
sim_disk_sync_all(sim_disk *d)
{
    sim_disk_verdict v;
    bool ok = ask(d, &(sim_disk_op){ d, SIM_DISK_SYNC_ALL, "", 0, 0 }, &v);
    int err = errno;

    if (d->dead)
        return no(EIO);
    if (ok && v.lies)
        return 0;
    for (size_t i = 0; i < d->n_nodes; i++) {
        inode *x = d->nodes[i];

        if (x->kind != NODE_FILE || !sim_inode_is_dirty(x))
            continue;
        if (ok) {
            sim_inode_sync(x);
        } else {
            lose(x);
        }
    }
    if (ok)
        sim_names_sync(d, NULL);
    return ok ? 0 : no(err);
}

/* ---- Names, changed by the test ---- */

int
sim_disk_rename(sim_disk *d, const char *from, const char *to)
{
    char name[256], next[256];
    inode *above, *below, *x, *there;
    sim_disk_verdict v;
    name_op op = { 0 };
    const dir_entry *e;

    if (!ask(d, &(sim_disk_op){ d, SIM_DISK_RENAME, to, 0, 0 }, &v) ||
        (above = find_above(d, from, name)) == NULL || (below = find_above(d, to, next)) == NULL)
        return -1;
    if ((e = sim_table_find(&above->shown, name)) == NULL)
        return no(ENOENT);
    x = e->to;
    e = sim_table_find(&below->shown, next);
    there = e == NULL ? NULL : e->to;
    if (there == x)
        return 0;
    if (there != NULL && there->kind == NODE_FOLDER && x->kind != NODE_FOLDER)
        return no(EISDIR);
    if (there != NULL && there->kind != NODE_FOLDER && x->kind == NODE_FOLDER)
        return no(ENOTDIR);
    if (there != NULL && there->shown.n > 0)
        return no(ENOTEMPTY);
    sim_inode_ref(x);
    sim_names_set(d, &op, below, next, x);
    sim_names_set(d, &op, above, name, NULL);
    sim_names_add(d, &op);
    sim_inode_unref(x);
    return 0;
}

int
sim_disk_remove(sim_disk *d, const char *path, bool folder)
{
    char name[256];
    sim_disk_verdict v;
    name_op op = { 0 };
    const dir_entry *e;
    inode *above;

    if (!ask(d, &(sim_disk_op){ d, SIM_DISK_REMOVE, path, 0, 0 }, &v) ||
        (above = find_above(d, path, name)) == NULL)
        return -1;
    if ((e = sim_table_find(&above->shown, name)) == NULL)
        return no(ENOENT);
    if (folder && e->to->kind != NODE_FOLDER)
        return no(ENOTDIR);
    if (!folder && e->to->kind == NODE_FOLDER)
        return no(EISDIR);
    if (e->to->shown.n > 0)
        return no(ENOTEMPTY);
    sim_names_set(d, &op, above, name, NULL);
    sim_names_add(d, &op);
    return 0;
}

int
sim_disk_mkdir(sim_disk *d, const char *path)
{
    inode *x = sim_disk_find(d, path);

    if (x != NULL)
        return no(EEXIST);
    return errno == ENOENT && make(d, path, NODE_FOLDER, 0755, SIM_DISK_FOLDER) != NULL ? 0 : -1;
}

int
sim_disk_link(sim_disk *d, const char *from, const char *to)
{
    char name[256];
    sim_disk_verdict v;
    name_op op = { 0 };
    inode *x, *above;

    if (!ask(d, &(sim_disk_op){ d, SIM_DISK_LINK, to, 0, 0 }, &v) ||
        (x = sim_disk_find(d, from)) == NULL || (above = find_above(d, to, name)) == NULL)
        return -1;
    if (x->kind == NODE_FOLDER)
        return no(EPERM);
    if (sim_table_find(&above->shown, name) != NULL || !has_room(d, NAME_COST))
        return no(has_room(d, NAME_COST) ? EEXIST : ENOSPC);
    sim_names_set(d, &op, above, name, x);
    sim_names_add(d, &op);
    return 0;
}

int
sim_disk_symlink(sim_disk *d, const char *target, const char *path)
{
    inode *x = make(d, path, NODE_LINK, 0777, SIM_DISK_LINK);

    if (x == NULL)
        return -1;
    /* The target of a symbolic link becomes durable together with the link's name, without a sync
     * of its own. */
    sim_inode_set_len(x, strlen(target));
    memcpy(x->data, target, strlen(target));
    sim_inode_mark_dirty(x, 0, x->len);
    sim_inode_sync(x);
    return 0;
}

int
sim_disk_stat(const inode *x, struct stat *ret)
{
    static const mode_t types[] = { S_IFREG, S_IFDIR, S_IFLNK };

    *ret = (struct stat){ 0 };
    for (unsigned i = 0; i < DISKS_MAX; i++) {
        if (disks[i] == x->disk)
            ret->st_dev = 0x51d0000u + i;
    }
    ret->st_ino = x->number;
    ret->st_mode = types[x->kind] | x->mode;
    ret->st_nlink = x->kind == NODE_FOLDER ? 2 : x->names;
    ret->st_uid = getuid();
    ret->st_gid = getgid();
    ret->st_mtim = (struct timespec){ x->mtime / SECOND, x->mtime % SECOND };
    ret->st_size = (off_t) x->len;
    ret->st_blksize = 4096;
    ret->st_blocks = (blkcnt_t) ((x->len + 4095) / 4096 * 8);
    return 0;
}

/* ---- Disks ---- */

sim_disk *
sim_disk_new(const char *machine, const sim_disk_options *o)
{
    sim_disk *d = calloc(1, sizeof(*d));
    char path[SIM_PATH_MAX];
    const char *rest;
    unsigned i = 0;

    snprintf(path, sizeof(path), SIM_ROOT "%s", machine);
    sim_must(d != NULL && strlen(machine) < sizeof(d->machine) && sim_disk_of(path, &rest) == NULL);
    while (i < DISKS_MAX && disks[i] != NULL)
        i++;
    sim_must(i < DISKS_MAX);
    d->o = *o;
    d->rng = (o->seed + 1) * 0x9e3779b97f4a7c15;
    d->hash = 0xcbf29ce484222325;
    snprintf(d->machine, sizeof(d->machine), "%s", machine);
    disks[i] = d; /* cppcheck-suppress arrayIndexOutOfBoundsCond ; sim_must does not return */
    d->root = sim_inode_new(d, NODE_FOLDER, 0755);
    d->root->names = 1;
    return d;
}

void
sim_disk_free(sim_disk *d)
{
    if (d == NULL)
        return;
    sim_disk_kill(d);
    while (d->n_ops > 0)
        sim_names_remove(d, d->n_ops - 1);
    sim_inode_unref(d->root);
    for (unsigned i = 0; i < DISKS_MAX; i++)
        disks[i] = disks[i] == d ? NULL : disks[i];
    free(d->nodes);
    free(d->ops);
    free(d);
}

static void
close_all(const sim_disk *d)
{
    for (unsigned i = 0; i < FILES_MAX && d->opens > 0; i++) {
        if (files[i] != NULL && files[i]->disk == d)
            sim_disk_close(files[i]->fd);
    }
}

void
sim_disk_redirect(const char *from, const char *to)
{
    redirect_from = from;
    redirect_to = to;
}

void
sim_disk_die(sim_disk *d)
{
    d->dead = true;
}

void
sim_disk_kill(sim_disk *d)
{
    close_all(d);
    for (size_t i = 0; i < d->n_nodes; i++) {
        if (d->nodes[i]->unsure && sim_disk_below(d, 2) == 0)
            sim_inode_forget_cache(d->nodes[i]);
    }
    d->dead = false;
}

static void
keep_names(sim_disk *d, sim_disk_keep keep)
{
    size_t n = keep == SIM_DISK_ALL      ? d->n_ops
               : keep == SIM_DISK_PREFIX ? (size_t) sim_disk_below(d, d->n_ops + 1)
                                         : 0;

    for (size_t i = 0; i < d->n_ops; i++) {
        if (i < n || (keep == SIM_DISK_ANY && sim_disk_below(d, 2) == 0))
            sim_names_apply(d, i);
    }
    while (d->n_ops > 0)
        sim_names_remove(d, d->n_ops - 1);
}

static void
keep_bytes(inode *x, sim_disk_keep keep)
{
    if (keep == SIM_DISK_ALL)
        sim_inode_sync(x);
    else if (keep == SIM_DISK_PREFIX)
        sim_inode_sync_prefix(x);
    else if (keep == SIM_DISK_ANY && sim_inode_is_dirty(x))
        sim_inode_sync_some(x, sim_disk_below(x->disk, 2) == 0);
    sim_inode_forget_cache(x);
}

/* Recounts the visible names of each inode. */
static void
count_names(sim_disk *d)
{
    for (size_t i = 0; i < d->n_nodes; i++)
        d->nodes[i]->names = d->nodes[i] == d->root;
    d->used = 0;
    for (size_t i = 0; i < d->n_nodes; i++) {
        const inode *x = d->nodes[i];

        if (!x->given_back)
            d->used += x->len;
        for (size_t k = 0; k < x->shown.n; k++) {
            x->shown.v[k].to->names++;
            d->used += NAME_COST;
        }
    }
}

void
sim_disk_cut_power(sim_disk *d, sim_disk_keep keep)
{
    inode **all;
    size_t n;

    close_all(d);
    keep_names(d, keep);
    n = d->n_nodes;
    sim_must((all = calloc(n + 1, sizeof(inode *))) != NULL);
    for (size_t i = 0; i < n; i++)
        all[i] = sim_inode_ref(d->nodes[i]);
    for (size_t i = 0; i < n; i++) {
        if (all[i]->kind == NODE_FOLDER)
            sim_table_copy(&all[i]->shown, &all[i]->kept);
        else if (all[i]->kind == NODE_FILE)
            keep_bytes(all[i], keep);
    }
    for (size_t i = 0; i < n; i++) {
        all[i]->given_back = false;
        sim_inode_unref(all[i]);
    }
    free(all);
    count_names(d);
    d->dead = false;
}

bool
sim_disk_is_dead(const sim_disk *d)
{
    return d->dead;
}

void
sim_disk_set_before(sim_disk *d,
                    void (*fn)(void *self, const sim_disk_op *op, sim_disk_verdict *ret_verdict),
                    void *self)
{
    d->o.before = fn;
    d->o.self = self;
}

void
sim_disk_set_quota(sim_disk *d, uint64_t quota)
{
    d->o.quota = quota;
}

uint64_t
sim_disk_used(const sim_disk *d)
{
    return d->used;
}

uint64_t
sim_disk_quota(const sim_disk *d)
{
    return d->o.quota;
}

long
sim_disk_type(const sim_disk *d)
{
    return d->o.type;
}

uint64_t
sim_disk_hash(const sim_disk *d)
{
    return d->hash;
}

unsigned
sim_disk_open_files(const sim_disk *d)
{
    return d->opens;
}

/* A file with two names becomes two files, because the copy is only read. */
static void
copy_kept(sim_disk *to, inode *folder, const inode *from, const char *only)
{
    for (size_t i = 0; i < from->kept.n; i++) {
        const dir_entry *e = &from->kept.v[i];
        inode *c;

        if (only != NULL && strcmp(e->name, only) != 0)
            continue;
        c = sim_inode_new(to, e->to->kind, e->to->mode);
        if (e->to->kind == NODE_FOLDER) {
            copy_kept(to, c, e->to, NULL);
        } else if (e->to->medium_len > 0) {
            sim_inode_set_medium_len(c, e->to->medium_len);
            memcpy(c->medium, e->to->medium, e->to->medium_len);
            sim_inode_forget_cache(c);
        }
        sim_table_put(&folder->kept, e->name, c);
        sim_table_put(&folder->shown, e->name, c);
        sim_inode_unref(c);
    }
}

/* Returns the file or directory that has this path on the medium; NULL if none has. */
static const inode *
find_kept(const sim_disk *d, const char *path)
{
    const inode *at = d->root;
    char name[256];

    while (at != NULL && next_part(&path, name)) {
        const dir_entry *e = sim_table_find(&at->kept, name);

        at = e == NULL ? NULL : e->to;
    }
    return at;
}

sim_disk *
sim_disk_durable_copy(const sim_disk *d, const char *path, const char *only, const char *machine)
{
    sim_disk *copy = sim_disk_new(machine, &(sim_disk_options){ .type = d->o.type });
    const inode *at = find_kept(d, path);

    if (at != NULL)
        copy_kept(copy, copy->root, at, only);
    count_names(copy);
    return copy;
}

const char *
sim_disk_durable_name(const sim_disk *d, const char *path, const char *before)
{
    const inode *at = find_kept(d, path);
    const char *last = NULL;

    for (size_t i = 0; at != NULL && i < at->kept.n; i++) {
        const char *name = at->kept.v[i].name;

        if ((before == NULL || strcmp(name, before) < 0) &&
            (last == NULL || strcmp(name, last) > 0))
            last = name;
    }
    return last;
}
