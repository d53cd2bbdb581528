/*
 * base/expose.h - metrics as Prometheus reads them: text 0.0.4, or OpenMetrics 1.0 for clients that
 * prefer it. The differences (counter families without _total, # UNIT, # EOF) are made here, so
 * that a daemon lists its metrics once. Names end in their unit (_seconds, _bytes), counters in
 * _total.
 *
 * Threads: a writer belongs to one; a histogram to whoever owns it.
 */
#ifndef MRD_BASE_EXPOSE_H
#define MRD_BASE_EXPOSE_H

#include "base/buf.h"
#include "base/clock.h"

typedef enum { MRD_EXPO_GAUGE, MRD_EXPO_COUNTER, MRD_EXPO_HISTOGRAM } mrd_expo_kind;

typedef struct {
    mrd_buf *to;
    bool open; /* OpenMetrics */
    const char *name;
} mrd_expo;

/* True when an Accept header (NULL: none) prefers OpenMetrics to plain text. */
bool mrd_expo_wants_open(const char *accept);
const char *mrd_expo_type(bool open); /* Content-Type */

void mrd_expo_begin(mrd_expo *x, mrd_buf *to, bool open);
/* name and help are borrowed until the next family; help is one plain line. */
void mrd_expo_family(mrd_expo *x, mrd_expo_kind kind, const char *name, const char *help);
/* One sample of the family. labels: `cause="full"` or NULL, values already without quotes,
 * backslashes and line ends. */
void mrd_expo_u64(mrd_expo *x, const char *labels, uint64_t v);
void mrd_expo_i64(mrd_expo *x, const char *labels, int64_t v);
void mrd_expo_seconds(mrd_expo *x, const char *labels, mrd_dur_ns v);
/* A family of one sample. */
void mrd_expo_one(mrd_expo *x, mrd_expo_kind kind, const char *name, const char *help, uint64_t v);
/* process_cpu_seconds_total and its kin, of this process; what cannot be read is left out. */
void mrd_expo_process(mrd_expo *x);
void mrd_expo_end(mrd_expo *x);

/* Durations by fixed bounds from 1 ms to 10 s. */
enum { MRD_EXPO_BOUNDS = 12 };

typedef struct {
    uint64_t buckets[MRD_EXPO_BOUNDS + 1]; /* not cumulative; the last: above all bounds */
    uint64_t count;
    mrd_dur_ns sum_ns;
} mrd_expo_hist;

void mrd_expo_hist_add(mrd_expo_hist *h, mrd_dur_ns v);
void mrd_expo_hist_write(mrd_expo *x, const char *name, const char *help, const mrd_expo_hist *h);

#endif
