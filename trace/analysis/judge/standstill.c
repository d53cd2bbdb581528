#include "trace/analysis/judge/standstill.h"

#include <stdlib.h>

/* The ends of spans of one kind. */
typedef struct {
    uint64_t n;
    mrd_ev_ns last;
    uint64_t pause_ns; /* the longest time between two ends */
} ends;

struct mrd_standstill {
    const mrd_catalog *cat;
    mrd_at_end *processes; /* by number until finish */
    size_t n;
    ends ends[MRD_ENDED_KINDS];
    mrd_ev_ns end; /* end of the recording, as of the latest event */
    bool still;
    mrd_ended kind; /* kind of the spans that stopped */
};

mrd_standstill *
mrd_standstill_new(const mrd_catalog *cat)
{
    mrd_standstill *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->cat = cat;
    s->n = mrd_catalog_processes(cat);
    s->end = (mrd_ev_ns){ INT64_MIN };
    if ((s->processes = calloc(s->n + 1, sizeof(*s->processes))) == NULL) {
        free(s);
        return NULL;
    }
    for (size_t i = 0; i < s->n; i++)
        s->processes[i] = (mrd_at_end){ .process = (mrd_proc_id) i,
                                        .lnc_idx = MRD_NONE,
                                        .start = { INT64_MIN },
                                        .last = { INT64_MIN } };
    return s;
}

void
mrd_standstill_free(mrd_standstill *s)
{
    if (s == NULL)
        return;
    free(s->processes);
    free(s);
}

void
mrd_standstill_ended(mrd_standstill *s, mrd_proc_id process, mrd_ended kind, const mrd_event *ev)
{
    mrd_ev_ns end = mrd_event_end(ev);
    mrd_at_end *p = &s->processes[process];

    if (p->last_name == MRD_SID_EMPTY || mrd_ev_after(end, p->last)) {
        p->last = end;
        p->last_name = ev->name;
    }
    s->end = mrd_ev_max(s->end, end);
    for (unsigned k = kind; k < MRD_ENDED_KINDS; k++) {
        ends *e = &s->ends[k];

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
mrd_standstill_lost(mrd_standstill *s, const mrd_event *ev)
{
    for (unsigned k = 0; k < MRD_ENDED_KINDS; k++)
        if (s->ends[k].n > 0)
            s->ends[k].last = mrd_ev_max(s->ends[k].last, mrd_event_end(ev));
}

void
mrd_standstill_open(mrd_standstill *s, const mrd_event *ev)
{
    const mrd_track *t = mrd_catalog_borrow_track(s->cat, ev->track);
    mrd_at_end *p = &s->processes[t->process];

    s->end = mrd_ev_max(s->end, ev->ts);
    if (p->open++ > 0 && mrd_ev_before(ev->ts, p->start))
        return;
    p->lnc_idx = t->lnc_idx;
    p->name = ev->name;
    p->start = ev->ts;
}

/* Returns true if a process is in one span for at least `ns`. */
static bool
is_held(const mrd_standstill *s, uint64_t ns)
{
    bool held = false;

    for (size_t i = 0; i < s->n && !held; i++)
        held = s->processes[i].open > 0 &&
               (uint64_t) s->end.ns - (uint64_t) s->processes[i].start.ns >= ns;
    return held;
}

static int
process_order(const void *a, const void *b, void *self)
{
    const mrd_at_end *x = a, *y = b;

    return mrd_workers_process_order(self, x->process, y->process);
}

void
mrd_standstill_finish(mrd_standstill *s, mrd_ev_ns first, mrd_ev_ns end)
{
    size_t kept = 0;
    const ends *e;
    uint64_t quiet;

    s->end = mrd_ev_max(s->end, end);
    while (s->kind < MRD_ENDED_ANY && s->ends[s->kind].n == 0)
        s->kind++;
    e = &s->ends[s->kind];
    if (e->n > 0) {
        quiet = (uint64_t) s->end.ns - (uint64_t) e->last.ns;
        s->still = quiet >= MRD_STANDSTILL_LEAST &&
                   quiet >= ((uint64_t) s->end.ns - (uint64_t) first.ns) / 3 &&
                   quiet / 2 > e->pause_ns && is_held(s, quiet / 2);
    }
    for (size_t i = 0; i < s->n; i++)
        if (s->processes[i].open > 0 || s->processes[i].last_name != MRD_SID_EMPTY)
            s->processes[kept++] = s->processes[i];
    s->n = kept;
    if (kept > 0)
        qsort_r(s->processes, kept, sizeof(*s->processes), process_order,
                (void *) (uintptr_t) s->cat);
}

mrd_ev_ns
mrd_standstill_end(const mrd_standstill *s)
{
    return s->end;
}

bool
mrd_standstill_since(const mrd_standstill *s, mrd_ev_ns *ret_since, mrd_ended *ret_kind)
{
    if (!s->still)
        return false;
    *ret_since = s->ends[s->kind].last;
    *ret_kind = s->kind;
    return true;
}

const mrd_at_end *
mrd_standstill_processes(const mrd_standstill *s, size_t *ret_n)
{
    *ret_n = s->n;
    return s->processes;
}
