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
    uint32_t group; /* number of the pair of lines, + 1 */
    uint8_t half;   /* its half of the pair */
} pair_track;

typedef struct {
    mrd_track_id low;           /* the line of core 2k */
    unsigned halves;            /* a bit for each half with a line */
    mrd_sid from[2], length[2]; /* names of the arguments, by half */
    int64_t pcore[2];
} pair_group;

typedef struct {
    mrd_open *open;
    bool waits;     /* a half that waits for the other one */
    mrd_event half; /* the other half; only its times and line are used */
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
    pair_place *v; /* a ring buffer, the oldest first */
    size_t first, n, n_waiting;
    mrd_arg *args;
    size_t cap_args;
};

static pair_place *
place_at(const mrd_exec_pairs *p, size_t i)
{
    return &p->v[(p->first + i) % PLACES];
}

/* ---- Output ---------------------------------------------------------------------------------- */

static mrd_arg
time_arg(mrd_sid key, int64_t value)
{
    return (mrd_arg){ .key = key, .type = MRD_ARG_INT, .v.i = value };
}

/* Returns the event with up to four more arguments. */
static mrd_err
give_more(mrd_exec_pairs *p, const mrd_event *from, const mrd_arg *more, size_t n)
{
    mrd_event ev = *from;

    if (!MRD_VEC_ROOM(p->args, 0, p->cap_args, from->arg_count + n))
        return MRD_NOMEM;
    if (from->arg_count > 0)
        memcpy(p->args, from->args, from->arg_count * sizeof(*p->args));
    memcpy(p->args + from->arg_count, more, n * sizeof(*more));
    ev.args = p->args;
    ev.arg_count = from->arg_count + (uint32_t) n;
    return p->give(p->self, &ev);
}

static mrd_err
give_half(mrd_exec_pairs *p, const mrd_event *ev)
{
    const pair_track *t = &p->tracks[ev->track];
    mrd_arg arg = time_arg(p->missing, p->groups[t->group - 1].pcore[!t->half]);

    return give_more(p, ev, &arg, 1);
}

static mrd_err
give_pair(mrd_exec_pairs *p, const mrd_event *first, const mrd_event *second)
{
    const pair_group *g = &p->groups[p->tracks[first->track].group - 1];
    unsigned a = p->tracks[first->track].half, b = !a;
    mrd_ev_ns end = mrd_event_end(first), other = mrd_event_end(second);
    mrd_event ev = *first;
    const mrd_arg more[] = { time_arg(g->from[a], first->ts.ns),
                             time_arg(g->length[a], first->dur_ns),
                             time_arg(g->from[b], second->ts.ns),
                             time_arg(g->length[b], second->dur_ns) };

    ev.track = g->low;
    ev.flags |= MRD_EV_PAIR;
    if (second->bound_ns > ev.bound_ns) /* MRD_BOUND_UNKNOWN is the greatest value */
        ev.bound_ns = second->bound_ns;
    ev.dur_ns = (mrd_ev_after(other, end) ? other.ns : end.ns) - ev.ts.ns;
    return give_more(p, &ev, more, MRD_COUNT(more));
}

/* Emits the oldest event in its current form. */
static mrd_err
give_oldest(mrd_exec_pairs *p)
{
    pair_place *o = place_at(p, 0);
    mrd_err err = o->has_half ? give_pair(p, &o->open->ev, &o->half)
                  : o->waits  ? give_half(p, &o->open->ev)
                              : p->give(p->self, &o->open->ev);

    p->n_waiting -= o->waits;
    mrd_open_free(o->open);
    *o = (pair_place){ 0 };
    p->first = (p->first + 1) % PLACES;
    p->n--;
    return err;
}

/* Returns true if the other half may still begin at this time. */
static bool
may_come(const mrd_event *half, mrd_ev_ns at)
{
    return !mrd_ev_after(at, mrd_event_end(half)) &&
           mrd_sat_sub(at.ns, half->ts.ns) <= MRD_PAIR_WAIT;
}

