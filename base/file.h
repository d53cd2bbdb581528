/*
 * base/file.h - reads whole files that are small: settings, tables, secrets, one line of /proc; and the
 * names of folders. Files of any size are read in chunks (trace/json/in.h, the journal); base/out.h writes.
 *
 * Each read has a limit, named by its caller, and never takes more memory than that. What a file
 * holds is whatever whoever wrote it wanted: check it. Threads: any; they share nothing.
 */
#ifndef MRD_BASE_FILE_H
#define MRD_BASE_FILE_H

#include <dirent.h>

#include "base/buf.h"

/*
 * Appends all of a file to *to, at most max bytes. Errors, each with the path and the system's
 * reason: NOTFOUND, DENIED, IO, NOMEM; LIMIT: it holds more than max bytes. *to then holds what was
 * read so far.
 */
mrd_err mrd_file_read(const char *path, size_t max, mrd_buf *to, mrd_why *why);
/* The same from where an open file stands to its end; it stays open. Errors as above; errno says why
 * with IO. Where *to has room for max + 1 bytes already, it does not move. */
mrd_err mrd_file_read_fd(int fd, size_t max, mrd_buf *to);
/* The first line without its end, cut to size - 1 bytes; false, and "" in line, when there is none. */
bool mrd_file_line(const char *path, char *line, size_t size);
/* The next name of a folder. NULL: with *ret_errno 0 that was all, else why the rest cannot be read: what is not seen may be
 * there. Valid until the next call. */
const struct dirent *mrd_dir_next(DIR *dir, int *ret_errno);

#endif
