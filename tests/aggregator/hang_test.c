/*
 * Tests the hang watch of the aggregator in simulated time, with generated jobs that have one fault
 * each, and with healthy jobs. The jobs are a small model of training, in which ranks compute,
 * enter an execution together, and then a collective. The verdict must name the fault that the
 * generator made. Reports are made as agents make them.
 */
#include <stdlib.h>
#include <string.h>

#include "aggregator/core/hang/hang.h"
#include "tests/check.h"
#include "tests/seed.h"

#define TICK   (20 * MRD_MS)
#define LOOK   (100 * MRD_MS)
#define BEAT   MRD_SEC
#define RANKS  1024
#define NOBODY (-1)

enum { LOAD, TRAIN, GATHER, EVAL, BARRIER, OPS };
static const char *const op_names[OPS] = { "nrt_load_collectives", "nrt_execute", "nrt_all_gather",
                                           "nrt_execute", "nrt_barrier" };

typedef enum {
    NEVER_ENTERS,
    ENTERS_LATE,
    OTHER_OPERATION,
    OTHER_SIZE,
    OTHER_MODEL,
    STUCK_LOAD,
    STUCK_ON_DEVICE,
    ALL_STUCK,
    NOT_IN_COLLECTIVE, /* all ranks are in the execution, and one did not enter its collective */
    STOPPED,
    KILLED,
    EXITS,
    NODE_GONE,
    LINK_CUT,
    DISK_WAIT,
    KINDS,
    HEALTHY
} fault;

static const char *const fault_names[KINDS] = { "never enters",    "enters late", "other operation",
                                                "other size",      "other model", "stuck load",
                                                "stuck on device", "all stuck",   "not in coll.",
                                                "stopped",         "killed",      "exits",
                                                "node gone",       "link cut",    "disk wait" };

/* What the standstill causes later. */
typedef enum {
    NOTHING,
    VICTIM_EXITS,
    VICTIM_STOPPED,
    TIME_OUTS,
    /* calls fail after a time-out, and the ranks end within three seconds after that */
    TIME_OUTS_END,
    AGENT_SILENT,
    AGENT_RESTARTED, /* the agent of any rank */
    CONSEQUENCES
} consequence;

/* What hides the truth. */
typedef enum {
    SEES_ALL,
    LOSES_CALLS,
    MISSES_A_RANK,
    NO_WORLD,
    CUT_BEFORE,
    LOST_BEFORE,
    AGENT_RESTARTS,
    TRACE_OFF,  /* of one rank */
    TRACE_LATE, /* the trace of one rank, perhaps the culprit, does not arrive */
    BLINDS
} blind;

typedef struct {
    uint64_t entered[OPS], slow_over[OPS][24];
    uint64_t bytes, bytes_before;
    int open; /* -1: none */
    int64_t begin, until, progress, state_at, watched;
    int at; /* position in its program */
    bool works, never_leaves, gone, stopped, disk, failed;
    uint64_t step;
    uint64_t shown; /* sum of `entered` and `open` at the last look */
    bool quiet;
} rank;

typedef struct {
    mrd_hang *h;
    rank r[RANKS];
    int n, per_node;
    int64_t now, last_enter[OPS], sent[RANKS];
    fault kind;
    blind hidden;
    consequence then;
    int culprit, node;
    uint64_t at_step;
    bool injected, cut, lost, frozen_all; /* frozen_all: nobody leaves */
    int64_t injected_at, told_after;
    uint64_t random;
    uint64_t steps;
    mrd_hang_verdict last; /* that was given last */
    unsigned told, wrong, stacks;
    bool withdrawn;
} job;

static uint64_t
next(job *j)
{
    j->random ^= j->random << 13;
    j->random ^= j->random >> 7;
    j->random ^= j->random << 17;
    return j->random;
}

static int64_t
between(job *j, int64_t a, int64_t b)
{
    return a + (int64_t) (next(j) % (uint64_t) (b - a + 1));
}

/* ---- Ranks ---- */

static void
enter(job *j, rank *r, int op)
{
    r->entered[op]++;
    r->open = op;
    r->begin = j->now;
    if (op == GATHER) {
        r->bytes_before = r->bytes;
        r->bytes = 4096;
    }
    j->last_enter[op] = j->now;
}

