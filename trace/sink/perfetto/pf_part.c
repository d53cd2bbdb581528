#include "trace/sink/perfetto/pf_part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loss_cause.h"
#include "base/obj.h"
#include "trace/sink/perfetto/pf_about.h"

#define PF_NODES_MAX 1000u /* maximum number of nodes with an attribute for their losses */
/* The trace is split into files. A file ends this many bytes before its size limit, which leaves
 * room for one large event and the totals. */
#define PF_CUT_ROOM (3u << 19)

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

/* Writes two clocks: the trace clock, and a private clock that starts now. Times on the private
 * clock are differences from the previous event. */
static void
pf_write_clock(mrd_pf *pf)
{
    size_t part;

    pf_packet_begin(pf);
    part = mrd_pb_open(&pf->packet, PF_CLOCK_SNAPSHOT);
    pf_snapshot_clock(&pf->packet, pf_trace_clock(pf), pf->now, false);
    pf_snapshot_clock(&pf->packet, PF_OWN_CLOCK, pf->now, true);
    mrd_pb_u64(&pf->packet, PF_SNAPSHOT_PRIMARY, pf_trace_clock(pf));
    mrd_pb_close(&pf->packet, part);
    pf_packet_end(pf);

    pf_packet_begin(pf);
    mrd_pb_u64(&pf->packet, PF_SEQUENCE_FLAGS, PF_FLAG_CLEARED);
    part = mrd_pb_open(&pf->packet, PF_DEFAULTS);
    mrd_pb_u64(&pf->packet, PF_TIMESTAMP_CLOCK, PF_OWN_CLOCK);
    mrd_pb_close(&pf->packet, part);
    pf_packet_end(pf);
}

/* Writes the error bounds of clocks as samples of counters. Called at the begin of each file and at
 * the end of the trace. `repeated` means that an earlier file has the same samples. */
static void
pf_clock_bounds(mrd_pf *pf, bool repeated)
{
    const mrd_catalog *cat = pf->env->catalog;
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(cat, &n);
    mrd_track unit = { .unit = MRD_UNIT_NS };

    for (size_t i = 1; i < n && i < pf->n_clocks; i++) {
        mrd_pf_value sample = { .whole = true, .bits = (uint64_t) clocks[i].bound_ns };
        mrd_buf name = { 0 };

        if (clocks[i].bound_ns < 0 || pf->env->profile != 0)
            continue;
        if (pf->clock_row[i] == 0) {
            mrd_buf_text(&name, "clock error bound ");
            mrd_buf_str(&name, mrd_catalog_text(cat, clocks[i].name));
            pf->clock_row[i] =
                mrd_pf_row_at_root(&pf->rows, (mrd_str){ (const char *) name.p, name.len }, &unit);
            pf->err = name.err != MRD_OK ? name.err : pf->err;
            mrd_buf_fini(&name);
        }
        pf_begin_event(pf, PF_COUNTER, pf->clock_row[i]);
        pf_add_value(&pf->event, &sample);
        pf->said.repeated += repeated;
        pf_write_event(pf, pf->now);
    }
}

/* Sets the size at which the current file ends and the next file begins. Below the size limit it
 * leaves room for the ends of open spans, one more event and the totals. But it is at least twice
 * the size of the repeated data at the begin of the file, so that at least half of each file is new
 * data. */
static void
pf_plan_cut(mrd_pf *pf)
{
    uint64_t limit = pf->env->options->split,
             room = limit / 4 < PF_CUT_ROOM ? limit / 4 : PF_CUT_ROOM;

    if (pf->values != NULL)
        pf->cut_at = limit - room > 2 * pf_size(pf) ? limit - room : 2 * pf_size(pf);
}

/* Writes the packets at the begin of each file of the trace. pf->now is the first time in the
 * file. */
static void
pf_write_head(mrd_pf *pf)
{
    pf_write_clock(pf);
    mrd_pf_write_catalog(&pf->file, pf->env->catalog, pf->env->profile);
    mrd_pf_write_about(&pf->file, pf->env->catalog, pf->env->profile, pf->shift_ns);
    if (mrd_pf_write_processes(&pf->file, pf->env->catalog, pf->env->profile) != MRD_OK)
        pf->err = MRD_NOMEM;
    mrd_pf_tracks_repeat(&pf->rows);
    pf_clock_bounds(pf, pf->part > 1);
}

