#include "aggregator/viewer/converter_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "aggregator/core/common/conversion.h"
#include "aggregator/core/common/text.h"
#include "aggregator/core/model/files.h"
#include "base/obj.h"
#include "base/sys/confined.h"
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "base/vec.h"
#include "trace/import/vendor.h"

#define DEPTH_MAX  12
#define WORDS_MAX  48
#define ROOM_LEAST (64ull << 20) /* minimum free disk space in bytes for a run of the viewer */

#define TRACES " view -d {input} --output-format perfetto --ignore-system-profile"
#define TABLES                                                                                     \
    " view -d {input} --output-format parquet --ignore-system-profile --ingest-only --data-path "  \
    "{output}"

/* ---- The viewer's commands ---- */

static bool
has_input(const mrd_buf *command)
{
    return memmem(command->p, command->len, "{input}", 7) != NULL;
}

mrd_err
mrd_converter_commands_make(const mrd_converter_settings *settings, mrd_converter_commands *to,
                            mrd_why *why)
{
    mrd_buf found = { 0 };
    const char *program = settings->command;
    bool tables = settings->tables != NULL && strcmp(settings->tables, "auto") != 0;
    mrd_err err = MRD_OK;

    if (program != NULL && strcmp(program, "auto") == 0)
        program = mrd_vendor_find(NULL, &found) ? mrd_buf_cstr(&found) : NULL;
    if (program == NULL || *program == '\0' || strcmp(program, "none") == 0)
        goto out;
    if (strchr(program, ' ') == NULL && strchr(program, '{') == NULL) {
        mrd_buf_fmt(&to->v[0], "%s" TRACES, program);
        if (!tables && strstr(program, "neuron-profile") == NULL)
            mrd_buf_fmt(&to->v[1], "%s" TABLES, program);
    } else {
        mrd_buf_text(&to->v[0], program);
    }
    if (tables && strcmp(settings->tables, "none") != 0)
        mrd_buf_text(&to->v[1], settings->tables);
    if (!has_input(&to->v[0]))
        err = mrd_why_set(why, MRD_INVALID, 0, "--viewer '%s' has no {input}", program);
    else if (to->v[1].len > 0 && !has_input(&to->v[1]))
        err = mrd_why_set(why, MRD_INVALID, 0, "--viewer-tables '%s' has no {input}",
                          settings->tables);
out:
    mrd_buf_fini(&found);
    return err;
}

void
mrd_converter_commands_fini(mrd_converter_commands *commands)
{
    mrd_buf_fini(&commands->v[0]);
    mrd_buf_fini(&commands->v[1]);
}

static void
put_word(mrd_buf *to, mrd_str word, const char *in, const char *out)
{
    const char *p = word.p, *end = word.p + word.len;

    while (p < end) {
        size_t left = (size_t) (end - p);

        if (left >= 7 && strncmp(p, "{input}", 7) == 0) {
            mrd_buf_text(to, in);
            p += 7;
        } else if (left >= 8 && strncmp(p, "{output}", 8) == 0) {
            mrd_buf_text(to, out);
            p += 8;
        } else {
            mrd_buf_byte(to, (uint8_t) *p++);
        }
    }
    mrd_buf_byte(to, 0);
}

/* Splits a command into arguments, and replaces {input} and {output} in them. Appends each argument
 * with a final NUL to `words`, and stores its offset in `at`. Errors: LIMIT, NOMEM. */
static mrd_err
split(const mrd_buf *command, const char *in, const char *out, mrd_buf *words, size_t *at,
      size_t *ret_n, mrd_why *why)
{
    const char *p = (const char *) command->p, *end = p + command->len;
    size_t count = 0;

    while (p < end) {
        size_t len = 0;

        while (p + len < end && p[len] != ' ')
            len++;
        if (len > 0 && count == WORDS_MAX)
            return mrd_why_set(why, MRD_LIMIT, 0, "a viewer's command has at most %d words",
                               WORDS_MAX);
        if (len > 0) {
            at[count++] = words->len;
            put_word(words, (mrd_str){ p, len }, in, out);
        }
        p += len + 1;
    }
    *ret_n = count;
    return words->err == MRD_OK ? MRD_OK : mrd_why_set(why, words->err, 0, "viewer");
}

/* ---- Running one command ---- */

/* Computes how many bytes a command may write. This is the configured limit, or less if the disk
 * has less free space. Errors: FULL. */
static mrd_err
room(const mrd_converter_work *work, const char *out, uint64_t *ret, mrd_why *why)
{
    struct statvfs fs;
    uint64_t left;

    *ret = work->settings->disk;
    if (statvfs(out, &fs) != 0)
        return MRD_OK;
    left = (uint64_t) fs.f_bavail * (uint64_t) fs.f_frsize;
    left -= left > work->keep_free ? work->keep_free : left;
    if (left < ROOM_LEAST)
        return mrd_why_set(
            why, MRD_FULL, 0,
            "the disk has %llu MiB left for the viewer: make room, and convert again",
            (unsigned long long) (left >> 20));
    *ret = *ret == 0 || left < *ret ? left : *ret;
    return MRD_OK;
}

