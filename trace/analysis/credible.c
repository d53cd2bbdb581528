#include "trace/analysis/credible.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/launches.h"

#define LAUNCH_NUMBER 0x636f72u /* separates numbers of processes from other ids */
#define KEYS_MOST     8u        /* maximum number of numbers and arrows of an event that count */
/* If a kernel begins earlier than this, it belongs to another launch with the same number. */
#define EARLY_MOST MRD_SEC

typedef enum { NAME_UNSEEN, NAME_OTHER, NAME_GRAPH_LAUNCH, NAME_DEVICE_STEP } name_class;

/* State of a line: the kernel that ends last, and the open step. */
typedef struct {
    mrd_ev_ns cover_end;
    mrd_dur_ns cover_ns;
    mrd_sid cover_name;
    uint32_t inside;
    bool is_kernel, is_stepping, step_has_work;
    bool shows_steps; /* its name says so */
    mrd_ev_ns step_end;
    mrd_track_id next; /* next line of the process with an open step */
} line_state;

typedef struct {
    mrd_proc_id process;
    mrd_ev_ns ts;
    bool has_kernel;
} graph_launch;

#define NO_LINE UINT32_MAX

typedef struct {
    mrd_ev_ns begin, end;   /* of its latest device work */
    mrd_track_id open_step; /* first line with an open step; NO_LINE if there is none */
} device_state;

struct mrd_credible {
    const mrd_catalog *cat;
    mrd_credible_row *rows; /* by process */
    device_state *devices;
    line_state *lines; /* by track */
    size_t n_tracks;
    uint8_t *names; /* name_class */
    size_t n_names;
    mrd_sid kernel, copy, set, annotation;
    mrd_launches *unlaunched; /* device spans that come before their launch */
    mrd_map by_launch;        /* number or arrow -> graph */
    graph_launch *graphs;
    size_t n_graphs, cap_graphs;
};

mrd_credible *
mrd_credible_new(const mrd_catalog *cat)
{
    mrd_credible *c = calloc(1, sizeof(*c));
    const mrd_strtab *strings = mrd_catalog_strings(cat);
    size_t processes = mrd_catalog_processes(cat);

    if (c == NULL)
        return NULL;
    c->cat = cat;
    c->n_tracks = mrd_catalog_tracks(cat);
    c->n_names = mrd_strtab_count(strings);
    c->rows = calloc(processes + 1, sizeof(*c->rows));
    c->devices = calloc(processes + 1, sizeof(*c->devices));
    c->lines = calloc(c->n_tracks + 1, sizeof(*c->lines));
    c->names = calloc(c->n_names + 1, sizeof(*c->names));
    c->unlaunched = mrd_launches_new();
    c->kernel = mrd_strtab_find(strings, MRD_STR("kernel"));
    c->copy = mrd_strtab_find(strings, MRD_STR("gpu_memcpy"));
    c->set = mrd_strtab_find(strings, MRD_STR("gpu_memset"));
    c->annotation = mrd_strtab_find(strings, MRD_STR("gpu_user_annotation"));
    if (c->rows == NULL || c->devices == NULL || c->lines == NULL || c->names == NULL ||
        c->unlaunched == NULL) {
        mrd_credible_free(c);
        return NULL;
    }
    for (size_t i = 0; i < processes; i++)
        c->devices[i] = (device_state){ { INT64_MIN }, { INT64_MIN }, NO_LINE };
    for (mrd_track_id i = 0; i < c->n_tracks; i++)
        c->lines[i].shows_steps =
            mrd_str_ends(mrd_catalog_text(cat, mrd_catalog_borrow_track(cat, i)->name), " Steps");
    return c;
}

void
mrd_credible_free(mrd_credible *c)
{
    if (c == NULL)
        return;
    mrd_launches_free(c->unlaunched);
    mrd_map_fini(&c->by_launch);
    free(c->graphs);
    free(c->names);
    free(c->lines);
    free(c->devices);
    free(c->rows);
    free(c);
}

/* ---- Launches ---- */

bool
mrd_credible_number(const mrd_catalog *cat, mrd_sid key, const mrd_event *ev, uint64_t *ret)
{
    mrd_proc_id process = mrd_catalog_borrow_track(cat, ev->track)->process;

    for (uint32_t i = 0; i < ev->arg_count && key != MRD_SID_EMPTY; i++) {
        const mrd_arg *a = &ev->args[i];

        if (a->key == key && (a->type == MRD_ARG_INT || a->type == MRD_ARG_UINT)) {
            *ret = mrd_flow_id(process, LAUNCH_NUMBER, a->v.u);
            return true;
        }
    }
    return false;
}

