/* Frames of agents: assigns tickets and calls the matching input of the core. */
#include "aggregator/loop/loop_int.h"

#include "aggregator/core/common/text.h"
#include "aggregator/core/decide/artifacts.h"
#include "base/obj.h"

/* ---- Tickets ---- */

static uint64_t
put_request(mrd_loop *l, mrd_server_request *request)
{
    for (size_t i = 1; i < MRD_REQUESTS_MAX; i++) { /* slot 0 is of commands */
        if (l->requests[i].keep != NULL)
            continue;
        l->requests[i] = *request;
        *request = (mrd_server_request){ 0 };
        return l->tickets[i] = ++l->last_ticket * MRD_REQUESTS_MAX + i;
    }
    return 0;
}

bool
mrd_loop_take_request(mrd_loop *l, uint64_t ticket, mrd_server_request *ret_request)
{
    size_t at = ticket % MRD_REQUESTS_MAX;

    if (at == 0 || l->tickets[at] != ticket || l->requests[at].keep == NULL)
        return false;
    *ret_request = l->requests[at];
    l->requests[at] = (mrd_server_request){ 0 };
    return true;
}

const mrd_server_request *
mrd_loop_borrow_request(const mrd_loop *l, uint64_t ticket)
{
    size_t at = ticket % MRD_REQUESTS_MAX;

    return at == 0 || l->tickets[at] != ticket || l->requests[at].keep == NULL ? NULL
                                                                               : &l->requests[at];
}

void
mrd_loop_reply(mrd_loop *l, uint64_t ticket, uint8_t type, const void *message)
{
    mrd_frame f = { .type = type };
    mrd_server_request request;

    if (!mrd_loop_take_request(l, ticket, &request))
        return;
    mrd_buf_reset(&l->reply);
    if (mrd_msg_pack(&f, message, &l->reply, NULL) == MRD_OK)
        mrd_server_reply(l->o.server, &request, (mrd_bytes){ l->reply.p, l->reply.len });
    else
        mrd_server_drop(l->o.server, &request);
}

static void
reply_slow_down(mrd_loop *l, uint64_t ticket, uint32_t wait_ms)
{
    static char text[] = "the rate limit is reached";
    Mrd__Ack ack = MRD__ACK__INIT;

    ack.status = MRD__ACK_STATUS__ACK_SLOW_DOWN;
    ack.err = MRD_LIMIT;
    ack.message = text;
    ack.retry_after_ms = wait_ms;
    mrd_loop_reply(l, ticket, MRD_FRAME_ACK, &ack);
}

/* ---- Hello ---- */

/* Checks the certificate of the connection and the token of the hello, if they are required. */
static mrd_err
identity_check(const mrd_loop *l, uint32_t conn, const Mrd__Hello *hello, mrd_why *why)
{
    char names[256];

    if (l->o.cert_identity &&
        !mrd_server_peer_is(l->o.server, conn, hello->instance_id, names, sizeof(names)))
        return mrd_why_set(why, MRD_AUTH, 0,
                           "agent '%s' shows the certificate of '%s': an agent may publish only "
                           "as an instance that its certificate names (meridian certs agent %s)",
                           hello->instance_id, names, hello->instance_id);
    if (l->o.cert_identity && l->o.cert_alone && hello->token[0] == '\0')
        return MRD_OK;
    if (l->o.auth != NULL &&
        !mrd_auth_agent(l->o.auth, mrd_str_of(hello->token), mrd_str_of(hello->instance_id)))
        return mrd_why_set(why, MRD_AUTH, 0, "agent '%s' shows %s", hello->instance_id,
                           hello->token[0] == '\0'
                               ? "no token"
                               : "a token that does not allow it to publish under this name");
    return MRD_OK;
}

static void
on_hello(mrd_loop *l, uint64_t ticket, uint32_t conn, const mrd_msg *msg)
{
    const Mrd__Hello *hello = msg->u.hello;
    mrd_limit_kind limit = MRD_LIMIT_NONE;
    const mrd_node *known;
    mrd_why why = { 0 };

    if (mrd_core_hello_check(msg, &why) == MRD_OK &&
        identity_check(l, conn, hello, &why) == MRD_OK &&
        !mrd_server_conn_admit(l->o.server, conn)) {
        limit = MRD_LIMIT_CONNECTIONS;
        mrd_why_set(
            &why, MRD_LIMIT, 0,
            "%u agents are connected, which is the limit (--advanced.max-connections, else a "
            "third of the open files allowed): '%s' waits until one leaves",
            mrd_server_max_connections(l->o.server), hello->instance_id);
    }
    if (why.err != MRD_OK) {
        mrd_core_hello_refused(l->core, mrd_loop_now(), ticket, limit, &why);
        return;
    }
    known = mrd_nodes_by_id(&l->core->nodes, hello->instance_id);
    if (known != NULL && known->conn != 0 && known->conn != conn &&
        !mrd_server_conn_alive(l->o.server, known->conn)) {
        mrd_core_conn_gone(l->core, mrd_loop_now(), known->conn);
        mrd_loop_carry(l);
    }
    mrd_core_hello(l->core, mrd_loop_now(), ticket, conn, msg);
}

/* ---- The others ---- */

static void
on_probe(mrd_loop *l, uint64_t ticket, const mrd_msg *msg, mrd_local_ns received)
{
    Mrd__ProbeReply reply = MRD__PROBE_REPLY__INIT;
    mrd_timescale *t = &l->core->timescale;

    reply.k = msg->u.probe->k;
    reply.r2 = received.ns + t->offset;
    reply.boot_id = t->timeline;
    reply.r3 = mrd_local_now().ns + t->offset;
    mrd_loop_reply(l, ticket, MRD_FRAME_PROBE_REPLY, &reply);
}

