#include "base/plain.h"

/* Returns the length of a character that changes the writing direction, or 0 for others. These are
 * U+061C, U+200E, U+200F, U+202A to U+202E and U+2066 to U+2069, in UTF-8. */
static size_t
direction(const unsigned char *p, size_t n)
{
    if (n >= 2 && p[0] == 0xd8 && p[1] == 0x9c)
        return 2;
    if (n < 3 || p[0] != 0xe2)
        return 0;
    return ((p[1] == 0x80 && (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xaa && p[2] <= 0xae))) ||
            (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9))
               ? 3
               : 0;
}

/* Returns the length of the UTF-8 character at p, or 0 if no valid one begins there. */
static size_t
character(const char *p, size_t n)
{
    unsigned char c = (unsigned char) *p;
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

    return len <= n && mrd_utf8_valid((mrd_str){ p, len }, NULL) ? len : 0;
}

size_t
mrd_plain_hidden(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *) text;

    if (n >= 1 && (p[0] < 0x20 || p[0] == 0x7f))
        return 1;
    if (n >= 2 && p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
        return 2;
    return n >= 1 ? direction(p, n) : 0;
}

void
mrd_plain_text(mrd_buf *to, mrd_str text)
{
    for (size_t i = 0; i < text.len;) {
        const char *p = text.p + i;
        size_t hidden = mrd_plain_hidden(p, text.len - i), len = character(p, text.len - i);

        if (hidden == 0 && len > 0) {
            mrd_buf_add(to, p, len);
        } else {
            /* escape each byte separately, because a terminal without UTF-8 may interpret single
             * bytes */
            len = hidden > 0 ? hidden : 1;
            for (size_t k = len == 2 && *p == '\xc2'; k < len; k++)
                mrd_buf_fmt(to, "\\x%02x", (unsigned char) p[k]);
        }
        i += len;
    }
}

void
mrd_plain_line(FILE *to, const char *who, mrd_str text)
{
    mrd_buf line = { 0 };

    mrd_plain_text(&line, text);
    fprintf(to, "%s: %s\n", who, mrd_buf_cstr(&line));
    mrd_buf_fini(&line);
}
