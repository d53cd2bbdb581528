/*
 * trace/import/nrt/import_nrt_int.h - private to import_nrt.c (JSON and file), nrt_layout.c (fast
 * path for JSON), nrt_fields.c (keys and values) and nrt_pair.c (pairing, tracks, waiting for sync
 * points).
 */
#ifndef MRD_TRACE_IMPORT_NRT_INT_H
#define MRD_TRACE_IMPORT_NRT_INT_H

#include "trace/import/nrt/import_nrt.h"
#include "trace/import/nrt/nrt_clock.h"
#include "trace/import/nrt/nrt_steps.h"
#include "trace/json/args.h"
#include "trace/model/open.h"

/* Maximum number of events that wait for a sync point. Bounds the search among a core's events. */
#define NRT_HELD_MAX    16384u
#define NRT_POINTS_LIVE 1024u /* sync points kept for a clock while the trace is live */
/* Number of sync points after which scatter and rate of a clock are reliable. */
#define NRT_POINTS_ENOUGH 10u
#define NRT_POINTS_LEAST  2u
#define NRT_POINTS_FILE   65536u
/* maximum number of starts with one key that are compared with a stop */
#define NRT_SAME_MAX 64
#define NRT_TYPES    64u   /* cached event types; a power of two */
#define NRT_CORES    128u  /* logical cores with a remembered sync point */
#define NRT_GAPS     64u   /* gaps in the numbers of a core that may still be filled */
#define NRT_LINES    128u  /* cached tracks; a power of two */
#define NRT_DEVICE   0x80u /* internal mrd_event.flags: ts is the device's clock */
/* internal mrd_event.flags: the runtime moved ts, and the device's time is an argument */
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
    const char *bad;  /* key of the first value of a wrong type or range */
    uint64_t ignored; /* numbers of fields that are not needed are stored here */
} nrt_record;         /* 128 bytes, because it is copied for every event */

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

/* Missing numbers [from, to) of a core, between events of these times. */
typedef struct {
    uint64_t from, to;
    mrd_ev_ns first, last; /* host time of the events around the gap; last is valid if `closed` */
    mrd_local_ns found_at; /* value of mrd_nrt_now when the gap was found */
    uint64_t mark, before; /* marks of the document with the gap, and of the document before */
    bool closed;
} nrt_gap;

/* A gap that was reported as lost. */
typedef struct {
    int64_t nc_idx;
    uint64_t from, to;
    mrd_ev_ns first, last;
} nrt_reported;

#define NRT_REPORTED 256u /* number of reported gaps that are stored; older ones are dropped */

/* State of the numbers (nc_local_id) of one core; see nrt_ids.c. */
typedef struct {
    bool known, has_ts, has_anew;
    uint64_t next;    /* number that the next event should have */
    uint64_t anew;    /* the expected number if the numbering was restarted */
    mrd_ev_ns newest; /* latest time of an event of the core */
    uint64_t steps, jumps;
    size_t n_gaps;
    bool any_open; /* at least one gap is not closed */
    mrd_ev_ns due; /* end of the earliest closed gap */
    nrt_gap gaps[NRT_GAPS];
} nrt_ids;

