#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"

bool
mrd_str_starts(mrd_str str, const char *prefix)
{
    size_t n = strlen(prefix);

    return str.len >= n && memcmp(str.p, prefix, n) == 0;
}

bool
mrd_str_ends(mrd_str str, const char *suffix)
{
    size_t n = strlen(suffix);

    return str.len >= n && memcmp(str.p + str.len - n, suffix, n) == 0;
}

bool
mrd_str_has(mrd_str str, const char *word)
{
    return *word == '\0' || (str.len > 0 && memmem(str.p, str.len, word, strlen(word)) != NULL);
}

char
mrd_str_first(mrd_str str)
{
    size_t i = 0;

    while (i < str.len &&
           (str.p[i] == ' ' || str.p[i] == '\n' || str.p[i] == '\r' || str.p[i] == '\t'))
        i++;
    return i < str.len ? str.p[i] : ' ';
}

char *
mrd_str_dup(mrd_str str)
{
    char *copy = malloc(str.len + 1);

    if (copy == NULL)
        return NULL;
    if (str.len > 0)
        memcpy(copy, str.p, str.len);
    copy[str.len] = '\0';
    return copy;
}

/* Returns the length of the valid UTF-8 character that begins at `bytes` (Unicode 15, table 3-7).
 * Returns 0 if there is none. */
static size_t
utf8_char(const unsigned char *bytes, size_t left)
{
    unsigned char lo = 0x80, hi = 0xbf;
    size_t count, i;

    if (bytes[0] < 0x80)
        return 1;
    if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf)
        count = 2;
    else if (bytes[0] >= 0xe0 && bytes[0] <= 0xef)
        count = 3;
    else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4)
        count = 4;
    else
        return 0;
    if (bytes[0] == 0xe0)
        lo = 0xa0;
    else if (bytes[0] == 0xed)
        hi = 0x9f;
    else if (bytes[0] == 0xf0)
        lo = 0x90;
    else if (bytes[0] == 0xf4)
        hi = 0x8f;
    if (left < count || bytes[1] < lo || bytes[1] > hi)
        return 0;
    for (i = 2; i < count; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    }
    return count;
}

bool
mrd_utf8_valid(mrd_str str, size_t *ret_at)
{
    const unsigned char *bytes = (const unsigned char *) str.p;
    size_t i = 0;

    while (i < str.len) {
        uint64_t w;
        size_t n;

        if (str.len - i >= 8) {
            memcpy(&w, bytes + i, 8);
            if ((w & 0x8080808080808080u) == 0) {
                i += 8;
                continue;
            }
        }
        n = utf8_char(bytes + i, str.len - i);
        if (n == 0) {
            if (ret_at != NULL)
                *ret_at = i;
            return false;
        }
        i += n;
    }
    return true;
}

void
mrd_buf_fini(mrd_buf *buf)
{
    free(buf->p);
    *buf = (mrd_buf){ 0 };
}

bool
mrd_buf_grow(mrd_buf *buf, size_t more)
{
    size_t cap = buf->cap < 256 ? 256 : buf->cap;
    uint8_t *bytes;

    if (buf->err != MRD_OK)
        return false;
    if (more > SIZE_MAX / 2 - buf->len) {
        buf->err = MRD_NOMEM;
        return false;
    }
    while (cap - buf->len < more)
        cap *= 2;
    bytes = realloc(buf->p, cap);
    if (bytes == NULL) {
        buf->err = MRD_NOMEM;
        return false;
    }
    buf->p = bytes;
    buf->cap = cap;
    return true;
}

void
mrd_buf_fmt(mrd_buf *buf, const char *format, ...)
{
    va_list args, again;
    int n;

    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    if (n >= 0 && mrd_buf_room(buf, (size_t) n + 1)) {
        vsnprintf((char *) buf->p + buf->len, (size_t) n + 1, format, again);
        buf->len += (size_t) n;
    }
    va_end(again);
    va_end(args);
}

/* Writes `value` in decimal at `cursor`, which needs room for 20 bytes. Returns the number of
 * bytes. */
static size_t
fmt_u64(char *cursor, uint64_t value)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char tmp[20];
    size_t at = sizeof(tmp);

    while (value >= 100) {
        uint64_t q = value / 100;

        at -= 2;
        memcpy(tmp + at, pairs + (value - q * 100) * 2, 2);
        value = q;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(tmp + at, pairs + value * 2, 2);
    } else {
        tmp[--at] = (char) ('0' + value);
    }
    memcpy(cursor, tmp + at, sizeof(tmp) - at);
    return sizeof(tmp) - at;
}

void
mrd_buf_u64(mrd_buf *buf, uint64_t v)
{
    if (mrd_buf_room(buf, 20))
        buf->len += fmt_u64((char *) buf->p + buf->len, v);
}

void
mrd_buf_i64(mrd_buf *buf, int64_t v)
{
    if (v < 0)
        mrd_buf_byte(buf, '-');
    mrd_buf_u64(buf, v < 0 ? 0 - (uint64_t) v : (uint64_t) v);
}

const char *
mrd_buf_cstr(mrd_buf *buf)
{
    if (!mrd_buf_room(buf, 1))
        return "";
    buf->p[buf->len] = '\0';
    return (const char *) buf->p;
}

mrd_err
mrd_strlist_add(mrd_strlist *list, mrd_str str)
{
    char *copy;

    if (!MRD_VEC_ROOM(list->v, list->n, list->cap, 1))
        return MRD_NOMEM;
    if ((copy = mrd_str_dup(str)) == NULL)
        return MRD_NOMEM;
    list->v[list->n++] = copy;
    return MRD_OK;
}

bool
mrd_strlist_has(const mrd_strlist *list, mrd_str str)
{
    for (size_t i = 0; i < list->n; i++) {
        if (mrd_str_is(str, list->v[i]))
            return true;
    }
    return false;
}

void
mrd_strlist_fini(mrd_strlist *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->v[i]);
    free(list->v);
    *list = (mrd_strlist){ 0 };
}
