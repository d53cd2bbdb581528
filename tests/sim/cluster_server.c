/* The aggregator of the simulated cluster: the real core and a model of its disk, which can lose
 * data. */
#include <stdio.h>
#include <stdlib.h>

#include "base/obj.h"
#include "tests/sim/cluster_node.h"
#include "tests/sim/planted/planted.h"

#define TICK   (200 * MRD_MS)
#define WALL_0 (1750000000LL * MRD_SEC)

mrd_core_time
server_now(const world *w)
{
    return (mrd_core_time){
        .local = { w->now + (int64_t) ((long double) w->now * w->server_ppm / 1e6L) +
                   w->server_offset },
        .wall = { WALL_0 + w->now + w->server_wall },
    };
}

disk_session *
disk_of(world *w, uint64_t id)
{
    for (size_t i = w->n_disk; i-- > 0;) {
        if (w->disk[i].id == id)
            return &w->disk[i];
    }
    return NULL;
}

disk_session *
disk_make(world *w, uint64_t id)
{
    disk_session *d = disk_of(w, id);

    if (d != NULL)
        return d;
    w->disk = realloc(w->disk, (w->n_disk + 1) * sizeof(*w->disk));
    d = &w->disk[w->n_disk++];
    *d = (disk_session){ .id = id, .content = 1 };
    return d;
}

/* ---- Tickets ---- */

static uint64_t
ticket_new(world *w, const agent *a, uint64_t request)
{
    if (w->n_tickets == w->cap_tickets) {
        w->cap_tickets = w->cap_tickets == 0 ? 512 : 2 * w->cap_tickets;
        w->tickets = realloc(w->tickets, w->cap_tickets * sizeof(*w->tickets));
    }
    w->tickets[w->n_tickets++] = (ticket_model){ .ticket = ++w->last_ticket,
                                                 .node = a->index,
                                                 .link = a->link,
                                                 .incarnation = a->incarnation,
                                                 .request = request,
                                                 .came = w->now };
    return w->last_ticket;
}

static bool
ticket_take(world *w, uint64_t ticket, ticket_model *ret)
{
    for (size_t i = w->n_tickets; i-- > 0;) {
        if (w->tickets[i].ticket != ticket)
            continue;
        *ret = w->tickets[i];
        w->tickets[i] = w->tickets[--w->n_tickets];
        return true;
    }
    return false;
}

static void
answer(world *w, const mrd_effect *e)
{
    ticket_model t;
    agent *a;

    if (!ticket_take(w, e->ticket, &t)) {
        sim_fail(w, "an answer to a request that does not wait");
        return;
    }
    a = &w->agents[t.node];
    check_ack(w, &t, e, NULL);
    if (e->kind != MRD_DO_DROP && a->link == t.link && a->incarnation == t.incarnation)
        agent_reply(w, a, t.request, e);
}

/* ---- Journals ---- */

void
frame_add(disk_session *d, const stored_frame *f)
{
    if (d->n_frames == d->cap_frames) {
        d->cap_frames = d->cap_frames == 0 ? 256 : 2 * d->cap_frames;
        d->frames = realloc(d->frames, d->cap_frames * sizeof(*d->frames));
    }
    d->frames[d->n_frames++] = *f;
}

static void commit(world *w);

static void
committed(world *w, uint64_t incarnation, uint64_t full, void *p)
{
    size_t n = w->n_commit;
    mrd_why why = { .err = MRD_FULL, .text = "no room" };

    (void) p;
    if (incarnation != w->incarnation || !w->up)
        return;
    w->committing = false;
    for (size_t i = 0; i < n && !full; i++) {
        disk_session *d = disk_of(w, w->queue[i].session);

        for (size_t k = d == NULL ? 0 : d->n_frames; k-- > 0 && !d->frames[k].synced;)
            d->frames[k].synced = true;
    }
    for (size_t i = 0; i < n; i++) {
        w->r->stored += !full;
        mrd_core_stored(w->core, server_now(w), w->queue[i].ticket, full ? &why : NULL);
        server_carry(w);
    }
    memmove(w->queue, w->queue + n, (w->n_queue - n) * sizeof(*w->queue));
    w->n_queue -= n;
    if (w->n_queue > 0)
        commit(w);
}

