/* Tests the conversion of a session's recorded probes to a table of the node's clock. The probes
 * are constructed from a clock with a known offset, written to a real journal, and read back. */
#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "aggregator/clock/node_clock.h"
#include "base/conf/json.h"
#include "base/sys/out.h"

#define NODE  "i-0abc"
#define PAIRS 240

/* Returns the session time of a local time: 3 hours ahead, 37 ppm faster. */
static int64_t
truth(int64_t local)
{
    return local + 3 * 3600 * MRD_SEC + (int64_t) ((double) local * 37e-6);
}

/* Makes one probe at a local time, with a delay of 30 us and up to 5 us more in each direction. */
static mrd_probe
probe_at(rng *r, uint32_t k, int64_t local)
{
    int64_t up = 30000 + (int64_t) rng_between(r, 0, 5000);
    int64_t down = 30000 + (int64_t) rng_between(r, 0, 5000);
    mrd_probe p = { .id = { 7, 1, k }, .a1 = local, .position = (uint8_t) (k % 2) };

    p.r2 = truth(local) + up;
    p.r3 = p.r2 + 10000;
    p.a4 = local + up + 10000 + down;
    p.e = 20;
    p.source_up = p.source_down = MRD_STAMP_UDP_KERNEL;
    p.up = p.down = true;
    p.held_out = mrd_probe_held_out(p.id);
    return p;
}

typedef struct {
    char session[128], dir[256];
    mrd_journal *journal;
    uint64_t seq;
} recording;

static recording
record(const char *name)
{
    recording rec = { .seq = 0 };
    mrd_why why = { 0 };

    snprintf(rec.session, sizeof(rec.session), "%s/%s", test_tmp(), name);
    snprintf(rec.dir, sizeof(rec.dir), "%s/journal/%s", rec.session, NODE);
    CHECK_ERR("journal", mrd_journal_open(rec.dir, MRD_STR(NODE), 3, &rec.journal, &why), MRD_OK);
    return rec;
}

/* Appends one frame of clock data, as the aggregator stores it. */
static void
put_data(recording *rec, const Mrd__ClockData *data)
{
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA, .agent = 7, .epoch = 1, .session = 3 };
    mrd_buf wire = { 0 };
    mrd_why why = { 0 };

    f.seq = rec->seq++;
    CHECK_ERR("pack", mrd_msg_pack(&f, data, &wire, &why), MRD_OK);
    CHECK_ERR("append", mrd_journal_append(rec->journal, &f, (mrd_bytes){ wire.p, wire.len }, &why),
              MRD_OK);
    mrd_buf_fini(&wire);
}

static void
put(recording *rec, const mrd_buf *joined, Mrd__ClockBreak *at)
{
    Mrd__ClockData data = MRD__CLOCK_DATA__INIT;

    data.joined = (ProtobufCBinaryData){ joined->len, joined->p };
    data.n_breaks = at != NULL;
    data.breaks = &at;
    put_data(rec, &data);
}

static void
put_pairs(recording *rec, rng *r, uint32_t from, uint32_t n, int64_t lie)
{
    mrd_buf joined = { 0 };

    for (uint32_t i = from; i < from + n; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            mrd_probe p = probe_at(r, 2 * i + k, (int64_t) (i + 1) * MRD_SEC + k * 15000);

            if (p.held_out) {
                p.r2 -= lie;
                p.r3 -= lie;
            }
            mrd_probe_encode(&p, &joined);
        }
    }
    put(rec, &joined, NULL);
    mrd_buf_fini(&joined);
}

/* Returns the largest error of the estimate from 30 s on. *ret_covered: the bound always contains
 * the truth. */
static int64_t
compare(const mrd_align *align, bool *ret_covered)
{
    mrd_align_cursor cursor = { 0 };
    int64_t worst = 0;

    *ret_covered = true;
    for (int64_t at = 2 * MRD_SEC; at < PAIRS * MRD_SEC; at += 77 * MRD_MS) {
        mrd_align_bound bound;
        mrd_sess_ns there;
        int64_t off;

        CHECK(mrd_align_map(align, &cursor, (mrd_local_ns){ at }, &there, &bound));
        off = there.ns > truth(at) ? there.ns - truth(at) : truth(at) - there.ns;
        worst = off > worst ? off : worst;
        *ret_covered = *ret_covered && bound.lo.ns <= truth(at) + 1 && truth(at) <= bound.hi.ns + 1;
    }
    return worst;
}

