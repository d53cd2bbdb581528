#include "trace/import/nrt/nrt_clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/vec.h"
#include "trace/model/event.h"

/* Before any host time was read, stamps between these are times since 1970 (2014 to 2096). */
#define NRT_EPOCH_MIN 1400000000000000000LL
#define NRT_EPOCH_MAX 4000000000000000000LL

#define DEVICES_MAX 512u
#define HALVES_MAX  4u /* clocks of a logical core */
/* offsets that differ more are of two clocks, or of one with a step */
#define APART_NS 1000000u
#define NEAR_NS  600000000000u /* an event this near to a sync point may be of its clock */
/* ... even if another clock is nearer */
#define OTHER_NS   3600000000000u
#define CHORDS     9u /* on each side; their median is a rate */
#define CHORDS_FEW 3u
#define CHORD_NS   1e9 /* length beyond the sync points, if there are enough */
#define WINDOW     16u /* newest sync points; they give scatter and steps */
#define BENDS_FEW  8u

typedef struct {
    int64_t device;
    int64_t offset; /* host minus device */
    uint64_t exec_id;
    bool has_exec;
} point;

struct nrt_device {
    int64_t nc_idx, pcore_idx;
    point *points; /* ascending in device time */
    size_t n, cap;
    double noise;       /* of a sync point, in ns */
    uint64_t last_exec; /* of its latest sync point with an execution */
    bool was_reset;     /* an event may be from before that */
    bool is_backward;   /* its latest sync point is earlier than all others */
};

static bool
is_epoch(int64_t ns)
{
    return ns >= NRT_EPOCH_MIN && ns <= NRT_EPOCH_MAX;
}

void
mrd_nrt_clock_fini(nrt_clock *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->devices[i].points);
    free(c->devices);
    *c = (nrt_clock){ .max_points = c->max_points };
}

size_t
mrd_nrt_clock_memory(const nrt_clock *c)
{
    size_t sum = c->cap * sizeof(*c->devices);

    for (size_t i = 0; i < c->n; i++)
        sum += c->devices[i].cap * sizeof(point);
    return sum;
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
    /* A wall clock may be set by hours. A device clock that seems to count from 1970 is further
     * off. */
    return clock_apart(timestamp.ns, c->host.ns) >
           (uint64_t) (is_epoch(timestamp.ns) && is_epoch(c->host.ns) ? NRT_SET_NS : NRT_FAR_NS);
}

/* ---- Course of a clock ---- */

/* An offset needs all 64 bits. A difference of two fits into a double. */
static double
offset_between(const nrt_device *d, size_t from, size_t to)
{
    int64_t diff;

    return __builtin_sub_overflow(d->points[to].offset, d->points[from].offset, &diff)
               ? INFINITY
               : (double) diff;
}

static double
time_between(const nrt_device *d, size_t from, size_t to)
{
    return (double) (d->points[to].device - d->points[from].device);
}

static double
rate_between(const nrt_device *d, size_t from, size_t to)
{
    return offset_between(d, from, to) / time_between(d, from, to);
}

/* Returns the first point at or after a device time, n if there is none. */
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

/* Computes the error of the newest points from the distance of each to the line between its
 * neighbours. A step bends two of these lines, and the median ignores it. Three times the median
 * exceeds the largest of uniform errors. The median of few points is unsteady, so the sixth of
 * eight is used then, which one step does not reach. */
static void
learn_noise(nrt_device *d)
{
    double bends[WINDOW];
    size_t n = 0;

    for (size_t i = d->n - 1; i > 1 && n < WINDOW; i--) {
        double line = offset_between(d, i - 2, i) / time_between(d, i - 2, i);

        bends[n++] = fabs(offset_between(d, i - 2, i - 1) - line * time_between(d, i - 2, i - 1));
    }
    d->noise = NRT_NOISE_EARLY_NS;
    if (n < BENDS_FEW)
        return;
    qsort(bends, n, sizeof(*bends), mrd_double_order);
    d->noise = fmax(NRT_NOISE_NS, 3 * bends[n < WINDOW ? n * 5 / 8 : n / 2]);
}

