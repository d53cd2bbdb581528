/* Sections of report.txt about steps: why the last worker was late, the critical path, steps over
 * time. */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "trace/sink/report/report_text.h"
#include "trace/sink/text.h"

enum { SPANS = 8 };       /* number of rows in the table of steps over time */
enum { NAMED = 64 };      /* maximum columns of a name inside a sentence */
enum { NAMED_STEP = 32 }; /* maximum columns of a step's name in the table of steps */

/* Formats a signed duration like "+1.20 ms" or "-3 ns". */
static const char *
signed_dur(int64_t ns, char text[MRD_DUR_TEXT + 1])
{
    char dur[MRD_DUR_TEXT];

    snprintf(text, MRD_DUR_TEXT + 1, "%s%s", ns < 0 ? "-" : "+",
             mrd_text_dur(ns < 0 ? 0 - (uint64_t) ns : (uint64_t) ns, dur));
    return text;
}

/* Columns of the table that shows why workers were late. A column adds up some parts of a worker's
 * time. */
static const struct {
    const char *title;
    unsigned parts; /* bit mask of the parts in this column: 1u << mrd_report_part */
} reasons[] = {
    { "compute", 1u << MRD_REPORT_COMPUTE | 1u << MRD_REPORT_BOTH },
    { "collective", 1u << MRD_REPORT_EXPOSED | 1u << MRD_REPORT_WAITING },
    { "idle", 1u << MRD_REPORT_IDLE },
    { "host", 1u << MRD_REPORT_HOST },
    { "copy", 1u << MRD_REPORT_COPY },
    { "not recorded", 1u << MRD_REPORT_UNRECORDED },
};

enum { REASONS = sizeof(reasons) / sizeof(reasons[0]), REASONS_SHOWN = 4 };

static int64_t
reason_ns(const mrd_lateness_sum *late, size_t reason)
{
    int64_t ns = 0;

    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        ns += (reasons[reason].parts & 1u << k) != 0 ? late->part_ns[k] : 0;
    return ns;
}

/* Chooses the REASONS_SHOWN columns with the largest sums over all workers. If sums are equal, the
 * column further left is preferred. */
static void
choose_reasons(const mrd_report_worker *worker, size_t n, bool ret_shown[REASONS])
{
    double most[REASONS] = { 0 };

    for (size_t k = 0; k < REASONS; k++)
        for (size_t i = 0; i < n; i++)
            most[k] += fabs((double) reason_ns(&worker[i].late, k));
    for (size_t k = 0; k < REASONS; k++) {
        size_t larger = 0;

        for (size_t other = 0; other < REASONS; other++)
            larger += other < k ? most[other] >= most[k] : most[other] > most[k];
        ret_shown[k] = larger < REASONS_SHOWN;
    }
}

/* Looks at the kernels that took worker i longer than any other worker. Returns the one that
 * exceeds the median worker most. NULL if this excess is at most a quarter of the worker's lateness
 * by computation. */
static const mrd_kernel *
find_longer_kernel(const mrd_report_text *text, size_t i)
{
    size_t n, workers;
    const mrd_kernel *kernel = mrd_kernels_list(mrd_report_kernels(text->common.report), &n);
    int64_t compute_ns = reason_ns(&mrd_report_workers(text->common.report, &workers)[i].late, 0);
    const mrd_kernel *found = NULL;
    uint64_t most = compute_ns > 0 ? (uint64_t) compute_ns / 4 : UINT64_MAX;

    for (size_t j = 0; j < n; j++) {
        if (kernel[j].collective || kernel[j].most_worker != i || kernel[j].workers < 2 ||
            kernel[j].median_ns == 0 || kernel[j].most_ns - kernel[j].median_ns <= most)
            continue;
        most = kernel[j].most_ns - kernel[j].median_ns;
        found = &kernel[j];
    }
    return found;
}

