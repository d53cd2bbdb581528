/*
 * capture/ring/print.h - formats short texts without stdio, which needs 2 KiB of stack. For names of
 * files and messages that are made on a small signal stack. Internal.
 *
 * A text ends with NUL and is cut at the end of its buffer. Stateless.
 */
#ifndef MRD_CAPTURE_RING_PRINT_H
#define MRD_CAPTURE_RING_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    char *at, *end; /* position of the NUL; last position that it may have */
    bool was_cut;
} mrd_print;

/* `size` is the buffer's size, at least 1. */
static inline mrd_print
mrd_print_to(char *buf, size_t size)
{
    *buf = '\0';
    return (mrd_print){ buf, buf + size - 1, false };
}

static inline void
mrd_print_bytes(mrd_print *p, const char *text, size_t len)
{
    size_t room = (size_t) (p->end - p->at), n = len < room ? len : room;

    memcpy(p->at, text, n);
    p->at += n;
    *p->at = '\0';
    p->was_cut = p->was_cut || n < len;
}

static inline void
mrd_print_text(mrd_print *p, const char *text)
{
    mrd_print_bytes(p, text, strlen(text));
}

static inline void
mrd_print_u64(mrd_print *p, uint64_t v)
{
    char digits[20];
    size_t at = sizeof(digits);

    do
        digits[--at] = (char) ('0' + v % 10);
    while ((v /= 10) > 0);
    mrd_print_bytes(p, digits + at, sizeof(digits) - at);
}

/* Two digits a byte. */
static inline void
mrd_print_hex(mrd_print *p, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char pair[2] = { "0123456789abcdef"[bytes[i] >> 4],
                               "0123456789abcdef"[bytes[i] & 15] };

        mrd_print_bytes(p, pair, 2);
    }
}

#endif
