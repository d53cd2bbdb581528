/* Merging constructed journals whose truth is known: collectives convict a wrong clock and acquit a
 * right one, every boot of a node has a clock of its own, and other times than aligned ones can be
 * written. */
#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "aggregator/clock_report.h"
#include "aggregator/merge.h"
#include "aggregator/node_clock.h"
#include "base/num.h"
#include "base/obj.h"
#include "proto/batch.h"
#include "trace/sink/sinks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ZERO        (1700000000LL * MRD_SEC) /* session time of the beginning */
#define PAIRS       120                      /* a second apart */
#define COLLECTIVES 100
#define LATENCY     (100 * MRD_US) /* from the last to enter until all leave */

typedef struct {
    char dir[256];
    merge_node nodes[4];
    size_t n;
} recording;

/* One node of a recording. */
typedef struct {
    const char *id, *boot;
    int64_t offset;     /* session - local, the truth */
    int64_t lie;        /* added to it by every probe: a deliberately wrong clock */
    int64_t begin, end; /* seconds of the session that it ran */
    int64_t early;      /* it enters so long before the last */
    int64_t mostly; /* instead of `early`, three times of four, on a line of the device; 0: never */
    unsigned more;  /* collectives behind COLLECTIVES that only it saw */
    const char *incarnation; /* of the aggregator, which answered; NULL: not said */
    int64_t
        utc_bound; /* that incarnation's wall clock reads as session time without the lie, and states
                           this; 0: nothing was read */
    bool phc;      /* a PTP clock here and at the aggregator, each within PHC_ERROR */
    int64_t phc_lie; /* added to what the one here reads */
    uint64_t seq;
} part;

static recording
recording_new(const char *name)
{
    recording r = { .n = 0 };

    snprintf(r.dir, sizeof(r.dir), "%s/%s", test_tmp(), name);
    return r;
}

static mrd_frame
frame_of(part *p, uint8_t type)
{
    return (mrd_frame){ .type = type,
                        .agent = mrd_agent_key(mrd_str_of(p->id)),
                        .epoch = 1,
                        .session = 3,
                        .seq = p->seq++,
                        .boot = mrd_boot_key(mrd_str_of(p->boot)) };
}

#define READINGS 8
#define RAW_ZERO (5000 * MRD_SEC) /* of the aggregator: session time minus its RAW is another */

/* What the aggregator read of its own clocks while it answered this part. */
static void
fill_server(const part *p, Mrd__ClockData *data, Mrd__ClockReading v[READINGS],
            Mrd__ClockTimex timex[READINGS], Mrd__ClockReading *list[READINGS])
{
    rng r = rng_new(rng_seed() + (uint64_t) p->lie);

    data->session_offset_ns = ZERO - RAW_ZERO + p->lie;
    data->aggregator = list;
    for (int i = 0; i < READINGS; i++) {
        int64_t at = p->begin * MRD_SEC + (p->end - p->begin) * MRD_SEC * i / READINGS;

        mrd__clock_reading__init(&v[i]);
        mrd__clock_timex__init(&timex[i]);
        v[i].raw_ns = RAW_ZERO + at;
        v[i].realtime_ns =
            ZERO + at + (int64_t) rng_between(&r, (double) -p->utc_bound, (double) p->utc_bound);
        v[i].timex = &timex[i];
        timex[i].maxerror_ns = p->utc_bound;
        list[data->n_aggregator++] = &v[i];
    }
}

#define PHC_ERROR (2 * MRD_US)

/* Readings of a PTP clock at both ends, which shows session time and five hours. */
static void
fill_phc(const part *p, Mrd__ClockReading v[READINGS], Mrd__ClockPhc phc[READINGS],
         Mrd__ClockReading *list[READINGS], int64_t local_minus_session, int64_t off, int64_t later)
{
    static char name[] = "ptp0";
    rng r = rng_new(rng_seed() + (uint64_t) later);

    for (int i = 0; i < READINGS; i++) {
        int64_t at =
            later + ZERO + p->begin * MRD_SEC + (p->end - p->begin) * MRD_SEC * i / READINGS;

        mrd__clock_reading__init(&v[i]);
        mrd__clock_phc__init(&phc[i]);
        v[i].raw_ns = phc[i].raw_ns = at + local_minus_session;
        v[i].phc = &phc[i];
        phc[i].name = name;
        phc[i].phc_ns = at + 5 * 3600 * MRD_SEC + off +
                        (int64_t) rng_between(&r, -(double) PHC_ERROR, PHC_ERROR);
        phc[i].error_ns = PHC_ERROR;
        list[i] = &v[i];
    }
}

