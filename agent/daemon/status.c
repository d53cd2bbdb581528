/* agent/daemon/status.c - makes the agent's reports about itself: counts, the hello message and the
 * metrics. heartbeat.c makes the heartbeats. */
#include <stdio.h>

#include "agent/daemon/agent_int.h"
#include "base/metrics.h"
#include "base/obj.h"
#include "base/sys/secret.h"
#include "base/version.h"

/* ---- Counts of events and files ---- */

void
mrd_agent_counters(const mrd_agent *agent, mrd_agent_counts *counts)
{
    mrd_record_totals totals;
    mrd_collector_account collected;
    mrd_sample_stats sample;
    mrd_traces_stats traces;
    mrd_files_stats files;

    memset(counts, 0, sizeof(*counts));
    mrd_drain_counts(agent->drain, &counts->drain);
    mrd_spool_get_stats(agent->spool, &counts->spool);
    mrd_record_get_totals(agent->record, &totals);
    mrd_collectors_account(agent, &collected);
    mrd_sample_get_stats(agent->sample, &sample);
    mrd_agent_counters_sum(agent, &sample);
    mrd_files_get_stats(agent->files, &files);
    mrd_traces_get_stats(agent->traces, &traces);
    counts->begun =
        agent->recovered + counts->spool.damaged_events + collected.begun + totals.copies;
    counts->delivered = agent->delivered;
    counts->held = collected.held + totals.open + totals.buffered + counts->spool.events;
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        counts->dropped[i] = collected.dropped[i] + totals.lost[i];
    counts->traces = traces.files;
    counts->trace_events = traces.begun;
    counts->traces_failed = traces.failed;
    counts->dropped[MRD_DROP_UNSENT] += totals.unwanted;
    counts->dropped[MRD_DROP_SPOOL] += agent->dropped_spool;
    counts->dropped[MRD_DROP_REFUSED] += agent->dropped_refused;
    counts->dropped[MRD_DROP_DAMAGED] += counts->spool.damaged_events;
    counts->samples = sample.samples;
    counts->sample_errors = sample.failed;
    counts->triggers_seen = agent->triggers;
    counts->artifacts = files.found;
    counts->artifacts_sent = files.delivered;
    counts->artifacts_failed = files.failed;
    counts->files_beyond = files.beyond;
    counts->files_refused = files.refused;
    counts->files_ignored = files.ignored;
    counts->files_elsewhere = files.elsewhere;
    counts->artifact_bytes = files.bytes_sent;
    if (agent->publish != NULL) {
        mrd_publish_stats stats;

        mrd_publish_get_stats(agent->publish, &stats);
        counts->frames_sent = stats.sent;
        counts->frames_acked = stats.acked;
        counts->frames_refused = stats.refused;
        counts->frames_retried = stats.retried;
        counts->hellos = stats.hellos;
        counts->reconnects = stats.reconnects;
        counts->bytes_sent = stats.bytes;
        counts->connected = stats.welcome;
    }
}

/* Fills in the numbers of ring files and capture files on this node that are not read. */
void
mrd_agent_unread(const mrd_agent *agent, Mrd__Unread *to)
{
    unsigned n[MRD_UNREAD_WHYS];
    mrd_files_stats files;

    mrd__unread__init(to);
    mrd_drain_get_unread(agent->drain, n);
    mrd_files_get_stats(agent->files, &files);
    to->rings_beyond = n[MRD_UNREAD_BEYOND];
    to->rings_held = n[MRD_UNREAD_HELD];
    to->rings_other_boot = n[MRD_UNREAD_OTHER_BOOT];
    to->directories = files.hung + files.foreign + files.refused_dirs;
}

/* ---- Parts of messages to the aggregator ---- */

void
mrd_agent_label(Mrd__Label *to, char *key, char *value)
{
    mrd__label__init(to);
    to->key = key;
    to->value = value;
}

