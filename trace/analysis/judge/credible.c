#include "trace/analysis/judge/credible.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/launches.h"
#include "trace/model/arg_keys.h"

/* This constant is hashed into the key of a launch number, so that the key does not equal the id of
 * a flow arrow. */
#define LAUNCH_NUMBER 0x636f72u
/* Maximum number of keys per event: its launch number and its flow arrows. Further arrows are
 * ignored. */
#define KEYS_MOST 8u
/* Numbers of launches are reused. A kernel that begins more than this time before a launch belongs
 * to an earlier launch with this number. */
#define EARLY_MOST MRD_SEC

typedef enum { NAME_UNSEEN, NAME_OTHER, NAME_GRAPH_LAUNCH, NAME_DEVICE_STEP } name_class;

/* The queue of a kernel. One track may show kernels of several queues. */
typedef struct {
    int64_t device, stream; /* device and stream of the queue; MRD_NONE if not stated */
    uint64_t launch;        /* key of the launch that started the kernel; 0 if unknown */
} queue_place;

/* State of a track. cover_* describe the kernel with the latest end, step_* the step that is
 * still open, and graph_* the latest launch of a graph. */
typedef struct {
    mrd_ev_ns cover_end;
    mrd_dur_ns cover_ns;
    queue_place cover_at;
    mrd_sid cover_name;
    uint32_t inside;
    bool is_kernel, is_stepping, step_has_work;
    bool shows_steps; /* the name of the track says that it shows steps */
    mrd_ev_ns step_end;
    mrd_track_id next; /* next track in the process's list of tracks with an open step */
    uint32_t graph;    /* index in `launches` of the graph launch that ends at graph_end */
    mrd_ev_ns graph_end;
} line_state;

/* A graph launch, or another launch with a kernel that begins too early. */
typedef struct {
    mrd_proc_id process;
    /* has_kernel is true if the trace has a kernel of this launch. For other launches than those of
     * graphs, only a kernel that begins after the launch counts. */
    bool is_graph, has_kernel;
    mrd_ev_ns ts;
    /* The longest time by which one of its kernels begins before the launch. 0 if none does. */
    mrd_dur_ns early_ns;
} launch;

#define NO_LINE UINT32_MAX

typedef struct {
    mrd_ev_ns begin, end; /* latest begin and latest end of the device's work */
    /* first in the list of tracks with an open step; NO_LINE if the list is empty */
    mrd_track_id open_step;
} device_state;

struct mrd_credible {
    const mrd_catalog *cat;
    mrd_credible_row *rows; /* indexed by process */
    device_state *devices;
    line_state *lines; /* indexed by track */
    size_t n_tracks;
    uint8_t *names; /* name_class, indexed by name */
    size_t n_names;
    mrd_sid kernel, copy, set, annotation, device_key, stream_key;
    /* Begins of device spans that came before their launch, by key. */
    mrd_launches *unlaunched;
    mrd_map by_key; /* maps a key (a launch number or an arrow) to an index in `launches` */
    launch *launches;
    size_t n_launches, cap_launches;
};

mrd_credible *
mrd_credible_new(const mrd_catalog *cat)
{
    mrd_credible *credible = calloc(1, sizeof(*credible));
    const mrd_strtab *strings = mrd_catalog_strings(cat);
    size_t processes = mrd_catalog_processes(cat);

    if (credible == NULL)
        return NULL;
    credible->cat = cat;
    credible->n_tracks = mrd_catalog_tracks(cat);
    credible->n_names = mrd_strtab_count(strings);
    credible->rows = calloc(processes + 1, sizeof(*credible->rows));
    credible->devices = calloc(processes + 1, sizeof(*credible->devices));
    credible->lines = calloc(credible->n_tracks + 1, sizeof(*credible->lines));
    credible->names = calloc(credible->n_names + 1, sizeof(*credible->names));
    credible->unlaunched = mrd_launches_new();
    credible->kernel = mrd_strtab_find(strings, MRD_STR("kernel"));
    credible->copy = mrd_strtab_find(strings, MRD_STR("gpu_memcpy"));
    credible->set = mrd_strtab_find(strings, MRD_STR("gpu_memset"));
    credible->device_key = mrd_arg_key_find(strings, MRD_KEY_DEVICE);
    credible->stream_key = mrd_arg_key_find(strings, MRD_KEY_STREAM);
    credible->annotation = mrd_strtab_find(strings, MRD_STR("gpu_user_annotation"));
    if (credible->rows == NULL || credible->devices == NULL || credible->lines == NULL ||
        credible->names == NULL || credible->unlaunched == NULL) {
        mrd_credible_free(credible);
        return NULL;
    }
    for (size_t i = 0; i < processes; i++)
        credible->devices[i] = (device_state){ { INT64_MIN }, { INT64_MIN }, NO_LINE };
    for (mrd_track_id id = 0; id < credible->n_tracks; id++) {
        credible->lines[id].graph_end = (mrd_ev_ns){ INT64_MIN };
        credible->lines[id].shows_steps =
            mrd_str_ends(mrd_catalog_text(cat, mrd_catalog_borrow_track(cat, id)->name), " Steps");
    }
    return credible;
}

