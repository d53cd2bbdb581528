/*
 * aggregator/core/manifest/manifest.h - a session as JSON: <session>/session.json, from which a
 * restart resumes, and the answer of the API. docs/reference/http.md describes the members.
 */
#ifndef MRD_AGGREGATOR_CORE_MANIFEST_MANIFEST_H
#define MRD_AGGREGATOR_CORE_MANIFEST_MANIFEST_H

#include "aggregator/core/model/state.h"

/* Values that a session's JSON contains in addition to the session. */
typedef struct {
    mrd_sess_ns now;
    const char *store_message; /* why nothing can be stored now, NULL if it can */
    bool of_file;              /* for session.json: includes members that the API does not show */
} mrd_manifest_context;

mrd_manifest_context mrd_core_manifest_context(const mrd_core *core);
/* Returns NULL if out of memory. */
mrd_json *mrd_session_json(const mrd_session *session, const mrd_manifest_context *context);
mrd_json *mrd_listed_artifact_json(const mrd_listed_artifact *artifact);

/*
 * Adds a session from its manifest to the core, as an input of its own. The caller then reads its
 * journals and calls mrd_part_stored for each frame of each part. `artifact_log` is an array of the
 * log entries of artifacts that are newer than the manifest, or NULL. On VERSION, CORRUPT, NOMEM
 * and TYPE nothing is added, and the caller counts the session as unreadable.
 */
mrd_err mrd_core_load_session(mrd_core *core, uint64_t id, const mrd_json *manifest,
                              const mrd_json *artifact_log, mrd_session **ret_session,
                              mrd_why *why);

/* Call this when the journal of the part was read completely. Frames that the manifest counted but
 * the journal lacks are counted as damage. */
void mrd_core_part_read(mrd_core *core, mrd_session *session, mrd_part *part);
/* Adds a part for a node that has a journal but is not in the manifest yet. Returns NULL if out of
 * memory, or if the name is not a valid instance id. */
mrd_part *mrd_core_found_part(mrd_core *core, mrd_session *session, const char *instance_id);
/* Removes a loaded session again because its journals are unreadable. */
void mrd_core_unload_session(mrd_core *core, mrd_session *session);

/* Appends the contents of <store>/nodes.json, which are the nodes that are remembered across
 * restarts. */
void mrd_core_registry_text(const mrd_core *core, mrd_buf *to);
/* Adds the nodes that were seen within node_forget, at most max_nodes. Nodes that sent data are
 * preferred, then nodes that were seen last. Errors: NOMEM, VERSION. */
mrd_err mrd_core_load_registry(mrd_core *core, const mrd_json *registry, mrd_why *why);

#endif
