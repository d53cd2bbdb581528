/*
 * trace/sink/report/sink_report_json.c - report.json: the numbers of trace/analysis/judge/report.h (docs/reference/json.md).
 */
#include "trace/json/catalog_json.h"
#include "trace/sink/report/scope_memory_out.h"
#include "trace/sink/report/sink_report.h"

static void
put_u64(mrd_jw *w, const char *key, uint64_t v)
{
    mrd_jw_key(w, mrd_str_of(key));
    mrd_jw_u64(w, v);
}

/* Writes a time as a string, because doubles cannot hold it exactly. */
static void
put_time(mrd_jw *w, const char *key, int64_t ns)
{
    mrd_jw_key(w, mrd_str_of(key));
    mrd_jw_i64_text(w, ns);
}

static void
put_process(mrd_jw *w, const mrd_catalog *cat, mrd_proc_id process)
{
    const mrd_process *p = mrd_catalog_borrow_process(cat, process);

    MRD_JW_KEY(w, "instance_id");
    mrd_jw_sid(w, p->instance_id);
    mrd_jw_put_i64_or_null(w, MRD_STR("process_id"), p->process_id);
    mrd_jw_put_i64_or_null(w, MRD_STR("rank"), p->rank);
}

/* Writes the excess of a late worker over the median worker. */
static void
put_late(mrd_jw *w, const mrd_catalog *cat, const mrd_report_worker *v)
{
    const mrd_lateness_sum *late = &v->late;

    MRD_JW_KEY(w, "late");
    mrd_jw_open(w, '{');
    put_u64(w, "count", late->count);
    put_u64(w, "unknown", late->unknown);
    put_u64(w, "late_ns", late->late_ns);
    MRD_JW_KEY(w, "parts_ns");
    mrd_jw_open(w, '{');
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        mrd_jw_key(w, mrd_str_of(mrd_report_part_text((mrd_report_part) k)));
        mrd_jw_i64(w, late->part_ns[k]);
    }
    mrd_jw_close(w, '}');
    MRD_JW_KEY(w, "began_later_ns");
    mrd_jw_i64(w, late->began_ns);
    MRD_JW_KEY(w, "host_work");
    if (v->host_work.ns == 0) {
        mrd_jw_null(w);
    } else {
        mrd_jw_open(w, '{');
        MRD_JW_KEY(w, "name");
        mrd_jw_str(w, mrd_catalog_text(cat, v->host_work.name));
        put_u64(w, "ns", v->host_work.ns);
        put_u64(w, "median_ns", v->host_work.median_ns);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, '}');
}

/* Writes null if no launch was recorded. */
static void
put_queue(mrd_jw *w, const mrd_queue_sum *q)
{
    MRD_JW_KEY(w, "queue");
    if (q->launches == 0) {
        mrd_jw_null(w);
        return;
    }
    mrd_jw_open(w, '{');
    put_u64(w, "launches", q->launches);
    put_u64(w, "unknown", q->unknown);
    put_u64(w, "most", q->most);
    put_u64(w, "sum_ns", q->sum_ns);
    put_u64(w, "empty_ns", q->empty_ns);
    put_u64(w, "cut_ns", q->cut_ns);
    mrd_jw_close(w, '}');
}

