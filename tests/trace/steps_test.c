/* Tests the sums of operations per training step (trace/analysis/judge/steps.h). The test stores
 * all spans and steps, computes every number from them in a simple way, and compares. */
#include "tests/trace/profile.h"
#include "trace/analysis/judge/steps.h"

enum { PROCESSES = 20, SPANS = 20000, TIME = 280000, NAMES = 3, OPS = 5 };

/* Properties of a kind of span: its operation, its track, and its bit in the test's own count of
 * the worker's time. */
static const struct {
    mrd_op_kind kind;
    enum { ON_DEVICE, ON_RUNTIME, ON_HOST } where;
    const char *names[NAMES];
    unsigned bit;
} ops[OPS] = {
    { MRD_OP_COMPUTE, ON_DEVICE, { "nc_exec_running", "gemm", "softmax" }, 1 },
    { MRD_OP_COPY, ON_RUNTIME, { "nrt_tensor_read", "nrt_tensor_write", "nrt_tensor_read" }, 4 },
    { MRD_OP_RUNTIME, ON_RUNTIME, { "kbl_exec_wait", "nrt_execute", "nrt_execute" }, 8 },
    { MRD_OP_HOST, ON_HOST, { "forward", "backward", "optimizer" }, 0 },
    { MRD_OP_HOST, ON_HOST, { "DataLoader", "DataLoader", "DataLoader" }, 0 },
};

typedef struct {
    int64_t at, dur;
    int process, op; /* op < 0: a step */
    const char *name;
} span;

typedef struct {
    test_profile *p;
    mrd_proc_id proc[PROCESSES];
    mrd_track_id device[PROCESSES], thread[PROCESSES], host[PROCESSES];
    span spans[SPANS];
    size_t n;
    size_t processes; /* that have spans */
    uint8_t on[PROCESSES][TIME];
    mrd_steps *steps;
} world;

static mrd_track_id
track_of(const world *w, int process, int where)
{
    return where == ON_DEVICE    ? w->device[process]
           : where == ON_RUNTIME ? w->thread[process]
                                 : w->host[process];
}

static world *
world_new(void)
{
    world *w = calloc(1, sizeof(*w));

    w->p = test_profile_new();
    w->p->n = 0;
    for (int i = 0; i < PROCESSES; i++) {
        mrd_process proc = *mrd_catalog_borrow_process(w->p->cat, w->p->proc[0]);
        mrd_track t;

        proc.rank = i == 0 ? 0 : PROCESSES - i; /* in reverse order from the second on */
        proc.process_id += i;
        w->proc[i] = mrd_catalog_process(w->p->cat, &proc);
        mrd_track_init(&t, w->proc[i], MRD_SRC_RUNTIME);
        t.lnc_idx = i;
        t.thread_id = 5000 + i;
        w->thread[i] = mrd_catalog_track(w->p->cat, &t);
        t.source = MRD_SRC_DEVICE;
        t.thread_id = MRD_NONE;
        w->device[i] = mrd_catalog_track(w->p->cat, &t);
        mrd_track_init(&t, w->proc[i], MRD_SRC_FRAMEWORK);
        t.thread_id = 900 + i;
        w->host[i] = mrd_catalog_track(w->p->cat, &t);
    }
    return w;
}

static void
world_free(world *w)
{
    mrd_steps_free(w->steps);
    test_profile_free(w->p);
    free(w);
}

static void
put(world *w, int process, int op, const char *name, int64_t at, int64_t dur)
{
    if (w->n == SPANS || at + dur > TIME)
        return;
    w->spans[w->n++] = (span){ at, dur, process, op, name };
    for (int64_t t = at; t < at + dur && op >= 0; t++)
        w->on[process][t] |= (uint8_t) ops[op].bit;
}

