/*
 * trace/import/perfetto/perfetto_int.h - private to the reader of Perfetto traces:
 * import_perfetto.c (bytes and packets), perfetto_clocks.c (times), perfetto_tracks.c (tracks),
 * perfetto_events.c (events), perfetto_own.c (traces that Meridian wrote).
 *
 * Begins, ends and marks go to the importer of Trace Event JSON, declared in
 * trace/import/trace_event/te_int.h. It pairs begins with ends in order of time, and assigns
 * te_lines to processes. A te_line is a track whose process may still be unknown.
 */
#ifndef MRD_TRACE_PERFETTO_INT_H
#define MRD_TRACE_PERFETTO_INT_H

#include "trace/import/pb_read.h"
#include "trace/import/trace_event/te_int.h"
#include "trace/model/pf_tags.h"

/* maximum bytes of a packet; Perfetto's own packets are below 1 MiB */
#define PT_PACKET_MAX (64u << 20)
#define PT_SEQS_MAX   65536u
/* maximum number of interned texts that are in use at the same time */
#define PT_NAMES_MAX  (1u << 20)
#define PT_CLOCKS_MAX 65536u
#define PT_POINTS_MAX (1u << 20) /* maximum number of clock readings */
#define PT_ARROWS_MAX (1u << 20) /* maximum number of ids of arrows */
/* TracePacket fields below this number have a count in pt.unread */
#define PT_FIELDS 140u

typedef enum { PT_CATEGORY, PT_NAME, PT_ARG_NAME, PT_ARG_STRING } pt_kind;

/* A packet sequence: the packets of one writer, which share names, defaults and clocks. */
typedef struct {
    uint32_t id;
    bool valid; /* the names, defaults and clocks of the sequence can be used */
    bool seen;
    uint32_t clock; /* default clock of the sequence's packets; 0 means the trace clock */
    uint64_t track; /* default track of the sequence's events */
    mrd_map names;  /* hash of a text's pt_kind and number -> mrd_sid */
    size_t n_names;
} pt_seq;

/* A reading of a clock and of the trace clock at one moment, in ns. */
typedef struct {
    int64_t local, trace;
} pt_point;

typedef struct {
    /* a packet states its time as the difference to the previous time in its sequence */
    bool incremental;
    /* the clock has at least one reading, so its times can be converted to the trace clock */
    bool known;
    /* the clock belongs to one sequence, which uses it to write times in a shorter form */
    bool own;
    /* packets are missing since the last reading, so sums of differences may be wrong */
    bool is_doubtful;
    uint64_t unit;    /* length of a tick in ns */
    uint64_t now;     /* latest time of an incremental clock, in ticks */
    pt_point *points; /* readings in order of time */
    size_t n, cap;
} pt_clock;

typedef struct {
    uint64_t uuid, parent;
    bool is_process, is_thread, is_counter, incremental;
    bool is_torch;      /* the track has operator spans of PyTorch */
    bool is_open_state; /* a state span of the track has begun and not ended */
    int64_t pid, tid, rank;
    uint32_t machine;
    int64_t multiplier; /* factor for counter values */
    mrd_unit unit;
    mrd_sid unit_name, name, process_name, labels;
    mrd_event sum; /* latest value of an incremental counter (its packets state differences) */
    uint32_t line; /* index in te_lines; TE_NONE before the first event */
    /* in Meridian's own traces: the track in the catalog, else UINT32_MAX */
    mrd_track_id own;
} pt_track;

/* The fields of a packet that this reader uses. */
typedef struct {
    uint64_t offset, timestamp;
    uint32_t clock, seq, flags, machine, dropped;
    /* number of the track in Meridian's own catalog; UINT64_MAX if the packet does not state it */
    uint64_t own_track;
    bool has_time, has_event;
    /* number of contents (fields of the "data" oneof); a valid packet has at most one */
    unsigned data;
    uint32_t other; /* field number of a content that this reader does not use */
    mrd_bytes event, interned, defaults, descriptor, snapshot, attributes, tree, compressed,
        catalog;
    bool is_zstd;
} pt_packet;

