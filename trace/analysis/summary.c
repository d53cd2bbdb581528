#include "trace/analysis/summary.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/calls.h"
#include "trace/json/json_names.h"

/* One event name of one core. */
typedef struct {
    uint32_t core;
    mrd_summary_type type;
} sum_entry;

typedef struct {
    uint32_t core;    /* row */
    uint32_t counter; /* index + 1 */
    bool device, cpu, memory;
} sum_track;

struct mrd_summary {
    const mrd_catalog *cat;
    uint32_t profile;
    bool zero_is_no_time;
    mrd_sid cc_running, cc_exec_barrier, cc_op;
    mrd_calls *calls;
    mrd_summary_totals totals;
    mrd_summary_row *nodes, *processes, *cores;
    size_t n_nodes, n_processes, n_cores;
    sum_track *tracks;
    size_t n_tracks;
    sum_entry *entries;
    size_t n_entries, cap_entries;
    mrd_map by_type; /* core, name, kind: entry */
    mrd_summary_counter *counters;
    size_t n_counters;
    mrd_summary_loss *losses;
    size_t n_losses, cap_losses;
};

static mrd_err add_type(void *self, const mrd_event *ev);

/* ---- Rows ---- */

static int
i64_order(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int64_t
or_last(int64_t v)
{
    return v == MRD_NONE ? INT64_MAX : v;
}

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
        order = i64_order(or_last(t->lnc_idx), or_last(u->lnc_idx));
    return order != 0 ? order : i64_order(*x, *y);
}

static void
row_init(mrd_summary_row *row, uint32_t parent)
{
    *row = (mrd_summary_row){ .first_ns = INT64_MAX, .last_ns = INT64_MIN, .parent = parent };
}

/* Gives the track its rows; tracks come in the order of the rows. */
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
        s->nodes[s->n_nodes++].instance = p->instance_id;
    }
    if (new_process) {
        row_init(&s->processes[s->n_processes], (uint32_t) s->n_nodes - 1);
        s->processes[s->n_processes++].process = t->process;
    }
    if (new_process || s->cores[s->n_cores - 1].lnc_idx != t->lnc_idx) {
        row_init(&s->cores[s->n_cores], (uint32_t) s->n_processes - 1);
        s->cores[s->n_cores++].lnc_idx = t->lnc_idx;
    }
    s->tracks[id].core = (uint32_t) s->n_cores - 1;
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
    s->zero_is_no_time = env->profile == 0 && env->options->wall_time;
    s->totals.first_ns = INT64_MAX;
    s->totals.last_ns = INT64_MIN;
    strings = mrd_catalog_strings(s->cat);
    s->cc_running = mrd_strtab_find(strings, MRD_STR("cc_running"));
    s->cc_exec_barrier = mrd_strtab_find(strings, MRD_STR("cc_exec_barrier"));
    s->cc_op = mrd_strtab_find(strings, MRD_STR("cc_op"));
    s->calls = mrd_calls_new(s->cat, s->profile, add_type, s);
    if (s->calls == NULL || !rows_make(s)) {
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
    for (size_t i = 0; i < s->n_entries; i++)
        mrd_hist_fini(&s->entries[i].type.hist);
    mrd_calls_free(s->calls);
    free(s->entries);
    mrd_map_fini(&s->by_type);
    free(s->nodes);
    free(s->processes);
    free(s->cores);
    free(s->counters);
    free(s->losses);
    free(s->tracks);
    free(s);
}

/* ---- Adding ---- */

