/*
 * trace/sink/sink_perfetto.c - a Perfetto trace: system_profile.pftrace and one per device profile.
 *
 * One packet sequence, times as differences, names interned, rows as nested custom tracks in
 * explicit order. Packets stand in order of time over the whole file (ends before begins of equal
 * time, outer spans before inner ones), which lets the reader sort and release in parts: every
 * PF_MARK_EVENTS events three packets say "everything up to here was flushed", which halves its
 * memory. A row's descriptor stands before its first event for the same reason.
 *
 * Times are the session's. When it has an epoch they are UTC and the trace clock is REALTIME, else
 * BOOTTIME. The reader refuses negative times: a trace that begins before zero is shifted by whole
 * seconds and the attribute meridian.time_shift_ns says by how much (then the clock is BOOTTIME).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "trace/model/lanes.h"
#include "trace/sink/pf_about.h"
#include "trace/sink/pf_ends.h"
#include "trace/sink/pf_file.h"
#include "trace/sink/pf_flows.h"
#include "trace/sink/pf_names.h"
#include "trace/sink/pf_processes.h"
#include "trace/sink/pf_tracks.h"
#include "trace/sink/sinks.h"

#define PF_MARK_EVENTS  100000u
#define PF_NODES_MAX    1000u /* attributes of what each lost */
#define PF_FAST_ROOM    192u  /* a packet of one plain event */
#define PF_SEQ          1u
#define PF_FLAG_CLEARED 1u
#define PF_FLAG_NEEDS   2u

/* The path of a plain span is one function; what is rare stays out of it. */
#define PF_HOT  static inline __attribute__((always_inline))
#define PF_COLD static __attribute__((noinline))

typedef struct {
    const mrd_sink_env *env;
    mrd_pf_file file;
    mrd_pf_tracks rows;
    mrd_pf_names names;
    mrd_pf_ends ends;
    mrd_pf_flows flows;
    mrd_pf_identity identity;
    mrd_lanes *lanes, *loss_lanes;
    bool started;
    mrd_dur_ns shift_ns; /* added to session times: the times of the trace */
    mrd_ev_ns now;       /* of the trace: the last one written */
    uint64_t events, since_mark, spans, lost, clamped;
    uint64_t flows_without_start;
    uint64_t *lost_of;       /* by mrd_proc_id */
    uint32_t order;          /* number of the next span */
    mrd_buf packet, event;   /* being built */
    mrd_pb_field *clock_row; /* of clock bounds, 0: none */
    size_t n_clocks;
    mrd_err err;
} pf;

/* Packets */

static void
pf_packet_begin(pf *s)
{
    mrd_buf_reset(&s->packet);
    mrd_pb_u64(&s->packet, PF_SEQUENCE_ID, PF_SEQ);
}

static void
pf_packet_end(pf *s)
{
    mrd_pf_packet(&s->file, &s->packet);
}

static void
pf_snapshot_clock(mrd_buf *to, uint64_t id, mrd_ev_ns at, bool incremental)
{
    size_t clock = mrd_pb_open(to, PF_SNAPSHOT_CLOCK);

    mrd_pb_u64(to, PF_CLOCK_ID, id);
    mrd_pb_u64(to, PF_CLOCK_TIME, (uint64_t) at.ns);
    if (incremental)
        mrd_pb_u64(to, PF_CLOCK_INCREMENTAL, 1);
    mrd_pb_close(to, clock);
}

static uint64_t
pf_trace_clock(const pf *s)
{
    return s->env->options->wall_time && s->shift_ns == 0 ? PF_REALTIME : PF_BOOTTIME;
}

/* The trace clock, and our own one on it that counts differences from here. */
static void
pf_write_clock(pf *s)
{
    size_t part;

    pf_packet_begin(s);
    part = mrd_pb_open(&s->packet, PF_CLOCK_SNAPSHOT);
    pf_snapshot_clock(&s->packet, pf_trace_clock(s), s->now, false);
    pf_snapshot_clock(&s->packet, PF_OWN_CLOCK, s->now, true);
    mrd_pb_u64(&s->packet, PF_SNAPSHOT_PRIMARY, pf_trace_clock(s));
    mrd_pb_close(&s->packet, part);
    pf_packet_end(s);

    pf_packet_begin(s);
    mrd_pb_u64(&s->packet, PF_SEQUENCE_FLAGS, PF_FLAG_CLEARED);
    part = mrd_pb_open(&s->packet, PF_DEFAULTS);
    mrd_pb_u64(&s->packet, PF_TIMESTAMP_CLOCK, PF_OWN_CLOCK);
    mrd_pb_close(&s->packet, part);
    pf_packet_end(s);
}

