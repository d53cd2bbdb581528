/*
 * trace/sink/report/sink_report_json.c - writes report.json: the numbers of
 * trace/analysis/judge/report.h (docs/reference/json.md). Times in ns are strings, because readers
 * that use doubles cannot represent them exactly.
 */
#include "trace/json/catalog_json.h"
#include "trace/sink/report/scope_memory_out.h"
#include "trace/sink/report/sink_report.h"

static void
put_process(mrd_jw *jw, const mrd_catalog *cat, mrd_proc_id process)
{
    const mrd_process *p = mrd_catalog_borrow_process(cat, process);

    MRD_JW_PUT(jw, "instance_id", sid, p->instance_id);
    mrd_jw_put_i64_or_null(jw, MRD_STR("process_id"), p->process_id);
    mrd_jw_put_i64_or_null(jw, MRD_STR("rank"), p->rank);
}

/* Writes for a late worker how much each part of its time exceeds that of the median worker. */
static void
put_late(mrd_jw *jw, const mrd_catalog *cat, const mrd_report_worker *worker)
{
    const mrd_lateness_sum *late = &worker->late;

    MRD_JW_PUT(jw, "late", open, '{');
    MRD_JW_PUT(jw, "count", u64, late->count);
    MRD_JW_PUT(jw, "unknown", u64, late->unknown);
    MRD_JW_PUT(jw, "late_ns", u64, late->late_ns);
    MRD_JW_PUT(jw, "parts_ns", open, '{');
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        mrd_jw_key(jw, mrd_str_of(mrd_report_part_text((mrd_report_part) k)));
        mrd_jw_i64(jw, late->part_ns[k]);
    }
    mrd_jw_close(jw, '}');
    MRD_JW_PUT(jw, "began_later_ns", i64, late->began_ns);
    MRD_JW_KEY(jw, "host_work");
    if (worker->host_work.ns == 0) {
        mrd_jw_null(jw);
    } else {
        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "name", str, mrd_catalog_text(cat, worker->host_work.name));
        MRD_JW_PUT(jw, "ns", u64, worker->host_work.ns);
        MRD_JW_PUT(jw, "median_ns", u64, worker->host_work.median_ns);
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
    MRD_JW_PUT(jw, "launches", u64, sum->launches);
    MRD_JW_PUT(jw, "unknown", u64, sum->unknown);
    MRD_JW_PUT(jw, "most", u64, sum->most);
    MRD_JW_PUT(jw, "sum_ns", u64, sum->sum_ns);
    MRD_JW_PUT(jw, "empty_ns", u64, sum->empty_ns);
    MRD_JW_PUT(jw, "cut_ns", u64, sum->cut_ns);
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
    MRD_JW_PUT(jw, "ranks", str, worker->ranks);
    MRD_JW_PUT(jw, "more_work", bool, worker->more_work);
    MRD_JW_PUT(jw, "start_ns", i64_text, worker->first.ns);
    MRD_JW_PUT(jw, "window_ns", u64, mrd_report_window(worker));
    MRD_JW_PUT(jw, "parts_ns", open, '{');
    for (size_t k = 0; k < MRD_REPORT_PARTS; k++)
        mrd_jw_put_i64_or_null(jw, mrd_str_of(mrd_report_part_text((mrd_report_part) k)),
                               worker->unmeasured & 1u << k ? MRD_NONE
                                                            : (int64_t) worker->part_ns[k]);
    mrd_jw_close(jw, '}');
    MRD_JW_PUT(jw, "idle_ns", open, '{');
    for (unsigned k = 0; k < MRD_IDLE_CAUSES; k++) {
        mrd_jw_key(jw, mrd_str_of(mrd_idle_cause_text((mrd_idle_cause) k)));
        mrd_jw_u64(jw, worker->idle_ns[k]);
    }
    mrd_jw_close(jw, '}');
    MRD_JW_PUT(jw, "exposed_ns", open, '{');
    MRD_JW_PUT(jw, "waiting", u64, worker->exposed_wait_ns);
    MRD_JW_PUT(jw, "transfer", u64, worker->exposed_transfer_ns);
    MRD_JW_PUT(jw, "unknown", u64,
               worker->part_ns[MRD_REPORT_EXPOSED] - worker->exposed_wait_ns -
                   worker->exposed_transfer_ns);
    mrd_jw_close(jw, '}');
    MRD_JW_PUT(jw, "lost", u64, worker->lost);
    if (worker->paused_ns > 0)
        MRD_JW_PUT(jw, "paused_ns", u64, worker->paused_ns);
    MRD_JW_PUT(jw, "collectives", open, '{');
    MRD_JW_PUT(jw, "took_part", u64, worker->took_part);
    MRD_JW_PUT(jw, "last", u64, worker->came_last);
    MRD_JW_PUT(jw, "proven", u64, worker->proven);
    MRD_JW_PUT(jw, "alone_ns", u64, worker->alone_ns);
    MRD_JW_PUT(jw, "alone_wait_ns", u64, worker->alone_wait_ns);
    MRD_JW_PUT(jw, "own_wait_ns", u64, worker->own_wait_ns);
    MRD_JW_PUT(jw, "longest_wait_ns", u64, worker->longest_wait_ns);
    MRD_JW_PUT(jw, "caused_ns", u64, worker->caused_ns);
    MRD_JW_PUT(jw, "proven_ns", u64, worker->proven_ns);
    MRD_JW_PUT(jw, "wait_ns", u64, worker->wait_ns);
    mrd_jw_close(jw, '}');
    put_late(jw, cat, worker);
    put_queue(jw, &worker->queue);
    MRD_JW_PUT(jw, "steps", open, '{');
    MRD_JW_PUT(jw, "critical_path_ns", u64, in_steps->path_ns);
    MRD_JW_PUT(jw, "latest", u64, in_steps->late);
    MRD_JW_PUT(jw, "caused_ns", u64, in_steps->caused_ns);
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, '}');
}