static void
put_probes(part *p, mrd_journal *j)
{
    rng r = rng_new(rng_seed());
    Mrd__ClockData data = MRD__CLOCK_DATA__INIT;
    mrd_frame f = frame_of(p, MRD_FRAME_CLOCK_DATA);
    mrd_buf joined = { 0 }, wire = { 0 };
    Mrd__ClockReading own[READINGS], *list[READINGS];
    Mrd__ClockReading here[READINGS], *here_list[READINGS];
    Mrd__ClockTimex timex[READINGS];
    Mrd__ClockPhc phc[2][READINGS];
    char incarnation[16];

    snprintf(incarnation, sizeof(incarnation), "%s", p->incarnation == NULL ? "" : p->incarnation);
    data.reference = incarnation;
    if (p->utc_bound > 0)
        fill_server(p, &data, own, timex, list);
    if (p->phc) {
        fill_phc(p, own, phc[0], list, RAW_ZERO - ZERO, 0, 0);
        fill_phc(p, here, phc[1], here_list, -p->offset, p->phc_lie, MRD_SEC);
        data.session_offset_ns = ZERO - RAW_ZERO;
        data.aggregator = list;
        data.readings = here_list;
        data.n_aggregator = data.n_readings = READINGS;
    }
    for (uint32_t k = 0; k < 2 * PAIRS; k++) {
        int64_t sess = ZERO + (int64_t) (k / 2) * MRD_SEC + (k % 2) * 15000;
        int64_t up = 30000 + (int64_t) rng_between(&r, 0, 5000);
        int64_t down = 30000 + (int64_t) rng_between(&r, 0, 5000);
        mrd_probe probe = { .id = { f.agent, 1, k },
                            .a1 = sess - p->offset,
                            .r2 = sess + up + p->lie,
                            .r3 = sess + up + 10000 + p->lie,
                            .a4 = sess + up + 10000 + down - p->offset,
                            .e = 20,
                            .position = (uint8_t) (k % 2),
                            .source_up = MRD_STAMP_NNG,
                            .source_down = MRD_STAMP_NNG,
                            .up = true,
                            .down = true };

        probe.held_out = mrd_probe_held_out(probe.id);
        if (k / 2 >= p->begin && k / 2 < p->end)
            mrd_probe_encode(&probe, &joined);
    }
    data.joined = (ProtobufCBinaryData){ joined.len, joined.p };
    REQUIRE(mrd_msg_pack(&f, &data, &wire, NULL) == MRD_OK);
    REQUIRE(mrd_journal_append(j, &f, (mrd_bytes){ wire.p, wire.len }, NULL) == MRD_OK);
    mrd_buf_fini(&joined);
    mrd_buf_fini(&wire);
}

static void
put_collectives(part *p, mrd_journal *j)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_codec *codec = mrd_codec_new();
    mrd_frame f = frame_of(p, MRD_FRAME_BATCH);
    mrd_buf wire = { 0 };
    mrd_process proc;
    mrd_track track;
    mrd_batch *b;
    mrd_arg args[3] = { { .key = mrd_catalog_intern(cat, "gid"), .type = MRD_ARG_INT },
                        { .key = mrd_catalog_intern(cat, "op_id"), .type = MRD_ARG_INT },
                        { .key = mrd_catalog_intern(cat, "size"), .type = MRD_ARG_INT } };
    mrd_event ev = { .kind = MRD_SPAN, .args = args, .arg_count = 3 };

    mrd_process_init(&proc);
    proc.instance_id = mrd_catalog_intern(cat, p->id);
    proc.process_id = 4711;
    mrd_track_init(&track, mrd_catalog_process(cat, &proc),
                   p->mostly > 0 ? MRD_SRC_DEVICE : MRD_SRC_RUNTIME);
    track.lnc_idx = 0;
    ev.track = mrd_catalog_track(cat, &track);
    ev.name = mrd_catalog_intern(cat, "cc_running");
    args[0].v.i = 9;
    REQUIRE((b = mrd_batch_new(cat, track.process, 0, 0)) != NULL);
    for (int i = 0; i < COLLECTIVES + (int) p->more; i++) {
        int64_t last = ZERO + 10 * MRD_SEC + i * MRD_SEC;
        int64_t early = p->mostly > 0 && i % 4 != 0 ? p->mostly : p->early;

        if (10 + i < p->begin || 10 + i >= p->end)
            continue;
        args[1].v.i = i % 7;
        args[2].v.i = 1 << (i % 5);
        ev.ts_ns = last - early - p->offset;
        ev.dur_ns = early + LATENCY;
        REQUIRE(mrd_batch_push(b, &ev) == MRD_OK);
    }
    REQUIRE(mrd_batch_encode(b, codec, MRD_CODEC_NONE, &f, &wire, NULL) == MRD_OK);
    REQUIRE(mrd_journal_append(j, &f, (mrd_bytes){ wire.p, wire.len }, NULL) == MRD_OK);
    mrd_buf_fini(&wire);
    mrd_batch_free(b);
    mrd_codec_free(codec);
    mrd_catalog_free(cat);
}

/* The parts of one node, one per boot. */
static void
add_node(recording *r, part *parts, size_t n)
{
    merge_node *node = &r->nodes[r->n++];
    mrd_journal *j = NULL;
    char dir[400];

    snprintf(dir, sizeof(dir), "%s/journal/%s", r->dir, parts[0].id);
    REQUIRE(mrd_journal_open(dir, mrd_str_of(parts[0].id), 3, &j, NULL) == MRD_OK);
    for (size_t i = 0; i < n; i++) {
        parts[i].seq = i * 2;
        put_probes(&parts[i], j);
        put_collectives(&parts[i], j);
    }
    REQUIRE(mrd_journal_close(j, NULL) == MRD_OK);
    snprintf(node->instance_id, sizeof(node->instance_id), "%s", parts[0].id);
    node->local_ns = ZERO - parts[0].offset;
    node->wall_ns = ZERO + 7 * MRD_SEC; /* its wall clock is wrong by that */
}

static mrd_timeline links; /* of the last merge that had several incarnations */

static void
take_links(mrd_clock_verdict *v)
{
    mrd_timeline_of_json(&links, v->timeline);
    mrd_clock_verdict_fini(v);
}

