/* Jobs that stand still: takes the nodes' reports, publishes verdicts, and makes flight recorders
 * keep the events that led to the standstill. */
#include "aggregator/core/decide/watch.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"

/* error bound of a node's times until the node reports when it received an answer */
#define BOUND_UNKNOWN MRD_SEC
#define DRIFT         MRD_MS

/* Offset in ns from a node's clock to the aggregator's, with its error bound. A message from the
 * node arrived here after the node read its clock, which limits the offset from above. An answer
 * arrived there after it was sent here, which limits it from below. */
typedef struct {
    int64_t offset;
    mrd_dur_ns bound;
} bridge;

static bridge
bridge_of(const Mrd__Heartbeat *hb, mrd_local_ns received)
{
    int64_t most = received.ns - mrd_time_checked(hb->local_ns);
    int64_t least = mrd_time_checked(hb->answer_raw_ns) - mrd_time_checked(hb->answered_ns);

    if (hb->answered_ns == 0 || hb->answer_raw_ns == 0 || least > most ||
        most - least > BOUND_UNKNOWN)
        return (bridge){ most, BOUND_UNKNOWN };
    return (bridge){ least + (most - least) / 2, (most - least) / 2 + DRIFT };
}

static mrd_local_ns
local_of(const bridge *b, int64_t ns)
{
    return (mrd_local_ns){ ns == 0 ? 0 : mrd_time_checked(ns) + b->offset };
}

static void
take_op(mrd_hang_rank *rank, const bridge *b, const Mrd__RankOp *rank_op)
{
    mrd_hang_op *op = &rank->ops[rank->n_ops++];

    mrd_text_set(op->name, sizeof(op->name), rank_op->name);
    op->group = rank_op->group;
    op->entered = mrd_count_checked(rank_op->entered);
    op->open = rank_op->open;
    op->begin = local_of(b, rank_op->begin_local_ns);
    op->bytes = rank_op->bytes;
    op->bytes_before = rank_op->bytes_before;
    op->seen = mrd_count_checked(rank_op->seen);
    op->slow = mrd_time_checked(rank_op->slow_ns) / MRD_SEC > 100000
                   ? 100000 * MRD_SEC
                   : mrd_time_checked(rank_op->slow_ns);
}

static void
take_rank(mrd_core *core, const mrd_node *node, const bridge *b, const Mrd__RankState *state)
{
    mrd_hang_rank rank = { .pid = state->process_id,
                           .start_ticks = state->start_ticks,
                           .rank = state->rank,
                           .world = state->world,
                           .state = state->state[0] == 'X' ? MRD_HANG_GONE
                                                           : mrd_hang_state_of(state->state[0]),
                           .quiet = local_of(b, state->quiet_local_ns),
                           .idle = local_of(b, state->idle_local_ns),
                           .state_at = local_of(b, state->state_local_ns),
                           .watched = local_of(b, state->watched_local_ns),
                           .bound = b->bound,
                           .lost = state->lost[0] != '\0',
                           .failed = state->failed,
                           .partial = state->partial,
                           .traced = state->traced };
    mrd_jobid id = { "" };

    mrd_text_set(rank.lost_why, sizeof(rank.lost_why), state->lost);
    mrd_text_set(rank.inside, sizeof(rank.inside), state->inside);
    mrd_text_set(rank.running, sizeof(rank.running), state->running);
    for (size_t i = 0; i < state->n_ops && i < MRD_HANG_OPS; i++)
        take_op(&rank, b, state->ops[i]);
    mrd_jobid_parse(&id, mrd_str_of(state->identity));
    mrd_hang_report(core->hang, node->key, &id, state->uid, state->confirmed, &rank);
    mrd_watch_take_pace(core, node, &id, &rank, state, b->offset);
}

void
mrd_core_take_ranks(mrd_core *core, const mrd_node *node, const Mrd__Heartbeat *hb,
                    mrd_local_ns received)
{
    bridge b = bridge_of(hb, received);

    /* the agent sends few stacks at a time, but an attacker could send many */
    for (size_t i = 0; i < hb->n_stacks && i < MRD_STACK_REQUESTS; i++)
        mrd_hang_take_stack(core->hang, node->key, hb->stacks[i]->verdict,
                            hb->stacks[i]->process_id, hb->stacks[i]->start_ticks,
                            hb->stacks[i]->text);
    mrd_hang_node_seen(core->hang, node->key, core->now.local);
    mrd_slow_node_seen(core->slow, node->key, core->now.local);
    if (hb->ranks == NULL ||
        !mrd_hang_node_begin(core->hang, node->key, node->instance_id, hb->ranks->left_out > 0,
                             core->now.local) ||
        !mrd_slow_node_begin(core->slow, node->key, node->instance_id, core->now.local))
        return;
    for (size_t i = 0; i < hb->ranks->n_ranks; i++)
        take_rank(core, node, &b, hb->ranks->ranks[i]);
}

void
mrd_core_want_stacks(const mrd_core *core, const mrd_node *node, mrd_effect *effect)
{
    const mrd_hang_stack *stack;
    uint64_t verdict;

    for (effect->n_stacks = 0;
         effect->n_stacks < MRD_STACK_REQUESTS &&
         (stack = mrd_hang_wants_stack(core->hang, node->key, effect->n_stacks, &verdict)) != NULL;
         effect->n_stacks++) {
        Mrd__StackRequest *request = &effect->stacks[effect->n_stacks];

        mrd__stack_request__init(request);
        request->verdict = verdict;
        request->process_id = stack->pid;
        request->start_ticks = stack->start_ticks;
    }
}

/* ---- Verdicts about hangs ---- */

void
mrd_core_watch_jobs(mrd_core *core)
{
    const mrd_hang_verdict *verdict;
    char reason[MRD_TEXT_MAX];

    (void) mrd_hang_step(core->hang, core->now.local);
    for (size_t i = 0; (verdict = mrd_hang_changed(core->hang, i)) != NULL; i++) {
        if (verdict->withdrawn.ns != 0) {
            mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-HANG-OVER",
                            "A job goes on, or ended: job=%s after=%.1fs", verdict->job.text,
                            (double) mrd_local_diff(verdict->withdrawn, verdict->since) / 1e9);
            continue;
        }
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-HANG",
                        "A job stands still: job=%s verdict=%s reason=%s", verdict->job.text,
                        mrd_hang_class_text(verdict->cls), verdict->reason);
        snprintf(reason, sizeof(reason), "the job stands still: %.200s", verdict->reason);
        mrd_watch_freeze(core, &verdict->job, reason);
    }
    mrd_watch_slow(core);
}
