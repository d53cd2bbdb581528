/* The runtime's trace fetch by fetch: hardware events in either clock whose ends come first, what is in flight by a
 * device's clock, which documents gaps are of, and what is held. */
#include "tests/check.h"

#include "tests/trace/events.h"
#include "trace/import/import_nrt.h"

#define HEAD "{\"data_version\":2,\"events\":["
#define TAIL "]}"
#define T0   1700000000000000000ll

typedef struct {
    mrd_catalog *cat;
    size_t n, counters;
    mrd_event span; /* the last one */
} sink;

static mrd_err
keep(void *self, const mrd_event *ev)
{
    sink *s = self;

    s->n++;
    s->counters += ev->kind == MRD_COUNTER && ev->ivalue == 0;
    if (ev->kind == MRD_SPAN)
        s->span = *ev;
    return MRD_OK;
}

static mrd_nrt *
open_nrt(mrd_nrt_options *o)
{
    mrd_nrt *nrt = NULL;
    mrd_process p;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(o->catalog, "i-1");
    o->process = mrd_catalog_process(o->catalog, &p);
    CHECK_ERR("new", mrd_nrt_new(o, &nrt, NULL), MRD_OK);
    return nrt;
}

static void
feed(mrd_nrt *nrt, const char *events)
{
    static char text[1 << 16];
    mrd_in *in = NULL;
    size_t len = (size_t) snprintf(text, sizeof(text), HEAD "%s" TAIL, events);

    CHECK_ERR("in", mrd_in_memory((mrd_bytes){ (const uint8_t *) text, len }, "fetch", &in, NULL),
              MRD_OK);
    CHECK_ERR("parse", mrd_nrt_parse(nrt, in, NULL), MRD_OK);
    mrd_in_close(in);
}

/* A start or stop of an execution on a core, in host or device time. */
static void
feed_running(mrd_nrt *nrt, const char *phase, int core, int track, int64_t ts, int64_t nc_ts)
{
    char text[600];

    snprintf(
        text, sizeof(text),
        "{\"event_type\":\"nc_exec_running\",\"phase\":\"%s\",\"nc_idx\":%d,\"tracking_id\":%d,"
        "\"timestamp_ns\":%lld,\"data\":{\"exec_id\":5,\"nc_timestamp_ns\":%lld}}",
        phase, core, track, (long long) ts, (long long) nc_ts);
    feed(nrt, text);
}

static void
feed_sync(mrd_nrt *nrt, int core, int exec, int64_t device, int64_t host)
{
    char text[600];

    snprintf(text, sizeof(text),
             "{\"event_type\":\"timestamp_sync_point\",\"phase\":\"instant\",\"nc_idx\":%d,"
             "\"timestamp_ns\":%lld,\"data\":{\"exec_id\":%d,\"nc_timestamp_ns\":%lld,"
             "\"cpu_timestamp_ns\":%lld}}",
             core, (long long) host, exec, (long long) device, (long long) host);
    feed(nrt, text);
}

/* Whichever clock it is in and whichever of both comes first, an execution is as long as it was. */
TEST(an_end_that_comes_first_finds_its_start)
{
    for (int device = 0; device < 2; device++)
        for (int end_first = 0; end_first < 2; end_first++) {
            sink s = { .cat = mrd_catalog_new() };
            mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
            mrd_nrt *nrt = open_nrt(&o);

            feed_sync(nrt, 0, 4, 1000, T0);
            CHECK_INT(s.n, 1);
            for (int k = 0; k < 2; k++) {
                bool is_end = k == 1 - end_first;
                int64_t nc = is_end ? 5300 : 5100;

                feed_running(nrt, is_end ? "stop" : "start", 0, 7, device ? nc : T0 + nc - 900, nc);
            }
            feed_sync(nrt, 0, 5, 9000, T0 + 8000);
            CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
            CHECK_INT(s.n, 3);
            CHECK_INT(s.span.ts.ns, device ? T0 + 4100 : T0 + 4200);
            CHECK_INT(s.span.dur_ns, 200);
            CHECK_INT(mrd_nrt_count(nrt)->unfinished + mrd_nrt_count(nrt)->no_start, 0);
            CHECK_INT(mrd_nrt_count(nrt)->by_exec, device);
            mrd_nrt_free(nrt);
            mrd_catalog_free(s.cat);
        }
}

typedef struct {
    size_t n;
    int64_t since;
    uint32_t bound;
} in_flight;

static mrd_err
see_open(void *self, const mrd_event *ev)
{
    in_flight *f = self;

    f->n++;
    f->since = ev->ts.ns;
    f->bound = ev->bound_ns;
    CHECK(ev->flags == 0);
    return MRD_OK;
}

/* What runs by a device's clock is told at its host time, by any sync point of its core; before there is one
 * nothing is known of when it began. */
