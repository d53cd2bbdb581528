#include "agent/clock/linkprobe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock/probe_pace.h"
#include "base/conf/agent_waits.h"
#include "proto/wire.h"

#define DONE 256 /* a power of two */

struct mrd_linkprobe {
    mrd_transport *transport;
    mrd_probe_pace pace;
    uint64_t agent;
    char timeline[64];
    uint32_t agent_epoch, k; /* of the current or the next request */
    bool up, flying;
    mrd_local_ns looked;
    int64_t a1;
    mrd_buf frame;
    mrd_probe done[DONE];
    size_t head, tail;
    uint64_t answered;
};

mrd_linkprobe *
mrd_linkprobe_open(mrd_transport *transport, uint64_t agent, uint32_t agent_epoch,
                   const char *timeline)
{
    mrd_linkprobe *p = calloc(1, sizeof(*p));

    if (p == NULL) {
        transport->close(transport);
        return NULL;
    }
    p->transport = transport;
    p->agent = agent;
    p->agent_epoch = agent_epoch;
    snprintf(p->timeline, sizeof(p->timeline), "%.63s", timeline);
    mrd_probe_pace_init(&p->pace, 1);
    return p;
}

void
mrd_linkprobe_close(mrd_linkprobe *p)
{
    if (p == NULL)
        return;
    p->transport->close(p->transport);
    mrd_buf_fini(&p->frame);
    free(p);
}

static void
send_request(mrd_linkprobe *p)
{
    mrd_frame f = { .type = MRD_FRAME_PROBE, .agent = p->agent };
    Mrd__Probe m = MRD__PROBE__INIT;

    mrd_buf_reset(&p->frame);
    m.k = p->k;
    p->a1 = m.a1 = mrd_local_now().ns;
    p->flying =
        mrd_msg_pack(&f, &m, &p->frame, NULL) == MRD_OK &&
        p->transport->submit(p->transport, p->k, (mrd_bytes){ p->frame.p, p->frame.len }) == MRD_OK;
}

/* Ends the pair, answered or not. */
static void
next_pair(mrd_linkprobe *p, mrd_local_ns now)
{
    p->flying = false;
    p->k += 2 - p->k % 2;
    mrd_probe_pace_next(&p->pace, (mrd_probe_id){ p->agent, p->agent_epoch, p->k }, now);
}

static bool
answers(const mrd_linkprobe *p, const Mrd__ProbeReply *reply)
{
    return reply->k == p->k && strncmp(reply->boot_id, p->timeline, sizeof(p->timeline) - 1) == 0;
}

static void
take_reply(mrd_linkprobe *p, const mrd_link_event *ev)
{
    mrd_probe_sent sent = { .id = { p->agent, p->agent_epoch, p->k },
                            .a1 = p->a1,
                            .a4 = ev->at.ns,
                            .position = (uint8_t) (p->k % 2),
                            .source1 = MRD_STAMP_NNG,
                            .source4 = MRD_STAMP_NNG };
    mrd_probe_served served = { .id = sent.id, .source2 = MRD_STAMP_NNG, .source3 = MRD_STAMP_NNG };
    mrd_probe probe;
    mrd_msg msg;

    if (mrd_msg_unpack(ev->data, &msg, NULL) != MRD_OK)
        return;
    if (msg.frame.type == MRD_FRAME_PROBE_REPLY && answers(p, msg.u.probe_reply)) {
        served.r2 = msg.u.probe_reply->r2;
        served.r3 = msg.u.probe_reply->r3;
        if (mrd_probe_join(&sent, &served, &probe) == MRD_OK && p->head - p->tail < DONE) {
            p->done[p->head++ % DONE] = probe;
            p->answered++;
        }
    }
    mrd_msg_free(&msg);
}

static void
take_event(mrd_linkprobe *p, const mrd_link_event *ev)
{
    bool first = p->k % 2 == 0;

    if (ev->kind == MRD_LINK_UP || ev->kind == MRD_LINK_DOWN)
        p->up = ev->kind == MRD_LINK_UP;
    if (ev->kind == MRD_LINK_UP)
        mrd_linkprobe_burst(p);
    if (!p->flying || ev->tag != p->k ||
        (ev->kind != MRD_LINK_REPLY && ev->kind != MRD_LINK_FAILED))
        return;
    p->flying = false;
    if (ev->kind == MRD_LINK_REPLY)
        take_reply(p, ev);
    if (ev->kind == MRD_LINK_REPLY && first) { /* the second rides warm */
        p->k++;
        send_request(p);
    }
    if (!p->flying)
        next_pair(p, mrd_local_now());
}

/* A renewed certificate applies to this connection as well. The agent's own check reports
 * unreadable files. */
static void
look_at_files(mrd_linkprobe *p, mrd_local_ns now)
{
    mrd_transport *t = p->transport;
    mrd_why why;

    if (t->reload == NULL || mrd_local_diff(now, p->looked) < MRD_WAIT_LINK_LOOK)
        return;
    p->looked = now;
    if (t->changed(t))
        (void) t->reload(t, &why);
}

void
mrd_linkprobe_step(mrd_linkprobe *p)
{
    mrd_link_event ev;
    mrd_local_ns now;

    while (p->transport->next(p->transport, 0, &ev)) {
        take_event(p, &ev);
        p->transport->done(p->transport, &ev);
    }
    now = mrd_local_now();
    look_at_files(p, now);
    if (p->flying && now.ns - p->a1 > MRD_WAIT_LINK_ANSWER)
        next_pair(p, now);
    if (p->up && !p->flying && mrd_probe_pace_due(&p->pace, now))
        send_request(p);
}

bool
mrd_linkprobe_take(mrd_linkprobe *p, mrd_probe *ret_probe)
{
    if (p->head == p->tail)
        return false;
    *ret_probe = p->done[p->tail++ % DONE];
    return true;
}

void
mrd_linkprobe_burst(mrd_linkprobe *p)
{
    mrd_probe_pace_burst(&p->pace, mrd_local_now());
}

void
mrd_linkprobe_pace(mrd_linkprobe *p, mrd_pace pace)
{
    mrd_probe_pace_set(&p->pace, pace, mrd_local_now());
}

uint64_t
mrd_linkprobe_answered(const mrd_linkprobe *p)
{
    return p->answered;
}

int
mrd_linkprobe_fd(const mrd_linkprobe *p)
{
    return p->transport->fd(p->transport);
}

mrd_local_ns
mrd_linkprobe_next_ns(const mrd_linkprobe *p)
{
    if (p->flying)
        return (mrd_local_ns){ p->a1 + MRD_WAIT_LINK_ANSWER };
    return p->up ? p->pace.next : (mrd_local_ns){ INT64_MAX };
}
