/*
 * trace/sink/report/sink_report_json.c - report.json: the numbers of trace/analysis/judge/report.h
 * (docs/reference/json.md).
 */
#include "trace/json/catalog_json.h"
#include "trace/sink/report/scope_memory_out.h"
#include "trace/sink/report/sink_report.h"

static void
put_u64(mrd_jw *jw, const char *key, uint64_t v)
{
    mrd_jw_key(jw, mrd_str_of(key));
    mrd_jw_u64(jw, v);
}

/* Writes a time in ns as a string, because readers that use doubles cannot represent it exactly. */
static void
put_time(mrd_jw *jw, const char *key, int64_t ns)
{
    mrd_jw_key(jw, mrd_str_of(key));
    mrd_jw_i64_text(jw, ns);
}

static void
put_process(mrd_jw *jw, const mrd_catalog *cat, mrd_proc_id process)
{
    const mrd_process *p = mrd_catalog_borrow_process(cat, process);

    MRD_JW_KEY(jw, "instance_id");
    mrd_jw_sid(jw, p->instance_id);
    mrd_jw_put_i64_or_null(jw, MRD_STR("process_id"), p->process_id);
    mrd_jw_put_i64_or_null(jw, MRD_STR("rank"), p->rank);
}

/* Writes by how much each part of a late worker's time exceeds the median worker's part. */
static void
put_late(mrd_jw *jw, const mrd_catalog *cat, const mrd_report_worker *worker)
{
    const mrd_lateness_sum *late = &worker->late;

    MRD_JW_KEY(jw, "late");
    mrd_jw_open(jw, '{');
    put_u64(jw, "count", late->count);
    put_u64(jw, "unknown", late->unknown);
    put_u64(jw, "late_ns", late->late_ns);
    MRD_JW_KEY(jw, "parts_ns");
    mrd_jw_open(jw, '{');
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        mrd_jw_key(jw, mrd_str_of(mrd_report_part_text((mrd_report_part) k)));
        mrd_jw_i64(jw, late->part_ns[k]);
    }
    mrd_jw_close(jw, '}');
    MRD_JW_KEY(jw, "began_later_ns");
    mrd_jw_i64(jw, late->began_ns);
    MRD_JW_KEY(jw, "host_work");
    if (worker->host_work.ns == 0) {
        mrd_jw_null(jw);
    } else {
        mrd_jw_open(jw, '{');
        MRD_JW_KEY(jw, "name");
        mrd_jw_str(jw, mrd_catalog_text(cat, worker->host_work.name));
        put_u64(jw, "ns", worker->host_work.ns);
        put_u64(jw, "median_ns", worker->host_work.median_ns);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, '}');
}

/* Writes the sums of a launch queue, or null if no launch was recorded. */
static void
put_queue(mrd_jw *jw, const mrd_queue_sum *sum)
{
    MRD_JW_KEY(jw, "queue");
    if (sum->launches == 0) {
        mrd_jw_null(jw);
        return;
    }
    mrd_jw_open(jw, '{');
    put_u64(jw, "launches", sum->launches);
    put_u64(jw, "unknown", sum->unknown);
    put_u64(jw, "most", sum->most);
    put_u64(jw, "sum_ns", sum->sum_ns);
    put_u64(jw, "empty_ns", sum->empty_ns);
    put_u64(jw, "cut_ns", sum->cut_ns);
    mrd_jw_close(jw, '}');
}

