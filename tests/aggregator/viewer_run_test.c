/* Tests the commands that run the vendor's viewer, and which of its files are results. Shell
 * commands take the place of the viewer. */
#include "aggregator/viewer/converter_run.h"

#include "aggregator/core/common/conversion.h"
#include "base/sys/out.h"
#include "tests/check.h"
#include "tests/watcher.h"

static const char *
script(const char *body)
{
    static char path[300];
    char text[2000];

    snprintf(path, sizeof(path), "%s/neuron-explorer", test_tmp());
    snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", body);
    CHECK_ERR(path,
              mrd_write_file(path, (mrd_bytes){ (const uint8_t *) text, strlen(text) }, 0700, NULL),
              MRD_OK);
    return path;
}

TEST(commands_of_settings)
{
    static const struct {
        const char *name, *command, *tables;
        mrd_err err;
        const char *first, *second; /* "" if not made; NULL if made */
    } rows[] = {
        { "nothing", NULL, NULL, MRD_OK, "", "" },
        { "none", "none", NULL, MRD_OK, "", "" },
        { "a program", "/x/neuron-explorer", NULL, MRD_OK, NULL, NULL },
        { "an old program", "/x/neuron-profile", NULL, MRD_OK, NULL, "" },
        { "no tables", "/x/neuron-explorer", "none", MRD_OK, NULL, "" },
        { "a command", "v -i {input}", NULL, MRD_OK, "v -i {input}", "" },
        { "two", "v {input}", "t {input} {output}", MRD_OK, "v {input}", "t {input} {output}" },
        { "no input", "v -x y", NULL, MRD_INVALID, NULL, NULL },
        { "tables without", "v {input}", "t", MRD_INVALID, NULL, NULL },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_converter_settings s = { .command = rows[i].command, .tables = rows[i].tables };
        const char *want[2] = { rows[i].first, rows[i].second };
        mrd_converter_commands c = { 0 };
        mrd_why why = { 0 };

        CHECK_ERR(rows[i].name, mrd_converter_commands_make(&s, &c, &why), rows[i].err);
        CHECK_ROW(rows[i].name, rows[i].err == MRD_OK || strstr(why.text, "{input}") != NULL);
        for (size_t k = 0; k < 2 && rows[i].err == MRD_OK; k++)
            CHECK_ROW(rows[i].name, want[k] == NULL ? c.v[k].len > 0
                                                    : strcmp(mrd_buf_cstr(&c.v[k]), want[k]) == 0);
        mrd_converter_commands_fini(&c);
    }
}

static mrd_err
run_within(const char *body, const char *tables, uint64_t disk, mrd_converter_made *ret,
           mrd_why *why)
{
    char in[300], work[300];
    mrd_converter_settings s = {
        .command = script(body), .tables = tables, .time = 60 * MRD_SEC, .disk = disk
    };
    mrd_converter_commands c = { 0 };
    mrd_converter_work w = { .commands = &c, .settings = &s, .in = in, .work = work };
    mrd_err err;

    /* spaces in paths do not separate arguments */
    snprintf(in, sizeof(in), "%s/in put", test_tmp());
    snprintf(work, sizeof(work), "%s/work", test_tmp());
    mrd_remove_tree(work);
    CHECK_ERR("in", mrd_make_dirs(in, NULL), MRD_OK);
    CHECK_ERR("work", mrd_make_dirs(work, NULL), MRD_OK);
    *why = (mrd_why){ 0 };
    CHECK_ERR("commands", mrd_converter_commands_make(&s, &c, why), MRD_OK);
    err = mrd_converter_run(&w, ret, why);
    mrd_converter_commands_fini(&c);
    return err;
}

static mrd_err
run(const char *body, const char *tables, mrd_converter_made *ret, mrd_why *why)
{
    return run_within(body, tables, 0, ret, why);
}

static const mrd_converter_result *
result(const mrd_converter_made *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++) {
        if (strcmp(m->v[i].name, name) == 0)
            return &m->v[i];
    }
    return NULL;
}

