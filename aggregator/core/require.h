/*
 * aggregator/core/require.h - whether enough nodes are ready for a session to start ("all", "any"
 * or a number), which of them are absent, and a message that says what can be done.
 */
#ifndef MRD_AGGREGATOR_CORE_REQUIRE_H
#define MRD_AGGREGATOR_CORE_REQUIRE_H

#include "aggregator/core/state.h"

/* 1 for "any", UINT64_MAX for "all". */
uint64_t mrd_require_number(const char *require);
/* Lists nodes that are meant and did not answer, or are away. */
void mrd_require_mark_absent(mrd_core *c, mrd_session *s);
/* False, with s->message, when too few nodes are ready. Who is missing counts as a node. */
bool mrd_require_is_met(mrd_session *s);

#endif
