/* Handles the requests (frames) of agents. Each request gets a ticket and is passed to the matching
 * input of the core. */
#include "aggregator/loop/loop_int.h"

#include "aggregator/core/common/text.h"
#include "aggregator/core/decide/artifacts.h"
#include "base/obj.h"

/* ---- Tickets of requests ---- */

static uint64_t
put_request(mrd_loop *loop, mrd_server_request *request)
{
    /* slot 0 is never used, because its tickets belong to commands */
    for (size_t i = 1; i < MRD_REQUESTS_MAX; i++) {
        if (loop->requests[i].keep != NULL)
            continue;
        loop->requests[i] = *request;
        *request = (mrd_server_request){ 0 };
        return loop->tickets[i] = ++loop->last_ticket * MRD_REQUESTS_MAX + i;
    }
    return 0;
}

bool
mrd_loop_take_request(mrd_loop *loop, uint64_t ticket, mrd_server_request *ret_request)
{
    size_t at = ticket % MRD_REQUESTS_MAX;

    if (at == 0 || loop->tickets[at] != ticket || loop->requests[at].keep == NULL)
        return false;
    *ret_request = loop->requests[at];
    loop->requests[at] = (mrd_server_request){ 0 };
    return true;
}

const mrd_server_request *
mrd_loop_borrow_request(const mrd_loop *loop, uint64_t ticket)
{
    size_t at = ticket % MRD_REQUESTS_MAX;

    return at == 0 || loop->tickets[at] != ticket || loop->requests[at].keep == NULL
               ? NULL
               : &loop->requests[at];
}

void
mrd_loop_reply(mrd_loop *loop, uint64_t ticket, uint8_t type, const void *message)
{
    mrd_frame frame = { .type = type };
    mrd_server_request request;

    if (!mrd_loop_take_request(loop, ticket, &request))
        return;
    mrd_buf_reset(&loop->reply);
    if (mrd_msg_pack(&frame, message, &loop->reply, NULL) == MRD_OK)
        mrd_server_reply(loop->o.server, &request, (mrd_bytes){ loop->reply.p, loop->reply.len });
    else
        mrd_server_drop(loop->o.server, &request);
}

static void
reply_slow_down(mrd_loop *loop, uint64_t ticket, uint32_t wait_ms)
{
    static char text[] = "the rate limit is reached";
    Mrd__Ack ack = MRD__ACK__INIT;

    ack.status = MRD__ACK_STATUS__ACK_SLOW_DOWN;
    ack.err = MRD_LIMIT;
    ack.message = text;
    ack.retry_after_ms = wait_ms;
    mrd_loop_reply(loop, ticket, MRD_FRAME_ACK, &ack);
}

/* ---- Hello messages ---- */

/* Checks the certificate of the connection and the token of the hello, if they are required. */
static mrd_err
identity_check(const mrd_loop *loop, uint32_t conn, const Mrd__Hello *hello, mrd_why *why)
{
    char names[256];

    if (loop->o.cert_identity &&
        !mrd_server_peer_is(loop->o.server, conn, hello->instance_id, names, sizeof(names)))
        return mrd_why_set(why, MRD_AUTH, 0,
                           "agent '%s' shows the certificate of '%s': an agent may publish only "
                           "as an instance that its certificate names (meridian certs agent %s)",
                           hello->instance_id, names, hello->instance_id);
    if (loop->o.cert_identity && loop->o.cert_alone && hello->token[0] == '\0')
        return MRD_OK;
    if (loop->o.auth != NULL &&
        !mrd_auth_agent(loop->o.auth, mrd_str_of(hello->token), mrd_str_of(hello->instance_id)))
        return mrd_why_set(why, MRD_AUTH, 0, "agent '%s' shows %s", hello->instance_id,
                           hello->token[0] == '\0'
                               ? "no token"
                               : "a token that does not allow it to publish under this name");
    return MRD_OK;
}

