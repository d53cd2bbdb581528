#include "aggregator/ingest_int.h"

#include <stdio.h>

#include "base/log.h"
#include "base/num.h"
#include "base/obj.h"

#define DIRECTIVES_MAX 16

/* ---- Hello ---- */

/* The certificate of the connection and the token of the hello, as far as each is wanted. */
static mrd_err
identity_check(hub *h, uint32_t conn, const Mrd__Hello *hello, mrd_why *why)
{
    char names[256];

    if (h->cert_identity &&
        !mrd_server_peer_is(h->server, conn, hello->instance_id, names, sizeof(names)))
        return mrd_why_set(why, MRD_AUTH, 0,
                           "agent '%s' shows the certificate of '%s': an agent may publish only "
                           "as an instance that its certificate names (meridian certs agent %s)",
                           hello->instance_id, names, hello->instance_id);
    if (h->auth != NULL &&
        !mrd_auth_agent(h->auth, mrd_str_of(hello->token), mrd_str_of(hello->instance_id)))
        return mrd_why_set(why, MRD_AUTH, 0, "agent '%s' shows %s", hello->instance_id,
                           hello->token[0] == '\0' ? "no token"
                                                   : "a token that may not publish as it");
    return MRD_OK;
}

static mrd_err
hello_check(ingest *in, const mrd_msg *msg, uint32_t conn, mrd_why *why)
{
    const Mrd__Hello *hello = msg->u.hello;
    hub *h = in->h;
    const hub_node *known;
    mrd_err err;

    if (hello->wire_major != MRD_WIRE_MAJOR)
        return mrd_why_set(
            why, MRD_VERSION, 0,
            "agent '%s' (release %s) speaks wire version %u, this aggregator speaks %u: "
            "update the older",
            hello->instance_id, hello->release, hello->wire_major, MRD_WIRE_MAJOR);
    if (!mrd_instance_id_valid(mrd_str_of(hello->instance_id)))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "'%.200s' is no instance id: 1 to 128 letters, digits, '.', '_' or '-'",
                           hello->instance_id);
    if (msg->frame.agent != mrd_agent_key(mrd_str_of(hello->instance_id)))
        return mrd_why_set(why, MRD_CORRUPT, 0, "agent '%s' sends another agent's key",
                           hello->instance_id);
    if ((err = identity_check(h, conn, hello, why)) != MRD_OK)
        return err;
    if (!mrd_server_conn_admit(h->server, conn)) {
        h->stats.limited[LIMIT_CONNECTIONS]++;
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "%u agents are connected, which is the limit (--max-connections, else a "
                           "third of the open files allowed): '%s' waits until one leaves",
                           mrd_server_max_connections(h->server), hello->instance_id);
    }
    known = hub_node_by_id(h, hello->instance_id);
    if (known == NULL && !hub_node_room(h)) {
        h->stats.limited[LIMIT_NODES]++;
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "agent '%s' is one more than the %lld that --max-nodes allows, and none "
                           "of them is gone for longer than --node-forget",
                           hello->instance_id, (long long) h->limits.max_nodes);
    }
    if (known != NULL && known->run != hello->run && hub_node_alive(h, known) &&
        mrd_server_conn_alive(h->server, known->conn))
        return mrd_why_set(
            why, MRD_EXISTS, 0,
            "instance id '%s' is in use by another agent (host '%s'), this one runs on "
            "'%s': give one of them another --instance-id",
            hello->instance_id, known->host_name, hello->host_name);
    for (size_t i = 0; i < h->n_nodes; i++) {
        if (h->nodes[i]->key == msg->frame.agent && h->nodes[i] != known)
            return mrd_why_set(why, MRD_EXISTS, 0,
                               "the key of instance id '%s' is that of '%s': choose another",
                               hello->instance_id, h->nodes[i]->instance_id);
    }
    return MRD_OK;
}

static void
node_hello(hub_node *n, const mrd_msg *msg)
{
    const Mrd__Hello *hello = msg->u.hello;

    n->key = msg->frame.agent;
    n->run = hello->run;
    n->epoch = hello->epoch;
    n->simulated = hello->simulated;
    n->hello_local_ns = hub_time(hello->local_ns);
    n->hello_wall_ns = hub_time(hello->wall_ns);
    hub_copy(n->boot_id, sizeof(n->boot_id), hello->boot_id);
    hub_copy(n->host_name, sizeof(n->host_name), hello->host_name);
    hub_copy(n->release, sizeof(n->release), hello->release);
    mrd_strlist_fini(&n->labels);
    for (size_t i = 0; i < hello->n_labels && i < 64; i++) {
        char text[HUB_TEXT_MAX];

        snprintf(text, sizeof(text), "%s=%s", hello->labels[i]->key, hello->labels[i]->value);
        if (mrd_strlist_add(&n->labels, mrd_str_of(text)) != MRD_OK)
            return;
    }
}