/* Events */

/* Session time to trace time. */
PF_HOT mrd_ev_ns
pf_time(pf *s, mrd_ev_ns session)
{
    mrd_ev_ns at;

    if (__builtin_expect(__builtin_add_overflow(session.ns, s->shift_ns, &at.ns) ||
                             at.ns > MRD_PF_ENDS_BEFORE,
                         0)) {
        s->clamped++;
        return (mrd_ev_ns){ MRD_PF_ENDS_BEFORE };
    }
    if (__builtin_expect(at.ns < 0, 0)) { /* 292 years before zero: no shift reaches that */
        s->clamped++;
        return (mrd_ev_ns){ 0 };
    }
    return at;
}

/* The head that every event has: sequence, flags, time since the last one. */
PF_HOT uint8_t *
pf_put_head(pf *s, uint8_t *p, mrd_ev_ns at)
{
    static const uint8_t rest[] = { PF_SEQUENCE_ID, PF_SEQ, PF_SEQUENCE_FLAGS, PF_FLAG_NEEDS };

    *p++ = PF_TIMESTAMP;
    p = mrd_pb_varint_short(p, (uint64_t) at.ns - (uint64_t) s->now.ns);
    s->now = at;
    memcpy(p, rest, sizeof(rest));
    return p + sizeof(rest);
}

/* An event without arguments of its own whose names were written before; category and name 0: none,
 * whose NULL: not said. */
PF_HOT void
pf_put_plain(pf *s, mrd_ev_ns at, uint8_t type, mrd_pb_field row, mrd_pb_field category,
             mrd_pb_field name, const mrd_pf_identity_row *whose)
{
    uint8_t *start = mrd_pf_room(&s->file, PF_FAST_ROOM), *p;
    unsigned len = 2 + mrd_pb_field_len(row) + mrd_pb_field_len(category) + mrd_pb_field_len(name) +
                   (whose == NULL ? 0 : whose->len);

    if (start == NULL)
        return;
    start[0] = PF_TRACE_PACKET;
    p = pf_put_head(s, start + 2, at);
    p[0] = PF_TRACK_EVENT;
    p[1] = (uint8_t) len;
    p[2] = PF_EVENT_TYPE;
    p[3] = type;
    p = mrd_pb_put_field(p + 4, row);
    p = mrd_pb_put_field(p, category);
    p = mrd_pb_put_field(p, name);
    if (whose != NULL) {
        memcpy(p, whose->bytes, sizeof(whose->bytes)); /* of which only its own are kept */
        p += whose->len;
    }
    start[1] = (uint8_t) (p - start - 2);
    mrd_pf_did(&s->file, p);
}

/* Starts s->event; finished by pf_write_event. */
static void
pf_begin_event(pf *s, uint8_t type, mrd_pb_field row)
{
    mrd_buf_reset(&s->event);
    mrd_pb_u64(&s->event, PF_EVENT_TYPE, type);
    mrd_pb_field_add(&s->event, row);
}

/* Writes s->event with the names it uses first. */
static void
pf_write_event(pf *s, mrd_ev_ns at)
{
    mrd_buf *fresh = &s->names.fresh;
    uint8_t head[32], *end = pf_put_head(s, head, at);

    mrd_buf_reset(&s->packet);
    mrd_buf_add(&s->packet, head, (size_t) (end - head));
    if (fresh->len > 0)
        mrd_pb_bytes(&s->packet, PF_INTERNED_DATA, fresh->p, fresh->len);
    if (fresh->err != MRD_OK || s->event.err != MRD_OK)
        s->err = MRD_NOMEM;
    mrd_buf_reset(fresh);
    mrd_pb_bytes(&s->packet, PF_TRACK_EVENT, s->event.p, s->event.len);
    pf_packet_end(s);
}

