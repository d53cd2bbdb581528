/* agent/daemon/status.c - reports of the agent about itself: counts, hello, metrics. Heartbeats are in
 * heartbeat.c. */
#include <stdio.h>

#include "agent/daemon/agent_int.h"
#include "base/metrics.h"
#include "base/obj.h"
#include "base/sys/secret.h"
#include "base/version.h"

/* ---- Counts ---- */

void
mrd_agent_counters(const mrd_agent *a, mrd_agent_counts *c)
{
    mrd_record_totals totals;
    mrd_collector_account collected;
    mrd_sample_stats sample;
    mrd_traces_stats traces;
    mrd_files_stats files;
    mrd_clock_sync_view view;

    memset(c, 0, sizeof(*c));
    mrd_drain_counts(a->drain, &c->drain);
    mrd_spool_get_stats(a->spool, &c->spool);
    mrd_record_get_totals(a->record, &totals);
    mrd_collectors_account(a, &collected);
    mrd_sample_get_stats(a->sample, &sample);
    mrd_agent_counters_sum(a, &sample);
    mrd_files_get_stats(a->files, &files);
    mrd_traces_get_stats(a->traces, &traces);
    c->begun = a->recovered + c->spool.damaged_events + collected.begun + totals.copies;
    c->delivered = a->delivered;
    c->held = collected.held + totals.open + totals.buffered + c->spool.events;
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        c->dropped[i] = collected.dropped[i] + totals.lost[i];
    c->traces = traces.files;
    c->trace_events = traces.begun;
    c->traces_failed = traces.failed;
    c->dropped[MRD_DROP_UNSENT] += totals.unwanted;
    c->dropped[MRD_DROP_SPOOL] += a->dropped_spool;
    c->dropped[MRD_DROP_REFUSED] += a->dropped_refused;
    c->dropped[MRD_DROP_DAMAGED] += c->spool.damaged_events;
    c->samples = sample.samples;
    c->sample_errors = sample.failed;
    c->triggers_seen = a->triggers;
    c->artifacts = files.found;
    c->artifacts_sent = files.delivered;
    c->artifacts_failed = files.failed;
    c->files_beyond = files.beyond;
    c->files_refused = files.refused;
    c->files_ignored = files.ignored;
    c->files_elsewhere = files.elsewhere;
    c->artifact_bytes = files.bytes_sent;
    mrd_clock_sync_get(a->clock, &view);
    c->clock_bound_ns = view.bound_ns;
    if (a->publish != NULL) {
        mrd_publish_stats p;

        mrd_publish_get_stats(a->publish, &p);
        c->frames_sent = p.sent;
        c->frames_acked = p.acked;
        c->frames_refused = p.refused;
        c->frames_retried = p.retried;
        c->hellos = p.hellos;
        c->reconnects = p.reconnects;
        c->bytes_sent = p.bytes;
        c->connected = p.welcome;
    }
}

/* Reports data on this node that is not read. */
void
mrd_agent_unread(const mrd_agent *a, Mrd__Unread *to)
{
    unsigned n[MRD_UNREAD_WHYS];
    mrd_files_stats files;

    mrd__unread__init(to);
    mrd_drain_get_unread(a->drain, n);
    mrd_files_get_stats(a->files, &files);
    to->rings_beyond = n[MRD_UNREAD_BEYOND];
    to->rings_held = n[MRD_UNREAD_HELD];
    to->rings_other_boot = n[MRD_UNREAD_OTHER_BOOT];
    to->directories = files.hung + files.foreign + files.refused_dirs;
}

/* ---- Messages ---- */

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
    mrd_agent *a = self;
    mrd_frame f = { .type = MRD_FRAME_HELLO, .agent = a->key };
    Mrd__Hello m = MRD__HELLO__INIT;
    Mrd__Label labels[3], *list[3];
    char release[] = MRD_RELEASE, none[] = "", k1[] = "instance_type", k2[] = "job", k3[] = "zone";
    char commit[MRD_COMMIT_MAX];
    size_t n = 0;

    snprintf(commit, sizeof(commit), "%s", mrd_version_commit());
    m.wire_major = MRD_WIRE_MAJOR;
    m.wire_minor = MRD_WIRE_MINOR;
    m.release = release;
    m.commit = commit;
    m.instance_id = a->node.instance_id;
    m.boot_id = a->node.boot_id;
    m.run = a->run;
    m.epoch = mrd_spool_epoch(a->spool);
    m.host_name = a->node.host_name;
    m.token = a->token == NULL ? none : a->token;
    m.local_ns = mrd_local_now().ns;
    m.wall_ns = mrd_wall_now().ns;
    m.simulated = a->o.simulated;
    if (a->node.imds.instance_type[0] != '\0')
        mrd_agent_label(&labels[n++], k1, a->node.imds.instance_type);
    if (a->o.job != NULL)
        mrd_agent_label(&labels[n++], k2, a->o.job);
    if (a->node.imds.zone[0] != '\0')
        mrd_agent_label(&labels[n++], k3, a->node.imds.zone);
    for (size_t i = 0; i < n; i++)
        list[i] = &labels[i];
    m.labels = list;
    m.n_labels = n;
    return mrd_msg_pack(&f, &m, to, NULL);
}

