/* Tests the detection of calls that two sources recorded (trace/analysis/calls.h): which of their
 * events are passed to the receiver, when, and what happens after an error. summary_test.c tests
 * the counts of random calls. */
#include "tests/trace/events.h"
#include "trace/analysis/calls.h"

#define AT 1729888371056597613LL

typedef struct {
    mrd_catalog *cat;
    mrd_track_id hook, runtime, other;
    mrd_sid name;
    mrd_calls *calls;
    mrd_event given[1024];
    size_t n, fail_at; /* number of events; number of the call of take() that fails, 0 for none */
} world;

static mrd_err
take(void *self, const mrd_event *ev)
{
    world *w = self;

    if (++w->n == w->fail_at)
        return MRD_IO;
    CHECK(w->fail_at == 0 || w->n < w->fail_at); /* no event is given after an error */
    w->given[w->n - 1] = *ev;
    return MRD_OK;
}

static world *
world_new(size_t fail_at)
{
    world *w = calloc(1, sizeof(*w));
    mrd_process p;
    mrd_track t;

    w->cat = mrd_catalog_new();
    w->fail_at = fail_at;
    w->name = mrd_catalog_intern(w->cat, "nrt_execute");
    mrd_process_init(&p);
    p.process_id = 7;
    mrd_track_init(&t, mrd_catalog_process(w->cat, &p), MRD_SRC_API);
    t.thread_id = 100;
    w->hook = mrd_catalog_track(w->cat, &t);
    t.source = MRD_SRC_RUNTIME;
    w->runtime = mrd_catalog_track(w->cat, &t);
    t.source = MRD_SRC_FRAMEWORK;
    w->other = mrd_catalog_track(w->cat, &t);
    w->calls = mrd_calls_new(w->cat, 0, take, w);
    return w;
}

static void
world_free(world *w)
{
    mrd_calls_free(w->calls);
    mrd_catalog_free(w->cat);
    free(w);
}

static mrd_err
add(world *w, mrd_track_id track, int64_t from, int64_t dur)
{
    mrd_event ev = {
        .kind = MRD_SPAN, .track = track, .name = w->name, .ts = { from }, .dur_ns = dur
    };

    return mrd_calls_add(w->calls, &ev);
}

/* The spans of two sources are the same call if the later one begins at most MRD_CALLS_SLACK after
 * the end of the earlier one, because their clocks differ. */
TEST(the_slack_is_as_documented)
{
    static const struct {
        int64_t apart; /* ns from the end of the first span to the begin of the second */
        uint64_t twice;
    } rows[] = {
        { -100, 1 },
        { 0, 1 },
        { MRD_CALLS_SLACK - 1, 1 },
        { MRD_CALLS_SLACK, 1 },
        { MRD_CALLS_SLACK + 1, 0 },
        { 10 * MRD_CALLS_SLACK, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        for (int hook_first = 0; hook_first < 2; hook_first++) {
            world *w = world_new(0);

            CHECK_ERR("first", add(w, hook_first ? w->hook : w->runtime, AT, 100), MRD_OK);
            CHECK_ERR("second",
                      add(w, hook_first ? w->runtime : w->hook, AT + 100 + rows[i].apart, 100),
                      MRD_OK);
            CHECK_ERR("finish", mrd_calls_finish(w->calls), MRD_OK);
            CHECK_INT(mrd_calls_twice(w->calls), rows[i].twice);
            CHECK_INT(w->n, 2 - rows[i].twice);
            world_free(w);
        }
}

/* A call waits for the same call of the other source. The number of waiting calls is limited. Above
 * the limit the oldest ones are passed on at once, in order. */
TEST(only_so_many_wait)
{
    enum { N = MRD_CALLS_WAITING + 40 };
    world *w = world_new(0);

    for (int i = 0; i < N; i++) {
        CHECK_ERR("add", add(w, w->hook, AT + i, 1000), MRD_OK);
        CHECK_INT(w->n, i < MRD_CALLS_WAITING ? 0 : i + 1 - MRD_CALLS_WAITING);
    }
    CHECK_ERR("finish", mrd_calls_finish(w->calls), MRD_OK);
    CHECK_INT(w->n, N);
    for (int i = 0; i < N; i++)
        CHECK_INT(w->given[i].ts.ns, AT + i);
    CHECK_INT(mrd_calls_twice(w->calls), 0);
    world_free(w);
}

/* Each error of the receiver is returned once, by the call during which it occurred. */
TEST(an_error_of_the_receiver_comes_back)
{
    enum { N = 12 };
    size_t calls = 0;

    for (size_t fail_at = 0; fail_at == 0 || fail_at <= calls; fail_at++) {
        world *w = world_new(fail_at);
        size_t errors = 0;

        for (int i = 0; i < N && errors == 0; i++) {
            int64_t at = AT + i * 3 * (int64_t) MRD_CALLS_SLACK;

            /* Adds calls that only the hook recorded, calls that hook and runtime recorded, and
             * other events. A call is passed on when the next call arrives. */
            errors += add(w, w->hook, at, 100) == MRD_IO;
            if (i % 3 == 0 && errors == 0)
                errors += add(w, w->runtime, at + 10, 80) == MRD_IO;
            if (i % 4 == 0 && errors == 0)
                errors += add(w, w->other, at + 20, 5) == MRD_IO;
        }
        if (errors == 0)
            errors += mrd_calls_finish(w->calls) == MRD_IO;
        CHECK_INT(errors, fail_at > 0);
        calls = fail_at == 0 ? w->n : calls;
        world_free(w);
    }
    CHECK_INT(calls, N + N / 4); /* every call is passed on once, and so are the other events */
}

TEST_MAIN()