static void
put_worker(mrd_jw *w, const mrd_catalog *cat, const mrd_report_worker *v,
           const mrd_step_worker *in_steps)
{
    mrd_jw_open(w, '{');
    put_process(w, cat, v->process);
    mrd_jw_put_i64_or_null(w, MRD_STR("lnc_idx"), v->lnc_idx);
    mrd_jw_put_i64_or_null(w, MRD_STR("device_idx"), v->device_idx);
    mrd_jw_put_i64_or_null(w, MRD_STR("worker_gid"), v->worker_gid);
    MRD_JW_KEY(w, "ranks");
    mrd_jw_str(w, v->ranks);
    MRD_JW_KEY(w, "more_work");
    mrd_jw_bool(w, v->more_work);
    put_time(w, "start_ns", v->first.ns);
    put_u64(w, "window_ns", mrd_report_window(v));
    MRD_JW_KEY(w, "parts_ns");
    mrd_jw_open(w, '{');
    for (size_t k = 0; k < MRD_REPORT_PARTS; k++)
        mrd_jw_put_i64_or_null(w, mrd_str_of(mrd_report_part_text((mrd_report_part) k)),
                               v->unmeasured & 1u << k ? MRD_NONE : (int64_t) v->part_ns[k]);
    mrd_jw_close(w, '}');
    MRD_JW_KEY(w, "idle_ns");
    mrd_jw_open(w, '{');
    for (unsigned k = 0; k < MRD_IDLE_CAUSES; k++)
        put_u64(w, mrd_idle_cause_text((mrd_idle_cause) k), v->idle_ns[k]);
    mrd_jw_close(w, '}');
    MRD_JW_KEY(w, "exposed_ns");
    mrd_jw_open(w, '{');
    put_u64(w, "waiting", v->exposed_wait_ns);
    put_u64(w, "transfer", v->exposed_transfer_ns);
    put_u64(w, "unknown",
            v->part_ns[MRD_REPORT_EXPOSED] - v->exposed_wait_ns - v->exposed_transfer_ns);
    mrd_jw_close(w, '}');
    put_u64(w, "lost", v->lost);
    if (v->paused_ns > 0)
        put_u64(w, "paused_ns", v->paused_ns);
    MRD_JW_KEY(w, "collectives");
    mrd_jw_open(w, '{');
    put_u64(w, "took_part", v->took_part);
    put_u64(w, "last", v->came_last);
    put_u64(w, "proven", v->proven);
    put_u64(w, "alone_ns", v->alone_ns);
    put_u64(w, "alone_wait_ns", v->alone_wait_ns);
    put_u64(w, "own_wait_ns", v->own_wait_ns);
    put_u64(w, "longest_wait_ns", v->longest_wait_ns);
    put_u64(w, "caused_ns", v->caused_ns);
    put_u64(w, "proven_ns", v->proven_ns);
    put_u64(w, "wait_ns", v->wait_ns);
    mrd_jw_close(w, '}');
    put_late(w, cat, v);
    put_queue(w, &v->queue);
    MRD_JW_KEY(w, "steps");
    mrd_jw_open(w, '{');
    put_u64(w, "critical_path_ns", in_steps->path_ns);
    put_u64(w, "latest", in_steps->late);
    put_u64(w, "caused_ns", in_steps->caused_ns);
    mrd_jw_close(w, '}');
    mrd_jw_close(w, '}');
}

static void
put_parts(mrd_jw *w, const char *key, const uint64_t *part_ns)
{
    mrd_jw_key(w, mrd_str_of(key));
    mrd_jw_open(w, '{');
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        put_u64(w, mrd_report_part_text((mrd_report_part) k), part_ns[k]);
    mrd_jw_close(w, '}');
}

static void
put_kernels(mrd_jw *w, const mrd_report *r)
{
    size_t n;
    const mrd_kernel *k = mrd_kernels_list(mrd_report_kernels(r), &n);

    MRD_JW_KEY(w, "kernels");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        mrd_jw_open(w, '{');
        MRD_JW_KEY(w, "name");
        mrd_jw_sid(w, k[i].name);
        MRD_JW_KEY(w, "collective");
        mrd_jw_bool(w, k[i].collective);
        MRD_JW_KEY(w, "unclear");
        mrd_jw_bool(w, k[i].unclear);
        put_u64(w, "count", k[i].calls);
        put_u64(w, "total_ns", k[i].ns);
        put_u64(w, "workers", k[i].workers);
        put_u64(w, "median_ns", k[i].median_ns);
        put_u64(w, "most_worker", k[i].most_worker);
        put_u64(w, "most_ns", k[i].most_ns);
        put_u64(w, "most_count", k[i].most_calls);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
    put_u64(w, "other_kernels_ns", mrd_kernels_rest(mrd_report_kernels(r)));
}

