/*
 * trace/import/nrt_clock.h - device clocks of the runtime's system trace: what timestamp_ns of a
 * hardware event means, and the host time of a device time with its bound.
 *
 * A sync point is one reading of both clocks, which the runtime takes after each execution. The
 * runtime itself moves a hardware event by the sync point of its execution, as if both clocks ran
 * equally fast. Times are mapped anew here: between two sync points along the straight line, beyond
 * them at the rate of the nearest ones.
 *
 * Bound     It holds under four assumptions. The two readings of a sync point are taken within
 *           NRT_NOISE_NS, or within what the sync points around it scatter. The rates of both clocks differ
 *           by at most NRT_RATE. Between two sync points, the device clock leaves the rate of its
 *           neighbourhood in one direction only, so that the second one shows how far. Of the sync points
 *           around, fewer than half are beside a step.
 *           Beyond the sync points the bound grows: the rate changes by at most NRT_RATE_CHANGE, and
 *           steps that were seen may come again. The first step of a clock is not covered there: it shows
 *           with the next sync point. A core with few sync points has shown no rate, so NRT_RATE alone
 *           bounds it.
 * Cores     Two physical cores of one logical core have two clocks of unrelated origins, and a sync
 *           point need not say which one it has read. Two sync points of one execution that disagree
 *           are of two clocks. An event of an unstated core is of the clock that is nearest; where
 *           another clock is near too, the bound covers both.
 *
 * Memory: up to `max_points` sync points for each clock, the newest. Threads: one.
 */
#ifndef MRD_TRACE_NRT_CLOCK_H
#define MRD_TRACE_NRT_CLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

#define NRT_FAR_NS         (3600LL * 1000000000LL)
#define NRT_SET_NS         (24 * NRT_FAR_NS) /* between two times of the epoch: the wall clock was set */
#define NRT_NOISE_NS       500.0
#define NRT_NOISE_EARLY_NS 10000.0 /* before sync points have shown their scatter */
#define NRT_RATE           500e-6
#define NRT_RATE_CHANGE    200e-18 /* per ns: 200 ppb per second */

typedef struct {
    int64_t nc_idx, pcore_idx; /* -1 unknown */
    uint64_t exec_id;
    bool has_exec;
    mrd_nc_ns device;
    mrd_wall_ns cpu; /* of an event: as the runtime moved it, 0 where it did not */
} nrt_sync;

/* The same event at another device time. */
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
    mrd_wall_ns host; /* last host time seen */
    bool has_host;
} nrt_clock;

void mrd_nrt_clock_fini(nrt_clock *c); /* a zeroed one with max_points set is ready */
/* A time that is surely of the host: of software events and of sync points. */
static inline void
nrt_clock_host(nrt_clock *c, mrd_wall_ns host)
{
    c->host = host;
    c->has_host = true;
}
mrd_err mrd_nrt_clock_sync(nrt_clock *c, const nrt_sync *sync); /* NOMEM */
/* True when timestamp_ns of a hardware event is the device's clock. */
bool mrd_nrt_clock_is_device(const nrt_clock *c, mrd_ev_ns timestamp, mrd_nc_ns nc_timestamp);

typedef enum { NRT_MAP_NONE, NRT_MAP_BEYOND, NRT_MAP_BETWEEN } nrt_mapped;

/*
 * Maps a span of device time from that of `like`, which also states core, execution and moved time, to `end`:
 * host time and length, and a bound that holds for each time of the span. NRT_MAP_NONE, with the outputs
 * untouched, if the core has no sync point.
 */
nrt_mapped mrd_nrt_clock_map(const nrt_clock *c, const nrt_sync *like, mrd_nc_ns end,
                             mrd_wall_ns *ret_host, mrd_dur_ns *ret_dur, uint32_t *ret_bound);
/* Returns true if the runtime moved the event by a sync point that is later than all that were seen. */
bool mrd_nrt_clock_is_ahead(const nrt_clock *c, const nrt_sync *like);
/* Returns true if the clock of `like` has this many sync points, that of its execution or a later one among
 * them, so that another one hardly makes its time better. */
bool mrd_nrt_clock_is_ready(const nrt_clock *c, const nrt_sync *like, size_t points);
size_t mrd_nrt_clock_memory(const nrt_clock *c); /* bytes */

#endif
