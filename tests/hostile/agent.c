/*
 * tests/hostile/agent.c - a hostile agent: it sends valid frames with right checksums, but absurd
 * contents, in any order. usage: hostile_agent SEED SECONDS DATA-URL CONTROL-URL OTHER-NODE...
 *
 * It sends one request at a time and ignores the reply, but records which sessions run. At the end
 * it prints its statistics.
 */
#include <stdlib.h>
#include <time.h>

#include "proto/batch/batch.h"
#include "proto/link.h"
#include "proto/wire.h"
#include "tests/hostile/draw.h"
#include "tests/hostile/udp.h"
#include "timesync/probe.h"

#define SESSIONS 16
#define ANSWER   (500 * MRD_MS) /* it does not wait longer */

typedef struct {
    draws d;
    const char *data, *control, *const *others;
    unsigned n_others;
    char id[64];
    const char *as; /* the node name that it uses at present */
    mrd_link *link;
    uint64_t run, epoch, seq, sessions[SESSIONS], tag;
    unsigned n_sessions, answers[16], sent, silent, connections;
    mrd_codec *codec;
    bool up;
    time_probes time;
} hostile;

/* ---- Known sessions ---- */

static void
learn(hostile *h, uint64_t session)
{
    for (unsigned i = 0; i < h->n_sessions; i++)
        if (h->sessions[i] == session)
            return;
    h->sessions[h->n_sessions < SESSIONS ? h->n_sessions++ : below(&h->d, SESSIONS)] = session;
}

/* Returns mostly the newest running session, sometimes one that does not exist. */
static uint64_t
some_session(hostile *h)
{
    if (h->n_sessions > 0 && !one_in(&h->d, 5))
        return h->sessions[one_in(&h->d, 3) ? below(&h->d, h->n_sessions) : h->n_sessions - 1];
    return (uint64_t) absurd(&h->d);
}

static void
take_answer(hostile *h, mrd_bytes data)
{
    Mrd__Control **list = NULL;
    size_t n = 0;
    mrd_msg msg;

    if (mrd_msg_unpack(data, &msg, NULL) != MRD_OK)
        return;
    if (msg.frame.type == MRD_FRAME_ACK) {
        h->answers[msg.u.ack->status % 8]++;
        n = msg.u.ack->n_directives, list = msg.u.ack->directives;
    } else if (msg.frame.type == MRD_FRAME_WELCOME) {
        h->answers[8]++;
        learn_time(&h->time, msg.u.welcome);
        n = msg.u.welcome->n_directives, list = msg.u.welcome->directives;
    } else if (msg.frame.type == MRD_FRAME_REFUSE) {
        h->answers[9]++;
    }
    for (size_t i = 0; i < n; i++)
        learn(h, list[i]->session);
    mrd_msg_free(&msg);
}

/* ---- Sending ---- */

static mrd_frame
header(hostile *h, uint8_t type)
{
    draws *d = &h->d;
    mrd_frame f = { .type = type, .epoch = h->epoch, .session = some_session(h) };

    f.agent = mrd_agent_key(mrd_str_of(h->as));
    if (one_in(d, 20)) /* of another node */
        f.agent = mrd_agent_key(mrd_str_of(h->others[below(d, h->n_others)]));
    if (one_in(d, 20)) /* a random epoch, or an earlier one */
        f.epoch = (uint64_t) absurd(d);
    f.seq = one_in(d, 3) ? (uint64_t) absurd(d) : h->seq++;
    if (one_in(d, 5))
        f.seq = h->seq == 0 ? 0 : h->seq - 1;
    f.boot = one_in(d, 2) ? (uint32_t) draw(d) : mrd_boot_key(MRD_STR("boot-h"));
    return f;
}

static void answer_survey(hostile *h, const mrd_link_event *ev);

