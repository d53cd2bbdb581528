#include "trace/analysis/summary.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/calls.h"
#include "trace/json/json_names.h"

typedef struct {
    uint32_t core, process, node; /* rows */
    uint32_t counter;             /* index + 1 */
    bool mine;                    /* it belongs to the summary's profile */
    bool process_too, node_too;   /* its process, its node has several cores */
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
    mrd_types *types; /* of cores */
    mrd_summary_counter *counters;
    size_t n_counters;
    mrd_summary_loss *losses;
    size_t n_losses, cap_losses;
    mrd_map loss_of; /* track, cause -> loss */
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
core_new(mrd_summary *s, int64_t lnc_idx)
{
    mrd_summary_row *core = &s->cores[s->n_cores], *process = &s->processes[s->n_processes - 1],
                    *node = &s->nodes[s->n_nodes - 1];

    row_init(core, (uint32_t) s->n_processes - 1);
    core->lnc_idx = lnc_idx;
    core->cores = (uint32_t) s->n_cores++;
    core->cores_end = process->cores_end = node->cores_end = (uint32_t) s->n_cores;
}

/* Assigns rows to the track. Tracks come in the order of rows. */
static void
rows_add(mrd_summary *s, mrd_track_id id)
{
    const mrd_track *t = mrd_catalog_borrow_track(s->cat, id);
    const mrd_process *p = mrd_catalog_borrow_process(s->cat, t->process);
    bool new_node = s->n_nodes == 0 || s->nodes[s->n_nodes - 1].instance != p->instance_id;
    bool new_process =
        new_node || s->n_processes == 0 || s->processes[s->n_processes - 1].process != t->process;

    if (new_node) {
        row_init(&s->nodes[s->n_nodes], 0);
        s->nodes[s->n_nodes].cores = (uint32_t) s->n_cores;
        s->nodes[s->n_nodes++].instance = p->instance_id;
    }
    if (new_process) {
        row_init(&s->processes[s->n_processes], (uint32_t) s->n_nodes - 1);
        s->processes[s->n_processes].cores = (uint32_t) s->n_cores;
        s->processes[s->n_processes++].process = t->process;
    }
    if (new_process || s->cores[s->n_cores - 1].lnc_idx != t->lnc_idx)
        core_new(s, t->lnc_idx);
    s->tracks[id].core = (uint32_t) s->n_cores - 1;
    s->tracks[id].process = (uint32_t) s->n_processes - 1;
    s->tracks[id].node = (uint32_t) s->n_nodes - 1;
    s->tracks[id].mine = true;
}

/* Returns true if a row has only one core. rows_finish copies the values of that core. */
static bool
has_one_core(const mrd_summary_row *row)
{
    return row->cores_end - row->cores == 1;
}

static void
track_kind(mrd_summary *s, mrd_track_id id)
{
    const mrd_track *t = mrd_catalog_borrow_track(s->cat, id);
    mrd_str name = mrd_catalog_text(s->cat, t->name), cpu;

    s->tracks[id].device = t->source == MRD_SRC_DEVICE || t->source == MRD_SRC_DEVPROF;
    if (t->kind != MRD_TRACK_COUNTER)
        return;
    s->counters[s->n_counters].track = id;
    s->tracks[id].counter = (uint32_t) ++s->n_counters;
    if (t->source == MRD_SRC_HOST) {
        s->tracks[id].cpu = mrd_json_cpu_id(name, &cpu);
        s->tracks[id].memory =
            mrd_str_is(name, MRD_NAME_MEM_USED) || mrd_str_is(name, MRD_NAME_MEM_MONITOR);
    }
}

static bool
rows_make(mrd_summary *s)
{
    size_t n = mrd_catalog_tracks(s->cat), kept = 0;
    mrd_track_id *order = malloc((n + 1) * sizeof(*order));

    s->n_tracks = n;
    s->tracks = calloc(n + 1, sizeof(*s->tracks));
    s->nodes = calloc(n + 1, sizeof(*s->nodes));
    s->processes = calloc(n + 1, sizeof(*s->processes));
    s->cores = calloc(n + 1, sizeof(*s->cores));
    s->counters = calloc(n + 1, sizeof(*s->counters));
    if (order == NULL || s->tracks == NULL || s->nodes == NULL || s->processes == NULL ||
        s->cores == NULL || s->counters == NULL) {
        free(order);
        return false;
    }
    for (mrd_track_id i = 0; i < n; i++) {
        if (mrd_catalog_profile_of(s->cat, i) == s->profile)
            order[kept++] = i;
    }
    qsort_r(order, kept, sizeof(*order), track_order, (void *) (uintptr_t) s->cat);
    for (size_t i = 0; i < kept; i++) {
        rows_add(s, order[i]);
        track_kind(s, order[i]);
    }
    for (size_t i = 0; i < kept; i++) {
        sum_track *t = &s->tracks[order[i]];

        t->process_too = !has_one_core(&s->processes[t->process]);
        t->node_too = !has_one_core(&s->nodes[t->node]);
    }
    free(order);
    return true;
}

mrd_summary *
mrd_summary_new(const mrd_sink_env *env)
{
    mrd_summary *s = calloc(1, sizeof(*s));
    const mrd_strtab *strings;

    if (s == NULL)
        return NULL;
    s->cat = env->catalog;
    s->profile = env->profile;
    s->totals.first = (mrd_ev_ns){ INT64_MAX };
    s->totals.last = (mrd_ev_ns){ INT64_MIN };
    strings = mrd_catalog_strings(s->cat);
    s->cc_running = mrd_strtab_find(strings, MRD_STR("cc_running"));
    s->nc_exec_running = mrd_strtab_find(strings, MRD_STR("nc_exec_running"));
    s->cc_exec_barrier = mrd_strtab_find(strings, MRD_STR("cc_exec_barrier"));
    s->cc_op = mrd_strtab_find(strings, MRD_STR("cc_op"));
    s->calls = mrd_calls_new(s->cat, s->profile, add_type, s);
    if (s->calls == NULL || !rows_make(s) || (s->types = mrd_types_new(s->n_cores)) == NULL) {
        mrd_summary_free(s);
        return NULL;
    }
    return s;
}

void
mrd_summary_free(mrd_summary *s)
{
    if (s == NULL)
        return;
    mrd_calls_free(s->calls);
    mrd_types_free(s->types);
    free(s->nodes);
    free(s->processes);
    free(s->cores);
    free(s->counters);
    free(s->losses);
    mrd_map_fini(&s->loss_of);
    free(s->tracks);
    free(s);
}

/* ---- Adding ---- */

/* Begins never decrease, so one open interval is enough. */
static void
union_add(mrd_union *u, mrd_ev_ns start, mrd_ev_ns end)
{
    if (!u->any || mrd_ev_after(start, u->end)) {
        u->ns = mrd_sat_count(u->ns, (uint64_t) end.ns - (uint64_t) start.ns);
        u->end = end;
        u->any = true;
    } else if (mrd_ev_after(end, u->end)) {
        u->ns = mrd_sat_count(u->ns, (uint64_t) end.ns - (uint64_t) u->end.ns);
        u->end = end;
    }
}

static mrd_err
add_type(void *self, const mrd_event *ev)
{
    mrd_summary *s = self;

    return mrd_types_add(s->types, s->tracks[ev->track].core, ev);
}

static bool
is_collective(const mrd_summary *s, const mrd_event *ev)
{
    return (ev->name == s->cc_running && ev->name != 0) ||
           (ev->name == s->cc_exec_barrier && ev->name != 0) ||
           (ev->category == s->cc_op && ev->category != 0);
}

static void
add_interval(const mrd_summary *s, mrd_summary_row *row, const mrd_event *ev, mrd_ev_ns end)
{
    row->first = mrd_ev_min(ev->ts, row->first);
    row->last = mrd_ev_max(end, row->last);
    if (ev->kind != MRD_SPAN || ev->dur_ns < 0)
        return;
    union_add(&row->busy, ev->ts, end);
    if (s->tracks[ev->track].device)
        union_add(&row->device, ev->ts, end);
    if (is_collective(s, ev))
        union_add(&row->collective, ev->ts, end);
}

/* Returns how many recorded events this event represents. */
static unsigned
events_of(const mrd_event *ev)
{
    return (ev->flags & MRD_EV_PAIR) != 0 ? 2 : 1;
}

static void
add_execution(mrd_summary *s, uint32_t core, const mrd_event *ev)
{
    bool pair = events_of(ev) == 2;

    if (ev->kind != MRD_SPAN || ev->name != s->nc_exec_running || ev->name == 0)
        return;
    s->cores[core].executions++;
    s->cores[core].pairs += pair;
    s->totals.pairs += pair;
}

static void
add_row(const mrd_summary *s, mrd_summary_row *row, const mrd_event *ev, mrd_ev_ns end, bool timed)
{
    row->events += events_of(ev);
    if (ev->kind == MRD_LOSS && ev->ivalue > 0)
        row->lost = mrd_sat_count(row->lost, (uint64_t) ev->ivalue);
    if (ev->kind == MRD_SPAN && ev->name == s->cc_running && ev->name != 0)
        row->cc_running++;
    if (timed)
        add_interval(s, row, ev, end);
}

static void
add_sample(mrd_summary *s, const mrd_event *ev)
{
    const sum_track *t = &s->tracks[ev->track];
    mrd_summary_counter *c;
    double v = !(ev->flags & MRD_EV_INT)     ? ev->value
               : ev->flags & MRD_EV_UNSIGNED ? (double) (uint64_t) ev->ivalue
                                             : (double) ev->ivalue;

    s->totals.samples++;
    s->totals.cpu_samples += t->cpu;
    s->totals.memory_samples += t->memory;
    if (t->counter == 0)
        return;
    c = &s->counters[t->counter - 1];
    c->min = c->count == 0 || v < c->min ? v : c->min;
    c->max = c->count == 0 || v > c->max ? v : c->max;
    c->sum += v;
    c->last = v;
    c->count++;
}

static mrd_err
add_loss(mrd_summary *s, const mrd_event *ev, mrd_ev_ns end)
{
    mrd_map_key key = { ev->track, ev->name, 0 };
    uint32_t at = mrd_map_get(&s->loss_of, key);
    mrd_summary_loss *l;

    s->totals.losses++;
    s->totals.lost = mrd_sat_count(s->totals.lost, ev->ivalue < 0 ? 0 : (uint64_t) ev->ivalue);
    if (at == MRD_MAP_NONE) {
        at = (uint32_t) s->n_losses;
        if (!MRD_VEC_ROOM(s->losses, s->n_losses, s->cap_losses, 1) ||
            mrd_map_put(&s->loss_of, key, at) != MRD_OK)
            return MRD_NOMEM;
        s->losses[s->n_losses++] = (mrd_summary_loss){
            .track = ev->track, .cause = ev->name, .first = ev->ts, .last = end
        };
    }
    l = &s->losses[at];
    l->records++;
    l->lost = mrd_sat_count(l->lost, ev->ivalue < 0 ? 0 : (uint64_t) ev->ivalue);
    l->last = mrd_ev_max(end, l->last);
    l->gaps_ns = mrd_sat_count(l->gaps_ns, (uint64_t) end.ns - (uint64_t) ev->ts.ns);
    return MRD_OK;
}

mrd_err
mrd_summary_add(mrd_summary *s, const mrd_event *ev)
{
    mrd_summary_totals *t = &s->totals;
    bool timed = (ev->flags & MRD_EV_MISTIMED) == 0;
    mrd_ev_ns end = ev->ts;
    const sum_track *track;

    if (ev->track >= s->n_tracks || !s->tracks[ev->track].mine)
        return MRD_STATE; /* the track is not of this profile, or was added later */
    track = &s->tracks[ev->track];
    if (ev->dur_ns > 0 && __builtin_add_overflow(ev->ts.ns, ev->dur_ns, &end.ns))
        end = (mrd_ev_ns){ INT64_MAX };
    t->events += events_of(ev);
    t->mistimed += !timed;
    if (timed) {
        t->first = mrd_ev_min(ev->ts, t->first);
        t->last = mrd_ev_max(end, t->last);
    }
    add_execution(s, track->core, ev);
    add_row(s, &s->cores[track->core], ev, end, timed);
    if (track->process_too)
        add_row(s, &s->processes[track->process], ev, end, timed);
    if (track->node_too)
        add_row(s, &s->nodes[track->node], ev, end, timed);
    switch (ev->kind) {
    case MRD_COUNTER:
        add_sample(s, ev);
        return MRD_OK;
    case MRD_FLOW:
        t->flow_points++;
        return MRD_OK;
    case MRD_LOSS:
        return add_loss(s, ev, end);
    case MRD_INSTANT:
        t->instants++;
        break;
    default:
        t->spans += events_of(ev);
        t->unfinished += ev->dur_ns < 0;
        t->no_start += (ev->flags & MRD_EV_NO_START) != 0;
        break;
    }
    t->flow_points += ev->flow_count;
    return mrd_calls_add(s->calls, ev);
}

/* ---- Results ---- */

static void
rows_finish(const mrd_summary *s, mrd_summary_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mrd_summary_row *row = &rows[i];
        const mrd_summary_row *core = &s->cores[row->cores];

        for (uint32_t k = row->cores; k < row->cores_end; k++) {
            row->executions += s->cores[k].executions;
            row->pairs += s->cores[k].pairs;
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
mrd_summary_finish(mrd_summary *s)
{
    mrd_err err = mrd_calls_finish(s->calls);

    rows_finish(s, s->processes, s->n_processes);
    rows_finish(s, s->nodes, s->n_nodes);
    s->totals.twice = mrd_calls_twice(s->calls);
    return err != MRD_OK ? err : mrd_types_finish(s->types);
}

const mrd_summary_totals *
mrd_summary_totals_of(const mrd_summary *s)
{
    return &s->totals;
}

const mrd_summary_row *
mrd_summary_nodes(const mrd_summary *s, size_t *ret_n)
{
    *ret_n = s->n_nodes;
    return s->nodes;
}

const mrd_summary_row *
mrd_summary_processes(const mrd_summary *s, size_t *ret_n)
{
    *ret_n = s->n_processes;
    return s->processes;
}

uint32_t
mrd_summary_core_of(const mrd_summary *s, mrd_track_id track)
{
    return track < s->n_tracks && s->tracks[track].mine ? s->tracks[track].core : UINT32_MAX;
}

const mrd_summary_row *
mrd_summary_cores(const mrd_summary *s, size_t *ret_n)
{
    *ret_n = s->n_cores;
    return s->cores;
}

const mrd_summary_counter *
mrd_summary_counters(const mrd_summary *s, size_t *ret_n)
{
    *ret_n = s->n_counters;
    return s->counters;
}

const mrd_summary_loss *
mrd_summary_losses(const mrd_summary *s, size_t *ret_n)
{
    *ret_n = s->n_losses;
    return s->losses;
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
mrd_summary_types(const mrd_summary *s, const mrd_summary_row *row, mrd_type **ret_types,
                  size_t *ret_n)
{
    size_t from = row == NULL ? 0 : row->cores, to = row == NULL ? s->n_cores : row->cores_end;
    mrd_err err = mrd_types_merged(s->types, from, to, ret_types, ret_n);

    if (err == MRD_OK && *ret_n > 0)
        qsort_r(*ret_types, *ret_n, sizeof(**ret_types), weight_order, (void *) (uintptr_t) s->cat);
    return err;
}

bool
mrd_summary_any_type(const mrd_summary *s, const mrd_summary_row *row)
{
    return mrd_types_any(s->types, row->cores, row->cores_end);
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
