/*
 * tests/sim/cluster.h - a whole cluster in one process in fake time: the real core of the
 * aggregator with its real journals, manifests and recovery on a simulated disk (disk.h), real
 * agents (cluster_node.h) or models of them, a fake network and fake clocks, with crashes of each.
 *
 * Everything random comes from one seed: a run is repeated by it, byte for byte (`hash` is of all
 * that the core did). What must hold is checked at every step and at the end; the first violation
 * ends the run and is the answer.
 *
 * Real     with plan.real nodes run the real agent, see cluster_node.h.
 * Model    else an agent numbers batches per session in a spool that survives its process, sends at most
 *          8 at one time, repeats what is not answered, beats once a second, and follows
 *          directives and questions. The network delays, loses, repeats, reorders, cuts connections
 *          and partitions nodes.
 * Disk     store.c, journal*.c, journals.c with its thread, pool.c and cleaner.c are the real ones
 *          (cluster_store.c; threads.h runs their threads). Each of their calls takes its time and
 *          may fail, be short, or be the last one of the process or of the machine; what was not
 *          synced is then there, in part, torn or gone. After every start and at the end all that
 *          was answered as stored is there; a part of the answers, and all that are about frames
 *          stored before, are looked for on the medium alone at once. With plan.modelled the
 *          aggregator's disk is a model in cluster_server.c, for runs of many nodes.
 * Loop     with plan.real the aggregator is its real loop with all threads (cluster_loop.c); else
 *          cluster_server.c stands for it.
 * Exports  with plan.exports sessions are copied to a shared storage; with plan.real by the real exporter into a folder
 *          (cluster_shared.c), else by a model (cluster_export.c); who decides when, and what goes of the store by
 *          plan.retain, is the real core.
 * Not real HTTP, S3; no workload answers for device profiles.
 */
#ifndef MRD_TESTS_SIM_CLUSTER_H
#define MRD_TESTS_SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "tests/sim/disk.h"

/* What goes wrong with nodes of real agents. */
typedef enum {
    SIM_MOSTLY_NOTHING,     /* all kinds alike */
    SIM_MOSTLY_SPOOLS,      /* kills, full disks and cuts, close to each other */
    SIM_MOSTLY_SLOW_SPOOLS, /* the same, and answers come late */
    SIM_MOSTLY_FILES /* many files, and what holds up their way; none that excuses a lost one */
} sim_mostly;

typedef struct {
    uint64_t seed;
    unsigned nodes;
    mrd_dur_ns duration;    /* of faults and sessions; then all heals and the end is awaited */
    mrd_dur_ns batch_every; /* of each node in each session */
    mrd_dur_ns probe_every; /* 0: no clocks */
    unsigned sessions;      /* begun in that time, besides those that a plan asks for */
    bool faults;            /* all of those below, drawn from the seed */
    bool calm;              /* one session over the whole time: for speed */
    bool modelled;          /* the aggregator's disk is a model: for speed */
    bool exports;           /* sessions are copied to a shared storage */
    mrd_dur_ns retain;      /* 0: for ever; sessions older than this go */
    int64_t retain_bytes;   /* 0: no limit; the oldest go beyond this */
    bool pauses;            /* sessions are paused; of real agents */
    int64_t session_bytes;  /* of real agents: a session that is larger is stopped; 0: none */
    int64_t agent_rate;     /* bytes/s; 0: no limit */
    int64_t spool_bytes;    /* of real agents */
    bool real;              /* nodes run the real agent (cluster_node.h), not the model */
    sim_mostly mostly;      /* ... and most of their faults are of one kind */
    bool verbose;
} sim_plan;

typedef struct {
    bool ok;
    char what[400]; /* the violation */
    mrd_dur_ns at;  /* when */
    uint64_t hash;
    uint64_t steps, events, stored, acknowledged, heartbeats, surveys, saves;
    uint64_t crashes, power_failures, agent_crashes, cuts, full_disks, repeats, lost_messages;
    uint64_t sessions, complete, failed, lost_events, triggers, windows, bounds_checked, files,
        merged;
    uint64_t exports, retired, paused_events;
    uint64_t late;    /* events that nodes had read before they were told of a session */
    uint64_t limited; /* sessions that were stopped by their size, agents that a rate held back */
    unsigned most_pending, most_surveys;
    /* of the simulated disk */
    uint64_t disk_calls, disk_errors, not_stored, duplicates;
    uint64_t died_in[SIM_DISK_CALLS];
    uint64_t node_power_failures, suspends, wall_steps, agent_disk_calls,
        udp_answers; /* of real agents */
} sim_result;

/* From the end of a run's faults to its own: more than a flush, all back-offs and a merge together. */
#define SIM_HEAL_TIME (400 * MRD_SEC)
#define SIM_CALM_END  (100 * MRD_SEC) /* the same of a calm one, which has no faults */

void sim_run(const sim_plan *plan, sim_result *ret_result);

#endif
