/* Prints the differences between two sides of runs, as text and as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/obj.h"
#include "base/plain.h"
#include "base/vec.h"
#include "cli/client/cluster.h"
#include "cli/view/diff.h"
#include "trace/sink/text.h"

enum { SHOWN = 12 };

/* ---- The verdict ---- */

static const char *const verdict_words[] = {
    [MRD_DIFF_NO_DIFFERENCE] = "no difference",
    [MRD_DIFF_OPERATIONS_DIFFER] = "operations differ",
    [MRD_DIFF_DRIFTING] = "drifting steps",
    [MRD_DIFF_TOO_FEW] = "too few steps",
    [MRD_DIFF_SLOWER] = "slower",
    [MRD_DIFF_FASTER] = "faster",
};

/* ---- Printing text ---- */

static const char *
time_text(double ns, char text[MRD_DUR_TEXT])
{
    return mrd_text_dur(ns > 0 ? (uint64_t) llround(ns) : 0, text);
}

static void
print_change(double ns)
{
    char text[MRD_DUR_TEXT];

    printf("%s%s", ns < 0 ? "-" : "+", time_text(fabs(ns), text));
}

static double
percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* Prints one side and its runs. `warmup` has the excluded steps of each run, as in mrd_diff. */
static void
print_side(const char *name, const mrd_diff_side *side, const uint64_t *warmup)
{
    for (size_t i = 0; i < side->n; i++) {
        const mrd_diff_run *run = &side->run[i];
        mrd_buf label = { 0 };

        mrd_plain_text(&label, mrd_str_of(run->label));
        printf("%-5s %s", i == 0 ? name : "", mrd_buf_cstr(&label));
        mrd_buf_fini(&label);
        if (run->by_call)
            printf(" (no training steps: operations are compared call by call)");
        else
            printf(" (%" PRIu64 " %s of %" PRIu64 " %s)", run->n_steps,
                   run->n_steps == 1 ? "step" : "steps", run->n_processes,
                   run->n_processes == 1 ? "process" : "processes");
        if (warmup[i] > 0)
            printf(", the first %" PRIu64 " of each process left out: a warm-up", warmup[i]);
        printf("%s%s\n", run->simulated ? ", simulated" : "",
               run->incomplete ? ", incomplete: events are missing" : "");
    }
}

static int
order_ranks(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return x < y ? -1 : x > y;
}

/* Returns the ranks that other runs of the two sides have and this run lacks, sorted. The caller
 * frees them. NULL if there are none, or if out of memory. */
static int64_t *
find_missing_ranks(const mrd_diff_side *const sides[2], const mrd_diff_run *run, size_t *ret_n)
{
    int64_t *ranks = NULL;
    size_t count = 0, cap = 0, kept = 0;

    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sides[k]->n; i++) {
            const mrd_diff_run *other = &sides[k]->run[i];

            for (size_t p = 0; p < other->n_listed; p++) {
                int64_t rank = other->listed[p].rank;

                if (rank != MRD_NONE && mrd_diff_has_rank(other, rank) &&
                    !mrd_diff_has_rank(run, rank) && MRD_VEC_ROOM(ranks, count, cap, 1))
                    ranks[count++] = rank;
            }
        }
    }
    if (count > 0)
        qsort(ranks, count, sizeof(*ranks), order_ranks);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || ranks[i] != ranks[kept - 1])
            ranks[kept++] = ranks[i];
    }
    *ret_n = kept;
    return ranks;
}

/* Prints which ranks a run lacks. Returns true if it lacks any. */
static bool
print_missing_ranks(const mrd_diff_side *const sides[2], const mrd_diff_run *run)
{
    size_t n;
    int64_t *ranks = find_missing_ranks(sides, run, &n);
    mrd_buf label = { 0 };

    mrd_plain_text(&label, mrd_str_of(run->label));
    for (size_t i = 0; i < n && i < SHOWN; i++)
        printf("%s%" PRId64, i == 0 ? (n == 1 ? "\nRank " : "\nRanks ") : ", ", ranks[i]);
    if (n > SHOWN)
        printf(" and %zu more", n - SHOWN);
    if (n > 0)
        printf(" of the other runs %s missing in %s.", n == 1 ? "is" : "are", mrd_buf_cstr(&label));
    mrd_buf_fini(&label);
    free(ranks);
    return n > 0;
}

