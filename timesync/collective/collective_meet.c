/*
 * Tests whether all participants of a group took part in the same collectives, that is, whether
 * they are really one group. The test is needed if the data do not list the members of the group.
 *
 * Two groups of the same name may run the same operations, so the collectives of one group match
 * those of the other. If one group is always later by the same time, the ends of their spans agree
 * as well. The delay then looks like an offset of the clocks.
 *
 * A span is the time of one participant in a collective, from entry to exit. In every group, the
 * last participant to enter does not wait, so its span is as short as possible. If two groups are
 * mixed, every collective has two of these short spans. A collective with exactly one short span
 * shows that all its participants waited for the same one. The ends of their spans must also have
 * the usual distances from each other. Without this condition, the test would miss a participant
 * that enters last but leaves late, because its span is long. The length of a span does not depend
 * on the alignment of clocks.
 */
#include "timesync/collective/collective_impl.h"

#include <math.h>
#include <stdlib.h>

#include "base/map.h"

/* A span is short if it exceeds the shortest one by at most SCATTERS * (largest scatter of a
 * participant's ends) + EXACT_NS. */
#define SCATTERS 6
#define EXACT_NS 2000 /* constant part of this limit, in ns */
/* at least one of SHARE collectives of a participant must have exactly one short span */
#define SHARE 50
/* minimum number of spans of one kind that a participant needs for a shortest span of that kind */
#define MANY 8
/* If a participant has fewer collectives, it may never enter last by chance. */
#define FEW 16
/* minimum number of collectives in which the participant has the only short span */
#define ALONE 2
/* If a participant's shortest span is unknown, its span counts as short up to this many times the
 * shortest span of the same collective. */
#define SLOWER 2

/* A participant. Its observations are mine[first] to mine[first + n - 1]. `shown` counts the
 * collectives that show that it meets the others (count_shown). */
typedef struct {
    size_t first, n, shown;
    /* number of the participant's short spans; number of collectives in which it has the only short
     * span */
    size_t brief, alone;
    /* how much the ends of its spans vary relative to the ends of the base participant, with which
     * all others are compared, in ns */
    double scatter;
} taker;

typedef struct {
    const mrd_coll_match *match;
    size_t from; /* index of the first collective of the group */
    size_t n;    /* number of observations of the group */
    taker *takers;
    size_t n_takers, base;
    uint32_t *who;             /* per observation: index in `takers` of its participant */
    const mrd_coll_obs **mine; /* the observations of the group, sorted by participant, then time */
    /* indexed by observation; shortest span of this participant in this kind of collective, or 0 if
     * unknown */
    int64_t *lengths;
    /* for each observation: true if its end has the usual distance from the base participant's
     * end */
    bool *usual;
    mrd_coll_obs *series;
    int64_t *others;
    double tolerance;
} meeting;

static const mrd_coll_obs *
group_obs(const meeting *m)
{
    return m->match->obs + m->match->first[m->from];
}

static int
order_taken(const void *a, const void *b)
{
    const mrd_coll_obs *x = *(const mrd_coll_obs *const *) a;
    const mrd_coll_obs *y = *(const mrd_coll_obs *const *) b;

    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->end.ns != y->end.ns)
        return mrd_local_before(x->end, y->end) ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void
find_takers(meeting *m)
{
    const mrd_coll_obs *obs = group_obs(m);

    for (size_t i = 0; i < m->n; i++)
        m->mine[i] = &obs[i];
    qsort(m->mine, m->n, sizeof(mrd_coll_obs *), order_taken);
    for (size_t i = 0; i < m->n; i++) {
        const mrd_coll_obs *coll_obs = m->mine[i], *before = i == 0 ? coll_obs : m->mine[i - 1];

        if (i == 0 || before->process != coll_obs->process || before->part != coll_obs->part)
            m->takers[m->n_takers++] = (taker){ .first = i };
        m->takers[m->n_takers - 1].n++;
        m->who[coll_obs - obs] = (uint32_t) m->n_takers - 1;
    }
    for (size_t t = 0; t < m->n_takers; t++)
        m->base = m->takers[t].n > m->takers[m->base].n ? t : m->base;
}

/* The shortest span of each participant in each kind of collective. */
typedef struct {
    mrd_map index;
    struct {
        mrd_dur_ns length;
        size_t n; /* number of spans that were compared */
    } * least;
    size_t n;
} shortest;