static void
put_parts(mrd_jw *jw, const char *key, const uint64_t *part_ns)
{
    mrd_jw_key(jw, mrd_str_of(key));
    mrd_jw_open(jw, '{');
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        mrd_jw_key(jw, mrd_str_of(mrd_report_part_text((mrd_report_part) k)));
        mrd_jw_u64(jw, part_ns[k]);
    }
    mrd_jw_close(jw, '}');
}

static void
put_kernels(mrd_jw *jw, const mrd_report *report)
{
    size_t n;
    const mrd_kernel *kernel = mrd_kernels_list(mrd_report_kernels(report), &n);

    MRD_JW_PUT(jw, "kernels", open, '[');
    for (size_t i = 0; i < n; i++) {
        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "name", sid, kernel[i].name);
        MRD_JW_PUT(jw, "collective", bool, kernel[i].collective);
        MRD_JW_PUT(jw, "unclear", bool, kernel[i].unclear);
        MRD_JW_PUT(jw, "count", u64, kernel[i].calls);
        MRD_JW_PUT(jw, "total_ns", u64, kernel[i].ns);
        MRD_JW_PUT(jw, "workers", u64, kernel[i].workers);
        MRD_JW_PUT(jw, "median_ns", u64, kernel[i].median_ns);
        MRD_JW_PUT(jw, "most_worker", u64, kernel[i].most_worker);
        MRD_JW_PUT(jw, "most_ns", u64, kernel[i].most_ns);
        MRD_JW_PUT(jw, "most_count", u64, kernel[i].most_calls);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    MRD_JW_PUT(jw, "other_kernels_ns", u64, mrd_kernels_rest(mrd_report_kernels(report)));
}