static void
await(hostile *h, uint64_t tag)
{
    int64_t until = mrd_local_now().ns + ANSWER;
    mrd_link_event ev;
    bool mine = false;

    while (!mine && mrd_local_now().ns < until) {
        if (!mrd_link_next(h->link, 50, &ev))
            continue;
        if (ev.kind == MRD_LINK_REPLY)
            take_answer(h, ev.data);
        else if (ev.kind == MRD_LINK_CONTROL)
            answer_survey(h, &ev);
        else if (ev.kind == MRD_LINK_UP || ev.kind == MRD_LINK_DOWN)
            h->up = ev.kind == MRD_LINK_UP;
        mine = ev.tag == tag && (ev.kind == MRD_LINK_REPLY || ev.kind == MRD_LINK_FAILED);
        mrd_link_event_done(&ev);
    }
    h->silent += !mine;
}

static void
say_bytes(hostile *h, mrd_bytes frame)
{
    uint64_t tag = ++h->tag;

    h->sent++;
    if (mrd_link_submit_urgent(h->link, tag, frame) != MRD_OK)
        return;
    if (!one_in(&h->d, 50)) /* otherwise it continues at once */
        await(h, tag);
}

static void
say(hostile *h, mrd_frame *f, const void *message)
{
    mrd_buf wire = { 0 };

    if (mrd_msg_pack(f, message, &wire, NULL) == MRD_OK)
        say_bytes(h, (mrd_bytes){ wire.p, wire.len });
    mrd_buf_fini(&wire);
}

/* ---- Messages ---- */

static void
hello(hostile *h)
{
    draws *d = &h->d;
    Mrd__Hello m = MRD__HELLO__INIT;
    Mrd__Label labels[100], *list[100];
    mrd_frame f;
    char boot[32];

    h->as = one_in(d, 4) ? h->others[below(d, h->n_others)] : h->id;
    if (one_in(d, 3))
        h->run = (uint64_t) absurd(d);
    if (one_in(d, 3)) /* back, too */
        h->epoch = (uint64_t) absurd(d) % 8;
    if (one_in(d, 4))
        h->seq = 0;
    f = header(h, MRD_FRAME_HELLO);
    snprintf(boot, sizeof(boot), "boot-%u", below(d, 3));
    m.wire_major = one_in(d, 20) ? (uint32_t) draw(d) : MRD_WIRE_MAJOR;
    m.wire_minor = (uint32_t) absurd(d);
    m.instance_id = one_in(d, 20) ? some_text(d) : (char *) (uintptr_t) h->as;
    m.boot_id = one_in(d, 5) ? some_text(d) : boot;
    m.host_name = some_text(d);
    m.release = some_text(d);
    m.token = some_text(d);
    m.run = h->run;
    m.epoch = h->epoch;
    m.local_ns = some_time(d, mrd_local_now().ns);
    m.wall_ns = some_time(d, mrd_wall_now().ns);
    for (m.n_labels = 0; m.n_labels < below(d, 100); m.n_labels++) {
        mrd__label__init(&labels[m.n_labels]);
        labels[m.n_labels].key = some_text(d);
        labels[m.n_labels].value = one_in(d, 8) ? some_text(d) : labels[m.n_labels].key;
        list[m.n_labels] = &labels[m.n_labels];
        if (one_in(d, 4))
            break;
    }
    m.labels = list;
    say(h, &f, &m);
}

static void
some_counters(draws *d, Mrd__Counters *c, Mrd__Drop drops[4], Mrd__Drop *list[4])
{
    *c = (Mrd__Counters) MRD__COUNTERS__INIT;
    c->begun = (uint64_t) absurd(d);
    c->delivered = (uint64_t) absurd(d);
    c->held = (uint64_t) absurd(d);
    c->batches = (uint64_t) absurd(d);
    c->bytes = (uint64_t) absurd(d);
    c->clock_frames_lost = (uint64_t) absurd(d);
    c->since = draw(d) % 3;
    for (c->n_drops = 0; c->n_drops < below(d, 4); c->n_drops++) {
        Mrd__Drop *x = list[c->n_drops] = &drops[c->n_drops];

        mrd__drop__init(x);
        x->cause = some_text(d);
        x->count = (uint64_t) absurd(d);
        x->first_ns = absurd(d);
        x->last_ns = absurd(d);
    }
    c->drops = list;
}

