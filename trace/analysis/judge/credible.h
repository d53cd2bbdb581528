/*
 * trace/analysis/judge/credible.h - finds records of devices that cannot be right, and counts them
 * for each process. There are four kinds:
 *
 *   inside   A kernel contains at least MRD_CREDIBLE_INSIDE other kernels of its stream. A stream
 *            runs one kernel after the other, so the length of the kernel is wrong. Kernels of one
 *            launch do not count, because branches of a graph run at the same time. Kernels of an
 *            unknown stream (-1) do not count either.
 *   graphs   Launches of graphs have no kernel in the trace, so the tracer did not record the
 *            kernels. If a launch lies inside another launch of its thread, both count as one
 *            launch. The outer one is a call of the runtime, the inner one a call of the driver. A
 *            graph that contains only host functions has no kernels either, and no trace
 *            distinguishes this case.
 *   early    Kernels begin before their launch, by MRD_CREDIBLE_EARLY or more. Then the device's
 *            times are too early, compared with the times of its host. If another kernel with the
 *            same launch number follows, this number was reused. The first kernel then belongs to
 *            an earlier launch, and does not count.
 *   steps    The device's tracks show steps, and no step contains device work. If some steps
 *            contain work, the others may be idle, so they do not count.
 *
 * Memory   80 bytes per track. 24 bytes and its keys in a map for each launch of a graph, and for
 *          each launch with an early kernel. At most MRD_CREDIBLE_LAUNCHES; further ones do not
 *          count.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_CREDIBLE_H
#define MRD_TRACE_CREDIBLE_H

#include "trace/analysis/workers.h"

#define MRD_CREDIBLE_INSIDE   32u
#define MRD_CREDIBLE_EARLY    (2 * MRD_US)
#define MRD_CREDIBLE_LAUNCHES (1u << 20)

typedef struct {
    uint64_t
        /* the largest number of kernels inside one kernel; 0 if below MRD_CREDIBLE_INSIDE */
        inside;
    mrd_sid around; /* name of the kernel that contains these kernels */
    mrd_dur_ns around_ns;
    uint64_t graphs,
        /* number of graph launches that begin before the last device work, and of those without any
         * kernel */
        graphs_empty;
    uint64_t early;      /* kernels that begin before their launch */
    mrd_dur_ns early_ns; /* largest time by which a kernel begins before its launch */
    /* `steps` is the number of steps on the device's tracks. steps_empty equals `steps` if none of
     * them contains device work. It is 0 if some step contains work, because then the others may
     * really be idle. It is also 0 if there is only one step. */
    uint64_t steps, steps_empty;
} mrd_credible_row;

typedef struct mrd_credible mrd_credible;

mrd_credible *mrd_credible_new(const mrd_catalog *cat); /* returns NULL if out of memory */
void mrd_credible_free(mrd_credible *credible);         /* accepts NULL */
/* Stores the launch number of an event, its argument "correlation". A framework's tracer gives the
 * same number to a launch and to all work that it launched. `key` is the string id of
 * "correlation". Returns false if the event has no number. */
bool mrd_credible_number(const mrd_catalog *cat, mrd_sid key, const mrd_event *ev, uint64_t *ret);
/* Adds a span of a device. `number` is the number of its launch, NULL if it has none. `is_launched`
 * is true if an earlier event is its launch. Errors: NOMEM. */
mrd_err mrd_credible_device(mrd_credible *credible, const mrd_work *work, const mrd_event *ev,
                            const uint64_t *number, bool is_launched);
/* Adds any other span. Errors: NOMEM. */
mrd_err mrd_credible_other(mrd_credible *credible, const mrd_event *ev, const uint64_t *number);
void mrd_credible_finish(mrd_credible *credible);
/* Returns how many records of a process are impossible, by kind. Call after mrd_credible_finish.
 * Borrowed. */
const mrd_credible_row *mrd_credible_of(const mrd_credible *credible, mrd_proc_id process);
/* Returns true if it is unknown, because of these records, how the process's devices spent their
 * time. */
bool mrd_credible_hides(const mrd_credible_row *row);

#endif
