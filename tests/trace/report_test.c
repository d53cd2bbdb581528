/* Tests the report. The parts of a worker's recorded time, such as compute and idle, must add up to
 * the whole, and equal those of a count at every instant. Also tests steps, critical paths and the
 * text. */
#include "tests/trace/report_read.h"
#include "trace/sink/text.h"

/* A kind of lost time, such as idle, is named as the bottleneck if it is at least a fifth of all
 * time. Below that, computation is named. The worker with most of the bottleneck is named if it has
 * at least half more than the others. */
TEST(the_bottleneck_is_a_loss_of_a_fifth_or_more)
{
    static const struct {
        const char *name;
        int64_t idle[2]; /* idle time of each worker, of 1,000 ns */
        const char *want, *who;
    } rows[] = {
        { "a fifth", { 200, 200 }, "idle", NULL },
        { "less than a fifth", { 200, 199 }, "compute", NULL },
        { "more than computation", { 600, 600 }, "idle", NULL },
        { "of one worker", { 100, 400 }, "idle", "rank 1 " },
        { "less than half again as much", { 300, 449 }, "idle", NULL },
        { "computation of one worker", { 0, 350 }, "compute", "rank 0 " },
        { "none", { 0, 0 }, "compute", NULL },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        test_profile *p = test_profile_new();
        json_t *r;
        char *text, *at;

        p->n = 0;
        for (int who = 0; who < 2; who++) {
            profile_add(p, MRD_SPAN, p->device[who], "nc_exec_running", 0, 100);
            profile_add(p, MRD_SPAN, p->device[who], "nc_exec_running", 100 + rows[i].idle[who],
                        900 - rows[i].idle[who]);
        }
        r = report(p);
        text = report_text(p);
        at = strstr(text, "Most of it is at ");
        CHECK_ROW(rows[i].name,
                  strcmp(json_string_value(json_object_get(r, "bottleneck")), rows[i].want) == 0);
        CHECK_ROW(rows[i].name, (at != NULL) == (rows[i].who != NULL));
        CHECK_ROW(rows[i].name, at == NULL || strstr(at, rows[i].who) != NULL);
        json_decref(r);
        free(text);
        test_profile_free(p);
    }
}

/* While a recording is paused, only recorded computation counts. The rest of the pause is "not
 * recorded". It is neither idle time nor exposed communication, and no events count as lost. */
TEST(what_was_paused_is_not_recorded_and_no_loss)
{
    test_profile *p = test_profile_new();
    mrd_event *ev;
    json_t *r;
    char *text;

    p->n = 0;
    profile_add(p, MRD_SPAN, p->device[1], "nc_exec_running", 0, 1000); /* reaches into the pause */
    ev = profile_add(p, MRD_LOSS, p->loss, "paused", 700, 2000);
    ev->ivalue = 0;
    ev = profile_add(p, MRD_LOSS, p->loss, "runtime-ring", 2500, 700); /* both until 2,700 */
    ev->ivalue = 3;
    profile_add(p, MRD_SPAN, p->device[1], "nc_exec_running", 4000, 500);
    r = report(p);
    CHECK(part(r, 0, "compute") == 1000 + 500);
    CHECK(part(r, 0, "not_recorded") == 1700 + 500);
    CHECK(number(worker(r, 0), "paused_ns") == 1700);
    CHECK(part(r, 0, "idle") == 800);
    CHECK(parts_sum(r, 0) == 4500);
    CHECK(number(worker(r, 0), "lost") == 3);
    CHECK(json_array_size(json_object_get(r, "longest_pauses")) == 0); /* no certain one */
    json_decref(r);
    text = report_text(p);
    CHECK(strstr(text, "Not recorded (paused)                   time of window\n"
                       "  rank 1 NC 3 pid 4711               1.70 us    37.8 %\n\n") != NULL);
    free(text);
    test_profile_free(p);
}

