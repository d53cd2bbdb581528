/* `meridian clocks`: shows the clocks of a session as a table, as JSON, or as pictures. For each
 * node and boot, it shows the estimated offset, its largest possible error (bound), its noise, the
 * source of the time stamps, the quality, and the packets that contradict the estimate. Reads a
 * session's directory, or asks the aggregator. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/clock/clock_report.h"
#include "base/obj.h"
#include "base/sys/out.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "timesync/clockplot.h"

typedef struct {
    char *store, *plot;
    mrd_strlist instances;
    mrd_client_options client;
} settings;

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Clocks" },
    { .name = "store",
      .type = MRD_OPT_STR,
      .offset = offsetof(settings, store),
      .arg = "DIR",
      .help = "the aggregator's store, when it is on this machine: SESSION is looked up there" },
    { .name = "plot",
      .type = MRD_OPT_STR,
      .offset = offsetof(settings, plot),
      .arg = "FILE.svg",
      .help = "draw offset, bound and residuals over time; of several nodes FILE-<node>.svg each" },
    { .name = "instance-id",
      .type = MRD_OPT_LIST,
      .offset = offsetof(settings, instances),
      .arg = "LIST",
      .help = "only these nodes" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const char more[] =
    "SESSION is a session of the aggregator, which is asked; DIR is a session's directory\n"
    "(<store>/sessions/<id>), which is read. Each epoch of each node's clock has a row, from the "
    "probes\n"
    "recorded there. Exit status 3 when packets contradict a bound.\n";

/* Returns the file name for the picture of one clock, which the caller frees. If `all`, the number
 * of clocks, is more than 1, the name tells the clocks apart. */
static char *
plot_path(const char *file, const char *id, size_t boot, size_t all)
{
    int stem = (int) strlen(file) - (mrd_str_ends(mrd_str_of(file), ".svg") ? 4 : 0);
    char *path = NULL;
    int rc;

    if (all == 1)
        rc = asprintf(&path, "%s", file);
    else if (boot == 1)
        rc = asprintf(&path, "%.*s-%s.svg", stem, file, id);
    else
        rc = asprintf(&path, "%.*s-%s-boot%zu.svg", stem, file, id, boot);
    return rc < 0 ? NULL : path;
}

static void
no_picture(const char *node, const char *reason)
{
    char who[160];

    snprintf(who, sizeof(who), "no picture of %s", node);
    mrd_cli_say(who, mrd_str_of(reason));
}

/* ---- From a directory ---- */

static mrd_err
draw(const mrd_clock_node *node, size_t boot, const char *path, mrd_why *why)
{
    const mrd_boot_clock *clock = &node->clock.v[boot];
    mrd_buf svg = { 0 };
    mrd_err err = mrd_clock_svg(clock->align, clock->probes, clock->n_probes, &svg);

    if (err != MRD_OK)
        err = mrd_why_set(why, err, 0, "picture of the clock of %s", node->id);
    else if ((err = mrd_write_file(path, (mrd_bytes){ svg.p, svg.len }, 0644, why)) == MRD_OK)
        fprintf(stderr, "wrote %s\n", path);
    mrd_buf_fini(&svg);
    return err;
}

static mrd_err
draw_all(const mrd_clock_report *report, const char *file, mrd_why *why)
{
    size_t all = 0;
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < report->n; i++)
        all += report->v[i].clock.n;
    for (size_t i = 0; i < report->n; i++) {
        for (size_t k = 0; k < report->v[i].clock.n && err == MRD_OK; k++) {
            char *path;

            if (report->v[i].clock.v[k].align == NULL) {
                no_picture(report->v[i].id, report->v[i].clock.v[k].why.text);
                continue;
            }
            path = plot_path(file, report->v[i].id, k + 1, all);
            err = path == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "%s", file)
                               : draw(&report->v[i], k, path, why);
            free(path);
        }
    }
    return err;
}

