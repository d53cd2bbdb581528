/* Tests merges of constructed journals with known true times. The check by collectives must detect
 * a wrong clock and accept a right one. Every boot of a node has its own clock. Output with other
 * times than aligned ones is tested too. */
#include "aggregator/clock/clock_report.h"
#include "aggregator/clock/node_clock.h"
#include "base/num.h"
#include "base/obj.h"
#include "tests/aggregator/recording.h"
#include "trace/sink/sinks.h"

#include <unistd.h>

/* Returns the number of held-out packets of the recording's nodes, from the report of its
 * clocks. */
static uint64_t
held_out_of(const recording *r)
{
    mrd_clock_report report = { 0 };
    mrd_strlist everybody = { 0 };
    uint64_t n = 0;

    CHECK_ERR("report", mrd_clock_report_read(r->dir, &everybody, &report, NULL), MRD_OK);
    for (size_t i = 0; i < report.n; i++)
        for (size_t k = 0; k < report.v[i].clock.n; k++)
            n += report.v[i].clock.v[k].checked;
    mrd_clock_report_fini(&report);
    return n;
}

TEST(collectives_acquit_right_clocks)
{
    recording r = recording_new("right");
    part a = a_part("i-a", ZERO + 5 * MRD_SEC), b = a_part("i-b", 77 * MRD_SEC);
    mrd_clock_verdict v = { 0 };

    a.early = 200 * MRD_US;
    add_node(&r, &a, 1);
    add_node(&r, &b, 1);
    CHECK_INT(merge(&r, MERGE_ALIGNED, &v).events, 2 * COLLECTIVES);
    CHECK(v.done && v.some);
    CHECK_INT(v.collectives.collectives, COLLECTIVES);
    CHECK_INT(v.collectives.violations + v.collectives.out_of_order, 0);
    CHECK(v.held_out > 0);
    CHECK_INT(v.held_out, held_out_of(&r));
    CHECK_INT(v.held_out_violations, 0);
}

/* All probes of one node are wrong by 5 ms, including the held-out ones. Only the collectives can
 * detect that. */
TEST(collectives_convict_a_wrong_clock)
{
    recording r = recording_new("wrong");
    part a = a_part("i-a", ZERO), b = a_part("i-b", 77 * MRD_SEC);
    mrd_clock_verdict v = { 0 };

    a.early = 200 * MRD_US;
    b.lie = 5 * MRD_MS;
    add_node(&r, &a, 1);
    add_node(&r, &b, 1);
    merge(&r, MERGE_ALIGNED, &v);
    CHECK_INT(v.held_out_violations, 0);
    CHECK_INT(v.collectives.violations, COLLECTIVES);
    CHECK(v.collectives.worst > 4 * MRD_MS && v.collectives.worst < 5 * MRD_MS);
}

/* Returns a number from the report of two nodes, one of which is late by 2 ms in three of four
 * cases. */
static int64_t
report_total(const char *name, int64_t lie, const char *key)
{
    recording r = recording_new(name);
    part a = a_part("i-a", ZERO), b = a_part("i-b", 77 * MRD_SEC);
    mrd_clock_verdict v = { 0 };
    char path[400];
    mrd_json *doc = NULL;
    mrd_why why = { 0 };
    int64_t n;

    a.early = 20 * MRD_MS;
    a.mostly = lie == 0 ? 12 * MRD_MS : 10 * MRD_MS;
    b.early = 200 * MRD_US;
    b.mostly = lie == 0 ? 10 * MRD_MS : 12 * MRD_MS;
    b.lie = lie;
    add_node(&r, &a, 1);
    add_node(&r, &b, 1);
    merge_as(&r, "report-json", MERGE_ALIGNED, &v);
    CHECK_INT(v.collectives.violations > 0, lie > 0);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK_ERR(name, mrd_json_load(path, &doc, &why), MRD_OK);
    n = mrd_json_int(mrd_json_get(mrd_json_get(doc, "report"), "totals"), key, -1);
    mrd_json_free(doc);
    return n;
}

/* With the wrong clock i-b seems late by 3 ms, but it was first by 2 ms. Collectives in which it
 * was the last rank show that the clock is wrong. They arrive with the events, so proofs wait for
 * the end. */
TEST(a_convicted_clock_proves_nobody_late)
{
    CHECK(report_total("fair", 0, "proven") >= COLLECTIVES / 2);
    CHECK_INT(report_total("fair too", 0, "suspect_clock"), 0);
    CHECK_INT(report_total("foul", 5 * MRD_MS, "proven"), 0);
    CHECK(report_total("foul too", 5 * MRD_MS, "suspect_clock") > COLLECTIVES / 2);
}

