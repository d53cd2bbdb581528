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

/* ---- Verdict ---- */

static const char *const verdict_words[] = {
    [MRD_DIFF_NO_DIFFERENCE] = "no difference",
    [MRD_DIFF_OPERATIONS_DIFFER] = "operations differ",
    [MRD_DIFF_DRIFTING] = "drifting steps",
    [MRD_DIFF_TOO_FEW] = "too few steps",
    [MRD_DIFF_SLOWER] = "slower",
    [MRD_DIFF_FASTER] = "faster",
};

/* ---- Printing ---- */

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

/* `warmup` is per run, as in mrd_diff. */
static void
print_side(const char *name, const mrd_diff_side *side, const uint64_t *warmup)
{
    for (size_t i = 0; i < side->n; i++) {
        const mrd_diff_run *r = &side->run[i];
        mrd_buf label = { 0 };

        mrd_plain_text(&label, mrd_str_of(r->label));
        printf("%-5s %s", i == 0 ? name : "", mrd_buf_cstr(&label));
        mrd_buf_fini(&label);
        if (r->by_call)
            printf(" (no training steps: operations are compared call by call)");
        else
            printf(" (%" PRIu64 " %s of %" PRIu64 " %s)", r->n_steps,
                   r->n_steps == 1 ? "step" : "steps", r->n_processes,
                   r->n_processes == 1 ? "process" : "processes");
        if (warmup[i] > 0)
            printf(", the first %" PRIu64 " of each process left out: a warm-up", warmup[i]);
        printf("%s%s\n", r->simulated ? ", simulated" : "",
               r->incomplete ? ", incomplete: events are missing" : "");
    }
}

static int
order_ranks(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return x < y ? -1 : x > y;
}

/* Returns the ranks that another run of the two sides has and this one lacks, in order. The caller
 * frees them. NULL: there are none, or out of memory. */
