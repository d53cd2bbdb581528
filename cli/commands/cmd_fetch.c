/* `meridian fetch SESSION`: downloads the finished files of a session, resumes interrupted
 * downloads and verifies the files. With a time range or a selection of nodes, downloads a file
 * that the aggregator makes for this request. */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/near.h"
#include "base/obj.h"
#include "base/plain.h"
#include "base/sys/out.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "cli/client/fetch_parts.h"
#include "cli/client/untar.h"
#include "cli/term/progress.h"
#include "cli/view/output_lock.h"
#include "trace/sink/group.h"
#include "trace/sink/perfetto/pf_parts.h"
#include "trace/sink/sinks.h"

typedef struct {
    mrd_client_options client;
    mrd_fetch_options fetch;
    mrd_dur_ns wait;
} settings;

#define FETCH(member) .offset = offsetof(settings, fetch.member)

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Output" },
    { .name = "output-dir",
      .letter = 'o',
      .type = MRD_OPT_STR,
      FETCH(dir),
      .arg = "DIR",
      .help = "where the files go (default meridian-<id>)" },
    { .name = "format",
      .letter = 'f',
      .type = MRD_OPT_LIST,
      FETCH(formats),
      .def = "perfetto,summary-text,report-text",
      .arg = "LIST",
      .help = "any of perfetto, json, summary-text, summary-json, report-text, report-json, "
              "report-html, "
              "chrome, overview-json, parquet, parquet-explorer, sqlite, csv, steps-json" },
    /* the same option as --format, under the name that `view` and the vendor's tools use */
    { .name = "output-format",
      .type = MRD_OPT_LIST,
      FETCH(formats),
      .arg = "LIST",
      .flags = MRD_OPT_HIDDEN,
      .help = "as --format" },
    { .name = "artifacts",
      .type = MRD_OPT_BOOL,
      FETCH(artifacts),
      .help = "also the files carried as they are (NTFF, NEFF, ...), as a capture directory" },
    { .name = "force", .type = MRD_OPT_BOOL, FETCH(force), .help = "replace files that exist" },
    { .name = "wait",
      .letter = 'w',
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, wait),
      .def = "0",
      .min = 0,
      .max = 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "first wait until the session is over, at most so long: that of a job is a moment "
              "after the job" },
    { .name = "split",
      .type = MRD_OPT_SIZE,
      FETCH(split),
      .def = MRD_SINK_SPLIT,
      .min = 0,
      .max = INT64_MAX / 2,
      .arg = "SIZE",
      .help = "Perfetto files of slices above this size are split by time; 0: one file (finished "
              "profiles come as the aggregator split them)" },
    { .name = "clock",
      .type = MRD_OPT_CHOICE,
      FETCH(clock),
      .def = "aligned",
      .arg = "aligned,utc,raw",
      .help = "times to write: aligned; utc, each node's own wall clock; raw, each node's "
              "CLOCK_MONOTONIC_RAW" },
    MRD_FETCH_GROUP_ROWS(settings, fetch),
    { .type = MRD_OPT_HEAD, .help = "Slice" },
    { .name = "start",
      .type = MRD_OPT_STR,
      FETCH(start),
      .arg = "TIME",
      .help = "from here: 2.5s after the start, a UTC time, or epoch ns" },
    { .name = "end", .type = MRD_OPT_STR, FETCH(end), .arg = "TIME", .help = "up to here" },
    { .name = "instance-id",
      .type = MRD_OPT_LIST,
      FETCH(instances),
      .arg = "LIST",
      .help = "nodes" },
    { .name = "process-id",
      .type = MRD_OPT_LIST,
      FETCH(processes),
      .arg = "LIST",
      .help = "processes" },
    { .name = "core",
      .type = MRD_OPT_LIST,
      FETCH(cores),
      .arg = "LIST",
      .help = "NeuronCores: 0,2,4-7" },
    { .name = "event-type",
      .type = MRD_OPT_LIST,
      FETCH(types),
      .arg = "LIST",
      .help = "names, or the groups hardware and software; ^name leaves one out" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const char more[] =
    "Examples\n"
    "  meridian fetch latest\n"
    "  meridian fetch latest --format json --start 2s --end 3s --instance-id i-0abc\n"
    "An interrupted fetch of a finished file goes on where it ended when it is repeated.\n";

/* ---- Paths of requests ---- */

mrd_err
mrd_cluster_check_formats(const mrd_strlist *formats, mrd_why *why)
{
    const char *names[32];
    const mrd_sink_ops *const *all;
    size_t n;

    all = mrd_sinks(&n);
    n = n < MRD_COUNT(names) ? n : MRD_COUNT(names);
    for (size_t i = 0; i < n; i++)
        names[i] = all[i]->name;
    for (size_t i = 0; i < formats->n; i++) {
        char guess[MRD_NEAR_TEXT];

        if (mrd_sink_find(mrd_str_of(formats->v[i])) != NULL)
            continue;
        mrd_near_text(formats->v[i], names, n, "", guess);
        return mrd_why_set(why, MRD_INVALID, 0, "--format '%s' is unknown%s", formats->v[i],
                           *guess == '\0' ? " (--help lists them)" : guess);
    }
    return MRD_OK;
}

static void
add_value(mrd_buf *path, const char *key, const char *value)
{
    if (value == NULL || *value == '\0')
        return;
    mrd_buf_fmt(path, "&%s=", key);
    mrd_client_escape(path, value);
}

static void
add_list(mrd_buf *path, const char *key, const mrd_strlist *list)
{
    mrd_buf text = { 0 };

    for (size_t i = 0; i < list->n; i++)
        mrd_buf_fmt(&text, "%s%s", i == 0 ? "" : ",", list->v[i]);
    add_value(path, key, mrd_buf_cstr(&text));
    mrd_buf_fini(&text);
}

static void
profile_path(mrd_buf *path, const char *id, const char *format, const mrd_fetch_options *options)
{
    mrd_buf_text(path, "/api/v1/sessions/");
    mrd_client_escape(path, id);
    mrd_buf_text(path, "/profile?format=");
    mrd_client_escape(path, format);
    if (options->clock != 0)
        add_value(path, "clock", options->clock == 1 ? "utc" : "raw");
    add_value(path, "start", options->start);
    add_value(path, "end", options->end);
    add_list(path, "instance_id", &options->instances);
    add_list(path, "process_id", &options->processes);
    add_list(path, "lnc_idx", &options->cores);
    add_list(path, "event_type", &options->types);
    if (strcmp(format, mrd_sink_perfetto.name) == 0) {
        add_value(path, "primary_group", options->primary);
        add_value(path, "secondary_group", options->secondary);
    }
}

/* ---- Downloading files ---- */

typedef struct {
    mrd_progress line;
    const char *file;
} watching;

static bool
show(void *self, uint64_t done, uint64_t total)
{
    watching *watch = self;

    mrd_progress_show(&watch->line, done, total, "B", watch->file);
    return !mrd_cluster_interrupted();
}

static mrd_err
exists(const char *path, mrd_why *why)
{
    return mrd_why_set(why, MRD_EXISTS, 0,
                       "%s exists: --force replaces it, -o DIR writes elsewhere", path);
}

/* Downloads one file, and appends its size and name to `list`. */
static mrd_err
fetch_file(mrd_client *client, const char *path, const char *to, bool force, mrd_json *list,
           mrd_why *why)
{
    watching watch = { .file = to };
    mrd_json *entry;
    uint64_t size = 0;
    mrd_err err;

    if (!force && access(to, F_OK) == 0)
        return exists(to, why);
    mrd_progress_start(&watch.line, "fetched");
    err = mrd_client_download(client, path, to, show, &watch, &size, why);
    mrd_progress_end(&watch.line);
    if (err == MRD_IO)
        return mrd_why_prefix(why, err, "%s", to);
    if (err == MRD_CANCELLED)
        return mrd_why_set(why, MRD_CANCELLED, 0,
                           "interrupted; the same command goes on with %s.part", to);
    if (err != MRD_OK)
        return err;
    entry = mrd_json_new_object();
    mrd_json_set(entry, "file", mrd_json_new_str(to));
    mrd_json_set(entry, "bytes", mrd_json_new_int((int64_t) size));
    return mrd_json_append(list, entry);
}

static bool
is_slice(const mrd_fetch_options *options)
{
    return options->clock != 0 || options->start != NULL || options->end != NULL ||
           options->instances.n > 0 || options->processes.n > 0 || options->cores.n > 0 ||
           options->types.n > 0;
}

/* Returns true if the aggregator has no finished file for these options, and makes the file for
 * this request. */
static bool
is_made(const mrd_fetch_options *options, const mrd_sink_ops *ops)
{
    return is_slice(options) ||
           (ops == &mrd_sink_perfetto && (options->primary != NULL || options->secondary != NULL));
}

/* Compares a downloaded file with the aggregator's hash. Accepts a file for which the aggregator
 * has no hash. Removes a wrong file, so that the next attempt downloads it from the start. */
static mrd_err
verify(mrd_client *client, const char *id, const char *to, mrd_why *why)
{
    const char *name = strrchr(to, '/') + 1, *line;
    char hex[MRD_SHA256_HEX];
    mrd_buf path = { 0 }, sums = { 0 }, end = { 0 };
    mrd_err err;

    mrd_buf_fmt(&path, "/api/v1/sessions/%s/profile/SHA256SUMS", id);
    mrd_buf_fmt(&end, "  %s\n", name);
    err = mrd_client_text(client, mrd_buf_cstr(&path), &sums, why);
    line = err == MRD_OK ? strstr(mrd_buf_cstr(&sums), mrd_buf_cstr(&end)) : NULL;
    if (err == MRD_NOTFOUND || (err == MRD_OK && line == NULL)) {
        err = MRD_OK;
    } else if (err == MRD_OK && (err = mrd_sha256_file(to, hex, NULL, why)) == MRD_OK &&
               (line - mrd_buf_cstr(&sums) < 64 || memcmp(line - 64, hex, 64) != 0)) {
        unlink(to);
        err = mrd_why_set(why, MRD_CORRUPT, 0,
                          "%s is not what the aggregator wrote (SHA-256 %s): the part fetched "
                          "earlier was damaged, or it is being merged again; fetch it again",
                          to, hex);
    }
    mrd_buf_fini(&path);
    mrd_buf_fini(&sums);
    mrd_buf_fini(&end);
    return err;
}

/* Unpacks the downloaded archive of a format with several files, and removes the archive. */
static mrd_err
unpack(const char *archive, const mrd_sink_ops *ops, const char *dir, mrd_json *list, mrd_why *why)
{
    mrd_json *entry = mrd_json_at(list, mrd_json_size(list) - 1);
    mrd_buf folder = { 0 };
    mrd_err err;

    mrd_buf_fmt(&folder, "%s/%s", dir, ops->stem);
    err = mrd_untar(archive, mrd_buf_cstr(&folder), MRD_FOLDER_MANIFEST, why);
    if (err == MRD_OK)
        err = mrd_json_set(entry, "file", mrd_json_new_str(mrd_buf_cstr(&folder)));
    (void) unlink(archive);
    mrd_buf_fini(&folder);
    return err;
}

/* Returns EXISTS if the output of this format exists already. The output is a file, or a directory
 * with a manifest. */
static mrd_err
taken(const mrd_sink_ops *ops, const char *dir, mrd_why *why)
{
    mrd_buf to = { 0 };
    mrd_err err = MRD_OK;

    mrd_buf_fmt(&to, "%s/%s%s", dir, ops->stem,
                ops->folder ? "/" MRD_FOLDER_MANIFEST : ops->suffix);
    if (access(mrd_buf_cstr(&to), F_OK) == 0)
        err = exists(mrd_buf_cstr(&to), why);
    mrd_buf_fini(&to);
    return err;
}

/* Downloads a further file of a finished profile, unless an earlier fetch downloaded it. */
static mrd_err
fetch_part(mrd_client *client, const char *id, const char *to, const mrd_fetch_options *options,
           mrd_json *list, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_err err;

    if (!options->force && access(to, F_OK) == 0 && verify(client, id, to, NULL) == MRD_OK)
        return mrd_fetch_list(list, to);
    mrd_buf_fmt(&path, "/api/v1/sessions/%s/profile/%s", id, strrchr(to, '/') + 1);
    err = path.err != MRD_OK ? mrd_why_set(why, MRD_NOMEM, 0, "fetch")
                             : fetch_file(client, mrd_buf_cstr(&path), to, true, list, why);
    mrd_buf_fini(&path);
    return err == MRD_OK ? verify(client, id, to, why) : err;
}

/* Downloads the further parts of a finished Perfetto profile, then their index. */
static mrd_err
fetch_parts(mrd_client *client, const char *id, const char *trace, size_t parts,
            const mrd_fetch_options *options, mrd_json *list, mrd_why *why)
{
    mrd_buf to = { 0 };
    mrd_err err = MRD_OK;

    mrd_pf_parts_stale(trace, parts);
    for (size_t part = 2; part <= parts && err == MRD_OK; part++) {
        mrd_pf_part_path(trace, part, &to);
        err = to.err != MRD_OK ? mrd_why_set(why, MRD_NOMEM, 0, "fetch")
                               : fetch_part(client, id, mrd_buf_cstr(&to), options, list, why);
    }
    if (err == MRD_OK) {
        mrd_pf_index_path(trace, &to);
        err = to.err != MRD_OK ? mrd_why_set(why, MRD_NOMEM, 0, "fetch")
                               : fetch_part(client, id, mrd_buf_cstr(&to), options, list, why);
    }
    mrd_buf_fini(&to);
    return err;
}

/* Asks the aggregator whether the profile is finished, and how many files it has. A number of 0
 * means one file, or unknown. */
static mrd_err
profile_state(mrd_client *client, const char *id, bool *ret_finished, size_t *ret_parts,
              mrd_why *why)
{
    mrd_json *doc = NULL;
    mrd_err err = mrd_cluster_call(client, "GET", id, "", NULL, &doc, why);

    if (err != MRD_OK)
        return err;
    *ret_finished = strcmp(mrd_json_str(mrd_json_get(doc, "profile"), "state", ""), "done") == 0;
    *ret_parts = mrd_json_size(mrd_json_get(doc, "profile_parts"));
    mrd_json_free(doc);
    return MRD_OK;
}

/* Downloads a Perfetto trace that may have several files. If the profile is finished, downloads
 * each of its files, and the first file last. Otherwise downloads an archive of all files, which is
 * made for this request. */
static mrd_err
fetch_perfetto(mrd_client *client, const char *id, mrd_buf *path, const char *to,
               const mrd_fetch_options *options, mrd_json *list, mrd_why *why)
{
    mrd_buf archive = { 0 };
    bool finished = false;
    size_t parts = 0;
    mrd_err err = profile_state(client, id, &finished, &parts, why);

    if (err == MRD_OK && finished && !is_made(options, &mrd_sink_perfetto)) {
        if (parts > 1)
            err = fetch_parts(client, id, to, parts, options, list, why);
        if (err == MRD_OK)
            err = fetch_file(client, mrd_buf_cstr(path), to, options->force, list, why);
        if (err == MRD_OK && parts <= 1)
            mrd_pf_parts_stale(to, 1);
        return err;
    }
    if (err == MRD_OK && options->split == 0)
        return fetch_file(client, mrd_buf_cstr(path), to, options->force, list, why);
    mrd_buf_fmt(path, "&split=%lld", (long long) options->split);
    mrd_buf_fmt(&archive, "%s.tar", to);
    if (err == MRD_OK && (path->err != MRD_OK || archive.err != MRD_OK))
        err = mrd_why_set(why, MRD_NOMEM, 0, "fetch");
    if (err == MRD_OK)
        err = fetch_file(client, mrd_buf_cstr(path), mrd_buf_cstr(&archive), true, list, why);
    if (err == MRD_OK)
        err = mrd_fetch_unpack(mrd_buf_cstr(&archive), to, list, why);
    mrd_buf_fini(&archive);
    return err;
}

static mrd_err
fetch_profile(mrd_client *client, const char *id, const char *format, const char *dir,
              const mrd_fetch_options *options, mrd_json *list, mrd_why *why)
{
    const mrd_sink_ops *ops = mrd_sink_find(mrd_str_of(format));
    bool in_parts = ops == &mrd_sink_perfetto;
    mrd_buf path = { 0 }, to = { 0 };
    mrd_err err;

    profile_path(&path, id, format, options);
    mrd_buf_fmt(&to, "%s/%s%s", dir, ops->stem, ops->suffix);
    if (path.err != MRD_OK || to.err != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "fetch");
    else if (options->force || (err = taken(ops, dir, why)) == MRD_OK)
        err = in_parts ? fetch_perfetto(client, id, &path, mrd_buf_cstr(&to), options, list, why)
                       : fetch_file(client, mrd_buf_cstr(&path), mrd_buf_cstr(&to), options->force,
                                    list, why);
    if (err == MRD_OK && !is_made(options, ops))
        err = verify(client, id, mrd_buf_cstr(&to), why);
    if (err == MRD_OK && ops->folder)
        err = unpack(mrd_buf_cstr(&to), ops, dir, list, why);
    mrd_buf_fini(&path);
    mrd_buf_fini(&to);
    return err;
}

mrd_err
mrd_cluster_print_profile(mrd_client *client, const char *id, const char *format,
                          const mrd_fetch_options *options, FILE *to, mrd_why *why)
{
    mrd_buf path = { 0 };
    char dir[] = "/tmp/meridian-XXXXXX", file[sizeof(dir) + 16], block[65536];
    mrd_err err = MRD_OK;
    FILE *stream = NULL;
    size_t n;

    if (mkdtemp(dir) == NULL)
        return mrd_why_set(why, MRD_IO, errno, "cannot make a folder below /tmp");
    snprintf(file, sizeof(file), "%s/profile", dir);
    profile_path(&path, id, format, options);
    if (path.err != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "fetch");
    else
        err = mrd_client_download(client, mrd_buf_cstr(&path), file, NULL, NULL, NULL, why);
    if (err == MRD_OK && (stream = fopen(file, "r")) == NULL)
        err = mrd_why_set(why, MRD_IO, errno, "cannot read %s", file);
    if (err == MRD_OK && strcmp(format, "report-html") != 0)
        mrd_text_show(stream, mrd_str_ends(mrd_str_of(format), "json"), to);
    while (err == MRD_OK && (n = fread(block, 1, sizeof(block), stream)) > 0)
        fwrite(block, 1, n, to);
    if (err == MRD_OK && ferror(to))
        err = mrd_why_set(why, MRD_IO, errno, "cannot write the output");
    if (stream != NULL)
        fclose(stream);
    unlink(file);
    strcat(file, ".part");
    unlink(file);
    rmdir(dir);
    mrd_buf_fini(&path);
    return err;
}

/* ---- Artifacts (stored files) in the vendor's directory tree: <instance>_pid_<pid>/... ---- */

/* Appends a name that the aggregator sent. Changes it so that it is one valid component of a
 * path. */
static void
component(mrd_buf *to, mrd_str name)
{
    for (size_t i = 0; i < name.len && i < 200; i++) {
        char c = name.p[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    strchr("-_.", c) != NULL;

        mrd_buf_byte(to, fine && !(i == 0 && c == '.') ? (uint8_t) c : '_');
    }
}

static mrd_err
make_folder(const char *dir, mrd_why *why)
{
    struct stat st;

    if (mkdir(dir, 0777) == 0)
        return MRD_OK;
    if (errno == EEXIST && stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
        return mrd_why_set(why, MRD_EXISTS, 0, "%s is a file: -o names a folder", dir);
    return errno == EEXIST ? MRD_OK
                           : mrd_why_set(why, MRD_IO, errno, "cannot make the folder %s", dir);
}

/* Appends the directory of the artifact's process, unless the artifact's name begins with a
 * directory. */
static void
process_folder(mrd_buf *to, const mrd_json *json)
{
    const char *name = mrd_json_str(json, "name", "");
    mrd_str first = { name, strcspn(name, "/") };
    int64_t pid = mrd_json_int(json, "process_id", MRD_NONE);

    if (name[first.len] == '/' && memmem(first.p, first.len, "_pid_", 5) != NULL)
        return;
    component(to, mrd_str_of(mrd_json_str(json, "instance_id", "unknown")));
    if (pid != MRD_NONE)
        mrd_buf_fmt(to, "_pid_%" PRId64, pid);
    mrd_buf_byte(to, '/');
}

/* Gets the local path of an artifact and creates its directories. If another artifact has the same
 * path but other contents, the hash precedes the file name. */
static mrd_err
artifact_path(const char *dir, const mrd_json *json, const char *sha, mrd_strlist *taken,
              mrd_buf *ret_path, mrd_why *why)
{
    const char *p = mrd_json_str(json, "name", "artifact");
    mrd_buf tree = { 0 };
    size_t last = 0;
    mrd_err err = MRD_OK;

    mrd_buf_fmt(&tree, "%s/", dir);
    process_folder(&tree, json);
    for (size_t n; *p != '\0'; p += n + (p[n] == '/')) {
        n = strcspn(p, "/");
        last = tree.len;
        component(&tree, (mrd_str){ p, n });
        if (p[n] == '/')
            mrd_buf_byte(&tree, '/');
    }
    for (size_t i = strlen(dir) + 1; i < last && err == MRD_OK; i++) {
        if (tree.p[i] != '/')
            continue;
        mrd_buf_reset(ret_path);
        mrd_buf_add(ret_path, tree.p, i);
        err = make_folder(mrd_buf_cstr(ret_path), why);
    }
    mrd_buf_reset(ret_path);
    mrd_buf_text(ret_path, mrd_buf_cstr(&tree));
    if (err == MRD_OK && mrd_strlist_has(taken, mrd_str_of(mrd_buf_cstr(ret_path)))) {
        mrd_buf_reset(ret_path);
        mrd_buf_fmt(ret_path, "%.*s%.12s-%s", (int) last, (const char *) tree.p, sha,
                    mrd_buf_cstr(&tree) + last);
    }
    if (err == MRD_OK && (tree.err != MRD_OK || ret_path->err != MRD_OK ||
                          mrd_strlist_add(taken, mrd_str_of(mrd_buf_cstr(ret_path))) != MRD_OK))
        err = mrd_why_set(why, MRD_NOMEM, 0, "fetch");
    mrd_buf_fini(&tree);
    return err;
}

static bool
holds(const char *path, const char *sha)
{
    char hex[MRD_SHA256_HEX];
    uint64_t size;

    return mrd_sha256_file(path, hex, &size, NULL) == MRD_OK && strcmp(hex, sha) == 0;
}

/* The artifacts that were fetched until now. `taken` has all paths that are in use. `files` has one
 * downloaded file for each content, and `hashes[i]` is the hash of the content of `files[i]`. */
typedef struct {
    mrd_strlist taken, hashes, files;
} fetched;

static const char *
file_of(const fetched *f, const char *sha)
{
    for (size_t i = 0; i < f->hashes.n; i++) {
        if (strcmp(f->hashes.v[i], sha) == 0)
            return f->files.v[i];
    }
    return NULL;
}

/* Makes a hard link to a fetched file with the same contents, instead of a second copy. Returns
 * false if the file system has no hard links. */
static bool
linked(const char *from, const char *to, bool force, mrd_json *list)
{
    mrd_json *entry;

    if (force)
        (void) unlink(to);
    if (link(from, to) != 0)
        return false;
    entry = mrd_json_new_object();
    mrd_json_set(entry, "file", mrd_json_new_str(to));
    mrd_json_set(entry, "same_as", mrd_json_new_str(from));
    return mrd_json_append(list, entry) == MRD_OK;
}

static mrd_err
download_artifact(mrd_client *client, const char *id, const char *sha, const char *to, bool force,
                  mrd_json *list, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_err err;

    if (access(to, F_OK) == 0 && holds(to, sha))
        return MRD_OK; /* an earlier fetch that was interrupted may have completed this file */
    mrd_buf_fmt(&path, "/api/v1/sessions/%s/artifacts/", id);
    mrd_client_escape(&path, sha);
    err = fetch_file(client, mrd_buf_cstr(&path), to, force, list, why);
    if (err == MRD_OK && !holds(to, sha)) {
        unlink(to);
        err = mrd_why_set(why, MRD_CORRUPT, 0, "%s is not what was recorded: SHA-256 is not %s", to,
                          sha);
    }
    mrd_buf_fini(&path);
    return err;
}

static mrd_err
fetch_artifact(mrd_client *client, const char *id, const mrd_json *json, const char *dir,
               bool force, fetched *done, mrd_json *list, mrd_why *why)
{
    const char *sha = mrd_json_str(json, "sha256", ""), *same = file_of(done, sha), *to;
    mrd_buf path = { 0 };
    mrd_err err = artifact_path(dir, json, sha, &done->taken, &path, why);

    to = mrd_buf_cstr(&path);
    if (err == MRD_OK && (same == NULL || !linked(same, to, force, list)))
        err = download_artifact(client, id, sha, to, force, list, why);
    if (err == MRD_OK && same == NULL &&
        (mrd_strlist_add(&done->hashes, mrd_str_of(sha)) != MRD_OK ||
         mrd_strlist_add(&done->files, mrd_str_of(to)) != MRD_OK))
        err = mrd_why_set(why, MRD_NOMEM, 0, "fetch");
    mrd_buf_fini(&path);
    return err;
}

static mrd_err
fetch_artifacts(mrd_client *client, const char *id, const char *dir, bool force, mrd_json *list,
                mrd_why *why)
{
    mrd_json *doc = NULL;
    const mrd_json *all;
    fetched done = { 0 };
    mrd_err err = mrd_cluster_call(client, "GET", id, "/artifacts", NULL, &doc, why);

    all = mrd_json_get(doc, "artifacts");
    for (size_t i = 0; err == MRD_OK && i < mrd_json_size(all); i++) {
        if (mrd_json_bool(mrd_json_at(all, i), "complete", false))
            err = fetch_artifact(client, id, mrd_json_at(all, i), dir, force, &done, list, why);
    }
    mrd_strlist_fini(&done.taken);
    mrd_strlist_fini(&done.hashes);
    mrd_strlist_fini(&done.files);
    mrd_json_free(doc);
    return err;
}

static mrd_err
check_group(const char *option, const char *words, mrd_why *why)
{
    mrd_group group;
    mrd_err err = words == NULL ? MRD_OK : mrd_group_parse(mrd_str_of(words), &group, why);

    return err == MRD_OK ? MRD_OK : mrd_why_prefix(why, err, "%s", option);
}

static mrd_err
check_options(const mrd_fetch_options *options, mrd_why *why)
{
    mrd_err err = mrd_cluster_check_formats(&options->formats, why);

    if (err == MRD_OK)
        err = check_group("--system-trace-primary-group", options->primary, why);
    if (err == MRD_OK)
        err = check_group("--system-trace-secondary-group", options->secondary, why);
    return err;
}

mrd_err
mrd_cluster_check_output(const mrd_fetch_options *options, mrd_why *why)
{
    mrd_err err = check_options(options, why);

    if (err == MRD_OK && options->dir != NULL && (err = make_folder(options->dir, why)) == MRD_OK)
        /* succeeds only if the directory is empty; a later step creates it again */
        (void) rmdir(options->dir);
    for (size_t i = 0;
         err == MRD_OK && options->dir != NULL && !options->force && i < options->formats.n; i++)
        err = taken(mrd_sink_find(mrd_str_of(options->formats.v[i])), options->dir, why);
    return err;
}

mrd_err
mrd_cluster_fetch(mrd_client *client, const char *id, const mrd_fetch_options *options,
                  mrd_json *list, mrd_why *why)
{
    mrd_buf dir = { 0 };
    mrd_output_lock lock = MRD_OUTPUT_LOCK_NONE;
    mrd_err err = check_options(options, why);

    if (options->dir != NULL)
        mrd_buf_text(&dir, options->dir);
    else
        mrd_buf_fmt(&dir, "meridian-%s", id);
    if (err == MRD_OK && (err = make_folder(mrd_buf_cstr(&dir), why)) == MRD_OK)
        err = mrd_output_lock_take(&lock, mrd_buf_cstr(&dir), why);
    for (size_t i = 0; err == MRD_OK && i < options->formats.n; i++)
        err = fetch_profile(client, id, options->formats.v[i], mrd_buf_cstr(&dir), options, list,
                            why);
    if (err == MRD_OK && options->artifacts)
        err = fetch_artifacts(client, id, mrd_buf_cstr(&dir), options->force, list, why);
    mrd_output_lock_release(&lock);
    mrd_buf_fini(&dir);
    return err;
}

void
mrd_cluster_print_files(const mrd_json *list, FILE *to)
{
    const char *trace = NULL;
    size_t parts = 0;

    for (size_t i = 0; i < mrd_json_size(list); i++) {
        const char *file = mrd_json_str(mrd_json_at(list, i), "file", "?");
        uint64_t bytes = (uint64_t) mrd_json_int(mrd_json_at(list, i), "bytes", 0);
        char size[MRD_SIZE_TEXT];
        mrd_buf line = { 0 };

        mrd_plain_text(&line, mrd_str_of(file));
        if (mrd_json_str(mrd_json_at(list, i), "same_as", NULL) != NULL) {
            mrd_buf_text(&line, "  same as ");
            mrd_plain_text(&line, mrd_str_of(mrd_json_str(mrd_json_at(list, i), "same_as", "")));
        } else {
            mrd_buf_fmt(&line, "  %s", mrd_cli_size(bytes, size));
        }
        fprintf(to, "%s\n", mrd_buf_cstr(&line));
        mrd_buf_fini(&line);
        parts +=
            mrd_str_ends(mrd_str_of(file), ".pftrace") && strstr(file, "system_profile.") != NULL;
        if (mrd_str_ends(mrd_str_of(file), "system_profile.pftrace") ||
            (trace == NULL && mrd_str_ends(mrd_str_of(file), ".pftrace")))
            trace = file;
    }
    if (trace != NULL)
        fprintf(to, "open it with: meridian open %s%s\n", trace,
                parts > 1 ? " (each .pftrace is a part by time and opens alone)" : "");
}

/* ---- The subcommand ---- */

/* Gets the state of the session, after waiting for its end for at most the time of `--wait`.
 * Without `--wait`, gets the state immediately. */
static mrd_err
look(mrd_client *client, const settings *set, const char *id, mrd_json **ret_doc, mrd_why *why)
{
    mrd_err err = mrd_cluster_end(client, set->client.timeout, id, set->wait, ret_doc, why);

    if (err == MRD_TIMEOUT && *ret_doc != NULL)
        err = MRD_OK;
    return err != MRD_OK ? err : mrd_cluster_check_begun(*ret_doc, why);
}

static mrd_err
fetch(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    char id[MRD_CLUSTER_ID];
    mrd_json *list = mrd_json_new_array(), *doc = NULL;
    bool complete;
    mrd_err err = mrd_cluster_check_formats(&set->fetch.formats, why);

    if (err == MRD_OK &&
        (err = mrd_cluster_find(client, word, MRD_CLUSTER_READ, id, why)) == MRD_OK)
        err = look(client, set, id, &doc, why);
    complete = err == MRD_OK && mrd_cluster_in(doc, "complete");
    if (err == MRD_OK && !complete)
        fprintf(stderr, "session %s is %s: this is what has arrived so far\n", id,
                mrd_json_str(doc, "state", "?"));
    mrd_cluster_catch();
    if (err == MRD_OK)
        err = mrd_cluster_fetch(client, id, &set->fetch, list, why);
    if (err == MRD_OK)
        err = mrd_cluster_again(client, id, &doc, why);
    if (err == MRD_OK && set->client.json)
        mrd_cluster_print_json(list);
    else if (mrd_json_size(list) > 0 && !set->client.json)
        mrd_cluster_print_files(list, stdout);
    if (err == MRD_OK && (!mrd_cluster_whole(doc, "fetch") || !complete))
        *ret_status = MRD_EXIT_INCOMPLETE;
    mrd_json_free(doc);
    mrd_json_free(list);
    return err;
}

int
mrd_cmd_fetch(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = { .name = "fetch",
                                    .usage = "SESSION [-o DIR] [--format LIST] [options]",
                                    .more = more,
                                    .table = table,
                                    .rows = MRD_COUNT(table),
                                    .settings = &set,
                                    .client = &set.client,
                                    .min_words = 1,
                                    .max_words = 1,
                                    .run = fetch };

    return mrd_cluster_main(&command, argc, argv);
}
