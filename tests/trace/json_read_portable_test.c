/* The reader without vector instructions, as other machines than x86-64 build it: the same tests.
 */
#define MRD_JR_PORTABLE 1

#include "trace/json/json_read.c"

#include "tests/trace/json_read_test.c"
