/*
 * tests/wait.h - waits for conditions, with a deadline. No other code in tests/ may pause
 * (house/rules: sleeps).
 *
 * TEST_UNTIL(cond) evaluates cond until it is true, for at most TEST_PATIENCE_MS, and then fails
 * the case. The condition can also drive the program under test: TEST_UNTIL((step(w), w->done)).
 * Loops of another form call test_look_again() between two evaluations and have their own deadline.
 *
 * Two pauses do not wait for a condition. test_let_it_run is for the time that a program under test
 * needs to run, or that must pass because the test is about time. test_pace is the pause between
 * two actions of a workload or of a slow client.
 */
#ifndef MRD_TESTS_WAIT_H
#define MRD_TESTS_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define TEST_PATIENCE_MS 60000

static inline void
test_sleep_us(int64_t us)
{
    struct timespec ts = { us / 1000000, us % 1000000 * 1000 };

    (void) nanosleep(&ts, NULL);
}

static inline void
test_let_it_run(int64_t ms)
{
    test_sleep_us(ms * 1000);
}

static inline void
test_pace(int64_t us)
{
    test_sleep_us(us);
}

static inline void
test_look_again(void)
{
    test_sleep_us(200);
}

static inline int64_t
test_clock_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The deadline for loops: for (int64_t end = test_deadline(); !cond && test_in_time(end);
 * test_look_again()). */
static inline int64_t
test_deadline(void)
{
    return test_clock_ms() + TEST_PATIENCE_MS;
}

static inline bool
test_in_time(int64_t end)
{
    return test_clock_ms() < end;
}

/* With tests/check.h. */
#define TEST_UNTIL(cond)                                                                           \
    do {                                                                                           \
        int64_t end_ = test_deadline();                                                            \
        bool ok_;                                                                                  \
        while (!(ok_ = (cond)) && test_in_time(end_))                                              \
            test_look_again();                                                                     \
        (void) test_check(ok_, __FILE__, __LINE__, "", #cond);                                     \
    } while (0)

#endif
