/* Handles inputs from agents: hellos, heartbeats, and the end of connections. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "aggregator/core/manifest/empty.h"

/* ---- Hello messages ---- */

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

/* Makes room in the table of nodes for a node that connects as `conn`. Another node of this
 * connection is disconnected first, and its entry may be removed. Returns false if the table is
 * full and no entry can be removed. */
static bool
make_room(mrd_core *core, uint32_t conn)
{
    mrd_node *gone = mrd_nodes_by_conn(&core->nodes, conn);

    if (gone != NULL)
        mrd_nodes_connect(&core->nodes, gone, 0);
    if ((int64_t) core->nodes.n < core->limits.max_nodes)
        return true;
    if ((gone = mrd_nodes_replaceable(&core->nodes, core->now.local, &core->limits)) == NULL)
        return false;
    for (unsigned i = 0; i < core->n_pending; i++) {
        if (core->pending[i].node == gone)
            /* returns false, because a frame of this node is still being stored and needs the
             * entry */
            return false;
    }
    mrd_core_drop_node(core, gone);
    return true;
}

static mrd_err
hello_allowed(mrd_core *core, uint32_t conn, const mrd_msg *msg, mrd_why *why)
{
    const Mrd__Hello *hello = msg->u.hello;
    const mrd_node *known = mrd_nodes_by_id(&core->nodes, hello->instance_id);

    if (known == NULL && !make_room(core, conn)) {
        core->stats.limited[MRD_LIMIT_NODES]++;
        return mrd_why_set(
            why, MRD_LIMIT, 0,
            "agent '%s' exceeds the %lld nodes that --advanced.max-nodes allows, all of which "
            "have sent data or are connected, and none has been gone for longer than "
            "--advanced.node-forget: forget one (meridian nodes --forget) or raise "
            "--advanced.max-nodes",
            hello->instance_id, (long long) core->limits.max_nodes);
    }
    if (known != NULL && known->run != hello->run && known->conn != conn &&
        mrd_core_is_alive(core, known))
        return mrd_why_set(
            why, MRD_EXISTS, 0,
            "instance id '%s' is in use by another agent (host '%s'), this one runs on "
            "'%s': give one of them another --instance-id",
            hello->instance_id, known->host_name, hello->host_name);
    for (size_t i = 0; i < core->nodes.n; i++) {
        if (core->nodes.v[i]->key == msg->frame.agent && core->nodes.v[i] != known)
            return mrd_why_set(why, MRD_EXISTS, 0,
                               "the key of instance id '%s' is that of '%s': choose another",
                               hello->instance_id, core->nodes.v[i]->instance_id);
    }
    return MRD_OK;
}

static void
refuse(mrd_core *core, uint64_t ticket, const mrd_why *why)
{
    mrd_effect *effect = mrd_effects_add(&core->out, MRD_DO_REFUSE);

    effect->ticket = ticket;
    effect->err = why->err;
    effect->final = why->err != MRD_LIMIT && why->err != MRD_EXISTS;
    mrd_text_set(effect->text, sizeof(effect->text), why->text);
    core->stats.hello_refused++;
    mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-HELLO-REFUSED",
                    "An agent was refused: reason=%s", why->text);
}

void
mrd_core_hello_refused(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_limit_kind limit,
                       const mrd_why *why)
{
    mrd_core_enter(core, now);
    if (limit != MRD_LIMIT_NONE)
        core->stats.limited[limit]++;
    refuse(core, ticket, why);
}

/* Returns the number of gaps in the sequence numbers of the node's frames, over all sessions. Used
 * for a node that reconnects after its entry was removed. */
static uint64_t
gaps_of(const mrd_core *core, const char *instance_id)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < core->n_sessions; i++) {
        const mrd_part *part = mrd_session_part(core->sessions[i], instance_id);

        sum += part == NULL ? 0 : mrd_part_gaps(part);
    }
    return sum;
}

