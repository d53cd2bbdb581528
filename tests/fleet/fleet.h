/*
 * tests/fleet/fleet.h - many agents in one process. Each is a whole mrd_agent with its own
 * connections, spool, clock probes and control answers. Only the contents of rings are replaced by
 * a simulated workload. All its events are recorded here, so that the stored events can be compared
 * one by one.
 *
 * The workload of each node consists of executions of a model (tests/fleet/workload.h), given when
 * they end. Event k of execution n has the id n << 8 | k.
 *
 * Threads: one runs all agents; the transport has its own. Nothing may fork after fleet_open.
 */
#ifndef MRD_TESTS_FLEET_H
#define MRD_TESTS_FLEET_H

#include "base/clock.h"
#include "base/err.h"
#include "proto/link.h"

typedef struct {
    const char *data_url, *control_url;
    const char
        /* directory of `meridian certs` with a certificate for each agent; NULL for no TLS */
        *certs;
    unsigned agents;
    unsigned first;    /* number in the name of the first node, such as 0 in "fleet-0000" */
    mrd_dur_ns period; /* between two executions of one node; 0 for no workload */
    mrd_dur_ns flush;  /* time after which a batch is sent; 0 means 200 ms */
    mrd_dur_ns reconnect_min_ns, reconnect_max_ns; /* as in proto/link.h */
    const char *token_file;
} fleet_options;

typedef struct fleet fleet;

mrd_err fleet_open(const fleet_options *options, fleet **ret_fleet, mrd_why *why);
void fleet_close(fleet *f);
/* Runs all agents until `done` returns true (NULL: never) or the time is over. `done` is called
 * about every 50 ms. Returns true if it returned true. */
bool fleet_play(fleet *f, mrd_dur_ns time, bool (*done)(void *self), void *self);
/* Cuts the connections of all agents at once. They connect again. */
void fleet_cut(fleet *f);
/* Pauses or continues the workload. */
void fleet_work(fleet *f, bool work);

#define FLEET_BUCKETS 400 /* number of latency buckets: 16 per factor of two, from 1 us */

typedef struct {
    unsigned welcomed; /* agents connected now */
    /* number of events that the workload made, with or without a recording session */
    uint64_t emitted;
    /* Sums over all agents for the last recorded session, from the agents' counts. */
    uint64_t begun, delivered, dropped, held;
    uint64_t batches, hellos, reconnects, retried, refused, bytes;
    unsigned flushed, recording; /* agents in that phase */
    /* Time from an event's end to its acknowledgement: number of events per bucket. */
    uint64_t latency[FLEET_BUCKETS], latencies;
} fleet_counts;

void fleet_count(const fleet *f, fleet_counts *ret_counts);
void fleet_latency_reset(fleet *f);
/* Returns the latency in ns that this share of the events did not exceed. The result is at most 5 %
 * too high. */
int64_t fleet_latency(const fleet_counts *c, double share);

/* "fleet-0007" */
#define FLEET_NAME 32
void fleet_name_of(unsigned number, char name[FLEET_NAME]);
const char *fleet_name(const fleet *f, unsigned agent);
/*
 * Compares the frames of one node's journal with its workload. Every event between the two times
 * must be there once, none from much earlier, and none that was never emitted. Later events are
 * allowed, because a node records until it receives the stop. Returns the number of events.
 * `missing` and `foreign` (unknown, too early, or duplicate) count the errors.
 */
uint64_t fleet_check_journal(const fleet *f, unsigned agent, const char *dir, int64_t from_ns,
                             int64_t to_ns, uint64_t *ret_missing, uint64_t *ret_foreign);

#endif
