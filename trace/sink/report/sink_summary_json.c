/*
 * trace/sink/report/sink_summary_json.c - summary.json: the numbers of trace/analysis/summary.h, after a
 * block with the keys of the vendor's summary (docs/reference/json.md)
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
    mrd_jw_spool scalars; /* device profiles: the members of the vendor's own summary */
    mrd_sid word_summary;
    /* the last merged types, of the cores [from, to), which the next row often has as well */
    mrd_type *types;
    size_t n_types, from, to;
} summary_sink;

static void
put_u64(mrd_jw *w, mrd_str key, uint64_t v)
{
    mrd_jw_key(w, key);
    mrd_jw_u64(w, v);
}

static void
put_i64(mrd_jw *w, mrd_str key, int64_t v)
{
    mrd_jw_key(w, key);
    mrd_jw_i64(w, v);
}

static void
put_type(mrd_jw *w, const mrd_type *t)
{
    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "name");
    mrd_jw_sid(w, t->name);
    MRD_JW_KEY(w, "kind");
    mrd_jw_str(w, t->kind == MRD_SPAN ? MRD_STR("span") : MRD_STR("instant"));
    put_u64(w, MRD_STR("count"), t->count);
    if (t->unfinished > 0)
        put_u64(w, MRD_STR("unfinished"), t->unfinished);
    if (t->no_start > 0)
        put_u64(w, MRD_STR("no_start"), t->no_start);
    if (t->hist.count > 0) {
        put_u64(w, MRD_STR("total_ns"), t->total_ns);
        put_i64(w, MRD_STR("min_ns"), t->min_ns);
        put_u64(w, MRD_STR("mean_ns"), t->total_ns / t->hist.count);
        put_i64(w, MRD_STR("p50_ns"), mrd_summary_quantile(t, 0.5));
        put_i64(w, MRD_STR("p99_ns"), mrd_summary_quantile(t, 0.99));
        put_i64(w, MRD_STR("max_ns"), t->max_ns);
    }
    mrd_jw_close(w, '}');
}

/* Gets the event types of a row; NULL means of everything. Rows with the same cores, such as a node
 * of one process and its process, are merged once. */
static mrd_err
find_types(summary_sink *s, const mrd_summary_row *row)
{
    size_t n, from = row == NULL ? 0 : row->cores, to;
    mrd_type *types;
    mrd_err err;

    (void) mrd_summary_cores(s->sum, &n);
    to = row == NULL ? n : row->cores_end;
    if (s->types != NULL && s->from == from && s->to == to)
        return MRD_OK;
    if ((err = mrd_summary_types(s->sum, row, &types, &n)) != MRD_OK)
        return err;
    mrd_types_merged_free(s->types, s->n_types);
    s->types = types;
    s->n_types = n;
    s->from = from;
    s->to = to;
    return MRD_OK;
}

static mrd_err
put_types(mrd_jw *w, summary_sink *s, const mrd_summary_row *row)
{
    mrd_err err = find_types(s, row);

    if (err != MRD_OK)
        return err;
    MRD_JW_KEY(w, "event_types");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < s->n_types; i++)
        put_type(w, &s->types[i]);
    mrd_jw_close(w, ']');
    return MRD_OK;
}

static void
put_usage(mrd_jw *w, const mrd_summary_row *row)
{
    put_u64(w, MRD_STR("events"), row->events);
    put_u64(w, MRD_STR("lost"), row->lost);
    if (mrd_ev_after(row->first, row->last))
        return;
    put_i64(w, MRD_STR("first_ns"), row->first.ns);
    put_i64(w, MRD_STR("last_ns"), row->last.ns);
    put_u64(w, MRD_STR("busy_ns"), row->busy.ns);
    put_u64(w, MRD_STR("idle_ns"), mrd_summary_idle(row));
    put_u64(w, MRD_STR("device_busy_ns"), row->device.ns);
    put_u64(w, MRD_STR("collective_busy_ns"), row->collective.ns);
    put_u64(w, MRD_STR("cc_running_count"), row->cc_running);
    if (row->pairs > 0) {
        put_u64(w, MRD_STR("executions"), row->executions);
        put_u64(w, MRD_STR("paired_executions"), row->pairs);
    }
}

