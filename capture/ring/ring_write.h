/*
 * capture/ring/ring_write.h - creates the ring of a workload thread and writes records to it.
 * Internal to libmeridian.
 *
 * A writer belongs to one thread. Its private state is in pages that read as zero in a forked child
 * (MADV_WIPEONFORK). The ring's mapping is absent in the child, so the child can never write into
 * its parent's ring. `ready` reads as 0 in the child, so the child makes its own ring.
 *
 * Signals  mrd_ring_enter returns false in a signal handler that interrupted a record of the same
 *          thread. The caller then counts the event as lost (NESTED). Between enter and leave there
 *          is no system call, except in the slow path.
 * Cost     To reserve and commit a 32-byte record costs two compares, four stores and one release
 *          store.
 */
#ifndef MRD_CAPTURE_RING_RING_WRITE_H
#define MRD_CAPTURE_RING_RING_WRITE_H

#include "base/clock.h"
#include "capture/ring/ring.h"
#include "capture/ring/ring_clock.h"

#include <stdbool.h>
#include <string.h>

#define MRD_RING_TRACKS_MAX 4096u /* ids of tracks in a process are below this */
/* ticks between two CLOCK records (readings of both clocks): about 0.4 s at 2.6 GHz */
#define MRD_RING_CAL_TICKS (1ull << 30)

typedef struct mrd_ring_writer {
    uint32_t ready; /* 0 if the thread has no ring, also after a fork in the child */
    volatile uint32_t busy;
    uint64_t head; /* number of data bytes committed, the same value as hdr->head */
    /* `head` may advance to this position without a check of the tail. 0 makes the next record take
     * the slow path. */
    uint64_t limit;
    uint64_t cal_due; /* time of the next CLOCK record */
    uint8_t *data;
    uint64_t mask; /* data_len - 1 */
    mrd_ring_hdr *hdr;
    uint64_t tail; /* the last valid tail that was read */
    uint32_t depth;
    uint32_t ending; /* index plus 1 of the slot of the scope that is being ended; 0 if none is */
    /* The process that made the ring. Scopes that began before a fork belong to the parent. */
    uint32_t pid;
    mrd_ring_clock_id clock;
    uint32_t dict_used, dict_len;
    uint32_t blob_seq;
    /* Number of the ring, from 1. A child of fork continues the count of its parent. */
    uint32_t serial;
    uint32_t name_serial; /* the number n in the ring's file name */
    uint64_t id_seq;      /* number of span ids that were assigned */
    uint64_t ids_from;    /* spans with lower ids began before a fork */
    size_t map_len;
    struct mrd_ring_writer *next_all, *next_free;
    /* one bit for each dictionary id that this ring already defines */
    uint64_t named[MRD_RING_NAMES_MAX / 64];
    /* one bit for each track that this ring already defines */
    uint64_t tracked[MRD_RING_TRACKS_MAX / 64];
} mrd_ring_writer;

/* The owner of a ring as the caller states it. It is written to the ring's header. */
typedef struct {
    uint8_t boot_id[16];
    uint64_t start_ticks, pid_ns, mnt_ns;
    mrd_dur_ns timens_monotonic_ns, timens_boottime_ns;
    int32_t pid;
    uint32_t uid;
    mrd_ring_clock_id clock;
    mrd_ring_cal load_cal;
    const char *ident;
    uint32_t ident_len;
    bool rest; /* readers must read this ring after all other rings of the process */
} mrd_ring_owner_claim;

/*
 * Creates the ring's file in `dir` and maps it into *writer, which must be zeroed. If the file
 * system or the limit of file sizes has no room, it tries half of data_len, down to
 * MRD_RING_DATA_MIN. Returns 0 or an errno value. Only one thread may call it at a time.
 */
int mrd_ring_create(mrd_ring_writer *writer, const char *dir, const mrd_ring_owner_claim *claim,
                    int32_t tid, uint64_t data_len, uint32_t dict_len);
/* Makes a ring in the caller's memory, for tests. `mem` must be zeroed and have room for the
 * header, dict_len and data_len bytes. */
void mrd_ring_create_mem(mrd_ring_writer *writer, void *mem, const mrd_ring_owner_claim *claim,
                         int32_t tid, uint64_t data_len, uint32_t dict_len);
/* Marks the ring as closed and unmaps it. */
void mrd_ring_finish(mrd_ring_writer *writer);

