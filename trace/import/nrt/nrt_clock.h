/*
 * trace/import/nrt/nrt_clock.h - maps times of device clocks in the runtime's system trace to host
 * time, with a bound of the error. Also finds out whether timestamp_ns of a hardware event is
 * device time.
 *
 * A sync point is one reading of a device clock and the host's clock, which the runtime takes after
 * each execution. The runtime itself moves a hardware event to host time by the sync point of its
 * execution, as if both clocks had the same rate. This module maps the device time more exactly. It
 * interpolates linearly between two sync points. Before the first and after the last sync point it
 * uses the rate of the nearest ones. A step is a sudden change of a clock's offset, for example if
 * the wall clock is set.
 *
 * Bound     The bound of a mapped time holds under four assumptions:
 *           1. Both clocks of a sync point are read within NRT_NOISE_NS, or within the scatter of
 *           nearby sync points. While a clock has fewer than 10 sync points, it is
 *           NRT_NOISE_EARLY_NS.
 *           2. The rates of both clocks differ by at most NRT_RATE.
 *           3. Between two sync points the device clock deviates from the nearby rate in one
 *           direction only, so that the second point shows how far.
 *           4. Fewer than half of the nearby sync points are next to a step.
 * Beyond    Before the first and after the last sync point the bound grows with the distance. It
 *           assumes that the rate changes by at most NRT_RATE_CHANGE, and that steps may repeat. It
 *           does not cover the first step of a clock, because only the next sync point shows it. If
 *           a core has few sync points, its rate is unknown and only limited by NRT_RATE.
 * Order     Sync points may arrive in any order, also backwards. A device clock was reset if a
 *           point has an earlier device time than a known point, a later host time, and an offset
 *           that differs by a second or more. Then the known points are discarded. From then on,
 *           the bound of an event is unknown, unless a sync point near the event is of its
 *           execution. There is an exception: if the point is of an earlier execution, and the host
 *           times differ by more than the device times, the wall clock was set back.
 * Steps     If the wall clock was set during an execution, events of this execution are mapped as
 *           if the clock had been set before it. The bound contains the step.
 * Limits    A device time has 64 bits. The bound may be false if a device clock shows the same time
 *           twice within an execution, as a clock of 32 bits does every 4.3 s. It may also be false
 *           for a first reset or step after the last sync point.
 * Cores     Two physical cores of a logical core have two clocks with unrelated origins, and a sync
 *           point may not state its physical core. Two sync points of one execution that disagree
 *           are of two clocks. A sync point is assigned to the clock with the nearest offset. If
 *           none is near, the wall clock may have been set, so the clock with the nearest device
 *           time is also possible. An event without a core is mapped by the nearest clock. If a
 *           second clock is near, too, the bound covers both.
 * Memory    The newest `max_points` sync points of each clock.
 * Threads   One thread.
 */
#ifndef MRD_TRACE_NRT_CLOCK_H
#define MRD_TRACE_NRT_CLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

#define NRT_FAR_NS (3600LL * 1000000000LL)
/* If two times since 1970 are further apart than this, they are not of the same clock. It is longer
 * than NRT_FAR_NS, because the wall clock may have been set in between. */
#define NRT_SET_NS   (24 * NRT_FAR_NS)
#define NRT_NOISE_NS 500.0
/* error of a sync point in ns that is assumed while the scatter of the sync points is unknown */
#define NRT_NOISE_EARLY_NS 10000.0
#define NRT_RATE           500e-6
/* maximum change of the rate of a device clock, per ns; the value is 200 ppb per second */
#define NRT_RATE_CHANGE 200e-18

typedef struct {
    int64_t nc_idx, pcore_idx; /* -1 means unknown */
    uint64_t exec_id;
    bool has_exec;
    mrd_nc_ns device;
    /* Host time to which the runtime moved an event; 0 if it did not move the event. In a sync
     * point, the host time of the reading. */
    mrd_wall_ns cpu;
} nrt_sync;

/* Returns a copy of `event` with another device time. Its moved time changes by the same
 * difference. */
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
/* Records a time that is certainly host time. Software events and sync points state such times. */
static inline void
nrt_clock_host(nrt_clock *clock, mrd_wall_ns host)
{
    clock->host = host;
    clock->has_host = true;
}
/* adds a sync point; errors: NOMEM */
mrd_err mrd_nrt_clock_sync(nrt_clock *clock, const nrt_sync *sync);
/* Returns true if timestamp_ns of a hardware event is a time of the device clock, not host time. */
bool mrd_nrt_clock_is_device(const nrt_clock *clock, mrd_ev_ns timestamp, mrd_nc_ns nc_timestamp);

typedef enum { NRT_MAP_NONE, NRT_MAP_BEYOND, NRT_MAP_BETWEEN } nrt_mapped;

/*
 * Maps a span of device time to host time. It begins at like->device and ends at `end`; `like` also
 * states its core, execution and moved time. Sets host time, length, and a bound for each time
 * within the span. Returns NRT_MAP_NONE and sets nothing if the core has no sync point.
 */
nrt_mapped mrd_nrt_clock_map(const nrt_clock *clock, const nrt_sync *like, mrd_nc_ns end,
                             mrd_wall_ns *ret_host, mrd_dur_ns *ret_dur, uint32_t *ret_bound);
/* Returns true if the event is later than all stored sync points, and the runtime moved it to host
 * time by a sync point that has not arrived. */
bool mrd_nrt_clock_is_ahead(const nrt_clock *clock, const nrt_sync *like);
/* Returns true if more sync points would hardly improve the mapping of the event. Its clock must
 * have at least `points` sync points, and one of them must be of the event's execution or later. If
 * sync points arrive backwards, one must also be before the event. */
bool mrd_nrt_clock_is_ready(const nrt_clock *clock, const nrt_sync *like, size_t points);
size_t mrd_nrt_clock_memory(const nrt_clock *clock); /* memory use in bytes */

#endif
