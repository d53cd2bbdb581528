#include "trace/json/json_read.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace/json/json_clean.h"
#include "trace/json/json_read_int.h"
#include "trace/json/json_scan.h"

/* For the functions of the scanner: inlining all of them into mrd_json_next() makes a token cost
 * one call. */
#define JR_INLINE __attribute__((always_inline)) static inline

static const char jr_nothing[MRD_IN_PAD]; /* an empty window with its padding of zero bytes */

__attribute__((cold, noinline, format(printf, 4, 5))) static mrd_jr_type
jr_fail_at(mrd_json_reader *reader, mrd_err err, uint64_t offset, const char *format, ...)
{
    char text[256];
    va_list args;

    if (reader->why.err != MRD_OK)
        return MRD_JR_ERROR;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    reader->value_at = offset;
    mrd_why_set(&reader->why, err, 0, "'%s': byte %llu: %s", mrd_in_name(reader->in),
                (unsigned long long) offset, text);
    return MRD_JR_ERROR;
}

/* Sets the error for an unexpected byte at p. */
__attribute__((cold, noinline)) static mrd_jr_type
jr_unexpected(mrd_json_reader *reader, const char *p, const char *expected)
{
    unsigned char c = (unsigned char) *p;

    reader->p = p;
    if (p == reader->end)
        return jr_fail_at(reader, MRD_TRUNCATED, mrd_jr_offset(reader, reader->p),
                          "the input ends where %s is expected", expected);
    if (c > ' ' && c < 0x7f)
        return jr_fail_at(reader, MRD_SYNTAX, mrd_jr_offset(reader, reader->p),
                          "'%c' where %s is expected", c, expected);
    return jr_fail_at(reader, MRD_SYNTAX, mrd_jr_offset(reader, reader->p),
                      "byte 0x%02x where %s is expected", c, expected);
}

__attribute__((noinline)) bool
mrd_jr_more(mrd_json_reader *reader, const char *keep)
{
    size_t drop, left, at, raw_at = 0, mark_at = 0;
    mrd_bytes data;

    if (reader->why.err != MRD_OK)
        return false;
    /* keep the marked record in the window, so that mrd_json_resume() can search it again */
    if (reader->mark != NULL && reader->mark < keep) {
        if ((size_t) (reader->end - reader->mark) <= JR_HOLD)
            keep = reader->mark;
        else
            reader->mark = NULL;
    }
    drop = (size_t) (keep - reader->base);
    left = (size_t) (reader->end - keep);
    at = (size_t) (reader->p - keep);
    mark_at = reader->mark == NULL ? 0 : (size_t) (reader->mark - keep);
    if (reader->key_live) {
        mrd_buf_reset(&reader->key_buf);
        mrd_buf_str(&reader->key_buf, reader->key);
        reader->key.p = (const char *) reader->key_buf.p;
        reader->key_live = false;
    }
    if (reader->raw != NULL) {
        if (keep < reader->raw)
            raw_at = (size_t) (reader->raw - keep);
        else if (reader->raw_buf.len <= reader->raw_max)
            mrd_buf_add(&reader->raw_buf, reader->raw, (size_t) (keep - reader->raw));
        if (reader->raw_buf.err != MRD_OK)
            reader->raw_buf.len = reader->raw_max + 1;
    }
    mrd_in_consume(reader->in, drop);
    reader->base_offset += drop;
    if (mrd_in_fill(reader->in, left + 1, &data, &reader->why) != MRD_OK) {
        uint64_t offset = reader->base_offset + left;

        reader->value_at = offset;
        mrd_why_prefix(&reader->why, reader->why.err, "byte %llu", (unsigned long long) offset);
        /* The window of mrd_in_fill() is invalid after its failure. Continue with an empty window
         * at the same offset. */
        reader->base = reader->p = reader->end = jr_nothing;
        reader->base_offset = offset;
        reader->raw = reader->raw == NULL ? NULL : reader->base;
        reader->mark = NULL;
        return false;
    }
    reader->base = (const char *) data.p;
    reader->end = reader->base + data.len;
    reader->p = reader->base + at;
    reader->raw = reader->raw == NULL ? NULL : reader->base + raw_at;
    reader->mark = reader->mark == NULL ? NULL : reader->base + mark_at;
    return data.len > left;
}

