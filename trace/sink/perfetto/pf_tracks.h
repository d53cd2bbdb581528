/*
 * trace/sink/perfetto/pf_tracks.h - writes the rows of a Perfetto trace: each gets its uuid and its
 * descriptor when the first event needs it, after its parents
 */
#ifndef MRD_TRACE_PF_TRACKS_H
#define MRD_TRACE_PF_TRACKS_H

#include "trace/sink/perfetto/pf_file.h"
#include "trace/sink/perfetto/pf_rows.h"

/* The rows of one catalog track other than that of lane 0. Each is stored as the field by which a
 * TrackEvent names the row; 0 means not written yet. */
typedef struct {
    mrd_pb_field *lane; /* rows of lanes 1 to n_lanes */
    uint32_t n_lanes;
    mrd_pb_field other; /* row of samples on a track of spans, or of spans on a track of samples */
    mrd_pb_field *loss_lane; /* rows that show lost events, for lanes 0 to n_loss - 1 */
    uint32_t n_loss;
} mrd_pf_track;

typedef struct {
    mrd_pf_file *file;
    const mrd_catalog *catalog;
    mrd_pf_rows rows;
    mrd_pf_track *track; /* further rows of each track, by mrd_track_id */
    uint32_t *number; /* position of each track among the tracks of the profile, by mrd_track_id */
    /* row of lane 0 of each track, by mrd_track_id; most events need only this one */
    mrd_pb_field *spans;
    size_t n;
    uint32_t next_uuid;
    mrd_buf packet;
    bool keep;   /* descriptors are kept in `log`, because further files repeat them */
    mrd_buf log; /* the kept descriptors, each as length and packet */
    mrd_err err; /* NOMEM if memory ran out */
} mrd_pf_tracks;

/* Prepares the rows of a profile. Borrows file and env. Errors: NOMEM. mrd_pf_tracks_fini may be
 * called on a zeroed or failed mrd_pf_tracks. */
mrd_err mrd_pf_tracks_init(mrd_pf_tracks *tracks, mrd_pf_file *file, const mrd_sink_env *env);
void mrd_pf_tracks_fini(mrd_pf_tracks *tracks);

/* Writes all rows again, with the same uuids, to another file of the same trace. */
void mrd_pf_tracks_repeat(mrd_pf_tracks *tracks);

/* Returns true if the track belongs to this profile, which the functions below require. */
static inline bool
mrd_pf_tracks_has(const mrd_pf_tracks *tracks, mrd_track_id track)
{
    return track < tracks->n &&
           (tracks->spans[track] != 0 || tracks->rows.of_track[track] != UINT32_MAX);
}

/* Returns the field that names the track's row: the row of its samples if `counter`, otherwise the
 * row of its spans and instants. A track may have both, whatever kind the catalog declares. */
mrd_pb_field mrd_pf_row(mrd_pf_tracks *tracks, mrd_track_id track, bool counter);
mrd_pb_field mrd_pf_lane_new(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t lane);
/* Returns the field that names the row of a lane. */
static inline mrd_pb_field
mrd_pf_lane(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t lane)
{
    mrd_pb_field row = tracks->spans[track];

    return lane == 0 && row != 0 ? row : mrd_pf_lane_new(tracks, track, lane);
}
/* Returns the field that names the row of a lane of losses. */
mrd_pb_field mrd_pf_loss(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t lane);
/* Makes a new row of samples below the root, after all other rows, with the unit of `counter`. */
mrd_pb_field mrd_pf_row_at_root(mrd_pf_tracks *tracks, mrd_str name, const mrd_track *counter);

#endif
