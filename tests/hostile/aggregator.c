/*
 * tests/hostile/aggregator.c - a hostile aggregator: it sends valid frames with right checksums,
 * but absurd contents, in any order. usage: hostile_aggregator SEED SECONDS DATA-URL CONTROL-URL
 * UDP-PORT
 *
 * It reports frames as final or stored only if "--lie" is the last argument. An agent may trust
 * such a report, so the frames that it then drops prove nothing. At the end it prints its
 * statistics.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/sys/udpstamp.h"
#include "proto/link.h"
#include "proto/wire.h"
#include "tests/hostile/draw.h"
#include "tests/wait.h"
#include "timesync/probe.h"

#define DIRECTIVES 3
#define SESSIONS   6

typedef struct {
    draws d, survey, udp;
    mrd_server *server;
    uint16_t port;
    uint8_t key[MRD_PROBE_KEY_LEN];
    bool lie;
    _Atomic bool over;
    _Atomic unsigned requests[MRD_FRAME_TYPES], surveys, answers, dropped, packets;
} hostile;

/* ---- Requests to agents ---- */

typedef struct {
    Mrd__Control control;
    Mrd__Selection select;
    Mrd__Trigger trigger;
    Mrd__Label option[2], *options[2];
    char *list[3];
    int64_t numbers[3];
} asked;

/* Returns one of a few session ids, so that each session is armed, begun and stopped in any
 * order. */
static uint64_t
some_session(draws *d)
{
    return one_in(d, 8) ? (uint64_t) absurd(d) : ((uint64_t) 1800000000 << 16) + below(d, SESSIONS);
}

static void
some_selection(draws *d, asked *a)
{
    static char pattern[] = "0-4000000000", node[] = "i-test0", job[] = "^*[";

    mrd__selection__init(&a->select);
    a->list[0] = one_in(d, 2) ? node : some_text(d);
    a->list[1] = one_in(d, 2) ? pattern : job;
    a->list[2] = some_text(d);
    for (unsigned i = 0; i < 3; i++)
        a->numbers[i] = absurd(d);
    a->select.instances = a->select.jobs = a->select.cores = a->list;
    a->select.types = a->select.sources = a->list;
    a->select.ranks = a->select.processes = a->numbers;
    a->select.n_instances = below(d, 2);
    a->select.n_jobs = one_in(d, 4) ? below(d, 3) : 0;
    a->select.n_cores = one_in(d, 4) ? below(d, 3) : 0;
    a->select.n_types = one_in(d, 4) ? below(d, 3) : 0;
    a->select.n_sources = one_in(d, 4) ? below(d, 3) : 0;
    a->select.n_ranks = one_in(d, 6) ? below(d, 3) : 0;
    a->select.n_processes = one_in(d, 6) ? below(d, 3) : 0;
}

static void
some_control(draws *d, asked *a)
{
    static char device[] = "device_profiles", all[] = "continuous", counters[] = "counters";
    int64_t now = mrd_wall_now().ns;
    Mrd__Control *c = &a->control;

    mrd__control__init(c);
    mrd__trigger__init(&a->trigger);
    some_selection(d, a);
    c->type = one_in(d, 2) ? MRD__CONTROL_TYPE__CONTROL_GO
                           : (Mrd__ControlType) below(d, one_in(d, 10) ? 1000 : 8);
    if (c->type == MRD__CONTROL_TYPE__CONTROL_CANCEL && !one_in(d, 4))
        c->type = MRD__CONTROL_TYPE__CONTROL_ARM;
    c->session = some_session(d);
    c->name = some_text(d);
    c->mode = (Mrd__SessionMode) below(d, one_in(d, 10) ? 100 : 2);
    c->select = one_in(d, 2) ? NULL : &a->select;
    c->at_session_ns = one_in(d, 2) ? 0 : some_time(d, now);
    c->at_wall_ns = one_in(d, 2) ? 0 : some_time(d, now);
    c->recorder_ns = absurd(d);
    c->recorder_bytes = (uint64_t) absurd(d);
    c->deadline_ns = absurd(d);
    a->trigger.id = draw(d) % 50;
    a->trigger.from_session_ns = some_time(d, now);
    a->trigger.to_session_ns = some_time(d, now);
    a->trigger.from_wall_ns = some_time(d, now);
    a->trigger.to_wall_ns = some_time(d, now);
    a->trigger.reason = some_text(d);
    c->trigger = one_in(d, 4) ? NULL : &a->trigger;
    for (unsigned i = 0; i < 2; i++) {
        mrd__label__init(&a->option[i]);
        a->option[i].key = i == 0 ? device : one_in(d, 2) ? counters : some_text(d);
        a->option[i].value = one_in(d, 2) ? all : some_text(d);
        a->options[i] = &a->option[i];
    }
    c->options = a->options;
    c->n_options = one_in(d, 4) ? below(d, 3) : 0;
}

