#include "trace/analysis/types.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/index.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

/* Statistics of the events with one name in one row. A row is one line of the summary, such as a
 * core. */
typedef struct {
    uint32_t row;
    mrd_type type;
} type_entry;

/* An event that waits in the batch to be counted, reduced to the fields that this needs. */
typedef struct {
    uint32_t row;
    mrd_sid name;
    mrd_dur_ns dur_ns;
    uint8_t kind, flags;
} type_event;

struct mrd_types {
    size_t rows;
    type_entry *entries;
    size_t n_entries, cap_entries;
    mrd_index by_key;
    uint64_t seed;
    type_event batch[MRD_TYPES_BATCH];
    size_t n_batch;
    bool paged;      /* at least one histogram has allocated pages */
    uint32_t *order; /* indices of entries, grouped by row; created by mrd_types_finish */
    size_t *starts;  /* row r has the entries order[starts[r]] to order[starts[r + 1] - 1] */
};

mrd_types *
mrd_types_new(size_t rows)
{
    mrd_types *types = calloc(1, sizeof(*types));

    if (types == NULL)
        return NULL;
    types->rows = rows;
    types->seed = mrd_hash_seed();
    if ((types->starts = calloc(rows + 1, sizeof(*types->starts))) == NULL) {
        mrd_types_free(types);
        return NULL;
    }
    return types;
}

void
mrd_types_free(mrd_types *types)
{
    if (types == NULL)
        return;
    for (size_t i = 0; i < types->n_entries; i++)
        mrd_hist_fini(&types->entries[i].type.hist);
    free(types->entries);
    mrd_index_fini(&types->by_key);
    free(types->order);
    free(types->starts);
    free(types);
}

/* ---- Entries ---- */

static void
entry_prefetch(const mrd_types *types, uint32_t at)
{
    for (size_t k = 0; k < sizeof(type_entry); k += 64)
        __builtin_prefetch((const char *) &types->entries[at] + k, 1);
}

/* Mixes the key by a multiplication, which is enough because its parts are small consecutive
 * numbers. */
static uint64_t
key_hash(const mrd_types *types, uint32_t row, mrd_sid name, uint8_t kind)
{
    uint64_t key = ((uint64_t) row << 32 | name) ^ (uint64_t) kind << 56;
    unsigned __int128 m = (unsigned __int128) (key ^ types->seed) * 0x9e3779b97f4a7c15u;

    return (uint64_t) m ^ (uint64_t) (m >> 64);
}

static bool
is_key(const void *self, uint32_t item, const void *key)
{
    const type_entry *entry = &((const mrd_types *) self)->entries[item];
    const type_event *ev = key;

    return entry->row == ev->row && entry->type.name == ev->name && entry->type.kind == ev->kind;
}

/* Match function that is used to prefetch an entry. It accepts the first entry with an equal hash,
 * without comparing the key. This is nearly always the right entry. Prefetching a wrong entry only
 * costs time. */
static bool
is_likely(const void *self, uint32_t item, const void *key)
{
    (void) self;
    (void) item;
    (void) key;
    return true;
}

static mrd_type
type_empty(mrd_sid name, uint8_t kind)
{
    return (mrd_type){ .name = name, .kind = kind, .min_ns = INT64_MAX, .max_ns = INT64_MIN };
}

static mrd_err
entry_for(mrd_types *types, type_event *ev, uint64_t hash, mrd_type **ret)
{
    uint32_t at = mrd_index_find(&types->by_key, hash, is_key, types, ev);
    mrd_err err;

    if (at == MRD_INDEX_NONE && ev->name != MRD_SID_FULL &&
        types->n_entries >= MRD_TYPES_MOST + types->rows * MRD_TYPES_ROW) {
        ev->name = MRD_SID_FULL;
        hash = key_hash(types, ev->row, ev->name, ev->kind);
        at = mrd_index_find(&types->by_key, hash, is_key, types, ev);
    }
    if (at == MRD_INDEX_NONE) {
        if (!MRD_VEC_ROOM(types->entries, types->n_entries, types->cap_entries, 1))
            return MRD_NOMEM;
        at = (uint32_t) types->n_entries;
        if ((err = mrd_index_add(&types->by_key, hash, at)) != MRD_OK)
            return err;
        types->entries[types->n_entries++] =
            (type_entry){ ev->row, type_empty(ev->name, ev->kind) };
    }
    *ret = &types->entries[at].type;
    return MRD_OK;
}

static mrd_err
type_count(mrd_type *type, const type_event *ev)
{
    type->count++;
    if (ev->kind != MRD_SPAN)
        return MRD_OK;
    if (ev->flags & MRD_EV_NO_START) {
        type->no_start++;
        return MRD_OK;
    }
    if (ev->dur_ns < 0) {
        type->unfinished++;
        return MRD_OK;
    }
    type->total_ns = mrd_sat_count(type->total_ns, (uint64_t) ev->dur_ns);
    type->min_ns = ev->dur_ns < type->min_ns ? ev->dur_ns : type->min_ns;
    type->max_ns = ev->dur_ns > type->max_ns ? ev->dur_ns : type->max_ns;
    return mrd_hist_add(&type->hist, (uint64_t) ev->dur_ns);
}

/* ---- Batches ---- */

