/*
 * trace/sink/perfetto/sink_perfetto.c - writes Perfetto traces: system_profile.pftrace, and one
 * trace per device profile.
 *
 * There is one packet sequence, with times as differences and interned names. Rows are nested
 * custom tracks in explicit order. All packets are in order of time: ends before begins of equal
 * time, outer spans before inner ones. So a reader can process the trace while it reads. Every
 * PF_MARK_EVENTS events, three packets tell the reader that all earlier events are complete. The
 * reader can then release them, which halves its memory. For the same reason a row's descriptor
 * directly precedes its first event.
 *
 * Times are session times. If session time counts from 1970, they are UTC and the trace clock is
 * REALTIME. Otherwise the trace clock is BOOTTIME. Perfetto refuses negative times. So a trace that
 * begins before zero is shifted by whole seconds, the attribute meridian.time_shift_ns has the
 * shift, and the trace clock is BOOTTIME.
 *
 * If the options require it, the trace is split by time into files that can be opened alone
 * (trace/sink/perfetto/pf_parts.h). At the end of a file, the ends of all open spans are written,
 * at their true times. The next file begins with clocks, rows, open spans and the latest samples.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "trace/sink/perfetto/pf_part.h"
#include "trace/sink/sinks.h"

#define PF_MARK_EVENTS 100000u

/* ---- Writing events ---- */

/* Converts session time to trace time. */
PF_HOT mrd_ev_ns
pf_time(mrd_pf *pf, mrd_ev_ns session)
{
    mrd_ev_ns at;

    if (__builtin_expect(__builtin_add_overflow(session.ns, pf->shift_ns, &at.ns) ||
                             at.ns > MRD_PF_ENDS_BEFORE,
                         0)) {
        pf->clamped++;
        return (mrd_ev_ns){ MRD_PF_ENDS_BEFORE };
    }
    /* The event is more than 292 years before zero, so no possible shift makes its time
     * positive. */
    if (__builtin_expect(at.ns < 0, 0)) {
        pf->clamped++;
        return (mrd_ev_ns){ 0 };
    }
    return at;
}

/* Sets row and time for the flow arrow points that are added next. */
PF_COLD void
pf_here(mrd_pf *pf, mrd_pb_field row, mrd_ev_ns at)
{
    pf->flows.row = row;
    pf->flows.at = at;
}

/* Repeats a flow arrow's latest point, which is in an earlier file of the trace, as an instant in
 * this file. So the arrow begins in this file. */
PF_COLD void
pf_repeat_point(mrd_pf *pf, const mrd_pf_flow *before, uint64_t id)
{
    uint8_t head[32], *end = pf_put_head(pf, head, pf->now);
    mrd_buf event = { 0 };

    mrd_pb_u64(&event, PF_EVENT_TYPE, PF_INSTANT);
    mrd_pb_field_add(&event, before->row);
    mrd_pb_str(&event, PF_EVENT_NAME, MRD_STR("arrow from an earlier part"));
    mrd_pf_arg_int(&event, MRD_PF_CONTINUED, 1);
    mrd_pf_arg_int(&event, MRD_PF_BEGIN_NS, before->at.ns - pf->shift_ns);
    pf->said.repeated++;
    pf_add_fixed(&event, PF_EVENT_FLOW, id);
    mrd_buf_reset(&pf->packet);
    mrd_buf_add(&pf->packet, head, (size_t) (end - head));
    mrd_pb_bytes(&pf->packet, PF_TRACK_EVENT, event.p, event.len);
    if (event.err != MRD_OK)
        pf->err = MRD_NOMEM;
    mrd_buf_fini(&event);
    pf_packet_end(pf);
}

/* Adds a point of a flow arrow to pf->event. `has_end` means that the event is a span. An arrow's
 * end may then be written with the span's END instead. */
static void
pf_add_flow(mrd_pf *pf, mrd_flow flow, bool has_end)
{
    uint64_t id = 0;

    if (flow.dir != MRD_FLOW_START)
        id = mrd_pf_flows_point(&pf->flows, flow.id, flow.dir == MRD_FLOW_END);
    if (flow.dir != MRD_FLOW_START && id != 0 && pf->flows.before.id != 0)
        pf_repeat_point(pf, &pf->flows.before, id);
    if (id == 0 && flow.dir == MRD_FLOW_END) {
        if (has_end)
            mrd_pf_flows_defer(&pf->flows, flow.id, pf->order);
        else
            pf->flows_without_start++;
        return;
    }
    if (id == 0)
        id = mrd_pf_flows_start(&pf->flows, flow.id, pf->order, flow.ends);
    pf_add_fixed(&pf->event, PF_EVENT_FLOW, id);
    for (uint32_t n = 1; flow.dir == MRD_FLOW_START && n < flow.ends; n++)
        pf_add_fixed(&pf->event, PF_EVENT_FLOW, mrd_flow_end_id(id, n));
}