static mrd_err
put_cores(mrd_jw *w, summary_sink *s, const mrd_summary_row *process)
{
    size_t n;
    const mrd_summary_row *cores = mrd_summary_cores(s->sum, &n);
    mrd_err err = MRD_OK;

    MRD_JW_KEY(w, "cores");
    mrd_jw_open(w, '[');
    for (size_t i = process->cores; i < process->cores_end && err == MRD_OK; i++) {
        mrd_jw_open(w, '{');
        MRD_JW_KEY(w, "lnc_idx");
        if (cores[i].lnc_idx == MRD_NONE)
            mrd_jw_null(w);
        else
            mrd_jw_i64(w, cores[i].lnc_idx);
        put_usage(w, &cores[i]);
        err = put_types(w, s, &cores[i]);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
    return err;
}

static mrd_err
put_process(mrd_jw *w, summary_sink *s, const mrd_summary_row *row)
{
    const mrd_process *p = mrd_catalog_borrow_process(s->env->catalog, row->process);
    mrd_err err;

    mrd_jw_open(w, '{');
    put_i64(w, MRD_STR("process_id"), p->process_id);
    if (p->name != MRD_SID_EMPTY) {
        MRD_JW_KEY(w, "name");
        mrd_jw_sid(w, p->name);
    }
    if (p->rank != MRD_NONE)
        put_i64(w, MRD_STR("rank"), p->rank);
    if (p->worker_gid != MRD_NONE)
        put_i64(w, MRD_STR("worker_gid"), p->worker_gid);
    put_usage(w, row);
    if ((err = put_types(w, s, row)) == MRD_OK)
        err = put_cores(w, s, row);
    mrd_jw_close(w, '}');
    return err;
}

static mrd_err
put_nodes(mrd_jw *w, summary_sink *s)
{
    size_t n, n_processes, k = 0;
    const mrd_summary_row *nodes = mrd_summary_nodes(s->sum, &n),
                          *processes = mrd_summary_processes(s->sum, &n_processes);
    mrd_err err = MRD_OK;

    MRD_JW_KEY(w, "nodes");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        mrd_jw_open(w, '{');
        MRD_JW_KEY(w, "instance_id");
        mrd_jw_sid(w, nodes[i].instance);
        put_usage(w, &nodes[i]);
        err = put_types(w, s, &nodes[i]);
        MRD_JW_KEY(w, "processes");
        mrd_jw_open(w, '[');
        for (; k < n_processes && processes[k].parent == i && err == MRD_OK; k++)
            err = put_process(w, s, &processes[k]);
        mrd_jw_close(w, ']');
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
    return err;
}

static void
put_counters(mrd_jw *w, const mrd_catalog *cat, const mrd_summary *sum)
{
    size_t n;
    const mrd_summary_counter *c = mrd_summary_counters(sum, &n);

    MRD_JW_KEY(w, "counters");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(cat, c[i].track);

        if (c[i].count == 0)
            continue;
        mrd_jw_open(w, '{');
        MRD_JW_KEY(w, "instance_id");
        mrd_jw_sid(w, mrd_catalog_borrow_process(cat, t->process)->instance_id);
        MRD_JW_KEY(w, "name");
        mrd_jw_sid(w, t->name);
        if (t->device_idx != MRD_NONE)
            put_i64(w, MRD_STR("device_idx"), t->device_idx);
        if (t->lnc_idx != MRD_NONE)
            put_i64(w, MRD_STR("lnc_idx"), t->lnc_idx);
        put_u64(w, MRD_STR("count"), c[i].count);
        MRD_JW_KEY(w, "min");
        mrd_jw_double(w, c[i].min);
        MRD_JW_KEY(w, "mean");
        mrd_jw_double(w, c[i].sum / (double) c[i].count);
        MRD_JW_KEY(w, "max");
        mrd_jw_double(w, c[i].max);
        MRD_JW_KEY(w, "last");
        mrd_jw_double(w, c[i].last);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
}

static void
put_losses(mrd_jw *w, const mrd_catalog *cat, const mrd_summary *sum)
{
    size_t n;
    const mrd_summary_loss *l = mrd_summary_losses(sum, &n);

    MRD_JW_KEY(w, "losses");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(cat, l[i].track);
        const mrd_process *p = mrd_catalog_borrow_process(cat, t->process);

        mrd_jw_open(w, '{');
        MRD_JW_KEY(w, "instance_id");
        mrd_jw_sid(w, p->instance_id);
        put_i64(w, MRD_STR("process_id"), p->process_id);
        MRD_JW_KEY(w, "track");
        mrd_jw_sid(w, t->name);
        mrd_jw_put_i64_or_null(w, MRD_STR("lnc_idx"), t->lnc_idx);
        MRD_JW_KEY(w, "cause");
        mrd_jw_sid(w, l[i].cause);
        put_u64(w, MRD_STR("lost"), l[i].lost);
        put_u64(w, MRD_STR("gaps"), l[i].records);
        put_i64(w, MRD_STR("first_ns"), l[i].first.ns);
        put_i64(w, MRD_STR("last_ns"), l[i].last.ns);
        if (mrd_drop_of(mrd_catalog_text(cat, l[i].cause)) == MRD_DROP_PAUSED)
            put_u64(w, MRD_STR("paused_ns"), l[i].gaps_ns);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
}

static uint64_t
duration(const mrd_summary_totals *t)
{
    return mrd_ev_after(t->first, t->last) ? 0 : (uint64_t) t->last.ns - (uint64_t) t->first.ns;
}

/* "s_1a2b3c4d": the vendor names its block by a hash. Ours is a hash of the nodes' names. */
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
put_vendor_block(mrd_jw *w, summary_sink *s)
{
    const mrd_sink_env *env = s->env;
    const mrd_summary *sum = s->sum;
    const mrd_summary_totals *t = mrd_summary_totals_of(sum);
    char name[16];
    uint64_t *counts =
        calloc(mrd_strtab_count(mrd_catalog_strings(env->catalog)) + 1, sizeof(*counts));
    mrd_err err = counts == NULL ? MRD_NOMEM : find_types(s, NULL);

    if (err != MRD_OK) {
        free(counts);
        return err;
    }
    block_name(sum, env->catalog, env->profile, name);
    mrd_jw_key(w, mrd_str_of(name));
    mrd_jw_open(w, '{');
    if ((err = mrd_jw_spool_drain(&s->scalars, w, NULL)) != MRD_OK) {
        free(counts);
        return err;
    }
    put_u64(w, MRD_STR("total_duration_ns"), duration(t));
    MRD_JW_KEY(w, "message_count");
    mrd_jw_open(w, '{');
    put_u64(w, MRD_STR("Cpu_Util_Message_Count"), t->cpu_samples);
    put_u64(w, MRD_STR("Host_Mem_Usage_Message_Count"), t->memory_samples);
    put_u64(w, MRD_STR("Trace_Events_Message_Count"), t->spans + t->instants);
    mrd_jw_close(w, '}');
    MRD_JW_KEY(w, "event_type_count");
    mrd_jw_open(w, '{');
    /* A name of both spans and instants gives one member. */
    for (size_t i = 0; i < s->n_types; i++)
        counts[s->types[i].name] += s->types[i].count;
    for (size_t i = 0; i < s->n_types; i++) {
        if (counts[s->types[i].name] == 0)
            continue;
        mrd_jw_key_sid(w, s->types[i].name);
        mrd_jw_u64(w, counts[s->types[i].name]);
        counts[s->types[i].name] = 0;
    }
    free(counts);
    mrd_jw_close(w, '}');
    mrd_jw_close(w, '}');
    return MRD_OK;
}

static void
put_totals(mrd_jw *w, const mrd_summary_totals *t)
{
    if (!mrd_ev_after(t->first, t->last)) {
        put_i64(w, MRD_STR("first_ns"), t->first.ns);
        put_i64(w, MRD_STR("last_ns"), t->last.ns);
    }
    put_u64(w, MRD_STR("total_duration_ns"), duration(t));
    put_u64(w, MRD_STR("events"), t->events);
    put_u64(w, MRD_STR("spans"), t->spans);
    put_u64(w, MRD_STR("instants"), t->instants);
    put_u64(w, MRD_STR("samples"), t->samples);
    put_u64(w, MRD_STR("flow_points"), t->flow_points);
    put_u64(w, MRD_STR("unfinished"), t->unfinished);
    put_u64(w, MRD_STR("no_start"), t->no_start);
    put_u64(w, MRD_STR("mistimed"), t->mistimed);
    put_u64(w, MRD_STR("recorded_twice"), t->twice);
    if (t->pairs > 0)
        put_u64(w, MRD_STR("paired_executions"), t->pairs);
    put_u64(w, MRD_STR("lost"), t->lost);
    MRD_JW_KEY(w, "percentile_relative_error");
    mrd_jw_double(w, MRD_HIST_ERROR);
}

static mrd_err
put_all(mrd_jw *w, summary_sink *s)
{
    const mrd_sink_env *env = s->env;
    const mrd_summary *sum = s->sum;
    mrd_err err;

    mrd_jw_open(w, '{');
    mrd_catalog_json(w, env->catalog, env->profile, "summary");
    if ((err = put_vendor_block(w, s)) != MRD_OK)
        return err;
    MRD_JW_KEY(w, "summary");
    mrd_jw_open(w, '{');
    put_totals(w, mrd_summary_totals_of(sum));
    if ((err = put_types(w, s, NULL)) == MRD_OK)
        err = put_nodes(w, s);
    put_counters(w, env->catalog, sum);
    mrd_scope_memory_json(s->scopes, env->catalog, w);
    put_losses(w, env->catalog, sum);
    mrd_jw_close(w, '}');
    mrd_jw_close(w, '}');
    mrd_jw_end(w);
    return err;
}

static mrd_err
summary_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    summary_sink *s = state;

    s->env = env;
    s->sum = mrd_summary_new(env);
    s->scopes = mrd_scope_memory_new(env);
    if (env->profile != 0)
        s->word_summary = mrd_strtab_find(mrd_catalog_strings(env->catalog), MRD_STR("summary"));
    if (s->sum != NULL && s->scopes != NULL)
        return MRD_OK;
    mrd_summary_free(s->sum);
    mrd_scope_memory_free(s->scopes);
    return mrd_why_set(why, MRD_NOMEM, 0, "summary");
}

