/*
 * trace/sink/perfetto/pf_tracks.h - writes the rows of a Perfetto trace: each gets its uuid and its
 * descriptor when the first event needs it, after its parents
 */
#ifndef MRD_TRACE_PF_TRACKS_H
#define MRD_TRACE_PF_TRACKS_H

#include "trace/sink/perfetto/pf_file.h"
#include "trace/sink/perfetto/pf_rows.h"

/* The rows of one catalog track in addition to lane 0, each as the field by which a TrackEvent
 * names it; 0 means not written yet. */
typedef struct {
    mrd_pb_field *lane; /* lanes 1 .. n_lanes */
    uint32_t n_lanes;
    mrd_pb_field other;      /* for samples on a track of spans, or spans on a track of samples */
    mrd_pb_field *loss_lane; /* lanes 0 .. n_loss-1 of losses */
    uint32_t n_loss;
} mrd_pf_track;

typedef struct {
    mrd_pf_file *file;
    const mrd_catalog *catalog;
    mrd_pf_rows rows;
    mrd_pf_track *track; /* by mrd_track_id */
    uint32_t *number;    /* ... position among the tracks of the profile */
    mrd_pb_field *spans; /* ... lane 0 of all tracks, which is all that most events need */
    size_t n;
    uint32_t next_uuid;
    mrd_buf packet;
    bool keep;   /* keeps the descriptors for other files */
    mrd_buf log; /* the kept descriptors, each as length and packet */
    mrd_err err; /* NOMEM */
} mrd_pf_tracks;

/* Borrows file and env. Errors: NOMEM. mrd_pf_tracks_fini may be called on a zeroed or failed
 * one. */
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

/* Returns the field of the row for a track's spans and instants (`counter` false) or samples. It
 * does not depend on the declared kind of the track. */
mrd_pb_field mrd_pf_row(mrd_pf_tracks *tracks, mrd_track_id track, bool counter);
mrd_pb_field mrd_pf_lane_new(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t lane);
/* Returns the field of the row for spans of a lane. */
static inline mrd_pb_field
mrd_pf_lane(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t lane)
{
    mrd_pb_field row = tracks->spans[track];

    return lane == 0 && row != 0 ? row : mrd_pf_lane_new(tracks, track, lane);
}
/* Returns the field of the row for losses. */
mrd_pb_field mrd_pf_loss(mrd_pf_tracks *tracks, mrd_track_id track, uint32_t lane);
/* Makes a new row of samples below the root, after all others, with the unit of `counter`. */
mrd_pb_field mrd_pf_row_at_root(mrd_pf_tracks *tracks, mrd_str name, const mrd_track *counter);

#endif
