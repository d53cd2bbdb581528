#include "trace/analysis/report.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/gather.h"
#include "trace/model/activity.h"

enum { NO_WORKER = UINT32_MAX };

/* What can be going on for a worker at one instant; any number of them together. */
enum { ON_COMPUTE, ON_COLLECTIVE, ON_BARRIER, ON_COPY, ON_HOST, ON_GAP, ONS };

/* What a name is, found once per name. */
typedef enum { NAME_UNSEEN, NAME_OTHER, NAME_COPY, NAME_STEP, NAME_COLLECTIVE } name_class;

/* What a category is, found once per category. */
typedef enum {
    CATEGORY_UNSEEN,
    CATEGORY_DEVICE,
    CATEGORY_COPY,
    CATEGORY_HOST,
    CATEGORY_BESIDE
} category_class;

typedef struct {
    mrd_report_worker pub;
    int64_t now;        /* accounted up to here */
    int64_t until[ONS]; /* ends of the unions */
    int64_t device_end; /* of all device spans so far */
    mrd_sid device_last;
    bool mapped;      /* its times came through a device's clock that the runtime mapped */
    uint64_t span_ns; /* its longest device span so far */
    uint64_t pending[MRD_REPORT_PARTS]; /* since device_end: inside the window if a span follows */
    bool any;
} worker_state;

typedef struct {
    uint32_t worker;
    bool device;  /* its spans are the device's own */
    bool foreign; /* of a framework's trace: categories tell the host's spans from the device's */
} track_state;

/* Proofs that hold if so many parts are all that the group has: only the end tells. */
typedef struct {
    uint32_t group, worker, collective; /* the last to begin; index of the row */
    size_t parts;
    uint64_t count, wait_ns;               /* within one node, by no node's bound */
    uint64_t across_count, across_wait_ns; /* over nodes */
    uint64_t matched;                      /* collectives of this shape, proven or not */
} claim;

struct mrd_report {
    const mrd_catalog *cat;
    uint32_t profile;
    bool zero_is_no_time;
    track_state *tracks;
    size_t n_tracks;
    worker_state *all;
    size_t n_all;
    mrd_report_worker *workers; /* made by finish */
    size_t n_workers;
    uint8_t *classes, *categories; /* by name */
    size_t n_names;
    mrd_collectives *see;
    mrd_gather *gather;
    mrd_map by_name;  /* name, size -> collective */
    mrd_map by_claim; /* group and parts, worker, row -> claim */
    claim *claims;
    size_t n_claims, cap_claims;
    bool *distrusted; /* by process: its clock proves nothing */
    mrd_report_collective *collectives;
    size_t n_collectives, cap_collectives;
    mrd_report_pace *paces; /* by process; empty ones are dropped by finish */
    size_t n_paces;
    mrd_report_pause pauses[MRD_REPORT_PAUSES];
    size_t n_pauses;
    mrd_report_step steps[MRD_REPORT_STEPS];
    size_t n_steps;
    mrd_report_totals totals;
    bool any;
    mrd_err err; /* of what a gathered collective could not remember */
};

const char *
mrd_report_part_text(mrd_report_part part)
{
    static const char *const text[] = {
        [MRD_REPORT_COMPUTE] = "compute", [MRD_REPORT_BOTH] = "both",
        [MRD_REPORT_EXPOSED] = "exposed", [MRD_REPORT_COPY] = "copy",
        [MRD_REPORT_WAITING] = "waiting", [MRD_REPORT_HOST] = "host",
        [MRD_REPORT_IDLE] = "idle",       [MRD_REPORT_UNRECORDED] = "not_recorded",
    };

    return (unsigned) part < MRD_REPORT_PARTS ? text[part] : "?";
}

uint64_t
mrd_report_window(const mrd_report_worker *w)
{
    return w->first_ns > w->last_ns ? 0 : (uint64_t) w->last_ns - (uint64_t) w->first_ns;
}

/* ---- Workers ---- */

