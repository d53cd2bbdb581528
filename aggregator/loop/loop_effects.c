/* Carries out the effects of the core: sends answers at once, and passes work to other threads. */
#include "aggregator/loop/loop_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/text.h"
#include "aggregator/loop/messages.h"
#include "base/conf/log.h"
#include "base/version.h"

/* ---- Answers ---- */

static void
do_ack(mrd_loop *l, mrd_effect *e)
{
    Mrd__Ack ack = MRD__ACK__INIT;

    ack.status = e->status;
    ack.err = (uint32_t) e->err;
    ack.message = e->text;
    ack.retry_after_ms = e->retry_ms;
    mrd_loop_reply(l, e->ticket, MRD_FRAME_ACK, &ack);
}

static void
do_heartbeat(mrd_loop *l, mrd_effect *e)
{
    mrd_control_messages directives;
    Mrd__Ack ack = MRD__ACK__INIT;

    mrd_control_messages_init(&directives, e);
    ack.n_directives = directives.n;
    ack.directives = directives.list;
    e->estimate.state = e->estimate_state;
    ack.clock = e->has_estimate ? &e->estimate : NULL;
    ack.local_ns = e->received.ns;
    ack.reply_local_ns = mrd_local_now().ns;
    mrd_loop_reply(l, e->ticket, MRD_FRAME_ACK, &ack);
    mrd_control_messages_fini(&directives);
}

static void
do_welcome(mrd_loop *l, mrd_effect *e)
{
    mrd_control_messages directives;
    Mrd__Welcome w = MRD__WELCOME__INIT;
    char release[] = MRD_RELEASE, commit[MRD_COMMIT_MAX];
    uint8_t key[MRD_PROBE_KEY_LEN];
    const mrd_server_request *request = mrd_loop_borrow_request(l, e->ticket);

    if (request != NULL)
        mrd_server_conn_accept(l->o.server, request->conn);
    mrd_clocks_welcome(l->o.clocks, e->node->key, key);
    mrd_control_messages_init(&directives, e);
    snprintf(commit, sizeof(commit), "%s", mrd_version_commit());
    w.wire_major = MRD_WIRE_MAJOR;
    w.wire_minor = MRD_WIRE_MINOR;
    w.release = release;
    w.commit = commit;
    w.aggregator_id = l->id;
    w.boot_id = l->core->timescale.timeline;
    w.heartbeat_ms = 1000;
    w.max_frame = MRD_FRAME_MAX;
    w.max_events = MRD_BATCH_EVENTS;
    w.window = 8;
    w.time_port = mrd_clocks_port(l->o.clocks);
    w.probe_key = (ProtobufCBinaryData){ sizeof(key), key };
    w.local_ns = mrd_local_now().ns;
    w.wall_ns = mrd_wall_now().ns;
    w.session_offset_ns = l->core->timescale.offset;
    w.n_directives = directives.n;
    w.directives = directives.list;
    mrd_loop_reply(l, e->ticket, MRD_FRAME_WELCOME, &w);
    mrd_control_messages_fini(&directives);
}

static void
do_refuse(mrd_loop *l, mrd_effect *e)
{
    Mrd__Refuse refuse = MRD__REFUSE__INIT;

    refuse.err = (uint32_t) e->err;
    refuse.message = e->text;
    refuse.final = e->final;
    refuse.retry_after_ms = 5000;
    mrd_loop_reply(l, e->ticket, MRD_FRAME_REFUSE, &refuse);
}

static void
do_job_reply(mrd_loop *l, mrd_effect *e)
{
    Mrd__JobReply reply = MRD__JOB_REPLY__INIT;
    mrd_control_messages directives;

    mrd_control_messages_init(&directives, e);
    reply.err = (uint32_t) e->err;
    reply.message = e->text;
    reply.retry_after_ms = e->retry_ms;
    reply.control = directives.n > 0 ? directives.list[0] : NULL;
    mrd_loop_reply(l, e->ticket, MRD_FRAME_JOB_REPLY, &reply);
    mrd_control_messages_fini(&directives);
}

