/* Tests the reader of the runtime's trace (trace/import/nrt/import_nrt.h) with one JSON document
 * per fetch. The start and the stop of an event are in different documents. The tests check which
 * events wait for their other half, and which operations are in flight, by host and by device
 * clocks. */
#include "tests/trace/nrt_feed.h"

typedef struct {
    mrd_catalog *cat;
    size_t n, counters, unfinished, no_start;
    int64_t last_dur;
    mrd_event span; /* the last one */
    bool fails;     /* takes nothing */
} sink;

static mrd_err
keep(void *self, const mrd_event *ev)
{
    sink *s = self;

    s->n++;
    s->counters += ev->kind == MRD_COUNTER && ev->ivalue == 0;
    s->unfinished += ev->kind == MRD_SPAN && ev->dur_ns == MRD_DUR_UNFINISHED;
    s->no_start += (ev->flags & MRD_EV_NO_START) != 0;
    s->last_dur = ev->dur_ns;
    if (ev->kind == MRD_SPAN)
        s->span = *ev;
    return s->fails ? MRD_FULL : MRD_OK;
}

TEST(a_start_in_one_fetch_and_its_stop_in_a_later_one)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .max_open = 3, .emit = keep, .self = &s };
    mrd_nrt *nrt = NULL;

    nrt = nrt_open(&o);
    nrt_feed(nrt, HEAD EV("a", "start", "0", "1", "1", T0 "00000", "") TAIL);
    CHECK_INT(s.n, 0);
    nrt_feed(nrt, HEAD TAIL);
    nrt_feed(nrt, HEAD EV("a", "stop", "0", "1", "1", T0 "00900", "") TAIL);
    CHECK_INT(s.n, 1);
    CHECK_INT(s.last_dur, 900);
    /* At most three starts may wait for their stops. A fourth start replaces the oldest one, whose
     * stop then has no start. */
    nrt_feed(nrt, HEAD EV("a", "start", "0", "1", "1", T0 "01000",
                          "") "," EV("a", "start", "0", "2", "1", T0 "01001",
                                     "") "," EV("a", "start", "0", "3", "1", T0 "01002", "") TAIL);
    CHECK_INT(s.n, 1);
    nrt_feed(nrt, HEAD EV("a", "start", "0", "4", "1", T0 "01003", "") TAIL);
    CHECK_INT(s.unfinished, 1);
    nrt_feed(nrt, HEAD EV("a", "stop", "0", "1", "1", T0 "01004", "") TAIL);
    CHECK_INT(s.no_start, 0);
    /* Two threads fetch, so a later document may arrive before an earlier one. */
    nrt_feed(nrt, HEAD EV("b", "stop", "0", "7", "1", T0 "02900", "\"return_code\":0") TAIL);
    CHECK_INT(s.n, 2);
    nrt_feed(nrt, HEAD EV("b", "start", "0", "7", "1", T0 "02000", "") TAIL);
    CHECK_INT(s.n, 3);
    CHECK_INT(s.last_dur, 900);
    CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
    CHECK_INT(s.no_start, 1);
    CHECK_INT(s.unfinished, 4);
    CHECK_INT(mrd_nrt_count(nrt)->records, mrd_nrt_count(nrt)->events);
    CHECK_INT(mrd_nrt_count(nrt)->records, 7);
    CHECK_INT(mrd_nrt_count(nrt)->documents, 8);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* A caller that wants to read its documents again must know from which one on. The reader therefore
 * states how many events of the documents before a given one still wait for their other half. Stops
 * without a start always count, because the document of their start is unknown. */
