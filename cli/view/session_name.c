#include "cli/view/session_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"

#define NAME_DIGITS  16 /* hexadecimal digits of the hash that become part of the name */
#define NAME_MAX_LEN 40
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static int
by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

mrd_err
mrd_session_name_check(const char *name, mrd_why *why)
{
    size_t len = name == NULL ? 0 : strspn(name, NAME_LETTERS);

    if (name == NULL || (len > 0 && len <= NAME_MAX_LEN && name[len] == '\0'))
        return MRD_OK;
    return mrd_why_set(why, MRD_INVALID, 0,
                       "--session-id '%s': use at most %d letters, digits, '.', '_' and '-'", name,
                       NAME_MAX_LEN);
}

/* Adds the texts to the hash, each with its end. */
static void
add_list(mrd_sha256 *sha, const mrd_strlist *list)
{
    for (size_t i = 0; i < list->n; i++)
        mrd_sha256_add(sha, list->v[i], strlen(list->v[i]) + 1);
    mrd_sha256_add(sha, "", 1);
}

/* Appends the hash of each input's bytes. An input that is not a regular file, or cannot be read
 * again, counts with its path and its number of bytes. */
static mrd_err
hash_inputs(mrd_catalog *cat, mrd_strlist *hashes)
{
    size_t n;
    const mrd_input *inputs = mrd_catalog_inputs(cat, &n);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        mrd_str path = mrd_catalog_text(cat, inputs[i].path);
        mrd_buf text = { 0 };
        char hex[MRD_SHA256_HEX];
        struct stat st;
        uint64_t size;
        mrd_why unused = { 0 };

        mrd_buf_str(&text, path);
        if (text.err == MRD_OK && stat(mrd_buf_cstr(&text), &st) == 0 && S_ISREG(st.st_mode) &&
            mrd_sha256_file(mrd_buf_cstr(&text), hex, &size, &unused) == MRD_OK) {
            mrd_buf_reset(&text);
            mrd_buf_text(&text, hex);
        } else {
            mrd_buf_fmt(&text, " %llu", (unsigned long long) inputs[i].bytes);
        }
        err = text.err != MRD_OK ? text.err
                                 : mrd_strlist_add(hashes, mrd_str_of(mrd_buf_cstr(&text)));
        mrd_buf_fini(&text);
    }
    return err;
}

mrd_err
mrd_session_name_set(const mrd_strlist *settings, mrd_catalog *cat, mrd_why *why)
{
    mrd_strlist hashes = { 0 };
    mrd_sha256 *sha = NULL;
    char hex[MRD_SHA256_HEX], name[sizeof("files-") + NAME_DIGITS];
    mrd_err err;

    if ((err = hash_inputs(cat, &hashes)) == MRD_OK && (sha = mrd_sha256_new()) == NULL)
        err = MRD_NOMEM;
    if (err == MRD_OK) {
        /* The order of the files does not change the profile. */
        if (hashes.n > 0)
            qsort(hashes.v, hashes.n, sizeof(hashes.v[0]), by_text);
        add_list(sha, &hashes);
        add_list(sha, settings);
        mrd_sha256_hex(sha, hex);
        snprintf(name, sizeof(name), "files-%.*s", NAME_DIGITS, hex);
        mrd_catalog_set(cat, "session.id", name);
    } else {
        mrd_why_set(why, err, 0, "the session's name");
    }
    mrd_sha256_free(sha);
    mrd_strlist_fini(&hashes);
    return err;
}