static void
put_worker(mrd_jw *jw, const mrd_catalog *cat, const mrd_report_worker *worker,
           const mrd_step_worker *in_steps)
{
    mrd_jw_open(jw, '{');
    put_process(jw, cat, worker->process);
    mrd_jw_put_i64_or_null(jw, MRD_STR("lnc_idx"), worker->lnc_idx);
    mrd_jw_put_i64_or_null(jw, MRD_STR("device_idx"), worker->device_idx);
    mrd_jw_put_i64_or_null(jw, MRD_STR("worker_gid"), worker->worker_gid);
    MRD_JW_KEY(jw, "ranks");
    mrd_jw_str(jw, worker->ranks);
    MRD_JW_KEY(jw, "more_work");
    mrd_jw_bool(jw, worker->more_work);
    put_time(jw, "start_ns", worker->first.ns);
    put_u64(jw, "window_ns", mrd_report_window(worker));
    MRD_JW_KEY(jw, "parts_ns");
    mrd_jw_open(jw, '{');
    for (size_t k = 0; k < MRD_REPORT_PARTS; k++)
        mrd_jw_put_i64_or_null(jw, mrd_str_of(mrd_report_part_text((mrd_report_part) k)),
                               worker->unmeasured & 1u << k ? MRD_NONE
                                                            : (int64_t) worker->part_ns[k]);
    mrd_jw_close(jw, '}');
    MRD_JW_KEY(jw, "idle_ns");
    mrd_jw_open(jw, '{');
    for (unsigned k = 0; k < MRD_IDLE_CAUSES; k++)
        put_u64(jw, mrd_idle_cause_text((mrd_idle_cause) k), worker->idle_ns[k]);
    mrd_jw_close(jw, '}');
    MRD_JW_KEY(jw, "exposed_ns");
    mrd_jw_open(jw, '{');
    put_u64(jw, "waiting", worker->exposed_wait_ns);
    put_u64(jw, "transfer", worker->exposed_transfer_ns);
    put_u64(jw, "unknown",
            worker->part_ns[MRD_REPORT_EXPOSED] - worker->exposed_wait_ns -
                worker->exposed_transfer_ns);
    mrd_jw_close(jw, '}');
    put_u64(jw, "lost", worker->lost);
    if (worker->paused_ns > 0)
        put_u64(jw, "paused_ns", worker->paused_ns);
    MRD_JW_KEY(jw, "collectives");
    mrd_jw_open(jw, '{');
    put_u64(jw, "took_part", worker->took_part);
    put_u64(jw, "last", worker->came_last);
    put_u64(jw, "proven", worker->proven);
    put_u64(jw, "alone_ns", worker->alone_ns);
    put_u64(jw, "alone_wait_ns", worker->alone_wait_ns);
    put_u64(jw, "own_wait_ns", worker->own_wait_ns);
    put_u64(jw, "longest_wait_ns", worker->longest_wait_ns);
    put_u64(jw, "caused_ns", worker->caused_ns);
    put_u64(jw, "proven_ns", worker->proven_ns);
    put_u64(jw, "wait_ns", worker->wait_ns);
    mrd_jw_close(jw, '}');
    put_late(jw, cat, worker);
    put_queue(jw, &worker->queue);
    MRD_JW_KEY(jw, "steps");
    mrd_jw_open(jw, '{');
    put_u64(jw, "critical_path_ns", in_steps->path_ns);
    put_u64(jw, "latest", in_steps->late);
    put_u64(jw, "caused_ns", in_steps->caused_ns);
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, '}');
}

static void
put_parts(mrd_jw *jw, const char *key, const uint64_t *part_ns)
{
    mrd_jw_key(jw, mrd_str_of(key));
    mrd_jw_open(jw, '{');
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        put_u64(jw, mrd_report_part_text((mrd_report_part) k), part_ns[k]);
    mrd_jw_close(jw, '}');
}

