/*
 * trace/sink/report/sink_summary_json.c - summary.json: the numbers of trace/analysis/summary.h,
 * after a block with the keys of the vendor's summary (docs/reference/json.md)
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
    mrd_jw_spool scalars; /* for device profiles: members of the vendor's own summary */
    mrd_sid word_summary;
    /* the event types that were merged last; they are of the cores [from, to), which the next row
     * often has as well */
    mrd_type *types;
    size_t n_types, from, to;
} summary_sink;

static void
put_u64(mrd_jw *jw, mrd_str key, uint64_t v)
{
    mrd_jw_key(jw, key);
    mrd_jw_u64(jw, v);
}

static void
put_i64(mrd_jw *jw, mrd_str key, int64_t v)
{
    mrd_jw_key(jw, key);
    mrd_jw_i64(jw, v);
}

static void
put_type(mrd_jw *jw, const mrd_type *type)
{
    mrd_jw_open(jw, '{');
    MRD_JW_KEY(jw, "name");
    mrd_jw_sid(jw, type->name);
    MRD_JW_KEY(jw, "kind");
    mrd_jw_str(jw, type->kind == MRD_SPAN ? MRD_STR("span") : MRD_STR("instant"));
    put_u64(jw, MRD_STR("count"), type->count);
    if (type->unfinished > 0)
        put_u64(jw, MRD_STR("unfinished"), type->unfinished);
    if (type->no_start > 0)
        put_u64(jw, MRD_STR("no_start"), type->no_start);
    if (type->hist.count > 0) {
        put_u64(jw, MRD_STR("total_ns"), type->total_ns);
        put_i64(jw, MRD_STR("min_ns"), type->min_ns);
        put_u64(jw, MRD_STR("mean_ns"), type->total_ns / type->hist.count);
        put_i64(jw, MRD_STR("p50_ns"), mrd_summary_quantile(type, 0.5));
        put_i64(jw, MRD_STR("p99_ns"), mrd_summary_quantile(type, 0.99));
        put_i64(jw, MRD_STR("max_ns"), type->max_ns);
    }
    mrd_jw_close(jw, '}');
}

/* Gets the event types of a row. NULL means the whole profile. Rows with the same cores, such as a
 * node with one process and that process, are merged only once. */
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
    MRD_JW_KEY(jw, "event_types");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < sink->n_types; i++)
        put_type(jw, &sink->types[i]);
    mrd_jw_close(jw, ']');
    return MRD_OK;
}

static void
put_usage(mrd_jw *jw, const mrd_summary_row *row)
{
    put_u64(jw, MRD_STR("events"), row->events);
    put_u64(jw, MRD_STR("lost"), row->lost);
    if (mrd_ev_after(row->first, row->last))
        return;
    put_i64(jw, MRD_STR("first_ns"), row->first.ns);
    put_i64(jw, MRD_STR("last_ns"), row->last.ns);
    put_u64(jw, MRD_STR("busy_ns"), row->busy.ns);
    put_u64(jw, MRD_STR("idle_ns"), mrd_summary_idle(row));
    put_u64(jw, MRD_STR("device_busy_ns"), row->device.ns);
    put_u64(jw, MRD_STR("collective_busy_ns"), row->collective.ns);
    put_u64(jw, MRD_STR("cc_running_count"), row->cc_running);
    if (row->pairs > 0) {
        put_u64(jw, MRD_STR("executions"), row->executions);
        put_u64(jw, MRD_STR("paired_executions"), row->pairs);
    }
}

static mrd_err
put_cores(mrd_jw *jw, summary_sink *sink, const mrd_summary_row *process)
{
    size_t n;
    const mrd_summary_row *cores = mrd_summary_cores(sink->sum, &n);
    mrd_err err = MRD_OK;

    MRD_JW_KEY(jw, "cores");
    mrd_jw_open(jw, '[');
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
    put_i64(jw, MRD_STR("process_id"), process->process_id);
    if (process->name != MRD_SID_EMPTY) {
        MRD_JW_KEY(jw, "name");
        mrd_jw_sid(jw, process->name);
    }
    if (process->rank != MRD_NONE)
        put_i64(jw, MRD_STR("rank"), process->rank);
    if (process->worker_gid != MRD_NONE)
        put_i64(jw, MRD_STR("worker_gid"), process->worker_gid);
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

    MRD_JW_KEY(jw, "nodes");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        mrd_jw_open(jw, '{');
        MRD_JW_KEY(jw, "instance_id");
        mrd_jw_sid(jw, nodes[i].instance);
        put_usage(jw, &nodes[i]);
        err = put_types(jw, sink, &nodes[i]);
        MRD_JW_KEY(jw, "processes");
        mrd_jw_open(jw, '[');
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

    MRD_JW_KEY(jw, "counters");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < n; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, counter[i].track);

        if (counter[i].count == 0)
            continue;
        mrd_jw_open(jw, '{');
        MRD_JW_KEY(jw, "instance_id");
        mrd_jw_sid(jw, mrd_catalog_borrow_process(cat, track->process)->instance_id);
        MRD_JW_KEY(jw, "name");
        mrd_jw_sid(jw, track->name);
        if (track->device_idx != MRD_NONE)
            put_i64(jw, MRD_STR("device_idx"), track->device_idx);
        if (track->lnc_idx != MRD_NONE)
            put_i64(jw, MRD_STR("lnc_idx"), track->lnc_idx);
        put_u64(jw, MRD_STR("count"), counter[i].count);
        MRD_JW_KEY(jw, "min");
        mrd_jw_double(jw, counter[i].min);
        MRD_JW_KEY(jw, "mean");
        mrd_jw_double(jw, counter[i].sum / (double) counter[i].count);
        MRD_JW_KEY(jw, "max");
        mrd_jw_double(jw, counter[i].max);
        MRD_JW_KEY(jw, "last");
        mrd_jw_double(jw, counter[i].last);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
}