static mrd_export_result
merge_as(recording *r, const char *format, merge_times times, mrd_clock_verdict *ret_verdict)
{
    merge_input in = { .dir = r->dir, .id = "s", .nodes = r->nodes, .n_nodes = r->n };
    mrd_export_target target = { .ops = mrd_sink_find(mrd_str_of(format)) };
    mrd_export_result result = { 0 };
    char path[400];
    mrd_why why = { 0 };

    snprintf(path, sizeof(path), "%s/out.json", r->dir);
    CHECK_ERR("output", mrd_out_file(path, &target.out, &why), MRD_OK);
    CHECK_ERR(
        "merge",
        mrd_merge_run(&in, &(mrd_merge_order){ .times = times, .targets = &target, .n_targets = 1 },
                      &result, ret_verdict, &why),
        MRD_OK);
    return result;
}

static mrd_export_result
merge(recording *r, merge_times times, mrd_clock_verdict *ret_verdict)
{
    return merge_as(r, "json", times, ret_verdict);
}

static part
a_part(const char *id, int64_t offset)
{
    return (part){ .id = id, .boot = "one", .offset = offset, .end = PAIRS };
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
    CHECK_INT(v.held_out_violations, 0);
}

/* All probes of one node lie by 5 ms, those held out as well: only the collectives can tell. */
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

/* Of the report of two nodes, one of which is late by 2 ms three times of four. */
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

/* With the wrong clock i-b seems late by 3 ms where it was first by 2; collectives in which it was
 * the last show that the clock is wrong. They come with the events, so proofs wait for the end. */
TEST(a_convicted_clock_proves_nobody_late)
{
    CHECK(report_total("fair", 0, "proven") >= COLLECTIVES / 2);
    CHECK_INT(report_total("fair too", 0, "suspect_clock"), 0);
    CHECK_INT(report_total("foul", 5 * MRD_MS, "proven"), 0);
    CHECK(report_total("foul too", 5 * MRD_MS, "suspect_clock") > COLLECTIVES / 2);
}

/* One node went on recording a little longer: what only it saw is left out, the rest is checked. */
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

/* RAW starts again after the reboot: two tables, and every event on the one timeline. */
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
    CHECK_INT(result.events, COLLECTIVES + 90); /* ten of the second node's fell into its reboot */
    CHECK(result.first_ns >= ZERO + 10 * MRD_SEC - MRD_MS);
    CHECK(result.last_ns <= ZERO + 110 * MRD_SEC + MRD_MS);
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
}

/* ---- absolute time at both ends ---- */

static bool
has(const char *path, const char *text)
{
    FILE *f = fopen(path, "r");
    mrd_buf all = { 0 };
    bool found;
    int c;

    while (f != NULL && (c = getc(f)) != EOF)
        mrd_buf_byte(&all, (uint8_t) c);
    if (f != NULL)
        fclose(f);
    found = strstr(mrd_buf_cstr(&all), text) != NULL;
    mrd_buf_fini(&all);
    return found;
}

/* Packets know the clock within 30 us; where both ends have a PTP clock, it is known better. One
 * that lies is noticed, and changes nothing. */
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
    char path[400];

    for (int i = 0; i < 3; i++) {
        all[i].incarnation = "A";
        all[i].phc = i < 2;
    }
    all[1].phc_lie = MRD_MS;
    for (int i = 0; i < 3; i++)
        add_node(&r, &all[i], 1);
    (void) merge(&r, MERGE_ALIGNED, &v);
    CHECK_INT(v.absolute, 2 * (READINGS - 1)); /* the last ones have none behind them */
    CHECK(v.absolute_violations > 0);
    CHECK_INT(v.held_out_violations, 0);
    CHECK_INT(v.collectives.violations, 0);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(has(path, "one of both is wrong, the readings are not used"));
    CHECK_ERR("report", mrd_clock_report_read(r.dir, &none, &report, &why), MRD_OK);
    REQUIRE(report.n == 3);
    for (size_t i = 0; i < 3; i++) {
        const mrd_boot_clock *c = &report.v[i].clock.v[0];
        mrd_align_cursor cursor = { 0 };

        REQUIRE(c->align != NULL && mrd_align_summarise(c->align, 0, &sum));
        CHECK_ROW(report.v[i].id,
                  i == 0 ? sum.width_median < 58 * MRD_US : sum.width_median > 58 * MRD_US);
        CHECK_INT(c->absolute[MRD_ABSOLUTE_PHC].pairs, i < 2 ? READINGS - 1 : 0);
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
    CHECK(mrd_clock_report_violations(&report) > 0);
    mrd_clock_report_text(&report, &text);
    CHECK(strstr(mrd_buf_cstr(&text), "i-a: 7 readings of the PTP clock at both ends agree") !=
          NULL);
    CHECK(strstr(mrd_buf_cstr(&text), "NOT USED") != NULL);
    mrd_buf_fini(&text);
    mrd_clock_report_fini(&report);
}

/* ---- another incarnation of the aggregator ---- */

#define MOVED (-20 * MRD_SEC) /* its second incarnation's session times are behind */

/* Two nodes that live through both incarnations, and one that came with the second. */
static recording
two_incarnations(const char *name, const char *second_boot, int64_t utc_bound)
{
    recording r = recording_new(name);
    part all[3][2] = { { a_part("i-a", ZERO - 7000 * MRD_SEC),
                         a_part("i-a", ZERO - 7000 * MRD_SEC) },
                       { a_part("i-b", ZERO + 65 * MRD_SEC), a_part("i-b", ZERO + 65 * MRD_SEC) },
                       { a_part("i-c", ZERO), a_part("i-c", ZERO) } };

    for (size_t i = 0; i < 3; i++) {
        all[i][0].incarnation = "A";
        all[i][0].end = 50;
        all[i][1].incarnation = "B";
        all[i][1].boot = second_boot;
        all[i][1].begin = 70;
        all[i][1].lie = MOVED;
        all[i][0].utc_bound = all[i][1].utc_bound = utc_bound;
    }
    add_node(&r, all[0], 2);
    add_node(&r, all[1], 2);
    add_node(&r, &all[2][1], 1);
    return r;
}

