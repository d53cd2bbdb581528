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

/* Bytes at p that begin one character without ending it; 1 when the first begins none. */
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

/* The unit of an escape "\\uXXXX" at p, -1 when none stands there. */
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

/* The escape at p; returns what is behind it. */
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
    if (p + 1 < end && p[1] == 'u') { /* half a pair, or too few digits */
        mrd_buf_text(to, ESCAPED_REPLACEMENT);
        for (p += 2; unit < 0 && p < end && mrd_json_hex((unsigned char) *p) >= 0; p++)
            ;
        return unit < 0 ? p : p + 4;
    }
    if (p + 1 < end && p[1] != '\0' && strchr("\"\\/bfnrt", p[1]) != NULL) {
        mrd_buf_add(to, p, 2);
        return p + 2;
    }
    mrd_buf_text(to, "\\\\"); /* an unknown one stays as it is */
    return p + 1;
}

/* Behind the opening quote; returns what is behind the closing one. */
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

/* NaN, Infinity, -Infinity at p: their length, else 0. */
static size_t
word_at(const char *p, const char *end)
{
    static const char *const words[] = { "NaN", "Infinity", "-Infinity" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t n = strlen(words[i]);

        if ((size_t) (end - p) >= n && memcmp(p, words[i], n) == 0)
            return n;
    }
    return 0;
}

void
mrd_json_clean(mrd_str raw, mrd_buf *to)
{
    const char *p = raw.p, *end = raw.p + raw.len;

    while (p < end) {
        size_t word = word_at(p, end);

        if (*p == '"') {
            mrd_buf_byte(to, '"');
            p = clean_string(p + 1, end, to);
        } else if (word > 0) {
            mrd_buf_fmt(to, "\"%.*s\"", (int) word, p);
            p += word;
        } else if (*p == ',') {
            const char *next = p + 1;

            while (next < end && strchr(" \t\r\n", *next) != NULL && *next != '\0')
                next++;
            if (next == end || *next != ']')
                mrd_buf_byte(to, ',');
            p++;
        } else {
            mrd_buf_byte(to, (uint8_t) *p++);
        }
    }
}
