/*
 * trace/import/import_nrt_int.h - private to import_nrt.c (the JSON, the file), nrt_layout.c (the JSON, fast), nrt_fields.c
 * (keys and values) and nrt_pair.c (pairing, tracks, the wait for sync points).
 */
#ifndef MRD_TRACE_IMPORT_NRT_INT_H
#define MRD_TRACE_IMPORT_NRT_INT_H

#include "trace/import/import_nrt.h"
#include "trace/import/nrt_clock.h"
#include "trace/import/nrt_steps.h"
#include "trace/json/args.h"
#include "trace/model/open.h"

#define NRT_HELD_MAX      16384u /* events that wait for a sync point: each looks through its core's */
#define NRT_POINTS_LIVE   1024u /* sync points remembered of a clock */
#define NRT_POINTS_ENOUGH 10u   /* sync points with which scatter and rate of a clock are known */
#define NRT_POINTS_LEAST  2u
#define NRT_POINTS_FILE   65536u
#define NRT_SAME_MAX      64    /* starts under one key that a stop is compared with */
#define NRT_TYPES         64u   /* event types remembered; a power of two */
#define NRT_CORES         128u  /* logical cores whose last sync point is remembered */
#define NRT_GAPS          64u   /* gaps in the numbers of a core that may still be filled */
#define NRT_LINES         128u  /* tracks remembered; a power of two */
#define NRT_DEVICE        0x80u /* mrd_event.flags while it is ours: ts is the device's clock */
#define NRT_MOVED         0x40u /* ... the runtime moved ts; the device's time is an argument */

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
    uint64_t ignored; /* where numbers go that mean nothing here */
} nrt_record;         /* 128 bytes: it is made anew for every event */

typedef struct {
    mrd_sid type;
    bool hardware;
} nrt_type;

typedef struct {
    bool used, hardware;
    int64_t nc_idx, line, worker_gid; /* line: physical core or thread */
    mrd_track_id track;
} nrt_line;

/* Numbers [from, to) of a core that are missing, between events of these times. */
typedef struct {
    uint64_t from, to;
    mrd_ev_ns first, last; /* host's clock; last: once `closed` */
    mrd_local_ns found_at; /* mrd_nrt_now */
    uint64_t mark, before; /* of the document it was found in, and of the one before */
    bool closed;
} nrt_gap;

/* A gap that was told. */
typedef struct {
    int64_t nc_idx;
    uint64_t from, to;
    mrd_ev_ns first, last;
} nrt_reported;

#define NRT_REPORTED 256u /* the newest are remembered */

/* The nc_local_id of a core, see nrt_ids.c. */
typedef struct {
    bool known, has_ts, has_anew;
    uint64_t next;    /* the number expected */
    uint64_t anew;    /* expected if the numbering began anew */
    mrd_ev_ns newest; /* time of the youngest event so far */
    uint64_t steps, jumps;
    size_t n_gaps;
    bool any_open; /* a gap may not be closed */
    mrd_ev_ns due; /* no closed gap ended before it */
    nrt_gap gaps[NRT_GAPS];
} nrt_ids;

struct mrd_nrt {
    mrd_nrt_options o;
    nrt_record empty; /* copied, which is faster than to clear one for every event */
    mrd_strtab *strings;
    mrd_args *args;
    mrd_joiner joiner;
    nrt_clock clock;
    mrd_open_table open;  /* (nc_idx, tracking_id) */
    mrd_open_table held;  /* nc_idx: complete, but with device time */
    mrd_open_table early; /* (nc_idx, tracking_id): stops that came before their start */
    mrd_nrt_counts counts;
    uint64_t flow_hash;
    mrd_sid type_running, type_pre, type_sync, key_phase, key_time, key_exec, key_seq, key_hbm,
        key_device, key_usage, key_usage_total, key_total, key_size, key_direction, key_bandwidth,
        type_alloc, type_dealloc, type_copyin, type_copyout, to_device, to_host, key_pcore,
        key_nc_ts, key_end_nc_ts, key_cpu_ts;
    mrd_sid time_between, time_beyond, time_none, cause_ring;
    nrt_type types[NRT_TYPES];
    nrt_line lines[NRT_LINES];
    nrt_ids *ids;                    /* by nc_idx */
    size_t n_gaps;                   /* of all cores */
    nrt_reported told[NRT_REPORTED]; /* in a circle */
    size_t n_reported;
    mrd_local_ns now;
    mrd_ev_ns doubt; /* host's clock: events were missing then; what began before may have ended */
    uint64_t mark, mark_before; /* of the document read, and of the one before */
    uint64_t from;              /* the mark of what is to be held */
    uint32_t telling;           /* mrd_open.told of the starts that were told: + 1 */
    bool again;                 /* the document was read before */
    bool gaps_reported;         /* those found now were told before */
    mrd_json_reader *r;         /* of the running parse */
    nrt_layout layout;
};

/* ---- nrt_pair.c ---- */

/* Counts an event that cannot be placed, with the reason of the first. Always MRD_OK. */
mrd_err mrd_nrt_drop(mrd_nrt *nrt, const nrt_record *rec, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Turns a complete record into events. Errors: NOMEM and those of emit. */
mrd_err mrd_nrt_dispatch(mrd_nrt *nrt, nrt_record *rec);

/* ---- nrt_fields.c ---- */

/* A number, in quotes too. */
bool mrd_nrt_number(mrd_jr_type type, mrd_str text, uint64_t *ret_v);
/* What a key of the event, or of its data, means; *ret_key: interned, when it is an argument. */
nrt_field mrd_nrt_field_of(mrd_nrt *nrt, mrd_str key, bool in_data, mrd_sid *ret_key);
nrt_phase mrd_nrt_phase_of(mrd_str text);
/* The value of a field that nrt->r (or nrt_layout.c: strings and words) has just given. Errors:
 * those of the reader. */
mrd_err mrd_nrt_take(mrd_nrt *nrt, nrt_record *rec, nrt_field field, mrd_sid key, mrd_jr_type type,
                     mrd_str text);

/* ---- nrt_layout.c ---- */

void mrd_nrt_layout_fini(nrt_layout *l);
/*
 * Reads the event whose text, behind its opening bracket, begins at `text`: into rec and the
 * arguments. Returns the place behind its closing bracket, NULL when it is left to the reader; rec
 * and arguments may then hold a part.
 */
const char *mrd_nrt_layout_event(mrd_nrt *nrt, nrt_record *rec, mrd_str text);

/* ---- nrt_ids.c ---- */

/* Looks at the number of the record; host_time: its stamp is of the host's clock. May give a loss.
 */
mrd_err mrd_nrt_ids_see(mrd_nrt *nrt, const nrt_record *rec, bool host_time);
/* What began at or before that time of the host may have ended in what is missing. */
mrd_ev_ns mrd_nrt_ids_doubt(const mrd_nrt *nrt);

/* ---- nrt_memory.c ---- */

#define NRT_TRANSFER_ARGS 24

/* Counters of device memory behind an allocation or its end; other events: nothing. */
mrd_err mrd_nrt_memory(mrd_nrt *nrt, const mrd_event *ev);
/* Direction and bandwidth of a copy, with the arguments it has, in args[NRT_TRANSFER_ARGS]; false: no copy. */
bool mrd_nrt_transfer(mrd_nrt *nrt, mrd_event *ev, mrd_arg *args);

#endif
