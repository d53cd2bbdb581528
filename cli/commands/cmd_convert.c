/* `meridian convert`: shows how the aggregator's viewer converted a session's device profiles, and
 * runs the viewer of this machine on device profiles in a directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/core/common/conversion.h"
#include "aggregator/viewer/converter_run.h"
#include "base/obj.h"
#include "base/plain.h"
#include "base/sys/out.h"
#include "base/vec.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "cli/view/output_lock.h"
#include "trace/import/capture_names.h"

#define DEPTH_MAX    8
#define WAIT_LONGEST (86400 * MRD_SEC)

typedef struct {
    bool again, wait, force;
    char *dir, *out, *viewer, *tables;
    mrd_dur_ns timeout;
    int64_t memory, size;
    mrd_client_options client;
} settings;

#define AT(member) .offset = offsetof(settings, member)

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Device profiles of a session, by the aggregator's viewer" },
    { .name = "again",
      .type = MRD_OPT_BOOL,
      AT(again),
      .help = "convert again those that failed, lack a part or had no viewer" },
    { .name = "wait", .type = MRD_OPT_BOOL, AT(wait), .help = "wait until none waits or runs" },
    { .type = MRD_OPT_HEAD, .help = "Device profiles in a folder, by the viewer of this machine" },
    { .name = "dir",
      .letter = 'd',
      .type = MRD_OPT_STR,
      AT(dir),
      .arg = "DIR",
      .help = "folder with <instance>_pid_<pid>/..., as `fetch --artifacts` and the runtime write "
              "it" },
    { .name = "output",
      .letter = 'o',
      .type = MRD_OPT_STR,
      AT(out),
      .arg = "DIR",
      .help = "where results go, as <instance>_pid_<pid>/viewer/... (default: the folder -d)" },
    { .name = "force", .type = MRD_OPT_BOOL, AT(force), .help = "replace results that are there" },
    { .name = "viewer",
      .type = MRD_OPT_STR,
      AT(viewer),
      .arg = "COMMAND|auto",
      .def = "auto",
      .env = "MERIDIAN_VIEWER",
      .help = "what makes Perfetto files: the program of the vendor's viewer, or a whole command "
              "with {input} and {output} (auto: neuron-explorer or neuron-profile on PATH or in "
              "/opt/aws/neuron/bin)" },
    { .name = "viewer-tables",
      .type = MRD_OPT_STR,
      AT(tables),
      .arg = "COMMAND|auto|none",
      .def = "auto",
      .env = "MERIDIAN_VIEWER_TABLES",
      .help = "the command that makes tables (auto: neuron-explorer with Parquet)" },
    { .name = "viewer-timeout",
      .type = MRD_OPT_DUR,
      AT(timeout),
      .def = "30min",
      .min = MRD_MS,
      .max = 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "time limit of one run of it" },
    { .name = "viewer-memory",
      .type = MRD_OPT_SIZE,
      AT(memory),
      .def = "8G",
      .min = 0,
      .max = INT64_MAX / 2,
      .arg = "SIZE",
      .help = "memory that it and its child processes may use; 0: no limit" },
    { .name = "viewer-size",
      .type = MRD_OPT_SIZE,
      AT(size),
      .def = "16G",
      .min = 0,
      .max = INT64_MAX / 2,
      .arg = "SIZE",
      .help = "bytes that a run may write; 0: no limit" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const char more[] =
    "SESSION (an id, the beginning of one, or `latest`): a row for each process with device\n"
    "profiles, waiting, running, done, failed or not-installed; `fetch --artifacts` gets what was\n"
    "made. -d DIR: runs the viewer here, for each process of the folder, within the limits.\n"
    "Exit status 3 when something was not converted, of a folder 1 when nothing was.\n";

/* ---- Converting a session ---- */

static const mrd_text_table_column columns[] = {
    { "node", false }, { "process", true }, { "state", false }, { "files", true },
    { "size", true },  { "seconds", true }, { "memory", true }, { "message", false },
};

