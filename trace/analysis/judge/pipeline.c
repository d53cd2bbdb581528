#include "trace/analysis/judge/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/phases.h"

/* Clocks of recorded messages and computations may differ by this time in ns. */
#define SLACK_NS 50000

#define NO_OP UINT32_MAX

/* Names in the form of mrd_phase_form. */
static const struct {
    const char *form;
    mrd_pipe_kind kind;
} names[] = {
    { "_forward_compute_", MRD_PIPE_FORWARD },
    { "_forward_step_", MRD_PIPE_FORWARD },
    { "_forward_", MRD_PIPE_FORWARD },
    { "_backward_compute_", MRD_PIPE_BACKWARD },
    { "_backward_step_", MRD_PIPE_BACKWARD },
    { "_backward_", MRD_PIPE_BACKWARD },
    { "_gc_", MRD_PIPE_COLLECTION },
    { "_optimizer_", MRD_PIPE_OPTIMIZER },
    { "_layernorm_grads_allreduce_", MRD_PIPE_LAYERNORM },
    { "_forward_send_", MRD_PIPE_FORWARD_SEND },
    { "_forward_recv_", MRD_PIPE_FORWARD_RECV },
    { "_backward_send_", MRD_PIPE_BACKWARD_SEND },
    { "_backward_recv_", MRD_PIPE_BACKWARD_RECV },
    { "_embedding_grads_allreduce_", MRD_PIPE_EMBEDDING },
    { "_params_allgather_", MRD_PIPE_PARAMS },
    { "_grads_reducescatter_", MRD_PIPE_GRADS },
    { "_all_grads_sync_", MRD_PIPE_GRADS },
    { "_separate_grads_allreduce_", MRD_PIPE_SEPARATE },
    { "_optimizer_clip_main_grad_", MRD_PIPE_CLIP },
};

/* The four kinds of messages. A message connects a stage with the one before or after it. */
static const struct {
    mrd_pipe_kind kind, computation, partner;
    bool is_send;
    int to; /* the partner's stage minus this stage */
} messages[] = {
    { MRD_PIPE_FORWARD_SEND, MRD_PIPE_FORWARD, MRD_PIPE_FORWARD_RECV, true, 1 },
    { MRD_PIPE_FORWARD_RECV, MRD_PIPE_FORWARD, MRD_PIPE_FORWARD_SEND, false, -1 },
    { MRD_PIPE_BACKWARD_SEND, MRD_PIPE_BACKWARD, MRD_PIPE_BACKWARD_RECV, true, -1 },
    { MRD_PIPE_BACKWARD_RECV, MRD_PIPE_BACKWARD, MRD_PIPE_BACKWARD_SEND, false, 1 },
};

typedef struct {
    uint32_t op, after; /* operation `op` depends on `after` */
} edge;

typedef struct {
    const mrd_pipe_op *ops;
    uint32_t n, stages;
    int32_t chunks;   /* number of model chunks on each stage */
    uint32_t *starts; /* first operation of each stage and kind, in the order of `ops` */
    uint32_t *leader; /* first member of the group of each operation */
    uint32_t *order;  /* operations of one stage and two kinds, by begin; NO_OP ends the list */
    uint32_t *sent;   /* messages that have a partner, from the first of their stage and kind on */
    uint32_t *n_sent; /* number of these messages, indexed by row of `messages`, then stage */
    edge *edges;
    size_t n_edges, cap_edges;
    mrd_err err;
} builder;

mrd_pipe_kind
mrd_pipe_kind_of(mrd_str name)
{
    char form[64];

    if (name.len >= sizeof(form))
        return MRD_PIPE_KINDS;
    mrd_phase_form(name, form, sizeof(form));
    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        if (strcmp(form, names[i].form) == 0)
            return names[i].kind;
    }
    return MRD_PIPE_KINDS;
}

/* ---- Operations of a stage ---- */

static uint32_t
first_of(const builder *b, uint32_t stage, mrd_pipe_kind kind)
{
    return b->starts[stage * MRD_PIPE_KINDS + kind];
}

