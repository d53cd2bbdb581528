#include "trace/analysis/judge/what_if.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/vec.h"
#include "trace/analysis/judge/pipeline.h"

/* An operation of a group cannot end before the last operation of the group has begun. If it ends
 * earlier by more than this time in ns, its times come from a wrong clock. */
#define WRONG_NS (-10000000)
/* Maximum number of operations in all replays together. They take about a second of CPU time. */
#define REPLAYED 134217728u

typedef struct {
    mrd_pipe_op op;
    uint64_t step;
    uint32_t worker, replica;
} record;

struct mrd_what_if {
    const mrd_catalog *cat;
    const mrd_workers *who;
    uint8_t *kinds; /* mrd_pipe_kind + 1 of each name, 0 if the name was not seen */
    size_t n_kinds;
    mrd_sid chunk_keys[2];
    record *records;
    size_t n, cap;
};

/* The steps that are replayed. Places are numbered by stage, then replica. */
typedef struct {
    const record *records; /* by step, replica and operation */
    size_t steps, ops;     /* number of operations on one worker of each stage */
    uint32_t stages, replicas;
    mrd_pipeline pipeline;
    double *own;    /* own time of each record in ns */
    double *end;    /* end of each operation of a step, by replica and operation */
    bool *is_ideal; /* indexed by place: the worker's operations take their ideal time */
    double ideal[MRD_PIPE_KINDS];
} replay;

mrd_what_if *
mrd_what_if_new(const mrd_catalog *cat, const mrd_workers *who)
{
    const mrd_strtab *strings = mrd_catalog_strings(cat);
    mrd_what_if *what_if = calloc(1, sizeof(*what_if));

    if (what_if == NULL)
        return NULL;
    what_if->cat = cat;
    what_if->who = who;
    what_if->n_kinds = mrd_strtab_count(strings);
    what_if->kinds = calloc(what_if->n_kinds + 1, sizeof(*what_if->kinds));
    what_if->chunk_keys[0] = mrd_strtab_find(strings, MRD_STR("model_chunk"));
    what_if->chunk_keys[1] = mrd_strtab_find(strings, MRD_STR("mc"));
    if (what_if->kinds == NULL) {
        free(what_if);
        return NULL;
    }
    return what_if;
}

void
mrd_what_if_free(mrd_what_if *what_if)
{
    if (what_if == NULL)
        return;
    free(what_if->kinds);
    free(what_if->records);
    free(what_if);
}

static mrd_pipe_kind
kind_of(mrd_what_if *what_if, mrd_sid name)
{
    if (name >= what_if->n_kinds)
        return MRD_PIPE_KINDS;
    if (what_if->kinds[name] == 0)
        what_if->kinds[name] =
            (uint8_t) (mrd_pipe_kind_of(mrd_catalog_text(what_if->cat, name)) + 1);
    return (mrd_pipe_kind) (what_if->kinds[name] - 1);
}

mrd_err
mrd_what_if_add(mrd_what_if *what_if, const mrd_balance *balance, const mrd_event *ev)
{
    mrd_pipe_kind kind = kind_of(what_if, ev->name);
    uint32_t worker = mrd_workers_of(what_if->who, ev->track);
    int32_t chunk = 0;
    uint64_t step;

    if (kind == MRD_PIPE_KINDS || worker == MRD_NO_WORKER || what_if->n == MRD_WHAT_IF_OPS ||
        ev->ts.ns < -MRD_TIME_MAX || mrd_event_end(ev).ns > MRD_TIME_MAX ||
        !mrd_balance_step(balance, worker, ev, &step))
        return MRD_OK;
    for (size_t i = 0; i < 2; i++) {
        const mrd_arg *arg = mrd_event_arg(ev, what_if->chunk_keys[i]);

        if (mrd_arg_is_int(arg) && arg->v.i > 0 && arg->v.i < UINT16_MAX)
            chunk = (int32_t) arg->v.i;
    }
    if (!MRD_VEC_ROOM(what_if->records, what_if->n, what_if->cap, 1))
        return MRD_NOMEM;
    what_if->records[what_if->n++] =
        (record){ { ev->ts, ev->dur_ns, 0, chunk, kind }, step, worker, 0 };
    return MRD_OK;
}

/* ---- Which steps are replayed ---- */

/* Sets the stage and the replica of each record. `stage` and `replica` are indexed by worker,
 * `in_stage` counts the workers of each stage. Returns false if the stages have different numbers
 * of workers. */
