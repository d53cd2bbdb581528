/*
 * sim/simclock.h - a simulated clock with a known error, as on a node with an inaccurate oscillator
 *
 * The environment variable MERIDIAN_SIM_CLOCK describes the error. The simulated runtime reads it
 * itself. In the agent and the application, which are not changed, libsimclock.so
 * (simclock_preload.c) replaces the functions that read clocks. So all times of a simulated node
 * have the same error.
 *
 * Grammar  A list separated by commas. Only step and wallstep may be repeated. A DUR is a duration
 *          such as "5ms", "-300us" or "1.5s".
 *            offset=DUR        simulated time minus true time at the epoch
 *            ppm=NUMBER        rate error. With 20, the clock runs fast by 20 us per second.
 *            wander=DUR/DUR    a sine with this amplitude and this period
 *            step=DUR@DUR      a jump by the first DUR, at the second DUR after the epoch. Up to 16
 *                              of these are possible.
 *            wallstep=DUR@DUR  the same for the wall clock only, also up to 16
 *            epoch=NS          time of the true CLOCK_MONOTONIC_RAW at which the errors start; by
 *                              default 0, the boot. It must be the same in all processes of a node.
 *          Example: offset=5ms,ppm=20,wander=100us/60s,step=2ms@10s,epoch=1234567890
 * Units    nanoseconds. True time is this machine's CLOCK_MONOTONIC_RAW.
 * Sign     delta = simulated - true. It is positive if the simulated clock is ahead.
 * Threads  a mrd_simclock is constant after parsing. Its functions are async-signal-safe.
 * Accuracy each result is accurate to 1 ns, for 290 years around the epoch.
 */
#ifndef MRD_SIM_SIMCLOCK_H
#define MRD_SIM_SIMCLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

#define MRD_SIMCLOCK_ENV   "MERIDIAN_SIM_CLOCK"
#define MRD_SIMCLOCK_STEPS 16

typedef struct {
    mrd_dur_ns by, after; /* size of the step in ns, and its time after the epoch */
} mrd_simclock_step;

typedef struct {
    mrd_local_ns epoch;
    mrd_dur_ns offset_ns;
    int64_t rate_ppt; /* rate error of the clock, in parts per 10^12 */
    mrd_dur_ns wander_ns, wander_period_ns;
    mrd_simclock_step steps[MRD_SIMCLOCK_STEPS], wall_steps[MRD_SIMCLOCK_STEPS];
    size_t step_count, wall_step_count;
} mrd_simclock;

/* Parses the description of a clock. NULL or "" means a clock without error. Leaves *ret_clock
 * unchanged on an error. Errors: SYNTAX, RANGE, LIMIT, EXISTS (a key occurs twice), UNSUPPORTED (an
 * unknown key). */
mrd_err mrd_simclock_parse(const char *text, mrd_simclock *ret_clock, mrd_why *why);

/* Return by how many ns the simulated clock is ahead of the true one when the true raw clock shows
 * raw_ns. The first is for the raw clock, the second for the wall clock. */
mrd_dur_ns mrd_simclock_delta(const mrd_simclock *clock, int64_t raw_ns);
mrd_dur_ns mrd_simclock_wall_delta(const mrd_simclock *clock, int64_t raw_ns);

/* Return what the raw clock and the wall clock of the simulated node show when the true clocks show
 * raw_ns and wall_ns. */
mrd_local_ns mrd_simclock_local(const mrd_simclock *clock, int64_t raw_ns);
mrd_wall_ns mrd_simclock_wall(const mrd_simclock *clock, int64_t raw_ns, int64_t wall_ns);

#endif
