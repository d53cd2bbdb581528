#include "trace/json/json_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/model/catalog.h"

#define JW_CHUNK 4096u /* bytes of text that are written between two checks of the room */

void
mrd_jw_init(mrd_jw *w, mrd_out *out, const mrd_strtab *strings, bool pretty)
{
    *w = (mrd_jw){ .out = out, .strings = strings, .pretty = pretty, .state = MRD_JW_OPENED };
}

void
mrd_jw_inside(mrd_jw *w, unsigned depth)
{
    w->depth = depth;
    w->state = MRD_JW_VALUED;
}

void
mrd_jw_flush(mrd_jw *w)
{
    if (w->p != w->start)
        mrd_out_did(w->out, (size_t) (w->p - w->start));
    w->start = w->p = w->end = NULL;
}

void
mrd_jw_fini(mrd_jw *w)
{
    if (w->out != NULL)
        mrd_jw_flush(w);
    free(w->plain);
    w->plain = NULL;
    w->n_plain = 0;
}

static __attribute__((noinline)) void
jw_more(mrd_jw *w)
{
    mrd_jw_flush(w);
    w->start = w->p = mrd_out_room(w->out, MRD_OUT_ROOM);
    w->end = w->start + MRD_OUT_ROOM;
}

/* Makes room for n bytes at w->p. */
static inline void
jw_room(mrd_jw *w, size_t n)
{
    if ((size_t) (w->end - w->p) < n)
        jw_more(w);
}

static inline void
jw_copy(mrd_jw *w, const void *data, size_t n)
{
    if (n > 0) /* there may be neither room nor data for 0 bytes */
        memcpy(w->p, data, n);
    w->p += n;
}

static void
jw_bulk(mrd_jw *w, const char *data, size_t n)
{
    if ((size_t) (w->end - w->p) >= n) {
        jw_copy(w, data, n);
        return;
    }
    while (n > 0) {
        size_t chunk = n < JW_CHUNK ? n : JW_CHUNK;

        jw_room(w, chunk);
        jw_copy(w, data, chunk);
        data += chunk;
        n -= chunk;
    }
}

static inline void
jw_line(mrd_jw *w)
{
    *w->p++ = '\n';
    for (unsigned i = 0; w->pretty && i < 2 * w->depth; i++)
        *w->p++ = ' ';
}

/* Writes the separator before a key or an element. Leaves room for a small token. */
static inline void
jw_before(mrd_jw *w)
{
    jw_room(w, 2 * MRD_JW_DEPTH + 1100);
    if (w->state == MRD_JW_KEYED)
        return;
    if (w->state == MRD_JW_VALUED)
        *w->p++ = ',';
    if (w->depth > 0 && (w->pretty || w->depth == 1))
        jw_line(w);
}

static inline void
jw_element(mrd_jw *w)
{
    jw_before(w);
    if (w->state != MRD_JW_KEYED && w->depth == 2 && !w->pretty)
        jw_line(w);
    w->state = MRD_JW_VALUED;
}

void
mrd_jw_open(mrd_jw *w, char bracket)
{
    jw_element(w);
    *w->p++ = (uint8_t) bracket;
    w->depth++;
    MRD_ASSERT(w->depth <= MRD_JW_DEPTH);
    w->state = MRD_JW_OPENED;
}

void
mrd_jw_close(mrd_jw *w, char bracket)
{
    jw_room(w, 2 * MRD_JW_DEPTH + 2);
    w->depth--;
    if (w->state == MRD_JW_VALUED &&
        (w->pretty || w->depth == 0 || (w->depth == 1 && bracket == ']')))
        jw_line(w);
    *w->p++ = (uint8_t) bracket;
    w->state = MRD_JW_VALUED;
}

void
mrd_jw_end(mrd_jw *w)
{
    jw_room(w, 1);
    *w->p++ = '\n';
}

void
mrd_jw_key(mrd_jw *w, mrd_str plain)
{
    MRD_ASSERT_DBG(plain.len <= 1024);
    jw_before(w);
    *w->p++ = '"';
    jw_copy(w, plain.p, plain.len);
    *w->p++ = '"';
    *w->p++ = ':';
    if (w->pretty)
        *w->p++ = ' ';
    w->state = MRD_JW_KEYED;
}