/* Every second of the second incarnation lies where it happened, within its bound and the link's. */
static void
check_second_incarnation(const recording *r, mrd_dur_ns link)
{
    static const int64_t offsets[] = { ZERO - 7000 * MRD_SEC, ZERO + 65 * MRD_SEC, ZERO };
    mrd_clock_report report = { 0 };
    mrd_strlist all = { 0 };
    mrd_why why = { 0 };

    CHECK_ERR("report", mrd_clock_report_read(r->dir, &all, &report, &why), MRD_OK);
    REQUIRE(report.n == 3);
    CHECK_INT(report.timeline.n, 2);
    for (size_t i = 0; i < 3; i++) {
        const mrd_boot_clock *c = &report.v[i].clock.v[report.v[i].clock.n - 1];
        mrd_align_cursor cursor = { 0 };
        size_t missed = 0;

        REQUIRE(c->align != NULL);
        CHECK_INT(c->violations, 0);
        for (int64_t s = 71; s < PAIRS - 1; s++) {
            int64_t truth = ZERO + s * MRD_SEC;
            mrd_align_bound b;
            mrd_sess_ns at;

            CHECK(mrd_align_map(c->align, &cursor, (mrd_local_ns){ truth - offsets[i] }, &at, &b));
            missed += truth < b.lo.ns - link || truth > b.hi.ns + link;
        }
        CHECK_ROW(report.v[i].id, missed == 0);
    }
    mrd_clock_report_fini(&report);
}

TEST(incarnations_are_linked_by_nodes_whose_clocks_ran_on)
{
    recording r = two_incarnations("incarnations", "one", 0);
    mrd_clock_verdict v = { 0 };
    mrd_export_result result;
    const mrd_incarnation *l = &links.v[1];
    char path[400];

    check_second_incarnation(&r, 2 * MRD_MS); /* from the journal alone */
    result = merge(&r, MERGE_ALIGNED, &v);
    take_links(&v);
    REQUIRE(links.n == 2);
    CHECK_INT(l->by, MRD_LINKED_NODES);
    CHECK_INT(l->link.clocks, 2);
    CHECK_INT(l->link.contradicting, 0);
    CHECK(MOVED + l->shift_ns >= l->link.lo && MOVED + l->shift_ns <= l->link.hi);
    CHECK(mrd_incarnation_bound(l) > 0 && mrd_incarnation_bound(l) < MRD_MS);
    CHECK(l->link.at_ns > ZERO + 50 * MRD_SEC && l->link.at_ns < ZERO + 70 * MRD_SEC);
    CHECK_INT(v.collectives.violations, 0);
    CHECK_INT(v.held_out_violations, 0);
    CHECK(result.first_ns >= ZERO + 10 * MRD_SEC - MRD_MS);
    CHECK(result.last_ns > ZERO + 109 * MRD_SEC && result.last_ns <= ZERO + 110 * MRD_SEC);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(has(path, "by 2 clocks that ran on over the "));
    CHECK(has(path, "clock.link.2"));
    check_second_incarnation(&r,
                             mrd_incarnation_bound(l)); /* with the tables that the merge kept */
}

/* A slice of the one node that knows only the second incarnation lies where the whole puts it. */
TEST(a_slice_goes_by_the_other_nodes_too)
{
    recording r = two_incarnations("incarnations-slice", "one", 0);
    merge_input in = { .dir = r.dir, .id = "s", .nodes = r.nodes, .n_nodes = r.n };

    for (int i = 0; i < 2; i++) { /* before the whole was merged, and after */
        mrd_filter only = MRD_FILTER_ALL;
        mrd_export_target target = { .ops = mrd_sink_find(MRD_STR("json")) };
        mrd_export_result result = { 0 };
        char path[400];
        mrd_why why = { 0 };

        CHECK_ERR("node", mrd_strlist_add(&only.instances, MRD_STR("i-c")), MRD_OK);
        snprintf(path, sizeof(path), "%s/slice.json", r.dir);
        CHECK_ERR("output", mrd_out_file(path, &target.out, &why), MRD_OK);
        CHECK_ERR(
            "slice",
            mrd_merge_run(&in,
                          &(mrd_merge_order){ .filter = &only, .targets = &target, .n_targets = 1 },
                          &result, NULL, &why),
            MRD_OK);
        CHECK(result.first_ns > ZERO + 70 * MRD_SEC - 2 * MRD_MS &&
              result.first_ns < ZERO + 70 * MRD_SEC + 2 * MRD_MS);
        mrd_filter_fini(&only);
        (void) merge(&r, MERGE_ALIGNED, NULL);
    }
}

