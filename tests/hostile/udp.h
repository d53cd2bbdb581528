/* tests/hostile/udp.h - time probes of the hostile agent: valid packets with absurd numbers,
 * packets of other agents, duplicates, wrong tags, truncated and too long packets, and random
 * bytes. The aggregator receives them by UDP only. */
#ifndef MRD_TESTS_UDP_H
#define MRD_TESTS_UDP_H

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/wire.h"
#include "tests/hostile/draw.h"
#include "timesync/probe.h"

typedef struct {
    int fd; /* 0: none yet */
    unsigned port;
    uint8_t key[MRD_PROBE_KEY_LEN];
    uint32_t k;
    unsigned sent, answered;
} time_probes;

/* Learns the address of the time service, and the key that only agents have. */
static inline void
learn_time(time_probes *t, const Mrd__Welcome *w)
{
    t->port = w->time_port;
    if (w->probe_key.len == sizeof(t->key))
        memcpy(t->key, w->probe_key.data, sizeof(t->key));
}

/* The numbers of one packet. */
static inline mrd_probe_packet
some_packet(draws *d, time_probes *t, uint64_t session, uint64_t agent)
{
    mrd_probe_packet p = { .kind = MRD_PROBE_REQUEST,
                           .position = (uint8_t) below(d, 2),
                           .session = one_in(d, 3) ? (uint64_t) absurd(d) : session,
                           .agent = one_in(d, 10) ? (uint64_t) absurd(d) : agent,
                           .agent_epoch = one_in(d, 5) ? (uint32_t) absurd(d) : 1,
                           .k = one_in(d, 6) ? (uint32_t) absurd(d) : t->k++ };

    if (one_in(d, 8)) /* an answer, a warm-up packet, or an invalid kind */
        p.kind = (mrd_probe_kind) below(d, 9);
    if (one_in(d, 6)) /* once more */
        p.k = t->k - 1;
    return p;
}

static inline void
send_probes(time_probes *t, draws *d, uint64_t session, uint64_t agent)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t) t->port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    uint8_t bytes[2 * MRD_PROBE_PACKET_LEN], key[MRD_PROBE_KEY_LEN];

    if (t->port == 0 ||
        (t->fd == 0 && (t->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) <= 0))
        return;
    for (unsigned n = 1 + below(d, 40); n > 0; n--) {
        mrd_probe_packet p = some_packet(d, t, session, agent);
        size_t len = MRD_PROBE_PACKET_LEN;

        memcpy(key, t->key, sizeof(key));
        if (one_in(d, 6))
            key[below(d, sizeof(key))] ^= 1;
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t) draw(d);
        if (!one_in(d, 20))
            mrd_probe_packet_encode(&p, key, bytes);
        if (one_in(d, 8))
            bytes[below(d, MRD_PROBE_PACKET_LEN)] ^= (uint8_t) (1 + below(d, 255));
        if (one_in(d, 8))
            len = below(d, sizeof(bytes) + 1);
        t->sent += sendto(t->fd, bytes, len, 0, (struct sockaddr *) &to, sizeof(to)) >= 0;
    }
    while (recv(t->fd, bytes, sizeof(bytes), MSG_DONTWAIT) == MRD_PROBE_PACKET_LEN)
        t->answered++;
}

#endif