/* Begins in pf->event the BEGIN of a span that shows lost events, including its name. */
void
mrd_pf_begin_loss(mrd_pf *pf, const mrd_pf_begun *loss)
{
    mrd_str cause = mrd_catalog_text(pf->env->catalog, loss->name);
    char name[256];

    if (mrd_drop_of(cause) == MRD_DROP_PAUSED)
        snprintf(name, sizeof(name), "not recorded (paused)");
    else
        snprintf(name, sizeof(name), "lost %" PRId64 " event%s (" MRD_STR_FMT ")", loss->lost,
                 mrd_plural((uint64_t) loss->lost), (int) (cause.len < 200 ? cause.len : 200),
                 cause.p);
    pf_begin_event(pf, PF_BEGIN, loss->row);
    mrd_pb_str(&pf->event, PF_EVENT_NAME, mrd_str_of(name));
}

/* Writes an attribute for each node that lost events, with their number. */
static void
attr_lost(mrd_pf *pf)
{
    const mrd_catalog *cat = pf->env->catalog;
    size_t n = mrd_catalog_processes(cat), said = 0;

    for (mrd_proc_id id = 0; id < n && said < PF_NODES_MAX; id++) {
        mrd_sid node = mrd_catalog_borrow_process(cat, id)->instance_id;
        uint64_t lost = 0;
        char key[160];

        for (mrd_proc_id process_id = id; process_id < n && pf->lost_of[id] > 0; process_id++) {
            if (mrd_catalog_borrow_process(cat, process_id)->instance_id != node)
                continue;
            lost += pf->lost_of[process_id];
            pf->lost_of[process_id] = process_id == id ? pf->lost_of[process_id] : 0;
        }
        if (lost == 0)
            continue;
        snprintf(key, sizeof(key), "meridian.lost." MRD_STR_FMT,
                 MRD_STR_ARG(mrd_catalog_text(cat, node)));
        mrd_pf_attribute_int(&pf->packet, key, (int64_t) lost);
        said++;
    }
}

/* Writes the totals of events. They are at the end of a file, because they are final only then. */
static void
pf_write_totals(mrd_pf *pf, bool more)
{
    size_t attributes;

    pf_packet_begin(pf);
    attributes = mrd_pb_open(&pf->packet, PF_TRACE_ATTRIBUTES);
    if (more || pf->part > 1)
        mrd_pf_attribute_int(&pf->packet, "meridian.part", (int64_t) pf->part);
    if (more)
        mrd_pf_attribute_int(&pf->packet, "meridian.part_goes_on", 1);
    mrd_pf_attribute_int(&pf->packet, "meridian.events", (int64_t) pf->events);
    mrd_pf_attribute_int(&pf->packet, "meridian.spans", (int64_t) pf->spans);
    mrd_pf_attribute_int(&pf->packet, "meridian.lost", (int64_t) pf->lost);
    attr_lost(pf);
    if (pf->clamped > 0)
        mrd_pf_attribute_int(&pf->packet, "meridian.times_clamped", (int64_t) pf->clamped);
    if (pf->flows_without_start > 0)
        mrd_pf_attribute_int(&pf->packet, "meridian.flow_ends_without_start",
                             (int64_t) pf->flows_without_start);
    if (pf->names.cut > 0)
        mrd_pf_attribute_int(&pf->packet, "meridian.texts_cut", (int64_t) pf->names.cut);
    if (pf->names.left_out > 0)
        mrd_pf_attribute_int(&pf->packet, "meridian.arguments_left_out",
                             (int64_t) pf->names.left_out);
    mrd_pb_close(&pf->packet, attributes);
    pf_packet_end(pf);
}

/* Writes the last packet of a file: trace statistics with the number of lost events. They make
 * viewers warn of lost data. */
