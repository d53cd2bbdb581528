/*
 * base/obj.h - assertions, magic numbers, reference counts.
 *
 * MRD_ASSERT checks our own invariants, also in release builds of the daemons and the command line.
 * MRD_ASSERT_DBG is compiled only into debug builds, and is for hot paths and for capture/. Data
 * from a ring, a socket, a file or a query is never asserted. It is validated and gives an error.
 */
#ifndef MRD_BASE_OBJ_H
#define MRD_BASE_OBJ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define MRD_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define MRD_ASSERT(cond)                                                                           \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0)) {                                                        \
            fprintf(stderr, "%s:%d: internal error: %s\n", __FILE__, __LINE__, #cond);             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#ifdef MRD_DEBUG_BUILD
#define MRD_ASSERT_DBG(cond) MRD_ASSERT(cond)
#else
#define MRD_ASSERT_DBG(cond) ((void) sizeof(cond))
#endif

/* Counts a further reference to an object. The object must not change while references exist.
 * Relaxed ordering is enough, because the caller already holds a reference. */
static inline void
mrd_refs_take(unsigned *refs)
{
    __atomic_add_fetch(refs, 1, __ATOMIC_RELAXED);
}
/* Removes a reference. Returns true if it was the last one. */
static inline bool
mrd_refs_drop(unsigned *refs)
{
    return __atomic_sub_fetch(refs, 1, __ATOMIC_ACQ_REL) == 0;
}

/* Asserts that `obj` is a struct of the expected type. Call it after a cast from void *. The first
 * member `magic` of such a struct holds a constant for its type. */
#define MRD_CHECK_MAGIC(obj, value) MRD_ASSERT((obj) != NULL && (obj)->magic == (value))

#endif
