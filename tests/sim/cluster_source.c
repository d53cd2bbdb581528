/* Generates the events of a node. For the real agent it is a collector that takes the place of a
 * workload's rings. */
#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"
#include "tests/sim/cluster_node.h"

/* ---- The workload ---- */

static void
make_event(sim_node *n)
{
    world *w = n->w;
    source *s = &n->source;
    int64_t now = agent_local(n->a, w->now);
    int64_t ago = (int64_t) sim_below(w, 50 * MRD_MS);
    bool loss = sim_chance(w, 10);
    source_event ev = { .dur_ns = (int64_t) sim_below(w, 200 * MRD_MS), .at = w->now - ago };

    ev.lost = loss ? 1 + (uint32_t) sim_below(w, 30) : 0;
    ev.ts_ns = now - ago - ev.dur_ns;
    if (!MRD_VEC_ROOM(s->v, s->n, s->cap, 1))
        abort();
    s->v[s->n++] = ev;
}

void
source_work(world *w, uint64_t index, uint64_t boot, void *p)
{
    sim_node *n = w->agents[index].node;
    uint64_t some = 1 + sim_below(w, 12);

    if (n->boot != boot || w->now > w->plan->duration + 60 * MRD_SEC)
        return;
    for (uint64_t i = 0; i < some && !n->suspended; i++)
        make_event(n);
    if (n->agent != NULL && !n->suspended)
        node_wake(n, w->now + (int64_t) sim_below(w, 20 * MRD_MS));
    sim_at(w, w->now + 50 * MRD_MS + (int64_t) sim_below(w, (uint64_t) w->plan->batch_every),
           source_work, index, boot, p);
}

void
source_lost(sim_node *n)
{
    n->source.given = n->source.committed = n->source.n;
}

/* ---- The collector ---- */

static uint64_t
resume(void *self, uint64_t key)
{
    const mrd_agent *a = self;

    return mrd_spool_resume(a->spool, key);
}

static mrd_err
open_source(mrd_agent *a, void **ret_self, mrd_why *why)
{
    sim_node *n = node_of_turn();
    source *s = &n->source;
    mrd_drain_options o = { .instance_id = a->node.instance_id,
                            .ring_dir = "/nonexistent",
                            .proc_root = "/nonexistent",
                            .hold = true,
                            .resume = resume,
                            .event = mrd_agent_event,
                            .only_uid = -1,
                            .boot_id = a->node.boot_id,
                            .self = a };
    uint64_t at = mrd_spool_resume(a->spool, SOURCE_KEY);

    snprintf(a->open_path, sizeof(a->open_path), "%s/open", a->o.spool_dir);
    o.open_path = a->open_path;
    *ret_self = n;
    n->opened = a;
    if (at > s->committed && at <= s->n)
        s->committed = (size_t) at;
    s->given = s->told = s->first = s->committed;
    truth_void(n);
    truth_begin(n);
    s->events = s->lost = 0;
    n->crossed_at = 0;
    return mrd_drain_open(&o, &a->drain, why);
}

static mrd_err
start_source(void *self, mrd_why *why)
{
    sim_node *n = self;
    const mrd_agent *a = n->opened;
    mrd_drain_process *pp = &n->process;
    mrd_process p;

    *pp = (mrd_drain_process){ .catalog = mrd_catalog_new() };
    if (pp->catalog == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "events");
    mrd_ident_init(&pp->ident);
    pp->ident.pid = 1000;
    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(pp->catalog, a->node.instance_id);
    p.name = mrd_catalog_intern(pp->catalog, "workload");
    p.process_id = 1000;
    pp->id = mrd_catalog_process(pp->catalog, &p);
    return mrd_record_file_seen(a->record, pp);
}

static void
give(sim_node *n, mrd_agent *a, size_t at)
{
    source *s = &n->source;
    const source_event *from = &s->v[at];
    mrd_catalog *cat = n->process.catalog;
    mrd_track t;
    mrd_event ev = { .kind = from->lost > 0 ? MRD_LOSS : MRD_SPAN,
                     .ts = { from->ts_ns },
                     .dur_ns = from->dur_ns,
                     .flags = from->lost > 0 ? MRD_EV_INT : 0 };

    mrd_track_init(&t, n->process.id, MRD_SRC_ANNOTATION);
    ev.track = mrd_catalog_track(cat, &t);
    ev.name = mrd_catalog_intern(cat, from->lost > 0 ? mrd_drop_text(MRD_DROP_RING_FULL) : "work");
    if (from->lost > 0)
        ev.ivalue = from->lost;
    else
        ev.id = at + 1;
    truth_give(n, at);
    s->events += from->lost == 0;
    s->lost += from->lost;
    if (mrd_agent_event(a, &n->process, MRD_DRAIN_RAW, &ev) != MRD_OK)
        sim_fail(n->w, "node %s: an event is not taken", n->a->id);
}

static void
step_source(void *self, mrd_local_ns now)
{
    sim_node *n = self;
    source *s = &n->source;

    if (now.ns >= n->crossed_at) { /* like the reader of rings */
        mrd_drain_cross(n->opened->drain);
        n->crossed_at = now.ns + 10 * MRD_SEC;
    }
    while (s->given < s->n && !mrd_agent_waits(n->opened, now))
        give(n, n->opened, s->given++);
}

static mrd_local_ns
next_of_source(const void *self)
{
    const sim_node *n = self;

    return (mrd_local_ns){ n->source.given < n->source.n && n->opened->wait_until.ns == 0
                               ? 0
                               : INT64_MAX };
}

static void
positions_of_source(const void *self, void (*call)(void *to, uint64_t key, uint64_t value),
                    void *to)
{
    sim_node *n = (sim_node *) (uintptr_t) self;

    n->source.told = n->source.given;
    call(to, SOURCE_KEY, n->source.given);
}

static void
account_source(const void *self, mrd_collector_account *sum)
{
    const sim_node *n = self;

    sum->begun += n->source.events + n->source.lost;
    sum->dropped[MRD_DROP_RING_FULL] += n->source.lost;
}

static void
stop_source(void *self)
{
    sim_node *n = self;
    const mrd_agent *a = n->opened;

    n->process.gone = true;
    if (a->record != NULL)
        mrd_record_process_gone(a->record, &n->process);
}

static void
close_source(void *self)
{
    sim_node *n = self;

    mrd_drain_close(n->opened->drain);
    n->opened->drain = NULL;
    mrd_catalog_free(n->process.catalog);
    n->process.catalog = NULL;
}

const mrd_collector mrd_collector_source = {
    .name = "source",
    .open = open_source,
    .start = start_source,
    .step = step_source,
    .next_ns = next_of_source,
    .positions = positions_of_source,
    .account = account_source,
    .stop = stop_source,
    .close = close_source,
};