/* One of two nodes recorded a little longer. The check ignores the operations that only this node
 * recorded, and checks all others. */
TEST(unequal_sequences_are_cut_to_the_time_common_to_all)
{
    recording r = recording_new("longer");
    part a = a_part("i-a", ZERO), b = a_part("i-b", 77 * MRD_SEC);
    mrd_clock_verdict v = { 0 };

    b.more = 3;
    add_node(&r, &a, 1);
    add_node(&r, &b, 1);
    merge(&r, MERGE_ALIGNED, &v);
    CHECK(v.some);
    CHECK_INT(v.collectives.collectives, COLLECTIVES);
    CHECK_INT(v.collectives.violations, 0);
}

static bool
exists(const recording *r, const char *id, const char *boot)
{
    char path[400], at[16] = "";

    if (boot != NULL)
        snprintf(at, sizeof(at), "@%08x", mrd_boot_key(mrd_str_of(boot)));
    snprintf(path, sizeof(path), "%s/clocks/%s%s.align", r->dir, id, at);
    return access(path, R_OK) == 0;
}

/* RAW starts again after the reboot. There are two tables, and every event is on the same
 * timeline. */
TEST(each_boot_has_its_own_clock)
{
    recording r = recording_new("reboot");
    part a = a_part("i-a", ZERO);
    part b[2] = { a_part("i-b", ZERO - 40000 * MRD_SEC), a_part("i-b", ZERO + 65 * MRD_SEC) };
    mrd_node_clock clock = { 0 };
    mrd_export_result result;
    mrd_clock_verdict v = { 0 };
    mrd_why why;

    b[0].end = 60;
    b[1].boot = "two";
    b[1].begin = 70;
    add_node(&r, &a, 1);
    add_node(&r, b, 2);
    result = merge(&r, MERGE_ALIGNED, &v);
    /* ten collectives of the second node were during its reboot, so it did not record them */
    CHECK_INT(result.events, COLLECTIVES + 90);
    CHECK(result.first.ns >= ZERO + 10 * MRD_SEC - MRD_MS);
    CHECK(result.last.ns <= ZERO + 110 * MRD_SEC + MRD_MS);
    CHECK(exists(&r, "i-b", NULL) && exists(&r, "i-b", "two") && !exists(&r, "i-a", "two"));
    CHECK_INT(v.collectives.violations, 0);
    REQUIRE(mrd_node_clock_load(r.dir, "i-b", &clock, &why) == MRD_OK);
    REQUIRE(clock.n == 2);
    CHECK_TEXT(mrd_align_name(clock.v[0].align), "i-b");
    CHECK_TEXT(mrd_align_name(clock.v[1].align), "i-b boot 2");
    for (size_t i = 0; i < clock.n; i++)
        CHECK(mrd_align_widest(clock.v[i].align) > 0 &&
              mrd_align_widest(clock.v[i].align) < 100 * MRD_US);
    mrd_node_clock_fini(&clock);
    /* The same event in the other output times, utc and raw. utc uses the reading of the node's
     * wall clock from before its reboot. */
    CHECK_INT(merge(&r, MERGE_UTC, NULL).first.ns,
              ZERO + 70 * MRD_SEC - b[1].offset - (ZERO - b[0].offset) + ZERO + 7 * MRD_SEC);
    CHECK_INT(merge(&r, MERGE_RAW, NULL).first.ns, ZERO + 70 * MRD_SEC - b[1].offset);
}

/* The output for a process must state the quality of the clock in the process's last boot. */
TEST(a_process_goes_by_the_clock_of_its_boot)
{
    recording r = recording_new("boots");
    part a[2] = { a_part("i-a", ZERO), a_part("i-a", ZERO + 65 * MRD_SEC) };
    mrd_node_clock clock = { 0 };
    char path[400], text[80];
    mrd_why why;

    a[0].end = 60;
    a[1].boot = "two";
    a[1].begin = 70;
    add_node(&r, a, 2);
    (void) merge_as(&r, "perfetto", MERGE_ALIGNED, NULL);
    REQUIRE(mrd_node_clock_load(r.dir, "i-a", &clock, &why) == MRD_OK);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    snprintf(text, sizeof(text), "process_id 4711, clock good within +/- ns %" PRId64,
             mrd_align_widest(clock.v[1].align));
    CHECK_ROW(text, file_has(path, text));
    mrd_node_clock_fini(&clock);
}