/* Keeps scalar counters of the input unchanged; of the first core. */
static mrd_err
keep_scalars(summary_sink *s, const mrd_event *ev)
{
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        mrd_jw *w = mrd_jw_spool_writer(&s->scalars, mrd_catalog_strings(s->env->catalog), true, 2);

        if (w == NULL)
            return MRD_NOMEM;
        mrd_jw_key_sid(w, ev->args[i].key);
        mrd_jw_arg(w, &ev->args[i]);
    }
    return MRD_OK;
}

static mrd_err
summary_event(void *state, const mrd_event *ev)
{
    summary_sink *s = state;
    mrd_err err = MRD_OK;

    if (s->word_summary != MRD_SID_EMPTY && ev->category == s->word_summary &&
        s->scalars.elements == 0)
        err = keep_scalars(s, ev);
    mrd_scope_memory_add(s->scopes, ev);
    return err == MRD_OK ? mrd_summary_add(s->sum, ev) : err;
}

static mrd_err
summary_close(void *state, mrd_why *why)
{
    summary_sink *s = state;
    mrd_err err = mrd_summary_finish(s->sum);
    mrd_jw w;

    mrd_jw_init(&w, s->env->out, mrd_catalog_strings(s->env->catalog), true);
    if (err == MRD_OK)
        err = put_all(&w, s);
    mrd_jw_fini(&w);
    mrd_jw_spool_fini(&s->scalars);
    mrd_types_merged_free(s->types, s->n_types);
    mrd_summary_free(s->sum);
    mrd_scope_memory_free(s->scopes);
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