static void
pf_add_fixed(mrd_buf *to, uint32_t tag, uint64_t v)
{
    mrd_pb_raw(to, tag);
    if (mrd_buf_room(to, 8))
        to->len = (size_t) (mrd_pb_fixed64(to->p + to->len, v) - to->p);
}

/* A point of an arrow, on what begins here. */
static void
pf_add_flow(pf *s, mrd_flow flow, bool has_end)
{
    uint64_t id = 0;

    if (flow.dir != MRD_FLOW_START)
        id = mrd_pf_flows_point(&s->flows, flow.id, flow.dir == MRD_FLOW_END);
    if (id == 0 && flow.dir == MRD_FLOW_END) {
        if (has_end)
            mrd_pf_flows_defer(&s->flows, flow.id, s->order);
        else
            s->flows_without_start++;
        return;
    }
    if (id == 0)
        id = mrd_pf_flows_start(&s->flows, flow.id, s->order);
    pf_add_fixed(&s->event, PF_EVENT_FLOW, id);
}

/* An END that ends of arrows wait for. */
PF_COLD void
pf_end_with_flows(pf *s, mrd_pf_end end, uint64_t id)
{
    pf_begin_event(s, PF_END, end.row);
    for (; id != 0; id = mrd_pf_flows_due(&s->flows, end.order))
        pf_add_flow(s, (mrd_flow){ id, MRD_FLOW_END }, false);
    pf_write_event(s, end.at);
}

PF_HOT void
pf_put_end(pf *s, mrd_pf_end end)
{
    uint64_t id = s->flows.n_late == 0 ? 0 : mrd_pf_flows_due(&s->flows, end.order);

    if (id != 0)
        pf_end_with_flows(s, end, id);
    else
        pf_put_plain(s, end.at, PF_END, end.row, 0, 0, NULL);
}

/* Ends of spans up to and including this time. */
PF_HOT void
pf_end_until(pf *s, mrd_ev_ns at)
{
    while (mrd_pf_ends_due(&s->ends, at))
        pf_put_end(s, mrd_pf_ends_take(&s->ends));
}

/* What a span, an instant and a lonely flow point have in common after their names. */
static void
pf_add_details(pf *s, const mrd_event *ev, bool has_end)
{
    const mrd_process *p;

    if (ev->id != 0 && ev->kind != MRD_FLOW) {
        size_t annotation = mrd_pb_open(&s->event, PF_EVENT_ANNOTATION);

        mrd_pb_str(&s->event, PF_ARG_NAME, MRD_STR("id"));
        mrd_pb_u64(&s->event, PF_ARG_UINT, ev->id);
        mrd_pb_close(&s->event, annotation);
    }
    mrd_pf_args(&s->names, &s->event, ev->args, ev->arg_count);
    if (s->identity.catalog != NULL)
        mrd_pf_identity_add(&s->identity, &s->names, &s->event, ev);
    if (ev->flags & MRD_EV_NO_START)
        mrd_pf_arg_text(&s->event, "meridian.note", "only its end was seen");
    if (ev->flags & MRD_EV_SIMULATED) {
        p = mrd_catalog_borrow_process(
            s->env->catalog, mrd_catalog_borrow_track(s->env->catalog, ev->track)->process);
        if (!(p->flags & MRD_PROC_SIMULATED))
            mrd_pf_arg_text(&s->event, "meridian.note", "simulated");
    }
    for (uint32_t i = 0; i < ev->flow_count && s->env->options->show_flows; i++)
        pf_add_flow(s, ev->flows[i], has_end);
}

PF_COLD void
pf_put_detailed(pf *s, const mrd_event *ev, mrd_ev_ns at, uint8_t type, mrd_pb_field row,
                bool has_end)
{
    mrd_pb_field name = mrd_pf_name(&s->names, MRD_PF_NAME, ev->name);

    pf_begin_event(s, type, row);
    if (ev->category != MRD_SID_EMPTY)
        mrd_pb_field_add(&s->event, mrd_pf_name(&s->names, MRD_PF_CATEGORY, ev->category));
    mrd_pb_field_add(&s->event, name);
    pf_add_details(s, ev, has_end);
    pf_write_event(s, at);
}

