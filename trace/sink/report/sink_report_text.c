/*
 * trace/sink/report/sink_report_text.c - writes report.txt: the numbers of
 * trace/analysis/judge/report.h as text of at most 100 columns, with the conclusion first. Long
 * lists are cut, and a line states how many entries are missing. report-json has all of them.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/obj.h"
#include "trace/json/catalog_json.h"
#include "trace/sink/report/report_text.h"
#include "trace/sink/report/scope_memory_out.h"
#include "trace/sink/text.h"

#define SCOPES_LISTED 24

enum {
    ROWS = MRD_REPORT_TEXT_ROWS,
    NAMES = MRD_REPORT_TEXT_NAMES,
    SLOWEST = 6,
    LABEL = MRD_REPORT_TEXT_LABEL
};

typedef mrd_report_text report_sink;

static bool
is_one_node(const mrd_catalog *cat, const mrd_report *report)
{
    size_t n;
    const mrd_report_worker *worker = mrd_report_workers(report, &n);

    for (size_t i = 1; i < n; i++) {
        if (mrd_catalog_borrow_process(cat, worker[i].process)->instance_id !=
            mrd_catalog_borrow_process(cat, worker[0].process)->instance_id)
            return false;
    }
    return true;
}

/* ---- Sections ---- */

static void
put_title(report_sink *sink)
{
    size_t workers;
    const mrd_report_worker *worker = mrd_report_workers(sink->common.report, &workers);
    mrd_ev_ns first = { INT64_MAX }, last = { INT64_MIN };
    char dur[MRD_DUR_TEXT];
    mrd_buf words = { 0 };

    for (size_t i = 0; i < workers; i++) {
        first = mrd_ev_min(worker[i].first, first);
        last = mrd_ev_max(worker[i].last, last);
    }
    mrd_buf_fmt(
        &sink->text, "Report     %s of %zu worker%s\n",
        mrd_text_dur(mrd_ev_after(first, last) ? 0 : (uint64_t) last.ns - (uint64_t) first.ns, dur),
        workers, workers == 1 ? "" : "s");
    if (mrd_catalog_simulated(sink->common.env->catalog))
        mrd_buf_text(
            &sink->text,
            "           SIMULATED: at least a part of these data was made without hardware\n");
    mrd_report_text_bound(sink, &words);
    if (words.len > 0)
        mrd_report_text_wrapped(&sink->text, "Bottleneck",
                                (mrd_str){ (const char *) words.p, words.len });
    words.len = 0; /* clears the buffer for the next text */
    mrd_report_text_verdict(sink, &words);
    mrd_report_text_wrapped(&sink->text, "Verdict", (mrd_str){ (const char *) words.p, words.len });
    words.len = 0; /* clears the buffer for the next text */
    mrd_report_text_what_if(sink, &words);
    if (words.len > 0)
        mrd_report_text_wrapped(&sink->text, "What if",
                                (mrd_str){ (const char *) words.p, words.len });
    words.len = 0; /* clears the buffer for the next text */
    mrd_report_text_coverage(sink, &words);
    if (words.len > 0)
        mrd_report_text_wrapped(&sink->text, "Coverage",
                                (mrd_str){ (const char *) words.p, words.len });
    mrd_text_done(&words, &sink->text);
}

static void
put_parts(report_sink *sink, const uint64_t *part_ns, unsigned unmeasured, uint64_t window)
{
    char dur[MRD_DUR_TEXT];

    mrd_buf_fmt(&sink->text, " %9s", mrd_text_dur(window, dur));
    /* unrecorded time has a table of its own */
    for (size_t k = 0; k < MRD_REPORT_UNRECORDED; k++) {
        if (unmeasured & 1u << k)
            mrd_buf_fmt(&sink->text, " %7s", "-");
        else
            mrd_buf_fmt(&sink->text, " %7.2f",
                        window == 0 ? 0 : 100.0 * (double) part_ns[k] / (double) window);
    }
    mrd_buf_byte(&sink->text, '\n');
}

/* Says how much of the collectives' time is hidden by computation, for workers whose trace can show
 * it. A trace that records barriers is from Neuron. There a collective is always inside an
 * execution, so hiding cannot be seen. */