void
mrd_credible_free(mrd_credible *credible)
{
    if (credible == NULL)
        return;
    mrd_launches_free(credible->unlaunched);
    mrd_map_fini(&credible->by_key);
    free(credible->launches);
    free(credible->names);
    free(credible->lines);
    free(credible->devices);
    free(credible->rows);
    free(credible);
}

/* ---- Launches ---- */

bool
mrd_credible_number(const mrd_catalog *cat, mrd_sid key, const mrd_event *ev, uint64_t *ret)
{
    mrd_proc_id process = mrd_catalog_borrow_track(cat, ev->track)->process;
    const mrd_arg *arg = mrd_event_arg(ev, key);

    if (!mrd_arg_is_int(arg))
        return false;
    *ret = mrd_flow_id(process, LAUNCH_NUMBER, arg->v.u);
    return true;
}

/* Stores an event's keys: its launch number, and the arrows that leave it (`leaving`) or arrive at
 * it. A launch and its kernels share a key. Returns the number of keys. */
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
classify_name(const mrd_credible *credible, mrd_sid name)
{
    static const char *const launches[] = { "cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch" };
    mrd_str text = mrd_catalog_text(credible->cat, name);

    /* the name may continue with a version, such as _v10000 */
    for (size_t i = 0; i < MRD_COUNT(launches); i++)
        if (mrd_str_starts(text, launches[i]))
            return NAME_GRAPH_LAUNCH;
    return mrd_str_starts(text, "ProfilerStep#") ? NAME_DEVICE_STEP : NAME_OTHER;
}

static name_class
class_of(mrd_credible *credible, mrd_sid name)
{
    if (name >= credible->n_names)
        return classify_name(credible, name);
    if (credible->names[name] == NAME_UNSEEN)
        credible->names[name] = (uint8_t) classify_name(credible, name);
    return (name_class) credible->names[name];
}

/* Returns the launch that has one of these keys; NULL if there is none. */
static launch *
find_launch(const mrd_credible *credible, const uint64_t *keys, unsigned n)
{
    for (unsigned i = 0; i < n && credible->n_launches > 0; i++) {
        uint32_t at = mrd_map_get(&credible->by_key, (mrd_map_key){ keys[i], 0, 0 });

        if (at != MRD_MAP_NONE)
            return &credible->launches[at];
    }
    return NULL;
}

/* Adds a launch under these keys, unless one of the keys exists. If a graph launch lies inside
 * another one on its track, both count as one: the keys are added to the outer launch. */
static mrd_err
add_launch(mrd_credible *credible, const mrd_event *ev, const launch *new, const uint64_t *keys,
           unsigned count)
{
    line_state *line =
        ev->track < credible->n_tracks && new->is_graph ? &credible->lines[ev->track] : NULL;
    uint32_t at = (uint32_t) credible->n_launches;
    mrd_err err = MRD_OK;

    if (count == 0 || find_launch(credible, keys, count) != NULL)
        return MRD_OK;
    if (line != NULL && mrd_ev_before(ev->ts, line->graph_end)) {
        at = line->graph;
        credible->launches[at].has_kernel = credible->launches[at].has_kernel || new->has_kernel;
        if (credible->launches[at].early_ns < new->early_ns)
            credible->launches[at].early_ns = new->early_ns;
    } else {
        if (credible->n_launches >= MRD_CREDIBLE_LAUNCHES)
            return MRD_OK;
        if (!MRD_VEC_ROOM(credible->launches, credible->n_launches, credible->cap_launches, 1))
            return MRD_NOMEM;
        credible->launches[credible->n_launches++] = *new;
        if (line != NULL && ev->dur_ns > 0) {
            line->graph = at;
            line->graph_end = mrd_event_end(ev);
        }
    }
    for (unsigned i = 0; i < count && err == MRD_OK; i++)
        err = mrd_map_put(&credible->by_key, (mrd_map_key){ keys[i], 0, 0 }, at);
    return err;
}

