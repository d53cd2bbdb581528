/*
 * trace/import/te_int.h - private to import_trace_event.c (the JSON and the file) and te_records.c (what
 * each record becomes).
 */
#ifndef MRD_TRACE_TE_INT_H
#define MRD_TRACE_TE_INT_H

#include "trace/import/te_lines.h"
#include "trace/json/args.h"

#define TE_DEPTH_MAX  65536u /* open spans of one thread */
#define TE_FACTS_MAX  64     /* top-level keys kept as facts of the input */
#define TE_FACT_BYTES 1024

/* One record as it is read; args are in the reader's mrd_args. */
typedef struct {
    uint64_t offset;
    char ph;
    bool has_ts, has_dur, has_id, has_bind, flow_in, flow_out;
    bool local_id, global_id; /* "id2" says so */
    bool enclosing;           /* "bp": "e" */
    mrd_sid name, cat, scope;
    te_id pid, tid;
    mrd_ev_ns ts;
    mrd_dur_ns dur;
    uint64_t id, bind_id;
    const char
        /* the first field with a wrong type or value, which makes the record unusable; NULL if
         * there is none */
        *bad;
} te_record;

typedef struct {
    mrd_import *imp;
    mrd_json_reader *r;
    mrd_strtab *strings;
    mrd_input *input;
    te_lines lines;
    mrd_args *args;
    mrd_joiner joiner;
    mrd_store *later_store; /* begins, ends and marks until the file has ended; NULL: none */
    mrd_stream *later;
    te_facts facts;
    mrd_sid key_name, key_labels, key_sort, key_value, key_device, key_stream, word_end;
    struct {
        mrd_sid category; /* 0: free */
        mrd_activity is;
    } seen[16]; /* categories met lately, by their lowest bits */
    struct {
        bool used;
        te_id pid, tid;
        uint32_t line;
    } met[64]; /* lines met lately, by the lowest bits of their tids */
    mrd_wall_ns base;
    bool has_base;
    int64_t absolute; /* number of records with times since 1970, minus the number of all others */
    uint64_t unsupported, facts_kept;
    char unsupported_phases[64];
    /* offset of the first top-level value that is not a trace, 0 if there is none */
    uint64_t stray_at;
    uint64_t traces;    /* number of lists of records; more than one is damage */
    bool is_array_form; /* the list being read is the whole document */
    bool cut_array;     /* the array form without its end */
    bool resumed;       /* damage outside of a list was passed over */
    bool is_searching;  /* no record was read since the last damage */
    bool foreign;       /* the document states another rank, node or time base than the first */
    bool is_xla;        /* has the marks of the XLA profiler */
    bool empty_last;    /* the record read last is {} */
} te;

/* Turns a complete record into events. Errors are the store's and NOMEM; a bad record is counted.
 */
mrd_err mrd_te_dispatch(te *t, te_record *rec);
mrd_err mrd_te_drop(te *t, const te_record *rec, const char *reason);
/*
 * te_pairs.c: a begin and its end may stand anywhere in the file, so they are kept in a store of
 * their own (bounded memory, then a temporary file) and paired in the order of their times, those of
 * one time in the order of the file. An end closes the innermost open span of its name, without a
 * name the innermost.
 */
typedef enum { TE_BEGIN = 1, TE_END, TE_MARK } te_part;
#define TE_LATER_MEMORY ((size_t) 8 << 20)
#define TE_LOOK_DOWN    4096u /* open spans that an end is compared with */

/* The event has no track yet; name is 0 where the record has none. line: of a thread, or TE_NONE and
 * the owner of the async id. */
mrd_err mrd_te_later(te *t, const mrd_event *ev, te_part part, uint32_t line, uint32_t owner);
/* Pairs all that was kept, and emits what has no end. */
mrd_err mrd_te_pair(te *t, mrd_why *why);
/* Facts of the input as a whole: "input.<n>.<key>" in the catalog. */
void mrd_te_keep_fact(te *t, mrd_str key, mrd_str value);

#endif