/* Passes all spans of the test to the tested code (mrd_steps), in the order of time. */
static void
count(world *w)
{
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = w->p->cat, .first = { 1 }, .options = &options };

    for (size_t i = 0; i < w->n; i++) /* the catalog must have all names before mrd_steps_new */
        (void) mrd_catalog_intern(w->p->cat, w->spans[i].name);
    w->steps = mrd_steps_new(&env);
    REQUIRE(w->steps != NULL);
    for (size_t i = 0; i < w->n; i++) {
        const span *s = &w->spans[i];
        mrd_event ev = { .kind = MRD_SPAN,
                         .ts = { BASE_NS + s->at },
                         .dur_ns = s->dur,
                         .name = mrd_catalog_intern(w->p->cat, s->name),
                         .track = track_of(w, s->process,
                                           s->op < 0 ? ON_HOST : (int) ops[s->op].where) };

        CHECK_ERR("add", mrd_steps_add(w->steps, &ev), MRD_OK);
    }
    CHECK_ERR("finish", mrd_steps_finish(w->steps), MRD_OK);
}

static void
draw(world *w, uint64_t *seed, unsigned step_of_16, unsigned processes, int64_t longer)
{
    static const char *const steps[] = { "step", "step 12", "train_step", "ProfilerStep#7" };
    int64_t at = 1;

    w->processes = processes;
    while (w->n < SPANS && at < TIME - 4000) {
        int process = (int) (test_rand(seed) % processes), op = (int) (test_rand(seed) % OPS);
        int64_t dur = (int64_t) (test_rand(seed) % 90);

        if (test_rand(seed) % 16 < step_of_16)
            put(w, process, -1, steps[test_rand(seed) % 4], at,
                test_rand(seed) % 9 == 0 ? 0 : longer * dur);
        else
            put(w, process, op, ops[op].names[test_rand(seed) % NAMES], at, dur + 1);
        at += 1 + (int64_t) (test_rand(seed) % 20);
    }
}

/* ---- The separate account ---- */

typedef struct {
    int64_t begin[SPANS], end[SPANS];
    size_t n;
    uint64_t ns, nested;
} steps_of;

static void
steps_count(const world *w, int process, steps_of *ret)
{
    *ret = (steps_of){ .n = 0 };
    for (size_t i = 0; i < w->n; i++) {
        const span *s = &w->spans[i];

        if (s->op >= 0 || s->process != process)
            continue;
        if (ret->n > 0 && s->at < ret->end[ret->n - 1]) {
            ret->nested++;
        } else if (s->dur > 0) {
            ret->begin[ret->n] = s->at;
            ret->end[ret->n++] = s->at + s->dur;
            ret->ns += (uint64_t) s->dur;
        }
    }
}

/* Returns the number of the step at this time, or -1. */
static int64_t
step_at(const steps_of *s, int64_t at)
{
    for (size_t i = 0; i < s->n; i++)
        if (at >= s->begin[i] && at < s->end[i])
            return (int64_t) i;
    return -1;
}

static uint64_t
width_for(uint64_t n, uint64_t most)
{
    uint64_t width = 1;

    while (n > 0 && (n - 1) / width >= most)
        width *= 2;
    return width;
}

static const mrd_steps_row *
row_of(const world *w, mrd_op_kind kind, const char *name, int part)
{
    for (size_t i = 0; i < mrd_steps_rows(w->steps); i++) {
        const mrd_steps_row *r = mrd_steps_row_at(w->steps, i);

        if (r->kind == kind &&
            (kind == MRD_OP_PART ? (int) r->part == part
                                 : strcmp(mrd_catalog_text(w->p->cat, r->name).p, name) == 0))
            return r;
    }
    return NULL;
}

static void
check_row(const world *w, const char *what, const mrd_steps_row *r, const mrd_steps_row *want)
{
    if (want->calls == 0) {
        CHECK_ROW(what, r == NULL);
        return;
    }
    REQUIRE(r != NULL);
    CHECK_ROW(what, r->calls == want->calls && r->ns == want->ns);
    CHECK_ROW(what, r->size == MRD_NONE && r->width == want->width);
    CHECK_ROW(what, memcmp(r->block_ns, want->block_ns, sizeof(r->block_ns)) == 0);
    CHECK_ROW(what, memcmp(r->block_calls, want->block_calls, sizeof(r->block_calls)) == 0);
    (void) w;
}