/* A clock that jumps while it runs has a row for each epoch, with the cause of its start. A clock
 * without jumps has one row and no number. */
TEST(each_epoch_of_a_clock_has_its_row)
{
    recording r = recording_new("jump");
    part a = a_part("i-a", ZERO);
    part b[2] = { a_part("i-b", ZERO - 40000 * MRD_SEC), a_part("i-b", ZERO - 39990 * MRD_SEC) };
    char path[400];

    b[0].end = 60;
    b[1].begin = 60;
    add_node(&r, &a, 1);
    add_node(&r, b, 2);
    (void) merge(&r, MERGE_ALIGNED, NULL);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(file_has(path, "\"i-a RAW\""));
    CHECK(file_has(path, "\"i-b RAW epoch 1 (start)\""));
    CHECK(file_has(path, "\"i-b RAW epoch 2 (contradiction)\""));
    CHECK(!file_has(path, "\"i-b RAW epoch 3"));
}

/* ---- absolute time at both ends ---- */

/* Packets give the clock within 30 us. If both ends have a PTP clock, the bound is narrower. A
 * wrong PTP clock is detected and changes nothing. */
TEST(absolute_time_at_both_ends_narrows_or_alarms)
{
    recording r = recording_new("absolute");
    part all[3] = { a_part("i-a", ZERO), a_part("i-b", ZERO + 65 * MRD_SEC), a_part("i-c", ZERO) };
    mrd_clock_report report = { 0 };
    mrd_strlist none = { 0 };
    mrd_clock_verdict v = { 0 };
    mrd_align_summary sum;
    mrd_why why = { 0 };
    mrd_buf text = { 0 };
    size_t pairs, odd = 0;
    char path[400];

    for (int i = 0; i < 3; i++) {
        all[i].incarnation = "A";
        all[i].phc = i < 2;
    }
    all[1].phc_lie = MRD_MS;
    for (int i = 0; i < 3; i++)
        add_node(&r, &all[i], 1);
    (void) merge(&r, MERGE_ALIGNED, &v);
    CHECK_INT(v.absolute, 2 * (READINGS - 1)); /* the last readings have no successor */
    CHECK(v.absolute_violations > 0);
    CHECK_INT(v.held_out_violations, 0);
    CHECK_INT(v.collectives.violations, 0);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(file_has(path, "one of both is wrong, the readings are not used"));
    CHECK_ERR("report", mrd_clock_report_read(r.dir, &none, &report, &why), MRD_OK);
    REQUIRE(report.n == 3);
    for (size_t i = 0; i < 3; i++) {
        const mrd_boot_clock *c = &report.v[i].clock.v[0];
        mrd_align_cursor cursor = { 0 };

        REQUIRE(c->align != NULL && mrd_align_summarise(c->align, 0, &sum));
        CHECK_ROW(report.v[i].id,
                  i == 0 ? sum.width_median < 58 * MRD_US : sum.width_median > 58 * MRD_US);
        CHECK_INT(c->absolute[MRD_ABSOLUTE_PHC].pairs, i < 2 ? READINGS - 1 : 0);
        odd += mrd_boot_clock_disagreements(c, &pairs);
        CHECK_ROW(report.v[i].id, (c->absolute[MRD_ABSOLUTE_PHC].contradicting > 0) == (i == 1));
        for (int64_t s = 2; s < PAIRS - 2; s++) {
            int64_t truth = ZERO + s * MRD_SEC;
            mrd_align_bound b;
            mrd_sess_ns at;

            CHECK(
                mrd_align_map(c->align, &cursor, (mrd_local_ns){ truth - all[i].offset }, &at, &b));
            CHECK_ROW(report.v[i].id, b.lo.ns <= truth && truth <= b.hi.ns);
        }
    }
    CHECK_INT(v.absolute_violations, odd);
    CHECK(mrd_clock_report_violations(&report) > 0);
    mrd_clock_report_text(&report, &text);
    CHECK(strstr(mrd_buf_cstr(&text), "i-a: 7 readings of the PTP clock at both ends agree") !=
          NULL);
    CHECK(strstr(mrd_buf_cstr(&text), "NOT USED") != NULL);
    mrd_buf_fini(&text);
    mrd_clock_report_fini(&report);
}

/* ---- a wall clock that is set back ---- */

/* The node's wall clock is set by `once`, and half a minute later by `again`. `unread` means that
 * the batches contain no readings that relate the wall clock to RAW. `absurd` means that each batch
 * begins with an impossible reading. */