/* ---- Answers to agents ---- */

static void
answer(hostile *h, mrd_server_request *request, uint8_t type, const void *message)
{
    mrd_frame f = { .type = type };
    mrd_buf wire = { 0 };

    if (mrd_msg_pack(&f, message, &wire, NULL) == MRD_OK)
        mrd_server_reply(h->server, request, (mrd_bytes){ wire.p, wire.len });
    else
        mrd_server_drop(h->server, request);
    mrd_buf_fini(&wire);
}

static void
welcome(hostile *h, mrd_server_request *request)
{
    draws *d = &h->d;
    Mrd__Welcome m = MRD__WELCOME__INIT;
    asked asks[DIRECTIVES];
    Mrd__Control *list[DIRECTIVES];

    for (m.n_directives = 0; m.n_directives < below(d, DIRECTIVES + 1); m.n_directives++) {
        some_control(d, &asks[m.n_directives]);
        list[m.n_directives] = &asks[m.n_directives].control;
    }
    m.directives = list;
    m.wire_major = one_in(d, 10) ? (uint32_t) draw(d) : MRD_WIRE_MAJOR;
    m.wire_minor = (uint32_t) draw(d);
    m.release = some_text(d);
    m.aggregator_id = some_text(d);
    m.boot_id = some_text(d);
    m.heartbeat_ms = !one_in(d, 3) ? 20 : (uint32_t) absurd(d);
    m.max_frame = one_in(d, 2) ? MRD_FRAME_MAX : (uint32_t) absurd(d);
    m.max_events = one_in(d, 2) ? MRD_BATCH_EVENTS : (uint32_t) absurd(d);
    m.window = (uint32_t) absurd(d);
    m.time_port = one_in(d, 4) ? (uint32_t) absurd(d) : h->port;
    m.probe_key =
        (ProtobufCBinaryData){ one_in(d, 6) ? below(d, sizeof(h->key)) : sizeof(h->key), h->key };
    m.local_ns = some_time(d, mrd_local_now().ns);
    m.wall_ns = some_time(d, mrd_wall_now().ns);
    m.session_offset_ns = one_in(d, 2) ? mrd_wall_now().ns - mrd_local_now().ns : absurd(d);
    answer(h, request, MRD_FRAME_WELCOME, &m);
}

static void
refuse(hostile *h, mrd_server_request *request)
{
    Mrd__Refuse m = MRD__REFUSE__INIT;

    m.err = (uint32_t) absurd(&h->d);
    m.message = some_text(&h->d);
    m.retry_after_ms = one_in(&h->d, 4) ? (uint32_t) absurd(&h->d) : below(&h->d, 100);
    answer(h, request, MRD_FRAME_REFUSE, &m);
}

static Mrd__AckStatus
some_ack(hostile *h)
{
    static const Mrd__AckStatus honest[] = { MRD__ACK_STATUS__ACK_SLOW_DOWN,
                                             MRD__ACK_STATUS__ACK_NOT_STORED,
                                             MRD__ACK_STATUS__ACK_HELLO_FIRST };

    return h->lie ? (Mrd__AckStatus) below(&h->d, 8) : honest[below(&h->d, MRD_COUNT(honest))];
}

static void
acknowledge(hostile *h, mrd_server_request *request, bool beat)
{
    draws *d = &h->d;
    Mrd__Ack m = MRD__ACK__INIT;
    Mrd__ClockEstimate clock = MRD__CLOCK_ESTIMATE__INIT;
    asked asks[DIRECTIVES];
    Mrd__Control *list[DIRECTIVES];

    m.status = beat && !one_in(d, 8) ? MRD__ACK_STATUS__ACK_STORED : some_ack(h);
    m.err = (uint32_t) absurd(d);
    m.message = some_text(d);
    m.retry_after_ms = one_in(d, 16) ? (uint32_t) absurd(d) : below(d, 100);
    m.artifact_offset = (uint64_t) absurd(d);
    for (; m.n_directives < below(d, DIRECTIVES + 1); m.n_directives++) {
        some_control(d, &asks[m.n_directives]);
        list[m.n_directives] = &asks[m.n_directives].control;
    }
    m.directives = list;
    m.local_ns = some_time(d, mrd_local_now().ns);
    m.reply_local_ns = some_time(d, mrd_local_now().ns);
    clock.at_local_ns = some_time(d, mrd_local_now().ns);
    clock.offset_ns = absurd(d);
    clock.bound_ns = absurd(d);
    clock.state = some_text(d);
    clock.probe_faster = one_in(d, 2);
    clock.rate_ppb = absurd(d);
    clock.drift_ppb = (uint64_t) absurd(d);
    m.clock = one_in(d, 3) ? NULL : &clock;
    answer(h, request, MRD_FRAME_ACK, &m);
}