/* Writes the path through all steps and through the longest step, or through the recording. */
static void
put_path(mrd_jw *w, const mrd_catalog *cat, const mrd_report *r)
{
    const mrd_step_totals *t = mrd_step_path_totals(mrd_report_path(r));
    const mrd_critical_path *slow = &t->slowest;

    MRD_JW_KEY(w, "critical_path");
    if (slow->ns == 0) {
        mrd_jw_null(w);
        return;
    }
    mrd_jw_open(w, '{');
    put_u64(w, "steps", t->steps);
    if (t->steps > 0)
        put_process(w, cat, t->process);
    put_u64(w, "total_ns", t->path_of_all_ns);
    put_parts(w, "parts_ns", t->path_ns);
    put_u64(w, "maybe_waiting_ns", t->unmet_ns);
    put_u64(w, "changes", t->changes);
    MRD_JW_KEY(w, "longest");
    mrd_jw_open(w, '{');
    put_u64(w, "step", t->slowest_number);
    put_time(w, "start_ns", slow->begin.ns);
    put_u64(w, "duration_ns", slow->ns);
    put_parts(w, "parts_ns", slow->part_ns);
    put_u64(w, "maybe_waiting_ns", slow->unmet_ns);
    put_u64(w, "changes", slow->changes);
    MRD_JW_KEY(w, "workers");
    mrd_jw_open(w, '[');
    for (uint32_t i = 0; i < slow->shares; i++) {
        mrd_jw_open(w, '{');
        put_u64(w, "worker", slow->share[i].worker);
        put_u64(w, "ns", slow->share[i].ns);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
    put_u64(w, "other_workers_ns", slow->rest_ns);
    mrd_jw_close(w, '}');
    mrd_jw_close(w, '}');
}

/* Writes the trend of the blocks' mean step. */
static void
put_trend(mrd_jw *w, const mrd_report *r)
{
    mrd_trend t = mrd_report_trend(r);
    double width = (double) mrd_step_path_totals(mrd_report_path(r))->width;

    MRD_JW_KEY(w, "trend");
    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "says");
    mrd_jw_str(w, mrd_str_of(mrd_trend_text(t.says)));
    put_u64(w, "blocks", t.n);
    mrd_jw_put_i64(w, MRD_STR("s"), t.s);
    MRD_JW_KEY(w, "alike");
    mrd_jw_double(w, t.r);
    MRD_JW_KEY(w, "p");
    mrd_jw_double(w, t.p);
    MRD_JW_KEY(w, "change_ns");
    mrd_jw_double(w, t.change);
    MRD_JW_KEY(w, "ns_per_step");
    mrd_jw_double(w, width > 0 ? t.slope / width : 0);
    mrd_jw_close(w, '}');
}

static void
put_series(mrd_jw *w, const mrd_report *r)
{
    const mrd_step_totals *t = mrd_step_path_totals(mrd_report_path(r));
    size_t n;
    const mrd_step_block *b = mrd_step_path_blocks(mrd_report_path(r), &n);

    MRD_JW_KEY(w, "steps_over_time");
    mrd_jw_open(w, '{');
    put_u64(w, "late_steps", t->late_steps);
    put_u64(w, "late_changed", t->changed);
    put_u64(w, "width", t->width);
    put_trend(w, r);
    MRD_JW_KEY(w, "blocks");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        mrd_jw_open(w, '{');
        put_u64(w, "steps", b[i].steps);
        put_u64(w, "total_ns", b[i].ns);
        put_parts(w, "parts_ns", b[i].part_ns);
        put_parts(w, "path_ns", b[i].path_ns);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
    mrd_jw_close(w, '}');
}

static void
put_collective(mrd_jw *w, const mrd_report_collective *c)
{
    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "name");
    mrd_jw_sid(w, c->name);
    mrd_jw_put_i64_or_null(w, MRD_STR("size"), c->size);
    put_u64(w, "count", c->count);
    put_u64(w, "parts", c->parts);
    put_u64(w, "proven", c->proven);
    put_u64(w, "latency_p50_ns", mrd_hist_quantile(&c->latency, 0.5));
    put_u64(w, "latency_p99_ns", mrd_hist_quantile(&c->latency, 0.99));
    put_u64(w, "spread_p50_ns", mrd_hist_quantile(&c->spread, 0.5));
    put_u64(w, "spread_p99_ns", mrd_hist_quantile(&c->spread, 0.99));
    put_u64(w, "spread_max_ns", c->spread_max_ns);
    put_u64(w, "wait_ns", c->wait_ns);
    MRD_JW_KEY(w, "bandwidth");
    if (c->sized == 0) {
        mrd_jw_null(w);
    } else {
        mrd_jw_open(w, '{');
        put_u64(w, "count", c->sized);
        put_u64(w, "bytes", c->bytes);
        put_u64(w, "latency_ns", c->sized_ns);
        MRD_JW_KEY(w, "algorithm_gb_per_s");
        mrd_jw_double(w, (double) c->bytes / (double) c->sized_ns);
        MRD_JW_KEY(w, "bus_gb_per_s");
        if (c->bus_bytes > 0)
            mrd_jw_double(w, (double) c->bus_bytes / (double) c->sized_ns);
        else
            mrd_jw_null(w);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, '}');
}

