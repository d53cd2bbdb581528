#include "trace/json/spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool
spool_open_file(mrd_jw_spool *spool)
{
    const char *dir = getenv("TMPDIR");
    char path[512];
    int len = snprintf(path, sizeof(path), "%s/meridian-XXXXXX",
                       dir == NULL || *dir == '\0' ? "/tmp" : dir);

    if (len < 0 || (size_t) len >= sizeof(path)) {
        mrd_why_set(&spool->why, MRD_IO, ENAMETOOLONG, "temporary file in TMPDIR");
        return false;
    }
    if ((spool->fd = mkstemp(path)) < 0) {
        mrd_why_set(&spool->why, MRD_IO, errno, "cannot create temporary file %s", path);
        return false;
    }
    unlink(path);
    return true;
}

static bool
spool_write(mrd_jw_spool *spool, const uint8_t *bytes, size_t len)
{
    if (spool->file_bytes == 0 && !spool_open_file(spool))
        return false;
    while (len > 0) {
        ssize_t n = write(spool->fd, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            mrd_why_set(&spool->why, errno == ENOSPC ? MRD_FULL : MRD_IO, errno,
                        "cannot write temporary file");
            return false;
        }
        spool->file_bytes += (uint64_t) n;
        bytes += n;
        len -= (size_t) n;
    }
    return true;
}

static bool
spool_push(void *self, const void *data, size_t len)
{
    mrd_jw_spool *spool = self;

    if (len == 0)
        return true;
    if (spool->file_bytes > 0 || spool->head.len + len > MRD_SPOOL_MEMORY)
        return spool->why.err == MRD_OK && spool_write(spool, data, len);
    mrd_buf_add(&spool->head, data, len);
    if (spool->head.err != MRD_OK)
        mrd_why_set(&spool->why, MRD_NOMEM, 0, "part of a document");
    return spool->head.err == MRD_OK;
}

mrd_jw *
mrd_jw_spool_writer(mrd_jw_spool *spool, const mrd_strtab *strings, bool pretty, unsigned depth)
{
    if (spool->out == NULL) {
        if (mrd_out_func(spool_push, spool, "part of a document", &spool->out, &spool->why) !=
            MRD_OK)
            return NULL;
        mrd_jw_init(&spool->w, spool->out, strings, pretty);
        mrd_jw_inside(&spool->w, depth);
    }
    spool->elements++;
    return &spool->w;
}

static mrd_err
spool_copy_file(mrd_jw_spool *spool, mrd_jw *to, mrd_why *why)
{
    char chunk[64 << 10];
    uint64_t at = 0;

    while (at < spool->file_bytes) {
        ssize_t n = pread(spool->fd, chunk, sizeof(chunk), (off_t) at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return mrd_why_set(why, MRD_IO, n == 0 ? EIO : errno, "cannot read temporary file");
        mrd_jw_members(to, (mrd_str){ chunk, (size_t) n });
        at += (uint64_t) n;
    }
    return MRD_OK;
}

mrd_err
mrd_jw_spool_drain(mrd_jw_spool *spool, mrd_jw *to, mrd_why *why)
{
    mrd_err err = MRD_OK;
    size_t skip = 1; /* skips the comma before the first element */

    if (spool->out == NULL)
        return MRD_OK;
    mrd_jw_fini(&spool->w);
    if (mrd_out_commit(spool->out, NULL) != MRD_OK || spool->why.err != MRD_OK) {
        err = spool->why.err != MRD_OK ? spool->why.err : MRD_IO;
        if (why != NULL)
            *why = spool->why;
    }
    spool->out = NULL;
    if (err == MRD_OK && spool->head.len > 0) {
        mrd_jw_members(to,
                       (mrd_str){ (const char *) spool->head.p + skip, spool->head.len - skip });
        skip = 0;
    }
    if (err == MRD_OK && spool->file_bytes > 0 && skip > 0)
        err = mrd_why_set(why, MRD_CORRUPT, 0, "temporary file without a beginning");
    if (err == MRD_OK && spool->file_bytes > 0)
        err = spool_copy_file(spool, to, why);
    mrd_jw_spool_fini(spool);
    return err;
}

void
mrd_jw_spool_fini(mrd_jw_spool *spool)
{
    if (spool->out != NULL) {
        mrd_jw_fini(&spool->w);
        mrd_out_abort(spool->out);
    }
    if (spool->file_bytes > 0)
        close(spool->fd);
    mrd_buf_fini(&spool->head);
    *spool = (mrd_jw_spool){ 0 };
}
