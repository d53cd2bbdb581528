/* Tests the sessions of jobs: which jobs get a session, which nodes join it, and when it ends. */
#include "aggregator/core/decide/jobs.h"

#include "aggregator/core/model/core.h"
#include "base/obj.h"
#include "tests/aggregator/core_make.h"

#define T0 (100 * MRD_SEC)

static mrd_core *
cluster(int64_t sessions, int64_t of_user, const char *by_default)
{
    mrd_core *c = core_make((mrd_core_limits){ .job_default = by_default,
                                               .job_allow = "stream,recorder,keep",
                                               .job_sessions = sessions,
                                               .job_sessions_user = of_user });

    core_hello(c, T0, "a", 1);
    core_hello(c, T0, "b", 2);
    return c;
}

typedef struct {
    const char *identity, *request, *owner;
    int64_t uid;
    uint32_t nodes;
    uint64_t age;
    bool ends;
} said;

enum {
    PROCESS = MRD__JOB_WITNESS__WITNESS_PROCESS,
    POD = MRD__JOB_WITNESS__WITNESS_POD,
    HOOK = MRD__JOB_WITNESS__WITNESS_HOOK
};

/* Sends a node's message about the job to the core, writes the resulting changes to disk, and
 * returns the answer. */
static mrd_effect
says_as(mrd_core *c, int64_t now, size_t node, said what, int witness)
{
    Mrd__Job m = MRD__JOB__INIT;
    mrd_effect *e, got = { 0 };

    m.phase = what.ends ? MRD__JOB_PHASE__JOB_END : MRD__JOB_PHASE__JOB_BEGIN;
    m.identity = (char *) (uintptr_t) what.identity;
    m.request = (char *) (uintptr_t) (what.request == NULL ? "" : what.request);
    m.owner_key = (char *) (uintptr_t) (what.owner == NULL ? "" : what.owner);
    m.uid = what.uid;
    m.nodes = what.nodes;
    m.age_ns = what.age;
    m.witness = (Mrd__JobWitness) witness;
    mrd_core_job(c, core_at(now), 50, c->nodes.v[node], &m);
    e = mrd_core_effect(c);
    CHECK(e != NULL && e->kind == MRD_DO_JOB_REPLY && e->ticket == 50);
    if (e != NULL)
        got = *e;
    core_write_all(c, now);
    return got;
}

static mrd_effect
says(mrd_core *c, int64_t now, size_t node, said what)
{
    return says_as(c, now, node, what, PROCESS);
}

static void
heartbeat(mrd_core *c, int64_t now, size_t node)
{
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    mrd_frame f = { .type = MRD_FRAME_HEARTBEAT, .agent = c->nodes.v[node]->key };
    mrd_node *n = NULL;

    hb.local_ns = now;
    CHECK(mrd_core_sender(c, core_at(now), 6, c->nodes.v[node]->conn, &f, &n));
    mrd_core_heartbeat(c, core_at(now), 6, n, &hb, (mrd_local_ns){ now });
    core_write_all(c, now);
}

static void
tick(mrd_core *c, int64_t now)
{
    mrd_core_tick(c, core_at(now));
    core_write_all(c, now);
}

TEST(a_job_is_told_its_session_when_it_is_on_disk)
{
    mrd_core *c = cluster(8, 8, "stream");
    said job = { "job=7\ncluster=x\n", "recorder,keep=1min", NULL, 5, 2, 3 * MRD_SEC, false };
    mrd_effect e = says(c, T0 + MRD_SEC, 0, job);
    mrd_session *s;

    CHECK(e.err == MRD_OK && e.n_directives == 0 && e.retry_ms > 0); /* not yet */
    REQUIRE(c->n_sessions == 1);
    s = c->sessions[0];
    e = says(c, T0 + 2 * MRD_SEC, 0, job); /* repeated as requested */
    REQUIRE(e.err == MRD_OK && e.n_directives == 1 && c->n_sessions == 1);
    CHECK(e.directives[0].type == MRD__CONTROL_TYPE__CONTROL_GO && e.directives[0].id == s->id);
    CHECK_TEXT(s->of_job.key.text, "x//7/0");
    CHECK_TEXT(s->params.name, "job 7");
    CHECK(s->params.recorder_ns == 60 * MRD_SEC && s->of_job.key.uid == 5 && s->of_job.nodes == 2);
    CHECK(s->go.ns <= T0 + MRD_SEC - 3 * MRD_SEC + 1); /* from its beginning on */
    e = says(c, T0 + 3 * MRD_SEC, 1, job);
    CHECK(e.n_directives == 1 && e.directives[0].id == s->id && c->n_sessions == 1);
    CHECK_INT(s->n_parts, 2);
    mrd_core_free(c);
}

