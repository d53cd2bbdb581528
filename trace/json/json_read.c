#include "trace/json/json_read.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace/json/json_clean.h"
#include "trace/json/json_read_int.h"
#include "trace/json/json_scan.h"

/* The parts of the scanner are all inlined in mrd_json_next, so that a token costs one call. */
#define JR_INLINE __attribute__((always_inline)) static inline

static const char jr_nothing[MRD_IN_PAD]; /* an empty window with its padding */

__attribute__((cold, noinline, format(printf, 4, 5))) static mrd_jr_type
jr_fail_at(mrd_json_reader *r, mrd_err err, uint64_t offset, const char *format, ...)
{
    char text[256];
    va_list args;

    if (r->why.err != MRD_OK)
        return MRD_JR_ERROR;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    r->value_at = offset;
    mrd_why_set(&r->why, err, 0, "'%s': byte %llu: %s", mrd_in_name(r->in),
                (unsigned long long) offset, text);
    return MRD_JR_ERROR;
}

/* Reports an unexpected byte. */
__attribute__((cold, noinline)) static mrd_jr_type
jr_unexpected(mrd_json_reader *r, const char *p, const char *expected)
{
    unsigned char c = (unsigned char) *p;

    r->p = p;
    if (p == r->end)
        return jr_fail_at(r, MRD_TRUNCATED, mrd_jr_offset(r, r->p),
                          "the input ends where %s is expected", expected);
    if (c > ' ' && c < 0x7f)
        return jr_fail_at(r, MRD_SYNTAX, mrd_jr_offset(r, r->p), "'%c' where %s is expected", c,
                          expected);
    return jr_fail_at(r, MRD_SYNTAX, mrd_jr_offset(r, r->p), "byte 0x%02x where %s is expected", c,
                      expected);
}

__attribute__((noinline)) bool
mrd_jr_more(mrd_json_reader *r, const char *keep)
{
    size_t drop, left, at, raw_at = 0, mark_at = 0;
    mrd_bytes data;

    if (r->why.err != MRD_OK)
        return false;
    if (r->mark != NULL && r->mark < keep) { /* the marked record may be searched again */
        if ((size_t) (r->end - r->mark) <= JR_HOLD)
            keep = r->mark;
        else
            r->mark = NULL;
    }
    drop = (size_t) (keep - r->base);
    left = (size_t) (r->end - keep);
    at = (size_t) (r->p - keep);
    mark_at = r->mark == NULL ? 0 : (size_t) (r->mark - keep);
    if (r->key_live) {
        mrd_buf_reset(&r->key_buf);
        mrd_buf_str(&r->key_buf, r->key);
        r->key.p = (const char *) r->key_buf.p;
        r->key_live = false;
    }
    if (r->raw != NULL) {
        if (keep < r->raw)
            raw_at = (size_t) (r->raw - keep);
        else if (r->raw_buf.len <= r->raw_max)
            mrd_buf_add(&r->raw_buf, r->raw, (size_t) (keep - r->raw));
        if (r->raw_buf.err != MRD_OK)
            r->raw_buf.len = r->raw_max + 1;
    }
    mrd_in_consume(r->in, drop);
    r->base_offset += drop;
    if (mrd_in_fill(r->in, left + 1, &data, &r->why) != MRD_OK) {
        uint64_t offset = r->base_offset + left;

        r->value_at = offset;
        mrd_why_prefix(&r->why, r->why.err, "byte %llu", (unsigned long long) offset);
        /* the window was freed, and the reader is at its end */
        r->base = r->p = r->end = jr_nothing;
        r->base_offset = offset;
        r->raw = r->raw == NULL ? NULL : r->base;
        r->mark = NULL;
        return false;
    }
    r->base = (const char *) data.p;
    r->end = r->base + data.len;
    r->p = r->base + at;
    r->raw = r->raw == NULL ? NULL : r->base + raw_at;
    r->mark = r->mark == NULL ? NULL : r->base + mark_at;
    return data.len > left;
}

/* Skips blanks that reach the end of the window. */
__attribute__((noinline)) static const char *
jr_blanks_on(mrd_json_reader *r)
{
    do {
        r->p = r->end;
        if (!mrd_jr_more(r, r->end))
            return r->why.err == MRD_OK ? r->p : NULL;
        r->p = mrd_scan_blanks(r->p);
    } while (r->p == r->end);
    return r->p;
}