mrd_err
mrd_agent_hello(void *self, mrd_buf *to)
{
    mrd_agent *agent = self;
    mrd_frame frame = { .type = MRD_FRAME_HELLO, .agent = agent->key };
    Mrd__Hello hello = MRD__HELLO__INIT;
    Mrd__Label labels[3], *list[3];
    char release[] = MRD_RELEASE, none[] = "", k1[] = "instance_type", k2[] = "job", k3[] = "zone";
    char commit[MRD_COMMIT_MAX];
    size_t count = 0;

    snprintf(commit, sizeof(commit), "%s", mrd_version_commit());
    hello.wire_major = MRD_WIRE_MAJOR;
    hello.wire_minor = MRD_WIRE_MINOR;
    hello.release = release;
    hello.commit = commit;
    hello.instance_id = agent->node.instance_id;
    hello.boot_id = agent->node.boot_id;
    hello.run = agent->run;
    hello.epoch = mrd_spool_epoch(agent->spool);
    hello.host_name = agent->node.host_name;
    hello.token = agent->token == NULL ? none : agent->token;
    hello.local_ns = mrd_local_now().ns;
    hello.wall_ns = mrd_wall_now().ns;
    hello.simulated = agent->o.simulated;
    if (agent->node.imds.instance_type[0] != '\0')
        mrd_agent_label(&labels[count++], k1, agent->node.imds.instance_type);
    if (agent->o.job != NULL)
        mrd_agent_label(&labels[count++], k2, agent->o.job);
    if (agent->node.imds.zone[0] != '\0')
        mrd_agent_label(&labels[count++], k3, agent->node.imds.zone);
    for (size_t i = 0; i < count; i++)
        list[i] = &labels[i];
    hello.labels = list;
    hello.n_labels = count;
    return mrd_msg_pack(&frame, &hello, to, NULL);
}

void
mrd_agent_clock_quality(const mrd_agent *agent, mrd_clock_sync_view *view, Mrd__ClockQuality *to)
{
    mrd_clock_sync_get(agent->clock, view);
    to->state = view->state;
    to->method = view->method;
    to->bound_ns = view->bound_ns;
    to->offset_ns = view->offset_ns;
    to->probes = view->probes;
}

/* ---- Metrics ---- */

typedef struct {
    mrd_metrics_text_kind kind;
    const char *name, *help;
    uint64_t v;
} metric;

#define COUNTER(name, help, v)                                                                     \
    {                                                                                              \
        MRD_METRICS_COUNTER, "meridian_agent_" name, help, v                                       \
    }
#define GAUGE(name, help, v)                                                                       \
    {                                                                                              \
        MRD_METRICS_GAUGE, "meridian_agent_" name, help, v                                         \
    }

/* Writes the label that names the node. Characters that a label's value cannot have are replaced. */
static void
name_node(const mrd_agent *agent, char *to, size_t size)
{
    size_t n = (size_t) snprintf(to, size, "instance_id=\"%s", agent->node.instance_id);

    n = n < size - 2 ? n : size - 2;
    for (size_t i = strlen("instance_id=\""); i < n; i++)
        if (to[i] == '"' || to[i] == '\\' || (unsigned char) to[i] < ' ')
            to[i] = '_';
    memcpy(to + n, "\"", 2);
}

static void
put_metrics(mrd_metrics_text *text, const metric *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mrd_metrics_text_one(text, rows[i].kind, rows[i].name, rows[i].help, rows[i].v);
}

