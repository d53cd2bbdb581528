#include "base/conf/conf.h"

#include "base/clock.h"
#include "tests/check.h"

typedef struct {
    bool force;
    int64_t count, bytes;
    mrd_dur_ns wait;
    char *dir;
    mrd_strlist formats;
    int mode;
    bool rare;
    char *config;
} settings;

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Output" },
    { .name = "force", .type = MRD_OPT_BOOL, .offset = offsetof(settings, force), .help = "x" },
    { .name = "count",
      .letter = 'n',
      .type = MRD_OPT_INT,
      .offset = offsetof(settings, count),
      .def = "7",
      .min = 1,
      .max = 100,
      .env = "MRD_TEST_COUNT",
      .help = "x" },
    { .name = "bytes",
      .type = MRD_OPT_SIZE,
      .offset = offsetof(settings, bytes),
      .min = 1024,
      .max = 1ll << 40,
      .help = "x" },
    { .name = "wait",
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, wait),
      .min = 5 * MRD_MS,
      .max = 90 * MRD_SEC,
      .help = "x" },
    { .name = "output-dir",
      .letter = 'o',
      .type = MRD_OPT_STR,
      .offset = offsetof(settings, dir),
      .def = "out",
      .arg = "DIR",
      .help = "x" },
    { .name = "output-format",
      .type = MRD_OPT_LIST,
      .offset = offsetof(settings, formats),
      .def = "perfetto,json",
      .help = "x" },
    { .name = "mode",
      .type = MRD_OPT_CHOICE,
      .offset = offsetof(settings, mode),
      .arg = "fast,slow",
      .help = "x" },
    { .name = "advanced.rare",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, rare),
      .help = "x" },
    { .name = "config", .type = MRD_OPT_STR, .offset = offsetof(settings, config), .help = "x" },
};

static mrd_err
parse(settings *s, mrd_strlist *rest, mrd_why *why, const char *line)
{
    char *argv[32] = { NULL }, *copy = strdup(line), *save = NULL;
    int argc = 0;
    mrd_err err;

    *s = (settings){ 0 };
    argv[argc++] = copy;
    for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    if ((err = mrd_conf_defaults(table, MRD_COUNT(table), s, why)) == MRD_OK &&
        (err = mrd_conf_env(table, MRD_COUNT(table), s, why)) == MRD_OK)
        err = mrd_conf_args(table, MRD_COUNT(table), s, argc, argv, false, rest, why);
    free(copy);
    return err;
}

TEST(sources_in_order)
{
    settings s;
    mrd_strlist rest = { 0 };
    mrd_why why;

    CHECK_ERR("defaults", parse(&s, &rest, &why, ""), MRD_OK);
    CHECK_INT(s.count, 7);
    CHECK_TEXT(s.dir, "out");
    CHECK_INT(s.formats.n, 2);
    mrd_conf_fini(table, MRD_COUNT(table), &s);
    setenv("MRD_TEST_COUNT", "9", 1);
    CHECK_ERR("env", parse(&s, &rest, &why, ""), MRD_OK);
    CHECK_INT(s.count, 9);
    mrd_conf_fini(table, MRD_COUNT(table), &s);
    CHECK_ERR("flag",
              parse(&s, &rest, &why,
                    "-n11 --force --bytes=2K --wait 5ms -o x a "
                    "--output-format=json --output-format chrome "
                    "--mode slow -- --b"),
              MRD_OK);
    CHECK_INT(s.count, 11);
    CHECK(s.force);
    CHECK_INT(s.bytes, 2048);
    CHECK_INT(s.wait, 5 * MRD_MS);
    CHECK_TEXT(s.dir, "x");
    CHECK_INT(s.formats.n, 2);
    CHECK_TEXT(s.formats.v[1], "chrome");
    CHECK_INT(s.mode, 1);
    CHECK_INT(rest.n, 2);
    CHECK_TEXT(rest.v[1], "--b");
    mrd_conf_fini(table, MRD_COUNT(table), &s);
    mrd_strlist_fini(&rest);
}

