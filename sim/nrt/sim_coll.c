/*
 * Simulates collectives. The participants (ranks) meet at a root, which the process of rank 0
 * serves. Within a node, the root is an abstract Unix socket named after user, node and job. With
 * NEURON_RT_ROOT_COMM_ID=ip:port, the root is that TCP address, so that several nodes can take
 * part.
 *
 * Each participant has one connection to the root. Its request contains its time of arrival. When
 * the requests of all participants have arrived, the root answers them with the latest time of
 * arrival. Arrivals are times of the simulated device, so delays by the host's scheduler have no
 * effect.
 *
 * Processes on the same kernel (boot id) share true time. If a process is in a time namespace, its
 * offset to the kernel's clock is corrected. Participants on other kernels use the time at which
 * the answer arrives.
 */
#include "sim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sys/threads.h"

#define ASK_MAGIC   0x4b534173u
#define PAYLOAD_MAX (1u << 20)
#define CLIENTS_MAX 1024
#define RANKS_MAX   4096

typedef struct {
    uint32_t magic, rank, count, len;
    uint64_t key, seq, boot;
    int64_t arrive;
} ask;

typedef struct {
    uint32_t magic, status, same_boot, len; /* `len` is the sum of the lengths of all payloads */
    int64_t last;
} answer;

/* ---- the address of the root ----------------------------------------------------------------- */

typedef struct {
    union {
        struct sockaddr any;
        struct sockaddr_un un;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } a;
    socklen_t len;
    bool tcp;
} address;

static bool
tcp_address(const char *text, address *ret)
{
    const char *colon = strrchr(text, ':');
    char host[64];
    long port = colon == NULL ? 0 : strtol(colon + 1, NULL, 10);
    size_t len = colon == NULL ? 0 : (size_t) (colon - text);

    if (len == 0 || len >= sizeof(host) || port <= 0 || port > 65535)
        return false;
    if (text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    memcpy(host, text, len);
    host[len] = '\0';
    memset(ret, 0, sizeof(*ret));
    ret->tcp = true;
    if (inet_pton(AF_INET, host, &ret->a.in.sin_addr) == 1) {
        ret->a.in.sin_family = AF_INET;
        ret->a.in.sin_port = htons((uint16_t) port);
        ret->len = sizeof(ret->a.in);
        return true;
    }
    if (inet_pton(AF_INET6, host, &ret->a.in6.sin6_addr) != 1)
        return false;
    ret->a.in6.sin6_family = AF_INET6;
    ret->a.in6.sin6_port = htons((uint16_t) port);
    ret->len = sizeof(ret->a.in6);
    return true;
}

static bool
root_address(address *ret)
{
    const char *text = sim_env_text("NEURON_RT_ROOT_COMM_ID", NULL);
    char *path;
    int n;

    if (text != NULL) {
        if (tcp_address(text, ret))
            return true;
        sim_log("NEURON_RT_ROOT_COMM_ID=%s is not ip:port", text);
        return false;
    }
    memset(ret, 0, sizeof(*ret));
    ret->a.un.sun_family = AF_UNIX;
    /* a leading NUL byte makes an abstract address, which needs no file */
    path = ret->a.un.sun_path;
    n = snprintf(path + 1, sizeof(ret->a.un.sun_path) - 1, "simnrt.%u.%s.%s", (unsigned) getuid(),
                 sim.node, sim.job);
    if (n < 0 || (size_t) n >= sizeof(ret->a.un.sun_path) - 1)
        return false;
    ret->len = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) n);
    return true;
}

static pthread_once_t boot_once = PTHREAD_ONCE_INIT;
static uint64_t boot; /* hash of the boot id; identifies the clock that processes share */

static void
find_boot(void)
{
    char id[40] = { 0 };
    struct stat own, children;
    int fd;

    if ((fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)) >= 0) {
        if (read(fd, id, sizeof(id) - 1) < 0)
            id[0] = '\0';
        close(fd);
    }
    boot = 1;
    for (const char *p = id; *p != '\0'; p++)
        boot = sim_mix(boot, (uint8_t) *p);
    if (stat("/proc/self/ns/time", &own) == 0 &&
        stat("/proc/self/ns/time_for_children", &children) == 0 && own.st_ino != children.st_ino)
        boot =
            /* /proc describes the namespace of future children, not this one, so treat this one as
             * another boot */
            sim_mix(boot, (uint64_t) own.st_ino);
}

static uint64_t
boot_hash(void)
{
    pthread_once(&boot_once, find_boot);
    return boot;
}

