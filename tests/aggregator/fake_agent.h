/*
 * tests/aggregator/fake_agent.h - a minimal agent in a thread. It sends hello and heartbeats and
 * obeys control messages. While a session records it sends numbered batches and keeps each until it
 * is acknowledged.
 */
#ifndef MRD_TESTS_FAKE_AGENT_H
#define MRD_TESTS_FAKE_AGENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "proto/batch/batch.h"
#include "proto/link.h"
#include "proto/wire.h"
#include "tests/check.h"
#include "tests/wait.h"
#include "timesync/probe.h"

#define FAKE_KEEP 4096 /* maximum number of batches of one session */

typedef struct {
    /* set before start */
    const char *id, *data_url, *control_url, *token, *refuse;
    const char *_Atomic note; /* reason for a trigger, sent with each heartbeat */
    bool no_surveys;          /* ignores triggers of the control connection */
    /* number of first surveys to ignore, as if the control connection was late */
    unsigned late_by;
    uint32_t events;   /* per batch */
    unsigned batches;  /* number of batches per session; 0 means until the session ends */
    unsigned pause_ms; /* between two batches */
    uint64_t run;
    int64_t
        /* The first frame has probes of a clock that is behind the aggregator's clock by this many
         * ns. 0 means no probes. */
        probe_offset_ns;
    mrd_link_tls tls;
    /* read after */
    _Atomic uint64_t begun, delivered, duplicates, refused, slowed, not_stored, hello_first, failed;
    _Atomic bool welcomed, turned_away, quit, deaf;
    _Atomic int phase;
    _Atomic unsigned triggers, repeated; /* distinct triggers; repeated triggers */
    _Atomic unsigned beats;              /* answered heartbeats */
    /* ids of the received triggers; each is stored before the count is incremented */
    uint64_t trigger[16];
    char message[256];
    /* its own */
    pthread_t thread;
    mrd_link *link;
    mrd_catalog *cat;
    mrd_codec *codec;
    mrd_batch *batch;
    mrd_track_id track;
    mrd_sid name;
    uint64_t session, epoch, next_seq;
    mrd_buf kept[FAKE_KEEP]; /* sent batches, indexed by sequence number; freed when acknowledged */
    bool in_flight[FAKE_KEEP], acked[FAKE_KEEP];
    uint32_t counts[FAKE_KEEP];
    int64_t last_beat_ns, last_begin_ns, started_ns, retry_ns, ts_ns;
    bool stopping, hello_wanted, up;
} fake_agent;

enum { FAKE_TAG_HELLO = 1ull << 40, FAKE_TAG_BEAT };

static void
fake_send(fake_agent *a, uint64_t tag, uint8_t type, const void *message)
{
    mrd_frame f = { .type = type, .agent = mrd_agent_key(mrd_str_of(a->id)), .epoch = a->epoch };
    mrd_buf wire = { 0 };

    if (mrd_msg_pack(&f, message, &wire, NULL) == MRD_OK)
        (void) mrd_link_submit_urgent(a->link, tag, (mrd_bytes){ wire.p, wire.len });
    mrd_buf_fini(&wire);
}

static void
fake_hello(fake_agent *a)
{
    Mrd__Hello h = MRD__HELLO__INIT;
    char id[256], token[256], boot[] = "boot-1", host[] = "test-host", release[] = "test";

    snprintf(id, sizeof(id), "%s", a->id);
    snprintf(token, sizeof(token), "%s", a->token == NULL ? "" : a->token);
    h.wire_major = MRD_WIRE_MAJOR;
    h.instance_id = id;
    h.token = token;
    h.boot_id = boot;
    h.host_name = host;
    h.release = release;
    h.run = a->run;
    h.epoch = a->epoch;
    h.local_ns = mrd_local_now().ns;
    h.wall_ns = mrd_wall_now().ns;
    h.simulated = true;
    a->hello_wanted = false;
    fake_send(a, FAKE_TAG_HELLO, MRD_FRAME_HELLO, &h);
}

