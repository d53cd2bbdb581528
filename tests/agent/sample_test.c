#include "tests/check.h"
#include "tests/wait.h"

#include <time.h>

#include "agent/daemon/sample.h"
#include "agent/record/trigger.h"
#include "tests/fake/hw_fake.h"

/* ---- Counters ---- */

static const char script[] = "counter fake0.core1.load percent 10 20 20 20 30\n"
                             "counter fake0.core1.runs count+ 5 5 5 ? 6\n"
                             "stall 6 200\n";

typedef struct {
    uint64_t n, loads, runs;
    double last_load;
    int64_t last_runs;
    mrd_err answer;
} received;

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    received *h = self;
    const mrd_track *t = mrd_catalog_borrow_track(process->catalog, ev->track);
    mrd_str name = mrd_catalog_text(process->catalog, t->name);

    CHECK_INT(clock, MRD_DRAIN_RAW);
    CHECK_INT(ev->kind, MRD_COUNTER);
    if (h->answer != MRD_OK)
        return h->answer;
    h->n++;
    if (mrd_str_is(name, "fake0.core1.load")) {
        h->loads++;
        h->last_load = ev->value;
        CHECK_INT(t->device_idx, 0);
        CHECK_INT(t->pcore_idx, 1);
        CHECK_INT(t->source, MRD_SRC_DEVCTR);
        CHECK((ev->flags & MRD_EV_SIMULATED) != 0);
    }
    if (mrd_str_is(name, "fake0.core1.runs")) {
        h->runs++;
        h->last_runs = ev->ivalue;
    }
    return MRD_OK;
}

static mrd_sample *
open_sample(received *h, mrd_hw **ret_hw, mrd_dur_ns period)
{
    static const mrd_hw_backend *const backends[] = { &mrd_hw_backend_fake, &mrd_hw_backend_host };
    static const char *const patterns[] = { "fake*", "mem.used_bytes" };
    mrd_hw_options ho = { 0 };
    mrd_sample_options o = { .instance_id = "i-test",
                             .period = period,
                             .patterns = patterns,
                             .n_patterns = 2,
                             .simulated = true,
                             .event = take,
                             .self = h };
    mrd_sample *s = NULL;

    mrd_hw_fake_script = script;
    CHECK_ERR("hw", mrd_hw_open_list(backends, 2, &ho, ret_hw, NULL), MRD_OK);
    CHECK_ERR("sample", mrd_sample_open(*ret_hw, &o, &s, NULL), MRD_OK);
    return s;
}

TEST(values_that_change_are_given)
{
    received h = { 0 };
    mrd_hw *hw;
    mrd_sample *s = open_sample(&h, &hw, MRD_SEC);
    mrd_sample_stats st;
    int64_t now = 1000 * MRD_SEC, second = 4;

    mrd_sample_step(s, NULL, (mrd_local_ns){ now }); /* the start read the first values */
    CHECK(h.loads == 1 && h.last_load == 20);
    mrd_sample_step(s, NULL, (mrd_local_ns){ now + MRD_MS }); /* not due */
    CHECK_INT(h.loads, 1);
    mrd_sample_step(s, NULL, (mrd_local_ns){ now + MRD_SEC });
    CHECK_INT(h.loads, 1); /* unchanged */
    CHECK_INT(h.runs, 1);
    mrd_sample_step(s, NULL,
                    /* unknown: there is no sample instead of a zero */
                    (mrd_local_ns){ now + 2 * MRD_SEC });
    CHECK_INT(h.last_runs, 5);
    mrd_sample_step(s, NULL, (mrd_local_ns){ now + 3 * MRD_SEC });
    CHECK(h.last_load == 30 && h.last_runs == 6);
    mrd_sample_get_stats(s, &st);
    CHECK_INT(st.failed, 0);
    CHECK(st.begun == st.samples + st.refused && st.samples == h.n);
    mrd_sample_step(s, NULL,
                    /* the device hangs for 200 ms, longer than a tenth of the period */
                    (mrd_local_ns){ now + 4 * MRD_SEC });
    mrd_sample_get_stats(s, &st);
    CHECK_INT(st.failed, 1);
    CHECK(strstr(st.message, "fake") != NULL);
    TEST_UNTIL((mrd_sample_step(s, NULL, (mrd_local_ns){ now + ++second * MRD_SEC }),
                mrd_sample_get_stats(s, &st), st.message[0] == '\0'));
    h.answer = MRD_NOMEM;
    for (int i = 0; i < 24; i++)
        mrd_sample_step(s, NULL, (mrd_local_ns){ now + ++second * MRD_SEC });
    mrd_sample_get_stats(s, &st);
    CHECK(st.refused > 0 && st.begun == st.samples + st.refused);
    mrd_sample_close(s);
    mrd_hw_close(hw);
}

/* ---- Triggers ---- */

typedef struct {
    mrd_drain_process process;
    mrd_track_id track;
} world;