static mrd_err
shortest_add(shortest *s, mrd_map_key key, mrd_dur_ns length)
{
    uint32_t at = mrd_map_get(&s->index, key);
    mrd_err err;

    if (at == MRD_MAP_NONE) {
        at = (uint32_t) s->n;
        if ((err = mrd_map_put(&s->index, key, at)) != MRD_OK)
            return err;
        s->least[s->n].length = length;
        s->least[s->n++].n = 0;
    }
    s->least[at].length = length < s->least[at].length ? length : s->least[at].length;
    s->least[at].n++;
    return MRD_OK;
}

static mrd_map_key
key_of(const mrd_coll_obs *obs, uint64_t who)
{
    return (mrd_map_key){ who, obs->op, (uint64_t) obs->size };
}

static mrd_dur_ns
length_of(const mrd_coll_obs *obs)
{
    return mrd_local_diff(obs->end, obs->begin);
}

/* Stores in m->lengths the shortest span of each participant for each kind of collective. Stores 0
 * if the participant has fewer than MANY spans of that kind. */
static mrd_err
find_shortest(meeting *m)
{
    const mrd_coll_obs *obs = group_obs(m);
    shortest s = { .least = malloc((m->n + 1) * sizeof(*s.least)) };
    mrd_err err = s.least == NULL ? MRD_NOMEM : MRD_OK;

    for (size_t i = 0; i < m->n && err == MRD_OK; i++)
        err = shortest_add(&s, key_of(&obs[i], m->who[i]), length_of(&obs[i]));
    for (size_t i = 0; i < m->n && err == MRD_OK; i++) {
        uint32_t at = mrd_map_get(&s.index, key_of(&obs[i], m->who[i]));

        m->lengths[i] = s.least[at].n >= MANY ? s.least[at].length : 0;
    }
    mrd_map_fini(&s.index);
    free(s.least);
    return err;
}

/* Stores for each observation when the base participant left the same collective, or 0 if the base
 * participant is not in it. */
static void
fill_base_ends(const meeting *m, int64_t *ends)
{
    const mrd_coll_match *match = m->match;
    size_t zero = match->first[m->from];

    for (size_t c = m->from; c < match->count; c++) {
        int64_t end = 0;

        for (size_t i = match->first[c]; i < match->first[c + 1]; i++)
            end = m->who[i - zero] == m->base ? match->obs[i].end.ns : end;
        for (size_t i = match->first[c]; i < match->first[c + 1]; i++)
            ends[i - zero] = end;
    }
}

/* Returns in ns how far end i of a series is from its expected value. The difference between end i
 * and the base participant's end is predicted by a straight line through two neighbours. The result
 * is the distance from this prediction. */
static double
unusual(const meeting *m, size_t i, size_t n)
{
    size_t a = i > 0 ? i - 1 : 1, b = i > 0 && i + 1 < n ? i + 1 : i > 0 ? i - 2 : 2;
    double x = (double) (m->others[i] - m->others[a]), length;
    double y = (double) (m->series[i].end.ns - m->series[a].end.ns) - x;

    if (n < 3)
        return INFINITY;
    length = (double) (m->others[b] - m->others[a]);
    return fabs(y - x * ((double) (m->series[b].end.ns - m->series[a].end.ns) / length - 1));
}

/* Computes the scatter of each participant, and sets m->tolerance from the largest one.
 * Participants whose ends scatter too much to align their clocks do not count for the tolerance.
 * Then marks in m->usual the ends that have the usual distance from the base participant's end. If
 * the participant's shortest span is known, only half of the tolerance is allowed. A span that ends
 * late by this amount still counts as short. */
static void
measure_ends(meeting *m, const int64_t *base_ends)
{
    double most = 0;

    for (int round = 0; round < 2; round++) {
        for (size_t t = 0; t < m->n_takers; t++) {
            taker *at = &m->takers[t];
            size_t n = 0, k = 0;

            for (size_t i = at->first; i < at->first + at->n; i++) {
                m->series[n] = *m->mine[i];
                m->others[n] = base_ends[m->mine[i] - group_obs(m)];
                n += m->others[n] != 0;
            }
            at->scatter = mrd_coll_scatter(m->series, m->others, n, INFINITY);
            if (at->scatter <= MRD_COLL_RESIDUAL_MAX)
                most = fmax(most, at->scatter);
            for (size_t i = at->first; i < at->first + at->n && round == 1; i++) {
                size_t o = (size_t) (m->mine[i] - group_obs(m));

                m->usual[o] = base_ends[o] != 0 &&
                              unusual(m, k, n) * (m->lengths[o] > 0 ? 2 : 1) <= m->tolerance;
                k += base_ends[o] != 0;
            }
        }
        m->tolerance = SCATTERS * most + EXACT_NS;
    }
}

