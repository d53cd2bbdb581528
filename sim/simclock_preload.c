/*
 * libsimclock.so - gives an unchanged program the simulated clock of MERIDIAN_SIM_CLOCK
 * (sim/simclock.h). It is loaded by LD_PRELOAD and replaces functions of the C library. These times
 * are then wrong by a known amount:
 *
 *   CLOCK_MONOTONIC_RAW                the simulated oscillator
 *   CLOCK_REALTIME, time, gettimeofday the simulated oscillator with its steps
 *   SO_TIMESTAMPING stamps             the kernel's stamps, moved to the simulated wall clock
 *
 * CLOCK_MONOTONIC, BOOTTIME and all sleeps stay true, so timeouts have their real length. The time
 * stamp counter (TSC) also stays true, so libmeridian needs MERIDIAN_CLOCK=raw. The simulated
 * runtime reads true time by simclock_true_gettime(). For demonstrations and tests only.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "sim/simclock.h"

#define EXPORT __attribute__((visibility("default")))

typedef int gettime_call(clockid_t id, struct timespec *ts);
typedef ssize_t recvmsg_call(int fd, struct msghdr *msg, int flags);
typedef int recvmmsg_call(int fd, struct mmsghdr *msgs, unsigned n, int flags,
                          struct timespec *timeout);

EXPORT int simclock_true_gettime(clockid_t id, struct timespec *ts);

static mrd_simclock sim;
static gettime_call *true_gettime;
static recvmsg_call *true_recvmsg;
static recvmmsg_call *true_recvmmsg;

/* Stores the address of the function `name` of the next library in the function pointer *to.
 * dlsym() returns an object pointer, and ISO C has no cast from that to a function pointer. */
static void
look_up(const char *name, void *to)
{
    void *found = dlsym(RTLD_NEXT, name);

    memcpy(to, &found, sizeof(found));
}

static void
load(void)
{
    mrd_why why = { 0 };

    look_up("recvmsg", &true_recvmsg);
    look_up("recvmmsg", &true_recvmmsg);
    look_up("clock_gettime", &true_gettime);
    if (mrd_simclock_parse(getenv(MRD_SIMCLOCK_ENV), &sim, &why) != MRD_OK) {
        dprintf(2, "libsimclock: %s: %s\n", MRD_SIMCLOCK_ENV, why.text);
        _exit(2);
    }
}

/* Looks up the replaced functions. The replacements call it too, because constructors of other
 * libraries may read a clock before this constructor runs. There is only one thread then. */
__attribute__((constructor)) static void
loaded(void)
{
    if (true_gettime == NULL)
        load();
}

int
simclock_true_gettime(clockid_t id, struct timespec *ts)
{
    loaded();
    return true_gettime(id, ts);
}

static int64_t
read_true(clockid_t id)
{
    struct timespec ts = { 0 };

    (void) simclock_true_gettime(id, &ts);
    return (int64_t) ts.tv_sec * MRD_SEC + ts.tv_nsec;
}

static void
move(struct timespec *ts, mrd_dur_ns by)
{
    int64_t ns = (int64_t) ts->tv_sec * MRD_SEC + ts->tv_nsec + by;

    ts->tv_sec = ns / MRD_SEC;
    ts->tv_nsec = ns % MRD_SEC;
}

EXPORT int
clock_gettime(clockid_t id, struct timespec *ts)
{
    int result = simclock_true_gettime(id, ts);

    if (result != 0)
        return result;
    if (id == CLOCK_MONOTONIC_RAW)
        move(ts, mrd_simclock_delta(&sim, (int64_t) ts->tv_sec * MRD_SEC + ts->tv_nsec));
    else if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        move(ts, mrd_simclock_wall_delta(&sim, read_true(CLOCK_MONOTONIC_RAW)));
    return 0;
}

EXPORT time_t
time(time_t *to)
{
    struct timespec ts = { 0 };

    (void) clock_gettime(CLOCK_REALTIME, &ts);
    if (to != NULL)
        *to = ts.tv_sec;
    return ts.tv_sec;
}

EXPORT int
gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec ts = { 0 };
    int result = clock_gettime(CLOCK_REALTIME, &ts);

    (void) zone; /* obsolete; Linux leaves it unchanged unless settimeofday() set a time zone */
    *tv = (struct timeval){ .tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000 };
    return result;
}

/* Moves a kernel stamp of the wall clock to the simulated wall clock, by the clock's error at the
 * time of the stamp. */
static void
move_stamp(struct timespec *stamp)
{
    int64_t wall = (int64_t) stamp->tv_sec * MRD_SEC + stamp->tv_nsec;
    int64_t ago = read_true(CLOCK_REALTIME) - wall;

    if (wall != 0)
        move(stamp, mrd_simclock_wall_delta(&sim, read_true(CLOCK_MONOTONIC_RAW) - ago));
}

static void
move_stamps(struct msghdr *msg)
{
    if (msg->msg_controllen == 0)
        return;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        struct timespec ts[3];

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_TIMESTAMPING)
            continue;
        memcpy(ts, CMSG_DATA(c), sizeof(ts));
        /* ts[0] is the software stamp; a network card stamps with its own clock */
        move_stamp(&ts[0]);
        memcpy(CMSG_DATA(c), ts, sizeof(ts));
    }
}

EXPORT ssize_t
recvmsg(int fd, struct msghdr *msg, int flags)
{
    ssize_t n;

    loaded();
    n = true_recvmsg(fd, msg, flags);
    if (n >= 0)
        move_stamps(msg);
    return n;
}

EXPORT int
recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout)
{
    int got;

    loaded();
    got = true_recvmmsg(fd, msgs, n, flags, timeout);
    for (int i = 0; i < got; i++)
        move_stamps(&msgs[i].msg_hdr);
    return got;
}