static mrd_err
print_report(const settings *set, const mrd_clock_report *report, mrd_why *why)
{
    mrd_buf text = { 0 };
    mrd_json *doc;
    mrd_err err;

    if (set->client.json) {
        if ((doc = mrd_clock_report_json(report)) == NULL)
            return mrd_why_set(why, MRD_NOMEM, 0, "table of clocks");
        mrd_cluster_print_json(doc);
        mrd_json_free(doc);
        return MRD_OK;
    }
    mrd_clock_report_text(report, &text);
    if ((err = text.err) == MRD_OK)
        fwrite(text.p, 1, text.len, stdout);
    mrd_buf_fini(&text);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "table of clocks");
}

static mrd_err
from_directory(const settings *set, const char *session, int *ret_status, mrd_why *why)
{
    mrd_clock_report report = { 0 };
    mrd_err err = mrd_clock_report_read(session, &set->instances, &report, why);

    if (err == MRD_OK)
        err = print_report(set, &report, why);
    if (err == MRD_OK && set->plot != NULL)
        err = draw_all(&report, set->plot, why);
    if (err == MRD_OK && mrd_clock_report_violations(&report) > 0)
        *ret_status = MRD_EXIT_INCOMPLETE;
    mrd_clock_report_fini(&report);
    return err;
}

/* ---- From the aggregator ---- */

/* Appends the query of the request, "?instance_id=a,b" and `rest`. Appends nothing if there are no
 * parameters. */
static void
query(mrd_buf *to, const settings *set, const char *rest)
{
    mrd_buf list = { 0 };

    for (size_t i = 0; i < set->instances.n; i++)
        mrd_buf_fmt(&list, "%s%s", i == 0 ? "" : ",", set->instances.v[i]);
    mrd_buf_fmt(to, "?%s", rest);
    if (list.len > 0) {
        mrd_buf_text(to, "&instance_id=");
        mrd_client_escape(to, mrd_buf_cstr(&list));
    }
    mrd_buf_fini(&list);
}

static mrd_err
copy_out(const char *path, mrd_why *why)
{
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return mrd_why_set(why, MRD_IO, errno, "%s", path);
    mrd_text_show(file, false, stdout);
    fclose(file);
    return MRD_OK;
}

/* Prints the table of clocks that the aggregator makes. Downloads it to a temporary file first. */
static mrd_err
print_remote(const settings *set, mrd_client *client, const char *id, mrd_why *why)
{
    const char *tmp = getenv("TMPDIR");
    char dir[512], file[544];
    mrd_buf path = { 0 };
    mrd_err err;

    snprintf(dir, sizeof(dir), "%s/meridian-clocks-XXXXXX", tmp == NULL ? "/tmp" : tmp);
    if (mkdtemp(dir) == NULL)
        return mrd_why_set(why, MRD_IO, errno, "%s", dir);
    snprintf(file, sizeof(file), "%s/table", dir);
    mrd_buf_fmt(&path, "/api/v1/sessions/%s/clocks", id);
    query(&path, set, "format=text");
    err = mrd_client_download(client, mrd_buf_cstr(&path), file, NULL, NULL, NULL, why);
    if (err == MRD_OK)
        err = copy_out(file, why);
    unlink(file);
    rmdir(dir);
    mrd_buf_fini(&path);
    return err;
}

