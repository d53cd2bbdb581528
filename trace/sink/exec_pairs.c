#include "trace/sink/exec_pairs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/model/arg_keys.h"
#include "trace/model/open.h"

#define NO_GROUP 0u
#define PLACES   (MRD_PAIR_EVENTS + 1)

typedef struct {
    /* index + 1 in `groups` of the pair of physical cores to which the track belongs; NO_GROUP if
     * none */
    uint32_t group;
    uint8_t half; /* which of the two physical cores this is, 0 or 1 */
} pair_track;

typedef struct {
    /* the track of the even core (2k), on which merged spans are shown */
    mrd_track_id low;
    unsigned halves; /* bit i is set if physical core i of the pair has a track */
    /* for each physical core: keys of the arguments with the begin and the duration of its span */
    mrd_sid from[2], length[2];
    int64_t pcore[2];
} pair_group;

typedef struct {
    mrd_open *open;
    /* the event is the span of one physical core, and the span of the other may still come */
    bool waits;
    /* span of the other physical core, valid if has_half; only its times and its track are used */
    mrd_event half;
    bool has_half;
} pair_place;

struct mrd_exec_pairs {
    mrd_exec_pairs_fn *give;
    void *self;
    mrd_sid running, exec_id, missing;
    pair_track *tracks;
    size_t n_tracks;
    pair_group *groups;
    size_t n_groups;
    pair_place *v; /* ring buffer of events in order of time; the oldest are passed on first */
    size_t first, n, n_waiting;
    mrd_arg *args;
    size_t cap_args;
};

static pair_place *
place_at(const mrd_exec_pairs *pairs, size_t i)
{
    return &pairs->v[(pairs->first + i) % PLACES];
}

/* ---- Output ---------------------------------------------------------------------------------- */

static mrd_arg
time_arg(mrd_sid key, int64_t value)
{
    return (mrd_arg){ .key = key, .type = MRD_ARG_INT, .v.i = value };
}

/* Passes an event on with up to four additional arguments. */
static mrd_err
give_more(mrd_exec_pairs *pairs, const mrd_event *from, const mrd_arg *more, size_t n)
{
    mrd_event ev = *from;

    if (!MRD_VEC_ROOM(pairs->args, 0, pairs->cap_args, from->arg_count + n))
        return MRD_NOMEM;
    if (from->arg_count > 0)
        memcpy(pairs->args, from->args, from->arg_count * sizeof(*pairs->args));
    memcpy(pairs->args + from->arg_count, more, n * sizeof(*more));
    ev.args = pairs->args;
    ev.arg_count = from->arg_count + (uint32_t) n;
    return pairs->give(pairs->self, &ev);
}

static mrd_err
give_half(mrd_exec_pairs *pairs, const mrd_event *ev)
{
    const pair_track *track = &pairs->tracks[ev->track];
    mrd_arg arg = time_arg(pairs->missing, pairs->groups[track->group - 1].pcore[!track->half]);

    return give_more(pairs, ev, &arg, 1);
}

static mrd_err
give_pair(mrd_exec_pairs *pairs, const mrd_event *first, const mrd_event *second)
{
    const pair_group *group = &pairs->groups[pairs->tracks[first->track].group - 1];
    unsigned a = pairs->tracks[first->track].half, b = !a;
    mrd_ev_ns end = mrd_event_end(first), other = mrd_event_end(second);
    mrd_event ev = *first;
    const mrd_arg more[] = { time_arg(group->from[a], first->ts.ns),
                             time_arg(group->length[a], first->dur_ns),
                             time_arg(group->from[b], second->ts.ns),
                             time_arg(group->length[b], second->dur_ns) };

    ev.track = group->low;
    ev.flags = (uint8_t) ((ev.flags & (second->flags | ~MRD_EV_DEVICE_BOUND)) | MRD_EV_PAIR);
    /* keep the larger error bound; MRD_BOUND_UNKNOWN is the largest value */
    if (second->bound_ns > ev.bound_ns)
        ev.bound_ns = second->bound_ns;
    ev.dur_ns = (mrd_ev_after(other, end) ? other.ns : end.ns) - ev.ts.ns;
    return give_more(pairs, &ev, more, MRD_COUNT(more));
}

/* Passes on the oldest event in the buffer. The event is first merged with its other half, if that
 * was found. */
