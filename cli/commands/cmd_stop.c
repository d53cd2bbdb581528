/* `meridian stop SESSION|--all`: stops sessions on all nodes, and waits until all events have
 * arrived. */
#include "base/num.h"
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"

typedef struct {
    mrd_client_options client;
    mrd_dur_ns wait;
    bool all;
} settings;

static const mrd_opt table[] = {
    { .name = "all",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, all),
      .help = "stop every session that is open and that you may stop, in place of SESSION" },
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

static const char more[] = "Examples\n"
                           "  meridian stop latest\n"
                           "  meridian stop --all --wait 0\n";

static mrd_err
stop_one(const settings *set, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
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

/* ---- Stopping all sessions ---- */

/* Prints that a session could not be stopped. The command then continues with the other
 * sessions. */
static void
say_failed(const char *id, mrd_err err, mrd_why *why, int *ret_status)
{
    if (strstr(why->text, id) == NULL)
        mrd_why_prefix(why, err, "session %s", id);
    mrd_cli_error("stop", why);
    *why = (mrd_why){ 0 };
    *ret_status = MRD_EXIT_FAILED;
}

/* Requests the stop of all open sessions. This is done before any wait, so that they stop at the
 * same time. Appends the ids of the sessions that are stopping to *ret_ids. */
static mrd_err
tell_all(mrd_client *client, const mrd_json *list, mrd_strlist *ret_ids, int *ret_status,
         mrd_why *why)
{
    for (size_t i = 0; i < mrd_json_size(list); i++) {
        const mrd_json *json = mrd_json_at(list, i);
        const char *id = mrd_json_str(json, "id", "");
        mrd_err err;

        if (!mrd_cluster_in(json, "arming|recording|stopping"))
            continue;
        err = mrd_cluster_call(client, "POST", id, "/stop", NULL, NULL, why);
        /* STATE means that the session has just ended by itself */
        if (err != MRD_OK && err != MRD_STATE)
            say_failed(id, err, why, ret_status);
        else if ((err = mrd_strlist_add(ret_ids, mrd_str_of(id))) != MRD_OK)
            return mrd_why_set(why, err, 0, "sessions");
    }
    return MRD_OK;
}

static void
print_one(const mrd_json *doc, size_t before, const char *id)
{
    if (before > 0)
        printf("\n");
    mrd_cluster_print_session(doc, stdout);
    if (mrd_cluster_in(doc, "complete"))
        printf("\nget the profile with: meridian fetch %s\n", id);
}

/* Waits until all sessions are over, but at most for the time of `--wait`. A failed session
 * determines the exit status, even if another session is only incomplete. */
static mrd_err
await_all(const settings *set, mrd_client *client, const mrd_strlist *ids, mrd_json *ended,
          int *ret_status, mrd_why *why)
{
    mrd_dur_ns until = mrd_sat_add(mrd_local_now().ns, set->wait);

    for (size_t i = 0; i < ids->n; i++) {
        mrd_dur_ns left = until - mrd_local_now().ns;
        mrd_json *doc = NULL;
        int status = MRD_EXIT_OK;
        mrd_err err = mrd_cluster_end(client, set->client.timeout, ids->v[i], left, &doc, why);

        if (doc != NULL && !set->client.json)
            print_one(doc, i, ids->v[i]);
        if (err == MRD_OK)
            status = mrd_cluster_status(doc, "stop");
        if (*ret_status != MRD_EXIT_FAILED && status != MRD_EXIT_OK)
            *ret_status = status;
        if (doc != NULL && mrd_json_append(ended, doc) != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "sessions");
        if (err == MRD_CANCELLED)
            return err;
        if (err != MRD_OK)
            say_failed(ids->v[i], err, why, ret_status);
    }
    return MRD_OK;
}

static mrd_err
stop_all(const settings *set, mrd_client *client, int *ret_status, mrd_why *why)
{
    mrd_json *doc = NULL, *out = mrd_json_new_object(), *ended = mrd_json_new_array();
    mrd_strlist ids = { 0 };
    mrd_err err = mrd_json_set(out, "sessions", ended); /* out now owns ended */

    if (err != MRD_OK)
        mrd_why_set(why, err, 0, "sessions");
    if (err == MRD_OK)
        err = mrd_client_call(client, "GET", "/api/v1/sessions", NULL, &doc, why);
    if (err == MRD_OK)
        err = tell_all(client, mrd_json_get(doc, "sessions"), &ids, ret_status, why);
    if (err == MRD_OK) {
        mrd_cluster_catch();
        err = await_all(set, client, &ids, ended, ret_status, why);
        if (set->client.json)
            mrd_cluster_print_json(out);
        else if (ids.n == 0 && *ret_status == MRD_EXIT_OK)
            printf("no session is open\n");
    }
    mrd_strlist_fini(&ids);
    mrd_json_free(doc);
    mrd_json_free(out);
    return err;
}

static mrd_err
stop(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;

    if (set->all && word == NULL)
        return stop_all(set, client, ret_status, why);
    if (!set->all && word != NULL)
        return stop_one(set, client, word, ret_status, why);
    return mrd_why_set(why, MRD_INVALID, 0, "%s",
                       set->all ? "--all stops every session: leave the session out"
                                : "which session? Give its id, the beginning of it, `latest`, or "
                                  "--all");
}

int
mrd_cmd_stop(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = { .name = "stop",
                                    .usage = "SESSION|--all [options]",
                                    .more = more,
                                    .table = table,
                                    .rows = MRD_COUNT(table),
                                    .settings = &set,
                                    .client = &set.client,
                                    .max_words = 1,
                                    .run = stop };

    return mrd_cluster_main(&command, argc, argv);
}
