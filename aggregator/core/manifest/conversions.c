#include "aggregator/core/manifest/conversions.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/json.h"
#include "aggregator/core/common/text.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"

/* ---- The list ---- */

static mrd_map_key
key_of(const char *instance_id, int64_t process_id)
{
    return (mrd_map_key){ .a = mrd_hash64(instance_id, strlen(instance_id), (uint64_t) process_id),
                          .b = (uint64_t) process_id };
}

static mrd_err
add(const mrd_core *c, mrd_session_conversions *x, const mrd_listed_artifact *a)
{
    if (x->n == MRD_CONVERSIONS_MAX) {
        x->left_out++;
        return MRD_OK;
    }
    if (!MRD_VEC_NEXT(x->v, x->n))
        return MRD_NOMEM;
    x->v[x->n] = (mrd_conversion){ .process_id = a->process_id,
                                   .state = c->limits.conversions == 0 ? MRD_CONVERT_NOT_INSTALLED
                                                                       : MRD_CONVERT_WAITING };
    mrd_text_set(x->v[x->n].instance_id, sizeof(x->v[x->n].instance_id), a->instance_id);
    x->n++;
    return MRD_OK;
}

/* Plans one conversion for each process that has a complete NTFF. */
static mrd_err
plan(const mrd_core *c, mrd_session *s)
{
    mrd_session_conversions *x = &s->conversions;
    mrd_map seen = { 0 };
    mrd_err err = MRD_OK;

    x->left_out = 0;
    for (size_t i = 0; i < x->n && err == MRD_OK; i++)
        err = mrd_map_put(&seen, key_of(x->v[i].instance_id, x->v[i].process_id), 0);
    for (size_t i = 0; i < s->n_artifacts && err == MRD_OK; i++) {
        const mrd_listed_artifact *a = &s->artifacts[i];
        mrd_map_key key = key_of(a->instance_id, a->process_id);

        if (strcmp(a->kind, "NTFF") == 0 && a->complete &&
            mrd_map_get(&seen, key) == MRD_MAP_NONE && (err = mrd_map_put(&seen, key, 0)) == MRD_OK)
            err = add(c, x, a);
    }
    mrd_map_fini(&seen);
    return err;
}

static bool
is_ready(const mrd_core *c, const mrd_session *s)
{
    return s->step == MRD_STEP_OVER && s->state == MRD_SESSION_COMPLETE && s->closed &&
           !s->deleted && !mrd_session_is_merging(s) && mrd_core_store_message(c) == NULL;
}

void
mrd_session_convert(mrd_core *c, mrd_session *s)
{
    mrd_session_conversions *x = &s->conversions;
    int64_t under_way = 0;

    if (!is_ready(c, s))
        return;
    if (!x->planned) {
        if (plan(c, s) != MRD_OK)
            return; /* the next tick tries again */
        x->planned = true;
        if (x->n > 0)
            mrd_session_touch(s);
        if (x->left_out > 0)
            mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-CONVERT-LEFT-OUT",
                            "Device profiles of further processes are not converted: id=%s "
                            "processes=%zu limit=%d",
                            s->text, x->left_out, MRD_CONVERSIONS_MAX);
    }
    for (size_t i = 0; i < x->n; i++)
        under_way += x->v[i].sent;
    for (size_t i = 0; i < x->n && under_way < c->limits.conversions; i++) {
        mrd_effect *e;

        if (x->v[i].sent || x->v[i].state != MRD_CONVERT_WAITING || !mrd_effects_room(&c->out, 4))
            continue;
        x->v[i].sent = true;
        under_way++;
        e = mrd_effects_add(&c->out, MRD_DO_CONVERT);
        e->session = s;
        e->value = i;
    }
}

bool
mrd_session_is_converting(const mrd_session *s)
{
    for (size_t i = 0; i < s->conversions.n; i++) {
        if (s->conversions.v[i].sent)
            return true;
    }
    return false;
}

/* ---- The end of a conversion ---- */

