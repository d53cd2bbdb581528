#include "trace/sink/perfetto/pf_parts.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "base/vec.h"

#define SUFFIX     ".pftrace"
#define INDEX_TAIL ".parts.json"
#define NODES_MAX  1000u /* maximum number of nodes that the index lists for one part */

/* Returns the length of the path without its suffix. */
static size_t
stem_len(const char *path)
{
    size_t len = strlen(path), tail = strlen(SUFFIX);

    return len > tail && strcmp(path + len - tail, SUFFIX) == 0 ? len - tail : len;
}

void
mrd_pf_part_path(const char *path, size_t number, mrd_buf *to)
{
    mrd_buf_reset(to);
    mrd_buf_str(to, (mrd_str){ path, stem_len(path) });
    if (number > 1)
        mrd_buf_fmt(to, ".%zu", number);
    mrd_buf_text(to, path + stem_len(path));
}

void
mrd_pf_index_path(const char *path, mrd_buf *to)
{
    mrd_buf_reset(to);
    mrd_buf_str(to, (mrd_str){ path, stem_len(path) });
    mrd_buf_text(to, INDEX_TAIL);
}

static const char *
last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* Returns the file name of the first part. In an archive, this is the usual name of a finished
 * profile. */
static const char *
first_name(const mrd_pf_parts *parts)
{
    return parts->archive != NULL ? "system_profile" SUFFIX : parts->env->path;
}

bool
mrd_pf_parts_can(const mrd_pf_parts *parts)
{
    return parts->archive != NULL || parts->env->path != NULL;
}

/* Opens a file in the archive and gets its output. */
static mrd_err
archive_open(mrd_pf_parts *parts, const char *name, mrd_out **ret_out, mrd_why *why)
{
    mrd_err err = mrd_outdir_open(parts->archive, name, &parts->file, why);

    if (err == MRD_OK)
        *ret_out = mrd_outdir_out(parts->file);
    return err;
}

static mrd_err
archive_done(mrd_pf_parts *parts, uint64_t *ret_size, mrd_why *why)
{
    mrd_outdir_file *file = parts->file;
    char hex[MRD_SHA256_HEX];

    parts->file = NULL;
    return mrd_outdir_done(file, hex, ret_size, why);
}

mrd_err
mrd_pf_parts_init(mrd_pf_parts *parts, const mrd_sink_env *env, mrd_out **ret_out, mrd_why *why)
{
    mrd_err err;

    *parts = (mrd_pf_parts){ .env = env, .list = mrd_json_new_array() };
    *ret_out = env->out;
    if (parts->list == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "perfetto output");
    if (env->path != NULL || !env->options->archive)
        return MRD_OK;
    if ((err = mrd_outdir_tar(env->out, &parts->archive, why)) != MRD_OK)
        return err;
    return archive_open(parts, first_name(parts), ret_out, why);
}

void
mrd_pf_parts_fini(mrd_pf_parts *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        mrd_out_abort(parts->more[i]);
    free(parts->more);
    mrd_outdir_drop(parts->file);
    mrd_outdir_close(parts->archive, false);
    mrd_json_free(parts->list);
    *parts = (mrd_pf_parts){ 0 };
}

/* Returns the nodes with events in a part, for the index. Each node occurs once, in the order of
 * the processes. */
static mrd_json *
nodes_of(const mrd_pf_parts *parts, const mrd_pf_part *part)
{
    const mrd_catalog *cat = parts->env->catalog;
    size_t tracks = mrd_catalog_tracks(cat), n = mrd_catalog_processes(cat), said = 0;
    uint8_t *has = calloc(mrd_strtab_count(mrd_catalog_strings(cat)) + 1, 1);
    mrd_json *list = mrd_json_new_array();

    for (mrd_track_id id = 0; has != NULL && id < tracks; id++) {
        if (part->seen[id])
            has[mrd_catalog_borrow_process(cat, mrd_catalog_borrow_track(cat, id)->process)
                    ->instance_id] = 1;
    }
    for (mrd_proc_id process_id = 0; has != NULL && process_id < n && said < NODES_MAX;
         process_id++) {
        mrd_sid node = mrd_catalog_borrow_process(cat, process_id)->instance_id;

        if (node == MRD_SID_EMPTY || !has[node])
            continue;
        mrd_json_append(list, mrd_json_new_str(mrd_catalog_text(cat, node).p));
        has[node] = 0;
        said++;
    }
    free(has);
    return list;
}

