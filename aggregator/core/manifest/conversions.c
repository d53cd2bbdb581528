#include "aggregator/core/manifest/conversions.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/json.h"
#include "aggregator/core/common/text.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"

/* ---- The list of conversions ---- */

static mrd_map_key
key_of(const char *instance_id, int64_t process_id)
{
    return (mrd_map_key){ .a = mrd_hash64(instance_id, strlen(instance_id), (uint64_t) process_id),
                          .b = (uint64_t) process_id };
}

static mrd_err
add(const mrd_core *core, mrd_session_conversions *conversions, const mrd_listed_artifact *artifact)
{
    if (conversions->n == MRD_CONVERSIONS_MAX) {
        conversions->left_out++;
        return MRD_OK;
    }
    if (!MRD_VEC_NEXT(conversions->v, conversions->n))
        return MRD_NOMEM;
    conversions->v[conversions->n] =
        (mrd_conversion){ .process_id = artifact->process_id,
                          .state = core->limits.conversions == 0 ? MRD_CONVERT_NOT_INSTALLED
                                                                 : MRD_CONVERT_WAITING };
    mrd_text_set(conversions->v[conversions->n].instance_id,
                 sizeof(conversions->v[conversions->n].instance_id), artifact->instance_id);
    conversions->n++;
    return MRD_OK;
}

/* Plans the conversions of a session: one for each process that has a complete device profile (an
 * NTFF file). */
static mrd_err
plan(const mrd_core *core, mrd_session *session)
{
    mrd_session_conversions *conversions = &session->conversions;
    mrd_map seen = { 0 };
    mrd_err err = MRD_OK;

    conversions->left_out = 0;
    for (size_t i = 0; i < conversions->n && err == MRD_OK; i++)
        err = mrd_map_put(&seen,
                          key_of(conversions->v[i].instance_id, conversions->v[i].process_id), 0);
    for (size_t i = 0; i < session->n_artifacts && err == MRD_OK; i++) {
        const mrd_listed_artifact *artifact = &session->artifacts[i];
        mrd_map_key key = key_of(artifact->instance_id, artifact->process_id);

        if (strcmp(artifact->kind, "NTFF") == 0 && artifact->complete &&
            mrd_map_get(&seen, key) == MRD_MAP_NONE && (err = mrd_map_put(&seen, key, 0)) == MRD_OK)
            err = add(core, conversions, artifact);
    }
    mrd_map_fini(&seen);
    return err;
}

static bool
is_ready(const mrd_core *core, const mrd_session *session)
{
    return session->step == MRD_STEP_OVER && session->state == MRD_SESSION_COMPLETE &&
           session->closed && !session->deleted && !mrd_session_is_merging(session) &&
           mrd_core_store_message(core) == NULL;
}

void
mrd_session_convert(mrd_core *core, mrd_session *session)
{
    mrd_session_conversions *conversions = &session->conversions;
    int64_t under_way = 0;

    if (!is_ready(core, session))
        return;
    if (!conversions->planned) {
        if (plan(core, session) != MRD_OK)
            return; /* out of memory; tried again at the next tick */
        conversions->planned = true;
        if (conversions->n > 0)
            mrd_session_touch(session);
        if (conversions->left_out > 0)
            mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-CONVERT-LEFT-OUT",
                            "Device profiles of further processes are not converted: id=%s "
                            "processes=%zu limit=%d",
                            session->text, conversions->left_out, MRD_CONVERSIONS_MAX);
    }
    for (size_t i = 0; i < conversions->n; i++)
        under_way += conversions->v[i].sent;
    for (size_t i = 0; i < conversions->n && under_way < core->limits.conversions; i++) {
        mrd_effect *effect;

        if (conversions->v[i].sent || conversions->v[i].state != MRD_CONVERT_WAITING ||
            !mrd_effects_room(&core->out, 4))
            continue;
        conversions->v[i].sent = true;
        under_way++;
        effect = mrd_effects_add(&core->out, MRD_DO_CONVERT);
        effect->session = session;
        effect->value = i;
    }
}

bool
mrd_session_is_converting(const mrd_session *session)
{
    for (size_t i = 0; i < session->conversions.n; i++) {
        if (session->conversions.v[i].sent)
            return true;
    }
    return false;
}

/* ---- The end of a conversion ---- */

