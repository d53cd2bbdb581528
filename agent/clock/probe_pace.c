#include "agent/clock/probe_pace.h"

#include "base/conf/agent_waits.h"
#include "base/hash.h"

/* Returns a random number between a and b (xorshift64*). It need not be secure, because it only
 * spreads probes in time. */
static double
random_between(mrd_probe_pace *pace, double a, double b)
{
    pace->random ^= pace->random >> 12;
    pace->random ^= pace->random << 25;
    pace->random ^= pace->random >> 27;
    return a + (b - a) * ((double) ((pace->random * 0x2545f4914f6cdd1du) >> 11) * 0x1p-53);
}

static double
rate_of(const mrd_probe_pace *pace)
{
    return pace->pairs_per_s * (pace->pace == MRD_PACE_FAST   ? 4
                                : pace->pace == MRD_PACE_IDLE ? 0.1
                                                              : 1);
}

static void
plan(mrd_probe_pace *pace, mrd_local_ns now)
{
    double wait_s = random_between(pace, 0.5, 1.5) / 0.9 / rate_of(pace);

    if (pace->half)
        wait_s /= 2;
    if (pace->burst > 0)
        wait_s = random_between(pace, 0.002, 0.010);
    else if (pace->pace == MRD_PACE_STOP)
        wait_s = 3600;
    pace->next = mrd_local_add(now, (int64_t) (wait_s * 1e9));
}

void
mrd_probe_pace_init(mrd_probe_pace *pace, double pairs_per_s)
{
    *pace =
        (mrd_probe_pace){ .pace = MRD_PACE_RUN, .pairs_per_s = pairs_per_s > 0 ? pairs_per_s : 1 };
    mrd_random(&pace->random, sizeof(pace->random));
    pace->random |= 1;
}

void
mrd_probe_pace_burst(mrd_probe_pace *pace, mrd_local_ns now)
{
    pace->burst = MRD_TIMEPROBE_BURST;
    pace->next = now;
}

void
mrd_probe_pace_set(mrd_probe_pace *probe_pace, mrd_pace pace, mrd_local_ns now)
{
    if (pace != MRD_PACE_FAST)
        probe_pace->spent = false;
    else if (probe_pace->spent)
        pace = MRD_PACE_RUN;
    if (pace == probe_pace->pace)
        return;
    if (pace == MRD_PACE_FAST)
        probe_pace->fast_until = mrd_local_add(now, MRD_WAIT_PROBE_FAST);
    probe_pace->pace = pace;
    if (probe_pace->burst == 0)
        plan(probe_pace, now);
}

bool
mrd_probe_pace_due(mrd_probe_pace *pace, mrd_local_ns now)
{
    if (pace->pace == MRD_PACE_FAST && !mrd_local_before(now, pace->fast_until)) {
        pace->pace = MRD_PACE_RUN;
        pace->spent = true;
    }
    return !mrd_local_before(now, pace->next);
}

void
mrd_probe_pace_again(mrd_probe_pace *pace, mrd_local_ns now)
{
    pace->next =
        mrd_local_add(now, (int64_t) (random_between(pace, 0.02, 0.06) / rate_of(pace) * 1e9));
}

void
mrd_probe_pace_next(mrd_probe_pace *pace, mrd_probe_id id, mrd_local_ns now)
{
    pace->half = mrd_probe_beside_held_out(id);
    pace->burst -= pace->burst > 0;
    plan(pace, now);
}
