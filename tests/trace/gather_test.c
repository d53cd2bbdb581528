/* Tests which spans are joined to one collective, and which cores took part in it
 * (trace/analysis/gather.h). */
#include <limits.h>

#include "tests/seed.h"
#include "tests/trace/events.h"
#include "tests/trace/profile.h"
#include "trace/analysis/gather.h"

typedef struct {
    const char *text; /* group:op:size, core, begin, end, bound */
    uint64_t group, op;
    int64_t size;
    uint32_t core;
    int64_t begin, end;
    uint32_t bound;
} part;

typedef struct {
    char said[512]; /* the cores of each reported collective: "0,1 2 " */
    uint32_t group; /* of the last reported collective */
} receiver;

static void
take(void *self, const mrd_gathered *c)
{
    receiver *r = self;

    for (size_t i = 0; i < c->n; i++) {
        size_t len = strlen(r->said);

        snprintf(r->said + len, sizeof(r->said) - len, "%u%s", c->parts[i].core,
                 i + 1 < c->n ? "," : " ");
        CHECK(i == 0 || !mrd_ev_after(c->parts[i - 1].begin, c->parts[i].begin));
    }
    r->group = c->group;
}

/* A gather object with its own catalog, and the receiver of the collectives that it reports. */
typedef struct {
    test_profile *p;
    receiver r;
    mrd_gather *g;
} world;

static world *
world_new(void)
{
    world *w = calloc(1, sizeof(*w));

    w->p = test_profile_new();
    w->g = mrd_gather_new(w->p->cat, take, &w->r);
    return w;
}

static void
world_free(world *w)
{
    mrd_gather_free(w->g);
    test_profile_free(w->p);
    free(w);
}

static mrd_err
add(mrd_gather *g, const test_profile *p, mrd_cc_kind kind, const part *x, uint32_t members)
{
    mrd_cc what = { .group = x->group, .op = x->op, .size = x->size, .members = members };
    mrd_event ev = { .kind = MRD_SPAN,
                     .ts = { x->begin },
                     .dur_ns = x->end - x->begin,
                     .bound_ns = x->bound,
                     .track = p->device[0] };

    return mrd_gather_add(g, kind, &what, &ev, x->core, 0);
}

TEST(parts_meet_where_they_overlap)
{
    static const struct {
        const char *name, *want;
        part parts[5];
    } rows[] = {
        { "three of one",
          "0,1,2 ",
          { { "", 1, 1, 8, 0, 10, 50, 0 },
            { "", 1, 1, 8, 1, 20, 50, 0 },
            { "", 1, 1, 8, 2, 49, 60, 0 } } },
        { "at the moment at which the first ends",
          "0,1 ",
          { { "", 1, 1, 8, 0, 10, 50, 0 }, { "", 1, 1, 8, 1, 50, 60, 0 } } },
        { "one behind", "0 1 ", { { "", 1, 1, 8, 0, 10, 50, 0 }, { "", 1, 1, 8, 1, 51, 60, 0 } } },
        { "one behind, within its bound",
          "0,1 ",
          { { "", 1, 1, 8, 0, 10, 50, 0 }, { "", 1, 1, 8, 1, 55, 60, 5 } } },
        { "beyond its bound",
          "0 1 ",
          { { "", 1, 1, 8, 0, 10, 50, 0 }, { "", 1, 1, 8, 1, 56, 60, 5 } } },
        { "a bound that is not known",
          "0 1 ",
          { { "", 1, 1, 8, 0, 10, 50, 0 }, { "", 1, 1, 8, 1, 51, 60, MRD_BOUND_UNKNOWN } } },
        { "the first to end, not the first to begin",
          "0,1 2 ",
          { { "", 1, 1, 8, 0, 10, 50, 0 },
            { "", 1, 1, 8, 1, 20, 30, 0 },
            { "", 1, 1, 8, 2, 31, 60, 0 } } },
        { "a core once more",
          "0,1 0,1 ",
          { { "", 1, 1, 8, 0, 10, 90, 0 },
            { "", 1, 1, 8, 1, 20, 90, 0 },
            { "", 1, 1, 8, 0, 30, 95, 0 },
            { "", 1, 1, 8, 1, 40, 95, 0 } } },
        { "another operation",
          "0 1 ",
          { { "", 1, 1, 8, 0, 10, 50, 0 }, { "", 1, 2, 8, 1, 20, 50, 0 } } },
        { "another size",
          "0 1 ",
          { { "", 1, 1, 8, 0, 10, 50, 0 }, { "", 1, 1, 9, 1, 20, 50, 0 } } },
        { "two groups take turns",
          "0,1 2,3 ",
          { { "", 1, 1, 8, 0, 10, 50, 0 },
            { "", 2, 1, 8, 2, 11, 50, 0 },
            { "", 1, 1, 8, 1, 12, 50, 0 },
            { "", 2, 1, 8, 3, 13, 50, 0 } } },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        world *w = world_new();

        for (size_t k = 0; k < 5 && rows[i].parts[k].text != NULL; k++)
            CHECK_ERR(rows[i].name, add(w->g, w->p, MRD_CC_SYNC, &rows[i].parts[k], 0), MRD_OK);
        mrd_gather_finish(w->g);
        if (strcmp(w->r.said, rows[i].want) != 0)
            fprintf(stderr, "%s: '%s', expected '%s'\n", rows[i].name, w->r.said, rows[i].want);
        CHECK_ROW(rows[i].name, strcmp(w->r.said, rows[i].want) == 0);
        mrd_gather_finish(w->g); /* nothing is open any more */
        CHECK_ROW(rows[i].name, strcmp(w->r.said, rows[i].want) == 0);
        world_free(w);
    }
}

