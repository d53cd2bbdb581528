/*
 * capture/names.h - names of the process: text to id, the same id in every ring. Internal.
 *
 * Reading is lock-free; adding takes the process's lock, and is refused (0) to a signal handler
 * that interrupted the thread holding it. Nothing is ever removed; at most MRD_RING_NAMES_MAX - 1
 * names. Memory comes from the system directly: no malloc in somebody's signal handler.
 */
#ifndef MRD_CAPTURE_NAMES_H
#define MRD_CAPTURE_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/ring.h"

/* The id of a text (cut at MRD_RING_TEXT_MAX), 0 without room. Fastest for a text that lies where it
 * lay last time. */
uint32_t mrd_names_add(const char *text);
/* The id of a short text that lies where it lay last time, else 0: nothing is added, no function is called. */
static inline uint32_t mrd_names_seen(const char *text);
/* Whether no further name can be added, ever. */
bool mrd_names_full(void);
/* The id kept for "(too many names)": the highest. */
uint32_t mrd_names_reserve_fallback(void);
/* The text of an id; NULL when there is none. Stays valid for ever. */
const char *mrd_names_text(uint32_t id, size_t *ret_len);

/* Tracks likewise; ids below MRD_RING_TRACKS_MAX, 0 without room. */
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
/* By address: which name lay there last. What lies there now decides; names never change. */
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
    /* acquire: the entry before its place; pairs with mrd_names_add */
    uint32_t id = atomic_load_explicit(mrd_name_place(text), memory_order_acquire);
    const char *name = mrd_name_entries[id].p;

    if (id == 0 || mrd_name_entries[id].len > MRD_NAMES_SHORT)
        return 0;
    for (; *text == *name; text++, name++) /* byte by byte: nobody knows where it ends */
        if (*text == '\0')
            return id;
    return 0;
}

#endif