void
mrd_agent_clock_quality(const mrd_agent *a, mrd_clock_sync_view *view, Mrd__ClockQuality *to)
{
    mrd_clock_sync_get(a->clock, view);
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

static void
put_metrics(mrd_metrics_text *x, const metric *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mrd_metrics_text_one(x, rows[i].kind, rows[i].name, rows[i].help, rows[i].v);
}

static void
put_events(mrd_metrics_text *x, const mrd_agent *a, const mrd_agent_counts *c)
{
    const metric rows[] = {
        COUNTER("events_begun_total", "Events the agent learned of, losses included.", c->begun),
        COUNTER("events_recovered_total",
                "Events found in the spool at the start: begun again, but counted by a "
                "predecessor, too.",
                a->recovered),
        COUNTER("events_delivered_total", "Events the aggregator has stored.", c->delivered),
        GAUGE("events_held", "Events in rings' open spans, open batches, recorder and spool.",
              c->held),
        COUNTER("samples_total", "Counter samples taken.", c->samples),
        COUNTER("sample_errors_total", "Counter polls that failed.", c->sample_errors),
        COUNTER("triggers_total", "Events that asked to keep what was recorded.", c->triggers_seen),
        COUNTER("jobs_left_total",
                "Jobs that asked to be recorded and are not: refused, or without a session for "
                "too long.",
                a->jobs == NULL ? 0 : mrd_jobs_left(a->jobs)),
        GAUGE("resident_memory_bytes", "Memory of the agent.", mrd_resident_bytes()),
    };

    put_metrics(x, rows, MRD_COUNT(rows));
}

static void
put_rings(mrd_metrics_text *x, const mrd_agent *a, const mrd_agent_counts *c)
{
    Mrd__Unread unread;

    mrd_agent_unread(a, &unread);
    {
        const metric rows[] = {
            COUNTER("ring_records_total", "Records read from rings.", c->drain.records),
            GAUGE("rings", "Rings being read.", c->drain.rings),
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
                    c->drain.files_refused),
            COUNTER("rings_bad_total", "Rings retired because they contradict themselves.",
                    c->drain.rings_bad),
            GAUGE("processes", "Processes with rings.", c->drain.processes),
        };

        put_metrics(x, rows, MRD_COUNT(rows));
    }
}

static void
put_frames(mrd_metrics_text *x, const mrd_agent *a, const mrd_agent_counts *c)
{
    const metric rows[] = {
        COUNTER("frames_sent_total", "Frames sent, repetitions included.", c->frames_sent),
        COUNTER("frames_stored_total", "Frames acknowledged.", c->frames_acked),
        COUNTER("clock_frames_lost_total",
                "Frames of clock data dropped from the spool, not stored, or refused.",
                a->clock_lost),
        COUNTER("frames_refused_total", "Frames the aggregator will never store.",
                c->frames_refused),
        COUNTER("sent_bytes_total", "Bytes of frames sent.", c->bytes_sent),
        GAUGE("spool_bytes", "Bytes of frames not acknowledged.", c->spool.bytes),
        GAUGE("spool_file_bytes", "Bytes of the spool's files.", c->spool.file_bytes),
        COUNTER("spool_failures_total", "Batches and commits that could not be written.",
                c->spool.failures),
        GAUGE("connected", "1 while the aggregator has accepted this agent.", c->connected),
        GAUGE("unreached_seconds",
              "For how long the aggregator has not been reached; 0 while it is.",
              (uint64_t) (mrd_agent_unreached_ns(a) / MRD_SEC)),
        COUNTER("reconnects_total", "Connections made.", c->reconnects),
    };

    put_metrics(x, rows, MRD_COUNT(rows));
}

