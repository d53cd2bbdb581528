/*
 * base/buf.h - borrowed strings and bytes, an owned buffer that grows, and helpers for both.
 *
 * mrd_str and mrd_bytes borrow their memory and need no free. mrd_buf owns its memory, grows by
 * doubling, and remembers its first failure. Callers append freely and check mrd_buf.err once at
 * the end, because appends after a failure do nothing. A zeroed mrd_buf is a valid empty buffer.
 * Threads: a mrd_buf belongs to one thread.
 */
#ifndef MRD_BASE_BUF_H
#define MRD_BASE_BUF_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const char *p; /* the text, which need not end with NUL */
    size_t len;
} mrd_str;

typedef struct {
    const uint8_t *p;
    size_t len;
} mrd_bytes;

#define MRD_STR(literal) ((mrd_str){ (literal), sizeof(literal) - 1 })
#define MRD_STR_FMT      "%.*s"
#define MRD_STR_ARG(s)   (int) (s).len, (s).p

static inline mrd_str
mrd_str_of(const char *text)
{
    return (mrd_str){ text, text == NULL ? 0 : strlen(text) };
}

static inline bool
mrd_str_eq(mrd_str a, mrd_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static inline bool
mrd_str_is(mrd_str str, const char *text)
{
    return mrd_str_eq(str, mrd_str_of(text));
}

bool mrd_str_starts(mrd_str str, const char *prefix);
bool mrd_str_ends(mrd_str str, const char *suffix);
bool mrd_str_has(mrd_str str, const char *word);
/* Returns the first byte of the text that is not a space, tab or line end, or ' ' if there is
 * none. */
char mrd_str_first(mrd_str str);
/* Returns whether the bytes are valid UTF-8 (no surrogates, no overlong forms). If not, stores the
 * offset of the first invalid byte in *ret_at. */
bool mrd_utf8_valid(mrd_str str, size_t *ret_at);
/* Returns a copy on the heap, terminated by NUL. NULL if out of memory. */
char *mrd_str_dup(mrd_str str);

typedef struct {
    uint8_t *p;
    size_t len, cap;
    mrd_err err; /* MRD_OK, or the first failure */
} mrd_buf;

void mrd_buf_fini(mrd_buf *buf);
static inline void
mrd_buf_reset(mrd_buf *buf)
{
    buf->len = 0;
    buf->err = MRD_OK;
}
/* Ensures space for `more` bytes after len. If out of memory, returns false and sets err. */
bool mrd_buf_grow(mrd_buf *buf, size_t more);
static inline bool
mrd_buf_room(mrd_buf *buf, size_t more)
{
    return buf->err == MRD_OK && (buf->cap - buf->len >= more || mrd_buf_grow(buf, more));
}
static inline void
mrd_buf_add(mrd_buf *buf, const void *data, size_t len)
{
    if (len > 0 && mrd_buf_room(buf, len)) {
        memcpy(buf->p + buf->len, data, len);
        buf->len += len;
    }
}
static inline void
mrd_buf_byte(mrd_buf *buf, uint8_t byte)
{
    if (mrd_buf_room(buf, 1))
        buf->p[buf->len++] = byte;
}
static inline void
mrd_buf_str(mrd_buf *buf, mrd_str str)
{
    mrd_buf_add(buf, str.p, str.len);
}
static inline void
mrd_buf_text(mrd_buf *buf, const char *text)
{
    mrd_buf_add(buf, text, strlen(text));
}
void mrd_buf_fmt(mrd_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Append decimal integers. These functions are faster than mrd_buf_fmt. */
void mrd_buf_u64(mrd_buf *buf, uint64_t v);
void mrd_buf_i64(mrd_buf *buf, int64_t v);
/* Appends a NUL that len does not count, and returns the text. Returns "" after a failure. */
const char *mrd_buf_cstr(mrd_buf *buf);

/* A list of strings in order, which owns them. A zeroed list is empty. */
typedef struct {
    char **v;
    size_t n, cap;
} mrd_strlist;

mrd_err mrd_strlist_add(mrd_strlist *list, mrd_str str);
bool mrd_strlist_has(const mrd_strlist *list, mrd_str str);
void mrd_strlist_fini(mrd_strlist *list);

/* Returns the ending of a counted noun, "s" or "", for formats such as "%llu event%s". */
static inline const char *
mrd_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

#endif
