/* Reports of `meridian demo`: compares the measured results with the true values, which the demo
 * knows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/clock/node_clock.h"
#include "base/obj.h"
#include "base/vec.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "cli/demo/demo.h"
#include "timesync/align.h"
#include "trace/json/json_read.h"

/* number of instants in a session at which truth and estimate are compared */
#define CLOCK_POINTS 1001

/* ---- Files ---- */

void
mrd_demo_print_head(const char *path)
{
    char line[512];
    FILE *file = fopen(path, "r");

    if (file == NULL)
        return;
    printf("\n");
    while (fgets(line, sizeof(line), file) != NULL && line[0] != '\n')
        fputs(line, stdout);
    printf("... all of it: %s\n", path);
    fclose(file);
}

/* ---- Accounting of events ---- */

/* Returns the entry of a node in the session's list of nodes, or NULL. The list is not in the order
 * of the demo's nodes. */
static const mrd_json *
part_of(const mrd_json *parts, const char *id)
{
    for (size_t i = 0; i < mrd_json_size(parts); i++) {
        if (strcmp(mrd_json_str(mrd_json_at(parts, i), "instance_id", ""), id) == 0)
            return mrd_json_at(parts, i);
    }
    return NULL;
}

bool
mrd_demo_print_accounting(const mrd_demo_nodes *nodes, const mrd_json *session)
{
    static const mrd_text_table_column columns[] = {
        { "node", false },   { "begun", true }, { "delivered", true },
        { "dropped", true }, { "held", true },  { "begun = delivered + dropped + held", false },
    };
    mrd_text_table texts = { columns, MRD_COUNT(columns), { 0 } };
    const mrd_json *parts = mrd_json_get(session, "nodes");
    bool holds = mrd_json_size(parts) == nodes->n;

    for (size_t i = 0; i < nodes->n; i++) {
        const mrd_json *json = part_of(parts, nodes->v[i].id), *c = mrd_json_get(json, "counters");
        int64_t begun = mrd_json_int(c, "begun", -1), stored = mrd_json_int(json, "events", -1);
        int64_t dropped = mrd_json_int(c, "dropped", -1), held = mrd_json_int(c, "held", -1);
        bool good = begun > 0 && begun == stored + dropped + held;

        holds = holds && good;
        mrd_text_table_cell(&texts, "%s", nodes->v[i].id);
        mrd_text_table_count(&texts, begun);
        mrd_text_table_count(&texts, stored);
        mrd_text_table_count(&texts, dropped);
        mrd_text_table_count(&texts, held);
        mrd_text_table_cell(&texts, "%s", good ? "holds" : "DOES NOT HOLD");
    }
    printf("\nNothing lost uncounted: what the agents say they began, beside what lies in the "
           "journal\n");
    mrd_text_table_print(&texts, stdout);
    mrd_text_table_fini(&texts);
    return holds;
}

/* ---- Clocks ---- */

typedef struct {
    /* how far the node's clock is ahead in the middle of the session: true value and estimate */
    mrd_dur_ns truth, found;
    /* largest |found - truth| and largest bound over the session; a bound of -1 means unknown */
    mrd_dur_ns worst, bound;
    size_t inside, asked;
    uint8_t quality, source;
} clock_facts;

static mrd_dur_ns
magnitude(mrd_dur_ns d)
{
    return d < 0 ? -d : d;
}

/* Compares the estimate of the clock table with the simulated clock between `from` and `to`. Both
 * are times of CLOCK_MONOTONIC_RAW without simulated error. */
static void
compare(const mrd_demo_node *node, const mrd_align *align, int64_t from, int64_t to,
        int64_t constant, clock_facts *ret_facts)
{
    clock_facts facts = { .asked = CLOCK_POINTS };
    unsigned quality, source;
    mrd_align_cursor at = { 0 };

    mrd_align_worst(align, &quality, &source);
    facts.quality = (uint8_t) quality;
    facts.source = (uint8_t) source;
    for (size_t i = 0; i < CLOCK_POINTS; i++) {
        int64_t raw = from + (int64_t) i * ((to - from) / (CLOCK_POINTS - 1));
        mrd_local_ns local = mrd_simclock_local(&node->clock, raw);
        int64_t truth = raw + constant;
        mrd_align_bound bound;
        mrd_sess_ns got;

        if (!mrd_align_map(align, &at, local, &got, &bound))
            continue;
        if (i == CLOCK_POINTS / 2) {
            facts.truth = local.ns - raw;
            facts.found = local.ns - (got.ns - constant);
        }
        facts.inside += bound.lo.ns <= truth && truth <= bound.hi.ns;
        facts.worst =
            magnitude(truth - got.ns) > magnitude(facts.worst) ? truth - got.ns : facts.worst;
        if (facts.bound >= 0 && bound.lo.ns != INT64_MIN) {
            mrd_dur_ns radius = mrd_align_radius(got, &bound);

            facts.bound = radius > facts.bound ? radius : facts.bound;
        } else {
            facts.bound = -1;
        }
    }
    *ret_facts = facts;
}

