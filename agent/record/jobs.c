#include "agent/record/jobs.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/record/job_files.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/num.h"
#include "base/obj.h"

/* A job's session starts this long before the begin of the job, because the job's processes may
 * have started before the agent found it. */
#define MARGIN  (5 * MRD_SEC)
#define TAG_END (1ull << 40)

_Static_assert(MRD_JOBS_MAX <= 256 && (MRD_JOBS_MAX & (MRD_JOBS_MAX - 1)) == 0,
               "of a tag's first byte");

typedef enum { JOB_FREE, JOB_ASKING, JOB_RECORDED, JOB_LEFT } job_state;

typedef struct {
    job_state state;
    mrd_jobid id;
    mrd_job_key key;
    Mrd__JobWitness witness;
    /* number of the job's files, without the files that say that the job has ended */
    unsigned n_files;
    char request[256], owner_key[65];
    uint64_t session;
    /* RAW times of the job's begin and end. `ended` is 0 while the job runs. */
    mrd_local_ns begin, ended;
    /* when the agent found the job, which may be later than `begin` */
    mrd_local_ns known;
    /* `ask_at` is the time to send the next request to the aggregator. `idle_since` is when the
     * job's last process ended; 0 while a process runs. */
    mrd_local_ns ask_at, idle_since;
    mrd_local_ns told; /* when the job's end was reported to the aggregator; 0 means not yet */
    unsigned processes, serial;
    bool in_flight, end_reported, holds;
    /* Since which RAW time the job's rings are left unread. 0 means since the rings were created.
     * INT64_MAX means that the rings were read. */
    mrd_local_ns whole;
    bool said_wait;
    /* the job's request changed while its previous request was in flight, so it must be sent
     * again */
    bool again;
    /* the aggregator must be sent the end of a session that this node could not begin */
    bool owes_end;
} job;

struct mrd_jobs {
    mrd_jobs_options o;
    job jobs[MRD_JOBS_MAX];
    mrd_job_files *files;
    unsigned serial;
    bool said_full;
    const mrd_drain_process *arriving; /* a new process that is not counted in its job yet */
    /* number of jobs up to now that requested recording and were not recorded */
    uint64_t left;
};

size_t
mrd_jobs_count(const mrd_jobs *jobs)
{
    size_t n = 0;

    for (size_t i = 0; i < MRD_JOBS_MAX; i++)
        n += jobs->jobs[i].state != JOB_FREE;
    return n;
}

uint64_t
mrd_jobs_left(const mrd_jobs *jobs)
{
    return jobs->left;
}

/* ---- The job of a process ---- */

static mrd_str
job_of(const job *b)
{
    return mrd_jobid_get(&b->id, "job");
}

int64_t
mrd_jobs_uid(const mrd_ident *ident)
{
    int64_t uid;

    return mrd_num_i64(mrd_jobid_get(&ident->jobid, "uid"), &uid) == MRD_OK ? uid : -1;
}

static bool
is_of(const job *b, const mrd_drain_process *process)
{
    mrd_job_key key;

    mrd_job_key_of(&process->ident.jobid, mrd_jobs_uid(&process->ident), &key);
    return b->state != JOB_FREE && mrd_job_key_equal(&b->key, &key);
}

static job *
find_of(mrd_jobs *jobs, const mrd_drain_process *process)
{
    job *last = NULL;

    /* also search the ended jobs, because the agent may find a process's rings after its job
     * ended */
    for (size_t i = 0; i < MRD_JOBS_MAX; i++) {
        job *b = &jobs->jobs[i];

        if (is_of(b, process) && (last == NULL || mrd_local_after(b->begin, last->begin)))
            last = b;
    }
    return last;
}

static bool
has_share(const mrd_jobs *jobs, int64_t uid)
{
    size_t used = 0, own = 0;

    for (size_t i = 0; i < MRD_JOBS_MAX; i++) {
        used += jobs->jobs[i].state != JOB_FREE;
        own += jobs->jobs[i].state != JOB_FREE && jobs->jobs[i].key.uid == uid;
    }
    return own < MRD_JOBS_MAX - used;
}

