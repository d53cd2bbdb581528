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
#define NODES_MAX  1000u /* maximum number of nodes listed for each part */

/* Returns the bytes of the path before its suffix. */
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

/* Returns the name of the first part. In an archive this is the name of a finished profile. */
static const char *
first_name(const mrd_pf_parts *p)
{
    return p->archive != NULL ? "system_profile" SUFFIX : p->env->path;
}

bool
mrd_pf_parts_can(const mrd_pf_parts *p)
{
    return p->archive != NULL || p->env->path != NULL;
}

/* Opens a file of the archive. */
static mrd_err
archive_open(mrd_pf_parts *p, const char *name, mrd_out **ret_out, mrd_why *why)
{
    mrd_err err = mrd_outdir_open(p->archive, name, &p->file, why);

    if (err == MRD_OK)
        *ret_out = mrd_outdir_out(p->file);
    return err;
}

static mrd_err
archive_done(mrd_pf_parts *p, uint64_t *ret_size, mrd_why *why)
{
    mrd_outdir_file *file = p->file;
    char hex[MRD_SHA256_HEX];

    p->file = NULL;
    return mrd_outdir_done(file, hex, ret_size, why);
}

mrd_err
mrd_pf_parts_init(mrd_pf_parts *p, const mrd_sink_env *env, mrd_out **ret_out, mrd_why *why)
{
    mrd_err err;

    *p = (mrd_pf_parts){ .env = env, .list = mrd_json_new_array() };
    *ret_out = env->out;
    if (p->list == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "perfetto output");
    if (env->path != NULL || !env->options->archive)
        return MRD_OK;
    if ((err = mrd_outdir_tar(env->out, &p->archive, why)) != MRD_OK)
        return err;
    return archive_open(p, first_name(p), ret_out, why);
}

void
mrd_pf_parts_fini(mrd_pf_parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        mrd_out_abort(p->more[i]);
    free(p->more);
    mrd_outdir_drop(p->file);
    mrd_outdir_close(p->archive, false);
    mrd_json_free(p->list);
    *p = (mrd_pf_parts){ 0 };
}

