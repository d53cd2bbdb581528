/* Frames of real agents at the aggregator: what aggregator/loop_requests.c and loop_effects.c do
 * with them, and the bytes of each numbered frame for the checks at the end. */
#include <stdio.h>
#include <stdlib.h>

#include "aggregator/messages.h"
#include "base/obj.h"
#include "base/vec.h"
#include "tests/sim/cluster_node.h"

/* ---- What arrived ---- */

static mrd_map_key
key_of(uint32_t node, uint64_t session, uint64_t epoch, uint64_t seq)
{
    MRD_ASSERT(node < 1u << 16 && seq < 1ull << 48);
    return (mrd_map_key){ session, epoch, (uint64_t) node << 48 | seq };
}

static wire_frame_bytes *
find_bytes(const world *w, uint32_t node, uint64_t session, uint64_t epoch, uint64_t seq)
{
    uint32_t at = mrd_map_get(&w->wire_at, key_of(node, session, epoch, seq));

    return at == MRD_MAP_NONE ? NULL : &w->wire[at];
}

const mrd_buf *
wire_bytes(const world *w, uint32_t node, const stored_frame *f)
{
    const wire_frame_bytes *b = find_bytes(w, node, f->session, f->epoch, f->seq);

    return b == NULL ? NULL : &b->data;
}

uint64_t
wire_events(const world *w, uint32_t node, const stored_frame *f)
{
    const wire_frame_bytes *b = find_bytes(w, node, f->session, f->epoch, f->seq);

    return b == NULL ? 0 : b->events;
}

static uint64_t
events_of(world *w, const mrd_frame *f, mrd_bytes data)
{
    mrd_bytes body = { data.p + MRD_FRAME_HEADER, f->body_len };
    mrd_catalog *cat = mrd_catalog_new(); /* draws a seed, so one is made for each frame */
    mrd_batch_info info;
    const mrd_event *ev;
    uint64_t n = 0;

    if (w->reader == NULL)
        w->reader = mrd_batch_reader_new(w->codec = mrd_codec_new());
    if (w->reader == NULL || cat == NULL)
        abort();
    if (f->type == MRD_FRAME_BATCH &&
        mrd_batch_open(w->reader, f, body, cat, &info, NULL) == MRD_OK) {
        while (mrd_batch_next(w->reader, &ev, NULL) == MRD_MORE)
            n += ev->kind != MRD_LOSS;
    }
    mrd_catalog_free(cat);
    return n;
}

/* A number names one frame for ever. */
static void
keep_bytes(world *w, const agent *a, const mrd_frame *f, mrd_bytes data)
{
    wire_frame_bytes *b = find_bytes(w, a->index, f->session, f->epoch, f->seq);

    if (b != NULL) {
        if (b->data.len != data.len || memcmp(b->data.p, data.p, data.len) != 0)
            sim_fail(w, "node %s: another frame has the number %llu of session %llx", a->id,
                     (unsigned long long) f->seq, (unsigned long long) f->session);
        return;
    }
    if (!MRD_VEC_ROOM(w->wire, w->n_wire, w->cap_wire, 1))
        abort();
    if (mrd_map_put(&w->wire_at, key_of(a->index, f->session, f->epoch, f->seq),
                    (uint32_t) w->n_wire) != MRD_OK)
        abort();
    b = &w->wire[w->n_wire++];
    *b = (wire_frame_bytes){
        .node = a->index, .session = f->session, .epoch = f->epoch, .seq = f->seq
    };
    mrd_buf_add(&b->data, data.p, data.len);
    b->events = events_of(w, f, data);
}

void
wire_free(world *w)
{
    for (size_t i = 0; i < w->n_wire; i++)
        mrd_buf_fini(&w->wire[i].data);
    free(w->wire);
    mrd_map_fini(&w->wire_at);
    mrd_batch_reader_free(w->reader);
    mrd_codec_free(w->codec);
}

/* ---- Answers ---- */

static void
note_windows(world *w, const mrd_effect *e)
{
    for (unsigned i = 0; i < e->n_directives; i++) {
        const mrd_directive *d = &e->directives[i];
        const mrd_trigger *t = d->trigger == 0 ? NULL : &d->session->triggers[d->trigger - 1];

        if (t != NULL)
            check_window(w, &w->agents[0], t->id, t->from.ns, t->to.ns);
    }
}

static unsigned
timeline_now(world *w)
{
    const sim_timeline now = { .server_offset = w->server_offset,
                               .server_ppm = w->server_ppm,
                               .offset = w->scale.offset };

    if (w->n_timelines > 0 && w->timelines[w->n_timelines - 1].server_offset == now.server_offset &&
        w->timelines[w->n_timelines - 1].offset == now.offset)
        return (unsigned) w->n_timelines;
    if (!MRD_VEC_NEXT(w->timelines, w->n_timelines))
        abort();
    w->timelines[w->n_timelines++] = now;
    return (unsigned) w->n_timelines;
}

