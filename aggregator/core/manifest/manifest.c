#include "aggregator/core/manifest/manifest.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/json.h"
#include "aggregator/core/common/text.h"
#include "aggregator/core/manifest/conversions.h"
#include "aggregator/core/manifest/empty.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/version.h"

#define MANIFEST_VERSION 1
#define COVER_SLACK      (100 * MRD_MS)

static mrd_json *
epochs_json(const mrd_part *p, uint64_t *ret_missing)
{
    mrd_json *a = mrd_json_new_array();

    *ret_missing = 0;
    for (unsigned i = 0; i < p->n_epochs; i++) {
        const mrd_part_epoch *e = &p->epochs[i];
        uint64_t missing = mrd_count_checked(mrd_part_epoch_missing(e));
        mrd_json *o = mrd_json_new_object();

        *ret_missing += missing;
        mrd_json_put_hex(o, "epoch", e->epoch);
        mrd_json_set(o, "end", mrd_json_new_count(mrd_part_epoch_end(e)));
        mrd_json_set(o, "missing", mrd_json_new_count(missing));
        if (e->since != 0)
            mrd_json_put_hex(o, "since", e->since);
        mrd_json_append(a, o);
    }
    return a;
}

/* Puts how much of the time from start to stop (or now) the node recorded. It is less for a node
 * that joined late, refused or was lost. Starts that differ by less than COVER_SLACK count as
 * equal. The times between covered_from and covered_to are exactly covered, paused or not recorded. */
static void
put_coverage(const mrd_session *s, const mrd_part *p, mrd_sess_ns now, mrd_json *o)
{
    int64_t end = s->stop.ns != 0 && s->stop.ns < now.ns ? s->stop.ns : now.ns;
    mrd_gap pauses[MRD_PAUSES_MAX];
    size_t n = mrd_session_pauses(s, p, pauses);
    mrd_dur_ns shift = mrd_part_shift(p);
    int64_t from = mrd_part_began(p).ns, to, paused, holes = mrd_part_holes(p, pauses, n);

    if (s->go.ns == 0 || end <= s->go.ns)
        return;
    from = from == 0 ? end : from;
    from = from < s->go.ns + COVER_SLACK ? s->go.ns : from;
    to = p->state == MRD_PART_LOST && p->lost.ns != 0 && p->lost.ns < end ? p->lost.ns : end;
    if (to < from)
        to = from = end;
    paused = mrd_gaps_union(pauses, n, mrd_sat_sub(from, shift), mrd_sat_sub(to, shift));
    holes = holes > to - from - paused ? to - from - paused : holes;
    if (n > 0)
        mrd_json_set(o, "paused_ns", mrd_json_new_int(paused));
    if (holes > 0)
        mrd_json_set(o, "not_recorded_ns", mrd_json_new_int(holes));
    mrd_json_put_instant(o, "covered_from", from);
    mrd_json_put_instant(o, "covered_to", to);
    mrd_json_set(o, "covered_ns", mrd_json_new_int(to - from - holes - paused));
    mrd_json_set(o, "window_ns", mrd_json_new_int(end - s->go.ns));
}

static mrd_json *
part_clock_json(const mrd_part *p)
{
    mrd_json *o = mrd_clock_quality_json(&p->clock);

    mrd_json_set(o, "frames_checked", mrd_json_new_count(p->causality.checked));
    mrd_json_set(o, "frame_violations", mrd_json_new_count(p->causality.violations));
    mrd_json_set(o, "frame_worst_ns", mrd_json_new_int(p->causality.worst));
    if (p->has_reading)
        mrd_json_set(o, "host", mrd_host_reading_json(&p->reading));
    return o;
}

