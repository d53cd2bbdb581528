#include "trace/model/lanes.h"

#include <stdlib.h>

#include "base/vec.h"

/* up to this number of lanes, a linear search is used; with more lanes a tree */
#define LANES_LINEAR 8

/* The open spans of one lane. Each one nests in the one before it, and only their ends are
 * stored. */
typedef struct {
    /* ends of all open spans but the innermost, outermost first: depth - 1 elements */
    int64_t *outer;
    uint32_t depth, cap;
    int64_t top; /* end of the innermost open span; INT64_MIN if no span is open */
} lane;

/*
 * A node of a search tree over the lanes of a track. A span from `start` to `end` may fit into a
 * lane in two cases: an open span of the lane ends by then (low <= start), or the new span nests in
 * it (high >= end).
 *
 * - A leaf stands for a lane. `low` and `high` are both the end of its innermost open span.
 *   `high` is INT64_MIN if the lane must not get any deeper.
 * - In an inner node, `low` is the minimum of its children, and `high` the maximum.
 */
typedef struct {
    int64_t low, high;
} lane_node;

typedef struct {
    lane first; /* lane 0, which gets most spans */
    lane *more; /* lanes 1 to n - 1 */
    size_t n, cap;
    /* 2 * leaves nodes, the root at index 1; NULL if there are few lanes */
    lane_node *tree;
    size_t leaves;
} track_lanes;

/*
 * free_at[track] is the end of the outermost open span in lane 0. It makes the most frequent case
 * fast: a span begins at or after this time, so it fits into lane 0. Then only free_at changes, and
 * the lane itself is updated when it is needed. A free_at of INT64_MAX means that the lanes must be
 * searched.
 */
struct mrd_lanes {
    track_lanes *v;
    int64_t *free_at;
    size_t n;
    mrd_err err;
};

/* Extends both arrays to this track. Returns false if out of memory. */
static bool
lanes_reach(mrd_lanes *lanes, size_t track)
{
    size_t n = lanes->n, n_free = lanes->n;

    if (!MRD_VEC_REACH(lanes->v, n, track) || !MRD_VEC_REACH(lanes->free_at, n_free, track))
        return false;
    n = n < n_free ? n : n_free;
    for (; lanes->n < n; lanes->n++)
        lanes->free_at[lanes->n] = INT64_MAX;
    return true;
}

mrd_lanes *
mrd_lanes_new(size_t tracks)
{
    mrd_lanes *lanes = calloc(1, sizeof(*lanes));

    if (lanes == NULL)
        return NULL;
    if (!lanes_reach(lanes, tracks)) {
        mrd_lanes_free(lanes);
        return NULL;
    }
    return lanes;
}

void
mrd_lanes_free(mrd_lanes *lanes)
{
    if (lanes == NULL)
        return;
    for (size_t i = 0; i < lanes->n; i++) {
        free(lanes->v[i].first.outer);
        for (size_t l = 1; l < lanes->v[i].n; l++)
            free(lanes->v[i].more[l - 1].outer);
        free(lanes->v[i].more);
        free(lanes->v[i].tree);
    }
    free(lanes->v);
    free(lanes->free_at);
    free(lanes);
}

mrd_err
mrd_lanes_err(const mrd_lanes *lanes)
{
    return lanes->err;
}

static track_lanes *
lanes_track(mrd_lanes *lanes, mrd_track_id track)
{
    if (track >= lanes->n && !lanes_reach(lanes, track))
        return NULL;
    return &lanes->v[track];
}

static inline lane *
track_lane(track_lanes *lanes, size_t i)
{
    return i == 0 ? &lanes->first : &lanes->more[i - 1];
}

/* Removes the spans of the lane that have ended by `start`. Returns true if a span from `start` to
 * `end` nests in the others. */
static inline bool
lane_fits(lane *l, mrd_ev_ns start, mrd_ev_ns end)
{
    while (l->depth > 0 && l->top <= start.ns)
        l->top = --l->depth == 0 ? INT64_MIN : l->outer[l->depth - 1];
    return l->depth == 0 || (l->top >= end.ns && l->depth < MRD_LANE_DEPTH_MAX);
}

static lane_node
lane_leaf(const lane *l)
{
    int64_t top = l->depth == 0 ? INT64_MIN : l->top;

    return (lane_node){ top, l->depth >= MRD_LANE_DEPTH_MAX ? INT64_MIN : top };
}

static void
tree_update(track_lanes *lanes, size_t i)
{
    size_t at = lanes->leaves + i;

    lanes->tree[at] = lane_leaf(track_lane(lanes, i));
    for (at /= 2; at > 0; at /= 2) {
        const lane_node *a = &lanes->tree[at * 2], *b = a + 1;

        lanes->tree[at].low = a->low < b->low ? a->low : b->low;
        lanes->tree[at].high = a->high > b->high ? a->high : b->high;
    }
}