/* ---- Tracks of devices ---- */

/* Counts and closes the steps of a process that end at or before `to`. `has_work` means that a
 * device span begins at `to`. The steps that are still open then contain device work. */
static void
visit_steps(mrd_credible *credible, mrd_proc_id process, mrd_ev_ns to, bool has_work)
{
    mrd_track_id *link = &credible->devices[process].open_step;

    while (*link != NO_LINE) {
        line_state *line = &credible->lines[*link];

        line->step_has_work =
            line->step_has_work || (has_work && mrd_ev_before(to, line->step_end));
        if (mrd_ev_before(to, line->step_end)) {
            link = &line->next;
            continue;
        }
        credible->rows[process].steps++;
        credible->rows[process].steps_empty += !line->step_has_work;
        line->is_stepping = false;
        *link = line->next;
    }
}

static void
open_step(mrd_credible *credible, mrd_proc_id process, const mrd_event *ev)
{
    device_state *state = &credible->devices[process];
    line_state *line = &credible->lines[ev->track];

    visit_steps(credible, process, ev->ts, false);
    if (line->is_stepping || ev->dur_ns <= 0) /* a step inside a step is not counted */
        return;
    line->is_stepping = true;
    line->step_end = mrd_event_end(ev);
    line->step_has_work = mrd_ev_after(state->end, ev->ts);
    line->next = state->open_step;
    state->open_step = ev->track;
}

static bool
is_device_step(mrd_credible *credible, const mrd_event *ev)
{
    const mrd_track *track = mrd_catalog_borrow_track(credible->cat, ev->track);

    if (ev->kind != MRD_SPAN || track->source != MRD_SRC_FRAMEWORK)
        return false;
    if (ev->category == credible->annotation && credible->annotation != MRD_SID_EMPTY)
        return class_of(credible, ev->name) == NAME_DEVICE_STEP;
    return credible->lines[ev->track].shows_steps;
}

static int64_t
int_arg(const mrd_event *ev, mrd_sid key)
{
    const mrd_arg *arg = mrd_event_arg(ev, key);

    return mrd_arg_is_int(arg) ? arg->v.i : MRD_NONE;
}

/* Returns true if two kernels must not overlap: they use one stream and come from different
 * launches. */
static bool
is_serial(const queue_place *a, const queue_place *b)
{
    return a->device == b->device && a->stream == b->stream &&
           (a->launch == 0 || a->launch != b->launch);
}

/* Counts this kernel if it lies inside an earlier kernel of its stream. That cannot happen, because
 * a stream runs its kernels one by one. */
static void
add_to_stream(mrd_credible *credible, mrd_proc_id process, const mrd_event *ev, uint64_t launch_key)
{
    line_state *line = &credible->lines[ev->track];
    mrd_credible_row *row = &credible->rows[process];
    mrd_ev_ns end = mrd_event_end(ev);
    const mrd_arg *stream = mrd_event_arg(ev, credible->stream_key);
    queue_place at = { int_arg(ev, credible->device_key), int_arg(ev, credible->stream_key),
                       launch_key };

    if (mrd_arg_is_int(stream) && (stream->v.i < 0 || stream->v.u == UINT32_MAX))
        return; /* in an unknown stream, kernels may overlap */
    if (!line->is_kernel || mrd_ev_after(end, line->cover_end)) {
        line->is_kernel = true;
        line->cover_end = end;
        line->cover_ns = ev->dur_ns;
        line->cover_at = at;
        line->cover_name = ev->name;
        line->inside = 0;
        return;
    }
    if (is_serial(&line->cover_at, &at) && ++line->inside >= MRD_CREDIBLE_INSIDE &&
        line->inside > row->inside) {
        row->inside = line->inside;
        row->around = line->cover_name;
        row->around_ns = line->cover_ns;
    }
}

