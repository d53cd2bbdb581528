/* trace/import/nrt/nrt_pair.c - pairs the starts and stops of the runtime's trace, so that each
 * pair becomes a span. Also finds their tracks, and delays events that need further sync points. */
#include "trace/import/nrt/import_nrt_int.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/event_type.h"

mrd_err
mrd_nrt_drop(mrd_nrt *nrt, const nrt_record *rec, const char *format, ...)
{
    char text[160];
    va_list args;

    nrt->counts.records++;
    if (nrt->counts.dropped++ > 0)
        return MRD_OK;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(nrt->counts.first_drop, sizeof(nrt->counts.first_drop), "byte %llu: %s",
             (unsigned long long) rec->offset, text);
    return MRD_OK;
}

static bool
nrt_is_hardware(mrd_nrt *nrt, const nrt_record *rec)
{
    nrt_type *type = &nrt->types[rec->type & (NRT_TYPES - 1)];

    if (type->type != rec->type)
        *type =
            (nrt_type){ rec->type, mrd_type_is_hardware(mrd_strtab_get(nrt->strings, rec->type)) };
    /* an event of unknown type is from the hardware if it has a device time */
    return type->hardware || rec->has_nc_ts;
}

/* ---- Tracks ---- */

static mrd_track_id
nrt_track(mrd_nrt *nrt, const nrt_record *rec)
{
    int64_t line = rec->hardware ? rec->pcore_idx : rec->thread_id;
    uint64_t hash = ((uint64_t) line * 8 + rec->hardware) * 0x9e3779b97f4a7c15u +
                    (uint64_t) rec->nc_idx * 0xd6e8feb86659fd93u;
    nrt_line *l = &nrt->lines[hash >> 32 & (NRT_LINES - 1)];
    mrd_track track;

    if (l->used && l->hardware == rec->hardware && l->nc_idx == rec->nc_idx && l->line == line &&
        l->worker_gid == rec->worker_gid)
        return l->track;
    mrd_track_init(&track, nrt->o.process, rec->hardware ? MRD_SRC_DEVICE : MRD_SRC_RUNTIME);
    track.lnc_idx = rec->nc_idx;
    track.pcore_idx = rec->hardware ? rec->pcore_idx : MRD_NONE;
    track.thread_id = rec->hardware ? MRD_NONE : rec->thread_id;
    track.worker_gid = rec->worker_gid;
    *l = (nrt_line){ true, rec->hardware,   rec->nc_idx,
                     line, rec->worker_gid, mrd_catalog_track(nrt->o.catalog, &track) };
    return l->track;
}

/* ---- Emitting events ---- */

/* Stores the flow arrows of an event in `flows`. One arrow leads from the submission of an
 * execution to its run on the core. Another one connects all events of an asynchronous request,
 * which share an nrta_seq_id. */
static void
nrt_arrows(const mrd_nrt *nrt, const nrt_record *rec, mrd_event *ev, mrd_flow flows[2])
{
    const mrd_arg *seq = mrd_event_arg(ev, nrt->key_seq);
    mrd_flow *to = flows;

    if (rec->has_exec && (ev->name == nrt->type_pre || ev->name == nrt->type_running))
        *to++ =
            (mrd_flow){ .id = mrd_flow_id(nrt->o.flow_scope,
                                          nrt->flow_hash ^ (uint64_t) rec->nc_idx, rec->exec_id),
                        .dir = ev->name == nrt->type_pre ? MRD_FLOW_START : MRD_FLOW_END };
    if (mrd_nrt_is_seq(seq))
        *to++ =
            (mrd_flow){ .id = mrd_nrt_seq_flow(nrt->o.flow_scope, seq->v.u), .dir = MRD_FLOW_STEP };
    ev->flow_count = (uint8_t) (to - flows);
    ev->flows = to > flows ? flows : NULL;
}

