/* Tests the call of the vendor's tool that decodes profiles (neuron-profile). Shell scripts take
 * the place of the tool. The tests check its results, its output, its exit status and the time
 * limit. */
#include <unistd.h>

#include "tests/check.h"

#include <signal.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/sys/out.h"
#include "tests/watcher.h"
#include "trace/import/vendor.h"

static const char *
script(const char *name, const char *body)
{
    static char path[200];
    char text[1000];

    snprintf(path, sizeof(path), "%s/%s", test_tmp(), name);
    snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", body);
    CHECK_ERR(name,
              mrd_write_file(path, (mrd_bytes){ (const uint8_t *) text, strlen(text) }, 0700, NULL),
              MRD_OK);
    return path;
}

static char *
folder(char to[200], const char *name)
{
    snprintf(to, 200, "%s/%s", test_tmp(), name);
    CHECK(mkdir(to, 0700) == 0);
    return to;
}

static bool
is_file(const char *dir, const char *name, const char *content)
{
    char path[400], text[400] = "";
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if ((f = fopen(path, "r")) == NULL)
        return false;
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    return strcmp(text, content) == 0;
}

TEST(what_the_tool_does_is_told)
{
    static const struct {
        const char *name, *body;
        int64_t timeout_ms;
        mrd_err err;
        const char *says;
    } rows[] = {
        { "good", "echo done", 60000, MRD_OK, "" },
        { "slow", "sleep 0.3; echo done", 60000, MRD_OK, "" },
        { "closed output", "exec >&- 2>&-; sleep 0.2", 60000, MRD_OK, "" },
        { "failed", "echo no such file >&2; exit 3", 60000, MRD_IO,
          "ended with exit status 3: no such file" },
        { "blank end", "printf 'bad\\n\\n\\n'; exit 1", 60000, MRD_IO,
          "ended with exit status 1: bad" },
        { "killed", "kill -9 $$", 60000, MRD_IO, "was ended by signal 9" },
        { "silent without end", "exec >&- 2>&-; while :; do sleep 5; done", 300, MRD_TIMEOUT,
          "did not finish within 0.3 s" },
        { "talking without end", "while :; do echo x; sleep 0.01; done", 300, MRD_TIMEOUT,
          "did not finish within 0.3 s" },
        { "waiting without end", "echo x; sleep 600", 300, MRD_TIMEOUT,
          "did not finish within 0.3 s" },
    };
    char dir[200], into[200];

    folder(dir, "in");
    folder(into, "out");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        int64_t began = mrd_local_now().ns;
        mrd_why why = { 0 };

        CHECK_ERR(rows[i].name,
                  mrd_vendor_convert(script("tool", rows[i].body), dir, into,
                                     &(mrd_vendor_limits){ .timeout_ms = rows[i].timeout_ms },
                                     &why),
                  rows[i].err);
        CHECK_ROW(rows[i].name, strstr(why.text, rows[i].says) != NULL);
        /* the timeout is not reported before the deadline */
        CHECK_ROW(rows[i].name, rows[i].err != MRD_TIMEOUT ||
                                    mrd_local_now().ns - began >= rows[i].timeout_ms * MRD_MS);
        if (strcmp(rows[i].name, "blank end") == 0)
            CHECK_TEXT(strstr(why.text, "status 1"), "status 1: bad");
    }
}

/* The tool receives the input directory as an argument and runs in the directory for results. Only
 * the end of a long output is kept. */
TEST(arguments_place_and_tail)
{
    char dir[200], into[200], want[500];
    mrd_why why = { 0 };

    folder(dir, "in");
    folder(into, "out");
    CHECK_ERR("convert",
              mrd_vendor_convert(script("tool", "echo \"$@\" > said; pwd > place; cat > input"),
                                 dir, into, &(mrd_vendor_limits){ .timeout_ms = 60000 }, &why),
              MRD_OK);
    snprintf(want, sizeof(want), "view -d %s --output-format json\n", dir);
    CHECK(is_file(into, "said", want));
    snprintf(want, sizeof(want), "%s\n", into);
    CHECK(is_file(into, "place", want) && is_file(into, "input", ""));
    for (int lines = 1; lines < 4000; lines *= 3) {
        char body[200], last[64];

        snprintf(body, sizeof(body),
                 "i=0; while [ $i -lt %d ]; do i=$((i+1)); echo line $i; done; "
                 "exit 1",
                 lines);
        CHECK_ERR("long",
                  mrd_vendor_convert(script("tool", body), dir, into,
                                     &(mrd_vendor_limits){ .timeout_ms = 60000 }, &why),
                  MRD_IO);
        snprintf(last, sizeof(last), "line %d", lines);
        CHECK_ROW(last, mrd_str_ends(mrd_str_of(why.text), last));
        snprintf(last, sizeof(last), "line %d\nline %d", lines - 1, lines);
        CHECK_ROW(last, lines == 1 || mrd_str_ends(mrd_str_of(why.text), last));
    }
}

TEST(what_is_not_there)
{
    char dir[200], into[200];
    mrd_why why = { 0 };

    folder(dir, "in");
    folder(into, "out");
    CHECK_ERR("tool",
              mrd_vendor_convert("/nonexistent/tool", dir, into,
                                 &(mrd_vendor_limits){ .timeout_ms = 1000 }, &why),
              MRD_NOTFOUND);
    CHECK(strstr(why.text, "/nonexistent/tool") != NULL);
    CHECK_ERR("folder",
              mrd_vendor_convert(script("tool", ""), "/nonexistent/d", into,
                                 &(mrd_vendor_limits){ .timeout_ms = 1000 }, &why),
              MRD_NOTFOUND);
    CHECK(strstr(why.text, "/nonexistent/d") != NULL);
    CHECK_ERR("a folder",
              mrd_vendor_convert(dir, dir, into, &(mrd_vendor_limits){ .timeout_ms = 1000 }, &why),
              MRD_IO);
}

/* A given program is used. "" means that no tool is used. Without an argument the tool is searched
 * on PATH under two names. */
TEST(the_tool_is_found)
{
    static const char *const names[] = { "neuron-profile", "neuron-explorer" };
    mrd_buf path = { 0 };

    setenv("PATH", test_tmp(), 1);
    CHECK(!mrd_vendor_find("", &path));
    CHECK_INT(mrd_vendor_find(NULL, &path),
              access("/opt/aws/neuron/bin/neuron-profile", X_OK) == 0 ||
                  access("/opt/aws/neuron/bin/neuron-explorer", X_OK) == 0);
    CHECK(mrd_vendor_find("/any/tool", &path));
    CHECK_TEXT(mrd_buf_cstr(&path), "/any/tool");
    mrd_buf_fini(&path);
    for (size_t i = 0; i < MRD_COUNT(names); i++) { /* the second name has precedence */
        const char *tool = script(names[i], "");

        CHECK(!mrd_vendor_find("", &path));
        CHECK(mrd_vendor_find(NULL, &path));
        CHECK_TEXT(mrd_buf_cstr(&path), tool);
        mrd_buf_fini(&path);
    }
}

TEST_MAIN()