/* If worker i is late by computation, writes the kernel that took it longer than the others. */
static void
put_longer_kernel(mrd_report_text *text, size_t i)
{
    const mrd_kernel *kernel = find_longer_kernel(text, i);
    size_t workers;
    mrd_buf line = { 0 };
    char dur[MRD_DUR_TEXT];

    if (kernel == NULL)
        return;
    mrd_report_text_label(text, &mrd_report_workers(text->common.report, &workers)[i], &line);
    mrd_buf_text(&line, ": ");
    mrd_text_cell(&line, mrd_catalog_text(text->common.env->catalog, kernel->name), NAMED, false);
    mrd_buf_fmt(&line, " took %.1f %% longer than on the median worker, %s in all",
                100 * (double) (kernel->most_ns - kernel->median_ns) / (double) kernel->median_ns,
                mrd_text_dur(kernel->most_ns - kernel->median_ns, dur));
    mrd_report_text_note(&text->text, mrd_buf_cstr(&line));
    mrd_text_done(&line, &text->text);
}

/* Writes what worker i's host did while its device was idle. Writes nothing if no span stands
 * out. */
static void
put_host_work(mrd_report_text *text, size_t i)
{
    size_t workers;
    const mrd_report_worker *worker = &mrd_report_workers(text->common.report, &workers)[i];
    mrd_buf line = { 0 };
    char dur[2][MRD_DUR_TEXT];

    if (worker->host_work.ns == 0)
        return;
    mrd_report_text_label(text, worker, &line);
    mrd_buf_text(&line, mrd_report_totals_of(text->common.report)->on_host
                            ? ": between its collectives it was in "
                            : ": while its device did nothing, its host was in ");
    mrd_text_cell(&line, mrd_catalog_text(text->common.env->catalog, worker->host_work.name), NAMED,
                  false);
    mrd_buf_fmt(&line, " for %s, %s longer than on the median worker",
                mrd_text_dur(worker->host_work.ns, dur[0]),
                mrd_text_dur(worker->host_work.ns - worker->host_work.median_ns, dur[1]));
    mrd_report_text_note(&text->text, mrd_buf_cstr(&line));
    mrd_text_done(&line, &text->text);
}

void
mrd_report_text_why(mrd_report_text *text)
{
    size_t count, shown = 0, all = 0;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &count);
    char dur[MRD_DUR_TEXT + 1];
    bool is_shown[REASONS];
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        all += worker[i].late.late_ns > 0;
        sum += worker[i].late.late_ns;
    }
    if (all == 0)
        return;
    choose_reasons(worker, count, is_shown);
    mrd_buf_fmt(&text->text, "\n%-34s %9s", "Why it came last, where it did", "late by");
    for (size_t k = 0; k < REASONS; k++)
        if (is_shown[k])
            mrd_buf_fmt(&text->text, " %10.10s", reasons[k].title);
    mrd_buf_fmt(&text->text, " %10s\n", "began");
    for (size_t i = 0; i < count && shown < MRD_REPORT_TEXT_ROWS; i++) {
        const mrd_lateness_sum *late = &worker[i].late;

        if (late->late_ns == 0 || late->late_ns < sum / 100)
            continue;
        mrd_report_text_worker(text, &worker[i]);
        mrd_buf_fmt(&text->text, " %9s", mrd_text_dur(late->late_ns, dur));
        for (size_t k = 0; k < REASONS; k++)
            if (is_shown[k])
                mrd_buf_fmt(&text->text, " %10s",
                            (worker[i].unmeasured & reasons[k].parts) == reasons[k].parts
                                ? "-"
                                : signed_dur(reason_ns(late, k), dur));
        mrd_buf_fmt(&text->text, " %10s\n", signed_dur(late->began_ns, dur));
        shown++;
    }
    mrd_text_left_out(&text->text, all - shown, "workers, less late", "report-json");
    for (size_t i = 0, named = 0; i < count && named < shown; i++) {
        if (worker[i].late.late_ns == 0 || worker[i].late.late_ns < sum / 100)
            continue;
        put_longer_kernel(text, i);
        put_host_work(text, i);
        named++;
    }
    mrd_report_text_note(&text->text,
                         "sums over the collectives that it came last to, each against the median "
                         "worker: what each did since it left a collective before; collective: "
                         "in other collectives meanwhile; began: how much later it left the one "
                         "before, or started");
}