static mrd_conversion *
find(mrd_core *c, const mrd_conversion_of *of, mrd_session **ret_session)
{
    mrd_session *s = mrd_core_any_session(c, of->session);
    mrd_conversion *v =
        s == NULL ? NULL : mrd_conversions_find(&s->conversions, of->instance_id, of->process_id);

    *ret_session = s;
    return v != NULL && v->sent ? v : NULL;
}

void
mrd_core_conversion_began(mrd_core *c, mrd_core_time now, const mrd_conversion_of *of)
{
    mrd_session *s;
    mrd_conversion *v;

    mrd_core_enter(c, now);
    if ((v = find(c, of, &s)) == NULL || s->deleted)
        return;
    v->state = MRD_CONVERT_RUNNING;
    v->runs++;
    mrd_session_touch(s);
    mrd_core_save(c, s);
}

/* Removes the files from the list that a viewer made for this process. */
static void
unlist(mrd_core *c, mrd_session *s, const mrd_conversion *v)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->n_artifacts; i++) {
        const mrd_listed_artifact *a = &s->artifacts[i];

        if (a->process_id == v->process_id && strcmp(a->instance_id, v->instance_id) == 0 &&
            mrd_kind_is_converted(a->kind)) {
            mrd_stored_files_retire(&c->files, a->sha256);
            mrd_stored_files_unlist(&c->files, a->sha256);
            s->artifact_bytes -= a->size < s->artifact_bytes ? a->size : s->artifact_bytes;
            continue;
        }
        if (kept != i)
            s->artifacts[kept] = *a;
        kept++;
    }
    if (kept != s->n_artifacts)
        mrd_effects_add(&c->out, MRD_DO_SWEEP);
    s->n_artifacts = kept;
}

/* All at once. */
static void
complete(mrd_core *c, mrd_session *s, const mrd_conversion *v)
{
    for (size_t i = 0; i < s->n_artifacts; i++) {
        mrd_listed_artifact *a = &s->artifacts[i];

        if (a->complete || a->process_id != v->process_id || !mrd_kind_is_converted(a->kind) ||
            strcmp(a->instance_id, v->instance_id) != 0)
            continue;
        a->complete = a->logged = true; /* the manifest contains it before a restart relies on it */
        mrd_stored_files_grown(&c->files, a->sha256, a->size);
    }
}

bool
mrd_core_conversion_list(mrd_core *c, mrd_core_time now, const mrd_conversion_results *r)
{
    mrd_session *s;
    mrd_conversion *v;

    mrd_core_enter(c, now);
    if ((v = find(c, r->of, &s)) == NULL || s->deleted)
        return false;
    unlist(c, s, v); /* results of an attempt that got this far */
    for (size_t i = 0; i < r->n; i++) {
        if (s->n_artifacts >= MRD_ARTIFACTS_MAX || !MRD_VEC_NEXT(s->artifacts, s->n_artifacts) ||
            mrd_stored_files_list(&c->files, r->files[i].sha256) != MRD_OK) {
            unlist(c, s, v);
            return false;
        }
        s->artifacts[s->n_artifacts++] = r->files[i];
        s->artifact_bytes += r->files[i].size;
    }
    return true;
}

void
mrd_core_conversion_ended(mrd_core *c, mrd_core_time now, const mrd_conversion_of *of,
                          const mrd_conversion_end *end)
{
    mrd_session *s;
    mrd_conversion *v;

    mrd_core_enter(c, now);
    if ((v = find(c, of, &s)) == NULL)
        return;
    v->sent = false;
    if (s->deleted)
        return;
    v->state = end->state;
    v->runs -= v->runs > 0;
    v->files = end->files;
    v->bytes = end->bytes;
    v->memory = end->memory;
    v->took = end->took;
    mrd_text_set(v->message, sizeof(v->message), end->message);
    if (end->state == MRD_CONVERT_DONE)
        complete(c, s, v);
    else
        unlist(c, s, v);
    if (end->state == MRD_CONVERT_FAILED)
        mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-CONVERT",
                        "Device profiles were not converted: id=%s node=%s process=%lld reason=%s",
                        s->text, v->instance_id, (long long) v->process_id, v->message);
    else if (end->state == MRD_CONVERT_DONE)
        mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-CONVERTED",
                        "Device profiles were converted: id=%s node=%s process=%lld files=%llu "
                        "bytes=%llu ms=%lld",
                        s->text, v->instance_id, (long long) v->process_id,
                        (unsigned long long) v->files, (unsigned long long) v->bytes,
                        (long long) (v->took / MRD_MS));
    if (end->state != MRD_CONVERT_WAITING)
        mrd_session_copy_again(s);
    mrd_session_touch(s);
    mrd_core_save(c, s);
    if (end->state != MRD_CONVERT_WAITING) /* else the aggregator ends */
        mrd_session_convert(c, s);
}

