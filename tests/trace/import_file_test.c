/* Tests mrd_read_file with valid files, damaged files, and files of unknown formats. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"

#include "trace/import/import.h"

static const mrd_identity nowhere = MRD_IDENTITY_UNKNOWN;

#define CHROME "[{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2}"

static const struct {
    const char *name, *file, *text;
    mrd_input_state state;
    uint64_t events;
    const char *format, *error; /* error: part of the message */
} rows[] = {
    { "good", "a.json", CHROME "]", MRD_INPUT_OK, 1, "trace-event-json", "" },
    { "array without end", "a.json", CHROME, MRD_INPUT_OK, 1, "trace-event-json", "" },
    { "cut", "a.json", CHROME ",{\"ph\":", MRD_INPUT_INCOMPLETE, 1, "trace-event-json",
      "a.json': byte 60: the input ends where a value is expected" },
    { "a wrong type", "a.json", CHROME ",{\"ph\":\"X\",\"ts\":[]}]", MRD_INPUT_INCOMPLETE, 1,
      "trace-event-json", "a.json': byte 54: \"ts\" is no number" },
    { "nothing usable", "a.json", "[{\"ph\":\"X\",\"ts\":[]}]", MRD_INPUT_FAILED, 0,
      "trace-event-json", "a.json': byte 1: \"ts\" is no number" },
    { "no events", "a.json", "{\"traceEvents\":[]}", MRD_INPUT_FAILED, 0, "trace-event-json",
      "a.json' holds no events" },
    { "empty", "a.json", "", MRD_INPUT_FAILED, 0, "", "a.json' is empty" },
    { "other JSON", "a.json", "{\"a\":1}", MRD_INPUT_FAILED, 0, "",
      "a.json' is JSON, but none of the known kinds" },
    { "NTFF", "p.ntff", "\x01\x02\x03", MRD_INPUT_FAILED, 0, "", "convert it with" },
    { "NEFF", "p.neff", "\x01\x02\x03", MRD_INPUT_FAILED, 0, "",
      "is a compiled model, which has no events" },
    { "XSpace", "h.xplane.pb", "\x0a\x05hello", MRD_INPUT_FAILED, 0, "",
      "give the trace.json.gz that the JAX profiler writes beside it" },
    { "Perfetto", "any.name", "\x0a\x0f\x40\x07\x50\x01\x5a\x09\x48\x03\x58\x01\xba\x01\x02s1",
      MRD_INPUT_OK, 1, "perfetto", "" },
    { "cut Perfetto", "a.pftrace",
      "\x0a\x0f\x40\x07\x50\x01\x5a\x09\x48\x03\x58\x01\xba\x01\x02s1\x0a\x0f\x40\x07",
      MRD_INPUT_INCOMPLETE, 1, "perfetto", "a.pftrace' ends inside the packet at byte 17" },
    { "JSON by the name of Perfetto", "a.pftrace", CHROME "]", MRD_INPUT_OK, 1, "trace-event-json",
      "" },
    { "no Perfetto", "a.pftrace", "\x0a\x05hello", MRD_INPUT_FAILED, 0, "",
      "has the name of a Perfetto trace but is not one" },
    { "protobuf", "ntrace.pb", "\x0a\x05hello", MRD_INPUT_FAILED, 0, "",
      "a protobuf without a public schema" },
    { "text", "a.txt", "hello", MRD_INPUT_FAILED, 0, "", "has an unknown format" },
    { "byte order mark", "a.json", "\xef\xbb\xbf[]", MRD_INPUT_FAILED, 0, "",
      "begins with a byte order mark" },
    { "zip", "a.zip", "PK\3\4a.json", MRD_INPUT_FAILED, 0, "", "is a zip archive: unpack it" },
    { "xz", "a.json.xz",
      "\xfd"
      "7zXZ\1",
      MRD_INPUT_FAILED, 0, "", "is compressed by xz" },
    { "bzip2", "a.json.bz2", "BZh91AY", MRD_INPUT_FAILED, 0, "", "is compressed by bzip2" },
    { "UTF-16", "a.json", "\xff\xfe[\1", MRD_INPUT_FAILED, 0, "", "is text in UTF-16" },
    { "UTF-16 of the other order", "a.json", "\xfe\xff\1[", MRD_INPUT_FAILED, 0, "",
      "is text in UTF-16" },
    { "damaged gzip", "a.json.gz", "\x1f\x8b\x08garbage-garbage", MRD_INPUT_FAILED, 0, "",
      "a.json.gz': " },
    { "runtime trace", "fetch.json",
      "{\"events\":[{\"event_type\":\"x\",\"phase\":\"instant\",\"timestamp_ns\":5}],"
      "\"data_version\":2}",
      MRD_INPUT_OK, 1, "nrt-sys-trace", "" },
    { "another version", "fetch.json",
      "{\"data_version\":9,\"events\":[{\"event_type\":\"x\",\"timestamp_ns\":5}]}",
      MRD_INPUT_FAILED, 0, "nrt-sys-trace", "data_version 9, and only 2 is understood" },
    { "monitor", "monitor.txt",
      "{\"neuron_runtime_data\":[],\"system_data\":{\"memory_info\":{\"a\":1}}}", MRD_INPUT_OK, 1,
      "neuron-monitor", "" },
};

