/* Tests that cancelled conversions end at once and do not run until their time limit, for any
 * number of conversions. */
#include "aggregator/viewer/converter.h"

#include "base/sys/out.h"
#include "base/vec.h"
#include "tests/aggregator/core_make.h"
#include "tests/wait.h"
#include "tests/watcher.h"

#define SESSIONS 40u

static unsigned began, waiting, others; /* atomic */

static void
on_began(void *self, const mrd_conversion_of *of)
{
    (void) self;
    (void) of;
    __atomic_add_fetch(&began, 1, __ATOMIC_RELAXED);
}

static bool
on_list(void *self, const mrd_conversion_results *results)
{
    (void) self;
    (void) results;
    return false;
}

static void
on_ended(void *self, const mrd_conversion_of *of, const mrd_conversion_end *end)
{
    (void) self;
    (void) of;
    __atomic_add_fetch(end->state == MRD_CONVERT_WAITING ? &waiting : &others, 1, __ATOMIC_RELAXED);
}

TEST(deleted_sessions_are_not_converted)
{
    mrd_core *c = core_make((mrd_core_limits){ .conversions = 1, .retain = 0 });
    mrd_converter_settings settings = { .command = "/usr/bin/tail -f /dev/null {input}",
                                        .tables = "none",
                                        .time = 600 * MRD_SEC,
                                        .at_once = 1 };
    mrd_session_store store;
    mrd_timescale scale;
    mrd_converter_options o = { .store = &store,
                                .settings = &settings,
                                .began = on_began,
                                .list = on_list,
                                .ended = on_ended,
                                .there = true };
    mrd_converter *v = NULL;
    mrd_why why = { 0 };

    CHECK_ERR("store", mrd_session_store_open(&store, test_tmp(), MRD_SYNC_NONE, &scale, NULL),
              MRD_OK);
    CHECK_ERR(why.text, mrd_converter_open(&o, &v, &why), MRD_OK);
    REQUIRE(v != NULL);
    for (unsigned i = 1; i <= SESSIONS; i++) {
        mrd_session *s = core_session(c, i, 0, MRD_SESSION_COMPLETE);

        REQUIRE(MRD_VEC_NEXT(s->conversions.v, s->conversions.n));
        s->conversions.v[s->conversions.n++] =
            (mrd_conversion){ .instance_id = "i-1", .process_id = 7 };
        CHECK(mrd_converter_start(v, s, 0));
    }
    TEST_UNTIL(__atomic_load_n(&began, __ATOMIC_RELAXED) == 1);
    for (unsigned i = 1; i <= SESSIONS; i++)
        mrd_converter_cancel(v, i);
    TEST_UNTIL(__atomic_load_n(&waiting, __ATOMIC_RELAXED) == SESSIONS);
    CHECK_INT(began, 1); /* the others did not run at all */
    CHECK_INT(others, 0);
    mrd_converter_close(v);
    mrd_session_store_fini(&store);
    mrd_core_free(c);
}

static unsigned found; /* atomic: number of calls, and number at once */

static void
on_found(void *self, unsigned at_once)
{
    (void) self;
    __atomic_add_fetch(&found, 100 + at_once, __ATOMIC_RELAXED);
}

/* "auto" searches PATH again when it is requested. */
TEST(a_viewer_that_is_installed_later_is_found)
{
    mrd_converter_settings settings = { .command = "auto", .at_once = 3 };
    mrd_session_store store;
    mrd_timescale scale;
    mrd_converter_options o = { .store = &store, .settings = &settings, .found = on_found };
    mrd_converter *v = NULL;
    mrd_why why = { 0 };
    unsigned at_once = 9;
    char path[300];

    CHECK(setenv("PATH", test_tmp(), 1) == 0);
    CHECK_ERR("check", mrd_converter_check(&settings, &at_once, &why), MRD_OK);
    if (at_once != 0)
        SKIP("a viewer is installed on this machine");
    CHECK_ERR("store", mrd_session_store_open(&store, test_tmp(), MRD_SYNC_NONE, &scale, NULL),
              MRD_OK);
    CHECK_ERR(why.text, mrd_converter_open(&o, &v, &why), MRD_OK);
    REQUIRE(v != NULL);
    snprintf(path, sizeof(path), "%s/neuron-explorer", test_tmp());
    for (unsigned i = 0; i < 3; i++)
        mrd_converter_look(v);
    CHECK_INT(__atomic_load_n(&found, __ATOMIC_RELAXED), 0);
    CHECK_ERR(path,
              mrd_write_file(path, (mrd_bytes){ (const uint8_t *) "#!/bin/sh\n", 10 }, 0700, NULL),
              MRD_OK);
    TEST_UNTIL((mrd_converter_look(v), __atomic_load_n(&found, __ATOMIC_RELAXED) > 0));
    for (unsigned i = 0; i < 3; i++)
        mrd_converter_look(v);
    mrd_converter_close(v);
    CHECK_INT(found, 103); /* once */
    mrd_session_store_fini(&store);
}

TEST_MAIN()
