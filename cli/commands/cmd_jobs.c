/* `meridian jobs [JOB]`: lists the jobs that the aggregator watches, or the ranks of a job. */
#include <stdio.h>

#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "cli/client/job_list.h"

typedef struct {
    mrd_client_options client;
} settings;

static const mrd_opt table[] = { MRD_CLIENT_OPTION_ROWS(settings, client) };

static const mrd_text_table_column columns[] = {
    { "job", false }, { "user", false },  { "state", false },    { "ranks", true },
    { "step", true }, { "before", true }, { "last step", true }, { "verdict", false },
};

static const mrd_text_table_column rank_columns[] = {
    { "rank", true },      { "node", false },     { "pid", true },    { "state", false },
    { "step", true },      { "host", true },      { "device", true }, { "runtime", true },
    { "execution", true }, { "last step", true },
};

/* ---- The list ---- */

static void
put_row(mrd_text_table *texts, const mrd_json *json)
{
    const mrd_json *job = mrd_json_get(json, "job");
    char verdict_text[MRD_JOB_LIST_TEXT];
    long long ranks = mrd_json_int(json, "ranks", 0), world = mrd_json_int(json, "world", 0);

    mrd_text_table_cell(texts, "%s", mrd_json_str(job, "job", "-"));
    if (mrd_json_get(job, "user") != NULL)
        mrd_text_table_cell(texts, "%s", mrd_json_str(job, "user", "-"));
    else
        mrd_text_table_cell(texts, "%lld", (long long) mrd_json_int(json, "uid", -1));
    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "state", "?"));
    if (world > 0 && world != ranks)
        mrd_text_table_cell(texts, "%lld of %lld", ranks, world);
    else
        mrd_text_table_cell(texts, "%lld", ranks);
    mrd_text_table_dur(texts, mrd_json_int(json, "step_ns", -1));
    mrd_text_table_dur(texts, mrd_json_int(json, "step_before_ns", -1));
    mrd_text_table_dur(texts, mrd_json_int(json, "last_step_age_ns", -1));
    mrd_text_table_cell(texts, "%s", mrd_job_list_text(json, verdict_text));
}

/* ---- One job ---- */

static mrd_err
get_job(mrd_client *client, const char *id, mrd_json **ret_doc, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_err err;

    mrd_buf_text(&path, "/api/v1/jobs/");
    mrd_client_escape(&path, id);
    err = path.err != MRD_OK
              ? mrd_why_set(why, path.err, 0, "path")
              : mrd_client_call(client, "GET", mrd_buf_cstr(&path), NULL, ret_doc, why);
    mrd_buf_fini(&path);
    return err;
}

static void
put_rank(mrd_text_table *texts, const mrd_json *json)
{
    static const char *const parts[] = { "host_ns", "device_ns", "runtime_ns", "execution_ns" };
    const mrd_json *part = mrd_json_get(json, "parts");

    if (mrd_json_get(json, "rank") == NULL)
        mrd_text_table_cell(texts, "-");
    else
        mrd_text_table_cell(texts, "%lld", (long long) mrd_json_int(json, "rank", -1));
    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "instance_id", "-"));
    mrd_text_table_cell(texts, "%lld", (long long) mrd_json_int(json, "process_id", 0));
    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "state", "?"));
    mrd_text_table_dur(texts, mrd_json_int(json, "step_ns", -1));
    for (size_t i = 0; i < MRD_COUNT(parts); i++)
        mrd_text_table_dur(texts, mrd_json_int(part, parts[i], -1));
    mrd_text_table_dur(texts, mrd_json_int(json, "last_step_age_ns", -1));
}

static void
print_job(const mrd_json *json)
{
    const mrd_json *verdict = mrd_job_list_verdict(json);
    const mrd_json *list = mrd_json_get(json, "rank_list");
    mrd_text_table texts = { rank_columns, MRD_COUNT(rank_columns), { 0 } };
    char verdict_text[MRD_JOB_LIST_TEXT];

    if (verdict != NULL) {
        printf("\njob %s since %s:\n", mrd_cluster_shown(mrd_json_get(json, "job"), "job", "-"),
               mrd_cluster_shown(verdict, "since", "-"));
        mrd_cluster_say(stdout, mrd_job_list_text(json, verdict_text));
    }
    printf("\n");
    for (size_t i = 0; i < mrd_json_size(list); i++)
        put_rank(&texts, mrd_json_at(list, i));
    mrd_text_table_print(&texts, stdout);
    mrd_text_table_fini(&texts);
    if (mrd_json_int(json, "rank_list_left_out", 0) > 0)
        printf("%lld more processes\n", (long long) mrd_json_int(json, "rank_list_left_out", 0));
}

