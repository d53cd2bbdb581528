/* Sessions that belong to jobs. A node reports that a job which requests recording began or ended
 * there, and the policy decides. The session begins with the job's first node and ends with its
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

/* ---- The request: "recorder,keep=1min" ---- */

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

/* Returns the option of sessions with this name, as an option or in a request. */
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
not_allowed(const mrd_core *c, mrd_str word, mrd_why *why)
{
    return mrd_why_set(
        why, MRD_DENIED, 0,
        "'" MRD_STR_FMT
        "' may not be requested by a job here: allowed is %s (--job-allow of the aggregator)",
        MRD_STR_ARG(word), c->limits.job_allow);
}

static mrd_err
take_word(const mrd_core *c, mrd_session_params *p, mrd_str word, bool *ret_off, mrd_why *why)
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
    if (!is_allowed(c->limits.job_allow, key))
        return not_allowed(c, key, why);
    snprintf(text, sizeof(text), MRD_STR_FMT, MRD_STR_ARG(value));
    if ((err = mrd_session_params_set(p, row->request, text, &bad)) != MRD_OK)
        mrd_why_set(why, err, 0, "'" MRD_STR_FMT "': %s", MRD_STR_ARG(word), bad.text);
    return err;
}

static mrd_err
take_request(const mrd_core *c, mrd_session_params *p, const char *text, bool *ret_off,
             mrd_why *why)
{
    mrd_err err = MRD_OK;

    while (*text != '\0' && err == MRD_OK) {
        size_t n = strcspn(text, ",");

        if (n > 0)
            err = take_word(c, p, (mrd_str){ text, n }, ret_off, why);
        text += n + (text[n] == ',');
    }
    return err;
}

mrd_err
mrd_job_request_check(const mrd_session_request *r, mrd_why *why)
{
    if (r->params.wait && r->select.jobs.n != 1)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "waiting for a job needs exactly one job in select.job (--job)");
    return MRD_OK;
}

/* ---- The owner and the session of a job ---- */

/* A job on a node, as the node's message describes it. */
typedef struct {
    const Mrd__Job *m;
    /* has the user of the message, which overrides the user in the message's identity */
    mrd_jobid id;
    mrd_job_key key;
} reported_job;

/* Its open session; NULL if it has none. */
static mrd_session *
find(const mrd_core *c, const reported_job *job)
{
    for (size_t i = c->n_sessions; i-- > 0;) {
        mrd_session *s = c->sessions[i];

        if (!s->deleted && s->state <= MRD_SESSION_STOPPING &&
            mrd_job_key_equal(&s->of_job.key, &job->key))
            return s;
    }
    return NULL;
}

/* Returns true if the session selects only nodes that record it already. */
static bool
is_open_to_nodes(const mrd_session *s)
{
    for (size_t i = 0; i < s->select.instances.n; i++)
        if (mrd_session_part(s, s->select.instances.v[i]) == NULL)
            return false;
    return true;
}

/* Returns true if only a process claimed the job. The job that the scheduler's hook reports can
 * still join the session. */
static bool
is_claimed(const mrd_session *s)
{
    return s->params.wait && s->state == MRD_SESSION_RECORDING && s->of_job.key.text[0] != '\0' &&
           s->of_job.witness == MRD__JOB_WITNESS__WITNESS_PROCESS;
}

static bool
waits_for(const mrd_session *s, const mrd_node *n, const reported_job *job)
{
    bool claimed = is_claimed(s) && job->m->witness == MRD__JOB_WITNESS__WITNESS_HOOK;

    return !s->deleted && !s->stop_requested && (s->step == MRD_STEP_EXPECT || claimed) &&
           s->select.jobs.n == 1 &&
           (mrd_select_matches(&s->select, n->instance_id) || (claimed && is_open_to_nodes(s))) &&
           mrd_select_takes_job(&s->select, &job->id, NULL);
}

/*
 * Returns true if the job is confirmed. A process may claim any job number. Its claim counts only
 * if the operator named the tenant of the process: the user, as reported by the kernel, or the
 * namespace, as reported by the kubelet.
 */
static bool
is_proven(const mrd_session *s, const reported_job *job)
{
    return job->m->witness == MRD__JOB_WITNESS__WITNESS_HOOK || s->select.uids.n > 0 ||
           (s->select.namespaces.n > 0 && job->m->witness == MRD__JOB_WITNESS__WITNESS_POD);
}

