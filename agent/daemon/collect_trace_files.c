/* agent/daemon/collect_trace_files.c - the collector of events in trace files of capture
 * directories (agent/daemon/traces.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"
#include "base/conf/log.h"

/* maximum length of a path in a message; the beginning of a longer path is cut off */
#define NAMED 100

static void
on_process(void *self, mrd_drain_process *process)
{
    mrd_agent *agent = self;

    if (process->gone)
        mrd_record_process_gone(agent->record, process);
    else
        (void) mrd_record_file_seen(agent->record, process);
}

/* Adds a note to all sessions that get the trace file: `n` versions of this file were read only in
 * part or not at all. */
static void
note_cut(mrd_agent *agent, const mrd_files_complete *file, unsigned n, const char *message)
{
    size_t len = strlen(file->path), from = len > NAMED ? len - NAMED : 0;
    char text[256];
    bool named;

    /* most importers begin the message with the path in quotes */
    named = message[0] == '\'' && strncmp(message + 1, file->path, len) == 0 &&
            message[len + 1] == '\'';
    snprintf(text, sizeof(text), "'%s%s'%s%s", from > 0 ? "..." : "", file->path + from,
             named ? "" : ": ", named ? message + len + 2 : message);
    for (size_t i = 0; i < MRD_FILES_SESSIONS; i++)
        if (file->takers[i] != 0)
            mrd_record_note_cut(agent->record, file->takers[i], n, text);
}

/* Adds a note about earlier versions of a file that the writer replaced before they were read.
 * Called when a later version was read, because only then the agent can tell whether the file is a
 * trace. */
static void
note_replaced(mrd_agent *agent, const mrd_files_complete *file)
{
    static const char reason[] =
        "it was replaced before it could be read: give each trace a name of its own";

    mrd_log(MRD_LOG_WARN, "AGT-TRACE", "A trace file was not read: path=%s times=%u reason=%s",
            file->path, file->replaced, reason);
    note_cut(agent, file, file->replaced, reason);
}

static void
on_withdrawn(void *self, const uint64_t takers[MRD_FILES_SESSIONS])
{
    const mrd_agent *agent = self;

    for (size_t i = 0; i < MRD_FILES_SESSIONS; i++)
        if (takers[i] != 0)
            mrd_record_withdraw_cut(agent->record, takers[i]);
}

/* Reports a trace file that can no longer be read. Also reports its earlier versions that were
 * replaced before they were read. */
void
mrd_agent_trace_missed(void *self, const mrd_files_complete *file, const char *reason)
{
    mrd_log(MRD_LOG_WARN, "AGT-TRACE", "A trace file was not read: path=%s times=%u reason=%s",
            file->path, file->replaced + 1, reason);
    note_cut(self, file, file->replaced + 1, reason);
}

static void
on_finished(void *self, const mrd_files_complete *file, mrd_trace_end end, uint64_t events,
            const char *message)
{
    if (end == MRD_TRACE_CUT)
        note_cut(self, file, 1, message);
    if (end != MRD_TRACE_LEFT && file->replaced > 0)
        note_replaced(self, file);
    if (end == MRD_TRACE_WHOLE)
        mrd_log(MRD_LOG_INFO, "AGT-TRACE", "A trace file was read: path=%s events=%" PRIu64,
                file->path, events);
    else
        mrd_log(MRD_LOG_WARN, "AGT-TRACE",
                "A trace file was %s: path=%s events=%" PRIu64 " reason=%s",
                end == MRD_TRACE_UNDATED ? "read, and no session can have its events"
                : events > 0             ? "read in part"
                                         : "not read",
                file->path, events, message);
}

/* Opens the reader of trace files. It is opened before the recorder, because the recorder's first
 * commit contains how far each file was processed. */
static mrd_err
open_traces(mrd_agent *agent, void **ret_self, mrd_why *why)
{
    mrd_traces_options options = { .instance_id = agent->node.instance_id,
                                   .dir = agent->o.spool_dir,
                                   .job = agent->o.job,
                                   .simulated = agent->o.simulated,
                                   .event = mrd_agent_event,
                                   .process = on_process,
                                   .finished = on_finished,
                                   .withdraw = on_withdrawn,
                                   .self = agent };
    const mrd_spool_position *positions;
    size_t n;
    mrd_err err = mrd_traces_open(&options, &agent->traces, why);

    *ret_self = agent;
    if (err != MRD_OK)
        return err;
    positions = mrd_spool_recovered(agent->spool, &n);
    mrd_traces_resume(agent->traces, positions, n);
    return MRD_OK;
}

/* Returns true if at most a quarter of the spool is in use, so that events of trace files may be
 * added. Files can wait, but events in rings cannot. */
static bool
has_room(const mrd_agent *agent)
{
    mrd_spool_stats st;

    mrd_spool_get_stats(agent->spool, &st);
    return st.file_bytes < (uint64_t) agent->o.spool_bytes / 4;
}

static void
step_traces(void *self, mrd_local_ns now)
{
    mrd_agent *agent = self;

    (void) now;
    mrd_traces_step(agent->traces, has_room(agent));
}

static mrd_local_ns
next_of_traces(const void *self)
{
    const mrd_agent *agent = self;

    return mrd_traces_next_ns(agent->traces);
}

void
mrd_agent_note_process(void *self, mrd_drain_process *process)
{
    mrd_agent *agent = self;

    if (agent->traces != NULL)
        mrd_traces_process(agent->traces, &process->ident, mrd_drain_claim(process).uid,
                           mrd_drain_has_runtime(process));
}

static void
process_of_traces(void *self, mrd_drain_process *process)
{
    if (process->gone)
        mrd_agent_note_process(self, process);
}

static void
positions_of_traces(const void *self, void (*call)(void *to, uint64_t key, uint64_t value),
                    void *to)
{
    const mrd_agent *agent = self;

    if (agent->traces != NULL)
        mrd_traces_positions(agent->traces, call, to);
}

static bool
traces_idle(const void *self)
{
    const mrd_agent *agent = self;

    return mrd_traces_idle(agent->traces);
}

static void
account_traces(const void *self, mrd_collector_account *sum)
{
    const mrd_agent *agent = self;
    mrd_traces_stats st;

    mrd_traces_get_stats(agent->traces, &st);
    sum->begun += st.begun + st.dropped;
    sum->dropped[MRD_DROP_MEMORY] += st.refused;
    sum->dropped[MRD_DROP_JSON] += st.dropped;
}

static void
stop_traces(void *self)
{
    mrd_agent *agent = self;

    mrd_traces_close(agent->traces);
    agent->traces = NULL; /* processes that end later must not access the freed reader */
}

const mrd_collector mrd_collector_trace_files = {
    .name = "trace-files",
    .open = open_traces,
    .step = step_traces,
    .next_ns = next_of_traces,
    .process = process_of_traces,
    .positions = positions_of_traces,
    .idle = traces_idle,
    .account = account_traces,
    .stop = stop_traces,
    .close = stop_traces,
    .pauses = true,
};
