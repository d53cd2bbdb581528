/* Opens a ring's file for reading: checks its header, compares its clocks with ours, takes its
 * lock. */
#include "capture/ring/ring_read_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define READER_MAGIC 0x52494e47u
#define CHUNK_MIN    (2u * MRD_RING_REC_MAX) /* also the default; fits into the L2 cache */

/* ---- bytes of the ring ----------------------------------------------------------------------- */

mrd_err
mrd_ring_get(mrd_ring_reader *r, uint64_t off, void *to, size_t len)
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

mrd_err
mrd_ring_put(mrd_ring_reader *r, uint64_t off, const void *from, size_t len)
{
    ssize_t n;

    while ((n = pwrite(r->fd, from, len, (off_t) off)) < 0 && errno == EINTR)
        ;
    return n == (ssize_t) len ? MRD_OK : MRD_IO;
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
        r->next_cal = (mrd_local_ns){ own.raw_ns + RING_CAL_PERIOD_NS };
        own.raw_ns += r->ahead_ns;
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

/* Its clocks against ours. */
static mrd_err
take_timens(mrd_ring_reader *r, const mrd_ring_hdr *h, mrd_why *why)
{
    int64_t monotonic, boottime;

    if (h->timens_monotonic_ns <= -MRD_RING_TIMENS_MAX ||
        h->timens_monotonic_ns >= MRD_RING_TIMENS_MAX ||
        h->timens_boottime_ns <= -MRD_RING_TIMENS_MAX ||
        h->timens_boottime_ns >= MRD_RING_TIMENS_MAX)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring header: impossible time namespace");
    mrd_ring_timens(&monotonic, &boottime);
    r->info.timens_monotonic_ns = h->timens_monotonic_ns;
    r->ahead_ns = h->timens_monotonic_ns - monotonic;
    r->owner.start_ahead_ns = h->timens_boottime_ns - boottime;
    return MRD_OK;
}

static mrd_err
take_header(mrd_ring_reader *r, const mrd_ring_hdr *h, uint64_t file_len, mrd_why *why)
{
    mrd_err err;

    if ((err = check_geometry(h, file_len, why)) != MRD_OK ||
        (err = check_positions(h, why)) != MRD_OK || (err = take_timens(r, h, why)) != MRD_OK ||
        (err = start_clock(r, h, why)) != MRD_OK)
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
    r->info.created = (mrd_local_ns){ h->created_ns };
    r->info.wall_offset_ns = (int64_t) ((uint64_t) h->cal[1].wall_ns - (uint64_t) h->cal[1].raw_ns);
    memcpy(r->ident, h->ident, h->ident_len);
    r->info.ident = (mrd_str){ (const char *) r->ident, h->ident_len };
    r->head = r->tail = r->chunk_pos = h->tail;
    r->resumed = h->tail > 0;
    r->info.rest = h->rest == 1;
    r->info.head = h->head;
    memcpy(r->left, &h->done, sizeof(r->left));
    if (h->done > h->tail && h->done <= h->head && h->done % MRD_RING_UNIT == 0)
        r->info.done = h->done;
    r->info.gaps_done = h->gaps_done;
    r->info.open_lost = h->open_lost;
    r->info.oldest_open = (mrd_wall_ns){ h->open_lost_ns };
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
    if (mrd_ring_put(r, offsetof(mrd_ring_hdr, reader_pid), &me, sizeof(me)) != MRD_OK)
        return mrd_why_set(why, MRD_IO, errno, "cannot write to the ring");
    return MRD_OK;
}

static const volatile sig_atomic_t never_cut;

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
    r->cut = &never_cut;
    r->flags = opts->flags;
    r->chunk_cap = opts->chunk < CHUNK_MIN ? CHUNK_MIN : opts->chunk - opts->chunk % MRD_RING_UNIT;
    r->proc_dir = strdup(opts->proc_dir == NULL ? "/proc" : opts->proc_dir);
    r->stuck_head = UINT64_MAX;
    r->maps_idle_ns = RING_MAPS_IDLE_NS;
    if (r->proc_dir == NULL) {
        free(r);
        return NULL;
    }
    return r;
}