/* Prints which ranks some runs lack, and what is compared instead of all ranks. */
static void
print_rank_sets(const mrd_diff_side *base, const mrd_diff_side *now)
{
    const mrd_diff_side *const sides[2] = { base, now };
    bool some_missing = false, numbers_differ = false;

    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sides[k]->n; i++) {
            some_missing = print_missing_ranks(sides, &sides[k]->run[i]) || some_missing;
            numbers_differ =
                numbers_differ || sides[k]->run[i].n_processes != base->run[0].n_processes;
        }
    }
    if (base->some_left_out)
        printf("\nOnly the ranks that all runs have are compared. Their operations are compared by "
               "the mean of each run.\n");
    else if (some_missing)
        printf("\nNo rank is in all runs: the comparison is one of different ranks.\n");
    else if (numbers_differ)
        printf("\nThe runs have different numbers of processes, and no ranks say which of them "
               "belong together.\n");
}

/* Prints that no difference was found, and the smallest difference that the data could have shown:
 * half the width of the confidence interval, in percent. */
static void
print_no_difference(const mrd_diff_shown *set, const mrd_diff *diff)
{
    const mrd_compared *is = &diff->step.is;
    double seen = percent(diff->step.half, is->base);
    char a[MRD_DUR_TEXT], b[MRD_DUR_TEXT];
    /* the difference is significant, but below the threshold */
    bool small = is->p <= 1 - set->confidence / 100;

    printf("\n%s: a step takes %s and %s%s; ",
           small ? "A difference too small to count" : "No difference that the data can show",
           time_text(is->base, a), time_text(is->now, b), is->median ? " (median)" : "");
    if (small) {
        print_change(is->change);
        printf(" (%+.2f %%) is not chance, but below %g %% (--threshold)",
               percent(is->change, is->base), set->threshold);
    } else {
        printf("a change below %.2f %% cannot be distinguished from chance", seen);
        if (seen < set->threshold)
            printf(", and one below %g %% does not count (--threshold)", set->threshold);
    }
    printf(".\n");
}

static void
print_verdict(const mrd_diff_shown *set, const mrd_diff *diff)
{
    const mrd_compared *is = &diff->step.is;
    char a[MRD_DUR_TEXT], b[MRD_DUR_TEXT];

    switch (mrd_diff_verdict_of(diff)) {
    case MRD_DIFF_DRIFTING:
        printf("\nThe steps of a run drift (%s and %s in the mean): a difference cannot be "
               "distinguished from that with fewer than %d runs a side (--base, --new).\n",
               time_text(is->base, a), time_text(is->now, b), MRD_COMPARE_RUNS);
        break;
    case MRD_DIFF_TOO_FEW:
        printf(
            "\nToo few steps to say anything: %d on each side are needed, and with fewer than %d "
            "runs a side %d of each run.\n",
            MRD_COMPARE_LEAST, MRD_COMPARE_RUNS, MRD_COMPARE_RUN);
        break;
    case MRD_DIFF_NO_DIFFERENCE:
        if (!diff->by_call)
            print_no_difference(set, diff);
        break;
    case MRD_DIFF_OPERATIONS_DIFFER:
        break;
    case MRD_DIFF_SLOWER:
    case MRD_DIFF_FASTER:
        printf("\n%s: a step takes %s instead of %s%s, ", is->change > 0 ? "SLOWER" : "FASTER",
               time_text(is->now, a), time_text(is->base, b), is->median ? " (median)" : "");
        print_change(is->change);
        printf(" (%+.2f %%; between %+.2f and %+.2f %% with %g %% confidence)\n",
               percent(is->change, is->base), percent(is->change - diff->step.half, is->base),
               percent(is->change + diff->step.half, is->base), set->confidence);
        break;
    }
}

