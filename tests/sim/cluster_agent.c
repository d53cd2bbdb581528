/* Models of agents for the simulated cluster. A model behaves as docs/reference/wire.md describes,
 * but has none of the agent's code. */
#include "tests/sim/cluster_node.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/obj.h"
#include "timesync/probe.h"

#define TURN       MRD_SEC
#define RESEND     (5 * MRD_SEC)
#define RING_MAX   400 /* events of a recorder */
#define PROBES_MAX 8

int64_t
agent_local(const agent *a, int64_t now)
{
    return sim_clock_local(&a->clock, now);
}

/* Returns the agent's slot for a session, or a free slot if `session` is 0. */
static part_model *
part_find(agent *a, uint64_t session)
{
    for (unsigned i = 0; i < a->n_parts; i++) {
        if (a->parts[i].id == session)
            return &a->parts[i];
    }
    return session == 0 && a->n_parts < SESSIONS_MAX ? &a->parts[a->n_parts++] : NULL;
}

static void
part_forget(agent *a, part_model *p)
{
    if (p->id != 0 && p->next_seq > 0) {
        unsigned at = a->n_numbers++ % RUNS_MAX;

        a->numbers[at] = *p;
    }
    *p = (part_model){ 0 };
}

static part_model *
part_make(agent *a, uint64_t session, bool recorder)
{
    part_model *p = part_find(a, session);

    if (p != NULL)
        return p;
    if ((p = part_find(a, 0)) == NULL) { /* complete sessions give their slots */
        for (unsigned i = 0; i < a->n_parts && p == NULL; i++) {
            if (a->parts[i].phase == MRD__NODE_PHASE__NODE_FLUSHED)
                p = &a->parts[i];
        }
    }
    if (p == NULL)
        return NULL;
    part_forget(a, p);
    *p = (part_model){ .id = session, .recorder = recorder };
    for (unsigned i = 0; i < RUNS_MAX; i++) {
        const part_model *of = &a->numbers[i];

        if (of->id != session || of->next_seq <= p->next_seq)
            continue;
        p->next_seq = of->next_seq;
        p->begun = of->begun;
        p->delivered = of->delivered;
        p->lost_spool = of->lost_spool;
        p->lost_window = of->lost_window + of->ring;
        p->refused = of->refused;
    }
    return p;
}

static bool
part_waits(const agent *a, uint64_t session)
{
    for (size_t i = 0; i < a->n_spool; i++) {
        if (a->spool[i].session == session)
            return true;
    }
    return false;
}

/* ---- Spool ---- */

static void
spool_remove(agent *a, size_t at)
{
    a->in_flight -= a->spool[at].sent;
    memmove(&a->spool[at], &a->spool[at + 1], (a->n_spool - at - 1) * sizeof(*a->spool));
    a->n_spool--;
}

static void
spool_add(agent *a, part_model *p, uint32_t events, bool clock)
{
    if (a->n_spool == SPOOL_MAX) { /* the oldest makes room */
        part_model *of = part_find(a, a->spool[0].session);

        if (of != NULL && !a->spool[0].clock) {
            of->lost_spool += a->spool[0].events;
            a->w->r->lost_events += a->spool[0].events;
        }
        spool_remove(a, 0);
    }
    a->spool[a->n_spool++] = (batch){
        .session = p->id, .seq = p->next_seq++, .epoch = a->epoch, .events = events, .clock = clock
    };
}

typedef struct {
    uint64_t request;
    batch b;
    unsigned link, incarnation;
    bool hello, beat;
} sent_request;

static void
arrive(world *w, uint64_t index, uint64_t none, void *arg)
{
    sent_request *q = arg;
    agent *a = &w->agents[index];

    (void) none;
    if (a->link == q->link && a->linked &&
        a->incarnation == q->incarnation) /* otherwise its connection is closed */
        server_request(w, a, q->request, q->hello || q->beat ? NULL : &q->b, q->hello);
    free(q);
}

