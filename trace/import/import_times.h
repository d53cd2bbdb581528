/*
 * trace/import/import_times.h - finds times of an input that must be wrong.
 *
 * A record's time is wrong in three cases:
 *
 *   no time    The time is less than MRD_TIMES_APART from 0, and most other times count from 1970.
 *   far away   The distance to all other records is at least MRD_TIMES_APART, and at least
 *              MRD_TIMES_EXTENTS times the length of the main part of the records. This rule
 *              applies to at most MRD_TIMES_FEW records or 1 % of all, whichever is more. The main
 *              part must also have MRD_TIMES_PART times as many records.
 *   too long   A span ends far away, by the same rule.
 *
 * MRD_TIMES_APART is a day, because a hanging collective can last for hours.
 *
 * Memory    6 KiB, for any number of records.
 * Threads   One thread.
 */
#ifndef MRD_TRACE_IMPORT_TIMES_H
#define MRD_TRACE_IMPORT_TIMES_H

#include "trace/model/event.h"

#define MRD_TIMES_APART   (86400 * MRD_SEC)
#define MRD_TIMES_EXTENTS 100
#define MRD_TIMES_FEW     8u
#define MRD_TIMES_PART    3u
#define MRD_TIMES_SLOTS   128u

/* The records that begin in the same interval of time. mrd_times.coarser determines its length. */
typedef struct {
    int64_t number;
    mrd_ev_ns first, last; /* first and last begin of these records */
    /* latest end of the records in this interval, without the spans in mrd_times.longs */
    mrd_ev_ns end;
    uint64_t count;
    mrd_sid name; /* name of the first record */
} mrd_times_slot;

/* Collects the times of an input's records. Zeroed before use. */
typedef struct {
    mrd_times_slot slots[MRD_TIMES_SLOTS]; /* slots in use, in no order */
    unsigned n, at;                        /* at: the last slot that was used */
    unsigned coarser; /* an interval is 2^(MRD_TIMES_SHIFT + coarser) ns long */
    uint64_t count;
    struct {
        mrd_ev_ns end;
        mrd_sid name;
        /* Spans of MRD_TIMES_APART or longer. If there are more than MRD_TIMES_FEW, the rest are
         * treated like other spans. */
    } longs[MRD_TIMES_FEW];
    unsigned n_longs;
} mrd_times;

/* The result of mrd_times_judge. */
typedef struct {
    uint64_t without;     /* records that have no time */
    uint64_t far;         /* records that lie far away */
    mrd_sid far_name;     /* name of the farthest record */
    mrd_dur_ns far_by;    /* distance of the farthest record to all other records */
    mrd_ev_ns first, end; /* range of the records with correct times */
} mrd_times_verdict;

void mrd_times_add(mrd_times *times, const mrd_event *ev);
/* Finds out which times of the added records are wrong. Sorts the slots, so nothing may be added
 * afterwards. Returns true if a time is wrong. */
bool mrd_times_judge(mrd_times *times, mrd_times_verdict *ret);

#endif
