/* Tests merges of journals that are damaged, hostile, or in the name of another node. Such a
 * journal must affect only itself, and its losses are counted. */
#include "tests/aggregator/recording.h"
#include "tests/timesync/rng.h"

#include "base/num.h"
#include "base/sys/file.h"
#include "trace/sink/sinks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool disk_refuses; /* every pread fails */

/* Replaces the function of the C library. */
ssize_t
pread(int fd, void *to, size_t len, off_t at)
{
    errno = EIO;
    return disk_refuses ? -1 : syscall(SYS_pread64, fd, to, len, at);
}

/* ---- Damaged, hostile and foreign journals ---- */

#define NO_BATCH 60 /* events that the header of an undecodable batch claims */

/* Appends a batch with valid checksums and an invalid body. */
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

/* Records two nodes. The second one also has an undecodable batch. */
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

/* the reason of the first refused batch in the last merge by merge_unasked() */
static mrd_why last_refused; /* set by each merge_unasked() */

static uint64_t
merge_unasked(recording *r, const mrd_filter *filter, mrd_damage damage[4], char *ret_summary,
              size_t size)
{
    merge_input in = { .dir = r->dir,
                       .id = "s",
                       .nodes = r->nodes,
                       .n_nodes = r->n,
                       .damage = damage,
                       .refused = &last_refused };
    mrd_export_target target = { .ops = mrd_sink_find(MRD_STR("summary-json")) };
    mrd_export_result result = { 0 };
    char path[400];
    FILE *f;

    last_refused = (mrd_why){ 0 };
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
    /* nothing is reported about an intact journal */
    CHECK(strstr(summary, "incomplete\": true") == NULL);
    CHECK(strstr(summary, "0 times") == NULL && strstr(summary, "0 of 1") == NULL);
    r.nodes[1].frames = 3; /* one that had no events */
    CHECK_INT(merge_unasked(&r, NULL, damage, summary, sizeof(summary)), 2 * COLLECTIVES);
    CHECK(damage[1].events == 0 && damage[1].frames == 1);
    CHECK(strstr(summary, "0 of 100 stored events and 1 frames cannot be read back") != NULL);
    r.nodes[1].frames = 2;
    r.nodes[1].events++;
    CHECK_INT(merge_unasked(&r, NULL, damage, summary, sizeof(summary)), 2 * COLLECTIVES);
    CHECK(damage[1].events == 1 && damage[1].frames == 0);
    CHECK(strstr(summary, "1 of 101 stored events and 0 frames cannot be read back") != NULL);
    r.nodes[1].events--;
    snprintf(command, sizeof(command), "rm %s/journal/i-b/*.mrj", r.dir);
    REQUIRE(system(command) == 0);
    CHECK_INT(merge_unasked(&r, NULL, damage, summary, sizeof(summary)), COLLECTIVES);
    CHECK(damage[0].events == 0 && damage[0].frames == 0);
    CHECK(damage[1].events == COLLECTIVES && damage[1].frames == 2);
    CHECK(strstr(summary, "100 of 100 stored events") != NULL);
}

/* If the disk fails while a journal is read, the merge lacks events as with a damaged journal. But
 * the failure may be temporary, so the merge reports the reason and does not call the journal
 * damaged. */
TEST(a_refused_read_is_told_from_damage)
{
    recording r = recording_new("refused");
    part a = a_part("i-a", ZERO);
    mrd_damage damage[4] = { 0 };
    char summary[20000];

    add_node(&r, &a, 1);
    r.nodes[0].events = COLLECTIVES;
    r.nodes[0].frames = 2;
    disk_refuses = true;
    CHECK_INT(merge_unasked(&r, NULL, damage, summary, sizeof(summary)), 0);
    disk_refuses = false;
    CHECK(last_refused.err == MRD_IO &&
          strstr(last_refused.text, "000001.mrj: Input/output error") != NULL);
    CHECK_INT(damage[0].events, COLLECTIVES);
    CHECK(strstr(summary, "cannot be read completely: 100 of 100 stored events") != NULL);
    CHECK(strstr(summary, "journal is damaged") == NULL);
    CHECK_INT(merge_unasked(&r, NULL, damage, summary, sizeof(summary)), COLLECTIVES);
    CHECK(last_refused.err == MRD_OK && damage[0].events == 0);
}

/* Returns the size of a file. Overwrites n bytes at `at` unless that is negative. */
static off_t
overwrite(const char *path, off_t at, size_t n)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat st = { 0 };

    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    for (size_t i = 0; i < n; i++)
        CHECK(pwrite(fd, "#", 1, at + (off_t) i) == 1);
    close(fd);
    return st.st_size;
}