static mrd_err
batch_count(mrd_types *types)
{
    uint64_t hashes[MRD_TYPES_BATCH];
    uint32_t at[MRD_TYPES_BATCH];
    size_t count = types->n_batch;
    mrd_err err = MRD_OK;

    types->n_batch = 0;
    for (size_t i = 0; i < count; i++) {
        hashes[i] =
            key_hash(types, types->batch[i].row, types->batch[i].name, types->batch[i].kind);
        mrd_index_prefetch(&types->by_key, hashes[i]);
    }
    for (size_t i = 0; i < count; i++) {
        at[i] = mrd_index_find(&types->by_key, hashes[i], is_likely, NULL, NULL);
        if (at[i] != MRD_INDEX_NONE)
            entry_prefetch(types, at[i]);
    }
    for (size_t i = 0; i < count && types->paged; i++) {
        if (at[i] != MRD_INDEX_NONE && types->batch[i].dur_ns >= 0)
            mrd_hist_prefetch(&types->entries[at[i]].type.hist, (uint64_t) types->batch[i].dur_ns);
    }
    for (size_t i = 0; i < count && err == MRD_OK; i++) {
        mrd_type *type;

        if ((err = entry_for(types, &types->batch[i], hashes[i], &type)) == MRD_OK)
            err = type_count(type, &types->batch[i]);
        types->paged = types->paged || (err == MRD_OK && type->hist.pages != NULL);
    }
    return err;
}

mrd_err
mrd_types_add(mrd_types *types, uint32_t row, const mrd_event *ev)
{
    types->batch[types->n_batch++] = (type_event){
        .row = row, .name = ev->name, .dur_ns = ev->dur_ns, .kind = ev->kind, .flags = ev->flags
    };
    return types->n_batch < MRD_TYPES_BATCH ? MRD_OK : batch_count(types);
}

/* ---- Results ---- */

mrd_err
mrd_types_finish(mrd_types *types)
{
    mrd_err err = batch_count(types);

    if (err != MRD_OK)
        return err;
    if ((types->order = malloc((types->n_entries + 1) * sizeof(*types->order))) == NULL)
        return MRD_NOMEM;
    /* Counting sort: starts[r] first becomes the end of row r. Filling in the entries from the last
     * to the first then moves each end back to the start of its row. */
    for (size_t i = 0; i < types->n_entries; i++)
        types->starts[types->entries[i].row]++;
    for (size_t r = 1; r <= types->rows; r++)
        types->starts[r] += types->starts[r - 1];
    for (size_t i = types->n_entries; i > 0; i--)
        types->order[--types->starts[types->entries[i - 1].row]] = (uint32_t) i - 1;
    return MRD_OK;
}

bool
mrd_types_any(const mrd_types *types, size_t from, size_t to)
{
    return types->starts[to] > types->starts[from];
}

/* The merged types. by_key finds them by name and kind. */
typedef struct {
    mrd_type *types;
    size_t n, cap;
    mrd_index by_key;
} merged;

static bool
is_type(const void *self, uint32_t item, const void *key)
{
    const mrd_type *have = &((const merged *) self)->types[item], *type = key;

    return have->name == type->name && have->kind == type->kind;
}

static mrd_err
type_merge(mrd_type *to, const mrd_type *from)
{
    to->count += from->count;
    to->unfinished += from->unfinished;
    to->no_start += from->no_start;
    to->total_ns = mrd_sat_count(to->total_ns, from->total_ns);
    to->min_ns = from->min_ns < to->min_ns ? from->min_ns : to->min_ns;
    to->max_ns = from->max_ns > to->max_ns ? from->max_ns : to->max_ns;
    return mrd_hist_merge(&to->hist, &from->hist);
}

static mrd_err
merged_new(merged *m, const mrd_type *type)
{
    if (!MRD_VEC_ROOM(m->types, m->n, m->cap, 1))
        return MRD_NOMEM;
    m->types[m->n++] = type_empty(type->name, type->kind);
    return type_merge(&m->types[m->n - 1], type);
}

/* Lists the types of one row. Each name occurs once in a row, so no index is needed. */
static mrd_err
row_list(const mrd_types *types, size_t row, merged *m)
{
    size_t from = types->starts[row], n = types->starts[row + 1] - from;

    if (!MRD_VEC_ROOM(m->types, 0, m->cap, n))
        return MRD_NOMEM;
    for (; m->n < n; m->n++) {
        m->types[m->n] = types->entries[types->order[from + m->n]].type;
        m->types[m->n].borrowed = true;
    }
    return MRD_OK;
}

static mrd_err
merged_add(merged *m, const mrd_type *type, uint64_t hash)
{
    uint32_t at = mrd_index_find(&m->by_key, hash, is_type, m, type);
    mrd_err err;

    if (at != MRD_INDEX_NONE)
        return type_merge(&m->types[at], type);
    if ((err = mrd_index_add(&m->by_key, hash, (uint32_t) m->n)) != MRD_OK)
        return err;
    return merged_new(m, type);
}

mrd_err
mrd_types_merged(const mrd_types *types, size_t from, size_t to, mrd_type **ret_types,
                 size_t *ret_n)
{
    size_t end = types->starts[to];
    merged m = { 0 };
    mrd_err err = MRD_OK;

    if (to - from == 1) {
        err = row_list(types, from, &m);
        end = 0;
    }
    for (size_t i = types->starts[from]; i < end && err == MRD_OK; i++) {
        const mrd_type *type = &types->entries[types->order[i]].type;

        if (i + 8 < end)
            entry_prefetch(types, types->order[i + 8]);
        err = merged_add(&m, type, key_hash(types, 0, type->name, type->kind));
    }
    mrd_index_fini(&m.by_key);
    if (err != MRD_OK) {
        mrd_types_merged_free(m.types, m.n);
        return err;
    }
    *ret_types = m.types;
    *ret_n = m.n;
    return MRD_OK;
}

void
mrd_types_merged_free(mrd_type *types, size_t n)
{
    for (size_t i = 0; i < n && types != NULL; i++) {
        if (!types[i].borrowed)
            mrd_hist_fini(&types[i].hist);
    }
    free(types);
}
