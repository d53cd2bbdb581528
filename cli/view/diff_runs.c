/* Reads the runs of a side from their steps.json. */
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "base/vec.h"
#include "cli/view/diff.h"

static void
run_fini(mrd_diff_run *run)
{
    free(run->label);
    free(run->per_block);
    free(run->listed);
    mrd_map_fini(&run->by_rank);
    mrd_json_free(run->doc);
}

bool
mrd_diff_has_process(const mrd_diff_run *run, size_t i)
{
    return i < run->n_listed && !run->listed[i].is_left_out &&
           (run->by_call || run->listed[i].steps > 0);
}

bool
mrd_diff_has_rank(const mrd_diff_run *run, int64_t rank)
{
    return mrd_map_get(&run->by_rank, mrd_diff_rank_key(rank)) != MRD_MAP_NONE;
}

static mrd_err
list_processes(mrd_diff_run *run)
{
    const mrd_json *processes = mrd_json_get(run->steps, "processes");

    run->n_listed = mrd_json_size(processes);
    if ((run->listed = calloc(run->n_listed + 1, sizeof(*run->listed))) == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < run->n_listed; i++) {
        const mrd_json *json = mrd_json_at(processes, i);
        int64_t rank = mrd_json_int(json, "rank", MRD_NONE), steps = mrd_json_int(json, "steps", 0);
        uint32_t first = mrd_map_get(&run->by_rank, mrd_diff_rank_key(rank));

        run->listed[i] = (mrd_diff_process){ .rank = rank, .steps = steps };
        if ((first == MRD_MAP_NONE ? run->by_call || steps > 0
                                   : run->listed[first].steps <= 0 && steps > 0) &&
            mrd_map_put(&run->by_rank, mrd_diff_rank_key(rank), (uint32_t) i) != MRD_OK)
            return MRD_NOMEM;
    }
    return MRD_OK;
}

/* Counts the steps in each block, over all processes that are compared. */
static mrd_err
count_steps(mrd_diff_run *run)
{
    const mrd_json *processes = mrd_json_get(run->steps, "processes");

    free(run->per_block);
    run->per_block = NULL;
    run->n_blocks = 0;
    run->n_steps = run->n_processes = 0;
    for (size_t i = 0; i < run->n_listed; i++) {
        const mrd_json *counts = mrd_json_get(mrd_json_at(processes, i), "blocks_count");
        size_t n = mrd_json_size(counts);

        if (run->listed[i].is_left_out)
            continue;
        if (n > 0 && !MRD_VEC_REACH(run->per_block, run->n_blocks, n - 1))
            return MRD_NOMEM;
        for (size_t b = 0; b < n; b++)
            run->per_block[b] += (double) mrd_json_int_of(mrd_json_at(counts, b));
        run->n_steps += (uint64_t) run->listed[i].steps;
        run->n_processes += n > 0;
    }
    /* The last block may have too few steps for a comparable value, so it is dropped. */
    if (run->n_blocks > 1 && run->per_block[run->n_blocks - 1] * 2 < run->per_block[0])
        run->n_blocks--;
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
    mrd_diff_run *run = &side->run[side->n];
    const char *unit;

    if (side->n == MRD_DIFF_RUNS) {
        mrd_json_free(doc);
        return mrd_why_set(why, MRD_LIMIT, 0, "'%s': more than %u runs on a side", what,
                           MRD_DIFF_RUNS);
    }
    *run = (mrd_diff_run){ .doc = doc,
                           .steps = mrd_json_get(doc, "steps"),
                           .label = strdup(what),
                           .incomplete =
                               mrd_json_bool(about, "incomplete", false) || lost_events(about),
                           .simulated = mrd_json_bool(about, "simulated", false) };
    run->on_one_timeline =
        mrd_json_bool(run->steps, "same_clock", false) ||
        strcmp(mrd_json_str(mrd_json_get(about, "facts"), "clock.times", ""), "aligned") == 0;
    unit = mrd_json_str(run->steps, "unit", "");
    run->by_call = strcmp(unit, "call") == 0;
    if (!mrd_json_is_array(mrd_json_get(run->steps, "operations")) ||
        (!run->by_call && strcmp(unit, "step") != 0)) {
        run_fini(run);
        return mrd_why_set(why, MRD_TYPE, 0,
                           "'%s' is not a steps.json (the output format steps-json writes one)",
                           what);
    }
    if (run->label == NULL || list_processes(run) != MRD_OK || count_steps(run) != MRD_OK) {
        run_fini(run);
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

/* Marks the processes of the run if their rank is missing in another run. Sets *any_left_out if
 * there are marked processes, and *any_kept if there are unmarked ones. */
static void
mark_left_out(const mrd_diff_side sides[2], mrd_diff_run *run, bool *any_left_out, bool *any_kept)
{
    for (size_t i = 0; i < run->n_listed; i++) {
        mrd_diff_process *process = &run->listed[i];

        if (!mrd_diff_has_process(run, i))
            continue;
        process->is_left_out = !is_in_all_runs(sides, process->rank);
        *(process->is_left_out ? any_left_out : any_kept) = true;
    }
}

mrd_err
mrd_diff_match_ranks(mrd_diff_side sides[2], mrd_why *why)
{
    bool any_kept = false, any_left_out = false;
    mrd_err err = MRD_OK;

    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < sides[k].n; i++)
            mark_left_out(sides, &sides[k].run[i], &any_left_out, &any_kept);
    }
    sides[0].some_left_out = sides[1].some_left_out = any_left_out && any_kept;
    for (int k = 0; k < 2 && any_left_out; k++) {
        for (size_t i = 0; i < sides[k].n && err == MRD_OK; i++) {
            mrd_diff_run *run = &sides[k].run[i];

            /* every process would be left out, so compare all of them after all */
            for (size_t p = 0; p < run->n_listed && !any_kept; p++)
                run->listed[p].is_left_out = false;
            err = any_kept ? count_steps(run) : MRD_OK;
        }
    }
    return err == MRD_OK ? err : mrd_why_set(why, err, 0, "matching the ranks of the runs");
}
