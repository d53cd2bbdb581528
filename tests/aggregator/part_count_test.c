/* Tests the counts of events that a node contributed to a session (its part), across reboots of the
 * node and restarts of its agent. Reports arrive in any order. */
#include "tests/check.h"

#include "aggregator/core/common/json.h"
#include "aggregator/core/manifest/empty.h"
#include "aggregator/core/node/part.h"
#include "base/buf.h"

static int64_t now_s; /* the node's clock, one second per report */

typedef struct {
    uint64_t since, begun, delivered, lost, held;
} told;

typedef struct {
    const char *name;
    told before, boot, after, want; /* boot and want: `since` is ignored */
    uint64_t gone;                  /* of lost */
} row;

static void
fill(Mrd__Drop *d, Mrd__Drop **list, uint64_t lost)
{
    static char cause[] = "ring-full";

    mrd__drop__init(d);
    d->cause = cause;
    d->count = lost;
    *list = d;
}

static void
tell(mrd_part *p, const told *t, const told *at_boot)
{
    Mrd__Counters c = MRD__COUNTERS__INIT;
    Mrd__CountersAtBoot base = MRD__COUNTERS_AT_BOOT__INIT;
    Mrd__Drop d[2], *list[2];

    fill(&d[0], &list[0], t->lost);
    c.since = t->since;
    c.begun = t->begun;
    c.delivered = t->delivered;
    c.held = t->held;
    c.drops = list;
    c.n_drops = t->lost > 0;
    if (at_boot != NULL) {
        fill(&d[1], &list[1], at_boot->lost);
        base.begun = at_boot->begun;
        base.delivered = at_boot->delivered;
        base.held = at_boot->held;
        base.drops = &list[1];
        base.n_drops = at_boot->lost > 0;
        c.at_boot = &base;
    }
    mrd_part_count(p, t->since, (mrd_local_ns){ ++now_s * MRD_SEC },
                   &c); /* each agent has the epoch with its number */
}

static void
store(mrd_part *p, uint64_t epoch, uint32_t events)
{
    mrd_frame f = {
        .type = MRD_FRAME_BATCH, .epoch = epoch, .seq = mrd_part_frames(p), .events = events
    };

    CHECK_ERR("store", mrd_part_stored(p, &f), MRD_OK);
}

static uint64_t
lost_by(const mrd_part *p, const char *cause)
{
    for (unsigned i = 0; i < p->counts.n_losses; i++)
        if (strcmp(p->counts.losses[i].cause, cause) == 0)
            return p->counts.losses[i].count;
    return 0;
}

static void
check(const row *r, const mrd_part *p, const told *want, uint64_t gone)
{
    CHECK_ROW(r->name, p->counts.begun == want->begun);
    CHECK_ROW(r->name, p->counts.delivered == want->delivered);
    CHECK_ROW(r->name, p->counts.held == want->held);
    CHECK_ROW(r->name, lost_by(p, "ring-full") == want->lost - gone);
    CHECK_ROW(r->name, lost_by(p, "agent-restarted") == gone);
    CHECK_ROW(r->name, p->counts.begun ==
                           p->counts.delivered + mrd_counts_lost(&p->counts) + p->counts.held);
}

static const row began_anew[] = {
    /* name; before, at boot, after, wanted, each { since, begun, delivered, lost, held }; gone */
    { "all was on the disk",
      { 5, 100, 60, 10, 30 },
      { 0, 100, 60, 10, 30 },
      { 6, 120, 90, 10, 20 },
      { 0, 120, 90, 10, 20 },
      0 },
    { "more was on the disk than told",
      { 5, 100, 60, 10, 30 },
      { 0, 150, 70, 20, 50 },
      { 6, 140, 70, 20, 50 },
      { 0, 150, 70, 30, 50 },
      10 },
    { "nothing was told before",
      { 0, 0, 0, 0, 0 },
      { 0, 150, 70, 20, 50 },
      { 6, 140, 70, 20, 50 },
      { 0, 150, 70, 30, 50 },
      10 },
    { "less than told, and all of it lost",
      { 5, 100, 60, 10, 30 },
      { 0, 40, 20, 5, 0 },
      { 6, 30, 25, 5, 0 },
      { 0, 105, 65, 40, 0 },
      30 },
    { "less than told: it was delivered, and is held again",
      { 5, 100, 90, 10, 0 },
      { 0, 60, 40, 5, 15 },
      { 6, 60, 40, 5, 15 },
      { 0, 115, 90, 10, 15 },
      0 },
    { "... until the answer says that it was known",
      { 5, 100, 90, 10, 0 },
      { 0, 60, 40, 5, 15 },
      { 6, 45, 40, 5, 0 },
      { 0, 100, 90, 10, 0 },
      0 },
    { "as much begun, less delivered",
      { 5, 100, 90, 0, 10 },
      { 0, 100, 50, 0, 50 },
      { 6, 60, 60, 0, 0 },
      { 0, 100, 100, 0, 0 },
      0 },
    { "nothing was there",
      { 5, 100, 60, 10, 30 },
      { 0, 0, 0, 0, 0 },
      { 6, 20, 15, 5, 0 },
      { 0, 120, 75, 45, 0 },
      30 },
};