TEST(which_files_are_results)
{
    mrd_converter_made m = { 0 };
    mrd_why why;
    const mrd_converter_result *r;

    CHECK_ERR(
        "run",
        run("[ \"$1 $2 $4\" = 'view -d --output-format' ] && [ -d \"$3\" ] || exit 9\n"
            "printf abc > device_profile_model_1.pftrace; echo {} > device_profile_model_1.json\n"
            "echo x > system_profile.pftrace; echo x > notes.txt; echo x > "
            ".device_profile.pftrace\n"
            "ln -s /etc/passwd device_profile_model_2.pftrace\n"
            "mkfifo device_profile_model_3.pftrace\n"
            "echo x > a; ln a device_profile_model_4.pftrace\n"
            "mkdir -p 'profiles/global/p one@latest/sub' && echo x > 'profiles/global/p "
            "one@latest/T.parquet'\n"
            "echo x > 'profiles/global/p one@latest/sub/T_1.parquet'",
            "none", &m, &why),
        MRD_OK);
    CHECK_INT(m.n, 4);
    r = result(&m, "viewer/device_profile_model_1.pftrace");
    REQUIRE(r != NULL);
    CHECK_TEXT(r->kind, MRD_KIND_DEVICE_PROFILE);
    CHECK_TEXT(r->sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK_INT(r->size, 3);
    CHECK(result(&m, "viewer/device_profile_model_1.json") != NULL);
    r = result(&m, "viewer/tables/p one/T.parquet");
    REQUIRE(r != NULL);
    CHECK_TEXT(r->kind, MRD_KIND_DEVICE_TABLE);
    CHECK(result(&m, "viewer/tables/p one/sub/T_1.parquet") != NULL);
    mrd_converter_made_fini(&m);
}

TEST(one_of_two_fails)
{
    static const struct {
        const char *name, *body;
        mrd_err err;
        size_t n;
        const char *says; /* expected text in the note of a successful run, or in the error */
    } rows[] = {
        { "both are good", "echo x > device_profile_$5.json", MRD_OK, 2, "" },
        { "the first", "echo x > device_profile_$5.json; [ $5 = parquet ] || { echo bad; exit 3; }",
          MRD_OK, 1, "no Perfetto files: " },
        { "the second",
          "echo x > device_profile_$5.json; [ $5 = perfetto ] || { echo bad; exit 3; }", MRD_OK, 1,
          "no tables: " },
        { "both", "echo x > device_profile_$5.json; echo bad $5; exit 3", MRD_IO, 0,
          "bad perfetto" },
        { "more tables than may be",
          "echo x > device_profile_$5.json; [ $5 = perfetto ] || "
          "seq -f '%g.parquet' 1 4001 | xargs touch",
          MRD_OK, 1, "no tables: the viewer made more than 4000 results" },
        { "nothing is made", "exit 0", MRD_EMPTY, 0, "wrote no device profile" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_converter_made m = { 0 };
        mrd_why why;

        CHECK_ERR(rows[i].name, run(rows[i].body, NULL, &m, &why), rows[i].err);
        CHECK_ROW(rows[i].name, m.n == rows[i].n);
        CHECK_ROW(rows[i].name,
                  strstr(rows[i].err == MRD_OK ? m.note : why.text, rows[i].says) != NULL);
        mrd_converter_made_fini(&m);
    }
}

/* Holes need no disk space, but downloads, hashes and exports process all their bytes. */
TEST(holes_count)
{
    mrd_converter_made m = { 0 };
    mrd_why why;

    CHECK_ERR("two",
              run_within("truncate -s 30M device_profile_1.json device_profile_2.json", "none",
                         64 << 20, &m, &why),
              MRD_OK);
    CHECK_INT(m.n, 2);
    mrd_converter_made_fini(&m);
    CHECK_ERR("three",
              run_within("truncate -s 30M device_profile_1.json device_profile_2.json "
                         "device_profile_3.json",
                         "none", 64 << 20, &m, &why),
              MRD_LIMIT);
    CHECK(m.n == 0 && strstr(why.text, "longer than the 64 MiB") != NULL);
    mrd_converter_made_fini(&m);
}

TEST_MAIN()
