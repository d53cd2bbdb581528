/* The runs of a side: what their steps.json say in numbers. */
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
    mrd_json_free(r->doc);
}

/* Steps of all processes, block by block. */
static mrd_err
count_steps(mrd_diff_run *r)
{
    const mrd_json *processes = mrd_json_get(r->steps, "processes");

    for (size_t i = 0; i < mrd_json_size(processes); i++) {
        const mrd_json *p = mrd_json_at(processes, i), *counts = mrd_json_get(p, "blocks_count");
        size_t n = mrd_json_size(counts);

        if (n > 0 && !MRD_VEC_REACH(r->per_block, r->n_blocks, n - 1))
            return MRD_NOMEM;
        for (size_t b = 0; b < n; b++)
            r->per_block[b] += (double) mrd_json_int_of(mrd_json_at(counts, b));
        r->n_steps += (uint64_t) mrd_json_int(p, "steps", 0);
        r->n_processes += n > 0;
    }
    /* The last block may be hardly begun: a value of few steps is not like the others. */
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
