/* Tests two jobs that differ in only one part of their identity, such as the user. Each must have
 * its own session with its own events, which only its owner can read, in every mode and in any
 * order of arrival. */
#include "aggregator/core/decide/jobs.h"

#include "aggregator/api/http.h"
#include "aggregator/core/model/core.h"
#include "aggregator/loop/messages.h"
#include "base/obj.h"
#include "tests/aggregator/core_make.h"

#define T0   (100 * MRD_SEC)
#define KEYS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

typedef struct {
    const char *what, *words, *user, *space; /* words: without uid and user */
    int64_t uid;
    char key[65];
} tenant;

static const tenant first = { "the first", "job=train\ncluster=c\nnamespace=a\n", "alice", "a", 5,
                              KEYS "0" };
static const tenant others[] = {
    { "another namespace", "job=train\ncluster=c\nnamespace=b\n", "alice", "b", 5, KEYS "1" },
    { "no namespace", "job=train\ncluster=c\n", "alice", "", 5, KEYS "1" },
    { "another user", "job=train\ncluster=c\nnamespace=a\n", "bob", "a", 6, KEYS "1" },
    { "another cluster", "job=train\ncluster=d\nnamespace=a\n", "alice", "a", 5, KEYS "1" },
    { "no cluster", "job=train\nnamespace=a\n", "alice", "a", 5, KEYS "1" },
    { "another run", "job=train\ncluster=c\nnamespace=a\nrestart=1\n", "alice", "a", 5, KEYS "1" },
    { "another job", "job=trains\ncluster=c\nnamespace=a\n", "alice", "a", 5, KEYS "1" },
    { "names that look like two parts", "job=train\ncluster=c/a\n", "alice", "", 5, KEYS "1" },
};

static const struct {
    const char *what, *request;
    Mrd__JobWitness witness;
    bool waited; /* an operator started it and waits for the first tenant's job */
} modes[] = {
    { "stream", "stream", MRD__JOB_WITNESS__WITNESS_PROCESS, false },
    { "recorder", "recorder,keep=1min", MRD__JOB_WITNESS__WITNESS_PROCESS, false },
    { "stream by a hook", "stream", MRD__JOB_WITNESS__WITNESS_HOOK, false },
    { "waited for, a hook's", MRD_JOB_UNASKED, MRD__JOB_WITNESS__WITNESS_HOOK, true },
    { "waited for, a pod's", MRD_JOB_UNASKED, MRD__JOB_WITNESS__WITNESS_POD, true },
};

static mrd_jobid
identity_of(const tenant *t)
{
    mrd_jobid id = { "" };
    char uid[24];

    snprintf(uid, sizeof(uid), "%lld", (long long) t->uid);
    mrd_jobid_parse(&id, mrd_str_of(t->words));
    CHECK(mrd_jobid_set(&id, MRD_STR("uid"), mrd_str_of(uid)));
    CHECK(mrd_jobid_set(&id, MRD_STR("user"), mrd_str_of(t->user)));
    return id;
}

/* Reports the begin or end of the tenant's job on the node, as the agent does. Repeats the report
 * until it is answered. Returns the job's session, or NULL. */
static mrd_session *
says(mrd_core *c, size_t node, const tenant *t, size_t mode, bool ends)
{
    mrd_jobid id = identity_of(t);
    Mrd__Job m = MRD__JOB__INIT;
    uint64_t session = 0;

    m.phase = ends ? MRD__JOB_PHASE__JOB_END : MRD__JOB_PHASE__JOB_BEGIN;
    m.identity = id.text;
    m.uid = t->uid;
    m.request = (char *) (uintptr_t) modes[mode].request;
    m.witness = modes[mode].witness;
    m.owner_key = (char *) (uintptr_t) t->key;
    for (int again = 0; again < 3; again++) {
        mrd_effect *e;

        mrd_core_job(c, core_at(T0), 50, c->nodes.v[node], &m);
        e = mrd_core_effect(c);
        CHECK(e != NULL && e->kind == MRD_DO_JOB_REPLY);
        if (e != NULL && e->n_directives == 1)
            session = e->directives[0].id;
        core_write_all(c, T0);
    }
    return session == 0 ? NULL : mrd_core_session(c, session);
}

