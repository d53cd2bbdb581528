/* A node that runs the real agent: its processes, its turns, and the faults of its machine. */
#include "tests/sim/cluster_node.h"
#include "base/vec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/spool/spool_int.h"
#include "base/obj.h"

/* A turn is one pass of the agent's main loop. TURN_MAX is the longest time between two turns. An
 * agent that takes more than TURNS_MAX turns in a second is stuck in a loop. */
#define TURN_MAX     MRD_SEC
#define TURNS_MAX    5000 /* a chunk of a file takes four turns */
#define ANSWER_BYTES (sizeof(record_head) + sizeof(answer_record))
#define WANDER       20 /* maximum change of the clock's rate per second, in ppb */

bool
node_dead(const sim_node *n)
{
    return n->dying || sim_disk_is_dead(n->disk);
}

/* ---- Turns ---- */

static void start(world *w, uint64_t index, uint64_t incarnation, void *p);
static void turn(world *w, uint64_t index, uint64_t wake, void *p);

void
node_wake(sim_node *n, int64_t at)
{
    if (n->agent == NULL || n->suspended || (n->wake_at != 0 && n->wake_at <= at))
        return;
    n->wake_at = at;
    sim_at(n->w, at, turn, n->a->index, ++n->wakes, NULL);
}

static void
start_later(sim_node *n, int64_t in)
{
    sim_at(n->w, n->w->now + in, start, n->a->index, n->a->incarnation, NULL);
}

static void
put_number(frame_numbers *to, const frame_number *number)
{
    if (!MRD_VEC_NEXT(to->v, to->n))
        abort();
    to->v[to->n++] = *number;
}

/* A frame that was forced out while in flight may be stored, but a successor counts it as lost
 * (agent/spool/spool.h). If the process dies in a call, its state at that call counts. Later
 * answers are on no disk, and maybe neither is the record that it was writing. */
static void
keep_unacknowledged(sim_node *n, const mrd_spool *s)
{
    if (n->kept)
        return;
    n->sent.n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const entry *e = &s->entries[s->first + i];
        frame_number number = { e->item.session, e->item.epoch, e->item.seq };

        if (e->segment == 0)
            put_number(&n->unacknowledged, &number);
        else if (e->sent && !e->done)
            put_number(&n->sent, &number);
    }
}

/* The agent's process died while it started. It may have dropped frames from a full spool that the
 * previous process had sent. So these frames count as lost, although the aggregator may have stored
 * them. */
static void
lose_sent(sim_node *n)
{
    for (size_t i = 0; i < n->sent.n; i++)
        put_number(&n->unacknowledged, &n->sent.v[i]);
    n->sent.n = 0;
}

/* Runs before the agent closes its spool. An agent that ends cleanly commits once more, and may
 * drop frames from a full spool for that. These frames count as lost, although the aggregator may
 * have stored them. */
extern void __real_mrd_spool_close(mrd_spool *s);
extern void __wrap_mrd_spool_close(mrd_spool *s);
void
__wrap_mrd_spool_close(mrd_spool *s)
{
    sim_node *n = node_of_turn();

    if (s != NULL && n != NULL && n->agent != NULL && !n->dying)
        keep_unacknowledged(n, s);
    __real_mrd_spool_close(s);
}

static void
forget_plans(sim_node *n)
{
    n->dies_in = n->full_in = 0;
    n->tears = false;
    n->starved = 0;
    n->apart = APART_NOT;
}

/* Ends the simulated agent's process. Its code may still run until it returns to the simulation, but
 * has no effect. */
static void
end_process(sim_node *n, bool killed)
{
    world *w = n->w;

    n->dying = killed || sim_disk_is_dead(n->disk);
    if (w->plan->verbose)
        printf("%10.3f %s ends%s: %zu events given, committed %zu\n", (double) w->now / 1e9,
               n->a->id, n->dying ? " at once" : "", n->source.given, n->source.committed);
    if (n->dying)
        keep_unacknowledged(n, n->agent->spool);
    turn_of(w, n);
    mrd_agent_close(n->agent);
    turn_of(w, NULL);
    n->agent = n->opened = NULL;
    n->a->incarnation++;
    n->a->up = false;
    forget_plans(n);
    n->wakes++;
    n->wake_at = 0;
    n->timeline = 0;
    sim_disk_kill(n->disk);
    n->dying = n->kept = false;
}

