/* Tests the detection of device records that cannot be right (mrd_report_credible). Each generated
 * trace of one process has one kind of fault. */
#include <stdlib.h>

#include "tests/check.h"

#include "trace/analysis/judge/verdict.h"
#include "trace/import/import.h"

#define KERNELS 100

typedef struct {
    const char *id;
    int cover_us;       /* length of a kernel whose span covers other kernels; 0 for none */
    int cover_stream;   /* stream of this kernel; the other kernels run on stream 7 */
    const char *cover;  /* name of this kernel */
    int launch_us;      /* time from launch to kernel; negative if the kernel begins first */
    int graphs, lost;   /* launches of graphs, and how many of them have no kernels */
    int late_graphs;    /* launches of graphs after the last kernel, without kernels */
    int steps, emptied; /* steps on the device, and how many of them have no kernels */
    mrd_credible_row want;
    bool hides;
} fault;

static void
put(FILE *f, const char *category, const char *name, int tid, int at, int dur, int correlation)
{
    fprintf(f,
            ",{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%lld,"
            "\"dur\":%d,"
            "\"args\":{\"correlation\":%d%s}}",
            category, name, tid < 100 ? 0 : 5, tid, 1750000000000000LL + at, dur, correlation,
            tid < 100 ? ",\"device\":0,\"stream\":7" : "");
}

/* Writes single kernels of 50 us every 1,000 us, then one kernel for each graph, then the steps. */
static void
write_trace(const fault *t, const char *path)
{
    FILE *f = fopen(path, "w");
    int at = 0, number = 1;

    CHECK(f != NULL);
    fputs("{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":0},\"traceEvents\":["
          "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"args\":{\"labels\":\"GPU 0\"}}",
          f);
    if (t->cover_us > 0)
        put(f, "kernel", t->cover, t->cover_stream, at, t->cover_us, number++);
    for (int i = 0; i < KERNELS; i++, number++) {
        at += 1000;
        put(f, "cuda_runtime", "cudaLaunchKernel", 500, at - t->launch_us, 1, number);
        put(f, "kernel", "gemm", 7, at, 50, number);
    }
    for (int i = 0; i < t->graphs; i++, number++) {
        at += 1000;
        put(f, "cuda_runtime", i % 2 == 0 ? "cudaGraphLaunch" : "hipGraphLaunch", 500, at - 10, 5,
            number);
        for (int k = 0; k < 3 && i >= t->lost; k++)
            put(f, "kernel", "node", 7, at + 100 * k, 50, number);
    }
    for (int i = 0; i < t->steps; i++) {
        at += 1000;
        put(f, "gpu_user_annotation", "ProfilerStep#3", 7, at, 900, number++);
        if (i >= t->emptied)
            put(f, "kernel", "gemm", 7, at + 100, 50, number++);
    }
    put(f, "kernel", "last", 7, at + 1000, 50, number++);
    for (int i = 0; i < t->late_graphs; i++)
        put(f, "cuda_runtime", "cudaGraphLaunch", 500, at + 2000 + i, 1, number++);
    fputs("]}", f);
    fclose(f);
}

/* Reads the trace at `path`. */
static mrd_credible_row
judge(const char *path, bool *ret_hidden)
{
    mrd_read_options options = { .catalog = mrd_catalog_new(),
                                 .store = mrd_store_new(1 << 20, test_tmp()),
                                 .system = true };
    const mrd_identity nowhere = MRD_IDENTITY_UNKNOWN;
    const mrd_sink_options no_options = { .same_clock = false };
    mrd_sink_env env = { .catalog = options.catalog, .options = &no_options };
    mrd_credible_row row;
    mrd_source *source;
    const mrd_event *ev;
    mrd_report *r;

    CHECK_ERR("read", mrd_read_file(&options, path, &nowhere, NULL), MRD_OK);
    CHECK_ERR("finish", mrd_stream_finish(mrd_store_at(options.store, 0), NULL), MRD_OK);
    CHECK_ERR("open", mrd_stream_open(mrd_store_at(options.store, 0), &source, NULL), MRD_OK);
    r = mrd_report_new(&env);
    while (source->next(source, &ev, NULL) == MRD_MORE)
        CHECK_ERR("add", mrd_report_add(r, ev), MRD_OK);
    CHECK_ERR("finish", mrd_report_finish(r), MRD_OK);
    row = *mrd_report_credible(r, 0);
    *ret_hidden = mrd_report_is_hidden(r);
    source->close(source);
    mrd_report_free(r);
    mrd_store_free(options.store);
    mrd_catalog_free(options.catalog);
    return row;
}