static mrd_json *
part_json(const mrd_session *s, const mrd_part *p, mrd_sess_ns now)
{
    mrd_json *o = mrd_json_new_object();
    uint64_t missing = 0;

    mrd_json_set(o, "instance_id", mrd_json_new_str(p->instance_id));
    mrd_json_set(o, "host_name", mrd_json_new_str(p->host_name));
    mrd_json_set(o, "boot_id", mrd_json_new_str(p->boot_id));
    if (p->release[0] != '\0')
        mrd_json_set(o, "release", mrd_json_new_str(p->release));
    if (p->commit[0] != '\0')
        mrd_json_set(o, "commit", mrd_json_new_str(p->commit));
    mrd_json_set(o, "state", mrd_json_new_str(mrd_part_state_text(p->state)));
    if (p->job_ended)
        mrd_json_set(o, "job_ended", mrd_json_new_bool(true));
    if (p->message[0] != '\0')
        mrd_json_set(o, "message", mrd_json_new_str(p->message));
    if (p->err != MRD_OK)
        mrd_json_set(o, "err", mrd_json_new_count(p->err));
    if (p->revision > 0)
        mrd_json_set(o, "revision", mrd_json_new_int(p->revision));
    mrd_json_set(o, "simulated", mrd_json_new_bool(p->simulated));
    mrd_json_set(o, "started_local_ns", mrd_json_new_int(p->started.ns));
    mrd_json_set(o, "start_bound_ns", mrd_json_new_int(p->start_bound));
    mrd_json_set(o, "stopped_local_ns", mrd_json_new_int(p->stopped.ns));
    mrd_json_set(o, "complete_local_ns", mrd_json_new_int(p->complete.ns));
    mrd_json_put_instant(o, "lost", p->lost.ns);
    put_coverage(s, p, now, o);
    mrd_json_set(o, "local_ns", mrd_json_new_int(p->local.ns));
    mrd_json_set(o, "wall_ns", mrd_json_new_int(p->wall.ns));
    mrd_json_set(o, "events", mrd_json_new_count(p->events));
    mrd_json_set(o, "batches", mrd_json_new_count(p->batches));
    mrd_json_set(o, "bytes", mrd_json_new_count(p->bytes));
    if (p->first.ns <= p->last.ns) {
        mrd_json_set(o, "first_local_ns", mrd_json_new_int(p->first.ns));
        mrd_json_set(o, "last_local_ns", mrd_json_new_int(p->last.ns));
    }
    mrd_json_set(o, "epochs", epochs_json(p, &missing));
    mrd_json_set(o, "missing_batches", mrd_json_new_count(missing));
    mrd_json_set(o, "damaged_events", mrd_json_new_count(p->damage.events));
    mrd_json_set(o, "damaged_frames", mrd_json_new_count(p->damage.frames));
    mrd_json_set(o, "foreign_batches", mrd_json_new_count(p->damage.foreign));
    if (p->refused_files > 0) {
        mrd_json_set(o, "refused_files", mrd_json_new_count(p->refused_files));
        mrd_json_set(o, "refused_file", mrd_json_new_str(p->refused_file));
    }
    mrd_part_counts_put(p, o);
    if (p->tally.known)
        mrd_json_set(o, "tally", mrd_part_tally_json(p));
    if (mrd_session_is_recorder(s) && p->state == MRD_PART_RECORDING) {
        mrd_json *held = mrd_json_new_object();

        mrd_json_set(held, "bytes", mrd_json_new_count(p->held.bytes));
        mrd_json_set(held, "reach_ns", mrd_json_new_int(p->held.reach));
        mrd_json_set(o, "recorder", held);
    }
    mrd_unread_put(&p->unread, o);
    mrd_json_set(o, "clock", part_clock_json(p));
    mrd_node_models_put(p->models, o);
    mrd_runtime_features_put(p->features, o);
    if (p->device_profiles != NULL)
        mrd_json_set(o, "device_profiles", mrd_json_copy(p->device_profiles));
    return o;
}

