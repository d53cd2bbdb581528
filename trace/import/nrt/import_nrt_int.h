/*
 * trace/import/nrt/import_nrt_int.h - private to the reader of the runtime's trace: import_nrt.c
 * (JSON and file), nrt_layout.c (fast path for JSON), nrt_fields.c (keys and values), nrt_pair.c
 * (pairing, tracks, waiting for sync points), nrt_ids.c (losses) and nrt_memory.c (counters).
 */
#ifndef MRD_TRACE_IMPORT_NRT_INT_H
#define MRD_TRACE_IMPORT_NRT_INT_H

#include "trace/import/nrt/import_nrt.h"
#include "trace/import/nrt/nrt_clock.h"
#include "trace/import/nrt/nrt_steps.h"
#include "trace/json/args.h"
#include "trace/model/open.h"

/* Maximum number of events that wait for sync points. A small number limits the time to search for
 * the waiting events of a core. */
#define NRT_HELD_MAX 16384u
/* maximum number of sync points that are kept for each clock of a live trace */
#define NRT_POINTS_LIVE 1024u
/* Number of sync points after which scatter and rate of a clock are reliable. */
#define NRT_POINTS_ENOUGH 10u
#define NRT_POINTS_LEAST  2u
#define NRT_POINTS_FILE   65536u
/* maximum number of pending starts with equal keys that are compared with a stop */
#define NRT_SAME_MAX 64
#define NRT_TYPES    64u /* size of the cache of event types; a power of two */
/* maximum number of logical cores that are checked for gaps in their events */
#define NRT_CORES 128u
/* maximum number of gaps in the event numbers of a core that late events may still fill */
#define NRT_GAPS  64u
#define NRT_LINES 128u /* size of the cache of tracks; a power of two */
/* internal bit of mrd_event.flags: ts is device time */
#define NRT_DEVICE 0x80u
/* internal bit of mrd_event.flags: the runtime moved ts to host time, and an argument has the
 * device time */
#define NRT_MOVED 0x40u

typedef enum { NRT_START, NRT_STOP, NRT_INSTANT, NRT_UNKNOWN } nrt_phase;

typedef struct nrt_record {
    uint64_t offset;
    mrd_sid type;
    nrt_phase phase;
    bool hardware, has_ts, has_nc_ts, has_tracking, has_exec, has_cpu_ts, has_local, has_ignored;
    uint64_t id, local_id, tracking_id, exec_id;
    int64_t nc_idx, thread_id, worker_gid, pcore_idx;
    mrd_ev_ns ts;
    mrd_nc_ns nc_ts;
    mrd_wall_ns cpu_ts;
    /* key of the record's first value that has a wrong type or range; NULL if there is none */
    const char *bad;
    uint64_t ignored; /* the fast path stores unused numbers of the record here */
} nrt_record;         /* keep it at 128 bytes: it is copied for every event */

typedef struct {
    mrd_sid type;
    bool hardware;
} nrt_type;

typedef struct {
    bool used, hardware;
    /* `line` is the physical core for hardware, else the thread */
    int64_t nc_idx, line, worker_gid;
    mrd_track_id track;
} nrt_line;

/* A gap in the event numbers of a core: the numbers [from, to) are missing. */
typedef struct {
    uint64_t from, to;
    /* host times of the events before and after the gap; `last` is valid only if `closed` is
     * true */
    mrd_ev_ns first, last;
    mrd_local_ns found_at; /* time set by mrd_nrt_now() when the gap was found */
    /* `mark`: mark of the document in which the gap was found. `before`: mark of the document
     * before it. */
    uint64_t mark, before;
    bool closed;
} nrt_gap;

/* A gap in the event numbers of a core that was reported as lost events. */
typedef struct {
    int64_t nc_idx;
    uint64_t from, to;
    mrd_ev_ns first, last;
} nrt_reported;

/* number of reported gaps that are kept in memory; a new gap replaces the oldest one */
#define NRT_REPORTED 256u

/* State of the numbers (nc_local_id) of one core; see nrt_ids.c. */
typedef struct {
    bool known, has_ts, has_anew;
    uint64_t next; /* event number (nc_local_id) that the next event of the core should have */
    /* event number that the next event should have if the runtime restarted its numbering */
    uint64_t anew;
    mrd_ev_ns newest; /* latest time of an event of the core */
    uint64_t steps, jumps;
    size_t n_gaps;
    /* true: for at least one gap, no event after the gap has arrived (nrt_gap.closed is false) */
    bool any_open;
    mrd_ev_ns due; /* host time of the event after the earliest closed gap */
    nrt_gap gaps[NRT_GAPS];
} nrt_ids;

