/* The temporary file of a store. A sorted run is stored in it as a chain of extents (parts of the
 * file). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/vec.h"
#include "trace/store/stream_int.h"

/* ---- The temporary file ---- */

mrd_err
mrd_store_open_file(mrd_store *st, mrd_why *why)
{
    char path[4096];

    if (st->out == NULL && (st->out = malloc(MRD_STORE_WRITE)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "a write buffer");
    if (st->fd >= 0)
        return MRD_OK;
    st->fd = open(st->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (st->fd >= 0)
        return MRD_OK;
    snprintf(path, sizeof(path), "%s/meridian-sort-XXXXXX", st->dir);
    st->fd = mkostemp(path, O_CLOEXEC);
    if (st->fd < 0)
        return mrd_why_set(why, MRD_IO, errno,
                           "cannot create a temporary file in %s (set TMPDIR to another folder)",
                           st->dir);
    unlink(path);
    return MRD_OK;
}

static mrd_err
store_write(mrd_store *st, const uint8_t *bytes, size_t len, mrd_why *why)
{
    while (len > 0) {
        ssize_t n = pwrite(st->fd, bytes, len, (off_t) st->file_len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
            return mrd_why_set(why, MRD_FULL, errno,
                               "cannot sort: no room for %zu more bytes beside %llu in %s "
                               "(set TMPDIR to a larger folder)",
                               len, (unsigned long long) st->file_len, st->dir);
        if (n <= 0)
            return mrd_why_set(why, MRD_IO, n == 0 ? EIO : errno,
                               "cannot write sorted events to a temporary file in %s", st->dir);
        bytes += n;
        len -= (size_t) n;
        st->file_len += (uint64_t) n;
    }
    return MRD_OK;
}

mrd_err
mrd_store_flush(mrd_store *st, mrd_why *why)
{
    mrd_err err = store_write(st, st->out, st->out_len, why);

    st->out_len = 0;
    return err;
}

mrd_err
mrd_store_put(mrd_store *st, const void *rec, size_t len, mrd_why *why)
{
    mrd_err err;

    if (len > MRD_STORE_WRITE - st->out_len && (err = mrd_store_flush(st, why)) != MRD_OK)
        return err;
    if (len > MRD_STORE_WRITE)
        return store_write(st, rec, len, why);
    memcpy(st->out + st->out_len, rec, len);
    st->out_len += len;
    return MRD_OK;
}

/* ---- Chains ---- */

void
mrd_chain_fini(mrd_chain *chain)
{
    free(chain->v);
    *chain = (mrd_chain){ 0 };
}

bool
mrd_chain_append(mrd_chain *chain, mrd_extent extent)
{
    if (chain->n > 0 && chain->v[chain->n - 1].at + chain->v[chain->n - 1].len == extent.at) {
        chain->v[chain->n - 1].len += extent.len;
        return true;
    }
    if (!MRD_VEC_ROOM(chain->v, chain->n, chain->cap, 1))
        return false;
    chain->v[chain->n++] = extent;
    return true;
}

/* Returns the chain to which a run that begins with this record can be appended. Only the newest
 * chains are tried, and the one that ends closest before the record is chosen. If none fits, adds a
 * chain. NULL if out of memory. */
mrd_chain *
mrd_stream_chain_for(mrd_stream *stream, const mrd_rec *first)
{
    mrd_chain *best = NULL;

    for (size_t i = stream->n_chains, tries = 8; i-- > 0 && tries-- > 0;) {
        mrd_chain *chain = &stream->chains[i];

        if (mrd_rec_order(&chain->last, first) < 0 &&
            (best == NULL || mrd_rec_order(&best->last, &chain->last) < 0))
            best = chain;
    }
    if (best != NULL)
        return best;
    if (!MRD_VEC_ROOM(stream->chains, stream->n_chains, stream->cap_chains, 1))
        return NULL;
    stream->chains[stream->n_chains] = (mrd_chain){ 0 };
    return &stream->chains[stream->n_chains++];
}

/* Frees the disk space of a chain after its contents were merged into another one. Needs support by
 * the file system. */
void
mrd_chain_release(mrd_chain *chain, int fd)
{
    for (size_t i = 0; i < chain->n; i++)
        (void) !fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) chain->v[i].at,
                          (off_t) chain->v[i].len);
    mrd_chain_fini(chain);
}
