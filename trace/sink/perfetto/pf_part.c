#include "trace/sink/perfetto/pf_part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loss_cause.h"
#include "base/obj.h"
#include "trace/sink/perfetto/pf_about.h"

#define PF_NODES_MAX 1000u      /* attributes with the losses of a node */
#define PF_CUT_ROOM  (3u << 19) /* room for the largest event and the totals */

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

/* Writes the trace clock, and our own clock, which counts differences from here. */
static void
pf_write_clock(mrd_pf *s)
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

/* Writes one sample per known bound, at the first and at the last time; also where a part begins,
 * then marked as repeated. */
static void
pf_clock_bounds(mrd_pf *s, bool repeated)
{
    const mrd_catalog *cat = s->env->catalog;
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(cat, &n);
    mrd_track unit = { .unit = MRD_UNIT_NS };

    for (size_t i = 1; i < n && i < s->n_clocks; i++) {
        mrd_pf_value sample = { .whole = true, .bits = (uint64_t) clocks[i].bound_ns };
        mrd_buf name = { 0 };

        if (clocks[i].bound_ns < 0 || s->env->profile != 0)
            continue;
        if (s->clock_row[i] == 0) {
            mrd_buf_text(&name, "clock error bound ");
            mrd_buf_str(&name, mrd_catalog_text(cat, clocks[i].name));
            s->clock_row[i] =
                mrd_pf_row_at_root(&s->rows, (mrd_str){ (const char *) name.p, name.len }, &unit);
            s->err = name.err != MRD_OK ? name.err : s->err;
            mrd_buf_fini(&name);
        }
        pf_begin_event(s, PF_COUNTER, s->clock_row[i]);
        pf_add_value(&s->event, &sample);
        s->said.repeated += repeated;
        pf_write_event(s, s->now);
    }
}

/* Plans the next cut so that the ends of open spans, one more event and the totals still fit. A
 * part has at least the number of new bytes that it repeats. */
static void
pf_plan_cut(mrd_pf *s)
{
    uint64_t limit = s->env->options->split,
             room = limit / 4 < PF_CUT_ROOM ? limit / 4 : PF_CUT_ROOM;

    if (s->values != NULL)
        s->cut_at = limit - room > 2 * pf_size(s) ? limit - room : 2 * pf_size(s);
}

/* Writes the beginning of every part; s->now is its first time. */
static void
pf_write_head(mrd_pf *s)
{
    pf_write_clock(s);
    mrd_pf_write_catalog(&s->file, s->env->catalog, s->env->profile);
    mrd_pf_write_about(&s->file, s->env->catalog, s->env->profile, s->shift_ns);
    if (mrd_pf_write_processes(&s->file, s->env->catalog, s->env->profile) != MRD_OK)
        s->err = MRD_NOMEM;
    mrd_pf_tracks_repeat(&s->rows);
    pf_clock_bounds(s, s->part > 1);
}

/* Begins the event of a loss, with its name. */
void
mrd_pf_begin_loss(mrd_pf *s, const mrd_pf_begun *loss)
{
    mrd_str cause = mrd_catalog_text(s->env->catalog, loss->name);
    char name[256];

    if (mrd_drop_of(cause) == MRD_DROP_PAUSED)
        snprintf(name, sizeof(name), "not recorded (paused)");
    else
        snprintf(name, sizeof(name), "lost %" PRId64 " event%s (" MRD_STR_FMT ")", loss->lost,
                 mrd_plural((uint64_t) loss->lost), (int) (cause.len < 200 ? cause.len : 200),
                 cause.p);
    pf_begin_event(s, PF_BEGIN, loss->row);
    mrd_pb_str(&s->event, PF_EVENT_NAME, mrd_str_of(name));
}

/* Writes the losses of each node, as one attribute per node. */
static void
attr_lost(mrd_pf *s)
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

