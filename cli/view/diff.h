/*
 * cli/view/diff.h - compares runs. `meridian diff` reads the steps.json of each run
 * (trace/analysis/judge/steps.h) and finds the differences.
 *
 * Side     one run, or several runs of the same program. One side is the base, and the other side
 *          is compared with it.
 * Value    what is compared: the mean time per step in a block of consecutive steps. In traces
 *          without steps, the time per call.
 * Differs  both conditions hold:
 *          - A difference like this by chance has a probability below 1 - level. The level holds
 *            for all tests of the comparison together (Holm).
 *          - The change is at least min_change times the duration of a step. In traces without
 *            steps, it is at least min_change times the duration of a call.
 *
 * Threads: one.
 */
#ifndef MRD_CLI_VIEW_DIFF_H
#define MRD_CLI_VIEW_DIFF_H

#include "base/conf/json.h"
#include "base/map.h"
#include "cli/view/view.h"
#include "trace/analysis/judge/compare.h"

#define MRD_DIFF_RUNS     64u          /* maximum number of runs on a side */
#define MRD_DIFF_FILE_MAX (256u << 20) /* maximum bytes of a steps.json */

/* A process that a steps.json lists. */
typedef struct {
    int64_t rank; /* rank of the process; MRD_NONE if steps.json states none */
    int64_t steps;
    bool is_left_out; /* the process is not compared, because some run lacks its rank */
} mrd_diff_process;

typedef struct {
    char *label;           /* name of the run as the user typed it */
    mrd_json *doc;         /* the document steps.json */
    const mrd_json *steps; /* the member `steps` of doc */
    bool incomplete;       /* true if an input of the run was incomplete or lost events */
    bool by_call;
    bool simulated;
    /* true if the clocks of the processes are aligned, so that their times can be compared */
    bool on_one_timeline;
    /* number of steps over all processes, and number of processes that have steps */
    uint64_t n_steps, n_processes;
    double *per_block; /* number of steps in each block, over all processes that are compared */
    size_t n_blocks;
    mrd_diff_process *listed; /* the member `processes` of `steps`, in its order */
    size_t n_listed;
    /* Maps mrd_diff_rank_key(rank) to an index in `listed`: the first process of the rank that has
     * steps. A rank without steps has no entry, unless by_call is set. Then its entry is its first
     * process. */
    mrd_map by_rank;
} mrd_diff_run;

static inline mrd_map_key
mrd_diff_rank_key(int64_t rank)
{
    return (mrd_map_key){ .a = (uint64_t) rank };
}

typedef struct {
    mrd_diff_run run[MRD_DIFF_RUNS];
    size_t n;
    /* True if processes of either side were left out. Operations are then compared by their means,
     * because the values of blocks are sums over all processes. */
    bool some_left_out;
} mrd_diff_side;

/* Takes ownership of a steps.json document, also on errors. `what` is its name in errors. Errors:
 * TYPE (another document), NOMEM, LIMIT (too many runs). */
mrd_err mrd_diff_side_add(mrd_diff_side *side, mrd_json *doc, const char *what, mrd_why *why);
void mrd_diff_side_fini(mrd_diff_side *side);

/* Leaves out the ranks that are missing in some run of the two sides, and counts the steps of the
 * runs again. Leaves out nothing if no rank is in all runs. Call it once, before mrd_diff_make().
 * Errors: NOMEM. */
mrd_err mrd_diff_match_ranks(mrd_diff_side sides[2], mrd_why *why);
/* Returns true if process number i of the run takes part in the comparison. */
bool mrd_diff_has_process(const mrd_diff_run *run, size_t i);
/* Returns true if a process of this rank (MRD_NONE: without a rank) is in the run. */
bool mrd_diff_has_rank(const mrd_diff_run *run, int64_t rank);

typedef struct {
    /* kind and name of the operation (mrd_op_kind_text), borrowed from the runs; "" means all
     * further operations together */
    const char *kind, *name;
    int64_t size; /* bytes of the operation; MRD_NONE if it has no size */
    mrd_compared is;
    double half; /* half the width of the confidence interval around is.change, in ns */
    bool in_base, in_now;
    bool differs;
    /* the rank that alone causes more than half of the change, MRD_NONE if there is none */
    int64_t rank;
    double rank_change; /* change of that rank's time per step, in ns */
} mrd_diff_row;