/* Emits the events that need not wait for a half any more. `now` is the time of the next event. */
static mrd_err
give_ready(mrd_exec_pairs *p, mrd_ev_ns now)
{
    mrd_err err = MRD_OK;

    while (p->n > 0 && err == MRD_OK) {
        const pair_place *o = place_at(p, 0);

        if (o->waits && p->n < MRD_PAIR_EVENTS && may_come(&o->open->ev, now))
            break;
        err = give_oldest(p);
    }
    return err;
}

/* ---- Input ----------------------------------------------------------------------------------- */

static bool
exec_of(const mrd_exec_pairs *p, const mrd_event *ev, uint64_t *ret_id)
{
    const mrd_arg *id = mrd_event_arg(ev, p->exec_id);

    if (mrd_arg_is_int(id))
        *ret_id = id->v.u;
    return mrd_arg_is_int(id);
}

static bool
is_half(const mrd_exec_pairs *p, const mrd_event *ev, uint64_t *ret_exec)
{
    return ev->kind == MRD_SPAN && ev->name == p->running && ev->dur_ns >= 0 &&
           (ev->flags & MRD_EV_NO_START) == 0 && ev->track < p->n_tracks &&
           p->tracks[ev->track].group != NO_GROUP && exec_of(p, ev, ret_exec);
}

/* Returns the half that waits for this one; NULL if there is none. */
static pair_place *
other_of(const mrd_exec_pairs *p, const mrd_event *ev, uint64_t exec)
{
    const pair_track *t = &p->tracks[ev->track];
    uint64_t have = 0;

    for (size_t i = 0; i < p->n && p->n_waiting > 0; i++) {
        pair_place *o = place_at(p, i);
        const pair_track *u = o->waits ? &p->tracks[o->open->ev.track] : NULL;

        if (u != NULL && u->group == t->group && u->half != t->half &&
            may_come(&o->open->ev, ev->ts) && exec_of(p, &o->open->ev, &have) && have == exec)
            return o;
    }
    return NULL;
}

mrd_err
mrd_exec_pairs_add(mrd_exec_pairs *p, const mrd_event *ev)
{
    mrd_err err = p->n == 0 ? MRD_OK : give_ready(p, ev->ts);
    uint64_t exec = 0;
    bool half = err == MRD_OK && is_half(p, ev, &exec);
    pair_place *o = half && p->n_waiting > 0 ? other_of(p, ev, exec) : NULL;

    if (err != MRD_OK)
        return err;
    if (o != NULL) {
        o->half = *ev;
        o->half.args = NULL;
        o->half.arg_count = 0;
        o->half.flows = NULL;
        o->half.flow_count = 0;
        o->has_half = true;
        o->waits = false;
        p->n_waiting--;
        return give_ready(p, ev->ts);
    }
    if (p->n == 0 && !half)
        return p->give(p->self, ev);
    o = place_at(p, p->n);
    if ((o->open = mrd_open_new(ev)) == NULL)
        return MRD_NOMEM;
    o->waits = half;
    p->n_waiting += half;
    p->n++;
    return MRD_OK;
}

mrd_err
mrd_exec_pairs_finish(mrd_exec_pairs *p)
{
    mrd_err err = MRD_OK;

    while (p->n > 0 && err == MRD_OK)
        err = give_oldest(p);
    return err;
}

/* ---- Open and close -------------------------------------------------------------------------- */

static void
name_args(pair_group *g, mrd_strtab *strings, int64_t low)
{
    char text[64];

    for (int i = 0; i < 2; i++) {
        g->pcore[i] = low + i;
        snprintf(text, sizeof(text), "pcore%" PRId64 "_timestamp", low + i);
        g->from[i] = mrd_strtab_addz(strings, text);
        snprintf(text, sizeof(text), "pcore%" PRId64 "_duration", low + i);
        g->length[i] = mrd_strtab_addz(strings, text);
    }
}