static void
some_quality(draws *d, Mrd__ClockQuality *q)
{
    *q = (Mrd__ClockQuality) MRD__CLOCK_QUALITY__INIT;
    q->state = some_text(d);
    q->method = some_text(d);
    q->bound_ns = absurd(d);
    q->offset_ns = absurd(d);
    q->probes = (uint64_t) absurd(d);
}

static void
some_status(hostile *h, Mrd__SessionStatus *st, Mrd__DeviceProfile *profile,
            Mrd__DeviceProfile **profiles, uint64_t *triggers)
{
    draws *d = &h->d;
    int64_t now = mrd_local_now().ns;

    mrd__session_status__init(st);
    mrd__device_profile__init(profile);
    st->session = some_session(h);
    st->phase = (Mrd__NodePhase) below(d, one_in(d, 10) ? 1000 : 6);
    st->started_local_ns = some_time(d, now);
    st->stopped_local_ns = some_time(d, now);
    st->complete_local_ns = some_time(d, now);
    st->start_bound_ns = absurd(d);
    st->last_seq = (uint64_t) absurd(d);
    st->err = (uint32_t) absurd(d);
    st->message = some_text(d);
    st->recorder_bytes = (uint64_t) absurd(d);
    st->recorder_first_ns = absurd(d);
    profile->process_id = absurd(d);
    profile->nc_idx = absurd(d);
    profile->state = some_text(d);
    profile->message = some_text(d);
    *profiles = profile;
    st->device_profiles = profiles;
    st->n_device_profiles = below(d, 2);
    for (unsigned i = 0; i < 64; i++)
        triggers[i] = draw(d) % 100;
    st->triggers = triggers;
    st->n_triggers = below(d, 65);
}

static void
heartbeat(hostile *h)
{
    draws *d = &h->d;
    mrd_frame f = header(h, MRD_FRAME_HEARTBEAT);
    Mrd__Heartbeat m = MRD__HEARTBEAT__INIT;
    Mrd__Counters all, each;
    Mrd__Drop drops[2][4], *drop_list[2][4];
    Mrd__ClockQuality q;
    Mrd__SessionStatus st[4], *sessions[4];
    Mrd__DeviceProfile profile[4], *profiles[4];
    Mrd__Label note[2] = { MRD__LABEL__INIT, MRD__LABEL__INIT };
    Mrd__Label *notes[2] = { &note[0], &note[1] };
    uint64_t triggers[4][64];
    char trigger[] = "trigger", at[] = "trigger-at";

    some_counters(d, &all, drops[0], drop_list[0]);
    some_counters(d, &each, drops[1], drop_list[1]);
    some_quality(d, &q);
    for (m.n_sessions = 0; m.n_sessions < 1 + below(d, 3); m.n_sessions++) {
        some_status(h, &st[m.n_sessions], &profile[m.n_sessions], &profiles[m.n_sessions],
                    triggers[m.n_sessions]);
        sessions[m.n_sessions] = &st[m.n_sessions];
        if (!one_in(d, 4))
            st[m.n_sessions].counters = &each;
    }
    m.sessions = sessions;
    m.state = some_text(d);
    m.local_ns = some_time(d, mrd_local_now().ns);
    m.wall_ns = some_time(d, mrd_wall_now().ns);
    m.counters = one_in(d, 5) ? NULL : &all;
    m.clock = one_in(d, 5) ? NULL : &q;
    m.spool_bytes = (uint64_t) absurd(d);
    m.memory_bytes = (uint64_t) absurd(d);
    m.rings = (uint32_t) absurd(d);
    m.processes = (uint32_t) absurd(d);
    m.answered_ns = some_time(d, mrd_local_now().ns);
    m.answer_raw_ns = some_time(d, mrd_local_now().ns);
    note[0].key = one_in(d, 2) ? trigger : some_text(d);
    note[0].value = some_text(d);
    note[1].key = one_in(d, 2) ? at : some_text(d);
    note[1].value = some_text(d);
    m.notes = notes;
    m.n_notes = below(d, 3);
    say(h, &f, &m);
}