static mrd_err
draw_remote(mrd_client *client, const char *id, const mrd_json *list, const char *file,
            mrd_why *why)
{
    size_t all = mrd_json_size(list);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < all && err == MRD_OK; i++) {
        const mrd_json *json = mrd_json_at(list, i);
        const char *node = mrd_json_str(json, "instance_id", "?");
        int64_t boot = mrd_json_int(json, "boot", 1);
        mrd_buf from = { 0 };
        char *to;

        if (mrd_json_size(mrd_json_get(json, "segments")) == 0) {
            no_picture(node, mrd_json_str(json, "assumptions", "?"));
            continue;
        }
        to = plot_path(file, node, (size_t) boot, all);
        mrd_buf_fmt(&from, "/api/v1/sessions/%s/clocks/", id);
        mrd_client_escape(&from, node);
        mrd_buf_fmt(&from, "?boot=%" PRId64, boot);
        err = to == NULL
                  ? mrd_why_set(why, MRD_NOMEM, 0, "%s", file)
                  : mrd_client_download(client, mrd_buf_cstr(&from), to, NULL, NULL, NULL, why);
        if (err == MRD_OK)
            fprintf(stderr, "wrote %s\n", to);
        mrd_buf_fini(&from);
        free(to);
    }
    return err;
}

static mrd_err
from_aggregator(const settings *set, const char *word, int *ret_status, mrd_why *why)
{
    mrd_client *client = NULL;
    mrd_json *doc = NULL;
    mrd_buf rest = { 0 };
    char id[MRD_CLUSTER_ID];
    mrd_err err;

    mrd_buf_text(&rest, "/clocks");
    query(&rest, set, "format=json");
    if ((err = mrd_client_open(&set->client, &client, why)) == MRD_OK &&
        (err = mrd_cluster_find(client, word, MRD_CLUSTER_READ, id, why)) == MRD_OK)
        err = mrd_cluster_call(client, "GET", id, mrd_buf_cstr(&rest), NULL, &doc, why);
    if (err == MRD_OK && set->client.json)
        mrd_cluster_print_json(doc);
    else if (err == MRD_OK)
        err = print_remote(set, client, id, why);
    if (err == MRD_OK && set->plot != NULL)
        err = draw_remote(client, id, mrd_json_get(doc, "nodes"), set->plot, why);
    if (err == MRD_OK && mrd_json_int(doc, "violations", 0) > 0)
        *ret_status = MRD_EXIT_INCOMPLETE;
    mrd_buf_fini(&rest);
    mrd_json_free(doc);
    mrd_client_close(client);
    return err;
}

static bool
is_directory(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static mrd_err
from_path(const settings *set, const char *path, int *ret_status, mrd_why *why)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "cannot read %s", path);
    if (!S_ISDIR(st.st_mode))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "%s is a file: give the directory of a session (<store>/sessions/<id>), "
                           "or the id of one to ask the aggregator",
                           path);
    return from_directory(set, path, ret_status, why);
}

static mrd_err
clocks(const settings *set, const char *word, int *ret_status, mrd_why *why)
{
    char *path = NULL;
    mrd_err err;

    if (set->store == NULL)
        return mrd_cluster_is_path(word) ? from_path(set, word, ret_status, why)
                                         : from_aggregator(set, word, ret_status, why);
    if (word == NULL)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--store needs the id of a session: meridian clocks ID --store DIR");
    if (asprintf(&path, "%s/sessions/%s", set->store, word) < 0)
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", set->store);
    if (strchr(word, '/') != NULL || !is_directory(path))
        err = mrd_why_set(why, MRD_NOTFOUND, 0, "there is no session '%s' in the store %s", word,
                          set->store);
    else
        err = from_directory(set, path, ret_status, why);
    free(path);
    return err;
}

static int
run(void *self, const mrd_strlist *words)
{
    mrd_why why = { 0 };
    int status = MRD_EXIT_OK;
    mrd_err err = clocks(self, words->n == 0 ? NULL : words->v[0], &status, &why);

    if (err == MRD_OK)
        return status;
    mrd_cli_error("clocks", &why);
    return mrd_cli_status(err);
}

int
mrd_cmd_clocks(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cli_frame frame = { .usage = "[SESSION|DIR] [options]",
                            .more = more,
                            .table = table,
                            .rows = MRD_COUNT(table),
                            .settings = &set,
                            .max_words = 1,
                            .run = run };

    return mrd_cli_main(&frame, argc, argv);
}