static uint64_t progress_calls, progress_done;

static void
progress(void *self, const char *path, uint64_t done, uint64_t total)
{
    (void) self;
    (void) path;
    CHECK(done <= total);
    progress_calls++;
    progress_done = done;
}

TEST(every_file_gets_an_input_that_says_what_became_of_it)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_read_options options = { .catalog = mrd_catalog_new(),
                                     .store = mrd_store_new(1 << 20, test_tmp()),
                                     .system = true,
                                     .progress = progress };
        size_t len = strlen(rows[i].text), n;
        const mrd_input *input;
        char path[512];
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", test_tmp(), rows[i].file);
        f = fopen(path, "w");
        fwrite(rows[i].text, 1, len, f);
        fclose(f);
        CHECK_ERR(rows[i].name, mrd_read_file(&options, path, &nowhere, NULL), MRD_OK);
        input = mrd_catalog_inputs(options.catalog, &n);
        CHECK_INT(n, 1);
        CHECK_ROW(rows[i].name, input->state == rows[i].state);
        CHECK_ROW(rows[i].name, input->events == rows[i].events);
        CHECK_ROW(rows[i].name, input->records == input->events + input->dropped);
        CHECK_TEXT(mrd_catalog_text(options.catalog, input->path).p, path);
        CHECK_ROW(rows[i].name,
                  mrd_str_is(mrd_catalog_text(options.catalog, input->format), rows[i].format));
        if (rows[i].error[0] == '\0')
            CHECK_ROW(rows[i].name, input->error == MRD_SID_EMPTY);
        else if (strstr(mrd_catalog_text(options.catalog, input->error).p, rows[i].error) == NULL)
            CHECK_TEXT(mrd_catalog_text(options.catalog, input->error).p, rows[i].error);
        CHECK_ROW(rows[i].name, mrd_store_streams(options.store) == (rows[i].events > 0));
        CHECK_ROW(rows[i].name, progress_done == len || input->events == 0);
        mrd_store_free(options.store);
        mrd_catalog_free(options.catalog);
    }
    CHECK(progress_calls >= MRD_COUNT(rows));
}

/* UTF-16 text without a byte order mark, and archives such as tar, are recognised by their bytes.
 * The error message names them and gives advice. */
TEST(containers_are_named)
{
    static const struct {
        const char *name;
        size_t at, len;
        const char *bytes, *advice;
    } texts[] = { { "u.json", 0, 4, "[\0{\0", "is text in UTF-16: convert it with" },
                  { "u.json", 0, 4, "\0{\0}", "is text in UTF-16: convert it with" },
                  { "a.tar", 257, 5, "ustar", "is a tar archive: unpack it with" },
                  { "a.tar", 256, 5, "ustar", "has an unknown format" } };

    for (size_t i = 0; i < MRD_COUNT(texts); i++) {
        mrd_read_options options = { .catalog = mrd_catalog_new(),
                                     .store = mrd_store_new(1 << 20, test_tmp()) };
        char path[512], text[512] = { 0 };
        const mrd_input *input;
        size_t n;
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", test_tmp(), texts[i].name);
        memcpy(text + texts[i].at, texts[i].bytes, texts[i].len);
        f = fopen(path, "w");
        fwrite(text, 1, sizeof(text), f);
        fclose(f);
        CHECK_ERR(texts[i].name, mrd_read_file(&options, path, &nowhere, NULL), MRD_OK);
        input = mrd_catalog_inputs(options.catalog, &n);
        CHECK_INT(n, 1);
        CHECK(strstr(mrd_catalog_text(options.catalog, input->error).p, texts[i].advice) != NULL);
        mrd_store_free(options.store);
        mrd_catalog_free(options.catalog);
    }
}

