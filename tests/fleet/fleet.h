/*
 * tests/fleet/fleet.h - many agents in one process: each is a whole mrd_agent with its own
 * connections, spool, clock probes and answers to control. Only what rings would give is put in
 * from here: a simulated workload, whose every event is known, so that what an aggregator stored
 * can be held against it one by one.
 *
 * The workload of each node is executions of a model (tests/fleet/workload.h), given when they end.
 * Event k of execution n has the id n << 8 | k.
 *
 * Threads: one plays all agents; the transport has its own. Nothing may fork after fleet_open.
 */
#ifndef MRD_TESTS_FLEET_H
#define MRD_TESTS_FLEET_H

#include "base/clock.h"
#include "base/err.h"
#include "proto/link.h"

typedef struct {
    const char *data_url, *control_url;
    const char
        *certs; /* folder of `meridian certs`, with a certificate for each agent; NULL: no TLS */
    unsigned agents;
    unsigned first;    /* number of the first node's name, "fleet-0000" */
    mrd_dur_ns period; /* between two executions of one node; 0: no workload */
    mrd_dur_ns flush;  /* of a batch; 0: 200 ms */
    mrd_dur_ns reconnect_min_ns, reconnect_max_ns; /* as in proto/link.h */
    const char *token_file;
} fleet_options;

typedef struct fleet fleet;

mrd_err fleet_open(const fleet_options *options, fleet **ret_fleet, mrd_why *why);
void fleet_close(fleet *f);
/* Plays all agents until `done` says so (NULL: never) or the time is over; true when it was done.
 * `done` is asked about every 50 ms. */
bool fleet_play(fleet *f, mrd_dur_ns time, bool (*done)(void *self), void *self);
/* All agents lose their connections in one moment and begin new ones. */
void fleet_cut(fleet *f);
/* The workload pauses, or goes on. */
void fleet_work(fleet *f, bool work);

#define FLEET_BUCKETS 400 /* 16 to a factor of two, from 1 us */

typedef struct {
    unsigned welcomed; /* agents connected now */
    uint64_t emitted;  /* by the workload, whether or not a session recorded */
    /* Of the session that was recorded last, over all agents, as these count. */
    uint64_t begun, delivered, dropped, held;
    uint64_t batches, hellos, reconnects, retried, refused, bytes;
    unsigned flushed, recording; /* agents in that phase */
    /* From an event's end to its acknowledgement, events by bucket. */
    uint64_t latency[FLEET_BUCKETS], latencies;
} fleet_counts;

void fleet_count(const fleet *f, fleet_counts *ret_counts);
void fleet_latency_reset(fleet *f);
/* In nanoseconds, at most 5 % too high. */
int64_t fleet_latency(const fleet_counts *c, double share);

/* "fleet-0007" */
#define FLEET_NAME 32
void fleet_name_of(unsigned number, char name[FLEET_NAME]);
const char *fleet_name(const fleet *f, unsigned agent);
/*
 * Holds the frames of one node's journal against its workload: every event between the two times
 * exactly once, none from much before, none that was never emitted. Later ones may be there: a node
 * takes events until it hears of the stop. Returns how many events are there; `missing` and
 * `foreign` (unknown, too early, or twice) count what is wrong.
 */
uint64_t fleet_check_journal(const fleet *f, unsigned agent, const char *dir, int64_t from_ns,
                             int64_t to_ns, uint64_t *ret_missing, uint64_t *ret_foreign);

#endif
