/* Artifacts are files that sessions list. The core learns that a node announced a file, that it was
 * stored completely, and that it is in the session's log on disk. The file's bytes are written by
 * aggregator/store/. */
#include "aggregator/core/decide/artifacts.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "base/vec.h"

#define ARTIFACT_MAX (1ull << 40)

static mrd_err
list(mrd_core *core, mrd_session *session, const mrd_node *node,
     const Mrd__ArtifactAnnounce *announce)
{
    mrd_listed_artifact *artifact;
    bool again = false;

    for (size_t i = 0; i < session->n_artifacts; i++) {
        const mrd_listed_artifact *listed_artifact = &session->artifacts[i];

        if (strcmp(listed_artifact->sha256, announce->sha256) != 0)
            continue;
        if (strcmp(listed_artifact->instance_id, node->instance_id) == 0 &&
            strcmp(listed_artifact->name, announce->name) == 0 &&
            listed_artifact->process_id == announce->process_id)
            return MRD_OK;
        again = true;
    }
    if (session->n_artifacts >= MRD_ARTIFACTS_MAX)
        return MRD_LIMIT;
    if (!MRD_VEC_NEXT(session->artifacts, session->n_artifacts))
        return MRD_NOMEM;
    if (mrd_stored_files_list(&core->files, announce->sha256) != MRD_OK)
        return MRD_NOMEM;
    session->artifact_bytes += again ? 0 : announce->size;
    artifact = &session->artifacts[session->n_artifacts++];
    *artifact = (mrd_listed_artifact){ .size = announce->size,
                                       .process_id = announce->process_id,
                                       .nc_idx = announce->nc_idx };
    mrd_text_set(artifact->sha256, sizeof(artifact->sha256), announce->sha256);
    mrd_text_set(artifact->name, sizeof(artifact->name), announce->name);
    mrd_text_set(artifact->kind, sizeof(artifact->kind), announce->kind);
    mrd_text_set(artifact->instance_id, sizeof(artifact->instance_id), node->instance_id);
    mrd_session_touch(session);
    return MRD_OK;
}

static mrd_err
announced(mrd_core *core, mrd_session *s, const mrd_node *node, uint64_t session,
          const Mrd__ArtifactAnnounce *announce, mrd_why *why)
{
    const char *fault = mrd_artifact_name_fault(announce->name);
    mrd_err err = MRD_OK;

    if (!mrd_hash_is_valid(announce->sha256))
        return mrd_why_set(why, MRD_INVALID, 0, "the announced hash is not valid");
    if (fault != NULL)
        return mrd_why_set(why, MRD_INVALID, 0, "the name %s: rename the file or its folders",
                           fault);
    if (announce->size > ARTIFACT_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "the artifact is larger than 1 TiB");
    if (s == NULL && mrd_core_withheld(core, session) != NULL)
        return mrd_why_set(why, MRD_AGAIN, 0, "the artifact's session cannot be read now");
    if (session != 0 && (s == NULL || !mrd_session_is_open(s)))
        return mrd_why_set(why, MRD_STATE, 0, "the artifact's session is not open");
    if ((err = mrd_core_store_check(core, why)) != MRD_OK)
        return err;
    if (s != NULL && (err = list(core, s, node, announce)) == MRD_LIMIT)
        return mrd_why_set(why, err, 0, "the session lists as many artifacts as it may (%d)",
                           MRD_ARTIFACTS_MAX);
    if (s != NULL && err != MRD_OK)
        return mrd_why_set(why, err, 0, "list of artifacts");
    return MRD_OK;
}

/* Counts an announced file that the core refuses and that is therefore never stored. Repeated
 * announcements count once. */
static void
count_refused(mrd_session *session, const mrd_node *node, const char *name, const mrd_why *why)
{
    mrd_part *part = mrd_session_part(session, node->instance_id);
    char text[MRD_TEXT_MAX];

    if (part == NULL)
        return;
    snprintf(text, sizeof(text), "'%.120s': %.110s", name, why->text);
    if (part->refused_files > 0 && strcmp(text, part->refused_file) == 0)
        return;
    part->refused_files++;
    mrd_text_set(part->refused_file, sizeof(part->refused_file), text);
    mrd_session_touch(session);
}

mrd_err
mrd_core_artifact_announced(mrd_core *core, mrd_core_time now, const mrd_node *node,
                            uint64_t session, const Mrd__ArtifactAnnounce *announce, mrd_why *why)
{
    mrd_why how = { 0 };
    mrd_session *s;
    mrd_err err;

    mrd_core_enter(core, now);
    s = mrd_core_session(core, session);
    err = announced(core, s, node, session, announce, &how);
    if (s != NULL && mrd_session_is_open(s) && (err == MRD_INVALID || err == MRD_LIMIT))
        count_refused(s, node, announce->name, &how);
    if (err != MRD_OK && why != NULL)
        *why = how;
    return err;
}

void
mrd_core_artifact_complete(mrd_core *core, mrd_core_time now, const char *sha256,
                           void (*unlogged)(void *self, const mrd_session *session,
                                            const mrd_listed_artifact *artifact, bool is_new),
                           void *self)
{
    mrd_core_enter(core, now);
    for (size_t i = 0; i < core->n_sessions; i++) {
        mrd_session *session = core->sessions[i];

        for (size_t k = 0; k < session->n_artifacts && !session->deleted; k++) {
            mrd_listed_artifact *artifact = &session->artifacts[k];
            bool is_new = !artifact->complete;

            if (strcmp(artifact->sha256, sha256) != 0)
                continue;
            if (is_new) {
                artifact->complete = true;
                mrd_session_touch(session);
                mrd_stored_files_grown(&core->files, sha256, artifact->size);
            }
            if (!artifact->logged)
                unlogged(self, session, artifact, is_new);
        }
    }
}

void
mrd_core_artifact_logged(mrd_core *core, mrd_core_time now, uint64_t session, const char *sha256)
{
    mrd_session *s;

    mrd_core_enter(core, now);
    s = mrd_core_session(core, session);
    for (size_t k = 0; s != NULL && k < s->n_artifacts; k++) {
        if (strcmp(s->artifacts[k].sha256, sha256) == 0)
            s->artifacts[k].logged = s->artifacts[k].complete;
    }
}

bool
mrd_core_artifact_is_open(const mrd_core *core, const char *sha256)
{
    for (size_t i = 0; i < core->n_sessions; i++) {
        const mrd_session *session = core->sessions[i];

        for (size_t k = 0; k < session->n_artifacts && mrd_session_is_open(session); k++) {
            if (strcmp(session->artifacts[k].sha256, sha256) == 0)
                return true;
        }
    }
    return false;
}
