/* Tests the evaluation of the runtime's event numbers (nc_local_id). If numbers are missing (a
 * gap), events were lost, events arrive late, or the numbering began again. */
#include "tests/trace/nrt_feed.h"

typedef struct {
    mrd_catalog *cat;
    size_t n;
} sink;

static mrd_err
keep(void *self, const mrd_event *ev)
{
    (void) ev;
    ((sink *) self)->n++;
    return MRD_OK;
}

/* ---- Numbers of events that the runtime's ring overwrote ---- */

enum { LOST_CORES = 3, LOST_RING = 50, LOST_ROUNDS = 200 };

typedef struct {
    mrd_catalog *cat;
    uint64_t lost[LOST_CORES], given[LOST_CORES];
    uint64_t inside;       /* losses whose time range contains no delivered event of the core */
    const bool *delivered; /* true for each delivered event, by core and time */
    int64_t newest;
} lost_sink;

static bool
was_delivered(const lost_sink *s, int64_t core, int64_t ns)
{
    return ns >= 0 && ns < s->newest && s->delivered[ns * LOST_CORES + core];
}

static mrd_err
lost_emit(void *self, const mrd_event *ev)
{
    lost_sink *s = self;
    const mrd_track *t = mrd_catalog_borrow_track(s->cat, ev->track);

    if (ev->kind != MRD_LOSS) {
        s->given[t->lnc_idx]++;
        return MRD_OK;
    }
    CHECK_INT(t->source, MRD_SRC_MERIDIAN);
    CHECK_TEXT(mrd_catalog_text(s->cat, ev->name).p, "runtime-ring");
    s->lost[t->lnc_idx] += (uint64_t) ev->ivalue;
    for (int64_t ns = ev->ts.ns + 1; ns < ev->ts.ns + ev->dur_ns; ns++)
        if (was_delivered(s, t->lnc_idx, ns - NRT_T0))
            return MRD_OK;
    s->inside++;
    return MRD_OK;
}

/* The runtime keeps the newest 50 events of each core in a ring, which the test fetches at random
 * times. Each document has the events that were not overwritten, slightly out of order, and some
 * events arrive one document later. The reported losses must equal the overwritten events. */