TEST(incarnations_are_linked_by_utc_where_no_clock_ran_on)
{
    recording r = two_incarnations("incarnations-utc", "two", 3 * MRD_MS);
    mrd_clock_verdict v = { 0 };
    const mrd_incarnation *l = &links.v[1];
    char path[400];

    (void) merge(&r, MERGE_ALIGNED, &v);
    take_links(&v);
    REQUIRE(links.n == 2);
    CHECK_INT(l->by, MRD_LINKED_UTC);
    CHECK(MOVED + l->shift_ns >= l->link.lo && MOVED + l->shift_ns <= l->link.hi);
    CHECK(mrd_incarnation_bound(l) >= 2 * MRD_MS && mrd_incarnation_bound(l) < 50 * MRD_MS);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(has(path, "by UTC"));
    check_second_incarnation(&r, mrd_incarnation_bound(l));
}

/* Nothing relates them: said, and what came later is not written earlier. */
TEST(incarnations_that_nothing_links_say_so)
{
    recording r = two_incarnations("incarnations-none", "two", 0);
    mrd_clock_verdict v = { 0 };
    const mrd_incarnation *l = &links.v[1];
    char path[400];

    (void) merge(&r, MERGE_ALIGNED, &v);
    take_links(&v);
    REQUIRE(links.n == 2);
    CHECK_INT(l->by, MRD_LINKED_NONE);
    CHECK_INT(mrd_incarnation_bound(l), -1);
    CHECK(l->shift_ns >= -MOVED - 21 * MRD_SEC && l->shift_ns < -MOVED);
    CHECK(ZERO + 70 * MRD_SEC + MOVED + l->shift_ns >= ZERO + 49 * MRD_SEC);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(has(path, "NOT linked"));
}

/* ---- a wall clock that is set back ---- */

#define SET_BACK (-3600 * MRD_SEC)

/* A batch a second, stamped by the node's wall clock, which is set back in the middle; ten events
 * in each, and the readings that bracket it. */
static void
put_stamped(recording *r, int64_t offset)
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
    proc.process_id = 4711;
    mrd_track_init(&track, mrd_catalog_process(cat, &proc), MRD_SRC_RUNTIME);
    for (int64_t sec = 10; sec < PAIRS - 10; sec++) {
        mrd_frame f = frame_of(&p, MRD_FRAME_BATCH);
        mrd_event ev = { .kind = MRD_INSTANT, .track = mrd_catalog_track(cat, &track) };
        mrd_batch *b = mrd_batch_new(cat, track.process, MRD__CLOCK_KIND__CLOCK_REALTIME, 0);
        mrd_buf wire = { 0 };

        REQUIRE(b != NULL);
        ev.name = mrd_catalog_intern(cat, "stamped");
        for (int64_t i = 0; i <= 10; i++) {
            int64_t sess = ZERO + sec * MRD_SEC + i * 100 * MRD_MS;
            int64_t wall = sess + (sess >= ZERO + 60 * MRD_SEC + 50 * MRD_MS ? SET_BACK : 0);
            mrd_cross_read read = { sess - offset, wall, 50 };

            ev.ts_ns = wall;
            if (i < 10)
                REQUIRE(mrd_batch_push(b, &ev) == MRD_OK);
            if (i % 5 == 0)
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

/* Every event at its time, in the order in which it happened, and well known but beside the step.
 */
TEST(stamps_of_a_clock_set_back_lie_where_they_happened)
{
    recording r = recording_new("set-back");
    const int64_t from = ZERO + 10 * MRD_SEC, n = (PAIRS - 20) * 10;
    mrd_export_result result;
    const mrd_json *events;
    mrd_json *doc = NULL;
    size_t off = 0, silent = 0, wide = 0;
    mrd_why why = { 0 };
    char path[400];

    put_stamped(&r, ZERO - 777 * MRD_SEC);
    result = merge(&r, MERGE_ALIGNED, NULL);
    CHECK_INT(result.events, n);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(has(path, "was set by "));
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
        bound = mrd_json_int(e, "clock_bound_ns", 0);
        off += llabs(at - truth) > MRD_MS;
        silent += llabs(at - truth) > bound;
        wide += bound > MRD_MS;
    }
    CHECK_INT(off, 0);
    CHECK_INT(silent, 0);
    CHECK(wide <= 10);
    mrd_json_free(doc);
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

/* A restart goes on; another machine, and the way back from it, begin a timeline each. */
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
        int64_t first = merge(&r, rows[i].times, NULL).first_ns;

        CHECK_ROW(rows[i].name,
                  first >= rows[i].first - rows[i].slack && first <= rows[i].first + rows[i].slack);
    }
}

/* ---- What is damaged, hostile or another's ---- */

#define NO_BATCH 60 /* events that the header of an undecodable batch claims */

/* A batch whose checksums are right and whose body is none. */
static void
put_undecodable(part *p, mrd_journal *j, bool head_is_fine)
{
    static const char junk[] = "\xff\xff\xff\xff\xff no message \xff\xff\xff\xff";
    mrd_frame f = frame_of(p, MRD_FRAME_BATCH);
    uint8_t whole[MRD_FRAME_HEADER + sizeof(junk)];

    f.process_id = 4711;
    f.events = NO_BATCH;
    f.head_len = f.head_raw = head_is_fine ? 0 : sizeof(junk);
    f.cols_raw = head_is_fine ? sizeof(junk) : 0;
    memcpy(whole + MRD_FRAME_HEADER, junk, sizeof(junk));
    mrd_frame_put(&f, (mrd_bytes){ whole + MRD_FRAME_HEADER, sizeof(junk) }, whole);
    REQUIRE(mrd_journal_append(j, &f, (mrd_bytes){ whole, sizeof(whole) }, NULL) == MRD_OK);
}

