/*
 * trace/sink/json_event.h - members of an event's row that the sinks in JSON have in common.
 */
#ifndef MRD_TRACE_JSON_EVENT_H
#define MRD_TRACE_JSON_EVENT_H

#include "trace/json/json_write.h"
#include "trace/model/event.h"

/* category, kind, unfinished, no_start, simulated, clock_bound_ns, flow_id, flow_dir: members that
 * stand only where they say something. */
void mrd_json_put_marks(mrd_jw *w, const mrd_event *ev);
void mrd_json_put_bound(mrd_jw *w, uint32_t bound_ns); /* clock_bound_ns; of a local time nothing */
void mrd_json_put_sample(mrd_jw *w, const mrd_event *ev); /* the value of a counter */

#endif
