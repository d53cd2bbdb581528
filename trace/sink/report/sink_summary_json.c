/*
 * trace/sink/report/sink_summary_json.c - writes summary.json: the numbers of
 * trace/analysis/summary.h, after a block with the keys of the vendor's summary
 * (docs/reference/json.md)
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/loss_cause.h"
#include "trace/analysis/summary.h"
#include "trace/json/catalog_json.h"
#include "trace/json/spool.h"
#include "trace/sink/report/scope_memory_out.h"

typedef struct {
    const mrd_sink_env *env;
    mrd_summary *sum;
    mrd_scope_memory *scopes;
    mrd_jw_spool scalars; /* for a device profile: the members of the vendor's own summary */
    mrd_sid word_summary;
    /* Event types merged from the cores `from` to `to` - 1, cached because the next row often has
     * the same cores. */
    mrd_type *types;
    size_t n_types, from, to;
} summary_sink;

static void
put_type(mrd_jw *jw, const mrd_type *type)
{
    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "name", sid, type->name);
    MRD_JW_PUT(jw, "kind", str, type->kind == MRD_SPAN ? MRD_STR("span") : MRD_STR("instant"));
    MRD_JW_PUT(jw, "count", u64, type->count);
    if (type->unfinished > 0)
        MRD_JW_PUT(jw, "unfinished", u64, type->unfinished);
    if (type->no_start > 0)
        MRD_JW_PUT(jw, "no_start", u64, type->no_start);
    if (type->hist.count > 0) {
        MRD_JW_PUT(jw, "total_ns", u64, type->total_ns);
        MRD_JW_PUT(jw, "min_ns", i64, type->min_ns);
        MRD_JW_PUT(jw, "mean_ns", u64, type->total_ns / type->hist.count);
        MRD_JW_PUT(jw, "p50_ns", i64, mrd_summary_quantile(type, 0.5));
        MRD_JW_PUT(jw, "p99_ns", i64, mrd_summary_quantile(type, 0.99));
        MRD_JW_PUT(jw, "max_ns", i64, type->max_ns);
    }
    mrd_jw_close(jw, '}');
}

/* Finds the event types of a row; of the whole profile if `row` is NULL. Uses the cache if the row
 * has the same cores as the previous one, such as a node with only one process. */
static mrd_err
find_types(summary_sink *sink, const mrd_summary_row *row)
{
    size_t n, from = row == NULL ? 0 : row->cores, to;
    mrd_type *types;
    mrd_err err;

    (void) mrd_summary_cores(sink->sum, &n);
    to = row == NULL ? n : row->cores_end;
    if (sink->types != NULL && sink->from == from && sink->to == to)
        return MRD_OK;
    if ((err = mrd_summary_types(sink->sum, row, &types, &n)) != MRD_OK)
        return err;
    mrd_types_merged_free(sink->types, sink->n_types);
    sink->types = types;
    sink->n_types = n;
    sink->from = from;
    sink->to = to;
    return MRD_OK;
}

static mrd_err
put_types(mrd_jw *jw, summary_sink *sink, const mrd_summary_row *row)
{
    mrd_err err = find_types(sink, row);

    if (err != MRD_OK)
        return err;
    MRD_JW_PUT(jw, "event_types", open, '[');
    for (size_t i = 0; i < sink->n_types; i++)
        put_type(jw, &sink->types[i]);
    mrd_jw_close(jw, ']');
    return MRD_OK;
}

static void
put_usage(mrd_jw *jw, const mrd_summary_row *row)
{
    MRD_JW_PUT(jw, "events", u64, row->events);
    MRD_JW_PUT(jw, "lost", u64, row->lost);
    if (mrd_ev_after(row->first, row->last))
        return;
    MRD_JW_PUT(jw, "first_ns", i64, row->first.ns);
    MRD_JW_PUT(jw, "last_ns", i64, row->last.ns);
    MRD_JW_PUT(jw, "busy_ns", u64, row->busy.ns);
    MRD_JW_PUT(jw, "idle_ns", u64, mrd_summary_idle(row));
    MRD_JW_PUT(jw, "device_busy_ns", u64, row->device.ns);
    MRD_JW_PUT(jw, "collective_busy_ns", u64, row->collective.ns);
    MRD_JW_PUT(jw, "cc_running_count", u64, row->cc_running);
    if (row->pairs > 0) {
        MRD_JW_PUT(jw, "executions", u64, row->executions);
        MRD_JW_PUT(jw, "paired_executions", u64, row->pairs);
    }
}