static int
i64_order(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

typedef struct {
    mrd_track_id track;
    mrd_report_worker worker;
} track_of;

/* By rank where there are ranks: the order that the job's people think in. */
static int
process_order(const mrd_catalog *cat, mrd_proc_id a, mrd_proc_id b)
{
    int order = i64_order(mrd_catalog_borrow_process(cat, a)->rank & INT64_MAX,
                          mrd_catalog_borrow_process(cat, b)->rank & INT64_MAX);

    return order != 0 ? order : mrd_catalog_process_order(cat, a, b);
}

static int
worker_order(const mrd_catalog *cat, const mrd_report_worker *a, const mrd_report_worker *b)
{
    int order = a->process == b->process ? 0 : process_order(cat, a->process, b->process);

    if (order == 0)
        order = i64_order(a->lnc_idx, b->lnc_idx);
    return order != 0 ? order : i64_order(a->device_idx, b->device_idx);
}

static int
track_order(const void *a, const void *b, void *self)
{
    const track_of *x = a, *y = b;
    int order = worker_order(self, &x->worker, &y->worker);

    return order != 0 ? order : i64_order(x->track, y->track);
}

/* The worker that a line of spans belongs to; false for none. */
static bool
worker_of(const mrd_report *r, mrd_track_id id, track_of *ret)
{
    const mrd_track *t = mrd_catalog_borrow_track(r->cat, id);
    bool by_core = t->lnc_idx != MRD_NONE;
    bool by_device = t->source == MRD_SRC_FRAMEWORK && t->device_idx != MRD_NONE;

    if (mrd_catalog_profile_of(r->cat, id) != r->profile || t->kind != MRD_TRACK_SPANS ||
        (!by_core && !by_device))
        return false;
    *ret = (track_of){
        .track = id,
        .worker = { .process = t->process,
                    .lnc_idx = t->lnc_idx,
                    .device_idx = by_core ? MRD_NONE : t->device_idx,
                    .worker_gid = t->worker_gid,
                    .first_ns = INT64_MAX,
                    .last_ns = INT64_MIN },
    };
    return true;
}

static bool
workers_make(mrd_report *r)
{
    size_t n = mrd_catalog_tracks(r->cat), kept = 0;
    track_of *order = malloc((n + 1) * sizeof(*order));

    r->n_tracks = n;
    r->tracks = calloc(n + 1, sizeof(*r->tracks));
    r->all = calloc(n + 1, sizeof(*r->all));
    if (order == NULL || r->tracks == NULL || r->all == NULL) {
        free(order);
        return false;
    }
    for (mrd_track_id i = 0; i < n; i++) {
        r->tracks[i].worker = NO_WORKER;
        kept += worker_of(r, i, &order[kept]);
    }
    qsort_r(order, kept, sizeof(*order), track_order, (void *) (uintptr_t) r->cat);
    for (size_t i = 0; i < kept; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(r->cat, order[i].track);
        worker_state *last = r->n_all == 0 ? NULL : &r->all[r->n_all - 1];

        if (last == NULL || worker_order(r->cat, &last->pub, &order[i].worker) != 0) {
            last = &r->all[r->n_all++];
            last->pub = order[i].worker;
            last->pub.unmeasured = 1u << MRD_REPORT_WAITING | 1u << MRD_REPORT_HOST;
            for (size_t k = 0; k < ONS; k++)
                last->until[k] = INT64_MIN;
        }
        last->mapped = last->mapped || t->source == MRD_SRC_DEVICE;
        if (t->source == MRD_SRC_DEVICE)
            last->pub.unmeasured &= ~(1u << MRD_REPORT_WAITING);
        else if (t->source != MRD_SRC_FRAMEWORK)
            last->pub.unmeasured &= ~(1u << MRD_REPORT_HOST);
        if (last->pub.worker_gid == MRD_NONE)
            last->pub.worker_gid = t->worker_gid;
        r->tracks[order[i].track] =
            (track_state){ .worker = (uint32_t) r->n_all - 1,
                           .device = t->source == MRD_SRC_DEVICE || t->source == MRD_SRC_FRAMEWORK,
                           .foreign = t->source == MRD_SRC_FRAMEWORK };
    }
    free(order);
    return true;
}

/* ---- Time of a worker ---- */

static mrd_report_part
part_of(unsigned on)
{
    if (on & 1u << ON_BARRIER)
        return MRD_REPORT_WAITING;
    if (on & 1u << ON_COMPUTE)
        return on & 1u << ON_COLLECTIVE ? MRD_REPORT_BOTH : MRD_REPORT_COMPUTE;
    if (on & 1u << ON_GAP)
        return MRD_REPORT_UNRECORDED; /* whatever else there was */
    if (on & 1u << ON_COLLECTIVE)
        return MRD_REPORT_EXPOSED;
    if (on & 1u << ON_COPY)
        return MRD_REPORT_COPY;
    return on & 1u << ON_HOST ? MRD_REPORT_HOST : MRD_REPORT_IDLE;
}

/* Accounts for [now, to). No span begins inside it, so only ends change what goes on. */
static void
advance(worker_state *w, int64_t to)
{
    while (w->now < to) {
        bool inside = w->now < w->device_end;
        int64_t next = inside && w->device_end < to ? w->device_end : to;
        unsigned on = 0;

        for (unsigned k = 0; k < ONS; k++) {
            if (w->until[k] <= w->now)
                continue;
            on |= 1u << k;
            next = w->until[k] < next ? w->until[k] : next;
        }
        *(inside ? &w->pub.part_ns[part_of(on)] : &w->pending[part_of(on)]) +=
            (uint64_t) next - (uint64_t) w->now;
        w->now = next;
    }
}

/* Keeps the longest of a list sorted by falling duration. Returns where to put the new one, NULL
 * when it is too short. */
#define KEEP_LONGEST(list, n, most, dur)                                                           \
    keep_longest((list), sizeof((list)[0]), offsetof(__typeof__((list)[0]), dur_ns), &(n), (most), \
                 (dur))

static void *
keep_longest(void *list, size_t size, size_t at_dur, size_t *n, size_t most, int64_t dur)
{
    char *v = list;
    size_t at = *n;

    while (at > 0) {
        int64_t other;

        memcpy(&other, v + (at - 1) * size + at_dur, sizeof(other));
        if (other >= dur)
            break;
        at--;
    }
    if (at == most)
        return NULL;
    if (*n < most)
        (*n)++;
    memmove(v + (at + 1) * size, v + at * size, (*n - 1 - at) * size);
    return v + at * size;
}

/* A device span begins behind everything the device did: the time since is a pause inside the
 * window. */
static void
end_pause(mrd_report *r, worker_state *w, const mrd_event *ev)
{
    int64_t dur = w->pending[MRD_REPORT_UNRECORDED] > 0 ? 0 : ev->ts_ns - w->device_end;
    mrd_report_pause *pause =
        dur > 0 ? KEEP_LONGEST(r->pauses, r->n_pauses, MRD_REPORT_PAUSES, dur) : NULL;

    if (pause != NULL)
        *pause = (mrd_report_pause){ .worker = (uint32_t) (w - r->all),
                                     .start_ns = w->device_end,
                                     .dur_ns = dur,
                                     .host_ns =
                                         w->pending[MRD_REPORT_HOST] + w->pending[MRD_REPORT_COPY],
                                     .before = w->device_last,
                                     .after = ev->name };
    for (size_t k = 0; k < MRD_REPORT_PARTS; k++) {
        w->pub.part_ns[k] += w->pending[k];
        w->pending[k] = 0;
    }
}

static void
add_span(mrd_report *r, uint32_t worker, bool device, unsigned what, const mrd_event *ev)
{
    worker_state *w = &r->all[worker];
    int64_t end = mrd_event_end(ev);

    if (w->any)
        advance(w, ev->ts_ns);
    if (device && !w->any) {
        w->any = true;
        w->now = w->device_end = w->pub.first_ns = ev->ts_ns;
    } else if (device && ev->ts_ns >= w->device_end) {
        end_pause(r, w, ev);
    }
    w->until[what] = end > w->until[what] ? end : w->until[what];
    if (device && (uint64_t) end - (uint64_t) ev->ts_ns > w->span_ns)
        w->span_ns = (uint64_t) end - (uint64_t) ev->ts_ns;
    if (device && end >= w->device_end) {
        w->device_end = end;
        w->device_last = ev->name;
    }
}

/* ---- Collectives ---- */

static mrd_report_collective *
collective_row(mrd_report *r, const mrd_gathered *c)
{
    mrd_map_key key = { c->name, (uint64_t) c->size, 0 };
    uint32_t i = mrd_map_get(&r->by_name, key);

    if (i != MRD_MAP_NONE)
        return &r->collectives[i];
    if (!MRD_VEC_ROOM(r->collectives, r->n_collectives, r->cap_collectives, 1))
        return NULL;
    if (mrd_map_put(&r->by_name, key, (uint32_t) r->n_collectives) != MRD_OK)
        return NULL;
    r->collectives[r->n_collectives] = (mrd_report_collective){ .name = c->name, .size = c->size };
    return &r->collectives[r->n_collectives++];
}

static bool
same_node(const mrd_report *r, uint32_t a, uint32_t b)
{
    const mrd_process *p = mrd_catalog_borrow_process(r->cat, r->all[a].pub.process),
                      *q = mrd_catalog_borrow_process(r->cat, r->all[b].pub.process);

    if (p == q)
        return true;
    return p->instance_id == q->instance_id && p->scope == q->scope &&
           !mrd_str_is(mrd_catalog_text(r->cat, p->instance_id), "unknown");
}

/* A bound of 0 of a clock that nothing is known about means that the time never crossed a clock. */
static bool
has_bound(const mrd_report *r, const mrd_gather_part *part)
{
    const mrd_process *p = mrd_catalog_borrow_process(r->cat, r->all[part->core].pub.process);
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(r->cat, &n);

    if (part->bound_ns != MRD_BOUND_LOCAL)
        return part->bound_ns != MRD_BOUND_UNKNOWN;
    for (size_t i = 1; i < n; i++) {
        if ((clocks[i].node == p->instance_id || p->clock == i) && clocks[i].bound_ns >= 0)
            return true;
    }
    return false;
}

/* A clock that is suspect, or that a check contradicted: its bound may be false. */
static bool
is_distrusted(const mrd_catalog *cat, const mrd_process *p)
{
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(cat, &n);

    for (size_t i = 1; i < n; i++) {
        if ((p->clock == i || (clocks[i].node != 0 && clocks[i].node == p->instance_id)) &&
            (clocks[i].violations > 0 ||
             mrd_str_is(mrd_catalog_text(cat, clocks[i].quality), "suspect")))
            return true;
    }
    return false;
}

static void
clocks_judge(mrd_report *r)
{
    for (mrd_proc_id i = 0; i < mrd_catalog_processes(r->cat); i++)
        r->distrusted[i] = is_distrusted(r->cat, mrd_catalog_borrow_process(r->cat, i));
}

/* Why the last part of a collective is not proven to be the last to begin. */
typedef struct {
    bool no_bound, suspect;
    bool mapped; /* the device clocks' mapping alone leaves it open */
    bool across; /* parts of other nodes are in it */
} doubts;

/* What the runtime's mapping of this core's clock may be off by: one sync point per execution, and
 * between them the device's clock drifts. */
static uint64_t
mapping_error(const worker_state *w)
{
    uint64_t seconds = w->span_ns / MRD_SEC + (w->span_ns % MRD_SEC != 0);

    return !w->mapped ? 0 : MRD_REPORT_MAPPING * (seconds == 0 ? 1 : seconds);
}

/* Whether the last part began after all others beyond doubt. */
static bool
is_proven(const mrd_report *r, const mrd_gathered *c, doubts *ret)
{
    const mrd_gather_part *last = &c->parts[c->n - 1];
    bool proven = true, by_nodes = true;

    *ret = (doubts){ 0 };
    for (size_t i = 0; i + 1 < c->n; i++) {
        const mrd_gather_part *other = &c->parts[i];
        uint64_t late = (uint64_t) last->begin - (uint64_t) other->begin, error = MRD_REPORT_NOISE;

        if (!same_node(r, last->core, other->core)) {
            ret->across = true;
            if (r->distrusted[r->all[last->core].pub.process] ||
                r->distrusted[r->all[other->core].pub.process]) {
                ret->suspect = true;
                return false;
            }
            if (!has_bound(r, last) || !has_bound(r, other)) {
                ret->no_bound = true;
                return false;
            }
            error += (uint64_t) last->bound_ns + other->bound_ns;
        }
        by_nodes = by_nodes && late > error;
        error += mapping_error(&r->all[last->core]) + mapping_error(&r->all[other->core]);
        proven = proven && late > error;
    }
    ret->mapped = by_nodes && !proven;
    return proven;
}

/* The claim of a collective's shape; NULL without memory. */
static claim *
claim_of(mrd_report *r, const mrd_gathered *c, uint32_t collective)
{
    uint32_t worker = c->parts[c->n - 1].core;
    mrd_map_key key = { (uint64_t) c->group << 32 | c->n, worker, collective };
    uint32_t i = mrd_map_get(&r->by_claim, key);

    if (i != MRD_MAP_NONE)
        return &r->claims[i];
    if (!MRD_VEC_ROOM(r->claims, r->n_claims, r->cap_claims, 1))
        return NULL;
    if (mrd_map_put(&r->by_claim, key, (uint32_t) r->n_claims) != MRD_OK)
        return NULL;
    r->claims[r->n_claims] =
        (claim){ .group = c->group, .worker = worker, .collective = collective, .parts = c->n };
    return &r->claims[r->n_claims++];
}

/* Whether a check has contradicted a clock since the report began. */
static bool
clocks_fell(const mrd_report *r)
{
    for (mrd_proc_id i = 0; i < mrd_catalog_processes(r->cat); i++) {
        if (!r->distrusted[i] && is_distrusted(r->cat, mrd_catalog_borrow_process(r->cat, i)))
            return true;
    }
    return false;
}

/* At the end it is known how many a group has, and whether the clocks hold. */
static void
settle_claims(mrd_report *r)
{
    bool fell = clocks_fell(r);

    for (size_t i = 0; i < r->n_claims; i++) {
        claim *c = &r->claims[i];
        mrd_report_worker *late = &r->all[c->worker].pub;
        uint32_t members, takers = mrd_gather_takers(r->gather, c->group, &members);

        if (fell)
            r->totals.suspect += c->across_count;
        c->count += fell ? 0 : c->across_count;
        c->wait_ns += fell ? 0 : c->across_wait_ns;
        if (members > 0 && takers > members) {
            r->totals.mixed += c->matched;
        } else if (c->parts < takers) {
            r->totals.partial += c->matched;
        } else {
            late->proven += c->count;
            late->proven_ns += c->wait_ns;
            r->collectives[c->collective].proven += c->count;
            r->totals.proven += c->count;
        }
    }
}

static void
collective_done(void *self, const mrd_gathered *c)
{
    mrd_report *r = self;
    const mrd_gather_part *last = &c->parts[c->n - 1];
    mrd_report_worker *late = &r->all[last->core].pub;
    uint64_t waits = 0, spread = (uint64_t) last->begin - (uint64_t) c->parts[0].begin;
    uint64_t shortest = UINT64_MAX, alone;
    mrd_report_collective *row;
    doubts why;
    claim *held;
    bool proven;

    if (c->n < 2) {
        r->totals.alone++;
        return;
    }
    alone = (uint64_t) last->begin - (uint64_t) c->parts[c->n - 2].begin;
    if ((row = collective_row(r, c)) == NULL ||
        (held = claim_of(r, c, (uint32_t) (row - r->collectives))) == NULL) {
        r->err = MRD_NOMEM;
        return;
    }
    for (size_t i = 0; i < c->n; i++) {
        const mrd_gather_part *p = &c->parts[i];
        uint64_t wait = (uint64_t) last->begin - (uint64_t) p->begin,
                 dur = (uint64_t) p->end - (uint64_t) p->begin;

        r->all[p->core].pub.took_part++;
        r->totals.any_mapped = r->totals.any_mapped || r->all[p->core].mapped;
        r->all[p->core].pub.wait_ns += wait;
        waits += wait;
        shortest = dur < shortest ? dur : shortest;
    }
    proven = is_proven(r, c, &why);
    held->matched++;
    if (proven) {
        *(why.across ? &held->across_count : &held->count) += 1;
        *(why.across ? &held->across_wait_ns : &held->wait_ns) += waits;
    }
    late->last++;
    late->alone_ns += alone;
    late->alone_wait_ns += alone * (c->n - 1);
    late->caused_ns += waits;
    row->count++;
    row->parts += c->n;
    row->wait_ns += waits;
    row->spread_max_ns = spread > row->spread_max_ns ? spread : row->spread_max_ns;
    if (mrd_hist_add(&row->latency, shortest) != MRD_OK ||
        mrd_hist_add(&row->spread, spread) != MRD_OK)
        r->err = MRD_NOMEM;
    r->totals.matched++;
    r->totals.no_bound += why.no_bound;
    r->totals.suspect += why.suspect;
    r->totals.mapped += why.mapped;
    r->totals.wait_ns += waits;
}

/* ---- Steps ---- */

static mrd_err
add_step(mrd_report *r, const mrd_event *ev)
{
    mrd_proc_id process = mrd_catalog_borrow_track(r->cat, ev->track)->process;
    mrd_report_pace *pace = &r->paces[process];
    mrd_report_step *slow;

    if (pace->count == 0)
        *pace = (mrd_report_pace){ .process = process, .min_ns = INT64_MAX };
    pace->count++;
    pace->total_ns += (uint64_t) ev->dur_ns;
    pace->min_ns = ev->dur_ns < pace->min_ns ? ev->dur_ns : pace->min_ns;
    pace->max_ns = ev->dur_ns > pace->max_ns ? ev->dur_ns : pace->max_ns;
    if ((slow = KEEP_LONGEST(r->steps, r->n_steps, MRD_REPORT_STEPS, ev->dur_ns)) != NULL)
        *slow = (mrd_report_step){
            .process = process, .name = ev->name, .start_ns = ev->ts_ns, .dur_ns = ev->dur_ns
        };
    return mrd_hist_add(&pace->hist, (uint64_t) ev->dur_ns);
}

/* ---- Adding ---- */

/* "step", "step 12", "step_12", "train_step", "ProfilerStep#12". */
static bool
is_step(mrd_str name)
{
    static const char *const words[] = { "step", "Step", "train_step", "training_step" };

    if (mrd_str_starts(name, "ProfilerStep#"))
        return true;
    for (size_t i = 0; i < MRD_COUNT(words); i++) {
        size_t at = strlen(words[i]);

        if (!mrd_str_starts(name, words[i]))
            continue;
        while (at < name.len && strchr(" _-#:", name.p[at]) != NULL)
            at++;
        while (at < name.len && name.p[at] >= '0' && name.p[at] <= '9')
            at++;
        if (at == name.len)
            return true;
    }
    return false;
}

static name_class
classify(mrd_str name)
{
    if (is_step(name))
        return NAME_STEP;
    if (mrd_activity_is_copy(name, MRD_STR("")))
        return NAME_COPY;
    return mrd_activity_is_xla_collective(name) ? NAME_COLLECTIVE : NAME_OTHER;
}

static name_class
class_of(mrd_report *r, mrd_sid name)
{
    if (name >= r->n_names)
        return NAME_OTHER;
    if (r->classes[name] == NAME_UNSEEN)
        r->classes[name] = (uint8_t) classify(mrd_catalog_text(r->cat, name));
    return (name_class) r->classes[name];
}

/* On a device's line: its work, a copy, or no work of it (of the host, or drawn over it). */
static category_class
category_of(mrd_report *r, mrd_sid category)
{
    mrd_str text;
    mrd_activity is;

    if (category == MRD_SID_EMPTY || category >= r->n_names)
        return CATEGORY_DEVICE;
    if (r->categories[category] == CATEGORY_UNSEEN) {
        text = mrd_catalog_text(r->cat, category);
        is = mrd_activity_of(text);
        r->categories[category] =
            (uint8_t) (is == MRD_ACTIVITY_HOST                   ? CATEGORY_HOST
                       : is == MRD_ACTIVITY_BESIDE               ? CATEGORY_BESIDE
                       : mrd_activity_is_copy(MRD_STR(""), text) ? CATEGORY_COPY
                                                                 : CATEGORY_DEVICE);
    }
    return (category_class) r->categories[category];
}

static mrd_err
add_to_worker(mrd_report *r, const track_state *track, const mrd_event *ev)
{
    category_class category = track->foreign ? category_of(r, ev->category) : CATEGORY_DEVICE;
    mrd_cc what;
    mrd_cc_kind kind = MRD_CC_NO;
    name_class name;
    unsigned on = ON_HOST;

    if (track->device) {
        kind = mrd_collectives_see(r->see, ev, &what);
        if (kind == MRD_CC_SAYS_ALL || kind == MRD_CC_SAYS_SINGLE || category == CATEGORY_HOST ||
            category == CATEGORY_BESIDE)
            return MRD_OK;
        on = kind == MRD_CC_BARRIER ? ON_BARRIER : kind != MRD_CC_NO ? ON_COLLECTIVE : ON_COMPUTE;
    }
    name = class_of(r, ev->name);
    if (on == ON_COMPUTE && track->foreign && name == NAME_COLLECTIVE)
        on = ON_COLLECTIVE;
    if ((on == ON_HOST || on == ON_COMPUTE) && (name == NAME_COPY || category == CATEGORY_COPY))
        on = ON_COPY;
    add_span(r, track->worker, track->device, on, ev);
    return kind == MRD_CC_NO ? MRD_OK : mrd_gather_add(r->gather, kind, &what, ev, track->worker);
}

/* Losses that say nothing about a core: of the annotations of a thread. */
static bool
is_elsewhere(const mrd_report *r, const mrd_event *ev)
{
    static const char *const causes[] = { "ring-full", "ring-record-too-big", "ring-other" };
    mrd_str cause = mrd_catalog_text(r->cat, ev->name);

    for (size_t i = 0; i < MRD_COUNT(causes); i++)
        if (mrd_str_is(cause, causes[i]))
            return true;
    return false;
}

static bool
of_worker(const mrd_report *r, const worker_state *w, const mrd_track *t)
{
    const mrd_process *lost = mrd_catalog_borrow_process(r->cat, t->process),
                      *mine = mrd_catalog_borrow_process(r->cat, w->pub.process);

    if (t->process != w->pub.process) /* of the node as a whole */
        return (lost->flags & MRD_PROC_NODE) != 0 && lost->instance_id == mine->instance_id;
    return t->lnc_idx == MRD_NONE || t->lnc_idx == w->pub.lnc_idx;
}

/* From here on nothing is known of the workers it concerns but what comes nevertheless. */
static void
add_gap(mrd_report *r, const mrd_event *ev)
{
    const mrd_track *t = mrd_catalog_borrow_track(r->cat, ev->track);
    int64_t end = mrd_event_end(ev);

    if (ev->ivalue <= 0 || is_elsewhere(r, ev))
        return;
    for (size_t i = 0; i < r->n_all; i++) {
        worker_state *w = &r->all[i];

        if (!of_worker(r, w, t))
            continue;
        w->pub.lost += (uint64_t) ev->ivalue;
        if (w->any)
            advance(w, ev->ts_ns);
        w->until[ON_GAP] = end > w->until[ON_GAP] ? end : w->until[ON_GAP];
    }
}

mrd_err
mrd_report_add(mrd_report *r, const mrd_event *ev)
{
    const track_state *track;

    if (ev->track >= r->n_tracks || mrd_catalog_profile_of(r->cat, ev->track) != r->profile)
        return MRD_STATE;
    if (ev->kind == MRD_LOSS)
        add_gap(r, ev);
    if (ev->kind != MRD_SPAN || ev->dur_ns < 0 || (ev->flags & MRD_EV_NO_START) ||
        (ev->ts_ns == 0 && r->zero_is_no_time) || mrd_event_end(ev) == INT64_MAX)
        return MRD_OK;
    if (!r->any || ev->ts_ns < r->totals.first_ns)
        r->totals.first_ns = ev->ts_ns;
    r->any = true;
    track = &r->tracks[ev->track];
    if (track->worker == NO_WORKER)
        return class_of(r, ev->name) == NAME_STEP && category_of(r, ev->category) != CATEGORY_BESIDE
                   ? add_step(r, ev)
                   : MRD_OK;
    return add_to_worker(r, track, ev);
}

/* ---- Life ---- */

mrd_report *
mrd_report_new(const mrd_sink_env *env)
{
    mrd_report *r = calloc(1, sizeof(*r));
    const mrd_strtab *strings;

    if (r == NULL)
        return NULL;
    r->cat = env->catalog;
    r->profile = env->profile;
    r->zero_is_no_time = env->profile == 0 && env->options->wall_time;
    strings = mrd_catalog_strings(r->cat);
    r->n_names = mrd_strtab_count(strings);
    r->classes = calloc(r->n_names + 1, sizeof(*r->classes));
    r->categories = calloc(r->n_names + 1, sizeof(*r->categories));
    r->n_paces = mrd_catalog_processes(r->cat);
    r->paces = calloc(r->n_paces + 1, sizeof(*r->paces));
    r->see = mrd_collectives_new(r->cat);
    r->gather = mrd_gather_new(r->cat, collective_done, r);
    r->distrusted = calloc(r->n_paces + 1, sizeof(*r->distrusted));
    if (r->classes == NULL || r->categories == NULL || r->paces == NULL || r->distrusted == NULL ||
        r->see == NULL || r->gather == NULL || !workers_make(r)) {
        mrd_report_free(r);
        return NULL;
    }
    clocks_judge(r);
    return r;
}

void
mrd_report_free(mrd_report *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n_collectives; i++) {
        mrd_hist_fini(&r->collectives[i].latency);
        mrd_hist_fini(&r->collectives[i].spread);
    }
    for (size_t i = 0; i < r->n_paces && r->paces != NULL; i++)
        mrd_hist_fini(&r->paces[i].hist);
    free(r->collectives);
    free(r->paces);
    free(r->tracks);
    free(r->all);
    free(r->workers);
    free(r->classes);
    free(r->categories);
    mrd_map_fini(&r->by_name);
    mrd_map_fini(&r->by_claim);
    free(r->claims);
    free(r->distrusted);
    mrd_collectives_free(r->see);
    mrd_gather_free(r->gather);
    free(r);
}

