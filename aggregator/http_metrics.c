#include "aggregator/http.h"

#include <inttypes.h>

#include "base/obj.h"

/* One family in the text format 0.0.4. */
static void
family(mrd_buf *to, const char *name, const char *type, const char *help)
{
    mrd_buf_fmt(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void
single(mrd_buf *to, const char *name, const char *type, const char *help, uint64_t v)
{
    family(to, name, type, help);
    mrd_buf_fmt(to, "%s %" PRIu64 "\n", name, v);
}

static void
totals(mrd_buf *to, const hub_stats *s)
{
    const struct {
        const char *name, *help;
        uint64_t v;
    } rows[] = {
        { "meridian_frames_stored_total", "Frames stored and acknowledged.", s->frames },
        { "meridian_stored_bytes_total", "Bytes of those frames.", s->bytes },
        { "meridian_events_stored_total", "Events of those frames.", s->events },
        { "meridian_duplicate_frames_total", "Frames that had been stored before.", s->duplicates },
        { "meridian_refused_frames_total", "Frames that will never be stored.", s->refused },
        { "meridian_bad_frames_total", "Frames that could not be read.", s->bad_frames },
        { "meridian_slowed_frames_total", "Frames sent back by a rate limit.", s->slowed },
        { "meridian_unstored_frames_total", "Frames sent back for want of room.", s->not_stored },
        { "meridian_journal_syncs_total", "Synchronisations of journal files.", s->syncs },
        { "meridian_hellos_total", "Agents welcomed.", s->hellos },
        { "meridian_hellos_refused_total", "Agents refused.", s->hello_refused },
        { "meridian_heartbeats_total", "Heartbeats of agents.", s->heartbeats },
        { "meridian_artifacts_stored_total", "Artifacts complete and proven.", s->artifacts },
        { "meridian_artifact_bytes_total", "Bytes of artifacts received.", s->artifact_bytes },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        single(to, rows[i].name, "counter", rows[i].help, rows[i].v);
}

/* Instance ids have no characters that the format would have to escape. */
static void
per_node(hub *h, mrd_buf *to, const char *name, const char *type, const char *help,
         int64_t (*value)(const hub *h, const hub_node *n))
{
    family(to, name, type, help);
    for (size_t i = 0; i < h->n_nodes; i++)
        mrd_buf_fmt(to, "%s{instance_id=\"%s\"} %" PRId64 "\n", name, h->nodes[i]->instance_id,
                    value(h, h->nodes[i]));
}

static int64_t
node_up(const hub *h, const hub_node *n)
{
    return hub_node_alive(h, n);
}

static int64_t
node_events(const hub *h, const hub_node *n)
{
    (void) h;
    return (int64_t) n->events;
}

static int64_t
node_dropped(const hub *h, const hub_node *n)
{
    (void) h;
    return (int64_t) hub_dropped(&n->counters);
}

static int64_t
node_held(const hub *h, const hub_node *n)
{
    (void) h;
    return (int64_t) n->counters.held;
}

/* Only of nodes whose clock was measured: no value is better than a wrong one. */
static void
clock_bounds(const hub *h, mrd_buf *to)
{
    family(to, "meridian_node_clock_bound_seconds", "gauge",
           "Largest error of the node's clock against the session's.");
    for (size_t i = 0; i < h->n_nodes; i++) {
        const hub_clock *c = &h->nodes[i]->clock;

        if (c->state[0] != '\0' && c->bound_ns > 0)
            mrd_buf_fmt(to, "meridian_node_clock_bound_seconds{instance_id=\"%s\"} %lld.%09lld\n",
                        h->nodes[i]->instance_id, (long long) (c->bound_ns / MRD_SEC),
                        (long long) (c->bound_ns % MRD_SEC));
    }
}

static void
sessions(hub *h, mrd_buf *to)
{
    uint64_t n[SESSION_STATES] = { 0 };

    for (size_t i = 0; i < h->n_sessions; i++)
        n[h->sessions[i]->state]++;
    family(to, "meridian_sessions", "gauge", "Sessions by state.");
    for (unsigned i = 0; i < SESSION_STATES; i++)
        mrd_buf_fmt(to, "meridian_sessions{state=\"%s\"} %" PRIu64 "\n",
                    session_state_text((session_state) i), n[i]);
}

void
http_metrics(hub *h, mrd_httpd *httpd, mrd_buf *to)
{
    mrd_httpd_counts c;

    mrd_httpd_count(httpd, &c);
    pthread_mutex_lock(&h->lock);
    totals(to, &h->stats);
    single(to, "meridian_disk_full", "gauge", "1 while nothing is stored for want of room.",
           h->disk_full);
    single(to, "meridian_connections", "gauge", "Connections of agents.",
           mrd_server_connections(h->server));
    single(to, "meridian_connections_refused_total", "counter",
           "Connections closed at the connection limit.", mrd_server_refused(h->server));
    sessions(h, to);
    per_node(h, to, "meridian_node_up", "gauge", "1 while the agent is heard of.", node_up);
    per_node(h, to, "meridian_node_events_total", "counter", "Events stored.", node_events);
    per_node(h, to, "meridian_node_dropped_events_total", "counter",
             "Events that the agent counted as lost.", node_dropped);
    per_node(h, to, "meridian_node_held_events", "gauge", "Events that the agent still holds.",
             node_held);
    clock_bounds(h, to);
    pthread_mutex_unlock(&h->lock);
    single(to, "meridian_http_requests_total", "counter", "HTTP requests.", c.requests);
    single(to, "meridian_http_errors_total", "counter", "HTTP replies of 400 and above.", c.errors);
    single(to, "meridian_http_unauthorised_total", "counter",
           "HTTP requests without a right token.", c.unauthorised);
    single(to, "meridian_http_streams", "gauge", "Slices being made.", c.streams_now);
    single(to, "meridian_http_sent_bytes_total", "counter", "Bytes of HTTP bodies.", c.bytes);
}