/* Returns true if a participant did not wait in a collective, because its span there is as short as
 * possible. `least` is the shortest span of this collective. `least` is used only if the
 * participant's own shortest span is unknown. */
static bool
is_brief(const meeting *m, const mrd_coll_obs *obs, mrd_dur_ns least)
{
    mrd_dur_ns own = m->lengths[obs - group_obs(m)];

    return (double) length_of(obs) <=
           m->tolerance + (own > 0 ? (double) own : SLOWER * (double) least);
}

/* Counts for each participant its short spans, the collectives in which it has the only short span,
 * and the collectives that show that it meets the others (see `taker`). A collective in which a
 * participant has an unusual end shows nothing, because that participant may have entered last and
 * left late. Participants whose ends always scatter are not considered. */
static void
count_shown(meeting *m)
{
    const mrd_coll_match *match = m->match;
    size_t zero = match->first[m->from];

    for (size_t c = m->from; c < match->count; c++) {
        size_t brief = 0, unusual_n = 0, last = 0, from = match->first[c], to = match->first[c + 1];
        mrd_dur_ns least = INT64_MAX;

        for (size_t i = from; i < to; i++)
            least = length_of(&match->obs[i]) < least ? length_of(&match->obs[i]) : least;
        for (size_t i = from; i < to; i++) {
            bool is = is_brief(m, &match->obs[i], least);

            last = is ? m->who[i - zero] : last;
            m->takers[m->who[i - zero]].brief += is;
            brief += is;
            unusual_n +=
                !m->usual[i - zero] && m->takers[m->who[i - zero]].scatter <= MRD_COLL_RESIDUAL_MAX;
        }
        m->takers[last].alone += brief == 1;
        for (size_t i = from; i < to && brief == 1 && unusual_n == 0; i++)
            m->takers[m->who[i - zero]].shown += m->usual[i - zero];
    }
}

/* Returns true if a participant meets the others although one process of the group is missing in
 * the data. Suppose that the data mix two groups, and the missing process belongs to the second
 * group. The first group is then complete and has a short span in every collective. So a
 * participant of the second group never has the only short span. With fewer than FEW collectives
 * this is not tested, because it may be chance. */
static bool
stands_alone(const taker *t)
{
    return t->n < FEW || (t->alone >= ALONE && 4 * t->alone >= t->brief);
}

mrd_err
mrd_coll_meet(const mrd_coll_match *match, size_t from, size_t missing, mrd_coll_meeting *ret_meets)
{
    meeting m = { .match = match,
                  .from = from,
                  .n = match->first[match->count] - match->first[from] };
    int64_t *base_ends = malloc((m.n + 1) * sizeof(*base_ends));
    mrd_err err = MRD_NOMEM;

    m.takers = malloc((m.n + 1) * sizeof(*m.takers));
    m.who = malloc((m.n + 1) * sizeof(*m.who));
    m.mine = malloc((m.n + 1) * sizeof(mrd_coll_obs *));
    m.lengths = malloc((m.n + 1) * sizeof(*m.lengths));
    m.usual = calloc(m.n + 1, sizeof(*m.usual));
    m.series = malloc((m.n + 1) * sizeof(*m.series));
    m.others = malloc((m.n + 1) * sizeof(*m.others));
    if (base_ends == NULL || m.takers == NULL || m.who == NULL || m.mine == NULL ||
        m.lengths == NULL || m.usual == NULL || m.series == NULL || m.others == NULL)
        goto out;
    find_takers(&m);
    if ((err = find_shortest(&m)) != MRD_OK)
        goto out;
    fill_base_ends(&m, base_ends);
    measure_ends(&m, base_ends);
    count_shown(&m);
    /* Count a participant as missing if its ends scatter too much, because the lengths of its spans
     * may then be wrong by the same amount. */
    for (size_t t = 0; t < m.n_takers; t++)
        missing += m.takers[t].scatter > MRD_COLL_RESIDUAL_MAX;
    for (size_t i = 0; i < m.n; i++) {
        const taker *t = &m.takers[m.who[i]];
        bool is_shown = t->shown > 0 && t->shown * SHARE >= t->n &&
                        (missing == 0 || (missing == 1 && stands_alone(t)));

        ret_meets[i] = t->scatter > MRD_COLL_RESIDUAL_MAX ? MRD_COLL_SCATTERS
                       : is_shown                         ? MRD_COLL_MEETS
                                                          : MRD_COLL_UNSHOWN;
    }
out:
    free(base_ends);
    free(m.takers);
    free(m.who);
    free(m.mine);
    free(m.lengths);
    free(m.usual);
    free(m.series);
    free(m.others);
    return err;
}
