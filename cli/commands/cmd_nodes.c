/* `meridian nodes`: lists the known agents, their event rates and the quality of their clocks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/loss_cause.h"
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"

typedef struct {
    mrd_client_options client;
    mrd_dur_ns interval;
    mrd_strlist forget;
} settings;

static const mrd_opt table[] = {
    { .name = "interval",
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, interval),
      .def = "1s",
      .min = 0,
      .max = 3600 * MRD_SEC,
      .arg = "DURATION",
      .help = "event rates are measured over this long; 0: none" },
    { .name = "forget",
      .type = MRD_OPT_LIST,
      .offset = offsetof(settings, forget),
      .arg = "LIST",
      .help = "forget these nodes: they will not come back, and sessions no longer list them as "
              "missing" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const mrd_text_table_column columns[] = {
    { "node", false },      { "state", false },      { "rings", true },        { "events/s", true },
    { "stored", true },     { "dropped", true },     { "held", true },         { "spool", true },
    { "clock", false },     { "clock error", true }, { "certificate", false }, { "release", false },
    { "last seen", false },
};

/* Returns the entry of the same node in an earlier answer, or NULL if the node is new. */
static const mrd_json *
same_node(const mrd_json *list, const mrd_json *node)
{
    const char *id = mrd_json_str(node, "instance_id", "");

    for (size_t i = 0; i < mrd_json_size(list); i++) {
        if (strcmp(mrd_json_str(mrd_json_at(list, i), "instance_id", "?"), id) == 0)
            return mrd_json_at(list, i);
    }
    return NULL;
}

/* Returns the time in ns, by the node's clock, from the node's counts in the earlier answer to its
 * counts in the new answer. */
static mrd_dur_ns
passed_of(const mrd_json *node, const mrd_json *before)
{
    return mrd_json_int(node, "counted_local_ns", 0) - mrd_json_int(before, "counted_local_ns", 0);
}

/* Returns how many events per second the node's processes made, including events that were not
 * recorded. Returns -1 if this is unknown, because the node is new or its agent restarted. */
static int64_t
rate_of(const mrd_json *node, const mrd_json *before)
{
    int64_t events = mrd_json_int(mrd_json_get(node, "counters"), "begun", 0) -
                     mrd_json_int(mrd_json_get(before, "counters"), "begun", 0);
    mrd_dur_ns passed = passed_of(node, before);

    if (before == NULL || passed <= 0 || events < 0)
        return -1;
    return (int64_t) ((double) events * 1e9 / (double) passed + 0.5);
}

/* Returns true if every connected node has sent new counts since the answer `first`. */
static bool
all_counted(const mrd_json *list, const mrd_json *first)
{
    for (size_t i = 0; i < mrd_json_size(list); i++) {
        const mrd_json *node = mrd_json_at(list, i), *before = same_node(first, node);

        if (mrd_json_bool(node, "connected", false) && before != NULL &&
            passed_of(node, before) == 0)
            return false;
    }
    return true;
}

/* Adds a cell with the agent's release and the first 7 digits of its commit. */
static void
put_release(mrd_text_table *texts, const mrd_json *node)
{
    const char *release = mrd_json_str(node, "release", ""), *commit;

    commit = mrd_json_str(node, "commit", "");
    mrd_text_table_cell(texts, "%s%s%.7s%s", *release == '\0' ? "-" : release,
                        *commit == '\0' ? "" : " ", commit,
                        strstr(commit, "-dirty") != NULL ? "+" : "");
}

