/* Simulates point-to-point transfer of tensors, debug streams, and functions about the machine that
 * work without nrt_init. */
#include "sim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- asynchronous send and receive ------------------------------------------------------------
 *
 * Two communicators are connected by a socket that preserves message boundaries. The receiver
 * listens at an address made from the names of both ends, and the sender connects to it. Only peers
 * on loopback addresses are simulated. A connection to another address times out, as if the peer
 * did not answer. */

#define COMMS_MAX    16
#define REQUESTS_MAX 64
#define PORTION      32768u /* maximum bytes of one datagram */

struct nrt_async_sendrecv_comm {
    uint32_t magic;
    bool sends;
    int lnc, fd, listen_fd;
    int64_t deadline;
    struct sockaddr_un at;
    socklen_t at_len;
    uint32_t pending;
    struct nrt_async_sendrecv_comm *next;
};

struct nrt_async_sendrecv_request {
    nrt_async_sendrecv_comm_t *comm;
    nrt_tensor_t *tensor;
    size_t offset, length, done;
};

#define COMM_MAGIC 0x6d6d6f63u

static pthread_mutex_t misc_lock = PTHREAD_MUTEX_INITIALIZER;
static nrt_async_sendrecv_comm_t *comms;
static bool lnc_open[SIM_CORES_MAX];

NRT_STATUS
nrt_async_sendrecv_get_max_num_communicators_per_lnc(int *num)
{
    if (num == NULL)
        return NRT_FAILURE;
    *num = COMMS_MAX;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_async_sendrecv_get_max_num_pending_request(int *num)
{
    if (num == NULL)
        return NRT_FAILURE;
    *num = REQUESTS_MAX;
    return NRT_SUCCESS;
}

static bool
lnc_valid(int lnc)
{
    return lnc >= 0 && (uint32_t) lnc < sim.core_total;
}

NRT_STATUS
nrt_async_sendrecv_init(int lnc)
{
    NRT_STATUS status = NRT_FAILURE;

    SIM_NEEDS_OPEN();
    pthread_mutex_lock(&misc_lock);
    if (lnc_valid(lnc) && !lnc_open[lnc]) {
        lnc_open[lnc] = true;
        status = NRT_SUCCESS;
    }
    pthread_mutex_unlock(&misc_lock);
    return status;
}

static void
comm_free(nrt_async_sendrecv_comm_t *comm)
{
    if (comm->fd >= 0)
        close(comm->fd);
    if (comm->listen_fd >= 0)
        close(comm->listen_fd);
    comm->magic = 0;
    free(comm);
}

NRT_STATUS
nrt_async_sendrecv_close(int lnc)
{
    NRT_STATUS status = NRT_FAILURE;

    SIM_NEEDS_OPEN();
    pthread_mutex_lock(&misc_lock);
    if (lnc_valid(lnc) && lnc_open[lnc]) {
        lnc_open[lnc] = false;
        status = NRT_SUCCESS;
        for (nrt_async_sendrecv_comm_t **at = &comms; *at != NULL;) {
            nrt_async_sendrecv_comm_t *comm = *at;

            if (comm->lnc != lnc) {
                at = &comm->next;
                continue;
            }
            if (comm->fd < 0 || comm->pending > 0)
                /* the communicator is not connected, or its requests are in flight */
                status = NRT_FAILURE;
            *at = comm->next;
            comm_free(comm);
        }
    }
    pthread_mutex_unlock(&misc_lock);
    return status;
}

static uint32_t
comms_of(int lnc)
{
    uint32_t n = 0;

    for (const nrt_async_sendrecv_comm_t *comm = comms; comm != NULL; comm = comm->next)
        n += comm->lnc == lnc;
    return n;
}

static NRT_STATUS
comm_new(const char *ip, int to, int from, int lnc, bool sends, nrt_async_sendrecv_comm_t **ret)
{
    nrt_async_sendrecv_comm_t *comm;
    int count;

    SIM_NEEDS_OPEN();
    if (ip == NULL || ret == NULL || !lnc_valid(lnc) || !lnc_valid(to) || !lnc_valid(from) ||
        !lnc_open[lnc])
        return NRT_FAILURE;
    pthread_mutex_lock(&misc_lock);
    if (comms_of(lnc) >= COMMS_MAX || (comm = calloc(1, sizeof(*comm))) == NULL) {
        pthread_mutex_unlock(&misc_lock);
        return NRT_RESOURCE;
    }
    *comm = (nrt_async_sendrecv_comm_t){
        .magic = COMM_MAGIC, .sends = sends, .lnc = lnc, .fd = -1, .listen_fd = -1, .next = comms
    };
    comm->deadline = sim_raw() + sim.exec_timeout_ns;
    comm->at.sun_family = AF_UNIX;
    count = snprintf(comm->at.sun_path + 1, sizeof(comm->at.sun_path) - 1,
                     "simnrt.sr.%u.%s.%s.%d.%d", (unsigned) getuid(), sim.node, sim.job, from, to);
    comm->at_len = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) count);
    if (!sends && (strncmp(ip, "127.", 4) == 0 || strcmp(ip, "::1") == 0)) {
        comm->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (bind(comm->listen_fd, (struct sockaddr *) &comm->at, comm->at_len) != 0 ||
            listen(comm->listen_fd, 1) != 0) {
            pthread_mutex_unlock(&misc_lock);
            comm_free(comm);
            return NRT_FAILURE;
        }
    }
    comms = comm;
    pthread_mutex_unlock(&misc_lock);
    *ret = comm;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_async_sendrecv_connect(const char *peer_ip, int peer_lnc, int lnc,
                           nrt_async_sendrecv_comm_t **comm)
{
    return comm_new(peer_ip, peer_lnc, lnc, lnc, true, comm);
}