void
mrd_report_text_shortens(const mrd_step_totals *totals, mrd_buf *to)
{
    const char *whole = totals->steps > 0 ? "the steps" : "the recording";
    char dur[MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    if (totals->unmet_ns > 0) {
        mrd_buf_fmt(to,
                    "Of it, %s (%s) may be waiting for others: communication in single messages, "
                    "in operations that need not wait for all, or of which the parts of others "
                    "are missing. Only what shortens the rest or this waiting can shorten %s.",
                    mrd_text_dur(totals->unmet_ns, dur),
                    mrd_text_share(totals->unmet_ns, totals->path_of_all_ns, share), whole);
        return;
    }
    mrd_buf_fmt(to,
                "It contains no waiting for others in collectives%s: only what shortens it "
                "can shorten %s.",
                totals->path_ns[MRD_REPORT_WAITING] > 0
                    ? " (the part called waiting is of barriers after the last had come)"
                    : "",
                whole);
}

void
mrd_report_text_path(mrd_report_text *text)
{
    const mrd_step_path *path = mrd_report_path(text->common.report);
    const mrd_step_totals *totals = mrd_step_path_totals(path);
    size_t count, most;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &count);
    char dur[MRD_DUR_TEXT], share[MRD_TEXT_SHARE];
    bool used[3] = { false };
    mrd_buf words = { 0 }, head = { 0 };
    uint32_t before[3] = { 0 };

    if (totals->path_of_all_ns == 0 || count < 2)
        return;
    mrd_buf_fmt(&words, "%s: ", mrd_text_dur(totals->path_of_all_ns, dur));
    for (unsigned k = 0, told = 0; k < MRD_REPORT_PARTS; k++)
        if (totals->path_ns[k] > 0)
            mrd_buf_fmt(&words, "%s%s %s", told++ > 0 ? ", " : "",
                        mrd_report_part_text((mrd_report_part) k),
                        mrd_text_share(totals->path_ns[k], totals->path_of_all_ns, share));
    mrd_buf_text(&words, ". It ran through ");
    for (unsigned round = 0; round < 3; round++, used[round - 1] = true) {
        most = SIZE_MAX;
        for (uint32_t i = 0; i < count; i++) {
            bool again = (used[0] && before[0] == i) || (used[1] && before[1] == i);
            uint64_t ns = mrd_step_path_worker(path, i)->path_ns;

            if (!again && ns > 0 &&
                (most == SIZE_MAX || ns > mrd_step_path_worker(path, (uint32_t) most)->path_ns))
                most = i;
        }
        if (most == SIZE_MAX)
            break;
        before[round] = (uint32_t) most;
        mrd_buf_text(&words, round > 0 ? ", " : "");
        mrd_report_text_label(text, &worker[most], &words);
        mrd_buf_fmt(&words, " for %s",
                    mrd_text_share(mrd_step_path_worker(path, (uint32_t) most)->path_ns,
                                   totals->path_of_all_ns, share));
    }
    mrd_buf_fmt(&words, ", and moved %" PRIu64 " time%s from one worker to another. ",
                totals->changes, mrd_plural(totals->changes));
    mrd_report_text_shortens(totals, &words);
    mrd_buf_text(&head, "Critical path through ");
    if (totals->steps > 0) {
        mrd_buf_fmt(&head, "%" PRIu64 " step%s of ", totals->steps, mrd_plural(totals->steps));
        mrd_text_process(text->common.env->catalog, totals->process, &head);
    } else {
        mrd_buf_text(&head, "the recording");
    }
    mrd_buf_byte(&text->text, '\n');
    mrd_text_line(&text->text, "", (mrd_str){ (const char *) head.p, head.len });
    mrd_text_done(&head, &text->text);
    mrd_report_text_wrapped(&text->text, "", (mrd_str){ (const char *) words.p, words.len });
    mrd_text_done(&words, &text->text);
}

