/*
 * tests/sim/threads.h - threads of simulated machines: a program that is linked with
 * mrd_sim_threads (CMake) and has begun has its threads run one at a time, in fake time, on stacks
 * of their own. pthread_create, _join, cond_wait, cond_timedwait, cond_signal and cond_broadcast are
 * answered here; a thread goes on when the simulation says so.
 *
 * A thread stops where it waits for a condition and in sim_thread_pause, nowhere else, so the order
 * of everything is that of the fake time, and a run is repeated by its seed. Mutexes are the
 * system's: nobody may pause with one that others take. Before sim_threads_begin and after
 * sim_threads_end all of it is the system's.
 *
 * Joining from outside of them, or waiting for a condition there, runs the threads of that machine in
 * turn, without time passing, until the one has ended or the condition is looked at again: whoever
 * closes a service whose machine is dead sees its threads run into errors, and end.
 */
#ifndef MRD_TESTS_SIM_THREADS_H
#define MRD_TESTS_SIM_THREADS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_thread sim_thread;

typedef struct {
    /* sim_thread_run(t, turn) is to be called so much later. */
    void (*later)(void *self, int64_t ns, sim_thread *t, uint64_t turn);
    int64_t (*monotonic)(void *self); /* for deadlines of conditions */
    /* Of more than one machine: whose turn it is, and whose it is from now on. NULL: of one. */
    void *(*owner)(void *self);
    void (*enter)(void *self, void *owner);
    void *self;
} sim_threads_options;

void sim_threads_begin(const sim_threads_options *options);
/* Aborts while a thread of it has not ended. */
void sim_threads_end(void);

/* Goes on with it unless it went on since. A thread that has ended and was joined is passed over. */
void sim_thread_run(sim_thread *t, uint64_t turn);
/* Lets time pass for the thread that calls; outside of threads it does nothing. */
void sim_thread_pause(int64_t ns);

#endif