static bool
place_workers(mrd_what_if *what_if, replay *r, uint32_t *stage, uint32_t *replica,
              uint32_t *in_stage)
{
    size_t workers = mrd_workers_count(what_if->who), n = 0;

    for (uint32_t w = 0; w < workers; w++)
        stage[w] = UINT32_MAX;
    for (size_t i = 0; i < what_if->n; i++)
        stage[what_if->records[i].worker] = 0;
    for (uint32_t w = 0; w < workers; w++) {
        int64_t of = mrd_phase_stage(mrd_workers_at(what_if->who, w)->ranks);

        if (stage[w] == UINT32_MAX)
            continue;
        if (of >= (int64_t) workers)
            return false;
        stage[w] = of < 0 ? 0 : (uint32_t) of;
        replica[w] = in_stage[stage[w]]++;
        r->stages = stage[w] >= r->stages ? stage[w] + 1 : r->stages;
        r->replicas = replica[w] >= r->replicas ? replica[w] + 1 : r->replicas;
        n++;
    }
    for (size_t i = 0; i < what_if->n; i++) {
        record *at = &what_if->records[i];

        at->op.stage = stage[at->worker];
        at->replica = replica[at->worker];
    }
    return n == (size_t) r->stages * r->replicas && in_stage[0] == r->replicas && n > 1;
}

static int
record_order(const void *a, const void *b)
{
    const record *x = a, *y = b;

    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->replica != y->replica)
        return x->replica < y->replica ? -1 : 1;
    if (x->op.stage != y->op.stage)
        return x->op.stage < y->op.stage ? -1 : 1;
    if (x->op.kind != y->op.kind)
        return x->op.kind < y->op.kind ? -1 : 1;
    return mrd_i64_order(x->op.begin.ns, y->op.begin.ns);
}

/* Returns true if each replica has the same operations as `like` in this step of n records. */
static bool
is_complete(const replay *r, const record *step, size_t n, const record *like, size_t ops)
{
    if (n != ops * r->replicas)
        return false;
    for (size_t i = 0; i < n; i++) {
        const mrd_pipe_op *a = &step[i].op, *b = &like[i % ops].op;

        if (step[i].replica != i / ops || a->stage != b->stage || a->kind != b->kind)
            return false;
    }
    return true;
}

/* Moves the complete steps to the front. A step is complete if it has the largest number of
 * operations. Other steps lack operations, because they were only partly recorded. */
static void
choose_steps(mrd_what_if *what_if, replay *r)
{
    record *all = what_if->records;
    const record *like = NULL;
    size_t kept = 0, most;

    for (unsigned round = 0; round < 2; round++) {
        for (size_t at = 0, end; at < what_if->n; at = end) {
            for (end = at; end < what_if->n && all[end].step == all[at].step;)
                end++;
            if (round == 0 && (end - at) / r->replicas > r->ops &&
                is_complete(r, all + at, end - at, all + at, (end - at) / r->replicas)) {
                r->ops = (end - at) / r->replicas;
                like = all + at;
            } else if (round == 1 && is_complete(r, all + at, end - at, like, r->ops)) {
                memmove(all + kept, all + at, (end - at) * sizeof(*all));
                kept += end - at;
                like = all;
            }
        }
        if (like == NULL)
            return;
    }
    most = REPLAYED / (r->ops * r->replicas * (r->stages + r->replicas + 4u));
    r->steps = kept / (r->ops * r->replicas);
    r->steps = r->steps > most ? most : r->steps;
    r->records = all;
}

/* ---- Replays ---- */

/* Own times of the operations of one group, from `from` to `to` in the pipeline's members. */
static void
measure_group(replay *r, size_t step, uint32_t from, uint32_t to)
{
    const uint32_t *members = r->pipeline.members;
    size_t base = step * r->ops * r->replicas;
    mrd_pipe_kind kind = r->records[members[from]].op.kind;

    for (uint32_t rep = 0; rep < r->replicas; rep++) {
        uint32_t first = mrd_pipe_waits_for_replicas(kind) ? 0 : rep,
                 end = mrd_pipe_waits_for_replicas(kind) ? r->replicas : rep + 1;
        int64_t last = INT64_MIN;

        for (uint32_t k = first; k < end; k++) {
            for (uint32_t i = from; i < to; i++) {
                int64_t begin = r->records[base + k * r->ops + members[i]].op.begin.ns;

                last = begin > last ? begin : last;
            }
        }
        for (uint32_t i = from; i < to; i++) {
            size_t at = base + rep * r->ops + members[i];
            const mrd_pipe_op *op = &r->records[at].op;
            int64_t own = mrd_pipe_waits(kind) ? op->begin.ns + op->dur_ns - last : op->dur_ns;

            r->own[at] = own <= WRONG_NS ? 0 : (double) own;
        }
    }
}

