#include "trace/store/merge.h"

#include <stdlib.h>

#include "base/obj.h"
#include "base/tournament.h"

#define MERGE_NONE UINT32_MAX /* tag of a tree leaf without a source; it loses against all others */
/* With so few sources nothing is prefetched, because their next events stay in the cache anyway. */
#define PREFETCH_FROM 32
/* Level of the tree, counted from the root, at which events are prefetched. It has 2^AHEAD_LEVEL
 * nodes, so an event is prefetched about 16 events before its turn. */
#define AHEAD_LEVEL 4

/* A source, and the events of its last read that are not used yet: from `at` (the next one) to
 * `end`. */
typedef struct {
    const mrd_event *at, *end;
    mrd_source *in; /* NULL after the source was closed */
    uint32_t leaf;
} feed;

/* Merges sources by a tournament tree of their next events. In the tree, `key` is an event's time,
 * and `tag` the index of its source in `feeds`. */
typedef struct {
    mrd_source base;
    feed *feeds;
    mrd_tournament tree;
    /* no other source has an event before this time, so the current one needs no comparison until
     * then */
    mrd_ev_ns until;
    size_t n, k, live;
    bool started;
    void (*bad)(void *self, uint64_t key, const mrd_why *why);
    void *self;
    mrd_why why; /* error of the current call; empty between calls */
} merge;

static bool
merge_tie(const void *self, uint64_t a, uint64_t b)
{
    const merge *m = self;
    int order;

    if (a == MERGE_NONE || b == MERGE_NONE)
        return a < b;
    if ((order = mrd_event_order(m->feeds[a].at, m->feeds[b].at)) != 0)
        return order < 0;
    if (m->feeds[a].in->key != m->feeds[b].in->key)
        return m->feeds[a].in->key < m->feeds[b].in->key;
    return a < b;
}

/* Builds the tree from the sources that are still open. */
static void
merge_build(merge *m)
{
    size_t leaf = m->k = m->live;

    m->until = (mrd_ev_ns){ INT64_MIN };
    m->tree.k = m->k;
    m->tree.key[1] = INT64_MAX;
    m->tree.tag[1] = MERGE_NONE;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->feeds[i].in == NULL)
            continue;
        m->feeds[i].leaf = (uint32_t) leaf;
        m->tree.key[leaf] = m->feeds[i].at->ts.ns;
        m->tree.tag[leaf++] = i;
    }
    mrd_tournament_build(&m->tree, merge_tie, m);
}

/* ---- The sources ---- */

static void
merge_drop(merge *m, feed *f, const mrd_why *why)
{
    if (why != NULL && m->bad != NULL)
        m->bad(m->self, f->in->key, why);
    f->in->close(f->in);
    f->in = NULL;
    m->live--;
}

static mrd_step
feed_fill(feed *f, mrd_why *why)
{
    mrd_event *run;
    mrd_step step;
    size_t n;

    if (f->in->run == NULL) {
        if ((step = f->in->next(f->in, &f->at, why)) == MRD_MORE)
            f->end = f->at + 1;
        return step;
    }
    if ((step = f->in->run(f->in, &run, &n, why)) == MRD_MORE) {
        f->at = run;
        f->end = run + n;
    }
    return step;
}

/* Advances a source to its next event, which must not be before `not_before`. Returns false if the
 * source ended or failed, and was closed. */
static inline bool
merge_load(merge *m, feed *f, mrd_ev_ns not_before)
{
    mrd_step step = MRD_MORE;

    if (f->end - f->at > 1)
        f->at++;
    else
        step = feed_fill(f, &m->why);
    if (__builtin_expect(step == MRD_MORE && !mrd_ev_before(f->at->ts, not_before), 1))
        return true;
    if (step == MRD_MORE)
        mrd_why_set(&m->why, MRD_CORRUPT, 0, "steps back in time from %lld ns to %lld ns",
                    (long long) not_before.ns, (long long) f->at->ts.ns);
    merge_drop(m, f, step == MRD_END ? NULL : &m->why);
    m->why = (mrd_why){ 0 };
    return false;
}

static void
merge_start(merge *m)
{
    m->started = true;
    m->live = m->n;
    for (size_t i = 0; i < m->n; i++)
        (void) merge_load(m, &m->feeds[i], (mrd_ev_ns){ INT64_MIN });
    merge_build(m);
}

/* Loads into the processor's cache the event that is first at this leaf's ancestor on level
 * AHEAD_LEVEL of the tree, and the next event of its source. Both are needed soon. An earlier
 * prefetch would be useless, because events of other sources would evict them from the cache. */
static inline void
merge_prefetch(const merge *m, size_t leaf)
{
    size_t level = 63 - (size_t) __builtin_clzll(leaf);
    uint64_t who = m->tree.tag[leaf >> (level - AHEAD_LEVEL)];

    if (who != MERGE_NONE) {
        const char *at = (const char *) m->feeds[who].at;

        for (size_t k = 0; k < 2 * sizeof(mrd_event); k += 64)
            __builtin_prefetch(at + k);
    }
}

