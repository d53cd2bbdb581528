/*
 * bench_tables [EVENTS [DIR [parquet|sqlite|csv]]] - measures the cost of writing a large profile
 * as tables. Generated spans of 64 workers on 8 nodes are written through the output format into
 * DIR, or nowhere if DIR is - (the default). One span in 20 is part of a collective. Worker 5 is
 * late to three collectives in ten.
 *
 * Prints rows, bytes, CPU time, peak memory, and the CPU time as a multiple of writing the same
 * events as CSV.
 *
 * Then measures the Parquet writer alone, in both dialects: columns, encoding, compression and
 * hashes of the rows of all tables. A run without a writer measures the cost of making these rows
 * (with the classification and the report), which is subtracted. The first row groups are not
 * counted, because their compression takes longer. The reference is a memcpy of the size of the
 * columns. Prints the minimum of interleaved rounds. docs/reference/data.md has results.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/num.h"
#include "base/obj.h"
#include "trace/sink/sinks.h"
#include "trace/table/rows.h"

#define WORKERS   64
#define NODES     8
#define ROUND     20 /* each worker takes part in a collective once in this number of spans */
#define BASE      INT64_C(1760000000000000000)
#define SPAN_NS   20000
#define CC_BYTES  33554432
#define REFERENCE 500000

/* Events before STAGES_FROM are not counted. They fill the first two row groups of the table with
 * one row per event, and their compression takes longer. */
#define GROUP_ROWS  131072
#define STAGES_FROM (2 * GROUP_ROWS)

static const char *const names[] = { "nc_exec_running", "nrt_execute",     "kbl_exec_pre",
                                     "kbl_exec_wait",   "dmem_buf_copyin", "nrt_tensor_write" };

typedef struct {
    mrd_catalog *cat;
    mrd_track_id host[WORKERS], device[WORKERS];
    mrd_sid names[MRD_COUNT(names)], cc, gid, op_id, size, exec_id;
    uint64_t state;
    double cpu_from, cpu_end; /* CPU time of run() after STAGES_FROM events, and after all events */
} bench;

static uint64_t
draw(bench *b)
{
    uint64_t z = (b->state += 0x9e3779b97f4a7c15u);

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return (z ^ z >> 27) * 0x94d049bb133111ebu >> 20;
}

static void
make_clock(bench *b, int node)
{
    char text[32];
    mrd_clock_info clock = { .bound_ns = 2000, .epochs = 1 };

    snprintf(text, sizeof(text), "i-%016d", node);
    clock.node = mrd_catalog_intern(b->cat, text);
    clock.name = mrd_catalog_intern(b->cat, text);
    clock.quality = mrd_catalog_intern(b->cat, "aligned");
    clock.method = mrd_catalog_intern(b->cat, "udp-kernel");
    mrd_catalog_add_clock(b->cat, &clock);
}

static void
make_catalog(bench *b)
{
    b->cat = mrd_catalog_new();
    for (size_t i = 0; i < MRD_COUNT(names); i++)
        b->names[i] = mrd_catalog_intern(b->cat, names[i]);
    b->cc = mrd_catalog_intern(b->cat, "cc_running");
    b->gid = mrd_catalog_intern(b->cat, "gid");
    b->op_id = mrd_catalog_intern(b->cat, "op_id");
    b->size = mrd_catalog_intern(b->cat, "size");
    b->exec_id = mrd_catalog_intern(b->cat, "exec_id");
    mrd_catalog_set(b->cat, "session.id", "bench");
    for (int i = 0; i < NODES; i++)
        make_clock(b, i);
    for (int i = 0; i < WORKERS; i++) {
        char text[32];
        mrd_process p;
        mrd_track t;

        mrd_process_init(&p);
        snprintf(text, sizeof(text), "i-%016d", i / (WORKERS / NODES));
        p.instance_id = mrd_catalog_intern(b->cat, text);
        p.process_id = 4000 + i;
        p.rank = i;
        p.world_size = WORKERS;
        p.clock = 1 + (uint32_t) (i / (WORKERS / NODES));
        mrd_track_init(&t, mrd_catalog_process(b->cat, &p), MRD_SRC_RUNTIME);
        t.lnc_idx = 0;
        t.thread_id = 5000 + i;
        b->host[i] = mrd_catalog_track(b->cat, &t);
        mrd_track_init(&t, t.process, MRD_SRC_DEVICE);
        t.lnc_idx = 0;
        t.pcore_idx = 0;
        b->device[i] = mrd_catalog_track(b->cat, &t);
    }
}

/* Makes span number i, in order of time. The workers take turns, and each span of a worker is
 * SPAN_NS later than its previous one. The last span of each round is a collective of all
 * workers. */