static void
put_kernels(mrd_jw *jw, const mrd_report *report)
{
    size_t n;
    const mrd_kernel *kernel = mrd_kernels_list(mrd_report_kernels(report), &n);

    MRD_JW_KEY(jw, "kernels");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < n; i++) {
        mrd_jw_open(jw, '{');
        MRD_JW_KEY(jw, "name");
        mrd_jw_sid(jw, kernel[i].name);
        MRD_JW_KEY(jw, "collective");
        mrd_jw_bool(jw, kernel[i].collective);
        MRD_JW_KEY(jw, "unclear");
        mrd_jw_bool(jw, kernel[i].unclear);
        put_u64(jw, "count", kernel[i].calls);
        put_u64(jw, "total_ns", kernel[i].ns);
        put_u64(jw, "workers", kernel[i].workers);
        put_u64(jw, "median_ns", kernel[i].median_ns);
        put_u64(jw, "most_worker", kernel[i].most_worker);
        put_u64(jw, "most_ns", kernel[i].most_ns);
        put_u64(jw, "most_count", kernel[i].most_calls);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    put_u64(jw, "other_kernels_ns", mrd_kernels_rest(mrd_report_kernels(report)));
}

/* Writes the critical path through all steps and through the longest step. Without steps, writes
 * that through the recording. */
static void
put_path(mrd_jw *jw, const mrd_catalog *cat, const mrd_report *report)
{
    const mrd_step_totals *totals = mrd_step_path_totals(mrd_report_path(report));
    const mrd_critical_path *slow = &totals->slowest;

    MRD_JW_KEY(jw, "critical_path");
    if (slow->ns == 0) {
        mrd_jw_null(jw);
        return;
    }
    mrd_jw_open(jw, '{');
    put_u64(jw, "steps", totals->steps);
    if (totals->steps > 0)
        put_process(jw, cat, totals->process);
    put_u64(jw, "total_ns", totals->path_of_all_ns);
    put_parts(jw, "parts_ns", totals->path_ns);
    put_u64(jw, "maybe_waiting_ns", totals->unmet_ns);
    put_u64(jw, "changes", totals->changes);
    MRD_JW_KEY(jw, "longest");
    mrd_jw_open(jw, '{');
    put_u64(jw, "step", totals->slowest_number);
    put_time(jw, "start_ns", slow->begin.ns);
    put_u64(jw, "duration_ns", slow->ns);
    put_parts(jw, "parts_ns", slow->part_ns);
    put_u64(jw, "maybe_waiting_ns", slow->unmet_ns);
    put_u64(jw, "changes", slow->changes);
    MRD_JW_KEY(jw, "workers");
    mrd_jw_open(jw, '[');
    for (uint32_t i = 0; i < slow->shares; i++) {
        mrd_jw_open(jw, '{');
        put_u64(jw, "worker", slow->share[i].worker);
        put_u64(jw, "ns", slow->share[i].ns);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    put_u64(jw, "other_workers_ns", slow->rest_ns);
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, '}');
}

/* Writes how the mean duration of steps changes over the blocks. */
static void
put_trend(mrd_jw *jw, const mrd_report *report)
{
    mrd_trend trend = mrd_report_trend(report);
    double width = (double) mrd_step_path_totals(mrd_report_path(report))->width;

    MRD_JW_KEY(jw, "trend");
    mrd_jw_open(jw, '{');
    MRD_JW_KEY(jw, "says");
    mrd_jw_str(jw, mrd_str_of(mrd_trend_text(trend.says)));
    put_u64(jw, "blocks", trend.n);
    mrd_jw_put_i64(jw, MRD_STR("s"), trend.s);
    MRD_JW_KEY(jw, "alike");
    mrd_jw_double(jw, trend.r);
    MRD_JW_KEY(jw, "p");
    mrd_jw_double(jw, trend.p);
    MRD_JW_KEY(jw, "change_ns");
    mrd_jw_double(jw, trend.change);
    MRD_JW_KEY(jw, "ns_per_step");
    mrd_jw_double(jw, width > 0 ? trend.slope / width : 0);
    mrd_jw_close(jw, '}');
}

