#include "base/plain.h"

/* U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069, in UTF-8. */
static bool
is_direction(const unsigned char *p)
{
    if (p[0] != 0xe2)
        return false;
    return (p[1] == 0x80 && (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xaa && p[2] <= 0xae))) ||
           (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);
}

size_t
mrd_plain_hidden(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *) text;

    if (n >= 1 && (p[0] < 0x20 || p[0] == 0x7f))
        return 1;
    if (n >= 2 && p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
        return 2;
    return n >= 3 && is_direction(p) ? 3 : 0;
}

void
mrd_plain_text(mrd_buf *to, mrd_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        size_t n = mrd_plain_hidden(text.p + i, text.len - i);

        if (n == 0)
            mrd_buf_byte(to, (unsigned char) text.p[i]);
        for (size_t k = n == 2; k < n; k++)
            mrd_buf_fmt(to, "\\x%02x", (unsigned char) text.p[i + k]);
        i += n == 0 ? 0 : n - 1;
    }
}
