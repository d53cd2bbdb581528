/* Tests threads in simulated time (tests/sim/threads.h). Their actions must be in the order of that
 * time and the same in each run. */
#include "tests/sim/threads.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/sys/pool.h"
#include "tests/check.h"

#define SECOND 1000000000

/* ---- A clock and pending tasks ---- */

static struct {
    int64_t at;
    sim_thread *t;
    uint64_t turn;
} due[100];
static size_t n_due;
static int64_t now;

static void
later(void *self, int64_t ns, sim_thread *t, uint64_t turn)
{
    (void) self;
    due[n_due].at = now + ns;
    due[n_due].t = t;
    due[n_due++].turn = turn;
}

static int64_t
monotonic(void *self)
{
    (void) self;
    return now;
}

static void
run_until(int64_t end)
{
    for (;;) {
        size_t first = n_due;
        sim_thread *t;
        uint64_t turn;

        for (size_t i = 0; i < n_due; i++) {
            if (due[i].at <= end && (first == n_due || due[i].at < due[first].at))
                first = i;
        }
        if (first == n_due)
            break;
        now = due[first].at;
        t = due[first].t;
        turn = due[first].turn;
        due[first] = due[--n_due];
        sim_thread_run(t, turn);
    }
    now = end;
}

static void
begin(void)
{
    n_due = 0;
    now = 0;
    sim_threads_begin(&(sim_threads_options){ .later = later, .monotonic = monotonic });
}

/* ---- Cases ---- */

static char text[2000];

static void
say(const char *what)
{
    char line[64];

    snprintf(line, sizeof(line), "%lld:%s ", (long long) (now / 1000000), what);
    strcat(text, line);
}

static void *
sleeper(void *arg)
{
    for (int i = 0; i < 3; i++) {
        say(arg);
        sim_thread_pause((((char *) arg)[0] == 'a' ? 10 : 25) * 1000000);
    }
    return arg;
}

TEST(threads_run_in_the_order_of_time)
{
    char a[] = "a", b[] = "b";
    pthread_t ta = 0, tb = 0;
    void *result = NULL;

    text[0] = '\0';
    begin();
    CHECK(pthread_create(&ta, NULL, sleeper, a) == 0 && pthread_create(&tb, NULL, sleeper, b) == 0);
    CHECK_TEXT(text, ""); /* nothing runs by itself */
    run_until(60 * 1000000);
    CHECK_TEXT(text, "0:a 0:b 10:a 20:a 25:b 50:b ");
    CHECK(pthread_join(ta, &result) == 0 && result == a);
    /* thread b waits for 15 ms more, but a join takes no simulated time */
    CHECK(pthread_join(tb, NULL) == 0);
    CHECK_INT(now, 60 * 1000000);
    sim_threads_end();
}

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t news;
    int waiting, taken, timeouts;
    bool closing;
} box;

static void *
taker(void *arg)
{
    box *b = arg;

    pthread_mutex_lock(&b->lock);
    while (!b->closing) {
        if (b->waiting > 0) {
            b->waiting--;
            b->taken++;
            continue;
        }
        pthread_cond_wait(&b->news, &b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void
put(box *b, bool closing)
{
    pthread_mutex_lock(&b->lock);
    b->waiting += !closing;
    b->closing = closing;
    pthread_cond_signal(&b->news);
    pthread_mutex_unlock(&b->lock);
}

TEST(a_signal_wakes_one_that_waits)
{
    box b = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };
    pthread_t t;

    begin();
    CHECK(pthread_create(&t, NULL, taker, &b) == 0);
    run_until(1000000);
    put(&b, false);
    CHECK_INT(b.taken, 0);
    run_until(2000000);
    CHECK_INT(b.taken, 1);
    put(&b, false);
    put(&b, false); /* the thread was signalled by the previous call, but has not run yet */
    run_until(3000000);
    CHECK_INT(b.taken, 3);
    put(&b, true);
    CHECK(pthread_join(t, NULL) == 0);
    sim_threads_end();
}

static void *
patient(void *arg)
{
    box *b = arg;
    struct timespec end = { 0, 500 * 1000000 };

    pthread_mutex_lock(&b->lock);
    b->timeouts += pthread_cond_timedwait(&b->news, &b->lock, &end) == ETIMEDOUT;
    pthread_mutex_unlock(&b->lock);
    say(b->timeouts > 0 ? "late" : "told");
    return NULL;
}

TEST(a_deadline_is_one_of_the_fake_time)
{
    box b = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };
    pthread_t t;

    text[0] = '\0';
    begin();
    CHECK(pthread_create(&t, NULL, patient, &b) == 0);
    run_until(499 * 1000000);
    CHECK_TEXT(text, "");
    run_until(SECOND);
    CHECK_TEXT(text, "500:late ");
    CHECK(pthread_join(t, NULL) == 0);
    b.timeouts = 0;
    now = 0;
    CHECK(pthread_create(&t, NULL, patient, &b) == 0);
    run_until(100 * 1000000);
    pthread_cond_signal(&b.news);
    run_until(SECOND);
    CHECK_TEXT(text, "500:late 100:told ");
    CHECK(pthread_join(t, NULL) == 0);
    sim_threads_end();
}

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t news;
    bool asked, answered;
} talk;

static void *
asks(void *arg)
{
    talk *k = arg;

    pthread_mutex_lock(&k->lock);
    k->asked = true;
    pthread_cond_broadcast(&k->news);
    while (!k->answered)
        pthread_cond_wait(&k->news, &k->lock);
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

static void *
answers(void *arg)
{
    talk *k = arg;

    pthread_mutex_lock(&k->lock);
    while (!k->asked)
        pthread_cond_wait(&k->news, &k->lock);
    k->answered = true;
    pthread_cond_broadcast(&k->news);
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

TEST(who_is_joined_may_wait_for_others)
{
    talk k = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };
    pthread_t asker, answerer;

    begin();
    CHECK(pthread_create(&asker, NULL, asks, &k) == 0);
    CHECK(pthread_create(&answerer, NULL, answers, &k) == 0);
    CHECK(pthread_join(asker, NULL) == 0 && k.answered);
    CHECK(pthread_join(answerer, NULL) == 0);
    sim_threads_end();
}

TEST(a_wait_outside_ends_when_a_thread_says_so)
{
    talk k = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };
    pthread_t t;

    begin();
    CHECK(pthread_create(&t, NULL, answers, &k) == 0);
    pthread_mutex_lock(&k.lock);
    k.asked = true;
    while (!k.answered)
        pthread_cond_wait(&k.news, &k.lock);
    pthread_mutex_unlock(&k.lock);
    CHECK(pthread_join(t, NULL) == 0);
    sim_threads_end();
}

static void
slow_work(void *self, void *job)
{
    (void) self;
    sim_thread_pause(20 * 1000000);
    say(job);
}

TEST(a_pool_works_side_by_side_and_ends)
{
    char jobs[4][2] = { "1", "2", "3", "4" };
    mrd_pool *pool;

    text[0] = '\0';
    begin();
    CHECK_ERR("pool", mrd_pool_open("test", 2, 10, &pool, NULL), MRD_OK);
    run_until(1000000);
    for (unsigned i = 0; i < 4; i++)
        CHECK(mrd_pool_put(pool, slow_work, NULL, jobs[i]));
    run_until(25 * 1000000);
    CHECK_TEXT(text, "21:1 21:2 ");
    mrd_pool_close(pool); /* what waits is done first */
    CHECK_TEXT(text, "21:1 21:2 25:3 25:4 ");
    sim_threads_end();
}

TEST_MAIN()
