#include "agent/rings/ring_tracks.h"

#include "base/hash.h"
#include "base/obj.h"
#include "base/vec.h"

static bool
names_room(ring *r, uint32_t id)
{
    return MRD_VEC_REACH(r->names, r->n_names, id);
}

/* Returns the catalog id of a name in the ring's dictionary. An empty name is not cached, because
 * the dictionary may define it later. */
mrd_sid
mrd_drain_sid_slow(ring *r, uint32_t id)
{
    mrd_sid sid;

    if (id == 0 || id >= MRD_RING_NAMES_MAX)
        return 0;
    sid = mrd_drain_intern(r->proc, mrd_ring_text(r->reader, id));
    if (sid != 0 && (id < r->n_names || names_room(r, id)))
        r->names[id] = sid;
    return sid;
}

mrd_sid
mrd_drain_name_slow(ring *r, const mrd_ring_event *ev)
{
    mrd_sid sid =
        ev->name != 0 ? mrd_drain_sid(r, ev->name) : mrd_drain_intern(r->proc, ev->name_text);

    return sid != 0 ? sid : mrd_drain_intern(r->proc, MRD_STR("(unnamed)"));
}

static mrd_unit
unit_of(mrd_str unit)
{
    static const struct {
        const char *text;
        mrd_unit unit;
    } rows[] = { { "bytes", MRD_UNIT_BYTES },     { "B", MRD_UNIT_BYTES },
                 { "ns", MRD_UNIT_NS },           { "%", MRD_UNIT_PERCENT },
                 { "percent", MRD_UNIT_PERCENT }, { "count", MRD_UNIT_COUNT } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        if (mrd_str_is(unit, rows[i].text))
            return rows[i].unit;
    return MRD_UNIT_NONE;
}

static void
own_track(ring *r, const mrd_ring_track_info *info, mrd_track *track)
{
    mrd_str unit = mrd_ring_text(r->reader, info->def.unit);

    track->name = mrd_drain_intern(r->proc, info->name);
    track->lnc_idx = info->def.lnc_idx < 0 ? MRD_NONE : info->def.lnc_idx;
    track->pcore_idx = info->def.pcore_idx < 0 ? MRD_NONE : info->def.pcore_idx;
    track->device_idx = info->def.device_idx < 0 ? MRD_NONE : info->def.device_idx;
    if (track->kind != MRD_TRACK_COUNTER)
        return;
    track->unit = unit_of(unit);
    track->unit_name = track->unit == MRD_UNIT_NONE ? mrd_drain_intern(r->proc, unit) : 0;
}

static mrd_track_id
make_track(ring *r, const ring_track *want)
{
    const mrd_ring_track_info *info =
        want->track == 0 ? NULL : mrd_ring_track_of(r->reader, want->track);
    unsigned line = MRD_LINE(want->source);
    mrd_track track;

    mrd_track_init(&track, r->proc->pub.id, MRD_LINE_SOURCE(want->source));
    if (line == MRD_LINE_COUNTER)
        track.kind = MRD_TRACK_COUNTER;
    if (info != NULL) {
        own_track(r, info, &track);
    } else if (line == MRD_LINE_THREAD || line == MRD_LINE_OWN) {
        track.thread_id = want->tid;
        track.name = mrd_drain_intern(r->proc, mrd_ring_thread_name(r->reader, want->tid));
    } else if (line == MRD_LINE_COUNTER) {
        track.name = mrd_drain_sid(r, want->name);
    } else {
        track.name = mrd_drain_intern(r->proc, line == MRD_LINE_MODELS    ? MRD_STR("loaded models")
                                               : line == MRD_LINE_PROCESS ? MRD_STR("process")
                                                                          : MRD_STR("global"));
    }
    return mrd_catalog_track(r->proc->pub.catalog, &track);
}

static bool
same_track(const void *self, uint32_t i, const void *want)
{
    return mrd_drain_same_line(&((const ring *) self)->tracks[i], want);
}

static uint64_t
line_hash(const ring_track *want)
{
    const uint32_t key[4] = { (uint32_t) want->tid, want->track, want->source, want->name };

    return mrd_hash64(key, sizeof(key), mrd_hash_seed());
}

/* Finds a track in the ring's table. Returns NULL if the track is not in the table yet. */
const ring_track *
mrd_drain_track_find(const ring *r, const ring_track *want)
{
    uint32_t i = mrd_index_find(&r->by_line, line_hash(want), same_track, r, want);

    return i == MRD_INDEX_NONE ? NULL : &r->tracks[i];
}

mrd_track_id
mrd_drain_track_slow(ring *r, const ring_track *want)
{
    const ring_track *have = mrd_drain_track_find(r, want);

    if (have == NULL) {
        if (!MRD_VEC_ROOM(r->tracks, r->n_tracks, r->cap_tracks, 1) ||
            mrd_index_add(&r->by_line, line_hash(want), (uint32_t) r->n_tracks) != MRD_OK)
            return make_track(r, want);
        have = &r->tracks[r->n_tracks];
        r->tracks[r->n_tracks] = *want;
        r->tracks[r->n_tracks].used = true;
        r->tracks[r->n_tracks++].id = make_track(r, want);
    }
    r->last_track[MRD_LINE(want->source) == MRD_LINE_COUNTER] = *have;
    return have->id;
}

void
mrd_drain_ring_forget(ring *r)
{
    free(r->texts);
    free(r->names);
    free(r->tracks);
    mrd_index_fini(&r->by_line);
    free(r->blob.p);
}
