/*
 * agent/daemon/traces.h - converts trace files in capture directories to events of the session, with the
 * importers of trace/: the runtime's JSON (nrt_sys_trace_fetch_events, saved) and framework traces
 * (Trace Event JSON, XSpace). The files are also sent as artifacts.
 *
 * Reading  a separate thread reads a file into a sorted store (MRD_TRACES_MEMORY, the rest in a
 *          temporary file). The loop emits its events in parts, one per step. The emitted part is
 *          committed with the batches (mrd_traces_positions), so that the successor of a killed
 *          agent continues after it, and each event is emitted once. A file is identified by its
 *          contents and name.
 * Process  is named by the directory. It must be on this node and of the same user. agent/files/files.h
 *          ignores files of other nodes.
 * Growth   a file that grows after it was read is read again. If the events of the earlier version
 *          come first, only those after them are emitted. Otherwise the new ones are not known:
 *          nothing is emitted, and the file is reported as read in part.
 * Clock    the wall clock. Events outside of the session, such as times of another clock, are
 *          dropped as not recorded.
 * Twice    a runtime file is skipped if this process's runtime events came through its rings,
 *          because the hook fetches the events that the runtime would save. Framework traces have
 *          no other way. <host>.xplane.pb and <host>.trace.json.gz of one directory contain the
 *          same events: the first complete one is read, and the other one only if no event came of
 *          the first.
 * Threads  the caller's, and one while a file is read.
 */
#ifndef MRD_AGENT_DAEMON_TRACES_H
#define MRD_AGENT_DAEMON_TRACES_H

#include "agent/files/files.h"
#include "agent/rings/drain.h"
#include "agent/spool/spool.h"

#define MRD_TRACES_MEMORY (8u << 20)
#define MRD_TRACES_PART                                                                            \
    (64u << 20) /* for a format that is read in parts: size of a plane of an XSpace */
/* Queued files, which are open. A user may use all slots that other users leave free. Further files
 * are not read, which is reported. */
#define MRD_TRACES_QUEUE 1024u
#define MRD_TRACES_KNOWN                                                                           \
    2048u /* names and versions of the files that were read in the running sessions */

typedef struct mrd_traces mrd_traces;

typedef enum {
    MRD_TRACE_WHOLE,   /* all its events were read */
    MRD_TRACE_UNDATED, /* all were read, but their times belong to no session */
    MRD_TRACE_LEFT,    /* it is of another kind, or its events are known already */
    MRD_TRACE_CUT,     /* events may be missing: it was read in part or not at all */
} mrd_trace_end;

typedef struct {
    const char *instance_id;
    const char *dir; /* of the temporary file. NULL means TMPDIR or /tmp */
    const char *job; /* for processes without a job of their own. NULL means none */
    bool simulated;
    mrd_err (*event)(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev);
    /* A process of a file: before its first event and, with `gone`, after its last. */
    void (*process)(void *self, mrd_drain_process *process);
    /* A file is done. Its rel, sha256 and fd may be missing. `message` is empty for a whole file. */
    void (*finished)(void *self, const mrd_files_complete *file, mrd_trace_end end, uint64_t events,
                     const char *message);
    /* A file that was reported as MRD_TRACE_CUT to these sessions has grown, and its next version
     * is reported instead. May be NULL. */
    void (*withdraw)(void *self, const uint64_t takers[MRD_FILES_SESSIONS]);
    void *self;
} mrd_traces_options;

typedef struct {
    uint64_t files, left_alone,
        failed;                       /* files: read, skipped as unknown or already read, failed */
    uint64_t begun, refused, dropped; /* events emitted, refused; records that are not events */
} mrd_traces_stats;

mrd_err mrd_traces_open(const mrd_traces_options *options, mrd_traces **ret_traces, mrd_why *why);
void mrd_traces_close(mrd_traces *traces); /* ends a reading under way */
/* A process with rings: its name in directories (its own pid), rank and job, and the user of its
 * rings. `runtime`: its runtime events come through its rings. */
void mrd_traces_process(mrd_traces *traces, const mrd_ident *ident, int64_t uid, bool runtime);
/* Takes a complete file. Reads from its descriptor, whatever its path refers to by then. Files with
 * other names than *.json, *.json.gz, *.xplane.pb are ignored. */
void mrd_traces_file(mrd_traces *traces, const mrd_files_complete *file);
/* `room` is false while there is little room for more batches, so that files should wait. */
void mrd_traces_step(mrd_traces *traces, bool room);
bool mrd_traces_idle(const mrd_traces *traces);
mrd_local_ns mrd_traces_next_ns(const mrd_traces *traces);
/* No session is left: forgets the files that were read. */
void mrd_traces_forget(mrd_traces *traces);
/* Takes the positions of a predecessor's last commit. */
void mrd_traces_resume(mrd_traces *traces, const mrd_spool_position *positions, size_t n);
/* Calls back for each file with the amount that was emitted. Its batches must be sealed. */
void mrd_traces_positions(const mrd_traces *traces,
                          void (*call)(void *to, uint64_t key, uint64_t value), void *to);
/* NULL means that nothing was counted. */
void mrd_traces_get_stats(const mrd_traces *traces, mrd_traces_stats *ret_stats);

#endif
