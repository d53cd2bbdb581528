/*
 * base/event_type.h - parses lists of words that choose event types. The same grammar applies to
 * the runtime's capture (NEURON_RT_INSPECT_EVENT_FILTER_TYPE), sessions, parts of a profile that a
 * user downloads, and the command `view`.
 *
 *   nc_exec_running      chooses this type. device_exec, the type's name in the runtime's guide, is
 *                        also accepted.
 *   hardware, software   choose a group of types. The runtime's guide lists the group hardware, and
 *                        software is all other types.
 *   diagnosis            chooses all types except the most frequent ones, which say nothing about
 *                        time. These are the freeing of tensors, the bookkeeping of device memory,
 *                        and the copies to the device, which the span of the tensor's write covers.
 *   all                  chooses every type.
 *   =step                chooses events with this name. These are spans of a program, or types of a
 *                        newer runtime.
 *   ^word                excludes the types that `word` chooses. If all words begin with ^, all
 *                        other types are chosen.
 *
 * Counters and losses have no event type, so they cannot be chosen here. Threads: pure.
 */
#ifndef MRD_BASE_EVENT_TYPE_H
#define MRD_BASE_EVENT_TYPE_H

#include "base/buf.h"

/* Returns true if the type is in the hardware group (nc_exec_running, cc_running, ...). */
bool mrd_type_is_hardware(mrd_str name);
/* Returns true if the n words choose events with this name. If n is 0, all events are chosen. */
bool mrd_types_want(const char *const *words, size_t n, mrd_str name);
/* Replaces the words `all` and `diagnosis` by words ^type with the same meaning, because older
 * agents do not support them. Errors: NOMEM. */
mrd_err mrd_types_expand(mrd_strlist *words);
/* Returns a name for what the words choose: "all", "diagnosis" or "selected". */
const char *mrd_types_set(const mrd_strlist *words);
/*
 * Checks that words are valid. A type must be in event_type.def or among the n_more names in
 * `more`. Errors: INVALID. The message has the first wrong word and suggests the nearest known
 * word.
 */
mrd_err mrd_types_check(const char *const *words, size_t count, const char *const *more,
                        size_t n_more, mrd_why *why);

#endif
