/* `meridian start`: starts a session on all nodes, or on selected ones. */
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"

typedef struct {
    mrd_client_options client;
    mrd_session_request request;
} settings;

static const mrd_opt table[] = {
    MRD_SESSION_OPTION_ROWS(settings, request, MRD_PARAM_START),
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const char more[] =
    "Examples\n"
    "  meridian start --job 4711 --require all        until `meridian stop latest`\n"
    "  meridian start --mode recorder --keep 1min     a flight recorder for `meridian trigger`\n";

static mrd_err
start(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    char id[MRD_CLUSTER_ID];
    mrd_json *doc = NULL;
    char nodes[64];
    mrd_err err;

    (void) word;
    mrd_cluster_catch();
    err = mrd_cluster_start(client, &set->request, set->client.timeout, id, &doc, why);
    if (err != MRD_OK)
        return err;
    if (set->client.json)
        mrd_cluster_print_json(doc);
    else
        printf("%s\n", id);
    if (!set->client.json)
        fprintf(stderr, "recording on %s%s; stop it with: meridian stop %s\n",
                mrd_cluster_nodes_text(doc, nodes),
                set->request.params.duration > 0 ? ", for a while" : "", id);
    if (!mrd_cluster_whole(doc, "start"))
        *ret_status = MRD_EXIT_INCOMPLETE;
    mrd_json_free(doc);
    return MRD_OK;
}

int
mrd_cmd_start(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = { .name = "start",
                                    .usage = "[options]",
                                    .more = more,
                                    .table = table,
                                    .rows = MRD_COUNT(table),
                                    .settings = &set,
                                    .client = &set.client,
                                    .run = start };

    return mrd_cluster_main(&command, argc, argv);
}
