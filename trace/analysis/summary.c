#include "trace/analysis/summary.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/calls.h"
#include "trace/json/json_names.h"

typedef struct {
    /* indices of the track's rows in `cores`, `processes` and `nodes` */
    uint32_t core, process, node;
    uint32_t counter; /* index of the counter + 1; 0 if the track is no counter */
    bool mine;        /* the track belongs to the summary's profile */
    /* Whether the rows of the process and the node count this track's events themselves. They do if
     * they have several cores. With one core, rows_finish copies the core's values. */
    bool process_too, node_too;
    bool device, cpu, memory;
} sum_track;

struct mrd_summary {
    const mrd_catalog *cat;
    uint32_t profile;
    mrd_sid cc_running, cc_exec_barrier, cc_op, nc_exec_running;
    mrd_calls *calls;
    mrd_summary_totals totals;
    mrd_summary_row *nodes, *processes, *cores;
    size_t n_nodes, n_processes, n_cores;
    sum_track *tracks;
    size_t n_tracks;
    mrd_types *types; /* event types, counted per core row */
    mrd_summary_counter *counters;
    size_t n_counters;
    mrd_summary_loss *losses;
    size_t n_losses, cap_losses;
    mrd_map loss_of; /* maps a track and a cause to an index in `losses` */
};

static mrd_err add_type(void *self, const mrd_event *ev);

/* ---- Rows ---- */

static int
text_order(const mrd_catalog *cat, mrd_sid a, mrd_sid b)
{
    return a == b ? 0 : strcmp(mrd_catalog_text(cat, a).p, mrd_catalog_text(cat, b).p);
}

static int
track_order(const void *a, const void *b, void *self)
{
    const mrd_catalog *cat = self;
    const mrd_track_id *x = a, *y = b;
    const mrd_track *t = mrd_catalog_borrow_track(cat, *x), *u = mrd_catalog_borrow_track(cat, *y);
    int order =
        t->process == u->process ? 0 : mrd_catalog_process_order(cat, t->process, u->process);

    if (order == 0)
        order = mrd_i64_order(mrd_none_last(t->lnc_idx), mrd_none_last(u->lnc_idx));
    return order != 0 ? order : mrd_i64_order(*x, *y);
}

static void
row_init(mrd_summary_row *row, uint32_t parent)
{
    *row = (mrd_summary_row){ .first = { INT64_MAX }, .last = { INT64_MIN }, .parent = parent };
}

static void
core_new(mrd_summary *summary, int64_t lnc_idx)
{
    mrd_summary_row *core = &summary->cores[summary->n_cores],
                    *process = &summary->processes[summary->n_processes - 1],
                    *node = &summary->nodes[summary->n_nodes - 1];

    row_init(core, (uint32_t) summary->n_processes - 1);
    core->lnc_idx = lnc_idx;
    core->cores = (uint32_t) summary->n_cores++;
    core->cores_end = process->cores_end = node->cores_end = (uint32_t) summary->n_cores;
}

/* Assigns a track to its core, process and node rows, and adds missing rows. Tracks come in the
 * order of track_order, so only the latest rows can match. */
static void
rows_add(mrd_summary *summary, mrd_track_id id)
{
    const mrd_track *track = mrd_catalog_borrow_track(summary->cat, id);
    const mrd_process *process = mrd_catalog_borrow_process(summary->cat, track->process);
    bool new_node = summary->n_nodes == 0 ||
                    summary->nodes[summary->n_nodes - 1].instance != process->instance_id;
    bool new_process = new_node || summary->n_processes == 0 ||
                       summary->processes[summary->n_processes - 1].process != track->process;

    if (new_node) {
        row_init(&summary->nodes[summary->n_nodes], 0);
        summary->nodes[summary->n_nodes].cores = (uint32_t) summary->n_cores;
        summary->nodes[summary->n_nodes++].instance = process->instance_id;
    }
    if (new_process) {
        row_init(&summary->processes[summary->n_processes], (uint32_t) summary->n_nodes - 1);
        summary->processes[summary->n_processes].cores = (uint32_t) summary->n_cores;
        summary->processes[summary->n_processes++].process = track->process;
    }
    if (new_process || summary->cores[summary->n_cores - 1].lnc_idx != track->lnc_idx)
        core_new(summary, track->lnc_idx);
    summary->tracks[id].core = (uint32_t) summary->n_cores - 1;
    summary->tracks[id].process = (uint32_t) summary->n_processes - 1;
    summary->tracks[id].node = (uint32_t) summary->n_nodes - 1;
    summary->tracks[id].mine = true;
}

