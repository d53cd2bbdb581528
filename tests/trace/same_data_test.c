/* Inputs that hold the same events, windows of one process, and processes that look alike: files are
 * generated in all kinds of pairs, and what is left of them is counted. */
#include <stdlib.h>

#include "tests/check.h"

#include "trace/import/import.h"

#define BASE 1750000000000000 /* us */

/* A trace of Kineto: pairs of a kernel and its launch. */
typedef struct {
    const char *name; /* of the file */
    int rank;         /* -1: the file does not state it */
    int pid;          /* -1: a word */
    int seed;         /* files of one seed have the same events */
    int from, to;     /* its events are from .. to - 1 of the seed */
    int window;       /* minutes after the base */
    const char *host;
    bool cut;
} one_file;

static void
put_events(FILE *f, const one_file *o)
{
    for (int i = o->from; i < o->to; i++) {
        unsigned jitter = (unsigned) (i * 7919 + o->seed * 104729) % 4001;
        long long at = BASE + o->window * 60000000LL + i * 10000LL + jitter;
        char pid[32];

        snprintf(pid, sizeof(pid), o->pid < 0 ? "\"rank %d\"" : "%d",
                 o->pid < 0 ? o->rank : o->pid);
        fprintf(
            f,
            "%s{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":%s,\"tid\":7,\"ts\":%lld,"
            "\"dur\":%u,\"args\":{\"device\":0,\"stream\":7}}",
            i == o->from ? "" : ",", pid, at, 2000 + jitter % 100);
    }
}

static void
write_file(const one_file *o, const char *path)
{
    FILE *f = fopen(path, "w");

    CHECK(f != NULL);
    fputs("{\"schemaVersion\":1,", f);
    if (o->rank >= 0 && o->pid >= 0)
        fprintf(f, "\"distributedInfo\":{\"rank\":%d,\"world_size\":4},", o->rank);
    if (o->host != NULL)
        fprintf(f, "\"host_name\":\"%s\",", o->host);
    fputs("\"traceEvents\":[", f);
    put_events(f, o);
    fputs(o->cut ? ",{\"ph\":" : "]}", f);
    fclose(f);
}

/* The result of reading some files: what became of each, and of all. */
typedef struct {
    char states[8];   /* 'o' used, 's' skipped, 'i' incomplete */
    size_t processes; /* that are in the profile */
    uint64_t events, pauses;
    char said[2048];
    char names[512]; /* of the processes */
} reading;

static void
count_streams(mrd_store *store, const mrd_catalog *cat, reading *ret)
{
    for (size_t i = 0; i < mrd_store_streams(store); i++) {
        mrd_source *source;
        const mrd_event *ev;

        CHECK_ERR("finish", mrd_stream_finish(mrd_store_at(store, i), NULL), MRD_OK);
        CHECK_ERR("open", mrd_stream_open(mrd_store_at(store, i), &source, NULL), MRD_OK);
        while (source->next(source, &ev, NULL) == MRD_MORE) {
            const mrd_track *t = mrd_catalog_borrow_track(cat, ev->track);

            CHECK_INT(mrd_catalog_borrow_process(cat, t->process)->profile, 0);
            ret->events += ev->kind == MRD_SPAN;
            ret->pauses += ev->kind == MRD_LOSS;
        }
        source->close(source);
    }
}