/* A recording of two nodes; the second also stored an undecodable batch. */
static void
record_spoiled(recording *r, bool head_is_fine)
{
    part a = a_part("i-a", ZERO), b = a_part("i-b", ZERO + 5 * MRD_SEC);
    mrd_journal *j = NULL;
    char dir[400];

    add_node(r, &a, 1);
    add_node(r, &b, 1);
    snprintf(dir, sizeof(dir), "%s/journal/i-b", r->dir);
    REQUIRE(mrd_journal_open(dir, MRD_STR("i-b"), 3, &j, NULL) == MRD_OK);
    put_undecodable(&b, j, head_is_fine);
    REQUIRE(mrd_journal_close(j, NULL) == MRD_OK);
}

/* As an HTTP reply does: nobody asks why. */
static uint64_t
merge_unasked(recording *r, const mrd_filter *filter, mrd_damage damage[4], char *ret_summary,
              size_t size)
{
    merge_input in = {
        .dir = r->dir, .id = "s", .nodes = r->nodes, .n_nodes = r->n, .damage = damage
    };
    mrd_export_target target = { .ops = mrd_sink_find(MRD_STR("summary-json")) };
    mrd_export_result result = { 0 };
    char path[400];
    FILE *f;

    snprintf(path, sizeof(path), "%s/summary.json", r->dir);
    CHECK_ERR("output", mrd_out_file(path, &target.out, NULL), MRD_OK);
    CHECK_ERR("merge",
              mrd_merge_run(
                  &in, &(mrd_merge_order){ .filter = filter, .targets = &target, .n_targets = 1 },
                  &result, NULL, NULL),
              MRD_OK);
    *ret_summary = '\0';
    if ((f = fopen(path, "re")) == NULL)
        return 0;
    ret_summary[fread(ret_summary, 1, size - 1, f)] = '\0';
    fclose(f);
    return result.events;
}

TEST(an_undecodable_batch_costs_itself)
{
    mrd_filter only = MRD_FILTER_ALL;
    char summary[20000];

    REQUIRE(mrd_strlist_add(&only.instances, MRD_STR("i-b")) == MRD_OK);
    for (int head_is_fine = 0; head_is_fine < 2; head_is_fine++) {
        recording r = recording_new(head_is_fine ? "spoiled-columns" : "spoiled-head");

        record_spoiled(&r, head_is_fine != 0);
        for (int slice = 0; slice < 2; slice++) {
            mrd_damage damage[4] = { 0 };
            uint64_t events =
                merge_unasked(&r, slice ? &only : NULL, damage, summary, sizeof(summary));

            CHECK_INT(events, slice ? COLLECTIVES : 2 * COLLECTIVES);
            CHECK(damage[0].events == 0 && damage[0].frames == 0);
            CHECK(damage[1].events == NO_BATCH && damage[1].frames == 1);
            CHECK(strstr(summary, "\"incomplete\": true") != NULL ||
                  strstr(summary, "\"incomplete\":true") != NULL);
            CHECK(strstr(summary, "cannot be read back") != NULL);
        }
    }
    mrd_filter_fini(&only);
}

TEST(what_is_stored_and_not_there_is_counted)
{
    recording r = recording_new("gone");
    part a = a_part("i-a", ZERO), b = a_part("i-b", ZERO + 5 * MRD_SEC);
    mrd_damage damage[4] = { 0 };
    char summary[20000], command[500];

    add_node(&r, &a, 1);
    add_node(&r, &b, 1);
    for (size_t i = 0; i < 2; i++) {
        r.nodes[i].events = COLLECTIVES;
        r.nodes[i].frames = 2;
    }
    CHECK_INT(merge_unasked(&r, NULL, damage, summary, sizeof(summary)), 2 * COLLECTIVES);
    CHECK(damage[0].events == 0 && damage[1].events == 0 && damage[1].frames == 0);
    CHECK(strstr(summary, "cannot be read back") == NULL);
    snprintf(command, sizeof(command), "rm %s/journal/i-b/*.mrj", r.dir);
    REQUIRE(system(command) == 0);
    CHECK_INT(merge_unasked(&r, NULL, damage, summary, sizeof(summary)), COLLECTIVES);
    CHECK(damage[0].events == 0 && damage[0].frames == 0);
    CHECK(damage[1].events == COLLECTIVES && damage[1].frames == 2);
    CHECK(strstr(summary, "100 of 100 stored events") != NULL);
}

/* One bit anywhere in a stored batch: what is lost is said, to the event. */
TEST(a_flipped_bit_is_counted)
{
    recording r = recording_new("flipped");
    part a = a_part("i-a", ZERO);
    char pattern[400], summary[20000];
    rng random = rng_new(rng_seed());
    struct stat st;
    int fd;

    add_node(&r, &a, 1);
    r.nodes[0].events = COLLECTIVES;
    r.nodes[0].frames = 2;
    snprintf(pattern, sizeof(pattern), "%s/journal/i-a/000001.mrj", r.dir);
    REQUIRE((fd = open(pattern, O_RDWR | O_CLOEXEC)) >= 0 && fstat(fd, &st) == 0);
    for (int i = 0; i < 60; i++) {
        off_t at = MRD_SEGMENT_HEADER +
                   (off_t) rng_between(&random, 0, (double) (st.st_size - MRD_SEGMENT_HEADER - 1));
        mrd_damage damage[4] = { 0 };
        uint8_t byte, flipped;
        uint64_t events;

        REQUIRE(pread(fd, &byte, 1, at) == 1);
        flipped = (uint8_t) (byte ^ (1u << (i % 8)));
        REQUIRE(pwrite(fd, &flipped, 1, at) == 1);
        events = merge_unasked(&r, NULL, damage, summary, sizeof(summary));
        CHECK_INT(events + damage[0].events, COLLECTIVES);
        CHECK(damage[0].events == 0 || strstr(summary, "cannot be read back") != NULL);
        REQUIRE(pwrite(fd, &byte, 1, at) == 1);
    }
    close(fd);
}

