/* Sessions that belong to a job: a node says that a job which asks to be recorded is there, or is no
 * more; the policy decides; the session begins with the job's first node and ends with its last. */
#include "aggregator/core/jobs.h"

#include <stdio.h>

#include "aggregator/core/text.h"
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

/* The row of an option of sessions, by the word of its option or of the request. */
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

/* ---- Whose, and which ---- */

/* The same on all nodes of a job, and another one for each of its restarts. */
static void
key_of(const mrd_jobid *id, char key[MRD_JOB_KEY_MAX])
{
    mrd_str job = mrd_jobid_get(id, "job"), cluster = mrd_jobid_get(id, "cluster");
    mrd_str space = mrd_jobid_get(id, "namespace"), restart = mrd_jobid_get(id, "restart");

    snprintf(key, MRD_JOB_KEY_MAX, MRD_STR_FMT "/" MRD_STR_FMT "/" MRD_STR_FMT "/" MRD_STR_FMT,
             MRD_STR_ARG(cluster), MRD_STR_ARG(space), MRD_STR_ARG(job),
             restart.len == 0 ? 1 : (int) restart.len, restart.len == 0 ? "0" : restart.p);
}

static mrd_session *
find(const mrd_core *c, const char *key, int64_t uid)
{
    for (size_t i = c->n_sessions; i-- > 0;) {
        mrd_session *s = c->sessions[i];

        if (s->of_job.key[0] != '\0' && !s->deleted && s->state <= MRD_SESSION_STOPPING &&
            s->of_job.uid == uid && strcmp(s->of_job.key, key) == 0)
            return s;
    }
    return NULL;
}

/* A session that somebody began for a job that had not. */
static mrd_session *
find_expected(const mrd_core *c, const mrd_node *n, const mrd_jobid *id)
{
    for (size_t i = 0; i < c->n_sessions; i++) {
        mrd_session *s = c->sessions[i];

        if (!s->deleted && s->step == MRD_STEP_EXPECT && !s->stop_requested &&
            s->select.jobs.n == 1 && mrd_select_matches(&s->select, n->instance_id) &&
            mrd_jobid_matches(id, MRD_STR("job"), mrd_str_of(s->select.jobs.v[0])))
            return s;
    }
    return NULL;
}

static mrd_err
allowed(mrd_core *c, int64_t uid, mrd_why *why)
{
    int64_t open = 0, of_user = 0;

    for (size_t i = 0; i < c->n_sessions; i++) {
        const mrd_session *s = c->sessions[i];

        if (s->of_job.key[0] == '\0' || !mrd_session_is_open(s))
            continue;
        open++;
        of_user += s->of_job.uid == uid;
    }
    if (of_user >= c->limits.job_sessions_user)
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "%lld jobs of user %lld are being recorded, which is the limit "
                           "(--job-sessions-user)",
                           (long long) of_user, (long long) uid);
    if (open >= c->limits.job_sessions)
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "%lld jobs are being recorded, which is the limit (--job-sessions)",
                           (long long) open);
    if ((int64_t) c->n_sessions >= c->limits.max_sessions) {
        c->stats.limited[MRD_LIMIT_SESSIONS]++;
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "the store holds %zu sessions, which is the limit (--max-sessions)",
                           c->n_sessions);
    }
    return mrd_core_store_check(c, why);
}

/* ---- Making one ---- */

static void
belong(mrd_core *c, mrd_session *s, const Mrd__Job *m, const char *key)
{
    uint64_t age = m->age_ns > (uint64_t) AGE_MAX ? (uint64_t) AGE_MAX : m->age_ns;

    mrd_text_set(s->of_job.key, sizeof(s->of_job.key), key);
    s->of_job.uid = m->uid;
    s->of_job.nodes = m->nodes > 1000000 ? 0 : m->nodes;
    s->go.ns = mrd_core_session_now(c).ns - (int64_t) age;
    mrd_session_touch(s);
}

static mrd_err
fill(mrd_core *c, mrd_session *s, const mrd_jobid *id, const Mrd__Job *m, const char *key,
     mrd_why *why)
{
    mrd_str job = mrd_jobid_get(id, "job");
    char uid[24], name[MRD_TEXT_MAX];
    bool off = false;
    mrd_err err = mrd_session_params_init(&s->params);

    if (err == MRD_OK)
        err = take_request(c, &s->params, c->limits.job_default, &off, why);
    if (err == MRD_OK && *m->request != '\0') {
        off = false;
        err = take_request(c, &s->params, m->request, &off, why);
    }
    if (err == MRD_OK)
        err = mrd_session_params_check(&s->params, why);
    if (err == MRD_OK)
        err = mrd_session_target_check(&s->params, c->limits.export_targets, why);
    if (err == MRD_OK && off)
        err = mrd_why_set(why, MRD_CANCELLED, 0,
                          "the job or the site has switched its recording off");
    snprintf(uid, sizeof(uid), "%lld", (long long) m->uid);
    snprintf(name, sizeof(name), "job " MRD_STR_FMT, MRD_STR_ARG(job));
    if (err == MRD_OK && (s->params.name == NULL || s->params.name[0] == '\0'))
        err = mrd_session_params_set(&s->params, "name", name, why);
    if (err == MRD_OK)
        err = mrd_strlist_add(&s->select.jobs, job);
    if (err == MRD_OK)
        err = mrd_strlist_add(&s->select.uids, mrd_str_of(uid));
    mrd_core_name_session(c, s);
    s->state = MRD_SESSION_RECORDING;
    belong(c, s, m, key);
    return err;
}