static mrd_err
put_cores(mrd_jw *jw, summary_sink *sink, const mrd_summary_row *process)
{
    size_t n;
    const mrd_summary_row *cores = mrd_summary_cores(sink->sum, &n);
    mrd_err err = MRD_OK;

    MRD_JW_PUT(jw, "cores", open, '[');
    for (size_t i = process->cores; i < process->cores_end && err == MRD_OK; i++) {
        mrd_jw_open(jw, '{');
        MRD_JW_KEY(jw, "lnc_idx");
        if (cores[i].lnc_idx == MRD_NONE)
            mrd_jw_null(jw);
        else
            mrd_jw_i64(jw, cores[i].lnc_idx);
        put_usage(jw, &cores[i]);
        err = put_types(jw, sink, &cores[i]);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    return err;
}

static mrd_err
put_process(mrd_jw *jw, summary_sink *sink, const mrd_summary_row *row)
{
    const mrd_process *process = mrd_catalog_borrow_process(sink->env->catalog, row->process);
    mrd_err err;

    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "process_id", i64, process->process_id);
    if (process->name != MRD_SID_EMPTY) {
        MRD_JW_PUT(jw, "name", sid, process->name);
    }
    if (process->rank != MRD_NONE)
        MRD_JW_PUT(jw, "rank", i64, process->rank);
    if (process->worker_gid != MRD_NONE)
        MRD_JW_PUT(jw, "worker_gid", i64, process->worker_gid);
    put_usage(jw, row);
    if ((err = put_types(jw, sink, row)) == MRD_OK)
        err = put_cores(jw, sink, row);
    mrd_jw_close(jw, '}');
    return err;
}

static mrd_err
put_nodes(mrd_jw *jw, summary_sink *sink)
{
    size_t n, n_processes, k = 0;
    const mrd_summary_row *nodes = mrd_summary_nodes(sink->sum, &n),
                          *processes = mrd_summary_processes(sink->sum, &n_processes);
    mrd_err err = MRD_OK;

    MRD_JW_PUT(jw, "nodes", open, '[');
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "instance_id", sid, nodes[i].instance);
        put_usage(jw, &nodes[i]);
        err = put_types(jw, sink, &nodes[i]);
        MRD_JW_PUT(jw, "processes", open, '[');
        for (; k < n_processes && processes[k].parent == i && err == MRD_OK; k++)
            err = put_process(jw, sink, &processes[k]);
        mrd_jw_close(jw, ']');
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    return err;
}

static void
put_counters(mrd_jw *jw, const mrd_catalog *cat, const mrd_summary *sum)
{
    size_t n;
    const mrd_summary_counter *counter = mrd_summary_counters(sum, &n);

    MRD_JW_PUT(jw, "counters", open, '[');
    for (size_t i = 0; i < n; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, counter[i].track);

        if (counter[i].count == 0)
            continue;
        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "instance_id", sid,
                   mrd_catalog_borrow_process(cat, track->process)->instance_id);
        MRD_JW_PUT(jw, "name", sid, track->name);
        if (track->device_idx != MRD_NONE)
            MRD_JW_PUT(jw, "device_idx", i64, track->device_idx);
        if (track->lnc_idx != MRD_NONE)
            MRD_JW_PUT(jw, "lnc_idx", i64, track->lnc_idx);
        MRD_JW_PUT(jw, "count", u64, counter[i].count);
        MRD_JW_PUT(jw, "min", double, counter[i].min);
        MRD_JW_PUT(jw, "mean", double, counter[i].sum / (double) counter[i].count);
        MRD_JW_PUT(jw, "max", double, counter[i].max);
        MRD_JW_PUT(jw, "last", double, counter[i].last);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
}

