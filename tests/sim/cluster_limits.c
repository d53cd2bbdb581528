/*
 * Tests limits of the aggregator with real agents: the size of a session, the rate of an agent, and
 * how long a flight recorder keeps its events. A session that is too large must be stopped with a
 * message. No agent may ever store more than its rate allows. As in every run, delayed or dropped
 * data must be counted.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/cluster_node.h"

/* maximum time after which a session above its size limit is stopped, with a busy loop */
#define STOPPED_AFTER (3 * MRD_SEC)

void
limits_of(const world *w, mrd_core_limits *limits)
{
    limits->session_bytes = w->plan->session_bytes;
    limits->agent_rate = w->plan->agent_rate;
}

void
limits_ask(world *w, mrd_session_params *params)
{
    if (w->plan->session_bytes == 0 && w->plan->agent_rate == 0)
        return;
    if (sim_chance(w, 500))
        params->recorder_ns = MRD_SEC + (int64_t) sim_below(w, 10 * MRD_SEC);
}

/* Called when a frame was accepted and is about to be written. Checks the agent's rate with a leaky
 * bucket, which is not how the core computes it. The bucket's level must never exceed the rate of
 * one second plus the largest frame. */
void
limits_stored(world *w, const char *instance_id, size_t len)
{
    unsigned node = (unsigned) strtoul(instance_id + 2, NULL, 10);
    limit_state *l = &w->agents[node].limit;
    double rate = (double) w->plan->agent_rate * 1.001; /* clocks differ */

    if (w->plan->agent_rate == 0)
        return;
    if (l->incarnation != w->incarnation)
        *l = (limit_state){ .incarnation = w->incarnation, .at = w->now };
    l->level -= rate * (double) (w->now - l->at) / 1e9;
    l->level = (l->level < 0 ? 0 : l->level) + (double) len;
    l->at = w->now;
    l->largest = len > l->largest ? len : l->largest;
    if (l->level > rate + (double) l->largest + 1)
        sim_fail(w, "node %s: %.0f bytes were stored at once, its limit is %lld in a second",
                 instance_id, l->level, (long long) w->plan->agent_rate);
}

static void
check_size(world *w, const mrd_session *s)
{
    disk_session *d = disk_make(w, s->id);
    uint64_t bytes = s->artifact_bytes;

    for (size_t i = 0; i < s->n_parts; i++)
        bytes += s->parts[i]->bytes;
    if (s->deleted || s->step != MRD_STEP_RECORD || s->stop_requested ||
        bytes <= (uint64_t) w->plan->session_bytes || d->large_in != w->incarnation ||
        d->large_at == 0) {
        d->large_in = w->incarnation;
        d->large_at = bytes > (uint64_t) w->plan->session_bytes ? w->now : 0;
        return;
    }
    if (w->now - d->large_at > STOPPED_AFTER)
        sim_fail(w, "session %s has %llu bytes, may have %lld, and goes on", s->text,
                 (unsigned long long) bytes, (long long) w->plan->session_bytes);
}

void
limits_check(world *w)
{
    for (size_t i = 0; w->plan->session_bytes > 0 && i < w->core->n_sessions && w->r->ok; i++)
        check_size(w, w->core->sessions[i]);
}

void
limits_end(world *w)
{
    for (size_t i = 0; i < w->core->n_sessions && w->r->ok; i++) {
        const mrd_session *s = w->core->sessions[i];

        w->r->limited += strstr(s->message, "--session-size") != NULL;
    }
    for (unsigned i = 0; i < w->plan->nodes && w->plan->agent_rate > 0; i++) {
        const mrd_node *n = mrd_nodes_by_id(&w->core->nodes, w->agents[i].id);

        w->r->limited += n != NULL && n->limited_by == MRD_LIMIT_AGENT_RATE;
    }
}
