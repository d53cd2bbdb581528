#include "trace/sink/perfetto/pf_tracks.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"

typedef struct {
    uint32_t parent; /* 0 if there is none */
    int32_t rank;
    mrd_str name, description;
    const mrd_track *counter; /* NULL for spans */
    uint64_t of_track;        /* PF_MERIDIAN_TRACK plus 1; 0 if it is the row of no track */
} pf_descriptor;

/* Writes the descriptor of a new row and returns its uuid. */
static uint32_t
pf_write_row(mrd_pf_tracks *p, const pf_descriptor *d)
{
    static const uint8_t units[] = { [MRD_UNIT_NS] = PF_UNIT_NS,
                                     [MRD_UNIT_COUNT] = PF_UNIT_COUNT,
                                     [MRD_UNIT_BYTES] = PF_UNIT_BYTES,
                                     [MRD_UNIT_PERCENT] = 0 };
    uint32_t uuid = p->next_uuid++;
    size_t row, part;

    mrd_buf_reset(&p->packet);
    row = mrd_pb_open(&p->packet, PF_TRACK_DESCRIPTOR);
    mrd_pb_u64(&p->packet, PF_TRACK_UUID, uuid);
    if (d->parent != 0)
        mrd_pb_u64(&p->packet, PF_TRACK_PARENT, d->parent);
    mrd_pb_str(&p->packet, PF_TRACK_NAME, d->name);
    if (d->description.len > 0)
        mrd_pb_str(&p->packet, PF_TRACK_DESCRIPTION, d->description);
    mrd_pb_u64(&p->packet, PF_TRACK_CHILD_ORDER, PF_ORDER_EXPLICIT);
    mrd_pb_u64(&p->packet, PF_TRACK_RANK, (uint64_t) d->rank);
    mrd_pb_u64(&p->packet, PF_TRACK_MERGE, PF_MERGE_NONE);
    if (d->counter != NULL) {
        mrd_str unit = d->counter->unit == MRD_UNIT_PERCENT
                           ? MRD_STR("%")
                           : mrd_catalog_text(p->catalog, d->counter->unit_name);

        part = mrd_pb_open(&p->packet, PF_TRACK_COUNTER);
        if (units[d->counter->unit] != 0)
            mrd_pb_u64(&p->packet, PF_COUNTER_UNIT, units[d->counter->unit]);
        else if (unit.len > 0)
            mrd_pb_str(&p->packet, PF_COUNTER_UNIT_NAME, unit);
        mrd_pb_close(&p->packet, part);
    }
    mrd_pb_close(&p->packet, row);
    if (d->of_track != 0)
        mrd_pb_u64(&p->packet, PF_MERIDIAN_TRACK, d->of_track - 1);
    mrd_pf_packet(p->file, &p->packet);
    if (p->keep) {
        uint32_t len = (uint32_t) p->packet.len;

        mrd_buf_add(&p->log, &len, sizeof(len));
        mrd_buf_add(&p->log, p->packet.p, p->packet.len);
        p->err = p->log.err != MRD_OK ? p->log.err : p->err;
    }
    return uuid;
}

void
mrd_pf_tracks_repeat(mrd_pf_tracks *p)
{
    uint32_t len;

    for (size_t at = 0; at < p->log.len; at += len) {
        memcpy(&len, p->log.p + at, sizeof(len));
        at += sizeof(len);
        mrd_buf_reset(&p->packet);
        mrd_buf_add(&p->packet, p->log.p + at, len);
        mrd_pf_packet(p->file, &p->packet);
    }
}

static mrd_pb_field
pf_field(uint32_t uuid)
{
    return mrd_pb_field_of(PF_EVENT_TRACK, uuid);
}

/* Writes the row with its parents, and returns its uuid. */
static uint32_t
pf_row(mrd_pf_tracks *p, uint32_t index)
{
    mrd_row *row = &p->rows.v[index];
    mrd_buf name = { 0 }, description = { 0 };
    pf_descriptor d = { 0 };

    if (row->uuid != 0)
        return row->uuid;
    if (row->kind != MRD_ROW_ROOT)
        d.parent = pf_row(p, row->parent);
    if (row->kind == MRD_ROW_TRACK) {
        const mrd_track *t = mrd_catalog_borrow_track(p->catalog, row->track);

        d.counter = t->kind == MRD_TRACK_COUNTER ? t : NULL;
        d.of_track = p->number[row->track] * 2ull + 1;
    }
    mrd_pf_rows_name(&p->rows, row, &name);
    mrd_pf_rows_describe(&p->rows, row, &description);
    d.name = (mrd_str){ (const char *) name.p, name.len };
    d.description = (mrd_str){ (const char *) description.p, description.len };
    d.rank = (int32_t) row->index * mrd_pf_rows_stride(&p->rows, row);
    row->uuid = pf_write_row(p, &d);
    if (name.err != MRD_OK || description.err != MRD_OK)
        p->err = MRD_NOMEM;
    mrd_buf_fini(&name);
    mrd_buf_fini(&description);
    return row->uuid;
}

