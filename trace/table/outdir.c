#include "trace/table/outdir.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/obj.h"

#define TAR_BLOCK 512u

struct mrd_outdir {
    char *dir;    /* path of the directory; NULL for an archive */
    mrd_out *tar; /* output of the archive, borrowed; NULL for a directory */
    /* The output of the manifest, borrowed. The files are as durable (fsync) as this output. */
    mrd_out *like;
    /* paths of the files that were written, so that they can be removed after a failure */
    mrd_strlist written;
};

struct mrd_outdir_file {
    mrd_outdir *of;
    /* The caller writes to `seen`. `seen` computes the hash of the bytes, and passes them to `file`
     * (in a directory) or `spool` (for an archive). */
    mrd_out *seen, *file;
    FILE *spool;
    char *path; /* path of the file in the directory */
    mrd_sha256 *sha;
    uint64_t size;
};

static mrd_err
folder_new(mrd_outdir **ret_folder, mrd_why *why)
{
    *ret_folder = calloc(1, sizeof(**ret_folder));
    return *ret_folder != NULL ? MRD_OK : mrd_why_set(why, MRD_NOMEM, 0, "folder");
}

mrd_err
mrd_outdir_dir(mrd_out *like, const char *dir, const char *const *stale, mrd_outdir **ret_folder,
               mrd_why *why)
{
    mrd_outdir *outdir;
    mrd_buf pattern = { 0 };
    mrd_err err = folder_new(&outdir, why);

    if (err != MRD_OK)
        return err;
    outdir->like = like;
    if ((outdir->dir = mrd_str_dup(mrd_str_of(dir))) == NULL) {
        free(outdir);
        return mrd_why_set(why, MRD_NOMEM, 0, "folder");
    }
    /* Remove the manifest first, so that it never lists missing files. */
    mrd_buf_fmt(&pattern, "%s/" MRD_OUTDIR_MANIFEST, dir);
    if (unlink(mrd_buf_cstr(&pattern)) != 0 && errno != ENOENT && errno != ENOTDIR)
        err = mrd_why_set(why, MRD_IO, errno, "cannot replace %s", mrd_buf_cstr(&pattern));
    for (; err == MRD_OK && *stale != NULL; stale++) {
        glob_t found;

        mrd_buf_reset(&pattern);
        /* escapes the characters * ? [ and \ in the directory's name */
        for (const char *p = dir; *p != '\0'; p++) {
            if (strchr("*?[\\", *p) != NULL)
                mrd_buf_byte(&pattern, '\\');
            mrd_buf_byte(&pattern, (uint8_t) *p);
        }
        mrd_buf_fmt(&pattern, "/%s", *stale);
        if (glob(mrd_buf_cstr(&pattern), 0, NULL, &found) != 0)
            continue;
        for (size_t i = 0; i < found.gl_pathc && err == MRD_OK; i++) {
            if (unlink(found.gl_pathv[i]) != 0 && errno != ENOENT)
                err = mrd_why_set(why, MRD_IO, errno, "cannot replace %s", found.gl_pathv[i]);
        }
        globfree(&found);
    }
    mrd_buf_fini(&pattern);
    if (err != MRD_OK) {
        free(outdir->dir);
        free(outdir);
        return err;
    }
    *ret_folder = outdir;
    return MRD_OK;
}

mrd_err
mrd_outdir_tar(mrd_out *to, mrd_outdir **ret_folder, mrd_why *why)
{
    mrd_err err = folder_new(ret_folder, why);

    if (err == MRD_OK)
        (*ret_folder)->tar = to;
    return err;
}

static bool
pass_on(void *self, const void *data, size_t len)
{
    mrd_outdir_file *file = self;

    mrd_sha256_add(file->sha, data, len);
    file->size += len;
    if (file->spool != NULL)
        return fwrite(data, 1, len, file->spool) == len;
    mrd_out_add(file->file, data, len);
    return mrd_out_err(file->file) == MRD_OK;
}

/* Opens a temporary file without a name, which disappears when it is closed. */
static FILE *
spool_open(mrd_why *why)
{
    const char *dir = getenv("TMPDIR");
    char *name = NULL;
    FILE *file = NULL;
    int fd = -1;

    if (asprintf(&name, "%s/meridian-XXXXXX", dir != NULL && *dir != '\0' ? dir : "/var/tmp") >= 0)
        fd = mkostemp(name, 02000000 /* O_CLOEXEC */);
    if (fd >= 0) {
        (void) unlink(name);
        file = fdopen(fd, "w+b");
        if (file == NULL)
            close(fd);
    }
    if (file == NULL)
        mrd_why_set(why, MRD_IO, errno, "cannot make a temporary file as %s", name);
    free(name);
    return file;
}

void
mrd_outdir_drop(mrd_outdir_file *file)
{
    if (file == NULL)
        return;
    mrd_out_abort(file->seen);
    mrd_out_abort(file->file);
    if (file->spool != NULL)
        fclose(file->spool);
    mrd_sha256_free(file->sha);
    free(file->path);
    free(file);
}

mrd_out *
mrd_outdir_out(const mrd_outdir_file *file)
{
    return file->seen;
}

