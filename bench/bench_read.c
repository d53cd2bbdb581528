/*
 * bench_read [EVENTS] - measures reading of bulk JSON, on generated documents. Compares our scanner
 * and importers with yajl, and with only reading the bytes. The bytes are read as a whole or in
 * chunks, and summed up as 64-bit words.
 *
 * Each measurement runs in its own process, so that it has its own peak memory. Prints the best CPU
 * time of five interleaved rounds, which includes reading the file. All parsers store the same
 * fields into the same struct, and must compute the same checksum.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef MRD_HAVE_YAJL
#include <yajl/yajl_parse.h>
#endif

#include "base/buf.h"
#include "base/obj.h"
#include "bench/runtime_json.h"
#include "trace/import/import.h"
#include "trace/json/json_read.h"

#define ROUNDS 5

typedef struct {
    uint64_t sum, events;
    double cpu_s;
    long rss_kib;
} result; /* written by the child into shared memory */

/* ---- Generated documents ---- */

static void
write_kineto(FILE *f, uint64_t n)
{
    static const char *const names[] = { "aten::add_",
                                         "aten::empty",
                                         "cudaLaunchKernel",
                                         ("void at::native::vectorized_elementwise_kernel<4, "
                                          "at::native::CUDAFunctor_add<float> >(int)"),
                                         "aten::copy_",
                                         "ncclKernel_AllReduce_RING_LL_Sum_float" };
    uint64_t seed = 2, ts = 1712195495406752u;

    fputs("{\n  \"schemaVersion\": 1,\n  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, "
          "\"world_size\": 8},\n  \"traceEvents\": [\n",
          f);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t name = i % MRD_COUNT(names);

        ts += rnd(&seed, 40);
        fprintf(
            f,
            "%s  {\n    \"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %d, \"tid\": "
            "%d,\n    \"ts\": %llu.%03llu, \"dur\": %llu,\n    \"args\": {\n      \"External id\": "
            "%llu,\n      \"cbid\": 211, \"correlation\": %llu, \"stream\": %d\n    }\n  }",
            i == 0 ? "" : ",\n", name % 2 == 0 ? "cpu_op" : "cuda_runtime", names[name],
            name == 3 ? 0 : 59811, name == 3 ? 7 : 59811 + (int) (i % 3), (unsigned long long) ts,
            (unsigned long long) rnd(&seed, 1000), (unsigned long long) rnd(&seed, 900),
            (unsigned long long) i, (unsigned long long) i, (int) (i % 24));
    }
    fputs("\n  ],\n  \"displayTimeUnit\": \"ms\"\n}\n", f);
}

/* ---- What every parser does with its results ---- */

typedef struct {
    /* indexed by a hash of the key; stands for the struct that a caller would fill */
    uint64_t fields[16];
    uint64_t sum, events;
} filled;

static inline unsigned
field_of(const char *key, size_t len)
{
    return len == 0
               ? 0
               : (unsigned) (len * 7 + (unsigned char) key[0] + (unsigned char) key[len - 1]) & 15;
}

static inline void
take_text(filled *to, unsigned field, const char *p, size_t len)
{
    to->fields[field] = len * 31 + (len > 0 ? (unsigned char) p[0] : 0);
    to->sum += to->fields[field];
}

static inline void
take_number(filled *to, unsigned field, const char *p, size_t len)
{
    uint64_t v = 0;

    for (size_t i = 0; i < len; i++)
        v = v * 10 + (uint64_t) ((unsigned char) p[i] - '0');
    to->fields[field] = v;
    to->sum += v;
}

/* ---- The contestants ---- */

static void
run_words(const char *path, result *to)
{
    static uint64_t words[MRD_IN_WINDOW / 8];
    int fd = open(path, O_RDONLY);
    ssize_t n;

    while ((n = read(fd, words, sizeof(words))) > 0) {
        for (size_t i = 0; i < (size_t) n / 8; i++)
            to->sum += words[i];
    }
    close(fd);
}

/* Reads the whole file into memory, like a caller that needs the text at once. Its time contains
 * the allocation of the pages. */
