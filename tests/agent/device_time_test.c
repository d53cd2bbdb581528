/* Tests the time that cores work themselves, that is, execute without waiting in a collective
 * (agent/hang/device_time.h). The expected time is counted nanosecond by nanosecond. */
#include "agent/hang/device_time.h"
#include "tests/check.h"
#include "tests/seed.h"

#define SPAN 4000 /* length of a random stream in ns */

static uint64_t
draw(uint64_t *rng, uint64_t below)
{
    *rng ^= *rng << 13;
    *rng ^= *rng >> 7;
    *rng ^= *rng << 17;
    return *rng % below;
}

typedef struct {
    int64_t from, to;
    bool wait;
} span;

/* One core: consecutive executions, and collectives that may overlap each other, cross the
 * borders of executions and lie outside of them. */
typedef struct {
    span v[600];
    size_t n, executions;
} stream;

static void
make(stream *s, uint64_t *rng, int64_t length)
{
    int64_t at = (int64_t) draw(rng, 50);

    s->n = s->executions = 0;
    for (; at < length && s->executions < 60; s->executions++) {
        int64_t to = at + 1 + (int64_t) draw(rng, 300);

        s->v[s->n++] = (span){ at, to, false };
        if (draw(rng, 2) == 0) /* the other physical core */
            s->v[s->n++] =
                (span){ at + (int64_t) draw(rng, (uint64_t) (to - at) / 4 + 1), to, false };
        at = to + (int64_t) draw(rng, 40);
    }
    for (size_t k = 0, n = s->n; k + 1 < n; k++) {
        /* a collective ends before the next execution does, so it arrives before that */
        int64_t last = s->v[k + 1].to;

        for (size_t i = draw(rng, 6); i > 0; i--) {
            int64_t from = s->v[k].from +
                           (int64_t) draw(rng, (uint64_t) (s->v[k + 1].from - s->v[k].from) + 1);
            int64_t to = from + (int64_t) draw(rng, 120);

            s->v[s->n++] = (span){ from, to < last ? to : last, true };
        }
    }
}

static int
by_end(const void *a, const void *b)
{
    const span *x = a, *y = b;

    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    /* a collective that ends together with its execution is reported first */
    return x->wait != y->wait ? (x->wait ? -1 : 1) : 0;
}

/* Returns the expected result: the ns of executions outside of collectives. The last execution does
 * not count, because its collectives may still arrive. */
static int64_t
own_work(const stream *s)
{
    static bool waits[2 * SPAN], executes[2 * SPAN];
    int64_t sum = 0, last = 0;

    memset(waits, 0, sizeof(waits));
    memset(executes, 0, sizeof(executes));
    for (size_t i = 0; i < s->n; i++)
        last = !s->v[i].wait && s->v[i].to > last ? s->v[i].to : last;
    for (size_t i = 0; i < s->n; i++)
        for (int64_t t = s->v[i].from; t < s->v[i].to; t++) {
            if (s->v[i].wait)
                waits[t] = true;
            else if (s->v[i].to != last)
                executes[t] = true;
        }
    for (size_t t = 0; t < 2 * SPAN; t++)
        sum += executes[t] && !waits[t];
    return sum;
}

static void
add(mrd_device_time *device, uint64_t core, const span *s)
{
    mrd_device_time_add(device, core, s->wait, (mrd_ev_ns){ s->from }, s->to - s->from);
}

TEST(random_streams_give_the_difference_of_intervals)
{
    uint64_t rng = test_seed() * 0x9e3779b97f4a7c15u;

    for (size_t round = 0; round < 3000; round++) {
        mrd_device_time *device = mrd_device_time_new();
        stream s[3];
        int64_t own[3], counted[3], sum;
        size_t at[3] = { 0 }, left = 0, matches = 0;
        uint64_t executions;

        for (size_t i = 0; i < 3; i++) {
            make(&s[i], &rng, SPAN / 2 + (int64_t) draw(&rng, SPAN / 2));
            own[i] = own_work(&s[i]);
            counted[i] = (int64_t) s[i].executions - 1;
            qsort(s[i].v, s[i].n, sizeof(s[i].v[0]), by_end);
            left += s[i].n;
        }
        for (; left > 0; left--) { /* the cores' events arrive interleaved */
            size_t i = draw(&rng, 3);

            while (at[i] == s[i].n)
                i = (i + 1) % 3;
            add(device, 100 + i, &s[i].v[at[i]++]);
        }
        sum = mrd_device_time_take(device, &executions);
        for (size_t i = 0; i < 3; i++) { /* the result is one core's, and none is slower */
            matches += sum == own[i] && (int64_t) executions == counted[i];
            CHECK(sum * counted[i] >= own[i] * (int64_t) executions);
        }
        CHECK(matches > 0);
        mrd_device_time_free(device);
        if (test_failures > 3)
            return;
    }
}

/* Within one execution the order in which events arrive does not matter. All events of an execution
 * must arrive before the events of the next execution. */
TEST(the_order_inside_an_execution_does_not_matter)
{
    uint64_t rng = test_seed() * 0x9e3779b97f4a7c15u + 1;

    for (size_t round = 0; round < 1000; round++) {
        mrd_device_time *device = mrd_device_time_new();
        span inside[8];
        uint64_t executions;
        bool waits[1000] = { false };
        int64_t own = 0;

        for (size_t i = 0; i < 8; i++) {
            inside[i].wait = true;
            inside[i].from = (int64_t) draw(&rng, 900);
            inside[i].to = inside[i].from + (int64_t) draw(&rng, 100);
            for (int64_t t = inside[i].from; t < inside[i].to; t++)
                waits[t] = true;
        }
        for (size_t t = 0; t < 1000; t++)
            own += !waits[t];
        for (size_t i = 0; i < 4; i++)
            add(device, 1, &inside[i]);
        mrd_device_time_add(device, 1, false, (mrd_ev_ns){ 0 }, 1000);
        for (size_t i = 4; i < 8; i++)
            add(device, 1, &inside[i]);
        mrd_device_time_add(device, 1, false, (mrd_ev_ns){ 1000 }, 5);
        CHECK_INT(mrd_device_time_take(device, &executions), own);
        CHECK_INT(executions, 1);
        mrd_device_time_free(device);
    }
}