static void
measure_all(replay *r)
{
    for (size_t step = 0; step < r->steps; step++) {
        for (size_t g = 0; g < r->pipeline.n_groups; g++)
            measure_group(r, step, g == 0 ? 0 : r->pipeline.group_ends[g - 1],
                          r->pipeline.group_ends[g]);
    }
}

static mrd_err
find_ideal(replay *r)
{
    size_t n = r->steps * r->ops * r->replicas;
    double *times = malloc((n + 1) * sizeof(*times));

    if (times == NULL)
        return MRD_NOMEM;
    for (mrd_pipe_kind kind = 0; kind < MRD_PIPE_KINDS; kind++) {
        size_t count = 0;
        double sum = 0;

        for (size_t i = 0; i < n; i++) {
            if (r->records[i].op.kind != kind)
                continue;
            times[count++] = r->own[i];
            sum += r->own[i];
        }
        if (count == 0)
            continue;
        qsort(times, count, sizeof(*times), mrd_double_order);
        r->ideal[kind] = mrd_pipe_is_compute(kind)
                             ? sum / (double) count
                             : (times[(count - 1) / 2] + times[count / 2]) / 2;
    }
    free(times);
    return MRD_OK;
}

/* Replays one group of a step on the replicas from `rep` to `rep_end`. */
static void
replay_group(replay *r, size_t base, const uint32_t *members, size_t n, uint32_t rep,
             uint32_t rep_end)
{
    const mrd_pipeline *p = &r->pipeline;
    double begin = 0;

    for (uint32_t k = rep; k < rep_end; k++) {
        for (size_t i = 0; i < n; i++) {
            uint32_t op = members[i];

            for (uint32_t e = op == 0 ? 0 : p->before_ends[op - 1]; e < p->before_ends[op]; e++) {
                double end = r->end[k * r->ops + p->before[e]];

                begin = end > begin ? end : begin;
            }
        }
    }
    for (uint32_t k = rep; k < rep_end; k++) {
        for (size_t i = 0; i < n; i++) {
            size_t at = k * r->ops + members[i];
            const mrd_pipe_op *op = &r->records[base + at].op;

            r->end[at] = begin + (r->is_ideal[op->stage * r->replicas + k] ? r->ideal[op->kind]
                                                                           : r->own[base + at]);
        }
    }
}

/* Returns the mean length of a step in ns. */
static double
replay_all(replay *r)
{
    double sum = 0;

    for (size_t step = 0; step < r->steps; step++) {
        size_t base = step * r->ops * r->replicas;
        double last = 0;

        for (size_t g = 0; g < r->pipeline.n_groups; g++) {
            uint32_t from = g == 0 ? 0 : r->pipeline.group_ends[g - 1];
            const uint32_t *members = r->pipeline.members + from;
            bool together = mrd_pipe_waits_for_replicas(r->records[members[0]].op.kind);

            for (uint32_t rep = 0; rep < (together ? 1 : r->replicas); rep++)
                replay_group(r, base, members, r->pipeline.group_ends[g] - from, rep,
                             together ? r->replicas : rep + 1);
        }
        for (size_t i = 0; i < r->ops * r->replicas; i++)
            last = r->end[i] > last ? r->end[i] : last;
        sum += last;
    }
    return sum / (double) r->steps;
}

/* Replays with own times for the workers of one stage and of one replica, and with ideal times for
 * all other workers. With `own`, it is the other way round: these workers have ideal times, and all
 * others have own times. UINT32_MAX means no stage or no replica. */
static double
replay_but(replay *r, bool own, uint32_t stage, uint32_t replica)
{
    for (uint32_t s = 0; s < r->stages; s++)
        for (uint32_t k = 0; k < r->replicas; k++)
            r->is_ideal[s * r->replicas + k] = (s == stage || k == replica) == own;
    return replay_all(r);
}

static double
recorded_ns(const replay *r)
{
    size_t width = r->ops * r->replicas;
    double sum = 0;

    for (size_t step = 0; step < r->steps; step++) {
        int64_t first = INT64_MAX, last = INT64_MIN;

        for (const record *at = r->records + step * width; at < r->records + (step + 1) * width;
             at++) {
            first = at->op.begin.ns < first ? at->op.begin.ns : first;
            last = at->op.begin.ns + at->op.dur_ns > last ? at->op.begin.ns + at->op.dur_ns : last;
        }
        sum += (double) (last - first);
    }
    return sum / (double) r->steps;
}

/* ---- Shares ---- */

