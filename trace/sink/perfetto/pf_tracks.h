/*
 * trace/sink/perfetto/pf_tracks.h - writes the rows of a Perfetto trace. A row gets its uuid and
 * its descriptor when the first event needs the row. The descriptors of its parents come before.
 */
#ifndef MRD_TRACE_PF_TRACKS_H
#define MRD_TRACE_PF_TRACKS_H

#include "trace/sink/perfetto/pf_file.h"
#include "trace/sink/perfetto/pf_rows.h"

/* The rows of one track besides its first one (lane 0, in `spans` below). Overlapping spans need
 * several rows, called lanes. A row is stored as the encoded field that names it in a TrackEvent; 0
 * means not written yet. */
typedef struct {
    mrd_pb_field *lane; /* rows of lane 1 to lane n_lanes */
    uint32_t n_lanes;
    /* second row of a track with both spans and samples; 0 if the track has only one kind */
    mrd_pb_field other;
    mrd_pb_field *loss_lane; /* rows for losses, one per lane, for lanes 0 to n_loss - 1 */
    uint32_t n_loss;
} mrd_pf_track;

typedef struct {
    mrd_pf_file *file;
    const mrd_catalog *catalog;
    mrd_pf_rows rows;
    mrd_pf_track *track; /* indexed by mrd_track_id */
    /* indexed by mrd_track_id: position of the track among the tracks of this profile */
    uint32_t *number;
    /* indexed by mrd_track_id: the row of lane 0, which most events use */
    mrd_pb_field *spans;
    size_t n;
    uint32_t next_uuid;
    mrd_buf packet;
    /* keep the descriptors in `log`, because later files of the trace have to repeat them */
    bool keep;
    mrd_buf log; /* the row descriptors, each as length and packet */
    mrd_err err; /* NOMEM if memory ran out */
} mrd_pf_tracks;

/* Prepares the rows of a profile. Borrows file and env. Errors: NOMEM. mrd_pf_tracks_fini may be
 * called on a zeroed or failed mrd_pf_tracks. */
mrd_err mrd_pf_tracks_init(mrd_pf_tracks *tracks, mrd_pf_file *file, const mrd_sink_env *env);
void mrd_pf_tracks_fini(mrd_pf_tracks *tracks);

/* Writes all rows again, with the same uuids, to another file of the same trace. */
void mrd_pf_tracks_repeat(mrd_pf_tracks *tracks);

/* Returns true if the track belongs to this profile. The functions below require that. */
static inline bool
mrd_pf_tracks_has(const mrd_pf_tracks *tracks, mrd_track_id track)
{
    return track < tracks->n &&
           (tracks->spans[track] != 0 || tracks->rows.of_track[track] != UINT32_MAX);
}

/* Returns the field that names a row of the track. With `counter`, that is the row of its samples,
 * else the row of its spans and instants. A track may have both, whatever kind the catalog
 * states. */
mrd_pb_field mrd_pf_row(mrd_pf_tracks *tracks, mrd_track_id track, bool counter);
mrd_pb_field mrd_pf_lane_new(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t lane);
/* Returns the field that names the row of a lane. */
static inline mrd_pb_field
mrd_pf_lane(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t lane)
{
    mrd_pb_field row = tracks->spans[track];

    return lane == 0 && row != 0 ? row : mrd_pf_lane_new(tracks, track, lane);
}
/* Returns the field that names the row of a lane for losses. */
mrd_pb_field mrd_pf_loss(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t lane);
/* Creates a row for samples of a counter directly below the root, after all existing rows. It has
 * the unit of `counter`. */
mrd_pb_field mrd_pf_row_at_root(mrd_pf_tracks *tracks, mrd_str name, const mrd_track *counter);

#endif
