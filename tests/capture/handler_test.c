/*
 * Tests signal handlers that annotate at any time, while their thread is inside of malloc, of
 * libmeridian, or of both. The test is linked with the internals of libmeridian and intercepts
 * their allocations (--wrap).
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "capture/api/dump.h"
#include "capture/api/memory.h"
#include "capture/api/names.h"
#include "capture/api/stats.h"
#include "capture/api/thread.h"
#include "capture/meridian.h"
#include "capture/process.h"
#include "tests/check.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static bool watching, inside;
static unsigned calls, under_lock;

/* Imitates a thread inside of malloc with a signal handler that annotates, while another thread's
 * allocation waits for it. */
static void
interrupted(void)
{
    if (!watching || inside)
        return;
    inside = true;
    calls++;
    if (mrd_proc_lock())
        mrd_proc_unlock();
    else
        under_lock++;
    mrd_stats_add(1, 2, 3);
    mrd_memory_add(MRD_MEMORY_HOST, MRD_MEMORY_PROGRAM, 4242, 10);
    inside = false;
}

void *
__wrap_malloc(size_t size)
{
    interrupted();
    return __real_malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    interrupted();
    return __real_calloc(n, size);
}

void *
__wrap_realloc(void *p, size_t size)
{
    interrupted();
    return __real_realloc(p, size);
}

void
__wrap_free(void *p)
{
    interrupted();
    __real_free(p);
}

static void
begin(void)
{
    snprintf(mrd_proc_settings.ring_dir, sizeof(mrd_proc_settings.ring_dir), "%s", test_tmp());
    CHECK_INT(mrd_set_state(1), MERIDIAN_OK);
    mrd_extra_set(MRD_EXTRA_STATS, true);
    mrd_memory_want(true);
    alarm(60); /* otherwise a deadlock would last until the test's timeout */
}

static void
annotate(void)
{
    MRD_SCOPE(NULL, "work");
    mrd_push(NULL, "inner");
    mrd_memory_allocated(&watching, 100);
    mrd_pop();
}

/* The library must not allocate or free memory while it holds a lock that an annotation takes. A
 * signal handler could otherwise deadlock. */
TEST(no_allocation_under_a_lock)
{
    char file[600], *text;
    mrd_counter *counter;
    mrd_models *models;

    begin();
    annotate();
    counter = mrd_counter_create(NULL, "level", NULL, 1);
    CHECK_INT(mrd_counter_set(counter, 7), MERIDIAN_OK);
    watching = true;
    CHECK(mrd_domain_create("domain") != NULL);
    CHECK(mrd_domain_create("domain") != NULL);
    text = mrd_stats_print(true, MRD_SORT_TOTAL, true);
    CHECK(text != NULL);
    free(text);
    CHECK_INT(mrd_models_create(MRD_MODELS_ALL, 1, &models), MERIDIAN_OK);
    CHECK_INT(mrd_models_start(models), MERIDIAN_OK);
    CHECK_INT(mrd_model_loaded(5, NULL, "bytes", 5, 0, 1), MERIDIAN_OK);
    CHECK_INT(mrd_model_unloaded(5), MERIDIAN_OK);
    CHECK_INT(mrd_models_free(models), MERIDIAN_OK);
    snprintf(file, sizeof(file), "%s/dump.json", test_tmp());
    CHECK_INT(mrd_dump_set_file(file), MERIDIAN_OK);
    CHECK_INT(mrd_dump_now(true), MERIDIAN_OK);
    watching = false;
    CHECK(calls > 10);
    CHECK_INT(under_lock, 0);
    CHECK_INT(mrd_memory_untracked(), 0);
    mrd_counter_destroy(counter);
}

static volatile sig_atomic_t handled;

static void
on_alarm(int sig)
{
    (void) sig;
    annotate();
    handled = handled + 1;
}

/* A signal handler annotates while its thread prints statistics and holds the table of its
 * names. */
TEST(a_handler_of_the_printing_thread)
{
    struct sigaction act = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    struct itimerval every = { { 0, 100 }, { 0, 100 } }, none = { 0 };

    begin();
    for (uint32_t i = 1; i < 2000; i++)
        mrd_stats_add(1, i, 1);
    sigaction(SIGPROF, &act, NULL);
    setitimer(ITIMER_PROF, &every, NULL);
    while (handled < 100) {
        free(mrd_stats_print(true, MRD_SORT_TOTAL, true));
        mrd_stats_reset();
        for (uint32_t i = 1; i < 2000; i++)
            mrd_stats_add(1, i, 1);
    }
    setitimer(ITIMER_PROF, &none, NULL);
}

static void *
annotate_without_a_place(void *arg)
{
    begin();
    CHECK(mrd_proc_writer() != NULL);
    CHECK(mrd_thread_seen() == NULL);
    if (!mrd_proc_lock())
        return NULL;
    mrd_push(NULL, "inner");
    mrd_pop();
    mrd_span(NULL, "span", 1, 2, NULL, 0);
    mrd_proc_unlock();
    return arg;
}

/* Events for which the list of a thread's open scopes, or the table of statistics, has no space are
 * counted as lost. */