static job *
add(mrd_jobs *jobs, const mrd_jobid *id, const mrd_job_key *key, const char *request,
    Mrd__JobWitness witness, mrd_local_ns begin, mrd_local_ns now)
{
    for (size_t i = 0; i < MRD_JOBS_MAX && has_share(jobs, key->uid); i++) {
        job *b = &jobs->jobs[i];
        char text[300];

        if (b->state != JOB_FREE)
            continue;
        *b = (job){ .state = JOB_ASKING,
                    .id = *id,
                    .key = *key,
                    .witness = witness,
                    .begin = begin,
                    .known = now,
                    .serial = ++jobs->serial & 0xffff };
        snprintf(b->request, sizeof(b->request), "%.255s", request);
        mrd_jobid_say(id, text, sizeof(text));
        mrd_log(strcmp(request, MRD_JOB_UNASKED) == 0 ? MRD_LOG_DEBUG : MRD_LOG_INFO, "AGT-JOB",
                "A job asks to be recorded: %s, request=%s", text, b->request);
        jobs->said_full = false;
        return b;
    }
    if (!jobs->said_full)
        mrd_log(
            MRD_LOG_WARN, "AGT-JOBS-MAX",
            "There are more jobs than the agent can follow, or one user may have beside others; "
            "one is not recorded: limit=%d user=%lld",
            MRD_JOBS_MAX, (long long) key->uid);
    jobs->said_full = true;
    return NULL;
}

static bool
is_unasked(const job *b)
{
    return strcmp(b->request, MRD_JOB_UNASKED) == 0;
}

static bool
may_hold(const job *b, mrd_local_ns now)
{
    mrd_local_ns until = is_unasked(b) ? mrd_local_add(b->known, MRD_WAIT_JOB_UNASKED_HOLD)
                                       : mrd_local_add(b->begin, MRD_WAIT_JOB_HOLD);

    return b->state == JOB_ASKING && mrd_local_before(now, until);
}

/* ---- Rings that are not read until the aggregator answers ---- */

typedef struct {
    const job *of;
    mrd_drain *drain;
    bool hold;
} holding;

static void
hold_one(void *self, mrd_drain_process *process)
{
    const holding *h = self;

    if (is_of(h->of, process))
        mrd_drain_hold_process(h->drain, process, h->hold);
}

static void
hold(mrd_jobs *jobs, job *b, bool on, mrd_local_ns now)
{
    holding h = { b, jobs->o.drain, on };

    if (b->holds != on)
        mrd_drain_each(jobs->o.drain, hold_one, &h);
    b->holds = on;
    if (!on && b->processes > 0)
        b->whole = (mrd_local_ns){ INT64_MAX };
    else if (on && b->whole.ns == INT64_MAX)
        b->whole = now;
}

/* ---- Processes ---- */

static bool
asks(const mrd_drain_process *process)
{
    const char *session = process->ident.session;

    return session[0] != '\0' && strcmp(session, "off") != 0 && strncmp(session, "off,", 4) != 0;
}

/* Stores the request of a job that made no request before, so that the next step sends it to the
 * aggregator. */
static void
asks_after_all(mrd_jobs *jobs, job *b, mrd_str request, mrd_local_ns now)
{
    snprintf(b->request, sizeof(b->request), MRD_STR_FMT, MRD_STR_ARG(request));
    if (b->state == JOB_LEFT)
        b->state = JOB_ASKING;
    b->again = b->in_flight;
    b->begin = now;
    b->ask_at = (mrd_local_ns){ 0 };
    hold(jobs, b, true, now);
}

static void
attach(mrd_jobs *jobs, job *b, mrd_drain_process *process, mrd_local_ns now)
{
    if (is_unasked(b) &&
        /* The scheduler's hook did not see this request, because a later step of the job can set
         * MERIDIAN_SESSION in its own environment. */
        asks(process))
        asks_after_all(jobs, b, mrd_str_of(process->ident.session), now);
    b->processes++;
    b->idle_since = (mrd_local_ns){ 0 };
    if (may_hold(b, now)) {
        b->holds = true;
        mrd_drain_hold_process(jobs->o.drain, process, true);
    } else {
        b->whole = (mrd_local_ns){ INT64_MAX };
    }
}

static void
detach(job *b, mrd_local_ns now)
{
    if (b->processes > 0 && --b->processes == 0)
        b->idle_since = now;
}

void
mrd_jobs_correct(mrd_jobs *jobs, mrd_ident *ident)
{
    mrd_job_files_correct(jobs->files, ident);
}