mrd_err
mrd_pf_parts_end(mrd_pf_parts *parts, mrd_out *out, const mrd_pf_part *part, mrd_why *why)
{
    mrd_json *json = mrd_json_new_object();
    uint64_t size = mrd_out_size(out);
    mrd_buf name = { 0 };
    mrd_err err = MRD_OK;

    mrd_pf_part_path(last_name(first_name(parts) == NULL ? "" : first_name(parts)),
                     mrd_json_size(parts->list) + 1, &name);
    if (parts->archive != NULL)
        err = archive_done(parts, &size, why);
    else if (parts->n > 0)
        mrd_out_seal(out);
    mrd_json_set(json, "file", mrd_json_new_str(mrd_buf_cstr(&name)));
    mrd_json_set(json, "bytes", mrd_json_new_int((int64_t) size));
    mrd_json_set(json, "begin_ns", mrd_json_new_int(part->first.ns));
    mrd_json_set(json, "last_ns", mrd_json_new_int(part->last.ns));
    mrd_json_set(json, "cut_ns", mrd_json_new_int(part->until.ns));
    mrd_json_set(json, "events", mrd_json_new_int((int64_t) part->events));
    mrd_json_set(json, "spans", mrd_json_new_int((int64_t) part->spans));
    mrd_json_set(json, "repeated", mrd_json_new_int((int64_t) part->repeated));
    mrd_json_set(json, "nodes", nodes_of(parts, part));
    parts->events += part->events;
    mrd_buf_fini(&name);
    if (mrd_json_append(parts->list, json) != MRD_OK && err == MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "perfetto output");
    return err;
}

mrd_err
mrd_pf_parts_next(mrd_pf_parts *parts, mrd_out **ret_out, mrd_why *why)
{
    mrd_buf name = { 0 };
    mrd_err err;

    mrd_pf_part_path(first_name(parts), mrd_json_size(parts->list) + 1, &name);
    if (name.err != MRD_OK || !MRD_VEC_ROOM(parts->more, parts->n, parts->cap, 1))
        err = mrd_why_set(why, MRD_NOMEM, 0, "perfetto output");
    else if (parts->archive != NULL)
        err = archive_open(parts, mrd_buf_cstr(&name), ret_out, why);
    else {
        mrd_remove_parts_of(mrd_buf_cstr(&name));
        if ((err = mrd_out_file_like(parts->env->out, mrd_buf_cstr(&name), &parts->more[parts->n],
                                     why)) == MRD_OK)
            *ret_out = parts->more[parts->n++];
    }
    mrd_buf_fini(&name);
    return err;
}

static mrd_err
index_text(mrd_pf_parts *parts, mrd_buf *to, mrd_why *why)
{
    mrd_json *doc = mrd_json_new_object();

    mrd_json_set(doc, "format", mrd_json_new_str("meridian-perfetto-parts"));
    mrd_json_set(doc, "version", mrd_json_new_int(1));
    mrd_json_set(doc, "split_by", mrd_json_new_str("time"));
    mrd_json_set(doc, "limit_bytes", mrd_json_new_int((int64_t) parts->env->options->split));
    mrd_json_set(doc, "events", mrd_json_new_int((int64_t) parts->events));
    mrd_json_set(doc, "how",
                 mrd_json_new_str(
                     "each part opens alone: meridian open FILE; what a part repeats of earlier "
                     "ones has the argument " MRD_PF_CONTINUED));
    mrd_json_set(doc, "parts", parts->list);
    parts->list = NULL;
    mrd_json_write(doc, true, to);
    mrd_buf_byte(to, '\n');
    mrd_json_free(doc);
    return doc != NULL && to->err == MRD_OK ? MRD_OK
                                            : mrd_why_set(why, MRD_NOMEM, 0, "perfetto output");
}

/* Returns true if `name` is that of a second or later part, or of the index, of this trace.
 * *ret_number is the part's number; 0 for the index. */
static bool
is_part(const char *name, const char *stem, size_t len, size_t *ret_number)
{
    char *end;

    if (strncmp(name, stem, len) != 0)
        return false;
    name += len;
    *ret_number = 0;
    if (strcmp(name, INDEX_TAIL) == 0)
        return true;
    if (name[0] != '.' || name[1] < '1' || name[1] > '9')
        return false;
    *ret_number = strtoul(name + 1, &end, 10);
    return strcmp(end, SUFFIX) == 0;
}