static void
put_losses(mrd_jw *jw, const mrd_catalog *cat, const mrd_summary *sum)
{
    size_t n;
    const mrd_summary_loss *loss = mrd_summary_losses(sum, &n);

    MRD_JW_PUT(jw, "losses", open, '[');
    for (size_t i = 0; i < n; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, loss[i].track);
        const mrd_process *process = mrd_catalog_borrow_process(cat, track->process);

        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "instance_id", sid, process->instance_id);
        MRD_JW_PUT(jw, "process_id", i64, process->process_id);
        MRD_JW_PUT(jw, "track", sid, track->name);
        mrd_jw_put_i64_or_null(jw, MRD_STR("lnc_idx"), track->lnc_idx);
        MRD_JW_PUT(jw, "cause", sid, loss[i].cause);
        MRD_JW_PUT(jw, "lost", u64, loss[i].lost);
        MRD_JW_PUT(jw, "gaps", u64, loss[i].records);
        MRD_JW_PUT(jw, "first_ns", i64, loss[i].first.ns);
        MRD_JW_PUT(jw, "last_ns", i64, loss[i].last.ns);
        if (mrd_drop_of(mrd_catalog_text(cat, loss[i].cause)) == MRD_DROP_PAUSED)
            MRD_JW_PUT(jw, "paused_ns", u64, loss[i].gaps_ns);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
}

static uint64_t
duration(const mrd_summary_totals *totals)
{
    return mrd_ev_after(totals->first, totals->last)
               ? 0
               : (uint64_t) totals->last.ns - (uint64_t) totals->first.ns;
}

/* Writes the name of the vendor's block, such as "s_1a2b3c4d". The vendor uses some hash. Ours is a
 * hash of the nodes' names. */
static void
block_name(const mrd_summary *sum, const mrd_catalog *cat, uint32_t profile, char text[16])
{
    size_t n;
    const mrd_summary_row *nodes = mrd_summary_nodes(sum, &n);
    uint64_t hash = profile;

    for (size_t i = 0; i < n; i++) {
        mrd_str name = mrd_catalog_text(cat, nodes[i].instance);

        hash = mrd_hash64(name.p, name.len, hash);
    }
    snprintf(text, 16, "%c_%08x", profile == 0 ? 's' : 'n', (unsigned) (hash & UINT32_MAX));
}

static mrd_err
put_vendor_block(mrd_jw *jw, summary_sink *sink)
{
    const mrd_sink_env *env = sink->env;
    const mrd_summary *sum = sink->sum;
    const mrd_summary_totals *totals = mrd_summary_totals_of(sum);
    char name[16];
    uint64_t *counts =
        calloc(mrd_strtab_count(mrd_catalog_strings(env->catalog)) + 1, sizeof(*counts));
    mrd_err err = counts == NULL ? MRD_NOMEM : find_types(sink, NULL);

    if (err != MRD_OK) {
        free(counts);
        return err;
    }
    block_name(sum, env->catalog, env->profile, name);
    mrd_jw_key(jw, mrd_str_of(name));
    mrd_jw_open(jw, '{');
    if ((err = mrd_jw_spool_drain(&sink->scalars, jw, NULL)) != MRD_OK) {
        free(counts);
        return err;
    }
    MRD_JW_PUT(jw, "total_duration_ns", u64, duration(totals));
    MRD_JW_PUT(jw, "message_count", open, '{');
    MRD_JW_PUT(jw, "Cpu_Util_Message_Count", u64, totals->cpu_samples);
    MRD_JW_PUT(jw, "Host_Mem_Usage_Message_Count", u64, totals->memory_samples);
    MRD_JW_PUT(jw, "Trace_Events_Message_Count", u64, totals->spans + totals->instants);
    mrd_jw_close(jw, '}');
    MRD_JW_PUT(jw, "event_type_count", open, '{');
    /* A name must occur only once in the object, so the counts of spans and instants with the same
     * name are added. */
    for (size_t i = 0; i < sink->n_types; i++)
        counts[sink->types[i].name] += sink->types[i].count;
    for (size_t i = 0; i < sink->n_types; i++) {
        if (counts[sink->types[i].name] == 0)
            continue;
        mrd_jw_key_sid(jw, sink->types[i].name);
        mrd_jw_u64(jw, counts[sink->types[i].name]);
        counts[sink->types[i].name] = 0;
    }
    free(counts);
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, '}');
    return MRD_OK;
}

