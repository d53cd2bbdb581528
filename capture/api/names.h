/*
 * capture/api/names.h - the process's names: maps a text to an id that is the same in every ring.
 * Internal.
 *
 * Reading is lock-free. Adding a name takes the process's lock. In a signal handler that
 * interrupted the holder of this lock, adding returns 0. Names are never removed. A process has at
 * most MRD_RING_NAMES_MAX - 1 names. Memory comes from the system directly, because malloc must not
 * be called in a signal handler.
 */
#ifndef MRD_CAPTURE_API_NAMES_H
#define MRD_CAPTURE_API_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/ring/ring.h"

/* Returns the id of a text and adds the text if it is new. Texts are cut at MRD_RING_TEXT_MAX
 * bytes. Returns 0 if there is no room. The call is fastest if the text is at the same address as
 * in an earlier call. */
uint32_t mrd_names_add(const char *text);
/* Returns the id of a short text if it was at the same address in an earlier call, else 0. Adds
 * nothing and calls no function. */
static inline uint32_t mrd_names_seen(const char *text);
/* Returns true if no further name can ever be added. */
bool mrd_names_full(void);
/* Reserves the highest id for the name "(too many names)" and returns this id. */
uint32_t mrd_names_reserve_fallback(void);
/* Returns the text of an id, or NULL if the id has no text. The text is valid until the process
 * ends. */
const char *mrd_names_text(uint32_t id, size_t *ret_len);

/* Adds a track and returns its id, which is below MRD_RING_TRACKS_MAX. Returns 0 if there is no
 * room. */
uint32_t mrd_names_add_track(const mrd_ring_track *def, const char *name, size_t len);
const mrd_ring_track *mrd_names_track(uint32_t id, uint32_t *ret_name);

/* ---- data that the inline mrd_names_seen reads; private to names.c ---- */

#define MRD_NAMES_PLACES_BITS 9
#define MRD_NAMES_SHORT       16u

typedef struct {
    const char *p; /* the text, which ends with NUL */
    uint32_t len, hash;
} mrd_name_entry;
extern __attribute__((visibility("hidden"))) mrd_name_entry mrd_name_entries[MRD_RING_NAMES_MAX];
/* A cache that maps the address of a text to the id of the name that was last at this address. Each
 * lookup compares the text, because the memory may hold another text now. */
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
    /* acquire order, so that an entry is visible before its id; pairs with mrd_names_add */
    uint32_t id = atomic_load_explicit(mrd_name_place(text), memory_order_acquire);
    const char *name = mrd_name_entries[id].p;

    if (id == 0 || mrd_name_entries[id].len > MRD_NAMES_SHORT)
        return 0;
    /* compares byte by byte, because the length of `text` is unknown */
    for (; *text == *name; text++, name++)
        if (*text == '\0')
            return id;
    return 0;
}

#endif
