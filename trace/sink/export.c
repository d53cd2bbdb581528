#include "trace/sink/export.h"

#include <stdlib.h>

#include "base/obj.h"
#include "trace/sink/call_arrows.h"
#include "trace/sink/exec_pairs.h"

/* Number of events passed to each sink at once. So few that they are still in the cache for the
 * last sink. */
#define AT_ONCE 64
/* The export prefetches each event this many events ahead. Neighbours come from different streams,
 * so they are far apart in memory. */
#define AHEAD      4
#define LOOK_EVERY 0x10000 /* number of events between two checks whether the caller cancels */

/* An open sink of the export. */
typedef struct {
    const mrd_sink_ops *ops;
    void *state;
    mrd_sink_env env;
    bool open;
} export_sink;

/* All open sinks of the export. */
typedef struct {
    export_sink *v;
    size_t n;
    /* the sink that returned an error; NULL if none did */
    const export_sink *failed;
    mrd_why why; /* why `failed` could not write an event, if the sink states a reason */
    /* merges executions on two physical cores; NULL if the profile has none, or no sink wants them
     * merged */
    mrd_exec_pairs *pairs;
} export_sinks;

/* Passes an event on to the sinks that want executions on two physical cores merged. */
static mrd_err
export_joined(void *self, const mrd_event *ev)
{
    export_sinks *all = self;
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < all->n && err == MRD_OK; i++) {
        if (all->v[i].ops->each_half)
            continue;
        if ((err = all->v[i].ops->event(all->v[i].state, ev)) != MRD_OK)
            all->failed = &all->v[i];
    }
    return err;
}

static mrd_err
export_open(export_sink *sink, const mrd_sink_env *env, mrd_export_target *target, mrd_why *why)
{
    mrd_err err;

    sink->ops = target->ops;
    sink->env = *env;
    sink->env.out = target->out;
    sink->env.path = target->path;
    sink->env.dir = target->dir;
    sink->state = calloc(1, target->ops->state_size > 0 ? target->ops->state_size : 1);
    if (sink->state == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "output %s", target->ops->name);
    if ((err = sink->ops->open(sink->state, &sink->env, why)) == MRD_OK)
        sink->open = true;
    return err;
}

static mrd_step
export_read(mrd_source *source, const mrd_event *events[AT_ONCE], size_t *ret_n, mrd_why *why)
{
    if (source->many != NULL)
        return source->many(source, events, AT_ONCE, ret_n, why);
    *ret_n = 1;
    return source->next(source, &events[0], why);
}

static mrd_err
export_some(const export_sink *sink, const mrd_event *const *events, size_t n)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        const char *soon = (const char *) events[i + AHEAD < n ? i + AHEAD : n - 1];

        __builtin_prefetch(soon);
        __builtin_prefetch(soon + 64);
        err = sink->ops->event(sink->state, events[i]);
    }
    return err;
}

static mrd_err
export_read_ones(export_sinks *all, const mrd_event *const *events, size_t n)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < all->n && err == MRD_OK; i++) {
        if (all->pairs != NULL && !all->v[i].ops->each_half)
            continue;
        if ((err = export_some(&all->v[i], events, n)) != MRD_OK)
            all->failed = &all->v[i];
    }
    for (size_t i = 0; all->pairs != NULL && i < n && err == MRD_OK; i++)
        err = mrd_exec_pairs_add(all->pairs, events[i]);
    return err;
}

static mrd_err
export_failed(const export_sinks *all, mrd_err err, mrd_why *why)
{
    if (all->why.err != MRD_OK) {
        if (why != NULL)
            *why = all->why;
        return err;
    }
    return mrd_why_set(why, err, 0, "writing %s: %s",
                       all->failed == NULL ? "outputs" : all->failed->ops->name, mrd_err_text(err));
}

static mrd_err
export_events(mrd_source *source, export_sinks *all, bool (*progress)(void *self, uint64_t events),
              void *self, uint64_t *events, mrd_why *why)
{
    const mrd_event *some[AT_ONCE];
    uint64_t look = LOOK_EVERY;
    size_t got;
    mrd_step step;

    while ((step = export_read(source, some, &got, why)) == MRD_MORE) {
        mrd_err err = export_read_ones(all, some, got);

        if (err != MRD_OK)
            return export_failed(all, err, why);
        if ((*events += got) < look)
            continue;
        look += LOOK_EVERY;
        if (progress != NULL && !progress(self, *events))
            return mrd_why_set(why, MRD_CANCELLED, 0, "cancelled");
        /* flushes buffered data now and then, so that a full disk is found early */
        for (size_t i = 0; i < all->n; i++) {
            if (mrd_out_err(all->v[i].env.out) != MRD_OK)
                return mrd_out_err(all->v[i].env.out);
        }
    }
    if (step == MRD_BAD)
        return why->err == MRD_NOMEM ? MRD_NOMEM : MRD_IO;
    if (all->pairs != NULL) {
        mrd_err err = mrd_exec_pairs_finish(all->pairs);

        if (err != MRD_OK)
            return export_failed(all, err, why);
    }
    return MRD_OK;
}

