#include "cli/view/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/import/nrt/nrt_clock.h"
#include "trace/model/arg_keys.h"
#include "trace/store/merge.h"

#define TOLERANCE_NS 10000
#define TOLERANCE_PM 2 /* thousandths of an execution */

/* An execution on a core, as the system trace has it. */
typedef struct {
    mrd_proc_id process;
    int64_t core;
    mrd_ev_ns start;
    mrd_nc_ns nc, nc_end; /* by the device's clock, MRD_NONE if not stated */
    mrd_dur_ns dur_ns;
    uint32_t bound_ns;
    mrd_sid model;
} execution;

typedef struct {
    const mrd_device_capture *capture; /* borrowed of the catalog, which does not change any more */
    size_t stream;                     /* SIZE_MAX: none */
    bool placed, by_clock;
    mrd_dur_ns offset_ns; /* session = its own + offset */
    mrd_ev_ns from, to;
    uint32_t bound_ns;
    mrd_proc_id process; /* of the system profile */
    mrd_sid file, model; /* model: MRD_SID_EMPTY, not known */
    int64_t flops;       /* of one execution, or MRD_NONE */
} place;

struct mrd_places {
    mrd_catalog *cat;
    mrd_store *store;
    place *v;
    size_t n;
    execution *execs;
    size_t n_execs, cap_execs;
    mrd_sid key, flops_key, names[3];
    mrd_sid nc_key, nc_end_key, model_key;
};

/* State of one source. */
typedef struct {
    mrd_places *p;
    const place *of; /* a device profile. NULL means the system profile */
    mrd_arg *args;   /* of the events of a run */
    size_t cap_args;
} mapper;

void
mrd_place_file(const mrd_catalog *cat, uint32_t profile, mrd_buf *ret_name)
{
    size_t n;
    const mrd_devprofile *profiles = mrd_catalog_devprofiles(cat, &n);
    mrd_str model = mrd_catalog_text(cat, profiles[profile].model);

    if (model.len == 0)
        model = mrd_catalog_text(cat, profiles[profile].name);
    mrd_buf_text(ret_name, "device_profile_model_");
    for (size_t i = 0; i < model.len && i < 128; i++) {
        char c = model.p[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     c == '-' || c == '_' || (c == '.' && i > 0);

        mrd_buf_byte(ret_name, plain ? (uint8_t) c : '_');
    }
}

/* ---- Executions ---- */

/* The same process, in another profile. */
static bool
same_process(const mrd_catalog *cat, mrd_proc_id system, mrd_proc_id device)
{
    const mrd_process *a = mrd_catalog_borrow_process(cat, system),
                      *b = mrd_catalog_borrow_process(cat, device);

    return a->profile == 0 && a->process_id == b->process_id && a->instance_id == b->instance_id &&
           ((a->flags | b->flags) & MRD_PROC_NO_PID) == 0;
}

static bool
is_wanted(const mrd_places *p, mrd_proc_id process, int64_t core)
{
    for (size_t i = 0; i < p->n; i++) {
        const mrd_device_capture *c = p->v[i].capture;

        if ((c->nc_idx == MRD_NONE || core == c->nc_idx) &&
            same_process(p->cat, process, c->process))
            return true;
    }
    return false;
}

static int64_t
number_arg(const mrd_arg *a)
{
    return mrd_arg_is_int(a) ? a->v.i : MRD_NONE;
}

static mrd_sid
model_arg(mrd_places *p, const mrd_arg *a)
{
    char text[24];

    if (a->type == MRD_ARG_STR)
        return a->v.sid;
    if (number_arg(a) == MRD_NONE)
        return MRD_SID_EMPTY;
    snprintf(text, sizeof(text), "%" PRId64, a->v.i);
    return mrd_catalog_intern(p->cat, text);
}

static mrd_err
take_event(mrd_places *p, const mrd_event *ev, mrd_why *why)
{
    const mrd_track *t;
    execution e;

    if (ev->kind != MRD_SPAN || ev->name != p->names[0] || ev->dur_ns < 0)
        return MRD_OK;
    t = mrd_catalog_borrow_track(p->cat, ev->track);
    e = (execution){ .process = t->process,
                     .core = t->lnc_idx,
                     .start = { ev->ts.ns },
                     .dur_ns = ev->dur_ns,
                     .nc = { MRD_NONE },
                     .nc_end = { MRD_NONE },
                     .bound_ns = ev->bound_ns };
    if (!is_wanted(p, e.process, e.core) || p->n_execs >= MRD_PLACE_MAX)
        return MRD_OK;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (ev->args[i].key == p->nc_key)
            e.nc = (mrd_nc_ns){ number_arg(&ev->args[i]) };
        else if (ev->args[i].key == p->nc_end_key)
            e.nc_end = (mrd_nc_ns){ number_arg(&ev->args[i]) };
        else if (ev->args[i].key == p->model_key)
            e.model = model_arg(p, &ev->args[i]);
    }
    if (!MRD_VEC_ROOM_MAX(p->execs, p->n_execs, p->cap_execs, 1, MRD_PLACE_MAX))
        return mrd_why_set(why, MRD_NOMEM, 0, "placing device profiles");
    p->execs[p->n_execs++] = e;
    return MRD_OK;
}