TEST(a_node_that_began_anew)
{
    for (size_t i = 0; i < MRD_COUNT(began_anew); i++) {
        const row *r = &began_anew[i];
        mrd_node n = { .instance_id = "i-1" };
        mrd_part *p = mrd_part_new(&n, 1);

        REQUIRE(p != NULL);
        p->first.ns = 1; /* nothing is stored, so the loss has no time */
        if (r->before.since != 0)
            tell(p, &r->before, NULL);
        for (int again = 0; again < 2; again++) {
            tell(p, &r->after, &r->boot);
            check(r, p, &r->want, r->gone);
        }
        mrd_part_free(p);
    }
}

/* The agent does not report what it had at its boot. Everything that it counts is then new, and
 * events that the previous agent held are lost. */
TEST(an_agent_that_kept_nothing)
{
    static const row r = { .name = "kept nothing" };
    mrd_node n = { .instance_id = "i-1" };
    mrd_part *p = mrd_part_new(&n, 1);

    REQUIRE(p != NULL);
    tell(p, &(told){ 5, 100, 60, 10, 30 }, NULL);
    tell(p, &(told){ 6, 10, 5, 1, 4 }, NULL);
    check(&r, p, &(told){ 0, 110, 65, 41, 4 }, 30);
    tell(p, &(told){ 6, 8, 7, 1, 0 }, NULL); /* fewer begun, because an earlier boot began them */
    check(&r, p, &(told){ 0, 108, 67, 41, 0 }, 30);
    mrd_part_free(p);
    /* the same with agents of an older release, in which the counts of all spools have `since` 1 */
    p = mrd_part_new(&n, 1);
    REQUIRE(p != NULL);
    tell(p, &(told){ 1, 100, 60, 10, 30 }, NULL);
    tell(p, &(told){ 1, 10, 5, 1, 4 }, NULL);
    check(&r, p, &(told){ 0, 110, 65, 41, 4 }, 30);
    mrd_part_free(p);
}

/* Events that the agent sent after its last report are stored. They count as begun and delivered,
 * and the events it held are not lost. Stored loss records are not events. Their number is limited
 * to the number of losses. */
