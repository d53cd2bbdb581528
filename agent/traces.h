/*
 * agent/traces.h - trace files of capture directories as events of the session: the runtime's JSON
 * (nrt_sys_trace_fetch_events, saved) and framework traces (Trace Event JSON, XSpace), read by the
 * importers of trace/. The files are carried as artifacts all the same.
 *
 * A file is read by a thread of its own into a sorted store (MRD_TRACES_MEMORY, the rest in a
 * temporary file), and given out from there by the loop, a part per step. How much was given out
 * is committed with the batches (mrd_traces_positions), so that a killed agent's successor goes on
 * behind it: each event once. A file is known by its contents and name.
 * Whose: the process that the folder names, on this node, if it is of the same user (agent/files.h leaves files of other nodes
 * alone). Which clock: the wall clock; events outside of the session, which is where times of another clock fall, are dropped as
 * not recorded.
 * Twice: a runtime file is left alone when this process's runtime events came through its rings
 * (the hook fetches what the runtime would save). Framework traces have no other way.
 * Of <host>.xplane.pb and <host>.trace.json.gz of one folder, which hold the same events, the one that is complete
 * first is read, and the other one only when nothing came of it.
 * Threads: the caller's, and one while a file is read.
 */
#ifndef MRD_AGENT_TRACES_H
#define MRD_AGENT_TRACES_H

#include "agent/drain.h"
#include "agent/files.h"
#include "agent/spool.h"

#define MRD_TRACES_MEMORY (8u << 20)
#define MRD_TRACES_PART                                                                            \
    (64u << 20) /* of a file whose format is read in parts: a plane of an XSpace */
/* Files that wait, open; a user may have as many as are left for others. More are not read, and
 * said. */
#define MRD_TRACES_QUEUE 1024u
#define MRD_TRACES_KNOWN 1024u /* files of the running sessions that were read */

typedef struct mrd_traces mrd_traces;

typedef struct {
    const char *instance_id;
    const char *dir; /* of the temporary file. NULL means TMPDIR or /tmp */
    const char *job; /* of processes that do not say theirs. NULL means none */
    bool simulated;
    mrd_err (*event)(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev);
    /* A process of a file, before its first event and, with `gone`, after its last. */
    void (*process)(void *self, mrd_drain_process *process);
    /* A file was read to its end, left alone or given up: message. `undated`: it was read, and no
     * session can have its events. */
    void (*finished)(void *self, const char *path, uint64_t events, bool undated,
                     const char *message);
    void *self;
} mrd_traces_options;

typedef struct {
    uint64_t files, left_alone,
        failed;                       /* read; of no known kind or known otherwise; not readable */
    uint64_t begun, refused, dropped; /* events given; not taken; records that are no events */
} mrd_traces_stats;

mrd_err mrd_traces_open(const mrd_traces_options *options, mrd_traces **ret_traces, mrd_why *why);
void mrd_traces_close(mrd_traces *t); /* ends a reading under way */
/* A process with rings: what it is called in folders (its own pid), its rank and job, the user its
 * rings belong to. runtime: its runtime events come through its rings. */
void mrd_traces_process(mrd_traces *t, const mrd_ident *ident, int64_t uid, bool runtime);
/* A file that is complete; what is read is the file behind its descriptor, whatever its path names
 * by then. Files of other names than *.json, *.json.gz, *.xplane.pb are passed over. */
void mrd_traces_file(mrd_traces *t, const mrd_files_complete *file);
/* room: false while there is little room for more batches; the file can wait. */
void mrd_traces_step(mrd_traces *t, bool room);
bool mrd_traces_idle(const mrd_traces *t);
mrd_local_ns mrd_traces_next_ns(const mrd_traces *t);
/* No session is left: what was read is forgotten. */
void mrd_traces_forget(mrd_traces *t);
/* What a predecessor gave out, from its last commit. */
void mrd_traces_resume(mrd_traces *t, const mrd_spool_position *positions, size_t n);
/* Calls each file with how much of it was given out; their batches must be sealed. */
void mrd_traces_positions(const mrd_traces *t, void (*call)(void *to, uint64_t key, uint64_t value),
                          void *to);
/* NULL: nothing was counted. */
void mrd_traces_get_stats(const mrd_traces *t, mrd_traces_stats *ret_stats);

#endif
