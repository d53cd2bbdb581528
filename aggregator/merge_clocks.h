/*
 * aggregator/merge_clocks.h - the clocks of a merge: a table per node and boot, kept beside the
 * journal, described in the catalog segment by segment. Inside aggregator/ only.
 */
#ifndef MRD_AGGREGATOR_MERGE_CLOCKS_H
#define MRD_AGGREGATOR_MERGE_CLOCKS_H

#include "aggregator/merge.h"
#include "aggregator/node_clock.h"
#include "aggregator/timeline.h"

/*
 * From the probes in the journal, for every boot that the journal's frames name. The aggregator's
 * own clock needs none; too few are no failure: then the node's wall clock stands in, says that it
 * is unaligned, and has no bound. Tables from probes are written beside the journal. Every align is
 * set. Errors: NOMEM.
 */
mrd_err mrd_merge_clocks_solve(const merge_input *in, const merge_node *node,
                               const mrd_journal_index *index, mrd_catalog *cat,
                               mrd_node_clock *ret_clock, mrd_why *why);
/*
 * The session's timeline over the clocks of the merged nodes, which are brought to it and must not
 * have been. Where these are not all nodes of the session, what a whole merge kept is believed, or
 * else all nodes are looked at. Timescale links are notes of the catalog.
 */
mrd_err mrd_merge_clocks_link(const merge_input *in, bool all, mrd_node_clock *const *clocks,
                              size_t n, mrd_catalog *cat, mrd_timeline *ret_timeline, mrd_why *why);
/* The node's wall clock at one reading of that boot, for ever: what --clock utc shows. NULL without
 * memory. */
mrd_align *mrd_merge_clocks_wall(const merge_node *node, const mrd_boot_clock *c);
/* Adds a row per segment to the catalog and notes violations; returns the index of the first row.
 */
uint32_t mrd_merge_clocks_describe(const merge_node *node, const mrd_node_clock *clock, size_t i,
                                   merge_times times, mrd_catalog *cat);

#endif
