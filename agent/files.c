#include "agent/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/folder.h"
#include "agent/worker.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/num.h"
#include "base/obj.h"
#include "trace/model/catalog.h" /* MRD_NONE */

#define STABLE_DEFAULT (2 * MRD_SEC)
#define LOOK_WATCHED   (10 * MRD_SEC)
#define LOOK_BLIND     (2 * MRD_SEC)
#define LOOK_BUSY      (500 * MRD_MS) /* while files wait to stand still */
#define LOOK_GAP       (50 * MRD_MS)  /* between two looks, and four times what one takes */
#define HASH_SLICE     (2u << 20)
#define CHUNK          (512u << 10)
#define RETRY          (500 * MRD_MS)
#define TRIES          20
#define NOTICES        16            /* reads of inotify in one turn */
#define STAMP_SLACK    (20 * MRD_MS) /* times of files are those of the kernel's last tick */

typedef enum { SEEN, READY, DONE, GIVEN_UP } file_state;

typedef struct {
    char *path;
    const char *rel; /* inside path: below the capture directory */
    unsigned dir;
    uint32_t next; /* of the same directory: index + 1 */
    uint64_t size;
    int64_t mtime_ns, still_since;
    file_state state;
    uint64_t look; /* number of the directory's last look that met it */
} file;

typedef struct {
    bool used;
    char *label; /* its path, or how a container's is reached */
    mrd_folder *folder;
    int64_t uid, pid; /* whose; MRD_OWNED_ANY, MRD_NONE */
    int64_t *pids;    /* processes that named it; none left: it goes */
    size_t n_pids, cap_pids;
    bool whole;                    /* not only files that were named */
    char *names[MRD_FOLDER_NAMES]; /* named since its last look */
    size_t n_names;
    bool refused_for_good; /* its process is not who its ring says */
    uint32_t first;        /* of its files: index + 1 */
    size_t n_files, waiting;
    uint64_t look; /* number of the look under way or the last one */
    bool looking, blind;
    int64_t look_at, began_at, looked_at, took_ns;
    uint64_t looks_turn, files_turn; /* when its user had a slice, a file */
    uint64_t beyond, refused, ignored, not_traces;
    bool said_refused, said_ignored;
    char said[MRD_WHY_MAX];
} dir;

typedef enum { IDLE, OPENING, HASHING, OFFERING, SENDING, FINISHING } stage;

typedef enum { NOTHING, LOOK, OPEN, HASH, READ } work_kind;

/* A piece of work, and all it touches: the worker's while it is under way. */
typedef struct {
    work_kind kind;
    mrd_folder *folder;
    unsigned dir;
    int inotify;
    mrd_folder_state look;
    const char *rel;
    int fd;
    uint64_t offset, n;
    int64_t took_ns;
    mrd_sha256 *sha;
    uint8_t *chunk;
    struct stat st;
    bool writing, known;
    mrd_err err;
    mrd_why why;
} work;

struct mrd_files {
    mrd_files_options o;
    dir dirs[MRD_FILES_DIRS];
    file *files;
    size_t n, cap;
    uint32_t *slots; /* by directory and path: index + 1 */
    size_t n_slots;
    int inotify, polled;
    uint64_t turn;
    bool file_next;  /* a file's work comes before a look's */
    int64_t pick_at; /* no file stands still for long enough before */
    uint64_t session;
    int64_t session_start;
    mrd_worker *worker;
    bool worker_polled;
    work work;
    /* The file under way. */
    stage stage;
    size_t at;
    int fd;
    mrd_sha256 *sha;
    char hex[MRD_SHA256_HEX];
    uint64_t offset;
    size_t chunk_len; /* read and not sent */
    bool asked;       /* a request is out */
    uint64_t tag;
    int64_t again_at;
    unsigned tries;
    mrd_buf frame;
    uint8_t *chunk;
    mrd_files_stats stats;
};

/* ---- Names ---- */

const char *
mrd_files_kind(const char *name)
{
    const char *kind = mrd_folder_kind(name);

    return kind == NULL ? "file" : kind;
}

static int64_t
number_after(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    int64_t v;
    size_t n;

    if (at == NULL)
        return MRD_NONE;
    at += strlen(word);
    n = strspn(at, "0123456789");
    return mrd_num_i64((mrd_str){ at, n }, &v) == MRD_OK ? v : MRD_NONE;
}

void
mrd_files_names(const char *rel, int64_t *ret_pid, int64_t *ret_nc)
{
    const char *base = strrchr(rel, '/');

    base = base == NULL ? rel : base + 1;
    *ret_pid = number_after(rel, "_pid_");
    *ret_nc = number_after(base, "_vnc_");
    if (*ret_nc == MRD_NONE)
        *ret_nc = number_after(base, "_nc_");
}

/* ---- The table of files ---- */

static size_t
slot_of(const mrd_files *f, unsigned d, const char *path)
{
    size_t i = (size_t) mrd_hash64(path, strlen(path), d) & (f->n_slots - 1);

    while (f->slots[i] != 0 && (f->files[f->slots[i] - 1].dir != d ||
                                strcmp(f->files[f->slots[i] - 1].path, path) != 0))
        i = (i + 1) & (f->n_slots - 1);
    return i;
}