/* Writes a span's END together with the ends of flow arrows that were postponed to it. */
PF_COLD void
pf_end_with_flows(mrd_pf *pf, mrd_pf_end end, uint64_t id)
{
    pf_begin_event(pf, PF_END, end.row);
    pf_here(pf, end.row, end.at);
    for (; id != 0; id = mrd_pf_flows_due(&pf->flows, end.order))
        pf_add_flow(pf, (mrd_flow){ .id = id, .dir = MRD_FLOW_END }, false);
    pf_write_event(pf, end.at);
}

PF_HOT void
pf_put_end(mrd_pf *pf, mrd_pf_end end)
{
    uint64_t id = pf->flows.n_late == 0 ? 0 : mrd_pf_flows_due(&pf->flows, end.order);

    if (id != 0)
        pf_end_with_flows(pf, end, id);
    else
        pf_put_plain(pf, end.at, PF_END, end.row, 0, 0, NULL);
}

/* Writes the ends of all spans that end at this time or earlier. */
PF_HOT void
pf_end_until(mrd_pf *pf, mrd_ev_ns at)
{
    while (mrd_pf_ends_due(&pf->ends, at))
        pf_put_end(pf, mrd_pf_ends_take(&pf->ends));
}

/* Adds to pf->event what all kinds of events have: arguments, identity of the track, and flow
 * arrows. Category and name must come before. */
static void
pf_add_details(mrd_pf *pf, const mrd_event *ev, bool has_end)
{
    const mrd_process *process;

    if (ev->id != 0 && ev->kind != MRD_FLOW) {
        size_t annotation = mrd_pb_open(&pf->event, PF_EVENT_ANNOTATION);

        mrd_pb_str(&pf->event, PF_ARG_NAME, MRD_STR("id"));
        mrd_pb_u64(&pf->event, PF_ARG_UINT, ev->id);
        mrd_pb_close(&pf->event, annotation);
    }
    mrd_pf_args(&pf->names, &pf->event, ev->args, ev->arg_count);
    if (pf->identity.catalog != NULL)
        mrd_pf_identity_add(&pf->identity, &pf->names, &pf->event, ev);
    if (ev->flags & MRD_EV_NO_START)
        mrd_pf_arg_text(&pf->event, "meridian.note", "only its end was seen");
    if (ev->flags & MRD_EV_SIMULATED) {
        process = mrd_catalog_borrow_process(
            pf->env->catalog, mrd_catalog_borrow_track(pf->env->catalog, ev->track)->process);
        if (!(process->flags & MRD_PROC_SIMULATED))
            mrd_pf_arg_text(&pf->event, "meridian.note", "simulated");
    }
    for (uint32_t i = 0; i < ev->flow_count && pf->env->options->show_flows; i++)
        pf_add_flow(pf, ev->flows[i], has_end);
}

PF_COLD void
pf_put_detailed(mrd_pf *pf, const mrd_event *ev, mrd_ev_ns at, uint8_t type, mrd_pb_field row,
                bool has_end)
{
    mrd_pb_field name = mrd_pf_name(&pf->names, MRD_PF_NAME, ev->name);

    pf_begin_event(pf, type, row);
    pf_here(pf, row, at);
    if (ev->category != MRD_SID_EMPTY)
        mrd_pb_field_add(&pf->event, mrd_pf_name(&pf->names, MRD_PF_CATEGORY, ev->category));
    mrd_pb_field_add(&pf->event, name);
    pf_add_details(pf, ev, has_end);
    pf_write_event(pf, at);
}

/* Writes a BEGIN or INSTANT with name, category, arguments, identity of the track, and flow
 * arrows. */
PF_HOT void
pf_put_named(mrd_pf *pf, const mrd_event *ev, mrd_ev_ns at, uint8_t type, mrd_pb_field row,
             bool has_end)
{
    mrd_pb_field name = mrd_pf_name(&pf->names, MRD_PF_NAME, ev->name), category = 0;
    const mrd_pf_identity_row *whose =
        pf->identity.rows == NULL ? NULL : &pf->identity.rows[ev->track];

    if (ev->category != MRD_SID_EMPTY)
        category = mrd_pf_name(&pf->names, MRD_PF_CATEGORY, ev->category);
    if (ev->arg_count == 0 && ev->flow_count == 0 && ev->id == 0 && ev->flags == 0 &&
        pf->names.fresh.len == 0 && (whose == NULL || whose->made))
        pf_put_plain(pf, at, type, row, category, name, whose);
    else
        pf_put_detailed(pf, ev, at, type, row, has_end);
}

