#include "trace/table/outdir.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/obj.h"

#define TAR_BLOCK 512u

struct mrd_outdir {
    char *dir;           /* NULL for an archive */
    mrd_out *tar;        /* borrowed */
    mrd_strlist written; /* files of this run, which are removed on failure */
};

struct mrd_outdir_file {
    mrd_outdir *of;
    mrd_out *seen,
        *file; /* the writer's output: hashes and passes bytes to `file`, or to `spool` */
    FILE *spool;
    char *path; /* in the directory */
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
mrd_outdir_dir(const char *dir, const char *const *stale, mrd_outdir **ret_folder, mrd_why *why)
{
    mrd_outdir *f;
    mrd_buf pattern = { 0 };
    mrd_err err = folder_new(&f, why);

    if (err != MRD_OK)
        return err;
    if ((f->dir = mrd_str_dup(mrd_str_of(dir))) == NULL) {
        free(f);
        return mrd_why_set(why, MRD_NOMEM, 0, "folder");
    }
    /* First removes the manifest, which announces the other files. */
    mrd_buf_fmt(&pattern, "%s/" MRD_OUTDIR_MANIFEST, dir);
    if (unlink(mrd_buf_cstr(&pattern)) != 0 && errno != ENOENT && errno != ENOTDIR)
        err = mrd_why_set(why, MRD_IO, errno, "cannot replace %s", mrd_buf_cstr(&pattern));
    for (; err == MRD_OK && *stale != NULL; stale++) {
        glob_t found;

        mrd_buf_reset(&pattern);
        /* escapes pattern characters in the directory's name */
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
        free(f->dir);
        free(f);
        return err;
    }
    *ret_folder = f;
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
    mrd_outdir_file *f = self;

    mrd_sha256_add(f->sha, data, len);
    f->size += len;
    if (f->spool != NULL)
        return fwrite(data, 1, len, f->spool) == len;
    mrd_out_add(f->file, data, len);
    return mrd_out_err(f->file) == MRD_OK;
}

/* Opens a file without a name. */
static FILE *
spool_open(mrd_why *why)
{
    const char *dir = getenv("TMPDIR");
    char *name = NULL;
    FILE *f = NULL;
    int fd = -1;

    if (asprintf(&name, "%s/meridian-XXXXXX", dir != NULL && *dir != '\0' ? dir : "/var/tmp") >= 0)
        fd = mkostemp(name, 02000000 /* O_CLOEXEC */);
    if (fd >= 0) {
        (void) unlink(name);
        f = fdopen(fd, "w+b");
        if (f == NULL)
            close(fd);
    }
    if (f == NULL)
        mrd_why_set(why, MRD_IO, errno, "cannot make a temporary file as %s", name);
    free(name);
    return f;
}

void
mrd_outdir_drop(mrd_outdir_file *f)
{
    if (f == NULL)
        return;
    mrd_out_abort(f->seen);
    mrd_out_abort(f->file);
    if (f->spool != NULL)
        fclose(f->spool);
    mrd_sha256_free(f->sha);
    free(f->path);
    free(f);
}

mrd_out *
mrd_outdir_out(const mrd_outdir_file *file)
{
    return file->seen;
}

mrd_err
mrd_outdir_open(mrd_outdir *of, const char *path, mrd_outdir_file **ret_file, mrd_why *why)
{
    mrd_outdir_file *f = calloc(1, sizeof(*f));
    char *whole = NULL;
    mrd_err err = MRD_OK;

    if (f != NULL) {
        f->of = of;
        f->sha = mrd_sha256_new();
        f->path = mrd_str_dup(mrd_str_of(path));
    }
    if (f == NULL || f->sha == NULL || f->path == NULL ||
        (of->dir != NULL && asprintf(&whole, "%s/%s", of->dir, path) < 0))
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    if (err == MRD_OK && of->dir != NULL)
        err = mrd_out_file(whole, &f->file, why);
    if (err == MRD_OK && of->dir == NULL && (f->spool = spool_open(why)) == NULL)
        err = MRD_IO;
    if (err == MRD_OK)
        err = mrd_out_func(pass_on, f, f->path, &f->seen, why);
    if (err == MRD_OK && of->dir != NULL &&
        mrd_strlist_add(&of->written, mrd_str_of(whole)) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    free(whole);
    if (err == MRD_OK)
        *ret_file = f;
    else
        mrd_outdir_drop(f);
    return err;
}

/* ---- tar: ustar, with larger sizes in base 256 like GNU tar ---- */

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
tar_head(mrd_outdir_file *f, mrd_why *why)
{
    char head[TAR_BLOCK] = { 0 };
    size_t len = strlen(f->path), cut = 0;
    unsigned sum = 0;

    while (len - cut > 100) { /* prefix that ends at a slash */
        const char *slash = strchr(f->path + cut, '/');

        if (slash == NULL || slash - f->path > 155)
            return mrd_why_set(why, MRD_LIMIT, 0, "the name %s is too long for an archive",
                               f->path);
        cut = (size_t) (slash - f->path) + 1;
    }
    memcpy(head, f->path + cut, len - cut);
    if (cut > 0)
        memcpy(head + 345, f->path, cut - 1);
    octal(head + 100, 8, 0644);
    octal(head + 108, 8, 0);
    octal(head + 116, 8, 0);
    tar_size(head + 124, f->size);
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
    mrd_out_add(f->of->tar, head, sizeof(head));
    return MRD_OK;
}

static mrd_err
tar_add(mrd_outdir_file *f, mrd_why *why)
{
    static const char zeros[TAR_BLOCK];
    char chunk[65536];
    uint64_t left = f->size;
    mrd_err err = tar_head(f, why);

    if (err == MRD_OK && (fflush(f->spool) != 0 || fseek(f->spool, 0, SEEK_SET) != 0))
        err = mrd_why_set(why, MRD_IO, errno, "the temporary file of %s", f->path);
    while (err == MRD_OK && left > 0) {
        size_t want = left < sizeof(chunk) ? (size_t) left : sizeof(chunk);

        if (fread(chunk, 1, want, f->spool) != want)
            err = mrd_why_set(why, MRD_IO, errno, "the temporary file of %s", f->path);
        else
            mrd_out_add(f->of->tar, chunk, want);
        left -= want;
    }
    if (err == MRD_OK && f->size % TAR_BLOCK != 0)
        mrd_out_add(f->of->tar, zeros, TAR_BLOCK - f->size % TAR_BLOCK);
    return err;
}

mrd_err
mrd_outdir_done(mrd_outdir_file *f, char hex[MRD_SHA256_HEX], uint64_t *ret_size, mrd_why *why)
{
    mrd_err err = mrd_out_commit(f->seen, why);

    f->seen = NULL;
    if (f->file != NULL && (err == MRD_OK || mrd_out_err(f->file) != MRD_OK)) {
        err = mrd_out_commit(f->file, why); /* after a failure: only to get its reason */
        f->file = NULL;
    } else if (err == MRD_OK) {
        err = tar_add(f, why);
    }
    if (err == MRD_OK) {
        mrd_sha256_hex(f->sha, hex);
        *ret_size = f->size;
    }
    mrd_outdir_drop(f);
    return err;
}

void
mrd_outdir_close(mrd_outdir *f, bool whole)
{
    static const char zeros[2 * TAR_BLOCK];

    if (f == NULL)
        return;
    for (size_t i = 0; i < f->written.n && !whole; i++)
        (void) unlink(f->written.v[i]);
    if (f->tar != NULL && whole)
        mrd_out_add(f->tar, zeros, sizeof(zeros));
    mrd_strlist_fini(&f->written);
    free(f->dir);
    free(f);
}
