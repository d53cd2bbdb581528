/*
 * bench_sinks [EVENTS] - measures the cost of writing the same generated spans in every output
 * format. The JSON members are also written with sprintf as a reference, and both must have the
 * same number of bytes.
 *
 * The output goes to a mrd_out that only counts bytes. Prints the CPU time of the best of three
 * rounds.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/num.h"
#include "base/obj.h"
#include "trace/sink/group.h"
#include "trace/sink/sinks.h"

#define ROUNDS 3
#define TRACKS 64
#define BASE   INT64_C(1729888371056597613)

typedef struct {
    mrd_catalog *cat;
    mrd_track_id tracks[TRACKS];
    mrd_sid names[8], size, tensor_id, model_id;
} bench;

static double
cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static bool
count(void *self, const void *data, size_t len)
{
    (void) data;
    *(uint64_t *) self += len;
    return true;
}

static void
make_catalog(bench *b)
{
    static const char *const names[] = { "cc_running",      "nrt_tensor_free",     "kbl_exec_pre",
                                         "dmem_buf_copyin", "nrt_dma_mem_dealloc", "nrt_execute",
                                         "kbl_exec_wait",   "nc_exec_running" };

    b->cat = mrd_catalog_new();
    for (size_t i = 0; i < MRD_COUNT(names); i++)
        b->names[i] = mrd_catalog_intern(b->cat, names[i]);
    b->size = mrd_catalog_intern(b->cat, "size");
    b->tensor_id = mrd_catalog_intern(b->cat, "tensor_id");
    b->model_id = mrd_catalog_intern(b->cat, "model_id");
    for (int64_t i = 0; i < TRACKS; i++) {
        char instance[32];
        mrd_process p;
        mrd_track t;

        snprintf(instance, sizeof(instance), "i-0f207fb2a99bd%04d", (int) i / 8);
        mrd_process_init(&p);
        p.instance_id = mrd_catalog_intern(b->cat, instance);
        p.process_id = 1627711 + i / 4;
        mrd_track_init(&t, mrd_catalog_process(b->cat, &p), MRD_SRC_RUNTIME);
        t.lnc_idx = i % 4;
        t.thread_id = 1627711 + i;
        b->tracks[i] = mrd_catalog_track(b->cat, &t);
    }
}

/* Makes span number i in *ev, with the three arguments of a tensor write in `args`. */
static void
make_event(const bench *b, uint64_t i, mrd_event *ev, mrd_arg args[3])
{
    args[0] = (mrd_arg){ .key = b->size, .type = MRD_ARG_INT, .v.i = (int64_t) (i % 4096) };
    args[1] = (mrd_arg){ .key = b->tensor_id,
                         .type = MRD_ARG_INT,
                         .v.i = 4900392441224765051 + (int64_t) i };
    args[2] = (mrd_arg){ .key = b->model_id, .type = MRD_ARG_INT, .v.i = 10001 };
    *ev = (mrd_event){ .kind = MRD_SPAN,
                       .ts = { BASE + (int64_t) i * 950 },
                       .dur_ns = 500 + (int64_t) (i * 2654435761u % 20000),
                       .seq = i,
                       .id = i + 1,
                       .track = b->tracks[i % TRACKS],
                       .name = b->names[i % MRD_COUNT(b->names)],
                       .args = args,
                       .arg_count = 3 };
}

static double
run_sink(const bench *b, const mrd_sink_ops *ops, uint64_t n, uint64_t *ret_bytes)
{
    mrd_sink_options options = { .wall_time = true };
    mrd_sink_env env = { .catalog = b->cat,
                         .first = { BASE },
                         .last = { BASE + (int64_t) n * 950 },
                         .options = &options };
    void *state = calloc(1, ops->state_size + 1);
    double start;

    mrd_group_parse(MRD_STR("instance_id,process_id"), &options.primary, NULL);
    mrd_group_parse(MRD_STR("lnc_idx,thread_id"), &options.secondary, NULL);
    *ret_bytes = 0;
    if (state == NULL || mrd_out_func(count, ret_bytes, "nowhere", &env.out, NULL) != MRD_OK ||
        ops->open(state, &env, NULL) != MRD_OK)
        abort();
    start = cpu_s();
    for (uint64_t i = 0; i < n; i++) {
        mrd_arg args[3];
        mrd_event ev;

        make_event(b, i, &ev, args);
        if (ops->event(state, &ev) != MRD_OK)
            abort();
    }
    if (ops->close(state, NULL) != MRD_OK || mrd_out_commit(env.out, NULL) != MRD_OK)
        abort();
    free(state);
    return cpu_s() - start;
}

