/* capture/text.h - a growing text that remembers its first error. Internal; uses malloc. */
#ifndef MRD_CAPTURE_TEXT_H
#define MRD_CAPTURE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char *p;
    size_t len, cap;
    bool failed;
} mrd_text;

void mrd_text_add(mrd_text *text, const char *p, size_t len);
/* Appends formatted text. Numbers have a decimal point in any locale of the program. */
void mrd_text_fmt(mrd_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a JSON string with its quotes. Invalid UTF-8 becomes U+FFFD. */
void mrd_text_json_n(mrd_text *t, const char *p, size_t len);
void mrd_text_json(mrd_text *t, const char *text);
/* Returns the text, which ends with NUL and which the caller frees. Returns NULL after an error. */
char *mrd_text_take(mrd_text *text);

#endif