TEST(probes_in_a_journal_become_a_table)
{
    recording rec = record("good");
    rng r = rng_new(rng_seed());
    mrd_node_clock c = { 0 }, again = { 0 };
    mrd_why why = { 0 };
    char path[512];
    unsigned quality, source;
    bool covered;

    for (uint32_t i = 0; i < PAIRS; i += 20)
        put_pairs(&rec, &r, i, 20, 0);
    CHECK_ERR("close", mrd_journal_close(rec.journal, &why), MRD_OK);
    CHECK_ERR("load", mrd_node_clock_load(rec.session, NODE, &c, &why), MRD_OK);
    REQUIRE(c.n == 1 && c.v[0].align != NULL);
    CHECK_INT(c.v[0].n_probes, 2 * PAIRS);
    CHECK(compare(c.v[0].align, &covered) < 5000);
    CHECK(covered);
    CHECK(c.v[0].checked > 0);
    CHECK_INT(c.v[0].violations, 0);
    CHECK(mrd_align_widest(c.v[0].align) >= 30000 && mrd_align_widest(c.v[0].align) < 60000);
    mrd_align_worst(c.v[0].align, &quality, &source);
    CHECK_INT(source, MRD_STAMP_UDP_KERNEL);
    /* A saved table in the session's directory is used, and verified again. */
    snprintf(path, sizeof(path), "%s/" MRD_CLOCKS_DIR, rec.session);
    CHECK_ERR("dir", mrd_make_dirs(path, &why), MRD_OK);
    snprintf(path, sizeof(path), "%s/" MRD_CLOCKS_DIR "/" NODE ".align", rec.session);
    CHECK_ERR("save", mrd_align_save(c.v[0].align, path, &why), MRD_OK);
    CHECK_ERR("again", mrd_node_clock_load(rec.session, NODE, &again, &why), MRD_OK);
    CHECK_INT(mrd_align_bin_count(again.v[0].align), mrd_align_bin_count(c.v[0].align));
    CHECK_INT(again.v[0].checked, c.v[0].checked);
    CHECK_INT(again.v[0].violations, 0);
    mrd_node_clock_fini(&c);
    mrd_node_clock_fini(&again);
    CHECK_ERR("damage", mrd_write_file(path, (mrd_bytes){ (const uint8_t *) "x", 1 }, 0644, &why),
              MRD_OK);
    CHECK(mrd_node_clock_load(rec.session, NODE, &again, &why) != MRD_OK);
}

/* Held-out probes that contradict the table are counted, because the fit does not use them. */
TEST(violations_are_counted)
{
    recording rec = record("lying");
    rng r = rng_new(rng_seed());
    mrd_node_clock c = { 0 };
    mrd_why why = { 0 };
    bool covered;

    put_pairs(&rec, &r, 0, PAIRS, 500000);
    CHECK_ERR("close", mrd_journal_close(rec.journal, &why), MRD_OK);
    CHECK_ERR("load", mrd_node_clock_load(rec.session, NODE, &c, &why), MRD_OK);
    REQUIRE(c.n == 1 && c.v[0].align != NULL);
    CHECK(compare(c.v[0].align, &covered) < 5000);
    CHECK(c.v[0].violations > 0);
    CHECK(c.v[0].reversed >= c.v[0].violations);
    CHECK(c.v[0].reversed_max > 400000);
    mrd_node_clock_fini(&c);
}

