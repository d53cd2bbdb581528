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
/* Maximum difference between the length of a profile and the length of its execution, in
 * thousandths of the execution's length. */
#define TOLERANCE_PM 2

/* An execution on a core as the system trace shows it. */
typedef struct {
    mrd_proc_id process;
    int64_t core;
    mrd_ev_ns start;
    mrd_nc_ns nc, nc_end; /* start and end by the device's clock; MRD_NONE if not stated */
    mrd_dur_ns dur_ns;
    uint32_t bound_ns;
    mrd_sid model;
} execution;

typedef struct {
    /* borrowed from the catalog, which does not change any more */
    const mrd_device_capture *capture;
    size_t stream; /* index of the profile's stream; SIZE_MAX if it has none */
    bool placed, by_clock;
    mrd_dur_ns offset_ns; /* session time minus the time in the profile */
    mrd_ev_ns from, to;
    uint32_t bound_ns;
    /* the process in the system profile to which this device profile belongs */
    mrd_proc_id process;
    mrd_sid file, model; /* name of the file; name of the model, MRD_SID_EMPTY if unknown */
    int64_t flops;       /* floating point operations of one execution, or MRD_NONE */
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

/* State of a source that passes on the events of another source. It moves their times to session
 * time and adds arguments. */
typedef struct {
    mrd_places *p;
    const place *of; /* the stream of this device profile is read; NULL means the system profile */
    mrd_arg *args;   /* arguments of the current events, which replace the original ones */
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

/* Returns true if process `system` of the system profile and process `device` of a device profile
 * are the same. */
static bool
same_process(const mrd_catalog *cat, mrd_proc_id system, mrd_proc_id device)
{
    const mrd_process *a = mrd_catalog_borrow_process(cat, system),
                      *b = mrd_catalog_borrow_process(cat, device);

    return a->profile == 0 && a->process_id == b->process_id && a->instance_id == b->instance_id &&
           ((a->flags | b->flags) & MRD_PROC_NO_PID) == 0;
}

static bool
is_wanted(const mrd_places *places, mrd_proc_id process, int64_t core)
{
    for (size_t i = 0; i < places->n; i++) {
        const mrd_device_capture *capture = places->v[i].capture;

        if ((capture->nc_idx == MRD_NONE || core == capture->nc_idx) &&
            same_process(places->cat, process, capture->process))
            return true;
    }
    return false;
}

static int64_t
number_arg(const mrd_arg *arg)
{
    return mrd_arg_is_int(arg) ? arg->v.i : MRD_NONE;
}

static mrd_sid
model_arg(mrd_places *places, const mrd_arg *arg)
{
    char text[24];

    if (arg->type == MRD_ARG_STR)
        return arg->v.sid;
    if (number_arg(arg) == MRD_NONE)
        return MRD_SID_EMPTY;
    snprintf(text, sizeof(text), "%" PRId64, arg->v.i);
    return mrd_catalog_intern(places->cat, text);
}

static mrd_err
take_event(mrd_places *places, const mrd_event *ev, mrd_why *why)
{
    const mrd_track *track;
    execution e;

    if (ev->kind != MRD_SPAN || ev->name != places->names[0] || ev->dur_ns < 0)
        return MRD_OK;
    track = mrd_catalog_borrow_track(places->cat, ev->track);
    e = (execution){ .process = track->process,
                     .core = track->lnc_idx,
                     .start = { ev->ts.ns },
                     .dur_ns = ev->dur_ns,
                     .nc = { MRD_NONE },
                     .nc_end = { MRD_NONE },
                     .bound_ns = ev->bound_ns };
    if (!is_wanted(places, e.process, e.core) || places->n_execs >= MRD_PLACE_MAX)
        return MRD_OK;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (ev->args[i].key == places->nc_key)
            e.nc = (mrd_nc_ns){ number_arg(&ev->args[i]) };
        else if (ev->args[i].key == places->nc_end_key)
            e.nc_end = (mrd_nc_ns){ number_arg(&ev->args[i]) };
        else if (ev->args[i].key == places->model_key)
            e.model = model_arg(places, &ev->args[i]);
    }
    if (!MRD_VEC_ROOM_MAX(places->execs, places->n_execs, places->cap_execs, 1, MRD_PLACE_MAX))
        return mrd_why_set(why, MRD_NOMEM, 0, "placing device profiles");
    places->execs[places->n_execs++] = e;
    return MRD_OK;
}

static mrd_err
take_stream(mrd_places *places, mrd_alignment *alignment, size_t i, mrd_why *why)
{
    mrd_source *source = NULL;
    const mrd_event *ev;
    mrd_err err = alignment != NULL ? mrd_alignment_open(alignment, i, &source, why)
                                    : mrd_stream_open(mrd_store_at(places->store, i), &source, why);

    /* Errors at the end of the stream are ignored here, because the merge reads the stream again
     * and reports them. */
    while (err == MRD_OK && source->next(source, &ev, why) == MRD_MORE)
        err = take_event(places, ev, why);
    if (source != NULL)
        source->close(source);
    return err;
}

/* ---- Placing device profiles ---- */

static bool
is_of(const mrd_places *places, const place *at, const execution *e)
{
    const mrd_device_capture *capture = at->capture;
    size_t n;
    mrd_sid model = mrd_catalog_devprofiles(places->cat, &n)[capture->profile].model;

    return (capture->nc_idx == MRD_NONE || e->core == capture->nc_idx) &&
           (model == MRD_SID_EMPTY || e->model == MRD_SID_EMPTY || model == e->model) &&
           same_process(places->cat, e->process, capture->process);
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

/* Returns true if the rows of a profile have times of the device's clock. In some files, rows count
 * time from the start of the file instead. */
static bool
has_device_times(const mrd_device_capture *capture)
{
    return capture->first.ns >= capture->hw_first.ns && capture->first.ns <= capture->hw_last.ns;
}

/* Returns the maximum drift in ns between the device's clock and the host's clock, from the start
 * of an execution to the row of the capture that is farthest from it. */
static int64_t
find_drift(const execution *e, const mrd_device_capture *capture)
{
    mrd_nc_ns end = e->nc_end.ns != MRD_NONE ? e->nc_end : mrd_nc_add(e->nc, e->dur_ns);
    int64_t drift = e->nc_end.ns != MRD_NONE ? length_apart(e->dur_ns, mrd_nc_diff(end, e->nc))
                                             : (int64_t) (NRT_RATE * (double) e->dur_ns) + 1;
    int64_t outside = 0;

    if (mrd_nc_before(capture->hw_first, e->nc))
        outside += mrd_nc_diff(e->nc, capture->hw_first);
    if (mrd_nc_after(capture->hw_last, end))
        outside += mrd_nc_diff(capture->hw_last, end);
    return drift + (int64_t) (NRT_RATE * (double) outside);
}

static bool
place_by_clock(mrd_places *places, place *at)
{
    const mrd_device_capture *capture = at->capture;
    const execution *best = NULL;
    int64_t best_away = INT64_MAX;

    if (capture->hw_first.ns == MRD_NONE || capture->hw_last.ns == MRD_NONE)
        return false;
    for (size_t i = 0; i < places->n_execs; i++) {
        const execution *e = &places->execs[i];
        int64_t slack = e->dur_ns / 1000 * TOLERANCE_PM + TOLERANCE_NS;
        int64_t away = mrd_nc_after(e->nc, capture->hw_first)
                           ? mrd_nc_diff(e->nc, capture->hw_first)
                           : mrd_nc_diff(capture->hw_first, e->nc);

        if (e->nc.ns == MRD_NONE || !is_of(places, at, e) ||
            mrd_nc_after(e->nc, mrd_nc_add(capture->hw_last, slack)) ||
            mrd_nc_before(mrd_nc_add(mrd_nc_add(e->nc, e->dur_ns), slack), capture->hw_first) ||
            away >= best_away)
            continue;
        best_away = away;
        best = e;
    }
    if (best == NULL)
        return false;
    at->offset_ns = best->start.ns - best->nc.ns;
    at->bound_ns = widen_bound(best->bound_ns, find_drift(best, capture));
    if (!has_device_times(capture)) {
        at->offset_ns += capture->hw_first.ns - capture->first.ns;
        /* The capture may be longer than the time that its rows cover. It is unknown where in the
         * capture the rows begin, so the error bound grows by the difference. */
        at->bound_ns =
            widen_bound(at->bound_ns, length_apart(mrd_nc_diff(capture->hw_last, capture->hw_first),
                                                   mrd_ev_diff(capture->last, capture->first)));
    }
    at->process = best->process;
    return at->placed = at->by_clock = true;
}

static bool
place_by_length(mrd_places *places, place *at, size_t *ret_fitting)
{
    const mrd_device_capture *capture = at->capture;
    const execution *found = NULL;
    int64_t off = 0;

    *ret_fitting = 0;
    for (size_t i = 0; i < places->n_execs && capture->total_ns > 0; i++) {
        const execution *e = &places->execs[i];
        int64_t diff = length_apart(e->dur_ns, capture->total_ns);
        int64_t slack = e->dur_ns / 1000 * TOLERANCE_PM;

        if (!is_of(places, at, e) || diff > (slack > TOLERANCE_NS ? slack : TOLERANCE_NS))
            continue;
        /* A logical core consists of two physical ones, and both report the same execution.
         * Executions that overlap therefore count as one. */
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
    at->offset_ns = mrd_ev_diff(found->start, capture->first);
    at->bound_ns = widen_bound(
        found->bound_ns,
        off + length_apart(capture->total_ns, mrd_ev_diff(capture->last, capture->first)));
    at->process = found->process;
    return at->placed = true;
}

/* Returns true if the time of the placed profile contains exactly one execution. */
static bool
shows_one(const mrd_places *places, const place *at)
{
    const execution *found = NULL;

    for (size_t i = 0; i < places->n_execs; i++) {
        const execution *e = &places->execs[i];
        mrd_ev_ns end = mrd_ev_add(e->start, e->dur_ns);

        if (!is_of(places, at, e) || !mrd_ev_before(e->start, at->to) ||
            !mrd_ev_after(end, at->from))
            continue;
        /* overlapping executions are one, reported by the two physical cores of a logical one */
        if (found != NULL && !mrd_ev_before(e->start, mrd_ev_add(found->start, found->dur_ns)))
            return false;
        found = e;
    }
    return found != NULL;
}

static void
say(mrd_places *places, const place *at, size_t fitting)
{
    mrd_str file = mrd_catalog_text(places->cat, at->file);
    char bound[32] = "not known";

    if (at->placed) {
        if (at->bound_ns != MRD_BOUND_UNKNOWN)
            snprintf(bound, sizeof(bound), "%" PRIu32 " ns", at->bound_ns);
        mrd_catalog_note(places->cat,
                         MRD_STR_FMT " of core %" PRId64
                                     " is on the time of the system profile (%s, bound %s)",
                         MRD_STR_ARG(file), at->capture->nc_idx,
                         at->by_clock ? "by the device's clock and the runtime's sync points"
                                      : "by the length of its execution",
                         bound);
        return;
    }
    if (places->n_execs == 0)
        return; /* without a system trace, no profile can be placed, so no note is needed */
    if (fitting > 1)
        mrd_catalog_note(places->cat,
                         MRD_STR_FMT
                         " stays on its own time: %zu executions are as long as it says it is",
                         MRD_STR_ARG(file), fitting);
    else
        mrd_catalog_note(places->cat,
                         MRD_STR_FMT " stays on its own time: no nc_exec_running of its core has "
                                     "its device clock or its length",
                         MRD_STR_ARG(file));
}

static void
place_one(mrd_places *places, place *at)
{
    const mrd_device_capture *capture = at->capture;
    mrd_buf name = { 0 };
    size_t fitting = 0, n;

    mrd_place_file(places->cat, capture->profile, &name);
    mrd_buf_text(&name, ".pftrace");
    at->file = mrd_catalog_intern(places->cat, mrd_buf_cstr(&name));
    mrd_buf_fini(&name);
    at->model = mrd_catalog_devprofiles(places->cat, &n)[capture->profile].model;
    at->stream = SIZE_MAX;
    for (size_t i = 0; i < mrd_store_streams(places->store); i++)
        if (mrd_stream_profile(mrd_store_at(places->store, i)) == capture->profile &&
            mrd_str_is(mrd_catalog_text(places->cat, capture->label),
                       mrd_stream_label(mrd_store_at(places->store, i))))
            at->stream = i;
    if (!place_by_clock(places, at))
        (void) place_by_length(places, at, &fitting);
    at->from = mrd_ev_add(capture->first, at->offset_ns);
    at->to = mrd_ev_add(capture->last, at->offset_ns);
    at->flops = at->placed && shows_one(places, at) ? capture->flops : MRD_NONE;
    say(places, at, fitting);
}

mrd_err
mrd_places_new(mrd_catalog *cat, mrd_store *store, mrd_alignment *alignment,
               mrd_places **ret_places, mrd_why *why)
{
    mrd_places *places = calloc(1, sizeof(*places));
    size_t count;
    const mrd_device_capture *captures = mrd_catalog_captures(cat, &count);
    mrd_err err = MRD_OK;

    if (places == NULL || (count > 0 && (places->v = calloc(count, sizeof(*places->v))) == NULL)) {
        free(places);
        return mrd_why_set(why, MRD_NOMEM, 0, "placing device profiles");
    }
    places->cat = cat;
    places->store = store;
    places->n = count;
    places->key = mrd_catalog_intern(cat, "device_profile");
    places->flops_key = mrd_arg_key_add(mrd_catalog_strings(cat), MRD_KEY_FLOPS);
    places->names[0] = mrd_catalog_intern(cat, "nc_exec_running");
    places->names[1] = mrd_catalog_intern(cat, "nrt_execute");
    places->names[2] = mrd_catalog_intern(cat, "nrta_execute_schedule");
    places->nc_key = mrd_arg_key_add(mrd_catalog_strings(cat), MRD_KEY_NC_TIME);
    places->nc_end_key = mrd_arg_key_add(mrd_catalog_strings(cat), MRD_KEY_NC_TIME_END);
    places->model_key = mrd_arg_key_add(mrd_catalog_strings(cat), MRD_KEY_MODEL);
    for (size_t i = 0; i < count; i++)
        places->v[i].capture = &captures[i];
    for (size_t i = 0; i < mrd_store_streams(store) && count > 0 && err == MRD_OK; i++)
        if (mrd_stream_profile(mrd_store_at(store, i)) == 0)
            err = take_stream(places, alignment, i, why);
    for (size_t i = 0; i < count && err == MRD_OK; i++)
        place_one(places, &places->v[i]);
    if (err != MRD_OK)
        mrd_places_free(places);
    else
        *ret_places = places;
    return err;
}

void
mrd_places_free(mrd_places *places)
{
    if (places == NULL)
        return;
    free(places->v);
    free(places->execs);
    free(places);
}

/* ---- Changing events before they are merged ---- */

/* Returns true if the execution and the profile have the same model, or if one of them states no
 * model. */
static bool
model_fits(const mrd_places *places, const place *at, const mrd_event *ev)
{
    char text[24];

    if (at->model == MRD_SID_EMPTY)
        return true;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];

        if (arg->key != places->model_key)
            continue;
        if (arg->type == MRD_ARG_STR)
            return arg->v.sid == MRD_SID_EMPTY || arg->v.sid == at->model;
        if (number_arg(arg) == MRD_NONE)
            return true;
        snprintf(text, sizeof(text), "%" PRId64, arg->v.i);
        return mrd_str_is(mrd_catalog_text(places->cat, at->model), text);
    }
    return true;
}

/* Returns the placed profile that shows an execution: the only file with matching process, core,
 * model and time. Returns NULL if there is none, or if two match. */
static const place *
shown_by(const mrd_places *places, const mrd_event *ev)
{
    const place *found = NULL;
    const mrd_track *track;

    if (ev->kind != MRD_SPAN || (ev->name != places->names[0] && ev->name != places->names[1] &&
                                 ev->name != places->names[2]))
        return NULL;
    track = mrd_catalog_borrow_track(places->cat, ev->track);
    for (size_t i = 0; i < places->n; i++) {
        const place *at = &places->v[i];

        if (at->placed && track->process == at->process &&
            (at->capture->nc_idx == MRD_NONE || track->lnc_idx == at->capture->nc_idx) &&
            mrd_ev_before(ev->ts, at->to) && mrd_ev_after(mrd_event_end(ev), at->from) &&
            model_fits(places, at, ev)) {
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
    mrd_source *inner; /* the source of the events that are changed */
    mapper m;
} placed_source;

static mrd_step
placed_run(mrd_source *self, mrd_event **ret_events, size_t *ret_n, mrd_why *why)
{
    placed_source *source = (placed_source *) self;

    return source->inner->run(source->inner, ret_events, ret_n, why);
}

static mrd_step
placed_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    placed_source *source = (placed_source *) self;

    return source->inner->next(source->inner, ret_event, why);
}

static void
placed_close(mrd_source *self)
{
    placed_source *source = (placed_source *) self;

    source->inner->close(source->inner);
    free(source->m.args);
    free(source);
}

static const place *
of_stream(const mrd_places *places, size_t i)
{
    for (size_t k = 0; k < places->n; k++)
        if (places->v[k].stream == i && places->v[k].placed)
            return &places->v[k];
    return NULL;
}

mrd_err
mrd_places_open(mrd_places *places, size_t i, mrd_source *inner, mrd_source **ret_source,
                mrd_why *why)
{
    const place *of = of_stream(places, i);
    bool system = mrd_stream_profile(mrd_store_at(places->store, i)) == 0;
    placed_source *source;
    mrd_err err;

    if (places->n == 0 || (of == NULL && !system)) {
        *ret_source = inner;
        return MRD_OK;
    }
    if ((source = calloc(1, sizeof(*source))) == NULL) {
        inner->close(inner);
        return mrd_why_set(why, MRD_NOMEM, 0, "placing device profiles");
    }
    source->m = (mapper){ .p = places, .of = of };
    if ((err = mrd_map_open(inner, map, &source->m, &source->inner, why)) != MRD_OK) {
        free(source);
        return err;
    }
    source->source = (mrd_source){ .next = placed_next,
                                   .close = placed_close,
                                   .run = source->inner->run == NULL ? NULL : placed_run };
    *ret_source = &source->source;
    return MRD_OK;
}

void
mrd_places_range(const mrd_places *places, size_t i, mrd_ev_ns *first, mrd_ev_ns *last)
{
    const place *of = of_stream(places, i);

    if (of == NULL)
        return;
    *first = mrd_ev_add(*first, of->offset_ns);
    *last = mrd_ev_add(*last, of->offset_ns);
}