static uint32_t
count_of(const builder *b, uint32_t stage, mrd_pipe_kind kind)
{
    return b->starts[stage * MRD_PIPE_KINDS + kind + 1] - first_of(b, stage, kind);
}

static int64_t
begin_of(const builder *b, uint32_t op)
{
    return b->ops[op].begin.ns;
}

static int64_t
end_of(const builder *b, uint32_t op)
{
    return b->ops[op].begin.ns + b->ops[op].dur_ns;
}

static void
depend(builder *b, uint32_t op, uint32_t after)
{
    if (!MRD_VEC_ROOM(b->edges, b->n_edges, b->cap_edges, 1)) {
        b->err = MRD_NOMEM;
        return;
    }
    b->edges[b->n_edges++] = (edge){ op, after };
}

/* Puts the operations of two kinds on a stage into `order`, by begin. Returns their number. */
static uint32_t
put_in_order(builder *b, uint32_t stage, mrd_pipe_kind one, mrd_pipe_kind other)
{
    uint32_t i = first_of(b, stage, one), i_end = i + count_of(b, stage, one),
             k = first_of(b, stage, other), k_end = k + count_of(b, stage, other), n = 0;

    while (i < i_end || k < k_end)
        b->order[n++] = k == k_end || (i < i_end && begin_of(b, i) <= begin_of(b, k)) ? i++ : k++;
    return n;
}

static void
chain(builder *b, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        depend(b, b->order[i], b->order[i - 1]);
}

/* ---- Computation and messages ---- */

/* Makes each computation of a stage depend on the computation before it. The first messages of
 * the backward direction depend on the last but one of the forward computations that precede the
 * first backward computation. */
static void
add_computation(builder *b, uint32_t stage)
{
    uint32_t n = put_in_order(b, stage, MRD_PIPE_BACKWARD, MRD_PIPE_FORWARD), at = 0;

    chain(b, n);
    while (at < n && b->ops[b->order[at]].kind == MRD_PIPE_FORWARD)
        at++;
    if (at == n || at < 2)
        return;
    for (mrd_pipe_kind kind = MRD_PIPE_BACKWARD_SEND; kind <= MRD_PIPE_BACKWARD_RECV; kind++) {
        if (count_of(b, stage, kind) > 0)
            depend(b, first_of(b, stage, kind), b->order[at - 2]);
    }
}

/* Returns true if this message has no partner and no effect, although the program recorded it. This
 * is a receiving that begins after the last computation, or a sending that begins before the first
 * computation ends. */
static bool
is_idle_message(const builder *b, uint32_t stage, size_t m, uint32_t op)
{
    uint32_t from = first_of(b, stage, messages[m].computation),
             n = count_of(b, stage, messages[m].computation);
    int64_t first_end = INT64_MAX;

    if (!messages[m].is_send)
        return n == 0 || begin_of(b, op) > begin_of(b, from + n - 1) + SLACK_NS;
    for (uint32_t i = from; i < from + n; i++)
        first_end = end_of(b, i) < first_end ? end_of(b, i) : first_end;
    return n == 0 || end_of(b, op) < first_end - SLACK_NS;
}

/* Connects the messages of one kind with the computations of their stage. Puts messages
 * with a partner into `sent`. A message that would leave the model has no partner. */
static void
add_messages(builder *b, uint32_t stage, size_t m)
{
    uint32_t from = first_of(b, stage, messages[m].kind), n = count_of(b, stage, messages[m].kind),
             computation = first_of(b, stage, messages[m].computation),
             n_computations = count_of(b, stage, messages[m].computation), used = 0, next = 0;
    size_t row = m * b->stages + stage;

    for (uint32_t i = from; i < from + n; i++) {
        used += !is_idle_message(b, stage, m, i);
        if (i > from)
            depend(b, i, i - 1);
    }
    if (used != n_computations && used != 0 && used + 1 != n_computations)
        b->err = MRD_INVALID;
    /* the first receiving of the first stage may not be recorded, because it has no partner */
    next = !messages[m].is_send && used + 1 == n_computations;
    for (uint32_t i = from; i < from + n && b->err == MRD_OK; i++) {
        uint32_t of = computation + next;
        int64_t peer;

        if (is_idle_message(b, stage, m, i))
            continue;
        next++;
        peer = (int64_t) b->ops[of].chunk * b->stages + stage + messages[m].to;
        if (peer >= 0 && peer < (int64_t) b->chunks * b->stages)
            b->sent[from + b->n_sent[row]++] = i;
        if (messages[m].is_send) {
            depend(b, i, of);
        } else {
            depend(b, of, i);
            if (of > computation)
                depend(b, i, of - 1);
        }
    }
}

