/* GET /metrics: writes the counters of the aggregator and of its nodes as Prometheus metrics. */
#include "aggregator/api/http.h"

#include <stdio.h>

#include "base/obj.h"

static void
totals(mrd_metrics_text *text, const mrd_core_stats *stats, uint64_t syncs)
{
    const struct {
        const char *name, *help;
        uint64_t v;
    } rows[] = {
        { "meridian_frames_stored_total", "Frames stored and acknowledged.", stats->frames },
        { "meridian_stored_bytes_total", "Bytes of those frames.", stats->bytes },
        { "meridian_events_stored_total", "Events of those frames.", stats->events },
        { "meridian_duplicate_frames_total", "Frames that arrived again after they were stored.",
          stats->duplicates },
        { "meridian_refused_frames_total", "Frames that will never be stored.", stats->refused },
        { "meridian_bad_frames_total", "Frames that could not be read.", stats->bad_frames },
        { "meridian_slowed_frames_total", "Frames sent back by a rate limit.", stats->slowed },
        { "meridian_unstored_frames_total", "Frames sent back because the disk is full.",
          stats->not_stored },
        { "meridian_journal_syncs_total", "Synchronisations of journal files.", syncs },
        { "meridian_hellos_total", "Agents welcomed.", stats->hellos },
        { "meridian_hellos_refused_total", "Agents refused.", stats->hello_refused },
        { "meridian_heartbeats_total", "Heartbeats of agents.", stats->heartbeats },
        { "meridian_artifacts_stored_total", "Artifacts received completely and verified.",
          stats->artifacts },
        { "meridian_artifacts_removed_total", "Artifacts removed that no session listed any more.",
          stats->artifacts_removed },
        { "meridian_artifact_bytes_total", "Bytes of artifacts received.", stats->artifact_bytes },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        mrd_metrics_text_one(text, MRD_METRICS_COUNTER, rows[i].name, rows[i].help, rows[i].v);
}

/* Writes how many observations of clocks were checked, and how many of them contradict a stated
 * error bound. The latter must stay 0. */
static void
clock_checks(mrd_metrics_text *text, const mrd_core_stats *stats)
{
    const struct {
        const char *kind;
        uint64_t checked, violations;
    } rows[] = {
        { "frame", stats->clock_frames, stats->clock_frame_violations },
        { "held-out", stats->clock_held_out, stats->clock_held_out_violations },
        { "absolute", stats->clock_absolute, stats->clock_absolute_violations },
        { "collective", stats->clock_collectives, stats->clock_collective_violations },
    };
    char label[32];

    mrd_metrics_text_family(
        text, MRD_METRICS_COUNTER, "meridian_clock_checks_total",
        "Frames, held-out probe packets, readings of absolute time and collectives compared with "
        "the clocks' bounds.");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        snprintf(label, sizeof(label), "kind=\"%s\"", rows[i].kind);
        mrd_metrics_text_u64(text, label, rows[i].checked);
    }
    mrd_metrics_text_family(text, MRD_METRICS_COUNTER, "meridian_clock_violations_total",
                            "Of these, how many contradicted a bound. Must be 0.");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        snprintf(label, sizeof(label), "kind=\"%s\"", rows[i].kind);
        mrd_metrics_text_u64(text, label, rows[i].violations);
    }
}

static void
hangs(const mrd_overview *overview, mrd_metrics_text *text)
{
    char label[48];

    mrd_metrics_text_one(text, MRD_METRICS_GAUGE, "meridian_hang_standing",
                         "Jobs that stand still now.", overview->hang.standing);
    mrd_metrics_text_one(text, MRD_METRICS_GAUGE, "meridian_hang_ranks",
                         "Processes that the hang watch compares.", overview->hang.ranks);
    mrd_metrics_text_family(text, MRD_METRICS_COUNTER, "meridian_hang_verdicts_total",
                            "Verdicts of the hang watch.");
    for (mrd_hang_class hang_class = MRD_HANG_DEAD; hang_class < MRD_HANG_CLASSES; hang_class++) {
        snprintf(label, sizeof(label), "verdict=\"%s\"", mrd_hang_class_text(hang_class));
        mrd_metrics_text_u64(text, label, overview->hang.told[hang_class]);
    }
    mrd_metrics_text_one(text, MRD_METRICS_COUNTER, "meridian_hang_over_total",
                         "Verdicts that were withdrawn because the job went on or ended.",
                         overview->hang.withdrawn);
    mrd_metrics_text_one(text, MRD_METRICS_COUNTER, "meridian_hang_left_out_total",
                         "Reports of processes beyond the limits of the hang watch.",
                         overview->hang.left_out);
}

