/*
 * Tests that the outputs of the profile in tests/trace/profile.h are equal to the files in
 * tests/golden/. MRD_GOLDEN_UPDATE=1 writes the files again. Check the difference before you commit
 * it.
 */
#include "tests/trace/profile.h"

static const struct {
    const char *sink, *file;
    bool pretty, explorer;
} rows[] = {
    { "json", "system_profile.json", false, false },
    { "json", "system_profile.pretty.json", true, false },
    { "json", "system_profile.explorer.json", false, true },
    { "chrome", "system_profile.trace.json", false, false },
    { "summary-text", "summary.txt", false, false },
    { "summary-json", "summary.json", false, false },
};

static char *
load(const char *path, size_t *ret_len)
{
    FILE *f = fopen(path, "rb");
    mrd_buf text = { 0 };
    char chunk[4096];
    size_t n;

    *ret_len = 0;
    if (f == NULL)
        return NULL;
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        mrd_buf_add(&text, chunk, n);
    fclose(f);
    *ret_len = text.len;
    return (char *) text.p;
}

static void
report(const char *row, const char *got, size_t n, const char *want, size_t m)
{
    size_t at = 0, from;

    while (at < n && at < m && got[at] == want[at])
        at++;
    from = at > 60 ? at - 60 : 0;
    fprintf(stderr, "%s: differs at byte %zu\n got: ...%.*s\nwant: ...%.*s\n", row, at,
            (int) (n - from < 120 ? n - from : 120), got + from,
            (int) (m - from < 120 ? m - from : 120), want + from);
    CHECK_ROW(row, false);
}

TEST(bytes_are_golden)
{
    const char *source = getenv("MERIDIAN_SOURCE");
    test_profile *p = test_profile_new();

    if (source == NULL)
        SKIP("MERIDIAN_SOURCE is not set");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_sink_options options = test_sink_options();
        char path[1024], *got, *want;
        size_t n, m;

        options.pretty = rows[i].pretty;
        options.json_layout = rows[i].explorer ? MRD_JSON_EXPLORER : MRD_JSON_GUIDE;
        got = test_sink_run(mrd_sink_find(mrd_str_of(rows[i].sink)), p->cat, 0, &options, p->v,
                            p->n, &n);
        snprintf(path, sizeof(path), "%s/tests/golden/%s", source, rows[i].file);
        if (getenv("MRD_GOLDEN_UPDATE") != NULL)
            mrd_write_file(path, (mrd_bytes){ (const uint8_t *) got, n }, 0644, NULL);
        want = load(path, &m);
        CHECK_ROW(rows[i].file, want != NULL);
        if (want != NULL && (n != m || memcmp(got, want, n) != 0))
            report(rows[i].file, got, n, want, m);
        free(got);
        free(want);
    }
    test_profile_free(p);
}

/* No line of the text output is wider than the terminal. */
TEST(text_fits_the_terminal)
{
    test_profile *p = test_profile_new();
    mrd_sink_options options = test_sink_options();
    size_t n, column = 0, widest = 0;
    char *text;

    for (size_t i = 0; i < 4; i++) {
        mrd_event *ev =
            profile_add(p, MRD_SPAN, p->framework,
                        i == 0 ? "a \xe6\xbc\xa2 name that is far too long for its column and then "
                                 "goes on for another line or two, as they do in C++ <lambda>"
                               : "x",
                        (int64_t) i * 7 * MRD_SEC, 3 * 3600 * MRD_SEC);

        ev->bound_ns = 5;
    }
    text =
        test_sink_run(mrd_sink_find(MRD_STR("summary-text")), p->cat, 0, &options, p->v, p->n, &n);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n')
            column = 0;
        else if (((unsigned char) text[i] & 0xc0) != 0x80 && ++column > widest)
            widest = column;
    }
    CHECK(widest <= 100);
    CHECK(widest > 80);
    free(text);
    test_profile_free(p);
}

TEST_MAIN()