static void
fill_slots(mrd_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        f->slots[slot_of(f, f->files[i].dir, f->files[i].path)] = (uint32_t) i + 1;
}

static size_t
files_max(const mrd_files *f)
{
    return f->o.max_files == 0 ? MRD_FILES_MAX : f->o.max_files;
}

/* A user may have as many as are left for others; the operator's directories have what they take. */
static bool
has_share(const mrd_files *f, int64_t uid)
{
    size_t own = 0;

    for (unsigned i = 0; i < MRD_FILES_DIRS && uid != MRD_OWNED_ANY; i++)
        own += f->dirs[i].used && f->dirs[i].uid == uid ? f->dirs[i].n_files : 0;
    return f->n < files_max(f) && (uid == MRD_OWNED_ANY || own < files_max(f) - f->n);
}

static bool
room(mrd_files *f, int64_t uid)
{
    size_t cap = f->cap == 0 ? 256 : f->cap * 2;
    file *files;
    uint32_t *slots;

    if (!has_share(f, uid))
        return false;
    if (f->n < f->cap)
        return true;
    if ((slots = calloc(cap * 2, sizeof(*slots))) == NULL)
        return false;
    if ((files = realloc(f->files, cap * sizeof(*files))) == NULL) {
        free(slots);
        return false;
    }
    f->files = files;
    f->cap = cap;
    free(f->slots);
    f->slots = slots;
    f->n_slots = cap * 2;
    fill_slots(f);
    return true;
}

/* Settled and not there any more, or of a directory that goes. */
static bool
is_gone(const mrd_files *f, const file *one, unsigned leaving)
{
    return one->dir == leaving || (one->look != f->dirs[one->dir].look && one->state >= DONE &&
                                   !f->dirs[one->dir].looking);
}

/* Makes room; leaving: a directory whose files go with it, MRD_FILES_DIRS none. */
static void
forget_files(mrd_files *f, unsigned leaving)
{
    size_t left = 0;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        f->dirs[i].first = 0;
        f->dirs[i].n_files = 0;
    }
    for (size_t i = 0; i < f->n; i++) {
        dir *d = &f->dirs[f->files[i].dir];
        bool under_way = f->stage != IDLE && f->at == i;

        if (!under_way && is_gone(f, &f->files[i], leaving)) {
            f->stats.waiting -= f->files[i].state < DONE;
            free(f->files[i].path);
            continue;
        }
        if (under_way)
            f->at = left;
        f->files[left] = f->files[i];
        f->files[left++].next = d->first;
        d->first = (uint32_t) left;
        d->n_files++;
    }
    f->n = left;
    if (f->n_slots > 0)
        memset(f->slots, 0, f->n_slots * sizeof(*f->slots));
    fill_slots(f);
}

static void
wait_for(mrd_files *f, file *one)
{
    f->stats.waiting++;
    f->dirs[one->dir].waiting++;
    f->pick_at = 0;
}

static void
settle(mrd_files *f, file *one, file_state state)
{
    one->state = state;
    f->stats.waiting--;
    f->dirs[one->dir].waiting--;
}

static void
meet_again(mrd_files *f, file *one, const mrd_folder_file *met, int64_t now)
{
    one->look = f->dirs[one->dir].look;
    if (one->size == met->size && one->mtime_ns == met->mtime_ns)
        return;
    if (one->state == DONE || one->state == GIVEN_UP)
        wait_for(f, one);
    one->size = met->size;
    one->mtime_ns = met->mtime_ns;
    one->still_since = now;
    one->state = SEEN;
    f->pick_at = 0;
}

/* A file met by a look: new, changed, or as it was. */
static void
meet(mrd_files *f, unsigned at, const mrd_folder_file *met, int64_t now)
{
    dir *d = &f->dirs[at];
    size_t label = strlen(d->label), n = label + strlen(met->rel) + 2, slot;
    char *path = malloc(n);
    file *one;

    if (path == NULL) {
        d->beyond++;
        return;
    }
    snprintf(path, n, "%s/%s", d->label, met->rel);
    slot = f->n_slots == 0 ? 0 : slot_of(f, at, path);
    if (f->n_slots > 0 && f->slots[slot] != 0) {
        meet_again(f, &f->files[f->slots[slot] - 1], met, now);
        free(path);
        return;
    }
    if (!room(f, d->uid)) {
        d->beyond++;
        free(path);
        return;
    }
    slot = slot_of(f, at, path);
    one = &f->files[f->n];
    *one = (file){ .path = path,
                   .rel = path + label + 1,
                   .dir = at,
                   .next = d->first,
                   .size = met->size,
                   .mtime_ns = met->mtime_ns,
                   .still_since = now,
                   .look = d->look };
    f->slots[slot] = (uint32_t) ++f->n;
    d->first = (uint32_t) f->n;
    d->n_files++;
    f->stats.found++;
    wait_for(f, one);
}

/* ---- Directories ---- */

