/*
 * trace/import/perfetto/perfetto_clocks.c - converts all times of a Perfetto trace to times of one
 * clock, the trace clock. A snapshot states what several clocks showed at the same moment. A time
 * is converted by the latest reading of its clock that is not after it, as Perfetto does. So the
 * error is the drift since this reading.
 */
#include "trace/import/perfetto/perfetto_int.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"

/* range of the clock ids that are valid within one sequence only */
enum { FIRST_OWN = 64, LAST_OWN = 127 };

static bool
is_own(uint32_t id)
{
    return id >= FIRST_OWN && id <= LAST_OWN;
}

/* Returns the clock with this id, and adds it if it is new. Returns NULL if there are too many
 * clocks, or if out of memory. */
static pt_clock *
clock_of(pt *import, uint32_t id, uint32_t seq, uint32_t machine)
{
    mrd_map_key key = { id, is_own(id) ? (uint64_t) seq + 1 : 0, machine };
    uint32_t i = mrd_map_get(&import->clock_map, key);

    if (i != MRD_MAP_NONE)
        return &import->clocks[i];
    if (import->n_clocks == PT_CLOCKS_MAX ||
        !MRD_VEC_ROOM(import->clocks, import->n_clocks, import->cap_clocks, 1) ||
        mrd_map_put(&import->clock_map, key, (uint32_t) import->n_clocks) != MRD_OK)
        return NULL;
    import->clocks[import->n_clocks] = (pt_clock){ .unit = 1, .own = is_own(id) };
    return &import->clocks[import->n_clocks++];
}

/* Stores what a clock and the trace clock showed at the same moment. A clock of a single sequence
 * keeps only the latest reading, because the times that need it come later in the file. */
static mrd_err
add_point(pt *import, pt_clock *clock, int64_t local, int64_t trace)
{
    if (clock->own)
        clock->n = 0;
    /* the clock was set back, so replace the previous reading */
    if (clock->n > 0 && clock->points[clock->n - 1].local >= local)
        clock->n = clock->n - 1;
    if (import->n_points == PT_POINTS_MAX)
        return MRD_OK;
    if (!MRD_VEC_ROOM(clock->points, clock->n, clock->cap, 1))
        return MRD_NOMEM;
    import->n_points += !clock->own;
    clock->points[clock->n++] = (pt_point){ local, trace };
    clock->known = true;
    return MRD_OK;
}

static int64_t
trace_time(const pt_clock *clock, int64_t local)
{
    size_t low = 0, high = clock->n;
    int64_t since, at;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (clock->points[middle].local <= local)
            low = middle;
        else
            high = middle;
    }
    if (__builtin_sub_overflow(local, clock->points[low].local, &since) ||
        __builtin_add_overflow(clock->points[low].trace, since, &at))
        return INT64_MIN;
    return at;
}

static bool
to_ns(uint64_t ticks, uint64_t unit, int64_t *ret)
{
    return !__builtin_mul_overflow(ticks, unit, ret);
}

/* The reading of one clock in a snapshot. */
typedef struct {
    uint32_t id;
    bool incremental;
    uint64_t ticks, unit;
    mrd_ev_ns at; /* the clock's time in ns: ticks * unit */
} reading;

#define READINGS_MAX 64

static size_t
take_readings(mrd_bytes snapshot, reading *to, uint32_t *ret_primary)
{
    mrd_pb_item item, pb_item;
    size_t count = 0;

    while (mrd_pb_take(&snapshot, &item)) {
        reading r = { .unit = 1 };

        if (item.tag == PF_SNAPSHOT_PRIMARY)
            *ret_primary = (uint32_t) item.v;
        if (item.tag != PF_SNAPSHOT_CLOCK || count == READINGS_MAX)
            continue;
        while (mrd_pb_take(&item.bytes, &pb_item)) {
            if (pb_item.tag == PF_CLOCK_ID)
                r.id = (uint32_t) pb_item.v;
            else if (pb_item.tag == PF_CLOCK_TIME)
                r.ticks = pb_item.v;
            else if (pb_item.tag == PF_CLOCK_INCREMENTAL)
                r.incremental = pb_item.v != 0;
            else if (pb_item.tag == PF_CLOCK_MULTIPLIER && pb_item.v > 0)
                r.unit = pb_item.v;
        }
        if (r.id != 0 && to_ns(r.ticks, r.unit, &r.at.ns))
            to[count++] = r;
    }
    return count;
}

