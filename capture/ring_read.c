#include "capture/ring_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/ring_clock.h"
#include "capture/ring_dict.h"
#include "capture/ring_owner.h"

#define READER_MAGIC    0x52494e47u
#define PIECE_MIN       (2u * MRD_RING_REC_MAX) /* and default: fits into the L2 cache */
#define OWNER_PERIOD_NS 1000000000
#define CAL_PERIOD_NS   250000000
#define MAPS_IDLE_NS    2000000000 /* silence after which an exec is looked for, doubling ... */
#define MAPS_IDLE_MAX   64000000000
/* A tick further than this from the ring's own calibration is a lie (centuries). */
#define TICKS_SANE (1ull << 62)

_Static_assert(MRD_RING_TICK_SHIFT == MRD_RING_CLOCK_SHIFT, "one fixed point");

/* The part of the header that changes, in one piece: head to the end of `lost`. */
#define LIVE_OFF offsetof(mrd_ring_hdr, head)
#define LIVE_LEN (offsetof(mrd_ring_hdr, reserved3) - LIVE_OFF)

struct mrd_ring_reader {
    mrd_ring_window win; /* first: mrd_ring_next is inline */
    uint32_t magic;
    unsigned flags;
    int fd;       /* -1: mem */
    uint8_t *mem; /* borrowed */
    size_t mem_len;
    mrd_ring_info info;
    char file_name[MRD_RING_NAME_MAX];
    uint8_t ident[MRD_RING_IDENT_MAX];
    mrd_ring_dict_copy dict;
    mrd_ring_clock clock;
    bool own_tsc; /* the reader cross-reads the clocks itself */
    uint64_t base_ticks;
    int64_t next_cal_ns;

    uint8_t *piece;
    size_t piece_cap, piece_len, at;
    uint64_t piece_pos; /* data position of piece[0] */
    uint64_t head, tail, stuck_head;
    uint32_t state, depth;
    uint32_t thread;       /* index of the thread entry in force */
    uint64_t thread_until; /* position where the next one begins */

    uint64_t lost[MRD_RING_LOST_CAUSES], told[MRD_RING_LOST_CAUSES];
    uint64_t first[MRD_RING_LOST_CAUSES], last[MRD_RING_LOST_CAUSES];
    uint64_t reported[MRD_RING_LOST_CAUSES]; /* by LOSS records or at the end */
    bool resumed;                            /* opened at tail > 0 */
    uint64_t records, skipped;
    uint64_t span_ts; /* of the last SPAN record: tells a scope killed between its two stores */
    uint32_t span_name;

    char *proc_dir;
    mrd_ring_owner_id owner;
    int64_t next_owner_ns, idle_since_ns, maps_idle_ns;
    enum { READ_LIVE, READ_LAST, READ_OPEN, READ_GAPS, READ_END } phase;
    uint32_t open_at, gap_at;
    mrd_ring_scope open[MRD_RING_OPEN_MAX];
    bool bad;
    mrd_why why;
};

/* ---- bytes of the ring ----------------------------------------------------------------------- */

/* Copies bytes [off, off + len) of the file. Errors: TRUNCATED, IO. */
static mrd_err
ring_get(mrd_ring_reader *r, uint64_t off, void *to, size_t len)
{
    if (r->fd < 0) {
        if (off > r->mem_len || len > r->mem_len - off)
            return MRD_TRUNCATED;
        memcpy(to, r->mem + off, len);
        return MRD_OK;
    }
    while (len > 0) {
        ssize_t n = pread(r->fd, to, len, (off_t) off);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return MRD_IO;
        if (n == 0)
            return MRD_TRUNCATED;
        to = (uint8_t *) to + n;
        off += (uint64_t) n;
        len -= (size_t) n;
    }
    return MRD_OK;
}

static mrd_err
ring_put(mrd_ring_reader *r, uint64_t off, const void *from, size_t len)
{
    ssize_t n;

    while ((n = pwrite(r->fd, from, len, (off_t) off)) < 0 && errno == EINTR)
        ;
    return n == (ssize_t) len ? MRD_OK : MRD_IO;
}

static mrd_ring_hdr *
mem_hdr(const mrd_ring_reader *r)
{
    return (mrd_ring_hdr *) (void *) r->mem;
}

/* The fields behind the barrier: head before the data it covers, dict_head before its entries. */
static mrd_err
get_live(mrd_ring_reader *r, mrd_ring_hdr *h)
{
    mrd_err err;

    if (r->fd < 0) {
        const mrd_ring_hdr *m = mem_hdr(r);

        /* acquire: pairs with the release of head in ring_write.c */
        h->head = atomic_load_explicit(&m->head, memory_order_acquire);
        h->state = atomic_load_explicit(&m->state, memory_order_acquire);
        h->depth = atomic_load_explicit(&m->depth, memory_order_relaxed);
        h->tail = atomic_load_explicit(&m->tail, memory_order_relaxed);
        for (size_t i = 0; i < MRD_RING_LOST_CAUSES; i++) {
            h->lost[i].count = atomic_load_explicit(&m->lost[i].count, memory_order_relaxed);
            h->lost[i].first = atomic_load_explicit(&m->lost[i].first, memory_order_relaxed);
            h->lost[i].last = atomic_load_explicit(&m->lost[i].last, memory_order_relaxed);
            h->lost[i].told = atomic_load_explicit(&m->lost[i].told, memory_order_relaxed);
        }
        return MRD_OK;
    }
    err = ring_get(r, LIVE_OFF, (uint8_t *) h + LIVE_OFF, LIVE_LEN);
    atomic_thread_fence(memory_order_acquire);
    return err;
}