TEST(every_instant_is_in_one_part)
{
    test_profile *p = test_profile_new();
    json_t *r, *path;

    p->n = 0;
    profile_add(p, MRD_SPAN, p->thread[0], "nrt_execute", -500, 2000); /* before the device */
    profile_add(p, MRD_SPAN, p->device[0], "nc_exec_running", 0, 1000);
    profile_add(p, MRD_SPAN, p->device[0], "cc_exec_barrier", 100, 200);
    cc_running(p, 0, 1, 600, 300, 0);
    /* Pause 1,000 to 3,000: 500 in the runtime, 300 copying, 1,200 idle. */
    profile_add(p, MRD_SPAN, p->thread[0], "nrt_tensor_write", 1700, 300);
    cc_running(p, 0, 2, 3000, 400, 0); /* exposed for 100 */
    profile_add(p, MRD_SPAN, p->device[0], "nc_exec_running", 3100, 900);
    profile_add(p, MRD_SPAN, p->thread[0], "nrt_execute", 3900, 5000); /* after the device */
    profile_add(p, MRD_SPAN, p->thread[0], "nrt_execute", 9500, 10);   /* outside of it */
    r = report(p);
    CHECK(json_array_size(json_object_get(r, "workers")) == 1);
    CHECK(number(worker(r, 0), "window_ns") == 4000);
    CHECK(part(r, 0, "waiting") == 200);
    CHECK(part(r, 0, "both") == 300 + 300);
    CHECK(part(r, 0, "exposed") == 100);
    CHECK(part(r, 0, "compute") == (1000 - 200 - 300) + (900 - 300));
    CHECK(part(r, 0, "host") == 500);
    CHECK(part(r, 0, "copy") == 300);
    CHECK(part(r, 0, "idle") == 1200);
    CHECK(parts_sum(r, 0) == 4000);
    /* there is one worker, so the critical path must have the same times */
    path = json_object_get(r, "critical_path");
    CHECK(number(path, "total_ns") == 4000);
    CHECK(number(json_object_get(path, "parts_ns"), "host") == 500);
    CHECK(number(json_object_get(path, "parts_ns"), "idle") == 1200);
    CHECK(number(json_array_get(json_object_get(r, "longest_pauses"), 0), "duration_ns") == 2000);
    CHECK(number(json_array_get(json_object_get(r, "longest_pauses"), 0), "host_ns") == 800);
    json_decref(r);
    forget(p);
    test_profile_free(p);
}

/* In a time in which events were lost, only the recorded ones count, and the rest is "not
 * recorded". The device is not called idle, no collective is called exposed, and calls of the
 * runtime explain no idle time. The report does not list the time as a pause. */
TEST(what_was_lost_is_not_recorded_and_never_idle)
{
    test_profile *p = test_profile_new();
    const json_t *pauses;
    mrd_event *ev;
    json_t *r;
    char *text;

    p->n = 0;
    profile_add(p, MRD_SPAN, p->device[1], "nc_exec_running", 0, 1000);
    ev = profile_add(p, MRD_LOSS, p->loss, "runtime-ring", 1500, 2000);
    ev->ivalue = 17;
    profile_add(p, MRD_SPAN, p->thread[1], "nrt_execute", 1600, 300); /* 1,000 to 4,000: nothing */
    profile_add(p, MRD_SPAN, p->device[1], "nc_exec_running", 3000, 100); /* it came nevertheless */
    profile_add(p, MRD_SPAN, p->device[1], "nc_exec_running", 4000, 500);
    ev = profile_add(p, MRD_LOSS, p->loss, "ring-full", 4500, 1000); /* of annotations */
    ev->ivalue = 5;
    profile_add(p, MRD_SPAN, p->device[1], "nc_exec_running", 5000, 500);
    r = report(p);
    CHECK(part(r, 0, "compute") == 1000 + 100 + 500 + 500);
    CHECK(part(r, 0, "not_recorded") == 1500 + 400);
    CHECK(part(r, 0, "host") == 0);
    CHECK(part(r, 0, "idle") == 500 + 500 + 500);
    CHECK(parts_sum(r, 0) == 5500);
    CHECK(number(worker(r, 0), "lost") == 17);
    pauses = json_object_get(r, "longest_pauses");
    CHECK(json_array_size(pauses) == 1); /* 4,500 to 5,000; the others contain lost events */
    CHECK(number(json_array_get(pauses, 0), "duration_ns") == 500);
    json_decref(r);
    text = report_text(p);
    CHECK(strstr(text, "Not recorded: events were lost") != NULL);
    free(text);
    forget(p);
    test_profile_free(p);
}

