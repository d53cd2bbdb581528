/*
 * base/secret.h - files and texts that must not be seen: keys, tokens.
 *
 * Threads: stateless.
 */
#ifndef MRD_BASE_SECRET_H
#define MRD_BASE_SECRET_H

#include "base/buf.h"

/*
 * Whether only those may read the file who should: not everybody, and its group may read but not
 * write (that is how a service manager or Kubernetes hands a file to one user). `what` names it in
 * the message ("token file"). A secret given in place of its file is not repeated. Errors:
 * NOTFOUND, DENIED.
 */
mrd_err mrd_secret_check(const char *what, const char *path, mrd_why *why);
/* A token file whole, without the line end; the caller wipes and frees (mrd_secret_free). The file
 * is checked as above. Errors: NOTFOUND, DENIED, LIMIT (64 KiB), EMPTY, NOMEM. */
mrd_err mrd_secret_read(const char *what, const char *path, char **ret_text, mrd_why *why);
void mrd_secret_free(char *text); /* wiped first; NULL is fine */
/* Compares without telling by its time where two texts of equal length differ. */
bool mrd_secret_equal(const void *a, const void *b, size_t len);
/*
 * A number that changes when one of the files is written, replaced or removed (its directory entry
 * leads elsewhere), or when its mode or owner changes: polled, it tells when to read them again. NULL
 * entries are passed over.
 */
uint64_t mrd_files_stamp(const char *const *paths, size_t n);
/* Nobody else reads this process's memory: no core file, no ptrace and no /proc/<pid>/mem for other
 * processes of the same user. First thing in main of a program that holds keys. */
void mrd_secret_process(void);

#endif
