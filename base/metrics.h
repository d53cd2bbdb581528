/*
 * base/metrics.h - metrics as Prometheus reads them: text 0.0.4, or OpenMetrics 1.0 for clients that
 * prefer it. The differences (counter families without _total, # UNIT, # EOF) are made here, so
 * that a daemon lists its metrics once. Names end in their unit (_seconds, _bytes), counters in
 * _total.
 *
 * Threads: a writer belongs to one; a histogram to whoever owns it.
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
    bool open; /* OpenMetrics */
    const char *name;
} mrd_metrics_text;

/* True when an Accept header (NULL: none) prefers OpenMetrics to plain text. */
bool mrd_metrics_text_wants_open(const char *accept);
const char *mrd_metrics_text_type(bool open); /* Content-Type */

void mrd_metrics_text_begin(mrd_metrics_text *x, mrd_buf *to, bool open);
/* name and help are borrowed until the next family; help is one plain line. */
void mrd_metrics_text_family(mrd_metrics_text *x, mrd_metrics_text_kind kind, const char *name,
                             const char *help);
/* One sample of the family. labels: `cause="full"` or NULL, values already without quotes,
 * backslashes and line ends. */
void mrd_metrics_text_u64(mrd_metrics_text *x, const char *labels, uint64_t v);
void mrd_metrics_text_i64(mrd_metrics_text *x, const char *labels, int64_t v);
void mrd_metrics_text_seconds(mrd_metrics_text *x, const char *labels, mrd_dur_ns v);
/* A family of one sample. */
void mrd_metrics_text_one(mrd_metrics_text *x, mrd_metrics_text_kind kind, const char *name,
                          const char *help, uint64_t v);
/* process_cpu_seconds_total and its kin, of this process; what cannot be read is left out. */
void mrd_metrics_text_process(mrd_metrics_text *x);
uint64_t mrd_resident_bytes(void); /* memory of this process in use; 0: it cannot be read */
void mrd_metrics_text_end(mrd_metrics_text *x);

/* Durations by fixed bounds from 1 ms to 10 s. */
enum { MRD_METRICS_BOUNDS = 12 };

typedef struct {
    uint64_t buckets[MRD_METRICS_BOUNDS + 1]; /* not cumulative; the last: above all bounds */
    uint64_t count;
    mrd_dur_ns sum_ns;
} mrd_metrics_text_hist;

void mrd_metrics_text_hist_add(mrd_metrics_text_hist *h, mrd_dur_ns v);
void mrd_metrics_text_hist_write(mrd_metrics_text *x, const char *name, const char *help,
                                 const mrd_metrics_text_hist *h);

#endif
