/*
 * trace/sink/call_arrows.h - a source that returns the events of another source, and adds
 * arrows for synchronous executions, which have no sequence id. Private to trace/.
 *
 *   operation or annotation of a framework -> nrt_execute of the hook
 *   -> nrt_execute of the runtime's trace -> kbl_exec_pre in it
 *   -> nc_exec_running (the importer's own arrow, by exec_id)
 *
 * An arrow is drawn only if times and ids prove that its two ends belong together. It is never
 * drawn to an event only because this is the nearest or the n-th one. The ends are:
 *
 *   operation  the innermost complete span of the thread that contains the whole call. The arrow
 *     begins at an additional MRD_FLOW event "calls nrt_execute" at the call's begin. It cannot be
 *     part of the span, because the span is passed on before the call is known.
 *   runtime's  a span of the same thread that begins in the call, ends at most MRD_CALL_ARROW_SLACK
 *     after the call, and lasts longer than twice MRD_CALL_ARROW_SLACK. Calls of a thread do not
 *     overlap, so the span belongs to this call if the clocks of hook and runtime differ by less
 *     than MRD_CALL_ARROW_SLACK. Shorter spans get no arrow. The same holds for operations of a
 *     framework with its own clock.
 *   submission kbl_exec_pre within the runtime's span, on the same core and thread, by the same
 *     clock. If a call executes repeatedly, the arrow leads to the first one.
 *
 * The hook's nrt_execute may name the NTFF file with its device profile (argument ntff). The
 * nc_exec_running at the end of these arrows then gets the same argument, if it begins before the
 * runtime's call ends. If a second kbl_exec_pre begins the same arrow before that, no execution
 * gets the argument. At most 64 such executions are remembered.
 *
 * Spans without a begin or an end get no arrows, and neither do spans that already have such arrows
 * from a file. An arrow may begin without an end if its destination was not recorded. Memory:
 * MRD_CALL_ARROW_OPEN open operations per thread.
 */
#ifndef MRD_TRACE_SINK_CALL_ARROWS_H
#define MRD_TRACE_SINK_CALL_ARROWS_H

#include "trace/model/catalog.h"
#include "trace/model/source.h"

#define MRD_CALL_ARROW_SLACK 50000 /* ns, tolerance for the difference between two clocks */
#define MRD_CALL_ARROW_OPEN  64

/* Opens a source that returns the events of `from` with arrows. Takes ownership of `from`, also on
 * failure. Counts in *points the MRD_FLOW events that the source adds. If the profile has no calls,
 * *ret_source is `from` itself. Errors: NOMEM. */
mrd_err mrd_call_arrows_open(mrd_source *from, const mrd_catalog *cat, uint32_t profile,
                             uint64_t *points, mrd_source **ret_source, mrd_why *why);

#endif