static mrd_err
take_stream(mrd_places *p, mrd_alignment *alignment, size_t i, mrd_why *why)
{
    mrd_source *s = NULL;
    const mrd_event *ev;
    mrd_err err = alignment != NULL ? mrd_alignment_open(alignment, i, &s, why)
                                    : mrd_stream_open(mrd_store_at(p->store, i), &s, why);

    while (err == MRD_OK && s->next(s, &ev, why) == MRD_MORE) /* the merge reports a bad end */
        err = take_event(p, ev, why);
    if (s != NULL)
        s->close(s);
    return err;
}

/* ---- Placing ---- */

static bool
is_of(const mrd_places *p, const place *at, const execution *e)
{
    const mrd_device_capture *c = at->capture;
    size_t n;
    mrd_sid model = mrd_catalog_devprofiles(p->cat, &n)[c->profile].model;

    return (c->nc_idx == MRD_NONE || e->core == c->nc_idx) &&
           (model == MRD_SID_EMPTY || e->model == MRD_SID_EMPTY || model == e->model) &&
           same_process(p->cat, e->process, c->process);
}

static int64_t
length_apart(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

static uint32_t
widen_bound(uint32_t bound, int64_t by)
{
    return bound == MRD_BOUND_UNKNOWN || by > (int64_t) (MRD_BOUND_UNKNOWN - 1 - bound)
               ? MRD_BOUND_UNKNOWN
               : bound + (uint32_t) by;
}

/* Rows of some files count from their start, of others by the device's clock. */
static bool
has_device_times(const mrd_device_capture *c)
{
    return c->first.ns >= c->hw_first.ns && c->first.ns <= c->hw_last.ns;
}

/* Returns the maximum drift of the device's clock from the host's between the start of an execution
 * and any row. */
static int64_t
find_drift(const execution *e, const mrd_device_capture *c)
{
    mrd_nc_ns end = e->nc_end.ns != MRD_NONE ? e->nc_end : mrd_nc_add(e->nc, e->dur_ns);
    int64_t drift = e->nc_end.ns != MRD_NONE ? length_apart(e->dur_ns, mrd_nc_diff(end, e->nc))
                                             : (int64_t) (NRT_RATE * (double) e->dur_ns) + 1;
    int64_t outside = 0;

    if (mrd_nc_before(c->hw_first, e->nc))
        outside += mrd_nc_diff(e->nc, c->hw_first);
    if (mrd_nc_after(c->hw_last, end))
        outside += mrd_nc_diff(c->hw_last, end);
    return drift + (int64_t) (NRT_RATE * (double) outside);
}

static bool
place_by_clock(mrd_places *p, place *at)
{
    const mrd_device_capture *c = at->capture;
    const execution *best = NULL;
    int64_t best_away = INT64_MAX;

    if (c->hw_first.ns == MRD_NONE || c->hw_last.ns == MRD_NONE)
        return false;
    for (size_t i = 0; i < p->n_execs; i++) {
        const execution *e = &p->execs[i];
        int64_t slack = e->dur_ns / 1000 * TOLERANCE_PM + TOLERANCE_NS;
        int64_t away = mrd_nc_after(e->nc, c->hw_first) ? mrd_nc_diff(e->nc, c->hw_first)
                                                        : mrd_nc_diff(c->hw_first, e->nc);

        if (e->nc.ns == MRD_NONE || !is_of(p, at, e) ||
            mrd_nc_after(e->nc, mrd_nc_add(c->hw_last, slack)) ||
            mrd_nc_before(mrd_nc_add(mrd_nc_add(e->nc, e->dur_ns), slack), c->hw_first) ||
            away >= best_away)
            continue;
        best_away = away;
        best = e;
    }
    if (best == NULL)
        return false;
    at->offset_ns = best->start.ns - best->nc.ns;
    at->bound_ns = widen_bound(best->bound_ns, find_drift(best, c));
    if (!has_device_times(c)) {
        at->offset_ns += c->hw_first.ns - c->first.ns;
        /* The capture may be longer than its rows, which then lie anywhere in it. */
        at->bound_ns = widen_bound(at->bound_ns, length_apart(mrd_nc_diff(c->hw_last, c->hw_first),
                                                              mrd_ev_diff(c->last, c->first)));
    }
    at->process = best->process;
    return at->placed = at->by_clock = true;
}

static bool
place_by_length(mrd_places *p, place *at, size_t *ret_fitting)
{
    const mrd_device_capture *c = at->capture;
    const execution *found = NULL;
    int64_t off = 0;

    *ret_fitting = 0;
    for (size_t i = 0; i < p->n_execs && c->total_ns > 0; i++) {
        const execution *e = &p->execs[i];
        int64_t diff = length_apart(e->dur_ns, c->total_ns);
        int64_t slack = e->dur_ns / 1000 * TOLERANCE_PM;

        if (!is_of(p, at, e) || diff > (slack > TOLERANCE_NS ? slack : TOLERANCE_NS))
            continue;
        /* The two physical cores of a logical one run one execution. */
        if (found != NULL && mrd_ev_before(e->start, mrd_ev_add(found->start, found->dur_ns)) &&
            mrd_ev_before(found->start, mrd_ev_add(e->start, e->dur_ns))) {
            off = diff > off ? diff : off;
            continue;
        }
        ++*ret_fitting;
        found = e;
        off = diff;
    }
    if (*ret_fitting != 1)
        return false;
    at->offset_ns = mrd_ev_diff(found->start, c->first);
    at->bound_ns = widen_bound(found->bound_ns,
                               off + length_apart(c->total_ns, mrd_ev_diff(c->last, c->first)));
    at->process = found->process;
    return at->placed = true;
}

/* Returns true if the placed profile is of one execution alone. */
static bool
shows_one(const mrd_places *p, const place *at)
{
    const execution *found = NULL;

    for (size_t i = 0; i < p->n_execs; i++) {
        const execution *e = &p->execs[i];
        mrd_ev_ns end = mrd_ev_add(e->start, e->dur_ns);

        if (!is_of(p, at, e) || !mrd_ev_before(e->start, at->to) || !mrd_ev_after(end, at->from))
            continue;
        /* The two physical cores of a logical one run one execution. */
        if (found != NULL && !mrd_ev_before(e->start, mrd_ev_add(found->start, found->dur_ns)))
            return false;
        found = e;
    }
    return found != NULL;
}

static void
say(mrd_places *p, const place *at, size_t fitting)
{
    mrd_str file = mrd_catalog_text(p->cat, at->file);
    char bound[32] = "not known";

    if (at->placed) {
        if (at->bound_ns != MRD_BOUND_UNKNOWN)
            snprintf(bound, sizeof(bound), "%" PRIu32 " ns", at->bound_ns);
        mrd_catalog_note(p->cat,
                         MRD_STR_FMT " of core %" PRId64
                                     " is on the time of the system profile (%s, bound %s)",
                         MRD_STR_ARG(file), at->capture->nc_idx,
                         at->by_clock ? "by the device's clock and the runtime's sync points"
                                      : "by the length of its execution",
                         bound);
        return;
    }
    if (p->n_execs == 0)
        return; /* there is no system trace of it: nothing can be expected */
    if (fitting > 1)
        mrd_catalog_note(p->cat,
                         MRD_STR_FMT
                         " stays on its own time: %zu executions are as long as it says it is",
                         MRD_STR_ARG(file), fitting);
    else
        mrd_catalog_note(p->cat,
                         MRD_STR_FMT " stays on its own time: no nc_exec_running of its core has "
                                     "its device clock or its length",
                         MRD_STR_ARG(file));
}

static void
place_one(mrd_places *p, place *at)
{
    const mrd_device_capture *c = at->capture;
    mrd_buf name = { 0 };
    size_t fitting = 0, n;

    mrd_place_file(p->cat, c->profile, &name);
    mrd_buf_text(&name, ".pftrace");
    at->file = mrd_catalog_intern(p->cat, mrd_buf_cstr(&name));
    mrd_buf_fini(&name);
    at->model = mrd_catalog_devprofiles(p->cat, &n)[c->profile].model;
    at->stream = SIZE_MAX;
    for (size_t i = 0; i < mrd_store_streams(p->store); i++)
        if (mrd_stream_profile(mrd_store_at(p->store, i)) == c->profile &&
            mrd_str_is(mrd_catalog_text(p->cat, c->label),
                       mrd_stream_label(mrd_store_at(p->store, i))))
            at->stream = i;
    if (!place_by_clock(p, at))
        (void) place_by_length(p, at, &fitting);
    at->from = mrd_ev_add(c->first, at->offset_ns);
    at->to = mrd_ev_add(c->last, at->offset_ns);
    at->flops = at->placed && shows_one(p, at) ? c->flops : MRD_NONE;
    say(p, at, fitting);
}

mrd_err
mrd_places_new(mrd_catalog *cat, mrd_store *store, mrd_alignment *alignment,
               mrd_places **ret_places, mrd_why *why)
{
    mrd_places *p = calloc(1, sizeof(*p));
    size_t n;
    const mrd_device_capture *captures = mrd_catalog_captures(cat, &n);
    mrd_err err = MRD_OK;

    if (p == NULL || (n > 0 && (p->v = calloc(n, sizeof(*p->v))) == NULL)) {
        free(p);
        return mrd_why_set(why, MRD_NOMEM, 0, "placing device profiles");
    }
    p->cat = cat;
    p->store = store;
    p->n = n;
    p->key = mrd_catalog_intern(cat, "device_profile");
    p->flops_key = mrd_arg_key_add(mrd_catalog_strings(cat), MRD_KEY_FLOPS);
    p->names[0] = mrd_catalog_intern(cat, "nc_exec_running");
    p->names[1] = mrd_catalog_intern(cat, "nrt_execute");
    p->names[2] = mrd_catalog_intern(cat, "nrta_execute_schedule");
    p->nc_key = mrd_arg_key_add(mrd_catalog_strings(cat), MRD_KEY_NC_TIME);
    p->nc_end_key = mrd_arg_key_add(mrd_catalog_strings(cat), MRD_KEY_NC_TIME_END);
    p->model_key = mrd_arg_key_add(mrd_catalog_strings(cat), MRD_KEY_MODEL);
    for (size_t i = 0; i < n; i++)
        p->v[i].capture = &captures[i];
    for (size_t i = 0; i < mrd_store_streams(store) && n > 0 && err == MRD_OK; i++)
        if (mrd_stream_profile(mrd_store_at(store, i)) == 0)
            err = take_stream(p, alignment, i, why);
    for (size_t i = 0; i < n && err == MRD_OK; i++)
        place_one(p, &p->v[i]);
    if (err != MRD_OK)
        mrd_places_free(p);
    else
        *ret_places = p;
    return err;
}

void
mrd_places_free(mrd_places *p)
{
    if (p == NULL)
        return;
    free(p->v);
    free(p->execs);
    free(p);
}

/* ---- In front of the merge ---- */

/* Returns true if execution and profile have the same model, or one of them states none. */
static bool
model_fits(const mrd_places *p, const place *at, const mrd_event *ev)
{
    char text[24];

    if (at->model == MRD_SID_EMPTY)
        return true;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *a = &ev->args[i];

        if (a->key != p->model_key)
            continue;
        if (a->type == MRD_ARG_STR)
            return a->v.sid == MRD_SID_EMPTY || a->v.sid == at->model;
        if (number_arg(a) == MRD_NONE)
            return true;
        snprintf(text, sizeof(text), "%" PRId64, a->v.i);
        return mrd_str_is(mrd_catalog_text(p->cat, at->model), text);
    }
    return true;
}

