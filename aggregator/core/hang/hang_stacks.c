/* Chooses the processes in a verdict that must send their stacks. */
#include "aggregator/core/hang/hang_int.h"

#include <string.h>

/* The ranks of a judged job, the call in which most of them wait, and the verdict. */
typedef struct {
    const hang_member *m;
    size_t n;
    const mrd_hang_op *front;
    mrd_hang_verdict *v;
} hang_members;

static bool
is_named(const mrd_hang_verdict *verdict, const hang_member *member)
{
    for (size_t i = 0; i < verdict->n_named; i++)
        if (verdict->named[i].rank == member->r->rank && verdict->named[i].pid == member->r->pid)
            return true;
    return false;
}

/* Adds at most `most` running ranks to the verdict's list of processes that must send stacks. If
 * `named`, adds ranks that the verdict names. Otherwise adds ranks that wait in the call
 * (`waiting`), or ranks that are not in the call. */
static void
add_stacks(const hang_members *l, bool named, bool waiting, size_t most)
{
    mrd_hang_verdict *verdict = l->v;

    for (size_t i = 0; i < l->n && most > 0 && verdict->n_stacks < MRD_HANG_STACKS; i++) {
        const hang_member *member = &l->m[i];
        mrd_hang_stack *stack = &verdict->stacks[verdict->n_stacks];

        if (!mrd_hang_is_alive(member) || is_named(verdict, member) != named ||
            (!named && mrd_hang_is_open(member, l->front) != waiting))
            continue;
        *stack = (mrd_hang_stack){ .node = member->node->key,
                                   .rank = member->r->rank,
                                   .pid = member->r->pid,
                                   .start_ticks = member->r->start_ticks,
                                   .named = named };
        memcpy(stack->node_name, member->node->name, sizeof(stack->node_name));
        verdict->n_stacks++;
        most--;
    }
}

/* Chooses the processes that must send their stacks: one rank that the verdict names, and up to
 * three that wait for it. If the verdict names no rank, ranks that have not entered the call
 * `front` come first. */
void
mrd_hang_choose_stacks(const hang_member *members, size_t n, const mrd_hang_op *front,
                       mrd_hang_verdict *verdict)
{
    const hang_members list = { members, n, front, verdict }, *l = &list;

    add_stacks(l, true, false, 1);
    if (l->v->n_culprits == 0)
        add_stacks(l, false, false, MRD_HANG_STACKS - 1);
    add_stacks(l, false, true, l->v->n_culprits == 0 ? MRD_HANG_STACKS : MRD_HANG_STACKS - 1);
}
