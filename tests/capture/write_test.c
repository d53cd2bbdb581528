/* Tests that the records that are read from a ring equal those that were written, in the memory of
 * one process and through files. */
#include <dirent.h>
#include <pthread.h>

#include "capture/process.h"
#include "capture/ring/ring_clock.h"
#include "capture/ring/ring_read.h"
#include "tests/check.h"

static mrd_ring_writer writer;
static uint64_t words[(4096 + 8192 + (1 << 16)) / 8] __attribute__((aligned(4096)));

static mrd_ring_reader *
start(uint64_t data_len)
{
    mrd_ring_owner_claim claim = { .start_ticks = 7, .pid = 100, .clock = MRD_RING_CLOCK_RAW };
    mrd_ring_reader *r = NULL;
    size_t len = 4096 + 8192 + data_len;

    claim.ident = "RANK=3\nexe=/bin/x\n";
    claim.ident_len = (uint32_t) strlen(claim.ident);
    mrd_ring_cal_read(claim.clock, &claim.load_cal);
    mrd_ring_create_mem(&writer, words, &claim, 101, data_len, 8192);
    CHECK_ERR("open", mrd_ring_open_mem(words, len, NULL, &r, NULL), MRD_OK);
    return r;
}

static bool
put(uint64_t ts, uint64_t value)
{
    mrd_ring_rec *rec = mrd_ring_reserve(&writer, ts);

    if (rec == NULL)
        return false;
    *rec = (mrd_ring_rec){ .kind = MRD_REC_SPAN, .units = 1, .name = 1, .ts = ts, .value = value };
    mrd_ring_commit(&writer, 32);
    return true;
}

TEST(round_trip)
{
    mrd_ring_reader *r = start(65536);
    mrd_ring_event ev;

    REQUIRE(r != NULL);
    CHECK(mrd_ring_define_text(&writer, 1, "step", 4));
    CHECK(put(1000, 50));
    CHECK_INT(mrd_ring_next(r, &ev, NULL), MRD_RING_MORE);
    CHECK_INT(ev.ts.ns, 1000);
    CHECK_INT(ev.dur_ns, 50);
    CHECK_INT(ev.tid, 101);
    CHECK(mrd_str_is(mrd_ring_text(r, ev.name), "step"));
    CHECK(mrd_str_is(mrd_ring_ident(r, "RANK"), "3"));
    CHECK(mrd_str_is(mrd_ring_ident(r, "exe"), "/bin/x"));
    CHECK_INT(mrd_ring_ident(r, "RAN").len, 0);
    CHECK_INT(mrd_ring_next(r, &ev, NULL), MRD_RING_AGAIN);
    mrd_ring_close(r);
}

/* After each record, `read` is exactly the position of the next record. A reader saves this position
 * for a later reader. */
TEST(how_far_it_was_read_is_exact_at_every_record)
{
    mrd_ring_reader *r = start(65536);
    mrd_ring_window w;
    mrd_ring_rec rec;
    mrd_ring_event ev;
    mrd_ring_stats st;
    int64_t ts, dur, first = mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);

    REQUIRE(r != NULL);
    for (int64_t i = 0; i < 100; i++)
        CHECK(put((uint64_t) (first + i), 5));
    for (uint64_t i = 1; i <= 50; i++) {
        CHECK_INT(mrd_ring_next(r, &ev, NULL), MRD_RING_MORE);
        mrd_ring_get_stats(r, &st);
        CHECK_INT(st.read, i * MRD_RING_UNIT);
        CHECK_INT(st.records, i);
    }
    w = *mrd_ring_borrow_window(r);
    for (int64_t i = 50; i < 80; i++) {
        REQUIRE(mrd_ring_plain(&w, &rec, &ts, &dur));
        CHECK_INT(ts, first + i);
        CHECK_INT(dur, 5);
    }
    *mrd_ring_borrow_window(r) = w;
    mrd_ring_get_stats(r, &st);
    CHECK_INT(st.read, 80 * MRD_RING_UNIT);
    CHECK_ERR("release", mrd_ring_release(r), MRD_OK);
    CHECK_INT(mrd_ring_next(r, &ev, NULL), MRD_RING_MORE);
    CHECK_INT(ev.ts.ns, first + 80);
    mrd_ring_close(r);
}

/* The newest events are dropped if the ring is full. The gap is recorded at its position, and the
 * sum is exact. */
