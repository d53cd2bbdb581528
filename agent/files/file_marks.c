#include "agent/files/file_marks.h"

#include <unistd.h>

#include "base/hash.h"

#define FIRST  64u
#define START  65536u /* must be FIRST times a power of two */
#define WINDOW 4096u

static uint32_t
hash_of(const void *data, size_t len)
{
    return (uint32_t) mrd_hash64(data, len, 1);
}

static bool
hash_window(int fd, uint64_t end, uint32_t *ret_hash)
{
    uint64_t len = end < WINDOW ? end : WINDOW;
    char text[WINDOW];

    if (pread(fd, text, len, (off_t) (end - len)) != (ssize_t) len)
        return false;
    *ret_hash = hash_of(text, len);
    return true;
}

void
mrd_file_marks_read(int fd, uint64_t size, mrd_file_marks *ret_marks)
{
    char start[START];
    ssize_t n = pread(fd, start, sizeof(start), 0);
    uint64_t before = 0, end = FIRST;
    mrd_file_marks marks = { .size = size };

    ret_marks->size = 0;
    if (n < 0 || (uint64_t) n < (size < sizeof(start) ? size : sizeof(start)) ||
        !hash_window(fd, size, &marks.end))
        return;
    for (unsigned i = 0; i < MRD_FILE_MARKS && end <= size; i++) {
        if (end <= sizeof(start))
            marks.at[i] = hash_of(start + before, end - before);
        else if (!hash_window(fd, end, &marks.at[i]))
            return;
        before = end;
        end *= 2;
    }
    *ret_marks = marks;
}

bool
mrd_file_marks_grew(const mrd_file_marks *before, const mrd_file_marks *after)
{
    uint64_t end = FIRST;

    if (before->size == 0 || after->size < before->size ||
        (after->size == before->size && after->end != before->end))
        return false;
    for (unsigned i = 0; i < MRD_FILE_MARKS && end <= before->size; i++, end *= 2)
        if (before->at[i] != after->at[i])
            return false;
    return true;
}