/* Executions of 10 ns at 0, 10, 20, ... with a collective of 4 ns each. */
static void
step(mrd_device_time *device, int64_t i)
{
    mrd_device_time_add(device, 1, true, (mrd_ev_ns){ i * 10 + 3 }, 4);
    mrd_device_time_add(device, 1, false, (mrd_ev_ns){ i * 10 }, 10);
}

TEST(executions_with_lost_events_do_not_count)
{
    mrd_device_time *device = mrd_device_time_new();
    uint64_t executions;
    int64_t i = 0;

    while (i < 10)
        step(device, i++);
    CHECK_INT(mrd_device_time_take(device, &executions), 9 * 6);
    CHECK_INT(executions, 9);
    /* Events are lost after execution 9 was added. The collectives of executions 9 and 10 may be among them, so both executions do not count. */
    mrd_device_time_lost(device);
    mrd_device_time_add(device, 1, false, (mrd_ev_ns){ i++ * 10 }, 10);
    for (; i < 20; i++)
        step(device, i);
    CHECK_INT(mrd_device_time_take(device, &executions), 17 * 6); /* 0 .. 8 and 11 .. 18 */
    CHECK_INT(executions, 17);
    mrd_device_time_free(device);
}

/* Consecutive executions overlap a little if the conversion of their times is not exact. They still
 * count as two executions. */
TEST(executions_that_touch_are_two)
{
    mrd_device_time *device = mrd_device_time_new();
    uint64_t executions;

    for (int64_t i = 0; i < 10; i++) /* each overlaps the one before by 2 of 12 ns */
        mrd_device_time_add(device, 1, false, (mrd_ev_ns){ i * 10 - 2 }, 12);
    CHECK_INT(mrd_device_time_take(device, &executions), 12 + 8 * 10);
    CHECK_INT(executions, 9);
    mrd_device_time_free(device);
}

/* Of several cores the slowest counts, which may be another one each time. A core that executes more
 * often is not slower. */
TEST(the_slowest_core_counts)
{
    static const struct {
        int64_t length[2], times[2], sum, executions;
    } rows[] = {
        { { 50, 80 }, { 4, 4 }, 320, 4 },
        { { 90, 80 }, { 4, 4 }, 320 + 360, 8 },
        { { 90, 91 }, { 9, 2 }, 320 + 360 + 182, 10 },
        { { 90, 91 }, { 9, 0 }, 320 + 360 + 182 + 810, 19 },
        { { 90, 91 }, { 0, 0 }, 320 + 360 + 182 + 810, 19 },
    };
    mrd_device_time *device = mrd_device_time_new();
    mrd_ev_ns at[2] = { { 0 }, { 0 } };
    int64_t pending[2] = { 0 }; /* length of the newest execution, which counts later */
    uint64_t executions;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t core = 0; core < 2; core++)
            for (int64_t k = 0; k < rows[i].times[core]; k++) {
                if (pending[core] == 0) /* one before the first that counts */
                    mrd_device_time_add(device, core, false, at[core], rows[i].length[core]);
                pending[core] = rows[i].length[core];
                at[core].ns += 1000;
                mrd_device_time_add(device, core, false, at[core],
                                    k + 1 < rows[i].times[core] || i + 1 == 5
                                        ? rows[i].length[core]
                                        : rows[i + 1].length[core]);
            }
        CHECK_INT(mrd_device_time_take(device, &executions), rows[i].sum);
        CHECK_INT(executions, rows[i].executions);
    }
    mrd_device_time_free(device);
}

TEST(memory_is_bounded)
{
    mrd_device_time *device = mrd_device_time_new();
    uint64_t executions;

    /* an execution with too many separate collectives does not count, the others do */
    mrd_device_time_add(device, 1, false, (mrd_ev_ns){ -20 }, 10);
    mrd_device_time_add(device, 1, false, (mrd_ev_ns){ -10 }, 10);
    CHECK_INT(mrd_device_time_take(device, &executions), 10);
    for (int64_t i = 0; i < 2 * (int64_t) MRD_DEVICE_WAITS; i++)
        mrd_device_time_add(device, 1, true, (mrd_ev_ns){ 4 * i + 1 }, 1);
    mrd_device_time_add(device, 1, false, (mrd_ev_ns){ 0 }, 100000);
    for (int64_t i = 10000; i < 10003; i++)
        step(device, i);
    CHECK_INT(mrd_device_time_take(device, &executions), 10 + 2 * 6);
    CHECK_INT(executions, 3);
    /* further cores than MRD_DEVICE_CORES are ignored */
    for (uint64_t core = 1000; core < 1200; core++)
        for (int64_t i = 0; i < 2; i++) /* each core is slower than the one before */
            mrd_device_time_add(device, core, false, (mrd_ev_ns){ 1000 * i }, (int64_t) core - 990);
    CHECK_INT(mrd_device_time_take(device, &executions), 22 + 10 + MRD_DEVICE_CORES - 2);
    CHECK_INT(executions, 4);
    mrd_device_time_free(device);
}

TEST_MAIN()