static mrd_err
nrt_give(mrd_nrt *nrt, const mrd_event *ev)
{
    mrd_arg args[NRT_TRANSFER_ARGS];
    mrd_event copy;
    mrd_err err;

    nrt->counts.events++;
    if (ev->kind != MRD_SPAN)
        return nrt->o.emit(nrt->o.self, ev);
    copy = *ev;
    err = nrt->o.emit(nrt->o.self, mrd_nrt_transfer(nrt, &copy, args) ? &copy : ev);
    return err != MRD_OK ? err : mrd_nrt_memory(nrt, ev);
}

/* ---- Device times ---- */

static bool
nrt_number(const mrd_arg *arg, int64_t *ret_v)
{
    if (mrd_arg_is_int(arg))
        *ret_v = arg->v.i;
    return mrd_arg_is_int(arg);
}

/* Begin and end of a hardware event on the device's clock. `start` also has the event's core and
 * execution, and the host time to which the runtime moved the event. */
typedef struct {
    nrt_sync start;
    mrd_nc_ns end;
} nrt_span;

static nrt_span
nrt_span_of(const mrd_nrt *nrt, const mrd_event *ev)
{
    const mrd_track *track = mrd_catalog_borrow_track(nrt->o.catalog, ev->track);
    nrt_span span = { .start = { .nc_idx = track->lnc_idx, .pcore_idx = track->pcore_idx } };
    int64_t end = 0, exec = 0, length = ev->dur_ns > 0 ? ev->dur_ns : 0;
    bool has_end = false;

    if ((ev->flags & NRT_DEVICE) != 0)
        span.start.device = (mrd_nc_ns){ ev->ts.ns };
    else
        span.start.cpu = (mrd_wall_ns){ ev->ts.ns };
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];

        if (arg->key == nrt->key_exec)
            span.start.has_exec = nrt_number(arg, &exec);
        else if (arg->key == nrt->key_nc_ts && span.start.cpu.ns != 0)
            (void) nrt_number(arg, &span.start.device.ns);
        else if (arg->key == nrt->key_end_nc_ts)
            has_end = nrt_number(arg, &end);
    }
    span.start.exec_id = (uint64_t) exec;
    if (__builtin_add_overflow(span.start.device.ns, length, &span.end.ns))
        span.end = span.start.device;
    if (has_end && ev->dur_ns >= 0 && end >= span.start.device.ns)
        span.end = (mrd_nc_ns){ end };
    return span;
}

/* Converts begin and length of a hardware event from the device's clock to the host's, and sets the
 * error bound. If that is impossible, only sets the bound to unknown. */
static nrt_mapped
nrt_map(const mrd_nrt *nrt, mrd_event *ev)
{
    nrt_span span = nrt_span_of(nrt, ev);
    mrd_wall_ns host;
    mrd_dur_ns dur;
    nrt_mapped how;

    ev->flags &= (uint8_t) ~(NRT_DEVICE | NRT_MOVED);
    ev->bound_ns = MRD_BOUND_UNKNOWN;
    how = mrd_nrt_clock_map(&nrt->clock, &span.start, span.end, &host, &dur, &ev->bound_ns);
    if (how == NRT_MAP_NONE)
        return how;
    ev->flags |= MRD_EV_DEVICE_BOUND;
    ev->ts = (mrd_ev_ns){ host.ns };
    if (ev->dur_ns > 0)
        ev->dur_ns = dur;
    return how;
}

/* Converts an event's device time to host time and emits the event. If the event's timestamp was
 * device time, adds an argument that says how it was converted. */
