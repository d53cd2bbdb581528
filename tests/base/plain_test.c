/* Tests printing foreign text on a terminal. Control characters are shown as bytes, and the rest is
 * unchanged. */
#include "tests/check.h"

#include "base/plain.h"

static const struct {
    const char *name, *text, *shown;
} rows[] = {
    { "plain", "rank0.json", "rank0.json" },
    { "letters", "\xc3\xa9 \xe2\x98\x83 \xf0\x9f\x90\xa7",
      "\xc3\xa9 \xe2\x98\x83 \xf0\x9f\x90\xa7" },
    { "colour", "a\033[31mb\007", "a\\x1b[31mb\\x07" },
    { "lines", "a\nb\r\tc", "a\\x0ab\\x0d\\x09c" },
    { "delete", "a\x7f", "a\\x7f" },
    { "c1",
      "a\xc2\x9b"
      "31m",
      "a\\x9b31m" },
    { "bare c1",
      "a\x9b"
      "31m",
      "a\\x9b31m" },
    { "not utf-8", "a\xff\xfe!", "a\\xff\\xfe!" },
    { "cut", "a\xe2\x98", "a\\xe2\\x98" },
    { "overlong escape", "\xc0\x9b", "\\xc0\\x9b" },
    { "surrogate", "\xed\xa0\x80", "\\xed\\xa0\\x80" },
    { "right to left override",
      "a\xe2\x80\xae"
      "b",
      "a\\xe2\\x80\\xaeb" },
    { "isolate", "\xe2\x81\xa6", "\\xe2\\x81\\xa6" },
    { "arabic letter mark",
      "a\xd8\x9c"
      "b",
      "a\\xd8\\x9cb" },
    { "arabic letters", "\xd8\xa7\xd8\xa8", "\xd8\xa7\xd8\xa8" },
};

TEST(what_a_terminal_obeys_is_shown_as_bytes)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_buf got = { 0 };

        mrd_plain_text(&got, mrd_str_of(rows[i].text));
        CHECK_ROW(rows[i].name, strcmp(mrd_buf_cstr(&got), rows[i].shown) == 0);
        CHECK_ROW(rows[i].name, mrd_utf8_valid((mrd_str){ mrd_buf_cstr(&got), got.len }, NULL));
        mrd_buf_fini(&got);
    }
}

/* Checks all texts of two bytes, and each single byte between letters. No control character
 * remains, no byte after the end is read, and the result is valid UTF-8. */
TEST(all_texts_of_two_bytes)
{
    for (unsigned w = 0x100; w <= 0xffff; w++) {
        char *text = malloc(2);
        mrd_buf got = { 0 };
        bool fine = true;

        REQUIRE(text != NULL);
        text[0] = (char) (w >> 8);
        text[1] = (char) w;
        mrd_plain_text(&got, (mrd_str){ text, 2 });
        for (size_t i = 0; i < got.len; i++)
            fine = fine && got.p[i] >= 0x20 && got.p[i] != 0x7f;
        fine = fine && mrd_utf8_valid((mrd_str){ mrd_buf_cstr(&got), got.len }, NULL) &&
               mrd_plain_hidden(mrd_buf_cstr(&got), got.len) == 0;
        if (!fine)
            CHECK_INT(w, -1); /* says which */
        mrd_buf_fini(&got);
        free(text);
    }
}

TEST_MAIN()
