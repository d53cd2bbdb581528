/* Counts of events that the workload program writes to a file, and that the test compares with the
 * rings. */
#ifndef MRD_TESTS_CAPTURE_COUNTS_H
#define MRD_TESTS_CAPTURE_COUNTS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    _Atomic uint64_t begun, done, extra, lost;
    char text[512];
} counts;

#endif
