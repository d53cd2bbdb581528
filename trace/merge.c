#include "trace/merge.h"

#include <stdlib.h>

#include "base/obj.h"

#define MERGE_NONE  UINT32_MAX       /* instead of a source: comes after everything */
#define MERGE_EMPTY (UINT32_MAX - 1) /* a place of the tree before its first contest */
/* Events of fewer streams stay in the cache by themselves. */
#define PREFETCH_FROM 32

/* A source and what is left of its last run; at is its head. */
typedef struct {
    const mrd_event *at, *end;
    mrd_source *in; /* NULL once closed */
    uint32_t leaf;
} feed;

/* The head of a source while it competes. Only equal keys look at the events. */
typedef struct {
    int64_t key; /* its time */
    uint32_t a;  /* index of the feed */
} entrant;

/*
 * A tree of losers: each inner place holds who lost the contest there, the winner of all is `top`.
 * The leaves k .. 2k-1 are implied. A new head is contested along the way from its leaf to the
 * root, which does not depend on the outcomes: no branch of it is hard to predict.
 */
typedef struct {
    mrd_source base;
    feed *feeds;
    entrant *tree; /* 1 .. k-1 */
    entrant top;
    int64_t until; /* heads of top's source before this win without a contest */
    size_t n, k, live;
    bool started;
    void (*bad)(void *self, uint64_t key, const mrd_why *why);
    void *self;
    mrd_why why; /* empty between two calls */
} merge;

static bool
merge_less_at_equal_time(const merge *m, uint32_t a, uint32_t b)
{
    int order;

    if (a >= MERGE_EMPTY || b >= MERGE_EMPTY)
        return a < b;
    if ((order = mrd_event_order(m->feeds[a].at, m->feeds[b].at)) != 0)
        return order < 0;
    if (m->feeds[a].in->key != m->feeds[b].in->key)
        return m->feeds[a].in->key < m->feeds[b].in->key;
    return a < b;
}

/* ---- The tree ---- */

/* The contests of a new head, whose leaf this is. */
static inline void
merge_contest(merge *m, entrant new, size_t leaf)
{
    uint32_t before = m->top.a;

    for (size_t at = leaf / 2; at > 0; at /= 2) {
        entrant there = m->tree[at];
        bool less = there.key < new.key;
        uint32_t change;

        if (__builtin_expect(there.key == new.key, 0))
            less = merge_less_at_equal_time(m, there.a, new.a);
        /* Least, greatest and a mask: compilers make no branches of that. */
        m->tree[at].key = there.key > new.key ? there.key : new.key;
        new.key = there.key < new.key ? there.key : new.key;
        change = (there.a ^ new.a) & (0 - (uint32_t) less);
        m->tree[at].a = there.a ^ change;
        new.a ^= change;
    }
    m->top = new;
    m->until = INT64_MIN;
    if (new.a != before)
        return;
    m->until = INT64_MAX; /* it wins again: perhaps a burst */
    for (size_t at = leaf / 2; at > 0; at /= 2)
        m->until = m->tree[at].key < m->until ? m->tree[at].key : m->until;
}

/* A tree of the sources that are left. */
static void
merge_build(merge *m)
{
    size_t leaf = m->k = m->live;

    m->top = (entrant){ INT64_MAX, MERGE_NONE };
    m->until = INT64_MIN;
    for (size_t at = 1; at < m->k; at++)
        m->tree[at].a = MERGE_EMPTY;
    for (uint32_t i = 0; i < m->n; i++) {
        entrant new = { 0, i };
        size_t at;

        if (m->feeds[i].in == NULL)
            continue;
        new.key = m->feeds[i].at->ts_ns;
        m->feeds[i].leaf = (uint32_t) leaf++;
        for (at = m->feeds[i].leaf / 2; at > 0 && m->tree[at].a != MERGE_EMPTY; at /= 2) {
            entrant there = m->tree[at];

            if (there.key < new.key ||
                (there.key == new.key &&merge_less_at_equal_time(m, there.a, new.a))) {
                m->tree[at] = new;
                new = there;
            }
        }
        if (at > 0)
            m->tree[at] = new;
        else
            m->top = new;
    }
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
        step = f->in->next(f->in, &f->at, why);
        f->end = f->at + 1;
        return step;
    }
    if ((step = f->in->run(f->in, &run, &n, why)) == MRD_MORE) {
        f->at = run;
        f->end = run + n;
    }
    return step;
}

/* Goes to the next event of a source; false when the source is gone. */
static inline bool
merge_load(merge *m, feed *f, int64_t not_before_ns)
{
    mrd_step step = MRD_MORE;

    if (f->end - f->at > 1)
        f->at++;
    else
        step = feed_fill(f, &m->why);
    if (__builtin_expect(step == MRD_MORE && f->at->ts_ns >= not_before_ns, 1))
        return true;
    if (step == MRD_MORE)
        mrd_why_set(&m->why, MRD_CORRUPT, 0, "steps back in time from %lld ns to %lld ns",
                    (long long) not_before_ns, (long long) f->at->ts_ns);
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
        (void) merge_load(m, &m->feeds[i], INT64_MIN);
    merge_build(m);
}

/* Replaces the top by its source's next event. */
static inline void
merge_advance(merge *m)
{
    entrant new = m->top;
    feed *f = &m->feeds[new.a];

    if (__builtin_expect(merge_load(m, f, new.key), 1)) {
        new.key = f->at->ts_ns;
        if (m->k > PREFETCH_FROM) { /* for its next turn */
            __builtin_prefetch(f->at + 1);
            __builtin_prefetch((const char *) (f->at + 1) + 64);
        }
        if (new.key < m->until)
            m->top.key = new.key;
        else
            merge_contest(m, new, f->leaf);
    } else if (m->live < m->k / 4) {
        merge_build(m);
    } else {
        merge_contest(m, (entrant){ INT64_MAX, MERGE_NONE }, f->leaf);
    }
}

static mrd_step
merge_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    merge *m = (merge *) (void *) self;

    (void) why;
    if (__builtin_expect(m->top.a < MERGE_EMPTY, 1))
        merge_advance(m);
    else if (!m->started)
        merge_start(m);
    if (m->top.a == MERGE_NONE)
        return MRD_END;
    *ret_event = m->feeds[m->top.a].at;
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
    free(m->tree);
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
    merge *m = n < MERGE_EMPTY ? calloc(1, sizeof(*m)) : NULL;

    if (m == NULL || (m->feeds = calloc(n + 1, sizeof(*m->feeds))) == NULL ||
        (m->tree = malloc((n + 1) * sizeof(*m->tree))) == NULL) {
        merge_close_all(sources, n);
        if (m != NULL)
            merge_close(&m->base);
        return mrd_why_set(why, MRD_NOMEM, 0, "merge of %zu sources", n);
    }
    for (size_t i = 0; i < n; i++)
        m->feeds[i].in = sources[i];
    m->n = n;
    m->top.a = MERGE_NONE;
    m->bad = bad;
    m->self = self;
    m->base = (mrd_source){ .next = merge_next, .close = merge_close };
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
