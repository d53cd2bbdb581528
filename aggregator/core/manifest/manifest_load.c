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
/* a session that was arming fails after a restart if it is older than this */
#define RESUME_MAX (300 * MRD_SEC)

/* ---- Parts (one for each node of the session) ---- */

static void
part_clock_load(mrd_part *part, const mrd_json *json)
{
    mrd_text_set(part->clock.state, sizeof(part->clock.state), mrd_json_str(json, "state", ""));
    mrd_text_set(part->clock.method, sizeof(part->clock.method), mrd_json_str(json, "method", ""));
    part->clock.bound = mrd_json_int(json, "bound_ns", -1);
    part->clock.offset = mrd_time_checked(mrd_json_int(json, "offset_ns", 0));
    part->clock.probes = (uint64_t) mrd_json_int(json, "probes", 0);
    part->causality.checked = (uint64_t) mrd_json_int(json, "frames_checked", 0);
    part->causality.violations = (uint64_t) mrd_json_int(json, "frame_violations", 0);
    part->causality.worst = mrd_json_int(json, "frame_worst_ns", 0);
    part->has_reading = mrd_host_reading_load(&part->reading, mrd_json_get(json, "host"));
}

/* Loads what the agent reported about its spools (disk queues). Each spool has a number, its epoch.
 * Which of its frames are stored is known only after the journal is read. */
static void
epochs_load(mrd_part *part, const mrd_json *list)
{
    for (size_t i = 0; list != NULL && i < mrd_json_size(list); i++) {
        const mrd_json *json = mrd_json_at(list, i);
        mrd_part_epoch *epoch = mrd_part_epoch_of(part, mrd_json_get_hex(json, "epoch"));

        if (epoch == NULL)
            return;
        epoch->end = (uint64_t) mrd_json_int(json, "end", 0);
        epoch->since = mrd_json_get_hex(json, "since");
    }
}

static void
part_fill(mrd_part *part, const mrd_json *json)
{
    part->job_ended = mrd_json_bool(json, "job_ended", false);
    part->state = mrd_part_state_of(mrd_json_str(json, "state", "lost"));
    mrd_text_set(part->message, sizeof(part->message), mrd_json_str(json, "message", ""));
    part->err = mrd_err_of((uint64_t) mrd_json_int(json, "err", MRD_OK));
    part->revision = mrd_json_get_u32(json, "revision");
    part->started.ns = mrd_time_checked(mrd_json_int(json, "started_local_ns", 0));
    part->stopped.ns = mrd_time_checked(mrd_json_int(json, "stopped_local_ns", 0));
    part->complete.ns = mrd_time_checked(mrd_json_int(json, "complete_local_ns", 0));
    part->start_bound = mrd_json_int(json, "start_bound_ns", -1);
    part->lost.ns = mrd_time_checked(mrd_json_int(json, "lost_ns", 0));
    part->damage = (mrd_damage){ .events = (uint64_t) mrd_json_int(json, "damaged_events", 0),
                                 .frames = (uint64_t) mrd_json_int(json, "damaged_frames", 0),
                                 .foreign = (uint64_t) mrd_json_int(json, "foreign_batches", 0) };
    part->refused_files = (uint64_t) mrd_json_int(json, "refused_files", 0);
    mrd_text_set(part->refused_file, sizeof(part->refused_file),
                 mrd_json_str(json, "refused_file", ""));
    part->manifest_events = mrd_json_int(json, "events", 0);
    epochs_load(part, mrd_json_get(json, "epochs"));
    mrd_part_counts_load(part, json);
    mrd_part_tally_load(part, mrd_json_get(json, "tally"));
    mrd_unread_load(&part->unread, mrd_json_get(json, "unread"));
    part->models = mrd_node_models_load(json);
    part->features = mrd_runtime_features_load(json);
    if (mrd_json_is_array(mrd_json_get(json, "device_profiles")))
        part->device_profiles = mrd_json_copy(mrd_json_get(json, "device_profiles"));
    part_clock_load(part, mrd_json_get(json, "clock"));
}

