#include "cli/client/fetch_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/client/untar.h"
#include "trace/sink/perfetto/pf_parts.h"

mrd_err
mrd_fetch_list(mrd_json *list, const char *file)
{
    mrd_json *entry = mrd_json_new_object();
    struct stat st;

    mrd_json_set(entry, "file", mrd_json_new_str(file));
    mrd_json_set(entry, "bytes", mrd_json_new_int(stat(file, &st) == 0 ? (int64_t) st.st_size : 0));
    return mrd_json_append(list, entry);
}

/* Returns true if the file is a single trace, false if it is an archive. The two differ in their
 * first byte: a trace begins with the tag of its first packet, an archive with a file name. */
static bool
is_trace(const char *path)
{
    FILE *file = fopen(path, "rb");
    int first = file == NULL ? EOF : fgetc(file);

    if (file != NULL)
        fclose(file);
    return first == 0x0a;
}

/* Appends the further files of the trace to the list, which already has its first file. */
static mrd_err
list_parts(const char *trace, size_t parts, mrd_json *list, mrd_why *why)
{
    mrd_buf name = { 0 };
    mrd_err err = MRD_OK;

    for (size_t part = 2; part <= parts + 1 && parts > 1 && err == MRD_OK; part++) {
        if (part <= parts)
            mrd_pf_part_path(trace, part, &name);
        else
            mrd_pf_index_path(trace, &name);
        err = name.err != MRD_OK ? MRD_NOMEM : mrd_fetch_list(list, mrd_buf_cstr(&name));
    }
    mrd_buf_fini(&name);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "fetch");
}

static mrd_err
unpack(const char *archive, const char *trace, size_t *ret_parts, mrd_why *why)
{
    const char *name = strrchr(trace, '/');
    char *dir = name == NULL ? mrd_str_dup(MRD_STR("."))
                             : mrd_str_dup((mrd_str){ trace, (size_t) (name - trace) });
    mrd_json *index = NULL;
    mrd_buf path = { 0 };
    mrd_err err;

    mrd_pf_index_path(trace, &path);
    if (dir == NULL || path.err != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "fetch");
    else
        err = mrd_untar(archive, dir, name == NULL ? trace : name + 1, why);
    if (err == MRD_OK)
        err = mrd_json_load(mrd_buf_cstr(&path), &index, why);
    if (err == MRD_OK)
        *ret_parts = mrd_json_size(mrd_json_get(index, "parts"));
    mrd_json_free(index);
    mrd_buf_fini(&path);
    free(dir);
    return err;
}

mrd_err
mrd_fetch_unpack(const char *archive, const char *trace, mrd_json *list, mrd_why *why)
{
    mrd_json *entry = mrd_json_at(list, mrd_json_size(list) - 1);
    struct stat st;
    size_t parts = 1;
    mrd_err err = MRD_OK;

    if (!is_trace(archive))
        err = unpack(archive, trace, &parts, why);
    else if (rename(archive, trace) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot rename %s", archive);
    (void) unlink(archive);
    if (err != MRD_OK)
        return err;
    mrd_pf_parts_stale(trace, parts);
    mrd_json_set(entry, "file", mrd_json_new_str(trace));
    mrd_json_set(entry, "bytes",
                 mrd_json_new_int(stat(trace, &st) == 0 ? (int64_t) st.st_size : 0));
    return list_parts(trace, parts, list, why);
}
