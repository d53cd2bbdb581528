/* The section of report.txt about kernels: the longest by total time, and workers that took longer
 * than others. */
#include <inttypes.h>

#include "trace/sink/report/report_text.h"
#include "trace/sink/text.h"

enum { KERNELS = 12, NAME = 36, DOTS = 3, BEGIN = 12 };
enum {
    UNCLEAR = 3,      /* maximum number of kernels in the sentence about unclear ones */
    UNCLEAR_NAME = 64 /* columns of a name in this sentence */
};

/* Returns the length of the common beginning of two names, if it is all that a table cell would
 * show. Otherwise returns 0. */
static size_t
alike(mrd_str a, mrd_str b)
{
    size_t n = 0;

    if (mrd_text_columns(a) <= NAME || mrd_text_columns(b) <= NAME)
        return 0;
    while (n < a.len && n < b.len && a.p[n] == b.p[n])
        n++;
    return n >= NAME - DOTS ? n : 0;
}

/* Returns the position `letters` UTF-8 characters before `at`. */
static size_t
back(mrd_str str, size_t at, size_t letters)
{
    while (at > 0 && letters > 0)
        letters -= ((unsigned char) str.p[--at] & 0xc0) != 0x80;
    return at;
}

/* Writes the name of kernel i as a table cell. Names of generated kernels may differ only near
 * their end. If two names would look equal, the cell shows the beginning and the part in which they
 * differ. */
static void
put_name(mrd_report_text *text, const mrd_kernel *kernel, size_t n, size_t i)
{
    enum { REST = NAME - DOTS - BEGIN };
    const mrd_catalog *cat = text->common.env->catalog;
    mrd_str name = mrd_catalog_text(cat, kernel[i].name);
    size_t parts = 0, from, last;

    for (size_t j = 0; j < n && j < KERNELS; j++) {
        size_t same = j == i ? 0 : alike(name, mrd_catalog_text(cat, kernel[j].name));

        parts = same > parts ? same : parts;
    }
    if (parts == 0) {
        mrd_text_cell(&text->text, name, NAME, true);
        return;
    }
    from = back(name, parts, 4);
    last = back(name, name.len, REST);
    from = from > last ? last : from;
    mrd_text_cell(&text->text, name, BEGIN + DOTS, false);
    mrd_text_cell(&text->text, (mrd_str){ name.p + from, name.len - from }, REST, true);
}

void
mrd_report_text_kernels(mrd_report_text *text)
{
    size_t count, workers;
    const mrd_kernel *kernel = mrd_kernels_list(mrd_report_kernels(text->common.report), &count);
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &workers);
    uint64_t window = mrd_report_totals_of(text->common.report)->window_ns;
    char d[2][MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    if (count == 0)
        return;
    mrd_buf_fmt(&text->text, "\n%-38s %9s %9s %9s  %s\n",
                mrd_report_totals_of(text->common.report)->on_host
                    ? "Collectives, % of all windows"
                    : "What devices ran, % of all windows",
                "count", "total", "share", workers > 1 ? "slowest worker, x the median" : "");
    for (size_t i = 0; i < count && i < KERNELS; i++) {
        mrd_buf label = { 0 };

        mrd_buf_text(&text->text, "  ");
        put_name(text, kernel, count, i);
        mrd_buf_fmt(&text->text, " %9" PRIu64 " %9s %9s", kernel[i].calls,
                    mrd_text_dur(kernel[i].ns, d[0]), mrd_text_share(kernel[i].ns, window, share));
        if (kernel[i].collective) {
            mrd_buf_text(&text->text, "  includes waiting for others");
        } else if (kernel[i].workers > 1 && kernel[i].median_ns > 0) {
            mrd_report_text_label(text, &worker[kernel[i].most_worker], &label);
            mrd_buf_text(&text->text, "  ");
            mrd_text_cell(&text->text, (mrd_str){ (const char *) label.p, label.len }, 22, true);
            mrd_buf_fmt(&text->text, " %.2f x",
                        (double) kernel[i].most_ns / (double) kernel[i].median_ns);
        }
        mrd_buf_byte(&text->text, '\n');
        mrd_text_done(&label, &text->text);
    }
    mrd_text_left_out(&text->text, count > KERNELS ? count - KERNELS : 0, "names", "report-json");
    mrd_report_text_note(&text->text,
                         "sums of spans: spans that run at the same time count each, so "
                         "that a share can exceed 100 %; an execution on two physical "
                         "cores is one, from the earlier begin to the later end");
}

void
mrd_report_text_unclear(const mrd_report_text *text, mrd_buf *to)
{
    size_t n, listed = 0;
    const mrd_kernels *kernels = mrd_report_kernels(text->common.report);
    const mrd_kernel *kernel = mrd_kernels_list(kernels, &n);
    uint64_t unclear_ns, all_ns;
    char share[MRD_TEXT_SHARE];

    if (!mrd_kernels_are_unclear(kernels, &unclear_ns, &all_ns))
        return;
    mrd_buf_fmt(to,
                "%s of the devices' time counts as computation, although the names contain words "
                "of communication: ",
                mrd_text_share(unclear_ns, all_ns, share));
    for (size_t i = 0; i < n && listed < UNCLEAR; i++) {
        if (!kernel[i].unclear)
            continue;
        mrd_buf_text(to, listed++ == 0 ? "" : ", ");
        mrd_text_cell(to, mrd_catalog_text(text->common.env->catalog, kernel[i].name), UNCLEAR_NAME,
                      false);
    }
    mrd_buf_text(to, ". If they communicate, a file for --classify can say so. ");
}
