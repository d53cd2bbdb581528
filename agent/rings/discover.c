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
#define TURN_TIME (2 * MRD_MS) /* time limit of one turn, for all directories together */
/* minimum number of ring files to handle in one turn, even if a slow machine then exceeds
 * TURN_TIME */
#define TURN_LEAST 16
#define NOTICES    16 /* maximum number of read() calls on the inotify descriptor in one turn */
/* A process is assumed to stay in the agent's mount namespace if this number of consecutive
 * searches found it there. */
#define OURS_SURE 2
/* Every 16th search also checks the processes that are assumed to stay. */
#define OURS_AGAIN 16

typedef struct {
    bool used;
    /* path of the directory; NULL if only the descriptor is available (in a container) */
    char *path;
    int fd, watch; /* descriptor and inotify watch of the directory; -1 means that there is none */
    dev_t dev;
    ino_t ino;
    /* if the directory is a container's /dev/shm: user of a process in the container */
    uid_t uid;
    char pod[64]; /* Kubernetes uid of the pod that has this directory; empty if no pod has it */
    mrd_local_ns look_at;
    mrd_dur_ns soon;
    /* the directory while a search reads it, which may take several turns; NULL if no search
     * runs */
    DIR *stream;
    /* `again`: the search found an unfinished ring file. `dirty`: inotify reported a change. */
    bool again, dirty;
    bool slow;      /* true if a search of this directory takes more than one turn */
    unsigned rings; /* number of open rings in the directory */
    /* number of the last search through the root directories of processes that found this
     * directory */
    uint64_t seen;
} ring_dir;

/* Processes in the agent's own mount namespace, sorted by pid. `looks` is the number of consecutive
 * searches that found the process there. */
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
    /* Numbers of processes with a root directory that could not be searched: in the last search
     * (denied), and in the running search (denying). */
    unsigned denied, denying;
    ino_t mnt[MNTS_MAX]; /* inodes of the mount namespaces that the running search has found */
    size_t n_mnt, ours_at;
    /* the list of all processes while a search reads it; NULL if no search runs */
    DIR *procs;
    unsigned turn;
    /* processes in the agent's mount namespace that the last search found (ours), and that the
     * running search has found up to now (next) */
    pid_list ours, next;
};

static void
watch_dir(mrd_discover *discover, ring_dir *dir)
{
    char path[64];

    dir->watch = -1;
    /* create the inotify instance only when it is needed, because a user may have at most 128 */
    if (discover->inotify < 0)
        discover->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (discover->inotify < 0)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", dir->fd);
    dir->watch = inotify_add_watch(discover->inotify, path, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
}

/* Opens a directory with a known path. Returns false if the directory does not exist yet. */
static bool
ensure_open(mrd_discover *discover, ring_dir *dir)
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
    watch_dir(discover, dir);
    return true;
}

static void
forget(mrd_discover *discover, ring_dir *dir)
{
    if (dir->stream != NULL)
        closedir(dir->stream);
    if (dir->watch >= 0)
        (void) inotify_rm_watch(discover->inotify, dir->watch);
    if (dir->fd >= 0)
        close(dir->fd);
    free(dir->path);
    *dir = (ring_dir){ .fd = -1, .watch = -1 };
}

mrd_err
mrd_discover_open(const char *ring_dir_path, const char *proc_root, bool containers,
                  mrd_discover **ret_discover, mrd_why *why)
{
    mrd_discover *discover = calloc(1, sizeof(*discover));
    struct stat st;

    if (discover == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "search for rings");
    for (unsigned i = 0; i < DIRS_MAX; i++)
        discover->dirs[i].fd = discover->dirs[i].watch = -1;
    discover->inotify = -1;
    discover->containers = containers;
    discover->proc_root = strdup(proc_root == NULL ? "/proc" : proc_root);
    discover->dirs[0].path = strdup(ring_dir_path);
    discover->dirs[0].used = true;
    discover->n = 1;
    if (stat("/proc/self/ns/mnt", &st) == 0)
        discover->own_mnt = st.st_ino;
    if (discover->proc_root == NULL || discover->dirs[0].path == NULL) {
        mrd_discover_close(discover);
        return mrd_why_set(why, MRD_NOMEM, 0, "search for rings");
    }
    *ret_discover = discover;
    return MRD_OK;
}

