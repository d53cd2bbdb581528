/*
 * bench/bench_merge.c - measures the cost of storing events, merging streams, and writing every
 * output format.
 *
 *   bench_merge [-n MILLIONS] [-s STREAMS[,STREAMS...]] [-m STORE_MIB] [-w ROW]
 *
 * The events are generated spans that nest up to three deep and have 256 names (simulated data).
 * Each row runs in its own process. Times are CPU times of that process, and memory is its excess
 * over an empty process. Times are printed per event, and as a ratio to a memcpy of the same
 * decoded events in the same process. The row "sprintf" writes one JSON line per event with
 * sprintf. It is the reference for the JSON writers, and is compared by time per byte without the
 * merge.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/obj.h"
#include "trace/sink/export.h"
#include "trace/sink/group.h"
#include "trace/sink/sinks.h"
#include "trace/store/merge.h"
#include "trace/store/stream.h"

enum { POOL = 1 << 18, NAMES = 256, AHEAD = 32 };

#define EPOCH INT64_C(1712195495406752801)

typedef struct {
    mrd_catalog *catalog;
    mrd_event *pool; /* decoded events, `per_stream` consecutive ones for each stream */
    size_t streams, per_stream;
    uint64_t events; /* number to produce, over all streams */
    mrd_sid names[NAMES];
} workload;

/* A stream that returns its part of the pool again and again. Later rounds move the times of the
 * events in place. */
typedef struct {
    mrd_source base;
    mrd_event *v;
    size_t n, i;
    uint64_t left, seq;
    int64_t later_ns; /* ns; added to the times of the events in each round after the first */
    int64_t round_ns;
    mrd_run run;
} replay;

static uint64_t
bench_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Fills the events of one stream in order of their start. Repeats a group of four spans and a
 * pause: a parent, its first child with a grandchild, and a second child. This gives about 100,000
 * spans per second of trace time. */
static int64_t
fill_stream(workload *w, size_t stream, mrd_track_id track, uint64_t *random)
{
    static const int16_t shape[4][2] = {
        { 0, 24000 }, { 3000, 9000 }, { 4500, 4500 }, { 15000, 7500 }
    };
    int64_t at = EPOCH + (int64_t) (bench_random(random) % 50000);
    mrd_event *v = w->pool + stream * w->per_stream;

    for (size_t i = 0; i < w->per_stream; i++) {
        if (i % 4 == 0)
            at += 26000 + (int64_t) (bench_random(random) % 30000);
        v[i] = (mrd_event){ .kind = MRD_SPAN,
                            .ts = { at + shape[i % 4][0] },
                            .dur_ns = shape[i % 4][1] - (int64_t) (bench_random(random) % 1500),
                            .track = track,
                            .name = w->names[bench_random(random) % NAMES] };
    }
    return at + 60000 - EPOCH;
}

/* Returns up to AHEAD events per call, like a decoder. */
static mrd_step
replay_run(mrd_source *self, mrd_event **ret_events, size_t *ret_n, mrd_why *why)
{
    replay *r = (replay *) (void *) self;
    size_t n = AHEAD;

    (void) why;
    if (r->left == 0)
        return MRD_END;
    if (r->i == r->n) {
        r->i = 0;
        r->later_ns = r->round_ns;
    }
    n = n > r->n - r->i ? r->n - r->i : n;
    n = n > r->left ? r->left : n;
    for (mrd_event *ev = r->v + r->i; ev < r->v + r->i + n; ev++) {
        ev->ts.ns += r->later_ns;
        ev->seq = r->seq++;
    }
    *ret_events = r->v + r->i;
    *ret_n = n;
    r->i += n;
    r->left -= n;
    return MRD_MORE;
}

static mrd_step
replay_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    return mrd_run_next(self, &((replay *) (void *) self)->run, ret_event, why);
}

static void
replay_close(mrd_source *self)
{
    free(self);
}

static void *
must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "bench_merge: out of memory\n");
        exit(1);
    }
    return p;
}

static int64_t
workload_init(workload *w, size_t streams, uint64_t events)
{
    uint64_t random = 88172645463325252u;
    int64_t round = 0;

    *w = (workload){ .catalog = must(mrd_catalog_new()), .streams = streams, .events = events };
    w->per_stream = POOL / streams / 4 * 4;
    w->pool = must(malloc(w->per_stream * streams * sizeof(*w->pool)));
    for (int i = 0; i < NAMES; i++) {
        char name[64];

        snprintf(name, sizeof(name), "nrt_operation_%d", i);
        w->names[i] = mrd_catalog_intern(w->catalog, name);
    }
    for (size_t s = 0; s < streams; s++) {
        mrd_process p;
        mrd_track t;
        char node[32];
        int64_t length;

        mrd_process_init(&p);
        snprintf(node, sizeof(node), "i-%04zu", s / 16);
        p.instance_id = mrd_catalog_intern(w->catalog, node);
        p.process_id = 1000 + (int64_t) s;
        p.flags = MRD_PROC_SIMULATED;
        mrd_track_init(&t, mrd_catalog_process(w->catalog, &p), MRD_SRC_RUNTIME);
        t.thread_id = p.process_id;
        length = fill_stream(w, s, mrd_catalog_track(w->catalog, &t), &random);
        round = length > round ? length : round;
    }
    return round;
}

