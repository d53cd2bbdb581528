/*
 * agent/rings/ring_map.h - reads rings in place, through mappings of files of other users
 *
 * The owner of a ring can truncate its file at any time. An access after the end is then a SIGBUS
 * in the agent. The first mapping installs a signal handler for it. The handler replaces the
 * missing page by a page of zeros and marks the mapping as cut, so that the reader reports the ring
 * as BAD. Any other SIGBUS goes to the previous handler.
 *
 * In four cases a ring is not mapped, and its reader copies it from the file. The file is not
 * in a tmpfs (because of disk errors, user-controlled file systems, huge pages), the ring is in
 * memory, the mappings exceed MRD_RING_MAP_MAX bytes, or the kernel has no mappings left.
 *
 * Threads  a ring is mapped, read and unmapped on one thread. The handler checks only the mappings
 *          of its thread.
 */
#ifndef MRD_AGENT_RINGS_RING_MAP_H
#define MRD_AGENT_RINGS_RING_MAP_H

#include <signal.h>

#include "capture/ring/ring_read.h"

/* Limit of all mappings of the process. Pages that were read count as its resident memory
 * (RssShmem) until mrd_ring_map_rest. They are charged to the cgroup of the ring's owner. */
#define MRD_RING_MAP_MAX (256u << 20)

typedef struct mrd_ring_map {
    uint8_t *p; /* NULL means not mapped */
    size_t len;
    volatile sig_atomic_t cut;
    struct mrd_ring_map *next;
} mrd_ring_map;

/* Makes the reader read in place, if possible. The caller zeroes `map` first. */
void mrd_ring_map_open(mrd_ring_map *map, mrd_ring_reader *reader);
/* Call it when the ring has no new records. Releases its pages from this process's memory until the
 * next read. */
void mrd_ring_map_rest(mrd_ring_map *map);
/* Call it after mrd_ring_close, because the mapping keeps the file's lock. */
void mrd_ring_map_close(mrd_ring_map *map);

#endif
