/*
 * cli/view/place.h - places device profiles on the timeline of the system profile, and finds the
 * executions that they show.
 *
 * A device profile counts time from its own start and shows one or more executions. The system
 * trace has the same executions as nc_exec_running, on the same process and core. There are two
 * ways to find them:
 *   device clock  The profile's first_hw_timestamp lies within an execution's times by the device's
 *                 clock (nc_timestamp_ns). The difference between the execution's device time and
 *                 session time then also applies to the times in the profile.
 *   duration      The profile states its length, and exactly one execution has this length, within
 *                 10 us or 0.2 %.
 *
 * If neither way works, the profile keeps its own time, and a note says why.
 *
 * The error bound of the profile's times is the bound of the execution's time, or unknown if that
 * is unknown. A profile that was placed by duration adds the difference between the two lengths.
 *
 * Memory: the executions on cores that have a device profile, at most MRD_PLACE_MAX. Threads: one.
 * The catalog (names and tracks) and the store (event streams) must outlive the mrd_places.
 */
#ifndef MRD_CLI_VIEW_PLACE_H
#define MRD_CLI_VIEW_PLACE_H

#include "cli/view/align.h"

#define MRD_PLACE_MAX (1u << 20)

typedef struct mrd_places mrd_places;

/* Finds the position of each device profile on the session's timeline. If there are device
 * profiles, it reads the system profile once, otherwise not at all. Adds notes to the catalog.
 * `alignment` may be NULL. Errors: NOMEM, errors of streams. */
mrd_err mrd_places_new(mrd_catalog *cat, mrd_store *store, mrd_alignment *alignment,
                       mrd_places **ret_places, mrd_why *why);
void mrd_places_free(mrd_places *places); /* ignores NULL */
/* Opens stream i of a placed device profile or of the system profile in session time. Takes
 * ownership of `inner`, and returns it unchanged if there is nothing to do.
 *
 * In the system profile, the events nrt_execute, nrta_execute_schedule and nc_exec_running get an
 * argument device_profile: the file of the device profile that shows them. If the device profile
 * shows just one execution and states its floating point operations, they also get flop_count. */
mrd_err mrd_places_open(mrd_places *places, size_t i, mrd_source *inner, mrd_source **ret_source,
                        mrd_why *why);
/* Moves the time range of stream i by the same offset as its events. */
void mrd_places_range(const mrd_places *places, size_t i, mrd_ev_ns *first, mrd_ev_ns *last);
/* Gets the file name of a device profile without its suffix: "device_profile_model_10001". */
void mrd_place_file(const mrd_catalog *cat, uint32_t profile, mrd_buf *ret_name);

#endif
