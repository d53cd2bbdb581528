/*
 * Tests whether a rank is proven to be the last one in a collective (trace/analysis/judge/proof.h).
 * Nodes, clocks, cores and begins are random. The expected result applies the rule to each pair of
 * the last and another rank.
 */
#include "trace/analysis/judge/proof.h"

#include "tests/seed.h"
#include "tests/trace/profile.h"

#define NODES     3
#define PROCESSES 6
#define WORKERS   24

static uint64_t state;

static uint64_t
below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

typedef struct {
    mrd_sid instance;
    uint32_t scope, clock; /* of process */
    bool unknown;          /* the node's name */
} place;

typedef struct {
    mrd_catalog *cat;
    mrd_sink_options options;
    mrd_workers *who;
    mrd_proof *proof;
    place of[PROCESSES];
    uint64_t span[WORKERS];
} world;

static void
clocks_make(world *w, const mrd_sid nodes[NODES])
{
    static const char *const quality[] = { "aligned", "unaligned", "suspect", "aligned" };

    for (size_t i = 0; i < NODES + 1; i++) {
        mrd_clock_info c = { .name = mrd_catalog_intern(w->cat, "a clock"),
                             .node = i < NODES ? nodes[i] : 0,
                             .quality = mrd_catalog_intern(w->cat, quality[below(4)]),
                             .bound_ns = below(3) == 0 ? -1 : 0,
                             .violations = below(5) == 0 };

        if (below(4) != 0)
            mrd_catalog_add_clock(w->cat, &c);
    }
}

static void
processes_make(world *w)
{
    mrd_sid nodes[NODES];
    size_t clocks;

    for (size_t i = 0; i < NODES; i++) {
        char name[20];

        snprintf(name, sizeof(name), "i-%zu", i);
        nodes[i] = mrd_catalog_intern(w->cat, i == 0 ? "unknown" : name);
    }
    clocks_make(w, nodes);
    (void) mrd_catalog_clocks(w->cat, &clocks);
    for (size_t i = 0; i < PROCESSES; i++) {
        size_t node = below(NODES);
        mrd_process p;
        mrd_proc_id id;

        mrd_process_init(&p);
        p.instance_id = nodes[node];
        p.process_id = 100 + (int64_t) i;
        p.scope = (uint32_t) below(2);
        id = mrd_catalog_process(w->cat, &p);
        CHECK_INT(id, i);
        w->of[i] = (place){ nodes[node], p.scope, (uint32_t) below(clocks), node == 0 };
        mrd_catalog_borrow_process(w->cat, id)->clock = w->of[i].clock;
        for (uint64_t n = 1 + below(3); n > 0; n--) {
            mrd_track t;

            mrd_track_init(&t, id, below(2) == 0 ? MRD_SRC_DEVICE : MRD_SRC_FRAMEWORK);
            if (t.source == MRD_SRC_DEVICE)
                t.lnc_idx = (int64_t) n;
            else
                t.device_idx = (int64_t) n;
            (void) mrd_catalog_track(w->cat, &t);
        }
    }
}

static void
world_make(world *w)
{
    mrd_sink_env env;

    *w = (world){ .cat = mrd_catalog_new(), .options = test_sink_options() };
    w->options.same_clock = below(3) == 0;
    processes_make(w);
    env = (mrd_sink_env){ .catalog = w->cat, .options = &w->options };
    w->who = mrd_workers_new(&env);
    REQUIRE(w->who != NULL && mrd_workers_count(w->who) <= WORKERS);
    w->proof = mrd_proof_new(&env, w->who);
    REQUIRE(w->proof != NULL);
    for (uint32_t i = 0; i < mrd_workers_count(w->who); i++) {
        static const uint64_t spans[] = { 0, 1, 999999999, 1000000000, 1000000001, 2500000000 };

        w->span[i] = spans[below(6)];
        if (w->span[i] > 0)
            mrd_proof_span(w->proof, i, w->span[i]);
    }
}

static void
world_free(world *w)
{
    mrd_proof_free(w->proof);
    mrd_workers_free(w->who);
    mrd_catalog_free(w->cat);
}

/* Returns true if clock i is the clock of the process, or a clock of its node. */
static bool
is_of(const mrd_clock_info *c, size_t i, const place *p)
{
    return i == p->clock || (c[i].node != 0 && c[i].node == p->instance);
}

static bool
distrusted(const world *w, const place *p)
{
    size_t n;
    const mrd_clock_info *c = mrd_catalog_clocks(w->cat, &n);

    for (size_t i = 1; i < n; i++)
        if (is_of(c, i, p) &&
            (c[i].violations != 0 || mrd_str_is(mrd_catalog_text(w->cat, c[i].quality), "suspect")))
            return true;
    return false;
}

static bool
bounded(const world *w, const place *p, uint32_t bound)
{
    size_t n;
    const mrd_clock_info *c = mrd_catalog_clocks(w->cat, &n);
    bool any = false;

    for (size_t i = 1; i < n; i++)
        any = any || (is_of(c, i, p) && c[i].bound_ns >= 0);
    return bound != MRD_BOUND_UNKNOWN && (bound != MRD_BOUND_LOCAL || any);
}

static const place *
place_of(const world *w, uint32_t worker)
{
    return &w->of[mrd_workers_at(w->who, worker)->process];
}

/* Returns true if both cores were recorded on the same node with the same clock. */
static bool
together(const world *w, uint32_t a, uint32_t b)
{
    const place *x = place_of(w, a), *y = place_of(w, b);

    if (x == y)
        return true;
    if (x->instance != y->instance)
        return false;
    return w->options.same_clock || (x->scope == y->scope && !x->unknown);
}