/* Returns the label for a node. Instance ids need no escaping, because they have no special
 * characters. */
static const char *
label_of(const mrd_node *node, char text[MRD_NODE_ID_MAX + 16])
{
    snprintf(text, MRD_NODE_ID_MAX + 16, "instance_id=\"%s\"", node->instance_id);
    return text;
}

static void
per_node(const mrd_overview *overview, mrd_metrics_text *text, mrd_metrics_text_kind kind,
         const char *name, const char *help,
         int64_t (*value)(const mrd_overview *overview, const mrd_node *node))
{
    char label[MRD_NODE_ID_MAX + 16];

    mrd_metrics_text_family(text, kind, name, help);
    for (size_t i = 0; i < overview->n_nodes; i++)
        mrd_metrics_text_i64(text, label_of(overview->nodes[i], label),
                             value(overview, overview->nodes[i]));
}

static int64_t
node_up(const mrd_overview *overview, const mrd_node *node)
{
    return mrd_node_is_alive(node, overview->made, &overview->limits);
}

static int64_t
node_events(const mrd_overview *overview, const mrd_node *node)
{
    (void) overview;
    return (int64_t) node->events;
}

static int64_t
node_dropped(const mrd_overview *overview, const mrd_node *node)
{
    (void) overview;
    return (int64_t) (mrd_counts_lost(&node->counts) - mrd_counts_unwanted(&node->counts));
}

static int64_t
node_unwanted(const mrd_overview *overview, const mrd_node *node)
{
    (void) overview;
    return (int64_t) mrd_counts_unwanted(&node->counts);
}

static int64_t
node_held(const mrd_overview *overview, const mrd_node *node)
{
    (void) overview;
    return (int64_t) node->counts.held;
}

/* Writes the error bounds of the nodes' clocks. A node whose clock was not measured has no sample,
 * because any value would be wrong. */
static void
clock_bounds(const mrd_overview *overview, mrd_metrics_text *text)
{
    char label[MRD_NODE_ID_MAX + 16];

    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_node_clock_bound_seconds",
                            "Largest error of the node's clock against the session's.");
    for (size_t i = 0; i < overview->n_nodes; i++) {
        const mrd_clock_quality *quality = &overview->nodes[i]->clock;

        if (quality->state[0] != '\0' && quality->bound > 0)
            mrd_metrics_text_seconds(text, label_of(overview->nodes[i], label), quality->bound);
    }
}

/* Writes the end (if `ends`) or begin of validity of the nodes' certificates. A node without a
 * certificate has no sample. */
static void
node_certificates(const mrd_overview *overview, mrd_metrics_text *text, bool ends)
{
    char label[MRD_NODE_ID_MAX + 16];

    mrd_metrics_text_family(text, MRD_METRICS_GAUGE,
                            ends ? "meridian_node_certificate_expiry_timestamp_seconds"
                                 : "meridian_node_certificate_begin_timestamp_seconds",
                            ends ? "When the certificate of the node's agent ends."
                                 : "When the certificate of the node's agent begins.");
    for (size_t i = 0; i < overview->n_nodes; i++) {
        const mrd_node *node = overview->nodes[i];

        if (node->cert_end.ns != 0)
            mrd_metrics_text_i64(text, label_of(node, label),
                                 (ends ? node->cert_end.ns : node->cert_begin.ns) / MRD_SEC);
    }
}

static void
sessions(const mrd_overview *overview, mrd_metrics_text *text)
{
    uint64_t counts[MRD_SESSION_STATES] = { 0 };
    char label[64];

    for (size_t i = 0; i < overview->n_sessions; i++)
        counts[overview->sessions[i].state]++;
    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_sessions", "Sessions by state.");
    for (unsigned i = 0; i < MRD_SESSION_STATES; i++) {
        snprintf(label, sizeof(label), "state=\"%s\"",
                 mrd_session_state_text((mrd_session_state) i));
        mrd_metrics_text_u64(text, label, counts[i]);
    }
}

