#include "agent/link/publish.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/conf/agent_waits.h"
#include "base/conf/log.h"

#define TAG_HELLO     (1ull << 61)
#define TAG_HEARTBEAT (1ull << 60)

typedef struct {
    uint64_t id; /* id of the frame in the spool; 0 means that this slot is free */
    bool in_flight;
    mrd_local_ns again_at, sent;
    mrd_local_ns unread; /* when the spool first failed to read the frame; 0 means never */
} flight;

struct mrd_publish {
    mrd_publish_options o;
    flight flights[MRD_LINK_WINDOW_MAX];
    uint64_t cursor; /* id of the first frame in the spool that was not yet put into `flights` */
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
    mrd_publish *publish = calloc(1, sizeof(*publish));

    if (publish == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "publisher");
    publish->o = *options;
    publish->beat_ns = MRD_WAIT_HEARTBEAT;
    *ret_publish = publish;
    return MRD_OK;
}

void
mrd_publish_close(mrd_publish *publish)
{
    if (publish == NULL)
        return;
    mrd_buf_fini(&publish->frame);
    free(publish);
}

/* ---- Frames in flight ---- */

static flight *
flight_of(mrd_publish *publish, uint64_t id)
{
    for (size_t i = 0; i < MRD_LINK_WINDOW_MAX; i++)
        if (publish->flights[i].id == id)
            return &publish->flights[i];
    return NULL;
}

static bool
item_of(const mrd_publish *publish, uint64_t id, mrd_spool_item *ret_item)
{
    return mrd_spool_peek(publish->o.spool, id, ret_item) && ret_item->id == id;
}

/* Handles a frame that the spool could not read. Schedules another attempt. If the file is too
 * short, or the failure lasts for MRD_WAIT_UNREAD_MAX, drops the frame. */
static void
not_read(mrd_publish *publish, flight *f, mrd_local_ns now, const mrd_why *why)
{
    mrd_spool_item item;
    bool there;

    f->unread = f->unread.ns == 0 ? now : f->unread;
    if (why->err != MRD_TRUNCATED && mrd_local_diff(now, f->unread) < MRD_WAIT_UNREAD_MAX) {
        if (!publish->unread)
            mrd_log(MRD_LOG_WARN, "AGT-SPOOL-UNREAD",
                    "A batch cannot be read from the spool, it stays there and is tried again: "
                    "reason=%s",
                    why->text);
        publish->unread = true;
        f->again_at = mrd_local_add(now, MRD_WAIT_UNREAD);
        return;
    }
    there = item_of(publish, f->id, &item);
    (void) mrd_spool_done(publish->o.spool, f->id, false);
    if (there)
        publish->o.refused(publish->o.self, &item, why->text);
    *f = (flight){ 0 };
}

/* Sends one frame of the spool, in the slot `f`. Returns false if the connection accepts no more
 * frames. */
static bool
send_item(mrd_publish *publish, flight *f, mrd_local_ns now)
{
    mrd_why why = { 0 };
    mrd_err err = mrd_spool_read(publish->o.spool, f->id, &publish->frame, &why);

    if (err == MRD_NOTFOUND) { /* the spool dropped the frame meanwhile */
        f->id = 0;
        return true;
    }
    if (err != MRD_OK) {
        not_read(publish, f, now, &why);
        return true;
    }
    publish->unread = false;
    f->unread.ns = 0;
    if (publish->o.transport->submit(publish->o.transport, f->id,
                                     (mrd_bytes){ publish->frame.p, publish->frame.len }) !=
        MRD_OK) {
        f->again_at = now;
        return false;
    }
    f->in_flight = true;
    mrd_spool_sent(publish->o.spool, f->id);
    f->sent = now;
    publish->stats.sent++;
    publish->stats.bytes += publish->frame.len;
    return true;
}

static void
pump(mrd_publish *publish, mrd_local_ns now)
{
    for (size_t i = 0; i < MRD_LINK_WINDOW_MAX; i++) {
        flight *f = &publish->flights[i];
        mrd_spool_item item;

        if (f->in_flight || mrd_local_before(now, f->again_at))
            continue;
        if (publish->o.transport->free_slots(publish->o.transport) == 0)
            return;
        if (f->id == 0) {
            if (!mrd_spool_peek(publish->o.spool, publish->cursor, &item))
                continue;
            *f = (flight){ .id = item.id };
            publish->cursor = item.id + 1;
        }
        if (!send_item(publish, f, now))
            return;
    }
}

static void
again(mrd_publish *publish, flight *f, mrd_local_ns at)
{
    f->in_flight = false;
    f->again_at = at;
    publish->stats.retried++;
}

static void
say_hello(mrd_publish *publish)
{
    publish->stats.welcome = false;
    publish->hello_due = true;
}

