#include "trace/analysis/judge/lateness.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* A part of a collective: its begin and end, and the worker's account at both times. */
typedef struct {
    mrd_ev_ns begin, end;
    uint64_t begin_ns[MRD_REPORT_PARTS], end_ns[MRD_REPORT_PARTS];
    bool is_running; /* the account has not reached its end yet */
    uint64_t id;     /* of its collective, once that has met; else 0 */
} taken_part;

typedef struct {
    mrd_lateness_sum sum;
    taken_part parts[MRD_LATENESS_KEPT];
    unsigned n, next; /* number of stored parts; index for the next part */
    unsigned running; /* parts that are running */
} worker_state;

/* The reason for the lateness of the last worker of a group's current collective. */
typedef struct {
    uint64_t id;
    size_t n; /* number of parts; 0 if no collective of the group met yet */
    bool known;
    bool left_before; /* both workers had left a collective before */
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

/* Returns the running part that ends first; NULL if none runs. */
static taken_part *
first_to_end(worker_state *w)
{
    taken_part *first = NULL;

    for (unsigned i = 0; i < w->n; i++) {
        taken_part *p = &w->parts[i];

        if (p->is_running && (first == NULL || mrd_ev_before(p->end, first->end)))
            first = p;
    }
    return first;
}

void
mrd_lateness_leave(mrd_lateness *l, uint32_t worker, mrd_worker_time *t, mrd_ev_ns to)
{
    worker_state *w = &l->workers[worker];

    while (w->running > 0) {
        taken_part *p = first_to_end(w);

        if (mrd_ev_after(p->end, to))
            return;
        mrd_worker_time_read(t, p->end, p->end_ns);
        p->is_running = false;
        w->running--;
    }
}

void
mrd_lateness_begin(mrd_lateness *l, uint32_t worker, mrd_worker_time *t, mrd_ev_ns end)
{
    worker_state *w = &l->workers[worker];
    taken_part *p;

    if (w->n == 0) /* the begin of the window is a possible start, too */
        w->parts[w->n++] = (taken_part){ .begin = { INT64_MIN }, .end = t->first };
    w->next = w->next == 0 ? 1 : w->next;
    p = &w->parts[w->next];
    w->running -= w->next < w->n && p->is_running;
    w->n = w->next == w->n ? w->n + 1 : w->n;
    w->next = (w->next + 1) % MRD_LATENESS_KEPT;
    *p = (taken_part){ .begin = t->now, .end = end, .is_running = true };
    mrd_worker_time_read(t, t->now, p->begin_ns);
    w->running++;
}

/* Returns the worker's part that begins at this time; NULL if it is no longer stored. */
static taken_part *
part_at(worker_state *w, mrd_ev_ns begin)
{
    for (unsigned i = 1; i < w->n; i++)
        if (w->parts[i].begin.ns == begin.ns)
            return &w->parts[i];
    return NULL;
}

/* Returns the part that was left nearest to `at`, among the parts left at or before `until`. Each
 * worker with a part has at least the begin of its window. */
static const taken_part *
left_near(const worker_state *w, mrd_ev_ns until, mrd_ev_ns at)
{
    const taken_part *best = &w->parts[0];
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < w->n; i++) {
        const taken_part *p = &w->parts[i];
        uint64_t apart = mrd_ev_after(p->end, at) ? (uint64_t) p->end.ns - (uint64_t) at.ns
                                                  : (uint64_t) at.ns - (uint64_t) p->end.ns;

        if (!p->is_running && !mrd_ev_after(p->end, until) && apart < least) {
            best = p;
            least = apart;
        }
    }
    return best;
}

/* Finds the newest collective that both workers left before these begins. Returns false if none of
 * the stored ones is. */