/* Writes totals, which are final only at the end. */
static void
pf_write_totals(mrd_pf *s, bool more)
{
    size_t attributes;

    pf_packet_begin(s);
    attributes = mrd_pb_open(&s->packet, PF_TRACE_ATTRIBUTES);
    if (more || s->part > 1)
        mrd_pf_attribute_int(&s->packet, "meridian.part", (int64_t) s->part);
    if (more)
        mrd_pf_attribute_int(&s->packet, "meridian.part_goes_on", 1);
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
pf_write_stats(mrd_pf *s)
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

/* ---- Parts ---- */

static int
by_end(const void *a, const void *b)
{
    const mrd_pf_end *x = a, *y = b;

    if (x->at.ns != y->at.ns)
        return mrd_ev_before(x->at, y->at) ? -1 : 1;
    return (int32_t) (y->order - x->order) < 0 ? -1 : 1; /* inner ones first */
}

static int
by_begin(const void *a, const void *b)
{
    const mrd_pf_unended *x = a, *y = b;

    return (int32_t) (x->order - y->order) < 0 ? -1 : 1;
}

/* Writes the ends of open spans at their times. The spans stay open for the next part. */
static void
pf_end_here(mrd_pf *s)
{
    mrd_pf_end *v = calloc(s->ends.n + 1, sizeof(*v));
    size_t n = 0;

    for (uint32_t place = 0; v != NULL && place < s->ends.cap; place++)
        n += mrd_pf_ends_open(&s->ends, place, &v[n]);
    if (v == NULL)
        s->err = MRD_NOMEM;
    else
        qsort(v, n, sizeof(*v), by_end);
    for (size_t i = 0; i < n; i++)
        pf_put_plain(s, v[i].at, PF_END, v[i].row, 0, 0, NULL);
    free(v);
}

/* Writes the BEGIN of a span again, in this part. */
static void
pf_repeat_span(mrd_pf *s, const mrd_pf_begun *span)
{
    if (span->lost >= 0) {
        mrd_pf_begin_loss(s, span);
    } else {
        mrd_pb_field name = mrd_pf_name(&s->names, MRD_PF_NAME, span->name);

        pf_begin_event(s, PF_BEGIN, span->row);
        if (span->category != MRD_SID_EMPTY)
            mrd_pb_field_add(&s->event, mrd_pf_name(&s->names, MRD_PF_CATEGORY, span->category));
        mrd_pb_field_add(&s->event, name);
    }
    s->said.repeated++;
    mrd_pf_arg_int(&s->event, MRD_PF_CONTINUED, 1);
    mrd_pf_arg_int(&s->event, MRD_PF_BEGIN_NS, span->begin.ns - s->shift_ns);
    pf_write_event(s, s->now);
}

/* Repeats all open spans, outer ones first. */
static void
pf_repeat_open(mrd_pf *s)
{
    mrd_pf_unended *v = calloc(s->ends.n + s->n_unended + 1, sizeof(*v));
    size_t n = 0;
    mrd_pf_end end;

    if (v == NULL) {
        s->err = MRD_NOMEM;
        return;
    }
    for (uint32_t place = 0; place < s->ends.cap; place++) {
        if (mrd_pf_ends_open(&s->ends, place, &end))
            v[n++] = (mrd_pf_unended){ end.order, s->ends.begun[place] };
    }
    for (size_t i = 0; i < s->n_unended; i++)
        v[n++] = s->unended[i];
    qsort(v, n, sizeof(*v), by_begin);
    for (size_t i = 0; i < n; i++)
        pf_repeat_span(s, &v[i].begun);
    free(v);
}

static void
pf_repeat_values(mrd_pf *s)
{
    for (mrd_track_id t = 0; t < mrd_catalog_tracks(s->env->catalog); t++) {
        if (!s->values[t].has)
            continue;
        pf_begin_event(s, PF_COUNTER, mrd_pf_row(&s->rows, t, true));
        pf_add_value(&s->event, &s->values[t]);
        s->said.repeated++;
        pf_write_event(s, s->now);
    }
}

/* Completes the current part. `more` means that another one follows. */
static mrd_err
pf_end_part(mrd_pf *s, mrd_ev_ns until, bool more)
{
    pf_write_totals(s, more);
    if (s->lost > 0)
        pf_write_stats(s);
    mrd_pf_file_flush(&s->file);
    s->said.until = until;
    s->said.events = s->events;
    s->said.spans = s->spans;
    return s->file.err != MRD_OK ? s->file.err
                                 : mrd_pf_parts_end(&s->parts, s->out, &s->said, &s->why);
}

mrd_err
mrd_pf_part_init(mrd_pf *s)
{
    size_t tracks = mrd_catalog_tracks(s->env->catalog) + 1;
    mrd_err err = mrd_pf_parts_init(&s->parts, s->env, &s->out, &s->why);

    s->part = 1;
    s->cut_at = UINT64_MAX;
    if (err != MRD_OK || (s->seen = calloc(tracks, 1)) == NULL)
        return err != MRD_OK ? err : MRD_NOMEM;
    if (s->env->options->split == 0 || !mrd_pf_parts_can(&s->parts))
        return MRD_OK;
    return (s->values = calloc(tracks, sizeof(*s->values))) == NULL ? MRD_NOMEM : MRD_OK;
}

void
mrd_pf_part_begin(mrd_pf *s, mrd_ev_ns session)
{
    s->said = (mrd_pf_part){ .first = session, .last = session, .seen = s->seen };
    pf_write_head(s);
    pf_plan_cut(s);
}

void
mrd_pf_part_cut(mrd_pf *s, mrd_ev_ns session, mrd_ev_ns at)
{
    mrd_err err = MRD_OK;

    pf_end_here(s);
    if (s->err != MRD_OK || (err = pf_end_part(s, session, true)) != MRD_OK ||
        (err = mrd_pf_parts_next(&s->parts, &s->out, &s->why)) != MRD_OK) {
        s->err = s->err != MRD_OK ? s->err : err;
        return;
    }
    s->flows.part = s->part++;
    s->file.out = s->out;
    s->file.raw = 0;
    s->events = s->spans = s->lost = s->clamped = s->since_mark = s->flows_without_start = 0;
    memset(s->lost_of, 0, (mrd_catalog_processes(s->env->catalog) + 1) * sizeof(*s->lost_of));
    memset(s->seen, 0, mrd_catalog_tracks(s->env->catalog) + 1);
    mrd_pf_names_again(&s->names);
    mrd_pf_identity_again(&s->identity);
    s->now = at;
    s->said = (mrd_pf_part){ .first = session, .last = session, .seen = s->seen };
    pf_write_head(s);
    pf_repeat_values(s);
    pf_repeat_open(s);
    pf_plan_cut(s);
}

mrd_err
mrd_pf_part_finish(mrd_pf *s)
{
    pf_clock_bounds(s, false);
    return pf_end_part(s, s->said.last, false);
}

mrd_err
mrd_pf_part_fini(mrd_pf *s, bool whole)
{
    mrd_err err = whole ? mrd_pf_parts_commit(&s->parts, &s->why) : MRD_OK;

    mrd_pf_parts_fini(&s->parts);
    free(s->seen);
    free(s->values);
    free(s->unended);
    return err;
}