static void
put_series(mrd_jw *jw, const mrd_report *report)
{
    const mrd_step_totals *totals = mrd_step_path_totals(mrd_report_path(report));
    size_t n;
    const mrd_step_block *block = mrd_step_path_blocks(mrd_report_path(report), &n);

    MRD_JW_KEY(jw, "steps_over_time");
    mrd_jw_open(jw, '{');
    put_u64(jw, "late_steps", totals->late_steps);
    put_u64(jw, "late_changed", totals->changed);
    put_u64(jw, "width", totals->width);
    put_trend(jw, report);
    MRD_JW_KEY(jw, "blocks");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < n; i++) {
        mrd_jw_open(jw, '{');
        put_u64(jw, "steps", block[i].steps);
        put_u64(jw, "total_ns", block[i].ns);
        put_parts(jw, "parts_ns", block[i].part_ns);
        put_parts(jw, "path_ns", block[i].path_ns);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    mrd_jw_close(jw, '}');
}

static void
put_collective(mrd_jw *jw, const mrd_report_collective *collective)
{
    mrd_jw_open(jw, '{');
    MRD_JW_KEY(jw, "name");
    mrd_jw_sid(jw, collective->name);
    mrd_jw_put_i64_or_null(jw, MRD_STR("size"), collective->size);
    put_u64(jw, "count", collective->count);
    put_u64(jw, "parts", collective->parts);
    put_u64(jw, "proven", collective->proven);
    put_u64(jw, "latency_p50_ns", mrd_hist_quantile(&collective->latency, 0.5));
    put_u64(jw, "latency_p99_ns", mrd_hist_quantile(&collective->latency, 0.99));
    put_u64(jw, "spread_p50_ns", mrd_hist_quantile(&collective->spread, 0.5));
    put_u64(jw, "spread_p99_ns", mrd_hist_quantile(&collective->spread, 0.99));
    put_u64(jw, "spread_max_ns", collective->spread_max_ns);
    put_u64(jw, "wait_ns", collective->wait_ns);
    MRD_JW_KEY(jw, "bandwidth");
    if (collective->sized == 0) {
        mrd_jw_null(jw);
    } else {
        mrd_jw_open(jw, '{');
        put_u64(jw, "count", collective->sized);
        put_u64(jw, "bytes", collective->bytes);
        put_u64(jw, "latency_ns", collective->sized_ns);
        MRD_JW_KEY(jw, "algorithm_gb_per_s");
        mrd_jw_double(jw, (double) collective->bytes / (double) collective->sized_ns);
        MRD_JW_KEY(jw, "bus_gb_per_s");
        if (collective->bus_bytes > 0)
            mrd_jw_double(jw, (double) collective->bus_bytes / (double) collective->sized_ns);
        else
            mrd_jw_null(jw);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, '}');
}

static void
put_verdict(mrd_jw *jw, const mrd_report *report)
{
    static const char *const text[] = {
        [MRD_VERDICT_NOTHING] = "nothing to compare", [MRD_VERDICT_NONE] = "none",
        [MRD_VERDICT_STILL] = "stands still",         [MRD_VERDICT_ABSENT] = "absent",
        [MRD_VERDICT_MORE_WORK] = "more work",        [MRD_VERDICT_SOMETIMES] = "sometimes",
        [MRD_VERDICT_UNPROVEN] = "indistinguishable", [MRD_VERDICT_LATE] = "late"
    };
    mrd_verdict verdict = mrd_report_verdict(report);
    mrd_steadiness steady;
    size_t n;
    bool who = verdict.kind >= MRD_VERDICT_ABSENT;

    MRD_JW_KEY(jw, "verdict");
    mrd_jw_open(jw, '{');
    MRD_JW_KEY(jw, "kind");
    mrd_jw_str(jw, mrd_str_of(text[verdict.kind]));
    mrd_jw_put_i64_or_null(jw, MRD_STR("worker"), who ? (int64_t) verdict.worker : MRD_NONE);
    MRD_JW_KEY(jw, "share");
    mrd_jw_double(jw, verdict.share);
    MRD_JW_KEY(jw, "impact");
    mrd_jw_double(jw, verdict.impact);
    steady = verdict.kind >= MRD_VERDICT_SOMETIMES || verdict.kind == MRD_VERDICT_NONE
                 ? mrd_report_workers(report, &n)[verdict.worker].steady
                 : (mrd_steadiness){ .p = 1 };
    MRD_JW_KEY(jw, "chance");
    mrd_jw_double(jw, steady.p);
    MRD_JW_KEY(jw, "lasts");
    mrd_jw_bool(jw, steady.lasts);
    mrd_jw_close(jw, '}');
}

