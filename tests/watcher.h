/* tests/watcher.h - makes a test program act as the watcher process of the programs that it runs
 * confined (base/sys/confined.h). */
#ifndef MRD_TESTS_WATCHER_H
#define MRD_TESTS_WATCHER_H

#include <stdlib.h>
#include <string.h>

#include "base/sys/confined.h"

/* The C library passes the arguments of main to constructors. */
__attribute__((constructor(101))) static void
watcher_maybe(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], MRD_CONFINED_WORD) == 0)
        _Exit(mrd_confined_watch(argc, argv));
}

#endif
