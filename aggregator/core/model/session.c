#include "aggregator/core/model/session.h"

#include "aggregator/core/common/targets.h"
#include "aggregator/core/common/text.h"
#include "base/event_type.h"
#include "base/jobid.h"
#include "base/num.h"
#include "base/obj.h"
#include "proto/selection.h"

static const char *const states[MRD_SESSION_STATES] = { "arming",  "recording", "stopping",
                                                        "merging", "complete",  "failed" };

const char *
mrd_export_state_text(mrd_export_state state)
{
    static const char *const text[] = { "none", "pending", "running", "done", "failed" };

    return (unsigned) state < MRD_COUNT(text) ? text[state] : "?";
}

const char *
mrd_merge_state_text(mrd_merge_state state)
{
    static const char *const text[] = {
        "none", "waiting", "running", "done", "failed", "cancelled"
    };

    return (unsigned) state < MRD_COUNT(text) ? text[state] : "?";
}

const char *
mrd_session_state_text(mrd_session_state state)
{
    return state < MRD_SESSION_STATES ? states[state] : "unknown";
}

mrd_session_state
mrd_session_state_of(const char *text)
{
    return (mrd_session_state) mrd_text_index(states, MRD_SESSION_STATES, text, MRD_SESSION_FAILED);
}

void
mrd_clock_verdict_fini(mrd_clock_verdict *verdict)
{
    mrd_json_free(verdict->timeline);
    verdict->timeline = NULL;
}

uint64_t
mrd_clock_verdict_violations(const mrd_clock_verdict *verdict)
{
    return verdict->held_out_violations + verdict->collectives.violations +
           verdict->absolute_violations + verdict->link_violations;
}

void
mrd_session_free(mrd_session *session)
{
    if (session == NULL)
        return;
    for (size_t i = 0; i < session->n_parts; i++)
        mrd_part_free(session->parts[i]);
    free(session->parts);
    mrd_map_fini(&session->part_by_id);
    free(session->triggers);
    free(session->artifacts);
    free(session->conversions.v);
    mrd_select_fini(&session->select);
    mrd_session_params_fini(&session->params);
    mrd_strlist_fini(&session->jobs);
    mrd_strlist_fini(&session->of_job.owner_keys);
    mrd_clock_verdict_fini(&session->verdict);
    free(session);
}

static void *
list_copy(const void *list, size_t n, size_t member_size)
{
    void *c = malloc(n * member_size + 1);

    if (c != NULL && n > 0)
        memcpy(c, list, n * member_size);
    return c;
}

static bool
parts_copy(mrd_session *to, const mrd_session *from)
{
    if ((to->parts = calloc(from->n_parts + 1, sizeof(*to->parts))) == NULL)
        return false;
    for (size_t i = 0; i < from->n_parts; i++) {
        mrd_part *part = mrd_part_copy(from->parts[i]);

        if (part == NULL)
            return false;
        to->parts[to->n_parts++] = part;
        if (mrd_id_put(&to->part_by_id, part->instance_id, i) != MRD_OK)
            return false;
    }
    return true;
}

mrd_session *
mrd_session_copy(const mrd_session *session)
{
    mrd_session *c = malloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    *c = *session;
    c->select = (mrd_select){ 0 };
    c->params = (mrd_session_params){ 0 };
    c->jobs = (mrd_strlist){ 0 };
    c->of_job.owner_keys = (mrd_strlist){ 0 };
    c->parts = NULL;
    c->n_parts = 0;
    c->part_by_id = (mrd_map){ 0 };
    c->verdict.timeline = NULL;
    c->triggers = list_copy(session->triggers, session->n_triggers, sizeof(*session->triggers));
    c->artifacts = list_copy(session->artifacts, session->n_artifacts, sizeof(*session->artifacts));
    c->conversions.v =
        list_copy(session->conversions.v, session->conversions.n, sizeof(*session->conversions.v));
    if (c->triggers == NULL || c->artifacts == NULL || c->conversions.v == NULL ||
        mrd_select_copy(&c->select, &session->select) != MRD_OK ||
        mrd_session_params_copy(&c->params, &session->params) != MRD_OK ||
        mrd_strings_copy(&c->jobs, &session->jobs) != MRD_OK ||
        mrd_strings_copy(&c->of_job.owner_keys, &session->of_job.owner_keys) != MRD_OK ||
        !parts_copy(c, session) ||
        (session->verdict.timeline != NULL &&
         (c->verdict.timeline = mrd_json_copy(session->verdict.timeline)) == NULL)) {
        mrd_session_free(c);
        return NULL;
    }
    return c;
}