/* Returns true if the row has only one core. Such a row is a copy of its core's row. */
static bool
has_one_core(const mrd_summary_row *row)
{
    return row->cores_end - row->cores == 1;
}

static void
track_kind(mrd_summary *summary, mrd_track_id id)
{
    const mrd_track *track = mrd_catalog_borrow_track(summary->cat, id);
    mrd_str name = mrd_catalog_text(summary->cat, track->name), cpu;

    summary->tracks[id].device =
        track->source == MRD_SRC_DEVICE || track->source == MRD_SRC_DEVPROF;
    if (track->kind != MRD_TRACK_COUNTER)
        return;
    summary->counters[summary->n_counters].track = id;
    summary->tracks[id].counter = (uint32_t) ++summary->n_counters;
    if (track->source == MRD_SRC_HOST) {
        summary->tracks[id].cpu = mrd_json_cpu_id(name, &cpu);
        summary->tracks[id].memory =
            mrd_str_is(name, MRD_NAME_MEM_USED) || mrd_str_is(name, MRD_NAME_MEM_MONITOR);
    }
}

static bool
rows_make(mrd_summary *summary)
{
    size_t n = mrd_catalog_tracks(summary->cat), kept = 0;
    mrd_track_id *order = malloc((n + 1) * sizeof(*order));

    summary->n_tracks = n;
    summary->tracks = calloc(n + 1, sizeof(*summary->tracks));
    summary->nodes = calloc(n + 1, sizeof(*summary->nodes));
    summary->processes = calloc(n + 1, sizeof(*summary->processes));
    summary->cores = calloc(n + 1, sizeof(*summary->cores));
    summary->counters = calloc(n + 1, sizeof(*summary->counters));
    if (order == NULL || summary->tracks == NULL || summary->nodes == NULL ||
        summary->processes == NULL || summary->cores == NULL || summary->counters == NULL) {
        free(order);
        return false;
    }
    for (mrd_track_id id = 0; id < n; id++) {
        if (mrd_catalog_profile_of(summary->cat, id) == summary->profile)
            order[kept++] = id;
    }
    qsort_r(order, kept, sizeof(*order), track_order, (void *) (uintptr_t) summary->cat);
    for (size_t i = 0; i < kept; i++) {
        rows_add(summary, order[i]);
        track_kind(summary, order[i]);
    }
    for (size_t i = 0; i < kept; i++) {
        sum_track *track = &summary->tracks[order[i]];

        track->process_too = !has_one_core(&summary->processes[track->process]);
        track->node_too = !has_one_core(&summary->nodes[track->node]);
    }
    free(order);
    return true;
}

mrd_summary *
mrd_summary_new(const mrd_sink_env *env)
{
    mrd_summary *summary = calloc(1, sizeof(*summary));
    const mrd_strtab *strings;

    if (summary == NULL)
        return NULL;
    summary->cat = env->catalog;
    summary->profile = env->profile;
    summary->totals.first = (mrd_ev_ns){ INT64_MAX };
    summary->totals.last = (mrd_ev_ns){ INT64_MIN };
    strings = mrd_catalog_strings(summary->cat);
    summary->cc_running = mrd_strtab_find(strings, MRD_STR("cc_running"));
    summary->nc_exec_running = mrd_strtab_find(strings, MRD_STR("nc_exec_running"));
    summary->cc_exec_barrier = mrd_strtab_find(strings, MRD_STR("cc_exec_barrier"));
    summary->cc_op = mrd_strtab_find(strings, MRD_STR("cc_op"));
    summary->calls = mrd_calls_new(summary->cat, summary->profile, add_type, summary);
    if (summary->calls == NULL || !rows_make(summary) ||
        (summary->types = mrd_types_new(summary->n_cores)) == NULL) {
        mrd_summary_free(summary);
        return NULL;
    }
    return summary;
}

