/* Loads a session from its manifest and decides how a restart continues it. */
#include "aggregator/core/manifest/manifest.h"

#include "aggregator/core/common/json.h"
#include "aggregator/core/common/text.h"
#include "aggregator/core/manifest/conversions.h"
#include "aggregator/core/manifest/empty.h"
#include "base/hash.h"
#include "base/jobid.h"
#include "base/obj.h"
#include "base/vec.h"

#define MANIFEST_VERSION 1
#define RESUME_MAX       (300 * MRD_SEC) /* a start that is older than this is not resumed */

/* ---- Parts ---- */

static void
part_clock_load(mrd_part *p, const mrd_json *o)
{
    mrd_text_set(p->clock.state, sizeof(p->clock.state), mrd_json_str(o, "state", ""));
    mrd_text_set(p->clock.method, sizeof(p->clock.method), mrd_json_str(o, "method", ""));
    p->clock.bound = mrd_json_int(o, "bound_ns", -1);
    p->clock.offset = mrd_time_checked(mrd_json_int(o, "offset_ns", 0));
    p->clock.probes = (uint64_t) mrd_json_int(o, "probes", 0);
    p->causality.checked = (uint64_t) mrd_json_int(o, "frames_checked", 0);
    p->causality.violations = (uint64_t) mrd_json_int(o, "frame_violations", 0);
    p->causality.worst = mrd_json_int(o, "frame_worst_ns", 0);
    p->has_reading = mrd_host_reading_load(&p->reading, mrd_json_get(o, "host"));
}

/* The epochs as the agent reported them. The journal shows what is stored. */
static void
epochs_load(mrd_part *p, const mrd_json *list)
{
    for (size_t i = 0; list != NULL && i < mrd_json_size(list); i++) {
        const mrd_json *o = mrd_json_at(list, i);
        mrd_part_epoch *e = mrd_part_epoch_of(p, mrd_json_get_hex(o, "epoch"));

        if (e == NULL)
            return;
        e->end = (uint64_t) mrd_json_int(o, "end", 0);
        e->since = mrd_json_get_hex(o, "since");
    }
}

static void
part_fill(mrd_part *p, const mrd_json *o)
{
    p->job_ended = mrd_json_bool(o, "job_ended", false);
    p->state = mrd_part_state_of(mrd_json_str(o, "state", "lost"));
    mrd_text_set(p->message, sizeof(p->message), mrd_json_str(o, "message", ""));
    p->err = mrd_err_of((uint64_t) mrd_json_int(o, "err", MRD_OK));
    p->revision = mrd_json_get_u32(o, "revision");
    p->started.ns = mrd_time_checked(mrd_json_int(o, "started_local_ns", 0));
    p->stopped.ns = mrd_time_checked(mrd_json_int(o, "stopped_local_ns", 0));
    p->complete.ns = mrd_time_checked(mrd_json_int(o, "complete_local_ns", 0));
    p->start_bound = mrd_json_int(o, "start_bound_ns", -1);
    p->lost.ns = mrd_time_checked(mrd_json_int(o, "lost_ns", 0));
    p->damage = (mrd_damage){ .events = (uint64_t) mrd_json_int(o, "damaged_events", 0),
                              .frames = (uint64_t) mrd_json_int(o, "damaged_frames", 0),
                              .foreign = (uint64_t) mrd_json_int(o, "foreign_batches", 0) };
    p->refused_files = (uint64_t) mrd_json_int(o, "refused_files", 0);
    mrd_text_set(p->refused_file, sizeof(p->refused_file), mrd_json_str(o, "refused_file", ""));
    p->manifest_events = mrd_json_int(o, "events", 0);
    epochs_load(p, mrd_json_get(o, "epochs"));
    mrd_part_counts_load(p, o);
    mrd_part_tally_load(p, mrd_json_get(o, "tally"));
    mrd_unread_load(&p->unread, mrd_json_get(o, "unread"));
    p->models = mrd_node_models_load(o);
    p->features = mrd_runtime_features_load(o);
    if (mrd_json_is_array(mrd_json_get(o, "device_profiles")))
        p->device_profiles = mrd_json_copy(mrd_json_get(o, "device_profiles"));
    part_clock_load(p, mrd_json_get(o, "clock"));
}