/* For each i, makes operation i of one list and operation i of the other list a group. */
static void
join(builder *b, const uint32_t *one, uint32_t n, const uint32_t *other, uint32_t n_other)
{
    if (n != n_other)
        b->err = MRD_INVALID;
    for (uint32_t i = 0; i < n && b->err == MRD_OK; i++)
        b->leader[other[i]] = b->leader[one[i]];
}

static void
join_messages(builder *b)
{
    for (size_t m = 0; m < MRD_COUNT(messages); m++) {
        /* each sending comes before its receiving in `messages` */
        for (uint32_t stage = 0; stage < b->stages && messages[m].is_send; stage++) {
            uint32_t peer = (stage + b->stages + (uint32_t) messages[m].to) % b->stages;

            join(b, b->sent + first_of(b, stage, messages[m].kind),
                 b->n_sent[m * b->stages + stage], b->sent + first_of(b, peer, messages[m].partner),
                 b->n_sent[(m + 1) * b->stages + peer]);
        }
    }
}

/* ---- Before and after the computation ---- */

/* Connects communication with computation, in one of two directions. Forward, the first computation
 * of each model chunk depends on the last gathering of parameters. Backward, the first sum of
 * gradients of each model chunk depends on the last computation of the chunk. */
static void
add_chunks(builder *b, uint32_t stage, mrd_pipe_kind kind, mrd_pipe_kind computation)
{
    uint32_t from = first_of(b, stage, kind), n = count_of(b, stage, kind),
             c = first_of(b, stage, computation), n_c = count_of(b, stage, computation);
    bool gathers = kind == MRD_PIPE_PARAMS;

    for (int32_t chunk = 0; chunk < b->chunks; chunk++) {
        uint32_t op = NO_OP, of = NO_OP;

        for (uint32_t i = from; i < from + n; i++) {
            if (b->ops[i].chunk == chunk && (gathers || op == NO_OP))
                op = i;
        }
        for (uint32_t i = c; i < c + n_c; i++) {
            if (b->ops[i].chunk == chunk && (!gathers || of == NO_OP))
                of = i;
        }
        if (op != NO_OP && of != NO_OP)
            depend(b, gathers ? of : op, gathers ? op : of);
    }
}

/* Makes each operation after the last computation of a stage depend on the operation before it. */
static void
add_tail(builder *b, uint32_t stage, bool overlaps)
{
    static const mrd_pipe_kind tail[] = { MRD_PIPE_COLLECTION, MRD_PIPE_LAYERNORM,
                                          MRD_PIPE_EMBEDDING,  MRD_PIPE_GRADS,
                                          MRD_PIPE_SEPARATE,   MRD_PIPE_CLIP,
                                          MRD_PIPE_OPTIMIZER };
    uint32_t n = put_in_order(b, stage, MRD_PIPE_BACKWARD, MRD_PIPE_FORWARD), last = NO_OP,
             n_grads = count_of(b, stage, MRD_PIPE_GRADS);
    bool waits_for_grads = overlaps && n_grads > 0;

    for (uint32_t i = 0; i < n; i++)
        last = last == NO_OP || end_of(b, b->order[i]) > end_of(b, last) ? b->order[i] : last;
    for (size_t k = 0; k < MRD_COUNT(tail); k++) {
        uint32_t from = first_of(b, stage, tail[k]);

        if (overlaps && tail[k] == MRD_PIPE_GRADS)
            continue;
        for (uint32_t i = from; i < from + count_of(b, stage, tail[k]); i++) {
            if (last != NO_OP)
                depend(b, i, last);
            if (waits_for_grads && tail[k] != MRD_PIPE_COLLECTION) {
                depend(b, i, first_of(b, stage, MRD_PIPE_GRADS) + n_grads - 1);
                waits_for_grads = false;
            }
            last = i;
        }
    }
}