NRT_STATUS
nrt_async_sendrecv_accept(const char *peer_ip, int peer_lnc, int lnc,
                          nrt_async_sendrecv_comm_t **comm)
{
    return comm_new(peer_ip, lnc, peer_lnc, lnc, false, comm);
}

static bool
comm_valid(const nrt_async_sendrecv_comm_t *comm)
{
    return comm != NULL && comm->magic == COMM_MAGIC;
}

NRT_STATUS
nrt_async_sendrecv_test_comm(nrt_async_sendrecv_comm_t *comm, bool *done)
{
    SIM_NEEDS_OPEN();
    if (!comm_valid(comm))
        return NRT_INVALID_HANDLE;
    if (done == NULL)
        return NRT_FAILURE;
    if (comm->fd < 0 && comm->sends) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd >= 0 && connect(fd, (struct sockaddr *) &comm->at, comm->at_len) == 0)
            comm->fd = fd;
        else if (fd >= 0)
            close(fd);
    } else if (comm->fd < 0 && comm->listen_fd >= 0)
        comm->fd = accept4(comm->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    *done = comm->fd >= 0;
    return *done || sim_raw() < comm->deadline ? NRT_SUCCESS : NRT_TIMEOUT;
}

static NRT_STATUS
request_new(nrt_tensor_t *tensor, size_t offset, size_t length, nrt_async_sendrecv_comm_t *comm,
            bool sends, nrt_async_sendrecv_request_t **request)
{
    nrt_async_sendrecv_request_t *r;

    SIM_NEEDS_OPEN();
    if (!comm_valid(comm) || sim_tensor_check(tensor) != NRT_SUCCESS)
        return NRT_INVALID_HANDLE;
    if (request == NULL || comm->fd < 0 || comm->sends != sends || tensor->storage == NULL ||
        length == 0 || offset > tensor->size || length > tensor->size - offset)
        return NRT_FAILURE;
    if (comm->pending >= REQUESTS_MAX || (r = calloc(1, sizeof(*r))) == NULL)
        return NRT_RESOURCE;
    *r = (nrt_async_sendrecv_request_t){ comm, tensor, offset, length, 0 };
    comm->pending++;
    *request = r;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_async_sendrecv_send_tensor(nrt_tensor_t *tensor, size_t offset, size_t length,
                               nrt_async_sendrecv_comm_t *comm,
                               nrt_async_sendrecv_request_t **request)
{
    return request_new(tensor, offset, length, comm, true, request);
}

NRT_STATUS
nrt_async_sendrecv_recv_tensor(nrt_tensor_t *tensor, size_t offset, size_t length,
                               nrt_async_sendrecv_comm_t *comm,
                               nrt_async_sendrecv_request_t **request)
{
    return request_new(tensor, offset, length, comm, false, request);
}

/* Transfers the next portion of a request without blocking. Returns the number of bytes, 0 at the
 * end of the connection, or -1. The program's calls of nrt_async_sendrecv_test_request() advance
 * the transfer. */
static ssize_t
step(nrt_async_sendrecv_request_t *request)
{
    uint8_t *at =
        request->tensor->storage->bytes + request->tensor->offset + request->offset + request->done;
    size_t left = request->length - request->done, n = left < PORTION ? left : PORTION;

    return request->comm->sends ? send(request->comm->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT)
                                : recv(request->comm->fd, at, n, MSG_DONTWAIT);
}

NRT_STATUS
nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t *request, bool *done, size_t *size)
{
    ssize_t n = 1;

    SIM_NEEDS_OPEN();
    if (request == NULL || !comm_valid(request->comm))
        return NRT_INVALID_HANDLE;
    if (done == NULL || size == NULL)
        return NRT_FAILURE;
    while (request->done < request->length && (n = step(request)) > 0)
        request->done += (size_t) n;
    *size = request->done;
    *done = request->done == request->length;
    if (!*done && (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)))
        return NRT_FAILURE;
    if (*done) {
        request->comm->pending--;
        free(request);
    }
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_async_sendrecv_flush(int lnc)
{
    SIM_NEEDS_OPEN();
    return lnc_valid(lnc) && lnc_open[lnc] ? NRT_SUCCESS : NRT_FAILURE;
}