/* Jobs with the same number are different jobs if user, restart, cluster or namespace differ. */
TEST(jobs_of_one_number_are_told_apart)
{
    static const said others[] = { { "job=7\n", NULL, NULL, 6, 1, 0, false },
                                   { "job=7\nrestart=1\n", NULL, NULL, 5, 1, 0, false },
                                   { "job=7\ncluster=y\n", NULL, NULL, 5, 1, 0, false },
                                   { "job=7\nnamespace=n\n", NULL, NULL, 5, 1, 0, false },
                                   { "job=77\n", NULL, NULL, 5, 1, 0, false } };
    mrd_core *c = cluster(20, 20, "stream");

    (void) says(c, T0, 0, (said){ "job=7\n", NULL, NULL, 5, 1, 0, false });
    for (size_t i = 0; i < MRD_COUNT(others); i++) {
        CHECK_INT(says(c, T0, 1, others[i]).err, MRD_OK);
        CHECK_INT(c->n_sessions, i + 2);
    }
    (void) says(c, T0, 1, (said){ "job=7\nrestart=0\n", NULL, NULL, 5, 1, 0, false });
    /* restart=0 is the first run, so it gets no further session */
    CHECK_INT(c->n_sessions, MRD_COUNT(others) + 1);
    mrd_core_free(c);
}