void
mrd_summary_free(mrd_summary *summary)
{
    if (summary == NULL)
        return;
    mrd_calls_free(summary->calls);
    mrd_types_free(summary->types);
    free(summary->nodes);
    free(summary->processes);
    free(summary->cores);
    free(summary->counters);
    free(summary->losses);
    mrd_map_fini(&summary->loss_of);
    free(summary->tracks);
    free(summary);
}

/* ---- Adding ---- */

/* Adds an interval to a union of time intervals. Intervals come in order of begin, so the latest
 * end is enough to measure the union. */
static void
union_add(mrd_union *spans, mrd_ev_ns start, mrd_ev_ns end)
{
    if (!spans->any || mrd_ev_after(start, spans->end)) {
        spans->ns = mrd_sat_count(spans->ns, (uint64_t) end.ns - (uint64_t) start.ns);
        spans->end = end;
        spans->any = true;
    } else if (mrd_ev_after(end, spans->end)) {
        spans->ns = mrd_sat_count(spans->ns, (uint64_t) end.ns - (uint64_t) spans->end.ns);
        spans->end = end;
    }
}

static mrd_err
add_type(void *self, const mrd_event *ev)
{
    mrd_summary *summary = self;

    return mrd_types_add(summary->types, summary->tracks[ev->track].core, ev);
}

static bool
is_collective(const mrd_summary *summary, const mrd_event *ev)
{
    return (ev->name == summary->cc_running && ev->name != 0) ||
           (ev->name == summary->cc_exec_barrier && ev->name != 0) ||
           (ev->category == summary->cc_op && ev->category != 0);
}

static void
add_interval(const mrd_summary *summary, mrd_summary_row *row, const mrd_event *ev, mrd_ev_ns end)
{
    row->first = mrd_ev_min(ev->ts, row->first);
    row->last = mrd_ev_max(end, row->last);
    if (ev->kind != MRD_SPAN || ev->dur_ns < 0)
        return;
    union_add(&row->busy, ev->ts, end);
    if (summary->tracks[ev->track].device)
        union_add(&row->device, ev->ts, end);
    if (is_collective(summary, ev))
        union_add(&row->collective, ev->ts, end);
}

/* Returns how many recorded events this event stands for: 2 for a span made of two events, else
 * 1. */
static unsigned
events_of(const mrd_event *ev)
{
    return (ev->flags & MRD_EV_PAIR) != 0 ? 2 : 1;
}

static void
add_execution(mrd_summary *summary, uint32_t core, const mrd_event *ev)
{
    bool pair = events_of(ev) == 2;

    if (ev->kind != MRD_SPAN || ev->name != summary->nc_exec_running || ev->name == 0)
        return;
    summary->cores[core].executions++;
    summary->cores[core].pairs += pair;
    summary->totals.pairs += pair;
}

static void
add_row(const mrd_summary *summary, mrd_summary_row *row, const mrd_event *ev, mrd_ev_ns end,
        bool timed)
{
    row->events += events_of(ev);
    if (ev->kind == MRD_LOSS && ev->ivalue > 0)
        row->lost = mrd_sat_count(row->lost, (uint64_t) ev->ivalue);
    if (ev->kind == MRD_SPAN && ev->name == summary->cc_running && ev->name != 0)
        row->cc_running++;
    if (timed)
        add_interval(summary, row, ev, end);
}