TEST(what_runs_by_a_devices_clock_is_in_flight_once_it_is_known)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = open_nrt(&o);
    in_flight f = { 0 };

    feed_running(nrt, "start", 0, 7, 5000, 5000);
    mrd_nrt_in_flight(nrt, see_open, &f);
    CHECK_INT(f.n, 0);
    feed_sync(nrt, 1, 5, 1000, T0); /* of another core */
    mrd_nrt_in_flight(nrt, see_open, &f);
    CHECK_INT(f.n, 0);
    feed_sync(nrt, 0, 4, 2000, T0 + 10); /* of another execution */
    mrd_nrt_in_flight(nrt, see_open, &f);
    CHECK_INT(f.n, 1);
    CHECK_INT(f.since, T0 + 3010);
    CHECK_INT(f.bound, MRD_BOUND_UNKNOWN);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* One numbered event of a core. */
static void
feed_number(mrd_nrt *nrt, int core, int64_t number, int64_t at)
{
    char text[400];

    snprintf(text, sizeof(text),
             "{\"event_type\":\"x\",\"phase\":\"instant\",\"nc_idx\":%d,\"nc_local_id\":%lld,"
             "\"timestamp_ns\":%lld,\"data\":{}}",
             core, (long long) number, (long long) (T0 + at));
    feed(nrt, text);
}

/* The first document that a gap may be of, and the one before it: of all gaps on all cores that are there. */
TEST(gaps_know_their_documents)
{
    static const int cores[] = { 3, 0, 1, 5 };
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = open_nrt(&o);
    uint64_t before;

    for (int64_t i = 0; i < 40; i++) /* they are counts */
        for (size_t k = 0; k < 4; k++)
            feed_number(nrt, cores[k], i, i);
    CHECK(mrd_nrt_oldest_gap(nrt, &before) == UINT64_MAX && before == UINT64_MAX);
    for (size_t k = 0; k < 4; k++) {
        mrd_nrt_mark(nrt, 10 + k, false, false);
        feed_number(nrt, cores[k], 41 + (k == 1), 50); /* 40 is missing, of the second 41 as well */
        CHECK(mrd_nrt_has_gaps(nrt));
        CHECK_INT(mrd_nrt_oldest_gap(nrt, &before), 10);
        CHECK_INT(before, 10);
    }
    for (size_t k = 0; k < 4; k++) {
        CHECK_INT(mrd_nrt_oldest_gap(nrt, &before), 10 + k);
        CHECK_INT(before, k == 0 ? 10 : 9 + k);
        feed_number(nrt, cores[k], 40, 51);
        if (k == 1) {
            CHECK_INT(mrd_nrt_oldest_gap(nrt, &before), 11);
            feed_number(nrt, cores[k], 41, 52);
        }
    }
    CHECK(!mrd_nrt_has_gaps(nrt));
    CHECK(mrd_nrt_oldest_gap(nrt, &before) == UINT64_MAX && before == UINT64_MAX);
    CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
    CHECK_INT(mrd_nrt_count(nrt)->lost, 0);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* A numbering that begins anew: what was told as lost of the old one says nothing of the new one, at the same times. */
TEST(a_new_numbering_is_nobodys_loss)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = open_nrt(&o);
    size_t n;

    for (int64_t i = 0; i < 60; i++)
        if (i < 30 || i >= 40)
            feed_number(nrt, 0, i, i);
    CHECK_ERR("report", mrd_nrt_report_gaps(nrt, (mrd_local_ns){ INT64_MAX }), MRD_OK);
    CHECK_INT(mrd_nrt_count(nrt)->lost, 10);
    feed_number(nrt, 0, 35, 35); /* it was told as lost */
    CHECK_INT(mrd_nrt_count(nrt)->late, 1);
    n = s.n;
    for (int64_t i = 20; i < 70; i++)
        feed_number(nrt, 0, i, 38);
    CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
    CHECK_INT(s.n, n + 50);
    CHECK_INT(mrd_nrt_count(nrt)->lost, 10);
    CHECK_INT(mrd_nrt_count(nrt)->late, 1);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* Nor of one that begins twice among the numbers that were lost, nor of a document that is read once more. */
TEST(a_numbering_may_begin_where_others_were_lost)
{
    for (int way = 0; way < 3; way++) {
        sink s = { .cat = mrd_catalog_new() };
        mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
        mrd_nrt *nrt = open_nrt(&o);
        size_t n;

        for (int64_t i = 0; i < 60; i++)
            if (i < 30 || i >= 40)
                feed_number(nrt, 0, i, i);
        CHECK_ERR("report", mrd_nrt_report_gaps(nrt, (mrd_local_ns){ INT64_MAX }), MRD_OK);
        for (int64_t i = 10; way == 1 && i < 15; i++) /* another numbering */
            feed_number(nrt, 0, i, 36);
        if (way == 2)
            mrd_nrt_mark(nrt, 9, true, false);
        n = s.n;
        feed_number(nrt, 0, 33, 35);
        feed_number(nrt, 0, 34, 35);
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

/* Many gaps, of which some of the numbers come later in any order: each number is given or lost, and none is lost that came
 * while its gap was open. */
TEST(gaps_are_filled_in_any_order)
{
    uint64_t seed = 20261123;

    for (int round = 0; round < 60; round++) {
        made m = { .cat = mrd_catalog_new() };
        mrd_nrt_options o = { .catalog = m.cat, .emit = count_made, .self = &m };
        mrd_nrt *nrt = open_nrt(&o);
        int64_t held[NUMBERS];
        size_t n_held = 0, gaps = 0, missing = 0;
        uint64_t many = round % 3 == 0 ? 9 : 60; /* rare enough to be a count */
        bool before = true;

        for (int64_t i = 0; i < NUMBERS; i++) {
            bool comes = before ? i < 20 || i == NUMBERS - 1 || test_rand(&seed) % many != 0
                                : test_rand(&seed) % 3 == 0;

            gaps += before && !comes;
            before = comes || i == NUMBERS - 2;
            comes = comes || i == NUMBERS - 1;
            if (comes)
                feed_number(nrt, 2, i, i);
            else
                held[n_held++] = i;
        }
        for (size_t left = n_held; left > 0; left--) { /* in any order, now and then not at all */
            size_t i = (size_t) (test_rand(&seed) % left);
            int64_t number = held[i];

            held[i] = held[left - 1];
            if (test_rand(&seed) % 3 == 0)
                missing++;
            else
                feed_number(nrt, 2, number, number);
        }
        CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
        CHECK_INT(m.given + m.lost, NUMBERS);
        CHECK_INT(mrd_nrt_count(nrt)->lost, m.lost);
        CHECK_INT(mrd_nrt_count(nrt)->late, m.lost - missing);
        if (gaps <
            40) { /* far from all that there is room for: each was told as what was missing of it */
            CHECK_INT(m.lost, missing);
            CHECK(m.told <= missing);
        }
        mrd_nrt_free(nrt);
        mrd_catalog_free(m.cat);
    }
}

/* Where more than one step in four is a jump, numbers are no count, however the first ones came. */
TEST(numbers_with_many_jumps_lose_nothing)
{
    for (int64_t steps = 10; steps <= 12; steps++) {
        sink s = { .cat = mrd_catalog_new() };
        mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
        mrd_nrt *nrt = open_nrt(&o);

        for (int64_t i = 0; i <= steps; i++)
            feed_number(nrt, 0, i, i);
        for (int64_t jump = 1; jump <= 3; jump++)
            feed_number(nrt, 0, 100 * jump, 100 * jump);
        CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
        CHECK_INT(mrd_nrt_count(nrt)->lost, steps < 11 ? 0 : 297 - steps);
        mrd_nrt_free(nrt);
        mrd_catalog_free(s.cat);
    }
}

/* A jump is a loss up to where it can only be another numbering, wherever the numbers are. */
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
            mrd_nrt *nrt = open_nrt(&o);
            int64_t number = begins[b];

            for (int64_t i = 0; i < 20; i++)
                feed_number(nrt, 0, number++, i);
            number += jumps[k].missing;
            for (int64_t i = 20; i < 40; i++)
                feed_number(nrt, 0, number++, i);
            CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
            CHECK_INT(mrd_nrt_count(nrt)->lost, jumps[k].lost ? jumps[k].missing : 0);
            mrd_nrt_free(nrt);
            mrd_catalog_free(s.cat);
        }
    }
}