/* Adds an event of any kind at an absurd or ordinary time. */
static void
push_event(draws *d, mrd_batch *b, const mrd_track_id tracks[3], mrd_sid name, bool sane)
{
    mrd_event ev = { .kind = (uint8_t) (MRD_SPAN + below(d, 5)), .name = name };
    mrd_arg arg = { .key = name, .type = MRD_ARG_INT };

    ev.track = tracks[ev.kind == MRD_COUNTER ? 1 : one_in(d, 4) ? 2 : 0];
    ev.ts = (mrd_ev_ns){ sane ? mrd_local_now().ns - (int64_t) below(d, 1000000)
                              : some_time(d, mrd_local_now().ns) };
    ev.dur_ns =
        ev.kind != MRD_SPAN && ev.kind != MRD_LOSS ? 0 : (int64_t) (draw(d) >> (1 + below(d, 63)));
    if (ev.kind == MRD_SPAN && one_in(d, 10))
        ev.dur_ns = MRD_DUR_UNFINISHED;
    if (ev.kind == MRD_COUNTER || ev.kind == MRD_LOSS) {
        ev.flags = ev.kind == MRD_COUNTER ? MRD_EV_INT : 0;
        ev.ivalue = absurd(d);
    }
    ev.id = draw(d) % 4 == 0 ? 0 : (uint64_t) absurd(d);
    ev.bound_ns = (uint32_t) absurd(d);
    ev.flow_dir = ev.kind == MRD_FLOW ? (uint8_t) (MRD_FLOW_START + below(d, 3)) : 0;
    arg.v.i = absurd(d);
    if (ev.kind == MRD_SPAN || ev.kind == MRD_INSTANT) {
        ev.args = &arg;
        ev.arg_count = 1;
    }
    (void) mrd_batch_push(b, &ev);
}

/* Returns a process with false attributes: of another node, with another pid, or with invalid
 * numbers. */
static mrd_proc_id
some_process(hostile *h, mrd_catalog *cat)
{
    draws *d = &h->d;
    mrd_process p;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(cat, one_in(d, 3)   ? h->others[below(d, h->n_others)]
                                            : one_in(d, 5) ? some_text(d)
                                                           : h->id);
    p.process_id = one_in(d, 2) ? absurd(d) : (int64_t) below(d, 4);
    p.name = mrd_catalog_intern(cat, some_text(d));
    p.rank = absurd(d);
    p.world_size = absurd(d);
    p.worker_gid = absurd(d);
    return mrd_catalog_process(cat, &p);
}

/* Sends a batch that has the right format, but contents that no real agent records. */
static mrd_err
good_batch(hostile *h, mrd_frame *f, mrd_codec_id codec, mrd_buf *wire)
{
    draws *d = &h->d;
    mrd_catalog *cat = mrd_catalog_new();
    mrd_proc_id p = some_process(h, cat);
    unsigned clock = one_in(d, 3) ? below(d, 3) : 0;
    unsigned n = 1 + (one_in(d, 8) ? below(d, 3000) : below(d, 20));
    mrd_batch *b = mrd_batch_new(cat, p, clock, 0);
    bool sane = one_in(d, 3);
    mrd_track_id tracks[3];
    mrd_err err;

    for (unsigned i = 0; i < 3; i++) {
        mrd_track t;

        mrd_track_init(&t, p, (mrd_source_kind) below(d, 4));
        t.kind = i == 1 ? MRD_TRACK_COUNTER : t.kind;
        t.thread_id = i == 0 ? absurd(d) : (int64_t) i;
        t.name = i == 2 ? mrd_catalog_intern(cat, some_text(d)) : 0;
        tracks[i] = mrd_catalog_track(cat, &t);
    }
    for (unsigned i = 0; i < n; i++)
        push_event(d, b, tracks, mrd_catalog_intern(cat, one_in(d, 9) ? "tick" : "hostile"), sane);
    for (unsigned i = 0; clock != 0 && i < below(d, 5); i++)
        (void) mrd_batch_cross(b, &(mrd_cross_read){ { some_time(d, mrd_local_now().ns) },
                                                     { some_time(d, mrd_wall_now().ns) },
                                                     absurd(d) });
    err = mrd_batch_encode(b, h->codec, codec, f, wire, NULL);
    mrd_batch_free(b);
    mrd_catalog_free(cat);
    return err;
}

