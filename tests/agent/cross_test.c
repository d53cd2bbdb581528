/* The cross-readings that go with a batch place its stamps, also when the wall clock was set before the
 * batch was closed and many readings have been taken since. */
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/drain.h"
#include "tests/check.h"
#include "timesync/cross_table.h"

#define HOUR (3600 * MRD_SEC)

static int64_t wall_off, past; /* what the test adds to the wall clock, and to both */

int
clock_gettime(clockid_t id, struct timespec *ts)
{
    int r = (int) syscall(SYS_clock_gettime, id, ts);
    int64_t ns = (int64_t) ts->tv_sec * 1000000000 + ts->tv_nsec + past;

    if (id == CLOCK_REALTIME)
        ns += wall_off;
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
    CHECK_ERR("open", mrd_drain_open(&o, &p, NULL), MRD_OK);
    return p;
}

static void
take(void *self, const mrd_cross_read *read)
{
    CHECK_ERR("add", mrd_cross_table_add(self, read->raw, read->other), MRD_OK);
}

/* What a reader of a batch that was opened then has to go by. */
static mrd_cross_table
readings_of_batch(mrd_drain *p, int64_t opened)
{
    mrd_cross_table t = { 0 };

    mrd_drain_cross(p);
    mrd_drain_crosses_since(p, (mrd_local_ns){ opened - MRD_CROSS_LATE }, take, &t);
    CHECK_ERR("order", mrd_cross_table_order(&t), MRD_OK);
    return t;
}

/* The clock is ahead for three seconds. A batch is opened in them and closed when `others` batches
 * were since. */
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
        CHECK(t.n < 12); /* and not all that there are */
        place = mrd_cross_table_find(&t, wall, t.v[t.n - 1].raw.ns);
        off = place.raw.ns - opened;
        snprintf(row, sizeof(row), "%d batches since: off by %" PRId64 " ns, said to be %" PRId64,
                 others[k], off, place.doubt);
        CHECK_ROW(row, off >= -MRD_MS - place.doubt && off <= MRD_MS + place.doubt);
        CHECK_ROW(row, place.doubt < MRD_SEC);
        mrd_cross_table_fini(&t);
        mrd_drain_close(p);
    }
}

/* A clock that is set all the time leaves the table within its bounds. */
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

TEST_MAIN()