static mrd_err
run_command(const mrd_converter_work *work, const mrd_buf *command, const char *out,
            mrd_converter_made *to, mrd_why *why)
{
    mrd_confined_options options = { .dir = out,
                                     .time = work->settings->time,
                                     .memory = work->settings->memory,
                                     .files = 2 * MRD_VIEWER_RESULTS_MAX,
                                     .keep_free = work->keep_free,
                                     .remove = true,
                                     .going_on = work->going_on,
                                     .self = work->self };
    const char *argv[WORDS_MAX + 1] = { NULL };
    size_t n = 0, at[WORDS_MAX];
    mrd_confined_result result = { 0 };
    mrd_buf words = { 0 };
    mrd_err err = room(work, out, &options.disk, why);

    if (err == MRD_OK)
        err = split(command, work->in, out, &words, at, &n, why);
    for (size_t i = 0; err == MRD_OK && i < n; i++)
        argv[i] = (const char *) words.p + at[i];
    options.argv = argv;
    if (err == MRD_OK)
        err = mrd_confined_run(&options, &result, why);
    if (err == MRD_OK && result.left > 0)
        snprintf(to->note, sizeof(to->note),
                 "the viewer left %u process%s behind; the converter ended %s", result.left,
                 result.left == 1 ? "" : "es", result.left == 1 ? "it" : "them");
    to->took += result.took;
    to->memory = result.memory > to->memory ? result.memory : to->memory;
    mrd_buf_fini(&words);
    return err;
}

/* ---- Results of a command ---- */

/* Makes the name that a result has in the session from its file name. Returns the kind of the
 * result, or NULL if the file is not a result. */
static const char *
kind_of(const char *below, const char *name, char to[MRD_TEXT_MAX])
{
    static const char prefix[] = "profiles/global/", latest[] = "@latest";
    mrd_str text = mrd_str_of(name);
    bool table = mrd_str_ends(text, ".parquet");
    mrd_buf path = { 0 };
    const char *kind = NULL;

    if (!table && !(strncmp(name, "device_profile", 14) == 0 &&
                    (mrd_str_ends(text, ".pftrace") || mrd_str_ends(text, ".json"))))
        return NULL;
    if (strncmp(below, prefix, sizeof(prefix) - 1) == 0)
        below += sizeof(prefix) - 1;
    mrd_buf_text(&path, table ? "viewer/tables/" : "viewer/");
    for (const char *p = below; *p != '\0'; p++) {
        const char *end = p + sizeof(latest) - 1;

        if (strncmp(p, latest, sizeof(latest) - 1) == 0 && (*end == '/' || *end == '\0'))
            p = end - 1;
        else
            mrd_buf_byte(&path, (uint8_t) *p);
    }
    mrd_buf_fmt(&path, "%s%s", *below == '\0' ? "" : "/", name);
    if (path.err == MRD_OK && mrd_artifact_name_fault(mrd_buf_cstr(&path)) == NULL) {
        mrd_text_set(to, MRD_TEXT_MAX, mrd_buf_cstr(&path));
        kind = table ? MRD_KIND_DEVICE_TABLE : MRD_KIND_DEVICE_PROFILE;
    }
    mrd_buf_fini(&path);
    return kind;
}