/* Returns the possible error, in ns, from converting device time to host time. If the bound of the
 * event includes this error (device_bound), it already counts in a comparison across nodes. If that
 * bound is unknown, no proof is possible, so the result is very large. */
static uint64_t
mapped_by(const world *w, const mrd_gather_part *part, bool across)
{
    uint64_t seconds = 1;

    if (!mrd_workers_at(w->who, part->core)->mapped)
        return 0;
    if (part->device_bound && part->bound_ns == MRD_BOUND_UNKNOWN)
        return INT64_MAX / 4;
    if (part->device_bound)
        return across ? 0 : part->bound_ns;
    while (seconds * 1000000000 < w->span[part->core])
        seconds++;
    return 65000 * seconds;
}

static bool
want_of(const world *w, const mrd_gathered *c, mrd_doubts *ret)
{
    const mrd_gather_part *last = &c->parts[c->n - 1];
    bool by_nodes = true, proven = true, traced = false;

    *ret = (mrd_doubts){ 0 };
    for (size_t i = 0; i + 1 < c->n; i++) {
        const mrd_gather_part *p = &c->parts[i];
        uint64_t late = (uint64_t) (last->begin.ns - p->begin.ns), doubt = 100;
        bool across = !together(w, p->core, last->core);

        if (across) {
            ret->across = true;
            ret->suspect =
                distrusted(w, place_of(w, p->core)) || distrusted(w, place_of(w, last->core));
            ret->no_bound = !ret->suspect && !(bounded(w, place_of(w, p->core), p->bound_ns) &&
                                               bounded(w, place_of(w, last->core), last->bound_ns));
            if (ret->suspect || ret->no_bound)
                return false;
            doubt += (uint64_t) p->bound_ns + last->bound_ns;
        }
        by_nodes = by_nodes && late > doubt;
        proven = proven && late > doubt + mapped_by(w, p, across) + mapped_by(w, last, across);
    }
    for (size_t i = 0; i < c->n; i++)
        traced = traced || (!mrd_workers_at(w->who, c->parts[i].core)->mapped &&
                            mrd_workers_at(w->who, c->parts[i].core)->device_idx != MRD_NONE);
    ret->mapped = by_nodes && !proven;
    ret->traced = proven && traced;
    return proven;
}

/* Returns a random time by which a rank is later, at a limit of the rule, or up to 2 ns above. */
static uint64_t
distance(void)
{
    static const uint64_t sums[] = { 0,      50,     100,    600,    1100,   65100,
                                     65600,  66100,  130100, 130600, 131100, 195100,
                                     195600, 260100, 260600, 325600, 400000 };

    return sums[below(17)] + below(3);
}

static void
collective(world *w, unsigned seen[6])
{
    static const uint32_t bounds[] = { MRD_BOUND_LOCAL, 500, 500, 500, MRD_BOUND_UNKNOWN };
    mrd_gather_part parts[4];
    mrd_gathered c = { .n = 2 + below(3), .parts = parts };
    int64_t last = 10000000;
    mrd_doubts got, want;
    bool proven;

    for (size_t i = 0; i < c.n; i++) {
        parts[i] = (mrd_gather_part){ .core = (uint32_t) below(mrd_workers_count(w->who)),
                                      .bound_ns = bounds[below(5)],
                                      .device_bound = below(2) == 0,
                                      .begin = { last } };
        if (i + 1 < c.n)
            parts[i].begin.ns -= (int64_t) distance();
    }
    proven = want_of(w, &c, &want);
    CHECK(mrd_proof_of(w->proof, &c, &got) == proven);
    CHECK(got.no_bound == want.no_bound && got.suspect == want.suspect &&
          got.mapped == want.mapped);
    CHECK(got.across == want.across && got.traced == want.traced);
    seen[0] += proven;
    seen[1] += got.no_bound;
    seen[2] += got.suspect;
    seen[3] += got.mapped;
    seen[4] += got.across && proven;
    seen[5] += got.traced;
}

TEST(proofs_are_those_of_the_rule)
{
    unsigned seen[6] = { 0 };

    state = test_seed();
    for (int i = 0; i < 400; i++) {
        world w;

        world_make(&w);
        for (int k = 0; k < 50; k++)
            collective(&w, seen);
        world_free(&w);
    }
    for (size_t i = 0; i < 6; i++)
        CHECK(seen[i] > 200); /* each result occurs often */
}

/* If a check contradicts a clock, the proofs that depend on this clock are cancelled. If no proof
 * depends on the clock, or if it is unknown, nothing changes. */
TEST(a_clock_falls_once)
{
    state = test_seed();
    for (int i = 0; i < 300; i++) {
        bool before[PROCESSES], fell = false;
        mrd_clock_info *clocks;
        size_t n, at;
        world w;

        world_make(&w);
        CHECK(!mrd_proof_fell(w.proof));
        for (size_t k = 0; k < PROCESSES; k++)
            before[k] = distrusted(&w, &w.of[k]);
        clocks = mrd_catalog_clocks(w.cat, &n);
        at = below(n);
        if (at > 0)
            clocks[at].violations++;
        for (size_t k = 0; k < PROCESSES; k++)
            fell = fell || (!before[k] && distrusted(&w, &w.of[k]));
        CHECK(mrd_proof_fell(w.proof) == fell);
        world_free(&w);
    }
}

TEST_MAIN()
