/*
 * capture/process.h - what libmeridian keeps per process: settings, the gate, the rings of its
 * threads. Internal.
 *
 * State that must not survive a fork is in pages that read as zero in the child, so it holds for
 * any way to fork. The lock is a word with the owner's tid: it is never held across anything that
 * blocks except making a ring, and a signal handler that would wait for its own thread is refused.
 */
#ifndef MRD_CAPTURE_PROCESS_H
#define MRD_CAPTURE_PROCESS_H

#include "capture/ring_write.h"
#include "capture/settings.h"
#include "capture/sources.h"

/* Sources that record now: what meridian.h reads inline. Exported. */
extern __attribute__((visibility("default"))) uint32_t mrd_gate;
#define MRD_PROC_WAS_ON 256u /* bit of the gate: something begun may be left to end */

extern mrd_ring_clock_id mrd_proc_clock; /* of all ticks in this process */
extern mrd_settings mrd_proc_settings;

/* What the Neuron hooks do when recording was turned on, or is about to be turned off; NULL where they are not linked. lacks: why
 * the runtime's calls are not recorded, NULL when they are or there is no runtime. */
typedef struct {
    void (*turned_on)(void);
    void (*turning_off)(void);
    const char *(*lacks)(void);
} mrd_proc_late_calls;
extern mrd_proc_late_calls mrd_proc_late;

/* The calling thread's ring; `ready` is 0 when it has none yet. */
extern _Thread_local mrd_ring_writer *mrd_tls_writer
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Gives the calling thread a ring; NULL (the event counted as NORING) when it cannot have one. */
mrd_ring_writer *mrd_proc_attach(void);
static inline mrd_ring_writer *
mrd_proc_writer(void)
{
    mrd_ring_writer *w = mrd_tls_writer;

    return __builtin_expect(w->ready, 1) ? w : mrd_proc_attach();
}

/* Has the calling thread hand on what it holds when it ends: its ring, and what leaves (if not NULL,
 * before any thread) knows of. */
void mrd_proc_at_thread_exit(void);
extern void (*mrd_proc_thread_leaves)(void);
/* False: the calling thread holds the lock already (a signal handler). */
bool mrd_proc_lock(void);
void mrd_proc_unlock(void);
/* The same for what is known of models (capture/models.c). No annotation takes it, so that memory may be allocated
 * under it; under mrd_proc_lock none may: a signal handler that interrupted malloc may wait for that one. */
bool mrd_proc_lock_models(void);
void mrd_proc_unlock_models(void);
/* Memory from the system, zeroed; NULL without. wipe: reads as zero in a fork's child (then NULL
 * also where the kernel cannot do that). Keeps errno, which annotations promise. */
void *mrd_proc_map(size_t len, bool wipe);

/* A length in ticks as nanoseconds, by the rate between the library's load and `now`. */
int64_t mrd_proc_ticks_ns(int64_t ticks, const mrd_ring_cal *now);

/* Whether the program runs and is not paused; recomputes the gate. */
void mrd_proc_set_running(bool running);
void mrd_proc_set_paused(bool paused);
/* What the agent asks, for sessions: 1 records, unless the program itself said stop; 0 does not; -1 leaves it to
 * the program. Returns whether that is something else than before. */
bool mrd_proc_set_asked(int asked);
void mrd_proc_set_sources(unsigned sources); /* MRD_CAP_* */
bool mrd_proc_paused(void);
unsigned mrd_proc_get_sources(void);
bool mrd_proc_gave_up(void);
/* Whether this process may ever record: the environment does not forbid it. */
bool mrd_proc_possible(void);
/* As mrd_status_text of meridian.h; static. */
const char *mrd_proc_status(void);
/* Events lost in this process, all causes. */
uint64_t mrd_proc_lost(void);
/* Who this process says it is in its rings. */
const mrd_ring_owner_claim *mrd_proc_claim(void);
/* The process that recorded first here; 0 before. Differs in a fork's child. */
uint32_t mrd_proc_pid(void);
/* A number that no process had which this one was forked from; without a system call. */
uint32_t mrd_proc_mark(void);
/* An id that no other span of the process has, nor one of its parents had at the fork. */
static inline uint64_t
mrd_rec_next_id(mrd_ring_writer *w)
{
    return (uint64_t) w->serial << 44 | ++w->id_seq;
}
/* Data bytes that a further ring of the process may have; 0: none. */
size_t mrd_proc_ring_room(void);
/* Of the calling thread's ring, before it has one: its size; that it is read behind all others. */
void mrd_proc_want_ring_size(size_t bytes);
void mrd_proc_want_ring_rest(void);
/* Name of the calling thread for the picture. Text is copied. */
void mrd_proc_thread_name(const char *name);
/* Calls fn for each ring of the process, under the lock. */
void mrd_proc_each_ring(void (*fn)(void *ctx, mrd_ring_writer *w), void *ctx);

#endif
