#include "agent/discover.h"

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

#define DIRS_MAX      1024
#define MNTS_MAX      4096
#define LOOK_WATCHED  (5 * MRD_SEC)  /* again, although inotify would have told */
#define LOOK_BLIND    (250 * MRD_MS) /* without inotify */
#define LOOK_SOON     (2 * MRD_MS)   /* a ring was being made */
#define LOOK_SOON_MAX (500 * MRD_MS) /* ... and is not getting ready */
#define LOOK_ROOTS    (2 * MRD_SEC)  /* for new containers */
#define OURS_SURE     2              /* looks after which a process is believed to stay ours ... */
#define OURS_AGAIN    16             /* ... but for every so manieth look, which asks for all */

typedef struct {
    bool used;
    char *path;    /* NULL: only the descriptor is known (a container's) */
    int fd, watch; /* -1 */
    dev_t dev;
    ino_t ino;
    mrd_local_ns look_at;
    mrd_dur_ns soon;
    unsigned rings; /* open ones */
    uint64_t seen;  /* number of the look at all roots that last met it */
} ring_dir;

/* Processes in our own mount namespace, ascending, and at how many looks in a row they were. */
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
    unsigned denied;
    ino_t mnt[MNTS_MAX]; /* namespaces met in one look */
    pid_list ours, next; /* of the last look; of the one under way */
};

static void
watch_dir(mrd_discover *d, ring_dir *dir)
{
    char path[64];

    dir->watch = -1;
    if (d->inotify < 0) /* only now: a user has no more than 128 of them */
        d->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (d->inotify < 0)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", dir->fd);
    dir->watch = inotify_add_watch(d->inotify, path, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
}

/* Opens a directory known by its path, once it is there. */
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
    if (d->inotify >= 0)
        close(d->inotify);
    free(d->proc_root);
    free(d->ours.v);
    free(d->next.v);
    free(d);
}

static bool
is_ring(const char *name)
{
    size_t n = strlen(name);

    return n > 14 && strncmp(name, "meridian.", 9) == 0 && strcmp(name + n - 5, ".ring") == 0;
}

static void
look(mrd_discover *d, unsigned i, mrd_local_ns now, mrd_discover_found found, void *self)
{
    ring_dir *dir = &d->dirs[i];
    bool again = false;
    struct dirent *e;
    int copy;
    DIR *stream;

    if (!ensure_open(d, dir)) {
        dir->look_at.ns = now.ns + LOOK_BLIND;
        return;
    }
    /* A stream of its own: the descriptor's position is shared by duplicates. */
    copy = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0 || (stream = fdopendir(copy)) == NULL) {
        if (copy >= 0)
            close(copy);
        dir->look_at.ns = now.ns + LOOK_BLIND;
        return;
    }
    while ((e = readdir(stream)) != NULL)
        if (is_ring(e->d_name) && found(self, i, dir->fd, e->d_name) == MRD_AGAIN)
            again = true;
    closedir(stream);
    dir->soon = !again ? 0 : dir->soon == 0 ? LOOK_SOON : dir->soon * 2;
    if (dir->soon > LOOK_SOON_MAX)
        dir->soon = LOOK_SOON_MAX;
    dir->look_at.ns = now.ns + (again ? dir->soon : dir->watch >= 0 ? LOOK_WATCHED : LOOK_BLIND);
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

/* /dev/shm as this process sees it, unless we have that directory already. */
static void
add_root(mrd_discover *d, const char *pid)
{
    char path[PATH_MAX];
    ring_dir *dir;
    struct stat st;
    int fd;

    snprintf(path, sizeof(path), "%s/%.16s/root/dev/shm", d->proc_root, pid);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        d->denied += errno == EACCES || errno == EPERM;
        return;
    }
    if (fstat(fd, &st) != 0) {
        close(fd);
        return;
    }
    for (unsigned i = 0; i < d->n; i++)
        if (d->dirs[i].used && d->dirs[i].fd >= 0 && d->dirs[i].dev == st.st_dev &&
            d->dirs[i].ino == st.st_ino) {
            d->dirs[i].seen = d->roots_look;
            close(fd);
            return;
        }
    if ((dir = free_dir(d)) == NULL) {
        close(fd);
        return;
    }
    *dir = (ring_dir){
        .used = true, .fd = fd, .dev = st.st_dev, .ino = st.st_ino, .seen = d->roots_look
    };
    watch_dir(d, dir);
}