/* Creates the merger of executions on two physical cores if at least one sink wants them merged. */
static mrd_err
export_pairs(export_sinks *all, const mrd_export_job *job, mrd_why *why)
{
    bool wanted = false;

    for (size_t i = 0; i < job->n_targets; i++)
        wanted = wanted || !job->targets[i].ops->each_half;
    if (wanted &&
        mrd_exec_pairs_new(job->catalog, job->profile, export_joined, all, &all->pairs) != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "outputs");
    return MRD_OK;
}

/* Closes the sinks with one file, or those with a folder. Closing gives the files of a folder their
 * final names, so folders come after all other outputs are complete. Returns the first failure. */
static mrd_err
export_close(const export_sinks *all, bool folders, mrd_err err, mrd_why *why)
{
    for (size_t i = 0; i < all->n && all->v != NULL; i++) {
        export_sink *sink = &all->v[i];

        if (sink->ops == NULL || sink->ops->folder != folders)
            continue;
        if (sink->open) {
            mrd_err closed = sink->ops->close(sink->state, err == MRD_OK ? why : NULL);

            err = err == MRD_OK ? closed : err;
        }
        free(sink->state);
        if (err == MRD_OK) {
            mrd_out_seal(sink->env.out);
            err = mrd_out_err(sink->env.out);
        }
    }
    return err;
}

mrd_err
mrd_export_run(mrd_source *source, const mrd_export_job *job, mrd_export_result *ret_result,
               mrd_why *why)
{
    const mrd_filter *filter = job->filter;
    mrd_sink_env env = { .catalog = job->catalog,
                         .profile = job->profile,
                         .first = job->first,
                         .last = filter == NULL ? job->last : mrd_ev_min(filter->end, job->last),
                         .options = job->options };
    mrd_export_result result = { .first = job->first, .last = job->last };
    mrd_export_target *targets = job->targets;
    size_t n_targets = job->n_targets;
    export_sink *sinks = calloc(n_targets + 1, sizeof(*sinks));
    export_sinks all = { .v = sinks, .n = n_targets };
    mrd_source *wanted = source;
    uint64_t passed = 0, points = 0;
    mrd_err err = MRD_OK;

    env.why = &all.why;
    if (sinks == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "outputs");
    if (err == MRD_OK && filter != NULL && !mrd_filter_is_all(filter)) {
        err = mrd_filter_open(source, filter, job->catalog, &passed, &result.held, &wanted, why);
        if (err != MRD_OK)
            wanted = NULL; /* mrd_filter_open owns the source also after a failure */
    }
    if (err == MRD_OK && job->options->show_flows) {
        err = mrd_call_arrows_open(wanted, job->catalog, job->profile, &points, &wanted, why);
        if (err != MRD_OK)
            wanted = NULL;
    }
    if (err == MRD_OK) /* this adds names to the catalog, and the sinks need a complete catalog */
        err = export_pairs(&all, job, why);
    for (size_t i = 0; i < n_targets && err == MRD_OK; i++)
        err = export_open(&sinks[i], &env, &targets[i], why);
    if (err == MRD_OK)
        err = export_events(wanted, &all, job->progress, job->self, &result.events, why);
    result.events -= points;
    result.arrows = points;
    if (wanted != NULL)
        wanted->close(wanted);
    err = export_close(&all, false, err, why);
    err = export_close(&all, true, err, why);
    mrd_exec_pairs_free(all.pairs);
    /* After a failure, all outputs are discarded. mrd_out_commit also discards an output that has
     * failed, and it returns that output's error. */
    for (size_t i = 0; i < n_targets; i++) {
        if (err == MRD_OK || mrd_out_err(targets[i].out) != MRD_OK)
            err = mrd_out_commit(targets[i].out, why);
        else
            mrd_out_abort(targets[i].out);
    }
    free(sinks);
    if (err == MRD_OK)
        *ret_result = result;
    return err;
}
