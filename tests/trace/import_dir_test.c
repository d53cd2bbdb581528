/* Tests mrd_read_dir on generated directories: the meaning of each file name, and which files are
 * read, listed or ignored. Every file must be reported. Hashes are compared with sha256sum. */
#include "tests/check.h"

#include <sys/stat.h>

#include "base/sys/out.h"
#include "tests/protobuf.h"
#include "tests/watcher.h"
#include "trace/import/import.h"

/* One instant. */
#define PERFETTO "\x0a\x0f\x40\x07\x50\x01\x5a\x09\x48\x03\x58\x01\xba\x01\x02s1"
#define CHROME   "[{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2}]"
#define NRT                                                                                        \
    "{\"data_version\":2,\"events\":[{\"event_type\":\"x\",\"phase\":\"instant\","                 \
    "\"timestamp_ns\":5}]}"

typedef struct {
    mrd_read_options o;
    char dir[200], notes[4000];
    size_t inputs, artifacts;
    const mrd_input *input;
    const mrd_artifact *artifact;
} reading;

static reading
reading_new(const char *name)
{
    reading r = { .inputs = 0 };

    r.o = (mrd_read_options){ .catalog = mrd_catalog_new(),
                              .store = mrd_store_new(1 << 20, test_tmp()),
                              .system = true,
                              .device = true,
                              .vendor_tool = "" };
    snprintf(r.dir, sizeof(r.dir), "%s/%s", test_tmp(), name);
    return r;
}

static void
reading_free(reading *r)
{
    mrd_store_free(r->o.store);
    mrd_catalog_free(r->o.catalog);
}

static void
put(const reading *r, const char *name, const char *text)
{
    char path[500];

    snprintf(path, sizeof(path), "%s/%s", r->dir, name);
    *strrchr(path, '/') = '\0';
    CHECK_ERR(path, mrd_make_dirs(path, NULL), MRD_OK);
    snprintf(path, sizeof(path), "%s/%s", r->dir, name);
    CHECK_ERR(name,
              mrd_write_file(path, (mrd_bytes){ (const uint8_t *) text, strlen(text) }, 0600, NULL),
              MRD_OK);
}

static void
read_all(reading *r)
{
    mrd_why why = { 0 };

    CHECK_ERR(r->dir, mrd_read_dir(&r->o, r->dir, &why), MRD_OK);
    r->input = mrd_catalog_inputs(r->o.catalog, &r->inputs);
    r->artifact = mrd_catalog_artifacts(r->o.catalog, &r->artifacts);
    r->notes[0] = '\0';
    for (size_t i = 0; i < mrd_catalog_notes(r->o.catalog); i++) {
        size_t len = strlen(r->notes);

        snprintf(r->notes + len, sizeof(r->notes) - len, MRD_STR_FMT "\n",
                 MRD_STR_ARG(mrd_catalog_note_at(r->o.catalog, i)));
    }
}

static const mrd_artifact *
artifact(const reading *r, const char *name)
{
    for (size_t i = 0; i < r->artifacts; i++)
        if (mrd_str_ends(mrd_catalog_text(r->o.catalog, r->artifact[i].path), name))
            return &r->artifact[i];
    return NULL;
}

static bool
hash_is_right(const reading *r, const mrd_artifact *a)
{
    char command[700], got[65] = "";
    FILE *f;

    snprintf(command, sizeof(command), "sha256sum '%s'", mrd_catalog_text(r->o.catalog, a->path).p);
    if ((f = popen(command, "r")) == NULL)
        return false;
    (void) !fread(got, 1, 64, f);
    pclose(f);
    return strcmp(got, a->sha256) == 0;
}

/* Artifacts are files in the vendor's formats, such as NTFF. Without the vendor's tool they are not
 * decoded. They are listed with the node, process and core that their directory and name state. */