/* Returns the next byte from p on that is not blank, or the end of the input. NULL on errors. */
JR_INLINE const char *
jr_blanks(mrd_json_reader *r, const char *p)
{
    if ((unsigned char) p[0] > ' ')
        return p;
    if (p[0] == ' ' && (unsigned char) p[1] > ' ') /* the usual text after a comma or colon */
        return p + 1;
    p = mrd_scan_blanks(p);
    return __builtin_expect(p < r->end, 1) ? p : jr_blanks_on(r);
}

/* Returns the next byte, loading more input if needed. -1 at the end of the input or on errors. */
static int
jr_peek(mrd_json_reader *r)
{
    if (r->p == r->end && !mrd_jr_more(r, r->end))
        return -1;
    return (unsigned char) *r->p;
}

/* Reads four hexadecimal digits at p. Returns false if there are fewer. */
static bool
jr_hex4(mrd_json_reader *r, unsigned *ret_unit)
{
    unsigned unit = 0;

    for (int i = 0; i < 4; i++, r->p++) {
        int digit = mrd_json_hex(jr_peek(r));

        if (digit < 0)
            return false;
        unit = unit << 4 | (unsigned) digit;
    }
    *ret_unit = unit;
    return true;
}

static void
jr_put_utf8(mrd_buf *to, unsigned code)
{
    if (code < 0x80) {
        mrd_buf_byte(to, (uint8_t) code);
        return;
    }
    if (code < 0x800) {
        mrd_buf_byte(to, (uint8_t) (0xc0 | code >> 6));
    } else {
        if (code < 0x10000) {
            mrd_buf_byte(to, (uint8_t) (0xe0 | code >> 12));
        } else {
            mrd_buf_byte(to, (uint8_t) (0xf0 | code >> 18));
            mrd_buf_byte(to, (uint8_t) (0x80 | (code >> 12 & 0x3f)));
        }
        mrd_buf_byte(to, (uint8_t) (0x80 | (code >> 6 & 0x3f)));
    }
    mrd_buf_byte(to, (uint8_t) (0x80 | (code & 0x3f)));
}

static void
jr_replace(mrd_json_reader *r, mrd_buf *to)
{
    mrd_buf_text(to, MRD_JSON_REPLACEMENT);
    r->replaced++;
}

/* Passes the second half of a surrogate pair if it is at p. */
static bool
jr_low_half(mrd_json_reader *r, unsigned *ret_low)
{
    unsigned low = 0;

    while (r->end - r->p < 6 && mrd_jr_more(r, r->p))
        ;
    if (r->end - r->p < 6 || r->p[0] != '\\' || r->p[1] != 'u')
        return false;
    for (int i = 2; i < 6; i++) {
        int digit = mrd_json_hex((unsigned char) r->p[i]);

        if (digit < 0)
            return false;
        low = low << 4 | (unsigned) digit;
    }
    if (low < 0xdc00 || low >= 0xe000)
        return false;
    r->p += 6;
    *ret_low = low;
    return true;
}

