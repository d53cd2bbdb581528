/* Tests how the jobs of a node get a recording (agent/record/jobs.h). The scheduler's hook writes a
 * file for each job. The tests check which requests the aggregator receives and when, and the
 * effects of its answers. */
#include "agent/record/jobs.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/rings/drain_int.h"
#include "base/conf/agent_waits.h"
#include "base/num.h"
#include "base/obj.h"
#include "tests/check.h"
#include "tests/timesync/rng.h"

enum { SENT_MAX = 1024 };

typedef struct {
    char dir[256];
    mrd_drain *drain;
    mrd_jobs *jobs;
    int64_t now;
    /* The requests sent, oldest first. */
    struct {
        uint64_t tag, nodes;
        bool ends;
        char identity[512], request[64], owner[80];
        int64_t uid;
        Mrd__JobWitness witness;
    } sent[SENT_MAX];
    size_t n_sent;
    bool link_down;
    /* ids of the sessions that the node last began and stopped; 0 if none */
    uint64_t went, stopped;
    int64_t from_ns, until_ns;
    mrd_job_times times; /* times of the job for which a session last began */
    bool go_fails;
} node;

static mrd_err
send(void *self, uint64_t tag, mrd_bytes frame)
{
    node *n = self;
    mrd_msg msg;

    if (n->link_down)
        return MRD_AGAIN;
    MRD_ASSERT(n->n_sent < SENT_MAX);
    MRD_ASSERT(mrd_msg_unpack(frame, &msg, NULL) == MRD_OK && msg.frame.type == MRD_FRAME_JOB);
    CHECK_INT(msg.frame.agent, 77);
    n->sent[n->n_sent].tag = tag;
    n->sent[n->n_sent].ends = msg.u.job->phase == MRD__JOB_PHASE__JOB_END;
    n->sent[n->n_sent].nodes = msg.u.job->nodes;
    n->sent[n->n_sent].uid = msg.u.job->uid;
    n->sent[n->n_sent].witness = msg.u.job->witness;
    snprintf(n->sent[n->n_sent].identity, 512, "%s", msg.u.job->identity);
    snprintf(n->sent[n->n_sent].request, 64, "%s", msg.u.job->request);
    snprintf(n->sent[n->n_sent++].owner, 80, "%s", msg.u.job->owner_key);
    mrd_msg_free(&msg);
    return MRD_OK;
}

static mrd_err
go(void *self, const Mrd__Control *control, const mrd_job_times *t, mrd_why *why)
{
    node *n = self;

    if (n->go_fails)
        return mrd_why_set(why, MRD_LIMIT, 0, "16 sessions");
    n->went = control->session;
    n->from_ns = t->start.ns;
    n->times = *t;
    return MRD_OK;
}

static void
stop(void *self, uint64_t session, mrd_local_ns stop_at)
{
    node *n = self;

    n->stopped = session;
    n->until_ns = stop_at.ns;
}

static node *
node_open(void)
{
    node *n = calloc(1, sizeof(*n));
    mrd_drain_options d = { .instance_id = "i-test", .ring_dir = test_tmp() };
    mrd_jobs_options o = { .send = send, .go = go, .stop = stop, .self = n, .agent = 77 };

    MRD_ASSERT(n != NULL);
    snprintf(n->dir, sizeof(n->dir), "%s/jobs", test_tmp());
    MRD_ASSERT(mkdir(n->dir, 0755) == 0);
    MRD_ASSERT(mrd_drain_open(&d, &n->drain, NULL) == MRD_OK);
    (void) mrd_drain_step(n->drain); /* reads the clocks of the node once */
    o.dir = n->dir;
    o.drain = n->drain;
    MRD_ASSERT(mrd_jobs_open(&o, &n->jobs, NULL) == MRD_OK);
    n->now = mrd_local_now().ns;
    return n;
}

static void
node_close(node *n)
{
    mrd_jobs_close(n->jobs);
    mrd_drain_close(n->drain);
    free(n);
}

/* Writes the file under another name and renames it, as the hook does. */
static void
put(const node *n, const char *name, const char *text, mode_t mode)
{
    char path[600], fresh[600];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", n->dir, name);
    snprintf(fresh, sizeof(fresh), "%s/.%s", n->dir, name);
    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    REQUIRE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text));
    REQUIRE(fchmod(fd, mode) == 0 && close(fd) == 0 && rename(fresh, path) == 0);
}

static void
take_away(const node *n, const char *name)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", n->dir, name);
    REQUIRE(unlink(path) == 0);
}

