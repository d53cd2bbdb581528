/*
 * trace/analysis/judge/stuck.h - finds the ranks for which a job waits, in the operations that
 * PyTorch's flight recorder recorded (trace/import/torch/import_flight.c). Other events are
 * ignored.
 *
 * Entered   for each rank and group: the number of the last collective that the rank entered. It
 *           comes from entries, or from the counts of the dump (trace/model/comm_group.h) if the
 *           group has no messages, because messages have other numbers.
 * Open      the lowest number of a collective of the group that did not complete at the rank.
 * Waits     a rank waits for another member of a group that did not enter its open collective. It
 *           also waits for the peer of an open message if the peer has no open message for it.
 *
 * The verdict is the first of these that applies:
 *   running      the dumps contradict each other: one rank completed a collective that another rank
 *                had not entered. They were written while the job made progress. Nobody is named.
 *   not entered  ranks that others wait for, wait for nobody, and have nothing open.
 *   inside       ranks at which a collective is open that another member completed. This needs a
 *                collective in which all wait for all; an all-to-all may have empty parts.
 *                Both kinds can occur together. If they are more than half of the ranks, nobody is
 *                named.
 *   other        most members of a group are in one operation with one size, and few in another.
 *   unseen       ranks without a dump, if each rank with open operations waits for them, directly
 *                or over others. They are likely, but not certainly, the cause.
 *   cannot tell  operations are open, and none of the above applies.
 *
 * If a dump is damaged, operations at its end may be missing. Its rank is not named as not entered.
 *
 * A dump does not state when it was written. So a dump of a job that makes progress can look like a
 * short hang.
 *
 * Memory   grows with groups, their members, and open entries.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_STUCK_H
#define MRD_TRACE_STUCK_H

#include "trace/model/catalog.h"

/* The classes have the names of the hang watch (docs/explanation/hangs.md). */
typedef enum {
    MRD_STUCK_NOTHING, /* no dumps, or no open operations */
    MRD_STUCK_RUNNING,
    MRD_STUCK_CANNOT_TELL,
    MRD_STUCK_UNSEEN, /* this class and the following ones name ranks */
    MRD_STUCK_OTHER,
    MRD_STUCK_NOT_ENTERED,
    MRD_STUCK_INSIDE,
} mrd_stuck_class;

/* A named rank, with an operation that shows why it is named. */
typedef struct {
    int64_t rank;
    mrd_stuck_class cls;
    mrd_sid op, group, what; /* names of the operation and the group, and what the group is for */
    int64_t seq;             /* number of the operation in the group; MRD_NONE for a message */
    size_t waiting, members; /* members in which the operation is open, and all members */
} mrd_stuck_rank;

typedef struct {
    mrd_stuck_class cls; /* class of the first named rank, or the reason why none is named */
    size_t dumps;        /* ranks with a dump */
    size_t open;         /* ranks with open operations */
    int64_t missing;     /* the lowest rank without a dump; MRD_NONE if there is none */
    size_t n_missing;
    size_t n;
    const mrd_stuck_rank *ranks; /* sorted by rank */
    char reason[200];            /* why no rank is named; "" if ranks are named */
} mrd_stuck_verdict;

typedef struct mrd_stuck mrd_stuck;

mrd_stuck *mrd_stuck_new(const mrd_catalog *cat); /* returns NULL if out of memory */
void mrd_stuck_free(mrd_stuck *stuck);            /* accepts NULL */
/* Adds an event. Errors: NOMEM. */
mrd_err mrd_stuck_add(mrd_stuck *stuck, const mrd_event *ev);
/* Computes the verdict. Call once, after the last event. Errors: NOMEM. */
mrd_err mrd_stuck_finish(mrd_stuck *stuck);
/* Returns the verdict, borrowed. Call after mrd_stuck_finish. */
const mrd_stuck_verdict *mrd_stuck_verdict_of(const mrd_stuck *stuck);
const char *mrd_stuck_class_text(mrd_stuck_class cls); /* such as "not entered"; static */

#endif