/* Makes a row next to the track's own: same parent, next ranks. */
static mrd_pb_field
pf_row_beside(mrd_pf_tracks *p, mrd_track_id track, uint32_t step, const char *suffix, bool counter,
              bool loss)
{
    const mrd_row *row = &p->rows.v[p->rows.of_track[track]];
    int32_t stride = mrd_pf_rows_stride(&p->rows, row);
    pf_descriptor d = { 0 };
    mrd_buf name = { 0 };
    mrd_pb_field field;

    d.parent = pf_row(p, row->parent);
    mrd_pf_rows_name(&p->rows, row, &name);
    mrd_buf_text(&name, suffix);
    d.name = (mrd_str){ (const char *) name.p, name.len };
    d.rank =
        (int32_t) row->index * stride + (step < (uint32_t) stride ? (int32_t) step : stride - 1);
    d.counter = counter ? mrd_catalog_borrow_track(p->catalog, track) : NULL;
    d.of_track = p->number[track] * 2ull + loss + 1;
    field = pf_field(pf_write_row(p, &d));
    p->err = name.err != MRD_OK ? name.err : p->err;
    mrd_buf_fini(&name);
    return field;
}

/* Grows *list to at least n entries, with new ones 0. Returns false if out of memory. */
static bool
pf_grow_list(mrd_pf_tracks *p, mrd_pb_field **list, uint32_t *count, uint32_t n)
{
    if (n == 0 || MRD_VEC_REACH(*list, *count, n - 1))
        return true;
    p->err = MRD_NOMEM;
    return false;
}

mrd_pb_field
mrd_pf_lane_new(mrd_pf_tracks *p, mrd_track_id track, uint32_t lane)
{
    mrd_pf_track *t = &p->track[track];

    if (p->spans[track] == 0)
        p->spans[track] = mrd_pf_row(p, track, false);
    if (lane == 0)
        return p->spans[track];
    if (!pf_grow_list(p, &t->lane, &t->n_lanes, lane))
        return 0;
    if (t->lane[lane - 1] == 0) {
        char suffix[32];

        snprintf(suffix, sizeof(suffix), " (%u)", lane + 1);
        t->lane[lane - 1] = pf_row_beside(p, track, lane, suffix, false, false);
    }
    return t->lane[lane - 1];
}

mrd_pb_field
mrd_pf_loss(mrd_pf_tracks *p, mrd_track_id track, uint32_t lane)
{
    mrd_pf_track *t = &p->track[track];

    if (!pf_grow_list(p, &t->loss_lane, &t->n_loss, lane + 1))
        return 0;
    if (t->loss_lane[lane] == 0)
        t->loss_lane[lane] = pf_row_beside(p, track, UINT32_MAX, ": lost", false, true);
    return t->loss_lane[lane];
}

mrd_pb_field
mrd_pf_row(mrd_pf_tracks *p, mrd_track_id track, bool counter)
{
    mrd_pf_track *t = &p->track[track];
    mrd_track_kind kind = mrd_catalog_borrow_track(p->catalog, track)->kind;

    if ((kind == MRD_TRACK_COUNTER) == counter)
        return pf_field(pf_row(p, p->rows.of_track[track]));
    if (t->other == 0)
        t->other =
            pf_row_beside(p, track, UINT32_MAX, counter ? ": samples" : ": events", counter, false);
    return t->other;
}

mrd_pb_field
mrd_pf_row_at_root(mrd_pf_tracks *p, mrd_str name, const mrd_track *counter)
{
    pf_descriptor d = {
        .parent = pf_row(p, 0), .rank = INT32_MAX, .name = name, .counter = counter
    };

    return pf_field(pf_write_row(p, &d));
}

mrd_err
mrd_pf_tracks_init(mrd_pf_tracks *p, mrd_pf_file *file, const mrd_sink_env *env)
{
    *p = (mrd_pf_tracks){
        .file = file,
        .catalog = env->catalog,
        .n = mrd_catalog_tracks(env->catalog),
        .next_uuid = 1,
        .keep = env->options->split > 0,
    };
    p->track = calloc(p->n + 1, sizeof(*p->track));
    p->spans = calloc(p->n + 1, sizeof(*p->spans));
    p->number = calloc(p->n + 1, sizeof(*p->number));
    if (p->track == NULL || p->spans == NULL || p->number == NULL)
        return MRD_NOMEM;
    for (mrd_track_id i = 0, n = 0; i < p->n; i++)
        p->number[i] = mrd_catalog_profile_of(p->catalog, i) == env->profile ? n++ : 0;
    return mrd_pf_rows_init(&p->rows, env->catalog, env->profile, env->options);
}

void
mrd_pf_tracks_fini(mrd_pf_tracks *p)
{
    for (size_t i = 0; p->track != NULL && i < p->n; i++) {
        free(p->track[i].lane);
        free(p->track[i].loss_lane);
    }
    free(p->track);
    free(p->spans);
    free(p->number);
    mrd_pf_rows_fini(&p->rows);
    mrd_buf_fini(&p->packet);
    mrd_buf_fini(&p->log);
    *p = (mrd_pf_tracks){ 0 };
}
