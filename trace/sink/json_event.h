/* trace/sink/json_event.h - writes those members of an event that all JSON output formats have. */
#ifndef MRD_TRACE_JSON_EVENT_H
#define MRD_TRACE_JSON_EVENT_H

#include "trace/json/json_write.h"
#include "trace/model/event.h"

/* Writes the members category, kind, unfinished, no_start, simulated, clock_bound_ns, flow_id and
 * flow_dir. Members for which the event has no value are left out. */
void mrd_json_put_marks(mrd_jw *jw, const mrd_event *ev);
/* Writes clock_bound_ns, the error bound of the event's time. Writes nothing for a time on the
 * local clock, which has no bound. */
void mrd_json_put_bound(mrd_jw *jw, uint32_t bound_ns);
/* writes the value of a counter's sample */
void mrd_json_put_sample(mrd_jw *jw, const mrd_event *ev);

#endif
