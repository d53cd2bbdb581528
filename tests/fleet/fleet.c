#include "tests/fleet/fleet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/daemon/agent.h"
#include "aggregator/journal/journal.h"
#include "base/obj.h"
#include "tests/fleet/workload.h"

#define ASK_NS     (50 * MRD_MS)
#define REWATCH_NS MRD_SEC
#define RUNS                                                                                       \
    1024 /* executions of one agent that wait for their acknowledgement; a power of two            \
          */

/* ---- A connection that can be cut ---- */

typedef struct {
    mrd_transport pub; /* first */
    mrd_link_options o;
    mrd_link *link;
    uint64_t tags[MRD_LINK_WINDOW_MAX + 1]; /* in flight */
    unsigned n_tags;
    uint64_t failed[MRD_LINK_WINDOW_MAX + 1]; /* failures to report */
    unsigned n_failed;
    bool up, down; /* down: report the disconnect */
    char ca[300], cert[300], key[300];
} net;

static void
net_sent(net *t, uint64_t tag, mrd_err err)
{
    if (err == MRD_OK && t->n_tags < MRD_COUNT(t->tags))
        t->tags[t->n_tags++] = tag;
}

static mrd_err
net_submit(mrd_transport *pub, uint64_t tag, mrd_bytes frame)
{
    net *t = (net *) pub;
    mrd_err err = mrd_link_submit(t->link, tag, frame);

    net_sent(t, tag, err);
    return err;
}

static mrd_err
net_submit_urgent(mrd_transport *pub, uint64_t tag, mrd_bytes frame)
{
    net *t = (net *) pub;
    mrd_err err = mrd_link_submit_urgent(t->link, tag, frame);

    net_sent(t, tag, err);
    return err;
}

static mrd_err
net_answer(mrd_transport *pub, uint64_t tag, mrd_bytes frame)
{
    return mrd_link_answer(((net *) pub)->link, tag, frame);
}

static unsigned
net_free_slots(mrd_transport *pub)
{
    return mrd_link_free_slots(((net *) pub)->link);
}

static void
net_answered(net *t, uint64_t tag)
{
    for (unsigned i = 0; i < t->n_tags; i++) {
        if (t->tags[i] == tag) {
            t->tags[i] = t->tags[--t->n_tags];
            return;
        }
    }
}

static bool
net_next(mrd_transport *pub, int timeout_ms, mrd_link_event *ev)
{
    net *t = (net *) pub;

    if (t->n_failed > 0) {
        *ev = (mrd_link_event){ .kind = MRD_LINK_FAILED,
                                .tag = t->failed[--t->n_failed],
                                .err = MRD_CLOSED };
        return true;
    }
    if (t->down) {
        t->down = false;
        *ev = (mrd_link_event){ .kind = MRD_LINK_DOWN };
        return true;
    }
    if (!mrd_link_next(t->link, timeout_ms, ev))
        return false;
    if (ev->kind == MRD_LINK_REPLY || ev->kind == MRD_LINK_FAILED)
        net_answered(t, ev->tag);
    else if (ev->kind == MRD_LINK_UP || ev->kind == MRD_LINK_DOWN)
        t->up = ev->kind == MRD_LINK_UP;
    return true;
}

static void
net_done(mrd_transport *pub, mrd_link_event *ev)
{
    (void) pub;
    mrd_link_event_done(ev);
}

static int
net_fd(mrd_transport *pub)
{
    return mrd_link_fd(((net *) pub)->link);
}

static void
net_close(mrd_transport *pub)
{
    mrd_link_close(((net *) pub)->link);
    free(pub);
}