/* Stores a span without an end, because the following files of the trace have to repeat it. */
PF_COLD void
pf_keep_unended(mrd_pf *pf, const mrd_pf_begun *begun)
{
    if (pf->values == NULL)
        return;
    if (!MRD_VEC_ROOM(pf->unended, pf->n_unended, pf->cap_unended, 1))
        pf->err = MRD_NOMEM;
    else
        pf->unended[pf->n_unended++] = (mrd_pf_unended){ pf->order, *begun };
}

/* Stores the end of the span that has just begun. The end is written when its time comes. */
PF_HOT void
pf_open_span(mrd_pf *pf, mrd_ev_ns end, const mrd_pf_begun *begun)
{
    if (end.ns == INT64_MAX)
        pf_keep_unended(pf, begun);
    else if (!mrd_pf_ends_put(&pf->ends, pf_time(pf, end), pf->order, begun))
        pf->err = MRD_NOMEM;
    pf->order++;
}

/* Writes a span. If another span's end is due now, this span's end takes its slot in the queue.
 * That is cheaper than a removal and an insertion. */
PF_HOT void
pf_span(mrd_pf *pf, const mrd_event *ev, mrd_ev_ns at)
{
    uint32_t lane = mrd_lanes_put(pf->lanes, ev), place = 0;
    mrd_ev_ns end = mrd_event_end(ev);
    bool replaces = mrd_pf_ends_due(&pf->ends, at) && end.ns < MRD_PF_ENDS_BEFORE - pf->shift_ns &&
                    end.ns + pf->shift_ns > at.ns;
    mrd_pf_begun begun = { .begin = at, .lost = -1, .name = ev->name, .category = ev->category };

    if (replaces) {
        mrd_pf_end due =
            mrd_pf_ends_replace(&pf->ends, mrd_ev_add(end, pf->shift_ns), pf->order, &place);

        pf_put_end(pf, due);
    }
    pf_end_until(pf, at);
    begun.row = mrd_pf_lane(&pf->rows, ev->track, lane);
    pf_put_named(pf, ev, at, PF_BEGIN, begun.row, end.ns != INT64_MAX);
    if (replaces) {
        mrd_pf_ends_name(&pf->ends, place, &begun);
        pf->order++;
    } else {
        pf_open_span(pf, end, &begun);
    }
    pf->spans++;
}

static void
pf_loss(mrd_pf *pf, const mrd_event *ev, mrd_ev_ns at)
{
    uint32_t lane = mrd_lanes_put(pf->loss_lanes, ev);
    mrd_pf_begun begun = { .row = mrd_pf_loss(&pf->rows, ev->track, lane),
                           .begin = at,
                           .lost = ev->ivalue > 0 ? ev->ivalue : 0,
                           .name = ev->name };

    mrd_pf_begin_loss(pf, &begun);
    mrd_pf_arg_int(&pf->event, "lost", ev->ivalue);
    mrd_pf_args(&pf->names, &pf->event, ev->args, ev->arg_count);
    pf_write_event(pf, at);
    pf_open_span(pf, mrd_event_end(ev), &begun);
    if (ev->ivalue > 0) {
        pf->lost += (uint64_t) ev->ivalue;
        pf->lost_of[mrd_catalog_borrow_track(pf->env->catalog, ev->track)->process] +=
            (uint64_t) ev->ivalue;
    }
}

static mrd_pf_value
pf_value_of(const mrd_event *ev)
{
    mrd_pf_value pf_value = { .has = true, .whole = true, .bits = (uint64_t) ev->ivalue };
    double value = ev->value;

    if ((ev->flags & MRD_EV_INT) && !((ev->flags & MRD_EV_UNSIGNED) && ev->ivalue < 0))
        return pf_value;
    /* an integer of 2^63 or more becomes a double, because Perfetto's integer field is signed */
    if (ev->flags & MRD_EV_INT)
        value = (double) (uint64_t) ev->ivalue;
    pf_value.whole = false;
    memcpy(&pf_value.bits, &value, sizeof(pf_value.bits));
    return pf_value;
}

