/* Tests the detection of inputs with the same events. Generated files are copies of each other,
 * recordings of one process at different times, or files of processes that look alike. The test
 * counts which files are used and which events remain. */
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
    int from, to;     /* the file has the events `from` to `to` - 1 of the seed's sequence */
    int window;       /* minutes after the base */
    const char *host;
    bool cut;
    int own;                   /* events that only this file has */
    int tid;                   /* added to the number of the thread */
    bool named;                /* its thread has a name */
    int twin;                  /* pid of a second process with the same events, 0: none */
    int world;                 /* number of ranks, 0: 4 */
    long long base;            /* base of the file's times, in ns; 0 means none is stated */
    const char *backend, *arg; /* backend of the file, and an argument of each event */
    bool begin_end; /* events are a begin and an end, of which a cut file lacks the last one */
} one_file;

static void
put_event(FILE *f, const one_file *o, int i, int pid, bool first)
{
    unsigned jitter = (unsigned) (i * 7919 + o->seed * 104729) % 4001;
    long long at = BASE + o->window * 60000000LL + i * 10000LL + jitter;
    char process[32], where[256];

    if (o->base != 0)
        at -= BASE;
    snprintf(process, sizeof(process), pid < 0 ? "\"rank %d\"" : "%d", pid < 0 ? o->rank : pid);
    snprintf(where, sizeof(where),
             "\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":%s,\"tid\":%d,\"args\":{\"device\":0,"
             "\"stream\":7,\"arg\":\"%s\"}",
             process, 7 + o->tid, o->arg == NULL ? "" : o->arg);
    fputs(first ? "" : ",", f);
    if (!o->begin_end)
        fprintf(f, "{\"ph\":\"X\",%s,\"ts\":%lld,\"dur\":%u}", where, at, 2000 + jitter % 100);
    else
        fprintf(f, "{\"ph\":\"B\",%s,\"ts\":%lld}", where, at);
    if (o->begin_end && !(o->cut && i == o->to - 1))
        fprintf(f, ",{\"ph\":\"E\",%s,\"ts\":%lld}", where, at + 2000);
}

static void
put_events(FILE *f, const one_file *o)
{
    one_file own = *o;

    if (o->named)
        fprintf(f,
                "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":7,\"args\":{\"name\":"
                "\"main\"}},",
                o->pid);
    for (int i = o->from; i < o->to; i++)
        put_event(f, o, i, o->pid, i == o->from);
    for (int i = o->from; i < o->to && o->twin > 0; i++)
        put_event(f, o, i, o->twin, false);
    own.seed = o->name[0];
    for (int i = 0; i < o->own; i++)
        put_event(f, &own, o->from + i, o->pid, false);
}

static void
write_file(const one_file *o, const char *path)
{
    FILE *f = fopen(path, "w");

    CHECK(f != NULL);
    fputs(o->twin > 0 ? "{" : "{\"schemaVersion\":1,", f);
    if (o->base != 0)
        fprintf(f, "\"baseTimeNanoseconds\":%lld,", o->base);
    if (o->rank >= 0 && o->pid >= 0)
        fprintf(f, "\"distributedInfo\":{\"rank\":%d,\"world_size\":%d,\"backend\":\"%s\"},",
                o->rank, o->world == 0 ? 4 : o->world, o->backend == NULL ? "nccl" : o->backend);
    if (o->host != NULL)
        fprintf(f, "\"host_name\":\"%s\",", o->host);
    fputs("\"traceEvents\":[", f);
    put_events(f, o);
    fputs(o->cut ? ",{\"ph\":" : "]}", f);
    fclose(f);
}