/* The parts for random spans equal those of a count that has one byte per nanosecond. */
TEST(parts_equal_an_account_kept_by_hand)
{
    static const struct {
        const char *name;
        bool device;
        unsigned bit; /* compute, collective, barrier, copy, host */
    } kinds[] = { { "nc_exec_running", true, 1 },
                  { "cc_running", true, 2 },
                  { "cc_exec_barrier", true, 4 },
                  { "nrt_tensor_read", false, 8 },
                  { "kbl_exec_wait", false, 16 } };
    static const char *const names[] = { "compute", "both", "exposed", "copy",
                                         "waiting", "host", "idle" };
    uint64_t seed = 20261121;

    for (int round = 0; round < 300; round++) {
        test_profile *p = test_profile_new();
        uint8_t on[1024] = { 0 };
        int64_t first = INT64_MAX, last = 0, want[7] = { 0 };
        json_t *r;

        p->n = 0;
        for (int i = 0; i < 12; i++) {
            size_t k = test_rand(&seed) % MRD_COUNT(kinds);
            int64_t at = (int64_t) (test_rand(&seed) % 900),
                    dur = (int64_t) (test_rand(&seed) % 90) + 1;

            profile_add(p, MRD_SPAN, kinds[k].device ? p->device[0] : p->thread[0], kinds[k].name,
                        at, dur);
            for (int64_t t = at; t < at + dur; t++)
                on[t] |= (uint8_t) kinds[k].bit;
            if (kinds[k].device) {
                first = at < first ? at : first;
                last = at + dur > last ? at + dur : last;
            }
        }
        for (int64_t t = first; t < last; t++) {
            unsigned b = on[t];

            want[b & 4 ? 4 : b & 2 ? (b & 1 ? 1 : 2) : b & 1 ? 0 : b & 8 ? 3 : b & 16 ? 5 : 6]++;
        }
        r = report(p);
        for (size_t k = 0; k < MRD_COUNT(names) && first < last; k++)
            CHECK(part(r, 0, names[k]) == want[k]);
        CHECK((first < last) == (json_array_size(json_object_get(r, "workers")) == 1));
        json_decref(r);
        test_profile_free(p);
    }
}

/* A device's track in a trace of another profiler has computation, copies, collectives and events
 * of the host. Category and name of an event decide how it counts. */
