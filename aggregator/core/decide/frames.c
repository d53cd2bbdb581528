/* Frames of nodes: their sender, whether they are accepted, and the answer when they are durable. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"

static void
ack(mrd_core *c, uint64_t ticket, Mrd__AckStatus status, mrd_err err, const char *text,
    uint32_t retry_ms)
{
    mrd_effect *e = mrd_effects_add(&c->out, MRD_DO_ACK);

    e->ticket = ticket;
    e->status = status;
    e->err = err;
    e->retry_ms = retry_ms;
    mrd_text_set(e->text, sizeof(e->text), text);
}

static void
refuse(mrd_core *c, uint64_t ticket, mrd_err err, const char *text)
{
    c->stats.refused++;
    mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-FRAME-REFUSED", "A frame was refused: reason=%s",
                    text);
    ack(c, ticket, MRD__ACK_STATUS__ACK_REFUSED, err, text, 0);
}

void
mrd_core_refuse_frame(mrd_core *c, mrd_core_time now, uint64_t ticket, const mrd_why *why)
{
    mrd_core_enter(c, now);
    refuse(c, ticket, why->err, why->text);
}

void
mrd_core_bad_frame(mrd_core *c, mrd_core_time now, uint64_t ticket, const mrd_why *why)
{
    mrd_core_enter(c, now);
    c->stats.bad_frames++;
    refuse(c, ticket, why->err, why->text);
}

bool
mrd_core_sender(mrd_core *c, mrd_core_time now, uint64_t ticket, uint32_t conn, const mrd_frame *f,
                mrd_node **ret_node)
{
    mrd_node *n;

    mrd_core_enter(c, now);
    n = mrd_nodes_by_conn(&c->nodes, conn);
    if (n != NULL && n->proof_epoch != c->proof_epoch && f->type != MRD_FRAME_HELLO)
        n = NULL; /* the node must authenticate again before other frames are accepted */
    if (n == NULL && f->type != MRD_FRAME_HELLO && f->type != MRD_FRAME_PROBE) {
        ack(c, ticket, MRD__ACK_STATUS__ACK_HELLO_FIRST, MRD_STATE, "say hello first", 0);
        return false;
    }
    if (n != NULL && f->type != MRD_FRAME_HELLO && f->agent != n->key) {
        refuse(c, ticket, MRD_DENIED,
               "the frame names an agent other than the one of this connection");
        return false;
    }
    if (n != NULL) {
        n->seen = now.local;
        n->seen_wall = now.wall;
        n->forget = false;
    }
    *ret_node = n;
    return true;
}

/* ---- Limits ---- */

static void
limited(mrd_core *c, mrd_node *n, mrd_limit_kind kind)
{
    if (n->limited_by != kind || c->now.local.ns - n->limited_at.ns > 60 * MRD_SEC)
        mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-LIMIT",
                        "An agent is held back by a limit: node=%s limit=%s", n->instance_id,
                        mrd_limit_text(kind));
    c->stats.limited[kind]++;
    n->slowed++;
    n->limited_by = kind;
    n->limited_at = c->now.local;
}

void
mrd_core_limited(mrd_core *c, mrd_core_time now, mrd_node *n, mrd_limit_kind kind)
{
    mrd_core_enter(c, now);
    limited(c, n, kind);
}

/* Both limits apply to stored data: events, clock data and artifacts. */
static uint32_t
rate_wait(mrd_core *c, mrd_node *n, size_t bytes)
{
    mrd_limit_kind kind = MRD_LIMIT_AGENT_RATE;
    uint32_t ms = mrd_bucket_take(&n->bucket, c->limits.agent_rate, c->now.local, bytes);

    if (ms == 0) {
        kind = MRD_LIMIT_TOTAL_RATE;
        ms = mrd_bucket_take(&c->bucket, c->limits.total_rate, c->now.local, bytes);
        if (ms > 0 && c->limits.agent_rate > 0)
            n->bucket.bytes += (int64_t) bytes; /* the frame is refused and will be sent again */
    }
    if (ms > 0) {
        c->stats.slowed++;
        limited(c, n, kind);
    }
    return ms;
}