/* Logs once, for the operator, that a process claims the job that the session waits for. */
static void
tell_claim(mrd_core *c, mrd_session *s, const mrd_node *n, const reported_job *job)
{
    mrd_str space = mrd_jobid_get(&job->id, "namespace");
    char tenant[MRD_JOBID_VALUE + 32];

    if (s->message[0] != '\0')
        return;
    if (job->m->witness == MRD__JOB_WITNESS__WITNESS_POD && space.len > 0)
        snprintf(tenant, sizeof(tenant), "namespace " MRD_STR_FMT, MRD_STR_ARG(space));
    else
        snprintf(tenant, sizeof(tenant), "uid %lld", (long long) job->m->uid);
    snprintf(s->message, sizeof(s->message),
             "still waiting: a process on node %s says that it is of this job, and no scheduler's "
             "hook does; if it is meant, start again with --%s",
             n->instance_id, tenant);
    mrd_effects_log(
        &c->out, MRD_LOG_WARN, "AGG-JOB-CLAIM",
        "A process claims a job that a session waits for: id=%s node=%s job=%s uid=%lld", s->text,
        n->instance_id, job->key.text, (long long) job->m->uid);
    mrd_session_touch(s);
    mrd_core_save(c, s);
}

/* Returns the session that was created before its job began and waits for it. NULL if no session
 * may take the job. */
static mrd_session *
find_waiting(mrd_core *c, const mrd_node *n, const reported_job *job)
{
    for (size_t i = 0; i < c->n_sessions; i++) {
        mrd_session *s = c->sessions[i];

        if (!waits_for(s, n, job))
            continue;
        if (is_proven(s, job))
            return s;
        tell_claim(c, s, n, job);
    }
    return NULL;
}

static mrd_err
allowed(mrd_core *c, int64_t uid, mrd_why *why)
{
    int64_t open = 0, of_user = 0;

    for (size_t i = 0; i < c->n_sessions; i++) {
        const mrd_session *s = c->sessions[i];

        if (s->of_job.key.text[0] == '\0' || !mrd_session_is_open(s))
            continue;
        open++;
        of_user += s->of_job.key.uid == uid;
    }
    if (of_user >= c->limits.job_sessions_user)
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "%lld jobs of user %lld are being recorded, which is the limit "
                           "(--advanced.job-sessions-user)",
                           (long long) of_user, (long long) uid);
    if (open >= c->limits.job_sessions)
        return mrd_why_set(
            why, MRD_LIMIT, 0,
            "%lld jobs are being recorded, which is the limit (--advanced.job-sessions)",
            (long long) open);
    if ((int64_t) c->n_sessions >= c->limits.max_sessions) {
        c->stats.limited[MRD_LIMIT_SESSIONS]++;
        return mrd_why_set(
            why, MRD_LIMIT, 0,
            "the store holds %zu sessions, which is the limit (--advanced.max-sessions)",
            c->n_sessions);
    }
    return mrd_core_store_check(c, why);
}

/* ---- Making one ---- */

static mrd_err
choose_one(mrd_strlist *list, mrd_str word)
{
    mrd_strlist_fini(list);
    return mrd_strlist_add(list, word);
}

/* Restricts the session to processes with the identity of this job. */
static mrd_err
choose_job(mrd_select *s, const reported_job *job)
{
    mrd_str run = mrd_jobid_get(&job->id, "restart");
    mrd_err err = choose_one(&s->jobs, mrd_jobid_get(&job->id, "job"));

    if (err == MRD_OK)
        err = choose_one(&s->uids, mrd_jobid_get(&job->id, "uid"));
    if (err == MRD_OK)
        err = choose_one(&s->namespaces, mrd_jobid_get(&job->id, "namespace"));
    if (err == MRD_OK)
        err = choose_one(&s->clusters, mrd_jobid_get(&job->id, "cluster"));
    if (err == MRD_OK)
        err = choose_one(&s->restarts, run.len == 0 ? MRD_STR("0") : run);
    return err;
}

