#include "agent/record/trigger.h"

#include "tests/check.h"

typedef struct {
    mrd_trigger_watch *t;
    mrd_drain_process process;
    char reason[256];
} fixture;

static bool
open_fixture(fixture *f)
{
    mrd_trigger_options o = { .errors = true, .quiet_ns = 3600 * MRD_SEC };
    mrd_why why = { 0 };

    *f = (fixture){ .process = { .catalog = mrd_catalog_new() } };
    return f->process.catalog != NULL && mrd_trigger_open(&o, &f->t, &why) == MRD_OK;
}

static void
close_fixture(fixture *f)
{
    mrd_trigger_close(f->t);
    mrd_catalog_free(f->process.catalog);
}

/* Passes a call of the runtime with this status. */
static bool
call(fixture *f, const char *function, int64_t status)
{
    mrd_catalog *c = f->process.catalog;
    mrd_arg arg = { .key = mrd_catalog_intern(c, "status"), .type = MRD_ARG_INT, .v.i = status };
    mrd_event ev = { .kind = MRD_SPAN,
                     .name = mrd_catalog_intern(c, function),
                     .dur_ns = 5,
                     .args = &arg,
                     .arg_count = 1 };

    return mrd_trigger_event(f->t, &f->process, &ev, f->reason);
}

TEST(statuses_that_are_faults_trigger)
{
    static const struct {
        const char *row, *function;
        int64_t status;
        bool want;
    } rows[] = {
        { "success", "nrt_execute", 0, false },
        { "failure", "nrt_execute", 1, true },
        { "wrong call", "nrt_execute", 2, false },
        { "wrong handle", "nrt_execute", 3, false },
        { "resource", "nrt_load", 4, true },
        { "time-out", "nrt_execute", 5, true },
        { "hardware", "nrt_execute", 6, true },
        { "queue full", "nrt_execute", 7, true },
        { "back-pressure", "nrta_execute_schedule", 7, false },
        { "unused number", "nrt_execute", 8, false },
        { "too few cores", "nrt_load", 9, true },
        { "NEFF version", "nrt_load", 10, true },
        { "host memory", "nrt_load", 11, true },
        { "not begun", "nrt_load", 13, false },
        { "closed", "nrt_load", 14, false },
        { "nothing there", "nrta_get_sequence", 15, false },
        { "unrecoverable", "nrt_execute", 101, true },
        { "bad input", "nrt_execute", 1002, true },
        { "numerical", "nrt_execute", 1003, true },
        { "errors", "nrt_execute", 1004, true },
        { "core busy", "nrt_execute", 1005, true },
        { "bounds", "nrt_execute", 1006, true },
        { "pending", "nrta_cc_schedule", 1100, false },
        { "collectives", "nrt_execute", 1200, true },
        { "scheduled, and failed", "nrta_execute_schedule", 1206, true },
        { "of a newer runtime", "nrt_execute", 4242, true },
        { "no execution's", "nrt_execute", 999, false },
        { "a program's own number", "nrt_execute", 10000, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        fixture f;

        REQUIRE(open_fixture(&f));
        CHECK_ROW(rows[i].row, call(&f, rows[i].function, rows[i].status) == rows[i].want);
        close_fixture(&f);
    }
}

/* Each session has its own quiet time. A fault that was reported to an earlier session is new to a
 * later one. */
TEST(a_new_session_is_announced_again)
{
    fixture f;

    REQUIRE(open_fixture(&f));
    CHECK(call(&f, "nrt_execute", 5));
    CHECK_TEXT(f.reason, "nrt_execute returned 5 (time-out)");
    CHECK(!call(&f, "nrt_execute", 5)); /* quiet */
    mrd_trigger_session(f.t, mrd_local_now());
    CHECK(call(&f, "nrt_execute", 5));
    CHECK(!call(&f, "nrt_execute", 5));
    mrd_trigger_session(f.t, mrd_local_add(mrd_local_now(), 3600 * MRD_SEC)); /* not begun yet */
    CHECK(!call(&f, "nrt_execute", 5));
    for (int i = 0; i < 40; i++) /* many sessions may begin, and the last one counts */
        mrd_trigger_session(f.t, mrd_local_now());
    CHECK(call(&f, "nrt_execute", 5));
    CHECK(!call(&f, "nrt_execute", 5));
    close_fixture(&f);
}

/* Equal causes from jobs that differ in one part of their identity are reported for each job. A
 * repetition from one job is suppressed. */
TEST(a_job_does_not_silence_another)
{
    static const char *const jobs[] = { "job=a\nuid=5\n",
                                        "job=a\nuid=6\n",
                                        "job=a\nuid=5\nnamespace=x\n",
                                        "job=a\nuid=5\ncluster=x\n",
                                        "job=a\nuid=5\nrestart=1\n",
                                        "job=b\nuid=5\n",
                                        "uid=5\n",
                                        "uid=6\n" };
    fixture f;

    REQUIRE(open_fixture(&f));
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < MRD_COUNT(jobs); i++) {
            f.process.ident.jobid = (mrd_jobid){ "" };
            mrd_jobid_parse(&f.process.ident.jobid, mrd_str_of(jobs[i]));
            CHECK_ROW(jobs[i], call(&f, "nrt_execute", 5) == (again == 0));
        }
    close_fixture(&f);
}

/* An unknown status is reported with the runtime's own name for it. Arguments that a program adds
 * to a span of its own are not a status of the runtime. */
TEST(names_of_the_runtime_and_words_of_the_program)
{
    fixture f;
    mrd_catalog *c;
    mrd_track track;
    mrd_event ev;
    mrd_arg args[2];

    REQUIRE(open_fixture(&f));
    c = f.process.catalog;
    args[0] = (mrd_arg){ .key = mrd_catalog_intern(c, "status"), .type = MRD_ARG_INT, .v.i = 4242 };
    args[1] = (mrd_arg){ .key = mrd_catalog_intern(c, "status_text"),
                         .type = MRD_ARG_STR,
                         .v.sid = mrd_catalog_intern(c, "NRT_EXEC_NEW") };
    ev = (mrd_event){ .kind = MRD_SPAN,
                      .name = mrd_catalog_intern(c, "nrt_execute"),
                      .dur_ns = 5,
                      .args = args,
                      .arg_count = 2 };
    CHECK(mrd_trigger_event(f.t, &f.process, &ev, f.reason));
    CHECK_TEXT(f.reason, "nrt_execute returned 4242 (NRT_EXEC_NEW)");
    close_fixture(&f);

    REQUIRE(open_fixture(&f));
    c = f.process.catalog;
    args[0] = (mrd_arg){ .key = mrd_catalog_intern(c, "status"), .type = MRD_ARG_INT, .v.i = 1 };
    ev.name = mrd_catalog_intern(c, "handle request");
    ev.arg_count = 1;
    mrd_track_init(&track, f.process.id, MRD_SRC_ANNOTATION);
    ev.track = mrd_catalog_track(c, &track);
    CHECK(!mrd_trigger_event(f.t, &f.process, &ev, f.reason));
    close_fixture(&f);
}

TEST_MAIN()
