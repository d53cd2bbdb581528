/*
 * aggregator/core/decide/artifacts.h - inputs of the core for artifacts, which are files that
 * sessions list. A file is announced by a node, then completely stored, then listed in a log.
 */
#ifndef MRD_AGGREGATOR_CORE_DECIDE_ARTIFACTS_H
#define MRD_AGGREGATOR_CORE_DECIDE_ARTIFACTS_H

#include "aggregator/core/model/state.h"

/* Handles that a node announced a file for a session. A `session` of 0 means that the file belongs
 * to no session. Errors: INVALID, LIMIT, STATE, FULL, IO, NOMEM, AGAIN (the session cannot be read
 * at present). */
mrd_err mrd_core_artifact_announced(mrd_core *core, mrd_core_time now, const mrd_node *node,
                                    uint64_t session, const Mrd__ArtifactAnnounce *announce,
                                    mrd_why *why);
/* Handles that all bytes of a file are stored: marks the file as complete in every session that
 * lists it. Calls `unlogged` for each session without an entry for the file in its artifacts.log.
 * `is_new` is true if the file was not complete before. */
void mrd_core_artifact_complete(mrd_core *core, mrd_core_time now, const char *sha256,
                                void (*unlogged)(void *self, const mrd_session *session,
                                                 const mrd_listed_artifact *artifact, bool is_new),
                                void *self);
/* Handles that the file's entry in the session's artifacts.log is on disk. */
void mrd_core_artifact_logged(mrd_core *core, mrd_core_time now, uint64_t session,
                              const char *sha256);
/* Returns true if an open session lists the file and the file is not complete yet. */
bool mrd_core_artifact_is_open(const mrd_core *core, const char *sha256);

#endif