/* The journal of one node has all kinds of damage: an undecodable batch, a batch with a damaged
 * frame, and batches that the manifest counts but no file contains. The message states how many
 * events of each kind are damaged. */
TEST(the_sentence_of_damage_has_every_number)
{
    recording r = recording_new("sentence");
    part more = a_part("i-b", ZERO);
    mrd_damage damage[4] = { 0 };
    mrd_journal *j = NULL;
    char dir[400], path[450], summary[20000], want[200];
    off_t whole;

    record_spoiled(&r, false);
    snprintf(dir, sizeof(dir), "%s/journal/i-b", r.dir);
    snprintf(path, sizeof(path), "%s/000003.mrj", dir); /* each start begins one */
    more.seq = 50;
    REQUIRE(mrd_journal_open(dir, MRD_STR("i-b"), 3, &j, NULL) == MRD_OK);
    put_undecodable(&more, j, false);
    REQUIRE(mrd_journal_sync(j, NULL) == MRD_OK);
    whole = overwrite(path, 0, 0);
    put_undecodable(&more, j, true);
    REQUIRE(mrd_journal_sync(j, NULL) == MRD_OK); /* not closed, so it has no index yet */
    REQUIRE(whole > MRD_SEGMENT_HEADER);
    (void) overwrite(path, MRD_SEGMENT_HEADER, (size_t) whole - MRD_SEGMENT_HEADER);
    r.nodes[1].events = COLLECTIVES + 3 * NO_BATCH + 11;
    r.nodes[1].frames = 5 + 4;
    CHECK_INT(merge_unasked(&r, NULL, damage, summary, sizeof(summary)), 2 * COLLECTIVES);
    CHECK_INT(damage[1].events, 3 * NO_BATCH + 11);
    CHECK_INT(damage[1].frames, 3 + 4);
    snprintf(want, sizeof(want),
             "the journal is damaged: %d of %d stored events and 7 frames cannot be read back, %d "
             "damaged bytes were passed over (first: ",
             3 * NO_BATCH + 11, COLLECTIVES + 3 * NO_BATCH + 11,
             (int) (whole - MRD_SEGMENT_HEADER));
    CHECK_ROW(summary, strstr(summary, want) != NULL);
    (void) mrd_journal_close(j, NULL); /* an index cannot be made of that */
}

/* The summary's members about the recording as a whole. */
TEST(facts_of_the_recording_are_told)
{
    for (int simulated = 0; simulated < 2; simulated++) {
        recording r = recording_new(simulated ? "simulated" : "real");
        part a = a_part("i-a", ZERO);
        mrd_export_target target = { .ops = mrd_sink_find(MRD_STR("summary-json")) };
        mrd_export_result result = { 0 };
        mrd_json *doc = NULL;
        merge_input in;
        char path[400];

        add_node(&r, &a, 1);
        in = (merge_input){ .dir = r.dir,
                            .id = "20261122-000000-0001",
                            .name = "a name",
                            .nodes = r.nodes,
                            .n_nodes = r.n,
                            .simulated = simulated != 0 };
        snprintf(path, sizeof(path), "%s/facts.json", r.dir);
        CHECK_ERR("output", mrd_out_file(path, &target.out, NULL), MRD_OK);
        CHECK_ERR("merge",
                  mrd_merge_run(&in, &(mrd_merge_order){ .targets = &target, .n_targets = 1 },
                                &result, NULL, NULL),
                  MRD_OK);
        CHECK_ERR("json", mrd_json_load(path, &doc, NULL), MRD_OK);
        CHECK(file_has(path, "\"" MRD_RELEASE "\""));
        CHECK(file_has(path, "20261122-000000-0001") && file_has(path, "a name"));
        CHECK(file_has(path, "aligned: session time"));
        CHECK(file_has(path, "\"simulated\": \"true\"") == (simulated != 0));
        mrd_json_free(doc);
    }
}

/* A loss that only the manifest contains is shown at its time, in the clock of the node's last
 * boot. */