static struct {
    int64_t once, again;
    bool unread, absurd;
    int64_t span; /* if not 0, events are spans of this length on that clock instead of instants */
    uint32_t device; /* how far the device's clock of an event may be off */
} wall = { .once = -3600 * MRD_SEC };

static int64_t
wall_of(int64_t sess)
{
    return sess + (sess >= ZERO + 60 * MRD_SEC + 50 * MRD_MS ? wall.once : 0) +
           (sess >= ZERO + 90 * MRD_SEC + 50 * MRD_MS ? wall.again : 0);
}

/* Writes one batch of ten events per second. The times of the events are of the node's wall clock,
 * which is set back in the middle. If `late` is 0, each batch contains the readings of wall clock
 * and RAW before, between and after its events. Else each batch is of its own process, and its
 * readings were made `late` seconds after its events. */
static void
put_stamped(recording *r, int64_t offset, int64_t late)
{
    part p = a_part("i-a", offset);
    mrd_catalog *cat = mrd_catalog_new();
    mrd_codec *codec = mrd_codec_new();
    mrd_process proc;
    mrd_track track;
    mrd_journal *j = NULL;
    char dir[400];

    snprintf(dir, sizeof(dir), "%s/journal/i-a", r->dir);
    REQUIRE(mrd_journal_open(dir, MRD_STR("i-a"), 3, &j, NULL) == MRD_OK);
    put_probes(&p, j);
    mrd_process_init(&proc);
    proc.instance_id = mrd_catalog_intern(cat, p.id);
    for (int64_t sec = 10; sec < PAIRS - 10; sec++) {
        mrd_frame f = frame_of(&p, MRD_FRAME_BATCH);
        mrd_event ev = { .bound_ns = wall.device };
        mrd_batch *b;
        mrd_buf wire = { 0 };

        proc.process_id = f.process_id = late == 0 ? 4711 : 4711 + sec;
        mrd_track_init(&track, mrd_catalog_process(cat, &proc), MRD_SRC_RUNTIME);
        ev.track = mrd_catalog_track(cat, &track);
        b = mrd_batch_new(cat, track.process, MRD__CLOCK_KIND__CLOCK_REALTIME, 0);
        REQUIRE(b != NULL);
        ev.name = mrd_catalog_intern(cat, "stamped");
        if (wall.absurd)
            REQUIRE(mrd_batch_cross(b, &(mrd_cross_read){ { -2 * MRD_TIME_MAX }, { 0 }, 50 }) ==
                    MRD_OK);
        for (int64_t i = 0; i <= 10; i++) {
            int64_t sess = ZERO + sec * MRD_SEC + i * 100 * MRD_MS;
            int64_t shown = wall_of(sess), then = sess + late * MRD_SEC;
            mrd_cross_read read = { { then - offset }, { wall_of(then) }, 50 };

            ev.ts = (mrd_ev_ns){ shown };
            ev.kind = wall.span == 0 ? MRD_INSTANT : MRD_SPAN;
            ev.dur_ns = wall_of(sess + wall.span) - shown;
            if (i < 10)
                REQUIRE(mrd_batch_push(b, &ev) == MRD_OK);
            if (i % 5 == 0 && !wall.unread)
                REQUIRE(mrd_batch_cross(b, &read) == MRD_OK);
        }
        REQUIRE(mrd_batch_encode(b, codec, MRD_CODEC_NONE, &f, &wire, NULL) == MRD_OK);
        REQUIRE(mrd_journal_append(j, &f, (mrd_bytes){ wire.p, wire.len }, NULL) == MRD_OK);
        mrd_buf_fini(&wire);
        mrd_batch_free(b);
    }
    REQUIRE(mrd_journal_close(j, NULL) == MRD_OK);
    snprintf(r->nodes[0].instance_id, sizeof(r->nodes[0].instance_id), "i-a");
    r->n = 1;
    mrd_codec_free(codec);
    mrd_catalog_free(cat);
}

/* Checks that every event has its true time, in the true order, and a narrow bound except near the
 * step. */
