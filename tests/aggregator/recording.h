/*
 * tests/aggregator/recording.h - constructs and merges journals of a few nodes with known true
 * times. For the tests of the merge.
 */
#ifndef MRD_TESTS_AGGREGATOR_RECORDING_H
#define MRD_TESTS_AGGREGATOR_RECORDING_H

#include "tests/check.h"

#include "aggregator/merge/merge.h"
#include "proto/batch/batch.h"

#define ZERO        (1700000000LL * MRD_SEC) /* session time of the start */
#define PAIRS       120                      /* a second apart */
#define COLLECTIVES 100
#define READINGS    8 /* number of readings of other clocks, at the begin and at the end */
/* time from the entry of the last rank until all ranks leave a collective */
#define LATENCY (100 * MRD_US)

typedef struct {
    char dir[256];
    merge_node nodes[4];
    size_t n;
} recording;

/* One node of a recording. */
typedef struct {
    const char *id, *boot;
    int64_t offset;     /* session - local, the truth */
    int64_t lie;        /* added by every probe, to make a deliberately wrong clock */
    int64_t begin, end; /* seconds of the session during which it ran */
    int64_t early;      /* enters this long before the last */
    int64_t mostly;     /* replaces `early` three times of four, on a device track; 0 for never */
    unsigned more;      /* further collectives that only this part saw */
    /* incarnation of the aggregator that answered the probes; NULL if not reported */
    const char *incarnation;
    int64_t
        /* bound of that incarnation's wall clock, which equals session time without the lie; 0
         * if it was not read */
        utc_bound;
    bool phc;        /* a PTP clock here and at the aggregator, each within PHC_ERROR */
    int64_t phc_lie; /* added to the readings of the clock here */
    uint64_t seq;
} part;

/* Each name has its own directory. The caller adds nodes. */
recording recording_new(const char *name);

/* Makes a boot that ran for all PAIRS seconds of the session. offset: session - local. */
part a_part(const char *id, int64_t offset);

/* Returns the header of its next frame. */
mrd_frame frame_of(part *p, uint8_t type);

/* Writes PAIRS probes, and the readings of other clocks at both ends. */
void put_probes(part *p, mrd_journal *j);

/* Writes COLLECTIVES spans, one per second, as this node saw them. */
void put_collectives(part *p, mrd_journal *j);

/* Adds the parts of one node, one per boot. */
void add_node(recording *r, part *parts, size_t n);

/* Merges everything into DIR/out.json. ret_verdict may be NULL. */
mrd_export_result merge(recording *r, merge_times times, mrd_clock_verdict *ret_verdict);
mrd_export_result merge_as(recording *r, const char *format, merge_times times,
                           mrd_clock_verdict *ret_verdict);

/* Returns true if the file contains the text. */
bool file_has(const char *path, const char *text);

#endif
