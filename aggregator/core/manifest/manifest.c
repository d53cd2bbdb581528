#include "aggregator/core/manifest/manifest.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/json.h"
#include "aggregator/core/common/text.h"
#include "aggregator/core/manifest/conversions.h"
#include "aggregator/core/manifest/empty.h"
#include "base/event_type.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/version.h"

#define MANIFEST_VERSION 1
#define COVER_SLACK      (100 * MRD_MS)

static mrd_json *
epochs_json(const mrd_part *part, uint64_t *ret_missing)
{
    mrd_json *json = mrd_json_new_array();

    *ret_missing = 0;
    for (unsigned i = 0; i < part->n_epochs; i++) {
        const mrd_part_epoch *epoch = &part->epochs[i];
        uint64_t missing = mrd_count_checked(mrd_part_epoch_missing(epoch));
        mrd_json *o = mrd_json_new_object();

        *ret_missing += missing;
        mrd_json_put_hex(o, "epoch", epoch->epoch);
        mrd_json_set(o, "end", mrd_json_new_count(mrd_part_epoch_end(epoch)));
        mrd_json_set(o, "missing", mrd_json_new_count(missing));
        if (epoch->since != 0)
            mrd_json_put_hex(o, "since", epoch->since);
        mrd_json_append(json, o);
    }
    return json;
}

/* Writes which part of the session's time a node recorded (its coverage). The session lasts from
 * its start to its stop, or to `now` if it still records. A node covers less if it joined late,
 * refused or was lost. A start within COVER_SLACK after the session's start counts as equal to it.
 * covered_ns, paused_ns and not_recorded_ns add up to the time from covered_from to covered_to. */
static void
put_coverage(const mrd_session *session, const mrd_part *part, mrd_sess_ns now, mrd_json *json)
{
    int64_t end = session->stop.ns != 0 && session->stop.ns < now.ns ? session->stop.ns : now.ns;
    mrd_gap pauses[MRD_PAUSES_MAX];
    size_t n = mrd_session_pauses(session, part, pauses);
    mrd_dur_ns shift = mrd_part_shift(part);
    int64_t from = mrd_part_began(part).ns, to, paused, holes = mrd_part_holes(part, pauses, n);

    if (session->go.ns == 0 || end <= session->go.ns)
        return;
    from = from == 0 ? end : from;
    from = from < session->go.ns + COVER_SLACK ? session->go.ns : from;
    to = part->state == MRD_PART_LOST && part->lost.ns != 0 && part->lost.ns < end ? part->lost.ns
                                                                                   : end;
    if (to < from)
        to = from = end;
    paused = mrd_gaps_union(pauses, n, mrd_sat_sub(from, shift), mrd_sat_sub(to, shift));
    holes = holes > to - from - paused ? to - from - paused : holes;
    if (n > 0)
        mrd_json_set(json, "paused_ns", mrd_json_new_int(paused));
    if (holes > 0)
        mrd_json_set(json, "not_recorded_ns", mrd_json_new_int(holes));
    mrd_json_put_instant(json, "covered_from", from);
    mrd_json_put_instant(json, "covered_to", to);
    mrd_json_set(json, "covered_ns", mrd_json_new_int(to - from - holes - paused));
    mrd_json_set(json, "window_ns", mrd_json_new_int(end - session->go.ns));
}

static mrd_json *
part_clock_json(const mrd_part *part)
{
    mrd_json *json = mrd_clock_quality_json(&part->clock);

    mrd_json_set(json, "frames_checked", mrd_json_new_count(part->causality.checked));
    mrd_json_set(json, "frame_violations", mrd_json_new_count(part->causality.violations));
    mrd_json_set(json, "frame_worst_ns", mrd_json_new_int(part->causality.worst));
    if (part->has_reading)
        mrd_json_set(json, "host", mrd_host_reading_json(&part->reading));
    return json;
}