static void
schedule(sim_node *n)
{
    int64_t now = agent_local(n->a, n->w->now), next;

    turn_of(n->w, n);
    next = mrd_agent_next_ns(n->agent).ns;
    turn_of(n->w, NULL);
    next = next > now + TURN_MAX ? now + TURN_MAX : next;
    node_wake(n, next <= now ? n->w->now + 50 * MRD_US : n->w->now + (next - now) + MRD_US);
}

/* Fails the run if the agent's loop runs too often. A loop without work must wait. */
static void
check_pace(sim_node *n)
{
    if (n->w->now - n->second >= MRD_SEC) {
        n->second = n->w->now;
        n->turns = 0;
    }
    if (++n->turns > TURNS_MAX)
        sim_fail(n->w, "node %s: its agent had %u turns within a second", n->a->id, n->turns);
}

static void
turn(world *w, uint64_t index, uint64_t wake, void *p)
{
    sim_node *n = w->agents[index].node;

    (void) p;
    if (wake != n->wakes || n->agent == NULL || n->suspended)
        return;
    n->wake_at = 0;
    n->disk_failed = n->short_of_room;
    check_pace(n);
    turn_of(w, n);
    mrd_agent_step(n->agent, 0);
    turn_of(w, NULL);
    if (node_dead(n)) {
        w->r->agent_crashes++;
        end_process(n, true);
        n->dies_again = sim_chance(w, 400);
        start_later(n, 200 * MRD_MS + (int64_t) sim_below(w, 6 * MRD_SEC));
        return;
    }
    truth_step(n);
    schedule(n);
}

/* ---- Life ---- */

/* Makes the agent's process die in one of the next calls of its disk, or between two calls for
 * different files. */
static void
die_soon(sim_node *n)
{
    n->dies_between = sim_chance(n->w, 700);
    n->dies_in = 1 + sim_below(n->w, n->dies_between ? 12 : 60);
}

static void
fail_soon(sim_node *n)
{
    n->full_between = sim_chance(n->w, 700);
    n->full_in = 1 + sim_below(n->w, n->full_between ? 12 : 60);
}

static void
start(world *w, uint64_t index, uint64_t incarnation, void *p)
{
    sim_node *n = w->agents[index].node;
    mrd_agent *made = NULL;
    mrd_why why = { 0 };
    mrd_err err;

    (void) p;
    if (incarnation != n->a->incarnation || n->agent != NULL)
        return;
    if (n->suspended) {
        start_later(n, MRD_SEC);
        return;
    }
    /* The new agent dies while it reads its predecessor's files, or soon after. */
    if (n->dies_again && !w->healing) {
        die_soon(n);
    }
    n->dies_again = false;
    turn_of(w, n);
    err = mrd_agent_open(&n->o, &n->id, link_new(n, false), &made, &why);
    turn_of(w, NULL);
    /* The disk was full or failed, or the agent died meanwhile. The supervisor restarts it. */
    if (err != MRD_OK) {
        if (!node_dead(n) && err != MRD_FULL && err != MRD_IO)
            sim_fail(w, "node %s: the agent does not start: %s", n->a->id, why.text);
        forget_plans(n);
        lose_sent(n);
        sim_disk_kill(n->disk);
        start_later(n, MRD_SEC + (int64_t) sim_below(w, 4 * MRD_SEC));
        return;
    }
    n->agent = made;
    if (w->plan->verbose)
        printf("%10.3f %s starts: at %zu of %zu events, recovered %llu\n", (double) w->now / 1e9,
               n->a->id, n->source.given, n->source.n, (unsigned long long) made->recovered);
    for (size_t i = 0; w->plan->verbose && i < mrd_record_sessions(made->record); i++) {
        mrd_record_status st;

        mrd_record_get(made->record, i, &st);
        printf("           session %llx: phase %d, begun %llu, given %llu\n",
               (unsigned long long) st.id, (int) st.phase, (unsigned long long) st.begun,
               (unsigned long long) truth_of(n, st.id)->begun);
    }
    n->a->up = true;
    n->a->run = made->run;
    if (node_dead(n)) {
        end_process(n, true);
        start_later(n, MRD_SEC);
        return;
    }
    node_wake(n, w->now);
}

