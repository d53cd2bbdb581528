/*
 * Simulates the network for time probes. It replaces the sockets of base/sys/udpstamp.h and
 * base/sys/udpwait.h for the real time server and probe clients. Delays differ by direction.
 * Packets are lost, duplicated and reordered, and their time stamps are available late or never. As
 * documented in the header, a packet leaves after its send stamp and arrives before its receive
 * stamp.
 */
#include <stdio.h>
#include <stdlib.h>

#include "agent/clock/timeprobe.h"
#include "base/sys/udpstamp.h"
#include "base/sys/udpwait.h"
#include "tests/sim/cluster_node.h"
#include "tests/sim/threads.h"

#include <pthread.h>

#define FD_FIRST 0x30000000
/* maximum number of queued packets of a socket, because the kernel's buffer is limited too */
#define QUEUED_MAX 512
#define READING    250 /* ns that each clock reading takes while a pair is sent */

typedef struct udp_packet {
    struct udp_packet *next;
    int64_t wall;
    uint64_t from; /* number of the socket */
    size_t len;
    uint8_t data[MRD_UDP_DATA];
} udp_packet;

typedef struct udp_sent {
    struct udp_sent *next;
    mrd_udp_stamp stamp;
} udp_sent;

typedef struct udp_socket {
    struct udp_socket *next;
    world *w;
    sim_node *n;     /* NULL: the server's */
    uint64_t number; /* never used twice */
    int fd;
    bool stamped, drops;
    uint8_t drop[4];
    uint32_t sent_number;
    uint64_t dropped;
    udp_packet *packets;
    size_t n_packets;
    udp_sent *sent;
    mrd_udp_wait *waiting; /* of the server */
} udp_socket;

struct mrd_udp_wait {
    udp_socket *s;
    pthread_mutex_t lock;
    pthread_cond_t news;
    bool ended;
    unsigned steps; /* how often the waiter was woken because the wall clock was set */
};

static udp_socket *sockets;
static uint64_t last_number;
static world *server_world;

void
udp_server_of(world *w)
{
    server_world = w;
}

static void
must(const void *memory)
{
    if (memory == NULL)
        abort();
}

static udp_socket *
socket_by_fd(int fd)
{
    udp_socket *s = sockets;

    while (s != NULL && s->fd != fd)
        s = s->next;
    return s;
}

static udp_socket *
socket_by_number(uint64_t number)
{
    udp_socket *s = sockets;

    while (s != NULL && s->number != number)
        s = s->next;
    return s;
}

static udp_socket *
server_socket(void)
{
    udp_socket *s = sockets;

    while (s != NULL && s->n != NULL)
        s = s->next;
    return s;
}

static int64_t
true_now(const udp_socket *s)
{
    return s->n == NULL ? s->w->now : node_now(s->n);
}

static int64_t
wall_at(const udp_socket *s, int64_t now)
{
    return server_now(s->w).wall.ns + (now - s->w->now) +
           (s->n == NULL ? 0 : s->n->wall_off - s->w->server_wall);
}

static void
wake(const udp_socket *s)
{
    if (s->n != NULL)
        node_wake(s->n, s->w->now);
    else if (s->waiting != NULL)
        pthread_cond_signal(&s->waiting->news);
}

/* ---- The network ---- */

/* Draws the delay in one direction. Below 0 if the packet is lost. */
static int64_t
udp_delay(world *w, const sim_node *n, bool back)
{
    int64_t d = n->udp_base[back] + (int64_t) sim_below(w, 20 * MRD_US);
    bool calm = !w->plan->faults || w->healing;

    if (n->a->partitioned || n->suspended || n->dying || n->udp_blocked ||
        (!calm && sim_chance(w, n->udp_loss[back])))
        return -1;
    d += back ? 0 : n->slow; /* the one way only */
    if (sim_chance(w, 50))
        d += (int64_t) sim_below(w, 5 * MRD_MS);
    if (!calm && sim_chance(w, 30)) /* overtaken by many */
        d += (int64_t) sim_below(w, 3 * MRD_SEC);
    return d;
}

static void
arrive(world *w, uint64_t to, uint64_t none, void *arg)
{
    udp_socket *s = socket_by_number(to);
    udp_packet *p = arg, **at;

    (void) none;
    if (s != NULL && (s->n_packets == QUEUED_MAX ||
                      (s->drops && p->len >= 4 && memcmp(p->data, s->drop, 4) == 0))) {
        s->dropped++;
        s = NULL;
    }
    if (s == NULL || (s->n == NULL && !w->up) || (s->n != NULL && s->n->suspended)) {
        free(p);
        return;
    }
    p->wall = s->stamped && !sim_chance(w, 30) ? wall_at(s, w->now) : 0;
    for (at = &s->packets; *at != NULL; at = &(*at)->next)
        continue;
    *at = p;
    s->n_packets++;
    wake(s);
}

