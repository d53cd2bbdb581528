/*
 * trace/analysis/series/onset.h - finds the time since which something takes longer: the steps of a
 * job, or the waits for one worker.
 *
 * Data     one value for each step or collective, in order of time. At most MRD_ONSET_MOST values
 *          are stored. If there are more, every second value is dropped at random, and so on, so
 *          the stored values remain a sample of the whole recording. The choice depends only on
 *          the number of the value, so the same recording gives the same answer.
 * Answer   the changes of the level that trace/analysis/series/change_point.h finds. They divide
 *          the recording into parts. A part is high if its level is more than half of the level of
 *          the highest part.
 *
 * Memory   32 bytes for each stored value. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_ONSET_H
#define MRD_TRACE_ONSET_H

#include "base/clock.h"
#include "trace/analysis/series/change_point.h"

#define MRD_ONSET_MOST 16384u
/* With fewer values the answer is unknown. */
#define MRD_ONSET_LEAST 32u

typedef struct mrd_onset mrd_onset;

mrd_onset *mrd_onset_new(void);        /* returns NULL if out of memory */
void mrd_onset_free(mrd_onset *onset); /* accepts NULL */
/* Adds the value `ns` at the time `at`. It belongs to `worker`, and all other workers get the value
 * 0 at this time. If memory runs out, a later call of mrd_onset_of fails. */
void mrd_onset_add(mrd_onset *onset, mrd_ev_ns at, uint32_t worker, uint64_t ns);
/* Returns the number, from 0, of the last stored value with a time not after `at`. 0 if there is
 * none. */
uint64_t mrd_onset_number_at(const mrd_onset *onset, mrd_ev_ns at);

typedef struct {
    mrd_ev_ns at;               /* time of the first value after the change */
    uint64_t number;            /* number of this value, from 0 */
    double before_ns, after_ns; /* levels of the neighbouring parts */
} mrd_onset_change;

typedef enum {
    MRD_ONSET_UNKNOWN, /* fewer than MRD_ONSET_LEAST values */
    MRD_ONSET_ALWAYS,  /* no change */
    MRD_ONSET_SINCE,   /* high since change[0] */
    MRD_ONSET_UNTIL,   /* high until change[0] */
    MRD_ONSET_BETWEEN, /* high from change[0] to change[1] */
    MRD_ONSET_PAUSED,  /* high except from change[0] to change[1] */
    MRD_ONSET_OFTEN    /* more than two changes between high and low parts */
} mrd_onset_kind;

typedef struct {
    mrd_onset_kind kind;
    size_t n;
    mrd_onset_change change[MRD_CHANGES_MOST];
} mrd_onset_result;

/* Finds the changes in one worker's values. `effect` is the smallest change, as a share of the
 * larger level. With `merged`, changes between two high parts or two low parts are left out.
 * MRD_NOMEM if out of memory, now or in mrd_onset_add. */
mrd_err mrd_onset_of(const mrd_onset *onset, uint32_t worker, double effect, bool merged,
                     mrd_onset_result *ret);

#endif