static void
pf_write_stats(mrd_pf *pf)
{
    size_t stats, part;

    pf_packet_begin(pf);
    stats = mrd_pb_open(&pf->packet, PF_TRACE_STATS);
    part = mrd_pb_open(&pf->packet, PF_STATS_BUFFER);
    mrd_pb_u64(&pf->packet, PF_BUFFER_SIZE, PF_BLOCK);
    mrd_pb_u64(&pf->packet, PF_BUFFER_LOST, pf->lost);
    mrd_pb_close(&pf->packet, part);
    part = mrd_pb_open(&pf->packet, PF_STATS_WRITER);
    mrd_pb_u64(&pf->packet, PF_WRITER_SEQUENCE, PF_SEQ);
    mrd_pb_u64(&pf->packet, PF_WRITER_BUFFER, 0);
    mrd_pb_close(&pf->packet, part);
    mrd_pb_close(&pf->packet, stats);
    pf_packet_end(pf);
}

/* ---- Cutting the trace into parts ---- */

static int
by_end(const void *a, const void *b)
{
    const mrd_pf_end *x = a, *y = b;

    if (x->at.ns != y->at.ns)
        return mrd_ev_before(x->at, y->at) ? -1 : 1;
    return (int32_t) (y->order - x->order) < 0 ? -1 : 1; /* inner spans end first */
}

static int
by_begin(const void *a, const void *b)
{
    const mrd_pf_unended *x = a, *y = b;

    return (int32_t) (x->order - y->order) < 0 ? -1 : 1;
}

/* Writes an END for each open span, at its true end time, which may lie after the end of this file.
 * The spans stay open, so that the next file repeats them. */
static void
pf_end_here(mrd_pf *pf)
{
    mrd_pf_end *end = calloc(pf->ends.n + 1, sizeof(*end));
    size_t n = 0;

    for (uint32_t place = 0; end != NULL && place < pf->ends.cap; place++)
        n += mrd_pf_ends_open(&pf->ends, place, &end[n]);
    if (end == NULL)
        pf->err = MRD_NOMEM;
    else
        qsort(end, n, sizeof(*end), by_end);
    for (size_t i = 0; i < n; i++)
        pf_put_plain(pf, end[i].at, PF_END, end[i].row, 0, 0, NULL);
    free(end);
}

/* Writes the BEGIN of a span from an earlier file that is still open, at the begin of this file. */
static void
pf_repeat_span(mrd_pf *pf, const mrd_pf_begun *span)
{
    if (span->lost >= 0) {
        mrd_pf_begin_loss(pf, span);
    } else {
        mrd_pb_field name = mrd_pf_name(&pf->names, MRD_PF_NAME, span->name);

        pf_begin_event(pf, PF_BEGIN, span->row);
        if (span->category != MRD_SID_EMPTY)
            mrd_pb_field_add(&pf->event, mrd_pf_name(&pf->names, MRD_PF_CATEGORY, span->category));
        mrd_pb_field_add(&pf->event, name);
    }
    pf->said.repeated++;
    mrd_pf_arg_int(&pf->event, MRD_PF_CONTINUED, 1);
    mrd_pf_arg_int(&pf->event, MRD_PF_BEGIN_NS, span->begin.ns - pf->shift_ns);
    pf_write_event(pf, pf->now);
}

/* Writes all open spans of the previous file again in this file, outer ones first. */
static void
pf_repeat_open(mrd_pf *pf)
{
    mrd_pf_unended *unended = calloc(pf->ends.n + pf->n_unended + 1, sizeof(*unended));
    size_t n = 0;
    mrd_pf_end end;

    if (unended == NULL) {
        pf->err = MRD_NOMEM;
        return;
    }
    for (uint32_t place = 0; place < pf->ends.cap; place++) {
        if (mrd_pf_ends_open(&pf->ends, place, &end))
            unended[n++] = (mrd_pf_unended){ end.order, pf->ends.begun[place] };
    }
    for (size_t i = 0; i < pf->n_unended; i++)
        unended[n++] = pf->unended[i];
    qsort(unended, n, sizeof(*unended), by_begin);
    for (size_t i = 0; i < n; i++)
        pf_repeat_span(pf, &unended[i].begun);
    free(unended);
}

