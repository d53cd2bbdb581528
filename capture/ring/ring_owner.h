/*
 * capture/ring/ring_owner.h - checks in /proc whether the process that made a ring still exists.
 *
 * Threads  an owner belongs to its reader's thread.
 */
#ifndef MRD_CAPTURE_RING_RING_OWNER_H
#define MRD_CAPTURE_RING_RING_OWNER_H

#include "base/clock.h"
#include "capture/ring/ring_types.h"

typedef struct {
    const char *proc_dir; /* borrowed */
    int32_t pid;          /* pid in the owner's own pid namespace */
    uint64_t start_ticks;
    /* Add this to the process's start time in the reader's /proc to get start_ticks. It is not 0 if
     * the owner has another time namespace. */
    mrd_dur_ns start_ahead_ns;
    uint64_t pid_ns;
    uint64_t inode;
    const char *file_name; /* the ring's file name, without directory; borrowed */
    /* the owner's pid in the pid namespace of this process; 0 means not found yet */
    int32_t host_pid;
} mrd_ring_owner_id;

/* Checks whether the process exists. With `maps`, also checks that the process still maps the ring,
 * because an exec ends the mapping. */
mrd_owner mrd_ring_owner_check(mrd_ring_owner_id *id, bool maps);

/* Stores by how much the clocks of this process are ahead of the machine's clocks. Stores 0 if the
 * process has no time namespace of its own. */
void mrd_ring_timens(int64_t *ret_monotonic_ns, int64_t *ret_boottime_ns);

/* Gets the boot id of this machine. Returns false if it cannot be read. */
bool mrd_ring_boot_id(const char *proc_dir, uint8_t ret_boot_id[16]);

#endif
