/*
 * trace/sink/report/sink_steps_json.c - steps.json: the series of trace/analysis/judge/steps.h, which `meridian
 * diff` compares (docs/reference/json.md)
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
    steps_sink *s = state;

    s->env = env;
    s->steps = mrd_steps_new(env);
    return s->steps == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "steps") : MRD_OK;
}

static mrd_err
steps_event(void *state, const mrd_event *ev)
{
    return mrd_steps_add(((steps_sink *) state)->steps, ev);
}

static void
put_u64(mrd_jw *w, const char *key, uint64_t v)
{
    mrd_jw_key(w, mrd_str_of(key));
    mrd_jw_u64(w, v);
}

/* Returns the number of blocks up to the last one with a count. */
static size_t
blocks_of(const uint32_t *counts)
{
    size_t n = MRD_STEPS_BLOCKS;

    while (n > 0 && counts[n - 1] == 0)
        n--;
    return n;
}

static void
put_times(mrd_jw *w, const char *key, const uint64_t *ns, size_t n)
{
    mrd_jw_key(w, mrd_str_of(key));
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        mrd_jw_u64(w, ns[i]);
    mrd_jw_close(w, ']');
}

static void
put_counts(mrd_jw *w, const char *key, const uint32_t *counts, size_t n)
{
    mrd_jw_key(w, mrd_str_of(key));
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        mrd_jw_u64(w, counts[i]);
    mrd_jw_close(w, ']');
}

static void
put_series(mrd_jw *w, const uint64_t *ns, const uint32_t *counts)
{
    size_t n = blocks_of(counts);

    put_times(w, "blocks_ns", ns, n);
    put_counts(w, "blocks_count", counts, n);
}

/* Writes the own time of a process by part, without the parts that are always 0. */
static void
put_own(mrd_jw *w, const mrd_steps_process *p)
{
    size_t n = blocks_of(p->own_steps);

    put_counts(w, "own_count", p->own_steps, n);
    MRD_JW_KEY(w, "own_ns");
    mrd_jw_open(w, '{');
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        bool any = false;

        for (size_t i = 0; i < n; i++)
            any = any || p->own_ns[k][i] > 0;
        if (any)
            put_times(w, mrd_report_part_text((mrd_report_part) k), p->own_ns[k], n);
    }
    mrd_jw_close(w, '}');
}

static void
put_process(mrd_jw *w, const steps_sink *s, mrd_proc_id id)
{
    const mrd_process *p = mrd_catalog_borrow_process(s->env->catalog, id);
    size_t n;
    const mrd_steps_process *paced = mrd_steps_processes(s->steps, &n);

    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "instance_id");
    mrd_jw_sid(w, p->instance_id);
    mrd_jw_put_i64_or_null(w, MRD_STR("process_id"), p->process_id);
    mrd_jw_put_i64_or_null(w, MRD_STR("rank"), p->rank);
    for (size_t i = 0; i < n; i++) {
        if (paced[i].process != id)
            continue;
        put_u64(w, "steps", paced[i].steps);
        put_u64(w, "total_ns", paced[i].ns);
        put_series(w, paced[i].block_ns, paced[i].block_steps);
        put_own(w, &paced[i]);
    }
    mrd_jw_close(w, '}');
}