static const fault rows[] = {
    { "nothing", .launch_us = 10, .graphs = 10, .steps = 5, .want = { .graphs = 10, .steps = 5 } },
    { "a kernel around all", .cover_us = 200000, .cover_stream = 7, .cover = "fmha",
      .launch_us = 10, .want = { .inside = 101 }, .hides = true },
    { "a kernel around some", .cover_us = 40500, .cover_stream = 7, .cover = "fmha",
      .launch_us = 10, .want = { .inside = 40 }, .hides = true },
    { "a kernel around a few", .cover_us = 20500, .cover_stream = 7, .cover = "fmha",
      .launch_us = 10 },
    { "on another stream", .cover_us = 200000, .cover_stream = 8, .cover = "fmha",
      .launch_us = 10 },
    { "a collective", .cover_us = 200000, .cover_stream = 7, .cover = "ncclDevKernel_AllReduce_Sum",
      .launch_us = 10 },
    { "graphs without kernels", .launch_us = 10, .graphs = 10, .lost = 10,
      .want = { .graphs = 10, .graphs_empty = 10 }, .hides = true },
    { "one graph of many", .launch_us = 10, .graphs = 30, .lost = 1,
      .want = { .graphs = 30, .graphs_empty = 1 } },
    { "graphs at the end", .launch_us = 10, .graphs = 5, .late_graphs = 7,
      .want = { .graphs = 5 } },
    { "an early clock", .launch_us = -3, .want = { .early = KERNELS, .early_ns = 3000 } },
    { "at the limit", .launch_us = -2, .want = { .early = KERNELS, .early_ns = 2000 } },
    { "not early enough", .launch_us = -1 },
    { "empty steps", .launch_us = 10, .steps = 8, .emptied = 8,
      .want = { .steps = 8, .steps_empty = 8 }, .hides = true },
    { "most steps are idle", .launch_us = 10, .steps = 40, .emptied = 39, .want = { .steps = 40 } },
    { "a single idle step", .launch_us = 10, .steps = 1, .emptied = 1, .want = { .steps = 1 } },
};

TEST(faults_are_counted_and_others_are_not)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const mrd_credible_row *want = &rows[i].want;
        bool is_hidden;
        mrd_credible_row got;
        char path[512];

        snprintf(path, sizeof(path), "%s/a.json", test_tmp());
        write_trace(&rows[i], path);
        got = judge(path, &is_hidden);

        CHECK_ROW(rows[i].id, got.inside == want->inside);
        CHECK_ROW(rows[i].id, got.inside == 0 || got.around_ns == rows[i].cover_us * MRD_US);
        CHECK_ROW(rows[i].id, got.graphs == want->graphs && got.graphs_empty == want->graphs_empty);
        CHECK_ROW(rows[i].id, got.early == want->early && got.early_ns == want->early_ns);
        CHECK_ROW(rows[i].id, got.steps == want->steps && got.steps_empty == want->steps_empty);
        CHECK_ROW(rows[i].id, is_hidden == rows[i].hides);
    }
}

/* The texts of events: a kernel on the device, and a call on the host, with begin and duration. */
#define KERNEL(begin, dur, args)                                                                   \
    ",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":" begin           \
    ",\"dur\":" dur ",\"args\":{" args "}}"
