/*
 * base/vec.h - arrays that grow. An array consists of members in the struct that owns it: a
 * pointer, the number of items and, usually, the capacity. Zero is a valid empty array. free()
 * releases it.
 *
 *     if (!MRD_VEC_ROOM(s->rows, s->n_rows, s->cap_rows, 1))
 *         return MRD_NOMEM;
 *     s->rows[s->n_rows++] = row;
 *
 * The capacity at least doubles, so that adding an item takes constant time on average. Sizes
 * cannot overflow. The macros return false and leave the array unchanged if the size does not fit
 * the type of `cap` or if memory runs out. MRD_VEC_ROOM_MAX takes a limit of the caller and never
 * exceeds it.
 *
 * The macros evaluate their arguments more than once. Growth may move the array, which invalidates
 * pointers into it. Threads: an array belongs to one thread. Source: vec.c.
 */
#ifndef MRD_BASE_VEC_H
#define MRD_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Called by the macros. Ensures space for `more` items of `size` bytes after the first n. Updates
 * *cap, the capacity in items, which never exceeds `max`. Returns the new address of the array. If
 * `max`, the address space or the memory does not allow it, returns NULL and leaves v and *cap
 * unchanged.
 */
void *mrd_vec_grow(void *v, size_t size, size_t n, size_t *cap, size_t more, size_t max);
/* Called by the macros. Ensures that item `at` exists. *n is the number of items. New items are
 * zeroed. Returns as mrd_vec_grow does. */
void *mrd_vec_reach(void *v, size_t size, size_t *n, size_t at, size_t max);
/* Called by the macros. Ensures space for one item after the first n, in an array without a stored
 * capacity. Returns as mrd_vec_grow does. */
void *mrd_vec_next(void *v, size_t size, size_t n);

/* The largest value of the unsigned type of `cap`. */
#define MRD_VEC_MOST(cap) (SIZE_MAX >> (8 * (sizeof(size_t) - sizeof(cap))))

/* Ensures space for `more` items after the n items of v. Is false if that is impossible. n and cap
 * are unsigned integers of any size. */
#define MRD_VEC_ROOM(v, n, cap, more) MRD_VEC_ROOM_MAX(v, n, cap, more, SIZE_MAX)
/* Like MRD_VEC_ROOM, but the array never gets more than `max` items. */
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

/* For arrays that are addressed by index. Ensures that v[at] exists, and is false if that is
 * impossible. All items up to v[at] then exist, and new items are zeroed. */
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

/* For arrays without a stored capacity, which grow rarely and by one item. Ensures space for v[n],
 * and is false if that is impossible. Every item of the array must have been added with this
 * macro. */
#define MRD_VEC_NEXT(v, n)                                                                         \
    __extension__({                                                                                \
        void *vec_v_ = mrd_vec_next((v), sizeof(*(v)), (n));                                       \
        if (vec_v_ != NULL)                                                                        \
            (v) = vec_v_;                                                                          \
        vec_v_ != NULL;                                                                            \
    })

#endif