/* Returns the offset of CLOCK_MONOTONIC_RAW in this time namespace to the kernel's clock, in ns. */
static int64_t
namespace_offset(void)
{
    FILE *file = fopen("/proc/self/timens_offsets", "re");
    long long s = 0, ns = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "monotonic %lld %lld", &s, &ns) != 2)
        s = ns = 0;
    fclose(file);
    return (int64_t) s * MRD_SEC + ns;
}

/* ---- sending and receiving whole messages with a deadline ------------------------------------ */

static bool
move_all(int fd, void *p, size_t len, bool in, int64_t deadline)
{
    char *at = p;

    while (len > 0) {
        struct pollfd pfd = { .fd = fd, .events = in ? POLLIN : POLLOUT };
        int64_t left = (deadline - sim_raw()) / MRD_MS + 1;
        ssize_t n;

        if (left <= 0 || (poll(&pfd, 1, left > 1000 ? 1000 : (int) left) < 0 && errno != EINTR))
            return false;
        if (pfd.revents == 0)
            continue;
        n = in ? recv(fd, at, len, MSG_DONTWAIT) : send(fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (n > 0) {
            at += n;
            len -= (size_t) n;
        }
    }
    return true;
}

/* ---- the root, which answers the participants ------------------------------------------------ */

typedef struct {
    int fd; /* descriptor of the connection; -1 if the slot is free */
    ask ask;
    size_t got; /* number of bytes of ask and payload that were received */
    uint8_t *payload;
    bool waiting; /* true if the request is complete and not yet answered */
} client;

static struct {
    pthread_t thread;
    bool runs;
    int listen_fd, stop_fd;
    client *clients;
} root = { .listen_fd = -1, .stop_fd = -1 };

static void
client_drop(client *peer)
{
    close(peer->fd);
    free(peer->payload);
    memset(peer, 0, sizeof(*peer));
    peer->fd = -1;
}

static bool
same_meeting(const client *a, const client *b)
{
    return a->fd >= 0 && a->waiting && a->ask.key == b->ask.key && a->ask.seq == b->ask.seq &&
           a->ask.count == b->ask.count && a->ask.len == b->ask.len;
}

static void
reply(client *peer, const answer *head, const uint8_t *payload)
{
    answer out = *head;
    int64_t deadline = sim_raw() + 5 * MRD_SEC;

    peer->waiting = false;
    peer->got = 0;
    if (!move_all(peer->fd, &out, sizeof(out), false, deadline))
        return;
    if (payload != NULL && out.len > 0) {
        /* move_all() also receives data and takes no const pointer, so it gets a copy */
        uint8_t *p = malloc(out.len);

        if (p != NULL) {
            memcpy(p, payload, out.len);
            move_all(peer->fd, p, out.len, false, deadline);
        }
        free(p);
    }
}

static void
fail_meeting(const client *who, NRT_STATUS status)
{
    answer head = { .magic = ASK_MAGIC, .status = (uint32_t) status };
    client key = *who;

    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (same_meeting(&root.clients[i], &key))
            reply(&root.clients[i], &head, NULL);
}

/* Answers all participants of a collective after all their requests have arrived. `who` is one
 * participant. */
static void
try_meeting(const client *who)
{
    client key = *who;
    answer head = { .magic = ASK_MAGIC, .same_boot = 1, .last = INT64_MIN };
    uint8_t *all = NULL;
    uint32_t here = 0;

    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        const client *peer = &root.clients[i];

        if (!same_meeting(peer, &key))
            continue;
        here++;
        head.last = peer->ask.arrive > head.last ? peer->ask.arrive : head.last;
        head.same_boot &= peer->ask.boot == key.ask.boot;
    }
    if (here < key.ask.count)
        return;
    head.len = key.ask.count * key.ask.len;
    if (head.len > 0 && (all = calloc(1, head.len)) == NULL) {
        fail_meeting(who, NRT_RESOURCE);
        return;
    }
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (all != NULL && same_meeting(&root.clients[i], &key))
            memcpy(all + (size_t) root.clients[i].ask.rank * key.ask.len, root.clients[i].payload,
                   key.ask.len);
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (same_meeting(&root.clients[i], &key))
            reply(&root.clients[i], &head, all);
    free(all);
}

static bool
ask_valid(const ask *a)
{
    return a->magic == ASK_MAGIC && a->count > 0 && a->count <= RANKS_MAX && a->rank < a->count &&
           a->len <= PAYLOAD_MAX && (uint64_t) a->count * a->len <= 64u * PAYLOAD_MAX;
}