/* Writes the queued frames to the journal model. They are durable when the sync ends. */
static void
commit(world *w)
{
    int64_t took = 1 * MRD_MS + (int64_t) sim_below(w, 8 * MRD_MS);

    if (w->plan->faults && !w->healing && sim_chance(w, 20))
        took += (int64_t) sim_below(w, 2 * MRD_SEC);
    w->committing = true;
    w->n_commit = w->n_queue;
    for (size_t i = 0; i < w->n_commit && !w->disk_full; i++)
        frame_add(disk_make(w, w->queue[i].session), &w->queue[i].f);
    sim_at(w, w->now + took, committed, w->incarnation, w->disk_full, NULL);
}

/* Handles clock data on its way to the journal, as the loop does. */
static void
take_clock(world *w, agent *a, mrd_node *n)
{
    Mrd__ClockData data = MRD__CLOCK_DATA__INIT;
    mrd_buf raw = { 0 };

    for (size_t i = 0; i < a->n_probes; i++)
        mrd_probe_encode(&a->probes[i], &raw);
    a->n_probes = 0;
    data.reference = w->core->timescale.timeline;
    data.joined = (ProtobufCBinaryData){ raw.len, raw.p };
    mrd_node_take_clock(n, &w->core->timescale, &data, NULL, NULL, &w->joined);
    mrd_buf_fini(&raw);
}

static void
do_append(world *w, const mrd_effect *e)
{
    uint32_t node = (uint32_t) strtoul(e->part->instance_id + 2, NULL, 10);

    if (e->frame.type == MRD_FRAME_CLOCK_DATA)
        take_clock(w, &w->agents[node], e->node);
    if (w->store != NULL) {
        store_append(w, e);
        return;
    }
    if (w->n_queue == w->cap_queue) {
        w->cap_queue = w->cap_queue == 0 ? 512 : 2 * w->cap_queue;
        w->queue = realloc(w->queue, w->cap_queue * sizeof(*w->queue));
    }
    w->queue[w->n_queue++] = (append_model){ .ticket = e->ticket,
                                             .session = e->session->id,
                                             .f = { .session = e->session->id,
                                                    .seq = e->frame.seq,
                                                    .epoch = e->frame.epoch,
                                                    .events = e->frame.events,
                                                    .node = node,
                                                    .type = e->frame.type } };
    if (!w->committing)
        commit(w);
}

/* ---- Manifests ---- */

typedef struct saved_manifest {
    /* links of the list w->saving; `at` is NULL after a crash removed the manifest from the list */
    struct saved_manifest *next, **at;
    uint64_t session;
    char *text;
    mrd_session *copy;
    bool go, stop;
    uint64_t version;
} saved_manifest;

static void
unlink_saved(saved_manifest *m)
{
    if (m->at == NULL)
        return;
    *m->at = m->next;
    if (m->next != NULL)
        m->next->at = m->at;
    m->at = NULL;
}

static void
saved_free(saved_manifest *m)
{
    unlink_saved(m);
    free(m->text);
    mrd_session_free(m->copy);
    free(m);
}

static void
save_put(disk_session *d, saved_manifest *m)
{
    free(d->text);
    mrd_session_free(d->copy);
    d->text = m->text;
    d->copy = m->copy;
    d->durable_go = m->go;
    d->durable_stop = m->stop;
    m->text = NULL;
    m->copy = NULL;
}

static void
saved(world *w, uint64_t incarnation, uint64_t id, void *arg)
{
    saved_manifest *m = arg;
    disk_session *d = disk_make(w, id);
    mrd_why why = { .err = MRD_FULL, .text = "no room" };
    bool full = w->disk_full;
    uint64_t version = m->version;

    /* A crash happened since. It has decided whether the manifest reached the disk. */
    if (incarnation != w->incarnation || !w->up) {
        saved_free(m);
        return;
    }
    if (!full && !d->removed)
        save_put(d, m);
    else if (full) { /* sent nevertheless and logged: docs/explanation/architecture.md */
        d->durable_go = d->durable_go || m->go;
        d->durable_stop = d->durable_stop || m->stop;
    }
    saved_free(m);
    mrd_core_saved(w->core, server_now(w), id, version, full ? &why : NULL);
    server_carry(w);
}