static void
print_text_in(const char *text, size_t width)
{
    mrd_buf cell = { 0 };

    mrd_text_cell(&cell, mrd_str_of(text), width, false);
    fwrite(cell.p, 1, cell.len, stdout);
    mrd_buf_fini(&cell);
}

/* Prints the name of an operation in at most `width` columns. */
static void
print_name(const mrd_diff_row *row, size_t width, bool pad)
{
    mrd_buf name = { 0 }, cell = { 0 };
    char size[32] = "";

    if (row->size != MRD_NONE)
        snprintf(size, sizeof(size), " %" PRId64, row->size);
    mrd_buf_str(&name, mrd_str_of(*row->name == '\0' ? "(all others)" : row->name));
    mrd_buf_str(&name, mrd_str_of(size));
    mrd_text_cell(&cell, (mrd_str){ (const char *) name.p, name.len }, width, pad);
    fwrite(cell.p, 1, cell.len, stdout);
    mrd_buf_fini(&name);
    mrd_buf_fini(&cell);
}

/* Prints the ranks for which the others wait in the new runs, or waited in the base. Returns true
 * if there are any. */
static bool
print_slow_ranks(const mrd_diff *diff)
{
    size_t count = 0;

    for (size_t i = 0; i < diff->n_ranks; i++) {
        const mrd_diff_rank *rank = &diff->ranks[i];
        bool longer = diff->step.is.change > 0;

        if (!rank->is_cause || count++ >= SHOWN)
            continue;
        printf("Rank %" PRId64 " became %s in its %s: ", rank->rank, longer ? "slower" : "faster",
               mrd_diff_part_text(rank->part));
        print_change(longer ? rank->beyond : -rank->beyond);
        printf(" per step");
        if (rank->host != NULL) {
            printf(" (host ");
            print_text_in(rank->host, 60);
            printf(" ");
            print_change(longer ? rank->host_change : -rank->host_change);
            printf(")");
        }
        printf("\n");
    }
    if (count > SHOWN)
        printf("... and %zu more ranks (--json)\n", count - SHOWN);
    return count > 0;
}

static void
print_cause(const mrd_diff *diff, bool any_rank)
{
    const mrd_diff_row *row = diff->cause;

    if (row == NULL) {
        if (diff->step.differs && !any_rank)
            printf("No single operation explains it.\n");
        return;
    }
    printf("%s: %s ", diff->step.differs ? "Mainly" : "Look first at", row->kind);
    print_name(row, 90, false);
    printf(", ");
    print_change(row->is.change);
    printf(" per %s", diff->by_call ? "call" : "step");
    if (row->in_base && row->in_now)
        printf(" (%+.1f %%)", percent(row->is.change, row->is.base));
    else
        printf(" (%s)", row->in_now ? "only in the new run" : "only in the base");
    if (!row->differs)
        printf(", by the means of the runs");
    if (row->rank != MRD_NONE) {
        printf(", most of it on rank %" PRId64 " (", row->rank);
        print_change(row->rank_change);
        printf(")");
    }
    printf("\n");
}

static void
print_rows(const mrd_diff_shown *set, const mrd_diff *diff)
{
    size_t shown = 0, left = 0;

    for (size_t i = 0; i < diff->n_rows; i++) {
        const mrd_diff_row *row = &diff->rows[i];
        char a[MRD_DUR_TEXT], b[MRD_DUR_TEXT], change[MRD_DUR_TEXT + 1];

        if (!set->all && (!row->differs || shown == SHOWN)) {
            left += row->differs;
            continue;
        }
        if (shown++ == 0)
            printf("\n%-10s %-40s %12s %12s %12s %9s\n", diff->by_call ? "per call" : "per step",
                   "operation", "base", "new", "change", "");
        printf("%-10s ", row->kind);
        print_name(row, 40, true);
        printf(" %12s %12s ", row->in_base ? time_text(row->is.base, a) : "-",
               row->in_now ? time_text(row->is.now, b) : "-");
        snprintf(change, sizeof(change), "%s%s", row->is.change < 0 ? "-" : "+",
                 time_text(fabs(row->is.change), a));
        printf("%12s", change);
        if (row->is.base > 0 && row->in_base)
            printf(" %+8.1f%%", percent(row->is.change, row->is.base));
        printf("%s\n", set->all && row->differs ? " *" : "");
    }
    if (left > 0)
        printf("... and %zu more (--all)\n", left);
}

