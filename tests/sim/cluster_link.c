/* The connections of a node that runs the real agent. They behave as documented in proto/link.h,
 * over the simulated network. */
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/vec.h"
#include "tests/sim/cluster_node.h"

#define RESEND (5 * MRD_SEC)
/* mrd_link_options.reply_ns; the agent requests less for probes */
#define FAIL       (30 * MRD_SEC)
#define FAIL_PROBE (5 * MRD_SEC)
/* maximum number of requests in flight: the requests of the window, and one urgent request */
#define FLIGHTS 10

typedef struct {
    uint64_t request; /* 0: free */
    uint64_t tag;
    bool urgent;
    int64_t since;
    mrd_buf frame;
} link_flight;

struct sim_link {
    mrd_transport pub; /* first */
    sim_link *next;
    sim_node *n;
    bool probes, up;
    uint64_t id; /* never reused, so a late message for a closed link cannot reach another link */
    unsigned made;
    uint32_t conn;
    unsigned window;
    link_flight flights[FLIGHTS];
    mrd_link_event *events;
    size_t n_events, cap_events;
};

static sim_link *
link_by_id(sim_node *n, uint64_t id)
{
    sim_link *l = n->links;

    while (l != NULL && l->id != id)
        l = l->next;
    return l;
}

static void
put_event(sim_link *l, mrd_link_kind kind, uint64_t tag, mrd_bytes data)
{
    mrd_link_event ev = { .kind = kind,
                          .tag = tag,
                          .err = kind == MRD_LINK_FAILED ? MRD_TIMEOUT : MRD_OK,
                          .at = { agent_local(l->n->a, l->n->w->now) } };

    if (data.len > 0) {
        ev.keep = malloc(data.len);
        if (ev.keep == NULL)
            abort();
        memcpy(ev.keep, data.p, data.len);
        ev.data = (mrd_bytes){ ev.keep, data.len };
    }
    if (!MRD_VEC_ROOM(l->events, l->n_events, l->cap_events, 1))
        abort();
    l->events[l->n_events++] = ev;
    if (l->n_events > 4096)
        sim_fail(l->n->w, "node %s: 4,096 events of its connection wait", l->n->a->id);
    node_wake(l->n, l->n->w->now);
}

/* ---- To the aggregator ---- */

typedef struct {
    uint64_t link, request;
    unsigned made;
    size_t len;
    uint8_t data[];
} packet;

static packet *
packet_new(const sim_link *l, uint64_t request, mrd_bytes data)
{
    packet *p = malloc(sizeof(*p) + data.len);

    if (p == NULL)
        abort();
    *p = (packet){ .link = l->id, .request = request, .made = l->made, .len = data.len };
    memcpy(p->data, data.p, data.len);
    return p;
}

static void
arrive(world *w, uint64_t index, uint64_t none, void *arg)
{
    packet *p = arg;
    sim_node *n = w->agents[index].node;
    const sim_link *l = link_by_id(n, p->link);

    (void) none;
    if (l != NULL && l->up && l->made == p->made)
        loop_frame(w, n->a, l->conn, p->request, (mrd_bytes){ p->data, p->len });
    free(p);
}

static void
post(sim_link *l, const link_flight *f)
{
    world *w = l->n->w;
    unsigned copies = w->plan->faults && !w->healing && sim_chance(w, 10) ? 2 : 1;
    mrd_bytes data = { f->frame.p, f->frame.len };

    for (unsigned i = 0; i < copies; i++) {
        int64_t d = sim_delay(w, l->n->a);

        w->r->repeats += i;
        if (d >= 0)
            sim_at(w, w->now + d + l->n->slow, arrive, l->n->a->index, 0,
                   packet_new(l, f->request, data));
    }
}

static link_flight *
flight_of(sim_link *l, uint64_t request)
{
    for (unsigned i = 0; i < FLIGHTS; i++) {
        if (l->flights[i].request == request)
            return &l->flights[i];
    }
    return NULL;
}

/* The transport resends an unanswered request and finally drops it. */
static void
repeat(world *w, uint64_t index, uint64_t id, void *arg)
{
    uint64_t request = *(uint64_t *) arg;
    sim_link *l = link_by_id(w->agents[index].node, id);
    link_flight *f = l == NULL ? NULL : flight_of(l, request);

    if (f == NULL) {
        free(arg);
        return;
    }
    if (w->now - f->since >= (l->probes ? FAIL_PROBE : FAIL)) {
        uint64_t tag = f->tag;

        f->request = 0;
        put_event(l, MRD_LINK_FAILED, tag, (mrd_bytes){ 0 });
        free(arg);
        return;
    }
    if (l->up)
        post(l, f);
    sim_at(w, w->now + RESEND, repeat, index, id, arg);
}

static unsigned
in_flight(const sim_link *l)
{
    unsigned n = 0;

    for (unsigned i = 0; i < FLIGHTS; i++)
        n += l->flights[i].request != 0 && !l->flights[i].urgent;
    return n;
}