static void
do_save(world *w, const mrd_effect *e)
{
    saved_manifest *m = calloc(1, sizeof(*m));
    mrd_manifest_context x = mrd_core_manifest_context(w->core);
    int64_t took = 2 * MRD_MS + (int64_t) e->session->n_parts * 100 * MRD_US;
    mrd_buf text = { 0 };

    m->session = e->session->id;
    m->next = w->saving;
    m->at = &w->saving;
    if (m->next != NULL)
        m->next->at = &m->next;
    w->saving = m;
    m->version = e->version;
    m->go = e->session->go.ns != 0 && e->session->state >= MRD_SESSION_RECORDING;
    m->stop = e->session->stop.ns != 0;
    if (w->plan->nodes > 50) {
        m->copy = mrd_session_copy(e->session);
    } else {
        mrd_json *o = mrd_session_json(e->session, &x);

        mrd_json_write(o, false, &text);
        mrd_json_free(o);
        m->text = mrd_str_dup((mrd_str){ (char *) text.p, text.len });
        mrd_buf_fini(&text);
    }
    if (w->plan->faults && !w->healing && sim_chance(w, 50))
        took += (int64_t) sim_below(w, 3 * MRD_SEC);
    w->r->saves++;
    sim_at(w, w->now + took, saved, w->incarnation, m->session, m);
}

static void
nodes_saved(world *w, uint64_t incarnation, uint64_t none, void *arg)
{
    (void) none;
    (void) arg;
    if (incarnation != w->incarnation || !w->up)
        return;
    mrd_core_nodes_saved(w->core, server_now(w), NULL);
    server_carry(w);
}

static void
do_save_nodes(world *w)
{
    mrd_buf text = { 0 };

    if (w->plan->nodes <= 50) {
        mrd_core_registry_text(w->core, &text);
        mrd_json_free(w->nodes_file);
        w->nodes_file = NULL;
        (void) mrd_json_parse((mrd_str){ (char *) text.p, text.len }, "nodes", &w->nodes_file,
                              NULL);
        mrd_buf_fini(&text);
    }
    sim_at(w, w->now + 5 * MRD_MS, nodes_saved, w->incarnation, 0, NULL);
}

/* ---- Jobs ---- */

static void
job_closed(world *w, uint64_t incarnation, uint64_t id, void *p)
{
    disk_session *d = disk_of(w, id);

    (void) p;
    if (incarnation != w->incarnation || !w->up)
        return;
    for (size_t i = 0; i < w->n_queue; i++) {
        if (w->queue[i].session == id) { /* pending journal frames are written first */
            sim_at(w, w->now + 5 * MRD_MS, job_closed, incarnation, id, NULL);
            return;
        }
    }
    if (d != NULL)
        d->closed = true;
    mrd_core_closed(w->core, server_now(w), id);
    server_carry(w);
}

static void
job_merged(world *w, uint64_t incarnation, uint64_t id, void *p)
{
    disk_session *d = disk_of(w, id);
    mrd_clock_verdict v = { .done = true };
    mrd_why why = { 0 };

    (void) p;
    if (incarnation != w->incarnation || !w->up)
        return;
    if (d != NULL && d->removed)
        sim_fail(w, "a session was removed while it was merged");
    export_merged(w, id);
    mrd_core_merged(w->core, server_now(w), id, MRD_MERGE_DONE, 0, &v, &why);
    server_carry(w);
}

static void
job_measured(world *w, uint64_t incarnation, uint64_t id, void *p)
{
    (void) p;
    if (incarnation != w->incarnation || !w->up)
        return;
    mrd_core_measured(w->core, server_now(w), id, 1000);
    server_carry(w);
}

static void
job_removed(world *w, uint64_t incarnation, uint64_t id, void *p)
{
    disk_session *d = disk_of(w, id);

    (void) p;
    if (d != NULL)
        d->removed = true;
    if (incarnation != w->incarnation || !w->up)
        return;
    mrd_core_removed(w->core, server_now(w), id, NULL);
    server_carry(w);
}

/* ---- Surveys ---- */

static void
do_ask(world *w, const mrd_effect *e)
{
    const mrd_directive *d = &e->directives[0];
    int64_t at =
        d->type == MRD__CONTROL_TYPE__CONTROL_STOP ? d->session->stop.ns : d->session->go.ns;

    w->r->surveys++;
    for (unsigned i = 0; i < w->plan->nodes; i++) {
        check_reported(w, &w->agents[i], d->type, d->id);
        agent_control(w, &w->agents[i], e->survey, d->type, d->id,
                      mrd_session_is_recorder(d->session), at,
                      d->trigger == 0 ? NULL : &d->session->triggers[d->trigger - 1]);
    }
}