static void
add_to(mrd_steps_row *r, uint64_t block, uint64_t ns)
{
    r->calls++;
    r->ns += ns;
    r->block_ns[block] += ns;
    r->block_calls[block]++;
}

static uint64_t
placed(const world *w, const mrd_steps_row *r, mrd_proc_id process, uint64_t *ret_ns)
{
    size_t n;
    const mrd_steps_place *v = mrd_steps_places(w->steps, &n);

    for (size_t i = 0; i < n; i++) {
        CHECK(i == 0 || v[i - 1].row < v[i].row ||
              (v[i - 1].row == v[i].row && v[i - 1].process < v[i].process));
        if (mrd_steps_row_at(w->steps, v[i].row) == r && v[i].process == process) {
            *ret_ns = v[i].ns;
            return v[i].calls;
        }
    }
    *ret_ns = 0;
    return 0;
}

/* Checks the row of one operation. With steps only the calls that began within a step count.
 * Returns the number of calls that began between steps. */
static uint64_t
check_operation(const world *w, const steps_of *s, uint64_t width, mrd_op_kind kind,
                const char *name)
{
    mrd_steps_row want = { .calls = 0, .width = 1 };
    uint64_t outside = 0, calls[PROCESSES] = { 0 }, ns[PROCESSES] = { 0 }, total = 0, got;
    const mrd_steps_row *r = row_of(w, kind, name, 0);
    bool by_call = s == NULL;

    for (size_t i = 0; i < w->n; i++)
        total += w->spans[i].op >= 0 && ops[w->spans[i].op].kind == kind &&
                 strcmp(w->spans[i].name, name) == 0;
    want.width = by_call ? width_for(total, MRD_STEPS_BLOCKS) : 1;
    for (size_t i = 0; i < w->n; i++) {
        const span *x = &w->spans[i];
        int64_t step;

        if (x->op < 0 || ops[x->op].kind != kind || strcmp(x->name, name) != 0)
            continue;
        step = by_call ? 0 : step_at(&s[x->process], x->at);
        if (step < 0) {
            outside += kind == MRD_OP_HOST ? 0 : (uint64_t) x->dur;
            continue;
        }
        calls[x->process]++;
        ns[x->process] += (uint64_t) x->dur;
        add_to(&want, by_call ? want.calls / want.width : (uint64_t) step / width,
               (uint64_t) x->dur);
    }
    check_row(w, name, r, &want);
    for (int i = 0; i < PROCESSES && r != NULL; i++) {
        CHECK_INT(placed(w, r, w->proc[i], &got), calls[i]);
        CHECK_INT(got, ns[i]);
    }
    return outside;
}

/* Checks the parts of the workers' time in their steps, such as compute and idle. The expected
 * parts are counted nanosecond by nanosecond. */
static void
check_parts(const world *w, const steps_of *s, uint64_t width)
{
    mrd_steps_row want[MRD_REPORT_PARTS] = { { .calls = 0 } };

    for (int p = 0; p < PROCESSES; p++) {
        int64_t first = INT64_MAX;

        for (size_t i = 0; i < w->n && first == INT64_MAX; i++)
            if (w->spans[i].process == p && w->spans[i].op >= 0 &&
                ops[w->spans[i].op].where == ON_DEVICE)
                first = w->spans[i].at;
        for (size_t k = 0; k < s[p].n; k++) {
            uint64_t ns[MRD_REPORT_PARTS] = { 0 };

            if (first > s[p].begin[k])
                continue;
            for (int64_t t = s[p].begin[k]; t < s[p].end[k]; t++) {
                unsigned b = w->on[p][t];

                ns[b & 1   ? MRD_REPORT_COMPUTE
                   : b & 4 ? MRD_REPORT_COPY
                   : b & 8 ? MRD_REPORT_HOST
                           : MRD_REPORT_IDLE]++;
            }
            for (int i = 0; i < MRD_REPORT_PARTS; i++)
                add_to(&want[i], k / width, ns[i]);
        }
    }
    for (int i = 0; i < MRD_REPORT_PARTS; i++) {
        want[i].width = 1;
        check_row(w, "part", row_of(w, MRD_OP_PART, NULL, i), &want[i]);
    }
}