static mrd_err
send_frame(sim_link *l, uint64_t tag, mrd_bytes frame, bool urgent)
{
    world *w = l->n->w;
    link_flight *f = flight_of(l, 0);
    uint64_t *request;

    if (node_dead(l->n))
        return MRD_OK; /* the message is discarded, because the node's process is dead */
    if (f == NULL || (!urgent && in_flight(l) == l->window))
        return MRD_AGAIN;
    f->request = ++w->last_request;
    f->tag = tag;
    f->urgent = urgent;
    f->since = w->now;
    mrd_buf_reset(&f->frame);
    mrd_buf_add(&f->frame, frame.p, frame.len);
    sim_mix(w, frame.len << 32 ^ mrd_crc32(0, frame.p, frame.len));
    if (l->up)
        post(l, f);
    if ((request = malloc(sizeof(*request))) == NULL)
        abort();
    *request = f->request;
    sim_at(w, w->now + RESEND, repeat, l->n->a->index, l->id, request);
    return MRD_OK;
}

/* ---- From the aggregator ---- */

typedef struct {
    uint64_t link, request;
    unsigned made, timeline;
    bool survey;
    size_t len;
    uint8_t data[];
} answer;

static void
get_answer(world *w, uint64_t index, uint64_t none, void *arg)
{
    answer *r = arg;
    sim_node *n = w->agents[index].node;
    sim_link *l = link_by_id(n, r->link);
    link_flight *f = l == NULL ? NULL : flight_of(l, r->request);
    mrd_bytes data = { r->data, r->len };

    (void) none;
    if (l != NULL && l->up && l->made == r->made && (r->survey || f != NULL)) {
        if (r->timeline != 0) {
            n->timeline = r->timeline;
            n->welcomed = true;
        }
        put_event(l, r->survey ? MRD_LINK_CONTROL : MRD_LINK_REPLY, r->survey ? r->request : f->tag,
                  data);
        if (!r->survey)
            f->request = 0;
    }
    free(r);
}

static void
send_answer(sim_link *l, uint64_t request, bool survey, mrd_bytes frame, unsigned timeline)
{
    world *w = l->n->w;
    int64_t d = sim_delay(w, l->n->a);
    answer *r;

    if (d < 0 || !l->up)
        return;
    if ((r = malloc(sizeof(*r) + frame.len)) == NULL)
        abort();
    *r = (answer){ .link = l->id,
                   .request = request,
                   .made = l->made,
                   .timeline = timeline,
                   .survey = survey,
                   .len = frame.len };
    memcpy(r->data, frame.p, frame.len);
    sim_at(w, w->now + d + l->n->slow, get_answer, l->n->a->index, 0, r);
}

void
link_reply(sim_node *n, uint32_t conn, uint64_t request, mrd_bytes frame, unsigned timeline)
{
    for (sim_link *l = n->links; l != NULL; l = l->next) {
        if (l->conn == conn && flight_of(l, request) != NULL) {
            send_answer(l, request, false, frame, timeline);
            return;
        }
    }
}

/* Delivers a survey over the node's control channel, if there is one. A node has it as soon as the
 * aggregator has accepted its data channel. */
void
link_survey(sim_node *n, uint64_t survey, mrd_bytes frame)
{
    for (sim_link *l = n->links; l != NULL; l = l->next) {
        if (!l->probes && n->welcomed)
            send_answer(l, survey, true, frame, 0);
    }
}

typedef struct {
    uint64_t survey;
    size_t len;
    uint8_t data[];
} survey_answer;

static void
survey_answered(world *w, uint64_t a, uint64_t b, void *arg)
{
    survey_answer *s = arg;

    (void) a;
    (void) b;
    loop_answer(w, s->survey, (mrd_bytes){ s->data, s->len });
    free(s);
}

/* ---- Up and down ---- */

static void dial(world *w, uint64_t index, uint64_t id, void *p);

static void
link_up(sim_link *l)
{
    world *w = l->n->w;

    l->up = true;
    l->made++;
    l->conn = ++w->last_conn;
    loop_conn(w, l->conn, true);
    if (!l->probes) {
        l->n->a->conn = l->conn;
        l->n->a->link++;
        l->n->a->linked = true;
    }
    put_event(l, MRD_LINK_UP, 0, (mrd_bytes){ 0 });
    /* unanswered requests are sent again on the new connection */
    for (unsigned i = 0; i < FLIGHTS; i++) {
        if (l->flights[i].request != 0)
            post(l, &l->flights[i]);
    }
}

static void
dial(world *w, uint64_t index, uint64_t id, void *p)
{
    sim_node *n = w->agents[index].node;
    sim_link *l = link_by_id(n, id);

    (void) p;
    if (l == NULL || l->up)
        return;
    if (w->up && !n->a->partitioned && !n->suspended)
        link_up(l);
    else
        sim_at(w, w->now + 100 * MRD_MS + (int64_t) sim_below(w, 8 * MRD_SEC), dial, index, id,
               NULL);
}