/* Writes two digits per step. */
static inline uint8_t *
put_u64(uint8_t *p, uint64_t v)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[20];
    size_t at = sizeof(digits);

    while (v >= 100) {
        at -= 2;
        memcpy(digits + at, pairs + 2 * (v % 100), 2);
        v /= 100;
    }
    if (v >= 10) {
        at -= 2;
        memcpy(digits + at, pairs + 2 * v, 2);
    } else {
        digits[--at] = (char) ('0' + v);
    }
    memcpy(p, digits + at, sizeof(digits) - at);
    return p + sizeof(digits) - at;
}

static inline uint64_t
put_sign(mrd_jw *w, int64_t v)
{
    if (v >= 0)
        return (uint64_t) v;
    *w->p++ = '-';
    return 0 - (uint64_t) v;
}

void
mrd_jw_u64(mrd_jw *w, uint64_t v)
{
    jw_element(w);
    w->p = put_u64(w->p, v);
}

void
mrd_jw_i64(mrd_jw *w, int64_t v)
{
    jw_element(w);
    w->p = put_u64(w->p, put_sign(w, v));
}

void
mrd_jw_i64_text(mrd_jw *w, int64_t v)
{
    jw_element(w);
    *w->p++ = '"';
    w->p = put_u64(w->p, put_sign(w, v));
    *w->p++ = '"';
}

void
mrd_jw_u64_text(mrd_jw *w, uint64_t v)
{
    jw_element(w);
    *w->p++ = '"';
    w->p = put_u64(w->p, v);
    *w->p++ = '"';
}

void
mrd_jw_us(mrd_jw *w, int64_t ns)
{
    uint64_t v;

    jw_element(w);
    v = put_sign(w, ns);
    w->p = put_u64(w->p, v / 1000);
    *w->p++ = '.';
    *w->p++ = (uint8_t) ('0' + v / 100 % 10);
    *w->p++ = (uint8_t) ('0' + v / 10 % 10);
    *w->p++ = (uint8_t) ('0' + v % 10);
}

/*
 * Writes v as n / 10^k, for the smallest k up to 9 for which this division gives v. Both n and 10^k
 * are exact doubles, and division rounds correctly, so the decimal text reads back as v.
 */
static bool
put_decimal(mrd_jw *w, double v)
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
            *w->p++ = '-';
        w->p = put_u64(w->p, n / unit);
        *w->p++ = '.';
        if (k == 0)
            *w->p++ = '0';
        for (uint64_t digit = unit / 10, rest = n % unit; digit > 0; digit /= 10)
            *w->p++ = (uint8_t) ('0' + rest / digit % 10);
        return true;
    }
    return false;
}

void
mrd_jw_double(mrd_jw *w, double v)
{
    char text[40];
    int len = 0;

    if (!isfinite(v)) {
        mrd_jw_str(w, isnan(v) ? MRD_STR("NaN")
                      : v > 0  ? MRD_STR("Infinity")
                               : MRD_STR("-Infinity"));
        return;
    }
    jw_element(w);
    if (put_decimal(w, v))
        return;
    for (int digits = 15; digits <= 17; digits++) {
        double back;

        len = snprintf(text, sizeof(text), "%.*g", digits, v);
        if (mrd_num_double((mrd_str){ text, (size_t) len }, &back) == MRD_OK && back == v)
            break;
    }
    jw_copy(w, text, (size_t) len);
    if (memchr(text, '.', (size_t) len) == NULL && memchr(text, 'e', (size_t) len) == NULL)
        jw_copy(w, ".0", 2);
}

void
mrd_jw_bool(mrd_jw *w, bool v)
{
    jw_element(w);
    jw_copy(w, v ? "true" : "false", v ? 4 : 5);
}

void
mrd_jw_null(mrd_jw *w)
{
    jw_element(w);
    jw_copy(w, "null", 4);
}