TEST(what_waits_is_known_by_its_document)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = NULL;
    mrd_wall_ns oldest;

    nrt = nrt_open(&o);
    CHECK(mrd_nrt_oldest(nrt) == UINT64_MAX);
    mrd_nrt_mark(nrt, 5, false, false);
    nrt_feed(nrt, HEAD EV("a", "start", "0", "1", "1", T0 "00100", "") TAIL);
    mrd_nrt_mark(nrt, 6, false, false);
    nrt_feed(nrt, HEAD EV("a", "start", "0", "2", "1", T0 "00200",
                          "") "," EV("a", "stop", "0", "9", "1", T0 "00250", "") TAIL);
    mrd_nrt_mark(nrt, 7, false, false);
    nrt_feed(nrt, HEAD EV("a", "start", "0", "3", "1", T0 "00300", "") TAIL);
    CHECK_INT(mrd_nrt_oldest(nrt), 5);
    CHECK_INT(mrd_nrt_waiting_before(nrt, 5, &oldest), 1); /* the end */
    CHECK_INT(oldest.ns % 100000, 250);
    CHECK_INT(mrd_nrt_waiting_before(nrt, 6, &oldest), 2);
    CHECK_INT(oldest.ns % 100000, 100);
    CHECK_INT(mrd_nrt_waiting_before(nrt, 8, &oldest), 4);
    CHECK_INT(s.n, 0);
    CHECK_ERR("flush", mrd_nrt_flush_before(nrt, 6), MRD_OK);
    CHECK_INT(s.n, 2);
    CHECK_INT(s.unfinished, 1);
    CHECK_INT(s.no_start, 1);
    CHECK_INT(mrd_nrt_oldest(nrt), 6);
    CHECK_INT(mrd_nrt_waiting_before(nrt, 7, &oldest), 1);
    CHECK_INT(oldest.ns % 100000, 200);
    mrd_nrt_mark(nrt, 8, false, false);
    nrt_feed(nrt, HEAD EV("a", "stop", "0", "2", "1", T0 "00280", "") TAIL);
    CHECK_INT(s.last_dur, 80);
    CHECK_INT(mrd_nrt_oldest(nrt), 7);
    /* This document was read before (the argument true). A stop whose start was read in the first
     * pass is then complete. A start is not counted again. */
    mrd_nrt_mark(nrt, 9, true, false);
    nrt_feed(nrt, HEAD EV("a", "stop", "0", "8", "1", T0 "00400",
                          "") "," EV("a", "start", "0", "4", "1", T0 "00410", "") TAIL);
    CHECK_INT(mrd_nrt_waiting_before(nrt, 0, &oldest), 0);
    CHECK_ERR("flush", mrd_nrt_flush_before(nrt, UINT64_MAX), MRD_OK);
    CHECK_INT(s.unfinished, 3);
    CHECK_INT(s.no_start, 1);
    CHECK(mrd_nrt_oldest(nrt) == UINT64_MAX);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

#define NUMBERED(number, phase, track, ts)                                                         \
    "{\"event_type\":\"nrt_execute\",\"phase\":\"" phase "\",\"nc_idx\":0,\"nc_local_id\":" number \
    ",\"tracking_id\":" track ",\"thread_id\":1,\"data\":{\"model_id\":7},\"timestamp_ns\":" ts    \
    "}"

/* An operation is in flight if it has begun and has certainly not ended. An operation whose end may
 * be among lost events is not reported as in flight. */
TEST(what_is_in_flight)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_process p;
    mrd_nrt *nrt = NULL;

    mrd_process_init(&p);
    o.process = mrd_catalog_process(s.cat, &p);
    CHECK_ERR("new", mrd_nrt_new(&o, &nrt, NULL), MRD_OK);
    nrt_feed(nrt,
             HEAD NUMBERED("1", "start", "1", T0 "00100") "," NUMBERED(
                 "2", "start", "2", T0 "00200") "," NUMBERED("3", "stop", "1", T0 "00300") TAIL);
    CHECK_INT(nrt_in_flight_of(nrt).n, 1);
    CHECK_INT(nrt_in_flight_of(nrt).since, NRT_T0 + 200); /* looking changes nothing */
    CHECK_INT(nrt_in_flight_of(nrt).args, 1);
    nrt_feed(nrt, HEAD NUMBERED("4", "start", "4", T0 "00400") TAIL);
    CHECK_INT(nrt_in_flight_of(nrt).n, 2);
    /* The missing event 5 may be the end of one of the open operations. Only operations that began
     * after it are certainly in flight. */
    nrt_feed(nrt, HEAD NUMBERED("6", "start", "6", T0 "00600") "," NUMBERED("7", "start", "7",
                                                                            T0 "00700") TAIL);
    CHECK_INT(nrt_in_flight_of(nrt).n, 1);
    CHECK_INT(nrt_in_flight_of(nrt).since, NRT_T0 + 700);
    CHECK_ERR("report gaps", mrd_nrt_report_gaps(nrt, (mrd_local_ns){ INT64_MAX }),
              MRD_OK); /* now it is lost */
    CHECK_INT(nrt_in_flight_of(nrt).n, 1);
    nrt_feed(nrt, HEAD NUMBERED("8", "start", "8", T0 "00800") TAIL);
    CHECK_INT(nrt_in_flight_of(nrt).n, 2);
    mrd_nrt_doubt(nrt); /* a text was cut */
    CHECK_INT(nrt_in_flight_of(nrt).n, 0);
    CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
    CHECK_INT(s.unfinished, 5);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* mrd_nrt_tell_before reports operations in flight once. They then do not count as waiting, so a
 * new reader need not read their documents. Stops that wait for their start are output without
 * it. */