static mrd_err
get_dict_head(mrd_ring_reader *r, uint64_t *ret_head)
{
    if (r->fd < 0) {
        *ret_head = atomic_load_explicit(&mem_hdr(r)->dict_head, memory_order_acquire);
        return MRD_OK;
    }
    return ring_get(r, offsetof(mrd_ring_hdr, dict_head), ret_head, sizeof(*ret_head));
}

/* ---- opening --------------------------------------------------------------------------------- */

static mrd_err
check_geometry(const mrd_ring_hdr *h, uint64_t file_len, mrd_why *why)
{
    if (h->abi != MRD_RING_ABI)
        return mrd_why_set(why, MRD_VERSION, 0, "ring has abi %u, this program reads %u",
                           (unsigned) h->abi, MRD_RING_ABI);
    if (h->header_len != MRD_RING_HEADER_LEN || h->dict_len < MRD_RING_DICT_MIN ||
        h->dict_len > MRD_RING_DICT_MAX || h->dict_len % 4096 != 0 ||
        h->data_len < MRD_RING_DATA_MIN || h->data_len > MRD_RING_DATA_MAX ||
        (h->data_len & (h->data_len - 1)) != 0)
        return mrd_why_set(
            why, MRD_CORRUPT, 0,
            "ring header: impossible lengths (header %u, dictionary %u, data %" PRIu64 ")",
            (unsigned) h->header_len, (unsigned) h->dict_len, h->data_len);
    if (file_len != h->header_len + h->dict_len + h->data_len)
        return mrd_why_set(why, MRD_TRUNCATED, 0,
                           "ring is %" PRIu64 " bytes long, its header says %" PRIu64, file_len,
                           h->header_len + h->dict_len + h->data_len);
    if (h->ident_len > MRD_RING_IDENT_MAX)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring header: identity of %u bytes",
                           (unsigned) h->ident_len);
    return MRD_OK;
}

static mrd_err
check_positions(const mrd_ring_hdr *h, mrd_why *why)
{
    if (h->tail % MRD_RING_UNIT != 0 || h->head % MRD_RING_UNIT != 0 || h->tail > h->head ||
        h->head - h->tail > h->data_len)
        return mrd_why_set(why, MRD_CORRUPT, 0,
                           "ring header: tail %" PRIu64 ", head %" PRIu64 ", data length %" PRIu64,
                           (uint64_t) h->tail, (uint64_t) h->head, h->data_len);
    return MRD_OK;
}

static bool
same_owner(const mrd_ring_hdr *h, const mrd_ring_name *name)
{
    return h->pid == name->pid && h->tid == name->tid && h->start_ticks == name->start_ticks &&
           memcmp(h->boot_id, name->boot_id, 16) == 0;
}

static mrd_err
start_clock(mrd_ring_reader *r, const mrd_ring_hdr *h, mrd_why *why)
{
    mrd_ring_cal own;

    if (h->clock != MRD_RING_CLOCK_RAW && h->clock != MRD_RING_CLOCK_TSC)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring header: unknown clock %u",
                           (unsigned) h->clock);
    r->own_tsc = h->clock == MRD_RING_CLOCK_TSC && MRD_HAVE_TSC && r->fd >= 0;
    if (r->own_tsc) {
        mrd_ring_cal_read(MRD_RING_CLOCK_TSC, &own);
        r->next_cal_ns = own.raw_ns + CAL_PERIOD_NS;
    }
    if (h->clock == MRD_RING_CLOCK_RAW && h->cal[1].ticks > INT64_MAX / 2)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring header: impossible clock reading");
    if (!mrd_ring_clock_init(&r->clock, (mrd_ring_clock_id) h->clock, h->cal,
                             r->own_tsc ? &own : NULL))
        return mrd_why_set(why, MRD_CORRUPT, 0,
                           "ring header: clock readings contradict each other");
    r->base_ticks = h->cal[1].ticks;
    r->info.clock = (mrd_ring_clock_id) h->clock;
    return MRD_OK;
}

static mrd_err
take_header(mrd_ring_reader *r, const mrd_ring_hdr *h, uint64_t file_len, mrd_why *why)
{
    mrd_err err;

    if ((err = check_geometry(h, file_len, why)) != MRD_OK ||
        (err = check_positions(h, why)) != MRD_OK || (err = start_clock(r, h, why)) != MRD_OK)
        return err;
    if (h->pid <= 0 || h->tid <= 0)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring header: pid %d, tid %d", (int) h->pid,
                           (int) h->tid);
    r->info.name.pid = h->pid;
    r->info.name.tid = h->tid;
    r->info.name.start_ticks = h->start_ticks;
    memcpy(r->info.name.boot_id, h->boot_id, 16);
    r->info.pid_ns = h->pid_ns;
    r->info.mnt_ns = h->mnt_ns;
    r->info.data_len = h->data_len;
    r->info.dict_len = h->dict_len;
    r->info.created_ns = h->created_ns;
    r->info.wall_offset_ns = (int64_t) ((uint64_t) h->cal[1].wall_ns - (uint64_t) h->cal[1].raw_ns);
    memcpy(r->ident, h->ident, h->ident_len);
    r->info.ident = (mrd_str){ (const char *) r->ident, h->ident_len };
    r->head = r->tail = r->piece_pos = h->tail;
    r->resumed = h->tail > 0;
    return mrd_ring_dict_init(&r->dict, h->dict_len);
}

static mrd_err
check_boot(const mrd_ring_reader *r, mrd_why *why)
{
    uint8_t boot[16];

    if (r->fd >= 0 && mrd_ring_boot_id(r->proc_dir, boot) &&
        memcmp(boot, r->info.name.boot_id, 16) != 0)
        return mrd_why_set(why, MRD_STATE, 0, "ring is of another boot of this machine");
    return MRD_OK;
}

