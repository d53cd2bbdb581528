#include "agent/clock/probe_pace.h"

#include "base/conf/agent_waits.h"
#include "base/hash.h"

/* xorshift64*: only to spread probes in time */
static double
random_between(mrd_probe_pace *p, double a, double b)
{
    p->random ^= p->random >> 12;
    p->random ^= p->random << 25;
    p->random ^= p->random >> 27;
    return a + (b - a) * ((double) ((p->random * 0x2545f4914f6cdd1du) >> 11) * 0x1p-53);
}

static double
rate_of(const mrd_probe_pace *p)
{
    return p->pairs_per_s * (p->pace == MRD_PACE_FAST ? 4 : p->pace == MRD_PACE_IDLE ? 0.1 : 1);
}

static void
plan(mrd_probe_pace *p, mrd_local_ns now)
{
    double wait_s = random_between(p, 0.5, 1.5) / 0.9 / rate_of(p);

    if (p->half)
        wait_s /= 2;
    if (p->burst > 0)
        wait_s = random_between(p, 0.002, 0.010);
    else if (p->pace == MRD_PACE_STOP)
        wait_s = 3600;
    p->next = mrd_local_add(now, (int64_t) (wait_s * 1e9));
}

void
mrd_probe_pace_init(mrd_probe_pace *p, double pairs_per_s)
{
    *p = (mrd_probe_pace){ .pace = MRD_PACE_RUN, .pairs_per_s = pairs_per_s > 0 ? pairs_per_s : 1 };
    mrd_random(&p->random, sizeof(p->random));
    p->random |= 1;
}

void
mrd_probe_pace_burst(mrd_probe_pace *p, mrd_local_ns now)
{
    p->burst = MRD_TIMEPROBE_BURST;
    p->next = now;
}

void
mrd_probe_pace_set(mrd_probe_pace *p, mrd_pace pace, mrd_local_ns now)
{
    if (pace != MRD_PACE_FAST)
        p->spent = false;
    else if (p->spent)
        pace = MRD_PACE_RUN;
    if (pace == p->pace)
        return;
    if (pace == MRD_PACE_FAST)
        p->fast_until = mrd_local_add(now, MRD_WAIT_PROBE_FAST);
    p->pace = pace;
    if (p->burst == 0)
        plan(p, now);
}

bool
mrd_probe_pace_due(mrd_probe_pace *p, mrd_local_ns now)
{
    if (p->pace == MRD_PACE_FAST && !mrd_local_before(now, p->fast_until)) {
        p->pace = MRD_PACE_RUN;
        p->spent = true;
    }
    return !mrd_local_before(now, p->next);
}

void
mrd_probe_pace_again(mrd_probe_pace *p, mrd_local_ns now)
{
    p->next = mrd_local_add(now, (int64_t) (random_between(p, 0.02, 0.06) / rate_of(p) * 1e9));
}

void
mrd_probe_pace_next(mrd_probe_pace *p, mrd_probe_id id, mrd_local_ns now)
{
    p->half = mrd_probe_beside_held_out(id);
    p->burst -= p->burst > 0;
    plan(p, now);
}
