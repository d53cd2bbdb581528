#include "capture/text.h"

#include <locale.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
text_room(mrd_text *text, size_t more)
{
    size_t want = text->cap == 0 ? 256 : text->cap;
    char *p;

    if (text->failed || text->cap - text->len > more)
        return !text->failed;
    while (want - text->len <= more)
        want *= 2;
    if ((p = realloc(text->p, want)) == NULL) {
        text->failed = true;
        return false;
    }
    text->p = p;
    text->cap = want;
    return true;
}

void
mrd_text_add(mrd_text *text, const char *p, size_t len)
{
    if (!text_room(text, len))
        return;
    memcpy(text->p + text->len, p, len);
    text->len += len;
    text->p[text->len] = '\0';
}

void
mrd_text_fmt(mrd_text *text, const char *format, ...)
{
    locale_t programs = uselocale(newlocale(LC_ALL_MASK, "C", NULL));
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n >= 0 && text_room(text, (size_t) n)) {
        va_start(ap, format);
        vsnprintf(text->p + text->len, (size_t) n + 1, format, ap);
        va_end(ap);
        text->len += (size_t) n;
    }
    uselocale(programs);
}

/* Returns the length of the well-formed UTF-8 character at `bytes`, or 0 if no such character
 * starts there. */
static size_t
utf8_char(const unsigned char *bytes, size_t left)
{
    static const struct {
        unsigned char mask, lead;
    } forms[] = { { 0x80, 0x00 }, { 0xe0, 0xc0 }, { 0xf0, 0xe0 }, { 0xf8, 0xf0 } };
    size_t count;
    uint32_t c;

    for (count = 0; count < 4 && (bytes[0] & forms[count].mask) != forms[count].lead; count++)
        ;
    if (count == 4 || count + 1 > left)
        return 0;
    c = count == 0 ? bytes[0] : bytes[0] & (0x3fu >> count);
    for (size_t i = 1; i <= count; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (bytes[i] & 0x3fu);
    }
    if ((count == 1 && c < 0x80) || (count == 2 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) ||
        (count == 3 && (c < 0x10000 || c > 0x10ffff)))
        return 0;
    return count + 1;
}

void
mrd_text_json_n(mrd_text *t, const char *text, size_t len)
{
    mrd_text_add(t, "\"", 1);
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char) text[i];
        size_t n = utf8_char((const unsigned char *) text + i, len - i);

        if (n == 0)
            mrd_text_add(t, "\xef\xbf\xbd", 3);
        else if (c == '"' || c == '\\')
            mrd_text_fmt(t, "\\%c", c);
        else if (c < 0x20)
            mrd_text_fmt(t, "\\u%04x", c);
        else
            mrd_text_add(t, text + i, n);
        i += n == 0 ? 1 : n;
    }
    mrd_text_add(t, "\"", 1);
}

void
mrd_text_json(mrd_text *t, const char *text)
{
    mrd_text_json_n(t, text, strlen(text));
}

char *
mrd_text_take(mrd_text *text)
{
    char *p = text->p;

    if (text->failed || (p == NULL && (p = strdup("")) == NULL)) {
        free(text->p);
        p = NULL;
    }
    *text = (mrd_text){ 0 };
    return p;
}