static void
fake_beat(fake_agent *a)
{
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT, *list[1] = { &st };
    Mrd__Counters c = MRD__COUNTERS__INIT;
    Mrd__Label note = MRD__LABEL__INIT, *notes[1] = { &note };
    char state[] = "ok", key[] = "trigger", reason[64];

    snprintf(reason, sizeof(reason), "%s", a->note == NULL ? "" : a->note);

    c.begun = a->begun;
    c.delivered = a->delivered;
    c.held = c.begun - c.delivered;
    c.since = a->run;
    st.session = a->session;
    st.phase = (Mrd__NodePhase) (int) a->phase;
    st.last_seq = a->next_seq;
    st.counters = &c;
    st.started_local_ns = a->started_ns;
    st.triggers = a->trigger;
    st.n_triggers = a->triggers;
    note.key = key;
    note.value = reason;
    hb.notes = notes;
    hb.n_notes = a->note != NULL;
    hb.state = state;
    hb.local_ns = mrd_local_now().ns;
    hb.counters = &c;
    hb.sessions = list;
    hb.n_sessions = a->session == 0 ? 0 : 1;
    a->last_beat_ns = hb.local_ns;
    fake_send(a, FAKE_TAG_BEAT, MRD_FRAME_HEARTBEAT, &hb);
}

static void
fake_trigger(fake_agent *a, uint64_t id)
{
    for (unsigned i = 0; i < a->triggers; i++) {
        if (a->trigger[i] == id) {
            a->repeated++;
            return;
        }
    }
    if (a->triggers == 16)
        return;
    a->trigger[a->triggers] = id;
    a->triggers++;
}

static void
fake_obey(fake_agent *a, const Mrd__Control *c)
{
    if (c->type == MRD__CONTROL_TYPE__CONTROL_TRIGGER && c->session == a->session) {
        fake_trigger(a, c->trigger->id);
        return;
    }
    if (c->type == MRD__CONTROL_TYPE__CONTROL_ARM && a->refuse == NULL) {
        a->session = c->session;
        a->phase = MRD__NODE_PHASE__NODE_ARMED;
    } else if (c->type == MRD__CONTROL_TYPE__CONTROL_GO && a->refuse == NULL &&
               a->phase != MRD__NODE_PHASE__NODE_RECORDING) {
        a->session = c->session;
        a->phase = MRD__NODE_PHASE__NODE_RECORDING;
        a->started_ns = mrd_local_now().ns;
    } else if (c->type == MRD__CONTROL_TYPE__CONTROL_STOP && c->session == a->session &&
               a->phase == MRD__NODE_PHASE__NODE_RECORDING) {
        a->phase = MRD__NODE_PHASE__NODE_STOPPING;
        a->last_beat_ns = 0;
    }
}

static void
fake_survey(fake_agent *a, const mrd_link_event *ev)
{
    Mrd__ControlReply r = MRD__CONTROL_REPLY__INIT;
    mrd_frame f = { .type = MRD_FRAME_CONTROL_REPLY };
    char id[256], why[256];
    mrd_buf wire = { 0 };
    mrd_msg msg;

    if (a->late_by > 0) {
        a->late_by--;
        return;
    }
    if (mrd_msg_unpack(ev->data, &msg, NULL) == MRD_OK && msg.frame.type == MRD_FRAME_CONTROL) {
        snprintf(id, sizeof(id), "%s", a->id);
        snprintf(why, sizeof(why), "%s", a->refuse == NULL ? "" : a->refuse);
        if (!a->no_surveys || msg.u.control->type != MRD__CONTROL_TYPE__CONTROL_TRIGGER)
            fake_obey(a, msg.u.control);
        r.instance_id = id;
        r.session = msg.u.control->session;
        r.type = msg.u.control->type;
        r.selected = true;
        r.run = a->run;
        r.phase =
            a->refuse != NULL ? MRD__NODE_PHASE__NODE_REFUSED : (Mrd__NodePhase) (int) a->phase;
        r.err = a->refuse != NULL ? MRD_STATE : 0;
        r.message = why;
        mrd_msg_pack(&f, &r, &wire, NULL);
        mrd_msg_free(&msg);
    }
    mrd_link_answer(a->link, ev->tag, (mrd_bytes){ wire.p, wire.len });
    mrd_buf_fini(&wire);
}

static void
fake_ack(fake_agent *a, uint64_t seq, const Mrd__Ack *ack)
{
    a->in_flight[seq] = false;
    switch (ack->status) {
    case MRD__ACK_STATUS__ACK_STORED:
    case MRD__ACK_STATUS__ACK_DUPLICATE:
        if (!a->acked[seq]) {
            a->acked[seq] = true;
            a->delivered += a->counts[seq];
            mrd_buf_fini(&a->kept[seq]);
        }
        a->duplicates += ack->status == MRD__ACK_STATUS__ACK_DUPLICATE;
        break;
    case MRD__ACK_STATUS__ACK_HELLO_FIRST:
        a->hello_first++;
        a->hello_wanted = true;
        break;
    case MRD__ACK_STATUS__ACK_REFUSED:
        a->refused++;
        snprintf(a->message, sizeof(a->message), "%s", ack->message);
        break;
    default:
        a->slowed += ack->status == MRD__ACK_STATUS__ACK_SLOW_DOWN;
        a->not_stored += ack->status == MRD__ACK_STATUS__ACK_NOT_STORED;
        a->retry_ns =
            mrd_local_now().ns + (ack->retry_after_ms > 50 ? 50 : ack->retry_after_ms) * MRD_MS;
    }
}

