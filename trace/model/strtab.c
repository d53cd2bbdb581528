#include "trace/model/strtab.h"

#include <stdlib.h>

#include "base/hash.h"

#define STRTAB_CHUNK   (64u << 10)
#define STRTAB_DEFAULT (64u << 20)
#define STRTAB_PLACE   64 /* bytes of an entry's place in the index */

static const char strtab_full[] = "(too many distinct names)";

/* Text lives in chunks that never move; the open-addressing index holds id + 1. */
typedef struct strtab_chunk {
    struct strtab_chunk *next;
    size_t used, size;
    char text[];
} strtab_chunk;

struct mrd_strtab {
    mrd_str *strings;
    uint64_t *hashes;
    size_t count, cap;
    uint32_t *slots;
    size_t slot_mask;
    strtab_chunk *chunks;
    size_t bytes, max_bytes, end; /* end: of what may be added now, at most max_bytes */
    uint64_t seed, refused;
    mrd_buf repaired;
};

mrd_strtab *
mrd_strtab_new(size_t max_bytes)
{
    mrd_strtab *tab = calloc(1, sizeof(*tab));

    if (tab == NULL)
        return NULL;
    tab->max_bytes = tab->end = max_bytes == 0 ? STRTAB_DEFAULT : max_bytes;
    mrd_random(&tab->seed, sizeof(tab->seed)); /* ids depend on arrival only, never on the seed */
    tab->cap = 256;
    tab->slot_mask = 1023;
    tab->strings = calloc(tab->cap, sizeof(*tab->strings));
    tab->hashes = calloc(tab->cap, sizeof(*tab->hashes));
    tab->slots = calloc(tab->slot_mask + 1, sizeof(*tab->slots));
    if (tab->strings == NULL || tab->hashes == NULL || tab->slots == NULL) {
        mrd_strtab_free(tab);
        return NULL;
    }
    tab->strings[MRD_SID_EMPTY] = MRD_STR("");
    tab->strings[MRD_SID_FULL] = MRD_STR(strtab_full);
    tab->count = 2;
    return tab;
}

void
mrd_strtab_free(mrd_strtab *tab)
{
    if (tab == NULL)
        return;
    while (tab->chunks != NULL) {
        strtab_chunk *next = tab->chunks->next;

        free(tab->chunks);
        tab->chunks = next;
    }
    mrd_buf_fini(&tab->repaired);
    free(tab->strings);
    free(tab->hashes);
    free(tab->slots);
    free(tab);
}

/* The slot that holds text, or the free one where it belongs. */
static size_t
strtab_slot(const mrd_strtab *tab, mrd_str text, uint64_t hash)
{
    size_t at = hash & tab->slot_mask;

    for (;; at = (at + 1) & tab->slot_mask) {
        uint32_t id = tab->slots[at];

        if (id == 0 || (tab->hashes[id] == hash && mrd_str_eq(tab->strings[id], text)))
            return at;
    }
}

static bool
strtab_grow(mrd_strtab *tab)
{
    size_t cap = tab->cap * 2, mask = tab->slot_mask * 2 + 1;
    mrd_str *strings;
    uint64_t *hashes;
    uint32_t *slots;

    if (cap > UINT32_MAX)
        return false;
    if ((strings = realloc(tab->strings, cap * sizeof(*strings))) == NULL)
        return false;
    tab->strings = strings;
    if ((hashes = realloc(tab->hashes, cap * sizeof(*hashes))) == NULL)
        return false;
    tab->hashes = hashes;
    if ((slots = calloc(mask + 1, sizeof(*slots))) == NULL)
        return false;
    tab->cap = cap;
    free(tab->slots);
    tab->slots = slots;
    tab->slot_mask = mask;
    for (uint32_t id = 2; id < tab->count; id++)
        tab->slots[strtab_slot(tab, tab->strings[id], tab->hashes[id])] = id;
    return true;
}

