/*
 * capture/api/thread.h - the open items of a thread (pushes, tasks, events, regions) and its
 * statistics. Internal.
 *
 * This state is separate from the ring, so that regions and statistics work for a thread that could
 * not get a ring. The memory is wiped in a child of fork. When a thread ends, a new thread may take
 * over its slot with the statistics, because statistics are sums over all threads.
 */
#ifndef MRD_CAPTURE_API_THREAD_H
#define MRD_CAPTURE_API_THREAD_H

#include "capture/api/record.h"
#include "capture/process.h"

#define MRD_THREAD_OPEN_MAX 256u
#define MRD_THREAD_DEEP_MAX 32u

/* One open item of a thread. `owner` is the task, event or region that was started, or NULL for a
 * push. */
typedef struct {
    const void *owner;
    uint64_t start; /* when the item was opened, in ticks */
    mrd_rec_scoped scope;
} mrd_thread_open;

/* Counts the open items of one owner that are nested deeper than MRD_THREAD_OPEN_MAX. */
typedef struct {
    const void *owner;
    uint64_t count; /* 0 if the slot is free */
} mrd_thread_deep;

struct mrd_stat_table;

typedef struct mrd_thread {
    uint32_t ready;
    /* Number of open items. It may exceed MRD_THREAD_OPEN_MAX. The starts and stops of deeper items
     * are matched, but not recorded. */
    uint32_t depth;
    uint64_t deep_others; /* number of deeper open items of owners without a slot in `deep` */
    mrd_thread_deep deep[MRD_THREAD_DEEP_MAX];
    struct mrd_thread *next_all, *next_free;
    struct mrd_stat_table *stats; /* NULL until the thread uses statistics */
    char error[512];
    mrd_thread_open open[MRD_THREAD_OPEN_MAX];
} mrd_thread;

/* Returns the calling thread's state, and creates it at the first call. Returns NULL if out of
 * memory. */
mrd_thread *mrd_thread_get(void);
/* Returns the calling thread's state, or NULL if the thread never had one and so has no open
 * items. */
mrd_thread *mrd_thread_seen(void);

/* mrd_thread_begin opens an item; `what` describes its span. mrd_thread_end closes the innermost
 * item of this owner and returns false if there is none. *ret_ticks receives how long the item was
 * open, in ticks. ret_ticks may be NULL. */
bool mrd_thread_begin(const void *owner, const mrd_rec_what *what);
bool mrd_thread_end(const void *owner, const mrd_rec_arg *args, size_t count, uint64_t *ret_ticks,
                    mrd_rec_what *ret_what);

/* Calls fn for each thread that ever had a slot. */
void mrd_thread_each(void (*fn)(void *ctx, mrd_thread *thread), void *ctx);

/* Stores the thread's message for mrd_last_error and returns `code`. */
int mrd_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
