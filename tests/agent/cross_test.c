/* Tests the cross-readings of the agent (the wall clock and CLOCK_MONOTONIC_RAW, read together).
 * The reader of a batch converts its wall clock stamps to RAW with the readings that the agent
 * sends with the batch. The results must be right even if the wall clock was set before the batch
 * was closed. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/rings/drain.h"
#include "tests/check.h"
#include "tests/timesync/rng.h"
#include "timesync/cross_table.h"

#define HOUR (3600 * MRD_SEC)

/* `wall_off` is added to the wall clock only, `past` to all clocks; both in ns */
static int64_t wall_off, past;
/* a test's own clocks, which replace the clocks of the system; NULL means none */
static int64_t (*drawn)(clockid_t id);

int
clock_gettime(clockid_t id, struct timespec *ts)
{
    int r = (int) syscall(SYS_clock_gettime, id, ts);
    int64_t ns = (int64_t) ts->tv_sec * 1000000000 + ts->tv_nsec + past;

    if (id == CLOCK_REALTIME)
        ns += wall_off;
    if (drawn != NULL)
        ns = drawn(id);
    *ts = (struct timespec){ ns / 1000000000, ns % 1000000000 };
    return r;
}

static mrd_err
no_event(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    (void) self, (void) process, (void) clock, (void) ev;
    return MRD_OK;
}

static mrd_drain *
open_drain(void)
{
    mrd_drain_options o = {
        .instance_id = "i-test", .ring_dir = test_tmp(), .only_uid = -1, .event = no_event
    };
    mrd_drain *p = NULL;

    wall_off = past = 0;
    drawn = NULL;
    CHECK_ERR("open", mrd_drain_open(&o, &p, NULL), MRD_OK);
    return p;
}

static void
take(void *self, const mrd_cross_read *read)
{
    CHECK_ERR("add", mrd_cross_table_add(self, read->raw, read->other, read->bracket_ns), MRD_OK);
}

/* Closes a batch that was opened at `opened`, as the agent does. */
static void
close_batch(mrd_drain *p, int64_t opened, mrd_cross_table *t)
{
    mrd_drain_cross(p);
    mrd_drain_crosses_since(p, (mrd_local_ns){ opened - MRD_CROSS_LATE }, take, t);
}

/* Returns the readings that the reader of one batch receives. */
static mrd_cross_table
readings_of_batch(mrd_drain *p, int64_t opened)
{
    mrd_cross_table t = { 0 };

    close_batch(p, opened, &t);
    CHECK_ERR("order", mrd_cross_table_order(&t), MRD_OK);
    return t;
}

/* The wall clock is an hour ahead for three seconds. A batch is opened in that time, and closed
 * after 0 to 5,000 further batches. A stamp taken when the batch was opened must still be converted
 * to the right RAW time. */
TEST(a_stamp_of_before_a_step_is_placed)
{
    static const int others[] = { 0, 3, 4, 100, 5000 };

    for (size_t k = 0; k < MRD_COUNT(others); k++) {
        mrd_drain *p = open_drain();
        mrd_cross_table t;
        mrd_cross_place place;
        int64_t opened, wall, off;
        char row[120];

        past += 6 * MRD_SEC;
        wall_off = HOUR;
        mrd_drain_step(p);
        past += 2 * MRD_SEC;
        opened = mrd_local_now().ns;
        wall = mrd_wall_now().ns;
        past += MRD_SEC;
        wall_off = 0;
        mrd_drain_step(p);
        for (int i = 0; i < others[k]; i++) {
            past += MRD_MS;
            mrd_drain_cross(p);
        }
        t = readings_of_batch(p, opened);
        CHECK(t.n < 12); /* the batch gets only the readings that it needs */
        place = mrd_cross_table_find(&t, wall, 0, t.v[t.n - 1].raw.ns);
        off = place.raw.ns - opened;
        snprintf(row, sizeof(row), "%d batches since: off by %" PRId64 " ns, said to be %" PRId64,
                 others[k], off, place.doubt);
        CHECK_ROW(row, off >= -MRD_MS - place.doubt && off <= MRD_MS + place.doubt);
        CHECK_ROW(row, place.doubt < MRD_SEC);
        mrd_cross_table_fini(&t);
        mrd_drain_close(p);
    }
}

/* If the wall clock is set again every second, the agent keeps at most 1,024 readings. */
TEST(a_clock_that_is_set_all_the_time)
{
    mrd_drain *p = open_drain();
    size_t n;

    for (int i = 0; i < 5000; i++) {
        past += MRD_SEC;
        wall_off = i % 2 * HOUR;
        mrd_drain_step(p);
    }
    CHECK(mrd_drain_crosses(p, &n) != NULL);
    CHECK(n >= 512 && n <= 1024);
    mrd_drain_close(p);
}

/* A node with simulated time. Each clock reading takes a while, sometimes long. The oscillator of
 * the wall clock has a changing rate error, and the clock is set or slewed. */