/* Progress is reported every 65536 events and at the end. */
TEST(progress_of_a_long_file_is_told)
{
    enum { EVENTS = 150000 };
    mrd_read_options options = { .catalog = mrd_catalog_new(),
                                 .store = mrd_store_new(64 << 20, test_tmp()),
                                 .system = true,
                                 .progress = progress };
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s/long.json", test_tmp());
    f = fopen(path, "w");
    REQUIRE(f != NULL);
    fputc('[', f);
    for (int i = 0; i < EVENTS; i++)
        fprintf(f, "%s{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":1}",
                i == 0 ? "" : ",", i);
    fputc(']', f);
    fclose(f);
    progress_calls = 0;
    CHECK_ERR("read", mrd_read_file(&options, path, &nowhere, NULL), MRD_OK);
    CHECK_INT(progress_calls, EVENTS / 65536 + 1);
    mrd_store_free(options.store);
    mrd_catalog_free(options.catalog);
}

/* The reader keeps events in temporary files. If such a file cannot be created, the error message
 * states the reason and a remedy. */
TEST(a_folder_for_events_that_cannot_be_written_is_said)
{
    enum { EVENTS = 120000 };

    /* With `pairs`, begins and ends must be joined. They wait for this in a store of their own. */
    for (int pairs = 0; pairs < 2; pairs++) {
        mrd_read_options options = { .catalog = mrd_catalog_new(),
                                     .store = mrd_store_new(1 << 20,
                                                            pairs ? test_tmp() : "/nowhere/at/all"),
                                     .system = true };
        mrd_err err;
        mrd_why why = { 0 };
        char path[512];
        const mrd_input *input;
        size_t n;
        FILE *f;

        snprintf(path, sizeof(path), "%s/room%d.json", test_tmp(), pairs);
        REQUIRE((f = fopen(path, "w")) != NULL);
        fputc('[', f);
        for (int i = 0; i < EVENTS; i++)
            fprintf(f, "%s{\"ph\":\"%c\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":%d}",
                    i == 0 ? "" : ",", pairs ? "BE"[i % 2] : 'i', i);
        fputc(']', f);
        fclose(f);
        REQUIRE(setenv("TMPDIR", "/nowhere/at/all", 1) == 0);
        err = mrd_read_file(&options, path, &nowhere, &why);
        REQUIRE(unsetenv("TMPDIR") == 0);
        input = mrd_catalog_inputs(options.catalog, &n);
        if (pairs) {
            CHECK_ERR("pairs", err, MRD_OK);
            CHECK_INT(input->state, MRD_INPUT_FAILED);
            snprintf(why.text, sizeof(why.text), MRD_STR_FMT,
                     MRD_STR_ARG(mrd_catalog_text(options.catalog, input->error)));
        } else {
            CHECK_ERR("instants", err, MRD_IO);
        }
        CHECK(strstr(why.text, path) != NULL);
        CHECK(strstr(why.text, "in /nowhere/at/all (set TMPDIR to another folder): No such file") !=
              NULL);
        mrd_store_free(options.store);
        mrd_catalog_free(options.catalog);
    }
}

