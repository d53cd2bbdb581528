/*
 * base/event_type.h - words that choose event types, one grammar wherever types are chosen: in
 * the runtime's capture (NEURON_RT_INSPECT_EVENT_FILTER_TYPE), sessions, fetched slices, `view`.
 *
 *   nc_exec_running      that type; device_exec, as the runtime's guide calls it, means the same
 *   hardware, software   the runtime guide's groups; software is what is not hardware
 *   =step                events of this name, whatever they are: spans of a program, types of a
 *                        runtime that is newer than this list
 *   ^word                leaves these out; where every word does, all others are in
 *
 * Counters and losses have no event type: nobody asks here for them. Threads: pure.
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
mrd_err mrd_types_check(const char *const *words, size_t n, const char *const *more, size_t n_more,
                        mrd_why *why);

#endif