TEST(categories_tell_the_host_from_the_device)
{
    static const struct {
        const char *name, *category;
        int64_t at, dur;
    } rows[] = {
        { "gemm", "kernel", 1000, 100 },           { "frame", "python_function", 0, 9000 },
        { "aten::mm", "cpu_op", 0, 9000 },         { "job_submit", "mtia_runtime", 0, 9000 },
        { "cuLaunch", "cuda_driver", 0, 9000 },    { "step", "gpu_user_annotation", 0, 9000 },
        { "range", "cuda_profiler_range", 0, 10 }, { "dma_request", "mtia_ccp_events", 1200, 300 },
        { "fill", "gpu_memset", 1600, 50 },        { "MemcpyD2D", "", 1700, 20 },
        { "all-reduce.1", "", 1800, 200 },         { "fusion", "", 1900, 100 },
    };
    test_profile *p = test_profile_new();
    mrd_track t;
    mrd_track_id id;
    json_t *r;
    char *text;

    p->n = 0;
    mrd_track_init(&t, p->proc[0], MRD_SRC_FRAMEWORK);
    t.device_idx = 2;
    id = mrd_catalog_track(p->cat, &t);
    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        profile_add(p, MRD_SPAN, id, rows[i].name, rows[i].at, rows[i].dur)->category =
            mrd_catalog_intern(p->cat, rows[i].category);
    r = report(p);
    CHECK(json_array_size(json_object_get(r, "workers")) == 1);
    CHECK(number(worker(r, 0), "window_ns") == 1000);
    CHECK(part(r, 0, "compute") == 100);
    CHECK(part(r, 0, "copy") == 300 + 50 + 20);
    CHECK(part(r, 0, "exposed") == 100);
    CHECK(part(r, 0, "both") == 100);
    CHECK(part(r, 0, "idle") == 1000 - 670);
    CHECK(json_is_null(json_object_get(json_object_get(worker(r, 0), "parts_ns"), "host")));
    CHECK(json_is_null(json_object_get(json_object_get(worker(r, 0), "parts_ns"), "waiting")));
    text = report_text(p);
    CHECK(strstr(text, "       -       - ") != NULL);
    free(text);
    json_decref(r);
    test_profile_free(p);
}

/* If kernels that may communicate, by their names, take more than 5 % of the devices' time, the
 * report names them. */
TEST(unclear_kernels_are_named)
{
    static const struct {
        const char *name;
        int64_t dur;
        bool named;
    } rows[] = { { "my_gather", 50, false },
                 { "my_gather", 51, true },
                 { "MatmulAllReduce", 51, true },
                 { "at::native::reduce_kernel", 51, false },
                 { "my_attention", 51, false } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        test_profile *p = test_profile_new();
        mrd_track t;
        mrd_track_id id;
        char *text;

        p->n = 0;
        mrd_track_init(&t, p->proc[0], MRD_SRC_FRAMEWORK);
        t.device_idx = 2;
        id = mrd_catalog_track(p->cat, &t);
        profile_add(p, MRD_SPAN, id, "gemm", 0, 1000 - rows[i].dur);
        profile_add(p, MRD_SPAN, id, rows[i].name, 1000, rows[i].dur);
        text = report_text(p);
        CHECK_ROW(rows[i].name,
                  (strstr(text, "5.1 % of the devices' time") != NULL) == rows[i].named);
        free(text);
        test_profile_free(p);
    }
}

/* If the times of two workers are days apart, their clocks are probably not comparable, and the
 * report states this. */
TEST(workers_days_apart_are_said)
{
    test_profile *p = test_profile_new();
    char *text;

    p->n = 0;
    profile_add(p, MRD_SPAN, p->device[0], "nc_exec_running", 0, 1000);
    profile_add(p, MRD_SPAN, p->device[1], "nc_exec_running", 986LL * 86400 * MRD_SEC, 1000);
    text = report_text(p);
    CHECK(strstr(text, "986 days") == NULL && strstr(text, "985 days") != NULL);
    free(text);
    test_profile_free(p);
}

/* Long durations, such as the time between two runs, are printed in seconds, hours or days. */
TEST(long_times_have_their_unit)
{
    static const struct {
        int64_t s;
        const char *text;
    } rows[] = { { 59, "59.000 s" },     { 3599, "3599.0 s" },    { 3600, "1.0 hours" },
                 { 26999, "7.4 hours" }, { 86400, "24.0 hours" }, { 259199, "71.9 hours" },
                 { 259200, "3 days" },   { 345599, "3 days" } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char text[MRD_DUR_TEXT];

        CHECK_TEXT(mrd_text_long((uint64_t) rows[i].s * MRD_SEC, text), rows[i].text);
    }
    CHECK_TEXT(mrd_plural(1), "");
    CHECK_TEXT(mrd_plural(0), "s");
}