static mrd_err
take_lock(mrd_ring_reader *r, mrd_why *why)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    uint32_t me = (uint32_t) getpid();

    if ((r->flags & MRD_RING_PEEK) != 0 || r->fd < 0)
        return MRD_OK;
    if (fcntl(r->fd, F_OFD_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES))
        return mrd_why_set(why, MRD_BUSY, 0, "ring has another reader");
    if (ring_put(r, offsetof(mrd_ring_hdr, reader_pid), &me, sizeof(me)) != MRD_OK)
        return mrd_why_set(why, MRD_IO, errno, "cannot write to the ring");
    return MRD_OK;
}

static mrd_ring_reader *
reader_new(const mrd_ring_opts *opts)
{
    static const mrd_ring_opts defaults = { 0, -1, 0, NULL };
    mrd_ring_reader *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    if (opts == NULL)
        opts = &defaults;
    r->magic = READER_MAGIC;
    r->fd = -1;
    r->flags = opts->flags;
    r->piece_cap = opts->piece < PIECE_MIN ? PIECE_MIN : opts->piece - opts->piece % MRD_RING_UNIT;
    r->proc_dir = strdup(opts->proc_dir == NULL ? "/proc" : opts->proc_dir);
    r->stuck_head = UINT64_MAX;
    r->maps_idle_ns = MAPS_IDLE_NS;
    if (r->proc_dir == NULL) {
        free(r);
        return NULL;
    }
    return r;
}

static void
set_owner(mrd_ring_reader *r)
{
    r->owner = (mrd_ring_owner_id){ r->proc_dir,
                                    r->info.name.pid,
                                    r->info.name.start_ticks,
                                    r->info.pid_ns,
                                    r->info.inode,
                                    r->file_name,
                                    0,
                                    0 };
}

/* Everything behind the descriptor or the memory: header, lock, dictionary. */
static mrd_err
reader_start(mrd_ring_reader *r, const mrd_ring_name *want, uint64_t file_len, mrd_why *why)
{
    mrd_ring_hdr h;
    mrd_err err = ring_get(r, 0, &h, sizeof(h));

    if (err == MRD_TRUNCATED)
        return mrd_why_set(why, file_len == 0 ? MRD_AGAIN : MRD_TRUNCATED, 0,
                           "ring is %" PRIu64 " bytes long, shorter than its header", file_len);
    if (err != MRD_OK)
        return mrd_why_set(why, err, errno, "cannot read the ring");
    if (memcmp(h.magic, "\0\0\0\0\0\0\0", 8) == 0)
        return mrd_why_set(why, MRD_AGAIN, 0, "ring has no header yet");
    if (memcmp(h.magic, MRD_RING_MAGIC, 8) != 0)
        return mrd_why_set(why, MRD_CORRUPT, 0, "not a ring: wrong magic");
    atomic_thread_fence(memory_order_acquire); /* pairs with the release of the magic */
    if ((err = ring_get(r, 0, &h, sizeof(h))) != MRD_OK)
        return mrd_why_set(why, err, errno, "cannot read the ring");
    if ((err = take_header(r, &h, file_len, why)) != MRD_OK)
        return err;
    if (want != NULL && !same_owner(&h, want))
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring header names another process than the file");
    if (want != NULL)
        r->info.name.serial = want->serial;
    if ((err = check_boot(r, why)) != MRD_OK)
        return err;
    if (r->piece_cap > r->info.data_len)
        r->piece_cap = r->info.data_len;
    r->piece = malloc(r->piece_cap);
    if (r->piece == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "ring reader");
    mrd_ring_name_print(&r->info.name, r->file_name);
    set_owner(r);
    return take_lock(r, why);
}

/* Owns fd from here on. */
static mrd_err
open_owned_fd(int fd, const mrd_ring_name *want, const mrd_ring_opts *opts,
              mrd_ring_reader **ret_reader, mrd_why *why)
{
    mrd_ring_reader *r = reader_new(opts);
    struct stat st;
    mrd_err err;

    if (r == NULL) {
        close(fd);
        return mrd_why_set(why, MRD_NOMEM, 0, "ring reader");
    }
    r->fd = fd;
    if (fstat(fd, &st) != 0) {
        err = mrd_why_set(why, MRD_IO, errno, "cannot look at the ring");
    } else if (!S_ISREG(st.st_mode)) {
        err = mrd_why_set(why, MRD_DENIED, 0, "not a regular file");
    } else if (opts != NULL && opts->expect_uid >= 0 && (int64_t) st.st_uid != opts->expect_uid) {
        err = mrd_why_set(why, MRD_DENIED, 0, "ring belongs to user %u, expected %" PRId64,
                          (unsigned) st.st_uid, opts->expect_uid);
    } else {
        r->info.file_uid = st.st_uid;
        r->info.inode = st.st_ino;
        r->info.device = st.st_dev;
        err = reader_start(r, want, (uint64_t) st.st_size, why);
    }
    if (err == MRD_OK) {
        *ret_reader = r;
        return MRD_OK;
    }
    mrd_ring_close(r);
    return err;
}