static reading
read_files(const one_file *files, size_t n, size_t memory)
{
    mrd_read_once once = { 0 };
    mrd_read_options options = { .catalog = mrd_catalog_new(),
                                 .store = mrd_store_new(memory, test_tmp()),
                                 .system = true,
                                 .once = &once };
    const mrd_identity nowhere = MRD_IDENTITY_UNKNOWN;
    reading ret = { .states = "" };
    const mrd_input *inputs;
    size_t n_inputs;

    for (size_t i = 0; i < n; i++) {
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", test_tmp(), files[i].name);
        write_file(&files[i], path);
        CHECK_ERR(path, mrd_read_file(&options, path, &nowhere, NULL), MRD_OK);
    }
    CHECK_ERR("end", mrd_read_once_end(&once, options.catalog, options.store), MRD_OK);
    count_streams(options.store, options.catalog, &ret);
    inputs = mrd_catalog_inputs(options.catalog, &n_inputs);
    for (size_t i = 0; i < n_inputs && i < sizeof(ret.states) - 1; i++)
        ret.states[i] = "oifs"[inputs[i].state];
    for (mrd_proc_id i = 0; i < mrd_catalog_processes(options.catalog); i++) {
        const mrd_process *p = mrd_catalog_borrow_process(options.catalog, i);

        ret.processes += p->profile == 0;
        snprintf(ret.names + strlen(ret.names), sizeof(ret.names) - strlen(ret.names), "%s;",
                 mrd_catalog_text(options.catalog, p->name).p);
    }
    for (size_t i = 0; i < mrd_catalog_notes(options.catalog); i++)
        snprintf(ret.said + strlen(ret.said), sizeof(ret.said) - strlen(ret.said), "%s\n",
                 mrd_catalog_note_at(options.catalog, i).p);
    mrd_store_free(options.store);
    mrd_catalog_free(options.catalog);
    return ret;
}

#define ONE(file, r, p, s, first, end, ...)                                                        \
    {                                                                                              \
        .name = file, .rank = r, .pid = p, .seed = s, .from = first, .to = end, __VA_ARGS__        \
    }
#define N 40
static const struct {
    const char *id;
    one_file files[4];
    size_t n;
    const char *states;
    uint64_t events;
    size_t processes;
    uint64_t pauses;
    const char *said;
} rows[] = {
    { "copy",
      { ONE("a.json", 0, 5, 1, 0, N), ONE("b.json", 0, 5, 1, 0, N) },
      2,
      "os",
      N,
      1,
      0,
      "b.json' has no other events than" },
    { "three copies",
      { ONE("a.json", 0, 5, 1, 0, N), ONE("b.json", 0, 5, 1, 0, N), ONE("c.json", 0, 5, 1, 0, N) },
      3,
      "oss",
      N,
      1,
      0,
      "further inputs" },
    { "cut copy first",
      { ONE("a.json", 0, 5, 1, 0, N / 2, .cut = true), ONE("b.json", 0, 5, 1, 0, N) },
      2,
      "io",
      N,
      1,
      0,
      "a.json' has no other events than" },
    { "other rank",
      { ONE("a.json", 0, 5, 1, 0, N), ONE("b.json", 1, 5, 1, 0, N) },
      2,
      "oo",
      2 * N,
      2,
      0,
      "" },
    { "other pid",
      { ONE("a.json", -1, 5, 1, 0, N), ONE("b.json", -1, 6, 1, 0, N) },
      2,
      "oo",
      2 * N,
      2,
      0,
      "" },
    { "other host",
      { ONE("a.json", -1, 1, 1, 0, N, .host = "x"), ONE("b.json", -1, 1, 1, 0, N, .host = "y") },
      2,
      "oo",
      2 * N,
      2,
      0,
      "" },
    { "other events",
      { ONE("a.json", 0, 5, 1, 0, N), ONE("b.json", 0, 5, 2, 0, N) },
      2,
      "oo",
      2 * N,
      2,
      0,
      "states the rank and pid of another input" },
    { "a part in common",
      { ONE("a.json", 0, 5, 1, 0, N), ONE("b.json", 0, 5, 1, N / 2, N + N / 2) },
      2,
      "oo",
      2 * N,
      2,
      0,
      "about 50 % of the events" },
    { "a few events",
      { ONE("a.json", 0, 5, 1, 0, 4), ONE("b.json", 0, 5, 1, 0, 4) },
      2,
      "oo",
      8,
      2,
      0,
      "" },
    { "merged, beside all parts",
      { ONE("0.json", 0, 5, 1, 0, N), ONE("1.json", 1, 6, 1, N, 2 * N),
        ONE("m.json", 7, -1, 1, 0, 2 * N) },
      3,
      "oos",
      2 * N,
      2,
      0,
      "m.json' has no other events than" },
    { "merged, beside one part",
      { ONE("0.json", 0, 5, 1, 0, N), ONE("m.json", 7, -1, 1, 0, 2 * N) },
      2,
      "so",
      2 * N,
      1,
      0,
      "0.json' has no other events than" },
    { "merged in part, beside all parts",
      { ONE("0.json", 0, 5, 1, 0, N), ONE("1.json", 1, 6, 1, N, 2 * N),
        ONE("m.json", 7, -1, 1, 5, 2 * N - 5) },
      3,
      "oos",
      2 * N,
      2,
      0,
      "and 1 other input" },
    { "two windows",
      { ONE("a.json", 0, 5, 1, 0, N), ONE("b.json", 0, 5, 1, 0, N, .window = 1) },
      2,
      "oo",
      2 * N,
      1,
      1,
      "1 input is a further window" },
    { "three windows, the last one first",
      { ONE("a.json", 0, 5, 1, 0, N, .window = 2), ONE("b.json", 0, 5, 1, 0, N, .window = 1),
        ONE("c.json", 0, 5, 1, 0, N) },
      3,
      "ooo",
      3 * N,
      1,
      2,
      "2 inputs are a further window" },
    { "a window twice",
      { ONE("a.json", 0, 5, 1, 0, N), ONE("b.json", 0, 5, 1, 0, N, .window = 1),
        ONE("c.json", 0, 5, 1, 0, N, .window = 1) },
      3,
      "oos",
      2 * N,
      1,
      1,
      "1 input is a further window" },
    { "windows on a host",
      { ONE("a.json", -1, 5, 1, 0, N, .host = "x"),
        ONE("b.json", -1, 5, 1, 0, N, .window = 1, .host = "x") },
      2,
      "oo",
      2 * N,
      1,
      1,
      "" },
    { "windows that nothing identifies",
      { ONE("a.json", -1, 1, 1, 0, N), ONE("b.json", -1, 1, 1, 0, N, .window = 1) },
      2,
      "oo",
      2 * N,
      2,
      0,
      "" },
    { "windows of two runs",
      { ONE("a.json", 0, 5, 1, 0, N), ONE("b.json", 0, 6, 1, 0, N, .window = 1) },
      2,
      "oo",
      2 * N,
      2,
      0,
      "" },
};

