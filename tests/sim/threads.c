#include "tests/sim/threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/obj.h"

#define STACK (512u << 10)
/* a joined thread that has not ended after this many turns is taken as hanging */
#define SPINS_MAX 1000000u
#define WAKE_NS   20000 /* simulated time until a signalled thread runs */
#define SECOND    1000000000

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SIM_ASAN
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SIM_ASAN
#endif
#ifdef SIM_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

struct sim_thread {
    sim_thread *next;
    ucontext_t at;
    void *stack;
    void *(*run)(void *arg);
    void *arg, *result;
    uint64_t turn, round;
    const pthread_cond_t *waits; /* NULL: for no condition */
    void *owner;                 /* of the creating thread */
    bool done, joined, signalled;
    void *fake; /* of the sanitizer */
};

static sim_threads_options o;
static bool begun;
static sim_thread *threads, *current;
static ucontext_t outside;
#ifdef SIM_ASAN
static void *outside_fake;
static const void *outside_stack;
static size_t outside_size;
#endif

/* ---- Switching ---- */

static void
to_outside(sim_thread *t)
{
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(t->done ? NULL : &t->fake, outside_stack, outside_size);
#endif
    swapcontext(&t->at, &outside);
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(t->fake, &outside_stack, &outside_size);
#endif
}

static void
to_thread(sim_thread *t)
{
    void *was = o.owner == NULL ? NULL : o.owner(o.self);

    if (o.enter != NULL)
        o.enter(o.self, t->owner);
    current = t;
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(&outside_fake, t->stack, STACK);
#endif
    swapcontext(&outside, &t->at);
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(outside_fake, NULL, NULL);
#endif
    current = NULL;
    if (o.enter != NULL)
        o.enter(o.self, was);
}

static void
first(void)
{
    sim_thread *t = current;

#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(NULL, &outside_stack, &outside_size);
#endif
    t->result = t->run(t->arg);
    t->done = true;
    to_outside(t);
}

static void
free_joined(void)
{
    for (sim_thread **at = &threads; *at != NULL;) {
        sim_thread *t = *at;

        if (!t->joined) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        munmap(t->stack, STACK);
        free(t);
    }
}

static bool
is_known(const sim_thread *t)
{
    const sim_thread *k = threads;

    while (k != NULL && k != t)
        k = k->next;
    return k != NULL;
}

void
sim_thread_run(sim_thread *t, uint64_t turn)
{
    if (!is_known(t) || t->done || t->turn != turn)
        return;
    t->turn++;
    to_thread(t);
}

/* Turns are counted over all threads, so that a thread in a reused slot is distinguished. */
static uint64_t
new_turn_number(void)
{
    static uint64_t last;

    return ++last << 8;
}

static uint64_t
new_turn(sim_thread *t)
{
    return t->turn = new_turn_number();
}

void
sim_thread_pause(int64_t ns)
{
    sim_thread *t = current;

    if (t == NULL)
        return;
    o.later(o.self, ns, t, new_turn(t));
    to_outside(t);
}

void
sim_threads_begin(const sim_threads_options *options)
{
    o = *options;
    begun = true;
}

void
sim_threads_end(void)
{
    free_joined();
    if (threads != NULL) {
        fprintf(stderr, "a thread of the simulation has not ended\n");
        abort();
    }
    begun = false;
}

/* ---- Replacements of system functions ---- */

extern int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                                 void *arg);
extern int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                                 void *arg);
int
__wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    sim_thread *t;

    if (!begun)
        return __real_pthread_create(ret, attr, run, arg);
    if ((t = calloc(1, sizeof(*t))) == NULL)
        return EAGAIN;
    t->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (t->stack == MAP_FAILED) {
        free(t);
        return EAGAIN;
    }
    t->run = run;
    t->arg = arg;
    t->owner = o.owner == NULL ? NULL : o.owner(o.self);
    getcontext(&t->at);
    t->at.uc_stack.ss_sp = t->stack;
    t->at.uc_stack.ss_size = STACK;
    t->at.uc_link = NULL;
    makecontext(&t->at, first, 0);
    t->next = threads;
    threads = t;
    *ret = (pthread_t) t;
    o.later(o.self, WAKE_NS, t, new_turn(t));
    return 0;
}

