/*
 * trace/model/activity.h - finds out whether an event in another tool's trace ran on the host or on
 * a device. It uses the event's category, and the label or name of its process.
 *
 * HOST     operators, Python frames, the user's ranges, calls of a runtime or driver.
 * DEVICE   kernels, copies and fills of a device's memory.
 * BESIDE   a range of the user or of the profiler, or a wait. Tools show it on a device's track,
 *          but the device did no work for it.
 * UNKNOWN  the category does not show where the event ran.
 *
 * Source   the activity types of Kineto (old and new spelling), HolisticTraceAnalysis' split of
 *          kernels, the process names of XLA ("/device:TPU:0"), MXNet ("gpu/0") and Kineto ("GPU
 *          0").
 */
#ifndef MRD_TRACE_ACTIVITY_H
#define MRD_TRACE_ACTIVITY_H

#include <stdint.h>

#include "base/buf.h"

typedef enum {
    MRD_ACTIVITY_UNKNOWN,
    MRD_ACTIVITY_HOST,
    MRD_ACTIVITY_DEVICE,
    MRD_ACTIVITY_BESIDE,
} mrd_activity;

mrd_activity mrd_activity_of(mrd_str category);
/*
 * Returns true if the label or name of a process is one of a device, such as "GPU 2", "MTIA 9",
 * "/device:TPU:0" or "gpu/1". Sets *ret_number to the device's number. "CPU", "/host:CPU" and names
 * without a number are no devices.
 */
bool mrd_activity_is_device(mrd_str label, int64_t *ret_number);
/* Returns true if `line` is the name of a track of an XLA device that repeats the contents of other
 * tracks: "Steps", "XLA Modules", ... */
bool mrd_activity_is_overlay(mrd_str line);

#endif
