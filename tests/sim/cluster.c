#include "tests/sim/cluster_node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/obj.h"

/* ---- Chance ---- */

uint64_t
sim_random(world *w)
{
    uint64_t x = w->rng;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return w->rng = x;
}

uint64_t
sim_below(world *w, uint64_t n)
{
    return n == 0 ? 0 : sim_random(w) % n;
}

bool
sim_chance(world *w, unsigned per_thousand)
{
    return sim_below(w, 1000) < per_thousand;
}

void
sim_mix(world *w, uint64_t v)
{
    w->r->hash = (w->r->hash ^ v) * 0x100000001b3;
}

void
sim_fail(world *w, const char *format, ...)
{
    va_list args;

    if (!w->r->ok)
        return;
    w->r->ok = false;
    w->r->at = w->now;
    va_start(args, format);
    vsnprintf(w->r->what, sizeof(w->r->what), format, args);
    va_end(args);
}

/* ---- Time: a heap of tasks ---- */

static bool
before(const task *a, const task *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

void
sim_at(world *w, int64_t at, void (*run)(world *w, uint64_t a, uint64_t b, void *p), uint64_t a,
       uint64_t b, void *p)
{
    task t = {
        .at = at < w->now ? w->now : at, .order = w->order++, .run = run, .a = a, .b = b, .p = p
    };
    size_t i = w->n_heap++;

    if (w->n_heap > w->cap_heap) {
        w->cap_heap = w->cap_heap == 0 ? 1024 : 2 * w->cap_heap;
        w->heap = realloc(w->heap, w->cap_heap * sizeof(*w->heap));
    }
    for (; i > 0 && before(&t, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = t;
}

static task
next_task(world *w)
{
    task first = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;

    for (;;) {
        size_t k = 2 * i + 1;

        if (k >= w->n_heap)
            break;
        k += k + 1 < w->n_heap && before(&w->heap[k + 1], &w->heap[k]);
        if (!before(&w->heap[k], &last))
            break;
        w->heap[i] = w->heap[k];
        i = k;
    }
    w->heap[i] = last;
    return first;
}

int64_t
sim_delay(world *w, const agent *a)
{
    int64_t d = 50 * MRD_US + (int64_t) sim_below(w, 200 * MRD_US);

    if (a->partitioned) {
        w->r->lost_messages++;
        return -1;
    }
    if (!w->plan->faults || w->healing)
        return d;
    if (sim_chance(w, 10)) { /* the message is lost, although the connection is still open */
        w->r->lost_messages++;
        return -1;
    }
    return sim_chance(w, 20) ? d + (int64_t) sim_below(w, 3 * MRD_SEC) : d; /* slow, out of order */
}

/* ---- External events ---- */

static void
heal_link(world *w, uint64_t at, uint64_t none, void *p)
{
    (void) none;
    (void) p;
    w->agents[at].partitioned = false;
}

static void
disk_again(world *w, uint64_t none, uint64_t b, void *p)
{
    (void) none;
    (void) b;
    (void) p;
    w->disk_full = false;
    if (w->store != NULL)
        store_full(w, false);
}

static void
server_fault(world *w, bool power)
{
    if (w->store != NULL && w->up && sim_chance(w, 700))
        store_die_soon(w, power);
    else
        server_crash(w, power);
}

static void
one_fault(world *w)
{
    agent *a = &w->agents[sim_below(w, w->plan->nodes)];

    switch (sim_below(w, 10)) {
    case 0:
        w->r->crashes++;
        server_fault(w, false);
        break;
    case 1:
        w->r->power_failures++;
        server_fault(w, true);
        break;
    case 2:
        w->r->agent_crashes++;
        agent_crash(w, a, sim_chance(w, 700));
        break;
    case 3:
    case 4:
    case 5:
        w->r->cuts++;
        agent_cut(w, a);
        break;
    case 6:
    case 7:
        a->partitioned = true;
        sim_at(w, w->now + (int64_t) sim_below(w, 20 * MRD_SEC), heal_link, a->index, 0, NULL);
        break;
    case 8:
        if (!w->disk_full) {
            w->r->full_disks++;
            w->disk_full = true;
            if (w->store != NULL)
                store_full(w, true);
            sim_at(w, w->now + (int64_t) sim_below(w, 10 * MRD_SEC), disk_again, 0, 0, NULL);
        }
        break;
    default:
        if (w->plan->real && sim_chance(w, 500))
            udp_step_wall(w, 32);
        else if (w->plan->real)
            w->steps_wait = 1 + (unsigned) sim_below(w, 8);
        snprintf(a->reason, sizeof(a->reason), "seen %u", (unsigned) sim_below(w, 1000));
        break;
    }
}

static void
faults(world *w, uint64_t a, uint64_t b, void *p)
{
    bool dense = w->plan->mostly == SIM_MOSTLY_SPOOLS || w->plan->mostly == SIM_MOSTLY_SLOW_SPOOLS;

    if (w->healing)
        return;
    if (w->plan->real && sim_chance(w, dense ? 900 : 600))
        node_fault(w, &w->agents[sim_below(w, w->plan->nodes)]);
    else
        one_fault(w);
    sim_at(w, w->now + (int64_t) sim_below(w, dense ? 5 * MRD_SEC : 12 * MRD_SEC), faults, a, b, p);
}

static void
people(world *w, uint64_t a, uint64_t b, void *p)
{
    if (w->healing)
        return;
    switch (sim_below(w, 6)) {
    case 0:
    case 1:
        if (w->r->sessions < w->plan->sessions)
            server_begin(w, sim_chance(w, 500),
                         sim_chance(w, 500) ? 0 : (int64_t) (5 + sim_below(w, 40)) * MRD_SEC);
        break;
    case 2:
        server_stop(w);
        break;
    case 3:
        server_delete(w);
        break;
    default:
        server_trigger(w);
        break;
    }
    if (w->plan->pauses && sim_chance(w, 400))
        pause_some(w);
    if (w->plan->exports && sim_chance(w, 200))
        server_merge(w);
    sim_at(w, w->now + (int64_t) sim_below(w, 6 * MRD_SEC), people, a, b, p);
}

static void
one_session(world *w, uint64_t a, uint64_t b, void *p)
{
    (void) a;
    (void) b;
    (void) p;
    server_begin(w, false, 0);
}

static void
heal(world *w, uint64_t a, uint64_t b, void *p)
{
    (void) a;
    (void) b;
    (void) p;
    w->healing = true;
    w->disk_full = false;
    if (w->store != NULL)
        store_full(w, false);
    for (unsigned i = 0; i < w->plan->nodes; i++) {
        w->agents[i].partitioned = false;
        w->agents[i].reason[0] = '\0';
        if (w->agents[i].node != NULL)
            node_heal(w->agents[i].node);
    }
}

/* ---- A run ---- */

static void
stop_all(world *w, uint64_t a, uint64_t b, void *p)
{
    server_stop(w);
    if (w->now < w->plan->duration + 100 * MRD_SEC)
        sim_at(w, w->now + MRD_SEC, stop_all, a, b, p);
}

static void
run(world *w)
{
    int64_t end = w->plan->duration + (w->plan->calm ? SIM_CALM_END : SIM_HEAL_TIME);

    server_start(w);
    agents_start(w);
    if (w->plan->faults)
        sim_at(w, 5 * MRD_SEC, faults, 0, 0, NULL);
    sim_at(w, 3 * MRD_SEC, w->plan->calm ? one_session : people, 0, 0, NULL);
    sim_at(w, w->plan->duration, heal, 0, 0, NULL);
    sim_at(w, w->plan->duration + 20 * MRD_SEC, stop_all, 0, 0, NULL);
    while (w->r->ok && w->n_heap > 0 && w->heap[0].at <= end) {
        task t = next_task(w);

        w->now = t.at;
        if (t.run == NULL)
            continue;
        w->r->steps++;
        t.run(w, t.a, t.b, t.p);
        check_step(w);
    }
    if (w->r->ok) {
        w->now = end;
        check_end(w);
    }
}

void
sim_run(const sim_plan *plan, sim_result *r)
{
    world w = { .plan = plan, .r = r };

    *r = (sim_result){ .ok = true, .hash = 0xcbf29ce484222325 };
    w.rng = plan->seed * 0x9e3779b97f4a7c15 + 1;
    for (int i = 0; i < 8; i++)
        sim_random(&w);
    (void) mrd_hash_seed(); /* chooses the seed before the run draws its random numbers */
    turn_of(plan->real ? &w : NULL, NULL);
    run(&w);
    for (unsigned i = 0; i < plan->nodes; i++)
        node_free(w.agents[i].node);
    server_end(&w);
    turn_of(NULL, NULL);
    sim_mix(&w, w.disk_hash);
    wire_free(&w);
    free(w.file_promises);
    free(w.timelines);
    free(w.changes);
    while (w.n_heap > 0) {
        task t = next_task(&w);

        free(t.p);
    }
    for (unsigned i = 0; i < plan->nodes; i++) {
        free(w.agents[i].spool);
        free(w.agents[i].clock.v);
        free(w.agents[i].probes);
    }
    for (size_t i = 0; i < w.n_disk; i++) {
        free(w.disk[i].text);
        mrd_session_free(w.disk[i].copy);
        free(w.disk[i].frames);
    }
    mrd_json_free(w.nodes_file);
    mrd_buf_fini(&w.joined);
    free(w.agents);
    free(w.tickets);
    free(w.queue);
    free(w.disk);
    free(w.heap);
}
