/* Reads the runs of a side from their steps.json. */
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "base/vec.h"
#include "cli/diff.h"

static void
run_fini(mrd_diff_run *r)
{
    free(r->label);
    free(r->per_block);
    free(r->is_left_out);
    mrd_json_free(r->doc);
}

bool
mrd_diff_has_process(const mrd_diff_run *run, size_t i)
{
    const mrd_json *processes = mrd_json_get(run->steps, "processes");

    return i < mrd_json_size(processes) && (run->is_left_out == NULL || !run->is_left_out[i]) &&
           (run->by_call || mrd_json_int(mrd_json_at(processes, i), "steps", 0) > 0);
}

bool
mrd_diff_has_rank(const mrd_diff_run *run, int64_t rank)
{
    const mrd_json *processes = mrd_json_get(run->steps, "processes");

    for (size_t i = 0; i < mrd_json_size(processes); i++) {
        if (mrd_json_int(mrd_json_at(processes, i), "rank", MRD_NONE) == rank &&
            (run->by_call || mrd_json_int(mrd_json_at(processes, i), "steps", 0) > 0))
            return true;
    }
    return false;
}

/* Counts the steps of all processes that are compared, block by block. */
static mrd_err
count_steps(mrd_diff_run *r)
{
    const mrd_json *processes = mrd_json_get(r->steps, "processes");

    for (size_t i = 0; i < mrd_json_size(processes); i++) {
        const mrd_json *p = mrd_json_at(processes, i), *counts = mrd_json_get(p, "blocks_count");
        size_t n = mrd_json_size(counts);

        if (r->is_left_out != NULL && r->is_left_out[i])
            continue;
        if (n > 0 && !MRD_VEC_REACH(r->per_block, r->n_blocks, n - 1))
            return MRD_NOMEM;
        for (size_t b = 0; b < n; b++)
            r->per_block[b] += (double) mrd_json_int_of(mrd_json_at(counts, b));
        r->n_steps += (uint64_t) mrd_json_int(p, "steps", 0);
        r->n_processes += n > 0;
    }
    /* The last block may be short, and a value of few steps is not comparable. */
    if (r->n_blocks > 1 && r->per_block[r->n_blocks - 1] * 2 < r->per_block[0])
        r->n_blocks--;
    return MRD_OK;
}

static bool
lost_events(const mrd_json *about)
{
    const mrd_json *inputs = mrd_json_get(about, "inputs");

    for (size_t i = 0; i < mrd_json_size(inputs); i++) {
        if (mrd_json_int(mrd_json_at(inputs, i), "lost", 0) > 0)
            return true;
    }
    return false;
}

mrd_err
mrd_diff_side_add(mrd_diff_side *side, mrd_json *doc, const char *what, mrd_why *why)
{
    const mrd_json *about = mrd_json_get(doc, "meridian");
    mrd_diff_run *r = &side->run[side->n];
    const char *unit;

    if (side->n == MRD_DIFF_RUNS) {
        mrd_json_free(doc);
        return mrd_why_set(why, MRD_LIMIT, 0, "'%s': more than %u runs on a side", what,
                           MRD_DIFF_RUNS);
    }
    *r = (mrd_diff_run){ .doc = doc,
                         .steps = mrd_json_get(doc, "steps"),
                         .label = strdup(what),
                         .incomplete =
                             mrd_json_bool(about, "incomplete", false) || lost_events(about),
                         .simulated = mrd_json_bool(about, "simulated", false) };
    unit = mrd_json_str(r->steps, "unit", "");
    r->by_call = strcmp(unit, "call") == 0;
    if (!mrd_json_is_array(mrd_json_get(r->steps, "operations")) ||
        (!r->by_call && strcmp(unit, "step") != 0)) {
        run_fini(r);
        return mrd_why_set(why, MRD_TYPE, 0,
                           "'%s' is not a steps.json (the output format steps-json writes one)",
                           what);
    }
    if (r->label == NULL || count_steps(r) != MRD_OK) {
        run_fini(r);
        return mrd_why_set(why, MRD_NOMEM, 0, "reading '%s'", what);
    }
    side->n++;
    return MRD_OK;
}

void
mrd_diff_side_fini(mrd_diff_side *side)
{
    for (size_t i = 0; i < side->n; i++)
        run_fini(&side->run[i]);
    side->n = 0;
}

static bool
is_in_all_runs(const mrd_diff_side sides[2], int64_t rank)
{
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < sides[k].n; i++) {
            if (!mrd_diff_has_rank(&sides[k].run[i], rank))
                return false;
        }
    }
    return true;
}

/* Marks the processes of the run with a rank that is not in all runs. Sets *ret_kept if any is
 * compared. */
static mrd_err
mark_left_out(const mrd_diff_side sides[2], mrd_diff_run *r, bool *ret_kept)
{
    const mrd_json *processes = mrd_json_get(r->steps, "processes");
    size_t n = mrd_json_size(processes), left_out = 0;

    if ((r->is_left_out = calloc(n + 1, sizeof(*r->is_left_out))) == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < n; i++) {
        int64_t rank = mrd_json_int(mrd_json_at(processes, i), "rank", MRD_NONE);

        if (!mrd_diff_has_process(r, i))
            continue;
        r->is_left_out[i] = !is_in_all_runs(sides, rank);
        left_out += r->is_left_out[i];
        *ret_kept = *ret_kept || !r->is_left_out[i];
    }
    if (left_out == 0) {
        free(r->is_left_out);
        r->is_left_out = NULL;
    }
    return MRD_OK;
}

mrd_err
mrd_diff_match_ranks(mrd_diff_side sides[2], mrd_why *why)
{
    bool any_kept = false, any_left_out = false;
    mrd_err err = MRD_OK;

    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < sides[k].n && err == MRD_OK; i++) {
            err = mark_left_out(sides, &sides[k].run[i], &any_kept);
            any_left_out = any_left_out || sides[k].run[i].is_left_out != NULL;
        }
    }
    sides[0].some_left_out = sides[1].some_left_out = any_left_out && any_kept;
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < sides[k].n && err == MRD_OK; i++) {
            mrd_diff_run *r = &sides[k].run[i];

            if (r->is_left_out == NULL)
                continue;
            if (!any_kept) { /* nothing would be left to compare */
                free(r->is_left_out);
                r->is_left_out = NULL;
                continue;
            }
            free(r->per_block);
            r->per_block = NULL;
            r->n_blocks = 0;
            r->n_steps = r->n_processes = 0;
            err = count_steps(r);
        }
    }
    return err == MRD_OK ? err : mrd_why_set(why, err, 0, "matching the ranks of the runs");
}
