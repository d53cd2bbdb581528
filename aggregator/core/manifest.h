/*
 * aggregator/core/manifest.h - a session as JSON: <session>/session.json, which a restart goes on
 * from, and the answer of the API. docs/http.md describes the members.
 */
#ifndef MRD_AGGREGATOR_CORE_MANIFEST_H
#define MRD_AGGREGATOR_CORE_MANIFEST_H

#include "aggregator/core/state.h"

/* What a session's JSON says beside the session itself. */
typedef struct {
    mrd_sess_ns now;
    const char *store_message; /* why nothing is stored now; NULL: it is */
    bool of_file;              /* session.json: also what nobody is told */
} mrd_manifest_context;

mrd_manifest_context mrd_core_manifest_context(const mrd_core *c);
mrd_json *mrd_session_json(const mrd_session *s, const mrd_manifest_context *x); /* NULL: NOMEM */
mrd_json *mrd_listed_artifact_json(const mrd_listed_artifact *a);

/*
 * A session out of its manifest, added to the core; before any other input. Its journals are still
 * to be read: mrd_part_stored for each frame of each part. artifact_log: an array of what was logged
 * of artifacts after the manifest was written, or NULL. Errors: VERSION, CORRUPT, NOMEM, TYPE:
 * nothing is added, and the caller counts it as unreadable.
 */
mrd_err mrd_core_load_session(mrd_core *c, uint64_t id, const mrd_json *manifest,
                              const mrd_json *artifact_log, mrd_session **ret_session,
                              mrd_why *why);

/* All frames of the part were given: what the manifest counted and its journal has not is damage. */
void mrd_core_part_read(mrd_core *c, mrd_session *s, mrd_part *p);
/* A node has a journal in a session whose manifest does not name it yet: it was there. NULL without
 * memory, or when its name is none. */
mrd_part *mrd_core_found_part(mrd_core *c, mrd_session *s, const char *instance_id);
/* Its journals could not be read: as if it had not been loaded. */
void mrd_core_unload_session(mrd_core *c, mrd_session *s);

/* <store>/nodes.json: nodes that are known over restarts. */
void mrd_core_registry_text(const mrd_core *c, mrd_buf *to);
/* Adds the nodes that were seen within node_forget, at most max_nodes: nodes that sent data first, then those seen last.
 * Errors: NOMEM, VERSION. */
mrd_err mrd_core_load_registry(mrd_core *c, const mrd_json *registry, mrd_why *why);

#endif
