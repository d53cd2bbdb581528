/* `meridian report`: shows how the time was spent and which workers were late, for trace files or a
 * session. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "cli/view/view.h"

typedef struct {
    mrd_view_options view;
    mrd_client_options client;
    bool html;
} settings;

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Input" },
    { .name = "session-dir",
      .letter = 'd',
      .type = MRD_OPT_PATHS,
      .offset = offsetof(settings, view.dirs),
      .arg = "DIR",
      .help =
          "capture directory, or a folder of traces; repeatable (files may be given as words)" },
    { .name = "html",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, html),
      .help = "one page with pictures instead of text, for a browser: redirect it into a file" },
    MRD_PROFILE_SLICE_ROWS(settings, view.profile),
    MRD_VIEW_KIND_ROWS(settings, view),
    MRD_VIEW_CLOCK_ROWS(settings, view),
    MRD_VIEW_RESOURCE_ROWS(settings, view),
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const char more[] =
    "Words are files or folders; one that is neither is a session of the aggregator (its id, the\n"
    "beginning of it, or latest), and so is no word at all. In a folder of results of view, "
    "inspect\n"
    "or fetch, the report among them is printed.\n"
    "\n"
    "Examples\n"
    "  meridian report                                      the latest session\n"
    "  meridian report 20261121-21 --start 2s --end 4s      two seconds of another\n"
    "  meridian report rank*.json.gz --align collectives    one trace file per rank\n"
    "  meridian report rank*.json.gz --same-clock           ... of one machine\n"
    "  meridian report -d ./output --json                   for scripts\n"
    "  meridian report -d ./output --html > report.html     with pictures\n";

static const char *
format_of(const settings *set)
{
    return set->client.json ? "report-json" : set->html ? "report-html" : "report-text";
}

static int
report_session(settings *set, const char *word)
{
    const mrd_profile_options *options = &set->view.profile;
    mrd_fetch_options slice = { .start = options->start,
                                .end = options->end,
                                .instances = options->instances,
                                .processes = options->processes,
                                .cores = options->cores,
                                .types = options->types };
    mrd_client *client = NULL;
    char id[MRD_CLUSTER_ID];
    mrd_json *doc = NULL;
    mrd_why why = { 0 };
    int status = MRD_EXIT_OK;
    bool complete;
    mrd_err err = mrd_client_open(&set->client, &client, &why);

    if (err == MRD_OK &&
        (err = mrd_cluster_find(client, word, MRD_CLUSTER_READ, id, &why)) == MRD_OK)
        err = mrd_cluster_call(client, "GET", id, "", NULL, &doc, &why);
    if (err == MRD_OK)
        err = mrd_cluster_check_begun(doc, &why);
    complete = err == MRD_OK && mrd_cluster_in(doc, "complete");
    if (err == MRD_OK)
        err = mrd_cluster_print_profile(client, id, format_of(set), &slice, stdout, &why);
    if (err == MRD_OK)
        err = mrd_cluster_again(client, id, &doc, &why);
    if (err == MRD_OK && (!mrd_cluster_whole(doc, "report") || !complete))
        status = MRD_EXIT_INCOMPLETE;
    if (err != MRD_OK) {
        if (doc == NULL && word != NULL)
            mrd_cluster_no_file(word, err, &why);
        mrd_cli_error("report", &why);
        status = MRD_EXIT_FAILED;
    }
    mrd_json_free(doc);
    mrd_client_close(client);
    return status;
}

/* Returns true if `name` is a name that view, inspect and fetch use for results. */
static bool
is_result(const char *name)
{
    static const char *const ours[] = { "report.",        "summary.",
                                        "steps.",         "system_profile.",
                                        "profile.sqlite", "device_profile_model_",
                                        "session.json" };
    static const char *const whole[] = { "tables", "csv", "system_profile", "SHA256SUMS" };

    for (size_t i = 0; i < MRD_COUNT(ours); i++) {
        if (mrd_str_starts(mrd_str_of(name), ours[i]))
            return true;
    }
    for (size_t i = 0; i < MRD_COUNT(whole); i++) {
        if (strcmp(name, whole[i]) == 0)
            return true;
    }
    return name[0] == '.';
}

