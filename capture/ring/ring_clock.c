#include "capture/ring/ring_clock.h"

#include <string.h>

#include "base/num.h"

#define CAL_TRIES 5
/* Largest plausible error of the map from ticks to nanoseconds: 1 ms. If a clock reading differs by
 * more from the map's prediction, one of the two clocks has jumped. Smaller differences are errors
 * of the estimated rate. */
#define STEP_NS 1000000
/* If a reading differs from the map's prediction, the map does not jump to the reading. It
 * approaches the reading gradually, and reaches it after this many ns. */
#define SLEW_NS 250000000

__attribute__((cold, noinline)) uint64_t
mrd_ring_raw_ticks(void)
{
    return (uint64_t) mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);
}

void
mrd_ring_cal_read(mrd_ring_clock_id clock, mrd_ring_cal *ret_cal)
{
    mrd_ring_cal best = { 0 };

    if (clock != MRD_RING_CLOCK_TSC) {
        best.raw_ns = mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);
        best.wall_ns = mrd_ring_clock_gettime(CLOCK_REALTIME);
        best.ticks = (uint64_t) best.raw_ns;
        *ret_cal = best;
        return;
    }
    for (int i = 0; i < CAL_TRIES; i++) {
        uint64_t before = mrd_tsc(), after;
        int64_t raw = mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);

        after = mrd_tsc();
        if (i == 0 || after - before < best.width) {
            best.width = after - before;
            best.ticks = before + best.width / 2;
            best.raw_ns = raw;
            best.wall_ns = mrd_ring_clock_gettime(CLOCK_REALTIME);
        }
    }
    *ret_cal = best;
}

/* Returns the rate between two readings as ns per tick * 2^40, or 0 if the readings are invalid. */
static uint64_t
clock_rate(const mrd_ring_cal *a, const mrd_ring_cal *b)
{
    uint64_t ticks = b->ticks - a->ticks, ns = (uint64_t) b->raw_ns - (uint64_t) a->raw_ns;
    unsigned __int128 mult;

    if ((int64_t) ticks <= 0 || (int64_t) ns <= 0 || a->raw_ns < 0 || b->raw_ns > INT64_MAX / 2)
        return 0;
    mult = ((unsigned __int128) ns << MRD_RING_CLOCK_SHIFT) / ticks;
    if (mult < (1ull << MRD_RING_CLOCK_SHIFT) / 20 || mult > (10ull << MRD_RING_CLOCK_SHIFT))
        return 0;
    return (uint64_t) mult;
}

static int64_t
clock_scale(uint64_t ticks, uint64_t mult)
{
    return (int64_t) (((unsigned __int128) ticks * mult) >> MRD_RING_CLOCK_SHIFT);
}

bool
mrd_ring_clock_init(mrd_ring_clock *clock, mrd_ring_clock_id id, const mrd_ring_cal cal[2],
                    const mrd_ring_cal *own)
{
    const mrd_ring_cal *last = own != NULL ? own : &cal[1];

    memset(clock, 0, sizeof(*clock));
    clock->id = id;
    if (id == MRD_RING_CLOCK_RAW)
        return true;
    clock->first = cal[0];
    clock->last = *last;
    clock->now.mult = clock_rate(&cal[0], last);
    clock->now.ticks = cal[1].ticks;
    clock->now.raw = (mrd_local_ns){ cal[1].raw_ns };
    clock->newest = cal[1].ticks;
    if (clock->now.mult == 0 || cal[0].ticks > cal[1].ticks || cal[0].width > (1ull << 40) ||
        cal[1].width > (1ull << 40))
        return false;
    clock->error_ns = clock_scale(cal[1].width / 2 + last->width / 2, clock->now.mult) + 1;
    return true;
}

static void
clock_keep_old(mrd_ring_clock *clock)
{
    /* The table is full. Drop the oldest segment, because new records rarely need it. */
    if (clock->segment_count == MRD_RING_CLOCK_SEGMENTS) {
        memmove(clock->old, clock->old + 1, sizeof(clock->old) - sizeof(clock->old[0]));
        clock->segment_count--;
    }
    clock->old[clock->segment_count++] = clock->now;
}

/* Adds a segment of the map from ticks to nanoseconds. It starts at the newest converted tick, so
 * that converted times do not jump. SLEW_NS after the reading `cal`, it meets the line through
 * `cal` that has the given rate. */
static void
clock_bend(mrd_ring_clock *clock, const mrd_ring_cal *cal, uint64_t rate)
{
    mrd_ring_segment next;
    uint64_t ahead = (uint64_t) (((unsigned __int128) SLEW_NS << MRD_RING_CLOCK_SHIFT) / rate);
    mrd_ring_cal from, aim;

    next.ticks = clock->newest > clock->now.ticks ? clock->newest : clock->now.ticks;
    next.raw = (mrd_local_ns){ mrd_ring_segment_ns(&clock->now, next.ticks) };
    from.ticks = next.ticks;
    from.raw_ns = next.raw.ns;
    aim.ticks = cal->ticks + ahead;
    aim.raw_ns = cal->raw_ns + SLEW_NS;
    next.mult = clock_rate(&from, &aim);
    if (next.mult == 0)
        next.mult = rate;
    clock_keep_old(clock);
    clock->now = next;
}

void
mrd_ring_clock_add(mrd_ring_clock *clock, const mrd_ring_cal *cal)
{
    uint64_t rate;
    int64_t miss, half;

    if (clock->id == MRD_RING_CLOCK_RAW || (int64_t) (cal->ticks - clock->last.ticks) <= 0 ||
        cal->width > (1ull << 40))
        return;
    rate = clock_rate(&clock->first, cal);
    if (rate == 0)
        return;
    miss = mrd_sat_abs(mrd_sat_sub(cal->raw_ns, mrd_ring_segment_ns(&clock->now, cal->ticks)));
    half = clock_scale(cal->width / 2, rate) + 1;
    if (miss > STEP_NS) {
        clock_keep_old(clock);
        clock->now = (mrd_ring_segment){ clock->newest, { 0 }, rate };
        clock->now.raw = (mrd_local_ns){ mrd_sat_sub(
            cal->raw_ns, clock_scale(cal->ticks - clock->newest, rate)) };
        /* estimate the rate from here on, because a rate measured across the jump would be wrong */
        clock->first = *cal;
        clock->steps++;
    } else if (miss > half) {
        clock_bend(clock, cal, rate);
    }
    clock->error_ns = mrd_sat_add(half, miss);
    clock->last = *cal;
}

int64_t
mrd_ring_clock_error(const mrd_ring_clock *clock, uint64_t ticks)
{
    uint64_t base, width;
    int64_t beyond = (int64_t) (ticks - clock->last.ticks);

    if (clock->id == MRD_RING_CLOCK_RAW)
        return 0;
    base = clock->last.ticks - clock->first.ticks;
    width = (clock->first.width + clock->last.width) / 2 + 1;
    if (beyond <= 0)
        return clock->error_ns;
    if (base == 0)
        return INT64_MAX;
    return mrd_sat_add(
        clock->error_ns,
        clock_scale((uint64_t) (((unsigned __int128) (uint64_t) beyond * width) / base),
                    clock->now.mult));
}

int64_t
mrd_ring_clock_old_ns(const mrd_ring_clock *clock, uint64_t ticks)
{
    const mrd_ring_segment *seg = &clock->now;

    for (uint32_t i = clock->segment_count; i > 0 && ticks < seg->ticks; i--)
        seg = &clock->old[i - 1];
    return mrd_ring_segment_ns(seg, ticks);
}