static bool
left_together(const worker_state *a, mrd_ev_ns a_until, const worker_state *b, mrd_ev_ns b_until,
              const taken_part **ret_a, const taken_part **ret_b)
{
    const taken_part *best = NULL;

    for (unsigned i = 1; i < a->n; i++) {
        const taken_part *p = &a->parts[i];

        if (p->id == 0 || p->is_running || mrd_ev_after(p->end, a_until) ||
            (best != NULL && !mrd_ev_after(p->end, best->end)))
            continue;
        for (unsigned k = 1; k < b->n; k++) {
            const taken_part *q = &b->parts[k];

            if (q->id != p->id || q->is_running || mrd_ev_after(q->end, b_until))
                continue;
            *ret_a = best = p;
            *ret_b = q;
        }
    }
    return best != NULL;
}

/* Splits the lateness of `last` against `middle`, which are parts of c. Their stored parts are
 * `mine` and `other`. */
static void
divide(reason *r, const mrd_lateness *l, const mrd_gather_part *last, const mrd_gather_part *middle,
       const taken_part *mine, const taken_part *other)
{
    const worker_state *me = &l->workers[last->core], *it = &l->workers[middle->core];
    const taken_part *my_start = NULL, *other_start = NULL;

    if (!left_together(me, last->begin, it, middle->begin, &my_start, &other_start)) {
        my_start = left_near(me, last->begin, last->begin);
        other_start = left_near(it, middle->begin, my_start->end);
    }
    r->known = true;
    r->left_before = my_start->begin.ns != INT64_MIN && other_start->begin.ns != INT64_MIN;
    r->late_ns = (uint64_t) mrd_ev_diff(last->begin, middle->begin);
    r->began_ns = mrd_ev_diff(my_start->end, other_start->end);
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        r->part_ns[k] = (int64_t) (mine->begin_ns[k] - my_start->end_ns[k]) -
                        (int64_t) (other->begin_ns[k] - other_start->end_ns[k]);
}

mrd_err
mrd_lateness_met(mrd_lateness *l, const mrd_gathered *c)
{
    const mrd_gather_part *last = &c->parts[c->n - 1], *middle = &c->parts[(c->n - 1) / 2];
    const taken_part *mine = part_at(&l->workers[last->core], last->begin),
                     *other = part_at(&l->workers[middle->core], middle->begin);
    reason *r;

    while (l->n_groups <= c->group) {
        if (!MRD_VEC_ROOM(l->groups, l->n_groups, l->cap_groups, 1))
            return MRD_NOMEM;
        l->groups[l->n_groups++] = (reason){ 0 };
    }
    r = &l->groups[c->group];
    *r = (reason){ .id = c->id, .n = c->n };
    for (size_t i = 0; i < c->n; i++) {
        taken_part *p = part_at(&l->workers[c->parts[i].core], c->parts[i].begin);

        if (p != NULL)
            p->id = c->id;
    }
    if (mine != NULL && other != NULL)
        divide(r, l, last, middle, mine, other);
    return MRD_OK;
}

uint64_t
mrd_lateness_done(mrd_lateness *l, const mrd_gathered *c)
{
    mrd_lateness_sum *sum = &l->workers[c->parts[c->n - 1].core].sum;
    const reason *r = c->group < l->n_groups ? &l->groups[c->group] : NULL;
    int64_t brought;

    sum->count++;
    if (r == NULL || r->id != c->id || r->n != c->n || !r->known) {
        sum->unknown++;
        return 0;
    }
    sum->late_ns += r->late_ns;
    sum->began_ns += r->began_ns;
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        sum->part_ns[k] += r->part_ns[k];
    brought = r->part_ns[MRD_REPORT_EXPOSED] + r->part_ns[MRD_REPORT_WAITING] +
              (r->left_before ? r->began_ns : 0);
    return brought > 0 ? (uint64_t) brought : 0;
}

const mrd_lateness_sum *
mrd_lateness_of(const mrd_lateness *l, uint32_t worker)
{
    return &l->workers[worker].sum;
}