TEST(events_count_once_and_processes_are_what_the_files_state)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        reading got = read_files(rows[i].files, rows[i].n, 1 << 20);

        CHECK_ROW(rows[i].id, strcmp(got.states, rows[i].states) == 0);
        CHECK_ROW(rows[i].id, got.events == rows[i].events);
        CHECK_ROW(rows[i].id, got.processes == rows[i].processes);
        CHECK_ROW(rows[i].id, got.pauses == rows[i].pauses);
        CHECK_ROW(rows[i].id, strstr(got.said, rows[i].said) != NULL);
        CHECK_ROW(rows[i].id, rows[i].said[0] != '\0' || strstr(got.said, "events") == NULL);
    }
}

/* Samples of large files differ in their share. The copy was already on disk when it was found. */
TEST(a_large_merged_file_is_found_beside_its_parts)
{
    enum { PART = 9000 };
    const one_file files[] = { ONE("0.json", 0, 5, 1, 0, PART),
                               ONE("m.json", 7, -1, 1, 0, 3 * PART),
                               ONE("1.json", 1, 6, 1, PART, 2 * PART),
                               ONE("2.json", 2, 7, 1, 2 * PART, 3 * PART) };
    reading got = read_files(files, MRD_COUNT(files), 1 << 20);

    CHECK(strcmp(got.states, "osoo") == 0);
    CHECK_INT(got.events, 3 * PART);
    CHECK(strstr(got.said, "and 2 other inputs") != NULL);
}

TEST(processes_of_equal_numbers_are_named_after_their_files)
{
    const one_file files[] = { ONE("host0.json", -1, 1, 1, 0, N),
                               ONE("host1.json", -1, 1, 2, 0, N) };
    const one_file apart[] = { ONE("host0.json", 0, 1, 1, 0, N), ONE("host1.json", 1, 1, 2, 0, N) };

    CHECK(strcmp(read_files(files, 2, 1 << 20).names, "host0.json;host1.json;") == 0);
    CHECK(strcmp(read_files(apart, 2, 1 << 20).names, ";;") == 0);
}

TEST_MAIN()