static void
put_events(mrd_metrics_text *text, const mrd_agent *agent, const mrd_agent_counts *counts)
{
    const metric rows[] = {
        COUNTER("events_begun_total", "Events the agent learned of, losses included.",
                counts->begun),
        COUNTER("events_recovered_total",
                "Events found in the spool at the start: begun again, but counted by a "
                "predecessor, too.",
                agent->recovered),
        COUNTER("events_delivered_total", "Events the aggregator has stored.", counts->delivered),
        GAUGE("events_held", "Events in rings' open spans, open batches, recorder and spool.",
              counts->held),
        COUNTER("samples_total", "Counter samples taken.", counts->samples),
        COUNTER("sample_errors_total", "Counter polls that failed.", counts->sample_errors),
        COUNTER("triggers_total", "Events that asked to keep what was recorded.",
                counts->triggers_seen),
        COUNTER("jobs_left_total",
                "Jobs that asked to be recorded and are not: refused, or without a session for "
                "too long.",
                agent->jobs == NULL ? 0 : mrd_jobs_left(agent->jobs)),
    };

    put_metrics(text, rows, MRD_COUNT(rows));
}

static void
put_rings(mrd_metrics_text *text, const mrd_agent *agent, const mrd_agent_counts *counts)
{
    Mrd__Unread unread;

    mrd_agent_unread(agent, &unread);
    {
        const metric rows[] = {
            COUNTER("ring_records_total", "Records read from rings.", counts->drain.records),
            GAUGE("rings", "Rings being read.", counts->drain.rings),
            GAUGE("rings_beyond", "Rings not read: more than may be open.", unread.rings_beyond),
            GAUGE("rings_held", "Rings not read: another agent reads them.", unread.rings_held),
            GAUGE("rings_other_boot", "Rings of another boot, which cannot be read.",
                  unread.rings_other_boot),
            GAUGE("directories_left_out",
                  "Capture directories not read: of other users, beyond a user's share, or on a "
                  "file system that does not answer.",
                  unread.directories),
            COUNTER("ring_files_refused_total",
                    "Files with the name of a ring that are no ring, or not to be read.",
                    counts->drain.files_refused),
            COUNTER("rings_bad_total", "Rings retired because they contradict themselves.",
                    counts->drain.rings_bad),
            GAUGE("processes", "Processes with rings.", counts->drain.processes),
        };

        put_metrics(text, rows, MRD_COUNT(rows));
    }
}

static void
put_frames(mrd_metrics_text *text, const mrd_agent *agent, const mrd_agent_counts *counts)
{
    const metric rows[] = {
        COUNTER("frames_sent_total", "Frames sent, repetitions included.", counts->frames_sent),
        COUNTER("frames_stored_total", "Frames acknowledged.", counts->frames_acked),
        COUNTER("clock_frames_lost_total",
                "Frames of clock data dropped from the spool, not stored, or refused.",
                agent->clock_lost),
        COUNTER("frames_refused_total", "Frames the aggregator will never store.",
                counts->frames_refused),
        COUNTER("sent_bytes_total", "Bytes of frames sent.", counts->bytes_sent),
        GAUGE("spool_bytes", "Bytes of frames not acknowledged.", counts->spool.bytes),
        GAUGE("spool_file_bytes", "Bytes of the spool's files.", counts->spool.file_bytes),
        COUNTER("spool_failures_total", "Batches and commits that could not be written.",
                counts->spool.failures),
        GAUGE("connected", "1 while the aggregator has accepted this agent.", counts->connected),
        GAUGE("unreached_seconds",
              "For how long the aggregator has not been reached; 0 while it is.",
              (uint64_t) (mrd_agent_unreached_ns(agent) / MRD_SEC)),
        COUNTER("reconnects_total", "Connections made.", counts->reconnects),
    };

    put_metrics(text, rows, MRD_COUNT(rows));
}

static void
put_files(mrd_metrics_text *text, const mrd_agent_counts *counts)
{
    const metric rows[] = {
        COUNTER("artifacts_delivered_total", "Files that the aggregator has stored.",
                counts->artifacts_sent),
        COUNTER("artifacts_failed_total", "Files that could not be delivered.",
                counts->artifacts_failed),
        GAUGE("files_beyond_limit", "Files beyond --advanced.files-max, which are left out.",
              counts->files_beyond),
        GAUGE("files_refused",
              "Files in capture directories that are links or belong to other users.",
              counts->files_refused),
        GAUGE("files_ignored", "Files of unknown kinds in capture directories.",
              counts->files_ignored),
        GAUGE("files_elsewhere",
              "Files in capture directories that belong to processes of other nodes.",
              counts->files_elsewhere),
        COUNTER("artifact_bytes_total", "Bytes of files sent.", counts->artifact_bytes),
        COUNTER("trace_files_total", "Trace files read into events.", counts->traces),
        COUNTER("trace_files_failed_total", "Trace files that could not be read.",
                counts->traces_failed),
        COUNTER("trace_file_events_total", "Events of trace files.", counts->trace_events),
    };

    put_metrics(text, rows, MRD_COUNT(rows));
}

