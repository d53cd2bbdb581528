/* Carries out the effects of the core: sends answers at once, and passes work to other threads. */
#include "aggregator/loop/loop_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/text.h"
#include "aggregator/loop/messages.h"
#include "base/conf/log.h"
#include "base/version.h"

/* ---- Answers to agents ---- */

static void
do_ack(mrd_loop *loop, mrd_effect *effect)
{
    Mrd__Ack ack = MRD__ACK__INIT;

    ack.status = effect->status;
    ack.err = (uint32_t) effect->err;
    ack.message = effect->text;
    ack.retry_after_ms = effect->retry_ms;
    mrd_loop_reply(loop, effect->ticket, MRD_FRAME_ACK, &ack);
}

static void
do_heartbeat(mrd_loop *loop, mrd_effect *effect)
{
    mrd_control_messages directives;
    Mrd__StackRequest *stacks[MRD_STACK_REQUESTS];
    Mrd__Ack ack = MRD__ACK__INIT;

    for (unsigned i = 0; i < effect->n_stacks; i++)
        stacks[i] = &effect->stacks[i];
    ack.n_stacks = effect->n_stacks;
    ack.stacks = stacks;
    mrd_control_messages_init(&directives, effect);
    ack.n_directives = directives.n;
    ack.directives = directives.list;
    ack.unlisted = effect->unlisted;
    effect->estimate.state = effect->estimate_state;
    ack.clock = effect->has_estimate ? &effect->estimate : NULL;
    ack.local_ns = effect->received.ns;
    ack.reply_local_ns = mrd_local_now().ns;
    mrd_loop_reply(loop, effect->ticket, MRD_FRAME_ACK, &ack);
    mrd_control_messages_fini(&directives);
}

static void
do_welcome(mrd_loop *loop, mrd_effect *effect)
{
    mrd_control_messages directives;
    Mrd__Welcome welcome = MRD__WELCOME__INIT;
    char release[] = MRD_RELEASE, commit[MRD_COMMIT_MAX];
    uint8_t key[MRD_PROBE_KEY_LEN];
    const mrd_server_request *request = mrd_loop_borrow_request(loop, effect->ticket);

    if (request != NULL)
        mrd_server_conn_accept(loop->o.server, request->conn);
    mrd_clocks_welcome(loop->o.clocks, effect->node->key, key);
    mrd_control_messages_init(&directives, effect);
    snprintf(commit, sizeof(commit), "%s", mrd_version_commit());
    welcome.wire_major = MRD_WIRE_MAJOR;
    welcome.wire_minor = MRD_WIRE_MINOR;
    welcome.release = release;
    welcome.commit = commit;
    welcome.aggregator_id = loop->id;
    welcome.boot_id = loop->core->timescale.timeline;
    welcome.heartbeat_ms = 1000;
    welcome.max_frame = MRD_FRAME_MAX;
    welcome.max_events = MRD_BATCH_EVENTS;
    welcome.window = 8;
    welcome.time_port = mrd_clocks_port(loop->o.clocks);
    welcome.probe_key = (ProtobufCBinaryData){ sizeof(key), key };
    welcome.local_ns = mrd_local_now().ns;
    welcome.wall_ns = mrd_wall_now().ns;
    welcome.session_offset_ns = loop->core->timescale.offset;
    welcome.n_directives = directives.n;
    welcome.directives = directives.list;
    welcome.unlisted = effect->unlisted;
    mrd_loop_reply(loop, effect->ticket, MRD_FRAME_WELCOME, &welcome);
    mrd_control_messages_fini(&directives);
}

static void
do_refuse(mrd_loop *loop, mrd_effect *effect)
{
    Mrd__Refuse refuse = MRD__REFUSE__INIT;

    refuse.err = (uint32_t) effect->err;
    refuse.message = effect->text;
    refuse.final = effect->final;
    refuse.retry_after_ms = 5000;
    mrd_loop_reply(loop, effect->ticket, MRD_FRAME_REFUSE, &refuse);
}

static void
do_job_reply(mrd_loop *loop, mrd_effect *effect)
{
    Mrd__JobReply reply = MRD__JOB_REPLY__INIT;
    mrd_control_messages directives;

    mrd_control_messages_init(&directives, effect);
    reply.err = (uint32_t) effect->err;
    reply.message = effect->text;
    reply.retry_after_ms = effect->retry_ms;
    reply.control = directives.n > 0 ? directives.list[0] : NULL;
    mrd_loop_reply(loop, effect->ticket, MRD_FRAME_JOB_REPLY, &reply);
    mrd_control_messages_fini(&directives);
}