static void
put_row(mrd_text_table *texts, const mrd_json *node)
{
    const mrd_json *counters = mrd_json_get(node, "counters");
    const mrd_json *clock = mrd_json_get(node, "clock");
    int64_t rate = mrd_json_int(node, "events_per_second", -1);
    const char *limit = mrd_json_str(node, "limited_by", "");
    char size[MRD_SIZE_TEXT];

    mrd_text_table_cell(texts, "%s", mrd_json_str(node, "instance_id", "?"));
    mrd_text_table_cell(texts, "%s%s%s%s", mrd_json_str(node, "state", "?"),
                        *limit == '\0' ? "" : " by ", limit,
                        mrd_json_bool(node, "simulated", false) ? " (simulated)" : "");
    /* an earlier run of the aggregator knew this node, which has not sent counts since */
    if (!mrd_json_bool(node, "reported", true)) {
        for (int i = 0; i < 9; i++)
            mrd_text_table_cell(texts, "-");
        put_release(texts, node);
        mrd_text_table_cell(texts, "%.19s", mrd_json_str(node, "seen", "-"));
        return;
    }
    mrd_text_table_count(texts, mrd_json_int(node, "rings", 0));
    if (rate < 0)
        mrd_text_table_cell(texts, "-");
    else
        mrd_text_table_count(texts, rate);
    mrd_text_table_count(texts, mrd_json_int(node, "events", 0));
    mrd_text_table_count(texts, mrd_cluster_lost(counters));
    mrd_text_table_count(texts, mrd_json_int(counters, "held", 0));
    mrd_text_table_cell(texts, "%s",
                        mrd_cli_size((uint64_t) mrd_json_int(node, "spool_bytes", 0), size));
    mrd_text_table_cell(texts, "%s", mrd_json_str(clock, "state", "?"));
    mrd_text_table_dur(texts, mrd_json_int(clock, "bound_ns", -1));
    /* the first 10 characters are the date */
    mrd_text_table_cell(texts, "%.10s",
                        mrd_json_str(mrd_json_get(node, "certificate"), "end", "-"));
    put_release(texts, node);
    mrd_text_table_cell(texts, "%.19s", mrd_json_str(node, "seen", "-"));
}

/* Nodes send their counts once a second, with heartbeats. With a shorter interval, wait until new
 * counts arrive. */
#define COUNT_PATIENCE (3 * MRD_SEC)
#define COUNT_POLL     (100 * MRD_MS)

static mrd_err
ask_later(const settings *set, mrd_client *client, const mrd_json *first, mrd_json **ret_doc,
          mrd_why *why)
{
    int64_t end = mrd_local_now().ns + set->interval + COUNT_PATIENCE;
    mrd_err err = MRD_OK;

    mrd_cluster_sleep(set->interval);
    for (;; mrd_cluster_sleep(COUNT_POLL)) {
        mrd_json_free(*ret_doc);
        *ret_doc = NULL;
        err = mrd_client_call(client, "GET", "/api/v1/nodes", NULL, ret_doc, why);
        if (err != MRD_OK || all_counted(mrd_json_get(*ret_doc, "nodes"), first) ||
            mrd_local_now().ns > end)
            return err;
    }
}

static mrd_err
ask_twice(const settings *set, mrd_client *client, mrd_json **ret_doc, mrd_why *why)
{
    mrd_json *first = NULL, *doc = NULL;
    const mrd_json *before, *list;
    mrd_err err = mrd_client_call(client, "GET", "/api/v1/nodes", NULL, &first, why);

    before = mrd_json_get(first, "nodes");
    if (err != MRD_OK || set->interval == 0 || mrd_json_size(before) == 0) {
        *ret_doc = first;
        return err;
    }
    err = ask_later(set, client, before, &doc, why);
    list = mrd_json_get(doc, "nodes");
    for (size_t i = 0; err == MRD_OK && i < mrd_json_size(list); i++) {
        mrd_json *node = mrd_json_at(list, i);
        int64_t rate = rate_of(node, same_node(before, node));

        if (rate >= 0)
            mrd_json_set(node, "events_per_second", mrd_json_new_int(rate));
    }
    mrd_json_free(first);
    *ret_doc = doc;
    return err;
}

