/*
 * agent/rings/open_spans.h - spans with their end in another record, possibly of another thread:
 * begins without an end yet, and ends that came before their begin. Threads: the drain's.
 */
#ifndef MRD_AGENT_RINGS_OPEN_SPANS_H
#define MRD_AGENT_RINGS_OPEN_SPANS_H

#include "base/clock.h"
#include "base/err.h"
#include "trace/model/event.h"

#define MRD_OPEN_SPANS_MAX (1u << 16) /* maximum number of entries of one process */
/* maximum memory of one process's entries and their texts */
#define MRD_OPEN_SPANS_BYTES ((size_t) 32 << 20)

typedef struct mrd_open_span {
    struct mrd_open_span *next;
    uint64_t key;
    size_t bytes;
    bool early; /* only the span's end was read yet; `ev` has its time and arguments */
    bool saved; /* the entry is in the file for a later agent (open_log.c) */
    bool model; /* the span is the time in which a model is loaded */
    /* the owner exited before this agent saw it running, so no record can end the span */
    bool left;
    mrd_local_ns since; /* RAW time when this entry was made */
    uint64_t lost;      /* value of proc.lost at that time */
    mrd_event ev;       /* the event; its arguments are stored after the struct */
    mrd_arg args[];     /* followed by the texts of the arguments */
} mrd_open_span;

typedef struct {
    mrd_open_span **slots;
    size_t n_slots, n;
    size_t bytes; /* memory of the spans */
    size_t n_early, n_saved;
    /* Key and `early` of saved entries that were removed since the file was written. */
    uint64_t (*taken)[2];
    size_t n_taken, cap_taken;
    bool taken_lost; /* out of memory: `taken` lacks an entry */
} mrd_open_spans;

void mrd_open_spans_fini(mrd_open_spans *opens);
size_t mrd_open_spans_memory(const mrd_open_spans *opens);
mrd_open_span *mrd_open_spans_find(mrd_open_spans *opens, uint64_t key, bool early);
/* Stores a copy of the event. Errors: LIMIT, NOMEM. */
mrd_err mrd_open_spans_add(mrd_open_spans *opens, uint64_t key, bool early, mrd_local_ns since,
                           const mrd_event *ev);
/* Removes the span from the set. The caller frees it with free(). */
void mrd_open_spans_take(mrd_open_spans *opens, mrd_open_span *span);
/* Marks the spans as stored in the file for a later agent. */
void mrd_open_spans_saved(mrd_open_spans *opens, mrd_open_span *const *spans, size_t n);
/* Marks all spans as not stored in that file. */
void mrd_open_spans_unsave(mrd_open_spans *opens);

#endif
