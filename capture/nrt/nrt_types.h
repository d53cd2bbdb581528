/*
 * capture/nrt/nrt_types.h - selects the event types that the runtime records. Types that are not in
 * the list are disabled. Sync points stay enabled if device events stay enabled, because they are
 * needed to map the times of device events. Internal.
 */
#ifndef MRD_CAPTURE_NRT_NRT_TYPES_H
#define MRD_CAPTURE_NRT_NRT_TYPES_H

#include <stdbool.h>

#define MRD_NRT_FILTER_TYPE "NEURON_RT_INSPECT_EVENT_FILTER_TYPE"

/* Selects the types in `list`, which are separated by commas. NULL and "" mean all types. With
 * `strict`, an unknown type is an error. Calls `leave_out` for each type that is not in the list.
 * `leave_out` disables that type in `options`, and returns false if the runtime refuses. Returns
 * NULL on success, otherwise the reason of the failure. */
const char *mrd_nrt_types_choose(const char *list, bool strict,
                                 bool (*leave_out)(void *options, const char *type), void *options,
                                 char why[300]);

#endif