static void
on_ack(mrd_publish *publish, flight *f, const Mrd__Ack *ack, mrd_local_ns now)
{
    mrd_dur_ns wait = mrd_publish_wait(ack->retry_after_ms, MRD_WAIT_FRAME_AGAIN);
    mrd_spool_item item;
    bool there = item_of(publish, f->id, &item);

    switch (ack->status) {
    case MRD__ACK_STATUS__ACK_STORED:
    case MRD__ACK_STATUS__ACK_DUPLICATE:
        publish->stats.acked++;
        mrd_metrics_text_hist_add(&publish->stats.ack, mrd_local_diff(now, f->sent));
        publish->stats.slow = false;
        publish->stats.message[0] = '\0';
        item.known = there && item.earlier && ack->status == MRD__ACK_STATUS__ACK_DUPLICATE;
        if (there && (item.known ? mrd_spool_done_before(publish->o.spool, f->id)
                                 : mrd_spool_done(publish->o.spool, f->id, true)))
            publish->o.delivered(publish->o.self, &item);
        *f = (flight){ 0 };
        return;
    case MRD__ACK_STATUS__ACK_REFUSED:
        publish->stats.refused++;
        if (there && mrd_spool_done(publish->o.spool, f->id, false))
            publish->o.refused(publish->o.self, &item, ack->message);
        *f = (flight){ 0 };
        return;
    case MRD__ACK_STATUS__ACK_HELLO_FIRST:
        say_hello(publish);
        again(publish, f, now);
        return;
    default: /* SLOW_DOWN, NOT_STORED, or an unknown answer of a newer aggregator */
        if (!publish->stats.slow)
            mrd_log(MRD_LOG_WARN, "AGT-NOT-STORED",
                    "The aggregator stores no batches now: reason=%s", ack->message);
        publish->stats.slow = true;
        snprintf(publish->stats.message, sizeof(publish->stats.message), "%s", ack->message);
        again(publish, f, mrd_local_add(now, wait));
    }
}

/* ---- The hello message and heartbeats ---- */

static void
on_urgent(mrd_publish *publish, uint64_t tag, const mrd_msg *msg, mrd_local_ns now, int64_t came)
{
    publish->urgent = false;
    if (msg == NULL) {
        if (tag == TAG_HELLO)
            publish->hello_at = mrd_local_add(now, MRD_WAIT_HELLO);
        return;
    }
    if (msg->frame.type == MRD_FRAME_WELCOME) {
        const Mrd__Welcome *welcome = msg->u.welcome;

        publish->stats.welcome = true;
        publish->stats.message[0] = '\0';
        publish->hello_due = false;
        publish->beat_due = true;
        if (welcome->heartbeat_ms >= 50 && welcome->heartbeat_ms <= 60000)
            publish->beat_ns = welcome->heartbeat_ms * MRD_MS;
        publish->o.welcome(publish->o.self, welcome);
        for (size_t i = 0; i < welcome->n_directives; i++)
            publish->o.directive(publish->o.self, welcome->directives[i]);
        publish->o.sessions_known(publish->o.self, !welcome->unlisted);
    } else if (msg->frame.type == MRD_FRAME_REFUSE) {
        const Mrd__Refuse *no = msg->u.refuse;

        publish->hello_due = true;
        publish->hello_at =
            mrd_local_add(now, mrd_publish_wait(no->retry_after_ms, MRD_WAIT_HELLO_REFUSED));
        snprintf(publish->stats.message, sizeof(publish->stats.message), "%s", no->message);
        mrd_log(no->final ? MRD_LOG_ERROR : MRD_LOG_WARN, "AGT-HELLO-REFUSED",
                "The aggregator refuses this agent: retry_ms=%lld reason=%s",
                (long long) (mrd_local_diff(publish->hello_at, now) / MRD_MS), no->message);
    } else if (msg->frame.type == MRD_FRAME_ACK) {
        const Mrd__Ack *ack = msg->u.ack;

        if (ack->status == MRD__ACK_STATUS__ACK_HELLO_FIRST)
            say_hello(publish);
        /* Use the time at which the answer arrived, because `now` may be earlier. A time before the
         * arrival would make the bound of the clock offset wrong. */
        publish->o.clock(publish->o.self, publish->urgent_sent, ack,
                         (mrd_local_ns){ came != 0 ? came : mrd_local_now().ns });
        for (size_t i = 0; i < ack->n_directives; i++)
            publish->o.directive(publish->o.self, ack->directives[i]);
        if (ack->status == MRD__ACK_STATUS__ACK_STORED)
            publish->o.sessions_known(publish->o.self, !ack->unlisted);
    }
}

static void
send_urgent(mrd_publish *publish, mrd_local_ns now)
{
    bool hello = publish->hello_due && !mrd_local_before(now, publish->hello_at);
    bool beat =
        publish->stats.welcome && (publish->beat_due || !mrd_local_before(now, publish->beat_at));
    mrd_err err;

    if (publish->urgent || !publish->stats.up || (!hello && !beat))
        return;
    mrd_buf_reset(&publish->frame);
    err = hello ? publish->o.hello(publish->o.self, &publish->frame)
                : publish->o.heartbeat(publish->o.self, &publish->frame);
    publish->urgent_sent = mrd_local_now();
    if (err == MRD_OK)
        err = publish->o.transport->submit_urgent(
            publish->o.transport, hello ? TAG_HELLO : TAG_HEARTBEAT,
            (mrd_bytes){ publish->frame.p, publish->frame.len });
    if (hello) {
        publish->hello_at = mrd_local_add(now, MRD_WAIT_HELLO);
        publish->stats.hellos += err == MRD_OK;
    } else {
        publish->beat_at = mrd_local_add(now, publish->beat_ns);
        publish->beat_due = false;
    }
    publish->urgent = err == MRD_OK;
}