/* A node that sends batches in another's name: they are its own, and that is said. */
TEST(a_node_publishes_as_itself_only)
{
    recording r = recording_new("foreign");
    part a = a_part("i-a", ZERO), forger = a_part("i-a", ZERO);
    mrd_damage damage[4] = { 0 };
    mrd_journal *j = NULL;
    char dir[400], summary[20000];

    add_node(&r, &a, 1);
    snprintf(dir, sizeof(dir), "%s/journal/i-evil", r.dir);
    REQUIRE(mrd_journal_open(dir, MRD_STR("i-evil"), 3, &j, NULL) == MRD_OK);
    put_collectives(&forger, j); /* its process is of i-a */
    REQUIRE(mrd_journal_close(j, NULL) == MRD_OK);
    snprintf(r.nodes[r.n++].instance_id, MRD_NODE_ID_MAX, "i-evil");
    CHECK_INT(merge_unasked(&r, NULL, damage, summary, sizeof(summary)), 2 * COLLECTIVES);
    CHECK(damage[0].foreign == 0 && damage[1].foreign == 1);
    CHECK(strstr(summary, "i-evil: 1 of its batches claim") != NULL);
    /* Each node has its own process 4711. */
    CHECK(strstr(summary, "\"instance_id\": \"i-evil\"") != NULL ||
          strstr(summary, "\"instance_id\":\"i-evil\"") != NULL);
}

/* ---- Readings that no clock shows ---- */

static const int64_t extremes[] = {
    INT64_MIN, INT64_MIN + 1, INT64_MIN / 2, -MRD_TIME_MAX - 1, -MRD_TIME_MAX, -1,       0,
    1,         MRD_TIME_MAX,  INT64_MAX / 2, MRD_TIME_MAX + 1,  INT64_MAX - 1, INT64_MAX
};

/* Everything that a node may say of its clocks, one number each. */
typedef struct {
    int64_t raw, wall, bracket, monotonic, boottime, maxerror, esterror, freq, clockbound, phc,
        phc_raw, phc_bracket, phc_error, vm, after, before, lost, a1, a4, r2, r3, cross_raw,
        cross_wall, event, dur, hello_local, hello_wall;
} claims;

#define CLAIMS (sizeof(claims) / sizeof(int64_t))

static void
put_claimed_clock(part *p, mrd_journal *j, const claims *c)
{
    Mrd__ClockReading reading = MRD__CLOCK_READING__INIT, *readings[] = { &reading };
    Mrd__ClockTimex timex = MRD__CLOCK_TIMEX__INIT;
    Mrd__ClockBound bound = MRD__CLOCK_BOUND__INIT;
    Mrd__ClockPhc phc = MRD__CLOCK_PHC__INIT;
    Mrd__ClockVm vm = MRD__CLOCK_VM__INIT;
    Mrd__ClockBreak gap = MRD__CLOCK_BREAK__INIT, *gaps[] = { &gap };
    Mrd__ClockData data = MRD__CLOCK_DATA__INIT;
    mrd_frame f = frame_of(p, MRD_FRAME_CLOCK_DATA);
    mrd_probe probe = { .id = { f.agent, 1, 0 },
                        .a1 = c->a1,
                        .a4 = c->a4,
                        .r2 = c->r2,
                        .r3 = c->r3,
                        .e = 20,
                        .up = true,
                        .down = true };
    mrd_buf joined = { 0 }, wire = { 0 };
    char name[] = "ptp0";

    reading.raw_ns = c->raw;
    reading.realtime_ns = c->wall;
    reading.bracket_ns = (uint64_t) c->bracket;
    reading.monotonic_ns = c->monotonic;
    reading.boottime_ns = c->boottime;
    timex.maxerror_ns = c->maxerror;
    timex.esterror_ns = c->esterror;
    timex.freq_ppb = c->freq;
    bound.bound_ns = c->clockbound;
    phc.name = name;
    phc.phc_ns = c->phc;
    phc.raw_ns = c->phc_raw;
    phc.bracket_ns = (uint64_t) c->phc_bracket;
    phc.error_ns = c->phc_error;
    vm.maxerror_ns = c->vm;
    reading.timex = &timex;
    reading.clockbound = &bound;
    reading.phc = &phc;
    reading.vmclock = &vm;
    gap.cause = MRD_EPOCH_SUSPEND;
    gap.after_ns = c->after;
    gap.before_ns = c->before;
    gap.lost_ns = c->lost;
    data.readings = readings;
    data.breaks = gaps;
    data.n_readings = data.n_breaks = 1;
    if ((c->a1 | c->a4 | c->r2 | c->r3) != 0)
        mrd_probe_encode(&probe, &joined);
    data.joined = (ProtobufCBinaryData){ joined.len, joined.p };
    REQUIRE(mrd_msg_pack(&f, &data, &wire, NULL) == MRD_OK);
    REQUIRE(mrd_journal_append(j, &f, (mrd_bytes){ wire.p, wire.len }, NULL) == MRD_OK);
    mrd_buf_fini(&joined);
    mrd_buf_fini(&wire);
}