/* Writes the critical path through all steps, and that of the longest step. In a recording without
 * steps, it is the path through the recording. */
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
    MRD_JW_PUT(jw, "steps", u64, totals->steps);
    if (totals->steps > 0)
        put_process(jw, cat, totals->process);
    MRD_JW_PUT(jw, "total_ns", u64, totals->path_of_all_ns);
    put_parts(jw, "parts_ns", totals->path_ns);
    MRD_JW_PUT(jw, "maybe_waiting_ns", u64, totals->unmet_ns);
    MRD_JW_PUT(jw, "changes", u64, totals->changes);
    MRD_JW_PUT(jw, "longest", open, '{');
    MRD_JW_PUT(jw, "step", u64, totals->slowest_number);
    MRD_JW_PUT(jw, "start_ns", i64_text, slow->begin.ns);
    MRD_JW_PUT(jw, "duration_ns", u64, slow->ns);
    put_parts(jw, "parts_ns", slow->part_ns);
    MRD_JW_PUT(jw, "maybe_waiting_ns", u64, slow->unmet_ns);
    MRD_JW_PUT(jw, "changes", u64, slow->changes);
    MRD_JW_PUT(jw, "workers", open, '[');
    for (uint32_t i = 0; i < slow->shares; i++) {
        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "worker", u64, slow->share[i].worker);
        MRD_JW_PUT(jw, "ns", u64, slow->share[i].ns);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    MRD_JW_PUT(jw, "other_workers_ns", u64, slow->rest_ns);
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, '}');
}

/* Writes the changes of a level as an array, with the steps of `path` in which they are. */
static void
put_changes(mrd_jw *jw, const mrd_step_path *path, const mrd_onset_result *changes)
{
    MRD_JW_PUT(jw, "changes", open, '[');
    for (size_t i = 0; i < changes->n; i++) {
        const mrd_onset_change *change = &changes->change[i];

        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "at_ns", i64_text, change->at.ns);
        MRD_JW_PUT(jw, "step", u64, mrd_step_path_at(path, change->at));
        MRD_JW_PUT(jw, "before_ns", double, change->before_ns);
        MRD_JW_PUT(jw, "after_ns", double, change->after_ns);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
}

/* Writes since when the worker of the verdict is late; null if no worker was tested. */
static void
put_since(mrd_jw *jw, const mrd_report *report, bool tested)
{
    const mrd_onset_result *since = &mrd_report_totals_of(report)->late_since;
    static const char *const text[] = {
        [MRD_ONSET_UNKNOWN] = "too few",      [MRD_ONSET_ALWAYS] = "no change",
        [MRD_ONSET_SINCE] = "since",          [MRD_ONSET_UNTIL] = "until",
        [MRD_ONSET_BETWEEN] = "between",      [MRD_ONSET_PAUSED] = "not between",
        [MRD_ONSET_OFTEN] = "several changes"
    };

    MRD_JW_KEY(jw, "since");
    if (!tested) {
        mrd_jw_null(jw);
        return;
    }
    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "kind", str, mrd_str_of(text[since->kind]));
    put_changes(jw, mrd_report_path(report), since);
    mrd_jw_close(jw, '}');
}

/* Writes the trend of the steps' mean duration. */
static void
put_trend(mrd_jw *jw, const mrd_report *report)
{
    mrd_trend trend = mrd_step_path_trend(mrd_report_path(report));
    double width = (double) mrd_step_path_totals(mrd_report_path(report))->width;

    MRD_JW_PUT(jw, "trend", open, '{');
    MRD_JW_PUT(jw, "says", str, mrd_str_of(mrd_trend_text(trend.says)));
    MRD_JW_PUT(jw, "blocks", u64, trend.n);
    mrd_jw_put_i64(jw, MRD_STR("s"), trend.s);
    MRD_JW_PUT(jw, "alike", double, trend.r);
    MRD_JW_PUT(jw, "p", double, trend.p);
    MRD_JW_PUT(jw, "change_ns", double, trend.change);
    MRD_JW_PUT(jw, "ns_per_step", double, width > 0 ? trend.slope / width : 0);
    put_changes(jw, mrd_report_path(report), &mrd_report_totals_of(report)->step_changes);
    mrd_jw_close(jw, '}');
}