bool
mrd_session_waits_for_job(const mrd_session *session)
{
    return session->params.wait;
}

size_t
mrd_session_pauses(const mrd_session *session, const mrd_part *part, mrd_gap ret[MRD_PAUSES_MAX])
{
    mrd_dur_ns shift = mrd_part_shift(part);
    size_t n = 0;

    for (size_t i = 0; i < session->changes.n_pauses && part->unchangeable == 0; i++) {
        const mrd_pause *pause = &session->changes.pauses[i];
        bool ended = pause->to.ns != 0 && pause->to_revision <= part->revision;

        if (pause->from_revision <= part->revision)
            ret[n++] = (mrd_gap){
                .first = { mrd_sat_sub(pause->from.ns, shift) },
                .last = { ended ? mrd_sat_sub(pause->to.ns, shift) : INT64_MAX },
            };
    }
    return n;
}

bool
mrd_session_is_paused(const mrd_session *session)
{
    return session->changes.n_pauses > 0 &&
           session->changes.pauses[session->changes.n_pauses - 1].to.ns == 0;
}

bool
mrd_session_is_recorder(const mrd_session *session)
{
    return session->params.mode == MRD_MODE_RECORDER;
}

mrd_err
mrd_session_choose_types(mrd_session *session)
{
    mrd_strlist *types = &session->select.types;
    mrd_err err = MRD_OK;

    if (mrd_session_is_recorder(session) && types->n == 0)
        err = mrd_strlist_add(types, MRD_STR("diagnosis"));
    return err == MRD_OK ? mrd_types_expand(types) : err;
}

static const char *const witnesses[] = { [MRD__JOB_WITNESS__WITNESS_PROCESS] = "process",
                                         [MRD__JOB_WITNESS__WITNESS_POD] = "pod",
                                         [MRD__JOB_WITNESS__WITNESS_HOOK] = "hook" };

const char *
mrd_job_witness_text(Mrd__JobWitness witness)
{
    return (size_t) witness < MRD_COUNT(witnesses) ? witnesses[witness] : witnesses[0];
}

Mrd__JobWitness
mrd_job_witness_of(const char *text)
{
    Mrd__JobWitness witness = MRD__JOB_WITNESS__WITNESS_HOOK;

    while (witness > MRD__JOB_WITNESS__WITNESS_PROCESS && strcmp(witnesses[witness], text) != 0)
        witness--;
    return witness;
}

bool
mrd_session_is_of_one_job(const mrd_session *session)
{
    const mrd_select *by = &session->select;

    return by->jobs.n == 1 && by->uids.n == 1 && by->namespaces.n == 1 && by->clusters.n == 1 &&
           by->restarts.n == 1;
}

/* Returns true if the session is for one job, but a node also recorded another job. Agents with
 * wire protocol 1.1 do that, because they select only by job number and user. */
static bool
has_foreign_job(const mrd_session *session)
{
    for (size_t i = 0; i < session->jobs.n && mrd_session_is_of_one_job(session); i++) {
        mrd_jobid id = { "" };

        mrd_jobid_parse(&id, mrd_str_of(session->jobs.v[i]));
        if (mrd_jobid_get(&id, "job").len > 0 && !mrd_select_takes_job(&session->select, &id, NULL))
            return true;
    }
    return false;
}

bool
mrd_session_has_owner(const mrd_session *session)
{
    return session->of_job.key.text[0] != '\0' &&
           !(session->params.wait &&
             session->of_job.witness == MRD__JOB_WITNESS__WITNESS_PROCESS) &&
           !has_foreign_job(session);
}

void
mrd_session_add_job(mrd_session *session, const char *jobid)
{
    mrd_jobid id = { "" };
    mrd_str text;

    mrd_jobid_parse(&id, mrd_str_of(jobid));
    text = mrd_str_of(id.text);
    if (text.len == 0 || mrd_strlist_has(&session->jobs, text))
        return;
    if (session->jobs.n == MRD_SESSION_JOBS || mrd_strlist_add(&session->jobs, text) != MRD_OK)
        session->jobs_left_out++;
    else
        mrd_session_touch(session);
}

void
mrd_session_touch(mrd_session *session)
{
    session->save.version++;
}

void
mrd_session_copy_again(mrd_session *session)
{
    if (session->copy.state == MRD_EXPORT_DONE)
        session->copy.state = MRD_EXPORT_NONE;
    session->copy.old =
        session->copy.state == MRD_EXPORT_PENDING || session->copy.state == MRD_EXPORT_RUNNING;
}