TEST(a_file_that_is_not_there_is_a_failed_input)
{
    mrd_read_options options = { .catalog = mrd_catalog_new(),
                                 .store = mrd_store_new(1 << 20, test_tmp()),
                                 .system = true };
    size_t n;
    const mrd_input *input;

    CHECK_ERR("absent", mrd_read_file(&options, "/nowhere/x.json", &nowhere, NULL), MRD_OK);
    input = mrd_catalog_inputs(options.catalog, &n);
    CHECK_INT(input->state, MRD_INPUT_FAILED);
    CHECK_TEXT(mrd_catalog_text(options.catalog, input->error).p,
               "cannot open '/nowhere/x.json': No such file or directory");
    mrd_store_free(options.store);
    mrd_catalog_free(options.catalog);
}

/* A file that is given by its name, by another name and by a link is read once, with a note. If it
 * is given as a file of another process, it is read again. An input that is not a regular file is
 * never a duplicate. */
TEST(a_file_that_is_met_again_is_read_once)
{
    mrd_read_once once = { 0 };
    mrd_read_options options = { .catalog = mrd_catalog_new(),
                                 .store = mrd_store_new(1 << 20, test_tmp()),
                                 .system = true,
                                 .once = &once };
    mrd_identity other = nowhere;
    char path[512], hard[512], soft[512], fifo[512];
    size_t n;
    bool again;
    FILE *f;

    snprintf(path, sizeof(path), "%s/once.json", test_tmp());
    snprintf(hard, sizeof(hard), "%s/hard.json", test_tmp());
    snprintf(soft, sizeof(soft), "%s/soft.json", test_tmp());
    snprintf(fifo, sizeof(fifo), "%s/fifo", test_tmp());
    f = fopen(path, "w");
    fputs(CHROME "]", f);
    fclose(f);
    CHECK(link(path, hard) == 0 && symlink(path, soft) == 0 && mkfifo(fifo, 0600) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK_ERR("first", mrd_read_file(&options, path, &nowhere, NULL), MRD_OK);
        CHECK_ERR("hard", mrd_read_file(&options, hard, &nowhere, NULL), MRD_OK);
        CHECK_ERR("soft", mrd_read_file(&options, soft, &nowhere, NULL), MRD_OK);
    }
    (void) mrd_catalog_inputs(options.catalog, &n);
    CHECK_INT(n, 1);
    other.process_id = 5;
    CHECK_ERR("other", mrd_read_file(&options, hard, &other, NULL), MRD_OK);
    (void) mrd_catalog_inputs(options.catalog, &n);
    CHECK_INT(n, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_ERR("folder", mrd_read_once_check(&once, test_tmp(), &nowhere, &again), MRD_OK);
        CHECK_INT(again, i > 0);
        CHECK_ERR("fifo", mrd_read_once_check(&once, fifo, &nowhere, &again), MRD_OK);
        CHECK(!again);
        CHECK_ERR("nothing", mrd_read_once_check(&once, "/nowhere", &nowhere, &again), MRD_OK);
        CHECK(!again);
    }
    CHECK_INT(once.again, 6);
    CHECK_ERR("end", mrd_read_once_end(&once, options.catalog, options.store), MRD_OK);
    CHECK(mrd_str_starts(mrd_catalog_note_at(options.catalog, 0), "read once: 6 files or folders"));
    memset(&once, 0, sizeof(once));
    for (int i = 0; i < 2; i++)
        CHECK_ERR("folder", mrd_read_once_check(&once, test_tmp(), &nowhere, &again), MRD_OK);
    CHECK_ERR("end", mrd_read_once_end(&once, options.catalog, options.store), MRD_OK);
    CHECK(mrd_str_ends(mrd_catalog_note_at(options.catalog, 1),
                       " was given twice or is met again through a link"));
    mrd_store_free(options.store);
    mrd_catalog_free(options.catalog);
}

TEST(an_epoch_behind_the_events_moves_them)
{
    mrd_read_options options = { .catalog = mrd_catalog_new(),
                                 .store = mrd_store_new(1 << 20, test_tmp()),
                                 .system = true };
    mrd_ev_ns first = { 0 }, last = { 0 };
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s/kineto.json", test_tmp());
    f = fopen(path, "w");
    fputs("{\"schemaVersion\":1,\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,"
          "\"ts\":4203669603069.091,\"dur\":2}],\"baseTimeNanoseconds\":1735632360000000000}",
          f);
    fclose(f);
    CHECK_ERR("read", mrd_read_file(&options, path, &nowhere, NULL), MRD_OK);
    REQUIRE(mrd_store_streams(options.store) == 1);
    CHECK(mrd_stream_range(mrd_store_at(options.store, 0), &first, &last));
    CHECK_INT(first.ns, 1739836029603069091);
    CHECK_INT(last.ns, 1739836029603071091);
    mrd_store_free(options.store);
    mrd_catalog_free(options.catalog);
}