/* Changes bytes of the body and corrects the checksums. */
static void
spoil(draws *d, mrd_frame *f, mrd_buf *wire)
{
    for (unsigned i = 0; i <= below(d, 8); i++)
        wire->p[MRD_FRAME_HEADER + below(d, f->body_len)] ^= (uint8_t) (1u << below(d, 8));
    mrd_frame_put(f, (mrd_bytes){ wire->p + MRD_FRAME_HEADER, f->body_len }, wire->p);
}

/* Makes the header contradict the body. */
static void
misstate(draws *d, mrd_frame *f, mrd_buf *wire)
{
    switch (below(d, 5)) {
    case 0:
        f->events = 1 + below(d, MRD_BATCH_EVENTS);
        break;
    case 1:
        f->first = (mrd_ev_ns){ some_time(d, f->first.ns) };
        f->last = (mrd_ev_ns){ some_time(d, f->last.ns) };
        break;
    case 2:
        f->process_id = absurd(d);
        break;
    case 3:
        f->clock = (uint8_t) below(d, 3);
        break;
    default:
        f->cols_raw = below(d, MRD_FRAME_RAW_MAX);
    }
    mrd_frame_put(f, (mrd_bytes){ wire->p + MRD_FRAME_HEADER, f->body_len }, wire->p);
}

/* Sends a frame with right checksums and a body that is not a batch. */
static void
no_batch(draws *d, mrd_frame *f, mrd_buf *wire)
{
    uint8_t all[MRD_FRAME_HEADER + 512], *body = all + MRD_FRAME_HEADER;
    size_t n = 4 + some_bytes(d, body, 500);

    f->head_len = f->head_raw = (uint32_t) n / 2;
    f->cols_raw = (uint32_t) (n - n / 2);
    f->events = 1 + below(d, 100);
    f->first = (mrd_ev_ns){ some_time(d, mrd_local_now().ns) };
    f->last = (mrd_ev_ns){ some_time(d, f->first.ns) };
    mrd_frame_put(f, (mrd_bytes){ body, n }, all);
    mrd_buf_add(wire, all, MRD_FRAME_HEADER + n);
}

static void
batch(hostile *h)
{
    draws *d = &h->d;
    mrd_frame f = header(h, MRD_FRAME_BATCH);
    mrd_buf wire = { 0 };
    unsigned kind = below(d, 6);

    if (kind == 0)
        no_batch(d, &f, &wire);
    else if (good_batch(h, &f, below(d, 2) == 0 ? MRD_CODEC_NONE : MRD_CODEC_ZSTD, &wire) ==
                 MRD_OK &&
             kind == 1)
        spoil(d, &f, &wire);
    else if (wire.len > 0 && kind == 2)
        misstate(d, &f, &wire);
    if (wire.len > 0)
        say_bytes(h, (mrd_bytes){ wire.p, wire.len });
    mrd_buf_fini(&wire);
}

static void
some_probes(hostile *h, Mrd__ClockData *m, mrd_buf *sent, mrd_buf *joined)
{
    draws *d = &h->d;
    int64_t now = mrd_local_now().ns;
    uint64_t agent = mrd_agent_key(mrd_str_of(h->as));

    for (unsigned i = 0; i < below(d, 40); i++) {
        mrd_probe_sent s = { .id = { one_in(d, 8) ? draw(d) : agent, below(d, 3),
                                     (uint32_t) absurd(d) },
                             .a1 = some_time(d, now),
                             .a4 = some_time(d, now),
                             .e = (uint32_t) absurd(d),
                             .position = (uint8_t) below(d, 2),
                             .source1 = (uint8_t) below(d, 8),
                             .source4 = (uint8_t) below(d, 8),
                             .again = one_in(d, 9) };
        mrd_probe p = { .id = s.id,
                        .a1 = s.a1,
                        .a4 = s.a4,
                        .r2 = some_time(d, mrd_wall_now().ns),
                        .r3 = some_time(d, mrd_wall_now().ns),
                        .e = s.e,
                        .position = s.position,
                        .source_up = s.source1,
                        .source_down = s.source4,
                        .up = one_in(d, 2),
                        .down = one_in(d, 2) };

        mrd_probe_sent_encode(&s, sent);
        mrd_probe_encode(&p, joined);
    }
    m->sent = (ProtobufCBinaryData){ sent->len, sent->p };
    m->joined = (ProtobufCBinaryData){ joined->len, joined->p };
}

