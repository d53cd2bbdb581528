/* Sessions for jobs. Nodes report when a job begins and ends on them. If a job requests a
 * recording, and mrd_core_limits allow it, its session begins with the first node and ends with the
 * last. */
#include "aggregator/core/decide/jobs.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "base/hash.h"
#include "base/jobid.h"
#include "base/num.h"
#include "base/obj.h"

#define RETRY_MS   20
#define AGE_MAX    (600 * MRD_SEC)
#define OWNERS_MAX 64

/* ---- Parsing a job's request for a session, such as "recorder,keep=1min" ---- */

static bool
is_allowed(const char *allow, mrd_str word)
{
    while (*allow != '\0') {
        size_t n = strcspn(allow, ",");

        if (n == word.len && memcmp(allow, word.p, n) == 0)
            return true;
        allow += n + (allow[n] == ',');
    }
    return false;
}

/* Returns the session parameter with this name. The name may be that of the command-line option or
 * that of the member in HTTP requests. Returns NULL if there is none. */
static const mrd_session_param *
row_of(mrd_str word)
{
    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
        const mrd_session_param *row = &mrd_session_param_table[i];

        if ((row->option != NULL && mrd_str_is(word, row->option)) ||
            mrd_str_is(word, row->request))
            return row;
    }
    return NULL;
}

static mrd_err
not_allowed(const mrd_core *core, mrd_str word, mrd_why *why)
{
    return mrd_why_set(
        why, MRD_DENIED, 0,
        "'" MRD_STR_FMT
        "' may not be requested by a job here: allowed is %s (--job-allow of the aggregator)",
        MRD_STR_ARG(word), core->limits.job_allow);
}

static mrd_err
take_word(const mrd_core *core, mrd_session_params *params, mrd_str word, bool *ret_off,
          mrd_why *why)
{
    const char *eq = memchr(word.p, '=', word.len);
    mrd_str key = { word.p, eq == NULL ? word.len : (size_t) (eq - word.p) };
    mrd_str value = { eq == NULL ? "" : eq + 1, eq == NULL ? 0 : word.len - key.len - 1 };
    const mrd_session_param *row;
    char text[MRD_TEXT_MAX];
    mrd_why bad = { 0 };
    mrd_err err;

    if (mrd_str_is(key, "off")) {
        *ret_off = true;
        return MRD_OK;
    }
    if (mrd_str_is(key, "stream") || mrd_str_is(key, "recorder")) {
        value = key;
        row = row_of(MRD_STR("mode"));
    } else if ((row = row_of(key)) == NULL || eq == NULL) {
        return mrd_why_set(why, MRD_INVALID, 0,
                           "'" MRD_STR_FMT "' is not an option of a session: use stream, recorder, "
                           "off, or an option of `meridian start` with its value",
                           MRD_STR_ARG(word));
    }
    if (!is_allowed(core->limits.job_allow, key))
        return not_allowed(core, key, why);
    snprintf(text, sizeof(text), MRD_STR_FMT, MRD_STR_ARG(value));
    if ((err = mrd_session_params_set(params, row->request, text, &bad)) != MRD_OK)
        mrd_why_set(why, err, 0, "'" MRD_STR_FMT "': %s", MRD_STR_ARG(word), bad.text);
    return err;
}

static mrd_err
take_request(const mrd_core *core, mrd_session_params *params, const char *text, bool *ret_off,
             mrd_why *why)
{
    mrd_err err = MRD_OK;

    while (*text != '\0' && err == MRD_OK) {
        size_t n = strcspn(text, ",");

        if (n > 0)
            err = take_word(core, params, (mrd_str){ text, n }, ret_off, why);
        text += n + (text[n] == ',');
    }
    return err;
}

mrd_err
mrd_job_request_check(const mrd_session_request *request, mrd_why *why)
{
    if (request->params.wait && request->select.jobs.n != 1)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "waiting for a job needs exactly one job in select.job (--job)");
    return MRD_OK;
}

/* ---- The owner and the session of a job ---- */