void
mrd_core_viewer_found(mrd_core *c, mrd_core_time now, int64_t at_once)
{
    size_t waiting = 0;

    mrd_core_enter(c, now);
    c->limits.conversions = at_once;
    for (size_t i = 0; i < c->n_sessions; i++) {
        mrd_session *s = c->sessions[i];
        size_t before = waiting;

        for (size_t k = 0; k < s->conversions.n; k++) {
            if (s->conversions.v[k].state != MRD_CONVERT_NOT_INSTALLED)
                continue;
            s->conversions.v[k].state = MRD_CONVERT_WAITING;
            waiting++;
        }
        if (waiting == before)
            continue;
        mrd_session_copy_again(s);
        mrd_session_touch(s); /* the next tick passes them to the viewer */
    }
    mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-VIEWER",
                    "A viewer was installed: device profiles of %zu process%s are converted",
                    waiting, waiting == 1 ? "" : "es");
}

void
mrd_core_convert_again(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t id)
{
    mrd_session *s;
    mrd_why why = { 0 };
    size_t again = 0;

    mrd_core_enter(c, now);
    if ((s = mrd_core_session(c, id)) == NULL)
        mrd_why_set(&why, MRD_NOTFOUND, 0, "there is no such session");
    else if (c->limits.conversions == 0)
        mrd_why_set(&why, MRD_STATE, 0,
                    "the aggregator has no viewer: install aws-neuronx-tools beside it, which it "
                    "finds within 10 s, or name one with --viewer and start it again");
    else if (s->state != MRD_SESSION_COMPLETE)
        mrd_why_set(&why, MRD_STATE, 0,
                    "session %s is %s: device profiles of complete ones are converted", s->text,
                    mrd_session_state_text(s->state));
    for (size_t i = 0; why.err == MRD_OK && i < s->conversions.n; i++) {
        mrd_conversion *v = &s->conversions.v[i];

        if (v->state != MRD_CONVERT_FAILED && v->state != MRD_CONVERT_NOT_INSTALLED)
            continue;
        v->state = MRD_CONVERT_WAITING;
        v->runs = 0;
        v->message[0] = '\0';
        again++;
    }
    if (why.err == MRD_OK && again == 0 && s->conversions.planned)
        mrd_why_set(&why, MRD_STATE, 0, "session %s has no device profiles whose conversion failed",
                    s->text);
    if (again == 0) {
        mrd_core_answer(c, ticket, why.err == MRD_OK ? NULL : &why, again);
        return;
    }
    /* an export is not complete while files of the session are still to come */
    mrd_session_copy_again(s);
    mrd_session_touch(s);
    if (mrd_core_await(c, ticket, s, again) != MRD_OK)
        mrd_core_answer(c, ticket, NULL, again); /* too many commands wait for the disk */
    mrd_session_convert(c, s);
    mrd_core_save(c, s);
}

/* ---- The manifest ---- */

/* Writes what the program that has the viewer needs for a run. */
static void
put_run(const mrd_session *s, const mrd_conversion *v, mrd_json *o)
{
    char text[512];

    snprintf(text, sizeof(text),
             "meridian fetch %s --artifacts -o DIR && neuron-explorer view -d DIR/%s_pid_%lld "
             "--output-format perfetto",
             s->text, v->instance_id, (long long) v->process_id);
    mrd_json_set(o, "run", mrd_json_new_str(text));
}

