/*
 * trace/import/te_lines.h - processes and lines of one Trace Event file: what its pids, tids, metadata
 * records, async ids and counter names become in the catalog.
 *
 * Names may come behind the events, and only the end of a file tells whose it is. So lines get
 * tracks of one provisional process at once, and te_lines_finish gives them their final process,
 * name and order:
 * - A file that belongs to one process (its place says so, it states a rank, or it has the marks of
 *   Kineto) becomes one process, the one of the pid labelled "CPU", else of a pid that is no device,
 *   with the most events. Other pids are device numbers and words ("Spans"): names of its lines.
 * - In any other file each pid is a process.
 * - A line is a device's when its spans say so (category, or the arguments "device" and "stream"),
 *   or when they say nothing and the pid is labelled or named as a device. A pid that is merely a
 *   number is none. Spans of the host that stand on a device's line are told apart by the report.
 * Processes of different files stay apart (mrd_process.scope) unless instance and pid are known.
 * Memory: grows with pids and lines, limited to TE_LINES_MAX, and with open asynchronous spans. Threads: one.
 */
#ifndef MRD_TRACE_TE_LINES_H
#define MRD_TRACE_TE_LINES_H

#include "base/map.h"
#include "trace/import/import.h"
#include "trace/model/activity.h"
#include "trace/model/open.h"

#define TE_LINES_MAX  65536u     /* pids, and lines of all of them */
#define TE_ASYNCS_MAX (1u << 20) /* asynchronous spans open at one time */
#define TE_NONE       UINT32_MAX

/* A pid or tid: a number, or a word. Numbers in quotes are numbers. */
typedef struct {
    bool is_word;
    int64_t number;
    mrd_sid word;
} te_id;

typedef struct {
    te_id pid;
    mrd_sid name, labels; /* from metadata, 0 unknown */
    int64_t sort_index;   /* MRD_NONE */
    uint64_t events;
} te_proc;

typedef enum { TE_THREAD, TE_ASYNC, TE_COUNTER } te_line_kind;

typedef struct {
    te_line_kind kind;
    uint32_t proc;
    te_id tid;          /* TE_THREAD */
    mrd_sid name;       /* thread name from metadata, name of the counter or of async events */
    int64_t sort_index; /* MRD_NONE */
    bool has_track;     /* events went there */
    mrd_track_id track;
    mrd_open *top; /* TE_THREAD: open spans, innermost first */
    uint32_t depth;
    /* What its spans say about where they ran (trace/model/activity.h). */
    bool any_host, any_device;
    int64_t device; /* argument "device" of device spans, MRD_NONE */
} te_line;

/* Open async spans of one id. */
typedef struct {
    mrd_map_key key;
    uint32_t line; /* of the outermost; while none is open the entry is free */
    mrd_open *top;
    uint32_t next_free;
} te_async;

/* Whose an async id is: ids of one owner are compared. */
typedef struct {
    uint32_t proc;
    bool global;
    mrd_sid scope;
} te_owner;

typedef struct {
    mrd_import *imp;
    mrd_proc_id process; /* provisional; TE_NONE before the first event */
    te_proc *procs;
    size_t n_procs, cap_procs;
    te_line *lines;
    size_t n_lines, cap_lines;
    te_async *asyncs;
    size_t n_asyncs, cap_asyncs;
    uint32_t free_async; /* TE_NONE: none */
    te_owner *owners;
    size_t n_owners, cap_owners;
    mrd_map proc_map, line_map, async_map, owner_map;
    mrd_err err; /* NOMEM: a name of a row is not what it should be */
} te_lines;

/* What the file says about itself as a whole; unknown: MRD_NONE, 0. */
typedef struct {
    int64_t rank, world_size;
    mrd_sid host;
    bool kineto; /* has the top-level keys that only Kineto writes */
} te_facts;

void mrd_te_lines_init(te_lines *t, mrd_import *imp);
void mrd_te_lines_fini(te_lines *t);
/* Each gives an index, added when new; LIMIT and NOMEM are errors, *ret_i is then untouched. */
mrd_err mrd_te_proc_of(te_lines *t, te_id pid, uint32_t *ret_i);
mrd_err mrd_te_thread_of(te_lines *t, uint32_t proc, te_id tid, uint32_t *ret_i);
/* kind TE_ASYNC or TE_COUNTER; within a process lines of one kind are told apart by name and
 * category. */
mrd_err mrd_te_named_line(te_lines *t, te_line_kind kind, uint32_t proc, mrd_sid name,
                          mrd_sid category, uint32_t *ret_i);
/* An id is its process's, unless it is global ("id2"). A global one has an owner per process too, for
 * the line that it begins on: compare them by mrd_te_owner_key. */
mrd_err mrd_te_owner_of(te_lines *t, uint32_t proc, mrd_sid scope, bool global, uint32_t *ret_i);
uint64_t mrd_te_owner_key(const te_lines *t, uint32_t owner);
/* The track of a line, made when first asked for; counts an event of its process. */
mrd_track_id mrd_te_track(te_lines *t, uint32_t line);
/* A span of this line ran there; device: its argument, MRD_NONE without. */
void mrd_te_saw(te_lines *t, uint32_t line, mrd_activity where, int64_t device);
/* The open spans of this async id. te_async_get: TE_NONE when nothing is open. */
uint32_t mrd_te_async_get(const te_lines *t, mrd_map_key key);
mrd_err mrd_te_async_open(te_lines *t, mrd_map_key key, uint32_t line, uint32_t *ret_i);
void mrd_te_async_close(te_lines *t, uint32_t async);
/* Gives processes and tracks of the catalog their final form. Errors: NOMEM, and they have none. */
mrd_err mrd_te_lines_finish(te_lines *t, const te_facts *facts);

#endif