/* Stores the keys that connect a launch with its kernels: its number, and its arrows in this
 * direction. */
static unsigned
keys_of(const mrd_event *ev, const uint64_t *number, bool leaving, uint64_t ret[KEYS_MOST])
{
    unsigned n = 0;

    if (number != NULL)
        ret[n++] = *number;
    for (unsigned i = 0; i < ev->flow_count && n < KEYS_MOST; i++)
        if ((ev->flows[i].dir == MRD_FLOW_START) == leaving)
            ret[n++] = ev->flows[i].id;
    return n;
}

static name_class
classify_name(const mrd_credible *c, mrd_sid name)
{
    mrd_str text = mrd_catalog_text(c->cat, name);

    if (memmem(text.p, text.len, "GraphLaunch", 11) != NULL)
        return NAME_GRAPH_LAUNCH;
    return mrd_str_starts(text, "ProfilerStep#") ? NAME_DEVICE_STEP : NAME_OTHER;
}

static name_class
class_of(mrd_credible *c, mrd_sid name)
{
    if (name >= c->n_names)
        return classify_name(c, name);
    if (c->names[name] == NAME_UNSEEN)
        c->names[name] = (uint8_t) classify_name(c, name);
    return (name_class) c->names[name];
}

/* Returns the graph with one of these keys; NULL if there is none. */
static graph_launch *
find_graph(const mrd_credible *c, const uint64_t *keys, unsigned n)
{
    for (unsigned i = 0; i < n && c->n_graphs > 0; i++) {
        uint32_t graph = mrd_map_get(&c->by_launch, (mrd_map_key){ keys[i], 0, 0 });

        if (graph != MRD_MAP_NONE)
            return &c->graphs[graph];
    }
    return NULL;
}

static mrd_err
add_graph(mrd_credible *c, mrd_proc_id process, const mrd_event *ev, const uint64_t *keys,
          unsigned n, bool has_kernel)
{
    mrd_err err = MRD_OK;

    if (n == 0 || find_graph(c, keys, n) != NULL || c->n_graphs >= MRD_CREDIBLE_GRAPHS)
        return MRD_OK;
    if (!MRD_VEC_ROOM(c->graphs, c->n_graphs, c->cap_graphs, 1))
        return MRD_NOMEM;
    c->graphs[c->n_graphs] = (graph_launch){ process, ev->ts, has_kernel };
    for (unsigned i = 0; i < n && err == MRD_OK; i++)
        err = mrd_map_put(&c->by_launch, (mrd_map_key){ keys[i], 0, 0 }, (uint32_t) c->n_graphs);
    c->n_graphs++;
    return err;
}

/* ---- Lines of devices ---- */

/* Closes the steps of a process that end at or before `to`. Marks the others if there is device
 * work. */
static void
visit_steps(mrd_credible *c, mrd_proc_id process, mrd_ev_ns to, bool has_work)
{
    mrd_track_id *link = &c->devices[process].open_step;

    while (*link != NO_LINE) {
        line_state *line = &c->lines[*link];

        line->step_has_work =
            line->step_has_work || (has_work && mrd_ev_before(to, line->step_end));
        if (mrd_ev_before(to, line->step_end)) {
            link = &line->next;
            continue;
        }
        c->rows[process].steps++;
        c->rows[process].steps_empty += !line->step_has_work;
        line->is_stepping = false;
        *link = line->next;
    }
}

static void
open_step(mrd_credible *c, mrd_proc_id process, const mrd_event *ev)
{
    device_state *d = &c->devices[process];
    line_state *line = &c->lines[ev->track];

    visit_steps(c, process, ev->ts, false);
    if (line->is_stepping || ev->dur_ns <= 0) /* inside another step */
        return;
    line->is_stepping = true;
    line->step_end = mrd_event_end(ev);
    line->step_has_work = mrd_ev_after(d->end, ev->ts);
    line->next = d->open_step;
    d->open_step = ev->track;
}

static bool
is_device_step(mrd_credible *c, const mrd_event *ev)
{
    const mrd_track *t = mrd_catalog_borrow_track(c->cat, ev->track);

    if (ev->kind != MRD_SPAN || t->source != MRD_SRC_FRAMEWORK)
        return false;
    if (ev->category == c->annotation && c->annotation != MRD_SID_EMPTY)
        return class_of(c, ev->name) == NAME_DEVICE_STEP;
    return c->lines[ev->track].shows_steps;
}

