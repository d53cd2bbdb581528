#include "cli/client/untar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/conf/json.h"
#include "base/obj.h"

enum { BLOCK = 512 };

typedef struct {
    const char *archive, *dir, *last;
    FILE *f;
    uint64_t at;
    mrd_out *kept; /* the file named `last`, which gets its final name after all other files */
} untar;

static mrd_err
bad(const untar *u, mrd_err err, const char *what, mrd_why *why)
{
    return mrd_why_set(why, err, 0, "%s, byte %" PRIu64 ": %s; fetch it again", u->archive, u->at,
                       what);
}

static mrd_err
take(untar *u, void *to, size_t len, mrd_why *why)
{
    if (fread(to, 1, len, u->f) != len)
        return ferror(u->f) ? mrd_why_set(why, MRD_IO, errno, "cannot read %s", u->archive)
                            : bad(u, MRD_TRUNCATED, "the archive ends inside a file", why);
    u->at += len;
    return MRD_OK;
}

static bool
number(const uint8_t *bytes, size_t n, uint64_t *ret_v)
{
    uint64_t value = 0;

    if (bytes[0] == 0x80) { /* the number is in base 256 instead of octal digits */
        for (size_t i = 1; i < n; i++) {
            if (value >> 55 != 0)
                return false;
            value = value << 8 | bytes[i];
        }
        *ret_v = value;
        return true;
    }
    for (size_t i = 0; i < n && bytes[i] != 0 && bytes[i] != ' '; i++) {
        if (bytes[i] < '0' || bytes[i] > '7')
            return false;
        value = value << 3 | (uint64_t) (bytes[i] - '0');
    }
    *ret_v = value;
    return true;
}

/* Returns true if each component of the path is a plain name: not empty, no dot at the beginning,
 * no control character or backslash. Such a path cannot lead outside of the directory. */
static bool
name_fine(const char *name)
{
    if (*name == '\0')
        return false;
    for (const char *p = name; *p != '\0';) {
        size_t n = strcspn(p, "/");

        if (n == 0 || *p == '.')
            return false;
        for (size_t i = 0; i < n; i++) {
            if ((unsigned char) p[i] < 0x20 || p[i] == '\\')
                return false;
        }
        p += n;
        if (*p == '/' && *++p == '\0')
            return false;
    }
    return true;
}

static mrd_err
take_file(untar *u, const char *name, uint64_t size, mrd_why *why)
{
    char chunk[65536], *path = NULL;
    mrd_out *out = NULL;
    uint64_t left = size;
    mrd_err err;

    if (asprintf(&path, "%s/%s", u->dir, name) < 0)
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", name);
    err = mrd_out_file(path, &out, why);
    while (err == MRD_OK && left > 0) {
        size_t n = left < sizeof(chunk) ? (size_t) left : sizeof(chunk);

        if ((err = take(u, chunk, n, why)) == MRD_OK)
            mrd_out_add(out, chunk, n);
        left -= n;
    }
    if (err == MRD_OK && size % BLOCK != 0)
        err = take(u, chunk, BLOCK - size % BLOCK, why);
    if (err != MRD_OK) {
        mrd_out_abort(out);
    } else if (strcmp(name, u->last) == 0 && u->kept == NULL) {
        u->kept = out;
    } else {
        err = mrd_out_commit(out, why);
    }
    free(path);
    return err;
}

static mrd_err
take_entry(untar *u, bool *ret_end, mrd_why *why)
{
    uint8_t head[BLOCK];
    char name[260];
    uint64_t size, sum, seen = 0;
    size_t n;
    mrd_err err = take(u, head, sizeof(head), why);

    if (err != MRD_OK)
        return err;
    *ret_end = head[0] == 0;
    if (*ret_end)
        return MRD_OK;
    for (size_t i = 0; i < sizeof(head); i++)
        seen += i >= 148 && i < 156 ? ' ' : head[i];
    if (!number(head + 148, 8, &sum) || sum != seen || !number(head + 124, 12, &size))
        return bad(u, MRD_CORRUPT, "this is no head of a file", why);
    n = strnlen((const char *) head + 345, 155);
    snprintf(name, sizeof(name), "%.*s%s%.*s", (int) n, (const char *) head + 345, n > 0 ? "/" : "",
             (int) strnlen((const char *) head, 100), (const char *) head);
    if (head[156] != '0' || !name_fine(name))
        return bad(u, MRD_CORRUPT, "an entry that is not a plain file of this folder", why);
    return take_file(u, name, size, why);
}

/* Removes the files of an earlier archive, which its manifest lists. Readers would otherwise read
 * them together with the new ones. */
static void
remove_listed(const untar *u)
{
    mrd_json *doc = NULL, *tables;
    char *path = NULL;

    if (asprintf(&path, "%s/%s", u->dir, u->last) < 0)
        return;
    if (mrd_json_load(path, &doc, NULL) == MRD_OK)
        (void) unlink(path);
    free(path);
    tables = doc == NULL ? NULL : mrd_json_get(doc, "tables");
    for (size_t i = 0; i < mrd_json_size(tables); i++) {
        mrd_json *parts = mrd_json_get(mrd_json_at(tables, i), "parts");

        for (size_t k = 0; k < mrd_json_size(parts); k++) {
            const char *name = mrd_json_str(mrd_json_at(parts, k), "path", "");

            if (!name_fine(name) || asprintf(&path, "%s/%s", u->dir, name) < 0)
                continue;
            (void) unlink(path);
            free(path);
        }
    }
    mrd_json_free(doc);
}

mrd_err
mrd_untar(const char *archive, const char *dir, const char *last, mrd_why *why)
{
    untar u = { .archive = archive, .dir = dir, .last = last, .f = fopen(archive, "rb") };
    bool end = false;
    mrd_err err = MRD_OK;

    if (u.f == NULL)
        return mrd_why_set(why, MRD_IO, errno, "cannot read %s", archive);
    remove_listed(&u);
    while (err == MRD_OK && !end)
        err = take_entry(&u, &end, why);
    fclose(u.f);
    if (err == MRD_OK && u.kept != NULL) {
        err = mrd_out_commit(u.kept, why);
        u.kept = NULL;
    } else if (err == MRD_OK) {
        err = bad(&u, MRD_TRUNCATED, "the list of the files is missing", why);
    }
    mrd_out_abort(u.kept);
    return err;
}