void
server_answer(world *w, uint64_t survey, agent *a, Mrd__ControlType type, bool selected,
              Mrd__NodePhase phase, mrd_err err)
{
    Mrd__ControlReply r = MRD__CONTROL_REPLY__INIT;

    if (!w->up)
        return;
    r.instance_id = a->id;
    r.run = a->run;
    r.type = type;
    r.selected = selected;
    r.phase = phase;
    r.err = (uint32_t) err;
    mrd_core_answered(w->core, server_now(w), survey, &r);
    server_carry(w);
}

/* ---- Effects ---- */

void
server_answered(world *w, uint64_t ticket, uint64_t session)
{
    sim_mix(w, session);
    if (disk_of(w, session) != NULL && w->n_asked < MRD_COUNT(w->asked))
        w->asked[w->n_asked++] = (asked_session){ .id = ticket, .session = session };
}

static void
carry_one(world *w, mrd_effect *e)
{
    switch (e->kind) {
    case MRD_DO_HEARTBEAT:
    case MRD_DO_WELCOME:
        for (unsigned i = 0; i < e->n_directives; i++)
            check_reported(w, NULL, e->directives[i].type, e->directives[i].id);
        answer(w, e);
        break;
    case MRD_DO_ACK:
    case MRD_DO_REFUSE:
    case MRD_DO_DROP:
        answer(w, e);
        break;
    case MRD_DO_APPEND:
        do_append(w, e);
        break;
    case MRD_DO_ASK:
        do_ask(w, e);
        break;
    case MRD_DO_SAVE:
        w->store != NULL ? store_save(w, e) : do_save(w, e);
        break;
    case MRD_DO_SAVE_NODES:
        w->store != NULL ? store_save_nodes(w, e) : do_save_nodes(w);
        break;
    case MRD_DO_CLOSE:
        if (w->store != NULL) {
            store_close_session(w, e->session);
            break;
        }
        sim_at(w, w->now + 10 * MRD_MS, job_closed, w->incarnation, e->session->id, NULL);
        break;
    case MRD_DO_MERGE:
        if (!e->session->closed || e->session->deleted)
            sim_fail(w, "a session is merged whose journals are open, or that is deleted");
        export_merging(w, e->session->id);
        sim_at(w, w->now + MRD_SEC + (int64_t) sim_below(w, 3 * MRD_SEC), job_merged,
               w->incarnation, e->session->id, NULL);
        break;
    case MRD_DO_MEASURE:
        if (w->store != NULL) {
            store_measure(w, e->session);
            break;
        }
        sim_at(w, w->now + 10 * MRD_MS, job_measured, w->incarnation, e->session->id, NULL);
        break;
    case MRD_DO_REMOVE:
        if (mrd_session_is_merging(e->session))
            sim_fail(w, "a session is removed while it is merged");
        export_removing(w, e->session);
        if (w->store != NULL) {
            store_remove(w, e->session);
            break;
        }
        sim_at(w, w->now + 10 * MRD_MS, job_removed, w->incarnation, e->session->id, NULL);
        break;
    case MRD_DO_EXPORT:
        export_start(w, e->session);
        break;
    case MRD_DO_ANSWER:
        if (e->err == MRD_OK && e->value != 0)
            server_answered(w, e->ticket, e->value);
        break;
    default:
        break;
    }
}

void
server_carry(world *w)
{
    mrd_effect *e;

    while ((e = mrd_core_effect(w->core)) != NULL) {
        sim_mix(w, (uint64_t) e->kind << 56 ^ e->ticket ^ (uint64_t) w->now << 8);
        if (w->plan->verbose && e->kind == MRD_DO_LOG)
            printf("%10.3f %s %s\n", (double) w->now / 1e9, e->id, e->text);
        carry_one(w, e);
    }
}

/* ---- Requests ---- */