TEST(a_break_parts_epochs)
{
    recording rec = record("break");
    rng r = rng_new(rng_seed());
    mrd_node_clock c = { 0 };
    mrd_why why = { 0 };
    mrd_buf none = { 0 };
    Mrd__ClockBreak at = MRD__CLOCK_BREAK__INIT;

    at.cause = MRD_EPOCH_SUSPEND;
    at.after_ns = 120 * MRD_SEC + MRD_SEC / 4;
    at.before_ns = 120 * MRD_SEC + MRD_SEC / 2;
    put_pairs(&rec, &r, 0, PAIRS, 0);
    put(&rec, &none, &at);
    /* a newer agent reports a break of an unknown kind, so nothing is estimated across it */
    at.cause = 77;
    at.after_ns = 60 * MRD_SEC + MRD_SEC / 4;
    at.before_ns = 60 * MRD_SEC + MRD_SEC / 2;
    at.keep_rate = true;
    put(&rec, &none, &at);
    CHECK_ERR("close", mrd_journal_close(rec.journal, &why), MRD_OK);
    CHECK_ERR("load", mrd_node_clock_load(rec.session, NODE, &c, &why), MRD_OK);
    REQUIRE(c.n == 1 && c.v[0].align != NULL);
    CHECK_INT(c.v[0].n_breaks, 2);
    CHECK_INT(mrd_align_segment_count(c.v[0].align), 3);
    CHECK_INT(mrd_align_borrow_segment(c.v[0].align, 1)->cause, MRD_EPOCH_UNKNOWN);
    CHECK_INT(mrd_align_borrow_segment(c.v[0].align, 2)->cause, MRD_EPOCH_SUSPEND);
    mrd_node_clock_fini(&c);
}

/* A clock with more breaks than the limit has no bound, because a bound that ignores some would be
 * wrong. */
TEST(breaks_beyond_the_limit_leave_no_bound)
{
    enum { MANY = 4097, AT_ONCE = 241 }; /* 17 frames */
    static Mrd__ClockBreak v[MANY], *at[MANY];

    for (int beyond = 0; beyond < 2; beyond++) {
        recording rec = record(beyond ? "breaks" : "just");
        rng r = rng_new(rng_seed());
        mrd_node_clock c = { 0 };
        mrd_why why = { 0 };

        put_pairs(&rec, &r, 0, PAIRS, 0);
        for (int i = 0; i < MANY; i++) {
            mrd__clock_break__init(&v[i]);
            v[i].cause = MRD_EPOCH_SUSPEND;
            v[i].after_ns = 120 * MRD_SEC + i * MRD_MS;
            v[i].before_ns = v[i].after_ns + MRD_MS / 2;
            at[i] = &v[i];
        }
        for (int i = 1 - beyond; i < MANY; i += AT_ONCE) {
            Mrd__ClockData data = MRD__CLOCK_DATA__INIT;

            data.n_breaks = (size_t) (MANY - i < AT_ONCE ? MANY - i : AT_ONCE);
            data.breaks = &at[i];
            put_data(&rec, &data);
        }
        CHECK_ERR("close", mrd_journal_close(rec.journal, &why), MRD_OK);
        CHECK_ERR("load", mrd_node_clock_load(rec.session, NODE, &c, &why), MRD_OK);
        REQUIRE(c.n == 1);
        CHECK_INT(c.v[0].n_breaks, 4096);
        CHECK_INT(c.v[0].align == NULL, beyond);
        CHECK(!beyond || strstr(c.v[0].why.text, "it broke 4097 times") != NULL);
        mrd_node_clock_fini(&c);
    }
}

/* ---- Suspended machines ---- */

#define SLEEPS    3
#define ASLEEP_TO 300 /* local time of a random session, in seconds */

/* A machine on which the clock stopped `n` times. */
typedef struct {
    int64_t at[SLEEPS];
    mrd_dur_ns lost[SLEEPS];
    size_t n;
} sleeper;

static mrd_dur_ns
slept_by(const sleeper *s, int64_t local)
{
    mrd_dur_ns sum = 0;

    for (size_t i = 0; i < s->n; i++)
        sum += local >= s->at[i] ? s->lost[i] : 0;
    return sum;
}

static sleeper
draw_sleeper(rng *r)
{
    sleeper s = { .n = 1 + rng_next(r) % SLEEPS };

    for (size_t i = 0; i < s.n; i++) {
        s.at[i] = (int64_t) rng_between(r, 1e9, (ASLEEP_TO - 5) * 1e9);
        s.lost[i] = (int64_t) rng_between(r, 1e9, 30e9);
    }
    return s;
}

/* Returns the suspends after `from` and up to `to` as one break, with up to two seconds around
 * it. */
