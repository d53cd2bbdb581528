/* tests/socket.h - plain sockets for tests. */
#ifndef MRD_TESTS_SOCKET_H
#define MRD_TESTS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* All of it; false when the other end is gone. */
static inline bool
test_send_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        p += n;
        len -= (size_t) n;
    }
    return true;
}

#endif
