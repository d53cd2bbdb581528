/*
 * aggregator/merge/merge_clocks.h - computes the clock tables that a merge uses. Each boot of each
 * node has a table, which is also saved below the session's directory. The catalog has a row for
 * each segment of a table. Internal to aggregator/.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_CLOCKS_H
#define MRD_AGGREGATOR_MERGE_MERGE_CLOCKS_H

#include "aggregator/clock/node_clock.h"
#include "aggregator/clock/timeline.h"
#include "aggregator/merge/merge.h"

/*
 * Computes a clock table for every boot that occurs in the journal, and stores it in the boot's
 * `align`. The table is computed from the probes in the journal. A node on the aggregator's machine
 * needs no probes. If there are too few probes, the table follows the node's wall clock, has no
 * bound and is marked as unaligned. The tables are also saved to files. Errors: NOMEM.
 */
mrd_err mrd_merge_clocks_solve(const merge_input *in, const merge_node *node,
                               const mrd_journal_index *index, mrd_catalog *cat,
                               mrd_node_clock *ret_clock, mrd_why *why);
/*
 * Computes the session's timeline from the clocks of the merged nodes, and converts these clocks to
 * the timeline. Must be called once. Adds a note to the catalog for each link between two
 * timescales. If `all` is false, only some nodes are merged. In this case, the function loads the
 * timeline that the merge of the whole session saved, or else reads the clocks of all nodes.
 */
mrd_err mrd_merge_clocks_link(const merge_input *in, bool all, mrd_node_clock *const *clocks,
                              size_t n, mrd_catalog *cat, mrd_timeline *ret_timeline, mrd_why *why);
/* Returns a table that converts the node's CLOCK_MONOTONIC_RAW to its wall clock, for --clock utc.
 * It extrapolates from one reading of both clocks in the boot of `clock`. Returns NULL if out of
 * memory. */
mrd_align *mrd_merge_clocks_wall(const merge_node *node, const mrd_boot_clock *clock);
/* Adds one row to the catalog for each segment of the clock's table, and a note if measurements
 * contradict the bound. Returns the index of the row to which the clock's events refer. */
uint32_t mrd_merge_clocks_describe(const merge_node *node, const mrd_node_clock *clock, size_t i,
                                   merge_times times, mrd_catalog *cat);

#endif
