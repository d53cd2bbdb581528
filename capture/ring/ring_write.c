#include "capture/ring/ring_write.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "capture/ring/print.h"
#include "capture/ring/ring_read.h"

/* Number of serial numbers that are tried for the file name of a ring. A serial number is in use if
 * the process made a ring with it and then ran an exec. */
#define SERIALS_MAX 64

/* ---- creating the file of a ring ------------------------------------------------------------- */

static void
fill_header(mrd_ring_hdr *hdr, const mrd_ring_owner_claim *claim, int32_t tid, uint64_t data_len,
            uint32_t dict_len)
{
    hdr->abi = MRD_RING_ABI;
    hdr->header_len = MRD_RING_HEADER_LEN;
    hdr->dict_len = dict_len;
    hdr->clock = claim->clock;
    hdr->data_len = data_len;
    hdr->start_ticks = claim->start_ticks;
    hdr->rest = claim->rest;
    hdr->pid = claim->pid;
    hdr->tid = tid;
    hdr->uid = claim->uid;
    hdr->ident_len = claim->ident_len;
    hdr->pid_ns = claim->pid_ns;
    hdr->mnt_ns = claim->mnt_ns;
    hdr->timens_monotonic_ns = claim->timens_monotonic_ns;
    hdr->timens_boottime_ns = claim->timens_boottime_ns;
    memcpy(hdr->boot_id, claim->boot_id, sizeof(hdr->boot_id));
    hdr->cal[0] = claim->load_cal;
    mrd_ring_cal_read(claim->clock, &hdr->cal[1]);
    hdr->created_ns = hdr->cal[1].raw_ns;
    memcpy(hdr->ident, claim->ident, claim->ident_len);
    atomic_store_explicit(&hdr->tail_check, ~0ull, memory_order_relaxed);
    atomic_store_explicit(&hdr->state, MRD_RING_LIVE, memory_order_relaxed);
}

void
mrd_ring_create_mem(mrd_ring_writer *writer, void *mem, const mrd_ring_owner_claim *claim,
                    int32_t tid, uint64_t data_len, uint32_t dict_len)
{
    mrd_ring_hdr *hdr = mem;

    fill_header(hdr, claim, tid, data_len, dict_len);
    writer->hdr = hdr;
    writer->data = (uint8_t *) mem + MRD_RING_HEADER_LEN + dict_len;
    writer->mask = data_len - 1;
    writer->limit = data_len;
    writer->dict_len = dict_len;
    writer->clock = claim->clock;
    writer->pid = (uint32_t) claim->pid;
    writer->cal_due = hdr->cal[1].ticks + MRD_RING_CAL_TICKS;
    writer->map_len = MRD_RING_HEADER_LEN + dict_len + data_len;
    /* The release order makes the header visible before its magic. It pairs with reader_start in
     * ring_open.c. */
    atomic_thread_fence(memory_order_release);
    memcpy(hdr->magic, MRD_RING_MAGIC, sizeof(hdr->magic));
    writer->ready = 1;
}

/* The path of the file that is being made. It is static, because a signal handler may have a small
 * stack. */
static char path[4096];

/* Makes the file and stores its path in `path`. If the file exists, a program that this process ran
 * before an exec has made it, so the next serial number is tried. */