static void
pass(node *n, int64_t ns)
{
    n->now += ns;
    mrd_jobs_step(n->jobs, (mrd_local_ns){ n->now });
    CHECK(mrd_jobs_next_ns(n->jobs).ns > n->now); /* otherwise the agent's loop would spin */
}

/* Answers request `at`. If `session` is 0, the job gets no session. `err` is the reason of a
 * refusal. */
static void
reply(node *n, size_t at, mrd_err err, uint64_t session, uint32_t retry_ms)
{
    Mrd__Control control = MRD__CONTROL__INIT;
    Mrd__JobReply r = MRD__JOB_REPLY__INIT;
    mrd_msg msg = { .frame = { .type = MRD_FRAME_JOB_REPLY }, .u.job_reply = &r };
    char text[] = "no";

    control.session = session;
    r.err = (uint32_t) err;
    r.message = text;
    r.retry_after_ms = retry_ms;
    r.control = session == 0 ? NULL : &control;
    mrd_jobs_answer(n->jobs, n->sent[at].tag, &msg);
}

/* Opens a node on which job 1 has requested streaming. */
static node *
node_with_job(void)
{
    node *n = node_open();

    put(n, "1", "job=1\nuid=5\nrequest=stream\n", 0644);
    pass(n, 0);
    CHECK_INT(n->n_sent, 1);
    return n;
}

/* Removes the job's file and lets time pass until the job is removed. */
static void
forget_job(node *n)
{
    take_away(n, "1");
    pass(n, MRD_SEC);
    pass(n, 62 * MRD_SEC);
}

TEST(a_job_is_recorded_from_its_file_to_the_files_end)
{
    node *n = node_open();

    put(n, "4711", "job=4711\nuid=1000\nnodes=2\nrequest=recorder,keep=1min\nowner_key=ab\n", 0644);
    pass(n, 0);
    REQUIRE(n->n_sent == 1);
    CHECK(!n->sent[0].ends && n->sent[0].nodes == 2 && n->sent[0].uid == 1000);
    CHECK_TEXT(n->sent[0].request, "recorder,keep=1min");
    CHECK_TEXT(n->sent[0].owner, "ab");
    CHECK(strstr(n->sent[0].identity, "job=4711") != NULL);
    /* request= is for the agent and is not part of the job's identity */
    CHECK(strstr(n->sent[0].identity, "request") == NULL);
    CHECK(strstr(n->sent[0].identity, "owner_key") == NULL);
    reply(n, 0, MRD_OK, 9, 0);
    CHECK_INT(n->went, 9);
    CHECK(n->from_ns < n->now && n->from_ns > n->now - 20 * MRD_SEC);
    pass(n, 10 * MRD_SEC);
    CHECK(n->n_sent == 1 && n->stopped == 0);

    take_away(n, "4711");
    pass(n, 200 * MRD_MS); /* the job has no end yet, because its last rings may not be found yet */
    pass(n, 500 * MRD_MS);
    CHECK_INT(n->stopped, 0);
    pass(n, 2 * MRD_SEC);
    CHECK(n->stopped == 9 && n->until_ns == n->now);
    REQUIRE(n->n_sent == 2);
    CHECK(n->sent[1].ends);
    reply(n, 1, MRD_OK, 0, 0);
    pass(n, 30 * MRD_SEC);
    CHECK(n->n_sent == 2 && mrd_jobs_count(n->jobs) == 1);
    /* the agent connected again. It may be another aggregator, so the end is reported again. */
    mrd_jobs_welcome(n->jobs);
    pass(n, MRD_SEC);
    REQUIRE(n->n_sent == 3);
    CHECK(n->sent[2].ends);
    reply(n, 2, MRD_OK, 0, 0);
    pass(n, 61 * MRD_SEC);
    CHECK_INT(mrd_jobs_count(n->jobs), 0);
    node_close(n);
}

/* The modification time of the directory has the resolution of a tick, and several files may arrive
 * in one. */
TEST(a_file_that_comes_in_the_tick_of_the_last_look_is_seen)
{
    node *n = node_with_job();
    struct timespec then[2];
    struct stat st;

    REQUIRE(stat(n->dir, &st) == 0);
    put(n, "2", "job=2\nuid=5\nrequest=stream\n", 0644);
    then[0] = then[1] = st.st_mtim;
    REQUIRE(utimensat(AT_FDCWD, n->dir, then, 0) == 0);
    pass(n, 200 * MRD_MS);
    CHECK_INT(n->n_sent, 2);
    node_close(n);
}