TEST(losses_of_the_manifest_are_of_the_last_boot)
{
    recording r = recording_new("manifest");
    part a = a_part("i-a", ZERO);
    part b[2] = { a_part("i-b", ZERO - 40000 * MRD_SEC), a_part("i-b", ZERO + 65 * MRD_SEC) };
    mrd_export_result without, with;
    merge_node *n = &r.nodes[1];
    const int64_t at = ZERO + 115 * MRD_SEC; /* after all events */
    char path[400];

    b[0].end = 60;
    b[1].boot = "two";
    b[1].begin = 70;
    add_node(&r, &a, 1);
    add_node(&r, b, 2);
    without = merge(&r, MERGE_ALIGNED, NULL);
    CHECK(without.last.ns < at);
    snprintf(n->causes[1], sizeof(n->causes[1]), "refused");
    n->gaps[n->n_gaps++] = (mrd_gap){ .first = { at - b[1].offset },
                                      .last = { at + MRD_SEC - b[1].offset },
                                      .count = 9,
                                      .cause = 1 };
    with = merge(&r, MERGE_ALIGNED, NULL);
    CHECK_INT(with.events, without.events + 1);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(file_has(path, "refused"));
}

/* One bit of a stored batch is flipped, at any position. The report counts exactly the lost
 * events. */
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

/* A node sends batches in the name of another node. They are assigned to the sender, and a note
 * reports it. */
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

/* ---- Names ---- */

#define LONG_NAME 60000

/* Adds a batch of instants, each with a different name. */
static void
put_named(part *p, mrd_journal *j, unsigned first, unsigned n, size_t length)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_codec *codec = mrd_codec_new();
    mrd_frame f = frame_of(p, MRD_FRAME_BATCH);
    static char name[LONG_NAME + 1];
    mrd_buf wire = { 0 };
    mrd_process proc;
    mrd_track track;
    mrd_batch *b;

    mrd_process_init(&proc);
    proc.instance_id = mrd_catalog_intern(cat, p->id);
    mrd_track_init(&track, mrd_catalog_process(cat, &proc), MRD_SRC_RUNTIME);
    REQUIRE((b = mrd_batch_new(cat, track.process, 0, 0)) != NULL);
    memset(name, 'n', length);
    name[length] = '\0';
    for (unsigned i = 0; i < n; i++) {
        mrd_event ev = { .kind = MRD_INSTANT,
                         .ts = { i },
                         .track = mrd_catalog_track(cat, &track) };
        char number[16];

        snprintf(number, sizeof(number), "%08u", first + i);
        memcpy(name, number, 8);
        ev.name = mrd_catalog_intern(cat, name);
        REQUIRE(mrd_batch_push(b, &ev) == MRD_OK);
    }
    REQUIRE(mrd_batch_encode(b, codec, MRD_CODEC_ZSTD, &f, &wire, NULL) == MRD_OK);
    REQUIRE(mrd_journal_append(j, &f, (mrd_bytes){ wire.p, wire.len }, NULL) == MRD_OK);
    mrd_buf_fini(&wire);
    mrd_batch_free(b);
    mrd_codec_free(codec);
    mrd_catalog_free(cat);
}