static mrd_conversion *
find(mrd_core *core, const mrd_conversion_of *of, mrd_session **ret_session)
{
    mrd_session *session = mrd_core_any_session(core, of->session);
    mrd_conversion *conversion =
        session == NULL
            ? NULL
            : mrd_conversions_find(&session->conversions, of->instance_id, of->process_id);

    *ret_session = session;
    return conversion != NULL && conversion->sent ? conversion : NULL;
}

void
mrd_core_conversion_began(mrd_core *core, mrd_core_time now, const mrd_conversion_of *of)
{
    mrd_session *session;
    mrd_conversion *conversion;

    mrd_core_enter(core, now);
    if ((conversion = find(core, of, &session)) == NULL || session->deleted)
        return;
    conversion->state = MRD_CONVERT_RUNNING;
    conversion->runs++;
    mrd_session_touch(session);
    mrd_core_save(core, session);
}

/* Removes the results of this conversion from the session's artifacts. */
static void
unlist(mrd_core *core, mrd_session *session, const mrd_conversion *conversion)
{
    size_t kept = 0;

    for (size_t i = 0; i < session->n_artifacts; i++) {
        const mrd_listed_artifact *artifact = &session->artifacts[i];

        if (artifact->process_id == conversion->process_id &&
            strcmp(artifact->instance_id, conversion->instance_id) == 0 &&
            mrd_kind_is_converted(artifact->kind)) {
            mrd_stored_files_retire(&core->files, artifact->sha256);
            mrd_stored_files_unlist(&core->files, artifact->sha256);
            session->artifact_bytes -=
                artifact->size < session->artifact_bytes ? artifact->size : session->artifact_bytes;
            continue;
        }
        if (kept != i)
            session->artifacts[kept] = *artifact;
        kept++;
    }
    if (kept != session->n_artifacts)
        mrd_effects_add(&core->out, MRD_DO_SWEEP);
    session->n_artifacts = kept;
}

/* Marks all results of a conversion as complete in one step. */
static void
complete(mrd_core *core, mrd_session *session, const mrd_conversion *conversion)
{
    for (size_t i = 0; i < session->n_artifacts; i++) {
        mrd_listed_artifact *artifact = &session->artifacts[i];

        if (artifact->complete || artifact->process_id != conversion->process_id ||
            !mrd_kind_is_converted(artifact->kind) ||
            strcmp(artifact->instance_id, conversion->instance_id) != 0)
            continue;
        artifact->complete = artifact->logged =
            /* `logged` is set without an entry in artifacts.log, because the manifest lists the
             * file */
            true;
        mrd_stored_files_grown(&core->files, artifact->sha256, artifact->size);
    }
}

bool
mrd_core_conversion_list(mrd_core *core, mrd_core_time now, const mrd_conversion_results *results)
{
    mrd_session *session;
    mrd_conversion *conversion;

    mrd_core_enter(core, now);
    if ((conversion = find(core, results->of, &session)) == NULL || session->deleted)
        return false;
    unlist(core, session, conversion); /* an interrupted run may have listed results */
    for (size_t i = 0; i < results->n; i++) {
        if (session->n_artifacts >= MRD_ARTIFACTS_MAX ||
            !MRD_VEC_NEXT(session->artifacts, session->n_artifacts) ||
            mrd_stored_files_list(&core->files, results->files[i].sha256) != MRD_OK) {
            unlist(core, session, conversion);
            return false;
        }
        session->artifacts[session->n_artifacts++] = results->files[i];
        session->artifact_bytes += results->files[i].size;
    }
    return true;
}

void
mrd_core_conversion_ended(mrd_core *core, mrd_core_time now, const mrd_conversion_of *of,
                          const mrd_conversion_end *end)
{
    mrd_session *session;
    mrd_conversion *conversion;

    mrd_core_enter(core, now);
    if ((conversion = find(core, of, &session)) == NULL)
        return;
    conversion->sent = false;
    if (session->deleted)
        return;
    conversion->state = end->state;
    conversion->runs -= conversion->runs > 0;
    conversion->files = end->files;
    conversion->bytes = end->bytes;
    conversion->memory = end->memory;
    conversion->took = end->took;
    mrd_text_set(conversion->message, sizeof(conversion->message), end->message);
    if (end->state == MRD_CONVERT_DONE)
        complete(core, session, conversion);
    else
        unlist(core, session, conversion);
    if (end->state == MRD_CONVERT_FAILED)
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-CONVERT",
                        "Device profiles were not converted: id=%s node=%s process=%lld reason=%s",
                        session->text, conversion->instance_id, (long long) conversion->process_id,
                        conversion->message);
    else if (end->state == MRD_CONVERT_DONE)
        mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-CONVERTED",
                        "Device profiles were converted: id=%s node=%s process=%lld files=%llu "
                        "bytes=%llu ms=%lld",
                        session->text, conversion->instance_id, (long long) conversion->process_id,
                        (unsigned long long) conversion->files,
                        (unsigned long long) conversion->bytes,
                        (long long) (conversion->took / MRD_MS));
    if (end->state != MRD_CONVERT_WAITING)
        mrd_session_copy_again(session);
    mrd_session_touch(session);
    mrd_core_save(core, session);
    /* the state WAITING means that the aggregator shuts down, so no other conversion is started */
    if (end->state != MRD_CONVERT_WAITING)
        mrd_session_convert(core, session);
}