/* A process as the drain stores it, with space for the private part after its public part. */
typedef struct {
    mrd_drain_process pub;
    char rest[8192];
} fake_process;

static void
process(node *n, fake_process *p, bool gone)
{
    p->pub.gone = gone;
    mrd_jobs_process(n->jobs, &p->pub);
}

static fake_process *
process_of_job(const char *job)
{
    fake_process *p = calloc(1, sizeof(*p));

    MRD_ASSERT(p != NULL);
    mrd_ident_init(&p->pub.ident);
    (void) mrd_jobid_set(&p->pub.ident.jobid, MRD_STR("job"), mrd_str_of(job));
    (void) mrd_jobid_set(&p->pub.ident.jobid, MRD_STR("uid"), MRD_STR("5"));
    snprintf(p->pub.ident.job, sizeof(p->pub.ident.job), "%s", job);
    snprintf(p->pub.ident.session, sizeof(p->pub.ident.session), "stream");
    return p;
}

/* Imitates a pod whose container fails and restarts. The processes of the restarted container are a
 * new run of the job. The agent requests a new session for it, and repeats the request until the
 * first session has ended. */
TEST(processes_that_come_after_the_end_of_a_job_without_a_file_are_its_next_run)
{
    node *n = node_open();
    fake_process *first = process_of_job("7"), *second = process_of_job("7");

    n->now = mrd_local_now().ns;
    process(n, first, false);
    pass(n, 0);
    REQUIRE(n->n_sent == 1);
    reply(n, 0, MRD_OK, 3, 0);
    CHECK_INT(n->went, 3);
    process(n, first, true);
    pass(n, 6 * MRD_SEC);
    pass(n, MRD_SEC);
    CHECK_INT(n->stopped, 3);
    REQUIRE(n->n_sent == 2 && n->sent[1].ends);
    reply(n, 1, MRD_OK, 0, 0);

    process(n, second, false);
    pass(n, MRD_SEC);
    /* The agent waits before it sends the request of the job's next run, because the aggregator may
     * not have ended the session of the previous run yet. */
    CHECK_INT(n->n_sent, 2);
    pass(n, 8 * MRD_SEC);
    REQUIRE(n->n_sent == 3 && !n->sent[2].ends);
    reply(n, 2, MRD_STATE, 0, 0); /* the session of the previous run has still not ended */
    pass(n, 5 * MRD_SEC);
    REQUIRE(n->n_sent == 4 && !n->sent[3].ends);
    reply(n, 3, MRD_OK, 4, 0);
    CHECK_INT(n->went, 4);
    process(n, second, true);
    pass(n, 6 * MRD_SEC);
    pass(n, MRD_SEC);
    CHECK_INT(n->stopped, 4);
    node_close(n);
    free(first);
    free(second);
}

/* The prolog writes a file for every job. A request from the environment of a step belongs to the
 * same job. */
TEST(a_process_asks_for_a_job_whose_file_does_not)
{
    node *n = node_open();
    fake_process *off = process_of_job("7"), *on = process_of_job("7");

    snprintf(off->pub.ident.session, sizeof(off->pub.ident.session), "off,stream");
    put(n, "7", "job=7\nuid=5\npartition=main\nowner_key=ab\n", 0644);
    n->now = mrd_local_now().ns;
    pass(n, 0);
    REQUIRE(n->n_sent == 1);
    CHECK(strcmp(n->sent[0].request, "stream") != 0);
    reply(n, 0, MRD_CANCELLED, 0, 0); /* no user waits for it */
    process(n, off, false);
    pass(n, MRD_SEC);
    CHECK_INT(n->n_sent, 1);
    process(n, on, false);
    pass(n, 0);
    REQUIRE(n->n_sent == 2);
    CHECK_TEXT(n->sent[1].request, "stream");
    CHECK_TEXT(n->sent[1].owner, "ab");
    CHECK(strstr(n->sent[1].identity, "partition=main") != NULL);
    reply(n, 1, MRD_OK, 9, 0);
    CHECK_INT(n->went, 9);
    put(n, "7", "job=7\nuid=5\npartition=main\nowner_key=ab\nended=1\n", 0644);
    pass(n, 200 * MRD_MS);
    process(n, on, true);
    process(n, off, true);
    pass(n, 2 * MRD_SEC);
    CHECK_INT(n->stopped, 9);
    node_close(n);
    free(on);
    free(off);
}

