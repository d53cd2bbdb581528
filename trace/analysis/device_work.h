/*
 * trace/analysis/device_work.h - classifies the spans on the device tracks of a framework's trace
 * (PyTorch, JAX and others). A span is computation, a copy, communication, or no work of the
 * device.
 *
 * These sources are used in this order, and the first with a result decides:
 *   category   a category of host work, or of annotations over other spans
 *              (trace/model/activity.h). Such a span is no work of the device.
 *   arguments  arguments of communication ("Collective name", "Group size", "In msg nelems",
 *              "Comms Id") and of a copy ("memcpy_details"). The type of an Ascend task ("Task
 *              Type") and XLA's "hlo_category" decide, too.
 *   category   a category of copies or of communication ("gpu_memcpy", "collective_comm").
 *   track      the name of the track, such as "Stream #8(MemcpyD2D)", "Group 0 Communication" or
 *              "HCCL".
 *   name       the name of the span (trace/analysis/kernel_names.h).
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
/* Returns true if this is a device's track in a framework's trace. */
bool mrd_device_work_on(const mrd_device_work *work, mrd_track_id track);
/* Returns the class of a span on a device's track. */
mrd_kernel_class mrd_device_work_class(mrd_device_work *work, const mrd_event *ev);
/* Returns the class of work with this name, from the name alone. */
mrd_kernel_class mrd_device_work_name_class(mrd_device_work *work, mrd_sid name);
/* Returns true if spans of this category are annotations over other spans. Annotations are no work.
 * The kind of track does not matter. */
bool mrd_device_work_is_beside(mrd_device_work *work, mrd_sid category);

#endif
