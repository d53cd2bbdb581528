#include "httpd/http_parse.h"

#include "tests/check.h"

TEST(paths)
{
    static const struct {
        const char *text, *decoded;
        bool plain;
    } rows[] = {
        { "/", "/", true },
        { "/a/b.c", "/a/b.c", true },
        { "/a%20b", "/a b", true },
        { "/%41%7e", "/A~", true },
        { "/a%00b", "/a%00b", true }, /* a text would end there */
        { "/a%2500", "/a%00", true },
        { "/a%4", "/a%4", true },
        { "/a%", "/a%", true },
        { "/a%g1%1g", "/a%g1%1g", true },
        { "/a%0ab", "/a\nb", false },
        { "/a%7fb", "/a\177b", false },
        { "/%2e%2e/x", "/../x", false },
        { "/..%2fx", "/../x", false },
        { "/.x", "/.x", true },
        { "/...", "/...", false },
        { "/./x", "/./x", false },
        { "/.", "/.", false },
        { "//x", "//x", false },
        { "/a\\b", "/a\\b", false },
        { "a", "a", false },
        { "", "", false },
    };
    char text[64], long_path[HTTP_PATH_MAX + 2];

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        snprintf(text, sizeof(text), "%s", rows[i].text);
        CHECK_INT(mrd_http_unescape(text), strlen(rows[i].decoded));
        CHECK_TEXT(text, rows[i].decoded);
        CHECK_ROW(rows[i].text, mrd_http_path_plain(text) == rows[i].plain);
    }
    memset(long_path, 'a', sizeof(long_path));
    long_path[0] = '/';
    long_path[HTTP_PATH_MAX + 1] = '\0';
    CHECK(!mrd_http_path_plain(long_path));
    long_path[HTTP_PATH_MAX] = '\0';
    CHECK(mrd_http_path_plain(long_path));
}

TEST(routes)
{
    static const struct {
        const char *pattern, *path;
        bool match;
        const char *name, *value;
    } rows[] = {
        { "/a", "/a", true, "x", "" },
        { "/a", "/a/", false, "", "" },
        { "/a/{x}", "/a/b", true, "x", "b" },
        { "/a/{x}", "/a/", false, "", "" },
        { "/a/{x}", "/a/b/c", false, "", "" },
        { "/a/{x}/c", "/a/b/c", true, "x", "b" },
        { "/a/{x}/{y}", "/a/b/c", true, "y", "c" },
        { "/a/{r*}", "/a/b/c", true, "r", "b/c" },
        { "/a/{r*}", "/a/", false, "", "" },
    };
    http_params params;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        CHECK_ROW(rows[i].path,
                  mrd_http_route_match(rows[i].pattern, rows[i].path, &params) == rows[i].match);
        if (rows[i].match)
            CHECK_ROW(rows[i].path,
                      mrd_str_is(mrd_http_params_value(&params, rows[i].name), rows[i].value));
    }
}

TEST(ranges)
{
    static const struct {
        const char *text;
        uint64_t size;
        int want;
        uint64_t from, len;
    } rows[] = {
        { "bytes=0-0", 10, 1, 0, 1 },
        { "bytes=0-99", 10, 1, 0, 10 },
        { "bytes=9-", 10, 1, 9, 1 },
        { "bytes=-3", 10, 1, 7, 3 },
        { "bytes=-30", 10, 1, 0, 10 },
        { "bytes=2-4 ", 10, 1, 2, 3 },
        { "bytes=10-", 10, -1, 0, 0 },
        { "bytes=-0", 10, -1, 0, 0 },
        { "bytes=0-", 0, -1, 0, 0 },
        { "bytes=-1", 0, -1, 0, 0 },
        { "bytes=0-18446744073709551615", UINT64_MAX, 1, 0, UINT64_MAX },
        { "bytes=18446744073709551615-", UINT64_MAX, -1, 0, 0 },
        { "bytes=18446744073709551616-", 10, 0, 0, 0 },
        { "bytes=5-4", 10, 0, 0, 0 },
        { "bytes=0-1,3-4", 10, 0, 0, 0 },
        { "bytes=0x1-0x2", 10, 0, 0, 0 },
        { "bytes=-", 10, 0, 0, 0 },
        { "bytes=", 10, 0, 0, 0 },
        { "items=0-1", 10, 0, 0, 0 },
        { "", 10, 0, 0, 0 },
        { NULL, 10, 0, 0, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const char *row = rows[i].text == NULL ? "no field" : rows[i].text;
        uint64_t from = 0, len = 0;

        CHECK_ROW(row, mrd_http_range(rows[i].text, rows[i].size, &from, &len) == rows[i].want);
        CHECK_ROW(row, from == rows[i].from && len == rows[i].len);
    }
}

TEST(entity_tags)
{
    static const struct {
        const char *list;
        bool weak, strong;
    } rows[] = {
        { "\"a\"", true, true },       { "W/\"a\"", true, false }, { "\"b\", \"a\"", true, true },
        { "\"b\",\"a\"", true, true }, { " \"a\" ", true, true },  { "*", true, true },
        { "* ", true, true },          { "*x", false, false },     { "\"ab\"", false, false },
        { "a", false, false },         { "\"a", false, false },    { "\"\"a\"\"", false, false },
        { "", false, false },          { NULL, false, false },     { "\"x,\"a\"", false, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const char *row = rows[i].list == NULL ? "no field" : rows[i].list;

        CHECK_ROW(row, mrd_http_etag_listed(rows[i].list, "\"a\"", true) == rows[i].weak);
        CHECK_ROW(row, mrd_http_etag_listed(rows[i].list, "\"a\"", false) == rows[i].strong);
    }
}

TEST(tokens)
{
    static const struct {
        const char *field, *token;
    } rows[] = {
        { "Bearer abc", "abc" }, { "bearer  abc ", "" }, { "BEARER abc", "abc" },
        { "Bearer a b", "" },    { "Bearer", "" },       { "Bearer ", "" },
        { "Basic abc", "" },     { NULL, "" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].field == NULL ? "no field" : rows[i].field,
                  mrd_str_is(mrd_http_bearer(rows[i].field), rows[i].token));
}

TEST_MAIN()