static void
make_event(bench *b, uint64_t i, mrd_event *ev, mrd_arg args[4])
{
    uint64_t turn = i / WORKERS, worker = i % WORKERS, kind;
    int64_t at = BASE + (int64_t) turn * SPAN_NS + (int64_t) worker * 250;

    *ev = (mrd_event){ .kind = MRD_SPAN, .seq = i, .bound_ns = 1800 };
    if (turn % ROUND == ROUND - 1) {
        /* The late worker takes the last turn of this collective. If it is worker 5, it is later
         * than all others by more than any bound. */
        uint64_t late = turn / ROUND % 10 < 3 ? 5 : WORKERS - 1, who = worker == WORKERS - 1 ? late
                                                                       : worker == late
                                                                           ? WORKERS - 1
                                                                           : worker;

        ev->name = b->cc;
        ev->track = b->device[who];
        ev->ts = (mrd_ev_ns){ at + (worker == WORKERS - 1 && late == 5 ? 150000 : 0) };
        ev->dur_ns = 400000 - (ev->ts.ns - at);
        args[0] = (mrd_arg){ .key = b->gid, .type = MRD_ARG_INT, .v.i = 1 };
        args[1] =
            (mrd_arg){ .key = b->op_id, .type = MRD_ARG_INT, .v.i = (int64_t) (turn / ROUND) };
        args[2] = (mrd_arg){ .key = b->size, .type = MRD_ARG_INT, .v.i = CC_BYTES };
        ev->args = args;
        ev->arg_count = 3;
        return;
    }
    kind = draw(b) % MRD_COUNT(names);
    ev->name = b->names[kind];
    ev->track = kind == 0 ? b->device[worker] : b->host[worker];
    ev->ts = (mrd_ev_ns){ at + (int64_t) (draw(b) % 250) };
    ev->dur_ns = 2000 + (int64_t) (draw(b) % 15000);
    if (kind < 4) {
        args[0] =
            (mrd_arg){ .key = b->exec_id, .type = MRD_ARG_INT, .v.i = (int64_t) (turn / ROUND) };
        ev->args = args;
        ev->arg_count = 1;
    }
}

static double
cpu_now(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double) usage.ru_utime.tv_sec + (double) usage.ru_utime.tv_usec / 1e6 +
           (double) usage.ru_stime.tv_sec + (double) usage.ru_stime.tv_usec / 1e6;
}

static bool
count(void *self, const void *data, size_t len)
{
    (void) data;
    *(uint64_t *) self += len;
    return true;
}

static mrd_err
run(bench *b, const mrd_sink_ops *ops, uint64_t n, const char *dir, uint64_t *bytes, mrd_why *why)
{
    mrd_sink_options options = { .wall_time = true };
    mrd_sink_env env = { .catalog = b->cat,
                         .first = { BASE },
                         .last = { BASE + (int64_t) (n / WORKERS) * SPAN_NS },
                         .options = &options,
                         .dir = dir };
    void *state = calloc(1, ops->state_size + 1);
    char *path = NULL;
    mrd_err err;

    if (state == NULL ||
        (dir != NULL &&
         asprintf(&path, "%s/%s", dir, ops->folder ? MRD_FOLDER_MANIFEST : "profile.sqlite") < 0))
        return MRD_NOMEM;
    err = dir != NULL ? mrd_out_file(path, &env.out, why)
                      : mrd_out_func(count, bytes, "nowhere", &env.out, why);
    free(path);
    if (err == MRD_OK)
        err = ops->open(state, &env, why);
    if (err != MRD_OK)
        return err;
    for (uint64_t i = 0; i < n && err == MRD_OK; i++) {
        mrd_arg args[4];
        mrd_event ev;

        if (i == STAGES_FROM)
            b->cpu_from = cpu_now();
        make_event(b, i, &ev, args);
        err = ops->event(state, &ev);
    }
    b->cpu_end = cpu_now();
    if (err == MRD_OK)
        err = ops->close(state, why);
    if (err == MRD_OK)
        err = mrd_out_commit(env.out, why);
    free(state);
    return err;
}

/* Returns the CPU time per event of writing CSV without storing it; 0 on failure. */
static double
reference(void)
{
    bench b = { .state = 1 };
    mrd_why why = { 0 };
    uint64_t bytes = 0;
    double from = cpu_now();
    bool good;

    make_catalog(&b);
    good = run(&b, mrd_sink_find(MRD_STR("csv")), REFERENCE, NULL, &bytes, &why) == MRD_OK;
    mrd_catalog_free(b.cat);
    return good ? (cpu_now() - from) / REFERENCE : 0;
}

/* ---- The writer itself ---- */

enum { STAGES_ROUNDS = 5, STAGES_EVENTS = 24 * GROUP_ROWS };

typedef struct {
    const mrd_dialect *dialect;
    uint64_t rows, values;
} counted;

static mrd_err
count_row(void *self, size_t table, const mrd_slot slots[F_COUNT])
{
    counted *c = self;

    (void) slots;
    c->rows++;
    c->values += c->dialect->tables[table].n;
    return MRD_OK;
}

/* Returns the CPU time of making the rows of all events after STAGES_FROM, without a writer.
 * Returns a negative value on failure. */