TEST(numbers_show_what_the_ring_overwrote)
{
    uint64_t seed = 7, lost[LOST_CORES] = { 0 }, given[LOST_CORES] = { 0 };
    uint64_t next[LOST_CORES] = { 0 }, gaps = 0;
    static bool delivered[LOST_CORES * LOST_ROUNDS * 200];
    static char text[1 << 16], late[256];
    lost_sink s = { .cat = mrd_catalog_new(), .delivered = delivered };
    mrd_nrt_options o = {
        .catalog = s.cat, .emit = lost_emit, .self = &s, .whole = true, .since = { NRT_T0 }
    };
    mrd_nrt *nrt = NULL;
    int64_t at = 0;

    printf("seed %llu\n", (unsigned long long) seed);
    nrt = nrt_open(&o);
    late[0] = '\0';
    for (int round = 0; round < LOST_ROUNDS; round++) {
        size_t len = (size_t) snprintf(text, sizeof(text), HEAD "%s", late);
        const char *comma = late[0] != '\0' ? "," : "";

        late[0] = '\0';
        for (int core = 0; core < LOST_CORES; core++) {
            uint64_t n = test_rand(&seed) % 120, kept = n < LOST_RING ? n : LOST_RING;
            bool swap = test_rand(&seed) % 2 == 0;

            lost[core] += n - kept;
            gaps += n > kept;
            at += (int64_t) (n - kept); /* each takes a nanosecond */
            for (uint64_t i = 0; i < kept; i++, at++) {
                uint64_t id = next[core] + n - kept + i;
                char one[256];

                if (swap && i + 1 < kept) /* pairs change places */
                    id = i % 2 == 0 && i + 2 < kept ? id + 1 : i % 2 == 1 ? id - 1 : id;
                snprintf(one, sizeof(one),
                         "{\"event_type\":\"x\",\"phase\":\"instant\",\"nc_idx\":%d,"
                         "\"nc_local_id\":%llu,\"timestamp_ns\":%lld,\"data\":{}}",
                         core, (unsigned long long) id, NRT_T0 + (long long) at);
                delivered[at * LOST_CORES + core] = true;
                given[core]++;
                if (late[0] == '\0' && i > 0 && i + 1 < kept && round + 1 < LOST_ROUNDS &&
                    test_rand(&seed) % 16 == 0) {
                    snprintf(late, sizeof(late), "%s", one);
                    continue;
                }
                len += (size_t) snprintf(text + len, sizeof(text) - len, "%s%s", comma, one);
                comma = ",";
            }
            next[core] += n;
        }
        snprintf(text + len, sizeof(text) - len, TAIL);
        s.newest = at;
        nrt_feed(nrt, text);
    }
    CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
    for (int core = 0; core < LOST_CORES; core++) {
        CHECK(lost[core] > 0);
        CHECK_INT(s.lost[core], lost[core]);
        CHECK_INT(s.given[core], given[core]);
    }
    CHECK_INT(mrd_nrt_count(nrt)->lost, lost[0] + lost[1] + lost[2]);
    CHECK(s.inside >= gaps * 9 / 10); /* the other gaps contain an event that arrived late */
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* An event that was reported as lost and then arrives is not output, so that output and lost events
 * add up to the recorded ones. Events of a new numbering are not taken for late ones. */
TEST(what_was_reported_as_lost_is_not_given_too)
{
    enum { N = 200, LATE = 100 };
    static bool delivered[2 * N];
    char text[1 << 14];

    for (int reported = 0; reported < 2;
         reported++) { /* the gap was reported before it was filled */
        lost_sink s = { .cat = mrd_catalog_new(), .delivered = delivered };
        mrd_nrt_options o = { .catalog = s.cat, .emit = lost_emit, .self = &s };
        mrd_nrt *nrt = nrt_open(&o);
        size_t len;

        for (int part = 0; part < 4; part++) {
            int from = part == 3 ? 0 : part == 0 ? 0 : part == 1 ? LATE + 10 : LATE;
            int to = part == 3 ? 50 : part == 0 ? LATE : part == 1 ? N : LATE + 5;
            int64_t base = NRT_T0 + (part == 3 ? 1000000 : 0);

            len = (size_t) snprintf(text, sizeof(text), HEAD);
            for (int i = from; i < to; i++)
                len += (size_t) snprintf(
                    text + len, sizeof(text) - len,
                    "%s{\"event_type\":\"x\",\"phase\":\"instant\",\"nc_idx\":0,\"nc_local_id\":%d,"
                    "\"timestamp_ns\":%lld,\"data\":{}}",
                    i == from ? "" : ",", i, (long long) (base + i));
            snprintf(text + len, sizeof(text) - len, TAIL);
            mrd_nrt_now(nrt, (mrd_local_ns){ 1000 * part });
            nrt_feed(nrt, text);
            if (part == 1 && reported)
                CHECK_ERR("report gaps", mrd_nrt_report_gaps(nrt, (mrd_local_ns){ 1000 * part }),
                          MRD_OK);
        }
        CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
        CHECK_INT(s.lost[0], reported ? 10 : 5);
        CHECK_INT(s.given[0] + s.lost[0], N + 50);
        CHECK_INT(mrd_nrt_count(nrt)->late, reported ? 5 : 0);
        CHECK_INT(mrd_nrt_count(nrt)->records, mrd_nrt_count(nrt)->events);
        mrd_nrt_free(nrt);
        mrd_catalog_free(s.cat);
    }
}

/* If the numbers are not consecutive in general, they do not count events, and no losses are
 * reported. No losses are reported either if the numbering begins again. */
TEST(numbers_that_are_no_count_lose_nothing)
{
    static const int steps[] = { 7, 1 };

    for (int row = 0; row < 2; row++) {
        static char text[1 << 16];
        size_t len = (size_t) snprintf(text, sizeof(text), HEAD);
        static bool delivered[1];
        lost_sink s = { .cat = mrd_catalog_new(), .delivered = delivered };
        mrd_nrt_options o = { .catalog = s.cat, .emit = lost_emit, .self = &s };
        mrd_nrt *nrt = nrt_open(&o);

        for (int i = 0; i < 200; i++)
            len += (size_t) snprintf(
                text + len, sizeof(text) - len,
                "%s{\"event_type\":\"x\",\"phase\":\"instant\",\"nc_idx\":0,\"nc_local_id\":%d,"
                "\"timestamp_ns\":%lld,\"data\":{}}",
                i == 0 ? "" : ",", 1000 + i % 100 * steps[row], NRT_T0 + i);
        snprintf(text + len, sizeof(text) - len, TAIL);
        nrt_feed(nrt, text);
        CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
        CHECK_INT(s.given[0], 200);
        CHECK_INT(mrd_nrt_count(nrt)->lost, 0);
        mrd_nrt_free(nrt);
        mrd_catalog_free(s.cat);
    }
}

/* If numbers are missing on a core, its operations in flight may have ended. A caller that paused
 * (mrd_nrt_apart) may have missed events itself. A gap then is no loss. */
TEST(gaps_of_every_core_count)
{
    for (int core = 0; core < 6; core++)
        for (int apart = 0; apart < 2; apart++) {
            sink s = { .cat = mrd_catalog_new() };
            mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
            mrd_nrt *nrt = nrt_open(&o);

            for (int i = 0; i < 20; i++) /* enough consecutive numbers to be taken for a count */
                nrt_feed_number(nrt, "instant", core, i, i);
            nrt_feed_number(nrt, "start", core, 20, 100);
            CHECK_INT(nrt_in_flight_of(nrt).n, 1);
            if (apart)
                mrd_nrt_apart(nrt);
            CHECK_INT(nrt_in_flight_of(nrt).n, apart ? 0 : 1);
            nrt_feed_number(nrt, "instant", core, 29, 200);
            CHECK_INT(nrt_in_flight_of(nrt).n, 0);
            CHECK(mrd_nrt_has_gaps(nrt) == !apart);
            CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
            CHECK_INT(mrd_nrt_count(nrt)->lost, apart ? 0 : 8);
            mrd_nrt_free(nrt);
            mrd_catalog_free(s.cat);
        }
}

/* ---- Gaps, number by number ---- */

/* mrd_nrt_oldest_gap returns the oldest document that a pending gap of any core needs, and the
 * document before it. */
TEST(gaps_know_their_documents)
{
    static const int cores[] = { 3, 0, 1, 5 };
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = nrt_open(&o);
    uint64_t before;

    for (int64_t i = 0; i < 40; i++) /* they are counts */
        for (size_t k = 0; k < 4; k++)
            nrt_feed_number(nrt, "instant", cores[k], i, i);
    CHECK(mrd_nrt_oldest_gap(nrt, &before) == UINT64_MAX && before == UINT64_MAX);
    for (size_t k = 0; k < 4; k++) {
        mrd_nrt_mark(nrt, 10 + k, false, false);
        nrt_feed_number(nrt, "instant", cores[k], 41 + (k == 1),
                        50); /* 40 is missing, and of the second core also 41 */
        CHECK(mrd_nrt_has_gaps(nrt));
        CHECK_INT(mrd_nrt_oldest_gap(nrt, &before), 10);
        CHECK_INT(before, 10);
    }
    for (size_t k = 0; k < 4; k++) {
        CHECK_INT(mrd_nrt_oldest_gap(nrt, &before), 10 + k);
        CHECK_INT(before, k == 0 ? 10 : 9 + k);
        nrt_feed_number(nrt, "instant", cores[k], 40, 51);
        if (k == 1) {
            CHECK_INT(mrd_nrt_oldest_gap(nrt, &before), 11);
            nrt_feed_number(nrt, "instant", cores[k], 41, 52);
        }
    }
    CHECK(!mrd_nrt_has_gaps(nrt));
    CHECK(mrd_nrt_oldest_gap(nrt, &before) == UINT64_MAX && before == UINT64_MAX);
    CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
    CHECK_INT(mrd_nrt_count(nrt)->lost, 0);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* After a numbering began again, events have numbers that were lost in the old numbering. They are
 * output and not taken for late ones, even if their times are within the old gap. */
TEST(a_new_numbering_is_nobodys_loss)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = nrt_open(&o);
    size_t n;

    for (int64_t i = 0; i < 60; i++)
        if (i < 30 || i >= 40)
            nrt_feed_number(nrt, "instant", 0, i, i);
    CHECK_ERR("report", mrd_nrt_report_gaps(nrt, (mrd_local_ns){ INT64_MAX }), MRD_OK);
    CHECK_INT(mrd_nrt_count(nrt)->lost, 10);
    nrt_feed_number(nrt, "instant", 0, 35, 35); /* it was reported as lost */
    CHECK_INT(mrd_nrt_count(nrt)->late, 1);
    n = s.n;
    for (int64_t i = 20; i < 70; i++)
        nrt_feed_number(nrt, "instant", 0, i, 38);
    CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
    CHECK_INT(s.n, n + 50);
    CHECK_INT(mrd_nrt_count(nrt)->lost, 10);
    CHECK_INT(mrd_nrt_count(nrt)->late, 1);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* Events have numbers that were reported as lost. They are late and are not output, unless a new
 * numbering began within the lost numbers (way 1). In way 2 the document is read again. */
TEST(a_numbering_may_begin_where_others_were_lost)
{
    for (int way = 0; way < 3; way++) {
        sink s = { .cat = mrd_catalog_new() };
        mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
        mrd_nrt *nrt = nrt_open(&o);
        size_t n;

        for (int64_t i = 0; i < 60; i++)
            if (i < 30 || i >= 40)
                nrt_feed_number(nrt, "instant", 0, i, i);
        CHECK_ERR("report", mrd_nrt_report_gaps(nrt, (mrd_local_ns){ INT64_MAX }), MRD_OK);
        for (int64_t i = 10; way == 1 && i < 15; i++) /* another numbering */
            nrt_feed_number(nrt, "instant", 0, i, 36);
        if (way == 2)
            mrd_nrt_mark(nrt, 9, true, false);
        n = s.n;
        nrt_feed_number(nrt, "instant", 0, 33, 35);
        nrt_feed_number(nrt, "instant", 0, 34, 35);
        CHECK_INT(s.n, way == 1 ? n + 2 : way == 2 ? s.n : n);
        CHECK_INT(mrd_nrt_count(nrt)->late, way == 0 ? 2 : 0);
        mrd_nrt_free(nrt);
        mrd_catalog_free(s.cat);
    }
}

enum { NUMBERS = 900 };

typedef struct {
    mrd_catalog *cat;
    uint64_t given, lost, told;
} made;

static mrd_err
count_made(void *self, const mrd_event *ev)
{
    made *m = self;

    if (ev->kind == MRD_LOSS) {
        CHECK(ev->ivalue > 0);
        m->lost += (uint64_t) ev->ivalue;
        m->told++;
    } else {
        m->given++;
    }
    return MRD_OK;
}

/* There are many gaps, and some of the missing numbers arrive later in any order. Each number must
 * be either output or reported as lost. A number that arrived while its gap was open must not be
 * reported as lost. */
TEST(gaps_are_filled_in_any_order)
{
    uint64_t seed = 20261123;

    for (int round = 0; round < 60; round++) {
        made m = { .cat = mrd_catalog_new() };
        mrd_nrt_options o = { .catalog = m.cat, .emit = count_made, .self = &m };
        mrd_nrt *nrt = nrt_open(&o);
        int64_t held[NUMBERS];
        size_t n_held = 0, gaps = 0, missing = 0;
        uint64_t many = round % 3 == 0 ? 9 : 60; /* rare enough for a count */
        bool before = true;

        for (int64_t i = 0; i < NUMBERS; i++) {
            bool comes = before ? i < 20 || i == NUMBERS - 1 || test_rand(&seed) % many != 0
                                : test_rand(&seed) % 3 == 0;

            gaps += before && !comes;
            before = comes || i == NUMBERS - 2;
            comes = comes || i == NUMBERS - 1;
            if (comes)
                nrt_feed_number(nrt, "instant", 2, i, i);
            else
                held[n_held++] = i;
        }
        /* delivers the held events in any order, and drops some */
        for (size_t left = n_held; left > 0; left--) {
            size_t i = (size_t) (test_rand(&seed) % left);
            int64_t number = held[i];

            held[i] = held[left - 1];
            if (test_rand(&seed) % 3 == 0)
                missing++;
            else
                nrt_feed_number(nrt, "instant", 2, number, number);
        }
        CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
        CHECK_INT(m.given + m.lost, NUMBERS);
        CHECK_INT(mrd_nrt_count(nrt)->lost, m.lost);
        CHECK_INT(mrd_nrt_count(nrt)->late, m.lost - missing);
        if (gaps <
            /* far below the limit, so each gap was reported with exactly its missing numbers */
            40) {
            CHECK_INT(m.lost, missing);
            CHECK(m.told <= missing);
        }
        mrd_nrt_free(nrt);
        mrd_catalog_free(m.cat);
    }
}

/* If more than a quarter of the steps from number to number are jumps, the numbers do not count
 * events, even if the first ones were consecutive. No losses are reported. */
TEST(numbers_with_many_jumps_lose_nothing)
{
    for (int64_t steps = 10; steps <= 12; steps++) {
        sink s = { .cat = mrd_catalog_new() };
        mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
        mrd_nrt *nrt = nrt_open(&o);

        for (int64_t i = 0; i <= steps; i++)
            nrt_feed_number(nrt, "instant", 0, i, i);
        for (int64_t jump = 1; jump <= 3; jump++)
            nrt_feed_number(nrt, "instant", 0, 100 * jump, 100 * jump);
        CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
        CHECK_INT(mrd_nrt_count(nrt)->lost, steps < 11 ? 0 : 297 - steps);
        mrd_nrt_free(nrt);
        mrd_catalog_free(s.cat);
    }
}

/* A jump over fewer than 2^40 numbers is a loss, wherever the numbering began. A larger jump is the
 * begin of another numbering, because a runtime cannot have lost so many events. */
TEST(numbers_that_are_far_ahead_are_another_numbering)
{
    static const int64_t begins[] = { 1, 3ll << 39, 1ll << 62 };
    static const struct {
        int64_t missing;
        bool lost;
    } jumps[] = {
        { 10, true }, { (1ll << 40) - 1, true }, { 1ll << 40, false }, { 3ll << 39, false }
    };

    for (size_t b = 0; b < MRD_COUNT(begins); b++) {
        for (size_t k = 0; k < MRD_COUNT(jumps); k++) {
            sink s = { .cat = mrd_catalog_new() };
            mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
            mrd_nrt *nrt = nrt_open(&o);
            int64_t number = begins[b];

            for (int64_t i = 0; i < 20; i++)
                nrt_feed_number(nrt, "instant", 0, number++, i);
            number += jumps[k].missing;
            for (int64_t i = 20; i < 40; i++)
                nrt_feed_number(nrt, "instant", 0, number++, i);
            CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
            CHECK_INT(mrd_nrt_count(nrt)->lost, jumps[k].lost ? jumps[k].missing : 0);
            mrd_nrt_free(nrt);
            mrd_catalog_free(s.cat);
        }
    }
}

TEST_MAIN()