static bool
all_entered(const job *j, int op, uint64_t index)
{
    for (int i = 0; i < j->n; i++)
        if (j->r[i].entered[op] < index)
            return false;
    return true;
}

static int64_t
length(const job *j, int op, uint64_t step)
{
    switch (op) {
    case LOAD:
        return 8 * MRD_SEC;
    case TRAIN:
        return step == 0 ? 15 * MRD_SEC : 20 * MRD_MS; /* the first one compiles */
    case EVAL:
        return (int64_t) (2 + step % 7) * MRD_SEC;
    default:
        (void) j;
        return 0;
    }
}

static void
leave(job *j, rank *r)
{
    int op = r->open;

    for (int b = 0; b < 24 && r->entered[op] > 1; b++) /* the first call is not counted */
        r->slow_over[op][b] += j->now - r->begin >= (MRD_SEC / 10) << b;
    r->open = -1;
    r->works = false;
    r->until = j->now + between(j, 0, 10 * MRD_MS);
    if (op == GATHER) {
        r->step++;
        if (r->step % 500 == 0) { /* rank 0 writes a checkpoint, the others wait for it */
            r->works = r == &j->r[0];
            r->until += r->works ? between(j, 2, 12) * MRD_SEC : 0;
        }
    }
    r->at = op == LOAD                             ? TRAIN
            : op == TRAIN && r->step % 1000 == 999 ? EVAL
            : op == GATHER                         ? TRAIN
                                                   : GATHER;
}

static void
inject(job *j, rank *r)
{
    j->injected = true;
    j->injected_at = j->now;
    switch (j->kind) {
    case NEVER_ENTERS:
        r->until = INT64_MAX;
        break;
    case ENTERS_LATE:
        r->until = j->now + 6 * MRD_SEC;
        break;
    case DISK_WAIT:
        r->until = INT64_MAX;
        r->disk = true;
        break;
    case OTHER_OPERATION:
        r->at = BARRIER;
        break;
    case OTHER_MODEL:
        r->at = EVAL;
        break;
    case STOPPED:
        r->stopped = true;
        r->state_at = j->now;
        break;
    case KILLED:
    case EXITS:
        r->gone = true;
        r->state_at = j->now;
        break;
    case NODE_GONE:
        for (int i = j->node * j->per_node; i < (j->node + 1) * j->per_node && i < j->n; i++)
            j->r[i].gone = true, j->r[i].state_at = j->now;
        j->cut = true;
        mrd_hang_node_gone(j->h, (uint64_t) j->node + 1, (mrd_local_ns){ j->now });
        break;
    case LINK_CUT:
        j->cut = true;
        break;
    default:
        break;
    }
}

static bool
is_due(const job *j, const rank *r)
{
    bool host = j->kind == NEVER_ENTERS || j->kind == ENTERS_LATE || j->kind == OTHER_OPERATION ||
                j->kind == OTHER_MODEL || j->kind == EXITS || j->kind == DISK_WAIT;

    return !j->injected && r == &j->r[j->culprit] && r->step >= j->at_step &&
           (host ? r->open < 0 && r->at != EVAL : j->kind != HEALTHY && j->kind < KINDS);
}

static void
move(job *j, rank *r)
{
    if (is_due(j, r))
        inject(j, r);
    if (r->gone || r->stopped)
        return;
    if (r->failed && j->now >= r->until) {
        r->gone = true;
        r->state_at = j->now;
        return;
    }
    if (r->open < 0) {
        if (j->now < r->until)
            return;
        enter(j, r, r->at);
        if (r == &j->r[j->culprit] && r->step >= j->at_step && j->injected) {
            r->never_leaves = (j->kind == STUCK_ON_DEVICE && r->open == TRAIN) || r->never_leaves;
            if (j->kind == OTHER_SIZE && r->open == GATHER) {
                r->bytes = 8192;
                j->frozen_all = true;
            }
            j->frozen_all =
                j->frozen_all ||
                ((j->kind == ALL_STUCK || j->kind == NOT_IN_COLLECTIVE) && r->open == TRAIN);
        }
        if (j->kind == STUCK_LOAD && r->open == LOAD && r == &j->r[j->culprit]) {
            r->never_leaves = j->injected = true;
            j->injected_at = j->now;
        }
        return;
    }
    if (r->failed || r->never_leaves || (j->frozen_all && (r->open == TRAIN || r->open == GATHER)))
        return;
    if (r->open == LOAD ? j->now - r->begin < length(j, LOAD, 0)
                        : !all_entered(j, r->open, r->entered[r->open]) ||
                              j->now - j->last_enter[r->open] < length(j, r->open, r->step))
        return;
    leave(j, r);
}