static void
add_sample(mrd_summary *summary, const mrd_event *ev)
{
    const sum_track *track = &summary->tracks[ev->track];
    mrd_summary_counter *counter;
    double v = !(ev->flags & MRD_EV_INT)     ? ev->value
               : ev->flags & MRD_EV_UNSIGNED ? (double) (uint64_t) ev->ivalue
                                             : (double) ev->ivalue;

    summary->totals.samples++;
    summary->totals.cpu_samples += track->cpu;
    summary->totals.memory_samples += track->memory;
    if (track->counter == 0)
        return;
    counter = &summary->counters[track->counter - 1];
    counter->min = counter->count == 0 || v < counter->min ? v : counter->min;
    counter->max = counter->count == 0 || v > counter->max ? v : counter->max;
    counter->sum += v;
    counter->last = v;
    counter->count++;
}

static mrd_err
add_loss(mrd_summary *summary, const mrd_event *ev, mrd_ev_ns end)
{
    mrd_map_key key = { ev->track, ev->name, 0 };
    uint32_t at = mrd_map_get(&summary->loss_of, key);
    mrd_summary_loss *loss;

    summary->totals.losses++;
    summary->totals.lost =
        mrd_sat_count(summary->totals.lost, ev->ivalue < 0 ? 0 : (uint64_t) ev->ivalue);
    if (at == MRD_MAP_NONE) {
        at = (uint32_t) summary->n_losses;
        if (!MRD_VEC_ROOM(summary->losses, summary->n_losses, summary->cap_losses, 1) ||
            mrd_map_put(&summary->loss_of, key, at) != MRD_OK)
            return MRD_NOMEM;
        summary->losses[summary->n_losses++] = (mrd_summary_loss){
            .track = ev->track, .cause = ev->name, .first = ev->ts, .last = end
        };
    }
    loss = &summary->losses[at];
    loss->records++;
    loss->lost = mrd_sat_count(loss->lost, ev->ivalue < 0 ? 0 : (uint64_t) ev->ivalue);
    loss->last = mrd_ev_max(end, loss->last);
    loss->gaps_ns = mrd_sat_count(loss->gaps_ns, (uint64_t) end.ns - (uint64_t) ev->ts.ns);
    return MRD_OK;
}

mrd_err
mrd_summary_add(mrd_summary *summary, const mrd_event *ev)
{
    mrd_summary_totals *totals = &summary->totals;
    bool timed = (ev->flags & MRD_EV_MISTIMED) == 0;
    mrd_ev_ns end = ev->ts;
    const sum_track *track;

    if (ev->track >= summary->n_tracks || !summary->tracks[ev->track].mine)
        /* the track belongs to another profile, or was added after mrd_summary_new */
        return MRD_STATE;
    track = &summary->tracks[ev->track];
    if (ev->dur_ns > 0 && __builtin_add_overflow(ev->ts.ns, ev->dur_ns, &end.ns))
        end = (mrd_ev_ns){ INT64_MAX };
    totals->events += events_of(ev);
    totals->mistimed += !timed;
    if (timed) {
        totals->first = mrd_ev_min(ev->ts, totals->first);
        totals->last = mrd_ev_max(end, totals->last);
    }
    add_execution(summary, track->core, ev);
    add_row(summary, &summary->cores[track->core], ev, end, timed);
    if (track->process_too)
        add_row(summary, &summary->processes[track->process], ev, end, timed);
    if (track->node_too)
        add_row(summary, &summary->nodes[track->node], ev, end, timed);
    switch (ev->kind) {
    case MRD_COUNTER:
        add_sample(summary, ev);
        return MRD_OK;
    case MRD_FLOW:
        totals->flow_points++;
        return MRD_OK;
    case MRD_LOSS:
        return add_loss(summary, ev, end);
    case MRD_INSTANT:
        totals->instants++;
        break;
    default:
        totals->spans += events_of(ev);
        totals->unfinished += ev->dur_ns < 0;
        totals->no_start += (ev->flags & MRD_EV_NO_START) != 0;
        break;
    }
    totals->flow_points += ev->flow_count;
    return mrd_calls_add(summary->calls, ev);
}

