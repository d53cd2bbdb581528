#include "trace/analysis/balance.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

enum { BALANCE_PARTS = 8 };

/* Names of arguments that contain the number of a step. */
static const char *const step_keys[] = { "step",     "iteration",   "global_step",   "train_step",
                                         "iter",     "step_id",     "step_num",      "step_number",
                                         "Step",     "Iteration",   "training_step", "train_iter",
                                         "cur_step", "iteration_id" };

typedef struct {
    uint64_t ns,
        /* computation of this worker minus computation of the median worker in ns, summed over the
         * compared steps; 0 if the sum is negative */
        excess_ns;
    size_t over;   /* number of steps in which the worker computed more than the median worker */
    bool is_over;  /* result: the worker computes more than the others (mrd_balance_is_over) */
    mrd_ev_ns end; /* end of the computation that was added last, to count overlapping spans once */
    uint64_t step; /* number of the current program step; the step ends at step_end */
    mrd_ev_ns step_end;
} account;

struct mrd_balance {
    const mrd_catalog *cat;
    mrd_sid keys[MRD_COUNT(step_keys)];
    mrd_ev_ns first, last;
    /* maps a step number, or the index of an eighth of the recording, to its row in `cells` */
    mrd_map step_of;
    /* Rows of n_workers + 1 cells, one row per step or per eighth of the recording. A cell is the
     * time in ns that a worker computed. The last cell is 1 if the row is a step, else 0. */
    uint64_t *cells;
    size_t n_cells, cap_cells, n_workers;
    /* total time of computation in ns: ns[0] in spans without a step, ns[1] in spans with a step */
    uint64_t ns[2];
    account *accounts; /* indexed by worker */
};

mrd_balance *
mrd_balance_new(const mrd_catalog *cat, size_t workers, mrd_ev_ns first, mrd_ev_ns last)
{
    mrd_balance *balance = calloc(1, sizeof(*balance));

    if (balance == NULL ||
        (balance->accounts = calloc(workers + 1, sizeof(*balance->accounts))) == NULL) {
        free(balance);
        return NULL;
    }
    balance->cat = cat;
    for (size_t i = 0; i < MRD_COUNT(step_keys); i++)
        balance->keys[i] = mrd_strtab_find(mrd_catalog_strings(cat), mrd_str_of(step_keys[i]));
    for (size_t w = 0; w < workers; w++)
        balance->accounts[w].end = balance->accounts[w].step_end = (mrd_ev_ns){ INT64_MIN };
    balance->n_workers = workers;
    balance->first = first;
    balance->last = last;
    return balance;
}

void
mrd_balance_free(mrd_balance *balance)
{
    if (balance == NULL)
        return;
    mrd_map_fini(&balance->step_of);
    free(balance->cells);
    free(balance->accounts);
    free(balance);
}

/* Stores the step number from an argument of the span. Returns false if no argument has one. */
static bool
stated_step(const mrd_balance *balance, const mrd_event *ev, uint64_t *ret_step)
{
    for (size_t k = 0; k < MRD_COUNT(step_keys); k++) {
        const mrd_arg *arg = mrd_event_arg(ev, balance->keys[k]);

        if (mrd_arg_is_int(arg)) {
            *ret_step = arg->v.u;
            return true;
        }
        if (mrd_num_digits(mrd_arg_text(mrd_catalog_strings(balance->cat), arg), ret_step))
            return true;
    }
    return false;
}

void
mrd_balance_around(mrd_balance *balance, const mrd_workers *who, const mrd_event *ev, bool is_step)
{
    mrd_proc_id process = mrd_catalog_borrow_track(balance->cat, ev->track)->process;
    uint32_t first, n = mrd_workers_of_process(who, process, &first),
                    of = mrd_workers_of(who, ev->track);
    bool all = of == MRD_NO_WORKER || mrd_workers_at(who, of)->ranks.len == 0;
    uint64_t step;
    bool has_number = stated_step(balance, ev, &step) ||
                      (is_step && mrd_phase_step(mrd_catalog_text(balance->cat, ev->name), &step));

    for (uint32_t i = first; i < first + n && (has_number || is_step); i++) {
        account *a = &balance->accounts[i];
        bool again = has_number && a->step == step;

        if (!all && i != of)
            continue;
        a->step = has_number ? step : a->step + 1;
        a->step_end = again ? mrd_ev_max(a->step_end, mrd_event_end(ev)) : mrd_event_end(ev);
    }
}

bool
mrd_balance_step(const mrd_balance *balance, uint32_t worker, const mrd_event *ev,
                 uint64_t *ret_step)
{
    const account *a = &balance->accounts[worker];

    if (stated_step(balance, ev, ret_step))
        return true;
    *ret_step = a->step;
    return mrd_ev_before(ev->ts, a->step_end) ||
           mrd_phase_step(mrd_catalog_text(balance->cat, ev->name), ret_step);
}

/* Returns the index of the row for a step or an eighth of the recording, and adds the row if it is
 * new. Returns MRD_MAP_NONE if the table is full. On errors, returns MRD_MAP_NONE and sets
 * *ret_err. */