TEST(steps_are_known_by_name)
{
    static const char *const yes[] = { "step",       "step 3",       "step_17",
                                       "train_step", "train_step 4", "ProfilerStep#12" };
    static const char *const no[] = { "stepper", "one step", "step by step", "steps" };
    test_profile *p = test_profile_new();
    json_t *r;

    p->n = 0;
    for (size_t i = 0; i < MRD_COUNT(yes); i++)
        profile_add(p, MRD_SPAN, p->framework, yes[i], (int64_t) i * 100, 90 - (int64_t) i);
    for (size_t i = 0; i < MRD_COUNT(no); i++)
        profile_add(p, MRD_SPAN, p->framework, no[i], 1000 + (int64_t) i * 100, 95);
    r = report(p);
    CHECK(number(json_array_get(json_object_get(r, "steps"), 0), "count") == MRD_COUNT(yes));
    CHECK(number(json_array_get(json_object_get(r, "slowest_steps"), 0), "duration_ns") == 90);
    CHECK(json_array_size(json_object_get(r, "slowest_steps")) == MRD_COUNT(yes));
    json_decref(r);
    test_profile_free(p);
}

/* The reason for a device's idle time follows from the begin of the launch, which an arrow connects
 * to the device's next work. Gaps are random, and events have several arrows in both directions.
 * The expected values come from a list of the starts of all arrows. */
TEST(idle_causes_follow_the_arrows)
{
    static const char *const keys[MRD_IDLE_CAUSES] = { "loading", "launch", "short", "queued",
                                                       "unknown" };
    uint64_t seed = 20261123, seen[MRD_IDLE_CAUSES] = { 0 };

    for (int round = 0; round < 60; round++) {
        enum { GAPS = 20 };
        test_profile *p = test_profile_new();
        int64_t at = 1000, want[MRD_IDLE_CAUSES] = { 0 }, began[2 * GAPS];
        mrd_flow to[GAPS][3], from[GAPS][3];
        json_t *r;

        p->n = 0;
        memset(began, 0xff, sizeof(began)); /* -1: no such start */
        profile_add(p, MRD_SPAN, p->device[0], "nc_exec_running", 0, at);
        for (int i = 0; i < GAPS; i++) {
            int64_t gap = MRD_REPORT_SHORT - 2 + (int64_t) (test_rand(&seed) % 5);
            int64_t launch = at + (int64_t) (test_rand(&seed) % 5) - 2;
            mrd_idle_cause cause = MRD_IDLE_UNKNOWN;
            mrd_event *ev = profile_add(p, MRD_SPAN, p->framework, "launch", launch, 1);

            ev->flows = from[i];
            ev->flow_count = (uint8_t) (test_rand(&seed) % 4);
            for (unsigned k = 0; k < ev->flow_count; k++) {
                uint64_t id = (uint64_t) (2 * i) + test_rand(&seed) % 2;
                bool starts = test_rand(&seed) % 4 > 0;

                from[i][k] =
                    (mrd_flow){ .id = 1 + id, .dir = starts ? MRD_FLOW_START : MRD_FLOW_END };
                began[id] = starts ? launch : began[id];
            }
            ev = profile_add(p, MRD_SPAN, p->device[0], "nc_exec_running", at + gap, 100);
            ev->flows = to[i];
            ev->flow_count = (uint8_t) (test_rand(&seed) % 4);
            for (unsigned k = 0; k < ev->flow_count; k++) {
                uint64_t id = (uint64_t) (2 * i) + test_rand(&seed) % 2;
                bool leads = test_rand(&seed) % 4 > 0;

                to[i][k] = (mrd_flow){ .id = leads ? 1 + id : 1000 + id,
                                       .dir = leads ? MRD_FLOW_END : MRD_FLOW_START };
            }
            for (unsigned k = ev->flow_count; k-- > 0;) {
                int64_t start = to[i][k].id <= 2 * GAPS ? began[to[i][k].id - 1] : -1;

                /* The first arrow that ends at this work decides. Arrows that start at it do not
                 * count. */
                if (start >= 0)
                    cause = start > at                ? MRD_IDLE_LAUNCH
                            : gap <= MRD_REPORT_SHORT ? MRD_IDLE_SHORT
                                                      : MRD_IDLE_QUEUED;
            }
            want[cause] += gap;
            seen[cause]++;
            at += gap + 100;
        }
        r = report(p);
        for (int k = 0; k < MRD_IDLE_CAUSES; k++)
            CHECK_INT(number(json_object_get(worker(r, 0), "idle_ns"), keys[k]), want[k]);
        json_decref(r);
        test_profile_free(p);
    }
    for (int k = MRD_IDLE_LAUNCH; k < MRD_IDLE_CAUSES; k++)
        CHECK_ROW(keys[k], seen[k] > 20);
}

