/*
 * trace/import/import_dir.c - reads a directory of files that the Neuron runtime captured, with
 * any number of processes and nodes. There are two layouts:
 *
 *   old   <dir>/<instance>_pid_<pid>/…
 *   new   <dir>/<instance>_pid_<pid>/<timestamp>/…
 *
 * The directory's name states instance and pid. The file's name states core, session, model and
 * rank. Trace files are recognised by content. NTFF, NEFF and .pb files are hashed and listed. If
 * the vendor's viewer is installed, it converts them.
 */
#include "trace/import/import.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/sys/out.h"
#include "trace/import/capture_names.h"
#include "trace/import/vendor.h"

#define DIR_DEPTH 16

typedef struct {
    const mrd_read_options *options;
    const char *root;
    mrd_identity nowhere;
    /* number of files: read, of unknown kind, and written by Meridian */
    size_t read, unknown, own;
    size_t earlier; /* number of files skipped because they are from earlier runs */
    /* number of JSON files of the XLA profiler skipped in favour of the XSpace with the same
     * events */
    size_t twice;
    size_t temporary; /* number of temporary files skipped because the finished file exists */
    /* the current entry of the root directory existed before the recording began, so it may be from
     * an earlier recording */
    bool was_there;
    bool found_any;          /* the directory has a file, or a subdirectory that was not searched */
    size_t ntff, neff, pb;   /* numbers of artifacts found, by kind */
    uint32_t first_artifact; /* index of the directory's first artifact in the catalog */
    /* whether the directory has JSON files with a system profile, and with a device profile */
    bool system_json, device_json;
    /* path of the first unknown file, as an example in the note about all of them */
    mrd_buf unknown_name;
    mrd_buf temporary_name; /* path of the first temporary file, for a note about all */
    /* profiles in this directory that Meridian wrote and can read; `own` counts them, too */
    mrd_strlist profiles;
    /* true: read the files in `profiles`, because the directory has no other inputs */
    bool read_own;
} dir_walk;

/* Returns the identity (node, pid, core and so on) from the names of the directory (`folder`) and
 * the file (`name`). The file's name has priority. */
static mrd_identity
dir_identity(const dir_walk *walk, const mrd_identity *folder, mrd_str name)
{
    mrd_identity id = *folder;
    mrd_str instance, rest;
    int64_t pid, v;

    if (mrd_capture_split(name, &instance, &pid, &rest)) {
        id.instance_id = mrd_strtab_add(mrd_catalog_strings(walk->options->catalog), instance);
        id.process_id = pid;
    }
    if ((v = mrd_capture_number(name, "_nc_")) != MRD_NONE ||
        (v = mrd_capture_number(name, "_vnc_")) != MRD_NONE)
        id.nc_idx = v;
    if ((v = mrd_capture_number(name, "_session_")) != MRD_NONE)
        id.session = v;
    if ((v = mrd_capture_number(name, "_model_")) != MRD_NONE)
        id.model = v;
    if ((v = mrd_capture_number(name, "_rank_")) != MRD_NONE)
        id.rank = v;
    return id;
}

static const char *
artifact_kind(mrd_str name)
{
    const char *kind = mrd_capture_kind(name);

    return kind == NULL && mrd_str_ends(name, ".pb") ? "protobuf" : kind;
}

static void
add_artifact(dir_walk *walk, const char *path, const char *kind, const mrd_identity *id)
{
    mrd_catalog *cat = walk->options->catalog;
    mrd_artifact artifact = { .path = mrd_catalog_intern(cat, path),
                              .kind = mrd_catalog_intern(cat, kind),
                              .instance_id = id->instance_id,
                              .process_id = id->process_id,
                              .nc_idx = id->nc_idx };
    mrd_why why = { 0 };

    if (mrd_sha256_file(path, artifact.sha256, &artifact.size, &why) != MRD_OK) {
        artifact.sha256[0] = '\0';
        mrd_catalog_note(cat, "not hashed: %s", why.text);
    }
    mrd_catalog_add_artifact(cat, &artifact);
    if (strcmp(kind, "NTFF") == 0)
        walk->ntff++;
    else if (strcmp(kind, "NEFF") == 0)
        walk->neff++;
    /* an XSpace needs no conversion: either it is read itself, or its JSON is */
    else if (strcmp(kind, "XSpace") != 0)
        walk->pb++;
}

