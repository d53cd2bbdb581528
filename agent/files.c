#include "agent/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/num.h"
#include "base/obj.h"
#include "trace/model/catalog.h" /* MRD_NONE */

#define STABLE_DEFAULT (2 * MRD_SEC)
#define LOOK_WATCHED   (10 * MRD_SEC)
#define LOOK_BLIND     (2 * MRD_SEC)
#define LOOK_BUSY      (500 * MRD_MS) /* while files wait to stand still */
#define HASH_SLICE     (2u << 20)
#define CHUNK          (512u << 10)
#define RETRY          (500 * MRD_MS)
#define TRIES          20
#define STAMP_SLACK    (20 * MRD_MS) /* times of files are those of the kernel's last tick */

typedef enum { SEEN, READY, DONE, GIVEN_UP } file_state;

typedef struct {
    char *path;
    const char *rel; /* inside path: below the capture directory */
    int64_t pid;
    uint64_t size;
    int64_t mtime_ns, still_since;
    file_state state;
    uint64_t look; /* number of the last look that met it */
} file;

typedef struct {
    char *path;
    int64_t pid;
    bool blind; /* inotify does not watch all of it */
} dir;

typedef enum { IDLE, HASHING, OFFERING, SENDING, FINISHING } stage;

struct mrd_files {
    mrd_files_options o;
    dir dirs[MRD_FILES_DIRS];
    unsigned n_dirs;
    file *files;
    size_t n, cap;
    uint32_t *slots; /* by path: index + 1 */
    size_t n_slots;
    int inotify;
    uint64_t look;
    int64_t look_at, looked_at;
    int64_t pick_at; /* no file stands still for long enough before */
    uint64_t beyond; /* files of this look that there was no room for */
    uint64_t session;
    int64_t session_start;
    /* The one under way. */
    stage stage;
    size_t at;
    int fd;
    mrd_sha256 *sha;
    char hex[MRD_SHA256_HEX];
    uint64_t offset;
    bool asked; /* a request is out */
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
    static const struct {
        const char *suffix, *kind;
    } rows[] = {
        { ".ntff", "NTFF" },
        { ".neff", "NEFF" },
        { "ntrace.pb", "ntrace.pb" },
        { "trace_info.pb", "trace_info.pb" },
        { "cpu_util.pb", "cpu_util.pb" },
        { "host_mem.pb", "host_mem.pb" },
        { ".json", "framework-trace" },
        { ".json.gz", "framework-trace" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        if (mrd_str_ends(mrd_str_of(name), rows[i].suffix))
            return rows[i].kind;
    return "file";
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
slot_of(const mrd_files *f, const char *path)
{
    size_t i = (size_t) mrd_hash64(path, strlen(path), 5) & (f->n_slots - 1);

    while (f->slots[i] != 0 && strcmp(f->files[f->slots[i] - 1].path, path) != 0)
        i = (i + 1) & (f->n_slots - 1);
    return i;
}

static void
fill_slots(mrd_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        f->slots[slot_of(f, f->files[i].path)] = (uint32_t) i + 1;
}

static bool
room(mrd_files *f)
{
    size_t cap = f->cap == 0 ? 256 : f->cap * 2;
    file *files;
    uint32_t *slots;

    if (f->n >= (f->o.max_files == 0 ? MRD_FILES_MAX : f->o.max_files))
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

/* Files that are settled and not there any more make room. */
static void
forget_gone(mrd_files *f)
{
    size_t left = 0;

    for (size_t i = 0; i < f->n; i++)
        if (f->files[i].look != f->look && f->files[i].state >= DONE)
            free(f->files[i].path);
        else
            f->files[left++] = f->files[i];
    f->n = left;
    memset(f->slots, 0, f->n_slots * sizeof(*f->slots));
    fill_slots(f);
}

/* A file met by a look: new, changed, or as it was. */
static void
meet(mrd_files *f, const dir *d, const char *path, const struct stat *st, int64_t now)
{
    size_t slot = f->n_slots == 0 ? 0 : slot_of(f, path);
    int64_t mtime = st->st_mtim.tv_sec * MRD_SEC + st->st_mtim.tv_nsec;
    file *one;

    if (f->n_slots > 0 && f->slots[slot] != 0) {
        one = &f->files[f->slots[slot] - 1];
        one->look = f->look;
        if (one->size != (uint64_t) st->st_size || one->mtime_ns != mtime) {
            if (one->state == DONE || one->state == GIVEN_UP)
                f->stats.waiting++;
            one->size = (uint64_t) st->st_size;
            one->mtime_ns = mtime;
            one->still_since = now;
            one->state = SEEN;
            f->pick_at = 0;
        }
        return;
    }
    if (!room(f)) {
        f->beyond++;
        return;
    }
    slot = slot_of(f, path);
    one = &f->files[f->n];
    *one = (file){ .path = strdup(path),
                   .pid = d->pid,
                   .size = (uint64_t) st->st_size,
                   .mtime_ns = mtime,
                   .still_since = now,
                   .look = f->look };
    if (one->path == NULL) {
        f->beyond++;
        return;
    }
    one->rel = one->path + strlen(d->path) + 1;
    f->slots[slot] = (uint32_t) ++f->n;
    f->stats.found++;
    f->stats.waiting++;
    f->pick_at = 0;
}

static void
watch(mrd_files *f, dir *d, const char *path)
{
    if (f->inotify < 0) /* only now: a user has no more than 128 of them */
        f->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (f->inotify < 0 ||
        inotify_add_watch(f->inotify, path, IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ONLYDIR) <
            0)
        d->blind = true;
}

static void
walk(mrd_files *f, dir *d, const char *path, unsigned depth, int64_t now)
{
    DIR *stream = depth > MRD_FILES_DEPTH ? NULL : opendir(path);
    struct dirent *e;

    if (stream == NULL)
        return;
    watch(f, d, path);
    while ((e = readdir(stream)) != NULL) {
        char child[4096];
        struct stat st;

        if (e->d_name[0] == '.' ||
            snprintf(child, sizeof(child), "%s/%s", path, e->d_name) >= (int) sizeof(child) ||
            lstat(child, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode))
            walk(f, d, child, depth + 1, now);
        else if (S_ISREG(st.st_mode))
            meet(f, d, child, &st, now);
    }
    closedir(stream);
}

static bool
any_blind(const mrd_files *f)
{
    for (unsigned i = 0; i < f->n_dirs; i++)
        if (f->dirs[i].blind)
            return true;
    return false;
}

static void
look(mrd_files *f, int64_t now)
{
    size_t gone = 0;
    bool again;

    f->look++;
    f->beyond = 0;
    for (unsigned i = 0; i < f->n_dirs; i++) {
        f->dirs[i].blind = access(f->dirs[i].path, F_OK) != 0;
        walk(f, &f->dirs[i], f->dirs[i].path, 0, now);
    }
    for (size_t i = 0; i < f->n; i++) /* removed before they could be taken */
        if (f->files[i].look != f->look && f->files[i].state < DONE &&
            !(f->stage != IDLE && f->at == i)) {
            f->files[i].state = GIVEN_UP;
            f->stats.waiting--;
            f->stats.failed++;
        }
    for (size_t i = 0; i < f->n; i++)
        gone += f->files[i].look != f->look && f->files[i].state >= DONE;
    again = f->stage == IDLE && gone > 0 && f->beyond > 0;
    if (again || (f->stage == IDLE && gone > f->n / 2))
        forget_gone(f);
    if (f->beyond > 0 && f->stats.beyond == 0)
        mrd_log(MRD_LOG_WARN, "AGT-FILES-MAX",
                "More files than may be known: left_out=%llu, raise --files-max or empty the "
                "capture directories",
                (unsigned long long) f->beyond);
    f->stats.beyond = f->beyond;
    f->looked_at = now;
    f->look_at = now + (again                  ? 0 /* there is room for the others now */
                        : f->stats.waiting > 0 ? LOOK_BUSY
                        : any_blind(f)         ? LOOK_BLIND
                                               : LOOK_WATCHED);
}

/* ---- Taking one file through ---- */

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
finish(mrd_files *f, file_state state, const char *sentence)
{
    file *one = &f->files[f->at];

    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    mrd_sha256_free(f->sha);
    f->sha = NULL;
    f->stage = IDLE;
    f->asked = false;
    f->tries = 0;
    f->pick_at = 0;
    if (state == SEEN) { /* it changed while it was read: from the start */
        one->state = SEEN;
        one->still_since = mrd_local_now().ns;
        return;
    }
    one->state = state;
    f->stats.waiting--;
    f->stats.delivered += state == DONE;
    f->stats.failed += state == GIVEN_UP;
    if (f->o.settled != NULL)
        f->o.settled(f->o.self, one->path, f->hex, sentence);
}

static bool
unchanged(const mrd_files *f)
{
    const file *one = &f->files[f->at];
    struct stat st;

    return fstat(f->fd, &st) == 0 && (uint64_t) st.st_size == one->size &&
           st.st_mtim.tv_sec * MRD_SEC + st.st_mtim.tv_nsec == one->mtime_ns;
}

static void
begin(mrd_files *f, size_t i)
{
    file *one = &f->files[i];

    f->at = i;
    f->hex[0] = '\0';
    f->fd = open(one->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (f->fd < 0) {
        if (errno == ENOENT)
            finish(f, GIVEN_UP, "it was removed before it could be read");
        else
            finish(f, GIVEN_UP, "it cannot be read");
        return;
    }
    if (f->o.max_bytes > 0 && one->size > f->o.max_bytes) {
        f->stats.left_out++;
        finish(f, GIVEN_UP, "it is larger than --artifact-max");
        return;
    }
    if (open_for_writing(f->fd) || !unchanged(f)) {
        finish(f, SEEN, "");
        return;
    }
    if ((f->sha = mrd_sha256_new()) == NULL) {
        finish(f, SEEN, "");
        return;
    }
    f->offset = 0;
    f->stage = HASHING;
}

static void
pick(mrd_files *f, int64_t now)
{
    mrd_dur_ns stable = f->o.stable == 0 ? STABLE_DEFAULT : f->o.stable;

    if (f->session == 0 || now < f->pick_at)
        return;
    f->pick_at = INT64_MAX;
    for (size_t i = 0; i < f->n; i++) {
        file *one = &f->files[i];

        if (one->state != SEEN)
            continue;
        if (now - one->still_since < stable) {
            if (one->still_since + stable < f->pick_at)
                f->pick_at = one->still_since + stable;
            continue;
        }
        if (one->mtime_ns < f->session_start - STAMP_SLACK) { /* of an earlier run */
            one->state = DONE;
            f->stats.waiting--;
            continue;
        }
        f->pick_at = 0;
        begin(f, i);
        return;
    }
}

static void
hash_slice(mrd_files *f)
{
    ssize_t n = pread(f->fd, f->chunk, CHUNK, (off_t) f->offset);

    for (size_t done = 0; n > 0; n = pread(f->fd, f->chunk, CHUNK, (off_t) f->offset)) {
        mrd_sha256_add(f->sha, f->chunk, (size_t) n);
        f->offset += (uint64_t) n;
        f->stats.bytes_hashed += (uint64_t) n;
        if ((done += (size_t) n) >= HASH_SLICE)
            return;
    }
    if (n < 0) {
        finish(f, GIVEN_UP, "it cannot be read");
    } else if (!unchanged(f) || f->offset != f->files[f->at].size) {
        finish(f, SEEN, "");
    } else {
        mrd_sha256_hex(f->sha, f->hex);
        f->stage = OFFERING;
        if (f->o.complete != NULL)
            f->o.complete(f->o.self, f->files[f->at].path, f->files[f->at].rel, f->hex,
                          f->files[f->at].pid);
    }
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
    m.process_id = pid != MRD_NONE ? pid : one->pid;
    m.nc_idx = nc;
    send(f, MRD_FRAME_OFFER, &m, now);
}

static void
send_chunk(mrd_files *f, int64_t now)
{
    Mrd__ArtifactChunk m = MRD__ARTIFACT_CHUNK__INIT;
    ssize_t n = pread(f->fd, f->chunk, CHUNK, (off_t) f->offset);

    if (n < 0 || (n == 0 && f->offset < f->files[f->at].size) || !unchanged(f)) {
        finish(f, n < 0 ? GIVEN_UP : SEEN, "it cannot be read");
        return;
    }
    if (n == 0) {
        f->stage = FINISHING;
        return;
    }
    m.sha256 = f->hex;
    m.offset = f->offset;
    m.data = (ProtobufCBinaryData){ (size_t) n, f->chunk };
    send(f, MRD_FRAME_CHUNK, &m, now);
    if (f->asked)
        f->stats.bytes_sent += (uint64_t) n;
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

    while (f->inotify >= 0 && read(f->inotify, text, sizeof(text)) > 0)
        any = true;
    if (any)
        f->look_at = 0;
}

void
mrd_files_step(mrd_files *f, int64_t now)
{
    take_notices(f);
    if (f->n_dirs > 0 && now >= f->look_at && now - f->looked_at >= 50 * MRD_MS)
        look(f, now);
    if (f->stage == IDLE)
        pick(f, now);
    if (f->asked || now < f->again_at)
        return;
    switch (f->stage) {
    case HASHING:
        hash_slice(f);
        break;
    case OFFERING:
        offer(f, now);
        break;
    case SENDING:
        send_chunk(f, now);
        break;
    case FINISHING:
        say_done(f, now);
        break;
    case IDLE:
        break;
    }
}

void
mrd_files_look(mrd_files *f)
{
    f->look_at = 0;
}

int64_t
mrd_files_next_ns(const mrd_files *f)
{
    if (f->n_dirs == 0)
        return INT64_MAX;
    if (f->stage != IDLE && !f->asked)
        return f->again_at;
    return f->stage == IDLE && f->session != 0 && f->pick_at < f->look_at ? f->pick_at : f->look_at;
}

mrd_err
mrd_files_watch(mrd_files *f, const char *path, int64_t pid)
{
    size_t n = strlen(path);
    dir *d;

    while (n > 1 && path[n - 1] == '/')
        n--;
    for (unsigned i = 0; i < f->n_dirs; i++)
        if (mrd_str_eq(mrd_str_of(f->dirs[i].path), (mrd_str){ path, n }))
            return MRD_OK;
    if (f->n_dirs == MRD_FILES_DIRS)
        return MRD_LIMIT;
    d = &f->dirs[f->n_dirs];
    *d = (dir){ .path = mrd_str_dup((mrd_str){ path, n }), .pid = pid };
    if (d->path == NULL)
        return MRD_NOMEM;
    f->n_dirs++;
    f->stats.dirs = f->n_dirs;
    f->look_at = 0;
    return MRD_OK;
}

void
mrd_files_session(mrd_files *f, uint64_t session, int64_t start_wall_ns)
{
    if (session == f->session)
        return;
    f->session = session;
    f->session_start = start_wall_ns;
    f->look_at = f->pick_at = 0;
}

bool
mrd_files_idle(const mrd_files *f, int64_t since_ns)
{
    return f->n_dirs == 0 || (f->stats.waiting == 0 && f->stage == IDLE && f->looked_at > since_ns);
}

int
mrd_files_fd(const mrd_files *f)
{
    return f->inotify;
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

    if (f == NULL || (f->chunk = malloc(CHUNK)) == NULL) {
        free(f);
        return mrd_why_set(why, MRD_NOMEM, 0, "capture directories");
    }
    f->o = *options;
    f->fd = f->inotify = -1;
    *ret_files = f;
    return MRD_OK;
}

void
mrd_files_close(mrd_files *f)
{
    if (f == NULL)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->inotify >= 0)
        close(f->inotify);
    mrd_sha256_free(f->sha);
    for (size_t i = 0; i < f->n; i++)
        free(f->files[i].path);
    for (unsigned i = 0; i < f->n_dirs; i++)
        free(f->dirs[i].path);
    free(f->files);
    free(f->slots);
    free(f->chunk);
    mrd_buf_fini(&f->frame);
    free(f);
}