TEST(a_file_that_says_ended_is_the_end_too)
{
    node *n = node_with_job();

    reply(n, 0, MRD_OK, 3, 0);
    put(n, "1", "job=1\nuid=5\nrequest=stream\nended=1\n", 0644);
    pass(n, 200 * MRD_MS);
    pass(n, 2 * MRD_SEC);
    CHECK_INT(n->stopped, 3);
    node_close(n);
}

TEST(an_unanswered_question_is_asked_again_and_no_sooner)
{
    node *n = node_open();

    put(n, "1", "job=1\nuid=5\nrequest=stream\n", 0644);
    n->link_down = true;
    pass(n, 0);
    CHECK_INT(n->n_sent, 0);
    n->link_down = false;
    pass(n, 240 * MRD_MS);
    CHECK_INT(n->n_sent, 0);
    pass(n, 20 * MRD_MS);
    CHECK_INT(n->n_sent, 1);
    pass(n, 10 * MRD_SEC); /* the request is not repeated while its answer may still come */
    CHECK_INT(n->n_sent, 1);
    /* the transport reports that the request was lost, so it is repeated */
    mrd_jobs_answer(n->jobs, n->sent[0].tag, NULL);
    pass(n, 0);
    CHECK_INT(n->n_sent, 2);
    CHECK(n->sent[1].tag == n->sent[0].tag);
    n->now = mrd_local_now().ns;
    /* the aggregator has not decided yet; the agent must ask again after 700 ms */
    reply(n, 1, MRD_OK, 0, 700);
    pass(n, 500 * MRD_MS);
    CHECK_INT(n->n_sent, 2);
    pass(n, 60 * MRD_SEC);
    CHECK_INT(n->n_sent, 3);
    node_close(n);
}

TEST(a_refusal_is_final_for_who_asked)
{
    static const struct {
        mrd_err err;
        bool old;
    } rows[] = { { MRD_CANCELLED, false }, { MRD_DENIED, false }, { MRD_INVALID, true } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        node *n = node_with_job();

        if (rows[i].old) {
            Mrd__Ack ack = MRD__ACK__INIT;
            mrd_msg msg = { .frame = { .type = MRD_FRAME_ACK }, .u.ack = &ack };

            ack.status = MRD__ACK_STATUS__ACK_REFUSED;
            ack.err = MRD_INVALID;
            mrd_jobs_answer(n->jobs, n->sent[0].tag, &msg);
        } else {
            reply(n, 0, rows[i].err, 0, 0);
        }
        for (int s = 0; s < 100; s++)
            pass(n, MRD_SEC);
        CHECK(n->n_sent == 1 && n->went == 0 && mrd_jobs_count(n->jobs) == 1);
        CHECK_INT(mrd_jobs_left(n->jobs), rows[i].err != MRD_CANCELLED);
        forget_job(n);
        CHECK(n->n_sent == 1 && n->stopped == 0 && mrd_jobs_count(n->jobs) == 0);
        CHECK(rmdir(n->dir) == 0);
        node_close(n);
    }
}

/* After an outage, sessions of finished jobs may begin and end at once. They must not cost a
 * running job its session. */
TEST(a_limit_is_asked_about_again_while_rings_wait)
{
    node *n = node_with_job();
    struct timespec old[2];
    char path[600];

    n->now = mrd_local_now().ns;
    reply(n, 0, MRD_LIMIT, 0, 0);
    pass(n, 500 * MRD_MS);
    CHECK_INT(n->n_sent, 1);
    pass(n, 10 * MRD_SEC);
    CHECK_INT(n->n_sent, 2);
    CHECK(n->sent[1].tag == n->sent[0].tag);
    reply(n, 1, MRD_OK, 9, 0);
    CHECK_INT(n->went, 9);
    /* A job is not requested again when its rings no longer wait. */
    put(n, "2", "job=2\nuid=5\nrequest=stream\n", 0644);
    snprintf(path, sizeof(path), "%s/2", n->dir);
    REQUIRE(clock_gettime(CLOCK_REALTIME, &old[0]) == 0);
    old[0].tv_sec -= MRD_WAIT_JOB_HOLD / MRD_SEC + 10;
    old[1] = old[0];
    REQUIRE(utimensat(AT_FDCWD, path, old, 0) == 0);
    pass(n, MRD_SEC);
    CHECK_INT(n->n_sent, 3);
    reply(n, 2, MRD_LIMIT, 0, 0);
    for (int s = 0; s < 100; s++)
        pass(n, MRD_SEC);
    CHECK_INT(n->n_sent, 3);
    node_close(n);
}

