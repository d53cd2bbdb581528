/*
 * tests/sim/clocksim.h - simulates a node's clock and the network path to the aggregator. A seed
 * determines both.
 *
 * True time is session time s. The node's clock shows s - x(s), and the code under test must find
 * the offset x. Nothing is measured: everything is computed.
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
    double ppb;  /* added to the clock's rate from this step on */
} sim_step;

typedef struct {
    const char *name;
    uint64_t seed;
    double duration_s;
    /* clock */
    int64_t offset; /* ns */
    double ppm;
    /* The rate follows a sinusoid with this amplitude and period. wave_phase is the share of the
     * period that has passed when the session begins. */
    double wave_ppm, wave_period_s, wave_phase;
    double walk; /* maximum random change of the rate, in ppb per second */
    sim_step steps[4];
    int step_count;
    /* path */
    double rtt_us;       /* least round trip */
    double asymmetry_us; /* minimum forward delay minus minimum backward delay */
    double jitter_us;    /* mean of an exponential distribution, both directions */
    /* mean extra delay of the first packet of a pair, because its receiver must wake up */
    double wake_us;
    double load;                     /* share of the time with congestion in one direction */
    double queue_us;                 /* mean queueing delay during congestion */
    double loss, duplicate, reorder; /* probabilities per packet */
    double dark_from_s, dark_to_s;   /* between these times all packets are lost */
    double frozen_from_s,
        frozen_to_s; /* the agent is stopped: it sends nothing, and answers wait */
    /* Session seconds at which the agent restarts, and numbers its probes (k) from 0 again, and at
     * which the aggregator restarts, and loses its halves of probes. 0 for never. */
    double agent_restart_s, server_restart_s;
    /* probing */
    double pairs_per_s;
    int burst;          /* pairs at start and end */
    double corrupt;     /* probability that a stamp of a probe is wrong by 0.2 to 10 ms */
    bool random_stamps; /* the agent sends random times, to test that no input does harm */
    double replay;      /* probability that an earlier probe is sent and delivered once more */
    /* The node stamps in its wall clock, and the stamps are converted. The wall clock is set by
     * this amount during the pair with this number. 0: the node stamps in RAW */
    int64_t wall_step;
    uint32_t wall_step_pair;
    uint32_t e; /* stated uncertainty; errors of stamps are smaller */
} sim_config;

#define SIM_GRID_MAX 16384

typedef struct {
    sim_config c;
    rng r;
    double *rate, *x; /* random walk at whole seconds: rate (ppb) and its integral (ns) */
    size_t grid;
    mrd_probe *probes; /* in the order in which the aggregator receives them */
    int64_t *known;    /* for each of `probes`: session time in ns when it was received */
    size_t n, cap;
    mrd_joiner *joiner;
    uint32_t agent_epoch;
    mrd_probe_sent last; /* the agent's half of the last joined probe, for replays */
    double wall_step_at; /* session second; 0 if not yet */
    size_t voided;       /* probes dropped because the wall clock was set meanwhile */
    size_t replayed;     /* probes sent once more, which were all refused */
} sim;

void sim_init(sim *s, const sim_config *config); /* generates all probes */
void sim_fini(sim *s);
#define SIM_SESSION_ZERO 1792000000000000000LL /* session times resemble present UTC */

/* Returns the offset at session second t relative to config.offset, in ns. */
double sim_x(const sim *s, double t);
int64_t sim_local(const sim *s, int64_t session_ns);
/* As judge_input.local_of. */
int64_t sim_local_of(void *self, int64_t session_ns);

#endif
