/*
 * trace/import/nrt/import_nrt.h - reads the JSON that the Neuron runtime's function
 * nrt_sys_trace_fetch_events returns (data_version 2). Each call returns a document, and starts and
 * stops are paired across documents. The agent passes each document as it arrives. The file
 * importer passes a whole file.
 *
 * Times     nanoseconds of the host's wall clock. Hardware events with device time
 *           (nc_timestamp_ns) are mapped by the sync points of their core
 *           (trace/import/nrt/nrt_clock.h). The bound of such an event is the error of this
 *           mapping, which is unknown without sync points. If the stamp of an event is device time,
 *           the argument NRT_TIME_KEY says how it was mapped.
 * Tracks    Events of hardware types are on a track of source MRD_SRC_DEVICE for each lnc_idx and
 *           pcore_idx. Others are on a track of source MRD_SRC_RUNTIME for each lnc_idx and
 *           thread_id.
 * Pairing   A start and a stop belong together if nc_idx, tracking_id, event type and
 *           device_core_idx are equal. The span has the arguments of both records. id, nc_local_id
 *           and tracking_id do not become arguments.
 * Flows     an arrow leads from kbl_exec_pre to nc_exec_running of the same exec_id on a core.
 *           Others follow the events of one nrta_seq_id, beginning at the call that has it as an
 *           argument (agent/rings/translate.c).
 * Counters  nrt_dma_mem_alloc and _dealloc with totals also give counters in bytes:
 *           "hbm.<index>.<category>" and "hbm.<index>.total" of the device (mla_idx). Each counts
 *           as a record. Copies (dmem_buf_copyin, _copyout) get the arguments direction and
 *           bytes_per_second.
 * Losses    the runtime numbers the events of a core (nc_local_id) and overwrites the oldest when
 *           its ring is full. Missing numbers become an event MRD_LOSS "runtime-ring" on a track
 *           of the core, from the event before the gap to the event after it. If an event arrives
 *           after its number was reported as lost, it is ignored, so that it counts once. If events
 *           have no numbers, losses are not detected.
 * Memory    at most `max_open` starts and 16,384 events that wait for a sync point. Beyond that the
 *           oldest start becomes an unfinished span, and the oldest waiting event is mapped by the
 *           known sync points.
 * Threads   a mrd_nrt belongs to one thread.
 */
#ifndef MRD_TRACE_IMPORT_NRT_H
#define MRD_TRACE_IMPORT_NRT_H

#include "trace/json/in.h"
#include "trace/model/catalog.h"

#define NRT_TIME_KEY "meridian.time" /* argument of events with device time */
#define NRT_MAX_OPEN (1u << 18)      /* default of mrd_nrt_options.max_open */
#define NRT_VERSION  2

#define NRT_SEQ_KEY                                                                                \
    "nrta_seq_id" /* id of an asynchronous request, in its call and in the runtime's events */

typedef struct mrd_nrt mrd_nrt;

/* Returns the flow id that all events of one asynchronous request have. `scope` is
 * mrd_nrt_options.flow_scope. */
static inline uint64_t
mrd_nrt_seq_flow(uint64_t scope, uint64_t seq_id)
{
    return mrd_flow_id(scope, 0x6e727461, seq_id);
}

/* Returns true if the argument is the id of a request. The runtime writes 0 if there is no request.
 * `arg` may be NULL. */
static inline bool
mrd_nrt_is_seq(const mrd_arg *arg)
{
    return mrd_arg_is_int(arg) && arg->v.u != 0;
}

typedef struct {
    mrd_catalog *catalog;
    mrd_proc_id process; /* the process of these events */
    /* number of the input or session; flow ids of different inputs then differ */
    uint64_t flow_scope;
    uint32_t max_open; /* maximum number of starts that wait for their stop; 0 means NRT_MAX_OPEN */
    bool simulated;    /* mark all events with MRD_EV_SIMULATED */
    /* Hold events with device time until enough sync points have arrived for narrow error bounds.
     * For files, because a live trace must not wait. */
    bool patient;
    /* `whole`: the first document is the beginning of the trace, which started at `since` (host's
     * clock). Event numbers missing before its first event then count as lost. */
    bool whole;
    mrd_wall_ns since;
    /* Receives each event when it is complete, not in order of time. If emit returns an error, the
     * parse ends. */
    mrd_err (*emit)(void *self, const mrd_event *ev);
    void *self;
} mrd_nrt_options;

