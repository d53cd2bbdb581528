#include "trace/analysis/scope_memory.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/index.h"
#include "base/num.h"
#include "base/vec.h"

typedef enum { CURRENT, PEAK, ALLOCATED, ALLOCATIONS, WHATS } what_kind;

typedef struct {
    mrd_scope_memory_row out;
    uint64_t highest; /* largest value that the counter `current` had, in bytes */
    bool any;
} scope_row;

typedef struct {
    /* index in `rows` plus 1; 0 if the track is not a counter of memory by scope */
    uint32_t row;
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

/* If `str` begins with `head`, removes `head` from it and returns true. */
static bool
behind(mrd_str *str, const char *head)
{
    size_t n = strlen(head);

    if (str->len < n || memcmp(str->p, head, n) != 0)
        return false;
    *str = (mrd_str){ str->p + n, str->len - n };
    return true;
}

/* Splits a counter's name "memory.PLACE.WHAT/SCOPE" into *row and *ret_what. Returns false for
 * other names. */
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
    for (what_kind kind = CURRENT; kind < WHATS; kind++)
        if (behind(&name, whats[kind])) {
            row->scope = name;
            *ret_what = kind;
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

/* Returns the index of the scope's row plus 1. Adds the row if needed. 0 if out of memory. */
static uint32_t
row_of(mrd_scope_memory *memory, mrd_index *by_scope, const mrd_scope_memory_row *want)
{
    uint64_t hash = mrd_hash64(want->place.p, want->place.len, mrd_hash_seed() ^ want->process);
    uint32_t at;

    hash = mrd_hash64(want->scope.p, want->scope.len, hash);
    if ((at = mrd_index_find(by_scope, hash, is_row, memory, want)) != MRD_INDEX_NONE)
        return at + 1;
    if (!MRD_VEC_ROOM(memory->rows, memory->n_rows, memory->cap_rows, 1) ||
        mrd_index_add(by_scope, hash, (uint32_t) memory->n_rows) != MRD_OK)
        return 0;
    memory->rows[memory->n_rows++] = (scope_row){ .out = *want };
    return (uint32_t) memory->n_rows;
}

mrd_scope_memory *
mrd_scope_memory_new(const mrd_sink_env *env)
{
    mrd_scope_memory *memory = calloc(1, sizeof(*memory));
    mrd_index by_scope = { 0 };
    bool ok = true;

    if (memory == NULL)
        return NULL;
    memory->cat = env->catalog;
    memory->n_tracks = mrd_catalog_tracks(env->catalog);
    if ((memory->tracks = calloc(memory->n_tracks + 1, sizeof(*memory->tracks))) == NULL) {
        mrd_scope_memory_free(memory);
        return NULL;
    }
    for (mrd_track_id id = 0; id < memory->n_tracks && ok; id++) {
        const mrd_track *track = mrd_catalog_borrow_track(env->catalog, id);
        mrd_scope_memory_row row = { .process = track->process };

        if (track->kind != MRD_TRACK_COUNTER || track->source != MRD_SRC_ANNOTATION ||
            mrd_catalog_profile_of(env->catalog, id) != env->profile ||
            !parse(mrd_catalog_text(env->catalog, track->name), &row, &memory->tracks[id].what))
            continue;
        ok = (memory->tracks[id].row = row_of(memory, &by_scope, &row)) != 0;
    }
    mrd_index_fini(&by_scope);
    if (ok)
        return memory;
    mrd_scope_memory_free(memory);
    return NULL;
}

void
mrd_scope_memory_free(mrd_scope_memory *memory)
{
    if (memory == NULL)
        return;
    free(memory->rows);
    free(memory->tracks);
    free(memory->list);
    free(memory);
}

static uint64_t
value_of(const mrd_event *ev)
{
    if ((ev->flags & MRD_EV_INT) == 0)
        return ev->value > 0 && ev->value < 0x1p63 ? (uint64_t) ev->value : 0;
    return (ev->flags & MRD_EV_UNSIGNED) != 0 || ev->ivalue > 0 ? (uint64_t) ev->ivalue : 0;
}

void
mrd_scope_memory_add(mrd_scope_memory *memory, const mrd_event *ev)
{
    const scope_track *track;
    scope_row *row;

    if (ev->kind != MRD_COUNTER || !mrd_scope_memory_has(memory, ev->track))
        return;
    track = &memory->tracks[ev->track];
    row = &memory->rows[track->row - 1];
    row->any = true;
    switch (track->what) {
    case CURRENT:
        row->out.current = value_of(ev);
        row->highest = row->out.current > row->highest ? row->out.current : row->highest;
        break;
    case PEAK:
        row->out.peak = value_of(ev);
        break;
    case ALLOCATED:
        row->out.allocated = value_of(ev);
        break;
    case ALLOCATIONS:
        row->out.count = value_of(ev);
        break;
    case WHATS:
        break;
    }
}

bool
mrd_scope_memory_has(const mrd_scope_memory *memory, mrd_track_id track)
{
    return track < memory->n_tracks && memory->tracks[track].row != 0;
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
mrd_scope_memory_rows(mrd_scope_memory *memory, size_t *ret_n)
{
    size_t count = 0;

    *ret_n = 0;
    free(memory->list);
    if ((memory->list = calloc(memory->n_rows + 1, sizeof(*memory->list))) == NULL)
        return NULL;
    for (size_t i = 0; i < memory->n_rows; i++) {
        mrd_scope_memory_row *to = &memory->list[count];

        if (!memory->rows[i].any)
            continue;
        *to = memory->rows[i].out;
        to->peak = to->peak > memory->rows[i].highest ? to->peak : memory->rows[i].highest;
        to->freed = to->allocated > to->current ? to->allocated - to->current : 0;
        count++;
    }
    qsort_r(memory->list, count, sizeof(*memory->list), order, (void *) (uintptr_t) memory->cat);
    *ret_n = count;
    return memory->list;
}
