#include "trace/analysis/balance.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

enum { BALANCE_PARTS = 8, KEYS = 3 };

typedef struct {
    uint64_t ns,
        /* over the compared steps; the sum of positive and negative excess, at least 0 */
        excess_ns;
    size_t over; /* steps with an excess */
    bool is_over;
} account;

struct mrd_balance {
    mrd_sid keys[KEYS];
    mrd_ev_ns first, last;
    mrd_map step_of; /* number of a step, or of a part of the recording -> its row */
    uint64_t *cells; /* by row, then worker */
    size_t n_cells, cap_cells, n_workers;
    bool by_step;      /* a span named its step */
    account *accounts; /* by worker */
};

mrd_balance *
mrd_balance_new(const mrd_catalog *cat, size_t workers, mrd_ev_ns first, mrd_ev_ns last)
{
    static const char *const keys[KEYS] = { "step", "iteration", "global_step" };
    mrd_balance *b = calloc(1, sizeof(*b));

    if (b == NULL || (b->accounts = calloc(workers + 1, sizeof(*b->accounts))) == NULL) {
        free(b);
        return NULL;
    }
    for (size_t i = 0; i < KEYS; i++)
        b->keys[i] = mrd_strtab_find(mrd_catalog_strings(cat), mrd_str_of(keys[i]));
    b->n_workers = workers;
    b->first = first;
    b->last = last;
    return b;
}

void
mrd_balance_free(mrd_balance *b)
{
    if (b == NULL)
        return;
    mrd_map_fini(&b->step_of);
    free(b->cells);
    free(b->accounts);
    free(b);
}

/* Returns the step of a span, or else the part of the recording in which it begins. */
static mrd_map_key
step_key(const mrd_balance *b, const mrd_event *ev)
{
    double length = (double) b->last.ns - (double) b->first.ns,
           at = (double) ev->ts.ns - (double) b->first.ns;

    for (size_t k = 0; k < KEYS; k++) {
        const mrd_arg *a = mrd_event_arg(ev, b->keys[k]);

        if (mrd_arg_is_int(a))
            return (mrd_map_key){ 1, a->v.u, 0 };
    }
    return (mrd_map_key){ 0, at > 0 && length > 0 ? (uint64_t) (BALANCE_PARTS * (at / length)) : 0,
                          0 };
}

mrd_err
mrd_balance_add(mrd_balance *b, uint32_t worker, const mrd_event *ev)
{
    mrd_map_key key = step_key(b, ev);
    uint32_t row = mrd_map_get(&b->step_of, key);

    b->by_step = b->by_step || key.a == 1;
    if (row == MRD_MAP_NONE) {
        mrd_err err;

        if (b->n_cells + b->n_workers > MRD_BALANCE_CELLS)
            return MRD_OK;
        row = (uint32_t) (b->n_cells / b->n_workers);
        if (!MRD_VEC_ROOM(b->cells, b->n_cells, b->cap_cells, b->n_workers))
            return MRD_NOMEM;
        if ((err = mrd_map_put(&b->step_of, key, row)) != MRD_OK)
            return err;
        memset(b->cells + b->n_cells, 0, b->n_workers * sizeof(*b->cells));
        b->n_cells += b->n_workers;
    }
    b->cells[row * b->n_workers + worker] += (uint64_t) ev->dur_ns;
    return MRD_OK;
}

/* Adds one step to the accounts. Returns the computation of the median worker; 0 if fewer than two workers computed. */
static uint64_t
add_step(mrd_balance *b, const uint64_t *cells, uint64_t *sorted)
{
    size_t n = 0;
    uint64_t median;

    for (size_t w = 0; w < b->n_workers; w++) {
        if (cells[w] > 0)
            sorted[n++] = cells[w];
    }
    if (n < 2)
        return 0;
    qsort(sorted, n, sizeof(*sorted), mrd_u64_order);
    median = sorted[(n - 1) / 2];
    for (size_t w = 0; w < b->n_workers; w++) {
        b->accounts[w].ns += cells[w];
        b->accounts[w].over += cells[w] > median;
    }
    return median;
}

mrd_err
mrd_balance_judge(mrd_balance *b, mrd_imbalance *ret)
{
    uint64_t *sorted = malloc((b->n_workers + 1) * sizeof(*sorted)), most = 0;

    *ret = (mrd_imbalance){ .by_step = b->by_step };
    if (sorted == NULL)
        return MRD_NOMEM;
    memset(b->accounts, 0, b->n_workers * sizeof(*b->accounts));
    for (size_t at = 0; at < b->n_cells; at += b->n_workers) {
        uint64_t median = add_step(b, b->cells + at, sorted);

        ret->median_ns += median;
        ret->steps += median > 0;
    }
    free(sorted);
    for (uint32_t w = 0; w < b->n_workers; w++) {
        account *a = &b->accounts[w];

        a->excess_ns = a->ns > ret->median_ns ? a->ns - ret->median_ns : 0;
        if (a->excess_ns > most) {
            most = a->excess_ns;
            ret->worker = w;
        }
    }
    for (uint32_t w = 0; w < b->n_workers; w++) {
        account *a = &b->accounts[w];

        a->is_over = a->excess_ns > 0 && a->excess_ns >= most / 2 &&
                     (double) a->excess_ns >= MRD_BALANCE_EXCESS * (double) ret->median_ns &&
                     ret->steps > 1 && (double) a->over >= MRD_BALANCE_STEADY * (double) ret->steps;
        ret->workers += a->is_over;
    }
    ret->ns = b->accounts[ret->worker].ns;
    ret->over = b->accounts[ret->worker].over;
    return MRD_OK;
}

bool
mrd_balance_is_over(const mrd_balance *b, uint32_t worker)
{
    return b->accounts[worker].is_over;
}
