/*
 * aggregator/core/decide/require.h - decides whether enough nodes are ready for a session to start
 * ("all", "any" or a number), which of them are absent, and with which message a session waits
 */
#ifndef MRD_AGGREGATOR_CORE_DECIDE_REQUIRE_H
#define MRD_AGGREGATOR_CORE_DECIDE_REQUIRE_H

#include "aggregator/core/model/state.h"

/* Returns the required number of nodes: 1 for "any", UINT64_MAX for "all". */
uint64_t mrd_require_number(const char *require);
/* Adds a part in state MISSING or REFUSED for each selected node that did not answer or is not
 * connected. */
void mrd_require_mark_absent(mrd_core *core, mrd_session *session);
/* Returns false and sets session->message if too few nodes are ready. "all" includes missing
 * nodes. */
bool mrd_require_is_met(mrd_session *session);

#endif