TEST(what_has_begun_is_told_once)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = nrt_open(&o);
    nrt_in_flight f = { 0 };
    mrd_wall_ns oldest;

    mrd_nrt_mark(nrt, 5, false, false);
    nrt_feed(nrt, HEAD EV("a", "start", "0", "1", "1", T0 "00100", "") TAIL);
    mrd_nrt_mark(nrt, 6, false, false);
    nrt_feed(nrt, HEAD EV("a", "start", "0", "2", "1", T0 "00200",
                          "") "," EV("a", "stop", "0", "9", "1", T0 "00250", "") TAIL);
    CHECK_ERR("tell", mrd_nrt_tell_before(nrt, 6, nrt_see_open, &f), MRD_OK);
    CHECK_INT(f.n, 1);
    CHECK_INT(f.since % 100000, 100);
    CHECK_INT(s.n, 0); /* the stop without a start is in document 6 */
    CHECK_INT(mrd_nrt_waiting_before(nrt, 6, &oldest), 1);
    CHECK_ERR("tell", mrd_nrt_tell_before(nrt, 7, nrt_see_open, &f), MRD_OK);
    CHECK_INT(f.n, 2); /* the first was reported */
    CHECK_INT(s.n, 1);
    CHECK_INT(s.no_start, 1);
    CHECK_INT(mrd_nrt_waiting_before(nrt, 7, &oldest), 0);
    mrd_nrt_tell_again(nrt);
    CHECK_INT(mrd_nrt_waiting_before(nrt, 7, &oldest), 2);
    CHECK_ERR("tell", mrd_nrt_tell_before(nrt, 7, nrt_see_open, &f), MRD_OK);
    CHECK_INT(f.n, 4);
    CHECK_INT(s.n, 1);
    nrt_feed(nrt,
             HEAD EV("a", "stop", "0", "1", "1", T0 "00900", "") TAIL); /* it stays where it is */
    CHECK_INT(s.n, 2);
    CHECK_INT(s.last_dur, 800);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* If the receiver of the events returns an error, mrd_nrt_tell_before stops and returns it. */
