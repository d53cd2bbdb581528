/* agent/record/record_late.c - counts the events that a session misses because it arrives at the
 * node after its start, or just before it (MRD_DROP_LATE). These are events that the agent read
 * before the session arrived, and events that the runtime did not record because it did not know
 * the session. */
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "base/conf/agent_waits.h"
#include "base/vec.h"

static bool
is_empty(const mrd_late_histogram passed[PASSED_AGES])
{
    return passed[0].shift == 0 && passed[1].shift == 0 && passed[2].shift == 0;
}

void
mrd_record_note_gone(mrd_record *record, const rec_process *process)
{
    gone_process *g;

    if (is_empty(process->passed))
        return;
    if (record->n_gone == GONE_MAX)
        memmove(record->gone, record->gone + 1, --record->n_gone * sizeof(*record->gone));
    if (!MRD_VEC_ROOM(record->gone, record->n_gone, record->cap_gone, 1))
        return;
    g = &record->gone[record->n_gone++];
    g->ident = process->process->ident;
    memcpy(g->passed, process->passed, sizeof(g->passed));
}

/* Moves the histograms of discarded events to the next age: passed[0] has the newest events,
 * passed[2] the oldest. If `all` is true, no session that needs the oldest events can arrive any
 * more, and they are removed. Otherwise passed[2] keeps them. */
static void
age(mrd_late_histogram passed[PASSED_AGES], bool all)
{
    if (all)
        passed[2] = (mrd_late_histogram){ 0 };
    else
        mrd_late_histogram_join(&passed[2], &passed[1]);
    passed[1] = passed[0];
    passed[0] = (mrd_late_histogram){ 0 };
}

void
mrd_record_sessions_known(mrd_record *record, mrd_local_ns now, bool all)
{
    size_t left = 0;

    if (mrd_local_diff(now, record->aged) < MRD_WAIT_LATE_ANSWER)
        return;
    record->kept_until.ns = all ? 0 : record->aged.ns;
    record->aged = now;
    for (rec_process *process = record->processes; process != NULL; process = process->next)
        age(process->passed, all);
    for (size_t i = 0; i < record->n_gone; i++) {
        age(record->gone[i].passed, all);
        if (!is_empty(record->gone[i].passed))
            record->gone[left++] = record->gone[i];
    }
    record->n_gone = left;
}

/* Counts the events of one process that the session misses. passed[2] has long buckets, so its
 * events are only counted if the session began before all of them had ended (kept_until). */
static void
count(session *sess, const mrd_late_histogram passed[PASSED_AGES], mrd_local_ns kept_until,
      mrd_local_ns now)
{
    mrd_late_histogram all = passed[0];
    mrd_local_ns first, last;
    uint64_t n;

    mrd_late_histogram_join(&all, &passed[1]);
    if (mrd_local_before(sess->st.start, kept_until))
        mrd_late_histogram_join(&all, &passed[2]);
    n = mrd_late_histogram_since(&all, sess->st.start, &first, &last);
    if (n == 0)
        return;
    sess->st.begun += n;
    sess->st.held += n;
    mrd_record_count_drop(sess, MRD_DROP_LATE, n, first, mrd_local_min(last, now), false);
}

void
mrd_record_count_late(mrd_record *record, session *sess)
{
    mrd_local_ns now = mrd_local_now();

    /* A session that begins at a later training step might not record these events at all. So none
     * is counted. */
    if (!mrd_local_before(sess->st.start, now) || sess->params.from_step > 1)
        return;
    for (rec_process *process = record->processes; process != NULL; process = process->next) {
        if (mrd_record_wants_process(sess, process->process))
            count(sess, process->passed, record->kept_until, now);
    }
    for (size_t i = 0; i < record->n_gone; i++)
        if (mrd_record_wants_ident(sess, &record->gone[i].ident))
            count(sess, record->gone[i].passed, record->kept_until, now);
}

void
mrd_record_untraced(mrd_record *record, uint64_t id, mrd_local_ns until)
{
    session *sess = mrd_record_session_of(record, id);
    const mrd_record_drop *drop;

    if (sess == NULL)
        return;
    until = mrd_local_min(until, sess->st.stop);
    drop = &sess->st.drops[MRD_DROP_LATE];
    if (!mrd_local_after(until, sess->st.start) ||
        (drop->count > 0 && !mrd_local_after(until, drop->last)))
        return;
    sess->st.begun++;
    sess->st.held++;
    mrd_record_count_drop(sess, MRD_DROP_LATE, 1, sess->st.start, until, false);
}