static bool
break_between(rng *r, const sleeper *s, int64_t from, int64_t to, Mrd__ClockBreak *ret)
{
    int64_t first = INT64_MAX, last = INT64_MIN;

    for (size_t i = 0; i < s->n; i++) {
        if (s->at[i] <= from || s->at[i] > to)
            continue;
        first = s->at[i] < first ? s->at[i] : first;
        last = s->at[i] > last ? s->at[i] : last;
    }
    mrd__clock_break__init(ret);
    ret->cause = MRD_EPOCH_SUSPEND;
    ret->keep_rate = true;
    if (first > last)
        return false;
    ret->after_ns = first - (int64_t) rng_between(r, 1, 2e9);
    ret->after_ns = ret->after_ns < from ? from : ret->after_ns;
    ret->before_ns = last + (int64_t) rng_between(r, 1, 2e9);
    ret->before_ns = ret->before_ns > to ? to : ret->before_ns;
    ret->lost_ns = slept_by(s, to) - slept_by(s, from);
    return true;
}

/* Writes the clock data of a time range: optional probes, the break, and perhaps a reading. told:
 * the previous agent still runs. */
static void
put_slice(recording *rec, rng *r, const sleeper *s, int64_t from, int64_t to, bool probes,
          bool told)
{
    Mrd__ClockData data = MRD__CLOCK_DATA__INIT;
    Mrd__ClockReading reading = MRD__CLOCK_READING__INIT, *readings = &reading;
    Mrd__ClockBreak at, *breaks = &at;
    bool slept = break_between(r, s, from, to, &at);
    mrd_buf joined = { 0 };

    /* if another agent started after the suspend, its probes begin after the break */
    for (int64_t t = slept && !told ? at.before_ns : from; t < to && probes;
         t += (int64_t) rng_between(r, 4e8, 2e9)) {
        mrd_probe p = probe_at(r, (uint32_t) (t / MRD_MS) & ~1u, t);

        if (slept_by(s, p.a1) != slept_by(s, p.a4))
            continue;
        p.r2 += slept_by(s, p.a1);
        p.r3 += slept_by(s, p.a1);
        mrd_probe_encode(&p, &joined);
    }
    data.joined = (ProtobufCBinaryData){ joined.len, joined.p };
    data.asleep_ns = slept_by(s, to);
    data.n_breaks = told && slept;
    data.breaks = &breaks;
    data.n_readings = joined.len == 0 && data.n_breaks == 0 ? 1 : rng_next(r) % 2;
    data.readings = &readings;
    reading.raw_ns = to;
    reading.realtime_ns = to;
    reading.monotonic_ns = to;
    reading.boottime_ns = to + slept_by(s, to);
    put_data(rec, &data);
    mrd_buf_fini(&joined);
}

/* Random suspends, lost frames with breaks, and periods without probes. For any time of the node
 * the bound contains the truth, or there is no bound. */
