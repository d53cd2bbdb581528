/* GET /metrics: the counters of the aggregator, as one table of rows and one of nodes. */
#include "aggregator/api/http.h"

#include <stdio.h>

#include "base/metrics.h"
#include "base/obj.h"

static void
totals(mrd_metrics_text *x, const mrd_core_stats *s, uint64_t syncs)
{
    const struct {
        const char *name, *help;
        uint64_t v;
    } rows[] = {
        { "meridian_frames_stored_total", "Frames stored and acknowledged.", s->frames },
        { "meridian_stored_bytes_total", "Bytes of those frames.", s->bytes },
        { "meridian_events_stored_total", "Events of those frames.", s->events },
        { "meridian_duplicate_frames_total", "Frames that arrived again after they were stored.",
          s->duplicates },
        { "meridian_refused_frames_total", "Frames that will never be stored.", s->refused },
        { "meridian_bad_frames_total", "Frames that could not be read.", s->bad_frames },
        { "meridian_slowed_frames_total", "Frames sent back by a rate limit.", s->slowed },
        { "meridian_unstored_frames_total", "Frames sent back because the disk is full.",
          s->not_stored },
        { "meridian_journal_syncs_total", "Synchronisations of journal files.", syncs },
        { "meridian_hellos_total", "Agents welcomed.", s->hellos },
        { "meridian_hellos_refused_total", "Agents refused.", s->hello_refused },
        { "meridian_heartbeats_total", "Heartbeats of agents.", s->heartbeats },
        { "meridian_artifacts_stored_total", "Artifacts received completely and verified.",
          s->artifacts },
        { "meridian_artifacts_removed_total", "Artifacts removed that no session listed any more.",
          s->artifacts_removed },
        { "meridian_artifact_bytes_total", "Bytes of artifacts received.", s->artifact_bytes },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        mrd_metrics_text_one(x, MRD_METRICS_COUNTER, rows[i].name, rows[i].help, rows[i].v);
}

/* Counts of observations that contradict a stated bound, which must stay 0. */
static void
clock_checks(mrd_metrics_text *x, const mrd_core_stats *s)
{
    const struct {
        const char *kind;
        uint64_t checked, violations;
    } rows[] = {
        { "frame", s->clock_frames, s->clock_frame_violations },
        { "held-out", s->clock_held_out, s->clock_held_out_violations },
        { "absolute", s->clock_absolute, s->clock_absolute_violations },
        { "collective", s->clock_collectives, s->clock_collective_violations },
    };
    char label[32];

    mrd_metrics_text_family(
        x, MRD_METRICS_COUNTER, "meridian_clock_checks_total",
        "Frames, held-out probe packets, readings of absolute time and collectives compared with "
        "the clocks' bounds.");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        snprintf(label, sizeof(label), "kind=\"%s\"", rows[i].kind);
        mrd_metrics_text_u64(x, label, rows[i].checked);
    }
    mrd_metrics_text_family(x, MRD_METRICS_COUNTER, "meridian_clock_violations_total",
                            "Of these, how many contradicted a bound. Must be 0.");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        snprintf(label, sizeof(label), "kind=\"%s\"", rows[i].kind);
        mrd_metrics_text_u64(x, label, rows[i].violations);
    }
}

static void
hangs(const mrd_overview *v, mrd_metrics_text *x)
{
    char label[48];

    mrd_metrics_text_one(x, MRD_METRICS_GAUGE, "meridian_hang_standing",
                         "Jobs that stand still now.", v->hang.standing);
    mrd_metrics_text_one(x, MRD_METRICS_GAUGE, "meridian_hang_ranks",
                         "Processes that the hang watch compares.", v->hang.ranks);
    mrd_metrics_text_family(x, MRD_METRICS_COUNTER, "meridian_hang_verdicts_total",
                            "Verdicts of the hang watch.");
    for (mrd_hang_class k = MRD_HANG_DEAD; k < MRD_HANG_CLASSES; k++) {
        snprintf(label, sizeof(label), "verdict=\"%s\"", mrd_hang_class_text(k));
        mrd_metrics_text_u64(x, label, v->hang.told[k]);
    }
    mrd_metrics_text_one(x, MRD_METRICS_COUNTER, "meridian_hang_over_total",
                         "Verdicts that were withdrawn because the job went on or ended.",
                         v->hang.withdrawn);
    mrd_metrics_text_one(x, MRD_METRICS_COUNTER, "meridian_hang_left_out_total",
                         "Reports of processes beyond the limits of the hang watch.",
                         v->hang.left_out);
}

