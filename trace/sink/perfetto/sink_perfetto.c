/*
 * trace/sink/perfetto/sink_perfetto.c - a Perfetto trace: system_profile.pftrace and one per device profile.
 *
 * There is one packet sequence, with times as differences and interned names. Rows are nested
 * custom tracks in explicit order. All packets are in order of time: ends before begins of equal
 * time, outer spans before inner ones. So the reader can sort and release in parts. Every
 * PF_MARK_EVENTS events, three packets say that everything before was flushed, which halves the
 * reader's memory. For the same reason a row's descriptor precedes its first event.
 *
 * Times are session times. With an epoch they are UTC and the trace clock is REALTIME, otherwise it
 * is BOOTTIME. The reader refuses negative times. A trace that begins before zero is shifted by
 * whole seconds, the attribute meridian.time_shift_ns has the shift, and the clock is BOOTTIME.
 *
 * If the options require it, the trace is split by time into files that can be opened alone
 * (trace/sink/perfetto/pf_parts.h). At a cut the ends of all open spans are written, at their true times.
 * The next file begins with clocks, rows and all lasting facts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "trace/sink/perfetto/pf_part.h"
#include "trace/sink/sinks.h"

#define PF_MARK_EVENTS 100000u

/* ---- Events ---- */

/* Converts session time to trace time. */
PF_HOT mrd_ev_ns
pf_time(mrd_pf *s, mrd_ev_ns session)
{
    mrd_ev_ns at;

    if (__builtin_expect(__builtin_add_overflow(session.ns, s->shift_ns, &at.ns) ||
                             at.ns > MRD_PF_ENDS_BEFORE,
                         0)) {
        s->clamped++;
        return (mrd_ev_ns){ MRD_PF_ENDS_BEFORE };
    }
    if (__builtin_expect(at.ns < 0, 0)) { /* 292 years before zero, so no shift is sufficient */
        s->clamped++;
        return (mrd_ev_ns){ 0 };
    }
    return at;
}

/* Sets the row and the time of the points that are added next. */
PF_COLD void
pf_here(mrd_pf *s, mrd_pb_field row, mrd_ev_ns at)
{
    s->flows.row = row;
    s->flows.at = at;
}

/* Repeats the last point of an arrow, which is in an earlier part, as an instant of its row. The
 * arrow then has a begin in this part. */
PF_COLD void
pf_repeat_point(mrd_pf *s, const mrd_pf_flow *before, uint64_t id)
{
    uint8_t head[32], *end = pf_put_head(s, head, s->now);
    mrd_buf event = { 0 };

    mrd_pb_u64(&event, PF_EVENT_TYPE, PF_INSTANT);
    mrd_pb_field_add(&event, before->row);
    mrd_pb_str(&event, PF_EVENT_NAME, MRD_STR("arrow from an earlier part"));
    mrd_pf_arg_int(&event, MRD_PF_CONTINUED, 1);
    mrd_pf_arg_int(&event, MRD_PF_BEGIN_NS, before->at.ns - s->shift_ns);
    s->said.repeated++;
    pf_add_fixed(&event, PF_EVENT_FLOW, id);
    mrd_buf_reset(&s->packet);
    mrd_buf_add(&s->packet, head, (size_t) (end - head));
    mrd_pb_bytes(&s->packet, PF_TRACK_EVENT, event.p, event.len);
    if (event.err != MRD_OK)
        s->err = MRD_NOMEM;
    mrd_buf_fini(&event);
    pf_packet_end(s);
}

/* Adds a point of an arrow to the event that begins here. */
static void
pf_add_flow(mrd_pf *s, mrd_flow flow, bool has_end)
{
    uint64_t id = 0;

    if (flow.dir != MRD_FLOW_START)
        id = mrd_pf_flows_point(&s->flows, flow.id, flow.dir == MRD_FLOW_END);
    if (flow.dir != MRD_FLOW_START && id != 0 && s->flows.before.id != 0)
        pf_repeat_point(s, &s->flows.before, id);
    if (id == 0 && flow.dir == MRD_FLOW_END) {
        if (has_end)
            mrd_pf_flows_defer(&s->flows, flow.id, s->order);
        else
            s->flows_without_start++;
        return;
    }
    if (id == 0)
        id = mrd_pf_flows_start(&s->flows, flow.id, s->order, flow.ends);
    pf_add_fixed(&s->event, PF_EVENT_FLOW, id);
    for (uint32_t n = 1; flow.dir == MRD_FLOW_START && n < flow.ends; n++)
        pf_add_fixed(&s->event, PF_EVENT_FLOW, mrd_flow_end_id(id, n));
}