static void
wander(world *w, uint64_t index, uint64_t none, void *p)
{
    sim_node *n = w->agents[index].node;
    sim_clock *c = &n->a->clock;
    double ppm =
        c->v[c->n - 1].ppm + (double) sim_below(w, 5 * 2 * WANDER) / 1e3 - 5 * WANDER / 1e3;

    if (!n->suspended)
        sim_clock_bend(c, w->now, ppm > 60 ? 60 : ppm < -60 ? -60 : ppm, false);
    sim_at(w, w->now + 5 * MRD_SEC, wander, index, none, p);
}

/* Counts down *calls and returns true when it reaches 0. If `between` is set, only calls for
 * another file than the previous call count. Such calls matter most, because the order of writes to
 * two files is critical. */
static bool
counted_down(uint64_t *calls, bool between, bool same_file)
{
    return *calls > 0 && !(same_file && between) && --*calls == 0;
}

static bool
of_same_file(sim_node *n, const sim_disk_op *op)
{
    bool same = strcmp(op->path, n->last_path) == 0;

    if (!same)
        snprintf(n->last_path, sizeof(n->last_path), "%s", op->path);
    return same;
}

static bool
is_answer(const sim_disk_op *op)
{
    return op->call == SIM_DISK_WRITE && op->len == ANSWER_BYTES &&
           strstr(op->path, "/spool-") != NULL;
}

/* Fails the record of an answer for lack of space, while other records succeed. After the last
 * failure the process may die in one of the next calls, between the next successful record and its
 * counts. */
static bool
starves(sim_node *n, const sim_disk_op *op)
{
    if (n->starved == 0 || !is_answer(op))
        return false;
    if (--n->starved > 0)
        return true;
    if (sim_chance(n->w, 500)) {
        n->apart = APART_ANSWER;
    } else if (sim_chance(n->w, 500)) {
        n->dies_between = true;
        n->dies_in = 1 + sim_below(n->w, 6);
    }
    return true;
}

static bool
dies_apart(sim_node *n, const sim_disk_op *op)
{
    if (n->apart == APART_ANSWER && is_answer(op))
        n->apart = APART_COUNTS;
    return n->apart == APART_COUNTS && strstr(op->path, "/counts") != NULL;
}

static void
before(void *self, const sim_disk_op *op, sim_disk_verdict *v)
{
    sim_node *n = self;
    bool same;

    if (op->call == SIM_DISK_LIST)
        return;
    same = of_same_file(n, op);
    n->w->r->agent_disk_calls++;
    if (n->w->plan->verbose && !n->dying)
        printf("%10.3f %s disk: call %d, %s, %zu\n", (double) n->w->now / 1e9, n->a->id,
               (int) op->call, op->path, op->len);
    if (n->dying) {
        *v = (sim_disk_verdict){ .dies = true, .limited = true };
    } else if (n->tears && op->call == SIM_DISK_WRITE && strstr(op->path, "/spool-") != NULL) {
        *v = (sim_disk_verdict){ .dies = true,
                                 .limited = true,
                                 .at_most = 1 + (size_t) sim_below(n->w, op->len) };
    } else if (starves(n, op)) {
        v->err = ENOSPC;
        n->disk_failed = true;
    } else if (dies_apart(n, op)) {
        *v = (sim_disk_verdict){ .dies = true, .limited = true };
    } else if (counted_down(&n->dies_in, n->dies_between, same)) {
        *v = (sim_disk_verdict){ .dies = true,
                                 .limited = op->call == SIM_DISK_WRITE,
                                 .at_most = n->dies_between && sim_chance(n->w, 500)
                                                ? 0
                                                : (size_t) sim_below(n->w, op->len + 1) };
    } else if (counted_down(&n->full_in, n->full_between, same)) {
        v->err = ENOSPC;
        n->disk_failed = true;
    }
    if (v->dies && n->agent != NULL) {
        keep_unacknowledged(n, n->agent->spool);
        n->kept = true;
    }
}

static void
new_disk(sim_node *n)
{
    char name[32];

    if (n->disk != NULL)
        n->w->disk_hash ^= sim_disk_hash(n->disk);
    sim_disk_free(n->disk);
    snprintf(name, sizeof(name), "%s-%u", n->a->id, ++n->disks);
    n->disk = sim_disk_new(
        name, &(sim_disk_options){
                  .seed = sim_random(n->w), .before = before, .self = n, .type = 0xef53 });
    snprintf(n->spool, sizeof(n->spool), "/sim/%s/spool", name);
    n->o.spool_dir = n->spool;
}

