#include "base/sys/secret.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/sys/file.h"

#define SECRET_MAX 65536

/* Returns true if `path` looks like a secret itself. A user may have given it instead of the path
 * of its file. */
static bool
looks_like_secret(const char *path)
{
    size_t n = strlen(path);

    return n >= 24 && strspn(path, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "+_=-") == n;
}

mrd_err
mrd_secret_check(const char *what, const char *path, mrd_why *why)
{
    struct stat st;

    if (stat(path, &st) != 0 && looks_like_secret(path))
        return mrd_why_set(why, MRD_NOTFOUND, 0,
                           "expected the name of a %s, not its content: every user of this machine "
                           "can read a command line",
                           what);
    if (stat(path, &st) != 0)
        return mrd_why_set(why, errno == EACCES ? MRD_DENIED : MRD_NOTFOUND, errno, "%s %s", what,
                           path);
    if ((st.st_mode & 037) != 0)
        return mrd_why_set(why, MRD_DENIED, 0,
                           "%s %s may be read by everybody, or written by its group: chmod 600 it",
                           what, path);
    return MRD_OK;
}

mrd_err
mrd_secret_read(const char *what, const char *path, char **ret_text, mrd_why *why)
{
    mrd_err err = mrd_secret_check(what, path, why);
    mrd_buf buf = { 0 };

    if (err != MRD_OK)
        return err;
    /* Allocate the full size now, because a buffer that grows leaves copies that are not wiped. */
    if (!mrd_buf_room(&buf, SECRET_MAX + 2))
        return mrd_why_set(why, MRD_NOMEM, 0, "%s %s", what, path);
    if ((err = mrd_file_read(path, SECRET_MAX, &buf, why)) != MRD_OK)
        (void) mrd_why_prefix(why, err, "%s", what);
    while (buf.len > 0 && strchr("\n\r ", buf.p[buf.len - 1]) != NULL && buf.p[buf.len - 1] != '\0')
        buf.len--;
    if (err == MRD_OK && buf.len == 0)
        err = mrd_why_set(why, MRD_EMPTY, 0, "%s %s is empty", what, path);
    if (err == MRD_OK && strlen(mrd_buf_cstr(&buf)) != buf.len)
        err = mrd_why_set(why, MRD_SYNTAX, 0, "%s %s holds a NUL byte", what, path);
    if (err == MRD_OK) {
        *ret_text = (char *) buf.p;
        return MRD_OK;
    }
    if (buf.p != NULL)
        explicit_bzero(buf.p, buf.cap);
    mrd_buf_fini(&buf);
    return err;
}

void
mrd_secret_free(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

bool
mrd_secret_equal(const void *a, const void *b, size_t len)
{
    /* volatile, so that the compiler does not end the loop at the first difference, which would
     * reveal its position */
    const volatile unsigned char *x = a, *y = b;
    unsigned char diff = 0;

    for (size_t i = 0; i < len; i++)
        diff |= (unsigned char) (x[i] ^ y[i]);
    return diff == 0;
}

uint64_t
mrd_files_stamp(const char *const *paths, size_t n)
{
    uint64_t stamp = 0;

    for (size_t i = 0; i < n; i++) {
        struct stat st;
        int64_t seen[7] = { 0 };

        if (paths[i] != NULL && stat(paths[i], &st) == 0) {
            seen[0] = (int64_t) st.st_ino;
            seen[1] = (int64_t) st.st_size;
            seen[2] = st.st_mtim.tv_sec;
            seen[3] = st.st_mtim.tv_nsec;
            seen[4] = (int64_t) st.st_mode;
            seen[5] = (int64_t) st.st_uid;
            seen[6] = (int64_t) st.st_gid;
        }
        stamp = mrd_hash64(seen, sizeof(seen), stamp + i);
    }
    return stamp;
}

void
mrd_secret_process(void)
{
    struct rlimit none = { 0, 0 };

    (void) setrlimit(RLIMIT_CORE, &none);
    (void) prctl(PR_SET_DUMPABLE, 0);
}