void
mrd_core_viewer_found(mrd_core *core, mrd_core_time now, int64_t at_once)
{
    size_t waiting = 0;

    mrd_core_enter(core, now);
    core->limits.conversions = at_once;
    for (size_t i = 0; i < core->n_sessions; i++) {
        mrd_session *session = core->sessions[i];
        size_t before = waiting;

        for (size_t k = 0; k < session->conversions.n; k++) {
            if (session->conversions.v[k].state != MRD_CONVERT_NOT_INSTALLED)
                continue;
            session->conversions.v[k].state = MRD_CONVERT_WAITING;
            waiting++;
        }
        if (waiting == before)
            continue;
        mrd_session_copy_again(session);
        mrd_session_touch(session); /* the next tick starts the pending conversions */
    }
    mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-VIEWER",
                    "A viewer was installed: device profiles of %zu process%s are converted",
                    waiting, waiting == 1 ? "" : "es");
}

/* Returns true if the conversion is done, but one of the viewer's commands failed, for example
 * because of a full disk. */
static bool
has_gaps(const mrd_conversion *conversion)
{
    return conversion->state == MRD_CONVERT_DONE && conversion->message[0] != '\0';
}

void
mrd_core_convert_again(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t id)
{
    mrd_session *session;
    mrd_why why = { 0 };
    size_t again = 0;

    mrd_core_enter(core, now);
    if ((session = mrd_core_session(core, id)) == NULL)
        mrd_why_set(&why, MRD_NOTFOUND, 0, "there is no such session");
    else if (core->limits.conversions == 0)
        mrd_why_set(&why, MRD_STATE, 0,
                    "the aggregator has no viewer: install aws-neuronx-tools beside it, which it "
                    "finds within 10 s, or name one with --viewer and start it again");
    else if (session->state != MRD_SESSION_COMPLETE)
        mrd_why_set(&why, MRD_STATE, 0,
                    "session %s is %s: device profiles of complete ones are converted",
                    session->text, mrd_session_state_text(session->state));
    for (size_t i = 0; why.err == MRD_OK && i < session->conversions.n; i++) {
        mrd_conversion *conversion = &session->conversions.v[i];

        if (conversion->state != MRD_CONVERT_FAILED &&
            conversion->state != MRD_CONVERT_NOT_INSTALLED && !has_gaps(conversion))
            continue;
        conversion->state = MRD_CONVERT_WAITING;
        conversion->runs = 0;
        conversion->message[0] = '\0';
        again++;
    }
    if (why.err == MRD_OK && again == 0 && session->conversions.planned)
        mrd_why_set(&why, MRD_STATE, 0, "session %s has no device profiles whose conversion failed",
                    session->text);
    if (again == 0) {
        mrd_core_answer(core, ticket, why.err == MRD_OK ? NULL : &why, again);
        return;
    }
    /* the conversion adds files, so the export has to be repeated */
    mrd_session_copy_again(session);
    mrd_session_touch(session);
    if (mrd_core_await(core, ticket, session, again) != MRD_OK)
        /* too many commands wait for a manifest, so this command is answered at once */
        mrd_core_answer(core, ticket, NULL, again);
    mrd_session_convert(core, session);
    mrd_core_save(core, session);
}

/* ---- Conversions in the manifest ---- */