static mrd_err
net_open(const fleet_options *o, const char *id, net **ret_net, mrd_why *why)
{
    net *t = calloc(1, sizeof(*t));
    mrd_err err;

    if (t == NULL)
        return MRD_NOMEM;
    t->pub = (mrd_transport){ .submit = net_submit,
                              .submit_urgent = net_submit_urgent,
                              .answer = net_answer,
                              .free_slots = net_free_slots,
                              .next = net_next,
                              .done = net_done,
                              .fd = net_fd,
                              .close = net_close };
    t->o = (mrd_link_options){ .data_url = o->data_url,
                               .control_url = o->control_url,
                               /* A small window for many agents, because the transport keeps its
                                * timers in a list, which is slow for many requests in one
                                * process. */
                               .window = o->agents > 200 ? 2 : 0,
                               .reconnect_min_ns = o->reconnect_min_ns,
                               .reconnect_max_ns = o->reconnect_max_ns };
    if (o->certs != NULL) {
        snprintf(t->ca, sizeof(t->ca), "%s/ca.pem", o->certs);
        snprintf(t->cert, sizeof(t->cert), "%s/agent-%s.pem", o->certs, id);
        snprintf(t->key, sizeof(t->key), "%s/agent-%s.key", o->certs, id);
        t->o.tls = (mrd_link_tls){ t->ca, t->cert, t->key, "localhost" };
    }
    if ((err = mrd_link_open(&t->o, &t->link, why)) != MRD_OK)
        free(t);
    else
        *ret_net = t;
    return err;
}

/* ---- One agent ---- */

/* Events that were recorded together. */
typedef struct {
    int64_t end_ns;
    uint64_t events;
} run;

typedef struct {
    char id[FLEET_NAME];
    mrd_agent_options o;
    mrd_agent *agent;
    net *net; /* the agent's */
    mrd_drain_process process;
    work_catalog work;
    int64_t *ends; /* of its executions */
    size_t executions, cap;
    int64_t work_at, due_ns, watched_at;
    bool ready;
    /* The followed session. */
    uint64_t session, begun, delivered, dropped;
    run runs[RUNS];
    unsigned first_run, n_runs;
} player;

struct fleet {
    fleet_options o;
    player *v;
    int epoll;
    bool work;
    uint64_t latency[FLEET_BUCKETS], latencies;
};

void
fleet_name_of(unsigned number, char name[FLEET_NAME])
{
    snprintf(name, FLEET_NAME, "fleet-%04u", number);
}

const char *
fleet_name(const fleet *f, unsigned agent)
{
    return f->v[agent].id;
}

static unsigned
bucket_of(int64_t ns)
{
    double x = ns <= 1000 ? 0 : 16 * log2((double) ns / 1000);

    return x >= FLEET_BUCKETS ? FLEET_BUCKETS - 1 : (unsigned) x;
}

int64_t
fleet_latency(const fleet_counts *c, double share)
{
    uint64_t want = (uint64_t) ((double) c->latencies * share), sum = 0;
    unsigned i = 0;

    while (i < FLEET_BUCKETS - 1 && (sum += c->latency[i]) <= want)
        i++;
    return (int64_t) (1000 * exp2((i + 1) / 16.0));
}

/* Returns the last session of the agent. False if it has none. */
static bool
followed(const player *p, mrd_record_status *st)
{
    const mrd_record *r = mrd_agent_borrow_record(p->agent);
    size_t n = mrd_record_sessions(r);

    if (n > 0)
        mrd_record_get(r, n - 1, st);
    return n > 0;
}

static uint64_t
dropped_of(const mrd_record_status *st)
{
    uint64_t sum = 0;

    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        sum += st->drops[i].count;
    return sum;
}

/* Assigns newly acknowledged events to the oldest executions. */
static void
follow(fleet *f, player *p, int64_t now)
{
    mrd_record_status st;
    uint64_t completed;
    bool lost;

    if (!followed(p, &st))
        return;
    if (st.id != p->session) {
        p->session = st.id;
        p->begun = p->delivered = p->dropped = 0;
        p->n_runs = 0;
    }
    completed = st.delivered - p->delivered;
    lost = dropped_of(&st) != p->dropped;
    p->delivered = st.delivered;
    p->dropped = dropped_of(&st);
    if (lost) /* it is unknown which events were lost */
        p->n_runs = 0;
    while (completed > 0 && p->n_runs > 0) {
        run *r = &p->runs[p->first_run];
        uint64_t n = completed < r->events ? completed : r->events;

        f->latency[bucket_of(now - r->end_ns)] += n;
        f->latencies += n;
        completed -= n;
        if ((r->events -= n) == 0) {
            p->first_run = (p->first_run + 1) % RUNS;
            p->n_runs--;
        }
    }
}

