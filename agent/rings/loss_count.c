#include "agent/rings/loss_count.h"

#include <stdlib.h>

mrd_drop_cause
mrd_drain_cause(unsigned ring_cause)
{
    switch (ring_cause) {
    case MRD_RING_LOST_FULL:
        return MRD_DROP_RING_FULL;
    case MRD_RING_LOST_BIG:
        return MRD_DROP_RING_BIG;
    case MRD_RING_LOST_BLOB:
        return MRD_DROP_BLOB;
    default:
        return MRD_DROP_RING_OTHER;
    }
}

void
mrd_drain_lost(mrd_drain *drain, proc *pr, mrd_drop_cause cause, uint64_t count, mrd_local_ns first,
               mrd_local_ns last)
{
    mrd_event ev = { .kind = MRD_LOSS,
                     .ts = { first.ns },
                     .dur_ns = mrd_local_after(last, first) ? mrd_local_diff(last, first) : 0,
                     .ivalue = count > INT64_MAX ? INT64_MAX : (int64_t) count };
    mrd_track track;

    drain->counts.begun += count;
    drain->counts.dropped[cause] += count;
    pr->lost += count;
    mrd_track_init(&track, pr->pub.id, MRD_SRC_MERIDIAN);
    track.name = mrd_strtab_add(mrd_catalog_strings(pr->pub.catalog), MRD_STR("losses"));
    ev.track = mrd_catalog_track(pr->pub.catalog, &track);
    ev.name =
        mrd_strtab_add(mrd_catalog_strings(pr->pub.catalog), mrd_str_of(mrd_drop_text(cause)));
    mrd_drain_give(drain, pr, MRD_DRAIN_RAW, &ev);
}

static void
give_open(mrd_drain *drain, proc *pr, mrd_open_span *span)
{
    drain->counts.held--;
    mrd_drain_give(drain, pr, MRD_DRAIN_RAW, &span->ev);
    mrd_open_spans_take(&pr->open, span);
    free(span);
}

void
mrd_drain_flush_open(mrd_drain *drain, proc *pr)
{
    for (size_t i = 0; i < pr->open.n_slots; i++)
        while (pr->open.slots[i] != NULL)
            give_open(drain, pr, pr->open.slots[i]);
}

/* Emits the spans that were open when the process called exec as unfinished spans. The process
 * itself continues to run. */
static void
drain_flush_left(mrd_drain *drain, proc *pr)
{
    mrd_ev_ns before = pr->pub.open_until;

    pr->pub.open_until = (mrd_ev_ns){ pr->newest.ns > 0 ? pr->newest.ns : 1 };
    for (size_t i = 0; i < pr->open.n_slots; i++)
        for (mrd_open_span *span = pr->open.slots[i], *next; span != NULL; span = next) {
            next = span->next;
            if (span->left)
                give_open(drain, pr, span);
        }
    pr->pub.open_until = before;
}

void
mrd_drain_sweep(mrd_drain *drain, proc *pr, mrd_local_ns now, int64_t age)
{
    if (pr->seen_alive && pr->n_left > pr->left_given) {
        drain_flush_left(drain, pr);
        pr->left_given = pr->n_left;
    }
    for (size_t i = 0; i < pr->open.n_slots && pr->open.n_early > 0; i++)
        for (mrd_open_span *span = pr->open.slots[i], *next; span != NULL; span = next) {
            next = span->next;
            if (span->early && mrd_local_diff(now, span->since) > age)
                give_open(drain, pr, span);
        }
}

uint64_t
mrd_drain_left_key(proc *pr)
{
    return ++pr->n_left * 0x9e3779b97f4a7c15u ^ 0x4c454654u;
}

uint64_t
mrd_drain_model_key(uint64_t number)
{
    return number * 0x9e3779b97f4a7c15u ^ 0x4d4f44454c000000u;
}
