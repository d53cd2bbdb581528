/*
 * capture/lock.h - a spin lock in one 32-bit word, for tables that a thread changes with a few
 * stores. Internal.
 *
 * The word is the holder's process id, so a lock that another thread held at a fork is free in the
 * child. A signal handler that interrupts the holder would wait forever. Callers must prevent this.
 */
#ifndef MRD_CAPTURE_LOCK_H
#define MRD_CAPTURE_LOCK_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

static inline void
mrd_lock_word(_Atomic uint32_t *word)
{
    uint32_t me = (uint32_t) getpid(), seen = 0;

    while (!atomic_compare_exchange_weak_explicit(word, &seen, me, memory_order_acquire,
                                                  memory_order_relaxed)) {
        if (seen == me) {
            sched_yield();
            seen = 0;
        } /* the lock is free: `seen` is 0, or the pid of a parent that held the lock at the fork */
    }
}

static inline void
mrd_unlock_word(_Atomic uint32_t *word)
{
    atomic_store_explicit(word, 0, memory_order_release);
}

#endif