static void
belong(mrd_core *c, mrd_session *s, const reported_job *job)
{
    const Mrd__Job *m = job->m;
    uint64_t age = m->age_ns > (uint64_t) AGE_MAX ? (uint64_t) AGE_MAX : m->age_ns;

    s->of_job.key = job->key;
    s->of_job.witness = mrd_job_witness_of(mrd_job_witness_text(m->witness));
    s->of_job.nodes = m->nodes > 1000000 ? 0 : m->nodes;
    s->go.ns = mrd_core_session_now(c).ns - (int64_t) age;
    mrd_session_touch(s);
}

static mrd_err
fill(mrd_core *c, mrd_session *s, const reported_job *job, mrd_why *why)
{
    char name[MRD_TEXT_MAX];
    bool off = false;
    mrd_err err = mrd_session_params_init(&s->params);

    if (err == MRD_OK)
        err = take_request(c, &s->params, c->limits.job_default, &off, why);
    if (err == MRD_OK && *job->m->request != '\0') {
        off = false;
        err = take_request(c, &s->params, job->m->request, &off, why);
    }
    if (err == MRD_OK)
        err = mrd_session_params_check(&s->params, why);
    if (err == MRD_OK)
        err = mrd_session_target_check(&s->params, c->limits.export_targets, why);
    if (err == MRD_OK && off)
        err = mrd_why_set(why, MRD_CANCELLED, 0,
                          "the job or the site has switched its recording off");
    snprintf(name, sizeof(name), "job " MRD_STR_FMT, MRD_STR_ARG(mrd_jobid_get(&job->id, "job")));
    if (err == MRD_OK && (s->params.name == NULL || s->params.name[0] == '\0'))
        err = mrd_session_params_set(&s->params, "name", name, why);
    if (err == MRD_OK)
        err = choose_job(&s->select, job);
    mrd_core_name_session(c, s);
    s->state = MRD_SESSION_RECORDING;
    belong(c, s, job);
    return err;
}

static mrd_err
make(mrd_core *c, const reported_job *job, mrd_session **ret_s, mrd_why *why)
{
    mrd_session *s;
    mrd_err err = allowed(c, job->m->uid, why);

    if (err != MRD_OK)
        return err;
    if ((s = calloc(1, sizeof(*s))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "session");
    err = fill(c, s, job, why);
    if (err == MRD_OK && (err = mrd_core_add_session(c, s)) != MRD_OK)
        mrd_why_set(why, err, 0, "session");
    if (err != MRD_OK) {
        mrd_session_free(s);
        return err;
    }
    mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-JOB", "A job is recorded: id=%s job=%s uid=%lld",
                    s->text, job->key.text, (long long) job->m->uid);
    *ret_s = s;
    return MRD_OK;
}

/*
 * Begins a session that waited for its job. The session is restricted to this job, unless only a
 * process claimed the job. Then the operator's selection stays, so that a later report of the hook
 * can still count.
 */
static mrd_err
begin_waiting(mrd_core *c, mrd_session *s, const reported_job *job, mrd_why *why)
{
    bool claimed = is_claimed(s);

    if (claimed) {
        s->of_job.key = job->key;
        mrd_session_touch(s);
    } else {
        if (job->m->witness != MRD__JOB_WITNESS__WITNESS_PROCESS &&
            choose_job(&s->select, job) != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "session %s", s->text);
        mrd_text_set(s->message, sizeof(s->message), "");
        belong(c, s, job);
        mrd_session_join(c, s);
    }
    mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-JOB",
                    "A job that a session waited for is recorded: id=%s job=%s uid=%lld", s->text,
                    job->key.text, (long long) job->m->uid);
    return MRD_OK;
}

/* ---- Begin and end on a node ---- */

static void
add_owner(mrd_session *s, const char *key)
{
    if (!mrd_hash_is_valid(key) || s->of_job.owner_keys.n == OWNERS_MAX ||
        mrd_strlist_has(&s->of_job.owner_keys, mrd_str_of(key)))
        return;
    (void) mrd_strlist_add(&s->of_job.owner_keys, mrd_str_of(key));
}

static mrd_err
join(mrd_core *c, mrd_session *s, const mrd_node *n, const reported_job *job, mrd_why *why)
{
    const Mrd__Job *m = job->m;
    mrd_part *p = mrd_session_part(s, n->instance_id);

    if (s->state > MRD_SESSION_RECORDING)
        return mrd_why_set(why, MRD_STATE, 0, "session %s of the job is over", s->text);
    if (p == NULL && ((p = mrd_core_add_part(c, s, n)) == NULL ||
                      mrd_strlist_add(&s->select.instances, mrd_str_of(n->instance_id)) != MRD_OK))
        return mrd_why_set(why, MRD_NOMEM, 0, "session %s", s->text);
    p->job_ended = false;
    mrd_session_add_job(s, job->id.text);
    add_owner(s, m->owner_key);
    if (m->nodes > s->of_job.nodes && m->nodes <= 1000000)
        s->of_job.nodes = m->nodes;
    mrd_session_touch(s);
    return MRD_OK;
}