static int
collective_order(const void *a, const void *b, void *self)
{
    const mrd_report_collective *x = a, *y = b;
    const mrd_catalog *cat = self;
    int order = x->wait_ns > y->wait_ns ? -1 : x->wait_ns < y->wait_ns;

    if (order == 0)
        order = strcmp(mrd_catalog_text(cat, x->name).p, mrd_catalog_text(cat, y->name).p);
    return order != 0 ? order : i64_order(x->size, y->size);
}

static int
pace_order(const void *a, const void *b, void *self)
{
    const mrd_report_pace *x = a, *y = b;

    return process_order(self, x->process, y->process);
}

/* Drops workers without a window and processes without a step; pauses then name workers anew. */
static mrd_err
drop_empty(mrd_report *r)
{
    uint32_t *place = calloc(r->n_all + 1, sizeof(*place));
    size_t kept = 0;

    r->workers = calloc(r->n_all + 1, sizeof(*r->workers));
    if (place == NULL || r->workers == NULL) {
        free(place);
        return MRD_NOMEM;
    }
    for (size_t i = 0; i < r->n_all; i++) {
        place[i] = (uint32_t) r->n_workers;
        if (r->all[i].any)
            r->workers[r->n_workers++] = r->all[i].pub;
    }
    for (size_t i = 0; i < r->n_pauses; i++)
        r->pauses[i].worker = place[r->pauses[i].worker];
    free(place);
    for (size_t i = 0; i < r->n_paces; i++) {
        if (r->paces[i].count > 0)
            r->paces[kept++] = r->paces[i];
    }
    r->n_paces = kept;
    return MRD_OK;
}

