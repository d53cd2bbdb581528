#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define ASLEEP_TRIES 8
#define ASLEEP_CLOSE (20 * MRD_US)

static int64_t
clock_read(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (int64_t) ts.tv_sec * MRD_SEC + ts.tv_nsec;
}

mrd_local_ns
mrd_local_now(void)
{
    return (mrd_local_ns){ clock_read(CLOCK_MONOTONIC_RAW) };
}

mrd_wall_ns
mrd_wall_now(void)
{
    return (mrd_wall_ns){ clock_read(CLOCK_REALTIME) };
}

mrd_dur_ns
mrd_asleep_now(void)
{
    mrd_dur_ns least = INT64_MAX, asleep = 0;

    for (int i = 0; i < ASLEEP_TRIES && least > ASLEEP_CLOSE; i++) {
        int64_t from = clock_read(CLOCK_MONOTONIC), boottime = clock_read(CLOCK_BOOTTIME);
        int64_t to = clock_read(CLOCK_MONOTONIC);

        if (to - from >= least)
            continue;
        least = to - from;
        asleep = boottime - to;
    }
    /* the difference can be slightly negative, because the clocks are not read at the same
     * instant */
    return asleep > 0 ? asleep : 0;
}

char *
mrd_wall_text(mrd_wall_ns at, char text[MRD_TIME_TEXT])
{
    int64_t sec = at.ns / MRD_SEC, sub = at.ns % MRD_SEC;
    time_t t;
    struct tm tm;

    if (sub < 0) {
        sub += MRD_SEC;
        sec--;
    }
    t = (time_t) sec;
    gmtime_r(&t, &tm);
    snprintf(text, MRD_TIME_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%09uZ",
             (unsigned) (tm.tm_year + 1900) % 10000, (unsigned) (tm.tm_mon + 1) % 100,
             (unsigned) tm.tm_mday % 100, (unsigned) tm.tm_hour % 100, (unsigned) tm.tm_min % 100,
             (unsigned) tm.tm_sec % 100, (unsigned) sub);
    return text;
}

char *
mrd_dur_text(mrd_dur_ns dur, char text[MRD_DUR_TEXT])
{
    const uint64_t hour = 3600 * (uint64_t) MRD_SEC, day = 24 * hour, year = 365 * day;
    const char *sign = dur < 0 ? "-" : "";
    uint64_t d = dur < 0 ? 0 - (uint64_t) dur : (uint64_t) dur;

    if (d < 1000)
        snprintf(text, MRD_DUR_TEXT, "%s%" PRIu64 " ns", sign, d);
    else if (d < 1000000)
        snprintf(text, MRD_DUR_TEXT, "%s%" PRIu64 ".%02" PRIu64 " us", sign, d / 1000,
                 d % 1000 / 10);
    else if (d < 1000000000)
        snprintf(text, MRD_DUR_TEXT, "%s%" PRIu64 ".%02" PRIu64 " ms", sign, d / 1000000,
                 d % 1000000 / 10000);
    else if (d < 60 * (uint64_t) MRD_SEC)
        snprintf(text, MRD_DUR_TEXT, "%s%" PRIu64 ".%03" PRIu64 " s", sign, d / 1000000000,
                 d % 1000000000 / 1000000);
    else if (d < hour)
        snprintf(text, MRD_DUR_TEXT, "%s%" PRIu64 " min %02" PRIu64 " s", sign, d / 60000000000u,
                 d / 1000000000 % 60);
    else if (d < 3 * day)
        snprintf(text, MRD_DUR_TEXT, "%s%" PRIu64 ".%" PRIu64 " hours", sign, d / hour,
                 d % hour / (hour / 10));
    else if (d < 3 * year)
        snprintf(text, MRD_DUR_TEXT, "%s%" PRIu64 " days", sign, d / day);
    else
        snprintf(text, MRD_DUR_TEXT, "%s%" PRIu64 " years", sign, d / year);
    return text;
}