/* Counts the columns to the end of the line, one per character. */
static size_t
columns(const char *line)
{
    size_t n = 0;

    for (; *line != '\0' && *line != '\n'; line++)
        n += ((unsigned char) *line & 0xc0) != 0x80;
    return n;
}

/* Counts the rows of a table that end in the same column as its head. */
static size_t
rows_of(const char *text, const char *head)
{
    const char *line = strstr(text, head);
    size_t width, n = 0;

    CHECK_ROW(head, line != NULL);
    if (line == NULL)
        return 0;
    width = columns(line);
    while ((line = strchr(line, '\n')) != NULL &&
           columns(++line) == width) /* then words, or nothing */
        n++;
    return n;
}

/* Labels have any length and multi-byte characters. The numbers of each row must still be below the
 * table's head. A label that is too long is on a separate line. */
TEST(rows_are_below_their_heads)
{
    for (size_t len = 0; len < 40; len++) {
        test_profile *p = test_profile_new();
        mrd_clock_info clock = { .quality = mrd_catalog_intern(p->cat, "good"), .bound_ns = 400 };
        char name[200] = "", label[260], *text;
        mrd_process proc;
        mrd_track t;
        mrd_flow launch = { .id = 7, .dir = MRD_FLOW_START };
        mrd_flow work = { .id = 7, .dir = MRD_FLOW_END };
        mrd_event *ev;
        size_t n_clocks;
        bool wide;

        for (size_t i = 0; i < len; i++)
            strcat(name, i % 3 == 2 ? "\xc3\xa9" : "x");
        mrd_process_init(&proc);
        proc.instance_id = mrd_catalog_intern(p->cat, "i-1");
        proc.name = mrd_catalog_intern(p->cat, name);
        proc.flags = MRD_PROC_NO_PID;
        clock.name = proc.name;
        mrd_catalog_add_clock(p->cat, &clock);
        clock.name = mrd_catalog_intern(p->cat, "short");
        mrd_catalog_add_clock(p->cat, &clock);
        mrd_track_init(&t, mrd_catalog_process(p->cat, &proc), MRD_SRC_DEVICE);
        t.lnc_idx = 3;
        p->n = 0;
        profile_add(p, MRD_SPAN, mrd_catalog_track(p->cat, &t), "nc_exec_running", 0, 1000);
        ev = profile_add(p, MRD_SPAN, p->framework, "launch", 3000, 10);
        ev->flows = &launch;
        ev->flow_count = 1;
        ev = profile_add(p, MRD_SPAN, mrd_catalog_track(p->cat, &t), "nc_exec_running", 5000, 1000);
        ev->flows = &work;
        ev->flow_count = 1;
        text = report_text(p);
        snprintf(label, sizeof(label), "\n  NC 3 %s", name);
        wide = 5 + len > 32; /* the column of labels */
        CHECK_ROW(name, strstr(text, label) != NULL);
        CHECK_INT(rows_of(text, "Where the time goes"), wide ? 0 : 2); /* and "all" */
        CHECK_INT(rows_of(text, "Why devices were idle"), wide ? 0 : 1);
        (void) mrd_catalog_clocks(p->cat, &n_clocks);
        CHECK_INT(rows_of(text, "Clocks  "), n_clocks - 1); /* the first is none */
        free(text);
        test_profile_free(p);
    }
}

