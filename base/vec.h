/*
 * base/vec.h - growing arrays. An array is members of its owner's own: a pointer, how many there
 * are and, mostly, room for how many; zeroed it is empty, free() ends it.
 *
 *     if (!MRD_VEC_ROOM(s->rows, s->n_rows, s->cap_rows, 1))
 *         return MRD_NOMEM;
 *     s->rows[s->n_rows++] = row;
 *
 * Room at least doubles, so that adding costs a constant time on average. Sizes cannot overflow:
 * what would not fit the type of `cap`, or memory, is refused. Refused means false, and the array is
 * as it was. A caller with a limit of its own (MRD_VEC_ROOM_MAX) never has room for more than that.
 *
 * Arguments are evaluated more than once. Any growth moves the array: pointers into it end.
 * Threads: an array belongs to one thread. Source: vec.c.
 */
#ifndef MRD_BASE_VEC_H
#define MRD_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the macros call. Room for n + more items of `size` bytes behind v; *cap is how many there is
 * room for, before and afterwards, at most max. Returns where they are now; NULL when max, the
 * machine's sizes or its memory do not allow it: v and *cap are as they were.
 */
void *mrd_vec_grow(void *v, size_t size, size_t n, size_t *cap, size_t more, size_t max);
/* The same for *n items that are all there: up to item `at`, the new ones zeroed. */
void *mrd_vec_reach(void *v, size_t size, size_t *n, size_t at, size_t max);
/* Room for one behind n, without a member for the capacity. NULL: as above. */
void *mrd_vec_next(void *v, size_t size, size_t n);

/* The largest number that fits the type of an unsigned `cap`. */
#define MRD_VEC_MOST(cap) (SIZE_MAX >> (8 * (sizeof(size_t) - sizeof(cap))))

/* True when v has room for `more` behind its n items. n, cap: unsigned, of any size. */
#define MRD_VEC_ROOM(v, n, cap, more) MRD_VEC_ROOM_MAX(v, n, cap, more, SIZE_MAX)
/* Never room for more than max items. */
#define MRD_VEC_ROOM_MAX(v, n, cap, more, max)                                                     \
    __extension__({                                                                                \
        size_t vec_n_ = (n), vec_more_ = (more), vec_cap_ = (cap), vec_max_ = (max);               \
        bool vec_room_ = vec_n_ <= vec_cap_ && vec_more_ <= vec_cap_ - vec_n_;                     \
        if (!vec_room_) {                                                                          \
            vec_max_ = vec_max_ < MRD_VEC_MOST(cap) ? vec_max_ : MRD_VEC_MOST(cap);                \
            void *vec_v_ =                                                                         \
                mrd_vec_grow((v), sizeof(*(v)), vec_n_, &vec_cap_, vec_more_, vec_max_);           \
            if ((vec_room_ = vec_v_ != NULL)) {                                                    \
                (v) = vec_v_;                                                                      \
                (cap) = (__typeof__(cap)) vec_cap_;                                                \
            }                                                                                      \
        }                                                                                          \
        vec_room_;                                                                                 \
    })

/* For answers kept by index: true when v[at] is there. All n items are there, new ones zeroed. */
#define MRD_VEC_REACH(v, n, at)                                                                    \
    __extension__({                                                                                \
        size_t vec_at_ = (at), vec_n_ = (n);                                                       \
        bool vec_there_ = vec_at_ < vec_n_;                                                        \
        if (!vec_there_) {                                                                         \
            void *vec_v_ = mrd_vec_reach((v), sizeof(*(v)), &vec_n_, vec_at_, MRD_VEC_MOST(n));    \
            if ((vec_there_ = vec_v_ != NULL)) {                                                   \
                (v) = vec_v_;                                                                      \
                (n) = (__typeof__(n)) vec_n_;                                                      \
            }                                                                                      \
        }                                                                                          \
        vec_there_;                                                                                \
    })

/* For lists that grow one by one and seldom, without a member for the capacity: true when there is
 * room for v[n]. All that were added to the list must have been added this way. */
#define MRD_VEC_NEXT(v, n)                                                                         \
    __extension__({                                                                                \
        void *vec_v_ = mrd_vec_next((v), sizeof(*(v)), (n));                                       \
        if (vec_v_ != NULL)                                                                        \
            (v) = vec_v_;                                                                          \
        vec_v_ != NULL;                                                                            \
    })

#endif
