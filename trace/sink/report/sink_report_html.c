/*
 * trace/sink/report/sink_report_html.c - report.html: the report as one self-contained page. It needs no
 * script and no network. Pictures are inline SVG, with colours for light and dark. The whole text
 * of report-text is at its end.
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

/* Titles of the parts of a bar; the class sets the colour. */
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

/* ---- Words ---- */

/* Appends text of the profile, which is never markup. */
static void
put_text(mrd_buf *to, mrd_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];
        size_t hidden = c == '\n' ? 0 : mrd_plain_hidden(s.p + i, s.len - i);

        /* control characters, and characters that change the direction of writing */
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
put_worker(html_sink *h, uint32_t worker)
{
    size_t n;
    const mrd_report_worker *w = mrd_report_workers(h->text.common.report, &n);
    mrd_buf label = { 0 };

    mrd_report_text_label(&h->text, &w[worker], &label);
    put_buf(&h->page, &label);
}

/* Writes the first cell of a row, with the full name as a tooltip. */
static void
put_name(html_sink *h, mrd_sid name)
{
    mrd_str text = mrd_catalog_text(h->text.common.env->catalog, name);

    mrd_buf_text(&h->page, "<tr><td class=\"name\" title=\"");
    put_text(&h->page, text);
    mrd_buf_text(&h->page, "\">");
    put_text(&h->page, text);
}

/* ---- Bars ---- */

/* Writes a part of a bar of length `whole`, after `before`, with its text. */
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

/* Begins a table of bars; `heads` are the headings of the numbers after them. */
static void
put_bars(mrd_buf *to, const char *heads)
{
    mrd_buf_fmt(
        to,
        "<div class=\"scroll\"><table class=\"bars\">\n<thead><tr><th>worker</th><th></th>%s"
        "</tr></thead>\n",
        heads);
}