/* ---- debug streams: one client per core, an event every SIMNRT_DEBUG_EVERY executions -------- */

#define STREAM_MAX 1024

static struct {
    int fd; /* an eventfd in semaphore mode, which counts the events that were not read yet */
    uint64_t exec[STREAM_MAX];
    size_t head, tail;
    bool open;
} streams[SIM_CORES_MAX];

NRT_STATUS
nrt_debug_client_connect(int lnc, int *stream_fd)
{
    NRT_STATUS status = NRT_INVALID;

    SIM_NEEDS_OPEN();
    if (stream_fd == NULL || lnc < 0 || (uint32_t) lnc >= sim.core_count)
        return NRT_INVALID;
    pthread_mutex_lock(&misc_lock);
    if (!streams[lnc].open) {
        streams[lnc].fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
        streams[lnc].head = streams[lnc].tail = 0;
        streams[lnc].open = streams[lnc].fd >= 0;
        *stream_fd = streams[lnc].fd;
        status = streams[lnc].open ? NRT_SUCCESS : NRT_RESOURCE;
    }
    pthread_mutex_unlock(&misc_lock);
    return status;
}

static int
stream_of(int fd)
{
    for (uint32_t i = 0; i < SIM_CORES_MAX; i++)
        if (streams[i].open && streams[i].fd == fd)
            return (int) i;
    return -1;
}

void
nrt_debug_client_connect_close(int stream_fd)
{
    int i;

    pthread_mutex_lock(&misc_lock);
    if ((i = stream_of(stream_fd)) >= 0) {
        close(stream_fd);
        streams[i].open = false;
    }
    pthread_mutex_unlock(&misc_lock);
}

void
sim_debug_executed(sim_core *core, uint64_t exec_id)
{
    uint64_t one = 1;
    size_t i = core->idx;

    pthread_mutex_lock(&misc_lock);
    if (streams[i].open && exec_id % (uint64_t) sim.set.debug_every == 0 &&
        streams[i].head - streams[i].tail < STREAM_MAX &&
        write(streams[i].fd, &one, sizeof(one)) == (ssize_t) sizeof(one))
        streams[i].exec[streams[i].head++ % STREAM_MAX] = exec_id;
    pthread_mutex_unlock(&misc_lock);
}