static void
post(agent *a, uint64_t request, const batch *b, bool hello)
{
    world *w = a->w;
    unsigned copies = w->plan->faults && !w->healing && sim_chance(w, 10) ? 2 : 1;

    for (unsigned i = 0; i < copies; i++) {
        int64_t d = sim_delay(w, a);
        sent_request *q;

        if (d < 0)
            continue;
        w->r->repeats += i;
        q = calloc(1, sizeof(*q));
        *q = (sent_request){ .request = request,
                             .link = a->link,
                             .incarnation = a->incarnation,
                             .hello = hello,
                             .beat = b == NULL };
        if (b != NULL)
            q->b = *b;
        sim_at(w, w->now + d, arrive, a->index, 0, q);
    }
}

static void
send_spool(agent *a)
{
    world *w = a->w;

    for (size_t i = 0; i < a->n_spool && a->welcomed; i++) {
        batch *b = &a->spool[i];

        if (b->sent ? w->now < b->resend : a->in_flight == WINDOW || w->now < b->wait_until)
            continue;
        if (!b->sent) {
            b->sent = true;
            b->request = ++w->last_request;
            a->in_flight++;
        }
        b->resend = w->now + RESEND;
        post(a, b->request, b, false);
    }
}

/* ---- Events ---- */

static void
produce(agent *a, part_model *p, int64_t local)
{
    world *w = a->w;

    if (p->phase == MRD__NODE_PHASE__NODE_ARMED && p->go == 0 && local > p->armed_until)
        part_forget(a, p); /* no start was received */
    if (p->phase == MRD__NODE_PHASE__NODE_ARMED && p->go != 0 && local >= p->go) {
        p->phase = MRD__NODE_PHASE__NODE_RECORDING;
        p->next_batch = local;
    }
    if (p->phase == MRD__NODE_PHASE__NODE_RECORDING && local >= p->next_batch) {
        uint32_t n = 1 + (uint32_t) sim_below(w, 20);

        p->next_batch += w->plan->batch_every;
        p->begun += n;
        w->r->events += n;
        if (!p->recorder) {
            spool_add(a, p, n, false);
        } else {
            p->ring += n;
            if (p->ring > RING_MAX) {
                p->lost_window += p->ring - RING_MAX;
                p->ring = RING_MAX;
            }
        }
    }
    if (p->phase == MRD__NODE_PHASE__NODE_RECORDING && p->stop != 0 && local >= p->stop) {
        p->phase = MRD__NODE_PHASE__NODE_STOPPING;
        p->lost_window += p->ring;
        p->ring = 0;
    }
    if (p->phase == MRD__NODE_PHASE__NODE_STOPPING && !part_waits(a, p->id))
        p->phase = MRD__NODE_PHASE__NODE_FLUSHED;
}

/* Sends a clock probe to the aggregator over the connection and handles its answer. */
static void
probe(agent *a)
{
    world *w = a->w;
    int64_t up = 100 * MRD_US + (int64_t) sim_below(w, 300 * MRD_US);
    int64_t down = 100 * MRD_US + (int64_t) sim_below(w, 300 * MRD_US), stay = 20 * MRD_US;
    int64_t sent = w->now - up - down - stay;
    mrd_probe p = { .id = { .agent = a->key, .agent_epoch = (uint32_t) a->run, .k = a->probe_k },
                    .e = 1000,
                    .position = (uint8_t) (a->probe_k % 2),
                    .source_up = MRD_STAMP_NNG,
                    .source_down = MRD_STAMP_NNG,
                    .up = true,
                    .down = true };

    a->probe_k++;
    if (sent <= 0 || !w->up)
        return;
    p.a1 = agent_local(a, sent);
    p.r2 = sent + up + (int64_t) ((long double) (sent + up) * w->server_ppm / 1e6L) +
           w->server_offset + w->scale.offset;
    p.r3 = p.r2 + stay + (int64_t) ((long double) stay * w->server_ppm / 1e6L);
    p.a4 = agent_local(a, w->now);
    p.held_out = mrd_probe_held_out(p.id);
    if (a->n_probes == PROBES_MAX) {
        memmove(a->probes, a->probes + 1, (PROBES_MAX - 1) * sizeof(*a->probes));
        a->n_probes--;
    }
    a->probes[a->n_probes++] = p;
}

