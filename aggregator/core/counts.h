/*
 * aggregator/core/counts.h - what an agent counts of its events, and where the rest went:
 *     begun = delivered + lost (by cause) + held
 * Plain values; times are local ns of the node.
 */
#ifndef MRD_AGGREGATOR_CORE_COUNTS_H
#define MRD_AGGREGATOR_CORE_COUNTS_H

#include "aggregator/core/limits.h"
#include "base/json.h"
#include "proto/gaps.h"
#include "proto/wire.h"

typedef struct {
    char cause[48];
    uint64_t count;
    mrd_local_ns first, last;
} mrd_loss;

typedef struct {
    uint64_t begun, delivered, held;
    uint64_t clock_lost;             /* frames of clock data, which hold no events */
    mrd_loss losses[MRD_LOSSES_MAX]; /* the last one gathers what does not fit */
    unsigned n_losses;
    mrd_gaps gaps; /* of a session: when; causes are rows of losses */
} mrd_counts;

/* Only what is filled: the lists are long, most of them are empty, and this is done with each heartbeat. */
void mrd_counts_copy(mrd_counts *to, const mrd_counts *from);
void mrd_counts_clear(mrd_counts *c);
void mrd_counts_add(mrd_counts *to, const mrd_counts *from);
void mrd_counts_add_loss(mrd_counts *to, const mrd_loss *loss);
/* Takes `last` off `from`, cause by cause. */
void mrd_counts_subtract(mrd_counts *from, const mrd_counts *last);
/* Without causes that have no events and no gaps. */
void mrd_counts_tidy(mrd_counts *c);
/* Adds the losses of `come` less those of `base`. Either may be more, so a row may be below 0 (it
 * wraps) until counts that go on from `base` are added. */
void mrd_counts_move(mrd_counts *to, const mrd_counts *come, const mrd_counts *base);
void mrd_counts_take(mrd_counts *to, const Mrd__Counters *from); /* NULL: stays */
void mrd_counts_take_at_boot(mrd_counts *to, const Mrd__CountersAtBoot *from);
uint64_t mrd_counts_lost(const mrd_counts *c);
/* Those of them that nobody had asked for: no session wanted them, or a flight recorder made room.
 */
uint64_t mrd_counts_unwanted(const mrd_counts *c);
/* How much of these local times is in a gap of the record: the union of the gaps, without what lies in
 * one of the n times `apart`, at most MRD_APART_MAX, which are told for themselves. */
#define MRD_APART_MAX 64
mrd_dur_ns mrd_counts_holes(const mrd_counts *c, const mrd_gap *apart, size_t n, mrd_local_ns from,
                            mrd_local_ns to);
mrd_json *mrd_counts_json(const mrd_counts *c); /* NULL without memory */
void mrd_counts_load(mrd_counts *to, const mrd_json *o);

#endif
