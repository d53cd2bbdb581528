/*
 * agent/daemon/collector.h - the interface of collectors. There is one for rings, counters, the
 * node's clock, files, and so on. A collector is one file that defines `const mrd_collector
 * mrd_collector_x`, and one row in agent/daemon/collectors.def. agent/daemon/collectors.c calls all
 * collectors in the order of the rows.
 *
 * Phases   First open. Then start, when the recorder exists. Then turns (step). At the end finish,
 *          then stop while the recorder still exists, then close. The calls of stop and close are
 *          in the reverse order of the rows.
 * Turns    They never block, and end within MRD_COLLECTOR_TURN_NS. The rest is done in the next
 *          turn.
 * Events   A collector passes events to mrd_agent_event, with times of the node's clock
 *          (CLOCK_MONOTONIC_RAW). It passes files to the artifact queue (agent/files/files.h).
 * Losses   Each event that a collector knows of was delivered, is held, or is lost by a cause.
 *          `account` adds all three to the agent's counts, which heartbeats and metrics contain.
 * Members  Members that a collector does not need are NULL. `self` is the result of open.
 * Threads  All members are called by one thread, the agent's loop. A collector may have another
 *          thread of its own.
 */
#ifndef MRD_AGENT_DAEMON_COLLECTOR_H
#define MRD_AGENT_DAEMON_COLLECTOR_H

#include "agent/rings/drain.h"

typedef struct mrd_agent mrd_agent;

#define MRD_COLLECTORS_MAX 16
#define MRD_COLLECTOR_FDS  4
/* time limit of one turn; the turns that take longer are counted */
#define MRD_COLLECTOR_TURN_NS (50 * MRD_MS)

/* Numbers of events of a collector since the agent started. */
typedef struct {
    uint64_t begun; /* all events that the collector knows of: delivered, held and lost ones */
    /* events that wait inside the collector; events in the recorder or the spool do not count */
    uint64_t held;
    uint64_t dropped[MRD_DROP_CAUSES];
} mrd_collector_account;

typedef struct {
    const char *name;
    /* If open or start fails, the agent ends with the error's message. */
    mrd_err (*open)(mrd_agent *a, void **ret_self, mrd_why *why);
    mrd_err (*start)(void *self, mrd_why *why);
    /* Runs one turn at the RAW time `now`. */
    void (*step)(void *self, mrd_local_ns now);
    /* Returns when `step` is due even if no descriptor is readable; INT64_MAX means never. */
    mrd_local_ns (*next_ns)(const void *self);
    /* Gets the descriptors that the agent's loop polls. `step` is called when one of them is
     * readable. -1 marks an unused entry. */
    void (*fds)(const void *self, int ret_fds[MRD_COLLECTOR_FDS]);
    /* Prepares the collector for a session. It is no error if this was done before, by an earlier
     * call or by a previous agent. If `begin` fails, the node refuses the session. */
    mrd_err (*begin)(void *self, uint64_t session, mrd_why *why);
    /* Called when a flight recorder is triggered. Sends the events that the collector holds for the
     * session. */
    void (*save)(void *self, uint64_t session, mrd_local_ns now);
    /* Called when the session ended and is removed from this node, or when it could not begin. */
    void (*end)(void *self, uint64_t session);
    /* Called when a process with rings appeared, or when it ended (process->gone is true). */
    void (*process)(void *self, mrd_drain_process *process);
    /* Handles a notice that libmeridian in the workload sent. */
    void (*notice)(void *self, mrd_drain_process *process, const mrd_event *ev);
    /* Called when a process loads or unloads a model. `number` is the handle of the model. */
    void (*model)(void *self, mrd_drain_process *process, uint64_t number, bool load,
                  const mrd_event *ev);
    /* Calls `call` for each partly processed file, with the file's key and how far it was
     * processed. Each commit stores this value. The next agent finds it in mrd_spool_recovered and
     * continues there. */
    void (*positions)(const void *self, void (*call)(void *to, uint64_t key, uint64_t value),
                      void *to);
    /* requests that the next turns emit all events that the collector still holds */
    void (*finish)(void *self);
    /* returns true if the agent need not wait for this collector before it ends */
    bool (*idle)(const void *self);
    /* adds the collector's counts of events to *sum */
    void (*account)(const void *self, mrd_collector_account *sum);
    void (*stop)(void *self);
    void (*close)(void *self);
    /* this collector gets no turns while the agent pauses reading the rings to stay below
     * --cpu-limit */
    bool pauses;
} mrd_collector;

/* ---- Function that collectors call ---- */

/* Passes an event to every session that selects it. Also checks whether the event triggers a flight
 * recorder. */
mrd_err mrd_agent_event(void *agent, mrd_drain_process *process, unsigned clock,
                        const mrd_event *ev);

/* ---- Functions that the agent calls: each calls all collectors in order (collectors.c) ---- */

mrd_err mrd_collectors_open(mrd_agent *agent, mrd_why *why);
mrd_err mrd_collectors_start(mrd_agent *agent, mrd_why *why);
void mrd_collectors_step(mrd_agent *agent, mrd_local_ns now);
mrd_local_ns mrd_collectors_next_ns(const mrd_agent *agent);
size_t mrd_collectors_fds(const mrd_agent *agent, int *ret_fds, size_t room);
/* Begins the session in all collectors. If one fails, ends the session again in the collectors
 * before it, and returns the error. */
mrd_err mrd_collectors_begin(mrd_agent *agent, uint64_t session, mrd_why *why);
void mrd_collectors_save(mrd_agent *agent, uint64_t session, mrd_local_ns now);
void mrd_collectors_process(mrd_agent *agent, mrd_drain_process *process);
void mrd_collectors_notice(mrd_agent *agent, mrd_drain_process *process, const mrd_event *ev);
void mrd_collectors_model(mrd_agent *agent, mrd_drain_process *process, uint64_t number, bool load,
                          const mrd_event *ev);
/* Calls the member `positions` of all collectors. Passed as mrd_record_options.files, with the
 * agent as `self`. */
void mrd_collectors_positions(void *self, void (*call)(void *to, uint64_t key, uint64_t value),
                              void *to);
void mrd_collectors_finish(mrd_agent *agent);
bool mrd_collectors_idle(const mrd_agent *agent);
void mrd_collectors_account(const mrd_agent *agent, mrd_collector_account *ret_sum);
void mrd_collectors_stop(mrd_agent *agent); /* stops the collectors in reverse order */
void mrd_collectors_close(mrd_agent *agent);
/* Gets the name of the i-th collector, and how many of its turns took longer than
 * MRD_COLLECTOR_TURN_NS. Returns false if there is no i-th collector. */
bool mrd_collectors_get(const mrd_agent *agent, size_t i, const char **ret_name,
                        uint64_t *ret_turns_over);

#endif
