/*
 * trace/sink/report/sink_report_html.c - writes report.html, the report as one self-contained page.
 * It needs no script and no network. Pictures are inline SVG, with colours for light and dark. The
 * page ends with the whole text of report-text.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/obj.h"
#include "base/plain.h"
#include "trace/json/catalog_json.h"
#include "trace/sink/report/report_style.h"
#include "trace/sink/report/report_text.h"
#include "trace/sink/report/scope_memory_out.h"
#include "trace/sink/text.h"

enum { BARS = 64, KERNELS = 20, COLLECTIVES = 20, WIDE = 1000, HIGH = 160 };

typedef struct {
    mrd_report_text text;
    mrd_buf page;
} html_sink;

/* Titles of the parts of a bar, by kind of time. A CSS class sets the colour. */
static const char *const bound_titles[MRD_BOUNDS] = {
    [MRD_BOUND_COMPUTE] = "computes",
    [MRD_BOUND_SKEW] = "waits for the last worker",
    [MRD_BOUND_TRANSFER] = "transfers data",
    [MRD_BOUND_COMMUNICATION] = "waits or transfers in a collective",
    [MRD_BOUND_HOST] = "waits for the host",
    [MRD_BOUND_LOADING] = "idle while data is loaded",
    [MRD_BOUND_IDLE] = "idle, cause unknown",
    [MRD_BOUND_UNRECORDED] = "not recorded",
};

static const char *const part_titles[MRD_REPORT_PARTS] = {
    [MRD_REPORT_COMPUTE] = "computes",
    [MRD_REPORT_BOTH] = "computes while a collective runs",
    [MRD_REPORT_EXPOSED] = "only a collective runs",
    [MRD_REPORT_COPY] = "only copies run",
    [MRD_REPORT_WAITING] = "waits in a barrier",
    [MRD_REPORT_HOST] = "idle while the runtime is in a call",
    [MRD_REPORT_IDLE] = "idle",
    [MRD_REPORT_UNRECORDED] = "not recorded",
};

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>Meridian report</title>\n<style>\n";

/* ---- Text ---- */

/* Appends a text from the profile, with escapes, so that browsers never take it for markup. */
static void
put_text(mrd_buf *to, mrd_str str)
{
    for (size_t i = 0; i < str.len; i++) {
        char c = str.p[i];
        size_t hidden = c == '\n' ? 0 : mrd_plain_hidden(str.p + i, str.len - i);

        /* A '?' replaces control characters, and characters that change the direction of
         * writing. */
        if (hidden > 0) {
            mrd_buf_byte(to, '?');
            i += hidden - 1;
        } else if (c == '<')
            mrd_buf_text(to, "&lt;");
        else if (c == '>')
            mrd_buf_text(to, "&gt;");
        else if (c == '&')
            mrd_buf_text(to, "&amp;");
        else if (c == '"')
            mrd_buf_text(to, "&quot;");
        else
            mrd_buf_byte(to, (uint8_t) c);
    }
}

static void
put_buf(mrd_buf *to, mrd_buf *from)
{
    put_text(to, (mrd_str){ (const char *) from->p, from->len });
    mrd_text_done(from, to);
}

static void
put_worker(html_sink *sink, uint32_t worker)
{
    size_t n;
    const mrd_report_worker *report_worker = mrd_report_workers(sink->text.common.report, &n);
    mrd_buf label = { 0 };

    mrd_report_text_label(&sink->text, &report_worker[worker], &label);
    put_buf(&sink->page, &label);
}

/* Writes a name as the first cell of a row. The tooltip shows the full name. */
static void
put_name(html_sink *sink, mrd_sid name)
{
    mrd_str text = mrd_catalog_text(sink->text.common.env->catalog, name);

    mrd_buf_text(&sink->page, "<tr><td class=\"name\" title=\"");
    put_text(&sink->page, text);
    mrd_buf_text(&sink->page, "\">");
    put_text(&sink->page, text);
}

/* ---- Bars ---- */

/* Writes one segment of a bar with its text. The segment covers `ns` from position `before` on, and
 * the bar stands for `whole`. All are in ns. */
