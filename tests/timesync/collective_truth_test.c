/*
 * Tests the alignment of clocks by collectives in generated jobs with known true times. The clocks
 * have offsets, drifts, steps, slews and wander. Collectives are missing, sampled, late, not
 * synchronising, or of two communicators under one name. Each stated time must be within its bound,
 * and no rank may be wrongly proven late. A job may be refused, but jobs without such faults must
 * be aligned, and real lateness must be proven.
 */
#include "base/obj.h"
#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "timesync/collective/collective.h"

#include <math.h>

#define RANKS 8
#define STEPS 120
#define SEEDS 1000
#define NOISE 100 /* ns: as in reports */

enum { STEP, SLEW, WANDER, ODDITIES };
typedef enum { ODD, NUMBERED, ROUGH, SPARSE, HONEST } kind;

typedef struct {
    double offset, ppm;
    /* An anomaly: a step of `size` at `at`, a slew by `size` at `rate` from `at`, or a rate that
     * oscillates by `size` (ratio) with a period. Several may add up. */
    struct {
        int kind;
        double at, size, rate;
    } odd[3];
    int n_odd;
} clk;

typedef struct {
    double begin, end; /* true */
    bool there;        /* recorded */
} visit;

typedef struct {
    const char *what;
    int ranks, steps;
    int slots; /* number of slots of the span; each has at most one step or slew */
    bool taken[STEPS];
    double span;
    clk clocks[RANKS];
    visit visits[STEPS][RANKS];
    mrd_coll_obs obs[RANKS * STEPS];
    size_t n;
    double first[RANKS], last[RANKS]; /* true ends of the first and the last recorded collective */
    int late;                         /* a straggler, -1 none */
    bool numbered;                    /* collectives have sequence numbers */
} job;

static const int64_t zero = 1694128201000000000LL;

/* Returns the difference of a clock from the true time. */
static double
error_at(const clk *c, double t)
{
    double e = c->offset + c->ppm * 1e-6 * t;

    for (int i = 0; i < c->n_odd; i++) {
        double since = t - c->odd[i].at, size = c->odd[i].size;

        if (c->odd[i].kind == WANDER)
            e += size * c->odd[i].rate / 6.2831853 * sin(6.2831853 * since / c->odd[i].rate);
        else if (since > 0 && c->odd[i].kind == STEP)
            e += size;
        else if (since > 0)
            e += copysign(fmin(since * c->odd[i].rate, fabs(size)), size);
    }
    return e;
}

static int64_t
shown(const job *j, int rank, double t)
{
    return zero + llround(t + error_at(&j->clocks[rank], t));
}

static double
log_between(rng *r, double a, double b)
{
    return a * exp(rng_unit(r) * log(b / a));
}

/* No two steps or slews begin between the same two collectives, because a change and its reversal
 * would be invisible. Each uses its own slot of the span. Returns -1 if none is left. */
static double
slot(rng *r, job *j)
{
    int at = (int) (rng_unit(r) * j->slots);

    for (int i = 0; i < j->slots; i++, at++) {
        if (!j->taken[at % j->slots]) {
            j->taken[at % j->slots] = true;
            return (at % j->slots + rng_between(r, 0.3, 0.7)) * j->span / j->slots;
        }
    }
    return -1;
}

static void
draw_clock(rng *r, job *j, int rank, bool honest)
{
    clk *c = &j->clocks[rank];

    c->offset = copysign(log_between(r, 1e3, 1e13), rng_unit(r) - 0.5);
    c->ppm = rng_between(r, -200, 200);
    if (honest && rng_unit(r) < 0.5) { /* like quartz at room temperature */
        c->n_odd = 1;
        c->odd[0].kind = WANDER;
        c->odd[0].rate = log_between(r, 60e9, 1200e9);
        c->odd[0].size = log_between(r, 0.01e-6, 0.2e-6);
    }
    if (honest || rng_unit(r) < 0.5)
        return;
    c->n_odd = 1 + (rng_unit(r) < 0.2) + (rng_unit(r) < 0.1);
    for (int i = 0; i < c->n_odd; i++) {
        c->odd[i].kind = (int) (rng_unit(r) * ODDITIES);
        c->odd[i].at = slot(r, j);
        if (c->odd[i].at < 0)
            c->odd[i].kind = WANDER;
        c->odd[i].size = copysign(log_between(r, 2e3, 5e6), rng_unit(r) - 0.5);
        c->odd[i].rate = rng_unit(r) < 0.5 ? 500e-6 : 83333e-6;
        if (c->odd[i].kind == WANDER) {
            c->odd[i].rate = log_between(r, 10e9, 1200e9);  /* period */
            c->odd[i].size = log_between(r, 0.01e-6, 2e-6); /* of the rate */
        }
    }
}