static world
new_world(void)
{
    world w = { .process.catalog = mrd_catalog_new() };
    mrd_process p;
    mrd_track t;

    mrd_process_init(&p);
    w.process.id = mrd_catalog_process(w.process.catalog, &p);
    mrd_track_init(&t, w.process.id, MRD_SRC_API);
    w.track = mrd_catalog_track(w.process.catalog, &t);
    return w;
}

static bool
fires(mrd_trigger_watch *t, world *w, const char *name, mrd_dur_ns dur, int64_t status,
      char reason[256])
{
    mrd_arg arg = { .key = mrd_catalog_intern(w->process.catalog, "status"),
                    .type = MRD_ARG_INT,
                    .v.i = status };
    mrd_event ev = { .kind = MRD_SPAN,
                     .dur_ns = dur,
                     .track = w->track,
                     .args = &arg,
                     .arg_count = 1,
                     .name = mrd_catalog_intern(w->process.catalog, name) };

    return mrd_trigger_event(t, &w->process, &ev, reason);
}

TEST(faults_of_the_runtime_are_triggers)
{
    static const struct {
        int64_t status;
        bool fires;
        const char *text;
    } rows[] = {
        { 0, false, "" },        { 7, true, "queue full" },          { 2, false, "" },
        { 5, true, "time-out" }, { 1200, true, "collective stuck" }, { 1003, true, "numerical" },
        { 99999, false, "" },
    };
    world w = new_world();
    char reason[256];

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_trigger_options o = { .errors = true };
        mrd_trigger_watch *t;

        CHECK_ERR("open", mrd_trigger_open(&o, &t, NULL), MRD_OK);
        CHECK_INT(fires(t, &w, "nrt_execute", 10, rows[i].status, reason), rows[i].fires);
        if (rows[i].fires) {
            CHECK(strstr(reason, rows[i].text) != NULL && strstr(reason, "nrt_execute") != NULL);
            CHECK(!fires(t, &w, "nrt_execute", 10, rows[i].status, reason)); /* once in a while */
        }
        mrd_trigger_close(t);
    }
    mrd_catalog_free(w.process.catalog);
}

TEST(a_step_is_slow_against_its_own_median)
{
    mrd_trigger_options o = { .slow_step_percent = 200 };
    world w = new_world();
    char reason[256];
    mrd_trigger_watch *t;

    CHECK_ERR("open", mrd_trigger_open(&o, &t, NULL), MRD_OK);
    CHECK(!fires(t, &w, "train_step", 900 * MRD_MS, 0, reason)); /* the first is always slow */
    for (int i = 0; i < 20; i++)
        CHECK(!fires(t, &w, "train_step", (10 + i % 3) * MRD_MS, 0, reason));
    CHECK(!fires(t, &w, "forward", 500 * MRD_MS, 0, reason)); /* no step by its name */
    CHECK(!fires(t, &w, "train_step", 21 * MRD_MS, 0, reason));
    CHECK(fires(t, &w, "train_step", 30 * MRD_MS, 0, reason));
    CHECK(strstr(reason, "train_step took 30") != NULL);
    /* Many names: memory is bounded and the oldest are removed. */
    for (int i = 0; i < 1000; i++) {
        char name[32];

        snprintf(name, sizeof(name), "step%d", i);
        CHECK(!fires(t, &w, name, MRD_MS, 0, reason));
    }
    mrd_trigger_close(t);
    mrd_catalog_free(w.process.catalog);
}

/* A new process has the address of an exited one. It has no median step time yet. */
TEST(the_steps_of_a_process_are_not_those_of_the_one_before_at_its_address)
{
    mrd_trigger_options o = { .slow_step_percent = 200 };
    world w = new_world();
    char reason[256];
    mrd_trigger_watch *t;

    CHECK_ERR("open", mrd_trigger_open(&o, &t, NULL), MRD_OK);
    for (int i = 0; i < 20; i++)
        CHECK(!fires(t, &w, "train_step", 10 * MRD_MS, 0, reason));
    w.process.ident.pid++;
    CHECK(!fires(t, &w, "train_step", 30 * MRD_MS, 0, reason));
    w.process.ident.pid--;
    CHECK(fires(t, &w, "train_step", 30 * MRD_MS, 0, reason));
    mrd_trigger_close(t);
    mrd_catalog_free(w.process.catalog);
}

TEST(a_collective_that_takes_too_long)
{
    mrd_trigger_options o = { .collective_ns = MRD_SEC, .quiet_ns = 1 };
    world w = new_world();
    char reason[256];
    mrd_trigger_watch *t;

    CHECK_ERR("open", mrd_trigger_open(&o, &t, NULL), MRD_OK);
    CHECK(!fires(t, &w, "cc_running", MRD_MS, 0, reason));
    CHECK(!fires(t, &w, "nrt_execute", 5 * MRD_SEC, 0, reason));
    CHECK(fires(t, &w, "cc_running", 2 * MRD_SEC, 0, reason));
    CHECK(fires(t, &w, "cc_running", MRD_DUR_UNFINISHED, 0, reason));
    CHECK(strstr(reason, "did not end") != NULL);
    mrd_trigger_close(t);
    mrd_catalog_free(w.process.catalog);
}

TEST_MAIN()