/* Reads the character after "\u". An invalid one is replaced. */
static bool
jr_unicode(mrd_json_reader *r, mrd_buf *to)
{
    unsigned unit = 0, low;

    if (!jr_hex4(r, &unit)) {
        if (jr_peek(r) < 0) {
            jr_fail_at(r, MRD_TRUNCATED, mrd_jr_offset(r, r->p), "the input ends inside an escape");
            return false;
        }
        jr_replace(r, to);
    } else if (unit >= 0xd800 && unit < 0xdc00 && jr_low_half(r, &low)) {
        jr_put_utf8(to, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
    } else if (unit >= 0xd800 && unit < 0xe000) {
        jr_replace(r, to);
    } else {
        jr_put_utf8(to, unit);
    }
    return r->why.err == MRD_OK;
}

/* Appends the meaning of the escape at p. An escape that JSON does not define is kept as text. */
static bool
jr_escape(mrd_json_reader *r, mrd_buf *to)
{
    static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char *found;
    int c;

    r->p++;
    c = jr_peek(r);
    if (c < 0) {
        jr_fail_at(r, MRD_TRUNCATED, mrd_jr_offset(r, r->p), "the input ends inside an escape");
        return false;
    }
    if (c == 'u') {
        r->p++;
        return jr_unicode(r, to);
    }
    if (c > 0 && (found = strchr(plain, c)) != NULL) {
        mrd_buf_byte(to, (uint8_t) means[found - plain]);
        r->p++;
    } else {
        mrd_buf_byte(to, '\\');
        r->replaced++;
    }
    return true;
}

/* Replaces in `to`, from `chunk` on, each run of bytes that is not UTF-8 by U+FFFD. */
static bool
jr_repair(mrd_json_reader *r, mrd_buf *to, size_t chunk)
{
    mrd_buf copy = { 0 };
    bool ok;

    if (to->len == chunk ||
        mrd_utf8_valid((mrd_str){ (const char *) to->p + chunk, to->len - chunk }, NULL))
        return true;
    mrd_buf_add(&copy, to->p + chunk, to->len - chunk);
    to->len = chunk;
    if (copy.err == MRD_OK)
        r->replaced += mrd_json_clean_utf8((mrd_str){ (const char *) copy.p, copy.len }, to);
    ok = copy.err == MRD_OK && to->err == MRD_OK;
    mrd_buf_fini(&copy);
    if (!ok)
        jr_fail_at(r, MRD_NOMEM, mrd_jr_offset(r, r->p), "no memory for a string");
    return ok;
}

static bool
jr_room(mrd_json_reader *r, const mrd_buf *to)
{
    if (to->err != MRD_OK)
        jr_fail_at(r, MRD_NOMEM, mrd_jr_offset(r, r->p), "no memory for a string");
    else if (to->len > MRD_JR_STRING_MAX)
        jr_fail_at(r, MRD_LIMIT, mrd_jr_offset(r, r->p), "a string of more than %u bytes",
                   MRD_JR_STRING_MAX);
    return r->why.err == MRD_OK;
}

/*
 * Reads any string. [from, p) in the window was scanned and needs no change. The rest may have
 * escapes or extend beyond the window. UTF-8 is checked chunk by chunk between escapes. Control
 * characters are kept, zero bytes and invalid UTF-8 are replaced. Returns the position after the
 * string, NULL on errors.
 */
__attribute__((noinline)) static const char *
jr_string_slow(mrd_json_reader *r, const char *from, const char *p, bool high, mrd_buf *to,
               mrd_str *ret_text)
{
    size_t chunk = 0;

    r->p = p;
    mrd_buf_reset(to);
    for (;;) {
        mrd_buf_add(to, from, (size_t) (r->p - from));
        if (!jr_room(r, to))
            return NULL;
        if (r->p == r->end) {
            if (!mrd_jr_more(r, r->end)) {
                jr_fail_at(r, MRD_TRUNCATED, mrd_jr_offset(r, r->p),
                           "the input ends inside a string");
                return NULL;
            }
        } else {
            if (high && !jr_repair(r, to, chunk))
                return NULL;
            if (*r->p == '"')
                break;
            if (*r->p == '\\') {
                if (!jr_escape(r, to))
                    return NULL;
            } else if (*r->p == '\0') {
                r->p++;
                jr_replace(r, to);
            } else {
                mrd_buf_byte(to, (uint8_t) *r->p++);
                r->replaced++;
            }
            high = false;
            chunk = to->len;
        }
        from = r->p;
        r->p = mrd_scan_text(r->p, &high);
    }
    *ret_text = (mrd_str){ to->len == 0 ? "" : (const char *) to->p, to->len };
    return r->p + 1;
}

/* Reads a string from after its opening quote. Returns the position after the closing one, NULL on
 * errors. */
JR_INLINE const char *
jr_string(mrd_json_reader *r, const char *from, mrd_buf *to, mrd_str *ret_text, bool *ret_in_window)
{
    bool high = false;
    const char *p = mrd_scan_text(from, &high);

    *ret_in_window = true;
    *ret_text = (mrd_str){ from, (size_t) (p - from) };
    if (__builtin_expect(*p == '"', 1) &&
        (__builtin_expect(!high, 1) || mrd_utf8_valid(*ret_text, NULL)))
        return p + 1;
    *ret_in_window = false;
    return jr_string_slow(r, from, p, high, to, ret_text);
}

/* Bytes that may follow a number. They do not include the zero byte after the window. */
static const bool jr_ends_value[256] = { [','] = true,  [']'] = true,  ['}'] = true, [' '] = true,
                                         ['\t'] = true, ['\n'] = true, ['\r'] = true };

/* Returns the end of the number at p. Sets *ok to false if the grammar is violated there. */
static inline const char *
jr_number_run(const char *p, bool *ok)
{
    const char *from;

    *ok = true;
    if (*p == '-')
        p++;
    from = p;
    p = mrd_scan_digits(p);
    *ok = p > from;
    if (*from == '0' && *ok)
        p = from + 1; /* no digits may follow a leading zero */
    if (*p == '.' && *ok) {
        from = ++p;
        p = mrd_scan_digits(p);
        *ok = p > from;
    }
    if ((*p | 32) == 'e' && *ok) {
        p++;
        if (*p == '-' || *p == '+')
            p++;
        from = p;
        p = mrd_scan_digits(p);
        *ok = p > from;
    }
    return p;
}

static mrd_jr_type jr_word(mrd_json_reader *r, mrd_str *ret_text);

/* Reads the number at r->p, which may extend beyond the window or be invalid. */
__attribute__((noinline)) static mrd_jr_type
jr_number_slow(mrd_json_reader *r, mrd_str *ret_text)
{
    for (;;) {
        bool ok;
        const char *from = r->p, *to = jr_number_run(from, &ok);

        if (to == r->end) { /* it may continue after the window */
            if ((size_t) (to - from) > MRD_JR_NUMBER_MAX)
                return jr_fail_at(r, MRD_LIMIT, mrd_jr_offset(r, from),
                                  "a number of more than %u bytes", MRD_JR_NUMBER_MAX);
            if (mrd_jr_more(r, from))
                continue;
            if (r->why.err != MRD_OK)
                return MRD_JR_ERROR;
            if (!ok)
                return jr_fail_at(r, MRD_TRUNCATED, mrd_jr_offset(r, r->end),
                                  "the input ends inside a number");
            from = r->p; /* the window may have moved */
            to = r->end;
        }
        if (!ok || (to < r->end && !jr_ends_value[(unsigned char) *to]))
            return jr_word(r, ret_text);
        if ((size_t) (to - from) > MRD_JR_NUMBER_MAX)
            return jr_fail_at(r, MRD_LIMIT, mrd_jr_offset(r, from),
                              "a number of more than %u bytes", MRD_JR_NUMBER_MAX);
        r->p = to;
        *ret_text = (mrd_str){ from, (size_t) (to - from) };
        return MRD_JR_NUMBER;
    }
}

JR_INLINE mrd_jr_type
jr_number(mrd_json_reader *r, const char *from, mrd_str *ret_text)
{
    bool ok;
    const char *to = jr_number_run(from, &ok);

    *ret_text = (mrd_str){ from, (size_t) (to - from) };
    if (__builtin_expect(
            ok && jr_ends_value[(unsigned char) *to] && ret_text->len <= MRD_JR_NUMBER_MAX, 1)) {
        r->p = to;
        return MRD_JR_NUMBER;
    }
    r->p = from;
    return jr_number_slow(r, ret_text);
}

/* Returns the end of the bare word at p: printable ASCII without JSON's own characters. */
static const char *
jr_word_end(const char *p)
{
    while (*p > ' ' && *p < 0x7f && strchr(",:[]{}\"\\", *p) == NULL)
        p++;
    return p;
}

static mrd_jr_type jr_behind_commas(mrd_json_reader *r, mrd_str *ret_text);

/* Reads true, false, null, a bare word or an extra comma at r->p. All else is an error. */
__attribute__((noinline)) static mrd_jr_type
jr_word(mrd_json_reader *r, mrd_str *ret_text)
{
    static const struct {
        mrd_str text;
        mrd_jr_type type;
    } words[] = { { { "true", 4 }, MRD_JR_TRUE },
                  { { "false", 5 }, MRD_JR_FALSE },
                  { { "null", 4 }, MRD_JR_NULL } };
    const char *to;
    size_t len;

    if (*r->p == ',' && r->stack[r->depth] == '[')
        return jr_behind_commas(r, ret_text);
    do
        len = (size_t) (jr_word_end(r->p) - r->p);
    while (len == (size_t) (r->end - r->p) && len <= MRD_JR_WORD_MAX && mrd_jr_more(r, r->p));
    if (r->why.err != MRD_OK)
        return MRD_JR_ERROR;
    to = r->p + len;
    *ret_text = (mrd_str){ r->p, len };
    if (to == r->end && r->depth > 0)
        return jr_fail_at(r, MRD_TRUNCATED, mrd_jr_offset(r, to),
                          len == 0 ? "the input ends where a value is expected"
                                   : "the input ends inside a word");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (mrd_str_eq(*ret_text, words[i].text)) {
            r->p = to;
            return words[i].type;
        }
    }
    if (len == 0 || len > MRD_JR_WORD_MAX)
        return jr_unexpected(r, r->p, "a value");
    r->p = to;
    r->lenient++;
    return MRD_JR_WORD;
}

