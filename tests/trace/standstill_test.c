/* Tests whether a job is found to stand still at the end of its recording, and in which operation
 * each process is (trace/analysis/judge/standstill.h). */
#include "trace/analysis/judge/standstill.h"

#include "base/obj.h"
#include "tests/check.h"
#include "tests/trace/profile.h"

#define SECONDS(x) ((int64_t) ((x) *1e9))

/* A recording of n collectives, `apart` s from each other, that ends at `end` s. At `open` s
 * process 1 begins a span that does not end (negative for none). If `busy` is set, spans of process
 * 0's device end every 0.1 s. */
typedef struct {
    const char *name;
    int n;
    double apart, open, end, lost;
    bool busy, is_still;
    double since;
} recording;

static mrd_event
event(const test_profile *p, int process, double from, double to)
{
    return (mrd_event){ .kind = MRD_SPAN,
                        .track = p->thread[process],
                        .name = 1,
                        .ts = { SECONDS(from) },
                        .dur_ns = to < 0 ? -1 : SECONDS(to - from) };
}

static void
check_recording(const recording *r)
{
    test_profile *p = test_profile_new();
    mrd_standstill *s = mrd_standstill_new(p->cat);
    mrd_ev_ns since = { 0 };
    mrd_ended kind = MRD_ENDED_ANY;
    mrd_event ev;

    REQUIRE(s != NULL);
    for (int i = 0; i < r->n; i++) {
        ev = event(p, i % 2, i * r->apart, i * r->apart + 0.01);
        mrd_standstill_ended(s, p->proc[i % 2], MRD_ENDED_COLLECTIVE, &ev);
    }
    for (double at = 0; r->busy && at < r->end; at += 0.1) {
        ev = event(p, 0, at, at + 0.1);
        mrd_standstill_ended(s, p->proc[0], MRD_ENDED_DEVICE, &ev);
    }
    ev = event(p, 1, r->open, -1);
    if (r->open >= 0)
        mrd_standstill_open(s, &ev, false);
    ev = event(p, 1, r->lost, r->lost + 1);
    if (r->lost > 0)
        mrd_standstill_lost(s, &ev);
    mrd_standstill_finish(s, (mrd_ev_ns){ 0 }, (mrd_ev_ns){ SECONDS(r->end) });
    CHECK_ROW(r->name, mrd_standstill_since(s, &since, &kind) == r->is_still);
    CHECK_ROW(r->name, !r->is_still || (since.ns - SECONDS(r->since) < 1000 &&
                                        SECONDS(r->since) - since.ns < 1000));
    CHECK_ROW(r->name, mrd_standstill_end(s).ns >= SECONDS(r->end) - 1);
    mrd_standstill_free(s);
    test_profile_free(p);
}

TEST(who_stands_still)
{
    static const recording rows[] = {
        { "hangs after 4 s", 40, 0.1, 4.0, 18, 0, false, true, 3.91 },
        { "nothing is open", 40, 0.1, -1, 18, 0, false, false, 0 },
        { "less than a third", 40, 0.1, 4.0, 5.5, 0, false, false, 0 },
        { "a short recording", 40, 0.001, 0.04, 0.4, 0, false, false, 0 },
        { "collectives are rare", 4, 5, 15.1, 24, 0, false, false, 0 },
        { "devices work on, collectives do not end", 40, 0.1, 4.0, 18, 0, true, true, 3.91 },
        { "no collectives, the device works", 0, 0, 4.0, 18, 0, true, false, 0 },
        { "no spans at all", 0, 0, 4.0, 18, 0, false, false, 0 },
        { "what is open began just now", 40, 0.1, 17.9, 18, 0, false, false, 0 },
        { "nothing was recorded meanwhile", 40, 0.1, 4.0, 18, 16, false, false, 0 },
        { "the loss ended long ago", 40, 0.1, 4.0, 18, 5, false, true, 6 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        check_recording(&rows[i]);
}

TEST(the_innermost_is_the_one_that_began_last)
{
    test_profile *p = test_profile_new();
    mrd_standstill *s = mrd_standstill_new(p->cat);
    static const double begins[] = { 1, 2.5, 2 };
    const mrd_at_end *v;
    size_t n;

    REQUIRE(s != NULL);
    for (size_t i = 0; i < MRD_COUNT(begins); i++) {
        mrd_event ev = event(p, 1, begins[i], -1);

        ev.name = (mrd_sid) (i + 1);
        mrd_standstill_open(s, &ev, false);
    }
    mrd_standstill_finish(s, (mrd_ev_ns){ 0 }, (mrd_ev_ns){ SECONDS(3) });
    v = mrd_standstill_processes(s, &n);
    CHECK(n == 1 && v[0].process == p->proc[1] && v[0].open == 3);
    CHECK(v[0].start.ns == SECONDS(2.5) && v[0].name == 2);
    mrd_standstill_free(s);
    test_profile_free(p);
}

TEST_MAIN()
