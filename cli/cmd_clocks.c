/* `meridian clocks`: what is known about the clocks of a session: per node and epoch estimate,
 * bound, noise, stamp source, quality, and the packets that contradict it; as a table, JSON, or a
 * picture. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "aggregator/node_clock.h"
#include "base/obj.h"
#include "base/out.h"
#include "cli/cli.h"
#include "cli/cluster.h"
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
    "SESSION is a session of the aggregator: its last word about each node's clock is shown. DIR "
    "is "
    "a\n"
    "session's directory (<store>/sessions/<id>): there each epoch has a row, from the tables and "
    "the\n"
    "probes recorded there. Exit status 3 when packets contradict a bound.\n";

typedef struct {
    char *id;
    mrd_node_clock clock;
} node;

typedef struct {
    node *v;
    size_t n, cap;
} nodes;

static void
nodes_fini(nodes *all)
{
    for (size_t i = 0; i < all->n; i++) {
        free(all->v[i].id);
        mrd_node_clock_fini(&all->v[i].clock);
    }
    free(all->v);
}

static mrd_err
nodes_add(nodes *all, const settings *set, mrd_str id)
{
    for (size_t i = 0; i < all->n; i++) {
        if (mrd_str_is(id, all->v[i].id))
            return MRD_OK;
    }
    if (set->instances.n > 0 && !mrd_strlist_has(&set->instances, id))
        return MRD_OK;
    if (all->n == all->cap) {
        size_t cap = all->cap == 0 ? 16 : all->cap * 2;
        node *v = realloc(all->v, cap * sizeof(*v));

        if (v == NULL)
            return MRD_NOMEM;
        all->v = v;
        all->cap = cap;
    }
    all->v[all->n] = (node){ .id = mrd_str_dup(id) };
    return all->v[all->n].id == NULL ? MRD_NOMEM : (all->n++, MRD_OK);
}

/* The names in a directory below the session that end in suffix, without it. */
static mrd_err
nodes_list(nodes *all, const settings *set, const char *session, const char *below,
           const char *suffix, mrd_why *why)
{
    char *path = NULL;
    struct dirent *entry;
    mrd_err err = MRD_OK;
    DIR *dir;

    if (asprintf(&path, "%s/%s", session, below) < 0)
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", session);
    dir = opendir(path);
    while (dir != NULL && err == MRD_OK && (entry = readdir(dir)) != NULL) {
        mrd_str name = mrd_str_of(entry->d_name);

        if (entry->d_name[0] == '.' || !mrd_str_ends(name, suffix))
            continue;
        name.len -= strlen(suffix);
        if ((err = nodes_add(all, set, name)) != MRD_OK)
            mrd_why_set(why, err, 0, "%s", path);
    }
    if (dir != NULL)
        closedir(dir);
    free(path);
    return err;
}

static int
node_order(const void *a, const void *b)
{
    return strcmp(((const node *) a)->id, ((const node *) b)->id);
}

static mrd_err
nodes_read(nodes *all, const settings *set, const char *session, mrd_why *why)
{
    mrd_err err = nodes_list(all, set, session, MRD_CLOCKS_DIR, ".align", why);

    if (err == MRD_OK)
        err = nodes_list(all, set, session, "journal", "", why);
    if (err == MRD_OK && all->n == 0)
        return mrd_why_set(why, MRD_NOTFOUND, 0,
                           "%s has no clocks: a session's directory has a journal or %s in it, "
                           "with a node in it%s",
                           session, MRD_CLOCKS_DIR,
                           set->instances.n > 0 ? " that --instance-id names" : "");
    if (all->n > 0)
        qsort(all->v, all->n, sizeof(*all->v), node_order);
    for (size_t i = 0; i < all->n && err == MRD_OK; i++)
        err = mrd_node_clock_load(session, all->v[i].id, &all->v[i].clock, why);
    return err;
}

/* ---- Table ---- */

static void
text_checks(const node *n, mrd_buf *to)
{
    const mrd_node_clock *c = &n->clock;
    char most[MRD_DUR_TEXT], widest[MRD_DUR_TEXT] = "unknown";

    if (c->align == NULL) {
        mrd_buf_fmt(to, "%s: unaligned: %s\n", n->id, c->why.text);
        return;
    }
    if (mrd_align_widest(c->align) >= 0)
        (void) mrd_dur_text(mrd_align_widest(c->align), widest);
    mrd_buf_fmt(to,
                "%s: bound at most %s; %zu probes; %" PRIu64 " packets held out, %" PRIu64
                " of them reversed in time by the estimate (at most %s), %" PRIu64
                " violations of the bound%s\n",
                n->id, widest, c->n_probes, c->checked, c->reversed,
                mrd_dur_text(c->reversed_max, most), c->violations,
                c->violations > 0 ? ": DO NOT TRUST THIS CLOCK" : "");
}