static void
set_owner(mrd_ring_reader *r)
{
    r->owner.proc_dir = r->proc_dir;
    r->owner.pid = r->info.name.pid;
    r->owner.start_ticks = r->info.name.start_ticks;
    r->owner.pid_ns = r->info.pid_ns;
    r->owner.inode = r->info.inode;
    r->owner.file_name = r->file_name;
}

/* Reads the whole header. Returns AGAIN if the writer has not filled it yet. */
static mrd_err
read_header(mrd_ring_reader *r, mrd_ring_hdr *ret_header, uint64_t file_len, mrd_why *why)
{
    mrd_err err = mrd_ring_get(r, 0, ret_header, sizeof(*ret_header));

    if (err == MRD_TRUNCATED)
        return mrd_why_set(why, file_len == 0 ? MRD_AGAIN : MRD_TRUNCATED, 0,
                           "ring is %" PRIu64 " bytes long, shorter than its header", file_len);
    if (err != MRD_OK)
        return mrd_why_set(why, err, errno, "cannot read the ring");
    if (memcmp(ret_header->magic, "\0\0\0\0\0\0\0", 8) == 0)
        return mrd_why_set(why, MRD_AGAIN, 0, "ring has no header yet");
    if (memcmp(ret_header->magic, MRD_RING_MAGIC, 8) != 0)
        return mrd_why_set(why, MRD_CORRUPT, 0, "not a ring: wrong magic");
    atomic_thread_fence(memory_order_acquire); /* pairs with the release of the magic */
    if ((err = mrd_ring_get(r, 0, ret_header, sizeof(*ret_header))) != MRD_OK)
        return mrd_why_set(why, err, errno, "cannot read the ring");
    return MRD_OK;
}

/* Reads the rest after opening: header, lock and dictionary. */
static mrd_err
reader_start(mrd_ring_reader *r, const mrd_ring_name *want, uint64_t file_len, mrd_why *why)
{
    /* not on the stack, because programs read their own rings, too */
    mrd_ring_hdr *h = malloc(sizeof(*h));
    mrd_err err = h == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "ring reader")
                            : read_header(r, h, file_len, why);

    if (err == MRD_OK && (err = take_header(r, h, file_len, why)) == MRD_OK && want != NULL &&
        !same_owner(h, want))
        err = mrd_why_set(why, MRD_CORRUPT, 0, "ring header names another process than the file");
    free(h);
    if (err != MRD_OK)
        return err;
    if (want != NULL)
        r->info.name.serial = want->serial;
    if ((err = check_boot(r, why)) != MRD_OK)
        return err;
    if (r->chunk_cap > r->info.data_len)
        r->chunk_cap = r->info.data_len;
    r->chunk = malloc(r->chunk_cap);
    if (r->chunk == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "ring reader");
    r->data = r->chunk;
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
        return mrd_why_set(why, MRD_INVALID, 0, "'%s' is not the name of a ring", file_name);
    /* NONBLOCK, because a fifo of that name must not block the agent */
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

int
mrd_ring_file(const mrd_ring_reader *r, uint64_t *ret_len)
{
    *ret_len = ring_file_len(r);
    return r->fd;
}

void
mrd_ring_in_place(mrd_ring_reader *r, void *mapping, const volatile sig_atomic_t *cut)
{
    r->mem = mapping;
    r->mem_len = ring_file_len(r);
    r->cut = cut;
}

void
mrd_ring_close(mrd_ring_reader *r)
{
    uint32_t nobody = 0;

    if (r == NULL || r->magic != READER_MAGIC)
        return;
    if (r->fd >= 0) {
        if (r->chunk != NULL && (r->flags & MRD_RING_PEEK) == 0)
            (void) mrd_ring_put(r, offsetof(mrd_ring_hdr, reader_pid), &nobody, sizeof(nobody));
        close(r->fd);
    }
    mrd_ring_dict_fini(&r->dict);
    free(r->chunk);
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
    return mrd_ring_ident_value(r->info.ident, key);
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

    if (r->mem != NULL) {
        atomic_store_explicit(&ring_mem_hdr(r)->pause, v, memory_order_relaxed);
        return MRD_OK;
    }
    return mrd_ring_put(r, offsetof(mrd_ring_hdr, pause), &v, sizeof(v));
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
        return mrd_why_set(why, MRD_INVALID, 0, "'%s' is not the name of a ring", file_name);
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
