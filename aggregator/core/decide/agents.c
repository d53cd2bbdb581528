/* Inputs from agents: hellos, heartbeats, connections that end. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "aggregator/core/manifest/empty.h"

/* ---- Hello ---- */

mrd_err
mrd_core_hello_check(const mrd_msg *msg, mrd_why *why)
{
    const Mrd__Hello *hello = msg->u.hello;

    if (hello->wire_major != MRD_WIRE_MAJOR)
        return mrd_why_set(why, MRD_VERSION, 0,
                           "agent '%s' (release %s) uses wire version %u, this aggregator %u: "
                           "update the older one",
                           hello->instance_id, hello->release, hello->wire_major, MRD_WIRE_MAJOR);
    if (!mrd_instance_id_valid(mrd_str_of(hello->instance_id)))
        return mrd_why_set(
            why, MRD_INVALID, 0,
            "'%.200s' is not an instance id: 1 to 128 letters, digits, '.', '_' or '-'",
            hello->instance_id);
    if (msg->frame.agent != mrd_agent_key(mrd_str_of(hello->instance_id)))
        return mrd_why_set(why, MRD_CORRUPT, 0, "agent '%s' sends the key of another agent",
                           hello->instance_id);
    return MRD_OK;
}

/* Makes room in the table for a new node on this connection. Returns false if the table is full and all its nodes stay. The
 * node that the connection was before is disconnected first, so that its entry makes room. */
static bool
make_room(mrd_core *c, uint32_t conn)
{
    mrd_node *gone = mrd_nodes_by_conn(&c->nodes, conn);

    if (gone != NULL)
        mrd_nodes_connect(&c->nodes, gone, 0);
    if ((int64_t) c->nodes.n < c->limits.max_nodes)
        return true;
    if ((gone = mrd_nodes_replaceable(&c->nodes, c->now.local, &c->limits)) == NULL)
        return false;
    for (unsigned i = 0; i < c->n_pending; i++) {
        if (c->pending[i].node == gone)
            return false; /* a frame of it is being stored */
    }
    mrd_core_drop_node(c, gone);
    return true;
}

static mrd_err
hello_allowed(mrd_core *c, uint32_t conn, const mrd_msg *msg, mrd_why *why)
{
    const Mrd__Hello *hello = msg->u.hello;
    const mrd_node *known = mrd_nodes_by_id(&c->nodes, hello->instance_id);

    if (known == NULL && !make_room(c, conn)) {
        c->stats.limited[MRD_LIMIT_NODES]++;
        return mrd_why_set(
            why, MRD_LIMIT, 0,
            "agent '%s' exceeds the %lld nodes that --advanced.max-nodes allows, all of which "
            "have sent data or are connected, and none has been gone for longer than "
            "--advanced.node-forget: forget one (meridian nodes --forget) or raise "
            "--advanced.max-nodes",
            hello->instance_id, (long long) c->limits.max_nodes);
    }
    if (known != NULL && known->run != hello->run && known->conn != conn &&
        mrd_core_is_alive(c, known))
        return mrd_why_set(
            why, MRD_EXISTS, 0,
            "instance id '%s' is in use by another agent (host '%s'), this one runs on "
            "'%s': give one of them another --instance-id",
            hello->instance_id, known->host_name, hello->host_name);
    for (size_t i = 0; i < c->nodes.n; i++) {
        if (c->nodes.v[i]->key == msg->frame.agent && c->nodes.v[i] != known)
            return mrd_why_set(why, MRD_EXISTS, 0,
                               "the key of instance id '%s' is that of '%s': choose another",
                               hello->instance_id, c->nodes.v[i]->instance_id);
    }
    return MRD_OK;
}

static void
refuse(mrd_core *c, uint64_t ticket, const mrd_why *why)
{
    mrd_effect *e = mrd_effects_add(&c->out, MRD_DO_REFUSE);

    e->ticket = ticket;
    e->err = why->err;
    e->final = why->err != MRD_LIMIT && why->err != MRD_EXISTS;
    mrd_text_set(e->text, sizeof(e->text), why->text);
    c->stats.hello_refused++;
    mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-HELLO-REFUSED", "An agent was refused: reason=%s",
                    why->text);
}

void
mrd_core_hello_refused(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_limit_kind limit,
                       const mrd_why *why)
{
    mrd_core_enter(c, now);
    if (limit != MRD_LIMIT_NONE)
        c->stats.limited[limit]++;
    refuse(c, ticket, why);
}

/* Gaps that sessions counted for a node that was removed and comes back. */
static uint64_t
gaps_of(const mrd_core *c, const char *instance_id)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < c->n_sessions; i++) {
        const mrd_part *p = mrd_session_part(c->sessions[i], instance_id);

        sum += p == NULL ? 0 : mrd_part_gaps(p);
    }
    return sum;
}

