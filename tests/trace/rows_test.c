/* Tests that the tables (trace/table/rows.h) and the report agree about clocks: a query of the
 * tables must find the same proven lateness as the report. */
#include "tests/trace/profile.h"
#include "trace/analysis/judge/report.h"
#include "trace/table/rows.h"

typedef struct {
    int64_t node[2], contradicted;
    size_t parts, groups;
} seen;

static mrd_err
see(void *self, size_t table, const mrd_slot slots[F_COUNT])
{
    seen *s = self;
    mrd_rows_kind kind = mrd_dialect_meridian.tables[table].rows;

    if (kind == MRD_ROWS_PARTS) {
        s->node[slots[F_WORKER].i] = slots[F_NODE].i;
        s->parts++;
    }
    if (kind == MRD_ROWS_GROUPS) {
        s->contradicted = slots[F_CONTRADICTED].i;
        s->groups++;
    }
    return MRD_OK;
}

/* Adds the events to the tables and to a report. In their only collective rank 1 is 500 us late.
 * Returns how often the report calls this proven. */
static uint64_t
run(test_profile *p, const mrd_sink_options *options, bool contradict, seen *ret)
{
    mrd_sink_env env = {
        .catalog = p->cat, .first = { BASE_NS }, .last = { BASE_NS + 1000000 }, .options = options
    };
    mrd_report *report = mrd_report_new(&env);
    mrd_clock_info *clocks;
    mrd_rows *rows;
    uint64_t proven;
    size_t n;

    *ret = (seen){ .contradicted = -1 };
    CHECK_ERR("rows", mrd_rows_new(&env, &mrd_dialect_meridian, see, ret, &rows, NULL), MRD_OK);
    CHECK(report != NULL);
    for (size_t i = 0; i < p->n; i++) {
        CHECK_ERR("row", mrd_rows_event(rows, &p->v[i]), MRD_OK);
        CHECK_ERR("event", mrd_report_add(report, &p->v[i]), MRD_OK);
    }
    clocks = mrd_catalog_clocks(p->cat, &n);
    for (size_t i = 1; i < n && contradict; i++)
        clocks[i].violations = 3;
    CHECK_ERR("finish", mrd_rows_finish(rows), MRD_OK);
    CHECK_ERR("finish", mrd_report_finish(report), MRD_OK);
    proven = mrd_report_totals_of(report)->proven;
    CHECK_INT(ret->parts, 2);
    CHECK_INT(ret->groups, 1);
    mrd_report_free(report);
    mrd_rows_free(rows);
    return proven;
}

static test_profile *
late_profile(void)
{
    test_profile *p = test_profile_new();
    static mrd_arg args[2];

    args[0] = (mrd_arg){ .key = mrd_catalog_intern(p->cat, "gid"), .type = MRD_ARG_INT, .v.i = 1 };
    args[1] =
        (mrd_arg){ .key = mrd_catalog_intern(p->cat, "op_id"), .type = MRD_ARG_INT, .v.i = 1 };
    p->n = 0;
    for (int i = 0; i < 2; i++) {
        mrd_event *ev =
            profile_add(p, MRD_SPAN, p->device[i], "cc_running", i * 500000, 600000 - i * 500000);

        ev->args = args;
        ev->arg_count = 2;
    }
    return p;
}

TEST(processes_of_one_clock_are_of_one_node)
{
    test_profile *p = late_profile();
    mrd_sink_options options = test_sink_options();
    seen s;

    mrd_catalog_borrow_process(p->cat, p->proc[1])->instance_id =
        mrd_catalog_borrow_process(p->cat, p->proc[0])->instance_id;
    mrd_catalog_borrow_process(p->cat, p->proc[1])->scope =
        mrd_catalog_borrow_process(p->cat, p->proc[0])->scope + 1;
    /* the two files were recorded on two machines, then on the same machine */
    for (unsigned same = 0; same < 2; same++) {
        options.same_clock = same;
        p->v[0].bound_ns = p->v[1].bound_ns = MRD_BOUND_UNKNOWN;
        CHECK_INT(run(p, &options, false, &s), same);
        CHECK_INT(s.node[0] == s.node[1], same);
    }
    test_profile_free(p);
}

TEST(a_clock_that_is_contradicted_at_the_end_proves_nothing)
{
    for (unsigned contradict = 0; contradict < 2; contradict++) {
        test_profile *p = late_profile();
        mrd_sink_options options = test_sink_options();
        seen s;

        for (int i = 0; i < 2; i++) {
            mrd_process *process = mrd_catalog_borrow_process(p->cat, p->proc[i]);
            mrd_clock_info clock = { .name = process->instance_id,
                                     .node = process->instance_id,
                                     .quality = mrd_catalog_intern(p->cat, "good"),
                                     .bound_ns = 700 };

            process->clock = mrd_catalog_add_clock(p->cat, &clock);
            p->v[i].bound_ns = 700;
        }
        CHECK_INT(run(p, &options, contradict, &s), contradict == 0);
        CHECK_INT(s.contradicted, contradict);
        CHECK(s.node[0] != s.node[1]);
        test_profile_free(p);
    }
}

TEST_MAIN()
