/* tests/socket.h - plain sockets for tests. */
#ifndef MRD_TESTS_SOCKET_H
#define MRD_TESTS_SOCKET_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Sends all bytes. Returns false if the peer has closed the connection. */
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

/*
 * Returns a free port of this machine that no other test receives while this process runs. A bound
 * abstract socket reserves the port, as in tests/e2e/lib.py. The port is below the range that the
 * kernel assigns to connections. A program that accepts port 0 and reports its port does not need
 * this function.
 */
static inline int
test_free_port(void)
{
    for (;;) {
        struct sockaddr_un name = { .sun_family = AF_UNIX };
        struct sockaddr_in at = { .sin_family = AF_INET };
        int held = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        uint16_t draw;
        int port, n;
        bool free_one;

        if (held < 0 || probe < 0 || getrandom(&draw, sizeof(draw), 0) != sizeof(draw))
            abort();
        port = 10000 + draw % 22000;
        at.sin_port = htons((uint16_t) port);
        n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "mrd-test-port-%d", port);
        free_one =
            bind(held, (struct sockaddr *) &name,
                 (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) n)) == 0 &&
            bind(probe, (struct sockaddr *) &at, sizeof(at)) == 0;
        close(probe);
        if (free_one)
            return port; /* `held` stays open */
        close(held);
    }
}

#endif
