/* Opens a ring's file for reading: checks its header, compares its clocks with this process's
 * clocks, takes its lock. */
#include "capture/ring/ring_read_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define READER_MAGIC 0x52494e47u
/* minimum and default of opts.chunk, in bytes; fits into the L2 cache */
#define CHUNK_MIN (2u * MRD_RING_REC_MAX)

/* ---- reading and writing bytes of the ring's file -------------------------------------------- */

mrd_err
mrd_ring_get(mrd_ring_reader *reader, uint64_t off, void *to, size_t len)
{
    if (reader->fd < 0) {
        if (off > reader->mem_len || len > reader->mem_len - off)
            return MRD_TRUNCATED;
        memcpy(to, reader->mem + off, len);
        return MRD_OK;
    }
    while (len > 0) {
        ssize_t n = pread(reader->fd, to, len, (off_t) off);

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
mrd_ring_put(mrd_ring_reader *reader, uint64_t off, const void *from, size_t len)
{
    ssize_t n;

    while ((n = pwrite(reader->fd, from, len, (off_t) off)) < 0 && errno == EINTR)
        ;
    return n == (ssize_t) len ? MRD_OK : MRD_IO;
}

/* ---- opening a ring and checking its header -------------------------------------------------- */

static mrd_err
check_geometry(const mrd_ring_hdr *hdr, uint64_t file_len, mrd_why *why)
{
    if (hdr->abi != MRD_RING_ABI)
        return mrd_why_set(why, MRD_VERSION, 0, "ring has abi %u, this program reads %u",
                           (unsigned) hdr->abi, MRD_RING_ABI);
    if (hdr->header_len != MRD_RING_HEADER_LEN || hdr->dict_len < MRD_RING_DICT_MIN ||
        hdr->dict_len > MRD_RING_DICT_MAX || hdr->dict_len % 4096 != 0 ||
        hdr->data_len < MRD_RING_DATA_MIN || hdr->data_len > MRD_RING_DATA_MAX ||
        (hdr->data_len & (hdr->data_len - 1)) != 0)
        return mrd_why_set(
            why, MRD_CORRUPT, 0,
            "ring header: impossible lengths (header %u, dictionary %u, data %" PRIu64 ")",
            (unsigned) hdr->header_len, (unsigned) hdr->dict_len, hdr->data_len);
    if (file_len != hdr->header_len + hdr->dict_len + hdr->data_len)
        return mrd_why_set(why, MRD_TRUNCATED, 0,
                           "ring is %" PRIu64 " bytes long, its header says %" PRIu64, file_len,
                           hdr->header_len + hdr->dict_len + hdr->data_len);
    if (hdr->ident_len > MRD_RING_IDENT_MAX)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring header: identity of %u bytes",
                           (unsigned) hdr->ident_len);
    return MRD_OK;
}

static mrd_err
check_positions(const mrd_ring_hdr *hdr, mrd_why *why)
{
    if (hdr->tail % MRD_RING_UNIT != 0 || hdr->head % MRD_RING_UNIT != 0 || hdr->tail > hdr->head ||
        hdr->head - hdr->tail > hdr->data_len)
        return mrd_why_set(why, MRD_CORRUPT, 0,
                           "ring header: tail %" PRIu64 ", head %" PRIu64 ", data length %" PRIu64,
                           (uint64_t) hdr->tail, (uint64_t) hdr->head, hdr->data_len);
    return MRD_OK;
}

static bool
same_owner(const mrd_ring_hdr *hdr, const mrd_ring_name *name)
{
    return hdr->pid == name->pid && hdr->tid == name->tid &&
           hdr->start_ticks == name->start_ticks && memcmp(hdr->boot_id, name->boot_id, 16) == 0;
}

static mrd_err
start_clock(mrd_ring_reader *reader, const mrd_ring_hdr *hdr, mrd_why *why)
{
    mrd_ring_cal own;

    if (hdr->clock != MRD_RING_CLOCK_RAW && hdr->clock != MRD_RING_CLOCK_TSC)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring header: unknown clock %u",
                           (unsigned) hdr->clock);
    reader->own_tsc = hdr->clock == MRD_RING_CLOCK_TSC && MRD_HAVE_TSC && reader->fd >= 0;
    if (reader->own_tsc) {
        mrd_ring_cal_read(MRD_RING_CLOCK_TSC, &own);
        reader->next_cal = (mrd_local_ns){ own.raw_ns + RING_CAL_PERIOD_NS };
        own.raw_ns += reader->ahead_ns;
    }
    if (hdr->clock == MRD_RING_CLOCK_RAW && hdr->cal[1].ticks > INT64_MAX / 2)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring header: impossible clock reading");
    if (!mrd_ring_clock_init(&reader->clock, (mrd_ring_clock_id) hdr->clock, hdr->cal,
                             reader->own_tsc ? &own : NULL))
        return mrd_why_set(why, MRD_CORRUPT, 0,
                           "ring header: clock readings contradict each other");
    reader->base_ticks = hdr->cal[1].ticks;
    reader->info.clock = (mrd_ring_clock_id) hdr->clock;
    return MRD_OK;
}