JR_INLINE mrd_jr_type
jr_value(mrd_json_reader *r, const char *p, mrd_str *ret_text)
{
    bool in_window;
    char c = *p;

    r->value_at = mrd_jr_offset(r, p);
    if (c == '"') {
        p = jr_string(r, p + 1, &r->text, ret_text, &in_window);
        if (__builtin_expect(p == NULL, 0))
            return MRD_JR_ERROR;
        r->p = p;
        return MRD_JR_STRING;
    }
    if ((unsigned char) (c - '0') <= 9 || c == '-')
        return jr_number(r, p, ret_text);
    if (c == '{' || c == '[') {
        r->p = p + 1;
        r->pending = c;
        return c == '{' ? MRD_JR_OBJECT : MRD_JR_ARRAY;
    }
    r->p = p;
    return jr_word(r, ret_text);
}

JR_INLINE mrd_jr_type
jr_leave(mrd_json_reader *r, const char *p)
{
    r->value_at = mrd_jr_offset(r, p);
    r->p = p + 1;
    r->depth--;
    r->first = false;
    return MRD_JR_END;
}

/* Handles a comma in place of an element: passes it and further commas. */
static mrd_jr_type
jr_behind_commas(mrd_json_reader *r, mrd_str *ret_text)
{
    const char *p = r->p;

    do {
        r->lenient++;
        if ((p = jr_blanks(r, p + 1)) == NULL)
            return MRD_JR_ERROR;
    } while (*p == ',');
    return *p == ']' ? jr_leave(r, p) : jr_value(r, p, ret_text);
}

