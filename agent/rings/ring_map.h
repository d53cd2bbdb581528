/*
 * agent/rings/ring_map.h - lets a reader read a ring in place, through a mapping of another user's
 * file
 *
 * The owner of a ring can truncate its file at any time. An access after the end is then a SIGBUS
 * in the agent. The first mapping installs a handler for this signal. The handler replaces the
 * missing page by a page of zeros and marks the mapping as cut. The ring's reader then returns
 * MRD_RING_BAD. Any other SIGBUS goes to the previous handler.
 *
 * In four cases a ring is not mapped, and its reader copies records from the file:
 *
 *   - The file is not in a tmpfs. Other file systems can have disk errors or huge pages, or can be
 *     controlled by a user.
 *   - The ring is in memory and has no file.
 *   - The mappings would exceed MRD_RING_MAP_MAX bytes.
 *   - The kernel has no mappings left.
 *
 * Threads  A ring is mapped, read and unmapped on one thread. The handler checks only the mappings
 *          of its own thread.
 */
#ifndef MRD_AGENT_RINGS_RING_MAP_H
#define MRD_AGENT_RINGS_RING_MAP_H

#include <signal.h>

#include "capture/ring/ring_read.h"

/* Limit in bytes of all mappings of this process. Pages that were read count as resident memory
 * (RssShmem) of this process until mrd_ring_map_rest is called. They are charged to the cgroup of
 * the ring's owner. */
#define MRD_RING_MAP_MAX (256u << 20)

typedef struct mrd_ring_map {
    uint8_t *p; /* the mapping; NULL means not mapped */
    size_t len;
    volatile sig_atomic_t cut;
    struct mrd_ring_map *next;
} mrd_ring_map;

/* Maps the ring, if possible, so that the reader reads it in place. The caller must zero `map`
 * first. */
void mrd_ring_map_open(mrd_ring_map *map, mrd_ring_reader *reader);
/* Releases the ring's pages from this process's memory until the next read. Call it when the ring
 * has no new records. */
void mrd_ring_map_rest(mrd_ring_map *map);
/* Unmaps the ring. Call it after mrd_ring_close, because the mapping keeps the file's lock. */
void mrd_ring_map_close(mrd_ring_map *map);

#endif