static void
put_hidden(report_sink *sink, const mrd_report_worker *worker, size_t n)
{
    uint64_t both_ns = 0, collective_ns = 0, nested_ns = 0;
    char share[MRD_TEXT_SHARE];

    for (size_t i = 0; i < n; i++) {
        uint64_t ns = worker[i].part_ns[MRD_REPORT_BOTH] + worker[i].part_ns[MRD_REPORT_EXPOSED];

        if ((worker[i].unmeasured & 1u << MRD_REPORT_BOTH) != 0)
            continue;
        if ((worker[i].unmeasured & 1u << MRD_REPORT_WAITING) == 0) {
            nested_ns += ns;
            continue;
        }
        collective_ns += ns;
        both_ns += worker[i].part_ns[MRD_REPORT_BOTH];
    }
    if (collective_ns > 0)
        mrd_buf_fmt(&sink->text, "  computation hides %s of the time in collectives%s\n",
                    mrd_text_share(both_ns, collective_ns, share),
                    nested_ns > 0 ? ", without Neuron" : "");
    if (nested_ns > 0)
        mrd_report_text_note(&sink->text,
                             "how much of the time in collectives computation hides cannot be "
                             "told on Neuron: its collectives run inside executions, whether the "
                             "engines compute meanwhile or wait");
}

static void
put_breakdown(report_sink *sink)
{
    size_t count;
    const mrd_report_worker *worker = mrd_report_workers(sink->common.report, &count);
    uint64_t all[MRD_REPORT_PARTS] = { 0 };
    unsigned unmeasured = UINT_MAX;

    if (count == 0)
        return;
    mrd_buf_fmt(&sink->text, "\n%-34s %9s", "Where the time goes, % of window", "window");
    for (size_t k = 0; k < MRD_REPORT_UNRECORDED; k++)
        mrd_buf_fmt(&sink->text, " %7s", mrd_report_part_text((mrd_report_part) k));
    mrd_buf_byte(&sink->text, '\n');
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < MRD_REPORT_PARTS; k++)
            all[k] += worker[i].part_ns[k];
        unmeasured &= worker[i].unmeasured;
        if (i >= ROWS)
            continue;
        mrd_report_text_worker(sink, &worker[i]);
        put_parts(sink, worker[i].part_ns, worker[i].unmeasured, mrd_report_window(&worker[i]));
    }
    mrd_text_left_out(&sink->text, count > ROWS ? count - ROWS : 0, "workers", "report-json");
    mrd_buf_fmt(&sink->text, "  %-*s", LABEL, "all");
    put_parts(sink, all, unmeasured, mrd_report_totals_of(sink->common.report)->window_ns);
    put_hidden(sink, worker, count);
    if (mrd_report_totals_of(sink->common.report)->on_host) {
        mrd_report_text_note(
            &sink->text,
            "window: from the first collective to the end of the last; compute: only operators of "
            "the framework; both: operators and a collective; exposed: only a collective; idle: "
            "none of these, as while Python code runs or data are loaded; -: the trace does not "
            "show it");
        return;
    }
    mrd_report_text_note(
        &sink->text,
        "window: from the first device span to the end of the last; compute: only computation; "
        "both: computation and a collective (on Neuron: a collective inside an execution); "
        "exposed: only a collective; copy: only copies; waiting: in a barrier; host: the device is "
        "idle while the runtime is in a call; idle: none of these; -: the trace does not show it");
}

/* Writes why devices were idle. Writes nothing if the trace has no times of launches. */
static void
put_idle(report_sink *sink)
{
    static const char *const title[] = { "loading", "launch", "short", "queued", "unknown" };
    size_t count;
    const mrd_report_worker *worker = mrd_report_workers(sink->common.report, &count);
    uint64_t known = 0;
    char share[MRD_TEXT_SHARE];

    for (size_t i = 0; i < count; i++)
        for (unsigned k = 0; k < MRD_IDLE_UNKNOWN; k++)
            known += worker[i].idle_ns[k];
    if (known == 0 || mrd_report_totals_of(sink->common.report)->on_host)
        return;
    mrd_buf_fmt(&sink->text, "\n%-34s", "Why devices were idle, % of window");
    for (unsigned k = 0; k < MRD_IDLE_CAUSES; k++)
        mrd_buf_fmt(&sink->text, " %9s", title[k]);
    mrd_buf_byte(&sink->text, '\n');
    for (size_t i = 0; i < count && i < ROWS; i++) {
        mrd_report_text_worker(sink, &worker[i]);
        for (unsigned k = 0; k < MRD_IDLE_CAUSES; k++)
            mrd_buf_fmt(&sink->text, " %9s",
                        mrd_text_share(worker[i].idle_ns[k], mrd_report_window(&worker[i]), share));
        mrd_buf_byte(&sink->text, '\n');
    }
    mrd_text_left_out(&sink->text, count > ROWS ? count - ROWS : 0, "workers", "report-json");
    mrd_report_text_note(
        &sink->text,
        "loading: the process loaded data; launch: the host launched the next work after "
        "the device had become idle; short: at most 30 ns; queued: the next work had "
        "been launched before; unknown: the trace does not show the launch");
}

