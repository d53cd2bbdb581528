/*
 * trace/import/trace_event/te_int.h - private to import_trace_event.c (reads JSON), te_records.c
 * (converts each record) and te_pairs.c (pairs begins and ends). The Perfetto reader uses it, too.
 */
#ifndef MRD_TRACE_TE_INT_H
#define MRD_TRACE_TE_INT_H

#include "trace/import/trace_event/te_lines.h"
#include "trace/json/args.h"

/* maximum number of flow arrows of an event; mrd_event.flow_count has 8 bits */
#define TE_FLOWS_MAX 255
#define TE_DEPTH_MAX 65536u /* maximum number of open spans of one thread */
/* maximum number of top-level members that are stored as facts of the input */
#define TE_FACTS_MAX  64
#define TE_FACT_BYTES 1024

/* A record as it was read. Its arguments are in te.args. */
typedef struct {
    uint64_t offset;
    char ph;
    bool has_ts, has_dur, has_id, has_bind, flow_in, flow_out;
    bool local_id, global_id; /* the record's id is the member "local" or "global" of "id2" */
    /* the field "bp" is "e", so the flow arrow ends at the enclosing span, not at the next one */
    bool enclosing;
    mrd_sid name, cat, scope;
    te_id pid, tid;
    mrd_ev_ns ts;
    mrd_dur_ns dur;
    uint64_t id, bind_id;
    /* why the record cannot be used: its first field with a wrong type or value; else NULL */
    const char *bad;
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
    /* Begins, ends and marks are stored here until the end of the input. NULL before the first
     * one. */
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
    } met[64]; /* cache of te_lines, by the lowest bits of their tids */
    mrd_wall_ns base;
    bool has_base;
    int64_t absolute; /* number of records with times since 1970, minus the number of all others */
    uint64_t unsupported, facts_kept;
    char unsupported_phases[64];
    /* Offset of the first top-level value that is not a trace; 0 if there is none. */
    uint64_t stray_at;
    uint64_t traces;    /* number of lists of records in the file; a valid file has one */
    bool is_array_form; /* the current list of records is the whole document */
    bool cut_array;     /* the document is an array without its closing bracket */
    bool resumed;       /* damage outside of a list was skipped */
    bool is_searching;  /* no record was read since the latest damage */
    /* the document states another rank, node or time base than the first document of the file */
    bool foreign;
    bool is_xla;     /* the file has a member that only the XLA profiler writes */
    bool empty_last; /* the latest record was {} */
    /* Changes an event before it is emitted. Returns false if the event repeats another one, so
     * that it is neither emitted nor counted. NULL means that events are not changed. */
    bool (*refine)(te *t, mrd_event *ev);
    void *refine_self;
    uint32_t profile;
    /* These members are for formats that state no directions of arrows. The directions then follow
     * from the order in time: the first STEP of an arrow becomes its START, and all others become
     * ENDs. With `arrows_are_chains`, only the last STEP becomes an END. An END in the input ends
     * the arrow at this point. If its `ends` is 1, the arrow has further ends. `arrows` maps the id
     * of an arrow to twice the number of its remaining points, plus 1 if the arrow has begun. */
    bool arrows_by_time, arrows_are_chains;
    mrd_map arrows;
    mrd_flow flows[TE_FLOWS_MAX];
};

/* Initialises the state. import->args is NULL if out of memory. */
void mrd_te_init(te *import, mrd_import *imp);
void mrd_te_fini(te *import);
/* Emits an event that was counted as a record. Errors: the errors of mrd_import_put. */
mrd_err mrd_te_put(te *import, mrd_event *ev);
/* Records for the te_line whether a span of this category ran on the host or on a device. If the
 * category does not tell, it ran on a device if import->args state a device and a stream. */
void mrd_te_look(te *import, mrd_sid category, uint32_t line);

/* Converts a record to events, or counts it as dropped. Errors: NOMEM and the errors of the
 * store. */
mrd_err mrd_te_dispatch(te *import, te_record *rec);
mrd_err mrd_te_drop(te *import, const te_record *rec, const char *reason);
/*
 * Functions of te_pairs.c. The begin and the end of a span may be anywhere in the file. So they are
 * stored (in bounded memory, then in a temporary file), and paired in order of their times. Records
 * with equal times keep the order of the file. An end closes the innermost open span of its name.
 * If it has no name, it closes the innermost open span.
 */
typedef enum { TE_BEGIN = 1, TE_END, TE_MARK, TE_WHOLE } te_part; /* TE_WHOLE is a complete span */
#define TE_LATER_MEMORY ((size_t) 8 << 20)
/* maximum number of open spans that are compared with the name of an end */
#define TE_LOOK_DOWN 4096u

/* Stores an event for mrd_te_pair. Its name is 0 if the record has none. Its track is not set yet:
 * `line` is the line of its thread. For async records, `line` is TE_NONE, and `owner` is the owner
 * of the id. */
mrd_err mrd_te_later(te *import, const mrd_event *ev, te_part part, uint32_t line, uint32_t owner);
/* Pairs all stored begins and ends, and emits the spans and marks. A begin without an end becomes
 * an unfinished span. */
mrd_err mrd_te_pair(te *import, mrd_why *why);
/* Stores a fact about the input in the catalog, as "input.<number>.<key>". */
void mrd_te_keep_fact(te *import, mrd_str key, mrd_str value);

#endif