uint32_t
mrd_core_rate_wait(mrd_core *c, mrd_core_time now, mrd_node *n, size_t bytes)
{
    mrd_core_enter(c, now);
    return rate_wait(c, n, bytes);
}

/* Clock data may use a part of the disk's reserve, because it is small, and without it the events
 * of the whole session lose their bound. A disk that is really full refuses the write. */
static bool
is_spared(mrd_core *c, const mrd_frame *f, size_t len)
{
    if (f->type != MRD_FRAME_CLOCK_DATA || (int64_t) len > c->clock_spare)
        return false;
    c->clock_spare -= (int64_t) len;
    return true;
}

/* ---- Numbered frames ---- */

/* Returns the pending entry of the same frame, NULL if there is none. */
static const mrd_pending *
same_pending(const mrd_core *c, const mrd_part *p, const mrd_frame *f)
{
    for (unsigned i = 0; i < c->n_pending; i++) {
        const mrd_pending *w = &c->pending[i];

        if (w->part == p && w->frame.epoch == f->epoch && w->frame.seq == f->seq &&
            w->first == w->ticket)
            return w;
    }
    return NULL;
}

static void
not_stored(mrd_core *c, uint64_t ticket, const mrd_why *why)
{
    c->stats.not_stored++;
    if (why->err == MRD_FULL && !c->disk_full) {
        mrd_core_disk_is(c, true);
        c->disk_refused = true;
        snprintf(c->disk_message, sizeof(c->disk_message),
                 "the store is full: delete sessions or enlarge it (%.180s)", why->text);
        mrd_effects_log(&c->out, MRD_LOG_ERROR, "AGG-DISK-FULL",
                        "The disk is full, nothing is acknowledged until there is room: reason=%s",
                        why->text);
    }
    ack(c, ticket, MRD__ACK_STATUS__ACK_NOT_STORED, why->err, why->text, 1000);
}

/* Returns the part of a numbered frame in session `s` (may be NULL): `p` or a new part. Returns
 * NULL if the frame was already answered. */
static mrd_part *
part_for(mrd_core *c, uint64_t ticket, mrd_node *n, const mrd_frame *f, mrd_session *s, mrd_part *p)
{
    if (s == NULL || !mrd_session_is_open(s)) {
        const char *withheld = mrd_core_withheld(c, f->session);
        char text[160], id[MRD_SESSION_TEXT];

        mrd_session_id_text(f->session, id);
        if (s == NULL && withheld != NULL) {
            snprintf(text, sizeof(text), "session %s cannot be read now: %.100s", id, withheld);
            ack(c, ticket, MRD__ACK_STATUS__ACK_NOT_STORED, MRD_AGAIN, text, 1000);
            return NULL;
        }
        snprintf(text, sizeof(text), "session %s %s", id,
                 s == NULL ? "is not known here (it may have been deleted)"
                           : "is closed and accepts no more events");
        refuse(c, ticket, s == NULL ? MRD_NOTFOUND : MRD_STATE, text);
        return NULL;
    }
    if (p == NULL && (p = mrd_core_add_part(c, s, n)) == NULL)
        mrd_effects_add(&c->out, MRD_DO_DROP)->ticket = ticket;
    return p;
}

/* Only one frame at a time tests whether a disk that refused a frame accepts frames again. */
static bool
may_try(const mrd_core *c, const mrd_frame *f)
{
    return c->disk_try && f->type == MRD_FRAME_BATCH;
}