bool
mrd_session_is_open(const mrd_session *session)
{
    return !session->deleted && !session->closed && !session->closing &&
           (session->state == MRD_SESSION_ARMING || session->state == MRD_SESSION_RECORDING ||
            session->state == MRD_SESSION_STOPPING);
}

mrd_err
mrd_session_target_check(const mrd_session_params *params, const char *targets, mrd_why *why)
{
    return params->export_to == NULL || params->export_to[0] == '\0'
               ? MRD_OK
               : mrd_targets_has(targets, params->export_to, why);
}

bool
mrd_session_is_exported(const mrd_session *session, bool all)
{
    return all || (session->params.export_to != NULL && session->params.export_to[0] != '\0');
}

bool
mrd_session_is_over(const mrd_session *session)
{
    return session->state == MRD_SESSION_COMPLETE || session->state == MRD_SESSION_FAILED;
}

bool
mrd_session_is_merging(const mrd_session *session)
{
    return session->job.state == MRD_MERGE_WAITING || session->job.state == MRD_MERGE_RUNNING;
}

mrd_part *
mrd_session_part(const mrd_session *session, const char *instance_id)
{
    uint32_t at = mrd_map_get(&session->part_by_id, mrd_id_key(instance_id));

    if (at == MRD_MAP_NONE || strcmp(session->parts[at]->instance_id, instance_id) == 0)
        return at == MRD_MAP_NONE ? NULL : session->parts[at];
    /* The map has one entry per hash. Only an attacker finds two ids with equal hashes, and then
     * the second id is only in the list. */
    for (size_t i = 0; i < session->n_parts; i++) {
        if (strcmp(session->parts[i]->instance_id, instance_id) == 0)
            return session->parts[i];
    }
    return NULL;
}

/* Must be called before filtering by nodes. A node that took no part would give an empty result,
 * which looks as if nothing had happened there. */
mrd_err
mrd_session_has_nodes(const mrd_session *session, const mrd_strlist *nodes, mrd_why *why)
{
    for (size_t i = 0; i < nodes->n; i++)
        if (mrd_session_part(session, nodes->v[i]) == NULL)
            return mrd_why_set(why, MRD_NOTFOUND, 0, "no node '%s' takes part in session %s",
                               nodes->v[i], session->text);
    return MRD_OK;
}

uint64_t
mrd_session_violations(const mrd_session *session)
{
    uint64_t violations = mrd_clock_verdict_violations(&session->verdict);

    for (size_t i = 0; i < session->n_parts; i++)
        violations += session->parts[i]->causality.violations;
    return violations;
}

unsigned
mrd_session_count(const mrd_session *session, mrd_part_state state)
{
    unsigned n = 0;

    for (size_t i = 0; i < session->n_parts; i++)
        n += session->parts[i]->state == state;
    return n;
}

uint64_t
mrd_session_bytes(const mrd_session *session)
{
    uint64_t sum = 0;

    if (session->closed && session->folder_bytes > 0)
        return session->folder_bytes;
    for (size_t i = 0; i < session->n_parts; i++)
        sum += session->parts[i]->bytes;
    return sum;
}

void
mrd_session_acknowledge(mrd_session *session, mrd_part *part, size_t trigger)
{
    if (mrd_part_knows(part, trigger))
        return;
    part->acknowledged[trigger / 64] |= 1ull << (trigger % 64);
    session->triggers[trigger].acknowledged++;
    mrd_session_touch(session);
}

static size_t
trigger_below(const mrd_session *session, uint64_t id, size_t at)
{
    while (at > 0 && session->triggers[at - 1].id != id)
        at--;
    return at;
}

/* Both lists are searched from their ends, where the latest triggers are, so an id is usually found
 * at once. If a node received a missed trigger later, its list has another order. Then the whole
 * list is searched. */
void
mrd_session_acknowledge_ids(mrd_session *session, mrd_part *part, const uint64_t *ids, size_t n)
{
    size_t at = session->n_triggers;

    for (size_t i = n; i-- > 0;) {
        size_t k = trigger_below(session, ids[i], at);

        if (k == 0 && (k = trigger_below(session, ids[i], session->n_triggers)) == 0)
            continue; /* ignored, because it is not a trigger of this session */
        mrd_session_acknowledge(session, part, k - 1);
        at = k - 1;
    }
}

bool
mrd_session_missed(const mrd_session *session, const mrd_part *part, size_t trigger)
{
    mrd_sess_ns began = mrd_part_began(part);

    return session->triggers[trigger].sent && !mrd_part_knows(part, trigger) && began.ns != 0 &&
           began.ns < session->triggers[trigger].to.ns;
}