mrd_err
mrd_ring_open(int dir_fd, const char *file_name, const mrd_ring_opts *opts,
              mrd_ring_reader **ret_reader, mrd_why *why)
{
    const char *base = strrchr(file_name, '/');
    bool peek = opts != NULL && (opts->flags & MRD_RING_PEEK) != 0;
    mrd_ring_name want;
    mrd_err err;
    int fd;

    if (!mrd_ring_name_parse(base == NULL ? file_name : base + 1, &want))
        return mrd_why_set(why, MRD_INVALID, 0, "'%s' is no name of a ring", file_name);
    /* NONBLOCK: a fifo of that name must not hang the agent */
    fd = openat(dir_fd, file_name,
                (peek ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return mrd_why_set(why,
                           errno == ENOENT ? MRD_NOTFOUND
                           : errno == EACCES || errno == EPERM || errno == ELOOP ||
                                   errno == EISDIR || errno == ENXIO
                               ? MRD_DENIED
                               : MRD_IO,
                           errno, "%s", file_name);
    err = open_owned_fd(fd, &want, opts, ret_reader, why);
    return err == MRD_OK ? MRD_OK : mrd_why_prefix(why, err, "%s", file_name);
}

mrd_err
mrd_ring_open_fd(int fd, const mrd_ring_opts *opts, mrd_ring_reader **ret_reader, mrd_why *why)
{
    int mine = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (mine < 0)
        return mrd_why_set(why, MRD_IO, errno, "cannot duplicate the ring's descriptor");
    return open_owned_fd(mine, NULL, opts, ret_reader, why);
}

mrd_err
mrd_ring_open_mem(void *mem, size_t len, const mrd_ring_opts *opts, mrd_ring_reader **ret_reader,
                  mrd_why *why)
{
    mrd_ring_reader *r = reader_new(opts);
    mrd_err err;

    if (r == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "ring reader");
    r->mem = mem;
    r->mem_len = len;
    err = reader_start(r, NULL, len, why);
    if (err == MRD_OK) {
        *ret_reader = r;
        return MRD_OK;
    }
    mrd_ring_close(r);
    return err;
}

void
mrd_ring_close(mrd_ring_reader *r)
{
    uint32_t nobody = 0;

    if (r == NULL || r->magic != READER_MAGIC)
        return;
    if (r->fd >= 0) {
        if (r->piece != NULL && (r->flags & MRD_RING_PEEK) == 0)
            (void) ring_put(r, offsetof(mrd_ring_hdr, reader_pid), &nobody, sizeof(nobody));
        close(r->fd);
    }
    mrd_ring_dict_fini(&r->dict);
    free(r->piece);
    free(r->proc_dir);
    r->magic = 0;
    free(r);
}

const mrd_ring_info *
mrd_ring_borrow_info(const mrd_ring_reader *r)
{
    return &r->info;
}

mrd_str
mrd_ring_ident(const mrd_ring_reader *r, const char *key)
{
    const char *p = r->info.ident.p, *end = p + r->info.ident.len;
    size_t klen = strlen(key);

    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t) (end - p));
        const char *stop = nl == NULL ? end : nl;

        if ((size_t) (stop - p) > klen && p[klen] == '=' && memcmp(p, key, klen) == 0)
            return (mrd_str){ p + klen + 1, (size_t) (stop - p) - klen - 1 };
        p = stop + 1;
    }
    return (mrd_str){ NULL, 0 };
}

/* ---- the next piece ---------------------------------------------------------------------------
 */

static mrd_ring_step
ring_bad(mrd_ring_reader *r, mrd_err err, const char *what, uint64_t at)
{
    mrd_why_set(&r->why, err, err == MRD_IO ? errno : 0, "ring %s: %s at position %" PRIu64,
                r->file_name, what, at);
    r->bad = true;
    return MRD_RING_BAD;
}

static mrd_ring_step
refresh_dict(mrd_ring_reader *r)
{
    uint64_t head = 0;
    mrd_why why;
    mrd_err err = get_dict_head(r, &head);

    if (err != MRD_OK)
        return ring_bad(r, err, "cannot read the header", 0);
    if (head < r->dict.used || head > r->dict.len)
        return ring_bad(r, MRD_CORRUPT, "impossible head of the dictionary", head);
    if (head == r->dict.used)
        return MRD_RING_MORE;
    err = ring_get(r, MRD_RING_HEADER_LEN + r->dict.used, r->dict.bytes + r->dict.used,
                   head - r->dict.used);
    if (err != MRD_OK)
        return ring_bad(r, err, "cannot read the dictionary", r->dict.used);
    if ((err = mrd_ring_dict_take(&r->dict, (uint32_t) head, &why)) == MRD_NOMEM)
        return ring_bad(r, err, "no memory for the dictionary", head);
    if (err != MRD_OK) {
        r->bad = true;
        r->why = why;
        mrd_why_prefix(&r->why, err, "ring %s", r->file_name);
        return MRD_RING_BAD;
    }
    return MRD_RING_MORE;
}

static void
take_losses(mrd_ring_reader *r, const mrd_ring_hdr *h)
{
    for (size_t i = 0; i < MRD_RING_LOST_CAUSES; i++) {
        r->lost[i] = h->lost[i].count;
        r->told[i] = h->lost[i].told;
        r->first[i] = h->lost[i].first;
        r->last[i] = h->lost[i].last;
    }
}

static int64_t
raw_now(void)
{
    return mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);
}

static void
refresh_clock(mrd_ring_reader *r)
{
    mrd_ring_cal cal;

    if (!r->own_tsc || raw_now() < r->next_cal_ns)
        return;
    mrd_ring_cal_read(MRD_RING_CLOCK_TSC, &cal);
    mrd_ring_clock_add(&r->clock, &cal);
    r->info.wall_offset_ns = cal.wall_ns - cal.raw_ns;
    r->next_cal_ns = cal.raw_ns + CAL_PERIOD_NS;
}

/* In force at `pos`: the last thread entry that begins at or before it. */
static void
find_thread(mrd_ring_reader *r, uint64_t pos)
{
    uint32_t i = r->thread, n = r->dict.thread_count;

    while (i + 1 < n && r->dict.thread[i + 1].pos <= pos)
        i++;
    r->thread = i;
    r->thread_until = i + 1 < n ? r->dict.thread[i + 1].pos : UINT64_MAX;
}

static int32_t
thread_now(const mrd_ring_reader *r)
{
    if (r->dict.thread_count == 0 || r->dict.thread[r->thread].tid <= 0)
        return r->info.name.tid;
    return r->dict.thread[r->thread].tid;
}

/* Silence: is the owner still there? Asked once a second; maps, where an exec shows, more rarely.
 */