/* Corrects the job of a process that was found before the job's file was read. */
static void
correct_process(void *self, mrd_drain_process *process)
{
    mrd_jobs *jobs = self;
    job *before = find_of(jobs, process), *after;

    mrd_jobs_correct(jobs, &process->ident);
    after = find_of(jobs, process);
    if (process == jobs->arriving || before == after)
        return;
    if (before != NULL)
        detach(before, mrd_local_now());
    if (after != NULL)
        attach(jobs, after, process, mrd_local_now());
}

/* ---- Job files ---- */

static void
over(job *b, mrd_local_ns now)
{
    if (b->ended.ns == 0)
        b->ended = now;
}

/* Takes the job id from the file of the scheduler's hook. Before this file, only a process had
 * named the job. */
static void
adopt(job *b, const mrd_jobid *id)
{
    b->witness = MRD__JOB_WITNESS__WITNESS_HOOK;
    b->id = *id;
    /* The request states who named the job. Send it again, so that the aggregator knows that the
     * scheduler's hook confirms the job id that a process had stated. */
    b->state = JOB_ASKING;
    b->again = b->in_flight;
    b->ask_at = (mrd_local_ns){ 0 };
}

/* Finds or adds the job that a file describes. All components of a heterogeneous job belong to one
 * job. Returns NULL if there is no free slot. */
static job *
job_of_file(mrd_jobs *jobs, const mrd_job_told *told, mrd_local_ns now)
{
    mrd_local_ns written = mrd_drain_to_raw(jobs->o.drain, told->written);

    for (size_t i = 0; i < MRD_JOBS_MAX; i++) {
        job *b = &jobs->jobs[i];

        if (b->state == JOB_FREE || b->ended.ns != 0 || !mrd_job_key_equal(&b->key, &told->key))
            continue;
        if (b->witness != MRD__JOB_WITNESS__WITNESS_HOOK)
            adopt(b, &told->id);
        return b;
    }
    if (told->ended && mrd_local_diff(now, written) > MRD_WAIT_JOB_KEPT)
        return NULL;
    return add(jobs, &told->id, &told->key, told->asks ? told->request : MRD_JOB_UNASKED,
               MRD__JOB_WITNESS__WITNESS_HOOK, mrd_local_min(written, now), now);
}

static void *
begin_file(void *self, const mrd_job_told *told, mrd_local_ns now)
{
    mrd_jobs *jobs = self;
    job *b = job_of_file(jobs, told, now);

    if (b == NULL)
        return NULL;
    b->n_files++;
    if (b->owner_key[0] == '\0')
        snprintf(b->owner_key, sizeof(b->owner_key), "%s", told->owner_key);
    mrd_drain_each(jobs->o.drain, correct_process, jobs);
    return b;
}

static void
change_file(void *self, void *of, const mrd_job_told *told, mrd_local_ns now)
{
    if (is_unasked(of) && told->asks) /* a later step of the job makes a request */
        asks_after_all(self, of, mrd_str_of(told->request), now);
}

/* Handles a job file that was removed, or that states the end of the job. The job ends on this node
 * when all its files have ended. */
static void
end_file(void *self, void *of, mrd_local_ns now)
{
    job *b = of;

    (void) self;
    if (--b->n_files == 0)
        over(b, now);
}

/* ---- Runs of a job ---- */

/* Returns when the end of the job's earlier run `before` was reported to the aggregator, or `now`
 * if it was not reported yet. Returns 0 if there was no earlier run, or if that run had no session
 * to end. */
static mrd_local_ns
end_told(const job *before, mrd_local_ns now)
{
    mrd_local_ns never = { 0 };

    if (before == NULL)
        return never;
    if (before->told.ns != 0)
        return before->told;
    return before->state == JOB_LEFT ? never : now;
}

/* Adds a job that a process claims. `before` is an earlier run of the job without running
 * processes, NULL if there was none. While the session of the earlier run is ending, the aggregator
 * would add the new run to that session. So the request for the new run is sent MRD_WAIT_JOB_REJOIN
 * after the end of the earlier run was reported. */
