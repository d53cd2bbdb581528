/* Simulates sessions that are copied to a shared storage and removed when they are old. Storage and
 * exporter are models, because the decisions of the aggregator's core are tested. Each merge
 * increments a number, by which the copied contents are recognised. */
#include <stdlib.h>

#include "tests/sim/cluster_int.h"

#define MIXED 0 /* the storage has parts of several merges, or is incomplete */

typedef struct {
    uint64_t content; /* as it began */
    bool fails;
} copy_job;

static bool
is_ours(const world *w, uint64_t incarnation)
{
    return incarnation == w->incarnation && w->up;
}

void
export_merging(world *w, uint64_t session)
{
    if (w->plan->exports)
        disk_make(w, session)->merging = true;
}

void
export_merged(world *w, uint64_t session)
{
    disk_session *d = disk_make(w, session);

    d->merging = false;
    d->content++;
}

static void
copied(world *w, uint64_t incarnation, uint64_t id, void *arg)
{
    copy_job job = *(copy_job *) arg;
    disk_session *d = disk_make(w, id);
    mrd_why why = { .err = MRD_IO, .text = "the target is not there" };

    free(arg);
    if (!is_ours(w, incarnation))
        return;
    if (d->removed)
        sim_fail(w, "a session was removed while it was copied");
    d->copying = false;
    d->copied = !job.fails && job.content == d->content ? job.content : MIXED;
    w->r->exports += !job.fails;
    mrd_core_exported(w->core, server_now(w), id, 3, 1000, job.fails ? &why : NULL);
    server_carry(w);
}

static void
begin_copy(world *w, uint64_t incarnation, uint64_t id, void *arg)
{
    copy_job *job = arg;
    disk_session *d = disk_make(w, id);

    if (!is_ours(w, incarnation)) {
        free(arg);
        return;
    }
    job->content = d->content;
    d->copied = MIXED;
    mrd_core_export_began(w->core, server_now(w), id);
    server_carry(w);
    if (w->plan->faults && sim_chance(w, 100)) {
        mrd_core_export_stalled(w->core, server_now(w), id, "/shared", 30 * MRD_SEC);
        server_carry(w);
    }
    sim_at(w, w->now + 50 * MRD_MS + (int64_t) sim_below(w, 6 * MRD_SEC), copied, incarnation, id,
           job);
}

void
export_start(world *w, const mrd_session *s)
{
    disk_session *d = disk_make(w, s->id);
    copy_job *job;

    if (!w->plan->exports || d->copying || d->removed || s->deleted || !s->closed || d->merging ||
        s->state != MRD_SESSION_COMPLETE) {
        sim_fail(w, "session %s is copied %s", s->text,
                 !w->plan->exports ? "without a target"
                 : d->copying      ? "twice at one time"
                 : d->merging      ? "while it is merged"
                                   : "that is not to be");
        return;
    }
    if ((job = calloc(1, sizeof(*job))) == NULL)
        abort();
    d->copying = true;
    job->fails = w->plan->faults && !w->healing && sim_chance(w, 400);
    sim_at(w, w->now + (int64_t) sim_below(w, 2 * MRD_SEC), begin_copy, w->incarnation, s->id, job);
}

/* Called when the aggregator's process is killed. A merge that was running may have finished
 * without a report, but a copy has not. */
void
export_crash(world *w)
{
    for (size_t i = 0; i < w->n_disk && w->plan->exports; i++) {
        disk_session *d = &w->disk[i];

        if (d->merging && sim_chance(w, 500))
            d->content++;
        d->merging = d->copying = false;
    }
}

void
export_removing(world *w, const mrd_session *s)
{
    const disk_session *d = disk_make(w, s->id);
    int64_t age = server_now(w).wall.ns - s->created.ns;

    if (d->copying)
        sim_fail(w, "session %s is removed while it is copied", s->text);
    /* sessions that failed to start are removed without a copy */
    if (d->deleted_by_people || s->state != MRD_SESSION_COMPLETE)
        return;
    w->r->retired++;
    if (w->plan->exports && d->copied != d->content)
        sim_fail(w, "session %s is removed and the shared storage does not have it", s->text);
    if (w->plan->retain_bytes == 0 && (w->plan->retain == 0 || age <= w->plan->retain))
        sim_fail(w, "session %s is removed after %lld s", s->text, (long long) (age / MRD_SEC));
}

/* Checks at the end of a run that all sessions were copied and old ones were removed, despite all
 * kills and failures. */
void
export_end(world *w)
{
    for (size_t i = 0; i < w->core->n_sessions; i++) {
        const mrd_session *s = w->core->sessions[i];
        const disk_session *d = disk_make(w, s->id);
        int64_t age = server_now(w).wall.ns - s->created.ns;

        if (s->deleted || s->state != MRD_SESSION_COMPLETE)
            continue;
        if (w->plan->exports && (s->copy.state != MRD_EXPORT_DONE || d->copied != d->content))
            sim_fail(w, "session %s: its export is %s, and the shared storage has %s", s->text,
                     mrd_export_state_text(s->copy.state),
                     d->copied == d->content ? "it"
                     : d->copied == MIXED    ? "a part of it"
                                             : "what it was before it was merged again");
        if (w->plan->retain > 0 && age > w->plan->retain + 60 * MRD_SEC)
            sim_fail(w, "session %s is there after %lld s", s->text, (long long) (age / MRD_SEC));
    }
}
