#include "base/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/num.h"
#include "base/version.h"

#define OPEN_TYPE "application/openmetrics-text"

static const mrd_dur_ns bounds[MRD_METRICS_BOUNDS] = {
    MRD_MS,       5 * MRD_MS / 2, 5 * MRD_MS,  10 * MRD_MS, 25 * MRD_MS,     50 * MRD_MS,
    100 * MRD_MS, 250 * MRD_MS,   MRD_SEC / 2, MRD_SEC,     5 * MRD_SEC / 2, 10 * MRD_SEC,
};

/* ---- Choosing the format ---- */

/* Returns the quality in an element of an Accept header, such as 0.5 in "type;a=b;q=0.5". It is 1
 * if none is given. */
static double
quality(mrd_str element)
{
    double q = 1;

    for (size_t i = 0; i + 2 < element.len; i++) {
        mrd_str number = { element.p + i + 3, 0 };

        if (element.p[i] != ';' && element.p[i] != ' ')
            continue;
        if ((element.p[i + 1] != 'q' && element.p[i + 1] != 'Q') || element.p[i + 2] != '=')
            continue;
        while (i + 3 + number.len < element.len &&
               strchr("0123456789.", number.p[number.len]) != NULL)
            number.len++;
        if (mrd_num_double(number, &q) != MRD_OK)
            q = 0;
    }
    return q < 0 ? 0 : q > 1 ? 1 : q;
}

bool
mrd_metrics_text_wants_open(const char *accept)
{
    double open = 0, text = 0, any = 0;
    const char *cursor = accept == NULL ? "" : accept;

    while (*cursor != '\0') {
        mrd_str element, type;
        double q;

        cursor += strspn(cursor, " \t,");
        element = (mrd_str){ cursor, strcspn(cursor, ",") };
        type = (mrd_str){ cursor, strcspn(cursor, " \t;,") };
        q = quality(element);
        if (type.len == strlen(OPEN_TYPE) && strncasecmp(type.p, OPEN_TYPE, type.len) == 0)
            open = q > open ? q : open;
        else if (type.len == 10 && strncasecmp(type.p, "text/plain", 10) == 0)
            text = q > text ? q : text;
        else if (mrd_str_is(type, "*/*") || mrd_str_is(type, "text/*"))
            any = q > any ? q : any;
        cursor += element.len;
    }
    return open > 0 && open >= (text > 0 ? text : any);
}

const char *
mrd_metrics_text_type(bool open)
{
    return open ? OPEN_TYPE "; version=1.0.0; charset=utf-8"
                : "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- Families and samples ---- */

void
mrd_metrics_text_begin(mrd_metrics_text *text, mrd_buf *to, bool open)
{
    *text = (mrd_metrics_text){ to, open, "", NULL };
}

void
mrd_metrics_text_family(mrd_metrics_text *text, mrd_metrics_text_kind kind, const char *name,
                        const char *help)
{
    static const char *const kinds[] = { "gauge", "counter", "histogram" };
    static const char *const units[] = { "seconds", "bytes" };
    mrd_str family = mrd_str_of(name);

    text->name = name;
    if (text->open && kind == MRD_METRICS_COUNTER && mrd_str_ends(family, "_total"))
        family.len -= 6;
    mrd_buf_fmt(text->to, "# HELP " MRD_STR_FMT " %s\n# TYPE " MRD_STR_FMT " %s\n",
                MRD_STR_ARG(family), help, MRD_STR_ARG(family), kinds[kind]);
    for (size_t i = 0; text->open && i < sizeof(units) / sizeof(units[0]); i++) {
        size_t n = strlen(units[i]);

        if (family.len > n && family.p[family.len - n - 1] == '_' &&
            memcmp(family.p + family.len - n, units[i], n) == 0)
            mrd_buf_fmt(text->to, "# UNIT " MRD_STR_FMT " %s\n", MRD_STR_ARG(family), units[i]);
    }
}

static void
sample(mrd_metrics_text *text, const char *suffix, const char *labels)
{
    bool both = labels != NULL && text->common != NULL;

    mrd_buf_fmt(text->to, "%s%s", text->name, suffix);
    if (labels != NULL || text->common != NULL)
        mrd_buf_fmt(text->to, "{%s%s%s}", labels == NULL ? "" : labels, both ? "," : "",
                    text->common == NULL ? "" : text->common);
    mrd_buf_byte(text->to, ' ');
}

static void
seconds(mrd_metrics_text *text, mrd_dur_ns v)
{
    uint64_t whole = v < 0 ? 0 - (uint64_t) v : (uint64_t) v;

    mrd_buf_fmt(text->to, "%s%" PRIu64 ".%09" PRIu64 "\n", v < 0 ? "-" : "",
                whole / (uint64_t) MRD_SEC, whole % (uint64_t) MRD_SEC);
}

void
mrd_metrics_text_u64(mrd_metrics_text *text, const char *labels, uint64_t v)
{
    sample(text, "", labels);
    mrd_buf_u64(text->to, v);
    mrd_buf_byte(text->to, '\n');
}

void
mrd_metrics_text_i64(mrd_metrics_text *text, const char *labels, int64_t v)
{
    sample(text, "", labels);
    mrd_buf_i64(text->to, v);
    mrd_buf_byte(text->to, '\n');
}

void
mrd_metrics_text_seconds(mrd_metrics_text *text, const char *labels, mrd_dur_ns v)
{
    sample(text, "", labels);
    seconds(text, v);
}

void
mrd_metrics_text_one(mrd_metrics_text *text, mrd_metrics_text_kind kind, const char *name,
                     const char *help, uint64_t v)
{
    mrd_metrics_text_family(text, kind, name, help);
    mrd_metrics_text_u64(text, NULL, v);
}

void
mrd_metrics_text_end(mrd_metrics_text *text)
{
    if (text->open)
        mrd_buf_text(text->to, "# EOF\n");
}

/* ---- Metrics of this process ---- */

uint64_t
mrd_resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t) sysconf(_SC_PAGESIZE);
}