static void
pf_repeat_values(mrd_pf *pf)
{
    for (mrd_track_id id = 0; id < mrd_catalog_tracks(pf->env->catalog); id++) {
        if (!pf->values[id].has)
            continue;
        pf_begin_event(pf, PF_COUNTER, mrd_pf_row(&pf->rows, id, true));
        pf_add_value(&pf->event, &pf->values[id]);
        pf->said.repeated++;
        pf_write_event(pf, pf->now);
    }
}

/* Completes the current file of the trace, which covers session times up to `until`. `more` means
 * that another file follows. */
static mrd_err
pf_end_part(mrd_pf *pf, mrd_ev_ns until, bool more)
{
    pf_write_totals(pf, more);
    if (pf->lost > 0)
        pf_write_stats(pf);
    mrd_pf_file_flush(&pf->file);
    pf->said.until = until;
    pf->said.events = pf->events;
    pf->said.spans = pf->spans;
    return pf->file.err != MRD_OK ? pf->file.err
                                  : mrd_pf_parts_end(&pf->parts, pf->out, &pf->said, &pf->why);
}

mrd_err
mrd_pf_part_init(mrd_pf *pf)
{
    size_t tracks = mrd_catalog_tracks(pf->env->catalog) + 1;
    mrd_err err = mrd_pf_parts_init(&pf->parts, pf->env, &pf->out, &pf->why);

    pf->part = 1;
    pf->cut_at = UINT64_MAX;
    if (err != MRD_OK || (pf->seen = calloc(tracks, 1)) == NULL)
        return err != MRD_OK ? err : MRD_NOMEM;
    if (pf->env->options->split == 0 || !mrd_pf_parts_can(&pf->parts))
        return MRD_OK;
    return (pf->values = calloc(tracks, sizeof(*pf->values))) == NULL ? MRD_NOMEM : MRD_OK;
}

void
mrd_pf_part_begin(mrd_pf *pf, mrd_ev_ns session)
{
    pf->said = (mrd_pf_part){ .first = session, .last = session, .seen = pf->seen };
    pf_write_head(pf);
    pf_plan_cut(pf);
}

void
mrd_pf_part_cut(mrd_pf *pf, mrd_ev_ns session, mrd_ev_ns at)
{
    mrd_err err = MRD_OK;

    pf_end_here(pf);
    if (pf->err != MRD_OK || (err = pf_end_part(pf, session, true)) != MRD_OK ||
        (err = mrd_pf_parts_next(&pf->parts, &pf->out, &pf->why)) != MRD_OK) {
        if (pf->env->why != NULL && pf->why.err != MRD_OK)
            *pf->env->why = pf->why;
        pf->err = pf->err != MRD_OK ? pf->err : err;
        return;
    }
    pf->flows.part = pf->part++;
    pf->file.out = pf->out;
    pf->file.raw = 0;
    pf->events = pf->spans = pf->lost = pf->clamped = pf->since_mark = pf->flows_without_start = 0;
    memset(pf->lost_of, 0, (mrd_catalog_processes(pf->env->catalog) + 1) * sizeof(*pf->lost_of));
    memset(pf->seen, 0, mrd_catalog_tracks(pf->env->catalog) + 1);
    mrd_pf_names_again(&pf->names);
    mrd_pf_identity_again(&pf->identity);
    pf->now = at;
    pf->said = (mrd_pf_part){ .first = session, .last = session, .seen = pf->seen };
    pf_write_head(pf);
    pf_repeat_values(pf);
    pf_repeat_open(pf);
    pf_plan_cut(pf);
}

mrd_err
mrd_pf_part_finish(mrd_pf *pf)
{
    pf_clock_bounds(pf, false);
    return pf_end_part(pf, pf->said.last, false);
}

mrd_err
mrd_pf_part_fini(mrd_pf *pf, bool whole)
{
    mrd_err err = whole ? mrd_pf_parts_commit(&pf->parts, &pf->why) : MRD_OK;

    mrd_pf_parts_fini(&pf->parts);
    free(pf->seen);
    free(pf->values);
    free(pf->unended);
    return err;
}