/* Writes the same spans with sprintf, with the JSON members of the layout "guide". Returns the CPU
 * time in seconds. */
static double
run_sprintf(const bench *b, uint64_t n, uint64_t *ret_bytes)
{
    static char buf[1 << 20];
    size_t at = 0;
    double start = cpu_s();

    *ret_bytes = 0;
    for (uint64_t i = 0; i < n; i++) {
        const mrd_track *t;
        const mrd_process *p;
        mrd_arg args[3];
        mrd_event ev;

        make_event(b, i, &ev, args);
        t = mrd_catalog_borrow_track(b->cat, ev.track);
        p = mrd_catalog_borrow_process(b->cat, t->process);
        at += (size_t) sprintf(
            buf + at,
            "%s\n{\"duration\":%" PRId64 ",\"group\":\"nrt-nc-%03" PRId64
            "\",\"instance_id\":\"%s\",\"lnc_idx\":\"%" PRId64 "\",\"process_id\":\"%" PRId64
            "\",\"thread_id\":%" PRId64 ",\"trace_event_source\":\"%s\",\"id\":%" PRIu64
            ",\"name\":\"%s\",\"size\":\"%" PRId64 "\",\"tensor_id\":\"%" PRId64
            "\",\"timestamp\":%" PRId64
            ",\"parent_id\":0,\"type\":%d,\"args\":{\"model_id\":%" PRId64 "}}",
            i == 0 ? "" : ",", ev.dur_ns, t->lnc_idx, mrd_catalog_text(b->cat, p->instance_id).p,
            t->lnc_idx, p->process_id, t->thread_id, mrd_source_text(t->source), ev.id,
            mrd_catalog_text(b->cat, ev.name).p, args[0].v.i, args[1].v.i, ev.ts.ns, 0,
            args[2].v.i);
        if (at > sizeof(buf) - 4096) {
            count(ret_bytes, buf, at);
            at = 0;
        }
    }
    count(ret_bytes, buf, at);
    return cpu_s() - start;
}

int
main(int argc, char **argv)
{
    uint64_t n = 1000000, bytes = 0, plain_bytes = 0;
    double plain = 1e9, json = 1e9;
    struct rusage usage;
    size_t n_sinks;
    const mrd_sink_ops *const *sinks = mrd_sinks(&n_sinks);
    bench b = { 0 };

    if (argc > 1 && (mrd_num_u64(mrd_str_of(argv[1]), &n) != MRD_OK || n == 0)) {
        fprintf(stderr, "usage: bench_sinks [EVENTS]\n");
        return 2;
    }
    make_catalog(&b);
    printf("writing %" PRIu64 " spans with three arguments on %d tracks\n", n, TRACKS);
    for (size_t i = 0; i < n_sinks; i++) {
        double best = 1e9;

        for (int round = 0; round < ROUNDS; round++) {
            double took = run_sink(&b, sinks[i], n, &bytes);

            best = took < best ? took : best;
        }
        if (strcmp(sinks[i]->name, "json") == 0)
            json = best;
        printf("  %-14s %7.2f M spans/s  %7.0f MB/s  %6.1f bytes/span\n", sinks[i]->name,
               (double) n / best / 1e6, (double) bytes / best / 1e6, (double) bytes / (double) n);
    }
    for (int round = 0; round < ROUNDS; round++) {
        double took = run_sprintf(&b, n, &plain_bytes);

        plain = took < plain ? took : plain;
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("  %-14s %7.2f M spans/s  %7.0f MB/s  %6.1f bytes/span\n", "(sprintf)",
           (double) n / plain / 1e6, (double) plain_bytes / plain / 1e6,
           (double) plain_bytes / (double) n);
    printf("  json is %.1f x sprintf; peak memory %ld MiB\n", plain / json, usage.ru_maxrss / 1024);
    mrd_catalog_free(b.cat);
    return 0;
}