static mrd_json *
part_json(const mrd_session *session, const mrd_part *part, mrd_sess_ns now)
{
    mrd_json *json = mrd_json_new_object();
    uint64_t missing = 0;

    mrd_json_set(json, "instance_id", mrd_json_new_str(part->instance_id));
    mrd_json_set(json, "host_name", mrd_json_new_str(part->host_name));
    mrd_json_set(json, "boot_id", mrd_json_new_str(part->boot_id));
    if (part->release[0] != '\0')
        mrd_json_set(json, "release", mrd_json_new_str(part->release));
    if (part->commit[0] != '\0')
        mrd_json_set(json, "commit", mrd_json_new_str(part->commit));
    mrd_json_set(json, "state", mrd_json_new_str(mrd_part_state_text(part->state)));
    if (part->job_ended)
        mrd_json_set(json, "job_ended", mrd_json_new_bool(true));
    if (part->message[0] != '\0')
        mrd_json_set(json, "message", mrd_json_new_str(part->message));
    if (part->err != MRD_OK)
        mrd_json_set(json, "err", mrd_json_new_count(part->err));
    if (part->revision > 0)
        mrd_json_set(json, "revision", mrd_json_new_int(part->revision));
    mrd_json_set(json, "simulated", mrd_json_new_bool(part->simulated));
    mrd_json_set(json, "started_local_ns", mrd_json_new_int(part->started.ns));
    mrd_json_set(json, "start_bound_ns", mrd_json_new_int(part->start_bound));
    mrd_json_set(json, "stopped_local_ns", mrd_json_new_int(part->stopped.ns));
    mrd_json_set(json, "complete_local_ns", mrd_json_new_int(part->complete.ns));
    mrd_json_put_instant(json, "lost", part->lost.ns);
    put_coverage(session, part, now, json);
    mrd_json_set(json, "local_ns", mrd_json_new_int(part->local.ns));
    mrd_json_set(json, "wall_ns", mrd_json_new_int(part->wall.ns));
    mrd_json_set(json, "events", mrd_json_new_count(part->events));
    mrd_json_set(json, "batches", mrd_json_new_count(part->batches));
    mrd_json_set(json, "bytes", mrd_json_new_count(part->bytes));
    if (part->first.ns <= part->last.ns) {
        mrd_json_set(json, "first_local_ns", mrd_json_new_int(part->first.ns));
        mrd_json_set(json, "last_local_ns", mrd_json_new_int(part->last.ns));
    }
    mrd_json_set(json, "epochs", epochs_json(part, &missing));
    mrd_json_set(json, "missing_batches", mrd_json_new_count(missing));
    mrd_json_set(json, "damaged_events", mrd_json_new_count(part->damage.events));
    mrd_json_set(json, "damaged_frames", mrd_json_new_count(part->damage.frames));
    mrd_json_set(json, "foreign_batches", mrd_json_new_count(part->damage.foreign));
    if (part->refused_files > 0) {
        mrd_json_set(json, "refused_files", mrd_json_new_count(part->refused_files));
        mrd_json_set(json, "refused_file", mrd_json_new_str(part->refused_file));
    }
    mrd_part_counts_put(part, json);
    if (part->tally.known)
        mrd_json_set(json, "tally", mrd_part_tally_json(part));
    if (mrd_session_is_recorder(session) && part->state == MRD_PART_RECORDING) {
        mrd_json *held = mrd_json_new_object();

        mrd_json_set(held, "bytes", mrd_json_new_count(part->held.bytes));
        mrd_json_set(held, "reach_ns", mrd_json_new_int(part->held.reach));
        mrd_json_set(json, "recorder", held);
    }
    mrd_unread_put(&part->unread, json);
    mrd_json_set(json, "clock", part_clock_json(part));
    mrd_node_models_put(part->models, json);
    mrd_runtime_features_put(part->features, json);
    if (part->device_profiles != NULL)
        mrd_json_set(json, "device_profiles", mrd_json_copy(part->device_profiles));
    return json;
}

