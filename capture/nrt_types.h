/*
 * capture/nrt_types.h - chooses event types at the runtime: of all that it has, those that the words do not
 * choose are left out. Sync points stay where the device's events do: their times are mapped by them. Internal.
 */
#ifndef MRD_CAPTURE_NRT_TYPES_H
#define MRD_CAPTURE_NRT_TYPES_H

#include <stdbool.h>

#define MRD_NRT_FILTER_TYPE "NEURON_RT_INSPECT_EVENT_FILTER_TYPE"

/* list: words between commas; NULL and "": all types. strict: a word that nobody knows is an error.
 * leave_out is called for each type that is not wanted; false: the runtime does not. NULL, or why it
 * cannot be. */
const char *mrd_nrt_types_choose(const char *list, bool strict,
                                 bool (*leave_out)(void *options, const char *type), void *options,
                                 char why[300]);

#endif