static void
reply_welcome(ingest *in, mrd_server_request *request, const hub_node *n)
{
    hub *h = in->h;
    control_message told[DIRECTIVES_MAX];
    Mrd__Control *list[DIRECTIVES_MAX];
    Mrd__Welcome w = MRD__WELCOME__INIT;
    char release[] = MRD_RELEASE;
    uint8_t key[MRD_PROBE_KEY_LEN];

    w.wire_major = MRD_WIRE_MAJOR;
    w.wire_minor = MRD_WIRE_MINOR;
    w.release = release;
    w.aggregator_id = h->id;
    w.boot_id = h->timeline;
    w.heartbeat_ms = 1000;
    w.max_frame = MRD_FRAME_MAX;
    w.max_events = MRD_BATCH_EVENTS;
    w.window = 8;
    memcpy(key, n->probe_key, sizeof(key));
    w.time_port = clocks_port(h);
    w.probe_key = (ProtobufCBinaryData){ sizeof(key), key };
    w.local_ns = mrd_local_now().ns;
    w.wall_ns = mrd_wall_now().ns;
    w.session_offset_ns = h->session_offset_ns;
    w.n_directives = control_directives(h, n, NULL, told, DIRECTIVES_MAX);
    for (size_t i = 0; i < w.n_directives; i++)
        list[i] = &told[i].control;
    w.directives = list;
    ingest_reply(in, request, MRD_FRAME_WELCOME, &w);
    for (size_t i = 0; i < w.n_directives; i++)
        control_message_fini(&told[i]);
}

void
ingest_hello(ingest *in, mrd_server_request *request, const mrd_msg *msg)
{
    hub *h = in->h;
    mrd_why why = { 0 };
    hub_node *n;

    if (hello_check(in, msg, request->conn, &why) != MRD_OK) {
        ingest_refuse(in, request, &why, why.err != MRD_LIMIT && why.err != MRD_EXISTS);
        return;
    }
    if ((n = hub_node_by_id(h, msg->u.hello->instance_id)) == NULL &&
        (n = hub_node_add(h, msg->u.hello->instance_id)) == NULL) {
        mrd_server_drop(h->server, request);
        return;
    }
    if (n->conn != request->conn)
        mrd_log(MRD_LOG_INFO, "AGG-NODE-UP", "Agent connected: node=%s host=%s release=%s",
                n->instance_id, msg->u.hello->host_name, msg->u.hello->release);
    hub_node_connect(h, n, request->conn);
    if (strcmp(n->boot_id, msg->u.hello->boot_id) != 0)
        clocks_forget(n); /* another boot, another clock */
    node_hello(n, msg);
    n->proof_epoch = h->proof_epoch;
    clocks_hello(h, n);
    n->seen_ns = mrd_local_now().ns;
    n->seen_wall_ns = mrd_wall_now().ns;
    h->known.changed = h->known.changed || !n->heard || n->forget;
    n->heard = true;
    n->forget = false;
    h->stats.hellos++;
    reply_welcome(in, request, n);
}

/* ---- Heartbeats ---- */

/* The agent repeats all of them each time; a session that asked for none has none. */
static void
part_profiles(hub_part *p, const Mrd__SessionStatus *st)
{
    mrd_json *list;

    if (st->n_device_profiles == 0)
        return;
    list = mrd_json_new_array();
    for (size_t i = 0; i < st->n_device_profiles && i < HUB_PROFILES_MAX; i++) {
        const Mrd__DeviceProfile *d = st->device_profiles[i];
        mrd_json *o = mrd_json_new_object();

        mrd_json_set(o, "process_id", mrd_json_new_int(d->process_id));
        if (d->nc_idx >= 0)
            mrd_json_set(o, "lnc_idx", mrd_json_new_int(d->nc_idx));
        mrd_json_set(o, "state", mrd_json_new_str(d->state));
        mrd_json_set(o, "written", mrd_json_new_int(d->count));
        if (*d->sentence != '\0')
            mrd_json_set(o, "sentence", mrd_json_new_str(d->sentence));
        mrd_json_append(list, o);
    }
    mrd_json_free(p->device_profiles);
    p->device_profiles = list;
}