void
mrd_discover_close(mrd_discover *discover)
{
    if (discover == NULL)
        return;
    for (unsigned i = 0; i < discover->n; i++)
        forget(discover, &discover->dirs[i]);
    if (discover->procs != NULL)
        closedir(discover->procs);
    if (discover->inotify >= 0)
        close(discover->inotify);
    free(discover->proc_root);
    free(discover->ours.v);
    free(discover->next.v);
    free(discover);
}

/* Returns true if this is the file name of a ring or of a note of losses. */
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

/* Begins to read the directory. Opens the directory again, because a duplicated descriptor would
 * share the read position. */
static bool
begin_look(mrd_discover *discover, ring_dir *dir)
{
    int copy =
        ensure_open(discover, dir) ? openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

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

/* Begins or continues a search of one directory. Stops when the turn's time is over. A user can
 * create more files than one turn can handle, and must not block the agent. */
static void
look(mrd_discover *discover, unsigned i, mrd_local_ns now, mrd_local_ns end,
     mrd_discover_found found, void *self)
{
    ring_dir *dir = &discover->dirs[i];
    unsigned met = 0, seen = 0;
    struct dirent *entry;

    if (dir->stream == NULL && !begin_look(discover, dir)) {
        dir->look_at.ns = now.ns + MRD_WAIT_RINGS_BLIND;
        return;
    }
    while ((entry = readdir(dir->stream)) != NULL) {
        if (is_ring(entry->d_name) && ++met > 0 &&
            found(self, i, dir->fd, entry->d_name) == MRD_AGAIN)
            dir->again = true;
        if ((met >= TURN_LEAST || ++seen % 64 == 0) && !in_time(end)) {
            dir->slow = true;
            return;
        }
    }
    end_look(dir, now);
}

/* ---- Directories of containers ---- */

static ring_dir *
free_dir(mrd_discover *discover)
{
    for (unsigned i = 1; i < discover->n; i++)
        if (!discover->dirs[i].used)
            return &discover->dirs[i];
    return discover->n < DIRS_MAX ? &discover->dirs[discover->n++] : NULL;
}

/* Opens /dev/shm in the root of a process. Returns -1 with errno set on failure. Does not follow
 * symbolic links, because an absolute link would lead into the agent's own root. */
static int
open_shm(const mrd_discover *discover, const char *pid, uid_t *ret_uid)
{
    char path[PATH_MAX];
    struct stat st;
    int root, fd;

    snprintf(path, sizeof(path), "%s/%.16s", discover->proc_root, pid);
    if (stat(path, &st) != 0)
        return -1;
    *ret_uid = st.st_uid;
    snprintf(path, sizeof(path), "%s/%.16s/root", discover->proc_root, pid);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    fd = root < 0 ? -1 : mrd_safe_open_descend(root, "dev/shm", NULL);
    if (root >= 0)
        close(root);
    return fd;
}

static ring_dir *
find_dir(mrd_discover *discover, const struct stat *st)
{
    for (unsigned i = 0; i < discover->n; i++)
        if (discover->dirs[i].used && discover->dirs[i].fd >= 0 &&
            discover->dirs[i].dev == st->st_dev && discover->dirs[i].ino == st->st_ino)
            return &discover->dirs[i];
    return NULL;
}

/* Returns true if the user may have another directory: there must be more free slots than the user
 * already has directories. */
static bool
has_share(const mrd_discover *discover, uid_t uid)
{
    unsigned used = 0, own = 0;

    for (unsigned i = 0; i < discover->n; i++) {
        used += discover->dirs[i].used;
        own += i > 0 && discover->dirs[i].used && discover->dirs[i].uid == uid;
    }
    return own < DIRS_MAX - used;
}

/* Records that the running search found the directory. The directory counts as one of the process's
 * user, but only if this user owns it or is root. `owner` is the directory's owner. */
static void
is_seen(const mrd_discover *discover, ring_dir *dir, uid_t process, uid_t owner)
{
    dir->seen = discover->roots_look;
    if (process == 0 || process == owner)
        dir->uid = process;
}

/* Adds the /dev/shm that this process sees, unless the directory is already listed. */
static void
add_root(mrd_discover *discover, const char *pid)
{
    ring_dir *dir = NULL;
    struct stat st;
    uid_t uid;
    int fd = open_shm(discover, pid, &uid);

    if (fd < 0) {
        discover->denying += errno == EACCES || errno == EPERM;
        return;
    }
    if (fstat(fd, &st) == 0 && (dir = find_dir(discover, &st)) != NULL)
        is_seen(discover, dir, uid, st.st_uid);
    else if (fstat(fd, &st) == 0 && has_share(discover, uid) &&
             (dir = free_dir(discover)) != NULL) {
        *dir = (ring_dir){ .used = true,
                           .fd = fd,
                           .dev = st.st_dev,
                           .ino = st.st_ino,
                           .uid = uid,
                           .seen = discover->roots_look };
        mrd_pod_of(discover->proc_root, strtol(pid, NULL, 10), dir->pod);
        watch_dir(discover, dir);
        return;
    }
    close(fd);
}

/* Returns how many consecutive searches found the process in the agent's mount namespace. The list
 * is sorted by pid. *at is advanced to the process, so call this with ascending pids. */
static unsigned
looks_of(const pid_list *list, size_t *at, long pid)
{
    while (*at < list->n && list->v[*at].pid < pid)
        ++*at;
    return *at < list->n && list->v[*at].pid == pid ? list->v[*at].looks : 0;
}

/* Adds a process of the agent's mount namespace to the list. If out of memory, leaves the process
 * out, and the next search checks it again. */
static void
note_ours(pid_list *list, long pid, unsigned looks)
{
    if (!MRD_VEC_ROOM(list->v, list->n, list->cap, 1))
        return;
    list->v[list->n].pid = pid;
    list->v[list->n++].looks = looks;
}

static void
swap_lists(mrd_discover *discover)
{
    pid_list old = discover->ours;

    discover->ours = discover->next;
    discover->next = old;
    discover->next.n = 0;
}

/* Searches the root directory of a process, but only once for each mount namespace, and never in
 * the agent's own. A process hardly ever changes its namespace, so processes in the agent's
 * namespace are checked rarely. Checking every process in every search would take half of an idle
 * agent's time. */
static void
look_at_root(mrd_discover *discover, const char *name)
{
    bool all = discover->roots_look % OURS_AGAIN == 1;
    long pid = strtol(name, NULL, 10);
    unsigned looks = looks_of(&discover->ours, &discover->ours_at, pid);
    char path[PATH_MAX];
    struct stat st;
    size_t i;

    if (looks >= OURS_SURE && !all) {
        note_ours(&discover->next, pid, looks);
        return;
    }
    snprintf(path, sizeof(path), "%s/%.16s/ns/mnt", discover->proc_root, name);
    if (stat(path, &st) != 0) {
        discover->denying += errno == EACCES || errno == EPERM;
        return;
    }
    if (st.st_ino == discover->own_mnt) {
        note_ours(&discover->next, pid, looks + 1);
        return;
    }
    for (i = 0; i < discover->n_mnt && discover->mnt[i] != st.st_ino; i++)
        ;
    if (i < discover->n_mnt)
        return;
    if (discover->n_mnt < MNTS_MAX)
        discover->mnt[discover->n_mnt++] = st.st_ino;
    add_root(discover, name);
}

static void
begin_roots(mrd_discover *discover)
{
    discover->procs = opendir(discover->proc_root);
    discover->n_mnt = discover->ours_at = 0;
    discover->roots_look++;
    discover->denying = 0;
}

static void
end_roots(mrd_discover *discover, mrd_local_ns now)
{
    if (discover->procs != NULL)
        closedir(discover->procs);
    discover->procs = NULL;
    discover->roots_at.ns = now.ns + MRD_WAIT_RINGS_ROOTS;
    discover->denied = discover->denying;
    swap_lists(discover);
    for (unsigned i = 1; i < discover->n; i++)
        if (discover->dirs[i].used && discover->dirs[i].rings == 0 &&
            discover->dirs[i].seen + 1 < discover->roots_look)
            forget(discover, &discover->dirs[i]);
}

/* Begins or continues a search through the roots of all processes, until the turn's time is
 * over. */
static void
look_at_roots(mrd_discover *discover, mrd_local_ns now, mrd_local_ns end)
{
    struct dirent *entry;

    if (discover->procs == NULL)
        begin_roots(discover);
    while (discover->procs != NULL && (entry = readdir(discover->procs)) != NULL) {
        if (isdigit((unsigned char) entry->d_name[0]))
            look_at_root(discover, entry->d_name);
        if (!in_time(end))
            return;
    }
    end_roots(discover, now);
}

/* ---- One turn of the search ---- */

static void
take_notice(mrd_discover *discover, const struct inotify_event *event, mrd_local_ns now)
{
    for (unsigned i = 0; i < discover->n; i++) {
        ring_dir *dir = &discover->dirs[i];

        if (!dir->used || (dir->watch != event->wd && (event->mask & IN_Q_OVERFLOW) == 0))
            continue;
        dir->dirty = true;
        if (dir->stream == NULL && (!dir->slow || dir->look_at.ns > now.ns + MRD_WAIT_RINGS_GAP))
            dir->look_at.ns = now.ns + (dir->slow ? MRD_WAIT_RINGS_GAP : 0);
    }
}

static void
take_notices(mrd_discover *discover, mrd_local_ns now)
{
    _Alignas(struct inotify_event) char text[4096];
    ssize_t n;

    for (unsigned i = 0; i < NOTICES && discover->inotify >= 0 &&
                         (n = read(discover->inotify, text, sizeof(text))) > 0;
         i++)
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const void *) (text + at);

            take_notice(discover, event, now);
            at += (ssize_t) (sizeof(*event) + event->len);
        }
}