static void
new_boot(sim_node *n)
{
    world *w = n->w;
    double ppm = (double) sim_below(w, 100000) / 1000.0 - 50.0;

    n->boot++;
    snprintf(n->id.boot_id, sizeof(n->id.boot_id), "boot-%s-%u", n->a->id, n->boot);
    n->slept = 0;
    sim_clock_begin(&n->a->clock, w->now, (int64_t) sim_below(w, 100000 * MRD_SEC), ppm);
}

/* Draws the delays and losses of the network path of the node's clock probes. */
static void
new_path(sim_node *n)
{
    world *w = n->w;

    n->udp_blocked = sim_chance(w, 200);
    for (unsigned i = 0; i < 2; i++) {
        n->udp_base[i] = 20 * MRD_US + (int64_t) sim_below(w, 200 * MRD_US);
        if (sim_chance(w, 300)) /* one way is much longer */
            n->udp_base[i] += (int64_t) sim_below(w, 3 * MRD_MS);
        n->udp_loss[i] = sim_chance(w, 500) ? 5 : (unsigned) sim_below(w, 400);
    }
}

static void
node_new(world *w, agent *a)
{
    static char url[] = "tcp://127.0.0.1:7770";
    sim_node *n = calloc(1, sizeof(*n));

    if (n == NULL)
        abort();
    n->w = w;
    n->a = a;
    a->node = n;
    a->w = w;
    snprintf(n->id.instance_id, sizeof(n->id.instance_id), "%s", a->id);
    snprintf(n->id.host_name, sizeof(n->id.host_name), "host-%s", a->id);
    n->id.source = "option";
    n->o =
        (mrd_agent_options){ .data_url = url,
                             .spool_bytes = w->plan->spool_bytes,
                             .recorder_bytes = 1 << 20,
                             .clock_probes = sim_chance(w, 250) ? MRD_PROBES_NNG : MRD_PROBES_AUTO,
                             .flush = 200 * MRD_MS,
                             .files_max = 4096,
                             .simulated = true };
    new_path(n);
    new_disk(n);
    new_boot(n);
    files_new(n);
    start_later(n, (int64_t) sim_below(w, MRD_SEC));
    sim_at(w, w->now + MRD_SEC, wander, a->index, 0, NULL);
    sim_at(w, w->now + MRD_SEC, source_work, a->index, n->boot, NULL);
    sim_at(w, w->now + MRD_SEC, files_work, a->index, n->boot, NULL);
}

void
node_start_all(world *w)
{
    for (unsigned i = 0; i < w->plan->nodes; i++)
        node_new(w, &w->agents[i]);
}

void
node_free(sim_node *n)
{
    if (n == NULL)
        return;
    if (n->agent != NULL)
        end_process(n, true);
    n->w->disk_hash ^= sim_disk_hash(n->disk);
    sim_disk_free(n->disk);
    free(n->source.v);
    files_free(n);
    truth_free(n);
    free(n);
}

/* ---- Faults ---- */

/* Kills the agent, or ends it cleanly like its supervisor. Its spool directory is removed too,
 * unless with_spool. */
void
node_crash(sim_node *n, bool with_spool)
{
    world *w = n->w;

    if (n->agent == NULL || n->suspended)
        return;
    end_process(n, sim_chance(w, 700));
    if (!with_spool) {
        truth_spool_gone(n);
        n->a->spools_lost++;
        new_disk(n);
    }
    start_later(n, 200 * MRD_MS + (int64_t) sim_below(w, 6 * MRD_SEC));
}

static void
cut_power(sim_node *n)
{
    world *w = n->w;

    w->r->node_power_failures++;
    n->power_cuts++;
    if (n->agent != NULL) {
        n->dying = true;
        end_process(n, true);
    }
    n->a->incarnation++;
    sim_disk_cut_power(n->disk, (sim_disk_keep) sim_below(w, SIM_DISK_KEEPS));
    truth_weaken(n);
    n->a->spools_lost++;
    source_lost(n);
    new_boot(n);
    sim_at(w, w->now + MRD_SEC, source_work, n->a->index, n->boot, NULL);
    sim_at(w, w->now + MRD_SEC, files_work, n->a->index, n->boot, NULL);
    start_later(n, 2 * MRD_SEC + (int64_t) sim_below(w, 10 * MRD_SEC));
}

