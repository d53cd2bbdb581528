/*
 * aggregator/merge/merge_clocks.h - the clocks of a merge. Each node and boot has a clock table. It
 * is stored next to the journal, and the catalog has a row for each of its segments. Internal to
 * aggregator/.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_CLOCKS_H
#define MRD_AGGREGATOR_MERGE_MERGE_CLOCKS_H

#include "aggregator/clock/node_clock.h"
#include "aggregator/clock/timeline.h"
#include "aggregator/merge/merge.h"

/*
 * Computes a clock table from the probes in the journal, for every boot that occurs in the journal.
 * The aggregator's own clock needs no probes. If there are too few probes, the node's wall clock is
 * used instead, marked as unaligned and without a bound. Tables from probes are written next to the
 * journal. Sets the `align` of every boot. Errors: NOMEM.
 */
mrd_err mrd_merge_clocks_solve(const merge_input *in, const merge_node *node,
                               const mrd_journal_index *index, mrd_catalog *cat,
                               mrd_node_clock *ret_clock, mrd_why *why);
/*
 * Computes the session's timeline from the clocks of the merged nodes, and converts these clocks to
 * the timeline. Must be called once. Without `all`, the timeline stored by the merge of the whole
 * session is used, or else the clocks of all nodes are read. Links between timescales are added to
 * the catalog as notes.
 */
mrd_err mrd_merge_clocks_link(const merge_input *in, bool all, mrd_node_clock *const *clocks,
                              size_t n, mrd_catalog *cat, mrd_timeline *ret_timeline, mrd_why *why);
/* Returns the node's wall clock as a function of its RAW clock, extrapolated from one reading in
 * that boot, for --clock utc. NULL if out of memory. */
mrd_align *mrd_merge_clocks_wall(const merge_node *node, const mrd_boot_clock *clock);
/* Adds one row to the catalog for each segment of the clock, and notes violated bounds. Returns the
 * index of the first row. */
uint32_t mrd_merge_clocks_describe(const merge_node *node, const mrd_node_clock *clock, size_t i,
                                   merge_times times, mrd_catalog *cat);

#endif