static void
put_series(mrd_jw *jw, const mrd_report *report)
{
    const mrd_step_totals *totals = mrd_step_path_totals(mrd_report_path(report));
    size_t n;
    const mrd_step_block *block = mrd_step_path_blocks(mrd_report_path(report), &n);

    MRD_JW_PUT(jw, "steps_over_time", open, '{');
    MRD_JW_PUT(jw, "late_steps", u64, totals->late_steps);
    MRD_JW_PUT(jw, "late_changed", u64, totals->changed);
    MRD_JW_PUT(jw, "width", u64, totals->width);
    put_trend(jw, report);
    MRD_JW_PUT(jw, "blocks", open, '[');
    for (size_t i = 0; i < n; i++) {
        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "name", sid, block[i].name);
        MRD_JW_PUT(jw, "steps", u64, block[i].steps);
        MRD_JW_PUT(jw, "total_ns", u64, block[i].ns);
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
    MRD_JW_PUT(jw, "name", sid, collective->name);
    mrd_jw_put_i64_or_null(jw, MRD_STR("size"), collective->size);
    MRD_JW_PUT(jw, "count", u64, collective->count);
    MRD_JW_PUT(jw, "parts", u64, collective->parts);
    MRD_JW_PUT(jw, "proven", u64, collective->proven);
    MRD_JW_PUT(jw, "latency_p50_ns", u64, mrd_hist_quantile(&collective->latency, 0.5));
    MRD_JW_PUT(jw, "latency_p99_ns", u64, mrd_hist_quantile(&collective->latency, 0.99));
    MRD_JW_PUT(jw, "spread_p50_ns", u64, mrd_hist_quantile(&collective->spread, 0.5));
    MRD_JW_PUT(jw, "spread_p99_ns", u64, mrd_hist_quantile(&collective->spread, 0.99));
    MRD_JW_PUT(jw, "spread_max_ns", u64, collective->spread_max_ns);
    MRD_JW_PUT(jw, "wait_ns", u64, collective->wait_ns);
    MRD_JW_KEY(jw, "bandwidth");
    if (collective->sized == 0) {
        mrd_jw_null(jw);
    } else {
        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "count", u64, collective->sized);
        MRD_JW_PUT(jw, "bytes", u64, collective->bytes);
        MRD_JW_PUT(jw, "latency_ns", u64, collective->sized_ns);
        MRD_JW_PUT(jw, "algorithm_gb_per_s", double,
                   (double) collective->bytes / (double) collective->sized_ns);
        MRD_JW_KEY(jw, "bus_gb_per_s");
        if (collective->bus_bytes > 0)
            mrd_jw_double(jw, (double) collective->bus_bytes / (double) collective->sized_ns);
        else
            mrd_jw_null(jw);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, '}');
}

/* Writes the workers for which the others waited in the last collective. */
static void
put_absent(mrd_jw *jw, const mrd_report_absence *absence)
{
    static const char *const text[] = { [MRD_ABSENT_NEVER] = "not entered",
                                        [MRD_ABSENT_OTHER] = "other operation",
                                        [MRD_ABSENT_LATE] = "late",
                                        [MRD_ABSENT_UNSEEN] = "unseen" };

    MRD_JW_PUT(jw, "absent", open, '[');
    for (uint32_t i = 0; i < absence->workers && i < MRD_REPORT_ABSENTS; i++) {
        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "worker", u64, absence->absents[i].worker);
        MRD_JW_PUT(jw, "kind", str, mrd_str_of(text[absence->absents[i].kind]));
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
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

    MRD_JW_PUT(jw, "verdict", open, '{');
    MRD_JW_PUT(jw, "kind", str, mrd_str_of(text[verdict.kind]));
    mrd_jw_put_i64_or_null(jw, MRD_STR("worker"), who ? (int64_t) verdict.worker : MRD_NONE);
    MRD_JW_PUT(jw, "share", double, verdict.share);
    MRD_JW_PUT(jw, "impact", double, verdict.impact);
    steady = verdict.kind >= MRD_VERDICT_SOMETIMES || verdict.kind == MRD_VERDICT_NONE
                 ? mrd_report_workers(report, &n)[verdict.worker].steady
                 : (mrd_steadiness){ .p = 1 };
    MRD_JW_PUT(jw, "chance", double, steady.p);
    MRD_JW_PUT(jw, "lasts", bool, steady.lasts);
    put_since(jw, report, verdict.kind >= MRD_VERDICT_SOMETIMES);
    if (verdict.kind == MRD_VERDICT_ABSENT)
        put_absent(jw, &mrd_report_totals_of(report)->absence);
    mrd_jw_close(jw, '}');
}