static void
pf_counter(mrd_pf *pf, const mrd_event *ev, mrd_ev_ns at)
{
    mrd_pf_value value = pf_value_of(ev);

    pf_begin_event(pf, PF_COUNTER, mrd_pf_row(&pf->rows, ev->track, true));
    pf_add_value(&pf->event, &value);
    mrd_pf_args(&pf->names, &pf->event, ev->args, ev->arg_count);
    pf_write_event(pf, at);
    if (pf->values != NULL)
        pf->values[ev->track] = value;
}

/* Writes a point of a flow arrow that belongs to no span, as an instant. */
static void
pf_flow_point(mrd_pf *pf, const mrd_event *ev, mrd_ev_ns at)
{
    if (!pf->env->options->show_flows)
        return;
    pf_begin_event(pf, PF_INSTANT, mrd_pf_row(&pf->rows, ev->track, false));
    pf_here(pf, mrd_pf_row(&pf->rows, ev->track, false), at);
    if (ev->name == MRD_SID_EMPTY)
        mrd_pb_str(&pf->event, PF_EVENT_NAME, MRD_STR("flow"));
    else
        mrd_pb_field_add(&pf->event, mrd_pf_name(&pf->names, MRD_PF_NAME, ev->name));
    pf_add_details(pf, ev, false);
    pf_add_flow(pf, (mrd_flow){ .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir }, false);
    pf_write_event(pf, at);
}

/* ---- The sink ---- */

/* Frees everything except the files of the trace. */
static void
pf_free(mrd_pf *pf)
{
    free(pf->clock_row);
    free(pf->lost_of);
    mrd_lanes_free(pf->lanes);
    mrd_lanes_free(pf->loss_lanes);
    mrd_pf_tracks_fini(&pf->rows);
    mrd_pf_names_fini(&pf->names);
    mrd_pf_identity_fini(&pf->identity);
    mrd_pf_flows_fini(&pf->flows);
    mrd_pf_file_fini(&pf->file);
    mrd_pf_ends_fini(&pf->ends);
    mrd_buf_fini(&pf->packet);
    mrd_buf_fini(&pf->event);
}

static mrd_err
pf_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    mrd_pf *pf = state;
    mrd_err err;

    pf->env = env;
    mrd_catalog_clocks(env->catalog, &pf->n_clocks);
    pf->clock_row = calloc(pf->n_clocks + 1, sizeof(*pf->clock_row));
    pf->lost_of = calloc(mrd_catalog_processes(env->catalog) + 1, sizeof(*pf->lost_of));
    pf->lanes = mrd_lanes_new(mrd_catalog_tracks(env->catalog));
    pf->loss_lanes = mrd_lanes_new(0);
    err = env->options->identity ? mrd_pf_identity_init(&pf->identity, env->catalog) : MRD_OK;
    mrd_pf_names_init(&pf->names, mrd_catalog_strings(env->catalog));
    if (pf->clock_row == NULL || pf->lost_of == NULL || pf->lanes == NULL || pf->loss_lanes == NULL)
        err = MRD_NOMEM;
    if (err == MRD_OK)
        err = mrd_pf_part_init(pf);
    if (err == MRD_OK &&
        (err = mrd_pf_file_init(&pf->file, pf->out, env->options->compress)) == MRD_OK)
        err = mrd_pf_tracks_init(&pf->rows, &pf->file, env);
    pf->err = err;
    if (err != MRD_OK && pf->why.err != MRD_OK && why != NULL)
        *why = pf->why;
    else if (err != MRD_OK)
        mrd_why_set(why, err, 0, "perfetto output");
    if (err != MRD_OK) {
        (void) mrd_pf_part_fini(pf, false);
        pf_free(pf);
    }
    return err;
}

/* Writes the begin of the trace. `first` is the session time at which the first event begins. */
PF_COLD void
pf_start(mrd_pf *pf, mrd_ev_ns first)
{
    pf->started = true;
    if (first.ns < 0) { /* shift by whole seconds, so that the fractions of times stay the same */
        uint64_t seconds = (0 - (uint64_t) first.ns + MRD_SEC - 1) / MRD_SEC;

        pf->shift_ns = seconds > INT64_MAX / MRD_SEC ? INT64_MAX : (int64_t) (seconds * MRD_SEC);
    }
    pf->now = mrd_ev_add(first, pf->shift_ns);
    if (pf->now.ns < 0)
        pf->now = (mrd_ev_ns){ 0 };
    mrd_pf_part_begin(pf, first);
}

/* Writes three packets that tell readers that everything before is complete (see the top of this
 * file). */