static mrd_err
make(mrd_core *c, const mrd_jobid *id, const Mrd__Job *m, const char *key, mrd_session **ret_s,
     mrd_why *why)
{
    mrd_session *s;
    mrd_err err = allowed(c, m->uid, why);

    if (err != MRD_OK)
        return err;
    if ((s = calloc(1, sizeof(*s))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "session");
    err = fill(c, s, id, m, key, why);
    if (err == MRD_OK && (err = mrd_core_add_session(c, s)) != MRD_OK)
        mrd_why_set(why, err, 0, "session");
    if (err != MRD_OK) {
        mrd_session_free(s);
        return err;
    }
    mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-JOB", "A job is recorded: id=%s job=%s uid=%lld",
                    s->text, key, (long long) m->uid);
    *ret_s = s;
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
join(mrd_core *c, mrd_session *s, const mrd_node *n, const mrd_jobid *id, const Mrd__Job *m,
     mrd_why *why)
{
    mrd_part *p = mrd_session_part(s, n->instance_id);

    if (s->state > MRD_SESSION_RECORDING)
        return mrd_why_set(why, MRD_STATE, 0, "session %s of the job is over", s->text);
    if (p == NULL && ((p = mrd_core_add_part(c, s, n)) == NULL ||
                      mrd_strlist_add(&s->select.instances, mrd_str_of(n->instance_id)) != MRD_OK))
        return mrd_why_set(why, MRD_NOMEM, 0, "session %s", s->text);
    p->job_ended = false;
    mrd_session_add_job(s, id->text);
    add_owner(s, m->owner_key);
    if (m->nodes > s->of_job.nodes && m->nodes <= 1000000)
        s->of_job.nodes = m->nodes;
    mrd_session_touch(s);
    return MRD_OK;
}

static mrd_err
begin(mrd_core *c, mrd_effect *e, const mrd_node *n, const mrd_jobid *id, const Mrd__Job *m,
      const char *key, mrd_why *why)
{
    mrd_session *s = find(c, key, m->uid);
    mrd_err err = MRD_OK;

    if (s == NULL && (s = find_expected(c, n, id)) != NULL) {
        belong(c, s, m, key);
        mrd_session_join(c, s);
        mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-JOB",
                        "A job that a session waited for is recorded: id=%s job=%s", s->text, key);
    }
    if (s == NULL && strcmp(m->request, MRD_JOB_UNASKED) == 0)
        return mrd_why_set(why, MRD_CANCELLED, 0, "no session waits for this job");
    if (s == NULL && (err = make(c, id, m, key, &s, why)) != MRD_OK)
        return err;
    if ((err = join(c, s, n, id, m, why)) != MRD_OK)
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

static void
end(mrd_core *c, const mrd_node *n, const char *key, int64_t uid)
{
    mrd_session *s = find(c, key, uid);
    mrd_part *p = s == NULL ? NULL : mrd_session_part(s, n->instance_id);

    if (p == NULL || p->job_ended)
        return;
    p->job_ended = true;
    s->of_job.ended = c->now.local;
    mrd_session_touch(s);
    mrd_core_save(c, s);
    mrd_session_run(c, s);
}

void
mrd_core_job(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_node *n, const Mrd__Job *m)
{
    char key[MRD_JOB_KEY_MAX];
    mrd_jobid id = { "" };
    mrd_why why = { 0 };
    mrd_effect *e;

    mrd_core_enter(c, now);
    e = mrd_effects_add(&c->out, MRD_DO_JOB_REPLY);
    e->ticket = ticket;
    mrd_jobid_parse(&id, mrd_str_of(m->identity));
    key_of(&id, key);
    if (mrd_jobid_get(&id, "job").len == 0)
        mrd_why_set(&why, MRD_INVALID, 0, "the job has no id");
    else if (m->phase == MRD__JOB_PHASE__JOB_END)
        end(c, n, key, m->uid);
    else
        (void) begin(c, e, n, &id, m, key, &why);
    e->err = why.err;
    mrd_text_set(e->text, sizeof(e->text), why.text);
    if (why.err != MRD_OK && why.err != MRD_CANCELLED)
        mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-JOB-REFUSED",
                        "A job is not recorded: node=%s job=%s reason=%s", n->instance_id, key,
                        why.text);
}
