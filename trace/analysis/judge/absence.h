/*
 * trace/analysis/judge/absence.h - finds the collective that lacks members and keeps the others
 * longest. Threads: a value belongs to one thread.
 */
#ifndef MRD_TRACE_ABSENCE_H
#define MRD_TRACE_ABSENCE_H

#include "trace/analysis/gather.h"
#include "trace/analysis/judge/standstill.h"
#include "trace/analysis/workers.h"

/* Maximum number of absent workers that are listed for a collective. */
#define MRD_REPORT_ABSENTS 8
/* a collective that lacks a member is reported after this many times its usual length */
#define MRD_REPORT_ABSENT 5

/*
 * A collective that lacks a member until its end. It is the last of its group, or other members
 * began another one meanwhile. Only collectives count in which participants spent MRD_REPORT_ABSENT
 * times the usual time.
 */
typedef struct {
    mrd_sid name;
    /* The first of the workers that took part in earlier collectives of the group, but not in this
     * one. */
    uint32_t worker[MRD_REPORT_ABSENTS];
    /* number of workers in `worker`, or more if not all are listed; 0 if no such collective was
     * found */
    uint32_t workers;
    size_t parts;      /* number of participants */
    mrd_ev_ns begin;   /* begin of the collective's first part */
    uint64_t spent_ns; /* sum of the lengths of all parts */
} mrd_report_absence;

/* The data that collectives are compared with. All pointers are borrowed. */
typedef struct {
    const mrd_gather *gather;
    const mrd_workers *who;
    const mrd_standstill *standstill; /* not finished yet */
    const bool *waits; /* indexed by worker; true if it is in a collective that did not end */
} mrd_absence_env;

/* Notes a collective that lacks members for much longer than usual, if it is worse than *worst. To
 * be called for collectives with is_left, inside `done`. A collective that no participant has left
 * counts up to the last event of its participants and of the absent workers, because recordings may
 * end at different times. A member that waits in another group is not absent. */
void mrd_absence_note(const mrd_absence_env *env, const mrd_gathered *c, uint64_t usual_ns,
                      mrd_report_absence *worst);

#endif