static void
check_stamped(const char *name, int64_t late, const char *by)
{
    recording r = recording_new(name);
    const int64_t from = ZERO + 10 * MRD_SEC, n = (PAIRS - 20) * 10;
    mrd_export_result result;
    const mrd_json *events;
    mrd_json *doc = NULL;
    size_t off = 0, silent = 0, wide = 0, narrow = 0;
    bool unknown = wall.absurd || wall.device == MRD_BOUND_UNKNOWN;
    mrd_why why = { 0 };
    char path[400];

    put_stamped(&r, ZERO - 777 * MRD_SEC, late);
    result = merge(&r, MERGE_ALIGNED, NULL);
    CHECK_INT(result.events, n);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(file_has(path, by));
    CHECK(!file_has(path, "stamped by the wall clock came"));
    CHECK_ERR("json", mrd_json_load(path, &doc, &why), MRD_OK);
    events = mrd_json_get(doc, "trace_events");
    CHECK_INT(mrd_json_size(events), n);
    for (size_t i = 0; i < mrd_json_size(events); i++) {
        const mrd_json *e = mrd_json_at(events, i);
        char scratch[64];
        mrd_str text;
        int64_t at = 0, truth = from + (int64_t) i * 100 * MRD_MS, bound;

        CHECK_ERR("time", mrd_json_text(mrd_json_get(e, "timestamp"), scratch, &text), MRD_OK);
        CHECK_ERR("number", mrd_num_i64(text, &at), MRD_OK);
        bound = mrd_json_int(e, "clock_bound_ns", unknown ? INT64_MAX : 0); /* null */
        off += llabs(at - truth) > MRD_MS;
        silent += llabs(at - truth) > bound;
        wide += bound > MRD_MS;
        narrow += bound < wall.device;
    }
    CHECK_INT(off, 0);
    CHECK_INT(silent, 0);
    CHECK_INT(narrow, 0);
    /* before the first reading */
    CHECK((int64_t) wide <= 10 + late * 10 || wall.absurd || wall.device > 0);
    mrd_json_free(doc);
    (void) merge_as(&r, "summary-json", MERGE_ALIGNED, NULL);
    CHECK_INT(file_has(path, "i-a: 100 readings of its clocks beside batches cannot be times"),
              wall.absurd);
}

TEST(stamps_of_a_clock_set_back_lie_where_they_happened)
{
    check_stamped("set-back", 0, "was set by ");
}

/* The wall clock was set. The clock readings from before that are in batches of other processes,
 * and must be used for this process, too. */
TEST(readings_of_a_nodes_clock_serve_all_its_processes)
{
    check_stamped("set-back-late", 3, "was set by ");
}

/* An impossible reading is dropped alone. The other readings still show when the batch was closed.
 * They therefore select between the two times of a stamp that the clock showed twice. */
TEST(an_absurd_reading_costs_itself)
{
    wall.absurd = true;
    wall.once = -20 * MRD_SEC;
    check_stamped("set-back-absurd", 0, "was set by ");
    wall.absurd = false;
    wall.once = -3600 * MRD_SEC;
}

/* The bound of a device's clock is part of an event's bound. Even if it is unknown, the event is
 * placed on the right side of the step. */
TEST(the_bound_of_a_devices_clock_counts)
{
    wall.device = 2000000;
    check_stamped("device-bound", 0, "was set by ");
    wall.device = MRD_BOUND_UNKNOWN;
    check_stamped("device-unknown", 0, "was set by ");
    wall.device = 0;
}

/* The text states the size of a clock step, rounded to whole ms, and the size of a slew in the same
 * way. */
