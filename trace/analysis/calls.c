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

/* Spans of one name and thread that wait for their counterpart, by begin. */
typedef struct {
    mrd_event *v;
    size_t n, cap;
} call_line;

struct mrd_calls {
    mrd_calls_fn *give;
    void *self;
    uint8_t *sources; /* by track; events of OTHER count immediately */
    call_track *tracks;
    size_t n_tracks;
    mrd_map by_call;
    call_line *lines;
    size_t n_lines, cap_lines;
    uint64_t twice;
};

/* ---- Tracks ---- */

static uint8_t
source_of(const mrd_track *t)
{
    if (t->kind != MRD_TRACK_SPANS)
        return OTHER;
    return t->source == MRD_SRC_API ? HOOK : t->source == MRD_SRC_RUNTIME ? RUNTIME : OTHER;
}

enum { BOTH = 1u << HOOK | 1u << RUNTIME };

/* The sources of a process, and of each of its threads, are stored as sets. */
static mrd_map_key
process_key(const call_track *t)
{
    return (mrd_map_key){ t->process, 0, 1 };
}

static mrd_map_key
thread_key(const call_track *t)
{
    return (mrd_map_key){ t->process, t->thread, 0 };
}

/* Errors: NOMEM. */
static mrd_err
source_seen(mrd_map *seen, mrd_map_key key, uint8_t source)
{
    uint32_t so_far = mrd_map_get(seen, key);

    return mrd_map_put(seen, key, (so_far == MRD_MAP_NONE ? 0 : so_far) | 1u << source);
}

static mrd_err
tracks_make(mrd_calls *c, const mrd_catalog *cat, uint32_t profile)
{
    mrd_map seen = { 0 };
    mrd_err err = MRD_OK;

    for (mrd_track_id i = 0; i < c->n_tracks && err == MRD_OK; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(cat, i);

        if (mrd_catalog_profile_of(cat, i) != profile || source_of(t) == OTHER)
            continue;
        c->sources[i] = source_of(t);
        c->tracks[i] = (call_track){ t->process, (uint64_t) t->thread_id };
        err = source_seen(&seen, process_key(&c->tracks[i]), c->sources[i]);
        if (err == MRD_OK)
            err = source_seen(&seen, thread_key(&c->tracks[i]), c->sources[i]);
    }
    for (size_t i = 0; i < c->n_tracks && err == MRD_OK; i++) {
        call_track *t = &c->tracks[i];

        if (c->sources[i] != OTHER && mrd_map_get(&seen, process_key(t)) != BOTH)
            c->sources[i] = OTHER; /* only one source, so each event counts immediately */
        else if (c->sources[i] != OTHER && mrd_map_get(&seen, thread_key(t)) != BOTH)
            t->thread = NO_THREAD;
    }
    mrd_map_fini(&seen);
    return err;
}

mrd_calls *
mrd_calls_new(const mrd_catalog *cat, uint32_t profile, mrd_calls_fn *give, void *self)
{
    mrd_calls *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->give = give;
    c->self = self;
    c->n_tracks = mrd_catalog_tracks(cat);
    c->sources = calloc(c->n_tracks + 1, sizeof(*c->sources));
    c->tracks = calloc(c->n_tracks + 1, sizeof(*c->tracks));
    if (c->sources == NULL || c->tracks == NULL || tracks_make(c, cat, profile) != MRD_OK) {
        mrd_calls_free(c);
        return NULL;
    }
    return c;
}

void
mrd_calls_free(mrd_calls *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->n_lines; i++)
        free(c->lines[i].v);
    free(c->lines);
    mrd_map_fini(&c->by_call);
    free(c->sources);
    free(c->tracks);
    free(c);
}

uint64_t
mrd_calls_twice(const mrd_calls *c)
{
    return c->twice;
}

/* ---- Lines ---- */