/* ---- Agents ---- */

static mrd_dur_ns
slow(const rank *r, int op, uint64_t seen)
{
    for (int b = 23; b >= 0; b--)
        if (r->slow_over[op][b] > seen / 1000)
            return (mrd_dur_ns) (MRD_SEC / 10) << (b + 1);
    return 0;
}

static mrd_hang_state
state_of(const rank *r)
{
    return r->gone      ? MRD_HANG_GONE
           : r->stopped ? MRD_HANG_STOPPED
           : r->disk    ? MRD_HANG_DISK_WAIT
           : r->works   ? MRD_HANG_RUNNING
                        : MRD_HANG_SLEEPING;
}

static void
describe(const job *j, int i, mrd_hang_rank *to)
{
    const rank *r = &j->r[i];

    *to = (mrd_hang_rank){ .pid = 1000 + i,
                           .start_ticks = 7,
                           .rank = i,
                           .world = j->hidden == NO_WORLD ? MRD_HANG_NONE : j->n,
                           .state = state_of(r),
                           .quiet = { r->quiet ? r->progress : 0 },
                           .idle = { r->works || !r->quiet ? 0 : r->progress },
                           .state_at = { r->state_at },
                           .watched = { r->watched },
                           .bound = 3 * MRD_MS,
                           .failed = r->failed,
                           .lost = r->failed ||
                                   (j->hidden == LOSES_CALLS && i == (j->culprit + 1) % j->n) };
    to->traced = j->hidden != TRACE_OFF || i != (j->culprit + 2) % j->n;
    if (r->open == TRAIN && to->traced &&
        (j->hidden != TRACE_LATE || i != (j->culprit + (int) (j->at_step % 2)) % j->n))
        strcpy(to->running, j->kind == NOT_IN_COLLECTIVE && i == j->culprit
                                ? "nrt_execute"
                                : "nrt_execute,enc_barrier");
    if (to->lost)
        strcpy(to->lost_why, "calls were lost");
    for (int k = 0; k < OPS; k++) {
        mrd_hang_op *op = &to->ops[to->n_ops];

        if (r->entered[k] == 0)
            continue;
        strcpy(op->name, op_names[k]);
        op->group = k == EVAL ? 2 : k == TRAIN ? 1 : 0;
        op->entered = r->entered[k];
        op->open = r->open == k;
        op->begin.ns = r->begin;
        op->seen = r->entered[k] - op->open;
        op->slow = slow(r, k, op->seen);
        op->bytes = k == GATHER ? r->bytes : 0;
        op->bytes_before = k == GATHER ? r->bytes_before : 0;
        to->n_ops++;
    }
}

/* Returns true if the node has to send its list. */
static bool
look_at(job *j, rank *r)
{
    uint64_t shown = (uint64_t) (r->open + 2) + (r->gone ? 1000 : 0) + (r->stopped ? 2000 : 0);
    bool quiet, changed;

    for (int k = 0; k < OPS; k++)
        shown += r->entered[k] * 16;
    if ((shown & 15) != (r->shown & 15) || shown / 16 != r->shown / 16) {
        if (!r->gone && !r->stopped)
            r->progress = j->now;
        changed = r->quiet || r->gone || r->stopped;
    } else {
        changed = false;
    }
    r->shown = shown;
    quiet = j->now - r->progress >= MRD_SEC;
    changed = changed || quiet != r->quiet;
    r->quiet = quiet;
    return changed;
}

/* Sends the stacks that a verdict needs, and others that were not requested. */
static void
answer_stacks(job *j, int node)
{
    const mrd_hang_stack *stack;
    uint64_t verdict;

    mrd_hang_take_stack(j->h, (uint64_t) node + 1, 1, 999, 7, "not asked for");
    while ((stack = mrd_hang_wants_stack(j->h, (uint64_t) node + 1, 0, &verdict)) != NULL) {
        CHECK((int) (stack->pid - 1000) / j->per_node == node && stack->rank == stack->pid - 1000);
        mrd_hang_take_stack(j->h, (uint64_t) node + 1, verdict + 1, stack->pid, 7, "of another");
        mrd_hang_take_stack(j->h, (uint64_t) node + 1, verdict, stack->pid, 7, "thread 1\xff");
        j->stacks++;
    }
}

