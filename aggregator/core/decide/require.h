/*
 * aggregator/core/decide/require.h - decides whether enough nodes are ready for a session to start.
 * The session requires "all" nodes, "any" node, or a number of nodes. The functions also find the
 * absent nodes, and write the message that a waiting session shows.
 */
#ifndef MRD_AGGREGATOR_CORE_DECIDE_REQUIRE_H
#define MRD_AGGREGATOR_CORE_DECIDE_REQUIRE_H

#include "aggregator/core/model/state.h"

/* Returns the number of nodes that `require` demands: 1 for "any", UINT64_MAX for "all". */
uint64_t mrd_require_number(const char *require);
/* Adds a part to the session for each selected node that is absent. Its state is REFUSED if the
 * node did not answer, MISSING if it is not connected. */
void mrd_require_mark_absent(mrd_core *core, mrd_session *session);
/* Returns true if enough nodes are ready for the session's requirement. Otherwise sets
 * session->message and returns false. With the requirement "all", each missing node counts as not
 * ready. */
bool mrd_require_is_met(mrd_session *session);

#endif