TEST(artifacts_are_hashed_and_listed)
{
    static const struct {
        const char *name, *kind, *instance;
        int64_t pid, nc;
    } rows[] = {
        { "i-0a_pid_47/p_nc_2_session_3.ntff", "NTFF", "i-0a", 47, 2 },
        { "i-0a_pid_47/2025/p_vnc_1.neff", "NEFF", "i-0a", 47, 1 },
        { "i-0b_pid_0/ntrace.pb", "ntrace.pb", "i-0b", 0, MRD_NONE },
        { "i-0b_pid_0/trace_info.pb", "trace_info.pb", "i-0b", 0, MRD_NONE },
        { "i-0b_pid_0/cpu_util.pb", "cpu_util.pb", "i-0b", 0, MRD_NONE },
        { "i-0b_pid_0/host_mem.pb", "host_mem.pb", "i-0b", 0, MRD_NONE },
        { "i-0b_pid_x/other.pb", "protobuf", "", MRD_NONE, MRD_NONE },
        { "_pid_5/x.pb", "protobuf", "", MRD_NONE, MRD_NONE },
        { "i-0c_pid_9_more/y.pb", "protobuf", "", MRD_NONE, MRD_NONE },
        { "i-0c_pid_9_nc_0_z.pb", "protobuf", "i-0c", 9, 0 },
        { "i-0123abcd-9/17/z.pb", "protobuf", "i-0123abcd", 9, MRD_NONE },
        { "2025-9/z.pb", "protobuf", "", MRD_NONE, MRD_NONE },
        { "i-0d_pid_8/i-0e_pid_7.pb", "protobuf", "i-0e", 7, MRD_NONE },
    };
    reading r = reading_new("artifacts");

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        put(&r, rows[i].name, rows[i].name);
    read_all(&r);
    CHECK_INT(r.artifacts, MRD_COUNT(rows));
    CHECK_INT(r.inputs, 0);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const mrd_artifact *a = artifact(&r, rows[i].name);

        CHECK_ROW(rows[i].name, a != NULL);
        if (a == NULL)
            continue;
        CHECK_TEXT(mrd_catalog_text(r.o.catalog, a->kind).p, rows[i].kind);
        CHECK_TEXT(mrd_catalog_text(r.o.catalog, a->instance_id).p, rows[i].instance);
        CHECK_INT(a->process_id, rows[i].pid);
        CHECK_INT(a->nc_idx, rows[i].nc);
        CHECK_INT(a->size, strlen(rows[i].name));
        CHECK_INT(a->decoded_by, MRD_SID_EMPTY);
        CHECK_ROW(rows[i].name, hash_is_right(&r, a));
    }
    CHECK_ROW(r.notes,
              strstr(r.notes, "not decoded: 1 NTFF with 1 NEFF and 11 .pb files in ") != NULL);
    CHECK_ROW(r.notes, strstr(r.notes, "not read") == NULL);
    reading_free(&r);
}

/* The directory already has JSON exports of some captures. Only captures without an export are
 * reported as not decoded. */
TEST(what_is_not_decoded_is_told)
{
    static const struct {
        const char *name, *files[4], *says; /* NULL: nothing */
        bool system, device;
    } rows[] = {
        { "both", { "a.ntff", "b.pb" }, "1 NTFF with 0 NEFF and 1 .pb files", true, true },
        { "only the device", { "a.ntff", "a.neff" }, "1 NTFF with 1 NEFF in", true, true },
        { "only the system", { "b.pb", "c.pb" }, "not decoded: 2 .pb files in", true, true },
        { "a NEFF alone", { "a.neff" }, NULL, true, true },
        { "not wanted", { "a.ntff", "b.pb" }, NULL, false, false },
        { "device not wanted", { "a.ntff", "b.pb" }, "not decoded: 1 .pb files in", true, false },
        { "system not wanted", { "a.ntff", "b.pb" }, "1 NTFF with 0 NEFF in", false, true },
        { "the system is there",
          { "a.ntff", "b.pb", "system_profile.json" },
          "1 NTFF with 0 NEFF in",
          true,
          true },
        { "the device is there",
          { "a.ntff", "b.pb", "x_nc_0.json" },
          "1 .pb files in",
          true,
          true },
        { "both are there",
          { "a.ntff", "b.pb", "device_profile_1.json", "system_profile.json" },
          NULL,
          true,
          true },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char name[20];
        reading r;

        snprintf(name, sizeof(name), "told%zu", i);
        r = reading_new(name);
        r.o.system = rows[i].system;
        r.o.device = rows[i].device;
        for (size_t k = 0; k < MRD_COUNT(rows[i].files) && rows[i].files[k] != NULL; k++)
            put(&r, rows[i].files[k], strstr(rows[i].files[k], "json") != NULL ? CHROME : "x");
        read_all(&r);
        if (rows[i].says == NULL)
            CHECK_ROW(rows[i].name, strstr(r.notes, "not decoded") == NULL);
        else
            CHECK_ROW(rows[i].name, strstr(r.notes, rows[i].says) != NULL);
        reading_free(&r);
    }
}