static bool
owner_gone(mrd_ring_reader *r)
{
    int64_t now;
    bool maps;

    if (r->state == MRD_RING_CLOSED)
        return true;
    if (r->fd < 0)
        return false;
    now = raw_now();
    if (now < r->next_owner_ns)
        return false;
    r->next_owner_ns = now + OWNER_PERIOD_NS;
    if (r->idle_since_ns == 0)
        r->idle_since_ns = now;
    maps = now - r->idle_since_ns >= r->maps_idle_ns;
    if (maps && r->maps_idle_ns < MAPS_IDLE_MAX)
        r->maps_idle_ns *= 2;
    return mrd_ring_owner_check(&r->owner, maps) == MRD_OWNER_DEAD;
}

static mrd_ring_step
nothing_new(mrd_ring_reader *r)
{
    struct stat st;

    if (r->phase == READ_LAST) { /* the last look came after the owner's death */
        r->phase = READ_OPEN;
        return MRD_RING_MORE;
    }
    if (r->fd >= 0 &&
        (fstat(r->fd, &st) != 0 ||
         (uint64_t) st.st_size != MRD_RING_HEADER_LEN + r->info.dict_len + r->info.data_len))
        return ring_bad(r, MRD_TRUNCATED, "the file changed its size", r->head);
    if (!owner_gone(r))
        return MRD_RING_AGAIN;
    r->phase = READ_LAST;
    return MRD_RING_MORE;
}

/* A peeking reader does not hold the tail: what was released meanwhile may be overwritten. */
static bool
peek_overtaken(mrd_ring_reader *r, uint64_t from)
{
    uint64_t tail = 0;

    if ((r->flags & MRD_RING_PEEK) == 0 ||
        ring_get(r, offsetof(mrd_ring_hdr, tail), &tail, sizeof(tail)) != MRD_OK)
        return false;
    if (tail <= from || tail > r->head || tail % MRD_RING_UNIT != 0)
        return false;
    r->piece_pos = tail;
    r->piece_len = r->at = 0;
    return true;
}

/*
 * Copies the next piece. MORE: there is something in the piece, or the phase changed: go round
 * again.
 */
static mrd_ring_step
fill(mrd_ring_reader *r)
{
    mrd_ring_hdr h;
    uint64_t from = r->piece_pos + r->at, off, n;
    mrd_ring_step step;
    mrd_err err;

    r->piece_pos = from;
    r->piece_len = r->at = 0;
    refresh_clock(r);
    if ((err = get_live(r, &h)) != MRD_OK)
        return ring_bad(r, err, "cannot read the header", 0);
    if (h.head < r->head || h.head < from || h.head % MRD_RING_UNIT != 0 ||
        h.head - r->tail > r->info.data_len + ((r->flags & MRD_RING_PEEK) ? h.head : 0))
        return ring_bad(r, MRD_CORRUPT, "impossible head", h.head);
    r->head = h.head;
    r->state = h.state;
    r->depth = h.depth > MRD_RING_OPEN_MAX ? MRD_RING_OPEN_MAX : h.depth;
    take_losses(r, &h);
    if (h.head == from)
        return nothing_new(r);
    if ((step = refresh_dict(r)) != MRD_RING_MORE)
        return step;
    find_thread(r, from);
    off = from & (r->info.data_len - 1);
    n = r->info.data_len - off;
    n = n < h.head - from ? n : h.head - from;
    n = n < r->piece_cap ? n : r->piece_cap;
    err = ring_get(r, MRD_RING_HEADER_LEN + r->info.dict_len + off, r->piece, n);
    if (err != MRD_OK)
        return ring_bad(r, err, "cannot read the data", from);
    if (peek_overtaken(r, from))
        return MRD_RING_MORE;
    r->piece_len = n;
    r->idle_since_ns = 0;
    r->maps_idle_ns = MAPS_IDLE_NS;
    return MRD_RING_MORE;
}

/* ---- records --------------------------------------------------------------------------------- */

/* A record that does not fit into the rest of the piece: cut by the piece, or a lie. */
static mrd_ring_step
short_record(mrd_ring_reader *r, size_t len)
{
    uint64_t pos = r->piece_pos + r->at, off = pos & (r->info.data_len - 1);

    if (len == 0)
        return ring_bad(r, MRD_CORRUPT, "record of length 0", pos);
    if (len > MRD_RING_REC_MAX || len > r->info.data_len - off)
        return ring_bad(r, MRD_CORRUPT, "record longer than the limit or past the end", pos);
    if (pos + len <= r->head)
        return fill(r); /* starts the next piece with this record */
    if (r->stuck_head == r->head)
        return ring_bad(r, MRD_CORRUPT, "record ends behind the head", pos);
    r->stuck_head = r->head; /* a torn read of head? a second look decides */
    return fill(r);
}

static bool
sane_ticks(const mrd_ring_reader *r, uint64_t ticks)
{
    return ticks - r->base_ticks + TICKS_SANE / 2 < TICKS_SANE;
}

/* First item NAME: the record's name travels inside. */
static void
take_inline_name(mrd_ring_event *ev)
{
    mrd_ring_item item;

    if (ev->body_len < sizeof(item))
        return;
    memcpy(&item, ev->body, sizeof(item));
    if (item.type != MRD_ITEM_NAME || item.len > ev->body_len - sizeof(item))
        return;
    ev->name_text = (mrd_str){ (const char *) ev->body + sizeof(item), item.len };
}

static void
decode_times(mrd_ring_reader *r, const mrd_ring_rec *rec, mrd_ring_event *ev)
{
    int64_t start = mrd_ring_clock_ns(&r->clock, rec->ts);

    ev->ts_ns = start;
    ev->dur_ns = 0;
    if (rec->kind == MRD_REC_SPAN) {
        int64_t end = mrd_ring_clock_ns(&r->clock, rec->ts + rec->value);

        ev->dur_ns = end > start ? end - start : 0;
        r->span_ts = rec->ts;
        r->span_name = rec->name;
    }
}