static void
add_stage(builder *b, uint32_t stage, bool overlaps)
{
    add_computation(b, stage);
    for (size_t m = 0; m < MRD_COUNT(messages) && b->err == MRD_OK; m++)
        add_messages(b, stage, m);
    chain(b, put_in_order(b, stage, MRD_PIPE_GRADS, MRD_PIPE_PARAMS));
    add_chunks(b, stage, MRD_PIPE_PARAMS, MRD_PIPE_FORWARD);
    if (overlaps)
        add_chunks(b, stage, MRD_PIPE_GRADS, MRD_PIPE_BACKWARD);
    add_tail(b, stage, overlaps);
}

static void
join_stages(builder *b)
{
    uint32_t last = b->stages - 1;

    /* `order` has the numbers 0, 1, 2 and so on. So from the first operation of a stage and kind
     * on, it lists all operations of this stage and kind. */
    for (uint32_t i = 0; i < b->n; i++)
        b->order[i] = i;
    join(b, b->order + first_of(b, 0, MRD_PIPE_EMBEDDING), count_of(b, 0, MRD_PIPE_EMBEDDING),
         b->order + first_of(b, last, MRD_PIPE_EMBEDDING), count_of(b, last, MRD_PIPE_EMBEDDING));
    for (uint32_t stage = 1; stage < b->stages && b->err == MRD_OK; stage++)
        join(b, b->order + first_of(b, 0, MRD_PIPE_CLIP), count_of(b, 0, MRD_PIPE_CLIP),
             b->order + first_of(b, stage, MRD_PIPE_CLIP), count_of(b, stage, MRD_PIPE_CLIP));
}

/* ---- Order ---- */

/* Sorts the dependencies by `op` or by `after`. Stores the other operation of each dependency, and
 * the index after the last dependency of each operation. */
static mrd_err
sort_edges(const builder *b, bool by_after, uint32_t **ret_others, uint32_t **ret_ends)
{
    uint32_t *others = calloc(b->n_edges + 1, sizeof(*others)),
             *at = calloc(b->n + 2u, sizeof(*at));

    *ret_others = others;
    *ret_ends = at;
    if (others == NULL || at == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < b->n_edges; i++)
        at[(by_after ? b->edges[i].after : b->edges[i].op) + 1]++;
    for (uint32_t i = 0; i < b->n; i++)
        at[i + 1] += at[i];
    for (size_t i = 0; i < b->n_edges; i++) {
        const edge *e = &b->edges[i];

        others[at[by_after ? e->after : e->op]++] = by_after ? e->op : e->after;
    }
    return MRD_OK;
}

/* Scratch memory of put_groups, with an item for each operation. */
typedef struct {
    uint32_t *after, *after_ends; /* who depends on each operation */
    uint32_t *waits; /* for each leader: number of dependencies of its group that are not ordered */
    uint32_t *next;  /* the next member of the same group; NO_OP after the last */
    uint32_t *queue; /* leaders of groups that are next in the order */
} ordering;

/* Orders the groups so that each follows the groups that its members depend on. Errors: INVALID if
 * groups depend on each other. */