NRT_STATUS
nrt_debug_client_read_one_event(int stream_fd, ndebug_stream_event_header_t *header, void **payload)
{
    ndebug_stream_payload_debug_tensor_read_t *p;
    uint64_t exec = 0, one;
    int i;

    SIM_NEEDS_OPEN();
    if (header == NULL || payload == NULL)
        return NRT_INVALID;
    if ((p = calloc(1, sizeof(*p) + sizeof(exec))) == NULL)
        return NRT_RESOURCE;
    pthread_mutex_lock(&misc_lock);
    if ((i = stream_of(stream_fd)) < 0 || streams[i].head == streams[i].tail ||
        read(stream_fd, &one, sizeof(one)) != (ssize_t) sizeof(one)) {
        pthread_mutex_unlock(&misc_lock);
        free(p);
        return i < 0 ? NRT_INVALID : NRT_QUEUE_EMPTY;
    }
    exec = streams[i].exec[streams[i].tail++ % STREAM_MAX];
    pthread_mutex_unlock(&misc_lock);
    memset(header, 0, sizeof(*header));
    header->type = NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ;
    header->data_size = sizeof(*p) + sizeof(exec);
    snprintf(p->prefix, sizeof(p->prefix), SIM_LABEL ": exec_id of the execution");
    p->logical_nc_id = (uint32_t) i;
    snprintf(p->tensor_dtype, sizeof(p->tensor_dtype), "uint64");
    p->tensor_shape[0] = 1;
    p->tensor_data_size = sizeof(exec);
    memcpy(p->tensor_data, &exec, sizeof(exec));
    *payload = p;
    return NRT_SUCCESS;
}

void
sim_misc_forked(void)
{
    pthread_mutex_init(&misc_lock, NULL);
    comms = NULL;
    memset(lnc_open, 0, sizeof(lnc_open));
    memset(streams, 0, sizeof(streams));
}

void
sim_misc_close(void)
{
    pthread_mutex_lock(&misc_lock);
    while (comms != NULL) {
        nrt_async_sendrecv_comm_t *comm = comms;

        comms = comm->next;
        comm_free(comm);
    }
    memset(lnc_open, 0, sizeof(lnc_open));
    for (uint32_t i = 0; i < SIM_CORES_MAX; i++)
        if (streams[i].open) {
            close(streams[i].fd);
            streams[i].open = false;
        }
    pthread_mutex_unlock(&misc_lock);
}

/* ---- calls about the machine that the simulation does not implement -------------------------- */

void *
nrt_get_libnccl_net(int *err, char *message, size_t message_size)
{
    if (err != NULL)
        *err = ENOENT;
    if (message != NULL && message_size > 0)
        snprintf(message, message_size, "the simulated runtime has no network plug-in");
    return NULL;
}

NRT_STATUS
nrt_get_attached_efa_bdf(const void *va, char *bdf, size_t *len)
{
    /* the address is simulated, because there is no such device */
    static const char address[] = "0000:00:00.0";

    SIM_NEEDS_OPEN();
    if (va == NULL || bdf == NULL || len == NULL)
        return NRT_FAILURE;
    if (*len < sizeof(address))
        return NRT_RESOURCE;
    memcpy(bdf, address, sizeof(address));
    *len = sizeof(address) - 1;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_get_dmabuf_fd(uint64_t va, uint64_t size, int *fd)
{
    SIM_NEEDS_OPEN();
    (void) va;
    if (size == 0 || fd == NULL)
        return NRT_INVALID;
    return NRT_FAILURE; /* fails, because there is no device memory to share */
}

NRT_STATUS
nrt_get_hbm_mmap_va(int device_id, int hbm_idx, void **addr, size_t *size)
{
    SIM_NEEDS_OPEN();
    if (device_id < 0 || (uint32_t) device_id >= sim.instance->devices || hbm_idx < 0 ||
        addr == NULL || size == NULL)
        return NRT_INVALID;
    /* the status that the documentation names for "no more regions to map" */
    return NRT_INVALID_HANDLE;
}

NRT_STATUS
nrt_memcpy_to_device(void *dest, const void *src, size_t size)
{
    SIM_NEEDS_OPEN();
    if (dest == NULL || src == NULL)
        return NRT_INVALID;
    memcpy(dest, src, size);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_set_pool_eng_ucode(const nrt_ucode_info *info)
{
    if (info == NULL)
        return NRT_INVALID;
    /* succeeds only before nrt_init */
    return sim_check() == NRT_SUCCESS ? NRT_FAILURE : NRT_SUCCESS;
}
