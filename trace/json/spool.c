#include "trace/json/spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool
spool_open_file(mrd_jw_spool *s)
{
    const char *dir = getenv("TMPDIR");
    char path[512];
    int len = snprintf(path, sizeof(path), "%s/meridian-XXXXXX",
                       dir == NULL || *dir == '\0' ? "/tmp" : dir);

    if (len < 0 || (size_t) len >= sizeof(path)) {
        mrd_why_set(&s->why, MRD_IO, ENAMETOOLONG, "temporary file in TMPDIR");
        return false;
    }
    if ((s->fd = mkstemp(path)) < 0) {
        mrd_why_set(&s->why, MRD_IO, errno, "cannot create temporary file %s", path);
        return false;
    }
    unlink(path);
    return true;
}

static bool
spool_write(mrd_jw_spool *s, const uint8_t *p, size_t len)
{
    if (s->file_bytes == 0 && !spool_open_file(s))
        return false;
    while (len > 0) {
        ssize_t n = write(s->fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            mrd_why_set(&s->why, errno == ENOSPC ? MRD_FULL : MRD_IO, errno,
                        "cannot write temporary file");
            return false;
        }
        s->file_bytes += (uint64_t) n;
        p += n;
        len -= (size_t) n;
    }
    return true;
}

static bool
spool_push(void *self, const void *data, size_t len)
{
    mrd_jw_spool *s = self;

    if (len == 0)
        return true;
    if (s->file_bytes > 0 || s->head.len + len > MRD_SPOOL_MEMORY)
        return s->why.err == MRD_OK && spool_write(s, data, len);
    mrd_buf_add(&s->head, data, len);
    if (s->head.err != MRD_OK)
        mrd_why_set(&s->why, MRD_NOMEM, 0, "part of a document");
    return s->head.err == MRD_OK;
}

mrd_jw *
mrd_jw_spool_writer(mrd_jw_spool *s, const mrd_strtab *strings, bool pretty, unsigned depth)
{
    if (s->out == NULL) {
        if (mrd_out_func(spool_push, s, "part of a document", &s->out, &s->why) != MRD_OK)
            return NULL;
        mrd_jw_init(&s->w, s->out, strings, pretty);
        mrd_jw_inside(&s->w, depth);
    }
    s->elements++;
    return &s->w;
}

static mrd_err
spool_copy_file(mrd_jw_spool *s, mrd_jw *to, mrd_why *why)
{
    char chunk[64 << 10];
    uint64_t at = 0;

    while (at < s->file_bytes) {
        ssize_t n = pread(s->fd, chunk, sizeof(chunk), (off_t) at);

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
mrd_jw_spool_drain(mrd_jw_spool *s, mrd_jw *to, mrd_why *why)
{
    mrd_err err = MRD_OK;
    size_t skip = 1; /* without the comma before the first element */

    if (s->out == NULL)
        return MRD_OK;
    mrd_jw_fini(&s->w);
    if (mrd_out_commit(s->out, NULL) != MRD_OK || s->why.err != MRD_OK) {
        err = s->why.err != MRD_OK ? s->why.err : MRD_IO;
        if (why != NULL)
            *why = s->why;
    }
    s->out = NULL;
    if (err == MRD_OK && s->head.len > 0) {
        mrd_jw_members(to, (mrd_str){ (const char *) s->head.p + skip, s->head.len - skip });
        skip = 0;
    }
    if (err == MRD_OK && s->file_bytes > 0 && skip > 0)
        err = mrd_why_set(why, MRD_CORRUPT, 0, "temporary file without a beginning");
    if (err == MRD_OK && s->file_bytes > 0)
        err = spool_copy_file(s, to, why);
    mrd_jw_spool_fini(s);
    return err;
}

void
mrd_jw_spool_fini(mrd_jw_spool *s)
{
    if (s->out != NULL) {
        mrd_jw_fini(&s->w);
        mrd_out_abort(s->out);
    }
    if (s->file_bytes > 0)
        close(s->fd);
    mrd_buf_fini(&s->head);
    *s = (mrd_jw_spool){ 0 };
}
