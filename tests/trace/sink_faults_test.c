/* Each output where memory ends while it is opened: it says so, and leaves nothing behind, because close is
 * only for what was opened (trace/model/sink.h, trace/sink/export.c). */
#include "tests/trace/profile.h"
#include "trace/analysis/compare.h"

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
static uint64_t calls, fails_at; /* 0: none */

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
    return fails_at != 0 && ++calls >= fails_at;
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

/* Of either side: no answer from a part of the values. */
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
