/*
 * trace/import/nrt_clock.h - host or device time: sync points of the runtime's system trace, and what
 * timestamp_ns of a hardware event means.
 *
 * A sync point is one reading of both clocks, taken after each execution; it maps a device time by
 * host = sync.cpu + (device - sync.device). Newer runtimes do that themselves, so a hardware event
 * counts as host time unless its timestamp_ns equals its nc_timestamp_ns or is far from the host
 * times seen. Which of two physical cores of a logical one a sync point belongs to is told by its
 * device_core_idx where it has one, else by the smaller difference of device times (the origins of
 * the cores differ). Memory: NRT_SYNCS sync points. Threads: one.
 */
#ifndef MRD_TRACE_NRT_CLOCK_H
#define MRD_TRACE_NRT_CLOCK_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/map.h"

#define NRT_SYNCS  4096u
#define NRT_FAR_NS (3600LL * 1000000000LL)
#define NRT_SET_NS (24 * NRT_FAR_NS) /* between two times of the epoch: the wall clock was set */

typedef struct {
    int64_t nc_idx, pcore_idx; /* -1 unknown */
    uint64_t exec_id;
    bool has_exec;
    mrd_nc_ns device;
    mrd_wall_ns cpu;
} nrt_sync;

typedef struct {
    nrt_sync *ring;   /* NRT_SYNCS */
    uint64_t count;   /* ever added */
    uint64_t *prev;   /* of the same core and execution, as count + 1; 0 none */
    mrd_map by_exec;  /* (nc_idx, exec_id) -> low 32 bits of count of the last */
    mrd_wall_ns host; /* last host time seen */
    bool has_host;
} nrt_clock;

mrd_err mrd_nrt_clock_init(nrt_clock *c); /* NOMEM */
void mrd_nrt_clock_fini(nrt_clock *c);
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

typedef enum { NRT_MAP_NONE, NRT_MAP_NEAREST, NRT_MAP_EXEC } nrt_mapped;

/* Host time of a device time: by a sync point of its execution, else by the nearest of its core;
 * NRT_MAP_NONE (and *ret_host untouched) when the core has none. `like` gives core, execution
 * and device. */
nrt_mapped mrd_nrt_clock_map(const nrt_clock *c, const nrt_sync *like, bool exec_only,
                             mrd_wall_ns *ret_host);

#endif