/* Says whether the same worker was late in all steps, or how often it changed. */
static void
put_persistence(mrd_report_text *text)
{
    const mrd_step_path *path = mrd_report_path(text->common.report);
    const mrd_step_totals *totals = mrd_step_path_totals(path);
    uint32_t most = 0, different = 0;
    size_t n;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &n);
    mrd_buf words = { 0 };

    if (totals->late_steps == 0)
        return;
    for (uint32_t i = 0; i < n; i++) {
        different += mrd_step_path_worker(path, i)->late > 0;
        if (mrd_step_path_worker(path, i)->late > mrd_step_path_worker(path, most)->late)
            most = i;
    }
    mrd_buf_text(&words, "The others waited longest for ");
    mrd_report_text_label(text, &worker[most], &words);
    mrd_buf_fmt(&words, " in %" PRIu64 " of %" PRIu64 " steps; ",
                mrd_step_path_worker(path, most)->late, totals->late_steps);
    if (different == 1)
        mrd_buf_text(&words, "it was always this worker.");
    else
        mrd_buf_fmt(&words,
                    "in all, %" PRIu32
                    " workers were the latest in some step, and the latest changed "
                    "%" PRIu64 " time%s from one step to the next: %s.",
                    different, totals->changed, mrd_plural(totals->changed),
                    mrd_step_path_worker(path, most)->late * 4 >= totals->late_steps * 3
                        ? "mostly it is the same worker"
                        : "it is not always the same worker");
    mrd_report_text_wrapped(&text->text, "  latest",
                            (mrd_str){ (const char *) words.p, words.len });
    mrd_text_done(&words, &text->text);
}

/* Writes where the duration of steps changed: "steps take 16 % longer since step 210 ...". */
static void
changes_words(const mrd_report_totals *totals, mrd_buf *to)
{
    const mrd_onset_result *changes = &totals->step_changes;
    char dur[3][MRD_DUR_TEXT];

    if (changes->n > 1)
        mrd_buf_fmt(to, "the duration of steps changed %zu times%s: ", changes->n,
                    changes->kind == MRD_ONSET_OFTEN ? " or more" : "");
    for (size_t i = 0; i < changes->n; i++) {
        const mrd_onset_change *change = &changes->change[i];
        double by = 100 * (change->after_ns / fmax(change->before_ns, 1) - 1);
        uint64_t at = (uint64_t) change->at.ns - (uint64_t) totals->first.ns;

        if (changes->n == 1)
            mrd_buf_fmt(to,
                        "steps take %.1f %% %s since step %" PRIu64 " (at %s): %s instead of %s",
                        fabs(by), by > 0 ? "longer" : "less", change->number,
                        mrd_text_dur(at, dur[0]), mrd_text_dur((uint64_t) change->after_ns, dur[1]),
                        mrd_text_dur((uint64_t) change->before_ns, dur[2]));
        else
            mrd_buf_fmt(to, "%s%+.1f %% at step %" PRIu64 " (%s)", i > 0 ? ", " : "", by,
                        change->number, mrd_text_dur(at, dur[0]));
    }
}

void
mrd_report_text_trend(const mrd_report *report, mrd_buf *to)
{
    const mrd_report_totals *totals = mrd_report_totals_of(report);
    mrd_trend trend = mrd_step_path_trend(mrd_report_path(report));
    char dur[MRD_DUR_TEXT];

    if (trend.n == 0)
        return;
    changes_words(totals, to);
    if (totals->step_changes.n > 0 && trend.says < MRD_TREND_UP)
        return;
    if (totals->step_changes.n > 0)
        mrd_buf_text(to, "; ");
    if (trend.says == MRD_TREND_NONE) {
        mrd_buf_fmt(to, "too few steps to tell a trend: %zu of the %d that it takes", trend.n,
                    MRD_TREND_LEAST);
    } else if (trend.says == MRD_TREND_FLAT) {
        mrd_buf_fmt(to, "no trend beyond the spread of %zu values (p %.3g)", trend.n, trend.p);
    } else {
        uint64_t change = (uint64_t) (trend.change < 0 ? -trend.change : trend.change);

        mrd_buf_fmt(
            to, "steps become %s: %s (%+.1f %%) from the first of %zu values to the last (p %.2g)",
            trend.says == MRD_TREND_UP ? "longer" : "shorter", mrd_text_dur(change, dur),
            100 * trend.change / trend.mean, trend.n, trend.p);
    }
}