/* At how many looks in a row the process was ours; *at goes along the list. */
static unsigned
looks_of(const pid_list *l, size_t *at, long pid)
{
    while (*at < l->n && l->v[*at].pid < pid)
        ++*at;
    return *at < l->n && l->v[*at].pid == pid ? l->v[*at].looks : 0;
}

/* Without memory it is not noted, and asked again next time. */
static void
note_ours(pid_list *l, long pid, unsigned looks)
{
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 256 : l->cap * 2;
        void *grown = realloc(l->v, cap * sizeof(*l->v));

        if (grown == NULL)
            return;
        l->v = grown;
        l->cap = cap;
    }
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

/* One process of each mount namespace other than ours. Asking for the namespace of every process
 * was half of what an idle agent costs, and they hardly ever change it. */
static void
look_at_roots(mrd_discover *d, mrd_local_ns now)
{
    ino_t *mnt = d->mnt;
    DIR *stream = opendir(d->proc_root);
    bool all = d->roots_look % OURS_AGAIN == 0;
    size_t n = 0, at = 0;
    struct dirent *e;

    d->roots_at.ns = now.ns + LOOK_ROOTS;
    d->roots_look++;
    d->denied = 0;
    while (stream != NULL && (e = readdir(stream)) != NULL) {
        char path[PATH_MAX];
        struct stat st;
        unsigned looks;
        size_t i;
        long pid;

        if (!isdigit((unsigned char) e->d_name[0]))
            continue;
        pid = strtol(e->d_name, NULL, 10);
        looks = looks_of(&d->ours, &at, pid);
        if (looks >= OURS_SURE && !all) {
            note_ours(&d->next, pid, looks);
            continue;
        }
        snprintf(path, sizeof(path), "%s/%.16s/ns/mnt", d->proc_root, e->d_name);
        if (stat(path, &st) != 0) {
            d->denied += errno == EACCES || errno == EPERM;
            continue;
        }
        if (st.st_ino == d->own_mnt) {
            note_ours(&d->next, pid, looks + 1);
            continue;
        }
        for (i = 0; i < n && mnt[i] != st.st_ino; i++)
            ;
        if (i < n || n == MNTS_MAX)
            continue;
        mnt[n++] = st.st_ino;
        add_root(d, e->d_name);
    }
    if (stream != NULL)
        closedir(stream);
    swap_lists(d);
    for (unsigned i = 1; i < d->n; i++)
        if (d->dirs[i].used && d->dirs[i].rings == 0 && d->dirs[i].seen + 1 < d->roots_look)
            forget(d, &d->dirs[i]);
}

/* ---- Steps ---- */

static void
take_notices(mrd_discover *d, mrd_local_ns now)
{
    _Alignas(struct inotify_event) char text[4096];
    ssize_t n;

    while (d->inotify >= 0 && (n = read(d->inotify, text, sizeof(text))) > 0)
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const void *) (text + at);

            for (unsigned i = 0; i < d->n; i++)
                if (d->dirs[i].used &&
                    (d->dirs[i].watch == e->wd || (e->mask & IN_Q_OVERFLOW) != 0))
                    d->dirs[i].look_at = now;
            at += (ssize_t) (sizeof(*e) + e->len);
        }
}

void
mrd_discover_step(mrd_discover *d, mrd_local_ns now, mrd_discover_found found, void *self)
{
    take_notices(d, now);
    if (d->containers && now.ns >= d->roots_at.ns)
        look_at_roots(d, now);
    for (unsigned i = 0; i < d->n; i++)
        if (d->dirs[i].used && now.ns >= d->dirs[i].look_at.ns)
            look(d, i, now, found, self);
}

void
mrd_discover_all(mrd_discover *d, mrd_discover_found found, void *self)
{
    mrd_local_ns now = mrd_local_now();

    if (d->containers)
        look_at_roots(d, now);
    for (unsigned i = 0; i < d->n; i++)
        if (d->dirs[i].used)
            look(d, i, now, found, self);
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