TEST(suspended_machines_drawn)
{
    uint64_t seed = rng_seed();
    size_t asked = 0, known = 0, tables = 0;

    for (uint64_t i = 0; i < 300; i++) {
        char name[32];
        rng r = rng_new(seed * 1000 + i);
        sleeper s = draw_sleeper(&r);
        mrd_align_cursor cursor = { 0 };
        mrd_node_clock c = { 0 };
        mrd_why why = { 0 };
        bool lost, covered = true;
        recording rec;

        snprintf(name, sizeof(name), "sleeper-%llu", (unsigned long long) i);
        rec = record(name);
        for (int64_t from = 0, to; from < ASLEEP_TO * MRD_SEC; from = to) {
            to = from + (int64_t) rng_between(&r, 1e9, 20e9);
            /* keep the last frame, because a suspend without a later frame cannot be detected */
            lost = to < ASLEEP_TO * MRD_SEC &&
                   (slept_by(&s, to) > slept_by(&s, from) ? rng_next(&r) % 3 > 0
                                                          : rng_next(&r) % 4 == 0);
            if (!lost)
                put_slice(&rec, &r, &s, from, to, rng_next(&r) % 3 > 0, rng_next(&r) % 2 == 0);
        }
        CHECK_ERR("close", mrd_journal_close(rec.journal, &why), MRD_OK);
        CHECK_ERR("load", mrd_node_clock_load(rec.session, NODE, &c, &why), MRD_OK);
        REQUIRE(c.n == 1);
        for (int64_t at = 0; c.v[0].align != NULL && at < ASLEEP_TO * MRD_SEC; at += 97 * MRD_MS) {
            int64_t there = truth(at) + slept_by(&s, at);
            mrd_align_bound bound;
            mrd_sess_ns shown;

            CHECK(mrd_align_map(c.v[0].align, &cursor, (mrd_local_ns){ at }, &shown, &bound));
            asked++;
            known += mrd_align_radius(shown, &bound) < MRD_MS;
            if (covered && (there + 1 < bound.lo.ns || there - 1 > bound.hi.ns)) {
                covered = false;
                printf("%s: %.3f s is off by %.3f s, bound %u ns\n", name, (double) at / 1e9,
                       (double) (shown.ns - there) / 1e9, mrd_align_radius(shown, &bound));
            }
        }
        CHECK_ROW(name, covered);
        CHECK_INT(c.v[0].violations, 0);
        tables += c.v[0].align != NULL;
        mrd_node_clock_fini(&c);
    }
    printf("%zu tables, %zu times, %zu known within 1 ms\n", tables, asked, known);
    CHECK(tables > 200);
    CHECK(known > asked / 4 && known < asked);
}

TEST(too_little_is_said)
{
    recording rec = record("empty");
    rng r = rng_new(rng_seed());
    mrd_node_clock c = { 0 };
    mrd_why why = { 0 };
    mrd_buf junk = { 0 };

    CHECK_ERR("nothing at all", mrd_node_clock_load(rec.session, "i-9", &c, &why), MRD_OK);
    CHECK(c.v[0].align == NULL && strstr(c.v[0].why.text, "no probes") != NULL);
    mrd_node_clock_fini(&c);
    mrd_buf_text(&junk, "no probe is this");
    put(&rec, &junk, NULL);
    put_pairs(&rec, &r, 0, 1, 0);
    CHECK_ERR("close", mrd_journal_close(rec.journal, &why), MRD_OK);
    CHECK_ERR("one pair", mrd_node_clock_load(rec.session, NODE, &c, &why), MRD_OK);
    CHECK(c.v[0].n_probes <= 2);
    mrd_node_clock_fini(&c);
    mrd_buf_fini(&junk);
}

TEST(walls_have_no_bound)
{
    mrd_align *wall = mrd_align_wall(NODE, 0, (mrd_local_ns){ 5 }, (mrd_wall_ns){ 9 });
    mrd_align *own = mrd_align_constant(NODE, 0, 77, 0, 0);
    unsigned quality, source;

    CHECK_INT(mrd_align_widest(wall), -1);
    CHECK_INT(mrd_align_widest(own), 0);
    mrd_align_worst(wall, &quality, &source);
    CHECK_INT(quality, MRD_ALIGN_UNALIGNED);
    mrd_align_free(wall);
    mrd_align_free(own);
}

/* ---- meridian clocks ---- */

static void
read_file(const char *path, mrd_buf *to)
{
    FILE *f = fopen(path, "r");
    int c;

    CHECK(f != NULL);
    while (f != NULL && (c = getc(f)) != EOF)
        mrd_buf_byte(to, (uint8_t) c);
    if (f != NULL)
        fclose(f);
}

/* Runs it. Returns its output and its exit status. */
static mrd_buf
clocks(const char *words, int *ret_status)
{
    const char *build = getenv("MERIDIAN_BUILD");
    mrd_buf out = { 0 };
    char command[1024];
    FILE *f;
    int c;

    snprintf(command, sizeof(command), "%s/bin/meridian clocks %s 2>&1",
             build == NULL ? "build" : build, words);
    f = popen(command, "r");
    CHECK(f != NULL);
    while (f != NULL && (c = getc(f)) != EOF)
        mrd_buf_byte(&out, (uint8_t) c);
    c = f == NULL ? -1 : pclose(f);
    *ret_status = WIFEXITED(c) ? WEXITSTATUS(c) : -1;
    return out;
}

