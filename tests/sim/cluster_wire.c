/* The messages between real agents and the real aggregator, checked on their way. Keeps the bytes
 * of each numbered frame for the checks at the end. */
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/obj.h"
#include "base/vec.h"
#include "tests/sim/cluster_node.h"

/* ---- Received frames ---- */

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
    /* a new catalog for each frame, because a catalog draws a seed from the simulated random
     * numbers */
    mrd_catalog *cat = mrd_catalog_new();
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

/* Keeps the bytes of a frame. A frame that arrives again with the same node, session, epoch and
 * number must have the same bytes. */
void
wire_keep(world *w, const agent *a, const mrd_frame *f, mrd_bytes data)
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

/* ---- Messages to nodes ---- */

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
see_control(world *w, const Mrd__Control *c)
{
    check_reported(w, NULL, c->type, c->session);
    pause_told(w, c);
    if (c->trigger != NULL)
        check_window(w, &w->agents[0], c->trigger->id, c->trigger->from_session_ns,
                     c->trigger->to_session_ns);
}

void
wire_survey(world *w, mrd_bytes frame)
{
    mrd_msg msg = { 0 };

    if (mrd_msg_unpack(frame, &msg, NULL) != MRD_OK || msg.frame.type != MRD_FRAME_CONTROL)
        sim_fail(w, "a survey is none");
    else
        see_control(w, msg.u.control);
    mrd_msg_free(&msg);
}

static void
see_ack(world *w, const agent *a, const mrd_frame *f, mrd_bytes request, const Mrd__Ack *ack)
{
    mrd_msg hb = { 0 };

    if (f->type == MRD_FRAME_BATCH || (f->type == MRD_FRAME_CLOCK_DATA && f->session != 0)) {
        const ticket_model t = {
            .node = a->index, .session = f->session, .seq = f->seq, .epoch = f->epoch
        };

        if (ack->status == MRD__ACK_STATUS__ACK_STORED ||
            ack->status == MRD__ACK_STATUS__ACK_DUPLICATE)
            store_promised(w, &t, ack->status == MRD__ACK_STATUS__ACK_DUPLICATE);
    } else if (f->type == MRD_FRAME_HEARTBEAT && mrd_msg_unpack(request, &hb, NULL) == MRD_OK) {
        w->r->heartbeats++;
        if (ack->clock != NULL)
            check_estimate(w, a, ack->clock, ack->clock->state, hb.u.heartbeat->local_ns);
        for (size_t i = 0; i < ack->n_directives; i++)
            see_control(w, ack->directives[i]);
    }
    mrd_msg_free(&hb);
}

static void
see_file(world *w, const agent *a, mrd_bytes request, const mrd_msg *answer)
{
    mrd_msg msg = { 0 };

    if (mrd_msg_unpack(request, &msg, NULL) == MRD_OK)
        files_answered(w, a, &msg, answer);
    mrd_msg_free(&msg);
}

unsigned
wire_answer(world *w, const agent *a, mrd_bytes request, mrd_bytes answer)
{
    unsigned timeline = 0;
    mrd_frame f;
    mrd_bytes body;
    mrd_msg msg = { 0 };

    sim_mix(w, answer.len << 32 ^ mrd_crc32(0, answer.p, answer.len));
    if (mrd_frame_check(request, &f, &body, NULL) != MRD_OK ||
        mrd_msg_unpack(answer, &msg, NULL) != MRD_OK) {
        sim_fail(w, "an answer to node %s cannot be read", a->id);
    } else if (f.type == MRD_FRAME_ANNOUNCE || f.type == MRD_FRAME_DONE) {
        see_file(w, a, request, &msg);
    } else if (msg.frame.type == MRD_FRAME_ACK) {
        see_ack(w, a, &f, request, msg.u.ack);
    } else if (msg.frame.type == MRD_FRAME_WELCOME) {
        timeline = timeline_now(w);
        for (size_t i = 0; i < msg.u.welcome->n_directives; i++)
            see_control(w, msg.u.welcome->directives[i]);
    }
    mrd_msg_free(&msg);
    return timeline;
}
