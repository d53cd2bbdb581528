/*
 * capture/ring/ring_read_int.h - the struct of a ring's reader, which ring_open.c (opens and closes
 * the file) and ring_read.c (decodes bytes to events) share.
 */
#ifndef MRD_CAPTURE_RING_RING_READ_INT_H
#define MRD_CAPTURE_RING_RING_READ_INT_H

#include <signal.h>

#include "capture/ring/ring_clock.h"
#include "capture/ring/ring_dict.h"
#include "capture/ring/ring_owner.h"
#include "capture/ring/ring_read.h"

#define RING_CAL_PERIOD_NS 250000000
/* If a ring had no new record for this time, its owner's memory maps are checked, because an exec
 * unmaps the ring. The time until the next check doubles each time. */
#define RING_MAPS_IDLE_NS 2000000000

struct mrd_ring_reader {
    /* must be the first member, because the inline function mrd_ring_next casts the reader to it */
    mrd_ring_window win;
    uint32_t magic;
    unsigned flags;
    int fd; /* descriptor of the ring's file; -1 if the ring is only in `mem` */
    /* The ring in memory, or the mapping of its file. The caller owns it. NULL if pread copies from
     * the file. */
    uint8_t *mem;
    size_t mem_len;
    /* *cut is set if the mapped file was truncated; the pointer is never NULL */
    const volatile sig_atomic_t *cut;
    mrd_ring_info info;
    char file_name[MRD_RING_NAME_MAX];
    uint8_t ident[MRD_RING_IDENT_MAX];
    mrd_ring_dict_copy dict;
    mrd_ring_clock clock;
    /* true if the reader itself can read TSC and RAW together, because it runs on the same
     * machine */
    bool own_tsc;
    uint64_t base_ticks;
    mrd_local_ns next_cal;

    uint8_t *chunk;
    const uint8_t *data; /* bytes of the current chunk, in `chunk` or in the mapping */
    size_t chunk_cap, chunk_len, at;
    uint64_t chunk_pos; /* data position of data[0] */
    uint64_t head, tail, stuck_head;
    /* last stored values of the header's members `done`, gaps_done, open_lost and open_lost_ns */
    uint64_t left[4];
    uint32_t state, depth;
    uint32_t thread;      /* index of the current thread entry */
    uint64_t thread_ends; /* position where the next thread begins */

    uint64_t lost[MRD_RING_LOST_CAUSES], told[MRD_RING_LOST_CAUSES];
    uint64_t first[MRD_RING_LOST_CAUSES], last[MRD_RING_LOST_CAUSES];
    /* number of losses by cause that were already returned */
    uint64_t reported[MRD_RING_LOST_CAUSES];
    /* `tail` was above 0 at the open, so an earlier reader has already read from the ring */
    bool resumed;
    uint64_t records, skipped;
    mrd_local_ns newest; /* latest time in the records */

    /* by how much the clock of the owner's time namespace is ahead of the reader's */
    mrd_dur_ns ahead_ns;
    char *proc_dir;
    mrd_ring_owner_id owner;
    mrd_local_ns next_owner, idle_since;
    mrd_dur_ns maps_idle_ns;
    enum { READ_LIVE, READ_LAST, READ_OPEN, READ_GAPS, READ_END } phase;
    uint32_t open_at, gap_at;
    mrd_ring_scope open[MRD_RING_OPEN_MAX];
    bool bad;
    mrd_why why;
};

/* Copies the bytes [off, off + len) of the ring to `to`. Errors: TRUNCATED, IO. */
mrd_err mrd_ring_get(mrd_ring_reader *reader, uint64_t off, void *to, size_t len);
/* Writes bytes to the file at offset `off`. Must not be called for a ring in memory. Errors: IO. */
mrd_err mrd_ring_put(mrd_ring_reader *reader, uint64_t off, const void *from, size_t len);

static inline uint64_t
ring_file_len(const mrd_ring_reader *reader)
{
    return MRD_RING_HEADER_LEN + reader->info.dict_len + reader->info.data_len;
}

/* Reads the entries that were added to the dictionary since the last call. Returns MORE, or BAD if
 * the dictionary is invalid. */
mrd_ring_step mrd_ring_refresh_dict(mrd_ring_reader *reader);

/* Width of the window of valid times around the ring's own clock reading, in ticks. Half of it is
 * 28 years at 2.6 GHz. */
#define RING_TICKS_SANE (1ull << 62)
static inline bool
ring_sane_ticks(const mrd_ring_reader *reader, uint64_t ticks)
{
    return ticks - reader->base_ticks + RING_TICKS_SANE / 2 < RING_TICKS_SANE;
}

/* Returns the header of a ring that is in memory or mapped. */
static inline mrd_ring_hdr *
ring_mem_hdr(const mrd_ring_reader *reader)
{
    return (mrd_ring_hdr *) (void *) reader->mem;
}

#endif
