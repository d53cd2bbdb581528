/* Runs the tests of nrt_layout_test.c without vector instructions, as on machines other than
 * x86-64. */
#define MRD_JR_PORTABLE 1

#include "trace/import/nrt/nrt_layout.c"

#include "tests/trace/nrt_layout_test.c"