static void
put_losses(mrd_jw *jw, const mrd_catalog *cat, const mrd_summary *sum)
{
    size_t n;
    const mrd_summary_loss *loss = mrd_summary_losses(sum, &n);

    MRD_JW_KEY(jw, "losses");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < n; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, loss[i].track);
        const mrd_process *process = mrd_catalog_borrow_process(cat, track->process);

        mrd_jw_open(jw, '{');
        MRD_JW_KEY(jw, "instance_id");
        mrd_jw_sid(jw, process->instance_id);
        put_i64(jw, MRD_STR("process_id"), process->process_id);
        MRD_JW_KEY(jw, "track");
        mrd_jw_sid(jw, track->name);
        mrd_jw_put_i64_or_null(jw, MRD_STR("lnc_idx"), track->lnc_idx);
        MRD_JW_KEY(jw, "cause");
        mrd_jw_sid(jw, loss[i].cause);
        put_u64(jw, MRD_STR("lost"), loss[i].lost);
        put_u64(jw, MRD_STR("gaps"), loss[i].records);
        put_i64(jw, MRD_STR("first_ns"), loss[i].first.ns);
        put_i64(jw, MRD_STR("last_ns"), loss[i].last.ns);
        if (mrd_drop_of(mrd_catalog_text(cat, loss[i].cause)) == MRD_DROP_PAUSED)
            put_u64(jw, MRD_STR("paused_ns"), loss[i].gaps_ns);
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

/* Writes the name of the vendor's block, like "s_1a2b3c4d". The vendor uses a hash, and ours is a
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
    put_u64(jw, MRD_STR("total_duration_ns"), duration(totals));
    MRD_JW_KEY(jw, "message_count");
    mrd_jw_open(jw, '{');
    put_u64(jw, MRD_STR("Cpu_Util_Message_Count"), totals->cpu_samples);
    put_u64(jw, MRD_STR("Host_Mem_Usage_Message_Count"), totals->memory_samples);
    put_u64(jw, MRD_STR("Trace_Events_Message_Count"), totals->spans + totals->instants);
    mrd_jw_close(jw, '}');
    MRD_JW_KEY(jw, "event_type_count");
    mrd_jw_open(jw, '{');
    /* If spans and instants have the same name, their counts are added, because the name may occur
     * only once. */
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
        put_i64(jw, MRD_STR("first_ns"), totals->first.ns);
        put_i64(jw, MRD_STR("last_ns"), totals->last.ns);
    }
    put_u64(jw, MRD_STR("total_duration_ns"), duration(totals));
    put_u64(jw, MRD_STR("events"), totals->events);
    put_u64(jw, MRD_STR("spans"), totals->spans);
    put_u64(jw, MRD_STR("instants"), totals->instants);
    put_u64(jw, MRD_STR("samples"), totals->samples);
    put_u64(jw, MRD_STR("flow_points"), totals->flow_points);
    put_u64(jw, MRD_STR("unfinished"), totals->unfinished);
    put_u64(jw, MRD_STR("no_start"), totals->no_start);
    put_u64(jw, MRD_STR("mistimed"), totals->mistimed);
    put_u64(jw, MRD_STR("recorded_twice"), totals->twice);
    if (totals->pairs > 0)
        put_u64(jw, MRD_STR("paired_executions"), totals->pairs);
    put_u64(jw, MRD_STR("lost"), totals->lost);
    MRD_JW_KEY(jw, "percentile_relative_error");
    mrd_jw_double(jw, MRD_HIST_ERROR);
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
    MRD_JW_KEY(jw, "summary");
    mrd_jw_open(jw, '{');
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

/* Keeps the vendor's summary values of a device profile unchanged, as members. It is called only
 * for the first event that has them, which belongs to the first core. */
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
