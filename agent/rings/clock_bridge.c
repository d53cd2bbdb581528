/* agent/rings/clock_bridge.c - relates the node's CLOCK_MONOTONIC_RAW to CLOCK_REALTIME. A
 * cross-read is a reading of both clocks at the same time. Each turn of the drain makes a
 * cross-read, but records only one in MRD_WAIT_CROSS. If a cross-read deviates from the straight
 * line through the last recorded cross-reads, the cross-reads before and after the deviation are
 * recorded too. So a time between two recorded cross-reads is converted with an error of at most
 * MRD_CROSS_UNSEEN. */
#include <stdlib.h>

#include "agent/rings/drain_int.h"
#include "base/conf/agent_waits.h"
#include "base/num.h"
#include "timesync/cross_table.h"

#define CROSS_MAX   1024
#define TRIES       5
#define LAST        4      /* number of newest cross-reads that each batch contains */
#define LOOK_WITHIN MRD_US /* repeat a reading that took longer than this */
#define DEPARTURE   (MRD_CROSS_UNSEEN / 2)
/* The measured length of an interval is wrong by at most 1/PER_PPM of it, because an oscillator is
 * assumed to be off by at most 500 ppm. */
#define PER_PPM (1000000 / 500)

/* Makes a cross-read of the two clocks: reads RAW, REALTIME and RAW again. If the two RAW readings
 * are more than `within` ns apart, tries again, up to `tries` times. Stores the reading with the
 * shortest interval in *ret_read. */
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

/* Returns by how many ns REALTIME moved relative to RAW between two cross-reads. Stores the
 * possible error of this result in *ret_within. */
static mrd_dur_ns
moved(const mrd_cross_read *a, const mrd_cross_read *b, mrd_dur_ns *ret_within)
{
    *ret_within = mrd_sat_add(a->bracket_ns / 2, b->bracket_ns / 2);
    return mrd_sat_sub(mrd_ev_diff(b->other, a->other), mrd_local_diff(b->raw, a->raw));
}

/* Returns true if REALTIME in `here` deviates from the straight line through the cross-reads `base`
 * and `last`. */
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

/* Sets cross_base to the earliest recorded cross-read after which the wall clock had no step, going
 * back at most MRD_WAIT_CROSS before the newest cross-read. */
static void
set_base(mrd_drain *drain)
{
    const mrd_cross_read *read_pair = drain->crosses;
    size_t i = drain->n_crosses - 1;
    mrd_local_ns far = mrd_local_sub(read_pair[i].raw, MRD_WAIT_CROSS);

    for (mrd_dur_ns within; i > 0 && mrd_local_after(read_pair[i].raw, far); i--)
        if (mrd_sat_abs(moved(&read_pair[i - 1], &read_pair[i], &within)) >
            mrd_local_diff(read_pair[i].raw, read_pair[i - 1].raw) / PER_PPM + within)
            break;
    drain->cross_base = read_pair[i];
}

/* Makes room for new cross-reads. Keeps all of the newer half. From the older half, keeps every
 * second cross-read, and both cross-reads around each deviation of the wall clock, so that the time
 * of an old clock step stays exact. If the older half has too many deviations, they are thinned out
 * too. */
static void
thin(mrd_drain *drain)
{
    size_t half = drain->n_crosses / 2, departed = 0, n = 0;

    for (size_t i = 1; i < half; i += 2)
        departed += drain->cross_departs[i];
    for (size_t i = 0; i < drain->n_crosses; i++)
        if (i >= half || i % 2 == 0 || (drain->cross_departs[i] && departed < half / 4)) {
            drain->cross_departs[n] = drain->cross_departs[i];
            drain->crosses[n++] = drain->crosses[i];
        }
    drain->n_crosses = n;
}

static void
push(mrd_drain *drain, const mrd_cross_read *read, bool departs)
{
    if (drain->n_crosses == CROSS_MAX)
        thin(drain);
    drain->crosses[drain->n_crosses] = *read;
    drain->cross_departs[drain->n_crosses++] = departs;
}