/* A part of an ordered group, by the number of its collective. */
typedef struct {
    unsigned number;
    uint32_t core;
    int64_t begin, end;
} drawn_part;

static int
drawn_order(const void *a, const void *b)
{
    const drawn_part *x = a, *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

enum { CORES = 4, COLLECTIVES = 60, BURST = 6 };

/* Draws collectives that two threads of each core execute, so that two run at a time. Cores pause
 * after each burst. Returns the number of parts. */
static size_t
draw_ordered(uint64_t *seed, drawn_part parts[CORES * COLLECTIVES])
{
    int64_t free_at[CORES][2] = { { 0 } }, issued[CORES] = { 0 };
    size_t n = 0;

    for (unsigned c = 0; c < COLLECTIVES; c++) {
        int64_t begin[CORES], end = 0;

        for (uint32_t core = 0; core < CORES; core++) {
            int64_t *thread =
                free_at[core][0] <= free_at[core][1] ? &free_at[core][0] : &free_at[core][1];

            issued[core] += 1 + (int64_t) (test_rand(seed) % 40);
            begin[core] = issued[core] = issued[core] > *thread ? issued[core] : *thread + 1;
            end = begin[core] > end ? begin[core] : end;
        }
        for (uint32_t core = 0; core < CORES; core++) {
            int64_t *thread =
                free_at[core][0] <= free_at[core][1] ? &free_at[core][0] : &free_at[core][1];

            *thread = end + 1 + (int64_t) (test_rand(seed) % 60);
            parts[n++] = (drawn_part){ c, core, begin[core], *thread };
        }
        for (uint32_t core = 0; c % BURST == BURST - 1 && core < CORES; core++)
            issued[core] = free_at[core][0] = free_at[core][1] = 1000 * (int64_t) (c + 1);
    }
    qsort(parts, n, sizeof(*parts), drawn_order);
    return n;
}

typedef struct {
    const drawn_part *parts;
    size_t n, right, mixed;
} drawn_receiver;

/* Compares a reported collective with the drawn ones. */
static void
take_drawn(void *self, const mrd_gathered *c)
{
    drawn_receiver *r = self;
    unsigned number = UINT_MAX;
    bool same = true;

    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < r->n; k++) {
            if (r->parts[k].core != c->parts[i].core || r->parts[k].begin != c->parts[i].begin.ns)
                continue;
            same = same && (number == UINT_MAX || number == r->parts[k].number);
            number = r->parts[k].number;
        }
    r->right += same && c->n == CORES;
    r->mixed += !same;
}

/* Collectives that overlap on each core are matched by order. When one core lost an event, only the
 * rest of that burst may be wrong. */