/* Searches the directories and process roots that are due, or all of them if `all` is true. Each
 * call begins with another directory, so that every directory gets its turn. */
static void
look_everywhere(mrd_discover *discover, mrd_local_ns now, mrd_local_ns end, bool all,
                mrd_discover_found found, void *self)
{
    unsigned first = discover->turn++, n = discover->n;

    for (unsigned k = 0; k < n; k++) {
        unsigned i = (first + k) % n;

        if (discover->dirs[i].used && (all || now.ns >= discover->dirs[i].look_at.ns))
            look(discover, i, now, end, found, self);
        if (!in_time(end))
            return;
    }
}

void
mrd_discover_step(mrd_discover *discover, mrd_local_ns now, mrd_discover_found found, void *self)
{
    mrd_local_ns end = mrd_local_add(mrd_local_now(), TURN_TIME);

    take_notices(discover, now);
    look_everywhere(discover, now, end, false, found, self);
    if (discover->containers && now.ns >= discover->roots_at.ns)
        look_at_roots(discover, now, mrd_local_add(mrd_local_now(), TURN_TIME));
}

void
mrd_discover_all(mrd_discover *discover, mrd_discover_found found, void *self)
{
    mrd_local_ns now = mrd_local_now();
    mrd_local_ns end = mrd_local_add(now, MRD_WAIT_RINGS_ALL);

    if (discover->containers)
        look_at_roots(discover, now, end);
    look_everywhere(discover, now, end, true, found, self);
}

