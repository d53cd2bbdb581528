/*
 * tests/sim/clocksim.h - a simulated clock and a simulated path, in fake time, from a printed seed.
 *
 * True time is session time s. The node's clock shows s - x(s), so x is the offset that the code
 * under test has to find. Nothing here is measured: it is arithmetic.
 */
#ifndef MRD_TESTS_SIM_CLOCKSIM_H
#define MRD_TESTS_SIM_CLOCKSIM_H

#include "tests/timesync/rng.h"

#include "base/clock.h"
#include "timesync/probe.h"

#include <stdbool.h>

typedef struct {
    double at_s; /* session seconds */
    double jump; /* ns added to x */
    double ppb;  /* added to the rate from there on */
} sim_step;

typedef struct {
    const char *name;
    uint64_t seed;
    double duration_s;
    /* clock */
    int64_t offset; /* ns */
    double ppm;
    double wave_ppm, wave_period_s; /* sinusoid of the rate */
    double walk;                    /* ppb per s: random walk of the rate, at most */
    sim_step steps[4];
    int step_count;
    /* path */
    double rtt_us;                   /* least round trip */
    double asymmetry_us;             /* forward minus backward least delay */
    double jitter_us;                /* mean of an exponential, both directions */
    double wake_us;                  /* extra of the first packet of a pair, mean */
    double load;                     /* share of the time with one-sided congestion */
    double queue_us;                 /* mean of the queue while congested */
    double loss, duplicate, reorder; /* probabilities per packet */
    double dark_from_s, dark_to_s;   /* nothing gets through */
    double frozen_from_s,
        frozen_to_s; /* the agent is stopped: it sends nothing, answers wait for it */
    double agent_restart_s,
        server_restart_s; /* k begins anew; served halves are forgotten. 0 never */
    /* probing */
    double pairs_per_s;
    int burst;          /* pairs at start and end */
    double corrupt;     /* probability that a stamp of a probe is off by 0.2 to 10 ms */
    bool random_stamps; /* the peer lies */
    double replay;      /* probability that an earlier probe is sent and shipped once more */
    /* The node's stamps come in its wall clock and are bridged; it is set by this while the pair of
     * this number is under way. 0: they come in RAW */
    int64_t wall_step;
    uint32_t wall_step_pair;
    uint32_t e; /* stated uncertainty; errors of stamps stay inside */
} sim_config;

#define SIM_GRID_MAX 16384

typedef struct {
    sim_config c;
    rng r;
    double *rate, *x; /* random walk: rate (ppb) and its integral (ns) at whole seconds */
    size_t grid;
    mrd_probe *probes; /* in the order in which the aggregator learns them */
    int64_t *known;    /* session ns at which it does */
    size_t n, cap;
    mrd_joiner *joiner;
    uint32_t agent_epoch;
    mrd_probe_sent last; /* the newest that was joined, for replaying */
    double wall_step_at; /* session second; 0 not yet */
    size_t voided;       /* probes given up because the wall clock moved inside */
    size_t replayed;     /* probes sent once more, all of them refused */
} sim;

void sim_init(sim *s, const sim_config *config); /* generates all probes */
void sim_fini(sim *s);
#define SIM_SESSION_ZERO 1792000000000000000LL /* session times look like UTC of today */

/* Offset at session second t relative to config.offset, ns. */
double sim_x(const sim *s, double t);
int64_t sim_local(const sim *s, int64_t session_ns);
/* The same as judge_input.local_of. */
int64_t sim_local_of(void *self, int64_t session_ns);

#endif