static mrd_json *
clocks_json(const mrd_session *session)
{
    mrd_json *json = mrd_json_new_object();
    const mrd_clock_verdict *verdict = &session->verdict;
    uint64_t frames = 0, violations = mrd_session_violations(session);

    for (size_t i = 0; i < session->n_parts; i++)
        frames += session->parts[i]->causality.checked;
    mrd_json_set(json, "violations", mrd_json_new_count(violations));
    mrd_json_set(json, "trusted", mrd_json_new_bool(violations == 0));
    mrd_json_set(json, "frames_checked", mrd_json_new_count(frames));
    mrd_json_set(json, "merged", mrd_json_new_bool(verdict->done));
    mrd_json_set(json, "held_out_checked", mrd_json_new_count(verdict->held_out));
    mrd_json_set(json, "held_out_violations", mrd_json_new_count(verdict->held_out_violations));
    mrd_json_set(json, "absolute_checked", mrd_json_new_count(verdict->absolute));
    mrd_json_set(json, "absolute_violations", mrd_json_new_count(verdict->absolute_violations));
    mrd_json_set(json, "collectives_checked", mrd_json_new_count(verdict->collectives.collectives));
    mrd_json_set(json, "collectives_out_of_order",
                 mrd_json_new_count(verdict->collectives.out_of_order));
    mrd_json_set(json, "collective_violations",
                 mrd_json_new_count(verdict->collectives.violations));
    mrd_json_set(json, "collective_worst_ns", mrd_json_new_int(verdict->collectives.worst));
    if (verdict->timeline != NULL)
        mrd_json_set(json, "timeline", mrd_json_copy(verdict->timeline));
    if (verdict->message[0] != '\0')
        mrd_json_set(json, "message", mrd_json_new_str(verdict->message));
    return json;
}

/* Lists the nodes that recorded in the window of the trigger, but have not confirmed the
 * trigger. */
static void
put_unacknowledged(const mrd_session *session, size_t trigger, mrd_json *json)
{
    mrd_json *a = mrd_json_new_array();

    for (size_t i = 0; i < session->n_parts; i++) {
        if (mrd_session_missed(session, session->parts[i], trigger))
            mrd_json_append(a, mrd_json_new_str(session->parts[i]->instance_id));
    }
    if (mrd_json_size(a) > 0)
        mrd_json_set(json, "unacknowledged", a);
    else
        mrd_json_free(a);
}

static mrd_json *
triggers_json(const mrd_session *session)
{
    mrd_json *json = mrd_json_new_array();

    for (size_t i = 0; i < session->n_triggers; i++) {
        const mrd_trigger *trigger = &session->triggers[i];
        mrd_json *o = mrd_json_new_object();

        mrd_json_put_hex(o, "id", trigger->id);
        mrd_json_put_instant(o, "from", trigger->from.ns);
        mrd_json_put_instant(o, "to", trigger->to.ns);
        mrd_json_set(o, "reason", mrd_json_new_str(trigger->reason));
        mrd_json_set(o, "answered", mrd_json_new_int(trigger->acknowledged));
        put_unacknowledged(session, i, o);
        mrd_json_append(json, o);
    }
    return json;
}

static mrd_json *
pauses_json(const mrd_session *session)
{
    mrd_json *json = mrd_json_new_array();

    for (size_t i = 0; i < session->changes.n_pauses; i++) {
        mrd_json *o = mrd_json_new_object();

        mrd_json_put_instant(o, "from", session->changes.pauses[i].from.ns);
        mrd_json_put_instant(o, "to", session->changes.pauses[i].to.ns);
        if (session->changes.pauses[i].from_revision != 0)
            mrd_json_set(o, "from_revision",
                         mrd_json_new_int(session->changes.pauses[i].from_revision));
        if (session->changes.pauses[i].to_revision != 0)
            mrd_json_set(o, "to_revision",
                         mrd_json_new_int(session->changes.pauses[i].to_revision));
        mrd_json_append(json, o);
    }
    return json;
}

mrd_json *
mrd_listed_artifact_json(const mrd_listed_artifact *artifact)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "sha256", mrd_json_new_str(artifact->sha256));
    mrd_json_set(json, "size", mrd_json_new_count(artifact->size));
    mrd_json_set(json, "name", mrd_json_new_str(artifact->name));
    mrd_json_set(json, "kind", mrd_json_new_str(artifact->kind));
    mrd_json_set(json, "instance_id", mrd_json_new_str(artifact->instance_id));
    mrd_json_set(json, "process_id", mrd_json_new_int(artifact->process_id));
    mrd_json_set(json, "nc_idx", mrd_json_new_int(artifact->nc_idx));
    mrd_json_set(json, "complete", mrd_json_new_bool(artifact->complete));
    return json;
}

static mrd_json *
artifacts_json(const mrd_session *session)
{
    mrd_json *json = mrd_json_new_array();

    for (size_t i = 0; i < session->n_artifacts; i++)
        mrd_json_append(json, mrd_listed_artifact_json(&session->artifacts[i]));
    return json;
}