mrd_err
mrd_report_finish(mrd_report *r)
{
    mrd_err err;

    mrd_gather_finish(r->gather);
    settle_claims(r);
    r->totals.left_out = mrd_gather_left_out(r->gather);
    for (size_t i = 0; i < r->n_all; i++) {
        worker_state *w = &r->all[i];

        if (!w->any)
            continue;
        advance(w, w->device_end);
        w->pub.last_ns = w->device_end;
        r->totals.window_ns += mrd_report_window(&w->pub);
    }
    if ((err = drop_empty(r)) != MRD_OK)
        return err;
    if (r->n_collectives > 0)
        qsort_r(r->collectives, r->n_collectives, sizeof(*r->collectives), collective_order,
                (void *) (uintptr_t) r->cat);
    if (r->n_paces > 0)
        qsort_r(r->paces, r->n_paces, sizeof(*r->paces), pace_order, (void *) (uintptr_t) r->cat);
    return r->err;
}

/* ---- Answers ---- */

const mrd_report_totals *
mrd_report_totals_of(const mrd_report *r)
{
    return &r->totals;
}

const mrd_report_worker *
mrd_report_workers(const mrd_report *r, size_t *ret_n)
{
    *ret_n = r->n_workers;
    return r->workers;
}

const mrd_report_collective *
mrd_report_collectives(const mrd_report *r, size_t *ret_n)
{
    *ret_n = r->n_collectives;
    return r->collectives;
}

