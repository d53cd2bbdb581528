/*
 * aggregator/loop/loop_int.h - internals of the loop: loop.c (thread, inbox, commands), loop_requests.c
 * (frames of agents), loop_effects.c (effects of the core), loop_results.c (results of other
 * threads)
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

#define MRD_REQUESTS_MAX 1024 /* requests of agents that are not answered yet; a power of two */

/* An item of the inbox, which the loop runs and frees. */
typedef struct mrd_loop_item {
    struct mrd_loop_item *next;
    void (*run)(mrd_loop *l, struct mrd_loop_item *item);
} mrd_loop_item;

/* A waiting thread. Guarded by the inbox's lock. */
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
    pthread_mutex_t lock; /* guards the inbox and the waiters; a leaf lock */
    pthread_cond_t done, news;
    mrd_loop_item *first, **last;
    mrd_loop_waiter *waiters;
    bool closing, draining; /* closing was requested; the thread takes no more requests */
    bool closed;            /* the inbox accepts no more items */
    /* The thread's alone. */
    mrd_core *core;
    mrd_server_request requests[MRD_REQUESTS_MAX]; /* indexed by the low bits of their ticket */
    uint64_t tickets[MRD_REQUESTS_MAX];
    uint64_t last_ticket;
    char id[40]; /* of this run */
    mrd_buf reply, repacked;
    mrd_local_ns next_tick, next_look, next_sweep, next_viewer, next_unread;
    uint64_t refused, unaccepted; /* closed connections at the last log line */
    mrd_local_ns next_unaccepted; /* not logged again before */
    mrd_session_view *views[16];
    uint64_t view_versions[16];
    unsigned next_view;
    mrd_overview *overview;
    /* Other threads. */
    mrd_journals *journals;
    mrd_pool *manifests;
    mrd_merger *merger;
    mrd_exporter *exporter; /* NULL: no exports */
    mrd_converter *viewer;  /* NULL: none is wanted */
    mrd_artifacts *artifacts;
    mrd_cleaner *cleaner;
    mrd_surveys *surveys;
};

/* loop.c */
mrd_core_time mrd_loop_now(void);
/* Posts an item from any thread. Returns false if the inbox is closed; the item then stays with the
 * caller. */
bool mrd_loop_post(mrd_loop *loop, mrd_loop_item *item);
void mrd_loop_answer(mrd_loop *loop, uint64_t ticket, mrd_err err, const char *text,
                     uint64_t value);

void mrd_loop_forget_views(mrd_loop *loop);

/* loop_requests.c */
void mrd_loop_request(mrd_loop *loop, mrd_server_request *request);
/* Gets the request of a ticket, which the caller must answer. Returns false if it was answered
 * already. */
bool mrd_loop_take_request(mrd_loop *loop, uint64_t ticket, mrd_server_request *ret_request);
const mrd_server_request *mrd_loop_borrow_request(const mrd_loop *loop, uint64_t ticket);
void mrd_loop_reply(mrd_loop *loop, uint64_t ticket, uint8_t type, const void *message);

/* loop_effects.c: carries out all effects of the last input. */
void mrd_loop_carry(mrd_loop *loop);
/* Encodes clock data for storage into loop->repacked. */
mrd_err mrd_loop_clock_data(mrd_loop *loop, mrd_node *node, mrd_frame *frame, mrd_bytes data,
                            mrd_why *why);

/* For an input with log lines as its only effects. */
void mrd_loop_carry_logs(mrd_core *core);

/* loop_results.c */
mrd_err mrd_loop_open_services(mrd_loop *loop, mrd_why *why);
/* Takes ownership of the view; NULL means out of memory. */
void mrd_loop_save(mrd_loop *loop, mrd_session_view *view, uint64_t session, uint64_t version);
void mrd_loop_save_nodes(mrd_loop *loop, mrd_buf *text, bool durable); /* takes the text */
/* Queued results, in the order in which threads would deliver them. */
void mrd_loop_stored(mrd_loop *loop, uint64_t ticket, const mrd_why *failed);
void mrd_loop_not_merged(mrd_loop *loop, uint64_t session);
void mrd_loop_not_converted(mrd_loop *loop, const mrd_conversion_of *of);
void mrd_loop_exported(mrd_loop *loop, uint64_t session, const mrd_why *failed);

#endif