/* Computes the snapshot's time on the trace clock. If the trace clock is missing in it, converts
 * another clock that an earlier snapshot had together with the trace clock. Returns false if there
 * is none. */
static bool
time_of(pt *import, const pt_packet *packet, const reading *v, size_t n, int64_t *ret_ns)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i].id == import->main_clock) {
            *ret_ns = v[i].at.ns;
            return true;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const pt_clock *clock = clock_of(import, v[i].id, packet->seq, packet->machine);

        if (clock != NULL && clock->n > 0) {
            *ret_ns = trace_time(clock, v[i].at.ns);
            return true;
        }
    }
    return false;
}

mrd_err
mrd_pt_snapshot(pt *import, const pt_packet *packet)
{
    reading v[READINGS_MAX];
    uint32_t primary = 0;
    size_t n = take_readings(packet->snapshot, v, &primary);
    mrd_err err = MRD_OK;
    int64_t now;

    if (import->main_clock == 0 && packet->machine == 0)
        import->main_clock = primary != 0 ? primary : PF_BOOTTIME;
    if (!time_of(import, packet, v, n, &now))
        return MRD_OK;
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        pt_clock *clock = clock_of(import, v[i].id, packet->seq, packet->machine);

        if (clock == NULL)
            return import->n_clocks == PT_CLOCKS_MAX ? MRD_OK : MRD_NOMEM;
        clock->incremental = v[i].incremental && clock->own;
        clock->unit = v[i].unit;
        clock->now = v[i].ticks;
        clock->is_doubtful = false;
        if (v[i].id != import->main_clock)
            err = add_point(import, clock, v[i].at.ns, now);
        if (v[i].id == PF_REALTIME && !import->has_wall && packet->machine == 0) {
            import->has_wall = true;
            import->wall = mrd_sat_add(v[i].at.ns, now == INT64_MIN ? INT64_MAX : -now);
        }
    }
    return err;
}

bool
mrd_pt_time(pt *import, const pt_packet *packet, const pt_seq *seq, mrd_ev_ns *ret_ts,
            uint32_t *ret_bound_ns)
{
    uint32_t id = packet->clock != 0 ? packet->clock : seq->clock;
    uint64_t ticks = packet->timestamp;
    pt_clock *clock;

    *ret_bound_ns = MRD_BOUND_LOCAL;
    /* without a snapshot, the first clock that occurs is the trace clock */
    if (import->main_clock == 0)
        import->main_clock = id != 0 ? id : PF_BOOTTIME;
    if (id == 0 || id == import->main_clock) {
        ret_ts->ns = ticks > INT64_MAX ? INT64_MAX : (int64_t) ticks;
        return true;
    }
    clock = clock_of(import, id, packet->seq, packet->machine);
    if (clock == NULL || !clock->known)
        return false;
    if (clock->incremental)
        ticks = clock->now += ticks;
    if (!to_ns(ticks, clock->unit, &ret_ts->ns))
        ret_ts->ns = INT64_MAX; /* out of range, so the caller drops the event */
    else
        ret_ts->ns = trace_time(clock, ret_ts->ns);
    import->doubtful += clock->is_doubtful;
    if (!clock->own || clock->is_doubtful)
        *ret_bound_ns = MRD_BOUND_UNKNOWN;
    return true;
}

void
mrd_pt_clocks_lost(pt *import)
{
    for (size_t i = 0; i < import->n_clocks; i++)
        import->clocks[i].is_doubtful = import->clocks[i].incremental;
}

void
mrd_pt_clocks_found(pt *import, uint64_t now)
{
    for (size_t i = 0; i < import->n_clocks; i++) {
        if (import->clocks[i].is_doubtful)
            import->clocks[i].now = now;
        import->clocks[i].is_doubtful = false;
    }
}

void
mrd_pt_clocks_fini(pt *import)
{
    for (size_t i = 0; i < import->n_clocks; i++)
        free(import->clocks[i].points);
    free(import->clocks);
}