static mrd_json *
job_json(const mrd_merge_job *job)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "state", mrd_json_new_str(mrd_merge_state_text(job->state)));
    if (job->state == MRD_MERGE_NONE)
        return json;
    mrd_json_set(json, "events", mrd_json_new_count(job->events));
    mrd_json_set(json, "total", mrd_json_new_count(job->total));
    if (job->state == MRD_MERGE_FAILED)
        mrd_json_set(json, "message", mrd_json_new_str(job->message));
    return json;
}

static mrd_json *
export_json(const mrd_export *export)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "state", mrd_json_new_str(mrd_export_state_text(export->state)));
    mrd_json_set(json, "files", mrd_json_new_count(export->files));
    mrd_json_set(json, "bytes", mrd_json_new_count(export->bytes));
    mrd_json_set(json, "attempts", mrd_json_new_count(export->attempts));
    if (export->message[0] != '\0')
        mrd_json_set(json, "message", mrd_json_new_str(export->message));
    return json;
}

/* Puts the identities of the jobs that the session recorded into the JSON. */
static void
put_jobs(const mrd_session *session, mrd_json *json)
{
    mrd_json *list = mrd_json_new_array();

    for (size_t i = 0; i < session->jobs.n; i++)
        mrd_json_append(list, mrd_jobid_json(session->jobs.v[i]));
    mrd_json_set(json, "jobs", list);
    if (session->jobs_left_out > 0)
        mrd_json_set(json, "jobs_left_out", mrd_json_new_count(session->jobs_left_out));
}

/* Writes the job to which the session belongs. Only session.json contains the hashes of the owner's
 * tokens, not the answers of the API. */
static void
put_job(const mrd_session *session, const mrd_manifest_context *context, mrd_json *json)
{
    mrd_json *job;

    if (session->of_job.key.text[0] == '\0')
        return;
    job = mrd_json_new_object();
    mrd_json_set(job, "key", mrd_json_new_str(session->of_job.key.text));
    mrd_json_set(job, "uid", mrd_json_new_int(session->of_job.key.uid));
    mrd_json_set(job, "nodes", mrd_json_new_count(session->of_job.nodes));
    mrd_json_set(job, "witness", mrd_json_new_str(mrd_job_witness_text(session->of_job.witness)));
    if (context->of_file && session->of_job.owner_keys.n > 0)
        mrd_json_set(job, "owner_keys", mrd_strings_json(&session->of_job.owner_keys));
    mrd_json_set(json, "job", job);
}

/* Writes totals over all nodes, and a list with an object for each node. */
static void
put_parts(const mrd_session *session, mrd_sess_ns now, mrd_json *json)
{
    uint64_t events = 0, bytes = 0, begun = 0, lost = 0, held = 0, damaged = 0;
    mrd_json *nodes = mrd_json_new_array();

    for (size_t i = 0; i < session->n_parts; i++) {
        const mrd_part *part = session->parts[i];

        mrd_json_append(nodes, part_json(session, part, now));
        events += part->events;
        bytes += part->bytes;
        begun += part->counts.begun;
        held += part->counts.held;
        lost += mrd_part_lost(part);
        damaged += part->damage.events;
    }
    mrd_json_set(json, "events", mrd_json_new_count(events));
    mrd_json_set(json, "bytes", mrd_json_new_count(bytes));
    mrd_json_set(json, "store_bytes", mrd_json_new_count(mrd_session_bytes(session)));
    mrd_json_set(json, "artifact_bytes", mrd_json_new_count(session->artifact_bytes));
    mrd_json_set(json, "begun", mrd_json_new_count(begun));
    mrd_json_set(json, "dropped", mrd_json_new_count(lost));
    mrd_json_set(json, "held", mrd_json_new_count(held));
    mrd_json_set(json, "damaged_events", mrd_json_new_count(damaged));
    mrd_json_set(json, "nodes", nodes);
}

mrd_manifest_context
mrd_core_manifest_context(const mrd_core *core)
{
    return (mrd_manifest_context){ .now = mrd_core_session_now(core),
                                   .store_message = mrd_core_store_message(core) };
}

static bool
unread_text(const mrd_part *part, char text[MRD_WHY_MAX])
{
    return mrd_unread_text(&part->unread, text);
}

/* Writes why a finished session may be incomplete. Writes only the first of these reasons that
 * applies, for the first node to which it applies. The order is: the agent did not read everything,
 * the store lost events, the agent's counts may lack events, the session selected no process.
 * Returns false if no reason applies. */