static void
do_hello(world *w, agent *a, uint64_t ticket)
{
    static char host[] = "host", boot[] = "boot", release[] = "sim";
    Mrd__Hello h = MRD__HELLO__INIT;
    mrd_msg msg = { .frame = { .type = MRD_FRAME_HELLO, .agent = a->key }, .u.hello = &h };
    const mrd_node *known = mrd_nodes_by_id(&w->core->nodes, a->id);

    h.wire_major = MRD_WIRE_MAJOR;
    h.instance_id = a->id;
    h.boot_id = boot;
    h.host_name = host;
    h.release = release;
    h.run = a->run;
    h.epoch = a->epoch;
    h.local_ns = agent_local(a, w->now);
    h.wall_ns = WALL_0 + w->now;
    if (known != NULL && known->conn != 0 && known->conn != a->conn) { /* the loop looks first */
        mrd_core_conn_gone(w->core, server_now(w), known->conn);
        server_carry(w);
    }
    mrd_core_hello(w->core, server_now(w), ticket, a->conn, &msg);
}

static void
fill_counters(const agent *a, const part_model *p, Mrd__Counters *c, Mrd__Drop drops[3],
              Mrd__Drop *list[3])
{
    static char causes[3][24] = { "spool-full", "recorder-window", "refused" };
    const uint64_t counts[3] = { p->lost_spool, p->lost_window, p->refused };

    mrd__counters__init(c);
    c->begun = p->begun;
    c->delivered = p->delivered;
    c->since = a->epoch;
    c->held = p->ring;
    for (size_t i = 0; i < a->n_spool; i++)
        c->held += a->spool[i].session == p->id && !a->spool[i].clock ? a->spool[i].events : 0;
    c->drops = list;
    for (unsigned i = 0; i < 3; i++) {
        if (counts[i] == 0)
            continue;
        mrd__drop__init(&drops[c->n_drops]);
        drops[c->n_drops].cause = causes[i];
        drops[c->n_drops].count = counts[i];
        list[c->n_drops] = &drops[c->n_drops];
        c->n_drops++;
    }
}

static void
do_heartbeat(world *w, agent *a, uint64_t ticket, mrd_node *n)
{
    static char state[] = "ok", trigger[] = "trigger";
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__SessionStatus st[SESSIONS_MAX], *list[SESSIONS_MAX];
    Mrd__Counters counters[SESSIONS_MAX];
    Mrd__Drop drops[SESSIONS_MAX][3], *drop_lists[SESSIONS_MAX][3];
    Mrd__Label note = MRD__LABEL__INIT, *notes[1] = { &note };

    hb.state = state;
    hb.local_ns = agent_local(a, w->now);
    hb.wall_ns = WALL_0 + w->now;
    hb.sessions = list;
    for (unsigned i = 0; i < a->n_parts; i++) {
        part_model *p = &a->parts[i];
        Mrd__SessionStatus *s = &st[hb.n_sessions];

        if (p->id == 0)
            continue;
        mrd__session_status__init(s);
        fill_counters(a, p, &counters[hb.n_sessions], drops[hb.n_sessions],
                      drop_lists[hb.n_sessions]);
        s->session = p->id;
        s->phase = p->phase;
        s->started_local_ns = p->go;
        s->stopped_local_ns = p->stop;
        s->last_seq = p->next_seq;
        s->counters = &counters[hb.n_sessions];
        s->triggers = p->triggers;
        s->n_triggers = p->n_triggers;
        list[hb.n_sessions++] = s;
    }
    if (a->reason[0] != '\0') {
        note.key = trigger;
        note.value = a->reason;
        hb.notes = notes;
        hb.n_notes = 1;
    }
    w->r->heartbeats++;
    mrd_core_heartbeat(w->core, server_now(w), ticket, n, &hb, server_now(w).local);
    /* Checks the clock estimate in the answer to the heartbeat, before the answer is sent. */
    if (w->core->out.n > w->core->out.first) {
        const mrd_effect *e = &w->core->out.v[w->core->out.n - 1];

        if (e->kind == MRD_DO_HEARTBEAT && e->has_estimate)
            check_estimate(w, a, &e->estimate, e->estimate_state, hb.local_ns);
    }
}

