/* Handles the frames that nodes send: finds the sender, accepts or refuses the frame, and
 * acknowledges it when it is durable. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"

static void
ack(mrd_core *core, uint64_t ticket, Mrd__AckStatus status, mrd_err err, const char *text,
    uint32_t retry_ms)
{
    mrd_effect *effect = mrd_effects_add(&core->out, MRD_DO_ACK);

    effect->ticket = ticket;
    effect->status = status;
    effect->err = err;
    effect->retry_ms = retry_ms;
    mrd_text_set(effect->text, sizeof(effect->text), text);
}

static void
refuse(mrd_core *core, uint64_t ticket, mrd_err err, const char *text)
{
    core->stats.refused++;
    mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-FRAME-REFUSED", "A frame was refused: reason=%s",
                    text);
    ack(core, ticket, MRD__ACK_STATUS__ACK_REFUSED, err, text, 0);
}

void
mrd_core_refuse_frame(mrd_core *core, mrd_core_time now, uint64_t ticket, const mrd_why *why)
{
    mrd_core_enter(core, now);
    refuse(core, ticket, why->err, why->text);
}

void
mrd_core_bad_frame(mrd_core *core, mrd_core_time now, uint64_t ticket, const mrd_why *why)
{
    mrd_core_enter(core, now);
    core->stats.bad_frames++;
    refuse(core, ticket, why->err, why->text);
}

bool
mrd_core_sender(mrd_core *core, mrd_core_time now, uint64_t ticket, uint32_t conn,
                const mrd_frame *frame, mrd_node **ret_node)
{
    mrd_node *node;

    mrd_core_enter(core, now);
    node = mrd_nodes_by_conn(&core->nodes, conn);
    if (node != NULL && node->proof_epoch != core->proof_epoch && frame->type != MRD_FRAME_HELLO)
        /* Tokens or certificate authorities have changed, so the node must authenticate again
         * first. */
        node = NULL;
    if (node == NULL && frame->type != MRD_FRAME_HELLO && frame->type != MRD_FRAME_PROBE) {
        ack(core, ticket, MRD__ACK_STATUS__ACK_HELLO_FIRST, MRD_STATE, "say hello first", 0);
        return false;
    }
    if (node != NULL && frame->type != MRD_FRAME_HELLO && frame->agent != node->key) {
        refuse(core, ticket, MRD_DENIED,
               "the frame names an agent other than the one of this connection");
        return false;
    }
    if (node != NULL) {
        node->seen = now.local;
        node->seen_wall = now.wall;
        node->forget = false;
    }
    *ret_node = node;
    return true;
}

/* ---- Limits of rate and disk ---- */

static void
limited(mrd_core *core, mrd_node *node, mrd_limit_kind kind)
{
    if (node->limited_by != kind || core->now.local.ns - node->limited_at.ns > 60 * MRD_SEC)
        mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-LIMIT",
                        "An agent is held back by a limit: node=%s limit=%s", node->instance_id,
                        mrd_limit_text(kind));
    core->stats.limited[kind]++;
    node->slowed++;
    node->limited_by = kind;
    node->limited_at = core->now.local;
}

void
mrd_core_limited(mrd_core *core, mrd_core_time now, mrd_node *node, mrd_limit_kind kind)
{
    mrd_core_enter(core, now);
    limited(core, node, kind);
}

/* Takes `bytes` tokens from the rate limits --advanced.agent-rate and --advanced.total-rate.
 * Returns 0, or how many ms the agent has to wait. The limits are for all stored data: events,
 * clock data and artifacts. */
static uint32_t
rate_wait(mrd_core *core, mrd_node *node, size_t bytes)
{
    mrd_limit_kind kind = MRD_LIMIT_AGENT_RATE;
    uint32_t ms = mrd_bucket_take(&node->bucket, core->limits.agent_rate, core->now.local, bytes);

    if (ms == 0) {
        kind = MRD_LIMIT_TOTAL_RATE;
        ms = mrd_bucket_take(&core->bucket, core->limits.total_rate, core->now.local, bytes);
        if (ms > 0 && core->limits.agent_rate > 0)
            /* return the tokens, because the refused frame will be sent again */
            node->bucket.bytes += (int64_t) bytes;
    }
    if (ms > 0) {
        core->stats.slowed++;
        limited(core, node, kind);
    }
    return ms;
}

