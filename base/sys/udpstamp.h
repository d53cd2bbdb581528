/*
 * base/sys/udpstamp.h - UDP sockets with kernel timestamps (SO_TIMESTAMPING, software), and
 * readings of the wall clock between two readings of CLOCK_MONOTONIC_RAW.
 *
 * Kernel timestamps are CLOCK_REALTIME. 0 means that there is none. The kernel takes transmit
 * stamps after the queueing discipline and returns them through the error queue, with a number that
 * counts the packets sent. A transmit stamp is never later than the moment when the packet leaves,
 * and a receive stamp is never earlier than the moment when it arrives. The kernel enables
 * timestamps lazily, so the first packets may have none. Threads: stateless, one thread per socket.
 */
#ifndef MRD_BASE_SYS_UDPSTAMP_H
#define MRD_BASE_SYS_UDPSTAMP_H

#include "base/err.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct {
    struct sockaddr_storage addr;
    socklen_t len;
} mrd_udp_peer;

/*
 * Opens a non-blocking UDP socket with timestamps. With `listen`, binds the socket to host and
 * port, and a NULL host means any address. Otherwise connects it to host and port. Errors: NOTFOUND
 * (host), NET, LIMIT. The message names host and port.
 */
mrd_err mrd_udp_open(const char *host, uint16_t port, bool listen, int *ret_fd, mrd_why *why);
void mrd_udp_close(int fd);     /* Ignores a negative descriptor. */
void mrd_udp_unstamped(int fd); /* Disables the timestamps, for tests. */
uint16_t mrd_udp_port(int fd);  /* Returns the local port, or 0 on failure. */
/*
 * Receives one packet. *ret_wall is its kernel timestamp or 0. `peer` may be NULL. Errors: AGAIN if
 * there is no packet, NET.
 */
mrd_err mrd_udp_recv(int fd, void *to, size_t room, size_t *ret_len, int64_t *ret_wall,
                     mrd_udp_peer *peer);
/* Sends one packet. `peer` is NULL for a connected socket. Errors: AGAIN if the buffer is full (the
 * packet is neither sent nor counted), NET. */
mrd_err mrd_udp_send(int fd, const void *data, size_t len, const mrd_udp_peer *peer);
/* Sends one packet without a transmit stamp, which is cheaper. The packet numbers of mrd_udp_sent
 * do not count such a packet. */
mrd_err mrd_udp_send_unstamped(int fd, const void *data, size_t len, const mrd_udp_peer *peer);
/* Takes one transmit stamp. *ret_number counts, from 0, the packets that this socket sent with a
 * stamp. AGAIN if there is none. */
mrd_err mrd_udp_sent(int fd, uint32_t *ret_number, int64_t *ret_wall);

/* Makes the kernel drop packets that begin with these four bytes, so that they wake no thread.
 * Returns false if the kernel refuses; the packets then arrive as usual. */
bool mrd_udp_drop(int fd, const uint8_t begin[4]);
/* Returns how many packets the kernel dropped at this socket, by mrd_udp_drop or because the buffer
 * was full. */
uint64_t mrd_udp_dropped(int fd);

/* Handles up to MRD_UDP_BATCH packets or stamps with one system call, for servers. Returns their
 * number. A result below MRD_UDP_BATCH means that there are no more for now. A packet of more than
 * MRD_UDP_DATA bytes is cut, but `len` is its real length. */
#define MRD_UDP_BATCH 8
#define MRD_UDP_DATA  64

typedef struct {
    uint8_t data[MRD_UDP_DATA];
    size_t len;
    int64_t wall; /* the packet's kernel timestamp (CLOCK_REALTIME), 0 if none */
    mrd_udp_peer peer;
} mrd_udp_packet;

typedef struct {
    uint32_t number;
    int64_t wall;
} mrd_udp_stamp;

size_t mrd_udp_recv_many(int fd, mrd_udp_packet ret_packets[MRD_UDP_BATCH]);
size_t mrd_udp_sent_many(int fd, mrd_udp_stamp ret_stamps[MRD_UDP_BATCH]);

/* Reads CLOCK_MONOTONIC_RAW before and after CLOCK_REALTIME, five times. Returns the reading whose
 * two RAW times are closest together. */
void mrd_clock_cross(int64_t *ret_raw0, int64_t *ret_wall, int64_t *ret_raw1);

#endif