mrd_err
mrd_outdir_open(mrd_outdir *of, const char *path, mrd_outdir_file **ret_file, mrd_why *why)
{
    mrd_outdir_file *file = calloc(1, sizeof(*file));
    char *whole = NULL;
    mrd_err err = MRD_OK;

    if (file != NULL) {
        file->of = of;
        file->sha = mrd_sha256_new();
        file->path = mrd_str_dup(mrd_str_of(path));
    }
    if (file == NULL || file->sha == NULL || file->path == NULL ||
        (of->dir != NULL && asprintf(&whole, "%s/%s", of->dir, path) < 0))
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    if (err == MRD_OK && of->dir != NULL)
        err = mrd_out_file_like(of->like, whole, &file->file, why);
    if (err == MRD_OK && of->dir == NULL && (file->spool = spool_open(why)) == NULL)
        err = MRD_IO;
    if (err == MRD_OK)
        err = mrd_out_func(pass_on, file, file->path, &file->seen, why);
    if (err == MRD_OK && of->dir != NULL &&
        mrd_strlist_add(&of->written, mrd_str_of(whole)) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    free(whole);
    if (err == MRD_OK)
        *ret_file = file;
    else
        mrd_outdir_drop(file);
    return err;
}

/* ---- Writing tar: ustar, with large sizes in base 256 like GNU tar ---- */

static void
octal(char *to, size_t width, uint64_t v)
{
    for (size_t i = width - 1; i-- > 0; v >>= 3)
        to[i] = (char) ('0' + (v & 7));
}

static void
tar_size(char to[12], uint64_t size)
{
    if (size >> 33 == 0) {
        octal(to, 12, size);
        return;
    }
    to[0] = (char) 0x80;
    for (size_t i = 11; i > 0; i--, size >>= 8)
        to[i] = (char) (size & 0xff);
}

static mrd_err
tar_head(mrd_outdir_file *file, mrd_why *why)
{
    char head[TAR_BLOCK] = { 0 };
    size_t len = strlen(file->path), cut = 0;
    unsigned sum = 0;

    /* A tar header splits the path between the fields prefix and name. The name field takes at most
     * 100 bytes, so leading directories go into the prefix. */
    while (len - cut > 100) {
        const char *slash = strchr(file->path + cut, '/');

        if (slash == NULL || slash - file->path > 155)
            return mrd_why_set(why, MRD_LIMIT, 0, "the name %s is too long for an archive",
                               file->path);
        cut = (size_t) (slash - file->path) + 1;
    }
    memcpy(head, file->path + cut, len - cut);
    if (cut > 0)
        memcpy(head + 345, file->path, cut - 1);
    octal(head + 100, 8, 0644);
    octal(head + 108, 8, 0);
    octal(head + 116, 8, 0);
    tar_size(head + 124, file->size);
    octal(head + 136, 12, 0);
    memset(head + 148, ' ', 8);
    head[156] = '0';
    memcpy(head + 257,
           "ustar\0"
           "00",
           8);
    for (size_t i = 0; i < sizeof(head); i++)
        sum += (unsigned char) head[i];
    octal(head + 148, 7, sum);
    mrd_out_add(file->of->tar, head, sizeof(head));
    return MRD_OK;
}

static mrd_err
tar_add(mrd_outdir_file *file, mrd_why *why)
{
    static const char zeros[TAR_BLOCK];
    char chunk[65536];
    uint64_t left = file->size;
    mrd_err err = tar_head(file, why);

    if (err == MRD_OK && (fflush(file->spool) != 0 || fseek(file->spool, 0, SEEK_SET) != 0))
        err = mrd_why_set(why, MRD_IO, errno, "the temporary file of %s", file->path);
    while (err == MRD_OK && left > 0) {
        size_t want = left < sizeof(chunk) ? (size_t) left : sizeof(chunk);

        if (fread(chunk, 1, want, file->spool) != want)
            err = mrd_why_set(why, MRD_IO, errno, "the temporary file of %s", file->path);
        else
            mrd_out_add(file->of->tar, chunk, want);
        left -= want;
    }
    if (err == MRD_OK && file->size % TAR_BLOCK != 0)
        mrd_out_add(file->of->tar, zeros, TAR_BLOCK - file->size % TAR_BLOCK);
    return err;
}

mrd_err
mrd_outdir_done(mrd_outdir_file *file, char hex[MRD_SHA256_HEX], uint64_t *ret_size, mrd_why *why)
{
    mrd_err err = mrd_out_commit(file->seen, why);

    file->seen = NULL;
    if (file->file != NULL && (err == MRD_OK || mrd_out_err(file->file) != MRD_OK)) {
        /* after a failure of the output, committing only returns the reason */
        err = mrd_out_commit(file->file, why);
        file->file = NULL;
    } else if (err == MRD_OK) {
        err = tar_add(file, why);
    }
    if (err == MRD_OK) {
        mrd_sha256_hex(file->sha, hex);
        *ret_size = file->size;
    }
    mrd_outdir_drop(file);
    return err;
}

void
mrd_outdir_close(mrd_outdir *outdir, bool whole)
{
    static const char zeros[2 * TAR_BLOCK];

    if (outdir == NULL)
        return;
    if (outdir->dir != NULL && whole) { /* without a manifest, no file may stay */
        mrd_out_seal(outdir->like);
        whole = mrd_out_err(outdir->like) == MRD_OK;
    }
    for (size_t i = 0; i < outdir->written.n && !whole; i++)
        (void) unlink(outdir->written.v[i]);
    if (outdir->tar != NULL && whole)
        mrd_out_add(outdir->tar, zeros, sizeof(zeros));
    mrd_strlist_fini(&outdir->written);
    free(outdir->dir);
    free(outdir);
}
