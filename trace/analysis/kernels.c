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
    /* indexed by the id of a kernel's name: index of the name's row in `cells` plus 1, or NO_ROW */
    uint16_t *row_of;
    size_t n_names, n_workers, most;
    mrd_sid *names;
    bool *collective, *unclear;
    cell **cells; /* calls and time of a kernel at each worker, indexed by row, then worker */
    size_t n;
    uint64_t rest_ns;
    mrd_err err;
    mrd_kernel *list; /* kernels sorted for output; created by mrd_kernels_finish */
};

mrd_kernels *
mrd_kernels_new(const mrd_catalog *cat, size_t workers)
{
    mrd_kernels *kernels = calloc(1, sizeof(*kernels));

    if (kernels == NULL)
        return NULL;
    kernels->cat = cat;
    kernels->n_workers = workers;
    kernels->most = workers == 0 ? 0 : MRD_KERNELS_CELLS / workers;
    kernels->most = kernels->most > MRD_KERNELS_NAMES ? MRD_KERNELS_NAMES : kernels->most;
    kernels->n_names = mrd_strtab_count(mrd_catalog_strings(cat));
    kernels->row_of = calloc(kernels->n_names + 1, sizeof(*kernels->row_of));
    kernels->names = calloc(kernels->most + 1, sizeof(*kernels->names));
    kernels->collective = calloc(kernels->most + 1, sizeof(*kernels->collective));
    kernels->unclear = calloc(kernels->most + 1, sizeof(*kernels->unclear));
    kernels->cells = calloc(kernels->most + 1, sizeof(*kernels->cells));
    if (kernels->row_of == NULL || kernels->names == NULL || kernels->cells == NULL ||
        kernels->collective == NULL || kernels->unclear == NULL) {
        mrd_kernels_free(kernels);
        return NULL;
    }
    return kernels;
}

void
mrd_kernels_free(mrd_kernels *kernels)
{
    if (kernels == NULL)
        return;
    for (size_t i = 0; kernels->cells != NULL && i < kernels->n; i++)
        free(kernels->cells[i]);
    free(kernels->row_of);
    free(kernels->names);
    free(kernels->collective);
    free(kernels->unclear);
    free(kernels->cells);
    free(kernels->list);
    free(kernels);
}

/* Adds a row for a kernel name that occurs for the first time. Returns NULL if the table is full or
 * out of memory. The caller then adds the kernel's time only to `rest_ns`. */
static __attribute__((noinline)) cell *
row_first(mrd_kernels *kernels, const mrd_work *work, mrd_sid name)
{
    if (name >= kernels->n_names || kernels->n == kernels->most)
        return NULL;
    if ((kernels->cells[kernels->n] = calloc(kernels->n_workers, sizeof(cell))) == NULL) {
        kernels->err = MRD_NOMEM;
        return NULL;
    }
    kernels->names[kernels->n] = name;
    kernels->collective[kernels->n] = work->on == MRD_ON_COLLECTIVE || work->on == MRD_ON_BARRIER;
    kernels->unclear[kernels->n] =
        work->class == MRD_CLASS_FUSED ||
        (work->class == MRD_CLASS_UNKNOWN &&
         mrd_kernel_name_suspicious(mrd_catalog_text(kernels->cat, name)));
    kernels->row_of[name] = (uint16_t) ++kernels->n;
    return kernels->cells[kernels->n - 1];
}

void
mrd_kernels_add(mrd_kernels *kernels, const mrd_work *work, mrd_sid name, uint64_t ns)
{
    cell *row = name < kernels->n_names && kernels->row_of[name] != NO_ROW
                    ? kernels->cells[kernels->row_of[name] - 1]
                    : row_first(kernels, work, name);

    if (row == NULL) {
        kernels->rest_ns += ns;
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
mrd_kernels_finish(mrd_kernels *kernels, const uint32_t *place)
{
    uint64_t *times = calloc(kernels->n_workers + 1, sizeof(*times));

    if (kernels->err != MRD_OK) {
        free(times);
        return kernels->err;
    }
    kernels->list = calloc(kernels->n + 1, sizeof(*kernels->list));
    if (times == NULL || kernels->list == NULL) {
        free(times);
        return MRD_NOMEM;
    }
    for (size_t i = 0; i < kernels->n; i++) {
        mrd_kernel *kernel = &kernels->list[i];

        kernel->name = kernels->names[i];
        kernel->collective = kernels->collective[i];
        kernel->unclear = kernels->unclear[i];
        for (size_t w = 0; w < kernels->n_workers; w++) {
            const cell *c = &kernels->cells[i][w];

            if (c->calls == 0)
                continue;
            times[kernel->workers++] = c->ns;
            kernel->calls += c->calls;
            kernel->ns += c->ns;
            if (kernel->workers > 1 &&
                (c->ns < kernel->most_ns ||
                 (c->ns == kernel->most_ns && place[w] > kernel->most_worker)))
                continue;
            kernel->most_worker = place[w];
            kernel->most_ns = c->ns;
            kernel->most_calls = c->calls;
        }
        qsort(times, kernel->workers, sizeof(*times), mrd_u64_order);
        kernel->median_ns = kernel->workers == 0 ? 0 : times[(kernel->workers - 1) / 2];
    }
    free(times);
    if (kernels->n > 0)
        qsort_r(kernels->list, kernels->n, sizeof(*kernels->list), kernel_order,
                (void *) (uintptr_t) kernels->cat);
    return MRD_OK;
}

const mrd_kernel *
mrd_kernels_list(const mrd_kernels *kernels, size_t *ret_n)
{
    *ret_n = kernels->n;
    return kernels->list;
}

uint64_t
mrd_kernels_rest(const mrd_kernels *kernels)
{
    return kernels->rest_ns;
}

bool
mrd_kernels_are_unclear(const mrd_kernels *kernels, uint64_t *ret_unclear_ns, uint64_t *ret_all_ns)
{
    *ret_unclear_ns = 0;
    *ret_all_ns = kernels->rest_ns;
    for (size_t i = 0; i < kernels->n; i++) {
        *ret_all_ns += kernels->list[i].ns;
        *ret_unclear_ns += kernels->list[i].unclear ? kernels->list[i].ns : 0;
    }
    return *ret_unclear_ns > *ret_all_ns / MRD_KERNELS_UNCLEAR;
}
