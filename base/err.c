#include "base/err.h"

#include <stdio.h>
#include <string.h>

static const struct {
    mrd_err err;
    int http;
    const char *name, *text;
} err_table[] = {
#define MRD_ERR(name, value, http, text) { MRD_##name, http, #name, text },
#include "base/err.def"
#undef MRD_ERR
};

static size_t
err_row(mrd_err err)
{
    size_t i, n = sizeof(err_table) / sizeof(err_table[0]);

    for (i = 0; i < n && err_table[i].err != err; i++)
        ;
    return i;
}

#define ERR_ROWS (sizeof(err_table) / sizeof(err_table[0]))

mrd_err
mrd_err_of(uint64_t number)
{
    return number <= INT32_MAX && err_row((mrd_err) number) < ERR_ROWS ? (mrd_err) number
                                                                       : MRD_INVALID;
}

const char *
mrd_err_text(mrd_err err)
{
    size_t i = err_row(err);

    return i < ERR_ROWS ? err_table[i].text : "unknown error";
}

const char *
mrd_err_name(mrd_err err)
{
    size_t i = err_row(err);

    return i < ERR_ROWS ? err_table[i].name : "UNKNOWN";
}

int
mrd_err_http(mrd_err err)
{
    size_t i = err_row(err);

    return i < ERR_ROWS ? err_table[i].http : 500;
}

/* Removes an incomplete UTF-8 character at the end of a truncated text. */
static void
why_trim(char *text, size_t size)
{
    size_t len = strlen(text);
    size_t start;

    if (len + 1 < size)
        return;
    for (start = len; start > 0 && ((unsigned char) text[start - 1] & 0xc0) == 0x80; start--)
        ;
    if (start > 0 && (unsigned char) text[start - 1] >= 0xc0)
        text[start - 1] = '\0';
}

mrd_err
mrd_why_set(mrd_why *why, mrd_err err, int sys, const char *format, ...)
{
    va_list args;
    size_t len;

    if (why == NULL)
        return err;
    why->err = err;
    why->sys = sys;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    len = strlen(why->text);
    if (sys != 0 && len + 3 < sizeof(why->text)) {
        char buf[128];

        snprintf(why->text + len, sizeof(why->text) - len, ": %s",
                 strerror_r(sys, buf, sizeof(buf)));
    }
    why_trim(why->text, sizeof(why->text));
    return err;
}

mrd_err
mrd_why_err(const mrd_why *why)
{
    return why == NULL || why->err == MRD_OK ? MRD_IO : why->err;
}

mrd_err
mrd_why_prefix(mrd_why *why, mrd_err err, const char *format, ...)
{
    char old[MRD_WHY_MAX];
    va_list args;
    size_t len;

    if (why == NULL)
        return err;
    memcpy(old, why->text, sizeof(old));
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    len = strlen(why->text);
    if (len + 3 < sizeof(why->text)) {
        size_t room = sizeof(why->text) - len - 3;

        memcpy(why->text + len, ": ", 2);
        memccpy(why->text + len + 2, old, '\0', room);
        why->text[sizeof(why->text) - 1] = '\0';
    }
    why_trim(why->text, sizeof(why->text));
    return why->err;
}
