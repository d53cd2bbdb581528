/* `meridian status [SESSION]`: shows one session, node by node. */
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"

typedef struct {
    mrd_client_options client;
    mrd_dur_ns wait;
} settings;

static const mrd_opt table[] = {
    { .name = "wait",
      .letter = 'w',
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, wait),
      .def = "0",
      .min = 0,
      .max = 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "wait until the session is over, at most so long" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static mrd_err
status(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    char id[MRD_CLUSTER_ID];
    bool over;
    mrd_err err = mrd_cluster_find(client, word, MRD_CLUSTER_LOOK, id, why);

    return err != MRD_OK ? err
                         : mrd_cluster_show(client, &set->client, id, set->wait, "status", &over,
                                            ret_status, why);
}

int
mrd_cmd_status(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = { .name = "status",
                                    .usage = "[SESSION] [options]",
                                    .more = "SESSION is an id, the beginning of one, or `latest` "
                                            "(also when left out).\n",
                                    .table = table,
                                    .rows = MRD_COUNT(table),
                                    .settings = &set,
                                    .client = &set.client,
                                    .max_words = 1,
                                    .run = status };

    return mrd_cluster_main(&command, argc, argv);
}