uint32_t
mrd_core_rate_wait(mrd_core *core, mrd_core_time now, mrd_node *node, size_t bytes)
{
    mrd_core_enter(core, now);
    return rate_wait(core, node, bytes);
}

/* Returns true if this frame may use the reserved disk space (disk_reserve). Only clock data may
 * use it, up to `clock_spare` bytes. Clock data is small, and without it the session's times would
 * have no error bounds. Writing still fails if the disk has no space at all. */
static bool
is_spared(mrd_core *core, const mrd_frame *frame, size_t len)
{
    if (frame->type != MRD_FRAME_CLOCK_DATA || (int64_t) len > core->clock_spare)
        return false;
    core->clock_spare -= (int64_t) len;
    return true;
}

/* ---- Numbered frames: batches and clock data ---- */

/* Returns the frame with the same number that is being written to disk. NULL if there is none. */
static const mrd_pending *
same_pending(const mrd_core *core, const mrd_part *part, const mrd_frame *frame)
{
    for (unsigned i = 0; i < core->n_pending; i++) {
        const mrd_pending *pending = &core->pending[i];

        if (pending->part == part && pending->frame.epoch == frame->epoch &&
            pending->frame.seq == frame->seq && pending->first == pending->ticket)
            return pending;
    }
    return NULL;
}

static void
not_stored(mrd_core *core, uint64_t ticket, const mrd_why *why)
{
    core->stats.not_stored++;
    if (why->err == MRD_FULL && !core->disk_full) {
        mrd_core_disk_is(core, true);
        core->disk_refused = true;
        snprintf(core->disk_message, sizeof(core->disk_message),
                 "the store is full: delete sessions or enlarge it (%.180s)", why->text);
        mrd_effects_log(&core->out, MRD_LOG_ERROR, "AGG-DISK-FULL",
                        "The disk is full, nothing is acknowledged until there is room: reason=%s",
                        why->text);
    }
    ack(core, ticket, MRD__ACK_STATUS__ACK_NOT_STORED, why->err, why->text, 1000);
}

/* Returns the node's part in the session, and adds it if `part` is NULL. `session` is the session
 * that the frame names; NULL if it is unknown. If the frame cannot be accepted, answers it and
 * returns NULL. */
static mrd_part *
part_for(mrd_core *core, uint64_t ticket, mrd_node *node, const mrd_frame *frame,
         mrd_session *session, mrd_part *part)
{
    if (session == NULL || !mrd_session_is_open(session)) {
        const char *withheld = mrd_core_withheld(core, frame->session);
        char text[160], id[MRD_SESSION_TEXT];

        mrd_session_id_text(frame->session, id);
        if (session == NULL && withheld != NULL) {
            snprintf(text, sizeof(text), "session %s cannot be read now: %.100s", id, withheld);
            ack(core, ticket, MRD__ACK_STATUS__ACK_NOT_STORED, MRD_AGAIN, text, 1000);
            return NULL;
        }
        snprintf(text, sizeof(text), "session %s %s", id,
                 session == NULL ? "is not known here (it may have been deleted)"
                                 : "is closed and accepts no more events");
        refuse(core, ticket, session == NULL ? MRD_NOTFOUND : MRD_STATE, text);
        return NULL;
    }
    if (part == NULL && (part = mrd_core_add_part(core, session, node)) == NULL)
        mrd_effects_add(&core->out, MRD_DO_DROP)->ticket = ticket;
    return part;
}

/* Returns true if this frame may be written to a full disk, to find out whether the disk has space
 * again. Only one frame at a time is written for this test. */
static bool
may_try(const mrd_core *core, const mrd_frame *frame)
{
    return core->disk_try && frame->type == MRD_FRAME_BATCH;
}

/* Checks whether the limits and the disk allow to store the frame. Otherwise answers the frame with
 * the reason and returns false. */