/* One event in RAW and one of the wall clock, beside a reading of both. */
static void
put_claimed_events(part *p, mrd_journal *j, const claims *c, unsigned clock)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_codec *codec = mrd_codec_new();
    mrd_frame f = frame_of(p, MRD_FRAME_BATCH);
    mrd_cross_read cross[] = { { c->cross_raw, c->cross_wall, 20 }, { 5, 1000, 20 } };
    mrd_event ev = { .kind = MRD_SPAN, .ts_ns = c->event, .dur_ns = c->dur < 0 ? 0 : c->dur };
    mrd_buf wire = { 0 };
    mrd_process proc;
    mrd_track track;
    mrd_batch *b;

    mrd_process_init(&proc);
    proc.instance_id = mrd_catalog_intern(cat, p->id);
    proc.process_id = 6;
    mrd_track_init(&track, mrd_catalog_process(cat, &proc), MRD_SRC_RUNTIME);
    ev.track = mrd_catalog_track(cat, &track);
    ev.name = mrd_catalog_intern(cat, "step");
    REQUIRE((b = mrd_batch_new(cat, track.process, clock, 0)) != NULL);
    for (size_t i = 0; clock != 0 && i < 2; i++)
        REQUIRE(mrd_batch_cross(b, &cross[i]) == MRD_OK);
    REQUIRE(mrd_batch_push(b, &ev) == MRD_OK);
    REQUIRE(mrd_batch_encode(b, codec, MRD_CODEC_NONE, &f, &wire, NULL) == MRD_OK);
    REQUIRE(mrd_journal_append(j, &f, (mrd_bytes){ wire.p, wire.len }, NULL) == MRD_OK);
    mrd_buf_fini(&wire);
    mrd_batch_free(b);
    mrd_codec_free(codec);
    mrd_catalog_free(cat);
}

static void
add_claiming_node(recording *r, const claims *c)
{
    part p = a_part("i-evil", 0);
    merge_node *node = &r->nodes[1];
    mrd_journal *j = NULL;
    char dir[400];

    r->n = 2;
    *node = (merge_node){ .instance_id = "i-evil",
                          .local_ns = c->hello_local,
                          .wall_ns = c->hello_wall };
    snprintf(dir, sizeof(dir), "rm -rf %s/journal/i-evil", r->dir);
    REQUIRE(system(dir) == 0);
    snprintf(dir, sizeof(dir), "%s/journal/i-evil", r->dir);
    REQUIRE(mrd_journal_open(dir, MRD_STR("i-evil"), 3, &j, NULL) == MRD_OK);
    put_claimed_clock(&p, j, c);
    put_claimed_events(&p, j, c, 0);
    put_claimed_events(&p, j, c, MRD__CLOCK_KIND__CLOCK_REALTIME);
    REQUIRE(mrd_journal_close(j, NULL) == MRD_OK);
}

/* What the honest node's row says is what it says alone; nothing fails. */
static void
merge_claims(recording *r, const claims *c, const char *alone)
{
    static char summary[200000];
    mrd_damage damage[4] = { 0 };
    mrd_export_result result;

    add_claiming_node(r, c);
    CHECK_INT(merge_unasked(r, NULL, damage, summary, sizeof(summary)), COLLECTIVES + 2);
    CHECK(damage[0].events == 0 && damage[1].events == 0);
    CHECK(strstr(summary, alone) != NULL);
    result = merge(r, MERGE_UTC, NULL);
    CHECK_INT(result.events, COLLECTIVES + 2);
}

/* The JSON of the first clock of the summary. */
static void
first_clock(const char *summary, char *to, size_t size)
{
    const char *at = strstr(summary, "\"i-a RAW\""), *end = at == NULL ? NULL : strchr(at, '}');

    snprintf(to, size, "%.*s", end == NULL ? 0 : (int) (end - at), at == NULL ? "" : at);
}

TEST(absurd_readings_cost_their_clock)
{
    const claims sane = { .raw = 5, .wall = ZERO, .event = 7, .cross_raw = 1, .cross_wall = 900 };
    recording r = recording_new("absurd");
    part a = a_part("i-a", ZERO);
    mrd_damage damage[4] = { 0 };
    static char summary[200000], alone[2000];
    claims c;

    add_node(&r, &a, 1);
    (void) merge_unasked(&r, NULL, damage, summary, sizeof(summary));
    first_clock(summary, alone, sizeof(alone));
    CHECK(strstr(alone, "\"quality\": \"good\"") != NULL);
    for (size_t field = 0; field < CLAIMS; field++) {
        for (size_t i = 0; i < MRD_COUNT(extremes); i++) {
            c = sane;
            memcpy((char *) &c + field * sizeof(int64_t), &extremes[i], sizeof(int64_t));
            merge_claims(&r, &c, alone);
        }
    }
    for (size_t round = 0; round < 100; round++) { /* several at a time */
        rng random = rng_new(rng_seed() + round);

        for (size_t field = 0; field < CLAIMS; field++) {
            size_t i = (size_t) rng_between(&random, 0, (double) MRD_COUNT(extremes) - 0.01);

            memcpy((char *) &c + field * sizeof(int64_t), &extremes[i], sizeof(int64_t));
        }
        merge_claims(&r, &c, alone);
    }
    c = sane;
    c.raw = INT64_MAX;
    c.wall = INT64_MIN;
    c.hello_local = INT64_MIN;
    add_claiming_node(&r, &c);
    (void) merge_unasked(&r, NULL, damage, summary, sizeof(summary));
    CHECK(strstr(summary, "clock of i-evil: unknown") != NULL);
}

TEST_MAIN()
