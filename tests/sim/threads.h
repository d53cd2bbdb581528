/*
 * tests/sim/threads.h - threads of simulated machines. In a program that is linked with
 * mrd_sim_threads (CMake) and has called sim_threads_begin, threads run one at a time, in simulated
 * time, on their own stacks. pthread_create, _join, cond_wait, cond_timedwait, cond_signal and
 * cond_broadcast are replaced, and the simulation decides when a thread continues.
 *
 * A thread stops only when it waits for a condition and in sim_thread_pause. The order of all
 * actions is therefore the order of simulated time, and the seed repeats a run. Mutexes are the
 * system's: a thread must not pause while it holds one that others use. Before sim_threads_begin
 * and after sim_threads_end everything is the system's.
 *
 * A join or a wait outside of these threads runs the threads of that machine in turn, without
 * passing time, until the thread ends or the condition is checked again. If a service is closed on
 * a dead machine, its threads run into errors and end.
 */
#ifndef MRD_TESTS_SIM_THREADS_H
#define MRD_TESTS_SIM_THREADS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_thread sim_thread;

typedef struct {
    /* Must call sim_thread_run(t, turn) after ns nanoseconds. */
    void (*later)(void *self, int64_t ns, sim_thread *t, uint64_t turn);
    int64_t (*monotonic)(void *self); /* for deadlines of conditions */
    /* `owner` returns the machine whose code runs, and `enter` switches to another machine. Both
     * are NULL if there is only one machine. */
    void *(*owner)(void *self);
    void (*enter)(void *self, void *owner);
    void *self;
} sim_threads_options;

void sim_threads_begin(const sim_threads_options *options);
/* Ends the simulation of threads. Aborts if a simulated thread has not ended. */
void sim_threads_end(void);

/* Continues the thread unless it has continued since. A thread that has ended and was joined is
 * ignored. */
void sim_thread_run(sim_thread *t, uint64_t turn);
/* Lets time pass for the calling thread. Does nothing outside of these threads. */
void sim_thread_pause(int64_t ns);

#endif
