/*
 * base/event_type.h - the grammar of lists of words that choose event types. The same grammar
 * applies to the runtime's capture (NEURON_RT_INSPECT_EVENT_FILTER_TYPE), sessions, fetched slices
 * and `view`.
 *
 *   nc_exec_running      this type. device_exec, its name in the runtime's guide, is accepted too.
 *   hardware, software   the groups of the runtime's guide. software is all that is not hardware.
 *   diagnosis            all but the most frequent events, which say nothing about time. These are
 *                        the freeing of tensors, the bookkeeping of device memory, and the copies
 *                        to the device, which a tensor's write contains.
 *   all                  every type.
 *   =step                events with this name. These are spans of a program, or types of a newer
 *                        runtime.
 *   ^word                excludes these types. If every word excludes, all other types are chosen.
 *
 * Counters and losses have no event type, so they cannot be chosen here. Threads: pure.
 */
#ifndef MRD_BASE_EVENT_TYPE_H
#define MRD_BASE_EVENT_TYPE_H

#include "base/buf.h"

/* Returns true if the type is in the hardware group (nc_exec_running, cc_running, ...). */
bool mrd_type_is_hardware(mrd_str name);
/* Returns true if the n words choose events with this name. No words choose everything. */
bool mrd_types_want(const char *const *words, size_t n, mrd_str name);
/* Replaces the words `all` and `diagnosis`, which older agents do not know, by excluded types.
 * Errors: NOMEM. */
mrd_err mrd_types_expand(mrd_strlist *words);
/* Returns the name of the chosen set: "all", "diagnosis" or "selected". */
const char *mrd_types_set(const mrd_strlist *words);
/*
 * Checks words of the grammar above. A type must be in the table of this module or among the
 * n_more names in `more`. Errors: INVALID. The message has the first wrong word and the nearest
 * known one.
 */
mrd_err mrd_types_check(const char *const *words, size_t count, const char *const *more,
                        size_t n_more, mrd_why *why);

#endif
