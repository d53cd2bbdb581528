/* agent/daemon/traces.h - converts trace files in capture directories to events of the session,
 * with the importers of trace/: the runtime's JSON (nrt_sys_trace_fetch_events, saved) and
 * framework traces (Trace Event JSON, XSpace). The files are also sent as artifacts. Reading a
 * separate thread reads a file into a sorted store (MRD_TRACES_MEMORY, the rest in a temporary
 * file). The loop emits its events in parts, one per step. The emitted part is committed with the
 * batches (mrd_traces_positions), so that the next agent after a killed one continues after it, and
 * each event is emitted once. A file is identified by its contents and name. Process  is named by
 * the directory. It must be on this node and of the same user. agent/files/files.h ignores files of
 * other nodes. Growth a file that grows after it was read is read again. If the events of the
 * earlier version come first, only those after them are emitted. Otherwise the new ones are not
 * known: nothing is emitted, and the file is reported as read in part. Clock the wall clock. Events
 * outside of the session, such as times of another clock, are dropped as not recorded. Twice a
 * runtime file is skipped if this process's runtime events came through its rings, because the hook
 * fetches the events that the runtime would save. Framework traces have no other way.
 * <host>.xplane.pb and <host>.trace.json.gz of one directory contain the same events: the first
 * complete one is read, and the other one only if no event came of the first. Threads the caller's,
 * and one while a file is read. */
#ifndef MRD_AGENT_DAEMON_TRACES_H
#define MRD_AGENT_DAEMON_TRACES_H

#include "agent/files/files.h"
#include "agent/rings/drain.h"
#include "agent/spool/spool.h"

#define MRD_TRACES_MEMORY (8u << 20)
#define MRD_TRACES_PART                                                                            \
    (64u << 20) /* size limit for formats that are read in parts: the largest plane of an XSpace */
/* Maximum number of queued files, which are open. A user may use all slots that other users leave
 * free. Further files are not read, which is reported. */
#define MRD_TRACES_QUEUE 1024u
#define MRD_TRACES_KNOWN                                                                           \
/* maximum number of file versions that are remembered as read during the running sessions */
2048u

    typedef struct mrd_traces mrd_traces;

typedef enum {
    MRD_TRACE_WHOLE,   /* all events of the file were read */
    MRD_TRACE_UNDATED, /* all events were read, but their times belong to no session */
    MRD_TRACE_LEFT,    /* the file is of another kind, or its events were read already */
    MRD_TRACE_CUT,     /* events may be missing: the file was read in part or not at all */
} mrd_trace_end;

typedef struct {
    const char *instance_id;
    const char *dir; /* directory of the temporary file; NULL means TMPDIR or /tmp */
    const char *job; /* job of processes without a job of their own; NULL means none */
    bool simulated;
    mrd_err (*event)(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev);
    /* Reports a process of a file: before its first event, and with process->gone after its last
     * event. */
    void (*process)(void *self, mrd_drain_process *process);
    /* Reports that a file is finished. Its rel, sha256 and fd may be missing. `message` is empty
     * for a file that was read completely. */
    void (*finished)(void *self, const mrd_files_complete *file, mrd_trace_end end, uint64_t events,
                     const char *message);
    /* Called when a file that was reported as MRD_TRACE_CUT to these sessions has grown. The next
     * version is reported instead. May be NULL. */
    void (*withdraw)(void *self, const uint64_t takers[MRD_FILES_SESSIONS]);
    void *self;
} mrd_traces_options;

typedef struct {
    uint64_t files, left_alone,
        failed; /* numbers of files: read; skipped as unknown or already read; failed */
    uint64_t begun, refused, dropped; /* events emitted, refused; records that are not events */
} mrd_traces_stats;

mrd_err mrd_traces_open(const mrd_traces_options *options, mrd_traces **ret_traces, mrd_why *why);
void mrd_traces_close(mrd_traces *traces); /* aborts the reading of a file */
/* Adds a process with rings: its name in directories (its own pid), rank and job, and the user of
 * its rings. `runtime` is true if its runtime events come through its rings. */
void mrd_traces_process(mrd_traces *traces, const mrd_ident *ident, int64_t uid, bool runtime);
/* Queues a complete file. Its descriptor is read, whatever its path refers to by then. Files with
 * other names than *.json, *.json.gz, *.xplane.pb are ignored. */
void mrd_traces_file(mrd_traces *traces, const mrd_files_complete *file);
/* Runs one turn. `room` is false while the spool has little room, so that files should wait. */
void mrd_traces_step(mrd_traces *traces, bool room);
bool mrd_traces_idle(const mrd_traces *traces);
mrd_local_ns mrd_traces_next_ns(const mrd_traces *traces);
/* Call it when no session is left: forgets the files that were read. */
void mrd_traces_forget(mrd_traces *traces);
/* Takes the positions in the last commit of the previous agent. */
void mrd_traces_resume(mrd_traces *traces, const mrd_spool_position *positions, size_t n);
/* Calls back for each file with the amount that was emitted. The caller must have sealed the
 * batches with these events. */
void mrd_traces_positions(const mrd_traces *traces,
                          void (*call)(void *to, uint64_t key, uint64_t value), void *to);
/* Gets the statistics; all are zero if `traces` is NULL. */
void mrd_traces_get_stats(const mrd_traces *traces, mrd_traces_stats *ret_stats);

#endif