/* A job on a node, as the node's message describes it. */
typedef struct {
    const Mrd__Job *m;
    /* The identity in the message. Its user is `m->uid`, which the agent determines. The user that
     * the job claims to have is ignored. */
    mrd_jobid id;
    mrd_job_key key;
} reported_job;

/* Returns the open session of the job; NULL if there is none. */
static mrd_session *
find(const mrd_core *core, const reported_job *job)
{
    for (size_t i = core->n_sessions; i-- > 0;) {
        mrd_session *session = core->sessions[i];

        if (!session->deleted && session->state <= MRD_SESSION_STOPPING &&
            mrd_job_key_equal(&session->of_job.key, &job->key))
            return session;
    }
    return NULL;
}

/* Returns true if each node that the session's selection names has joined the session. Then further
 * nodes of the job may join too. */
static bool
is_open_to_nodes(const mrd_session *session)
{
    for (size_t i = 0; i < session->select.instances.n; i++)
        if (mrd_session_part(session, session->select.instances.v[i]) == NULL)
            return false;
    return true;
}

/* Returns true if a waiting session began because a process claimed to belong to the job. If the
 * scheduler's hook reports the job later, its report has to find this session. */
static bool
is_claimed(const mrd_session *session)
{
    return session->params.wait && session->state == MRD_SESSION_RECORDING &&
           session->of_job.key.text[0] != '\0' &&
           session->of_job.witness == MRD__JOB_WITNESS__WITNESS_PROCESS;
}

static bool
waits_for(const mrd_session *session, const mrd_node *node, const reported_job *job)
{
    bool claimed = is_claimed(session) && job->m->witness == MRD__JOB_WITNESS__WITNESS_HOOK;

    return !session->deleted && !session->stop_requested &&
           (session->step == MRD_STEP_EXPECT || claimed) && session->select.jobs.n == 1 &&
           (mrd_select_matches(&session->select, node->instance_id) ||
            (claimed && is_open_to_nodes(session))) &&
           mrd_select_takes_job(&session->select, &job->id, NULL);
}

/*
 * Returns true if the report of the job can be trusted.
 * - The scheduler's hook is always trusted.
 * - A process may claim any job number. Its claim counts only if the session selects the
 *   process's user, which the kernel reports, or its namespace, which the kubelet reports.
 */
static bool
is_proven(const mrd_session *session, const reported_job *job)
{
    return job->m->witness == MRD__JOB_WITNESS__WITNESS_HOOK || session->select.uids.n > 0 ||
           (session->select.namespaces.n > 0 && job->m->witness == MRD__JOB_WITNESS__WITNESS_POD);
}

/* Tells the operator, once, that a process claims to belong to the job for which the session waits,
 * and that this claim is ignored. */
static void
tell_claim(mrd_core *core, mrd_session *session, const mrd_node *node, const reported_job *job)
{
    mrd_str space = mrd_jobid_get(&job->id, "namespace");
    char tenant[MRD_JOBID_VALUE + 32];

    if (session->message[0] != '\0')
        return;
    if (job->m->witness == MRD__JOB_WITNESS__WITNESS_POD && space.len > 0)
        snprintf(tenant, sizeof(tenant), "namespace " MRD_STR_FMT, MRD_STR_ARG(space));
    else
        snprintf(tenant, sizeof(tenant), "uid %lld", (long long) job->m->uid);
    snprintf(session->message, sizeof(session->message),
             "still waiting: a process on node %s says that it is of this job, and no scheduler's "
             "hook does; if it is meant, start again with --%s",
             node->instance_id, tenant);
    mrd_effects_log(
        &core->out, MRD_LOG_WARN, "AGG-JOB-CLAIM",
        "A process claims a job that a session waits for: id=%s node=%s job=%s uid=%lld",
        session->text, node->instance_id, job->key.text, (long long) job->m->uid);
    mrd_session_touch(session);
    mrd_core_save(core, session);
}