static void
fake_reply(fake_agent *a, const mrd_link_event *ev)
{
    mrd_msg msg;
    mrd_why why = { 0 };

    if (mrd_msg_unpack(ev->data, &msg, &why) != MRD_OK) {
        fprintf(stderr, "agent %s: %s\n", a->id, why.text);
        return;
    }
    if (msg.frame.type == MRD_FRAME_WELCOME) {
        a->welcomed = true;
        for (size_t i = 0; i < msg.u.welcome->n_directives; i++)
            fake_obey(a, msg.u.welcome->directives[i]);
    } else if (msg.frame.type == MRD_FRAME_REFUSE) {
        snprintf(a->message, sizeof(a->message), "%s", msg.u.refuse->message);
        a->turned_away = true;
    } else if (msg.frame.type == MRD_FRAME_ACK && ev->tag < FAKE_KEEP) {
        fake_ack(a, ev->tag, msg.u.ack);
    } else if (msg.frame.type == MRD_FRAME_ACK) {
        if (msg.u.ack->status == MRD__ACK_STATUS__ACK_HELLO_FIRST)
            a->hello_wanted = true;
        for (size_t i = 0; i < msg.u.ack->n_directives; i++)
            fake_obey(a, msg.u.ack->directives[i]);
        a->beats++;
    }
    mrd_msg_free(&msg);
}

static void
fake_event(fake_agent *a, mrd_link_event *ev)
{
    if (ev->kind == MRD_LINK_UP || ev->kind == MRD_LINK_DOWN) {
        a->up = ev->kind == MRD_LINK_UP;
        a->hello_wanted = a->up;
    } else if (ev->kind == MRD_LINK_REPLY && a->deaf && ev->tag < FAKE_KEEP) {
        /* imitates a lost acknowledgement, so the batch is sent again */
        a->in_flight[ev->tag] = false;
    } else if (ev->kind == MRD_LINK_REPLY) {
        fake_reply(a, ev);
    } else if (ev->kind == MRD_LINK_CONTROL) {
        fake_survey(a, ev);
    } else if (ev->kind == MRD_LINK_FAILED) {
        a->failed++;
        if (ev->tag < FAKE_KEEP)
            a->in_flight[ev->tag] = false;
        else if (ev->tag == FAKE_TAG_HELLO)
            a->hello_wanted = a->up;
    }
    mrd_link_event_done(ev);
}

/* Returns numbers that cannot be compressed. */
static uint64_t
fake_scramble(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (x ^ x >> 32) | 1;
}

/* Sends 400 complete probes of the last 200 s: 5 us forward, 2 us at the server, 5 us back. */
static void
fake_probes(fake_agent *a, mrd_frame *f)
{
    Mrd__ClockData data = MRD__CLOCK_DATA__INIT;
    mrd_buf joined = { 0 };

    for (uint32_t k = 0; k < 400; k++) {
        int64_t at = mrd_local_now().ns - (400 - k) * 500 * MRD_MS;
        mrd_probe p = { .id = { f->agent, 1, k },
                        .a1 = at,
                        .r2 = at + a->probe_offset_ns + 5000,
                        .r3 = at + a->probe_offset_ns + 7000,
                        .a4 = at + 12000,
                        .e = 100,
                        .position = k % 2,
                        .source_up = MRD_STAMP_NNG,
                        .source_down = MRD_STAMP_NNG,
                        .up = true,
                        .down = true };

        mrd_probe_encode(&p, &joined);
    }
    data.joined = (ProtobufCBinaryData){ joined.len, joined.p };
    f->type = MRD_FRAME_CLOCK_DATA;
    if (mrd_msg_pack(f, &data, &a->kept[f->seq], NULL) != MRD_OK)
        abort();
    mrd_buf_fini(&joined);
    a->next_seq++;
}

/* Stops and starts are announced ahead of their time. With a fixed number of batches all lie before
 * the stop, at whatever time the agent receives it. */
static bool
fake_has_more(const fake_agent *a)
{
    if (a->batches > 0)
        return a->next_seq < a->batches && (a->phase == MRD__NODE_PHASE__NODE_RECORDING ||
                                            a->phase == MRD__NODE_PHASE__NODE_STOPPING);
    return a->phase == MRD__NODE_PHASE__NODE_RECORDING;
}