static mrd_err
nrt_give_mapped(mrd_nrt *nrt, const mrd_event *from)
{
    mrd_event ev = *from;
    mrd_arg how = { .key = nrt->key_time, .type = MRD_ARG_STR };
    bool moved = (from->flags & NRT_DEVICE) == 0;
    mrd_err err;

    switch (nrt_map(nrt, &ev)) {
    case NRT_MAP_BETWEEN:
        how.v.sid = nrt->time_between;
        nrt->counts.between++;
        break;
    case NRT_MAP_BEYOND:
        how.v.sid = nrt->time_beyond;
        nrt->counts.beyond++;
        break;
    case NRT_MAP_NONE:
        how.v.sid = nrt->time_none;
        nrt->counts.unmapped += !moved;
        nrt->counts.moved += moved;
        break;
    }
    if (!moved && (err = mrd_join(&nrt->joiner, from, &how, 1, &ev.args, &ev.arg_count)) != MRD_OK)
        return err;
    return nrt_give(nrt, &ev);
}

static mrd_map_key
nrt_held_key(int64_t nc_idx)
{
    return (mrd_map_key){ (uint64_t) nc_idx, 0, 0 };
}

static mrd_err
nrt_release(mrd_nrt *nrt, uint32_t slot)
{
    mrd_open *open = mrd_open_take(&nrt->held, slot);
    mrd_err err = nrt_give_mapped(nrt, &open->ev);

    mrd_open_free(open);
    return err;
}

/*
 * Returns true if all sync points for the conversion of an event have arrived. In a live trace, an
 * event that the runtime has moved to host time needs only the sync point that the runtime used.
 * Any other event needs the sync point of its execution, and at least two for its core. The first
 * one alone may be from another clock of the core.
 */
static bool
nrt_is_ready(const mrd_nrt *nrt, const mrd_event *ev)
{
    nrt_span span = nrt_span_of(nrt, ev);

    nrt_sync end = nrt_sync_at(&span.start, span.end);

    if (!nrt->o.patient && (ev->flags & NRT_MOVED) != 0)
        return !mrd_nrt_clock_is_ahead(&nrt->clock, &end);
    return mrd_nrt_clock_is_ready(&nrt->clock, &end,
                                  nrt->o.patient ? NRT_POINTS_ENOUGH : NRT_POINTS_LEAST);
}

/* Emits a complete hardware event with device time, or delays it until its sync points arrive. */
static mrd_err
nrt_hold(mrd_nrt *nrt, const mrd_event *ev)
{
    mrd_open *open;
    mrd_err err;

    if (nrt_is_ready(nrt, ev))
        return nrt_give_mapped(nrt, ev);
    if (nrt->held.used >= NRT_HELD_MAX &&
        (err = nrt_release(nrt, mrd_open_oldest(&nrt->held))) != MRD_OK)
        return err;
    if ((open = mrd_open_new(ev)) == NULL)
        return MRD_NOMEM;
    open->mark = nrt->from;
    err = mrd_open_put(&nrt->held,
                       nrt_held_key(mrd_catalog_borrow_track(nrt->o.catalog, ev->track)->lnc_idx),
                       open);
    if (err != MRD_OK)
        mrd_open_free(open);
    return err;
}

/* Emits the delayed events of this core that now have all their sync points. */
static mrd_err
nrt_release_ready(mrd_nrt *nrt, int64_t nc_idx)
{
    uint32_t slot = mrd_open_first(&nrt->held, nrt_held_key(nc_idx));
    mrd_err err = MRD_OK;

    while (err == MRD_OK && slot != MRD_OPEN_NONE) {
        uint32_t next = mrd_open_next(&nrt->held, slot);

        if (nrt_is_ready(nrt, &mrd_open_at(&nrt->held, slot)->ev))
            err = nrt_release(nrt, slot);
        slot = next;
    }
    return err;
}

/* ---- Records ---- */

/* Returns true if the record's timestamp_ns was taken from the device's clock. */
static bool
nrt_uses_device(const mrd_nrt *nrt, const nrt_record *rec)
{
    return rec->hardware && rec->has_nc_ts &&
           mrd_nrt_clock_is_device(&nrt->clock, rec->ts, rec->nc_ts);
}