/* Returns the session that an operator created in advance, and that waits for this job. NULL if
 * there is none, or if the report cannot be trusted. */
static mrd_session *
find_waiting(mrd_core *core, const mrd_node *node, const reported_job *job)
{
    for (size_t i = 0; i < core->n_sessions; i++) {
        mrd_session *session = core->sessions[i];

        if (!waits_for(session, node, job))
            continue;
        if (is_proven(session, job))
            return session;
        tell_claim(core, session, node, job);
    }
    return NULL;
}

static mrd_err
allowed(mrd_core *core, int64_t uid, mrd_why *why)
{
    int64_t open = 0, of_user = 0;

    for (size_t i = 0; i < core->n_sessions; i++) {
        const mrd_session *session = core->sessions[i];

        if (session->of_job.key.text[0] == '\0' || !mrd_session_is_open(session))
            continue;
        open++;
        of_user += session->of_job.key.uid == uid;
    }
    if (of_user >= core->limits.job_sessions_user)
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "%lld jobs of user %lld are being recorded, which is the limit "
                           "(--advanced.job-sessions-user)",
                           (long long) of_user, (long long) uid);
    if (open >= core->limits.job_sessions)
        return mrd_why_set(
            why, MRD_LIMIT, 0,
            "%lld jobs are being recorded, which is the limit (--advanced.job-sessions)",
            (long long) open);
    if ((int64_t) core->n_sessions >= core->limits.max_sessions) {
        core->stats.limited[MRD_LIMIT_SESSIONS]++;
        return mrd_why_set(
            why, MRD_LIMIT, 0,
            "the store holds %zu sessions, which is the limit (--advanced.max-sessions)",
            core->n_sessions);
    }
    return mrd_core_store_check(core, why);
}

/* ---- Creating a session ---- */

static mrd_err
choose_one(mrd_strlist *list, mrd_str word)
{
    mrd_strlist_fini(list);
    return mrd_strlist_add(list, word);
}

/* Restricts the session to processes of this job. */
static mrd_err
choose_job(mrd_select *selection, const reported_job *job)
{
    mrd_str run = mrd_jobid_get(&job->id, "restart");
    mrd_err err = choose_one(&selection->jobs, mrd_jobid_get(&job->id, "job"));

    if (err == MRD_OK)
        err = choose_one(&selection->uids, mrd_jobid_get(&job->id, "uid"));
    if (err == MRD_OK)
        err = choose_one(&selection->namespaces, mrd_jobid_get(&job->id, "namespace"));
    if (err == MRD_OK)
        err = choose_one(&selection->clusters, mrd_jobid_get(&job->id, "cluster"));
    if (err == MRD_OK)
        err = choose_one(&selection->restarts, run.len == 0 ? MRD_STR("0") : run);
    return err;
}

static void
belong(mrd_core *core, mrd_session *session, const reported_job *job)
{
    const Mrd__Job *m = job->m;
    uint64_t age = m->age_ns > (uint64_t) AGE_MAX ? (uint64_t) AGE_MAX : m->age_ns;

    session->of_job.key = job->key;
    session->of_job.witness = mrd_job_witness_of(mrd_job_witness_text(m->witness));
    session->of_job.nodes = m->nodes > 1000000 ? 0 : m->nodes;
    session->go.ns = mrd_core_session_now(core).ns - (int64_t) age;
    mrd_session_touch(session);
}

