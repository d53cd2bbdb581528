/* Tests which ranks a report may call late, and when the lateness is proven. A lateness is proven
 * if it exceeds the possible errors of the clocks. */
#include "tests/trace/report_read.h"

/* Returns the report on twelve collectives, in which rank 1 begins `late` ns after rank 0. The
 * times of both nodes have the error bound `bound`. */
static json_t *
late_run(int64_t late, uint32_t bound)
{
    test_profile *p = test_profile_new();
    json_t *r;

    p->n = 0;
    for (int64_t i = 0; i < 12; i++) {
        cc_running(p, 0, i, i * 1000000, 500000, bound);
        cc_running(p, 1, i, i * 1000000 + late, 500000 - late, bound);
    }
    r = report(p);
    forget(p);
    test_profile_free(p);
    return r;
}

TEST(late_needs_more_than_the_bounds)
{
    json_t *r = late_run(150000, 400);

    CHECK(strcmp(verdict(r), "late") == 0);
    CHECK(number(json_object_get(r, "verdict"), "worker") == 1);
    CHECK(collective(r, 1, "last") == 12 && collective(r, 1, "proven") == 12);
    CHECK(collective(r, 1, "alone_ns") == 1800000 && collective(r, 1, "caused_ns") == 1800000);
    CHECK(collective(r, 0, "wait_ns") == 1800000 && collective(r, 0, "last") == 0);
    json_decref(r);

    r = late_run(150000, 9950); /* not more than 2 x 65,000 + 2 x 9,950 and the noise */
    CHECK(strcmp(verdict(r), "indistinguishable") == 0);
    CHECK(collective(r, 1, "last") == 12 && collective(r, 1, "proven") == 0);
    json_decref(r);

    r = late_run(150000, 9949);
    CHECK(strcmp(verdict(r), "late") == 0);
    json_decref(r);

    r = late_run(150000, MRD_BOUND_UNKNOWN);
    CHECK(strcmp(verdict(r), "indistinguishable") == 0);
    CHECK(number(json_object_get(r, "totals"), "without_bound") == 12);
    json_decref(r);

    r = late_run(150000, MRD_BOUND_LOCAL); /* two clocks that were never compared */
    CHECK(strcmp(verdict(r), "indistinguishable") == 0);
    json_decref(r);

    r = late_run(130102, 1); /* 2 x 65,000 + 2 x 1 + 100, the resolution of device times */
    CHECK(collective(r, 1, "proven") == 0);
    json_decref(r);

    r = late_run(130103, 1);
    CHECK(collective(r, 1, "proven") == 12);
    json_decref(r);
}

/* If the bound of an event already includes the error of the device clock, this error is not added
 * again, whether both ranks are on one node or on two. */