static void
some_reading(draws *d, Mrd__ClockReading *r, Mrd__ClockTimex *x, Mrd__ClockBound *b,
             Mrd__ClockPhc *p, Mrd__ClockVm *v)
{
    mrd__clock_reading__init(r);
    mrd__clock_timex__init(x);
    mrd__clock_bound__init(b);
    mrd__clock_phc__init(p);
    mrd__clock_vm__init(v);
    r->raw_ns = some_time(d, mrd_local_now().ns);
    r->realtime_ns = some_time(d, mrd_wall_now().ns);
    r->bracket_ns = (uint64_t) absurd(d);
    r->monotonic_ns = some_time(d, mrd_local_now().ns);
    r->boottime_ns = some_time(d, mrd_local_now().ns);
    x->freq_ppb = absurd(d);
    x->maxerror_ns = absurd(d);
    x->esterror_ns = absurd(d);
    x->tai_s = (int32_t) absurd(d);
    b->status = below(d, 5);
    b->bound_ns = absurd(d);
    b->marker = draw(d) % 2;
    p->name = some_text(d);
    p->phc_ns = some_time(d, mrd_wall_now().ns);
    p->raw_ns = some_time(d, mrd_local_now().ns);
    p->bracket_ns = (uint64_t) absurd(d);
    p->error_ns = absurd(d);
    v->marker = draw(d) % 2;
    v->maxerror_ns = absurd(d);
    r->timex = one_in(d, 2) ? x : NULL;
    r->clockbound = one_in(d, 2) ? b : NULL;
    r->phc = one_in(d, 2) ? p : NULL;
    r->vmclock = one_in(d, 2) ? v : NULL;
}

static void
clock_data(hostile *h)
{
    draws *d = &h->d;
    mrd_frame f = header(h, MRD_FRAME_CLOCK_DATA);
    Mrd__ClockData m = MRD__CLOCK_DATA__INIT;
    Mrd__ClockBreak breaks[4], *break_list[4];
    Mrd__ClockReading readings[4], *reading_list[4];
    Mrd__ClockTimex timex[4];
    Mrd__ClockBound bound[4];
    Mrd__ClockPhc phc[4];
    Mrd__ClockVm vm[4];
    mrd_buf sent = { 0 }, joined = { 0 };
    char boot[] = "boot-h";

    if (one_in(d, 4))
        f.session = 0;
    if (!one_in(d, 4))
        some_probes(h, &m, &sent, &joined);
    m.boot_id = one_in(d, 3) ? some_text(d) : boot;
    m.method = some_text(d);
    m.reference = some_text(d);
    m.session_offset_ns = absurd(d);
    for (m.n_breaks = 0; m.n_breaks < below(d, 4); m.n_breaks++) {
        Mrd__ClockBreak *b = break_list[m.n_breaks] = &breaks[m.n_breaks];

        mrd__clock_break__init(b);
        b->cause = (uint32_t) absurd(d);
        b->after_ns = some_time(d, mrd_local_now().ns);
        b->before_ns = some_time(d, mrd_local_now().ns);
        b->keep_rate = one_in(d, 2);
        b->lost_ns = absurd(d);
    }
    m.breaks = break_list;
    for (m.n_readings = 0; m.n_readings < below(d, 4); m.n_readings++) {
        size_t i = m.n_readings;

        some_reading(d, &readings[i], &timex[i], &bound[i], &phc[i], &vm[i]);
        reading_list[i] = &readings[i];
    }
    m.readings = reading_list;
    if (one_in(d, 3)) { /* only the aggregator may send this */
        m.n_aggregator = m.n_readings;
        m.aggregator = reading_list;
    }
    say(h, &f, &m);
    mrd_buf_fini(&sent);
    mrd_buf_fini(&joined);
}

