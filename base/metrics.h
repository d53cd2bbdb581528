/*
 * base/metrics.h - writes metrics for Prometheus, as text format 0.0.4, or as OpenMetrics 1.0 for
 * clients that prefer it. This module hides the differences of the formats (counter families
 * without _total, # UNIT, # EOF), so that a daemon lists each metric once. Names end in their unit
 * (_seconds, _bytes), and counters in _total.
 *
 * Threads: a writer belongs to one thread, and a histogram to its owner.
 */
#ifndef MRD_BASE_METRICS_H
#define MRD_BASE_METRICS_H

#include "base/buf.h"
#include "base/clock.h"

typedef enum {
    MRD_METRICS_GAUGE,
    MRD_METRICS_COUNTER,
    MRD_METRICS_HISTOGRAM
} mrd_metrics_text_kind;

typedef struct {
    mrd_buf *to;
    bool open; /* true: OpenMetrics; false: Prometheus text format */
    const char *name;
    /* label of each sample, such as `instance_id="i-0abc"`; NULL means none. The caller sets it
     * after mrd_metrics_text_begin. */
    const char *common;
} mrd_metrics_text;

/* Returns true if the client's Accept header prefers OpenMetrics to plain text. NULL means no
 * header. */
bool mrd_metrics_text_wants_open(const char *accept);
const char *mrd_metrics_text_type(bool open); /* Returns the Content-Type of the format. */

void mrd_metrics_text_begin(mrd_metrics_text *text, mrd_buf *to, bool open);
/* Begins a metric family. The caller keeps `name` and `help` until the next family begins. `help`
 * is one line. */
void mrd_metrics_text_family(mrd_metrics_text *text, mrd_metrics_text_kind kind, const char *name,
                             const char *help);
/* Writes a sample of the family. `labels` is NULL or for example `cause="full"`. Label values must
 * not contain quotes, backslashes or line ends. */
void mrd_metrics_text_u64(mrd_metrics_text *text, const char *labels, uint64_t v);
void mrd_metrics_text_i64(mrd_metrics_text *text, const char *labels, int64_t v);
void mrd_metrics_text_seconds(mrd_metrics_text *text, const char *labels, mrd_dur_ns v);
/* Writes a family that has only one sample. */
void mrd_metrics_text_one(mrd_metrics_text *text, mrd_metrics_text_kind kind, const char *name,
                          const char *help, uint64_t v);
/* Writes meridian_build_info with the program, its release and its commit. Then writes
 * process_cpu_seconds_total and the other standard metrics of this process. Leaves out metrics that
 * cannot be read. */
void mrd_metrics_text_process(mrd_metrics_text *text, const char *program);
uint64_t mrd_resident_bytes(void); /* Returns this process's resident memory, 0 if unknown. */
void mrd_metrics_text_end(mrd_metrics_text *text);

/* Number of bounds of a histogram of durations. The bounds are fixed, from 1 ms to 10 s. */
enum { MRD_METRICS_BOUNDS = 12 };

typedef struct {
    /* counts per bucket, not cumulative; the last one is for values above all bounds */
    uint64_t buckets[MRD_METRICS_BOUNDS + 1];
    uint64_t count;
    mrd_dur_ns sum_ns;
} mrd_metrics_text_hist;

void mrd_metrics_text_hist_add(mrd_metrics_text_hist *hist, mrd_dur_ns v);
void mrd_metrics_text_hist_write(mrd_metrics_text *text, const char *name, const char *help,
                                 const mrd_metrics_text_hist *hist);

#endif
