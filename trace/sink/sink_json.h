/*
 * trace/sink/sink_json.h - the two halves of the json sink: system profiles (sink_json.c) and
 * device profiles (sink_json_device.c). Private to these files.
 */
#ifndef MRD_TRACE_SINK_JSON_H
#define MRD_TRACE_SINK_JSON_H

#include "trace/json/spool.h"
#include "trace/sink/sinks.h"

typedef struct mrd_json_device mrd_json_device;

/* Begins a device profile. The caller has opened the document and written the member "meridian". */
mrd_err mrd_json_device_open(const mrd_sink_env *env, mrd_jw *jw, mrd_json_device **ret_device,
                             mrd_why *why);
mrd_err mrd_json_device_event(mrd_json_device *device, mrd_jw *jw, const mrd_event *ev);
/* writes the remaining members of the document, and frees `device` */
mrd_err mrd_json_device_close(mrd_json_device *device, mrd_jw *jw, mrd_why *why);

#endif