/* These functions add an entry to the dictionary. Call them between mrd_ring_enter and
 * mrd_ring_leave. They return false if the dictionary has no room. */
bool mrd_ring_define_text(mrd_ring_writer *writer, uint32_t id, const char *text, size_t len);
bool mrd_ring_define_thread(mrd_ring_writer *writer, int32_t tid, const char *name, size_t len);
bool mrd_ring_define_track(mrd_ring_writer *writer, uint32_t id, const mrd_ring_track *def,
                           const char *name, size_t len);

/* Counts `count` lost events. May be called at any time, also while the writer is busy. */
void mrd_ring_lose(mrd_ring_hdr *hdr, mrd_ring_lost cause, uint64_t ts, uint64_t count);
/* Reads the tail again and returns the free bytes. */
uint64_t mrd_ring_room(mrd_ring_writer *writer);
/* Returns space for a record of len bytes (a multiple of 32) with the time ts. If there is no
 * space, returns NULL and counts the event as lost, unless `quiet` is set. */
mrd_ring_rec *mrd_ring_reserve_slow(mrd_ring_writer *writer, size_t len, uint64_t ts, bool quiet);
/* Returns the length of the longest record that this ring accepts. */
size_t mrd_ring_rec_max(const mrd_ring_writer *writer);

static inline void
mrd_ring_fence(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* Marks the writer as busy. Call it before you write a record. Returns false if the writer is
 * already busy, which happens in a signal handler. */
static inline bool
mrd_ring_enter(mrd_ring_writer *writer)
{
    if (__builtin_expect(writer->busy, 0))
        return false;
    writer->busy = 1;
    mrd_ring_fence();
    return true;
}

static inline void
mrd_ring_leave(mrd_ring_writer *writer)
{
    mrd_ring_fence();
    writer->busy = 0;
}

static inline mrd_ring_rec *
mrd_ring_reserve(mrd_ring_writer *writer, uint64_t ts)
{
    if (__builtin_expect(writer->head + MRD_RING_UNIT > writer->limit || ts > writer->cal_due, 0))
        return mrd_ring_reserve_slow(writer, MRD_RING_UNIT, ts, false);
    return (mrd_ring_rec *) (void *) (writer->data + (writer->head & writer->mask));
}

/* Reserves space for a record of any length that is a multiple of 32. */
static inline mrd_ring_rec *
mrd_ring_reserve_len(mrd_ring_writer *writer, size_t len, uint64_t ts)
{
    uint64_t at = writer->head & writer->mask;

    if (writer->head + len > writer->limit || ts > writer->cal_due || at + len > writer->mask + 1 ||
        len > (writer->mask + 1) / 4 || len > MRD_RING_REC_MAX)
        return mrd_ring_reserve_slow(writer, len, ts, false);
    return (mrd_ring_rec *) (void *) (writer->data + at);
}

/* Reserves space for a record of at most 512 bytes, which every ring accepts. */
static inline mrd_ring_rec *
mrd_ring_reserve_short(mrd_ring_writer *writer, size_t len, uint64_t ts)
{
    uint64_t at = writer->head & writer->mask;

    if (__builtin_expect(writer->head + len > writer->limit || ts > writer->cal_due ||
                             at + len > writer->mask + 1,
                         0))
        return mrd_ring_reserve_slow(writer, len, ts, false);
    return (mrd_ring_rec *) (void *) (writer->data + at);
}

/* Commits a reserved record, so that the reader can see it. The release order makes the record's
 * bytes visible before `head`. It pairs with get_live in ring_read.c. */
static inline void
mrd_ring_commit(mrd_ring_writer *writer, size_t len)
{
    writer->head += len;
    atomic_store_explicit(&writer->hdr->head, writer->head, memory_order_release);
}

static inline uint64_t
mrd_ring_ticks(mrd_ring_clock_id clock)
{
    if (MRD_HAVE_TSC && __builtin_expect(clock == MRD_RING_CLOCK_TSC, 1))
        return mrd_tsc();
    return mrd_ring_raw_ticks();
}

static inline bool
mrd_ring_bit(const uint64_t *set, uint32_t id)
{
    return (set[id / 64] >> (id % 64) & 1) != 0;
}

static inline void
mrd_ring_bit_set(uint64_t *set, uint32_t id)
{
    set[id / 64] |= 1ull << (id % 64);
}

#endif