void
mrd_core_hello(mrd_core *core, mrd_core_time now, uint64_t ticket, uint32_t conn,
               const mrd_msg *msg)
{
    const Mrd__Hello *hello = msg->u.hello;
    mrd_why why = { 0 };
    mrd_effect *effect;
    mrd_node *node;
    bool is_new;

    mrd_core_enter(core, now);
    if (hello_allowed(core, conn, msg, &why) != MRD_OK) {
        refuse(core, ticket, &why);
        return;
    }
    node = mrd_nodes_by_id(&core->nodes, hello->instance_id);
    is_new = node == NULL;
    if (is_new && (node = mrd_nodes_add(&core->nodes, hello->instance_id, now.local)) == NULL) {
        mrd_effects_add(&core->out, MRD_DO_DROP)->ticket = ticket;
        return;
    }
    if (is_new)
        node->gaps = gaps_of(core, node->instance_id);
    if (node->conn != conn)
        mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-NODE-UP",
                        "An agent connected: node=%s host=%s release=%s commit=%s",
                        node->instance_id, hello->host_name, hello->release, hello->commit);
    mrd_nodes_connect(&core->nodes, node, conn);
    if (strcmp(node->boot_id, hello->boot_id) != 0)
        /* a reboot restarts the node's clock, so the estimate of its offset is not valid any
         * more */
        mrd_node_forget_clock(node);
    mrd_node_hello(node, msg);
    node->proof_epoch = core->proof_epoch;
    node->seen = now.local;
    node->seen_wall = now.wall;
    core->registry.changed = core->registry.changed || !node->reported || node->forget;
    node->reported = true;
    node->forget = false;
    core->stats.hellos++;
    effect = mrd_effects_add(&core->out, MRD_DO_WELCOME);
    effect->ticket = ticket;
    effect->node = node;
    mrd_core_directives(core, node, NULL, effect);
}

void
mrd_core_conn_gone(mrd_core *core, mrd_core_time now, uint32_t conn)
{
    mrd_node *node;

    mrd_core_enter(core, now);
    if ((node = mrd_nodes_by_conn(&core->nodes, conn)) == NULL)
        return;
    mrd_nodes_connect(&core->nodes, node, 0);
    core->registry.changed = true;
    mrd_hang_node_gone(core->hang, node->key, now.local);
    mrd_slow_node_gone(core->slow, node->key, now.local);
    mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-NODE-DOWN", "An agent disconnected: node=%s",
                    node->instance_id);
}

void
mrd_core_proof_changed(mrd_core *core, mrd_core_time now)
{
    mrd_core_enter(core, now);
    core->proof_epoch++;
}

/* ---- Heartbeats ---- */

/*
 * Handles a trigger reported by an agent with wire protocol 1.1, which does not name the process
 * that caused it. So every flight recorder on the node keeps the events around it. The sessions of
 * jobs do not receive the reason of the trigger, because it may concern another user's job. The
 * agent repeats a report in several heartbeats, so only a changed report is new.
 */
static void
take_reason(mrd_core *core, mrd_node *node, const Mrd__Heartbeat *hb)
{
    const char *reason = "", *at = "";

    if (node->wire_minor >= MRD_WIRE_OF_REPORTS)
        return;
    for (size_t i = 0; i < hb->n_notes; i++) {
        if (strcmp(hb->notes[i]->key, "trigger") == 0)
            reason = hb->notes[i]->value;
        else if (strcmp(hb->notes[i]->key, "trigger-at") == 0)
            at = hb->notes[i]->value;
    }
    if (*reason != '\0' && (strncmp(reason, node->reason, sizeof(node->reason) - 1) != 0 ||
                            strncmp(at, node->reason_at, sizeof(node->reason_at) - 1) != 0))
        for (size_t i = 0; i < core->n_sessions; i++)
            mrd_session_report(core, core->sessions[i], node,
                               core->sessions[i]->of_job.key.text[0] == '\0'
                                   ? reason
                                   : "an agent of an earlier release saw a cause on its node");
    mrd_text_set(node->reason_at, sizeof(node->reason_at), at);
    mrd_text_set(node->reason, sizeof(node->reason), reason);
}

static void
take_state(mrd_node *node, const Mrd__Heartbeat *hb)
{
    mrd_text_set(node->state, sizeof(node->state), hb->state);
    mrd_counts_take(&node->counts, hb->counters);
    node->counted.ns = mrd_time_checked(hb->local_ns);
    mrd_clock_quality_take(&node->clock, hb->clock);
    node->rings = hb->rings;
    node->processes = hb->processes;
    mrd_unread_take(&node->unread, hb->unread);
    node->spool_bytes = mrd_count_checked(hb->spool_bytes);
    node->memory_bytes = mrd_count_checked(hb->memory_bytes);
    node->cert_begin.ns = mrd_time_checked(hb->certificate_begin_ns);
    node->cert_end.ns = mrd_time_checked(hb->certificate_end_ns);
    if (hb->models != NULL) {
        mrd_node_models_unref(node->models);
        node->models = mrd_node_models_new(hb->models, node->hello_local, node->hello_wall);
    }
    if (hb->runtime != NULL) {
        mrd_runtime_features_unref(node->features);
        node->features = mrd_runtime_features_new(hb->runtime);
    }
}

/* Handles a node's request that the session's flight recorder keep its current events. The agent
 * repeats the request in several heartbeats, because a heartbeat may be lost. */