static mrd_json *
clocks_json(const mrd_session *s)
{
    mrd_json *o = mrd_json_new_object();
    const mrd_clock_verdict *v = &s->verdict;
    uint64_t frames = 0, violations = mrd_session_violations(s);

    for (size_t i = 0; i < s->n_parts; i++)
        frames += s->parts[i]->causality.checked;
    mrd_json_set(o, "violations", mrd_json_new_count(violations));
    mrd_json_set(o, "trusted", mrd_json_new_bool(violations == 0));
    mrd_json_set(o, "frames_checked", mrd_json_new_count(frames));
    mrd_json_set(o, "merged", mrd_json_new_bool(v->done));
    mrd_json_set(o, "held_out_checked", mrd_json_new_count(v->held_out));
    mrd_json_set(o, "held_out_violations", mrd_json_new_count(v->held_out_violations));
    mrd_json_set(o, "absolute_checked", mrd_json_new_count(v->absolute));
    mrd_json_set(o, "absolute_violations", mrd_json_new_count(v->absolute_violations));
    mrd_json_set(o, "collectives_checked", mrd_json_new_count(v->collectives.collectives));
    mrd_json_set(o, "collectives_out_of_order", mrd_json_new_count(v->collectives.out_of_order));
    mrd_json_set(o, "collective_violations", mrd_json_new_count(v->collectives.violations));
    mrd_json_set(o, "collective_worst_ns", mrd_json_new_int(v->collectives.worst));
    if (v->timeline != NULL)
        mrd_json_set(o, "timeline", mrd_json_copy(v->timeline));
    if (v->message[0] != '\0')
        mrd_json_set(o, "message", mrd_json_new_str(v->message));
    return o;
}

/* Lists nodes that took part when the trigger came and have not confirmed it. */
static void
put_unacknowledged(const mrd_session *s, size_t trigger, mrd_json *o)
{
    mrd_json *a = mrd_json_new_array();

    for (size_t i = 0; i < s->n_parts; i++) {
        if (mrd_session_missed(s, s->parts[i], trigger))
            mrd_json_append(a, mrd_json_new_str(s->parts[i]->instance_id));
    }
    if (mrd_json_size(a) > 0)
        mrd_json_set(o, "unacknowledged", a);
    else
        mrd_json_free(a);
}

static mrd_json *
triggers_json(const mrd_session *s)
{
    mrd_json *a = mrd_json_new_array();

    for (size_t i = 0; i < s->n_triggers; i++) {
        const mrd_trigger *t = &s->triggers[i];
        mrd_json *o = mrd_json_new_object();

        mrd_json_put_hex(o, "id", t->id);
        mrd_json_put_instant(o, "from", t->from.ns);
        mrd_json_put_instant(o, "to", t->to.ns);
        mrd_json_set(o, "reason", mrd_json_new_str(t->reason));
        mrd_json_set(o, "answered", mrd_json_new_int(t->acknowledged));
        put_unacknowledged(s, i, o);
        mrd_json_append(a, o);
    }
    return a;
}

static mrd_json *
pauses_json(const mrd_session *s)
{
    mrd_json *a = mrd_json_new_array();

    for (size_t i = 0; i < s->changes.n_pauses; i++) {
        mrd_json *o = mrd_json_new_object();

        mrd_json_put_instant(o, "from", s->changes.pauses[i].from.ns);
        mrd_json_put_instant(o, "to", s->changes.pauses[i].to.ns);
        if (s->changes.pauses[i].from_revision != 0)
            mrd_json_set(o, "from_revision", mrd_json_new_int(s->changes.pauses[i].from_revision));
        if (s->changes.pauses[i].to_revision != 0)
            mrd_json_set(o, "to_revision", mrd_json_new_int(s->changes.pauses[i].to_revision));
        mrd_json_append(a, o);
    }
    return a;
}

mrd_json *
mrd_listed_artifact_json(const mrd_listed_artifact *a)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "sha256", mrd_json_new_str(a->sha256));
    mrd_json_set(o, "size", mrd_json_new_count(a->size));
    mrd_json_set(o, "name", mrd_json_new_str(a->name));
    mrd_json_set(o, "kind", mrd_json_new_str(a->kind));
    mrd_json_set(o, "instance_id", mrd_json_new_str(a->instance_id));
    mrd_json_set(o, "process_id", mrd_json_new_int(a->process_id));
    mrd_json_set(o, "nc_idx", mrd_json_new_int(a->nc_idx));
    mrd_json_set(o, "complete", mrd_json_new_bool(a->complete));
    return o;
}

static mrd_json *
artifacts_json(const mrd_session *s)
{
    mrd_json *a = mrd_json_new_array();

    for (size_t i = 0; i < s->n_artifacts; i++)
        mrd_json_append(a, mrd_listed_artifact_json(&s->artifacts[i]));
    return a;
}

