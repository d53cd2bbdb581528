/*
 * The clocks of a Perfetto trace. All times become times of one clock, the trace clock. A snapshot
 * states what several clocks showed at one moment. A time is converted by the latest reading of its
 * clock that is not after it, as Perfetto does, so its error is the drift since this reading.
 */
#include "trace/import/perfetto/perfetto_int.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"

enum { FIRST_OWN = 64, LAST_OWN = 127 }; /* ids of clocks that belong to one sequence */

static bool
is_own(uint32_t id)
{
    return id >= FIRST_OWN && id <= LAST_OWN;
}

/* Returns the clock, and adds it if it is new. NULL if there are too many or out of memory. */
static pt_clock *
clock_of(pt *p, uint32_t id, uint32_t seq, uint32_t machine)
{
    mrd_map_key key = { id, is_own(id) ? (uint64_t) seq + 1 : 0, machine };
    uint32_t i = mrd_map_get(&p->clock_map, key);

    if (i != MRD_MAP_NONE)
        return &p->clocks[i];
    if (p->n_clocks == PT_CLOCKS_MAX || !MRD_VEC_ROOM(p->clocks, p->n_clocks, p->cap_clocks, 1) ||
        mrd_map_put(&p->clock_map, key, (uint32_t) p->n_clocks) != MRD_OK)
        return NULL;
    p->clocks[p->n_clocks] = (pt_clock){ .unit = 1, .own = is_own(id) };
    return &p->clocks[p->n_clocks++];
}

/* Adds a reading. A clock of one sequence needs the latest only, because its times follow in the
 * file. */
static mrd_err
add_point(pt *p, pt_clock *c, int64_t local, int64_t trace)
{
    if (c->own)
        c->n = 0;
    if (c->n > 0 && c->points[c->n - 1].local >= local) /* not monotonic: keep the order */
        c->n = c->n - 1;
    if (p->n_points == PT_POINTS_MAX)
        return MRD_OK;
    if (!MRD_VEC_ROOM(c->points, c->n, c->cap, 1))
        return MRD_NOMEM;
    p->n_points += !c->own;
    c->points[c->n++] = (pt_point){ local, trace };
    c->known = true;
    return MRD_OK;
}

static int64_t
trace_time(const pt_clock *c, int64_t local)
{
    size_t low = 0, high = c->n;
    int64_t since, at;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (c->points[middle].local <= local)
            low = middle;
        else
            high = middle;
    }
    if (__builtin_sub_overflow(local, c->points[low].local, &since) ||
        __builtin_add_overflow(c->points[low].trace, since, &at))
        return INT64_MIN;
    return at;
}

static bool
to_ns(uint64_t ticks, uint64_t unit, int64_t *ret)
{
    return !__builtin_mul_overflow(ticks, unit, ret);
}

/* One clock of a snapshot. */
typedef struct {
    uint32_t id;
    bool incremental;
    uint64_t ticks, unit;
    mrd_ev_ns at; /* of this clock */
} reading;

#define READINGS_MAX 64

static size_t
take_readings(mrd_bytes snapshot, reading *to, uint32_t *ret_primary)
{
    mrd_pb_item f, c;
    size_t n = 0;

    while (mrd_pb_take(&snapshot, &f)) {
        reading r = { .unit = 1 };

        if (f.tag == PF_SNAPSHOT_PRIMARY)
            *ret_primary = (uint32_t) f.v;
        if (f.tag != PF_SNAPSHOT_CLOCK || n == READINGS_MAX)
            continue;
        while (mrd_pb_take(&f.bytes, &c)) {
            if (c.tag == PF_CLOCK_ID)
                r.id = (uint32_t) c.v;
            else if (c.tag == PF_CLOCK_TIME)
                r.ticks = c.v;
            else if (c.tag == PF_CLOCK_INCREMENTAL)
                r.incremental = c.v != 0;
            else if (c.tag == PF_CLOCK_MULTIPLIER && c.v > 0)
                r.unit = c.v;
        }
        if (r.id != 0 && to_ns(r.ticks, r.unit, &r.at.ns))
            to[n++] = r;
    }
    return n;
}