static void
poll_too(mrd_files *f, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN };

    if (f->polled < 0)
        f->polled = epoll_create1(EPOLL_CLOEXEC);
    if (f->polled >= 0)
        (void) epoll_ctl(f->polled, EPOLL_CTL_ADD, fd, &ev);
}

/* The directory is told to go, with what is known of its files. */
static void
drop_dir(mrd_files *f, unsigned at)
{
    dir *d = &f->dirs[at];

    forget_files(f, at);
    while (d->n_names > 0)
        free(d->names[--d->n_names]);
    mrd_folder_free(d->folder, f->inotify);
    free(d->label);
    free(d->pids);
    *d = (dir){ 0 };
    f->stats.dirs--;
}

/* No process is left that named it, it was looked through since, and nothing of it is wanted. */
static bool
may_go(const mrd_files *f, unsigned at)
{
    const dir *d = &f->dirs[at];
    bool busy = (f->stage != IDLE && f->files[f->at].dir == at) ||
                (f->work.kind == LOOK && f->work.dir == at);

    return d->used && d->uid != MRD_OWNED_ANY && d->n_pids == 0 && !busy && !d->looking &&
           (d->refused_for_good || d->looked_at >= d->look_at) &&
           (d->waiting == 0 || f->session == 0);
}

static void
say_once(dir *d)
{
    if (d->refused > 0 && !d->said_refused)
        mrd_log(MRD_LOG_WARN, "AGT-FILES-REFUSED",
                "Files are not taken because they are links or do not belong to the directory's "
                "user: dir=%s user=%lld files=%llu",
                d->label, (long long) d->uid, (unsigned long long) d->refused);
    if (d->ignored + d->not_traces > 0 && !d->said_ignored)
        mrd_log(MRD_LOG_INFO, "AGT-FILES-IGNORED",
                "Files of unknown kinds stay where they are: dir=%s files=%llu", d->label,
                (unsigned long long) (d->ignored + d->not_traces));
    d->said_refused = d->said_refused || d->refused > 0;
    d->said_ignored = d->said_ignored || d->ignored + d->not_traces > 0;
}

static void
say_state(dir *d, const mrd_folder_state *st)
{
    const char *why = st->err == MRD_OK ? "" : st->why;

    if (*why != '\0' && strcmp(why, d->said) != 0)
        mrd_log(MRD_LOG_WARN, "AGT-WATCH", "Capture directory not watched: path=%s reason=%s",
                d->label, why);
    snprintf(d->said, sizeof(d->said), "%s", why);
}

static void
sum_counts(mrd_files *f)
{
    uint64_t before = f->stats.beyond;

    f->stats.beyond = f->stats.refused = f->stats.ignored = 0;
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        f->stats.beyond += f->dirs[i].beyond;
        f->stats.refused += f->dirs[i].refused;
        f->stats.ignored += f->dirs[i].ignored + f->dirs[i].not_traces;
    }
    if (f->stats.beyond > 0 && before == 0)
        mrd_log(MRD_LOG_WARN, "AGT-FILES-MAX",
                "More files than may be known: left_out=%llu, raise --files-max or empty the "
                "capture directories",
                (unsigned long long) f->stats.beyond);
}

/* Those that were not met: removed before they could be taken, or settled and of no more use. */
static size_t
look_for_gone(mrd_files *f, const dir *d)
{
    size_t gone = 0;

    for (uint32_t i = d->first; i != 0; i = f->files[i - 1].next) {
        file *one = &f->files[i - 1];

        if (one->look == d->look || (f->stage != IDLE && f->at == i - 1))
            continue;
        if (one->state < DONE) {
            settle(f, one, GIVEN_UP);
            f->stats.failed++;
        }
        gone++;
    }
    return gone;
}

static void
end_look(mrd_files *f, unsigned at, const mrd_folder_state *st, int64_t now)
{
    dir *d = &f->dirs[at];
    uint64_t beyond = d->beyond;
    size_t gone;
    bool again;

    d->looking = false;
    d->looked_at = d->began_at;
    d->blind = st->blind;
    d->refused = st->refused;
    d->ignored = st->ignored;
    d->beyond += st->left_out;
    gone = look_for_gone(f, d);
    again = gone > 0 && beyond > 0;
    if (again || gone > f->n / 2)
        forget_files(f, MRD_FILES_DIRS);
    d->look_at = now + (again            ? 0 /* there is room for the others now */
                        : d->waiting > 0 ? LOOK_BUSY
                        : d->blind       ? LOOK_BLIND
                                         : LOOK_WATCHED);
    sum_counts(f);
    say_once(d);
}

static void
apply_look(mrd_files *f, int64_t now)
{
    const work *w = &f->work;
    dir *d = &f->dirs[w->dir];
    const mrd_folder_file *found;
    size_t n;

    found = mrd_folder_found(d->folder, &n);
    for (size_t i = 0; i < n; i++)
        meet(f, w->dir, &found[i], now);
    d->took_ns += w->took_ns;
    say_state(d, &w->look);
    d->refused_for_good = w->look.lost;
    if (w->look.over)
        end_look(f, w->dir, &w->look, now);
}