static void
print_ranks(const mrd_diff *diff)
{
    for (size_t i = 0; i < diff->n_ranks; i++) {
        const mrd_diff_rank *rank = &diff->ranks[i];

        if (rank->differs)
            printf("Rank %" PRId64
                   " changed differently from all ranks together: %+.1f %% (all: %+.1f %%)\n",
                   rank->rank, percent(rank->is.change, rank->is.base),
                   percent(diff->step.is.change, diff->step.is.base));
    }
}

void
mrd_diff_print_text(const mrd_diff_shown *set, const mrd_diff_side *base, const mrd_diff_side *now,
                    const mrd_diff *diff)
{
    print_side("base", base, diff->warmup[0]);
    print_side("new", now, diff->warmup[1]);
    print_rank_sets(base, now);
    print_verdict(set, diff);
    print_cause(diff, print_slow_ranks(diff));
    print_rows(set, diff);
    print_ranks(diff);
    if (diff->by_call && diff->cause == NULL)
        printf("\nNo difference that the data can show.\n");
    if (base->n == 1 && now->n == 1)
        printf(
            "\nOne run on each side: the confidence knows how much parts of a run differ from each "
            "other, not what\nis constant in a run and differs between runs for other causes "
            "(another machine, another placement).\nGive --base and --new at least %d runs each "
            "to measure that.\n",
            MRD_COMPARE_RUNS);
}

/* ---- Printing JSON ---- */

static mrd_json *
compared_json(const mrd_compared *is, double half, bool differs)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "base_ns", mrd_json_new_num(is->base));
    mrd_json_set(json, "new_ns", mrd_json_new_num(is->now));
    mrd_json_set(json, "change_ns", mrd_json_new_num(is->change));
    mrd_json_set(json, "half_width_ns",
                 isinf(half) ? mrd_json_new_str(NULL) : mrd_json_new_num(half));
    mrd_json_set(json, "p", mrd_json_new_num(is->p));
    mrd_json_set(json, "mean", mrd_json_new_str(is->median ? "median" : "trimmed"));
    mrd_json_set(json, "differs", mrd_json_new_bool(differs));
    return json;
}

static mrd_json *
row_json(const mrd_diff_row *row)
{
    mrd_json *json = compared_json(&row->is, row->half, row->differs);

    mrd_json_set(json, "kind", mrd_json_new_str(row->kind));
    mrd_json_set(json, "name", mrd_json_new_str(row->name));
    mrd_json_set(json, "size",
                 row->size == MRD_NONE ? mrd_json_new_str(NULL) : mrd_json_new_int(row->size));
    mrd_json_set(json, "in_base", mrd_json_new_bool(row->in_base));
    mrd_json_set(json, "in_new", mrd_json_new_bool(row->in_now));
    mrd_json_set(json, "rank",
                 row->rank == MRD_NONE ? mrd_json_new_str(NULL) : mrd_json_new_int(row->rank));
    return json;
}