void
mrd_pf_parts_stale(const char *path, size_t parts)
{
    const char *name = last_name(path);
    char *dir = name == path ? mrd_str_dup(MRD_STR("./"))
                             : mrd_str_dup((mrd_str){ path, (size_t) (name - path) });
    DIR *d = dir == NULL ? NULL : opendir(dir);
    struct dirent *entry;
    mrd_buf stale = { 0 };

    while (d != NULL && (entry = readdir(d)) != NULL) {
        size_t number;

        if (!is_part(entry->d_name, name, stem_len(name), &number) ||
            (number == 0 ? parts > 1 : number <= parts))
            continue;
        mrd_buf_reset(&stale);
        mrd_buf_fmt(&stale, "%s%s", dir, entry->d_name);
        if (stale.err == MRD_OK)
            (void) unlink(mrd_buf_cstr(&stale));
    }
    if (d != NULL)
        closedir(d);
    mrd_buf_fini(&stale);
    free(dir);
}

static mrd_err
commit_archive(mrd_pf_parts *parts, const mrd_buf *text, mrd_why *why)
{
    mrd_out *out;
    uint64_t size;
    mrd_buf name = { 0 };
    mrd_err err;

    mrd_pf_index_path(first_name(parts), &name);
    if ((err = archive_open(parts, mrd_buf_cstr(&name), &out, why)) == MRD_OK) {
        mrd_out_add(out, text->p, text->len);
        err = archive_done(parts, &size, why);
    }
    if (err == MRD_OK) {
        mrd_outdir_close(parts->archive, true);
        parts->archive = NULL;
    }
    mrd_buf_fini(&name);
    return err;
}

/* Returns the path of the further file number i: a part, or the index, which is the last one. */
static const char *
more_path(const mrd_pf_parts *parts, size_t i, mrd_buf *name)
{
    mrd_buf_reset(name);
    if (i + 1 < parts->n)
        mrd_pf_part_path(parts->env->path, i + 2, name);
    else
        mrd_pf_index_path(parts->env->path, name);
    return mrd_buf_cstr(name);
}

/* Opens the index as the last of the further files. Writes all files to the end, also the first
 * one. No file gets its final name before every file is complete. */
static mrd_err
seal_files(mrd_pf_parts *parts, const mrd_buf *text, mrd_why *why)
{
    mrd_buf name = { 0 };
    mrd_err err = MRD_OK;

    if (!MRD_VEC_ROOM(parts->more, parts->n, parts->cap, 1))
        return mrd_why_set(why, MRD_NOMEM, 0, "perfetto output");
    mrd_pf_index_path(parts->env->path, &name);
    if (name.err != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "perfetto output");
    else
        err = mrd_out_file_like(parts->env->out, mrd_buf_cstr(&name), &parts->more[parts->n], why);
    mrd_buf_fini(&name);
    if (err != MRD_OK)
        return err;
    mrd_out_add(parts->more[parts->n++], text->p, text->len);
    for (size_t i = 0; i < parts->n && err == MRD_OK; i++) {
        mrd_out_seal(parts->more[i]);
        if (mrd_out_err(parts->more[i]) != MRD_OK) {
            err = mrd_out_commit(parts->more[i], why); /* returns the reason */
            parts->more[i] = NULL;
        }
    }
    mrd_out_seal(parts->env->out);
    return err != MRD_OK ? err : mrd_out_err(parts->env->out);
}

static mrd_err
commit_files(mrd_pf_parts *parts, const mrd_buf *text, mrd_why *why)
{
    mrd_buf name = { 0 };
    size_t done = 0;
    mrd_err err = MRD_OK;

    if (parts->n > 0 && (err = seal_files(parts, text, why)) != MRD_OK)
        return err;
    mrd_pf_parts_stale(parts->env->path, parts->n == 0 ? 1 : parts->n);
    while (done < parts->n && err == MRD_OK) {
        err = mrd_out_commit(parts->more[done], why);
        parts->more[done] = NULL;
        done += err == MRD_OK;
    }
    for (size_t i = 0; i < done && err != MRD_OK; i++)
        (void) unlink(more_path(parts, i, &name));
    mrd_buf_fini(&name);
    return err;
}

mrd_err
mrd_pf_parts_commit(mrd_pf_parts *parts, mrd_why *why)
{
    mrd_buf text = { 0 };
    mrd_err err;

    if (!mrd_pf_parts_can(parts))
        return MRD_OK;
    if ((err = index_text(parts, &text, why)) == MRD_OK)
        err = parts->archive != NULL ? commit_archive(parts, &text, why)
                                     : commit_files(parts, &text, why);
    mrd_buf_fini(&text);
    return err;
}