static uint64_t
add_sat(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Starts never decrease, so one open interval is enough. */
static void
union_add(mrd_union *u, int64_t start, int64_t end)
{
    if (!u->any || start > u->end_ns) {
        u->ns = add_sat(u->ns, (uint64_t) end - (uint64_t) start);
        u->end_ns = end;
        u->any = true;
    } else if (end > u->end_ns) {
        u->ns = add_sat(u->ns, (uint64_t) end - (uint64_t) u->end_ns);
        u->end_ns = end;
    }
}

static mrd_summary_type *
entry_for(mrd_summary *s, uint32_t core, mrd_sid name, uint8_t kind)
{
    mrd_map_key key = { core, name, kind };
    uint32_t at = mrd_map_get(&s->by_type, key);
    sum_entry *e;

    if (at != MRD_MAP_NONE)
        return &s->entries[at].type;
    if (s->n_entries >= MRD_SUMMARY_TYPES + s->n_cores * MRD_SUMMARY_TYPES_CORE &&
        name != MRD_SID_FULL)
        return entry_for(s, core, MRD_SID_FULL, kind);
    if (!MRD_VEC_ROOM(s->entries, s->n_entries, s->cap_entries, 1) ||
        mrd_map_put(&s->by_type, key, (uint32_t) s->n_entries) != MRD_OK)
        return NULL;
    e = &s->entries[s->n_entries++];
    *e = (sum_entry){ .core = core, .type = { .name = name, .kind = kind } };
    e->type.min_ns = INT64_MAX;
    e->type.max_ns = INT64_MIN;
    return &e->type;
}

static mrd_err
add_type(void *self, const mrd_event *ev)
{
    mrd_summary *s = self;
    mrd_summary_type *type = entry_for(s, s->tracks[ev->track].core, ev->name, ev->kind);

    if (type == NULL)
        return MRD_NOMEM;
    type->count++;
    if (ev->kind != MRD_SPAN)
        return MRD_OK;
    if (ev->flags & MRD_EV_NO_START)
        type->no_start++;
    else if (ev->dur_ns < 0)
        type->unfinished++;
    else {
        type->total_ns = add_sat(type->total_ns, (uint64_t) ev->dur_ns);
        type->min_ns = ev->dur_ns < type->min_ns ? ev->dur_ns : type->min_ns;
        type->max_ns = ev->dur_ns > type->max_ns ? ev->dur_ns : type->max_ns;
        return mrd_hist_add(&type->hist, (uint64_t) ev->dur_ns);
    }
    return MRD_OK;
}

static bool
is_collective(const mrd_summary *s, const mrd_event *ev)
{
    return (ev->name == s->cc_running && ev->name != 0) ||
           (ev->name == s->cc_exec_barrier && ev->name != 0) ||
           (ev->category == s->cc_op && ev->category != 0);
}

static void
add_interval(const mrd_summary *s, mrd_summary_row *row, const mrd_event *ev, int64_t end)
{
    row->first_ns = ev->ts_ns < row->first_ns ? ev->ts_ns : row->first_ns;
    row->last_ns = end > row->last_ns ? end : row->last_ns;
    if (ev->kind != MRD_SPAN || ev->dur_ns < 0)
        return;
    union_add(&row->busy, ev->ts_ns, end);
    if (s->tracks[ev->track].device)
        union_add(&row->device, ev->ts_ns, end);
    if (is_collective(s, ev))
        union_add(&row->collective, ev->ts_ns, end);
}

static void
add_row(const mrd_summary *s, mrd_summary_row *row, const mrd_event *ev, int64_t end, bool timed)
{
    row->events++;
    if (ev->kind == MRD_LOSS && ev->ivalue > 0)
        row->lost = add_sat(row->lost, (uint64_t) ev->ivalue);
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
add_loss(mrd_summary *s, const mrd_event *ev, int64_t end)
{
    mrd_summary_loss *l = NULL;

    s->totals.losses++;
    s->totals.lost = add_sat(s->totals.lost, ev->ivalue < 0 ? 0 : (uint64_t) ev->ivalue);
    for (size_t i = 0; i < s->n_losses && l == NULL; i++) {
        if (s->losses[i].track == ev->track && s->losses[i].cause == ev->name)
            l = &s->losses[i];
    }
    if (l == NULL) {
        if (!MRD_VEC_ROOM(s->losses, s->n_losses, s->cap_losses, 1))
            return MRD_NOMEM;
        l = &s->losses[s->n_losses++];
        *l = (mrd_summary_loss){
            .track = ev->track, .cause = ev->name, .first_ns = ev->ts_ns, .last_ns = end
        };
    }
    l->records++;
    l->lost = add_sat(l->lost, ev->ivalue < 0 ? 0 : (uint64_t) ev->ivalue);
    l->last_ns = end > l->last_ns ? end : l->last_ns;
    return MRD_OK;
}

mrd_err
mrd_summary_add(mrd_summary *s, const mrd_event *ev)
{
    mrd_summary_totals *t = &s->totals;
    bool timed = !(ev->ts_ns == 0 && s->zero_is_no_time);
    int64_t end = ev->ts_ns;
    mrd_summary_row *process;
    uint32_t core;

    if (ev->track >= s->n_tracks || mrd_catalog_profile_of(s->cat, ev->track) != s->profile)
        return MRD_STATE; /* no track of this profile when the summary began */
    core = s->tracks[ev->track].core;
    process = &s->processes[s->cores[core].parent];
    if (ev->dur_ns > 0 && __builtin_add_overflow(ev->ts_ns, ev->dur_ns, &end))
        end = INT64_MAX;
    t->events++;
    t->zero_stamps += !timed;
    if (timed) {
        t->first_ns = ev->ts_ns < t->first_ns ? ev->ts_ns : t->first_ns;
        t->last_ns = end > t->last_ns ? end : t->last_ns;
    }
    add_row(s, &s->cores[core], ev, end, timed);
    add_row(s, process, ev, end, timed);
    add_row(s, &s->nodes[process->parent], ev, end, timed);
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
        t->spans++;
        t->unfinished += ev->dur_ns < 0;
        t->no_start += (ev->flags & MRD_EV_NO_START) != 0;
        break;
    }
    t->flow_points += ev->flow_count;
    return mrd_calls_add(s->calls, ev);
}

/* ---- Afterwards ---- */

static int
entry_order(const void *a, const void *b)
{
    const sum_entry *x = a, *y = b;

    return i64_order(x->core, y->core);
}

mrd_err
mrd_summary_finish(mrd_summary *s)
{
    mrd_err err = mrd_calls_finish(s->calls);

    s->totals.twice = mrd_calls_twice(s->calls);
    if (err != MRD_OK)
        return err;
    if (s->n_entries > 0)
        qsort(s->entries, s->n_entries, sizeof(*s->entries), entry_order);
    for (uint32_t i = 0; i < s->n_entries; i++) {
        mrd_summary_row *core = &s->cores[s->entries[i].core];
        mrd_summary_row *process = &s->processes[core->parent];
        mrd_summary_row *rows[3] = { core, process, &s->nodes[process->parent] };

        for (size_t k = 0; k < 3; k++) {
            if (rows[k]->types_end == 0)
                rows[k]->types = i;
            rows[k]->types_end = i + 1;
        }
    }
    return MRD_OK;
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
    if (track >= s->n_tracks || mrd_catalog_profile_of(s->cat, track) != s->profile)
        return UINT32_MAX;
    return s->tracks[track].core;
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
name_order(const void *a, const void *b)
{
    const mrd_summary_type *const *x = a, *const *y = b;
    int order = i64_order((*x)->name, (*y)->name);

    return order != 0 ? order : i64_order((*x)->kind, (*y)->kind);
}

static int
weight_order(const void *a, const void *b, void *self)
{
    const mrd_summary_type *x = a, *y = b;

    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    if (x->name != y->name)
        return text_order(self, x->name, y->name);
    return i64_order(x->kind, y->kind);
}

static mrd_err
type_merge(mrd_summary_type *to, const mrd_summary_type *from)
{
    to->count += from->count;
    to->unfinished += from->unfinished;
    to->no_start += from->no_start;
    to->total_ns = add_sat(to->total_ns, from->total_ns);
    to->min_ns = from->min_ns < to->min_ns ? from->min_ns : to->min_ns;
    to->max_ns = from->max_ns > to->max_ns ? from->max_ns : to->max_ns;
    return mrd_hist_merge(&to->hist, &from->hist);
}

mrd_err
mrd_summary_types(const mrd_summary *s, const mrd_summary_row *row, mrd_summary_type **ret_types,
                  size_t *ret_n)
{
    size_t from = row == NULL ? 0 : row->types, to = row == NULL ? s->n_entries : row->types_end;
    size_t n = to > from ? to - from : 0, kept = 0;
    const mrd_summary_type **order = malloc((n + 1) * sizeof(*order));
    mrd_summary_type *types = calloc(n + 1, sizeof(*types));
    mrd_err err = order == NULL || types == NULL ? MRD_NOMEM : MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++)
        order[i] = &s->entries[from + i].type;
    if (err == MRD_OK && n > 0)
        qsort(order, n, sizeof(*order), name_order);
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        if (kept == 0 || types[kept - 1].name != order[i]->name ||
            types[kept - 1].kind != order[i]->kind) {
            types[kept++] = (mrd_summary_type){ .name = order[i]->name,
                                                .kind = order[i]->kind,
                                                .min_ns = INT64_MAX,
                                                .max_ns = INT64_MIN };
        }
        err = type_merge(&types[kept - 1], order[i]);
    }
    free(order);
    if (err != MRD_OK) {
        mrd_summary_types_free(types, kept);
        return err;
    }
    if (kept > 0)
        qsort_r(types, kept, sizeof(*types), weight_order, (void *) (uintptr_t) s->cat);
    *ret_types = types;
    *ret_n = kept;
    return MRD_OK;
}

void
mrd_summary_types_free(mrd_summary_type *types, size_t n)
{
    for (size_t i = 0; i < n && types != NULL; i++)
        mrd_hist_fini(&types[i].hist);
    free(types);
}

int64_t
mrd_summary_quantile(const mrd_summary_type *type, double q)
{
    uint64_t v = mrd_hist_quantile(&type->hist, q);
    int64_t at = v > INT64_MAX ? INT64_MAX : (int64_t) v;

    if (type->hist.count == 0)
        return 0;
    return at < type->min_ns ? type->min_ns : at > type->max_ns ? type->max_ns : at;
}

uint64_t
mrd_summary_idle(const mrd_summary_row *row)
{
    uint64_t window;

    if (row->first_ns > row->last_ns)
        return 0;
    window = (uint64_t) row->last_ns - (uint64_t) row->first_ns;
    return window > row->busy.ns ? window - row->busy.ns : 0;
}