int
mrd_discover_fd(const mrd_discover *discover)
{
    return discover->inotify;
}

mrd_local_ns
mrd_discover_next(const mrd_discover *discover)
{
    mrd_local_ns next = { INT64_MAX };

    if (discover->containers)
        next = discover->roots_at;
    for (unsigned i = 0; i < discover->n; i++)
        if (discover->dirs[i].used && discover->dirs[i].look_at.ns < next.ns)
            next = discover->dirs[i].look_at;
    return next;
}

int
mrd_discover_dir_fd(const mrd_discover *discover, unsigned dir)
{
    return discover->dirs[dir].fd;
}

uint32_t
mrd_discover_dir_user(const mrd_discover *discover, unsigned dir)
{
    return discover->dirs[dir].uid;
}

const char *
mrd_discover_dir_pod(const mrd_discover *discover, unsigned dir)
{
    return discover->dirs[dir].pod;
}

void
mrd_discover_hold(mrd_discover *discover, unsigned dir, int change)
{
    discover->dirs[dir].rings += (unsigned) change;
}

unsigned
mrd_discover_denied(const mrd_discover *discover)
{
    return discover->denied;
}

unsigned
mrd_discover_dirs(const mrd_discover *discover)
{
    unsigned n = 0;

    for (unsigned i = 0; i < discover->n; i++)
        n += discover->dirs[i].used && discover->dirs[i].fd >= 0;
    return n;
}