/* A BEGIN or INSTANT with its names and, where there are any, details. */
PF_HOT void
pf_put_named(pf *s, const mrd_event *ev, mrd_ev_ns at, uint8_t type, mrd_pb_field row, bool has_end)
{
    mrd_pb_field name = mrd_pf_name(&s->names, MRD_PF_NAME, ev->name), category = 0;
    const mrd_pf_identity_row *whose =
        s->identity.rows == NULL ? NULL : &s->identity.rows[ev->track];

    if (ev->category != MRD_SID_EMPTY)
        category = mrd_pf_name(&s->names, MRD_PF_CATEGORY, ev->category);
    if (ev->arg_count == 0 && ev->flow_count == 0 && ev->id == 0 && ev->flags == 0 &&
        s->names.fresh.len == 0 && (whose == NULL || whose->made))
        pf_put_plain(s, at, type, row, category, name, whose);
    else
        pf_put_detailed(s, ev, at, type, row, has_end);
}

/* Remembers the end of the span that was just begun. */
PF_HOT void
pf_open_span(pf *s, mrd_ev_ns end, mrd_pb_field row)
{
    if (end.ns != INT64_MAX &&
        !mrd_pf_ends_put(&s->ends, (mrd_pf_end){ pf_time(s, end), row, s->order }))
        s->err = MRD_NOMEM;
    s->order++;
}

/* Its own end often takes the place of one that is due now. */
PF_HOT void
pf_span(pf *s, const mrd_event *ev, mrd_ev_ns at)
{
    uint32_t lane = mrd_lanes_put(s->lanes, ev), place = 0;
    mrd_ev_ns end = mrd_event_end(ev);
    bool replaces = mrd_pf_ends_due(&s->ends, at) && end.ns < MRD_PF_ENDS_BEFORE - s->shift_ns &&
                    end.ns + s->shift_ns > at.ns;
    mrd_pb_field row;

    if (replaces) {
        mrd_pf_end due =
            mrd_pf_ends_replace(&s->ends, mrd_ev_add(end, s->shift_ns), s->order, &place);

        pf_put_end(s, due);
    }
    pf_end_until(s, at);
    row = mrd_pf_lane(&s->rows, ev->track, lane);
    pf_put_named(s, ev, at, PF_BEGIN, row, end.ns != INT64_MAX);
    if (replaces) {
        mrd_pf_ends_name(&s->ends, place, row);
        s->order++;
    } else {
        pf_open_span(s, end, row);
    }
    s->spans++;
}

static void
pf_loss(pf *s, const mrd_event *ev, mrd_ev_ns at)
{
    uint32_t lane = mrd_lanes_put(s->loss_lanes, ev);
    mrd_pb_field row = mrd_pf_loss(&s->rows, ev->track, lane);
    mrd_str cause = mrd_catalog_text(s->env->catalog, ev->name);
    char name[256];

    if (mrd_str_is(cause, MRD_LOSS_PAUSED))
        snprintf(name, sizeof(name), "not recorded (paused)");
    else
        snprintf(name, sizeof(name), "lost %" PRId64 " event%s (" MRD_STR_FMT ")", ev->ivalue,
                 mrd_plural((uint64_t) ev->ivalue), (int) (cause.len < 200 ? cause.len : 200),
                 cause.p);
    pf_begin_event(s, PF_BEGIN, row);
    mrd_pb_str(&s->event, PF_EVENT_NAME, mrd_str_of(name));
    mrd_pf_arg_int(&s->event, "lost", ev->ivalue);
    mrd_pf_args(&s->names, &s->event, ev->args, ev->arg_count);
    pf_write_event(s, at);
    pf_open_span(s, mrd_event_end(ev), row);
    if (ev->ivalue > 0) {
        s->lost += (uint64_t) ev->ivalue;
        s->lost_of[mrd_catalog_borrow_track(s->env->catalog, ev->track)->process] +=
            (uint64_t) ev->ivalue;
    }
}

static void
pf_add_value(mrd_buf *to, const mrd_event *ev)
{
    double value = ev->value;
    uint64_t bits;

    if ((ev->flags & MRD_EV_INT) && !((ev->flags & MRD_EV_UNSIGNED) && ev->ivalue < 0)) {
        mrd_pb_u64(to, PF_EVENT_COUNTER, (uint64_t) ev->ivalue);
        return;
    }
    if (ev->flags & MRD_EV_INT) /* above 2^63: the field is signed */
        value = (double) (uint64_t) ev->ivalue;
    memcpy(&bits, &value, sizeof(bits));
    pf_add_fixed(to, PF_EVENT_COUNTER_DOUBLE, bits);
}