/* The agent has its maximum number of sessions. The request is repeated while the job's rings wait,
 * and the job gets its session when there is space. */
TEST(the_limit_of_the_node_itself_is_not_the_last_word)
{
    node *n = node_with_job();

    n->now = mrd_local_now().ns;
    n->go_fails = true;
    reply(n, 0, MRD_OK, 9, 0);
    CHECK_INT(n->went, 0);
    pass(n, 500 * MRD_MS);
    CHECK_INT(n->n_sent, 1);
    take_away(n, "1"); /* the job ends while its request waits */
    pass(n, 10 * MRD_SEC);
    REQUIRE(n->n_sent == 2 && !n->sent[1].ends);
    n->go_fails = false;
    reply(n, 1, MRD_OK, 9, 0);
    CHECK_INT(n->went, 9);
    pass(n, 20 * MRD_SEC);
    CHECK(n->stopped == 9 && n->n_sent == 3 && n->sent[2].ends);
    CHECK_INT(mrd_jobs_left(n->jobs), 0);
    node_close(n);
}

/* A session that the node could not begin must not wait for the end of the job, which would never
 * come. */
TEST(a_session_that_could_not_begin_is_ended)
{
    node *n = node_with_job();

    n->now = mrd_local_now().ns;
    n->go_fails = true;
    reply(n, 0, MRD_OK, 9, 0);
    mrd_jobs_answer(n->jobs, n->sent[0].tag, NULL);
    take_away(n, "1");
    n->link_down = true;
    pass(n, MRD_SEC);
    /* After this time the agent no longer keeps the job's rings unread for a session. */
    pass(n, 62 * MRD_SEC);
    CHECK_INT(mrd_jobs_left(n->jobs), 1);
    CHECK_INT(mrd_jobs_count(n->jobs), 1);
    n->link_down = false;
    pass(n, MRD_SEC);
    REQUIRE(n->n_sent == 2 && n->sent[1].ends);
    reply(n, 1, MRD_OK, 0, 0);
    pass(n, MRD_SEC);
    CHECK(n->n_sent == 2 && n->went == 0 && mrd_jobs_count(n->jobs) == 0);
    node_close(n);
}

/* Jobs begin and end while the agent has no connection to the aggregator. If the outage is shorter
 * than a minute, sessions for the jobs are still requested. Otherwise the jobs are reported and
 * counted (mrd_jobs_left). */
TEST(jobs_that_ended_while_the_aggregator_was_away)
{
    for (int64_t away = 20; away <= 70; away += 25) {
        node *n = node_open();

        n->link_down = true;
        put(n, "1", "job=1\nuid=5\nrequest=stream\n", 0644);
        pass(n, 0);
        take_away(n, "1");
        for (int64_t s = 0; s < away; s++)
            pass(n, MRD_SEC);
        n->link_down = false;
        pass(n, MRD_SEC);
        CHECK_INT(n->n_sent, away < 60);
        CHECK_INT(mrd_jobs_left(n->jobs), away > 60);
        if (n->n_sent == 1)
            reply(n, 0, MRD_OK, 9, 0);
        CHECK_INT(n->went, away < 60 ? 9 : 0);
        CHECK(rmdir(n->dir) == 0);
        node_close(n);
    }
}

/* A job without request= is registered, because a user may begin to wait for it at any time. */
TEST(a_job_that_does_not_ask_is_mentioned_every_few_seconds)
{
    node *n = node_open();

    put(n, "1", "job=1\nuid=5\n", 0644);
    pass(n, 0);
    REQUIRE(n->n_sent == 1);
    CHECK_TEXT(n->sent[0].request, MRD_JOB_UNASKED);
    reply(n, 0, MRD_CANCELLED, 0, 0);
    pass(n, 4 * MRD_SEC);
    CHECK_INT(n->n_sent, 1);
    pass(n, 3 * MRD_SEC);
    REQUIRE(n->n_sent == 2);
    /* a step of the job requests a session, so it is not lost */
    put(n, "1", "job=1\nuid=5\nrequest=stream\n", 0644);
    pass(n, 200 * MRD_MS);
    reply(n, 1, MRD_CANCELLED, 0, 0); /* the answer to the earlier request */
    pass(n, MRD_SEC);
    REQUIRE(n->n_sent >= 3);
    CHECK_TEXT(n->sent[n->n_sent - 1].request, "stream");
    node_close(n);
}

