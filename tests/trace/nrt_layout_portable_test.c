/* Without vector instructions, as other machines than x86-64 build it: the same tests. */
#define MRD_JR_PORTABLE 1

#include "trace/import/nrt_layout.c"

#include "tests/trace/nrt_layout_test.c"