static void
asked(client *peer)
{
    answer taken = { .magic = ASK_MAGIC, .status = NRT_INVALID };

    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (&root.clients[i] != peer && same_meeting(&root.clients[i], peer) &&
            root.clients[i].ask.rank == peer->ask.rank) {
            reply(peer, &taken, NULL);
            return;
        }
    peer->waiting = true;
    try_meeting(peer);
}

/* Reads the available bytes. Returns false if the connection has ended or sent invalid data. */
static bool
client_read(client *peer)
{
    uint8_t *to = (uint8_t *) &peer->ask + peer->got;
    size_t want = sizeof(peer->ask) - peer->got;
    ssize_t n;

    /* A client that waits for its answer sends nothing. So this is the end of the connection or
     * invalid data. */
    if (peer->waiting)
        return false;
    if (peer->got >= sizeof(peer->ask)) {
        to = peer->payload + (peer->got - sizeof(peer->ask));
        want = peer->ask.len - (peer->got - sizeof(peer->ask));
    }
    n = recv(peer->fd, to, want, MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    peer->got += (size_t) n;
    if (peer->got == sizeof(peer->ask)) {
        free(peer->payload);
        peer->payload = NULL;
        if (!ask_valid(&peer->ask) ||
            (peer->ask.len > 0 && (peer->payload = malloc(peer->ask.len)) == NULL))
            return false;
    }
    if (peer->got >= sizeof(peer->ask) && peer->got == sizeof(peer->ask) + peer->ask.len)
        asked(peer);
    return true;
}

static void
accept_client(void)
{
    int one = 1, fd = accept4(root.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    for (size_t i = 0; fd >= 0 && i < CLIENTS_MAX; i++)
        if (root.clients[i].fd < 0) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
            root.clients[i].fd = fd;
            return;
        }
    if (fd >= 0)
        close(fd);
    /* Out of descriptors: poll() would return at once for the pending connection, so wait a
     * little. */
    else if (errno == EMFILE || errno == ENFILE)
        sim_sleep_until(sim_raw() + 5 * MRD_MS);
}

/* Fills the array for poll() with the stop descriptor, the listener and the connected clients, and
 * returns its length. Empty slots are omitted, because poll() refuses more entries than the
 * process's limit of descriptors. */
static nfds_t
fill_table(struct pollfd *pfd, client **of)
{
    nfds_t nfds = 2;

    pfd[0] = (struct pollfd){ .fd = root.stop_fd, .events = POLLIN };
    pfd[1] = (struct pollfd){ .fd = root.listen_fd, .events = POLLIN };
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (root.clients[i].fd >= 0) {
            of[nfds] = &root.clients[i];
            pfd[nfds++] = (struct pollfd){ .fd = root.clients[i].fd, .events = POLLIN };
        }
    return nfds;
}

static void
serve_client(client *peer)
{
    if (client_read(peer))
        return;
    if (peer->waiting) {
        peer->waiting = false;
        fail_meeting(peer, NRT_EXEC_HW_ERR_COLLECTIVES);
    }
    client_drop(peer);
}

static void *
serve(void *arg)
{
    struct pollfd *pfd = calloc(CLIENTS_MAX + 2, sizeof(*pfd));
    client **of = calloc(CLIENTS_MAX + 2, sizeof(*of));

    (void) arg;
    while (pfd != NULL && of != NULL) {
        nfds_t nfds = fill_table(pfd, of);

        if (poll(pfd, nfds, -1) < 0) {
            if (errno == EINTR)
                continue;
            sim_log("the root of collectives ends: poll: %s", strerror(errno));
            break;
        }
        if (pfd[0].revents != 0)
            break;
        for (nfds_t i = 2; i < nfds; i++)
            if (pfd[i].revents != 0)
                serve_client(of[i]);
        if (pfd[1].revents != 0)
            accept_client();
    }
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (root.clients[i].fd >= 0)
            client_drop(&root.clients[i]);
    free(pfd);
    free(of);
    return NULL;
}

static pthread_mutex_t coll_lock = PTHREAD_MUTEX_INITIALIZER;

static void
root_clear(void)
{
    if (root.listen_fd >= 0)
        close(root.listen_fd);
    if (root.stop_fd >= 0)
        close(root.stop_fd);
    free(root.clients);
    root.listen_fd = root.stop_fd = -1;
    root.clients = NULL;
    root.runs = false;
}

/* Starts to serve as the root. It is no error if another process already serves at the address. */
static NRT_STATUS
root_open(void)
{
    address at;
    int one = 1;

    if (!root_address(&at))
        return NRT_INVALID;
    root.listen_fd = socket(at.a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(root.listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(root.listen_fd, &at.a.any, at.len) != 0 || listen(root.listen_fd, 256) != 0) {
        int why = errno;

        root_clear();
        if (why == EADDRINUSE)
            return NRT_SUCCESS;
        sim_log("cannot serve the root of collectives: %s", strerror(why));
        return NRT_NETWORK_PROXY_FAILURE;
    }
    root.stop_fd = eventfd(0, EFD_CLOEXEC);
    root.clients = calloc(CLIENTS_MAX, sizeof(*root.clients));
    for (size_t i = 0; root.clients != NULL && i < CLIENTS_MAX; i++)
        root.clients[i].fd = -1;
    if (root.clients == NULL || root.stop_fd < 0 ||
        mrd_masked_thread(&root.thread, NULL, serve, NULL) != 0) {
        root_clear();
        return NRT_RESOURCE;
    }
    root.runs = true;
    return NRT_SUCCESS;
}

NRT_STATUS
sim_coll_prepare(uint32_t rank)
{
    NRT_STATUS status = NRT_SUCCESS;

    pthread_mutex_lock(&coll_lock);
    if (rank == 0 && !root.runs)
        status = root_open();
    pthread_mutex_unlock(&coll_lock);
    return status;
}

/* ---- participants: their connections to the root --------------------------------------------- */

typedef struct part {
    uint32_t rank, count;
    uint64_t key;
    int fd;
    int64_t offset; /* namespace_offset() of this participant */
    pid_t pid;      /* process that opened `fd`; the child of a fork must not use it */
    struct part *next;
} part;

static part *parts;

static int
dial(int64_t deadline)
{
    address at;
    int one = 1;

    if (!root_address(&at))
        return -1;
    do {
        int fd = socket(at.a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && connect(fd, &at.a.any, at.len) == 0) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
            return fd;
        }
        if (fd >= 0)
            close(fd);
        /* tries again, because rank 0 may not have started yet */
        sim_sleep_until(sim_raw() + 5 * MRD_MS);
    } while (sim_raw() < deadline);
    return -1;
}

static part *
part_of(const sim_coll_op *op)
{
    part *p;

    pthread_mutex_lock(&coll_lock);
    for (p = parts; p != NULL; p = p->next)
        if (p->rank == op->rank && p->count == op->count && p->key == op->key && p->pid == getpid())
            break;
    if (p == NULL && (p = calloc(1, sizeof(*p))) != NULL) {
        *p = (part){ .rank = op->rank,
                     .count = op->count,
                     .key = op->key,
                     .fd = -1,
                     .offset = namespace_offset(),
                     .pid = getpid(),
                     .next = parts };
        parts = p;
    }
    pthread_mutex_unlock(&coll_lock);
    return p;
}

static NRT_STATUS
exchange(const part *p, const sim_coll_op *op, int64_t deadline, int64_t *ret_last)
{
    ask a = { .magic = ASK_MAGIC,
              .rank = op->rank,
              .count = op->count,
              .len = op->len,
              .key = op->key,
              .seq = op->seq,
              .boot = boot_hash(),
              .arrive = op->arrive - p->offset };
    answer got;
    bool sent;

    sent = move_all(p->fd, &a, sizeof(a), false, deadline);
    if (sent && op->len > 0) {
        void *copy = malloc(op->len);

        if (copy != NULL)
            memcpy(copy, op->in, op->len);
        sent = copy != NULL && move_all(p->fd, copy, op->len, false, deadline);
        free(copy);
    }
    if (!sent || !move_all(p->fd, &got, sizeof(got), true, deadline) || got.magic != ASK_MAGIC)
        return sim_raw() >= deadline ? NRT_TIMEOUT : NRT_EXEC_HW_ERR_COLLECTIVES;
    if (got.status != NRT_SUCCESS)
        return (NRT_STATUS) got.status;
    if (got.len != op->count * op->len ||
        (got.len > 0 && !move_all(p->fd, op->out, got.len, true, deadline)))
        return NRT_NETWORK_PROXY_FAILURE;
    *ret_last = got.same_boot != 0 ? got.last + p->offset : sim_raw();
    return NRT_SUCCESS;
}

NRT_STATUS
sim_coll_wait(const sim_coll_op *op, int64_t *ret_last)
{
    int64_t deadline = sim_raw() + sim.exec_timeout_ns;
    NRT_STATUS status;
    part *p;

    if (op->count == 0 || op->rank >= op->count || op->len > PAYLOAD_MAX)
        return NRT_INVALID;
    if (op->count == 1) {
        *ret_last = op->arrive;
        if (op->len > 0)
            memcpy(op->out, op->in, op->len);
        return NRT_SUCCESS;
    }
    if ((status = sim_coll_prepare(op->rank)) != NRT_SUCCESS)
        return status;
    if ((p = part_of(op)) == NULL)
        return NRT_RESOURCE;
    if (p->fd < 0 && (p->fd = dial(deadline)) < 0)
        return NRT_NETWORK_PROXY_FAILURE;
    status = exchange(p, op, deadline, ret_last);
    /* closing the connection makes the collective fail for the other participants */
    if (status != NRT_SUCCESS) {
        close(p->fd);
        p->fd = -1;
    }
    return status;
}

void
sim_coll_close(void)
{
    uint64_t one = 1;

    pthread_mutex_lock(&coll_lock);
    while (parts != NULL) {
        part *p = parts;

        parts = p->next;
        if (p->fd >= 0)
            close(p->fd);
        free(p);
    }
    if (root.runs && write(root.stop_fd, &one, sizeof(one)) == (ssize_t) sizeof(one)) {
        pthread_join(root.thread, NULL);
        root_clear();
    }
    pthread_mutex_unlock(&coll_lock);
}

void
sim_coll_forked(void)
{
    pthread_mutex_init(&coll_lock, NULL);
    parts = NULL; /* forgotten, because the connections belong to the parent process */
    memset(&root, 0, sizeof(root));
    root.listen_fd = root.stop_fd = -1;
}

/* ---- functions of the runtime's interface ---------------------------------------------------- */

static NRT_STATUS
global_comm(int64_t vnc, uint32_t g_device_id, uint32_t g_device_count)
{
    SIM_NEEDS_OPEN();
    if (vnc < 0 || vnc >= (int64_t) sim.core_count || g_device_count == 0 ||
        g_device_id >= g_device_count || g_device_count > RANKS_MAX)
        return NRT_INVALID;
    sim.core[vnc].g_id = g_device_id;
    sim.core[vnc].g_count = g_device_count;
    return sim_coll_prepare(g_device_id);
}

NRT_STATUS
nrt_build_global_comm(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count)
{
    return global_comm(vnc, g_device_id, g_device_count);
}

NRT_STATUS
nrt_cc_global_comm_init(uint32_t vnc, uint32_t g_device_id, uint32_t g_device_count)
{
    return global_comm((int64_t) vnc, g_device_id, g_device_count);
}

/* Returns how many times this rank has called the collective `key`, including this call. The n-th
 * call of a rank belongs to the n-th call of the other ranks. */
static uint64_t
nth_call(uint64_t key, uint32_t rank, uint32_t count)
{
    static struct {
        uint64_t key, n;
        uint32_t rank, count;
    } calls[256];
    static size_t used;
    uint64_t n = 0;
    size_t i;

    pthread_mutex_lock(&coll_lock);
    for (i = 0; i < used; i++)
        if (calls[i].key == key && calls[i].rank == rank && calls[i].count == count)
            break;
    if (i == used && used < SIM_COUNT(calls)) {
        calls[used].key = key;
        calls[used].rank = rank;
        calls[used++].count = count;
    }
    if (i < used)
        n = ++calls[i].n;
    pthread_mutex_unlock(&coll_lock);
    return n;
}

static NRT_STATUS
host_collective(int32_t vnc, uint32_t id, uint32_t count, uint64_t key, uint32_t len, void *in,
                void *out)
{
    sim_coll_op op = { .rank = id, .count = count, .key = key, .in = in, .out = out, .len = len };
    uint64_t arg[1] = { 0 };
    int64_t last;
    sim_core *core;
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if (vnc < 0 || (uint32_t) vnc >= sim.core_count || count == 0 || id >= count)
        return NRT_INVALID;
    core = &sim.core[vnc];
    if ((op.seq = nth_call(key, id, count)) == 0)
        return NRT_RESOURCE;
    op.arrive = sim_raw();
    if ((status = sim_coll_wait(&op, &last)) != NRT_SUCCESS)
        return status;
    last += 20 * MRD_US;
    sim_sleep_until(last);
    sim_span(core, SIM_EV_cc_exec_barrier, NULL, op.arrive, last, arg, 1);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_barrier(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count)
{
    return host_collective(vnc, g_device_id, g_device_count, 0x62617272, 0, NULL, NULL);
}

NRT_STATUS
nrt_all_gather(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count, uint32_t rank_input_size,
               void *input, void *output)
{
    SIM_NEEDS_OPEN();
    if (input == NULL || output == NULL || rank_input_size == 0 || rank_input_size > PAYLOAD_MAX)
        return NRT_INVALID;
    return host_collective(vnc, g_device_id, g_device_count, 0x67617468, rank_input_size, input,
                           output);
}