/* A NUL-terminated copy that never moves, NULL without memory. */
static char *
strtab_copy(mrd_strtab *tab, mrd_str text)
{
    strtab_chunk *c = tab->chunks;
    char *copy;

    if (c == NULL || c->size - c->used < text.len + 1) {
        size_t size = text.len + 1 > STRTAB_CHUNK ? text.len + 1 : STRTAB_CHUNK;

        if ((c = malloc(sizeof(*c) + size)) == NULL)
            return NULL;
        c->size = size;
        c->used = 0;
        c->next = tab->chunks;
        tab->chunks = c;
    }
    copy = c->text + c->used;
    memcpy(copy, text.p, text.len);
    copy[text.len] = '\0';
    c->used += text.len + 1;
    return copy;
}

/* text with each byte that breaks UTF-8 replaced by U+FFFD. */
static mrd_str
strtab_repair(mrd_strtab *tab, mrd_str text)
{
    size_t bad;

    mrd_buf_reset(&tab->repaired);
    while (!mrd_utf8_valid(text, &bad)) {
        mrd_buf_add(&tab->repaired, text.p, bad);
        mrd_buf_text(&tab->repaired, "\xef\xbf\xbd");
        text = (mrd_str){ text.p + bad + 1, text.len - bad - 1 };
    }
    mrd_buf_str(&tab->repaired, text);
    return (mrd_str){ (const char *) tab->repaired.p, tab->repaired.len };
}

mrd_sid
mrd_strtab_try(mrd_strtab *tab, mrd_str text)
{
    uint64_t hash;
    size_t at;
    char *copy;

    if (text.len == 0)
        return MRD_SID_EMPTY;
    hash = mrd_hash64(text.p, text.len, tab->seed);
    at = strtab_slot(tab, text, hash);
    if (tab->slots[at] != 0)
        return tab->slots[at];
    if (!mrd_utf8_valid(text, NULL))
        return mrd_strtab_try(tab, strtab_repair(tab, text));
    if (tab->bytes + text.len + STRTAB_PLACE > tab->end ||
        (tab->count == tab->cap && !strtab_grow(tab)) || (copy = strtab_copy(tab, text)) == NULL)
        return MRD_SID_FULL;
    tab->bytes += text.len + STRTAB_PLACE;
    at = strtab_slot(tab, text, hash);
    tab->strings[tab->count] = (mrd_str){ copy, text.len };
    tab->hashes[tab->count] = hash;
    tab->slots[at] = (uint32_t) tab->count;
    return (mrd_sid) tab->count++;
}

mrd_sid
mrd_strtab_add(mrd_strtab *tab, mrd_str text)
{
    mrd_sid sid = mrd_strtab_try(tab, text);

    tab->refused += sid == MRD_SID_FULL && !mrd_str_is(text, strtab_full);
    return sid;
}

uint64_t
mrd_strtab_allow(mrd_strtab *tab, size_t bytes)
{
    size_t most = tab->max_bytes;

    if (bytes != MRD_STRTAB_ANY) {
        most -= most > MRD_STRTAB_RESERVE ? MRD_STRTAB_RESERVE : 0;
        most = tab->bytes < most && bytes < most - tab->bytes ? tab->bytes + bytes : most;
    }
    tab->end = most;
    return tab->refused;
}

mrd_sid
mrd_strtab_find(const mrd_strtab *tab, mrd_str text)
{
    return text.len == 0
               ? 0
               : tab->slots[strtab_slot(tab, text, mrd_hash64(text.p, text.len, tab->seed))];
}

mrd_str
mrd_strtab_get(const mrd_strtab *tab, mrd_sid id)
{
    return id < tab->count ? tab->strings[id] : MRD_STR("");
}

size_t
mrd_strtab_count(const mrd_strtab *tab)
{
    return tab->count;
}

uint64_t
mrd_strtab_refused(const mrd_strtab *tab)
{
    return tab->refused;
}