static void
do_drop(mrd_loop *loop, mrd_effect *effect)
{
    mrd_server_request request;

    if (mrd_loop_take_request(loop, effect->ticket, &request))
        mrd_server_drop(loop->o.server, &request);
}

/* ---- Frames for journals ---- */

mrd_err
mrd_loop_clock_data(mrd_loop *loop, mrd_node *node, mrd_frame *frame, mrd_bytes data, mrd_why *why)
{
    mrd_msg msg = { 0 };
    mrd_err err = mrd_msg_unpack(data, &msg, why);

    if (err != MRD_OK)
        return err;
    mrd_clocks_take(loop->o.clocks, node, &loop->core->timescale, msg.u.clock_data);
    mrd_buf_reset(&loop->repacked);
    err = mrd_msg_pack(frame, msg.u.m, &loop->repacked, why);
    mrd_msg_free(&msg);
    return err;
}

/* Queues a frame to be written to its journal. A batch is written from the buffer of the request.
 * Clock data is encoded again, because the joined probes are added to it. */
static void
do_append(mrd_loop *loop, mrd_effect *effect)
{
    const mrd_server_request *request = mrd_loop_borrow_request(loop, effect->ticket);
    mrd_journals_frame frame = { .ticket = effect->ticket,
                                 .session = effect->session->id,
                                 .journal = effect->part->number,
                                 .instance_id = effect->part->instance_id,
                                 .frame = effect->frame };
    mrd_why why = { 0 };

    if (request == NULL)
        return;
    frame.data = request->data;
    if (effect->frame.type == MRD_FRAME_CLOCK_DATA) {
        if (mrd_loop_clock_data(loop, effect->node, &frame.frame, request->data, &why) == MRD_OK) {
            frame.data = (mrd_bytes){ loop->repacked.p, loop->repacked.len };
            frame.owned = loop->repacked.p;
            loop->repacked = (mrd_buf){ 0 };
        }
    }
    if (why.err == MRD_OK && !effect->part->in_journal &&
        (frame.dir = mrd_session_store_path(loop->o.store, effect->session->text, "journal/%s",
                                            effect->part->instance_id)) == NULL)
        mrd_why_set(&why, MRD_NOMEM, 0, "journal");
    if (why.err != MRD_OK)
        free(frame.owned);
    else if (mrd_journals_append(loop->journals, &frame) != MRD_OK)
        mrd_why_set(&why, MRD_NOMEM, 0, "journal");
    if (why.err != MRD_OK)
        mrd_loop_stored(loop, effect->ticket, &why);
}

/* ---- Work for other threads ---- */

static void
do_ask(mrd_loop *loop, mrd_effect *effect)
{
    mrd_buf frame = { 0 };

    if (effect->value > 0 && mrd_survey_frame(effect, &frame) == MRD_OK)
        mrd_surveys_ask(loop->surveys, effect->survey, &frame, (unsigned) effect->value,
                        effect->timeout);
    mrd_buf_fini(&frame);
}

static void
do_save(mrd_loop *loop, mrd_effect *effect)
{
    mrd_loop_save(loop, mrd_session_view_new(loop->core, effect->session), effect->session->id,
                  effect->version);
}

static void
do_save_nodes(mrd_loop *loop, mrd_effect *effect)
{
    mrd_buf text = { 0 };

    mrd_core_registry_text(loop->core, &text);
    mrd_loop_save_nodes(loop, &text, effect->final);
}

static void
do_merge(mrd_loop *loop, mrd_effect *effect)
{
    merge_input *in = mrd_merge_input_new(loop->o.store, &loop->core->timescale, effect->session);

    if (in == NULL || !mrd_merger_start(loop->merger, effect->session->id, in))
        mrd_loop_not_merged(loop, effect->session->id);
}

static void
do_export(mrd_loop *loop, mrd_effect *effect)
{
    mrd_why why = { .err = MRD_STATE, .text = "this aggregator has no --export-targets any more" };

    if (loop->exporter == NULL || !mrd_exporter_start(loop->exporter, effect->session, &why))
        mrd_loop_exported(loop, effect->session->id, &why);
}