static void
put_totals(mrd_jw *jw, const mrd_report_totals *totals)
{
    MRD_JW_KEY(jw, "totals");
    mrd_jw_open(jw, '{');
    put_u64(jw, "window_ns", totals->window_ns);
    put_u64(jw, "wait_ns", totals->wait_ns);
    put_u64(jw, "collectives", totals->matched);
    put_u64(jw, "ties", totals->ties);
    put_u64(jw, "proven", totals->proven);
    put_u64(jw, "proven_unsized", totals->proven_unsized);
    put_u64(jw, "without_bound", totals->no_bound);
    put_u64(jw, "suspect_clock", totals->suspect);
    put_u64(jw, "device_clock", totals->mapped);
    put_u64(jw, "partial", totals->partial);
    mrd_jw_put_i64_or_null(jw, MRD_STR("ranks"),
                           totals->world_size == 0 ? MRD_NONE : (int64_t) totals->ranks);
    mrd_jw_put_i64_or_null(jw, MRD_STR("world_size"),
                           totals->world_size == 0 ? MRD_NONE : (int64_t) totals->world_size);
    put_u64(jw, "mixed_groups", totals->mixed);
    put_u64(jw, "without_partner", totals->alone);
    put_u64(jw, "loose", totals->loose);
    put_u64(jw, "left_out", totals->left_out);
    put_u64(jw, "not_ended", totals->open);
    mrd_jw_close(jw, '}');
}

static void
put_bounds(mrd_jw *jw, const mrd_report *report)
{
    uint64_t ns[MRD_BOUNDS];
    mrd_bound_by first = mrd_report_bottleneck(report);
    bool is_hidden = mrd_report_is_hidden(report);

    mrd_report_bounds(report, ns);
    MRD_JW_KEY(jw, "bottleneck");
    if (first == MRD_BOUNDS || is_hidden)
        mrd_jw_null(jw);
    else
        mrd_jw_str(jw, mrd_str_of(mrd_bound_by_text(first)));
    MRD_JW_KEY(jw, "bound_by_ns");
    mrd_jw_open(jw, '{');
    for (unsigned k = 0; k < MRD_BOUNDS; k++) {
        mrd_jw_key(jw, mrd_str_of(mrd_bound_by_text((mrd_bound_by) k)));
        if (is_hidden)
            mrd_jw_null(jw);
        else
            mrd_jw_u64(jw, ns[k]);
    }
    mrd_jw_close(jw, '}');
}

