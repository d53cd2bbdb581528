/*
 * tests/aggregator/recording.h - constructed journals of a few nodes whose truth is known, and
 * merging them. For the tests of the merge.
 */
#ifndef MRD_TESTS_AGGREGATOR_RECORDING_H
#define MRD_TESTS_AGGREGATOR_RECORDING_H

#include "tests/check.h"

#include "aggregator/merge.h"
#include "proto/batch.h"

#define ZERO        (1700000000LL * MRD_SEC) /* session time of the beginning */
#define PAIRS       120                      /* a second apart */
#define COLLECTIVES 100
#define READINGS    8              /* of other clocks, at each end */
#define LATENCY     (100 * MRD_US) /* from the last to enter until all leave */

typedef struct {
    char dir[256];
    merge_node nodes[4];
    size_t n;
} recording;

/* One node of a recording. */
typedef struct {
    const char *id, *boot;
    int64_t offset;     /* session - local, the truth */
    int64_t lie;        /* added to it by every probe: a deliberately wrong clock */
    int64_t begin, end; /* seconds of the session that it ran */
    int64_t early;      /* it enters so long before the last */
    int64_t mostly; /* instead of `early`, three times of four, on a line of the device; 0: never */
    unsigned more;  /* collectives behind COLLECTIVES that only it saw */
    const char *incarnation; /* of the aggregator, which answered; NULL: not said */
    int64_t
        utc_bound; /* that incarnation's wall clock reads as session time without the lie, and states
                           this; 0: nothing was read */
    bool phc;      /* a PTP clock here and at the aggregator, each within PHC_ERROR */
    int64_t phc_lie; /* added to what the one here reads */
    uint64_t seq;
} part;

/* A folder of its own for each name; the caller adds nodes. */
recording recording_new(const char *name);

/* A boot that ran for all PAIRS seconds of the session; offset: session - local. */
part a_part(const char *id, int64_t offset);

/* The header of the next frame of it. */
mrd_frame frame_of(part *p, uint8_t type);

/* PAIRS probes, and what both ends read of other clocks. */
void put_probes(part *p, mrd_journal *j);

/* COLLECTIVES spans, one a second, as this node saw them. */
void put_collectives(part *p, mrd_journal *j);

/* The parts of one node, one per boot. */
void add_node(recording *r, part *parts, size_t n);

/* Merges it all into DIR/out.json; ret_verdict may be NULL. */
mrd_export_result merge(recording *r, merge_times times, mrd_clock_verdict *ret_verdict);
mrd_export_result merge_as(recording *r, const char *format, merge_times times,
                           mrd_clock_verdict *ret_verdict);

/* Whether the text stands in the file. */
bool file_has(const char *path, const char *text);

#endif