static void
clock_row(mrd_text_table *texts, const mrd_demo_node *node, const clock_facts *facts)
{
    char text[MRD_DUR_TEXT];

    mrd_text_table_cell(texts, "%s", node->id);
    mrd_text_table_count(texts, facts->truth);
    mrd_text_table_count(texts, facts->found);
    mrd_text_table_cell(texts, "%s", mrd_dur_text(facts->found - facts->truth, text));
    mrd_text_table_cell(texts, "%s", mrd_dur_text(facts->worst, text));
    mrd_text_table_cell(texts, "%s",
                        facts->bound < 0 ? "unknown" : mrd_dur_text(facts->bound, text));
    mrd_text_table_cell(texts, "%s", facts->inside == facts->asked ? "yes" : "NO");
    mrd_text_table_cell(texts, "%s, %s", mrd_align_quality_text(facts->quality),
                        mrd_stamp_source_text(facts->source));
}

/* Loads a node's clock table. If there is none, prints a line that says why. */
static mrd_err
load_table(const char *store, const char *session, const mrd_demo_node *node, mrd_align **ret_align)
{
    mrd_buf path = { 0 };
    mrd_why why = { 0 };
    mrd_err err;

    mrd_buf_fmt(&path, "%s/sessions/%s/" MRD_CLOCKS_DIR "/%s.align", store, session, node->id);
    if ((err = mrd_align_load(mrd_buf_cstr(&path), ret_align, &why)) != MRD_OK)
        fprintf(stderr, "the clock of %s cannot be compared: %s\n", node->id, why.text);
    mrd_buf_fini(&path);
    return err;
}

/* Returns session time minus the aggregator's clock, which has no simulated error. */
static int64_t
session_constant(const char *store)
{
    mrd_json *doc = NULL;
    mrd_buf path = { 0 };
    int64_t constant = 0;

    mrd_buf_fmt(&path, "%s/clock.json", store);
    if (mrd_json_load(mrd_buf_cstr(&path), &doc, NULL) == MRD_OK)
        constant = mrd_json_int(doc, "session_offset_ns", 0);
    mrd_json_free(doc);
    mrd_buf_fini(&path);
    return constant;
}

static void
print_errors(const mrd_demo_nodes *nodes)
{
    static const mrd_text_table_column columns[] = {
        { "node", false },  { "ahead at first", true },      { "rate", true },
        { "wander", true }, { "wall clock besides", false },
    };
    mrd_text_table texts = { columns, MRD_COUNT(columns), { 0 } };

    for (size_t i = 0; i < nodes->n; i++) {
        const mrd_simclock *clock = &nodes->v[i].clock;
        char text[MRD_DUR_TEXT], period[MRD_DUR_TEXT];

        mrd_text_table_cell(&texts, "%s", nodes->v[i].id);
        mrd_text_table_cell(&texts, "%s", mrd_dur_text(clock->offset_ns, text));
        mrd_text_table_cell(&texts, "%+" PRId64 " ppm", clock->rate_ppt / 1000000);
        mrd_text_table_cell(&texts, "%s in %s", mrd_dur_text(clock->wander_ns, text),
                            mrd_dur_text(clock->wander_period_ns, period));
        if (clock->wall_step_count == 0)
            mrd_text_table_cell(&texts, "-");
        else
            mrd_text_table_cell(&texts, "jumps by %s", mrd_dur_text(clock->wall_steps[0].by, text));
    }
    mrd_text_table_print(&texts, stdout);
    mrd_text_table_fini(&texts);
}

bool
mrd_demo_print_clocks(const mrd_demo_nodes *nodes, const char *store, const mrd_json *session)
{
    static const mrd_text_table_column columns[] = {
        { "node", false },   { "ahead by (ns)", true }, { "as found", true },
        { "error", true },   { "worst error", true },   { "bound", true },
        { "inside", false }, { "quality", false },
    };
    mrd_text_table texts = { columns, MRD_COUNT(columns), { 0 } };
    int64_t constant = session_constant(store);
    int64_t from = mrd_json_int(session, "go_ns", 0) - constant;
    int64_t to = mrd_json_int(session, "stop_ns", 0) - constant;
    bool holds = true;

    for (size_t i = 0; i < nodes->n; i++) {
        mrd_align *align = NULL;
        clock_facts facts;

        if (load_table(store, mrd_json_str(session, "id", ""), &nodes->v[i], &align) != MRD_OK) {
            holds = false;
            continue;
        }
        compare(&nodes->v[i], align, from, to, constant, &facts);
        clock_row(&texts, &nodes->v[i], &facts);
        holds = holds && facts.inside == facts.asked;
        mrd_align_free(align);
    }
    printf("\nClocks: wrong on purpose, so the truth is known\n");
    print_errors(nodes);
    printf("\nHow far it was ahead in the middle of the recording; worst error and bound over all "
           "of it\n");
    mrd_text_table_print(&texts, stdout);
    printf("(all nodes are on one machine: real networks give wider bounds)\n");
    mrd_text_table_fini(&texts);
    return holds;
}

