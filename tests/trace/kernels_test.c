/* Tests the sums of device kernels by name (trace/analysis/kernels.h). Random spans of many names
 * and workers are also added to a simple table, and the results are compared. */
#include "trace/analysis/kernels.h"

#include <stdlib.h>

#include "tests/check.h"
#include "tests/seed.h"

typedef struct {
    uint64_t calls, ns;
} cell;

typedef struct {
    mrd_catalog *cat;
    size_t workers, names, most;
    mrd_sid *name;
    cell *cells; /* name, worker */
    bool *seen, *collective;
    uint32_t *place;
    size_t rows;
    uint64_t rest;
} table;

static uint64_t state;

static size_t
below(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t) (state >> 33) % n;
}

static table
table_new(size_t workers, size_t names)
{
    table t = { .cat = mrd_catalog_new(), .workers = workers, .names = names };

    t.most = workers == 0 ? 0 : MRD_KERNELS_CELLS / workers;
    t.most = t.most > MRD_KERNELS_NAMES ? MRD_KERNELS_NAMES : t.most;
    t.name = calloc(names, sizeof(*t.name));
    t.cells = calloc(names * (workers + 1), sizeof(*t.cells));
    t.seen = calloc(names, sizeof(*t.seen));
    t.collective = calloc(names, sizeof(*t.collective));
    t.place = calloc(workers + 1, sizeof(*t.place));
    for (size_t i = 0; i < names; i++) {
        char text[32];

        snprintf(text, sizeof(text), "kernel %zu", (i * 7919) % names);
        t.name[i] = mrd_catalog_intern(t.cat, text);
    }
    for (size_t i = 0; i < workers; i++) { /* a permutation */
        size_t k = below(i + 1);

        t.place[i] = t.place[k];
        t.place[k] = (uint32_t) i;
    }
    return t;
}

static void
table_free(table *t)
{
    mrd_catalog_free(t->cat);
    free(t->name);
    free(t->cells);
    free(t->seen);
    free(t->collective);
    free(t->place);
}

static void
span(table *t, mrd_kernels *k, size_t name, uint32_t worker, uint64_t ns)
{
    static const mrd_work_on on[] = { MRD_ON_COMPUTE, MRD_ON_COLLECTIVE, MRD_ON_BARRIER,
                                      MRD_ON_COPY };
    mrd_work work = { .worker = worker, .on = on[name % 4] };

    mrd_kernels_add(k, &work, t->name[name], ns);
    if (!t->seen[name] && t->rows < t->most) {
        t->seen[name] = true;
        t->collective[name] = name % 4 == 1 || name % 4 == 2;
        t->rows++;
    }
    if (!t->seen[name]) {
        t->rest += ns;
        return;
    }
    t->cells[name * t->workers + worker].calls++;
    t->cells[name * t->workers + worker].ns += ns;
}

static size_t
name_at(const table *t, mrd_sid name)
{
    for (size_t i = 0; i < t->names; i++)
        if (t->name[i] == name)
            return i;
    CHECK(false);
    return 0;
}

/* Checks one row of the result. The median is over the workers that ran the kernel, and the lower
 * one for an even number of workers. */
static void
check_row(const table *t, const mrd_kernel *row)
{
    const cell *cells = &t->cells[name_at(t, row->name) * t->workers];
    uint64_t calls = 0, ns = 0, most = 0, less = 0, same = 0, ran = 0;

    CHECK(row->collective == t->collective[name_at(t, row->name)]);
    for (size_t w = 0; w < t->workers; w++) {
        calls += cells[w].calls;
        ns += cells[w].ns;
        ran += cells[w].calls > 0;
        most = cells[w].ns > most ? cells[w].ns : most;
        less += cells[w].calls > 0 && cells[w].ns < row->median_ns;
        same += cells[w].calls > 0 && cells[w].ns == row->median_ns;
    }
    CHECK_INT(row->calls, calls);
    CHECK_INT(row->ns, ns);
    CHECK_INT(row->workers, ran);
    CHECK_INT(row->most_ns, most);
    CHECK(less <= (ran - 1) / 2 && less + same > (ran - 1) / 2);
    for (size_t w = 0; w < t->workers; w++) {
        if (cells[w].calls > 0 && cells[w].ns == most)
            CHECK(row->most_worker <= t->place[w]);
        if (t->place[w] == row->most_worker) {
            CHECK(cells[w].calls > 0 && cells[w].ns == most);
            CHECK_INT(row->most_calls, cells[w].calls);
        }
    }
}

static void
try(size_t workers, size_t names, size_t spans)
{
    table t = table_new(workers, names);
    mrd_kernels *k = mrd_kernels_new(t.cat, workers);
    const mrd_kernel *list;
    size_t n;

    REQUIRE(k != NULL);
    for (size_t i = 0; i < spans; i++) { /* many are short, so that some durations are equal */
        size_t name = i < names && spans > names ? i : below(names);

        span(&t, k, name, (uint32_t) below(workers), below(3) == 0 ? below(1000000) : below(3));
    }
    if (workers > 0) { /* a kernel with a name that was added to the catalog later */
        mrd_work work = { .worker = 0, .on = MRD_ON_COMPUTE };

        mrd_kernels_add(k, &work, mrd_catalog_intern(t.cat, "a later one"), 77);
        t.rest += 77;
    }
    CHECK_INT(mrd_kernels_finish(k, t.place), MRD_OK);
    list = mrd_kernels_list(k, &n);
    CHECK_INT(n, t.rows);
    CHECK_INT(mrd_kernels_rest(k), t.rest);
    for (size_t i = 0; i < n; i++) {
        check_row(&t, &list[i]);
        if (i > 0 && list[i].ns == list[i - 1].ns)
            CHECK(strcmp(mrd_catalog_text(t.cat, list[i - 1].name).p,
                         mrd_catalog_text(t.cat, list[i].name).p) < 0);
        else if (i > 0)
            CHECK(list[i].ns < list[i - 1].ns);
    }
    mrd_kernels_free(k);
    table_free(&t);
}

TEST(rows_are_those_of_a_plain_table)
{
    state = test_seed();
    try(1, 3, 0);
    try(1, 1, 5);
    try(2, 20, 300);
    for (int i = 0; i < 40; i++)
        try(1 + below(20), 1 + below(40), 1 + below(600));
}

TEST(names_beyond_the_limits_are_of_the_rest)
{
    state = test_seed();
    try(1, MRD_KERNELS_NAMES + 5, 2 * MRD_KERNELS_NAMES); /* of names */
    try(30000, 40, 200);                                  /* of pairs */
    try(MRD_KERNELS_CELLS + 1, 2, 5);
}

TEST_MAIN()
