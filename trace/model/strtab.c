#include "trace/model/strtab.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/index.h"
#include "base/vec.h"

#define STRTAB_CHUNK   (64u << 10)
#define STRTAB_DEFAULT (64u << 20)
#define STRTAB_FIRST   256
#define STRTAB_PLACE   64 /* estimated size of an index entry in bytes */

static const char strtab_full[] = "(too many distinct names)";

/* A chunk of memory for texts. It never moves, because mrd_strtab_get() returns pointers into
 * it. */
typedef struct strtab_chunk {
    struct strtab_chunk *next;
    size_t used, size;
    char text[];
} strtab_chunk;

struct mrd_strtab {
    mrd_str *strings;
    size_t count, cap;
    mrd_index index;
    strtab_chunk *chunks;
    /* bytes in use, final limit, and current limit (`end`, which is at most max_bytes) */
    size_t bytes, max_bytes, end;
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
    /* A random seed makes hashes unpredictable. It does not affect ids, which follow the order of
     * additions. */
    mrd_random(&tab->seed, sizeof(tab->seed));
    if (!MRD_VEC_ROOM(tab->strings, 0, tab->cap, STRTAB_FIRST)) {
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
    mrd_index_fini(&tab->index);
    free(tab);
}

static bool
strtab_same(const void *self, uint32_t id, const void *text)
{
    const mrd_strtab *tab = self;
    const mrd_str *want = text;

    return mrd_str_eq(tab->strings[id], *want);
}

static inline uint32_t
strtab_id(const mrd_strtab *tab, mrd_str text, uint64_t hash)
{
    return mrd_index_find(&tab->index, hash, strtab_same, tab, &text);
}

/* Copies the text into a chunk and appends a NUL. Returns NULL if out of memory. */
static char *
strtab_copy(mrd_strtab *tab, mrd_str text)
{
    strtab_chunk *chunk = tab->chunks;
    char *copy;

    if (chunk == NULL || chunk->size - chunk->used < text.len + 1) {
        size_t size = text.len + 1 > STRTAB_CHUNK ? text.len + 1 : STRTAB_CHUNK;

        if ((chunk = malloc(sizeof(*chunk) + size)) == NULL)
            return NULL;
        chunk->size = size;
        chunk->used = 0;
        chunk->next = tab->chunks;
        tab->chunks = chunk;
    }
    copy = chunk->text + chunk->used;
    memcpy(copy, text.p, text.len);
    copy[text.len] = '\0';
    chunk->used += text.len + 1;
    return copy;
}

/* Returns the text with U+FFFD for each byte that is not UTF-8. */
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
    uint32_t id;
    char *copy;

    if (text.len == 0)
        return MRD_SID_EMPTY;
    hash = mrd_hash64(text.p, text.len, tab->seed);
    if ((id = strtab_id(tab, text, hash)) != MRD_INDEX_NONE)
        return id;
    if (!mrd_utf8_valid(text, NULL))
        return mrd_strtab_try(tab, strtab_repair(tab, text));
    if (tab->bytes + text.len + STRTAB_PLACE > tab->end ||
        !MRD_VEC_ROOM_MAX(tab->strings, tab->count, tab->cap, 1, MRD_INDEX_ITEMS) ||
        (copy = strtab_copy(tab, text)) == NULL ||
        mrd_index_add(&tab->index, hash, (uint32_t) tab->count) != MRD_OK)
        return MRD_SID_FULL;
    tab->bytes += text.len + STRTAB_PLACE;
    tab->strings[tab->count] = (mrd_str){ copy, text.len };
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
    uint32_t id = strtab_id(tab, text, mrd_hash64(text.p, text.len, tab->seed));

    return id == MRD_INDEX_NONE ? 0 : id; /* if not found, returns 0, which is the id of "" */
}

mrd_str
mrd_strtab_get(const mrd_strtab *tab, mrd_sid id)
{
    return id < tab->count ? tab->strings[id] : MRD_STR("");
}

size_t
mrd_strtab_memory(const mrd_strtab *tab)
{
    return sizeof(*tab) + tab->bytes + (tab->chunks == NULL ? 0 : tab->chunks->size);
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
