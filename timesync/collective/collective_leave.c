/* Aligns the remaining processes after leaving out all processes that do not fit. */
#include "timesync/collective/collective_impl.h"

#include <stdlib.h>
#include <string.h>

/* maximum number of rounds of leaving out processes; if more are needed, most processes do not fit
 * each other */
#define LEAVE_ROUNDS 8

/*
 * Moves the reasons of the processes that do not fit from `odd` to `out`, and marks these processes
 * in `without`. If most compared processes do not fit the reference, only the reference is left
 * out.
 */
static void
leave_out(const mrd_coll_match *match, size_t reference, char **odd, const mrd_why *first_odd,
          char **out, bool *without)
{
    size_t np = match->process_count, here = 0, moved = 0;
    bool *seen = calloc(np + 1, sizeof(*seen));

    for (size_t i = 0; i < match->obs_n && seen != NULL; i++) {
        here += !seen[match->obs[i].process];
        seen[match->obs[i].process] = true;
    }
    free(seen);
    for (size_t p = 0; p < np; p++)
        moved += odd[p] != NULL;
    if (moved > 0 && 2 * moved > here - 1) {
        for (size_t p = 0; p < np; p++) {
            free(odd[p]);
            odd[p] = NULL;
        }
        moved = 1;
        (void) mrd_coll_note(odd, reference, first_odd->text);
    }
    for (size_t p = 0; p < np; p++) {
        if (odd[p] == NULL)
            continue;
        free(out[p]);
        out[p] = odd[p];
        odd[p] = NULL;
        without[p] = true;
    }
}

static void
free_texts(char **texts, size_t n)
{
    for (size_t i = 0; texts != NULL && i < n; i++)
        free(texts[i]);
    free(texts);
}

/* State of the rounds in solve_rest(). Each round aligns fewer processes. `odd` has the reasons for
 * processes that did not fit in this round, `out` for all processes that are left out. */
typedef struct {
    char **odd, **out;
    bool *without;
    mrd_coll_match *match; /* match of the remaining processes; NULL while no process is left out */
} leaving;

static mrd_err
solve_rest(const mrd_coll_match *match, leaving *rest, const mrd_coll_options *options,
           mrd_coll_solution *sol, mrd_why *why)
{
    mrd_why first = { 0 };
    mrd_err err = MRD_OK;

    for (int round = 0; round <= LEAVE_ROUNDS; round++) {
        const mrd_coll_match *now = rest->match == NULL ? match : rest->match;
        mrd_coll_match *less = NULL;
        mrd_why odd = { 0 };

        if ((err = mrd_coll_solve_once(now, options, rest->odd, &odd, sol, why)) != MRD_OK)
            return err;
        if (odd.err == MRD_OK)
            return MRD_OK;
        if (first.err == MRD_OK)
            first = odd;
        leave_out(now, sol->reference, rest->odd, &odd, rest->out, rest->without);
        mrd_coll_solution_fini(sol);
        if ((err = mrd_coll_match_without(now, rest->without, &less)) == MRD_NOMEM)
            return mrd_why_set(why, err, 0, "%zu matched collectives", match->count);
        if (err == MRD_EMPTY)
            break;
        mrd_coll_match_free(rest->match);
        rest->match = less;
    }
    *why = first; /* no collective is left, or LEAVE_ROUNDS was reached */
    return MRD_CLOCK;
}

mrd_err
mrd_coll_solve(const mrd_coll_match *match, const mrd_coll_options *options,
               mrd_coll_solution *ret_solution, mrd_why *why)
{
    size_t np = match->process_count;
    mrd_coll_solution sol = { 0 };
    leaving rest = { .odd = calloc(np + 1, sizeof(char *)),
                     .out = calloc(np + 1, sizeof(char *)),
                     .without = calloc(np + 1, sizeof(bool)) };
    mrd_err err = MRD_NOMEM;
    mrd_why unread = { 0 };

    why = why == NULL ? &unread : why;
    if (rest.odd == NULL || rest.out == NULL || rest.without == NULL)
        mrd_why_set(why, MRD_NOMEM, 0, "%zu processes", np);
    else
        err = solve_rest(match, &rest, options, &sol, why);
    for (size_t p = 0; p < np && err == MRD_OK; p++) {
        const char *reason = rest.out[p] != NULL ? rest.out[p] : match->reasons[p];

        if (!sol.process[p].aligned && reason != NULL &&
            (sol.process[p].left_out = strdup(reason)) == NULL)
            err = mrd_why_set(why, MRD_NOMEM, 0, "%zu processes", np);
    }
    if (err == MRD_OK)
        *ret_solution = sol;
    else
        mrd_coll_solution_fini(&sol);
    free_texts(rest.odd, np);
    free_texts(rest.out, np);
    free(rest.without);
    mrd_coll_match_free(rest.match);
    return err;
}