static void
pf_counter(pf *s, const mrd_event *ev, mrd_ev_ns at)
{
    pf_begin_event(s, PF_COUNTER, mrd_pf_row(&s->rows, ev->track, true));
    pf_add_value(&s->event, ev);
    mrd_pf_args(&s->names, &s->event, ev->args, ev->arg_count);
    pf_write_event(s, at);
}

/* A point that no span holds: an instant of its own. */
static void
pf_flow_point(pf *s, const mrd_event *ev, mrd_ev_ns at)
{
    if (!s->env->options->show_flows)
        return;
    pf_begin_event(s, PF_INSTANT, mrd_pf_row(&s->rows, ev->track, false));
    if (ev->name == MRD_SID_EMPTY)
        mrd_pb_str(&s->event, PF_EVENT_NAME, MRD_STR("flow"));
    else
        mrd_pb_field_add(&s->event, mrd_pf_name(&s->names, MRD_PF_NAME, ev->name));
    pf_add_details(s, ev, false);
    pf_add_flow(s, (mrd_flow){ ev->id, (mrd_flow_dir) ev->flow_dir }, false);
    pf_write_event(s, at);
}

/* Clock bounds as rows */

/* One sample per known bound, at the first and at the last time. */
static void
pf_clock_bounds(pf *s)
{
    const mrd_catalog *cat = s->env->catalog;
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(cat, &n);
    mrd_track unit = { .unit = MRD_UNIT_NS };

    for (size_t i = 1; i < n && i < s->n_clocks; i++) {
        mrd_event sample = { .kind = MRD_COUNTER, .flags = MRD_EV_INT };
        mrd_buf name = { 0 };

        if (clocks[i].bound_ns < 0 || s->env->profile != 0)
            continue;
        if (s->clock_row[i] == 0) {
            mrd_buf_text(&name, "clock error bound ");
            mrd_buf_str(&name, mrd_catalog_text(cat, clocks[i].name));
            s->clock_row[i] =
                mrd_pf_row_at_root(&s->rows, (mrd_str){ (const char *) name.p, name.len }, &unit);
            mrd_buf_fini(&name);
        }
        sample.ivalue = clocks[i].bound_ns;
        pf_begin_event(s, PF_COUNTER, s->clock_row[i]);
        pf_add_value(&s->event, &sample);
        pf_write_event(s, s->now);
    }
}

/* The sink */

static mrd_err
pf_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    pf *s = state;
    mrd_err err;

    s->env = env;
    mrd_catalog_clocks(env->catalog, &s->n_clocks);
    s->clock_row = calloc(s->n_clocks + 1, sizeof(*s->clock_row));
    s->lost_of = calloc(mrd_catalog_processes(env->catalog) + 1, sizeof(*s->lost_of));
    s->lanes = mrd_lanes_new(mrd_catalog_tracks(env->catalog));
    s->loss_lanes = mrd_lanes_new(0);
    err = env->options->identity ? mrd_pf_identity_init(&s->identity, env->catalog) : MRD_OK;
    mrd_pf_names_init(&s->names, mrd_catalog_strings(env->catalog));
    if (s->clock_row == NULL || s->lost_of == NULL || s->lanes == NULL || s->loss_lanes == NULL)
        err = MRD_NOMEM;
    if (err == MRD_OK &&
        (err = mrd_pf_file_init(&s->file, env->out, env->options->compress)) == MRD_OK)
        err = mrd_pf_tracks_init(&s->rows, &s->file, env);
    s->err = err;
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "perfetto output");
}