static void
nrt_event(mrd_nrt *nrt, const nrt_record *rec, mrd_event_kind kind, mrd_flow flows[2],
          mrd_event *ev)
{
    size_t n;

    *ev = (mrd_event){ .ts = rec->ts,
                       .id = rec->id,
                       .kind = (uint8_t) kind,
                       .flags = nrt->o.simulated ? MRD_EV_SIMULATED : 0,
                       .name = rec->type,
                       .bound_ns = MRD_BOUND_LOCAL,
                       .track = nrt_track(nrt, rec) };
    if (rec->phase == NRT_UNKNOWN)
        mrd_args_str(nrt->args, nrt->key_phase, MRD_STR("unknown"));
    ev->args = mrd_args_view(nrt->args, &n);
    ev->arg_count = (uint32_t) n;
    nrt_arrows(nrt, rec, ev, flows);
}

/* Marks an event with device time. Sets NRT_DEVICE if its timestamp is device time. Sets NRT_MOVED
 * if the runtime moved the timestamp to host time, and the device time is an argument. */
static void
nrt_mark_device(const mrd_nrt *nrt, const nrt_record *rec, mrd_event *ev)
{
    if (nrt_uses_device(nrt, rec)) {
        ev->ts = (mrd_ev_ns){ rec->nc_ts.ns };
        ev->flags |= NRT_DEVICE;
    } else if (rec->hardware && rec->has_nc_ts) {
        ev->flags |= NRT_MOVED;
    }
}

static mrd_err
nrt_sync_point(mrd_nrt *nrt, nrt_record *rec, mrd_event *ev)
{
    nrt_sync sync = { rec->nc_idx,   rec->pcore_idx, rec->exec_id,
                      rec->has_exec, rec->nc_ts,     rec->cpu_ts };
    bool device = mrd_nrt_clock_is_device(&nrt->clock, rec->ts, rec->nc_ts);
    mrd_err err = mrd_nrt_clock_sync(&nrt->clock, &sync);

    if (err != MRD_OK)
        return err;
    if (device)
        ev->ts = (mrd_ev_ns){ rec->cpu_ts.ns };
    err = nrt_give(nrt, ev);
    return err == MRD_OK ? nrt_release_ready(nrt, rec->nc_idx) : err;
}

/* Emits an event that is complete: it has start and stop, or needs only one of them. Events with
 * device time may be delayed until their sync points arrive. */
static mrd_err
nrt_give_complete(mrd_nrt *nrt, const mrd_event *ev)
{
    return (ev->flags & (NRT_DEVICE | NRT_MOVED)) != 0 ? nrt_hold(nrt, ev) : nrt_give(nrt, ev);
}

static mrd_err
nrt_instant(mrd_nrt *nrt, nrt_record *rec)
{
    mrd_event ev;
    mrd_flow flows[2];

    nrt_event(nrt, rec, MRD_INSTANT, flows, &ev);
    nrt->counts.records++;
    if (rec->type == nrt->type_sync && rec->has_nc_ts && rec->has_cpu_ts)
        return nrt_sync_point(nrt, rec, &ev);
    nrt_mark_device(nrt, rec, &ev);
    return nrt_give_complete(nrt, &ev);
}

static mrd_map_key
nrt_pair_key(const nrt_record *rec)
{
    return (mrd_map_key){ (uint64_t) rec->nc_idx, rec->tracking_id, 0 };
}

/* Emits a start without a stop as an unfinished span. */
static mrd_err
nrt_give_unfinished(mrd_nrt *nrt, uint32_t slot)
{
    mrd_open *open = mrd_open_take(&nrt->open, slot);
    mrd_event ev = open->ev;
    mrd_err err;

    ev.dur_ns = MRD_DUR_UNFINISHED;
    nrt->counts.unfinished++;
    nrt->from = open->mark;
    err = nrt_give_complete(nrt, &ev);
    nrt->from = nrt->mark;
    mrd_open_free(open);
    return err;
}

/* Returns the table slot of the start (or stop) that belongs to this record. Both must have the
 * same event type, and the same physical core if the record states one. Returns MRD_OPEN_NONE if
 * there is none. */
