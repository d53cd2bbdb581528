/* agent/cross.c - cross-reads of the node's clocks: RAW against REALTIME, now and as recorded. */
#include <stdlib.h>
#include <string.h>

#include "agent/drain_int.h"

#define CROSS_PERIOD (10 * MRD_SEC)
#define CROSS_MAX    1024
#define TRIES        5
#define LAST         4 /* readings that go with each batch */

/* Reads RAW, REALTIME, RAW again; the tightest of 5. other_ns is REALTIME. */
static void
cross_realtime(mrd_cross_read *ret_read)
{
    mrd_cross_read best = { .bracket_ns = INT64_MAX };

    for (int i = 0; i < TRIES; i++) {
        int64_t before = mrd_local_now().ns, wall = mrd_wall_now().ns, after = mrd_local_now().ns;

        if (after - before < best.bracket_ns)
            best = (mrd_cross_read){ { before + (after - before) / 2 }, { wall }, after - before };
    }
    *ret_read = best;
}

mrd_err
mrd_drain_cross_init(mrd_drain *p)
{
    if ((p->crosses = calloc(CROSS_MAX, sizeof(*p->crosses))) == NULL)
        return MRD_NOMEM;
    mrd_drain_cross(p);
    p->wall_offset = p->crosses[0].other.ns - p->crosses[0].raw.ns;
    return MRD_OK;
}

/* Whether the wall clock was set between two readings: by more than a slew, or a thread that was put
 * aside, can make. */
static bool
set_between(const mrd_cross_read *a, const mrd_cross_read *b)
{
    mrd_dur_ns past = mrd_local_diff(b->raw, a->raw);
    mrd_dur_ns moved = mrd_ev_diff(b->other, a->other) - past;
    mrd_dur_ns bend = past / 8 + MRD_MS;

    return moved > bend || moved < -bend;
}

/* The wall clock was set just before or just behind it. */
static bool
beside_step(const mrd_drain *p, size_t i)
{
    const mrd_cross_read *c = p->crosses;

    return (i > 0 && set_between(&c[i - 1], &c[i])) ||
           (i + 1 < p->n_crosses && set_between(&c[i], &c[i + 1]));
}

/* Keeps the newest half as it is, and of the older half every second and what is beside a step: an
 * hour-old step of the wall clock is still placed, only less finely. */
static void
thin(mrd_drain *p)
{
    size_t half = p->n_crosses / 2, n = 0;
    bool was_beside = beside_step(p, 0);

    for (size_t i = 0; i < p->n_crosses; i++) {
        bool beside = was_beside;

        was_beside = i + 1 < p->n_crosses && beside_step(p, i + 1); /* before it is moved */
        if (i >= half || i % 2 == 0 || beside)
            p->crosses[n++] = p->crosses[i];
    }
    if (n == CROSS_MAX) /* a clock that is set all the time */
        memmove(p->crosses, p->crosses + half, (n -= half) * sizeof(*p->crosses));
    p->n_crosses = n;
}

void
mrd_drain_cross(mrd_drain *p)
{
    if (p->n_crosses == CROSS_MAX)
        thin(p);
    cross_realtime(&p->crosses[p->n_crosses++]);
    p->cross_at = mrd_local_add(p->crosses[p->n_crosses - 1].raw, CROSS_PERIOD);
}

void
mrd_drain_cross_step(mrd_drain *p, mrd_local_ns now)
{
    mrd_cross_read here = { .raw = now, .other = { mrd_wall_now().ns } };

    if (!mrd_local_before(now, p->cross_at) || set_between(&p->crosses[p->n_crosses - 1], &here))
        mrd_drain_cross(p);
}

const mrd_cross_read *
mrd_drain_crosses(const mrd_drain *p, size_t *ret_n)
{
    *ret_n = p->n_crosses;
    return p->crosses;
}

void
mrd_drain_crosses_since(const mrd_drain *p, mrd_local_ns since,
                        void (*take)(void *self, const mrd_cross_read *read), void *self)
{
    size_t n = p->n_crosses, first = n > LAST ? n - LAST : 0, i = first;

    while (i > 0 && !mrd_local_before(p->crosses[i - 1].raw, since))
        i--;
    i -= i > 0; /* what was the time before */
    for (; i < n; i++)
        if (i >= first || beside_step(p, i))
            take(self, &p->crosses[i]);
}

static int64_t
plus(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

mrd_local_ns
mrd_drain_to_raw(const mrd_drain *p, mrd_wall_ns wall_ns)
{
    const mrd_cross_read *best = &p->crosses[p->n_crosses - 1];

    /* Newest first: after a step back of the wall clock two readings can be near; stamps are young.
     */
    for (size_t i = p->n_crosses; i-- > 0;) {
        best = &p->crosses[i];
        if (best->other.ns <= wall_ns.ns)
            break;
    }
    return (mrd_local_ns){ plus(wall_ns.ns, best->raw.ns - best->other.ns) };
}

mrd_wall_ns
mrd_drain_raw_to_wall(const mrd_drain *p, mrd_local_ns raw)
{
    return (mrd_wall_ns){ plus(raw.ns, p->wall_offset) };
}