/* Writes an END with the ends of arrows that were deferred to it. */
PF_COLD void
pf_end_with_flows(mrd_pf *s, mrd_pf_end end, uint64_t id)
{
    pf_begin_event(s, PF_END, end.row);
    pf_here(s, end.row, end.at);
    for (; id != 0; id = mrd_pf_flows_due(&s->flows, end.order))
        pf_add_flow(s, (mrd_flow){ .id = id, .dir = MRD_FLOW_END }, false);
    pf_write_event(s, end.at);
}

PF_HOT void
pf_put_end(mrd_pf *s, mrd_pf_end end)
{
    uint64_t id = s->flows.n_late == 0 ? 0 : mrd_pf_flows_due(&s->flows, end.order);

    if (id != 0)
        pf_end_with_flows(s, end, id);
    else
        pf_put_plain(s, end.at, PF_END, end.row, 0, 0, NULL);
}

/* Writes the ends of spans up to and including this time. */
PF_HOT void
pf_end_until(mrd_pf *s, mrd_ev_ns at)
{
    while (mrd_pf_ends_due(&s->ends, at))
        pf_put_end(s, mrd_pf_ends_take(&s->ends));
}

/* Writes the common parts of a span, an instant and an unbound flow point, after their names. */
static void
pf_add_details(mrd_pf *s, const mrd_event *ev, bool has_end)
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
pf_put_detailed(mrd_pf *s, const mrd_event *ev, mrd_ev_ns at, uint8_t type, mrd_pb_field row,
                bool has_end)
{
    mrd_pb_field name = mrd_pf_name(&s->names, MRD_PF_NAME, ev->name);

    pf_begin_event(s, type, row);
    pf_here(s, row, at);
    if (ev->category != MRD_SID_EMPTY)
        mrd_pb_field_add(&s->event, mrd_pf_name(&s->names, MRD_PF_CATEGORY, ev->category));
    mrd_pb_field_add(&s->event, name);
    pf_add_details(s, ev, has_end);
    pf_write_event(s, at);
}

/* Writes a BEGIN or INSTANT with its names and, if any, details. */
PF_HOT void
pf_put_named(mrd_pf *s, const mrd_event *ev, mrd_ev_ns at, uint8_t type, mrd_pb_field row,
             bool has_end)
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

/* Remembers a span without an end, which is open in all following parts. */
PF_COLD void
pf_keep_unended(mrd_pf *s, const mrd_pf_begun *begun)
{
    if (s->values == NULL)
        return;
    if (!MRD_VEC_ROOM(s->unended, s->n_unended, s->cap_unended, 1))
        s->err = MRD_NOMEM;
    else
        s->unended[s->n_unended++] = (mrd_pf_unended){ s->order, *begun };
}

/* Remembers the end of the span that was begun last. */
PF_HOT void
pf_open_span(mrd_pf *s, mrd_ev_ns end, const mrd_pf_begun *begun)
{
    if (end.ns == INT64_MAX)
        pf_keep_unended(s, begun);
    else if (!mrd_pf_ends_put(&s->ends, pf_time(s, end), s->order, begun))
        s->err = MRD_NOMEM;
    s->order++;
}

