/*
 * tests/capture/api_start.h - starts the test program again with its own rings and the RAW clock,
 * because libmeridian.so reads its environment when it is loaded. For the tests of meridian.h.
 */
#ifndef MRD_TESTS_CAPTURE_API_START_H
#define MRD_TESTS_CAPTURE_API_START_H

#include "capture/meridian.h"
#include "tests/check.h"

static mrd_domain *domain;

static inline void
start(void)
{
    domain = mrd_domain_create("test");
    CHECK_INT(mrd_set_state(1), MERIDIAN_OK);
    CHECK_TEXT(mrd_status_text(), "recording");
}

/* Spins for this time on the library's clock. */
static inline void
spin_ns(int64_t ns)
{
    uint64_t end = mrd_now() + (uint64_t) ns;

    while (mrd_now() < end)
        ;
}

/* Instead of TEST_MAIN(). */
static inline int
api_main(int argc, char **argv)
{
    char dir[] = "/dev/shm/mrd-test-XXXXXX", command[100];
    int code;

    if (getenv("MRD_API_TEST") == NULL) { /* the library reads its environment when it is loaded */
        pid_t pid;
        int status = 0;

        if (mkdtemp(dir) == NULL)
            return 1;
        setenv("MERIDIAN_RING_DIR", dir, 1);
        setenv("MERIDIAN_CLOCK", "raw", 1);
        setenv("MRD_API_TEST", "1", 1);
        if ((pid = fork()) == 0) {
            execv("/proc/self/exe", argv);
            _exit(1);
        }
        waitpid(pid, &status, 0);
        snprintf(command, sizeof(command), "rm -rf '%s'", dir);
        code = system(command);
        return WIFEXITED(status) && code == 0 ? WEXITSTATUS(status) : 1;
    }
    return test_main(argc, argv);
}

#endif