/* ---- The order of collectives ---- */

/* When one core was in a collective, in session time and by the node's wall clock. */
typedef struct {
    size_t core; /* number of the core, counted over all nodes */
    mrd_sess_ns begin, end;
    mrd_wall_ns wall_begin, wall_end;
} part;

typedef struct {
    size_t whole, cut, by_wall, merged;
    size_t *last; /* for each core: the number of collectives that this core entered last */
    /* `late`: for each core, the total time by which it entered after the previous core, over
     * the collectives that it entered last. `gap`: the largest result of disorder() for merged
     * times. */
    mrd_dur_ns *late, gap;
} order;

static int
by_end(const void *a, const void *b)
{
    const part *x = a, *y = b;

    return mrd_sess_after(x->end, y->end) - mrd_sess_before(x->end, y->end);
}

static const mrd_demo_node *
node_called(const mrd_demo_nodes *nodes, const char *id)
{
    for (size_t i = 0; i < nodes->n; i++)
        if (strcmp(nodes->v[i].id, id) == 0)
            return &nodes->v[i];
    return NULL;
}

typedef struct {
    const mrd_demo_nodes *nodes;
    size_t cores;     /* number of cores of one node */
    int64_t constant; /* session time minus true raw time, in ns */
    part *v;
    size_t n, cap;
} part_list;

/* Adds one event of the profile to the list. Ignores events that are not a core's barrier. */
static mrd_err
add_part(part_list *list, mrd_str text, mrd_why *why)
{
    const mrd_demo_node *node;
    mrd_json *json = NULL;
    mrd_err err = mrd_json_parse(text, "an event of the profile", &json, why);
    size_t core;
    part p;

    if (err != MRD_OK)
        return err;
    node = node_called(list->nodes, mrd_json_str(json, "instance_id", ""));
    core = strtoul(mrd_json_str(json, "lnc_idx", "0"), NULL, 10);
    if (node == NULL || core >= list->cores ||
        strcmp(mrd_json_str(json, "name", ""), "cc_exec_barrier") != 0)
        goto out;
    p.core = (size_t) (node - list->nodes->v) * list->cores + core;
    p.begin = (mrd_sess_ns){ mrd_json_int(json, "timestamp", 0) };
    p.end = mrd_sess_add(p.begin, mrd_json_int(json, "duration", 0));
    p.wall_begin = (mrd_wall_ns){ p.begin.ns + mrd_simclock_wall_delta(
                                                   &node->clock, p.begin.ns - list->constant) };
    p.wall_end = (mrd_wall_ns){ p.end.ns +
                                mrd_simclock_wall_delta(&node->clock, p.end.ns - list->constant) };
    if (MRD_VEC_ROOM(list->v, list->n, list->cap, 1))
        list->v[list->n++] = p;
    else
        err = mrd_why_set(why, MRD_NOMEM, 0, "collectives");
out:
    mrd_json_free(json);
    return err;
}

/* Reads one event at a time, because the number of events depends on the machine. */
static mrd_err
read_parts(const char *profile, part_list *list, mrd_why *why)
{
    mrd_json_reader *reader = NULL;
    mrd_in *in = NULL;
    mrd_str key, text;
    mrd_jr_type type;
    mrd_err err;

    if ((err = mrd_in_file(profile, &in, why)) != MRD_OK ||
        (err = mrd_json_reader_open(in, &reader, why)) != MRD_OK)
        goto out;
    if (mrd_json_next(reader, NULL, NULL) == MRD_JR_OBJECT)
        mrd_json_enter(reader);
    while (err == MRD_OK && (type = mrd_json_next(reader, &key, NULL)) > MRD_JR_END) {
        if (type != MRD_JR_ARRAY || !mrd_str_is(key, "trace_events"))
            continue;
        mrd_json_enter(reader);
        while (err == MRD_OK && mrd_json_next(reader, NULL, NULL) == MRD_JR_OBJECT &&
               mrd_json_raw(reader, MRD_JSON_MAX, &text) == MRD_OK)
            err = add_part(list, text, why);
    }
    if (err == MRD_OK)
        err = mrd_json_reader_err(reader, why);
    if (list->n > 0)
        qsort(list->v, list->n, sizeof(*list->v), by_end);
out:
    mrd_json_reader_close(reader);
    mrd_in_close(in);
    return err;
}