static int64_t *
find_missing_ranks(const mrd_diff_side *const sides[2], const mrd_diff_run *run, size_t *ret_n)
{
    int64_t *ranks = NULL;
    size_t n = 0, cap = 0, kept = 0;

    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sides[k]->n; i++) {
            const mrd_diff_run *other = &sides[k]->run[i];

            for (size_t p = 0; p < other->n_listed; p++) {
                int64_t rank = other->listed[p].rank;

                if (rank != MRD_NONE && mrd_diff_has_rank(other, rank) &&
                    !mrd_diff_has_rank(run, rank) && MRD_VEC_ROOM(ranks, n, cap, 1))
                    ranks[n++] = rank;
            }
        }
    }
    if (n > 0)
        qsort(ranks, n, sizeof(*ranks), order_ranks);
    for (size_t i = 0; i < n; i++) {
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

/* Says which ranks some runs lack, and what is compared instead of all ranks. */
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

/* Smallest visible difference: half the width of the interval, in percent. */
static void
print_no_difference(const mrd_diff_shown *set, const mrd_diff *d)
{
    const mrd_compared *is = &d->step.is;
    double seen = percent(d->step.half, is->base);
    char a[MRD_DUR_TEXT], b[MRD_DUR_TEXT];
    /* a significant difference below the threshold */
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
print_verdict(const mrd_diff_shown *set, const mrd_diff *d)
{
    const mrd_compared *is = &d->step.is;
    char a[MRD_DUR_TEXT], b[MRD_DUR_TEXT];

    switch (mrd_diff_verdict_of(d)) {
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
        if (!d->by_call)
            print_no_difference(set, d);
        break;
    case MRD_DIFF_OPERATIONS_DIFFER:
        break;
    case MRD_DIFF_SLOWER:
    case MRD_DIFF_FASTER:
        printf("\n%s: a step takes %s instead of %s%s, ", is->change > 0 ? "SLOWER" : "FASTER",
               time_text(is->now, a), time_text(is->base, b), is->median ? " (median)" : "");
        print_change(is->change);
        printf(" (%+.2f %%; between %+.2f and %+.2f %% with %g %% confidence)\n",
               percent(is->change, is->base), percent(is->change - d->step.half, is->base),
               percent(is->change + d->step.half, is->base), set->confidence);
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

/* Prints the operation in at most this many columns. */
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

/* Prints the ranks that the others wait for, or no longer do. Returns true if there are any. */
static bool
print_slow_ranks(const mrd_diff *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n_ranks; i++) {
        const mrd_diff_rank *r = &d->ranks[i];
        bool longer = d->step.is.change > 0;

        if (!r->is_cause || n++ >= SHOWN)
            continue;
        printf("Rank %" PRId64 " became %s in its %s: ", r->rank, longer ? "slower" : "faster",
               mrd_diff_part_text(r->part));
        print_change(longer ? r->beyond : -r->beyond);
        printf(" per step");
        if (r->host != NULL) {
            printf(" (host ");
            print_text_in(r->host, 60);
            printf(" ");
            print_change(longer ? r->host_change : -r->host_change);
            printf(")");
        }
        printf("\n");
    }
    if (n > SHOWN)
        printf("... and %zu more ranks (--json)\n", n - SHOWN);
    return n > 0;
}

static void
print_cause(const mrd_diff *d, bool any_rank)
{
    const mrd_diff_row *c = d->cause;

    if (c == NULL) {
        if (d->step.differs && !any_rank)
            printf("No single operation explains it.\n");
        return;
    }
    printf("%s: %s ", d->step.differs ? "Mainly" : "Look first at", c->kind);
    print_name(c, 90, false);
    printf(", ");
    print_change(c->is.change);
    printf(" per %s", d->by_call ? "call" : "step");
    if (c->in_base && c->in_now)
        printf(" (%+.1f %%)", percent(c->is.change, c->is.base));
    else
        printf(" (%s)", c->in_now ? "only in the new run" : "only in the base");
    if (!c->differs)
        printf(", by the means of the runs");
    if (c->rank != MRD_NONE) {
        printf(", most of it on rank %" PRId64 " (", c->rank);
        print_change(c->rank_change);
        printf(")");
    }
    printf("\n");
}

static void
print_rows(const mrd_diff_shown *set, const mrd_diff *d)
{
    size_t shown = 0, left = 0;

    for (size_t i = 0; i < d->n_rows; i++) {
        const mrd_diff_row *r = &d->rows[i];
        char a[MRD_DUR_TEXT], b[MRD_DUR_TEXT], change[MRD_DUR_TEXT + 1];

        if (!set->all && (!r->differs || shown == SHOWN)) {
            left += r->differs;
            continue;
        }
        if (shown++ == 0)
            printf("\n%-10s %-40s %12s %12s %12s %9s\n", d->by_call ? "per call" : "per step",
                   "operation", "base", "new", "change", "");
        printf("%-10s ", r->kind);
        print_name(r, 40, true);
        printf(" %12s %12s ", r->in_base ? time_text(r->is.base, a) : "-",
               r->in_now ? time_text(r->is.now, b) : "-");
        snprintf(change, sizeof(change), "%s%s", r->is.change < 0 ? "-" : "+",
                 time_text(fabs(r->is.change), a));
        printf("%12s", change);
        if (r->is.base > 0 && r->in_base)
            printf(" %+8.1f%%", percent(r->is.change, r->is.base));
        printf("%s\n", set->all && r->differs ? " *" : "");
    }
    if (left > 0)
        printf("... and %zu more (--all)\n", left);
}

static void
print_ranks(const mrd_diff *d)
{
    for (size_t i = 0; i < d->n_ranks; i++) {
        const mrd_diff_rank *r = &d->ranks[i];

        if (r->differs)
            printf("Rank %" PRId64
                   " changed differently from all ranks together: %+.1f %% (all: %+.1f %%)\n",
                   r->rank, percent(r->is.change, r->is.base),
                   percent(d->step.is.change, d->step.is.base));
    }
}

void
mrd_diff_print_text(const mrd_diff_shown *set, const mrd_diff_side *base, const mrd_diff_side *now,
                    const mrd_diff *d)
{
    print_side("base", base, d->warmup[0]);
    print_side("new", now, d->warmup[1]);
    print_rank_sets(base, now);
    print_verdict(set, d);
    print_cause(d, print_slow_ranks(d));
    print_rows(set, d);
    print_ranks(d);
    if (d->by_call && d->cause == NULL)
        printf("\nNo difference that the data can show.\n");
    if (base->n == 1 && now->n == 1)
        printf(
            "\nOne run on each side: the confidence knows how much parts of a run differ from each "
            "other, not what\nis constant in a run and differs between runs for other causes "
            "(another machine, another placement).\nGive --base and --new at least %d runs each "
            "to measure that.\n",
            MRD_COMPARE_RUNS);
}

/* ---- JSON ---- */

static mrd_json *
compared_json(const mrd_compared *is, double half, bool differs)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "base_ns", mrd_json_new_num(is->base));
    mrd_json_set(o, "new_ns", mrd_json_new_num(is->now));
    mrd_json_set(o, "change_ns", mrd_json_new_num(is->change));
    mrd_json_set(o, "half_width_ns", isinf(half) ? mrd_json_new_str(NULL) : mrd_json_new_num(half));
    mrd_json_set(o, "p", mrd_json_new_num(is->p));
    mrd_json_set(o, "mean", mrd_json_new_str(is->median ? "median" : "trimmed"));
    mrd_json_set(o, "differs", mrd_json_new_bool(differs));
    return o;
}

static mrd_json *
row_json(const mrd_diff_row *r)
{
    mrd_json *o = compared_json(&r->is, r->half, r->differs);

    mrd_json_set(o, "kind", mrd_json_new_str(r->kind));
    mrd_json_set(o, "name", mrd_json_new_str(r->name));
    mrd_json_set(o, "size",
                 r->size == MRD_NONE ? mrd_json_new_str(NULL) : mrd_json_new_int(r->size));
    mrd_json_set(o, "in_base", mrd_json_new_bool(r->in_base));
    mrd_json_set(o, "in_new", mrd_json_new_bool(r->in_now));
    mrd_json_set(o, "rank",
                 r->rank == MRD_NONE ? mrd_json_new_str(NULL) : mrd_json_new_int(r->rank));
    return o;
}

static mrd_json *
slow_ranks_json(const mrd_diff *d)
{
    mrd_json *list = mrd_json_new_array();
    double sign = d->step.is.change < 0 ? -1 : 1;

    for (size_t i = 0; i < d->n_ranks; i++) {
        const mrd_diff_rank *r = &d->ranks[i];
        mrd_json *o;

        if (!r->is_cause)
            continue;
        o = mrd_json_new_object();
        mrd_json_set(o, "rank", mrd_json_new_int(r->rank));
        mrd_json_set(o, "part", mrd_json_new_str(mrd_diff_part_text(r->part)));
        mrd_json_set(o, "change_ns", mrd_json_new_num(sign * r->beyond));
        mrd_json_set(o, "host", mrd_json_new_str(r->host));
        mrd_json_set(o, "host_change_ns",
                     r->host == NULL ? mrd_json_new_str(NULL)
                                     : mrd_json_new_num(sign * r->host_change));
        mrd_json_append(list, o);
    }
    return list;
}

static mrd_json *
side_json(const mrd_diff_side *const sides[2], size_t k, const uint64_t *warmup)
{
    mrd_json *list = mrd_json_new_array();

    for (size_t i = 0; i < sides[k]->n; i++) {
        const mrd_diff_run *r = &sides[k]->run[i];
        mrd_json *o = mrd_json_new_object(), *missing = mrd_json_new_array();
        size_t n;
        int64_t *ranks = find_missing_ranks(sides, r, &n);

        mrd_json_set(o, "run", mrd_json_new_str(r->label));
        mrd_json_set(o, "steps", mrd_json_new_int((int64_t) r->n_steps));
        mrd_json_set(o, "warmup_steps", mrd_json_new_int((int64_t) warmup[i]));
        mrd_json_set(o, "processes", mrd_json_new_int((int64_t) r->n_processes));
        mrd_json_set(o, "incomplete", mrd_json_new_bool(r->incomplete));
        mrd_json_set(o, "simulated", mrd_json_new_bool(r->simulated));
        for (size_t m = 0; m < n; m++)
            mrd_json_append(missing, mrd_json_new_int(ranks[m]));
        free(ranks);
        mrd_json_set(o, "missing_ranks", missing);
        mrd_json_append(list, o);
    }
    return list;
}

void
mrd_diff_print_json(const mrd_diff_shown *set, const mrd_diff_side *base, const mrd_diff_side *now,
                    const mrd_diff *d)
{
    mrd_json *doc = mrd_json_new_object(), *rows = mrd_json_new_array(),
             *ranks = mrd_json_new_array();
    const mrd_diff_side *const sides[2] = { base, now };

    mrd_json_set(doc, "verdict", mrd_json_new_str(verdict_words[mrd_diff_verdict_of(d)]));
    mrd_json_set(doc, "unit", mrd_json_new_str(d->by_call ? "call" : "step"));
    mrd_json_set(doc, "confidence_percent", mrd_json_new_num(set->confidence));
    mrd_json_set(doc, "threshold_percent", mrd_json_new_num(set->threshold));
    mrd_json_set(doc, "base", side_json(sides, 0, d->warmup[0]));
    mrd_json_set(doc, "new", side_json(sides, 1, d->warmup[1]));
    if (!d->by_call)
        mrd_json_set(doc, "step", compared_json(&d->step.is, d->step.half, d->step.differs));
    mrd_json_set(doc, "cause", d->cause == NULL ? mrd_json_new_str(NULL) : row_json(d->cause));
    for (size_t i = 0; i < d->n_rows; i++)
        mrd_json_append(rows, row_json(&d->rows[i]));
    mrd_json_set(doc, "operations", rows);
    for (size_t i = 0; i < d->n_ranks; i++) {
        const mrd_diff_rank *r = &d->ranks[i];
        mrd_json *o = compared_json(&r->is, r->half, r->differs);

        mrd_json_set(o, "rank", mrd_json_new_int(r->rank));
        mrd_json_append(ranks, o);
    }
    mrd_json_set(doc, "ranks", ranks);
    mrd_json_set(doc, "changed_ranks", slow_ranks_json(d));
    mrd_cluster_print_json(doc);
    mrd_json_free(doc);
}
