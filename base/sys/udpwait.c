#include "base/sys/udpwait.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct mrd_udp_wait {
    int fd, stop_fd, step_fd;
};

/* Opens a timer that never expires. If the wall clock is set, the kernel cancels the timer, which
 * makes its descriptor readable. */
static int
open_step_fd(void)
{
    struct itimerspec far = { .it_value = { .tv_sec = 0x7fffffff } };
    int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);

    if (fd >= 0 &&
        timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

mrd_err
mrd_udp_wait_open(int fd, mrd_udp_wait **ret_wait, mrd_why *why)
{
    mrd_udp_wait *wait = calloc(1, sizeof(*wait));

    if (wait == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "time server");
    wait->fd = fd;
    wait->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    wait->step_fd = open_step_fd();
    if (wait->stop_fd < 0 || wait->step_fd < 0) {
        mrd_err err = mrd_why_set(why, MRD_IO, errno, "time server: event descriptors");

        mrd_udp_wait_close(wait);
        return err;
    }
    *ret_wait = wait;
    return MRD_OK;
}

static void
close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

void
mrd_udp_wait_close(mrd_udp_wait *wait)
{
    if (wait == NULL)
        return;
    close_fd(wait->stop_fd);
    close_fd(wait->step_fd);
    free(wait);
}

bool
mrd_udp_wait_stepped(mrd_udp_wait *wait)
{
    uint64_t ticks;

    return read(wait->step_fd, &ticks, sizeof(ticks)) < 0 && errno == ECANCELED;
}

bool
mrd_udp_wait_next(mrd_udp_wait *wait)
{
    struct pollfd fds[3] = { { wait->fd, POLLIN, 0 },
                             { wait->stop_fd, POLLIN, 0 },
                             { wait->step_fd, POLLIN, 0 } };

    while (poll(fds, 3, -1) < 0)
        if (errno != EINTR)
            return false;
    return fds[1].revents == 0;
}

void
mrd_udp_wait_end(mrd_udp_wait *wait)
{
    uint64_t one = 1;

    (void) !write(wait->stop_fd, &one, sizeof(one));
}