static void
run_whole(const char *path, result *to)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    size_t got = 0;
    uint64_t *words;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) != 0 || (words = malloc((size_t) st.st_size + 8)) == NULL)
        exit(1);
    while ((n = read(fd, (char *) words + got, (size_t) st.st_size - got)) > 0)
        got += (size_t) n;
    for (size_t i = 0; i < got / 8; i++)
        to->sum += words[i];
    free(words);
    close(fd);
}

static void
run_scan(const char *path, result *to)
{
    filled f = { 0 };
    mrd_json_reader *r = NULL;
    mrd_in *in = NULL;
    mrd_jr_type type;
    mrd_str key, text;

    if (mrd_in_file(path, &in, NULL) != MRD_OK || mrd_json_reader_open(in, &r, NULL) != MRD_OK)
        exit(1);
    for (;;) {
        type = mrd_json_next(r, &key, &text);
        switch (type) {
        case MRD_JR_OBJECT:
            f.events++;
            __attribute__((fallthrough));
        case MRD_JR_ARRAY:
            mrd_json_enter(r);
            break;
        case MRD_JR_STRING:
            take_text(&f, field_of(key.p, key.len), text.p, text.len);
            break;
        case MRD_JR_NUMBER:
            take_number(&f, field_of(key.p, key.len), text.p, text.len);
            break;
        case MRD_JR_END:
            if (mrd_json_depth(r) == 0)
                goto out;
            break;
        default:
            exit(1);
        }
    }
out:
    to->sum = f.sum;
    to->events = f.events;
    mrd_json_reader_close(r);
    mrd_in_close(in);
}

#ifdef MRD_HAVE_YAJL
typedef struct {
    filled f;
    unsigned field;
} yajl_state;

static int
on_key(void *self, const unsigned char *key, size_t len)
{
    ((yajl_state *) self)->field = field_of((const char *) key, len);
    return 1;
}

static int
on_text(void *self, const unsigned char *text, size_t len)
{
    yajl_state *s = self;

    take_text(&s->f, s->field, (const char *) text, len);
    return 1;
}

static int
on_number(void *self, const char *text, size_t len)
{
    yajl_state *s = self;

    take_number(&s->f, s->field, text, len);
    return 1;
}

static int
on_map(void *self)
{
    ((yajl_state *) self)->f.events++;
    return 1;
}

static void
run_yajl(const char *path, result *to)
{
    static unsigned char chunk[65536];
    static const yajl_callbacks callbacks = { .yajl_map_key = on_key,
                                              .yajl_string = on_text,
                                              .yajl_number = on_number,
                                              .yajl_start_map = on_map };
    yajl_state s = { 0 };
    yajl_handle h = yajl_alloc(&callbacks, NULL, &s);
    int fd = open(path, O_RDONLY);
    ssize_t n;

    while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
        if (yajl_parse(h, chunk, (size_t) n) != yajl_status_ok)
            exit(1);
    }
    yajl_complete_parse(h);
    yajl_free(h);
    close(fd);
    to->sum = s.f.sum;
    to->events = s.f.events;
}
#endif

static mrd_err
count_event(mrd_import *imp, uint32_t profile, const mrd_event *ev)
{
    result *to = imp->emit_self;

    (void) profile;
    to->events++;
    to->sum += (uint64_t) ev->ts.ns + ev->arg_count;
    return MRD_OK;
}

static mrd_err
no_shift(mrd_import *imp, uint32_t profile, int64_t delta_ns)
{
    (void) imp;
    (void) profile;
    (void) delta_ns;
    return MRD_OK;
}