static void
put_build(mrd_metrics_text *text, const char *program)
{
    char labels[MRD_COMMIT_MAX + 128];

    snprintf(labels, sizeof(labels), "program=\"%s\",version=\"%s\",revision=\"%s\"", program,
             MRD_RELEASE, mrd_version_commit());
    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_build_info",
                            "Always 1. The labels are the release and the commit of the program.");
    mrd_metrics_text_u64(text, labels, 1);
}

void
mrd_metrics_text_process(mrd_metrics_text *text, const char *program)
{
    uint64_t resident = mrd_resident_bytes();
    struct rusage usage;

    put_build(text, program);
    if (resident > 0)
        mrd_metrics_text_one(text, MRD_METRICS_GAUGE, "process_resident_memory_bytes",
                             "Memory in use.", resident);
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        mrd_metrics_text_family(text, MRD_METRICS_COUNTER, "process_cpu_seconds_total",
                                "CPU time, user and system.");
        mrd_metrics_text_seconds(text, NULL,
                                 (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * MRD_SEC +
                                     (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * MRD_US);
    }
}

/* ---- Histograms ---- */

void
mrd_metrics_text_hist_add(mrd_metrics_text_hist *hist, mrd_dur_ns v)
{
    size_t i = 0;

    while (i < MRD_METRICS_BOUNDS && v > bounds[i])
        i++;
    hist->buckets[i]++;
    hist->count++;
    hist->sum_ns += v;
}

void
mrd_metrics_text_hist_write(mrd_metrics_text *text, const char *name, const char *help,
                            const mrd_metrics_text_hist *hist)
{
    uint64_t below = 0;
    char label[32];

    mrd_metrics_text_family(text, MRD_METRICS_HISTOGRAM, name, help);
    for (size_t i = 0; i < MRD_METRICS_BOUNDS; i++) {
        below += hist->buckets[i];
        snprintf(label, sizeof(label), "le=\"%g\"", (double) bounds[i] / 1e9);
        sample(text, "_bucket", label);
        mrd_buf_fmt(text->to, "%" PRIu64 "\n", below);
    }
    sample(text, "_bucket", "le=\"+Inf\"");
    mrd_buf_fmt(text->to, "%" PRIu64 "\n", hist->count);
    sample(text, "_sum", NULL);
    seconds(text, hist->sum_ns);
    sample(text, "_count", NULL);
    mrd_buf_fmt(text->to, "%" PRIu64 "\n", hist->count);
}
