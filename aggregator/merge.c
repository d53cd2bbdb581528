#include "aggregator/merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/obj.h"
#include "trace/sink/sinks.h"

/* One merge of a whole session. Owned by its session; state under the hub's lock. */
struct merge_job {
    job_state state;
    uint64_t session;
    merge_input *input;
    uint64_t events;
    bool cancel;
    mrd_why why;
};

struct merger {
    hub *h;
    pthread_t thread;
    bool closing; /* under h->lock */
    hub_session *running_of;
};

merge_input *
merge_snapshot(const hub *h, const hub_session *s)
{
    merge_input *in = calloc(1, sizeof(*in));

    if (in == NULL)
        return NULL;
    in->dir = hub_path(h, s, ".");
    in->nodes = calloc(s->n_parts + 1, sizeof(*in->nodes));
    in->damage = calloc(s->n_parts + 1, sizeof(*in->damage));
    in->artifacts = calloc(s->n_artifacts + 1, sizeof(*in->artifacts));
    if (in->dir == NULL || in->nodes == NULL || in->damage == NULL || in->artifacts == NULL) {
        merge_input_free(in);
        return NULL;
    }
    in->violations = session_violations(s);
    in->reference_ns = h->session_offset_ns;
    in->one_life = strcmp(s->timeline, h->timeline) == 0;
    hub_copy(in->id, sizeof(in->id), s->text);
    hub_copy(in->name, sizeof(in->name), s->name);
    for (size_t i = 0; i < s->n_parts; i++) {
        const hub_part *p = s->parts[i];
        merge_node *n = &in->nodes[in->n_nodes++];

        hub_copy(n->instance_id, sizeof(n->instance_id), p->instance_id);
        hub_copy(n->sentence, sizeof(n->sentence), p->sentence);
        n->local_ns = p->local_ns;
        n->wall_ns = p->wall_ns;
        n->same_clock = h->same_clock && !p->simulated && strcmp(p->boot_id, h->boot_id) == 0;
        n->dropped = hub_dropped(&p->counters) - hub_unwanted(&p->counters);
        n->events = p->events;
        n->frames = part_frames(p);
        in->events += p->events;
        in->simulated = in->simulated || p->simulated;
    }
    if (s->n_artifacts > 0)
        memcpy(in->artifacts, s->artifacts, s->n_artifacts * sizeof(*in->artifacts));
    in->n_artifacts = s->n_artifacts;
    return in;
}

void
merge_input_free(merge_input *in)
{
    if (in == NULL)
        return;
    free(in->dir);
    free(in->nodes);
    free(in->damage);
    free(in->artifacts);
    free(in);
}

void
merge_damage_take(hub *h, const merge_input *in, uint64_t session, bool whole)
{
    hub_session *s = hub_session_by_id(h, session);

    for (size_t i = 0; s != NULL && i < in->n_nodes; i++) {
        hub_part *p = hub_part_of(s, in->nodes[i].instance_id);

        if (p != NULL)
            part_damaged(s, p, &in->damage[i], whole);
    }
}

/* ---- Jobs ---- */

mrd_err
merger_start(hub *h, hub_session *s, mrd_why *why)
{
    merge_job *job;

    if (s->job != NULL && (s->job->state == JOB_WAITING || s->job->state == JOB_RUNNING))
        return mrd_why_set(why, MRD_BUSY, 0, "session %s is being merged already", s->text);
    if ((job = calloc(1, sizeof(*job))) == NULL || (job->input = merge_snapshot(h, s)) == NULL) {
        free(job);
        return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    }
    job->session = s->id;
    merger_drop(s);
    s->job = job;
    pthread_cond_broadcast(&h->changed);
    return MRD_OK;
}

void
merger_cancel(hub_session *s)
{
    if (s->job != NULL)
        __atomic_store_n(&s->job->cancel, true, __ATOMIC_RELAXED);
}

bool
merger_status(const hub_session *s, job_status *ret_status)
{
    if (s->job == NULL)
        return false;
    *ret_status = (job_status){ .state = s->job->state,
                                .events = __atomic_load_n(&s->job->events, __ATOMIC_RELAXED),
                                .total = s->job->input->events };
    if (s->job->state == JOB_FAILED)
        ret_status->why = s->job->why;
    return true;
}

void
merger_drop(hub_session *s)
{
    if (s->job == NULL)
        return;
    merge_input_free(s->job->input);
    free(s->job);
    s->job = NULL;
}

/* No lock: the job stays while it runs, because its session does. */
static bool
on_progress(void *self, uint64_t events)
{
    merge_job *job = self;

    __atomic_store_n(&job->events, events, __ATOMIC_RELAXED);
    return !__atomic_load_n(&job->cancel, __ATOMIC_RELAXED);
}

/* The standard outputs of a system profile. */
static mrd_err
open_targets(const merge_input *in, mrd_export_target *targets, size_t max, size_t *ret_n,
             mrd_why *why)
{
    const mrd_sink_ops *const *sinks;
    mrd_err err = MRD_OK;
    size_t n = 0, n_sinks;

    sinks = mrd_sinks(&n_sinks);
    for (size_t i = 0; i < n_sinks && n < max && err == MRD_OK; i++) {
        const mrd_sink_ops *ops = sinks[i];
        char *path = NULL;

        if (!ops->standard)
            continue;
        targets[n].ops = ops;
        if (asprintf(&path, "%s/profile/%s%s", in->dir, ops->stem, ops->suffix) < 0)
            err = mrd_why_set(why, MRD_NOMEM, 0, "profile");
        else
            err = mrd_out_file(path, &targets[n].out, why);
        free(path);
        n += err == MRD_OK;
    }
    if (err != MRD_OK) {
        for (size_t i = 0; i < n; i++)
            mrd_out_abort(targets[i].out);
        return err;
    }
    *ret_n = n;
    return MRD_OK;
}