static void
do_drop(mrd_loop *l, mrd_effect *e)
{
    mrd_server_request request;

    if (mrd_loop_take_request(l, e->ticket, &request))
        mrd_server_drop(l->o.server, &request);
}

/* ---- Journals ---- */

mrd_err
mrd_loop_clock_data(mrd_loop *l, mrd_node *n, mrd_frame *f, mrd_bytes data, mrd_why *why)
{
    mrd_msg msg = { 0 };
    mrd_err err = mrd_msg_unpack(data, &msg, why);

    if (err != MRD_OK)
        return err;
    mrd_clocks_take(l->o.clocks, n, &l->core->timescale, msg.u.clock_data);
    mrd_buf_reset(&l->repacked);
    err = mrd_msg_pack(f, msg.u.m, &l->repacked, why);
    mrd_msg_free(&msg);
    return err;
}

/* Batches stay in their requests. Clock data is written in its joined form. */
static void
do_append(mrd_loop *l, mrd_effect *e)
{
    const mrd_server_request *request = mrd_loop_borrow_request(l, e->ticket);
    mrd_journals_frame f = { .ticket = e->ticket,
                             .session = e->session->id,
                             .journal = e->part->number,
                             .instance_id = e->part->instance_id,
                             .frame = e->frame };
    mrd_why why = { 0 };

    if (request == NULL)
        return;
    f.data = request->data;
    if (e->frame.type == MRD_FRAME_CLOCK_DATA) {
        if (mrd_loop_clock_data(l, e->node, &f.frame, request->data, &why) == MRD_OK) {
            f.data = (mrd_bytes){ l->repacked.p, l->repacked.len };
            f.owned = l->repacked.p;
            l->repacked = (mrd_buf){ 0 };
        }
    }
    if (why.err == MRD_OK && !e->part->in_journal &&
        (f.dir = mrd_session_store_path(l->o.store, e->session->text, "journal/%s",
                                        e->part->instance_id)) == NULL)
        mrd_why_set(&why, MRD_NOMEM, 0, "journal");
    if (why.err != MRD_OK)
        free(f.owned);
    else if (mrd_journals_append(l->journals, &f) != MRD_OK)
        mrd_why_set(&why, MRD_NOMEM, 0, "journal");
    if (why.err != MRD_OK)
        mrd_loop_stored(l, e->ticket, &why);
}

/* ---- Work of other threads ---- */

static void
do_ask(mrd_loop *l, mrd_effect *e)
{
    mrd_buf frame = { 0 };

    if (e->value > 0 && mrd_survey_frame(e, &frame) == MRD_OK)
        mrd_surveys_ask(l->surveys, e->survey, &frame, (unsigned) e->value, e->timeout);
    mrd_buf_fini(&frame);
}

static void
do_save(mrd_loop *l, mrd_effect *e)
{
    mrd_loop_save(l, mrd_session_view_new(l->core, e->session), e->session->id, e->version);
}

static void
do_save_nodes(mrd_loop *l, mrd_effect *e)
{
    mrd_buf text = { 0 };

    mrd_core_registry_text(l->core, &text);
    mrd_loop_save_nodes(l, &text, e->final);
}

static void
do_merge(mrd_loop *l, mrd_effect *e)
{
    merge_input *in = mrd_merge_input_new(l->o.store, &l->core->timescale, e->session);

    if (in == NULL || !mrd_merger_start(l->merger, e->session->id, in))
        mrd_loop_not_merged(l, e->session->id);
}

static void
do_export(mrd_loop *l, mrd_effect *e)
{
    mrd_why why = { .err = MRD_STATE, .text = "this aggregator has no --export-targets any more" };

    if (l->exporter == NULL || !mrd_exporter_start(l->exporter, e->session, &why))
        mrd_loop_exported(l, e->session->id, &why);
}