/* Sends an announcement, chunk or end of a file. There are only a few hashes, so that the messages
 * of different agents collide. */
static void
artifact(hostile *h)
{
    draws *d = &h->d;
    mrd_frame f =
        header(h, (uint8_t[]){ MRD_FRAME_ANNOUNCE, MRD_FRAME_CHUNK, MRD_FRAME_DONE }[below(d, 3)]);
    Mrd__ArtifactAnnounce announce = MRD__ARTIFACT_ANNOUNCE__INIT;
    Mrd__ArtifactChunk chunk = MRD__ARTIFACT_CHUNK__INIT;
    Mrd__ArtifactDone done = MRD__ARTIFACT_DONE__INIT;
    char name[40], sha[65];
    uint8_t data[2000];

    memset(sha, "0123456789abcdef"[below(d, 16)], 64);
    sha[64] = '\0';
    snprintf(name, sizeof(name), "file-%u.ntff", below(d, 5));
    announce.sha256 = chunk.sha256 = done.sha256 = one_in(d, 10) ? some_text(d) : sha;
    announce.size = one_in(d, 2) ? (uint64_t) absurd(d) : below(d, 4000);
    announce.name = one_in(d, 3) ? some_text(d) : name;
    announce.kind = some_text(d);
    announce.process_id = absurd(d);
    announce.nc_idx = absurd(d);
    chunk.offset = one_in(d, 2) ? (uint64_t) absurd(d) : below(d, 4000);
    chunk.data = (ProtobufCBinaryData){ some_bytes(d, data, sizeof(data)), data };
    done.size = one_in(d, 2) ? (uint64_t) absurd(d) : below(d, 4000);
    say(h, &f,
        f.type == MRD_FRAME_ANNOUNCE ? (void *) &announce
        : f.type == MRD_FRAME_CHUNK  ? (void *) &chunk
                                     : (void *) &done);
}

static void
probe(hostile *h)
{
    mrd_frame f = header(h, MRD_FRAME_PROBE);
    Mrd__Probe m = MRD__PROBE__INIT;

    m.k = (uint64_t) absurd(&h->d);
    m.a1 = absurd(&h->d);
    say(h, &f, &m);
}

static void
udp_probes(hostile *h)
{
    const char *who = one_in(&h->d, 6) ? h->others[below(&h->d, h->n_others)] : h->id;

    send_probes(&h->time, &h->d, some_session(h), mrd_agent_key(mrd_str_of(who)));
}

/* Sends a frame of a type that only an aggregator sends, or that does not exist. */
static void
wrong_way(hostile *h)
{
    draws *d = &h->d;
    uint8_t body[300];
    mrd_frame f = header(h, (uint8_t) (1 + below(d, MRD_FRAME_TYPES + 3)));
    uint8_t all[MRD_FRAME_HEADER + sizeof(body)];
    size_t n = some_bytes(d, all + MRD_FRAME_HEADER, sizeof(body));

    mrd_frame_put(&f, (mrd_bytes){ all + MRD_FRAME_HEADER, n }, all);
    say_bytes(h, (mrd_bytes){ all, MRD_FRAME_HEADER + n });
}

/* ---- The control connection ---- */

