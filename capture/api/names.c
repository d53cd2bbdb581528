#include "capture/api/names.h"

#include <stdatomic.h>
#include <string.h>

#include "capture/process.h"

#define SLOTS (MRD_RING_NAMES_MAX * 2)
static_assert(MRD_RING_NAMES_MAX - 1 <= UINT16_MAX, "ids of names in 16 bits");

/* A hash table with the ids of names. Its pages use no memory until they are first written. */
static _Atomic uint32_t slots[SLOTS];
mrd_name_entry mrd_name_entries[MRD_RING_NAMES_MAX];
_Atomic uint16_t mrd_name_places[1u << MRD_NAMES_PLACES_BITS];
static uint32_t name_count;

static struct {
    mrd_ring_track def;
    uint32_t name;
} tracks[MRD_RING_TRACKS_MAX];
static _Atomic uint32_t track_count;

static char *arena;
static size_t arena_left;

static uint64_t
word_at(const char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

static uint64_t
half_at(const char *p)
{
    uint32_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

/* Returns up to eight bytes as a number, without a loop. Two different texts of the same length
 * give different numbers. */
static inline uint64_t
short_word(const char *p, size_t len)
{
    if (len >= 4)
        return half_at(p) << 32 | half_at(p + len - 4);
    return len == 0 ? 0
                    : (uint64_t) (unsigned char) p[0] << 16 |
                          (uint64_t) (unsigned char) p[len / 2] << 8 |
                          (uint64_t) (unsigned char) p[len - 1];
}

/* Hashes eight bytes at a time. The last eight may overlap the previous ones. The hash need not
 * resist attacks, because the program itself chooses the names. */
static uint32_t
hash_text(const char *p, size_t len)
{
    uint64_t h = 0x9e3779b97f4a7c15ull ^ len;

    for (size_t i = 0; i + 8 < len; i += 8) {
        h = (h ^ word_at(p + i)) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    h = (h ^ (len > 8 ? word_at(p + len - 8) : short_word(p, len))) * 0xff51afd7ed558ccdull;
    return (uint32_t) (h ^ h >> 32);
}

/* Returns true if the entry has this text. It does not call memcmp, because names are short. */
static inline bool
same_text(const mrd_name_entry *entry, const char *text, size_t len)
{
    if (entry->len != len)
        return false;
    if (len <= 8)
        return short_word(entry->p, len) == short_word(text, len);
    for (size_t i = 0; i + 8 < len; i += 8)
        if (word_at(entry->p + i) != word_at(text + i))
            return false;
    return word_at(entry->p + len - 8) == word_at(text + len - 8);
}

/* Returns the id of a name. If the name is unknown, returns 0 and stores the free slot for it. The
 * acquire order makes the entry visible before its slot, and pairs with name_insert. */
static uint32_t
name_find(const char *text, size_t len, uint32_t hash, uint32_t *ret_slot)
{
    uint32_t i = hash % SLOTS, id;

    while ((id = atomic_load_explicit(&slots[i], memory_order_acquire)) != 0) {
        const mrd_name_entry *entry = &mrd_name_entries[id];

        if (entry->hash == hash && same_text(entry, text, len))
            return id;
        i = (i + 1) % SLOTS;
    }
    *ret_slot = i;
    return 0;
}

bool
mrd_names_full(void)
{
    return __atomic_load_n(&name_count, __ATOMIC_RELAXED) + 2 >= MRD_RING_NAMES_MAX;
}

static char *
arena_copy(const char *text, size_t len)
{
    char *p;

    if (len + 1 > arena_left) {
        size_t want = 65536;

        if ((p = mrd_proc_map(want, false)) == NULL)
            return NULL;
        arena = p;
        arena_left = want;
    }
    p = arena;
    memcpy(p, text, len);
    p[len] = '\0';
    arena += len + 1;
    arena_left -= len + 1;
    return p;
}

static uint32_t
name_insert(const char *text, size_t len, uint32_t hash, uint32_t slot)
{
    uint32_t id;
    char *copy;

    if (mrd_names_full() || (copy = arena_copy(text, len)) == NULL)
        return 0;
    id = name_count + 1;
    __atomic_store_n(&name_count, id,
                     /* The number of ids is stored before the slot. A fork in between then only
                      * wastes an id. */
                     __ATOMIC_RELAXED);
    mrd_name_entries[id] = (mrd_name_entry){ copy, (uint32_t) len, hash };
    atomic_store_explicit(&slots[slot], id, memory_order_release);
    return id;
}

static uint32_t
add(const char *text, size_t len)
{
    uint32_t hash, slot = 0, id;

    if (len > MRD_RING_TEXT_MAX)
        len = MRD_RING_TEXT_MAX;
    hash = hash_text(text, len);
    if ((id = name_find(text, len, hash, &slot)) != 0)
        return id;
    if (!mrd_proc_lock())
        return 0;
    if ((id = name_find(text, len, hash, &slot)) == 0)
        id = name_insert(text, len, hash, slot);
    mrd_proc_unlock();
    return id;
}

uint32_t
mrd_names_add(const char *text)
{
    _Atomic uint16_t *place = mrd_name_place(text);
    /* The acquire order makes the name's entry visible to a thread that sees its id. It pairs with
     * the release store below. */
    uint32_t id = atomic_load_explicit(place, memory_order_acquire);
    size_t len = strlen(text);

    if (__builtin_expect(id != 0 && same_text(&mrd_name_entries[id], text, len), 1))
        return id;
    if ((id = add(text, len)) != 0)
        atomic_store_explicit(place, (uint16_t) id, memory_order_release);
    return id;
}

uint32_t
mrd_names_reserve_fallback(void)
{
    uint32_t id = MRD_RING_NAMES_MAX - 1; /* name_insert never reaches this id */

    mrd_name_entries[id] = (mrd_name_entry){ "(too many names)", 16, 0 };
    return id;
}

const char *
mrd_names_text(uint32_t id, size_t *ret_len)
{
    if (id == 0 || id >= MRD_RING_NAMES_MAX || mrd_name_entries[id].p == NULL)
        return NULL;
    *ret_len = mrd_name_entries[id].len;
    return mrd_name_entries[id].p;
}

static bool
same_track(uint32_t id, const mrd_ring_track *def, uint32_t name)
{
    return tracks[id].name == name && memcmp(&tracks[id].def, def, sizeof(*def)) == 0;
}

uint32_t
mrd_names_add_track(const mrd_ring_track *def, const char *name, size_t len)
{
    uint32_t name_id = add(name, len), id = 0, n;

    if (name_id == 0 || !mrd_proc_lock())
        return 0;
    n = atomic_load_explicit(&track_count, memory_order_relaxed);
    for (uint32_t i = 1; i <= n && id == 0; i++)
        if (same_track(i, def, name_id))
            id = i;
    if (id == 0 && n + 1 < MRD_RING_TRACKS_MAX) {
        id = n + 1;
        tracks[id].def = *def;
        tracks[id].name = name_id;
        atomic_store_explicit(&track_count, id, memory_order_release);
    }
    mrd_proc_unlock();
    return id;
}

const mrd_ring_track *
mrd_names_track(uint32_t id, uint32_t *ret_name)
{
    if (id == 0 || id > atomic_load_explicit(&track_count, memory_order_acquire))
        return NULL;
    *ret_name = tracks[id].name;
    return &tracks[id].def;
}