/* Numbers the processes with data, from 0 in the order of the catalog. NULL if out of memory. */
static uint32_t *
number_processes(const steps_sink *s, size_t *ret_n)
{
    size_t n, n_paced, all = mrd_catalog_processes(s->env->catalog);
    const mrd_steps_place *places = mrd_steps_places(s->steps, &n);
    const mrd_steps_process *paced = mrd_steps_processes(s->steps, &n_paced);
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
put_places(mrd_jw *w, const steps_sink *s, uint32_t row, const uint32_t *number)
{
    size_t n, lo = 0, hi;
    const mrd_steps_place *places = mrd_steps_places(s->steps, &n);

    for (hi = n; lo < hi;) { /* the first entry of the row */
        size_t mid = lo + (hi - lo) / 2;

        if (places[mid].row < row)
            lo = mid + 1;
        else
            hi = mid;
    }
    MRD_JW_KEY(w, "by_process");
    mrd_jw_open(w, '[');
    for (; lo < n && places[lo].row == row; lo++) {
        mrd_jw_open(w, '[');
        mrd_jw_u64(w, number[places[lo].process]);
        mrd_jw_u64(w, places[lo].calls);
        mrd_jw_u64(w, places[lo].ns);
        mrd_jw_close(w, ']');
    }
    mrd_jw_close(w, ']');
}

static void
put_row(mrd_jw *w, const steps_sink *s, uint32_t i, const uint32_t *number)
{
    const mrd_steps_row *row = mrd_steps_row_at(s->steps, i);

    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "kind");
    mrd_jw_str(w, mrd_str_of(mrd_op_kind_text(row->kind)));
    MRD_JW_KEY(w, "name");
    if (row->kind == MRD_OP_PART)
        mrd_jw_str(w, mrd_str_of(mrd_report_part_text(row->part)));
    else
        mrd_jw_sid(w, row->name);
    mrd_jw_put_i64_or_null(w, MRD_STR("size"), row->size);
    put_u64(w, "count", row->calls);
    put_u64(w, "total_ns", row->ns);
    put_u64(w, "width",
            mrd_steps_totals_of(s->steps)->by_call ? row->width
                                                   : mrd_steps_totals_of(s->steps)->width);
    put_series(w, row->block_ns, row->block_calls);
    if (row->kind != MRD_OP_PART)
        put_places(w, s, i, number);
    mrd_jw_close(w, '}');
}

static void
put_all(mrd_jw *w, const steps_sink *s, const uint32_t *number, size_t n_processes)
{
    const mrd_steps_totals *t = mrd_steps_totals_of(s->steps);

    mrd_jw_open(w, '{');
    mrd_catalog_json(w, s->env->catalog, s->env->profile, "steps");
    MRD_JW_KEY(w, "steps");
    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "unit");
    mrd_jw_str(w, t->by_call ? MRD_STR("call") : MRD_STR("step"));
    MRD_JW_KEY(w, "same_clock");
    mrd_jw_bool(w, s->env->options->same_clock);
    put_u64(w, "width", t->width);
    put_u64(w, "nested_steps", t->nested);
    put_u64(w, "outside_ns", t->outside_ns);
    put_u64(w, "unnamed", t->rest);
    put_u64(w, "without_process", t->unplaced);
    MRD_JW_KEY(w, "processes");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n_processes; i++) {
        if (number[i] != UINT32_MAX)
            put_process(w, s, (mrd_proc_id) i);
    }
    mrd_jw_close(w, ']');
    MRD_JW_KEY(w, "operations");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < mrd_steps_rows(s->steps); i++)
        put_row(w, s, (uint32_t) i, number);
    mrd_jw_close(w, ']');
    mrd_jw_close(w, '}');
    mrd_jw_close(w, '}');
    mrd_jw_end(w);
}

static mrd_err
steps_write(steps_sink *s)
{
    size_t n = 0;
    uint32_t *number = number_processes(s, &n);
    mrd_jw w;

    if (number == NULL)
        return MRD_NOMEM;
    mrd_jw_init(&w, s->env->out, mrd_catalog_strings(s->env->catalog), false);
    put_all(&w, s, number, n);
    mrd_jw_fini(&w);
    free(number);
    return MRD_OK;
}

static mrd_err
steps_close(void *state, mrd_why *why)
{
    steps_sink *s = state;
    mrd_err err = s->steps == NULL ? MRD_NOMEM : mrd_steps_finish(s->steps);

    if (err == MRD_OK)
        err = steps_write(s);
    mrd_steps_free(s->steps);
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