/* Maximum size in bytes up to which an XSpace is read. The XLA profiler writes a host's events
 * twice: as <host>.xplane.pb (an XSpace) and as <host>.trace.json.gz. The XSpace is preferred,
 * because only it has all events and the start time. A larger XSpace is skipped in favour of the
 * JSON, which has at most a million events. */
#define XSPACE_READ (256 << 20)

/* Returns the size in bytes of a sibling of `path`, -1 if it does not exist. The sibling's path is
 * the first `stem` bytes of `path`, followed by `end`. */
static int64_t
size_beside(const char *path, size_t stem, const char *end)
{
    char beside[PATH_MAX];
    struct stat st;

    return snprintf(beside, sizeof(beside), "%.*s%s", (int) stem, path, end) < PATH_MAX &&
                   stat(beside, &st) == 0
               ? (int64_t) st.st_size
               : -1;
}

/* Returns true if the folder of `path` contains another trace of the XLA profiler. */
static bool
has_trace_beside(const char *path)
{
    static const char *const ends[] = { ".xplane.pb", ".trace.json", ".trace.json.gz" };
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    struct dirent *entry;
    bool found = false;
    DIR *dir;

    if (snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int) (slash - path) + 1,
                 slash == NULL ? "." : path) >= PATH_MAX ||
        (dir = opendir(folder)) == NULL)
        return false;
    while (!found && (entry = readdir(dir)) != NULL) {
        for (size_t i = 0; i < MRD_COUNT(ends) && !found; i++)
            found = mrd_str_ends(mrd_str_of(entry->d_name), ends[i]);
    }
    closedir(dir);
    return found;
}

/* Returns true if `path` can be skipped, because another file has the same events and is read. This
 * applies to an XSpace and the JSON file of the same host. With create_perfetto_trace, JAX writes
 * the JSON file of its own host a second time, as perfetto_trace.json.gz. */
static bool
is_read_beside(const char *path)
{
    static const char space[] = ".xplane.pb";
    static const char *const json[] = { ".trace.json", ".trace.json.gz" };
    const char *slash = strrchr(path, '/');
    mrd_str name = mrd_str_of(path);
    size_t stem = name.len - (sizeof(space) - 1);
    int64_t size;

    if (strcmp(slash == NULL ? path : slash + 1, "perfetto_trace.json.gz") == 0)
        return has_trace_beside(path);
    if (mrd_str_ends(name, space))
        return size_beside(path, stem, space) > XSPACE_READ &&
               (size_beside(path, stem, json[0]) >= 0 || size_beside(path, stem, json[1]) >= 0);
    for (size_t i = 0; i < MRD_COUNT(json); i++) {
        if (!mrd_str_ends(name, json[i]))
            continue;
        size = size_beside(path, name.len - strlen(json[i]), space);
        return size >= 0 && size <= XSPACE_READ;
    }
    return false;
}

/* Returns true if `path` is a temporary file and the finished file exists, too. A temporary file
 * alone is read, because it may be the only copy of a trace. */
static bool
is_temporary_copy(const char *path)
{
    static const char *const suffixes[] = { ".tmp", ".part", ".partial", ".swp", "~" };
    mrd_str name = mrd_str_of(path);

    for (size_t i = 0; i < MRD_COUNT(suffixes); i++) {
        if (mrd_str_ends(name, suffixes[i]) &&
            size_beside(path, name.len - strlen(suffixes[i]), "") > 0)
            return true;
    }
    return false;
}