static void
send_node(job *j, int node)
{
    mrd_jobid id = { 0 };

    mrd_jobid_set(&id, MRD_STR("job"), MRD_STR("17"));
    (void) mrd_hang_node_begin(j->h, (uint64_t) node + 1, "node", false, (mrd_local_ns){ j->now });
    answer_stacks(j, node);
    for (int i = node * j->per_node; i < (node + 1) * j->per_node && i < j->n; i++) {
        mrd_hang_rank r;

        if (j->hidden == MISSES_A_RANK && i == (j->culprit + 1) % j->n)
            continue;
        describe(j, i, &r);
        mrd_hang_report(j->h, (uint64_t) node + 1, &id, 500, true, &r);
    }
}

static int
next_node(const job *j)
{
    return (j->node + 1) * j->per_node % j->n / j->per_node;
}

static bool
is_cut(const job *j, int node)
{
    return (j->cut && node == j->node) ||
           (j->hidden == CUT_BEFORE && j->r[0].step > j->at_step / 2 && node == next_node(j)) ||
           (j->hidden == LOST_BEFORE && j->lost && node == next_node(j));
}

static void
agents(job *j)
{
    if (j->hidden == LOST_BEFORE && !j->lost && j->r[0].step + 4 + j->random % 20 > j->at_step) {
        j->lost =
            true; /* less than a second before the fault, the agent of an innocent rank ends */
        mrd_hang_node_gone(j->h, (uint64_t) next_node(j) + 1, (mrd_local_ns){ j->now });
    }
    for (int node = 0; node * j->per_node < j->n; node++) {
        bool send = false;

        for (int i = node * j->per_node; i < (node + 1) * j->per_node && i < j->n; i++)
            send = look_at(j, &j->r[i]) || send;
        if (is_cut(j, node))
            continue;
        if (j->hidden == AGENT_RESTARTS && j->injected && j->now - j->injected_at < 3 * MRD_SEC &&
            node == j->node) {
            j->sent[node] = 0;
            continue;
        }
        if (send || j->now - j->sent[node] > 10 * MRD_SEC) {
            send_node(j, node);
            j->sent[node] = j->now;
        } else if (j->now % BEAT < LOOK) {
            answer_stacks(j, node);
            mrd_hang_node_seen(j->h, (uint64_t) node + 1, (mrd_local_ns){ j->now });
        }
    }
}

/* ---- Judging the judge ---- */

static bool
is_true(const job *j, const mrd_hang_culprit *c)
{
    if (j->kind == NODE_GONE)
        return c->rank / j->per_node == j->node;
    return j->kind != ALL_STUCK && j->kind != NOT_IN_COLLECTIVE && j->kind != LINK_CUT &&
           j->kind != HEALTHY && j->injected && c->rank == j->culprit;
}

/* The stacks of a verdict are those of one named rank that runs, and of ranks that it does not
 * name. */
static void
check_stacks(const job *j, const mrd_hang_verdict *v)
{
    for (size_t i = 0; i < v->n_stacks; i++) {
        const mrd_hang_stack *s = &v->stacks[i];
        bool named = false;

        CHECK(s->rank >= 0 && s->rank < j->n && !j->r[s->rank].gone && s->text == NULL);
        for (size_t k = 0; k < v->n_named; k++)
            named = named || v->named[k].rank == s->rank;
        CHECK(s->named == named && (!named || i == 0));
        for (size_t k = 0; k < i; k++)
            CHECK(v->stacks[k].rank != s->rank);
    }
    CHECK(v->n_stacks > 0);
}

/* The runtime's trace speaks of the rank that is not in the collective, and of no other. */
static void
check_trace(const job *j, const mrd_hang_verdict *v)
{
    const char *at = strstr(v->reason, "all but rank ");
    bool off = strstr(v->reason, "is not recorded") != NULL;
    bool late = strstr(v->reason, "does not show this call") != NULL;
    bool traced = strcmp(v->op, "nrt_execute") == 0;

    if (v->cls != MRD_HANG_ALL_STUCK)
        return;
    CHECK(at == NULL || (j->kind == NOT_IN_COLLECTIVE && atoi(at + 13) == j->culprit));
    CHECK(off == (j->hidden == TRACE_OFF && traced));
    CHECK(late == (j->hidden == TRACE_LATE && traced));
    if (j->kind == NOT_IN_COLLECTIVE && j->n > 2)
        CHECK((at != NULL) == (j->hidden != TRACE_OFF && j->hidden != TRACE_LATE));
}