static void
observe(job *j, int i, int rank, uint64_t group, uint32_t members, uint64_t op)
{
    const visit *v = &j->visits[i][rank];
    int64_t begin = shown(j, rank, v->begin), end = shown(j, rank, v->end);

    if (!v->there || end < begin) /* no program records a span that ends before it begins */
        return;
    j->first[rank] = fmin(j->first[rank], v->end);
    j->last[rank] = fmax(j->last[rank], v->end);
    j->obs[j->n++] = (mrd_coll_obs){ .process = (uint32_t) rank,
                                     .group = group,
                                     .op = op,
                                     .size = 1000,
                                     .seq = j->numbered ? i : -1,
                                     .lasting = j->numbered,
                                     .members = members,
                                     .begin = { begin },
                                     .end = { end } };
}

typedef struct {
    double period, jitter, latency, scatter, early, tail;
    /* some ranks leave a collective when their own part is done, before all ranks have entered */
    bool loose;
} pace;

static void
draw_visits(rng *r, job *j, const pace *p, int from, int to)
{
    double at = rng_between(r, 0, p->period);

    for (int i = 0; i < j->steps; i++) {
        double last = -INFINITY;
        bool loose = p->loose && rng_unit(r) < 0.2;

        at += p->period * (1 + p->jitter * rng_between(r, -1, 1));
        for (int k = from; k < to; k++) {
            double early = rng_unit(r) * rng_unit(r) * p->early;
            double begin = at - early + (k == j->late ? p->early * rng_between(r, 0.2, 0.8) : 0);

            j->visits[i][k] = (visit){ .begin = begin, .there = true };
            last = fmax(last, begin);
        }
        for (int k = from; k < to; k++) {
            visit *v = &j->visits[i][k];

            v->end = (loose ? v->begin : last) + p->latency + rng_unit(r) * p->scatter;
            if (rng_unit(r) < p->tail)
                v->end += rng_exp(r, 100e3);
        }
        at = fmax(at, last);
    }
}

static void
lose(rng *r, job *j)
{
    int how = (int) rng_between(r, 0, 3), a = (int) rng_between(r, 0, j->ranks);
    int b = (int) rng_between(r, 0, j->ranks), n = 1 + (int) rng_between(r, 0, 3), gone = 0;

    for (int i = 0; i < n; i++) {
        if (how == 0) { /* the ranks record at different times with equal lengths */
            j->visits[i][a].there = a == b;
            j->visits[j->steps - 1 - i][b].there = a == b;
        } else { /* in the middle */
            j->visits[(int) rng_between(r, 0, j->steps)][a].there = false;
            j->visits[(int) rng_between(r, 0, j->steps)][b].there = how == 1 || a == b;
        }
    }
    if (how == 2) { /* sampled alike */
        for (int i = 0; i < j->steps; i++) {
            bool keep = rng_unit(r) < 0.6 || gone == 2;

            gone = keep ? 0 : gone + 1;

            for (int k = 0; k < j->ranks; k++)
                j->visits[i][k].there = keep;
        }
    }
}

/* Draws jobs with few collectives per pair of ranks, at regular intervals, which the ranks record
 * at different times. Such data hardly show which collectives belong together. */
static bool
is_sparse(rng *r, job *j, pace *p)
{
    int links = j->ranks - 1;

    j->steps = 2 * links + (int) rng_between(r, 0, fmin(STEPS - 2 * links, 14 * links));
    if (rng_unit(r) < 0.7)
        p->jitter = rng_unit(r) < 0.5 ? 0 : log_between(r, 1e-4, 0.05);
    p->loose = rng_unit(r) < 0.4;
    return links > 1;
}

/* Lets the ranks leave a collective up to several milliseconds apart, as in collectives between
 * CPUs. */
static void
leave_roughly(rng *r, pace *p)
{
    p->latency = log_between(r, 200e3, 5e6);
    p->scatter = p->latency * rng_between(r, 0.3, 1);
    p->period = fmax(p->period, 4 * p->latency);
}