/* Begins a worker's row, up to the bar. */
static void
put_row(html_sink *h, uint32_t worker)
{
    mrd_buf_text(&h->page, "<tr><th scope=\"row\" class=\"who\">");
    put_worker(h, worker);
    mrd_buf_text(&h->page, "</th><td>");
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
put_answer(html_sink *h)
{
    mrd_buf words = { 0 };

    mrd_buf_text(&h->page,
                 "<h1>Where the time goes, and who was late</h1>\n<div class=\"answer\"><p>");
    mrd_report_text_bound(&h->text, &words);
    put_buf(&h->page, &words);
    mrd_buf_text(&h->page, "</p><p>");
    words = (mrd_buf){ 0 };
    mrd_report_text_verdict(&h->text, &words);
    put_buf(&h->page, &words);
    mrd_buf_text(&h->page, "</p>");
    words = (mrd_buf){ 0 };
    mrd_report_text_coverage(&h->text, &words);
    if (words.len > 0) {
        mrd_buf_text(&h->page, "<p class=\"quiet\">");
        put_buf(&h->page, &words);
        mrd_buf_text(&h->page, "</p>");
    }
    mrd_text_done(&words, &h->page);
    mrd_buf_text(&h->page, "</div>\n");
    if (mrd_catalog_simulated(h->text.common.env->catalog))
        mrd_buf_text(&h->page, "<p><b>SIMULATED</b>: at least a part of these data was made "
                               "without hardware.</p>\n");
}

static void
put_left_out(html_sink *h, size_t n, const char *what)
{
    if (n > 0)
        mrd_buf_fmt(&h->page,
                    "<p class=\"quiet\">… and %zu more %s: the format report-json lists all.</p>\n",
                    n, what);
}

static void
put_breakdown(html_sink *h)
{
    size_t n;
    const mrd_report_worker *w = mrd_report_workers(h->text.common.report, &n);
    uint64_t all[MRD_BOUNDS], longest = 0;
    char dur[MRD_DUR_TEXT];

    if (n == 0)
        return;
    mrd_report_bounds(h->text.common.report, all);
    for (size_t i = 0; i < n; i++)
        longest = mrd_report_window(&w[i]) > longest ? mrd_report_window(&w[i]) : longest;
    mrd_buf_text(&h->page, "<h2>What each worker did</h2>\n<ul class=\"key\">");
    for (unsigned k = 0; k < MRD_BOUNDS; k++)
        if (all[k] > 0)
            put_key(&h->page, mrd_bound_by_text((mrd_bound_by) k), bound_titles[k]);
    mrd_buf_text(&h->page, "</ul>\n");
    put_bars(&h->page, "<th class=\"n\">window</th>");
    for (size_t i = 0; i < n && i < BARS; i++) {
        uint64_t ns[MRD_BOUNDS], before = 0, window = mrd_report_window(&w[i]);

        mrd_report_bounds_of(&w[i], ns);
        put_row(h, (uint32_t) i);
        put_bar(&h->page, "what the worker did");
        for (unsigned k = 0; k < MRD_BOUNDS; k++) {
            put_part(&h->page, mrd_bound_by_text((mrd_bound_by) k), bound_titles[k], before, ns[k],
                     longest);
            before += ns[k];
        }
        mrd_buf_fmt(&h->page, "</svg></td><td class=\"n\">%s</td></tr>\n",
                    mrd_text_dur(window, dur));
    }
    mrd_buf_text(&h->page,
                 "</table></div>\n<p class=\"quiet\">A window reaches from the begin of a "
                 "worker's first device span to the end of its last.</p>\n");
    put_left_out(h, n > BARS ? n - BARS : 0, "workers");
}

static void
put_waits(html_sink *h)
{
    size_t n, shown = 0, all = 0;
    const mrd_report_worker *w = mrd_report_workers(h->text.common.report, &n);
    uint64_t most = 0;
    char d[2][MRD_DUR_TEXT];

    for (size_t i = 0; i < n; i++) {
        all += w[i].took_part > 0;
        most = w[i].caused_ns > most ? w[i].caused_ns : most;
    }
    if (most == 0)
        return;
    mrd_buf_text(&h->page, "<h2>Whom the others waited for</h2>\n<ul class=\"key\">");
    put_key(&h->page, "proven", "proven");
    put_key(&h->page, "unproven", "not proven: within the bounds of the clocks");
    mrd_buf_text(&h->page, "</ul>\n");
    put_bars(&h->page, "<th class=\"n\">others waited</th><th class=\"n\">it waited</th>"
                       "<th class=\"n\">came last</th>");
    for (size_t i = 0; i < n && shown < BARS; i++) {
        if (w[i].took_part == 0)
            continue;
        put_row(h, (uint32_t) i);
        put_bar(&h->page, "how long others waited for it");
        put_part(&h->page, "proven", "proven", 0, w[i].proven_ns, most);
        put_part(&h->page, "unproven", "not proven", w[i].proven_ns,
                 w[i].caused_ns - w[i].proven_ns, most);
        mrd_buf_fmt(
            &h->page,
            "</svg></td><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%" PRIu64
            " of %" PRIu64 "</td></tr>\n",
            mrd_text_dur(w[i].caused_ns, d[0]), mrd_text_dur(w[i].wait_ns, d[1]), w[i].came_last,
            w[i].took_part);
        shown++;
    }
    mrd_buf_text(&h->page, "</table></div>\n");
    put_left_out(h, all - shown, "workers");
}

static void
put_parts_key(html_sink *h, const uint64_t *part_ns, bool path)
{
    mrd_buf_text(&h->page, "<ul class=\"key\">");
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        if (part_ns[k] > 0)
            put_key(&h->page, mrd_report_part_text((mrd_report_part) k), part_titles[k]);
    if (path)
        put_key(&h->page, "path", "share of a worker");
    mrd_buf_text(&h->page, "</ul>\n");
}

static void
put_path(html_sink *h)
{
    const mrd_step_path *path = mrd_report_path(h->text.common.report);
    const mrd_step_totals *t = mrd_step_path_totals(path);
    uint64_t before = 0;
    size_t n;
    char dur[MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    mrd_report_workers(h->text.common.report, &n);
    if (t->path_of_all_ns == 0 || n < 2)
        return;
    mrd_buf_fmt(
        &h->page,
        "<h2>Critical path</h2>\n<p>The critical path through %s takes %s, and moves %" PRIu64
        " time%s from one worker to another. ",
        t->steps > 0 ? "the steps" : "the recording", mrd_text_dur(t->path_of_all_ns, dur),
        t->changes, mrd_plural(t->changes));
    mrd_report_text_shortens(t, &h->page);
    mrd_buf_text(&h->page, "</p>\n");
    put_parts_key(h, t->path_ns, true);
    put_bars(&h->page, "<th class=\"n\">share</th>");
    mrd_buf_text(&h->page, "<tr><th scope=\"row\" class=\"who\">all</th><td>");
    put_bar(&h->page, "parts of the critical path");
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        put_part(&h->page, mrd_report_part_text((mrd_report_part) k), part_titles[k], before,
                 t->path_ns[k], t->path_of_all_ns);
        before += t->path_ns[k];
    }
    mrd_buf_text(&h->page, "</svg></td><td class=\"n\">100.0 %</td></tr>\n");
    for (uint32_t i = 0; i < n && i < BARS; i++) {
        uint64_t ns = mrd_step_path_worker(path, i)->path_ns;

        if (ns == 0)
            continue;
        put_row(h, i);
        put_bar(&h->page, "how long the path ran through it");
        put_part(&h->page, "path", "on the path", 0, ns, t->path_of_all_ns);
        mrd_buf_fmt(&h->page, "</svg></td><td class=\"n\">%s</td></tr>\n",
                    mrd_text_share(ns, t->path_of_all_ns, share));
    }
    mrd_buf_text(&h->page, "</table></div>\n");
}

static void
put_trend(html_sink *h)
{
    mrd_buf words = { 0 };

    mrd_report_text_trend(h->text.common.report, &words);
    mrd_buf_text(&h->page, "<p class=\"trend\">Trend: ");
    put_text(&h->page, (mrd_str){ (const char *) words.p, words.len });
    mrd_buf_text(&h->page, ".</p>\n");
    mrd_text_done(&words, &h->page);
}

/* Writes a column for each block of steps: its height is the duration, divided by the workers'
 * activities. */
static void
put_steps(html_sink *h)
{
    const mrd_step_path *path = mrd_report_path(h->text.common.report);
    const mrd_step_totals *t = mrd_step_path_totals(path);
    size_t n;
    const mrd_step_block *b = mrd_step_path_blocks(path, &n);
    uint64_t most = 0, all[MRD_REPORT_PARTS] = { 0 };
    char dur[MRD_DUR_TEXT];

    if (n < 2)
        return;
    for (size_t i = 0; i < n; i++) {
        most = b[i].ns / b[i].steps > most ? b[i].ns / b[i].steps : most;
        for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
            all[k] += b[i].part_ns[k];
    }
    mrd_buf_fmt(&h->page,
                "<h2>Steps over time</h2>\n<p>%" PRIu64 " steps; each column is %s%" PRIu64
                " step%s, the highest is %s. The colours show what all workers did in it.</p>\n",
                t->steps, t->width > 1 ? "the mean of " : "", t->width, mrd_plural(t->width),
                mrd_text_dur(most, dur));
    put_trend(h);
    put_parts_key(h, all, false);
    mrd_buf_fmt(&h->page,
                "<svg class=\"steps frame\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
                "role=\"img\" aria-label=\"lengths of steps over time\">\n",
                WIDE, HIGH);
    for (size_t i = 0; i < n; i++) {
        double wide = (double) WIDE / (double) n, y = HIGH;
        uint64_t sum = 0, mean = b[i].ns / b[i].steps;
        double high = most == 0 ? 0 : (double) mean / (double) most * (HIGH - 4);

        for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
            sum += b[i].part_ns[k];
        mrd_buf_fmt(&h->page, "<g><title>steps %" PRIu64 " to %" PRIu64 ": %s each</title>",
                    i * t->width + 1, i * t->width + b[i].steps, mrd_text_dur(mean, dur));
        for (unsigned k = 0; k < MRD_REPORT_PARTS && sum > 0; k++) {
            double part = high * (double) b[i].part_ns[k] / (double) sum;

            y -= part;
            if (b[i].part_ns[k] > 0)
                mrd_buf_fmt(&h->page,
                            "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                            "height=\"%.2f\"/>",
                            mrd_report_part_text((mrd_report_part) k),
                            (double) i * wide + wide / 20, y, wide * 0.9, part);
        }
        mrd_buf_text(&h->page, "</g>\n");
    }
    mrd_buf_fmt(&h->page,
                "</svg>\n<p class=\"axis quiet\"><span>step 1</span><span>step %" PRIu64
                "</span></p>\n",
                t->steps);
}

static void
put_kernels(html_sink *h)
{
    size_t n;
    const mrd_kernel *k = mrd_kernels_list(mrd_report_kernels(h->text.common.report), &n);
    uint64_t window = mrd_report_totals_of(h->text.common.report)->window_ns;
    char dur[MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    if (n == 0)
        return;
    mrd_buf_text(&h->page,
                 "<h2>What devices ran</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>"
                 "name</th><th class=\"n\">count</th><th class=\"n\">total</th><th "
                 "class=\"n\">of all windows</th><th>slowest worker, × the median"
                 "</th></tr></thead>\n");
    for (size_t i = 0; i < n && i < KERNELS; i++) {
        put_name(h, k[i].name);
        mrd_buf_fmt(&h->page,
                    "</td><td class=\"n\">%" PRIu64
                    "</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td>",
                    k[i].calls, mrd_text_dur(k[i].ns, dur), mrd_text_share(k[i].ns, window, share));
        if (k[i].collective) {
            mrd_buf_text(&h->page, "<span class=\"quiet\">includes waiting for others</span>");
        } else if (k[i].workers > 1 && k[i].median_ns > 0) {
            put_worker(h, k[i].most_worker);
            mrd_buf_fmt(&h->page, ", %.2f ×", (double) k[i].most_ns / (double) k[i].median_ns);
        }
        mrd_buf_text(&h->page, "</td></tr>\n");
    }
    mrd_buf_text(
        &h->page,
        "</table></div>\n<p class=\"quiet\">Sums of spans: spans that run at the same time "
        "count each, so that a share can exceed 100 %; an execution on two physical cores is "
        "one, from the earlier begin to the later end.</p>\n");
    put_left_out(h, n > KERNELS ? n - KERNELS : 0, "names");
}

static void
put_collectives(html_sink *h)
{
    size_t n;
    const mrd_report_collective *c = mrd_report_collectives(h->text.common.report, &n);
    char d[2][MRD_DUR_TEXT];

    if (n == 0)
        return;
    mrd_buf_text(&h->page,
                 "<h2>Collectives</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>name"
                 "</th><th class=\"n\">size</th><th class=\"n\">count</th><th class=\"n\">"
                 "latency</th><th class=\"n\">spread</th><th class=\"n\">proven</th><th "
                 "class=\"n\">algbw</th><th class=\"n\">busbw</th></tr></thead>\n");
    for (size_t i = 0; i < n && i < COLLECTIVES; i++) {
        put_name(h, c[i].name);
        mrd_buf_text(&h->page, "</td><td class=\"n\">");
        if (c[i].size >= 0)
            mrd_buf_fmt(&h->page, "%" PRId64, c[i].size);
        else
            mrd_buf_text(&h->page, "–");
        mrd_buf_fmt(&h->page,
                    "</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%s</td><td class=\"n\">%s"
                    "</td><td class=\"n\">%" PRIu64 "</td>",
                    c[i].count, mrd_text_dur(mrd_hist_quantile(&c[i].latency, 0.5), d[0]),
                    mrd_text_dur(mrd_hist_quantile(&c[i].spread, 0.5), d[1]), c[i].proven);
        for (unsigned k = 0; k < 2; k++) {
            uint64_t bytes = k == 0 ? c[i].bytes : c[i].bus_bytes;

            if (bytes > 0)
                mrd_buf_fmt(&h->page, "<td class=\"n\">%.2f GB/s</td>",
                            (double) bytes / (double) c[i].sized_ns);
            else
                mrd_buf_text(&h->page, "<td class=\"n quiet\">–</td>");
        }
        mrd_buf_text(&h->page, "</tr>\n");
    }
    mrd_buf_text(
        &h->page,
        "</table></div>\n<p class=\"quiet\">Latency (median): from the begin of the last worker to "
        "its end. Spread (median): from the begin of the first worker to that of the last. "
        "Proven: in how many the clocks prove who came last. algbw: bytes of the operation "
        "over the latency; busbw: what one worker moves over its links.</p>\n");
    put_left_out(h, n > COLLECTIVES ? n - COLLECTIVES : 0, "collectives");
}

/* Writes the launches in flight of each worker. */
static void
put_queues(html_sink *h)
{
    size_t n, shown = 0, with = 0;
    const mrd_report_worker *w = mrd_report_workers(h->text.common.report, &n);
    char share[MRD_TEXT_SHARE];

    for (size_t i = 0; i < n; i++)
        with += w[i].queue.launches > 0;
    if (with == 0)
        return;
    mrd_buf_text(&h->page,
                 "<h2>Queues</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>worker</th>"
                 "<th class=\"n\">launches</th><th class=\"n\">mean</th><th class=\"n\">most</th>"
                 "<th class=\"n\">empty</th></tr></thead>\n");
    for (size_t i = 0; i < n && shown < BARS; i++) {
        const mrd_queue_sum *q = &w[i].queue;
        uint64_t window = mrd_report_window(&w[i]);

        if (q->launches == 0)
            continue;
        mrd_buf_text(&h->page, "<tr><th scope=\"row\" class=\"who\">");
        put_worker(h, (uint32_t) i);
        mrd_buf_text(&h->page, "</th>");
        mrd_buf_fmt(&h->page,
                    "<td class=\"n\">%" PRIu64 "</td><td class=\"n\">%.2f</td>"
                    "<td class=\"n\">%" PRIu64 "</td><td class=\"n\">%s</td></tr>\n",
                    q->launches, window == 0 ? 0 : (double) q->sum_ns / (double) window, q->most,
                    mrd_text_share(q->empty_ns, window, share));
        shown++;
    }
    mrd_buf_text(&h->page, "</table></div>\n<p class=\"quiet\">Launches that have begun and whose "
                           "device span has not, over the worker's window; empty: none was in "
                           "flight.</p>\n");
    put_left_out(h, with - shown, "workers");
}

/* Writes the memory section of the text report. */
static void
put_memory(html_sink *h)
{
    const mrd_catalog *cat = h->text.common.env->catalog;
    size_t n;
    const mrd_memory_row *r = mrd_memory_use_rows(h->text.common.memory, &n);

    if (n == 0)
        return;
    mrd_buf_text(&h->page,
                 "<h2>Memory</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>category</th>"
                 "<th>process</th><th class=\"n\">peak</th><th class=\"n\">last</th>"
                 "<th class=\"n\">growth</th></tr></thead>\n");
    for (size_t i = 0; i < n && i < BARS; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(cat, r[i].track);
        char b[2][MRD_MEMORY_TEXT];
        mrd_buf process = { 0 }, growth = { 0 };

        mrd_text_process(cat, t->process, &process);
        mrd_report_text_growth(&h->text.common, &r[i], &growth);
        put_name(h, t->name);
        if (t->device_idx != MRD_NONE)
            mrd_buf_fmt(&h->page, " device %" PRId64, t->device_idx);
        mrd_buf_text(&h->page, "</td><td>");
        put_buf(&h->page, &process);
        mrd_buf_fmt(
            &h->page,
            "</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
            mrd_memory_text(r[i].peak, b[0]), mrd_memory_text(r[i].last, b[1]),
            growth.len == 0 ? "–" : mrd_buf_cstr(&growth));
        mrd_text_done(&process, &h->page);
        mrd_text_done(&growth, &h->page);
    }
    mrd_buf_text(&h->page,
                 "</table></div>\n<p class=\"quiet\">Growth: of the largest values of equal "
                 "stretches of the recording, when it is beyond their spread; –: too few "
                 "samples.</p>\n");
    put_left_out(h, n > BARS ? n - BARS : 0, "counters");
}

static mrd_err
html_write(void *state)
{
    html_sink *h = state;

    mrd_report_text_all(&h->text);
    mrd_buf_text(&h->page, head);
    mrd_buf_text(&h->page, mrd_report_style);
    mrd_buf_text(&h->page, "</style>\n</head>\n<body>\n<main>\n");
    put_answer(h);
    put_breakdown(h);
    put_waits(h);
    put_queues(h);
    put_path(h);
    put_steps(h);
    put_kernels(h);
    put_collectives(h);
    put_memory(h);
    mrd_buf_text(&h->page, "<details><summary>The whole report as text</summary><pre>");
    put_buf(&h->page, &h->text.text);
    mrd_buf_text(&h->page, "</pre></details>\n</main>\n</body>\n</html>\n");
    mrd_out_add(h->text.common.env->out, h->page.p, h->page.len);
    return h->page.err;
}

static mrd_err
html_close(void *state, mrd_why *why)
{
    html_sink *h = state;
    mrd_err err = mrd_report_sink_close(state, html_write, why);

    mrd_buf_fini(&h->page);
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