static void
put_row(mrd_text_table *texts, const mrd_json *json)
{
    char size[MRD_SIZE_TEXT], memory[MRD_SIZE_TEXT];

    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "instance_id", "-"));
    mrd_text_table_cell(texts, "%lld", (long long) mrd_json_int(json, "process_id", -1));
    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "state", "-"));
    mrd_text_table_count(texts, mrd_json_int(json, "files", 0));
    mrd_text_table_cell(texts, "%s", mrd_cli_size((uint64_t) mrd_json_int(json, "bytes", 0), size));
    mrd_text_table_cell(texts, "%.1f", (double) mrd_json_int(json, "took_ns", 0) / 1e9);
    mrd_text_table_cell(texts, "%s",
                        mrd_cli_size((uint64_t) mrd_json_int(json, "memory_bytes", 0), memory));
    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "message", "-"));
}

static size_t
count(const mrd_json *doc, mrd_convert_state from, mrd_convert_state to)
{
    const mrd_json *list = mrd_json_get(doc, "conversions");
    size_t n = 0;

    for (size_t i = 0; i < mrd_json_size(list); i++) {
        mrd_convert_state state =
            mrd_convert_state_of(mrd_json_str(mrd_json_at(list, i), "state", ""));

        n += state >= from && state <= to;
    }
    return n;
}

static bool
is_over(void *self, const mrd_json *doc)
{
    (void) self;
    return mrd_cluster_in(doc, "complete|failed") &&
           count(doc, MRD_CONVERT_WAITING, MRD_CONVERT_RUNNING) == 0;
}

/* Prints the viewer's commands once, below the table, because they are the same for all
 * processes. */
static void
say_what_to_run(const mrd_json *doc)
{
    const mrd_json *list = mrd_json_get(doc, "conversions");

    for (size_t i = 0; i < mrd_json_size(list); i++) {
        const char *run = mrd_json_str(mrd_json_at(list, i), "run", NULL);

        if (run == NULL)
            continue;
        fprintf(stderr,
                "the aggregator has no viewer; where aws-neuronx-tools is installed, run: ");
        mrd_cluster_say(stderr, run);
        fputc('\n', stderr);
    }
}

static mrd_err
of_session(const settings *set, const char *word, int *ret_status, mrd_why *why)
{
    mrd_client *client = NULL;
    char id[MRD_CLUSTER_ID];
    mrd_json *doc = NULL, *nothing = NULL;
    mrd_err err = mrd_client_open(&set->client, &client, why);

    if (err == MRD_OK)
        err = mrd_cluster_find(client, word, MRD_CLUSTER_READ, id, why);
    if (err == MRD_OK && set->again)
        err = mrd_cluster_call(client, "POST", id, "/convert", NULL, &nothing, why);
    if (err == MRD_OK && set->wait) {
        mrd_cluster_catch();
        err = mrd_cluster_wait(client, id, WAIT_LONGEST, 60 * MRD_SEC, is_over, NULL, &doc, why);
    } else if (err == MRD_OK) {
        err = mrd_cluster_call(client, "GET", id, "", NULL, &doc, why);
    }
    if (err == MRD_OK) {
        mrd_json *list = mrd_json_new_object();

        mrd_json_set(list, "conversions",
                     mrd_json_get(doc, "conversions") == NULL
                         ? mrd_json_new_array()
                         : mrd_json_copy(mrd_json_get(doc, "conversions")));
        mrd_cluster_print_list(list, "conversions", set->client.json, columns, MRD_COUNT(columns),
                               put_row,
                               mrd_cluster_in(doc, "complete|failed")
                                   ? "the session has no device profiles (start it with "
                                     "--device-profiles)"
                                   : "the session is not over: device profiles are converted then");
        if (!set->client.json)
            say_what_to_run(doc);
        if (count(doc, MRD_CONVERT_FAILED, MRD_CONVERT_NOT_INSTALLED) > 0 ||
            (set->wait && !is_over(NULL, doc)))
            *ret_status = MRD_EXIT_INCOMPLETE;
        mrd_json_free(list);
    }
    mrd_json_free(nothing);
    mrd_json_free(doc);
    mrd_client_close(client);
    return err;
}