static inline bool
needs_escape(unsigned char c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

static void
put_escape(mrd_jw *w, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char from[] = "\"\\\n\t\r\b\f", to[] = "\"\\ntrbf";
    const char *at = c == 0 ? NULL : strchr(from, c);

    *w->p++ = '\\';
    if (at != NULL) {
        *w->p++ = (uint8_t) to[at - from];
    } else {
        jw_copy(w, "u00", 3);
        *w->p++ = (uint8_t) hex[c >> 4];
        *w->p++ = (uint8_t) hex[c & 15];
    }
}

/* Writes valid UTF-8 with escapes, without quotes. */
static void
put_text(mrd_jw *w, mrd_str text)
{
    size_t at = 0, run = 0;

    for (; at < text.len; at++) {
        if (!needs_escape((unsigned char) text.p[at]))
            continue;
        jw_bulk(w, text.p + run, at - run);
        jw_room(w, 8);
        put_escape(w, (unsigned char) text.p[at]);
        run = at + 1;
    }
    jw_bulk(w, text.p + run, at - run);
}

/* Writes a text with quotes, and repairs invalid UTF-8. */
static void
put_quoted(mrd_jw *w, mrd_str text)
{
    size_t bad;

    *w->p++ = '"';
    while (!mrd_utf8_valid(text, &bad)) {
        put_text(w, (mrd_str){ text.p, bad });
        jw_bulk(w, "\xef\xbf\xbd", 3);
        text = (mrd_str){ text.p + bad + 1, text.len - bad - 1 };
    }
    put_text(w, text);
    jw_room(w, 4);
    *w->p++ = '"';
}

void
mrd_jw_str(mrd_jw *w, mrd_str text)
{
    jw_element(w);
    put_quoted(w, text);
}

/* Returns true if the string needs no escapes. Checked once per interned string, which is valid
 * UTF-8. */
static bool
sid_is_plain(mrd_jw *w, mrd_sid sid, mrd_str text)
{
    bool plain = true;

    if (!MRD_VEC_REACH(w->plain, w->n_plain, sid))
        return false; /* escaping is always correct, but slower */
    if (w->plain[sid] != 0)
        return w->plain[sid] == 1;
    for (size_t i = 0; i < text.len && plain; i++)
        plain = !needs_escape((unsigned char) text.p[i]);
    plain = plain && text.len <= 900; /* fits in the room that jw_before leaves */
    w->plain[sid] = plain ? 1 : 2;
    return plain;
}

static inline void
put_sid(mrd_jw *w, mrd_sid sid)
{
    mrd_str text = mrd_strtab_get(w->strings, sid);

    if ((sid >= w->n_plain || w->plain[sid] != 1) && !sid_is_plain(w, sid, text)) {
        put_quoted(w, text);
        return;
    }
    *w->p++ = '"';
    jw_copy(w, text.p, text.len);
    *w->p++ = '"';
}

void
mrd_jw_sid(mrd_jw *w, mrd_sid sid)
{
    jw_element(w);
    put_sid(w, sid);
}

void
mrd_jw_key_sid(mrd_jw *w, mrd_sid key)
{
    jw_before(w);
    put_sid(w, key);
    jw_room(w, 2);
    *w->p++ = ':';
    if (w->pretty)
        *w->p++ = ' ';
    w->state = MRD_JW_KEYED;
}

/* Writes JSON text unchanged if it is valid, otherwise as a string. */
static void
jw_json(mrd_jw *w, mrd_str text)
{
    if (!mrd_json_valid(text)) {
        mrd_jw_str(w, text);
        return;
    }
    jw_element(w);
    jw_bulk(w, text.p, text.len);
}

void
mrd_jw_members(mrd_jw *w, mrd_str text)
{
    jw_bulk(w, text.p, text.len);
    w->state = MRD_JW_VALUED;
}

void
mrd_jw_arg(mrd_jw *w, const mrd_arg *arg)
{
    switch (arg->type) {
    case MRD_ARG_INT:
        mrd_jw_i64(w, arg->v.i);
        break;
    case MRD_ARG_UINT:
        mrd_jw_u64(w, arg->v.u);
        break;
    case MRD_ARG_DOUBLE:
        mrd_jw_double(w, arg->v.d);
        break;
    case MRD_ARG_BOOL:
        mrd_jw_bool(w, arg->v.u != 0);
        break;
    case MRD_ARG_STR:
        mrd_jw_sid(w, arg->v.sid);
        break;
    case MRD_ARG_JSON:
        jw_json(w, (mrd_str){ arg->v.text, arg->len });
        break;
    default:
        mrd_jw_str(w, (mrd_str){ arg->v.text, arg->len });
        break;
    }
}

/* ---- Checking JSON text ---- */

typedef struct {
    const char *p, *end;
} json_check;

static void
skip_blanks(json_check *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
        c->p++;
}

static bool
check_word(json_check *c, const char *word)
{
    size_t n = strlen(word);

    if ((size_t) (c->end - c->p) < n || memcmp(c->p, word, n) != 0)
        return false;
    c->p += n;
    return true;
}

static size_t
check_digits(json_check *c)
{
    const char *from = c->p;

    while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
        c->p++;
    return (size_t) (c->p - from);
}

static bool
check_number(json_check *c)
{
    bool zero;

    if (c->p < c->end && *c->p == '-')
        c->p++;
    zero = c->p < c->end && *c->p == '0';
    switch (check_digits(c)) {
    case 0:
        return false;
    case 1:
        break;
    default:
        if (zero)
            return false;
    }
    if (c->p < c->end && *c->p == '.') {
        c->p++;
        if (check_digits(c) == 0)
            return false;
    }
    if (c->p < c->end && (*c->p | 32) == 'e') {
        c->p++;
        if (c->p < c->end && (*c->p == '-' || *c->p == '+'))
            c->p++;
        return check_digits(c) > 0;
    }
    return true;
}

/* Returns the 16 bits of the digits after "\u", -1 if they are invalid. */
static int
check_hex(json_check *c)
{
    int v = 0;

    if (c->end - c->p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char d = *c->p++;

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
check_escape(json_check *c)
{
    int unit;

    if (c->p == c->end)
        return false;
    if (*c->p != 'u')
        return strchr("\"\\/bfnrt", *c->p++) != NULL;
    c->p++;
    if ((unit = check_hex(c)) < 0 || (unit >= 0xdc00 && unit <= 0xdfff))
        return false;
    if (unit < 0xd800 || unit > 0xdbff)
        return true;
    unit = check_word(c, "\\u") ? check_hex(c) : -1;
    return unit >= 0xdc00 && unit <= 0xdfff;
}

static bool
check_string(json_check *c)
{
    if (c->p == c->end || *c->p++ != '"')
        return false;
    while (c->p < c->end) {
        unsigned char ch = (unsigned char) *c->p++;

        if (ch == '"')
            return true;
        if (ch < 0x20 || (ch == '\\' && (c->p == c->end || *c->p == '\0' || !check_escape(c))))
            return false;
    }
    return false;
}

static bool
check_scalar(json_check *c)
{
    if (c->p == c->end)
        return false;
    switch (*c->p) {
    case '"':
        return check_string(c);
    case 't':
        return check_word(c, "true");
    case 'f':
        return check_word(c, "false");
    case 'n':
        return check_word(c, "null");
    default:
        return check_number(c);
    }
}

static bool
check_key(json_check *c)
{
    skip_blanks(c);
    if (!check_string(c))
        return false;
    skip_blanks(c);
    return c->p < c->end && *c->p++ == ':';
}

bool
mrd_json_valid(mrd_str text)
{
    json_check c = { text.p, text.p + text.len };
    char closing[MRD_JSON_VALID_DEPTH];
    size_t depth = 0;

    if (text.len == 0 || !mrd_utf8_valid(text, NULL))
        return false;
    for (;;) {
        /* A value begins here. */
        skip_blanks(&c);
        if (c.p < c.end && (*c.p == '{' || *c.p == '[')) {
            char close = *c.p++ == '{' ? '}' : ']';

            skip_blanks(&c);
            if (c.p < c.end && *c.p == close) {
                c.p++;
            } else {
                if (depth == MRD_JSON_VALID_DEPTH || (close == '}' && !check_key(&c)))
                    return false;
                closing[depth++] = close;
                continue;
            }
        } else if (!check_scalar(&c)) {
            return false;
        }
        /* After a value: close containers that end here, or continue after a comma. */
        skip_blanks(&c);
        while (depth > 0 && c.p < c.end && *c.p == closing[depth - 1]) {
            c.p++;
            depth--;
            skip_blanks(&c);
        }
        if (depth == 0)
            return c.p == c.end;
        if (c.p == c.end || *c.p++ != ',' || (closing[depth - 1] == '}' && !check_key(&c)))
            return false;
    }
}

/* ---- Members ---- */

void
mrd_jw_put_i64(mrd_jw *w, mrd_str key, int64_t v)
{
    if (v == MRD_NONE)
        return;
    mrd_jw_key(w, key);
    mrd_jw_i64(w, v);
}

void
mrd_jw_put_sid(mrd_jw *w, mrd_str key, mrd_sid v)
{
    if (v == MRD_SID_EMPTY)
        return;
    mrd_jw_key(w, key);
    mrd_jw_sid(w, v);
}

void
mrd_jw_put_flag(mrd_jw *w, mrd_str key, bool v)
{
    if (!v)
        return;
    mrd_jw_key(w, key);
    mrd_jw_bool(w, true);
}

void
mrd_jw_put_i64_or_null(mrd_jw *w, mrd_str key, int64_t v)
{
    mrd_jw_key(w, key);
    if (v == MRD_NONE)
        mrd_jw_null(w);
    else
        mrd_jw_i64(w, v);
}