static void
check_processes(const world *w, const steps_of *s, uint64_t width)
{
    size_t n;
    const mrd_steps_process *v = mrd_steps_processes(w->steps, &n);

    CHECK_INT(n, w->processes);
    for (size_t i = 0; i < n && n == w->processes; i++) {
        const mrd_steps_process *row = &v[i == 0 ? 0 : n - i]; /* by rank */
        uint64_t ns[MRD_STEPS_BLOCKS] = { 0 };
        uint32_t steps[MRD_STEPS_BLOCKS] = { 0 };

        for (size_t k = 0; k < s[i].n; k++) {
            ns[k / width] += (uint64_t) (s[i].end[k] - s[i].begin[k]);
            steps[k / width]++;
        }
        CHECK_INT(row->process, w->proc[i]);
        CHECK_INT(row->steps, s[i].n);
        CHECK_INT(row->ns, s[i].ns);
        CHECK(memcmp(row->block_ns, ns, sizeof(ns)) == 0);
        CHECK(memcmp(row->block_steps, steps, sizeof(steps)) == 0);
    }
}

static void
check_order(const world *w)
{
    for (size_t i = 1; i < mrd_steps_rows(w->steps); i++) {
        const mrd_steps_row *a = mrd_steps_row_at(w->steps, i - 1),
                            *b = mrd_steps_row_at(w->steps, i);

        CHECK(a->kind < b->kind ||
              (a->kind == b->kind &&
               (a->kind == MRD_OP_PART ? a->part < b->part
                                       : strcmp(mrd_catalog_text(w->p->cat, a->name).p,
                                                mrd_catalog_text(w->p->cat, b->name).p) < 0)));
    }
}

TEST(everything_is_counted_once)
{
    enum { FEW = 7 };
    static const unsigned shares[] = { 8, 2, 8, 1, 4 }; /* the last: many long concurrent steps */

    for (uint64_t round = 0; round < MRD_COUNT(shares) && test_failures == 0; round++) {
        bool many = round + 1 == MRD_COUNT(shares);
        world *w = world_new();
        steps_of *s = calloc(PROCESSES, sizeof(*s));
        uint64_t seed = 77 + round, outside = 0, nested = 0, most = 0, width;
        const mrd_steps_totals *t;

        draw(w, &seed, shares[round], many ? PROCESSES : FEW, many ? 20 : 1);
        count(w);
        for (int i = 0; i < PROCESSES; i++)
            steps_count(w, i, &s[i]);
        for (int i = 0; i < PROCESSES; i++) {
            most = s[i].n > most ? s[i].n : most;
            nested += s[i].nested;
        }
        width = width_for(most, MRD_STEPS_BLOCKS);
        CHECK(shares[round] < 8 || width >= 4);
        for (int k = 0; k < OPS; k++)
            for (int i = 0; i < NAMES; i++) {
                bool again = false;

                for (int j = 0; j < i; j++)
                    again = again || strcmp(ops[k].names[j], ops[k].names[i]) == 0;
                if (!again)
                    outside += check_operation(w, s, width, ops[k].kind, ops[k].names[i]);
            }
        check_parts(w, s, width);
        check_processes(w, s, width);
        check_order(w);
        t = mrd_steps_totals_of(w->steps);
        CHECK(!t->by_call);
        CHECK_INT(t->width, width);
        CHECK_INT(t->nested, nested);
        CHECK_INT(t->outside_ns, outside);
        CHECK_INT(t->rest, 0);
        CHECK_INT(t->unplaced, 0);
        world_free(w);
        free(s);
    }
}

