/*
 * base/event_type.h - the grammar for choosing event types. The same grammar applies to the
 * runtime's capture (NEURON_RT_INSPECT_EVENT_FILTER_TYPE), sessions, fetched slices and `view`.
 *
 *   nc_exec_running      this type; device_exec, its name in the runtime's guide, is accepted too
 *   hardware, software   the groups of the runtime's guide; software is all that is not hardware
 *   =step                events with this name: spans of a program, or types of a newer runtime
 *   ^word                excludes these types; if every word excludes, all other types are chosen
 *
 * Counters and losses have no event type, so they cannot be chosen here. Threads: pure.
 */
#ifndef MRD_BASE_EVENT_TYPE_H
#define MRD_BASE_EVENT_TYPE_H

#include "base/buf.h"

/* True for the hardware group: nc_exec_running, cc_running, ... */
bool mrd_type_is_hardware(mrd_str name);
/* The words (n of them; none: everything) choose events of this name. */
bool mrd_types_want(const char *const *words, size_t n, mrd_str name);
/*
 * Each word is one of the above, its type known here or among `more` (n_more names).
 * Errors: INVALID, with the first that is not and what is nearest to it.
 */
mrd_err mrd_types_check(const char *const *words, size_t count, const char *const *more,
                        size_t n_more, mrd_why *why);

#endif
