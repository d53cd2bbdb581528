/*
 * base/sys/file.h - reads small files into memory (settings, tables, secrets, lines of /proc), and
 * lists directories. Large files are read in chunks by other modules (trace/json/in.h, the
 * journal). base/sys/out.h writes files.
 *
 * The caller of each function sets a limit, and the function never uses more memory. Callers must
 * check the contents, because other programs may have written them. Threads: any; no shared state.
 */
#ifndef MRD_BASE_SYS_FILE_H
#define MRD_BASE_SYS_FILE_H

#include <dirent.h>

#include "base/buf.h"

/*
 * Appends a whole file to *to, at most `max` bytes. Errors name the path and the system's reason:
 * NOTFOUND, DENIED, IO, NOMEM, and LIMIT if the file is larger than `max`. On an error, *to holds
 * what was read before it.
 */
mrd_err mrd_file_read(const char *path, size_t max, mrd_buf *to, mrd_why *why);
/* Like mrd_file_read, but reads from the current position of an open file to its end. The file
 * stays open. After an IO error, errno has the reason. If *to has a capacity of max + 1 bytes or
 * more, its memory does not move. */
mrd_err mrd_file_read_fd(int fd, size_t max, mrd_buf *to);
/* Reads the first line of a file without its line end, cut to size - 1 bytes. Returns false and
 * sets `line` to "" if there is no line. */
bool mrd_file_line(const char *path, char *line, size_t size);
/* Returns the next entry of a directory, or NULL at the end. If *ret_errno is then not 0, reading
 * failed and entries may be missing. The entry is valid until the next call. */
const struct dirent *mrd_dir_next(DIR *dir, int *ret_errno);

#endif