static uint32_t
row_of(mrd_balance *balance, mrd_map_key key, mrd_err *ret_err)
{
    size_t width = balance->n_workers + 1;
    uint32_t row = mrd_map_get(&balance->step_of, key);

    if (row != MRD_MAP_NONE || balance->n_cells + width > MRD_BALANCE_CELLS)
        return row;
    if (!MRD_VEC_ROOM(balance->cells, balance->n_cells, balance->cap_cells, width)) {
        *ret_err = MRD_NOMEM;
        return MRD_MAP_NONE;
    }
    row = (uint32_t) (balance->n_cells / width);
    if ((*ret_err = mrd_map_put(&balance->step_of, key, row)) != MRD_OK)
        return MRD_MAP_NONE;
    memset(balance->cells + balance->n_cells, 0, width * sizeof(*balance->cells));
    balance->n_cells += width;
    balance->cells[balance->n_cells - 1] = key.a;
    return row;
}

/* Returns the index of the eighth of the recording in which a span begins. */
static uint64_t
part_of(const mrd_balance *balance, const mrd_event *ev)
{
    double length = (double) balance->last.ns - (double) balance->first.ns,
           at = (double) ev->ts.ns - (double) balance->first.ns;

    return at > 0 && length > 0 ? (uint64_t) (BALANCE_PARTS * (at / length)) : 0;
}

mrd_err
mrd_balance_add(mrd_balance *balance, uint32_t worker, const mrd_event *ev)
{
    account *a = &balance->accounts[worker];
    mrd_ev_ns begin = mrd_ev_max(ev->ts, a->end), end = mrd_event_end(ev);
    uint64_t ns = mrd_ev_before(begin, end) ? (uint64_t) mrd_ev_diff(end, begin) : 0, step;
    bool has_step = mrd_balance_step(balance, worker, ev, &step);
    mrd_map_key keys[2] = { { 0, part_of(balance, ev), 0 }, { 1, step, 0 } };
    mrd_err err = MRD_OK;

    a->end = mrd_ev_max(a->end, end);
    balance->ns[has_step] += ns;
    for (size_t i = 0; i < (has_step ? 2 : 1) && err == MRD_OK; i++) {
        uint32_t row = row_of(balance, keys[i], &err);

        if (row != MRD_MAP_NONE)
            balance->cells[row * (balance->n_workers + 1) + worker] += ns;
    }
    return err;
}

/* Adds one step's computation times to the accounts of the workers. `cells` has one time per
 * worker. Returns the median of the times of workers that computed in this step. Returns 0, and
 * adds nothing, if fewer than two workers computed. */
static uint64_t
add_step(mrd_balance *balance, const uint64_t *cells, uint64_t *sorted)
{
    size_t n = 0;
    uint64_t median;

    for (size_t w = 0; w < balance->n_workers; w++) {
        if (cells[w] > 0)
            sorted[n++] = cells[w];
    }
    if (n < 2)
        return 0;
    qsort(sorted, n, sizeof(*sorted), mrd_u64_order);
    median = sorted[(n - 1) / 2];
    for (size_t w = 0; w < balance->n_workers; w++) {
        balance->accounts[w].ns += cells[w];
        balance->accounts[w].over += cells[w] > median;
    }
    return median;
}

mrd_err
mrd_balance_judge(mrd_balance *balance, mrd_imbalance *ret)
{
    uint64_t *sorted = malloc((balance->n_workers + 1) * sizeof(*sorted)), most = 0;

    *ret = (mrd_imbalance){ .by_step = balance->ns[1] > balance->ns[0] };
    if (sorted == NULL)
        return MRD_NOMEM;
    memset(balance->accounts, 0, balance->n_workers * sizeof(*balance->accounts));
    for (size_t at = 0; at < balance->n_cells; at += balance->n_workers + 1) {
        const uint64_t *row = balance->cells + at;
        uint64_t median =
            row[balance->n_workers] == ret->by_step ? add_step(balance, row, sorted) : 0;

        ret->median_ns += median;
        ret->steps += median > 0;
    }
    free(sorted);
    for (uint32_t w = 0; w < balance->n_workers; w++) {
        account *a = &balance->accounts[w];

        a->excess_ns = a->ns > ret->median_ns ? a->ns - ret->median_ns : 0;
        if (a->excess_ns > most) {
            most = a->excess_ns;
            ret->worker = w;
        }
    }
    for (uint32_t w = 0; w < balance->n_workers; w++) {
        account *a = &balance->accounts[w];

        a->is_over = a->excess_ns > 0 && a->excess_ns >= most / 2 &&
                     (double) a->excess_ns >= MRD_BALANCE_EXCESS * (double) ret->median_ns &&
                     ret->steps > 1 && (double) a->over >= MRD_BALANCE_STEADY * (double) ret->steps;
        ret->workers += a->is_over;
    }
    ret->ns = balance->accounts[ret->worker].ns;
    ret->over = balance->accounts[ret->worker].over;
    return MRD_OK;
}

bool
mrd_balance_is_over(const mrd_balance *balance, uint32_t worker)
{
    return balance->accounts[worker].is_over;
}