typedef struct {
    mrd_import *imp;
    te te;
    pt_seq *seqs;
    size_t n_seqs, cap_seqs;
    pt_clock *clocks;
    size_t n_clocks, cap_clocks, n_points, n_names;
    pt_track *tracks;
    size_t n_tracks, cap_tracks;
    mrd_map seq_map, clock_map, track_map;
    mrd_map tree;        /* names from process tree packets, by process id or thread id */
    uint32_t main_clock; /* the trace clock; 0 before the trace states it */
    bool has_wall;
    mrd_dur_ns wall; /* UTC minus the trace clock's time, in ns */
    /* big: copies of a long packet of the file, and of a packet inside a compressed one. words: a
     * text that is being built. */
    mrd_buf big[2], words;
    uint64_t at; /* offset of the current packet */
    /* Counts for notes about the file. unread[N] counts the packets with content of field number
     * N. */
    uint64_t unread[PT_FIELDS], writer_losses, doubtful, nameless, beyond_arrows, others;
    /* The fields below are for traces that Meridian wrote. */
    bool is_own, own_read;
    mrd_buf own_json;
    mrd_track_id *own_tracks;
    size_t n_own_tracks, n_own_clocks;
    mrd_dur_ns own_shift;
    /* number of the input with the first part of the same trace; this input if there is none */
    uint32_t first_part;
    /* For flow arrows with several ends. Maps the id of an end to an index in own_bases, which has
     * the id of the arrow. */
    mrd_map own_fans;
    uint64_t *own_bases;
    size_t n_own_bases, cap_own_bases;
    mrd_arg *own_args;
    size_t cap_own_args;
    mrd_sid own_instance, own_process, own_core, own_rank, own_id, own_note, own_lost,
        own_continued, own_begin, word_no_start, key_torch;
} pt;

/* Counts a dropped record at the offset of the current packet. */
static inline void
mrd_pt_drop(pt *import, const char *reason)
{
    import->te.input->records++;
    mrd_import_drop(import->imp, import->at, "%s", reason);
}

/* Reads a ClockSnapshot. Errors: NOMEM. */
mrd_err mrd_pt_snapshot(pt *import, const pt_packet *packet);
/* Converts the packet's time to the trace clock. Sets *ret_bound_ns to MRD_BOUND_UNKNOWN if the
 * conversion may be wrong by the drift of two clocks, else to MRD_BOUND_LOCAL. Returns false if no
 * snapshot relates the packet's clock to the trace clock. */
bool mrd_pt_time(pt *import, const pt_packet *packet, const pt_seq *seq, mrd_ev_ns *ret_ts,
                 uint32_t *ret_bound_ns);
/* Records that packets are missing here. The times of incremental clocks are doubtful until their
 * next reading. */
void mrd_pt_clocks_lost(pt *import);
/* Sets the clocks that are doubtful since mrd_pt_clocks_lost() to `now`, a time of the trace clock.
 * Meridian's own traces contain such times at intervals. */
void mrd_pt_clocks_found(pt *import, uint64_t now);
void mrd_pt_clocks_fini(pt *import);

/* Read a track descriptor, and a process tree. Contents that cannot be used are ignored. Errors:
 * NOMEM. */
mrd_err mrd_pt_descriptor(pt *import, const pt_packet *packet);
mrd_err mrd_pt_tree(pt *import, mrd_bytes tree);
/* Returns the track, and adds it if it is new. Returns NULL if there are too many tracks or out of
 * memory. */
pt_track *mrd_pt_track(pt *import, uint64_t uuid);
/* Sets *ret_line to the te_line of the track, and adds it if it is new. Errors: LIMIT, NOMEM. */
mrd_err mrd_pt_line(pt *import, pt_track *track, bool counter, uint32_t *ret_line);
/* Sets process, thread and name of the te_line of each track. Must be called at the end of the
 * file, before mrd_te_lines_finish. Errors: NOMEM. */
mrd_err mrd_pt_place(pt *import);
/* Sets the units of counters in the catalog. Must be called after mrd_te_lines_finish, because
 * te_line has no units. */
void mrd_pt_units(pt *import);

mrd_err mrd_pt_interned(pt *import, pt_seq *seq, mrd_bytes interned);
mrd_err mrd_pt_event(pt *import, pt_seq *seq, const pt_packet *packet);

/* Reads the catalog of a trace that Meridian wrote. Its text was collected in import->own_json.
 * Errors: NOMEM. */
mrd_err mrd_pt_own(pt *import);
/* Records that `fan` is the id of a further end of the flow arrow `base`. Errors: NOMEM. */
mrd_err mrd_pt_own_fan(pt *import, uint64_t base, uint64_t fan);
/* Returns the id of the flow arrow to which `id` belongs as a further end (mrd_pt_own_fan). Returns
 * `id` itself if it is no further end. */
uint64_t mrd_pt_own_base(const pt *import, uint64_t id);
/* Interns the key of an argument that Meridian's writer added. No key of an event's own argument
 * equals it. */
mrd_sid mrd_pt_own_key(pt *import, mrd_str name);

#endif