static void
put_verdict(mrd_jw *w, const mrd_report *r)
{
    static const char *const text[] = {
        [MRD_VERDICT_NOTHING] = "nothing to compare", [MRD_VERDICT_NONE] = "none",
        [MRD_VERDICT_STILL] = "stands still",         [MRD_VERDICT_ABSENT] = "absent",
        [MRD_VERDICT_MORE_WORK] = "more work",        [MRD_VERDICT_SOMETIMES] = "sometimes",
        [MRD_VERDICT_UNPROVEN] = "indistinguishable", [MRD_VERDICT_LATE] = "late"
    };
    mrd_verdict v = mrd_report_verdict(r);
    mrd_steadiness steady;
    size_t n;
    bool who = v.kind >= MRD_VERDICT_ABSENT;

    MRD_JW_KEY(w, "verdict");
    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "kind");
    mrd_jw_str(w, mrd_str_of(text[v.kind]));
    mrd_jw_put_i64_or_null(w, MRD_STR("worker"), who ? (int64_t) v.worker : MRD_NONE);
    MRD_JW_KEY(w, "share");
    mrd_jw_double(w, v.share);
    MRD_JW_KEY(w, "impact");
    mrd_jw_double(w, v.impact);
    steady = v.kind >= MRD_VERDICT_SOMETIMES || v.kind == MRD_VERDICT_NONE
                 ? mrd_report_workers(r, &n)[v.worker].steady
                 : (mrd_steadiness){ .p = 1 };
    MRD_JW_KEY(w, "chance");
    mrd_jw_double(w, steady.p);
    MRD_JW_KEY(w, "lasts");
    mrd_jw_bool(w, steady.lasts);
    mrd_jw_close(w, '}');
}

static void
put_totals(mrd_jw *w, const mrd_report_totals *t)
{
    MRD_JW_KEY(w, "totals");
    mrd_jw_open(w, '{');
    put_u64(w, "window_ns", t->window_ns);
    put_u64(w, "wait_ns", t->wait_ns);
    put_u64(w, "collectives", t->matched);
    put_u64(w, "ties", t->ties);
    put_u64(w, "proven", t->proven);
    put_u64(w, "proven_unsized", t->proven_unsized);
    put_u64(w, "without_bound", t->no_bound);
    put_u64(w, "suspect_clock", t->suspect);
    put_u64(w, "device_clock", t->mapped);
    put_u64(w, "partial", t->partial);
    mrd_jw_put_i64_or_null(w, MRD_STR("ranks"), t->world_size == 0 ? MRD_NONE : (int64_t) t->ranks);
    mrd_jw_put_i64_or_null(w, MRD_STR("world_size"),
                           t->world_size == 0 ? MRD_NONE : (int64_t) t->world_size);
    put_u64(w, "mixed_groups", t->mixed);
    put_u64(w, "without_partner", t->alone);
    put_u64(w, "loose", t->loose);
    put_u64(w, "left_out", t->left_out);
    put_u64(w, "not_ended", t->open);
    mrd_jw_close(w, '}');
}

static void
put_bounds(mrd_jw *w, const mrd_report *r)
{
    uint64_t ns[MRD_BOUNDS];
    mrd_bound_by first = mrd_report_bottleneck(r);
    bool is_hidden = mrd_report_is_hidden(r);

    mrd_report_bounds(r, ns);
    MRD_JW_KEY(w, "bottleneck");
    if (first == MRD_BOUNDS || is_hidden)
        mrd_jw_null(w);
    else
        mrd_jw_str(w, mrd_str_of(mrd_bound_by_text(first)));
    MRD_JW_KEY(w, "bound_by_ns");
    mrd_jw_open(w, '{');
    for (unsigned k = 0; k < MRD_BOUNDS; k++) {
        mrd_jw_key(w, mrd_str_of(mrd_bound_by_text((mrd_bound_by) k)));
        if (is_hidden)
            mrd_jw_null(w);
        else
            mrd_jw_u64(w, ns[k]);
    }
    mrd_jw_close(w, '}');
}