TEST(full_ring_counts_every_loss)
{
    mrd_ring_reader *r = start(4096);
    mrd_ring_event ev;
    mrd_ring_stats st;
    uint64_t begun = 0, read = 0, lost = 0, expect = 1000;
    unsigned seed = 42;

    for (int round = 0; round < 2000; round++) {
        mrd_ring_step step;
        int n = rand_r(&seed) % 300;

        for (int i = 0; i < n; i++, begun++)
            (void) put(1000 + begun, 1);
        while ((step = mrd_ring_next(r, &ev, NULL)) == MRD_RING_MORE || step == MRD_RING_LOST) {
            if (step == MRD_RING_LOST) {
                CHECK_INT(ev.flags, MRD_RING_LOST_FULL);
                CHECK_INT(ev.ts.ns, (int64_t) expect);
                CHECK_INT(ev.dur_ns, (int64_t) ev.value - 1);
                lost += ev.value;
                expect += ev.value;
            } else {
                CHECK_INT(ev.ts.ns, (int64_t) expect);
                read++;
                expect++;
            }
            if (rand_r(&seed) % 4 == 0)
                CHECK_ERR("release", mrd_ring_release(r), MRD_OK);
        }
        CHECK_INT(step, MRD_RING_AGAIN);
        CHECK_ERR("release", mrd_ring_release(r), MRD_OK);
    }
    mrd_ring_assume_dead(r);
    while (mrd_ring_next(r, &ev, NULL) != MRD_RING_END) {
        CHECK_INT(ev.kind, MRD_REC_LOSS);
        lost += ev.value;
    }
    mrd_ring_get_stats(r, &st);
    CHECK_INT(read + lost, (int64_t) begun);
    CHECK_INT(st.lost_total, (int64_t) lost);
    CHECK(lost > 1000 && read > 1000);
    mrd_ring_close(r);
}

/* ---- one writer thread, one reader thread: also for the thread sanitizer ------------ */

#define FLOOD 400000

static void *
flood(void *arg)
{
    (void) arg;
    for (uint64_t i = 0; i < FLOOD; i++)
        if (!put(1000 + i, i) && i % 64 == 0)
            sched_yield();
    atomic_store(&writer.hdr->state, MRD_RING_CLOSED);
    return NULL;
}

TEST(two_threads)
{
    mrd_ring_reader *r = start(65536);
    mrd_ring_event ev;
    mrd_ring_step step;
    uint64_t read = 0, lost = 0, next = 0;
    pthread_t t;

    pthread_create(&t, NULL, flood, NULL);
    while ((step = mrd_ring_next(r, &ev, NULL)) != MRD_RING_END && step != MRD_RING_BAD) {
        if (step == MRD_RING_LOST) {
            lost += ev.value;
        } else if (step == MRD_RING_MORE) {
            CHECK((uint64_t) ev.ts.ns - 1000 >= next);
            next = (uint64_t) ev.ts.ns - 1000 + 1;
            CHECK_INT(ev.value, ev.ts.ns - 1000);
            read++;
        } else {
            mrd_ring_release(r);
        }
    }
    pthread_join(t, NULL);
    CHECK_INT(step, MRD_RING_END);
    CHECK_INT(read + lost, FLOOD);
    CHECK(read > 0);
    mrd_ring_close(r);
}

/* ---- long records, padding, items --------------------------------------------------------------
 */

TEST(name_file)
{
    static const struct {
        const char *name, *file;
        bool want;
    } rows[] = {
        { "plain", "meridian.00112233445566778899aabbccddeeff.12.345.13.ring", true },
        { "serial", "meridian.00112233445566778899aabbccddeeff.12.345.13.2.ring", true },
        { "serial 0", "meridian.00112233445566778899aabbccddeeff.12.345.13.0.ring", false },
        { "leading zero", "meridian.00112233445566778899aabbccddeeff.012.345.13.ring", false },
        { "upper case", "meridian.00112233445566778899AABBCCDDEEFF.12.345.13.ring", false },
        { "short boot", "meridian.0011.12.345.13.ring", false },
        { "pid too large", "meridian.00112233445566778899aabbccddeeff.4294967296.345.13.ring",
          false },
        { "no tid", "meridian.00112233445566778899aabbccddeeff.12.345.ring", false },
        { "junk", "meridian.00112233445566778899aabbccddeeff.12.345.13.ring~", false },
        { "empty", "", false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_ring_name name;
        char text[MRD_RING_NAME_MAX];

        CHECK_ROW(rows[i].name, mrd_ring_name_parse(rows[i].file, &name) == rows[i].want);
        if (!rows[i].want)
            continue;
        mrd_ring_name_print(&name, text);
        CHECK_TEXT(text, rows[i].file);
    }
}

/* Every switch of the table is in the documentation with its default. */
TEST(switches_are_documented)
{
    static const char *const rows[][2] = {
#define SET(name, member, type, def, min, max, help) { name, help },
#include "capture/settings.def"
#undef SET
    };
    char path[600], *text = calloc(1, 1 << 18);
    FILE *f;

    snprintf(path, sizeof(path), "%s/docs/reference/api.md", getenv("MERIDIAN_SOURCE"));
    f = fopen(path, "r");
    REQUIRE(f != NULL && fread(text, 1, (1 << 18) - 1, f) > 0);
    fclose(f);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        CHECK_ROW(rows[i][0], strstr(text, rows[i][0]) != NULL);
        CHECK_ROW(rows[i][0], strlen(rows[i][1]) > 10);
    }
    free(text);
}

TEST_MAIN()
