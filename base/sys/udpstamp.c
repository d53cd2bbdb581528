#include "base/sys/udpstamp.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <linux/net_tstamp.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int stamp_flags = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE |
                               SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID |
                               SOF_TIMESTAMPING_OPT_TSONLY;

static mrd_err
open_one(const struct addrinfo *ai, bool listen, int *ret_fd, int *ret_errno)
{
    int fd = socket(ai->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), size = 4 << 20;

    if (fd < 0) {
        *ret_errno = errno;
        return MRD_NET;
    }
    /* Many agents may send at the same time, so request a large receive buffer. If the kernel
     * grants less, some samples are lost, which is harmless. */
    (void) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    (void) setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamp_flags, sizeof(stamp_flags));
    if ((listen ? bind(fd, ai->ai_addr, ai->ai_addrlen)
                : connect(fd, ai->ai_addr, ai->ai_addrlen)) == 0) {
        *ret_fd = fd;
        return MRD_OK;
    }
    *ret_errno = errno;
    close(fd);
    return MRD_NET;
}

mrd_err
mrd_udp_open(const char *host, uint16_t port, bool listen, int *ret_fd, mrd_why *why)
{
    struct addrinfo hints = { .ai_socktype = SOCK_DGRAM,
                              .ai_flags = AI_NUMERICSERV | (listen ? AI_PASSIVE : 0) };
    struct addrinfo *list = NULL;
    const char *shown = host == NULL ? "*" : host;
    char service[8];
    int rc, sys = 0;
    mrd_err err = MRD_NET;

    snprintf(service, sizeof(service), "%u", port);
    if ((rc = getaddrinfo(host, service, &hints, &list)) != 0)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "udp %s:%u: %s", shown, port, gai_strerror(rc));
    for (struct addrinfo *ai = list; ai != NULL && err != MRD_OK; ai = ai->ai_next)
        err = open_one(ai, listen, ret_fd, &sys);
    freeaddrinfo(list);
    if (err != MRD_OK)
        return mrd_why_set(why, err, sys, "%s udp %s:%u", listen ? "listen on" : "connect", shown,
                           port);
    return MRD_OK;
}

void
mrd_udp_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

void
mrd_udp_unstamped(int fd)
{
    int none = 0;

    (void) setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &none, sizeof(none));
}

bool
mrd_udp_drop(int fd, const uint8_t begin[4])
{
    /* length of the UDP header, at which a socket filter's view of a packet begins */
    enum { HEADER = 8 };
    uint32_t word =
        (uint32_t) begin[0] << 24 | (uint32_t) begin[1] << 16 | (uint32_t) begin[2] << 8 | begin[3];
    struct sock_filter code[] = {
        /* Accept a short packet first, because a load beyond its end would drop it. */
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, HEADER + 4, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, HEADER),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

uint64_t
mrd_udp_dropped(int fd)
{
    uint32_t info[SK_MEMINFO_VARS] = { 0 };
    socklen_t len = sizeof(info);

    return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len) == 0 ? info[SK_MEMINFO_DROPS] : 0;
}

uint16_t
mrd_udp_port(int fd)
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof(storage);

    if (getsockname(fd, (struct sockaddr *) &storage, &len) != 0)
        return 0;
    return ntohs(storage.ss_family == AF_INET6 ? ((struct sockaddr_in6 *) &storage)->sin6_port
                                               : ((struct sockaddr_in *) &storage)->sin_port);
}

/* Returns the software timestamp in the control messages. For a transmit stamp, also stores the
 * number of the packet. */
static int64_t
find_stamp(struct msghdr *msg, uint32_t *ret_number)
{
    int64_t wall = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPING) {
            struct timespec ts[3];

            memcpy(ts, CMSG_DATA(c), sizeof(ts));
            wall = (int64_t) ts[0].tv_sec * MRD_SEC + ts[0].tv_nsec;
        } else if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
                   (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
            struct sock_extended_err err;

            memcpy(&err, CMSG_DATA(c), sizeof(err));
            if (err.ee_origin == SO_EE_ORIGIN_TIMESTAMPING)
                *ret_number = err.ee_data;
        }
    }
    return wall;
}

mrd_err
mrd_udp_recv(int fd, void *to, size_t room, size_t *ret_len, int64_t *ret_wall, mrd_udp_peer *peer)
{
    _Alignas(struct cmsghdr) char control[256];
    struct iovec iov = { to, room };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };
    uint32_t number = 0;
    ssize_t n;

    if (peer != NULL) {
        msg.msg_name = &peer->addr;
        msg.msg_namelen = sizeof(peer->addr);
    }
    do
        n = recvmsg(fd, &msg, MSG_TRUNC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? MRD_AGAIN : MRD_NET;
    if (peer != NULL)
        peer->len = msg.msg_namelen;
    *ret_len = (size_t) n; /* the packet's real length, which may be larger than the buffer */
    *ret_wall = find_stamp(&msg, &number);
    return MRD_OK;
}