/* Memory of which nothing is used any more is a sample, too. */
TEST(no_memory_is_a_sample)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = open_nrt(&o);

    for (int stop = 0; stop < 2; stop++) {
        char text[600];

        snprintf(text, sizeof(text),
                 "{\"event_type\":\"nrt_dma_mem_dealloc\",\"phase\":\"%s\",\"nc_idx\":0,"
                 "\"tracking_id\":1,\"timestamp_ns\":%lld,\"data\":{\"hbm_idx\":0,\"usage_type\":"
                 "\"tensors\",\"total_bytes\":0,\"usage_type_total_bytes\":0}}",
                 stop ? "stop" : "start", T0 + stop);
        feed(nrt, text);
    }
    CHECK_INT(s.n, 3); /* the call and both samples */
    CHECK_INT(s.counters, 2);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* What is held counts: each start that waits for its end, each end for its start, each device time for its sync point. */
TEST(memory_that_is_held_is_stated)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = open_nrt(&o);
    size_t empty = mrd_nrt_memory_used(nrt), last = empty;

    CHECK(empty > 1000 && empty < 64 << 20);
    for (int i = 0; i < 300; i++) {
        feed_running(nrt, i % 2 == 0 ? "start" : "stop", 0, 100 + i, T0 + i, 5 + i);
        CHECK(mrd_nrt_memory_used(nrt) >= last + sizeof(mrd_event));
        last = mrd_nrt_memory_used(nrt);
    }
    for (int i = 0; i < 50; i++) { /* a span in device time waits for its sync point */
        feed_running(nrt, "start", 0, 7, 5000 + i, 5000 + i);
        feed_running(nrt, "stop", 0, 7, 5500 + i, 5500 + i);
        CHECK(mrd_nrt_memory_used(nrt) >= last + sizeof(mrd_event));
        last = mrd_nrt_memory_used(nrt);
    }
    CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
    CHECK(mrd_nrt_memory_used(nrt) < last - 300 * sizeof(mrd_event));
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

TEST_MAIN()
