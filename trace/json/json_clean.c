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

/* Returns the number of bytes at p that begin a character without completing it. 1 if the first
 * byte cannot begin one. */
static size_t
bad_run(const unsigned char *p, size_t left)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t need, n = 1;

    if (p[0] >= 0xc2 && p[0] <= 0xdf)
        need = 1;
    else if ((p[0] & 0xf0) == 0xe0)
        need = 2;
    else if (p[0] >= 0xf0 && p[0] <= 0xf4)
        need = 3;
    else
        return 1;
    low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : low;
    high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : high;
    for (; n <= need && n < left && p[n] >= low && p[n] <= high; n++) {
        low = 0x80;
        high = 0xbf;
    }
    return n;
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

/* Returns the code unit of an escape "\\uXXXX" at p, -1 if there is none. */
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

/* Cleans the escape at p and returns the position after it. */
static const char *
clean_escape(const char *p, const char *end, mrd_buf *to)
{
    int unit = unit_at(p, end), low;

    if (unit >= 0xd800 && unit < 0xdc00 && (low = unit_at(p + 6, end)) >= 0xdc00 && low < 0xe000) {
        mrd_buf_add(to, p, 12);
        return p + 12;
    }
    if (unit >= 0 && (unit < 0xd800 || unit >= 0xe000)) {
        mrd_buf_add(to, p, 6);
        return p + 6;
    }
    if (p + 1 < end && p[1] == 'u') { /* half of a surrogate pair, or too few digits */
        mrd_buf_text(to, ESCAPED_REPLACEMENT);
        for (p += 2; unit < 0 && p < end && mrd_json_hex((unsigned char) *p) >= 0; p++)
            ;
        return unit < 0 ? p : p + 4;
    }
    if (p + 1 < end && p[1] != '\0' && strchr("\"\\/bfnrt", p[1]) != NULL) {
        mrd_buf_add(to, p, 2);
        return p + 2;
    }
    mrd_buf_text(to, "\\\\"); /* an unknown escape is kept as text */
    return p + 1;
}

/* Cleans a string from after its opening quote. Returns the position after the closing one. */
static const char *
clean_string(const char *p, const char *end, mrd_buf *to)
{
    while (p < end && *p != '"') {
        const char *from = p;

        while (p < end && *p != '"' && *p != '\\' && (unsigned char) *p >= 0x20)
            p++;
        mrd_json_clean_utf8((mrd_str){ from, (size_t) (p - from) }, to);
        if (p == end || *p == '"')
            break;
        if (*p == '\\')
            p = clean_escape(p, end, to);
        else if (*p == '\0')
            mrd_buf_text(to, ESCAPED_REPLACEMENT), p++;
        else
            mrd_buf_fmt(to, "\\u%04x", (unsigned) (unsigned char) *p++);
    }
    mrd_buf_byte(to, '"');
    return p < end ? p + 1 : end;
}

/* Returns the first byte from p on that does not belong to a number or word. */
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

/* Returns true if [p, end) is a number, true, false or null by RFC 8259. */
static bool
is_scalar(const char *p, const char *end)
{
    static const char *const words[] = { "true", "false", "null" };
    const char *digits;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if ((size_t) (end - p) == strlen(words[i]) && memcmp(p, words[i], (size_t) (end - p)) == 0)
            return true;
    }
    p += p < end && *p == '-';
    digits = p;
    p = skip_digits(p, end);
    if (p == digits || (*digits == '0' && p > digits + 1))
        return false;
    if (p < end && *p == '.') {
        digits = p + 1;
        if ((p = skip_digits(digits, end)) == digits)
            return false;
    }
    if (p < end && (*p | 32) == 'e') {
        p++;
        p += p < end && (*p == '-' || *p == '+');
        digits = p;
        if ((p = skip_digits(digits, end)) == digits)
            return false;
    }
    return p == end;
}

/* Returns true if the comma at p is between two values. `before` is the last byte before it that is
 * not blank. */
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
    const char *p = raw.p, *end = raw.p + raw.len;
    char before = '[';

    while (p < end) {
        const char *word = scalar_end(p, end);

        if (*p == '"') {
            mrd_buf_byte(to, '"');
            p = clean_string(p + 1, end, to);
            before = '"';
        } else if (word > p) {
            mrd_buf_fmt(to, is_scalar(p, word) ? "%.*s" : "\"%.*s\"", (int) (word - p), p);
            p = word;
            before = '0';
        } else {
            if (*p != ',' || is_separator(p, end, before))
                mrd_buf_byte(to, (uint8_t) *p);
            before = strchr(" \t\r\n", *p) != NULL ? before : *p;
            p++;
        }
    }
}