static mrd_ring_step
loss_event(mrd_ring_reader *r, uint32_t cause, uint64_t first, uint64_t last, uint64_t count,
           mrd_ring_event *ev)
{
    memset(ev, 0, sizeof(*ev));
    if (cause >= MRD_RING_LOST_CAUSES)
        cause = MRD_RING_LOST_CAUSES - 1;
    ev->kind = MRD_REC_LOSS;
    ev->flags = (uint8_t) cause;
    ev->tid = thread_now(r);
    ev->value = count;
    if (sane_ticks(r, first) && sane_ticks(r, last)) {
        int64_t end = mrd_ring_clock_ns(&r->clock, last);

        ev->ts_ns = mrd_ring_clock_ns(&r->clock, first);
        ev->dur_ns = end > ev->ts_ns ? end - ev->ts_ns : 0;
    }
    r->reported[cause] += count;
    return MRD_RING_LOST;
}

static mrd_ring_step
clock_record(mrd_ring_reader *r, const mrd_ring_rec *rec)
{
    mrd_ring_cal cal = { rec->ts, (int64_t) rec->value, (int64_t) rec->extra, rec->name };

    if (!r->own_tsc) { /* our own readings are worth more than the workload's word */
        mrd_ring_clock_add(&r->clock, &cal);
        r->info.wall_offset_ns = (int64_t) (rec->extra - rec->value);
    }
    return MRD_RING_AGAIN; /* nothing for the caller: go on */
}

/* Kinds that are not plain events. AGAIN: not for the caller. */
static mrd_ring_step
special(mrd_ring_reader *r, const mrd_ring_rec *rec, mrd_ring_event *ev)
{
    switch (rec->kind) {
    case MRD_REC_PAD:
        return MRD_RING_AGAIN;
    case MRD_REC_LOSS:
        return loss_event(r, rec->name, rec->ts, rec->value, rec->extra, ev);
    case MRD_REC_CLOCK:
        return clock_record(r, rec);
    default:
        r->skipped++;
        return MRD_RING_AGAIN;
    }
}

static mrd_ring_step
blob_body(mrd_ring_reader *r, const mrd_ring_rec *rec, mrd_ring_event *ev)
{
    if (rec->track > ev->body_len)
        return ring_bad(r, MRD_CORRUPT, "blob piece longer than its record", r->piece_pos + r->at);
    ev->body_len = rec->track;
    ev->track = 0;
    return MRD_RING_MORE;
}

static mrd_ring_step
decode(mrd_ring_reader *r, const mrd_ring_rec *rec, size_t len, mrd_ring_event *ev)
{
    static const uint8_t plain[256] = {
        [MRD_REC_SPAN] = 1,    [MRD_REC_BEGIN] = 1,   [MRD_REC_END] = 1,
        [MRD_REC_INSTANT] = 1, [MRD_REC_COUNTER] = 1, [MRD_REC_FLOW] = 1,
        [MRD_REC_BLOB] = 1,    [MRD_REC_MODEL] = 1,   [MRD_REC_NOTICE] = 1,
    };

    if (!plain[rec->kind])
        return special(r, rec, ev);
    if (!sane_ticks(r, rec->ts) ||
        (rec->kind == MRD_REC_SPAN && !sane_ticks(r, rec->ts + rec->value)))
        return ring_bad(r, MRD_CORRUPT, "impossible time", r->piece_pos + r->at);
    ev->kind = rec->kind;
    ev->flags = rec->flags;
    ev->tid = thread_now(r);
    ev->name = rec->name;
    ev->domain = rec->domain;
    ev->track = rec->track;
    ev->value = rec->value;
    ev->name_text = (mrd_str){ NULL, 0 };
    ev->body = (const uint8_t *) rec + sizeof(*rec);
    ev->body_len = (uint32_t) (len - sizeof(*rec));
    decode_times(r, rec, ev);
    r->records++;
    if (rec->kind == MRD_REC_BLOB)
        return blob_body(r, rec, ev);
    if ((rec->flags & MRD_RECF_BODY) == 0)
        ev->body_len = 0;
    else if (rec->name == 0)
        take_inline_name(ev);
    return MRD_RING_MORE;
}

/* ---- after the owner's end --------------------------------------------------------------------
 */

/* Killed between its two stores: the scope is in a SPAN record, or counted lost, already. */
static bool
scope_accounted(const mrd_ring_reader *r, const mrd_ring_scope *s)
{
    uint64_t lost = r->lost[MRD_RING_LOST_FULL] + r->lost[MRD_RING_LOST_BIG];

    return (s->ts == r->span_ts && (uint32_t) (s->name_domain >> 32) == r->span_name) ||
           (s->ending != 0 && lost >= s->ending);
}

static void
scope_event(mrd_ring_reader *r, const mrd_ring_scope *s, mrd_ring_event *ev)
{
    uint64_t name_domain = s->name_domain, track_flags = s->track_flags;

    memset(ev, 0, sizeof(*ev));
    ev->kind = MRD_REC_SPAN;
    ev->flags = (uint8_t) ((uint32_t) track_flags & (MRD_RECF_FRAME | MRD_RECF_API));
    ev->tid = thread_now(r);
    ev->name = (uint32_t) (name_domain >> 32);
    ev->domain = (uint32_t) name_domain;
    ev->track = (uint32_t) (track_flags >> 32);
    ev->ts_ns = mrd_ring_clock_ns(&r->clock, s->ts);
    ev->dur_ns = MRD_RING_DUR_NONE;
    r->records++;
}

