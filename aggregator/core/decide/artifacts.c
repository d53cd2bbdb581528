/* Files that sessions list: announced, complete, logged. The owner of the disk handles their bytes. */
#include "aggregator/core/decide/artifacts.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "base/vec.h"

#define ARTIFACT_MAX (1ull << 40)

static mrd_err
list(mrd_core *c, mrd_session *s, const mrd_node *n, const Mrd__ArtifactAnnounce *o)
{
    mrd_listed_artifact *v;
    bool again = false;

    for (size_t i = 0; i < s->n_artifacts; i++) {
        const mrd_listed_artifact *a = &s->artifacts[i];

        if (strcmp(a->sha256, o->sha256) != 0)
            continue;
        if (strcmp(a->instance_id, n->instance_id) == 0 && strcmp(a->name, o->name) == 0 &&
            a->process_id == o->process_id)
            return MRD_OK;
        again = true;
    }
    if (s->n_artifacts >= MRD_ARTIFACTS_MAX)
        return MRD_LIMIT;
    if (!MRD_VEC_NEXT(s->artifacts, s->n_artifacts))
        return MRD_NOMEM;
    if (mrd_stored_files_list(&c->files, o->sha256) != MRD_OK)
        return MRD_NOMEM;
    s->artifact_bytes += again ? 0 : o->size;
    v = &s->artifacts[s->n_artifacts++];
    *v = (mrd_listed_artifact){ .size = o->size, .process_id = o->process_id, .nc_idx = o->nc_idx };
    mrd_text_set(v->sha256, sizeof(v->sha256), o->sha256);
    mrd_text_set(v->name, sizeof(v->name), o->name);
    mrd_text_set(v->kind, sizeof(v->kind), o->kind);
    mrd_text_set(v->instance_id, sizeof(v->instance_id), n->instance_id);
    mrd_session_touch(s);
    return MRD_OK;
}

static mrd_err
announced(mrd_core *c, mrd_session *s, const mrd_node *n, uint64_t session,
          const Mrd__ArtifactAnnounce *o, mrd_why *why)
{
    const char *fault = mrd_artifact_name_fault(o->name);
    mrd_err err = MRD_OK;

    if (!mrd_hash_is_valid(o->sha256))
        return mrd_why_set(why, MRD_INVALID, 0, "the announced hash is not valid");
    if (fault != NULL)
        return mrd_why_set(why, MRD_INVALID, 0, "the name %s: rename the file or its folders",
                           fault);
    if (o->size > ARTIFACT_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "the artifact is larger than 1 TiB");
    if (s == NULL && mrd_core_withheld(c, session) != NULL)
        return mrd_why_set(why, MRD_AGAIN, 0, "the artifact's session cannot be read now");
    if (session != 0 && (s == NULL || !mrd_session_is_open(s)))
        return mrd_why_set(why, MRD_STATE, 0, "the artifact's session is not open");
    if ((err = mrd_core_store_check(c, why)) != MRD_OK)
        return err;
    if (s != NULL && (err = list(c, s, n, o)) == MRD_LIMIT)
        return mrd_why_set(why, err, 0, "the session lists as many artifacts as it may (%d)",
                           MRD_ARTIFACTS_MAX);
    if (s != NULL && err != MRD_OK)
        return mrd_why_set(why, err, 0, "list of artifacts");
    return MRD_OK;
}

/* The session will not have the file. A repeated announcement counts once. */
static void
count_refused(mrd_session *s, const mrd_node *n, const char *name, const mrd_why *why)
{
    mrd_part *p = mrd_session_part(s, n->instance_id);
    char text[MRD_TEXT_MAX];

    if (p == NULL)
        return;
    snprintf(text, sizeof(text), "'%.120s': %.110s", name, why->text);
    if (p->refused_files > 0 && strcmp(text, p->refused_file) == 0)
        return;
    p->refused_files++;
    mrd_text_set(p->refused_file, sizeof(p->refused_file), text);
    mrd_session_touch(s);
}

mrd_err
mrd_core_artifact_announced(mrd_core *c, mrd_core_time now, const mrd_node *n, uint64_t session,
                            const Mrd__ArtifactAnnounce *o, mrd_why *why)
{
    mrd_why how = { 0 };
    mrd_session *s;
    mrd_err err;

    mrd_core_enter(c, now);
    s = mrd_core_session(c, session);
    err = announced(c, s, n, session, o, &how);
    if (s != NULL && mrd_session_is_open(s) && (err == MRD_INVALID || err == MRD_LIMIT))
        count_refused(s, n, o->name, &how);
    if (err != MRD_OK && why != NULL)
        *why = how;
    return err;
}

void
mrd_core_artifact_complete(mrd_core *c, mrd_core_time now, const char *sha256,
                           void (*unlogged)(void *self, const mrd_session *s,
                                            const mrd_listed_artifact *a, bool is_new),
                           void *self)
{
    mrd_core_enter(c, now);
    for (size_t i = 0; i < c->n_sessions; i++) {
        mrd_session *s = c->sessions[i];

        for (size_t k = 0; k < s->n_artifacts && !s->deleted; k++) {
            mrd_listed_artifact *a = &s->artifacts[k];
            bool is_new = !a->complete;

            if (strcmp(a->sha256, sha256) != 0)
                continue;
            if (is_new) {
                a->complete = true;
                mrd_session_touch(s);
                mrd_stored_files_grown(&c->files, sha256, a->size);
            }
            if (!a->logged)
                unlogged(self, s, a, is_new);
        }
    }
}

void
mrd_core_artifact_logged(mrd_core *c, mrd_core_time now, uint64_t session, const char *sha256)
{
    mrd_session *s;

    mrd_core_enter(c, now);
    s = mrd_core_session(c, session);
    for (size_t k = 0; s != NULL && k < s->n_artifacts; k++) {
        if (strcmp(s->artifacts[k].sha256, sha256) == 0)
            s->artifacts[k].logged = s->artifacts[k].complete;
    }
}

bool
mrd_core_artifact_is_open(const mrd_core *c, const char *sha256)
{
    for (size_t i = 0; i < c->n_sessions; i++) {
        const mrd_session *s = c->sessions[i];

        for (size_t k = 0; k < s->n_artifacts && mrd_session_is_open(s); k++) {
            if (strcmp(s->artifacts[k].sha256, sha256) == 0)
                return true;
        }
    }
    return false;
}