struct mrd_nrt {
    mrd_nrt_options o;
    nrt_record empty; /* template; copying it is faster than clearing a record */
    mrd_strtab *strings;
    mrd_args *args;
    mrd_joiner joiner;
    nrt_clock clock;
    mrd_open_table open;  /* starts without a stop yet, by (nc_idx, tracking_id) */
    mrd_open_table held;  /* complete events with device time, by nc_idx */
    mrd_open_table early; /* stops that arrived before their start, by (nc_idx, tracking_id) */
    mrd_nrt_counts counts;
    uint64_t flow_hash;
    mrd_sid type_running, type_pre, type_sync, key_phase, key_time, key_exec, key_seq, key_hbm,
        key_device, key_usage, key_usage_total, key_total, key_size, key_direction, key_bandwidth,
        type_alloc, type_dealloc, type_copyin, type_copyout, to_device, to_host, key_pcore,
        key_nc_ts, key_end_nc_ts, key_cpu_ts;
    mrd_sid time_between, time_beyond, time_none, cause_ring;
    nrt_type types[NRT_TYPES];
    nrt_line lines[NRT_LINES];
    nrt_ids *ids;                    /* indexed by nc_idx */
    size_t n_gaps;                   /* number of pending gaps of all cores */
    nrt_reported told[NRT_REPORTED]; /* reported gaps, a ring buffer */
    size_t n_reported;
    mrd_local_ns now;
    /* host time until which events were missing, so spans that began before may have ended */
    mrd_ev_ns doubt;
    uint64_t mark, mark_before; /* marks of the current document, and of the document before */
    uint64_t from;              /* mark that events get when they are held */
    /* Starts with this number plus 1 in mrd_open.told were passed to the caller in this round. */
    uint32_t telling;
    bool again;         /* the current document was read before */
    bool gaps_reported; /* the current document's gaps were reported before */
    mrd_json_reader *r; /* reader of the running parse */
    nrt_layout layout;
};

/* ---- nrt_pair.c ---- */

/* Counts an event that cannot be used, and keeps the reason of the first. Always returns MRD_OK. */
mrd_err mrd_nrt_drop(mrd_nrt *nrt, const nrt_record *rec, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Converts a complete record to events. Errors: NOMEM and the errors of emit. */
mrd_err mrd_nrt_dispatch(mrd_nrt *nrt, nrt_record *rec);

/* ---- nrt_fields.c ---- */

/* Parses a number, also in quotes. Returns false if the text is no number. */
bool mrd_nrt_number(mrd_jr_type type, mrd_str text, uint64_t *ret_v);
/* Returns the meaning of a key of the event, or of its data. Sets *ret_key to the interned key if
 * the value is an argument. */
nrt_field mrd_nrt_field_of(mrd_nrt *nrt, mrd_str key, bool in_data, mrd_sid *ret_key);
nrt_phase mrd_nrt_phase_of(mrd_str text);
/* Stores the value of a field that nrt->r has just returned (nrt_layout.c passes strings, true and
 * false itself). Returns the errors of the reader. */
mrd_err mrd_nrt_take(mrd_nrt *nrt, nrt_record *rec, nrt_field field, mrd_sid key, mrd_jr_type type,
                     mrd_str text);

/* ---- nrt_layout.c ---- */

void mrd_nrt_layout_fini(nrt_layout *layout);
/*
 * Reads an event into `rec` and the arguments. `text` begins after its opening bracket. Returns the
 * position after its closing bracket. NULL means that the general reader must read the event; rec
 * and arguments may then be partly filled.
 */
const char *mrd_nrt_layout_event(mrd_nrt *nrt, nrt_record *rec, mrd_str text);

/* ---- nrt_ids.c ---- */

/* Checks the record's number for gaps. `host_time` means that its stamp is of the host's clock. May
 * emit a loss. */
mrd_err mrd_nrt_ids_see(mrd_nrt *nrt, const nrt_record *rec, bool host_time);
/* Returns a host time. Spans that began at or before this time may have ended in a gap. */
mrd_ev_ns mrd_nrt_ids_doubt(const mrd_nrt *nrt);

/* ---- nrt_memory.c ---- */

#define NRT_TRANSFER_ARGS 24

/* Emits the counters of device memory after an allocation or deallocation. Emits nothing for other
 * events. */
mrd_err mrd_nrt_memory(mrd_nrt *nrt, const mrd_event *ev);
/* Adds direction and bandwidth of a copy to its arguments, in args[NRT_TRANSFER_ARGS]. Returns
 * false if the event is not a copy. */
bool mrd_nrt_transfer(mrd_nrt *nrt, mrd_event *ev, mrd_arg *args);

#endif