/* Returns the placed profile that shows this execution: the only file with matching process, core,
 * model and time. NULL if two match. */
static const place *
shown_by(const mrd_places *p, const mrd_event *ev)
{
    const place *found = NULL;
    const mrd_track *t;

    if (ev->kind != MRD_SPAN ||
        (ev->name != p->names[0] && ev->name != p->names[1] && ev->name != p->names[2]))
        return NULL;
    t = mrd_catalog_borrow_track(p->cat, ev->track);
    for (size_t i = 0; i < p->n; i++) {
        const place *at = &p->v[i];

        if (at->placed && t->process == at->process &&
            (at->capture->nc_idx == MRD_NONE || t->lnc_idx == at->capture->nc_idx) &&
            mrd_ev_before(ev->ts, at->to) && mrd_ev_after(mrd_event_end(ev), at->from) &&
            model_fits(p, at, ev)) {
            if (found != NULL && found->file != at->file)
                return NULL;
            found = at;
        }
    }
    return found;
}

static void
name_profiles(mapper *m, mrd_event *events, size_t n)
{
    size_t need = 0, used = 0;

    for (size_t i = 0; i < n; i++)
        if (shown_by(m->p, &events[i]) != NULL)
            need += events[i].arg_count + 2;
    if (need == 0 || !MRD_VEC_ROOM(m->args, 0u, m->cap_args, need))
        return;
    for (size_t i = 0; i < n; i++) {
        const place *at = shown_by(m->p, &events[i]);
        mrd_arg *args = &m->args[used];

        if (at == NULL)
            continue;
        if (events[i].arg_count > 0)
            memcpy(args, events[i].args, events[i].arg_count * sizeof(*args));
        args[events[i].arg_count++] =
            (mrd_arg){ .key = m->p->key, .type = MRD_ARG_STR, .v.sid = at->file };
        if (at->flops != MRD_NONE)
            args[events[i].arg_count++] =
                (mrd_arg){ .key = m->p->flops_key, .type = MRD_ARG_INT, .v.i = at->flops };
        events[i].args = args;
        used += events[i].arg_count;
    }
}

