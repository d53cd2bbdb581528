/* `meridian stop SESSION`: stop on all nodes; waits until everything arrived. */
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/cluster.h"

typedef struct {
    mrd_client_options client;
    mrd_dur_ns wait;
} settings;

static const mrd_opt table[] = {
    { .name = "wait",
      .letter = 'w',
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, wait),
      .def = "5min",
      .min = 0,
      .max = 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "wait at most so long until everything has arrived and is merged; 0: not at all" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static mrd_err
stop(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    char id[MRD_CLUSTER_ID];
    bool over;
    mrd_err err = mrd_cluster_find(client, word, MRD_CLUSTER_END, id, why);

    if (err == MRD_OK)
        err = mrd_cluster_call(client, "POST", id, "/stop", NULL, NULL, why);
    if (err != MRD_OK)
        return err;
    mrd_cluster_catch();
    err = mrd_cluster_show(client, &set->client, id, set->wait, "stop", &over, ret_status, why);
    if (over && !set->client.json)
        printf("\nget the profile with: meridian fetch %s\n", id);
    return err;
}

int
mrd_cmd_stop(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = { .name = "stop",
                                    .usage = "SESSION [options]",
                                    .table = table,
                                    .rows = MRD_COUNT(table),
                                    .settings = &set,
                                    .client = &set.client,
                                    .min_words = 1,
                                    .max_words = 1,
                                    .run = stop };

    return mrd_cluster_main(&command, argc, argv);
}