/* Writes a file with an XSpace of one event. XSpace is the XLA profiler's format. */
static void
put_space(const reading *r, const char *name)
{
    mrd_buf space = { 0 }, plane = { 0 }, line = { 0 }, event = { 0 };
    char path[500];

    pb_text(&plane, 2, "/host:CPU");
    pb_text(&line, 2, "python");
    pb_number(&event, 1, 1);
    pb_number(&event, 2, 5000);
    pb_number(&event, 3, 7000);
    pb_close_into(&line, 4, &event);
    pb_close_into(&plane, 3, &line);
    pb_xplane_name(&plane, 4, 1, "step");
    pb_close_into(&space, 1, &plane);
    put(r, name, "");
    snprintf(path, sizeof(path), "%s/%s", r->dir, name);
    CHECK_ERR(name, mrd_write_file(path, (mrd_bytes){ space.p, space.len }, 0600, NULL), MRD_OK);
    mrd_buf_fini(&space);
}

/* The XLA profiler writes the events of a host into two files, an XSpace and a JSON file. They are
 * read once, from the XSpace, because only the XSpace has the absolute time. A JSON file of another
 * host is not such a copy. A JSON file is never listed as an artifact that the vendor's tool could
 * decode. */
TEST(an_xspace_is_read_and_its_json_is_not)
{
    static const char *const beside[] = { NULL,
                                          "run/host.trace.json",
                                          "run/host.trace.json.gz",
                                          "run/other.trace.json.gz",
                                          "run/else.json",
                                          "other/host.trace.json" };

    for (size_t i = 0; i < MRD_COUNT(beside); i++) {
        bool is_twice = i == 1 || i == 2, space = false;
        uint64_t events = 0;
        char name[20];
        reading r;

        snprintf(name, sizeof(name), "xspace%zu", i);
        r = reading_new(name);
        put_space(&r, "run/host.xplane.pb");
        put(&r, "run/a.pb", "x");
        if (beside[i] != NULL)
            put(&r, beside[i], CHROME);
        read_all(&r);
        for (size_t k = 0; k < r.inputs; k++) {
            mrd_str path = mrd_catalog_text(r.o.catalog, r.input[k].path);

            events += r.input[k].events;
            space = space || mrd_str_ends(path, "host.xplane.pb");
        }
        CHECK(space);
        CHECK_INT(events, 1 + (beside[i] != NULL && !is_twice));
        CHECK_ROW(r.notes, (strstr(r.notes, "not read: 1 JSON file of the XLA profiler") != NULL) ==
                               is_twice);
        CHECK(artifact(&r, "host.xplane.pb") != NULL && artifact(&r, "a.pb") != NULL);
        CHECK_ROW(r.notes, strstr(r.notes, "not decoded: 1 .pb files in ") != NULL);
        reading_free(&r);
    }
}