/*
 * Computes the rate of the offset around two points, from chords of this length before the first
 * point and after the second one. The median ignores a step in one chord. Returns false if there
 * are too few chords.
 */
static bool
find_rate(const nrt_device *d, size_t before, size_t behind, double length, double *ret_rate)
{
    double rates[2 * CHORDS];
    size_t n = 0;

    for (size_t k = 0; k < CHORDS; k++) {
        size_t from = find_point(d, d->points[before].device - (int64_t) length + 1);

        if (from == 0)
            break;
        rates[n++] = rate_between(d, from - 1, before);
        before = from - 1;
    }
    for (size_t k = 0; k < CHORDS; k++) {
        size_t to = find_point(d, d->points[behind].device + (int64_t) length);

        if (to == d->n)
            break;
        rates[n++] = rate_between(d, behind, to);
        behind = to;
    }
    *ret_rate = 0;
    if (n < CHORDS_FEW)
        return false;
    qsort(rates, n, sizeof(*rates), mrd_double_order);
    *ret_rate = fmax(-NRT_RATE, fmin(NRT_RATE, rates[n / 2]));
    return true;
}

/* Returns how far the clock may have left its nearby rate between points i - 1 and i. */
static double
misfit_before(const nrt_device *d, size_t i, double *ret_rate)
{
    double span = time_between(d, i - 1, i), change = offset_between(d, i - 1, i);
    double most = fabs(change) + NRT_RATE * span;

    if (!find_rate(d, i - 1, i, span, ret_rate))
        return most;
    return fmin(most, fabs(change - *ret_rate * span) + 3 * d->noise);
}

/* ---- Sync points ---- */

static nrt_device *
add_device(nrt_clock *c, const nrt_sync *sync)
{
    if (c->n == DEVICES_MAX || !MRD_VEC_ROOM(c->devices, c->n, c->cap, 1))
        return NULL;
    c->devices[c->n] = (nrt_device){ .nc_idx = sync->nc_idx,
                                     .pcore_idx = sync->pcore_idx,
                                     .noise = NRT_NOISE_EARLY_NS };
    return &c->devices[c->n++];
}

static bool
may_be_of(const nrt_device *d, const nrt_sync *like)
{
    return d->n > 0 && d->nc_idx == like->nc_idx &&
           (d->pcore_idx < 0 || like->pcore_idx < 0 || d->pcore_idx == like->pcore_idx);
}

static bool
same_exec(const point *p, const nrt_sync *like)
{
    return p->has_exec && like->has_exec && p->exec_id == like->exec_id;
}

/* Returns how far a clock is from having shown this device time with this offset. If the offset is
 * far off, one of both clocks was set: the host's if the device time is nearer. */
static uint64_t
point_apart(const point *p, int64_t device, int64_t offset)
{
    uint64_t off = clock_apart(p->offset, offset), time = clock_apart(p->device, device);

    time = time < APART_NS ? APART_NS : time;
    return off < time ? off : time;
}

/* Returns the clock that a sync point was read from, or adds one. NULL if out of memory or if there
 * are DEVICES_MAX clocks. */
static nrt_device *
device_of_sync(nrt_clock *c, const nrt_sync *sync, int64_t offset)
{
    nrt_device *best = NULL;
    uint64_t best_off = UINT64_MAX;
    size_t halves = 0;

    for (size_t i = 0; i < c->n; i++) {
        nrt_device *d = &c->devices[i];
        uint64_t off;

        if (d->n == 0 || d->nc_idx != sync->nc_idx || d->pcore_idx != sync->pcore_idx)
            continue;
        halves++;
        off = point_apart(&d->points[d->n - 1], sync->device.ns, offset);
        if (off < best_off) {
            best_off = off;
            best = d;
        }
    }
    if (best != NULL && sync->pcore_idx < 0 && halves < HALVES_MAX && best_off > APART_NS &&
        (!sync->has_exec || same_exec(&best->points[best->n - 1], sync)))
        best = NULL;
    return best != NULL ? best : add_device(c, sync);
}