/* Writes the processes that have impossible records. */
static void
put_impossible(mrd_jw *jw, const mrd_catalog *cat, const mrd_report *report)
{
    MRD_JW_KEY(jw, "impossible");
    mrd_jw_open(jw, '[');
    for (mrd_proc_id id = 0; id < mrd_catalog_processes(cat); id++) {
        const mrd_credible_row *row = mrd_report_credible(report, id);

        if (row->inside + row->graphs_empty + row->early + row->steps_empty == 0)
            continue;
        mrd_jw_open(jw, '{');
        put_process(jw, cat, id);
        put_u64(jw, "kernels_inside_one", row->inside);
        put_u64(jw, "graph_launches", row->graphs);
        put_u64(jw, "graph_launches_without_kernels", row->graphs_empty);
        put_u64(jw, "kernels_before_launch", row->early);
        put_u64(jw, "kernels_before_launch_by_ns", (uint64_t) row->early_ns);
        put_u64(jw, "device_steps", row->steps);
        put_u64(jw, "device_steps_without_work", row->steps_empty);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
}

static void
put_steps(mrd_jw *jw, const mrd_catalog *cat, const mrd_report *report)
{
    size_t count;
    const mrd_report_pace *pace = mrd_report_paces(report, &count);
    const mrd_report_step *step;

    MRD_JW_KEY(jw, "steps");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < count; i++) {
        mrd_jw_open(jw, '{');
        put_process(jw, cat, pace[i].process);
        put_u64(jw, "count", pace[i].count);
        put_u64(jw, "total_ns", pace[i].total_ns);
        mrd_jw_put_i64_or_null(jw, MRD_STR("min_ns"), pace[i].min_ns);
        put_u64(jw, "p50_ns", mrd_hist_quantile(&pace[i].hist, 0.5));
        put_u64(jw, "p99_ns", mrd_hist_quantile(&pace[i].hist, 0.99));
        mrd_jw_put_i64_or_null(jw, MRD_STR("max_ns"), pace[i].max_ns);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    step = mrd_report_slow_steps(report, &count);
    MRD_JW_KEY(jw, "slowest_steps");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < count; i++) {
        mrd_jw_open(jw, '{');
        put_process(jw, cat, step[i].process);
        MRD_JW_KEY(jw, "name");
        mrd_jw_sid(jw, step[i].name);
        put_time(jw, "start_ns", step[i].start.ns);
        mrd_jw_put_i64_or_null(jw, MRD_STR("duration_ns"), step[i].dur_ns);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
}

static void
put_pauses(mrd_jw *jw, const mrd_report *report)
{
    size_t n, n_workers;
    const mrd_report_pause *pause = mrd_report_pauses(report, &n);
    const mrd_report_worker *workers = mrd_report_workers(report, &n_workers);

    MRD_JW_KEY(jw, "longest_pauses");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < n; i++) {
        mrd_jw_open(jw, '{');
        mrd_jw_put_i64_or_null(jw, MRD_STR("worker"), pause[i].worker);
        put_time(jw, "start_ns", pause[i].start.ns);
        mrd_jw_put_i64_or_null(jw, MRD_STR("duration_ns"), pause[i].dur_ns);
        mrd_jw_put_i64_or_null(jw, MRD_STR("host_ns"),
                               workers[pause[i].worker].unmeasured & 1u << MRD_REPORT_HOST
                                   ? MRD_NONE
                                   : (int64_t) pause[i].host_ns);
        MRD_JW_KEY(jw, "after");
        mrd_jw_sid(jw, pause[i].before);
        MRD_JW_KEY(jw, "before");
        mrd_jw_sid(jw, pause[i].after);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
}

static void
put_open(mrd_jw *jw, const mrd_catalog *cat, const mrd_report *report)
{
    const mrd_standstill *still = mrd_report_standstill(report);
    mrd_ev_ns end = mrd_standstill_end(still), since;
    mrd_ended kind;
    size_t n;
    const mrd_at_end *at_end = mrd_standstill_processes(still, &n);

    MRD_JW_KEY(jw, "not_ended");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < n; i++) {
        if (at_end[i].open == 0)
            continue;
        mrd_jw_open(jw, '{');
        put_process(jw, cat, at_end[i].process);
        mrd_jw_put_i64_or_null(jw, MRD_STR("lnc_idx"), at_end[i].lnc_idx);
        MRD_JW_KEY(jw, "name");
        mrd_jw_sid(jw, at_end[i].name);
        put_time(jw, "start_ns", at_end[i].start.ns);
        put_u64(jw, "for_ns", (uint64_t) end.ns - (uint64_t) at_end[i].start.ns);
        put_u64(jw, "spans", at_end[i].open);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    MRD_JW_KEY(jw, "stands_still_since_ns");
    if (mrd_standstill_since(still, &since, &kind))
        mrd_jw_i64_text(jw, since.ns);
    else
        mrd_jw_null(jw);
}

/* Writes what the counters of used memory show. */
static void
put_memory(mrd_jw *jw, const mrd_report_sink *sink)
{
    const mrd_catalog *cat = sink->env->catalog;
    size_t n;
    const mrd_memory_row *row = mrd_memory_use_rows(sink->memory, &n);

    MRD_JW_KEY(jw, "memory");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < n; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, row[i].track);
        mrd_trend trend = mrd_memory_trend(&row[i]);
        uint64_t steps = mrd_report_steps_of(sink->report, track->process);

        mrd_jw_open(jw, '{');
        put_process(jw, cat, track->process);
        MRD_JW_KEY(jw, "name");
        mrd_jw_sid(jw, track->name);
        mrd_jw_put_i64_or_null(jw, MRD_STR("device_idx"), track->device_idx);
        put_u64(jw, "samples", row[i].samples);
        put_u64(jw, "first_bytes", row[i].first);
        put_u64(jw, "last_bytes", row[i].last);
        put_u64(jw, "peak_bytes", row[i].peak);
        put_time(jw, "peak_ns", row[i].peak_at.ns);
        MRD_JW_KEY(jw, "trend");
        mrd_jw_str(jw, mrd_str_of(mrd_trend_text(trend.says)));
        MRD_JW_KEY(jw, "p");
        mrd_jw_double(jw, trend.p);
        MRD_JW_KEY(jw, "change_bytes");
        mrd_jw_double(jw, trend.change);
        MRD_JW_KEY(jw, "bytes_per_step");
        if (steps > 0)
            mrd_jw_double(jw, trend.change / (double) steps);
        else
            mrd_jw_null(jw);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    put_u64(jw, "memory_left_out", mrd_memory_use_left_out(sink->memory));
}