/* Finds lines of physical cores in pairs, by process, logical core and k. */
static mrd_err
groups_make(mrd_exec_pairs *p, const mrd_catalog *cat, uint32_t profile)
{
    mrd_map by_core = { 0 };
    mrd_err err = MRD_OK;

    for (mrd_track_id i = 0; i < p->n_tracks && err == MRD_OK; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(cat, i);
        mrd_map_key key = { (uint64_t) t->process << 32 | (uint32_t) t->source,
                            (uint64_t) t->lnc_idx, (uint64_t) t->pcore_idx / 2 };
        uint32_t at;
        pair_group *g;

        if (mrd_catalog_profile_of(cat, i) != profile || t->kind != MRD_TRACK_SPANS ||
            t->source != MRD_SRC_DEVICE || t->lnc_idx == MRD_NONE || t->pcore_idx < 0)
            continue;
        if ((at = mrd_map_get(&by_core, key)) == MRD_MAP_NONE) {
            at = (uint32_t) p->n_groups;
            err = mrd_map_put(&by_core, key, at);
            name_args(&p->groups[p->n_groups++], mrd_catalog_strings(cat), t->pcore_idx & ~1);
            p->groups[at].low = i;
        }
        g = &p->groups[at];
        p->tracks[i] = (pair_track){ at + 1, (uint8_t) (t->pcore_idx & 1) };
        if ((t->pcore_idx & 1) == 0 && (g->halves & 1) == 0)
            g->low = i;
        g->halves |= 1u << (t->pcore_idx & 1);
    }
    mrd_map_fini(&by_core);
    for (size_t i = 0; i < p->n_tracks; i++)
        if (p->tracks[i].group != NO_GROUP && p->groups[p->tracks[i].group - 1].halves != 3)
            p->tracks[i].group = NO_GROUP;
    return err;
}

mrd_err
mrd_exec_pairs_new(const mrd_catalog *cat, uint32_t profile, mrd_exec_pairs_fn *give, void *self,
                   mrd_exec_pairs **ret_pairs)
{
    mrd_exec_pairs *p = calloc(1, sizeof(*p));
    bool any = false;
    mrd_err err = MRD_NOMEM;

    if (p == NULL)
        return MRD_NOMEM;
    p->give = give;
    p->self = self;
    p->n_tracks = mrd_catalog_tracks(cat);
    p->tracks = calloc(p->n_tracks + 1, sizeof(*p->tracks));
    p->groups = calloc(p->n_tracks + 1, sizeof(*p->groups));
    p->v = calloc(PLACES, sizeof(*p->v));
    if (p->tracks != NULL && p->groups != NULL && p->v != NULL)
        err = groups_make(p, cat, profile);
    for (size_t i = 0; i < p->n_tracks && err == MRD_OK && !any; i++)
        any = p->tracks[i].group != NO_GROUP;
    p->running = mrd_strtab_find(mrd_catalog_strings(cat), MRD_STR("nc_exec_running"));
    p->exec_id = mrd_arg_key_find(mrd_catalog_strings(cat), MRD_KEY_EXEC);
    if (err != MRD_OK || !any || p->running == MRD_SID_EMPTY || p->exec_id == MRD_SID_EMPTY) {
        mrd_exec_pairs_free(p);
        p = NULL;
    } else {
        p->missing = mrd_strtab_addz(mrd_catalog_strings(cat), "pcore_missing");
    }
    if (err == MRD_OK)
        *ret_pairs = p;
    return err;
}

void
mrd_exec_pairs_free(mrd_exec_pairs *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->n; i++)
        mrd_open_free(place_at(p, i)->open);
    free(p->v);
    free(p->args);
    free(p->tracks);
    free(p->groups);
    free(p);
}