/* Skips blanks up to and beyond the end of the window. Returns the next byte that is not blank, or
 * the end of the input. NULL on errors. */
__attribute__((noinline)) static const char *
jr_blanks_on(mrd_json_reader *reader)
{
    do {
        reader->p = reader->end;
        if (!mrd_jr_more(reader, reader->end))
            return reader->why.err == MRD_OK ? reader->p : NULL;
        reader->p = mrd_scan_blanks(reader->p);
    } while (reader->p == reader->end);
    return reader->p;
}

/* Returns the position of the next byte from p on that is not blank, or the end of the input. NULL
 * on errors. */
JR_INLINE const char *
jr_blanks(mrd_json_reader *reader, const char *p)
{
    if ((unsigned char) p[0] > ' ')
        return p;
    /* a single space usually follows a comma or colon */
    if (p[0] == ' ' && (unsigned char) p[1] > ' ')
        return p + 1;
    p = mrd_scan_blanks(p);
    return __builtin_expect(p < reader->end, 1) ? p : jr_blanks_on(reader);
}

/* Returns the next byte, and loads more input if needed. Returns -1 at the end of the input and on
 * errors. */
static int
jr_peek(mrd_json_reader *reader)
{
    if (reader->p == reader->end && !mrd_jr_more(reader, reader->end))
        return -1;
    return (unsigned char) *reader->p;
}