/* Writes a command line that performs the conversion on another machine. */
static void
put_run(const mrd_session *session, const mrd_conversion *conversion, mrd_json *json)
{
    char text[512];

    snprintf(text, sizeof(text),
             "meridian fetch %s --artifacts -o DIR && neuron-explorer view -d DIR/%s_pid_%lld "
             "--output-format perfetto",
             session->text, conversion->instance_id, (long long) conversion->process_id);
    mrd_json_set(json, "run", mrd_json_new_str(text));
}

mrd_json *
mrd_conversions_json(const mrd_session *session)
{
    mrd_json *json = mrd_json_new_array();

    for (size_t i = 0; i < session->conversions.n; i++) {
        const mrd_conversion *conversion = &session->conversions.v[i];
        mrd_json *o = mrd_json_new_object();

        mrd_json_set(o, "instance_id", mrd_json_new_str(conversion->instance_id));
        mrd_json_set(o, "process_id", mrd_json_new_int(conversion->process_id));
        mrd_json_set(o, "state", mrd_json_new_str(mrd_convert_state_text(conversion->state)));
        if (conversion->message[0] != '\0')
            mrd_json_set(o, "message", mrd_json_new_str(conversion->message));
        if (conversion->state == MRD_CONVERT_NOT_INSTALLED)
            put_run(session, conversion, o);
        if (conversion->runs > 0)
            mrd_json_set(o, "runs", mrd_json_new_count(conversion->runs));
        mrd_json_set(o, "files", mrd_json_new_count(conversion->files));
        mrd_json_set(o, "bytes", mrd_json_new_count(conversion->bytes));
        mrd_json_set(o, "memory_bytes", mrd_json_new_count(conversion->memory));
        mrd_json_set(o, "took_ns", mrd_json_new_int(conversion->took));
        mrd_json_append(json, o);
    }
    return json;
}

/* Sets the state of a conversion that was loaded from the manifest after a restart. An unfinished
 * conversion runs again, or has failed if MRD_CONVERSION_RUNS runs were interrupted. If the
 * session's export lacks the result, the session is exported again. */
static void
resume(const mrd_core *core, mrd_session *session, mrd_conversion *conversion)
{
    bool has_viewer = core->limits.conversions > 0;
    mrd_convert_state was = conversion->state;

    if (conversion->state == MRD_CONVERT_RUNNING ||
        conversion->state == MRD_CONVERT_NOT_INSTALLED || conversion->state == MRD_CONVERT_WAITING)
        conversion->state = has_viewer ? MRD_CONVERT_WAITING : MRD_CONVERT_NOT_INSTALLED;
    if (conversion->state != was || was == MRD_CONVERT_WAITING)
        mrd_session_copy_again(session);
    if (conversion->state != MRD_CONVERT_WAITING || conversion->runs < MRD_CONVERSION_RUNS)
        return;
    conversion->state = MRD_CONVERT_FAILED;
    snprintf(conversion->message, sizeof(conversion->message),
             "the aggregator ended %u times while the viewer ran: give the viewer less memory "
             "(--advanced.viewer-memory) and convert again",
             conversion->runs);
}

void
mrd_conversions_load(mrd_core *core, mrd_session *session, const mrd_json *list)
{
    mrd_session_conversions *conversions = &session->conversions;

    for (size_t i = 0;
         list != NULL && i < mrd_json_size(list) && conversions->n < MRD_CONVERSIONS_MAX; i++) {
        const mrd_json *json = mrd_json_at(list, i);
        mrd_conversion *conversion;

        if (!mrd_instance_id_valid(mrd_str_of(mrd_json_str(json, "instance_id", ""))) ||
            !MRD_VEC_NEXT(conversions->v, conversions->n))
            continue;
        conversion = &conversions->v[conversions->n++];
        *conversion = (mrd_conversion){
            .process_id = mrd_json_int(json, "process_id", -1),
            .state = mrd_convert_state_of(mrd_json_str(json, "state", "")),
            .runs = mrd_json_get_u32(json, "runs"),
            .files = (uint64_t) mrd_json_int(json, "files", 0),
            .bytes = (uint64_t) mrd_json_int(json, "bytes", 0),
            .memory = (uint64_t) mrd_json_int(json, "memory_bytes", 0),
            .took = mrd_json_int(json, "took_ns", 0),
        };
        mrd_text_set(conversion->instance_id, sizeof(conversion->instance_id),
                     mrd_json_str(json, "instance_id", ""));
        mrd_text_set(conversion->message, sizeof(conversion->message),
                     mrd_json_str(json, "message", ""));
        resume(core, session, conversion);
    }
}
