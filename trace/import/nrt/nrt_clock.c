#include "trace/import/nrt/nrt_clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/vec.h"
#include "trace/model/event.h"

/* Plausible wall-clock times (2014 to 2096). Until the host's time is known, a stamp in this range
 * counts as host time. */
#define NRT_EPOCH_MIN 1400000000000000000LL
#define NRT_EPOCH_MAX 4000000000000000000LL

#define DEVICES_MAX 512u
#define HALVES_MAX  4u /* maximum number of clocks that one logical core may have */
/* If the offsets (host time minus device time) of two sync points differ by more, they are from two
 * clocks, or a clock was set in between. */
#define APART_NS 1000000u
/* 10 minutes; an event further away from all sync points waits for more sync points */
#define NEAR_NS 600000000000u
/* One hour. An event that does not state its core can belong to any clock with a sync point within
 * this time. */
#define OTHER_NS 3600000000000u
/* A chord is a line between two sync points. The clock's rate is the median slope of at most CHORDS
 * chords on each side of a time, and at least CHORDS_FEW in total. */
#define CHORDS     9u
#define CHORDS_FEW 3u
/* minimum length of a chord at the ends, in ns; shorter if the sync points span too little time */
#define CHORD_NS  1e9
#define WINDOW    16u /* number of newest sync points that determine noise and steps */
#define BENDS_FEW 8u

typedef struct {
    int64_t device;
    int64_t offset; /* host time minus device time, in ns */
    uint64_t exec_id;
    bool has_exec;
} point;

struct nrt_device {
    int64_t nc_idx, pcore_idx;
    point *points; /* sync points, sorted by device time */
    size_t n, cap;
    double noise;       /* estimated error of a sync point, in ns */
    uint64_t last_exec; /* execution id of the latest sync point that has one */
    /* the device clock was reset at least once, so an event may be from before the reset */
    bool was_reset;
    /* sync points arrive backwards: the latest to arrive is the earliest in time */
    bool is_backward;
};

static bool
is_epoch(int64_t ns)
{
    return ns >= NRT_EPOCH_MIN && ns <= NRT_EPOCH_MAX;
}

void
mrd_nrt_clock_fini(nrt_clock *clock)
{
    for (size_t i = 0; i < clock->n; i++)
        free(clock->devices[i].points);
    free(clock->devices);
    *clock = (nrt_clock){ .max_points = clock->max_points };
}

size_t
mrd_nrt_clock_memory(const nrt_clock *clock)
{
    size_t sum = clock->cap * sizeof(*clock->devices);

    for (size_t i = 0; i < clock->n; i++)
        sum += clock->devices[i].cap * sizeof(point);
    return sum;
}

static uint64_t
clock_apart(int64_t a, int64_t b)
{
    return a > b ? (uint64_t) a - (uint64_t) b : (uint64_t) b - (uint64_t) a;
}

bool
mrd_nrt_clock_is_device(const nrt_clock *clock, mrd_ev_ns timestamp, mrd_nc_ns nc_timestamp)
{
    if (timestamp.ns == nc_timestamp.ns)
        return true;
    if (!clock->has_host)
        return !is_epoch(timestamp.ns);
    /* A stamp near the host's clock is host time. If both are times since 1970, "near" means hours,
     * because the wall clock may have been set. A device clock that seems to count from 1970 is
     * further off. */
    return clock_apart(timestamp.ns, clock->host.ns) >
           (uint64_t) (is_epoch(timestamp.ns) && is_epoch(clock->host.ns) ? NRT_SET_NS
                                                                          : NRT_FAR_NS);
}

/* ---- How a clock runs ---- */

/* Returns the difference between the offsets of two sync points, in ns. An offset itself needs 64
 * bits, but its difference to another one fits into a double. */
static double
offset_between(const nrt_device *device, size_t from, size_t to)
{
    int64_t diff;

    return __builtin_sub_overflow(device->points[to].offset, device->points[from].offset, &diff)
               ? INFINITY
               : (double) diff;
}