/* Writes the processes with impossible records. */
static void
put_impossible(mrd_jw *w, const mrd_catalog *cat, const mrd_report *r)
{
    MRD_JW_KEY(w, "impossible");
    mrd_jw_open(w, '[');
    for (mrd_proc_id i = 0; i < mrd_catalog_processes(cat); i++) {
        const mrd_credible_row *row = mrd_report_credible(r, i);

        if (row->inside + row->graphs_empty + row->early + row->steps_empty == 0)
            continue;
        mrd_jw_open(w, '{');
        put_process(w, cat, i);
        put_u64(w, "kernels_inside_one", row->inside);
        put_u64(w, "graph_launches", row->graphs);
        put_u64(w, "graph_launches_without_kernels", row->graphs_empty);
        put_u64(w, "kernels_before_launch", row->early);
        put_u64(w, "kernels_before_launch_by_ns", (uint64_t) row->early_ns);
        put_u64(w, "device_steps", row->steps);
        put_u64(w, "device_steps_without_work", row->steps_empty);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
}

static void
put_steps(mrd_jw *w, const mrd_catalog *cat, const mrd_report *r)
{
    size_t n;
    const mrd_report_pace *p = mrd_report_paces(r, &n);
    const mrd_report_step *s;

    MRD_JW_KEY(w, "steps");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        mrd_jw_open(w, '{');
        put_process(w, cat, p[i].process);
        put_u64(w, "count", p[i].count);
        put_u64(w, "total_ns", p[i].total_ns);
        mrd_jw_put_i64_or_null(w, MRD_STR("min_ns"), p[i].min_ns);
        put_u64(w, "p50_ns", mrd_hist_quantile(&p[i].hist, 0.5));
        put_u64(w, "p99_ns", mrd_hist_quantile(&p[i].hist, 0.99));
        mrd_jw_put_i64_or_null(w, MRD_STR("max_ns"), p[i].max_ns);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
    s = mrd_report_slow_steps(r, &n);
    MRD_JW_KEY(w, "slowest_steps");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        mrd_jw_open(w, '{');
        put_process(w, cat, s[i].process);
        MRD_JW_KEY(w, "name");
        mrd_jw_sid(w, s[i].name);
        put_time(w, "start_ns", s[i].start.ns);
        mrd_jw_put_i64_or_null(w, MRD_STR("duration_ns"), s[i].dur_ns);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
}

static void
put_pauses(mrd_jw *w, const mrd_report *r)
{
    size_t n, n_workers;
    const mrd_report_pause *g = mrd_report_pauses(r, &n);
    const mrd_report_worker *workers = mrd_report_workers(r, &n_workers);

    MRD_JW_KEY(w, "longest_pauses");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        mrd_jw_open(w, '{');
        mrd_jw_put_i64_or_null(w, MRD_STR("worker"), g[i].worker);
        put_time(w, "start_ns", g[i].start.ns);
        mrd_jw_put_i64_or_null(w, MRD_STR("duration_ns"), g[i].dur_ns);
        mrd_jw_put_i64_or_null(w, MRD_STR("host_ns"),
                               workers[g[i].worker].unmeasured & 1u << MRD_REPORT_HOST
                                   ? MRD_NONE
                                   : (int64_t) g[i].host_ns);
        MRD_JW_KEY(w, "after");
        mrd_jw_sid(w, g[i].before);
        MRD_JW_KEY(w, "before");
        mrd_jw_sid(w, g[i].after);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
}

static void
put_open(mrd_jw *w, const mrd_catalog *cat, const mrd_report *r)
{
    const mrd_standstill *still = mrd_report_standstill(r);
    mrd_ev_ns end = mrd_standstill_end(still), since;
    mrd_ended kind;
    size_t n;
    const mrd_at_end *p = mrd_standstill_processes(still, &n);

    MRD_JW_KEY(w, "not_ended");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        if (p[i].open == 0)
            continue;
        mrd_jw_open(w, '{');
        put_process(w, cat, p[i].process);
        mrd_jw_put_i64_or_null(w, MRD_STR("lnc_idx"), p[i].lnc_idx);
        MRD_JW_KEY(w, "name");
        mrd_jw_sid(w, p[i].name);
        put_time(w, "start_ns", p[i].start.ns);
        put_u64(w, "for_ns", (uint64_t) end.ns - (uint64_t) p[i].start.ns);
        put_u64(w, "spans", p[i].open);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
    MRD_JW_KEY(w, "stands_still_since_ns");
    if (mrd_standstill_since(still, &since, &kind))
        mrd_jw_i64_text(w, since.ns);
    else
        mrd_jw_null(w);
}

/* Writes the counters of used memory. */
static void
put_memory(mrd_jw *w, const mrd_report_sink *s)
{
    const mrd_catalog *cat = s->env->catalog;
    size_t n;
    const mrd_memory_row *r = mrd_memory_use_rows(s->memory, &n);

    MRD_JW_KEY(w, "memory");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(cat, r[i].track);
        mrd_trend trend = mrd_memory_trend(&r[i]);
        uint64_t steps = mrd_report_steps_of(s->report, t->process);

        mrd_jw_open(w, '{');
        put_process(w, cat, t->process);
        MRD_JW_KEY(w, "name");
        mrd_jw_sid(w, t->name);
        mrd_jw_put_i64_or_null(w, MRD_STR("device_idx"), t->device_idx);
        put_u64(w, "samples", r[i].samples);
        put_u64(w, "first_bytes", r[i].first);
        put_u64(w, "last_bytes", r[i].last);
        put_u64(w, "peak_bytes", r[i].peak);
        put_time(w, "peak_ns", r[i].peak_at.ns);
        MRD_JW_KEY(w, "trend");
        mrd_jw_str(w, mrd_str_of(mrd_trend_text(trend.says)));
        MRD_JW_KEY(w, "p");
        mrd_jw_double(w, trend.p);
        MRD_JW_KEY(w, "change_bytes");
        mrd_jw_double(w, trend.change);
        MRD_JW_KEY(w, "bytes_per_step");
        if (steps > 0)
            mrd_jw_double(w, trend.change / (double) steps);
        else
            mrd_jw_null(w);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
    put_u64(w, "memory_left_out", mrd_memory_use_left_out(s->memory));
}

static void
put_all(mrd_jw *w, const mrd_report_sink *s)
{
    const mrd_catalog *cat = s->env->catalog;
    size_t n;
    const mrd_report_worker *workers = mrd_report_workers(s->report, &n);
    const mrd_report_collective *collectives;

    mrd_jw_open(w, '{');
    mrd_catalog_json(w, cat, s->env->profile, "report");
    MRD_JW_KEY(w, "report");
    mrd_jw_open(w, '{');
    put_verdict(w, s->report);
    put_bounds(w, s->report);
    put_impossible(w, s->env->catalog, s->report);
    put_totals(w, mrd_report_totals_of(s->report));
    MRD_JW_KEY(w, "same_clock");
    mrd_jw_bool(w, s->env->options->same_clock);
    MRD_JW_KEY(w, "workers");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        put_worker(w, cat, &workers[i],
                   mrd_step_path_worker(mrd_report_path(s->report), (uint32_t) i));
    mrd_jw_close(w, ']');
    collectives = mrd_report_collectives(s->report, &n);
    MRD_JW_KEY(w, "collectives");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        put_collective(w, &collectives[i]);
    mrd_jw_close(w, ']');
    put_kernels(w, s->report);
    put_path(w, cat, s->report);
    put_series(w, s->report);
    put_steps(w, cat, s->report);
    put_pauses(w, s->report);
    put_open(w, cat, s->report);
    put_memory(w, s);
    mrd_scope_memory_json(s->scopes, cat, w);
    mrd_jw_close(w, '}');
    mrd_jw_close(w, '}');
    mrd_jw_end(w);
}

static mrd_err
report_write(void *state)
{
    const mrd_report_sink *s = state;
    mrd_jw w;

    mrd_jw_init(&w, s->env->out, mrd_catalog_strings(s->env->catalog), true);
    put_all(&w, s);
    mrd_jw_fini(&w);
    return MRD_OK;
}

static mrd_err
report_close(void *state, mrd_why *why)
{
    return mrd_report_sink_close(state, report_write, why);
}

const mrd_sink_ops mrd_sink_report_json = {
    .name = "report-json",
    .stem = "report",
    .suffix = ".json",
    .media_type = "application/json",
    .standard = true,
    .what = "the same for scripts",
    .state_size = sizeof(mrd_report_sink),
    .open = mrd_report_sink_open,
    .event = mrd_report_sink_event,
    .close = report_close,
};