/* Builds a tree with `leaves` leaves. Leaves without a lane get values that no span matches.
 * Returns false if out of memory. */
static bool
tree_build(track_lanes *lanes, size_t leaves)
{
    lane_node *tree = malloc(2 * leaves * sizeof(*tree));

    if (tree == NULL)
        return false;
    for (size_t i = 0; i < 2 * leaves; i++)
        tree[i] = (lane_node){ INT64_MAX, INT64_MIN };
    free(lanes->tree);
    lanes->tree = tree;
    lanes->leaves = leaves;
    for (size_t i = 0; i < lanes->n; i++)
        tree_update(lanes, i);
    return true;
}

/* Returns the first lane in which the span fits; lanes->n if there is none. */
static size_t
tree_find(track_lanes *lanes, mrd_ev_ns start, mrd_ev_ns end)
{
    for (;;) {
        size_t at = 1;

        if (lanes->tree[1].low > start.ns && lanes->tree[1].high < end.ns)
            return lanes->n;
        while (at < lanes->leaves) {
            at *= 2;
            if (lanes->tree[at].low > start.ns && lanes->tree[at].high < end.ns)
                at++;
        }
        at -= lanes->leaves;
        /* no lane fits: with `end` INT64_MIN, leaves without a lane match, too */
        if (at >= lanes->n)
            return lanes->n;
        if (lane_fits(track_lane(lanes, at), start, end))
            return at;
        /* a span of this lane has ended, but the new span does not nest in the others */
        tree_update(lanes, at);
    }
}

static bool
lanes_add(track_lanes *lanes)
{
    /* lane 0 is `first`, which needs no allocation */
    if (lanes->n++ == 0)
        return true;
    if (!MRD_VEC_ROOM(lanes->more, lanes->n - 2, lanes->cap, 1)) {
        lanes->n--;
        return false;
    }
    lanes->more[lanes->n - 2] = (lane){ 0 };
    if (lanes->n <= LANES_LINEAR || (lanes->tree != NULL && lanes->n <= lanes->leaves))
        return true;
    return tree_build(lanes, lanes->leaves == 0 ? 4 * LANES_LINEAR : lanes->leaves * 2);
}

static size_t
lanes_find(track_lanes *lanes, mrd_ev_ns start, mrd_ev_ns end)
{
    size_t i;

    if (lanes->tree != NULL)
        return tree_find(lanes, start, end);
    for (i = 0; i < lanes->n && !lane_fits(track_lane(lanes, i), start, end);)
        i++;
    return i;
}

static bool
lane_open(lane *l, mrd_ev_ns end)
{
    if (l->depth > 0) {
        if (!MRD_VEC_ROOM(l->outer, l->depth - 1, l->cap, 1))
            return false;
        l->outer[l->depth - 1] = l->top;
    }
    l->depth++;
    l->top = end.ns;
    return true;
}

/* Returns the end of the outermost open span of a lane. */
static int64_t
lane_end(const lane *l)
{
    return l->depth > 1 ? l->outer[0] : l->top;
}

static uint32_t
lanes_put(mrd_lanes *lanes, mrd_track_id track, mrd_ev_ns start, mrd_ev_ns end)
{
    track_lanes *t = lanes_track(lanes, track);
    int64_t *free_at;
    size_t i;

    if (t == NULL) {
        lanes->err = MRD_NOMEM;
        return 0;
    }
    free_at = &lanes->free_at[track];
    if (*free_at != INT64_MAX && *free_at != lane_end(&t->first)) {
        /* free_at was set by the fast path, so all earlier spans of lane 0 have ended */
        t->first.depth = 1;
        t->first.top = *free_at;
    }
    i = lanes_find(t, start, end);
    if ((i == t->n && !lanes_add(t)) || !lane_open(track_lane(t, i), end)) {
        lanes->err = MRD_NOMEM;
        return 0;
    }
    if (t->tree != NULL)
        tree_update(t, i);
    *free_at = t->tree != NULL ? INT64_MAX : lane_end(&t->first);
    return (uint32_t) i;
}

uint32_t
mrd_lanes_put(mrd_lanes *lanes, const mrd_event *ev)
{
    mrd_ev_ns end;

    if (ev->kind != MRD_SPAN && ev->kind != MRD_LOSS)
        return 0;
    end = mrd_event_end(ev);
    if (ev->track >= lanes->n || ev->ts.ns < lanes->free_at[ev->track] || end.ns == INT64_MAX)
        return lanes_put(lanes, ev->track, ev->ts, end);
    lanes->free_at[ev->track] = end.ns;
    return 0;
}
