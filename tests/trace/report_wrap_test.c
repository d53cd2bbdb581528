/* Tests how paragraphs of a report are broken into lines, with random words, numbers and units. No
 * text may be lost, and no line may be too long. Each break is at an allowed position, and a break
 * at the next allowed position would make the line too long. */
#include "trace/sink/report/report_text.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/obj.h"
#include "tests/check.h"
#include "tests/seed.h"
#include "trace/sink/text.h"

static uint64_t state;

static size_t
below(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t) (state >> 33) % n;
}

/* Appends a random word with letters of one to four bytes. Some words are longer than a line. */
static void
word(mrd_buf *to)
{
    static const char *const words[] = { "12", "7",     "3.5", "ms",  "s",
                                         "us", "ns",    "min", "h",   "%",
                                         "of", "a",     "mss", "x1",  "seconds,",
                                         "9s", "(4 ms", "s)",  "way", "1,",
                                         "-3", "%.",    "hot", "%%",  "kernel_with_a_name" };
    static const char *const letters[] = { "e", "\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x9a\x80" };

    if (below(12) != 0) {
        mrd_buf_text(to, words[below(MRD_COUNT(words))]);
        return;
    }
    for (size_t n = 1 + below(below(3) == 0 ? 150 : 20), of = below(5); n > 0; n--)
        mrd_buf_text(to, letters[of < 4 ? of : below(4)]);
}

/* Returns true if a line may end here: at a space, but not between a digit and the following
 * unit. */
static bool
breaks(const char *s, size_t at)
{
    static const char *const units[] = { "%", "ns", "us", "ms", "s", "min", "h" };
    size_t n;

    if (s[at] != ' ')
        return false;
    if (at == 0 || !isdigit((unsigned char) s[at - 1]))
        return true;
    n = strspn(s + at + 1, "abcdefghijklmnopqrstuvwxyz%");
    for (size_t i = 0; i < MRD_COUNT(units); i++)
        if (strlen(units[i]) == n && strncmp(units[i], s + at + 1, n) == 0)
            return false;
    return true;
}

static void
check_line(const char *s, size_t at, size_t len, size_t room)
{
    CHECK(len > 0 && len <= room);
    CHECK(((unsigned char) s[at] & 0xc0) != 0x80); /* not inside a letter */
    if (s[at + len] == '\0')
        return;
    for (size_t q = len + 1; q <= room && s[at + q - 1] != '\0'; q++)
        CHECK(!breaks(s, at + q));
    /* The line is cut within a word only if it has no place to break, and then it is full. */
    if (!breaks(s, at + len)) {
        for (size_t q = 1; q <= len; q++)
            CHECK(!breaks(s, at + q));
        CHECK(len + 4 > room);
    }
}

/* Checks that each line has `indent` spaces and then a part of the text, and that the lines
 * together are the whole text without the spaces at which it was broken. */
static void
check_lines(const char *got, const char *head, const char *s, size_t indent)
{
    size_t at = 0, end = strlen(s);

    for (bool first = true; at < end; first = false) {
        const char *line_end = strchr(got, '\n');
        size_t len;

        REQUIRE(line_end != NULL && (size_t) (line_end - got) > indent);
        len = (size_t) (line_end - got) - indent;
        if (first)
            CHECK(strncmp(got, head, strlen(head)) == 0);
        for (size_t i = first ? strlen(head) : 0; i < indent; i++)
            CHECK(got[i] == ' ');
        REQUIRE(at + len <= end && memcmp(got + indent, s + at, len) == 0);
        check_line(s, at, len, MRD_TEXT_WIDTH - indent);
        for (at += len; at < end && s[at] == ' '; at++)
            ;
        got = line_end + 1;
    }
    CHECK(*got == '\0');
}

TEST(paragraphs_are_broken_where_they_may)
{
    state = test_seed();
    for (int i = 0; i < 4000; i++) {
        mrd_buf text = { 0 }, lines = { 0 };
        const char *spaces = below(5) == 0 ? "  " : "";
        size_t len;

        for (size_t n = 1 + below(60), k = 0; k < n; k++) {
            if (k > 0)
                mrd_buf_text(&text, below(20) == 0 ? "  " : " ");
            word(&text);
        }
        len = text.len;
        mrd_buf_text(&text, spaces); /* removed at the end */
        if (i % 2 == 0) {
            mrd_report_text_note(&lines, mrd_buf_cstr(&text));
            text.p[len] = '\0';
            check_lines(mrd_buf_cstr(&lines), "", (const char *) text.p, 2);
        } else {
            mrd_report_text_wrapped(&lines, "Coverage", mrd_str_of(mrd_buf_cstr(&text)));
            text.p[len] = '\0';
            check_lines(mrd_buf_cstr(&lines), "Coverage", (const char *) text.p, 11);
        }
        mrd_buf_fini(&text);
        mrd_buf_fini(&lines);
    }
}

TEST_MAIN()