static mrd_err
line_new(mrd_calls *c, mrd_map_key key, call_line **ret_line)
{
    mrd_err err;

    if (!MRD_VEC_ROOM(c->lines, c->n_lines, c->cap_lines, 1))
        return MRD_NOMEM;
    if ((err = mrd_map_put(&c->by_call, key, (uint32_t) c->n_lines)) != MRD_OK)
        return err;
    c->lines[c->n_lines] = (call_line){ 0 };
    *ret_line = &c->lines[c->n_lines++];
    return MRD_OK;
}

static mrd_err
line_for(mrd_calls *c, const mrd_event *ev, call_line **ret_line)
{
    const call_track *t = &c->tracks[ev->track];
    mrd_map_key key = { t->process, t->thread, ev->name };
    uint32_t i = mrd_map_get(&c->by_call, key);

    if (i == MRD_MAP_NONE)
        return line_new(c, key, ret_line);
    *ret_line = &c->lines[i];
    return MRD_OK;
}

static bool
is_hook(const mrd_calls *c, const mrd_event *ev)
{
    return c->sources[ev->track] == HOOK;
}

static void
take_out(call_line *l, size_t i)
{
    l->n--;
    memmove(&l->v[i], &l->v[i + 1], (l->n - i) * sizeof(l->v[0]));
}

/* Removes a span that has no counterpart. A call that only the hook recorded counts now. */
static mrd_err
alone(mrd_calls *c, call_line *l, size_t i)
{
    mrd_event ev = l->v[i];

    take_out(l, i);
    return is_hook(c, &ev) ? c->give(c->self, &ev) : MRD_OK;
}

static bool
is_over(const mrd_event *ev, mrd_ev_ns now)
{
    int64_t end;

    return !__builtin_add_overflow(mrd_event_end(ev).ns, MRD_CALLS_SLACK, &end) && end < now.ns;
}

static mrd_err
expire(mrd_calls *c, call_line *l, mrd_ev_ns now)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < l->n && err == MRD_OK;) {
        if (is_over(&l->v[i], now))
            err = alone(c, l, i);
        else
            i++;
    }
    return err;
}

/* Returns the oldest span that may be the counterpart of this call; SIZE_MAX if there is none. */
static size_t
other_of(const mrd_calls *c, const call_line *l, const mrd_event *ev)
{
    for (size_t i = 0; i < l->n; i++)
        if (is_hook(c, &l->v[i]) != is_hook(c, ev))
            return i;
    return SIZE_MAX;
}

static mrd_err
wait_for_other(mrd_calls *c, call_line *l, const mrd_event *ev)
{
    mrd_err err = l->n < MRD_CALLS_WAITING ? MRD_OK : alone(c, l, 0);

    if (err == MRD_OK && !MRD_VEC_ROOM(l->v, l->n, l->cap, 1))
        return MRD_NOMEM;
    if (err != MRD_OK)
        return err;
    l->v[l->n] = *ev;
    l->v[l->n].args = NULL;
    l->v[l->n].arg_count = 0;
    l->v[l->n].flows = NULL;
    l->v[l->n++].flow_count = 0;
    return MRD_OK;
}

/* ---- API ---- */

static mrd_err
pair(mrd_calls *c, const mrd_event *ev)
{
    call_line *l = NULL;
    mrd_err err = line_for(c, ev, &l);
    size_t other;

    if (err != MRD_OK || (err = expire(c, l, ev->ts)) != MRD_OK)
        return err;
    if ((other = other_of(c, l, ev)) == SIZE_MAX)
        return wait_for_other(c, l, ev);
    take_out(l, other);
    c->twice++;
    return MRD_OK;
}

mrd_err
mrd_calls_add(mrd_calls *c, const mrd_event *ev)
{
    bool call = ev->kind == MRD_SPAN && ev->track < c->n_tracks && c->sources[ev->track] != OTHER;
    mrd_err err = call && is_hook(c, ev) ? MRD_OK : c->give(c->self, ev);

    return call && err == MRD_OK ? pair(c, ev) : err;
}

mrd_err
mrd_calls_finish(mrd_calls *c)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < c->n_lines; i++)
        while (c->lines[i].n > 0 && err == MRD_OK)
            err = alone(c, &c->lines[i], 0);
    return err;
}