/* Counts kernels of a stream that lie inside an earlier kernel. */
static void
add_to_stream(mrd_credible *c, mrd_proc_id process, const mrd_event *ev)
{
    line_state *line = &c->lines[ev->track];
    mrd_credible_row *row = &c->rows[process];
    mrd_ev_ns end = mrd_event_end(ev);

    if (!line->is_kernel || mrd_ev_after(end, line->cover_end)) {
        line->is_kernel = true;
        line->cover_end = end;
        line->cover_ns = ev->dur_ns;
        line->cover_name = ev->name;
        line->inside = 0;
        return;
    }
    if (++line->inside >= MRD_CREDIBLE_INSIDE && line->inside > row->inside) {
        row->inside = line->inside;
        row->around = line->cover_name;
        row->around_ns = line->cover_ns;
    }
}

mrd_err
mrd_credible_device(mrd_credible *c, const mrd_work *work, const mrd_event *ev,
                    const uint64_t *number, bool is_launched)
{
    device_state *d = &c->devices[work->process];
    bool is_record = ev->category == c->kernel || ev->category == c->copy || ev->category == c->set;
    uint64_t keys[KEYS_MOST];
    unsigned n = is_launched && c->n_graphs == 0 ? 0 : keys_of(ev, number, false, keys);
    graph_launch *graph = find_graph(c, keys, n);
    mrd_err err = MRD_OK;

    visit_steps(c, work->process, ev->ts, true);
    d->begin = mrd_ev_max(d->begin, ev->ts);
    if (ev->dur_ns >= 0)
        d->end = mrd_ev_max(d->end, mrd_event_end(ev));
    /* A collective waits on the device while other streams of a graph run, so it may contain
     * kernels. */
    if (is_record && ev->category != MRD_SID_EMPTY && ev->dur_ns >= 0 && work->kind == MRD_CC_NO &&
        ev->track < c->n_tracks)
        add_to_stream(c, work->process, ev);
    if (graph != NULL)
        graph->has_kernel = true;
    for (unsigned i = 0; i < n && !is_launched && err == MRD_OK; i++)
        err = mrd_launches_note(c->unlaunched, keys[i], ev->ts);
    return err;
}

mrd_err
mrd_credible_other(mrd_credible *c, const mrd_event *ev, const uint64_t *number)
{
    mrd_proc_id process = mrd_catalog_borrow_track(c->cat, ev->track)->process;
    mrd_credible_row *row = &c->rows[process];
    uint64_t keys[KEYS_MOST];
    unsigned n = keys_of(ev, number, true, keys);
    const mrd_ev_ns *kernel = NULL;

    if (ev->track < c->n_tracks && is_device_step(c, ev))
        open_step(c, process, ev);
    for (unsigned i = 0; i < n && kernel == NULL; i++)
        kernel = mrd_launches_find(c->unlaunched, keys[i]);
    if (kernel != NULL && mrd_ev_diff(ev->ts, *kernel) > EARLY_MOST)
        kernel = NULL;
    if (kernel != NULL && mrd_ev_diff(ev->ts, *kernel) >= MRD_CREDIBLE_EARLY) {
        mrd_dur_ns by = mrd_ev_diff(ev->ts, *kernel);

        row->early++;
        row->early_ns = by > row->early_ns ? by : row->early_ns;
    }
    return class_of(c, ev->name) == NAME_GRAPH_LAUNCH
               ? add_graph(c, process, ev, keys, n, kernel != NULL)
               : MRD_OK;
}

/* ---- Results ---- */

void
mrd_credible_finish(mrd_credible *c)
{
    for (mrd_proc_id i = 0; i < mrd_catalog_processes(c->cat); i++)
        visit_steps(c, i, (mrd_ev_ns){ INT64_MAX }, false);
    for (size_t i = 0; i < c->n_graphs; i++) {
        const graph_launch *g = &c->graphs[i];
        mrd_credible_row *row = &c->rows[g->process];

        /* The trace ended before the kernels of later launches ran. */
        if (!g->has_kernel && mrd_ev_after(g->ts, c->devices[g->process].begin))
            continue;
        row->graphs++;
        row->graphs_empty += !g->has_kernel;
    }
}

const mrd_credible_row *
mrd_credible_of(const mrd_credible *c, mrd_proc_id process)
{
    return &c->rows[process];
}

bool
mrd_credible_hides(const mrd_credible_row *row)
{
    /* A device may have no work in a few steps, so a few do not count. */
    return row->inside > 0 || row->graphs_empty * 20 > row->graphs ||
           (row->steps_empty > 1 && row->steps_empty * 2 > row->steps);
}
