/*
 * aggregator/core/decide/artifacts.h - inputs of the core for artifacts: a node announced a file,
 * its upload is complete, its log entry is durable
 */
#ifndef MRD_AGGREGATOR_CORE_DECIDE_ARTIFACTS_H
#define MRD_AGGREGATOR_CORE_DECIDE_ARTIFACTS_H

#include "aggregator/core/model/state.h"

/* A node announced a file for a session. Session 0 means no session. Errors: INVALID, LIMIT, STATE,
 * FULL, NOMEM. */
mrd_err mrd_core_artifact_announced(mrd_core *core, mrd_core_time now, const mrd_node *node,
                                    uint64_t session, const Mrd__ArtifactAnnounce *announce,
                                    mrd_why *why);
/* The file is completely stored. Marks it as complete in every session that lists it. Calls
 * `unlogged` for each session without the file in its log. `is_new` is true if the file was not
 * complete before. */
void mrd_core_artifact_complete(mrd_core *core, mrd_core_time now, const char *sha256,
                                void (*unlogged)(void *self, const mrd_session *session,
                                                 const mrd_listed_artifact *artifact, bool is_new),
                                void *self);
/* The line about the file in the session's artifacts.log is on disk. */
void mrd_core_artifact_logged(mrd_core *core, mrd_core_time now, uint64_t session,
                              const char *sha256);
/* Returns true if an open session lists the file and still waits for it. */
bool mrd_core_artifact_is_open(const mrd_core *core, const char *sha256);

#endif