mrd_json *
mrd_conversions_json(const mrd_session *s)
{
    mrd_json *a = mrd_json_new_array();

    for (size_t i = 0; i < s->conversions.n; i++) {
        const mrd_conversion *v = &s->conversions.v[i];
        mrd_json *o = mrd_json_new_object();

        mrd_json_set(o, "instance_id", mrd_json_new_str(v->instance_id));
        mrd_json_set(o, "process_id", mrd_json_new_int(v->process_id));
        mrd_json_set(o, "state", mrd_json_new_str(mrd_convert_state_text(v->state)));
        if (v->message[0] != '\0')
            mrd_json_set(o, "message", mrd_json_new_str(v->message));
        if (v->state == MRD_CONVERT_NOT_INSTALLED)
            put_run(s, v, o);
        if (v->runs > 0)
            mrd_json_set(o, "runs", mrd_json_new_count(v->runs));
        mrd_json_set(o, "files", mrd_json_new_count(v->files));
        mrd_json_set(o, "bytes", mrd_json_new_count(v->bytes));
        mrd_json_set(o, "memory_bytes", mrd_json_new_count(v->memory));
        mrd_json_set(o, "took_ns", mrd_json_new_int(v->took));
        mrd_json_append(a, o);
    }
    return a;
}

/* Makes a pending or running conversion pending again after a restart, unless it ended the
 * aggregator three times. An export that was complete contains neither the new results nor the new
 * message, so it is repeated. */
static void
resume(const mrd_core *c, mrd_session *s, mrd_conversion *v)
{
    bool has_viewer = c->limits.conversions > 0;
    mrd_convert_state was = v->state;

    if (v->state == MRD_CONVERT_RUNNING || v->state == MRD_CONVERT_NOT_INSTALLED ||
        v->state == MRD_CONVERT_WAITING)
        v->state = has_viewer ? MRD_CONVERT_WAITING : MRD_CONVERT_NOT_INSTALLED;
    if (v->state != was || was == MRD_CONVERT_WAITING)
        mrd_session_copy_again(s);
    if (v->state != MRD_CONVERT_WAITING || v->runs < MRD_CONVERSION_RUNS)
        return;
    v->state = MRD_CONVERT_FAILED;
    snprintf(v->message, sizeof(v->message),
             "the aggregator ended %u times while the viewer ran: give the viewer less memory "
             "(--advanced.viewer-memory) and convert again",
             v->runs);
}

void
mrd_conversions_load(mrd_core *c, mrd_session *s, const mrd_json *list)
{
    mrd_session_conversions *x = &s->conversions;

    for (size_t i = 0; list != NULL && i < mrd_json_size(list) && x->n < MRD_CONVERSIONS_MAX; i++) {
        const mrd_json *o = mrd_json_at(list, i);
        mrd_conversion *v;

        if (!mrd_instance_id_valid(mrd_str_of(mrd_json_str(o, "instance_id", ""))) ||
            !MRD_VEC_NEXT(x->v, x->n))
            continue;
        v = &x->v[x->n++];
        *v = (mrd_conversion){
            .process_id = mrd_json_int(o, "process_id", -1),
            .state = mrd_convert_state_of(mrd_json_str(o, "state", "")),
            .runs = mrd_json_get_u32(o, "runs"),
            .files = (uint64_t) mrd_json_int(o, "files", 0),
            .bytes = (uint64_t) mrd_json_int(o, "bytes", 0),
            .memory = (uint64_t) mrd_json_int(o, "memory_bytes", 0),
            .took = mrd_json_int(o, "took_ns", 0),
        };
        mrd_text_set(v->instance_id, sizeof(v->instance_id), mrd_json_str(o, "instance_id", ""));
        mrd_text_set(v->message, sizeof(v->message), mrd_json_str(o, "message", ""));
        resume(c, s, v);
    }
}