static mrd_json *
job_json(const mrd_merge_job *job)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "state", mrd_json_new_str(mrd_merge_state_text(job->state)));
    if (job->state == MRD_MERGE_NONE)
        return o;
    mrd_json_set(o, "events", mrd_json_new_count(job->events));
    mrd_json_set(o, "total", mrd_json_new_count(job->total));
    if (job->state == MRD_MERGE_FAILED)
        mrd_json_set(o, "message", mrd_json_new_str(job->message));
    return o;
}

static mrd_json *
export_json(const mrd_export *e)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "state", mrd_json_new_str(mrd_export_state_text(e->state)));
    mrd_json_set(o, "files", mrd_json_new_count(e->files));
    mrd_json_set(o, "bytes", mrd_json_new_count(e->bytes));
    mrd_json_set(o, "attempts", mrd_json_new_count(e->attempts));
    if (e->message[0] != '\0')
        mrd_json_set(o, "message", mrd_json_new_str(e->message));
    return o;
}

/* Whom it recorded. */
static void
put_jobs(const mrd_session *s, mrd_json *o)
{
    mrd_json *list = mrd_json_new_array();

    for (size_t i = 0; i < s->jobs.n; i++)
        mrd_json_append(list, mrd_jobid_json(s->jobs.v[i]));
    mrd_json_set(o, "jobs", list);
    if (s->jobs_left_out > 0)
        mrd_json_set(o, "jobs_left_out", mrd_json_new_count(s->jobs_left_out));
}

/* Puts the job that the session belongs to. Only the file contains the hashes of its owner's
 * tokens. */
static void
put_job(const mrd_session *s, const mrd_manifest_context *x, mrd_json *o)
{
    mrd_json *job;

    if (s->of_job.key.text[0] == '\0')
        return;
    job = mrd_json_new_object();
    mrd_json_set(job, "key", mrd_json_new_str(s->of_job.key.text));
    mrd_json_set(job, "uid", mrd_json_new_int(s->of_job.key.uid));
    mrd_json_set(job, "nodes", mrd_json_new_count(s->of_job.nodes));
    mrd_json_set(job, "witness", mrd_json_new_str(mrd_job_witness_text(s->of_job.witness)));
    if (x->of_file && s->of_job.owner_keys.n > 0)
        mrd_json_set(job, "owner_keys", mrd_strings_json(&s->of_job.owner_keys));
    mrd_json_set(o, "job", job);
}

/* Puts sums over the parts, then the parts. */
static void
put_parts(const mrd_session *s, mrd_sess_ns now, mrd_json *o)
{
    uint64_t events = 0, bytes = 0, begun = 0, lost = 0, held = 0, damaged = 0;
    mrd_json *nodes = mrd_json_new_array();

    for (size_t i = 0; i < s->n_parts; i++) {
        const mrd_part *p = s->parts[i];

        mrd_json_append(nodes, part_json(s, p, now));
        events += p->events;
        bytes += p->bytes;
        begun += p->counts.begun;
        held += p->counts.held;
        lost += mrd_part_lost(p);
        damaged += p->damage.events;
    }
    mrd_json_set(o, "events", mrd_json_new_count(events));
    mrd_json_set(o, "bytes", mrd_json_new_count(bytes));
    mrd_json_set(o, "store_bytes", mrd_json_new_count(mrd_session_bytes(s)));
    mrd_json_set(o, "artifact_bytes", mrd_json_new_count(s->artifact_bytes));
    mrd_json_set(o, "begun", mrd_json_new_count(begun));
    mrd_json_set(o, "dropped", mrd_json_new_count(lost));
    mrd_json_set(o, "held", mrd_json_new_count(held));
    mrd_json_set(o, "damaged_events", mrd_json_new_count(damaged));
    mrd_json_set(o, "nodes", nodes);
}

mrd_manifest_context
mrd_core_manifest_context(const mrd_core *c)
{
    return (mrd_manifest_context){ .now = mrd_core_session_now(c),
                                   .store_message = mrd_core_store_message(c) };
}

static bool
unread_text(const mrd_part *p, char text[MRD_WHY_MAX])
{
    return mrd_unread_text(&p->unread, text);
}

