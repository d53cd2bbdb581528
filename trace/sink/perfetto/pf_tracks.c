#include "trace/sink/perfetto/pf_tracks.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"

typedef struct {
    uint32_t parent; /* uuid of the parent row; 0 if the row has no parent */
    int32_t rank;
    mrd_str name, description;
    const mrd_track *counter; /* the counter that the row shows; NULL for a row of spans */
    /* value of the field PF_MERIDIAN_TRACK (trace/model/pf_tags.h) plus 1; 0 if the row shows no
     * track */
    uint64_t of_track;
} pf_descriptor;

/* Writes the descriptor of a new row and returns its uuid. */
static uint32_t
pf_write_row(mrd_pf_tracks *tracks, const pf_descriptor *descriptor)
{
    static const uint8_t units[] = { [MRD_UNIT_NS] = PF_UNIT_NS,
                                     [MRD_UNIT_COUNT] = PF_UNIT_COUNT,
                                     [MRD_UNIT_BYTES] = PF_UNIT_BYTES,
                                     [MRD_UNIT_PERCENT] = 0 };
    uint32_t uuid = tracks->next_uuid++;
    size_t row, part;

    mrd_buf_reset(&tracks->packet);
    row = mrd_pb_open(&tracks->packet, PF_TRACK_DESCRIPTOR);
    mrd_pb_u64(&tracks->packet, PF_TRACK_UUID, uuid);
    if (descriptor->parent != 0)
        mrd_pb_u64(&tracks->packet, PF_TRACK_PARENT, descriptor->parent);
    mrd_pb_str(&tracks->packet, PF_TRACK_NAME, descriptor->name);
    if (descriptor->description.len > 0)
        mrd_pb_str(&tracks->packet, PF_TRACK_DESCRIPTION, descriptor->description);
    mrd_pb_u64(&tracks->packet, PF_TRACK_CHILD_ORDER, PF_ORDER_EXPLICIT);
    mrd_pb_u64(&tracks->packet, PF_TRACK_RANK, (uint64_t) descriptor->rank);
    mrd_pb_u64(&tracks->packet, PF_TRACK_MERGE, PF_MERGE_NONE);
    if (descriptor->counter != NULL) {
        mrd_str unit = descriptor->counter->unit == MRD_UNIT_PERCENT
                           ? MRD_STR("%")
                           : mrd_catalog_text(tracks->catalog, descriptor->counter->unit_name);

        part = mrd_pb_open(&tracks->packet, PF_TRACK_COUNTER);
        if (units[descriptor->counter->unit] != 0)
            mrd_pb_u64(&tracks->packet, PF_COUNTER_UNIT, units[descriptor->counter->unit]);
        else if (unit.len > 0)
            mrd_pb_str(&tracks->packet, PF_COUNTER_UNIT_NAME, unit);
        mrd_pb_close(&tracks->packet, part);
    }
    mrd_pb_close(&tracks->packet, row);
    if (descriptor->of_track != 0)
        mrd_pb_u64(&tracks->packet, PF_MERIDIAN_TRACK, descriptor->of_track - 1);
    mrd_pf_packet(tracks->file, &tracks->packet);
    if (tracks->keep) {
        uint32_t len = (uint32_t) tracks->packet.len;

        mrd_buf_add(&tracks->log, &len, sizeof(len));
        mrd_buf_add(&tracks->log, tracks->packet.p, tracks->packet.len);
        tracks->err = tracks->log.err != MRD_OK ? tracks->log.err : tracks->err;
    }
    return uuid;
}

void
mrd_pf_tracks_repeat(mrd_pf_tracks *tracks)
{
    uint32_t len;

    for (size_t at = 0; at < tracks->log.len; at += len) {
        memcpy(&len, tracks->log.p + at, sizeof(len));
        at += sizeof(len);
        mrd_buf_reset(&tracks->packet);
        mrd_buf_add(&tracks->packet, tracks->log.p + at, len);
        mrd_pf_packet(tracks->file, &tracks->packet);
    }
}

static mrd_pb_field
pf_field(uint32_t uuid)
{
    return mrd_pb_field_of(PF_EVENT_TRACK, uuid);
}

/* Writes the descriptors of a row's parents, then the row's, unless it was written before. Returns
 * the row's uuid. */
static uint32_t
pf_row(mrd_pf_tracks *tracks, uint32_t index)
{
    mrd_row *row = &tracks->rows.v[index];
    mrd_buf name = { 0 }, description = { 0 };
    pf_descriptor descriptor = { 0 };

    if (row->uuid != 0)
        return row->uuid;
    if (row->kind != MRD_ROW_ROOT)
        descriptor.parent = pf_row(tracks, row->parent);
    if (row->kind == MRD_ROW_TRACK) {
        const mrd_track *track = mrd_catalog_borrow_track(tracks->catalog, row->track);

        descriptor.counter = track->kind == MRD_TRACK_COUNTER ? track : NULL;
        descriptor.of_track = tracks->number[row->track] * 2ull + 1;
    }
    mrd_pf_rows_name(&tracks->rows, row, &name);
    mrd_pf_rows_describe(&tracks->rows, row, &description);
    descriptor.name = (mrd_str){ (const char *) name.p, name.len };
    descriptor.description = (mrd_str){ (const char *) description.p, description.len };
    descriptor.rank = (int32_t) row->index * mrd_pf_rows_stride(&tracks->rows, row);
    row->uuid = pf_write_row(tracks, &descriptor);
    if (name.err != MRD_OK || description.err != MRD_OK)
        tracks->err = MRD_NOMEM;
    mrd_buf_fini(&name);
    mrd_buf_fini(&description);
    return row->uuid;
}