static void
request_bytes(hostile *h, mrd_server_request *request)
{
    draws *d = &h->d;
    Mrd__ArtifactRequest m = MRD__ARTIFACT_REQUEST__INIT;

    m.have = h->lie && one_in(d, 3);
    m.offset = one_in(d, 2) ? 0 : (uint64_t) absurd(d);
    m.err = h->lie || one_in(d, 2) ? (uint32_t) absurd(d) : 0;
    m.message = some_text(d);
    m.retry_after_ms = (uint32_t) absurd(d);
    if (!h->lie && m.err != 0 && m.retry_after_ms == 0)
        /* refuses only for now, because a permanent refusal of an announcement would be a lie,
         * too */
        m.retry_after_ms = 10;
    answer(h, request, MRD_FRAME_REQUEST, &m);
}

static void
probe_reply(hostile *h, mrd_server_request *request)
{
    draws *d = &h->d;
    Mrd__ProbeReply m = MRD__PROBE_REPLY__INIT;

    m.k = one_in(d, 2) ? below(d, 100) : (uint64_t) absurd(d);
    m.r2 = some_time(d, mrd_wall_now().ns);
    m.r3 = some_time(d, mrd_wall_now().ns);
    m.boot_id = some_text(d);
    answer(h, request, MRD_FRAME_PROBE_REPLY, &m);
}

/* Sends a frame of any type with a meaningless body. */
static void
nonsense(hostile *h, mrd_server_request *request)
{
    uint8_t all[MRD_FRAME_HEADER + 300];
    mrd_frame f = { .type = (uint8_t) (1 + below(&h->d, MRD_FRAME_TYPES + 3)),
                    .seq = (uint64_t) absurd(&h->d) };
    size_t n = some_bytes(&h->d, all + MRD_FRAME_HEADER, 300);

    mrd_frame_put(&f, (mrd_bytes){ all + MRD_FRAME_HEADER, n }, all);
    if (one_in(&h->d, 4))
        n = below(&h->d, (unsigned) n + 1);
    mrd_server_reply(h->server, request, (mrd_bytes){ all, MRD_FRAME_HEADER + n });
}

static void
request_step(hostile *h, mrd_server_request *request)
{
    uint32_t conn = request->conn;
    mrd_bytes body;
    mrd_frame f;

    h->d.step++;
    h->d.n = 0;
    if (mrd_frame_check(request->data, &f, &body, NULL) != MRD_OK) {
        mrd_server_drop(h->server, request);
        return;
    }
    h->requests[f.type % MRD_FRAME_TYPES]++;
    if (one_in(&h->d, 120)) {
        mrd_server_drop(h->server, request);
        h->dropped++;
    } else if (one_in(&h->d, 12))
        nonsense(h, request);
    else if (f.type == MRD_FRAME_HELLO && one_in(&h->d, 8))
        refuse(h, request);
    else if (f.type == MRD_FRAME_HELLO)
        welcome(h, request);
    else if (f.type == MRD_FRAME_ANNOUNCE)
        request_bytes(h, request);
    else if (f.type == MRD_FRAME_PROBE)
        probe_reply(h, request);
    else
        acknowledge(h, request, f.type == MRD_FRAME_HEARTBEAT);
    if (one_in(&h->d, 40))
        mrd_server_conn_close(h->server, conn);
}

/* ---- The control channel and the time port, in threads of their own ---- */

static bool
count_answer(void *self, mrd_bytes frame)
{
    hostile *h = self;

    (void) frame;
    h->answers++;
    return true;
}

