/* Tests when an agent sends clock probes, in simulated time. */
#include "tests/check.h"

#include "agent/clock/probe_pace.h"

#define PAIRS 10000

static const mrd_probe_id first = { 7, 1, 0 };

/* Sends the next due pair and returns its time. *k is the number of the next pair. */
static int64_t
send_next(mrd_probe_pace *p, uint32_t *k)
{
    int64_t now = p->next.ns;

    CHECK(!mrd_probe_pace_due(p, (mrd_local_ns){ now - 1 }));
    CHECK(mrd_probe_pace_due(p, (mrd_local_ns){ now }));
    *k += 2;
    mrd_probe_pace_next(p, (mrd_probe_id){ first.agent, first.agent_epoch, *k },
                        (mrd_local_ns){ now });
    return now;
}

TEST(the_rate_is_kept_and_held_out_pairs_leave_no_gap_in_the_fit)
{
    int64_t begin = 0, last_fit = 0, last = 0, widest = 0;
    mrd_probe_pace p;
    uint32_t k = 0;

    mrd_probe_pace_init(&p, 1);
    for (int i = 0; i < PAIRS; i++) {
        bool held = mrd_probe_held_out((mrd_probe_id){ first.agent, first.agent_epoch, k });
        int64_t at = send_next(&p, &k);

        begin = i == 0 ? at : begin;
        CHECK(i == 0 || at - last >= MRD_SEC / 4);
        last = at;
        if (held)
            continue;
        if (i > 0 && at - last_fit > widest)
            widest = at - last_fit;
        last_fit = at;
    }
    CHECK(last - begin > PAIRS * (MRD_SEC / 100 * 98) &&
          last - begin < PAIRS * (MRD_SEC / 100 * 102));
    CHECK(widest < MRD_SEC * 17 / 10);
}

TEST(fast_ends_after_a_minute_however_often_it_is_asked_for)
{
    mrd_probe_pace p;
    uint32_t k = 0;
    int64_t at;
    int sent[3] = { 0 };

    mrd_probe_pace_init(&p, 1);
    at = send_next(&p, &k);
    for (int minute = 0; minute < 3; minute++) {
        int64_t end = at + 60 * MRD_SEC;

        if (minute == 2) /* the clock's bound was narrow for a moment */
            mrd_probe_pace_set(&p, MRD_PACE_RUN, (mrd_local_ns){ at });
        while (at < end) {
            mrd_probe_pace_set(&p, MRD_PACE_FAST, (mrd_local_ns){ at });
            at = send_next(&p, &k);
            sent[minute]++;
        }
    }
    CHECK(sent[0] > 180 && sent[1] < 90 && sent[2] > 180);
}

TEST(a_burst_goes_first_then_the_pace)
{
    int64_t from, at = 0;
    mrd_probe_pace p;
    uint32_t k = 0;

    mrd_probe_pace_init(&p, 1);
    mrd_probe_pace_set(&p, MRD_PACE_STOP, (mrd_local_ns){ 0 });
    from = 5 * MRD_SEC;
    mrd_probe_pace_burst(&p, (mrd_local_ns){ from });
    for (int i = 0; i < MRD_TIMEPROBE_BURST; i++)
        at = send_next(&p, &k);
    CHECK(at - from < 160 * MRD_MS);
    CHECK(p.next.ns - at > 60 * MRD_SEC);
}

TEST(a_pair_that_waits_for_a_better_moment_goes_soon)
{
    mrd_probe_pace p;
    uint32_t k = 0;
    int64_t at;

    mrd_probe_pace_init(&p, 2);
    at = send_next(&p, &k);
    for (int i = 0; i < 1000; i++) {
        mrd_probe_pace_again(&p, (mrd_local_ns){ at });
        CHECK(p.next.ns - at >= 10 * MRD_MS && p.next.ns - at <= 30 * MRD_MS);
    }
}

TEST_MAIN()