static struct {
    rng r;
    int64_t raw;
    __int128 wall; /* in 1e-9 ns, because rates are in ppb */
    int64_t ppb, slew_ppb, slew_until;
} node;

static void
pass(int64_t ns)
{
    int64_t slewed = node.slew_until <= node.raw ? 0 : node.slew_until - node.raw;

    slewed = slewed < ns ? slewed : ns;
    node.raw += ns;
    node.wall += (__int128) ns * (1000000000 + node.ppb) + (__int128) slewed * node.slew_ppb;
}

static int64_t
node_clock(clockid_t id)
{
    pass(20 + (int64_t) (rng_next(&node.r) % 30) +
         (rng_next(&node.r) % 500 == 0 ? (int64_t) (rng_next(&node.r) % 3000000) : 0));
    return id == CLOCK_REALTIME ? (int64_t) (node.wall / 1000000000) : node.raw;
}

/* Disturbs the node's wall clock. Kind 0 sets it by *left, or back. Kind 1 slews it for at most 2
 * s. Kind 2 changes its rate. Disturbances follow each other about every second, so an agent that
 * reads the clocks only every 10 s would miss most of them. */
static void
disturb(int kind, int64_t *left)
{
    static const int64_t sizes[] = { 10 * MRD_US, 700 * MRD_US, 30 * MRD_MS, 500 * MRD_MS, HOUR };

    if (kind == 0) {
        if (*left == 0)
            *left = sizes[rng_next(&node.r) % MRD_COUNT(sizes)] * (rng_next(&node.r) % 2 ? 1 : -1);
        else
            *left = -*left;
        node.wall += (__int128) *left * 1000000000;
    } else if (kind == 1) {
        bool fast =
            /* fast: by the tick length, at most 8 %. Otherwise at most 450 ppm, near the kernel's
             * limit. */
            rng_next(&node.r) % 2 == 0;
        uint64_t most = fast ? 80000000 : 450000, length = fast ? 50 * MRD_MS : 2 * MRD_SEC;

        node.slew_until = node.raw + (int64_t) (rng_next(&node.r) % length);
        node.slew_ppb = (int64_t) (rng_next(&node.r) % (2 * most)) - (int64_t) most;
    } else
        node.ppb = (int64_t) (rng_next(&node.r) % 40000) - 20000;
}

/* Stamps of a disturbed wall clock are converted to RAW with the readings of all batches. Each
 * error must be within the stated possible error. If the clock is undisturbed, nearly all possible
 * errors must be below 10 us. */
TEST(a_clock_that_goes_away_and_comes_back_is_followed)
{
    enum { STAMPS = 64 };
    unsigned wrong = 0, wide = 0, all = 0;
    rng seeds = rng_new(rng_seed());

    for (int round = 0; round < 60; round++) {
        mrd_drain *p;
        mrd_cross_table t = { 0 };
        int64_t walls[STAMPS] = { 0 }, raws[STAMPS] = { 0 }, opened, left = 0;
        /* kinds 0 to 2 as in disturb(); with kind 3 the clock is undisturbed */
        int kind = round % 4, n = 0;

        p = open_drain();
        memset(&node, 0, sizeof(node));
        node.r = rng_new(rng_next(&seeds));
        node.raw = mrd_local_now().ns + MRD_SEC;
        node.wall = (__int128) mrd_wall_now().ns * 1000000000;
        node.ppb = 17000;
        drawn = node_clock;
        mrd_drain_cross(p);
        for (int turn = 0; turn < 500; turn++) {
            pass(10 * MRD_MS);
            mrd_drain_step(p);
        }
        opened = node.raw;
        for (int turn = 0; turn < 3000; turn++) {
            pass((int64_t) (rng_next(&node.r) % (uint64_t) (10 * MRD_MS)));
            if (turn % 47 == 3) {
                walls[n] = (int64_t) (node.wall / 1000000000);
                raws[n++] = node.raw;
            }
            if (kind < 3 && rng_next(&node.r) % 100 == 0)
                disturb(kind, &left);
            pass((int64_t) (rng_next(&node.r) % (uint64_t) (10 * MRD_MS)));
            mrd_drain_step(p);
            if (turn % 20 == 19) { /* the agent closes a batch about every 200 ms */
                close_batch(p, opened, &t);
                opened = node.raw;
            }
        }
        CHECK_ERR("order", mrd_cross_table_order(&t), MRD_OK);
        CHECK_INT(n, STAMPS);
        for (int i = 0; i < n; i++) {
            mrd_cross_place place = mrd_cross_table_find(&t, walls[i], 0, t.v[t.n - 1].raw.ns);

            wrong += llabs(place.raw.ns - raws[i]) > place.doubt;
            wide += kind == 3 && place.doubt > 10 * MRD_US;
            all++;
        }
        mrd_cross_table_fini(&t);
        mrd_drain_close(p);
    }
    printf("  %u of %u stamps off by more than is said, %u with a wide bound for nothing\n", wrong,
           all, wide);
    CHECK_INT(wrong, 0);
    CHECK(wide < all / 100);
}

TEST_MAIN()
