/*
 * base/err.h - error codes from one table, and the message that goes with an error.
 *
 * A function that can fail returns mrd_err. If a person has to act on the failure, the function
 * also takes a `mrd_why *`, which may be NULL. On failure, *why holds the code, errno (0 if none)
 * and a message that names the object. Messages are cut at MRD_WHY_MAX bytes, at a boundary of
 * UTF-8 characters. Threads: a mrd_why belongs to one thread; everything else here is stateless.
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
    int sys; /* errno of the failure, 0 if no system call failed */
    char text[MRD_WHY_MAX];
} mrd_why;

/* Returns the text of an error from err.def, or "unknown error" for a number that is not in the
 * table. A newer peer may send such a number. The text is static. */
const char *mrd_err_text(mrd_err err);
/* Returns the error's name without the prefix MRD_, for example "TRUNCATED". The text is static. */
const char *mrd_err_name(mrd_err err);
/* Converts a number received from a peer. Returns INVALID for a number that is not in the table. */
mrd_err mrd_err_of(uint64_t number);
/* Returns the HTTP status for this error. */
int mrd_err_http(mrd_err err);

/*
 * Fills *why, if it is not NULL, with the error, errno and the formatted message. If sys is not 0,
 * ": " and the system's text for it are appended. Returns err, so that a caller can write `return
 * mrd_why_set(...)`.
 */
mrd_err mrd_why_set(mrd_why *why, mrd_err err, int sys, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Returns the code in *why. Returns IO if why is NULL or empty. Functions that read a mrd_why of
 * their caller must use this function, because the caller may pass NULL. */
mrd_err mrd_why_err(const mrd_why *why);
/* Puts "prefix: " before the existing message. Returns why->err, or `err` if why is NULL. */
mrd_err mrd_why_prefix(mrd_why *why, mrd_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