static double
time_between(const nrt_device *device, size_t from, size_t to)
{
    return (double) (device->points[to].device - device->points[from].device);
}

static double
rate_between(const nrt_device *device, size_t from, size_t to)
{
    return offset_between(device, from, to) / time_between(device, from, to);
}

/* Returns the index of the first sync point at or after the device time `device`; n if there is
 * none. */
static size_t
find_point(const nrt_device *d, int64_t device)
{
    size_t from = 0, to = d->n;

    while (from < to) {
        size_t mid = from + (to - from) / 2;

        if (d->points[mid].device < device)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

/* Estimates the error of a clock's sync points. For each of the newest points, computes its
 * distance from the line through its two neighbours. Three times the median distance exceeds the
 * largest error, if errors are uniformly distributed. A step of the clock affects only two
 * distances, so the median ignores it. With few distances, a higher rank than the median is used
 * (the sixth of eight). */
static void
learn_noise(nrt_device *device)
{
    double bends[WINDOW];
    size_t n = 0;

    for (size_t i = device->n - 1; i > 1 && n < WINDOW; i--) {
        double line = offset_between(device, i - 2, i) / time_between(device, i - 2, i);

        bends[n++] =
            fabs(offset_between(device, i - 2, i - 1) - line * time_between(device, i - 2, i - 1));
    }
    device->noise = NRT_NOISE_EARLY_NS;
    if (n < BENDS_FEW)
        return;
    qsort(bends, n, sizeof(*bends), mrd_double_order);
    device->noise = fmax(NRT_NOISE_NS, 3 * bends[n < WINDOW ? n * 5 / 8 : n / 2]);
}

/*
 * Estimates by how many ns per ns the offset changes between the sync points `before` and `behind`.
 * The result is the median slope of chords of at least `length` ns, on both sides of these points.
 * A step of the clock changes only one chord, so the median ignores it. Returns false if there are
 * too few chords.
 */
static bool
find_rate(const nrt_device *device, size_t before, size_t behind, double length, double *ret_rate)
{
    double rates[2 * CHORDS];
    size_t count = 0;

    for (size_t k = 0; k < CHORDS; k++) {
        size_t from = find_point(device, device->points[before].device - (int64_t) length + 1);

        if (from == 0)
            break;
        rates[count++] = rate_between(device, from - 1, before);
        before = from - 1;
    }
    for (size_t k = 0; k < CHORDS; k++) {
        size_t to = find_point(device, device->points[behind].device + (int64_t) length);

        if (to == device->n)
            break;
        rates[count++] = rate_between(device, behind, to);
        behind = to;
    }
    *ret_rate = 0;
    if (count < CHORDS_FEW)
        return false;
    qsort(rates, count, sizeof(*rates), mrd_double_order);
    *ret_rate = fmax(-NRT_RATE, fmin(NRT_RATE, rates[count / 2]));
    return true;
}

/* Returns by how many ns the clock may have deviated from its usual rate between the sync points i
 * - 1 and i. Sets *ret_rate to the usual rate. */
static double
misfit_before(const nrt_device *device, size_t i, double *ret_rate)
{
    double span = time_between(device, i - 1, i), change = offset_between(device, i - 1, i);
    double most = fabs(change) + NRT_RATE * span;

    if (!find_rate(device, i - 1, i, span, ret_rate))
        return most;
    return fmin(most, fabs(change - *ret_rate * span) + 3 * device->noise);
}

/* ---- Sync points ---- */

static nrt_device *
add_device(nrt_clock *clock, const nrt_sync *sync)
{
    if (clock->n == DEVICES_MAX || !MRD_VEC_ROOM(clock->devices, clock->n, clock->cap, 1))
        return NULL;
    clock->devices[clock->n] = (nrt_device){ .nc_idx = sync->nc_idx,
                                             .pcore_idx = sync->pcore_idx,
                                             .noise = NRT_NOISE_EARLY_NS };
    return &clock->devices[clock->n++];
}

static bool
may_be_of(const nrt_device *device, const nrt_sync *like)
{
    return device->n > 0 && device->nc_idx == like->nc_idx &&
           (device->pcore_idx < 0 || like->pcore_idx < 0 || device->pcore_idx == like->pcore_idx);
}

static bool
same_exec(const point *p, const nrt_sync *like)
{
    return p->has_exec && like->has_exec && p->exec_id == like->exec_id;
}

/* Returns the distance in ns between a sync point and another reading of a device clock. The
 * distance is the difference of their offsets, or the difference of their device times, whichever
 * is smaller. The latter counts as at least APART_NS. It is small if only the host's clock was
 * set. */
static uint64_t
point_apart(const point *p, int64_t device, int64_t offset)
{
    uint64_t off = clock_apart(p->offset, offset), time = clock_apart(p->device, device);

    time = time < APART_NS ? APART_NS : time;
    return off < time ? off : time;
}

/* Returns the device clock to which a sync point belongs, and adds a clock if none is close enough.
 * Returns NULL if out of memory, or if there are DEVICES_MAX clocks. */
static nrt_device *
device_of_sync(nrt_clock *clock, const nrt_sync *sync, int64_t offset)
{
    nrt_device *best = NULL;
    uint64_t best_off = UINT64_MAX;
    size_t halves = 0;

    for (size_t i = 0; i < clock->n; i++) {
        nrt_device *device = &clock->devices[i];
        uint64_t off;

        if (device->n == 0 || device->nc_idx != sync->nc_idx ||
            device->pcore_idx != sync->pcore_idx)
            continue;
        halves++;
        off = point_apart(&device->points[device->n - 1], sync->device.ns, offset);
        if (off < best_off) {
            best_off = off;
            best = device;
        }
    }
    if (best != NULL && sync->pcore_idx < 0 && halves < HALVES_MAX && best_off > APART_NS &&
        (!sync->has_exec || same_exec(&best->points[best->n - 1], sync)))
        best = NULL;
    return best != NULL ? best : add_device(clock, sync);
}

/* Returns true if point `p`, which arrived late, can lie before d->points[at]. There are three
 * ways: their offsets are similar, or the host's time of `p` is earlier, too, or the wall clock was
 * set back after `p`. Otherwise the device's clock was reset. */
static bool
fits_before(const nrt_device *d, size_t at, const point *p)
{
    const point *next = &d->points[at];
    double device = (double) next->device - (double) p->device;
    double host = (double) next->offset - (double) p->offset + device;

    return fabs(host - device) < 1e9 || host > 0 ||
           (p->has_exec && next->has_exec && p->exec_id < next->exec_id && device < -host);
}

static mrd_err
add_point(nrt_clock *clock, nrt_device *device, const point *p)
{
    size_t at = find_point(device, p->device);

    if (at < device->n && !fits_before(device, at, p)) {
        device->n = at = 0;
        device->was_reset = true;
    }
    if (at < device->n && device->points[at].device == p->device)
        return MRD_OK; /* this sync point is a duplicate */
    if (device->n >= clock->max_points) {
        size_t drop = device->n / 2;

        if (at < drop)
            return MRD_OK;
        memmove(device->points, device->points + drop,
                (device->n - drop) * sizeof(*device->points));
        device->n -= drop;
        at -= drop;
    }
    if (!MRD_VEC_ROOM(device->points, device->n, device->cap, 1))
        return MRD_NOMEM;
    memmove(device->points + at + 1, device->points + at,
            (device->n - at) * sizeof(*device->points));
    device->points[at] = *p;
    device->n++;
    device->is_backward = at == 0 && device->n > 1;
    device->last_exec = p->has_exec ? p->exec_id : device->last_exec;
    learn_noise(device);
    return MRD_OK;
}

mrd_err
mrd_nrt_clock_sync(nrt_clock *clock, const nrt_sync *sync)
{
    point p = { .device = sync->device.ns, .exec_id = sync->exec_id, .has_exec = sync->has_exec };
    nrt_device *device;

    nrt_clock_host(clock, sync->cpu);
    if (__builtin_sub_overflow(sync->cpu.ns, sync->device.ns, &p.offset))
        /* an invalid sync point: the difference of two real clocks fits into 64 bits */
        return MRD_OK;
    if ((device = device_of_sync(clock, sync, p.offset)) == NULL)
        return clock->n == DEVICES_MAX ? MRD_OK : MRD_NOMEM;
    return add_point(clock, device, &p);
}

/* ---- Mapping ---- */

typedef struct {
    mrd_wall_ns host;
    double bound;
    nrt_mapped how;
} nrt_time;

/* How a device time is mapped: its offset is points[at].offset + change, with an error of at most
 * `bound` ns. */
typedef struct {
    size_t at;
    double change, bound;
    nrt_mapped how;
} mapping;

/* Returns the largest step of the clock among the WINDOW sync points at one end of the list. `end`
 * is the first or the last index. *ret_every is the mean time between these points, and so the rate
 * at which such steps may occur. */
static double
find_step(const nrt_device *device, size_t end, double *ret_every)
{
    size_t n = device->n - 1 < WINDOW ? device->n - 1 : WINDOW, from = end == 0 ? 0 : end - n;
    double step = 0, rate;

    for (size_t i = from + 1; i <= from + n; i++)
        step = fmax(step, misfit_before(device, i, &rate) - 5 * device->noise);
    *ret_every = time_between(device, from, from + n) / (double) n;
    return step;
}

/* Maps a device time that lies before or after all sync points. `end` is the nearest sync point.
 * `time` is the distance in ns from it to the device time, negative if the device time is
 * earlier. */
static mapping
map_beyond(const nrt_device *device, size_t end, double time)
{
    double room = time_between(device, 0, device->n - 1), away = fabs(time), rate, growth, step = 0,
           every;
    double length = fmin(fmax(CHORD_NS, away), room / (2 * CHORDS_FEW));

    if (length < 1 || !find_rate(device, end, end, length, &rate)) {
        rate = 0;
        growth = NRT_RATE * away;
    } else {
        step = find_step(device, end, &every);
        growth = 2 * device->noise / length + NRT_RATE_CHANGE * (CHORDS * length + away) / 2 +
                 step / every;
        growth = fmin(growth, NRT_RATE + fabs(rate)) * away;
    }
    return (mapping){ end, rate * time, 2 * device->noise + step + growth, NRT_MAP_BEYOND };
}

/* Maps the device time of `like`, which lies between the sync points i - 1 and i. */
static mapping
map_between(const nrt_device *device, size_t i, const nrt_sync *like)
{
    double span = time_between(device, i - 1, i), change = offset_between(device, i - 1, i);
    double behind = (double) (like->device.ns - device->points[i - 1].device);
    double rate, misfit = misfit_before(device, i, &rate);
    mapping m = { i - 1, change / span * behind, device->noise + misfit, NRT_MAP_BETWEEN };

    if (fabs(change) <= NRT_RATE * span + 2 * fmin(device->noise, NRT_NOISE_EARLY_NS))
        return m;
    /* No clock has such a rate, so one was set between the two points. Events of the same execution
     * as point i - 1 are mapped as before the step, all others as after it. */
    if (same_exec(&device->points[i - 1], like))
        m.change = rate * behind;
    else
        m = (mapping){ i, -rate * (span - behind), m.bound, m.how };
    return m;
}

/* Returns by how many ns the device clock was set back between the sync points i - 1 and i. Returns
 * 0 if it was not set back. */
static double
set_back_before(const nrt_device *device, size_t i)
{
    double change = offset_between(device, i - 1, i);

    return change > NRT_RATE * time_between(device, i - 1, i) ? change : 0;
}

/*
 * Returns true if an event just before point i has the execution of point i + 1, and the clock was
 * set back between these points. The clock showed the event's time twice, and the second time is
 * the right one.
 */
static bool
was_set_back(const nrt_device *device, size_t i, const nrt_sync *like)
{
    return i + 1 < device->n && !same_exec(&device->points[i], like) &&
           same_exec(&device->points[i + 1], like) && set_back_before(device, i + 1) > 0;
}

static mapping
map_device(const nrt_device *device, size_t i, const nrt_sync *like)
{
    mapping m;

    if (i < device->n && was_set_back(device, i, like)) {
        double rate, misfit = misfit_before(device, i + 1, &rate);
        double before = (double) (device->points[i + 1].device - like->device.ns);

        return (mapping){ i + 1, -rate * before, device->noise + misfit, NRT_MAP_BETWEEN };
    }
    if (i > 0 && i < device->n) {
        m = map_between(device, i, like);
    } else {
        size_t end = i == 0 ? 0 : device->n - 1;

        m = map_beyond(device, end, (double) like->device.ns - (double) device->points[end].device);
    }
    /* An execution's events precede its sync point. If this event seems to lie after it (point i -
     * 1), the clock may have been set back before that point. */
    if (i > 1 && same_exec(&device->points[i - 1], like))
        m.bound += set_back_before(device, i - 1);
    return m;
}

/* Returns the distance in ns between an event and the nearest sync points of a clock. If the
 * runtime moved the event to host time, the offset that it used is compared, too. */
static uint64_t
distance(const nrt_device *device, const nrt_sync *like)
{
    size_t i = find_point(device, like->device.ns);
    uint64_t least = UINT64_MAX;

    for (size_t k = i > 0 ? i - 1 : 0; k <= i && k < device->n; k++) {
        const point *p = &device->points[k];
        uint64_t off = like->cpu.ns == 0
                           ? clock_apart(p->device, like->device.ns)
                           : point_apart(p, like->device.ns, like->cpu.ns - like->device.ns);

        least = off < least ? off : least;
    }
    return least;
}

/* Returns the device clock of an event. Sets *ret_other to a second clock that is close enough to
 * be the right one; NULL if there is none. */
static const nrt_device *
device_of(const nrt_clock *clock, const nrt_sync *like, const nrt_device **ret_other)
{
    const nrt_device *best = NULL;
    uint64_t best_off = UINT64_MAX;
    bool best_same = false;

    *ret_other = NULL;
    for (size_t i = 0; i < clock->n; i++) {
        const nrt_device *device = &clock->devices[i];
        bool same = device->pcore_idx == like->pcore_idx;
        uint64_t off;

        if (!may_be_of(device, like) || (best_same && !same))
            continue;
        off = distance(device, like);
        if (same == best_same && off >= best_off) {
            *ret_other = off < OTHER_NS && like->cpu.ns == 0 ? device : *ret_other;
            continue;
        }
        *ret_other = same == best_same && best_off < OTHER_NS && like->cpu.ns == 0 ? best : NULL;
        best = device;
        best_off = off;
        best_same = same;
    }
    return best;
}

static bool
host_of(const nrt_device *device, const mapping *m, const nrt_sync *like, int64_t *ret_host)
{
    return !__builtin_add_overflow(like->device.ns, device->points[m->at].offset, ret_host) &&
           fabs(m->change) < 1e18 &&
           !__builtin_add_overflow(*ret_host, llround(m->change), ret_host);
}

/* Returns true if the runtime moved the event to host time by a sync point that is not i - 1, i or
 * i + 1. */
static bool
was_moved_otherwise(const nrt_device *device, size_t i, const nrt_sync *like)
{
    if (like->cpu.ns == 0)
        return false;
    for (size_t k = i > 0 ? i - 1 : 0; k < device->n && k <= i + 1; k++) {
        if (like->cpu.ns - like->device.ns == device->points[k].offset)
            return false;
    }
    return true;
}

/* Returns true if one of the sync points i - 1, i and i + 1 belongs to the event's execution. */
static bool
has_own_point(const nrt_device *device, size_t i, const nrt_sync *like)
{
    for (size_t k = i > 0 ? i - 1 : 0; k < device->n && k <= i + 1; k++) {
        if (same_exec(&device->points[k], like))
            return true;
    }
    return false;
}

/* Maps the device time of `like` by the clock `device`. If there is a second possible clock
 * `other`, the bound covers both results. Returns false if the host time does not fit into 64
 * bits. */
static bool
map_time(const nrt_device *device, const nrt_device *other, const nrt_sync *like, nrt_time *ret)
{
    size_t i = find_point(device, like->device.ns);
    mapping m = map_device(device, i, like);
    int64_t host, second;

    if (!host_of(device, &m, like, &host))
        return false;
    if (was_moved_otherwise(device, i, like)) {
        m.bound += (double) clock_apart(like->cpu.ns, host) + fabs(m.change);
        if (i == device->n)
            /* The runtime used a later sync point, which has not arrived. A clock may have been set
             * before it, so the error is unbounded. */
            m.bound = INFINITY;
    }
    if (device->was_reset && like->has_exec && !has_own_point(device, i, like))
        m.bound = INFINITY;
    if (other != NULL) {
        mapping o = map_device(other, find_point(other, like->device.ns), like);

        if (host_of(other, &o, like, &second))
            m.bound = fmax(m.bound, o.bound) + (double) clock_apart(host, second);
    }
    *ret = (nrt_time){ { host }, m.bound, m.how };
    return true;
}

nrt_mapped
mrd_nrt_clock_map(const nrt_clock *clock, const nrt_sync *like, mrd_nc_ns end,
                  mrd_wall_ns *ret_host, mrd_dur_ns *ret_dur, uint32_t *ret_bound)
{
    const nrt_device *other, *device = device_of(clock, like, &other);
    mrd_nc_ns times[2] = { like->device, end };
    nrt_time at[2];
    double bound = 0;

    if (device == NULL)
        return NRT_MAP_NONE;
    for (int i = 0; i < 2; i++) {
        nrt_sync sync = nrt_sync_at(like, times[i]);

        if (!map_time(device, other, &sync, &at[i]))
            return NRT_MAP_NONE;
        bound = fmax(bound, at[i].bound);
    }
    *ret_host = at[0].host;
    *ret_dur = at[1].host.ns > at[0].host.ns ? at[1].host.ns - at[0].host.ns : 0;
    *ret_bound = bound < (double) MRD_BOUND_UNKNOWN ? (uint32_t) ceil(bound) : MRD_BOUND_UNKNOWN;
    return at[0].how > at[1].how ? at[1].how : at[0].how;
}

bool
mrd_nrt_clock_is_ahead(const nrt_clock *clock, const nrt_sync *like)
{
    const nrt_device *other, *device = device_of(clock, like, &other);

    return device != NULL && find_point(device, like->device.ns) == device->n &&
           was_moved_otherwise(device, device->n, like);
}

bool
mrd_nrt_clock_is_ready(const nrt_clock *clock, const nrt_sync *like, size_t points)
{
    const nrt_device *other, *device = device_of(clock, like, &other);
    size_t i = device == NULL ? 0 : find_point(device, like->device.ns);

    if (device == NULL || i == device->n || device->n < points || distance(device, like) >= NEAR_NS)
        return false;
    /* sync points arrive backwards, so earlier ones will still come */
    if (i == 0 && device->is_backward)
        return false;
    /* The sync point of the event's execution is still missing. It may show that the clock was
     * reset. */
    if (like->has_exec && like->exec_id > device->last_exec && !has_own_point(device, i, like))
        return false;
    return i + 1 < device->n || same_exec(&device->points[i], like) ||
           (!like->has_exec && device->n > 1);
}
