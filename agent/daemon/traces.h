/*
 * agent/daemon/traces.h - converts trace files in capture directories to events of the session,
 * with the importers of trace/. Reads the runtime's JSON (the saved output of
 * nrt_sys_trace_fetch_events) and framework traces (Trace Event JSON, XSpace). The files are also
 * sent as artifacts.
 *
 * Reading  A separate thread reads a file into a sorted store. Up to MRD_TRACES_MEMORY bytes are in
 *          memory, and the rest is in a temporary file. The loop emits the events in parts, one
 *          part per step. How much was emitted is committed together with the batches
 *          (mrd_traces_positions). If the agent is killed, the next agent continues there, so each
 *          event is emitted once. A file is identified by its contents and name.
 * Process  The name of the directory identifies the process. The process must be on this node and
 *          of the same user. agent/files/files.h ignores files of other nodes.
 * Growth   A file that grows after it was read is read again. If the events of the earlier version
 *          come first, only the events after them are emitted. Otherwise it is unknown which events
 *          are new. Then nothing is emitted, and the file is reported as read in part.
 * Clock    The times in a file must be times of the wall clock (CLOCK_REALTIME). Events outside of
 *          the session's time range are discarded. Events with times of another clock are normally
 *          outside of it.
 * Twice    A runtime file is skipped if the process's runtime events came through its rings,
 *          because libmeridian fetches the events that the runtime would save. Framework traces
 *          always come from files. <host>.xplane.pb and <host>.trace.json.gz of one directory
 *          contain the same events. The first complete one is read. The other one is read only if
 *          the first gave no event.
 * Threads  The functions must be called by one thread. A second thread runs while a file is read.
 */
#ifndef MRD_AGENT_DAEMON_TRACES_H
#define MRD_AGENT_DAEMON_TRACES_H

#include "agent/files/files.h"
#include "agent/rings/drain.h"
#include "agent/spool/spool.h"

#define MRD_TRACES_MEMORY (8u << 20)
#define MRD_TRACES_PART                                                                            \
    (64u << 20) /* memory for a format that is read in parts; a part is a plane of an XSpace */
/* Maximum number of queued files. The agent holds each of them open. One user's files may take at
 * most half of the slots that other users' files leave free. Further files are not read, which is
 * reported. */
#define MRD_TRACES_QUEUE 1024u
/* maximum number of entries about trace files that were read, such as names and versions, while
 * sessions run */
#define MRD_TRACES_KNOWN 2048u

typedef struct mrd_traces mrd_traces;

typedef enum {
    MRD_TRACE_WHOLE,   /* all events of the file were read */
    MRD_TRACE_UNDATED, /* all events of the file were read, but none has a time of the wall clock */
    /* the file was not read, because its kind is unsupported or the same events came from
     * elsewhere */
    MRD_TRACE_LEFT,
    MRD_TRACE_CUT, /* events may be missing, because the file was read in part or not at all */
} mrd_trace_end;

typedef struct {
    const char *instance_id;
    const char *dir; /* directory for the reader's temporary file; NULL means TMPDIR or /tmp */
    const char *job; /* job for processes that name no job; NULL means none */
    bool simulated;
    mrd_err (*event)(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev);
    /* Reports a process that has events in a trace file, before its first event. Called again after
     * its last event, with process->gone set. */
    void (*process)(void *self, mrd_drain_process *process);
    /* Reports that a file is finished, read or not. The members rel, sha256 and fd of *file may be
     * missing. `message` is empty if the whole file was read. */
    void (*finished)(void *self, const mrd_files_complete *file, mrd_trace_end end, uint64_t events,
                     const char *message);
    /* Withdraws a report of MRD_TRACE_CUT to the sessions in `takers`, because the file has grown.
     * The result for the new version is reported instead. May be NULL. */
    void (*withdraw)(void *self, const uint64_t takers[MRD_FILES_SESSIONS]);
    void *self;
} mrd_traces_options;

typedef struct {
    uint64_t files; /* trace files that were read */
    /* number of files that were skipped, because their kind is unknown or they were already read */
    uint64_t left_alone;
    uint64_t failed;         /* files that could not be read */
    uint64_t begun, refused; /* emitted events, and how many of them were not accepted */
    uint64_t dropped;        /* records of files that are not events */
} mrd_traces_stats;

mrd_err mrd_traces_open(const mrd_traces_options *options, mrd_traces **ret_traces, mrd_why *why);
void mrd_traces_close(mrd_traces *traces); /* aborts a read in progress */
/* Adds a process that has rings. A capture directory may have the pid of this process in its name.
 * `uid` is the user of its rings. `runtime` is true if its runtime events come through its
 * rings. */
void mrd_traces_process(mrd_traces *traces, const mrd_ident *ident, int64_t uid, bool runtime);
/* Queues a complete file. Its descriptor is read, so the path may refer to another file by then.
 * Ignores files with other names than *.json, *.json.gz, *.xplane.pb. */
void mrd_traces_file(mrd_traces *traces, const mrd_files_complete *file);
/* Runs one step of reading and emitting. While `room` is false, no events are emitted, because
 * there is little room for more batches in the spool. */
void mrd_traces_step(mrd_traces *traces, bool room);
bool mrd_traces_idle(const mrd_traces *traces);
mrd_local_ns mrd_traces_next_ns(const mrd_traces *traces);
/* Forgets which files were read. Call this when no session is left. */
void mrd_traces_forget(mrd_traces *traces);
/* Restores how far each file was read, from the last commit of a previous agent. */
void mrd_traces_resume(mrd_traces *traces, const mrd_spool_position *positions, size_t n);
/* Calls `call` for each trace file, with its key and how much of it was emitted. May be called only
 * when the batches with these events are sealed. */
void mrd_traces_positions(const mrd_traces *traces,
                          void (*call)(void *to, uint64_t key, uint64_t value), void *to);
/* Gets the statistics; all are zero if `traces` is NULL. */
void mrd_traces_get_stats(const mrd_traces *traces, mrd_traces_stats *ret_stats);

#endif