/* Parts of a rank's time in a step. A change of any of them can make the other ranks wait. */
typedef enum {
    MRD_DIFF_COMPUTATION,
    MRD_DIFF_COPIES,
    MRD_DIFF_HOST_WORK,
    MRD_DIFF_IDLE,
    /* the sum of the parts above: the rank's own time (trace/analysis/judge/steps.h) */
    MRD_DIFF_OWN,
    MRD_DIFF_TRANSFER, /* time in collectives after their last participant began */
    MRD_DIFF_PARTS
} mrd_diff_part;

const char *mrd_diff_part_text(mrd_diff_part part); /* returns "computation" and so on; static */

typedef struct {
    int64_t rank; /* never MRD_NONE, because only processes with a rank are compared one by one */
    mrd_compared is;
    double half;
    bool differs;     /* the rank's change differs from the change of all ranks */
    mrd_compared own; /* the rank's own time in a step */
    /* For each part of a step: the change of its time on this rank, minus the change on the median
     * rank. Positive means in the same direction as the change of the step. */
    double part_change[MRD_DIFF_PARTS];
    /* True if this rank explains the change of the step: the other ranks wait for it in the new
     * runs, or waited for it in the base. `beyond` is how much more its time changed than the time
     * of the median rank, in ns. `beyond` is at least half of the step's change. Unless `part` is
     * MRD_DIFF_TRANSFER, `beyond` is also more than chance explains. */
    bool is_cause;
    double beyond;
    mrd_diff_part part; /* the part that changed most; only valid if is_cause is set */
    /* The host span that best explains the change, if is_cause is set and `part` is idle time or
     * host work. NULL if no span explains half of it. */
    const char *host;
    double host_change, host_base;
} mrd_diff_rank;

typedef struct {
    bool by_call;
    /* the step itself as a row of kind "step"; all its values are 0 if by_call is set */
    mrd_diff_row step;
    /* Operations. Those with a difference come first. Both groups are sorted by the size of the
     * change, largest first. */
    mrd_diff_row *rows;
    size_t n_rows;
    /* ranks with steps in the first run of each side, in the order of the base's processes */
    mrd_diff_rank *ranks;
    size_t n_ranks;
    uint64_t warmup[2]
                   /* number of steps that are left out at the beginning of each process
                    * (mrd_compare_warmup), for each side and run */
                   [MRD_DIFF_RUNS];
    /* True if ranks were left out. Each run then has only one value per operation, its mean, so no
     * test can tell whether a difference is by chance. */
    bool by_means;
    /* The operation that explains most of the step's change, or NULL. Its change is at least half
     * of the step's change and, unless by_means is set, significant. It is not communication. */
    const mrd_diff_row *cause;
} mrd_diff;

/* Compares two sides. Errors: STATE (only one side has steps, or there are no events), NOMEM. */
mrd_err mrd_diff_make(const mrd_diff_side *base, const mrd_diff_side *now, double level,
                      double min_change, mrd_diff *ret, mrd_why *why);
void mrd_diff_fini(mrd_diff *diff);

typedef enum {
    MRD_DIFF_NO_DIFFERENCE,
    MRD_DIFF_OPERATIONS_DIFFER,
    MRD_DIFF_DRIFTING,
    MRD_DIFF_TOO_FEW,
    MRD_DIFF_SLOWER,
    MRD_DIFF_FASTER
} mrd_diff_verdict;

mrd_diff_verdict mrd_diff_verdict_of(const mrd_diff *diff);

/* Settings of the output. `confidence` and `threshold` are `level` and `min_change` of
 * mrd_diff_make() in percent. */
typedef struct {
    double confidence, threshold;
    bool all; /* also show operations that do not differ */
} mrd_diff_shown;

/* Print the differences to stdout. */
void mrd_diff_print_text(const mrd_diff_shown *set, const mrd_diff_side *base,
                         const mrd_diff_side *now, const mrd_diff *diff);
void mrd_diff_print_json(const mrd_diff_shown *set, const mrd_diff_side *base,
                         const mrd_diff_side *now, const mrd_diff *diff);

#endif