/* If an XSpace may exceed the size limit, its JSON file is read instead. */
TEST(a_large_xspace_is_left_to_its_json)
{
    uint64_t events = 0;
    char path[500];
    reading r = reading_new("large");

    put(&r, "run/host.xplane.pb", "");
    snprintf(path, sizeof(path), "%s/run/host.xplane.pb", r.dir);
    REQUIRE(truncate(path, (256 << 20) + 1) == 0); /* a hole */
    put(&r, "run/host.trace.json", CHROME);
    read_all(&r);
    for (size_t k = 0; k < r.inputs; k++)
        events += r.input[k].events;
    CHECK_INT(r.inputs, 1);
    CHECK_INT(events, 1);
    reading_free(&r);
}

/* Traces are recognised by their contents. The other files are counted, by the reason why they are
 * ignored. */
TEST(every_file_is_read_or_told)
{
    reading r = reading_new("files");
    struct stat st;
    mrd_strlist earlier = { 0 };
    char path[300];
    size_t failed = 0;

    put(&r, "i-0a_pid_47/trace.json", CHROME);
    put(&r, "i-0a_pid_47/without-suffix", NRT);
    put(&r, "broken.json", "{\"a\":");
    put(&r, "readme.md", "hello");
    put(&r, "sub/deeper/notes", "hello again");
    put(&r, ".hidden.json", CHROME);
    put(&r, ".git/trace.json", CHROME);
    put(&r, "system_profile.pftrace", "any");
    put(&r, "of-a-program.pftrace", PERFETTO);
    put(&r, "of-pytorch.pftrace", CHROME); /* its content decides */
    put(&r, "our.json", "{\"meridian\":{},\"traceEvents\":[]}");
    put(&r, "summary.txt", "any");
    put(&r, "report.txt", "any");
    put(&r, "session.json", "{\"id\":\"20261121-x\",\"release\":\"0.1.0\"}");
    put(&r, "sub/session.json", "{\"of\":\"another program\"}");
    put(&r, "sub/my_session.json", "{\"release\":\"0.1.0\"}");
    put(&r, "old/trace.json", CHROME);
    put(&r, "old/new.json", CHROME);
    snprintf(path, sizeof(path), "%s/link.json", r.dir);
    CHECK(symlink("/nonexistent/file", path) == 0);
    read_all(&r);
    CHECK_INT(r.inputs, 8); /* six valid traces, a broken one, and a missing one */
    for (size_t i = 0; i < r.inputs; i++)
        failed += r.input[i].state == MRD_INPUT_FAILED;
    CHECK_INT(failed, 2);
    CHECK_ROW(r.notes, strstr(r.notes, "not read: 4 files of unknown kind in ") != NULL);
    CHECK_ROW(r.notes,
              strstr(r.notes, "(first: ") != NULL && strstr(r.notes, "readme.md)") != NULL);
    CHECK_ROW(r.notes, strstr(r.notes, "not read: 5 results of Meridian in ") != NULL);
    CHECK_ROW(r.notes, strstr(r.notes, "earlier runs") == NULL);
    reading_free(&r);

    /* The entry `old` of the directory existed before this run. Only files in `old` that are newer
     * than the begin of this run are read. */
    r = reading_new("files");
    snprintf(path, sizeof(path), "%s/old/trace.json", r.dir);
    REQUIRE(stat(path, &st) == 0 && mrd_strlist_add(&earlier, MRD_STR("old")) == MRD_OK);
    r.o.earlier = &earlier;
    r.o.earlier_than.ns = (int64_t) st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
    read_all(&r);
    CHECK_INT(r.inputs, 8); /* files of the same time belong to this run */
    reading_free(&r);
    r = reading_new("files");
    snprintf(path, sizeof(path), "%s/old/new.json", r.dir);
    REQUIRE(stat(path, &st) == 0);
    r.o.earlier = &earlier;
    r.o.earlier_than.ns = (int64_t) st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec + 1;
    read_all(&r);
    CHECK_INT(r.inputs, 6);
    CHECK_ROW(r.notes, strstr(r.notes, "not read: 2 files of earlier runs in ") != NULL);
    reading_free(&r);
    mrd_strlist_fini(&earlier);
}

