/*
 * trace/sink/call_arrows.h - adds arrows of synchronous executions, which have no sequence id. It
 * is a source over another source. Private to trace/.
 *
 *   operation or annotation of a framework -> nrt_execute of the hook
 *   -> nrt_execute of the runtime's trace -> kbl_exec_pre in it
 *   -> nc_exec_running (the importer's own arrow, by exec_id)
 *
 * An arrow is drawn only if the events prove it, never to the nearest or the n-th event:
 *
 *   operation  the innermost complete span of the thread that contains the whole call. It is one
 *     point in that span (an MRD_FLOW "calls nrt_execute" at the call's begin), because the
 *     contents of a span are unknown when it begins.
 *   runtime's  a span of the same thread that begins in the call, does not end
 *     MRD_CALL_ARROW_SLACK after it, and lasts longer than twice that. Calls of a thread do not
 *     overlap, so it belongs to this call if the clocks of hook and runtime differ by less.
 *     Shorter spans get no arrow. The same holds for operations of a framework with its own
 *     clock.
 *   submission kbl_exec_pre within the runtime's span, of one core and thread, by one clock. The
 *     first one if a call executes repeatedly.
 *
 * The hook's nrt_execute may name the NTFF file with its device profile (argument ntff).
 * nc_exec_running at the end of these arrows then gets the same argument, if it begins before the
 * runtime's call ends. If a second execution begins with that arrow before, neither gets it. At
 * most 64 such executions are remembered.
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

/* Opens the source. Owns `from`, also on failure. Counts in *points the MRD_FLOW events that it
 * adds. If the profile has no calls, *ret_source is `from` itself. Errors: NOMEM. */
mrd_err mrd_call_arrows_open(mrd_source *from, const mrd_catalog *cat, uint32_t profile,
                             uint64_t *points, mrd_source **ret_source, mrd_why *why);

#endif