static mrd_json *
slow_ranks_json(const mrd_diff *diff)
{
    mrd_json *list = mrd_json_new_array();
    double sign = diff->step.is.change < 0 ? -1 : 1;

    for (size_t i = 0; i < diff->n_ranks; i++) {
        const mrd_diff_rank *rank = &diff->ranks[i];
        mrd_json *json;

        if (!rank->is_cause)
            continue;
        json = mrd_json_new_object();
        mrd_json_set(json, "rank", mrd_json_new_int(rank->rank));
        mrd_json_set(json, "part", mrd_json_new_str(mrd_diff_part_text(rank->part)));
        mrd_json_set(json, "change_ns", mrd_json_new_num(sign * rank->beyond));
        mrd_json_set(json, "host", mrd_json_new_str(rank->host));
        mrd_json_set(json, "host_change_ns",
                     rank->host == NULL ? mrd_json_new_str(NULL)
                                        : mrd_json_new_num(sign * rank->host_change));
        mrd_json_append(list, json);
    }
    return list;
}

static mrd_json *
side_json(const mrd_diff_side *const sides[2], size_t k, const uint64_t *warmup)
{
    mrd_json *list = mrd_json_new_array();

    for (size_t i = 0; i < sides[k]->n; i++) {
        const mrd_diff_run *run = &sides[k]->run[i];
        mrd_json *json = mrd_json_new_object(), *missing = mrd_json_new_array();
        size_t n;
        int64_t *ranks = find_missing_ranks(sides, run, &n);

        mrd_json_set(json, "run", mrd_json_new_str(run->label));
        mrd_json_set(json, "steps", mrd_json_new_int((int64_t) run->n_steps));
        mrd_json_set(json, "warmup_steps", mrd_json_new_int((int64_t) warmup[i]));
        mrd_json_set(json, "processes", mrd_json_new_int((int64_t) run->n_processes));
        mrd_json_set(json, "incomplete", mrd_json_new_bool(run->incomplete));
        mrd_json_set(json, "simulated", mrd_json_new_bool(run->simulated));
        for (size_t m = 0; m < n; m++)
            mrd_json_append(missing, mrd_json_new_int(ranks[m]));
        free(ranks);
        mrd_json_set(json, "missing_ranks", missing);
        mrd_json_append(list, json);
    }
    return list;
}

void
mrd_diff_print_json(const mrd_diff_shown *set, const mrd_diff_side *base, const mrd_diff_side *now,
                    const mrd_diff *diff)
{
    mrd_json *doc = mrd_json_new_object(), *rows = mrd_json_new_array(),
             *ranks = mrd_json_new_array();
    const mrd_diff_side *const sides[2] = { base, now };

    mrd_json_set(doc, "verdict", mrd_json_new_str(verdict_words[mrd_diff_verdict_of(diff)]));
    mrd_json_set(doc, "unit", mrd_json_new_str(diff->by_call ? "call" : "step"));
    mrd_json_set(doc, "confidence_percent", mrd_json_new_num(set->confidence));
    mrd_json_set(doc, "threshold_percent", mrd_json_new_num(set->threshold));
    mrd_json_set(doc, "base", side_json(sides, 0, diff->warmup[0]));
    mrd_json_set(doc, "new", side_json(sides, 1, diff->warmup[1]));
    if (!diff->by_call)
        mrd_json_set(doc, "step",
                     compared_json(&diff->step.is, diff->step.half, diff->step.differs));
    mrd_json_set(doc, "cause",
                 diff->cause == NULL ? mrd_json_new_str(NULL) : row_json(diff->cause));
    for (size_t i = 0; i < diff->n_rows; i++)
        mrd_json_append(rows, row_json(&diff->rows[i]));
    mrd_json_set(doc, "operations", rows);
    for (size_t i = 0; i < diff->n_ranks; i++) {
        const mrd_diff_rank *rank = &diff->ranks[i];
        mrd_json *json = compared_json(&rank->is, rank->half, rank->differs);

        mrd_json_set(json, "rank", mrd_json_new_int(rank->rank));
        mrd_json_append(ranks, json);
    }
    mrd_json_set(doc, "ranks", ranks);
    mrd_json_set(doc, "changed_ranks", slow_ranks_json(diff));
    mrd_cluster_print_json(doc);
    mrd_json_free(doc);
}