TEST(an_ordered_group_may_have_several_at_a_time)
{
    uint64_t seed = test_seed();

    for (unsigned round = 0; round < 200; round++) {
        drawn_part parts[CORES * COLLECTIVES];
        size_t n = draw_ordered(&seed, parts), lost = round % 2 == 0 ? n : test_rand(&seed) % n;
        drawn_receiver r = { .parts = parts, .n = n };
        test_profile *p = test_profile_new();
        mrd_gather *g = mrd_gather_new(p->cat, take_drawn, &r);

        for (size_t i = 0; i < n; i++) {
            mrd_cc what = { .group = 1, .op = 1, .size = -1, .ordered = true };
            mrd_event ev = { .kind = MRD_SPAN,
                             .ts = { parts[i].begin },
                             .dur_ns = parts[i].end - parts[i].begin,
                             .track = p->device[0] };

            if (i != lost)
                CHECK(mrd_gather_add(g, MRD_CC_SYNC, &what, &ev, parts[i].core, 0) == MRD_OK);
        }
        mrd_gather_finish(g);
        if (lost == n)
            CHECK(r.right == COLLECTIVES && r.mixed == 0);
        else
            CHECK(r.right >= COLLECTIVES - BURST && r.mixed < BURST);
        mrd_gather_free(g);
        test_profile_free(p);
    }
}

/* Each core that took part in a group is counted once. The number of members is the one that the
 * group's last event states. */
TEST(who_took_part_is_counted)
{
    world *w = world_new();
    part x = { "", 1, 1, 8, 0, 10, 50, 0 };
    uint32_t members;

    for (uint32_t k = 0; k < 6; k++) {
        x.core = k % 3;
        x.begin += 100;
        x.end += 100;
        CHECK_ERR("add", add(w->g, w->p, MRD_CC_BARRIER, &x, 4), MRD_OK);
    }
    CHECK_TEXT(w->r.said, "0 1 2 0 1 ");
    CHECK_INT(mrd_gather_takers(w->g, w->r.group, &members), 3);
    CHECK_INT(members, 4);
    world_free(w);
    mrd_gather_free(NULL);
}

/* Tests the number of expected participants if ranks are missing from the profile. Either no event
 * states the size of the group, or the group is assumed to have all ranks of the job. */
TEST(groups_without_a_size_of_a_job_that_lacks_ranks)
{
    static const struct {
        const char *name;
        int64_t ranks[4]; /* of processes; MRD_NONE for none */
        int64_t world;
        uint32_t said; /* members, as events say */
        bool all;      /* the group is assumed to be all ranks */
        uint32_t cores, want;
    } rows[] = {
        { "nobody says", { MRD_NONE, MRD_NONE, MRD_NONE, MRD_NONE }, MRD_NONE, 0, false, 3, 0 },
        { "no rank, but a size", { MRD_NONE, MRD_NONE, MRD_NONE, MRD_NONE }, 4, 0, false, 3, 0 },
        { "all ranks", { 0, 1, 2, 3 }, 4, 0, false, 3, 0 },
        { "a rank twice", { 0, 1, 2, 2 }, 4, 0, false, 3, MRD_GATHER_MORE },
        { "one lacks", { 0, 1, 3, MRD_NONE }, 4, 0, false, 3, MRD_GATHER_MORE },
        { "one lacks, of a group that says its size", { 0, 1, 3, 3 }, 4, 3, false, 3, 3 },
        { "all of all ranks", { 0, 1, 2, 3 }, 4, 4, true, 4, 4 },
        { "all ranks, two devices each", { 0, 1, 2, 3 }, 4, 4, true, 8, 0 },
        { "two of four ranks", { 0, 1, 1, 1 }, 4, 4, true, 2, 4 },
        { "two of four ranks, two devices each", { 0, 1, 1, 1 }, 4, 4, true, 4, MRD_GATHER_MORE },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        test_profile *p = test_profile_new();
        receiver r = { .said = "" };
        uint32_t members;
        mrd_gather *g;

        for (size_t k = 0; k < 4; k++) {
            mrd_process x;

            mrd_process_init(&x);
            x.process_id = 100 + (int64_t) k;
            x.rank = rows[i].ranks[k];
            x.world_size = rows[i].world;
            (void) mrd_catalog_process(p->cat, &x);
        }
        g = mrd_gather_new(p->cat, take, &r);
        for (uint32_t k = 0; k < rows[i].cores; k++) {
            mrd_cc what = {
                .group = 1, .op = 1, .size = 8, .members = rows[i].said, .world = rows[i].all
            };
            mrd_event ev = {
                .kind = MRD_SPAN, .ts = { 10 + k }, .dur_ns = 50, .track = p->device[0]
            };

            CHECK_ERR(rows[i].name, mrd_gather_add(g, MRD_CC_SYNC, &what, &ev, k, 0), MRD_OK);
        }
        mrd_gather_finish(g);
        CHECK_ROW(rows[i].name, mrd_gather_takers(g, r.group, &members) == rows[i].cores);
        CHECK_ROW(rows[i].name, members == rows[i].want);
        mrd_gather_free(g);
        test_profile_free(p);
    }
}