/* Returns true if the file consists of complete JSON documents and nothing else. */
static bool
is_whole_json(const char *path)
{
    mrd_json_reader *reader = NULL;
    mrd_in *in = NULL;
    bool whole = false;

    if (mrd_in_file(path, &in, NULL) == MRD_OK &&
        mrd_json_reader_open(in, &reader, NULL) == MRD_OK) {
        mrd_str key, text;
        mrd_jr_type type;

        mrd_json_many(reader);
        while ((type = mrd_json_next(reader, &key, &text)) != MRD_JR_ERROR && type != MRD_JR_END)
            if (type == MRD_JR_WORD)
                break; /* only an object, an array or a string counts as a document */
        whole = type == MRD_JR_END;
    }
    mrd_json_reader_close(reader);
    mrd_in_close(in);
    return whole;
}

/* Returns true if the name ends like the name of a JSON file. Damaged JSON files are reported. */
static bool
name_says_json(mrd_str name)
{
    static const char *const suffixes[] = { ".json",  ".json.gz",  ".json.zst",
                                            ".jsonl", ".jsonl.gz", ".jsonl.zst" };

    for (size_t i = 0; i < MRD_COUNT(suffixes); i++) {
        if (mrd_str_ends(name, suffixes[i]))
            return true;
    }
    return false;
}

/* Returns true if Meridian writes profiles with this name in a format that it can read: json,
 * chrome or perfetto. The vendor's viewer uses the same names. */
static bool
is_profile_name(mrd_str name)
{
    const char *dot = memchr(name.p, '.', name.len);
    mrd_str rest = { dot, dot == NULL ? 0 : name.len - (size_t) (dot - name.p) };

    if (!mrd_str_starts(name, "system_profile.") && !mrd_str_starts(name, "device_profile_model_"))
        return false;
    return mrd_str_ends(name, ".pftrace") ||
           (name_says_json(name) && !mrd_str_starts(rest, ".overview."));
}

typedef enum { HEAD_UNKNOWN, HEAD_TRACE, HEAD_OWN } dir_head;

/* Classifies a file by its first bytes. HEAD_OWN means that Meridian wrote it. Such a file is read
 * only if the user names it, or if the directory has no other inputs. */
static dir_head
look_at(const char *path)
{
    static const char own[] = "\"meridian\"", tables[] = "\"meridian tables\"";
    /* This key is near the start of session.json, the manifest of a Meridian session. */
    static const char release[] = "\"release\"";
    mrd_bytes head = { NULL, 0 };
    mrd_in *in = NULL;
    dir_head found = HEAD_UNKNOWN;

    if (mrd_in_file(path, &in, NULL) == MRD_OK &&
        mrd_in_fill(in, MRD_PROBE_BYTES, &head, NULL) == MRD_OK && head.len > 0) {
        mrd_str text = { (const char *) head.p, head.len };
        size_t first = head.len < 256 ? head.len : 256;

        if (memmem(head.p, first, own, sizeof(own) - 1) != NULL ||
            memmem(head.p, first, tables, sizeof(tables) - 1) != NULL)
            found = HEAD_OWN;
        else if (mrd_import_detect(text, path) != NULL)
            found = mrd_import_is_own_perfetto(text) ? HEAD_OWN : HEAD_TRACE;
        else if (mrd_str_ends(mrd_str_of(path), "/session.json") &&
                 memmem(head.p, first, release, sizeof(release) - 1) != NULL)
            found = HEAD_OWN;
    }
    mrd_in_close(in);
    return found;
}