/* `late_ends` is the share of ends in an honest job at which only one rank is late. */
static job *
make_job(uint64_t seed, kind of, double late_ends)
{
    rng r = rng_new(seed);
    job *j = calloc(1, sizeof(*j));
    pace p;
    bool two_groups, chain, honest = of == HONEST;

    j->numbered = of == NUMBERED || (of == ROUGH && seed % 4 < 2);
    j->ranks = 2 + (int) rng_between(&r, 0, RANKS - 1);
    j->steps = 12 + (int) rng_between(&r, 0, STEPS - 12);
    p.period = log_between(&r, 2e6, 10e9);
    p.jitter = !honest && rng_unit(&r) < 0.1 ? 0 : rng_between(&r, 0.05, 0.4);
    p.latency = log_between(&r, 10e3, 300e3);
    p.scatter = rng_between(&r, 0.2e3, fmin(8e3, p.latency));
    p.early = fmin(p.period * 0.3, log_between(&r, 50e3, 10e6));
    p.tail = honest ? late_ends : rng_unit(&r) < 0.2 ? 0.03 : 0;
    p.loose = !honest && rng_unit(&r) < 0.1;
    chain = of == SPARSE && is_sparse(&r, j, &p);
    if (of == ROUGH)
        leave_roughly(&r, &p);
    j->span = p.period * (j->steps + 1);
    j->late = rng_unit(&r) < 0.5 ? (int) rng_between(&r, 0, j->ranks) : -1;
    two_groups = of <= ROUGH && rng_unit(&r) < 0.1 && j->ranks >= 4;
    chain = chain || (!two_groups && rng_unit(&r) < 0.1 && j->ranks >= 3);
    j->slots = j->steps / (6 * (chain ? j->ranks - 1 : 1));
    for (int k = 0; k < j->ranks; k++) {
        draw_clock(&r, j, k, honest);
        j->first[k] = INFINITY;
        j->last[k] = -INFINITY;
    }
    if (two_groups) { /* of one name */
        draw_visits(&r, j, &p, 0, j->ranks / 2);
        draw_visits(&r, j, &p, j->ranks / 2, j->ranks);
    } else {
        draw_visits(&r, j, &p, 0, j->ranks);
    }
    if (!honest && rng_unit(&r) < (of == SPARSE ? 0.8 : 0.3))
        lose(&r, j);
    for (int i = 0; i < j->steps; i++) {
        for (int k = 0; k < j->ranks; k++) {
            uint64_t group = chain ? 7 + (uint64_t) (i % (j->ranks - 1)) : 7;

            if (chain && k != i % (j->ranks - 1) && k != i % (j->ranks - 1) + 1)
                continue;
            observe(j, i, k, group,
                    chain        ? 2
                    : two_groups ? (uint32_t) (j->ranks / 2)
                                 : (uint32_t) j->ranks,
                    (uint64_t) (i % 3));
        }
    }
    return j;
}

typedef struct {
    size_t refused, aligned, suspect, segments; /* jobs */
    size_t instants, missed;
    size_t proofs, false_proofs;
    size_t late, late_proven; /* truly late by more than 200 us */
    double worst_miss;
    double widths;
    size_t n_widths;
} tally;

/* Returns one answered time. *ret_bound is UINT32_MAX if no bound is stated. */
static int64_t
answer(const mrd_coll_solution *s, mrd_align *const *tables, int rank, int64_t local,
       uint32_t *ret_bound, mrd_align_bound *b)
{
    const mrd_coll_process *p = &s->process[rank];
    mrd_align_cursor c = { 0 };
    mrd_sess_ns at = { local };

    *ret_bound = UINT32_MAX;
    if (tables[rank] == NULL)
        return local;
    if ((size_t) rank == s->reference) {
        *ret_bound = 0;
        *b = (mrd_align_bound){ .lo = at, .hi = at };
        for (size_t i = 0; i < s->break_count; i++) {
            if (local >= s->breaks[i].from && local <= s->breaks[i].to)
                *ret_bound = UINT32_MAX;
        }
        return local;
    }
    if (!mrd_align_map(tables[rank], &c, (mrd_local_ns){ local }, &at, b) || p->violations > 0 ||
        s->process[s->reference].violations > 0 || !mrd_coll_knows(p, local))
        return at.ns;
    *ret_bound = mrd_align_radius(at, b);
    return at.ns;
}

