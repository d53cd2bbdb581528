/* Why the last came last: drawn begins and collectives against a list of everything that began. */
#include "trace/analysis/lateness.h"

#include <stdlib.h>

#include "tests/check.h"
#include "tests/seed.h"

#define WORKERS 6
#define GROUPS  5
#define BEGINS  4000

typedef struct {
    int64_t at, since, part_ns[MRD_REPORT_PARTS];
} begun;

typedef struct {
    begun v[WORKERS][BEGINS];
    size_t n[WORKERS];
    struct {
        uint64_t id, n;
        bool known;
        int64_t late, began, part_ns[MRD_REPORT_PARTS];
    } met[GROUPS];
    mrd_lateness_sum sum[WORKERS];
} account;

static uint64_t state;

static uint64_t
below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static void
begins(account *a, mrd_lateness *l, uint32_t worker, int64_t at)
{
    begun *b = &a->v[worker][a->n[worker]++];
    mrd_worker_time t = { .now = { at } };

    b->at = at;
    b->since = at - (int64_t) below(1000);
    t.since = (mrd_ev_ns){ b->since };
    for (int k = 0; k < MRD_REPORT_PARTS; k++) {
        b->part_ns[k] = (int64_t) below(1000);
        t.since_ns[k] = (uint64_t) b->part_ns[k];
    }
    mrd_lateness_begin(l, worker, &t);
}

/* One of the last MRD_LATENESS_OPEN. */
static const begun *
of_part(const account *a, const mrd_gather_part *p)
{
    size_t n = a->n[p->core];

    for (size_t back = 1; back <= MRD_LATENESS_OPEN && back <= n; back++)
        if (a->v[p->core][n - back].at == p->begin.ns)
            return &a->v[p->core][n - back];
    return NULL;
}

static void
meet(account *a, const mrd_gathered *c)
{
    const mrd_gather_part *last = &c->parts[c->n - 1], *middle = &c->parts[(c->n - 1) / 2];
    const begun *x = of_part(a, last), *y = of_part(a, middle);

    a->met[c->group].id = c->id;
    a->met[c->group].n = c->n;
    a->met[c->group].known = x != NULL && y != NULL;
    if (x == NULL || y == NULL)
        return;
    a->met[c->group].late = last->begin.ns - middle->begin.ns;
    a->met[c->group].began = x->since - y->since;
    for (int k = 0; k < MRD_REPORT_PARTS; k++)
        a->met[c->group].part_ns[k] = x->part_ns[k] - y->part_ns[k];
}

static void
end(account *a, const mrd_gathered *c)
{
    mrd_lateness_sum *sum = &a->sum[c->parts[c->n - 1].core];

    sum->count++;
    if (a->met[c->group].n != c->n || a->met[c->group].id != c->id || !a->met[c->group].known) {
        sum->unknown++;
        return;
    }
    sum->late_ns += (uint64_t) a->met[c->group].late;
    sum->began_ns += a->met[c->group].began;
    for (int k = 0; k < MRD_REPORT_PARTS; k++)
        sum->part_ns[k] += a->met[c->group].part_ns[k];
}

/* Everybody begins in an order that is drawn; some begin others before it meets, which forgets the first; some meet
 * before all are there, or not at all, or are not told to have begun. */
static void
collective(account *a, mrd_lateness *l, int64_t *now, uint64_t id)
{
    mrd_gather_part parts[WORKERS];
    mrd_gathered c = {
        .id = id, .group = (uint32_t) below(GROUPS), .n = 1 + below(WORKERS), .parts = parts
    };
    uint32_t first = (uint32_t) below(WORKERS);
    uint64_t how = below(8);

    for (size_t i = 0; i < c.n; i++) {
        parts[i] = (mrd_gather_part){ .core = (first + (uint32_t) i) % WORKERS };
        *now += 1 + (int64_t) below(50);
        parts[i].begin = (mrd_ev_ns){ *now };
        if (below(12) != 0)
            begins(a, l, parts[i].core, *now);
        for (uint64_t more = below(4) == 0 ? below(6) : 0; more > 0; more--)
            begins(a, l, parts[below(i + 1)].core, ++*now);
    }
    if (how == 0 && c.n > 1) { /* one more comes after it met */
        c.n--;
        CHECK_INT(mrd_lateness_met(l, &c), MRD_OK);
        meet(a, &c);
        c.n++;
    }
    if (how > 1) {
        CHECK_INT(mrd_lateness_met(l, &c), MRD_OK);
        meet(a, &c);
    }
    if (how == 2) /* another one of the group is told as over */
        c.id++;
    mrd_lateness_done(l, &c);
    end(a, &c);
}

TEST(sums_are_those_of_everything_that_began)
{
    account *a = calloc(1, sizeof(*a));
    mrd_lateness *l = mrd_lateness_new(WORKERS);
    uint64_t known = 0, unknown = 0;
    int64_t now = 0;

    REQUIRE(a != NULL && l != NULL);
    state = test_seed();
    for (uint64_t id = 1; id < 800; id += 2)
        collective(a, l, &now, id);
    for (uint32_t w = 0; w < WORKERS; w++) {
        const mrd_lateness_sum *got = mrd_lateness_of(l, w);

        CHECK_INT(got->count, a->sum[w].count);
        CHECK_INT(got->unknown, a->sum[w].unknown);
        CHECK_INT(got->late_ns, a->sum[w].late_ns);
        CHECK_INT(got->began_ns, a->sum[w].began_ns);
        for (int k = 0; k < MRD_REPORT_PARTS; k++)
            CHECK_INT(got->part_ns[k], a->sum[w].part_ns[k]);
        known += got->count - got->unknown;
        unknown += got->unknown;
    }
    CHECK(known > 100 && unknown > 50);
    mrd_lateness_free(l);
    free(a);
}

TEST_MAIN()
