/*
 * aggregator/loop/loop_int.h - internals of the loop. loop.c has the thread, the inbox and the
 * commands. loop_requests.c handles the frames of agents, loop_effects.c the effects of the core,
 * and loop_results.c the results of other threads.
 */
#ifndef MRD_AGGREGATOR_LOOP_LOOP_INT_H
#define MRD_AGGREGATOR_LOOP_LOOP_INT_H

#include <pthread.h>

#include "aggregator/clock/clocks.h"
#include "aggregator/export/exporter.h"
#include "aggregator/loop/loop.h"
#include "aggregator/loop/surveys.h"
#include "aggregator/merge/merger.h"
#include "aggregator/store/artifacts.h"
#include "aggregator/store/cleaner.h"
#include "aggregator/store/journals.h"
#include "aggregator/viewer/converter.h"
#include "base/sys/pool.h"

#define MRD_REQUESTS_MAX 1024 /* maximum number of unanswered requests of agents; a power of two */

/* An item of the inbox. The loop calls `run`, which also frees the item. */
typedef struct mrd_loop_item {
    struct mrd_loop_item *next;
    void (*run)(mrd_loop *l, struct mrd_loop_item *item);
} mrd_loop_item;

/* A thread that waits for the answer to its command. mrd_loop.lock guards all members. */
typedef struct mrd_loop_waiter {
    struct mrd_loop_waiter *next;
    uint64_t ticket;
    bool done;
    mrd_err err;
    uint64_t value;
    char text[MRD_WHY_MAX];
} mrd_loop_waiter;

struct mrd_loop {
    mrd_loop_options o;
    pthread_t thread;
    bool started;
    /* guards the inbox, the waiters and the flags below; no other lock is taken while it is held */
    pthread_mutex_t lock;
    pthread_cond_t done, news;
    mrd_loop_item *first, **last;
    mrd_loop_waiter *waiters;
    /* `closing`: mrd_loop_close was called. `draining`: the loop's thread takes no more
     * requests. */
    bool closing, draining;
    bool closed; /* the inbox accepts no more items */
    /* The members below are used by the loop's thread only. */
    mrd_core *core;
    /* the slot of a request is given by the low bits of its ticket */
    mrd_server_request requests[MRD_REQUESTS_MAX];
    uint64_t tickets[MRD_REQUESTS_MAX];
    uint64_t last_ticket;
    char id[40]; /* random id of this run of the aggregator */
    mrd_buf reply, repacked;
    mrd_local_ns next_tick, next_look, next_sweep, next_viewer, next_unread;
    /* numbers of connections that the server had closed at the last log line about them */
    uint64_t refused, unaccepted;
    mrd_local_ns next_unaccepted; /* no log line about closed connections before this time */
    mrd_session_view *views[16];
    uint64_t view_versions[16];
    unsigned next_view;
    mrd_overview *overview;
    /* Services with threads of their own. */
    mrd_journals *journals;
    mrd_pool *manifests;
    mrd_merger *merger;
    mrd_exporter *exporter; /* copies sessions to shared storage; NULL if there are no exports */
    /* converts device profiles with the vendor's viewer; NULL if no viewer is configured */
    mrd_converter *viewer;
    mrd_artifacts *artifacts;
    mrd_cleaner *cleaner;
    mrd_surveys *surveys;
};

/* functions in loop.c */
mrd_core_time mrd_loop_now(void);
/* Adds an item to the inbox. Any thread may call this. Returns false if the inbox is closed; the
 * caller then still owns the item. */
bool mrd_loop_post(mrd_loop *loop, mrd_loop_item *item);
void mrd_loop_answer(mrd_loop *loop, uint64_t ticket, mrd_err err, const char *text,
                     uint64_t value);

void mrd_loop_forget_views(mrd_loop *loop);

/* functions in loop_requests.c */
void mrd_loop_request(mrd_loop *loop, mrd_server_request *request);
/* Takes the unanswered request with this ticket out of its slot. The caller must answer the
 * request. Returns false if it was answered already. */
bool mrd_loop_take_request(mrd_loop *loop, uint64_t ticket, mrd_server_request *ret_request);
const mrd_server_request *mrd_loop_borrow_request(const mrd_loop *loop, uint64_t ticket);
void mrd_loop_reply(mrd_loop *loop, uint64_t ticket, uint8_t type, const void *message);

/* Carries out all effects that the last input left (loop_effects.c). */
void mrd_loop_carry(mrd_loop *loop);
/* Completes the probes in clock data with the times of the time server, and encodes the data for
 * storage into loop->repacked. */
mrd_err mrd_loop_clock_data(mrd_loop *loop, mrd_node *node, mrd_frame *frame, mrd_bytes data,
                            mrd_why *why);

/* Carries out the effects of an input that leaves only log lines. */
void mrd_loop_carry_logs(mrd_core *core);

/* functions in loop_results.c */
mrd_err mrd_loop_open_services(mrd_loop *loop, mrd_why *why);
/* Queues a write of the session's manifest with the version `version`. Takes ownership of `view`,
 * the copy of the session. If it is NULL (out of memory), the write fails. */
void mrd_loop_save(mrd_loop *loop, mrd_session_view *view, uint64_t session, uint64_t version);
/* queues a write of nodes.json, and takes ownership of the text */
void mrd_loop_save_nodes(mrd_loop *loop, mrd_buf *text, bool durable);
/* Queue the result "failed" of work that could not be passed to a thread. The core then receives
 * this result in the same way as from the thread. */
void mrd_loop_stored(mrd_loop *loop, uint64_t ticket, const mrd_why *failed);
void mrd_loop_not_merged(mrd_loop *loop, uint64_t session);
void mrd_loop_not_converted(mrd_loop *loop, const mrd_conversion_of *of);
void mrd_loop_exported(mrd_loop *loop, uint64_t session, const mrd_why *failed);

#endif
