/* `meridian pause|resume|change SESSION`: changes what a running session records. */
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"

typedef struct {
    mrd_client_options client;
    mrd_strlist types, cores;
    const char *rest; /* last part of the request's path, after the session's id */
} settings;

static const mrd_opt plain[] = {
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const mrd_opt choices[] = {
    { .name = "event-type",
      .type = MRD_OPT_LIST,
      .offset = offsetof(settings, types),
      .arg = "LIST",
      .help = "event types from now on, as `meridian start` takes them" },
    { .name = "core",
      .type = MRD_OPT_LIST,
      .offset = offsetof(settings, cores),
      .arg = "LIST",
      .help = "NeuronCores from now on: 0,2,4-7" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static void
put_list(mrd_json *json, const char *key, const mrd_strlist *list)
{
    mrd_json *a = list->n > 0 ? mrd_json_new_array() : NULL;

    for (size_t i = 0; i < list->n; i++)
        mrd_json_append(a, mrd_json_new_str(list->v[i]));
    if (a != NULL)
        mrd_json_set(json, key, a);
}

static mrd_err
body_of(const settings *set, mrd_json **ret_body, mrd_why *why)
{
    mrd_json *body, *select;

    if (strcmp(set->rest, "/change") != 0)
        return MRD_OK;
    if (set->types.n + set->cores.n == 0)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "nothing to change: give --event-type, --core or both");
    body = mrd_json_new_object();
    select = mrd_json_new_object();
    put_list(select, "event_type", &set->types);
    put_list(select, "core", &set->cores);
    mrd_json_set(body, "select", select);
    *ret_body = body;
    return MRD_OK;
}

static mrd_err
alter(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    char id[MRD_CLUSTER_ID];
    mrd_json *body = NULL, *doc = NULL;
    mrd_err err = body_of(set, &body, why);

    if (err == MRD_OK)
        err = mrd_cluster_find(client, word, MRD_CLUSTER_END, id, why);
    if (err == MRD_OK)
        err = mrd_cluster_call(client, "POST", id, set->rest, body, NULL, why);
    if (err == MRD_OK)
        err = mrd_cluster_call(client, "GET", id, "", NULL, &doc, why);
    mrd_json_free(body);
    if (err != MRD_OK)
        return err;
    if (set->client.json)
        mrd_cluster_print_json(doc);
    else
        printf("%s %s\n", id,
               strcmp(set->rest, "/pause") == 0
                   ? "is paused: nothing is recorded until `meridian resume`"
               : strcmp(set->rest, "/resume") == 0 ? "goes on"
                                                   : "is changed");
    mrd_json_free(doc);
    *ret_status = 0;
    return MRD_OK;
}

static int
command(const char *name, const char *rest, const mrd_opt *table, size_t rows, int argc,
        char **argv)
{
    settings set = { .rest = rest };
    mrd_cluster_command cluster_command = { .name = name,
                                            .usage = "SESSION [options]",
                                            .table = table,
                                            .rows = rows,
                                            .settings = &set,
                                            .client = &set.client,
                                            .min_words = 1,
                                            .max_words = 1,
                                            .run = alter };

    return mrd_cluster_main(&cluster_command, argc, argv);
}

int
mrd_cmd_pause(int argc, char **argv)
{
    return command("pause", "/pause", plain, MRD_COUNT(plain), argc, argv);
}

int
mrd_cmd_resume(int argc, char **argv)
{
    return command("resume", "/resume", plain, MRD_COUNT(plain), argc, argv);
}

int
mrd_cmd_change(int argc, char **argv)
{
    return command("change", "/change", choices, MRD_COUNT(choices), argc, argv);
}