static void
resume(world *w, uint64_t index, uint64_t since, void *p)
{
    sim_node *n = w->agents[index].node;
    sim_clock *c = &n->a->clock;

    (void) p;
    n->suspended = false;
    n->slept += w->now - (int64_t) since;
    n->woken_at = w->now;
    if (w->plan->verbose)
        printf("%10.3f %s wakes\n", (double) w->now / 1e9, n->a->id);
    sim_clock_bend(c, w->now, c->v[c->n - 1].ppm, false);
    node_wake(n, w->now);
}

static void
suspend(sim_node *n)
{
    world *w = n->w;
    sim_clock *c = &n->a->clock;

    if (n->suspended || n->cpu_at > w->now)
        return;
    w->r->suspends++;
    if (w->plan->verbose)
        printf("%10.3f %s is suspended\n", (double) w->now / 1e9, n->a->id);
    n->suspended = true;
    n->wakes++;
    n->wake_at = 0;
    sim_clock_bend(c, w->now, c->v[c->n - 1].ppm, true);
    sim_at(w, w->now + MRD_SEC + (int64_t) sim_below(w, 20 * MRD_SEC), resume, n->a->index,
           (uint64_t) w->now, NULL);
}

static void
fast_again(world *w, uint64_t index, uint64_t none, void *p)
{
    (void) none;
    (void) p;
    w->agents[index].node->slow = 0;
}

static void
room_again(world *w, uint64_t index, uint64_t none, void *p)
{
    (void) none;
    (void) p;
    sim_disk_set_quota(w->agents[index].node->disk, 0);
    w->agents[index].node->short_of_room = false;
}

/* For `time` ns, the node's disk has space for only `room` more bytes. */
static void
fill_disk(sim_node *n, uint64_t room, int64_t time)
{
    sim_disk_set_quota(n->disk, sim_disk_used(n->disk) + room + 1);
    n->short_of_room = true;
    sim_at(n->w, n->w->now + time, room_again, n->a->index, 0, NULL);
    n->w->r->full_disks++;
}

static void
reach_again(world *w, uint64_t index, uint64_t none, void *p)
{
    (void) none;
    (void) p;
    w->agents[index].partitioned = false;
}

static void
kill_later(world *w, uint64_t index, uint64_t none, void *p)
{
    (void) none;
    (void) p;
    if (w->healing)
        return;
    node_crash(w->agents[index].node, true);
    w->r->agent_crashes++;
}

static void
fill_later(world *w, uint64_t index, uint64_t time, void *p)
{
    (void) p;
    if (!w->healing)
        fill_disk(w->agents[index].node, sim_below(w, 1500), (int64_t) time);
}

/* Cuts the network. The node's frames collect in the segments of several processes, until its disk
 * is full and the oldest are forced out. Then it is killed, and its successor must report them. */
static void
cut_off(sim_node *n)
{
    world *w = n->w;
    uint64_t at = n->a->index;
    int64_t killed = w->now + 2 * MRD_SEC + (int64_t) sim_below(w, 6 * MRD_SEC);
    int64_t full = killed + 7 * MRD_SEC, room = 2 * MRD_SEC + (int64_t) sim_below(w, 6 * MRD_SEC);
    int64_t again = full + room + (int64_t) sim_below(w, 3 * MRD_SEC);

    n->a->partitioned = true;
    sim_at(w, killed, kill_later, at, 0, NULL);
    sim_at(w, full, fill_later, at, (uint64_t) room, NULL);
    sim_at(w, again, kill_later, at, 0, NULL);
    sim_at(w, again + (int64_t) sim_below(w, 10 * MRD_SEC), reach_again, at, 0, NULL);
}

static void
tear_later(world *w, uint64_t index, uint64_t none, void *p)
{
    (void) none;
    (void) p;
    w->agents[index].node->tears = !w->healing;
}

static void
starve_later(world *w, uint64_t index, uint64_t answers, void *p)
{
    (void) p;
    w->agents[index].partitioned = false;
    w->agents[index].node->starved = w->healing ? 0 : (unsigned) answers;
}