/* Validates the owner's time namespace offsets and compares them with this process's offsets. */
static mrd_err
take_timens(mrd_ring_reader *reader, const mrd_ring_hdr *hdr, mrd_why *why)
{
    int64_t monotonic, boottime;

    if (hdr->timens_monotonic_ns <= -MRD_RING_TIMENS_MAX ||
        hdr->timens_monotonic_ns >= MRD_RING_TIMENS_MAX ||
        hdr->timens_boottime_ns <= -MRD_RING_TIMENS_MAX ||
        hdr->timens_boottime_ns >= MRD_RING_TIMENS_MAX)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring header: impossible time namespace");
    mrd_ring_timens(&monotonic, &boottime);
    reader->info.timens_monotonic_ns = hdr->timens_monotonic_ns;
    reader->ahead_ns = hdr->timens_monotonic_ns - monotonic;
    reader->owner.start_ahead_ns = hdr->timens_boottime_ns - boottime;
    return MRD_OK;
}

static mrd_err
take_header(mrd_ring_reader *reader, const mrd_ring_hdr *hdr, uint64_t file_len, mrd_why *why)
{
    mrd_err err;

    if ((err = check_geometry(hdr, file_len, why)) != MRD_OK ||
        (err = check_positions(hdr, why)) != MRD_OK ||
        (err = take_timens(reader, hdr, why)) != MRD_OK ||
        (err = start_clock(reader, hdr, why)) != MRD_OK)
        return err;
    if (hdr->pid <= 0 || hdr->tid <= 0)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring header: pid %d, tid %d", (int) hdr->pid,
                           (int) hdr->tid);
    reader->info.name.pid = hdr->pid;
    reader->info.name.tid = hdr->tid;
    reader->info.name.start_ticks = hdr->start_ticks;
    memcpy(reader->info.name.boot_id, hdr->boot_id, 16);
    reader->info.pid_ns = hdr->pid_ns;
    reader->info.mnt_ns = hdr->mnt_ns;
    reader->info.data_len = hdr->data_len;
    reader->info.dict_len = hdr->dict_len;
    reader->info.created = (mrd_local_ns){ hdr->created_ns };
    memcpy(reader->ident, hdr->ident, hdr->ident_len);
    reader->info.ident = (mrd_str){ (const char *) reader->ident, hdr->ident_len };
    reader->head = reader->tail = reader->chunk_pos = hdr->tail;
    reader->resumed = hdr->tail > 0;
    reader->info.rest = hdr->rest == 1;
    reader->info.head = hdr->head;
    memcpy(reader->left, &hdr->done, sizeof(reader->left));
    if (hdr->done > hdr->tail && hdr->done <= hdr->head && hdr->done % MRD_RING_UNIT == 0)
        reader->info.done = hdr->done;
    reader->info.gaps_done = hdr->gaps_done;
    reader->info.open_lost = hdr->open_lost;
    reader->info.oldest_open = (mrd_wall_ns){ hdr->open_lost_ns };
    return mrd_ring_dict_init(&reader->dict, hdr->dict_len);
}

static mrd_err
check_boot(const mrd_ring_reader *reader, mrd_why *why)
{
    uint8_t boot[16];

    if (reader->fd >= 0 && mrd_ring_boot_id(reader->proc_dir, boot) &&
        memcmp(boot, reader->info.name.boot_id, 16) != 0)
        return mrd_why_set(why, MRD_STATE, 0, "ring is of another boot of this machine");
    return MRD_OK;
}

