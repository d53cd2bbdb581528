#include "trace/analysis/judge/standstill.h"

#include <stdlib.h>

/* Statistics of the ends of all spans of one kind. */
typedef struct {
    uint64_t n;
    mrd_ev_ns last;
    uint64_t pause_ns; /* longest time between two successive ends */
} ends;

struct mrd_standstill {
    const mrd_catalog *cat;
    mrd_at_end *processes; /* indexed by process number until mrd_standstill_finish */
    size_t n;
    ends ends[MRD_ENDED_KINDS];
    /* latest end of a span; mrd_standstill_finish replaces it by the end of the recording if that
     * is later */
    mrd_ev_ns end;
    bool still;
    mrd_ended kind; /* kind of the spans that stopped */
};

mrd_standstill *
mrd_standstill_new(const mrd_catalog *cat)
{
    mrd_standstill *standstill = calloc(1, sizeof(*standstill));

    if (standstill == NULL)
        return NULL;
    standstill->cat = cat;
    standstill->n = mrd_catalog_processes(cat);
    standstill->end = (mrd_ev_ns){ INT64_MIN };
    if ((standstill->processes = calloc(standstill->n + 1, sizeof(*standstill->processes))) ==
        NULL) {
        free(standstill);
        return NULL;
    }
    for (size_t i = 0; i < standstill->n; i++)
        standstill->processes[i] = (mrd_at_end){ .process = (mrd_proc_id) i,
                                                 .lnc_idx = MRD_NONE,
                                                 .start = { INT64_MIN },
                                                 .last = { INT64_MIN } };
    return standstill;
}

void
mrd_standstill_free(mrd_standstill *standstill)
{
    if (standstill == NULL)
        return;
    free(standstill->processes);
    free(standstill);
}

void
mrd_standstill_ended(mrd_standstill *standstill, mrd_proc_id process, mrd_ended kind,
                     const mrd_event *ev)
{
    mrd_ev_ns end = mrd_event_end(ev);
    mrd_at_end *at_end = &standstill->processes[process];

    if (at_end->last_name == MRD_SID_EMPTY || mrd_ev_after(end, at_end->last)) {
        at_end->last = end;
        at_end->last_name = ev->name;
    }
    standstill->end = mrd_ev_max(standstill->end, end);
    for (unsigned k = kind; k < MRD_ENDED_KINDS; k++) {
        ends *e = &standstill->ends[k];

        if (e->n++ == 0)
            e->last = end;
        if (!mrd_ev_after(end, e->last))
            continue;
        if ((uint64_t) end.ns - (uint64_t) e->last.ns > e->pause_ns)
            e->pause_ns = (uint64_t) end.ns - (uint64_t) e->last.ns;
        e->last = end;
    }
}

void
mrd_standstill_lost(mrd_standstill *standstill, const mrd_event *ev)
{
    for (unsigned k = 0; k < MRD_ENDED_KINDS; k++)
        if (standstill->ends[k].n > 0)
            standstill->ends[k].last = mrd_ev_max(standstill->ends[k].last, mrd_event_end(ev));
}

void
mrd_standstill_open(mrd_standstill *standstill, const mrd_event *ev, bool is_collective)
{
    const mrd_track *track = mrd_catalog_borrow_track(standstill->cat, ev->track);
    mrd_at_end *end = &standstill->processes[track->process];

    standstill->end = mrd_ev_max(standstill->end, ev->ts);
    if (is_collective || !end->in_collective)
        end->inside = ev->name;
    end->in_collective = end->in_collective || is_collective;
    if (end->open++ > 0 && mrd_ev_before(ev->ts, end->start))
        return;
    end->lnc_idx = track->lnc_idx;
    end->name = ev->name;
    end->start = ev->ts;
}

/* Returns true if a span that is still open has lasted for at least `ns`, in any process. */
static bool
is_held(const mrd_standstill *standstill, uint64_t ns)
{
    bool held = false;

    for (size_t i = 0; i < standstill->n && !held; i++)
        held = standstill->processes[i].open > 0 &&
               (uint64_t) standstill->end.ns - (uint64_t) standstill->processes[i].start.ns >= ns;
    return held;
}

static int
process_order(const void *a, const void *b, void *self)
{
    const mrd_at_end *x = a, *y = b;

    return mrd_workers_process_order(self, x->process, y->process);
}

void
mrd_standstill_finish(mrd_standstill *standstill, mrd_ev_ns first, mrd_ev_ns end)
{
    size_t kept = 0;
    const ends *e;
    uint64_t quiet;

    standstill->end = mrd_ev_max(standstill->end, end);
    while (standstill->kind < MRD_ENDED_ANY && standstill->ends[standstill->kind].n == 0)
        standstill->kind++;
    e = &standstill->ends[standstill->kind];
    if (e->n > 0) {
        quiet = (uint64_t) standstill->end.ns - (uint64_t) e->last.ns;
        standstill->still = quiet >= MRD_STANDSTILL_LEAST &&
                            quiet >= ((uint64_t) standstill->end.ns - (uint64_t) first.ns) / 3 &&
                            quiet / 2 > e->pause_ns && is_held(standstill, quiet / 2);
    }
    for (size_t i = 0; i < standstill->n; i++)
        if (standstill->processes[i].open > 0 ||
            standstill->processes[i].last_name != MRD_SID_EMPTY)
            standstill->processes[kept++] = standstill->processes[i];
    standstill->n = kept;
    if (kept > 0)
        qsort_r(standstill->processes, kept, sizeof(*standstill->processes), process_order,
                (void *) (uintptr_t) standstill->cat);
}

mrd_ev_ns
mrd_standstill_end(const mrd_standstill *standstill)
{
    return standstill->end;
}

bool
mrd_standstill_since(const mrd_standstill *standstill, mrd_ev_ns *ret_since, mrd_ended *ret_kind)
{
    if (!standstill->still)
        return false;
    *ret_since = standstill->ends[standstill->kind].last;
    *ret_kind = standstill->kind;
    return true;
}

const mrd_at_end *
mrd_standstill_processes(const mrd_standstill *standstill, size_t *ret_n)
{
    *ret_n = standstill->n;
    return standstill->processes;
}