/* Returns true if `name` in the directory `at` is a directory that contains only results. */
static bool
has_only_results(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool only = dir != NULL;

    for (struct dirent *entry; only && (entry = readdir(dir)) != NULL;)
        only = is_result(entry->d_name);
    if (dir != NULL)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    return only;
}

/* Prints the report that is already in the directory. Returns false if there is none, or if it may
 * not describe all data. The latter is so if the user requests a time range, or if the directory or
 * a subdirectory has files that are not results. */
static bool
print_kept(const settings *set, const char *dir)
{
    const mrd_profile_options *options = &set->view.profile;
    const char *wanted = set->client.json ? "report.json"
                         : set->html      ? "report.html"
                                          : "report.txt";
    bool sliced = options->start != NULL || options->end != NULL ||
                  options->instances.n + options->processes.n > 0 ||
                  options->cores.n + options->types.n > 0 || set->view.align != 0 ||
                  set->view.classify != NULL;
    DIR *d = sliced ? NULL : opendir(dir);
    bool found = false, alone = true;
    char block[65536];
    FILE *file = NULL;
    size_t count;

    for (struct dirent *entry; d != NULL && (entry = readdir(d)) != NULL;) {
        alone = alone && (is_result(entry->d_name) || has_only_results(dirfd(d), entry->d_name));
        found = found || strcmp(entry->d_name, wanted) == 0;
    }
    if (alone && found) {
        int fd = openat(dirfd(d), wanted, O_RDONLY | O_CLOEXEC);

        file = fd < 0 ? NULL : fdopen(fd, "r");
    }
    if (d != NULL)
        closedir(d);
    if (file == NULL)
        return false;
    if (!set->html || set->client.json)
        mrd_text_show(file, set->client.json, stdout);
    else
        while ((count = fread(block, 1, sizeof(block), file)) > 0)
            fwrite(block, 1, count, stdout);
    fclose(file);
    return true;
}

/* Prints the report of a session's directory as an aggregator exports it: session.json is in the
 * directory, and the report is in profile/. Returns false if the directory is not of this kind. */
static bool
print_exported(const settings *set, const char *dir)
{
    mrd_buf path = { 0 };
    bool printed;

    mrd_buf_fmt(&path, "%s/session.json", dir);
    printed = path.err == MRD_OK && access(mrd_buf_cstr(&path), F_OK) == 0;
    mrd_buf_reset(&path);
    mrd_buf_fmt(&path, "%s/profile", dir);
    printed = printed && path.err == MRD_OK && print_kept(set, mrd_buf_cstr(&path));
    mrd_buf_fini(&path);
    return printed;
}

static int
report_files(settings *set, const mrd_strlist *words)
{
    const char *dir = set->view.dirs.n == 1 && words->n == 0   ? set->view.dirs.v[0]
                      : set->view.dirs.n == 0 && words->n == 1 ? words->v[0]
                                                               : NULL;

    if (dir != NULL && (print_kept(set, dir) || print_exported(set, dir)))
        return MRD_EXIT_OK;
    if (mrd_strlist_add(&set->view.profile.formats, mrd_str_of(format_of(set))) != MRD_OK)
        return MRD_EXIT_FAILED;
    set->view.profile.print = true;
    set->view.ignore_device = true;
    return mrd_view_run("report", &set->view, words);
}

static int
run(void *self, const mrd_strlist *words)
{
    settings *set = self;
    bool files =
        set->view.dirs.n > 0 || words->n > 1 || (words->n == 1 && mrd_cluster_is_path(words->v[0]));
    int status =
        files ? report_files(set, words) : report_session(set, words->n == 1 ? words->v[0] : NULL);

    mrd_strlist_fini(&set->view.profile.formats);
    return status;
}

int
mrd_cmd_report(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cli_frame frame = { .usage = "[-d DIR]... [FILE|SESSION]... [options]",
                            .more = more,
                            .table = table,
                            .rows = MRD_COUNT(table),
                            .settings = &set,
                            .max_words = UINT_MAX,
                            .run = run };

    return mrd_cli_main(&frame, argc, argv);
}