/* If the directory has no files, a note says that there is nothing to read. */
TEST(a_directory_without_files_is_named)
{
    reading r = reading_new("empty");

    CHECK_ERR(r.dir, mrd_make_dirs(r.dir, NULL), MRD_OK);
    read_all(&r);
    CHECK_INT(r.inputs, 0);
    CHECK_ROW(r.notes, strstr(r.notes, "nothing to read: ") != NULL);
    CHECK_ROW(r.notes, strstr(r.notes, "empty has no files") != NULL);
    reading_free(&r);
    r = reading_new("empty");
    put(&r, "sub/rank0.json", CHROME);
    read_all(&r);
    CHECK_ROW(r.notes, strstr(r.notes, "nothing to read") == NULL);
    reading_free(&r);
}

/* The directory of a job contains other files, too. JSON of another kind and a temporary copy of a
 * file are only mentioned in notes. Damaged JSON, an empty file and a temporary file without its
 * final file are inputs, because they may be lost traces. */
TEST(other_files_of_a_job_are_no_failures)
{
    reading r = reading_new("job");
    size_t failed = 0;

    put(&r, "rank0.json", CHROME);
    put(&r, "rank0.json.tmp", "[{\"ph\":\"X\",");
    put(&r, "rank1.json.tmp", CHROME);
    put(&r, "config.json", "{\"lr\": 0.1, \"clip\": Infinity}");
    put(&r, "metrics.jsonl", "{\"loss\": 3}\n{\"loss\": NaN}\n");
    put(&r, "ids.json", "[1, 2, 3]");
    put(&r, "name.json", "\"run 7\"\n");
    put(&r, "cut.json", "{\"lr\": 0.1, ");
    put(&r, "empty.json", "");
    read_all(&r);
    CHECK_INT(r.inputs, 4);
    for (size_t i = 0; i < r.inputs; i++)
        failed += r.input[i].state == MRD_INPUT_FAILED;
    CHECK_INT(failed, 2);
    CHECK_ROW(r.notes, strstr(r.notes, "not read: 4 files of unknown kind in ") != NULL);
    CHECK_ROW(r.notes, strstr(r.notes, "not read: 1 temporary copy of files in ") != NULL);
    CHECK_ROW(r.notes, strstr(r.notes, "rank0.json.tmp)") != NULL);
    reading_free(&r);
}

/* A file that Meridian wrote is a result and is not read as an input. It is recognised by the
 * member "meridian", which must begin within the first 256 bytes. */
TEST(a_result_is_known_by_its_first_bytes)
{
    for (int behind = 0; behind < 2; behind++) {
        reading r = reading_new(behind ? "behind" : "before");
        char text[400];

        snprintf(text, sizeof(text), "{%*s\"meridian\":\"x\",\"traceEvents\":" CHROME "}",
                 256 - 1 - 10 + behind, "");
        put(&r, "a.json", text);
        read_all(&r);
        CHECK((strstr(r.notes, " of Meridian in ") != NULL) == !behind);
        reading_free(&r);
    }
}

/* A trace in a directory that is too deep is reported. */
TEST(folders_that_are_too_deep_are_told)
{
    for (int depth = 16; depth <= 17; depth++) {
        reading r = reading_new(depth == 16 ? "deep" : "deeper");
        char name[100] = "";

        for (int i = 0; i < depth; i++)
            strcat(name, "d/");
        strcat(name, "trace.json");
        put(&r, name, CHROME);
        read_all(&r);
        CHECK_INT(r.inputs, 1);
        CHECK_INT(r.input[0].state, depth == 16 ? MRD_INPUT_OK : MRD_INPUT_FAILED);
        CHECK(depth == 16 || strstr(mrd_catalog_text(r.o.catalog, r.input[0].error).p,
                                    "more than 16 below") != NULL);
        reading_free(&r);
    }
}