static job *
add_by_process(mrd_jobs *jobs, const mrd_drain_process *process, job *before, mrd_local_ns now)
{
    mrd_local_ns told = end_told(before, now);
    mrd_job_key key;
    job *b;

    mrd_job_key_of(&process->ident.jobid, mrd_jobs_uid(&process->ident), &key);
    b = add(jobs, &process->ident.jobid, &key,
            process->ident.session[0] == '\0' ? MRD_JOB_UNASKED : process->ident.session,
            process->ident.pod_confirmed ? MRD__JOB_WITNESS__WITNESS_POD
                                         : MRD__JOB_WITNESS__WITNESS_PROCESS,
            now, now);
    if (b != NULL && told.ns != 0)
        b->ask_at = mrd_local_add(told, MRD_WAIT_JOB_REJOIN);
    return b;
}

void
mrd_jobs_process(mrd_jobs *jobs, mrd_drain_process *process)
{
    mrd_local_ns now = mrd_local_now();
    job *b = find_of(jobs, process);

    if (process->gone) {
        if (b != NULL)
            detach(b, now);
        return;
    }
    jobs->arriving = process;
    if ((b == NULL || b->ended.ns != 0) && mrd_jobid_get(&process->ident.jobid, "job").len > 0) {
        /* search again, because the file of the job or of its next run may have appeared just
         * now */
        mrd_job_files_step(jobs->files, now, true);
        b = find_of(jobs, process);
    }
    jobs->arriving = NULL;
    if ((b == NULL ||
         (b->ended.ns != 0 && !mrd_job_files_has(jobs->files, b) && b->processes == 0)) &&
        mrd_jobid_get(&process->ident.jobid, "job").len > 0)
        b = add_by_process(jobs, process, b, now);
    if (b != NULL)
        attach(jobs, b, process, now);
}

/* ---- Requesting a session from the aggregator ---- */

static void
ask(mrd_jobs *jobs, size_t at, bool ends, mrd_local_ns now)
{
    job *b = &jobs->jobs[at];
    mrd_frame f = { .type = MRD_FRAME_JOB, .agent = jobs->o.agent };
    Mrd__Job m = MRD__JOB__INIT;
    mrd_buf frame = { 0 };
    uint64_t nodes = 0;

    (void) mrd_num_u64(mrd_jobid_get(&b->id, "nodes"), &nodes);
    m.phase = ends ? MRD__JOB_PHASE__JOB_END : MRD__JOB_PHASE__JOB_BEGIN;
    m.identity = b->id.text;
    m.uid = b->key.uid;
    m.request = b->request;
    m.owner_key = b->owner_key;
    m.witness = b->witness;
    m.age_ns = (uint64_t) (mrd_local_after(now, b->begin) ? mrd_local_diff(now, b->begin) : 0);
    m.nodes = nodes > UINT32_MAX ? 0 : (uint32_t) nodes;
    b->ask_at = mrd_local_add(now, MRD_WAIT_JOB_ASK);
    if (mrd_msg_pack(&f, &m, &frame, NULL) == MRD_OK &&
        jobs->o.send(jobs->o.self, (uint64_t) b->serial << 8 | at | (ends ? TAG_END : 0),
                     (mrd_bytes){ frame.p, frame.len }) == MRD_OK)
        b->in_flight = true;
    mrd_buf_fini(&frame);
}

static void
leave(mrd_jobs *jobs, job *b, mrd_local_ns now, mrd_err err, const char *message)
{
    mrd_log(is_unasked(b)          ? MRD_LOG_DEBUG
            : err == MRD_CANCELLED ? MRD_LOG_INFO
                                   : MRD_LOG_WARN,
            "AGT-JOB-LEFT", "A job is not recorded: job=" MRD_STR_FMT " reason=%s",
            MRD_STR_ARG(job_of(b)), message);
    b->state = JOB_LEFT;
    jobs->left += !is_unasked(b) && err != MRD_CANCELLED;
    hold(jobs, b, false, now);
}

/* Sets the time of the next request, and logs once why the job has no session yet. */
static void
wait_more(job *b, mrd_local_ns now, const char *reason)
{
    b->ask_at = mrd_local_add(now, MRD_WAIT_JOB_LIMIT);
    if (!b->said_wait)
        mrd_log(MRD_LOG_WARN, "AGT-JOB-WAITS",
                "A job has no session yet, its rings wait: job=" MRD_STR_FMT " reason=%s",
                MRD_STR_ARG(job_of(b)), reason);
    b->said_wait = true;
}