static mrd_err
fill(mrd_core *core, mrd_session *session, const reported_job *job, mrd_why *why)
{
    char name[MRD_TEXT_MAX];
    bool off = false;
    mrd_err err = mrd_session_params_init(&session->params);

    if (err == MRD_OK)
        err = take_request(core, &session->params, core->limits.job_default, &off, why);
    if (err == MRD_OK && *job->m->request != '\0') {
        off = false;
        err = take_request(core, &session->params, job->m->request, &off, why);
    }
    if (err == MRD_OK)
        err = mrd_session_params_check(&session->params, why);
    if (err == MRD_OK)
        err = mrd_session_target_check(&session->params, core->limits.export_targets, why);
    if (err == MRD_OK && off)
        err = mrd_why_set(why, MRD_CANCELLED, 0,
                          "the job or the site has switched its recording off");
    snprintf(name, sizeof(name), "job " MRD_STR_FMT, MRD_STR_ARG(mrd_jobid_get(&job->id, "job")));
    if (err == MRD_OK && (session->params.name == NULL || session->params.name[0] == '\0'))
        err = mrd_session_params_set(&session->params, "name", name, why);
    if (err == MRD_OK)
        err = choose_job(&session->select, job);
    if (err == MRD_OK)
        err = mrd_session_choose_types(session);
    mrd_core_name_session(core, session);
    session->state = MRD_SESSION_RECORDING;
    belong(core, session, job);
    return err;
}

static mrd_err
make(mrd_core *core, const reported_job *job, mrd_session **ret_s, mrd_why *why)
{
    mrd_session *session;
    mrd_err err = allowed(core, job->m->uid, why);

    if (err != MRD_OK)
        return err;
    if ((session = calloc(1, sizeof(*session))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "session");
    err = fill(core, session, job, why);
    if (err == MRD_OK && (err = mrd_core_add_session(core, session)) != MRD_OK)
        mrd_why_set(why, err, 0, "session");
    if (err != MRD_OK) {
        mrd_session_free(session);
        return err;
    }
    mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-JOB", "A job is recorded: id=%s job=%s uid=%lld",
                    session->text, job->key.text, (long long) job->m->uid);
    *ret_s = session;
    return MRD_OK;
}

/*
 * Begins a session that waited for its job, and restricts it to this job. After a claim by a
 * process, the operator's selection is kept, so that a later report by the scheduler's hook still
 * matches.
 */
static mrd_err
begin_waiting(mrd_core *core, mrd_session *session, const reported_job *job, mrd_why *why)
{
    bool claimed = is_claimed(session);

    if (claimed) {
        session->of_job.key = job->key;
        mrd_session_touch(session);
    } else {
        if (job->m->witness != MRD__JOB_WITNESS__WITNESS_PROCESS &&
            choose_job(&session->select, job) != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "session %s", session->text);
        mrd_text_set(session->message, sizeof(session->message), "");
        belong(core, session, job);
        mrd_session_join(core, session);
    }
    mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-JOB",
                    "A job that a session waited for is recorded: id=%s job=%s uid=%lld",
                    session->text, job->key.text, (long long) job->m->uid);
    return MRD_OK;
}

/* ---- Begin and end of a job on a node ---- */

static void
add_owner(mrd_session *session, const char *key)
{
    if (!mrd_hash_is_valid(key) || session->of_job.owner_keys.n == OWNERS_MAX ||
        mrd_strlist_has(&session->of_job.owner_keys, mrd_str_of(key)))
        return;
    (void) mrd_strlist_add(&session->of_job.owner_keys, mrd_str_of(key));
}

static mrd_err
join(mrd_core *core, mrd_session *session, const mrd_node *node, const reported_job *job,
     mrd_why *why)
{
    const Mrd__Job *m = job->m;
    mrd_part *part = mrd_session_part(session, node->instance_id);

    if (session->state > MRD_SESSION_RECORDING)
        return mrd_why_set(why, MRD_STATE, 0, "session %s of the job is over", session->text);
    if (part == NULL &&
        ((part = mrd_core_add_part(core, session, node)) == NULL ||
         mrd_strlist_add(&session->select.instances, mrd_str_of(node->instance_id)) != MRD_OK))
        return mrd_why_set(why, MRD_NOMEM, 0, "session %s", session->text);
    part->job_ended = false;
    mrd_session_add_job(session, job->id.text);
    add_owner(session, m->owner_key);
    if (m->nodes > session->of_job.nodes && m->nodes <= 1000000)
        session->of_job.nodes = m->nodes;
    mrd_session_touch(session);
    return MRD_OK;
}

