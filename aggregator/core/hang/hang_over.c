/* Decides whether a job that has a verdict makes progress again or is over. */
#include "aggregator/core/hang/hang_int.h"

/* Returns true if the rank entered or left a call after the verdict `given` was given. The end of a
 * failed call is no progress. Only the begin of another call after it is. */
static bool
went_on(const hang_member *member, const mrd_hang_verdict *given)
{
    const mrd_hang_rank *rank = member->r;
    /* When the verdict was given, no rank had entered or left a call for HANG_QUIET_MIN. */
    mrd_local_ns least = mrd_local_add(given->told, rank->bound - HANG_QUIET_MIN);
    /* An agent that begins to watch a process first reports that the process makes progress. */
    mrd_local_ns watched = mrd_local_add(rank->watched, rank->bound + 2 * HANG_QUIET_MIN);
    mrd_local_ns moved = rank->quiet.ns == 0 ? member->node->reported : rank->quiet;
    mrd_hang_op front = { .group = given->group };
    const mrd_hang_op *op;

    memcpy(front.name, given->op, sizeof(front.name));
    if (!mrd_hang_is_alive(member))
        return false;
    op = mrd_hang_op_of(rank, &front);
    if (op != NULL && op->entered > given->entered)
        return true;
    if (!rank->failed)
        return mrd_local_before(least, moved) && mrd_local_before(watched, moved);
    for (size_t i = 0; i < rank->n_ops; i++)
        if (rank->ops[i].open > 0 && mrd_local_before(least, rank->ops[i].begin))
            return true;
    return false;
}

bool
mrd_hang_is_over(const hang_member *members, size_t n, const mrd_hang_verdict *given)
{
    size_t ended = 0;

    for (size_t i = 0; i < n; i++) {
        if (went_on(&members[i], given))
            return true;
        ended += mrd_hang_is_gone(&members[i]);
    }
    return ended == n;
}
