/*
 * aggregator/core/artifacts.h - files that sessions list: what is announced, complete, logged.
 */
#ifndef MRD_AGGREGATOR_CORE_ARTIFACTS_H
#define MRD_AGGREGATOR_CORE_ARTIFACTS_H

#include "aggregator/core/state.h"

/* A node has a file for a session (0: for none). Errors: INVALID, LIMIT, STATE, FULL, NOMEM. */
mrd_err mrd_core_artifact_announced(mrd_core *c, mrd_core_time now, const mrd_node *n,
                                    uint64_t session, const Mrd__ArtifactAnnounce *o, mrd_why *why);
/* The file is in the store: every session that lists it has it now. `unlogged` is called for each
 * place whose session does not have that on disk yet; is_new: it was not complete before. */
void mrd_core_artifact_complete(mrd_core *c, mrd_core_time now, const char *sha256,
                                void (*unlogged)(void *self, const mrd_session *s,
                                                 const mrd_listed_artifact *a, bool is_new),
                                void *self);
/* ... and now it is on disk. */
void mrd_core_artifact_logged(mrd_core *c, mrd_core_time now, uint64_t session, const char *sha256);
/* A session that may still get it lists it. */
bool mrd_core_artifact_is_open(const mrd_core *c, const char *sha256);

#endif