TEST(what_has_no_place_is_counted)
{
    uint64_t before = mrd_lost();
    char *text, *missed;
    pthread_t t;
    void *done;

    begin();
    mrd_stats_reset();
    mrd_push(NULL, "inner"); /* registers the name */
    mrd_pop();
    mrd_span(NULL, "span", 1, 2, NULL, 0);
    REQUIRE(pthread_create(&t, NULL, annotate_without_a_place, &done) == 0);
    pthread_join(t, &done);
    REQUIRE(done != NULL);
    CHECK_INT(mrd_lost(), before + 1);
    text = mrd_stats_print(true, MRD_SORT_TOTAL, true);
    REQUIRE(text != NULL);
    missed = strstr(text, "\"Missed\":1,");
    CHECK(missed != NULL);
    free(text);
    for (unsigned i = 0; i < 300; i++)
        mrd_push(NULL, "inner");
    CHECK_INT(mrd_lost(), before + 1 + 300 - MRD_THREAD_OPEN_MAX);
    for (unsigned i = 0; i < 300; i++)
        mrd_pop();
    CHECK_INT(mrd_lost(), before + 1 + 300 - MRD_THREAD_OPEN_MAX);
}

/* A signal handler uses a new name while its thread holds the lock of the names. It cannot add the
 * name, but the next annotation does. */
TEST(a_name_that_is_new_under_the_lock)
{
    static mrd_site site = MRD_SITE("first met under the lock");
    mrd_scope scope;
    size_t len = 0;

    begin();
    CHECK(mrd_proc_writer() != NULL);
    REQUIRE(mrd_proc_lock());
    mrd_scope_begin_site(&scope, NULL, &site);
    mrd_scope_end(&scope);
    mrd_proc_unlock();
    CHECK_INT(site.id, 0);
    mrd_scope_begin_site(&scope, NULL, &site);
    mrd_scope_end(&scope);
    CHECK_TEXT(mrd_names_text(site.id, &len), site.text);
}

/* A scope with a long name is in the statistics as text and as JSON. */
TEST(long_names_are_whole)
{
    static char name[MRD_RING_TEXT_MAX + 1], domain_name[MRD_RING_TEXT_MAX + 1],
        want[2 * MRD_RING_TEXT_MAX + 2];
    mrd_scope scope;

    begin();
    memset(name, 'n', sizeof(name) - 1);
    memset(domain_name, 'd', sizeof(domain_name) - 1);
    snprintf(want, sizeof(want), "%s/%s", domain_name, name);
    mrd_scope_begin(&scope, mrd_domain_create(domain_name), name);
    mrd_memory_allocated(name, 100);
    mrd_scope_end(&scope);
    for (int json = 0; json < 2; json++) {
        char *text = mrd_stats_print(json, MRD_SORT_TOTAL, true);

        CHECK(text != NULL && strstr(text, want) != NULL);
        free(text);
    }
}

/* If a thread has more open scopes than the library stores, a stop of a task ends this task and no
 * other scope. */
TEST(a_stop_among_more_than_there_is_room_for)
{
    mrd_task *early, *deep, *never;

    begin();
    early = mrd_task_create(NULL, "early");
    deep = mrd_task_create(NULL, "deep");
    never = mrd_task_create(NULL, "never");
    REQUIRE(early != NULL && deep != NULL && never != NULL);
    CHECK_INT(mrd_task_start(early), MERIDIAN_OK);
    for (unsigned i = 0; i < MRD_THREAD_OPEN_MAX + 10; i++)
        mrd_push(NULL, "inner");
    CHECK_INT(mrd_task_start(deep), MERIDIAN_OK);
    CHECK_INT(mrd_task_stop(never), MERIDIAN_STATE);
    CHECK_INT(mrd_task_stop(early), MERIDIAN_OK);
    CHECK_INT(mrd_task_stop(early), MERIDIAN_STATE);
    CHECK_INT(mrd_task_stop(deep), MERIDIAN_OK);
    CHECK_INT(mrd_task_stop(deep), MERIDIAN_STATE);
    for (unsigned i = 0; i < MRD_THREAD_OPEN_MAX + 10; i++) {
        CHECK(mrd_thread_seen()->depth > 0);
        mrd_pop();
    }
    CHECK_INT(mrd_thread_seen()->depth, 0);
    mrd_task_destroy(early);
    mrd_task_destroy(deep);
    mrd_task_destroy(never);
}

/* Signal handlers begin and end many different scopes, more than a thread can distinguish. */
TEST(more_different_ones_than_are_told_apart)
{
    mrd_task *tasks[MRD_THREAD_DEEP_MAX + 8];
    unsigned n = sizeof(tasks) / sizeof(tasks[0]);

    begin();
    for (unsigned i = 0; i < MRD_THREAD_OPEN_MAX; i++)
        mrd_push(NULL, "inner");
    for (unsigned i = 0; i < n; i++) {
        tasks[i] = mrd_task_create(NULL, "deep");
        REQUIRE(tasks[i] != NULL);
        CHECK_INT(mrd_task_start(tasks[i]), MERIDIAN_OK);
    }
    for (unsigned i = n; i-- > 0;)
        CHECK_INT(mrd_task_stop(tasks[i]), MERIDIAN_OK);
    CHECK_INT(mrd_task_stop(tasks[0]), MERIDIAN_STATE);
    CHECK_INT(mrd_thread_seen()->depth, MRD_THREAD_OPEN_MAX);
    for (unsigned i = 0; i < MRD_THREAD_OPEN_MAX; i++)
        mrd_pop();
    CHECK_INT(mrd_thread_seen()->depth, 0);
    for (unsigned i = 0; i < n; i++)
        mrd_task_destroy(tasks[i]);
}

TEST_MAIN()