static void
reply(agent *a, uint64_t request, uint8_t type, const void *message, unsigned timeline)
{
    mrd_frame f = { .type = type };
    mrd_buf frame = { 0 };

    if (mrd_msg_pack(&f, message, &frame, NULL) == MRD_OK)
        link_reply(a->node, request, (mrd_bytes){ frame.p, frame.len }, timeline);
    mrd_buf_fini(&frame);
}

static void
reply_welcome(world *w, agent *a, uint64_t request, const mrd_effect *e)
{
    static char release[] = "sim", id[] = "sim";
    mrd_control_messages directives;
    Mrd__Welcome m = MRD__WELCOME__INIT;

    note_windows(w, e);
    mrd_control_messages_init(&directives, e);
    m.wire_major = MRD_WIRE_MAJOR;
    m.release = release;
    m.aggregator_id = id;
    m.boot_id = w->scale.timeline;
    m.heartbeat_ms = 1000;
    m.max_frame = MRD_FRAME_MAX;
    m.max_events = MRD_BATCH_EVENTS;
    m.window = WINDOW;
    m.local_ns = server_now(w).local.ns;
    m.wall_ns = server_now(w).wall.ns;
    m.session_offset_ns = w->scale.offset;
    m.n_directives = directives.n;
    m.directives = directives.list;
    reply(a, request, MRD_FRAME_WELCOME, &m, timeline_now(w));
    mrd_control_messages_fini(&directives);
}

static void
reply_heartbeat(world *w, agent *a, uint64_t request, const mrd_effect *e)
{
    mrd_control_messages directives;
    Mrd__ClockEstimate estimate = e->estimate;
    Mrd__Ack m = MRD__ACK__INIT;

    note_windows(w, e);
    mrd_control_messages_init(&directives, e);
    m.n_directives = directives.n;
    m.directives = directives.list;
    estimate.state = (char *) (uintptr_t) e->estimate_state;
    m.clock = e->has_estimate ? &estimate : NULL;
    m.local_ns = e->received.ns;
    m.reply_local_ns = server_now(w).local.ns;
    reply(a, request, MRD_FRAME_ACK, &m, 0);
    mrd_control_messages_fini(&directives);
}

static void
reply_ack(agent *a, uint64_t request, const mrd_effect *e)
{
    Mrd__Ack m = MRD__ACK__INIT;

    m.status = e->status;
    m.err = (uint32_t) e->err;
    m.message = (char *) (uintptr_t) e->text;
    m.retry_after_ms = e->retry_ms;
    reply(a, request, MRD_FRAME_ACK, &m, 0);
}

static void
reply_refuse(agent *a, uint64_t request, const mrd_effect *e)
{
    Mrd__Refuse m = MRD__REFUSE__INIT;

    m.err = (uint32_t) e->err;
    m.message = (char *) (uintptr_t) e->text;
    m.final = e->final;
    m.retry_after_ms = 5000;
    reply(a, request, MRD_FRAME_REFUSE, &m, 0);
}

void
wire_reply(world *w, agent *a, uint64_t request, const mrd_effect *e)
{
    switch (e->kind) {
    case MRD_DO_WELCOME:
        reply_welcome(w, a, request, e);
        break;
    case MRD_DO_HEARTBEAT:
        reply_heartbeat(w, a, request, e);
        break;
    case MRD_DO_REFUSE:
        reply_refuse(a, request, e);
        break;
    default:
        reply_ack(a, request, e);
    }
}

/* ---- Surveys ---- */

void
wire_ask(world *w, const mrd_effect *e)
{
    mrd_buf frame = { 0 };

    note_windows(w, e);
    if (mrd_survey_frame(e, &frame) != MRD_OK)
        sim_fail(w, "a survey cannot be packed");
    for (unsigned i = 0; i < w->plan->nodes && frame.len > 0; i++)
        link_survey(w->agents[i].node, e->survey, (mrd_bytes){ frame.p, frame.len });
    mrd_buf_fini(&frame);
}

void
wire_survey_reply(world *w, uint64_t survey, mrd_bytes data)
{
    mrd_msg msg = { 0 };

    if (!w->up)
        return;
    if (mrd_msg_unpack(data, &msg, NULL) != MRD_OK || msg.frame.type != MRD_FRAME_CONTROL_REPLY)
        sim_fail(w, "an answer to a survey is none");
    else
        mrd_core_answered(w->core, server_now(w), survey, msg.u.control_reply);
    mrd_msg_free(&msg);
    server_carry(w);
}

/* ---- Requests ---- */

void
wire_clock(world *w, agent *a, const mrd_effect *e)
{
    const wire_frame_bytes *b =
        find_bytes(w, a->index, e->session->id, e->frame.epoch, e->frame.seq);
    mrd_msg msg = { 0 };

    if (b == NULL || mrd_msg_unpack((mrd_bytes){ b->data.p, b->data.len }, &msg, NULL) != MRD_OK)
        sim_fail(w, "clock data of node %s cannot be read", a->id);
    else
        mrd_node_take_clock(e->node, &w->core->timescale, msg.u.clock_data, NULL, NULL, &w->joined);
    mrd_msg_free(&msg);
}

