/* agent/rings/ring_tracks.h - maps a ring's dictionary ids and threads to strings and tracks in the
 * catalog of its process. Each id is looked up once per ring. Later look-ups read an array, with
 * the functions in this header. Only the drain's thread calls these functions. */
#ifndef MRD_AGENT_RINGS_RING_TRACKS_H
#define MRD_AGENT_RINGS_RING_TRACKS_H

#include "agent/rings/drain_int.h"

/* Says which kind of track (row of the timeline) belongs to an event. Stored in ring_track.source,
 * in the bits above the source. */
enum {
    MRD_LINE_THREAD = 0,
    MRD_LINE_PROCESS = 1u << 8,
    MRD_LINE_GLOBAL = 2u << 8,
    MRD_LINE_COUNTER = 3u << 8,
    MRD_LINE_MODELS = 4u << 8,
    MRD_LINE_OWN = 5u << 8
};

#define MRD_LINE_SOURCE(bits) ((mrd_source_kind) ((bits) &0xff))
#define MRD_LINE(bits)        ((bits) & ~0xffu)

static inline mrd_sid
mrd_drain_intern(proc *pr, mrd_str text)
{
    return mrd_strtab_add(mrd_catalog_strings(pr->pub.catalog), text);
}

/* Slow paths of the functions below, for a string or name that is not yet in the ring's own tables.
 * They store the result there. */
mrd_sid mrd_drain_sid_slow(ring *r, uint32_t id);
mrd_sid mrd_drain_name_slow(ring *r, const mrd_ring_event *ev);
mrd_track_id mrd_drain_track_slow(ring *r, const ring_track *want);
/* Finds a track in the ring's table. Returns NULL if the track is not in the table yet. */
const ring_track *mrd_drain_track_find(const ring *r, const ring_track *want);

/* Converts the id of a text in the ring's dictionary to its id in the process's catalog. */
static inline mrd_sid
mrd_drain_sid(ring *r, uint32_t id)
{
    return id < r->n_names && r->names[id] != 0 ? r->names[id] : mrd_drain_sid_slow(r, id);
}

static inline mrd_sid
mrd_drain_name(ring *r, const mrd_ring_event *ev)
{
    return ev->name < r->n_names && r->names[ev->name] != 0 ? r->names[ev->name]
                                                            : mrd_drain_name_slow(r, ev);
}

static inline bool
mrd_drain_same_line(const ring_track *a, const ring_track *b)
{
    return a->tid == b->tid && a->track == b->track && a->source == b->source && a->name == b->name;
}

static inline mrd_track_id
mrd_drain_track(ring *r, int32_t tid, uint32_t track, uint32_t source, uint32_t name)
{
    ring_track want = { .tid = tid, .track = track, .source = source, .name = name };
    const ring_track *last = &r->last_track[MRD_LINE(source) == MRD_LINE_COUNTER];

    if (last->used && mrd_drain_same_line(last, &want))
        return last->id;
    return mrd_drain_track_slow(r, &want);
}

/* Frees the ring's tables. */
void mrd_drain_ring_forget(ring *r);

#endif
