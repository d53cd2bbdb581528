/*
 * trace/analysis/judge/absence.h - finds the collective that lacks members and keeps the others
 * longest, and says for each of these members what the recording shows. Reports use it to name the
 * workers for which a job waits.
 *
 * Open       a collective that no participant has left. Its length counts up to the last event of
 *            its participants and of the absent workers, because recordings may end at different
 *            times.
 * Member     a worker that took part in earlier collectives of the group. A member that waits in a
 *            collective of another group is not named, because it is not the cause.
 * Certain    an absence is certain if the worker's device or its process recorded other work
 *            meanwhile. In addition, the recording must have the worker's part of the collective
 *            before, and a kernel for each launch. Else it may lack the worker's part of this one.
 *
 * Memory   grows with workers and with collectives that no participant has left.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_ABSENCE_H
#define MRD_TRACE_ABSENCE_H

#include "trace/analysis/gather.h"
#include "trace/analysis/workers.h"

/* Maximum number of absent workers that are listed for a collective. */
#define MRD_REPORT_ABSENTS 8
/* a collective that lacks a member is reported after this many times its usual length */
#define MRD_REPORT_ABSENT 5

/* Kinds of evidence in the recording for a worker for which the others waited. */
typedef enum {
    MRD_ABSENT_NEVER,  /* it did other work meanwhile */
    MRD_ABSENT_OTHER,  /* the worker is in another operation of the group than most members */
    MRD_ABSENT_LATE,   /* the worker began long after the others, and no member has left */
    MRD_ABSENT_UNSEEN, /* the worker may have begun, because its recording may lack its part */
} mrd_absent_kind;

typedef struct {
    uint32_t worker;
    mrd_absent_kind kind;
    mrd_ev_ns seen;    /* last event of the worker's process */
    uint64_t later_ns; /* LATE: from the begin of the last but one part to the worker's begin */
} mrd_absent;

/*
 * A collective that a member never began, or that one member began long after the others. It is the
 * last collective of its group in the recording, or other members meanwhile began another one. Only
 * collectives are considered in which participants spent MRD_REPORT_ABSENT times the usual time.
 */
typedef struct {
    mrd_sid name;
    mrd_absent absents[MRD_REPORT_ABSENTS]; /* the first of the workers, sorted by kind */
    /* number of workers in `absents`, or more if not all are listed; 0 if no such collective was
     * found */
    uint32_t workers;
    size_t parts;      /* number of participants that waited */
    mrd_ev_ns begin;   /* begin of the collective's first part */
    uint64_t spent_ns; /* sum of the lengths of all parts; for LATE, sum of the waits */
    bool is_open;      /* no participant has left it */
    /* the collective is open, and a member is in another open operation of the group */
    bool is_split;
} mrd_report_absence;

typedef struct mrd_absence mrd_absence;

mrd_absence *mrd_absence_new(const mrd_catalog *cat, const mrd_workers *who,
                             const mrd_gather *gather); /* returns NULL if out of memory */
void mrd_absence_free(mrd_absence *absence);            /* accepts NULL */
/* Adds any event of the profile. `number` is the launch number of a span outside devices
 * (mrd_credible_number), else NULL. Errors: NOMEM. */
mrd_err mrd_absence_event(mrd_absence *absence, const mrd_event *ev, const uint64_t *number);
/* Adds a span of a worker's device. `number` is the number of its launch; NULL if unknown. */
void mrd_absence_device(mrd_absence *absence, uint32_t worker, const mrd_event *ev,
                        const uint64_t *number);
/* Adds a time in which events of a worker were lost. */
void mrd_absence_lost(mrd_absence *absence, uint32_t worker, const mrd_event *ev);
/* Adds a collective. Must be called inside the callback mrd_gather_done. `usual_ns` is the usual
 * length of this collective, 0 if unknown. `is_proven` means that the clocks prove which part began
 * last. Errors: NOMEM. */
mrd_err mrd_absence_note(mrd_absence *absence, const mrd_gathered *c, uint64_t usual_ns,
                         bool is_proven);
/* Returns the worst collective of a recording that begins at `first`. Call after
 * mrd_gather_finish. */
mrd_report_absence mrd_absence_worst(const mrd_absence *absence, mrd_ev_ns first);

#endif