static void
on_hello(mrd_loop *loop, uint64_t ticket, uint32_t conn, const mrd_msg *msg)
{
    const Mrd__Hello *hello = msg->u.hello;
    mrd_limit_kind limit = MRD_LIMIT_NONE;
    const mrd_node *known;
    mrd_why why = { 0 };

    if (mrd_core_hello_check(msg, &why) == MRD_OK &&
        identity_check(loop, conn, hello, &why) == MRD_OK &&
        !mrd_server_conn_admit(loop->o.server, conn)) {
        limit = MRD_LIMIT_CONNECTIONS;
        mrd_why_set(
            &why, MRD_LIMIT, 0,
            "%u agents are connected, which is the limit (--advanced.max-connections, else a "
            "third of the open files allowed): '%s' waits until one leaves",
            mrd_server_max_connections(loop->o.server), hello->instance_id);
    }
    if (why.err != MRD_OK) {
        mrd_core_hello_refused(loop->core, mrd_loop_now(), ticket, limit, &why);
        return;
    }
    known = mrd_nodes_by_id(&loop->core->nodes, hello->instance_id);
    if (known != NULL && known->conn != 0 && known->conn != conn &&
        !mrd_server_conn_alive(loop->o.server, known->conn)) {
        mrd_core_conn_gone(loop->core, mrd_loop_now(), known->conn);
        mrd_loop_carry(loop);
    }
    mrd_core_hello(loop->core, mrd_loop_now(), ticket, conn, msg);
}

/* ---- Other messages and frames ---- */

static void
on_probe(mrd_loop *loop, uint64_t ticket, const mrd_msg *msg, mrd_local_ns received)
{
    Mrd__ProbeReply reply = MRD__PROBE_REPLY__INIT;
    mrd_timescale *timescale = &loop->core->timescale;

    reply.k = msg->u.probe->k;
    reply.r2 = received.ns + timescale->offset;
    reply.boot_id = timescale->timeline;
    reply.r3 = mrd_local_now().ns + timescale->offset;
    mrd_loop_reply(loop, ticket, MRD_FRAME_PROBE_REPLY, &reply);
}

static void
refuse_announced(mrd_loop *loop, uint64_t ticket, mrd_node *node, mrd_why *why)
{
    Mrd__ArtifactRequest request = MRD__ARTIFACT_REQUEST__INIT;

    if (why->err == MRD_FULL)
        mrd_core_limited(loop->core, mrd_loop_now(), node, MRD_LIMIT_DISK);
    request.err = (uint32_t) why->err;
    request.message = why->text;
    request.retry_after_ms = why->err == MRD_FULL || why->err == MRD_AGAIN ? 1000 : 0;
    mrd_loop_reply(loop, ticket, MRD_FRAME_REQUEST, &request);
}

/* Passes an artifact message to the artifacts' threads, which answer the request. */
static void
pass_on(mrd_loop *loop, uint64_t ticket, const mrd_node *node, mrd_msg *msg)
{
    mrd_server_request request;

    if (mrd_loop_take_request(loop, ticket, &request) &&
        !mrd_artifacts_take(loop->artifacts, &request, msg, node->instance_id))
        /* without an answer the sender's transport repeats the request */
        mrd_server_drop(loop->o.server, &request);
}

static void
on_artifact(mrd_loop *loop, uint64_t ticket, mrd_node *node, mrd_msg *msg, size_t len)
{
    uint8_t type = msg->frame.type;
    mrd_why why = { 0 };
    uint32_t wait_ms;

    if (type == MRD_FRAME_ANNOUNCE) {
        if (mrd_core_artifact_announced(loop->core, mrd_loop_now(), node, msg->frame.session,
                                        msg->u.announce, &why) == MRD_OK)
            pass_on(loop, ticket, node, msg);
        else
            refuse_announced(loop, ticket, node, &why);
        return;
    }
    wait_ms =
        type == MRD_FRAME_DONE ? 0 : mrd_core_rate_wait(loop->core, mrd_loop_now(), node, len);
    if (wait_ms > 0)
        reply_slow_down(loop, ticket, wait_ms);
    else
        pass_on(loop, ticket, node, msg);
}