/* ---- Results ---- */

static void
rows_finish(const mrd_summary *summary, mrd_summary_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mrd_summary_row *row = &rows[i];
        const mrd_summary_row *core = &summary->cores[row->cores];

        for (uint32_t k = row->cores; k < row->cores_end; k++) {
            row->executions += summary->cores[k].executions;
            row->pairs += summary->cores[k].pairs;
        }
        if (!has_one_core(row))
            continue;
        row->first = core->first;
        row->last = core->last;
        row->events = core->events;
        row->lost = core->lost;
        row->busy = core->busy;
        row->device = core->device;
        row->collective = core->collective;
        row->cc_running = core->cc_running;
    }
}

mrd_err
mrd_summary_finish(mrd_summary *summary)
{
    mrd_err err = mrd_calls_finish(summary->calls);

    rows_finish(summary, summary->processes, summary->n_processes);
    rows_finish(summary, summary->nodes, summary->n_nodes);
    summary->totals.twice = mrd_calls_twice(summary->calls);
    return err != MRD_OK ? err : mrd_types_finish(summary->types);
}

const mrd_summary_totals *
mrd_summary_totals_of(const mrd_summary *summary)
{
    return &summary->totals;
}

const mrd_summary_row *
mrd_summary_nodes(const mrd_summary *summary, size_t *ret_n)
{
    *ret_n = summary->n_nodes;
    return summary->nodes;
}

const mrd_summary_row *
mrd_summary_processes(const mrd_summary *summary, size_t *ret_n)
{
    *ret_n = summary->n_processes;
    return summary->processes;
}

uint32_t
mrd_summary_core_of(const mrd_summary *summary, mrd_track_id track)
{
    return track < summary->n_tracks && summary->tracks[track].mine ? summary->tracks[track].core
                                                                    : UINT32_MAX;
}

const mrd_summary_row *
mrd_summary_cores(const mrd_summary *summary, size_t *ret_n)
{
    *ret_n = summary->n_cores;
    return summary->cores;
}

const mrd_summary_counter *
mrd_summary_counters(const mrd_summary *summary, size_t *ret_n)
{
    *ret_n = summary->n_counters;
    return summary->counters;
}

const mrd_summary_loss *
mrd_summary_losses(const mrd_summary *summary, size_t *ret_n)
{
    *ret_n = summary->n_losses;
    return summary->losses;
}

static int
weight_order(const void *a, const void *b, void *self)
{
    const mrd_type *x = a, *y = b;

    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    if (x->name != y->name)
        return text_order(self, x->name, y->name);
    return mrd_i64_order(x->kind, y->kind);
}

mrd_err
mrd_summary_types(const mrd_summary *summary, const mrd_summary_row *row, mrd_type **ret_types,
                  size_t *ret_n)
{
    size_t from = row == NULL ? 0 : row->cores,
           to = row == NULL ? summary->n_cores : row->cores_end;
    mrd_err err = mrd_types_merged(summary->types, from, to, ret_types, ret_n);

    if (err == MRD_OK && *ret_n > 0)
        qsort_r(*ret_types, *ret_n, sizeof(**ret_types), weight_order,
                (void *) (uintptr_t) summary->cat);
    return err;
}

bool
mrd_summary_any_type(const mrd_summary *summary, const mrd_summary_row *row)
{
    return mrd_types_any(summary->types, row->cores, row->cores_end);
}

int64_t
mrd_summary_quantile(const mrd_type *type, double q)
{
    uint64_t v = mrd_hist_quantile(&type->hist, q);

    return v > INT64_MAX ? INT64_MAX : (int64_t) v;
}

uint64_t
mrd_summary_idle(const mrd_summary_row *row)
{
    uint64_t window;

    if (mrd_ev_after(row->first, row->last))
        return 0;
    window = (uint64_t) row->last.ns - (uint64_t) row->first.ns;
    return window > row->busy.ns ? window - row->busy.ns : 0;
}