TEST(telling_ends_with_the_first_error)
{
    sink s = { .cat = mrd_catalog_new(), .fails = true };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = nrt_open(&o);

    mrd_nrt_mark(nrt, 5, false, false);
    nrt_feed(nrt, HEAD EV("a", "stop", "0", "8", "1", T0 "00250",
                          "") "," EV("a", "stop", "0", "9", "1", T0 "00260", "") TAIL);
    CHECK_ERR("tell", mrd_nrt_tell_before(nrt, 6, nrt_see_open, &(nrt_in_flight){ 0 }), MRD_FULL);
    CHECK_INT(s.n, 1);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* Feeds the start or stop of an execution on a core. Its time `ts` is of the host or of the device,
 * which the reader must find out. `nc_ts` is the time by the device clock. */
static void
feed_running(mrd_nrt *nrt, const char *phase, int core, int track, int64_t ts, int64_t nc_ts)
{
    char text[600];

    snprintf(
        text, sizeof(text),
        "{\"event_type\":\"nc_exec_running\",\"phase\":\"%s\",\"nc_idx\":%d,\"tracking_id\":%d,"
        "\"timestamp_ns\":%lld,\"data\":{\"exec_id\":5,\"nc_timestamp_ns\":%lld}}",
        phase, core, track, (long long) ts, (long long) nc_ts);
    nrt_feed_event(nrt, text);
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
    nrt_feed_event(nrt, text);
}

/* An execution gets its true duration if its times are host times or device times, and if its start
 * or its end arrives first. */
TEST(an_end_that_comes_first_finds_its_start)
{
    for (int device = 0; device < 2; device++)
        for (int end_first = 0; end_first < 2; end_first++) {
            sink s = { .cat = mrd_catalog_new() };
            mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
            mrd_nrt *nrt = nrt_open(&o);

            feed_sync(nrt, 0, 4, 1000, NRT_T0);
            CHECK_INT(s.n, 1);
            for (int k = 0; k < 2; k++) {
                bool is_end = k == 1 - end_first;
                int64_t nc = is_end ? 5300 : 5100;

                feed_running(nrt, is_end ? "stop" : "start", 0, 7, device ? nc : NRT_T0 + nc - 900,
                             nc);
            }
            feed_sync(nrt, 0, 5, 9000, NRT_T0 + 8000);
            CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
            CHECK_INT(s.n, 3);
            CHECK_INT(s.span.ts.ns, NRT_T0 + 4100);
            CHECK_INT(s.span.dur_ns, 200);
            CHECK_INT(mrd_nrt_count(nrt)->unfinished + mrd_nrt_count(nrt)->no_start, 0);
            CHECK_INT(mrd_nrt_count(nrt)->between, 1);
            mrd_nrt_free(nrt);
            mrd_catalog_free(s.cat);
        }
}

/* A sync point relates device time to host time. An execution in flight that has a device time is
 * reported with the host time that follows from any sync point of its core. Without a sync point
 * its start is unknown, so it is not reported. */
TEST(what_runs_by_a_devices_clock_is_in_flight_once_it_is_known)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = nrt_open(&o);
    nrt_in_flight f = { 0 };

    feed_running(nrt, "start", 0, 7, 5000, 5000);
    mrd_nrt_in_flight(nrt, nrt_see_open, &f);
    CHECK_INT(f.n, 0);
    feed_sync(nrt, 1, 5, 1000, NRT_T0); /* of another core */
    mrd_nrt_in_flight(nrt, nrt_see_open, &f);
    CHECK_INT(f.n, 0);
    feed_sync(nrt, 0, 4, 2000, NRT_T0 + 10); /* of another execution */
    mrd_nrt_in_flight(nrt, nrt_see_open, &f);
    CHECK_INT(f.n, 1);
    CHECK_INT(f.since, NRT_T0 + 3010);
    CHECK(f.bound != 0 && f.bound != MRD_BOUND_UNKNOWN);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* A sample of zero bytes counts too. */
TEST(no_memory_is_a_sample)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = nrt_open(&o);

    for (int stop = 0; stop < 2; stop++) {
        char text[600];

        snprintf(text, sizeof(text),
                 "{\"event_type\":\"nrt_dma_mem_dealloc\",\"phase\":\"%s\",\"nc_idx\":0,"
                 "\"tracking_id\":1,\"timestamp_ns\":%lld,\"data\":{\"hbm_idx\":0,\"usage_type\":"
                 "\"tensors\",\"total_bytes\":0,\"usage_type_total_bytes\":0}}",
                 stop ? "stop" : "start", NRT_T0 + stop);
        nrt_feed_event(nrt, text);
    }
    CHECK_INT(s.n, 3); /* the call and both samples */
    CHECK_INT(s.counters, 2);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
}

/* mrd_nrt_memory_used includes each stored event: a start that waits for its stop, a stop that
 * waits for its start, and a device time that waits for a sync point. */
TEST(memory_that_is_held_is_stated)
{
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = keep, .self = &s };
    mrd_nrt *nrt = nrt_open(&o);
    size_t empty = mrd_nrt_memory_used(nrt), last = empty;

    CHECK(empty > 1000 && empty < 64 << 20);
    for (int i = 0; i < 300; i++) {
        feed_running(nrt, i % 2 == 0 ? "start" : "stop", 0, 100 + i, NRT_T0 + i, 5 + i);
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