static void
refuse_announced(mrd_loop *l, uint64_t ticket, mrd_node *n, mrd_why *why)
{
    Mrd__ArtifactRequest request = MRD__ARTIFACT_REQUEST__INIT;

    if (why->err == MRD_FULL)
        mrd_core_limited(l->core, mrd_loop_now(), n, MRD_LIMIT_DISK);
    request.err = (uint32_t) why->err;
    request.message = why->text;
    request.retry_after_ms = why->err == MRD_FULL || why->err == MRD_AGAIN ? 1000 : 0;
    mrd_loop_reply(l, ticket, MRD_FRAME_REQUEST, &request);
}

/* The artifacts' threads answer the request. */
static void
pass_on(mrd_loop *l, uint64_t ticket, const mrd_node *n, mrd_msg *msg)
{
    mrd_server_request request;

    if (mrd_loop_take_request(l, ticket, &request) &&
        !mrd_artifacts_take(l->artifacts, &request, msg, n->instance_id))
        mrd_server_drop(l->o.server, &request); /* its transport repeats it */
}

static void
on_artifact(mrd_loop *l, uint64_t ticket, mrd_node *n, mrd_msg *msg, size_t len)
{
    uint8_t type = msg->frame.type;
    mrd_why why = { 0 };
    uint32_t wait_ms;

    if (type == MRD_FRAME_ANNOUNCE) {
        if (mrd_core_artifact_announced(l->core, mrd_loop_now(), n, msg->frame.session,
                                        msg->u.announce, &why) == MRD_OK)
            pass_on(l, ticket, n, msg);
        else
            refuse_announced(l, ticket, n, &why);
        return;
    }
    wait_ms = type == MRD_FRAME_DONE ? 0 : mrd_core_rate_wait(l->core, mrd_loop_now(), n, len);
    if (wait_ms > 0)
        reply_slow_down(l, ticket, wait_ms);
    else
        pass_on(l, ticket, n, msg);
}

static void
on_message(mrd_loop *l, uint64_t ticket, uint32_t conn, mrd_node *n, const mrd_frame *f,
           mrd_bytes body, mrd_local_ns received)
{
    mrd_why why = { 0 };
    mrd_msg msg;

    if (mrd_msg_unpack_body(f, body, &msg, &why) != MRD_OK) {
        mrd_core_bad_frame(l->core, mrd_loop_now(), ticket, &why);
        return;
    }
    if (f->type == MRD_FRAME_HELLO)
        on_hello(l, ticket, conn, &msg);
    else if (f->type == MRD_FRAME_PROBE)
        on_probe(l, ticket, &msg, received);
    else if (f->type == MRD_FRAME_HEARTBEAT)
        mrd_core_heartbeat(l->core, mrd_loop_now(), ticket, n, msg.u.heartbeat, received);
    else if (f->type == MRD_FRAME_JOB)
        mrd_core_job(l->core, mrd_loop_now(), ticket, n, msg.u.job);
    else if (f->type == MRD_FRAME_ANNOUNCE || f->type == MRD_FRAME_CHUNK ||
             f->type == MRD_FRAME_DONE)
        on_artifact(l, ticket, n, &msg, body.len);
    else {
        mrd_why_set(&why, MRD_TYPE, 0, "an aggregator does not accept frames of this type");
        mrd_core_refuse_frame(l->core, mrd_loop_now(), ticket, &why);
    }
    mrd_msg_free(&msg);
}

/* Between sessions clock data only updates the live estimate. */
static void
on_clock_data(mrd_loop *l, uint64_t ticket, mrd_node *n, mrd_frame *f, mrd_bytes data)
{
    Mrd__Ack ack = MRD__ACK__INIT;
    mrd_why why = { 0 };

    if (mrd_loop_clock_data(l, n, f, data, &why) == MRD_OK)
        mrd_loop_reply(l, ticket, MRD_FRAME_ACK, &ack); /* STORED: forget it */
    else
        mrd_core_refuse_frame(l->core, mrd_loop_now(), ticket, &why);
}

static void
on_bad_frame(mrd_loop *l, uint64_t ticket, const mrd_why *why)
{
    if (why->err == MRD_VERSION)
        mrd_core_hello_refused(l->core, mrd_loop_now(), ticket, MRD_LIMIT_NONE, why);
    else
        mrd_core_bad_frame(l->core, mrd_loop_now(), ticket, why);
}

void
mrd_loop_request(mrd_loop *l, mrd_server_request *request)
{
    mrd_local_ns received = request->at;
    uint32_t conn = request->conn;
    mrd_bytes data = request->data, body;
    uint64_t ticket = put_request(l, request);
    mrd_why why = { 0 };
    mrd_node *n = NULL;
    mrd_frame f;

    if (ticket == 0) { /* more requests than the server's contexts, so the agent will repeat it */
        mrd_server_drop(l->o.server, request);
        return;
    }
    if (mrd_frame_check(data, &f, &body, &why) != MRD_OK) {
        on_bad_frame(l, ticket, &why);
        return;
    }
    if (!mrd_core_sender(l->core, mrd_loop_now(), ticket, conn, &f, &n))
        return;
    if (f.type == MRD_FRAME_CLOCK_DATA && f.session == 0)
        on_clock_data(l, ticket, n, &f, data);
    else if (f.type == MRD_FRAME_BATCH || f.type == MRD_FRAME_CLOCK_DATA)
        mrd_core_numbered(l->core, mrd_loop_now(), ticket, n, &f, data.len, received);
    else
        on_message(l, ticket, conn, n, &f, body, received);
}