static mrd_err
forget(const settings *set, mrd_client *client, mrd_why *why)
{
    mrd_json *json = mrd_json_new_object(), *list = mrd_json_new_array();
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < set->forget.n && err == MRD_OK; i++) {
        mrd_buf path = { 0 };

        mrd_buf_text(&path, "/api/v1/nodes/");
        mrd_client_escape(&path, set->forget.v[i]);
        err = mrd_client_call(client, "DELETE", mrd_buf_cstr(&path), NULL, NULL, why);
        mrd_buf_fini(&path);
        if (err != MRD_OK)
            break;
        mrd_json_append(list, mrd_json_new_str(set->forget.v[i]));
        if (!set->client.json)
            printf("%s is forgotten until it connects again\n", set->forget.v[i]);
    }
    mrd_json_set(json, "forgotten", list);
    if (set->client.json)
        mrd_cluster_print_json(json);
    mrd_json_free(json);
    return err;
}

/* Prints that the spool of a node was damaged. The agent's own limits never cause this. Another
 * program must have removed a part of the spool. */
static void
say_damaged(const mrd_json *node)
{
    const mrd_json *drops = mrd_json_get(mrd_json_get(node, "counters"), "drops");

    for (size_t i = 0; i < mrd_json_size(drops); i++) {
        const mrd_json *json = mrd_json_at(drops, i);

        if (mrd_drop_of(mrd_str_of(mrd_json_str(json, "cause", ""))) == MRD_DROP_DAMAGED)
            printf("%s lost %" PRId64 " event%s with its spool, which was cut or removed while no "
                   "agent ran (spool-damaged)\n",
                   mrd_cluster_shown(node, "instance_id", "?"), mrd_json_int(json, "count", 0),
                   mrd_plural((uint64_t) mrd_json_int(json, "count", 0)));
    }
}

/* Prints a message about events that the agent could not read, because no counter includes them. */
static void
say_unread(const mrd_json *node)
{
    const char *what = mrd_json_str(mrd_json_get(node, "unread"), "message", NULL);

    if (what == NULL)
        return;
    printf("%s: ", mrd_cluster_shown(node, "instance_id", "?"));
    mrd_cluster_say(stdout, what);
}

static mrd_err
nodes(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    mrd_json *doc = NULL;
    mrd_err err;

    (void) word;
    (void) ret_status;
    if (set->forget.n > 0)
        return forget(set, client, why);
    if ((err = ask_twice(set, client, &doc, why)) != MRD_OK)
        return err;
    mrd_cluster_print_list(doc, "nodes", set->client.json, columns, MRD_COUNT(columns), put_row,
                           "no agent has connected: start meridian-agent --aggregator URL on the "
                           "nodes");
    for (size_t i = 0; !set->client.json && i < mrd_json_size(mrd_json_get(doc, "nodes")); i++) {
        say_damaged(mrd_json_at(mrd_json_get(doc, "nodes"), i));
        say_unread(mrd_json_at(mrd_json_get(doc, "nodes"), i));
    }
    mrd_json_free(doc);
    return MRD_OK;
}

static const char more[] =
    "A node is missing when it is not connected, and gone when that lasted longer than the\n"
    "aggregator's --advanced.node-forget. events/s is what its processes do, recorded or not;\n"
    "`stored` those kept since the aggregator started; `dropped` leaves out events that no "
    "session\n"
    "had asked for; `certificate` is the day on which that of the agent ends.\n"
    "\n`clock` says what is known of the node's clock. good: it lies within `clock error`.\n"
    "extrapolated: the last probe is more than 5 s old, as is usual without a session; the bound\n"
    "grows until the next. settling: too few probes yet. suspect: the probes contradict each "
    "other.\ngap: the clock jumped. unaligned: no probe was answered.\n";

int
mrd_cmd_nodes(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = { .name = "nodes",
                                    .usage = "[options]",
                                    .more = more,
                                    .table = table,
                                    .rows = MRD_COUNT(table),
                                    .settings = &set,
                                    .client = &set.client,
                                    .run = nodes };

    return mrd_cluster_main(&command, argc, argv);
}
