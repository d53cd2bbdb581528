/*
 * capture/memory.h - memory by the scope that allocated it (docs/seeds.md, row C-22). Internal.
 *
 * An allocation belongs to the innermost annotation that its thread has open, of the outermost
 * MRD_RING_OPEN_MAX (calls of the runtime take places among these, but are no annotations); its end is booked
 * there too, whichever thread frees it. Each change is a sample of the counters
 *
 *     memory.PLACE.current/SCOPE      bytes held now          at each change
 *     memory.PLACE.peak/SCOPE         the most ever held      when it grows
 *     memory.PLACE.allocated/SCOPE    bytes, all together     at each allocation
 *     memory.PLACE.allocations/SCOPE  how many                at each allocation
 *
 * freed = allocated - current. PLACE is host or device, SCOPE the annotation's name, "domain/name" in a
 * domain; of more than 159 bytes the first 140, and a hash of all. All are since recording began, not since
 * a session did. Ends of what was booked are booked also while nothing records, so that `current` stays true;
 * what was allocated while nothing recorded is not known, and its end says nothing.
 *
 * At most MRD_MEMORY_SCOPES scopes (their counters share the rings' dictionaries with all names), then
 * "(further scopes)"; at most MRD_MEMORY_LIVE allocations at one time, further ones are counted as untracked.
 * Memory comes from the system, by pages, when the first allocation is booked; all of it reads as empty in a
 * fork's child. Not from signal handlers: one that interrupts the bookkeeping of its own thread books nothing
 * (untracked).
 *
 * Threads: any; one lock, held for a few stores and the samples, so that the last sample is the last value.
 */
#ifndef MRD_CAPTURE_MEMORY_H
#define MRD_CAPTURE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define MRD_MEMORY_SCOPES 64u
#define MRD_MEMORY_LIVE   (1u << 20)

typedef enum { MRD_MEMORY_HOST, MRD_MEMORY_DEVICE } mrd_memory_place;
/* Whose numbers they are: those of the program and those of the runtime's tensors may be equal. */
typedef enum { MRD_MEMORY_PROGRAM, MRD_MEMORY_TENSOR } mrd_memory_of;

/* `what` is an address or a handle, unique among those of its owner that are not freed. One that is
 * known already is freed first. While annotations or profile_memory are off: nothing. */
void mrd_memory_add(mrd_memory_place place, mrd_memory_of of, uint64_t what, uint64_t bytes);
/* Nothing where it is not known. Before the memory is given back: else it may be somebody's already. */
void mrd_memory_remove(mrd_memory_of of, uint64_t what);
/* All that is known of that owner is freed at one moment: one sample of each account. */
void mrd_memory_remove_all(mrd_memory_of of);

/* profile_memory: whether counters in bytes are recorded, those of scopes and those of the program. */
void mrd_memory_want(bool on);
bool mrd_memory_wanted(void);

typedef struct {
    uint32_t name; /* of mrd_names_text; 0: no scope was open */
    uint32_t domain;
    mrd_memory_place place;
    uint64_t current, peak, allocated, freed, count;
} mrd_memory_scope;

/* Calls fn for each scope that ever allocated, as all were at one moment. fn must not allocate:
 * it is called under the lock that the annotations of a signal handler wait for. */
void mrd_memory_each(void (*fn)(void *ctx, const mrd_memory_scope *scope), void *ctx);
/* Allocations that are in no scope's account, as they were too many or came from a signal handler. */
uint64_t mrd_memory_untracked(void);
/* What is held counts as allocated now; the rest begins at zero. */
void mrd_memory_reset(void);

#endif
