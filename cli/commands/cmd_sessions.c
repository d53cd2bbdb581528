/* `meridian sessions`: lists the sessions, oldest first. */
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"

typedef struct {
    mrd_client_options client;
    char *job, *job_name, *user, *cluster, *partition, *namespace, *pod, *step, *restart, *label;
    char *state, *name, *search;
    int64_t limit; /* maximum number of sessions; 0 means no limit */
    bool delete;
} settings;

#define FILTER(member_, name_, arg_, help_)                                                        \
    {                                                                                              \
        .name = name_, .type = MRD_OPT_STR, .offset = offsetof(settings, member_), .arg = arg_,    \
        .help = help_                                                                              \
    }

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Filters (a session must match all that are given)" },
    FILTER(job, "job", "ID", "of this job, or task of an array: 4711, 4711_3"),
    FILTER(job_name, "job-name", "NAME", "of jobs of this name"),
    FILTER(user, "user", "NAME", "of this user's jobs"),
    FILTER(cluster, "cluster", "NAME", "of jobs on this cluster"),
    FILTER(partition, "partition", "NAME", "of jobs in this partition"),
    FILTER(namespace, "namespace", "NAME", "of pods in this namespace"),
    FILTER(pod, "pod", "NAME", "of this pod"),
    FILTER(step, "step", "ID", "with this step of a job"),
    FILTER(restart, "restart", "N", "with this restart of a job (0: its first run)"),
    FILTER(label, "label", "KEY=VALUE", "of pods with this label"),
    FILTER(state, "state", "STATE", "in this state: recording, complete, failed, ..."),
    FILTER(name, "name", "TEXT", "of this name"),
    FILTER(search, "search", "LETTERS", "whose names contain this text"),
    { .type = MRD_OPT_HEAD, .help = "And then" },
    { .name = "limit",
      .letter = 'n',
      .type = MRD_OPT_INT,
      .offset = offsetof(settings, limit),
      .min = 1,
      .max = INT32_MAX,
      .arg = "N",
      .help = "list the newest N of them, the newest last (default: all)" },
    { .name = "delete",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, delete),
      .help = "delete them, with all they recorded; open sessions stay" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const char more[] = "Examples\n"
                           "  meridian sessions --limit 10\n"
                           "  meridian sessions --user alice --state complete\n"
                           "  meridian sessions --job 4711_3 --delete\n";

static const mrd_text_table_column columns[] = {
    { "session", false }, { "state", false }, { "mode", false },
    { "created", false }, { "nodes", true },  { "events", true },
    { "on disk", true },  { "job", false },   { "name", false },
};

/* Adds a cell like "4711_3 alice train (+2)": the first of the session's jobs, and the number of
 * further jobs. */
static void
put_job(mrd_text_table *texts, const mrd_json *jobs)
{
    const mrd_json *json = mrd_json_at(jobs, 0);
    const char *array = mrd_json_str(json, "array_job", NULL);
    const char *task = mrd_json_str(json, "array_task", NULL);
    const char *id = mrd_json_str(json, "job", mrd_json_str(json, "pod", ""));
    const char *user = mrd_json_str(json, "user", mrd_json_str(json, "namespace", ""));
    const char *name = mrd_json_str(json, "job_name", "");
    char number[300], rest[32] = "";

    snprintf(number, sizeof(number), "%.120s%s%.120s", array != NULL && task != NULL ? array : id,
             array != NULL && task != NULL ? "_" : "", array != NULL && task != NULL ? task : "");
    if (mrd_json_size(jobs) > 1)
        snprintf(rest, sizeof(rest), " (+%zu)", mrd_json_size(jobs) - 1);
    mrd_text_table_cell(texts, "%s%s%s%s%s%s", number, *user != '\0' ? " " : "", user,
                        *name != '\0' ? " " : "", name, rest);
}

static void
put_row(mrd_text_table *texts, const mrd_json *json)
{
    const char *message = mrd_json_str(json, "message", ""), *name = mrd_json_str(json, "name", "");
    int64_t nodes = mrd_json_int(json, "nodes", 0),
            without = mrd_json_int(json, "nodes_without", 0);
    char size[MRD_SIZE_TEXT];

    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "id", "?"));
    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "state", "?"));
    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "mode", "?"));
    mrd_text_table_cell(texts, "%.19s", mrd_json_str(json, "created", "-"));
    if (without > 0)
        mrd_text_table_cell(texts, "%lld of %lld", (long long) (nodes - without),
                            (long long) nodes);
    else
        mrd_text_table_count(texts, nodes);
    mrd_text_table_count(texts, mrd_json_int(json, "events", 0));
    mrd_text_table_cell(texts, "%s",
                        mrd_cli_size((uint64_t) (mrd_json_int(json, "store_bytes", 0) +
                                                 mrd_json_int(json, "artifact_bytes", 0)),
                                     size));
    put_job(texts, mrd_json_get(json, "jobs"));
    mrd_text_table_cell(texts, "%s%s%s", name, *name != '\0' && *message != '\0' ? ": " : "",
                        message);
}

