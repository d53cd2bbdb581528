/* `meridian sessions`: what was recorded, oldest first. */
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/cluster.h"

typedef struct {
    mrd_client_options client;
} settings;

static const mrd_opt table[] = { MRD_CLIENT_OPTION_ROWS(settings, client) };

static const mrd_table_column columns[] = {
    { "session", false }, { "state", false }, { "mode", false },   { "created", false },
    { "nodes", true },    { "events", true }, { "on disk", true }, { "name", false },
};

static void
put_row(mrd_table *t, const mrd_json *s)
{
    const char *message = mrd_json_str(s, "message", ""), *name = mrd_json_str(s, "name", "");
    int64_t nodes = mrd_json_int(s, "nodes", 0), without = mrd_json_int(s, "nodes_without", 0);
    char size[MRD_SIZE_TEXT];

    mrd_table_cell(t, "%s", mrd_json_str(s, "id", "?"));
    mrd_table_cell(t, "%s", mrd_json_str(s, "state", "?"));
    mrd_table_cell(t, "%s", mrd_json_str(s, "mode", "?"));
    mrd_table_cell(t, "%.19s", mrd_json_str(s, "created", "-"));
    if (without > 0)
        mrd_table_cell(t, "%lld of %lld", (long long) (nodes - without), (long long) nodes);
    else
        mrd_table_count(t, nodes);
    mrd_table_count(t, mrd_json_int(s, "events", 0));
    mrd_table_cell(t, "%s",
                   mrd_cli_size((uint64_t) (mrd_json_int(s, "store_bytes", 0) +
                                            mrd_json_int(s, "artifact_bytes", 0)),
                                size));
    mrd_table_cell(t, "%s%s%s", name, *name != '\0' && *message != '\0' ? ": " : "", message);
}

static mrd_err
sessions(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    mrd_json *doc = NULL;
    mrd_err err = mrd_client_call(client, "GET", "/api/v1/sessions", NULL, &doc, why);

    (void) word;
    (void) ret_status;
    if (err != MRD_OK)
        return err;
    mrd_cluster_print_list(doc, "sessions", set->client.json, columns, MRD_COUNT(columns), put_row,
                           "no session yet: `meridian record --duration 30s` makes one");
    mrd_json_free(doc);
    return MRD_OK;
}

int
mrd_cmd_sessions(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = { .name = "sessions",
                                    .usage = "[options]",
                                    .table = table,
                                    .rows = MRD_COUNT(table),
                                    .settings = &set,
                                    .client = &set.client,
                                    .run = sessions };

    return mrd_cluster_main(&command, argc, argv);
}
