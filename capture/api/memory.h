/*
 * capture/api/memory.h - counts memory for each scope that allocated it (feature C-22 of
 * docs/dev/seeds.md). Internal.
 *
 * An allocation belongs to the innermost open annotation of its thread. Only the outermost
 * MRD_RING_OPEN_MAX scopes are searched. Recorded calls of the Neuron runtime count towards this
 * limit, but memory is never attributed to them. A free on any thread is subtracted from the scope
 * that allocated the memory. Each change writes samples of these counters:
 *
 *     memory.PLACE.current/SCOPE      bytes held now          at each change.
 *     memory.PLACE.peak/SCOPE         maximum ever held       when it grows.
 *     memory.PLACE.allocated/SCOPE    sum of bytes            at each allocation.
 *     memory.PLACE.allocations/SCOPE  number                  at each allocation.
 *
 * freed = allocated - current. PLACE is host or device. SCOPE is the annotation's name, or
 * "domain/name" if it has a domain. A name of more than 159 bytes is replaced by its first 140
 * bytes and a hash of the whole name. All values count since recording began, not since a session
 * began. The end of a counted allocation is also counted while recording is off, so that `current`
 * stays correct. An allocation that was made while recording was off is ignored, and so is its end.
 *
 * There are at most MRD_MEMORY_SCOPES scopes. All others are summed as "(further scopes)". At most
 * MRD_MEMORY_LIVE allocations are tracked at once, and further ones are counted as untracked. The
 * tables are allocated with mmap at the first allocation, and are empty in a child of fork. Signal
 * handlers must not call this module. If a handler that interrupted the module calls it
 * nevertheless, no scope changes, and the allocation is counted as untracked.
 *
 * Threads: any. A lock is held while values are changed and samples are written, so that the last
 * sample of a counter is its last value.
 */
#ifndef MRD_CAPTURE_API_MEMORY_H
#define MRD_CAPTURE_API_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define MRD_MEMORY_SCOPES 64u
#define MRD_MEMORY_LIVE   (1u << 20)

typedef enum { MRD_MEMORY_HOST, MRD_MEMORY_DEVICE } mrd_memory_place;
/* The owner of an allocation. Two allocations of different owners may have the same number
 * (`what`). */
typedef enum { MRD_MEMORY_PROGRAM, MRD_MEMORY_TENSOR } mrd_memory_of;

/* Adds an allocation to the current scope. `what` is an address or a handle that no other live
 * allocation of this owner has. If such an allocation exists, it is removed first. Does nothing
 * while annotations or profile_memory are off. */
void mrd_memory_add(mrd_memory_place place, mrd_memory_of of, uint64_t what, uint64_t bytes);
/* Removes an allocation from its scope. Ignores an unknown allocation. Call it before the memory is
 * freed, because another thread may then get the same address. */
void mrd_memory_remove(mrd_memory_of of, uint64_t what);
/* Removes all allocations of this owner at once, and records one sample for each scope. */
void mrd_memory_remove_all(mrd_memory_of of);

/* Sets profile_memory, which decides whether memory by scope and counters with the unit "bytes" are
 * recorded. */
void mrd_memory_want(bool on);
bool mrd_memory_wanted(void);

typedef struct {
    uint32_t name; /* id for mrd_names_text; 0 if no scope was open */
    uint32_t domain;
    mrd_memory_place place;
    uint64_t current, peak, allocated, freed, count;
} mrd_memory_scope;

/* Calls fn for each scope that ever allocated memory. All values are from the same moment. fn must
 * not call malloc, because it runs under a lock that annotations in signal handlers take. */
void mrd_memory_each(void (*fn)(void *ctx, const mrd_memory_scope *scope), void *ctx);
/* Returns the number of allocations that no scope includes, because there were too many or because
 * a signal handler reported them. */
uint64_t mrd_memory_untracked(void);
/* Resets the values of all scopes. The bytes that a scope holds now then count as allocated now. */
void mrd_memory_reset(void);

#endif