static void
do_convert(mrd_loop *loop, mrd_effect *effect)
{
    const mrd_conversion *conversion = &effect->session->conversions.v[effect->value];
    mrd_conversion_of of = { .session = effect->session->id, .process_id = conversion->process_id };

    mrd_text_set(of.instance_id, sizeof(of.instance_id), conversion->instance_id);
    if (loop->viewer == NULL || !mrd_converter_start(loop->viewer, effect->session, effect->value))
        mrd_loop_not_converted(loop, &of);
}

static void
do_log(const mrd_effect *effect)
{
    mrd_log(effect->level, effect->id, "%s", effect->text);
}

void
mrd_loop_carry_logs(mrd_core *core)
{
    const mrd_effect *effect;

    while ((effect = mrd_core_effect(core)) != NULL)
        do_log(effect);
}

/* Returns true for effects that begin work of other threads. While the loop closes, such effects
 * are discarded. After a restart the aggregator continues from the decisions on disk. */
static bool
begins_work(mrd_effect_kind kind)
{
    return kind == MRD_DO_ASK || kind == MRD_DO_SAVE || kind == MRD_DO_SAVE_NODES ||
           kind == MRD_DO_CLOSE || kind == MRD_DO_MERGE || kind == MRD_DO_CANCEL ||
           kind == MRD_DO_MEASURE || kind == MRD_DO_REMOVE || kind == MRD_DO_EXPORT ||
           kind == MRD_DO_CONVERT || kind == MRD_DO_SWEEP || kind == MRD_DO_APPEND;
}

static void
carry(mrd_loop *loop, mrd_effect *effect)
{
    switch (effect->kind) {
    case MRD_DO_ACK:
        do_ack(loop, effect);
        break;
    case MRD_DO_HEARTBEAT:
        do_heartbeat(loop, effect);
        break;
    case MRD_DO_WELCOME:
        do_welcome(loop, effect);
        break;
    case MRD_DO_REFUSE:
        do_refuse(loop, effect);
        break;
    case MRD_DO_JOB_REPLY:
        do_job_reply(loop, effect);
        break;
    case MRD_DO_DROP:
        do_drop(loop, effect);
        break;
    case MRD_DO_APPEND:
        do_append(loop, effect);
        break;
    case MRD_DO_ASK:
        do_ask(loop, effect);
        break;
    case MRD_DO_SAVE:
        do_save(loop, effect);
        break;
    case MRD_DO_SAVE_NODES:
        do_save_nodes(loop, effect);
        break;
    case MRD_DO_CLOSE:
        mrd_journals_close_session(loop->journals, effect->session->id);
        break;
    case MRD_DO_MERGE:
        do_merge(loop, effect);
        break;
    case MRD_DO_CANCEL:
        mrd_merger_cancel(loop->merger, effect->session->id);
        mrd_converter_cancel(loop->viewer, effect->session->id);
        break;
    case MRD_DO_CONVERT:
        do_convert(loop, effect);
        break;
    case MRD_DO_MEASURE:
        mrd_cleaner_measure(loop->cleaner, effect->session->id, effect->session->text);
        break;
    case MRD_DO_EXPORT:
        do_export(loop, effect);
        break;
    case MRD_DO_REMOVE:
        mrd_cleaner_remove(loop->cleaner, effect->session->id, effect->session->text);
        break;
    case MRD_DO_ANSWER:
        /* discards the copies for readers, so that later readers see the result of the command */
        mrd_loop_forget_views(loop);
        mrd_loop_answer(loop, effect->ticket, effect->err, effect->text, effect->value);
        break;
    case MRD_DO_FORGET:
        mrd_clocks_forget(loop->o.clocks, effect->value);
        break;
    case MRD_DO_SWEEP:
        mrd_artifacts_sweep(loop->artifacts);
        break;
    case MRD_DO_LOG:
        do_log(effect);
        break;
    /* nothing to do: the survey's thread ends with the next answer, or at its deadline */
    case MRD_DO_ASK_END:
    case MRD_DO_KINDS:
        break;
    }
}

void
mrd_loop_carry(mrd_loop *loop)
{
    mrd_effect *effect;

    while ((effect = mrd_core_effect(loop->core)) != NULL) {
        if (!loop->draining || !begins_work(effect->kind))
            carry(loop, effect);
    }
}