TEST(without_steps_it_is_by_call)
{
    world *w = world_new();
    uint64_t seed = 5;
    const mrd_steps_totals *t;
    size_t n;

    draw(w, &seed, 0, PROCESSES, 1);
    count(w);
    for (int k = 0; k < OPS; k++)
        for (int i = 0; i < NAMES; i++)
            CHECK_INT(check_operation(w, NULL, 1, ops[k].kind, ops[k].names[i]), 0);
    t = mrd_steps_totals_of(w->steps);
    CHECK(t->by_call);
    CHECK_INT(t->outside_ns, 0);
    (void) mrd_steps_processes(w->steps, &n);
    CHECK_INT(n, 0);
    CHECK(row_of(w, MRD_OP_PART, NULL, 0) == NULL);
    check_order(w);
    world_free(w);
}

/* The table of operations has a limited number of rows. If it is full, the further names of each
 * kind of operation must share one row without a name. Half of the rows are reserved for operations
 * of devices. */
TEST(the_rest_is_in_one_row)
{
    world *w = world_new();
    static char names[SPANS][16];
    const mrd_steps_row *host, *compute;

    put(w, 0, -1, "step", 1, TIME - 1);
    for (int i = 0; i < SPANS - 1; i++) {
        bool device = i >= (int) MRD_STEPS_ROWS / 2 + 100;

        snprintf(names[i], sizeof(names[i]), "name %d", i);
        put(w, 0, device ? 0 : 3, names[i], 2 + i, 3);
    }
    count(w);
    CHECK_INT(w->n, SPANS);
    host = row_of(w, MRD_OP_HOST, "", 0);
    compute = row_of(w, MRD_OP_COMPUTE, "", 0);
    REQUIRE(host != NULL && compute != NULL);
    CHECK_INT(host->calls, 100);
    CHECK_INT(host->ns, 100 * 3);
    /* All further names of host spans share one row. Device spans get rows of their own until the
     * table is full. */
    CHECK_INT(compute->calls, SPANS - 1 - (MRD_STEPS_ROWS / 2 + 100) - (MRD_STEPS_ROWS / 2 - 1));
    CHECK_INT(mrd_steps_totals_of(w->steps)->rest, host->calls + compute->calls);
    CHECK(compute->size == MRD_NONE);
    world_free(w);
}

/* The time of a collective is split into two parts. Until the last core begins the collective, the
 * time of the other cores is waiting. The rest is the collective's own time. */
TEST(a_collective_waits_for_its_last)
{
    world *w = world_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = w->p->cat, .first = { 1 }, .options = &options };
    mrd_arg args[2] = {
        { .key = mrd_catalog_intern(w->p->cat, "gid"), .type = MRD_ARG_INT, .v.i = 1 },
        { .key = mrd_catalog_intern(w->p->cat, "op_id"), .type = MRD_ARG_INT, .v.i = 1 }
    };
    mrd_sid step = mrd_catalog_intern(w->p->cat, "step"),
            name = mrd_catalog_intern(w->p->cat, "cc_running");
    const mrd_event events[] = {
        { .ts = { 10 }, .dur_ns = 990, .name = step, .track = w->host[0] },
        { .ts = { 20 }, .dur_ns = 980, .name = step, .track = w->host[1] },
        { .ts = { 100 }, .dur_ns = 300, .name = name, .track = w->device[0], .args = args },
        { .ts = { 250 }, .dur_ns = 170, .name = name, .track = w->device[1], .args = args },
        { .ts = { 1200 }, .dur_ns = 10, .name = step, .track = w->host[0] },
    };
    const mrd_steps_row *own = NULL, *waiting = NULL;
    uint64_t ns;

    w->steps = mrd_steps_new(&env);
    for (size_t i = 0; i < MRD_COUNT(events); i++) {
        mrd_event ev = events[i];

        ev.kind = MRD_SPAN;
        ev.ts.ns += BASE_NS;
        ev.arg_count = ev.args != NULL ? 2 : 0;
        CHECK_ERR("add", mrd_steps_add(w->steps, &ev), MRD_OK);
    }
    CHECK_ERR("finish", mrd_steps_finish(w->steps), MRD_OK);
    for (size_t i = 0; i < mrd_steps_rows(w->steps); i++) {
        const mrd_steps_row *r = mrd_steps_row_at(w->steps, i);

        own = r->kind == MRD_OP_COLLECTIVE ? r : own;
        waiting = r->kind == MRD_OP_WAITING ? r : waiting;
    }
    REQUIRE(own != NULL && waiting != NULL);
    CHECK_INT(own->calls, 2);
    CHECK_INT(own->ns, 150 + 170);
    CHECK_INT(waiting->calls, 2);
    CHECK_INT(waiting->ns, 150);
    CHECK_INT(own->block_ns[0], 150 + 170);
    CHECK_INT(placed(w, own, w->proc[0], &ns), 1);
    CHECK_INT(ns, 150);
    CHECK_INT(placed(w, waiting, w->proc[1], &ns), 1);
    CHECK_INT(ns, 0);
    world_free(w);
}