/* Writes what stands before the first event, whose session time this is. */
PF_COLD void
pf_start(pf *s, mrd_ev_ns first)
{
    s->started = true;
    if (first.ns < 0) { /* whole seconds, so that fractions stay readable */
        uint64_t seconds = (0 - (uint64_t) first.ns + MRD_SEC - 1) / MRD_SEC;

        s->shift_ns = seconds > INT64_MAX / MRD_SEC ? INT64_MAX : (int64_t) (seconds * MRD_SEC);
    }
    s->now = mrd_ev_add(first, s->shift_ns);
    if (s->now.ns < 0)
        s->now = (mrd_ev_ns){ 0 };
    pf_write_clock(s);
    mrd_pf_write_about(&s->file, s->env->catalog, s->env->profile, s->shift_ns);
    if (mrd_pf_write_processes(&s->file, s->env->catalog, s->env->profile) != MRD_OK)
        s->err = MRD_NOMEM;
    pf_clock_bounds(s);
}

/* Everything before this is complete: twice flushed, once read (see the top of the file). */
PF_COLD void
pf_mark(pf *s)
{
    static const uint32_t marks[] = { PF_SERVICE_FLUSHED, PF_SERVICE_FLUSHED, PF_SERVICE_READ };

    for (size_t i = 0; i < MRD_COUNT(marks); i++) {
        size_t service;

        mrd_buf_reset(&s->packet);
        mrd_pb_u64(&s->packet, PF_TIMESTAMP, (uint64_t) s->now.ns);
        mrd_pb_u64(&s->packet, PF_TIMESTAMP_CLOCK, pf_trace_clock(s));
        service = mrd_pb_open(&s->packet, PF_SERVICE_EVENT);
        mrd_pb_u64(&s->packet, marks[i], 1);
        mrd_pb_close(&s->packet, service);
        pf_packet_end(s);
    }
    s->since_mark = 0;
}

/* All that are no spans, and spans whose begin was not seen. */
PF_COLD mrd_err
pf_other(pf *s, const mrd_event *ev, mrd_ev_ns at)
{
    pf_end_until(s, at);
    switch (ev->kind) {
    case MRD_SPAN:
    case MRD_INSTANT:
        pf_put_named(s, ev, at, PF_INSTANT, mrd_pf_row(&s->rows, ev->track, false), false);
        break;
    case MRD_COUNTER:
        pf_counter(s, ev, at);
        break;
    case MRD_FLOW:
        pf_flow_point(s, ev, at);
        break;
    case MRD_LOSS:
        pf_loss(s, ev, at);
        break;
    default:
        return MRD_INVALID;
    }
    return MRD_OK;
}

static mrd_err
pf_event(void *state, const mrd_event *ev)
{
    pf *s = state;
    mrd_ev_ns at;

    if (s->err != MRD_OK)
        return s->err;
    if (!mrd_pf_tracks_has(&s->rows, ev->track))
        return MRD_INVALID; /* of another profile, or not in the catalog */
    if (!s->started)
        pf_start(s, ev->ts);
    at = pf_time(s, ev->ts);
    if (__builtin_expect(ev->kind == MRD_SPAN && (ev->flags & MRD_EV_NO_START) == 0, 1))
        pf_span(s, ev, at);
    else if (pf_other(s, ev, at) != MRD_OK)
        return MRD_INVALID;
    s->events++;
    if (++s->since_mark >= PF_MARK_EVENTS)
        pf_mark(s);
    return s->err;
}

/* What each node lost, as one attribute per node. */
static void
attr_lost(pf *s)
{
    const mrd_catalog *cat = s->env->catalog;
    size_t n = mrd_catalog_processes(cat), said = 0;

    for (mrd_proc_id i = 0; i < n && said < PF_NODES_MAX; i++) {
        mrd_sid node = mrd_catalog_borrow_process(cat, i)->instance_id;
        uint64_t lost = 0;
        char key[160];

        for (mrd_proc_id k = i; k < n && s->lost_of[i] > 0; k++) {
            if (mrd_catalog_borrow_process(cat, k)->instance_id != node)
                continue;
            lost += s->lost_of[k];
            s->lost_of[k] = k == i ? s->lost_of[k] : 0;
        }
        if (lost == 0)
            continue;
        snprintf(key, sizeof(key), "meridian.lost." MRD_STR_FMT,
                 MRD_STR_ARG(mrd_catalog_text(cat, node)));
        mrd_pf_attribute_int(&s->packet, key, (int64_t) lost);
        said++;
    }
}

