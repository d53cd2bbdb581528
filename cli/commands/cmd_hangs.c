/* `meridian hangs`: lists jobs that make no progress, and the rank that causes this. A verdict is
 * the aggregator's statement about one job. */
#include <stdio.h>
#include <string.h>

#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"

typedef struct {
    mrd_client_options client;
    const char *job;
    bool all, stacks;
} settings;

static const mrd_opt table[] = {
    { .name = "job",
      .type = MRD_OPT_STR,
      .offset = offsetof(settings, job),
      .arg = "JOB",
      .help = "only this job" },
    { .name = "all",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, all),
      .help = "also jobs that went on or ended since" },
    { .name = "stacks",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, stacks),
      .help = "also where a culprit and ranks that wait for it are, in which functions" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const mrd_text_table_column columns[] = {
    { "job", false }, { "verdict", false }, { "since", false }, { "lasts", true },
    { "rank", true }, { "node", false },    { "state", false }, { "why", false },
};

/* Returns a member of the first culprit, or "-" if no culprit is named. */
static const char *
culprit(const mrd_json *json, const char *key)
{
    const mrd_json *list = mrd_json_get(json, "culprits");

    return mrd_json_size(list) == 0 ? "-" : mrd_json_str(mrd_json_at(list, 0), key, "-");
}

static void
put_row(mrd_text_table *texts, const mrd_json *json)
{
    const mrd_json *list = mrd_json_get(json, "culprits");
    char lasts[MRD_DUR_TEXT];

    mrd_text_table_cell(texts, "%s", mrd_json_str(mrd_json_get(json, "job"), "job", "-"));
    mrd_text_table_cell(texts, "%s%s", mrd_json_str(json, "verdict", "-"),
                        mrd_json_bool(json, "standing", true) ? "" : " (over)");
    mrd_text_table_cell(texts, "%.19s", mrd_json_str(json, "since", "-"));
    mrd_text_table_cell(texts, "%s", mrd_dur_text(mrd_json_int(json, "lasts_ns", 0), lasts));
    if (mrd_json_size(list) == 0 || mrd_json_get(mrd_json_at(list, 0), "rank") == NULL)
        mrd_text_table_cell(texts, "-");
    else
        mrd_text_table_cell(texts, "%lld",
                            (long long) mrd_json_int(mrd_json_at(list, 0), "rank", -1));
    mrd_text_table_cell(texts, "%s", culprit(json, "instance_id"));
    mrd_text_table_cell(texts, "%s", culprit(json, "state"));
    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "reason", ""));
}

/* Prints the stacks of the threads that a verdict contains, line by line. The text comes from a
 * node, so control characters are removed for the terminal. */
static void
put_stacks(const mrd_json *json)
{
    const mrd_json *list = mrd_json_get(json, "stacks");
    char line[512];

    for (size_t i = 0; i < mrd_json_size(list); i++) {
        const mrd_json *stack = mrd_json_at(list, i);
        const char *text = mrd_json_str(stack, "text", "");

        printf("\njob %s, rank %lld, pid %lld on %s%s:\n",
               mrd_cluster_shown(mrd_json_get(json, "job"), "job", "-"),
               (long long) mrd_json_int(stack, "rank", -1),
               (long long) mrd_json_int(stack, "process_id", 0),
               mrd_cluster_shown(stack, "instance_id", "-"),
               mrd_json_bool(stack, "culprit", false) ? ", named by the verdict" : "");
        for (size_t len; *text != '\0'; text += len + (text[len] == '\n')) {
            len = strcspn(text, "\n");
            snprintf(line, sizeof(line), "  %.*s", (int) len, text);
            mrd_cluster_say(stdout, line);
        }
    }
}

static mrd_err
get(const settings *set, mrd_client *client, mrd_json **ret_doc, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_err err;

    mrd_buf_text(&path, set->all ? "/api/v1/hangs?" : "/api/v1/hangs?standing=1&");
    if (set->job != NULL) {
        mrd_buf_text(&path, "job=");
        mrd_client_escape(&path, set->job);
    }
    err = path.err != MRD_OK
              ? mrd_why_set(why, path.err, 0, "path")
              : mrd_client_call(client, "GET", mrd_buf_cstr(&path), NULL, ret_doc, why);
    mrd_buf_fini(&path);
    return err;
}

static mrd_err
hangs(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    const mrd_json *list;
    mrd_json *doc = NULL;
    long long unnamed;
    mrd_err err;

    (void) word;
    (void) ret_status;
    if ((err = get(set, client, &doc, why)) != MRD_OK)
        return err;
    list = mrd_json_get(doc, "hangs");
    mrd_cluster_print_list(doc, "hangs", set->client.json, columns, MRD_COUNT(columns), put_row,
                           "no job is known to stand still");
    if (!set->client.json && (unnamed = mrd_json_int(doc, "unnamed", 0)) > 0)
        printf(
            "Processes that are not watched, because they name no job: %lld. Set MERIDIAN_JOB to "
            "the same name in all ranks of a job.\n",
            unnamed);
    for (size_t i = 0; set->stacks && !set->client.json && i < mrd_json_size(list); i++)
        put_stacks(mrd_json_at(list, i));
    mrd_json_free(doc);
    return MRD_OK;
}

int
mrd_cmd_hangs(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = {
        .name = "hangs",
        .usage = "[options]",
        .more = "Lists jobs that stand still, with the rank that is why, or the reason why no rank "
                "is named.\nThe ranks have to run with libmeridian in front of the Neuron "
                "runtime, and record their\nAPI calls. They have to name their job (MERIDIAN_JOB, "
                "or the variables of Slurm).\n",
        .table = table,
        .rows = MRD_COUNT(table),
        .settings = &set,
        .client = &set.client,
        .max_words = 0,
        .run = hangs
    };

    return mrd_cluster_main(&command, argc, argv);
}