static void
put_all(mrd_jw *jw, const mrd_report_sink *sink)
{
    const mrd_catalog *cat = sink->env->catalog;
    size_t count;
    const mrd_report_worker *workers = mrd_report_workers(sink->report, &count);
    const mrd_report_collective *collectives;

    mrd_jw_open(jw, '{');
    mrd_catalog_json(jw, cat, sink->env->profile, "report");
    MRD_JW_KEY(jw, "report");
    mrd_jw_open(jw, '{');
    put_verdict(jw, sink->report);
    put_bounds(jw, sink->report);
    put_impossible(jw, sink->env->catalog, sink->report);
    put_totals(jw, mrd_report_totals_of(sink->report));
    MRD_JW_KEY(jw, "same_clock");
    mrd_jw_bool(jw, sink->env->options->same_clock);
    MRD_JW_KEY(jw, "workers");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < count; i++)
        put_worker(jw, cat, &workers[i],
                   mrd_step_path_worker(mrd_report_path(sink->report), (uint32_t) i));
    mrd_jw_close(jw, ']');
    collectives = mrd_report_collectives(sink->report, &count);
    MRD_JW_KEY(jw, "collectives");
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < count; i++)
        put_collective(jw, &collectives[i]);
    mrd_jw_close(jw, ']');
    put_kernels(jw, sink->report);
    put_path(jw, cat, sink->report);
    put_series(jw, sink->report);
    put_steps(jw, cat, sink->report);
    put_pauses(jw, sink->report);
    put_open(jw, cat, sink->report);
    put_memory(jw, sink);
    mrd_scope_memory_json(sink->scopes, cat, jw);
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, '}');
    mrd_jw_end(jw);
}

static mrd_err
report_write(void *state)
{
    const mrd_report_sink *sink = state;
    mrd_jw jw;

    mrd_jw_init(&jw, sink->env->out, mrd_catalog_strings(sink->env->catalog), true);
    put_all(&jw, sink);
    mrd_jw_fini(&jw);
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