/* Writes how long steps would be without stragglers; null if this is unknown. */
static void
put_what_if(mrd_jw *jw, const mrd_slowdown *slowdown)
{
    bool has_stage = slowdown->has_shares && slowdown->last_stage != MRD_NONE;

    MRD_JW_KEY(jw, "what_if");
    if (slowdown->steps == 0) {
        mrd_jw_null(jw);
        return;
    }
    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "steps", u64, slowdown->steps);
    MRD_JW_PUT(jw, "step_ns", u64, (uint64_t) slowdown->step_ns);
    MRD_JW_PUT(jw, "ideal_step_ns", u64, (uint64_t) slowdown->ideal_ns);
    MRD_JW_PUT(jw, "slowdown", double, slowdown->step_ns / slowdown->ideal_ns);
    mrd_jw_put_i64_or_null(jw, MRD_STR("worker"),
                           slowdown->has_shares ? (int64_t) slowdown->worker : MRD_NONE);
    MRD_JW_PUT(jw, "slowest", u64, slowdown->slowest);
    MRD_JW_KEY(jw, "slowest_share");
    if (slowdown->has_shares)
        mrd_jw_double(jw, slowdown->slowest_share);
    else
        mrd_jw_null(jw);
    mrd_jw_put_i64_or_null(jw, MRD_STR("last_stage"), slowdown->last_stage);
    MRD_JW_KEY(jw, "last_stage_share");
    if (has_stage)
        mrd_jw_double(jw, slowdown->last_stage_share);
    else
        mrd_jw_null(jw);
    mrd_jw_close(jw, '}');
}

/* Writes what the dumps of a flight recorder show; null without dumps. */
static void
put_stuck(mrd_jw *jw, const mrd_report *report)
{
    const mrd_stuck_verdict *stuck = mrd_report_stuck(report);

    MRD_JW_KEY(jw, "flight_recorder");
    if (stuck->dumps == 0) {
        mrd_jw_null(jw);
        return;
    }
    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "kind", str, mrd_str_of(mrd_stuck_class_text(stuck->cls)));
    MRD_JW_PUT(jw, "reason", str, mrd_str_of(stuck->reason));
    MRD_JW_PUT(jw, "dumps", u64, stuck->dumps);
    MRD_JW_PUT(jw, "open", u64, stuck->open);
    MRD_JW_PUT(jw, "missing", u64, stuck->n_missing);
    MRD_JW_PUT(jw, "ranks", open, '[');
    for (size_t i = 0; i < stuck->n; i++) {
        const mrd_stuck_rank *rank = &stuck->ranks[i];

        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "rank", i64, rank->rank);
        MRD_JW_PUT(jw, "kind", str, mrd_str_of(mrd_stuck_class_text(rank->cls)));
        MRD_JW_PUT(jw, "operation", sid, rank->op);
        MRD_JW_PUT(jw, "group", sid, rank->group);
        MRD_JW_PUT(jw, "description", sid, rank->what);
        mrd_jw_put_i64_or_null(jw, MRD_STR("number"), rank->seq);
        MRD_JW_PUT(jw, "waiting", u64, rank->waiting);
        MRD_JW_PUT(jw, "members", u64, rank->members);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    mrd_jw_close(jw, '}');
}