/* Returns false if the frame was answered because it cannot be accepted now. */
static bool
admit(mrd_core *c, uint64_t ticket, mrd_node *n, const mrd_part *p, const mrd_frame *f, size_t len)
{
    char text[MRD_TEXT_MAX];
    mrd_why why = { 0 };
    uint32_t wait_ms = rate_wait(c, n, len);

    if (wait_ms > 0) {
        ack(c, ticket, MRD__ACK_STATUS__ACK_SLOW_DOWN, MRD_LIMIT, "the rate limit is reached",
            wait_ms);
        return false;
    }
    if (c->store_gone || (c->disk_full && !may_try(c, f) && !is_spared(c, f, len))) {
        (void) mrd_core_store_check(c, &why);
        limited(c, n, MRD_LIMIT_DISK);
        not_stored(c, ticket, &why);
        return false;
    }
    if (c->limits.node_gaps > 0 && n->gaps >= (uint64_t) c->limits.node_gaps &&
        mrd_part_adds_gap(p, f)) {
        limited(c, n, MRD_LIMIT_GAPS);
        snprintf(text, sizeof(text),
                 "the numbers of node %s's frames have %llu gaps in all sessions, which is the "
                 "limit (--advanced.node-gaps)",
                 n->instance_id, (unsigned long long) n->gaps);
        refuse(c, ticket, MRD_LIMIT, text);
        return false;
    }
    if (mrd_part_may_store(p, f) == MRD_OK)
        return true;
    /* A frame that can never be stored is refused at once. If the agent repeated it, it would block
     * the frames after it. */
    limited(c, n, MRD_LIMIT_EPOCHS);
    snprintf(text, sizeof(text),
             "node %s began more than %d epochs in one session, or left more gaps than "
             "--advanced.node-gaps",
             p->instance_id, MRD_EPOCHS_MAX);
    refuse(c, ticket, MRD_LIMIT, text);
    return false;
}

static void
check_causality(mrd_core *c, mrd_node *n, mrd_part *p, const mrd_frame *f, mrd_local_ns received)
{
    bool violated;

    if (f->type != MRD_FRAME_BATCH || f->clock != MRD__CLOCK_KIND__CLOCK_RAW ||
        !mrd_node_check_causality(n, &c->timescale, &p->causality, (mrd_local_ns){ f->last.ns },
                                  received, false, &violated))
        return;
    c->stats.clock_frames++;
    c->stats.clock_frame_violations += violated;
}

/* A flushed node has reported its last counts. Its successor may not know that, because the
 * predecessor could not save it. It then continues to record and to send, so those counts are not
 * the last ones. The session waits for new counts, or until the node is lost. */
static void
begins_again(mrd_session *s, mrd_part *p, const mrd_frame *f)
{
    if (p->state != MRD_PART_FLUSHED || f->type != MRD_FRAME_BATCH)
        return;
    p->state = MRD_PART_STOPPING;
    mrd_session_touch(s);
}

void
mrd_core_numbered(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_node *n, const mrd_frame *f,
                  size_t len, mrd_local_ns received)
{
    mrd_session *s = mrd_core_session(c, f->session);
    mrd_part *p = s == NULL ? NULL : mrd_session_part(s, n->instance_id);
    const mrd_pending *same;
    mrd_pending *w;
    mrd_effect *e;

    mrd_core_enter(c, now);
    /* Checked also for a closed session. Its answer was lost, and the agent must not count the
     * frame as lost as well. */
    if (p != NULL && mrd_part_has(p, f)) {
        c->stats.duplicates++;
        ack(c, ticket, MRD__ACK_STATUS__ACK_DUPLICATE, MRD_OK, "", 0);
        return;
    }
    if ((p = part_for(c, ticket, n, f, s, p)) == NULL)
        return;
    /* more frames than the link may have pending; it will be sent again */
    if (c->n_pending == MRD_PENDING_MAX) {
        mrd_effects_add(&c->out, MRD_DO_DROP)->ticket = ticket;
        return;
    }
    same = same_pending(c, p, f);
    if (same == NULL && !admit(c, ticket, n, p, f, len))
        return;
    w = &c->pending[c->n_pending++];
    *w = (mrd_pending){ .ticket = ticket,
                        .first = same == NULL ? ticket : same->ticket,
                        .session = s,
                        .part = p,
                        .node = n,
                        .frame = *f };
    if (same != NULL)
        return; /* answered together with the frame that it repeats */
    if (c->disk_full && may_try(c, f)) {
        c->disk_try = false;
        c->disk_trial = ticket;
    }
    begins_again(s, p, f);
    check_causality(c, n, p, f, received);
    e = mrd_effects_add(&c->out, MRD_DO_APPEND);
    e->ticket = ticket;
    e->session = s;
    e->part = p;
    e->node = n;
    e->frame = *f;
}

