/*
 * trace/import/import_nrt.h - the JSON of nrt_sys_trace_fetch_events (data_version 2), as a sequence of
 * documents: starts and stops are paired across documents, so the agent feeds each fetch as it
 * comes and the file importer a whole file.
 *
 * Times    nanoseconds of the host's wall clock. Hardware events that state device time
 *          (nc_timestamp_ns) are mapped by the sync points of their core (trace/import/nrt_clock.h),
 *          and their bound is the error of that mapping. Without sync points the bound is unknown. Events
 *          whose stamps are the device's clock have the argument NRT_TIME_KEY, which says how they
 *          were mapped.
 * Tracks   hardware types: MRD_SRC_DEVICE by lnc_idx and pcore_idx; others: MRD_SRC_RUNTIME by
 *          lnc_idx and thread_id.
 * Pairing  by (nc_idx, tracking_id), then event type and device_core_idx. What the start said is
 *          carried to the span; id, nc_local_id and tracking_id only serve the pairing.
 * Flows    from kbl_exec_pre to nc_exec_running of the same exec_id on a core; along the events of one
 *          nrta_seq_id, which begins at the call that has it as argument (agent/translate.c).
 * Counters nrt_dma_mem_alloc and _dealloc that state totals give counters as well, "hbm.<index>.<category>"
 *          and "hbm.<index>.total" of the device (mla_idx), in bytes; each is a record of its own. Copies (dmem_buf_copyin,
 *          _copyout) get the arguments direction and bytes_per_second.
 * Losses   the runtime numbers the events of a core (nc_local_id) and overwrites the oldest when its
 *          ring is full: numbers that do not come are an event MRD_LOSS "runtime-ring" on a line of
 *          the core, from its neighbour before to its neighbour behind. What comes after
 *          its number was told as lost is left out: it is counted once. Without numbers nothing can
 *          be told.
 * Memory   at most `max_open` starts, and 16,384 events that wait for a sync point. The oldest
 *          start is then given unfinished, the oldest waiting event by the sync points so far.
 * Threads  a mrd_nrt belongs to one thread.
 */
#ifndef MRD_TRACE_IMPORT_NRT_H
#define MRD_TRACE_IMPORT_NRT_H

#include "trace/json/in.h"
#include "trace/model/catalog.h"

#define NRT_TIME_KEY  "meridian.time" /* argument of events that carried device time */
#define NRT_MAX_OPEN  (1u << 18)      /* when max_open is 0 */
#define NRT_VERSION   2
#define NRT_LOST_RING "runtime-ring" /* name of the losses that nc_local_id shows */

#define NRT_SEQ_KEY                                                                                \
    "nrta_seq_id" /* of an asynchronous request: of its call, and of the runtime's events */

typedef struct mrd_nrt mrd_nrt;

/* The arrow along one asynchronous request of a process; scope: as in the options. */
static inline uint64_t
mrd_nrt_seq_flow(uint64_t scope, uint64_t seq_id)
{
    return mrd_flow_id(scope, 0x6e727461, seq_id);
}

/* 0: the runtime's word for "no request". */
static inline bool
mrd_nrt_is_seq(const mrd_arg *a)
{
    return (a->type == MRD_ARG_INT || a->type == MRD_ARG_UINT) && a->v.u != 0;
}

typedef struct {
    mrd_catalog *catalog;
    mrd_proc_id process; /* whose events these are */
    uint64_t
        flow_scope; /* keeps flow ids of different sources apart: an input's or session's number */
    uint32_t max_open; /* 0: NRT_MAX_OPEN */
    bool simulated;    /* marks the events MRD_EV_SIMULATED */
    bool patient;      /* events wait for all sync points that make their bound narrow */
    /* The first document is the first of the trace, which began at `since` (host's clock): what
     * is missing before its first event was lost. */
    bool whole;
    mrd_wall_ns since;
    /* Gets each event as it is complete, not in order of time. An error ends the parse. */
    mrd_err (*emit)(void *self, const mrd_event *ev);
    void *self;
} mrd_nrt_options;