static void
put_totals(mrd_jw *jw, const mrd_report_totals *totals)
{
    MRD_JW_PUT(jw, "totals", open, '{');
    MRD_JW_PUT(jw, "window_ns", u64, totals->window_ns);
    MRD_JW_PUT(jw, "wait_ns", u64, totals->wait_ns);
    MRD_JW_PUT(jw, "collectives", u64, totals->matched);
    MRD_JW_PUT(jw, "ties", u64, totals->ties);
    MRD_JW_PUT(jw, "proven", u64, totals->proven);
    MRD_JW_PUT(jw, "proven_unsized", u64, totals->proven_unsized);
    MRD_JW_PUT(jw, "without_bound", u64, totals->no_bound);
    MRD_JW_PUT(jw, "suspect_clock", u64, totals->suspect);
    MRD_JW_PUT(jw, "device_clock", u64, totals->mapped);
    MRD_JW_PUT(jw, "partial", u64, totals->partial);
    mrd_jw_put_i64_or_null(jw, MRD_STR("ranks"),
                           totals->world_size == 0 ? MRD_NONE : (int64_t) totals->ranks);
    mrd_jw_put_i64_or_null(jw, MRD_STR("world_size"),
                           totals->world_size == 0 ? MRD_NONE : (int64_t) totals->world_size);
    MRD_JW_PUT(jw, "mixed_groups", u64, totals->mixed);
    MRD_JW_PUT(jw, "without_partner", u64, totals->alone);
    MRD_JW_PUT(jw, "loose", u64, totals->loose);
    MRD_JW_PUT(jw, "left_out", u64, totals->left_out);
    MRD_JW_PUT(jw, "not_ended", u64, totals->open);
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
    MRD_JW_PUT(jw, "bound_by_ns", open, '{');
    for (unsigned k = 0; k < MRD_BOUNDS; k++) {
        mrd_jw_key(jw, mrd_str_of(mrd_bound_by_text((mrd_bound_by) k)));
        if (is_hidden)
            mrd_jw_null(jw);
        else
            mrd_jw_u64(jw, ns[k]);
    }
    mrd_jw_close(jw, '}');
}

