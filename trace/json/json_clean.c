#include "trace/json/json_clean.h"

#include <string.h>

#define ESCAPED_REPLACEMENT "\\ufffd"

int
mrd_json_hex(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns how many bytes to replace by one U+FFFD: the beginning of an incomplete UTF-8 character,
 * or one byte that cannot begin a character. */
static size_t
bad_run(const unsigned char *bytes, size_t left)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t need, count = 1;

    if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf)
        need = 1;
    else if ((bytes[0] & 0xf0) == 0xe0)
        need = 2;
    else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4)
        need = 3;
    else
        return 1;
    low = bytes[0] == 0xe0 ? 0xa0 : bytes[0] == 0xf0 ? 0x90 : low;
    high = bytes[0] == 0xed ? 0x9f : bytes[0] == 0xf4 ? 0x8f : high;
    for (; count <= need && count < left && bytes[count] >= low && bytes[count] <= high; count++) {
        low = 0x80;
        high = 0xbf;
    }
    return count;
}

uint64_t
mrd_json_clean_utf8(mrd_str text, mrd_buf *to)
{
    uint64_t replaced = 0;
    size_t bad;

    while (text.len > 0 && !mrd_utf8_valid(text, &bad)) {
        size_t run = bad_run((const unsigned char *) text.p + bad, text.len - bad);

        mrd_buf_add(to, text.p, bad);
        mrd_buf_text(to, MRD_JSON_REPLACEMENT);
        text.p += bad + run;
        text.len -= bad + run;
        replaced++;
    }
    mrd_buf_add(to, text.p, text.len);
    return replaced;
}

/* Returns the UTF-16 code unit of an escape "\\uXXXX" at p, or -1 if there is none. */
static int
unit_at(const char *p, const char *end)
{
    int unit = 0;

    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        int digit = mrd_json_hex((unsigned char) p[i]);

        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* Appends the escape at `cursor`, repaired if necessary. Returns the position after it. */
static const char *
clean_escape(const char *cursor, const char *end, mrd_buf *to)
{
    int unit = unit_at(cursor, end), low;

    if (unit >= 0xd800 && unit < 0xdc00 && (low = unit_at(cursor + 6, end)) >= 0xdc00 &&
        low < 0xe000) {
        mrd_buf_add(to, cursor, 12);
        return cursor + 12;
    }
    if (unit >= 0 && (unit < 0xd800 || unit >= 0xe000)) {
        mrd_buf_add(to, cursor, 6);
        return cursor + 6;
    }
    /* an invalid "\\u" escape: half of a surrogate pair, or too few digits */
    if (cursor + 1 < end && cursor[1] == 'u') {
        mrd_buf_text(to, ESCAPED_REPLACEMENT);
        for (cursor += 2; unit < 0 && cursor < end && mrd_json_hex((unsigned char) *cursor) >= 0;
             cursor++)
            ;
        return unit < 0 ? cursor : cursor + 4;
    }
    if (cursor + 1 < end && cursor[1] != '\0' && strchr("\"\\/bfnrt", cursor[1]) != NULL) {
        mrd_buf_add(to, cursor, 2);
        return cursor + 2;
    }
    /* an escape that JSON does not have, so keep its backslash as a character */
    mrd_buf_text(to, "\\\\");
    return cursor + 1;
}

/* Appends a string, repaired if necessary. `cursor` is after the opening quote. Returns the
 * position after the closing quote. */
static const char *
clean_string(const char *cursor, const char *end, mrd_buf *to)
{
    while (cursor < end && *cursor != '"') {
        const char *from = cursor;

        while (cursor < end && *cursor != '"' && *cursor != '\\' && (unsigned char) *cursor >= 0x20)
            cursor++;
        mrd_json_clean_utf8((mrd_str){ from, (size_t) (cursor - from) }, to);
        if (cursor == end || *cursor == '"')
            break;
        if (*cursor == '\\')
            cursor = clean_escape(cursor, end, to);
        else if (*cursor == '\0')
            mrd_buf_text(to, ESCAPED_REPLACEMENT), cursor++;
        else
            mrd_buf_fmt(to, "\\u%04x", (unsigned) (unsigned char) *cursor++);
    }
    mrd_buf_byte(to, '"');
    return cursor < end ? cursor + 1 : end;
}

/* Returns the end of the number or bare word at p. */
static const char *
scalar_end(const char *p, const char *end)
{
    while (p<end && * p> ' ' && *p < 0x7f && strchr(",:[]{}\"\\", *p) == NULL)
        p++;
    return p;
}

static const char *
skip_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Returns true if [cursor, end) is a number, true, false or null by RFC 8259. */
static bool
is_scalar(const char *cursor, const char *end)
{
    static const char *const words[] = { "true", "false", "null" };
    const char *digits;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if ((size_t) (end - cursor) == strlen(words[i]) &&
            memcmp(cursor, words[i], (size_t) (end - cursor)) == 0)
            return true;
    }
    cursor += cursor < end && *cursor == '-';
    digits = cursor;
    cursor = skip_digits(cursor, end);
    if (cursor == digits || (*digits == '0' && cursor > digits + 1))
        return false;
    if (cursor < end && *cursor == '.') {
        digits = cursor + 1;
        if ((cursor = skip_digits(digits, end)) == digits)
            return false;
    }
    if (cursor < end && (*cursor | 32) == 'e') {
        cursor++;
        cursor += cursor < end && (*cursor == '-' || *cursor == '+');
        digits = cursor;
        if ((cursor = skip_digits(digits, end)) == digits)
            return false;
    }
    return cursor == end;
}

/* Returns true if the comma at p separates two values, and false if it is superfluous. `before` is
 * the previous byte that is not blank. */
static bool
is_separator(const char *p, const char *end, char before)
{
    if (strchr("[{,", before) != NULL)
        return false;
    do
        p++;
    while (p < end && *p != '\0' && strchr(" \t\r\n,", *p) != NULL);
    return p == end || (*p != ']' && *p != '}');
}

void
mrd_json_clean(mrd_str raw, mrd_buf *to)
{
    const char *cursor = raw.p, *end = raw.p + raw.len;
    char before = '[';

    while (cursor < end) {
        const char *word = scalar_end(cursor, end);

        if (*cursor == '"') {
            mrd_buf_byte(to, '"');
            cursor = clean_string(cursor + 1, end, to);
            before = '"';
        } else if (word > cursor) {
            mrd_buf_fmt(to, is_scalar(cursor, word) ? "%.*s" : "\"%.*s\"", (int) (word - cursor),
                        cursor);
            cursor = word;
            before = '0';
        } else {
            if (*cursor != ',' || is_separator(cursor, end, before))
                mrd_buf_byte(to, (uint8_t) *cursor);
            before = strchr(" \t\r\n", *cursor) != NULL ? before : *cursor;
            cursor++;
        }
    }
}