/* When it may be looked at: a directory that takes long is looked at for a fifth of the time. */
static int64_t
due_at(const dir *d)
{
    int64_t gap = d->took_ns * 4 < LOOK_GAP ? LOOK_GAP : d->took_ns * 4;

    if (!d->used || d->refused_for_good)
        return INT64_MAX;
    if (d->looking)
        return 0;
    return d->began_at > 0 && d->look_at < d->began_at + d->took_ns + gap
               ? d->began_at + d->took_ns + gap
               : d->look_at;
}

/* When a user had its last slice, or its last file. */
static uint64_t
served(const mrd_files *f, int64_t uid, bool looks)
{
    uint64_t last = 0;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        const dir *d = &f->dirs[i];
        uint64_t turn = looks ? d->looks_turn : d->files_turn;

        if (d->used && d->uid == uid && turn > last)
            last = turn;
    }
    return last;
}

/* The directory to go on with: of the user, then the directory, that waited longest. */
static bool
choose_dir(const mrd_files *f, int64_t now, unsigned *ret_at)
{
    uint64_t best_user = UINT64_MAX, best = UINT64_MAX;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        const dir *d = &f->dirs[i];
        uint64_t user;

        if (!d->used || due_at(d) > now)
            continue;
        user = served(f, d->uid, true);
        if (user < best_user || (user == best_user && d->looks_turn < best)) {
            best_user = user;
            best = d->looks_turn;
            *ret_at = i;
        }
    }
    return best_user != UINT64_MAX;
}

/* ---- Work for the thread ---- */

static bool
open_for_writing(int fd)
{
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
        (void) fcntl(fd, F_SETLEASE, F_UNLCK);
        return false;
    }
    return errno == EAGAIN; /* other errors: the kernel does not tell here; stillness decides */
}

static void
do_look(work *w)
{
    int64_t before = mrd_local_now().ns;

    mrd_folder_slice(w->folder, w->inotify, &w->look);
    w->took_ns = mrd_local_now().ns - before;
}

static void
do_open(work *w)
{
    w->err = mrd_folder_open(w->folder, w->rel, &w->fd, &w->st, &w->why);
    if (w->err != MRD_OK)
        return;
    w->writing = open_for_writing(w->fd);
    w->known = mrd_folder_content(w->fd, w->rel);
    if (fstat(w->fd, &w->st) != 0)
        w->err = mrd_why_set(&w->why, MRD_IO, errno, "it cannot be read");
}

static void
read_piece(work *w)
{
    ssize_t n = pread(w->fd, w->chunk, CHUNK, (off_t) w->offset);

    if (n < 0 || fstat(w->fd, &w->st) != 0)
        w->err = mrd_why_set(&w->why, MRD_IO, errno, "it cannot be read");
    w->n = n < 0 ? 0 : (uint64_t) n;
}

static void
do_hash(work *w)
{
    uint64_t done = 0;

    do {
        read_piece(w);
        mrd_sha256_add(w->sha, w->chunk, w->n);
        w->offset += w->n;
        done += w->n;
    } while (w->err == MRD_OK && w->n > 0 && done < HASH_SLICE);
    w->n = done;
}

static void
do_work(void *arg)
{
    work *w = arg;

    switch (w->kind) {
    case LOOK:
        do_look(w);
        break;
    case OPEN:
        do_open(w);
        break;
    case HASH:
        do_hash(w);
        break;
    case READ:
        read_piece(w);
        break;
    case NOTHING:
        break;
    }
}

static void
post(mrd_files *f)
{
    if (!mrd_worker_post(f->worker, do_work, &f->work)) {
        f->work.kind = NOTHING; /* no thread can be made now: the next turn tries again */
        return;
    }
    if (!f->worker_polled)
        poll_too(f, mrd_worker_fd(f->worker));
    f->worker_polled = true;
}

static void
post_file(mrd_files *f, work_kind kind)
{
    const file *one = &f->files[f->at];

    f->work = (work){ .kind = kind,
                      .folder = f->dirs[one->dir].folder,
                      .dir = one->dir,
                      .rel = one->rel,
                      .fd = f->fd,
                      .offset = f->offset,
                      .sha = f->sha,
                      .chunk = f->chunk };
    post(f);
}

/* What was asked for while the thread may have had the folder. */
static void
tell_folder(dir *d)
{
    if (d->whole)
        mrd_folder_whole(d->folder);
    while (d->n_names > 0) {
        d->n_names--;
        if (!d->whole && mrd_folder_name(d->folder, d->names[d->n_names]) != MRD_OK)
            d->beyond++;
        free(d->names[d->n_names]);
    }
}

static bool
post_look(mrd_files *f, int64_t now)
{
    unsigned at;
    dir *d;

    if (!choose_dir(f, now, &at))
        return false;
    d = &f->dirs[at];
    if (!d->looking) {
        d->looking = true;
        d->look++;
        d->began_at = now;
        d->took_ns = 0;
        d->beyond = 0;
        tell_folder(d);
    }
    d->looks_turn = ++f->turn;
    if (f->inotify < 0) { /* only now: a user has no more than 128 of them */
        f->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (f->inotify >= 0)
            poll_too(f, f->inotify);
    }
    f->work = (work){ .kind = LOOK, .folder = d->folder, .dir = at, .inotify = f->inotify };
    post(f);
    return true;
}