/* The number of groups is limited. Spans of groups above the limit are only counted, while the
 * groups below the limit are still reported. */
TEST(groups_beyond_the_limit_are_counted)
{
    world *w = world_new();
    part x = { "", 0, 1, 8, 0, 10, 50, 0 };

    for (; x.group < MRD_GATHER_GROUPS + 3; x.group++)
        CHECK(add(w->g, w->p, MRD_CC_SYNC, &x, 0) == MRD_OK);
    CHECK_INT(mrd_gather_left_out(w->g), 3);
    x.group = 5;
    x.core = 1;
    CHECK_ERR("known", add(w->g, w->p, MRD_CC_SYNC, &x, 0), MRD_OK);
    CHECK_INT(mrd_gather_left_out(w->g), 3);
    /* this core already took part, so it begins the next collective and the previous one is
     * reported */
    x.core = 0;
    CHECK_ERR("again", add(w->g, w->p, MRD_CC_SYNC, &x, 0), MRD_OK);
    CHECK_TEXT(w->r.said, "0,1 ");
    world_free(w);
}

/* A SendRecv kernel may be a single transfer or an all-to-all. It counts as an all-to-all if the
 * host's events name an all-to-all and no single send or receive. */
TEST(names_of_the_host_decide_about_sendrecv)
{
    static const struct {
        const char *names[3];
        bool all;
    } rows[] = { { { "gemm" }, false },
                 { { "nccl:all_to_all" }, true },
                 { { "gemm", "nccl:all_to_allv" }, true },
                 { { "nccl:all_to_all", "nccl:send 0->1" }, false },
                 { { "nccl:recv 0<-1", "nccl:all_to_all", "gemm" }, false },
                 { { "nccl:coalesced", "x", "nccl:all_to_all" }, false },
                 { { "nccl:send" }, false } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        test_profile *p = test_profile_new();
        receiver r = { .said = "" };
        part x = { "", 1, 1, 8, 0, 10, 50, 0 };
        mrd_gather *g;

        for (int k = 0; k < 3 && rows[i].names[k] != NULL; k++)
            (void) mrd_catalog_intern(p->cat, rows[i].names[k]);
        CHECK_ROW(rows[i].names[0], mrd_collectives_all_to_all(p->cat) == rows[i].all);
        g = mrd_gather_new(p->cat, take, &r);
        CHECK_ERR("add", add(g, p, MRD_CC_SENDRECV, &x, 0), MRD_OK);
        CHECK_ERR("add", add(g, p, MRD_CC_NO, &x, 0), MRD_OK);
        mrd_gather_finish(g);
        CHECK_ROW(rows[i].names[0], strcmp(r.said, rows[i].all ? "0 " : "") == 0);
        mrd_gather_free(g);
        test_profile_free(p);
    }
}

/* mrd_collectives_named accepts the names of events that belong to collectives on any track. Names
 * of kernels are not accepted. */
TEST(names_of_collectives)
{
    static const struct {
        const char *name;
        bool named;
    } rows[] = { { "cc_running", true },       { "cc_exec_barrier", true }, { "nccl:send", true },
                 { "ncclDevKernel_x", false }, { "gemm", false },           { "cc_runnin", false },
                 { "xcc_running", false } };
    test_profile *p = test_profile_new();
    mrd_sid ids[MRD_COUNT(rows)];
    mrd_collectives *c;

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        ids[i] = mrd_catalog_intern(p->cat, rows[i].name);
    c = mrd_collectives_new(p->cat, NULL);
    for (size_t i = 0; i < 2 * MRD_COUNT(rows); i++) {
        size_t k = i % MRD_COUNT(rows);

        CHECK_ROW(rows[k].name, mrd_collectives_named(c, ids[k]) == rows[k].named);
    }
    CHECK(!mrd_collectives_named(c, 99999));
    mrd_collectives_free(c);
    test_profile_free(p);
}

TEST_MAIN()