/* Writes a span. Its end often replaces an end that is due now. */
PF_HOT void
pf_span(mrd_pf *s, const mrd_event *ev, mrd_ev_ns at)
{
    uint32_t lane = mrd_lanes_put(s->lanes, ev), place = 0;
    mrd_ev_ns end = mrd_event_end(ev);
    bool replaces = mrd_pf_ends_due(&s->ends, at) && end.ns < MRD_PF_ENDS_BEFORE - s->shift_ns &&
                    end.ns + s->shift_ns > at.ns;
    mrd_pf_begun begun = { .begin = at, .lost = -1, .name = ev->name, .category = ev->category };

    if (replaces) {
        mrd_pf_end due =
            mrd_pf_ends_replace(&s->ends, mrd_ev_add(end, s->shift_ns), s->order, &place);

        pf_put_end(s, due);
    }
    pf_end_until(s, at);
    begun.row = mrd_pf_lane(&s->rows, ev->track, lane);
    pf_put_named(s, ev, at, PF_BEGIN, begun.row, end.ns != INT64_MAX);
    if (replaces) {
        mrd_pf_ends_name(&s->ends, place, &begun);
        s->order++;
    } else {
        pf_open_span(s, end, &begun);
    }
    s->spans++;
}

static void
pf_loss(mrd_pf *s, const mrd_event *ev, mrd_ev_ns at)
{
    uint32_t lane = mrd_lanes_put(s->loss_lanes, ev);
    mrd_pf_begun begun = { .row = mrd_pf_loss(&s->rows, ev->track, lane),
                           .begin = at,
                           .lost = ev->ivalue > 0 ? ev->ivalue : 0,
                           .name = ev->name };

    mrd_pf_begin_loss(s, &begun);
    mrd_pf_arg_int(&s->event, "lost", ev->ivalue);
    mrd_pf_args(&s->names, &s->event, ev->args, ev->arg_count);
    pf_write_event(s, at);
    pf_open_span(s, mrd_event_end(ev), &begun);
    if (ev->ivalue > 0) {
        s->lost += (uint64_t) ev->ivalue;
        s->lost_of[mrd_catalog_borrow_track(s->env->catalog, ev->track)->process] +=
            (uint64_t) ev->ivalue;
    }
}

static mrd_pf_value
pf_value_of(const mrd_event *ev)
{
    mrd_pf_value v = { .has = true, .whole = true, .bits = (uint64_t) ev->ivalue };
    double value = ev->value;

    if ((ev->flags & MRD_EV_INT) && !((ev->flags & MRD_EV_UNSIGNED) && ev->ivalue < 0))
        return v;
    if (ev->flags & MRD_EV_INT) /* values from 2^63 on, because the field is signed */
        value = (double) (uint64_t) ev->ivalue;
    v.whole = false;
    memcpy(&v.bits, &value, sizeof(v.bits));
    return v;
}

static void
pf_counter(mrd_pf *s, const mrd_event *ev, mrd_ev_ns at)
{
    mrd_pf_value v = pf_value_of(ev);

    pf_begin_event(s, PF_COUNTER, mrd_pf_row(&s->rows, ev->track, true));
    pf_add_value(&s->event, &v);
    mrd_pf_args(&s->names, &s->event, ev->args, ev->arg_count);
    pf_write_event(s, at);
    if (s->values != NULL)
        s->values[ev->track] = v;
}

/* Writes an unbound point as an instant. */
static void
pf_flow_point(mrd_pf *s, const mrd_event *ev, mrd_ev_ns at)
{
    if (!s->env->options->show_flows)
        return;
    pf_begin_event(s, PF_INSTANT, mrd_pf_row(&s->rows, ev->track, false));
    pf_here(s, mrd_pf_row(&s->rows, ev->track, false), at);
    if (ev->name == MRD_SID_EMPTY)
        mrd_pb_str(&s->event, PF_EVENT_NAME, MRD_STR("flow"));
    else
        mrd_pb_field_add(&s->event, mrd_pf_name(&s->names, MRD_PF_NAME, ev->name));
    pf_add_details(s, ev, false);
    pf_add_flow(s, (mrd_flow){ .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir }, false);
    pf_write_event(s, at);
}

/* ---- The sink ---- */

/* Frees all except the parts. */
static void
pf_free(mrd_pf *s)
{
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
}

static mrd_err
pf_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    mrd_pf *s = state;
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
    if (err == MRD_OK)
        err = mrd_pf_part_init(s);
    if (err == MRD_OK &&
        (err = mrd_pf_file_init(&s->file, s->out, env->options->compress)) == MRD_OK)
        err = mrd_pf_tracks_init(&s->rows, &s->file, env);
    s->err = err;
    if (err != MRD_OK && s->why.err != MRD_OK && why != NULL)
        *why = s->why;
    else if (err != MRD_OK)
        mrd_why_set(why, err, 0, "perfetto output");
    if (err != MRD_OK) {
        (void) mrd_pf_part_fini(s, false);
        pf_free(s);
    }
    return err;
}

