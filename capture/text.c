#include "capture/text.h"

#include <locale.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
text_room(mrd_text *t, size_t more)
{
    size_t want = t->cap == 0 ? 256 : t->cap;
    char *p;

    if (t->failed || t->cap - t->len > more)
        return !t->failed;
    while (want - t->len <= more)
        want *= 2;
    if ((p = realloc(t->p, want)) == NULL) {
        t->failed = true;
        return false;
    }
    t->p = p;
    t->cap = want;
    return true;
}

void
mrd_text_add(mrd_text *t, const char *p, size_t len)
{
    if (!text_room(t, len))
        return;
    memcpy(t->p + t->len, p, len);
    t->len += len;
    t->p[t->len] = '\0';
}

void
mrd_text_fmt(mrd_text *t, const char *format, ...)
{
    locale_t programs = uselocale(newlocale(LC_ALL_MASK, "C", NULL));
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n >= 0 && text_room(t, (size_t) n)) {
        va_start(ap, format);
        vsnprintf(t->p + t->len, (size_t) n + 1, format, ap);
        va_end(ap);
        t->len += (size_t) n;
    }
    uselocale(programs);
}

/* Returns the length of the well-formed UTF-8 character at p, 0 if there is none. */
static size_t
utf8_char(const unsigned char *p, size_t left)
{
    static const struct {
        unsigned char mask, lead;
    } forms[] = { { 0x80, 0x00 }, { 0xe0, 0xc0 }, { 0xf0, 0xe0 }, { 0xf8, 0xf0 } };
    size_t n;
    uint32_t c;

    for (n = 0; n < 4 && (p[0] & forms[n].mask) != forms[n].lead; n++)
        ;
    if (n == 4 || n + 1 > left)
        return 0;
    c = n == 0 ? p[0] : p[0] & (0x3fu >> n);
    for (size_t i = 1; i <= n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if ((n == 1 && c < 0x80) || (n == 2 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) ||
        (n == 3 && (c < 0x10000 || c > 0x10ffff)))
        return 0;
    return n + 1;
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
mrd_text_take(mrd_text *t)
{
    char *p = t->p;

    if (t->failed || (p == NULL && (p = strdup("")) == NULL)) {
        free(t->p);
        p = NULL;
    }
    *t = (mrd_text){ 0 };
    return p;
}
