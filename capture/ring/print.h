/*
 * capture/ring/print.h - formats file names and messages without stdio, which would need 2 KiB of
 * stack. So signal handlers with a small stack can use it. Internal.
 *
 * A text ends with NUL and is cut at the end of its buffer.
 */
#ifndef MRD_CAPTURE_RING_PRINT_H
#define MRD_CAPTURE_RING_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    /* `at` is the position of the NUL at the end of the text; `end` is the last position in the
     * buffer */
    char *at, *end;
    bool was_cut;
} mrd_print;

/* Starts an empty text in `buf`. `size` is the size of the buffer in bytes, at least 1. */
static inline mrd_print
mrd_print_to(char *buf, size_t size)
{
    *buf = '\0';
    return (mrd_print){ buf, buf + size - 1, false };
}

static inline void
mrd_print_bytes(mrd_print *print, const char *text, size_t len)
{
    size_t room = (size_t) (print->end - print->at), n = len < room ? len : room;

    memcpy(print->at, text, n);
    print->at += n;
    *print->at = '\0';
    print->was_cut = print->was_cut || n < len;
}

static inline void
mrd_print_text(mrd_print *print, const char *text)
{
    mrd_print_bytes(print, text, strlen(text));
}

static inline void
mrd_print_u64(mrd_print *print, uint64_t v)
{
    char digits[20];
    size_t at = sizeof(digits);

    do
        digits[--at] = (char) ('0' + v % 10);
    while ((v /= 10) > 0);
    mrd_print_bytes(print, digits + at, sizeof(digits) - at);
}

/* Appends bytes as hexadecimal text, two digits for each byte. */
static inline void
mrd_print_hex(mrd_print *print, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char pair[2] = { "0123456789abcdef"[bytes[i] >> 4],
                               "0123456789abcdef"[bytes[i] & 15] };

        mrd_print_bytes(print, pair, 2);
    }
}

#endif