/* A collective is complete only when its group begins the next one, here five steps later. It still
 * counts in the step in which it began. */
TEST(a_collective_of_every_fifth_step_is_in_its_step)
{
    world *w = world_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = w->p->cat, .first = { 1 }, .options = &options };
    mrd_arg args[2] = {
        { .key = mrd_catalog_intern(w->p->cat, "gid"), .type = MRD_ARG_INT, .v.i = 1 },
        { .key = mrd_catalog_intern(w->p->cat, "op_id"), .type = MRD_ARG_INT, .v.i = 1 }
    };
    mrd_sid step = mrd_catalog_intern(w->p->cat, "step"),
            name = mrd_catalog_intern(w->p->cat, "cc_running");
    const mrd_steps_row *own = NULL, *waiting = NULL;

    w->steps = mrd_steps_new(&env);
    for (int i = 0; i < 12; i++) {
        mrd_event ev = { .kind = MRD_SPAN,
                         .ts = { BASE_NS + i * 1000 },
                         .dur_ns = 900,
                         .name = step,
                         .track = w->host[0] };

        CHECK_ERR("add", mrd_steps_add(w->steps, &ev), MRD_OK);
        ev.track = w->host[1];
        CHECK_ERR("add", mrd_steps_add(w->steps, &ev), MRD_OK);
        for (int k = 0; k < 2 && i % 5 == 0; k++) {
            ev = (mrd_event){ .kind = MRD_SPAN,
                              .ts = { BASE_NS + i * 1000 + 100 + 50 * k },
                              .dur_ns = 200,
                              .name = name,
                              .track = w->device[k],
                              .args = args,
                              .arg_count = 2 };
            CHECK_ERR("add", mrd_steps_add(w->steps, &ev), MRD_OK);
        }
    }
    CHECK_ERR("finish", mrd_steps_finish(w->steps), MRD_OK);
    for (size_t i = 0; i < mrd_steps_rows(w->steps); i++) {
        const mrd_steps_row *r = mrd_steps_row_at(w->steps, i);

        own = r->kind == MRD_OP_COLLECTIVE ? r : own;
        waiting = r->kind == MRD_OP_WAITING ? r : waiting;
    }
    REQUIRE(own != NULL && waiting != NULL);
    CHECK_INT(mrd_steps_totals_of(w->steps)->outside_ns, 0);
    CHECK_INT(own->calls, 6);
    CHECK_INT(own->ns, 3 * (150 + 200));
    CHECK_INT(waiting->ns, 3 * 50);
    for (size_t i = 0; i < 12; i++)
        CHECK_INT(own->block_ns[i], i % 5 == 0 ? 150 + 200 : 0);
    world_free(w);
}

TEST(kinds_have_names)
{
    CHECK_TEXT(mrd_op_kind_text(MRD_OP_COMPUTE), "compute");
    CHECK_TEXT(mrd_op_kind_text(MRD_OP_PART), "part");
    CHECK_TEXT(mrd_op_kind_text(MRD_OP_KINDS), "?");
    mrd_steps_free(NULL);
}

TEST_MAIN()