static mrd_err
send_result(ssize_t n)
{
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? MRD_AGAIN : MRD_NET;
    return MRD_OK;
}

mrd_err
mrd_udp_send(int fd, const void *data, size_t len, const mrd_udp_peer *peer)
{
    ssize_t n;

    do
        n = peer == NULL
                ? send(fd, data, len, 0)
                : sendto(fd, data, len, 0, (const struct sockaddr *) &peer->addr, peer->len);
    while (n < 0 && errno == EINTR);
    return send_result(n);
}

mrd_err
mrd_udp_send_unstamped(int fd, const void *data, size_t len, const mrd_udp_peer *peer)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(uint32_t))];
    } control = { { .cmsg_len = CMSG_LEN(sizeof(uint32_t)),
                    .cmsg_level = SOL_SOCKET,
                    /* no flags: this packet needs no time stamp */
                    .cmsg_type = SO_TIMESTAMPING } };
    struct iovec iov = { (void *) (uintptr_t) data, len };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    ssize_t n;

    if (peer != NULL) {
        msg.msg_name = (void *) (uintptr_t) &peer->addr;
        msg.msg_namelen = peer->len;
    }
    do
        n = sendmsg(fd, &msg, 0);
    while (n < 0 && errno == EINTR);
    return send_result(n);
}

mrd_err
mrd_udp_sent(int fd, uint32_t *ret_number, int64_t *ret_wall)
{
    _Alignas(struct cmsghdr) char control[256];
    struct msghdr msg = { .msg_control = control, .msg_controllen = sizeof(control) };
    uint32_t number = UINT32_MAX;
    ssize_t n;

    do
        n = recvmsg(fd, &msg, MSG_ERRQUEUE);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? MRD_AGAIN : MRD_NET;
    *ret_wall = find_stamp(&msg, &number);
    *ret_number = number;
    return MRD_OK;
}

/* Buffers for receiving many packets with one system call. */
typedef struct {
    struct mmsghdr msgs[MRD_UDP_BATCH];
    struct iovec iov[MRD_UDP_BATCH];
    _Alignas(struct cmsghdr) char control[MRD_UDP_BATCH][256];
} batch;

static size_t
batch_receive(int fd, batch *b, int flags)
{
    int n;

    do
        n = recvmmsg(fd, b->msgs, MRD_UDP_BATCH, flags | MSG_DONTWAIT, NULL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? 0 : (size_t) n;
}

size_t
mrd_udp_recv_many(int fd, mrd_udp_packet to[MRD_UDP_BATCH])
{
    uint32_t number = 0;
    size_t count;
    batch b;

    for (size_t i = 0; i < MRD_UDP_BATCH; i++) {
        b.iov[i] = (struct iovec){ to[i].data, sizeof(to[i].data) };
        b.msgs[i].msg_hdr = (struct msghdr){ .msg_name = &to[i].peer.addr,
                                             .msg_namelen = sizeof(to[i].peer.addr),
                                             .msg_iov = &b.iov[i],
                                             .msg_iovlen = 1,
                                             .msg_control = b.control[i],
                                             .msg_controllen = sizeof(b.control[i]) };
    }
    count = batch_receive(fd, &b, MSG_TRUNC);
    for (size_t i = 0; i < count; i++) {
        to[i].len = b.msgs[i].msg_len;
        to[i].peer.len = b.msgs[i].msg_hdr.msg_namelen;
        to[i].wall = find_stamp(&b.msgs[i].msg_hdr, &number);
    }
    return count;
}

size_t
mrd_udp_sent_many(int fd, mrd_udp_stamp to[MRD_UDP_BATCH])
{
    size_t n;
    batch b;

    for (size_t i = 0; i < MRD_UDP_BATCH; i++)
        b.msgs[i].msg_hdr =
            (struct msghdr){ .msg_control = b.control[i], .msg_controllen = sizeof(b.control[i]) };
    n = batch_receive(fd, &b, MSG_ERRQUEUE);
    for (size_t i = 0; i < n; i++) {
        to[i].number = UINT32_MAX;
        to[i].wall = find_stamp(&b.msgs[i].msg_hdr, &to[i].number);
    }
    return n;
}

void
mrd_clock_cross(int64_t *ret_raw0, int64_t *ret_wall, int64_t *ret_raw1)
{
    for (int i = 0; i < 5; i++) {
        int64_t raw0 = mrd_local_now().ns, wall = mrd_wall_now().ns, raw1 = mrd_local_now().ns;

        if (i == 0 || raw1 - raw0 < *ret_raw1 - *ret_raw0) {
            *ret_raw0 = raw0;
            *ret_wall = wall;
            *ret_raw1 = raw1;
        }
    }
}
