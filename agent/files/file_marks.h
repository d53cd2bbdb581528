/* agent/files/file_marks.h - compares two versions of a file by hashes of a few small parts. These
 * hashes are the marks of the file. They show whether the contents were replaced or only grew. The
 * hashes cover the first 64 KiB of the file, the 4 KiB before each larger power of two, and the
 * last 4 KiB. */
#ifndef MRD_AGENT_FILES_FILE_MARKS_H
#define MRD_AGENT_FILES_FILE_MARKS_H

#include <stdbool.h>
#include <stdint.h>

/* number of marks; the last one ends at 2 GiB */
#define MRD_FILE_MARKS 26u

typedef struct {
    uint64_t size; /* size of the file; 0 means that it was not read */
    /* at[i] is the hash of the bytes just before offset 64 << i, if the file is that long */
    uint32_t at[MRD_FILE_MARKS];
    uint32_t end; /* hash of the file's last 4 KiB */
} mrd_file_marks;

/* Computes the marks of an open file of `size` bytes. Sets ret_marks->size to 0 if the file cannot
 * be read. */
void mrd_file_marks_read(int fd, uint64_t size, mrd_file_marks *ret_marks);
/* Returns true if the version `after` seems to begin with the contents of the version `before`. A
 * file also counts as grown if its last bytes were rewritten, such as the end of its JSON. Returns
 * false if one of the versions was not read. */
bool mrd_file_marks_grew(const mrd_file_marks *before, const mrd_file_marks *after);

#endif
