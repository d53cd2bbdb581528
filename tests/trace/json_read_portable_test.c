/* Runs the tests of json_read_test.c with the reader that uses no vector instructions. It is used
 * on machines other than x86-64. */
#define MRD_JR_PORTABLE 1

#include "trace/json/json_read.c"

#include "tests/trace/json_read_test.c"
