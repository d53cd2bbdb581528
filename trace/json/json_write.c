#include "trace/json/json_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/model/catalog.h"

/* longer texts are written in chunks of this size, in bytes, with a check for room before each */
#define JW_CHUNK 4096u

void
mrd_jw_init(mrd_jw *jw, mrd_out *out, const mrd_strtab *strings, bool pretty)
{
    *jw = (mrd_jw){ .out = out, .strings = strings, .pretty = pretty, .state = MRD_JW_OPENED };
}

void
mrd_jw_inside(mrd_jw *jw, unsigned depth)
{
    jw->depth = depth;
    jw->state = MRD_JW_VALUED;
}

void
mrd_jw_flush(mrd_jw *jw)
{
    if (jw->p != jw->start)
        mrd_out_did(jw->out, (size_t) (jw->p - jw->start));
    jw->start = jw->p = jw->end = NULL;
}

void
mrd_jw_fini(mrd_jw *jw)
{
    if (jw->out != NULL)
        mrd_jw_flush(jw);
    free(jw->plain);
    jw->plain = NULL;
    jw->n_plain = 0;
}

static __attribute__((noinline)) void
jw_more(mrd_jw *jw)
{
    mrd_jw_flush(jw);
    jw->start = jw->p = mrd_out_room(jw->out, MRD_OUT_ROOM);
    jw->end = jw->start + MRD_OUT_ROOM;
}

/* Makes room for n bytes at jw->p. */
static inline void
jw_room(mrd_jw *jw, size_t n)
{
    if ((size_t) (jw->end - jw->p) < n)
        jw_more(jw);
}

static inline void
jw_copy(mrd_jw *jw, const void *data, size_t n)
{
    if (n > 0) /* memcpy does not allow NULL, which both pointers may be for 0 bytes */
        memcpy(jw->p, data, n);
    jw->p += n;
}

static void
jw_bulk(mrd_jw *jw, const char *data, size_t n)
{
    if ((size_t) (jw->end - jw->p) >= n) {
        jw_copy(jw, data, n);
        return;
    }
    while (n > 0) {
        size_t chunk = n < JW_CHUNK ? n : JW_CHUNK;

        jw_room(jw, chunk);
        jw_copy(jw, data, chunk);
        data += chunk;
        n -= chunk;
    }
}

static inline void
jw_line(mrd_jw *jw)
{
    *jw->p++ = '\n';
    for (unsigned i = 0; jw->pretty && i < 2 * jw->depth; i++)
        *jw->p++ = ' ';
}

/* Writes what precedes a key or an element: comma, line end and indentation. Leaves room in the
 * buffer for a short token. */
static inline void
jw_before(mrd_jw *jw)
{
    jw_room(jw, 2 * MRD_JW_DEPTH + 1100);
    if (jw->state == MRD_JW_KEYED)
        return;
    if (jw->state == MRD_JW_VALUED)
        *jw->p++ = ',';
    if (jw->depth > 0 && (jw->pretty || jw->depth == 1))
        jw_line(jw);
}

static inline void
jw_element(mrd_jw *jw)
{
    jw_before(jw);
    if (jw->state != MRD_JW_KEYED && jw->depth == 2 && !jw->pretty)
        jw_line(jw);
    jw->state = MRD_JW_VALUED;
}

void
mrd_jw_open(mrd_jw *jw, char bracket)
{
    jw_element(jw);
    *jw->p++ = (uint8_t) bracket;
    jw->depth++;
    MRD_ASSERT(jw->depth <= MRD_JW_DEPTH);
    jw->state = MRD_JW_OPENED;
}

void
mrd_jw_close(mrd_jw *jw, char bracket)
{
    jw_room(jw, 2 * MRD_JW_DEPTH + 2);
    jw->depth--;
    if (jw->state == MRD_JW_VALUED &&
        (jw->pretty || jw->depth == 0 || (jw->depth == 1 && bracket == ']')))
        jw_line(jw);
    *jw->p++ = (uint8_t) bracket;
    jw->state = MRD_JW_VALUED;
}