static mrd_err
begin(mrd_core *c, mrd_effect *e, const mrd_node *n, const reported_job *job, mrd_why *why)
{
    mrd_session *s = find(c, job);
    mrd_err err = MRD_OK;

    if (s == NULL && (s = find_waiting(c, n, job)) != NULL)
        err = begin_waiting(c, s, job, why);
    if (s == NULL && strcmp(job->m->request, MRD_JOB_UNASKED) == 0)
        return mrd_why_set(why, MRD_CANCELLED, 0, "no session waits for this job");
    if (s == NULL)
        err = make(c, job, &s, why);
    if (err != MRD_OK || (err = join(c, s, n, job, why)) != MRD_OK)
        return err;
    mrd_core_save(c, s);
    mrd_session_run(c, s);
    if (s->step != MRD_STEP_RECORD) { /* told when it is on disk */
        e->retry_ms = RETRY_MS;
        return MRD_OK;
    }
    e->directives[0] =
        (mrd_directive){ .type = MRD__CONTROL_TYPE__CONTROL_GO, .id = s->id, .session = s };
    e->n_directives = 1;
    return MRD_OK;
}

/* Returns the session of a job that ends on a node. A session that a process began may have the
 * hook's key by now. */
static mrd_session *
find_ending(const mrd_core *c, const reported_job *job)
{
    mrd_session *s = find(c, job);

    for (size_t i = 0; s == NULL && i < c->n_sessions; i++)
        if (!c->sessions[i]->deleted && is_claimed(c->sessions[i]) &&
            mrd_select_takes_job(&c->sessions[i]->select, &job->id, NULL))
            s = c->sessions[i];
    return s;
}

static void
end(mrd_core *c, const mrd_node *n, const reported_job *job)
{
    mrd_session *s = find_ending(c, job);
    mrd_part *p = s == NULL ? NULL : mrd_session_part(s, n->instance_id);

    if (p == NULL || p->job_ended)
        return;
    p->job_ended = true;
    s->of_job.ended = c->now.local;
    mrd_session_touch(s);
    mrd_core_save(c, s);
    mrd_session_run(c, s);
}

static void
read_job(const Mrd__Job *m, reported_job *ret_job)
{
    static const char *const keys[] = { "uid", NULL };
    mrd_jobid told = { "" };
    char uid[24];

    ret_job->m = m;
    ret_job->id = told;
    snprintf(uid, sizeof(uid), "%lld", (long long) m->uid);
    (void) mrd_jobid_set(&told, MRD_STR("uid"), mrd_str_of(uid));
    mrd_jobid_parse(&ret_job->id, mrd_str_of(m->identity));
    if (!mrd_str_is(mrd_jobid_get(&ret_job->id, "uid"), uid))
        mrd_jobid_correct(&ret_job->id, &told, keys);
    mrd_job_key_of(&ret_job->id, m->uid, &ret_job->key);
}

void
mrd_core_job(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_node *n, const Mrd__Job *m)
{
    reported_job job;
    mrd_why why = { 0 };
    mrd_effect *e;

    mrd_core_enter(c, now);
    e = mrd_effects_add(&c->out, MRD_DO_JOB_REPLY);
    e->ticket = ticket;
    read_job(m, &job);
    if (job.key.text[0] == '\0')
        mrd_why_set(&why, MRD_INVALID, 0, "the job has no id");
    else if (m->phase == MRD__JOB_PHASE__JOB_END)
        end(c, n, &job);
    else
        (void) begin(c, e, n, &job, &why);
    e->err = why.err;
    mrd_text_set(e->text, sizeof(e->text), why.text);
    if (why.err != MRD_OK && why.err != MRD_CANCELLED)
        mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-JOB-REFUSED",
                        "A job is not recorded: node=%s job=%s reason=%s", n->instance_id,
                        job.key.text, why.text);
}