const mrd_report_pace *
mrd_report_paces(const mrd_report *r, size_t *ret_n)
{
    *ret_n = r->n_paces;
    return r->paces;
}

const mrd_report_pause *
mrd_report_pauses(const mrd_report *r, size_t *ret_n)
{
    *ret_n = r->n_pauses;
    return r->pauses;
}

const mrd_report_step *
mrd_report_slow_steps(const mrd_report *r, size_t *ret_n)
{
    *ret_n = r->n_steps;
    return r->steps;
}

mrd_verdict
mrd_report_verdict(const mrd_report *r)
{
    mrd_verdict v = { .kind = MRD_VERDICT_NOTHING };
    const mrd_report_worker *most = NULL;
    uint64_t in_turn = 0;
    double even, much;

    for (size_t i = 0; i < r->n_workers; i++) {
        const mrd_report_worker *w = &r->workers[i];

        in_turn += w->took_part > 0;
        if (w->took_part > 0 && (most == NULL || w->caused_ns > most->caused_ns)) {
            most = w;
            v.worker = (uint32_t) i;
        }
    }
    if (most == NULL || r->totals.window_ns == 0)
        return v;
    v.kind = MRD_VERDICT_NONE;
    if (r->totals.wait_ns == 0)
        return v;
    v.share = (double) most->caused_ns / (double) r->totals.wait_ns;
    v.impact = (double) most->alone_wait_ns / (double) r->totals.window_ns;
    even = 1.0 / (double) in_turn;
    much = 2 * even < (1 + even) / 2 ? 2 * even : (1 + even) / 2;
    if (v.share <= much || v.impact < 0.01)
        return v;
    v.kind = most->proven_ns >= most->caused_ns - most->proven_ns ? MRD_VERDICT_LATE
                                                                  : MRD_VERDICT_UNPROVEN;
    return v;
}