/* profile/SHA256SUMS, as sha256sum writes it: what a client can check its download against. */
static mrd_err
write_sums(const merge_input *in, const mrd_export_target *targets, size_t n, mrd_why *why)
{
    mrd_buf text = { 0 }, path = { 0 };
    char hex[MRD_SHA256_HEX];
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        mrd_buf_reset(&path);
        mrd_buf_fmt(&path, "%s/profile/%s%s", in->dir, targets[i].ops->stem,
                    targets[i].ops->suffix);
        err = mrd_sha256_file(mrd_buf_cstr(&path), hex, NULL, why);
        mrd_buf_fmt(&text, "%s  %s%s\n", hex, targets[i].ops->stem, targets[i].ops->suffix);
    }
    mrd_buf_reset(&path);
    mrd_buf_fmt(&path, "%s/profile/SHA256SUMS", in->dir);
    if (err == MRD_OK && (path.err != MRD_OK || text.err != MRD_OK))
        err = MRD_NOMEM;
    if (err == MRD_OK)
        err = mrd_write_file(mrd_buf_cstr(&path), (mrd_bytes){ text.p, text.len }, 0644, why);
    mrd_buf_fini(&path);
    mrd_buf_fini(&text);
    return err;
}

/* Publishes what was checked; a contradiction marks the session. */
static void
take_verdict(hub *h, const merge_job *job, const merge_verdict *v)
{
    hub_session *s = hub_session_by_id(h, job->session);

    h->stats.clock_held_out += v->held_out;
    h->stats.clock_held_out_violations += v->held_out_violations;
    h->stats.clock_absolute += v->absolute;
    h->stats.clock_absolute_violations += v->absolute_violations;
    h->stats.clock_collectives += v->collectives.collectives;
    h->stats.clock_collective_violations += v->collectives.violations;
    if (s != NULL)
        s->verdict = *v;
    if (verdict_violations(v) > 0)
        mrd_log(MRD_LOG_WARN, "AGG-CLOCK-VIOLATION",
                "A session's clocks contradict their bounds: id=%s held_out=%llu absolute=%llu "
                "collectives=%zu ties=%zu",
                job->input->id, (unsigned long long) v->held_out_violations,
                (unsigned long long) v->absolute_violations, v->collectives.violations,
                mrd_timeline_violations(&v->timeline));
}

/* The lock is given up while it works. */
static void
job_run(hub *h, merge_job *job)
{
    mrd_export_target targets[8];
    mrd_export_result result = { 0 };
    merge_verdict verdict = { 0 };
    mrd_why why = { 0 };
    size_t n = 0;
    mrd_err err;

    job->state = JOB_RUNNING;
    pthread_mutex_unlock(&h->lock);
    err = open_targets(job->input, targets, MRD_COUNT(targets), &n, &why);
    if (err == MRD_OK)
        err = merge_run(job->input, NULL, MERGE_ALIGNED, targets, n, on_progress, job, &result,
                        &verdict, &why);
    if (err == MRD_OK)
        err = write_sums(job->input, targets, n, &why);
    pthread_mutex_lock(&h->lock);
    merge_damage_take(h, job->input, job->session, err == MRD_OK);
    if (err == MRD_OK)
        take_verdict(h, job, &verdict);
    job->why = why;
    job->why.err = err;
    job->state = err == MRD_OK ? JOB_DONE : err == MRD_CANCELLED ? JOB_CANCELLED : JOB_FAILED;
    if (err == MRD_OK)
        job->events = result.events;
    else
        mrd_log(MRD_LOG_WARN, "AGG-MERGE", "Session not merged: id=%s reason=%s", job->input->id,
                why.text);
    pthread_cond_broadcast(&h->changed);
}

static void *
merger_run(void *arg)
{
    merger *m = arg;
    hub *h = m->h;

    pthread_mutex_lock(&h->lock);
    while (!m->closing) {
        hub_session *next = NULL;

        for (size_t i = 0; i < h->n_sessions && next == NULL; i++) {
            hub_session *s = h->sessions[i];

            if (s->job != NULL && s->job->state == JOB_WAITING)
                next = s;
        }
        if (next == NULL) {
            pthread_cond_wait(&h->changed, &h->lock);
            continue;
        }
        m->running_of = next;
        if (next->deleted || __atomic_load_n(&next->job->cancel, __ATOMIC_RELAXED))
            next->job->state = JOB_CANCELLED;
        else
            job_run(h, next->job);
        next->dirty = true;
        keep_measure(h, next);
        m->running_of = NULL;
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

mrd_err
merger_open(hub *h, merger **ret_merger, mrd_why *why)
{
    merger *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "merger");
    m->h = h;
    if ((errno = pthread_create(&m->thread, NULL, merger_run, m)) != 0) {
        mrd_why_set(why, MRD_IO, errno, "cannot start the merge thread");
        free(m);
        return MRD_IO;
    }
    *ret_merger = m;
    return MRD_OK;
}

void
merger_close(merger *m)
{
    if (m == NULL)
        return;
    pthread_mutex_lock(&m->h->lock);
    m->closing = true;
    if (m->running_of != NULL)
        merger_cancel(m->running_of);
    pthread_cond_broadcast(&m->h->changed);
    pthread_mutex_unlock(&m->h->lock);
    pthread_join(m->thread, NULL);
    free(m);
}
