/* Jobs that stand still: reports of nodes, verdicts, and the flight recorders that keep what led to
 * them. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"

/* A node that answered nothing yet: how far apart the two clocks may be read. */
#define BOUND_UNKNOWN MRD_SEC
#define DRIFT         MRD_MS

/* Converts times of a node to the aggregator's clock. The node read its clock before the message
 * was here, and after the answer to its last message was written. */
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
take_op(mrd_hang_rank *r, const bridge *b, const Mrd__RankOp *m)
{
    mrd_hang_op *op = &r->ops[r->n_ops++];

    mrd_text_set(op->name, sizeof(op->name), m->name);
    op->group = m->group;
    op->entered = mrd_count_checked(m->entered);
    op->open = m->open;
    op->begin = local_of(b, m->begin_local_ns);
    op->bytes = m->bytes;
    op->bytes_before = m->bytes_before;
    op->seen = mrd_count_checked(m->seen);
    op->slow = mrd_time_checked(m->slow_ns) / MRD_SEC > 100000 ? 100000 * MRD_SEC
                                                               : mrd_time_checked(m->slow_ns);
}

static void
take_rank(mrd_core *c, const mrd_node *n, const bridge *b, const Mrd__RankState *m)
{
    mrd_hang_rank r = { .pid = m->process_id,
                        .start_ticks = m->start_ticks,
                        .rank = m->rank,
                        .world = m->world,
                        .state =
                            m->state[0] == 'X' ? MRD_HANG_GONE : mrd_hang_state_of(m->state[0]),
                        .quiet = local_of(b, m->quiet_local_ns),
                        .idle = local_of(b, m->idle_local_ns),
                        .state_at = local_of(b, m->state_local_ns),
                        .bound = b->bound,
                        .lost = m->lost[0] != '\0',
                        .partial = m->partial };
    mrd_jobid id = { "" };

    mrd_text_set(r.lost_why, sizeof(r.lost_why), m->lost);
    mrd_text_set(r.inside, sizeof(r.inside), m->inside);
    for (size_t i = 0; i < m->n_ops && i < MRD_HANG_OPS; i++)
        take_op(&r, b, m->ops[i]);
    mrd_jobid_parse(&id, mrd_str_of(m->identity));
    mrd_hang_report(c->hang, n->key, &id, m->uid, m->confirmed, &r);
}

void
mrd_core_take_ranks(mrd_core *c, const mrd_node *n, const Mrd__Heartbeat *hb, mrd_local_ns received)
{
    bridge b = bridge_of(hb, received);

    mrd_hang_node_seen(c->hang, n->key, c->now.local);
    if (hb->ranks == NULL || !mrd_hang_node_begin(c->hang, n->key, n->instance_id,
                                                  hb->ranks->left_out > 0, c->now.local))
        return;
    for (size_t i = 0; i < hb->ranks->n_ranks; i++)
        take_rank(c, n, &b, hb->ranks->ranks[i]);
}

/* ---- Verdicts ---- */

/* Returns true if readers of the session may know of this job. */
static bool
concerns(const mrd_session *s, const mrd_hang_verdict *v)
{
    return s->of_job.key.text[0] == '\0' || mrd_job_key_equal(&s->of_job.key, &v->job);
}

/* The flight recorders on the nodes of the job keep their windows. One report is enough for all
 * nodes of a session. */
static void
freeze(mrd_core *c, const mrd_hang_verdict *v)
{
    char reason[MRD_TEXT_MAX];

    snprintf(reason, sizeof(reason), "the job stands still: %.200s", v->reason);
    for (size_t i = 0; i < c->n_sessions; i++) {
        mrd_session *s = c->sessions[i];

        if (!concerns(s, v))
            continue;
        for (size_t k = 0; k < c->nodes.n; k++) {
            const mrd_node *n = c->nodes.v[k];

            if (mrd_session_part(s, n->instance_id) == NULL ||
                !mrd_hang_is_on(c->hang, &v->job, n->key))
                continue;
            mrd_session_report(c, s, n, reason);
            break;
        }
    }
}

void
mrd_core_watch_hangs(mrd_core *c)
{
    const mrd_hang_verdict *v;

    (void) mrd_hang_step(c->hang, c->now.local);
    for (size_t i = 0; (v = mrd_hang_changed(c->hang, i)) != NULL; i++) {
        if (v->withdrawn.ns != 0) {
            mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-HANG-OVER",
                            "A job goes on, or ended: job=%s after=%.1fs", v->job.text,
                            (double) mrd_local_diff(v->withdrawn, v->since) / 1e9);
            continue;
        }
        mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-HANG",
                        "A job stands still: job=%s verdict=%s reason=%s", v->job.text,
                        mrd_hang_class_text(v->cls), v->reason);
        freeze(c, v);
    }
}