static void
judge_instant(const job *j, const mrd_coll_solution *s, mrd_align *const *tables, int rank,
              double t, tally *sum)
{
    mrd_align_bound b;
    uint32_t bound;
    int64_t truth = shown(j, (int) s->reference, t);
    int64_t at = answer(s, tables, rank, shown(j, rank, t), &bound, &b), off;

    /* A clock that was set back shows some times twice. A time before its first collective may
     * appear again later, so no bound is stated for it. */
    if (bound == UINT32_MAX || (size_t) rank == s->reference || t < j->first[rank] ||
        t > j->last[rank])
        return;
    off = llabs(at - truth) - (int64_t) bound;
    sum->instants++;
    sum->widths += bound;
    sum->n_widths++;
    if (off > 2 || truth < b.lo.ns - 2 || truth > b.hi.ns + 2) {
        sum->missed++;
        sum->worst_miss = fmax(sum->worst_miss, (double) off);
    }
}

/* Applies the report's rule to collectives with all ranks. */
static void
judge_proof(const job *j, const mrd_coll_solution *s, mrd_align *const *tables, int i, tally *sum)
{
    int64_t at[RANKS];
    uint32_t bound[RANKS];
    mrd_align_bound b;
    double second = -INFINITY;
    int last = 0, truly = 0;
    bool proven = true;

    for (int k = 0; k < j->ranks; k++) {
        if (!j->visits[i][k].there)
            return;
        at[k] = answer(s, tables, k, shown(j, k, j->visits[i][k].begin), &bound[k], &b);
        last = at[k] > at[last] ? k : last;
        truly = j->visits[i][k].begin > j->visits[i][truly].begin ? k : truly;
    }
    for (int k = 0; k < j->ranks; k++) {
        if (k != truly)
            second = fmax(second, j->visits[i][k].begin);
        if (k != last)
            proven = proven && bound[k] != UINT32_MAX && bound[last] != UINT32_MAX &&
                     at[last] - at[k] > NOISE + (int64_t) bound[k] + bound[last];
    }
    sum->proofs += proven;
    sum->false_proofs += proven && last != truly;
    if (j->visits[i][truly].begin - second > 200e3) {
        sum->late++;
        sum->late_proven += proven && last == truly;
    }
}

static void
judge(const job *j, const mrd_coll_solution *s, tally *sum)
{
    mrd_align *tables[RANKS];
    size_t segments = 1, suspect = 0;

    for (int k = 0; k < j->ranks; k++) {
        tables[k] = mrd_coll_align(s, (size_t) k, "r");
        segments = s->process[k].segment_count > segments ? s->process[k].segment_count : segments;
        suspect += s->process[k].violations > 0;
    }
    sum->segments += segments > 1;
    sum->suspect += suspect > 0;
    sum->aligned += suspect == 0;
    for (int k = 0; k < j->ranks; k++) {
        for (int i = 0; i < j->steps; i++) {
            judge_instant(j, s, tables, k, j->visits[i][k].begin, sum);
            judge_instant(j, s, tables, k, j->visits[i][k].end, sum);
        }
        for (int i = 0; i < 200; i++)
            judge_instant(j, s, tables, k, j->span * i / 200, sum);
    }
    for (int i = 0; i < j->steps; i++)
        judge_proof(j, s, tables, i, sum);
    for (int k = 0; k < j->ranks; k++)
        mrd_align_free(tables[k]);
}

/* Aligns the clocks of a drawn job. Returns true if all stated bounds contain the true times. */
static bool
run_job(uint64_t seed, kind of, double late_ends, tally *sum, mrd_why *why)
{
    job *j = make_job(seed, of, late_ends);
    mrd_coll_options options = { .leave_out = seed % 2 == 0 };
    mrd_coll_match *m = NULL;
    mrd_coll_solution s = { 0 };
    size_t missed = sum->missed, wrong = sum->false_proofs;

    *why = (mrd_why){ 0 };
    if (mrd_coll_match_new(j->obs, j->n, (size_t) j->ranks, NULL, 0, &options, &m, why) != MRD_OK ||
        mrd_coll_solve(m, &options, &s, why) != MRD_OK) {
        sum->refused++;
        CHECK(why->text[0] != '\0');
    } else {
        judge(j, &s, sum);
    }
    mrd_coll_solution_fini(&s);
    mrd_coll_match_free(m);
    free(j);
    return sum->missed == missed && sum->false_proofs == wrong;
}