static void
run_import(const char *path, result *to)
{
    mrd_input blank = { 0 };
    mrd_import imp = {
        .identity = MRD_IDENTITY_UNKNOWN, .emit = count_event, .shift = no_shift, .emit_self = to
    };
    const mrd_import_ops *ops;
    mrd_bytes head;

    imp.catalog = mrd_catalog_new();
    imp.input = mrd_catalog_add_input(imp.catalog, &blank);
    if (mrd_in_file(path, &imp.in, NULL) != MRD_OK ||
        mrd_in_fill(imp.in, MRD_PROBE_BYTES, &head, NULL) != MRD_OK)
        exit(1);
    ops = mrd_import_detect((mrd_str){ (const char *) head.p, head.len }, path);
    if (ops == NULL || ops->run(&imp, NULL) != MRD_OK)
        exit(1);
    mrd_in_close(imp.in);
    mrd_catalog_free(imp.catalog);
}

static void
measure(void (*run)(const char *, result *), const char *path, result *best, result *shared)
{
    struct rusage used;
    pid_t pid;
    int status;

    memset(shared, 0, sizeof(*shared));
    fflush(NULL);
    if ((pid = fork()) == 0) {
        struct rusage own;

        run(path, shared);
        getrusage(RUSAGE_SELF, &own);
        shared->cpu_s = (double) (own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
                        (double) (own.ru_utime.tv_usec + own.ru_stime.tv_usec) / 1e6;
        _exit(0);
    }
    if (wait4(pid, &status, 0, &used) != pid || status != 0) {
        fprintf(stderr, "bench_read: a parser failed on %s\n", path);
        exit(1);
    }
    shared->rss_kib = used.ru_maxrss;
    if (best->cpu_s == 0 || shared->cpu_s < best->cpu_s)
        *best = *shared;
}

static const struct {
    const char *name;
    void (*run)(const char *path, result *to);
} contestants[] = {
    { "read whole, add words", run_whole },
    { "read in chunks, add", run_words },
#ifdef MRD_HAVE_YAJL
    { "yajl", run_yajl },
#endif
    { "mrd_json_next", run_scan },
    { "importer, to events", run_import },
};

static int
compare(const char *what, void (*write)(FILE *f, uint64_t n), uint64_t n, result *shared)
{
    result best[MRD_COUNT(contestants)] = { 0 };
    double yajl_s = 0;
    uint64_t sum = 0;
    char path[] = "/tmp/bench_read.XXXXXX";
    struct stat st;
    int fd = mkstemp(path), code = 0;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

    if (f == NULL) {
        fprintf(stderr, "bench_read: %s: %s\n", path, strerror(errno));
        return 1;
    }
    write(f, n);
    fclose(f);
    stat(path, &st);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < MRD_COUNT(contestants); i++)
            measure(contestants[i].run, path, &best[i], shared);
    }
    printf("%s: %llu records, %.1f MB, %.1f bytes each\n", what, (unsigned long long) n,
           (double) st.st_size / 1e6, (double) st.st_size / (double) n);
    printf("  %-22s %9s %9s %12s %10s %10s\n", "", "MB/s", "ns/record", "M records/s", "x read",
           "peak MiB");
    for (size_t i = 0; i < MRD_COUNT(contestants); i++) {
        double s = best[i].cpu_s;

        if (strcmp(contestants[i].name, "yajl") == 0)
            yajl_s = s;
        printf("  %-22s %9.0f %9.0f %12.2f %10.2f %10.1f", contestants[i].name,
               (double) st.st_size / 1e6 / s, s * 1e9 / (double) n, (double) n / 1e6 / s,
               s / best[0].cpu_s, (double) best[i].rss_kib / 1024);
        if (yajl_s > 0 && i > 2)
            printf("   %.2f x yajl's speed", yajl_s / s);
        printf("\n");
        if (contestants[i].run == run_whole || contestants[i].run == run_words ||
            contestants[i].run == run_import)
            continue;
        if (sum != 0 && sum != best[i].sum) {
            printf("  checksums differ\n");
            code = 1;
        }
        sum = best[i].sum;
    }
    unlink(path);
    return code;
}

int
main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 400000;
    result *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int code;

    if (n == 0 || shared == MAP_FAILED) {
        fprintf(stderr, "usage: bench_read [RECORDS]\n");
        return 2;
    }
    code = compare("runtime JSON", write_runtime, n, shared);
    code |= compare("Kineto JSON", write_kineto, n, shared);
    return code;
}