/* Writes the time in which events were lost or recording was paused. It counts neither as idle nor
 * as any other activity. */
static void
put_unrecorded(report_sink *sink)
{
    size_t n, shown = 0, all = 0;
    const mrd_report_worker *worker = mrd_report_workers(sink->common.report, &n);
    char dur[MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    for (size_t i = 0; i < n; i++)
        all += worker[i].lost > 0;
    if (all == 0)
        return;
    mrd_buf_fmt(&sink->text, "\n%-34s %9s %9s %12s\n", "Not recorded: events were lost", "time",
                "of window", "events lost");
    for (size_t i = 0; i < n && shown < ROWS; i++) {
        uint64_t ns = worker[i].part_ns[MRD_REPORT_UNRECORDED] - worker[i].paused_ns;

        if (worker[i].lost == 0)
            continue;
        mrd_report_text_worker(sink, &worker[i]);
        mrd_buf_fmt(&sink->text, " %9s %9s %12" PRIu64 "\n", mrd_text_dur(ns, dur),
                    mrd_text_share(ns, mrd_report_window(&worker[i]), share), worker[i].lost);
        shown++;
    }
    mrd_text_left_out(&sink->text, all - shown, "workers", "report-json");
}

static void
put_paused(report_sink *sink)
{
    size_t n, shown = 0, all = 0;
    const mrd_report_worker *worker = mrd_report_workers(sink->common.report, &n);
    char dur[MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    for (size_t i = 0; i < n; i++)
        all += worker[i].paused_ns > 0;
    if (all == 0)
        return;
    mrd_buf_fmt(&sink->text, "\n%-34s %9s %9s\n", "Not recorded (paused)", "time", "of window");
    for (size_t i = 0; i < n && shown < ROWS; i++) {
        uint64_t ns = worker[i].paused_ns;

        if (ns == 0)
            continue;
        mrd_report_text_worker(sink, &worker[i]);
        mrd_buf_fmt(&sink->text, " %9s %9s\n", mrd_text_dur(ns, dur),
                    mrd_text_share(ns, mrd_report_window(&worker[i]), share));
        shown++;
    }
    mrd_text_left_out(&sink->text, all - shown, "workers", "report-json");
}

static void
put_late(report_sink *sink)
{
    size_t n, shown = 0, all = 0;
    const mrd_report_worker *worker = mrd_report_workers(sink->common.report, &n);
    uint64_t ties = mrd_report_totals_of(sink->common.report)->ties;
    char d[4][MRD_DUR_TEXT];

    for (size_t i = 0; i < n; i++)
        all += worker[i].took_part > 0;
    if (all == 0)
        return;
    mrd_buf_fmt(&sink->text, "\n%-34s %8s %8s %8s %9s %10s %9s\n", "Who was late", "in", "last",
                "proven", "alone", "caused", "waited");
    for (size_t i = 0; i < n && shown < ROWS; i++) {
        if (worker[i].took_part == 0)
            continue;
        mrd_report_text_worker(sink, &worker[i]);
        mrd_buf_fmt(&sink->text, " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %9s %10s %9s\n",
                    worker[i].took_part, worker[i].came_last, worker[i].proven,
                    mrd_text_dur(worker[i].alone_ns, d[0]), mrd_text_dur(worker[i].caused_ns, d[1]),
                    mrd_text_dur(worker[i].wait_ns, d[2]));
        shown++;
    }
    mrd_text_left_out(&sink->text, all - shown, "workers", "report-json");
    mrd_report_text_note(&sink->text,
                         "in: collectives that it took part in; last: in which it began last; "
                         "proven: of these, later than all others by more than the bounds of the "
                         "clocks; alone: how long only it was missing; caused: how long all others "
                         "together waited for it; waited: how long it waited for others");
    if (ties > 0)
        mrd_buf_fmt(&sink->text,
                    "  In %" PRIu64 " collective%s nobody came last: the last two began within "
                    "%d ns of each other.\n",
                    ties, mrd_plural(ties), MRD_REPORT_NOISE);
}

static void
put_collectives(report_sink *sink)
{
    size_t count;
    const mrd_report_collective *collective = mrd_report_collectives(sink->common.report, &count);
    char d[5][MRD_DUR_TEXT];

    if (count == 0)
        return;
    mrd_buf_fmt(&sink->text, "\n%-28s %7s %5s %9s %9s %9s\n", "", "", "", "latency", "", "spread");
    mrd_buf_fmt(&sink->text, "%-28s %7s %5s %9s %9s %9s %9s %9s %7s\n", "Collectives", "count",
                "parts", "p50", "p99", "p50", "p99", "max", "proven");
    for (size_t i = 0; i < count && i < NAMES; i++) {
        mrd_buf label = { 0 };

        mrd_buf_str(&label, mrd_catalog_text(sink->common.env->catalog, collective[i].name));
        if (collective[i].size >= 0)
            mrd_buf_fmt(&label, " %" PRId64, collective[i].size);
        mrd_buf_text(&sink->text, "  ");
        mrd_text_cell(&sink->text, (mrd_str){ (const char *) label.p, label.len }, 26, true);
        mrd_text_done(&label, &sink->text);
        mrd_buf_fmt(&sink->text, " %7" PRIu64 " %5.1f %9s %9s %9s %9s %9s %7" PRIu64 "\n",
                    collective[i].count,
                    (double) collective[i].parts / (double) collective[i].count,
                    mrd_text_dur(mrd_hist_quantile(&collective[i].latency, 0.5), d[0]),
                    mrd_text_dur(mrd_hist_quantile(&collective[i].latency, 0.99), d[1]),
                    mrd_text_dur(mrd_hist_quantile(&collective[i].spread, 0.5), d[2]),
                    mrd_text_dur(mrd_hist_quantile(&collective[i].spread, 0.99), d[3]),
                    mrd_text_dur(collective[i].spread_max_ns, d[4]), collective[i].proven);
    }
    mrd_text_left_out(&sink->text, count > NAMES ? count - NAMES : 0, "collectives", "report-json");
    mrd_report_text_note(
        &sink->text,
        "parts: workers in one collective, on average; latency: the shortest part; spread: the "
        "last begin minus the first; proven: in which the clocks prove who came last");
}

static void
put_process(report_sink *sink, mrd_proc_id process, size_t width)
{
    const mrd_process *p = mrd_catalog_borrow_process(sink->common.env->catalog, process);
    mrd_buf label = { 0 };

    mrd_text_process(sink->common.env->catalog, process, &label);
    if (!sink->one_node)
        mrd_buf_fmt(&label, " " MRD_STR_FMT,
                    MRD_STR_ARG(mrd_catalog_text(sink->common.env->catalog, p->instance_id)));
    mrd_buf_text(&sink->text, "  ");
    mrd_report_text_cell(sink, (mrd_str){ (const char *) label.p, label.len }, width);
    mrd_text_done(&label, &sink->text);
}

static void
put_steps(report_sink *sink)
{
    size_t count, slow;
    const mrd_report_pace *pace = mrd_report_paces(sink->common.report, &count);
    const mrd_report_step *step = mrd_report_slow_steps(sink->common.report, &slow);
    double best = 0;
    char d[5][MRD_DUR_TEXT];

    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        double mean = (double) pace[i].total_ns / (double) pace[i].count;

        best = best == 0 || mean < best ? mean : best;
    }
    mrd_buf_fmt(&sink->text, "\n%-34s %8s %9s %9s %9s %9s %6s\n", "Steps", "count", "mean", "p50",
                "p99", "max", "score");
    for (size_t i = 0; i < count && i < ROWS; i++) {
        uint64_t mean = pace[i].total_ns / pace[i].count;

        put_process(sink, pace[i].process, LABEL);
        mrd_buf_fmt(
            &sink->text, " %8" PRIu64 " %9s %9s %9s %9s %6.2f\n", pace[i].count,
            mrd_text_dur(mean, d[0]), mrd_text_dur(mrd_hist_quantile(&pace[i].hist, 0.5), d[1]),
            mrd_text_dur(mrd_hist_quantile(&pace[i].hist, 0.99), d[2]),
            mrd_text_dur((uint64_t) pace[i].max_ns, d[3]), mean == 0 ? 1.0 : best / (double) mean);
    }
    mrd_text_left_out(&sink->text, count > ROWS ? count - ROWS : 0, "processes", "report-json");
    mrd_report_text_note(&sink->text,
                         "score: the mean of the fastest process over that of this one");
    mrd_buf_fmt(&sink->text, "\n%-54s %12s %9s\n", "Slowest steps", "at", "took");
    for (size_t i = 0; i < slow && i < SLOWEST; i++) {
        put_process(sink, step[i].process, LABEL);
        mrd_buf_byte(&sink->text, ' ');
        mrd_text_cell(&sink->text, mrd_catalog_text(sink->common.env->catalog, step[i].name), 19,
                      true);
        mrd_buf_fmt(&sink->text, " %12s %9s\n",
                    mrd_text_dur((uint64_t) step[i].start.ns -
                                     (uint64_t) mrd_report_totals_of(sink->common.report)->first.ns,
                                 d[0]),
                    mrd_text_dur((uint64_t) step[i].dur_ns, d[1]));
    }
}

static void
put_pauses(report_sink *sink)
{
    size_t n, workers;
    const mrd_report_pause *pause = mrd_report_pauses(sink->common.report, &n);
    const mrd_report_worker *worker = mrd_report_workers(sink->common.report, &workers);
    char d[2][MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    if (n == 0)
        return;
    mrd_buf_fmt(&sink->text, "\n%-34s %10s %9s %7s  %s\n",
                mrd_report_totals_of(sink->common.report)->on_host
                    ? "Longest times without collective"
                    : "Longest pauses of devices",
                "at", "length", "host", "after, before");
    for (size_t i = 0; i < n && i < SLOWEST; i++) {
        mrd_buf names = { 0 };

        mrd_report_text_worker(sink, &worker[pause[i].worker]);
        mrd_buf_fmt(&sink->text, " %10s %9s %7s  ",
                    mrd_text_dur((uint64_t) pause[i].start.ns -
                                     (uint64_t) mrd_report_totals_of(sink->common.report)->first.ns,
                                 d[0]),
                    mrd_text_dur((uint64_t) pause[i].dur_ns, d[1]),
                    worker[pause[i].worker].unmeasured & 1u << MRD_REPORT_HOST
                        ? "-"
                        : mrd_text_share(pause[i].host_ns, (uint64_t) pause[i].dur_ns, share));
        mrd_text_cell(&names, mrd_catalog_text(sink->common.env->catalog, pause[i].before), 16,
                      false);
        mrd_buf_text(&names, ", ");
        mrd_text_cell(&names, mrd_catalog_text(sink->common.env->catalog, pause[i].after), 16,
                      false);
        mrd_buf_str(&sink->text, (mrd_str){ (const char *) names.p, names.len });
        mrd_buf_byte(&sink->text, '\n');
        mrd_text_done(&names, &sink->text);
    }
    mrd_report_text_note(
        &sink->text, "at: after the begin of the first span; host: share of the pause in which the "
                     "runtime was in a call; after, before: the spans around the pause");
}

/* Writes what the clock bounds assume, for each method by which bounds were determined. */
static void
put_assumptions(report_sink *sink)
{
    const mrd_catalog *cat = sink->common.env->catalog;
    size_t n, by_collectives = 0, by_probes = 0;
    const mrd_clock_info *info = mrd_catalog_clocks(cat, &n);

    for (size_t i = 1; i < n; i++) {
        bool collectives = mrd_str_is(mrd_catalog_text(cat, info[i].method), "collectives");

        by_collectives += info[i].bound_ns >= 0 && collectives;
        by_probes += info[i].bound_ns >= 0 && !collectives;
    }
    if (by_collectives > 0)
        mrd_report_text_wrapped(
            &sink->text, "  assumes",
            MRD_STR("no worker leaves a collective before all have entered it; the rate of a "
                    "clock changes by at most 0.2 ppm per second, except where the ends of "
                    "collectives show more; no clock is stepped away and back within three "
                    "collectives"));
    if (by_probes > 0)
        mrd_report_text_wrapped(
            &sink->text, "  assumes",
            MRD_STR("no packet arrives before it was sent; inside an epoch the rate of a clock "
                    "changes slowly (docs/reference/timesync.md, section 4)"));
}

/* Writes the other assumptions of the proofs. They concern groups of unknown size, files that share
 * a clock, and clocks of devices that were mapped to host time. */
static void
put_mapping(report_sink *sink)
{
    const mrd_report_totals *totals = mrd_report_totals_of(sink->common.report);

    bool one_clock = sink->common.env->options->same_clock;

    if (!totals->any_mapped && !totals->any_traced && !one_clock && totals->proven_unsized == 0)
        return;
    mrd_buf_byte(&sink->text, '\n');
    if (totals->proven_unsized > 0)
        mrd_report_text_wrapped(&sink->text, "Assumes",
                                MRD_STR("all members of groups whose size nothing states, as of "
                                        "Neuron's collectives, are in this profile"));
    if (one_clock)
        mrd_report_text_wrapped(&sink->text, "Assumes",
                                MRD_STR("the files of one node, and those whose node is unknown, "
                                        "were recorded with one clock (--same-clock)"));
    if (totals->any_mapped)
        mrd_report_text_wrapped(
            &sink->text, "Assumes",
            MRD_STR("the runtime maps the clock of a core to that of its node within 65 us for "
                    "each second of the core's longest span, unfinished spans included "
                    "(docs/reference/timesync.md, section 9)"));
    if (totals->any_traced)
        mrd_report_text_wrapped(
            &sink->text, "Assumes",
            MRD_STR("the tracer of each file (CUPTI for GPUs) converted the times of all its "
                    "devices to one clock; it states no bound, so a proof is as good as "
                    "that conversion"));
}

/* Writes the clocks that the proofs use, with their bounds. */
static void
put_clocks(report_sink *sink)
{
    const mrd_catalog *cat = sink->common.env->catalog;
    char bound[MRD_DUR_TEXT];
    size_t n;
    const mrd_clock_info *info = mrd_catalog_clocks(cat, &n);

    if (n <= 2)
        return;
    mrd_buf_fmt(&sink->text, "\n%-58s %-12s %10s %10s\n", "Clocks", "quality", "bound",
                "violations");
    for (size_t i = 1; i < n && i <= ROWS; i++) {
        mrd_text_cell(&sink->text, mrd_catalog_text(cat, info[i].name), 58, true);
        mrd_buf_fmt(
            &sink->text, " %-12.12s %10s %10" PRIu64 "\n", mrd_catalog_text(cat, info[i].quality).p,
            info[i].bound_ns < 0 ? "unknown" : mrd_text_dur((uint64_t) info[i].bound_ns, bound),
            info[i].violations);
    }
    mrd_text_left_out(&sink->text, n - 1 > ROWS ? n - 1 - ROWS : 0, "clocks", "report-json");
    put_assumptions(sink);
}

void
mrd_report_text_all(report_sink *sink)
{
    bool is_hidden = mrd_report_is_hidden(sink->common.report);

    sink->one_node = is_one_node(sink->common.env->catalog, sink->common.report);
    put_title(sink);
    mrd_report_text_open(sink);
    put_breakdown(sink);
    if (!is_hidden) {
        mrd_report_text_exposed(sink);
        put_idle(sink);
    }
    mrd_report_text_queue(sink);
    put_unrecorded(sink);
    put_paused(sink);
    put_late(sink);
    mrd_report_text_why(sink);
    if (!is_hidden)
        mrd_report_text_path(sink);
    mrd_report_text_kernels(sink);
    put_collectives(sink);
    mrd_report_text_bandwidth(sink);
    put_steps(sink);
    if (!is_hidden) {
        mrd_report_text_series(sink);
        put_pauses(sink);
    }
    mrd_report_text_memory(sink);
    mrd_scope_memory_text(sink->common.scopes, sink->common.env->catalog, SCOPES_LISTED,
                          "report-json", &sink->text);
    put_clocks(sink);
    put_mapping(sink);
}

static mrd_err
report_write(void *state)
{
    report_sink *sink = state;

    mrd_report_text_all(sink);
    mrd_out_add(sink->common.env->out, sink->text.p, sink->text.len);
    return sink->text.err;
}

static mrd_err
report_close(void *state, mrd_why *why)
{
    mrd_err err = mrd_report_sink_close(state, report_write, why);

    mrd_buf_fini(&((report_sink *) state)->text);
    return err;
}

const mrd_sink_ops mrd_sink_report_text = {
    .name = "report-text",
    .stem = "report",
    .suffix = ".txt",
    .media_type = "text/plain; charset=utf-8",
    .title = "Report",
    .standard = true,
    .what = "where the time goes and who was late, for people",
    .state_size = sizeof(report_sink),
    .open = mrd_report_sink_open,
    .event = mrd_report_sink_event,
    .close = report_close,
};