static void
put_trend(mrd_report_text *text)
{
    mrd_buf words = { 0 };

    mrd_report_text_trend(text->common.report, &words);
    mrd_report_text_wrapped(&text->text, "  trend", (mrd_str){ (const char *) words.p, words.len });
    mrd_text_done(&words, &text->text);
}

/* Returns the parts that no worker's trace can show, as a set of bits. */
static unsigned
unmeasured_by_all(const mrd_report_text *text)
{
    size_t count;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &count);
    unsigned unmeasured = UINT_MAX;

    for (size_t i = 0; i < count; i++)
        unmeasured &= worker[i].unmeasured;
    return unmeasured;
}

/* Returns true if each block is one step, and the names of all spans end with a number. Such names
 * are better than numbers from 1, because the recording may begin at any step. */
static bool
are_numbered(const mrd_report_text *text, const mrd_step_block *block, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mrd_str name = mrd_catalog_text(text->common.env->catalog, block[i].name);

        if (block[i].steps != 1 || name.len == 0 || !isdigit((unsigned char) name.p[name.len - 1]))
            return false;
    }
    return true;
}

/* Writes the name of a block's only step to `to`. */
static void
put_step_name(mrd_report_text *text, const mrd_step_block *block, char *to, size_t size)
{
    mrd_buf cell = { 0 };

    mrd_text_cell(&cell, mrd_catalog_text(text->common.env->catalog, block->name), NAMED_STEP,
                  false);
    snprintf(to, size, MRD_STR_FMT, (int) cell.len, (const char *) cell.p);
    mrd_text_done(&cell, &text->text);
}

void
mrd_report_text_series(mrd_report_text *text)
{
    const mrd_step_path *path = mrd_report_path(text->common.report);
    size_t count, each;
    const mrd_step_block *block = mrd_step_path_blocks(path, &count);
    uint64_t first = 1;
    char dur[MRD_DUR_TEXT], name[48];
    unsigned unmeasured = unmeasured_by_all(text);
    bool named;

    if (count == 0)
        return;
    each = (count + SPANS - 1) / SPANS;
    named = each == 1 && are_numbered(text, block, count);
    mrd_buf_fmt(&text->text, "\n%-34s %9s", "Steps over time, % of all workers", "mean");
    for (unsigned k = 0; k < MRD_REPORT_PARTS - 1; k++)
        mrd_buf_fmt(&text->text, " %7s", mrd_report_part_text((mrd_report_part) k));
    mrd_buf_byte(&text->text, '\n');
    for (size_t i = 0; i < count; i += each) {
        mrd_step_block sum = { 0 };
        uint64_t all = 0;

        for (size_t j = i; j < count && j < i + each; j++) {
            sum.steps += block[j].steps;
            sum.ns += block[j].ns;
            for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
                sum.part_ns[k] += block[j].part_ns[k];
        }
        for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
            all += sum.part_ns[k];
        if (named)
            put_step_name(text, &block[i], name, sizeof(name));
        else if (sum.steps == 1)
            snprintf(name, sizeof(name), "step %" PRIu64, first);
        else
            snprintf(name, sizeof(name), "steps %" PRIu64 " to %" PRIu64, first,
                     first + sum.steps - 1);
        mrd_buf_fmt(&text->text, "  %-32s %9s", name, mrd_text_dur(sum.ns / sum.steps, dur));
        for (unsigned k = 0; k < MRD_REPORT_PARTS - 1; k++) {
            if (all == 0 || (unmeasured & 1u << k) != 0)
                mrd_buf_fmt(&text->text, " %7s", "-");
            else
                mrd_buf_fmt(&text->text, " %7.2f", 100.0 * (double) sum.part_ns[k] / (double) all);
        }
        mrd_buf_byte(&text->text, '\n');
        first += sum.steps;
    }
    put_trend(text);
    put_persistence(text);
}