static mrd_err
put_groups(const builder *b, ordering *o, mrd_pipeline *ret)
{
    uint32_t queued = 0, n = 0;

    for (uint32_t i = 0; i < b->n; i++)
        o->next[i] = NO_OP;
    for (uint32_t i = b->n; i-- > 0;) {
        if (b->leader[i] == i)
            continue;
        o->next[i] = o->next[b->leader[i]];
        o->next[b->leader[i]] = i;
    }
    for (size_t i = 0; i < b->n_edges; i++)
        o->waits[b->leader[b->edges[i].op]]++;
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->leader[i] == i && o->waits[i] == 0)
            o->queue[queued++] = i;
    }
    for (uint32_t at = 0; at < queued; at++) {
        for (uint32_t i = o->queue[at]; i != NO_OP; i = o->next[i]) {
            ret->members[n++] = i;
            for (uint32_t k = i == 0 ? 0 : o->after_ends[i - 1]; k < o->after_ends[i]; k++) {
                uint32_t leader = b->leader[o->after[k]];

                if (--o->waits[leader] == 0)
                    o->queue[queued++] = leader;
            }
        }
        ret->group_ends[ret->n_groups++] = n;
    }
    return n == b->n ? MRD_OK : MRD_INVALID;
}

static mrd_err
put_order(const builder *b, mrd_pipeline *ret)
{
    ordering o = { .waits = calloc(b->n, sizeof(*o.waits)),
                   .next = calloc(b->n, sizeof(*o.next)),
                   .queue = calloc(b->n, sizeof(*o.queue)) };
    mrd_err err = sort_edges(b, true, &o.after, &o.after_ends);

    ret->members = calloc(b->n, sizeof(*ret->members));
    ret->group_ends = calloc(b->n, sizeof(*ret->group_ends));
    if (err == MRD_OK)
        err = sort_edges(b, false, &ret->before, &ret->before_ends);
    if (o.waits == NULL || o.next == NULL || o.queue == NULL || ret->members == NULL ||
        ret->group_ends == NULL)
        err = MRD_NOMEM;
    if (err == MRD_OK)
        err = put_groups(b, &o, ret);
    free(o.after);
    free(o.after_ends);
    free(o.waits);
    free(o.next);
    free(o.queue);
    return err;
}

mrd_err
mrd_pipeline_make(const mrd_pipe_op *ops, size_t n, uint32_t stages, mrd_pipeline *ret)
{
    size_t n_starts = (size_t) stages * MRD_PIPE_KINDS;
    builder b = { .ops = ops,
                  .n = (uint32_t) n,
                  .stages = stages,
                  .chunks = 1,
                  .starts = calloc(n_starts + 1, sizeof(*b.starts)),
                  .leader = calloc(n + 1, sizeof(*b.leader)),
                  .order = calloc(n + 1, sizeof(*b.order)),
                  .sent = calloc(n + 1, sizeof(*b.sent)),
                  .n_sent = calloc(stages * MRD_COUNT(messages), sizeof(*b.n_sent)) };
    bool overlaps = false;

    *ret = (mrd_pipeline){ 0 };
    if (b.starts == NULL || b.leader == NULL || b.order == NULL || b.sent == NULL ||
        b.n_sent == NULL)
        b.err = MRD_NOMEM;
    for (uint32_t i = 0; i < n && b.err == MRD_OK; i++) {
        b.starts[ops[i].stage * MRD_PIPE_KINDS + ops[i].kind + 1]++;
        b.leader[i] = i;
        b.chunks = ops[i].chunk >= b.chunks ? ops[i].chunk + 1 : b.chunks;
        overlaps = overlaps || ops[i].kind == MRD_PIPE_SEPARATE;
    }
    for (size_t i = 0; i < n_starts && b.err == MRD_OK; i++)
        b.starts[i + 1] += b.starts[i];
    for (uint32_t stage = 0; stage < stages && b.err == MRD_OK; stage++)
        add_stage(&b, stage, overlaps);
    if (b.err == MRD_OK)
        join_messages(&b);
    if (b.err == MRD_OK)
        join_stages(&b);
    if (b.err == MRD_OK)
        b.err = put_order(&b, ret);
    free(b.starts);
    free(b.leader);
    free(b.order);
    free(b.sent);
    free(b.n_sent);
    free(b.edges);
    return b.err;
}

void
mrd_pipeline_fini(mrd_pipeline *pipeline)
{
    free(pipeline->members);
    free(pipeline->group_ends);
    free(pipeline->before);
    free(pipeline->before_ends);
}
