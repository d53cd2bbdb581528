/*
 * cli/diff.h - comparing runs: `meridian diff` in two halves, getting the series of each run
 * (trace/analysis/steps.h, as steps.json) and finding what differs.
 *
 * Side     one run or several of the same program: the base, and what is compared with it.
 * Value    of a block of steps: time per step of one process; parts per step of one worker. In traces
 *          without steps, time per call.
 * Differs  the probability of so large a difference by chance is below (1 - level), all tests of the
 *          comparison taken together (Holm), and the change is at least min_change of a step (of a
 *          call, without steps).
 * Threads: one.
 */
#ifndef MRD_CLI_DIFF_H
#define MRD_CLI_DIFF_H

#include "base/json.h"
#include "cli/view.h"
#include "trace/analysis/compare.h"

#define MRD_DIFF_RUNS     64u          /* a side */
#define MRD_DIFF_FILE_MAX (256u << 20) /* of a steps.json */

typedef struct {
    char *label;           /* what the user named it by */
    mrd_json *doc;         /* steps.json */
    const mrd_json *steps; /* its member of that name */
    bool incomplete;       /* its input was, or events were lost */
    bool by_call;
    bool simulated;
    uint64_t n_steps, n_processes; /* steps of all processes; processes with a step */
    double *per_block;             /* steps of all processes in each block */
    size_t n_blocks;
    bool *is_left_out; /* for each process of `steps`: not compared; NULL: all are compared */
} mrd_diff_run;

typedef struct {
    mrd_diff_run run[MRD_DIFF_RUNS];
    size_t n;
    bool some_left_out; /* processes of either side; operations are then compared by their means */
} mrd_diff_side;

/* Takes a steps.json document; on error too. what: its name in errors. Errors: TYPE (something else),
 * NOMEM, LIMIT (too many runs). */
mrd_err mrd_diff_side_add(mrd_diff_side *side, mrd_json *doc, const char *what, mrd_why *why);
void mrd_diff_side_fini(mrd_diff_side *side);

/* Leaves out the ranks that some run of the two sides lacks, and counts the steps of the runs anew.
 * Leaves out nothing if no rank is in all runs. Call it once, before mrd_diff_make(). Errors: NOMEM. */
mrd_err mrd_diff_match_ranks(mrd_diff_side sides[2], mrd_why *why);
/* Returns true if process number i of the run is compared. */
bool mrd_diff_has_process(const mrd_diff_run *run, size_t i);
/* Returns true if a process of this rank (MRD_NONE: without a rank) is in the run. */
bool mrd_diff_has_rank(const mrd_diff_run *run, int64_t rank);

typedef struct {
    const char *kind, *name; /* borrowed from the runs: mrd_op_kind_text, "" is the rest */
    int64_t size;            /* MRD_NONE */
    mrd_compared is;
    double half; /* of the interval around is.change */
    bool in_base, in_now;
    bool differs;
    int64_t rank;       /* of the one process that makes most of the change, else MRD_NONE */
    double rank_change; /* its own, per step of it */
} mrd_diff_row;

typedef struct {
    int64_t rank; /* of the process, or its place in the list when there are no ranks */
    mrd_compared is;
    double half;
    bool differs; /* from the change of all, not from the base */
} mrd_diff_rank;

typedef struct {
    bool by_call;
    mrd_diff_row step;  /* kind "step"; without steps, of the operation that takes the most time */
    mrd_diff_row *rows; /* the largest change first; those that differ before the others */
    size_t n_rows;
    mrd_diff_rank *ranks; /* by rank, those that both sides have */
    size_t n_ranks;
    uint64_t warmup[2]
                   [MRD_DIFF_RUNS]; /* of side and run: steps at the begin of each of its processes
                                          that the time of a step leaves out (mrd_compare_warmup) */
    const mrd_diff_row *cause; /* the operation that explains the most of it; NULL: none differs */
} mrd_diff;

/* Errors: STATE (one side has steps and the other none, no events), NOMEM. */
mrd_err mrd_diff_make(const mrd_diff_side *base, const mrd_diff_side *now, double level,
                      double min_change, mrd_diff *ret, mrd_why *why);
void mrd_diff_fini(mrd_diff *d);

#endif
