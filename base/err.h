/*
 * base/err.h - error codes from one table, and the message that goes with them.
 *
 * A function that can fail returns mrd_err. When a person has to act on the failure it also takes a
 * `mrd_why *`, which may be NULL; on failure it then holds the code, errno (0 if none) and a
 * message that names the object. Text is truncated at MRD_WHY_MAX bytes, never split inside a
 * UTF-8 character. Threads: a mrd_why belongs to one thread; everything else here is stateless.
 */
#ifndef MRD_BASE_ERR_H
#define MRD_BASE_ERR_H

#include <stdint.h>

#include <stdarg.h>

typedef enum {
#define MRD_ERR(name, value, http, text) MRD_##name = value,
#include "base/err.def"
#undef MRD_ERR
} mrd_err;

#define MRD_WHY_MAX 640

typedef struct {
    mrd_err err;
    int sys; /* errno at the failure, 0 when the system was not involved */
    char text[MRD_WHY_MAX];
} mrd_why;

/* The table's text, "unknown error" for a number outside it (a newer peer). Static. */
const char *mrd_err_text(mrd_err err);
/* The table's name without prefix, "TRUNCATED". Static. */
const char *mrd_err_name(mrd_err err);
/* The error of a number that somebody else said: INVALID when the table has no such number. */
mrd_err mrd_err_of(uint64_t number);
/* The HTTP status that an API answers with. */
int mrd_err_http(mrd_err err);

/*
 * Fills *why (NULL is fine) with err, sys and the formatted message; with sys != 0 ": " and the
 * system's text are appended. Returns err, so that `return mrd_why_set(...)` reads well.
 */
mrd_err mrd_why_set(mrd_why *why, mrd_err err, int sys, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The code of a failure that only *why tells of (a source that gave BAD); IO when nobody asked why
 * (NULL) or nothing was said. Whoever reads a `why` that a caller gave uses this, or a mrd_why of
 * its own: the caller's may be NULL. */
mrd_err mrd_why_err(const mrd_why *why);
/* Puts "prefix: " in front of the message already there. Returns why->err (err when why is NULL).
 */
mrd_err mrd_why_prefix(mrd_why *why, mrd_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