static void
add_filter(mrd_buf *path, bool *any, const char *key, const char *value)
{
    if (value == NULL)
        return;
    mrd_buf_fmt(path, "%c%s=", *any ? '&' : '?', key);
    mrd_client_escape(path, value);
    *any = true;
}

/* Gets the path of the request with the filters of the options. Returns false if no filter is
 * set. */
static bool
filtered_path(const settings *set, mrd_buf *path)
{
    bool any = false;

    mrd_buf_text(path, "/api/v1/sessions");
    add_filter(path, &any, "job", set->job);
    add_filter(path, &any, "job_name", set->job_name);
    add_filter(path, &any, "user", set->user);
    add_filter(path, &any, "cluster", set->cluster);
    add_filter(path, &any, "partition", set->partition);
    add_filter(path, &any, "namespace", set->namespace);
    add_filter(path, &any, "pod", set->pod);
    add_filter(path, &any, "step", set->step);
    add_filter(path, &any, "restart", set->restart);
    add_filter(path, &any, "label", set->label);
    add_filter(path, &any, "state", set->state);
    add_filter(path, &any, "name", set->name);
    add_filter(path, &any, "q", set->search);
    return any;
}

/* Keeps only the newest `limit` sessions of the list. The aggregator lists the oldest first. */
static mrd_err
keep_newest(mrd_json *doc, size_t limit, mrd_why *why)
{
    const mrd_json *list = mrd_json_get(doc, "sessions");
    size_t n = mrd_json_size(list);
    mrd_json *newest;
    mrd_err err = MRD_OK;

    if (limit == 0 || n <= limit)
        return MRD_OK;
    newest = mrd_json_new_array();
    for (size_t i = n - limit; i < n && err == MRD_OK; i++)
        err = mrd_json_append(newest, mrd_json_copy(mrd_json_at(list, i)));
    if (err == MRD_OK)
        err = mrd_json_set(doc, "sessions", newest);
    else
        mrd_json_free(newest);
    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "sessions");
    fprintf(stderr, "the newest %zu of %zu sessions\n", limit, n);
    return MRD_OK;
}

static void
print_deleted(const mrd_json *doc)
{
    const mrd_json *gone = mrd_json_get(doc, "deleted"), *left = mrd_json_get(doc, "left");

    for (size_t i = 0; i < mrd_json_size(gone); i++)
        printf("%s\n", mrd_cluster_shown_at(gone, i));
    fprintf(stderr, "%zu deleted; %zu kept, because they are not over\n", mrd_json_size(gone),
            mrd_json_size(left));
}

static mrd_err
sessions(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    mrd_json *doc = NULL;
    mrd_buf path = { 0 };
    bool filtered = filtered_path(set, &path);
    mrd_err err;

    (void) word;
    if (set->delete &&!filtered) {
        err = mrd_why_set(why, MRD_INVALID, 0,
                          "--delete needs at least one filter: --job, --user, ...");
    } else if (set->delete &&set->limit > 0) {
        err = mrd_why_set(why, MRD_INVALID, 0,
                          "--delete and --limit exclude each other: --delete deletes all sessions "
                          "that match the filters");
    } else {
        err = mrd_client_call(client, set->delete ? "DELETE" : "GET", mrd_buf_cstr(&path), NULL,
                              &doc, why);
    }
    mrd_buf_fini(&path);
    if (err == MRD_OK && !set->delete)
        err = keep_newest(doc, (size_t) set->limit, why);
    if (err != MRD_OK) {
        mrd_json_free(doc);
        return err;
    }
    if (set->delete &&!set->client.json)
        print_deleted(doc);
    else if (set->delete)
        mrd_cluster_print_json(doc);
    else
        mrd_cluster_print_list(doc, "sessions", set->client.json, columns, MRD_COUNT(columns),
                               put_row,
                               filtered ? "no session matches"
                                        : "no session yet: `meridian record --duration 30s` makes "
                                          "one");
    if (set->delete &&mrd_json_size(mrd_json_get(doc, "left")) > 0)
        *ret_status = MRD_EXIT_INCOMPLETE;
    mrd_json_free(doc);
    return MRD_OK;
}

int
mrd_cmd_sessions(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = { .name = "sessions",
                                    .usage = "[--job ID] [--user NAME] [options]",
                                    .more = more,
                                    .table = table,
                                    .rows = MRD_COUNT(table),
                                    .settings = &set,
                                    .client = &set.client,
                                    .run = sessions };

    return mrd_cluster_main(&command, argc, argv);
}
