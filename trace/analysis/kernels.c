#include "trace/analysis/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

enum { NO_ROW = 0 };

typedef struct {
    uint64_t calls, ns;
} cell;

struct mrd_kernels {
    const mrd_catalog *cat;
    uint16_t *row_of; /* by name: row + 1, or NO_ROW if not seen yet */
    size_t n_names, n_workers, most;
    mrd_sid *names;
    bool *collective, *unclear;
    cell **cells; /* by row, then worker */
    size_t n;
    uint64_t rest_ns;
    mrd_err err;
    mrd_kernel *list; /* made by finish */
};

mrd_kernels *
mrd_kernels_new(const mrd_catalog *cat, size_t workers)
{
    mrd_kernels *k = calloc(1, sizeof(*k));

    if (k == NULL)
        return NULL;
    k->cat = cat;
    k->n_workers = workers;
    k->most = workers == 0 ? 0 : MRD_KERNELS_CELLS / workers;
    k->most = k->most > MRD_KERNELS_NAMES ? MRD_KERNELS_NAMES : k->most;
    k->n_names = mrd_strtab_count(mrd_catalog_strings(cat));
    k->row_of = calloc(k->n_names + 1, sizeof(*k->row_of));
    k->names = calloc(k->most + 1, sizeof(*k->names));
    k->collective = calloc(k->most + 1, sizeof(*k->collective));
    k->unclear = calloc(k->most + 1, sizeof(*k->unclear));
    k->cells = calloc(k->most + 1, sizeof(*k->cells));
    if (k->row_of == NULL || k->names == NULL || k->cells == NULL || k->collective == NULL ||
        k->unclear == NULL) {
        mrd_kernels_free(k);
        return NULL;
    }
    return k;
}

void
mrd_kernels_free(mrd_kernels *k)
{
    if (k == NULL)
        return;
    for (size_t i = 0; k->cells != NULL && i < k->n; i++)
        free(k->cells[i]);
    free(k->row_of);
    free(k->names);
    free(k->collective);
    free(k->unclear);
    free(k->cells);
    free(k->list);
    free(k);
}

/* Returns the row for a name that has none yet; NULL if its time counts as the rest. */
static __attribute__((noinline)) cell *
row_first(mrd_kernels *k, const mrd_work *work, mrd_sid name)
{
    if (name >= k->n_names || k->n == k->most)
        return NULL;
    if ((k->cells[k->n] = calloc(k->n_workers, sizeof(cell))) == NULL) {
        k->err = MRD_NOMEM;
        return NULL;
    }
    k->names[k->n] = name;
    k->collective[k->n] = work->on == MRD_ON_COLLECTIVE || work->on == MRD_ON_BARRIER;
    k->unclear[k->n] = work->class == MRD_CLASS_FUSED ||
                       (work->class == MRD_CLASS_UNKNOWN &&
                        mrd_kernel_name_suspicious(mrd_catalog_text(k->cat, name)));
    k->row_of[name] = (uint16_t) ++k->n;
    return k->cells[k->n - 1];
}

void
mrd_kernels_add(mrd_kernels *k, const mrd_work *work, mrd_sid name, uint64_t ns)
{
    cell *row = name < k->n_names && k->row_of[name] != NO_ROW ? k->cells[k->row_of[name] - 1]
                                                               : row_first(k, work, name);

    if (row == NULL) {
        k->rest_ns += ns;
        return;
    }
    row[work->worker].calls++;
    row[work->worker].ns += ns;
}

static int
kernel_order(const void *a, const void *b, void *self)
{
    const mrd_kernel *x = a, *y = b;
    const mrd_catalog *cat = self;

    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return strcmp(mrd_catalog_text(cat, x->name).p, mrd_catalog_text(cat, y->name).p);
}

mrd_err
mrd_kernels_finish(mrd_kernels *k, const uint32_t *place)
{
    uint64_t *times = calloc(k->n_workers + 1, sizeof(*times));

    if (k->err != MRD_OK) {
        free(times);
        return k->err;
    }
    k->list = calloc(k->n + 1, sizeof(*k->list));
    if (times == NULL || k->list == NULL) {
        free(times);
        return MRD_NOMEM;
    }
    for (size_t i = 0; i < k->n; i++) {
        mrd_kernel *v = &k->list[i];

        v->name = k->names[i];
        v->collective = k->collective[i];
        v->unclear = k->unclear[i];
        for (size_t w = 0; w < k->n_workers; w++) {
            const cell *c = &k->cells[i][w];

            if (c->calls == 0)
                continue;
            times[v->workers++] = c->ns;
            v->calls += c->calls;
            v->ns += c->ns;
            if (v->workers > 1 &&
                (c->ns < v->most_ns || (c->ns == v->most_ns && place[w] > v->most_worker)))
                continue;
            v->most_worker = place[w];
            v->most_ns = c->ns;
            v->most_calls = c->calls;
        }
        qsort(times, v->workers, sizeof(*times), mrd_u64_order);
        v->median_ns = v->workers == 0 ? 0 : times[(v->workers - 1) / 2];
    }
    free(times);
    if (k->n > 0)
        qsort_r(k->list, k->n, sizeof(*k->list), kernel_order, (void *) (uintptr_t) k->cat);
    return MRD_OK;
}

const mrd_kernel *
mrd_kernels_list(const mrd_kernels *k, size_t *ret_n)
{
    *ret_n = k->n;
    return k->list;
}

uint64_t
mrd_kernels_rest(const mrd_kernels *k)
{
    return k->rest_ns;
}

bool
mrd_kernels_are_unclear(const mrd_kernels *k, uint64_t *ret_unclear_ns, uint64_t *ret_all_ns)
{
    *ret_unclear_ns = 0;
    *ret_all_ns = k->rest_ns;
    for (size_t i = 0; i < k->n; i++) {
        *ret_all_ns += k->list[i].ns;
        *ret_unclear_ns += k->list[i].unclear ? k->list[i].ns : 0;
    }
    return *ret_unclear_ns > *ret_all_ns / MRD_KERNELS_UNCLEAR;
}
