/*
 * trace/sink/report/sink_steps_json.c - writes steps.json: the series of
 * trace/analysis/judge/steps.h, which `meridian diff` compares (docs/reference/json.md).
 */
#include <stdlib.h>

#include "trace/analysis/judge/steps.h"
#include "trace/json/catalog_json.h"
#include "trace/sink/sinks.h"

typedef struct {
    const mrd_sink_env *env;
    mrd_steps *steps;
} steps_sink;

static mrd_err
steps_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    steps_sink *sink = state;

    sink->env = env;
    sink->steps = mrd_steps_new(env);
    return sink->steps == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "steps") : MRD_OK;
}

static mrd_err
steps_event(void *state, const mrd_event *ev)
{
    return mrd_steps_add(((steps_sink *) state)->steps, ev);
}

/* Returns the number of blocks, without the zeros at the end. */
static size_t
blocks_of(const uint32_t *counts)
{
    size_t n = MRD_STEPS_BLOCKS;

    while (n > 0 && counts[n - 1] == 0)
        n--;
    return n;
}

static void
put_times(mrd_jw *jw, const char *key, const uint64_t *ns, size_t n)
{
    mrd_jw_key(jw, mrd_str_of(key));
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < n; i++)
        mrd_jw_u64(jw, ns[i]);
    mrd_jw_close(jw, ']');
}

static void
put_counts(mrd_jw *jw, const char *key, const uint32_t *counts, size_t n)
{
    mrd_jw_key(jw, mrd_str_of(key));
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < n; i++)
        mrd_jw_u64(jw, counts[i]);
    mrd_jw_close(jw, ']');
}

static void
put_series(mrd_jw *jw, const uint64_t *ns, const uint32_t *counts)
{
    size_t n = blocks_of(counts);

    put_times(jw, "blocks_ns", ns, n);
    put_counts(jw, "blocks_count", counts, n);
}

/* Writes a process's own time, in which it does not wait for others, split into parts. Leaves out
 * parts that are 0 throughout. */
static void
put_own(mrd_jw *jw, const mrd_steps_process *process)
{
    size_t n = blocks_of(process->own_steps);

    put_counts(jw, "own_count", process->own_steps, n);
    MRD_JW_PUT(jw, "own_ns", open, '{');
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        bool any = false;

        for (size_t i = 0; i < n; i++)
            any = any || process->own_ns[k][i] > 0;
        if (any)
            put_times(jw, mrd_report_part_text((mrd_report_part) k), process->own_ns[k], n);
    }
    mrd_jw_close(jw, '}');
}

static void
put_process(mrd_jw *jw, const steps_sink *sink, mrd_proc_id id)
{
    const mrd_process *process = mrd_catalog_borrow_process(sink->env->catalog, id);
    size_t n;
    const mrd_steps_process *paced = mrd_steps_processes(sink->steps, &n);

    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "instance_id", sid, process->instance_id);
    mrd_jw_put_i64_or_null(jw, MRD_STR("process_id"), process->process_id);
    mrd_jw_put_i64_or_null(jw, MRD_STR("rank"), process->rank);
    for (size_t i = 0; i < n; i++) {
        if (paced[i].process != id)
            continue;
        MRD_JW_PUT(jw, "steps", u64, paced[i].steps);
        MRD_JW_PUT(jw, "total_ns", u64, paced[i].ns);
        put_series(jw, paced[i].block_ns, paced[i].block_steps);
        put_own(jw, &paced[i]);
    }
    mrd_jw_close(jw, '}');
}

/* Numbers the processes that have data, from 0 in the catalog's order. Returns the numbers by
 * mrd_proc_id; NULL if out of memory. */
