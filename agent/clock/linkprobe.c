#include "agent/clock/linkprobe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock/probe_pace.h"
#include "base/conf/agent_waits.h"
#include "proto/wire.h"

#define DONE 256 /* maximum number of finished probes that wait to be taken; a power of two */

struct mrd_linkprobe {
    mrd_transport *transport;
    mrd_probe_pace pace;
    uint64_t agent;
    char timeline[64];
    uint32_t agent_epoch, k; /* epoch and number (k) of the current or next clock probe */
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
    mrd_linkprobe *probe = calloc(1, sizeof(*probe));

    if (probe == NULL) {
        transport->close(transport);
        return NULL;
    }
    probe->transport = transport;
    probe->agent = agent;
    probe->agent_epoch = agent_epoch;
    snprintf(probe->timeline, sizeof(probe->timeline), "%.63s", timeline);
    mrd_probe_pace_init(&probe->pace, 1);
    return probe;
}

void
mrd_linkprobe_close(mrd_linkprobe *probe)
{
    if (probe == NULL)
        return;
    probe->transport->close(probe->transport);
    mrd_buf_fini(&probe->frame);
    free(probe);
}

static void
send_request(mrd_linkprobe *probe)
{
    mrd_frame frame = { .type = MRD_FRAME_PROBE, .agent = probe->agent };
    Mrd__Probe m = MRD__PROBE__INIT;

    mrd_buf_reset(&probe->frame);
    m.k = probe->k;
    probe->a1 = m.a1 = mrd_local_now().ns;
    probe->flying =
        mrd_msg_pack(&frame, &m, &probe->frame, NULL) == MRD_OK &&
        probe->transport->submit(probe->transport, probe->k,
                                 (mrd_bytes){ probe->frame.p, probe->frame.len }) == MRD_OK;
}

/* Ends the current pair of probes, whether it was answered or not, and plans the next pair. */
static void
next_pair(mrd_linkprobe *probe, mrd_local_ns now)
{
    probe->flying = false;
    probe->k += 2 - probe->k % 2;
    mrd_probe_pace_next(&probe->pace, (mrd_probe_id){ probe->agent, probe->agent_epoch, probe->k },
                        now);
}

static bool
answers(const mrd_linkprobe *probe, const Mrd__ProbeReply *reply)
{
    return reply->k == probe->k &&
           strncmp(reply->boot_id, probe->timeline, sizeof(probe->timeline) - 1) == 0;
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
take_event(mrd_linkprobe *probe, const mrd_link_event *ev)
{
    bool first = probe->k % 2 == 0;

    if (ev->kind == MRD_LINK_UP || ev->kind == MRD_LINK_DOWN)
        probe->up = ev->kind == MRD_LINK_UP;
    if (ev->kind == MRD_LINK_UP)
        mrd_linkprobe_burst(probe);
    if (!probe->flying || ev->tag != probe->k ||
        (ev->kind != MRD_LINK_REPLY && ev->kind != MRD_LINK_FAILED))
        return;
    probe->flying = false;
    if (ev->kind == MRD_LINK_REPLY)
        take_reply(probe, ev);
    /* the second request of a pair is sent at once, while the network path is still awake */
    if (ev->kind == MRD_LINK_REPLY && first) {
        probe->k++;
        send_request(probe);
    }
    if (!probe->flying)
        next_pair(probe, mrd_local_now());
}

/* Makes the connection use a renewed certificate. Errors are ignored, because the agent reports
 * files that cannot be read. */
static void
look_at_files(mrd_linkprobe *probe, mrd_local_ns now)
{
    mrd_transport *transport = probe->transport;
    mrd_why why;

    if (transport->reload == NULL || mrd_local_diff(now, probe->looked) < MRD_WAIT_LINK_LOOK)
        return;
    probe->looked = now;
    if (transport->changed(transport))
        (void) transport->reload(transport, &why);
}

void
mrd_linkprobe_step(mrd_linkprobe *probe)
{
    mrd_link_event ev;
    mrd_local_ns now;

    while (probe->transport->next(probe->transport, 0, &ev)) {
        take_event(probe, &ev);
        probe->transport->done(probe->transport, &ev);
    }
    now = mrd_local_now();
    look_at_files(probe, now);
    if (probe->flying && now.ns - probe->a1 > MRD_WAIT_LINK_ANSWER)
        next_pair(probe, now);
    if (probe->up && !probe->flying && mrd_probe_pace_due(&probe->pace, now))
        send_request(probe);
}

bool
mrd_linkprobe_take(mrd_linkprobe *probe, mrd_probe *ret_probe)
{
    if (probe->head == probe->tail)
        return false;
    *ret_probe = probe->done[probe->tail++ % DONE];
    return true;
}

void
mrd_linkprobe_burst(mrd_linkprobe *probe)
{
    mrd_probe_pace_burst(&probe->pace, mrd_local_now());
}

void
mrd_linkprobe_pace(mrd_linkprobe *probe, mrd_pace pace)
{
    mrd_probe_pace_set(&probe->pace, pace, mrd_local_now());
}

uint64_t
mrd_linkprobe_answered(const mrd_linkprobe *probe)
{
    return probe->answered;
}

int
mrd_linkprobe_fd(const mrd_linkprobe *probe)
{
    return probe->transport->fd(probe->transport);
}

mrd_local_ns
mrd_linkprobe_next_ns(const mrd_linkprobe *probe)
{
    if (probe->flying)
        return (mrd_local_ns){ probe->a1 + MRD_WAIT_LINK_ANSWER };
    return probe->up ? probe->pace.next : (mrd_local_ns){ INT64_MAX };
}