/* Writes a further row for a track, as a sibling directly after the track's first row. `step` is
 * its distance from the first row in sort ranks. */
static mrd_pb_field
pf_row_beside(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t step, const char *suffix,
              bool counter, bool loss)
{
    const mrd_row *row = &tracks->rows.v[tracks->rows.of_track[track]];
    int32_t stride = mrd_pf_rows_stride(&tracks->rows, row);
    pf_descriptor descriptor = { 0 };
    mrd_buf name = { 0 };
    mrd_pb_field field;

    descriptor.parent = pf_row(tracks, row->parent);
    mrd_pf_rows_name(&tracks->rows, row, &name);
    mrd_buf_text(&name, suffix);
    descriptor.name = (mrd_str){ (const char *) name.p, name.len };
    descriptor.rank =
        (int32_t) row->index * stride + (step < (uint32_t) stride ? (int32_t) step : stride - 1);
    descriptor.counter = counter ? mrd_catalog_borrow_track(tracks->catalog, track) : NULL;
    descriptor.of_track = tracks->number[track] * 2ull + loss + 1;
    field = pf_field(pf_write_row(tracks, &descriptor));
    tracks->err = name.err != MRD_OK ? name.err : tracks->err;
    mrd_buf_fini(&name);
    return field;
}

/* Extends *list to at least n entries, and zeroes the new ones. Returns false if out of memory. */
static bool
pf_grow_list(mrd_pf_tracks *tracks, mrd_pb_field **list, uint32_t *count, uint32_t n)
{
    if (n == 0 || MRD_VEC_REACH(*list, *count, n - 1))
        return true;
    tracks->err = MRD_NOMEM;
    return false;
}

mrd_pb_field
mrd_pf_lane_new(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t lane)
{
    mrd_pf_track *pf_track = &tracks->track[track];

    if (tracks->spans[track] == 0)
        tracks->spans[track] = mrd_pf_row(tracks, track, false);
    if (lane == 0)
        return tracks->spans[track];
    if (!pf_grow_list(tracks, &pf_track->lane, &pf_track->n_lanes, lane))
        return 0;
    if (pf_track->lane[lane - 1] == 0) {
        char suffix[32];

        snprintf(suffix, sizeof(suffix), " (%u)", lane + 1);
        pf_track->lane[lane - 1] = pf_row_beside(tracks, track, lane, suffix, false, false);
    }
    return pf_track->lane[lane - 1];
}

mrd_pb_field
mrd_pf_loss(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t lane)
{
    mrd_pf_track *pf_track = &tracks->track[track];

    if (!pf_grow_list(tracks, &pf_track->loss_lane, &pf_track->n_loss, lane + 1))
        return 0;
    if (pf_track->loss_lane[lane] == 0)
        pf_track->loss_lane[lane] = pf_row_beside(tracks, track, UINT32_MAX, ": lost", false, true);
    return pf_track->loss_lane[lane];
}

mrd_pb_field
mrd_pf_row(mrd_pf_tracks *tracks, mrd_track_id track, bool counter)
{
    mrd_pf_track *pf_track = &tracks->track[track];
    mrd_track_kind kind = mrd_catalog_borrow_track(tracks->catalog, track)->kind;

    if ((kind == MRD_TRACK_COUNTER) == counter)
        return pf_field(pf_row(tracks, tracks->rows.of_track[track]));
    if (pf_track->other == 0)
        pf_track->other = pf_row_beside(tracks, track, UINT32_MAX,
                                        counter ? ": samples" : ": events", counter, false);
    return pf_track->other;
}

mrd_pb_field
mrd_pf_row_at_root(mrd_pf_tracks *tracks, mrd_str name, const mrd_track *counter)
{
    pf_descriptor descriptor = {
        .parent = pf_row(tracks, 0), .rank = INT32_MAX, .name = name, .counter = counter
    };

    return pf_field(pf_write_row(tracks, &descriptor));
}

mrd_err
mrd_pf_tracks_init(mrd_pf_tracks *tracks, mrd_pf_file *file, const mrd_sink_env *env)
{
    *tracks = (mrd_pf_tracks){
        .file = file,
        .catalog = env->catalog,
        .n = mrd_catalog_tracks(env->catalog),
        .next_uuid = 1,
        .keep = env->options->split > 0,
    };
    tracks->track = calloc(tracks->n + 1, sizeof(*tracks->track));
    tracks->spans = calloc(tracks->n + 1, sizeof(*tracks->spans));
    tracks->number = calloc(tracks->n + 1, sizeof(*tracks->number));
    if (tracks->track == NULL || tracks->spans == NULL || tracks->number == NULL)
        return MRD_NOMEM;
    for (mrd_track_id id = 0, track_id = 0; id < tracks->n; id++)
        tracks->number[id] =
            mrd_catalog_profile_of(tracks->catalog, id) == env->profile ? track_id++ : 0;
    return mrd_pf_rows_init(&tracks->rows, env->catalog, env->profile, env->options);
}

void
mrd_pf_tracks_fini(mrd_pf_tracks *tracks)
{
    for (size_t i = 0; tracks->track != NULL && i < tracks->n; i++) {
        free(tracks->track[i].lane);
        free(tracks->track[i].loss_lane);
    }
    free(tracks->track);
    free(tracks->spans);
    free(tracks->number);
    mrd_pf_rows_fini(&tracks->rows);
    mrd_buf_fini(&tracks->packet);
    mrd_buf_fini(&tracks->log);
    *tracks = (mrd_pf_tracks){ 0 };
}