/* Cuts the network so that frames collect. Later the answers find no space, either in the process
 * that wrote the frames or in its successor. The successor uses another epoch if the last record is
 * torn. */
static void
answers_without_room(sim_node *n)
{
    world *w = n->w;
    uint64_t at = n->a->index;
    int64_t again = w->now + 2 * MRD_SEC + (int64_t) sim_below(w, 6 * MRD_SEC);

    n->a->partitioned = true;
    if (sim_chance(w, 500)) {
        sim_at(w, again, tear_later, at, 0, NULL);
        again += 7 * MRD_SEC;
    }
    /* For each answer, the agent tries to write two records: the record of this answer, and the first
     * earlier record that failed. */
    sim_at(w, again, starve_later, at,
           sim_chance(w, 500) ? 2 + 2 * sim_below(w, 4) : 1 + sim_below(w, 8), NULL);
}

static void
slow_link(sim_node *n)
{
    n->slow = (int64_t) sim_below(n->w, 400 * MRD_MS);
    sim_at(n->w, n->w->now + (int64_t) sim_below(n->w, 20 * MRD_SEC), fast_again, n->a->index, 0,
           NULL);
}

/* Makes the node's disk full, or makes it fail, while frames arrive and are answered. The agent's
 * process is killed in or soon after one of the disk calls. */
static void
starve(sim_node *n)
{
    world *w = n->w;
    int64_t time = MRD_SEC + (int64_t) sim_below(w, 8 * MRD_SEC);

    if (w->plan->mostly == SIM_MOSTLY_SLOW_SPOOLS)
        slow_link(n);
    fill_disk(n, sim_below(w, 4000), time);
    if (sim_chance(w, 300))
        agent_cut(w, n->a);
    if (sim_chance(w, 500))
        sim_at(w, w->now + (int64_t) sim_below(w, (uint64_t) time), kill_later, n->a->index, 0,
               NULL);
    else
        die_soon(n);
}

static void
spool_fault(sim_node *n)
{
    switch (sim_below(n->w, 6)) {
    case 0:
        die_soon(n);
        break;
    case 1:
        fail_soon(n);
        break;
    case 2:
        cut_off(n);
        break;
    case 3:
        starve(n);
        break;
    case 4:
        answers_without_room(n);
        break;
    default:
        fail_soon(n);
        die_soon(n);
        break;
    }
}

static void
file_fault(sim_node *n)
{
    switch (sim_below(n->w, 8)) {
    case 0:
        die_soon(n);
        break;
    case 1:
        agent_cut(n->w, n->a);
        n->w->r->cuts++;
        break;
    default:
        slow_link(n);
        break;
    }
}

void
node_fault(world *w, agent *a)
{
    sim_node *n = a->node;

    if ((w->plan->mostly == SIM_MOSTLY_SPOOLS || w->plan->mostly == SIM_MOSTLY_SLOW_SPOOLS) &&
        sim_chance(w, 800)) {
        spool_fault(n);
        return;
    }
    if (w->plan->mostly == SIM_MOSTLY_FILES) {
        file_fault(n);
        return;
    }
    switch (sim_below(w, 13)) {
    case 0:
    case 1:
    case 2:
        die_soon(n);
        break;
    case 3:
        node_crash(n, true);
        w->r->agent_crashes++;
        break;
    case 4:
        if (sim_chance(w, 400))
            cut_power(n);
        break;
    case 5:
        suspend(n);
        break;
    case 6:
        n->wall_off += (int64_t) sim_below(w, 7200 * MRD_SEC) - 3600 * MRD_SEC;
        n->wall_stepped = true;
        w->r->wall_steps++;
        break;
    case 7:
        slow_link(n);
        break;
    case 8:
        fill_disk(n, sim_below(w, 20000), (int64_t) sim_below(w, 20 * MRD_SEC));
        break;
    case 9:
        fail_soon(n);
        break;
    case 10:
        cut_off(n);
        break;
    default:
        agent_cut(w, a);
        w->r->cuts++;
        break;
    }
}

void
node_heal(sim_node *n)
{
    n->slow = 0;
    forget_plans(n);
    sim_disk_set_quota(n->disk, 0);
    n->short_of_room = false;
}