/* Handles an object in an array that follows another one without a comma. */
__attribute__((noinline)) static mrd_jr_type
jr_no_comma(mrd_json_reader *r, const char *p)
{
    r->lenient++;
    return jr_value(r, p, &r->unasked);
}

JR_INLINE mrd_jr_type
jr_next_in_object(mrd_json_reader *r, const char *p, mrd_str *ret_text)
{
    if (*p == '}')
        return jr_leave(r, p);
    if (!r->first) {
        if (__builtin_expect(*p != ',', 0))
            return jr_unexpected(r, p, "',' or '}'");
        if ((p = jr_blanks(r, p + 1)) == NULL)
            return MRD_JR_ERROR;
    }
    r->first = false;
    if (__builtin_expect(*p != '"', 0)) {
        if (*p != '}')
            return jr_unexpected(r, p, "a key in quotes");
        r->lenient++;
        return jr_leave(r, p);
    }
    if ((p = jr_string(r, p + 1, &r->key_buf, &r->key, &r->key_live)) == NULL ||
        (p = jr_blanks(r, p)) == NULL)
        return MRD_JR_ERROR;
    if (__builtin_expect(*p != ':', 0))
        return jr_unexpected(r, p, "':'");
    if ((p = jr_blanks(r, p + 1)) == NULL)
        return MRD_JR_ERROR;
    return jr_value(r, p, ret_text);
}

JR_INLINE mrd_jr_type
jr_next_in_array(mrd_json_reader *r, const char *p, mrd_str *ret_text)
{
    if (*p == ']')
        return jr_leave(r, p);
    if (!r->first) {
        if (__builtin_expect(*p != ',', 0))
            return *p == '{' ? jr_no_comma(r, p) : jr_unexpected(r, p, "',' or ']'");
        if ((p = jr_blanks(r, p + 1)) == NULL)
            return MRD_JR_ERROR;
        if (*p == ']') {
            r->lenient++;
            return jr_leave(r, p);
        }
    }
    r->first = false;
    return jr_value(r, p, ret_text);
}