struct mrd_nrt {
    mrd_nrt_options o;
    nrt_record empty; /* empty record; copying it is faster than clearing one */
    mrd_strtab *strings;
    mrd_args *args;
    mrd_joiner joiner;
    nrt_clock clock;
    mrd_open_table open; /* starts without a stop yet, by (nc_idx, tracking_id) */
    /* complete events with device time that wait for sync points, by the core's nc_idx */
    mrd_open_table held;
    mrd_open_table early; /* stops without a start yet, by (nc_idx, tracking_id) */
    mrd_nrt_counts counts;
    uint64_t flow_hash;
    mrd_sid type_running, type_pre, type_sync, key_phase, key_time, key_exec, key_seq, key_hbm,
        key_device, key_usage, key_usage_total, key_total, key_size, key_direction, key_bandwidth,
        type_alloc, type_dealloc, type_copyin, type_copyout, to_device, to_host, key_pcore,
        key_nc_ts, key_end_nc_ts, key_cpu_ts;
    mrd_sid time_between, time_beyond, time_none, cause_ring;
    nrt_type types[NRT_TYPES];
    nrt_line lines[NRT_LINES];
    nrt_ids *ids;  /* indexed by nc_idx */
    size_t n_gaps; /* number of gaps in the event numbers of all cores that were not yet reported */
    nrt_reported told[NRT_REPORTED]; /* reported gaps, a ring buffer */
    size_t n_reported;
    mrd_local_ns now;
    /* a host time; if a span began at or before it, the stop of the span may be lost */
    mrd_ev_ns doubt;
    /* marks (mrd_nrt_mark) of the current document, and of the document before it */
    uint64_t mark, mark_before;
    uint64_t from; /* mark (mrd_nrt_mark) that events get when they begin to wait for sync points */
    /* Number of the round in which starts are passed to the caller. A start was passed in this
     * round if its mrd_open.told is `telling` + 1. */
    uint32_t telling;
    bool again; /* the current document was read before */
    /* the gaps of the current document were reported when the document was read before */
    bool gaps_reported;
    mrd_json_reader *r; /* reader of the running parse */
    nrt_layout layout;
};

/* ---- nrt_pair.c ---- */

/* Counts a record as dropped. Stores the text as the reason if it is the first one. Always returns
 * MRD_OK. */
mrd_err mrd_nrt_drop(mrd_nrt *nrt, const nrt_record *rec, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Handles a record after its fields were read: pairs it with a start or stop, delays it, or emits
 * it. Errors: NOMEM and the errors of emit. */
mrd_err mrd_nrt_dispatch(mrd_nrt *nrt, nrt_record *rec);

/* ---- nrt_fields.c ---- */

/* Parses a number, also in quotes. Returns false if the text is no number. */
bool mrd_nrt_number(mrd_jr_type type, mrd_str text, uint64_t *ret_v);
/* Returns the meaning of a key of an event, or of its "data" if `in_data` is true. Sets *ret_key to
 * the interned key if the value is an argument, else to MRD_SID_EMPTY. */
nrt_field mrd_nrt_field_of(mrd_nrt *nrt, mrd_str key, bool in_data, mrd_sid *ret_key);
nrt_phase mrd_nrt_phase_of(mrd_str text);
/* Stores a value of an event in the record, as an argument, or both. nrt->r must have just returned
 * the value; strings, true and false may come from the caller instead. Returns the errors of the
 * reader. */
mrd_err mrd_nrt_take(mrd_nrt *nrt, nrt_record *rec, nrt_field field, mrd_sid key, mrd_jr_type type,
                     mrd_str text);

/* ---- nrt_layout.c ---- */

void mrd_nrt_layout_fini(nrt_layout *layout);
/*
 * Reads an event into `rec` and nrt->args. `text` begins after the event's opening bracket. Returns
 * the position after its closing bracket. Returns NULL if the general reader must read the event;
 * `rec` and nrt->args may then be partly filled.
 */
const char *mrd_nrt_layout_event(mrd_nrt *nrt, nrt_record *rec, mrd_str text);

/* ---- nrt_ids.c ---- */

/* Checks the event number of the record (nc_local_id), and emits losses for gaps that late events
 * can no longer fill. `host_time` means that the record's timestamp is host time. Returns EXISTS if
 * the number was already reported as lost. */
mrd_err mrd_nrt_ids_see(mrd_nrt *nrt, const nrt_record *rec, bool host_time);
/* Returns the latest host time at which stops may be lost. A span that began at or before this time
 * may have ended. */
mrd_ev_ns mrd_nrt_ids_doubt(const mrd_nrt *nrt);

/* ---- nrt_memory.c ---- */

#define NRT_TRANSFER_ARGS 24

/* Emits counters of device memory if the event is an allocation or deallocation. */
mrd_err mrd_nrt_memory(mrd_nrt *nrt, const mrd_event *ev);
/* If the event is a copy, copies its arguments to `args`, which has room for NRT_TRANSFER_ARGS, and
 * adds direction and bandwidth. Returns false if the event is not a copy, or has too many
 * arguments. */
bool mrd_nrt_transfer(mrd_nrt *nrt, mrd_event *ev, mrd_arg *args);

#endif