/* ---- Converting a directory ---- */

static bool
has_ntff(const char *dir, unsigned depth)
{
    const struct dirent *entry;
    bool found = false;
    DIR *d = opendir(dir);

    while (d != NULL && !found && (entry = readdir(d)) != NULL) {
        char *path = NULL;
        struct stat st;

        if (entry->d_name[0] == '.' || asprintf(&path, "%s/%s", dir, entry->d_name) < 0)
            continue;
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            found = depth < DEPTH_MAX && has_ntff(path, depth + 1);
        else
            found = mrd_str_ends(mrd_str_of(entry->d_name), ".ntff");
        free(path);
    }
    if (d != NULL)
        closedir(d);
    return found;
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Lists the subdirectories of processes that have an NTFF file (device profile), sorted by name. */
static mrd_err
processes_of(const char *dir, mrd_strlist *to, mrd_why *why)
{
    const struct dirent *entry;
    DIR *d = opendir(dir);
    mrd_err err = MRD_OK;

    if (d == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "cannot read the folder %s", dir);
    while (err == MRD_OK && (entry = readdir(d)) != NULL) {
        char *path = NULL;

        if (strstr(entry->d_name, "_pid_") == NULL ||
            asprintf(&path, "%s/%s", dir, entry->d_name) < 0)
            continue;
        if (has_ntff(path, 0))
            err = mrd_strlist_add(to, mrd_str_of(entry->d_name));
        free(path);
    }
    closedir(d);
    if (to->n > 1)
        qsort(to->v, to->n, sizeof(*to->v), by_name);
    if (err == MRD_OK && to->n == 0)
        err = mrd_why_set(why, MRD_EMPTY, 0, "%s has no folder <instance>_pid_<pid> with an NTFF",
                          dir);
    return err;
}

typedef struct {
    const settings *set;
    mrd_converter_commands commands;
    mrd_converter_settings limits;
    char in[PATH_MAX], out[PATH_MAX], work[PATH_MAX];
    mrd_json *list;
    size_t bad;
} local;

static bool
going_on(void *self)
{
    (void) self;
    return !mrd_cluster_interrupted();
}

/* Moves the results for a process from the working directory to the output. Keeps existing files
 * unless --force is given. */
static mrd_err
put_results(const local *l, const char *process, const mrd_converter_made *made, mrd_why *why)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < made->n && err == MRD_OK; i++) {
        char *to = NULL, *slash;

        if (asprintf(&to, "%s/%s/%s", l->out, process, made->v[i].name) < 0)
            return mrd_why_set(why, MRD_NOMEM, 0, "convert");
        slash = strrchr(to, '/');
        *slash = '\0';
        err = mrd_make_dirs(to, why);
        *slash = '/';
        if (err == MRD_OK && !l->set->force && access(to, F_OK) == 0)
            err = mrd_why_set(why, MRD_EXISTS, 0, "%s exists already: --force replaces it", to);
        if (err == MRD_OK && rename(made->v[i].file, to) != 0)
            err = mrd_why_set(why, MRD_IO, errno, "cannot write %s", to);
        if (err == MRD_OK && !l->set->client.json) {
            mrd_buf line = { 0 };

            mrd_plain_text(&line, mrd_str_of(to));
            printf("%s\n", mrd_buf_cstr(&line));
            mrd_buf_fini(&line);
        }
        free(to);
    }
    return err;
}

/* Copies a directory tree: makes directories, and links to its files. A single link to the top
 * directory would not do, because a viewer may not follow it. Leaves out results of an earlier
 * viewer. */