static void
do_convert(mrd_loop *l, mrd_effect *e)
{
    const mrd_conversion *v = &e->session->conversions.v[e->value];
    mrd_conversion_of of = { .session = e->session->id, .process_id = v->process_id };

    mrd_text_set(of.instance_id, sizeof(of.instance_id), v->instance_id);
    if (l->viewer == NULL || !mrd_converter_start(l->viewer, e->session, e->value))
        mrd_loop_not_converted(l, &of);
}

static void
do_log(const mrd_effect *e)
{
    mrd_log(e->level, e->id, "%s", e->text);
}

void
mrd_loop_carry_logs(mrd_core *c)
{
    const mrd_effect *e;

    while ((e = mrd_core_effect(c)) != NULL)
        do_log(e);
}

/* While the loop closes, no work begins. Decisions are carried out after the next start. */
static bool
begins_work(mrd_effect_kind kind)
{
    return kind == MRD_DO_ASK || kind == MRD_DO_SAVE || kind == MRD_DO_SAVE_NODES ||
           kind == MRD_DO_CLOSE || kind == MRD_DO_MERGE || kind == MRD_DO_CANCEL ||
           kind == MRD_DO_MEASURE || kind == MRD_DO_REMOVE || kind == MRD_DO_EXPORT ||
           kind == MRD_DO_CONVERT || kind == MRD_DO_SWEEP || kind == MRD_DO_APPEND;
}

static void
carry(mrd_loop *l, mrd_effect *e)
{
    switch (e->kind) {
    case MRD_DO_ACK:
        do_ack(l, e);
        break;
    case MRD_DO_HEARTBEAT:
        do_heartbeat(l, e);
        break;
    case MRD_DO_WELCOME:
        do_welcome(l, e);
        break;
    case MRD_DO_REFUSE:
        do_refuse(l, e);
        break;
    case MRD_DO_JOB_REPLY:
        do_job_reply(l, e);
        break;
    case MRD_DO_DROP:
        do_drop(l, e);
        break;
    case MRD_DO_APPEND:
        do_append(l, e);
        break;
    case MRD_DO_ASK:
        do_ask(l, e);
        break;
    case MRD_DO_SAVE:
        do_save(l, e);
        break;
    case MRD_DO_SAVE_NODES:
        do_save_nodes(l, e);
        break;
    case MRD_DO_CLOSE:
        mrd_journals_close_session(l->journals, e->session->id);
        break;
    case MRD_DO_MERGE:
        do_merge(l, e);
        break;
    case MRD_DO_CANCEL:
        mrd_merger_cancel(l->merger, e->session->id);
        mrd_converter_cancel(l->viewer, e->session->id);
        break;
    case MRD_DO_CONVERT:
        do_convert(l, e);
        break;
    case MRD_DO_MEASURE:
        mrd_cleaner_measure(l->cleaner, e->session->id, e->session->text);
        break;
    case MRD_DO_EXPORT:
        do_export(l, e);
        break;
    case MRD_DO_REMOVE:
        mrd_cleaner_remove(l->cleaner, e->session->id, e->session->text);
        break;
    case MRD_DO_ANSWER:
        mrd_loop_forget_views(l); /* later readers must see the result of the command */
        mrd_loop_answer(l, e->ticket, e->err, e->text, e->value);
        break;
    case MRD_DO_FORGET:
        mrd_clocks_forget(l->o.clocks, e->value);
        break;
    case MRD_DO_SWEEP:
        mrd_artifacts_sweep(l->artifacts);
        break;
    case MRD_DO_LOG:
        do_log(e);
        break;
    case MRD_DO_ASK_END: /* its thread finds out with the next answer, or at its deadline */
    case MRD_DO_KINDS:
        break;
    }
}

void
mrd_loop_carry(mrd_loop *l)
{
    mrd_effect *e;

    while ((e = mrd_core_effect(l->core)) != NULL) {
        if (!l->draining || !begins_work(e->kind))
            carry(l, e);
    }
}
