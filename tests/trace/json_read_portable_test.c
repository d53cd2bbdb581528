/* The same tests for the reader without vector instructions, as built on machines other than
 * x86-64. */
#define MRD_JR_PORTABLE 1

#include "trace/json/json_read.c"

#include "tests/trace/json_read_test.c"
