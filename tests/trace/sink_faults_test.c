/* Tests each output format with failing memory allocations. If open fails, it must report the error
 * and free all memory, because close is called only after a successful open (trace/model/sink.h).
 * If a later allocation fails, an error is reported or the output is complete. */
#include "tests/trace/collect.h"
#include "tests/trace/profile.h"
#include "trace/analysis/judge/compare.h"

#define SLOTS 65536u

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static uintptr_t live[SLOTS]; /* 1: was used */
static size_t n_live;
static uint64_t calls, fails_at; /* number of the allocation that fails; 0 for none */
static bool once;                /* only this allocation fails; otherwise all later ones too */

static void
note(void *p)
{
    size_t at = ((uintptr_t) p >> 4) * 2654435761u % SLOTS;

    while (live[at] > 1)
        at = (at + 1) % SLOTS;
    live[at] = (uintptr_t) p;
    n_live++;
}

static void
forget(const void *p)
{
    size_t at = ((uintptr_t) p >> 4) * 2654435761u % SLOTS;

    for (size_t i = 0; p != NULL && i < SLOTS && live[at] != 0; i++, at = (at + 1) % SLOTS) {
        if (live[at] != (uintptr_t) p)
            continue;
        live[at] = 1;
        n_live--;
        return;
    }
}

static bool
ends(void)
{
    return fails_at != 0 && (++calls == fails_at || (calls > fails_at && !once));
}

void *
__wrap_malloc(size_t size)
{
    void *p = ends() ? NULL : __real_malloc(size);

    if (p != NULL)
        note(p);
    return p;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    void *p = ends() ? NULL : __real_calloc(n, size);

    if (p != NULL)
        note(p);
    return p;
}

void *
__wrap_realloc(void *old, size_t size)
{
    uintptr_t was = (uintptr_t) old;
    void *p = ends() ? NULL : __real_realloc(old, size);

    if (p != NULL) {
        forget((void *) was);
        note(p);
    }
    return p;
}

void
__wrap_free(void *p)
{
    forget(p);
    __real_free(p);
}

static bool
take(void *self, const void *data, size_t len)
{
    (void) self;
    (void) data;
    (void) len;
    return true;
}

TEST(without_memory_an_output_leaves_nothing)
{
    mrd_sink_options options = test_sink_options();
    test_profile *p = test_profile_new();
    const mrd_sink_ops *const *all;
    unsigned refused = 0;
    size_t n;

    options.archive = true;
    all = mrd_sinks(&n);
    for (size_t i = 0; i < n; i++) {
        for (uint64_t at = 1; at < 400; at++) {
            mrd_sink_env env = { .catalog = p->cat,
                                 .first = { BASE_NS },
                                 .last = { BASE_NS + 1 },
                                 .options = &options };
            void *state = calloc(1, all[i]->state_size + 1);
            mrd_why why = { 0 };
            size_t before = n_live;
            mrd_err err;

            CHECK_ERR("out", mrd_out_func(take, NULL, "nowhere", &env.out, &why), MRD_OK);
            calls = 0;
            fails_at = at;
            err = all[i]->open(state, &env, &why);
            fails_at = 0;
            if (err == MRD_OK)
                (void) all[i]->close(state, &why);
            else
                refused++;
            mrd_out_abort(env.out);
            CHECK_ROW(all[i]->name, n_live == before);
            free(state);
            if (err == MRD_OK)
                break;
        }
    }
    CHECK(refused > 100);
    test_profile_free(p);
}

/* The written output. */
typedef struct {
    char text[1 << 20];
    size_t len;
} written;

static bool
keep(void *self, const void *data, size_t len)
{
    written *w = self;

    if (len > sizeof(w->text) - w->len)
        return false;
    memcpy(w->text + w->len, data, len);
    w->len += len;
    return true;
}

typedef struct {
    const mrd_catalog *cat;
    mrd_event *v;
    size_t n;
} sorted_events;

/* fails: number of the first allocation to fail, 0 for none. *ret_calls: number of allocations. */
static mrd_err
run(const mrd_sink_ops *ops, const sorted_events *all, uint64_t fails, written *to,
    uint64_t *ret_calls)
{
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = all->cat,
                         .first = all->v[0].ts,
                         .last = all->v[all->n - 1].ts,
                         .options = &options };
    void *state = calloc(1, ops->state_size + 1);
    mrd_why why = { 0 };
    mrd_err err;

    to->len = 0;
    CHECK_ERR("out", mrd_out_func(keep, to, "memory", &env.out, &why), MRD_OK);
    calls = 0;
    fails_at = fails == 0 ? UINT64_MAX : fails;
    err = ops->open(state, &env, &why);
    if (err == MRD_OK) {
        mrd_err ended;

        for (size_t i = 0; i < all->n && err == MRD_OK; i++)
            err = ops->event(state, &all->v[i]);
        ended = ops->close(state, &why);
        err = err != MRD_OK ? err : ended;
    }
    if (err == MRD_OK)
        err = mrd_out_commit(env.out, &why);
    else
        mrd_out_abort(env.out);
    fails_at = 0;
    *ret_calls = calls;
    free(state);
    return err;
}

/* Writes each output with a failing allocation. Either only this allocation fails, or all later
 * ones too. The output must report an error or be complete. */