static void
record(mrd_jobs *jobs, job *b, const Mrd__Control *control, mrd_local_ns now)
{
    mrd_why why = { 0 };
    mrd_job_times times = { mrd_local_sub(b->begin, MARGIN), b->known, b->whole };
    mrd_err err = jobs->o.go(jobs->o.self, control, &times, &why);

    b->owes_end = err != MRD_OK;
    b->end_reported = b->end_reported && !b->owes_end;
    /* LIMIT means that the node has its maximum number of sessions. Another session may end soon,
     * so the request is sent again. */
    if (err == MRD_LIMIT && may_hold(b, now)) {
        wait_more(b, now, why.text);
        return;
    }
    if (err != MRD_OK) {
        leave(jobs, b, now, err, why.text);
        return;
    }
    b->session = control->session;
    b->state = JOB_RECORDED;
    hold(jobs, b, false, now);
}

/* Returns true if a retry may succeed, because another session, or the session of an earlier run of
 * the job, may end soon. */
static bool
is_for_now(const Mrd__JobReply *reply)
{
    return reply->err == MRD_LIMIT || reply->err == MRD_STATE;
}

static void
on_reply(mrd_jobs *jobs, job *b, const Mrd__JobReply *reply, bool end)
{
    mrd_local_ns now = mrd_local_now();

    if (end) {
        b->end_reported = true;
        b->told = now;
    } else if (b->again && b->state == JOB_ASKING && reply->control == NULL) {
        b->again = false;
    } else if (b->state != JOB_ASKING) {
        /* Nothing to do: the aggregator's earlier answer already decided about the job. The request
         * was repeated after a reconnection. */
        ;
    } else if (is_for_now(reply) && may_hold(b, now) && !is_unasked(b)) {
        wait_more(b, now, reply->message);
    } else if (reply->err != MRD_OK) {
        leave(jobs, b, now, (mrd_err) reply->err, reply->message);
    } else if (reply->control != NULL && reply->control->session != 0) {
        record(jobs, b, reply->control, now);
    } else {
        b->ask_at = mrd_local_add(
            now, (reply->retry_after_ms > 1000 ? 1000 : reply->retry_after_ms) * MRD_MS);
    }
}

void
mrd_jobs_answer(mrd_jobs *jobs, uint64_t tag, const mrd_msg *msg)
{
    job *b = &jobs->jobs[tag & (MRD_JOBS_MAX - 1)];

    if (b->state == JOB_FREE || b->serial != (tag >> 8 & 0xffff))
        return;
    b->in_flight = false;
    if (msg == NULL)
        return; /* there was no answer; the request is sent again at its next time */
    if (msg->frame.type == MRD_FRAME_JOB_REPLY)
        on_reply(jobs, b, msg->u.job_reply, (tag & TAG_END) != 0);
    else if (msg->frame.type == MRD_FRAME_ACK &&
             msg->u.ack->status == MRD__ACK_STATUS__ACK_REFUSED && b->state == JOB_ASKING)
        leave(jobs, b, mrd_local_now(), (mrd_err) msg->u.ack->err,
              "this release of the aggregator has no sessions of jobs: update it");
}

void
mrd_jobs_welcome(mrd_jobs *jobs)
{
    for (size_t i = 0; i < MRD_JOBS_MAX; i++)
        jobs->jobs[i].end_reported = false;
}

/* ---- Opening and closing ---- */

mrd_err
mrd_jobs_open(const mrd_jobs_options *options, mrd_jobs **ret_jobs, mrd_why *why)
{
    mrd_jobs *jobs = calloc(1, sizeof(*jobs));
    mrd_job_files_options files = { .dir = options->dir,
                                    .begin = begin_file,
                                    .change = change_file,
                                    .end = end_file,
                                    .self = jobs };
    mrd_err err;

    if (jobs == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "jobs");
    jobs->o = *options;
    if ((err = mrd_job_files_open(&files, &jobs->files, why)) != MRD_OK) {
        free(jobs);
        return err;
    }
    *ret_jobs = jobs;
    return MRD_OK;
}

void
mrd_jobs_close(mrd_jobs *jobs)
{
    if (jobs != NULL)
        mrd_job_files_close(jobs->files);
    free(jobs);
}

/* ---- Turns ---- */