void
mrd_jw_end(mrd_jw *jw)
{
    jw_room(jw, 1);
    *jw->p++ = '\n';
}

void
mrd_jw_key(mrd_jw *jw, mrd_str plain)
{
    MRD_ASSERT_DBG(plain.len <= 1024);
    jw_before(jw);
    *jw->p++ = '"';
    jw_copy(jw, plain.p, plain.len);
    *jw->p++ = '"';
    *jw->p++ = ':';
    if (jw->pretty)
        *jw->p++ = ' ';
    jw->state = MRD_JW_KEYED;
}

/* Writes a number in decimal and returns the address after it. Each step writes two digits. */
static inline uint8_t *
put_u64(uint8_t *bytes, uint64_t value)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[20];
    size_t at = sizeof(digits);

    while (value >= 100) {
        at -= 2;
        memcpy(digits + at, pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(digits + at, pairs + 2 * value, 2);
    } else {
        digits[--at] = (char) ('0' + value);
    }
    memcpy(bytes, digits + at, sizeof(digits) - at);
    return bytes + sizeof(digits) - at;
}

static inline uint64_t
put_sign(mrd_jw *jw, int64_t v)
{
    if (v >= 0)
        return (uint64_t) v;
    *jw->p++ = '-';
    return 0 - (uint64_t) v;
}

void
mrd_jw_u64(mrd_jw *jw, uint64_t v)
{
    jw_element(jw);
    jw->p = put_u64(jw->p, v);
}

void
mrd_jw_i64(mrd_jw *jw, int64_t v)
{
    jw_element(jw);
    jw->p = put_u64(jw->p, put_sign(jw, v));
}

void
mrd_jw_i64_text(mrd_jw *jw, int64_t v)
{
    jw_element(jw);
    *jw->p++ = '"';
    jw->p = put_u64(jw->p, put_sign(jw, v));
    *jw->p++ = '"';
}

void
mrd_jw_u64_text(mrd_jw *jw, uint64_t v)
{
    jw_element(jw);
    *jw->p++ = '"';
    jw->p = put_u64(jw->p, v);
    *jw->p++ = '"';
}

void
mrd_jw_us(mrd_jw *jw, int64_t ns)
{
    uint64_t v;

    jw_element(jw);
    v = put_sign(jw, ns);
    jw->p = put_u64(jw->p, v / 1000);
    *jw->p++ = '.';
    *jw->p++ = (uint8_t) ('0' + v / 100 % 10);
    *jw->p++ = (uint8_t) ('0' + v / 10 % 10);
    *jw->p++ = (uint8_t) ('0' + v % 10);
}

/*
 * Tries to write v as a decimal fraction n / 10^k, with the smallest k from 0 to 9. Doubles
 * represent n and 10^k exactly, and division rounds correctly. So if n / 10^k equals v, the text
 * reads back as exactly v. Returns false if no k fits.
 */
static bool
put_decimal(mrd_jw *jw, double v)
{
    static const double tens[] = { 1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9 };
    double mag = fabs(v);

    for (size_t k = 0; k < MRD_COUNT(tens); k++) {
        double scaled = mag * tens[k];
        uint64_t n, unit = (uint64_t) tens[k];

        if (!(scaled < 9007199254740992.0))
            return false;
        n = (uint64_t) (scaled + 0.5);
        if ((double) n / tens[k] != mag)
            continue;
        if (signbit(v))
            *jw->p++ = '-';
        jw->p = put_u64(jw->p, n / unit);
        *jw->p++ = '.';
        if (k == 0)
            *jw->p++ = '0';
        for (uint64_t digit = unit / 10, rest = n % unit; digit > 0; digit /= 10)
            *jw->p++ = (uint8_t) ('0' + rest / digit % 10);
        return true;
    }
    return false;
}