/* An agent that was starved of CPU time, or has just started, finds a file that was written
 * earlier. The rings of that job wait for the answer, too. */
TEST(rings_of_a_job_whose_file_is_found_late_wait_for_the_answer)
{
    static const int ages[] = { 0, 3, 30 };
    node *n = node_open();

    for (size_t i = 0; i < MRD_COUNT(ages); i++) {
        const char name[] = { (char) ('1' + i), '\0' };
        fake_process *p = process_of_job(name);
        struct timespec old[2];
        char path[600], text[64];

        p->pub.ident.session[0] = '\0';
        snprintf(text, sizeof(text), "job=%s\nuid=5\n", name);
        put(n, name, text, 0644);
        snprintf(path, sizeof(path), "%s/%s", n->dir, name);
        REQUIRE(clock_gettime(CLOCK_REALTIME, &old[0]) == 0);
        old[0].tv_sec -= ages[i];
        old[1] = old[0];
        REQUIRE(utimensat(AT_FDCWD, path, old, 0) == 0);
        process(n, p, false);
        CHECK(((proc *) (void *) p)->held);
        free(p);
    }
    node_close(n);
}

/* Events that the rings held belong to the session. Events that were read before the rings waited
 * belong to none, and the session reports that it is incomplete. */
TEST(a_session_is_whole_only_while_rings_waited)
{
    static const struct {
        const char *what;
        int64_t answer_after;
        mrd_local_ns whole;
    } rows[] = {
        { "at once", 20 * MRD_MS, { 0 } },
        { "as late as they wait", MRD_WAIT_JOB_HOLD - 2 * MRD_SEC, { 0 } },
        { "later", MRD_WAIT_JOB_HOLD + 2 * MRD_SEC, { INT64_MAX } },
    };

    node *n = node_open();

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const char name[] = { (char) ('1' + i), '\0' };
        fake_process *p = process_of_job(name);
        char text[64];

        snprintf(text, sizeof(text), "job=%s\nuid=5\nrequest=stream\n", name);
        put(n, name, text, 0644);
        n->now = mrd_local_now().ns;
        n->n_sent = 0;
        process(n, p, false);
        pass(n, 0);
        REQUIRE(n->n_sent == 1);
        pass(n, rows[i].answer_after);
        reply(n, n->n_sent - 1, MRD_OK, 9 + i, 0);
        CHECK_ROW(rows[i].what, n->went == 9 + i);
        CHECK_ROW(rows[i].what, n->times.whole.ns == rows[i].whole.ns);
        CHECK_ROW(rows[i].what, n->times.known.ns > n->times.start.ns);
        free(p);
    }
    node_close(n);
}

TEST(a_job_that_asks_late_is_whole_from_then_on)
{
    node *n = node_open();
    fake_process *p = process_of_job("1");
    int64_t asked;

    p->pub.ident.session[0] = '\0';
    put(n, "1", "job=1\nuid=5\n", 0644);
    n->now = mrd_local_now().ns;
    process(n, p, false);
    pass(n, 0);
    REQUIRE(n->n_sent == 1);
    reply(n, 0, MRD_CANCELLED, 0, 0); /* no user waits for it */
    put(n, "1", "job=1\nuid=5\nrequest=stream\n", 0644);
    asked = n->now + 2 * MRD_SEC;
    pass(n, 2 * MRD_SEC);
    REQUIRE(n->n_sent == 2);
    pass(n, 500 * MRD_MS);
    reply(n, 1, MRD_OK, 9, 0);
    CHECK(n->went == 9 && n->times.whole.ns == asked);
    free(p);
    node_close(n);
}

/* Two pods of one user in different namespaces. Their jobs have the same name. */
TEST(jobs_of_one_name_in_two_namespaces_are_two_jobs)
{
    node *n = node_open();
    fake_process *p[2] = { process_of_job("train"), process_of_job("train") };

    for (int i = 0; i < 2; i++) {
        CHECK(mrd_jobid_set(&p[i]->pub.ident.jobid, MRD_STR("namespace"),
                            i == 0 ? MRD_STR("a") : MRD_STR("b")));
        p[i]->pub.ident.pod_confirmed = i == 0;
        process(n, p[i], false);
        pass(n, 0);
        REQUIRE(n->n_sent == (size_t) i + 1);
        CHECK(strstr(n->sent[i].identity, i == 0 ? "namespace=a" : "namespace=b") != NULL);
        CHECK_INT(n->sent[i].witness,
                  i == 0 ? MRD__JOB_WITNESS__WITNESS_POD : MRD__JOB_WITNESS__WITNESS_PROCESS);
        reply(n, (size_t) i, MRD_OK, 3 + (uint64_t) i, 0);
        CHECK_INT(n->went, 3 + i);
    }
    n->now = mrd_local_now().ns;
    process(n, p[0], true); /* ends only one of the two jobs */
    pass(n, 6 * MRD_SEC);
    pass(n, MRD_SEC);
    CHECK_INT(n->stopped, 3);
    for (int i = 0; i < 2; i++)
        free(p[i]);
    node_close(n);
}