static mrd_err
give_oldest(mrd_exec_pairs *pairs)
{
    pair_place *place = place_at(pairs, 0);
    mrd_err err = place->has_half ? give_pair(pairs, &place->open->ev, &place->half)
                  : place->waits  ? give_half(pairs, &place->open->ev)
                                  : pairs->give(pairs->self, &place->open->ev);

    pairs->n_waiting -= place->waits;
    mrd_open_free(place->open);
    *place = (pair_place){ 0 };
    pairs->first = (pairs->first + 1) % PLACES;
    pairs->n--;
    return err;
}

/* Returns true if an event at time `at` can still be the other half of the execution that `half`
 * belongs to. */
static bool
may_come(const mrd_event *half, mrd_ev_ns at)
{
    return !mrd_ev_after(at, mrd_event_end(half)) &&
           mrd_sat_sub(at.ns, half->ts.ns) <= MRD_PAIR_WAIT;
}

/* Passes on the oldest events, up to one that still waits for its other half. `now` is the time of
 * the next event. */
static mrd_err
give_ready(mrd_exec_pairs *pairs, mrd_ev_ns now)
{
    mrd_err err = MRD_OK;

    while (pairs->n > 0 && err == MRD_OK) {
        const pair_place *place = place_at(pairs, 0);

        if (place->waits && pairs->n < MRD_PAIR_EVENTS && may_come(&place->open->ev, now))
            break;
        err = give_oldest(pairs);
    }
    return err;
}

/* ---- Input ----------------------------------------------------------------------------------- */

static bool
exec_of(const mrd_exec_pairs *pairs, const mrd_event *ev, uint64_t *ret_id)
{
    const mrd_arg *id = mrd_event_arg(ev, pairs->exec_id);

    if (mrd_arg_is_int(id))
        *ret_id = id->v.u;
    return mrd_arg_is_int(id);
}

static bool
is_half(const mrd_exec_pairs *pairs, const mrd_event *ev, uint64_t *ret_exec)
{
    return ev->kind == MRD_SPAN && ev->name == pairs->running && ev->dur_ns >= 0 &&
           (ev->flags & MRD_EV_NO_START) == 0 && ev->track < pairs->n_tracks &&
           pairs->tracks[ev->track].group != NO_GROUP && exec_of(pairs, ev, ret_exec);
}

/* Returns the buffered event that is the other half of the same execution. NULL if there is
 * none. */
static pair_place *
other_of(const mrd_exec_pairs *pairs, const mrd_event *ev, uint64_t exec)
{
    const pair_track *t = &pairs->tracks[ev->track];
    uint64_t have = 0;

    for (size_t i = 0; i < pairs->n && pairs->n_waiting > 0; i++) {
        pair_place *place = place_at(pairs, i);
        const pair_track *u = place->waits ? &pairs->tracks[place->open->ev.track] : NULL;

        if (u != NULL && u->group == t->group && u->half != t->half &&
            may_come(&place->open->ev, ev->ts) && exec_of(pairs, &place->open->ev, &have) &&
            have == exec)
            return place;
    }
    return NULL;
}

mrd_err
mrd_exec_pairs_add(mrd_exec_pairs *pairs, const mrd_event *ev)
{
    mrd_err err = pairs->n == 0 ? MRD_OK : give_ready(pairs, ev->ts);
    uint64_t exec = 0;
    bool half = err == MRD_OK && is_half(pairs, ev, &exec);
    pair_place *place = half && pairs->n_waiting > 0 ? other_of(pairs, ev, exec) : NULL;

    if (err != MRD_OK)
        return err;
    if (place != NULL) {
        place->half = *ev;
        place->half.args = NULL;
        place->half.arg_count = 0;
        place->half.flows = NULL;
        place->half.flow_count = 0;
        place->has_half = true;
        place->waits = false;
        pairs->n_waiting--;
        return give_ready(pairs, ev->ts);
    }
    if (pairs->n == 0 && !half)
        return pairs->give(pairs->self, ev);
    place = place_at(pairs, pairs->n);
    if ((place->open = mrd_open_new(ev)) == NULL)
        return MRD_NOMEM;
    place->waits = half;
    pairs->n_waiting += half;
    pairs->n++;
    return MRD_OK;
}

mrd_err
mrd_exec_pairs_finish(mrd_exec_pairs *pairs)
{
    mrd_err err = MRD_OK;

    while (pairs->n > 0 && err == MRD_OK)
        err = give_oldest(pairs);
    return err;
}

/* ---- Open and close -------------------------------------------------------------------------- */

