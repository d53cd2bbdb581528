#include "trace/import/nrt_clock.h"

#include <stdlib.h>

/* Without any host time to compare with: what can be a time of the epoch (2014 to 2096). */
#define NRT_EPOCH_MIN 1400000000000000000LL
#define NRT_EPOCH_MAX 4000000000000000000LL

static bool
is_epoch(int64_t ns)
{
    return ns >= NRT_EPOCH_MIN && ns <= NRT_EPOCH_MAX;
}

mrd_err
mrd_nrt_clock_init(nrt_clock *c)
{
    *c = (nrt_clock){ 0 };
    c->ring = malloc(NRT_SYNCS * sizeof(*c->ring));
    c->prev = malloc(NRT_SYNCS * sizeof(*c->prev));
    return c->ring == NULL || c->prev == NULL ? MRD_NOMEM : MRD_OK;
}

void
mrd_nrt_clock_fini(nrt_clock *c)
{
    free(c->ring);
    free(c->prev);
    mrd_map_fini(&c->by_exec);
    *c = (nrt_clock){ 0 };
}

static mrd_map_key
clock_key(const nrt_sync *s)
{
    return (mrd_map_key){ (uint64_t) s->nc_idx, s->exec_id, s->has_exec };
}

/* The number of the last sync point under this key that is still in the ring, plus 1; 0: none. */
static uint64_t
clock_last(const nrt_clock *c, mrd_map_key key)
{
    uint32_t low = mrd_map_get(&c->by_exec, key);
    uint64_t number;

    if (low == MRD_MAP_NONE)
        return 0;
    number = (c->count & ~(uint64_t) 0x7fffffff) | low;
    if (number >= c->count)
        number -= 0x80000000u;
    return c->count - number <= NRT_SYNCS ? number + 1 : 0;
}

mrd_err
mrd_nrt_clock_sync(nrt_clock *c, const nrt_sync *sync)
{
    mrd_map_key key = clock_key(sync);
    uint64_t at = c->count % NRT_SYNCS;
    mrd_err err;

    if (c->count >= NRT_SYNCS) { /* the oldest makes room */
        mrd_map_key old = clock_key(&c->ring[at]);

        if (clock_last(c, old) == c->count - NRT_SYNCS + 1)
            mrd_map_remove(&c->by_exec, old);
    }
    c->prev[at] = clock_last(c, key);
    c->ring[at] = *sync;
    err = mrd_map_put(&c->by_exec, key, (uint32_t) (c->count & 0x7fffffff));
    c->count++;
    nrt_clock_host(c, sync->cpu);
    return err;
}

static uint64_t
clock_apart(int64_t a, int64_t b)
{
    return a > b ? (uint64_t) a - (uint64_t) b : (uint64_t) b - (uint64_t) a;
}

bool
mrd_nrt_clock_is_device(const nrt_clock *c, mrd_ev_ns timestamp, mrd_nc_ns nc_timestamp)
{
    if (timestamp.ns == nc_timestamp.ns)
        return true;
    if (!c->has_host)
        return !is_epoch(timestamp.ns);
    /* A wall clock may be set by hours; a device that shows the time of the epoch is far off. */
    return clock_apart(timestamp.ns, c->host.ns) >
           (uint64_t) (is_epoch(timestamp.ns) && is_epoch(c->host.ns) ? NRT_SET_NS : NRT_FAR_NS);
}

/* Keeps the better of two candidates: the same physical core, then the smaller difference. */
static const nrt_sync *
clock_better(const nrt_sync *like, const nrt_sync *best, const nrt_sync *s)
{
    bool same, best_same;

    if (s->nc_idx != like->nc_idx ||
        (s->pcore_idx >= 0 && like->pcore_idx >= 0 && s->pcore_idx != like->pcore_idx))
        return best;
    if (best == NULL)
        return s;
    same = s->pcore_idx == like->pcore_idx;
    best_same = best->pcore_idx == like->pcore_idx;
    if (same != best_same)
        return same ? s : best;
    return clock_apart(s->device.ns, like->device.ns) <
                   clock_apart(best->device.ns, like->device.ns)
               ? s
               : best;
}

static const nrt_sync *
clock_of_exec(const nrt_clock *c, const nrt_sync *like)
{
    const nrt_sync *best = NULL;

    for (uint64_t i = clock_last(c, clock_key(like)); i != 0 && c->count - (i - 1) <= NRT_SYNCS;
         i = c->prev[(i - 1) % NRT_SYNCS])
        best = clock_better(like, best, &c->ring[(i - 1) % NRT_SYNCS]);
    return best;
}

nrt_mapped
mrd_nrt_clock_map(const nrt_clock *c, const nrt_sync *like, bool exec_only, mrd_wall_ns *ret_host)
{
    const nrt_sync *best = like->has_exec ? clock_of_exec(c, like) : NULL;
    nrt_mapped how = NRT_MAP_EXEC;
    int64_t diff, host;

    if (best == NULL && exec_only)
        return NRT_MAP_NONE;
    if (best == NULL) {
        uint64_t n = c->count < NRT_SYNCS ? c->count : NRT_SYNCS;

        how = NRT_MAP_NEAREST;
        for (uint64_t i = 0; i < n; i++)
            best = clock_better(like, best, &c->ring[i]);
    }
    if (best == NULL || __builtin_sub_overflow(like->device.ns, best->device.ns, &diff) ||
        __builtin_add_overflow(best->cpu.ns, diff, &host))
        return NRT_MAP_NONE;
    *ret_host = (mrd_wall_ns){ host };
    return how;
}