/* Components of a heterogeneous job on one node are one job. It ends when the last component
 * ends. */
TEST(components_of_a_job_are_one_job)
{
    node *n = node_open();

    put(n, "42", "job=42\ncomponent=42\nuid=5\nrequest=stream\n", 0644);
    put(n, "43", "job=42\ncomponent=43\nuid=5\nrequest=stream\n", 0644);
    pass(n, 0);
    REQUIRE(n->n_sent == 1);
    CHECK_INT(n->sent[0].witness, MRD__JOB_WITNESS__WITNESS_HOOK);
    CHECK(strstr(n->sent[0].identity, "component") == NULL);
    reply(n, 0, MRD_OK, 9, 0);
    put(n, "42", "job=42\ncomponent=42\nuid=5\nrequest=stream\nended=1\n", 0644);
    pass(n, MRD_SEC);
    pass(n, 20 * MRD_SEC);
    CHECK(n->stopped == 0 && n->n_sent == 1);
    take_away(n, "43");
    pass(n, MRD_SEC);
    pass(n, 2 * MRD_SEC);
    CHECK(n->stopped == 9 && n->n_sent == 2);
    node_close(n);
}

/* A process states its job before the job's file exists. Process and file are the same job, and the
 * aggregator receives the owner of the job. */
TEST(a_file_is_about_the_job_that_a_process_told_of)
{
    node *n = node_open();
    fake_process *p = process_of_job("7");

    n->now = mrd_local_now().ns;
    process(n, p, false);
    pass(n, 0);
    REQUIRE(n->n_sent == 1);
    reply(n, 0, MRD_OK, 9, 0);
    put(n, "7", "job=7\nuid=5\nowner_key=ab\n", 0644);
    pass(n, MRD_SEC);
    REQUIRE(n->n_sent == 2);
    CHECK_INT(n->sent[1].witness, MRD__JOB_WITNESS__WITNESS_HOOK);
    CHECK_TEXT(n->sent[1].owner, "ab");
    CHECK_TEXT(n->sent[1].request, "stream");
    reply(n, 1, MRD_OK, 9, 0);
    CHECK_INT(mrd_jobs_count(n->jobs), 1);
    process(n, p, true); /* the file determines when the job ends */
    pass(n, 60 * MRD_SEC);
    CHECK_INT(n->stopped, 0);
    take_away(n, "7");
    pass(n, MRD_SEC);
    pass(n, 2 * MRD_SEC);
    CHECK_INT(n->stopped, 9);
    free(p);
    node_close(n);
}

TEST(what_others_can_write_is_not_believed)
{
    node *n = node_open();

    put(n, "group", "job=1\nuid=5\nrequest=stream\n", 0664);
    put(n, "world", "job=2\nuid=5\nrequest=stream\n", 0646);
    put(n, "nobody", "job=3\nrequest=stream\n", 0644);  /* without a user */
    put(n, "nothing", "uid=5\nrequest=stream\n", 0644); /* the file does not name a job */
    put(n, "number", "job=4\nuid=x\nrequest=stream\n", 0644);
    pass(n, 0);
    CHECK(n->n_sent == 0 && mrd_jobs_count(n->jobs) == 0);
    REQUIRE(chmod(n->dir, 0777) == 0);
    put(n, "good", "job=5\nuid=5\nrequest=stream\n", 0644);
    pass(n, MRD_SEC);
    CHECK_INT(n->n_sent, 0);
    REQUIRE(chmod(n->dir, 0755) == 0);
    pass(n, 3 * MRD_SEC);
    CHECK_INT(n->n_sent, 1);
    node_close(n);
}

