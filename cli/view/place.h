/*
 * cli/view/place.h - places device profiles on the time of the system profile, and finds the
 * executions that they show.
 *
 * The times of a device profile count from its own start. The profile shows one or more executions.
 * The system trace has these as nc_exec_running, on the same process and core. They are found in
 * one of two ways:
 *   device clock  first_hw_timestamp of the profile lies within the device times (nc_timestamp_ns)
 *                 of the executions. The difference between their device times and session times
 *                 then also maps the profile's times.
 *   duration      the profile states its length, and exactly one execution has this length, within
 *                 10 us or 0.2 %.
 * Otherwise the profile stays on its own time, and a note says why. The bound of its times is the
 * bound of the execution's time (unknown if that has none). If it was placed by duration, the
 * difference of the lengths is added.
 *
 * Memory: the executions on cores that have a device profile, at most MRD_PLACE_MAX.
 * Threads: one. Catalog and store outlive it.
 */
#ifndef MRD_CLI_VIEW_PLACE_H
#define MRD_CLI_VIEW_PLACE_H

#include "cli/view/align.h"

#define MRD_PLACE_MAX (1u << 20)

typedef struct mrd_places mrd_places;

/* Finds out where each device profile lies on the session's timeline. Reads the system profile once
 * if there are device profiles, otherwise not at all. Adds notes to the catalog. alignment may be
 * NULL. Errors: NOMEM, errors of streams. */
mrd_err mrd_places_new(mrd_catalog *cat, mrd_store *store, mrd_alignment *alignment,
                       mrd_places **ret_places, mrd_why *why);
void mrd_places_free(mrd_places *places); /* ignores NULL */
/* Opens stream i of a placed device profile or of the system profile in session time. In the system
 * profile, nrt_execute, nrta_execute_schedule and nc_exec_running get the argument device_profile,
 * which is the file of the placed profile that shows them. If that profile shows one execution and
 * states its floating point operations, they also get flop_count. Takes ownership of `inner`, and
 * returns it unchanged if there is nothing to do. */
mrd_err mrd_places_open(mrd_places *places, size_t i, mrd_source *inner, mrd_source **ret_source,
                        mrd_why *why);
/* Moves the time range of stream i by the same offset as its events. */
void mrd_places_range(const mrd_places *places, size_t i, mrd_ev_ns *first, mrd_ev_ns *last);
/* Gets the file name of a device profile without its suffix: "device_profile_model_10001". */
void mrd_place_file(const mrd_catalog *cat, uint32_t profile, mrd_buf *ret_name);

#endif