static void
answer_survey(hostile *h, const mrd_link_event *ev)
{
    draws *d = &h->d;
    mrd_frame f = header(h, one_in(d, 10) ? MRD_FRAME_HEARTBEAT : MRD_FRAME_CONTROL_REPLY);
    Mrd__ControlReply r = MRD__CONTROL_REPLY__INIT;
    Mrd__ClockQuality q;
    mrd_buf wire = { 0 };
    mrd_msg msg;

    if (mrd_msg_unpack(ev->data, &msg, NULL) == MRD_OK) {
        if (msg.frame.type == MRD_FRAME_CONTROL)
            learn(h, msg.u.control->session);
        mrd_msg_free(&msg);
    }
    some_quality(d, &q);
    r.instance_id = one_in(d, 3) ? (char *) (uintptr_t) h->others[below(d, h->n_others)] : h->id;
    r.session = some_session(h);
    r.type = (Mrd__ControlType) below(d, 9);
    r.phase = (Mrd__NodePhase) below(d, 8);
    r.selected = !one_in(d, 4);
    r.err = one_in(d, 2) ? 0 : (uint32_t) absurd(d);
    r.message = some_text(d);
    r.clock = &q;
    r.run = one_in(d, 2) ? h->run : draw(d);
    f.type = MRD_FRAME_CONTROL_REPLY;
    if (!one_in(d, 6))
        (void) mrd_msg_pack(&f, &r, &wire, NULL);
    if (one_in(d, 10))
        wire.len = below(d, (unsigned) wire.len + 1);
    (void) mrd_link_answer(h->link, ev->tag, (mrd_bytes){ wire.p, wire.len });
    mrd_buf_fini(&wire);
}

/* ---- The run ---- */

static void
reconnect(hostile *h)
{
    mrd_link_options o = { .data_url = h->data,
                           .control_url = h->control,
                           .window = 4,
                           .reply_ns = MRD_SEC,
                           .resend_ns = MRD_SEC,
                           .reconnect_min_ns = 10 * MRD_MS,
                           .reconnect_max_ns = 100 * MRD_MS };
    mrd_why why = { 0 };

    mrd_link_close(h->link);
    h->link = NULL;
    h->connections++;
    if (mrd_link_open(&o, &h->link, &why) != MRD_OK) {
        fprintf(stderr, "%s\n", why.text);
        exit(1);
    }
    if (!one_in(&h->d, 8)) /* otherwise another frame is sent before the hello */
        hello(h);
}

static void
step(hostile *h)
{
    static void (*const what[])(hostile *) = { hello,      heartbeat,  heartbeat,  heartbeat,
                                               batch,      batch,      batch,      batch,
                                               clock_data, clock_data, artifact,   artifact,
                                               probe,      wrong_way,  udp_probes, udp_probes };

    h->d.step++;
    h->d.n = 0;
    if (one_in(&h->d, 100))
        reconnect(h);
    else
        what[below(&h->d, MRD_COUNT(what))](h);
}

int
main(int argc, char **argv)
{
    hostile h = { .run = 1, .epoch = 1 };
    int64_t until;

    if (argc < 6) {
        fprintf(stderr, "usage: hostile_agent SEED SECONDS DATA-URL CONTROL-URL OTHER-NODE...\n");
        return 2;
    }
    h.d.seed = strtoull(argv[1], NULL, 10);
    until = mrd_local_now().ns + (int64_t) strtoll(argv[2], NULL, 10) * MRD_SEC;
    h.data = argv[3];
    h.control = argv[4];
    h.others = (const char *const *) argv + 5;
    h.n_others = (unsigned) argc - 5;
    h.codec = mrd_codec_new();
    snprintf(h.id, sizeof(h.id), "i-hostile-%u", (unsigned) (h.d.seed % 1000));
    h.as = h.id;
    reconnect(&h);
    while (mrd_local_now().ns < until)
        step(&h);
    printf("seed %llu: %llu steps, %u frames, %u connections, %u unanswered; stored %u, duplicate "
           "%u, slow down %u, not stored %u, "
           "refused %u, hello first %u, welcome %u, turned away %u; %u time probes, %u answered\n",
           (unsigned long long) h.d.seed, (unsigned long long) h.d.step, h.sent, h.connections,
           h.silent, h.answers[0], h.answers[1], h.answers[2], h.answers[3], h.answers[4],
           h.answers[5], h.answers[8], h.answers[9], h.time.sent, h.time.answered);
    mrd_link_close(h.link);
    mrd_codec_free(h.codec);
    return 0;
}
