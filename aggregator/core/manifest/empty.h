/*
 * aggregator/core/manifest/empty.h - how many events and processes there were to record on each
 * node, and why a finished session contains no events except counters
 */
#ifndef MRD_AGGREGATOR_CORE_MANIFEST_EMPTY_H
#define MRD_AGGREGATOR_CORE_MANIFEST_EMPTY_H

#include "aggregator/core/model/session.h"

void mrd_part_tally(mrd_part *part, const Mrd__SessionTally *tally); /* does nothing for NULL */
mrd_json *mrd_part_tally_json(const mrd_part *part);                 /* NULL if out of memory */
/* Writes a sentence about processes on the node that have the user and namespace of the session's
 * job, but that no session selected. Returns false if there are none. */
bool mrd_part_unselected_text(const mrd_part *part, char text[MRD_WHY_MAX]);
void mrd_part_tally_load(mrd_part *part, const mrd_json *json);
/* Explains in a sentence why a finished session has recorded only counters. Returns false if it has
 * recorded more than counters. */
bool mrd_session_is_empty(const mrd_session *session, char text[MRD_WHY_MAX]);

#endif