/* ---- Taking one file through ---- */

static void
close_file(mrd_files *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    mrd_sha256_free(f->sha);
    f->sha = NULL;
    f->stage = IDLE;
    f->asked = false;
    f->tries = 0;
    f->pick_at = 0;
    f->chunk_len = 0;
}

static void
finish(mrd_files *f, file_state state, const char *sentence)
{
    file *one = &f->files[f->at];

    close_file(f);
    if (state == SEEN) { /* it changed while it was read: from the start */
        one->state = SEEN;
        one->still_since = mrd_local_now().ns;
        return;
    }
    settle(f, one, state);
    f->stats.delivered += state == DONE;
    f->stats.failed += state == GIVEN_UP;
    if (f->o.settled != NULL)
        f->o.settled(f->o.self, one->path, f->hex, sentence);
}

static void
ignore(mrd_files *f)
{
    file *one = &f->files[f->at];
    dir *d = &f->dirs[one->dir];

    close_file(f);
    settle(f, one, DONE);
    d->not_traces++;
    sum_counts(f);
    say_once(d);
}

static bool
unchanged(const mrd_files *f, const struct stat *st)
{
    const file *one = &f->files[f->at];

    return (uint64_t) st->st_size == one->size &&
           st->st_mtim.tv_sec * MRD_SEC + st->st_mtim.tv_nsec == one->mtime_ns;
}

static void
begin(mrd_files *f, size_t i)
{
    f->at = i;
    f->hex[0] = '\0';
    f->offset = 0;
    f->dirs[f->files[i].dir].files_turn = ++f->turn;
    f->stage = OPENING;
}

static void
apply_open(mrd_files *f)
{
    const work *w = &f->work;

    f->fd = w->err == MRD_OK ? w->fd : -1;
    if (w->err == MRD_NOTFOUND) {
        finish(f, GIVEN_UP, "it was removed before it could be read");
    } else if (w->err != MRD_OK && w->err != MRD_AGAIN) {
        finish(f, GIVEN_UP, w->why.text);
    } else if (w->err == MRD_OK && f->o.max_bytes > 0 &&
               (uint64_t) w->st.st_size > f->o.max_bytes) {
        f->stats.left_out++;
        finish(f, GIVEN_UP, "it is larger than --artifact-max");
    } else if (w->err == MRD_AGAIN || w->writing || !unchanged(f, &w->st)) {
        finish(f, SEEN, "");
    } else if (!w->known) {
        ignore(f);
    } else if ((f->sha = mrd_sha256_new()) == NULL) {
        finish(f, SEEN, "");
    } else {
        f->stage = HASHING;
    }
}

/* A file that can be taken: it stands still and is of this session. */
static bool
is_ready(mrd_files *f, file *one, int64_t now)
{
    mrd_dur_ns stable = f->o.stable == 0 ? STABLE_DEFAULT : f->o.stable;

    if (one->state != SEEN)
        return false;
    if (now - one->still_since < stable) {
        if (one->still_since + stable < f->pick_at)
            f->pick_at = one->still_since + stable;
        return false;
    }
    if (one->mtime_ns < f->session_start - STAMP_SLACK) { /* of an earlier run */
        settle(f, one, DONE);
        return false;
    }
    return true;
}

/* The first one that is ready, of the user who waited longest. */
static void
pick(mrd_files *f, int64_t now)
{
    uint64_t waited[MRD_FILES_DIRS], best_turn = UINT64_MAX;
    size_t best = f->n;

    if (f->session == 0 || now < f->pick_at)
        return;
    f->pick_at = INT64_MAX;
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        waited[i] = f->dirs[i].waiting == 0 ? UINT64_MAX : served(f, f->dirs[i].uid, false);
    for (size_t i = 0; i < f->n; i++)
        if (waited[f->files[i].dir] < best_turn && is_ready(f, &f->files[i], now)) {
            best_turn = waited[f->files[i].dir];
            best = i;
        }
    if (best < f->n) {
        f->pick_at = 0;
        begin(f, best);
    }
}

static void
apply_hash(mrd_files *f)
{
    const work *w = &f->work;
    const file *one = &f->files[f->at];

    f->offset = w->offset;
    f->stats.bytes_hashed += w->n;
    if (w->err != MRD_OK) {
        finish(f, GIVEN_UP, w->why.text);
    } else if (f->offset > one->size || !unchanged(f, &w->st)) {
        finish(f, SEEN, "");
    } else if (w->n == 0 || f->offset == one->size) {
        if (f->offset < one->size) {
            finish(f, SEEN, "");
            return;
        }
        mrd_sha256_hex(f->sha, f->hex);
        f->stage = OFFERING;
        if (f->o.complete != NULL)
            f->o.complete(f->o.self, &(mrd_files_complete){ .path = one->path,
                                                            .rel = one->rel,
                                                            .sha256 = f->hex,
                                                            .pid = f->dirs[one->dir].pid,
                                                            .uid = f->dirs[one->dir].uid,
                                                            .fd = f->fd });
    }
}

