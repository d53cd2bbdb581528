#include "agent/link/publish.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/conf/log.h"

#define TAG_HELLO     (1ull << 61)
#define TAG_HEARTBEAT (1ull << 60)
#define HELLO_RETRY   (2 * MRD_SEC)
#define REFUSED_RETRY (5 * MRD_SEC)
#define BEAT_DEFAULT  MRD_SEC
#define RETRY_DEFAULT (500 * MRD_MS)
/* A disk's error may pass. A frame that cannot be read for longer is given up, because it takes the
 * place of others in the window. */
#define UNREAD_RETRY MRD_SEC
#define UNREAD_MAX   (600 * MRD_SEC)

typedef struct {
    uint64_t id; /* of the spool's item. 0 means free */
    bool in_flight;
    mrd_local_ns again_at, sent;
    mrd_local_ns unread; /* when the spool first failed to read it. 0 means never */
} flight;

struct mrd_publish {
    mrd_publish_options o;
    flight flights[MRD_LINK_WINDOW_MAX];
    uint64_t cursor; /* items before this one were sent */
    bool urgent;     /* a hello or heartbeat is in flight */
    bool hello_due, beat_due;
    bool unread; /* the last read of the spool failed */
    mrd_local_ns hello_at, beat_at, urgent_sent;
    mrd_dur_ns beat_ns;
    mrd_buf frame;
    mrd_publish_stats stats;
};

mrd_err
mrd_publish_open(const mrd_publish_options *options, mrd_publish **ret_publish, mrd_why *why)
{
    mrd_publish *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "publisher");
    p->o = *options;
    p->beat_ns = BEAT_DEFAULT;
    *ret_publish = p;
    return MRD_OK;
}

void
mrd_publish_close(mrd_publish *p)
{
    if (p == NULL)
        return;
    mrd_buf_fini(&p->frame);
    free(p);
}

/* ---- Frames in flight ---- */

static flight *
flight_of(mrd_publish *p, uint64_t id)
{
    for (size_t i = 0; i < MRD_LINK_WINDOW_MAX; i++)
        if (p->flights[i].id == id)
            return &p->flights[i];
    return NULL;
}

static bool
item_of(const mrd_publish *p, uint64_t id, mrd_spool_item *ret_item)
{
    return mrd_spool_peek(p->o.spool, id, ret_item) && ret_item->id == id;
}

/* Schedules another read of a frame that the spool could not read, or gives the frame up if its file
 * is too short or the failure lasts. */
static void
not_read(mrd_publish *p, flight *f, mrd_local_ns now, const mrd_why *why)
{
    mrd_spool_item item;
    bool there;

    f->unread = f->unread.ns == 0 ? now : f->unread;
    if (why->err != MRD_TRUNCATED && mrd_local_diff(now, f->unread) < UNREAD_MAX) {
        if (!p->unread)
            mrd_log(MRD_LOG_WARN, "AGT-SPOOL-UNREAD",
                    "A batch cannot be read from the spool, it stays there and is tried again: "
                    "reason=%s",
                    why->text);
        p->unread = true;
        f->again_at = mrd_local_add(now, UNREAD_RETRY);
        return;
    }
    there = item_of(p, f->id, &item);
    (void) mrd_spool_done(p->o.spool, f->id, false);
    if (there)
        p->o.refused(p->o.self, &item, why->text);
    *f = (flight){ 0 };
}

/* Returns false if the connection takes no more frames. */
static bool
send_item(mrd_publish *p, flight *f, mrd_local_ns now)
{
    mrd_why why = { 0 };
    mrd_err err = mrd_spool_read(p->o.spool, f->id, &p->frame, &why);

    if (err == MRD_NOTFOUND) { /* dropped from the spool meanwhile */
        f->id = 0;
        return true;
    }
    if (err != MRD_OK) {
        not_read(p, f, now, &why);
        return true;
    }
    p->unread = false;
    f->unread.ns = 0;
    if (p->o.transport->submit(p->o.transport, f->id, (mrd_bytes){ p->frame.p, p->frame.len }) !=
        MRD_OK) {
        f->again_at = now;
        return false;
    }
    f->in_flight = true;
    mrd_spool_sent(p->o.spool, f->id);
    f->sent = now;
    p->stats.sent++;
    p->stats.bytes += p->frame.len;
    return true;
}

static void
pump(mrd_publish *p, mrd_local_ns now)
{
    for (size_t i = 0; i < MRD_LINK_WINDOW_MAX; i++) {
        flight *f = &p->flights[i];
        mrd_spool_item item;

        if (f->in_flight || mrd_local_before(now, f->again_at))
            continue;
        if (p->o.transport->free_slots(p->o.transport) == 0)
            return;
        if (f->id == 0) {
            if (!mrd_spool_peek(p->o.spool, p->cursor, &item))
                continue;
            *f = (flight){ .id = item.id };
            p->cursor = item.id + 1;
        }
        if (!send_item(p, f, now))
            return;
    }
}

static void
again(mrd_publish *p, flight *f, mrd_local_ns at)
{
    f->in_flight = false;
    f->again_at = at;
    p->stats.retried++;
}