/* Skips a byte order mark at the beginning, and the blanks after it. Returns NULL on errors. */
static const char *
jr_mark(mrd_json_reader *r)
{
    while (r->end - r->p < 3 && mrd_jr_more(r, r->p))
        ;
    if (r->end - r->p < 3 || memcmp(r->p, "\xef\xbb\xbf", 3) != 0)
        return r->why.err == MRD_OK ? r->p : NULL;
    r->lenient++;
    return jr_blanks(r, r->p + 3);
}

/* Keeps the first bytes of the document at p. Returns their new position in the window. */
static const char *
jr_keep_head(mrd_json_reader *r, const char *p)
{
    r->p = p;
    while (r->end - r->p < JR_HEAD && mrd_jr_more(r, r->p))
        ;
    if (r->end - r->p >= JR_HEAD) {
        memcpy(r->head, r->p, JR_HEAD);
        r->head_len = JR_HEAD;
    }
    return r->p;
}

__attribute__((noinline)) static mrd_jr_type
jr_next_on_top(mrd_json_reader *r, const char *p, mrd_str *ret_text)
{
    while (r->loose && (*p == ',' || *p == ']' || *p == '}'))
        if ((p = jr_blanks(r, p + 1)) == NULL)
            return MRD_JR_ERROR;
    r->p = p;
    if (!r->any && (unsigned char) *p == 0xef && mrd_jr_offset(r, p) == 0 &&
        (p = jr_mark(r)) == NULL)
        return MRD_JR_ERROR;
    if (p == r->end) {
        r->p = p;
        r->value_at = mrd_jr_offset(r, p);
        return r->any ? MRD_JR_END
                      : jr_fail_at(r, MRD_EMPTY, r->value_at, "the input holds no JSON value");
    }
    if (r->any && !r->many)
        return jr_unexpected(r, p, "the end of the document");
    if (!r->any)
        p = jr_keep_head(r, p);
    r->any = true;
    return jr_value(r, p, ret_text);
}

JR_INLINE mrd_jr_type
jr_next(mrd_json_reader *r, mrd_str *ret_text)
{
    const char *p = jr_blanks(r, r->p);
    char in = r->stack[r->depth];

    if (__builtin_expect(p == NULL, 0))
        return MRD_JR_ERROR;
    if (in == '{')
        return jr_next_in_object(r, p, ret_text);
    r->key = (mrd_str){ "", 0 };
    return in == '[' ? jr_next_in_array(r, p, ret_text) : jr_next_on_top(r, p, ret_text);
}

static bool
jr_go_in(mrd_json_reader *r)
{
    if (r->depth == MRD_JR_DEPTH) {
        jr_fail_at(r, MRD_DEPTH, r->value_at, "more than %d levels of objects and arrays",
                   MRD_JR_DEPTH);
        return false;
    }
    r->stack[++r->depth] = r->pending;
    r->pending = 0;
    r->first = true;
    return true;
}

/* Skips the container that was just entered, and checks its text. */
static bool
jr_skip(mrd_json_reader *r)
{
    unsigned to = r->depth;
    mrd_str text;

    if (r->mark_depth == to) /* the marked record has ended */
        r->mark_depth = UINT_MAX;
    if (!jr_go_in(r))
        return false;
    while (r->depth > to) {
        mrd_jr_type type = jr_next(r, &text);

        r->key_live = false;
        if (type == MRD_JR_ERROR || (r->pending != 0 && !jr_go_in(r)))
            return false;
    }
    return true;
}

mrd_jr_type
mrd_json_next(mrd_json_reader *r, mrd_str *ret_key, mrd_str *ret_text)
{
    mrd_str *text = ret_text != NULL ? ret_text : &r->unasked;
    mrd_jr_type type;

    if (__builtin_expect(r->why.err != MRD_OK, 0))
        return MRD_JR_ERROR;
    if (r->pending != 0 && !jr_skip(r))
        return MRD_JR_ERROR;
    *text = (mrd_str){ "", 0 };
    type = jr_next(r, text);
    r->key_live = false;
    if (ret_key != NULL)
        *ret_key = r->key;
    return type;
}