static void
apply_read(mrd_files *f)
{
    const work *w = &f->work;

    if (w->err != MRD_OK)
        finish(f, GIVEN_UP, w->why.text);
    else if ((w->n == 0 && f->offset < f->files[f->at].size) || !unchanged(f, &w->st))
        finish(f, SEEN, "");
    else if (w->n == 0)
        f->stage = FINISHING;
    else
        f->chunk_len = w->n;
}

static void
send(mrd_files *f, uint8_t type, const void *message, int64_t now)
{
    mrd_frame head = { .type = type, .agent = f->o.agent, .session = f->session };

    mrd_buf_reset(&f->frame);
    if (mrd_msg_pack(&head, message, &f->frame, NULL) == MRD_OK &&
        f->o.send(f->o.self, ++f->tag, (mrd_bytes){ f->frame.p, f->frame.len }) == MRD_OK)
        f->asked = true;
    else
        f->again_at = now + 5 * MRD_MS;
}

/* A name the aggregator takes: without the process's folder, which it makes itself. */
static const char *
wire_name(const char *rel)
{
    const char *slash = strchr(rel, '/');

    return slash != NULL && strstr(rel, "_pid_") != NULL && strstr(rel, "_pid_") < slash ? slash + 1
                                                                                         : rel;
}

static void
offer(mrd_files *f, int64_t now)
{
    const file *one = &f->files[f->at];
    Mrd__ArtifactOffer m = MRD__ARTIFACT_OFFER__INIT;
    char name[256], kind[32];
    int64_t pid, nc;

    mrd_files_names(one->rel, &pid, &nc);
    snprintf(name, sizeof(name), "%.255s", wire_name(one->rel));
    snprintf(kind, sizeof(kind), "%s", mrd_files_kind(one->rel));
    m.sha256 = f->hex;
    m.size = one->size;
    m.name = name;
    m.kind = kind;
    m.process_id = pid != MRD_NONE ? pid : f->dirs[one->dir].pid;
    m.nc_idx = nc;
    send(f, MRD_FRAME_OFFER, &m, now);
}

static void
send_chunk(mrd_files *f, int64_t now)
{
    Mrd__ArtifactChunk m = MRD__ARTIFACT_CHUNK__INIT;

    m.sha256 = f->hex;
    m.offset = f->offset;
    m.data = (ProtobufCBinaryData){ f->chunk_len, f->chunk };
    send(f, MRD_FRAME_CHUNK, &m, now);
    if (f->asked)
        f->stats.bytes_sent += f->chunk_len;
}

static void
say_done(mrd_files *f, int64_t now)
{
    Mrd__ArtifactDone m = MRD__ARTIFACT_DONE__INIT;

    m.sha256 = f->hex;
    m.size = f->files[f->at].size;
    send(f, MRD_FRAME_DONE, &m, now);
}

/* ---- Answers ---- */

static void
try_again(mrd_files *f, int64_t wait, const char *sentence)
{
    f->again_at = mrd_local_now().ns + wait;
    if (++f->tries > TRIES && *sentence != '\0')
        finish(f, GIVEN_UP, sentence);
}

static void
on_want(mrd_files *f, const Mrd__ArtifactWant *w)
{
    if (w->have) {
        f->stats.duplicates++;
        finish(f, DONE, "");
    } else if (w->err == MRD_AGAIN || w->err == MRD_FULL || w->err == MRD_IO ||
               w->err == MRD_NOMEM) { /* it cannot now: nothing is wrong with the file */
        f->again_at =
            mrd_local_now().ns + (w->retry_after_ms == 0 ? RETRY : w->retry_after_ms * MRD_MS);
    } else if (w->err != 0 && w->retry_after_ms == 0) {
        finish(f, GIVEN_UP, w->sentence);
    } else if (w->err != 0) {
        try_again(f, w->retry_after_ms * MRD_MS, w->sentence);
    } else {
        f->offset = w->offset > f->files[f->at].size ? 0 : w->offset;
        f->stage = SENDING;
        f->chunk_len = 0;
        f->tries = 0;
    }
}

static void
on_ack(mrd_files *f, const Mrd__Ack *a)
{
    int64_t wait = a->retry_after_ms == 0 ? RETRY : a->retry_after_ms * MRD_MS;

    if (a->status == MRD__ACK_STATUS__ACK_REFUSED) {
        f->stage = OFFERING; /* it says there what it has and wants */
        try_again(f, wait, a->sentence);
    } else if (a->status == MRD__ACK_STATUS__ACK_NOT_STORED ||
               a->status == MRD__ACK_STATUS__ACK_SLOW_DOWN) {
        f->again_at = mrd_local_now().ns + wait;
    } else if (f->stage == FINISHING) {
        finish(f, DONE, "");
    } else if (f->stage == SENDING) {
        f->offset = a->artifact_offset;
        f->chunk_len = 0;
        f->tries = 0;
        if (f->offset >= f->files[f->at].size)
            f->stage = FINISHING;
    }
}