static mrd_err
dir_file(dir_walk *walk, const char *path, mrd_str name, const mrd_identity *folder, mrd_why *why)
{
    mrd_identity id = dir_identity(walk, folder, name);
    const char *kind = artifact_kind(name);
    dir_head head;
    bool is_trace;

    if (kind != NULL) {
        add_artifact(walk, path, kind, &id);
        if (strcmp(kind, "XSpace") != 0 || is_read_beside(path))
            return MRD_OK;
        walk->read++;
        return mrd_read_file(walk->options, path, &id, why);
    }
    if (is_read_beside(path)) {
        walk->twice++;
        return MRD_OK;
    }
    if (is_temporary_copy(path)) {
        if (walk->temporary++ == 0)
            mrd_buf_text(&walk->temporary_name, path);
        return MRD_OK;
    }
    head = mrd_str_is(name, "summary.txt") || mrd_str_is(name, "report.txt") ||
                   mrd_str_is(name, "profile.sqlite")
               ? HEAD_OWN
               : look_at(path);
    is_trace = head != HEAD_UNKNOWN;
    if (mrd_str_ends(name, ".pftrace") && is_profile_name(name))
        head = HEAD_OWN;
    if (head == HEAD_OWN) {
        walk->own++;
        if (is_trace && (is_profile_name(name) || mrd_str_ends(name, ".pftrace")) &&
            mrd_strlist_add(&walk->profiles, mrd_str_of(path)) != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
        return MRD_OK;
    }
    /* JSON in an unknown format is ignored, because jobs store configurations and the like next to
     * their traces. */
    if (head == HEAD_UNKNOWN && (!name_says_json(name) || is_whole_json(path))) {
        if (walk->unknown++ == 0)
            mrd_buf_text(&walk->unknown_name, path);
        return MRD_OK;
    }
    walk->read++;
    walk->system_json = walk->system_json || mrd_str_starts(name, "system_profile");
    walk->device_json = walk->device_json || memmem(name.p, name.len, "_nc_", 4) != NULL ||
                        mrd_str_starts(name, "device_profile");
    return mrd_read_file(walk->options, path, &id, why);
}

static void
dir_failed(dir_walk *walk, const char *path, const mrd_why *why)
{
    mrd_catalog *cat = walk->options->catalog;
    mrd_input in = { .path = mrd_catalog_intern(cat, path), .state = MRD_INPUT_FAILED };

    in.format = mrd_catalog_intern(cat, "folder");
    in.error = mrd_catalog_intern(cat, why->text);
    mrd_catalog_add_input(cat, &in);
}

static void
dir_unreadable(dir_walk *walk, const char *path, int sys)
{
    mrd_why why = { 0 };

    mrd_why_set(&why, MRD_IO, sys, "%s: cannot read", path);
    dir_failed(walk, path, &why);
}

/* Reports a directory that was not read because it lies too many levels below the root directory.
 * The message asks the user to name the directory explicitly. */
static void
dir_too_deep(dir_walk *walk, const char *path)
{
    mrd_why why = { 0 };

    mrd_why_set(&why, MRD_DEPTH, 0, "%s: a folder more than %d below %s is not read: name it too",
                path, DIR_DEPTH, walk->root);
    dir_failed(walk, path, &why);
}

static bool
is_earlier(const dir_walk *walk, const struct stat *st)
{
    int64_t changed = (int64_t) st->st_ctim.tv_sec * MRD_SEC + st->st_ctim.tv_nsec;

    return walk->was_there && changed < walk->options->earlier_than.ns;
}

/* If exactly one recorded process writes into this directory, stores the process's node and pid in
 * `id`. Does nothing if `id` has a pid already. */
static void
find_namer(const dir_walk *walk, const char *path, mrd_identity *id)
{
    const mrd_read_options *options = walk->options;
    char real[PATH_MAX];

    if (options->n_named == 0 || id->process_id != MRD_NONE || realpath(path, real) == NULL)
        return;
    for (size_t i = 0; i < options->n_named; i++) {
        if (options->named[i].process != MRD_NONE && strcmp(options->named[i].path, real) == 0) {
            id->instance_id = options->node;
            id->process_id = options->named[i].process;
        }
    }
}

/* Returns true if the directory has tables that Meridian wrote. */
static bool
holds_own_tables(const char *path)
{
    mrd_buf manifest = { 0 };
    bool own;

    mrd_buf_fmt(&manifest, "%s/_manifest.json", path);
    own = look_at(mrd_buf_cstr(&manifest)) == HEAD_OWN;
    mrd_buf_fini(&manifest);
    return own;
}

static mrd_err
dir_folder(dir_walk *walk, const char *path, const mrd_identity *above, int depth, mrd_why *why)
{
    struct dirent **names;
    mrd_identity here = *above;
    bool again;
    mrd_err err;
    int count;

    if (holds_own_tables(path)) {
        walk->own++;
        walk->found_any = true;
        return MRD_OK;
    }
    find_namer(walk, path, &here);
    err = mrd_read_once_check(walk->options->once, path, &here, &again);
    walk->found_any = walk->found_any || again;
    if (err != MRD_OK || again)
        return err;
    /* a fixed order, so that the output is reproducible */
    count = scandir(path, &names, NULL, alphasort);
    if (count < 0) {
        dir_unreadable(walk, path, errno);
        return MRD_OK;
    }
    for (int i = 0; i < count; i++) {
        mrd_str name = mrd_str_of(names[i]->d_name), instance, rest;
        mrd_identity id = here;
        mrd_buf full = { 0 };
        struct stat st;
        const char *child;
        int64_t pid;

        mrd_buf_fmt(&full, "%s/%s", path, names[i]->d_name);
        child = mrd_buf_cstr(&full);
        if (depth == 0)
            walk->was_there =
                walk->options->all_earlier ||
                (walk->options->earlier != NULL && mrd_strlist_has(walk->options->earlier, name));
        if (err != MRD_OK || name.p[0] == '.') {
            /* skip a hidden entry, and all entries after an error */
        } else if (full.err != MRD_OK) {
            err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
        } else if (stat(child, &st) != 0) {
            dir_unreadable(walk, child, errno);
        } else if (S_ISREG(st.st_mode) && is_earlier(walk, &st)) {
            walk->earlier++;
        } else if (S_ISREG(st.st_mode)) {
            err = dir_file(walk, child, name, &here, why);
        } else if (S_ISDIR(st.st_mode) && depth < DIR_DEPTH) {
            if (mrd_capture_split(name, &instance, &pid, &rest) && rest.len == 0) {
                id.instance_id =
                    mrd_strtab_add(mrd_catalog_strings(walk->options->catalog), instance);
                id.process_id = pid;
            }
            err = dir_folder(walk, child, &id, depth + 1, why);
        } else if (S_ISDIR(st.st_mode)) {
            dir_too_deep(walk, child);
        }
        if (name.p[0] != '.' && names[i]->d_type != DT_DIR)
            walk->found_any = true;
        mrd_buf_fini(&full);
        free(names[i]);
    }
    free(names);
    return err;
}

/* Reports that the vendor's tool did not decode the NTFF, NEFF and .pb files, as a failed input.
 * Their events are missing in the profile. */
static void
dir_tool_failed(dir_walk *walk, const char *reason)
{
    mrd_why why = { 0 };

    mrd_why_set(&why, MRD_INCOMPLETE, 0, "not decoded: the closed files in %s: %s", walk->root,
                reason);
    dir_failed(walk, walk->root, &why);
}

/* Converts the whole directory with the vendor's viewer and reads its output. */
static mrd_err
dir_convert(dir_walk *walk, const char *tool, mrd_why *why)
{
    mrd_catalog *cat = walk->options->catalog;
    const char *tmp = getenv("TMPDIR");
    mrd_buf into = { 0 };
    mrd_why failed = { 0 };
    mrd_err err = MRD_OK;
    size_t artifacts;
    mrd_artifact *list;

    mrd_buf_fmt(&into, "%s/meridian-convert-XXXXXX", tmp == NULL || *tmp == '\0' ? "/tmp" : tmp);
    mrd_buf_cstr(&into);
    if (into.err != MRD_OK || mkdtemp((char *) into.p) == NULL) {
        err = mrd_why_set(why, MRD_IO, errno, "cannot create a folder for %s", tool);
        goto out;
    }
    if (mrd_vendor_convert(tool, walk->root, (char *) into.p,
                           &(mrd_vendor_limits){ .timeout_ms = walk->options->vendor_timeout_ms,
                                                 .memory = walk->options->vendor_memory,
                                                 .disk = walk->options->vendor_disk },
                           &failed) != MRD_OK) {
        dir_tool_failed(walk, failed.text);
    } else {
        dir_walk results = { .options = walk->options,
                             .root = (char *) into.p,
                             .nowhere = walk->nowhere };

        err = dir_folder(&results, (char *) into.p, &walk->nowhere, 0, why);
        mrd_buf_fini(&results.unknown_name);
        mrd_buf_fini(&results.temporary_name);
        mrd_strlist_fini(&results.profiles);
        if (results.read == 0)
            dir_tool_failed(walk, "it ended without error but wrote no JSON");
        list = mrd_catalog_artifacts(cat, &artifacts);
        for (size_t i = walk->first_artifact; i < artifacts && results.read > 0; i++)
            list[i].decoded_by = mrd_catalog_intern(cat, tool);
    }
    mrd_remove_tree((char *) into.p);
out:
    mrd_buf_fini(&into);
    return err;
}

/* Converts NTFF and .pb files if their JSON export is not in the directory. If the vendor's tool is
 * not installed, adds a note about it. */
static mrd_err
dir_artifacts_done(dir_walk *walk, mrd_why *why)
{
    mrd_catalog *cat = walk->options->catalog;
    bool device = walk->ntff > 0 && !walk->device_json, system = walk->pb > 0 && !walk->system_json;
    mrd_read_options missing = *walk->options;
    mrd_buf tool = { 0 }, what = { 0 };
    mrd_err err = MRD_OK;

    missing.device = missing.device && device;
    missing.system = missing.system && system;
    if (!missing.device && !missing.system)
        return MRD_OK;
    if (mrd_vendor_find(walk->options->vendor_tool, &tool)) {
        const mrd_read_options *all = walk->options;

        /* cppcheck-suppress autoVariables ; the pointer is reset before `missing` ends */
        /* The viewer converts both profiles. Read only the profile without a JSON export, so that
         * no event is read twice. */
        walk->options = &missing;
        err = dir_convert(walk, mrd_buf_cstr(&tool), why);
        walk->options = all;
    } else {
        if (missing.device)
            mrd_buf_fmt(&what, "%zu NTFF with %zu NEFF", walk->ntff, walk->neff);
        if (missing.system)
            mrd_buf_fmt(&what, "%s%zu .pb files", what.len > 0 ? " and " : "", walk->pb);
        mrd_catalog_note(cat,
                         "not decoded: %s in %s are hashed and listed; install aws-neuronx-tools "
                         "here, or put the "
                         "JSON of `neuron-explorer view -d %s --output-format json` beside them",
                         mrd_buf_cstr(&what), walk->root, walk->root);
    }
    mrd_buf_fini(&what);
    mrd_buf_fini(&tool);
    return err;
}

/* Ranks the formats of a profile by how much they contain: 2 for JSON in the vendor's layout, 1 for
 * Perfetto, 0 for Trace Event JSON. `end` is the end of the file's name. */
static int
profile_grade(mrd_str end)
{
    return mrd_str_starts(end, ".json") ? 2 : mrd_str_ends(end, ".pftrace") ? 1 : 0;
}

/* Returns true if the directory has the profile `path` in another format, too, and that format
 * contains more. The two names differ only in the extension. */
static bool
has_better_twin(const dir_walk *walk, const char *path)
{
    const char *dot = strchr(strrchr(path, '/'), '.');
    size_t stem = (size_t) (dot - path);

    for (size_t i = 0; i < walk->profiles.n; i++) {
        const char *other = walk->profiles.v[i];

        if (strncmp(other, path, stem + 1) == 0 &&
            profile_grade(mrd_str_of(other + stem)) > profile_grade(mrd_str_of(dot)))
            return true;
    }
    return false;
}

/* Reads the profiles that Meridian wrote into this directory. Called only if the directory has no
 * other inputs, because a profile repeats the events of the inputs from which it was made. */
static mrd_err
read_profiles(dir_walk *walk, mrd_why *why)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < walk->profiles.n && err == MRD_OK; i++) {
        const char *path = walk->profiles.v[i], *slash = strrchr(path, '/');
        bool device = strncmp(slash + 1, "device_", 7) == 0;

        if (has_better_twin(walk, path))
            continue;
        walk->read++;
        walk->read_own = true;
        walk->device_json = walk->device_json || device;
        walk->system_json = walk->system_json || !device;
        err = mrd_read_file(walk->options, path, &walk->nowhere, why);
    }
    return err;
}