void
mrd_json_enter(mrd_json_reader *r)
{
    if (r->pending != 0 && r->why.err == MRD_OK)
        (void) jr_go_in(r);
}

/* Raw text is repaired like all other text, so that it is valid JSON. */
static mrd_err
jr_clean_raw(mrd_json_reader *r, mrd_str *text)
{
    mrd_buf_reset(&r->text);
    mrd_json_clean(*text, &r->text);
    *text = (mrd_str){ (const char *) r->text.p, r->text.len };
    return r->text.err;
}

mrd_err
mrd_json_raw(mrd_json_reader *r, size_t max, mrd_str *ret_text)
{
    uint64_t repairs = r->lenient + r->replaced;

    if (r->why.err != MRD_OK || r->pending == 0)
        return r->why.err != MRD_OK ? r->why.err : MRD_INVALID;
    mrd_buf_reset(&r->raw_buf);
    r->raw = r->p - 1; /* nothing was read after the bracket */
    r->raw_max = max;
    if (!jr_skip(r)) {
        r->raw = NULL;
        return r->why.err;
    }
    if (r->raw_buf.len == 0) {
        *ret_text = (mrd_str){ r->raw, (size_t) (r->p - r->raw) };
    } else {
        if (r->raw_buf.len <= max)
            mrd_buf_add(&r->raw_buf, r->raw, (size_t) (r->p - r->raw));
        *ret_text = (mrd_str){ (const char *) r->raw_buf.p, r->raw_buf.len };
    }
    r->raw = NULL;
    if (r->raw_buf.err != MRD_OK)
        return MRD_NOMEM;
    if (repairs != r->lenient + r->replaced && ret_text->len <= max &&
        jr_clean_raw(r, ret_text) != MRD_OK)
        return MRD_NOMEM;
    return ret_text->len > max ? MRD_LIMIT : MRD_OK;
}

mrd_str
mrd_json_ahead(const mrd_json_reader *r)
{
    return r->pending == 0 ? (mrd_str){ jr_nothing, 0 }
                           : (mrd_str){ r->p, (size_t) (r->end - r->p) };
}

void
mrd_json_passed(mrd_json_reader *r, const char *p)
{
    r->p = p;
    r->pending = 0;
    r->first = false;
}

void
mrd_json_mark(mrd_json_reader *r, uint64_t offset, unsigned depth)
{
    r->mark = offset >= r->base_offset ? r->base + (offset - r->base_offset) : NULL;
    r->mark_at = offset;
    r->mark_depth = depth;
}

mrd_err
mrd_json_reader_open(mrd_in *in, mrd_json_reader **ret_reader, mrd_why *why)
{
    mrd_json_reader *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(in));
    r->in = in;
    r->p = r->end = r->base = jr_nothing; /* so that the first scan loads data */
    r->base_offset = mrd_in_offset(in);
    r->mark_depth = UINT_MAX;
    r->first = true;
    *ret_reader = r;
    return MRD_OK;
}

void
mrd_json_reader_close(mrd_json_reader *r)
{
    if (r == NULL)
        return;
    mrd_buf_fini(&r->text);
    mrd_buf_fini(&r->key_buf);
    mrd_buf_fini(&r->raw_buf);
    free(r);
}

void
mrd_json_many(mrd_json_reader *r)
{
    r->many = true;
}

mrd_err
mrd_json_reader_err(const mrd_json_reader *r, mrd_why *why)
{
    if (why != NULL && r->why.err != MRD_OK)
        *why = r->why;
    return r->why.err;
}

uint64_t
mrd_json_reader_offset(const mrd_json_reader *r)
{
    return r->value_at;
}

unsigned
mrd_json_depth(const mrd_json_reader *r)
{
    return r->depth;
}

uint64_t
mrd_json_reader_lenient(const mrd_json_reader *r)
{
    return r->lenient;
}

uint64_t
mrd_json_reader_replaced(const mrd_json_reader *r)
{
    return r->replaced;
}

const char *
mrd_jr_type_text(mrd_jr_type type)
{
    static const char *const names[] = {
        "an error", "the end", "an object", "an array", "a string",
        "a number", "true",    "false",     "null",     "a word without quotes"
    };

    return (size_t) type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}