static mrd_source *
workload_source(const workload *w, size_t stream, int64_t round)
{
    replay *r = must(calloc(1, sizeof(*r)));

    r->base = (mrd_source){
        .next = replay_next, .close = replay_close, .key = stream, .run = replay_run
    };
    r->v = w->pool + stream * w->per_stream;
    r->n = w->per_stream;
    r->left = w->events / w->streams;
    r->round_ns = round;
    return &r->base;
}

static mrd_source *
workload_merge(const workload *w, int64_t round)
{
    mrd_source **in = must(malloc(w->streams * sizeof(*in))), *out = NULL;

    for (size_t s = 0; s < w->streams; s++)
        in[s] = workload_source(w, s, round);
    if (mrd_merge_open(in, w->streams, NULL, NULL, &out, NULL) != MRD_OK)
        must(NULL);
    free(in);
    return out;
}

static double
cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static size_t
peak_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (size_t) usage.ru_maxrss;
}

/* Returns ns per event for copying the decoded events of the pool with memcpy. */
static double
memcpy_reference(const workload *w)
{
    size_t n = w->per_stream * w->streams;
    mrd_event *to = must(malloc(n * sizeof(*to)));
    double best = 1e9;

    for (int round = 0; round < 5; round++) {
        double start = cpu_seconds(), ns;

        memcpy(to, w->pool, n * sizeof(*to));
        __asm__ volatile("" : : "r"(to) : "memory");
        ns = (cpu_seconds() - start) * 1e9 / (double) n;
        best = ns < best ? ns : best;
    }
    free(to);
    return best;
}

typedef struct {
    uint64_t events, bytes;
    double seconds, copy_ns;
    size_t peak_kib;
} result;

static bool
count_bytes(void *self, const void *data, size_t len)
{
    (void) data;
    *(uint64_t *) self += len;
    return true;
}

static uint64_t
drain(mrd_source *in)
{
    const mrd_event *ev;
    uint64_t n = 0, sum = 0;

    while (in->next(in, &ev, NULL) == MRD_MORE) {
        n++;
        sum += ev->name;
    }
    __asm__ volatile("" : : "r"(sum));
    in->close(in);
    return n;
}

typedef enum { RUN_MERGE, RUN_STORE, RUN_STORE_SHUFFLED, RUN_SPRINTF, RUN_SINK } bench_kind;

typedef struct {
    size_t streams, store_mib;
    uint64_t events;
    const mrd_sink_ops *sink; /* NULL: see kind */
    bool compress, identity;
    bench_kind kind;
    const char *name;
} bench_run;

static result
run_merge(const workload *w, int64_t round)
{
    result r = { 0 };
    double start = cpu_seconds();

    r.events = drain(workload_merge(w, round));
    r.seconds = cpu_seconds() - start;
    return r;
}

/* Pushes all events to a store, finishes it, and reads the merged events. With `shuffled`, it moves
 * each event by a random time of up to 10 ms, so that events are out of order. */
static result
run_store(const workload *w, int64_t round, size_t mib, bool shuffled)
{
    mrd_store *store = must(mrd_store_new(mib << 20, NULL));
    mrd_source **in = must(malloc(w->streams * sizeof(*in))), *out;
    mrd_why why = { 0 };
    result r = { 0 };
    uint64_t random = 99;
    double start = cpu_seconds();

    for (size_t s = 0; s < w->streams; s++) {
        must(mrd_store_stream(store, 0, "bench"));
        in[s] = workload_source(w, s, round);
    }
    for (uint64_t i = 0; i < w->events / w->streams; i++) {
        for (size_t s = 0; s < w->streams; s++) {
            const mrd_event *ev;
            mrd_event moved;

            if (in[s]->next(in[s], &ev, NULL) != MRD_MORE)
                continue;
            moved = *ev;
            if (shuffled)
                moved.ts.ns += (int64_t) (bench_random(&random) % 10000000);
            if (mrd_stream_push(mrd_store_at(store, s), &moved) != MRD_OK)
                exit(1);
        }
    }
    for (size_t s = 0; s < w->streams; s++) {
        in[s]->close(in[s]);
        if (mrd_stream_finish(mrd_store_at(store, s), &why) != MRD_OK ||
            mrd_stream_open(mrd_store_at(store, s), &in[s], &why) != MRD_OK) {
            fprintf(stderr, "bench_merge: %s\n", why.text);
            exit(1);
        }
    }
    if (mrd_merge_open(in, w->streams, NULL, NULL, &out, NULL) != MRD_OK)
        must(NULL);
    r.events = drain(out);
    r.seconds = cpu_seconds() - start;
    mrd_store_free(store);
    free(in);
    return r;
}