/* What only the end knows. */
static void
pf_write_totals(pf *s)
{
    size_t attributes;

    pf_packet_begin(s);
    attributes = mrd_pb_open(&s->packet, PF_TRACE_ATTRIBUTES);
    mrd_pf_attribute_int(&s->packet, "meridian.events", (int64_t) s->events);
    mrd_pf_attribute_int(&s->packet, "meridian.spans", (int64_t) s->spans);
    mrd_pf_attribute_int(&s->packet, "meridian.lost", (int64_t) s->lost);
    attr_lost(s);
    if (s->clamped > 0)
        mrd_pf_attribute_int(&s->packet, "meridian.times_clamped", (int64_t) s->clamped);
    if (s->flows_without_start > 0)
        mrd_pf_attribute_int(&s->packet, "meridian.flow_ends_without_start",
                             (int64_t) s->flows_without_start);
    if (s->names.cut > 0)
        mrd_pf_attribute_int(&s->packet, "meridian.texts_cut", (int64_t) s->names.cut);
    if (s->names.left_out > 0)
        mrd_pf_attribute_int(&s->packet, "meridian.arguments_left_out",
                             (int64_t) s->names.left_out);
    mrd_pb_close(&s->packet, attributes);
    pf_packet_end(s);
}

/* Makes the reader count a data loss, so that it shows its red mark. Last in the file. */
static void
pf_write_stats(pf *s)
{
    size_t stats, part;

    pf_packet_begin(s);
    stats = mrd_pb_open(&s->packet, PF_TRACE_STATS);
    part = mrd_pb_open(&s->packet, PF_STATS_BUFFER);
    mrd_pb_u64(&s->packet, PF_BUFFER_SIZE, PF_BLOCK);
    mrd_pb_u64(&s->packet, PF_BUFFER_LOST, s->lost);
    mrd_pb_close(&s->packet, part);
    part = mrd_pb_open(&s->packet, PF_STATS_WRITER);
    mrd_pb_u64(&s->packet, PF_WRITER_SEQUENCE, PF_SEQ);
    mrd_pb_u64(&s->packet, PF_WRITER_BUFFER, 0);
    mrd_pb_close(&s->packet, part);
    mrd_pb_close(&s->packet, stats);
    pf_packet_end(s);
}

static void
pf_finish(pf *s)
{
    if (!s->started)
        pf_start(s, !mrd_ev_after(s->env->first, s->env->last) ? s->env->first : (mrd_ev_ns){ 0 });
    pf_end_until(s, (mrd_ev_ns){ INT64_MAX });
    pf_clock_bounds(s);
    pf_write_totals(s);
    if (s->lost > 0)
        pf_write_stats(s);
    mrd_pf_file_flush(&s->file);
    if (s->err == MRD_OK)
        s->err = s->file.err != MRD_OK          ? s->file.err
                 : s->flows.err != MRD_OK       ? s->flows.err
                 : s->rows.err != MRD_OK        ? s->rows.err
                 : s->names.err != MRD_OK       ? s->names.err
                 : mrd_lanes_err(s->lanes) != 0 ? mrd_lanes_err(s->lanes)
                                                : mrd_lanes_err(s->loss_lanes);
}

static mrd_err
pf_close(void *state, mrd_why *why)
{
    pf *s = state;
    mrd_err err;

    if (s->err == MRD_OK)
        pf_finish(s);
    err = s->err;
    free(s->clock_row);
    free(s->lost_of);
    mrd_lanes_free(s->lanes);
    mrd_lanes_free(s->loss_lanes);
    mrd_pf_tracks_fini(&s->rows);
    mrd_pf_names_fini(&s->names);
    mrd_pf_identity_fini(&s->identity);
    mrd_pf_flows_fini(&s->flows);
    mrd_pf_file_fini(&s->file);
    mrd_pf_ends_fini(&s->ends);
    mrd_buf_fini(&s->packet);
    mrd_buf_fini(&s->event);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "perfetto output");
}

const mrd_sink_ops mrd_sink_perfetto = {
    .name = "perfetto",
    .stem = "system_profile",
    .suffix = ".pftrace",
    .media_type = "application/octet-stream",
    .title = "Perfetto",
    .standard = true,
    .what = "Perfetto trace, for ui.perfetto.dev and trace_processor",
    .pairs_as_one = true,
    .state_size = sizeof(pf),
    .device_too = true,
    .open = pf_open,
    .event = pf_event,
    .close = pf_close,
};
