/* Merging constructed journals whose truth is known: collectives convict a wrong clock and acquit a
 * right one, every boot of a node has a clock of its own, and other times than aligned ones can be
 * written. */
#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "aggregator/merge.h"
#include "aggregator/node_clock.h"
#include "proto/batch.h"

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
    unsigned more;      /* collectives behind COLLECTIVES that only it saw */
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

static void
put_probes(part *p, mrd_journal *j)
{
    rng r = rng_new(rng_seed());
    Mrd__ClockData data = MRD__CLOCK_DATA__INIT;
    mrd_frame f = frame_of(p, MRD_FRAME_CLOCK_DATA);
    mrd_buf joined = { 0 }, wire = { 0 };

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
    mrd_track_init(&track, mrd_catalog_process(cat, &proc), MRD_SRC_RUNTIME);
    track.lnc_idx = 0;
    ev.track = mrd_catalog_track(cat, &track);
    ev.name = mrd_catalog_intern(cat, "cc_running");
    args[0].v.i = 9;
    REQUIRE((b = mrd_batch_new(cat, track.process, 0, 0)) != NULL);
    for (int i = 0; i < COLLECTIVES + (int) p->more; i++) {
        int64_t last = ZERO + 10 * MRD_SEC + i * MRD_SEC;

        if (10 + i < p->begin || 10 + i >= p->end)
            continue;
        args[1].v.i = i % 7;
        args[2].v.i = 1 << (i % 5);
        ev.ts_ns = last - p->early - p->offset;
        ev.dur_ns = p->early + LATENCY;
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

static mrd_export_result
merge(recording *r, merge_times times, merge_verdict *ret_verdict)
{
    merge_input in = { .dir = r->dir, .id = "s", .nodes = r->nodes, .n_nodes = r->n };
    mrd_export_target target = { mrd_sink_find(MRD_STR("json")), NULL };
    mrd_export_result result = { 0 };
    char path[400];
    mrd_why why = { 0 };

    snprintf(path, sizeof(path), "%s/out.json", r->dir);
    CHECK_ERR("output", mrd_out_file(path, &target.out, &why), MRD_OK);
    CHECK_ERR("merge",
              merge_run(&in, NULL, times, &target, 1, NULL, NULL, &result, ret_verdict, &why),
              MRD_OK);
    return result;
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
    merge_verdict v = { 0 };

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
    merge_verdict v = { 0 };

    a.early = 200 * MRD_US;
    b.lie = 5 * MRD_MS;
    add_node(&r, &a, 1);
    add_node(&r, &b, 1);
    merge(&r, MERGE_ALIGNED, &v);
    CHECK_INT(v.held_out_violations, 0);
    CHECK_INT(v.collectives.violations, COLLECTIVES);
    CHECK(v.collectives.worst > 4 * MRD_MS && v.collectives.worst < 5 * MRD_MS);
}

/* One node went on recording a little longer: what only it saw is left out, the rest is checked. */
TEST(unequal_sequences_are_cut_to_the_time_common_to_all)
{
    recording r = recording_new("longer");
    part a = a_part("i-a", ZERO), b = a_part("i-b", 77 * MRD_SEC);
    merge_verdict v = { 0 };

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
    merge_verdict v = { 0 };
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

TEST_MAIN()