/* Lists the nodes of a part without duplicates, in the order of their processes. */
static mrd_json *
nodes_of(const mrd_pf_parts *p, const mrd_pf_part *part)
{
    const mrd_catalog *cat = p->env->catalog;
    size_t tracks = mrd_catalog_tracks(cat), n = mrd_catalog_processes(cat), said = 0;
    uint8_t *has = calloc(mrd_strtab_count(mrd_catalog_strings(cat)) + 1, 1);
    mrd_json *list = mrd_json_new_array();

    for (mrd_track_id t = 0; has != NULL && t < tracks; t++) {
        if (part->seen[t])
            has[mrd_catalog_borrow_process(cat, mrd_catalog_borrow_track(cat, t)->process)
                    ->instance_id] = 1;
    }
    for (mrd_proc_id i = 0; has != NULL && i < n && said < NODES_MAX; i++) {
        mrd_sid node = mrd_catalog_borrow_process(cat, i)->instance_id;

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
mrd_pf_parts_end(mrd_pf_parts *p, mrd_out *out, const mrd_pf_part *part, mrd_why *why)
{
    mrd_json *o = mrd_json_new_object();
    uint64_t size = mrd_out_size(out);
    mrd_buf name = { 0 };
    mrd_err err = MRD_OK;

    mrd_pf_part_path(last_name(first_name(p) == NULL ? "" : first_name(p)),
                     mrd_json_size(p->list) + 1, &name);
    if (p->archive != NULL)
        err = archive_done(p, &size, why);
    else if (p->n > 0)
        mrd_out_seal(out);
    mrd_json_set(o, "file", mrd_json_new_str(mrd_buf_cstr(&name)));
    mrd_json_set(o, "bytes", mrd_json_new_int((int64_t) size));
    mrd_json_set(o, "begin_ns", mrd_json_new_int(part->first.ns));
    mrd_json_set(o, "last_ns", mrd_json_new_int(part->last.ns));
    mrd_json_set(o, "cut_ns", mrd_json_new_int(part->until.ns));
    mrd_json_set(o, "events", mrd_json_new_int((int64_t) part->events));
    mrd_json_set(o, "spans", mrd_json_new_int((int64_t) part->spans));
    mrd_json_set(o, "repeated", mrd_json_new_int((int64_t) part->repeated));
    mrd_json_set(o, "nodes", nodes_of(p, part));
    p->events += part->events;
    mrd_buf_fini(&name);
    if (mrd_json_append(p->list, o) != MRD_OK && err == MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "perfetto output");
    return err;
}

mrd_err
mrd_pf_parts_next(mrd_pf_parts *p, mrd_out **ret_out, mrd_why *why)
{
    mrd_buf name = { 0 };
    mrd_err err;

    mrd_pf_part_path(first_name(p), mrd_json_size(p->list) + 1, &name);
    if (name.err != MRD_OK || !MRD_VEC_ROOM(p->more, p->n, p->cap, 1))
        err = mrd_why_set(why, MRD_NOMEM, 0, "perfetto output");
    else if (p->archive != NULL)
        err = archive_open(p, mrd_buf_cstr(&name), ret_out, why);
    else {
        mrd_remove_parts_of(mrd_buf_cstr(&name));
        if ((err = mrd_out_file(mrd_buf_cstr(&name), &p->more[p->n], why)) == MRD_OK)
            *ret_out = p->more[p->n++];
    }
    mrd_buf_fini(&name);
    return err;
}

static mrd_err
index_text(mrd_pf_parts *p, mrd_buf *to, mrd_why *why)
{
    mrd_json *doc = mrd_json_new_object();

    mrd_json_set(doc, "format", mrd_json_new_str("meridian-perfetto-parts"));
    mrd_json_set(doc, "version", mrd_json_new_int(1));
    mrd_json_set(doc, "split_by", mrd_json_new_str("time"));
    mrd_json_set(doc, "limit_bytes", mrd_json_new_int((int64_t) p->env->options->split));
    mrd_json_set(doc, "events", mrd_json_new_int((int64_t) p->events));
    mrd_json_set(doc, "how",
                 mrd_json_new_str(
                     "each part opens alone: meridian open FILE; what a part repeats of earlier "
                     "ones has the argument " MRD_PF_CONTINUED));
    mrd_json_set(doc, "parts", p->list);
    p->list = NULL;
    mrd_json_write(doc, true, to);
    mrd_buf_byte(to, '\n');
    mrd_json_free(doc);
    return doc != NULL && to->err == MRD_OK ? MRD_OK
                                            : mrd_why_set(why, MRD_NOMEM, 0, "perfetto output");
}

/* Returns true for the name of a part after the first, or of the index, and gets the part's number,
 * 0 for the index. */
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
commit_archive(mrd_pf_parts *p, const mrd_buf *text, mrd_why *why)
{
    mrd_out *out;
    uint64_t size;
    mrd_buf name = { 0 };
    mrd_err err;

    mrd_pf_index_path(first_name(p), &name);
    if ((err = archive_open(p, mrd_buf_cstr(&name), &out, why)) == MRD_OK) {
        mrd_out_add(out, text->p, text->len);
        err = archive_done(p, &size, why);
    }
    if (err == MRD_OK) {
        mrd_outdir_close(p->archive, true);
        p->archive = NULL;
    }
    mrd_buf_fini(&name);
    return err;
}

static mrd_err
commit_files(mrd_pf_parts *p, const mrd_buf *text, mrd_why *why)
{
    mrd_buf name = { 0 };
    mrd_err err = MRD_OK;

    mrd_pf_parts_stale(p->env->path, p->n + 1);
    for (size_t i = 0; i < p->n && err == MRD_OK; i++) {
        err = mrd_out_commit(p->more[i], why);
        p->more[i] = NULL;
    }
    mrd_pf_index_path(p->env->path, &name);
    if (err == MRD_OK && p->n > 0)
        err = name.err != MRD_OK ? mrd_why_set(why, MRD_NOMEM, 0, "perfetto output")
                                 : mrd_write_file(mrd_buf_cstr(&name),
                                                  (mrd_bytes){ text->p, text->len }, 0666, why);
    mrd_buf_fini(&name);
    return err;
}

mrd_err
mrd_pf_parts_commit(mrd_pf_parts *p, mrd_why *why)
{
    mrd_buf text = { 0 };
    mrd_err err;

    if (!mrd_pf_parts_can(p))
        return MRD_OK;
    if ((err = index_text(p, &text, why)) == MRD_OK)
        err = p->archive != NULL ? commit_archive(p, &text, why) : commit_files(p, &text, why);
    mrd_buf_fini(&text);
    return err;
}