static void
exports(const mrd_overview *overview, mrd_metrics_text *text)
{
    uint64_t counts[MRD_EXPORT_FAILED + 1] = { 0 };
    char label[64];

    for (size_t i = 0; i < overview->n_sessions; i++)
        counts[overview->sessions[i].copy]++;
    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_exports",
                            "Sessions by the state of their copy on shared storage.");
    for (unsigned i = MRD_EXPORT_PENDING; i <= MRD_EXPORT_FAILED; i++) {
        snprintf(label, sizeof(label), "state=\"%s\"", mrd_export_state_text((mrd_export_state) i));
        mrd_metrics_text_u64(text, label, counts[i]);
    }
}

static void
conversions(const mrd_overview *overview, mrd_metrics_text *text)
{
    uint64_t counts[MRD_CONVERT_STATES] = { 0 };
    char label[64];

    for (size_t i = 0; i < overview->n_sessions; i++) {
        for (unsigned k = 0; k < MRD_CONVERT_STATES; k++)
            counts[k] += overview->sessions[i].conversions[k];
    }
    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_conversions",
                            "Processes by the state of the conversion of their device profiles.");
    for (unsigned k = 0; k < MRD_CONVERT_STATES; k++) {
        snprintf(label, sizeof(label), "state=\"%s\"",
                 mrd_convert_state_text((mrd_convert_state) k));
        mrd_metrics_text_u64(text, label, counts[k]);
    }
}

/* Writes each limit of the aggregator, its current use, and how often it delayed or refused
 * something. */
static void
limits(const mrd_overview *v, unsigned max_connections, mrd_metrics_text *text)
{
    const mrd_core_limits *core_limits = &v->limits;
    const struct {
        const char *name;
        int64_t v;
    } rows[] = {
        { "agent-rate", core_limits->agent_rate },
        { "total-rate", core_limits->total_rate },
        { "max-connections", max_connections },
        { "max-nodes", core_limits->max_nodes },
        { "max-sessions", core_limits->max_sessions },
        { "max-open-sessions", core_limits->max_open_sessions },
        { "session-size", core_limits->session_bytes },
        { "disk-reserve", core_limits->disk_reserve },
        { "retain-size", core_limits->retain_bytes },
        { "node-gaps", core_limits->node_gaps },
    };
    char label[64];

    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_limit",
                            "Limits by the name of their option; 0: none.");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        snprintf(label, sizeof(label), "limit=\"%s\"", rows[i].name);
        mrd_metrics_text_i64(text, label, rows[i].v);
    }
    mrd_metrics_text_family(text, MRD_METRICS_COUNTER, "meridian_limited_total",
                            "What a limit sent back, refused or stopped.");
    for (unsigned i = MRD_LIMIT_NONE + 1; i < MRD_LIMIT_KINDS; i++) {
        snprintf(label, sizeof(label), "limit=\"%s\"", mrd_limit_text((mrd_limit_kind) i));
        mrd_metrics_text_u64(text, label, v->stats.limited[i]);
    }
    mrd_metrics_text_one(
        text, MRD_METRICS_GAUGE, "meridian_sessions_unreadable",
        "Sessions whose manifest could not be read: while there are any, no artifact is "
        "removed.",
        v->unreadable);
    mrd_metrics_text_one(text, MRD_METRICS_GAUGE, "meridian_nodes", "Agents remembered.",
                         v->nodes_known);
}

static void
token_reviews(mrd_metrics_text *text, mrd_token_review *review)
{
    mrd_token_review_counts counts;

    mrd_token_review_count(review, &counts);
    mrd_metrics_text_one(text, MRD_METRICS_COUNTER, "meridian_token_reviews_total",
                         "Tokens of service accounts that the API server was asked about.",
                         counts.asked);
    mrd_metrics_text_one(text, MRD_METRICS_COUNTER, "meridian_token_reviews_refused_total",
                         "Tokens of service accounts that were not accepted.", counts.refused);
    mrd_metrics_text_one(text, MRD_METRICS_COUNTER, "meridian_token_reviews_failed_total",
                         "Questions that the API server did not answer.", counts.failed);
}