static void
map(void *self, mrd_event *events, size_t n)
{
    mapper *m = self;

    if (m->of == NULL) {
        name_profiles(m, events, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        events[i].ts.ns += m->of->offset_ns;
        events[i].bound_ns = m->of->bound_ns;
    }
}

typedef struct {
    mrd_source source;
    mrd_source *inner; /* the mapped one */
    mapper m;
} placed_source;

static mrd_step
placed_run(mrd_source *self, mrd_event **ret_events, size_t *ret_n, mrd_why *why)
{
    placed_source *s = (placed_source *) self;

    return s->inner->run(s->inner, ret_events, ret_n, why);
}

static mrd_step
placed_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    placed_source *s = (placed_source *) self;

    return s->inner->next(s->inner, ret_event, why);
}

static void
placed_close(mrd_source *self)
{
    placed_source *s = (placed_source *) self;

    s->inner->close(s->inner);
    free(s->m.args);
    free(s);
}

static const place *
of_stream(const mrd_places *p, size_t i)
{
    for (size_t k = 0; k < p->n; k++)
        if (p->v[k].stream == i && p->v[k].placed)
            return &p->v[k];
    return NULL;
}

mrd_err
mrd_places_open(mrd_places *p, size_t i, mrd_source *inner, mrd_source **ret_source, mrd_why *why)
{
    const place *of = of_stream(p, i);
    bool system = mrd_stream_profile(mrd_store_at(p->store, i)) == 0;
    placed_source *s;
    mrd_err err;

    if (p->n == 0 || (of == NULL && !system)) {
        *ret_source = inner;
        return MRD_OK;
    }
    if ((s = calloc(1, sizeof(*s))) == NULL) {
        inner->close(inner);
        return mrd_why_set(why, MRD_NOMEM, 0, "placing device profiles");
    }
    s->m = (mapper){ .p = p, .of = of };
    if ((err = mrd_map_open(inner, map, &s->m, &s->inner, why)) != MRD_OK) {
        free(s);
        return err;
    }
    s->source = (mrd_source){ .next = placed_next,
                              .close = placed_close,
                              .run = s->inner->run == NULL ? NULL : placed_run };
    *ret_source = &s->source;
    return MRD_OK;
}

void
mrd_places_range(const mrd_places *p, size_t i, mrd_ev_ns *first, mrd_ev_ns *last)
{
    const place *of = of_stream(p, i);

    if (of == NULL)
        return;
    *first = mrd_ev_add(*first, of->offset_ns);
    *last = mrd_ev_add(*last, of->offset_ns);
}
