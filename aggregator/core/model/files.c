#include "aggregator/core/model/files.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/limits.h"
#include "aggregator/core/common/text.h"
#include "base/obj.h"
#include "base/vec.h"

#define NAME_PARTS    16 /* maximum number of path components; agents search fewer levels */
#define NAME_PART_MAX 200

void
mrd_stored_files_fini(mrd_stored_files *files)
{
    free(files->v);
    mrd_map_fini(&files->at);
}

bool
mrd_hash_is_valid(const char *hex)
{
    return strlen(hex) == 64 && strspn(hex, "0123456789abcdef") == 64;
}

const char *
mrd_artifact_name_fault(const char *name)
{
    size_t parts = 0;

    if (*name == '\0')
        return "is empty";
    if (strlen(name) >= MRD_TEXT_MAX)
        return "has 256 bytes or more";
    for (const char *c = name; *c != '\0'; c++) {
        if ((unsigned char) *c < 0x20 || *c == 0x7f)
            return "has a control character";
    }
    while (*name != '\0') {
        size_t n = strcspn(name, "/");

        if (n == 0)
            return "has an empty part";
        if (n > NAME_PART_MAX)
            return "has a part of more than 200 bytes";
        if (name[0] == '.')
            return "has a part that begins with a dot";
        if (++parts > NAME_PARTS)
            return "has more than 16 parts";
        name += n;
        if (*name == '/' && *++name == '\0')
            return "ends with a slash";
    }
    return NULL;
}

static mrd_map_key
file_key(const char *sha256)
{
    mrd_map_key key = { 0 };
    uint64_t *to[] = { &key.a, &key.b, &key.c };

    for (size_t i = 0; i < 3; i++) {
        char word[17];

        snprintf(word, sizeof(word), "%.16s", sha256 + 16 * i);
        *to[i] = strtoull(word, NULL, 16);
    }
    return key;
}

static mrd_stored_file *
file_of(const mrd_stored_files *files, const char *sha256)
{
    uint32_t at =
        mrd_hash_is_valid(sha256) ? mrd_map_get(&files->at, file_key(sha256)) : MRD_MAP_NONE;

    return at == MRD_MAP_NONE ? NULL : &files->v[at];
}

bool
mrd_stored_files_has(const mrd_stored_files *files, const char *sha256)
{
    return file_of(files, sha256) != NULL;
}

mrd_err
mrd_stored_files_list(mrd_stored_files *files, const char *sha256)
{
    mrd_stored_file *file = file_of(files, sha256);

    MRD_ASSERT(mrd_hash_is_valid(sha256));
    if (file == NULL) {
        if (!MRD_VEC_NEXT(files->v, files->n) ||
            mrd_map_put(&files->at, file_key(sha256), (uint32_t) files->n) != MRD_OK)
            return MRD_NOMEM;
        file = &files->v[files->n++];
        *file = (mrd_stored_file){ .key = file_key(sha256) };
    }
    file->listed++;
    if (file->live++ == 0)
        files->bytes += file->bytes;
    return MRD_OK;
}

void
mrd_stored_files_grown(mrd_stored_files *files, const char *sha256, uint64_t bytes)
{
    mrd_stored_file *file = file_of(files, sha256);

    if (file == NULL)
        return;
    if (file->live > 0)
        files->bytes += bytes - file->bytes;
    file->bytes = bytes;
}

void
mrd_stored_files_retire(mrd_stored_files *files, const char *sha256)
{
    mrd_stored_file *file = file_of(files, sha256);

    if (file != NULL && file->live > 0 && --file->live == 0)
        files->bytes -= file->bytes;
}

void
mrd_stored_files_unlist(mrd_stored_files *files, const char *sha256)
{
    mrd_stored_file *file = file_of(files, sha256);
    size_t at;

    if (file == NULL || --file->listed > 0)
        return;
    at = (size_t) (file - files->v);
    mrd_map_remove(&files->at, file->key);
    if (at != --files->n) {
        *file = files->v[files->n];
        /* cannot fail, because the key exists */
        (void) mrd_map_put(&files->at, file->key, (uint32_t) at);
    }
}