static double
form_rows(counted *c)
{
    bench b = { .state = 1 };
    mrd_sink_options options = { .wall_time = true };
    mrd_sink_env env = { .first = { BASE },
                         .last = { BASE + STAGES_EVENTS / WORKERS * SPAN_NS },
                         .options = &options };
    mrd_rows *rows = NULL;
    mrd_err err;
    double from = 0;

    make_catalog(&b);
    env.catalog = b.cat;
    err = mrd_rows_new(&env, c->dialect, count_row, c, &rows, NULL);
    for (uint64_t i = 0; i < STAGES_EVENTS && err == MRD_OK; i++) {
        mrd_arg args[4];
        mrd_event ev;

        if (i == STAGES_FROM) {
            from = cpu_now();
            c->rows = c->values = 0;
        }
        make_event(&b, i, &ev, args);
        err = mrd_rows_event(rows, &ev);
    }
    from = cpu_now() - from;
    mrd_rows_free(rows);
    mrd_catalog_free(b.cat);
    return err == MRD_OK ? from : -1;
}

/* Like form_rows(), but with the writer of a format. The time for closing its file is not
 * counted. */
static double
write_rows(const char *format)
{
    bench b = { .state = 1 };
    mrd_why why = { 0 };
    uint64_t bytes = 0;
    double cpu;

    make_catalog(&b);
    cpu = run(&b, mrd_sink_find(mrd_str_of(format)), STAGES_EVENTS, NULL, &bytes, &why) == MRD_OK
              ? b.cpu_end - b.cpu_from
              : -1;
    mrd_catalog_free(b.cat);
    return cpu;
}

/* Returns the CPU time of copying this number of bytes with memcpy, in blocks of a column of a row
 * group. */
static double
copy(uint64_t bytes)
{
    enum { COLUMN = 131072 * 8 };
    char *from = calloc(2, COLUMN), *to = from == NULL ? NULL : from + COLUMN;
    double cpu;

    if (from == NULL)
        return -1;
    memset(from, 1, 2 * (size_t) COLUMN);
    cpu = cpu_now();
    for (uint64_t n = 0; n < bytes; n += COLUMN) {
        memcpy(to, from, COLUMN);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    cpu = cpu_now() - cpu;
    free(from);
    return cpu;
}

static double
least(double a, double b)
{
    return a < b ? a : b;
}

static void
stages(const char *format, const mrd_dialect *dialect)
{
    double rows = 1e9, all = 1e9, copied = 1e9, writer;
    counted c;

    for (int i = 0; i < STAGES_ROUNDS; i++) {
        c = (counted){ .dialect = dialect };
        rows = least(rows, form_rows(&c));
        all = least(all, write_rows(format));
        copied = least(copied, copy(8 * c.values));
    }
    writer = all - rows;
    if (rows <= 0 || all <= 0 || copied <= 0 || writer <= 0) {
        printf("%s: the writer was not measured\n", format);
        return;
    }
    printf("%s: %" PRIu64
           " rows behind the first row groups: the writer %.2f M rows/s (%.1f x memcpy of "
           "the columns); rows, classification and report %.2f M/s; all %.2f M/s\n",
           format, c.rows, (double) c.rows / writer / 1e6, writer / copied,
           (double) c.rows / rows / 1e6, (double) c.rows / all / 1e6);
}

int
main(int argc, char **argv)
{
    const mrd_sink_ops *ops = mrd_sink_find(mrd_str_of(argc > 3 ? argv[3] : "parquet"));
    const char *dir = argc > 2 ? argv[2] : "-";
    uint64_t n = 2000000, bytes = 0;
    struct timespec from, to;
    struct rusage usage;
    bench b = { .state = 1 };
    mrd_why why = { 0 };
    double cpu, wall, csv;

    if (ops == NULL || (argc > 1 && mrd_num_u64(mrd_str_of(argv[1]), &n) != MRD_OK) || n == 0) {
        fprintf(stderr, "usage: bench_tables [EVENTS [DIR|- [parquet|sqlite|csv]]]\n");
        return 2;
    }
    make_catalog(&b);
    cpu = cpu_now();
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (run(&b, ops, n, strcmp(dir, "-") == 0 ? NULL : dir, &bytes, &why) != MRD_OK) {
        fprintf(stderr, "bench_tables: %s\n", why.text);
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    getrusage(RUSAGE_SELF, &usage);
    cpu = cpu_now() - cpu;
    wall = (double) (to.tv_sec - from.tv_sec) + (double) (to.tv_nsec - from.tv_nsec) / 1e9;
    printf("%s: %" PRIu64 " events, %.1f s of CPU (%.2f M/s), %.1f s, peak memory %ld MiB, %" PRIu64
           " bytes through the stream\n",
           ops->name, n, cpu, (double) n / cpu / 1e6, wall, usage.ru_maxrss / 1024, bytes);
    if ((csv = reference()) > 0)
        printf("%s: %.2f times the CPU of CSV\n", ops->name, cpu / (double) n / csv);
    mrd_catalog_free(b.cat);
    stages("parquet", &mrd_dialect_meridian);
    stages("parquet-explorer", &mrd_dialect_explorer);
    return 0;
}