static void
name_args(pair_group *group, mrd_strtab *strings, int64_t low)
{
    char text[64];

    for (int i = 0; i < 2; i++) {
        group->pcore[i] = low + i;
        snprintf(text, sizeof(text), "pcore%" PRId64 "_timestamp", low + i);
        group->from[i] = mrd_strtab_addz(strings, text);
        snprintf(text, sizeof(text), "pcore%" PRId64 "_duration", low + i);
        group->length[i] = mrd_strtab_addz(strings, text);
    }
}

/* Finds pairs of tracks that are halves of one logical core: they have the same process and logical
 * core, and the physical cores 2k and 2k+1. */
static mrd_err
groups_make(mrd_exec_pairs *pairs, const mrd_catalog *cat, uint32_t profile)
{
    mrd_map by_core = { 0 };
    mrd_err err = MRD_OK;

    for (mrd_track_id id = 0; id < pairs->n_tracks && err == MRD_OK; id++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, id);
        mrd_map_key key = { (uint64_t) track->process << 32 | (uint32_t) track->source,
                            (uint64_t) track->lnc_idx, (uint64_t) track->pcore_idx / 2 };
        uint32_t at;
        pair_group *group;

        if (mrd_catalog_profile_of(cat, id) != profile || track->kind != MRD_TRACK_SPANS ||
            track->source != MRD_SRC_DEVICE || track->lnc_idx == MRD_NONE || track->pcore_idx < 0)
            continue;
        if ((at = mrd_map_get(&by_core, key)) == MRD_MAP_NONE) {
            at = (uint32_t) pairs->n_groups;
            err = mrd_map_put(&by_core, key, at);
            name_args(&pairs->groups[pairs->n_groups++], mrd_catalog_strings(cat),
                      track->pcore_idx & ~1);
            pairs->groups[at].low = id;
        }
        group = &pairs->groups[at];
        pairs->tracks[id] = (pair_track){ at + 1, (uint8_t) (track->pcore_idx & 1) };
        if ((track->pcore_idx & 1) == 0 && (group->halves & 1) == 0)
            group->low = id;
        group->halves |= 1u << (track->pcore_idx & 1);
    }
    mrd_map_fini(&by_core);
    for (size_t i = 0; i < pairs->n_tracks; i++)
        if (pairs->tracks[i].group != NO_GROUP &&
            pairs->groups[pairs->tracks[i].group - 1].halves != 3)
            pairs->tracks[i].group = NO_GROUP;
    return err;
}

mrd_err
mrd_exec_pairs_new(const mrd_catalog *cat, uint32_t profile, mrd_exec_pairs_fn *give, void *self,
                   mrd_exec_pairs **ret_pairs)
{
    mrd_exec_pairs *pairs = calloc(1, sizeof(*pairs));
    bool any = false;
    mrd_err err = MRD_NOMEM;

    if (pairs == NULL)
        return MRD_NOMEM;
    pairs->give = give;
    pairs->self = self;
    pairs->n_tracks = mrd_catalog_tracks(cat);
    pairs->tracks = calloc(pairs->n_tracks + 1, sizeof(*pairs->tracks));
    pairs->groups = calloc(pairs->n_tracks + 1, sizeof(*pairs->groups));
    pairs->v = calloc(PLACES, sizeof(*pairs->v));
    if (pairs->tracks != NULL && pairs->groups != NULL && pairs->v != NULL)
        err = groups_make(pairs, cat, profile);
    for (size_t i = 0; i < pairs->n_tracks && err == MRD_OK && !any; i++)
        any = pairs->tracks[i].group != NO_GROUP;
    pairs->running = mrd_strtab_find(mrd_catalog_strings(cat), MRD_STR("nc_exec_running"));
    pairs->exec_id = mrd_arg_key_find(mrd_catalog_strings(cat), MRD_KEY_EXEC);
    if (err != MRD_OK || !any || pairs->running == MRD_SID_EMPTY ||
        pairs->exec_id == MRD_SID_EMPTY) {
        mrd_exec_pairs_free(pairs);
        pairs = NULL;
    } else {
        pairs->missing = mrd_strtab_addz(mrd_catalog_strings(cat), "pcore_missing");
    }
    if (err == MRD_OK)
        *ret_pairs = pairs;
    return err;
}

void
mrd_exec_pairs_free(mrd_exec_pairs *pairs)
{
    if (pairs == NULL)
        return;
    for (size_t i = 0; i < pairs->n; i++)
        mrd_open_free(place_at(pairs, i)->open);
    free(pairs->v);
    free(pairs->args);
    free(pairs->tracks);
    free(pairs->groups);
    free(pairs);
}