void
mrd_files_answer(mrd_files *f, uint64_t tag, const mrd_msg *msg)
{
    if (f->stage == IDLE || !f->asked || tag != f->tag)
        return; /* of a file given up meanwhile */
    f->asked = false;
    if (msg == NULL) {
        f->stage = OFFERING; /* how far did it come? */
        f->again_at = mrd_local_now().ns + RETRY;
    } else if (msg->frame.type == MRD_FRAME_WANT && f->stage == OFFERING) {
        on_want(f, msg->u.want);
    } else if (msg->frame.type == MRD_FRAME_ACK) {
        on_ack(f, msg->u.ack);
    } else {
        try_again(f, RETRY, "the aggregator's answer makes no sense");
    }
}

/* ---- Steps ---- */

static void
take_notices(mrd_files *f)
{
    char text[4096];
    bool any = false;

    for (unsigned i = 0; i < NOTICES && f->inotify >= 0 && read(f->inotify, text, sizeof(text)) > 0;
         i++)
        any = true;
    if (any)
        mrd_files_look(f);
}

/* What the thread has done. */
static void
collect(mrd_files *f, int64_t now)
{
    work_kind kind = f->work.kind;

    if (kind == NOTHING || !mrd_worker_take(f->worker))
        return;
    f->work.kind = NOTHING;
    switch (kind) {
    case LOOK:
        apply_look(f, now);
        break;
    case OPEN:
        apply_open(f);
        break;
    case HASH:
        apply_hash(f);
        break;
    case READ:
        apply_read(f);
        break;
    case NOTHING:
        break;
    }
}

/* The work that the file under way needs next. */
static work_kind
file_work(const mrd_files *f)
{
    switch (f->stage) {
    case OPENING:
        return OPEN;
    case HASHING:
        return HASH;
    case SENDING:
        return f->chunk_len == 0 && !f->asked ? READ : NOTHING;
    default:
        return NOTHING;
    }
}

/* A file's work and looks in turn. */
static void
hand_out(mrd_files *f, int64_t now)
{
    work_kind kind = file_work(f);

    if (f->work.kind != NOTHING)
        return;
    f->file_next = !f->file_next;
    if (kind != NOTHING && (f->file_next || !post_look(f, now)))
        post_file(f, kind);
    else if (kind == NOTHING)
        (void) post_look(f, now);
}

static void
forget_dirs(mrd_files *f)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (may_go(f, i))
            drop_dir(f, i);
}

void
mrd_files_step(mrd_files *f, int64_t now)
{
    take_notices(f);
    collect(f, now);
    if (f->stage == IDLE)
        pick(f, now);
    hand_out(f, now);
    forget_dirs(f);
    if (f->asked || now < f->again_at)
        return;
    if (f->stage == OFFERING)
        offer(f, now);
    else if (f->stage == SENDING && f->chunk_len > 0)
        send_chunk(f, now);
    else if (f->stage == FINISHING)
        say_done(f, now);
}

void
mrd_files_look(mrd_files *f)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        f->dirs[i].look_at = 0;
}

int64_t
mrd_files_next_ns(const mrd_files *f)
{
    int64_t next = INT64_MAX;

    if (f->stage > HASHING && !f->asked && (f->stage != SENDING || f->chunk_len > 0))
        next = f->again_at;
    if (f->work.kind != NOTHING)
        return next; /* its descriptor tells */
    if (file_work(f) != NOTHING)
        return 0;
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (due_at(&f->dirs[i]) < next)
            next = due_at(&f->dirs[i]);
    return f->stage == IDLE && f->session != 0 && f->pick_at < next ? f->pick_at : next;
}

/* ---- What is watched ---- */

static dir *
find_dir(mrd_files *f, mrd_str label, int64_t uid)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (f->dirs[i].used && f->dirs[i].uid == uid &&
            mrd_str_eq(mrd_str_of(f->dirs[i].label), label))
            return &f->dirs[i];
    return NULL;
}

static dir *
free_dir(mrd_files *f, int64_t uid)
{
    unsigned own = 0, used = 0;
    dir *d = NULL;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        used += f->dirs[i].used;
        own += f->dirs[i].used && f->dirs[i].uid == uid;
        if (!f->dirs[i].used)
            d = &f->dirs[i];
    }
    return uid == MRD_OWNED_ANY || own < MRD_FILES_DIRS - used ? d : NULL;
}

static mrd_err
add_pid(dir *d, int64_t pid)
{
    size_t cap = d->cap_pids == 0 ? 4 : d->cap_pids * 2;
    int64_t *grown;

    for (size_t i = 0; i < d->n_pids; i++)
        if (d->pids[i] == pid)
            return MRD_OK;
    if (d->n_pids == d->cap_pids) {
        if ((grown = realloc(d->pids, cap * sizeof(*grown))) == NULL)
            return MRD_NOMEM;
        d->pids = grown;
        d->cap_pids = cap;
    }
    d->pids[d->n_pids++] = pid;
    return MRD_OK;
}