/* A loss or pause after the end of a step is not part of the step, even if no span lies between
 * them. */
TEST(a_loss_behind_a_step_is_not_in_it)
{
    test_profile *p = test_profile_new();
    json_t *r, *path;
    mrd_event *ev;

    p->n = 0;
    profile_add(p, MRD_SPAN, p->framework, "step", 0, 1000);
    profile_add(p, MRD_SPAN, p->device[0], "nc_exec_running", 0, 500);
    ev = profile_add(p, MRD_LOSS, p->thread[0], "paused", 1500, 100);
    ev->ivalue = 0;
    profile_add(p, MRD_SPAN, p->device[0], "nc_exec_running", 2000, 500);
    r = report(p);
    path = json_object_get(r, "critical_path");
    CHECK_INT(number(path, "total_ns"), 1000);
    CHECK_INT(number(json_object_get(path, "parts_ns"), "compute"), 500);
    CHECK_INT(number(json_object_get(path, "parts_ns"), "idle"), 500);
    json_decref(r);
    test_profile_free(p);
}

/* The critical path has the same length as its steps, for random losses, pauses, nested and
 * unfinished spans. This also applies to the blocks of steps that show the change over time. */
TEST(drawn_steps_have_paths_as_long_as_they_are)
{
    const char *from = getenv("MRD_SEED");
    uint64_t seed = 0x9e3779b97f4a7c15u * (from == NULL ? 1 : strtoull(from, NULL, 10));

    for (int round = 0; round < 400; round++) {
        test_profile *p = test_profile_new();
        int64_t at = 0, sum = 0, total = 0;
        const json_t *block;
        json_t *r, *path;
        size_t i;

        p->n = 0;
        while (p->n < 50) {
            int who = (int) (test_rand(&seed) % 2);
            int64_t dur = (int64_t) (test_rand(&seed) % 300);
            mrd_event *ev;

            at += (int64_t) (test_rand(&seed) % 120);
            switch (test_rand(&seed) % 7) {
            case 0:
                profile_add(p, MRD_SPAN, p->framework, "step", at, 4 * dur);
                break;
            case 1:
                ev = profile_add(p, MRD_LOSS, p->thread[who],
                                 test_rand(&seed) % 2 == 0 ? "paused" : "runtime-ring", at, dur);
                ev->ivalue = 2;
                break;
            case 2:
                cc_running(p, who, 1, at, dur, 5);
                break;
            case 3:
                profile_add(p, MRD_SPAN, p->thread[who], "nrt_execute", at, dur);
                break;
            case 4:
                profile_add(p, MRD_SPAN, p->framework, "DataLoader", at, dur);
                break;
            case 5:
                profile_add(p, MRD_SPAN, p->device[who], "cc_exec_barrier", at, dur);
                break;
            default:
                profile_add(p, MRD_SPAN, p->device[who], "nc_exec_running", at,
                            dur % 9 == 0 ? -1 : dur);
                break;
            }
        }
        r = report(p);
        path = json_object_get(r, "critical_path");
        if (json_is_object(path)) {
            for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
                sum += number(json_object_get(path, "parts_ns"),
                              mrd_report_part_text((mrd_report_part) k));
            CHECK_INT(sum, number(path, "total_ns"));
        }
        json_array_foreach(json_object_get(json_object_get(r, "steps_over_time"), "blocks"), i,
                           block)
        {
            int64_t on_path = 0;

            for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
                on_path += number(json_object_get(block, "path_ns"),
                                  mrd_report_part_text((mrd_report_part) k));
            CHECK_INT(on_path, json_is_object(path) ? number(block, "total_ns") : 0);
            total += number(block, "total_ns");
        }
        /* without steps, the critical path is the path of the whole recording */
        CHECK(sum == 0 || total == 0 || sum == total);
        json_decref(r);
        forget(p);
        test_profile_free(p);
    }
}