TEST(what_is_stored_of_an_agent_that_kept_nothing)
{
    static const struct {
        row r; /* before, after, want, gone */
        uint32_t stored;
    } rows[] = {
        { { "held and stored",
            { 5, 100, 60, 0, 40 },
            { 0 },
            { 6, 7, 0, 0, 7 },
            { 0, 107, 100, 0, 7 },
            0 },
          100 },
        { { "stored since",
            { 5, 100, 60, 0, 40 },
            { 0 },
            { 6, 7, 0, 0, 7 },
            { 0, 157, 150, 0, 7 },
            0 },
          150 },
        { { "half of it",
            { 5, 100, 60, 0, 40 },
            { 0 },
            { 6, 7, 0, 0, 7 },
            { 0, 107, 80, 20, 7 },
            20 },
          80 },
        { { "with losses",
            { 5, 100, 60, 10, 30 },
            { 0 },
            { 6, 7, 0, 0, 7 },
            { 0, 107, 80, 20, 7 },
            10 },
          90 },
        { { "nothing was said of it",
            { 5, 0, 0, 0, 0 },
            { 0 },
            { 6, 7, 0, 0, 7 },
            { 0, 57, 50, 0, 7 },
            0 },
          50 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_node n = { .instance_id = "i-1" };
        mrd_part *p = mrd_part_new(&n, 1);

        REQUIRE(p != NULL);
        tell(p, &rows[i].r.before, NULL);
        store(p, 5, rows[i].stored);
        tell(p, &rows[i].r.after, NULL);
        check(&rows[i].r, p, &rows[i].r.want, rows[i].r.gone);
        store(p, 6, 7); /* the next one, too */
        tell(p, &(told){ 7, 0, 0, 0, 0 }, NULL);
        CHECK_ROW(rows[i].r.name, p->counts.held == 0 && p->counts.begun == rows[i].r.want.begun);
        mrd_part_free(p);
    }
}

/* Frames that the next run stores before its first report belong to the next run. */
TEST(what_the_next_run_stored_is_not_of_the_last)
{
    static const told last = { 5, 100, 60, 0, 40 };
    mrd_node n = { .instance_id = "i-1" };
    mrd_part *p = mrd_part_new(&n, 1);

    REQUIRE(p != NULL);
    store(p, 5, 70);
    tell(p, &last, NULL);
    store(p, 6, 7);
    tell(p, &(told){ 6, 7, 7, 0, 0 }, NULL);
    CHECK_INT(p->counts.delivered, 77);
    CHECK_INT(p->counts.begun, 107);
    CHECK_INT(lost_by(p, "agent-restarted"), 30);
    mrd_part_free(p);
}

/* Returns the part itself. If `restarts`, returns instead a part that was saved to a manifest and
 * loaded again, as after a restart of the aggregator. */
static mrd_part *
restarted(mrd_part *p, bool restarts)
{
    mrd_node n = { .instance_id = "i-1" };
    mrd_json *o = mrd_json_new_object();
    mrd_part *q = mrd_part_new(&n, 1);

    if (!restarts) {
        mrd_json_free(o);
        mrd_part_free(q);
        return p;
    }
    if (q == NULL)
        abort();
    mrd_part_counts_put(p, o);
    mrd_part_counts_load(q, o);
    for (unsigned i = 0; i < p->n_epochs; i++) {
        store(q, p->epochs[i].epoch, (uint32_t) p->epochs[i].events);
        mrd_part_epoch_find(q, p->epochs[i].epoch)->since = p->epochs[i].since;
    }
    mrd_json_free(o);
    mrd_part_free(p);
    return q;
}

/* Two agents with different spools alternate under one instance id. Each continues its own counts.
 * Events that the inactive one holds count as lost until it returns. A third agent keeps
 * nothing. */
TEST(agents_that_take_turns)
{
    static const struct {
        row r; /* after, want, gone */
        uint64_t epoch;
        uint32_t stored;
        /* number of agents that were replaced, each a second after its last report */
        unsigned away;
    } rows[] = {
        { { "the first", { 0 }, { 0 }, { 5, 100, 60, 10, 30 }, { 0, 100, 60, 10, 30 }, 0 },
          5,
          80,
          0 },
        { { "the second: 80 are stored, 20 of them losses or sent behind the last word",
            { 0 },
            { 0 },
            { 7, 50, 40, 0, 10 },
            { 0, 150, 110, 30, 10 },
            20 },
          7,
          40,
          1 },
        { { "the first again", { 0 }, { 0 }, { 5, 130, 120, 10, 0 }, { 0, 180, 160, 20, 0 }, 10 },
          5,
          40,
          1 },
        { { "the second again", { 0 }, { 0 }, { 7, 60, 60, 0, 0 }, { 0, 190, 180, 10, 0 }, 0 },
          7,
          20,
          1 },
        { { "one that keeps nothing", { 0 }, { 0 }, { 8, 9, 0, 1, 8 }, { 0, 199, 180, 11, 8 }, 0 },
          8,
          5,
          2 },
        { { "the second: it had one more",
            { 0 },
            { 0 },
            { 7, 61, 61, 0, 0 },
            { 0, 200, 185, 15, 0 },
            4 },
          7,
          1,
          2 },
        { { "another that keeps nothing",
            { 0 },
            { 0 },
            { 9, 2, 2, 0, 0 },
            { 0, 202, 187, 15, 0 },
            4 },
          9,
          2,
          3 },
        { { "the first", { 0 }, { 0 }, { 5, 131, 121, 10, 0 }, { 0, 203, 188, 15, 0 }, 4 },
          5,
          1,
          3 },
    };

    for (int restarts = 0; restarts < 2; restarts++) {
        mrd_node n = { .instance_id = "i-1" };
        mrd_part *p = mrd_part_new(&n, 1);

        REQUIRE(p != NULL);
        for (size_t i = 0; i < MRD_COUNT(rows); i++) {
            tell(p, &rows[i].r.after, NULL);
            check(&rows[i].r, p, &rows[i].r.want, rows[i].r.gone);
            store(p, rows[i].epoch, rows[i].stored);
            tell(p, &rows[i].r.after, NULL);
            check(&rows[i].r, p, &rows[i].r.want, rows[i].r.gone);
            p = restarted(p, restarts != 0);
            check(&rows[i].r, p, &rows[i].r.want, rows[i].r.gone);
            CHECK_ROW(rows[i].r.name,
                      p->uncounted.runs == rows[i].away && p->uncounted.unknown == 0);
            CHECK_ROW(rows[i].r.name, p->uncounted.within == rows[i].away * MRD_SEC);
        }
        mrd_part_free(p);
    }
}

/* The message about uncounted events has their longest possible duration, if the clocks allow
 * it. */
TEST(what_is_in_no_count_is_said)
{
    mrd_node n = { .instance_id = "i-1" };
    mrd_part *p = mrd_part_new(&n, 1);
    char text[MRD_WHY_MAX];

    REQUIRE(p != NULL);
    tell(p, &(told){ 5, 10, 10, 0, 0 }, NULL);
    CHECK(!mrd_part_uncounted_text(p, text));
    now_s += 2;
    tell(p, &(told){ 6, 10, 10, 0, 0 }, NULL);
    CHECK(mrd_part_uncounted_text(p, text));
    CHECK(strstr(text, "1 run of the agent ended") != NULL &&
          strstr(text, "3.0 s at most") != NULL);
    now_s -= 100; /* another boot's clock */
    tell(p, &(told){ 7, 10, 10, 0, 0 }, NULL);
    CHECK(mrd_part_uncounted_text(p, text));
    CHECK(strstr(text, "2 runs") != NULL && strstr(text, "at most") == NULL);
    p = restarted(p, true);
    CHECK(p->uncounted.runs == 2 && p->uncounted.unknown == 1 &&
          p->uncounted.within == 3 * MRD_SEC);
    tell(p, &(told){ 6, 11, 11, 0, 0 }, NULL);
    CHECK(p->uncounted.runs == 2 && p->uncounted.unknown == 0 &&
          p->uncounted.within == 4 * MRD_SEC);
    mrd_part_free(p);
}

/* More agents alternate than are stored separately. The earlier counts stay in the sum. */
TEST(more_agents_than_are_kept_apart)
{
    mrd_node n = { .instance_id = "i-1" };
    mrd_part *p = mrd_part_new(&n, 1);
    static const row r = { .name = "many" };
    told want = { 0 };

    REQUIRE(p != NULL);
    for (uint64_t i = 0; i < 3 * MRD_RUNS_MAX; i++) {
        tell(p, &(told){ 2 + i, 10, 7, 3, 0 }, NULL);
        want = (told){ 0, want.begun + 10, want.delivered + 7, want.lost + 3, 0 };
        check(&r, p, &want, 0);
        CHECK(p->n_runs <= MRD_RUNS_MAX);
    }
    tell(p, &(told){ 2 * MRD_RUNS_MAX + 3, 11, 8, 3, 0 }, NULL); /* it is still known */
    check(&r, p, &(told){ 0, want.begun + 1, want.delivered + 1, want.lost, 0 }, 0);
    mrd_part_free(p);
}

/* Reports up to two causes with up to two gaps each. Only the last report counts. */
static void
tell_losses(mrd_part *p, unsigned causes, unsigned gaps)
{
    static char names[2][16] = { "ring-full", "spool-full" };
    Mrd__Counters c = MRD__COUNTERS__INIT;
    Mrd__Drop d[2], *drops[2];
    Mrd__Gap g[2][2], *lists[2][2];

    c.since = 5;
    c.begun = c.clock_frames_lost = 10 * causes;
    c.drops = drops;
    for (c.n_drops = 0; c.n_drops < causes; c.n_drops++) {
        size_t i = c.n_drops;

        fill(&d[i], &drops[i], 10);
        d[i].cause = names[i];
        d[i].gaps = lists[i];
        d[i].gaps_merged = gaps == 2;
        for (d[i].n_gaps = 0; d[i].n_gaps < gaps; d[i].n_gaps++) {
            size_t k = d[i].n_gaps;

            mrd__gap__init(&g[i][k]);
            g[i][k].first_ns = (int64_t) (1000 * (i + 1) + 100 * k);
            g[i][k].last_ns = g[i][k].first_ns + 50;
            g[i][k].count = 5 + k;
            lists[i][k] = &g[i][k];
        }
    }
    mrd_part_count(p, 1, (mrd_local_ns){ ++now_s * MRD_SEC }, &c);
}

static char *
counts_text(const mrd_counts *c)
{
    mrd_json *o = mrd_counts_json(c);
    mrd_buf text = { 0 };

    mrd_json_write(o, false, &text);
    mrd_json_free(o);
    mrd_buf_add(&text, "", 1);
    return (char *) text.p;
}

/* The counts of a part equal those after a single report, and a copy has the same. */
TEST(counts_hold_nothing_of_what_was_told_before)
{
    static const unsigned words[][2] = {
        { 2, 2 }, { 1, 2 }, { 2, 1 }, { 1, 0 }, { 0, 0 }, { 2, 2 }
    };
    mrd_node n = { .instance_id = "i-1" };
    mrd_part *p = mrd_part_new(&n, 1);

    REQUIRE(p != NULL);
    p->before.begun = p->before.delivered = 3; /* of an earlier run */
    p->before.clock_lost = 4;
    for (size_t i = 0; i < MRD_COUNT(words); i++) {
        mrd_part *fresh = mrd_part_new(&n, 1), *copy;
        char *have, *want, *copied, *copied_before;

        REQUIRE(fresh != NULL);
        fresh->before.begun = fresh->before.delivered = 3;
        fresh->before.clock_lost = 4;
        tell_losses(p, words[i][0], words[i][1]);
        tell_losses(fresh, words[i][0], words[i][1]);
        REQUIRE((copy = mrd_part_copy(p)) != NULL);
        have = counts_text(&p->counts);
        want = counts_text(&fresh->counts);
        copied = counts_text(&copy->counts);
        copied_before = counts_text(&copy->before);
        CHECK_TEXT(have, want);
        CHECK_TEXT(copied, want);
        CHECK((strstr(want, "gaps_merged") != NULL) == (words[i][0] > 0 && words[i][1] == 2));
        CHECK_INT(copy->counts.begun, 10 * words[i][0] + 3);
        CHECK(strstr(copied_before, "\"begun\":3,") != NULL);
        CHECK_INT(mrd_counts_lost(&copy->last_run), 10 * words[i][0]);
        CHECK_INT(p->counts.clock_lost, 10 * words[i][0] + 4);
        free(have);
        free(want);
        free(copied);
        free(copied_before);
        mrd_part_free(fresh);
        mrd_part_free(copy);
    }
    mrd_part_free(p);
}

/* Writes the counters of the manifest and checks them: begun, delivered, and the events that the
 * store lacks. Returns the part after a restart of the aggregator. */
static mrd_part *
check_manifest(const char *what, mrd_part *p, const told *want, uint64_t missing)
{
    mrd_json *o = mrd_json_new_object();
    const mrd_json *c, *drops;
    int64_t sum = 0, of_store = 0;

    mrd_part_counts_put(p, o);
    c = mrd_json_get(o, "counters");
    drops = mrd_json_get(c, "drops");
    for (size_t i = 0; i < mrd_json_size(drops); i++) {
        const mrd_json *d = mrd_json_at(drops, i);
        int64_t count = mrd_json_int(d, "count", 0);

        sum += count;
        if (strcmp(mrd_json_str(d, "cause", ""), "store-missing") == 0)
            of_store += count;
    }
    CHECK_ROW(what, mrd_json_int(c, "begun", 0) == (int64_t) want->begun);
    CHECK_ROW(what, mrd_json_int(c, "delivered", 0) == (int64_t) (want->delivered - missing));
    CHECK_ROW(what, mrd_json_int(c, "held", 0) == (int64_t) want->held);
    CHECK_ROW(what, mrd_json_int(c, "dropped", 0) == sum && of_store == (int64_t) missing);
    CHECK_ROW(what, (uint64_t) sum == want->lost + missing && mrd_part_lost(p) == (uint64_t) sum);
    CHECK_ROW(what, want->begun == want->delivered - missing + (uint64_t) sum + want->held);
    mrd_json_free(o);
    return restarted(p, true);
}

/* A store that was restored from an older copy lacks events that the agent delivered. They are lost
 * as soon as the part is over, until the agent sends them again. */
TEST(delivered_events_that_the_store_lacks)
{
    static const struct {
        const char *what;
        told report;
        uint64_t epoch;
        uint32_t stored; /* now */
        mrd_part_state state;
        uint64_t missing;
    } rows[] = {
        { "all are stored", { 5, 60, 50, 0, 10 }, 5, 50, MRD_PART_RECORDING, 0 },
        { "still recording", { 5, 260, 200, 0, 60 }, 5, 10, MRD_PART_RECORDING, 0 },
        { "it may still send", { 5, 260, 260, 0, 0 }, 5, 60, MRD_PART_STOPPING, 0 },
        { "flushed", { 5, 260, 260, 0, 0 }, 5, 0, MRD_PART_FLUSHED, 140 },
        { "the node was lost", { 5, 270, 260, 0, 10 }, 5, 0, MRD_PART_LOST, 140 },
        { "some are sent again", { 5, 270, 260, 0, 10 }, 5, 40, MRD_PART_FLUSHED, 100 },
        /* the end of the old spool's numbers was never reported */
        { "another spool", { 5, 280, 280, 0, 0 }, 6, 20, MRD_PART_FLUSHED, 100 },
        { "losses and their record", { 5, 300, 290, 10, 0 }, 6, 11, MRD_PART_FLUSHED, 99 },
        { "all are sent again", { 5, 300, 290, 10, 0 }, 5, 100, MRD_PART_FLUSHED, 0 },
    };
    mrd_node n = { .instance_id = "i-1" };
    mrd_part *p = mrd_part_new(&n, 1);
    char text[MRD_WHY_MAX], number[48];

    REQUIRE(p != NULL);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        tell(p, &rows[i].report, NULL);
        if (rows[i].stored > 0)
            store(p, rows[i].epoch, rows[i].stored);
        p->state = rows[i].state;
        CHECK_ROW(rows[i].what, mrd_part_store_missing(p) == rows[i].missing);
        CHECK_ROW(rows[i].what, mrd_part_store_missing_text(p, text) == (rows[i].missing > 0));
        snprintf(number, sizeof(number), "at least %d events", (int) rows[i].missing);
        CHECK_ROW(rows[i].what, (strstr(text, number) != NULL) == (rows[i].missing > 0));
        p = check_manifest(rows[i].what, p, &rows[i].report, rows[i].missing);
        check(&(row){ .name = rows[i].what }, p, &rows[i].report, 0);
    }
    mrd_part_free(p);
}