/* The next scope that was open when the owner died. AGAIN: no more. */
static mrd_ring_step
next_open_scope(mrd_ring_reader *r, mrd_ring_event *ev)
{
    if (r->open_at == 0 && r->depth > 0) {
        if (refresh_dict(r) != MRD_RING_MORE)
            return MRD_RING_BAD;
        if (ring_get(r, offsetof(mrd_ring_hdr, open), r->open, sizeof(r->open)) != MRD_OK)
            return ring_bad(r, MRD_TRUNCATED, "cannot read the header", 0);
    }
    while (r->open_at < r->depth) {
        const mrd_ring_scope *s = &r->open[r->open_at++];

        if (s->ts == 0 || !sane_ticks(r, s->ts) || scope_accounted(r, s))
            continue;
        scope_event(r, s, ev);
        return MRD_RING_MORE;
    }
    r->phase = READ_GAPS;
    return MRD_RING_AGAIN;
}

/* What was lost behind the last LOSS record. A reader that resumed cannot know what the one before
 * it was told, so it believes the writer's count of that. */
static mrd_ring_step
next_gap(mrd_ring_reader *r, mrd_ring_event *ev)
{
    while (r->gap_at < MRD_RING_LOST_CAUSES) {
        uint32_t i = r->gap_at++;
        uint64_t told = r->resumed && r->told[i] > r->reported[i] ? r->told[i] : r->reported[i];

        if (r->lost[i] > told)
            return loss_event(r, i, r->first[i], r->last[i], r->lost[i] - told, ev);
    }
    r->phase = READ_END;
    return MRD_RING_END;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Takes over what the inline part did. */
static void
leave_window(mrd_ring_reader *r)
{
    mrd_ring_window *w = &r->win;
    uint64_t newest = w->seg_ticks + w->newest;

    if (w->at == NULL)
        return;
    r->at = (size_t) (w->at - r->piece);
    r->records += (uint64_t) (w->at - w->mark) / MRD_RING_UNIT;
    w->mark = w->at;
    if (w->newest != 0 && newest > r->clock.newest)
        r->clock.newest = newest;
    if (w->span != NULL) {
        r->span_ts = w->span->ts;
        r->span_name = w->span->name;
        w->span = NULL;
    }
}

/* What lies ahead in the piece and belongs to the present thread. */
static void
enter_window(mrd_ring_reader *r)
{
    mrd_ring_window *w = &r->win;
    uint64_t pos = r->piece_pos + r->at, own = r->thread_until - pos;
    size_t left = r->piece_len - r->at;

    w->at = w->mark = r->piece + r->at;
    w->end = w->at + (r->bad || r->thread_until <= pos ? 0 : own < left ? own - own % 32 : left);
    w->tid = thread_now(r);
    w->newest = 0;
    w->seg_ticks = r->base_ticks;
    w->seg_ns = (int64_t) r->base_ticks;
    w->seg_mult = 1ull << MRD_RING_TICK_SHIFT;
    if (r->clock.id != MRD_RING_CLOCK_RAW) {
        w->seg_ticks = r->clock.now.ticks;
        w->seg_ns = r->clock.now.ns;
        w->seg_mult = r->clock.now.mult;
    }
}

/* The piece is used up. True: *ret_step is the answer; false: go round (a new piece, or bad). */
static bool
between_pieces(mrd_ring_reader *r, mrd_ring_event *ev, mrd_ring_step *ret_step)
{
    switch (r->phase) {
    case READ_LIVE:
    case READ_LAST:
        *ret_step = fill(r);
        return *ret_step == MRD_RING_AGAIN;
    case READ_OPEN:
        *ret_step = next_open_scope(r, ev);
        return *ret_step == MRD_RING_MORE;
    case READ_GAPS:
        *ret_step = next_gap(r, ev);
        return true;
    case READ_END:
        break;
    }
    *ret_step = MRD_RING_END;
    return true;
}

/* One answer; `r->at` stands behind what it consumed. */
static mrd_ring_step
next_checked(mrd_ring_reader *r, mrd_ring_event *ret_event)
{
    mrd_ring_step step;

    while (!r->bad) {
        const mrd_ring_rec *rec = (const void *) (r->piece + r->at);
        size_t left = r->piece_len - r->at, len;

        if (__builtin_expect(left < MRD_RING_UNIT, 0)) {
            if (between_pieces(r, ret_event, &step))
                return step;
            continue;
        }
        len = (size_t) rec->units * MRD_RING_UNIT;
        if (__builtin_expect(len > left || len == 0, 0)) {
            if (short_record(r, len) == MRD_RING_BAD)
                break;
            continue;
        }
        if (__builtin_expect(r->piece_pos + r->at >= r->thread_until, 0))
            find_thread(r, r->piece_pos + r->at);
        step = decode(r, rec, len, ret_event);
        if (step == MRD_RING_BAD)
            break;
        r->at += len;
        if (step != MRD_RING_AGAIN)
            return step;
    }
    return MRD_RING_BAD;
}

mrd_ring_step
mrd_ring_next_slow(mrd_ring_reader *r, mrd_ring_event *ret_event, mrd_why *why)
{
    mrd_ring_step step;

    leave_window(r);
    step = next_checked(r, ret_event);
    enter_window(r);
    if (step == MRD_RING_BAD && why != NULL)
        *why = r->why;
    return step;
}

mrd_err
mrd_ring_release(mrd_ring_reader *r)
{
    uint64_t pair[2];

    leave_window(r);
    pair[0] = r->piece_pos + r->at;
    pair[1] = ~pair[0];
    if ((r->flags & MRD_RING_PEEK) != 0 || pair[0] == r->tail)
        return MRD_OK;
    /* release: our copies come before the workload may overwrite; pairs with the writer's acquire
     */
    atomic_thread_fence(memory_order_seq_cst);
    if (r->fd < 0) {
        atomic_store_explicit(&mem_hdr(r)->tail_check, pair[1], memory_order_release);
        atomic_store_explicit(&mem_hdr(r)->tail, pair[0], memory_order_release);
    } else if (ring_put(r, offsetof(mrd_ring_hdr, tail), pair, sizeof(pair)) != MRD_OK) {
        return MRD_IO;
    }
    r->tail = pair[0];
    return MRD_OK;
}

void
mrd_ring_get_stats(const mrd_ring_reader *r, mrd_ring_stats *ret_stats)
{
    mrd_ring_stats s = { .head = r->head, .tail = r->tail };

    s.records = r->records + (uint64_t) (r->win.at - r->win.mark) / MRD_RING_UNIT;
    s.read = r->piece_pos + (r->win.at == NULL ? r->at : (size_t) (r->win.at - r->piece));
    for (size_t i = 0; i < MRD_RING_LOST_CAUSES; i++) {
        s.lost[i] = r->lost[i];
        s.lost_total += r->lost[i];
        s.reported += r->reported[i];
    }
    s.skipped = r->skipped;
    s.clock_error_ns = mrd_ring_clock_error(&r->clock, r->clock.newest);
    s.clock_steps = r->clock.steps;
    *ret_stats = s;
}

uint64_t
mrd_ring_untold(mrd_ring_reader *r, unsigned cause, int64_t *ret_first_ns, int64_t *ret_last_ns)
{
    uint64_t told = r->told[cause] > r->reported[cause] ? r->told[cause] : r->reported[cause];

    if (r->lost[cause] <= told || !sane_ticks(r, r->first[cause]) || !sane_ticks(r, r->last[cause]))
        return 0;
    *ret_first_ns = mrd_ring_clock_ns(&r->clock, r->first[cause]);
    *ret_last_ns = mrd_ring_clock_ns(&r->clock, r->last[cause]);
    return r->lost[cause] - told;
}

mrd_str
mrd_ring_text(const mrd_ring_reader *r, uint32_t id)
{
    return id < r->dict.text_cap ? r->dict.text[id] : (mrd_str){ NULL, 0 };
}

const mrd_ring_track_info *
mrd_ring_track_of(const mrd_ring_reader *r, uint32_t id)
{
    return id < r->dict.track_cap && r->dict.track[id].def.kind != 0 ? &r->dict.track[id] : NULL;
}

mrd_str
mrd_ring_thread_name(const mrd_ring_reader *r, int32_t tid)
{
    for (uint32_t i = r->dict.thread_count; i > 0; i--)
        if (r->dict.thread[i - 1].tid == tid && r->dict.thread[i - 1].name.len > 0)
            return r->dict.thread[i - 1].name;
    return (mrd_str){ NULL, 0 };
}

/* ---- the file and its owner -------------------------------------------------------------------
 */

mrd_owner
mrd_ring_owner(mrd_ring_reader *r, int32_t *ret_host_pid)
{
    mrd_owner owner = r->fd < 0 ? MRD_OWNER_UNKNOWN : mrd_ring_owner_check(&r->owner, true);

    if (ret_host_pid != NULL)
        *ret_host_pid = r->owner.host_pid;
    return owner;
}

void
mrd_ring_assume_dead(mrd_ring_reader *r)
{
    if (r->phase == READ_LIVE)
        r->phase = READ_LAST;
}

mrd_err
mrd_ring_set_pause(mrd_ring_reader *r, bool pause)
{
    uint32_t v = pause;

    if (r->fd < 0) {
        atomic_store_explicit(&mem_hdr(r)->pause, v, memory_order_relaxed);
        return MRD_OK;
    }
    return ring_put(r, offsetof(mrd_ring_hdr, pause), &v, sizeof(v));
}

mrd_err
mrd_ring_remove(mrd_ring_reader *r, int dir_fd, const char *file_name, mrd_why *why)
{
    struct stat st;

    if (fstatat(dir_fd, file_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? MRD_OK : mrd_why_set(why, MRD_IO, errno, "%s", file_name);
    if ((uint64_t) st.st_ino != r->info.inode || (uint64_t) st.st_dev != r->info.device)
        return mrd_why_set(why, MRD_STATE, 0, "%s is not the ring that was read", file_name);
    if (unlinkat(dir_fd, file_name, 0) != 0 && errno != ENOENT)
        return mrd_why_set(why, errno == EACCES || errno == EPERM ? MRD_DENIED : MRD_IO, errno,
                           "cannot remove %s", file_name);
    return MRD_OK;
}

mrd_err
mrd_ring_remove_stale(int dir_fd, const char *file_name, const char *proc_dir, mrd_why *why)
{
    const char *base = strrchr(file_name, '/');
    mrd_ring_owner_id id = { .proc_dir = proc_dir == NULL ? "/proc" : proc_dir };
    mrd_ring_name name;
    uint8_t boot[16];
    struct stat st;

    base = base == NULL ? file_name : base + 1;
    if (!mrd_ring_name_parse(base, &name))
        return mrd_why_set(why, MRD_INVALID, 0, "'%s' is no name of a ring", file_name);
    if (fstatat(dir_fd, file_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? MRD_OK : mrd_why_set(why, MRD_IO, errno, "%s", file_name);
    if (!mrd_ring_boot_id(id.proc_dir, boot) || memcmp(boot, name.boot_id, 16) == 0) {
        id.pid = name.pid;
        id.start_ticks = name.start_ticks;
        id.inode = st.st_ino;
        id.file_name = base;
        if (mrd_ring_owner_check(&id, false) != MRD_OWNER_DEAD)
            return mrd_why_set(why, MRD_BUSY, 0, "%s: its process may still live", file_name);
    }
    if (unlinkat(dir_fd, file_name, 0) != 0 && errno != ENOENT)
        return mrd_why_set(why, errno == EACCES || errno == EPERM ? MRD_DENIED : MRD_IO, errno,
                           "cannot remove %s", file_name);
    return MRD_OK;
}