static void
take(job *j)
{
    const mrd_hang_verdict *v;

    for (size_t i = 0; (v = mrd_hang_changed(j->h, i)) != NULL; i++) {
        if (v->withdrawn.ns != 0) {
            j->withdrawn = true;
            continue;
        }
        check_stacks(j, v);
        check_trace(j, v);
        j->told++;
        j->last = *v;
        j->told_after = j->now - j->injected_at;
        for (size_t k = 0; k < v->n_named; k++)
            if (!is_true(j, &v->named[k])) {
                j->wrong++;
                fprintf(stderr, "wrong: %s, hidden %d, %d ranks: '%s' but culprit is %d\n",
                        j->kind < KINDS ? fault_names[j->kind] : "healthy", (int) j->hidden, j->n,
                        v->reason, j->culprit);
            }
    }
}

static void
tick(job *j)
{
    j->now += TICK;
    for (int i = 0; i < j->n; i++)
        move(j, &j->r[i]);
    if (j->now % LOOK == 0)
        agents(j);
    if (j->now % (2 * LOOK) == 0) {
        (void) mrd_hang_step(j->h, (mrd_local_ns){ j->now });
        take(j);
    }
}

static void
start(job *j, uint64_t seed, fault kind, blind hidden, int n)
{
    mrd_hang_options o = { .unlearned = 30 * MRD_SEC };

    *j = (job){ .random = seed * 0x9e3779b97f4a7c15u + 88172645463325252u,
                .kind = kind,
                .hidden = hidden,
                .n = n,
                .now = MRD_SEC };
    for (int i = 0; i < 8; i++)
        (void) next(j);
    REQUIRE((j->h = mrd_hang_new(&o)) != NULL);
    j->per_node = (int) between(j, 1, n < 16 ? (n + 1) / 2 : 8);
    j->culprit = (int) between(j, 0, n - 1);
    j->node = j->culprit / j->per_node;
    j->at_step = (uint64_t) between(j, 260, 420);
    for (int i = 0; i < n; i++) {
        j->r[i].open = -1;
        j->r[i].at = LOAD;
        j->r[i].until = j->now + between(j, 0, 3 * MRD_SEC);
        j->r[i].progress = j->now;
    }
}

/* Fifteen seconds later an innocent rank gives up or is looked at, the calls of all but one fail,
 * or the agent of an innocent rank falls silent. */
static void
follow(job *j)
{
    int victim = (int) ((unsigned) (j->culprit + 1 + (int) (next(j) % (uint64_t) (j->n - 1))) %
                        (unsigned) j->n);
    rank *r = &j->r[victim];

    if (j->kind == NODE_GONE && victim / j->per_node == j->node)
        return;
    switch (j->then) {
    case VICTIM_EXITS:
        r->gone = true;
        r->state_at = j->now;
        break;
    case VICTIM_STOPPED:
        r->stopped = true;
        r->state_at = j->now;
        break;
    case TIME_OUTS:
    case TIME_OUTS_END:
        for (int i = 0; i < j->n; i++)
            if (i != victim && j->r[i].open >= 0 && !j->r[i].gone && !j->r[i].stopped) {
                j->r[i].open = -1;
                j->r[i].failed = true;
                j->r[i].until =
                    j->then == TIME_OUTS ? INT64_MAX : j->now + between(j, 0, 3 * MRD_SEC);
            }
        break;
    case AGENT_SILENT:
        if (j->cut || victim / j->per_node == j->culprit / j->per_node)
            break;
        j->cut = true;
        j->node = victim / j->per_node;
        mrd_hang_node_gone(j->h, (uint64_t) j->node + 1, (mrd_local_ns){ j->now });
        break;
    case AGENT_RESTARTED: /* a new agent assumes at first that each rank makes progress */
        victim = (int) (next(j) % (uint64_t) j->n);
        if (is_cut(j, victim / j->per_node))
            break;
        for (int i = 0; i < j->n; i++)
            if (i / j->per_node == victim / j->per_node && !j->r[i].gone) {
                j->r[i].progress = j->r[i].watched = j->now;
                j->r[i].quiet = false;
            }
        send_node(j, victim / j->per_node);
        break;
    default:
        break;
    }
}