TEST(what_was_done_to_a_wall_clock_is_told)
{
    static const struct {
        const char *name;
        int64_t once, again;
        const char *told;
    } rows[] = {
        { "less-back", -249600 * MRD_US, 0, "was set by -250.00 ms during" },
        { "more-back", -250400 * MRD_US, 0, "was set by -250.00 ms during" },
        { "less-ahead", 249600 * MRD_US, 0, "was set by 250.00 ms during" },
        { "more-ahead", 250400 * MRD_US, 0, "was set by 250.00 ms during" },
        { "twice", 300 * MRD_MS, -200 * MRD_MS,
          "was set 2 times during the session, by up to 300.00 ms: " },
        { "back-and-forth", 300 * MRD_MS, -400 * MRD_MS,
          "was set 2 times during the session, by up to 400.00 ms: " },
        { "slewed", 10 * MRD_MS, 0,
          "was moved during the session, by up to 10.00 ms between two readings" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        recording r = recording_new(rows[i].name);
        char path[400];

        wall.once = rows[i].once;
        wall.again = rows[i].again;
        put_stamped(&r, ZERO - 777 * MRD_SEC, 0);
        (void) merge(&r, MERGE_ALIGNED, NULL);
        snprintf(path, sizeof(path), "%s/out.json", r.dir);
        CHECK_ROW(rows[i].name, file_has(path, rows[i].told));
        CHECK_ROW(rows[i].name, i == 6 || !file_has(path, "was moved during"));
    }
    wall.once = wall.again = 0;
}

/* Returns the number of clock settings before that session time. -1 within a second of one, where
 * two times are possible. */
static int64_t
near_setting(int64_t sess)
{
    int64_t n = 0;

    for (int64_t at = ZERO + 60 * MRD_SEC; at <= ZERO + 90 * MRD_SEC; at += 30 * MRD_SEC) {
        if (llabs(sess - at) < MRD_SEC)
            return -1;
        n += sess > at;
    }
    return n;
}

/* A span during which the clock was set has its true length, not the length on that clock. The
 * other spans are unchanged. */
TEST(a_span_over_a_setting_is_as_long_as_it_was)
{
    static const struct {
        const char *name;
        int64_t once, again;
    } rows[] = { { "span-back", -250 * MRD_MS, 0 },
                 { "span-ahead", 300 * MRD_MS, 0 },
                 { "span-far", 3600 * MRD_SEC, 0 },
                 { "span-twice", 300 * MRD_MS, -200 * MRD_MS } };

    for (size_t row = 0; row < MRD_COUNT(rows); row++) {
        recording r = recording_new(rows[row].name);
        const mrd_json *events;
        mrd_json *doc = NULL;
        size_t wrong = 0, over = 0, n;
        char path[400];

        wall.once = rows[row].once;
        wall.again = rows[row].again;
        wall.span = 2500 * MRD_MS;
        put_stamped(&r, ZERO - 777 * MRD_SEC, 0);
        (void) merge(&r, MERGE_ALIGNED, NULL);
        snprintf(path, sizeof(path), "%s/out.json", r.dir);
        CHECK_ERR(path, mrd_json_load(path, &doc, NULL), MRD_OK);
        events = mrd_json_get(doc, "trace_events");
        n = mrd_json_size(events);
        CHECK_INT(n, (PAIRS - 20) * 10);
        for (size_t i = 0; i < n; i++) {
            const mrd_json *e = mrd_json_at(events, i);
            int64_t begin = near_setting(mrd_json_int(e, "timestamp", 0)),
                    end = near_setting(mrd_json_int(e, "timestamp", 0) + wall.span);

            over += begin != end && begin >= 0 && end >= 0;
            wrong += begin >= 0 && end >= 0 &&
                     llabs(mrd_json_int(e, "duration", -1) - wall.span) > MRD_MS / 10;
        }
        CHECK(over >= 4);
        CHECK_ROW(rows[row].name, wrong == 0);
        mrd_json_free(doc);
    }
    wall.once = wall.again = wall.span = 0;
}

/* Without a reading of both clocks a stamp is not changed. No bound is stated, and a note has the
 * number of events and the reason. */
TEST(stamps_that_nothing_relates_stay)
{
    recording r = recording_new("unread");
    mrd_export_result result;
    char path[400], note[80];

    wall.once = wall.again = 0;
    wall.unread = true;
    put_stamped(&r, ZERO - 777 * MRD_SEC, 0);
    result = merge(&r, MERGE_ALIGNED, NULL);
    wall.unread = false;
    CHECK_INT(result.events, (PAIRS - 20) * 10);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    for (int64_t i = 0; i < (PAIRS - 20) * 10; i += 7) {
        char event[80];

        snprintf(event, sizeof(event), "\"timestamp\":%" PRId64,
                 (int64_t) (ZERO + 10 * MRD_SEC + i * 100 * MRD_MS));
        CHECK(file_has(path, event));
    }
    CHECK(file_has(path, "\"clock_bound_ns\":null"));
    snprintf(note, sizeof(note), "i-a: %d events stamped by the wall clock came",
             (PAIRS - 20) * 10);
    CHECK(file_has(path, note));
    for (char digit = '0'; digit <= '9'; digit++) {
        char bound[] = "\"clock_bound_ns\":#";

        *strchr(bound, '#') = digit;
        CHECK(!file_has(path, bound));
    }
}

static int64_t
open_store(const char *store, char timeline[64])
{
    mrd_session_store s;
    mrd_timescale scale;
    mrd_why why = { 0 };

    CHECK_ERR("store", mrd_session_store_open(&s, store, MRD_SYNC_GROUP, &scale, &why), MRD_OK);
    snprintf(timeline, 64, "%s", scale.timeline);
    mrd_session_store_fini(&s);
    return scale.offset;
}

/* A restart continues the timeline. A move to another machine begins a new one, and so does the
 * move back. */
TEST(a_store_that_moved_begins_a_timeline)
{
    const char *elsewhere = "{\"boot_id\": \"elsewhere\", \"session_offset_ns\": 5, "
                            "\"timeline\": \"elsewhere#7\", \"moves\": 7}";
    char store[256], path[300], first[64], again[64], back[64];
    int64_t offset;

    snprintf(store, sizeof(store), "%s/store", test_tmp());
    snprintf(path, sizeof(path), "%s/clock.json", store);
    offset = open_store(store, first);
    CHECK(strchr(first, '#') == NULL);
    CHECK_INT(open_store(store, again), offset);
    CHECK_TEXT(again, first);
    CHECK_ERR("moved",
              mrd_write_file(path, (mrd_bytes){ (const uint8_t *) elsewhere, strlen(elsewhere) },
                             0644, NULL),
              MRD_OK);
    CHECK(open_store(store, back) != 5);
    CHECK(mrd_str_starts(mrd_str_of(back), first));
    CHECK_TEXT(back + strlen(first), "#8");
    offset = open_store(store, again);
    CHECK_TEXT(again, back);
    CHECK_INT(open_store(store, again), offset);
}

/* A slice is selected by session time, so it has the same events in all output times. */
TEST(a_slice_has_the_same_events_in_all_times)
{
    static const merge_times times[] = { MERGE_ALIGNED, MERGE_UTC, MERGE_RAW };
    recording r = recording_new("slice");
    part a = a_part("i-a", ZERO + 5 * MRD_SEC);
    mrd_listed_artifact files[2] = {
        { .name = "first.ntff", .kind = "NTFF", .instance_id = "i-a" },
        { .name = "second.neff", .kind = "NEFF", .instance_id = "i-a" }
    };
    merge_input in = {
        .dir = r.dir, .id = "s", .nodes = r.nodes, .artifacts = files, .n_artifacts = 2
    };

    add_node(&r, &a, 1);
    in.n_nodes = r.n;
    for (size_t i = 0; i < MRD_COUNT(times); i++) {
        mrd_filter only = MRD_FILTER_ALL;
        mrd_export_target target = { .ops = mrd_sink_find(MRD_STR("json")) };
        mrd_export_result result = { 0 };
        char path[400];
        mrd_why why = { 0 };

        only.start.ns = ZERO + 20 * MRD_SEC + MRD_SEC / 2;
        only.end.ns = ZERO + 50 * MRD_SEC + MRD_SEC / 2;
        snprintf(path, sizeof(path), "%s/slice.json", r.dir);
        CHECK_ERR("output", mrd_out_file(path, &target.out, &why), MRD_OK);
        CHECK_ERR("slice",
                  mrd_merge_run(
                      &in,
                      &(mrd_merge_order){
                          .filter = &only, .times = times[i], .targets = &target, .n_targets = 1 },
                      &result, NULL, &why),
                  MRD_OK);
        CHECK_INT(result.events, 30); /* one a second */
        CHECK(file_has(path, "first.ntff") && file_has(path, "second.neff"));
        mrd_filter_fini(&only);
    }
}

/* Events that no reading relates to session time are in every slice in other times, because they
 * may belong to it. */
TEST(a_slice_has_what_nothing_relates)
{
    static const merge_times times[] = { MERGE_UTC, MERGE_RAW };
    recording r = recording_new("slice-unread");

    wall.once = wall.again = 0;
    wall.unread = true;
    put_stamped(&r, ZERO - 777 * MRD_SEC, 0);
    wall.unread = false;
    for (size_t i = 0; i < MRD_COUNT(times); i++) {
        merge_input in = { .dir = r.dir, .id = "s", .nodes = r.nodes, .n_nodes = r.n };
        mrd_filter only = MRD_FILTER_ALL;
        mrd_export_target target = { .ops = mrd_sink_find(MRD_STR("json")) };
        mrd_merge_order order = {
            .filter = &only, .times = times[i], .targets = &target, .n_targets = 1
        };
        mrd_export_result result = { 0 };
        char path[400];

        only.start.ns = ZERO + 20 * MRD_SEC;
        only.end.ns = ZERO + 50 * MRD_SEC;
        snprintf(path, sizeof(path), "%s/slice.json", r.dir);
        CHECK_ERR("output", mrd_out_file(path, &target.out, NULL), MRD_OK);
        CHECK_ERR("slice", mrd_merge_run(&in, &order, &result, NULL, NULL), MRD_OK);
        CHECK_INT(result.events, (PAIRS - 20) * 10);
        mrd_filter_fini(&only);
    }
}

/* A frame arrived before it was sent, according to its clock. Then no clock proves anything, from
 * the first event on. */
TEST(contradictions_of_frames_distrust_all_clocks)
{
    recording r = recording_new("arrival");
    part a = a_part("i-a", ZERO), b = a_part("i-b", 77 * MRD_SEC);
    char path[400];

    add_node(&r, &a, 1);
    add_node(&r, &b, 1);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    for (int wrong = 0; wrong < 2; wrong++) {
        merge_input in = {
            .dir = r.dir, .id = "s", .nodes = r.nodes, .n_nodes = r.n, .violations = wrong ? 3 : 0
        };
        mrd_export_target target = { .ops = mrd_sink_find(MRD_STR("json")) };
        mrd_merge_order order = { .targets = &target, .n_targets = 1 };
        mrd_export_result result = { 0 };

        CHECK_ERR("output", mrd_out_file(path, &target.out, NULL), MRD_OK);
        CHECK_ERR("merge", mrd_merge_run(&in, &order, &result, NULL, NULL), MRD_OK);
        CHECK_INT(file_has(path, "3 checks (frames on arrival, held-out packets"), wrong);
        CHECK(file_has(path, "\"journal/i-a\"") && file_has(path, "\"journal/i-b\""));
    }
}

/* An arrow shows the caller. */
TEST(calls_have_their_arrows)
{
    static const mrd_source_kind sources[] = { MRD_SRC_ANNOTATION, MRD_SRC_API };
    static const char *const names[] = { "step", "nrt_execute" };
    recording r = recording_new("arrows");
    part p = a_part("i-a", ZERO);
    mrd_frame f = frame_of(&p, MRD_FRAME_BATCH);
    mrd_catalog *cat = mrd_catalog_new();
    mrd_codec *codec = mrd_codec_new();
    mrd_journal *j = NULL;
    mrd_buf wire = { 0 };
    mrd_process proc;
    mrd_proc_id id;
    mrd_batch *b;
    char dir[400];

    snprintf(dir, sizeof(dir), "%s/journal/i-a", r.dir);
    REQUIRE(mrd_journal_open(dir, MRD_STR("i-a"), 3, &j, NULL) == MRD_OK);
    put_probes(&p, j);
    mrd_process_init(&proc);
    proc.instance_id = mrd_catalog_intern(cat, p.id);
    proc.process_id = f.process_id = 7;
    id = mrd_catalog_process(cat, &proc);
    REQUIRE((b = mrd_batch_new(cat, id, 0, 0)) != NULL);
    for (size_t i = 0; i < MRD_COUNT(sources); i++) {
        mrd_event ev = { .kind = MRD_SPAN, .name = mrd_catalog_intern(cat, names[i]) };
        mrd_track t;

        mrd_track_init(&t, id, sources[i]);
        t.thread_id = 5;
        ev.track = mrd_catalog_track(cat, &t);
        ev.ts.ns = 50 * MRD_SEC + (int64_t) i * MRD_MS;
        ev.dur_ns = MRD_SEC - (int64_t) i * MRD_MS * 3;
        REQUIRE(mrd_batch_push(b, &ev) == MRD_OK);
    }
    REQUIRE(mrd_batch_encode(b, codec, MRD_CODEC_NONE, &f, &wire, NULL) == MRD_OK);
    REQUIRE(mrd_journal_append(j, &f, (mrd_bytes){ wire.p, wire.len }, NULL) == MRD_OK);
    REQUIRE(mrd_journal_close(j, NULL) == MRD_OK);
    snprintf(r.nodes[r.n++].instance_id, MRD_NODE_ID_MAX, "i-a");
    CHECK_INT(merge(&r, MERGE_ALIGNED, NULL).arrows, 1);
    mrd_buf_fini(&wire);
    mrd_batch_free(b);
    mrd_codec_free(codec);
    mrd_catalog_free(cat);
}

TEST(times_of_each_clock)
{
    static const struct {
        const char *name;
        merge_times times;
        int64_t first, slack;
    } rows[] = {
        { "aligned", MERGE_ALIGNED, ZERO + 10 * MRD_SEC, MRD_MS },
        { "utc", MERGE_UTC, ZERO + 17 * MRD_SEC, 0 },
        { "raw", MERGE_RAW, 10 * MRD_SEC - 5 * MRD_SEC, 0 },
    };
    recording r = recording_new("times");
    part a = a_part("i-a", ZERO + 5 * MRD_SEC);

    add_node(&r, &a, 1);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        int64_t first = merge(&r, rows[i].times, NULL).first.ns;

        CHECK_ROW(rows[i].name,
                  first >= rows[i].first - rows[i].slack && first <= rows[i].first + rows[i].slack);
    }
}

TEST_MAIN()