static result
run_sprintf(const workload *w, int64_t round)
{
    mrd_source *in = workload_merge(w, round);
    const mrd_event *ev;
    result r = { 0 };
    char line[512];
    double start = cpu_seconds();

    for (; in->next(in, &ev, NULL) == MRD_MORE; r.events++) {
        const mrd_track *t = mrd_catalog_borrow_track(w->catalog, ev->track);
        const mrd_process *p = mrd_catalog_borrow_process(w->catalog, t->process);
        int n = sprintf(line,
                        "{\"name\":\"%s\",\"timestamp\":%" PRId64 ",\"duration\":%" PRId64
                        ",\"instance_id\":\"%s\",\"process_id\":\"%" PRId64
                        "\",\"thread_id\":%" PRId64 ",\"trace_event_source\":\"%s\"},\n",
                        mrd_catalog_text(w->catalog, ev->name).p, ev->ts.ns, ev->dur_ns,
                        mrd_catalog_text(w->catalog, p->instance_id).p, p->process_id, t->thread_id,
                        mrd_source_text(t->source));

        r.bytes += (uint64_t) n;
        __asm__ volatile("" : : "r"(line) : "memory");
    }
    r.seconds = cpu_seconds() - start;
    in->close(in);
    return r;
}

static result
run_sink(const workload *w, int64_t round, const bench_run *run)
{
    mrd_sink_options options = {
        .show_flows = true, .wall_time = true, .compress = run->compress, .identity = run->identity
    };
    mrd_export_target target = { .ops = run->sink };
    mrd_export_job job = { .catalog = w->catalog,
                           .options = &options,
                           .first = { 1 },
                           .last = { 0 },
                           .targets = &target,
                           .n_targets = 1 };
    mrd_source *in = workload_merge(w, round);
    mrd_export_result done;
    mrd_why why = { 0 };
    result r = { 0 };
    double start = cpu_seconds();

    mrd_group_parse(MRD_STR("instance_id,process_id"), &options.primary, NULL);
    mrd_group_parse(MRD_STR("lnc_idx,thread_id"), &options.secondary, NULL);
    if (mrd_out_func(count_bytes, &r.bytes, "bench", &target.out, &why) != MRD_OK ||
        mrd_export_run(in, &job, &done, &why) != MRD_OK) {
        fprintf(stderr, "bench_merge: %s\n", why.text);
        exit(1);
    }
    r.seconds = cpu_seconds() - start;
    r.events = done.events;
    return r;
}

static result
run_row(const bench_run *run)
{
    workload w;
    int64_t round = workload_init(&w, run->streams, run->events);
    double copy_ns = memcpy_reference(&w);
    size_t before = peak_kib();
    result r = run->kind == RUN_MERGE            ? run_merge(&w, round)
               : run->kind == RUN_STORE          ? run_store(&w, round, run->store_mib, false)
               : run->kind == RUN_STORE_SHUFFLED ? run_store(&w, round, run->store_mib, true)
               : run->kind == RUN_SPRINTF        ? run_sprintf(&w, round)
                                                 : run_sink(&w, round, run);

    r.copy_ns = copy_ns;
    r.peak_kib = peak_kib() - before;
    free(w.pool);
    mrd_catalog_free(w.catalog);
    return r;
}

static bool
is_json(const mrd_sink_ops *sink)
{
    return strcmp(sink->name, "json") == 0 || strcmp(sink->name, "chrome") == 0;
}

/* Measured costs of the reference rows, merge and sprintf; 0 if not measured. */
typedef struct {
    double merge_ns, sprintf_ns_per_byte;
} reference;