static void
put_files(mrd_metrics_text *x, const mrd_agent_counts *c)
{
    const metric rows[] = {
        COUNTER("artifacts_delivered_total", "Files that the aggregator has stored.",
                c->artifacts_sent),
        COUNTER("artifacts_failed_total", "Files that could not be delivered.",
                c->artifacts_failed),
        GAUGE("files_beyond_limit", "Files beyond --advanced.files-max, which are left out.",
              c->files_beyond),
        GAUGE("files_refused",
              "Files in capture directories that are links or belong to other users.",
              c->files_refused),
        GAUGE("files_ignored", "Files of unknown kinds in capture directories.", c->files_ignored),
        GAUGE("files_elsewhere",
              "Files in capture directories that belong to processes of other nodes.",
              c->files_elsewhere),
        COUNTER("artifact_bytes_total", "Bytes of files sent.", c->artifact_bytes),
        COUNTER("trace_files_total", "Trace files read into events.", c->traces),
        COUNTER("trace_files_failed_total", "Trace files that could not be read.",
                c->traces_failed),
        COUNTER("trace_file_events_total", "Events of trace files.", c->trace_events),
    };

    put_metrics(x, rows, MRD_COUNT(rows));
}

#undef COUNTER
#undef GAUGE

void
mrd_agent_metrics(const mrd_agent *a, bool open, mrd_buf *to)
{
    const mrd_cert_file certificates[] = { { "tls-cert", a->o.tls_cert },
                                           { "tls-ca", a->o.tls_ca } };
    mrd_publish_stats sent = { 0 };
    mrd_agent_counts c;
    mrd_metrics_text x;
    const char *name;
    char label[80];
    uint64_t over;

    mrd_agent_counters(a, &c);
    if (a->publish != NULL)
        mrd_publish_get_stats(a->publish, &sent);
    mrd_metrics_text_begin(&x, to, open);
    put_events(&x, a, &c);
    put_rings(&x, a, &c);
    put_frames(&x, a, &c);
    put_files(&x, &c);
    mrd_metrics_text_family(&x, MRD_METRICS_COUNTER, "meridian_agent_events_dropped_total",
                            "Events lost, by cause.");
    for (int i = 0; i < MRD_DROP_CAUSES; i++) {
        snprintf(label, sizeof(label), "cause=\"%s\"", mrd_drop_text((mrd_drop_cause) i));
        mrd_metrics_text_u64(&x, label, c.dropped[i]);
    }
    mrd_metrics_text_family(&x, MRD_METRICS_COUNTER, "meridian_agent_turns_over_budget_total",
                            "Turns of a collector that kept the agent's loop for more than 50 ms.");
    for (size_t i = 0; mrd_collectors_get(a, i, &name, &over); i++) {
        snprintf(label, sizeof(label), "collector=\"%s\"", name);
        mrd_metrics_text_u64(&x, label, over);
    }
    mrd_cert_times_metrics(&x, certificates, MRD_COUNT(certificates));
    mrd_metrics_text_hist_write(&x, "meridian_agent_acknowledgement_seconds",
                                "From sending a frame to its acknowledgement.", &sent.ack);
    mrd_metrics_text_process(&x);
    mrd_metrics_text_end(&x);
}

static void
write_metrics(void *self, bool open, mrd_buf *to)
{
    mrd_agent_metrics(self, open, to);
}

mrd_err
mrd_agent_open_metrics(mrd_agent *a, mrd_why *why)
{
    mrd_metrics_options o = { .address = a->o.metrics_address,
                              .port = (uint16_t) a->o.metrics_port,
                              .write = write_metrics,
                              .ready = mrd_agent_ready,
                              .self = a };
    mrd_err err = MRD_OK;

    if (a->o.metrics_port <= 0)
        return MRD_OK;
    if (a->o.metrics_token_file != NULL)
        err = mrd_secret_read("token file", a->o.metrics_token_file, &a->metrics_token, why);
    if (err == MRD_OK && a->metrics_token != NULL && strlen(a->metrics_token) < 16)
        err = mrd_why_set(why, MRD_LIMIT, 0, "the token in %s has fewer than 16 characters",
                          a->o.metrics_token_file);
    o.token = a->metrics_token;
    return err == MRD_OK ? mrd_metrics_open(&o, &a->metrics, why) : err;
}