static mrd_err
read_dir(const mrd_read_options *options, const char *path, mrd_why *why)
{
    dir_walk walk = { .options = options, .root = path };
    mrd_identity *id = &walk.nowhere;
    mrd_str base, instance, rest;
    struct stat st;
    size_t artifacts, len = strlen(path);
    int64_t pid;
    mrd_err err;

    if (stat(path, &st) != 0)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "cannot read folder '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return mrd_why_set(why, MRD_INVALID, 0, "'%s' is a file: name it without -d", path);
    *id = (mrd_identity) MRD_IDENTITY_UNKNOWN;
    mrd_catalog_artifacts(options->catalog, &artifacts);
    walk.first_artifact = (uint32_t) artifacts;
    while (len > 1 && path[len - 1] == '/')
        len--;
    base = (mrd_str){ path, len };
    while (base.len > 0 && memchr(base.p, '/', base.len) != NULL) {
        base.len--;
        base.p++;
    }
    if (mrd_capture_split(base, &instance, &pid, &rest) &&
        /* the directory's name has nothing after the pid, so the directory belongs to this
         * process */
        rest.len == 0) {
        id->instance_id = mrd_strtab_add(mrd_catalog_strings(options->catalog), instance);
        id->process_id = pid;
    }
    err = dir_folder(&walk, path, id, 0, why);
    if (err == MRD_OK && walk.read == 0 && options->earlier == NULL && !options->all_earlier)
        err = read_profiles(&walk, why);
    if (err == MRD_OK)
        err = dir_artifacts_done(&walk, why);
    if (walk.unknown > 0)
        mrd_catalog_note(options->catalog, "not read: %zu file%s of unknown kind in %s (first: %s)",
                         walk.unknown, mrd_plural(walk.unknown), path,
                         mrd_buf_cstr(&walk.unknown_name));
    if (err == MRD_OK && !walk.found_any && options->earlier == NULL && !options->all_earlier)
        mrd_catalog_note(options->catalog, "nothing to read: %s has no files", path);
    if (walk.temporary > 0)
        mrd_catalog_note(options->catalog,
                         "not read: %zu temporary cop%s of files in %s (first: %s)", walk.temporary,
                         walk.temporary == 1 ? "y" : "ies", path,
                         mrd_buf_cstr(&walk.temporary_name));
    if (walk.earlier > 0)
        mrd_catalog_note(options->catalog, "not read: %zu file%s of earlier runs in %s",
                         walk.earlier, mrd_plural(walk.earlier), path);
    if (walk.twice > 0)
        mrd_catalog_note(
            options->catalog,
            "not read: %zu JSON file%s of the XLA profiler in %s, whose .xplane.pb beside "
            "has the same events and their date",
            walk.twice, mrd_plural(walk.twice), path);
    if (walk.own > 0 && !walk.read_own)
        mrd_catalog_note(options->catalog, "not read: %zu result%s of Meridian in %s%s", walk.own,
                         mrd_plural(walk.own), path,
                         walk.profiles.n > 0
                             ? " (name one as a file to read it)"
                             : "; profiles in the formats perfetto and json can be read again "
                               "(--output-format json)");
    mrd_buf_fini(&walk.unknown_name);
    mrd_buf_fini(&walk.temporary_name);
    mrd_strlist_fini(&walk.profiles);
    return err;
}

mrd_err
mrd_read_dir(const mrd_read_options *options, const char *path, mrd_why *why)
{
    mrd_read_options own = *options;
    mrd_read_once once = { 0 };
    mrd_err err, end;

    if (options->once != NULL)
        return read_dir(options, path, why);
    own.once = &once;
    err = read_dir(&own, path, why);
    end = mrd_read_once_end(&once, options->catalog, options->store);
    return err != MRD_OK || end == MRD_OK ? err : mrd_why_set(why, end, 0, "'%s'", path);
}