static void
put_part(mrd_buf *to, const char *class, const char *title, uint64_t before, uint64_t ns,
         uint64_t whole)
{
    char dur[MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    if (ns == 0 || whole == 0)
        return;
    mrd_buf_fmt(to,
                "<rect class=\"%s\" x=\"%.2f\" width=\"%.2f\" height=\"18\"><title>%s: %s, %s"
                "</title></rect>",
                class, (double) before * WIDE / (double) whole, (double) ns * WIDE / (double) whole,
                title, mrd_text_dur(ns, dur), mrd_text_share(ns, whole, share));
}

/* Begins a table of bars. `heads` are the headings of the number columns to the right of the
 * bars. */
static void
put_bars(mrd_buf *to, const char *heads)
{
    mrd_buf_fmt(
        to,
        "<div class=\"scroll\"><table class=\"bars\">\n<thead><tr><th>worker</th><th></th>%s"
        "</tr></thead>\n",
        heads);
}

/* Begins a worker's row with its label. The caller adds the bar. */
static void
put_row(html_sink *sink, uint32_t worker)
{
    mrd_buf_text(&sink->page, "<tr><th scope=\"row\" class=\"who\">");
    put_worker(sink, worker);
    mrd_buf_text(&sink->page, "</th><td>");
}

static void
put_bar(mrd_buf *to, const char *label)
{
    mrd_buf_fmt(to,
                "<svg class=\"bar\" viewBox=\"0 0 %d 18\" preserveAspectRatio=\"none\" "
                "role=\"img\" aria-label=\"%s\">",
                WIDE, label);
}

static void
put_key(mrd_buf *to, const char *class, const char *title)
{
    mrd_buf_fmt(to,
                "<li><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect class=\"%s\" width=\"1\" "
                "height=\"1\"/></svg>%s</li>",
                class, title);
}

/* ---- Sections ---- */

static void
put_answer(html_sink *sink)
{
    mrd_buf words = { 0 };

    mrd_buf_text(&sink->page,
                 "<h1>Where the time goes, and who was late</h1>\n<div class=\"answer\"><p>");
    mrd_report_text_bound(&sink->text, &words);
    put_buf(&sink->page, &words);
    mrd_buf_text(&sink->page, "</p><p>");
    words = (mrd_buf){ 0 };
    mrd_report_text_verdict(&sink->text, &words);
    put_buf(&sink->page, &words);
    mrd_buf_text(&sink->page, "</p>");
    words = (mrd_buf){ 0 };
    mrd_report_text_what_if(&sink->text, &words);
    if (words.len > 0) {
        mrd_buf_text(&sink->page, "<p>What if: ");
        put_buf(&sink->page, &words);
        mrd_buf_text(&sink->page, "</p>");
    }
    words = (mrd_buf){ 0 };
    mrd_report_text_coverage(&sink->text, &words);
    if (words.len > 0) {
        mrd_buf_text(&sink->page, "<p class=\"quiet\">");
        put_buf(&sink->page, &words);
        mrd_buf_text(&sink->page, "</p>");
    }
    mrd_text_done(&words, &sink->page);
    mrd_buf_text(&sink->page, "</div>\n");
    if (mrd_catalog_simulated(sink->text.common.env->catalog))
        mrd_buf_text(&sink->page, "<p><b>SIMULATED</b>: at least a part of these data was made "
                                  "without hardware.</p>\n");
}

static void
put_left_out(html_sink *sink, size_t n, const char *what)
{
    if (n > 0)
        mrd_buf_fmt(&sink->page,
                    "<p class=\"quiet\">… and %zu more %s: the format report-json lists all.</p>\n",
                    n, what);
}

static void
put_breakdown(html_sink *sink)
{
    size_t count;
    const mrd_report_worker *worker = mrd_report_workers(sink->text.common.report, &count);
    uint64_t all[MRD_BOUNDS], longest = 0;
    char dur[MRD_DUR_TEXT];

    if (count == 0)
        return;
    mrd_report_bounds(sink->text.common.report, all);
    for (size_t i = 0; i < count; i++)
        longest = mrd_report_window(&worker[i]) > longest ? mrd_report_window(&worker[i]) : longest;
    mrd_buf_text(&sink->page, "<h2>What each worker did</h2>\n<ul class=\"key\">");
    for (unsigned k = 0; k < MRD_BOUNDS; k++)
        if (all[k] > 0)
            put_key(&sink->page, mrd_bound_by_text((mrd_bound_by) k), bound_titles[k]);
    mrd_buf_text(&sink->page, "</ul>\n");
    put_bars(&sink->page, "<th class=\"n\">window</th>");
    for (size_t i = 0; i < count && i < BARS; i++) {
        uint64_t ns[MRD_BOUNDS], before = 0, window = mrd_report_window(&worker[i]);

        mrd_report_bounds_of(&worker[i], ns);
        put_row(sink, (uint32_t) i);
        put_bar(&sink->page, "what the worker did");
        for (unsigned k = 0; k < MRD_BOUNDS; k++) {
            put_part(&sink->page, mrd_bound_by_text((mrd_bound_by) k), bound_titles[k], before,
                     ns[k], longest);
            before += ns[k];
        }
        mrd_buf_fmt(&sink->page, "</svg></td><td class=\"n\">%s</td></tr>\n",
                    mrd_text_dur(window, dur));
    }
    mrd_buf_text(&sink->page,
                 "</table></div>\n<p class=\"quiet\">A window reaches from the begin of a "
                 "worker's first device span to the end of its last.</p>\n");
    put_left_out(sink, count > BARS ? count - BARS : 0, "workers");
}

static void
put_waits(html_sink *sink)
{
    size_t count, shown = 0, all = 0;
    const mrd_report_worker *worker = mrd_report_workers(sink->text.common.report, &count);
    uint64_t most = 0;
    char d[2][MRD_DUR_TEXT];

    for (size_t i = 0; i < count; i++) {
        all += worker[i].took_part > 0;
        most = worker[i].caused_ns > most ? worker[i].caused_ns : most;
    }
    if (most == 0)
        return;
    mrd_buf_text(&sink->page, "<h2>Whom the others waited for</h2>\n<ul class=\"key\">");
    put_key(&sink->page, "proven", "proven");
    put_key(&sink->page, "unproven", "not proven: within the bounds of the clocks");
    mrd_buf_text(&sink->page, "</ul>\n");
    put_bars(&sink->page, "<th class=\"n\">others waited</th><th class=\"n\">it waited</th>"
                          "<th class=\"n\">came last</th>");
    for (size_t i = 0; i < count && shown < BARS; i++) {
        if (worker[i].took_part == 0)
            continue;
        put_row(sink, (uint32_t) i);
        put_bar(&sink->page, "how long others waited for it");
        put_part(&sink->page, "proven", "proven", 0, worker[i].proven_ns, most);
        put_part(&sink->page, "unproven", "not proven", worker[i].proven_ns,
                 worker[i].caused_ns - worker[i].proven_ns, most);
        mrd_buf_fmt(
            &sink->page,
            "</svg></td><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%" PRIu64
            " of %" PRIu64 "</td></tr>\n",
            mrd_text_dur(worker[i].caused_ns, d[0]), mrd_text_dur(worker[i].wait_ns, d[1]),
            worker[i].came_last, worker[i].took_part);
        shown++;
    }
    mrd_buf_text(&sink->page, "</table></div>\n");
    put_left_out(sink, all - shown, "workers");
}

static void
put_parts_key(html_sink *sink, const uint64_t *part_ns, bool path)
{
    mrd_buf_text(&sink->page, "<ul class=\"key\">");
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        if (part_ns[k] > 0)
            put_key(&sink->page, mrd_report_part_text((mrd_report_part) k), part_titles[k]);
    if (path)
        put_key(&sink->page, "path", "share of a worker");
    mrd_buf_text(&sink->page, "</ul>\n");
}

static void
put_path(html_sink *sink)
{
    const mrd_step_path *path = mrd_report_path(sink->text.common.report);
    const mrd_step_totals *totals = mrd_step_path_totals(path);
    uint64_t before = 0;
    size_t count;
    char dur[MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    mrd_report_workers(sink->text.common.report, &count);
    if (totals->path_of_all_ns == 0 || count < 2)
        return;
    mrd_buf_fmt(
        &sink->page,
        "<h2>Critical path</h2>\n<p>The critical path through %s takes %s, and moves %" PRIu64
        " time%s from one worker to another. ",
        totals->steps > 0 ? "the steps" : "the recording",
        mrd_text_dur(totals->path_of_all_ns, dur), totals->changes, mrd_plural(totals->changes));
    mrd_report_text_shortens(totals, &sink->page);
    mrd_buf_text(&sink->page, "</p>\n");
    put_parts_key(sink, totals->path_ns, true);
    put_bars(&sink->page, "<th class=\"n\">share</th>");
    mrd_buf_text(&sink->page, "<tr><th scope=\"row\" class=\"who\">all</th><td>");
    put_bar(&sink->page, "parts of the critical path");
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        put_part(&sink->page, mrd_report_part_text((mrd_report_part) k), part_titles[k], before,
                 totals->path_ns[k], totals->path_of_all_ns);
        before += totals->path_ns[k];
    }
    mrd_buf_text(&sink->page, "</svg></td><td class=\"n\">100.0 %</td></tr>\n");
    for (uint32_t i = 0; i < count && i < BARS; i++) {
        uint64_t ns = mrd_step_path_worker(path, i)->path_ns;

        if (ns == 0)
            continue;
        put_row(sink, i);
        put_bar(&sink->page, "how long the path ran through it");
        put_part(&sink->page, "path", "on the path", 0, ns, totals->path_of_all_ns);
        mrd_buf_fmt(&sink->page, "</svg></td><td class=\"n\">%s</td></tr>\n",
                    mrd_text_share(ns, totals->path_of_all_ns, share));
    }
    mrd_buf_text(&sink->page, "</table></div>\n");
}

static void
put_trend(html_sink *sink)
{
    mrd_buf words = { 0 };

    mrd_report_text_trend(sink->text.common.report, &words);
    mrd_buf_text(&sink->page, "<p class=\"trend\">Trend: ");
    put_text(&sink->page, (mrd_str){ (const char *) words.p, words.len });
    mrd_buf_text(&sink->page, ".</p>\n");
    mrd_text_done(&words, &sink->page);
}

/* Draws a column for each block of steps. Its height is the mean duration of the block's steps, and
 * its colours are the workers' activities. */
static void
put_steps(html_sink *sink)
{
    const mrd_step_path *path = mrd_report_path(sink->text.common.report);
    const mrd_step_totals *totals = mrd_step_path_totals(path);
    size_t count;
    const mrd_step_block *block = mrd_step_path_blocks(path, &count);
    uint64_t most = 0, all[MRD_REPORT_PARTS] = { 0 };
    char dur[MRD_DUR_TEXT];

    if (count < 2)
        return;
    for (size_t i = 0; i < count; i++) {
        most = block[i].ns / block[i].steps > most ? block[i].ns / block[i].steps : most;
        for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
            all[k] += block[i].part_ns[k];
    }
    mrd_buf_fmt(&sink->page,
                "<h2>Steps over time</h2>\n<p>%" PRIu64 " steps; each column is %s%" PRIu64
                " step%s, the highest is %s. The colours show what all workers did in it.</p>\n",
                totals->steps, totals->width > 1 ? "the mean of " : "", totals->width,
                mrd_plural(totals->width), mrd_text_dur(most, dur));
    put_trend(sink);
    put_parts_key(sink, all, false);
    mrd_buf_fmt(&sink->page,
                "<svg class=\"steps frame\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
                "role=\"img\" aria-label=\"lengths of steps over time\">\n",
                WIDE, HIGH);
    for (size_t i = 0; i < count; i++) {
        double wide = (double) WIDE / (double) count, y = HIGH;
        uint64_t sum = 0, mean = block[i].ns / block[i].steps;
        double high = most == 0 ? 0 : (double) mean / (double) most * (HIGH - 4);

        for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
            sum += block[i].part_ns[k];
        mrd_buf_fmt(&sink->page, "<g><title>steps %" PRIu64 " to %" PRIu64 ": %s each</title>",
                    i * totals->width + 1, i * totals->width + block[i].steps,
                    mrd_text_dur(mean, dur));
        for (unsigned k = 0; k < MRD_REPORT_PARTS && sum > 0; k++) {
            double part = high * (double) block[i].part_ns[k] / (double) sum;

            y -= part;
            if (block[i].part_ns[k] > 0)
                mrd_buf_fmt(&sink->page,
                            "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                            "height=\"%.2f\"/>",
                            mrd_report_part_text((mrd_report_part) k),
                            (double) i * wide + wide / 20, y, wide * 0.9, part);
        }
        mrd_buf_text(&sink->page, "</g>\n");
    }
    mrd_buf_fmt(&sink->page,
                "</svg>\n<p class=\"axis quiet\"><span>step 1</span><span>step %" PRIu64
                "</span></p>\n",
                totals->steps);
}

static void
put_kernels(html_sink *sink)
{
    size_t count;
    const mrd_kernel *kernel =
        mrd_kernels_list(mrd_report_kernels(sink->text.common.report), &count);
    uint64_t window = mrd_report_totals_of(sink->text.common.report)->window_ns;
    char dur[MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    if (count == 0)
        return;
    mrd_buf_text(&sink->page,
                 "<h2>What devices ran</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>"
                 "name</th><th class=\"n\">count</th><th class=\"n\">total</th><th "
                 "class=\"n\">of all windows</th><th>slowest worker, × the median"
                 "</th></tr></thead>\n");
    for (size_t i = 0; i < count && i < KERNELS; i++) {
        put_name(sink, kernel[i].name);
        mrd_buf_fmt(&sink->page,
                    "</td><td class=\"n\">%" PRIu64
                    "</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td>",
                    kernel[i].calls, mrd_text_dur(kernel[i].ns, dur),
                    mrd_text_share(kernel[i].ns, window, share));
        if (kernel[i].collective) {
            mrd_buf_text(&sink->page, "<span class=\"quiet\">includes waiting for others</span>");
        } else if (kernel[i].workers > 1 && kernel[i].median_ns > 0) {
            put_worker(sink, kernel[i].most_worker);
            mrd_buf_fmt(&sink->page, ", %.2f ×",
                        (double) kernel[i].most_ns / (double) kernel[i].median_ns);
        }
        mrd_buf_text(&sink->page, "</td></tr>\n");
    }
    mrd_buf_text(
        &sink->page,
        "</table></div>\n<p class=\"quiet\">Sums of spans: spans that run at the same time "
        "count each, so that a share can exceed 100 %; an execution on two physical cores is "
        "one, from the earlier begin to the later end.</p>\n");
    put_left_out(sink, count > KERNELS ? count - KERNELS : 0, "names");
}

static void
put_collectives(html_sink *sink)
{
    size_t count;
    const mrd_report_collective *collective =
        mrd_report_collectives(sink->text.common.report, &count);
    char d[2][MRD_DUR_TEXT];

    if (count == 0)
        return;
    mrd_buf_text(&sink->page,
                 "<h2>Collectives</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>name"
                 "</th><th class=\"n\">size</th><th class=\"n\">count</th><th class=\"n\">"
                 "latency</th><th class=\"n\">spread</th><th class=\"n\">proven</th><th "
                 "class=\"n\">algbw</th><th class=\"n\">busbw</th></tr></thead>\n");
    for (size_t i = 0; i < count && i < COLLECTIVES; i++) {
        put_name(sink, collective[i].name);
        mrd_buf_text(&sink->page, "</td><td class=\"n\">");
        if (collective[i].size >= 0)
            mrd_buf_fmt(&sink->page, "%" PRId64, collective[i].size);
        else
            mrd_buf_text(&sink->page, "–");
        mrd_buf_fmt(&sink->page,
                    "</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%s</td><td class=\"n\">%s"
                    "</td><td class=\"n\">%" PRIu64 "</td>",
                    collective[i].count,
                    mrd_text_dur(mrd_hist_quantile(&collective[i].latency, 0.5), d[0]),
                    mrd_text_dur(mrd_hist_quantile(&collective[i].spread, 0.5), d[1]),
                    collective[i].proven);
        for (unsigned k = 0; k < 2; k++) {
            uint64_t bytes = k == 0 ? collective[i].bytes : collective[i].bus_bytes;

            if (bytes > 0)
                mrd_buf_fmt(&sink->page, "<td class=\"n\">%.2f GB/s</td>",
                            (double) bytes / (double) collective[i].sized_ns);
            else
                mrd_buf_text(&sink->page, "<td class=\"n quiet\">–</td>");
        }
        mrd_buf_text(&sink->page, "</tr>\n");
    }
    mrd_buf_text(
        &sink->page,
        "</table></div>\n<p class=\"quiet\">Latency (median): from the begin of the last worker to "
        "its end. Spread (median): from the begin of the first worker to that of the last. "
        "Proven: in how many the clocks prove who came last. algbw: bytes of the operation "
        "over the latency; busbw: what one worker moves over its links.</p>\n");
    put_left_out(sink, count > COLLECTIVES ? count - COLLECTIVES : 0, "collectives");
}

/* Draws for each worker how many launches were in flight over time. */
static void
put_queues(html_sink *sink)
{
    size_t n, shown = 0, with = 0;
    const mrd_report_worker *worker = mrd_report_workers(sink->text.common.report, &n);
    char share[MRD_TEXT_SHARE];

    for (size_t i = 0; i < n; i++)
        with += worker[i].queue.launches > 0;
    if (with == 0)
        return;
    mrd_buf_text(&sink->page,
                 "<h2>Queues</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>worker</th>"
                 "<th class=\"n\">launches</th><th class=\"n\">mean in flight</th><th "
                 "class=\"n\">most in flight</th>"
                 "<th class=\"n\">empty</th></tr></thead>\n");
    for (size_t i = 0; i < n && shown < BARS; i++) {
        const mrd_queue_sum *sum = &worker[i].queue;
        uint64_t window = mrd_report_window(&worker[i]);

        if (sum->launches == 0)
            continue;
        mrd_buf_text(&sink->page, "<tr><th scope=\"row\" class=\"who\">");
        put_worker(sink, (uint32_t) i);
        mrd_buf_text(&sink->page, "</th>");
        mrd_buf_fmt(&sink->page,
                    "<td class=\"n\">%" PRIu64 "</td><td class=\"n\">%.2f</td>"
                    "<td class=\"n\">%" PRIu64 "</td><td class=\"n\">%s</td></tr>\n",
                    sum->launches, window == 0 ? 0 : (double) sum->sum_ns / (double) window,
                    sum->most, mrd_text_share(sum->empty_ns, window, share));
        shown++;
    }
    mrd_buf_text(&sink->page,
                 "</table></div>\n<p class=\"quiet\">Launches that have begun and whose "
                 "device span has not, over the worker's window; empty: none was in "
                 "flight.</p>\n");
    put_left_out(sink, with - shown, "workers");
}

/* Copies the section about memory from the text report. */
static void
put_memory(html_sink *sink)
{
    const mrd_catalog *cat = sink->text.common.env->catalog;
    size_t count;
    const mrd_memory_row *row = mrd_memory_use_rows(sink->text.common.memory, &count);

    if (count == 0)
        return;
    mrd_buf_text(&sink->page,
                 "<h2>Memory</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>category</th>"
                 "<th>process</th><th class=\"n\">peak</th><th class=\"n\">last</th>"
                 "<th class=\"n\">growth</th></tr></thead>\n");
    for (size_t i = 0; i < count && i < BARS; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, row[i].track);
        char b[2][MRD_MEMORY_TEXT];
        mrd_buf process = { 0 }, growth = { 0 };

        mrd_text_node_process(cat, track->process, &process);
        mrd_report_text_growth(&sink->text.common, &row[i], &growth);
        put_name(sink, track->name);
        if (track->device_idx != MRD_NONE)
            mrd_buf_fmt(&sink->page, " device %" PRId64, track->device_idx);
        mrd_buf_text(&sink->page, "</td><td>");
        put_buf(&sink->page, &process);
        mrd_buf_fmt(
            &sink->page,
            "</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
            mrd_memory_text(row[i].peak, b[0]), mrd_memory_text(row[i].last, b[1]),
            growth.len == 0 ? "–" : mrd_buf_cstr(&growth));
        mrd_text_done(&process, &sink->page);
        mrd_text_done(&growth, &sink->page);
    }
    mrd_buf_text(&sink->page,
                 "</table></div>\n<p class=\"quiet\">Growth: of the largest values of equal "
                 "stretches of the recording, when it is beyond their spread; –: too few "
                 "samples.</p>\n");
    put_left_out(sink, count > BARS ? count - BARS : 0, "counters");
}

static mrd_err
html_write(void *state)
{
    html_sink *sink = state;

    mrd_report_text_all(&sink->text);
    mrd_buf_text(&sink->page, head);
    mrd_buf_text(&sink->page, mrd_report_style);
    mrd_buf_text(&sink->page, "</style>\n</head>\n<body>\n<main>\n");
    put_answer(sink);
    put_breakdown(sink);
    put_waits(sink);
    put_queues(sink);
    put_path(sink);
    put_steps(sink);
    put_kernels(sink);
    put_collectives(sink);
    put_memory(sink);
    mrd_buf_text(&sink->page, "<details><summary>The whole report as text</summary><pre>");
    put_buf(&sink->page, &sink->text.text);
    mrd_buf_text(&sink->page, "</pre></details>\n</main>\n</body>\n</html>\n");
    mrd_out_add(sink->text.common.env->out, sink->page.p, sink->page.len);
    return sink->page.err;
}

static mrd_err
html_close(void *state, mrd_why *why)
{
    html_sink *sink = state;
    mrd_err err = mrd_report_sink_close(state, html_write, why);

    mrd_buf_fini(&sink->page);
    return err;
}

const mrd_sink_ops mrd_sink_report_html = {
    .name = "report-html",
    .stem = "report",
    .suffix = ".html",
    .media_type = "text/html; charset=utf-8",
    .title = "Report with pictures",
    .what = "the report as one page with pictures, for a browser",
    .state_size = sizeof(html_sink),
    .open = mrd_report_sink_open,
    .event = mrd_report_sink_event,
    .close = html_close,
};
