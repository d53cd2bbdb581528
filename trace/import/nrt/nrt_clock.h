/*
 * trace/import/nrt/nrt_clock.h - device clocks of the runtime's system trace. Finds out whether
 * timestamp_ns of a hardware event is device time, and maps a device time to host time with a
 * bound.
 *
 * A sync point is one reading of both clocks, which the runtime takes after each execution. The
 * runtime itself moves a hardware event by the sync point of its execution, as if both clocks had
 * the same rate. This module maps times again. Between two sync points it interpolates linearly,
 * beyond them it uses the rate of the nearest ones.
 *
 * Bound     the bound of a mapped time holds under four assumptions. The two readings of a sync
 *           point are taken within NRT_NOISE_NS, or within the scatter of nearby sync points. While
 *           a clock has fewer than 10 sync points, they are taken within NRT_NOISE_EARLY_NS. The
 *           rates of both clocks differ by at most NRT_RATE. Between two sync points the device
 *           clock deviates from the nearby rate in one direction only, so that the second point
 *           shows how far. Fewer than half of the nearby sync points are next to a step.
 * Beyond    outside of the sync points the bound grows: the rate changes by at most
 *           NRT_RATE_CHANGE, and steps that were seen may repeat. The first step of a clock is not
 *           covered there, because only the next sync point shows it. For a core with few sync
 *           points the rate is unknown, so that only NRT_RATE bounds it.
 * Order     sync points may arrive in any order, also backwards. A point shows that the clock was
 *           reset if its device time is earlier, its host time is later, and its offset differs by
 *           a second or more. The points before it are forgotten. From then on, the bound of an
 *           event is unknown unless a sync point next to the event is of its execution. If the
 *           point is of an earlier execution and the host's time differs by more than the device's,
 *           this is no reset: the wall clock was set back.
 * Steps     if the wall clock was set within an execution, the time of an event is as if it had
 *           been set before the execution. The bound contains the step.
 * Limits    a device time has 64 bits. If a clock returns to a time that it showed before within an
 *           execution, as one of 32 bits does every 4.3 s, the bound may be false. The same holds
 *           for a first reset or step after the last sync point.
 * Cores     two physical cores of a logical core have two clocks with unrelated origins, and a sync
 *           point may not state its core. Two sync points of one execution that disagree are of two
 *           clocks. A sync point is of the clock with the nearest offset. If none is near, the wall
 *           clock may have been set, and it can also be of the clock with the nearest device time.
 *           An event without a core is mapped by the nearest clock. If another clock is
 *           close too, the bound covers both.
 * Memory    the newest `max_points` sync points of each clock.
 * Threads   one.
 */
#ifndef MRD_TRACE_NRT_CLOCK_H
#define MRD_TRACE_NRT_CLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

#define NRT_FAR_NS (3600LL * 1000000000LL)
/* two host times further apart: the wall clock was set */
#define NRT_SET_NS         (24 * NRT_FAR_NS)
#define NRT_NOISE_NS       500.0
#define NRT_NOISE_EARLY_NS 10000.0 /* assumed error while the scatter of sync points is unknown */
#define NRT_RATE           500e-6
#define NRT_RATE_CHANGE    200e-18 /* change of the rate per ns; 200e-18 is 200 ppb per second */

typedef struct {
    int64_t nc_idx, pcore_idx; /* -1 means unknown */
    uint64_t exec_id;
    bool has_exec;
    mrd_nc_ns device;
    /* time of an event as moved by the runtime, or 0 if the runtime did not move it */
    mrd_wall_ns cpu;
} nrt_sync;

/* Returns a copy of the event at another device time. */
static inline nrt_sync
nrt_sync_at(const nrt_sync *event, mrd_nc_ns device)
{
    nrt_sync moved = *event;
    mrd_dur_ns later;

    moved.device = device;
    if (event->cpu.ns != 0 && (__builtin_sub_overflow(device.ns, event->device.ns, &later) ||
                               __builtin_add_overflow(event->cpu.ns, later, &moved.cpu.ns)))
        moved.cpu = event->cpu;
    return moved;
}

typedef struct nrt_device nrt_device;

typedef struct {
    nrt_device *devices;
    size_t n, cap;
    size_t max_points;
    mrd_wall_ns host; /* latest known host time */
    bool has_host;
} nrt_clock;

void mrd_nrt_clock_fini(nrt_clock *clock); /* to initialise, zero the struct and set max_points */
/* Records a time that is certainly host time, from software events and sync points. */
static inline void
nrt_clock_host(nrt_clock *clock, mrd_wall_ns host)
{
    clock->host = host;
    clock->has_host = true;
}
/* adds a sync point; errors: NOMEM */
mrd_err mrd_nrt_clock_sync(nrt_clock *clock, const nrt_sync *sync);
/* Returns true if timestamp_ns of a hardware event is the device's clock. */
bool mrd_nrt_clock_is_device(const nrt_clock *clock, mrd_ev_ns timestamp, mrd_nc_ns nc_timestamp);

typedef enum { NRT_MAP_NONE, NRT_MAP_BEYOND, NRT_MAP_BETWEEN } nrt_mapped;

/*
 * Maps a span of device time, from the device time of `like` to `end`. `like` also states core,
 * execution and moved time. Returns host time and length, and a bound that holds for each time
 * within the span. NRT_MAP_NONE, with the outputs unchanged, if the core has no sync point.
 */
nrt_mapped mrd_nrt_clock_map(const nrt_clock *clock, const nrt_sync *like, mrd_nc_ns end,
                             mrd_wall_ns *ret_host, mrd_dur_ns *ret_dur, uint32_t *ret_bound);
/* Returns true if the runtime moved the event by a sync point that is later than all known sync
 * points. */
bool mrd_nrt_clock_is_ahead(const nrt_clock *clock, const nrt_sync *like);
/* Returns true if the clock of `like` has `points` sync points, including one of its execution or
 * later, and earlier ones unless none follow. Further sync points then hardly improve the event's
 * time. */
bool mrd_nrt_clock_is_ready(const nrt_clock *clock, const nrt_sync *like, size_t points);
size_t mrd_nrt_clock_memory(const nrt_clock *clock); /* memory use in bytes */

#endif