TEST(the_policy_decides_what_a_job_gets)
{
    static const struct {
        const char *by_default, *identity, *request;
        mrd_err err;
        const char *text;
    } rows[] = {
        { "stream", "job=7\n", "device-profiles=model", MRD_DENIED, "'device-profiles' may not" },
        { "stream", "job=7\n", "recorder,name=x", MRD_DENIED, "'name' may not" },
        { "stream", "job=7\n", "recorder,kept=1s", MRD_INVALID, "'kept=1s' is not an option" },
        { "stream", "job=7\n", "keep", MRD_INVALID, "'keep' is not an option" },
        { "stream", "job=7\n", "recorder,keep=long", MRD_RANGE, "'keep=long': " },
        { "stream", "job=7\n", "off", MRD_CANCELLED, "switched" },
        { "off", "job=7\n", "", MRD_CANCELLED, "switched" },
        { "off", "job=7\n", "stream", MRD_OK, "" },
        { "stream", "job=7\n", MRD_JOB_UNASKED, MRD_CANCELLED, "no session waits" },
        { "stream", "pod=p\n", "stream", MRD_INVALID, "has no id" },
        { "stream", "", "stream", MRD_INVALID, "has no id" },
        { "stream", "job=7\n", ",,recorder,,keep=1s,", MRD_OK, "" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = cluster(8, 8, rows[i].by_default);
        mrd_effect e =
            says(c, T0, 0, (said){ rows[i].identity, rows[i].request, NULL, 5, 1, 0, false });

        CHECK_ERR(rows[i].request, e.err, rows[i].err);
        CHECK_ROW(rows[i].request, strstr(e.text, rows[i].text) != NULL);
        CHECK_INT(c->n_sessions, rows[i].err == MRD_OK);
        mrd_core_free(c);
    }
}

TEST(limits_are_of_a_user_and_of_all)
{
    mrd_core *c = cluster(3, 2, "stream");
    mrd_effect e;

    CHECK_INT(says(c, T0, 0, (said){ "job=1\n", NULL, NULL, 5, 1, 0, false }).err, MRD_OK);
    CHECK_INT(says(c, T0, 0, (said){ "job=2\n", NULL, NULL, 5, 1, 0, false }).err, MRD_OK);
    e = says(c, T0, 0, (said){ "job=3\n", NULL, NULL, 5, 1, 0, false });
    CHECK(e.err == MRD_LIMIT && strstr(e.text, "--advanced.job-sessions-user") != NULL);
    CHECK_INT(says(c, T0, 0, (said){ "job=3\n", NULL, NULL, 6, 1, 0, false }).err, MRD_OK);
    e = says(c, T0, 0, (said){ "job=4\n", NULL, NULL, 7, 1, 0, false });
    CHECK(e.err == MRD_LIMIT && strstr(e.text, "(--advanced.job-sessions)") != NULL);
    CHECK_INT(says(c, T0, 1, (said){ "job=1\n", NULL, NULL, 5, 1, 0, false }).err,
              MRD_OK); /* joins */
    CHECK_INT(c->n_sessions, 3);
    mrd_core_free(c);
}

/* Reports that the node has delivered all sessions that are stopping. */
static void
delivers(mrd_core *c, int64_t now, size_t node)
{
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    mrd_frame f = { .type = MRD_FRAME_HEARTBEAT, .agent = c->nodes.v[node]->key };
    Mrd__SessionStatus st[8], *list[8];
    mrd_node *n = NULL;

    for (size_t i = 0; i < c->n_sessions && i < MRD_COUNT(st); i++) {
        if (c->sessions[i]->state != MRD_SESSION_STOPPING)
            continue;
        mrd__session_status__init(&st[hb.n_sessions]);
        st[hb.n_sessions].session = c->sessions[i]->id;
        st[hb.n_sessions].phase = MRD__NODE_PHASE__NODE_FLUSHED;
        st[hb.n_sessions].stopped_local_ns = st[hb.n_sessions].complete_local_ns = now;
        list[hb.n_sessions] = &st[hb.n_sessions];
        hb.n_sessions++;
    }
    hb.local_ns = now;
    hb.sessions = list;
    CHECK(mrd_core_sender(c, core_at(now), 6, c->nodes.v[node]->conn, &f, &n));
    mrd_core_heartbeat(c, core_at(now), 6, n, &hb, (mrd_local_ns){ now });
    core_write_all(c, now);
}

/* More jobs than the limit of sessions began and ended while the aggregator did not answer. Each
 * gets its session when a previous one has ended, from the job's own start. */
TEST(jobs_that_are_over_get_their_sessions_when_there_is_room)
{
    mrd_core *c = cluster(2, 2, "stream");
    const char *const jobs[] = { "job=1\n", "job=2\n", "job=3\n", "job=4\n", "job=5\n" };
    bool begun[5] = { false }, ended[5] = { false };
    size_t n_ended = 0, refused = 0;
    int64_t now = T0;

    for (int round = 0; round < 60 && n_ended < MRD_COUNT(jobs); round++, now += MRD_SEC) {
        for (size_t i = 0; i < MRD_COUNT(jobs); i++) {
            uint64_t age = (uint64_t) (30 * MRD_SEC + now - T0);
            mrd_effect e;

            if (ended[i])
                continue;
            e = says(c, now, 0, (said){ jobs[i], NULL, NULL, 5, 1, age, begun[i] });
            if (begun[i]) {
                ended[i] = true;
                n_ended++;
                continue;
            }
            refused += e.err == MRD_LIMIT;
            begun[i] = e.err == MRD_OK && e.n_directives == 1;
            CHECK(e.err == MRD_OK || e.err == MRD_LIMIT);
        }
        delivers(c, now, 0);
        heartbeat(c, now, 1);
        tick(c, now);
    }
    CHECK_INT(n_ended, MRD_COUNT(jobs));
    CHECK(refused > 0);
    REQUIRE(c->n_sessions == MRD_COUNT(jobs));
    /* the events in the rings since the job's start belong to its session */
    for (size_t i = 0; i < c->n_sessions; i++)
        CHECK_INT(c->sessions[i]->go.ns - c->sessions[0]->go.ns, 0);
    mrd_core_free(c);
}

/* The keys of a job let its owner read the session. Only valid keys are accepted, each once, up to
 * a limit. */
TEST(owner_keys_are_checked_and_bounded)
{
    mrd_core *c = cluster(8, 8, "stream");
    char key[65];

    (void) says(c, T0, 0, (said){ "job=1\n", NULL, "not a hash", 5, 1, 0, false });
    REQUIRE(c->n_sessions == 1);
    CHECK_INT(c->sessions[0]->of_job.owner_keys.n, 0);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "%064x", i);
        (void) says(c, T0, 0, (said){ "job=1\n", NULL, key, 5, 1, 0, false });
        (void) says(c, T0, 0, (said){ "job=1\n", NULL, key, 5, 1, 0, false });
    }
    CHECK_INT(c->sessions[0]->of_job.owner_keys.n, 64);
    mrd_core_free(c);
}