static void
put_jobs(const node *n, int uid, int count)
{
    for (int i = 0; i < count; i++) {
        char name[32], text[80];

        snprintf(name, sizeof(name), "%d-%d", uid, i);
        snprintf(text, sizeof(text), "job=%d-%d\nuid=%d\nrequest=stream\n", uid, i, uid);
        put(n, name, text, 0644);
    }
}

static size_t
jobs_of(const node *n, int64_t uid)
{
    size_t count = 0;

    for (size_t i = 0; i < n->n_sent; i++)
        count += n->sent[i].uid == uid;
    return count;
}

TEST(more_jobs_than_can_be_followed_cost_only_their_user)
{
    node *n = node_open();

    put_jobs(n, 5, MRD_JOBS_MAX + 9);
    pass(n, 0);
    CHECK(mrd_jobs_count(n->jobs) == MRD_JOBS_MAX / 2 && n->n_sent == MRD_JOBS_MAX / 2);
    put_jobs(n, 6, 1);
    pass(n, 3 * MRD_SEC);
    CHECK_INT(jobs_of(n, 6), 1);
    for (int uid = 7; uid < 7 + 2 * MRD_JOBS_MAX; uid++)
        put_jobs(n, uid, 1);
    n->n_sent = 0;
    pass(n, 3 * MRD_SEC);
    CHECK_INT(mrd_jobs_count(n->jobs), MRD_JOBS_MAX);
    for (size_t a = 0; a < n->n_sent; a++)
        for (size_t b = a + 1; b < n->n_sent; b++)
            CHECK(n->sent[a].tag != n->sent[b].tag);
    node_close(n);
}

/* An answer that arrives after the removal of its job is ignored, even if another job uses its
 * slot. */
TEST(a_late_answer_is_not_the_next_jobs)
{
    node *n = node_with_job();

    mrd_jobs_answer(n->jobs, n->sent[0].tag, NULL);
    n->link_down = true;
    forget_job(n);
    REQUIRE(mrd_jobs_count(n->jobs) == 0);
    n->link_down = false;
    put(n, "2", "job=2\nuid=5\nrequest=stream\n", 0644);
    pass(n, MRD_SEC);
    REQUIRE(n->n_sent == 2 && n->sent[1].tag != n->sent[0].tag);
    reply(n, 0, MRD_OK, 8, 0);
    CHECK_INT(n->went, 0);
    reply(n, 1, MRD_OK, 9, 0);
    CHECK_INT(n->went, 9);
    node_close(n);
}

TEST(one_that_did_not_ask_and_is_over_costs_no_turns)
{
    node *n = node_open();

    put(n, "1", "job=1\nuid=5\n", 0644);
    pass(n, 0);
    reply(n, 0, MRD_CANCELLED, 0, 0);
    take_away(n, "1");
    for (int i = 0; i < 120; i++)
        pass(n, 500 * MRD_MS);
    CHECK_INT(n->n_sent, 1);
    node_close(n);
}

/* Jobs, files, answers and states of the connection are random. After each step the time of the
 * next step must be in the future, because otherwise the agent's loop would spin. */
TEST(no_order_of_things_makes_the_loop_spin)
{
    static const char *const files[] = { "", "request=stream\n", "request=recorder\nended=1\n" };
    node *n = node_open();
    rng r = rng_new(rng_seed());
    bool there[4] = { false };

    for (int i = 0; i < 3000 && n->n_sent < SENT_MAX; i++) {
        int k = (int) (rng_next(&r) % 4);
        char name[8], text[80];

        snprintf(name, sizeof(name), "%d", k);
        snprintf(text, sizeof(text), "job=%d\nuid=5\n%s", k + 1,
                 files[rng_next(&r) % MRD_COUNT(files)]);
        switch (rng_next(&r) % 8) {
        case 0:
            put(n, name, text, 0644);
            there[k] = true;
            break;
        case 1:
            if (there[k])
                take_away(n, name);
            there[k] = false;
            break;
        case 2:
            n->link_down = !n->link_down;
            break;
        case 3:
            mrd_jobs_welcome(n->jobs);
            break;
        default:
            if (n->n_sent > 0)
                reply(n, rng_next(&r) % 4 == 0 ? rng_next(&r) % n->n_sent : n->n_sent - 1,
                      rng_next(&r) % 3 == 0 ? MRD_CANCELLED : MRD_OK, rng_next(&r) % 3 * 9, 500);
        }
        pass(n, (int64_t) (rng_next(&r) % (10 * MRD_SEC)));
    }
    CHECK(n->n_sent > 100);
    node_close(n);
}

TEST_MAIN()
