/*
 * capture/process.h - the state of libmeridian per process: settings, the gate, the rings of its
 * threads. Internal.
 *
 * State that must not survive a fork is in pages that the kernel zeroes in the child, so no fork
 * handler is needed. The lock of the process is a word with the holder's tid. It is never held
 * during a blocking operation except the creation of a ring. A signal handler that interrupted the
 * holder cannot take the lock: mrd_proc_lock fails there instead of waiting forever.
 */
#ifndef MRD_CAPTURE_PROCESS_H
#define MRD_CAPTURE_PROCESS_H

#include "capture/ring/ring_write.h"
#include "capture/settings.h"
#include "capture/sources.h"

/* Bits of the sources (MRD_CAP_*) that record now. Inline functions of meridian.h read this
 * variable, so it is exported. */
extern __attribute__((visibility("default"))) uint32_t mrd_gate;
/* bit of mrd_gate: something was recorded earlier, so spans may be open and need their end */
#define MRD_PROC_WAS_ON 256u

extern mrd_ring_clock_id mrd_proc_clock; /* the clock of all ticks in this process */
extern mrd_settings mrd_proc_settings;

/* Callbacks of the hooks for the Neuron runtime. `turned_on` is called after recording was turned
 * on, and `turning_off` before it is turned off. `lacks` returns why the runtime's calls are not
 * recorded, or NULL if they are recorded or there is no runtime. The callbacks are NULL if the
 * hooks are not linked. */
typedef struct {
    void (*turned_on)(void);
    void (*turning_off)(void);
    const char *(*lacks)(void);
} mrd_proc_late_calls;
extern mrd_proc_late_calls mrd_proc_late;

/* The calling thread's ring. Its `ready` is 0 if the thread has no ring yet. */
extern _Thread_local mrd_ring_writer *mrd_tls_writer
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Gives the calling thread a ring. Returns NULL if that is impossible, after counting the event as
 * lost with the cause NORING. */
mrd_ring_writer *mrd_proc_attach(void);
static inline mrd_ring_writer *
mrd_proc_writer(void)
{
    mrd_ring_writer *writer = mrd_tls_writer;

    return __builtin_expect(writer->ready, 1) ? writer : mrd_proc_attach();
}

/* Registers the calling thread for cleanup at its end. The cleanup makes its ring available to
 * other threads and calls mrd_proc_thread_leaves, unless that is NULL. mrd_proc_thread_leaves must
 * be set before the first thread registers. */
void mrd_proc_at_thread_exit(void);
extern void (*mrd_proc_thread_leaves)(void);
/* Takes the lock of the process. Returns false if the calling thread already holds the lock, which
 * happens in a signal handler. */
bool mrd_proc_lock(void);
void mrd_proc_unlock(void);
/* Like mrd_proc_lock, but for the lock that protects the list of models (capture/nrt/models.c).
 * Annotations do not take this lock, so its holder may call malloc. The holder of mrd_proc_lock
 * must not, because a signal handler that interrupted malloc may wait for mrd_proc_lock. */
bool mrd_proc_lock_models(void);
void mrd_proc_unlock_models(void);
/* Returns zeroed memory from the system, or NULL if out of memory. With `wipe`, the memory reads as
 * zero in a child of fork. The result is then also NULL if the kernel does not support this. The
 * function keeps errno, as meridian.h promises for annotations. */
void *mrd_proc_map(size_t len, bool wipe);

/* Converts a duration in ticks to nanoseconds, with the rate measured between the library's load
 * and `now`. */
int64_t mrd_proc_ticks_ns(int64_t ticks, const mrd_ring_cal *now);

/* Set whether the program wants recording (mrd_set_state) and whether it has paused recording
 * (mrd_pause). Both recompute mrd_gate. */
void mrd_proc_set_running(bool running);
void mrd_proc_set_paused(bool paused);
/* Sets what the agent requests for sessions: 1 records unless the program itself called stop, 0
 * does not record, -1 lets the program decide. Returns true if the value changed. */
bool mrd_proc_set_asked(int asked);
void mrd_proc_set_sources(unsigned sources); /* `sources` is a combination of MRD_CAP_* bits */
bool mrd_proc_paused(void);
unsigned mrd_proc_get_sources(void);
bool mrd_proc_gave_up(void);
/* Returns true unless the environment forbids this process to record. */
bool mrd_proc_possible(void);
/* Returns the text for mrd_status_text (meridian.h). The text is static. */
const char *mrd_proc_status(void);
/* Returns the number of events lost in this process, from all causes. */
uint64_t mrd_proc_lost(void);
/* Returns the identity of this process as its rings store it. */
const mrd_ring_owner_claim *mrd_proc_claim(void);
/* Returns the pid of the process that uses this state, or 0 before its first recording. A child of
 * fork has its own state, so it never gets the pid of its parent. */
uint32_t mrd_proc_pid(void);
/* Returns a number that differs from the numbers of all ancestor processes. Makes no system
 * call. */
uint32_t mrd_proc_mark(void);
/* Returns a span id that is unique in the process and differs from ids of its ancestors at the
 * fork. */
static inline uint64_t
mrd_rec_next_id(mrd_ring_writer *writer)
{
    return (uint64_t) writer->serial << 44 | ++writer->id_seq;
}
/* Returns how many data bytes the next ring of the process may have, or 0 if it may make no more
 * rings. */
size_t mrd_proc_ring_room(void);
/* These functions configure the calling thread's ring before it exists. mrd_proc_want_ring_size
 * sets its size. After mrd_proc_want_ring_rest, readers read it after all other rings of the
 * process. */
void mrd_proc_want_ring_size(size_t bytes);
void mrd_proc_want_ring_rest(void);
/* Sets the calling thread's display name. Copies the text. */
void mrd_proc_thread_name(const char *name);
/* Calls fn for each ring of the process while holding the lock. */
void mrd_proc_each_ring(void (*fn)(void *ctx, mrd_ring_writer *writer), void *ctx);

#endif