static void
put_totals(mrd_jw *jw, const mrd_summary_totals *totals)
{
    if (!mrd_ev_after(totals->first, totals->last)) {
        MRD_JW_PUT(jw, "first_ns", i64, totals->first.ns);
        MRD_JW_PUT(jw, "last_ns", i64, totals->last.ns);
    }
    MRD_JW_PUT(jw, "total_duration_ns", u64, duration(totals));
    MRD_JW_PUT(jw, "events", u64, totals->events);
    MRD_JW_PUT(jw, "spans", u64, totals->spans);
    MRD_JW_PUT(jw, "instants", u64, totals->instants);
    MRD_JW_PUT(jw, "samples", u64, totals->samples);
    MRD_JW_PUT(jw, "flow_points", u64, totals->flow_points);
    MRD_JW_PUT(jw, "unfinished", u64, totals->unfinished);
    MRD_JW_PUT(jw, "no_start", u64, totals->no_start);
    MRD_JW_PUT(jw, "mistimed", u64, totals->mistimed);
    MRD_JW_PUT(jw, "recorded_twice", u64, totals->twice);
    if (totals->pairs > 0)
        MRD_JW_PUT(jw, "paired_executions", u64, totals->pairs);
    MRD_JW_PUT(jw, "lost", u64, totals->lost);
    MRD_JW_PUT(jw, "percentile_relative_error", double, MRD_HIST_ERROR);
}

static mrd_err
put_all(mrd_jw *jw, summary_sink *sink)
{
    const mrd_sink_env *env = sink->env;
    const mrd_summary *sum = sink->sum;
    mrd_err err;

    mrd_jw_open(jw, '{');
    mrd_catalog_json(jw, env->catalog, env->profile, "summary");
    if ((err = put_vendor_block(jw, sink)) != MRD_OK)
        return err;
    MRD_JW_PUT(jw, "summary", open, '{');
    put_totals(jw, mrd_summary_totals_of(sum));
    if ((err = put_types(jw, sink, NULL)) == MRD_OK)
        err = put_nodes(jw, sink);
    put_counters(jw, env->catalog, sum);
    mrd_scope_memory_json(sink->scopes, env->catalog, jw);
    put_losses(jw, env->catalog, sum);
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, '}');
    mrd_jw_end(jw);
    return err;
}

static mrd_err
summary_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    summary_sink *sink = state;

    sink->env = env;
    sink->sum = mrd_summary_new(env);
    sink->scopes = mrd_scope_memory_new(env);
    if (env->profile != 0)
        sink->word_summary = mrd_strtab_find(mrd_catalog_strings(env->catalog), MRD_STR("summary"));
    if (sink->sum != NULL && sink->scopes != NULL)
        return MRD_OK;
    mrd_summary_free(sink->sum);
    mrd_scope_memory_free(sink->scopes);
    return mrd_why_set(why, MRD_NOMEM, 0, "summary");
}

/* Stores the values of the vendor's own summary unchanged. Called only for the first event with
 * such values, which is the one of the first core. */
static mrd_err
keep_scalars(summary_sink *sink, const mrd_event *ev)
{
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        mrd_jw *jw =
            mrd_jw_spool_writer(&sink->scalars, mrd_catalog_strings(sink->env->catalog), true, 2);

        if (jw == NULL)
            return MRD_NOMEM;
        mrd_jw_key_sid(jw, ev->args[i].key);
        mrd_jw_arg(jw, &ev->args[i]);
    }
    return MRD_OK;
}

static mrd_err
summary_event(void *state, const mrd_event *ev)
{
    summary_sink *sink = state;
    mrd_err err = MRD_OK;

    if (sink->word_summary != MRD_SID_EMPTY && ev->category == sink->word_summary &&
        sink->scalars.elements == 0)
        err = keep_scalars(sink, ev);
    mrd_scope_memory_add(sink->scopes, ev);
    return err == MRD_OK ? mrd_summary_add(sink->sum, ev) : err;
}

static mrd_err
summary_close(void *state, mrd_why *why)
{
    summary_sink *sink = state;
    mrd_err err = mrd_summary_finish(sink->sum);
    mrd_jw jw;

    mrd_jw_init(&jw, sink->env->out, mrd_catalog_strings(sink->env->catalog), true);
    if (err == MRD_OK)
        err = put_all(&jw, sink);
    mrd_jw_fini(&jw);
    mrd_jw_spool_fini(&sink->scalars);
    mrd_types_merged_free(sink->types, sink->n_types);
    mrd_summary_free(sink->sum);
    mrd_scope_memory_free(sink->scopes);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "summary: %s", mrd_err_text(err));
}

const mrd_sink_ops mrd_sink_summary_json = {
    .name = "summary-json",
    .stem = "summary",
    .suffix = ".json",
    .media_type = "application/json",
    .standard = true,
    .what = "counts, times, busy and idle, clocks and losses, for scripts",
    .state_size = sizeof(summary_sink),
    .device_too = true,
    .lists_files = true,
    .open = summary_open,
    .event = summary_event,
    .close = summary_close,
};
