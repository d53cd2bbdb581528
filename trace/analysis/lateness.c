#include "trace/analysis/lateness.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* What a worker had done when a part of it began, since it left a collective. */
typedef struct {
    mrd_ev_ns at, since;
    uint64_t part_ns[MRD_REPORT_PARTS];
} begun;

typedef struct {
    mrd_lateness_sum sum;
    begun open[MRD_LATENESS_OPEN];
    unsigned next;
} worker_state;

/* The reason of the collective that a group is in. */
typedef struct {
    uint64_t id;
    size_t n; /* parts; 0: none met yet */
    bool known;
    uint64_t late_ns;
    mrd_dur_ns part_ns[MRD_REPORT_PARTS], began_ns;
} reason;

struct mrd_lateness {
    worker_state *workers;
    reason *groups;
    size_t n_groups, cap_groups;
};

mrd_lateness *
mrd_lateness_new(size_t workers)
{
    mrd_lateness *l = calloc(1, sizeof(*l));

    if (l == NULL || (l->workers = calloc(workers + 1, sizeof(*l->workers))) == NULL) {
        free(l);
        return NULL;
    }
    for (size_t i = 0; i < workers; i++)
        for (unsigned k = 0; k < MRD_LATENESS_OPEN; k++)
            l->workers[i].open[k].at = (mrd_ev_ns){ INT64_MIN };
    return l;
}

void
mrd_lateness_free(mrd_lateness *l)
{
    if (l == NULL)
        return;
    free(l->workers);
    free(l->groups);
    free(l);
}

void
mrd_lateness_begin(mrd_lateness *l, uint32_t worker, const mrd_worker_time *t)
{
    worker_state *w = &l->workers[worker];
    begun *b = &w->open[w->next++ % MRD_LATENESS_OPEN];

    b->at = t->now;
    b->since = t->since;
    memcpy(b->part_ns, t->since_ns, sizeof(b->part_ns));
}

static const begun *
begun_at(const mrd_lateness *l, const mrd_gather_part *part)
{
    const worker_state *w = &l->workers[part->core];

    for (unsigned k = 0; k < MRD_LATENESS_OPEN; k++)
        if (w->open[k].at.ns == part->begin.ns)
            return &w->open[k];
    return NULL;
}

mrd_err
mrd_lateness_met(mrd_lateness *l, const mrd_gathered *c)
{
    const mrd_gather_part *last = &c->parts[c->n - 1], *middle = &c->parts[(c->n - 1) / 2];
    const begun *mine = begun_at(l, last), *other = begun_at(l, middle);
    reason *r;

    while (l->n_groups <= c->group) {
        if (!MRD_VEC_ROOM(l->groups, l->n_groups, l->cap_groups, 1))
            return MRD_NOMEM;
        l->groups[l->n_groups++] = (reason){ 0 };
    }
    r = &l->groups[c->group];
    *r = (reason){ .id = c->id, .n = c->n, .known = mine != NULL && other != NULL };
    if (!r->known)
        return MRD_OK;
    r->late_ns = (uint64_t) mrd_ev_diff(last->begin, middle->begin);
    r->began_ns = mrd_ev_diff(mine->since, other->since);
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        r->part_ns[k] = (int64_t) mine->part_ns[k] - (int64_t) other->part_ns[k];
    return MRD_OK;
}

void
mrd_lateness_done(mrd_lateness *l, const mrd_gathered *c)
{
    mrd_lateness_sum *sum = &l->workers[c->parts[c->n - 1].core].sum;
    const reason *r = c->group < l->n_groups ? &l->groups[c->group] : NULL;

    sum->count++;
    if (r == NULL || r->id != c->id || r->n != c->n || !r->known) {
        sum->unknown++;
        return;
    }
    sum->late_ns += r->late_ns;
    sum->began_ns += r->began_ns;
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        sum->part_ns[k] += r->part_ns[k];
}

const mrd_lateness_sum *
mrd_lateness_of(const mrd_lateness *l, uint32_t worker)
{
    return &l->workers[worker].sum;
}