/* ---- Connection ---- */

static void connect_again(world *w, uint64_t index, uint64_t incarnation, void *p);

static void
turn(world *w, uint64_t index, uint64_t incarnation, void *p)
{
    agent *a = &w->agents[index];
    int64_t local = agent_local(a, w->now);

    if (incarnation != a->incarnation || !a->up)
        return;
    for (unsigned i = 0; i < a->n_parts; i++) {
        if (a->parts[i].id != 0)
            produce(a, &a->parts[i], local);
    }
    if (w->plan->probe_every > 0 && a->linked && !a->partitioned &&
        (w->now / TURN) % (w->plan->probe_every / TURN) == 0) {
        bool had = false;

        probe(a);
        probe(a);
        for (unsigned i = 0; i < a->n_parts && !had; i++) {
            if (a->parts[i].phase == MRD__NODE_PHASE__NODE_RECORDING) {
                spool_add(a, &a->parts[i], 0, true);
                had = true;
            }
        }
    }
    if (a->linked) {
        if (a->urgent == 0 || w->now >= a->urgent_resend) {
            if (a->urgent == 0)
                a->urgent = ++w->last_request;
            a->urgent_resend = w->now + RESEND;
            post(a, a->urgent, NULL, !a->welcomed);
        }
        send_spool(a);
    }
    sim_at(w, w->now + TURN, turn, index, incarnation, p);
}

static void
connect_again(world *w, uint64_t index, uint64_t incarnation, void *p)
{
    agent *a = &w->agents[index];

    (void) p;
    if (incarnation != a->incarnation || !a->up || a->linked)
        return;
    if (!w->up || a->partitioned) { /* back-off */
        sim_at(w, w->now + 100 * MRD_MS + (int64_t) sim_below(w, 8 * MRD_SEC), connect_again, index,
               incarnation, NULL);
        return;
    }
    a->linked = true;
    a->welcomed = false;
    a->link++;
    a->conn = ++w->last_conn;
    a->urgent = ++w->last_request;
    a->urgent_resend = w->now + RESEND;
    /* unacknowledged batches are sent again on the new connection */
    for (size_t i = 0; i < a->n_spool; i++)
        a->spool[i].resend = w->now;
    post(a, a->urgent, NULL, true);
}

typedef struct {
    uint32_t conn;
    unsigned incarnation;
} gone_conn;

static void
conn_gone(world *w, uint64_t none, uint64_t b, void *arg)
{
    gone_conn *g = arg;

    (void) none;
    (void) b;
    if (w->up && w->incarnation == g->incarnation) {
        mrd_core_conn_gone(w->core, server_now(w), g->conn);
        while (mrd_core_effect(w->core) != NULL)
            ; /* a line of the log */
    }
    free(g);
}

void
agent_cut(world *w, agent *a)
{
    gone_conn *g;

    if (a->node != NULL) {
        link_cut_all(a->node);
        return;
    }
    if (!a->linked)
        return;
    a->linked = a->welcomed = false;
    a->link++;
    a->urgent = 0;
    g = calloc(1, sizeof(*g));
    *g = (gone_conn){ a->conn, w->incarnation };
    sim_at(w, w->now + (int64_t) sim_below(w, 400 * MRD_MS), conn_gone, 0, 0, g);
    sim_at(w, w->now + 50 * MRD_MS + (int64_t) sim_below(w, 2 * MRD_SEC), connect_again, a->index,
           a->incarnation, NULL);
}

static void
start(world *w, uint64_t index, uint64_t incarnation, void *p)
{
    agent *a = &w->agents[index];

    (void) p;
    if (incarnation != a->incarnation)
        return;
    a->up = true;
    a->run = sim_random(w) | 1;
    connect_again(w, index, incarnation, NULL);
    sim_at(w, w->now + (int64_t) sim_below(w, TURN), turn, index, incarnation, NULL);
}