static bool
admit(mrd_core *core, uint64_t ticket, mrd_node *node, const mrd_part *part, const mrd_frame *frame,
      size_t len)
{
    char text[MRD_TEXT_MAX];
    mrd_why why = { 0 };
    uint32_t wait_ms = rate_wait(core, node, len);

    if (wait_ms > 0) {
        ack(core, ticket, MRD__ACK_STATUS__ACK_SLOW_DOWN, MRD_LIMIT, "the rate limit is reached",
            wait_ms);
        return false;
    }
    if (core->store_gone ||
        (core->disk_full && !may_try(core, frame) && !is_spared(core, frame, len))) {
        (void) mrd_core_store_check(core, &why);
        limited(core, node, MRD_LIMIT_DISK);
        not_stored(core, ticket, &why);
        return false;
    }
    if (core->limits.node_gaps > 0 && node->gaps >= (uint64_t) core->limits.node_gaps &&
        mrd_part_adds_gap(part, frame)) {
        limited(core, node, MRD_LIMIT_GAPS);
        snprintf(text, sizeof(text),
                 "the numbers of node %s's frames have %llu gaps in all sessions, which is the "
                 "limit (--advanced.node-gaps)",
                 node->instance_id, (unsigned long long) node->gaps);
        refuse(core, ticket, MRD_LIMIT, text);
        return false;
    }
    if (mrd_part_may_store(part, frame) == MRD_OK)
        return true;
    /* This frame can never be stored, so the refusal is final. Otherwise the agent would repeat it
     * for ever, and never send the frames after it. */
    limited(core, node, MRD_LIMIT_EPOCHS);
    snprintf(text, sizeof(text),
             "node %s began more than %d epochs in one session, or left more gaps than "
             "--advanced.node-gaps",
             part->instance_id, MRD_EPOCHS_MAX);
    refuse(core, ticket, MRD_LIMIT, text);
    return false;
}

static void
check_causality(mrd_core *core, mrd_node *node, mrd_part *part, const mrd_frame *frame,
                mrd_local_ns received)
{
    bool violated;

    if (frame->type != MRD_FRAME_BATCH || frame->clock != MRD__CLOCK_KIND__CLOCK_RAW ||
        !mrd_node_check_causality(node, &core->timescale, &part->causality,
                                  (mrd_local_ns){ frame->last.ns }, received, false, &violated))
        return;
    core->stats.clock_frames++;
    core->stats.clock_frame_violations += violated;
}

/* Handles a frame from a node that had already reported that all its events are sent (flushed). An
 * agent that restarts may forget this and send frames again. The session then waits until the agent
 * reports again that it is flushed, or until the node is lost. */
static void
begins_again(mrd_session *session, mrd_part *part, const mrd_frame *frame)
{
    if (part->state != MRD_PART_FLUSHED || frame->type != MRD_FRAME_BATCH)
        return;
    part->state = MRD_PART_STOPPING;
    mrd_session_touch(session);
}

void
mrd_core_numbered(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_node *node,
                  const mrd_frame *frame, size_t len, mrd_local_ns received)
{
    mrd_session *session = mrd_core_session(core, frame->session);
    mrd_part *part = session == NULL ? NULL : mrd_session_part(session, node->instance_id);
    const mrd_pending *same;
    mrd_pending *pending;
    mrd_effect *effect;

    mrd_core_enter(core, now);
    /* A frame that is stored already is acknowledged again, even if its session is closed. The
     * agent sent it again because the first acknowledgement was lost. Without an acknowledgement,
     * the agent would count the frame as lost. */
    if (part != NULL && mrd_part_has(part, frame)) {
        core->stats.duplicates++;
        ack(core, ticket, MRD__ACK_STATUS__ACK_DUPLICATE, MRD_OK, "", 0);
        return;
    }
    if ((part = part_for(core, ticket, node, frame, session, part)) == NULL)
        return;
    /* Too many frames wait for the disk. This frame gets no answer, so the agent sends it again
     * later. */
    if (core->n_pending == MRD_PENDING_MAX) {
        mrd_effects_add(&core->out, MRD_DO_DROP)->ticket = ticket;
        return;
    }
    same = same_pending(core, part, frame);
    if (same == NULL && !admit(core, ticket, node, part, frame, len))
        return;
    pending = &core->pending[core->n_pending++];
    *pending = (mrd_pending){ .ticket = ticket,
                              .first = same == NULL ? ticket : same->ticket,
                              .session = session,
                              .part = part,
                              .node = node,
                              .frame = *frame };
    if (same != NULL)
        /* no answer now; it is answered together with the pending frame of the same number */
        return;
    if (core->disk_full && may_try(core, frame)) {
        core->disk_try = false;
        core->disk_trial = ticket;
    }
    begins_again(session, part, frame);
    check_causality(core, node, part, frame, received);
    effect = mrd_effects_add(&core->out, MRD_DO_APPEND);
    effect->ticket = ticket;
    effect->session = session;
    effect->part = part;
    effect->node = node;
    effect->frame = *frame;
}