TEST(errors_say_what_to_do)
{
    static const struct {
        const char *line, *want;
        mrd_err err;
    } rows[] = {
        { "--output-format=,,",
          "--output-format is given and empty: give it a value (--output-format VALUE), or leave "
          "it "
          "out",
          MRD_INVALID },
        { "--output-dir=",
          "--output-dir is given and empty: give it a value (--output-dir DIR), or leave it out",
          MRD_INVALID },
        { "--output-fromat json", "unknown option '--output-fromat': did you mean --output-format?",
          MRD_INVALID },
        { "--ouput x", "unknown option '--ouput': did you mean --output-dir or --output-format?",
          MRD_INVALID },
        { "--dirr x", "unknown option '--dirr': did you mean --output-dir?", MRD_INVALID },
        { "--Force", "unknown option '--Force': did you mean --force?", MRD_INVALID },
        { "--form x", "unknown option '--form': did you mean --force?", MRD_INVALID },
        { "--force-write", "unknown option '--force-write': did you mean --force?", MRD_INVALID },
        { "--out-put-format json",
          "unknown option '--out-put-format': did you mean --output-format?", MRD_INVALID },
        { "--wait-mode 3s", "unknown option '--wait-mode': did you mean --wait or --mode?",
          MRD_INVALID },
        { "--outdir x", "unknown option '--outdir': did you mean --output-dir?", MRD_INVALID },
        { "-wait 3s", "unknown option '-wait': did you mean --wait?", MRD_INVALID },
        { "-mode=fast", "unknown option '-mode': did you mean --mode?", MRD_INVALID },
        { "--cfg x", "unknown option '--cfg': did you mean --config?", MRD_INVALID },
        { "--fmt x", "unknown option '--fmt': did you mean --output-format?", MRD_INVALID },
        { "--slow", "unknown option '--slow': did you mean --mode slow?", MRD_INVALID },
        { "-fast", "unknown option '--fast': did you mean --mode fast?", MRD_INVALID },
        { "--slo", "unknown option '--slo' (--help lists them)", MRD_INVALID },
        { "--fast,slow", "unknown option '--fast,slow' (--help lists them)", MRD_INVALID },
        { "--rare", "unknown option '--rare': did you mean --advanced.rare?", MRD_INVALID },
        { "--advanced.rar", "unknown option '--advanced.rar': did you mean --advanced.rare?",
          MRD_INVALID },
        { "--advanced.rare=7", "--advanced.rare '7': expected 0 or 1", MRD_INVALID },
        { "-z", "unknown option '-z' (--help lists them)", MRD_INVALID },
        { "--zzz", "unknown option '--zzz' (--help lists them)", MRD_INVALID },
        { "--count 0", "--count 0 is outside 1 to 100", MRD_RANGE },
        { "--bytes 1000", "--bytes 1000 is outside 1K to 1T", MRD_RANGE },
        { "--bytes 2T", "--bytes 2T is outside 1K to 1T", MRD_RANGE },
        { "--wait 2h", "--wait 2h is outside 5ms to 90s", MRD_RANGE },
        { "--help=x", "--help has a value: expected --help alone", MRD_INVALID },
        { "--count seven", "--count 'seven': expected a number", MRD_INVALID },
        { "--mode medium", "--mode 'medium': expected one of fast,slow", MRD_INVALID },
        { "--output-dir", "--output-dir needs a value: --output-dir DIR", MRD_INVALID },
        { "--bytes 12Q", "--bytes '12Q': expected a size such as 64M or 4096", MRD_INVALID },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        settings s;
        mrd_strlist rest = { 0 };
        mrd_why why = { 0 };

        CHECK_ERR(rows[i].line, parse(&s, &rest, &why, rows[i].line), rows[i].err);
        CHECK_TEXT(why.text, rows[i].want);
        mrd_conf_fini(table, MRD_COUNT(table), &s);
        mrd_strlist_fini(&rest);
    }
}

TEST(configuration_file)
{
    settings s = { 0 };
    char path[300];
    FILE *f;
    mrd_why why = { 0 };

    snprintf(path, sizeof(path), "%s/c.json", test_tmp());
    f = fopen(path, "w");
    REQUIRE(f != NULL);
    fputs("{\"count\": 42, \"force\": true, \"output-format\": [\"json\"], \"wait\": \"2s\", "
          "\"advanced.rare\": true}",
          f);
    fclose(f);
    CHECK_ERR("file", mrd_conf_file(table, MRD_COUNT(table), &s, path, &why), MRD_OK);
    CHECK_INT(s.count, 42);
    CHECK(s.force && s.rare);
    CHECK_INT(s.wait, 2 * MRD_SEC);
    CHECK_INT(s.formats.n, 1);
    f = fopen(path, "w");
    REQUIRE(f != NULL);
    fputs("{\"cuont\": 42}", f);
    fclose(f);
    CHECK_ERR("typo", mrd_conf_file(table, MRD_COUNT(table), &s, path, &why), MRD_INVALID);
    CHECK(strstr(why.text, "did you mean count?") != NULL);
    mrd_conf_fini(table, MRD_COUNT(table), &s);
}

/* A configuration file overrides the defaults. The environment and the command line override the
 * file, wherever the file is named. */
TEST(a_program_reads_its_file_below_the_rest)
{
    char path[300], program[] = "p", word_of_none[] = "word", wait[] = "--wait=3s",
                    config[] = "--config", format[] = "--output-format=chrome",
                    nowhere[] = "/nowhere/c.json";
    char *argv[] = { program, wait, config, path, format };
    char *word[] = { program, word_of_none }, *missing[] = { program, config, nowhere };
    settings s = { 0 };
    mrd_why why = { 0 };
    FILE *f;

    snprintf(path, sizeof(path), "%s/program.json", test_tmp());
    f = fopen(path, "w");
    REQUIRE(f != NULL);
    fputs("{\"count\": 42, \"bytes\": \"1K\", \"wait\": \"2s\", \"output-format\": [\"json\"]}", f);
    fclose(f);
    setenv("MRD_TEST_COUNT", "9", 1);
    CHECK_ERR("all",
              mrd_conf_program(table, MRD_COUNT(table), &s, (int) MRD_COUNT(argv), argv, &why),
              MRD_OK);
    CHECK_INT(s.bytes, 1024);
    CHECK_INT(s.count, 9);
    CHECK_INT(s.wait, 3 * MRD_SEC);
    CHECK_TEXT(s.dir, "out");
    REQUIRE(s.formats.n == 1);
    CHECK_TEXT(s.formats.v[0], "chrome");
    mrd_conf_fini(table, MRD_COUNT(table), &s);
    s = (settings){ 0 };
    CHECK_ERR("a word", mrd_conf_program(table, MRD_COUNT(table), &s, 2, word, &why), MRD_INVALID);
    CHECK_TEXT(why.text, "unexpected argument 'word' (--help lists the options)");
    mrd_conf_fini(table, MRD_COUNT(table), &s);
    s = (settings){ 0 };
    CHECK(mrd_conf_program(table, MRD_COUNT(table), &s, 3, missing, &why) != MRD_OK);
    CHECK(strstr(why.text, "/nowhere/c.json") != NULL);
    mrd_conf_fini(table, MRD_COUNT(table), &s);
}

TEST_MAIN()