/* Returns true if a point that arrives late fits the clock, or is of earlier host time or of an
 * earlier execution, too. If not, the clock was reset. */
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
add_point(nrt_clock *c, nrt_device *d, const point *p)
{
    size_t at = find_point(d, p->device);

    if (at < d->n && !fits_before(d, at, p)) {
        d->n = at = 0;
        d->was_reset = true;
    }
    if (at < d->n && d->points[at].device == p->device)
        return MRD_OK; /* a duplicate */
    if (d->n >= c->max_points) {
        size_t drop = d->n / 2;

        if (at < drop)
            return MRD_OK;
        memmove(d->points, d->points + drop, (d->n - drop) * sizeof(*d->points));
        d->n -= drop;
        at -= drop;
    }
    if (!MRD_VEC_ROOM(d->points, d->n, d->cap, 1))
        return MRD_NOMEM;
    memmove(d->points + at + 1, d->points + at, (d->n - at) * sizeof(*d->points));
    d->points[at] = *p;
    d->n++;
    d->is_backward = at == 0 && d->n > 1;
    d->last_exec = p->has_exec ? p->exec_id : d->last_exec;
    learn_noise(d);
    return MRD_OK;
}

mrd_err
mrd_nrt_clock_sync(nrt_clock *c, const nrt_sync *sync)
{
    point p = { .device = sync->device.ns, .exec_id = sync->exec_id, .has_exec = sync->has_exec };
    nrt_device *d;

    nrt_clock_host(c, sync->cpu);
    if (__builtin_sub_overflow(sync->cpu.ns, sync->device.ns, &p.offset))
        return MRD_OK; /* invalid: clocks never differ so much */
    if ((d = device_of_sync(c, sync, p.offset)) == NULL)
        return c->n == DEVICES_MAX ? MRD_OK : MRD_NOMEM;
    return add_point(c, d, &p);
}

/* ---- Mapping ---- */

typedef struct {
    mrd_wall_ns host;
    double bound;
    nrt_mapped how;
} nrt_time;

/* An offset relative to a point's offset, with its bound. */
typedef struct {
    size_t at;
    double change, bound;
    nrt_mapped how;
} mapping;

/* Returns the largest step among the points nearest to an end. Sets *ret_every to the time in which
 * one step may occur. */
static double
find_step(const nrt_device *d, size_t end, double *ret_every)
{
    size_t n = d->n - 1 < WINDOW ? d->n - 1 : WINDOW, from = end == 0 ? 0 : end - n;
    double step = 0, rate;

    for (size_t i = from + 1; i <= from + n; i++)
        step = fmax(step, misfit_before(d, i, &rate) - 5 * d->noise);
    *ret_every = time_between(d, from, from + n) / (double) n;
    return step;
}

/* Maps a time beyond the sync points: `end` is the nearest, `time` the distance, negative before
 * it. */
static mapping
map_beyond(const nrt_device *d, size_t end, double time)
{
    double room = time_between(d, 0, d->n - 1), away = fabs(time), rate, growth, step = 0, every;
    double length = fmin(fmax(CHORD_NS, away), room / (2 * CHORDS_FEW));

    if (length < 1 || !find_rate(d, end, end, length, &rate)) {
        rate = 0;
        growth = NRT_RATE * away;
    } else {
        step = find_step(d, end, &every);
        growth =
            2 * d->noise / length + NRT_RATE_CHANGE * (CHORDS * length + away) / 2 + step / every;
        growth = fmin(growth, NRT_RATE + fabs(rate)) * away;
    }
    return (mapping){ end, rate * time, 2 * d->noise + step + growth, NRT_MAP_BEYOND };
}

