#include "agent/rings/discover.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/guard/safe_open.h"
#include "base/conf/agent_waits.h"
#include "base/vec.h"
#include "hw/identity.h"

#define DIRS_MAX  1024
#define MNTS_MAX  4096
#define TURN_TIME (2 * MRD_MS) /* time of one turn for all directories together ... */
/* ... but at least this many rings, on a slow machine as well */
#define TURN_LEAST 16
#define NOTICES    16 /* reads of inotify in one turn */
/* searches after which a process is assumed to stay in our namespace ... */
#define OURS_SURE 2
/* ... except in every n-th search, which checks all processes */
#define OURS_AGAIN 16

typedef struct {
    bool used;
    char *path;    /* NULL means that only the descriptor is available (a container's) */
    int fd, watch; /* -1 */
    dev_t dev;
    ino_t ino;
    uid_t uid;    /* user of the process that has it in its root */
    char pod[64]; /* uid of that process's pod; empty means none */
    mrd_local_ns look_at;
    mrd_dur_ns soon;
    DIR *stream;       /* of a running search, which may take several turns */
    bool again, dirty; /* a ring that is being created was found in it; changes were */
    bool slow;         /* it takes more than one turn */
    unsigned rings;    /* open ones */
    uint64_t seen;     /* number of the last search through all roots that found it */
} ring_dir;

/* Processes in our own mount namespace, ascending, and in how many consecutive searches they were. */
typedef struct {
    struct {
        long pid;
        unsigned looks;
    } * v;
    size_t n, cap;
} pid_list;

struct mrd_discover {
    char *proc_root;
    bool containers;
    int inotify;
    ring_dir dirs[DIRS_MAX];
    unsigned n;
    mrd_local_ns roots_at;
    uint64_t roots_look;
    ino_t own_mnt;
    unsigned denied, denying; /* in the last search; in the running one */
    ino_t mnt[MNTS_MAX];      /* namespaces found in one search */
    size_t n_mnt, ours_at;
    DIR *procs; /* of a running search through all roots */
    unsigned turn;
    pid_list ours, next; /* of the last search; of the running one */
};