static int
create_file(const char *dir, const mrd_ring_owner_claim *claim, int32_t tid, uint32_t *ret_serial)
{
    mrd_ring_name name = { .pid = claim->pid, .tid = tid, .start_ticks = claim->start_ticks };
    char file[MRD_RING_NAME_MAX];
    int fd = -1;

    memcpy(name.boot_id, claim->boot_id, sizeof(name.boot_id));
    for (name.serial = 0; name.serial < SERIALS_MAX; name.serial++) {
        mrd_print print = mrd_print_to(path, sizeof(path));

        mrd_ring_name_print(&name, file);
        mrd_print_text(&print, dir);
        mrd_print_text(&print, "/");
        mrd_print_text(&print, file);
        if (print.was_cut) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
        *ret_serial = name.serial;
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return fd;
}

/* Allocates the blocks of the file while all signals are blocked. A signal would make fallocate
 * fail with EINTR and free the blocks. With the timer signals of a profiler, this could happen at
 * every attempt. */
static int
allocate(int fd, uint64_t len)
{
    sigset_t all, old;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = fallocate(fd, 0, 0, (off_t) len) != 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err;
}

/* Reserves all blocks of the file now, because a page that cannot be allocated later would cause
 * SIGBUS in the workload. Refuses a file above RLIMIT_FSIZE, which would cause SIGXFSZ. Leaves half
 * of a small file system to others. */
static int
reserve_blocks(int fd, uint64_t len)
{
    struct rlimit lim;
    struct statvfs fs;

    if (getrlimit(RLIMIT_FSIZE, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY && lim.rlim_cur < len)
        return EFBIG;
    if (fstatvfs(fd, &fs) == 0 && fs.f_blocks != 0 &&
        (uint64_t) fs.f_bavail * fs.f_frsize / 2 < len)
        return ENOSPC;
    return allocate(fd, len);
}

int
mrd_ring_create(mrd_ring_writer *writer, const char *dir, const mrd_ring_owner_claim *claim,
                int32_t tid, uint64_t data_len, uint32_t dict_len)
{
    int fd = create_file(dir, claim, tid, &writer->name_serial), err;
    size_t len = 0;
    void *mem;

    if (fd < 0)
        return errno;
    for (;;) {
        len = MRD_RING_HEADER_LEN + dict_len + (size_t) data_len;
        err = reserve_blocks(fd, len);
        if ((err != ENOSPC && err != EFBIG) || data_len / 2 < MRD_RING_DATA_MIN)
            break;
        data_len /= 2;
        if (dict_len > data_len / 2)
            dict_len =
                data_len / 2 > MRD_RING_DICT_MIN ? (uint32_t) data_len / 2 : MRD_RING_DICT_MIN;
    }
    mem = err != 0 ? MAP_FAILED
                   : mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (mem == MAP_FAILED) {
        err = err != 0 ? err : errno;
        unlink(path);
        close(fd);
        return err;
    }
    close(fd);
    (void) madvise(mem, len, MADV_DONTFORK);
    mrd_ring_create_mem(writer, mem, claim, tid, data_len, dict_len);
    return 0;
}

void
mrd_ring_finish(mrd_ring_writer *writer)
{
    if (!writer->ready)
        return;
    writer->ready = 0;
    writer->limit = 0;
    atomic_store_explicit(&writer->hdr->state, MRD_RING_CLOSED, memory_order_release);
    munmap(writer->hdr, writer->map_len);
    writer->hdr = NULL;
}

/* ---- adding entries to the dictionary -------------------------------------------------------- */

static bool
dict_add(mrd_ring_writer *writer, const mrd_ring_dict *entry, const mrd_ring_track *def,
         const char *text, size_t len)
{
    mrd_ring_dict dict = *entry;
    size_t fixed = sizeof(dict) + (def != NULL ? sizeof(*def) : 0), total;
    uint8_t *to = (uint8_t *) writer->hdr + MRD_RING_HEADER_LEN + writer->dict_used;

    if (len > MRD_RING_TEXT_MAX)
        len = MRD_RING_TEXT_MAX;
    total = (fixed + len + 7) & ~(size_t) 7;
    if (total > writer->dict_len - writer->dict_used)
        return false;
    dict.text_len = (uint16_t) len;
    dict.len = (uint32_t) total;
    memcpy(to, &dict, sizeof(dict));
    if (def != NULL)
        memcpy(to + sizeof(dict), def, sizeof(*def));
    memcpy(to + fixed, text, len);
    writer->dict_used += (uint32_t) total;
    /* The release order makes the entry visible before dict_head, and both before any record that
     * uses the id. */
    atomic_store_explicit(&writer->hdr->dict_head, writer->dict_used, memory_order_release);
    return true;
}

bool
mrd_ring_define_text(mrd_ring_writer *writer, uint32_t id, const char *text, size_t len)
{
    mrd_ring_dict dict = { .type = MRD_DICT_TEXT, .id = id };

    if (!dict_add(writer, &dict, NULL, text, len))
        return false;
    mrd_ring_bit_set(writer->named, id);
    return true;
}

bool
mrd_ring_define_thread(mrd_ring_writer *writer, int32_t tid, const char *name, size_t len)
{
    mrd_ring_dict dict = { .type = MRD_DICT_THREAD, .id = (uint32_t) tid, .pos = writer->head };

    return dict_add(writer, &dict, NULL, name, len);
}

bool
mrd_ring_define_track(mrd_ring_writer *writer, uint32_t id, const mrd_ring_track *def,
                      const char *name, size_t len)
{
    mrd_ring_dict dict = { .type = MRD_DICT_TRACK, .id = id };

    if (!dict_add(writer, &dict, def, name, len))
        return false;
    mrd_ring_bit_set(writer->tracked, id);
    return true;
}

/* ---- finding room for a record, and counting losses ------------------------------------------ */

void
mrd_ring_lose(mrd_ring_hdr *hdr, mrd_ring_lost cause, uint64_t ts, uint64_t count)
{
    mrd_ring_loss *loss = &hdr->lost[cause];
    uint64_t had = atomic_fetch_add_explicit(&loss->count, count, memory_order_relaxed);

    if (had == atomic_load_explicit(&loss->told, memory_order_relaxed))
        atomic_store_explicit(&loss->first, ts, memory_order_relaxed);
    atomic_store_explicit(&loss->last, ts, memory_order_relaxed);
}

/* Uses the reader's new tail if it is valid. A reader that writes an invalid tail only damages its
 * own profile. */
static void
look_at_tail(mrd_ring_writer *writer)
{
    /* The acquire order makes sure that the reader has copied the records before this thread
     * overwrites them. It pairs with mrd_ring_release. */
    uint64_t tail = atomic_load_explicit(&writer->hdr->tail, memory_order_acquire);
    uint64_t check = atomic_load_explicit(&writer->hdr->tail_check, memory_order_acquire);

    if (check == ~tail && tail >= writer->tail && tail <= writer->head && tail % MRD_RING_UNIT == 0)
        writer->tail = tail;
    writer->limit = writer->tail + writer->mask + 1;
}

uint64_t
mrd_ring_room(mrd_ring_writer *writer)
{
    look_at_tail(writer);
    return writer->limit - writer->head;
}

size_t
mrd_ring_rec_max(const mrd_ring_writer *writer)
{
    size_t quarter = (size_t) (writer->mask + 1) / 4;

    return quarter < MRD_RING_REC_MAX ? quarter : MRD_RING_REC_MAX;
}

static void
put_small(mrd_ring_writer *writer, const mrd_ring_rec *rec)
{
    memcpy(writer->data + (writer->head & writer->mask), rec, sizeof(*rec));
    mrd_ring_commit(writer, sizeof(*rec));
}

/* Writes LOSS records for the losses since the last LOSS records, if there is room. */
static void
tell_losses(mrd_ring_writer *writer)
{
    for (uint32_t i = 0; i < MRD_RING_LOST_CAUSES; i++) {
        mrd_ring_loss *loss = &writer->hdr->lost[i];
        uint64_t count = atomic_load_explicit(&loss->count, memory_order_relaxed);
        uint64_t told = atomic_load_explicit(&loss->told, memory_order_relaxed);
        mrd_ring_rec rec = { .kind = MRD_REC_LOSS, .units = 1, .name = i };

        if (count == told || writer->limit - writer->head < MRD_RING_UNIT)
            continue;
        rec.ts = atomic_load_explicit(&loss->first, memory_order_relaxed);
        rec.value = atomic_load_explicit(&loss->last, memory_order_relaxed);
        rec.extra = count - told;
        put_small(writer, &rec);
        atomic_store_explicit(&loss->told, count, memory_order_relaxed);
    }
}

static bool
unreported(const mrd_ring_writer *writer)
{
    for (uint32_t i = 0; i < MRD_RING_LOST_CAUSES; i++)
        if (atomic_load_explicit(&writer->hdr->lost[i].count, memory_order_relaxed) !=
            atomic_load_explicit(&writer->hdr->lost[i].told, memory_order_relaxed))
            return true;
    return false;
}

static void
put_clock(mrd_ring_writer *writer, uint64_t ts)
{
    mrd_ring_cal cal;
    mrd_ring_rec rec = { .kind = MRD_REC_CLOCK, .units = 1 };

    mrd_ring_cal_read(writer->clock, &cal);
    rec.name = cal.width > UINT32_MAX ? UINT32_MAX : (uint32_t) cal.width;
    rec.ts = cal.ticks;
    rec.value = (uint64_t) cal.raw_ns;
    rec.extra = (uint64_t) cal.wall_ns;
    put_small(writer, &rec);
    writer->cal_due = (ts > cal.ticks ? ts : cal.ticks) + MRD_RING_CAL_TICKS;
}

static bool
pad_to_end(mrd_ring_writer *writer, size_t len)
{
    size_t off = (size_t) (writer->head & writer->mask), rest = (size_t) (writer->mask + 1) - off;

    if (len <= rest)
        return true;
    if (rest + len > writer->limit - writer->head)
        return false;
    while (rest > 0) { /* one PAD record has at most MRD_RING_REC_MAX bytes */
        size_t part = rest < MRD_RING_REC_MAX ? rest : MRD_RING_REC_MAX;
        mrd_ring_rec *rec =
            (mrd_ring_rec *) (void *) (writer->data + (writer->head & writer->mask));

        memset(rec, 0, sizeof(*rec));
        rec->kind = MRD_REC_PAD;
        rec->units = (uint16_t) (part / MRD_RING_UNIT);
        mrd_ring_commit(writer, part);
        rest -= part;
    }
    return true;
}

/*
 * Counts the event as lost. If the event is the end of an open scope, its slot is marked first
 * (`ending`). If the process is killed before the slot is free, the mark and the counts show the
 * reader whether the scope was counted.
 */
static void
lose_event(mrd_ring_writer *writer, mrd_ring_lost cause, uint64_t ts)
{
    const mrd_ring_loss *lost = writer->hdr->lost;

    if (writer->ending != 0)
        atomic_store_explicit(
            &writer->hdr->open[writer->ending - 1].ending,
            atomic_load_explicit(&lost[MRD_RING_LOST_FULL].count, memory_order_relaxed) +
                atomic_load_explicit(&lost[MRD_RING_LOST_BIG].count, memory_order_relaxed) + 1,
            memory_order_release);
    mrd_ring_lose(writer->hdr, cause, ts, 1);
}

mrd_ring_rec *
mrd_ring_reserve_slow(mrd_ring_writer *writer, size_t len, uint64_t ts, bool quiet)
{
    if (writer->limit - writer->head < len || writer->limit == 0 || ts > writer->cal_due)
        look_at_tail(writer);
    if (len > mrd_ring_rec_max(writer)) {
        if (!quiet)
            lose_event(writer, MRD_RING_LOST_BIG, ts);
        return NULL;
    }
    /* LOSS records come first, so that they precede the records after the gap. They wait if the new
     * record would then have no room. */
    if (unreported(writer) &&
        writer->limit - writer->head >= len + MRD_RING_LOST_CAUSES * MRD_RING_UNIT)
        tell_losses(writer);
    if (ts > writer->cal_due && writer->limit - writer->head >= len + MRD_RING_UNIT)
        put_clock(writer, ts);
    if (writer->limit - writer->head >= len && pad_to_end(writer, len)) {
        if (unreported(writer))
            /* makes the next event take the slow path, too, until the losses are recorded */
            writer->limit = 0;
        return (mrd_ring_rec *) (void *) (writer->data + (writer->head & writer->mask));
    }
    if (!quiet)
        lose_event(writer, MRD_RING_LOST_FULL, ts);
    writer->limit = 0; /* the next event takes the slow path, which records the gap */
    return NULL;
}