#undef COUNTER
#undef GAUGE

void
mrd_agent_metrics(const mrd_agent *agent, bool open, mrd_buf *to)
{
    const mrd_cert_file certificates[] = { { "tls-cert", agent->o.tls_cert },
                                           { "tls-ca", agent->o.tls_ca } };
    mrd_publish_stats sent = { 0 };
    mrd_agent_counts counts;
    mrd_metrics_text text;
    const char *name;
    char label[80], instance[sizeof(agent->node.instance_id) + 32];
    uint64_t over;

    mrd_agent_counters(agent, &counts);
    if (agent->publish != NULL)
        mrd_publish_get_stats(agent->publish, &sent);
    mrd_metrics_text_begin(&text, to, open);
    name_node(agent, instance, sizeof(instance));
    text.common = instance;
    put_events(&text, agent, &counts);
    put_rings(&text, agent, &counts);
    put_frames(&text, agent, &counts);
    put_files(&text, &counts);
    mrd_metrics_text_family(&text, MRD_METRICS_COUNTER, "meridian_agent_events_dropped_total",
                            "Events lost, by cause.");
    for (int i = 0; i < MRD_DROP_CAUSES; i++) {
        snprintf(label, sizeof(label), "cause=\"%s\"", mrd_drop_text((mrd_drop_cause) i));
        mrd_metrics_text_u64(&text, label, counts.dropped[i]);
    }
    mrd_metrics_text_family(&text, MRD_METRICS_COUNTER, "meridian_agent_turns_over_budget_total",
                            "Turns of a collector that kept the agent's loop for more than 50 ms.");
    for (size_t i = 0; mrd_collectors_get(agent, i, &name, &over); i++) {
        snprintf(label, sizeof(label), "collector=\"%s\"", name);
        mrd_metrics_text_u64(&text, label, over);
    }
    mrd_cert_times_metrics(&text, certificates, MRD_COUNT(certificates));
    mrd_metrics_text_hist_write(&text, "meridian_agent_acknowledgement_seconds",
                                "From sending a frame to its acknowledgement.", &sent.ack);
    mrd_metrics_text_process(&text, "meridian-agent");
    mrd_metrics_text_end(&text);
}

static void
write_metrics(void *self, bool open, mrd_buf *to)
{
    mrd_agent_metrics(self, open, to);
}

mrd_err
mrd_agent_open_metrics(mrd_agent *agent, mrd_why *why)
{
    mrd_metrics_options options = { .address = agent->o.metrics_address,
                                    .port = (uint16_t) agent->o.metrics_port,
                                    .write = write_metrics,
                                    .ready = mrd_agent_ready,
                                    .self = agent };
    mrd_err err = MRD_OK;

    if (agent->o.metrics_port <= 0)
        return MRD_OK;
    if (agent->o.metrics_token_file != NULL)
        err =
            mrd_secret_read("token file", agent->o.metrics_token_file, &agent->metrics_token, why);
    if (err == MRD_OK && agent->metrics_token != NULL && strlen(agent->metrics_token) < 16)
        err = mrd_why_set(why, MRD_LIMIT, 0, "the token in %s has fewer than 16 characters",
                          agent->o.metrics_token_file);
    options.token = agent->metrics_token;
    return err == MRD_OK ? mrd_metrics_open(&options, &agent->metrics, why) : err;
}