/* Returns true if the aggregator must be informed that the job's session ended on this node. */
static bool
tells_end(const job *b)
{
    return !b->end_reported && ((b->state == JOB_RECORDED && b->ended.ns != 0 && b->session == 0) ||
                                (b->state == JOB_LEFT && b->owes_end));
}

/* Removes a job that ended long ago. If the job still had no session, this is logged. */
static void
forget(mrd_jobs *jobs, job *b, mrd_local_ns now)
{
    if (b->state == JOB_ASKING)
        leave(jobs, b, now, MRD_TIMEOUT,
              "it ended, and for a minute the aggregator was not reached or had no session for it");
    if (!b->end_reported && (b->state == JOB_RECORDED || b->owes_end))
        return;
    hold(jobs, b, false, now);
    b->state = JOB_FREE;
}

static void
job_step(mrd_jobs *jobs, size_t at, mrd_local_ns now)
{
    job *b = &jobs->jobs[at];
    bool ended;

    if (b->witness != MRD__JOB_WITNESS__WITNESS_HOOK && b->processes == 0 &&
        b->idle_since.ns != 0 &&
        mrd_local_after(now, mrd_local_add(b->idle_since, MRD_WAIT_JOB_IDLE)))
        over(b, b->idle_since);
    ended = b->ended.ns != 0;
    if (b->holds && !may_hold(b, now))
        hold(jobs, b, false, now);
    if (b->state == JOB_LEFT && is_unasked(b) && !ended &&
        mrd_local_after(now, mrd_local_add(b->ask_at, MRD_WAIT_JOB_UNASKED_AGAIN))) {
        b->state = JOB_ASKING;
        b->ask_at = (mrd_local_ns){ 0 };
    }
    if (b->state == JOB_ASKING && !b->in_flight && !mrd_local_before(now, b->ask_at))
        ask(jobs, at, false, now);
    if (b->state == JOB_RECORDED && ended && b->session != 0 &&
        mrd_local_after(now, mrd_local_add(b->ended, (b->processes == 0 ? MRD_WAIT_JOB_END
                                                                        : MRD_WAIT_JOB_END_MAX)))) {
        jobs->o.stop(jobs->o.self, b->session,
                     /* Stop now and not at b->ended. The session then includes records that were
                      * written before the job's end and are not read yet. */
                     now);
        b->session = 0;
        b->ask_at = now;
    }
    if (tells_end(b) && !b->in_flight && !mrd_local_before(now, b->ask_at))
        ask(jobs, at, true, now);
    if (ended && !b->in_flight &&
        mrd_local_after(now, mrd_local_add(b->ended, MRD_WAIT_JOB_KEPT)) &&
        !mrd_job_files_has(jobs->files, b))
        forget(jobs, b, now);
}

void
mrd_jobs_step(mrd_jobs *jobs, mrd_local_ns now)
{
    mrd_job_files_step(jobs->files, now, false);
    for (size_t i = 0; i < MRD_JOBS_MAX; i++)
        if (jobs->jobs[i].state != JOB_FREE)
            job_step(jobs, i, now);
}

mrd_local_ns
mrd_jobs_next_ns(const mrd_jobs *jobs)
{
    mrd_local_ns next = mrd_job_files_next_ns(jobs->files);

    for (size_t i = 0; i < MRD_JOBS_MAX; i++) {
        const job *b = &jobs->jobs[i];
        bool asks = b->state == JOB_ASKING || tells_end(b);

        if (b->state == JOB_RECORDED && b->ended.ns != 0 && b->session != 0 && b->processes == 0 &&
            mrd_local_before(mrd_local_add(b->ended, MRD_WAIT_JOB_END), next))
            next = mrd_local_add(b->ended,
                                 /* a job with running processes needs no timer, because their end
                                  * wakes the loop */
                                 MRD_WAIT_JOB_END);

        if (asks && !b->in_flight && mrd_local_before(b->ask_at, next))
            next = b->ask_at;
        else if (b->state == JOB_LEFT && is_unasked(b) && b->ended.ns == 0 &&
                 mrd_local_before(mrd_local_add(b->ask_at, MRD_WAIT_JOB_UNASKED_AGAIN), next))
            next = mrd_local_add(b->ask_at, MRD_WAIT_JOB_UNASKED_AGAIN);
    }
    return next;
}