/* Maps a time between the points i - 1 and i. */
static mapping
map_between(const nrt_device *d, size_t i, const nrt_sync *like)
{
    double span = time_between(d, i - 1, i), change = offset_between(d, i - 1, i);
    double behind = (double) (like->device.ns - d->points[i - 1].device);
    double rate, misfit = misfit_before(d, i, &rate);
    mapping m = { i - 1, change / span * behind, d->noise + misfit, NRT_MAP_BETWEEN };

    if (fabs(change) <= NRT_RATE * span + 2 * fmin(d->noise, NRT_NOISE_EARLY_NS))
        return m;
    /* No rate is so large, so there is a step in between. The execution shows on which side of it
     * the event is. */
    if (same_exec(&d->points[i - 1], like))
        m.change = rate * behind;
    else
        m = (mapping){ i, -rate * (span - behind), m.bound, m.how };
    return m;
}

/* Returns by how much the clock was set back between points i - 1 and i; 0 if it was not. */
static double
set_back_before(const nrt_device *d, size_t i)
{
    double change = offset_between(d, i - 1, i);

    return change > NRT_RATE * time_between(d, i - 1, i) ? change : 0;
}

/*
 * Returns true if an event before point i belongs to the execution of point i + 1, and the clock was set back
 * between the two. The clock showed the event's time twice then.
 */
static bool
was_set_back(const nrt_device *d, size_t i, const nrt_sync *like)
{
    return i + 1 < d->n && !same_exec(&d->points[i], like) && same_exec(&d->points[i + 1], like) &&
           set_back_before(d, i + 1) > 0;
}

static mapping
map_device(const nrt_device *d, size_t i, const nrt_sync *like)
{
    mapping m;

    if (i < d->n && was_set_back(d, i, like)) {
        double rate, misfit = misfit_before(d, i + 1, &rate);
        double before = (double) (d->points[i + 1].device - like->device.ns);

        return (mapping){ i + 1, -rate * before, d->noise + misfit, NRT_MAP_BETWEEN };
    }
    if (i > 0 && i < d->n) {
        m = map_between(d, i, like);
    } else {
        size_t end = i == 0 ? 0 : d->n - 1;

        m = map_beyond(d, end, (double) like->device.ns - (double) d->points[end].device);
    }
    /* A sync point follows its execution. If the event seems to be later, the clock may have been
     * set back in between. */
    if (i > 1 && same_exec(&d->points[i - 1], like))
        m.bound += set_back_before(d, i - 1);
    return m;
}

/* Returns the distance of an event from a clock: by offset if the runtime moved the event, else by
 * device time. */
static uint64_t
distance(const nrt_device *d, const nrt_sync *like)
{
    size_t i = find_point(d, like->device.ns);
    uint64_t least = UINT64_MAX;

    for (size_t k = i > 0 ? i - 1 : 0; k <= i && k < d->n; k++) {
        const point *p = &d->points[k];
        uint64_t off = like->cpu.ns == 0
                           ? clock_apart(p->device, like->device.ns)
                           : point_apart(p, like->device.ns, like->cpu.ns - like->device.ns);

        least = off < least ? off : least;
    }
    return least;
}

/* Returns the clock of an event. Sets *ret_other to another clock that is close enough to be the
 * right one. */
static const nrt_device *
device_of(const nrt_clock *c, const nrt_sync *like, const nrt_device **ret_other)
{
    const nrt_device *best = NULL;
    uint64_t best_off = UINT64_MAX;
    bool best_same = false;

    *ret_other = NULL;
    for (size_t i = 0; i < c->n; i++) {
        const nrt_device *d = &c->devices[i];
        bool same = d->pcore_idx == like->pcore_idx;
        uint64_t off;

        if (!may_be_of(d, like) || (best_same && !same))
            continue;
        off = distance(d, like);
        if (same == best_same && off >= best_off) {
            *ret_other = off < OTHER_NS && like->cpu.ns == 0 ? d : *ret_other;
            continue;
        }
        *ret_other = same == best_same && best_off < OTHER_NS && like->cpu.ns == 0 ? best : NULL;
        best = d;
        best_off = off;
        best_same = same;
    }
    return best;
}

