/*
 * capture/thread.h - what a thread has open: pushes, tasks, events, regions; and its statistics.
 * Internal.
 *
 * Kept apart from the ring, so that regions and statistics work for a thread that could not get
 * one. The memory is wiped in a fork's child. A thread that ends hands its place on, statistics
 * included: they are sums over all threads.
 */
#ifndef MRD_CAPTURE_THREAD_H
#define MRD_CAPTURE_THREAD_H

#include "capture/process.h"
#include "capture/record.h"

#define MRD_THREAD_OPEN_MAX 256u
#define MRD_THREAD_DEEP_MAX 32u

/* One thing that is open. owner: the object, NULL for a push. */
typedef struct {
    const void *owner;
    uint64_t start; /* ticks */
    mrd_rec_scoped scope;
} mrd_thread_open;

/* How many of an owner are open beyond these. */
typedef struct {
    const void *owner;
    uint64_t count; /* 0: the place is free */
} mrd_thread_deep;

struct mrd_stat_table;

typedef struct mrd_thread {
    uint32_t ready;
    uint32_t depth;       /* may exceed MRD_THREAD_OPEN_MAX: those are balanced and counted lost */
    uint64_t deep_others; /* of owners that found no place in deep: told apart no more */
    mrd_thread_deep deep[MRD_THREAD_DEEP_MAX];
    struct mrd_thread *next_all, *next_free;
    struct mrd_stat_table *stats; /* NULL until used */
    char error[512];
    mrd_thread_open open[MRD_THREAD_OPEN_MAX];
} mrd_thread;

/* The calling thread's; NULL without memory. */
mrd_thread *mrd_thread_get(void);
/* The same, or NULL when it never had one: nothing is open. */
mrd_thread *mrd_thread_seen(void);

/* Opens and closes; `what` is of the span. close finds the innermost of this owner; false: none.
 * *ret_ticks (may be NULL) is how long it was open. */
bool mrd_thread_begin(const void *owner, const mrd_rec_what *what);
bool mrd_thread_end(const void *owner, const mrd_rec_arg *args, size_t n, uint64_t *ret_ticks,
                    mrd_rec_what *ret_what);

/* Calls fn for each thread that ever had a place. */
void mrd_thread_each(void (*fn)(void *ctx, mrd_thread *t), void *ctx);

/* Remembers a message for mrd_last_error and returns code. */
int mrd_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