void
mrd_core_hello(mrd_core *c, mrd_core_time now, uint64_t ticket, uint32_t conn, const mrd_msg *msg)
{
    const Mrd__Hello *hello = msg->u.hello;
    mrd_why why = { 0 };
    mrd_effect *e;
    mrd_node *n;
    bool is_new;

    mrd_core_enter(c, now);
    if (hello_allowed(c, conn, msg, &why) != MRD_OK) {
        refuse(c, ticket, &why);
        return;
    }
    n = mrd_nodes_by_id(&c->nodes, hello->instance_id);
    is_new = n == NULL;
    if (is_new && (n = mrd_nodes_add(&c->nodes, hello->instance_id, now.local)) == NULL) {
        mrd_effects_add(&c->out, MRD_DO_DROP)->ticket = ticket;
        return;
    }
    if (is_new)
        n->gaps = gaps_of(c, n->instance_id);
    if (n->conn != conn)
        mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-NODE-UP",
                        "An agent connected: node=%s host=%s release=%s commit=%s", n->instance_id,
                        hello->host_name, hello->release, hello->commit);
    mrd_nodes_connect(&c->nodes, n, conn);
    if (strcmp(n->boot_id, hello->boot_id) != 0)
        mrd_node_forget_clock(n); /* another boot, another clock */
    mrd_node_hello(n, msg);
    n->proof_epoch = c->proof_epoch;
    n->seen = now.local;
    n->seen_wall = now.wall;
    c->registry.changed = c->registry.changed || !n->reported || n->forget;
    n->reported = true;
    n->forget = false;
    c->stats.hellos++;
    e = mrd_effects_add(&c->out, MRD_DO_WELCOME);
    e->ticket = ticket;
    e->node = n;
    mrd_core_directives(c, n, NULL, e);
}

void
mrd_core_conn_gone(mrd_core *c, mrd_core_time now, uint32_t conn)
{
    mrd_node *n;

    mrd_core_enter(c, now);
    if ((n = mrd_nodes_by_conn(&c->nodes, conn)) == NULL)
        return;
    mrd_nodes_connect(&c->nodes, n, 0);
    c->registry.changed = true;
    mrd_hang_node_gone(c->hang, n->key);
    mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-NODE-DOWN", "An agent disconnected: node=%s",
                    n->instance_id);
}

void
mrd_core_proof_changed(mrd_core *c, mrd_core_time now)
{
    mrd_core_enter(c, now);
    c->proof_epoch++;
}

/* ---- Heartbeats ---- */

/*
 * Handles the trigger report of an agent with wire 1.1. It reports for the whole node, so the
 * process is unknown. Each flight recorder on the node keeps a window. A job's session does not
 * receive the reason, because it may be another job's. The agent repeats a report for a while, so
 * only a changed report counts as new.
 */
static void
take_reason(mrd_core *c, mrd_node *n, const Mrd__Heartbeat *hb)
{
    const char *reason = "", *at = "";

    if (n->wire_minor >= MRD_WIRE_OF_REPORTS)
        return;
    for (size_t i = 0; i < hb->n_notes; i++) {
        if (strcmp(hb->notes[i]->key, "trigger") == 0)
            reason = hb->notes[i]->value;
        else if (strcmp(hb->notes[i]->key, "trigger-at") == 0)
            at = hb->notes[i]->value;
    }
    if (*reason != '\0' && (strncmp(reason, n->reason, sizeof(n->reason) - 1) != 0 ||
                            strncmp(at, n->reason_at, sizeof(n->reason_at) - 1) != 0))
        for (size_t i = 0; i < c->n_sessions; i++)
            mrd_session_report(c, c->sessions[i], n,
                               c->sessions[i]->of_job.key.text[0] == '\0'
                                   ? reason
                                   : "an agent of an earlier release saw a cause on its node");
    mrd_text_set(n->reason_at, sizeof(n->reason_at), at);
    mrd_text_set(n->reason, sizeof(n->reason), reason);
}

static void
take_state(mrd_node *n, const Mrd__Heartbeat *hb)
{
    mrd_text_set(n->state, sizeof(n->state), hb->state);
    mrd_counts_take(&n->counts, hb->counters);
    n->counted.ns = mrd_time_checked(hb->local_ns);
    mrd_clock_quality_take(&n->clock, hb->clock);
    n->rings = hb->rings;
    n->processes = hb->processes;
    mrd_unread_take(&n->unread, hb->unread);
    n->spool_bytes = mrd_count_checked(hb->spool_bytes);
    n->memory_bytes = mrd_count_checked(hb->memory_bytes);
    n->cert_begin.ns = mrd_time_checked(hb->certificate_begin_ns);
    n->cert_end.ns = mrd_time_checked(hb->certificate_end_ns);
    if (hb->models != NULL) {
        mrd_node_models_unref(n->models);
        n->models = mrd_node_models_new(hb->models, n->hello_local, n->hello_wall);
    }
    if (hb->runtime != NULL) {
        mrd_runtime_features_unref(n->features);
        n->features = mrd_runtime_features_new(hb->runtime);
    }
}