/* Returns true if the directive to nodes selects a process of this tenant. */
static bool
takes(const mrd_session *s, const tenant *t)
{
    mrd_effect e = { .n_directives = 1,
                     .directives = {
                         { .type = MRD__CONTROL_TYPE__CONTROL_GO, .id = s->id, .session = s } } };
    mrd_jobid id = identity_of(t);
    mrd_control_messages m;
    mrd_select select = { 0 };
    bool taken;

    mrd_control_messages_init(&m, &e);
    CHECK_ERR("wire", mrd_select_from_wire(&select, m.v[0].control.select), MRD_OK);
    taken = mrd_select_takes_job(&select, &id,
                                 mrd_str_is(mrd_jobid_get(&id, "job"), "train") ? "train" : NULL);
    mrd_control_messages_fini(&m);
    mrd_select_fini(&select);
    return taken;
}

/* The operator waits for the first tenant's job and identifies it. */
static mrd_session *
wait_for_first(mrd_core *c)
{
    mrd_session_request r = core_request("x");

    r.params.wait = true;
    CHECK_ERR("job", mrd_strlist_add(&r.select.jobs, MRD_STR("train")), MRD_OK);
    CHECK_ERR("uid", mrd_strlist_add(&r.select.uids, MRD_STR("5")), MRD_OK);
    CHECK_ERR("space", mrd_strlist_add(&r.select.namespaces, MRD_STR("a")), MRD_OK);
    CHECK_ERR("cluster", mrd_strlist_add(&r.select.clusters, MRD_STR("c")), MRD_OK);
    CHECK_ERR("run", mrd_strlist_add(&r.select.restarts, MRD_STR("0")), MRD_OK);
    mrd_core_start(c, core_at(T0), 9, &r);
    core_write_all(c, T0);
    mrd_core_tick(c, core_at(T0));
    core_write_all(c, T0);
    MRD_ASSERT(c->n_sessions == 1 && c->sessions[0]->step == MRD_STEP_EXPECT);
    return c->sessions[0];
}

/* Each way of authentication opens all sessions of that owner, and no other. */
static void
check_owners(const char *what, const mrd_session *s, const tenant *its, const tenant *t)
{
    mrd_caller callers[] = { MRD_CALLER(MRD_ROLE_OWNER), MRD_CALLER(MRD_ROLE_OWNER),
                             MRD_CALLER(MRD_ROLE_OWNER), MRD_CALLER(MRD_ROLE_OWNER) };
    const bool owns[] = { its == t, t->uid == its->uid, strcmp(t->user, its->user) == 0,
                          t->space[0] != '\0' && strcmp(t->space, its->space) == 0 };
    mrd_ownership of = mrd_http_ownership(s);

    snprintf(callers[0].key, sizeof(callers[0].key), "%s", t->key);
    callers[1].uid = t->uid;
    snprintf(callers[2].user, sizeof(callers[2].user), "%s", t->user);
    snprintf(callers[3].space, sizeof(callers[3].space), "%s", t->space);
    for (size_t i = 0; i < MRD_COUNT(callers); i++)
        for (mrd_action a = MRD_ACTION_LIST; a <= MRD_ACTION_DELETE; a++)
            CHECK_ROW(what, mrd_may(&callers[i], &of, a) == owns[i]);
}