typedef struct {
    uint32_t conn;
    unsigned incarnation;
} gone_conn;

static void
conn_gone(world *w, uint64_t a, uint64_t b, void *arg)
{
    gone_conn *g = arg;

    (void) a;
    (void) b;
    if (w->up && w->incarnation == g->incarnation)
        loop_conn(w, g->conn, false);
    free(g);
}

static void
link_down(sim_link *l)
{
    world *w = l->n->w;
    gone_conn *g;

    if (!l->up)
        return;
    l->up = false;
    l->made++;
    if (!l->probes) {
        l->n->a->link++;
        l->n->a->linked = l->n->welcomed = false;
    }
    if ((g = malloc(sizeof(*g))) == NULL)
        abort();
    *g = (gone_conn){ l->conn, w->incarnation };
    sim_at(w, w->now + (int64_t) sim_below(w, 400 * MRD_MS), conn_gone, 0, 0, g);
}

void
link_cut_all(sim_node *n)
{
    for (sim_link *l = n->links; l != NULL; l = l->next) {
        if (!l->up)
            continue;
        link_down(l);
        put_event(l, MRD_LINK_DOWN, 0, (mrd_bytes){ 0 });
        sim_at(n->w, n->w->now + 50 * MRD_MS + (int64_t) sim_below(n->w, 2 * MRD_SEC), dial,
               n->a->index, l->id, NULL);
    }
}

/* ---- The interface of agent/link/transport.h ---- */

static sim_link *
of(mrd_transport *t)
{
    return (sim_link *) t;
}

static mrd_err
submit(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    return send_frame(of(t), tag, frame, false);
}

static mrd_err
submit_urgent(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    return send_frame(of(t), tag, frame, true);
}

static mrd_err
answer_survey(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    sim_link *l = of(t);
    world *w = l->n->w;
    int64_t d = sim_delay(w, l->n->a);
    survey_answer *s;

    if (node_dead(l->n) || d < 0 || frame.len == 0)
        return MRD_OK;
    if ((s = malloc(sizeof(*s) + frame.len)) == NULL)
        abort();
    s->survey = tag;
    s->len = frame.len;
    memcpy(s->data, frame.p, frame.len);
    sim_mix(w, tag ^ mrd_crc32(0, frame.p, frame.len));
    sim_at(w, w->now + d + l->n->slow, survey_answered, 0, 0, s);
    return MRD_OK;
}

static unsigned
free_slots(mrd_transport *t)
{
    return of(t)->window - in_flight(of(t));
}

static bool
next(mrd_transport *t, int timeout_ms, mrd_link_event *ret_event)
{
    sim_link *l = of(t);

    (void) timeout_ms;
    if (l->n_events == 0 || node_dead(l->n))
        return false;
    *ret_event = l->events[0];
    memmove(l->events, l->events + 1, --l->n_events * sizeof(*l->events));
    return true;
}

static void
done(mrd_transport *t, mrd_link_event *event)
{
    (void) t;
    free(event->keep);
    event->keep = NULL;
}

static int
no_fd(mrd_transport *t)
{
    (void) t;
    return -1;
}

static void
close_link(mrd_transport *t)
{
    sim_link *l = of(t), **at = &l->n->links;

    link_down(l);
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    for (unsigned i = 0; i < FLIGHTS; i++)
        mrd_buf_fini(&l->flights[i].frame);
    for (size_t i = 0; i < l->n_events; i++)
        free(l->events[i].keep);
    free(l->events);
    free(l);
}

mrd_transport *
link_new(sim_node *n, bool probes)
{
    world *w = n->w;
    sim_link *l = calloc(1, sizeof(*l));

    if (l == NULL)
        abort();
    *l = (sim_link){ .pub = { .submit = submit,
                              .submit_urgent = submit_urgent,
                              .answer = answer_survey,
                              .free_slots = free_slots,
                              .next = next,
                              .done = done,
                              .fd = no_fd,
                              .close = close_link },
                     .next = n->links,
                     .n = n,
                     .probes = probes,
                     .id = ++w->last_request,
                     .window = probes ? 1 : WINDOW };
    n->links = l;
    sim_at(w, w->now + (int64_t) sim_below(w, 20 * MRD_MS), dial, n->a->index, l->id, NULL);
    return &l->pub;
}

/* The agent's connection for probes. */
extern mrd_err __wrap_mrd_transport_link(const mrd_link_options *options,
                                         mrd_transport **ret_transport, mrd_why *why);
mrd_err
__wrap_mrd_transport_link(const mrd_link_options *options, mrd_transport **ret_transport,
                          mrd_why *why)
{
    (void) options;
    (void) why;
    *ret_transport = link_new(node_of_turn(), true);
    return MRD_OK;
}
