/*
 * aggregator/core/node/counts.h - the event counts of an agent:
 *     begun = delivered + lost (by cause) + held
 * An event that has begun is delivered to the aggregator, lost, or still held by the agent. The
 * structs are plain values. Times are by the node's CLOCK_MONOTONIC_RAW.
 */
#ifndef MRD_AGGREGATOR_CORE_NODE_COUNTS_H
#define MRD_AGGREGATOR_CORE_NODE_COUNTS_H

#include "aggregator/core/common/limits.h"
#include "base/conf/json.h"
#include "proto/batch/gaps.h"
#include "proto/wire.h"

typedef struct {
    char cause[48];
    uint64_t count;
    mrd_local_ns first, last;
} mrd_loss;

typedef struct {
    uint64_t begun, delivered, held;
    /* number of lost frames with clock data, which contain no events */
    uint64_t clock_lost;
    /* numbers of lost events by cause; the last entry sums all causes that have no entry of their
     * own */
    mrd_loss losses[MRD_LOSSES_MAX];
    unsigned n_losses;
    /* gaps: the time ranges in which events of the session were lost. The cause of a gap is an
     * index into `losses` */
    mrd_gaps gaps;
} mrd_counts;

/* Copies only the used entries, because the lists are long and mostly empty and each heartbeat
 * copies them. */
void mrd_counts_copy(mrd_counts *to, const mrd_counts *from);
void mrd_counts_clear(mrd_counts *counts);
void mrd_counts_add(mrd_counts *to, const mrd_counts *from);
void mrd_counts_add_loss(mrd_counts *to, const mrd_loss *loss);
/* Subtracts the counts in `last` from `from`, cause by cause. */
void mrd_counts_subtract(mrd_counts *from, const mrd_counts *last);
/* Removes causes without lost events and gaps. */
void mrd_counts_tidy(mrd_counts *counts);
/* Adds the losses in `come` to *to, and subtracts the losses in `base`. A count in *to may wrap
 * below 0. It is correct again when the agent's counts are added, because they contain `base`. */
void mrd_counts_move(mrd_counts *to, const mrd_counts *come, const mrd_counts *base);
void mrd_counts_take(mrd_counts *to, const Mrd__Counters *from); /* does nothing for NULL */
void mrd_counts_take_at_boot(mrd_counts *to, const Mrd__CountersAtBoot *from);
uint64_t mrd_counts_lost(const mrd_counts *counts);
/* Returns how many of the lost events are not needed: events that no session selected, and old
 * events that a flight recorder dropped to make room. */
uint64_t mrd_counts_unwanted(const mrd_counts *counts);
/* Returns how much of the time between `from` and `to` lies in gaps. Overlapping gaps count once.
 * The n intervals `apart` (at most MRD_APART_MAX) do not count, because they are reported
 * separately. */
#define MRD_APART_MAX 64
mrd_dur_ns mrd_counts_holes(const mrd_counts *counts, const mrd_gap *apart, size_t n,
                            mrd_local_ns from, mrd_local_ns to);
mrd_json *mrd_counts_json(const mrd_counts *counts); /* NULL if out of memory */
/* Loads an agent's counts from a manifest. The manifest counts some delivered events as lost with
 * the cause "store-missing". They are loaded as delivered. */
void mrd_counts_load(mrd_counts *to, const mrd_json *json);

#endif