void
mrd_jw_double(mrd_jw *jw, double value)
{
    char text[40];
    int len = 0;

    if (!isfinite(value)) {
        mrd_jw_str(jw, isnan(value) ? MRD_STR("NaN")
                       : value > 0  ? MRD_STR("Infinity")
                                    : MRD_STR("-Infinity"));
        return;
    }
    jw_element(jw);
    if (put_decimal(jw, value))
        return;
    for (int digits = 15; digits <= 17; digits++) {
        double back;

        len = snprintf(text, sizeof(text), "%.*g", digits, value);
        if (mrd_num_double((mrd_str){ text, (size_t) len }, &back) == MRD_OK && back == value)
            break;
    }
    jw_copy(jw, text, (size_t) len);
    if (memchr(text, '.', (size_t) len) == NULL && memchr(text, 'e', (size_t) len) == NULL)
        jw_copy(jw, ".0", 2);
}

void
mrd_jw_bool(mrd_jw *jw, bool v)
{
    jw_element(jw);
    jw_copy(jw, v ? "true" : "false", v ? 4 : 5);
}

void
mrd_jw_null(mrd_jw *jw)
{
    jw_element(jw);
    jw_copy(jw, "null", 4);
}

static inline bool
needs_escape(unsigned char c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

static void
put_escape(mrd_jw *jw, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char from[] = "\"\\\n\t\r\b\f", to[] = "\"\\ntrbf";
    const char *at = c == 0 ? NULL : strchr(from, c);

    *jw->p++ = '\\';
    if (at != NULL) {
        *jw->p++ = (uint8_t) to[at - from];
    } else {
        jw_copy(jw, "u00", 3);
        *jw->p++ = (uint8_t) hex[c >> 4];
        *jw->p++ = (uint8_t) hex[c & 15];
    }
}

/* Writes valid UTF-8 with escapes, without quotes around it. */
static void
put_text(mrd_jw *jw, mrd_str text)
{
    size_t at = 0, run = 0;

    for (; at < text.len; at++) {
        if (!needs_escape((unsigned char) text.p[at]))
            continue;
        jw_bulk(jw, text.p + run, at - run);
        jw_room(jw, 8);
        put_escape(jw, (unsigned char) text.p[at]);
        run = at + 1;
    }
    if (at > run)
        jw_bulk(jw, text.p + run, at - run);
}

/* Writes a text with quotes, and repairs invalid UTF-8. */
static void
put_quoted(mrd_jw *jw, mrd_str text)
{
    size_t bad;

    *jw->p++ = '"';
    while (!mrd_utf8_valid(text, &bad)) {
        put_text(jw, (mrd_str){ text.p, bad });
        jw_bulk(jw, "\xef\xbf\xbd", 3);
        text = (mrd_str){ text.p + bad + 1, text.len - bad - 1 };
    }
    put_text(jw, text);
    jw_room(jw, 4);
    *jw->p++ = '"';
}

void
mrd_jw_str(mrd_jw *jw, mrd_str text)
{
    jw_element(jw);
    put_quoted(jw, text);
}

/* Returns true if an interned string needs no escapes. The result is cached per string. Interned
 * strings are always valid UTF-8. */
static bool
sid_is_plain(mrd_jw *jw, mrd_sid sid, mrd_str text)
{
    bool plain = true;

    if (!MRD_VEC_REACH(jw->plain, jw->n_plain, sid))
        /* Out of memory: answer that escapes are needed, which is slower but never wrong. */
        return false;
    if (jw->plain[sid] != 0)
        return jw->plain[sid] == 1;
    for (size_t i = 0; i < text.len && plain; i++)
        plain = !needs_escape((unsigned char) text.p[i]);
    /* jw_before() leaves room for at least 900 bytes, so a longer text takes the slow path */
    plain = plain && text.len <= 900;
    jw->plain[sid] = plain ? 1 : 2;
    return plain;
}

static inline void
put_sid(mrd_jw *jw, mrd_sid sid)
{
    mrd_str text = mrd_strtab_get(jw->strings, sid);

    if ((sid >= jw->n_plain || jw->plain[sid] != 1) && !sid_is_plain(jw, sid, text)) {
        put_quoted(jw, text);
        return;
    }
    *jw->p++ = '"';
    jw_copy(jw, text.p, text.len);
    *jw->p++ = '"';
}

void
mrd_jw_sid(mrd_jw *jw, mrd_sid sid)
{
    jw_element(jw);
    put_sid(jw, sid);
}

void
mrd_jw_key_sid(mrd_jw *jw, mrd_sid key)
{
    jw_before(jw);
    put_sid(jw, key);
    jw_room(jw, 2);
    *jw->p++ = ':';
    if (jw->pretty)
        *jw->p++ = ' ';
    jw->state = MRD_JW_KEYED;
}

/* Writes a text as JSON if it is valid JSON, otherwise as a string. */
static void
jw_json(mrd_jw *jw, mrd_str text)
{
    if (!mrd_json_valid(text)) {
        mrd_jw_str(jw, text);
        return;
    }
    jw_element(jw);
    jw_bulk(jw, text.p, text.len);
}

void
mrd_jw_members(mrd_jw *jw, mrd_str text)
{
    jw_bulk(jw, text.p, text.len);
    jw->state = MRD_JW_VALUED;
}

void
mrd_jw_arg(mrd_jw *jw, const mrd_arg *arg)
{
    switch (arg->type) {
    case MRD_ARG_INT:
        mrd_jw_i64(jw, arg->v.i);
        break;
    case MRD_ARG_UINT:
        mrd_jw_u64(jw, arg->v.u);
        break;
    case MRD_ARG_DOUBLE:
        mrd_jw_double(jw, arg->v.d);
        break;
    case MRD_ARG_BOOL:
        mrd_jw_bool(jw, arg->v.u != 0);
        break;
    case MRD_ARG_STR:
        mrd_jw_sid(jw, arg->v.sid);
        break;
    case MRD_ARG_JSON:
        jw_json(jw, (mrd_str){ arg->v.text, arg->len });
        break;
    default:
        mrd_jw_str(jw, (mrd_str){ arg->v.text, arg->len });
        break;
    }
}

/* ---- Checking whether text is JSON ---- */

typedef struct {
    const char *p, *end;
} json_check;

static void
skip_blanks(json_check *check)
{
    while (check->p < check->end &&
           (*check->p == ' ' || *check->p == '\t' || *check->p == '\n' || *check->p == '\r'))
        check->p++;
}

static bool
check_word(json_check *check, const char *word)
{
    size_t n = strlen(word);

    if ((size_t) (check->end - check->p) < n || memcmp(check->p, word, n) != 0)
        return false;
    check->p += n;
    return true;
}

static size_t
check_digits(json_check *check)
{
    const char *from = check->p;

    while (check->p < check->end && *check->p >= '0' && *check->p <= '9')
        check->p++;
    return (size_t) (check->p - from);
}

static bool
check_number(json_check *check)
{
    bool zero;

    if (check->p < check->end && *check->p == '-')
        check->p++;
    zero = check->p < check->end && *check->p == '0';
    switch (check_digits(check)) {
    case 0:
        return false;
    case 1:
        break;
    default:
        if (zero)
            return false;
    }
    if (check->p < check->end && *check->p == '.') {
        check->p++;
        if (check_digits(check) == 0)
            return false;
    }
    if (check->p < check->end && (*check->p | 32) == 'e') {
        check->p++;
        if (check->p < check->end && (*check->p == '-' || *check->p == '+'))
            check->p++;
        return check_digits(check) > 0;
    }
    return true;
}

/* Reads the four hexadecimal digits after "\u". Returns their value; -1 if they are invalid. */
static int
check_hex(json_check *check)
{
    int v = 0;

    if (check->end - check->p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char d = *check->p++;

        if (d >= '0' && d <= '9')
            v = v * 16 + d - '0';
        else if ((d | 32) >= 'a' && (d | 32) <= 'f')
            v = v * 16 + (d | 32) - 'a' + 10;
        else
            return -1;
    }
    return v;
}

static bool
check_escape(json_check *check)
{
    int unit;

    if (check->p == check->end)
        return false;
    if (*check->p != 'u')
        return strchr("\"\\/bfnrt", *check->p++) != NULL;
    check->p++;
    if ((unit = check_hex(check)) < 0 || (unit >= 0xdc00 && unit <= 0xdfff))
        return false;
    if (unit < 0xd800 || unit > 0xdbff)
        return true;
    unit = check_word(check, "\\u") ? check_hex(check) : -1;
    return unit >= 0xdc00 && unit <= 0xdfff;
}

static bool
check_string(json_check *check)
{
    if (check->p == check->end || *check->p++ != '"')
        return false;
    while (check->p < check->end) {
        unsigned char ch = (unsigned char) *check->p++;

        if (ch == '"')
            return true;
        if (ch < 0x20 ||
            (ch == '\\' && (check->p == check->end || *check->p == '\0' || !check_escape(check))))
            return false;
    }
    return false;
}

static bool
check_scalar(json_check *check)
{
    if (check->p == check->end)
        return false;
    switch (*check->p) {
    case '"':
        return check_string(check);
    case 't':
        return check_word(check, "true");
    case 'f':
        return check_word(check, "false");
    case 'n':
        return check_word(check, "null");
    default:
        return check_number(check);
    }
}

static bool
check_key(json_check *check)
{
    skip_blanks(check);
    if (!check_string(check))
        return false;
    skip_blanks(check);
    return check->p < check->end && *check->p++ == ':';
}

bool
mrd_json_valid(mrd_str text)
{
    json_check check = { text.p, text.p + text.len };
    char closing[MRD_JSON_VALID_DEPTH];
    size_t depth = 0;

    if (text.len == 0 || !mrd_utf8_valid(text, NULL))
        return false;
    for (;;) {
        /* a value must begin here */
        skip_blanks(&check);
        if (check.p < check.end && (*check.p == '{' || *check.p == '[')) {
            char close = *check.p++ == '{' ? '}' : ']';

            skip_blanks(&check);
            if (check.p < check.end && *check.p == close) {
                check.p++;
            } else {
                if (depth == MRD_JSON_VALID_DEPTH || (close == '}' && !check_key(&check)))
                    return false;
                closing[depth++] = close;
                continue;
            }
        } else if (!check_scalar(&check)) {
            return false;
        }
        /* A value has just ended. Next come closing brackets, or a comma and another value. */
        skip_blanks(&check);
        while (depth > 0 && check.p < check.end && *check.p == closing[depth - 1]) {
            check.p++;
            depth--;
            skip_blanks(&check);
        }
        if (depth == 0)
            return check.p == check.end;
        if (check.p == check.end || *check.p++ != ',' ||
            (closing[depth - 1] == '}' && !check_key(&check)))
            return false;
    }
}

/* ---- Writing members ---- */

void
mrd_jw_put_i64(mrd_jw *jw, mrd_str key, int64_t v)
{
    if (v == MRD_NONE)
        return;
    mrd_jw_key(jw, key);
    mrd_jw_i64(jw, v);
}

void
mrd_jw_put_sid(mrd_jw *jw, mrd_str key, mrd_sid sid)
{
    if (sid == MRD_SID_EMPTY)
        return;
    mrd_jw_key(jw, key);
    mrd_jw_sid(jw, sid);
}

void
mrd_jw_put_flag(mrd_jw *jw, mrd_str key, bool v)
{
    if (!v)
        return;
    mrd_jw_key(jw, key);
    mrd_jw_bool(jw, true);
}

void
mrd_jw_put_i64_or_null(mrd_jw *jw, mrd_str key, int64_t v)
{
    mrd_jw_key(jw, key);
    if (v == MRD_NONE)
        mrd_jw_null(jw);
    else
        mrd_jw_i64(jw, v);
}
