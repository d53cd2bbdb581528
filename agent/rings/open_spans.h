/* agent/rings/open_spans.h - keeps the open spans of a process. Such a span has two records, one
 * for the start and one for the end, possibly of two threads. The set contains starts without an
 * end, and ends that were read before their start. Only the drain's thread calls these
 * functions. */
#ifndef MRD_AGENT_RINGS_OPEN_SPANS_H
#define MRD_AGENT_RINGS_OPEN_SPANS_H

#include "base/clock.h"
#include "base/err.h"
#include "trace/model/event.h"

/* maximum number of open spans of one process, including ends that were read before their start */
#define MRD_OPEN_SPANS_MAX (1u << 16)
/* Maximum memory of one process's entries and their texts, in bytes. */
#define MRD_OPEN_SPANS_BYTES ((size_t) 32 << 20)

typedef struct mrd_open_span {
    struct mrd_open_span *next;
    uint64_t key;
    size_t bytes;
    /* only the end of the span was read until now; `ev` has the end's time and arguments */
    bool early;
    bool saved; /* the entry is in the file for a later agent (open_log.c) */
    bool model; /* the span shows how long a model is loaded */
    /* The span's thread or process exited before this agent first saw the process, so no record
     * will end the span. */
    bool left;
    mrd_local_ns since; /* RAW time when this entry was added to the set */
    /* value of proc.lost (lost events of the process) when this entry was added */
    uint64_t lost;
    /* the event of the start, or of an early end; its arguments follow in `args` */
    mrd_event ev;
    mrd_arg args[]; /* followed by the texts of the arguments */
} mrd_open_span;

typedef struct {
    mrd_open_span **slots;
    size_t n_slots, n;
    size_t bytes; /* memory used for the spans, in bytes */
    size_t n_early, n_saved;
    /* Saved entries that were removed since the file was last written, each as the values of `key`
     * and `early`. */
    uint64_t (*taken)[2];
    size_t n_taken, cap_taken;
    bool taken_lost; /* `taken` lacks an entry, because there was no memory for it */
} mrd_open_spans;

void mrd_open_spans_fini(mrd_open_spans *opens);
size_t mrd_open_spans_memory(const mrd_open_spans *opens);
mrd_open_span *mrd_open_spans_find(mrd_open_spans *opens, uint64_t key, bool early);
/* Adds a copy of the event to the set. Errors: LIMIT, NOMEM. */
mrd_err mrd_open_spans_add(mrd_open_spans *opens, uint64_t key, bool early, mrd_local_ns since,
                           const mrd_event *ev);
/* Removes the span from the set. The caller frees it with free(). */
void mrd_open_spans_take(mrd_open_spans *opens, mrd_open_span *span);
/* Marks the spans as saved in the file for a later agent (open_log.c). */
void mrd_open_spans_saved(mrd_open_spans *opens, mrd_open_span *const *spans, size_t n);
/* Marks all spans as not saved in that file. */
void mrd_open_spans_unsave(mrd_open_spans *opens);

#endif