/* ---- More names than a file may have ---- */

#define MANY 24000

/* Writes `n` spans, each with its own name of 1,000 characters. */
static void
write_names(const char *path, unsigned n, const char *word)
{
    FILE *f = fopen(path, "w");

    fputs("[", f);
    for (unsigned i = 0; i < n; i++)
        fprintf(f,
                "%s{\"ph\":\"X\",\"name\":\"%s-%0990u\",\"pid\":1,\"tid\":1,\"ts\":%u,\"dur\":1}",
                i == 0 ? "" : ",", word, i, i);
    fputs("]", f);
    fclose(f);
}

static const mrd_input *
read_names(const mrd_read_options *options, unsigned n, const char *word)
{
    char path[512];
    size_t inputs;

    snprintf(path, sizeof(path), "%s/%s.json", test_tmp(), word);
    write_names(path, n, word);
    CHECK_ERR(word, mrd_read_file(options, path, &nowhere, NULL), MRD_OK);
    CHECK(mrd_catalog_inputs(options->catalog, &inputs) != NULL);
    return mrd_catalog_inputs(options->catalog, &inputs) + inputs - 1;
}

static bool
has_name(const mrd_catalog *cat, const char *word, unsigned i)
{
    char name[1100];

    snprintf(name, sizeof(name), "%s-%0990u", word, i);
    return mrd_strtab_find(mrd_catalog_strings(cat), mrd_str_of(name)) != 0;
}

TEST(names_of_one_file_are_bounded_and_that_is_said)
{
    mrd_read_options options = { .catalog = mrd_catalog_new(),
                                 .store = mrd_store_new(8 << 20, test_tmp()),
                                 .system = true };
    const mrd_input *input = read_names(&options, MANY, "hostile");
    unsigned kept = 0;
    char times[64];

    CHECK(input->state == MRD_INPUT_INCOMPLETE); /* so status 3 */
    CHECK(input->events == MANY && input->dropped == 0);
    while (kept < MANY && has_name(options.catalog, "hostile", kept))
        kept++;
    CHECK(kept > 15000 && kept < (16u << 20) / 1000);
    snprintf(times, sizeof(times), "%u times a name stands as '(too many", MANY - kept);
    CHECK(strstr(mrd_catalog_text(options.catalog, input->error).p, times) != NULL);

    input = read_names(&options, 1000, "ordinary"); /* the next file must keep all of its names */
    CHECK(input->state == MRD_INPUT_OK && input->error == MRD_SID_EMPTY);
    CHECK(has_name(options.catalog, "ordinary", 0) && has_name(options.catalog, "ordinary", 999));
    for (unsigned i = 0; i < 4; i++) /* until the space is used up, except for messages about it */
        input = read_names(&options, MANY, (const char *[]){ "b", "c", "d", "e" }[i]);
    CHECK(input->state == MRD_INPUT_INCOMPLETE && input->events == MANY);
    CHECK(strstr(mrd_catalog_text(options.catalog, input->error).p, "e.json': ") != NULL);
    mrd_store_free(options.store);
    mrd_catalog_free(options.catalog);
}

TEST(what_is_not_wanted_is_not_stored)
{
    mrd_read_options options = { .catalog = mrd_catalog_new(),
                                 .store = mrd_store_new(1 << 20, test_tmp()),
                                 .device = true };
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s/a.json", test_tmp());
    f = fopen(path, "w");
    fputs(CHROME, f);
    fclose(f);
    CHECK_ERR("read", mrd_read_file(&options, path, &nowhere, NULL), MRD_OK);
    CHECK_INT(mrd_store_streams(options.store), 0);
    mrd_store_free(options.store);
    mrd_catalog_free(options.catalog);
}

TEST_MAIN()
