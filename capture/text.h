/*
 * capture/text.h - a growing text that remembers its first failure. Internal; malloc.
 */
#ifndef MRD_CAPTURE_TEXT_H
#define MRD_CAPTURE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char *p;
    size_t len, cap;
    bool failed;
} mrd_text;

void mrd_text_add(mrd_text *t, const char *p, size_t len);
/* With a point in numbers, whatever the program's locale has. */
void mrd_text_fmt(mrd_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD. */
void mrd_text_json_n(mrd_text *t, const char *p, size_t len);
void mrd_text_json(mrd_text *t, const char *text);
/* The text with a NUL, owned by the caller; NULL after a failure. */
char *mrd_text_take(mrd_text *t);

#endif
