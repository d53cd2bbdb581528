/*
 * base/udpstamp.h - UDP sockets whose packets the kernel stamps (SO_TIMESTAMPING, software), and
 * bracketed readings of the wall clock.
 *
 * Kernel stamps are CLOCK_REALTIME; a stamp of 0 is "none". Transmit stamps are taken behind the
 * queueing discipline and come through the error queue, matched by a number that counts the packets
 * sent. They are early and receive stamps late, never the other way round. The kernel turns
 * stamping on lazily: the first packets may carry none. Threads: stateless; one thread per socket.
 */
#ifndef MRD_BASE_UDPSTAMP_H
#define MRD_BASE_UDPSTAMP_H

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
 * A non-blocking UDP socket with stamping on. host may be NULL (any address; for listen). listen
 * binds, otherwise it connects. Errors: NOTFOUND (host), NET, LIMIT; *why names host and port.
 */
mrd_err mrd_udp_open(const char *host, uint16_t port, bool listen, int *ret_fd, mrd_why *why);
void mrd_udp_close(int fd);     /* below 0 is fine */
void mrd_udp_unstamped(int fd); /* turns the stamps off, for tests of what then happens */
uint16_t mrd_udp_port(int fd);  /* the local one, 0 on failure */
/*
 * Receives one packet. ret_wall: its kernel stamp or 0. peer may be NULL. Errors: AGAIN when none
 * is there, NET.
 */
mrd_err mrd_udp_recv(int fd, void *to, size_t room, size_t *ret_len, int64_t *ret_wall,
                     mrd_udp_peer *peer);
/* peer NULL on a connected socket. Errors: AGAIN (buffer full: the packet is not sent and not
 * counted), NET. */
mrd_err mrd_udp_send(int fd, const void *data, size_t len, const mrd_udp_peer *peer);
/* The same without a transmit stamp, and not counted by its number: cheaper. */
mrd_err mrd_udp_send_unstamped(int fd, const void *data, size_t len, const mrd_udp_peer *peer);
/* Takes one transmit stamp: number counts the packets sent with stamp on this socket from 0. AGAIN
 * when none. */
mrd_err mrd_udp_sent(int fd, uint32_t *ret_number, int64_t *ret_wall);

/* Lets the kernel drop packets that begin with these four bytes, before they are queued: nobody
 * wakes up for them. False where it refuses: then they come like others. */
bool mrd_udp_drop(int fd, const uint8_t begin[4]);
/* What the kernel dropped at this socket: such packets, and those that found the buffer full. */
uint64_t mrd_udp_dropped(int fd);

/* Several at once, for servers: one system call for up to MRD_UDP_BATCH packets or stamps. A result
 * below MRD_UDP_BATCH means that there are no more now. Of a longer packet only the beginning is
 * kept, len is its real length. */
#define MRD_UDP_BATCH 8
#define MRD_UDP_DATA  64

typedef struct {
    uint8_t data[MRD_UDP_DATA];
    size_t len;
    int64_t wall; /* kernel stamp or 0 */
    mrd_udp_peer peer;
} mrd_udp_packet;

typedef struct {
    uint32_t number;
    int64_t wall;
} mrd_udp_stamp;

size_t mrd_udp_recv_many(int fd, mrd_udp_packet ret_packets[MRD_UDP_BATCH]);
size_t mrd_udp_sent_many(int fd, mrd_udp_stamp ret_stamps[MRD_UDP_BATCH]);

/* RAW, REALTIME, RAW: the narrowest of five readings. */
void mrd_clock_cross(int64_t *ret_raw0, int64_t *ret_wall, int64_t *ret_raw1);

#endif
