/*
 * tests/sim/cluster.h - a whole cluster in one process in simulated time. It has the real core of
 * the aggregator, with its real journals, manifests and recovery on a simulated disk (disk.h), and
 * real agents (cluster_node.h) or models of them. Network and clocks are simulated, and each part
 * can crash.
 *
 * All random choices come from one seed, which repeats a run exactly (`hash` covers everything that
 * the core did). Invariants are checked in each step and at the end. The first violation ends the
 * run and is its result.
 *
 * Real     With plan.real nodes run the real agent (cluster_node.h).
 * Model    Otherwise an agent numbers batches per session in a spool that survives its process. It
 *          has at most 8 requests in flight, resends unanswered ones, sends a heartbeat per second,
 *          and obeys directives and surveys. The network delays, loses, duplicates and reorders
 *          messages, cuts connections and partitions nodes.
 * Disk     store.c, journal*.c, journals.c with its thread, pool.c and cleaner.c are real
 *          (cluster_store.c; threads.h runs their threads). Each of their calls takes time. It can
 *          fail, be short, or be the last call before a crash of the process or machine. Unsynced
 *          data is then present, partial, torn or lost. After every start and at the end, all
 *          frames acknowledged as stored must be present. Some acknowledgements, and all about
 *          frames stored before, are also verified on the medium at once. With plan.modelled the
 *          aggregator's disk is a model in cluster_server.c, for runs with many nodes.
 * Loop     With plan.real the aggregator is its real loop with all threads (cluster_loop.c),
 *          otherwise cluster_server.c.
 * Exports  With plan.exports sessions are copied to a shared storage: with plan.real by the real
 *          exporter into a directory (cluster_shared.c), otherwise by a model (cluster_export.c).
 *          The real core decides when to copy, and which sessions plan.retain removes.
 * Absent   HTTP, S3, and workloads with device profiles.
 */
#ifndef MRD_TESTS_SIM_CLUSTER_H
#define MRD_TESTS_SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "tests/sim/disk.h"

/* The kind of faults that occurs most often on nodes with real agents. */
typedef enum {
    SIM_MOSTLY_NOTHING,     /* all kinds of faults are equally frequent */
    SIM_MOSTLY_SPOOLS,      /* frequent kills, full disks and cut connections */
    SIM_MOSTLY_SLOW_SPOOLS, /* as above, with late answers */
    SIM_MOSTLY_FILES /* many files, which arrive late; no fault with which a file may be lost */
} sim_mostly;

typedef struct {
    uint64_t seed;
    unsigned nodes;
    mrd_dur_ns duration;    /* length of the phase with faults and sessions; then all faults end */
    mrd_dur_ns batch_every; /* per node and session */
    mrd_dur_ns probe_every; /* 0: no clocks */
    unsigned sessions;      /* number of sessions that users start in that phase */
    bool faults;            /* all of the following faults, drawn from the seed */
    bool calm;              /* one session over the whole time, for speed */
    bool modelled;          /* the aggregator's disk is a model, for speed */
    bool exports;           /* sessions are copied to a shared storage */
    mrd_dur_ns retain;      /* maximum age of sessions; 0 keeps them forever */
    /* maximum size of all sessions, the oldest are removed; 0 for no limit */
    int64_t retain_bytes;
    bool pauses; /* users pause sessions at random times; only with real agents */
    /* size in bytes at which a session is stopped, only with real agents; 0 means no limit */
    int64_t session_bytes;
    int64_t agent_rate;  /* bytes/s; 0 for no limit */
    int64_t spool_bytes; /* of real agents */
    bool real;           /* nodes run the real agent (cluster_node.h), not the model */
    sim_mostly mostly;   /* for real agents: the kind of faults that occurs most */
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
    uint64_t late;    /* events read by nodes before they received the session */
    uint64_t limited; /* sessions stopped by their size, and agents delayed by a rate */
    unsigned most_pending, most_surveys;
    /* of the simulated disk */
    uint64_t disk_calls, disk_errors, not_stored, duplicates;
    uint64_t died_in[SIM_DISK_CALLS];
    uint64_t node_power_failures, suspends, wall_steps, agent_disk_calls,
        udp_answers; /* of real agents */
} sim_result;

/* Time between the end of the faults and the end of the run. It is longer than a flush, all
 * backoffs and a merge together, so that all sessions complete. */
#define SIM_HEAL_TIME (400 * MRD_SEC)
#define SIM_CALM_END  (100 * MRD_SEC) /* SIM_HEAL_TIME of a calm run, which has no faults */

void sim_run(const sim_plan *plan, sim_result *ret_result);

#endif