static void
record(mrd_drain *drain, const mrd_cross_read *here)
{
    bool departed = departs(&drain->cross_base, &drain->crosses[drain->n_crosses - 1], here);

    if (departed &&
        mrd_local_after(drain->cross_look.raw, drain->crosses[drain->n_crosses - 1].raw))
        push(drain, &drain->cross_look, true);
    if (departed)
        /* the last recorded cross-read is the one before the deviation, so it must be kept as
         * well */
        drain->cross_departs[drain->n_crosses - 1] = true;
    push(drain, here, departed);
    drain->cross_look = *here;
    drain->cross_at = mrd_local_add(here->raw, MRD_WAIT_CROSS);
    set_base(drain);
}

mrd_err
mrd_drain_cross_init(mrd_drain *drain)
{
    drain->crosses = calloc(CROSS_MAX, sizeof(*drain->crosses));
    drain->cross_departs = calloc(CROSS_MAX, sizeof(*drain->cross_departs));
    if (drain->crosses == NULL || drain->cross_departs == NULL)
        return MRD_NOMEM;
    look(TRIES, 0, &drain->cross_look);
    push(drain, &drain->cross_look, false);
    drain->cross_at = mrd_local_add(drain->cross_look.raw, MRD_WAIT_CROSS);
    drain->cross_base = drain->cross_look;
    drain->wall_offset = drain->crosses[0].other.ns - drain->crosses[0].raw.ns;
    return MRD_OK;
}

void
mrd_drain_cross_fini(mrd_drain *drain)
{
    free(drain->crosses);
    free(drain->cross_departs);
}

void
mrd_drain_cross(mrd_drain *drain)
{
    mrd_cross_read here;

    look(TRIES, 0, &here);
    record(drain, &here);
}

void
mrd_drain_cross_step(mrd_drain *drain, mrd_local_ns now)
{
    mrd_cross_read here;
    mrd_dur_ns within = 2 * drain->crosses[drain->n_crosses - 1].bracket_ns;

    look(TRIES, within = within > LOOK_WITHIN ? within : LOOK_WITHIN, &here);
    if (!mrd_local_before(now, drain->cross_at) ||
        departs(&drain->cross_base, &drain->crosses[drain->n_crosses - 1], &here))
        mrd_drain_cross(drain);
    else if (here.bracket_ns <= within)
        drain->cross_look = here;
}

const mrd_cross_read *
mrd_drain_crosses(const mrd_drain *drain, size_t *ret_n)
{
    *ret_n = drain->n_crosses;
    return drain->crosses;
}

void
mrd_drain_crosses_since(const mrd_drain *drain, mrd_local_ns since,
                        void (*take)(void *self, const mrd_cross_read *read), void *self)
{
    size_t n = drain->n_crosses, first = n > LAST ? n - LAST : 0, i = first;

    while (i > 0 && !mrd_local_before(drain->crosses[i - 1].raw, since))
        i--;
    /* also pass the last cross-read before `since`, to convert times between it and the next */
    i -= i > 0;
    for (; i < n; i++)
        if (i >= first || drain->cross_departs[i])
            take(self, &drain->crosses[i]);
}

static int64_t
plus(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

mrd_local_ns
mrd_drain_to_raw(const mrd_drain *drain, mrd_wall_ns wall_ns)
{
    const mrd_cross_read *best = &drain->crosses[drain->n_crosses - 1];

    /* Search from the newest cross-read on, because times to convert are usually recent. After a
     * backward step, the wall clock shows some times twice. The search then finds the later one. */
    for (size_t i = drain->n_crosses; i-- > 0;) {
        best = &drain->crosses[i];
        if (best->other.ns <= wall_ns.ns)
            break;
    }
    return (mrd_local_ns){ plus(wall_ns.ns, best->raw.ns - best->other.ns) };
}

mrd_wall_ns
mrd_drain_raw_to_wall(const mrd_drain *drain, mrd_local_ns raw)
{
    return (mrd_wall_ns){ plus(raw.ns, drain->wall_offset) };
}