static unsigned
times_in(const char *text, const char *what)
{
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* A node has more names than the limit. It loses some of its own names, but no events and no names
 * of other nodes. The list of journals and a note report the number and kinds of lost names. */
TEST(names_beyond_their_room_are_told)
{
    enum { NAMES = 300, EACH = 3, KEPT = (16 << 20) / (LONG_NAME + 64) };
    recording r = recording_new("names");
    part a = a_part("i-a", ZERO), evil = a_part("i-evil", ZERO);
    mrd_journal *j = NULL;
    char dir[400], path[400], want[200];
    mrd_buf text = { 0 };
    const char *notes;
    unsigned refused;

    snprintf(dir, sizeof(dir), "%s/journal/i-evil", r.dir);
    REQUIRE(mrd_journal_open(dir, MRD_STR("i-evil"), 3, &j, NULL) == MRD_OK);
    for (unsigned i = 0; i < NAMES; i += EACH)
        put_named(&evil, j, i, EACH, LONG_NAME);
    REQUIRE(mrd_journal_close(j, NULL) == MRD_OK);
    snprintf(r.nodes[r.n++].instance_id, MRD_NODE_ID_MAX, "i-evil");
    add_node(&r, &a, 1);
    CHECK_INT(merge(&r, MERGE_RAW, NULL).events, NAMES + COLLECTIVES);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    REQUIRE(mrd_file_read(path, 64 << 20, &text, NULL) == MRD_OK);
    refused = times_in(mrd_buf_cstr(&text), "\"name\":\"(too many distinct names)\"");
    CHECK(refused >= NAMES - KEPT && refused <= NAMES - KEPT + 2); /* its tracks have names, too */
    CHECK_INT(times_in(mrd_buf_cstr(&text), "\"name\":\"cc_running\""), COLLECTIVES);
    snprintf(want, sizeof(want),
             "%u times a name of a batch stands as '(too many distinct names)': a node may have 16 "
             "MiB of them, 64 bytes for each included\"",
             refused);
    CHECK_INT(times_in(mrd_buf_cstr(&text), want), 2);
    snprintf(dir, sizeof(dir), "\"i-evil: %s", want);
    CHECK((notes = strstr(mrd_buf_cstr(&text), dir)) != NULL);
    mrd_buf_fini(&text);
}

/* The lost names of all nodes together reach the memory limit of notes. There must still be space
 * for later notes. */
TEST(what_is_said_has_room_beside_all_names)
{
    recording r = recording_new("all-names");
    mrd_damage damage[4] = { 0 };
    static char summary[200000];

    while (r.n < MRD_COUNT(r.nodes)) {
        static const char *const ids[] = { "i-a", "i-b", "i-c", "i-d" };
        part p = a_part(ids[r.n], ZERO);
        mrd_journal *j = NULL;
        char dir[400];

        snprintf(dir, sizeof(dir), "%s/journal/%s", r.dir, p.id);
        REQUIRE(mrd_journal_open(dir, mrd_str_of(p.id), 3, &j, NULL) == MRD_OK);
        for (unsigned i = 0; i < 285; i += 5)
            put_named(&p, j, (unsigned) r.n * 1000 + i, 5, LONG_NAME);
        for (unsigned i = 0; i < 2000;
             i += 500) /* shorter names may fit where the longer ones do not */
            put_named(&p, j, (unsigned) (r.n + 1) * 10000 + i, 500, 40);
        REQUIRE(mrd_journal_close(j, NULL) == MRD_OK);
        snprintf(r.nodes[r.n].instance_id, MRD_NODE_ID_MAX, "%s", p.id);
        r.nodes[r.n].frames = 61;
        r.nodes[r.n++].events = 2285;
    }
    r.nodes[3].events += 11;
    CHECK_INT(merge_unasked(&r, NULL, damage, summary, sizeof(summary)), 4 * 2285);
    CHECK_INT(damage[3].events, 11);
    for (size_t i = 0; i < r.n;
         /* each node has a different number of lost names; about 279 names of 60000 bytes fit into
          * 16 MiB */
         i++) {
        char begin[40];
        const char *at;

        snprintf(begin, sizeof(begin), "\"%s: ", r.nodes[i].instance_id);
        at = strstr(summary, begin);
        REQUIRE(at != NULL && strstr(at, " times a name of a batch stands as") != NULL);
        CHECK_ROW(at, atoi(at + strlen(begin)) > 6 && atoi(at + strlen(begin)) <= 2285 - 260);
    }
    CHECK(strstr(summary, "i-d: the journal is damaged: 11 of 2296 stored events") != NULL);
}

/* ---- Impossible clock readings ---- */

static const int64_t extremes[] = {
    INT64_MIN, INT64_MIN + 1, INT64_MIN / 2, -MRD_TIME_MAX - 1, -MRD_TIME_MAX, -1,       0,
    1,         MRD_TIME_MAX,  INT64_MAX / 2, MRD_TIME_MAX + 1,  INT64_MAX - 1, INT64_MAX
};

/* All times that a node may report. The tests set them to extreme values. */
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

/* Writes one RAW event and one wall-clock event, with a reading of both clocks. */
static void
put_claimed_events(part *p, mrd_journal *j, const claims *c, unsigned clock)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_codec *codec = mrd_codec_new();
    mrd_frame f = frame_of(p, MRD_FRAME_BATCH);
    mrd_cross_read cross[] = { { { c->cross_raw }, { c->cross_wall }, 20 },
                               { { 5 }, { 1000 }, 20 } };
    mrd_event ev = { .kind = MRD_SPAN, .ts = { c->event }, .dur_ns = c->dur < 0 ? 0 : c->dur };
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
                          .local = { c->hello_local },
                          .wall = { c->hello_wall } };
    snprintf(dir, sizeof(dir), "rm -rf %s/journal/i-evil", r->dir);
    REQUIRE(system(dir) == 0);
    snprintf(dir, sizeof(dir), "%s/journal/i-evil", r->dir);
    REQUIRE(mrd_journal_open(dir, MRD_STR("i-evil"), 3, &j, NULL) == MRD_OK);
    put_claimed_clock(&p, j, c);
    put_claimed_events(&p, j, c, 0);
    put_claimed_events(&p, j, c, MRD__CLOCK_KIND__CLOCK_REALTIME);
    REQUIRE(mrd_journal_close(j, NULL) == MRD_OK);
}

/* The row of the honest node equals its row in a merge without the other node, and the merge does
 * not fail. */
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

/* Copies the JSON of the first clock in the summary. */
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