/* ---- Events of the transport ---- */

static void
on_reply(mrd_publish *publish, const mrd_link_event *ev, mrd_local_ns now)
{
    flight *f = flight_of(publish, ev->tag);
    bool failed = ev->kind == MRD_LINK_FAILED;
    mrd_msg msg = { 0 };

    if (!failed && mrd_msg_unpack(ev->data, &msg, NULL) != MRD_OK)
        failed = true; /* an answer that cannot be parsed counts as no answer */
    if (ev->tag == TAG_HELLO || ev->tag == TAG_HEARTBEAT) {
        on_urgent(publish, ev->tag, failed ? NULL : &msg, now, ev->at.ns);
    } else if ((ev->tag & MRD_PUBLISH_FOREIGN) != 0) {
        if (!failed && msg.frame.type == MRD_FRAME_ACK &&
            msg.u.ack->status == MRD__ACK_STATUS__ACK_HELLO_FIRST) {
            say_hello(publish);
            failed = true;
        }
        publish->o.foreign(publish->o.self, ev->tag, failed ? NULL : &msg);
    } else if (f != NULL && f->in_flight) {
        if (failed)
            again(publish, f, now);
        else if (msg.frame.type == MRD_FRAME_ACK)
            on_ack(publish, f, msg.u.ack, now);
        else
            again(publish, f, mrd_local_add(now, MRD_WAIT_FRAME_AGAIN));
    }
    mrd_msg_free(&msg);
}

static void
on_control(mrd_publish *publish, const mrd_link_event *ev)
{
    mrd_msg msg = { 0 };

    if (mrd_msg_unpack(ev->data, &msg, NULL) == MRD_OK && msg.frame.type == MRD_FRAME_CONTROL) {
        mrd_buf_reset(&publish->frame);
        publish->o.control(publish->o.self, msg.u.control, &publish->frame);
        if (publish->frame.len > 0)
            (void) publish->o.transport->answer(
                publish->o.transport, ev->tag, (mrd_bytes){ publish->frame.p, publish->frame.len });
    }
    mrd_msg_free(&msg);
}

void
mrd_publish_step(mrd_publish *publish, mrd_local_ns now)
{
    mrd_link_event ev;

    while (publish->o.transport->next(publish->o.transport, 0, &ev)) {
        switch (ev.kind) {
        case MRD_LINK_UP:
            publish->stats.up = true;
            publish->stats.reconnects++;
            publish->hello_at = (mrd_local_ns){ 0 };
            say_hello(publish);
            break;
        case MRD_LINK_DOWN:
            publish->stats.up = publish->stats.welcome = false;
            mrd_log(MRD_LOG_WARN, "AGT-DOWN",
                    "The connection to the aggregator was lost, batches wait in the spool: "
                    "reconnects=%llu",
                    (unsigned long long) publish->stats.reconnects);
            break;
        case MRD_LINK_CONTROL:
            on_control(publish, &ev);
            break;
        default:
            on_reply(publish, &ev, mrd_local_now());
        }
        publish->o.transport->done(publish->o.transport, &ev);
    }
    send_urgent(publish, now);
    if (publish->stats.welcome)
        pump(publish, now);
}

void
mrd_publish_heartbeat_now(mrd_publish *publish)
{
    publish->beat_due = true;
}

mrd_err
mrd_publish_foreign(mrd_publish *publish, uint64_t tag, mrd_bytes frame)
{
    /* Frames with events have priority, so one slot stays free for them. */
    if (!publish->stats.welcome || publish->o.transport->free_slots(publish->o.transport) < 2)
        return MRD_AGAIN;
    return publish->o.transport->submit(publish->o.transport, tag | MRD_PUBLISH_FOREIGN, frame);
}

void
mrd_publish_get_stats(const mrd_publish *publish, mrd_publish_stats *ret_stats)
{
    *ret_stats = publish->stats;
}

mrd_local_ns
mrd_publish_next_ns(const mrd_publish *publish)
{
    mrd_local_ns next = { INT64_MAX };
    bool sends =
        publish->stats.welcome && publish->o.transport->free_slots(publish->o.transport) > 0;

    if (!publish->stats.up)
        return next;
    if (!publish->urgent && publish->hello_due)
        next = publish->hello_at;
    else if (!publish->urgent && publish->stats.welcome)
        next = publish->beat_at;
    /* Without a free slot no timer is needed. A slot becomes free when an answer arrives, which
     * wakes the loop. */
    for (size_t i = 0; sends && i < MRD_LINK_WINDOW_MAX; i++)
        if (publish->flights[i].id != 0 && !publish->flights[i].in_flight &&
            mrd_local_before(publish->flights[i].again_at, next))
            next = publish->flights[i].again_at;
    return next;
}