static void
run_for(job *j, int64_t ns)
{
    for (int64_t end = j->now + ns; j->now < end;)
        tick(j);
}

static bool
is_named(const job *j)
{
    return j->told > 0 && j->last.n_named > 0;
}

typedef struct {
    unsigned jobs, named, refused, silent, wrong;
    int64_t slowest;
} score;

static void
run_fault(score *s, uint64_t seed, fault kind, blind hidden, int n, consequence then)
{
    job *j = malloc(sizeof(*j));

    REQUIRE(j != NULL);
    start(j, seed, kind, hidden, n);
    j->then = then;
    while (!j->injected && j->now < 400 * MRD_SEC)
        tick(j);
    CHECK_ROW(fault_names[kind], j->injected);
    run_for(j, 15 * MRD_SEC);
    if (kind != LINK_CUT && kind != ENTERS_LATE)
        follow(j);
    run_for(j, 55 * MRD_SEC);
    for (size_t i = 0; j->told > 0 && hidden == SEES_ALL && then == NOTHING &&
                       i < mrd_hang_get(j->h, 0)->n_stacks;
         i++)
        CHECK_ROW(fault_names[kind],
                  mrd_hang_get(j->h, 0)->stacks[i].text != NULL &&
                      strcmp(mrd_hang_get(j->h, 0)->stacks[i].text->text, "thread 1") == 0);
    s->jobs++;
    s->wrong += j->wrong;
    s->named += is_named(j);
    s->refused += j->told > 0 && !is_named(j);
    s->silent += j->told == 0;
    if (is_named(j) && j->told_after > s->slowest)
        s->slowest = j->told_after;
    if (kind == LINK_CUT)
        CHECK_ROW("link cut", j->told == 0);
    CHECK_ROW(fault_names[kind],
              kind == STOPPED || then == VICTIM_STOPPED || j->last.cls != MRD_HANG_IS_STOPPED);
    if (kind != ENTERS_LATE)
        CHECK_ROW(fault_names[kind], !j->withdrawn); /* no rank went on */
    if (kind == ENTERS_LATE && j->told > 0)
        CHECK_ROW("enters late", j->withdrawn && mrd_hang_get(j->h, 0)->withdrawn.ns != 0);
    mrd_hang_free(j->h);
    free(j);
}

TEST(names_the_culprit_of_750_hangs_and_nobody_else)
{
    uint64_t seed = test_seed();
    score all = { 0 };

    for (int kind = 0; kind < KINDS; kind++) {
        score s = { 0 };

        for (unsigned i = 0; i < 50; i++)
            run_fault(&s, seed * 1000 + i, (fault) kind, SEES_ALL,
                      i % 10 == 9 ? 64 : 3 + (int) i % 14, NOTHING);
        fprintf(stderr,
                "%-16s %3u jobs: %3u named, %3u refused, %3u silent, %u wrong, at most %.1f s\n",
                fault_names[kind], s.jobs, s.named, s.refused, s.silent, s.wrong,
                (double) s.slowest / 1e9);
        all.wrong += s.wrong;
        all.jobs += s.jobs;
        if (kind == LINK_CUT || kind == DISK_WAIT)
            CHECK_ROW(fault_names[kind], s.silent == s.jobs);
        else if (kind == ALL_STUCK || kind == NOT_IN_COLLECTIVE)
            CHECK_ROW(fault_names[kind], s.refused == s.jobs);
        else
            CHECK_ROW(fault_names[kind], s.named == s.jobs);
        /* deadlines are 1 s once 200 calls were seen */
        if (kind == NEVER_ENTERS || kind == STOPPED || kind == KILLED || kind == EXITS)
            CHECK_ROW(fault_names[kind], s.slowest <= 3 * MRD_SEC + MRD_SEC / 2);
    }
    CHECK(all.wrong == 0);
    CHECK(all.jobs >= 500);
}