/* A disk that fails, or a removed directory: /readyz and the session report it until one of its
 * frames can be written again. */
static void
unstored(mrd_core *c, mrd_session *s, const mrd_why *why)
{
    if (s->unstored[0] != '\0')
        return;
    mrd_effects_log(
        &c->out, MRD_LOG_ERROR, "AGG-NOT-STORED",
        "Events of a session cannot be stored and are not acknowledged: session=%s reason=%s",
        s->text, why->text);
    mrd_text_set(s->unstored, sizeof(s->unstored), why->text);
    mrd_session_touch(s);
}

static void
stored_again(mrd_core *c, mrd_session *s)
{
    if (s->unstored[0] == '\0')
        return;
    mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-STORED-AGAIN",
                    "Events of a session are stored again: session=%s", s->text);
    s->unstored[0] = '\0';
}

/* Counts and acknowledges the frame, or answers why it was not stored. */
static void
complete(mrd_core *c, mrd_pending *w, mrd_why *why)
{
    uint64_t gaps = mrd_part_gaps(w->part);

    if (why->err == MRD_OK && mrd_part_stored(w->part, &w->frame) != MRD_OK)
        mrd_why_set(why, MRD_LIMIT, 0, "node %s leaves more gaps than --advanced.node-gaps allows",
                    w->part->instance_id);
    /* the frame can add a gap, close one, or neither */
    w->node->gaps += mrd_part_gaps(w->part) - gaps;
    if (why->err != MRD_OK)
        return;
    stored_again(c, w->session);
    w->part->in_journal = true;
    w->node->frames++;
    c->registry.changed = c->registry.changed || !w->node->has_sent;
    w->node->has_sent = true;
    w->node->bytes += MRD_FRAME_HEADER + w->frame.body_len;
    w->node->events += w->frame.events;
    c->stats.frames++;
    c->stats.bytes += MRD_FRAME_HEADER + w->frame.body_len;
    c->stats.events += w->frame.events;
    mrd_session_touch(w->session);
    ack(c, w->ticket, MRD__ACK_STATUS__ACK_STORED, MRD_OK, "", 0);
}

static void
report_failure(mrd_core *c, const mrd_pending *w, const mrd_why *why)
{
    if (why->err == MRD_IO)
        unstored(c, w->session, why);
    if (why->err == MRD_FULL || why->err == MRD_IO || why->err == MRD_NOMEM ||
        why->err == MRD_LIMIT || why->err == MRD_CLOSED)
        not_stored(c, w->ticket, why);
    else
        refuse(c, w->ticket, why->err, why->text);
}

void
mrd_core_stored(mrd_core *c, mrd_core_time now, uint64_t ticket, const mrd_why *failed)
{
    mrd_why why = { 0 };
    unsigned kept = 0;

    if (failed != NULL)
        why = *failed;
    mrd_core_enter(c, now);
    /* the first entry of a frame comes before its repetitions */
    for (unsigned i = 0; i < c->n_pending; i++) {
        mrd_pending *w = &c->pending[i];

        if (w->first != ticket) {
            c->pending[kept++] = *w;
            continue;
        }
        if (w->ticket == ticket)
            complete(c, w, &why);
        if (why.err != MRD_OK)
            report_failure(c, w, &why);
        else if (w->ticket != ticket) {
            c->stats.duplicates++;
            ack(c, w->ticket, MRD__ACK_STATUS__ACK_DUPLICATE, MRD_OK, "", 0);
        }
    }
    c->n_pending = kept;
    if (ticket == c->disk_trial && failed == NULL && c->disk_refused)
        mrd_core_disk_has_room(c);
}