/* Takes why a node asks for a window of this session. The agent repeats it in case a heartbeat is lost. */
static void
take_report(mrd_core *c, mrd_session *s, mrd_part *p, const mrd_node *n,
            const Mrd__SessionStatus *st)
{
    if (*st->report == '\0' || st->report_local_ns == p->reported.ns)
        return;
    p->reported.ns = st->report_local_ns; /* a peer's number, which is only compared */
    mrd_session_report(c, s, n, st->report);
}

static void
take_sessions(mrd_core *c, const mrd_node *n, const Mrd__Heartbeat *hb)
{
    for (size_t i = 0; i < hb->n_sessions; i++) {
        const Mrd__SessionStatus *st = hb->sessions[i];
        mrd_session *s = mrd_core_session(c, st->session);
        mrd_part *p;

        if (s == NULL || !mrd_session_is_open(s))
            continue;
        if ((p = mrd_session_part(s, n->instance_id)) == NULL &&
            (p = mrd_core_add_part(c, s, n)) == NULL)
            continue;
        mrd_part_tally(p, st->tally);
        if (p->features != n->features) {
            mrd_runtime_features_unref(p->features);
            p->features = mrd_runtime_features_ref(n->features);
        }
        mrd_unread_most(&p->unread, st->unread);
        mrd_part_heartbeat(p, n, st, mrd_session_params_ask_runtime(&s->params));
        for (size_t k = 0; k < st->n_jobs && k < MRD_SESSION_JOBS; k++)
            mrd_session_add_job(s, st->jobs[k]);
        if (st->jobs_left_out > s->jobs_left_out)
            s->jobs_left_out = st->jobs_left_out;
        take_report(c, s, p, n, st);
        mrd_session_acknowledge_ids(s, p, st->triggers, st->n_triggers);
        mrd_session_touch(s);
        if (s->step == MRD_STEP_FLUSH && mrd_effects_room(&c->out, MRD_EFFECTS_ROOM))
            mrd_session_run(c, s); /* it may have been the last one */
    }
}

static void
check_causality(mrd_core *c, mrd_node *n, mrd_local_ns local, mrd_local_ns received, bool answer)
{
    bool violated;

    if (!mrd_node_check_causality(n, &c->timescale, &n->causality, local, received, answer,
                                  &violated))
        return;
    c->stats.clock_frames++;
    c->stats.clock_frame_violations += violated;
}

/* A repeated heartbeat that arrives after a newer one is stale. Its counts would look like the
 * counts of a restarted agent, and its sessions would look forgotten. */
static bool
is_late(mrd_node *n, const Mrd__Heartbeat *hb)
{
    if (hb->local_ns < n->beat.ns)
        return true;
    n->beat.ns = mrd_time_checked(hb->local_ns);
    return false;
}

void
mrd_core_heartbeat(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_node *n,
                   const Mrd__Heartbeat *hb, mrd_local_ns received)
{
    mrd_effect *e;

    mrd_core_enter(c, now);
    c->stats.heartbeats++;
    if (is_late(n, hb)) { /* the request that it repeats was answered */
        e = mrd_effects_add(&c->out, MRD_DO_HEARTBEAT);
        e->ticket = ticket;
        e->node = n;
        e->received = received;
        return;
    }
    mrd_node_asleep(n, hb->asleep_ns, (mrd_local_ns){ hb->local_ns });
    take_state(n, hb);
    take_sessions(c, n, hb);
    take_reason(c, n, hb);
    mrd_core_take_ranks(c, n, hb, received);
    check_causality(c, n, (mrd_local_ns){ hb->local_ns }, received, false);
    if (hb->answered_ns != 0 && hb->answer_raw_ns != 0)
        check_causality(c, n, (mrd_local_ns){ hb->answered_ns },
                        (mrd_local_ns){ hb->answer_raw_ns }, true);
    e = mrd_effects_add(&c->out, MRD_DO_HEARTBEAT);
    e->ticket = ticket;
    e->node = n;
    e->received = received;
    mrd_core_directives(c, n, hb, e);
    e->has_estimate = mrd_node_estimate(n, &c->timescale, (mrd_local_ns){ hb->local_ns },
                                        &e->estimate, e->estimate_state);
    if (!e->has_estimate)
        return;
    n->clock.offset = e->estimate.offset_ns;
    n->clock.bound = e->estimate.bound_ns;
    mrd_text_set(n->clock.state, sizeof(n->clock.state), e->estimate_state);
}