static void *
ask_run(void *self)
{
    hostile *h = self;

    while (!h->over) {
        mrd_frame f = { .type = MRD_FRAME_CONTROL };
        mrd_buf wire = { 0 };
        asked a;

        h->survey.step++;
        h->survey.n = 0;
        some_control(&h->survey, &a);
        if (mrd_msg_pack(&f, &a.control, &wire, NULL) == MRD_OK)
            (void) mrd_server_ask(h->server, (mrd_bytes){ wire.p, wire.len }, 1,
                                  5 + (int) below(&h->survey, 60), count_answer, h, NULL);
        h->surveys++;
        mrd_buf_fini(&wire);
        test_pace(below(&h->survey, one_in(&h->survey, 4) ? 100000 : 4000));
    }
    return NULL;
}

/* Answers a packet correctly, with another number, twice, with another key, or not at all. */
static void
answer_packet(hostile *h, int fd, const mrd_udp_packet *in)
{
    uint8_t to[MRD_PROBE_PACKET_LEN];
    mrd_probe_packet p;

    if (mrd_probe_packet_decode((mrd_bytes){ in->data, in->len }, &p) != MRD_OK)
        return;
    h->packets++;
    p.kind = one_in(&h->udp, 10) ? (mrd_probe_kind) (1 + below(&h->udp, 3)) : MRD_PROBE_ANSWER;
    p.k = one_in(&h->udp, 5) ? (uint32_t) absurd(&h->udp) : p.k;
    p.session = one_in(&h->udp, 10) ? draw(&h->udp) : p.session;
    p.agent_epoch += one_in(&h->udp, 10);
    if (one_in(&h->udp, 10))
        p.agent = draw(&h->udp);
    mrd_probe_packet_encode(&p, h->key, to);
    for (unsigned n = below(&h->udp, 4); n > 0; n--)
        (void) mrd_udp_send_unstamped(
            fd, to, one_in(&h->udp, 10) ? below(&h->udp, sizeof(to)) : sizeof(to), &in->peer);
}

static void *
udp_run(void *self)
{
    hostile *h = self;
    mrd_udp_packet in[MRD_UDP_BATCH];
    int fd = -1;

    if (mrd_udp_open("127.0.0.1", h->port, true, &fd, NULL) != MRD_OK)
        return NULL;
    while (!h->over) {
        size_t n = mrd_udp_recv_many(fd, in);

        for (size_t i = 0; i < n; i++) {
            h->udp.step++;
            h->udp.n = 0;
            answer_packet(h, fd, &in[i]);
        }
        if (n == 0)
            test_look_again();
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    static hostile h;
    mrd_server_options o = { 0 };
    mrd_server_request request;
    pthread_t ask, udp;
    mrd_why why = { 0 };
    int64_t until;

    if (argc < 6) {
        fprintf(stderr,
                "usage: hostile_aggregator SEED SECONDS DATA-URL CONTROL-URL UDP-PORT [--lie]\n");
        return 2;
    }
    h.d.seed = strtoull(argv[1], NULL, 10);
    h.survey.seed = h.d.seed + 1;
    h.udp.seed = h.d.seed + 2;
    h.port = (uint16_t) strtoul(argv[5], NULL, 10);
    h.lie = argc > 6 && strcmp(argv[6], "--lie") == 0;
    o.data_url = argv[3];
    o.control_url = argv[4];
    if (mrd_server_open(&o, &h.server, &why) != MRD_OK) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    pthread_create(&ask, NULL, ask_run, &h);
    pthread_create(&udp, NULL, udp_run, &h);
    until = mrd_local_now().ns + (int64_t) strtoll(argv[2], NULL, 10) * MRD_SEC;
    while (mrd_local_now().ns < until)
        if (mrd_server_next(h.server, 20, &request))
            request_step(&h, &request);
    h.over = true;
    pthread_join(ask, NULL);
    pthread_join(udp, NULL);
    printf(
        "seed %llu: hello %u, heartbeats %u, batches %u, clock data %u, announces %u, chunks %u, "
        "probes %u, packets %u, unanswered %u, "
        "surveys %u answered %u\n",
        (unsigned long long) h.d.seed, h.requests[MRD_FRAME_HELLO], h.requests[MRD_FRAME_HEARTBEAT],
        h.requests[MRD_FRAME_BATCH], h.requests[MRD_FRAME_CLOCK_DATA],
        h.requests[MRD_FRAME_ANNOUNCE], h.requests[MRD_FRAME_CHUNK], h.requests[MRD_FRAME_PROBE],
        h.packets, h.dropped, h.surveys, h.answers);
    mrd_server_close(h.server);
    return 0;
}