TEST(kernels_of_one_beginning_are_told_apart)
{
    static const char *const names[] = {
        "Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI32x32x8_ISA942_K1_SB0_and_more_of_the_same_WG32",
        "Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI32x32x8_ISA942_K2_SB0_and_more_of_the_same_WG32",
        "Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI32x32x8_K\xc3\xa4",
        "void at::native::batch_norm_backward<float, 2>(int)",
    };
    static const char *const expected[] = {
        "  Cijk_Ailk_Bl...42_K1_SB0_and_more...",
        "  Cijk_Ailk_Bl...42_K2_SB0_and_more...",
        "  Cijk_Ailk_Bl...6x128x64_MI32x32x8_K\xc3\xa4",
        "  void at::native::batch_norm_backw...",
    };
    test_profile *p = test_profile_new();
    char *text;

    p->n = 0;
    for (size_t i = 0; i < MRD_COUNT(names); i++)
        profile_add(p, MRD_SPAN, p->device[0], names[i], (int64_t) i * 1000, 500);
    text = report_text(p);
    for (size_t i = 0; i < MRD_COUNT(names); i++)
        CHECK(strstr(text, expected[i]) != NULL);
    free(text);
    test_profile_free(p);
}

TEST(a_path_without_steps_is_one_through_the_recording)
{
    test_profile *p = test_profile_new();
    char *text;

    p->n = 0;
    for (int i = 0; i < 2; i++)
        profile_add(p, MRD_SPAN, p->device[i], "kernel", i * 10, 500);
    text = report_text(p);
    CHECK(strstr(text, "\nCritical path through the recording\n") != NULL);
    free(text);
    test_profile_free(p);
}

/* A count of zero is not printed. */
TEST(a_collective_of_one_worker_is_not_left_out)
{
    test_profile *p = test_profile_new();
    char *text;

    p->n = 0;
    cc_running(p, 0, 1, 1000, 500, 5);
    text = report_text(p);
    CHECK(strstr(text, "1 span of collectives could") != NULL);
    CHECK(strstr(text, " left out") == NULL);
    free(text);
    forget(p);
    test_profile_free(p);
}

TEST(the_text_says_the_same)
{
    test_profile *p = test_profile_new();
    char *text;

    p->n = 0;
    text = report_text(p); /* nothing at all */
    CHECK(strstr(text, "no work of any core or device") != NULL);
    free(text);
    for (int64_t i = 0; i < 12; i++) {
        cc_running(p, 0, i, i * 100000, 50000, 5);
        cc_running(p, 1, i, i * 100000 + 30000, 20000, 5);
    }
    profile_add(p, MRD_SPAN, p->framework, "step", 0, 300000);
    text = report_text(p);
    CHECK(strstr(text, "rank 1 NC 3 i-0aaaaaaaaaaaaaaa1 pid 4711 came last to 12 of its 12") !=
          NULL);
    /* A row has the complete node and pid, on a separate line if they are long. */
    CHECK(strstr(text, "\n  rank 1 NC 3 i-0aaaaaaaaaaaaaaa1 pid 4711\n") != NULL);
    CHECK(strstr(text, "\nSteps ") != NULL && strstr(text, "(worth a look)") != NULL);
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');

        CHECK(end != NULL && end - line <= 110);
        line = end == NULL ? NULL : end + 1;
    }
    free(text);
    forget(p);
    test_profile_free(p);
}

TEST_MAIN()
