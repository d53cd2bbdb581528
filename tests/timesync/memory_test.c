/* Tests timesync with one failing memory allocation, each of them in turn. Either an error is
 * reported, or the output is the same as without failures. Sanitizers check that no memory is
 * leaked or wrongly read. */
#include "tests/check.h"
#include "tests/memory.h"
#include "tests/timesync/scenes.h"

/* bytes of a scene as text; larger allocations never fail, because the text itself needs them */
#define MOST 300000

typedef struct {
    mrd_err (*run)(int which, mrd_buf *to);
    int which;
    uint64_t told; /* number of failed allocations that were reported as an error */
    /* number of failed allocations that caused no error, but changed the output; mostly the bounds
     * become wider (mrd_bound_both) */
    uint64_t other;
} row;

static mrd_err
offline(int which, mrd_buf *to)
{
    return scene_offline(&scenes[which], to);
}

static mrd_err
live(int which, mrd_buf *to)
{
    return scene_live(&scenes[which], to);
}

static mrd_err
plot(int which, mrd_buf *to)
{
    return scene_plot(&scenes[which], to);
}

static mrd_err
meetings_of(int which, mrd_buf *to)
{
    return scene_meetings(&meeting_scenes[which], to);
}

static mrd_err
links(int which, mrd_buf *to)
{
    return scene_link((size_t) which, to);
}

static mrd_err
cross(int which, mrd_buf *to)
{
    return scene_cross(which * MRD_SEC, to);
}

/* Small tables, and a joiner. */
static mrd_err
small(int which, mrd_buf *to)
{
    mrd_align *a = which == 0 ? mrd_align_constant("node", 1, 5, -3, 4)
                              : mrd_align_wall("node", 1, (mrd_local_ns){ 7 }, (mrd_wall_ns){ 9 });
    mrd_joiner *j = mrd_joiner_new(9);
    mrd_err err = a == NULL || j == NULL ? MRD_NOMEM : MRD_OK;

    if (a != NULL)
        say_table(to, a, 1);
    mrd_align_free(a);
    mrd_joiner_free(j);
    return err != MRD_OK ? err : to->err;
}

static void
check(const char *name, const row *r)
{
    mrd_buf all = { 0 };
    uint64_t n, failed = 0, other = 0;

    memory_fails_at = 0;
    CHECK(mrd_buf_grow(&all, MOST));
    memory_asked = 0;
    CHECK_ERR(name, r->run(r->which, &all), MRD_OK);
    n = memory_asked;
    for (uint64_t k = 1; k <= n; k++) {
        mrd_buf some = { 0 };
        mrd_err err;

        CHECK(mrd_buf_grow(&some, MOST));
        memory_asked = 0;
        memory_fails_at = k;
        err = r->run(r->which, &some);
        memory_fails_at = 0;
        failed += err != MRD_OK;
        CHECK_ROW(name, err == MRD_OK || err == MRD_NOMEM);
        other += err == MRD_OK && (some.len != all.len || memcmp(some.p, all.p, all.len) != 0);
        mrd_buf_fini(&some);
    }
    if (failed != r->told || other != r->other) {
        fprintf(stderr,
                "%s %d: without one of %llu requests, %llu times an error was told, %llu times "
                "something else was said\n",
                name, r->which, (unsigned long long) n, (unsigned long long) failed,
                (unsigned long long) other);
        CHECK_ROW(name, false);
    }
    mrd_buf_fini(&all);
}

TEST(finished_sessions)
{
    check("offline", &(row){ offline, 3, 46, 6 });
    check("offline", &(row){ offline, 5, 57, 10 });
    check("offline", &(row){ offline, 11, 48, 7 });
}

TEST(clocks_that_are_followed)
{
    check("live", &(row){ live, 1, 4, 2 });
    check("live", &(row){ live, 3, 4, 4 });
    check("live", &(row){ live, 10, 4, 4 });
}

TEST(pictures)
{
    check("plot", &(row){ plot, 10, 30, 4 });
}

TEST(collectives)
{
    check("collectives", &(row){ meetings_of, 0, 161, 42 });
    check("collectives", &(row){ meetings_of, 2, 180, 48 });
    check("collectives", &(row){ meetings_of, 4, 143, 33 });
    check("collectives", &(row){ meetings_of, 10, 154, 41 });
}

TEST(links_and_other_clocks)
{
    check("link", &(row){ links, 0, 50, 0 });
    check("link", &(row){ links, 2, 50, 0 });
    check("cross", &(row){ cross, 3, 7, 0 });
    check("constant", &(row){ small, 0, 6, 1 });
    check("wall", &(row){ small, 1, 6, 1 });
}

TEST_MAIN()