/* Returns the trace time of the snapshot: read from the trace clock, else from a clock that earlier
 * snapshots relate to it. */
static bool
time_of(pt *p, const pt_packet *packet, const reading *v, size_t n, int64_t *ret_ns)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i].id == p->main_clock) {
            *ret_ns = v[i].at.ns;
            return true;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const pt_clock *c = clock_of(p, v[i].id, packet->seq, packet->machine);

        if (c != NULL && c->n > 0) {
            *ret_ns = trace_time(c, v[i].at.ns);
            return true;
        }
    }
    return false;
}

mrd_err
mrd_pt_snapshot(pt *p, const pt_packet *packet)
{
    reading v[READINGS_MAX];
    uint32_t primary = 0;
    size_t n = take_readings(packet->snapshot, v, &primary);
    mrd_err err = MRD_OK;
    int64_t now;

    if (p->main_clock == 0 && packet->machine == 0)
        p->main_clock = primary != 0 ? primary : PF_BOOTTIME;
    if (!time_of(p, packet, v, n, &now))
        return MRD_OK;
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        pt_clock *c = clock_of(p, v[i].id, packet->seq, packet->machine);

        if (c == NULL)
            return p->n_clocks == PT_CLOCKS_MAX ? MRD_OK : MRD_NOMEM;
        c->incremental = v[i].incremental && c->own;
        c->unit = v[i].unit;
        c->now = v[i].ticks;
        c->is_doubtful = false;
        if (v[i].id != p->main_clock)
            err = add_point(p, c, v[i].at.ns, now);
        if (v[i].id == PF_REALTIME && !p->has_wall && packet->machine == 0) {
            p->has_wall = true;
            p->wall = mrd_sat_add(v[i].at.ns, now == INT64_MIN ? INT64_MAX : -now);
        }
    }
    return err;
}

bool
mrd_pt_time(pt *p, const pt_packet *packet, const pt_seq *seq, mrd_ev_ns *ret_ts,
            uint32_t *ret_bound_ns)
{
    uint32_t id = packet->clock != 0 ? packet->clock : seq->clock;
    uint64_t ticks = packet->timestamp;
    pt_clock *c;

    *ret_bound_ns = MRD_BOUND_LOCAL;
    if (p->main_clock == 0) /* without a snapshot the first clock is the trace clock */
        p->main_clock = id != 0 ? id : PF_BOOTTIME;
    if (id == 0 || id == p->main_clock) {
        ret_ts->ns = ticks > INT64_MAX ? INT64_MAX : (int64_t) ticks;
        return true;
    }
    c = clock_of(p, id, packet->seq, packet->machine);
    if (c == NULL || !c->known)
        return false;
    if (c->incremental)
        ticks = c->now += ticks;
    if (!to_ns(ticks, c->unit, &ret_ts->ns))
        ret_ts->ns = INT64_MAX; /* is dropped as a time out of range */
    else
        ret_ts->ns = trace_time(c, ret_ts->ns);
    p->doubtful += c->is_doubtful;
    if (!c->own || c->is_doubtful)
        *ret_bound_ns = MRD_BOUND_UNKNOWN;
    return true;
}

void
mrd_pt_clocks_lost(pt *p)
{
    for (size_t i = 0; i < p->n_clocks; i++)
        p->clocks[i].is_doubtful = p->clocks[i].incremental;
}

void
mrd_pt_clocks_found(pt *p, uint64_t now)
{
    for (size_t i = 0; i < p->n_clocks; i++) {
        if (p->clocks[i].is_doubtful)
            p->clocks[i].now = now;
        p->clocks[i].is_doubtful = false;
    }
}

void
mrd_pt_clocks_fini(pt *p)
{
    for (size_t i = 0; i < p->n_clocks; i++)
        free(p->clocks[i].points);
    free(p->clocks);
}
