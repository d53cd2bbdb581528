/* agent/record/record_late.c - a session that arrives at the node after its start: counts the events that
 * were read in between as lost to it (MRD_DROP_LATE) */
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "base/conf/agent_waits.h"
#include "base/vec.h"

/* None of both. */
static bool
is_empty(const mrd_late_histogram passed[2])
{
    return passed[0].shift == 0 && passed[1].shift == 0;
}

void
mrd_record_note_gone(mrd_record *r, const rec_process *o)
{
    gone_process *g;

    if (is_empty(o->passed))
        return;
    if (r->n_gone == GONE_MAX)
        memmove(r->gone, r->gone + 1, --r->n_gone * sizeof(*r->gone));
    if (!MRD_VEC_ROOM(r->gone, r->n_gone, r->cap_gone, 1))
        return;
    g = &r->gone[r->n_gone++];
    g->ident = o->process->ident;
    memcpy(g->passed, o->passed, sizeof(g->passed));
}

static void
age(mrd_late_histogram passed[2])
{
    passed[1] = passed[0];
    passed[0] = (mrd_late_histogram){ 0 };
}

void
mrd_record_sessions_known(mrd_record *r, mrd_local_ns now)
{
    size_t left = 0;

    if (mrd_local_diff(now, r->aged) < MRD_WAIT_LATE_ANSWER)
        return;
    r->aged = now;
    for (rec_process *o = r->processes; o != NULL; o = o->next)
        age(o->passed);
    for (size_t i = 0; i < r->n_gone; i++) {
        age(r->gone[i].passed);
        if (!is_empty(r->gone[i].passed))
            r->gone[left++] = r->gone[i];
    }
    r->n_gone = left;
}

static void
count(session *s, const mrd_late_histogram passed[2], mrd_local_ns now)
{
    mrd_late_histogram all = passed[0];
    mrd_local_ns first, last;
    uint64_t n;

    mrd_late_histogram_join(&all, &passed[1]);
    n = mrd_late_histogram_since(&all, s->st.start, &first, &last);
    if (n == 0)
        return;
    s->st.begun += n;
    s->st.held += n;
    mrd_record_count_drop(s, MRD_DROP_LATE, n, first, mrd_local_min(last, now), false);
}

void
mrd_record_count_late(mrd_record *r, session *s)
{
    mrd_local_ns now = mrd_local_now();

    /* If a session begins at a later step, it is unknown whether it would have taken any of them. */
    if (!mrd_local_before(s->st.start, now) || s->params.from_step > 1)
        return;
    for (rec_process *o = r->processes; o != NULL; o = o->next) {
        if (mrd_record_wants_process(s, o->process))
            count(s, o->passed, now);
    }
    for (size_t i = 0; i < r->n_gone; i++)
        if (mrd_record_wants_ident(s, &r->gone[i].ident))
            count(s, r->gone[i].passed, now);
}