void
agent_crash(world *w, agent *a, bool with_spool)
{
    if (a->node != NULL) {
        node_crash(a->node, with_spool);
        return;
    }
    if (!a->up)
        return;
    agent_cut(w, a);
    a->incarnation++;
    a->up = false;
    a->n_probes = 0;
    a->knows_offset = false;
    for (unsigned i = 0; i < a->n_parts; i++) { /* a recorder's memory is lost with the process */
        a->parts[i].lost_window += a->parts[i].ring;
        a->parts[i].ring = 0;
    }
    if (with_spool) {
        for (size_t i = 0; i < a->n_spool; i++)
            a->spool[i].sent = false;
    } else {
        a->n_spool = 0;
        a->spools_lost++;
        a->epoch = sim_random(w) | 1;
        memset(a->parts, 0, sizeof(a->parts));
        a->n_parts = 0;
        memset(a->numbers, 0, sizeof(a->numbers));
    }
    a->in_flight = 0;
    sim_at(w, w->now + 200 * MRD_MS + (int64_t) sim_below(w, 6 * MRD_SEC), start, a->index,
           a->incarnation, NULL);
}

void
agents_start(world *w)
{
    w->agents = calloc(w->plan->nodes, sizeof(*w->agents));
    for (unsigned i = 0; i < w->plan->nodes; i++) {
        agent *a = &w->agents[i];
        double ppm;

        a->w = w;
        a->index = i;
        snprintf(a->id, sizeof(a->id), "i-%u", i);
        a->key = mrd_agent_key(mrd_str_of(a->id));
        if (w->plan->real)
            continue;
        a->epoch = sim_random(w) | 1;
        ppm = (double) sim_below(w, 100000) / 1000.0 - 50.0;
        sim_clock_begin(&a->clock, 0, (int64_t) sim_below(w, 100000 * MRD_SEC), ppm);
        a->spool = calloc(SPOOL_MAX, sizeof(*a->spool));
        a->probes = calloc(PROBES_MAX, sizeof(*a->probes));
        sim_at(w, (int64_t) sim_below(w, MRD_SEC), start, i, 0, NULL);
    }
    if (w->plan->real)
        node_start_all(w);
}

/* ---- Messages of the aggregator ---- */

static int64_t
to_local(const agent *a, int64_t session)
{
    return a->knows_offset ? session - a->session_offset : agent_local(a, a->w->now);
}

static void
take_trigger(world *w, agent *a, part_model *p, uint64_t id, int64_t from, int64_t to)
{
    check_window(w, a, id, from, to);
    for (unsigned i = 0; i < p->n_triggers; i++) {
        if (p->triggers[i] == id)
            return;
    }
    if (p->n_triggers == REPORTED_MAX) {
        memmove(p->triggers, p->triggers + 1, (REPORTED_MAX - 1) * sizeof(*p->triggers));
        p->n_triggers--;
    }
    p->triggers[p->n_triggers++] = id;
    w->r->windows++;
    if (p->ring > 0) {
        spool_add(a, p, (uint32_t) p->ring, false);
        p->window_events += p->ring;
        p->ring = 0;
    }
}

static void
forget(agent *a, uint64_t session)
{
    part_model *p = part_find(a, session);

    for (size_t i = a->n_spool; i-- > 0;) {
        if (a->spool[i].session == session)
            spool_remove(a, i);
    }
    if (p != NULL)
        part_forget(a, p);
}

/* Crashes the aggregator just after a node joined a session late, which is a critical moment. */
static void
crash_soon(world *w, uint64_t a, uint64_t b, void *p)
{
    (void) a;
    (void) b;
    (void) p;
    w->r->crashes++;
    server_crash(w, sim_chance(w, 500));
}

/* A command of the aggregator about a session, which an agent received by a survey or in a
 * reply. */
typedef struct {
    Mrd__ControlType type;
    uint64_t session, trigger;
    bool recorder;
    int64_t at, from, to;
} told;