static void
take_report(mrd_core *core, mrd_session *session, mrd_part *part, const mrd_node *node,
            const Mrd__SessionStatus *st)
{
    if (*st->report == '\0' || st->report_local_ns == part->reported.ns)
        return;
    /* not validated, because it is only compared with later reports */
    part->reported.ns = st->report_local_ns;
    mrd_session_report(core, session, node, st->report);
}

static void
take_sessions(mrd_core *core, const mrd_node *node, const Mrd__Heartbeat *hb)
{
    for (size_t i = 0; i < hb->n_sessions; i++) {
        const Mrd__SessionStatus *st = hb->sessions[i];
        mrd_session *session = mrd_core_session(core, st->session);
        mrd_part *part;

        if (session == NULL || !mrd_session_is_open(session))
            continue;
        if ((part = mrd_session_part(session, node->instance_id)) == NULL &&
            (part = mrd_core_add_part(core, session, node)) == NULL)
            continue;
        mrd_part_tally(part, st->tally);
        if (part->features != node->features) {
            mrd_runtime_features_unref(part->features);
            part->features = mrd_runtime_features_ref(node->features);
        }
        mrd_unread_most(&part->unread, st->unread);
        mrd_part_heartbeat(part, node, st, mrd_session_params_ask_runtime(&session->params));
        for (size_t k = 0; k < st->n_jobs && k < MRD_SESSION_JOBS; k++)
            mrd_session_add_job(session, st->jobs[k]);
        if (st->jobs_left_out > session->jobs_left_out)
            session->jobs_left_out = st->jobs_left_out;
        take_report(core, session, part, node, st);
        mrd_session_acknowledge_ids(session, part, st->triggers, st->n_triggers);
        mrd_session_touch(session);
        if (session->step == MRD_STEP_FLUSH && mrd_effects_room(&core->out, MRD_EFFECTS_ROOM))
            /* the session may be able to continue, if it waited only for this node */
            mrd_session_run(core, session);
    }
}

static void
check_causality(mrd_core *core, mrd_node *node, mrd_local_ns local, mrd_local_ns received,
                bool answer)
{
    bool violated;

    if (!mrd_node_check_causality(node, &core->timescale, &node->causality, local, received, answer,
                                  &violated))
        return;
    core->stats.clock_frames++;
    core->stats.clock_frame_violations += violated;
}

/* Returns true if this heartbeat arrived after a newer one. Such a repeated heartbeat has to be
 * ignored. Its old counts and its old list of sessions would look as if the agent had restarted and
 * lost sessions. */
static bool
is_late(mrd_node *node, const Mrd__Heartbeat *hb)
{
    if (hb->local_ns < node->beat.ns)
        return true;
    node->beat.ns = mrd_time_checked(hb->local_ns);
    return false;
}

void
mrd_core_heartbeat(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_node *node,
                   const Mrd__Heartbeat *hb, mrd_local_ns received)
{
    mrd_effect *effect;

    mrd_core_enter(core, now);
    core->stats.heartbeats++;
    /* no directives, because the first copy of this heartbeat was answered with them */
    if (is_late(node, hb)) {
        effect = mrd_effects_add(&core->out, MRD_DO_HEARTBEAT);
        effect->ticket = ticket;
        effect->node = node;
        effect->received = received;
        return;
    }
    mrd_node_asleep(node, hb->asleep_ns, (mrd_local_ns){ hb->local_ns });
    take_state(node, hb);
    take_sessions(core, node, hb);
    take_reason(core, node, hb);
    mrd_core_take_ranks(core, node, hb, received);
    check_causality(core, node, (mrd_local_ns){ hb->local_ns }, received, false);
    if (hb->answered_ns != 0 && hb->answer_raw_ns != 0)
        check_causality(core, node, (mrd_local_ns){ hb->answered_ns },
                        (mrd_local_ns){ hb->answer_raw_ns }, true);
    effect = mrd_effects_add(&core->out, MRD_DO_HEARTBEAT);
    effect->ticket = ticket;
    effect->node = node;
    effect->received = received;
    mrd_core_directives(core, node, hb, effect);
    mrd_core_want_stacks(core, node, effect);
    effect->has_estimate = mrd_node_estimate(node, &core->timescale, (mrd_local_ns){ hb->local_ns },
                                             &effect->estimate, effect->estimate_state);
    if (!effect->has_estimate)
        return;
    node->clock.offset = effect->estimate.offset_ns;
    node->clock.bound = effect->estimate.bound_ns;
    mrd_text_set(node->clock.state, sizeof(node->clock.state), effect->estimate_state);
}