static uint32_t
nrt_find_other(const mrd_nrt *nrt, const mrd_open_table *table, const nrt_record *rec)
{
    uint32_t slot = table->used == 0 ? MRD_OPEN_NONE : mrd_open_first(table, nrt_pair_key(rec));

    for (int looked = 0; slot != MRD_OPEN_NONE && looked < NRT_SAME_MAX; looked++) {
        const mrd_event *ev = &mrd_open_at(table, slot)->ev;

        if (ev->name == rec->type &&
            (rec->pcore_idx == MRD_NONE ||
             mrd_catalog_borrow_track(nrt->o.catalog, ev->track)->pcore_idx == rec->pcore_idx))
            return slot;
        slot = mrd_open_next(table, slot);
    }
    return MRD_OPEN_NONE;
}

/* Computes the length of a span in host time or device time, whichever both its start and its stop
 * state. Returns false if they state no common time, or if the stop is before the start. */
static bool
nrt_duration(const mrd_nrt *nrt, const mrd_event *start, const nrt_record *stop, int64_t *ret_dur)
{
    int64_t from = start->ts.ns, to = stop->ts.ns;

    if ((start->flags & NRT_DEVICE) != 0) {
        if (!stop->has_nc_ts)
            return false;
        to = stop->nc_ts.ns;
    } else if (nrt_uses_device(nrt, stop)) {
        const mrd_arg *nc = mrd_event_arg(start, nrt->key_nc_ts);

        if (nc == NULL || nc->type != MRD_ARG_INT)
            return false;
        from = nc->v.i;
        to = stop->nc_ts.ns;
    }
    return !__builtin_sub_overflow(to, from, ret_dur) && *ret_dur >= 0;
}

static uint32_t
nrt_max_open(const mrd_nrt *nrt)
{
    return nrt->o.max_open == 0 ? NRT_MAX_OPEN : nrt->o.max_open;
}

/* Emits a span made of a start event and the arguments of its stop. The caller keeps ownership of
 * both. */
static mrd_err
nrt_give_joined(mrd_nrt *nrt, const mrd_event *start, const mrd_arg *end, size_t n_end,
                int64_t dur_ns)
{
    mrd_event ev = *start;
    mrd_err err = mrd_join(&nrt->joiner, start, end, n_end, &ev.args, &ev.arg_count);

    ev.dur_ns = dur_ns;
    return err == MRD_OK ? nrt_give_complete(nrt, &ev) : err;
}

/* Emits a stop without a start as an event. */
static mrd_err
nrt_give_early(mrd_nrt *nrt, uint32_t slot)
{
    mrd_open *stop = mrd_open_take(&nrt->early, slot);
    mrd_err err;

    nrt->counts.no_start++;
    nrt->from = stop->mark;
    err = nrt_give_complete(nrt, &stop->ev);
    nrt->from = nrt->mark;
    mrd_open_free(stop);
    return err;
}

/*
 * Stores a stop that comes before its start. A process fetches with several threads, so the texts
 * of two threads can arrive in either order.
 */
static mrd_err
nrt_stop_early(mrd_nrt *nrt, nrt_record *rec)
{
    mrd_event ev;
    mrd_flow flows[2];
    mrd_open *stop;
    mrd_err err;

    if (nrt->again)
        return MRD_OK;
    nrt_event(nrt, rec, MRD_SPAN, flows, &ev);
    ev.flags |= MRD_EV_NO_START;
    nrt_mark_device(nrt, rec, &ev);
    if (nrt->early.used >= nrt_max_open(nrt) &&
        (err = nrt_give_early(nrt, mrd_open_oldest(&nrt->early))) != MRD_OK)
        return err;
    if ((stop = mrd_open_new(&ev)) == NULL)
        return MRD_NOMEM;
    nrt->counts.records++;
    stop->mark = nrt->mark;
    if ((err = mrd_open_put(&nrt->early, nrt_pair_key(rec), stop)) != MRD_OK)
        mrd_open_free(stop);
    return err;
}