static void
part_heartbeat(hub_session *s, hub_part *p, const hub_node *n, const Mrd__SessionStatus *st)
{
    part_epoch *e;

    part_count(p, st->counters);
    part_tally(p, st->tally);
    if (st->started_local_ns != 0) {
        p->started_local_ns = hub_time(st->started_local_ns);
        p->start_bound_ns = mrd_time_sane(st->start_bound_ns) ? st->start_bound_ns : -1;
    }
    if (st->stopped_local_ns != 0)
        p->stopped_local_ns = hub_time(st->stopped_local_ns);
    if (hub_time(st->complete_local_ns) > p->complete_local_ns)
        p->complete_local_ns = hub_time(st->complete_local_ns);
    p->clock = n->clock;
    if (n->has_reading) { /* none yet since our start: what the manifest had stays */
        p->has_reading = true;
        p->reading = n->reading;
    }
    if (s->device_profiles[0] != '\0')
        part_profiles(p, st);
    if (st->last_seq > 0 && (e = part_epoch_of(p, n->epoch)) != NULL && st->last_seq > e->end)
        e->end = st->last_seq;
    switch (st->phase) {
    case MRD__NODE_PHASE__NODE_ARMED:
        p->state = PART_ARMED;
        break;
    case MRD__NODE_PHASE__NODE_RECORDING:
        if (p->state == PART_REFUSED || p->state == PART_MISSING) /* silent when asked, or away */
            hub_copy(p->sentence, sizeof(p->sentence), "joined late");
        p->err = MRD_OK;
        p->state = PART_RECORDING;
        break;
    case MRD__NODE_PHASE__NODE_STOPPING:
        p->state = PART_STOPPING;
        break;
    case MRD__NODE_PHASE__NODE_FLUSHED:
        p->state = PART_FLUSHED;
        break;
    case MRD__NODE_PHASE__NODE_REFUSED:
        p->state = PART_REFUSED;
        p->err = (mrd_err) st->err;
        hub_copy(p->sentence, sizeof(p->sentence), st->sentence);
        break;
    default:
        break;
    }
    if (p->state != PART_LOST)
        p->lost_wall_ns = 0;
    control_heard(s, p, st->triggers, st->n_triggers);
    s->dirty = true;
}

/* An agent repeats its note for a while; what changes is new. */
static void
take_notes(hub *h, hub_node *n, const Mrd__Heartbeat *hb)
{
    const char *note = "", *at = "";

    for (size_t i = 0; i < hb->n_notes; i++) {
        if (strcmp(hb->notes[i]->key, "trigger") == 0)
            note = hb->notes[i]->value;
        else if (strcmp(hb->notes[i]->key, "trigger-at") == 0)
            at = hb->notes[i]->value;
    }
    if (*note != '\0' && (strncmp(note, n->noted, sizeof(n->noted) - 1) != 0 ||
                          strncmp(at, n->noted_at, sizeof(n->noted_at) - 1) != 0))
        control_noted(h, n, note);
    hub_copy(n->noted, sizeof(n->noted), note);
    hub_copy(n->noted_at, sizeof(n->noted_at), at);
}

void
ingest_heartbeat(ingest *in, mrd_server_request *request, hub_node *n, const mrd_msg *msg,
                 int64_t received_ns)
{
    const Mrd__Heartbeat *hb = msg->u.heartbeat;
    control_message told[DIRECTIVES_MAX];
    Mrd__Control *list[DIRECTIVES_MAX];
    Mrd__Ack ack = MRD__ACK__INIT;
    Mrd__ClockEstimate estimate;
    char state[24];
    hub *h = in->h;

    hub_copy(n->state, sizeof(n->state), hb->state);
    hub_counters_take(&n->counters, hb->counters);
    n->counted_ns = hub_time(hb->local_ns);
    hub_clock_take(&n->clock, hb->clock);
    n->rings = hb->rings;
    n->processes = hb->processes;
    n->spool_bytes = hub_count(hb->spool_bytes);
    n->memory_bytes = hub_count(hb->memory_bytes);
    h->stats.heartbeats++;
    for (size_t i = 0; i < hb->n_sessions; i++) {
        hub_session *s = hub_session_by_id(h, hb->sessions[i]->session);
        hub_part *p = s == NULL || !hub_session_open(s) ? NULL : hub_part_of(s, n->instance_id);

        if (p == NULL && s != NULL && hub_session_open(s))
            p = hub_part_add(s, n);
        if (p != NULL)
            part_heartbeat(s, p, n, hb->sessions[i]);
    }
    take_notes(h, n, hb);
    clocks_causality(h, n, &n->causality, hb->local_ns, received_ns, false);
    if (hb->answered_ns != 0 && hb->answer_raw_ns != 0)
        clocks_causality(h, n, &n->causality, hb->answered_ns, hb->answer_raw_ns, true);
    ack.n_directives = control_directives(h, n, hb, told, DIRECTIVES_MAX);
    for (size_t i = 0; i < ack.n_directives; i++)
        list[i] = &told[i].control;
    ack.directives = list;
    if (clocks_live(h, n, hb->local_ns, &estimate, state)) {
        ack.clock = &estimate;
        n->clock.offset_ns = estimate.offset_ns;
        n->clock.bound_ns = estimate.bound_ns;
        hub_copy(n->clock.state, sizeof(n->clock.state), state);
    }
    ack.local_ns = received_ns;
    ack.reply_local_ns = mrd_local_now().ns;
    ingest_reply(in, request, MRD_FRAME_ACK, &ack);
    for (size_t i = 0; i < ack.n_directives; i++)
        control_message_fini(&told[i]);
    pthread_cond_broadcast(&h->changed);
}