/* records = events + dropped, once flushed. */
typedef struct {
    uint64_t documents, records, events, unfinished, no_start, dropped;
    uint64_t lost; /* records that the numbers show to be missing; not among the others */
    uint64_t
        late; /* ... that came after that was told: not taken, and not among the others either */
    /* Events that carried device time, by how it was mapped. moved: no sync point was seen, so the
     * runtime's own mapping stays, of unknown error. */
    uint64_t between, beyond, moved, unmapped;
    uint64_t no_version;  /* documents that did not state their data_version */
    uint64_t lenient;     /* places that are no JSON and were accepted (trace/json/json_read.h) */
    uint64_t replaced;    /* damaged places in texts */
    uint64_t skipped;     /* bytes of damaged text that were passed over */
    char first_drop[256]; /* why the first record was dropped; with its offset */
} mrd_nrt_counts;

mrd_err mrd_nrt_new(const mrd_nrt_options *options, mrd_nrt **ret_nrt, mrd_why *why);
void mrd_nrt_free(mrd_nrt *nrt); /* what is still open is gone: flush first */
/*
 * Reads all documents of `in`, one after the other. Errors: those of the reader (what was read
 * before is kept), FORMAT when a document holds no events array, VERSION (nothing of a document
 * that states another version before its events is taken; behind them they are taken, and the error
 * says so), and what emit returned.
 */
mrd_err mrd_nrt_parse(mrd_nrt *nrt, mrd_in *in, mrd_why *why);
/* Gives everything that still waits: open starts as unfinished spans, device times by the nearest
 * sync point. The pairer can be used on. */
mrd_err mrd_nrt_flush(mrd_nrt *nrt);
/* Gaps in the numbers wait for what may fill them: found_by reports those found at or before that
 * time of the caller's clock, as last set by mrd_nrt_now. A flush reports all. */
void mrd_nrt_now(mrd_nrt *nrt, mrd_local_ns now);
bool mrd_nrt_has_gaps(const mrd_nrt *nrt);
mrd_err mrd_nrt_report_gaps(mrd_nrt *nrt, mrd_local_ns found_by);
/* The next document's numbers say nothing about what is missing before them. */
void mrd_nrt_apart(mrd_nrt *nrt);
/* Events may be missing that no number shows: what has begun may have ended. */
void mrd_nrt_doubt(mrd_nrt *nrt);
/* Calls each start whose stop is still to come, of host time where the device's can be mapped, and not
 * those whose stop may be among what is missing. They stay where they are. */
void mrd_nrt_in_flight(const mrd_nrt *nrt, mrd_err (*call)(void *self, const mrd_event *ev),
                       void *self);

/*
 * For a reader that may have to begin again at an earlier document: `mark` of the next one, growing.
 * oldest is that of the oldest document of which something waits (an end, a sync point), UINT64_MAX:
 * nothing; who reads again from there finds the same waiting. Likewise oldest_gap for gaps in
 * numbers, with the document before it. again: the next document is read once more, so ends in it
 * whose start lies before it are done with. gaps_reported: those found in it were told by the reader
 * before. waiting_before counts what such a reader will not find: all ends that wait for their
 * start, and what else waits of documents before `mark`; and says the oldest time. flush_before
 * gives it as it is. tell_before calls the starts among it, once each, as mrd_nrt_in_flight does: who got
 * them needs no reader to find them, so they are not counted any more, until tell_again. What else waits
 * of documents before `mark` waits in vain by now, and is given.
 */
void mrd_nrt_mark(mrd_nrt *nrt, uint64_t mark, bool again, bool gaps_reported);
uint64_t mrd_nrt_oldest(const mrd_nrt *nrt);
uint64_t mrd_nrt_oldest_gap(const mrd_nrt *nrt, uint64_t *ret_before);
uint64_t mrd_nrt_waiting_before(const mrd_nrt *nrt, uint64_t mark, mrd_wall_ns *ret_oldest);
mrd_err mrd_nrt_flush_before(mrd_nrt *nrt, uint64_t mark);
mrd_err mrd_nrt_tell_before(mrd_nrt *nrt, uint64_t mark,
                            mrd_err (*call)(void *self, const mrd_event *ev), void *self);
void mrd_nrt_tell_again(mrd_nrt *nrt);
const mrd_nrt_counts *mrd_nrt_count(const mrd_nrt *nrt);
size_t mrd_nrt_memory_used(const mrd_nrt *nrt); /* bytes, without the catalog's */

#endif