static void
print_row(const bench_run *run, const result *r, const reference *ref)
{
    double ns = r->seconds * 1e9 / (double) r->events;
    double per_byte = (ns - ref->merge_ns) * (double) r->events / (double) r->bytes;

    printf("%-22s %5zu %7.1f M %7.1f ns %6.2f M/s %6.1f x memcpy", run->name, run->streams,
           (double) r->events * 1e-6, ns, 1e3 / ns, ns / r->copy_ns);
    if (run->kind == RUN_SINK && ref->sprintf_ns_per_byte > 0 && is_json(run->sink))
        printf(" %4.1f x faster per byte than sprintf", ref->sprintf_ns_per_byte / per_byte);
    if (r->bytes > 0)
        printf(" %6.1f B/event %5.0f MB/s", (double) r->bytes / (double) r->events,
               (double) r->bytes * 1e-6 / r->seconds);
    printf(" %5zu MiB\n", r->peak_kib >> 10);
}

/* Runs one row of the table in its own process and prints it. The rows "merge" and "sprintf" also
 * store their costs in *ref. */
static int
run_apart(const bench_run *run, reference *ref)
{
    int status = 1, fd[2];
    result r;
    pid_t pid;
    bool whole;

    fflush(NULL);
    if (pipe(fd) != 0)
        return 1;
    if ((pid = fork()) == 0) {
        r = run_row(run);
        exit(write(fd[1], &r, sizeof(r)) != (ssize_t) sizeof(r));
    }
    close(fd[1]);
    whole = read(fd[0], &r, sizeof(r)) == (ssize_t) sizeof(r);
    close(fd[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0 || !whole) {
        printf("%-22s %5zu failed\n", run->name, run->streams);
        return 1;
    }
    if (run->kind == RUN_MERGE)
        ref->merge_ns = r.seconds * 1e9 / (double) r.events;
    if (run->kind == RUN_SPRINTF && ref->merge_ns > 0)
        ref->sprintf_ns_per_byte =
            (r.seconds * 1e9 - ref->merge_ns * (double) r.events) / (double) r.bytes;
    print_row(run, &r, ref);
    return 0;
}

static const mrd_sink_ops *const sinks[] = {
#define MRD_SINK(ident) &mrd_sink_##ident,
#include "trace/sink/sinks.def"
#undef MRD_SINK
};

static const struct {
    bench_kind kind;
    const char *name;
} rows[] = { { RUN_MERGE, "merge" },
             { RUN_STORE, "store" },
             { RUN_STORE_SHUFFLED, "store-unsorted" },
             { RUN_SPRINTF, "sprintf" } };

static int
run_all(bench_run run, const char *only)
{
    int failed = 0;
    reference ref = { 0 };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        run.kind = rows[i].kind, run.name = rows[i].name;
        if (only == NULL || strcmp(only, run.name) == 0)
            failed += run_apart(&run, &ref);
    }
    for (size_t i = 0; i < MRD_COUNT(sinks); i++) {
        char packed[64];

        if (only != NULL && strcmp(only, sinks[i]->name) != 0)
            continue;
        run.kind = RUN_SINK, run.sink = sinks[i], run.name = sinks[i]->name;
        run.compress = run.identity = false;
        failed += run_apart(&run, &ref);
        if (strcmp(sinks[i]->name, "perfetto") != 0)
            continue;
        snprintf(packed, sizeof(packed), "%s, whose", sinks[i]->name);
        run.identity = true, run.name = packed; /* slices have node, process, core, rank */
        failed += run_apart(&run, &ref);
        run.identity = false;
        snprintf(packed, sizeof(packed), "%s, compressed", sinks[i]->name);
        run.compress = true, run.name = packed;
        failed += run_apart(&run, &ref);
    }
    return failed;
}

int
main(int argc, char **argv)
{
    bench_run run = { .events = 1000000, .store_mib = 64 };
    const char *streams = "4,64,1024", *only = NULL;
    int option, failed = 0;

    while ((option = getopt(argc, argv, "n:s:m:w:")) != -1) {
        switch (option) {
        case 'n':
            run.events = (uint64_t) (strtod(optarg, NULL) * 1e6);
            break;
        case 's':
            streams = optarg;
            break;
        case 'm':
            run.store_mib = strtoul(optarg, NULL, 10);
            break;
        case 'w':
            only = optarg;
            break;
        default:
            fprintf(stderr, "usage: bench_merge [-n MILLIONS] [-s STREAMS,...] [-m STORE_MIB] "
                            "[-w ROW]\n");
            return 2;
        }
    }
    printf("merge and writers over generated spans; CPU time; memory above the decoded input\n");
    for (const char *p = streams; p != NULL;
         p = strchr(p, ',') == NULL ? NULL : strchr(p, ',') + 1) {
        run.streams = strtoul(p, NULL, 10);
        if (run.streams < 1 || run.streams > POOL / 4) {
            fprintf(stderr, "bench_merge: 1 to %d streams\n", POOL / 4);
            return 2;
        }
        failed += run_all(run, only);
    }
    return failed > 0;
}