/* Instance ids have no characters that the format would have to escape. */
static const char *
label_of(const mrd_node *n, char text[MRD_NODE_ID_MAX + 16])
{
    snprintf(text, MRD_NODE_ID_MAX + 16, "instance_id=\"%s\"", n->instance_id);
    return text;
}

static void
per_node(const mrd_overview *v, mrd_metrics_text *x, mrd_metrics_text_kind kind, const char *name,
         const char *help, int64_t (*value)(const mrd_overview *v, const mrd_node *n))
{
    char label[MRD_NODE_ID_MAX + 16];

    mrd_metrics_text_family(x, kind, name, help);
    for (size_t i = 0; i < v->n_nodes; i++)
        mrd_metrics_text_i64(x, label_of(v->nodes[i], label), value(v, v->nodes[i]));
}

static int64_t
node_up(const mrd_overview *v, const mrd_node *n)
{
    return mrd_node_is_alive(n, v->made, &v->limits);
}

static int64_t
node_events(const mrd_overview *v, const mrd_node *n)
{
    (void) v;
    return (int64_t) n->events;
}

static int64_t
node_dropped(const mrd_overview *v, const mrd_node *n)
{
    (void) v;
    return (int64_t) (mrd_counts_lost(&n->counts) - mrd_counts_unwanted(&n->counts));
}

static int64_t
node_unwanted(const mrd_overview *v, const mrd_node *n)
{
    (void) v;
    return (int64_t) mrd_counts_unwanted(&n->counts);
}

static int64_t
node_held(const mrd_overview *v, const mrd_node *n)
{
    (void) v;
    return (int64_t) n->counts.held;
}

/* Only for nodes with a measured clock, because no value is better than a wrong one. */
static void
clock_bounds(const mrd_overview *v, mrd_metrics_text *x)
{
    char label[MRD_NODE_ID_MAX + 16];

    mrd_metrics_text_family(x, MRD_METRICS_GAUGE, "meridian_node_clock_bound_seconds",
                            "Largest error of the node's clock against the session's.");
    for (size_t i = 0; i < v->n_nodes; i++) {
        const mrd_clock_quality *c = &v->nodes[i]->clock;

        if (c->state[0] != '\0' && c->bound > 0)
            mrd_metrics_text_seconds(x, label_of(v->nodes[i], label), c->bound);
    }
}

/* Certificates as the nodes report them. Nodes without one have no row. */
static void
node_certificates(const mrd_overview *v, mrd_metrics_text *x, bool ends)
{
    char label[MRD_NODE_ID_MAX + 16];

    mrd_metrics_text_family(x, MRD_METRICS_GAUGE,
                            ends ? "meridian_node_certificate_expiry_timestamp_seconds"
                                 : "meridian_node_certificate_begin_timestamp_seconds",
                            ends ? "When the certificate of the node's agent ends."
                                 : "When the certificate of the node's agent begins.");
    for (size_t i = 0; i < v->n_nodes; i++) {
        const mrd_node *n = v->nodes[i];

        if (n->cert_end.ns != 0)
            mrd_metrics_text_i64(x, label_of(n, label),
                                 (ends ? n->cert_end.ns : n->cert_begin.ns) / MRD_SEC);
    }
}

static void
sessions(const mrd_overview *v, mrd_metrics_text *x)
{
    uint64_t n[MRD_SESSION_STATES] = { 0 };
    char label[64];

    for (size_t i = 0; i < v->n_sessions; i++)
        n[v->sessions[i].state]++;
    mrd_metrics_text_family(x, MRD_METRICS_GAUGE, "meridian_sessions", "Sessions by state.");
    for (unsigned i = 0; i < MRD_SESSION_STATES; i++) {
        snprintf(label, sizeof(label), "state=\"%s\"",
                 mrd_session_state_text((mrd_session_state) i));
        mrd_metrics_text_u64(x, label, n[i]);
    }
}

