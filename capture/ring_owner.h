/*
 * capture/ring_owner.h - does the process that made a ring still exist? Answers come from /proc.
 *
 * Threads  an owner belongs to its reader's thread.
 */
#ifndef MRD_CAPTURE_RING_OWNER_H
#define MRD_CAPTURE_RING_OWNER_H

#include "base/clock.h"
#include "capture/ring_types.h"

typedef struct {
    const char *proc_dir; /* borrowed */
    int32_t pid;          /* as the owner sees itself */
    uint64_t start_ticks;
    mrd_dur_ns start_ahead_ns; /* of its time namespace: what start_ticks is more than we see */
    uint64_t pid_ns;
    uint64_t inode;
    const char *file_name; /* the ring's, without folder; borrowed */
    int32_t host_pid;      /* found: pid in our namespace; 0 not yet */
} mrd_ring_owner_id;

/* With `maps` also asks whether the process still maps the file, which an exec ends. */
mrd_owner mrd_ring_owner_check(mrd_ring_owner_id *id, bool maps);

/* How far the clocks of this process are ahead of the machine's, 0 without a time namespace of its own. */
void mrd_ring_timens(int64_t *ret_monotonic_ns, int64_t *ret_boottime_ns);

/* Boot id of this machine; false when it cannot be read. */
bool mrd_ring_boot_id(const char *proc_dir, uint8_t ret_boot_id[16]);

#endif