mrd_err
mrd_credible_device(mrd_credible *credible, const mrd_work *work, const mrd_event *ev,
                    const uint64_t *number, bool is_launched)
{
    device_state *state = &credible->devices[work->process];
    bool is_record = ev->category == credible->kernel || ev->category == credible->copy ||
                     ev->category == credible->set;
    uint64_t keys[KEYS_MOST];
    unsigned n = keys_of(ev, number, false, keys);
    launch *by = find_launch(credible, keys, n);
    mrd_err err = MRD_OK;

    visit_steps(credible, work->process, ev->ts, true);
    state->begin = mrd_ev_max(state->begin, ev->ts);
    if (ev->dur_ns >= 0)
        state->end = mrd_ev_max(state->end, mrd_event_end(ev));
    /* Collectives are not checked. While one waits on the device, other streams of its graph run,
     * so kernels may lie inside it. */
    if (is_record && ev->category != MRD_SID_EMPTY && ev->dur_ns >= 0 && work->kind == MRD_CC_NO &&
        ev->track < credible->n_tracks)
        add_to_stream(credible, work->process, ev, n == 0 ? 0 : keys[0]);
    /* A kernel of an ordinary launch must have the number of the launch. An arrow alone is enough
     * only for the launch of a graph, because an arrow may lead to several kernels. */
    if (by != NULL && (by->is_graph || number != NULL))
        by->has_kernel = true;
    for (unsigned i = 0; i < n && !is_launched && err == MRD_OK; i++)
        err = mrd_launches_note(credible->unlaunched, keys[i], ev->ts);
    return err;
}

mrd_err
mrd_credible_other(mrd_credible *credible, const mrd_event *ev, const uint64_t *number)
{
    mrd_proc_id process = mrd_catalog_borrow_track(credible->cat, ev->track)->process;
    launch new = { .process = process, .ts = ev->ts };
    uint64_t keys[KEYS_MOST];
    unsigned n = keys_of(ev, number, true, keys);
    const mrd_ev_ns *kernel = NULL;

    if (ev->track < credible->n_tracks && is_device_step(credible, ev))
        open_step(credible, process, ev);
    for (unsigned i = 0; i < n && kernel == NULL; i++)
        kernel = mrd_launches_find(credible->unlaunched, keys[i]);
    if (kernel != NULL && mrd_ev_diff(ev->ts, *kernel) > EARLY_MOST)
        kernel = NULL;
    if (kernel != NULL && mrd_ev_diff(ev->ts, *kernel) >= MRD_CREDIBLE_EARLY)
        new.early_ns = mrd_ev_diff(ev->ts, *kernel);
    new.is_graph = class_of(credible, ev->name) == NAME_GRAPH_LAUNCH;
    new.has_kernel = new.is_graph &&kernel != NULL;
    return new.is_graph || new.early_ns > 0 ? add_launch(credible, ev, &new, keys, n) : MRD_OK;
}

/* ---- Results ---- */

void
mrd_credible_finish(mrd_credible *credible)
{
    for (mrd_proc_id id = 0; id < mrd_catalog_processes(credible->cat); id++) {
        mrd_credible_row *row = &credible->rows[id];

        visit_steps(credible, id, (mrd_ev_ns){ INT64_MAX }, false);
        if (row->steps < 2 || row->steps_empty < row->steps)
            row->steps_empty = 0;
    }
    for (size_t i = 0; i < credible->n_launches; i++) {
        const launch *g = &credible->launches[i];
        mrd_credible_row *row = &credible->rows[g->process];

        if (g->early_ns > 0 && (g->is_graph || !g->has_kernel)) {
            row->early++;
            row->early_ns = g->early_ns > row->early_ns ? g->early_ns : row->early_ns;
        }
        if (!g->is_graph)
            continue;
        /* A launch after the last device work does not count. The trace may have ended before its
         * kernels ran. */
        if (!g->has_kernel && mrd_ev_after(g->ts, credible->devices[g->process].begin))
            continue;
        row->graphs++;
        row->graphs_empty += !g->has_kernel;
    }
}

const mrd_credible_row *
mrd_credible_of(const mrd_credible *credible, mrd_proc_id process)
{
    return &credible->rows[process];
}

bool
mrd_credible_hides(const mrd_credible_row *row)
{
    return row->inside > 0 || row->graphs_empty * 20 > row->graphs || row->steps_empty > 0;
}