/* Counts of the trace. records = events + dropped holds after a flush. */
typedef struct {
    uint64_t documents, records, events, unfinished, no_start, dropped;
    /* number of lost events, according to gaps in the runtime's event numbers; not in `records` */
    uint64_t lost;
    /* number of records that arrived after their numbers were reported as lost; they are ignored,
     * and not in `records` */
    uint64_t late;
    /* Numbers of events with device time, by how they were mapped: between two sync points, beyond
     * the sync points, or not at all. Without a sync point, `moved` counts the events that keep the
     * host time that the runtime computed, and `unmapped` counts the others. */
    uint64_t between, beyond, moved, unmapped;
    uint64_t no_version;  /* number of documents without a data_version */
    uint64_t lenient;     /* number of accepted deviations from JSON (trace/json/json_read.h) */
    uint64_t replaced;    /* number of damaged characters in texts */
    uint64_t skipped;     /* bytes of damaged text that were skipped */
    char first_drop[256]; /* reason and offset of the first dropped record */
} mrd_nrt_counts;

mrd_err mrd_nrt_new(const mrd_nrt_options *options, mrd_nrt **ret_nrt, mrd_why *why);
void mrd_nrt_free(mrd_nrt *nrt); /* discards open starts, so call mrd_nrt_flush first */
/*
 * Reads all documents of `in`. After an error, the events before it are kept. Errors: FORMAT for a
 * document without an events array, VERSION, the errors of the reader and of emit. VERSION means
 * that a document states another data_version than 2. Its events are not used, except those before
 * the data_version.
 */
mrd_err mrd_nrt_parse(mrd_nrt *nrt, mrd_in *in, mrd_why *why);
/* Emits all pending events. Starts without a stop become unfinished spans, and device times are
 * mapped by the nearest sync point. Parsing may continue afterwards. */
mrd_err mrd_nrt_flush(mrd_nrt *nrt);
/* Functions for a caller that reads a live trace. Gaps in the event numbers stay pending, because
 * late events may fill them. mrd_nrt_now() sets the time that is stored in each gap found from then
 * on. mrd_nrt_report_gaps() reports the gaps that were found at or before `found_by` as losses. A
 * flush reports all gaps. */
void mrd_nrt_now(mrd_nrt *nrt, mrd_local_ns now);
bool mrd_nrt_has_gaps(const mrd_nrt *nrt);
mrd_err mrd_nrt_report_gaps(mrd_nrt *nrt, mrd_local_ns found_by);
/* Must be called before a document with event numbers that do not continue the numbers of the
 * previous document. A gap between these two documents is then not reported as a loss. */
void mrd_nrt_apart(mrd_nrt *nrt);
/* Must be called if events may be missing although the event numbers have no gap. The reader then
 * assumes that the stop of each pending start may be lost. */
void mrd_nrt_doubt(mrd_nrt *nrt);
/* Calls `call` for each start without a stop, with its time converted to host time. Skips starts
 * with a stop that may be lost, or with a device time that cannot be converted. The starts stay
 * pending. */
void mrd_nrt_in_flight(const mrd_nrt *nrt, mrd_err (*call)(void *self, const mrd_event *ev),
                       void *self);

/*
 * For a caller that may have to read documents again after a restart.
 *
 *   mrd_nrt_mark            sets the number (mark) of the next document. Marks increase. `again`
 *     means that the document was read before, so that stops without a start are ignored.
 *     `gaps_reported` means that its gaps were reported before.
 *   mrd_nrt_oldest          returns the mark of the oldest document that a pending event needs;
 *     UINT64_MAX if there is none. If a caller reads again from this document on, the same events
 *     become pending.
 *   mrd_nrt_oldest_gap      does the same for pending gaps. Also returns the mark of the document
 *     before.
 *   mrd_nrt_waiting_before  counts the pending events that would be missing if a caller read again
 *     from document `mark` on: events of earlier documents, and all stops without a start. Also
 *     returns the time of the oldest of these events.
 *   mrd_nrt_flush_before    emits the pending events that mrd_nrt_waiting_before counts.
 *   mrd_nrt_tell_before     passes the open starts of documents before `mark` to `call`, as
 *     mrd_nrt_in_flight does, and emits their other pending events. Each start is passed only once,
 *     and mrd_nrt_waiting_before no longer counts it.
 *   mrd_nrt_tell_again      begins a new round: all open starts may be passed and counted again.
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
size_t mrd_nrt_memory_used(const mrd_nrt *nrt); /* bytes, without the catalog */

#endif