/* Returns the time from the first participant's end to the last participant's begin. It is positive
 * if a participant left before all had entered, which is impossible with correct clocks. */
static mrd_dur_ns
disorder(const part *p, size_t n, bool wall)
{
    int64_t last_begin = INT64_MIN, first_end = INT64_MAX;

    for (size_t i = 0; i < n; i++) {
        int64_t begin = wall ? p[i].wall_begin.ns : p[i].begin.ns,
                end = wall ? p[i].wall_end.ns : p[i].end.ns;

        last_begin = begin > last_begin ? begin : last_begin;
        first_end = end < first_end ? end : first_end;
    }
    return last_begin - first_end;
}

static void
count_one(order *o, const part *p, size_t n)
{
    mrd_dur_ns merged = disorder(p, n, false);
    size_t last = 0;
    mrd_sess_ns before = { INT64_MIN };

    o->whole++;
    o->by_wall += disorder(p, n, true) > 0;
    o->merged += merged > 0;
    o->gap = merged > o->gap ? merged : o->gap;
    for (size_t i = 1; i < n; i++)
        last = mrd_sess_after(p[i].begin, p[last].begin) ? i : last;
    for (size_t i = 0; i < n; i++)
        before = i != last && mrd_sess_after(p[i].begin, before) ? p[i].begin : before;
    o->last[p[last].core]++;
    o->late[p[last].core] += mrd_sess_diff(p[last].begin, before);
}

static void
print_order(const mrd_demo_nodes *nodes, size_t cores, const order *o)
{
    size_t worst = 0;
    char text[MRD_DUR_TEXT];

    printf("\nOrder: %zu collectives of all %zu cores (cut off at the edges: %zu more). In how "
           "many did a core leave\nbefore the last had entered?\n"
           "  by the nodes' wall clocks  %zu\n"
           "  as merged                  %zu%s%s\n",
           o->whole, nodes->n * cores, o->cut, o->by_wall, o->merged,
           o->merged == 0 ? "" : ", by at most ", o->merged == 0 ? "" : mrd_dur_text(o->gap, text));
    for (size_t i = 1; i < nodes->n * cores; i++)
        worst = o->last[i] > o->last[worst] ? i : worst;
    if (o->last[worst] > 0)
        printf("Straggler: core %zu of %s came last to %zu of them, on average %s after the one "
               "before it\n",
               worst % cores, nodes->v[worst / cores].id, o->last[worst],
               mrd_dur_text(o->late[worst] / (mrd_dur_ns) o->last[worst], text));
}

bool
mrd_demo_print_order(const mrd_demo_nodes *nodes, size_t cores, const char *store,
                     const char *profile)
{
    /* Cores leave the same barrier within this time. Two steps are farther apart. */
    const mrd_dur_ns together = MRD_MS;
    size_t all = nodes->n * cores;
    order o = { .last = calloc(all, sizeof(*o.last)), .late = calloc(all, sizeof(*o.late)) };
    part_list list = { .nodes = nodes, .cores = cores, .constant = session_constant(store) };
    mrd_why why = { 0 };
    mrd_err err = o.last == NULL || o.late == NULL ? mrd_why_set(&why, MRD_NOMEM, 0, "collectives")
                                                   : read_parts(profile, &list, &why);

    for (size_t from = 0, to; err == MRD_OK && from < list.n; from = to) {
        for (to = from + 1;
             to < list.n && mrd_sess_diff(list.v[to].end, list.v[to - 1].end) < together;)
            to++;
        if (to - from == all)
            count_one(&o, list.v + from, all);
        else
            o.cut++;
    }
    if (err == MRD_OK)
        print_order(nodes, cores, &o);
    else
        printf("\nThe order of collectives was not counted: %s\n", why.text);
    free(list.v);
    free(o.last);
    free(o.late);
    return err == MRD_OK;
}

void
mrd_demo_print_page(const char *page, const char *certs, bool keep)
{
    if (!keep)
        printf("\nThe page was at %s; --keep leaves it there to be looked at\n", page);
    else
        printf("\nThe page: %s\n  it asks for a token: %s/control.token\n  its certificate is by: "
               "%s/ca.pem\n"
               "The commands, in another shell: meridian nodes, record, report, ... after\n"
               "  export MERIDIAN_SERVER=%.*s MERIDIAN_CA_FILE=%s/ca.pem \\\n"
               "         MERIDIAN_TOKEN_FILE=%s/control.token\n",
               page, certs, certs, (int) strcspn(page + 8, "/") + 8, page, certs, certs);
}
