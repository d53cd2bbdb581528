/*
 * capture/api/memory.h - memory by the scope that allocated it (docs/dev/seeds.md, row C-22). Internal.
 *
 * An allocation belongs to the innermost open annotation of its thread. Only the outermost
 * MRD_RING_OPEN_MAX scopes are searched. Calls of the runtime count among these scopes, but are no
 * annotations. Freeing memory on any thread changes the scope that allocated the memory. Each
 * change is a sample of these counters:
 *
 *     memory.PLACE.current/SCOPE      bytes held now          at each change.
 *     memory.PLACE.peak/SCOPE         maximum ever held       when it grows.
 *     memory.PLACE.allocated/SCOPE    sum of bytes            at each allocation.
 *     memory.PLACE.allocations/SCOPE  number                  at each allocation.
 *
 * freed = allocated - current. PLACE is host or device. SCOPE is the annotation's name,
 * "domain/name" in a domain; a name of more than 159 bytes becomes its first 140 bytes and a hash
 * of all of it. All values count since recording began, not since a session began. The end of a
 * booked allocation is booked also while recording is off, so that `current` stays true.
 * Allocations made while recording was off are not booked, and their ends are ignored.
 *
 * There are at most MRD_MEMORY_SCOPES scopes, then "(further scopes)"; their counters share the
 * rings' dictionaries with all names. At most MRD_MEMORY_LIVE allocations exist at once, and
 * further ones are counted as untracked. Memory comes from the system, by pages, at the first
 * allocation, and reads as empty in a child of fork. Not for signal handlers: one that interrupts
 * the bookkeeping of its own thread books nothing (untracked).
 *
 * Threads: any. One lock is held for a few stores and the samples, so that the last sample is the
 * last value.
 */
#ifndef MRD_CAPTURE_API_MEMORY_H
#define MRD_CAPTURE_API_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define MRD_MEMORY_SCOPES 64u
#define MRD_MEMORY_LIVE   (1u << 20)

typedef enum { MRD_MEMORY_HOST, MRD_MEMORY_DEVICE } mrd_memory_place;
/* The owner of an allocation. Allocations of different owners may have the same number. */
typedef enum { MRD_MEMORY_PROGRAM, MRD_MEMORY_TENSOR } mrd_memory_of;

/* Books an allocation. `what` is an address or a handle, unique among the live ones of its owner.
 * If `what` is already booked, it is freed first. Does nothing while annotations or profile_memory
 * are off. */
void mrd_memory_add(mrd_memory_place place, mrd_memory_of of, uint64_t what, uint64_t bytes);
/* Books the end of an allocation. Ignores an unknown allocation. Call it before the memory is
 * returned, because afterwards another thread may get the same address. */
void mrd_memory_remove(mrd_memory_of of, uint64_t what);
/* Books the end of all allocations of that owner at the same time, and records one sample for each
 * scope. */
void mrd_memory_remove_all(mrd_memory_of of);

/* Sets profile_memory: whether memory by scope and the program's counters with the unit bytes are
 * recorded. */
void mrd_memory_want(bool on);
bool mrd_memory_wanted(void);

typedef struct {
    uint32_t name; /* id for mrd_names_text; 0 if no scope was open */
    uint32_t domain;
    mrd_memory_place place;
    uint64_t current, peak, allocated, freed, count;
} mrd_memory_scope;

/* Calls fn for each scope that ever allocated. All values are from the same moment. fn must not
 * allocate, because it is called under the lock that annotations of a signal handler wait for. */
void mrd_memory_each(void (*fn)(void *ctx, const mrd_memory_scope *scope), void *ctx);
/* Returns the number of allocations that no scope counts, because there were too many or because
 * they came from a signal handler. */
uint64_t mrd_memory_untracked(void);
/* Sets all values to zero, except that the bytes held now count as allocated now. */
void mrd_memory_reset(void);

#endif