typedef struct {
    const char *what;
    uint32_t nodes; /* number of nodes that the job states */
    bool joins;     /* the job also runs on the second node */
    bool a_ends, b_ends;
    bool b_goes;             /* the second node disappears */
    int64_t stays_s, over_s; /* seconds after which it still runs, and after which it is over */
} ending;

/* A job ends when it has ended on all its nodes. The wait for a node that disappeared is
 * limited. */
TEST(a_session_ends_with_its_job)
{
    static const ending rows[] = {
        { "all that it has", 2, true, true, true, false, -1, 0 },
        { "one of two", 2, true, true, false, false, 300, -1 },
        { "one of two, another may begin", 2, false, true, false, false, 9, 12 },
        { "nobody says how many", 0, false, true, false, false, 1, 4 },
        { "one ended, the other vanished", 2, true, true, false, true, 50, 70 },
        { "nobody ended, all are there", 2, true, false, false, false, 600, -1 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const ending *r = &rows[i];
        mrd_core *c = cluster(8, 8, "stream");
        said job = { "job=1\n", NULL, NULL, 5, r->nodes, 0, false }, end = job;
        const mrd_session *s;
        int64_t at = T0;
        bool over_early = false;

        end.ends = true;
        for (int k = 0; k < 3; k++)
            (void) says(c, at, 0, job);
        if (r->joins)
            (void) says(c, at, 1, job);
        REQUIRE(c->n_sessions == 1);
        s = c->sessions[0];
        if (r->a_ends)
            (void) says(c, at, 0, end);
        if (r->b_ends)
            (void) says(c, at, 1, end);
        for (int64_t sec = 1; sec <= (r->over_s < 0 ? r->stays_s : r->over_s); sec++) {
            at = T0 + sec * MRD_SEC;
            heartbeat(c, at, 0);
            if (!r->b_goes)
                heartbeat(c, at, 1);
            tick(c, at);
            over_early = over_early || (sec <= r->stays_s && s->state != MRD_SESSION_RECORDING);
        }
        CHECK_ROW(r->what, !over_early);
        CHECK_ROW(r->what, (s->state > MRD_SESSION_RECORDING) == (r->over_s >= 0));
        mrd_core_free(c);
    }
}

/* While nothing can be stored, jobs are refused with the reason. No session is made, because its
 * manifest could not be written. */
TEST(a_job_is_refused_while_nothing_is_stored)
{
    for (int gone = 0; gone < 2; gone++) {
        mrd_core *c = cluster(8, 8, "stream");
        said job = { "job=1\n", NULL, NULL, 5, 1, 0, false };
        mrd_why why = { .err = MRD_IO, .text = "no folder" };
        mrd_effect e;

        (void) says(c, T0, 0, (said){ "job=2\n", NULL, NULL, 5, 2, 0, false });
        if (gone == 1)
            mrd_core_store_gone(c, core_at(T0), &why);
        else
            mrd_core_disk(c, core_at(T0), -1);
        core_drain(c);
        e = says(c, T0, 0, job);
        CHECK_ERR("refused", e.err, gone == 1 ? MRD_IO : MRD_FULL);
        CHECK_TEXT(e.text, mrd_core_store_message(c));
        CHECK_INT(c->n_sessions, 1);
        e = says(c, T0, 1,
                 (said){ "job=2\n", NULL, NULL, 5, 2, 0, false }); /* one that is recorded */
        CHECK(e.err == MRD_OK && c->sessions[0]->n_parts == 2);
        mrd_core_disk(c, core_at(T0), INT64_MAX);
        core_drain(c);
        CHECK_INT(says(c, T0, 0, job).err, MRD_OK);
        mrd_core_free(c);
    }
}

/* A session waits for a job. The first node of the job starts it, with the job's properties. */
TEST(a_session_waits_for_its_job)
{
    static const struct {
        const char *what, *job, *wanted;
        size_t node;
        bool stopped, joins;
    } rows[] = { { "its job", "job=7\n", "7", 0, false, true },
                 { "a member of its array", "job=9\narray_job=7\narray_task=3\n", "7_3", 0, false,
                   true },
                 { "another job", "job=8\n", "7", 0, false, false },
                 { "on a node that is not meant", "job=7\n", "7", 1, false, false },
                 { "it was stopped", "job=7\n", "7", 0, true, false } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = cluster(8, 8, "stream");
        mrd_session_request r = core_request("x");
        said job = { rows[i].job, MRD_JOB_UNASKED, NULL, 5, 3, 2 * MRD_SEC, false };
        mrd_session *s;
        mrd_effect e;

        r.params.wait = true;
        CHECK_ERR("job", mrd_strlist_add(&r.select.jobs, mrd_str_of(rows[i].wanted)), MRD_OK);
        CHECK_ERR("node", mrd_strlist_add(&r.select.instances, MRD_STR("a")), MRD_OK);
        mrd_core_start(c, core_at(T0), 9, &r);
        core_write_all(c, T0);
        tick(c, T0 + MRD_SEC);
        REQUIRE(c->n_sessions == 1);
        s = c->sessions[0];
        CHECK(s->step == MRD_STEP_EXPECT && s->state == MRD_SESSION_ARMING);
        s->stop_requested = rows[i].stopped;
        e = says_as(c, T0 + 2 * MRD_SEC, rows[i].node, job, HOOK);
        CHECK_ROW(rows[i].what, (e.err == MRD_OK) == rows[i].joins);
        CHECK_ROW(rows[i].what, rows[i].joins || e.err == MRD_CANCELLED);
        CHECK_ROW(rows[i].what, (s->state == MRD_SESSION_RECORDING) == rows[i].joins);
        CHECK_ROW(rows[i].what, (s->step == MRD_STEP_RECORD) == rows[i].joins);
        if (rows[i].joins)
            CHECK(s->go.ns == T0 && s->of_job.key.uid == 5 && s->of_job.nodes == 3 &&
                  s->n_parts == 1);
        tick(c, T0 + 3 * MRD_SEC);
        if (rows[i].stopped) {
            CHECK(s->state == MRD_SESSION_FAILED && s->step == MRD_STEP_OVER);
            CHECK_TEXT(s->message, "stopped before the job had begun");
        }
        mrd_core_free(c);
    }
}

/* Starts a session that waits for job 7, optionally of this user and namespace. */
static mrd_session *
wait_for_7(mrd_core *c, const char *uid, const char *space)
{
    mrd_session_request r = core_request("x");

    r.params.wait = true;
    CHECK_ERR("job", mrd_strlist_add(&r.select.jobs, MRD_STR("7")), MRD_OK);
    if (uid != NULL)
        CHECK_ERR("uid", mrd_strlist_add(&r.select.uids, mrd_str_of(uid)), MRD_OK);
    if (space != NULL)
        CHECK_ERR("space", mrd_strlist_add(&r.select.namespaces, mrd_str_of(space)), MRD_OK);
    mrd_core_start(c, core_at(T0), 9, &r);
    core_write_all(c, T0);
    tick(c, T0 + MRD_SEC);
    MRD_ASSERT(c->n_sessions == 1);
    return c->sessions[0];
}

/* A process that may claim any job number does not get a session by it. */
TEST(who_may_have_a_session_that_waits_for_a_job)
{
    static const struct {
        const char *what, *uid, *space, *job, *hint;
        int64_t user;
        int witness;
        bool has, owned;
    } rows[] = {
        { "the hook", NULL, NULL, "job=7\n", NULL, 5, HOOK, true, true },
        { "the hook, user named", "5", NULL, "job=7\n", NULL, 5, HOOK, true, true },
        { "the hook, another user named", "6", NULL, "job=7\n", NULL, 5, HOOK, false, false },
        { "a process", NULL, NULL, "job=7\n", "--uid 5", 5, PROCESS, false, false },
        { "a process of the named user", "5", NULL, "job=7\n", NULL, 5, PROCESS, true, false },
        { "a process of another user", "6", NULL, "job=7\n", NULL, 5, PROCESS, false, false },
        { "a process that lies about its user", "6", NULL, "uid=6\njob=7\n", NULL, 5, PROCESS,
          false, false },
        { "a process in a namespace", NULL, "a", "job=7\nnamespace=a\n", "--uid 5", 5, PROCESS,
          false, false },
        { "a pod", NULL, NULL, "job=7\nnamespace=a\n", "--namespace a", 5, POD, false, false },
        { "a pod of the named namespace", NULL, "a", "job=7\nnamespace=a\n", NULL, 5, POD, true,
          true },
        { "a pod of another namespace", NULL, "a", "job=7\nnamespace=b\n", NULL, 5, POD, false,
          false },
        { "a pod without a namespace", NULL, "a", "job=7\n", NULL, 5, POD, false, false },
        { "no witness that is known", NULL, NULL, "job=7\n", "--uid 5", 5, 77, false, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = cluster(8, 8, "stream");
        mrd_session *s = wait_for_7(c, rows[i].uid, rows[i].space);
        said job = { rows[i].job, MRD_JOB_UNASKED, NULL, rows[i].user, 1, 0, false };
        mrd_effect e = says_as(c, T0 + 2 * MRD_SEC, 0, job, rows[i].witness);

        CHECK_ROW(rows[i].what, (e.err == MRD_OK) == rows[i].has);
        CHECK_ROW(rows[i].what, (s->state == MRD_SESSION_RECORDING) == rows[i].has);
        CHECK_ROW(rows[i].what, mrd_session_has_owner(s) == rows[i].owned);
        CHECK_ROW(rows[i].what,
                  (strstr(s->message, "still waiting") != NULL) == (rows[i].hint != NULL));
        CHECK_ROW(rows[i].what, rows[i].hint == NULL || strstr(s->message, rows[i].hint) != NULL);
        mrd_core_free(c);
    }
}

/* The hook's report gives the same result before and after a claim of a process. */
TEST(the_word_of_the_hook_outranks_claims)
{
    for (int named = 0; named < 2; named++) {
        mrd_core *c = cluster(8, 8, "stream");
        mrd_session *s = wait_for_7(c, named ? "5" : NULL, NULL);
        said claim = { "job=7\n", MRD_JOB_UNASKED, NULL, 5, 1, 0, false };
        said hook = { "job=7\ncluster=x\n", MRD_JOB_UNASKED, NULL, 5, 2, 0, false };
        mrd_effect e;

        CHECK_INT(says(c, T0 + MRD_SEC, 0, claim).err, named ? MRD_OK : MRD_CANCELLED);
        (void) says_as(c, T0 + 2 * MRD_SEC, 1, hook, HOOK);
        e = says_as(c, T0 + 3 * MRD_SEC, 1, hook, HOOK);
        CHECK(e.err == MRD_OK && e.n_directives == 1 && e.directives[0].id == s->id);
        CHECK_INT(c->n_sessions, 1);
        CHECK_TEXT(s->of_job.key.text, "x//7/0");
        CHECK_INT(s->n_parts, named ? 2 : 1);
        /* the session also contains the process that made the claim */
        CHECK_INT(mrd_session_is_of_one_job(s), !named);
        CHECK_INT(mrd_session_has_owner(s), !named);
        CHECK_TEXT(s->message, "");
        CHECK_INT(says(c, T0 + 4 * MRD_SEC, 0, claim).err, MRD_CANCELLED);
        claim.uid = 6; /* another user, who comes later */
        CHECK_INT(says(c, T0 + 4 * MRD_SEC, 0, claim).err, MRD_CANCELLED);
        CHECK_INT(s->n_parts, named ? 2 : 1);
        claim.uid = 5;
        claim.ends = hook.ends = true; /* ends the session on both nodes */
        (void) says(c, T0 + 5 * MRD_SEC, 0, claim);
        (void) says_as(c, T0 + 5 * MRD_SEC, 1, hook, HOOK);
        tick(c, T0 + 20 * MRD_SEC);
        CHECK(s->state > MRD_SESSION_RECORDING);
        mrd_core_free(c);
    }
}

/* A job's age and size are limited to plausible values. The session keeps its own name, jobs and
 * parts. */
TEST(what_a_job_says_of_itself)
{
    static const struct {
        uint64_t age;
        uint32_t nodes, later;
        int64_t go;
        unsigned want[2];
    } rows[] = { { 0, 0, 0, T0, { 0, 0 } },
                 { 600 * MRD_SEC, 5, 4, T0 - 600 * MRD_SEC, { 5, 5 } },
                 { 601 * MRD_SEC, 4, 5, T0 - 600 * MRD_SEC, { 4, 5 } },
                 { UINT64_MAX, 1000000, 1000001, T0 - 600 * MRD_SEC, { 1000000, 1000000 } },
                 { 1, 1000001, 1000000, T0 - 1, { 0, 1000000 } } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = cluster(8, 8, "stream");
        said job = { "job=7\n", "name", NULL, 5, rows[i].nodes, rows[i].age, false };
        const mrd_session *s;

        c->limits.job_allow = "stream,name";
        job.request = "name=mine";
        (void) says(c, T0, 0, job);
        REQUIRE(c->n_sessions == 1);
        s = c->sessions[0];
        CHECK(s->go.ns == rows[i].go && s->of_job.nodes == rows[i].want[0]);
        CHECK_TEXT(s->params.name, "mine");
        CHECK(s->jobs.n == 1 && s->select.jobs.n == 1 && s->select.uids.n == 1 &&
              s->select.instances.n == 1);
        CHECK_TEXT(s->select.uids.v[0], "5");
        CHECK_TEXT(s->select.jobs.v[0], "7");
        CHECK_TEXT(s->select.instances.v[0], "a");
        job.nodes = rows[i].later;
        (void) says(c, T0, 1, job);
        CHECK(s->of_job.nodes == rows[i].want[1] && s->select.instances.n == 2);
        mrd_core_free(c);
    }
}

/* A request that waits must name one job. A repeated end, or the end of an unknown job, has no
 * effect. */
TEST(what_makes_no_sense_is_refused_or_ignored)
{
    mrd_core *c = cluster(8, 8, "stream");
    mrd_session_request r = core_request("x");
    said end = { "job=1\n", NULL, NULL, 5, 1, 0, true };

    r.params.wait = true;
    CHECK_INT(mrd_job_request_check(&r, NULL), MRD_INVALID);
    CHECK_ERR("job", mrd_strlist_add(&r.select.jobs, MRD_STR("7")), MRD_OK);
    CHECK_INT(mrd_job_request_check(&r, NULL), MRD_OK);
    CHECK_ERR("job", mrd_strlist_add(&r.select.jobs, MRD_STR("8")), MRD_OK);
    CHECK_INT(mrd_job_request_check(&r, NULL), MRD_INVALID);
    CHECK_INT(says(c, T0, 0, end).err, MRD_OK);
    CHECK_INT(c->n_sessions, 0);
    for (int k = 0; k < 2; k++)
        (void) says(c, T0, 0, (said){ "job=1\n", NULL, NULL, 5, 2, 0, false });
    /* the end of a job on a node that has no part in its session */
    CHECK_INT(says(c, T0, 1, end).err, MRD_OK);
    REQUIRE(c->n_sessions == 1);
    CHECK_INT(c->sessions[0]->of_job.ended.ns, 0);
    CHECK_INT(c->sessions[0]->state, MRD_SESSION_RECORDING);
    mrd_session_request_fini(&r);
    mrd_core_free(c);
}

TEST_MAIN()
