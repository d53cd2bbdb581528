/*
 * base/obj.h - assertions, magic checks, counted references.
 *
 * MRD_ASSERT guards our own invariants and stays in release builds of the daemons and the command
 * line; MRD_ASSERT_DBG vanishes in release and is for hot paths and for capture/. Bytes from a
 * ring, a socket, a file or a query are never asserted: they are validated and give an error.
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

/* References to what does not change while somebody has one. Relaxed: whoever takes one more holds one. */
static inline void
mrd_refs_take(unsigned *refs)
{
    __atomic_add_fetch(refs, 1, __ATOMIC_RELAXED);
}
/* True: that was the last one. */
static inline bool
mrd_refs_drop(unsigned *refs)
{
    return __atomic_sub_fetch(refs, 1, __ATOMIC_ACQ_REL) == 0;
}

/* For structs that travel through void *: a magic first, checked on the way back. */
#define MRD_CHECK_MAGIC(obj, value) MRD_ASSERT((obj) != NULL && (obj)->magic == (value))

#endif