static void
check_outputs(sorted_events *events)
{
    static written whole, got;
    const mrd_sink_ops *const *all;
    size_t n;

    for (size_t i = 0; i < events->n; i++)
        events->v[i].seq = i;
    qsort(events->v, events->n, sizeof(*events->v), test_compare);
    all = mrd_sinks(&n);
    for (size_t i = 0; i < n; i++) {
        uint64_t most, used, refused = 0;

        CHECK_ERR(all[i]->name, run(all[i], events, 0, &whole, &most), MRD_OK);
        for (uint64_t at = 1; at <= most; at += 1 + at / 300) {
            for (int only = 0; only < 2; only++) {
                size_t before = n_live;

                once = only != 0;
                if (run(all[i], events, at, &got, &used) != MRD_OK) {
                    refused++;
                } else if (got.len != whole.len || memcmp(got.text, whole.text, got.len) != 0) {
                    fprintf(stderr, "%s: request %llu of %llu\n", all[i]->name,
                            (unsigned long long) at, (unsigned long long) most);
                    CHECK(false);
                }
                CHECK_ROW(all[i]->name, n_live == before);
            }
        }
        CHECK_ROW(all[i]->name, most == 0 || refused > 0);
    }
    once = false;
}

TEST(without_memory_an_output_is_whole_or_says_so)
{
    test_profile *p = test_profile_new();
    sorted_events events = { p->cat, p->v, p->n };

    check_outputs(&events);
    test_profile_free(p);
}

/* Steps of one rank of two, with launches, kernels, a collective, and spans without arguments. */
static void
put_rank(mrd_buf *to, int rank)
{
    mrd_buf_fmt(to,
                "{\"schemaVersion\":1,\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":%d,"
                "\"world_size\":2},\"traceEvents\":[",
                rank);
    for (int i = 0; i < 8; i++) {
        const char *where = "\"pid\":0,\"tid\":7";
        int at = 1000 + 1000 * i, pid = 100 + rank, late = rank * 40;

        mrd_buf_fmt(to,
                    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\","
                    "\"pid\":%d,\"tid\":%d,\"ts\":%d,\"dur\":990},",
                    i, pid, pid, at);
        mrd_buf_fmt(to,
                    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\","
                    "\"pid\":%d,\"tid\":%d,\"ts\":%d,\"dur\":9,\"args\":{\"correlation\":%d}},",
                    pid, pid, at + 20, i + 1);
        mrd_buf_fmt(to,
                    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",%s,\"ts\":%d,"
                    "\"dur\":%d,\"args\":{\"correlation\":%d,\"stream\":7,\"device\":0}},",
                    where, at + 100, 300 + late, i + 1);
        mrd_buf_fmt(
            to,
            "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce_Sum\",%s,"
            "\"ts\":%d,\"dur\":%d,\"args\":{\"stream\":7,\"device\":0,\"Collective "
            "name\":\"allreduce\",\"Group size\":2,\"In msg nelems\":64,\"dtype\":\"Float\","
            "\"Seq\":%d,\"Process Group Name\":\"0\",\"Process Group Ranks\":\"[0, 1]\"}},",
            where, at + 400 + late, 200 - late, i);
        mrd_buf_fmt(
            to, "{\"ph\":\"X\",\"name\":\"load %d\",\"pid\":%d,\"tid\":9,\"ts\":%d,\"dur\":5}%s", i,
            pid, at + 700, i == 7 ? "]}" : ",");
    }
}

TEST(without_memory_an_output_of_two_ranks_is_whole_or_says_so)
{
    collected c = { 0 };
    sorted_events events = { 0 };

    for (int rank = 0; rank < 2; rank++) {
        mrd_buf text = { 0 };

        put_rank(&text, rank);
        collect_text(&c, mrd_import_detect((mrd_str){ (char *) text.p, text.len }, "x.json"),
                     mrd_buf_cstr(&text));
        CHECK_ERR("import", c.err, MRD_OK);
        mrd_buf_fini(&text);
    }
    events = (sorted_events){ c.cat, calloc(c.n, sizeof(*events.v)), c.n };
    for (size_t i = 0; i < c.n; i++)
        events.v[i] = c.v[i]->ev;
    check_outputs(&events);
    free(events.v);
    collect_free(&c);
}

/* If memory fails while either side of a comparison is prepared, an error is returned, and the
 * result is not written. */
TEST(without_memory_runs_are_not_compared)
{
    static const double v[] = { 3, 1, 4, 1, 5, 9, 2, 6 };
    mrd_compare_run base[] = { { v, 8 }, { v, 7 }, { v, 6 } },
                    now[] = { { v + 1, 7 }, { v + 2, 6 } };
    unsigned refused = 0;
    mrd_err err = MRD_NOMEM;

    for (uint64_t at = 1; err != MRD_OK && at < 100; at++) {
        mrd_compared got = { .base = -77 };
        size_t before = n_live;

        calls = 0;
        fails_at = at;
        err = mrd_compare(base, MRD_COUNT(base), now, MRD_COUNT(now), &got);
        fails_at = 0;
        CHECK(n_live == before);
        CHECK((got.base == -77) == (err != MRD_OK));
        if (err == MRD_OK)
            break;
        CHECK_ERR("compare", err, MRD_NOMEM);
        refused++;
    }
    CHECK_ERR("compare", err, MRD_OK);
    CHECK(refused >= MRD_COUNT(base) + MRD_COUNT(now));
}

TEST_MAIN()