/* Reads four hexadecimal digits. Returns false if there are fewer. */
static bool
jr_hex4(mrd_json_reader *reader, unsigned *ret_unit)
{
    unsigned unit = 0;

    for (int i = 0; i < 4; i++, reader->p++) {
        int digit = mrd_json_hex(jr_peek(reader));

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
jr_replace(mrd_json_reader *reader, mrd_buf *to)
{
    mrd_buf_text(to, MRD_JSON_REPLACEMENT);
    reader->replaced++;
}

/* Reads the second half of a surrogate pair, "\uXXXX". If something else follows, reads nothing and
 * returns false. */
static bool
jr_low_half(mrd_json_reader *reader, unsigned *ret_low)
{
    unsigned low = 0;

    while (reader->end - reader->p < 6 && mrd_jr_more(reader, reader->p))
        ;
    if (reader->end - reader->p < 6 || reader->p[0] != '\\' || reader->p[1] != 'u')
        return false;
    for (int i = 2; i < 6; i++) {
        int digit = mrd_json_hex((unsigned char) reader->p[i]);

        if (digit < 0)
            return false;
        low = low << 4 | (unsigned) digit;
    }
    if (low < 0xdc00 || low >= 0xe000)
        return false;
    reader->p += 6;
    *ret_low = low;
    return true;
}

/* Reads the digits after "\u", and appends the character. Appends U+FFFD for an invalid escape.
 * Returns false on errors. */
static bool
jr_unicode(mrd_json_reader *reader, mrd_buf *to)
{
    unsigned unit = 0, low;

    if (!jr_hex4(reader, &unit)) {
        if (jr_peek(reader) < 0) {
            jr_fail_at(reader, MRD_TRUNCATED, mrd_jr_offset(reader, reader->p),
                       "the input ends inside an escape");
            return false;
        }
        jr_replace(reader, to);
    } else if (unit >= 0xd800 && unit < 0xdc00 && jr_low_half(reader, &low)) {
        jr_put_utf8(to, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
    } else if (unit >= 0xd800 && unit < 0xe000) {
        jr_replace(reader, to);
    } else {
        jr_put_utf8(to, unit);
    }
    return reader->why.err == MRD_OK;
}

/* Reads an escape and appends its character. An escape that JSON does not have is appended
 * unchanged. Returns false on errors. */
static bool
jr_escape(mrd_json_reader *reader, mrd_buf *to)
{
    static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char *found;
    int c;

    reader->p++;
    c = jr_peek(reader);
    if (c < 0) {
        jr_fail_at(reader, MRD_TRUNCATED, mrd_jr_offset(reader, reader->p),
                   "the input ends inside an escape");
        return false;
    }
    if (c == 'u') {
        reader->p++;
        return jr_unicode(reader, to);
    }
    if (c > 0 && (found = strchr(plain, c)) != NULL) {
        mrd_buf_byte(to, (uint8_t) means[found - plain]);
        reader->p++;
    } else {
        mrd_buf_byte(to, '\\');
        reader->replaced++;
    }
    return true;
}

/* Repairs the bytes of `to` from offset `chunk` on: U+FFFD replaces each sequence that is not
 * UTF-8. Returns false if out of memory. */
static bool
jr_repair(mrd_json_reader *reader, mrd_buf *to, size_t chunk)
{
    mrd_buf copy = { 0 };
    bool ok;

    if (to->len == chunk ||
        mrd_utf8_valid((mrd_str){ (const char *) to->p + chunk, to->len - chunk }, NULL))
        return true;
    mrd_buf_add(&copy, to->p + chunk, to->len - chunk);
    to->len = chunk;
    if (copy.err == MRD_OK)
        reader->replaced += mrd_json_clean_utf8((mrd_str){ (const char *) copy.p, copy.len }, to);
    ok = copy.err == MRD_OK && to->err == MRD_OK;
    mrd_buf_fini(&copy);
    if (!ok)
        jr_fail_at(reader, MRD_NOMEM, mrd_jr_offset(reader, reader->p), "no memory for a string");
    return ok;
}

static bool
jr_room(mrd_json_reader *reader, const mrd_buf *to)
{
    if (to->err != MRD_OK)
        jr_fail_at(reader, MRD_NOMEM, mrd_jr_offset(reader, reader->p), "no memory for a string");
    else if (to->len > MRD_JR_STRING_MAX)
        jr_fail_at(reader, MRD_LIMIT, mrd_jr_offset(reader, reader->p),
                   "a string of more than %u bytes", MRD_JR_STRING_MAX);
    return reader->why.err == MRD_OK;
}

/*
 * Reads a string that has escapes or invalid bytes, or extends beyond the window. The bytes
 * [from, p) need no change. UTF-8 is checked in the text between two escapes. Control characters
 * are kept, while zero bytes and invalid UTF-8 are replaced. Returns the position after the string,
 * or NULL on errors.
 */
__attribute__((noinline)) static const char *
jr_string_slow(mrd_json_reader *reader, const char *from, const char *p, bool high, mrd_buf *to,
               mrd_str *ret_text)
{
    size_t chunk = 0;

    reader->p = p;
    mrd_buf_reset(to);
    for (;;) {
        mrd_buf_add(to, from, (size_t) (reader->p - from));
        if (!jr_room(reader, to))
            return NULL;
        if (reader->p == reader->end) {
            if (!mrd_jr_more(reader, reader->end)) {
                jr_fail_at(reader, MRD_TRUNCATED, mrd_jr_offset(reader, reader->p),
                           "the input ends inside a string");
                return NULL;
            }
        } else {
            if (high && !jr_repair(reader, to, chunk))
                return NULL;
            if (*reader->p == '"')
                break;
            if (*reader->p == '\\') {
                if (!jr_escape(reader, to))
                    return NULL;
            } else if (*reader->p == '\0') {
                reader->p++;
                jr_replace(reader, to);
            } else {
                mrd_buf_byte(to, (uint8_t) *reader->p++);
                reader->replaced++;
            }
            high = false;
            chunk = to->len;
        }
        from = reader->p;
        reader->p = mrd_scan_text(reader->p, &high);
    }
    *ret_text = (mrd_str){ to->len == 0 ? "" : (const char *) to->p, to->len };
    return reader->p + 1;
}

/* Reads a string. `from` is after its opening quote. Returns the position after the closing one, or
 * NULL on errors. */
JR_INLINE const char *
jr_string(mrd_json_reader *reader, const char *from, mrd_buf *to, mrd_str *ret_text,
          bool *ret_in_window)
{
    bool high = false;
    const char *p = mrd_scan_text(from, &high);

    *ret_in_window = true;
    *ret_text = (mrd_str){ from, (size_t) (p - from) };
    if (__builtin_expect(*p == '"', 1) &&
        (__builtin_expect(!high, 1) || mrd_utf8_valid(*ret_text, NULL)))
        return p + 1;
    *ret_in_window = false;
    return jr_string_slow(reader, from, p, high, to, ret_text);
}

/* The bytes that may follow a number. They do not include the zero byte after the window. */
static const bool jr_ends_value[256] = { [','] = true,  [']'] = true,  ['}'] = true, [' '] = true,
                                         ['\t'] = true, ['\n'] = true, ['\r'] = true };

/* Returns the end of the number at `cursor`. If the text violates the grammar, sets *ok to false
 * and returns the position of the violation. */
static inline const char *
jr_number_run(const char *cursor, bool *ok)
{
    const char *from;

    *ok = true;
    if (*cursor == '-')
        cursor++;
    from = cursor;
    cursor = mrd_scan_digits(cursor);
    *ok = cursor > from;
    if (*from == '0' && *ok)
        cursor = from + 1; /* after a leading zero no digits may follow */
    if (*cursor == '.' && *ok) {
        from = ++cursor;
        cursor = mrd_scan_digits(cursor);
        *ok = cursor > from;
    }
    if ((*cursor | 32) == 'e' && *ok) {
        cursor++;
        if (*cursor == '-' || *cursor == '+')
            cursor++;
        from = cursor;
        cursor = mrd_scan_digits(cursor);
        *ok = cursor > from;
    }
    return cursor;
}

static mrd_jr_type jr_word(mrd_json_reader *reader, mrd_str *ret_text);

/* Reads the number at reader->p, which may extend beyond the window or be invalid. */
__attribute__((noinline)) static mrd_jr_type
jr_number_slow(mrd_json_reader *reader, mrd_str *ret_text)
{
    for (;;) {
        bool ok;
        const char *from = reader->p, *to = jr_number_run(from, &ok);

        if (to == reader->end) { /* the number may continue after the window */
            if ((size_t) (to - from) > MRD_JR_NUMBER_MAX)
                return jr_fail_at(reader, MRD_LIMIT, mrd_jr_offset(reader, from),
                                  "a number of more than %u bytes", MRD_JR_NUMBER_MAX);
            if (mrd_jr_more(reader, from))
                continue;
            if (reader->why.err != MRD_OK)
                return MRD_JR_ERROR;
            if (!ok)
                return jr_fail_at(reader, MRD_TRUNCATED, mrd_jr_offset(reader, reader->end),
                                  "the input ends inside a number");
            from = reader->p; /* reading more may have moved the window */
            to = reader->end;
        }
        if (!ok || (to < reader->end && !jr_ends_value[(unsigned char) *to]))
            return jr_word(reader, ret_text);
        if ((size_t) (to - from) > MRD_JR_NUMBER_MAX)
            return jr_fail_at(reader, MRD_LIMIT, mrd_jr_offset(reader, from),
                              "a number of more than %u bytes", MRD_JR_NUMBER_MAX);
        reader->p = to;
        *ret_text = (mrd_str){ from, (size_t) (to - from) };
        return MRD_JR_NUMBER;
    }
}

JR_INLINE mrd_jr_type
jr_number(mrd_json_reader *reader, const char *from, mrd_str *ret_text)
{
    bool ok;
    const char *to = jr_number_run(from, &ok);

    *ret_text = (mrd_str){ from, (size_t) (to - from) };
    if (__builtin_expect(
            ok && jr_ends_value[(unsigned char) *to] && ret_text->len <= MRD_JR_NUMBER_MAX, 1)) {
        reader->p = to;
        return MRD_JR_NUMBER;
    }
    reader->p = from;
    return jr_number_slow(reader, ret_text);
}

/* Returns the end of the bare word at p. It consists of printable ASCII characters except JSON's
 * punctuation. */
static const char *
jr_word_end(const char *p)
{
    while (*p > ' ' && *p < 0x7f && strchr(",:[]{}\"\\", *p) == NULL)
        p++;
    return p;
}

static mrd_jr_type jr_behind_commas(mrd_json_reader *reader, mrd_str *ret_text);

/* Reads true, false, null, a bare word or a superfluous comma at reader->p. Anything else is an
 * error. */
__attribute__((noinline)) static mrd_jr_type
jr_word(mrd_json_reader *reader, mrd_str *ret_text)
{
    static const struct {
        mrd_str text;
        mrd_jr_type type;
    } words[] = { { { "true", 4 }, MRD_JR_TRUE },
                  { { "false", 5 }, MRD_JR_FALSE },
                  { { "null", 4 }, MRD_JR_NULL } };
    const char *to;
    size_t len;

    if (*reader->p == ',' && reader->stack[reader->depth] == '[')
        return jr_behind_commas(reader, ret_text);
    do
        len = (size_t) (jr_word_end(reader->p) - reader->p);
    while (len == (size_t) (reader->end - reader->p) && len <= MRD_JR_WORD_MAX &&
           mrd_jr_more(reader, reader->p));
    if (reader->why.err != MRD_OK)
        return MRD_JR_ERROR;
    to = reader->p + len;
    *ret_text = (mrd_str){ reader->p, len };
    if (to == reader->end && reader->depth > 0)
        return jr_fail_at(reader, MRD_TRUNCATED, mrd_jr_offset(reader, to),
                          len == 0 ? "the input ends where a value is expected"
                                   : "the input ends inside a word");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (mrd_str_eq(*ret_text, words[i].text)) {
            reader->p = to;
            return words[i].type;
        }
    }
    if (len == 0 || len > MRD_JR_WORD_MAX)
        return jr_unexpected(reader, reader->p, "a value");
    reader->p = to;
    reader->lenient++;
    return MRD_JR_WORD;
}

JR_INLINE mrd_jr_type
jr_value(mrd_json_reader *reader, const char *cursor, mrd_str *ret_text)
{
    bool in_window;
    char c = *cursor;

    reader->value_at = mrd_jr_offset(reader, cursor);
    if (c == '"') {
        cursor = jr_string(reader, cursor + 1, &reader->text, ret_text, &in_window);
        if (__builtin_expect(cursor == NULL, 0))
            return MRD_JR_ERROR;
        reader->p = cursor;
        return MRD_JR_STRING;
    }
    if ((unsigned char) (c - '0') <= 9 || c == '-')
        return jr_number(reader, cursor, ret_text);
    if (c == '{' || c == '[') {
        reader->p = cursor + 1;
        reader->pending = c;
        return c == '{' ? MRD_JR_OBJECT : MRD_JR_ARRAY;
    }
    reader->p = cursor;
    return jr_word(reader, ret_text);
}

JR_INLINE mrd_jr_type
jr_leave(mrd_json_reader *reader, const char *p)
{
    reader->value_at = mrd_jr_offset(reader, p);
    reader->p = p + 1;
    reader->depth--;
    reader->first = false;
    return MRD_JR_END;
}

/* Skips superfluous commas in an array. Returns the type of the next element. */
static mrd_jr_type
jr_behind_commas(mrd_json_reader *reader, mrd_str *ret_text)
{
    const char *p = reader->p;

    do {
        reader->lenient++;
        if ((p = jr_blanks(reader, p + 1)) == NULL)
            return MRD_JR_ERROR;
    } while (*p == ',');
    return *p == ']' ? jr_leave(reader, p) : jr_value(reader, p, ret_text);
}

/* Accepts a missing comma between an array element and an object. */
__attribute__((noinline)) static mrd_jr_type
jr_no_comma(mrd_json_reader *reader, const char *p)
{
    reader->lenient++;
    return jr_value(reader, p, &reader->unasked);
}

JR_INLINE mrd_jr_type
jr_next_in_object(mrd_json_reader *reader, const char *cursor, mrd_str *ret_text)
{
    if (*cursor == '}')
        return jr_leave(reader, cursor);
    if (!reader->first) {
        if (__builtin_expect(*cursor != ',', 0))
            return jr_unexpected(reader, cursor, "',' or '}'");
        if ((cursor = jr_blanks(reader, cursor + 1)) == NULL)
            return MRD_JR_ERROR;
    }
    reader->first = false;
    if (__builtin_expect(*cursor != '"', 0)) {
        if (*cursor != '}')
            return jr_unexpected(reader, cursor, "a key in quotes");
        reader->lenient++;
        return jr_leave(reader, cursor);
    }
    if ((cursor = jr_string(reader, cursor + 1, &reader->key_buf, &reader->key,
                            &reader->key_live)) == NULL ||
        (cursor = jr_blanks(reader, cursor)) == NULL)
        return MRD_JR_ERROR;
    if (__builtin_expect(*cursor != ':', 0))
        return jr_unexpected(reader, cursor, "':'");
    if ((cursor = jr_blanks(reader, cursor + 1)) == NULL)
        return MRD_JR_ERROR;
    return jr_value(reader, cursor, ret_text);
}

JR_INLINE mrd_jr_type
jr_next_in_array(mrd_json_reader *reader, const char *p, mrd_str *ret_text)
{
    if (*p == ']')
        return jr_leave(reader, p);
    if (!reader->first) {
        if (__builtin_expect(*p != ',', 0))
            return *p == '{' ? jr_no_comma(reader, p) : jr_unexpected(reader, p, "',' or ']'");
        if ((p = jr_blanks(reader, p + 1)) == NULL)
            return MRD_JR_ERROR;
        if (*p == ']') {
            reader->lenient++;
            return jr_leave(reader, p);
        }
    }
    reader->first = false;
    return jr_value(reader, p, ret_text);
}

/* Skips a byte order mark at the beginning, and the blanks after it. Returns NULL on errors. */
static const char *
jr_mark(mrd_json_reader *reader)
{
    while (reader->end - reader->p < 3 && mrd_jr_more(reader, reader->p))
        ;
    if (reader->end - reader->p < 3 || memcmp(reader->p, "\xef\xbb\xbf", 3) != 0)
        return reader->why.err == MRD_OK ? reader->p : NULL;
    reader->lenient++;
    return jr_blanks(reader, reader->p + 3);
}

/* Stores the first bytes of the document at p in reader->head. Returns the position of p, which
 * changes if the window moves. */
static const char *
jr_keep_head(mrd_json_reader *reader, const char *p)
{
    reader->p = p;
    while (reader->end - reader->p < JR_HEAD && mrd_jr_more(reader, reader->p))
        ;
    if (reader->end - reader->p >= JR_HEAD) {
        memcpy(reader->head, reader->p, JR_HEAD);
        reader->head_len = JR_HEAD;
    }
    return reader->p;
}

__attribute__((noinline)) static mrd_jr_type
jr_next_on_top(mrd_json_reader *reader, const char *cursor, mrd_str *ret_text)
{
    while (reader->loose && (*cursor == ',' || *cursor == ']' || *cursor == '}'))
        if ((cursor = jr_blanks(reader, cursor + 1)) == NULL)
            return MRD_JR_ERROR;
    reader->p = cursor;
    if (!reader->any && (unsigned char) *cursor == 0xef && mrd_jr_offset(reader, cursor) == 0 &&
        (cursor = jr_mark(reader)) == NULL)
        return MRD_JR_ERROR;
    if (cursor == reader->end) {
        reader->p = cursor;
        reader->value_at = mrd_jr_offset(reader, cursor);
        return reader->any ? MRD_JR_END
                           : jr_fail_at(reader, MRD_EMPTY, reader->value_at,
                                        "the input holds no JSON value");
    }
    if (reader->any && !reader->many)
        return jr_unexpected(reader, cursor, "the end of the document");
    if (!reader->any)
        cursor = jr_keep_head(reader, cursor);
    reader->any = true;
    return jr_value(reader, cursor, ret_text);
}

JR_INLINE mrd_jr_type
jr_next(mrd_json_reader *reader, mrd_str *ret_text)
{
    const char *p = jr_blanks(reader, reader->p);
    char in = reader->stack[reader->depth];

    if (__builtin_expect(p == NULL, 0))
        return MRD_JR_ERROR;
    if (in == '{')
        return jr_next_in_object(reader, p, ret_text);
    reader->key = (mrd_str){ "", 0 };
    return in == '[' ? jr_next_in_array(reader, p, ret_text) : jr_next_on_top(reader, p, ret_text);
}

static bool
jr_go_in(mrd_json_reader *reader)
{
    if (reader->depth == MRD_JR_DEPTH) {
        jr_fail_at(reader, MRD_DEPTH, reader->value_at, "more than %d levels of objects and arrays",
                   MRD_JR_DEPTH);
        return false;
    }
    reader->stack[++reader->depth] = reader->pending;
    reader->pending = 0;
    reader->first = true;
    return true;
}

/* Skips the container that begins with the bracket that was returned last. Its contents are checked
 * like any other text. */
static bool
jr_skip(mrd_json_reader *reader)
{
    unsigned to = reader->depth;
    mrd_str text;

    /* the marked record itself is skipped, so the mark is useless */
    if (reader->mark_depth == to)
        reader->mark_depth = UINT_MAX;
    if (!jr_go_in(reader))
        return false;
    while (reader->depth > to) {
        mrd_jr_type type = jr_next(reader, &text);

        reader->key_live = false;
        if (type == MRD_JR_ERROR || (reader->pending != 0 && !jr_go_in(reader)))
            return false;
    }
    return true;
}

mrd_jr_type
mrd_json_next(mrd_json_reader *reader, mrd_str *ret_key, mrd_str *ret_text)
{
    mrd_str *text = ret_text != NULL ? ret_text : &reader->unasked;
    mrd_jr_type type;

    if (__builtin_expect(reader->why.err != MRD_OK, 0))
        return MRD_JR_ERROR;
    if (reader->pending != 0 && !jr_skip(reader))
        return MRD_JR_ERROR;
    *text = (mrd_str){ "", 0 };
    type = jr_next(reader, text);
    reader->key_live = false;
    if (ret_key != NULL)
        *ret_key = reader->key;
    return type;
}

void
mrd_json_enter(mrd_json_reader *reader)
{
    if (reader->pending != 0 && reader->why.err == MRD_OK)
        (void) jr_go_in(reader);
}

/* Converts a container's text to strict JSON. The reader also accepts invalid JSON such as
 * superfluous commas, so the text may contain it. */
static mrd_err
jr_clean_raw(mrd_json_reader *reader, mrd_str *text)
{
    mrd_buf_reset(&reader->text);
    mrd_json_clean(*text, &reader->text);
    *text = (mrd_str){ (const char *) reader->text.p, reader->text.len };
    return reader->text.err;
}

mrd_err
mrd_json_raw(mrd_json_reader *reader, size_t max, mrd_str *ret_text)
{
    uint64_t repairs = reader->lenient + reader->replaced;

    if (reader->why.err != MRD_OK || reader->pending == 0)
        return reader->why.err != MRD_OK ? reader->why.err : MRD_INVALID;
    mrd_buf_reset(&reader->raw_buf);
    /* only the opening bracket has been read, and it belongs to the raw text */
    reader->raw = reader->p - 1;
    reader->raw_max = max;
    if (!jr_skip(reader)) {
        reader->raw = NULL;
        return reader->why.err;
    }
    if (reader->raw_buf.len == 0) {
        *ret_text = (mrd_str){ reader->raw, (size_t) (reader->p - reader->raw) };
    } else {
        if (reader->raw_buf.len <= max)
            mrd_buf_add(&reader->raw_buf, reader->raw, (size_t) (reader->p - reader->raw));
        *ret_text = (mrd_str){ (const char *) reader->raw_buf.p, reader->raw_buf.len };
    }
    reader->raw = NULL;
    if (reader->raw_buf.err != MRD_OK)
        return MRD_NOMEM;
    if (repairs != reader->lenient + reader->replaced && ret_text->len <= max &&
        jr_clean_raw(reader, ret_text) != MRD_OK)
        return MRD_NOMEM;
    return ret_text->len > max ? MRD_LIMIT : MRD_OK;
}

mrd_str
mrd_json_ahead(const mrd_json_reader *reader)
{
    return reader->pending == 0 ? (mrd_str){ jr_nothing, 0 }
                                : (mrd_str){ reader->p, (size_t) (reader->end - reader->p) };
}

void
mrd_json_passed(mrd_json_reader *reader, const char *p)
{
    reader->p = p;
    reader->pending = 0;
    reader->first = false;
}

void
mrd_json_mark(mrd_json_reader *reader, uint64_t offset, unsigned depth)
{
    reader->mark =
        offset >= reader->base_offset ? reader->base + (offset - reader->base_offset) : NULL;
    reader->mark_at = offset;
    reader->mark_depth = depth;
}

mrd_err
mrd_json_reader_open(mrd_in *in, mrd_json_reader **ret_reader, mrd_why *why)
{
    mrd_json_reader *reader = calloc(1, sizeof(*reader));

    if (reader == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(in));
    reader->in = in;
    /* an empty window, so that the first scan loads data */
    reader->p = reader->end = reader->base = jr_nothing;
    reader->base_offset = mrd_in_offset(in);
    reader->mark_depth = UINT_MAX;
    reader->first = true;
    *ret_reader = reader;
    return MRD_OK;
}

void
mrd_json_reader_close(mrd_json_reader *reader)
{
    if (reader == NULL)
        return;
    mrd_buf_fini(&reader->text);
    mrd_buf_fini(&reader->key_buf);
    mrd_buf_fini(&reader->raw_buf);
    free(reader);
}

void
mrd_json_many(mrd_json_reader *reader)
{
    reader->many = true;
}

mrd_err
mrd_json_reader_err(const mrd_json_reader *reader, mrd_why *why)
{
    if (why != NULL && reader->why.err != MRD_OK)
        *why = reader->why;
    return reader->why.err;
}

uint64_t
mrd_json_reader_offset(const mrd_json_reader *reader)
{
    return reader->value_at;
}

unsigned
mrd_json_depth(const mrd_json_reader *reader)
{
    return reader->depth;
}

uint64_t
mrd_json_reader_lenient(const mrd_json_reader *reader)
{
    return reader->lenient;
}

uint64_t
mrd_json_reader_replaced(const mrd_json_reader *reader)
{
    return reader->replaced;
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