/* Describes why a session that is over may not be whole, with the first node of the first reason. A
 * node did not read all events, the store lost some, a node may not have counted all that it read, or
 * it had a process that no session selected. */
static bool
not_whole(const mrd_session *s, char text[MRD_WHY_MAX])
{
    static const struct {
        const char *but;
        bool (*text)(const mrd_part *p, char text[MRD_WHY_MAX]);
    } reasons[] = {
        { "but not whole", unread_text },
        { "but not whole", mrd_part_store_missing_text },
        { "but perhaps not whole", mrd_part_uncounted_text },
        { "but perhaps not all of the job", mrd_part_unselected_text },
    };
    char what[MRD_WHY_MAX];

    for (size_t k = 0; k < MRD_COUNT(reasons); k++)
        for (size_t i = 0; i < s->n_parts; i++) {
            if (!reasons[k].text(s->parts[i], what))
                continue;
            snprintf(text, MRD_WHY_MAX, "%s: %.100s: %.*s", reasons[k].but,
                     s->parts[i]->instance_id, (int) (MRD_WHY_MAX - 140), what);
            return true;
        }
    return false;
}

mrd_json *
mrd_session_json(const mrd_session *s, const mrd_manifest_context *x)
{
    mrd_json *o = mrd_json_new_object();
    const char *unstored = x->store_message != NULL ? x->store_message : s->unstored;
    char empty[MRD_WHY_MAX];

    mrd_json_set(o, "version", mrd_json_new_int(MANIFEST_VERSION));
    mrd_json_set(o, "release", mrd_json_new_str(MRD_RELEASE)); /* of the aggregator that wrote it */
    if (*mrd_version_commit() != '\0')
        mrd_json_set(o, "commit", mrd_json_new_str(mrd_version_commit()));
    mrd_json_set(o, "id", mrd_json_new_str(s->text));
    mrd_json_set(o, "state", mrd_json_new_str(mrd_session_state_text(s->state)));
    if (s->message[0] != '\0')
        mrd_json_set(o, "message", mrd_json_new_str(s->message));
    else if (s->state == MRD_SESSION_COMPLETE && not_whole(s, empty))
        mrd_json_set(o, "message", mrd_json_new_str(empty));
    if (mrd_session_is_empty(s, empty))
        mrd_json_set(o, "empty", mrd_json_new_str(empty));
    mrd_session_params_put_manifest(&s->params, o);
    if (mrd_session_params_ask_runtime(&s->params))
        mrd_json_set(o, "runtime_session", mrd_json_new_int(mrd_session_tag(s->id)));
    mrd_json_set(o, "select", mrd_select_json(&s->select));
    mrd_json_set(o, "timeline", mrd_json_new_str(s->timeline));
    mrd_json_put_instant(o, "created", s->created.ns);
    mrd_json_put_instant(o, "go", s->go.ns);
    mrd_json_put_instant(o, "stop", s->stop.ns);
    mrd_json_put_instant(o, "ended", s->ended.ns);
    mrd_json_put_instant(o, "store_full", s->full.ns);
    mrd_json_put_instant(o, "store_room", s->room.ns);
    if (unstored[0] != '\0' && mrd_session_is_open(s))
        mrd_json_set(o, "store_message", mrd_json_new_str(unstored));
    mrd_json_set(o, "stop_requested", mrd_json_new_bool(s->stop_requested));
    put_jobs(s, o);
    put_job(s, x, o);
    put_parts(s, x->now, o);
    mrd_json_set(o, "clocks", clocks_json(s));
    mrd_json_set(o, "triggers", triggers_json(s));
    if (s->changes.revision > 0) {
        mrd_json_set(o, "revision", mrd_json_new_int(s->changes.revision));
        mrd_json_set(o, "paused", mrd_json_new_bool(mrd_session_is_paused(s)));
        mrd_json_set(o, "pauses", pauses_json(s));
    }
    mrd_json_set(o, "artifacts", artifacts_json(s));
    if (s->conversions.n > 0)
        mrd_json_set(o, "conversions", mrd_conversions_json(s));
    mrd_json_set(o, "profile", job_json(&s->job));
    if (s->copy.state != MRD_EXPORT_NONE)
        mrd_json_set(o, "export", export_json(&s->copy));
    return o;
}