static mrd_err
follow(world *w, agent *a, const told *t)
{
    part_model *p = part_find(a, t->session);

    check_reported(w, a, t->type, t->session);
    if (w->plan->verbose)
        printf("%10.3f %s follow %d session %llx phase %d\n", (double) w->now / 1e9, a->id,
               (int) t->type, (unsigned long long) t->session, p == NULL ? -1 : (int) p->phase);
    switch (t->type) {
    case MRD__CONTROL_TYPE__CONTROL_ARM:
        if (p == NULL && w->plan->faults && !w->healing && sim_chance(w, 30))
            return MRD_FULL;
        if ((p = part_make(a, t->session, t->recorder)) == NULL)
            return MRD_LIMIT;
        if (p->phase == MRD__NODE_PHASE__NODE_IDLE)
            p->phase = MRD__NODE_PHASE__NODE_ARMED;
        p->armed_until = agent_local(a, w->now) + 30 * MRD_SEC;
        break;
    case MRD__CONTROL_TYPE__CONTROL_GO:
        if (p == NULL && w->plan->faults && !w->healing && sim_chance(w, 100))
            sim_at(w, w->now + (int64_t) sim_below(w, 2500 * MRD_MS), crash_soon, 0, 0, NULL);
        if ((p = part_make(a, t->session, t->recorder)) == NULL)
            return MRD_LIMIT;
        if (p->phase == MRD__NODE_PHASE__NODE_IDLE)
            p->phase = MRD__NODE_PHASE__NODE_ARMED;
        if (p->go == 0)
            p->go = to_local(a, t->at);
        break;
    case MRD__CONTROL_TYPE__CONTROL_STOP:
        if (p != NULL && p->stop == 0) {
            p->stop = to_local(a, t->at);
            if (p->phase == MRD__NODE_PHASE__NODE_ARMED) {
                p->go = p->go == 0 ? p->stop : p->go;
                p->phase = MRD__NODE_PHASE__NODE_RECORDING;
                p->next_batch = INT64_MAX;
            }
        }
        break;
    case MRD__CONTROL_TYPE__CONTROL_CANCEL:
        forget(a, t->session);
        break;
    case MRD__CONTROL_TYPE__CONTROL_TRIGGER:
        if (p == NULL || !p->recorder || p->phase != MRD__NODE_PHASE__NODE_RECORDING)
            return MRD_STATE;
        take_trigger(w, a, p, t->trigger, t->from, t->to);
        break;
    default:
        break;
    }
    return MRD_OK;
}

static told
reported_of(const mrd_directive *d)
{
    told t = { .type = d->type, .session = d->id };

    if (d->session != NULL) {
        t.recorder = mrd_session_is_recorder(d->session);
        t.at = d->type == MRD__CONTROL_TYPE__CONTROL_STOP ? d->session->stop.ns : d->session->go.ns;
    }
    if (d->trigger != 0) {
        const mrd_trigger *trigger = &d->session->triggers[d->trigger - 1];

        t.trigger = trigger->id;
        t.from = trigger->from.ns;
        t.to = trigger->to.ns;
    }
    return t;
}

/* ---- Replies to requests ---- */

typedef struct {
    uint64_t request;
    unsigned link;
    mrd_effect_kind kind;
    Mrd__AckStatus status;
    uint32_t retry_ms;
    unsigned n;
    bool has_estimate;
    int64_t offset;
    told told[];
} reply;

static size_t
spool_at(const agent *a, uint64_t request)
{
    size_t i = 0;

    while (i < a->n_spool && (!a->spool[i].sent || a->spool[i].request != request))
        i++;
    return i;
}