static void
say_hello(mrd_publish *p)
{
    p->stats.welcome = false;
    p->hello_due = true;
}

static void
on_ack(mrd_publish *p, flight *f, const Mrd__Ack *ack, mrd_local_ns now)
{
    mrd_dur_ns wait = mrd_publish_wait(ack->retry_after_ms, RETRY_DEFAULT);
    mrd_spool_item item;
    bool there = item_of(p, f->id, &item);

    switch (ack->status) {
    case MRD__ACK_STATUS__ACK_STORED:
    case MRD__ACK_STATUS__ACK_DUPLICATE:
        p->stats.acked++;
        mrd_metrics_text_hist_add(&p->stats.ack, mrd_local_diff(now, f->sent));
        p->stats.slow = false;
        p->stats.message[0] = '\0';
        item.known = there && item.earlier && ack->status == MRD__ACK_STATUS__ACK_DUPLICATE;
        if (there && (item.known ? mrd_spool_done_before(p->o.spool, f->id)
                                 : mrd_spool_done(p->o.spool, f->id, true)))
            p->o.delivered(p->o.self, &item);
        *f = (flight){ 0 };
        return;
    case MRD__ACK_STATUS__ACK_REFUSED:
        p->stats.refused++;
        if (there && mrd_spool_done(p->o.spool, f->id, false))
            p->o.refused(p->o.self, &item, ack->message);
        *f = (flight){ 0 };
        return;
    case MRD__ACK_STATUS__ACK_HELLO_FIRST:
        say_hello(p);
        again(p, f, now);
        return;
    default: /* SLOW_DOWN, NOT_STORED, and unknown answers of a newer aggregator */
        if (!p->stats.slow)
            mrd_log(MRD_LOG_WARN, "AGT-NOT-STORED",
                    "The aggregator stores no batches now: reason=%s", ack->message);
        p->stats.slow = true;
        snprintf(p->stats.message, sizeof(p->stats.message), "%s", ack->message);
        again(p, f, mrd_local_add(now, wait));
    }
}

/* ---- Hello and heartbeats ---- */

static void
on_urgent(mrd_publish *p, uint64_t tag, const mrd_msg *msg, mrd_local_ns now, int64_t came)
{
    p->urgent = false;
    if (msg == NULL) {
        if (tag == TAG_HELLO)
            p->hello_at = mrd_local_add(now, HELLO_RETRY);
        return;
    }
    if (msg->frame.type == MRD_FRAME_WELCOME) {
        const Mrd__Welcome *w = msg->u.welcome;

        p->stats.welcome = true;
        p->stats.message[0] = '\0';
        p->hello_due = false;
        p->beat_due = true;
        if (w->heartbeat_ms >= 50 && w->heartbeat_ms <= 60000)
            p->beat_ns = w->heartbeat_ms * MRD_MS;
        p->o.welcome(p->o.self, w);
        for (size_t i = 0; i < w->n_directives; i++)
            p->o.directive(p->o.self, w->directives[i]);
        p->o.sessions_known(p->o.self);
    } else if (msg->frame.type == MRD_FRAME_REFUSE) {
        const Mrd__Refuse *no = msg->u.refuse;

        p->hello_due = true;
        p->hello_at = mrd_local_add(now, mrd_publish_wait(no->retry_after_ms, REFUSED_RETRY));
        snprintf(p->stats.message, sizeof(p->stats.message), "%s", no->message);
        mrd_log(no->final ? MRD_LOG_ERROR : MRD_LOG_WARN, "AGT-HELLO-REFUSED",
                "The aggregator refuses this agent: retry_ms=%lld reason=%s",
                (long long) (mrd_local_diff(p->hello_at, now) / MRD_MS), no->message);
    } else if (msg->frame.type == MRD_FRAME_ACK) {
        const Mrd__Ack *ack = msg->u.ack;

        if (ack->status == MRD__ACK_STATUS__ACK_HELLO_FIRST)
            say_hello(p);
        /* `now` may be older than the answer. A bound needs a time that is not before the arrival. */
        p->o.clock(p->o.self, p->urgent_sent, ack,
                   (mrd_local_ns){ came != 0 ? came : mrd_local_now().ns });
        for (size_t i = 0; i < ack->n_directives; i++)
            p->o.directive(p->o.self, ack->directives[i]);
        if (ack->status == MRD__ACK_STATUS__ACK_STORED)
            p->o.sessions_known(p->o.self);
    }
}

static void
send_urgent(mrd_publish *p, mrd_local_ns now)
{
    bool hello = p->hello_due && !mrd_local_before(now, p->hello_at);
    bool beat = p->stats.welcome && (p->beat_due || !mrd_local_before(now, p->beat_at));
    mrd_err err;

    if (p->urgent || !p->stats.up || (!hello && !beat))
        return;
    mrd_buf_reset(&p->frame);
    err = hello ? p->o.hello(p->o.self, &p->frame) : p->o.heartbeat(p->o.self, &p->frame);
    p->urgent_sent = mrd_local_now();
    if (err == MRD_OK)
        err = p->o.transport->submit_urgent(p->o.transport, hello ? TAG_HELLO : TAG_HEARTBEAT,
                                            (mrd_bytes){ p->frame.p, p->frame.len });
    if (hello) {
        p->hello_at = mrd_local_add(now, HELLO_RETRY);
        p->stats.hellos += err == MRD_OK;
    } else {
        p->beat_at = mrd_local_add(now, p->beat_ns);
        p->beat_due = false;
    }
    p->urgent = err == MRD_OK;
}