static mrd_err
add(mrd_converter_made *to, const char *kind, const char *name, const char *file, mrd_why *why)
{
    mrd_converter_result *result;
    mrd_err err;

    for (size_t i = 0; i < to->n; i++) {
        if (strcmp(to->v[i].name, name) == 0)
            return MRD_OK; /* ignored, because another file with the same name was found first */
    }
    if (to->n == MRD_VIEWER_RESULTS_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "the viewer made more than %d results",
                           MRD_VIEWER_RESULTS_MAX);
    if (!MRD_VEC_NEXT(to->v, to->n))
        return mrd_why_set(why, MRD_NOMEM, 0, "viewer");
    result = &to->v[to->n];
    *result = (mrd_converter_result){ .kind = kind };
    mrd_text_set(result->name, sizeof(result->name), name);
    if ((err = mrd_sha256_file(file, result->sha256, &result->size, why)) != MRD_OK)
        return err;
    if ((result->file = mrd_str_dup(mrd_str_of(file))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "viewer");
    to->n++;
    return MRD_OK;
}

typedef struct {
    const mrd_converter_work *work;
    const char *out;
    /* sum of file sizes, not of disk blocks, because holes in files are also hashed and sent */
    uint64_t bytes;
} results;

static mrd_err
may_count(results *r, uint64_t size, mrd_why *why)
{
    const mrd_converter_work *work = r->work;

    r->bytes += size;
    if (work->settings->disk > 0 && r->bytes > work->settings->disk)
        return mrd_why_set(
            why, MRD_LIMIT, 0,
            "the viewer's results are longer than the %llu MiB that are allowed (viewer-size)",
            (unsigned long long) (work->settings->disk >> 20));
    return work->going_on == NULL || work->going_on(work->self)
               ? MRD_OK
               : mrd_why_set(why, MRD_CANCELLED, 0, "ended before all results were taken");
}

/* Collects the results in a directory and its subdirectories. Only regular files with one name
 * count, because a link may lead to a file that the viewer did not make. */
static mrd_err
gather(results *from, const char *below, unsigned depth, mrd_converter_made *to, mrd_why *why)
{
    const char *out = from->out;
    const char *slash = *below == '\0' ? "" : "/";
    mrd_buf path = { 0 };
    const struct dirent *entry;
    mrd_err err = MRD_OK;
    int sys = 0;
    DIR *dir;

    mrd_buf_fmt(&path, "%s%s%s", out, slash, below);
    if ((dir = opendir(mrd_buf_cstr(&path))) == NULL)
        err = mrd_why_set(why, MRD_IO, errno, "cannot read %s", mrd_buf_cstr(&path));
    while (err == MRD_OK && dir != NULL && (entry = mrd_dir_next(dir, &sys)) != NULL) {
        char name[MRD_TEXT_MAX];
        const char *kind;
        struct stat st;

        if (entry->d_name[0] == '.')
            continue;
        mrd_buf_reset(&path);
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            err = mrd_why_set(why, MRD_IO, errno, "cannot look at %s in %s%s%s", entry->d_name, out,
                              slash, below);
        else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
            mrd_buf_fmt(&path, "%s%s%s", below, slash, entry->d_name);
            err = gather(from, mrd_buf_cstr(&path), depth + 1, to, why);
        } else if (S_ISREG(st.st_mode) && st.st_nlink == 1 &&
                   (kind = kind_of(below, entry->d_name, name)) != NULL) {
            mrd_buf_fmt(&path, "%s/%s%s%s", out, below, slash, entry->d_name);
            if ((err = may_count(from, (uint64_t) st.st_size, why)) == MRD_OK)
                err = add(to, kind, name, mrd_buf_cstr(&path), why);
        }
    }
    if (sys != 0)
        err = mrd_why_set(why, MRD_IO, sys, "cannot read all of %s%s%s", out, slash, below);
    if (dir != NULL)
        closedir(dir);
    mrd_buf_fini(&path);
    return err;
}

/* ---- Running all commands ---- */

/* Runs one command in its own directory. If the command fails, none of its files becomes a
 * result. */
static mrd_err
run_one(const mrd_converter_work *work, unsigned i, mrd_converter_made *to, mrd_why *why)
{
    results from = { .work = work };
    size_t before = to->n;
    char *out = NULL;
    mrd_err err;

    if (asprintf(&out, "%s/out%u", work->work, i) < 0)
        return mrd_why_set(why, MRD_NOMEM, 0, "viewer");
    from.out = out;
    if ((err = mrd_make_dirs(out, why)) == MRD_OK &&
        (err = run_command(work, &work->commands->v[i], out, to, why)) == MRD_OK)
        err = gather(&from, "", 0, to, why);
    while (err != MRD_OK && to->n > before)
        free(to->v[--to->n].file);
    free(out);
    return err;
}

mrd_err
mrd_converter_run(const mrd_converter_work *work, mrd_converter_made *ret, mrd_why *why)
{
    static const char *const makes[] = { "Perfetto files", "tables" };
    mrd_converter_made made = { 0 };
    mrd_err first = MRD_OK;
    bool good = false;

    for (unsigned i = 0; i < MRD_COUNT(work->commands->v); i++) {
        mrd_why one = { 0 };

        if (work->commands->v[i].len == 0)
            continue;
        if (run_one(work, i, &made, &one) == MRD_OK) {
            good = true;
            continue;
        }
        snprintf(made.note, sizeof(made.note), "no %s: %.560s", makes[i], one.text);
        if (first == MRD_OK || one.err == MRD_CANCELLED) {
            first = one.err;
            if (why != NULL)
                *why = one;
        }
        if (one.err == MRD_CANCELLED)
            break;
    }
    if (first != MRD_CANCELLED && good && made.n == 0)
        first = mrd_why_set(why, MRD_EMPTY, 0,
                            "the viewer ended without error but wrote no device profile");
    else if (first != MRD_CANCELLED && good)
        first = MRD_OK;
    *ret = made;
    return first;
}

void
mrd_converter_made_fini(mrd_converter_made *made)
{
    for (size_t i = 0; i < made->n; i++)
        free(made->v[i].file);
    free(made->v);
}
