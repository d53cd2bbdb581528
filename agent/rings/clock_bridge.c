/* agent/rings/clock_bridge.c - cross-reads of the node's clocks: RAW and REALTIME, now and as recorded. Each
 * turn reads both clocks. If REALTIME has left the line of the recorded readings, the readings
 * before and after are recorded (MRD_CROSS_UNSEEN is the resulting error of a conversion by the
 * readings). */
#include <stdlib.h>

#include "agent/rings/drain_int.h"
#include "base/conf/agent_waits.h"
#include "base/num.h"
#include "timesync/cross_table.h"

#define CROSS_MAX   1024
#define TRIES       5
#define LAST        4      /* readings that each batch contains */
#define LOOK_WITHIN MRD_US /* a wider look is repeated */
#define DEPARTURE   (MRD_CROSS_UNSEEN / 2)
#define PER_PPM     (1000000 / 500) /* maximum rate error of an oscillator */

/* Reads RAW, REALTIME, RAW up to `tries` times until the bracket is tight enough. Returns the
 * tightest; `other` is REALTIME. */
static void
look(int tries, mrd_dur_ns within, mrd_cross_read *ret_read)
{
    mrd_cross_read best = { .bracket_ns = INT64_MAX };

    for (int i = 0; i < tries && best.bracket_ns > within; i++) {
        int64_t before = mrd_local_now().ns, wall = mrd_wall_now().ns, after = mrd_local_now().ns;

        if (after - before < best.bracket_ns)
            best = (mrd_cross_read){ { before + (after - before) / 2 }, { wall }, after - before };
    }
    *ret_read = best;
}

/* Returns how much REALTIME moved relative to RAW between two readings, and how much of it may be
 * reading error. */
static mrd_dur_ns
moved(const mrd_cross_read *a, const mrd_cross_read *b, mrd_dur_ns *ret_within)
{
    *ret_within = mrd_sat_add(a->bracket_ns / 2, b->bracket_ns / 2);
    return mrd_sat_sub(mrd_ev_diff(b->other, a->other), mrd_local_diff(b->raw, a->raw));
}

/* Returns true if REALTIME differs from the extrapolated readings. */
static bool
departs(const mrd_cross_read *base, const mrd_cross_read *last, const mrd_cross_read *here)
{
    mrd_dur_ns within, expected = 0, past = mrd_local_diff(last->raw, base->raw);
    mrd_dur_ns by = moved(base, last, &within);

    if (past > 0)
        expected = mrd_share(by, mrd_local_diff(here->raw, last->raw), past);
    by = moved(last, here, &within);
    return mrd_sat_abs(mrd_sat_sub(by, expected)) > mrd_sat_add(DEPARTURE, within);
}

/* Chooses the earliest reading from which the clock ran like an oscillator up to the last, within
 * the interval of readings. */
static void
set_base(mrd_drain *p)
{
    const mrd_cross_read *c = p->crosses;
    size_t i = p->n_crosses - 1;
    mrd_local_ns far = mrd_local_sub(c[i].raw, MRD_WAIT_CROSS);

    for (mrd_dur_ns within; i > 0 && mrd_local_after(c[i].raw, far); i--)
        if (mrd_sat_abs(moved(&c[i - 1], &c[i], &within)) >
            mrd_local_diff(c[i].raw, c[i - 1].raw) / PER_PPM + within)
            break;
    p->cross_base = c[i];
}

/* Keeps the newer half, and of the older half one reading per second and those where the clock
 * departed. So an old step of the wall clock can still be located, less precisely. If the clock is
 * set all the time, only one reading per second stays. */
static void
thin(mrd_drain *p)
{
    size_t half = p->n_crosses / 2, departed = 0, n = 0;

    for (size_t i = 1; i < half; i += 2)
        departed += p->cross_departs[i];
    for (size_t i = 0; i < p->n_crosses; i++)
        if (i >= half || i % 2 == 0 || (p->cross_departs[i] && departed < half / 4)) {
            p->cross_departs[n] = p->cross_departs[i];
            p->crosses[n++] = p->crosses[i];
        }
    p->n_crosses = n;
}

static void
push(mrd_drain *p, const mrd_cross_read *read, bool departs)
{
    if (p->n_crosses == CROSS_MAX)
        thin(p);
    p->crosses[p->n_crosses] = *read;
    p->cross_departs[p->n_crosses++] = departs;
}

static void
record(mrd_drain *p, const mrd_cross_read *here)
{
    bool departed = departs(&p->cross_base, &p->crosses[p->n_crosses - 1], here);

    if (departed && mrd_local_after(p->cross_look.raw, p->crosses[p->n_crosses - 1].raw))
        push(p, &p->cross_look, true);
    if (departed)
        p->cross_departs[p->n_crosses - 1] = true; /* also if that was the reading before */
    push(p, here, departed);
    p->cross_look = *here;
    p->cross_at = mrd_local_add(here->raw, MRD_WAIT_CROSS);
    set_base(p);
}

mrd_err
mrd_drain_cross_init(mrd_drain *p)
{
    p->crosses = calloc(CROSS_MAX, sizeof(*p->crosses));
    p->cross_departs = calloc(CROSS_MAX, sizeof(*p->cross_departs));
    if (p->crosses == NULL || p->cross_departs == NULL)
        return MRD_NOMEM;
    look(TRIES, 0, &p->cross_look);
    push(p, &p->cross_look, false);
    p->cross_at = mrd_local_add(p->cross_look.raw, MRD_WAIT_CROSS);
    p->cross_base = p->cross_look;
    p->wall_offset = p->crosses[0].other.ns - p->crosses[0].raw.ns;
    return MRD_OK;
}

void
mrd_drain_cross_fini(mrd_drain *p)
{
    free(p->crosses);
    free(p->cross_departs);
}

void
mrd_drain_cross(mrd_drain *p)
{
    mrd_cross_read here;

    look(TRIES, 0, &here);
    record(p, &here);
}

void
mrd_drain_cross_step(mrd_drain *p, mrd_local_ns now)
{
    mrd_cross_read here;
    mrd_dur_ns within = 2 * p->crosses[p->n_crosses - 1].bracket_ns;

    look(TRIES, within = within > LOOK_WITHIN ? within : LOOK_WITHIN, &here);
    if (!mrd_local_before(now, p->cross_at) ||
        departs(&p->cross_base, &p->crosses[p->n_crosses - 1], &here))
        mrd_drain_cross(p);
    else if (here.bracket_ns <= within)
        p->cross_look = here;
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
    i -= i > 0; /* the interval before */
    for (; i < n; i++)
        if (i >= first || p->cross_departs[i])
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

    /* Newest first: after a backward step of the wall clock two readings can match, and stamps are
     * recent. */
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