static mrd_err
print_text(const nodes *all, mrd_why *why)
{
    const mrd_align **tables = calloc(all->n + 1, sizeof(const mrd_align *));
    mrd_buf text = { 0 };
    size_t n = 0;
    mrd_err err;

    for (size_t i = 0; i < all->n && tables != NULL; i++) {
        if (all->v[i].clock.align != NULL)
            tables[n++] = all->v[i].clock.align;
    }
    if (tables != NULL)
        mrd_clock_text(tables, n, &text);
    for (size_t i = 0; i < all->n; i++)
        text_checks(&all->v[i], &text);
    err = tables == NULL ? MRD_NOMEM : text.err;
    if (err == MRD_OK)
        fwrite(text.p, 1, text.len, stdout);
    mrd_buf_fini(&text);
    free(tables);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "table of clocks");
}

/* ---- JSON ---- */

static mrd_json *
json_segment(const mrd_align_summary *s)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "epoch", mrd_json_new_int(s->epoch));
    mrd_json_set(o, "began_by", mrd_json_new_str(mrd_epoch_cause_text(s->cause)));
    mrd_json_set(o, "first_local_ns", mrd_json_new_int(s->first.ns));
    mrd_json_set(o, "last_local_ns", mrd_json_new_int(s->last.ns));
    mrd_json_set(o, "estimate_ns", mrd_json_new_int(s->offset));
    mrd_json_set(o, "rate_ppb", mrd_json_new_num(s->rate));
    mrd_json_set(o, "bound_ns",
                 mrd_json_new_int(s->width_median < 0 ? -1 : (s->width_median + 1) / 2));
    mrd_json_set(o, "bound_p99_ns",
                 mrd_json_new_int(s->width_p99 < 0 ? -1 : (s->width_p99 + 1) / 2));
    mrd_json_set(o, "noise_ns", mrd_json_new_int(s->noise_median));
    mrd_json_set(o, "stamps", mrd_json_new_str(mrd_stamp_source_text(s->source)));
    mrd_json_set(o, "quality", mrd_json_new_str(mrd_align_quality_text(s->quality)));
    mrd_json_set(o, "bins", mrd_json_new_int((int64_t) s->bins));
    return o;
}

static mrd_json *
json_node(const node *n)
{
    const mrd_node_clock *c = &n->clock;
    mrd_json *o = mrd_json_new_object(), *segments = mrd_json_new_array();
    mrd_buf said = { 0 };
    mrd_align_summary s;

    mrd_json_set(o, "instance_id", mrd_json_new_str(n->id));
    for (size_t i = 0; c->align != NULL && i < mrd_align_segment_count(c->align); i++) {
        if (mrd_align_summarise(c->align, i, &s))
            mrd_json_append(segments, json_segment(&s));
    }
    if (c->align == NULL)
        mrd_buf_fmt(&said, "unaligned: %s", c->why.text);
    else
        mrd_clock_assumptions(c->align, &said);
    mrd_json_set(o, "segments", segments);
    mrd_json_set(o, "bound_ns",
                 mrd_json_new_int(c->align == NULL ? -1 : mrd_align_widest(c->align)));
    mrd_json_set(o, "probes", mrd_json_new_int((int64_t) c->n_probes));
    mrd_json_set(o, "checked", mrd_json_new_int((int64_t) c->checked));
    mrd_json_set(o, "reversed", mrd_json_new_int((int64_t) c->reversed));
    mrd_json_set(o, "reversed_max_ns", mrd_json_new_int(c->reversed_max));
    mrd_json_set(o, "violations", mrd_json_new_int((int64_t) c->violations));
    mrd_json_set(o, "assumptions", mrd_json_new_str(mrd_buf_cstr(&said)));
    mrd_buf_fini(&said);
    return o;
}

static mrd_err
print_json(const nodes *all, mrd_why *why)
{
    mrd_json *doc = mrd_json_new_object(), *list = mrd_json_new_array();
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < all->n && err == MRD_OK; i++)
        err = mrd_json_append(list, json_node(&all->v[i]));
    if (mrd_json_set(doc, "nodes", list) != MRD_OK || err != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "table of clocks");
    else
        mrd_cluster_print_json(doc);
    mrd_json_free(doc);
    return err;
}

/* ---- Picture ---- */

static mrd_err
draw(const node *n, const char *path, mrd_why *why)
{
    mrd_buf svg = { 0 };
    mrd_err err = mrd_clock_svg(n->clock.align, n->clock.probes, n->clock.n_probes, &svg);

    if (err != MRD_OK)
        err = mrd_why_set(why, err, 0, "picture of the clock of %s", n->id);
    else if ((err = mrd_write_file(path, (mrd_bytes){ svg.p, svg.len }, 0644, why)) == MRD_OK)
        fprintf(stderr, "wrote %s\n", path);
    mrd_buf_fini(&svg);
    return err;
}