static void
tell_tally(mrd_part *p, uint64_t chosen, uint64_t left_out, uint64_t in_flight)
{
    Mrd__SessionTally t = MRD__SESSION_TALLY__INIT;

    t.chosen = chosen;
    t.left_out = left_out;
    t.in_flight = in_flight;
    mrd_part_tally(p, &t);
}

/* The sum over all runs of the agent is correct, with any restarts of the aggregator between
 * them. */
TEST(what_was_there_is_counted_over_restarts_of_both)
{
    for (unsigned restarts = 0; restarts < 8;
         restarts++) { /* bit i: the aggregator restarts after report i */
        mrd_node n = { .instance_id = "i-1" };
        mrd_part *p = mrd_part_new(&n, 1);
        static const uint64_t words[][3] = { { 100, 7, 3 }, { 50, 2, 0 }, { 60, 2, 1 } };
        mrd_json *o = NULL;

        REQUIRE(p != NULL);
        for (unsigned i = 0; i < MRD_COUNT(words); i++) {
            tell_tally(p, words[i][0], words[i][1], words[i][2]);
            mrd_json_free(o);
            o = mrd_part_tally_json(p);
            if ((restarts >> i & 1) != 0)
                mrd_part_tally_load(p, o);
        }
        CHECK_INT(mrd_json_int(o, "chosen", 0), 160);
        CHECK_INT(mrd_json_int(o, "left_out", 0), 9);
        CHECK_INT(mrd_json_int(o, "in_flight", 0), 4);
        mrd_json_free(o);
        mrd_part_free(p);
    }
}

TEST_MAIN()