static void
exports(const mrd_overview *v, mrd_metrics_text *x)
{
    uint64_t n[MRD_EXPORT_FAILED + 1] = { 0 };
    char label[64];

    for (size_t i = 0; i < v->n_sessions; i++)
        n[v->sessions[i].copy]++;
    mrd_metrics_text_family(x, MRD_METRICS_GAUGE, "meridian_exports",
                            "Sessions by the state of their copy on shared storage.");
    for (unsigned i = MRD_EXPORT_PENDING; i <= MRD_EXPORT_FAILED; i++) {
        snprintf(label, sizeof(label), "state=\"%s\"", mrd_export_state_text((mrd_export_state) i));
        mrd_metrics_text_u64(x, label, n[i]);
    }
}

static void
conversions(const mrd_overview *v, mrd_metrics_text *x)
{
    uint64_t n[MRD_CONVERT_STATES] = { 0 };
    char label[64];

    for (size_t i = 0; i < v->n_sessions; i++) {
        for (unsigned k = 0; k < MRD_CONVERT_STATES; k++)
            n[k] += v->sessions[i].conversions[k];
    }
    mrd_metrics_text_family(x, MRD_METRICS_GAUGE, "meridian_conversions",
                            "Processes by the state of the conversion of their device profiles.");
    for (unsigned k = 0; k < MRD_CONVERT_STATES; k++) {
        snprintf(label, sizeof(label), "state=\"%s\"",
                 mrd_convert_state_text((mrd_convert_state) k));
        mrd_metrics_text_u64(x, label, n[k]);
    }
}

/* The limits, their current use, and how often each of them delayed or refused something. */
static void
limits(const mrd_overview *v, unsigned max_connections, mrd_metrics_text *x)
{
    const mrd_core_limits *l = &v->limits;
    const struct {
        const char *name;
        int64_t v;
    } rows[] = {
        { "agent-rate", l->agent_rate },        { "total-rate", l->total_rate },
        { "max-connections", max_connections }, { "max-nodes", l->max_nodes },
        { "max-sessions", l->max_sessions },    { "max-open-sessions", l->max_open_sessions },
        { "session-size", l->session_bytes },   { "disk-reserve", l->disk_reserve },
        { "retain-size", l->retain_bytes },     { "node-gaps", l->node_gaps },
    };
    char label[64];

    mrd_metrics_text_family(x, MRD_METRICS_GAUGE, "meridian_limit",
                            "Limits by the name of their option; 0: none.");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        snprintf(label, sizeof(label), "limit=\"%s\"", rows[i].name);
        mrd_metrics_text_i64(x, label, rows[i].v);
    }
    mrd_metrics_text_family(x, MRD_METRICS_COUNTER, "meridian_limited_total",
                            "What a limit sent back, refused or stopped.");
    for (unsigned i = MRD_LIMIT_NONE + 1; i < MRD_LIMIT_KINDS; i++) {
        snprintf(label, sizeof(label), "limit=\"%s\"", mrd_limit_text((mrd_limit_kind) i));
        mrd_metrics_text_u64(x, label, v->stats.limited[i]);
    }
    mrd_metrics_text_one(
        x, MRD_METRICS_GAUGE, "meridian_sessions_unreadable",
        "Sessions whose manifest could not be read: while there are any, no artifact is "
        "removed.",
        v->unreadable);
    mrd_metrics_text_one(x, MRD_METRICS_GAUGE, "meridian_nodes", "Agents remembered.",
                         v->nodes_known);
}

static void
token_reviews(mrd_metrics_text *x, mrd_token_review *review)
{
    mrd_token_review_counts n;

    mrd_token_review_count(review, &n);
    mrd_metrics_text_one(x, MRD_METRICS_COUNTER, "meridian_token_reviews_total",
                         "Tokens of service accounts that the API server was asked about.",
                         n.asked);
    mrd_metrics_text_one(x, MRD_METRICS_COUNTER, "meridian_token_reviews_refused_total",
                         "Tokens of service accounts that were not accepted.", n.refused);
    mrd_metrics_text_one(x, MRD_METRICS_COUNTER, "meridian_token_reviews_failed_total",
                         "Questions that the API server did not answer.", n.failed);
}