static uint32_t *
number_processes(const steps_sink *sink, size_t *ret_n)
{
    size_t n, n_paced, all = mrd_catalog_processes(sink->env->catalog);
    const mrd_steps_place *places = mrd_steps_places(sink->steps, &n);
    const mrd_steps_process *paced = mrd_steps_processes(sink->steps, &n_paced);
    uint32_t *number = calloc(all + 1, sizeof(*number)), next = 0;

    if (number == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        number[places[i].process] = 1;
    for (size_t i = 0; i < n_paced; i++)
        number[paced[i].process] = 1;
    for (size_t i = 0; i < all; i++)
        number[i] = number[i] == 0 ? UINT32_MAX : next++;
    *ret_n = all;
    return number;
}

static void
put_places(mrd_jw *jw, const steps_sink *sink, uint32_t row, const uint32_t *number)
{
    size_t n, lo = 0, hi;
    const mrd_steps_place *places = mrd_steps_places(sink->steps, &n);

    for (hi = n; lo < hi;) { /* binary search for the first entry of this row */
        size_t mid = lo + (hi - lo) / 2;

        if (places[mid].row < row)
            lo = mid + 1;
        else
            hi = mid;
    }
    MRD_JW_PUT(jw, "by_process", open, '[');
    for (; lo < n && places[lo].row == row; lo++) {
        mrd_jw_open(jw, '[');
        mrd_jw_u64(jw, number[places[lo].process]);
        mrd_jw_u64(jw, places[lo].calls);
        mrd_jw_u64(jw, places[lo].ns);
        mrd_jw_close(jw, ']');
    }
    mrd_jw_close(jw, ']');
}

static void
put_row(mrd_jw *jw, const steps_sink *sink, uint32_t i, const uint32_t *number)
{
    const mrd_steps_row *row = mrd_steps_row_at(sink->steps, i);

    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "kind", str, mrd_str_of(mrd_op_kind_text(row->kind)));
    MRD_JW_KEY(jw, "name");
    if (row->kind == MRD_OP_PART)
        mrd_jw_str(jw, mrd_str_of(mrd_report_part_text(row->part)));
    else
        mrd_jw_sid(jw, row->name);
    mrd_jw_put_i64_or_null(jw, MRD_STR("size"), row->size);
    MRD_JW_PUT(jw, "count", u64, row->calls);
    MRD_JW_PUT(jw, "total_ns", u64, row->ns);
    MRD_JW_PUT(jw, "width", u64,
               mrd_steps_totals_of(sink->steps)->by_call ? row->width
                                                         : mrd_steps_totals_of(sink->steps)->width);
    put_series(jw, row->block_ns, row->block_calls);
    if (row->kind != MRD_OP_PART)
        put_places(jw, sink, i, number);
    mrd_jw_close(jw, '}');
}

static void
put_all(mrd_jw *jw, const steps_sink *sink, const uint32_t *number, size_t n_processes)
{
    const mrd_steps_totals *totals = mrd_steps_totals_of(sink->steps);

    mrd_jw_open(jw, '{');
    mrd_catalog_json(jw, sink->env->catalog, sink->env->profile, "steps");
    MRD_JW_PUT(jw, "steps", open, '{');
    MRD_JW_PUT(jw, "unit", str, totals->by_call ? MRD_STR("call") : MRD_STR("step"));
    MRD_JW_PUT(jw, "same_clock", bool, sink->env->options->same_clock);
    MRD_JW_PUT(jw, "width", u64, totals->width);
    MRD_JW_PUT(jw, "nested_steps", u64, totals->nested);
    MRD_JW_PUT(jw, "outside_ns", u64, totals->outside_ns);
    MRD_JW_PUT(jw, "unnamed", u64, totals->rest);
    MRD_JW_PUT(jw, "without_process", u64, totals->unplaced);
    MRD_JW_PUT(jw, "processes", open, '[');
    for (size_t i = 0; i < n_processes; i++) {
        if (number[i] != UINT32_MAX)
            put_process(jw, sink, (mrd_proc_id) i);
    }
    mrd_jw_close(jw, ']');
    MRD_JW_PUT(jw, "operations", open, '[');
    for (size_t i = 0; i < mrd_steps_rows(sink->steps); i++)
        put_row(jw, sink, (uint32_t) i, number);
    mrd_jw_close(jw, ']');
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, '}');
    mrd_jw_end(jw);
}

static mrd_err
steps_write(steps_sink *sink)
{
    size_t n = 0;
    uint32_t *number = number_processes(sink, &n);
    mrd_jw jw;

    if (number == NULL)
        return MRD_NOMEM;
    mrd_jw_init(&jw, sink->env->out, mrd_catalog_strings(sink->env->catalog), false);
    put_all(&jw, sink, number, n);
    mrd_jw_fini(&jw);
    free(number);
    return MRD_OK;
}

static mrd_err
steps_close(void *state, mrd_why *why)
{
    steps_sink *sink = state;
    mrd_err err = sink->steps == NULL ? MRD_NOMEM : mrd_steps_finish(sink->steps);

    if (err == MRD_OK)
        err = steps_write(sink);
    mrd_steps_free(sink->steps);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "steps: %s", mrd_err_text(err));
}

const mrd_sink_ops mrd_sink_steps_json = {
    .name = "steps-json",
    .stem = "steps",
    .suffix = ".json",
    .media_type = "application/json",
    .what = "what each operation costs per step, for meridian diff",
    .state_size = sizeof(steps_sink),
    .open = steps_open,
    .event = steps_event,
    .close = steps_close,
};
