/* What `meridian demo` knows to be true, beside what came out. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/node_clock.h"
#include "base/obj.h"
#include "cli/cluster.h"
#include "cli/demo.h"
#include "timesync/align.h"

#define SUMMARY_LINES 100
#define SUMMARY_PARTS 3    /* whole, event types, nodes; then comes every core */
#define CLOCK_POINTS  1001 /* of a session at which truth and estimate are compared */

/* ---- The summary ---- */

void
mrd_demo_print_summary(const char *path)
{
    char line[512];
    unsigned n = 0, parts = 0;
    FILE *f;

    if ((f = fopen(path, "r")) == NULL)
        return;
    printf("\nThe merged profile in short (all of it is in %s)\n\n", path);
    while (n < SUMMARY_LINES && fgets(line, sizeof(line), f) != NULL &&
           (parts += line[0] == '\n') < SUMMARY_PARTS) {
        fputs(line, stdout);
        n += strchr(line, '\n') != NULL;
    }
    fclose(f);
}

/* ---- Accounting ---- */

bool
mrd_demo_print_accounting(const mrd_demo_nodes *nodes, const mrd_json *session)
{
    static const mrd_text_table_column columns[] = {
        { "node", false },   { "begun", true }, { "delivered", true },
        { "dropped", true }, { "held", true },  { "begun = delivered + dropped + held", false },
    };
    mrd_text_table t = { columns, MRD_COUNT(columns), { 0 } };
    const mrd_json *parts = mrd_json_get(session, "nodes");
    bool holds = mrd_json_size(parts) == nodes->n;

    for (size_t i = 0; i < mrd_json_size(parts); i++) {
        const mrd_json *p = mrd_json_at(parts, i), *c = mrd_json_get(p, "counters");
        int64_t begun = mrd_json_int(c, "begun", -1), stored = mrd_json_int(p, "events", -1);
        int64_t dropped = mrd_json_int(c, "dropped", -1), held = mrd_json_int(c, "held", -1);
        bool good = begun > 0 && begun == stored + dropped + held;

        holds = holds && good;
        mrd_text_table_cell(&t, "%s", mrd_json_str(p, "instance_id", "?"));
        mrd_text_table_count(&t, begun);
        mrd_text_table_count(&t, stored);
        mrd_text_table_count(&t, dropped);
        mrd_text_table_count(&t, held);
        mrd_text_table_cell(&t, "%s", good ? "holds" : "DOES NOT HOLD");
    }
    printf("\nNothing lost uncounted: what the agents say they began, beside what lies in the "
           "journal\n");
    mrd_text_table_print(&t, stdout);
    mrd_text_table_fini(&t);
    return holds;
}

/* ---- Clocks ---- */

typedef struct {
    mrd_dur_ns truth, estimate; /* session - local, in the middle */
    mrd_dur_ns worst, bound;    /* over the session; bound -1: unknown */
    size_t inside, asked;
    uint8_t quality, source;
} clock_facts;

static mrd_dur_ns
magnitude(mrd_dur_ns d)
{
    return d < 0 ? -d : d;
}

/* Compares the table with the simulated clock between two true raw times. */
static void
compare(const mrd_demo_node *node, const mrd_align *align, int64_t from, int64_t to,
        int64_t constant, clock_facts *ret_facts)
{
    clock_facts f = { .asked = CLOCK_POINTS };
    unsigned quality, source;
    mrd_align_cursor at = { 0 };

    mrd_align_worst(align, &quality, &source);
    f.quality = (uint8_t) quality;
    f.source = (uint8_t) source;
    for (size_t i = 0; i < CLOCK_POINTS; i++) {
        int64_t raw = from + (int64_t) i * ((to - from) / (CLOCK_POINTS - 1));
        mrd_local_ns local = mrd_simclock_local(&node->clock, raw);
        int64_t truth = raw + constant;
        mrd_align_bound bound;
        mrd_sess_ns got;

        if (!mrd_align_map(align, &at, local, &got, &bound))
            continue;
        if (i == CLOCK_POINTS / 2) {
            f.truth = truth - local.ns;
            f.estimate = got.ns - local.ns;
        }
        f.inside += bound.lo.ns <= truth && truth <= bound.hi.ns;
        f.worst = magnitude(got.ns - truth) > magnitude(f.worst) ? got.ns - truth : f.worst;
        if (f.bound >= 0 && bound.lo.ns != INT64_MIN) {
            mrd_dur_ns radius = mrd_align_radius(got, &bound);

            f.bound = radius > f.bound ? radius : f.bound;
        } else {
            f.bound = -1;
        }
    }
    *ret_facts = f;
}

static void
clock_row(mrd_text_table *t, const mrd_demo_node *node, const clock_facts *f)
{
    char text[MRD_DUR_TEXT];

    mrd_text_table_cell(t, "%s", node->id);
    mrd_text_table_cell(t, "%" PRId64 " ns", f->truth);
    mrd_text_table_cell(t, "%" PRId64 " ns", f->estimate);
    mrd_text_table_cell(t, "%s", mrd_dur_text(f->estimate - f->truth, text));
    mrd_text_table_cell(t, "%s", mrd_dur_text(f->worst, text));
    mrd_text_table_cell(t, "%s", f->bound < 0 ? "unknown" : mrd_dur_text(f->bound, text));
    mrd_text_table_cell(t, "%s", f->inside == f->asked ? "yes" : "NO");
    mrd_text_table_cell(t, "%s, %s", mrd_align_quality_text(f->quality),
                        mrd_stamp_source_text(f->source));
}