static mrd_err
part_load(mrd_core *c, mrd_session *s, const mrd_json *o, mrd_why *why)
{
    mrd_node stand_in = { 0 };
    mrd_part *p;

    mrd_text_set(stand_in.instance_id, sizeof(stand_in.instance_id),
                 mrd_json_str(o, "instance_id", ""));
    if (!mrd_instance_id_valid(mrd_str_of(stand_in.instance_id)))
        return mrd_why_set(why, MRD_CORRUPT, 0,
                           "the manifest of session %s contains an invalid node name '%s'", s->text,
                           stand_in.instance_id);
    if (mrd_session_part(s, stand_in.instance_id) != NULL)
        return mrd_why_set(why, MRD_CORRUPT, 0,
                           "the manifest of session %s contains node '%s' twice", s->text,
                           stand_in.instance_id);
    mrd_text_set(stand_in.host_name, sizeof(stand_in.host_name), mrd_json_str(o, "host_name", ""));
    mrd_text_set(stand_in.boot_id, sizeof(stand_in.boot_id), mrd_json_str(o, "boot_id", ""));
    mrd_text_set(stand_in.release, sizeof(stand_in.release), mrd_json_str(o, "release", ""));
    mrd_text_set(stand_in.commit, sizeof(stand_in.commit), mrd_json_str(o, "commit", ""));
    stand_in.hello_local.ns = mrd_time_checked(mrd_json_int(o, "local_ns", 0));
    stand_in.hello_wall.ns = mrd_time_checked(mrd_json_int(o, "wall_ns", 0));
    stand_in.simulated = mrd_json_bool(o, "simulated", false);
    if ((p = mrd_core_add_part(c, s, &stand_in)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "session %s", s->text);
    part_fill(p, o);
    return MRD_OK;
}

/* ---- Artifacts ---- */

/* Returns true if a viewer made the file in a conversion that was not complete. The conversion runs
 * again. */
static bool
is_half_made(const mrd_session *s, const mrd_listed_artifact *a)
{
    const mrd_conversion *v;

    if (!mrd_kind_is_converted(a->kind))
        return false;
    v = mrd_conversions_find(&s->conversions, a->instance_id, a->process_id);
    return v == NULL || v->state != MRD_CONVERT_DONE;
}

/* Adds an artifact, or completes it if it is listed already. `seen` maps artifacts to their index. */
static mrd_err
artifact_load(mrd_core *c, mrd_session *s, const mrd_json *o, bool of_log, mrd_map *seen)
{
    mrd_listed_artifact a = { .size = (uint64_t) mrd_json_int(o, "size", 0),
                              .process_id = mrd_json_int(o, "process_id", -1),
                              .nc_idx = mrd_json_int(o, "nc_idx", -1),
                              .complete = mrd_json_bool(o, "complete", false) };
    mrd_map_key key, file;
    uint32_t at;

    mrd_text_set(a.sha256, sizeof(a.sha256), mrd_json_str(o, "sha256", ""));
    mrd_text_set(a.name, sizeof(a.name), mrd_json_str(o, "name", ""));
    mrd_text_set(a.kind, sizeof(a.kind), mrd_json_str(o, "kind", ""));
    mrd_text_set(a.instance_id, sizeof(a.instance_id), mrd_json_str(o, "instance_id", ""));
    a.logged = a.complete && !of_log;
    if (!mrd_hash_is_valid(a.sha256) || mrd_artifact_name_fault(a.name) != NULL ||
        !mrd_instance_id_valid(mrd_str_of(a.instance_id)))
        return MRD_CORRUPT;
    if (is_half_made(s, &a))
        return MRD_OK;
    key = (mrd_map_key){ mrd_hash64(a.sha256, strlen(a.sha256), (uint64_t) a.process_id),
                         mrd_hash64(a.name, strlen(a.name), 1),
                         mrd_hash64(a.instance_id, strlen(a.instance_id), 2) };
    file = (mrd_map_key){ .a = key.a };
    if ((at = mrd_map_get(seen, key)) != MRD_MAP_NONE) {
        s->artifacts[at].complete = s->artifacts[at].complete || a.complete;
        s->artifacts[at].logged = s->artifacts[at].logged || a.logged;
        return MRD_OK;
    }
    if (s->n_artifacts >= MRD_ARTIFACTS_MAX)
        return MRD_LIMIT;
    if (!MRD_VEC_NEXT(s->artifacts, s->n_artifacts))
        return MRD_NOMEM;
    if (mrd_stored_files_list(&c->files, a.sha256) != MRD_OK)
        return MRD_NOMEM;
    s->artifacts[s->n_artifacts] = a;
    if (mrd_map_get(seen, file) == MRD_MAP_NONE)
        s->artifact_bytes += a.size;
    (void) mrd_map_put(seen, file, 0);
    return mrd_map_put(seen, key, (uint32_t) s->n_artifacts++);
}

/* Loads the artifacts of the manifest, then the entries that were logged later. A line of the log
 * may be in the page cache only, if a sync failed. An upload of the same file then writes the line
 * again. */
static void
artifacts_load(mrd_core *c, mrd_session *s, const mrd_json *list, const mrd_json *log)
{
    mrd_map seen = { 0 };

    for (size_t i = 0; list != NULL && i < mrd_json_size(list); i++)
        (void) artifact_load(c, s, mrd_json_at(list, i), false, &seen);
    for (size_t i = 0; log != NULL && i < mrd_json_size(log); i++)
        (void) artifact_load(c, s, mrd_json_at(log, i), true, &seen);
    for (size_t i = 0; i < s->n_artifacts; i++) {
        if (s->artifacts[i].complete)
            mrd_stored_files_grown(&c->files, s->artifacts[i].sha256, s->artifacts[i].size);
    }
    mrd_map_fini(&seen);
}

/* ---- Triggers ---- */

/* Nodes that have not confirmed this revision receive it again. */
static void
changes_load(mrd_session *s, const mrd_json *o)
{
    const mrd_json *list = mrd_json_get(o, "pauses");
    unsigned revision = mrd_json_get_u32(o, "revision");

    if (revision == 0)
        return;
    s->changes.revision = s->changes.sent = revision;
    for (size_t i = 0; list != NULL && i < mrd_json_size(list) && i < MRD_PAUSES_MAX; i++) {
        const mrd_json *p = mrd_json_at(list, i);

        s->changes.pauses[s->changes.n_pauses++] =
            (mrd_pause){ { mrd_time_checked(mrd_json_int(p, "from_ns", 0)) },
                         { mrd_time_checked(mrd_json_int(p, "to_ns", 0)) },
                         mrd_json_get_u32(p, "from_revision"),
                         mrd_json_get_u32(p, "to_revision") };
    }
}

/* Triggers that no agent confirmed are sent again. An agent recognizes a repeated trigger by its
 * id. */
static void
triggers_load(mrd_session *s, const mrd_json *list)
{
    size_t n = list == NULL ? 0 : mrd_json_size(list);

    for (size_t i = 0; i < n && n <= MRD_TRIGGERS_MAX; i++) {
        const mrd_json *o = mrd_json_at(list, i);
        mrd_trigger t = { .id = mrd_json_get_hex(o, "id"),
                          .from = { mrd_time_checked(mrd_json_int(o, "from_ns", 0)) },
                          .to = { mrd_time_checked(mrd_json_int(o, "to_ns", 0)) },
                          .acknowledged = mrd_json_get_u32(o, "answered") };

        t.sent = t.acknowledged > 0;
        mrd_text_set(t.reason, sizeof(t.reason), mrd_json_str(o, "reason", ""));
        if (mrd_session_add_trigger(s, &t, NULL) != MRD_OK)
            return;
    }
}

static bool
names(const mrd_json *list, const char *instance_id)
{
    for (size_t i = 0; i < mrd_json_size(list); i++) {
        char scratch[64];
        mrd_str name;

        if (mrd_json_text(mrd_json_at(list, i), scratch, &name) == MRD_OK &&
            mrd_str_is(name, instance_id))
            return true;
    }
    return false;
}

/* Nodes that are not listed confirmed the trigger or joined later. */
static void
acknowledged_load(mrd_session *s, const mrd_json *list)
{
    for (size_t i = 0; i < s->n_triggers; i++) {
        const mrd_json *without = mrd_json_get(mrd_json_at(list, i), "unacknowledged");
        unsigned acknowledged = s->triggers[i].acknowledged;

        for (size_t k = 0; k < s->n_parts; k++) {
            mrd_part *p = s->parts[k];

            if (mrd_session_missed(s, p, i) && !names(without, p->instance_id))
                mrd_session_acknowledge(s, p, i);
        }
        s->triggers[i].acknowledged = acknowledged;
    }
}

/* ---- The session ---- */

static void
verdict_load(mrd_session *s, const mrd_json *o)
{
    const mrd_json *timeline = mrd_json_get(o, "timeline");
    mrd_clock_verdict *v = &s->verdict;

    v->done = mrd_json_bool(o, "merged", false);
    v->held_out = (uint64_t) mrd_json_int(o, "held_out_checked", 0);
    v->held_out_violations = (uint64_t) mrd_json_int(o, "held_out_violations", 0);
    v->absolute = (uint64_t) mrd_json_int(o, "absolute_checked", 0);
    v->absolute_violations = (uint64_t) mrd_json_int(o, "absolute_violations", 0);
    v->collectives.collectives = (size_t) mrd_json_int(o, "collectives_checked", 0);
    v->collectives.out_of_order = (size_t) mrd_json_int(o, "collectives_out_of_order", 0);
    v->collectives.violations = (size_t) mrd_json_int(o, "collective_violations", 0);
    v->collectives.worst = mrd_json_int(o, "collective_worst_ns", 0);
    if (mrd_json_is_array(timeline))
        v->timeline = mrd_json_copy(timeline);
    for (size_t i = 0; v->timeline != NULL && i < mrd_json_size(v->timeline); i++)
        v->link_violations +=
            (uint64_t) mrd_json_int(mrd_json_at(v->timeline, i), "contradicting", 0);
    mrd_text_set(v->message, sizeof(v->message), mrd_json_str(o, "message", ""));
}

static void
jobs_load(mrd_session *s, const mrd_json *o)
{
    mrd_json *list = mrd_json_get(o, "jobs"); /* manifests of releases before 0.2 do not have it */

    for (size_t i = 0; list != NULL && i < mrd_json_size(list); i++) {
        mrd_json *job = mrd_json_at(list, i);
        mrd_jobid id = { "" };

        for (void *it = mrd_json_iter(job); it != NULL; it = mrd_json_iter_next(job, it)) {
            const char *key = mrd_json_iter_key(it);

            (void) mrd_jobid_set(&id, mrd_str_of(key), mrd_str_of(mrd_json_str(job, key, "")));
        }
        mrd_session_add_job(s, id.text);
    }
    s->jobs_left_out = mrd_json_get_u32(o, "jobs_left_out");
}

static void
job_load(mrd_session *s, const mrd_json *o)
{
    const mrd_json *keys = mrd_json_get(o, "owner_keys");

    if (o == NULL)
        return;
    mrd_text_set(s->of_job.key.text, sizeof(s->of_job.key.text), mrd_json_str(o, "key", ""));
    s->of_job.key.uid = mrd_json_int(o, "uid", -1);
    s->of_job.nodes = mrd_json_get_u32(o, "nodes");
    s->of_job.witness = mrd_job_witness_of(mrd_json_str(o, "witness", ""));
    for (size_t i = 0; keys != NULL && i < mrd_json_size(keys); i++) {
        char scratch[64];
        mrd_str key;

        if (mrd_json_text(mrd_json_at(keys, i), scratch, &key) == MRD_OK)
            (void) mrd_strlist_add(&s->of_job.owner_keys, key);
    }
}

/* An incomplete export runs again. It finds the files that were already copied. */
static void
export_load(mrd_session *s, const mrd_json *o)
{
    if (o == NULL || strcmp(mrd_json_str(o, "state", ""), "done") != 0)
        return;
    s->copy.state = MRD_EXPORT_DONE;
    s->copy.files = (uint64_t) mrd_json_int(o, "files", 0);
    s->copy.bytes = (uint64_t) mrd_json_int(o, "bytes", 0);
}

/* Loads the last merge of a complete session. A merge that did not end left half a profile. It runs
 * again when the manifest says so on disk. */
static void
merge_load(mrd_session *s, const mrd_json *o)
{
    const char *state = mrd_json_str(o, "state", "");

    for (mrd_merge_state k = MRD_MERGE_NONE; k <= MRD_MERGE_CANCELLED; k++)
        s->job.state = strcmp(state, mrd_merge_state_text(k)) == 0 ? k : s->job.state;
    s->job.events = (uint64_t) mrd_json_int(o, "events", 0);
    s->job.total = (uint64_t) mrd_json_int(o, "total", 0);
    mrd_text_set(s->job.message, sizeof(s->job.message), mrd_json_str(o, "message", ""));
    if (mrd_session_is_merging(s))
        s->job = (mrd_merge_job){ .state = MRD_MERGE_WAITING, .after = s->save.version };
}

/* An accepted start is carried out after agents had time to reconnect, unless it is too old to be
 * useful. */
static void
resume(mrd_core *c, mrd_session *s)
{
    static const mrd_session_step steps[MRD_SESSION_STATES] = { MRD_STEP_WAIT,  MRD_STEP_RECORD,
                                                                MRD_STEP_FLUSH, MRD_STEP_CLOSE,
                                                                MRD_STEP_OVER,  MRD_STEP_OVER };

    s->step = steps[s->state];
    s->closed = s->state >= MRD_SESSION_MERGING;
    s->flush_deadline.ns = c->now.local.ns + c->limits.flush_timeout;
    if (s->state == MRD_SESSION_ARMING && mrd_session_waits_for_job(s))
        s->step = MRD_STEP_EXPECT; /* however long */
    if (s->state != MRD_SESSION_ARMING || mrd_session_waits_for_job(s))
        return;
    if (c->now.wall.ns - s->created.ns < RESUME_MAX) {
        s->arm_from.ns = c->now.local.ns + 2 * c->limits.node_timeout;
        return;
    }
    s->state = MRD_SESSION_FAILED;
    s->step = MRD_STEP_OVER;
    s->closed = true;
    mrd_text_set(s->message, sizeof(s->message),
                 "the aggregator stopped before the session had begun: start it again");
}

static mrd_err
session_load(mrd_core *c, const mrd_json *o, const mrd_json *log, mrd_session *s, mrd_why *why)
{
    const mrd_json *nodes = mrd_json_get(o, "nodes");
    mrd_err err = MRD_OK;

    if (mrd_json_int(o, "version", 0) != MANIFEST_VERSION)
        return mrd_why_set(why, MRD_VERSION, 0, "session %s has manifest version %lld", s->text,
                           (long long) mrd_json_int(o, "version", 0));
    if (mrd_session_params_init(&s->params) != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "session %s", s->text);
    mrd_session_params_from_manifest(&s->params, o);
    s->stop_requested = mrd_json_bool(o, "stop_requested", false);
    jobs_load(s, o);
    job_load(s, mrd_json_get(o, "job"));
    s->of_job.ended = c->now.local;
    mrd_text_set(s->message, sizeof(s->message), mrd_json_str(o, "message", ""));
    s->state = mrd_session_state_of(mrd_json_str(o, "state", "failed"));
    s->created.ns = mrd_time_checked(mrd_json_int(o, "created_ns", 0));
    mrd_text_set(s->timeline, sizeof(s->timeline), mrd_json_str(o, "timeline", ""));
    verdict_load(s, mrd_json_get(o, "clocks"));
    s->go.ns = mrd_time_checked(mrd_json_int(o, "go_ns", 0));
    s->stop.ns = mrd_time_checked(mrd_json_int(o, "stop_ns", 0));
    s->ended.ns = mrd_time_checked(mrd_json_int(o, "ended_ns", 0));
    s->full.ns = mrd_time_checked(mrd_json_int(o, "store_full_ns", 0));
    s->room.ns = mrd_time_checked(mrd_json_int(o, "store_room_ns", 0));
    triggers_load(s, mrd_json_get(o, "triggers"));
    changes_load(s, o);
    export_load(s, mrd_json_get(o, "export"));
    mrd_conversions_load(c, s, mrd_json_get(o, "conversions")); /* may undo that it is done */
    artifacts_load(c, s, mrd_json_get(o, "artifacts"), log);
    if (mrd_json_get(o, "select") != NULL)
        err = mrd_select_from_json(&s->select, mrd_json_get(o, "select"), why);
    for (size_t i = 0; err == MRD_OK && nodes != NULL && i < mrd_json_size(nodes); i++)
        err = part_load(c, s, mrd_json_at(nodes, i), why);
    acknowledged_load(s, mrd_json_get(o, "triggers"));
    resume(c, s);
    /* The manifest on disk is current, except for the changes by `resume`. */
    s->save.durable = s->save.tried = s->save.version;
    mrd_session_touch(s);
    if (s->state == MRD_SESSION_COMPLETE && mrd_json_get(o, "profile") != NULL)
        merge_load(s, mrd_json_get(o, "profile"));
    return err;
}

static void
session_drop(mrd_core *c, mrd_session *s)
{
    for (size_t i = 0; i < s->n_artifacts; i++) {
        mrd_stored_files_retire(&c->files, s->artifacts[i].sha256);
        mrd_stored_files_unlist(&c->files, s->artifacts[i].sha256);
    }
    mrd_session_free(s);
}

mrd_err
mrd_core_load_session(mrd_core *c, uint64_t id, const mrd_json *manifest,
                      const mrd_json *artifact_log, mrd_session **ret_session, mrd_why *why)
{
    mrd_session *s = calloc(1, sizeof(*s));
    mrd_err err;

    if (s == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "session");
    s->id = id;
    mrd_session_id_text(id, s->text);
    err = session_load(c, manifest, artifact_log, s, why);
    if (err == MRD_OK && mrd_core_add_session(c, s) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "session %s", s->text);
    if (err == MRD_OK) {
        *ret_session = s;
        return MRD_OK;
    }
    session_drop(c, s);
    return err;
}

/* If the manifest counted more events than the journal has, stored events are missing. The journal
 * may also have more, because a flushed node sent more afterwards (begins_again in frames.c). */
void
mrd_core_part_read(mrd_core *c, mrd_session *s, mrd_part *p)
{
    mrd_node *n = mrd_nodes_by_id(&c->nodes, p->instance_id);
    mrd_damage d = p->damage;

    if (n != NULL)
        n->gaps += mrd_part_gaps(p);
    if (p->state == MRD_PART_FLUSHED && mrd_session_is_open(s) && p->manifest_events >= 0 &&
        p->events > (uint64_t) p->manifest_events)
        p->state = MRD_PART_STOPPING;
    if (p->manifest_events <= 0 || (uint64_t) p->manifest_events <= p->events)
        return;
    d.events = (uint64_t) p->manifest_events - p->events;
    p->events = (uint64_t) p->manifest_events;
    mrd_core_part_damaged(c, s, p, &d, false);
}

mrd_part *
mrd_core_found_part(mrd_core *c, mrd_session *s, const char *instance_id)
{
    mrd_node stand_in = { 0 };
    mrd_part *p;

    if (!mrd_instance_id_valid(mrd_str_of(instance_id)))
        return NULL;
    mrd_text_set(stand_in.instance_id, sizeof(stand_in.instance_id), instance_id);
    if ((p = mrd_core_add_part(c, s, &stand_in)) == NULL)
        return NULL;
    p->state = s->state <= MRD_SESSION_STOPPING ? MRD_PART_RECORDING : MRD_PART_LOST;
    mrd_text_set(p->message, sizeof(p->message), "joined just before the aggregator stopped");
    return p;
}

void
mrd_core_unload_session(mrd_core *c, mrd_session *s)
{
    for (size_t i = 0; i < c->n_sessions; i++) {
        if (c->sessions[i] != s)
            continue;
        c->sessions[i] = c->sessions[--c->n_sessions];
        session_drop(c, s);
        return;
    }
}