/* Looks for a stop that arrived before this start. Sets *ret_done to true if both were emitted as a
 * span. */
static mrd_err
nrt_start_late(mrd_nrt *nrt, const nrt_record *rec, const mrd_event *start, bool *ret_done)
{
    uint32_t slot = nrt_find_other(nrt, &nrt->early, rec);
    nrt_record stop = { .hardware = rec->hardware };
    int64_t dur_ns;
    mrd_open *open;
    mrd_err err;

    *ret_done = false;
    if (slot == MRD_OPEN_NONE)
        return MRD_OK;
    open = mrd_open_at(&nrt->early, slot);
    stop.ts = open->ev.ts;
    stop.nc_ts = (mrd_nc_ns){ open->ev.ts.ns };
    stop.has_nc_ts = (open->ev.flags & NRT_DEVICE) != 0;
    if (!nrt_duration(nrt, start, &stop, &dur_ns))
        return MRD_OK;
    *ret_done = true;
    open = mrd_open_take(&nrt->early, slot);
    nrt->from = open->mark;
    err = nrt_give_joined(nrt, start, open->ev.args, open->ev.arg_count, dur_ns);
    nrt->from = nrt->mark;
    mrd_open_free(open);
    return err;
}

static mrd_err
nrt_start(mrd_nrt *nrt, nrt_record *rec)
{
    mrd_event ev;
    mrd_flow flows[2];
    mrd_open *open;
    mrd_err err;
    bool done;

    if (!rec->has_tracking)
        return mrd_nrt_drop(nrt, rec, "a start without tracking_id");
    nrt_event(nrt, rec, MRD_SPAN, flows, &ev);
    nrt_mark_device(nrt, rec, &ev);
    if ((err = nrt_start_late(nrt, rec, &ev, &done)) != MRD_OK || done)
        return err;
    if (nrt->open.used >= nrt_max_open(nrt) &&
        (err = nrt_give_unfinished(nrt, mrd_open_oldest(&nrt->open))) != MRD_OK)
        return err;
    if ((open = mrd_open_new(&ev)) == NULL)
        return MRD_NOMEM;
    nrt->counts.records++;
    open->mark = nrt->mark;
    if ((err = mrd_open_put(&nrt->open, nrt_pair_key(rec), open)) != MRD_OK)
        mrd_open_free(open);
    return err;
}

static mrd_err
nrt_stop(mrd_nrt *nrt, nrt_record *rec)
{
    uint32_t slot = nrt_find_other(nrt, &nrt->open, rec);
    const mrd_arg *end;
    mrd_open *open;
    int64_t dur_ns;
    mrd_err err;
    size_t n;

    if (!rec->has_tracking)
        return mrd_nrt_drop(nrt, rec, "a stop without tracking_id");
    if (slot == MRD_OPEN_NONE)
        return nrt_stop_early(nrt, rec);
    if (!nrt_duration(nrt, &mrd_open_at(&nrt->open, slot)->ev, rec, &dur_ns)) {
        err = nrt_give_unfinished(nrt, slot);
        return err != MRD_OK ? err : nrt_stop_early(nrt, rec);
    }
    open = mrd_open_take(&nrt->open, slot);
    end = mrd_args_view(nrt->args, &n);
    nrt->from = open->mark;
    err = nrt_give_joined(nrt, &open->ev, end, n, dur_ns);
    nrt->from = nrt->mark;
    mrd_open_free(open);
    return err;
}

