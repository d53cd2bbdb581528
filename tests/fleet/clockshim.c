/*
 * tests/fleet/clockshim.c - a preloaded library that replaces a program's CLOCK_MONOTONIC_RAW by
 * the clock of another node. MERIDIAN_TEST_CLOCK gives its error (grammar in sim/simclock.h; epoch=
 * is RAW). All other clocks and the kernel's stamps are unchanged. The test therefore has the
 * node's exact clock at any time.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/simclock.h"

static mrd_simclock bend;
static bool bent;

__attribute__((constructor)) static void
set_up(void)
{
    const char *text = getenv("MERIDIAN_TEST_CLOCK");
    mrd_why why = { 0 };

    if (text == NULL)
        return;
    if (mrd_simclock_parse(text, &bend, &why) != MRD_OK) {
        fprintf(stderr, "MERIDIAN_TEST_CLOCK: %s\n", why.text);
        _exit(2);
    }
    bent = true;
}

/* Replaces the function of the C library. */
__attribute__((visibility("default"))) int
clock_gettime(clockid_t id, struct timespec *ts)
{
    int rc = (int) syscall(SYS_clock_gettime, id, ts);
    int64_t ns;

    if (rc != 0 || !bent || id != CLOCK_MONOTONIC_RAW)
        return rc;
    ns = mrd_simclock_local(&bend, ts->tv_sec * MRD_SEC + ts->tv_nsec).ns;
    ts->tv_sec = ns / MRD_SEC;
    ts->tv_nsec = ns % MRD_SEC;
    return 0;
}
