/*
 * base/sys/secret.h - reads files with keys and tokens.
 *
 * Threads: stateless.
 */
#ifndef MRD_BASE_SYS_SECRET_H
#define MRD_BASE_SYS_SECRET_H

#include "base/buf.h"

/*
 * Checks the permissions of a secret's file. Other users must have no access, and its group may
 * only read, because service managers and Kubernetes give files to a user this way. `what` names
 * the file in messages, such as "token file". If the user passed the secret itself instead of a
 * path, the message does not contain it. Errors: NOTFOUND, DENIED.
 */
mrd_err mrd_secret_check(const char *what, const char *path, mrd_why *why);
/* Reads a whole token file without its line end. The caller frees the text with mrd_secret_free,
 * which wipes it. The file is checked as by mrd_secret_check. Errors: NOTFOUND, DENIED, LIMIT (64
 * KiB), EMPTY, NOMEM. */
mrd_err mrd_secret_read(const char *what, const char *path, char **ret_text, mrd_why *why);
void mrd_secret_free(char *text); /* Wipes and frees. Ignores NULL. */
/* Compares in constant time, so that the duration does not reveal where two texts differ. */
bool mrd_secret_equal(const void *a, const void *b, size_t len);
/*
 * Returns a number that changes if one of the files is written, replaced or removed, or if its mode
 * or owner changes. Poll it to find out when to read the files again. NULL entries are skipped.
 */
uint64_t mrd_files_stamp(const char *const *paths, size_t n);
/* Protects this process's memory from other processes of the same user: no core file, no ptrace, no
 * /proc/<pid>/mem. A program that holds keys calls this first in main. */
void mrd_secret_process(void);

#endif