TEST(a_bound_of_a_device_time_counts_once)
{
    static const struct {
        const char *name;
        bool is_across;
        uint32_t bound_ns;
        int64_t late_ns, proven, left_open;
    } rows[] = {
        { "one node, beyond both bounds", false, 700, 1501, 1, 0 },
        { "one node, not beyond", false, 700, 1500, 0, 1 },
        { "one node, bounds above the assumption", false, 400000, 200000, 0, 1 },
        { "one node, unknown", false, MRD_BOUND_UNKNOWN, 200000, 0, 1 },
        { "two nodes, beyond both bounds", true, 700, 1501, 1, 0 },
        { "two nodes, not beyond", true, 700, 1500, 0, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        test_profile *p = test_profile_new();
        mrd_track other = *mrd_catalog_borrow_track(p->cat, p->device[0]);
        json_t *r;

        other.lnc_idx = 7;
        if (!rows[i].is_across)
            p->device[1] = mrd_catalog_track(p->cat, &other);
        p->n = 0;
        for (int who = 0; who < 2; who++) {
            cc_running(p, who, 0, who * rows[i].late_ns, 3000000 - who * rows[i].late_ns,
                       rows[i].bound_ns);
            p->v[who].flags = MRD_EV_DEVICE_BOUND;
        }
        r = report(p);
        CHECK_ROW(rows[i].name, total(r, "proven") == rows[i].proven);
        CHECK_ROW(rows[i].name, total(r, "device_clock") == rows[i].left_open);
        json_decref(r);
        forget(p);
        test_profile_free(p);
    }
}

/* Two cores of one node begin a collective at different times. A difference that may come from
 * converting device times to host times proves nothing. The largest such errors are from
 * docs/reference/timesync.md, section 9: 65 us for executions of 1 s, 210 us for 10 s. */
TEST(the_mapping_of_device_clocks_proves_nothing)
{
    static const struct {
        const char *name;
        int64_t exec_ns, late_ns, proven, left_open;
    } rows[] = {
        { "1 s, both mapped as badly as was seen", MRD_SEC, 2 * 65000, 0, 4 },
        { "10 s, the same", 10 * MRD_SEC, 2 * 210000, 0, 4 },
        { "1 s, later than that", MRD_SEC, 140000, 4, 0 },
        { "10 s, later than ten times that", 10 * MRD_SEC, 1400000, 4, 0 },
        { "a little over a second", MRD_SEC + 1, 140000, 0, 4 },
        { "what stamps alone cannot tell", MRD_SEC, 90, 0, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        test_profile *p = test_profile_new();
        mrd_track other = *mrd_catalog_borrow_track(p->cat, p->device[0]);
        json_t *r;

        other.lnc_idx = 7;
        p->device[1] = mrd_catalog_track(p->cat, &other);
        p->n = 0;
        for (int64_t k = 0; k < 4; k++) {
            int64_t at = k * 20 * MRD_SEC;

            for (int who = 0; who < 2; who++)
                profile_add(p, MRD_SPAN, p->device[who], "nc_exec_running", at, rows[i].exec_ns);
            cc_running(p, 0, k, at + 1000, 5000000, 0);
            cc_running(p, 1, k, at + 1000 + rows[i].late_ns, 3000000, 0);
        }
        r = report(p);
        CHECK_INT(total(r, "collectives"), 4);
        CHECK_ROW(rows[i].name, total(r, "proven") == rows[i].proven);
        CHECK_ROW(rows[i].name, total(r, "device_clock") == rows[i].left_open);
        json_decref(r);
        forget(p);
        test_profile_free(p);
    }
}

/* Some profilers convert device times to host times and state no error bound. A proof that depends
 * on such times states this assumption. */
TEST(proofs_by_traced_devices_state_what_they_assume)
{
    for (int late = 0; late < 2; late++) {
        test_profile *p = test_profile_new();
        mrd_track t = *mrd_catalog_borrow_track(p->cat, p->device[0]);
        char *text;

        t.source = MRD_SRC_FRAMEWORK;
        t.lnc_idx = t.pcore_idx = MRD_NONE;
        p->n = 0;
        for (int who = 0; who < 2; who++) {
            t.device_idx = who;
            p->device[who] = mrd_catalog_track(p->cat, &t);
        }
        for (int64_t k = 0; k < 4; k++) {
            for (int who = 0; who < 2; who++)
                profile_add(
                    p, MRD_SPAN, p->device[who], "ncclDevKernel_AllReduce_Sum_f32_RING_LL()",
                    k * MRD_MS + late * who * 50 * MRD_US, (200 - late * who * 50) * MRD_US);
        }
        text = report_text(p);
        CHECK((strstr(text, "tracer of each file") != NULL) == (late == 1));
        CHECK(strstr(text, "the runtime maps a core's clock") == NULL);
        free(text);
        test_profile_free(p);
    }
}

/* Times of a clock prove nothing if the clock's quality is "suspect" or if a check contradicted the
 * clock. */
TEST(a_doubtful_clock_proves_nothing)
{
    static const struct {
        const char *name, *quality;
        uint64_t violations;
        int64_t proven, suspect;
    } rows[] = {
        { "good", "good", 0, 4, 0 },
        { "gap", "gap", 0, 4, 0 },
        { "suspect", "suspect", 0, 0, 4 },
        { "contradicted", "aligned", 1, 0, 4 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        test_profile *p = test_profile_new();
        mrd_proc_id late = mrd_catalog_borrow_track(p->cat, p->device[1])->process;
        mrd_clock_info c = { .name = mrd_catalog_intern(p->cat, "clock"),
                             .quality = mrd_catalog_intern(p->cat, rows[i].quality),
                             .bound_ns = 400,
                             .violations = rows[i].violations };
        json_t *r;

        mrd_catalog_borrow_process(p->cat, late)->clock = mrd_catalog_add_clock(p->cat, &c);
        p->n = 0;
        for (int64_t k = 0; k < 4; k++) {
            cc_running(p, 0, k, k * 1000000, 500000, 400);
            cc_running(p, 1, k, k * 1000000 + 200000, 300000, 400);
        }
        r = report(p);
        CHECK_INT(total(r, "collectives"), 4);
        CHECK_ROW(rows[i].name, total(r, "proven") == rows[i].proven);
        CHECK_ROW(rows[i].name, total(r, "suspect_clock") == rows[i].suspect);
        CHECK_ROW(rows[i].name, collective(r, 1, "proven") == rows[i].proven);
        json_decref(r);
        forget(p);
        test_profile_free(p);
    }
}

/* If a rank of the group is missing in the recording of a collective, the others may have waited
 * for that rank. The report knows of the rank only after it took part in a later collective, here
 * in the last one. The earlier collectives then prove nothing. */
TEST(a_part_that_is_missing_ends_the_proof)
{
    test_profile *p = test_profile_new();
    mrd_track third = *mrd_catalog_borrow_track(p->cat, p->device[1]);
    mrd_track_id id;
    json_t *r;

    third.lnc_idx = 7;
    id = mrd_catalog_track(p->cat, &third);
    p->n = 0;
    for (int64_t k = 0; k < 4; k++) {
        cc_running(p, 0, k, k * 1000000, 500000, 5);
        cc_running(p, 1, k, k * 1000000 + 200000, 300000, 5);
        if (k == 3)
            cc_running(p, 1, k, k * 1000000 + 400000, 100000, 5)->track = id;
    }
    r = report(p);
    CHECK_INT(total(r, "collectives"), 4);
    CHECK_INT(total(r, "partial"), 3);
    CHECK_INT(total(r, "proven"), 1);
    json_decref(r);
    forget(p);
    test_profile_free(p);
}

/* Two groups have the same number of ranks. An event that cancels the proofs of one group does not
 * affect the other group. */
TEST(a_proof_is_of_one_group)
{
    test_profile *p = test_profile_new();
    mrd_track_id third;
    mrd_track t;
    json_t *r;

    p->n = 0;
    mrd_track_init(&t, p->proc[0], MRD_SRC_FRAMEWORK);
    t.device_idx = 2;
    third = mrd_catalog_track(p->cat, &t);
    for (int64_t i = 0; i < 8; i++) {
        mrd_event *ev[2] = { cc_running(p, 0, i, i * 1000000, 400000, 400),
                             cc_running(p, 1, i, i * 1000000 + 150000, 250000, 400) };

        for (int k = 0; k < 2 && i % 2 == 1; k++)
            ((mrd_arg *) (uintptr_t) ev[k]->args)[0].v.i = 2;
    }
    r = report(p);
    CHECK(collective(r, 1, "proven") == 8);
    json_decref(r);
    cc_running(p, 0, 77, 9000000, 10, 400)->track = third;
    ((mrd_arg *) (uintptr_t) p->v[p->n - 1].args)[0].v.i = 2; /* the second group has three */
    r = report(p);
    CHECK(collective(r, 2, "last") == 8 && collective(r, 2, "proven") == 4);
    CHECK(total(r, "partial") == 4);
    json_decref(r);
    forget(p);
    test_profile_free(p);
}

/* Returns the verdict on rank 1 as JSON. Of n collectives, 1 ms apart and 100 us long, it is late
 * by late_ns in every `step`-th one from `first` on. */
static json_t *
late_now_and_then(int64_t n, int64_t first, int64_t step, int64_t late_ns)
{
    test_profile *p = test_profile_new();
    json_t *r;

    p->n = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t late = i >= first && (i - first) % step == 0 ? late_ns : 0;

        cc_running(p, 0, i, i * MRD_MS, 100000 + late, 10);
        cc_running(p, 1, i, i * MRD_MS + late, 100000, 10);
    }
    r = report(p);
    forget(p);
    test_profile_free(p);
    return r;
}

TEST(a_verdict_needs_steady_lateness)
{
    static const struct {
        const char *name;
        int64_t n, first, step, late_ns, last;
        const char *kind;
    } rows[] = {
        { "always", 20, 0, 1, 200000, 20, "late" },
        { "too seldom to matter", 20, 10, 100, 200000, 1, "none" },
        { "once", 20, 10, 100, 800000, 1, "sometimes" },
        { "too few to tell from chance", 4, 0, 1, 200000, 4, "sometimes" },
        { "every fifth", 60, 2, 5, 400000, 12, "late" },
        { "from the middle on", 40, 20, 1, 400000, 20, "late" },
        { "never: a tie", 20, 0, 1, 100, 0, "none" },
        { "one nanosecond more than a tie", 20, 0, 1, 101, 20, "none" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        json_t *r = late_now_and_then(rows[i].n, rows[i].first, rows[i].step, rows[i].late_ns);

        if (strcmp(verdict(r), rows[i].kind) != 0)
            CHECK_TEXT(verdict(r), rows[i].kind);
        CHECK_ROW(rows[i].name, collective(r, 1, "last") == rows[i].last);
        CHECK_ROW(rows[i].name, collective(r, 0, "last") == 0);
        CHECK_ROW(rows[i].name, total(r, "ties") == rows[i].n - rows[i].last);
        CHECK_ROW(rows[i].name, strcmp(rows[i].kind, "none") == 0 ||
                                    number(json_object_get(r, "verdict"), "worker") == 1);
        json_decref(r);
    }
}

/* Two ranks are late at different times. One caused most of the waiting, but the other more than
 * half as much, so the verdict names neither. */
TEST(two_that_are_late_are_not_one)
{
    test_profile *p = test_profile_new();
    json_t *r;

    p->n = 0;
    for (int64_t i = 0; i < 60; i++) {
        int late = i % 4 == 0 ? 0 : 1;

        cc_running(p, 1 - late, i, i * MRD_MS, 700000, 10);
        cc_running(p, late, i, i * MRD_MS + 300000 + 330000 * (1 - late), 100000, 10);
    }
    r = report(p);
    CHECK(strcmp(verdict(r), "none") == 0);
    json_decref(r);
    forget(p);
    test_profile_free(p);
}

/* Three cores take part in twelve collectives, 1 ms apart. The rows differ in the last collective.
 * The report names the third core if it did not take part while the others waited. */
TEST(a_worker_that_did_not_come_is_named)
{
    static const struct {
        const char *name;
        int64_t last_ns;   /* time of the cores in the last collective, in ns */
        bool third, other; /* the third core takes part; it is in another operation */
        const char *kind;
    } rows[] = {
        { "the third one hangs", 50 * MRD_MS, false, false, "absent" },
        { "the third one is in another operation", 50 * MRD_MS, false, true, "absent" },
        { "all came, it took long", 50 * MRD_MS, true, false, "none" },
        { "only its recording ended earlier", 100 * MRD_US, false, false, "none" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        test_profile *p = test_profile_new();
        mrd_track t = *mrd_catalog_borrow_track(p->cat, p->device[1]);
        mrd_track_id third;
        json_t *r;

        t.lnc_idx = 7;
        third = mrd_catalog_track(p->cat, &t);
        p->n = 0;
        for (int64_t k = 0; k < 12; k++) {
            int64_t ns = k < 11 ? 100 * MRD_US : rows[i].last_ns;

            cc_running(p, 0, k, k * MRD_MS, ns, 5);
            cc_running(p, 1, k, k * MRD_MS, ns, 5);
            if (k < 11 || rows[i].third)
                cc_running(p, 1, k, k * MRD_MS, ns, 5)->track = third;
            else if (rows[i].other)
                cc_running(p, 1, 99, k * MRD_MS + 1000, ns, 5)->track = third;
        }
        r = report(p);
        if (strcmp(verdict(r), rows[i].kind) != 0)
            CHECK_TEXT(verdict(r), rows[i].kind);
        CHECK_ROW(rows[i].name, strcmp(rows[i].kind, "none") == 0 ||
                                    number(json_object_get(r, "verdict"), "worker") == 2);
        json_decref(r);
        forget(p);
        test_profile_free(p);
    }
}

/* The last collective of three cores does not end. A span of core `seen` shows that the recording
 * continued for 20 ms. The report names the core that did not take part. */
TEST(who_did_not_come_to_an_open_collective_is_named)
{
    enum { NOBODY = 9 };
    static const struct {
        const char *name;
        int absent, seen;
        bool ended;    /* a part has an end, so the collective took place */
        bool in_other; /* the absent core is in another operation */
        const char *kind;
    } rows[] = {
        { "the third one did not come", 2, 0, false, false, "absent" },
        { "it is seen itself", 2, 2, false, false, "absent" },
        { "all came", NOBODY, 0, false, false, "none" },
        { "the recording ends with them", 2, NOBODY, false, false, "none" },
        { "one of the others has ended", 2, 0, true, false, "none" },
        { "it is in another operation, which did not end, either", 2, 0, false, true, "absent" },
        { "so it is, and the recording ends with them", 2, NOBODY, false, true, "absent" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        test_profile *p = test_profile_new();
        mrd_track t = *mrd_catalog_borrow_track(p->cat, p->device[1]);
        mrd_track_id tracks[3] = { p->device[0], p->device[1] };
        json_t *r;

        t.lnc_idx = 7;
        tracks[2] = mrd_catalog_track(p->cat, &t);
        p->n = 0;
        for (int64_t k = 0; k < 30; k++)
            for (int core = 0; core < 3; core++) {
                mrd_event *ev;

                if (k == 29 && core == rows[i].absent && !rows[i].in_other)
                    continue;
                ev = cc_running(p, 1, k == 29 && core == rows[i].absent ? 1000 : k, k * MRD_MS,
                                100 * MRD_US, 5);
                ev->track = tracks[core];
                if (k == 29 && !(core == 0 && rows[i].ended))
                    ev->dur_ns = -1;
            }
        if (rows[i].seen != NOBODY)
            profile_add(p, MRD_SPAN, tracks[rows[i].seen], "nc_exec_running", 48 * MRD_MS, MRD_MS);
        r = report(p);
        if (strcmp(verdict(r), rows[i].kind) != 0)
            CHECK_TEXT(verdict(r), rows[i].kind);
        CHECK_ROW(rows[i].name, strcmp(rows[i].kind, "none") == 0 ||
                                    number(json_object_get(r, "verdict"), "worker") == 2);
        json_decref(r);
        forget(p);
        test_profile_free(p);
    }
}

TEST(lateness_in_turns_is_nobodys_fault)
{
    test_profile *p = test_profile_new();
    json_t *r;

    p->n = 0;
    for (int64_t i = 0; i < 8; i++) {
        cc_running(p, (int) (i % 2), i, i * 100000, 50000, 10);
        cc_running(p, (int) (1 - i % 2), i, i * 100000 + 20000, 30000, 10);
    }
    r = report(p);
    CHECK(strcmp(verdict(r), "none") == 0);
    json_decref(r);
    forget(p);
    test_profile_free(p);
}

/* Adds four steps. In each step rank 1 has a host span of 4 ms, while its device is idle, so this
 * span explains its lateness. Rank 0 has a host span of this name, too, while its device computes.
 * The span "whole run" covers all idle time, but explains it less exactly. */
static void
add_host_spans(test_profile *p, const char *name, mrd_track_id of_1)
{
    mrd_track t = *mrd_catalog_borrow_track(p->cat, p->framework);

    t.process = p->proc[1];
    t.thread_id = 6001;
    of_1 = of_1 == 0 ? mrd_catalog_track(p->cat, &t) : of_1;
    p->n = 0;
    profile_add(p, MRD_SPAN, p->framework, "whole run", 0, 40 * MRD_MS);
    profile_add(p, MRD_SPAN, of_1, "whole run", 0, 40 * MRD_MS);
    for (int64_t k = 0; k < 4; k++) {
        int64_t at = k * 10 * MRD_MS;

        profile_add(p, MRD_SPAN, p->device[0], "nc_exec_running", at, 2 * MRD_MS);
        profile_add(p, MRD_SPAN, p->device[1], "nc_exec_running", at, 2 * MRD_MS);
        profile_add(p, MRD_SPAN, p->framework, name, at, 2 * MRD_MS);
        profile_add(p, MRD_SPAN, of_1, name, at + 2 * MRD_MS, 4 * MRD_MS);
        cc_running(p, 0, k, at + 2 * MRD_MS, 5 * MRD_MS, 400);
        cc_running(p, 1, k, at + 6 * MRD_MS, MRD_MS, 400);
    }
}

static void
check_host_work(const json_t *r, const char *name, int64_t ns, int64_t median_ns)
{
    const json_t *work = json_object_get(json_object_get(worker(r, 1), "late"), "host_work");

    CHECK_ROW(name, strcmp(json_string_value(json_object_get(work, "name")), name) == 0);
    CHECK_INT(number(work, "ns"), ns);
    CHECK_INT(number(work, "median_ns"), median_ns);
    CHECK(json_is_null(json_object_get(json_object_get(worker(r, 0), "late"), "host_work")));
}

TEST(the_work_of_a_late_workers_host_is_named)
{
    static const char *const names[] = { "load batch", "gc.collect", "checkpoint", "compile",
                                         "load model" };

    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        test_profile *p = test_profile_new();
        json_t *r;
        char *text;

        add_host_spans(p, names[i], 0);
        r = report(p);
        check_host_work(r, names[i], 16 * MRD_MS, 0);
        text = report_text(p);
        CHECK_ROW(names[i], strstr(text, names[i]) != NULL);
        CHECK(strstr(text, "for 16.00 ms, 16.00 ms") != NULL);
        free(text);
        json_decref(r);
        forget(p);
        test_profile_free(p);
    }
}

/* The host's work is found even if it is a call of the runtime, and if the process has more short
 * spans than are kept. Spans after the last device span do not count. Spans in a pause with lost
 * events do not count either. */
TEST(the_work_of_a_host_is_counted_to_the_end)
{
    test_profile *p = test_profile_new();
    json_t *r;

    add_host_spans(p, "nrt_load", p->thread[1]);
    r = report(p);
    check_host_work(r, "nrt_load", 16 * MRD_MS, 0);
    json_decref(r);

    forget(p);
    add_host_spans(p, "load batch", 0);
    for (int64_t k = 0; k < 70; k++)
        profile_add(p, MRD_SPAN, p->v[1].track, "read file", 12 * MRD_MS + k * 50 * MRD_US,
                    30 * MRD_US);
    r = report(p);
    check_host_work(r, "load batch", 16 * MRD_MS, 0);
    json_decref(r);

    forget(p);
    add_host_spans(p, "load batch", 0);
    for (int64_t k = 0; k < 80; k++)
        profile_add(p, MRD_SPAN, p->v[1].track, "save", (40 + k) * MRD_MS, MRD_MS);
    r = report(p);
    check_host_work(r, "load batch", 16 * MRD_MS, 0);
    json_decref(r);

    forget(p);
    add_host_spans(p, "load batch", 0);
    for (int64_t k = 0; k < 70; k++)
        profile_add(p, MRD_SPAN, p->v[1].track, "read file", 12 * MRD_MS + k * 50 * MRD_US,
                    30 * MRD_US);
    profile_add(p, MRD_LOSS, p->loss, "runtime-ring", 15700 * MRD_US, 100 * MRD_US)->ivalue = 1;
    profile_add(p, MRD_SPAN, p->v[1].track, "read file", 15900 * MRD_US, 30 * MRD_US);
    r = report(p);
    check_host_work(r, "load batch", 12 * MRD_MS, 0);
    json_decref(r);

    forget(p);
    test_profile_free(p);
}

/* Of nested host spans the report names the one that explains most of the lateness and contains
 * little other time. */
TEST(nested_work_of_a_host_is_named_by_what_explains_it)
{
    static const struct {
        const char *name;
        int64_t inner_ns;
        bool is_inner;
    } rows[] = {
        { "an inner span with most of the time", 3 * MRD_MS, false },
        { "an inner span with nearly all of the time", 3900 * MRD_US, false },
        { "a long span around one with most of the excess", 3200 * MRD_US, true },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        test_profile *p = test_profile_new();
        json_t *r;

        add_host_spans(p, "load batch", 0);
        for (size_t k = 2, n = p->n; k < n; k++) {
            mrd_event *ev = &p->v[k];

            if (ev->track != p->v[1].track)
                continue;
            if (rows[i].is_inner)
                ev->dur_ns = rows[i].inner_ns;
            else
                profile_add(p, MRD_SPAN, ev->track, "read file", ev->ts.ns - BASE_NS + 10,
                            rows[i].inner_ns);
        }
        r = report(p);
        check_host_work(r, "load batch", 4 * (rows[i].is_inner ? rows[i].inner_ns : 4 * MRD_MS), 0);
        json_decref(r);
        forget(p);
        test_profile_free(p);
    }
}

/* Rank 1 loads its model longer than rank 0, so its device begins later. This work before the first
 * device span is found, too. */
TEST(the_work_before_the_first_device_span_counts)
{
    test_profile *p = test_profile_new();
    json_t *r;

    add_host_spans(p, "load model", 0);
    forget(p);
    p->n = 2; /* the whole run */
    profile_add(p, MRD_SPAN, p->framework, "load model", 0, 3 * MRD_MS);
    profile_add(p, MRD_SPAN, p->v[1].track, "load model", 0, 9 * MRD_MS);
    cc_running(p, 0, 0, 3 * MRD_MS, 8 * MRD_MS, 400);
    cc_running(p, 1, 0, 9 * MRD_MS, 2 * MRD_MS, 400);
    r = report(p);
    check_host_work(r, "load model", 9 * MRD_MS, 3 * MRD_MS);
    json_decref(r);
    forget(p);
    test_profile_free(p);
}

/* Returns the report's text for a device on which a collective overlaps a computation by half.
 * `source` determines the kind of device. */
static char *
text_of_overlap(mrd_source_kind source)
{
    test_profile *p = test_profile_new();
    mrd_track t = *mrd_catalog_borrow_track(p->cat, p->device[0]);
    bool is_neuron = source == MRD_SRC_DEVICE;
    char *text;

    if (!is_neuron) {
        t.lnc_idx = t.pcore_idx = MRD_NONE;
        t.device_idx = 0;
    }
    t.source = source;
    p->device[0] = mrd_catalog_track(p->cat, &t);
    p->n = 0;
    profile_add(p, MRD_SPAN, p->device[0], is_neuron ? "nc_exec_running" : "gemm", 0, MRD_MS);
    profile_add(p, MRD_SPAN, p->device[0],
                is_neuron ? "cc_running" : "ncclDevKernel_AllReduce_Sum_f32_RING_LL()",
                500 * MRD_US, MRD_MS);
    text = report_text(p);
    test_profile_free(p);
    return text;
}

TEST(neuron_does_not_tell_what_computation_hides)
{
    char *text = text_of_overlap(MRD_SRC_DEVICE);

    CHECK(strstr(text, "computation hides 50.0 %") == NULL);
    CHECK(strstr(text, "computation hides cannot be told on Neuron") != NULL);
    free(text);
    text = text_of_overlap(MRD_SRC_FRAMEWORK);
    CHECK(strstr(text, "computation hides 50.0 %") != NULL);
    CHECK(strstr(text, "cannot be told on Neuron") == NULL);
    free(text);
}

TEST_MAIN()
