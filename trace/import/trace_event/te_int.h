/*
 * trace/import/trace_event/te_int.h - private to import_trace_event.c (JSON and file) and
 * te_records.c (the conversion of each record).
 */
#ifndef MRD_TRACE_TE_INT_H
#define MRD_TRACE_TE_INT_H

#include "trace/import/trace_event/te_lines.h"
#include "trace/json/args.h"

#define TE_FLOWS_MAX  255    /* arrows of one event: mrd_event.flow_count has 8 bits */
#define TE_DEPTH_MAX  65536u /* open spans of one thread */
#define TE_FACTS_MAX  64     /* top-level keys kept as facts of the input */
#define TE_FACT_BYTES 1024

/* A record as it was read. Its arguments are in te.args. */
typedef struct {
    uint64_t offset;
    char ph;
    bool has_ts, has_dur, has_id, has_bind, flow_in, flow_out;
    bool local_id, global_id; /* the id comes from "id2", as local or global */
    bool enclosing;           /* the record has "bp": "e" */
    mrd_sid name, cat, scope;
    te_id pid, tid;
    mrd_ev_ns ts;
    mrd_dur_ns dur;
    uint64_t id, bind_id;
    const char
        /* name of the first field with a wrong type or value, which makes the record unusable; else
         * NULL */
        *bad;
} te_record;

typedef struct te te;
struct te {
    mrd_import *imp;
    mrd_json_reader *r; /* NULL if the input is not JSON */
    mrd_strtab *strings;
    mrd_input *input;
    te_lines lines;
    mrd_args *args;
    mrd_joiner joiner;
    /* store of begins, ends and marks, which wait for the end of the file; or NULL */
    mrd_store *later_store;
    mrd_stream *later;
    te_facts facts;
    mrd_sid key_name, key_labels, key_sort, key_value, key_device, key_stream, key_rank, word_end;
    struct {
        mrd_sid category; /* 0 means that the entry is unused */
        mrd_activity is;
    } seen[16]; /* cache of categories, by their lowest bits */
    struct {
        bool used;
        te_id pid, tid;
        uint32_t line;
    } met[64]; /* cache of lines, by the lowest bits of their tids */
    mrd_wall_ns base;
    bool has_base;
    int64_t absolute; /* number of records with times since 1970, minus the number of all others */
    uint64_t unsupported, facts_kept;
    char unsupported_phases[64];
    /* Offset of the first top-level value that is not a trace; 0 if there is none. */
    uint64_t stray_at;
    uint64_t traces;    /* number of lists of records; more than one is damage */
    bool is_array_form; /* the list being read is the whole document */
    bool cut_array;     /* the document is an array without its end */
    bool resumed;       /* damage outside of a list was skipped */
    bool is_searching;  /* no record was read since the latest damage */
    bool foreign;       /* the document states another rank, node or time base than the first one */
    bool is_xla;        /* the file has the marks of the XLA profiler */
    bool empty_last;    /* the latest record was {} */
    /* Changes an event before it is emitted to `profile`. Returns false if it is only a repetition,
     * which is not counted. NULL means that events stay as they are. */
    bool (*refine)(te *t, mrd_event *ev);
    void *refine_self;
    uint32_t profile;
    /* For formats in which arrows have no directions. `arrows` maps the id of an arrow to twice the
     * number of its points that follow, plus 1 if the arrow has begun. In order of time, the first
     * STEP of an arrow becomes its START, and all other STEPs become ENDs. With
     * `arrows_are_chains`, only the last STEP becomes an END. An END ends the arrow at its point.
     * An END with `ends` 1 is one of several. */
    bool arrows_by_time, arrows_are_chains;
    mrd_map arrows;
    mrd_flow flows[TE_FLOWS_MAX];
};

/* Initialises the state. import->args is NULL if out of memory. */
void mrd_te_init(te *import, mrd_import *imp);
void mrd_te_fini(te *import);
/* Emits an event that was counted as a record. Errors: the errors of mrd_import_put. */
mrd_err mrd_te_put(te *import, mrd_event *ev);
/* Records where a span of this category ran: where its category says, else on a device if
 * import->args state a device and a stream. */
void mrd_te_look(te *import, mrd_sid category, uint32_t line);

/* Converts a complete record to events. Errors: NOMEM and the errors of the store. A bad record is
 * counted. */
mrd_err mrd_te_dispatch(te *import, te_record *rec);
mrd_err mrd_te_drop(te *import, const te_record *rec, const char *reason);
/*
 * te_pairs.c: a begin and its end may be anywhere in the file. They are kept in a store of their
 * own (bounded memory, then a temporary file) and paired in order of their times. Records of equal
 * time keep the order of the file. An end closes the innermost open span of its name, or the
 * innermost span if it has no name.
 */
typedef enum { TE_BEGIN = 1, TE_END, TE_MARK, TE_WHOLE } te_part; /* TE_WHOLE is a complete span */
#define TE_LATER_MEMORY ((size_t) 8 << 20)
#define TE_LOOK_DOWN    4096u /* maximum number of open spans with which an end is compared */

/* Keeps an event without a track for mrd_te_pair; its name is 0 if the record has none. `line` is
 * the line of a thread, or TE_NONE, with the owner of the async id. */
mrd_err mrd_te_later(te *import, const mrd_event *ev, te_part part, uint32_t line, uint32_t owner);
/* Pairs all kept events. Emits events without an end as unfinished. */
mrd_err mrd_te_pair(te *import, mrd_why *why);
/* Stores a fact about the whole input, as "input.<n>.<key>" in the catalog. */
void mrd_te_keep_fact(te *import, mrd_str key, mrd_str value);

#endif