/* Sets is_ideal for the n places with the highest scores. */
static void
find_slowest(replay *r, const double *score, size_t n)
{
    size_t places = (size_t) r->stages * r->replicas;

    memset(r->is_ideal, 0, places * sizeof(*r->is_ideal));
    for (size_t i = 0; i < n; i++) {
        size_t best = places;

        for (size_t k = 0; k < places; k++) {
            if (!r->is_ideal[k] && (best == places || score[k] > score[best]))
                best = k;
        }
        r->is_ideal[best] = true;
    }
}

static mrd_err
find_shares(replay *r, mrd_slowdown *ret)
{
    size_t places = (size_t) r->stages * r->replicas, best = 0;
    double *score = calloc(places, sizeof(*score)), difference = ret->step_ns - ret->ideal_ns;

    if (score == NULL)
        return MRD_NOMEM;
    for (uint32_t s = 0; s < r->stages; s++) {
        double ns = replay_but(r, false, s, UINT32_MAX);

        for (uint32_t k = 0; k < r->replicas; k++)
            score[s * r->replicas + k] = ns;
    }
    for (uint32_t k = 0; k < r->replicas; k++) {
        double ns = replay_but(r, false, UINT32_MAX, k);

        for (size_t i = k; i < places; i += r->replicas)
            score[i] = ns < score[i] ? ns : score[i];
    }
    for (size_t i = 0; i < places; i++)
        best = score[i] > score[best] ? i : best;
    for (size_t i = 0; i < r->ops * r->replicas; i++) {
        if (r->records[i].op.stage * r->replicas + r->records[i].replica == best)
            ret->worker = r->records[i].worker;
    }
    ret->has_shares = true;
    ret->slowest = (places * 3 + 99) / 100;
    find_slowest(r, score, ret->slowest);
    ret->slowest_share = (ret->step_ns - replay_all(r)) / difference;
    free(score);
    if (r->stages > 1) {
        ret->last_stage = r->stages - 1;
        ret->last_stage_share =
            (ret->step_ns - replay_but(r, true, r->stages - 1, UINT32_MAX)) / difference;
    }
    return MRD_OK;
}

static mrd_err
run(replay *r, mrd_slowdown *ret)
{
    mrd_pipe_op *ops = calloc(r->ops, sizeof(*ops));
    size_t width = r->ops * r->replicas;
    double recorded;
    mrd_err err;

    if (ops == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < r->ops; i++)
        ops[i] = r->records[i].op;
    err = mrd_pipeline_make(ops, r->ops, r->stages, &r->pipeline);
    free(ops);
    if (err != MRD_OK)
        return err;
    r->own = calloc(r->steps * width, sizeof(*r->own));
    r->end = calloc(width, sizeof(*r->end));
    r->is_ideal = calloc((size_t) r->stages * r->replicas, sizeof(*r->is_ideal));
    if (r->own == NULL || r->end == NULL || r->is_ideal == NULL)
        return MRD_NOMEM;
    measure_all(r);
    if ((err = find_ideal(r)) != MRD_OK)
        return err;
    ret->ideal_ns = replay_but(r, false, UINT32_MAX, UINT32_MAX);
    ret->step_ns = replay_but(r, true, UINT32_MAX, UINT32_MAX);
    recorded = recorded_ns(r);
    if (ret->ideal_ns <= 0 || recorded > ret->step_ns * (1 + MRD_WHAT_IF_ERROR) ||
        recorded < ret->step_ns * (1 - MRD_WHAT_IF_ERROR))
        return MRD_INVALID;
    ret->steps = r->steps;
    return ret->step_ns < MRD_WHAT_IF_LEAST * ret->ideal_ns ? MRD_OK : find_shares(r, ret);
}

mrd_err
mrd_what_if_judge(mrd_what_if *what_if, mrd_slowdown *ret)
{
    size_t workers = mrd_workers_count(what_if->who);
    uint32_t *stage = calloc(workers + 1, sizeof(*stage)),
             *replica = calloc(workers + 1, sizeof(*replica)),
             *in_stage = calloc(workers + 1, sizeof(*in_stage));
    replay r = { 0 };
    mrd_err err = stage == NULL || replica == NULL || in_stage == NULL ? MRD_NOMEM : MRD_OK;

    *ret = (mrd_slowdown){ .last_stage = MRD_NONE };
    if (err == MRD_OK && what_if->n > 0 && place_workers(what_if, &r, stage, replica, in_stage)) {
        qsort(what_if->records, what_if->n, sizeof(*what_if->records), record_order);
        choose_steps(what_if, &r);
        if (r.steps > 1)
            err = run(&r, ret);
    }
    free(stage);
    free(replica);
    free(in_stage);
    mrd_pipeline_fini(&r.pipeline);
    free(r.own);
    free(r.end);
    free(r.is_ideal);
    return err == MRD_INVALID ? MRD_OK : err;
}
