/*
 * agent/rings/open_spans.h - spans with their end in another record, possibly of another thread: begins
 * without an end yet, and ends that came before their begin. Threads: the drain's.
 */
#ifndef MRD_AGENT_RINGS_OPEN_SPANS_H
#define MRD_AGENT_RINGS_OPEN_SPANS_H

#include "base/clock.h"
#include "base/err.h"
#include "trace/model/event.h"

#define MRD_OPEN_SPANS_MAX   (1u << 16)          /* of a process */
#define MRD_OPEN_SPANS_BYTES ((size_t) 32 << 20) /* of their texts and entries */

typedef struct mrd_open_span {
    struct mrd_open_span *next;
    uint64_t key;
    size_t bytes;
    bool early;         /* only the end was seen yet; `ev` has its time and arguments */
    bool saved;         /* it is in the file for a successor */
    bool model;         /* the key is of a loaded model */
    bool left;          /* its owner died before this agent saw it alive, so no record can end it */
    mrd_local_ns since; /* RAW time when this entry was made */
    uint64_t lost;      /* proc.lost by then */
    mrd_event ev;       /* args are stored after the struct */
    mrd_arg args[];     /* then their text */
} mrd_open_span;

typedef struct {
    mrd_open_span **slots;
    size_t n_slots, n;
    size_t bytes; /* of the spans */
    size_t n_early, n_saved;
    /* Saved entries that were removed since the file was written: key and `early`. */
    uint64_t (*taken)[2];
    size_t n_taken, cap_taken;
    bool taken_lost; /* no memory for one */
} mrd_open_spans;

void mrd_open_spans_fini(mrd_open_spans *opens);
size_t mrd_open_spans_memory(const mrd_open_spans *opens);
mrd_open_span *mrd_open_spans_find(mrd_open_spans *opens, uint64_t key, bool early);
/* Stores a copy. Errors: LIMIT, NOMEM. */
mrd_err mrd_open_spans_add(mrd_open_spans *opens, uint64_t key, bool early, mrd_local_ns since,
                           const mrd_event *ev);
/* Takes it out; free() it. */
void mrd_open_spans_take(mrd_open_spans *opens, mrd_open_span *span);
/* Marks them as stored in the file for a successor. */
void mrd_open_spans_saved(mrd_open_spans *opens, mrd_open_span *const *spans, size_t n);
/* None is. */
void mrd_open_spans_unsave(mrd_open_spans *opens);

#endif