static void
stamp_arrives(world *w, uint64_t to, uint64_t none, void *arg)
{
    udp_socket *s = socket_by_number(to);
    udp_sent **at;

    (void) none;
    (void) w;
    if (s == NULL) {
        free(arg);
        return;
    }
    for (at = &s->sent; *at != NULL; at = &(*at)->next)
        continue;
    *at = arg;
    wake(s);
}

static mrd_err
send_packet(udp_socket *s, const void *data, size_t len, const mrd_udp_peer *peer, bool stamp)
{
    world *w = s->w;
    int64_t now = true_now(s), leaves = now + (int64_t) sim_below(w, 3 * MRD_US), d;
    const udp_socket *to = server_socket();
    const sim_node *n = s->n;
    unsigned copies = w->plan->faults && sim_chance(w, 10) ? 2 : 1;
    uint64_t number;

    if (peer != NULL) {
        memcpy(&number, &peer->addr, sizeof(number));
        to = socket_by_number(number);
        n = to == NULL ? NULL : to->n;
    }
    if (stamp && s->stamped) {
        udp_sent *sent = calloc(1, sizeof(*sent));

        must(sent);
        sent->stamp = (mrd_udp_stamp){ s->sent_number++, wall_at(s, now) };
        if (sim_chance(w, 30))
            free(sent);
        else
            sim_at(w, leaves + 5 * MRD_US + (int64_t) sim_below(w, 40 * MRD_US), stamp_arrives,
                   s->number, 0, sent);
    }
    for (unsigned i = 0; to != NULL && n != NULL && i < copies; i++) {
        udp_packet *p;

        if ((d = udp_delay(w, n, s->n == NULL)) < 0)
            continue;
        p = calloc(1, sizeof(*p));
        must(p);
        p->from = s->number;
        p->len = len;
        memcpy(p->data, data, len < sizeof(p->data) ? len : sizeof(p->data));
        sim_at(w, leaves + d, arrive, to->number, 0, p);
    }
    return MRD_OK;
}

/* ---- base/sys/udpstamp.h ---- */

#define WRAP(type, name, ...)                                                                      \
    extern type __wrap_##name(__VA_ARGS__);                                                        \
    type __wrap_##name(__VA_ARGS__)

WRAP(mrd_err, mrd_udp_open, const char *host, uint16_t port, bool listen, int *ret_fd, mrd_why *why)
{
    udp_socket *s = calloc(1, sizeof(*s));

    (void) host;
    (void) port;
    (void) why;
    must(s);
    s->n = listen ? NULL : node_of_turn();
    s->w = listen ? server_world : s->n->w;
    s->number = ++last_number;
    s->fd = (int) (FD_FIRST + last_number % 0x0fffffff);
    s->stamped = true;
    s->next = sockets;
    sockets = s;
    *ret_fd = s->fd;
    return MRD_OK;
}

static void
drop_packet(udp_socket *s)
{
    udp_packet *p = s->packets;

    s->packets = p->next;
    s->n_packets--;
    free(p);
}

static bool
take_sent(udp_socket *s, mrd_udp_stamp *ret)
{
    udp_sent *first = s->sent;

    if (first == NULL)
        return false;
    *ret = first->stamp;
    s->sent = first->next;
    free(first);
    return true;
}

WRAP(void, mrd_udp_close, int fd)
{
    mrd_udp_stamp stamp;
    udp_socket **at = &sockets, *s;

    while (*at != NULL && (*at)->fd != fd)
        at = &(*at)->next;
    if ((s = *at) == NULL)
        return;
    *at = s->next;
    while (s->packets != NULL)
        drop_packet(s);
    while (take_sent(s, &stamp))
        continue;
    free(s);
}

WRAP(void, mrd_udp_unstamped, int fd)
{
    socket_by_fd(fd)->stamped = false;
}

WRAP(uint16_t, mrd_udp_port, int fd)
{
    (void) fd;
    return 7771;
}

WRAP(bool, mrd_udp_drop, int fd, const uint8_t begin[4])
{
    udp_socket *s = socket_by_fd(fd);

    s->drops = !sim_chance(s->w, 100); /* a kernel that cannot */
    memcpy(s->drop, begin, 4);
    return s->drops;
}

WRAP(uint64_t, mrd_udp_dropped, int fd)
{
    return socket_by_fd(fd)->dropped;
}

/* Takes the first packet that has arrived, as one receive call does. */
static bool
take_packet(udp_socket *s, mrd_udp_packet *ret)
{
    const udp_packet *p = s->packets;

    if (p == NULL)
        return false;
    *ret = (mrd_udp_packet){ .len = p->len, .wall = p->wall };
    memcpy(ret->data, p->data, sizeof(ret->data));
    memcpy(&ret->peer.addr, &p->from, sizeof(p->from));
    ret->peer.len = sizeof(p->from);
    if (s->n != NULL)
        s->w->r->udp_answers++;
    drop_packet(s);
    return true;
}

