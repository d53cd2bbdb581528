/*
 * trace/sink/call_arrows.h - arrows of synchronous executions, which carry no sequence id: a source in
 * front of another that adds them. Inside trace/ only.
 *
 *   framework's operation or annotation -> nrt_execute of the hook -> nrt_execute of the runtime's trace
 *   -> kbl_exec_pre in it; from there the importer's own goes to nc_exec_running, by exec_id.
 *
 * An arrow is drawn where the events themselves prove it, never by the nearest or the n-th:
 *
 *   operation  the innermost complete span of the thread that contains the whole call. It is one point in
 *              that span (an MRD_FLOW "calls nrt_execute" at the call's begin), for what a span will contain is not known when it begins.
 *   runtime's  of the same thread, begins in the call and does not end MRD_CALL_ARROW_SLACK behind it,
 *              and lasts longer than twice that: calls of a thread do not overlap, so it cannot be another's while
 *              the clocks of hook and runtime differ by less. Shorter ones get none. The same holds for operations of
 *              a framework's own clock.
 *   submission kbl_exec_pre within the runtime's span, of one core and thread, by one clock; of a call that
 *              executes repeatedly, the first.
 *
 * Where the hook's nrt_execute names the NTFF file that shows its inside (argument ntff), nc_exec_running
 * at the end of these arrows gets the same argument, when it begins before the runtime's call
 * ends. Where a second execution begins with that arrow before, neither is named. At most 64 such
 * executions are remembered.
 *
 * Spans without a begin or an end get none, and none that have such arrows already, from a file that was
 * written with them. An arrow may begin and not end: what it led to was not recorded. Memory: per thread
 * MRD_CALL_ARROW_OPEN open operations.
 */
#ifndef MRD_TRACE_SINK_CALL_ARROWS_H
#define MRD_TRACE_SINK_CALL_ARROWS_H

#include "trace/model/catalog.h"
#include "trace/model/source.h"

#define MRD_CALL_ARROW_SLACK 50000 /* ns */
#define MRD_CALL_ARROW_OPEN  64

/* Owns `from`, also on failure. *points counts the MRD_FLOW that it puts in between. Where the profile has no
 * calls, *ret_source is `from` itself. Errors: NOMEM. */
mrd_err mrd_call_arrows_open(mrd_source *from, const mrd_catalog *cat, uint32_t profile,
                             uint64_t *points, mrd_source **ret_source, mrd_why *why);

#endif
