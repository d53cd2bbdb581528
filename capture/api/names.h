/*
 * capture/api/names.h - the process's names: maps a text to an id that is the same in every ring.
 * Internal.
 *
 * Reading is lock-free. Adding takes the process's lock, and returns 0 in a signal handler that
 * interrupted the thread holding it. Names are never removed; there are at most MRD_RING_NAMES_MAX
 * - 1. Memory comes from the system directly, because malloc must not be called in a signal
 * handler.
 */
#ifndef MRD_CAPTURE_API_NAMES_H
#define MRD_CAPTURE_API_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/ring/ring.h"

/* Returns the id of a text, which is cut at MRD_RING_TEXT_MAX bytes; 0 if there is no room. The
 * call is fastest if the text is at the same address as last time. */
uint32_t mrd_names_add(const char *text);
/* Returns the id of a short text that is at the same address as last time, else 0. Adds nothing and
 * calls no function. */
static inline uint32_t mrd_names_seen(const char *text);
/* Returns true if no further name can ever be added. */
bool mrd_names_full(void);
/* Returns the id reserved for "(too many names)", which is the highest. */
uint32_t mrd_names_reserve_fallback(void);
/* Returns the text of an id, NULL if it has none. Valid forever. */
const char *mrd_names_text(uint32_t id, size_t *ret_len);

/* Returns the id of a track. The id is below MRD_RING_TRACKS_MAX, and 0 if there is no room. */
uint32_t mrd_names_add_track(const mrd_ring_track *def, const char *name, size_t len);
const mrd_ring_track *mrd_names_track(uint32_t id, uint32_t *ret_name);

/* ---- what mrd_names_seen reads; private to names.c ---- */

#define MRD_NAMES_PLACES_BITS 9
#define MRD_NAMES_SHORT       16u

typedef struct {
    const char *p; /* ends with NUL */
    uint32_t len, hash;
} mrd_name_entry;
extern __attribute__((visibility("hidden"))) mrd_name_entry mrd_name_entries[MRD_RING_NAMES_MAX];
/* A cache from the address of a text to the id of the name that was at this address last. The text
 * is compared each time, because the memory may hold another text now. */
extern __attribute__((
    visibility("hidden"))) _Atomic uint16_t mrd_name_places[1u << MRD_NAMES_PLACES_BITS];

static inline _Atomic uint16_t *
mrd_name_place(const char *text)
{
    return &mrd_name_places[((uint64_t) (uintptr_t) text * 0x9e3779b97f4a7c15ull) >>
                            (64 - MRD_NAMES_PLACES_BITS)];
}

static inline uint32_t
mrd_names_seen(const char *text)
{
    /* acquire, as the entry must be visible before its slot; pairs with mrd_names_add */
    uint32_t id = atomic_load_explicit(mrd_name_place(text), memory_order_acquire);
    const char *name = mrd_name_entries[id].p;

    if (id == 0 || mrd_name_entries[id].len > MRD_NAMES_SHORT)
        return 0;
    for (; *text == *name; text++, name++) /* byte by byte, because the length is unknown */
        if (*text == '\0')
            return id;
    return 0;
}

#endif