/* Marks the session as unable to store frames, because the disk fails or the session's directory
 * was removed. /readyz and the session report this until a frame is written again. */
static void
unstored(mrd_core *core, mrd_session *session, const mrd_why *why)
{
    if (session->unstored[0] != '\0')
        return;
    mrd_effects_log(
        &core->out, MRD_LOG_ERROR, "AGG-NOT-STORED",
        "Events of a session cannot be stored and are not acknowledged: session=%s reason=%s",
        session->text, why->text);
    mrd_text_set(session->unstored, sizeof(session->unstored), why->text);
    mrd_session_touch(session);
}

static void
stored_again(mrd_core *core, mrd_session *session)
{
    if (session->unstored[0] == '\0')
        return;
    mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-STORED-AGAIN",
                    "Events of a session are stored again: session=%s", session->text);
    session->unstored[0] = '\0';
}

/* Completes a frame that was pending: counts and acknowledges it if it was stored, otherwise
 * answers why not. */
static void
complete(mrd_core *core, mrd_pending *pending, mrd_why *why)
{
    uint64_t gaps = mrd_part_gaps(pending->part);

    if (why->err == MRD_OK && mrd_part_stored(pending->part, &pending->frame) != MRD_OK)
        mrd_why_set(why, MRD_LIMIT, 0, "node %s leaves more gaps than --advanced.node-gaps allows",
                    pending->part->instance_id);
    /* updates the node's number of gaps; it may have grown, shrunk or stayed the same */
    pending->node->gaps += mrd_part_gaps(pending->part) - gaps;
    if (why->err != MRD_OK)
        return;
    stored_again(core, pending->session);
    pending->part->in_journal = true;
    pending->node->frames++;
    core->registry.changed = core->registry.changed || !pending->node->has_sent;
    pending->node->has_sent = true;
    pending->node->bytes += MRD_FRAME_HEADER + pending->frame.body_len;
    pending->node->events += pending->frame.events;
    core->stats.frames++;
    core->stats.bytes += MRD_FRAME_HEADER + pending->frame.body_len;
    core->stats.events += pending->frame.events;
    mrd_session_touch(pending->session);
    ack(core, pending->ticket, MRD__ACK_STATUS__ACK_STORED, MRD_OK, "", 0);
}

static void
report_failure(mrd_core *core, const mrd_pending *pending, const mrd_why *why)
{
    if (why->err == MRD_IO)
        unstored(core, pending->session, why);
    if (why->err == MRD_FULL || why->err == MRD_IO || why->err == MRD_NOMEM ||
        why->err == MRD_LIMIT || why->err == MRD_CLOSED)
        not_stored(core, pending->ticket, why);
    else
        refuse(core, pending->ticket, why->err, why->text);
}

void
mrd_core_stored(mrd_core *core, mrd_core_time now, uint64_t ticket, const mrd_why *failed)
{
    mrd_why why = { 0 };
    unsigned kept = 0;

    if (failed != NULL)
        why = *failed;
    mrd_core_enter(core, now);
    /* completes the frame and its duplicates, which come later in the list */
    for (unsigned i = 0; i < core->n_pending; i++) {
        mrd_pending *pending = &core->pending[i];

        if (pending->first != ticket) {
            core->pending[kept++] = *pending;
            continue;
        }
        if (pending->ticket == ticket)
            complete(core, pending, &why);
        if (why.err != MRD_OK)
            report_failure(core, pending, &why);
        else if (pending->ticket != ticket) {
            core->stats.duplicates++;
            ack(core, pending->ticket, MRD__ACK_STATUS__ACK_DUPLICATE, MRD_OK, "", 0);
        }
    }
    core->n_pending = kept;
    if (ticket == core->disk_trial && failed == NULL && core->disk_refused)
        mrd_core_disk_has_room(core);
}