static void
expect_clocks(const char *words, int status, const char *const *said)
{
    int got;
    mrd_buf out = clocks(words, &got);

    CHECK_INT(got, status);
    for (; *said != NULL; said++) {
        if (!test_check(strstr(mrd_buf_cstr(&out), *said) != NULL, __FILE__, __LINE__, words,
                        *said))
            fprintf(stderr, "%s", mrd_buf_cstr(&out));
    }
    mrd_buf_fini(&out);
}

TEST(command_shows_table_json_and_picture)
{
    recording rec = record("command");
    rng r = rng_new(rng_seed());
    mrd_buf svg = { 0 };
    char words[512], path[256];
    mrd_json *doc = NULL;
    mrd_why why = { 0 };
    mrd_buf out;
    const char *row;
    double ppm = 0;
    int status;

    put_pairs(&rec, &r, 0, PAIRS, 0);
    CHECK_ERR("close", mrd_journal_close(rec.journal, &why), MRD_OK);
    expect_clocks(rec.session, 0,
                  (const char *const[]){ NODE, "udp-kernel", "good", "0 violations of the bound\n",
                                         "480 probes", NULL });
    out = clocks(rec.session, &status);
    row = strstr(mrd_buf_cstr(&out), "+10800.");
    REQUIRE(row != NULL && sscanf(row, "%*f s %lf", &ppm) == 1);
    CHECK(fabs(ppm - 37) < 0.1);
    mrd_buf_fini(&out);
    snprintf(words, sizeof(words), "%s --json", rec.session);
    out = clocks(words, &status);
    CHECK_ERR("json",
              mrd_json_parse((mrd_str){ (const char *) out.p, out.len }, "output", &doc, &why),
              MRD_OK);
    if (doc != NULL) {
        const mrd_json *n = mrd_json_at(mrd_json_get(doc, "nodes"), 0);
        const mrd_json *s = mrd_json_at(mrd_json_get(n, "segments"), 0);
        int64_t last = mrd_json_int(s, "last_local_ns", 0);
        int64_t off = mrd_json_int(s, "estimate_ns", 0) - (truth(last) - last);

        CHECK_TEXT(mrd_json_str(n, "instance_id", ""), NODE);
        CHECK(off > -5000 && off < 5000);
        CHECK(mrd_json_int(s, "bound_ns", -1) > 30000 && mrd_json_int(s, "bound_ns", -1) < 40000);
        CHECK_INT(mrd_json_int(n, "violations", -1), 0);
    }
    mrd_json_free(doc);
    mrd_buf_fini(&out);
    snprintf(path, sizeof(path), "%s/clock.svg", test_tmp());
    snprintf(words, sizeof(words), "%s --plot %s", rec.session, path);
    expect_clocks(words, 0, (const char *const[]){ "wrote ", NULL });
    read_file(path, &svg);
    CHECK(mrd_str_starts(mrd_str_of(mrd_buf_cstr(&svg)), "<svg"));
    CHECK(strstr(mrd_buf_cstr(&svg), "<circle class='u'") != NULL);
    mrd_buf_fini(&svg);
    snprintf(words, sizeof(words), "%s --instance-id i-other", rec.session);
    expect_clocks(words, 1, (const char *const[]){ "has no clock of node", NULL });
}

TEST(command_warns_of_violations)
{
    recording rec = record("command-lying");
    rng r = rng_new(rng_seed());
    mrd_why why = { 0 };

    put_pairs(&rec, &r, 0, PAIRS, 500000);
    CHECK_ERR("close", mrd_journal_close(rec.journal, &why), MRD_OK);
    expect_clocks(rec.session, 3, (const char *const[]){ NODE, "DO NOT TRUST", NULL });
}

TEST(command_says_what_is_missing)
{
    expect_clocks("/ --store /nowhere", 1, (const char *const[]){ "no session", NULL });
    expect_clocks("/usr", 1, (const char *const[]){ "has no clocks", NULL });
    expect_clocks("a b", 2, (const char *const[]){ "unexpected argument", NULL });
    expect_clocks("x --server http://127.0.0.1:9", 1, (const char *const[]){ "127.0.0.1:9", NULL });
}

TEST_MAIN()