/* Sends one more batch of events if the session continues. */
static void
fake_begin(fake_agent *a)
{
    uint64_t seq = a->next_seq;
    mrd_frame f = { .agent = mrd_agent_key(mrd_str_of(a->id)),
                    .epoch = a->epoch,
                    .session = a->session,
                    .seq = seq };

    if (seq == FAKE_KEEP || !fake_has_more(a))
        return;
    if (seq == 0 && a->probe_offset_ns != 0) {
        fake_probes(a, &f);
        return;
    }
    if (a->ts_ns == 0)
        a->ts_ns = mrd_local_now().ns;
    for (uint32_t i = 0; i < a->events; i++) {
        mrd_event ev = { .kind = MRD_SPAN,
                         .ts = { a->ts_ns += 1000 },
                         .dur_ns = 500,
                         .track = a->track,
                         .name = a->name,
                         .id = fake_scramble(a->begun + 1) };

        if (mrd_batch_push(a->batch, &ev) != MRD_OK)
            abort();
        a->begun++;
    }
    a->counts[seq] = a->events;
    if (mrd_batch_encode(a->batch, a->codec, MRD_CODEC_ZSTD, &f, &a->kept[seq], NULL) != MRD_OK)
        abort();
    a->next_seq++;
}

static void
fake_work(fake_agent *a)
{
    int64_t now = mrd_local_now().ns;
    bool all = true;

    if (a->hello_wanted && a->up)
        fake_hello(a);
    if (a->welcomed && now - a->last_beat_ns > 50 * MRD_MS)
        fake_beat(a);
    if (mrd_link_free_slots(a->link) > 0 && now - a->last_begin_ns >= a->pause_ms * MRD_MS) {
        a->last_begin_ns = now;
        fake_begin(a);
    }
    for (uint64_t s = 0; s < a->next_seq; s++) {
        if (a->acked[s])
            continue;
        all = false;
        if (!a->in_flight[s] && now >= a->retry_ns &&
            mrd_link_submit(a->link, s, (mrd_bytes){ a->kept[s].p, a->kept[s].len }) == MRD_OK)
            a->in_flight[s] = true;
    }
    if (all && a->phase == MRD__NODE_PHASE__NODE_STOPPING && !fake_has_more(a)) {
        a->phase = MRD__NODE_PHASE__NODE_FLUSHED;
        fake_beat(a);
    }
}

static void *
fake_run(void *arg)
{
    fake_agent *a = arg;
    mrd_link_event ev;

    while (!a->quit) {
        if (mrd_link_next(a->link, 5, &ev))
            fake_event(a, &ev);
        fake_work(a);
    }
    return NULL;
}

static void
fake_start(fake_agent *a)
{
    mrd_link_options o = { .data_url = a->data_url,
                           .control_url = a->control_url,
                           .tls = a->tls,
                           .window = 4,
                           .reply_ns = 10 * MRD_SEC,
                           .resend_ns = MRD_SEC,
                           .reconnect_min_ns = 10 * MRD_MS,
                           .reconnect_max_ns = 100 * MRD_MS };
    mrd_why why = { 0 };
    mrd_process p;
    mrd_track t;

    a->cat = mrd_catalog_new();
    a->codec = mrd_codec_new();
    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(a->cat, a->id);
    p.process_id = 4711;
    p.flags = MRD_PROC_SIMULATED;
    mrd_track_init(&t, mrd_catalog_process(a->cat, &p), MRD_SRC_RUNTIME);
    t.thread_id = 1;
    a->track = mrd_catalog_track(a->cat, &t);
    a->name = mrd_catalog_intern(a->cat, "nrt_execute");
    a->batch = mrd_batch_new(a->cat, 0, 0, a->events);
    if (a->run == 0)
        a->run = (uint64_t) (uintptr_t) a;
    if (a->epoch == 0)
        a->epoch = a->run;
    if (mrd_link_open(&o, &a->link, &why) != MRD_OK) {
        fprintf(stderr, "%s\n", why.text);
        abort();
    }
    pthread_create(&a->thread, NULL, fake_run, a);
}

static void
fake_end(fake_agent *a)
{
    a->quit = true;
    pthread_join(a->thread, NULL);
    mrd_link_close(a->link);
    mrd_batch_free(a->batch);
    mrd_codec_free(a->codec);
    mrd_catalog_free(a->cat);
    for (unsigned i = 0; i < FAKE_KEEP; i++)
        mrd_buf_fini(&a->kept[i]);
}

#endif
