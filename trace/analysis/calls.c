#include "trace/analysis/calls.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/obj.h"
#include "base/vec.h"

#define NO_THREAD UINT64_MAX

enum { OTHER, HOOK, RUNTIME };

typedef struct {
    uint64_t process, thread;
} call_track;

/* The spans of one thread with one name that are not paired yet, ordered by begin. libmeridian's
 * hook and the runtime's trace both record a call, so a span of one source waits here for the span
 * of the other source. */
typedef struct {
    mrd_event *v;
    size_t n, cap;
} call_line;

struct mrd_calls {
    mrd_calls_fn *give;
    void *self;
    /* HOOK, RUNTIME or OTHER for each track; events on OTHER tracks are never paired */
    uint8_t *sources;
    call_track *tracks;
    size_t n_tracks;
    mrd_map by_call;
    call_line *lines;
    size_t n_lines, cap_lines;
    uint64_t twice;
};

/* ---- Tracks ---- */

static uint8_t
source_of(const mrd_track *track)
{
    if (track->kind != MRD_TRACK_SPANS)
        return OTHER;
    return track->source == MRD_SRC_API ? HOOK : track->source == MRD_SRC_RUNTIME ? RUNTIME : OTHER;
}

enum { BOTH = 1u << HOOK | 1u << RUNTIME };

/* process_key and thread_key return the keys of a map that stores which sources (hook, runtime)
 * recorded this process or thread. */
static mrd_map_key
process_key(const call_track *track)
{
    return (mrd_map_key){ track->process, 0, 1 };
}

static mrd_map_key
thread_key(const call_track *track)
{
    return (mrd_map_key){ track->process, track->thread, 0 };
}

/* Records in the map that `source` (hook or runtime) has the process or thread `key`. Errors:
 * NOMEM. */
static mrd_err
source_seen(mrd_map *seen, mrd_map_key key, uint8_t source)
{
    uint32_t so_far = mrd_map_get(seen, key);

    return mrd_map_put(seen, key, (so_far == MRD_MAP_NONE ? 0 : so_far) | 1u << source);
}

static mrd_err
tracks_make(mrd_calls *calls, const mrd_catalog *cat, uint32_t profile)
{
    mrd_map seen = { 0 };
    mrd_err err = MRD_OK;

    for (mrd_track_id id = 0; id < calls->n_tracks && err == MRD_OK; id++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, id);

        if (mrd_catalog_profile_of(cat, id) != profile || source_of(track) == OTHER)
            continue;
        calls->sources[id] = source_of(track);
        calls->tracks[id] = (call_track){ track->process, (uint64_t) track->thread_id };
        err = source_seen(&seen, process_key(&calls->tracks[id]), calls->sources[id]);
        if (err == MRD_OK)
            err = source_seen(&seen, thread_key(&calls->tracks[id]), calls->sources[id]);
    }
    for (size_t i = 0; i < calls->n_tracks && err == MRD_OK; i++) {
        call_track *track = &calls->tracks[i];

        if (calls->sources[i] != OTHER && mrd_map_get(&seen, process_key(track)) != BOTH)
            /* only one source recorded the process, so there are no pairs */
            calls->sources[i] = OTHER;
        else if (calls->sources[i] != OTHER && mrd_map_get(&seen, thread_key(track)) != BOTH)
            track->thread = NO_THREAD;
    }
    mrd_map_fini(&seen);
    return err;
}

mrd_calls *
mrd_calls_new(const mrd_catalog *cat, uint32_t profile, mrd_calls_fn *give, void *self)
{
    mrd_calls *calls = calloc(1, sizeof(*calls));

    if (calls == NULL)
        return NULL;
    calls->give = give;
    calls->self = self;
    calls->n_tracks = mrd_catalog_tracks(cat);
    calls->sources = calloc(calls->n_tracks + 1, sizeof(*calls->sources));
    calls->tracks = calloc(calls->n_tracks + 1, sizeof(*calls->tracks));
    if (calls->sources == NULL || calls->tracks == NULL ||
        tracks_make(calls, cat, profile) != MRD_OK) {
        mrd_calls_free(calls);
        return NULL;
    }
    return calls;
}

void
mrd_calls_free(mrd_calls *calls)
{
    if (calls == NULL)
        return;
    for (size_t i = 0; i < calls->n_lines; i++)
        free(calls->lines[i].v);
    free(calls->lines);
    mrd_map_fini(&calls->by_call);
    free(calls->sources);
    free(calls->tracks);
    free(calls);
}

