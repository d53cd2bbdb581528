#include "trace/analysis/judge/lateness.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* One worker's participation in a collective. begin_ns and end_ns are what mrd_worker_time_read
 * returned at `begin` and at `end`: the worker's time so far, by kind. */
typedef struct {
    mrd_ev_ns begin, end;
    uint64_t begin_ns[MRD_REPORT_PARTS], end_ns[MRD_REPORT_PARTS];
    bool is_running; /* the worker's time has not reached `end` yet, so end_ns is not set */
    uint64_t id;     /* id of the collective; 0 until all its members have begun */
} taken_part;

typedef struct {
    mrd_lateness_sum sum;
    taken_part parts[MRD_LATENESS_KEPT];
    unsigned n, next; /* number of stored parts, and the index for the next part */
    unsigned running; /* number of entries in `parts` with is_running */
} worker_state;

/* Why the last worker of a group's current collective was late, compared with the median worker. */
typedef struct {
    uint64_t id;
    /* Number of participants. 0 if the group had no collective yet that all members began. */
    size_t n;
    bool known;
    bool left_before; /* both workers are compared from the end of an earlier collective */
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
    mrd_lateness *lateness = calloc(1, sizeof(*lateness));

    if (lateness == NULL ||
        (lateness->workers = calloc(workers + 1, sizeof(*lateness->workers))) == NULL) {
        free(lateness);
        return NULL;
    }
    return lateness;
}

void
mrd_lateness_free(mrd_lateness *lateness)
{
    if (lateness == NULL)
        return;
    free(lateness->workers);
    free(lateness->groups);
    free(lateness);
}

/* Returns the entry with is_running that has the earliest end. NULL if there is none. */
static taken_part *
first_to_end(worker_state *state)
{
    taken_part *first = NULL;

    for (unsigned i = 0; i < state->n; i++) {
        taken_part *part = &state->parts[i];

        if (part->is_running && (first == NULL || mrd_ev_before(part->end, first->end)))
            first = part;
    }
    return first;
}

void
mrd_lateness_leave(mrd_lateness *lateness, uint32_t worker, mrd_worker_time *times, mrd_ev_ns to)
{
    worker_state *state = &lateness->workers[worker];

    while (state->running > 0) {
        taken_part *part = first_to_end(state);

        if (mrd_ev_after(part->end, to))
            return;
        mrd_worker_time_read(times, part->end, part->end_ns);
        part->is_running = false;
        state->running--;
    }
}

void
mrd_lateness_begin(mrd_lateness *lateness, uint32_t worker, mrd_worker_time *times, mrd_ev_ns end)
{
    worker_state *state = &lateness->workers[worker];
    taken_part *part;

    /* Entry 0 stands for the begin of the worker's window. Without an earlier collective, the
     * comparison starts there. */
    if (state->n == 0)
        state->parts[state->n++] = (taken_part){ .begin = { INT64_MIN }, .end = times->first };
    state->next = state->next == 0 ? 1 : state->next;
    part = &state->parts[state->next];
    state->running -= state->next < state->n && part->is_running;
    state->n = state->next == state->n ? state->n + 1 : state->n;
    state->next = (state->next + 1) % MRD_LATENESS_KEPT;
    *part = (taken_part){ .begin = times->now, .end = end, .is_running = true };
    mrd_worker_time_read(times, times->now, part->begin_ns);
    state->running++;
}

/* Returns the stored participation that begins at this time. NULL if a newer one has replaced
 * it. */
static taken_part *
part_at(worker_state *state, mrd_ev_ns begin)
{
    for (unsigned i = 1; i < state->n; i++)
        if (state->parts[i].begin.ns == begin.ns)
            return &state->parts[i];
    return NULL;
}

/* Among the participations that ended by `until`, returns the one that ended nearest to `at`. Entry
 * 0, the begin of the window, always exists. */
static const taken_part *
left_near(const worker_state *state, mrd_ev_ns until, mrd_ev_ns at)
{
    const taken_part *best = &state->parts[0];
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < state->n; i++) {
        const taken_part *part = &state->parts[i];
        uint64_t apart = mrd_ev_after(part->end, at) ? (uint64_t) part->end.ns - (uint64_t) at.ns
                                                     : (uint64_t) at.ns - (uint64_t) part->end.ns;

        if (!part->is_running && !mrd_ev_after(part->end, until) && apart < least) {
            best = part;
            least = apart;
        }
    }
    return best;
}

/* Finds the latest stored collective that both workers had left: the first worker before a_until,
 * worker b before b_until. Returns false if there is none. */
static bool
left_together(const worker_state *state, mrd_ev_ns a_until, const worker_state *b,
              mrd_ev_ns b_until, const taken_part **ret_a, const taken_part **ret_b)
{
    const taken_part *best = NULL;

    for (unsigned i = 1; i < state->n; i++) {
        const taken_part *part = &state->parts[i];

        if (part->id == 0 || part->is_running || mrd_ev_after(part->end, a_until) ||
            (best != NULL && !mrd_ev_after(part->end, best->end)))
            continue;
        for (unsigned k = 1; k < b->n; k++) {
            const taken_part *q = &b->parts[k];

            if (q->id != part->id || q->is_running || mrd_ev_after(q->end, b_until))
                continue;
            *ret_a = best = part;
            *ret_b = q;
        }
    }
    return best != NULL;
}

/* Compares the last worker of a collective with the median worker (`middle`). Splits the time by
 * which the last one began later into reasons. `mine` and `other` are the stored entries of
 * both. */
static void
divide(reason *r, const mrd_lateness *lateness, const mrd_gather_part *last,
       const mrd_gather_part *middle, const taken_part *mine, const taken_part *other)
{
    const worker_state *me = &lateness->workers[last->core], *it = &lateness->workers[middle->core];
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
mrd_lateness_met(mrd_lateness *lateness, const mrd_gathered *group)
{
    const mrd_gather_part *last = &group->parts[group->n - 1],
                          *middle = &group->parts[(group->n - 1) / 2];
    const taken_part *mine = part_at(&lateness->workers[last->core], last->begin),
                     *other = part_at(&lateness->workers[middle->core], middle->begin);
    reason *r;

    while (lateness->n_groups <= group->group) {
        if (!MRD_VEC_ROOM(lateness->groups, lateness->n_groups, lateness->cap_groups, 1))
            return MRD_NOMEM;
        lateness->groups[lateness->n_groups++] = (reason){ 0 };
    }
    r = &lateness->groups[group->group];
    *r = (reason){ .id = group->id, .n = group->n };
    for (size_t i = 0; i < group->n; i++) {
        taken_part *part = part_at(&lateness->workers[group->parts[i].core], group->parts[i].begin);

        if (part != NULL)
            part->id = group->id;
    }
    if (mine != NULL && other != NULL)
        divide(r, lateness, last, middle, mine, other);
    return MRD_OK;
}

uint64_t
mrd_lateness_done(mrd_lateness *lateness, const mrd_gathered *group)
{
    mrd_lateness_sum *sum = &lateness->workers[group->parts[group->n - 1].core].sum;
    const reason *r = group->group < lateness->n_groups ? &lateness->groups[group->group] : NULL;
    int64_t brought;

    sum->count++;
    if (r == NULL || r->id != group->id || r->n != group->n || !r->known) {
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
mrd_lateness_of(const mrd_lateness *lateness, uint32_t worker)
{
    return &lateness->workers[worker].sum;
}
