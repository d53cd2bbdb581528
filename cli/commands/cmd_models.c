/* `meridian models [SESSION]`: lists the models that are loaded on the cluster now, or that were
 * loaded during a session. */
#include <stdio.h>
#include <string.h>

#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"

typedef struct {
    mrd_client_options client;
} settings;

static const mrd_opt table[] = { MRD_CLIENT_OPTION_ROWS(settings, client) };

static const mrd_text_table_column columns[] = {
    { "model", false },      { "hash", false }, { "size", true },      { "loads", true },
    { "loaded", true },      { "nodes", true }, { "processes", true }, { "cores", false },
    { "first load", false }, { "neff", false },
};

/* Counts the different nodes that loaded a model, or with `processes` the different processes. */
static int64_t
different(const mrd_json *loads, bool processes)
{
    int64_t count = 0;

    for (size_t i = 0; i < mrd_json_size(loads); i++) {
        const mrd_json *json = mrd_json_at(loads, i);
        bool seen = false;

        for (size_t j = 0; j < i && !seen; j++) {
            const mrd_json *b = mrd_json_at(loads, j);

            seen = strcmp(mrd_json_str(json, "instance_id", ""),
                          mrd_json_str(b, "instance_id", "")) == 0 &&
                   (!processes ||
                    mrd_json_int(json, "process_id", -1) == mrd_json_int(b, "process_id", -1));
        }
        count += !seen;
    }
    return count;
}

#define CORES 1024 /* maximum number of cores of a process */

/* Writes the cores of all processes like "0-3,6"; "any" if the runtime chose the cores. */
static void
cores_text(const mrd_json *loads, char text[32])
{
    bool used[CORES] = { false }, any = false;
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < mrd_json_size(loads); i++) {
        const mrd_json *json = mrd_json_at(loads, i);
        int64_t first = mrd_json_int(json, "lnc_idx", -1), n = mrd_json_int(json, "lnc_count", 1);

        any = any || first < 0;
        for (int64_t c = first; c >= 0 && c < CORES && c < first + (n < 1 ? 1 : n); c++)
            used[c] = true;
    }
    for (size_t c = 0; c < CORES && at < 24; c++) {
        size_t end = c;

        if (!used[c])
            continue;
        while (end + 1 < CORES && used[end + 1])
            end++;
        at += (size_t) snprintf(text + at, 32 - at, end > c ? "%s%zu-%zu" : "%s%zu",
                                at > 0 ? "," : "", c, end);
        c = end;
    }
    if (at >= 24)
        snprintf(text + 24, 8, ",...");
    else if (any)
        snprintf(text + at, 32 - at, "%sany", at > 0 ? "," : "");
}

static void
put_row(mrd_text_table *texts, const mrd_json *json)
{
    const mrd_json *loads = mrd_json_get(json, "loads");
    const char *first = "-", *name = mrd_json_str(json, "name", mrd_json_str(json, "path", ""));
    int64_t first_ns = INT64_MAX, loaded = 0;
    char size[MRD_SIZE_TEXT], cores[32];

    for (size_t i = 0; i < mrd_json_size(loads); i++) {
        const mrd_json *l = mrd_json_at(loads, i);
        int64_t at = mrd_json_int(l, "loaded_ns", INT64_MAX);

        loaded += mrd_json_get(l, "unloaded_ns") == NULL;
        if (at < first_ns) {
            first_ns = at;
            first = mrd_json_str(l, "loaded", "-");
        }
    }
    cores_text(loads, cores);
    mrd_text_table_cell(texts, "%s", *name == '\0' ? "-" : name);
    mrd_text_table_cell(texts, "%.12s", mrd_json_str(json, "sha256", "-"));
    mrd_text_table_cell(texts, "%s", mrd_cli_size((uint64_t) mrd_json_int(json, "size", 0), size));
    mrd_text_table_count(texts, (int64_t) mrd_json_size(loads));
    mrd_text_table_count(texts, loaded);
    mrd_text_table_count(texts, different(loads, false));
    mrd_text_table_count(texts, different(loads, true));
    mrd_text_table_cell(texts, "%s", cores);
    mrd_text_table_cell(texts, "%.19s", first);
    mrd_text_table_cell(texts, "%s",
                        mrd_json_get(json, "neff") == NULL   ? "-"
                        : mrd_json_bool(json, "neff", false) ? "shipped"
                                                             : "not shipped");
}

static mrd_err
models(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const settings *set = self;
    char id[MRD_CLUSTER_ID];
    mrd_json *doc = NULL;
    mrd_err err;

    if (word == NULL) {
        err = mrd_client_call(client, "GET", "/api/v1/models", NULL, &doc, why);
    } else {
        err = mrd_cluster_find(client, word, MRD_CLUSTER_LOOK, id, why);
        if (err == MRD_OK)
            err = mrd_cluster_call(client, "GET", id, "/models", NULL, &doc, why);
    }
    if (err != MRD_OK)
        return err;
    mrd_cluster_print_list(doc, "models", set->client.json, columns, MRD_COUNT(columns), put_row,
                           "no model is known: programs report the models that they load when they "
                           "run with libmeridian and \"models\" in MERIDIAN_CAPTURE");
    if (mrd_json_int(doc, "left_out", 0) > 0) {
        fprintf(stderr, "meridian models: %lld loads are not listed: a node lists at most 512\n",
                (long long) mrd_json_int(doc, "left_out", 0));
        *ret_status = 3;
    }
    mrd_json_free(doc);
    return MRD_OK;
}

int
mrd_cmd_models(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = {
        .name = "models",
        .usage = "[SESSION] [options]",
        .more = "Without SESSION: what is loaded now. With it (an id, the beginning of one, or "
                "`latest`): what was\nloaded at some time of it, also when it was loaded long "
                "before.\n",
        .table = table,
        .rows = MRD_COUNT(table),
        .settings = &set,
        .client = &set.client,
        .max_words = 1,
        .run = models
    };

    return mrd_cluster_main(&command, argc, argv);
}