static void
step(fleet *f, player *p, int64_t now)
{
    p->ready = false;
    mrd_agent_step(p->agent, 0);
    follow(f, p, mrd_local_now().ns);
    p->due_ns = mrd_agent_next_ns(p->agent).ns;
    if (now >= p->watched_at) { /* the socket of the probes may have been opened or closed */
        int fds[MRD_AGENT_FDS];
        size_t n = mrd_agent_fds(p->agent, fds);
        struct epoll_event ev = { .events = EPOLLIN, .data.ptr = p };

        p->watched_at = now + REWATCH_NS;
        for (size_t i = 0; i < n; i++)
            (void) epoll_ctl(f->epoll, EPOLL_CTL_ADD, fds[i], &ev);
    }
}

/* Records the events of an execution of this player that has just ended. */
static void
work(fleet *f, player *p, int64_t now)
{
    mrd_record *r = mrd_agent_borrow_record(p->agent);
    mrd_record_status st;
    uint64_t before, recorded;
    int64_t *grown;

    p->work_at += f->o.period;
    if (p->work_at < now) /* this process had no CPU */
        p->work_at = now + f->o.period;
    if (p->executions == p->cap) {
        p->cap = p->cap == 0 ? 64 : p->cap * 2;
        if ((grown = realloc(p->ends, p->cap * sizeof(*grown))) == NULL)
            abort();
        p->ends = grown;
    }
    before = followed(p, &st) ? st.begun : 0;
    for (unsigned k = 0; k < WORK_EVENTS; k++) {
        mrd_event ev;
        mrd_arg arg;

        work_make(&p->work, p->executions, k, now, &arg, &ev);
        if (mrd_record_event(r, &p->process, MRD_DRAIN_RAW, &ev) != MRD_OK)
            abort();
    }
    p->ends[p->executions++] = now;
    recorded = followed(p, &st) ? st.begun - before : 0;
    if (recorded > 0 && p->n_runs < RUNS)
        p->runs[(p->first_run + p->n_runs++) % RUNS] = (run){ now, recorded };
    step(f, p, now);
}

static mrd_err
player_open(fleet *f, unsigned i, mrd_why *why)
{
    player *p = &f->v[i];
    mrd_node_options who = { .instance_id = p->id, .timeout = -1 };
    mrd_node_identity node;
    mrd_err err;

    fleet_name_of(f->o.first + i, p->id);
    p->o = (mrd_agent_options){ .data_url = (char *) (uintptr_t) f->o.data_url,
                                .token_file = (char *) (uintptr_t) f->o.token_file,
                                .monitor = (char *) (uintptr_t) "",
                                .ring_dir = (char *) (uintptr_t) "/nonexistent",
                                .spool_bytes = 64 << 20,
                                .recorder_bytes = 4 << 20,
                                .flush = f->o.flush,
                                .simulated = true };
    mrd_ident_init(&p->process.ident);
    if (!work_catalog_open(&p->work, p->id))
        return mrd_why_set(why, MRD_NOMEM, 0, "agent %s", p->id);
    p->process.catalog = p->work.cat;
    p->process.id = p->work.process;
    if ((err = mrd_node_identify(&who, &node, why)) != MRD_OK ||
        (err = net_open(&f->o, p->id, &p->net, why)) != MRD_OK)
        return err;
    snprintf(node.host_name, sizeof(node.host_name), "host-%s", p->id);
    /* The nodes start at different times, as in a real cluster. */
    p->work_at = mrd_local_now().ns + (f->o.period * i) / f->o.agents;
    return mrd_agent_open(&p->o, &node, &p->net->pub, &p->agent, why);
}

