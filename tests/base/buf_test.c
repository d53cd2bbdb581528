#include "base/buf.h"

#include "base/clock.h"
#include "base/conf/json.h"
#include "tests/check.h"

TEST(integers_print_like_printf)
{
    static const uint64_t rows[] = { 0, 9, 10, 99, 100, 12345, 1000000007, UINT64_MAX };
    mrd_buf buf = { 0 };
    char want[32];

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_buf_reset(&buf);
        mrd_buf_u64(&buf, rows[i]);
        snprintf(want, sizeof(want), "%" PRIu64, rows[i]);
        CHECK_TEXT(mrd_buf_cstr(&buf), want);
    }
    mrd_buf_reset(&buf);
    mrd_buf_i64(&buf, INT64_MIN);
    CHECK_TEXT(mrd_buf_cstr(&buf), "-9223372036854775808");
    mrd_buf_fini(&buf);
}

TEST(first_failure_stays)
{
    mrd_buf buf = { 0 };

    mrd_buf_text(&buf, "kept");
    CHECK(!mrd_buf_grow(&buf, SIZE_MAX - 2));
    mrd_buf_text(&buf, "ignored");
    CHECK_ERR("err", buf.err, MRD_NOMEM);
    CHECK_INT(buf.len, 4);
    mrd_buf_fini(&buf);
}

TEST(utf8)
{
    static const struct {
        const char *name, *text;
        int bad_at; /* -1: valid */
    } rows[] = {
        { "ascii", "plain text of some length", -1 },
        { "two to four bytes", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", -1 },
        { "overlong", "ab\xc0\xaf", 2 },
        { "surrogate", "\xed\xa0\x80", 0 },
        { "above U+10FFFF", "x\xf4\x90\x80\x80", 1 },
        { "cut off", "abcdefgh\xe2\x82", 8 },
        { "lone continuation", "\x80", 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        size_t at = 999;
        bool ok = mrd_utf8_valid(mrd_str_of(rows[i].text), &at);

        CHECK_ROW(rows[i].name, ok == (rows[i].bad_at < 0));
        CHECK_ROW(rows[i].name, ok || at == (size_t) rows[i].bad_at);
    }
}

TEST(what_a_text_holds)
{
    CHECK(mrd_str_has(mrd_str_of("{\"ph\":1"), "\"ph\""));
    CHECK(!mrd_str_has(mrd_str_of("{\"p"), "\"ph\"") && !mrd_str_has((mrd_str){ 0 }, "a"));
    CHECK_INT(mrd_str_first(mrd_str_of(" \t\r\n {x")), '{');
    CHECK_INT(mrd_str_first((mrd_str){ "  \0x", 4 }), 0);
    CHECK_INT(mrd_str_first(mrd_str_of(" \n")), ' ');
    CHECK_INT(mrd_str_first((mrd_str){ 0 }), ' ');
}

TEST(json_quotes)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        { "", "\"\"" },
        { "a\"b\\c\n\t\x01", "\"a\\\"b\\\\c\\n\\t\\u0001\"" },
        { "bad\xff"
          "end",
          "\"bad\xef\xbf\xbd"
          "end\"" },
        { "\"\xff\"", "\"\\\"\xef\xbf\xbd\\\"\"" },
    };
    mrd_buf buf = { 0 };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_buf_reset(&buf);
        mrd_json_quote(&buf, mrd_str_of(rows[i].text));
        CHECK_TEXT(mrd_buf_cstr(&buf), rows[i].want);
    }
    mrd_buf_fini(&buf);
}

TEST(times_print_exactly)
{
    char t[MRD_TIME_TEXT], d[MRD_DUR_TEXT];

    CHECK_TEXT(mrd_wall_text((mrd_wall_ns){ 1712195495406752801 }, t),
               "2024-04-04T01:51:35.406752801Z");
    CHECK_TEXT(mrd_wall_text((mrd_wall_ns){ -1 }, t), "1969-12-31T23:59:59.999999999Z");
    CHECK_TEXT(mrd_dur_text(-1530, d), "-1.53 us");
    CHECK_TEXT(mrd_dur_text(61 * MRD_SEC, d), "1 min 01 s");
    CHECK_TEXT(mrd_dur_text(9000 * MRD_SEC, d), "2.5 hours");
    CHECK_TEXT(mrd_dur_text(-4 * 86400 * MRD_SEC, d), "-4 days");
    CHECK_TEXT(mrd_dur_text(INT64_MAX, d), "292 years");
}

TEST(why_keeps_whole_characters)
{
    mrd_why why;
    char text[MRD_WHY_MAX + 10];

    memset(text, 'a', sizeof(text));
    memcpy(text + MRD_WHY_MAX - 3, "\xe2\x82\xac", 3); /* would be cut after two bytes */
    text[sizeof(text) - 1] = '\0';
    mrd_why_set(&why, MRD_INVALID, 0, "%s", text);
    CHECK(mrd_utf8_valid(mrd_str_of(why.text), NULL));
    CHECK_INT(strlen(why.text), MRD_WHY_MAX - 3);
    CHECK_ERR("prefix", mrd_why_prefix(&why, MRD_IO, "file %d", 7), MRD_INVALID);
    CHECK(strncmp(why.text, "file 7: aaa", 11) == 0);
}

TEST(texts_that_are_no_utf8_stay_texts)
{
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        { "ascii", "ok", "\"ok\"" },
        { "empty", "", "\"\"" },
        { "two bytes", "h\xc3\xa9", "\"h\xc3\xa9\"" },
        { "cut inside a character", "h\xc3", "\"h\xef\xbf\xbd\"" },
        { "none of it", "\xff\xfe", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "in the middle", "a\xc0z", "\"a\xef\xbf\xbdz\"" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_json *v = mrd_json_new_str(rows[i].text), *list = mrd_json_new_array();
        mrd_buf got = { 0 };

        mrd_json_append(list, v);
        mrd_json_write(list, false, &got);
        mrd_buf_byte(&got, '\0');
        CHECK_ROW(rows[i].name, strstr((const char *) got.p, rows[i].want) != NULL);
        mrd_buf_fini(&got);
        mrd_json_free(list);
    }
}

TEST_MAIN()
