/*
 * agent/ring_map.h - rings that are read where they lie: mappings of files of other users.
 *
 * The owner of a ring can shorten its file at any time, and a look behind the end is then a SIGBUS
 * in the agent. The first mapping installs a handler for it that puts a page of zeros in the place
 * of the missing one and marks the mapping as cut, so that the reader calls the ring BAD; any other
 * SIGBUS goes where it went before.
 *
 * A ring stays unmapped, and its reader copies it out of the file, when its file is not in a tmpfs
 * (a disk's errors, a file system in a user's hands, huge pages), when it is in memory, beyond
 * MRD_RING_MAP_MAX bytes of mappings, or when the kernel has no mapping left.
 *
 * Threads  a ring is mapped, read and unmapped in one thread: the handler looks at its thread's
 *          mappings only.
 */
#ifndef MRD_AGENT_RING_MAP_H
#define MRD_AGENT_RING_MAP_H

#include <signal.h>

#include "capture/ring_read.h"

/* Of all mappings of the process. Pages that were read count as its resident memory (RssShmem)
 * until mrd_ring_map_rest; they are charged to the cgroup of the ring's owner. */
#define MRD_RING_MAP_MAX (256u << 20)

typedef struct mrd_ring_map {
    uint8_t *p; /* NULL: the ring is not mapped */
    size_t len;
    volatile sig_atomic_t cut;
    struct mrd_ring_map *next;
} mrd_ring_map;

/* Makes the reader read in place, or leaves it as it is. `map` is zeroed before. */
void mrd_ring_map_open(mrd_ring_map *map, mrd_ring_reader *reader);
/* The ring is silent: its pages are no longer this process's memory until they are read again. */
void mrd_ring_map_rest(mrd_ring_map *map);
/* Behind mrd_ring_close: the file's lock ends with the mapping. */
void mrd_ring_map_close(mrd_ring_map *map);

#endif