static void
watch_dir(mrd_discover *d, ring_dir *dir)
{
    char path[64];

    dir->watch = -1;
    if (d->inotify < 0) /* created late, because a user has at most 128 of them */
        d->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (d->inotify < 0)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", dir->fd);
    dir->watch = inotify_add_watch(d->inotify, path, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
}

/* Opens a directory with a known path when it exists. */
static bool
ensure_open(mrd_discover *d, ring_dir *dir)
{
    struct stat st;

    if (dir->fd >= 0)
        return true;
    if (dir->path == NULL || (dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return false;
    if (fstat(dir->fd, &st) == 0) {
        dir->dev = st.st_dev;
        dir->ino = st.st_ino;
    }
    watch_dir(d, dir);
    return true;
}

static void
forget(mrd_discover *d, ring_dir *dir)
{
    if (dir->stream != NULL)
        closedir(dir->stream);
    if (dir->watch >= 0)
        (void) inotify_rm_watch(d->inotify, dir->watch);
    if (dir->fd >= 0)
        close(dir->fd);
    free(dir->path);
    *dir = (ring_dir){ .fd = -1, .watch = -1 };
}

mrd_err
mrd_discover_open(const char *ring_dir_path, const char *proc_root, bool containers,
                  mrd_discover **ret_discover, mrd_why *why)
{
    mrd_discover *d = calloc(1, sizeof(*d));
    struct stat st;

    if (d == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "search for rings");
    for (unsigned i = 0; i < DIRS_MAX; i++)
        d->dirs[i].fd = d->dirs[i].watch = -1;
    d->inotify = -1;
    d->containers = containers;
    d->proc_root = strdup(proc_root == NULL ? "/proc" : proc_root);
    d->dirs[0].path = strdup(ring_dir_path);
    d->dirs[0].used = true;
    d->n = 1;
    if (stat("/proc/self/ns/mnt", &st) == 0)
        d->own_mnt = st.st_ino;
    if (d->proc_root == NULL || d->dirs[0].path == NULL) {
        mrd_discover_close(d);
        return mrd_why_set(why, MRD_NOMEM, 0, "search for rings");
    }
    *ret_discover = d;
    return MRD_OK;
}

void
mrd_discover_close(mrd_discover *d)
{
    if (d == NULL)
        return;
    for (unsigned i = 0; i < d->n; i++)
        forget(d, &d->dirs[i]);
    if (d->procs != NULL)
        closedir(d->procs);
    if (d->inotify >= 0)
        close(d->inotify);
    free(d->proc_root);
    free(d->ours.v);
    free(d->next.v);
    free(d);
}

/* Returns true for the name of a ring or of a note of losses. */
static bool
is_ring(const char *name)
{
    size_t n = strlen(name);

    return n > 14 && strncmp(name, "meridian.", 9) == 0 &&
           (strcmp(name + n - 5, ".ring") == 0 || strstr(name, ".lost") != NULL);
}

static bool
in_time(mrd_local_ns end)
{
    return mrd_local_before(mrd_local_now(), end);
}

/* Opens a stream of its own, because duplicates of a descriptor share its position. */
static bool
begin_look(mrd_discover *d, ring_dir *dir)
{
    int copy = ensure_open(d, dir) ? openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    dir->again = dir->dirty = dir->slow = false;
    dir->stream = copy < 0 ? NULL : fdopendir(copy);
    if (copy >= 0 && dir->stream == NULL)
        close(copy);
    return dir->stream != NULL;
}

static void
end_look(ring_dir *dir, mrd_local_ns now)
{
    mrd_dur_ns wait = dir->watch >= 0 ? MRD_WAIT_RINGS_WATCHED : MRD_WAIT_RINGS_BLIND;

    closedir(dir->stream);
    dir->stream = NULL;
    dir->soon = !dir->again ? 0 : dir->soon == 0 ? MRD_WAIT_RINGS_SOON : dir->soon * 2;
    if (dir->soon > MRD_WAIT_RINGS_SOON_MAX)
        dir->soon = MRD_WAIT_RINGS_SOON_MAX;
    if (dir->again)
        wait = dir->soon;
    if (dir->dirty)
        wait = 0;
    if (dir->slow && wait < MRD_WAIT_RINGS_GAP)
        wait = MRD_WAIT_RINGS_GAP;
    dir->look_at.ns = now.ns + wait;
}

/* Begins or continues a search until the turn's time is over. A user can create more files than a
 * turn has time for. */
static void
look(mrd_discover *d, unsigned i, mrd_local_ns now, mrd_local_ns end, mrd_discover_found found,
     void *self)
{
    ring_dir *dir = &d->dirs[i];
    unsigned met = 0, seen = 0;
    struct dirent *e;

    if (dir->stream == NULL && !begin_look(d, dir)) {
        dir->look_at.ns = now.ns + MRD_WAIT_RINGS_BLIND;
        return;
    }
    while ((e = readdir(dir->stream)) != NULL) {
        if (is_ring(e->d_name) && ++met > 0 && found(self, i, dir->fd, e->d_name) == MRD_AGAIN)
            dir->again = true;
        if ((met >= TURN_LEAST || ++seen % 64 == 0) && !in_time(end)) {
            dir->slow = true;
            return;
        }
    }
    end_look(dir, now);
}

/* ---- Containers ---- */

static ring_dir *
free_dir(mrd_discover *d)
{
    for (unsigned i = 1; i < d->n; i++)
        if (!d->dirs[i].used)
            return &d->dirs[i];
    return d->n < DIRS_MAX ? &d->dirs[d->n++] : NULL;
}

/* Opens /dev/shm as this process sees it; -1 with errno. Does not follow links, because an absolute
 * one would lead into our own root. */
static int
open_shm(const mrd_discover *d, const char *pid, uid_t *ret_uid)
{
    char path[PATH_MAX];
    struct stat st;
    int root, fd;

    snprintf(path, sizeof(path), "%s/%.16s", d->proc_root, pid);
    if (stat(path, &st) != 0)
        return -1;
    *ret_uid = st.st_uid;
    snprintf(path, sizeof(path), "%s/%.16s/root", d->proc_root, pid);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    fd = root < 0 ? -1 : mrd_safe_open_descend(root, "dev/shm", NULL);
    if (root >= 0)
        close(root);
    return fd;
}

static ring_dir *
find_dir(mrd_discover *d, const struct stat *st)
{
    for (unsigned i = 0; i < d->n; i++)
        if (d->dirs[i].used && d->dirs[i].fd >= 0 && d->dirs[i].dev == st->st_dev &&
            d->dirs[i].ino == st->st_ino)
            return &d->dirs[i];
    return NULL;
}

/* Returns true if the user may have another directory, within what other users leave free. */
static bool
has_share(const mrd_discover *d, uid_t uid)
{
    unsigned used = 0, own = 0;

    for (unsigned i = 0; i < d->n; i++) {
        used += d->dirs[i].used;
        own += i > 0 && d->dirs[i].used && d->dirs[i].uid == uid;
    }
    return own < DIRS_MAX - used;
}

/* The owner counts, not the process that was found first. */
static void
is_seen(const mrd_discover *d, ring_dir *dir, uid_t process, uid_t owner)
{
    dir->seen = d->roots_look;
    if (process == 0 || process == owner)
        dir->uid = process;
}

/* Adds the directory of this process's root, unless it is already listed. */
static void
add_root(mrd_discover *d, const char *pid)
{
    ring_dir *dir = NULL;
    struct stat st;
    uid_t uid;
    int fd = open_shm(d, pid, &uid);

    if (fd < 0) {
        d->denying += errno == EACCES || errno == EPERM;
        return;
    }
    if (fstat(fd, &st) == 0 && (dir = find_dir(d, &st)) != NULL)
        is_seen(d, dir, uid, st.st_uid);
    else if (fstat(fd, &st) == 0 && has_share(d, uid) && (dir = free_dir(d)) != NULL) {
        *dir = (ring_dir){ .used = true,
                           .fd = fd,
                           .dev = st.st_dev,
                           .ino = st.st_ino,
                           .uid = uid,
                           .seen = d->roots_look };
        mrd_pod_of(d->proc_root, strtol(pid, NULL, 10), dir->pod);
        watch_dir(d, dir);
        return;
    }
    close(fd);
}

/* Returns in how many consecutive searches the process was in our namespace. *at moves along the
 * list. */
static unsigned
looks_of(const pid_list *l, size_t *at, long pid)
{
    while (*at < l->n && l->v[*at].pid < pid)
        ++*at;
    return *at < l->n && l->v[*at].pid == pid ? l->v[*at].looks : 0;
}

/* If out of memory, the process is not remembered, and checked again next time. */
static void
note_ours(pid_list *l, long pid, unsigned looks)
{
    if (!MRD_VEC_ROOM(l->v, l->n, l->cap, 1))
        return;
    l->v[l->n].pid = pid;
    l->v[l->n++].looks = looks;
}

static void
swap_lists(mrd_discover *d)
{
    pid_list old = d->ours;

    d->ours = d->next;
    d->next = old;
    d->next.n = 0;
}

/* Checks one process of each mount namespace other than ours. Reading the namespace of every
 * process took half of an idle agent's time, and it hardly ever changes. */
static void
look_at_root(mrd_discover *d, const char *name)
{
    bool all = d->roots_look % OURS_AGAIN == 1;
    long pid = strtol(name, NULL, 10);
    unsigned looks = looks_of(&d->ours, &d->ours_at, pid);
    char path[PATH_MAX];
    struct stat st;
    size_t i;

    if (looks >= OURS_SURE && !all) {
        note_ours(&d->next, pid, looks);
        return;
    }
    snprintf(path, sizeof(path), "%s/%.16s/ns/mnt", d->proc_root, name);
    if (stat(path, &st) != 0) {
        d->denying += errno == EACCES || errno == EPERM;
        return;
    }
    if (st.st_ino == d->own_mnt) {
        note_ours(&d->next, pid, looks + 1);
        return;
    }
    for (i = 0; i < d->n_mnt && d->mnt[i] != st.st_ino; i++)
        ;
    if (i < d->n_mnt)
        return;
    if (d->n_mnt < MNTS_MAX)
        d->mnt[d->n_mnt++] = st.st_ino;
    add_root(d, name);
}

static void
begin_roots(mrd_discover *d)
{
    d->procs = opendir(d->proc_root);
    d->n_mnt = d->ours_at = 0;
    d->roots_look++;
    d->denying = 0;
}

static void
end_roots(mrd_discover *d, mrd_local_ns now)
{
    if (d->procs != NULL)
        closedir(d->procs);
    d->procs = NULL;
    d->roots_at.ns = now.ns + MRD_WAIT_RINGS_ROOTS;
    d->denied = d->denying;
    swap_lists(d);
    for (unsigned i = 1; i < d->n; i++)
        if (d->dirs[i].used && d->dirs[i].rings == 0 && d->dirs[i].seen + 1 < d->roots_look)
            forget(d, &d->dirs[i]);
}

/* Begins or continues a search through all roots until the turn's time is over. */
static void
look_at_roots(mrd_discover *d, mrd_local_ns now, mrd_local_ns end)
{
    struct dirent *e;

    if (d->procs == NULL)
        begin_roots(d);
    while (d->procs != NULL && (e = readdir(d->procs)) != NULL) {
        if (isdigit((unsigned char) e->d_name[0]))
            look_at_root(d, e->d_name);
        if (!in_time(end))
            return;
    }
    end_roots(d, now);
}

/* ---- Steps ---- */

static void
take_notice(mrd_discover *d, const struct inotify_event *e, mrd_local_ns now)
{
    for (unsigned i = 0; i < d->n; i++) {
        ring_dir *dir = &d->dirs[i];

        if (!dir->used || (dir->watch != e->wd && (e->mask & IN_Q_OVERFLOW) == 0))
            continue;
        dir->dirty = true;
        if (dir->stream == NULL && (!dir->slow || dir->look_at.ns > now.ns + MRD_WAIT_RINGS_GAP))
            dir->look_at.ns = now.ns + (dir->slow ? MRD_WAIT_RINGS_GAP : 0);
    }
}

static void
take_notices(mrd_discover *d, mrd_local_ns now)
{
    _Alignas(struct inotify_event) char text[4096];
    ssize_t n;

    for (unsigned i = 0;
         i < NOTICES && d->inotify >= 0 && (n = read(d->inotify, text, sizeof(text))) > 0; i++)
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const void *) (text + at);

            take_notice(d, e, now);
            at += (ssize_t) (sizeof(*e) + e->len);
        }
}

/* Searches what is due, or with `all` everything. The first directory rotates, so that every
 * directory gets its turn. */
static void
look_everywhere(mrd_discover *d, mrd_local_ns now, mrd_local_ns end, bool all,
                mrd_discover_found found, void *self)
{
    unsigned first = d->turn++, n = d->n;

    for (unsigned k = 0; k < n; k++) {
        unsigned i = (first + k) % n;

        if (d->dirs[i].used && (all || now.ns >= d->dirs[i].look_at.ns))
            look(d, i, now, end, found, self);
        if (!in_time(end))
            return;
    }
}

void
mrd_discover_step(mrd_discover *d, mrd_local_ns now, mrd_discover_found found, void *self)
{
    mrd_local_ns end = mrd_local_add(mrd_local_now(), TURN_TIME);

    take_notices(d, now);
    look_everywhere(d, now, end, false, found, self);
    if (d->containers && now.ns >= d->roots_at.ns)
        look_at_roots(d, now, mrd_local_add(mrd_local_now(), TURN_TIME));
}

void
mrd_discover_all(mrd_discover *d, mrd_discover_found found, void *self)
{
    mrd_local_ns now = mrd_local_now();
    mrd_local_ns end = mrd_local_add(now, MRD_WAIT_RINGS_ALL);

    if (d->containers)
        look_at_roots(d, now, end);
    look_everywhere(d, now, end, true, found, self);
}

int
mrd_discover_fd(const mrd_discover *d)
{
    return d->inotify;
}

mrd_local_ns
mrd_discover_next(const mrd_discover *d)
{
    mrd_local_ns next = { INT64_MAX };

    if (d->containers)
        next = d->roots_at;
    for (unsigned i = 0; i < d->n; i++)
        if (d->dirs[i].used && d->dirs[i].look_at.ns < next.ns)
            next = d->dirs[i].look_at;
    return next;
}

int
mrd_discover_dir_fd(const mrd_discover *d, unsigned dir)
{
    return d->dirs[dir].fd;
}

uint32_t
mrd_discover_dir_user(const mrd_discover *d, unsigned dir)
{
    return d->dirs[dir].uid;
}

const char *
mrd_discover_dir_pod(const mrd_discover *d, unsigned dir)
{
    return d->dirs[dir].pod;
}

void
mrd_discover_hold(mrd_discover *d, unsigned dir, int change)
{
    d->dirs[dir].rings += (unsigned) change;
}

unsigned
mrd_discover_denied(const mrd_discover *d)
{
    return d->denied;
}

unsigned
mrd_discover_dirs(const mrd_discover *d)
{
    unsigned n = 0;

    for (unsigned i = 0; i < d->n; i++)
        n += d->dirs[i].used && d->dirs[i].fd >= 0;
    return n;
}
