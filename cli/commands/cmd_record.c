/* `meridian record`: starts a session, waits, stops it, fetches its profile, and says how to open
 * it. */
#include <inttypes.h>

#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "cli/term/progress.h"

typedef struct {
    mrd_client_options client;
    mrd_session_request request;
    mrd_fetch_options fetch;
    mrd_dur_ns wait;
    bool do_fetch;
} settings;

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Recording" },
    { .name = "duration",
      .letter = 'd',
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, request.params.duration),
      .def = "30s",
      .min = 0,
      .max = 30 * 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "how long; 0: until Ctrl-C (which ends it early in any case)" },
    { .name = "wait",
      .letter = 'w',
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, wait),
      .def = "5min",
      .min = MRD_MS,
      .max = 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "after the end, wait at most so long for all events and the merge" },
    MRD_SESSION_OPTION_ROWS(settings, request, MRD_PARAM_RECORD),
    { .type = MRD_OPT_HEAD, .help = "Output" },
    { .name = "output-dir",
      .letter = 'o',
      .type = MRD_OPT_STR,
      .offset = offsetof(settings, fetch.dir),
      .arg = "DIR",
      .help = "where the files go (default meridian-<id>)" },
    { .name = "format",
      .letter = 'f',
      .type = MRD_OPT_LIST,
      .offset = offsetof(settings, fetch.formats),
      .def = "perfetto,summary-text,report-text",
      .arg = "LIST",
      .help = "any of perfetto, json, summary-text, summary-json, report-text, report-json, "
              "report-html, "
              "chrome, overview-json, parquet, parquet-explorer, sqlite, csv, steps-json" },
    /* the same option as --format, under the name that `view` and the vendor's tools use */
    { .name = "output-format",
      .type = MRD_OPT_LIST,
      .offset = offsetof(settings, fetch.formats),
      .arg = "LIST",
      .flags = MRD_OPT_HIDDEN,
      .help = "as --format" },
    { .name = "force",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, fetch.force),
      .help = "replace files that exist" },
    { .name = "fetch",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, do_fetch),
      .def = "1",
      .help = "fetch the profile (--no-fetch leaves it on the aggregator)" },
    MRD_FETCH_GROUP_ROWS(settings, fetch),
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const char more[] =
    "Examples\n"
    "  meridian record --duration 30s --job 4711 --require all\n"
    "  meridian record --duration 10s --event-type hardware -o step --format perfetto,json\n";

typedef struct {
    mrd_progress line;
    mrd_local_ns start;
    mrd_dur_ns duration;
} watching;

static bool
recorded(void *self, const mrd_json *doc)
{
    watching *watch = self;
    char text[64];
    long long passed = mrd_local_diff(mrd_local_now(), watch->start) / MRD_SEC;

    if (watch->duration > 0)
        snprintf(text, sizeof(text), "%lld s of %lld s", passed,
                 (long long) (watch->duration / MRD_SEC));
    else
        snprintf(text, sizeof(text), "%lld s; Ctrl-C ends it", passed);
    mrd_progress_show(&watch->line, (uint64_t) mrd_json_int(doc, "events", 0), 0, "events", text);
    return !mrd_cluster_in(doc, "arming|recording");
}

/* Waits until the session ends. An interruption by the user stops the session. */
static mrd_err
watch(const settings *set, mrd_client *client, const char *id, mrd_json **doc, mrd_why *why)
{
    watching w = { .start = mrd_local_now(), .duration = set->request.params.duration };
    mrd_dur_ns limit = w.duration > 0 ? w.duration + set->wait : INT64_MAX / 2;
    mrd_err err;

    mrd_progress_start(&w.line, "recording");
    err = mrd_cluster_wait(client, id, limit, set->client.timeout, recorded, &w, doc, why);
    mrd_progress_end(&w.line);
    if (err != MRD_CANCELLED)
        return err;
    fprintf(stderr, "stopping early\n");
    mrd_cluster_catch();
    return mrd_cluster_call(client, "POST", id, "/stop", NULL, NULL, why);
}

static void
report(const settings *set, const char *id, const mrd_json *doc, mrd_json *files)
{
    if (set->client.json) {
        mrd_json *json = mrd_json_new_object();

        mrd_json_set(json, "session", mrd_json_copy(doc));
        mrd_json_set(json, "files", mrd_json_copy(files));
        mrd_cluster_print_json(json);
        mrd_json_free(json);
        return;
    }
    mrd_cluster_print_session(doc, stdout);
    fputc('\n', stdout);
    if (set->do_fetch)
        mrd_cluster_print_files(files, stdout);
    else
        printf("get the profile with: meridian fetch %s\n", id);
}

static mrd_err
record_on(const settings *set, mrd_client *client, const char *id, mrd_json **doc, int *ret_status,
          mrd_why *why)
{
    mrd_json *files = mrd_json_new_array();
    mrd_err err = watch(set, client, id, doc, why);

    if (err == MRD_OK)
        err = mrd_cluster_finish(client, id, set->wait, set->client.timeout, doc, why);
    if (err == MRD_OK && mrd_cluster_in(*doc, "failed"))
        err = mrd_why_set(why, MRD_STATE, 0, "session %s failed: %s", id,
                          mrd_json_str(*doc, "message", "no reason given"));
    if (err == MRD_OK && set->do_fetch)
        err = mrd_cluster_fetch(client, id, &set->fetch, files, why);
    if (err == MRD_OK && set->do_fetch)
        err = mrd_cluster_again(client, id, doc, why);
    if (err == MRD_OK) {
        report(set, id, *doc, files);
        if (!mrd_cluster_whole(*doc, "record"))
            *ret_status = MRD_EXIT_INCOMPLETE;
    } else {
        fprintf(stderr,
                "session %s stays on the aggregator: meridian status %s, meridian fetch "
                "%s\n",
                id, id, id);
    }
    mrd_json_free(files);
    return err;
}

static mrd_err
record(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    settings *set = self;
    char id[MRD_CLUSTER_ID], nodes[64];
    mrd_json *doc = NULL;
    mrd_err err = set->do_fetch ? mrd_cluster_check_output(&set->fetch, why)
                                : mrd_cluster_check_formats(&set->fetch.formats, why);

    (void) word;
    if (err != MRD_OK) /* this check fails before anything is recorded */
        return err;
    mrd_cluster_catch();
    err = mrd_cluster_start(client, &set->request, set->client.timeout, id, &doc, why);
    if (err == MRD_OK) {
        if (!set->client.json)
            fprintf(stderr, "session %s records on %s\n", id, mrd_cluster_nodes_text(doc, nodes));
        err = record_on(set, client, id, &doc, ret_status, why);
    }
    mrd_json_free(doc);
    return err;
}

int
mrd_cmd_record(int argc, char **argv)
{
    settings set = { .fetch.split = MRD_SINK_SPLIT_BYTES };
    mrd_cluster_command command = { .name = "record",
                                    .usage = "[--duration DURATION] [--job LIST] [options]",
                                    .more = more,
                                    .table = table,
                                    .rows = MRD_COUNT(table),
                                    .settings = &set,
                                    .client = &set.client,
                                    .run = record };

    return mrd_cluster_main(&command, argc, argv);
}