#define CALL(category, name, begin, dur, number)                                                   \
    ",{\"ph\":\"X\",\"cat\":\"" category "\",\"name\":\"" name                                     \
    "\",\"pid\":5,\"tid\":500,\"ts\":" begin ",\"dur\":" dur ",\"args\":{\"correlation\":" number  \
    "}}"
#define ON(device, stream) "\"device\":" device ",\"stream\":" stream
#define NUMBER(number)     ",\"correlation\":" number
#define AT(begin)          "17500000#" begin /* '#' becomes the repetition, of two digits */

/* Traces that resemble faulty ones but are correct. The events `first` are written once, the events
 * `each` 50 times. */
static const struct {
    const char *id, *first, *each;
    uint64_t graphs;
} sound[] = {
    { "branches of a graph",
      CALL("cuda_runtime", "cudaGraphLaunch", "1749999999000000", "10", "9")
          KERNEL("1750000000000000", "60000000", ON("0", "7") NUMBER("9")),
      KERNEL(AT("200000"), "9", ON("0", "7") NUMBER("9")), 1 },
    { "a kernel that launches others",
      KERNEL("1750000000000000", "60000000", ON("0", "7") NUMBER("9")),
      KERNEL(AT("200000"), "9", ON("0", "7") NUMBER("9")), 0 },
    { "an unknown stream", KERNEL("1750000000000000", "60000000", ON("0", "-1")),
      KERNEL(AT("200000"), "9", ON("0", "-1")), 0 },
    { "two streams on a line", KERNEL("1750000000000000", "60000000", ON("0", "7")),
      KERNEL(AT("200000"), "9", ON("0", "8")), 0 },
    { "two devices on a line", KERNEL("1750000000000000", "60000000", ON("0", "7")),
      KERNEL(AT("200000"), "9", ON("1", "7")), 0 },
    { "a call of the driver in one of the runtime", "",
      CALL("cuda_runtime", "cudaGraphLaunch", AT("100000"), "9", "1#")
          CALL("cuda_driver", "cuGraphLaunch", AT("100001"), "5", "2#")
              KERNEL(AT("200000"), "9", ON("0", "7") NUMBER("2#")),
      50 },
    { "an operator with this name", "",
      CALL("cpu_op", "python GraphLaunch", AT("100000"), "9", "1#")
          KERNEL(AT("200000"), "9", ON("0", "7")),
      0 },
    { "numbers that are used again", "",
      KERNEL(AT("200000"), "9", ON("0", "7") NUMBER("1#"))
          CALL("cuda_runtime", "cudaLaunchKernel", AT("300000"), "5", "1#")
              KERNEL(AT("300010"), "9", ON("0", "7") NUMBER("1#")),
      0 },
};

TEST(sound_traces_have_no_faults)
{
    for (size_t i = 0; i < MRD_COUNT(sound); i++) {
        mrd_credible_row got;
        bool is_hidden;
        char path[512];
        FILE *f;

        snprintf(path, sizeof(path), "%s/a.json", test_tmp());
        CHECK((f = fopen(path, "w")) != NULL);
        fputs(
            "{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":0},\"traceEvents\":["
            "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"args\":{\"labels\":\"GPU 0\"}}",
            f);
        fputs(sound[i].first, f);
        for (int k = 0; k < 50; k++)
            for (const char *c = sound[i].each; *c != '\0'; c++)
                fprintf(f, *c == '#' ? "%02d" : "%c", *c == '#' ? k : *c);
        fputs("]}", f);
        fclose(f);
        got = judge(path, &is_hidden);
        CHECK_ROW(sound[i].id, got.inside == 0 && got.early == 0);
        CHECK_ROW(sound[i].id, got.graphs == sound[i].graphs && got.graphs_empty == 0);
        CHECK_ROW(sound[i].id, !is_hidden);
    }
}

TEST_MAIN()
