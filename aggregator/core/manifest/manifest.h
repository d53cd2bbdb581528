/*
 * aggregator/core/manifest/manifest.h - writes and loads a session as JSON. The same JSON is in
 * <session>/session.json, from which a restarted aggregator continues, and in answers of the API.
 * docs/reference/http.md describes its members.
 */
#ifndef MRD_AGGREGATOR_CORE_MANIFEST_MANIFEST_H
#define MRD_AGGREGATOR_CORE_MANIFEST_MANIFEST_H

#include "aggregator/core/model/state.h"

/* Values in the JSON of a session that come from the aggregator and not from the session. */
typedef struct {
    mrd_sess_ns now;
    const char *store_message; /* why the store accepts no data at present, NULL if it does */
    /* true for session.json, which has more members than an answer of the API */
    bool of_file;
} mrd_manifest_context;

mrd_manifest_context mrd_core_manifest_context(const mrd_core *core);
/* Returns NULL if out of memory. */
mrd_json *mrd_session_json(const mrd_session *session, const mrd_manifest_context *context);
mrd_json *mrd_listed_artifact_json(const mrd_listed_artifact *artifact);

/*
 * Adds a session from its manifest to the core, as an input of the core. The caller then reads the
 * session's journals and calls mrd_part_stored for each frame of each part. `artifact_log` is an
 * array with the entries of artifacts.log that are newer than the manifest, or NULL. On an error
 * (VERSION, CORRUPT, NOMEM, TYPE) nothing is added, and the caller records the session as
 * unreadable.
 */
mrd_err mrd_core_load_session(mrd_core *core, uint64_t id, const mrd_json *manifest,
                              const mrd_json *artifact_log, mrd_session **ret_session,
                              mrd_why *why);

/* Compares a node's part of the session with the node's journal, which the caller has read
 * completely. Frames that the manifest counted but the journal lacks are counted as damage. */
void mrd_core_part_read(mrd_core *core, mrd_session *session, mrd_part *part);
/* Adds a part for a node that has a journal but is not in the manifest yet. Returns NULL if out of
 * memory, or if the name is not a valid instance id. */
mrd_part *mrd_core_found_part(mrd_core *core, mrd_session *session, const char *instance_id);
/* Removes a session that mrd_core_load_session added, because its journals are unreadable. */
void mrd_core_unload_session(mrd_core *core, mrd_session *session);

/* Appends the contents of <store>/nodes.json: the list of nodes, for the next start of the
 * aggregator. */
void mrd_core_registry_text(const mrd_core *core, mrd_buf *to);
/* Adds nodes from the registry: at most max_nodes nodes that were seen within node_forget.
 * Prefers nodes that sent data, then nodes that were seen last. Errors: NOMEM, VERSION. */
mrd_err mrd_core_load_registry(mrd_core *core, const mrd_json *registry, mrd_why *why);

#endif