static mrd_err
add_name(dir *d, const char *name)
{
    for (size_t i = 0; i < d->n_names; i++)
        if (strcmp(d->names[i], name) == 0)
            return MRD_OK;
    if (d->n_names == MRD_FOLDER_NAMES)
        return MRD_LIMIT;
    if ((d->names[d->n_names] = strdup(name)) == NULL)
        return MRD_NOMEM;
    d->n_names++;
    return MRD_OK;
}

static mrd_err
new_dir(mrd_files *f, const mrd_files_place *place, mrd_str label, int64_t uid, dir **ret_dir)
{
    mrd_folder_options fo = { f->o.proc_root, place->path, place->claim };
    dir *d = free_dir(f, uid);

    if (d == NULL)
        return MRD_LIMIT;
    *d = (dir){
        .label = mrd_str_dup(label), .folder = mrd_folder_new(&fo), .uid = uid, .pid = place->pid
    };
    if (d->label == NULL || d->folder == NULL) {
        free(d->label);
        mrd_folder_free(d->folder, -1);
        *d = (dir){ 0 };
        return MRD_NOMEM;
    }
    d->used = true;
    f->stats.dirs++;
    *ret_dir = d;
    return MRD_OK;
}

mrd_err
mrd_files_watch(mrd_files *f, const mrd_files_place *place)
{
    mrd_str label = mrd_str_of(place->label != NULL ? place->label : place->path);
    int64_t uid = place->claim == NULL ? MRD_OWNED_ANY : (int64_t) place->claim->uid;
    mrd_err err = MRD_OK;
    dir *d;

    if (place->path[0] == '\0' || (place->claim != NULL && place->path[0] != '/'))
        return MRD_INVALID;
    while (label.len > 1 && label.p[label.len - 1] == '/')
        label.len--;
    d = find_dir(f, label, uid);
    if (d == NULL && (err = new_dir(f, place, label, uid, &d)) != MRD_OK)
        return err;
    if (place->claim != NULL && (err = add_pid(d, place->pid)) != MRD_OK)
        return err;
    if (place->name == NULL && !d->whole) {
        d->whole = true;
        d->look_at = 0;
    } else if (place->name != NULL && !d->whole) {
        err = add_name(d, place->name);
        d->look_at = 0;
    }
    return err;
}

void
mrd_files_gone(mrd_files *f, int64_t pid)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        dir *d = &f->dirs[i];

        for (size_t k = 0; k < d->n_pids; k++)
            if (d->pids[k] == pid) {
                d->pids[k--] = d->pids[--d->n_pids];
                d->look_at = d->n_pids == 0 ? mrd_local_now().ns : d->look_at;
            }
    }
}

void
mrd_files_session(mrd_files *f, uint64_t session, int64_t start_wall_ns)
{
    if (session == f->session)
        return;
    f->session = session;
    f->session_start = start_wall_ns;
    f->pick_at = 0;
    mrd_files_look(f);
}

bool
mrd_files_idle(const mrd_files *f, int64_t since_ns)
{
    if (f->stats.dirs == 0)
        return true;
    if (f->stats.waiting > 0 || f->stage != IDLE)
        return false;
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (f->dirs[i].used && !f->dirs[i].refused_for_good && f->dirs[i].looked_at <= since_ns)
            return false;
    return true;
}

int
mrd_files_fd(const mrd_files *f)
{
    return f->polled;
}

void
mrd_files_get_stats(const mrd_files *f, mrd_files_stats *ret_stats)
{
    *ret_stats = f->stats;
}

mrd_err
mrd_files_open(const mrd_files_options *options, mrd_files **ret_files, mrd_why *why)
{
    mrd_files *f = calloc(1, sizeof(*f));

    if (f == NULL || (f->chunk = malloc(CHUNK)) == NULL || (f->worker = mrd_worker_new()) == NULL) {
        if (f != NULL)
            free(f->chunk);
        free(f);
        return mrd_why_set(why, MRD_NOMEM, 0, "capture directories");
    }
    f->o = *options;
    f->fd = f->inotify = f->polled = -1;
    *ret_files = f;
    return MRD_OK;
}

void
mrd_files_close(mrd_files *f)
{
    if (f == NULL)
        return;
    if (!mrd_worker_free(f->worker)) {
        mrd_log(MRD_LOG_WARN, "AGT-FILES-HANG",
                "A file system does not answer; what reads it is left behind: dir=%s",
                f->dirs[f->work.dir].label);
        return; /* the thread uses all of it */
    }
    if (f->work.kind == OPEN && f->work.err == MRD_OK && f->work.fd >= 0)
        close(f->work.fd); /* done, and not taken */
    close_file(f);
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (f->dirs[i].used)
            drop_dir(f, i);
    if (f->inotify >= 0)
        close(f->inotify);
    if (f->polled >= 0)
        close(f->polled);
    for (size_t i = 0; i < f->n; i++)
        free(f->files[i].path);
    free(f->files);
    free(f->slots);
    free(f->chunk);
    mrd_buf_fini(&f->frame);
    free(f);
}