static void
on_message(mrd_loop *loop, uint64_t ticket, uint32_t conn, mrd_node *node, const mrd_frame *frame,
           mrd_bytes body, mrd_local_ns received)
{
    mrd_why why = { 0 };
    mrd_msg msg;

    if (mrd_msg_unpack_body(frame, body, &msg, &why) != MRD_OK) {
        mrd_core_bad_frame(loop->core, mrd_loop_now(), ticket, &why);
        return;
    }
    if (frame->type == MRD_FRAME_HELLO)
        on_hello(loop, ticket, conn, &msg);
    else if (frame->type == MRD_FRAME_PROBE)
        on_probe(loop, ticket, &msg, received);
    else if (frame->type == MRD_FRAME_HEARTBEAT)
        mrd_core_heartbeat(loop->core, mrd_loop_now(), ticket, node, msg.u.heartbeat, received);
    else if (frame->type == MRD_FRAME_JOB)
        mrd_core_job(loop->core, mrd_loop_now(), ticket, node, msg.u.job);
    else if (frame->type == MRD_FRAME_ANNOUNCE || frame->type == MRD_FRAME_CHUNK ||
             frame->type == MRD_FRAME_DONE)
        on_artifact(loop, ticket, node, &msg, body.len);
    else {
        mrd_why_set(&why, MRD_TYPE, 0, "an aggregator does not accept frames of this type");
        mrd_core_refuse_frame(loop->core, mrd_loop_now(), ticket, &why);
    }
    mrd_msg_free(&msg);
}

/* Handles clock data that belongs to no session. It only updates the live estimate of the node's
 * clock. */
static void
on_clock_data(mrd_loop *loop, uint64_t ticket, mrd_node *node, mrd_frame *frame, mrd_bytes data)
{
    Mrd__Ack ack = MRD__ACK__INIT;
    mrd_why why = { 0 };

    if (mrd_loop_clock_data(loop, node, frame, data, &why) == MRD_OK)
        /* the acknowledgement has status STORED, so the agent deletes the data */
        mrd_loop_reply(loop, ticket, MRD_FRAME_ACK, &ack);
    else
        mrd_core_refuse_frame(loop->core, mrd_loop_now(), ticket, &why);
}

static void
on_bad_frame(mrd_loop *loop, uint64_t ticket, const mrd_why *why)
{
    if (why->err == MRD_VERSION)
        mrd_core_hello_refused(loop->core, mrd_loop_now(), ticket, MRD_LIMIT_NONE, why);
    else
        mrd_core_bad_frame(loop->core, mrd_loop_now(), ticket, why);
}

void
mrd_loop_request(mrd_loop *loop, mrd_server_request *request)
{
    mrd_local_ns received = request->at;
    uint32_t conn = request->conn;
    mrd_bytes data = request->data, body;
    uint64_t ticket = put_request(loop, request);
    mrd_why why = { 0 };
    mrd_node *node = NULL;
    mrd_frame frame;

    /* no answer, because all slots are in use; the agent will repeat the request */
    if (ticket == 0) {
        mrd_server_drop(loop->o.server, request);
        return;
    }
    if (mrd_frame_check(data, &frame, &body, &why) != MRD_OK) {
        on_bad_frame(loop, ticket, &why);
        return;
    }
    if (!mrd_core_sender(loop->core, mrd_loop_now(), ticket, conn, &frame, &node))
        return;
    if (frame.type == MRD_FRAME_CLOCK_DATA && frame.session == 0)
        on_clock_data(loop, ticket, node, &frame, data);
    else if (frame.type == MRD_FRAME_BATCH || frame.type == MRD_FRAME_CLOCK_DATA)
        mrd_core_numbered(loop->core, mrd_loop_now(), ticket, node, &frame, data.len, received);
    else
        on_message(loop, ticket, conn, node, &frame, body, received);
}
