/*
 * trace/analysis/phases.h - finds the phases of a training program in traces that record no
 * devices: "forward-compute", "grads-reduce-scatter", "forward-send". Megatron's timers and
 * MegaScale's timelines write such traces.
 *
 * Worker   a process, or a thread with ranks in its name. Threads with the same ranks are tracks of
 *          one worker: "PP rank 0, TP rank 1, compute" and "PP rank 0, TP rank 1, comm". The name
 *          of a process without a rank can contain its ranks, too: "Worker-12 step".
 * Class    the class of a span follows from its name, then from its category. Rules of the user and
 *          communication (trace/analysis/kernel_names.h) come before the table of phases. Any other
 *          span is no phase.
 */
#ifndef MRD_TRACE_PHASES_H
#define MRD_TRACE_PHASES_H

#include "trace/analysis/kernel_names.h"
#include "trace/model/catalog.h"

/* Returns the class of a phase with this name or category; UNKNOWN if it is no phase. The rules may
 * be NULL. */
mrd_kernel_class mrd_phase_class(const mrd_kernel_rules *rules, mrd_str name);
/* Writes the common form of a name (trace/analysis/kernel_names.h) without numbers and the counted
 * words before them into `form`, cut to size - 1 bytes. "Forward mb 3" becomes "_forward_". */
void mrd_phase_form(mrd_str name, char *form, size_t size);
/* Returns true if the profile contains a phase of computation. If the profile contains calls of the
 * host, as PyTorch's profiler records them, only names that match a user's rule count as such a
 * phase. */
bool mrd_phase_any(const mrd_catalog *cat, const mrd_kernel_rules *rules);
/* Returns the beginning of a name that contains ranks, such as "PP rank 0, TP rank 1" or
 * "Worker-12". Returns an empty text if the name contains no rank. */
mrd_str mrd_phase_ranks(mrd_str name);
/* Stores the last number that follows "step", "iteration" or "iter" in a name: 7 in "optimizer step
 * 7". The number in "forward_step 7" does not count, because it is a microbatch. Returns false if
 * there is none. */
bool mrd_phase_step(mrd_str name, uint64_t *ret_number);
/* Compares two texts with ranks (mrd_phase_ranks), numbers by value. Returns a value below, equal
 * to or above 0. */
int mrd_phase_ranks_order(mrd_str a, mrd_str b);
/* Returns the pipeline stage in a text with ranks ("PP rank 3"); MRD_NONE if it contains no
 * stage. */
int64_t mrd_phase_stage(mrd_str ranks);

#endif
