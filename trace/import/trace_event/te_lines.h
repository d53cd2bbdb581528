/*
 * trace/import/trace_event/te_lines.h - finds the processes and lines of one Trace Event file. Maps
 * its pids, tids, metadata records, async ids and counter names to the catalog.
 *
 * Names may follow the events, and the process of a file is certain only at its end. So lines first
 * get tracks of one provisional process. te_lines_finish then gives them their final process, name
 * and order:
 * - A file of one process becomes one process. Such a file is recognised by its location, by a
 *   stated rank, or by marks of Kineto or torch_npu. The process is the pid labelled "CPU", else
 *   the pid with the most events that is not a device. Other pids are device numbers and words
 *   ("Spans"), which become names of lines.
 * - In any other file each pid is a process. Its rank follows from its name ("rank 3"), else from
 *   the argument "rank" of all its spans. If the spans state different ranks, these are added to
 *   the names of the threads.
 * - A line belongs to a device if its spans say so (category, or the arguments "device" and
 *   "stream"). If they do not say where they ran, the label or name of the pid decides. A pid that
 *   is only a number is not a device. The report separates host spans from device spans on the same
 *   line.
 * Processes of different files are separate (mrd_process.scope) unless they state instance and pid.
 * Memory: grows with pids and lines, limited to TE_LINES_MAX, and with open asynchronous spans.
 * Threads: one.
 */
#ifndef MRD_TRACE_TE_LINES_H
#define MRD_TRACE_TE_LINES_H

#include "base/map.h"
#include "trace/import/import.h"
#include "trace/model/activity.h"
#include "trace/model/open.h"

#define TE_LINES_MAX  65536u     /* maximum number of pids, and of all lines together */
#define TE_ASYNCS_MAX (1u << 20) /* maximum number of open asynchronous spans */
#define TE_NONE       UINT32_MAX
#define TE_RANKS      (-2) /* value of te_line.rank: the line has spans of several ranks */

/* A pid or tid: a number or a word. Numbers in quotes are numbers. */
typedef struct {
    bool is_word;
    int64_t number;
    mrd_sid word;
} te_id;

typedef struct {
    te_id pid;
    mrd_sid name, labels; /* name and labels from metadata; 0 means unknown */
    int64_t sort_index;   /* position in lists that the file requests; MRD_NONE means unknown */
    uint64_t events;      /* number of events; set by mrd_te_lines_finish */
} te_proc;

typedef enum { TE_THREAD, TE_ASYNC, TE_COUNTER } te_line_kind;

typedef struct {
    te_line_kind kind;
    uint32_t proc;
    te_id tid;          /* tid of a TE_THREAD */
    mrd_sid name;       /* thread name from metadata, or name of the counter or async events */
    int64_t sort_index; /* position in lists that the file requests; MRD_NONE means unknown */
    bool has_track;     /* the line has events, so `track` is valid */
    bool is_placed;     /* the track was final from the start */
    mrd_track_id track;
    uint64_t events;
    mrd_open *top; /* open spans of a TE_THREAD, innermost first */
    uint32_t depth;
    /* Where the spans of this line ran, according to themselves (trace/model/activity.h). */
    bool any_host, any_device;
    int64_t device;    /* argument "device" of the line's device spans, or MRD_NONE */
    int64_t rank;      /* argument "rank" of the line's spans, MRD_NONE without one, or TE_RANKS */
    uint32_t bound_ns; /* largest bound of the times of the line's spans and marks */
} te_line;

/* Open async spans of one id. */
typedef struct {
    mrd_map_key key;
    uint32_t line; /* line of the outermost span; the entry is free if there are no open spans */
    mrd_open *top;
    uint32_t next_free;
} te_async;

/* The scope of async ids: only ids of the same owner are compared. */
typedef struct {
    uint32_t proc;
    bool global;
    mrd_sid scope;
} te_owner;

typedef struct {
    mrd_import *imp;
    mrd_proc_id process; /* provisional process; TE_NONE before the first event */
    te_proc *procs;
    size_t n_procs, cap_procs;
    te_line *lines;
    size_t n_lines, cap_lines;
    te_async *asyncs;
    size_t n_asyncs, cap_asyncs;
    uint32_t free_async; /* first free entry of asyncs; TE_NONE if there is none */
    te_owner *owners;
    size_t n_owners, cap_owners;
    mrd_map proc_map, line_map, async_map, owner_map;
    mrd_err err; /* after NOMEM the name of a row may be wrong */
} te_lines;

/* Facts about the file as a whole. Unknown values are MRD_NONE or 0. */
typedef struct {
    int64_t rank, world_size;
    mrd_sid host;
    bool kineto; /* the file has top-level keys that only Kineto writes */
} te_facts;

void mrd_te_lines_init(te_lines *lines, mrd_import *imp);
void mrd_te_lines_fini(te_lines *lines);
/* Each stores an index in *ret_i, and adds a new entry if needed. Errors: LIMIT and NOMEM, with
 * *ret_i unchanged. */
mrd_err mrd_te_proc_of(te_lines *lines, te_id pid, uint32_t *ret_i);
mrd_err mrd_te_thread_of(te_lines *lines, uint32_t proc, te_id tid, uint32_t *ret_i);
/* Adds a line of a process that is not known yet. The caller sets `proc`, and `tid` for TE_THREAD,
 * before mrd_te_lines_finish. */
mrd_err mrd_te_line_new(te_lines *lines, te_line_kind kind, uint32_t *ret_i);
/* Returns a line of kind TE_ASYNC or TE_COUNTER. Within a process, lines of the same kind differ by
 * name and category. */
mrd_err mrd_te_named_line(te_lines *lines, te_line_kind kind, uint32_t proc, mrd_sid name,
                          mrd_sid category, uint32_t *ret_i);
/* The owner of an id is its process, unless the id is global ("id2"). Even a global id has one
 * owner per process, because the owner determines the line on which the span begins. Use
 * mrd_te_owner_key to compare owners. */
mrd_err mrd_te_owner_of(te_lines *lines, uint32_t proc, mrd_sid scope, bool global,
                        uint32_t *ret_i);
uint64_t mrd_te_owner_key(const te_lines *lines, uint32_t owner);
/* Returns the track of a line, creating it at the first call. Counts an event of the line. */
mrd_track_id mrd_te_track(te_lines *lines, uint32_t line);
/* Records where a span of this line ran. `device` is its argument "device", or MRD_NONE. */
void mrd_te_saw(te_lines *lines, uint32_t line, mrd_activity where, int64_t device);
/* Records the rank that a span of this line states. */
void mrd_te_saw_rank(te_lines *lines, uint32_t line, int64_t rank);
/* The open spans of an async id. mrd_te_async_get returns TE_NONE if none is open. */
uint32_t mrd_te_async_get(const te_lines *lines, mrd_map_key key);
mrd_err mrd_te_async_open(te_lines *lines, mrd_map_key key, uint32_t line, uint32_t *ret_i);
void mrd_te_async_close(te_lines *lines, uint32_t async);
/* Gives processes and tracks of the catalog their final form. If this fails (NOMEM), they are
 * incomplete. */
mrd_err mrd_te_lines_finish(te_lines *lines, const te_facts *facts);

#endif