/* Writes the parts before the first event, which has this session time. */
PF_COLD void
pf_start(mrd_pf *s, mrd_ev_ns first)
{
    s->started = true;
    if (first.ns < 0) { /* whole seconds, so that fractions stay readable */
        uint64_t seconds = (0 - (uint64_t) first.ns + MRD_SEC - 1) / MRD_SEC;

        s->shift_ns = seconds > INT64_MAX / MRD_SEC ? INT64_MAX : (int64_t) (seconds * MRD_SEC);
    }
    s->now = mrd_ev_add(first, s->shift_ns);
    if (s->now.ns < 0)
        s->now = (mrd_ev_ns){ 0 };
    mrd_pf_part_begin(s, first);
}

/* Writes that everything before this is complete: twice flushed, once read (see the top of the
 * file). */
PF_COLD void
pf_mark(mrd_pf *s)
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
    if (mrd_out_err(s->out) != MRD_OK) /* detects a full disk early */
        s->err = mrd_out_err(s->out);
}

/* Writes all events except spans with a known begin. */
PF_COLD mrd_err
pf_other(mrd_pf *s, const mrd_event *ev, mrd_ev_ns at)
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
    mrd_pf *s = state;
    mrd_ev_ns at;

    if (s->err != MRD_OK)
        return s->err;
    if (!mrd_pf_tracks_has(&s->rows, ev->track))
        return MRD_INVALID;          /* of another profile, or not in the catalog */
    if (ev->flags & MRD_EV_MISTIMED) /* it would extend the time axis to its time */
        return MRD_OK;
    if (!s->started)
        pf_start(s, ev->ts);
    at = pf_time(s, ev->ts);
    if (__builtin_expect(pf_size(s) + (uint64_t) s->ends.n * PF_END_ROOM >= s->cut_at, 0) &&
        mrd_ev_after(ev->ts, s->said.last)) {
        pf_end_until(s, at);
        mrd_pf_part_cut(s, ev->ts, at);
    }
    if (__builtin_expect(ev->kind == MRD_SPAN && (ev->flags & MRD_EV_NO_START) == 0, 1))
        pf_span(s, ev, at);
    else if (pf_other(s, ev, at) != MRD_OK)
        return MRD_INVALID;
    s->events++;
    s->said.last = ev->ts;
    s->seen[ev->track] = 1;
    if (++s->since_mark >= PF_MARK_EVENTS)
        pf_mark(s);
    return s->err;
}

static void
pf_finish(mrd_pf *s)
{
    if (!s->started)
        pf_start(s, !mrd_ev_after(s->env->first, s->env->last) ? s->env->first : (mrd_ev_ns){ 0 });
    pf_end_until(s, (mrd_ev_ns){ INT64_MAX });
    if (s->err == MRD_OK)
        s->err = mrd_pf_part_finish(s);
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
    mrd_pf *s = state;
    mrd_err err, closed;

    if (s->err == MRD_OK)
        pf_finish(s);
    err = s->err;
    /* otherwise another output failed */
    closed = mrd_pf_part_fini(s, err == MRD_OK && why != NULL);
    err = err == MRD_OK ? closed : err;
    if (err != MRD_OK && s->why.err != MRD_OK && why != NULL)
        *why = s->why;
    pf_free(s);
    return err == MRD_OK || (why != NULL && why->err != MRD_OK)
               ? err
               : mrd_why_set(why, err, 0, "perfetto output");
}

const mrd_sink_ops mrd_sink_perfetto = {
    .name = "perfetto",
    .stem = "system_profile",
    .suffix = ".pftrace",
    .media_type = "application/octet-stream",
    .title = "Perfetto",
    .standard = true,
    .what = "Perfetto trace, for ui.perfetto.dev and trace_processor",
    .state_size = sizeof(mrd_pf),
    .device_too = true,
    .open = pf_open,
    .event = pf_event,
    .close = pf_close,
};