/* ---- Events of the transport ---- */

static void
on_reply(mrd_publish *p, const mrd_link_event *ev, mrd_local_ns now)
{
    flight *f = flight_of(p, ev->tag);
    bool failed = ev->kind == MRD_LINK_FAILED;
    mrd_msg msg = { 0 };

    if (!failed && mrd_msg_unpack(ev->data, &msg, NULL) != MRD_OK)
        failed = true; /* an unreadable answer counts as no answer */
    if (ev->tag == TAG_HELLO || ev->tag == TAG_HEARTBEAT) {
        on_urgent(p, ev->tag, failed ? NULL : &msg, now, ev->at.ns);
    } else if ((ev->tag & MRD_PUBLISH_FOREIGN) != 0) {
        if (!failed && msg.frame.type == MRD_FRAME_ACK &&
            msg.u.ack->status == MRD__ACK_STATUS__ACK_HELLO_FIRST) {
            say_hello(p);
            failed = true;
        }
        p->o.foreign(p->o.self, ev->tag, failed ? NULL : &msg);
    } else if (f != NULL && f->in_flight) {
        if (failed)
            again(p, f, now);
        else if (msg.frame.type == MRD_FRAME_ACK)
            on_ack(p, f, msg.u.ack, now);
        else
            again(p, f, mrd_local_add(now, RETRY_DEFAULT));
    }
    mrd_msg_free(&msg);
}

static void
on_control(mrd_publish *p, const mrd_link_event *ev)
{
    mrd_msg msg = { 0 };

    if (mrd_msg_unpack(ev->data, &msg, NULL) == MRD_OK && msg.frame.type == MRD_FRAME_CONTROL) {
        mrd_buf_reset(&p->frame);
        p->o.control(p->o.self, msg.u.control, &p->frame);
        if (p->frame.len > 0)
            (void) p->o.transport->answer(p->o.transport, ev->tag,
                                          (mrd_bytes){ p->frame.p, p->frame.len });
    }
    mrd_msg_free(&msg);
}

void
mrd_publish_step(mrd_publish *p, mrd_local_ns now)
{
    mrd_link_event ev;

    while (p->o.transport->next(p->o.transport, 0, &ev)) {
        switch (ev.kind) {
        case MRD_LINK_UP:
            p->stats.up = true;
            p->stats.reconnects++;
            p->hello_at = (mrd_local_ns){ 0 };
            say_hello(p);
            break;
        case MRD_LINK_DOWN:
            p->stats.up = p->stats.welcome = false;
            mrd_log(MRD_LOG_WARN, "AGT-DOWN",
                    "The connection to the aggregator was lost, batches wait in the spool: "
                    "reconnects=%llu",
                    (unsigned long long) p->stats.reconnects);
            break;
        case MRD_LINK_CONTROL:
            on_control(p, &ev);
            break;
        default:
            on_reply(p, &ev, mrd_local_now());
        }
        p->o.transport->done(p->o.transport, &ev);
    }
    send_urgent(p, now);
    if (p->stats.welcome)
        pump(p, now);
}

void
mrd_publish_heartbeat_now(mrd_publish *p)
{
    p->beat_due = true;
}

mrd_err
mrd_publish_foreign(mrd_publish *p, uint64_t tag, mrd_bytes frame)
{
    /* Events go first, so at least one slot is reserved for them. */
    if (!p->stats.welcome || p->o.transport->free_slots(p->o.transport) < 2)
        return MRD_AGAIN;
    return p->o.transport->submit(p->o.transport, tag | MRD_PUBLISH_FOREIGN, frame);
}

void
mrd_publish_get_stats(const mrd_publish *p, mrd_publish_stats *ret_stats)
{
    *ret_stats = p->stats;
}

mrd_local_ns
mrd_publish_next_ns(const mrd_publish *p)
{
    mrd_local_ns next = { INT64_MAX };
    bool sends = p->stats.welcome && p->o.transport->free_slots(p->o.transport) > 0;

    if (!p->stats.up)
        return next;
    if (!p->urgent && p->hello_due)
        next = p->hello_at;
    else if (!p->urgent && p->stats.welcome)
        next = p->beat_at;
    /* Without a free slot an answer must arrive first, which wakes the loop. */
    for (size_t i = 0; sends && i < MRD_LINK_WINDOW_MAX; i++)
        if (p->flights[i].id != 0 && !p->flights[i].in_flight &&
            mrd_local_before(p->flights[i].again_at, next))
            next = p->flights[i].again_at;
    return next;
}
