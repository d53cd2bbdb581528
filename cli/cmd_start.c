/* `meridian start`: a session on all nodes, or on those selected. */
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/cluster.h"

typedef struct {
    mrd_client_options client;
    mrd_session_request request;
} settings;

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Recording" },
    { .name = "mode",
      .type = MRD_OPT_CHOICE,
      .offset = offsetof(settings, request.mode),
      .def = "stream",
      .arg = "stream,recorder",
      .help = "ship all the time, or keep the last moments on the nodes until a trigger" },
    { .name = "duration",
      .letter = 'd',
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, request.duration),
      .def = "0",
      .min = 0,
      .max = 30 * 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "stop after so long; 0: when told (`meridian stop`)" },
    { .name = "keep",
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, request.keep),
      .def = "30s",
      .min = MRD_MS,
      .max = 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "recorder: how much is kept on a node" },
    { .name = "keep-size",
      .type = MRD_OPT_SIZE,
      .offset = offsetof(settings, request.keep_bytes),
      .def = "256M",
      .min = 1 << 20,
      .max = 1LL << 40,
      .arg = "SIZE",
      .help = "recorder: bound of its memory on a node" },
    { .name = "merge",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, request.merge),
      .def = "1",
      .help = "merge at the end (--no-merge leaves it to `meridian fetch`)" },
    MRD_REQUEST_OPTION_ROWS(settings, request),
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
                set->request.duration > 0 ? ", for a while" : "", id);
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