WRAP(mrd_err, mrd_udp_recv, int fd, void *to, size_t room, size_t *ret_len, int64_t *ret_wall,
     mrd_udp_peer *peer)
{
    mrd_udp_packet p;

    if (!take_packet(socket_by_fd(fd), &p))
        return MRD_AGAIN;
    memcpy(to, p.data, p.len < room ? p.len : room);
    *ret_len = p.len;
    *ret_wall = p.wall;
    if (peer != NULL)
        *peer = p.peer;
    return MRD_OK;
}

WRAP(mrd_err, mrd_udp_send, int fd, const void *data, size_t len, const mrd_udp_peer *peer)
{
    return send_packet(socket_by_fd(fd), data, len, peer, true);
}

WRAP(mrd_err, mrd_udp_send_unstamped, int fd, const void *data, size_t len,
     const mrd_udp_peer *peer)
{
    return send_packet(socket_by_fd(fd), data, len, peer, false);
}

WRAP(mrd_err, mrd_udp_sent, int fd, uint32_t *ret_number, int64_t *ret_wall)
{
    mrd_udp_stamp stamp;

    if (!take_sent(socket_by_fd(fd), &stamp))
        return MRD_AGAIN;
    *ret_number = stamp.number;
    *ret_wall = stamp.wall;
    return MRD_OK;
}

WRAP(size_t, mrd_udp_recv_many, int fd, mrd_udp_packet to[MRD_UDP_BATCH])
{
    size_t n = 0;

    while (n < MRD_UDP_BATCH && take_packet(socket_by_fd(fd), &to[n]))
        n++;
    /* Sometimes sets the wall clock after the kernel stamped the packets and before the server
     * reads the clocks to convert these stamps. The step is at most as large as a typical delay. */
    if (n > 0 && server_world->steps_wait > 0 && sim_chance(server_world, 500)) {
        server_world->steps_wait--;
        udp_step_wall(server_world, 12);
    }
    return n;
}

WRAP(size_t, mrd_udp_sent_many, int fd, mrd_udp_stamp to[MRD_UDP_BATCH])
{
    size_t n = 0;

    while (n < MRD_UDP_BATCH && take_sent(socket_by_fd(fd), &to[n]))
        n++;
    return n;
}

/* ---- base/sys/udpwait.h: the server's thread ---- */

void
udp_step_wall(world *w, unsigned octaves)
{
    int64_t by = MRD_US << sim_below(w, octaves);
    const udp_socket *s = server_socket();

    by += (int64_t) sim_below(w, (uint64_t) by);
    w->server_wall += sim_chance(w, 500) ? by : -by;
    w->server_steps++;
    w->r->wall_steps++;
    if (s != NULL)
        wake(s);
}

WRAP(mrd_err, mrd_udp_wait_open, int fd, mrd_udp_wait **ret_wait, mrd_why *why)
{
    mrd_udp_wait *w = calloc(1, sizeof(*w));

    (void) why;
    must(w);
    w->s = socket_by_fd(fd);
    w->steps = w->s->w->server_steps;
    w->s->waiting = w;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->news, NULL);
    *ret_wait = w;
    return MRD_OK;
}

WRAP(void, mrd_udp_wait_close, mrd_udp_wait *w)
{
    if (w == NULL)
        return;
    w->s->waiting = NULL;
    pthread_cond_destroy(&w->news);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* The thread that reads probes may also run late, without harm. */
WRAP(bool, mrd_udp_wait_next, mrd_udp_wait *w)
{
    world *of = w->s->w;

    pthread_mutex_lock(&w->lock);
    while (!w->ended && w->s->packets == NULL && w->s->sent == NULL && w->steps == of->server_steps)
        pthread_cond_wait(&w->news, &w->lock);
    pthread_mutex_unlock(&w->lock);
    if (!w->ended && sim_chance(of, 20))
        sim_thread_pause((int64_t) sim_below(of, 30 * MRD_MS));
    return !w->ended;
}

WRAP(bool, mrd_udp_wait_stepped, mrd_udp_wait *w)
{
    bool stepped = w->steps != w->s->w->server_steps;

    w->steps = w->s->w->server_steps;
    return stepped;
}

WRAP(void, mrd_udp_wait_end, mrd_udp_wait *w)
{
    w->ended = true;
    pthread_cond_signal(&w->news);
}

/* ---- The client, in which time passes, because it spaces its packets by waiting ---- */

extern void __real_mrd_timeprobe_step(mrd_timeprobe *probe);
WRAP(void, mrd_timeprobe_step, mrd_timeprobe *probe)
{
    sim_node *n = node_of_turn();

    n->reading_takes = READING;
    __real_mrd_timeprobe_step(probe);
    n->reading_takes = 0;
}