static mrd_err
begin(mrd_core *core, mrd_effect *effect, const mrd_node *node, const reported_job *job,
      mrd_why *why)
{
    mrd_session *session = find(core, job);
    mrd_err err = MRD_OK;

    if (session == NULL && (session = find_waiting(core, node, job)) != NULL)
        err = begin_waiting(core, session, job, why);
    if (session == NULL && strcmp(job->m->request, MRD_JOB_UNASKED) == 0)
        return mrd_why_set(why, MRD_CANCELLED, 0, "no session waits for this job");
    if (session == NULL)
        err = make(core, job, &session, why);
    if (err != MRD_OK || (err = join(core, session, node, job, why)) != MRD_OK)
        return err;
    mrd_core_save(core, session);
    mrd_session_run(core, session);
    /* The node must not start before the decision is on disk. It asks again after RETRY_MS. */
    if (session->step != MRD_STEP_RECORD) {
        effect->retry_ms = RETRY_MS;
        return MRD_OK;
    }
    effect->directives[0] = (mrd_directive){ .type = MRD__CONTROL_TYPE__CONTROL_GO,
                                             .id = session->id,
                                             .session = session };
    effect->n_directives = 1;
    return MRD_OK;
}

/* Returns the session of a job that ends on a node; NULL if there is none. If the session began
 * with the claim of a process, its key may differ from the key in this report. Then the session is
 * found by its selection. */
static mrd_session *
find_ending(const mrd_core *core, const reported_job *job)
{
    mrd_session *session = find(core, job);

    for (size_t i = 0; session == NULL && i < core->n_sessions; i++)
        if (!core->sessions[i]->deleted && is_claimed(core->sessions[i]) &&
            mrd_select_takes_job(&core->sessions[i]->select, &job->id, NULL))
            session = core->sessions[i];
    return session;
}

static void
end(mrd_core *core, const mrd_node *node, const reported_job *job)
{
    mrd_session *session = find_ending(core, job);
    mrd_part *part = session == NULL ? NULL : mrd_session_part(session, node->instance_id);

    if (part == NULL || part->job_ended)
        return;
    part->job_ended = true;
    session->of_job.ended = core->now.local;
    mrd_session_touch(session);
    mrd_core_save(core, session);
    mrd_session_run(core, session);
}

static void
read_job(const Mrd__Job *job, reported_job *ret_job)
{
    static const char *const keys[] = { "uid", NULL };
    mrd_jobid told = { "" };
    char uid[24];

    ret_job->m = job;
    ret_job->id = told;
    snprintf(uid, sizeof(uid), "%lld", (long long) job->uid);
    (void) mrd_jobid_set(&told, MRD_STR("uid"), mrd_str_of(uid));
    mrd_jobid_parse(&ret_job->id, mrd_str_of(job->identity));
    if (!mrd_str_is(mrd_jobid_get(&ret_job->id, "uid"), uid))
        mrd_jobid_correct(&ret_job->id, &told, keys);
    mrd_job_key_of(&ret_job->id, job->uid, &ret_job->key);
}

void
mrd_core_job(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_node *node, const Mrd__Job *m)
{
    reported_job job;
    mrd_why why = { 0 };
    mrd_effect *effect;

    mrd_core_enter(core, now);
    effect = mrd_effects_add(&core->out, MRD_DO_JOB_REPLY);
    effect->ticket = ticket;
    read_job(m, &job);
    if (job.key.text[0] == '\0')
        mrd_why_set(&why, MRD_INVALID, 0, "the job has no id");
    else if (m->phase == MRD__JOB_PHASE__JOB_END)
        end(core, node, &job);
    else
        (void) begin(core, effect, node, &job, &why);
    effect->err = why.err;
    mrd_text_set(effect->text, sizeof(effect->text), why.text);
    if (why.err != MRD_OK && why.err != MRD_CANCELLED)
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-JOB-REFUSED",
                        "A job is not recorded: node=%s job=%s reason=%s", node->instance_id,
                        job.key.text, why.text);
}