static bool
not_whole(const mrd_session *session, char text[MRD_WHY_MAX])
{
    static const struct {
        const char *but;
        bool (*text)(const mrd_part *part, char text[MRD_WHY_MAX]);
    } reasons[] = {
        { "but not whole", unread_text },
        { "but not whole", mrd_part_store_missing_text },
        { "but perhaps not whole", mrd_part_uncounted_text },
        { "but perhaps not all of the job", mrd_part_unselected_text },
    };
    char what[MRD_WHY_MAX];

    for (size_t k = 0; k < MRD_COUNT(reasons); k++)
        for (size_t i = 0; i < session->n_parts; i++) {
            if (!reasons[k].text(session->parts[i], what))
                continue;
            snprintf(text, MRD_WHY_MAX, "%s: %.100s: %.*s", reasons[k].but,
                     session->parts[i]->instance_id, (int) (MRD_WHY_MAX - 140), what);
            return true;
        }
    return false;
}

mrd_json *
mrd_session_json(const mrd_session *session, const mrd_manifest_context *context)
{
    mrd_json *json = mrd_json_new_object();
    const char *unstored =
        context->store_message != NULL ? context->store_message : session->unstored;
    char empty[MRD_WHY_MAX];

    mrd_json_set(json, "version", mrd_json_new_int(MANIFEST_VERSION));
    /* release of the aggregator that wrote the manifest */
    mrd_json_set(json, "release", mrd_json_new_str(MRD_RELEASE));
    if (*mrd_version_commit() != '\0')
        mrd_json_set(json, "commit", mrd_json_new_str(mrd_version_commit()));
    mrd_json_set(json, "id", mrd_json_new_str(session->text));
    mrd_json_set(json, "state", mrd_json_new_str(mrd_session_state_text(session->state)));
    if (session->message[0] != '\0')
        mrd_json_set(json, "message", mrd_json_new_str(session->message));
    else if (session->state == MRD_SESSION_COMPLETE && not_whole(session, empty))
        mrd_json_set(json, "message", mrd_json_new_str(empty));
    if (mrd_session_is_empty(session, empty))
        mrd_json_set(json, "empty", mrd_json_new_str(empty));
    mrd_session_params_put_manifest(&session->params, json);
    if (mrd_session_params_ask_runtime(&session->params))
        mrd_json_set(json, "runtime_session", mrd_json_new_int(mrd_session_tag(session->id)));
    mrd_json_set(json, "select", mrd_select_json(&session->select));
    mrd_json_set(json, "event_set", mrd_json_new_str(mrd_types_set(&session->select.types)));
    mrd_json_set(json, "timeline", mrd_json_new_str(session->timeline));
    mrd_json_put_instant(json, "created", session->created.ns);
    mrd_json_put_instant(json, "go", session->go.ns);
    mrd_json_put_instant(json, "stop", session->stop.ns);
    mrd_json_put_instant(json, "ended", session->ended.ns);
    mrd_json_put_instant(json, "store_full", session->full.ns);
    mrd_json_put_instant(json, "store_room", session->room.ns);
    if (unstored[0] != '\0' && mrd_session_is_open(session))
        mrd_json_set(json, "store_message", mrd_json_new_str(unstored));
    mrd_json_set(json, "stop_requested", mrd_json_new_bool(session->stop_requested));
    put_jobs(session, json);
    put_job(session, context, json);
    put_parts(session, context->now, json);
    mrd_json_set(json, "clocks", clocks_json(session));
    mrd_json_set(json, "triggers", triggers_json(session));
    if (session->changes.revision > 0) {
        mrd_json_set(json, "revision", mrd_json_new_int(session->changes.revision));
        mrd_json_set(json, "paused", mrd_json_new_bool(mrd_session_is_paused(session)));
        mrd_json_set(json, "pauses", pauses_json(session));
    }
    mrd_json_set(json, "artifacts", artifacts_json(session));
    if (session->conversions.n > 0)
        mrd_json_set(json, "conversions", mrd_conversions_json(session));
    mrd_json_set(json, "profile", job_json(&session->job));
    if (session->copy.state != MRD_EXPORT_NONE)
        mrd_json_set(json, "export", export_json(&session->copy));
    return json;
}
