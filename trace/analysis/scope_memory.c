#include "trace/analysis/scope_memory.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/index.h"
#include "base/num.h"
#include "base/vec.h"

typedef enum { CURRENT, PEAK, ALLOCATED, ALLOCATIONS, WHATS } what_kind;

typedef struct {
    mrd_scope_memory_row out;
    uint64_t highest; /* largest `current` in a sample */
    bool any;
} scope_row;

typedef struct {
    uint32_t row; /* row + 1; 0 for another counter */
    what_kind what;
} scope_track;

struct mrd_scope_memory {
    const mrd_catalog *cat;
    scope_row *rows;
    size_t n_rows, cap_rows;
    scope_track *tracks;
    size_t n_tracks;
    mrd_scope_memory_row *list;
};

/* If s begins with `head`, removes it and returns true. */
static bool
behind(mrd_str *s, const char *head)
{
    size_t n = strlen(head);

    if (s->len < n || memcmp(s->p, head, n) != 0)
        return false;
    *s = (mrd_str){ s->p + n, s->len - n };
    return true;
}

/* Parses "memory.PLACE.WHAT/SCOPE". */
static bool
parse(mrd_str name, mrd_scope_memory_row *row, what_kind *ret_what)
{
    static const char *const whats[WHATS] = { "current/", "peak/", "allocated/", "allocations/" };

    if (!behind(&name, "memory."))
        return false;
    if (behind(&name, "host."))
        row->place = MRD_STR("host");
    else if (behind(&name, "device."))
        row->place = MRD_STR("device");
    else
        return false;
    for (what_kind k = CURRENT; k < WHATS; k++)
        if (behind(&name, whats[k])) {
            row->scope = name;
            *ret_what = k;
            return true;
        }
    return false;
}

static bool
same_str(mrd_str a, mrd_str b)
{
    return a.len == b.len && memcmp(a.p, b.p, a.len) == 0;
}

static bool
is_row(const void *self, uint32_t item, const void *key)
{
    const mrd_scope_memory_row *have = &((const mrd_scope_memory *) self)->rows[item].out,
                               *want = key;

    return have->process == want->process && same_str(have->place, want->place) &&
           same_str(have->scope, want->scope);
}

/* Returns the index of the scope's row + 1; 0 if out of memory. */
static uint32_t
row_of(mrd_scope_memory *m, mrd_index *by_scope, const mrd_scope_memory_row *want)
{
    uint64_t hash = mrd_hash64(want->place.p, want->place.len, mrd_hash_seed() ^ want->process);
    uint32_t at;

    hash = mrd_hash64(want->scope.p, want->scope.len, hash);
    if ((at = mrd_index_find(by_scope, hash, is_row, m, want)) != MRD_INDEX_NONE)
        return at + 1;
    if (!MRD_VEC_ROOM(m->rows, m->n_rows, m->cap_rows, 1) ||
        mrd_index_add(by_scope, hash, (uint32_t) m->n_rows) != MRD_OK)
        return 0;
    m->rows[m->n_rows++] = (scope_row){ .out = *want };
    return (uint32_t) m->n_rows;
}

mrd_scope_memory *
mrd_scope_memory_new(const mrd_sink_env *env)
{
    mrd_scope_memory *m = calloc(1, sizeof(*m));
    mrd_index by_scope = { 0 };
    bool ok = true;

    if (m == NULL)
        return NULL;
    m->cat = env->catalog;
    m->n_tracks = mrd_catalog_tracks(env->catalog);
    if ((m->tracks = calloc(m->n_tracks + 1, sizeof(*m->tracks))) == NULL) {
        mrd_scope_memory_free(m);
        return NULL;
    }
    for (mrd_track_id i = 0; i < m->n_tracks && ok; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(env->catalog, i);
        mrd_scope_memory_row row = { .process = t->process };

        if (t->kind != MRD_TRACK_COUNTER || t->source != MRD_SRC_ANNOTATION ||
            mrd_catalog_profile_of(env->catalog, i) != env->profile ||
            !parse(mrd_catalog_text(env->catalog, t->name), &row, &m->tracks[i].what))
            continue;
        ok = (m->tracks[i].row = row_of(m, &by_scope, &row)) != 0;
    }
    mrd_index_fini(&by_scope);
    if (ok)
        return m;
    mrd_scope_memory_free(m);
    return NULL;
}

void
mrd_scope_memory_free(mrd_scope_memory *m)
{
    if (m == NULL)
        return;
    free(m->rows);
    free(m->tracks);
    free(m->list);
    free(m);
}

static uint64_t
value_of(const mrd_event *ev)
{
    if ((ev->flags & MRD_EV_INT) == 0)
        return ev->value > 0 && ev->value < 0x1p63 ? (uint64_t) ev->value : 0;
    return (ev->flags & MRD_EV_UNSIGNED) != 0 || ev->ivalue > 0 ? (uint64_t) ev->ivalue : 0;
}

void
mrd_scope_memory_add(mrd_scope_memory *m, const mrd_event *ev)
{
    const scope_track *t;
    scope_row *r;

    if (ev->kind != MRD_COUNTER || !mrd_scope_memory_has(m, ev->track))
        return;
    t = &m->tracks[ev->track];
    r = &m->rows[t->row - 1];
    r->any = true;
    switch (t->what) {
    case CURRENT:
        r->out.current = value_of(ev);
        r->highest = r->out.current > r->highest ? r->out.current : r->highest;
        break;
    case PEAK:
        r->out.peak = value_of(ev);
        break;
    case ALLOCATED:
        r->out.allocated = value_of(ev);
        break;
    case ALLOCATIONS:
        r->out.count = value_of(ev);
        break;
    case WHATS:
        break;
    }
}

bool
mrd_scope_memory_has(const mrd_scope_memory *m, mrd_track_id track)
{
    return track < m->n_tracks && m->tracks[track].row != 0;
}

static int
order_str(mrd_str a, mrd_str b)
{
    int c = memcmp(a.p, b.p, a.len < b.len ? a.len : b.len);

    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

static int
order(const void *pa, const void *pb, void *self)
{
    const mrd_scope_memory_row *a = pa, *b = pb;
    int c = a->process == b->process ? 0 : mrd_catalog_process_order(self, a->process, b->process);

    if (c != 0)
        return c;
    if ((c = order_str(a->place, b->place)) != 0)
        return c;
    if (a->peak != b->peak)
        return a->peak > b->peak ? -1 : 1;
    return order_str(a->scope, b->scope);
}

const mrd_scope_memory_row *
mrd_scope_memory_rows(mrd_scope_memory *m, size_t *ret_n)
{
    size_t n = 0;

    *ret_n = 0;
    free(m->list);
    if ((m->list = calloc(m->n_rows + 1, sizeof(*m->list))) == NULL)
        return NULL;
    for (size_t i = 0; i < m->n_rows; i++) {
        mrd_scope_memory_row *to = &m->list[n];

        if (!m->rows[i].any)
            continue;
        *to = m->rows[i].out;
        to->peak = to->peak > m->rows[i].highest ? to->peak : m->rows[i].highest;
        to->freed = to->allocated > to->current ? to->allocated - to->current : 0;
        n++;
    }
    qsort_r(m->list, n, sizeof(*m->list), order, (void *) (uintptr_t) m->cat);
    *ret_n = n;
    return m->list;
}