mrd_err
fleet_open(const fleet_options *options, fleet **ret_fleet, mrd_why *why)
{
    fleet *f = calloc(1, sizeof(*f));
    mrd_err err = MRD_OK;

    if (f == NULL || (f->v = calloc(options->agents, sizeof(*f->v))) == NULL) {
        free(f);
        return MRD_NOMEM;
    }
    f->o = *options;
    f->work = true;
    f->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < f->o.agents && err == MRD_OK; i++)
        err = player_open(f, i, why);
    if (err != MRD_OK) {
        fleet_close(f);
        return err;
    }
    *ret_fleet = f;
    return MRD_OK;
}

void
fleet_close(fleet *f)
{
    if (f == NULL)
        return;
    for (unsigned i = 0; i < f->o.agents; i++) {
        mrd_agent_close(f->v[i].agent);
        mrd_catalog_free(f->v[i].work.cat);
        free(f->v[i].ends);
    }
    close(f->epoll);
    free(f->v);
    free(f);
}

/* ---- All of them ---- */

void
fleet_work(fleet *f, bool on)
{
    int64_t now = mrd_local_now().ns;

    f->work = on && f->o.period > 0;
    for (unsigned i = 0; i < f->o.agents && on; i++)
        f->v[i].work_at = now + (f->o.period * i) / f->o.agents;
}

static int
wait_ms(const fleet *f, int64_t now, int64_t until)
{
    for (unsigned i = 0; i < f->o.agents; i++) {
        until = f->v[i].due_ns < until ? f->v[i].due_ns : until;
        if (f->work && f->o.period > 0 && f->v[i].work_at < until)
            until = f->v[i].work_at;
    }
    return until <= now ? 0 : (int) ((until - now + MRD_MS - 1) / MRD_MS);
}

bool
fleet_play(fleet *f, mrd_dur_ns time, bool (*done)(void *self), void *self)
{
    struct epoll_event events[256];
    int64_t now = mrd_local_now().ns, end = now + time, ask_at = now;

    while (now < end) {
        int n = epoll_wait(f->epoll, events, MRD_COUNT(events),
                           wait_ms(f, now, ask_at < end ? ask_at : end));

        now = mrd_local_now().ns;
        for (int i = 0; i < n; i++)
            ((player *) events[i].data.ptr)->ready = true;
        for (unsigned i = 0; i < f->o.agents; i++) {
            player *p = &f->v[i];

            if (f->work && f->o.period > 0 && p->work_at <= now)
                work(f, p, now);
            else if (p->ready || p->due_ns <= now)
                step(f, p, now);
        }
        now = mrd_local_now().ns;
        if (now >= ask_at) {
            ask_at = now + ASK_NS;
            if (done != NULL && done(self))
                return true;
        }
    }
    return false;
}

void
fleet_cut(fleet *f)
{
    for (unsigned i = 0; i < f->o.agents; i++) {
        net *t = f->v[i].net;
        mrd_link *old = t->link;
        mrd_why why = { 0 };

        if (mrd_link_open(&t->o, &t->link, &why) != MRD_OK) {
            fprintf(stderr, "%s\n", why.text);
            abort();
        }
        mrd_link_close(old);
        memcpy(t->failed, t->tags, sizeof(t->failed));
        t->n_failed = t->n_tags;
        t->n_tags = 0;
        t->down = t->up;
        t->up = false;
        f->v[i].due_ns = f->v[i].watched_at = 0;
    }
}

void
fleet_latency_reset(fleet *f)
{
    memset(f->latency, 0, sizeof(f->latency));
    f->latencies = 0;
}

