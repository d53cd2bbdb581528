#include "base/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define CHUNK 4096u

/* Reads up to n bytes. Returns their number, 0 at the end of the file, or -1 with errno. */
static ssize_t
read_some(int fd, void *to, size_t n)
{
    ssize_t got;

    do
        got = read(fd, to, n);
    while (got < 0 && errno == EINTR);
    return got;
}

mrd_err
mrd_file_read_fd(int fd, size_t max, mrd_buf *to)
{
    size_t left = max;

    for (;;) {
        /* read up to one byte more than the limit, to see whether the file is larger */
        size_t want = left < CHUNK ? left + 1 : CHUNK;
        ssize_t got;

        if (!mrd_buf_room(to, want))
            return MRD_NOMEM;
        want = to->cap - to->len;
        want = want > left ? left + 1 : want;
        if ((got = read_some(fd, to->p + to->len, want)) <= 0)
            return got < 0 ? MRD_IO : MRD_OK;
        if ((size_t) got > left) {
            to->len += left;
            return MRD_LIMIT;
        }
        to->len += (size_t) got;
        left -= (size_t) got;
    }
}

mrd_err
mrd_file_read(const char *path, size_t max, mrd_buf *to, mrd_why *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), saved;
    mrd_err err;

    if (fd < 0)
        return mrd_why_set(why,
                           errno == ENOENT   ? MRD_NOTFOUND
                           : errno == EACCES ? MRD_DENIED
                                             : MRD_IO,
                           errno, "%s", path);
    err = mrd_file_read_fd(fd, max, to);
    saved = err == MRD_IO ? errno : 0;
    close(fd);
    if (err == MRD_LIMIT)
        return mrd_why_set(why, err, 0, "%s is larger than %zu bytes", path, max);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, saved, "%s", path);
}

bool
mrd_file_line(const char *path, char *line, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got = 1;

    while (fd >= 0 && got > 0 && n < size - 1 && memchr(line, '\n', n) == NULL) {
        if ((got = read_some(fd, line + n, size - 1 - n)) > 0)
            n += (size_t) got;
    }
    if (fd >= 0)
        close(fd);
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return n > 0;
}

const struct dirent *
mrd_dir_next(DIR *dir, int *ret_errno)
{
    const struct dirent *entry;

    errno = 0;
    entry = readdir(dir);
    *ret_errno = entry == NULL ? errno : 0;
    return entry;
}