uint64_t
mrd_calls_twice(const mrd_calls *calls)
{
    return calls->twice;
}

/* ---- Lines ---- */

static mrd_err
line_new(mrd_calls *calls, mrd_map_key key, call_line **ret_line)
{
    mrd_err err;

    if (!MRD_VEC_ROOM(calls->lines, calls->n_lines, calls->cap_lines, 1))
        return MRD_NOMEM;
    if ((err = mrd_map_put(&calls->by_call, key, (uint32_t) calls->n_lines)) != MRD_OK)
        return err;
    calls->lines[calls->n_lines] = (call_line){ 0 };
    *ret_line = &calls->lines[calls->n_lines++];
    return MRD_OK;
}

static mrd_err
line_for(mrd_calls *calls, const mrd_event *ev, call_line **ret_line)
{
    const call_track *track = &calls->tracks[ev->track];
    mrd_map_key key = { track->process, track->thread, ev->name };
    uint32_t i = mrd_map_get(&calls->by_call, key);

    if (i == MRD_MAP_NONE)
        return line_new(calls, key, ret_line);
    *ret_line = &calls->lines[i];
    return MRD_OK;
}

static bool
is_hook(const mrd_calls *calls, const mrd_event *ev)
{
    return calls->sources[ev->track] == HOOK;
}

static void
take_out(call_line *line, size_t i)
{
    line->n--;
    memmove(&line->v[i], &line->v[i + 1], (line->n - i) * sizeof(line->v[0]));
}

/* Removes span i, which has no counterpart from the other source. A span of the hook is passed to
 * `give` now. A span of the runtime was already passed when it was added. */
static mrd_err
alone(mrd_calls *calls, call_line *line, size_t i)
{
    mrd_event ev = line->v[i];

    take_out(line, i);
    return is_hook(calls, &ev) ? calls->give(calls->self, &ev) : MRD_OK;
}

static bool
is_over(const mrd_event *ev, mrd_ev_ns now)
{
    int64_t end;

    return !__builtin_add_overflow(mrd_event_end(ev).ns, MRD_CALLS_SLACK, &end) && end < now.ns;
}

static mrd_err
expire(mrd_calls *calls, call_line *line, mrd_ev_ns now)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < line->n && err == MRD_OK;) {
        if (is_over(&line->v[i], now))
            err = alone(calls, line, i);
        else
            i++;
    }
    return err;
}

/* Returns the index of the oldest waiting span that the other source recorded. SIZE_MAX if there is
 * none. */
static size_t
other_of(const mrd_calls *calls, const call_line *line, const mrd_event *ev)
{
    for (size_t i = 0; i < line->n; i++)
        if (is_hook(calls, &line->v[i]) != is_hook(calls, ev))
            return i;
    return SIZE_MAX;
}

static mrd_err
wait_for_other(mrd_calls *calls, call_line *line, const mrd_event *ev)
{
    mrd_err err = line->n < MRD_CALLS_WAITING ? MRD_OK : alone(calls, line, 0);

    if (err == MRD_OK && !MRD_VEC_ROOM(line->v, line->n, line->cap, 1))
        return MRD_NOMEM;
    if (err != MRD_OK)
        return err;
    line->v[line->n] = *ev;
    line->v[line->n].args = NULL;
    line->v[line->n].arg_count = 0;
    line->v[line->n].flows = NULL;
    line->v[line->n++].flow_count = 0;
    return MRD_OK;
}

/* ---- API ---- */

static mrd_err
pair(mrd_calls *calls, const mrd_event *ev)
{
    call_line *line = NULL;
    mrd_err err = line_for(calls, ev, &line);
    size_t other;

    if (err != MRD_OK || (err = expire(calls, line, ev->ts)) != MRD_OK)
        return err;
    if ((other = other_of(calls, line, ev)) == SIZE_MAX)
        return wait_for_other(calls, line, ev);
    take_out(line, other);
    calls->twice++;
    return MRD_OK;
}

mrd_err
mrd_calls_add(mrd_calls *calls, const mrd_event *ev)
{
    bool call =
        ev->kind == MRD_SPAN && ev->track < calls->n_tracks && calls->sources[ev->track] != OTHER;
    mrd_err err = call && is_hook(calls, ev) ? MRD_OK : calls->give(calls->self, ev);

    return call && err == MRD_OK ? pair(calls, ev) : err;
}

mrd_err
mrd_calls_finish(mrd_calls *calls)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < calls->n_lines; i++)
        while (calls->lines[i].n > 0 && err == MRD_OK)
            err = alone(calls, &calls->lines[i], 0);
    return err;
}
