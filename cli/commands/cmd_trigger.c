/* `meridian trigger [SESSION] --last 20s`: makes a flight recorder save and send the last seconds
 * of its memory, the same time range on all nodes. */
#include <inttypes.h>

#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"

/* time that the other nodes get to answer after the first answer */
#define REST_WAIT (2 * MRD_SEC)

typedef struct {
    mrd_client_options client;
    mrd_dur_ns last;
    char *reason;
} settings;

static const mrd_opt table[] = {
    { .name = "last",
      .letter = 'l',
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, last),
      .def = "20s",
      .min = MRD_MS,
      .max = 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "the window: from so long ago until now" },
    { .name = "reason",
      .type = MRD_OPT_STR,
      .offset = offsetof(settings, reason),
      .def = "command line",
      .arg = "TEXT",
      .help = "why, for the record" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const mrd_json *
trigger_of(const mrd_json *doc, const char *number)
{
    const mrd_json *list = mrd_json_get(doc, "triggers");

    for (size_t i = 0; i < mrd_json_size(list); i++) {
        if (strcmp(mrd_json_str(mrd_json_at(list, i), "id", ""), number) == 0)
            return mrd_json_at(list, i);
    }
    return NULL;
}

typedef struct {
    const char *number;
    mrd_local_ns until; /* deadline for all answers, set at the first answer; 0 before */
} awaited;

/* Returns true if all nodes have answered, or if REST_WAIT has passed since the first answer.
 * Connected nodes all answer at about the same time. */
static bool
is_answered(void *self, const mrd_json *doc)
{
    awaited *a = self;
    const mrd_json *json = trigger_of(doc, a->number);

    if (mrd_json_int(json, "answered", 0) == 0)
        return false;
    if (a->until.ns == 0)
        a->until = mrd_local_add(mrd_local_now(), REST_WAIT);
    return mrd_json_size(mrd_json_get(json, "unacknowledged")) == 0 ||
           mrd_local_before(a->until, mrd_local_now());
}

static void
say_missing(const mrd_json *json)
{
    const mrd_json *list = mrd_json_get(json, "unacknowledged");
    int64_t answered = mrd_json_int(json, "answered", 0);

    if (answered == 0)
        fprintf(stderr, "meridian trigger: no node has answered yet: `meridian nodes` shows which "
                        "are connected\n");
    for (size_t i = 0; answered > 0 && i < mrd_json_size(list); i++) {
        char scratch[64];
        mrd_str id = MRD_STR("?");

        (void) mrd_json_text(mrd_json_at(list, i), scratch, &id);
        fprintf(stderr,
                "meridian trigger: node " MRD_STR_FMT
                " has not answered yet: it gets the request when it is connected\n",
                MRD_STR_ARG(id));
    }
}

/* Waits briefly for the answers of the nodes, and prints how to fetch the time range that they
 * saved. */
static mrd_err
follow(const settings *set, mrd_client *client, const char *id, char *number, int *ret_status,
       mrd_why *why)
{
    awaited a = { .number = number };
    mrd_json *doc = NULL;
    const mrd_json *json;
    mrd_err err = mrd_cluster_wait(client, id, set->client.timeout, set->client.timeout,
                                   is_answered, &a, &doc, why);

    json = trigger_of(doc, number);
    if (err == MRD_TIMEOUT && json != NULL)
        err = MRD_OK;
    if (err == MRD_OK) {
        say_missing(json);
        if (mrd_json_int(json, "answered", 0) == 0)
            *ret_status = MRD_EXIT_INCOMPLETE;
    }
    if (err == MRD_OK && set->client.json)
        mrd_cluster_print_json(json);
    else if (err == MRD_OK)
        printf("trigger %s: %s to %s, %" PRId64 " node%s answered\nget the window with: meridian "
               "fetch %s --start %" PRId64 " --end %" PRId64 "\n",
               number, mrd_cluster_shown(json, "from", "?"), mrd_cluster_shown(json, "to", "?"),
               mrd_json_int(json, "answered", 0),
               mrd_plural((uint64_t) mrd_json_int(json, "answered", 0)), id,
               mrd_json_int(json, "from_ns", 0), mrd_json_int(json, "to_ns", 0));
    mrd_json_free(doc);
    return err;
}

static mrd_err
trigger(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    mrd_json *body = mrd_json_new_object(), *reply = NULL;
    char id[MRD_CLUSTER_ID], number[64] = "";
    mrd_err err = MRD_OK;

    mrd_json_set(body, "last", mrd_json_new_int(set->last));
    mrd_json_set(body, "reason", mrd_json_new_str(set->reason));
    if (word == NULL) {
        err = mrd_client_call(client, "POST", "/api/v1/trigger", body, &reply, why);
    } else if ((err = mrd_cluster_find(client, word, MRD_CLUSTER_TRIGGER, id, why)) == MRD_OK) {
        err = mrd_cluster_call(client, "POST", id, "/trigger", body, &reply, why);
    }
    mrd_json_free(body);
    if (err == MRD_OK)
        snprintf(number, sizeof(number), "%s", mrd_cluster_shown(reply, "trigger", ""));
    if (err == MRD_OK && word != NULL)
        err = follow(set, client, id, number, ret_status, why);
    else if (err == MRD_OK && set->client.json)
        mrd_cluster_print_json(reply);
    else if (err == MRD_OK)
        printf("trigger %s: all flight recorders were asked (meridian sessions)\n", number);
    mrd_json_free(reply);
    return err;
}

int
mrd_cmd_trigger(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = { .name = "trigger",
                                    .usage = "[SESSION] [--last DURATION] [options]",
                                    .more = "Without SESSION, all flight recorders that run.\n",
                                    .table = table,
                                    .rows = MRD_COUNT(table),
                                    .settings = &set,
                                    .client = &set.client,
                                    .max_words = 1,
                                    .run = trigger };

    return mrd_cluster_main(&command, argc, argv);
}
