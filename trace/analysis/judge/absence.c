#include "trace/analysis/judge/absence.h"

static mrd_ev_ns
seen_last(const mrd_absence_env *env, uint32_t worker)
{
    return mrd_standstill_last(env->standstill, mrd_workers_at(env->who, worker)->process);
}

/* Returns the total time that the participants spent in this collective. If no participant
 * has left yet, each is counted up to `until`. */
static uint64_t
spent(const mrd_gathered *c, mrd_ev_ns until)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < c->n; i++) {
        mrd_ev_ns begin = c->parts[i].begin;

        sum += (uint64_t) mrd_ev_diff(c->n_open > 0 ? mrd_ev_max(until, begin) : c->parts[i].end,
                                      begin);
    }
    return sum;
}

void
mrd_absence_note(const mrd_absence_env *env, const mrd_gathered *c, uint64_t usual_ns,
                 mrd_report_absence *worst)
{
    mrd_report_absence a = { .name = c->name, .parts = c->n, .begin = c->parts[0].begin };
    uint32_t members, takers = mrd_gather_takers(env->gather, c->group, &members);
    mrd_ev_ns until = a.begin;

    if (usual_ns == 0 || (c->n_open > 0 && c->n_open < c->n))
        return; /* the collective took place if a part of it has ended */
    for (size_t i = 0; i < c->n; i++)
        until = mrd_ev_max(until, seen_last(env, c->parts[i].core));
    for (uint32_t i = 0; i < mrd_workers_count(env->who) && c->n < takers; i++) {
        if (!mrd_gather_lacks(env->gather, c->group, i) || env->waits[i])
            continue;
        until = mrd_ev_max(until, seen_last(env, i));
        if (a.workers < MRD_REPORT_ABSENTS)
            a.worker[a.workers] = i;
        a.workers++;
    }
    a.spent_ns = spent(c, until);
    if (a.workers > 0 && a.spent_ns / c->n / MRD_REPORT_ABSENT >= usual_ns &&
        (a.parts > worst->parts || (a.parts == worst->parts && a.spent_ns > worst->spent_ns)))
        *worst = a;
}