/* The result of reading some files: the state of each file, and the sums of all. */
typedef struct {
    char states[8]; /* 'o' used, 's' skipped, 'i' incomplete */
    size_t skipped;
    uint64_t compared; /* streams that were read to compare events */
    size_t processes;  /* number of processes in the profile */
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
    ret.compared = once.compared;
    count_streams(options.store, options.catalog, &ret);
    inputs = mrd_catalog_inputs(options.catalog, &n_inputs);
    for (size_t i = 0; i < n_inputs; i++) {
        ret.skipped += inputs[i].state == MRD_INPUT_SKIPPED;
        if (i < sizeof(ret.states) - 1)
            ret.states[i] = "oifs"[inputs[i].state];
    }
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
    /* An event may be dropped only if the other file has it too. */
    { "a copy with one event of its own",
      { ONE("a.json", 0, 5, 1, 0, 300), ONE("b.json", 0, 5, 1, 0, 299, .own = 1) },
      2,
      "oo",
      600,
      2,
      0,
      "Both have events of their own" },
    { "more events, but not all of the other one",
      { ONE("a.json", 0, 5, 1, 0, 600), ONE("b.json", 0, 5, 1, 0, 300, .own = 4) },
      2,
      "oo",
      904,
      2,
      0,
      "Both have events of their own" },
    { "a part of a file with events of its own",
      { ONE("a.json", 0, 5, 1, 0, 300, .own = 4), ONE("b.json", 0, 5, 1, 0, 300) },
      2,
      "os",
      304,
      1,
      0,
      "b.json' has no other events than" },
    { "merged, with events of its own",
      { ONE("0.json", 0, 5, 1, 0, 300), ONE("1.json", 0, 5, 1, 300, 600),
        ONE("m.json", 0, 5, 1, 0, 600, .own = 6) },
      3,
      "sso",
      606,
      1,
      0,
      "0.json' has no other events than" },
    { "merged, of parts that overlap",
      { ONE("0.json", 0, 5, 1, 0, N), ONE("1.json", 0, 5, 1, N - 8, 2 * N),
        ONE("m.json", 0, 5, 1, 0, 2 * N) },
      3,
      "sso",
      2 * N,
      1,
      0,
      "and further inputs are copies" },
    { "other threads",
      { ONE("a.json", 0, 5, 1, 0, N), ONE("b.json", 0, 5, 1, 0, N, .tid = 1) },
      2,
      "oo",
      2 * N,
      2,
      0,
      "Both have events of their own" },
    { "a thread without a name, as its description stands at the end of the whole",
      { ONE("a.json", 0, 5, 1, 0, N, .named = true), ONE("b.json", 0, 5, 1, 0, N / 2) },
      2,
      "os",
      N,
      1,
      0,
      "b.json' has no other events than" },
    { "other arguments",
      { ONE("a.json", 0, 5, 1, 0, N, .arg = "x"), ONE("b.json", 0, 5, 1, 0, N, .arg = "y") },
      2,
      "oo",
      2 * N,
      2,
      0,
      "Both have events of their own" },
    { "cut within a span",
      { ONE("a.json", 0, 5, 1, 0, N / 2, .begin_end = true, .cut = true),
        ONE("b.json", 0, 5, 1, 0, N, .begin_end = true) },
      2,
      "io",
      N,
      1,
      0,
      "a.json' has no other events than" },
    { "cut before the last end",
      { ONE("a.json", 0, 5, 1, 0, N, .begin_end = true, .cut = true),
        ONE("b.json", 0, 5, 1, 0, N, .begin_end = true) },
      2,
      "io",
      N,
      1,
      0,
      "a.json' has no other events than" },
    { "a small part of a large file",
      { ONE("a.json", 0, 5, 1, 0, 40000), ONE("b.json", 0, 5, 1, 20000, 20008) },
      2,
      "os",
      40000,
      1,
      0,
      "b.json' has no other events than" },
    /* The process of each event counts. */
    { "another process than the two of a file",
      { ONE("a.json", -1, 5, 1, 0, N, .twin = 6), ONE("b.json", -1, 7, 1, 0, N) },
      2,
      "oo",
      3 * N,
      3,
      0,
      "Both have events of their own" },
    { "one of the two processes of a file",
      { ONE("a.json", -1, 5, 1, 0, N, .twin = 6), ONE("b.json", -1, 6, 1, 0, N) },
      2,
      "os",
      2 * N,
      2,
      0,
      "b.json' has no other events than" },
    { "a copy that states less",
      { ONE("a.json", -1, 5, 1, 0, N), ONE("b.json", 0, 5, 1, 0, N) },
      2,
      "so",
      N,
      1,
      0,
      "a.json' has no other events than" },
    /* If the files do not state a rank, the ranks in their names count. */
    { "ranks in the names",
      { ONE("rank0.json", -1, 5, 1, 0, N), ONE("rank1.json", -1, 5, 1, 0, N) },
      2,
      "oo",
      2 * N,
      2,
      0,
      "The names of the two state different processes" },
    { "ranks in the names of copies",
      { ONE("rank2.json", 0, 5, 1, 0, N), ONE("rank3.json", 0, 5, 1, 0, N) },
      2,
      "os",
      N,
      1,
      0,
      "rank3.json' has no other events than" },
    { "a rank in a file and another one in a name",
      { ONE("a.json", 1, 5, 1, 0, N), ONE("rank4.json", -1, 5, 1, 0, N) },
      2,
      "oo",
      2 * N,
      2,
      0,
      "The names of the two state different processes" },
    { "a rank in a file and the same in a name",
      { ONE("a.json", 4, 5, 1, 0, N), ONE("rank4.json", -1, 5, 1, 0, N) },
      2,
      "os",
      N,
      1,
      0,
      "rank4.json' has no other events than" },
    { "copies with a number",
      { ONE("w1.json", -1, 5, 1, 0, N), ONE("w2.json", -1, 5, 1, 0, N) },
      2,
      "os",
      N,
      1,
      0,
      "w2.json' has no other events than" },
    /* Windows of other jobs. */
    { "windows of two jobs, by their size",
      { ONE("a.json", 0, 1, 1, 0, N), ONE("b.json", 0, 1, 1, 0, N, .window = 1, .world = 8) },
      2,
      "oo",
      2 * N,
      2,
      0,
      "" },
    { "windows of two jobs, by their backend",
      { ONE("a.json", 0, 1, 1, 0, N),
        ONE("b.json", 0, 1, 1, 0, N, .window = 1, .backend = "gloo") },
      2,
      "oo",
      2 * N,
      2,
      0,
      "" },
    { "windows of two jobs, by their names",
      { ONE("job1-a.json", 0, 1, 1, 0, N), ONE("job2-a.json", 0, 1, 1, 0, N, .window = 1) },
      2,
      "oo",
      2 * N,
      2,
      0,
      "" },
    { "windows of two starts",
      { ONE("a.json", 0, 1, 1, 0, N, .base = 1700000000000000000),
        ONE("b.json", 0, 1, 1, 0, N, .base = 1700086400000000000) },
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

/* One file has the events of three others. All are so large that only a sample of each is compared,
 * and the events of the merged file are already on disk when it is recognised. */
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

/* The comparison must not take time that grows with the square of the number of files. The test
 * counts how often events are read again to compare them. */
TEST(a_thousand_files_are_compared_in_one_pass)
{
    enum { FILES = 1000, COPIES = 400, RANKS = 300 };
    one_file *files = calloc(FILES, sizeof(*files));
    char(*names)[16] = calloc(FILES, sizeof(*names));
    reading got;

    CHECK(files != NULL && names != NULL);
    for (int i = 0; i < FILES; i++) {
        bool copy = i < COPIES, rank = !copy && i < COPIES + RANKS;

        snprintf(names[i], sizeof(names[i]), "f%d.json", i);
        files[i] =
            (one_file) ONE(names[i], rank ? i : 0, 5, 1, 0, 10, .window = copy || rank ? 0 : i);
    }
    got = read_files(files, FILES, 1 << 20);
    CHECK_INT(got.skipped, COPIES - 1);
    CHECK_INT(got.processes, 1 + RANKS);
    CHECK_INT(got.pauses, FILES - COPIES - RANKS);
    CHECK_INT(got.events, (FILES - COPIES + 1) * 10);
    CHECK(got.compared >= COPIES && got.compared <= COPIES + 10);
    free(files);
    free(names);
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