/* The argument may be the directory of a single process, with any number of slashes at the end.
 * Node and process are then taken from its name. */
TEST(a_process_folder_may_be_named_itself)
{
    static const char *const ends[] = { "", "/", "///" };

    for (size_t i = 0; i < MRD_COUNT(ends); i++) {
        reading r = reading_new("i-0f_pid_31");

        put(&r, "x.pb", "x");
        snprintf(r.dir + strlen(r.dir), sizeof(r.dir) - strlen(r.dir), "%s", ends[i]);
        read_all(&r);
        CHECK_INT(r.artifacts, 1);
        CHECK_TEXT(mrd_catalog_text(r.o.catalog, r.artifact[0].instance_id).p, "i-0f");
        CHECK_INT(r.artifact[0].process_id, 31);
        reading_free(&r);
    }
}

#define DEEP "d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d" /* the maximum depth */

/* With a tool that decodes artifacts, the tool is started and its JSON output is read. Each
 * artifact then states the name of the tool that decoded it. */
TEST(a_tool_decodes_artifacts)
{
    static const struct {
        const char *name, *body, *says;
        size_t inputs;
    } rows[] = {
        { "good", "printf '%s' '" CHROME "' > system_profile.json", NULL, 1 },
        { "deep", "mkdir -p " DEEP "; printf '%s' '" CHROME "' > " DEEP "/system_profile.json",
          NULL, 1 },
        { "nothing", "true", "ended without error but wrote no JSON", 1 },
        { "failed", "echo broken; exit 2", "ended with exit status 2: broken", 1 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char tool[300], text[600];
        reading r = reading_new(rows[i].name);

        put(&r, "b.pb", "x");
        snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", rows[i].body);
        snprintf(tool, sizeof(tool), "%s/tool%zu", test_tmp(), i);
        CHECK_ERR(
            "tool",
            mrd_write_file(tool, (mrd_bytes){ (const uint8_t *) text, strlen(text) }, 0700, NULL),
            MRD_OK);
        r.o.vendor_tool = tool;
        r.o.vendor_timeout_ms = 60000;
        read_all(&r);
        CHECK_INT(r.inputs, rows[i].inputs);
        CHECK_INT(r.artifacts, 1);
        CHECK_TEXT(mrd_catalog_text(r.o.catalog, r.artifact[0].decoded_by).p,
                   rows[i].says == NULL ? tool : "");
        CHECK_ROW(rows[i].name,
                  r.input[0].state == (rows[i].says == NULL ? MRD_INPUT_OK : MRD_INPUT_FAILED));
        CHECK_ROW(rows[i].name,
                  rows[i].says == NULL ||
                      strstr(mrd_catalog_text(r.o.catalog, r.input[0].error).p, rows[i].says));
        CHECK_ROW(rows[i].name, strstr(r.notes, "not decoded") == NULL);
        reading_free(&r);
    }
}

/* A profile is read from two directories, and only the second is read with a tool. Only the
 * artifacts of the second directory are decoded by the tool. */
TEST(a_tool_decodes_the_artifacts_of_its_folder)
{
    static const char text[] = "#!/bin/sh\nprintf '%s' '" CHROME "' > system_profile.json\n";
    reading r = reading_new("first");
    char tool[300];

    put(&r, "a.pb", "x");
    put(&r, "b.ntff", "x");
    read_all(&r);
    CHECK_INT(r.artifacts, 2);
    snprintf(tool, sizeof(tool), "%s/tool_of_one", test_tmp());
    CHECK_ERR("tool",
              mrd_write_file(tool, (mrd_bytes){ (const uint8_t *) text, strlen(text) }, 0700, NULL),
              MRD_OK);
    r.o.vendor_tool = tool;
    r.o.vendor_timeout_ms = 60000;
    snprintf(r.dir, sizeof(r.dir), "%s/second", test_tmp());
    put(&r, "c.pb", "x");
    read_all(&r);
    CHECK_INT(r.artifacts, 3);
    for (size_t i = 0; i < r.artifacts; i++)
        CHECK_TEXT(mrd_catalog_text(r.o.catalog, r.artifact[i].decoded_by).p, i < 2 ? "" : tool);
    reading_free(&r);
}

/* Profiles that Meridian wrote are read as inputs if the directory contains no other inputs. Each
 * profile is read once, even if the directory has it in two formats. */
TEST(own_profiles_are_read_where_nothing_else_is)
{
    static const char own[] = "{\"meridian\":{\"format\":\"system_profile\"},\"trace_events\":["
                              "{\"name\":\"a\",\"timestamp\":5,\"duration\":2,\"type\":11,"
                              "\"instance_id\":\"i-0a\",\"process_id\":\"1\",\"thread_id\":1}]}";
    static const char chrome[] =
        "{\"meridian\":{},\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,"
        "\"tid\":1,\"ts\":1,\"dur\":2}]}";
    static const char *const want[] = { "one/system_profile.json", "three/system_profile.2.pftrace",
                                        "three/system_profile.pftrace",
                                        "two/system_profile.trace.json" };
    reading r = reading_new("own");

    put(&r, "one/system_profile.pftrace", "any");
    put(&r, "one/profile.sqlite", "any");
    put(&r, "one/report.json", "{\"meridian\":{}}");
    put(&r, "one/system_profile.overview.json", "{\"meridian\":{}}");
    put(&r, "one/system_profile/_manifest.json", "{\"format\": \"meridian tables\"}");
    put(&r, "one/system_profile/CpuUsage.parquet", "PAR1");
    read_all(&r);
    CHECK_INT(r.inputs, 0);
    CHECK_ROW(r.notes, strstr(r.notes, "--output-format json") != NULL);
    CHECK_ROW(r.notes, strstr(r.notes, "unknown kind") == NULL);
    reading_free(&r);

    r = reading_new("own");
    put(&r, "one/system_profile.json", own);
    put(&r, "one/system_profile.pftrace", PERFETTO);
    put(&r, "one/system_profile.trace.json", chrome);
    put(&r, "two/system_profile.trace.json", chrome);
    put(&r, "three/system_profile.trace.json", chrome);
    put(&r, "three/system_profile.pftrace", PERFETTO);
    put(&r, "three/system_profile.2.pftrace", PERFETTO);
    read_all(&r);
    REQUIRE(r.inputs == MRD_COUNT(want));
    for (size_t i = 0; i < MRD_COUNT(want); i++) {
        mrd_str path = mrd_catalog_text(r.o.catalog, r.input[i].path);

        CHECK_ROW(path.p, mrd_str_ends(path, want[i]));
        CHECK_INT(r.input[i].events, 1);
    }
    CHECK_ROW(r.notes, strstr(r.notes, "not read") == NULL);
    reading_free(&r);

    r = reading_new("own");
    put(&r, "one/trace.json", CHROME);
    read_all(&r);
    REQUIRE(r.inputs == 1);
    CHECK(strstr(mrd_catalog_text(r.o.catalog, r.input[0].path).p, "one/trace.json") != NULL);
    CHECK_ROW(r.notes, strstr(r.notes, "name one as a file to read it") != NULL);
    reading_free(&r);
}

TEST(what_is_no_folder)
{
    reading r = reading_new("none");
    mrd_why why = { 0 };

    CHECK_ERR("nothing", mrd_read_dir(&r.o, r.dir, &why), MRD_NOTFOUND);
    CHECK(strstr(why.text, r.dir) != NULL);
    put(&r, "file", "x");
    snprintf(r.dir, sizeof(r.dir), "%s/none/file", test_tmp());
    CHECK_ERR("file", mrd_read_dir(&r.o, r.dir, &why), MRD_INVALID);
    CHECK(strstr(why.text, "without -d") != NULL);
    reading_free(&r);
}

TEST_MAIN()