static void
on_probe(world *w, agent *a, uint64_t request, const Mrd__Probe *probe)
{
    Mrd__ProbeReply m = MRD__PROBE_REPLY__INIT;

    m.k = probe->k;
    m.r2 = m.r3 = server_now(w).local.ns + w->scale.offset;
    m.boot_id = w->scale.timeline;
    reply(a, request, MRD_FRAME_PROBE_REPLY, &m, 0);
}

static void
on_heartbeat(world *w, agent *a, uint64_t ticket, mrd_node *n, const Mrd__Heartbeat *hb)
{
    w->r->heartbeats++;
    mrd_core_heartbeat(w->core, server_now(w), ticket, n, hb, server_now(w).local);
    if (w->core->out.n > w->core->out.first) { /* the answer's estimate, before it is taken */
        const mrd_effect *e = &w->core->out.v[w->core->out.n - 1];

        if (e->kind == MRD_DO_HEARTBEAT && e->has_estimate)
            check_estimate(w, a, &e->estimate, e->estimate_state, hb->local_ns);
    }
}

static void
on_hello(world *w, uint64_t ticket, uint32_t conn, const mrd_msg *msg)
{
    const mrd_node *known = mrd_nodes_by_id(&w->core->nodes, msg->u.hello->instance_id);
    mrd_why why = { 0 };

    if (mrd_core_hello_check(msg, &why) != MRD_OK) {
        mrd_core_hello_refused(w->core, server_now(w), ticket, MRD_LIMIT_NONE, &why);
        return;
    }
    if (known != NULL && known->conn != 0 && known->conn != conn) { /* the loop looks first */
        mrd_core_conn_gone(w->core, server_now(w), known->conn);
        server_carry(w);
        if (!w->up)
            return;
    }
    mrd_core_hello(w->core, server_now(w), ticket, conn, msg);
}

static void
on_message(world *w, agent *a, uint64_t ticket, uint32_t conn, mrd_node *n, mrd_bytes data)
{
    mrd_why why = { 0 };
    mrd_msg msg = { 0 };

    if (mrd_msg_unpack(data, &msg, &why) != MRD_OK)
        sim_fail(w, "a frame of node %s cannot be read: %s", a->id, why.text);
    else if (msg.frame.type == MRD_FRAME_HELLO)
        on_hello(w, ticket, conn, &msg);
    else if (msg.frame.type == MRD_FRAME_HEARTBEAT)
        on_heartbeat(w, a, ticket, n, msg.u.heartbeat);
    else
        sim_fail(w, "node %s sends a frame of type %u", a->id, msg.frame.type);
    mrd_msg_free(&msg);
}

/* Between sessions clock data is only followed. */
static void
on_clock_data(world *w, agent *a, uint64_t ticket, uint64_t request, mrd_node *n, mrd_bytes data)
{
    Mrd__Ack ack = MRD__ACK__INIT;
    ticket_model gone;
    mrd_msg msg = { 0 };

    if (mrd_msg_unpack(data, &msg, NULL) == MRD_OK) {
        mrd_node_take_clock(n, &w->core->timescale, msg.u.clock_data, NULL, NULL, &w->joined);
        if (server_ticket_take(w, ticket, &gone))
            reply(a, request, MRD_FRAME_ACK, &ack, 0);
    }
    mrd_msg_free(&msg);
}

void
wire_frame(world *w, agent *a, uint32_t conn, uint64_t request, mrd_bytes data)
{
    mrd_node *n = NULL;
    mrd_bytes body;
    uint64_t ticket;
    mrd_frame f;
    mrd_msg msg = { 0 };

    if (!w->up || w->n_tickets >= MRD_PENDING_MAX) /* the link's contexts: it comes again */
        return;
    if (mrd_frame_check(data, &f, &body, NULL) != MRD_OK) {
        sim_fail(w, "a frame of node %s is none", a->id);
        return;
    }
    if (f.type == MRD_FRAME_PROBE) {
        if (mrd_msg_unpack(data, &msg, NULL) == MRD_OK)
            on_probe(w, a, request, msg.u.probe);
        mrd_msg_free(&msg);
        return;
    }
    ticket = server_ticket(w, a, request);
    if (!mrd_core_sender(w->core, server_now(w), ticket, conn, &f, &n)) {
        server_carry(w);
        return;
    }
    if (f.type == MRD_FRAME_CLOCK_DATA && f.session == 0) {
        on_clock_data(w, a, ticket, request, n, data);
    } else if (f.type == MRD_FRAME_BATCH || f.type == MRD_FRAME_CLOCK_DATA) {
        ticket_model *t = &w->tickets[w->n_tickets - 1];

        t->numbered = true;
        t->session = f.session;
        t->seq = f.seq;
        t->epoch = f.epoch;
        keep_bytes(w, a, &f, data);
        mrd_core_numbered(w->core, server_now(w), ticket, n, &f, data.len, server_now(w).local);
    } else {
        on_message(w, a, ticket, conn, n, data);
    }
    server_carry(w);
}