/* Writes the processes that have impossible device records (trace/analysis/judge/credible.h). */
static void
put_impossible(mrd_jw *jw, const mrd_catalog *cat, const mrd_report *report)
{
    MRD_JW_PUT(jw, "impossible", open, '[');
    for (mrd_proc_id id = 0; id < mrd_catalog_processes(cat); id++) {
        const mrd_credible_row *row = mrd_report_credible(report, id);

        if (row->inside + row->graphs_empty + row->early + row->steps_empty == 0)
            continue;
        mrd_jw_open(jw, '{');
        put_process(jw, cat, id);
        MRD_JW_PUT(jw, "kernels_inside_one", u64, row->inside);
        MRD_JW_PUT(jw, "graph_launches", u64, row->graphs);
        MRD_JW_PUT(jw, "graph_launches_without_kernels", u64, row->graphs_empty);
        MRD_JW_PUT(jw, "kernels_before_launch", u64, row->early);
        MRD_JW_PUT(jw, "kernels_before_launch_by_ns", u64, (uint64_t) row->early_ns);
        MRD_JW_PUT(jw, "device_steps", u64, row->steps);
        MRD_JW_PUT(jw, "device_steps_without_work", u64, row->steps_empty);
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

    MRD_JW_PUT(jw, "steps", open, '[');
    for (size_t i = 0; i < count; i++) {
        mrd_jw_open(jw, '{');
        put_process(jw, cat, pace[i].process);
        MRD_JW_PUT(jw, "count", u64, pace[i].count);
        MRD_JW_PUT(jw, "total_ns", u64, pace[i].total_ns);
        mrd_jw_put_i64_or_null(jw, MRD_STR("min_ns"), pace[i].min_ns);
        MRD_JW_PUT(jw, "p50_ns", u64, mrd_hist_quantile(&pace[i].hist, 0.5));
        MRD_JW_PUT(jw, "p99_ns", u64, mrd_hist_quantile(&pace[i].hist, 0.99));
        mrd_jw_put_i64_or_null(jw, MRD_STR("max_ns"), pace[i].max_ns);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    step = mrd_report_slow_steps(report, &count);
    MRD_JW_PUT(jw, "slowest_steps", open, '[');
    for (size_t i = 0; i < count; i++) {
        mrd_jw_open(jw, '{');
        put_process(jw, cat, step[i].process);
        MRD_JW_PUT(jw, "name", sid, step[i].name);
        MRD_JW_PUT(jw, "start_ns", i64_text, step[i].start.ns);
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

    MRD_JW_PUT(jw, "longest_pauses", open, '[');
    for (size_t i = 0; i < n; i++) {
        mrd_jw_open(jw, '{');
        mrd_jw_put_i64_or_null(jw, MRD_STR("worker"), pause[i].worker);
        MRD_JW_PUT(jw, "start_ns", i64_text, pause[i].start.ns);
        mrd_jw_put_i64_or_null(jw, MRD_STR("duration_ns"), pause[i].dur_ns);
        mrd_jw_put_i64_or_null(jw, MRD_STR("host_ns"),
                               workers[pause[i].worker].unmeasured & 1u << MRD_REPORT_HOST
                                   ? MRD_NONE
                                   : (int64_t) pause[i].host_ns);
        MRD_JW_PUT(jw, "after", sid, pause[i].before);
        MRD_JW_PUT(jw, "before", sid, pause[i].after);
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

    MRD_JW_PUT(jw, "not_ended", open, '[');
    for (size_t i = 0; i < n; i++) {
        if (at_end[i].open == 0)
            continue;
        mrd_jw_open(jw, '{');
        put_process(jw, cat, at_end[i].process);
        mrd_jw_put_i64_or_null(jw, MRD_STR("lnc_idx"), at_end[i].lnc_idx);
        MRD_JW_PUT(jw, "name", sid, at_end[i].name);
        MRD_JW_PUT(jw, "start_ns", i64_text, at_end[i].start.ns);
        MRD_JW_PUT(jw, "for_ns", u64, (uint64_t) end.ns - (uint64_t) at_end[i].start.ns);
        MRD_JW_PUT(jw, "spans", u64, at_end[i].open);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    MRD_JW_KEY(jw, "stands_still_since_ns");
    if (mrd_standstill_since(still, &since, &kind))
        mrd_jw_i64_text(jw, since.ns);
    else
        mrd_jw_null(jw);
}

/* Writes for each counter of used memory its first, last and highest value and its growth. */
static void
put_memory(mrd_jw *jw, const mrd_report_sink *sink)
{
    const mrd_catalog *cat = sink->env->catalog;
    size_t n;
    const mrd_memory_row *row = mrd_memory_use_rows(sink->memory, &n);

    MRD_JW_PUT(jw, "memory", open, '[');
    for (size_t i = 0; i < n; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, row[i].track);
        mrd_trend trend = mrd_memory_trend(&row[i]);
        uint64_t steps = mrd_report_steps_of(sink->report, track->process);

        mrd_jw_open(jw, '{');
        put_process(jw, cat, track->process);
        MRD_JW_PUT(jw, "name", sid, track->name);
        mrd_jw_put_i64_or_null(jw, MRD_STR("device_idx"), track->device_idx);
        MRD_JW_PUT(jw, "samples", u64, row[i].samples);
        MRD_JW_PUT(jw, "first_bytes", u64, row[i].first);
        MRD_JW_PUT(jw, "last_bytes", u64, row[i].last);
        MRD_JW_PUT(jw, "peak_bytes", u64, row[i].peak);
        MRD_JW_PUT(jw, "peak_ns", i64_text, row[i].peak_at.ns);
        MRD_JW_PUT(jw, "trend", str, mrd_str_of(mrd_trend_text(trend.says)));
        MRD_JW_PUT(jw, "p", double, trend.p);
        MRD_JW_PUT(jw, "change_bytes", double, trend.change);
        MRD_JW_KEY(jw, "bytes_per_step");
        if (steps > 0)
            mrd_jw_double(jw, trend.change / (double) steps);
        else
            mrd_jw_null(jw);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
    MRD_JW_PUT(jw, "memory_left_out", u64, mrd_memory_use_left_out(sink->memory));
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
    MRD_JW_PUT(jw, "report", open, '{');
    put_verdict(jw, sink->report);
    put_stuck(jw, sink->report);
    put_what_if(jw, &mrd_report_totals_of(sink->report)->slowdown);
    put_bounds(jw, sink->report);
    put_impossible(jw, sink->env->catalog, sink->report);
    put_totals(jw, mrd_report_totals_of(sink->report));
    MRD_JW_PUT(jw, "same_clock", bool, sink->env->options->same_clock);
    MRD_JW_PUT(jw, "workers", open, '[');
    for (size_t i = 0; i < count; i++)
        put_worker(jw, cat, &workers[i],
                   mrd_step_path_worker(mrd_report_path(sink->report), (uint32_t) i));
    mrd_jw_close(jw, ']');
    collectives = mrd_report_collectives(sink->report, &count);
    MRD_JW_PUT(jw, "collectives", open, '[');
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