void
server_request(world *w, agent *a, uint64_t request, const batch *b, bool hello)
{
    mrd_frame f = { .type = hello       ? MRD_FRAME_HELLO
                            : b == NULL ? MRD_FRAME_HEARTBEAT
                            : b->clock  ? MRD_FRAME_CLOCK_DATA
                                        : MRD_FRAME_BATCH,
                    .agent = a->key };
    mrd_node *n;
    uint64_t ticket;

    /* no free context of the link, so the request is repeated */
    if (!w->up || w->n_tickets >= MRD_PENDING_MAX)
        return;
    ticket = ticket_new(w, a, request);
    if (b != NULL) {
        ticket_model *t = &w->tickets[w->n_tickets - 1];

        t->numbered = true;
        t->session = b->session;
        t->seq = b->seq;
        t->epoch = b->epoch;
        f.epoch = b->epoch;
        f.session = b->session;
        f.seq = b->seq;
        f.events = b->events;
        /* no real clock, so the core does not check these times; heartbeats test that check */
        f.clock = 7;
        f.body_len = 100 + 20 * b->events;
    }
    if (mrd_core_sender(w->core, server_now(w), ticket, a->conn, &f, &n)) {
        if (hello)
            do_hello(w, a, ticket);
        else if (b == NULL)
            do_heartbeat(w, a, ticket, n);
        else
            mrd_core_numbered(w->core, server_now(w), ticket, n, &f, f.body_len + 96,
                              server_now(w).local);
    }
    server_carry(w);
}

/* ---- Lifecycle ---- */

static void
tick(world *w, uint64_t incarnation, uint64_t b, void *p)
{
    if (incarnation != w->incarnation || !w->up)
        return;
    mrd_core_tick(w->core, server_now(w));
    server_carry(w);
    if (w->now % MRD_SEC < TICK) {
        if (w->store != NULL)
            store_look(w);
        else
            mrd_core_disk(w->core, server_now(w), w->disk_full ? 0 : INT64_MAX);
        server_carry(w);
    }
    sim_at(w, w->now + TICK, tick, incarnation, b, p);
}

/* Reads the journal of a session, including nodes that its manifest does not have yet. */
static void
read_journal(world *w, mrd_session *s, const disk_session *d)
{
    for (size_t i = 0; i < d->n_frames; i++) {
        const stored_frame *from = &d->frames[i];
        mrd_frame f = { .type = from->type,
                        .epoch = from->epoch,
                        .seq = from->seq,
                        .events = from->events,
                        .clock = 7 };
        char id[24];
        mrd_part *p;

        snprintf(id, sizeof(id), "i-%u", from->node);
        if ((p = mrd_session_part(s, id)) == NULL &&
            (p = mrd_core_found_part(w->core, s, id)) == NULL)
            continue;
        if (mrd_planted != MRD_PLANT_NO_DEDUP && !mrd_part_has(p, &f))
            (void) mrd_part_stored(p, &f);
    }
    for (size_t i = 0; i < s->n_parts; i++)
        mrd_core_part_read(w->core, s, s->parts[i]);
}

static void
recover(world *w)
{
    mrd_core_enter(w->core, server_now(w));
    if (w->nodes_file != NULL)
        (void) mrd_core_load_registry(w->core, w->nodes_file, NULL);
    for (size_t i = 0; i < w->n_disk; i++) {
        disk_session *d = &w->disk[i];
        mrd_json *o = NULL;
        mrd_session *s;
        mrd_why why = { 0 };

        if (d->removed || (d->text == NULL && d->copy == NULL))
            continue;
        if (d->text != NULL)
            (void) mrd_json_parse(mrd_str_of(d->text), "manifest", &o, &why);
        else
            o = mrd_session_json(d->copy, &(mrd_manifest_context){ .now = { 0 } });
        if (mrd_core_load_session(w->core, d->id, o, NULL, &s, &why) != MRD_OK)
            sim_fail(w, "a manifest cannot be read back: %s", why.text);
        else
            read_journal(w, s, d);
        mrd_json_free(o);
    }
}