mrd_err
mrd_nrt_dispatch(mrd_nrt *nrt, nrt_record *rec)
{
    mrd_err err;

    if (rec->bad == NULL && rec->has_ts && rec->type != MRD_SID_EMPTY)
        rec->hardware = nrt_is_hardware(nrt, rec);
    if ((err = mrd_nrt_ids_see(nrt, rec, rec->has_ts && !rec->hardware)) != MRD_OK)
        /* the event number was reported as lost before, so the event is ignored */
        return err == MRD_EXISTS ? MRD_OK : err;
    if (rec->bad != NULL)
        return mrd_nrt_drop(nrt, rec, "\"%s\" has the wrong type or range", rec->bad);
    if (rec->type == MRD_SID_EMPTY)
        return mrd_nrt_drop(nrt, rec, "an event without event_type");
    if (!rec->has_ts)
        return mrd_nrt_drop(nrt, rec, "an event without timestamp_ns");
    if (!rec->hardware)
        nrt_clock_host(&nrt->clock, (mrd_wall_ns){ rec->ts.ns });
    switch (rec->phase) {
    case NRT_START:
        return nrt_start(nrt, rec);
    case NRT_STOP:
        return nrt_stop(nrt, rec);
    case NRT_INSTANT:
    case NRT_UNKNOWN:
        break;
    }
    return nrt_instant(nrt, rec);
}

mrd_err
mrd_nrt_flush(mrd_nrt *nrt)
{
    mrd_err err = MRD_OK;
    uint32_t slot;

    while (err == MRD_OK && (slot = mrd_open_oldest(&nrt->open)) != MRD_OPEN_NONE)
        err = nrt_give_unfinished(nrt, slot);
    while (err == MRD_OK && (slot = mrd_open_oldest(&nrt->early)) != MRD_OPEN_NONE)
        err = nrt_give_early(nrt, slot);
    while (err == MRD_OK && (slot = mrd_open_oldest(&nrt->held)) != MRD_OPEN_NONE)
        err = nrt_release(nrt, slot);
    return err == MRD_OK ? mrd_nrt_report_gaps(nrt, (mrd_local_ns){ INT64_MAX }) : err;
}

/* ---- In flight ---- */

/* Returns true if the span is certainly still running. Sets *ret_ev to its start event in host
 * time. Returns false if its stop may have been lost, or its time cannot be converted. */
static bool
nrt_is_in_flight(const mrd_nrt *nrt, const mrd_open *open, mrd_event *ret_ev)
{
    bool device = (open->ev.flags & NRT_DEVICE) != 0;

    *ret_ev = open->ev;
    if ((ret_ev->flags & (NRT_DEVICE | NRT_MOVED)) != 0 && nrt_map(nrt, ret_ev) == NRT_MAP_NONE &&
        device)
        return false;
    return mrd_ev_after(ret_ev->ts, mrd_nrt_ids_doubt(nrt));
}

void
mrd_nrt_in_flight(const mrd_nrt *nrt, mrd_err (*call)(void *self, const mrd_event *ev), void *self)
{
    const mrd_open_table *table = &nrt->open;
    mrd_event ev;

    for (uint32_t slot = mrd_open_oldest(table); slot != MRD_OPEN_NONE;
         slot = table->slots[slot].newer)
        if (nrt_is_in_flight(nrt, mrd_open_at(table, slot), &ev) && call(self, &ev) != MRD_OK)
            return;
}

/* ---- Marks ---- */

void
mrd_nrt_mark(mrd_nrt *nrt, uint64_t mark, bool again, bool gaps_reported)
{
    nrt->again = again;
    nrt->mark_before = nrt->mark == 0 ? mark : nrt->mark;
    nrt->mark = nrt->from = mark;
    nrt->gaps_reported = gaps_reported;
}

#define NRT_NOT_TOLD UINT32_MAX

/* Counts a table's entries with a mark below `mark`, except starts that were passed to the caller
 * in round `told` (mrd_nrt_tell_before). Lowers *lowest and *oldest to the lowest mark and the
 * oldest host time of these entries. */