TEST(refuses_where_the_reports_are_incomplete)
{
    uint64_t seed = test_seed();
    unsigned wrong = 0;

    for (int hidden = SEES_ALL + 1; hidden < BLINDS; hidden++) {
        score s = { 0 };

        for (unsigned i = 0; i < 140; i++)
            run_fault(&s, seed * 2000 + i, (fault) (i % KINDS), (blind) hidden, 3 + (int) i % 11,
                      NOTHING);
        fprintf(stderr, "blind %d: %u jobs: %u named, %u refused, %u silent, %u wrong\n", hidden,
                s.jobs, s.named, s.refused, s.silent, s.wrong);
        wrong += s.wrong;
        CHECK(hidden == AGENT_RESTARTS || s.refused > 0);
    }
    CHECK(wrong == 0);
}

TEST(consequences_of_a_hang_are_not_its_cause)
{
    uint64_t seed = test_seed();
    unsigned wrong = 0;

    for (int then = NOTHING + 1; then < CONSEQUENCES; then++) {
        score s = { 0 };

        for (unsigned i = 0; i < 280; i++)
            run_fault(&s, seed * 5000 + i, (fault) (i % KINDS), SEES_ALL, 3 + (int) i % 11,
                      (consequence) then);
        fprintf(stderr, "consequence %d: %u jobs: %u named, %u refused, %u silent, %u wrong\n",
                then, s.jobs, s.named, s.refused, s.silent, s.wrong);
        wrong += s.wrong;
    }
    CHECK(wrong == 0);
}

TEST(a_thousand_ranks)
{
    score s = { 0 };

    run_fault(&s, 1, NEVER_ENTERS, SEES_ALL, 1000, NOTHING);
    run_fault(&s, 2, KILLED, SEES_ALL, 1000, NOTHING);
    CHECK(s.named == 2 && s.wrong == 0);
    CHECK(s.slowest <= 3 * MRD_SEC);
}

TEST(two_ranks_are_a_tie)
{
    score s = { 0 };

    for (unsigned i = 0; i < 20; i++)
        run_fault(&s, i, NEVER_ENTERS, SEES_ALL, 2, NOTHING);
    CHECK(s.wrong == 0 && s.refused == s.jobs);
    for (unsigned i = 0; i < 20; i++)
        run_fault(&s, i, STOPPED, SEES_ALL, 2, NOTHING);
    CHECK(s.wrong == 0 && s.named == 20);
}

TEST(processes_without_a_job_are_counted)
{
    mrd_hang_options o = { 0 };
    mrd_hang *hang = mrd_hang_new(&o);
    mrd_hang_counts counts;

    REQUIRE(hang != NULL);
    for (int64_t second = 0; second < 2; second++) {
        CHECK(mrd_hang_node_begin(hang, 1, "n", false, (mrd_local_ns){ second * MRD_SEC }));
        for (int64_t pid = 10; pid < 13; pid++)
            mrd_hang_report(hang, 1, &(mrd_jobid){ "" }, 500, true, &(mrd_hang_rank){ .pid = pid });
        mrd_hang_get_counts(hang, &counts);
        CHECK_INT(counts.unnamed, 3);
        CHECK_INT(counts.ranks, 0);
    }
    CHECK(mrd_hang_node_begin(hang, 1, "n", false, (mrd_local_ns){ 2 * MRD_SEC }));
    mrd_hang_get_counts(hang, &counts);
    CHECK_INT(counts.unnamed, 0);
    mrd_hang_free(hang);
}

TEST(healthy_jobs_that_are_not_completely_visible_do_not_alarm)
{
    job *j = malloc(sizeof(*j));

    REQUIRE(j != NULL);
    for (unsigned i = 0; i < 4 * BLINDS; i++) {
        start(j, test_seed() * 4000 + i, HEALTHY, (blind) (i % BLINDS), 4 + (int) i % 5);
        while (j->r[0].step < 4000)
            tick(j);
        CHECK(j->told == 0);
        mrd_hang_free(j->h);
    }
    free(j);
}

TEST(a_million_healthy_steps_without_an_alarm)
{
    uint64_t steps = 0;
    job *j = malloc(sizeof(*j));

    REQUIRE(j != NULL);
    for (unsigned i = 0; steps < 1000000; i++) {
        start(j, test_seed() * 3000 + i, HEALTHY, SEES_ALL, i % 8 == 7 ? 16 : 4);
        while (j->r[0].step < 125000)
            tick(j);
        steps += j->r[0].step;
        CHECK(j->told == 0);
        if (j->told > 0)
            fprintf(stderr, "alarm: %s\n", j->last.reason);
        mrd_hang_free(j->h);
    }
    free(j);
}

TEST_MAIN()