static mrd_err
take_lock(mrd_ring_reader *reader, mrd_why *why)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    uint32_t me = (uint32_t) getpid();

    if ((reader->flags & MRD_RING_PEEK) != 0 || reader->fd < 0)
        return MRD_OK;
    if (fcntl(reader->fd, F_OFD_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES))
        return mrd_why_set(why, MRD_BUSY, 0, "ring has another reader");
    if (mrd_ring_put(reader, offsetof(mrd_ring_hdr, reader_pid), &me, sizeof(me)) != MRD_OK)
        return mrd_why_set(why, MRD_IO, errno, "cannot write to the ring");
    return MRD_OK;
}

static const volatile sig_atomic_t never_cut;

static mrd_ring_reader *
reader_new(const mrd_ring_opts *opts)
{
    static const mrd_ring_opts defaults = { 0, -1, 0, NULL };
    mrd_ring_reader *reader = calloc(1, sizeof(*reader));

    if (reader == NULL)
        return NULL;
    if (opts == NULL)
        opts = &defaults;
    reader->magic = READER_MAGIC;
    reader->fd = -1;
    reader->cut = &never_cut;
    reader->flags = opts->flags;
    reader->chunk_cap =
        opts->chunk < CHUNK_MIN ? CHUNK_MIN : opts->chunk - opts->chunk % MRD_RING_UNIT;
    reader->proc_dir = strdup(opts->proc_dir == NULL ? "/proc" : opts->proc_dir);
    reader->stuck_head = UINT64_MAX;
    reader->maps_idle_ns = RING_MAPS_IDLE_NS;
    if (reader->proc_dir == NULL) {
        free(reader);
        return NULL;
    }
    return reader;
}

static void
set_owner(mrd_ring_reader *reader)
{
    reader->owner.proc_dir = reader->proc_dir;
    reader->owner.pid = reader->info.name.pid;
    reader->owner.start_ticks = reader->info.name.start_ticks;
    reader->owner.pid_ns = reader->info.pid_ns;
    reader->owner.inode = reader->info.inode;
    reader->owner.file_name = reader->file_name;
}

/* Reads the whole header. Returns AGAIN if the writer has not completed the header yet. */
static mrd_err
read_header(mrd_ring_reader *reader, mrd_ring_hdr *ret_header, uint64_t file_len, mrd_why *why)
{
    mrd_err err = mrd_ring_get(reader, 0, ret_header, sizeof(*ret_header));

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
    if ((err = mrd_ring_get(reader, 0, ret_header, sizeof(*ret_header))) != MRD_OK)
        return mrd_why_set(why, err, errno, "cannot read the ring");
    return MRD_OK;
}

/* Prepares the reader after the file was opened: reads the header, takes the lock, and reads the
 * dictionary. */
static mrd_err
reader_start(mrd_ring_reader *reader, const mrd_ring_name *want, uint64_t file_len, mrd_why *why)
{
    /* not on the stack, because a program's thread with a small stack may read its own rings */
    mrd_ring_hdr *hdr = malloc(sizeof(*hdr));
    mrd_err err = hdr == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "ring reader")
                              : read_header(reader, hdr, file_len, why);

    if (err == MRD_OK && (err = take_header(reader, hdr, file_len, why)) == MRD_OK &&
        want != NULL && !same_owner(hdr, want))
        err = mrd_why_set(why, MRD_CORRUPT, 0, "ring header names another process than the file");
    free(hdr);
    if (err != MRD_OK)
        return err;
    if (want != NULL)
        reader->info.name.serial = want->serial;
    if ((err = check_boot(reader, why)) != MRD_OK)
        return err;
    if (reader->chunk_cap > reader->info.data_len)
        reader->chunk_cap = reader->info.data_len;
    reader->chunk = malloc(reader->chunk_cap);
    if (reader->chunk == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "ring reader");
    reader->data = reader->chunk;
    mrd_ring_name_print(&reader->info.name, reader->file_name);
    set_owner(reader);
    return take_lock(reader, why);
}