static mrd_err
part_load(mrd_core *core, mrd_session *session, const mrd_json *json, mrd_why *why)
{
    mrd_node stand_in = { 0 };
    mrd_part *part;

    mrd_text_set(stand_in.instance_id, sizeof(stand_in.instance_id),
                 mrd_json_str(json, "instance_id", ""));
    if (!mrd_instance_id_valid(mrd_str_of(stand_in.instance_id)))
        return mrd_why_set(why, MRD_CORRUPT, 0,
                           "the manifest of session %s contains an invalid node name '%s'",
                           session->text, stand_in.instance_id);
    if (mrd_session_part(session, stand_in.instance_id) != NULL)
        return mrd_why_set(why, MRD_CORRUPT, 0,
                           "the manifest of session %s contains node '%s' twice", session->text,
                           stand_in.instance_id);
    mrd_text_set(stand_in.host_name, sizeof(stand_in.host_name),
                 mrd_json_str(json, "host_name", ""));
    mrd_text_set(stand_in.boot_id, sizeof(stand_in.boot_id), mrd_json_str(json, "boot_id", ""));
    mrd_text_set(stand_in.release, sizeof(stand_in.release), mrd_json_str(json, "release", ""));
    mrd_text_set(stand_in.commit, sizeof(stand_in.commit), mrd_json_str(json, "commit", ""));
    stand_in.hello_local.ns = mrd_time_checked(mrd_json_int(json, "local_ns", 0));
    stand_in.hello_wall.ns = mrd_time_checked(mrd_json_int(json, "wall_ns", 0));
    stand_in.simulated = mrd_json_bool(json, "simulated", false);
    if ((part = mrd_core_add_part(core, session, &stand_in)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "session %s", session->text);
    part_fill(part, json);
    return MRD_OK;
}

/* ---- Artifacts ---- */

/* Returns true if the file comes from an unfinished conversion. Such a file is not listed, because
 * the conversion runs again and makes the file again. */
static bool
is_half_made(const mrd_session *session, const mrd_listed_artifact *artifact)
{
    const mrd_conversion *conversion;

    if (!mrd_kind_is_converted(artifact->kind))
        return false;
    conversion =
        mrd_conversions_find(&session->conversions, artifact->instance_id, artifact->process_id);
    return conversion == NULL || conversion->state != MRD_CONVERT_DONE;
}

/* Adds an artifact to the session, or marks a listed one as complete. `seen` maps hash and name of
 * an artifact to its index. */
static mrd_err
artifact_load(mrd_core *core, mrd_session *session, const mrd_json *json, bool of_log,
              mrd_map *seen)
{
    mrd_listed_artifact artifact = { .size = (uint64_t) mrd_json_int(json, "size", 0),
                                     .process_id = mrd_json_int(json, "process_id", -1),
                                     .nc_idx = mrd_json_int(json, "nc_idx", -1),
                                     .complete = mrd_json_bool(json, "complete", false) };
    mrd_map_key key, file;
    uint32_t at;

    mrd_text_set(artifact.sha256, sizeof(artifact.sha256), mrd_json_str(json, "sha256", ""));
    mrd_text_set(artifact.name, sizeof(artifact.name), mrd_json_str(json, "name", ""));
    mrd_text_set(artifact.kind, sizeof(artifact.kind), mrd_json_str(json, "kind", ""));
    mrd_text_set(artifact.instance_id, sizeof(artifact.instance_id),
                 mrd_json_str(json, "instance_id", ""));
    artifact.logged = artifact.complete && !of_log;
    if (!mrd_hash_is_valid(artifact.sha256) || mrd_artifact_name_fault(artifact.name) != NULL ||
        !mrd_instance_id_valid(mrd_str_of(artifact.instance_id)))
        return MRD_CORRUPT;
    if (is_half_made(session, &artifact))
        return MRD_OK;
    key = (mrd_map_key){ mrd_hash64(artifact.sha256, strlen(artifact.sha256),
                                    (uint64_t) artifact.process_id),
                         mrd_hash64(artifact.name, strlen(artifact.name), 1),
                         mrd_hash64(artifact.instance_id, strlen(artifact.instance_id), 2) };
    file = (mrd_map_key){ .a = key.a };
    if ((at = mrd_map_get(seen, key)) != MRD_MAP_NONE) {
        session->artifacts[at].complete = session->artifacts[at].complete || artifact.complete;
        session->artifacts[at].logged = session->artifacts[at].logged || artifact.logged;
        return MRD_OK;
    }
    if (session->n_artifacts >= MRD_ARTIFACTS_MAX)
        return MRD_LIMIT;
    if (!MRD_VEC_NEXT(session->artifacts, session->n_artifacts))
        return MRD_NOMEM;
    if (mrd_stored_files_list(&core->files, artifact.sha256) != MRD_OK)
        return MRD_NOMEM;
    session->artifacts[session->n_artifacts] = artifact;
    if (mrd_map_get(seen, file) == MRD_MAP_NONE)
        session->artifact_bytes += artifact.size;
    (void) mrd_map_put(seen, file, 0);
    return mrd_map_put(seen, key, (uint32_t) session->n_artifacts++);
}

/* Loads the artifacts of the manifest, then the newer ones of artifacts.log. After a failed sync,
 * the last entries of the log may be only in the page cache. If these entries get lost, the agents
 * upload the files again. */
static void
artifacts_load(mrd_core *core, mrd_session *session, const mrd_json *list, const mrd_json *log)
{
    mrd_map seen = { 0 };

    for (size_t i = 0; list != NULL && i < mrd_json_size(list); i++)
        (void) artifact_load(core, session, mrd_json_at(list, i), false, &seen);
    for (size_t i = 0; log != NULL && i < mrd_json_size(log); i++)
        (void) artifact_load(core, session, mrd_json_at(log, i), true, &seen);
    for (size_t i = 0; i < session->n_artifacts; i++) {
        if (session->artifacts[i].complete)
            mrd_stored_files_grown(&core->files, session->artifacts[i].sha256,
                                   session->artifacts[i].size);
    }
    mrd_map_fini(&seen);
}

/* ---- Changes and triggers ---- */

/* Loads the changes of the session: pauses, cores and event types. A node that has not confirmed
 * the latest revision receives it again. */
static void
changes_load(mrd_session *session, const mrd_json *json)
{
    const mrd_json *list = mrd_json_get(json, "pauses");
    unsigned revision = mrd_json_get_u32(json, "revision");

    if (revision == 0)
        return;
    session->changes.revision = session->changes.sent = revision;
    for (size_t i = 0; list != NULL && i < mrd_json_size(list) && i < MRD_PAUSES_MAX; i++) {
        const mrd_json *p = mrd_json_at(list, i);

        session->changes.pauses[session->changes.n_pauses++] =
            (mrd_pause){ { mrd_time_checked(mrd_json_int(p, "from_ns", 0)) },
                         { mrd_time_checked(mrd_json_int(p, "to_ns", 0)) },
                         mrd_json_get_u32(p, "from_revision"),
                         mrd_json_get_u32(p, "to_revision") };
    }
}

/* Loads the triggers. A trigger that no agent confirmed is sent again. Agents recognize a repeated
 * trigger by its id. */
static void
triggers_load(mrd_session *session, const mrd_json *list)
{
    size_t n = list == NULL ? 0 : mrd_json_size(list);

    for (size_t i = 0; i < n && n <= MRD_TRIGGERS_MAX; i++) {
        const mrd_json *json = mrd_json_at(list, i);
        mrd_trigger trigger = { .id = mrd_json_get_hex(json, "id"),
                                .from = { mrd_time_checked(mrd_json_int(json, "from_ns", 0)) },
                                .to = { mrd_time_checked(mrd_json_int(json, "to_ns", 0)) },
                                .acknowledged = mrd_json_get_u32(json, "answered") };

        trigger.sent = trigger.acknowledged > 0;
        mrd_text_set(trigger.reason, sizeof(trigger.reason), mrd_json_str(json, "reason", ""));
        if (mrd_session_add_trigger(session, &trigger, NULL) != MRD_OK)
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

/* Loads which nodes confirmed each trigger. The manifest lists only the nodes that did not. All
 * others confirmed the trigger or joined after it. */
static void
acknowledged_load(mrd_session *session, const mrd_json *list)
{
    for (size_t i = 0; i < session->n_triggers; i++) {
        const mrd_json *without = mrd_json_get(mrd_json_at(list, i), "unacknowledged");
        unsigned acknowledged = session->triggers[i].acknowledged;

        for (size_t k = 0; k < session->n_parts; k++) {
            mrd_part *part = session->parts[k];

            if (mrd_session_missed(session, part, i) && !names(without, part->instance_id))
                mrd_session_acknowledge(session, part, i);
        }
        session->triggers[i].acknowledged = acknowledged;
    }
}

/* ---- The whole session ---- */

static void
verdict_load(mrd_session *session, const mrd_json *json)
{
    const mrd_json *timeline = mrd_json_get(json, "timeline");
    mrd_clock_verdict *verdict = &session->verdict;

    verdict->done = mrd_json_bool(json, "merged", false);
    verdict->held_out = (uint64_t) mrd_json_int(json, "held_out_checked", 0);
    verdict->held_out_violations = (uint64_t) mrd_json_int(json, "held_out_violations", 0);
    verdict->absolute = (uint64_t) mrd_json_int(json, "absolute_checked", 0);
    verdict->absolute_violations = (uint64_t) mrd_json_int(json, "absolute_violations", 0);
    verdict->collectives.collectives = (size_t) mrd_json_int(json, "collectives_checked", 0);
    verdict->collectives.out_of_order = (size_t) mrd_json_int(json, "collectives_out_of_order", 0);
    verdict->collectives.violations = (size_t) mrd_json_int(json, "collective_violations", 0);
    verdict->collectives.worst = mrd_json_int(json, "collective_worst_ns", 0);
    if (mrd_json_is_array(timeline))
        verdict->timeline = mrd_json_copy(timeline);
    for (size_t i = 0; verdict->timeline != NULL && i < mrd_json_size(verdict->timeline); i++)
        verdict->link_violations +=
            (uint64_t) mrd_json_int(mrd_json_at(verdict->timeline, i), "contradicting", 0);
    mrd_text_set(verdict->message, sizeof(verdict->message), mrd_json_str(json, "message", ""));
}

static void
jobs_load(mrd_session *session, const mrd_json *json)
{
    mrd_json *list = mrd_json_get(json, "jobs"); /* releases before 0.2 did not write "jobs" */

    for (size_t i = 0; list != NULL && i < mrd_json_size(list); i++) {
        mrd_json *job = mrd_json_at(list, i);
        mrd_jobid id = { "" };

        for (void *it = mrd_json_iter(job); it != NULL; it = mrd_json_iter_next(job, it)) {
            const char *key = mrd_json_iter_key(it);

            (void) mrd_jobid_set(&id, mrd_str_of(key), mrd_str_of(mrd_json_str(job, key, "")));
        }
        mrd_session_add_job(session, id.text);
    }
    session->jobs_left_out = mrd_json_get_u32(json, "jobs_left_out");
}

static void
job_load(mrd_session *session, const mrd_json *json)
{
    const mrd_json *keys = mrd_json_get(json, "owner_keys");

    if (json == NULL)
        return;
    mrd_text_set(session->of_job.key.text, sizeof(session->of_job.key.text),
                 mrd_json_str(json, "key", ""));
    session->of_job.key.uid = mrd_json_int(json, "uid", -1);
    session->of_job.nodes = mrd_json_get_u32(json, "nodes");
    session->of_job.witness = mrd_job_witness_of(mrd_json_str(json, "witness", ""));
    for (size_t i = 0; keys != NULL && i < mrd_json_size(keys); i++) {
        char scratch[64];
        mrd_str key;

        if (mrd_json_text(mrd_json_at(keys, i), scratch, &key) == MRD_OK)
            (void) mrd_strlist_add(&session->of_job.owner_keys, key);
    }
}

/* Loads the state of the export. An incomplete one runs again, and skips files that are copied
 * already. */
static void
export_load(mrd_session *session, const mrd_json *json)
{
    if (json == NULL || strcmp(mrd_json_str(json, "state", ""), "done") != 0)
        return;
    session->copy.state = MRD_EXPORT_DONE;
    session->copy.files = (uint64_t) mrd_json_int(json, "files", 0);
    session->copy.bytes = (uint64_t) mrd_json_int(json, "bytes", 0);
}

/* Loads the last merge of a complete session. If the merge was interrupted, its profile is
 * incomplete, and the session is merged again. The new merge begins when a manifest with this
 * decision is on disk. */
static void
merge_load(mrd_session *session, const mrd_json *json)
{
    const char *state = mrd_json_str(json, "state", "");

    for (mrd_merge_state merge_state = MRD_MERGE_NONE; merge_state <= MRD_MERGE_CANCELLED;
         merge_state++)
        session->job.state = strcmp(state, mrd_merge_state_text(merge_state)) == 0
                                 ? merge_state
                                 : session->job.state;
    session->job.events = (uint64_t) mrd_json_int(json, "events", 0);
    session->job.total = (uint64_t) mrd_json_int(json, "total", 0);
    mrd_text_set(session->job.message, sizeof(session->job.message),
                 mrd_json_str(json, "message", ""));
    if (mrd_session_is_merging(session))
        session->job =
            (mrd_merge_job){ .state = MRD_MERGE_WAITING, .after = session->save.version };
}

/* Decides how an unfinished session continues after a restart of the aggregator. If the session's
 * nodes were still being prepared (arming), agents get time to reconnect before the session starts.
 * If such a session is older than RESUME_MAX, it fails. */
static void
resume(mrd_core *core, mrd_session *session)
{
    static const mrd_session_step steps[MRD_SESSION_STATES] = { MRD_STEP_WAIT,  MRD_STEP_RECORD,
                                                                MRD_STEP_FLUSH, MRD_STEP_CLOSE,
                                                                MRD_STEP_OVER,  MRD_STEP_OVER };

    session->step = steps[session->state];
    session->closed = session->state >= MRD_SESSION_MERGING;
    session->flush_deadline.ns = core->now.local.ns + core->limits.flush_timeout;
    if (session->state == MRD_SESSION_ARMING && mrd_session_waits_for_job(session))
        session->step = MRD_STEP_EXPECT; /* a session may wait for its job without a time limit */
    if (session->state != MRD_SESSION_ARMING || mrd_session_waits_for_job(session))
        return;
    if (core->now.wall.ns - session->created.ns < RESUME_MAX) {
        session->arm_from.ns = core->now.local.ns + 2 * core->limits.node_timeout;
        return;
    }
    session->state = MRD_SESSION_FAILED;
    session->step = MRD_STEP_OVER;
    session->closed = true;
    mrd_text_set(session->message, sizeof(session->message),
                 "the aggregator stopped before the session had begun: start it again");
}

static mrd_err
session_load(mrd_core *core, const mrd_json *json, const mrd_json *log, mrd_session *session,
             mrd_why *why)
{
    const mrd_json *nodes = mrd_json_get(json, "nodes");
    mrd_err err = MRD_OK;

    if (mrd_json_int(json, "version", 0) != MANIFEST_VERSION)
        return mrd_why_set(why, MRD_VERSION, 0, "session %s has manifest version %lld",
                           session->text, (long long) mrd_json_int(json, "version", 0));
    if (mrd_session_params_init(&session->params) != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "session %s", session->text);
    mrd_session_params_from_manifest(&session->params, json);
    session->stop_requested = mrd_json_bool(json, "stop_requested", false);
    jobs_load(session, json);
    job_load(session, mrd_json_get(json, "job"));
    session->of_job.ended = core->now.local;
    mrd_text_set(session->message, sizeof(session->message), mrd_json_str(json, "message", ""));
    session->state = mrd_session_state_of(mrd_json_str(json, "state", "failed"));
    session->created.ns = mrd_time_checked(mrd_json_int(json, "created_ns", 0));
    mrd_text_set(session->timeline, sizeof(session->timeline), mrd_json_str(json, "timeline", ""));
    verdict_load(session, mrd_json_get(json, "clocks"));
    session->go.ns = mrd_time_checked(mrd_json_int(json, "go_ns", 0));
    session->stop.ns = mrd_time_checked(mrd_json_int(json, "stop_ns", 0));
    session->ended.ns = mrd_time_checked(mrd_json_int(json, "ended_ns", 0));
    session->full.ns = mrd_time_checked(mrd_json_int(json, "store_full_ns", 0));
    session->room.ns = mrd_time_checked(mrd_json_int(json, "store_room_ns", 0));
    triggers_load(session, mrd_json_get(json, "triggers"));
    changes_load(session, json);
    export_load(session, mrd_json_get(json, "export"));
    /* loaded after the export, because a complete export may become pending here */
    mrd_conversions_load(core, session, mrd_json_get(json, "conversions"));
    artifacts_load(core, session, mrd_json_get(json, "artifacts"), log);
    if (mrd_json_get(json, "select") != NULL)
        err = mrd_select_from_json(&session->select, mrd_json_get(json, "select"), why);
    for (size_t i = 0; err == MRD_OK && nodes != NULL && i < mrd_json_size(nodes); i++)
        err = part_load(core, session, mrd_json_at(nodes, i), why);
    acknowledged_load(session, mrd_json_get(json, "triggers"));
    resume(core, session);
    /* the manifest on disk has this state, except for what resume() has changed */
    session->save.durable = session->save.tried = session->save.version;
    mrd_session_touch(session);
    if (session->state == MRD_SESSION_COMPLETE && mrd_json_get(json, "profile") != NULL)
        merge_load(session, mrd_json_get(json, "profile"));
    return err;
}

static void
session_drop(mrd_core *core, mrd_session *session)
{
    for (size_t i = 0; i < session->n_artifacts; i++) {
        mrd_stored_files_retire(&core->files, session->artifacts[i].sha256);
        mrd_stored_files_unlist(&core->files, session->artifacts[i].sha256);
    }
    mrd_session_free(session);
}

mrd_err
mrd_core_load_session(mrd_core *core, uint64_t id, const mrd_json *manifest,
                      const mrd_json *artifact_log, mrd_session **ret_session, mrd_why *why)
{
    mrd_session *session = calloc(1, sizeof(*session));
    mrd_err err;

    if (session == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "session");
    session->id = id;
    mrd_session_id_text(id, session->text);
    err = session_load(core, manifest, artifact_log, session, why);
    if (err == MRD_OK && mrd_core_add_session(core, session) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "session %s", session->text);
    if (err == MRD_OK) {
        *ret_session = session;
        return MRD_OK;
    }
    session_drop(core, session);
    return err;
}

/* Compares a node's part of the session with the node's journal. If the manifest counts more events
 * than the journal contains, the missing events are recorded as damage. The journal may have more
 * events than the manifest, because a flushed node can send again (begins_again in frames.c). */
void
mrd_core_part_read(mrd_core *core, mrd_session *session, mrd_part *part)
{
    mrd_node *node = mrd_nodes_by_id(&core->nodes, part->instance_id);
    mrd_damage damage = part->damage;

    if (node != NULL)
        node->gaps += mrd_part_gaps(part);
    if (part->state == MRD_PART_FLUSHED && mrd_session_is_open(session) &&
        part->manifest_events >= 0 && part->events > (uint64_t) part->manifest_events)
        part->state = MRD_PART_STOPPING;
    if (part->manifest_events <= 0 || (uint64_t) part->manifest_events <= part->events)
        return;
    damage.events = (uint64_t) part->manifest_events - part->events;
    part->events = (uint64_t) part->manifest_events;
    mrd_core_part_damaged(core, session, part, &damage, false);
}

mrd_part *
mrd_core_found_part(mrd_core *core, mrd_session *session, const char *instance_id)
{
    mrd_node stand_in = { 0 };
    mrd_part *part;

    if (!mrd_instance_id_valid(mrd_str_of(instance_id)))
        return NULL;
    mrd_text_set(stand_in.instance_id, sizeof(stand_in.instance_id), instance_id);
    if ((part = mrd_core_add_part(core, session, &stand_in)) == NULL)
        return NULL;
    part->state = session->state <= MRD_SESSION_STOPPING ? MRD_PART_RECORDING : MRD_PART_LOST;
    mrd_text_set(part->message, sizeof(part->message), "joined just before the aggregator stopped");
    return part;
}

void
mrd_core_unload_session(mrd_core *core, mrd_session *session)
{
    for (size_t i = 0; i < core->n_sessions; i++) {
        if (core->sessions[i] != session)
            continue;
        core->sessions[i] = core->sessions[--core->n_sessions];
        session_drop(core, session);
        return;
    }
}