static void
run_pair(size_t mode, const tenant *other, bool other_first, size_t node)
{
    mrd_core *c = core_make((mrd_core_limits){ .job_default = "stream",
                                               .job_allow = "stream,recorder,keep",
                                               .job_sessions = 20,
                                               .job_sessions_user = 20 });
    const tenant *both[] = { other_first ? other : &first, other_first ? &first : other };
    mrd_session *s[2] = { NULL, NULL }, *waiting;

    core_hello(c, T0, "a", 1);
    core_hello(c, T0, "b", 2);
    waiting = modes[mode].waited ? wait_for_first(c) : NULL;
    for (int i = 0; i < 2; i++)
        s[i] = says(c, i == 0 ? 0 : node, both[i], mode, false);
    for (int i = 0; i < 2; i++) {
        mrd_jobid id = identity_of(both[i]);

        CHECK_ROW(other->what, waiting == NULL || (s[i] == waiting) == (both[i] == &first));
        CHECK_ROW(other->what, waiting != NULL || s[i] != NULL);
        if (s[i] == NULL)
            continue;
        CHECK_ROW(other->what, takes(s[i], both[i]) && !takes(s[i], both[1 - i]));
        mrd_session_add_job(s[i], id.text); /* as the agent reports its jobs */
        check_owners(other->what, s[i], both[i], both[i]);
        check_owners(other->what, s[i], both[i], both[1 - i]);
    }
    CHECK_ROW(other->what, s[0] != s[1]);
    (void) says(c, node, both[1], mode, true); /* ends only one of the two jobs */
    CHECK_ROW(other->what, s[0] == NULL || s[0]->of_job.ended.ns == 0);
    mrd_core_free(c);
}

TEST(two_tenants_in_every_mode)
{
    for (size_t mode = 0; mode < MRD_COUNT(modes); mode++)
        for (size_t i = 0; i < MRD_COUNT(others); i++)
            for (int order = 0; order < 4; order++)
                run_pair(mode, &others[i], (order & 1) != 0, (order & 2) != 0);
}

/* An agent of wire 1.1 selects by job and user only, so it may record the job of another tenant
 * into the session. Then only operators may read the session. Steps of the owner's job, and
 * processes without a job, do not count as another job. */
TEST(a_session_with_the_job_of_another_tenant_belongs_to_nobody)
{
    for (size_t i = 0; i < MRD_COUNT(others) + 2; i++) {
        mrd_core *c = core_make((mrd_core_limits){ .job_default = "stream",
                                                   .job_allow = "stream",
                                                   .job_sessions = 2,
                                                   .job_sessions_user = 2 });
        bool foreign = i < MRD_COUNT(others);
        mrd_jobid id = identity_of(foreign ? &others[i] : &first);
        mrd_caller who = MRD_CALLER(MRD_ROLE_OWNER);
        mrd_ownership of;
        mrd_session *s;

        core_hello(c, T0, "a", 1);
        s = says(c, 0, &first, 0, false);
        REQUIRE(s != NULL);
        CHECK(mrd_jobid_set(&id, MRD_STR("step"), MRD_STR("7")));
        mrd_session_add_job(s, i > MRD_COUNT(others) ? "uid=5\nuser=alice\n" : id.text);
        of = mrd_http_ownership(s);
        snprintf(who.key, sizeof(who.key), "%s", first.key);
        CHECK_ROW(foreign ? others[i].what : "its own",
                  mrd_may(&who, &of, MRD_ACTION_READ) == !foreign);
        mrd_core_free(c);
    }
}

/* Any number of steps, pods and labels belongs to the same job and does not lock its owner out. */
TEST(an_owner_is_not_locked_out_of_a_large_job)
{
    mrd_core *c = core_make((mrd_core_limits){ .job_default = "stream",
                                               .job_allow = "stream",
                                               .job_sessions = 2,
                                               .job_sessions_user = 2 });
    mrd_session *s;

    core_hello(c, T0, "a", 1);
    s = says(c, 0, &first, 0, false);
    REQUIRE(s != NULL);
    for (int i = 0; i < MRD_SESSION_JOBS + 9; i++) {
        mrd_jobid id = identity_of(&first);
        char step[8];

        snprintf(step, sizeof(step), "%d", i);
        CHECK(mrd_jobid_set(&id, MRD_STR("step"), mrd_str_of(step)));
        mrd_session_add_job(s, id.text);
    }
    CHECK(s->jobs_left_out > 0);
    check_owners("many steps", s, &first, &first);
    mrd_core_free(c);
}

/* ---- Jobs that stand still ---- */