void
mrd_http_metrics(mrd_loop *loop, mrd_httpd *httpd, mrd_token_review *review,
                 const mrd_cert_file *files, size_t n_files, bool open, mrd_buf *to)
{
    mrd_overview *overview = mrd_loop_overview(loop);
    mrd_server *server = mrd_loop_server(loop);
    mrd_httpd_counts counts;
    mrd_metrics_text text;

    mrd_httpd_count(httpd, &counts);
    mrd_metrics_text_begin(&text, to, open);
    if (overview == NULL) {
        to->err = MRD_NOMEM;
        return;
    }
    totals(&text, &overview->stats, mrd_loop_syncs(loop));
    mrd_metrics_text_one(&text, MRD_METRICS_GAUGE, "meridian_disk_full",
                         "1 while nothing is stored because the disk is full.",
                         overview->disk_full);
    mrd_metrics_text_one(&text, MRD_METRICS_GAUGE, "meridian_store_failing",
                         "1 while something that arrives cannot be stored, for whatever reason.",
                         overview->store_message[0] != '\0');
    mrd_metrics_text_one(&text, MRD_METRICS_GAUGE, "meridian_store_bytes",
                         "What all sessions occupy, artifacts included.", overview->store_bytes);
    mrd_metrics_text_one(&text, MRD_METRICS_GAUGE, "meridian_connections", "Connections of agents.",
                         mrd_server_connections(server));
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_connections_refused_total",
                         "Connections closed at the connection limit.", mrd_server_refused(server));
    mrd_metrics_text_one(&text, MRD_METRICS_GAUGE, "meridian_unaccepted_bytes",
                         "Bytes held by connections that are not accepted yet.",
                         mrd_server_unaccepted_bytes(server));
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_unaccepted_closed_total",
                         "Connections closed because they held too much before they were accepted.",
                         mrd_server_unaccepted_closed(server));
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_tls_failures_total",
                         "TLS handshakes with agents that failed.",
                         mrd_server_tls_failures(server));
    sessions(overview, &text);
    if (overview->limits.exports || overview->limits.export_targets != NULL)
        exports(overview, &text);
    conversions(overview, &text);
    limits(overview, mrd_server_max_connections(server), &text);
    per_node(overview, &text, MRD_METRICS_GAUGE, "meridian_node_up",
             "1 while messages of the agent arrive.", node_up);
    per_node(overview, &text, MRD_METRICS_COUNTER, "meridian_node_events_total", "Events stored.",
             node_events);
    per_node(overview, &text, MRD_METRICS_COUNTER, "meridian_node_dropped_events_total",
             "Events lost that a session had asked for.", node_dropped);
    per_node(overview, &text, MRD_METRICS_COUNTER, "meridian_node_unwanted_events_total",
             "Events that no session had asked for, or that a flight recorder made room with.",
             node_unwanted);
    per_node(overview, &text, MRD_METRICS_GAUGE, "meridian_node_held_events",
             "Events that the agent still holds.", node_held);
    node_certificates(overview, &text, true);
    node_certificates(overview, &text, false);
    mrd_cert_times_metrics(&text, files, n_files);
    clock_bounds(overview, &text);
    clock_checks(&text, &overview->stats);
    hangs(overview, &text);
    mrd_http_job_metrics(overview, &text);
    mrd_overview_unref(overview);
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_http_requests_total",
                         "HTTP requests.", counts.requests);
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_http_errors_total",
                         "HTTP replies of 400 and above.", counts.errors);
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_http_unauthorised_total",
                         "HTTP requests without a valid token.", counts.unauthorised);
    mrd_metrics_text_one(&text, MRD_METRICS_GAUGE, "meridian_http_connections", "HTTP connections.",
                         counts.connections);
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_http_slow_clients_total",
                         "HTTP connections ended because a request or its reading took too long.",
                         counts.slow_clients);
    mrd_metrics_text_one(&text, MRD_METRICS_GAUGE, "meridian_http_streams", "Slices being made.",
                         counts.streams_now);
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_http_streams_cancelled_total",
                         "Slices whose client disconnected.", counts.cancelled);
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_http_sent_bytes_total",
                         "Bytes of HTTP bodies.", counts.bytes);
    if (review != NULL)
        token_reviews(&text, review);
    mrd_metrics_text_process(&text, "meridian-aggregator");
    mrd_metrics_text_end(&text);
}