static mrd_err
link_tree(const char *from, const char *to, unsigned depth, mrd_why *why)
{
    const struct dirent *entry;
    mrd_err err = mrd_make_dirs(to, why);
    DIR *dir = err == MRD_OK ? opendir(from) : NULL;

    if (err == MRD_OK && dir == NULL)
        err = mrd_why_set(why, MRD_IO, errno, "cannot read the folder %s", from);
    while (err == MRD_OK && dir != NULL && (entry = readdir(dir)) != NULL) {
        char *source = NULL, *target = NULL;
        struct stat st;

        if (entry->d_name[0] == '.' || (depth == 0 && strcmp(entry->d_name, "viewer") == 0))
            continue;
        if (asprintf(&source, "%s/%s", from, entry->d_name) < 0)
            source = NULL;
        if (asprintf(&target, "%s/%s", to, entry->d_name) < 0)
            target = NULL;
        if (source == NULL || target == NULL)
            err = mrd_why_set(why, MRD_NOMEM, 0, "convert");
        else if (stat(source, &st) == 0 && S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            err = link_tree(source, target, depth + 1, why);
        else if (stat(source, &st) == 0 && S_ISREG(st.st_mode) &&
                 linkat(AT_FDCWD, source, AT_FDCWD, target, AT_SYMLINK_FOLLOW) != 0 &&
                 symlink(source, target) != 0)
            err = mrd_why_set(why, MRD_IO, errno, "cannot make the link %s", target);
        free(source);
        free(target);
    }
    if (dir != NULL)
        closedir(dir);
    return err;
}

/* Runs the viewer on a directory that contains only the given process. */
static mrd_err
one_process(local *l, const char *process, mrd_converter_made *made, mrd_why *why)
{
    mrd_converter_work work = {
        .commands = &l->commands, .settings = &l->limits, .work = l->work, .going_on = going_on
    };
    char *in = NULL, *from = NULL, *to = NULL;
    mrd_err err;

    if (asprintf(&in, "%s/in", l->work) < 0 || asprintf(&from, "%s/%s", l->in, process) < 0 ||
        asprintf(&to, "%s/in/%s", l->work, process) < 0)
        err = mrd_why_set(why, MRD_NOMEM, 0, "convert");
    else
        err = link_tree(from, to, 0, why);
    work.in = in;
    if (err == MRD_OK)
        err = mrd_converter_run(&work, made, why);
    if (err == MRD_OK)
        err = put_results(l, process, made, why);
    mrd_remove_tree(l->work);
    free(in);
    free(from);
    free(to);
    return err;
}

static mrd_err
note(local *l, const char *process, const mrd_converter_made *made, mrd_err err, const mrd_why *why)
{
    mrd_json *json = mrd_json_new_object();
    const char *said = err == MRD_OK ? made->note : why->text;

    mrd_json_set(json, "process", mrd_json_new_str(process));
    mrd_json_set(json, "state",
                 mrd_json_new_str(mrd_convert_state_text(err == MRD_OK ? MRD_CONVERT_DONE
                                                                       : MRD_CONVERT_FAILED)));
    if (said[0] != '\0')
        mrd_json_set(json, "message", mrd_json_new_str(said));
    mrd_json_set(json, "files", mrd_json_new_int(err == MRD_OK ? (int64_t) made->n : 0));
    mrd_json_set(json, "took_ns", mrd_json_new_int(made->took));
    mrd_json_set(json, "memory_bytes", mrd_json_new_int((int64_t) made->memory));
    l->bad += err != MRD_OK;
    if (said[0] != '\0')
        mrd_cli_errorf("convert", "%s: %s", process, said);
    return mrd_json_append(l->list, json);
}

/* Makes a working directory. It lies next to the results, because a file can be renamed only within
 * a file system. If this run is killed, a later run removes it. */
static mrd_err
place(local *l, mrd_why *why)
{
    const settings *set = l->set;
    mrd_err err;

    if (realpath(set->dir, l->in) == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "cannot read the folder %s", set->dir);
    if (set->out != NULL && (err = mrd_make_dirs(set->out, why)) != MRD_OK)
        return err;
    if (realpath(set->out != NULL ? set->out : set->dir, l->out) == NULL)
        return mrd_why_set(why, MRD_IO, errno, "cannot use the folder %s", set->out);
    if ((size_t) snprintf(l->work, sizeof(l->work), "%s/.meridian-convert", l->out) >=
        sizeof(l->work))
        return mrd_why_set(why, MRD_LIMIT, 0, "the path %s is too long", l->out);
    return MRD_OK;
}

static mrd_err
of_folder(const settings *set, int *ret_status, mrd_why *why)
{
    mrd_output_lock lock = MRD_OUTPUT_LOCK_NONE;
    local *l = calloc(1, sizeof(*l));
    mrd_strlist processes = { 0 };
    mrd_err err;

    if (l == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "convert");
    l->set = set;
    l->list = mrd_json_new_array();
    l->limits = (mrd_converter_settings){ .command = set->viewer,
                                          .tables = set->tables,
                                          .time = set->timeout,
                                          .memory = (uint64_t) set->memory,
                                          .disk = (uint64_t) set->size };
    if ((err = place(l, why)) == MRD_OK && (err = processes_of(l->in, &processes, why)) == MRD_OK)
        err = mrd_converter_commands_make(&l->limits, &l->commands, why);
    if (err == MRD_OK && l->commands.v[0].len == 0)
        err = mrd_why_set(why, MRD_NOTFOUND, 0,
                          "no viewer is installed here: install aws-neuronx-tools or name one with "
                          "--viewer; where it is, run: neuron-explorer view -d %s --output-format "
                          "perfetto",
                          set->dir);
    if (err == MRD_OK)
        err = mrd_output_lock_take(&lock, l->out, why);
    mrd_cluster_catch();
    for (size_t i = 0; i < processes.n && err == MRD_OK && !mrd_cluster_interrupted(); i++) {
        mrd_converter_made made = { 0 };
        mrd_why one = { 0 };

        mrd_remove_tree(l->work); /* a run that was killed may have left this directory */
        err = one_process(l, processes.v[i], &made, &one);
        err = note(l, processes.v[i], &made, err, &one);
        mrd_converter_made_fini(&made);
    }
    if (err == MRD_OK && set->client.json)
        mrd_cluster_print_json(l->list);
    if (err == MRD_OK && (l->bad > 0 || mrd_cluster_interrupted()))
        *ret_status = l->bad == processes.n ? MRD_EXIT_FAILED : MRD_EXIT_INCOMPLETE;
    mrd_output_lock_release(&lock);
    mrd_converter_commands_fini(&l->commands);
    mrd_strlist_fini(&processes);
    mrd_json_free(l->list);
    free(l);
    return err;
}

static int
run(void *self, const mrd_strlist *words)
{
    const settings *set = self;
    mrd_why why = { 0 };
    int status = MRD_EXIT_OK;
    mrd_err err;

    if (set->dir != NULL && words->n > 0) {
        fprintf(stderr, "meridian convert: give a SESSION or -d DIR, not both\n");
        return MRD_EXIT_USAGE;
    }
    err = set->dir != NULL ? of_folder(set, &status, &why)
                           : of_session(set, words->n == 0 ? NULL : words->v[0], &status, &why);
    if (err == MRD_OK)
        return status;
    mrd_cli_error("convert", &why);
    return mrd_cli_status(err);
}

int
mrd_cmd_convert(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cli_frame frame = { .usage = "[SESSION] [--again] [--wait] | -d DIR [-o DIR]",
                            .more = more,
                            .table = table,
                            .rows = MRD_COUNT(table),
                            .settings = &set,
                            .max_words = 1,
                            .run = run };

    return mrd_cli_main(&frame, argc, argv);
}