/* Lets a waiting thread continue without passing simulated time, like a spurious wake-up. */
static void
go_on(sim_thread *t)
{
    t->waits = NULL;
    new_turn(t);
    to_thread(t);
}

/* Lets all waiting threads of an owner run. */
static void
run_all(const void *owner)
{
    uint64_t last = new_turn_number();

    for (;;) { /* the list changes when a thread starts or ends others */
        sim_thread *t = threads;

        while (t != NULL && (t->done || t->owner != owner || t->round == last))
            t = t->next;
        if (t == NULL)
            return;
        t->round = last;
        go_on(t);
    }
}

extern int __real_pthread_join(pthread_t which, void **ret);
extern int __wrap_pthread_join(pthread_t which, void **ret);
int
__wrap_pthread_join(pthread_t which, void **ret)
{
    sim_thread *t = (sim_thread *) which;

    if (!begun || !is_known(t))
        return __real_pthread_join(which, ret);
    MRD_ASSERT(current == NULL);
    for (unsigned i = 0; !t->done; i++) {
        if (i == SPINS_MAX) {
            fprintf(stderr, "a thread that is joined does not end\n");
            abort();
        }
        go_on(t);
        if (!t->done)
            run_all(t->owner); /* it may wait for others */
    }
    if (ret != NULL)
        *ret = t->result;
    t->joined = true;
    free_joined();
    return 0;
}

/* Waits for the condition for at most ns nanoseconds, or without limit if ns < 0. */
static int
wait_for(pthread_cond_t *c, pthread_mutex_t *lock, int64_t ns)
{
    sim_thread *t = current;
    uint64_t turn = new_turn(t);

    t->waits = c;
    t->signalled = false;
    if (ns >= 0)
        o.later(o.self, ns, t, turn);
    pthread_mutex_unlock(lock);
    to_outside(t);
    pthread_mutex_lock(lock);
    t->waits = NULL;
    return t->signalled || ns < 0 ? 0 : ETIMEDOUT;
}

/* A wait outside of the threads checks its condition again after all of the owner's threads have
 * run. */
static int
wait_outside(pthread_mutex_t *lock)
{
    pthread_mutex_unlock(lock);
    run_all(o.owner == NULL ? NULL : o.owner(o.self));
    pthread_mutex_lock(lock);
    return 0;
}

extern int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock);
extern int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock);
int
__wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock)
{
    if (current == NULL)
        return begun ? wait_outside(lock) : __real_pthread_cond_wait(c, lock);
    return wait_for(c, lock, -1);
}

extern int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *lock,
                                         const struct timespec *end);
extern int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *lock,
                                         const struct timespec *end);
int
__wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *lock, const struct timespec *end)
{
    int64_t left;

    if (current == NULL)
        return begun ? wait_outside(lock) : __real_pthread_cond_timedwait(c, lock, end);
    left = end->tv_sec * (int64_t) SECOND + end->tv_nsec - o.monotonic(o.self);
    return wait_for(c, lock, left < 0 ? 0 : left);
}

static void
wake(const pthread_cond_t *c, bool all)
{
    sim_thread *oldest = NULL;

    for (sim_thread *t = threads; t != NULL; t = t->next) { /* the newest is first */
        if (t->waits != c || t->signalled)
            continue;
        oldest = t;
        if (all) {
            t->signalled = true;
            o.later(o.self, WAKE_NS, t, new_turn(t));
        }
    }
    if (!all && oldest != NULL) {
        oldest->signalled = true;
        o.later(o.self, WAKE_NS, oldest, new_turn(oldest));
    }
}

extern int __real_pthread_cond_signal(pthread_cond_t *c);
extern int __wrap_pthread_cond_signal(pthread_cond_t *c);
int
__wrap_pthread_cond_signal(pthread_cond_t *c)
{
    wake(c, false);
    return __real_pthread_cond_signal(c);
}

extern int __real_pthread_cond_broadcast(pthread_cond_t *c);
extern int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
int
__wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
    wake(c, true);
    return __real_pthread_cond_broadcast(c);
}
