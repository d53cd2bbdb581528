#include "trace/merge.h"

#include <stdlib.h>

#include "base/obj.h"
#include "trace/heap4.h"

/* Of a heap node: key is the time of the source's event, a its index into in and head. Only equal
 * times look at the events. */
#define MERGE_NONE UINT32_MAX
/* Events of fewer streams stay in the cache by themselves. */
#define PREFETCH_FROM 32

typedef struct {
    mrd_source base;
    mrd_source **in; /* NULL once closed */
    const mrd_event **head;
    mrd_heap4 heap;
    size_t n;
    bool started;
    void (*bad)(void *self, uint64_t key, const mrd_why *why);
    void *self;
    mrd_why why; /* empty between two calls */
} merge;

/* MERGE_NONE comes after everything. */
static bool
merge_less_at_equal_time(const merge *m, uint32_t a, uint32_t b)
{
    int order;

    if (a == MERGE_NONE || b == MERGE_NONE)
        return a < b;
    if ((order = mrd_event_order(m->head[a], m->head[b])) != 0)
        return order < 0;
    if (m->in[a]->key != m->in[b]->key)
        return m->in[a]->key < m->in[b]->key;
    return a < b;
}

static inline bool
merge_less(const merge *m, mrd_heap4_node a, mrd_heap4_node b)
{
    if (__builtin_expect(a.key != b.key, 1))
        return a.key < b.key;
    return merge_less_at_equal_time(m, a.a, b.a);
}

static size_t
merge_least_with_ties(const merge *m, size_t first)
{
    size_t best = first;

    for (size_t c = first + 1; c < first + 4; c++) {
        if (merge_less(m, m->heap.v[c], m->heap.v[best]))
            best = c;
    }
    return best;
}

static inline size_t
merge_least(const merge *m, size_t first)
{
    bool tie;
    size_t best = first + mrd_heap4_least(m->heap.v + first, &tie);

    return __builtin_expect(tie, 0) ? merge_least_with_ties(m, first) : best;
}

static void
merge_sift_down(merge *m, size_t at)
{
    mrd_heap4_node *v = m->heap.v, moving = v[at];

    for (;;) {
        size_t child = at * 4 + 1, least;

        if (child >= m->heap.n)
            break;
        least = merge_least(m, child);
        if (!merge_less(m, v[least], moving))
            break;
        v[at] = v[least];
        at = least;
    }
    v[at] = moving;
}

static void
merge_drop(merge *m, uint32_t at, const mrd_why *why)
{
    if (why != NULL && m->bad != NULL)
        m->bad(m->self, m->in[at]->key, why);
    m->in[at]->close(m->in[at]);
    m->in[at] = NULL;
}

/* Loads the next event of source `at` into head; false when the source is gone. */
static bool
merge_load(merge *m, uint32_t at, int64_t not_before_ns)
{
    mrd_step step = m->in[at]->next(m->in[at], &m->head[at], &m->why);

    if (__builtin_expect(step == MRD_MORE && m->head[at]->ts_ns >= not_before_ns, 1))
        return true;
    if (step == MRD_MORE)
        mrd_why_set(&m->why, MRD_CORRUPT, 0, "steps back in time from %lld ns to %lld ns",
                    (long long) not_before_ns, (long long) m->head[at]->ts_ns);
    merge_drop(m, at, step == MRD_END ? NULL : &m->why);
    m->why = (mrd_why){ 0 };
    return false;
}

static void
merge_start(merge *m)
{
    m->started = true;
    for (uint32_t i = 0; i < m->n; i++) {
        if (merge_load(m, i, INT64_MIN))
            m->heap.v[m->heap.n++] = (mrd_heap4_node){ m->head[i]->ts_ns, i, 0 };
    }
    for (size_t i = (m->heap.n + 2) / 4; i-- > 0;)
        merge_sift_down(m, i);
}

/* Replaces the top by its source's next event. */
static void
merge_advance(merge *m)
{
    mrd_heap4_node *top = &m->heap.v[0];

    if (merge_load(m, top->a, top->key)) {
        top->key = m->head[top->a]->ts_ns;
    } else {
        *top = m->heap.v[--m->heap.n];
        m->heap.v[m->heap.n] = MRD_HEAP4_NONE;
    }
    if (m->heap.n > 1)
        merge_sift_down(m, 0);
}

/* What follows will most likely come from the least child of the top: have it at hand then. */
static inline void
merge_prefetch(const merge *m)
{
    uint32_t at = m->heap.v[merge_least(m, 1)].a;

    if (at == MERGE_NONE)
        return;
    __builtin_prefetch(m->head[at]);
    __builtin_prefetch((const char *) m->head[at] + 64);
    __builtin_prefetch(m->in[at]);
}

static mrd_step
merge_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    merge *m = (merge *) (void *) self;

    (void) why;
    if (!m->started)
        merge_start(m);
    else if (m->heap.n > 0)
        merge_advance(m);
    if (m->heap.n == 0)
        return MRD_END;
    if (m->heap.n > PREFETCH_FROM)
        merge_prefetch(m);
    *ret_event = m->head[m->heap.v[0].a];
    return MRD_MORE;
}

static void
merge_close(mrd_source *self)
{
    merge *m = (merge *) (void *) self;

    for (size_t i = 0; m->in != NULL && i < m->n; i++) {
        if (m->in[i] != NULL)
            m->in[i]->close(m->in[i]);
    }
    free(m->in);
    free(m->head);
    mrd_heap4_fini(&m->heap);
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
    merge *m = calloc(1, sizeof(*m));

    if (m == NULL || n >= MERGE_NONE || (m->in = malloc((n + 1) * sizeof(*m->in))) == NULL ||
        (m->head = malloc((n + 1) * sizeof(*m->head))) == NULL ||
        !mrd_heap4_reserve(&m->heap, n + 1)) {
        merge_close_all(sources, n);
        if (m != NULL)
            merge_close(&m->base);
        return mrd_why_set(why, MRD_NOMEM, 0, "merge of %zu sources", n);
    }
    if (n > 0)
        memcpy(m->in, sources, n * sizeof(*sources));
    m->n = n;
    m->bad = bad;
    m->self = self;
    m->base = (mrd_source){ merge_next, merge_close, 0 };
    *ret_source = &m->base;
    return MRD_OK;
}

typedef struct {
    mrd_source base;
    mrd_source *inner;
    void (*map)(void *self, mrd_event *ev);
    void *self;
    mrd_event ev;
} mapped;

static mrd_step
map_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    mapped *m = (mapped *) (void *) self;
    const mrd_event *ev;
    mrd_step step = m->inner->next(m->inner, &ev, why);

    if (step != MRD_MORE)
        return step;
    m->ev = *ev;
    m->map(m->self, &m->ev);
    *ret_event = &m->ev;
    return MRD_MORE;
}

static void
map_close(mrd_source *self)
{
    mapped *m = (mapped *) (void *) self;

    m->inner->close(m->inner);
    free(m);
}

mrd_err
mrd_map_open(mrd_source *inner, void (*map)(void *self, mrd_event *ev), void *self,
             mrd_source **ret_source, mrd_why *why)
{
    mapped *m = calloc(1, sizeof(*m));

    if (m == NULL) {
        inner->close(inner);
        return mrd_why_set(why, MRD_NOMEM, 0, "mapping of times");
    }
    *m = (mapped){
        .base = { map_next, map_close, inner->key }, .inner = inner, .map = map, .self = self
    };
    *ret_source = &m->base;
    return MRD_OK;
}