/* Says why a node has no row. */
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

/* The constant between the aggregator's clock, which is true, and the session's. */
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
    static const mrd_text_table_column columns[] = { { "node", false },
                                                     { "error of its clock", false } };
    mrd_text_table t = { columns, MRD_COUNT(columns), { 0 } };

    for (size_t i = 0; i < nodes->n; i++) {
        mrd_text_table_cell(&t, "%s", nodes->v[i].id);
        mrd_text_table_cell(&t, "%s", nodes->v[i].error);
    }
    mrd_text_table_print(&t, stdout);
    mrd_text_table_fini(&t);
}

bool
mrd_demo_print_clocks(const mrd_demo_nodes *nodes, const char *store, const mrd_json *session)
{
    static const mrd_text_table_column columns[] = {
        { "node", false },   { "true offset", true }, { "estimate", true },
        { "error", true },   { "worst error", true }, { "bound", true },
        { "inside", false }, { "quality", false },
    };
    mrd_text_table t = { columns, MRD_COUNT(columns), { 0 } };
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
        clock_row(&t, &nodes->v[i], &facts);
        holds = holds && facts.inside == facts.asked;
        mrd_align_free(align);
    }
    printf("\nClocks: wrong on purpose, so the truth is known\n");
    print_errors(nodes);
    printf("\nSession time minus the node's, in the middle of the recording; worst error and bound "
           "over all of it\n");
    mrd_text_table_print(&t, stdout);
    printf("(all nodes are on one machine: real networks give wider bounds)\n");
    mrd_text_table_fini(&t);
    return holds;
}

/* ---- The order of collectives ---- */

/* One participant's part, in session time and as the node's wall clock had it. */
typedef struct {
    size_t core; /* of all nodes, counted through */
    mrd_sess_ns begin, end;
    mrd_wall_ns wall_begin, wall_end;
} part;

typedef struct {
    size_t whole, cut, by_wall, merged;
    size_t *last;          /* by core: was the last to enter */
    mrd_dur_ns *late, gap; /* by core: after the one before it, in sum; the largest disorder */
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

/* An array of parts in the order of their ends; NULL without memory. */
static part *
read_parts(const mrd_demo_nodes *nodes, size_t cores, const mrd_json *doc, int64_t constant,
           size_t *ret_n)
{
    const mrd_json *events = mrd_json_get(doc, "trace_events");
    size_t n = 0, all = mrd_json_size(events);
    part *v = calloc(all + 1, sizeof(*v));

    for (size_t i = 0; v != NULL && i < all; i++) {
        const mrd_json *e = mrd_json_at(events, i);
        const mrd_demo_node *node = node_called(nodes, mrd_json_str(e, "instance_id", ""));
        size_t core = strtoul(mrd_json_str(e, "lnc_idx", "0"), NULL, 10);
        part p = { .begin = { mrd_json_int(e, "timestamp", 0) } };

        if (node == NULL || core >= cores ||
            strcmp(mrd_json_str(e, "name", ""), "cc_exec_barrier") != 0)
            continue;
        p.core = (size_t) (node - nodes->v) * cores + core;
        p.end = mrd_sess_add(p.begin, mrd_json_int(e, "duration", 0));
        p.wall_begin = (mrd_wall_ns){ p.begin.ns + mrd_simclock_wall_delta(&node->clock,
                                                                           p.begin.ns - constant) };
        p.wall_end =
            (mrd_wall_ns){ p.end.ns + mrd_simclock_wall_delta(&node->clock, p.end.ns - constant) };
        v[n++] = p;
    }
    if (v != NULL)
        qsort(v, n, sizeof(*v), by_end);
    *ret_n = n;
    return v;
}

/* By how much somebody left before the last had entered; negative: nobody did. */
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
           "many did a core leave before the last had entered?\n"
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

void
mrd_demo_print_order(const mrd_demo_nodes *nodes, size_t cores, const char *store,
                     const char *profile)
{
    const mrd_dur_ns together = MRD_MS; /* ends of one; a step is several */
    size_t n = 0, all = nodes->n * cores;
    order o = { .last = calloc(all, sizeof(*o.last)), .late = calloc(all, sizeof(*o.late)) };
    mrd_json *doc = NULL;
    mrd_why why = { 0 };
    part *v = NULL;

    if (mrd_json_load(profile, &doc, &why) != MRD_OK)
        printf("\nThe order of collectives was not counted: %s\n", why.text);
    else if (o.last != NULL && o.late != NULL)
        v = read_parts(nodes, cores, doc, session_constant(store), &n);
    for (size_t from = 0, to; v != NULL && from < n; from = to) {
        for (to = from + 1; to < n && mrd_sess_diff(v[to].end, v[to - 1].end) < together;)
            to++;
        if (to - from == all)
            count_one(&o, v + from, all);
        else
            o.cut++;
    }
    if (v != NULL)
        print_order(nodes, cores, &o);
    free(v);
    free(o.last);
    free(o.late);
    mrd_json_free(doc);
}