void
fleet_count(const fleet *f, fleet_counts *c)
{
    *c = (fleet_counts){ .latencies = f->latencies };
    memcpy(c->latency, f->latency, sizeof(c->latency));
    for (unsigned i = 0; i < f->o.agents; i++) {
        const player *p = &f->v[i];
        mrd_agent_counts a;
        mrd_record_status st;

        mrd_agent_counters(p->agent, &a);
        c->welcomed += a.connected;
        c->emitted += p->executions * WORK_EVENTS;
        c->batches += a.frames_acked;
        c->hellos += a.hellos;
        c->reconnects += a.reconnects;
        c->retried += a.frames_retried;
        c->refused += a.frames_refused;
        c->bytes += a.bytes_sent;
        if (!followed(p, &st))
            continue;
        c->begun += st.begun;
        c->delivered += st.delivered;
        c->dropped += dropped_of(&st);
        c->held += st.held;
        c->flushed += st.phase == MRD__NODE_PHASE__NODE_FLUSHED;
        c->recording += st.phase == MRD__NODE_PHASE__NODE_RECORDING;
    }
}

/* ---- Stored events, compared with the emitted ones ---- */

static bool
lies_in(const player *p, uint64_t execution, unsigned k, int64_t from_ns, int64_t to_ns)
{
    const work_event *w = &work_events()[k];
    int64_t at = p->ends[execution] - WORK_LENGTH + w->at_ns;

    return at + w->dur_ns >= from_ns && at <= to_ns;
}

/* Adds the events of one frame to `seen`. */
static void
take_frame(const player *p, mrd_batch_reader *reader, const mrd_frame *frame, mrd_bytes body,
           int64_t from_ns, uint8_t *seen, uint64_t *foreign)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_batch_info info;
    const mrd_event *ev;

    if (mrd_batch_open(reader, frame, body, cat, &info, NULL) != MRD_OK) {
        *foreign += frame->events;
        mrd_catalog_free(cat);
        return;
    }
    while (mrd_batch_next(reader, &ev, NULL) == MRD_MORE) {
        uint64_t execution = ev->id >> 8;
        unsigned k = ev->id & 255;
        size_t at = execution * WORK_EVENTS + k;

        if (execution >= p->executions || k >= WORK_EVENTS ||
            ev->ts.ns != p->ends[execution] - WORK_LENGTH + work_events()[k].at_ns ||
            !lies_in(p, execution, k, from_ns - WORK_LENGTH, INT64_MAX) ||
            (seen[at / 8] >> at % 8 & 1) != 0)
            ++*foreign;
        else
            seen[at / 8] |= (uint8_t) (1u << at % 8);
    }
    mrd_catalog_free(cat);
}

uint64_t
fleet_check_journal(const fleet *f, unsigned agent, const char *dir, int64_t from_ns, int64_t to_ns,
                    uint64_t *ret_missing, uint64_t *ret_foreign)
{
    const player *p = &f->v[agent];
    uint8_t *seen = calloc(p->executions * WORK_EVENTS / 8 + 1, 1);
    mrd_codec *codec = mrd_codec_new();
    mrd_batch_reader *reader = mrd_batch_reader_new(codec);
    mrd_journal_index x = { 0 };
    mrd_buf buf = { 0 };
    uint64_t there = 0;

    *ret_missing = *ret_foreign = 0;
    if (mrd_journal_scan(dir, &x, NULL) != MRD_OK)
        *ret_foreign = 1;
    for (size_t i = 0; i < x.n; i++) {
        mrd_frame frame;
        mrd_bytes body;

        if (x.entries[i].frame.type != MRD_FRAME_BATCH)
            continue;
        if (mrd_journal_read(&x, &x.entries[i], false, &buf, &frame, &body, NULL) != MRD_OK)
            *ret_foreign += x.entries[i].frame.events;
        else
            take_frame(p, reader, &frame, body, from_ns, seen, ret_foreign);
    }
    for (size_t at = 0; at < p->executions * WORK_EVENTS; at++) {
        bool is = (seen[at / 8] >> at % 8 & 1) != 0;

        there += is;
        *ret_missing +=
            !is && lies_in(p, at / WORK_EVENTS, (unsigned) (at % WORK_EVENTS), from_ns, to_ns);
    }
    mrd_journal_index_fini(&x);
    mrd_batch_reader_free(reader);
    mrd_codec_free(codec);
    mrd_buf_fini(&buf);
    free(seen);
    return there;
}