static void
take_ack(world *w, agent *a, const reply *r)
{
    size_t at = spool_at(a, r->request);
    part_model *p;

    if (at == a->n_spool)
        return; /* a late reply to an answered request */
    p = part_find(a, a->spool[at].session);
    switch (r->status) {
    case MRD__ACK_STATUS__ACK_STORED:
    case MRD__ACK_STATUS__ACK_DUPLICATE:
        if (p != NULL && !a->spool[at].clock)
            p->delivered += a->spool[at].events;
        w->r->acknowledged++;
        spool_remove(a, at);
        break;
    case MRD__ACK_STATUS__ACK_REFUSED:
        if (p != NULL && !a->spool[at].clock)
            p->refused += a->spool[at].events;
        spool_remove(a, at);
        break;
    case MRD__ACK_STATUS__ACK_HELLO_FIRST:
        a->welcomed = false;
        a->spool[at].sent = false;
        a->in_flight--;
        break;
    default: /* later */
        a->spool[at].sent = false;
        a->spool[at].wait_until = w->now + (int64_t) r->retry_ms * MRD_MS;
        a->in_flight--;
        break;
    }
}

static void
get_reply(world *w, uint64_t index, uint64_t incarnation, void *arg)
{
    agent *a = &w->agents[index];
    reply *r = arg;

    if (a->incarnation == incarnation && a->link == r->link && a->linked) {
        if (r->request == a->urgent) {
            a->urgent = 0;
            if (r->kind == MRD_DO_WELCOME)
                a->welcomed = true;
            else if (r->kind == MRD_DO_ACK && r->status == MRD__ACK_STATUS__ACK_HELLO_FIRST)
                a->welcomed = false;
            if (r->has_estimate) {
                a->knows_offset = true;
                a->session_offset = r->offset;
            }
            for (unsigned i = 0; i < r->n; i++)
                (void) follow(w, a, &r->told[i]);
        } else {
            take_ack(w, a, r);
            send_spool(a);
        }
    }
    free(r);
}

void
agent_reply(world *w, agent *a, uint64_t request, const mrd_effect *e)
{
    int64_t d;
    reply *r;

    if ((d = sim_delay(w, a)) < 0)
        return;
    r = calloc(1, sizeof(*r) + e->n_directives * sizeof(told));
    *r = (reply){ .request = request,
                  .link = a->link,
                  .kind = e->kind,
                  .status = e->status,
                  .retry_ms = e->retry_ms,
                  .n = e->n_directives,
                  .has_estimate = e->has_estimate,
                  .offset = e->estimate.offset_ns };
    for (unsigned i = 0; i < r->n; i++)
        r->told[i] = reported_of(&e->directives[i]);
    sim_at(w, w->now + d, get_reply, a->index, a->incarnation, r);
}

/* ---- Surveys ---- */

typedef struct {
    uint64_t survey;
    told t;
    mrd_err err;
    Mrd__NodePhase phase;
} question;

static void
answered(world *w, uint64_t index, uint64_t incarnation, void *arg)
{
    question *q = arg;

    (void) incarnation;
    server_answer(w, q->survey, &w->agents[index], q->t.type, true, q->phase, q->err);
    free(q);
}

static void
asked(world *w, uint64_t index, uint64_t incarnation, void *arg)
{
    agent *a = &w->agents[index];
    question *q = arg;
    int64_t d = sim_delay(w, a);
    const part_model *p;

    if (a->incarnation != incarnation || !a->linked || !a->welcomed || d < 0) {
        free(q);
        return;
    }
    q->err = follow(w, a, &q->t);
    p = part_find(a, q->t.session);
    q->phase = q->err != MRD_OK ? MRD__NODE_PHASE__NODE_REFUSED
               : p == NULL      ? MRD__NODE_PHASE__NODE_IDLE
                                : p->phase;
    sim_at(w, w->now + d, answered, index, incarnation, q);
}

void
agent_control(world *w, agent *a, uint64_t survey, Mrd__ControlType type, uint64_t session,
              bool recorder, int64_t at, const mrd_trigger *t)
{
    int64_t d = sim_delay(w, a);
    question *q;

    if (d < 0 || !a->linked)
        return;
    q = calloc(1, sizeof(*q));
    q->survey = survey;
    q->t = (told){ .type = type, .session = session, .recorder = recorder, .at = at };
    if (t != NULL) {
        q->t.trigger = t->id;
        q->t.from = t->from.ns;
        q->t.to = t->to.ns;
    }
    sim_at(w, w->now + d, asked, a->index, a->incarnation, q);
}