static void
print(const char *name, const tally *t)
{
    printf("%s: %zu jobs aligned (%zu in segments), %zu suspect, %zu refused; %zu instants, %zu "
           "outside their bound (by %.0f ns at most), mean bound %.0f us; %zu of %zu late by 200 "
           "us proven, %zu falsely\n",
           name, t->aligned, t->segments, t->suspect, t->refused, t->instants, t->missed,
           t->worst_miss, t->n_widths == 0 ? 0 : t->widths / (double) t->n_widths / 1e3,
           t->late_proven, t->late, t->false_proofs);
}

TEST(whatever_is_stated_holds)
{
    static const struct {
        const char *name;
        kind of;
        /* at least one in this number of jobs must be answered, so that the solver cannot refuse
         * everything */
        int answered;
    } rows[] = { { "odd jobs", ODD, 4 },
                 { "odd jobs with numbers", NUMBERED, 4 },
                 { "jobs with rough ends", ROUGH, 2 },
                 { "sparse jobs", SPARSE, 5 } };
    uint64_t first = rng_seed();
    const char *more = getenv("MRD_SEEDS");
    uint64_t seeds = more == NULL ? SEEDS : strtoull(more, NULL, 0);
    mrd_why why;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        tally t = { 0 };

        for (uint64_t seed = first; seed < first + seeds; seed++) {
            size_t missed = t.missed, wrong = t.false_proofs;

            if (!run_job(seed, rows[i].of, 0, &t, &why))
                fprintf(stderr,
                        "%s seed %" PRIu64 ": %zu outside (at most %.0f ns), %zu false proofs\n",
                        rows[i].name, seed, t.missed - missed, t.worst_miss,
                        t.false_proofs - wrong);
        }
        print(rows[i].name, &t);
        CHECK_INT(t.missed, 0);
        CHECK_INT(t.false_proofs, 0);
        CHECK_ROW(rows[i].name, t.aligned * (size_t) rows[i].answered > seeds);
    }
}

/* Jobs that were answered falsely before: regular collectives that were matched a few positions
 * off, a clock that was set back before the first common collective, and lines that ends without a
 * meeting had bent. */
TEST(jobs_that_once_were_false)
{
    static const struct {
        kind of;
        uint64_t seed;
    } rows[] = { { ODD, 2368 },     { ODD, 3009 },    { ODD, 6104 },      { ODD, 76254 },
                 { ODD, 98605 },    { ODD, 111112 },  { ODD, 128961 },    { ODD, 152452 },
                 { SPARSE, 129 },   { SPARSE, 1579 }, { SPARSE, 142090 }, { SPARSE, 175220 },
                 { SPARSE, 122782 } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        tally t = { 0 };
        char row[40];
        mrd_why why;

        snprintf(row, sizeof(row), "kind %d seed %" PRIu64, (int) rows[i].of, rows[i].seed);
        CHECK_ROW(row, run_job(rows[i].seed, rows[i].of, 0, &t, &why));
    }
}

/* A line fits any two ends exactly, which does not make their clock exact. In this job one of two
 * collectives of a process did not synchronise. */
TEST(two_collectives_are_not_exact)
{
    tally t = { 0 };
    mrd_why why;

    CHECK(run_job(5850, NUMBERED, 0, &t, &why));
    CHECK_INT(t.aligned, 1);
}

/* Ends at which only one rank is late, as after an interrupt, hardly affect the alignment. */
TEST(honest_jobs_are_aligned_and_lateness_is_proven)
{
    static const struct {
        const char *name;
        double late_ends;
    } rows[] = { { "honest jobs", 0 }, { "with late ends", 0.03 } };
    uint64_t first = rng_seed();
    mrd_why why;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        tally t = { 0 };

        for (uint64_t seed = first; seed < first + SEEDS / 2; seed++) {
            size_t refused = t.refused;

            (void) run_job(seed, HONEST, rows[i].late_ends, &t, &why);
            if (t.refused > refused)
                printf("seed %" PRIu64 ": %s\n", seed, why.text);
        }
        print(rows[i].name, &t);
        CHECK_INT(t.missed, 0);
        CHECK_INT(t.false_proofs, 0);
        CHECK(t.aligned >= SEEDS / 2 * 98 / 100);
        CHECK(t.late_proven * 10 > t.late * 6);
    }
}

TEST_MAIN()
