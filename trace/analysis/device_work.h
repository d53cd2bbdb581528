/*
 * trace/analysis/device_work.h - classifies the spans on a device's line of a framework's trace:
 * computation, a copy, communication, or no work of the device.
 *
 * These sources are used in this order, and the first with a result decides:
 *   category   of the host, or of annotations over other spans (trace/model/activity.h). Such a
 *              span is no work of the device.
 *   arguments  of communication ("Collective name", "Group size", "In msg nelems", "comms_id") and
 *              of a copy ("memcpy_details"). Also the type of an Ascend task ("Task Type") and
 *              XLA's "hlo_category".
 *   category   of copies or of communication ("gpu_memcpy", "collective_comm").
 *   line       "Stream #8(MemcpyD2D)", "Group 0 Communication", "HCCL".
 *   name       trace/analysis/kernel_names.h.
 * If none has a result, the class is UNKNOWN, which counts as computation.
 *
 * Memory   grows with names and tracks.
 * Threads  belongs to one thread.
 * Catalog  complete before mrd_device_work_new.
 * Source   argument names as Kineto (ParamCommsUtils), XLA's profiler and torch_npu write them.
 */
#ifndef MRD_TRACE_DEVICE_WORK_H
#define MRD_TRACE_DEVICE_WORK_H

#include "trace/analysis/kernel_names.h"
#include "trace/model/catalog.h"

typedef struct mrd_device_work mrd_device_work;

/* Creates a classifier. The user's rules are borrowed and may be NULL. Returns NULL if out of
 * memory. */
mrd_device_work *mrd_device_work_new(const mrd_catalog *cat, const mrd_kernel_rules *rules);
void mrd_device_work_free(mrd_device_work *work); /* accepts NULL */
/* Returns true if this track is a device's line of a framework's trace. */
bool mrd_device_work_on(const mrd_device_work *work, mrd_track_id track);
/* Returns the class of a span on a device's line. */
mrd_kernel_class mrd_device_work_class(mrd_device_work *work, const mrd_event *ev);
/* Returns the class of work with this name, from the name alone. */
mrd_kernel_class mrd_device_work_name_class(mrd_device_work *work, mrd_sid name);
/* Returns true if spans of this category are annotations over other spans, on any line. Annotations
 * are no work. */
bool mrd_device_work_is_beside(mrd_device_work *work, mrd_sid category);

#endif