static uint64_t
nrt_waiting(const mrd_open_table *table, uint64_t mark, uint32_t told, uint64_t *lowest,
            mrd_wall_ns *oldest)
{
    uint64_t n = 0;

    for (uint32_t slot = mrd_open_oldest(table); slot != MRD_OPEN_NONE;
         slot = table->slots[slot].newer) {
        const mrd_open *open = mrd_open_at(table, slot);

        if (open->mark >= mark || open->told == told)
            continue;
        n++;
        *lowest = open->mark < *lowest ? open->mark : *lowest;
        if ((open->ev.flags & NRT_DEVICE) == 0 && (oldest->ns == 0 || open->ev.ts.ns < oldest->ns))
            *oldest = (mrd_wall_ns){ open->ev.ts.ns };
    }
    return n;
}

uint64_t
mrd_nrt_oldest(const mrd_nrt *nrt)
{
    uint64_t lowest = UINT64_MAX, slot;
    mrd_wall_ns oldest = { 0 };

    /* pending starts are ordered by arrival, so the first one has the lowest document mark */
    if ((slot = mrd_open_oldest(&nrt->open)) != MRD_OPEN_NONE)
        lowest = mrd_open_at(&nrt->open, (uint32_t) slot)->mark;
    (void) nrt_waiting(&nrt->held, UINT64_MAX, NRT_NOT_TOLD, &lowest, &oldest);
    return lowest;
}

uint64_t
mrd_nrt_waiting_before(const mrd_nrt *nrt, uint64_t mark, mrd_wall_ns *ret_oldest)
{
    uint64_t lowest = UINT64_MAX;

    *ret_oldest = (mrd_wall_ns){ 0 };
    return nrt_waiting(&nrt->open, mark, nrt->telling + 1, &lowest, ret_oldest) +
           nrt_waiting(&nrt->early, UINT64_MAX, NRT_NOT_TOLD, &lowest, ret_oldest) +
           nrt_waiting(&nrt->held, mark, NRT_NOT_TOLD, &lowest, ret_oldest);
}

static uint32_t
nrt_first_before(const mrd_open_table *table, uint64_t mark)
{
    uint32_t slot = mrd_open_oldest(table);

    while (slot != MRD_OPEN_NONE && mrd_open_at(table, slot)->mark >= mark)
        slot = table->slots[slot].newer;
    return slot;
}

mrd_err
mrd_nrt_flush_before(mrd_nrt *nrt, uint64_t mark)
{
    mrd_err err = MRD_OK;
    uint32_t slot;

    while (err == MRD_OK && (slot = nrt_first_before(&nrt->open, mark)) != MRD_OPEN_NONE)
        err = nrt_give_unfinished(nrt, slot);
    while (err == MRD_OK && (slot = mrd_open_oldest(&nrt->early)) != MRD_OPEN_NONE)
        err = nrt_give_early(nrt, slot);
    while (err == MRD_OK && (slot = nrt_first_before(&nrt->held, mark)) != MRD_OPEN_NONE)
        err = nrt_release(nrt, slot);
    return err;
}

mrd_err
mrd_nrt_tell_before(mrd_nrt *nrt, uint64_t mark, mrd_err (*call)(void *self, const mrd_event *ev),
                    void *self)
{
    const mrd_open_table *table = &nrt->open;
    mrd_err err = MRD_OK;
    mrd_event ev;
    uint32_t slot;

    for (slot = mrd_open_oldest(table); slot != MRD_OPEN_NONE; slot = table->slots[slot].newer) {
        mrd_open *open = mrd_open_at(table, slot);

        if (open->mark < mark && open->told != nrt->telling + 1 &&
            nrt_is_in_flight(nrt, open, &ev) && call(self, &ev) == MRD_OK)
            open->told = nrt->telling + 1;
    }
    while (err == MRD_OK && (slot = nrt_first_before(&nrt->early, mark)) != MRD_OPEN_NONE)
        err = nrt_give_early(nrt, slot);
    while (err == MRD_OK && (slot = nrt_first_before(&nrt->held, mark)) != MRD_OPEN_NONE)
        err = nrt_release(nrt, slot);
    return err;
}

void
mrd_nrt_tell_again(mrd_nrt *nrt)
{
    nrt->telling++;
}