/* Replaces the earliest event, which was just used, by the next event of its source. */
static inline __attribute__((always_inline)) void
merge_advance(merge *m)
{
    uint64_t who = m->tree.tag[1];
    feed *f = &m->feeds[who];

    if (__builtin_expect(merge_load(m, f, (mrd_ev_ns){ m->tree.key[1] }), 1)) {
        mrd_ev_ns key = f->at->ts;

        if (mrd_ev_before(key, m->until)) {
            m->tree.key[1] = key.ns;
            return;
        }
        mrd_tournament_set(&m->tree, f->leaf, key.ns, who, merge_tie, m);
        if (m->k > PREFETCH_FROM)
            merge_prefetch(m, f->leaf);
        m->until = (mrd_ev_ns){ INT64_MIN };
        /* the same source is first again, so take events from it until the others' next one */
        if (m->tree.tag[1] == who)
            m->until = (mrd_ev_ns){ mrd_tournament_others(&m->tree, f->leaf) };
    } else if (m->live < m->k / 4) {
        merge_build(m);
    } else {
        m->until = (mrd_ev_ns){ INT64_MIN };
        mrd_tournament_set(&m->tree, f->leaf, INT64_MAX, MERGE_NONE, merge_tie, m);
    }
}

static mrd_step
merge_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    merge *m = (merge *) (void *) self;

    (void) why;
    if (__builtin_expect(m->tree.tag[1] != MERGE_NONE, 1))
        merge_advance(m);
    else if (!m->started)
        merge_start(m);
    if (m->tree.tag[1] == MERGE_NONE)
        return MRD_END;
    *ret_event = m->feeds[m->tree.tag[1]].at;
    return MRD_MORE;
}

/* Returns true if the current source's next event is already in memory and in order. Only then do
 * the events already returned stay valid, because reading or closing a source frees its events. */
static inline bool
merge_has_next(const merge *m)
{
    const feed *f = &m->feeds[m->tree.tag[1]];

    return f->end - f->at > 1 && !mrd_ev_before(f->at[1].ts, f->at->ts);
}

static mrd_step
merge_many(mrd_source *self, const mrd_event **ret_events, size_t room, size_t *ret_n, mrd_why *why)
{
    merge *m = (merge *) (void *) self;
    mrd_step step = merge_next(self, &ret_events[0], why);
    size_t n = 1;

    if (step != MRD_MORE)
        return step;
    for (; n < room && merge_has_next(m); n++) {
        merge_advance(m);
        ret_events[n] = m->feeds[m->tree.tag[1]].at;
    }
    *ret_n = n;
    return MRD_MORE;
}

static void
merge_close(mrd_source *self)
{
    merge *m = (merge *) (void *) self;

    for (size_t i = 0; m->feeds != NULL && i < m->n; i++) {
        if (m->feeds[i].in != NULL)
            m->feeds[i].in->close(m->feeds[i].in);
    }
    free(m->feeds);
    mrd_tournament_fini(&m->tree);
    free(m);
}

static void
merge_close_all(mrd_source **sources, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sources[i]->close(sources[i]);
}

mrd_err
mrd_merge_open(mrd_source **sources, size_t n,
               void (*bad)(void *self, uint64_t key, const mrd_why *why), void *self,
               mrd_source **ret_source, mrd_why *why)
{
    merge *m = n < MERGE_NONE ? calloc(1, sizeof(*m)) : NULL;

    if (m == NULL || (m->feeds = calloc(n + 1, sizeof(*m->feeds))) == NULL ||
        !mrd_tournament_init(&m->tree, n + 1)) {
        merge_close_all(sources, n);
        if (m != NULL)
            merge_close(&m->base);
        return mrd_why_set(why, MRD_NOMEM, 0, "merge of %zu sources", n);
    }
    for (size_t i = 0; i < n; i++)
        m->feeds[i].in = sources[i];
    m->n = n;
    m->tree.tag[1] = MERGE_NONE;
    m->bad = bad;
    m->self = self;
    m->base = (mrd_source){ .next = merge_next, .close = merge_close, .many = merge_many };
    *ret_source = &m->base;
    return MRD_OK;
}

/* ---- Mapping ---- */

typedef struct {
    mrd_source base;
    mrd_source *inner;
    void (*map)(void *self, mrd_event *events, size_t n);
    void *self;
    mrd_run left;
    mrd_event ev;
} mapped;

static mrd_step
map_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    mapped *m = (mapped *) (void *) self;
    const mrd_event *ev;
    mrd_step step;

    if (m->inner->run != NULL)
        return mrd_run_next(self, &m->left, ret_event, why);
    if ((step = m->inner->next(m->inner, &ev, why)) != MRD_MORE)
        return step;
    m->ev = *ev;
    m->map(m->self, &m->ev, 1);
    *ret_event = &m->ev;
    return MRD_MORE;
}

static mrd_step
map_run(mrd_source *self, mrd_event **ret_events, size_t *ret_n, mrd_why *why)
{
    mapped *m = (mapped *) (void *) self;
    mrd_step step = m->inner->run(m->inner, ret_events, ret_n, why);

    if (step == MRD_MORE)
        m->map(m->self, *ret_events, *ret_n);
    return step;
}

static void
map_close(mrd_source *self)
{
    mapped *m = (mapped *) (void *) self;

    m->inner->close(m->inner);
    free(m);
}

mrd_err
mrd_map_open(mrd_source *inner, void (*map)(void *self, mrd_event *events, size_t n), void *self,
             mrd_source **ret_source, mrd_why *why)
{
    mapped *m = calloc(1, sizeof(*m));

    if (m == NULL) {
        inner->close(inner);
        return mrd_why_set(why, MRD_NOMEM, 0, "mapping of times");
    }
    m->base = (mrd_source){ .next = map_next,
                            .close = map_close,
                            .key = inner->key,
                            .run = inner->run == NULL ? NULL : map_run };
    m->inner = inner;
    m->map = map;
    m->self = self;
    *ret_source = &m->base;
    return MRD_OK;
}