/* Replaces each job of the list by the job with its ranks. A job may have ended since the list was
 * made; it then keeps its entry without ranks. */
static mrd_err
add_ranks(mrd_client *client, const mrd_json *doc, mrd_json **ret_doc, mrd_why *why)
{
    const mrd_json *list = mrd_json_get(doc, "jobs");
    mrd_json *whole = mrd_json_new_object(), *jobs = mrd_json_new_array();
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < mrd_json_size(list) && err == MRD_OK; i++) {
        mrd_json *job = NULL;

        err = get_job(client, mrd_json_str(mrd_json_at(list, i), "id", "-"), &job, why);
        if (err == MRD_NOTFOUND) {
            *why = (mrd_why){ 0 };
            job = mrd_json_copy(mrd_json_at(list, i));
            err = MRD_OK;
        }
        if (err == MRD_OK)
            err = mrd_json_append(jobs, job);
    }
    mrd_json_set(whole, "jobs", jobs);
    if (err == MRD_OK)
        *ret_doc = whole;
    else
        mrd_json_free(whole);
    return err;
}

static mrd_err
show_job(const settings *set, mrd_client *client, const char *word, mrd_json **doc, mrd_why *why)
{
    mrd_json *whole = NULL;
    mrd_err err;

    if (mrd_json_size(mrd_json_get(*doc, "jobs")) == 0)
        return mrd_why_set(why, MRD_NOTFOUND, 0,
                           "no watched job has the number, name or id '%s': `meridian jobs` lists "
                           "the jobs",
                           word);
    if ((err = add_ranks(client, *doc, &whole, why)) != MRD_OK)
        return err;
    mrd_json_free(*doc);
    *doc = whole;
    mrd_cluster_print_list(whole, "jobs", set->client.json, columns, MRD_COUNT(columns), put_row,
                           "");
    for (size_t i = 0; !set->client.json && i < mrd_json_size(mrd_json_get(whole, "jobs")); i++)
        print_job(mrd_json_at(mrd_json_get(whole, "jobs"), i));
    return MRD_OK;
}

static mrd_err
jobs(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    mrd_json *doc = NULL;
    long long unnamed;
    mrd_err err;

    if ((err = mrd_job_list_get(client, word, &doc, why)) != MRD_OK)
        return err;
    if (word != NULL) {
        err = show_job(set, client, word, &doc, why);
    } else {
        mrd_cluster_print_list(doc, "jobs", set->client.json, columns, MRD_COUNT(columns), put_row,
                               "no job is known");
        if (!set->client.json && mrd_json_int(doc, "left_out", 0) > 0)
            printf("%lld more jobs\n", (long long) mrd_json_int(doc, "left_out", 0));
        if (!set->client.json && (unnamed = mrd_json_int(doc, "unnamed", 0)) > 0)
            printf("Processes that are not listed, because they name no job: %lld. Set "
                   "MERIDIAN_JOB to the same name in all ranks of a job.\n",
                   unnamed);
    }
    if (err == MRD_OK)
        *ret_status = mrd_job_list_status(doc);
    mrd_json_free(doc);
    return err;
}

int
mrd_cmd_jobs(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = {
        .name = "jobs",
        .usage = "[options] [JOB]",
        .more = "Lists jobs with the time of a step now and before, and the verdict about a rank "
                "that makes\nthe job slow or stand still. JOB is the number, the name or the id of "
                "a job, and shows it\nrank by rank: the time of a step and its parts.\n\nExit "
                "status: 0 if all listed jobs are healthy, 3 if one stands still, 4 if one is "
                "slow.\n",
        .table = table,
        .rows = MRD_COUNT(table),
        .settings = &set,
        .client = &set.client,
        .max_words = 1,
        .run = jobs
    };

    return mrd_cluster_main(&command, argc, argv);
}
