/*
 * capture/ring/ring_clock.h - converts ticks of a ring to CLOCK_MONOTONIC_RAW nanoseconds, in
 * integer arithmetic and with a bound of the error. It also reads the clocks for writer and reader.
 *
 * The kernel derives RAW from the TSC by a constant factor. The map from ticks to RAW is therefore
 * a straight line with two unknown parameters. The longer the time between two readings of both
 * clocks (mrd_ring_cal), the more exact the rate. The map is a chain of line segments. A reading
 * that the current segment predicts within the reading's width changes nothing. A reading that
 * contradicts the current segment starts a new segment at the newest converted tick. This keeps the
 * map continuous and monotone, and earlier results stay the same.
 *
 * Threads  a mrd_ring_clock belongs to one thread; mrd_ring_cal_read is async-signal-safe.
 */
#ifndef MRD_CAPTURE_RING_RING_CLOCK_H
#define MRD_CAPTURE_RING_RING_CLOCK_H

#include "base/clock.h"
#include "capture/ring/ring.h"

#include <stdbool.h>
#include <time.h>

#if defined(__x86_64__)
#define MRD_HAVE_TSC 1
static inline uint64_t
mrd_tsc(void)
{
    return __builtin_ia32_rdtsc();
}
#else
#define MRD_HAVE_TSC 0
static inline uint64_t
mrd_tsc(void)
{
    return 0;
}
#endif

static inline int64_t
mrd_ring_clock_gettime(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (int64_t) ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Returns CLOCK_MONOTONIC_RAW in nanoseconds. It is not inline, because most callers use the
 * TSC. */
uint64_t mrd_ring_raw_ticks(void);

/* Reads the clocks together several times and stores the reading with the smallest width. If
 * `clock` is MRD_RING_CLOCK_RAW, width is 0 and ticks == raw_ns. */
void mrd_ring_cal_read(mrd_ring_clock_id clock, mrd_ring_cal *ret_cal);

#define MRD_RING_CLOCK_SEGMENTS 64

typedef struct {
    uint64_t ticks; /* first tick of the segment */
    mrd_local_ns raw;
    uint64_t mult; /* nanoseconds per tick, multiplied by 2^MRD_RING_CLOCK_SHIFT */
} mrd_ring_segment;

#define MRD_RING_CLOCK_SHIFT 40

typedef struct {
    mrd_ring_clock_id id;
    uint32_t segment_count, steps;
    uint64_t newest;          /* largest tick converted */
    mrd_ring_cal first, last; /* the readings between which the rate was measured */
    mrd_dur_ns error_ns;      /* largest possible error at `last` */
    mrd_ring_segment now;     /* the newest segment, which converts nearly all ticks */
    mrd_ring_segment old[MRD_RING_CLOCK_SEGMENTS];
} mrd_ring_clock;

/*
 * Initialises `clock` with the two readings of a ring's header and, if `own` is not NULL, with a
 * new reading that the reader made. Returns false if the readings contradict each other: they do
 * not increase, or their rate is outside 100 MHz to 20 GHz.
 */
bool mrd_ring_clock_init(mrd_ring_clock *clock, mrd_ring_clock_id id, const mrd_ring_cal cal[2],
                         const mrd_ring_cal *own);
/* Adds a later reading. Ignores the reading if it is not later than the last one, or if it gives an
 * impossible rate. */
void mrd_ring_clock_add(mrd_ring_clock *clock, const mrd_ring_cal *cal);
/* Returns the largest possible error of mrd_ring_clock_ns at `ticks`, in ns. */
int64_t mrd_ring_clock_error(const mrd_ring_clock *clock, uint64_t ticks);
int64_t mrd_ring_clock_old_ns(const mrd_ring_clock *clock, uint64_t ticks);

static inline int64_t
mrd_ring_segment_ns(const mrd_ring_segment *seg, uint64_t ticks)
{
    __int128 d = (__int128) (int64_t) (ticks - seg->ticks) * (__int128) seg->mult;

    return (int64_t) ((uint64_t) seg->raw.ns + (uint64_t) (d >> MRD_RING_CLOCK_SHIFT));
}

static inline int64_t
mrd_ring_clock_ns(mrd_ring_clock *clock, uint64_t ticks)
{
    if (clock->id == MRD_RING_CLOCK_RAW)
        return (int64_t) ticks;
    if (ticks > clock->newest)
        clock->newest = ticks;
    if (ticks >= clock->now.ticks)
        return mrd_ring_segment_ns(&clock->now, ticks);
    return mrd_ring_clock_old_ns(clock, ticks);
}

#endif