static void
begin(world *w, uint64_t incarnation, uint64_t b, void *p)
{
    mrd_core_options o = {
        .limits = { .max_nodes = 10000,
                    .max_sessions = 1000,
                    .max_open_sessions = 6,
                    .disk_reserve = 1 << 20,
                    .node_timeout = 5 * MRD_SEC,
                    .node_forget = 3600 * MRD_SEC,
                    .flush_timeout = 120 * MRD_SEC,
                    .arm_timeout = 2 * MRD_SEC,
                    .exports = w->plan->exports,
                    .retain = w->plan->retain,
                    .retain_bytes = w->plan->retain_bytes,
                    .lead = 500 * MRD_MS },
        .timescale = w->scale,
        .seed = sim_random(w),
    };

    if (incarnation != w->incarnation)
        return;
    w->up = w->running = true;
    if (w->store != NULL && !store_open(w)) {
        if (w->up) /* otherwise a fault of the disk is already ending the aggregator */
            server_crash(w, false);
        return;
    }
    o.timescale = w->scale;
    limits_of(w, &o.limits);
    if (w->plan->real) {
        if (!store_loop(w, &o) && w->up)
            server_crash(w, false);
        return;
    }
    w->core = mrd_core_new(&o, server_now(w));
    if (w->store == NULL) {
        recover(w);
    } else if (!store_recover(w)) {
        if (w->up)
            server_crash(w, false);
        return;
    }
    server_carry(w);
    tick(w, incarnation, b, p);
}

static void
new_boot(world *w)
{
    char name[64];

    snprintf(name, sizeof(name), "boot-%u", (unsigned) (w->incarnation + 1));
    w->server_offset = 1000 * MRD_SEC - w->now;
    w->server_ppm = (double) sim_below(w, 40000) / 1000.0 - 20.0;
    if (w->store != NULL) {
        store_boot(w, name);
        return;
    }
    snprintf(w->scale.boot_id, sizeof(w->scale.boot_id), "%s", name);
    snprintf(w->scale.timeline, sizeof(w->scale.timeline), "%s", name);
    w->scale.offset = server_now(w).wall.ns - server_now(w).local.ns;
}

void
server_start(world *w)
{
    if (!w->plan->modelled)
        store_new(w);
    new_boot(w);
    begin(w, w->incarnation, 0, NULL);
}

/* Decides for each unfinished write whether it reached the disk. */
static void
decide_saving(world *w)
{
    while (w->saving != NULL) {
        saved_manifest *m = w->saving;
        disk_session *d = disk_make(w, m->session);

        if (sim_chance(w, 500) && !d->removed)
            save_put(d, m);
        unlink_saved(m);
    }
}

/* Drops unsynced frames from a random position on. */
static void
lose_unsynced(world *w)
{
    for (size_t i = 0; i < w->n_disk; i++) {
        disk_session *d = &w->disk[i];
        size_t synced = d->n_frames;

        while (synced > 0 && !d->frames[synced - 1].synced)
            synced--;
        d->n_frames = synced + sim_below(w, d->n_frames - synced + 1);
    }
}

void
server_crash(world *w, bool power)
{
    if (!w->running)
        return;
    if (w->loop != NULL && w->up && !power && sim_chance(w, 250)) /* asked to end: in order */
        loop_end(w);
    w->up = w->running = false;
    if (w->store != NULL)
        store_crash(w, power);
    w->incarnation++;
    if (!w->plan->real)
        mrd_core_free(w->core);
    w->core = NULL;
    w->n_tickets = w->n_queue = 0;
    w->committing = false;
    decide_saving(w);
    export_crash(w);
    for (unsigned i = 0; w->agents != NULL && i < w->plan->nodes; i++)
        agent_cut(w, &w->agents[i]);
    if (power) {
        lose_unsynced(w);
        new_boot(w);
        for (unsigned i = 0; w->agents != NULL && i < w->plan->nodes;
             i++) /* of another timeline: not followed */
            w->agents[i].n_probes = 0;
    }
    /* the surviving data was read and counts as on disk from now on */
    for (size_t i = 0; i < w->n_disk; i++) {
        for (size_t k = 0; k < w->disk[i].n_frames; k++)
            w->disk[i].frames[k].synced = true;
    }
    sim_at(w, w->now + 500 * MRD_MS + (int64_t) sim_below(w, 5 * MRD_SEC), begin, w->incarnation, 0,
           NULL);
}

/* Frees the memory of pending writes at the end of a run. */
void
server_end(world *w)
{
    while (w->saving != NULL) {
        saved_manifest *m = w->saving;

        unlink_saved(m);
        free(m->text);
        mrd_session_free(m->copy);
    }
    w->up = false;
    if (w->store != NULL)
        store_free(w);
    if (!w->plan->real)
        mrd_core_free(w->core);
    w->core = NULL;
}