PF_COLD void
pf_mark(mrd_pf *pf)
{
    static const uint32_t marks[] = { PF_SERVICE_FLUSHED, PF_SERVICE_FLUSHED, PF_SERVICE_READ };

    for (size_t i = 0; i < MRD_COUNT(marks); i++) {
        size_t service;

        mrd_buf_reset(&pf->packet);
        mrd_pb_u64(&pf->packet, PF_TIMESTAMP, (uint64_t) pf->now.ns);
        mrd_pb_u64(&pf->packet, PF_TIMESTAMP_CLOCK, pf_trace_clock(pf));
        service = mrd_pb_open(&pf->packet, PF_SERVICE_EVENT);
        mrd_pb_u64(&pf->packet, marks[i], 1);
        mrd_pb_close(&pf->packet, service);
        pf_packet_end(pf);
    }
    pf->since_mark = 0;
    if (mrd_out_err(pf->out) != MRD_OK) /* stop early if the disk is full */
        pf->err = mrd_out_err(pf->out);
}

/* Writes all kinds of events except spans with a begin. */
PF_COLD mrd_err
pf_other(mrd_pf *pf, const mrd_event *ev, mrd_ev_ns at)
{
    pf_end_until(pf, at);
    switch (ev->kind) {
    case MRD_SPAN:
    case MRD_INSTANT:
        pf_put_named(pf, ev, at, PF_INSTANT, mrd_pf_row(&pf->rows, ev->track, false), false);
        break;
    case MRD_COUNTER:
        pf_counter(pf, ev, at);
        break;
    case MRD_FLOW:
        pf_flow_point(pf, ev, at);
        break;
    case MRD_LOSS:
        pf_loss(pf, ev, at);
        break;
    default:
        return MRD_INVALID;
    }
    return MRD_OK;
}

static mrd_err
pf_event(void *state, const mrd_event *ev)
{
    mrd_pf *pf = state;
    mrd_ev_ns at;

    if (pf->err != MRD_OK)
        return pf->err;
    if (!mrd_pf_tracks_has(&pf->rows, ev->track))
        return MRD_INVALID; /* the track is of another profile, or not in the catalog */
    /* an impossible time would stretch the time axis of viewers */
    if (ev->flags & MRD_EV_MISTIMED)
        return MRD_OK;
    if (!pf->started)
        pf_start(pf, ev->ts);
    at = pf_time(pf, ev->ts);
    if (__builtin_expect(pf_size(pf) + (uint64_t) pf->ends.n * PF_END_ROOM >= pf->cut_at, 0) &&
        mrd_ev_after(ev->ts, pf->said.last)) {
        pf_end_until(pf, at);
        mrd_pf_part_cut(pf, ev->ts, at);
    }
    if (__builtin_expect(ev->kind == MRD_SPAN && (ev->flags & MRD_EV_NO_START) == 0, 1))
        pf_span(pf, ev, at);
    else if (pf_other(pf, ev, at) != MRD_OK)
        return MRD_INVALID;
    pf->events++;
    pf->said.last = ev->ts;
    pf->seen[ev->track] = 1;
    if (++pf->since_mark >= PF_MARK_EVENTS)
        pf_mark(pf);
    return pf->err;
}

static void
pf_finish(mrd_pf *pf)
{
    if (!pf->started)
        pf_start(pf,
                 !mrd_ev_after(pf->env->first, pf->env->last) ? pf->env->first : (mrd_ev_ns){ 0 });
    pf_end_until(pf, (mrd_ev_ns){ INT64_MAX });
    if (pf->err == MRD_OK)
        pf->err = mrd_pf_part_finish(pf);
    if (pf->err == MRD_OK)
        pf->err = pf->file.err != MRD_OK          ? pf->file.err
                  : pf->flows.err != MRD_OK       ? pf->flows.err
                  : pf->rows.err != MRD_OK        ? pf->rows.err
                  : pf->names.err != MRD_OK       ? pf->names.err
                  : mrd_lanes_err(pf->lanes) != 0 ? mrd_lanes_err(pf->lanes)
                                                  : mrd_lanes_err(pf->loss_lanes);
}

static mrd_err
pf_close(void *state, mrd_why *why)
{
    mrd_pf *pf = state;
    mrd_err err, closed;

    if (pf->err == MRD_OK)
        pf_finish(pf);
    err = pf->err;
    /* `why` is NULL if another output failed; then remove these files, too */
    closed = mrd_pf_part_fini(pf, err == MRD_OK && why != NULL);
    err = err == MRD_OK ? closed : err;
    if (err != MRD_OK && pf->why.err != MRD_OK && why != NULL)
        *why = pf->why;
    pf_free(pf);
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