static mrd_err
draw_all(const nodes *all, const char *file, mrd_why *why)
{
    int stem = (int) strlen(file) - (mrd_str_ends(mrd_str_of(file), ".svg") ? 4 : 0);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < all->n && err == MRD_OK; i++) {
        const node *n = &all->v[i];
        char *path = NULL;

        if (n->clock.align == NULL) {
            fprintf(stderr, "no picture of %s: %s\n", n->id, n->clock.why.text);
            continue;
        }
        if (all->n == 1)
            err = draw(n, file, why);
        else if (asprintf(&path, "%.*s-%s.svg", stem, file, n->id) < 0)
            err = mrd_why_set(why, MRD_NOMEM, 0, "%s", file);
        else
            err = draw(n, path, why);
        free(path);
    }
    return err;
}

/* ---- Where it comes from ---- */

static mrd_err
from_directory(const settings *set, const char *session, int *ret_status, mrd_why *why)
{
    nodes all = { 0 };
    mrd_err err = nodes_read(&all, set, session, why);

    if (err == MRD_OK)
        err = set->client.json ? print_json(&all, why) : print_text(&all, why);
    if (err == MRD_OK && set->plot != NULL)
        err = draw_all(&all, set->plot, why);
    for (size_t i = 0; i < all.n && err == MRD_OK; i++)
        *ret_status = all.v[i].clock.violations > 0 ? MRD_EXIT_INCOMPLETE : *ret_status;
    nodes_fini(&all);
    return err;
}

static void
print_manifest(const settings *set, const mrd_json *doc)
{
    static const mrd_table_column columns[] = { { "node", false },   { "estimate ns", true },
                                                { "bound", true },   { "probes", true },
                                                { "stamps", false }, { "quality", false } };
    mrd_table t = { .columns = columns, .n_columns = MRD_COUNT(columns) };
    const mrd_json *list = mrd_json_get(doc, "nodes");

    for (size_t i = 0; i < mrd_json_size(list); i++) {
        const mrd_json *n = mrd_json_at(list, i), *c = mrd_json_get(n, "clock");
        const char *id = mrd_json_str(n, "instance_id", "?");

        if (set->instances.n > 0 && !mrd_strlist_has(&set->instances, mrd_str_of(id)))
            continue;
        mrd_table_cell(&t, "%s", id);
        mrd_table_cell(&t, "%" PRId64, mrd_json_int(c, "offset_ns", 0));
        mrd_table_dur(&t, mrd_json_int(c, "bound_ns", -1));
        mrd_table_count(&t, mrd_json_int(c, "probes", 0));
        mrd_table_cell(&t, "%s", mrd_json_str(c, "method", "none"));
        mrd_table_cell(&t, "%s", mrd_json_str(c, "state", "unaligned"));
    }
    mrd_table_print(&t, stdout);
    mrd_table_fini(&t);
}

static mrd_err
from_aggregator(const settings *set, const char *word, mrd_why *why)
{
    mrd_client *client = NULL;
    mrd_json *doc = NULL;
    char id[MRD_CLUSTER_ID];
    mrd_err err;

    if (set->plot != NULL)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--plot needs the recorded probes: give the session's directory "
                           "(<store>/sessions/<id>), or --store");
    if ((err = mrd_client_open(&set->client, &client, why)) == MRD_OK &&
        (err = mrd_cluster_find(client, word, id, why)) == MRD_OK)
        err = mrd_cluster_call(client, "GET", id, "", NULL, &doc, why);
    if (err == MRD_OK && set->client.json) {
        mrd_cluster_print_json(mrd_json_get(doc, "nodes"));
    } else if (err == MRD_OK) {
        print_manifest(set, doc);
        fprintf(stderr, "this is the aggregator's last word on each clock; a row per epoch and "
                        "pictures come from the session's directory in its store\n");
    }
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
clocks(const settings *set, const char *word, int *ret_status, mrd_why *why)
{
    char *path = NULL;
    mrd_err err;

    if (set->store == NULL)
        return word != NULL && is_directory(word) ? from_directory(set, word, ret_status, why)
                                                  : from_aggregator(set, word, why);
    if (word == NULL)
        return mrd_why_set(why, MRD_INVALID, 0, "--store needs the id of a session");
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

int
mrd_cmd_clocks(int argc, char **argv)
{
    settings set = { 0 };
    mrd_strlist words = { 0 };
    mrd_why why = { 0 };
    int status = MRD_EXIT_OK;
    bool done;

    if (mrd_cli_parse(table, MRD_COUNT(table), &set, argc, argv, false, "[SESSION|DIR] [options]",
                      more, &words, &done) != MRD_OK) {
        status = MRD_EXIT_USAGE;
    } else if (!done && words.n > 1) {
        fprintf(stderr, "meridian clocks: one session at a time\n");
        status = MRD_EXIT_USAGE;
    } else if (!done && clocks(&set, words.n == 0 ? NULL : words.v[0], &status, &why) != MRD_OK) {
        mrd_cli_error("clocks", &why);
        status = MRD_EXIT_FAILED;
    }
    mrd_strlist_fini(&words);
    mrd_conf_fini(table, MRD_COUNT(table), &set);
    return status;
}
