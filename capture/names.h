/*
 * capture/names.h - names of the process: text to id, the same id in every ring. Internal.
 *
 * Reading is lock-free; adding takes the process's lock, and is refused (0) to a signal handler
 * that interrupted the thread holding it. Nothing is ever removed; at most MRD_RING_NAMES_MAX - 1
 * names. Memory comes from the system directly: no malloc in somebody's signal handler.
 */
#ifndef MRD_CAPTURE_NAMES_H
#define MRD_CAPTURE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/ring.h"

/* The id of a text (cut at MRD_RING_TEXT_MAX), 0 without room. Fastest for a text that lies where it
 * lay last time. */
uint32_t mrd_names_add(const char *text);
/* The id kept for "(too many names)". */
uint32_t mrd_names_reserve_fallback(void);
/* The text of an id; NULL when there is none. Stays valid for ever. */
const char *mrd_names_text(uint32_t id, size_t *ret_len);

/* Tracks likewise; ids below MRD_RING_TRACKS_MAX, 0 without room. */
uint32_t mrd_names_add_track(const mrd_ring_track *def, const char *name, size_t len);
const mrd_ring_track *mrd_names_track(uint32_t id, uint32_t *ret_name);

#endif