void
mrd_http_metrics(mrd_loop *loop, mrd_httpd *httpd, mrd_token_review *review,
                 const mrd_cert_file *files, size_t n_files, bool open, mrd_buf *to)
{
    mrd_overview *v = mrd_loop_overview(loop);
    mrd_server *server = mrd_loop_server(loop);
    mrd_httpd_counts c;
    mrd_metrics_text x;

    mrd_httpd_count(httpd, &c);
    mrd_metrics_text_begin(&x, to, open);
    if (v == NULL) {
        to->err = MRD_NOMEM;
        return;
    }
    totals(&x, &v->stats, mrd_loop_syncs(loop));
    mrd_metrics_text_one(&x, MRD_METRICS_GAUGE, "meridian_disk_full",
                         "1 while nothing is stored because the disk is full.", v->disk_full);
    mrd_metrics_text_one(&x, MRD_METRICS_GAUGE, "meridian_store_failing",
                         "1 while something that arrives cannot be stored, for whatever reason.",
                         v->store_message[0] != '\0');
    mrd_metrics_text_one(&x, MRD_METRICS_GAUGE, "meridian_store_bytes",
                         "What all sessions occupy, artifacts included.", v->store_bytes);
    mrd_metrics_text_one(&x, MRD_METRICS_GAUGE, "meridian_connections", "Connections of agents.",
                         mrd_server_connections(server));
    mrd_metrics_text_one(&x, MRD_METRICS_COUNTER, "meridian_connections_refused_total",
                         "Connections closed at the connection limit.", mrd_server_refused(server));
    mrd_metrics_text_one(&x, MRD_METRICS_GAUGE, "meridian_unaccepted_bytes",
                         "Bytes held by connections that are not accepted yet.",
                         mrd_server_unaccepted_bytes(server));
    mrd_metrics_text_one(&x, MRD_METRICS_COUNTER, "meridian_unaccepted_closed_total",
                         "Connections closed because they held too much before they were accepted.",
                         mrd_server_unaccepted_closed(server));
    mrd_metrics_text_one(&x, MRD_METRICS_COUNTER, "meridian_tls_failures_total",
                         "TLS handshakes with agents that failed.",
                         mrd_server_tls_failures(server));
    sessions(v, &x);
    if (v->limits.exports || v->limits.export_targets != NULL)
        exports(v, &x);
    conversions(v, &x);
    limits(v, mrd_server_max_connections(server), &x);
    per_node(v, &x, MRD_METRICS_GAUGE, "meridian_node_up", "1 while messages of the agent arrive.",
             node_up);
    per_node(v, &x, MRD_METRICS_COUNTER, "meridian_node_events_total", "Events stored.",
             node_events);
    per_node(v, &x, MRD_METRICS_COUNTER, "meridian_node_dropped_events_total",
             "Events lost that a session had asked for.", node_dropped);
    per_node(v, &x, MRD_METRICS_COUNTER, "meridian_node_unwanted_events_total",
             "Events that no session had asked for, or that a flight recorder made room with.",
             node_unwanted);
    per_node(v, &x, MRD_METRICS_GAUGE, "meridian_node_held_events",
             "Events that the agent still holds.", node_held);
    node_certificates(v, &x, true);
    node_certificates(v, &x, false);
    mrd_cert_times_metrics(&x, files, n_files);
    clock_bounds(v, &x);
    clock_checks(&x, &v->stats);
    hangs(v, &x);
    mrd_overview_unref(v);
    mrd_metrics_text_one(&x, MRD_METRICS_COUNTER, "meridian_http_requests_total", "HTTP requests.",
                         c.requests);
    mrd_metrics_text_one(&x, MRD_METRICS_COUNTER, "meridian_http_errors_total",
                         "HTTP replies of 400 and above.", c.errors);
    mrd_metrics_text_one(&x, MRD_METRICS_COUNTER, "meridian_http_unauthorised_total",
                         "HTTP requests without a valid token.", c.unauthorised);
    mrd_metrics_text_one(&x, MRD_METRICS_GAUGE, "meridian_http_connections", "HTTP connections.",
                         c.connections);
    mrd_metrics_text_one(&x, MRD_METRICS_COUNTER, "meridian_http_slow_clients_total",
                         "HTTP connections ended because a request or its reading took too long.",
                         c.slow_clients);
    mrd_metrics_text_one(&x, MRD_METRICS_GAUGE, "meridian_http_streams", "Slices being made.",
                         c.streams_now);
    mrd_metrics_text_one(&x, MRD_METRICS_COUNTER, "meridian_http_streams_cancelled_total",
                         "Slices whose client disconnected.", c.cancelled);
    mrd_metrics_text_one(&x, MRD_METRICS_COUNTER, "meridian_http_sent_bytes_total",
                         "Bytes of HTTP bodies.", c.bytes);
    if (review != NULL)
        token_reviews(&x, review);
    mrd_metrics_text_process(&x);
    mrd_metrics_text_end(&x);
}