/* Creates a reader for an open file. The function owns fd, also after an error. */
static mrd_err
open_owned_fd(int fd, const mrd_ring_name *want, const mrd_ring_opts *opts,
              mrd_ring_reader **ret_reader, mrd_why *why)
{
    mrd_ring_reader *reader = reader_new(opts);
    struct stat st;
    mrd_err err;

    if (reader == NULL) {
        close(fd);
        return mrd_why_set(why, MRD_NOMEM, 0, "ring reader");
    }
    reader->fd = fd;
    if (fstat(fd, &st) != 0) {
        err = mrd_why_set(why, MRD_IO, errno, "cannot look at the ring");
    } else if (!S_ISREG(st.st_mode)) {
        err = mrd_why_set(why, MRD_DENIED, 0, "not a regular file");
    } else if (opts != NULL && opts->expect_uid >= 0 && (int64_t) st.st_uid != opts->expect_uid) {
        err = mrd_why_set(why, MRD_DENIED, 0, "ring belongs to user %u, expected %" PRId64,
                          (unsigned) st.st_uid, opts->expect_uid);
    } else {
        reader->info.file_uid = st.st_uid;
        reader->info.inode = st.st_ino;
        reader->info.device = st.st_dev;
        err = reader_start(reader, want, (uint64_t) st.st_size, why);
    }
    if (err == MRD_OK) {
        *ret_reader = reader;
        return MRD_OK;
    }
    mrd_ring_close(reader);
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
    /* O_NONBLOCK, because a fifo with this name must not block the agent */
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
    mrd_ring_reader *reader = reader_new(opts);
    mrd_err err;

    if (reader == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "ring reader");
    reader->mem = mem;
    reader->mem_len = len;
    err = reader_start(reader, NULL, len, why);
    if (err == MRD_OK) {
        *ret_reader = reader;
        return MRD_OK;
    }
    mrd_ring_close(reader);
    return err;
}

int
mrd_ring_file(const mrd_ring_reader *reader, uint64_t *ret_len)
{
    *ret_len = ring_file_len(reader);
    return reader->fd;
}

void
mrd_ring_in_place(mrd_ring_reader *reader, void *mapping, const volatile sig_atomic_t *cut)
{
    reader->mem = mapping;
    reader->mem_len = ring_file_len(reader);
    reader->cut = cut;
}

void
mrd_ring_close(mrd_ring_reader *reader)
{
    uint32_t nobody = 0;

    if (reader == NULL || reader->magic != READER_MAGIC)
        return;
    if (reader->fd >= 0) {
        if (reader->chunk != NULL && (reader->flags & MRD_RING_PEEK) == 0)
            (void) mrd_ring_put(reader, offsetof(mrd_ring_hdr, reader_pid), &nobody,
                                sizeof(nobody));
        close(reader->fd);
    }
    mrd_ring_dict_fini(&reader->dict);
    free(reader->chunk);
    free(reader->proc_dir);
    reader->magic = 0;
    free(reader);
}

const mrd_ring_info *
mrd_ring_borrow_info(const mrd_ring_reader *reader)
{
    return &reader->info;
}

mrd_str
mrd_ring_ident(const mrd_ring_reader *reader, const char *key)
{
    return mrd_ring_ident_value(reader->info.ident, key);
}

/* ---- the process that made the ring, and removing the file ----------------------------------- */

mrd_owner
mrd_ring_owner(mrd_ring_reader *reader, int32_t *ret_host_pid)
{
    mrd_owner owner =
        reader->fd < 0 ? MRD_OWNER_UNKNOWN : mrd_ring_owner_check(&reader->owner, true);

    if (ret_host_pid != NULL)
        *ret_host_pid = reader->owner.host_pid;
    return owner;
}

void
mrd_ring_assume_dead(mrd_ring_reader *reader)
{
    if (reader->phase == READ_LIVE)
        reader->phase = READ_LAST;
}

mrd_err
mrd_ring_set_pause(mrd_ring_reader *reader, bool pause)
{
    uint32_t v = pause;

    if (reader->mem != NULL) {
        atomic_store_explicit(&ring_mem_hdr(reader)->pause, v, memory_order_relaxed);
        return MRD_OK;
    }
    return mrd_ring_put(reader, offsetof(mrd_ring_hdr, pause), &v, sizeof(v));
}

mrd_err
mrd_ring_remove(mrd_ring_reader *reader, int dir_fd, const char *file_name, mrd_why *why)
{
    struct stat st;

    if (fstatat(dir_fd, file_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? MRD_OK : mrd_why_set(why, MRD_IO, errno, "%s", file_name);
    if ((uint64_t) st.st_ino != reader->info.inode || (uint64_t) st.st_dev != reader->info.device)
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
