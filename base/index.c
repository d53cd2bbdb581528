#include "base/index.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_PLACES 16

void
mrd_index_fini(mrd_index *index)
{
    free(index->places);
    *index = (mrd_index){ 0 };
}

void
mrd_index_clear(mrd_index *index)
{
    if (index->used > 0)
        memset(index->places, 0, (index->mask + 1) * sizeof(*index->places));
    index->used = 0;
}

static void
place_item(mrd_index *index, mrd_index_place place)
{
    size_t at = place.hash & index->mask;

    while (index->places[at].item != 0)
        at = (at + 1) & index->mask;
    index->places[at] = place;
}

static mrd_err
grow(mrd_index *index)
{
    size_t n = index->places == NULL ? FIRST_PLACES : (index->mask + 1) * 2;
    mrd_index bigger = { calloc(n, sizeof(*bigger.places)), n - 1, index->used };

    if (bigger.places == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; index->places != NULL && i <= index->mask; i++) {
        if (index->places[i].item != 0)
            place_item(&bigger, index->places[i]);
    }
    free(index->places);
    *index = bigger;
    return MRD_OK;
}

mrd_err
mrd_index_add(mrd_index *index, uint64_t hash, uint32_t item)
{
    mrd_err err;

    if (item >= MRD_INDEX_ITEMS)
        return MRD_LIMIT;
    if ((index->places == NULL || (index->used + 1) * 2 > index->mask + 1) &&
        (err = grow(index)) != MRD_OK)
        return err;
    place_item(index, (mrd_index_place){ mrd_index_fold(hash), item + 1 });
    index->used++;
    return MRD_OK;
}

/* Returns the position of an item in the table, or SIZE_MAX if the index does not have the item. */
static size_t
place_of(const mrd_index *index, uint64_t hash, uint32_t item)
{
    size_t at = mrd_index_fold(hash) & index->mask;

    if (index->used == 0)
        return SIZE_MAX;
    while (index->places[at].item != item + 1 && index->places[at].item != 0)
        at = (at + 1) & index->mask;
    return index->places[at].item == 0 ? SIZE_MAX : at;
}

void
mrd_index_move(mrd_index *index, uint64_t hash, uint32_t from, uint32_t to)
{
    size_t at = place_of(index, hash, from);

    if (at != SIZE_MAX)
        index->places[at].item = to + 1;
}

void
mrd_index_remove(mrd_index *index, uint64_t hash, uint32_t item)
{
    size_t hole = place_of(index, hash, item), at;

    if (hole == SIZE_MAX)
        return;
    index->used--;
    /* Move later entries of the same probe sequence into the hole, so that no deletion marks are
     * needed. */
    for (at = (hole + 1) & index->mask; index->places[at].item != 0; at = (at + 1) & index->mask) {
        size_t home = index->places[at].hash & index->mask;

        if (((at - home) & index->mask) >= ((at - hole) & index->mask)) {
            index->places[hole] = index->places[at];
            hole = at;
        }
    }
    index->places[hole] = (mrd_index_place){ 0 };
}
