/*
 * trace/analysis/judge/longest.h - keeps the longest entries of a list, such as the longest pauses
 * of a report.
 *
 * Memory   the caller's array. Threads: pure.
 */
#ifndef MRD_TRACE_LONGEST_H
#define MRD_TRACE_LONGEST_H

#include <stddef.h>
#include <stdint.h>

/* Makes room for an entry of length `dur` in the array `list` of the `most` longest entries. They
 * have a member dur_ns and are sorted, longest first. `n` is their number, which may grow. Returns a
 * pointer to the new entry, which the caller writes. NULL if all entries are at least as long. */
#define MRD_LONGEST(list, n, most, dur)                                                            \
    mrd_longest_place((list), sizeof((list)[0]), offsetof(__typeof__((list)[0]), dur_ns), &(n),    \
                      (most), (dur))

/* Used by MRD_LONGEST. `size` is the size of an entry, and `at_dur` is the offset of dur_ns in
 * it. */
void *mrd_longest_place(void *list, size_t size, size_t at_dur, size_t *n, size_t most,
                        int64_t dur);

#endif
