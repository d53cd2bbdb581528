/*
 * trace/import/trace_event/te_lines.h - finds the processes and lines of one Trace Event file, and
 * registers them in the catalog. A line (te_line) is a thread, a counter, or the async spans of one
 * name. It becomes a track.
 *
 * Names may follow the events, and the process of a line is certain only at the end of the file. So
 * lines first get tracks of one provisional process. mrd_te_lines_finish() then sets their final
 * process, name and order:
 * - If the file is of one process, it becomes one process. Such a file is recognised by its
 *   location, by a stated rank, or by signs of Kineto or torch_npu. The process is the pid labelled
 *   "CPU", else the pid with the most events that is not a device. Other pids are numbers of
 *   devices, and words ("Spans"). They become parts of the names of lines.
 * - In any other file each pid is a process. Its rank is a number in its name ("rank 3"), else the
 *   argument "rank" of its spans. If the spans state different ranks, the ranks are added to the
 *   names of the threads.
 * - A line belongs to a device if its spans say so (by category, or the arguments "device" and
 *   "stream"). If they do not say where they ran, the label or name of the pid decides. A pid that
 *   is only a number is not a device. A line may have spans of the host and of a device, and
 *   reports separate them.
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

/* maximum number of pids in a file, and of lines */
#define TE_LINES_MAX  65536u
#define TE_ASYNCS_MAX (1u << 20) /* maximum number of open asynchronous spans */
#define TE_NONE       UINT32_MAX
/* value of te_line.rank if the spans of the line state different ranks */
#define TE_RANKS (-2)

/* A pid or tid, which is a number or a word. A quoted number is a number. */
typedef struct {
    bool is_word;
    int64_t number;
    mrd_sid word;
} te_id;

typedef struct {
    te_id pid;
    /* name and labels of the process as metadata records state them; 0 means unknown */
    mrd_sid name, labels;
    int64_t sort_index; /* position that the file states for sorting; MRD_NONE means unknown */
    uint64_t events;    /* number of events; mrd_te_lines_finish() sets it */
} te_proc;

typedef enum { TE_THREAD, TE_ASYNC, TE_COUNTER } te_line_kind;

typedef struct {
    te_line_kind kind;
    uint32_t proc;
    te_id tid; /* tid of a TE_THREAD */
    /* name of the thread (from metadata), of the counter, or of the async events */
    mrd_sid name;
    int64_t sort_index; /* position that the file states for sorting; MRD_NONE means unknown */
    bool has_track;     /* `track` is valid, because the line has events */
    bool is_placed;     /* true if the track got its final process and name when it was created */
    mrd_track_id track;
    uint64_t events;
    mrd_open *top; /* innermost open span of a TE_THREAD; mrd_open.below is the next outer one */
    uint32_t depth;
    /* true if spans of this line state that they ran on the host, or on a device */
    bool any_host, any_device;
    int64_t device;    /* argument "device" of the line's device spans, or MRD_NONE */
    int64_t rank;      /* argument "rank" of the spans, MRD_NONE if they have none, or TE_RANKS */
    uint32_t bound_ns; /* largest clock error bound of the line's spans and marks, in ns */
} te_line;

/* The open async spans of one async id. */
typedef struct {
    mrd_map_key key;
    uint32_t line; /* line of the outermost span; the entry is free if there are no open spans */
    mrd_open *top;
    uint32_t next_free;
} te_async;

/* The scope in which an async id is unique. Equal ids of different owners are different spans. */
typedef struct {
    uint32_t proc;
    bool global;
    mrd_sid scope;
} te_owner;

typedef struct {
    mrd_import *imp;
    mrd_proc_id process; /* provisional process of all tracks; TE_NONE before the first event */
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
    mrd_err err; /* NOMEM if the name of a track may be incomplete, else MRD_OK */
} te_lines;

/* Facts that the file states about the whole trace. Unknown values are MRD_NONE or 0. */
typedef struct {
    int64_t rank, world_size;
    int64_t groups; /* number of process groups that the process is a member of */
    mrd_sid host;
    bool kineto; /* the file has top-level keys that only Kineto writes */
} te_facts;

void mrd_te_lines_init(te_lines *lines, mrd_import *imp);
void mrd_te_lines_fini(te_lines *lines);
/* mrd_te_proc_of() finds a pid, mrd_te_thread_of() the line of a thread. They add it if it is new,
 * and store its index in *ret_i. Errors: LIMIT and NOMEM, with *ret_i unchanged. */
mrd_err mrd_te_proc_of(te_lines *lines, te_id pid, uint32_t *ret_i);
mrd_err mrd_te_thread_of(te_lines *lines, uint32_t proc, te_id tid, uint32_t *ret_i);
/* Adds a line without a process. Before mrd_te_lines_finish(), the caller must set its
 * `proc`, and also its `tid` if it is a TE_THREAD. */
mrd_err mrd_te_line_new(te_lines *lines, te_line_kind kind, uint32_t *ret_i);
/* Finds a line of kind TE_ASYNC or TE_COUNTER, and adds it if it is new. Lines of one process and
 * kind are distinguished by name and category. */
mrd_err mrd_te_named_line(te_lines *lines, te_line_kind kind, uint32_t proc, mrd_sid name,
                          mrd_sid category, uint32_t *ret_i);
/* Finds the owner of an async id, and adds it if it is new. An owner has a process, because the
 * process determines the line on which a span begins. So global ids ("id2") have one owner per
 * process, too. All owners of a global id have the same mrd_te_owner_key(), so compare owners by
 * this key. */
mrd_err mrd_te_owner_of(te_lines *lines, uint32_t proc, mrd_sid scope, bool global,
                        uint32_t *ret_i);
uint64_t mrd_te_owner_key(const te_lines *lines, uint32_t owner);
/* Returns the track of a line, creating it at the first call. Counts an event of the line. */
mrd_track_id mrd_te_track(te_lines *lines, uint32_t line);
/* Records that a span of this line ran on the host or on a device. `device` is the span's argument
 * "device", or MRD_NONE. */
void mrd_te_saw(te_lines *lines, uint32_t line, mrd_activity where, int64_t device);
/* Records the rank that a span of this line states. */
void mrd_te_saw_rank(te_lines *lines, uint32_t line, int64_t rank);
/* These functions find, add and remove the open spans of an async id. mrd_te_async_get() returns
 * TE_NONE if no span is open. */
uint32_t mrd_te_async_get(const te_lines *lines, mrd_map_key key);
mrd_err mrd_te_async_open(te_lines *lines, mrd_map_key key, uint32_t line, uint32_t *ret_i);
void mrd_te_async_close(te_lines *lines, uint32_t async);
/* Sets the final processes of the file, and the final process and name of each track. If it fails
 * (NOMEM), they are incomplete. */
mrd_err mrd_te_lines_finish(te_lines *lines, const te_facts *facts);

#endif