/* Reports that a rank of the tenant's job waits in its 300th call, or is stopped before it. */
static void
report_rank(mrd_hang *hang, const tenant *t, int64_t rank, bool stopped)
{
    mrd_jobid id = identity_of(t);
    mrd_hang_rank r = { .pid = 10 + rank,
                        .rank = rank,
                        .world = 3,
                        .state = stopped ? MRD_HANG_STOPPED : MRD_HANG_SLEEPING,
                        .quiet = { T0 },
                        .idle = { T0 },
                        .state_at = { T0 },
                        .watched = { MRD_SEC },
                        .n_ops = 1,
                        .ops[0] = { .name = "nrt_execute",
                                    .entered = stopped ? 299 : 300,
                                    .open = !stopped,
                                    .begin = { stopped ? 0 : T0 },
                                    .seen = 299 } };

    mrd_hang_report(hang, 7, &id, t->uid, true, &r);
}

/* Two jobs stand still on one node. `of[job][rank]` is the tenant that the rank names. */
static mrd_overview *
standing(const tenant *const of[2][3])
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_overview *overview;

    for (int64_t now = T0; now < T0 + 60 * MRD_SEC; now += MRD_SEC) {
        CHECK(mrd_hang_node_begin(c->hang, 7, "node", false, (mrd_local_ns){ now }));
        for (int job = 0; job < 2; job++)
            for (int rank = 0; rank < 3; rank++)
                report_rank(c->hang, of[job][rank], rank, rank == 0);
        (void) core_tick(c, now);
    }
    overview = mrd_overview_new(c);
    mrd_core_free(c);
    return overview;
}

static bool
sees(const mrd_overview *overview, size_t i, const tenant *t, bool by_uid)
{
    mrd_caller who = MRD_CALLER(MRD_ROLE_OWNER);
    mrd_ownership of = mrd_http_hang_ownership(&overview->hangs[i]);

    if (by_uid)
        who.uid = t->uid;
    else
        snprintf(who.user, sizeof(who.user), "%s", t->user);
    return mrd_may(&who, &of, MRD_ACTION_LIST);
}

TEST(two_users_of_one_job_name_see_their_own_hang_only)
{
    static const tenant other = { "", "job=train\ncluster=c\nnamespace=a\n", "bob", "a", 6, "" };

    for (int other_first = 0; other_first < 2; other_first++) {
        const tenant *a = other_first ? &other : &first, *b = other_first ? &first : &other;
        const tenant *const of[2][3] = { { a, a, a }, { b, b, b } };
        mrd_overview *overview = standing(of);

        REQUIRE(overview != NULL && overview->n_hangs == 2);
        for (size_t i = 0; i < 2; i++) {
            const tenant *its = overview->hangs[i].v.job.uid == first.uid ? &first : &other;

            CHECK_INT(overview->hangs[i].v.ranks, 3);
            for (int by_uid = 0; by_uid < 2; by_uid++) {
                CHECK(sees(overview, i, &first, by_uid) == (its == &first));
                CHECK(sees(overview, i, &other, by_uid) == (its == &other));
            }
        }
        CHECK(overview->hangs[0].v.job.uid != overview->hangs[1].v.job.uid);
        mrd_overview_unref(overview);
    }
}

/* A process of the same account that claims another user's name comes first, between, or last. */
TEST(a_hang_of_a_job_whose_ranks_name_two_users_belongs_to_neither)
{
    static const tenant claims = { "", "job=train\ncluster=c\nnamespace=a\n", "bob", "a", 5, "" };
    static const tenant apart = { "", "job=other\ncluster=c\nnamespace=a\n", "eve", "a", 5, "" };

    for (int rank = 0; rank < 3; rank++) {
        const tenant *of[2][3] = { { &first, &first, &first }, { &apart, &apart, &apart } };
        mrd_overview *overview;

        of[0][rank] = &claims;
        overview = standing(of);
        REQUIRE(overview != NULL && overview->n_hangs == 2);
        for (size_t i = 0; i < 2; i++) {
            bool mixed = strstr(overview->hangs[i].v.identity, "job=train\n") != NULL;

            CHECK_INT(overview->hangs[i].v.ranks, 3);
            CHECK(!sees(overview, i, &first, false) && !sees(overview, i, &claims, false));
            CHECK(sees(overview, i, &apart, false) == !mixed);
            CHECK(sees(overview, i, &first, true));
        }
        mrd_overview_unref(overview);
    }
}

TEST_MAIN()