static bool
host_of(const nrt_device *d, const mapping *m, const nrt_sync *like, int64_t *ret_host)
{
    return !__builtin_add_overflow(like->device.ns, d->points[m->at].offset, ret_host) &&
           fabs(m->change) < 1e18 &&
           !__builtin_add_overflow(*ret_host, llround(m->change), ret_host);
}

/* Returns true if the runtime moved the event by a sync point that is not next to it. */
static bool
was_moved_otherwise(const nrt_device *d, size_t i, const nrt_sync *like)
{
    if (like->cpu.ns == 0)
        return false;
    for (size_t k = i > 0 ? i - 1 : 0; k < d->n && k <= i + 1; k++) {
        if (like->cpu.ns - like->device.ns == d->points[k].offset)
            return false;
    }
    return true;
}

/* Returns true if a sync point next to the event is of its execution. */
static bool
has_own_point(const nrt_device *d, size_t i, const nrt_sync *like)
{
    for (size_t k = i > 0 ? i - 1 : 0; k < d->n && k <= i + 1; k++) {
        if (same_exec(&d->points[k], like))
            return true;
    }
    return false;
}

/* Maps one device time by this clock. Returns false if there is no such host time. */
static bool
map_time(const nrt_device *d, const nrt_device *other, const nrt_sync *like, nrt_time *ret)
{
    size_t i = find_point(d, like->device.ns);
    mapping m = map_device(d, i, like);
    int64_t host, second;

    if (!host_of(d, &m, like, &host))
        return false;
    if (was_moved_otherwise(d, i, like)) {
        m.bound += (double) clock_apart(like->cpu.ns, host) + fabs(m.change);
        if (i == d->n)
            /* that sync point is later, and a step before it would be unknown */
            m.bound = INFINITY;
    }
    if (d->was_reset && like->has_exec && !has_own_point(d, i, like))
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
mrd_nrt_clock_map(const nrt_clock *c, const nrt_sync *like, mrd_nc_ns end, mrd_wall_ns *ret_host,
                  mrd_dur_ns *ret_dur, uint32_t *ret_bound)
{
    const nrt_device *other, *d = device_of(c, like, &other);
    mrd_nc_ns times[2] = { like->device, end };
    nrt_time at[2];
    double bound = 0;

    if (d == NULL)
        return NRT_MAP_NONE;
    for (int i = 0; i < 2; i++) {
        nrt_sync s = nrt_sync_at(like, times[i]);

        if (!map_time(d, other, &s, &at[i]))
            return NRT_MAP_NONE;
        bound = fmax(bound, at[i].bound);
    }
    *ret_host = at[0].host;
    *ret_dur = at[1].host.ns > at[0].host.ns ? at[1].host.ns - at[0].host.ns : 0;
    *ret_bound = bound < (double) MRD_BOUND_UNKNOWN ? (uint32_t) ceil(bound) : MRD_BOUND_UNKNOWN;
    return at[0].how > at[1].how ? at[1].how : at[0].how;
}

bool
mrd_nrt_clock_is_ahead(const nrt_clock *c, const nrt_sync *like)
{
    const nrt_device *other, *d = device_of(c, like, &other);

    return d != NULL && find_point(d, like->device.ns) == d->n &&
           was_moved_otherwise(d, d->n, like);
}

bool
mrd_nrt_clock_is_ready(const nrt_clock *c, const nrt_sync *like, size_t points)
{
    const nrt_device *other, *d = device_of(c, like, &other);
    size_t i = d == NULL ? 0 : find_point(d, like->device.ns);

    if (d == NULL || i == d->n || d->n < points || distance(d, like) >= NEAR_NS)
        return false;
    if (i == 0 && d->is_backward) /* earlier sync points follow */
        return false;
    /* The sync point of its execution may show that the clock was reset. */
    if (like->has_exec && like->exec_id > d->last_exec && !has_own_point(d, i, like))
        return false;
    return i + 1 < d->n || same_exec(&d->points[i], like) || (!like->has_exec && d->n > 1);
}
