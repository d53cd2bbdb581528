/* Keeps the asynchronous requests that are in flight, with a queue for each execution unit of the
 * runtime, and records their ends. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "capture/nrt/nrt_async.h"
#include "capture/nrt/nrt_call.h"
#include "capture/process.h"

#define QUEUES_MAX 256u
/* Initial number of slots in a queue of requests. By default, the runtime accepts about half as
 * many at a time. */
#define REQUESTS_FIRST 128u
/* maximum number of slots in a queue; REQUESTS_FIRST doubled several times */
#define REQUESTS_MAX 65536u
#define TRACKERS_MAX 64u
#define LOOK_MAX     256u /* maximum queries of one poll */

typedef struct {
    nrta_seq_t seq;
    /* id of the request's span, and time of the last query that found the request in flight */
    uint64_t span, since_ticks;
    const NRT_STATUS *status;
    bool shared; /* true if a later request gets its status at the same address */
} request;

typedef struct {
    uint32_t unit; /* id of the execution unit, from the top bits of its sequence numbers */
    unsigned version;
    mrd_nrt_work work; /* kind of the last request; requests of a queue may differ */
    uint32_t track;
    uint32_t head, tail, places; /* `places` is the size of `ring`, a power of two */
    request *ring;
} queue;

/* pid of the holder, so that a lock of the parent counts as free after fork */
static _Atomic uint32_t lock;
static uint32_t owner; /* pid of the process to which the following state belongs */
/* True while this thread has the lock. A signal handler that interrupts the thread then records no
 * request. */
static _Thread_local volatile bool holding __attribute__((tls_model("initial-exec")));
static queue *queues[QUEUES_MAX];
static size_t n_queues;
static _Atomic unsigned under_way;
static struct {
    const nrta_error_tracker_t *tracker;
    size_t told;
} trackers[TRACKERS_MAX];
static size_t next_tracker;

/* Takes the lock. Returns false if this process has recorded nothing, or in a signal handler that
 * interrupted the holder. */
static bool
take_lock(void)
{
    uint32_t me = mrd_proc_pid(), seen = 0;

    if (me == 0 || holding)
        return false;
    holding = true;
    while (!atomic_compare_exchange_strong(&lock, &seen, me))
        /* Wait only while a thread of this process has the lock. After a fork, the lock may have
         * the pid of the parent, and is then free. */
        if (seen == me) {
            sched_yield();
            seen = 0;
        }
    if (owner != me) { /* a child of fork drops the requests of its parent */
        owner = me;
        n_queues = 0;
        memset(trackers, 0, sizeof(trackers));
        atomic_store(&under_way, 0);
    }
    return true;
}

static void
drop_lock(void)
{
    atomic_store(&lock, 0);
    holding = false;
}

static request *
place(const queue *q, uint32_t at)
{
    return &q->ring[at & (q->places - 1)];
}

static queue *
find(nrta_seq_t seq)
{
    for (size_t i = 0; i < n_queues; i++)
        if (queues[i]->unit == (uint32_t) NRTA_SEQ_GET_XU_ID(seq))
            return queues[i];
    return NULL;
}

static queue *
make(const mrd_nrt_request *nrt_request)
{
    static const char *const kinds[MRD_NRT_WORKS] = { "compute", "tensors", "tensors", "tensors",
                                                      "collectives" };
    queue *q = n_queues == QUEUES_MAX ? NULL : calloc(1, sizeof(*q));
    char name[64];

    if (q == NULL || (q->ring = malloc(REQUESTS_FIRST * sizeof(*q->ring))) == NULL) {
        free(q);
        return NULL;
    }
    q->places = REQUESTS_FIRST;
    snprintf(name, sizeof(name), "nrta %s, queue %d", kinds[nrt_request->work],
             (int) nrt_request->queue);
    q->unit = (uint32_t) NRTA_SEQ_GET_XU_ID(nrt_request->seq);
    q->version = nrt_request->version;
    q->track = mrd_rec_track(MRD_RING_TRACK_SPANS, name, mrd_rec_name("nrt"), nrt_request->lnc_idx,
                             -1, -1, 0);
    queues[n_queues++] = q;
    return q;
}

/* Makes room for one more request. If out of memory, drops the oldest request, and its end is then
 * not recorded. */
static void
make_room(queue *q)
{
    request *more;

    if (q->tail - q->head < q->places)
        return;
    more = q->places == REQUESTS_MAX ? NULL : malloc(2 * q->places * sizeof(*more));
    if (more == NULL) {
        q->head++;
        atomic_fetch_sub(&under_way, 1);
        return;
    }
    for (uint32_t i = q->head; i != q->tail; i++)
        more[i & (2 * q->places - 1)] = *place(q, i);
    free(q->ring);
    q->ring = more;
    q->places *= 2;
}

/* ---- recording the ends of requests ---------------------------------------------------------- */

/* Reads the status that the runtime stored in the program's memory. Returns false if the address is
 * no longer mapped or has a value that is no status. */
static bool
read_status(const NRT_STATUS *from, NRT_STATUS *ret_status)
{
    NRT_STATUS status;
    struct iovec here = { &status, sizeof(status) }, there;

    if (from == NULL)
        return false;
    there.iov_base = (void *) (uintptr_t) from;
    there.iov_len = sizeof(status);
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t) sizeof(status) ||
        !mrd_nrt_status_known(status))
        return false;
    *ret_status = status;
    return true;
}

/* Records the end of the oldest request of a queue. `told` is the status that the runtime returned
 * for the request. If `told` is NULL, the status is read from the program's memory. The caller
 * holds the lock. */
static void
end_first(queue *q, const NRT_STATUS *told)
{
    request *req = place(q, q->head++);
    NRT_STATUS status = NRT_SUCCESS;
    mrd_rec_arg args[4];
    size_t n = 0;
    bool known = told != NULL
                     ? (status = *told, true)
                     : q->version == 3 && !req->shared && read_status(req->status, &status);

    atomic_fetch_sub(&under_way, 1);
    args[n++] =
        mrd_nrt_u64(MRD_NRT_KEY_end_within_ns,
                    (uint64_t) (mrd_rec_raw_ns(mrd_rec_now()) - mrd_rec_raw_ns(req->since_ticks)));
    if (known && status != NRT_SUCCESS) {
        args[n++] = mrd_nrt_i64(MRD_NRT_KEY_status, status);
        args[n++] = mrd_nrt_text(MRD_NRT_KEY_status_text, mrd_nrt_status_name(status));
    } else if (!known && q->version == 3) { /* an unknown status must not look like success */
        args[n++] = mrd_nrt_text(MRD_NRT_KEY_status_text, "not known");
    }
    mrd_rec_end(req->span, args, n);
}

static void
end_up_to(queue *q, nrta_seq_t seq)
{
    while (q->head != q->tail && place(q, q->head)->seq <= seq)
        end_first(q, NULL);
}

/* Marks earlier requests that get their status at this address. The new request may overwrite their
 * status before their end is observed. */
static void
share_place(const NRT_STATUS *place_of_status)
{
    for (size_t i = 0; i < n_queues && place_of_status != NULL; i++)
        for (uint32_t at = queues[i]->head; at != queues[i]->tail; at++)
            if (place(queues[i], at)->status == place_of_status)
                place(queues[i], at)->shared = true;
}

void
mrd_nrt_async_taken(const mrd_nrt_request *nrt_request)
{
    static const char *const names[MRD_NRT_WORKS] = { "nrta_execute", "nrta_read", "nrta_write",
                                                      "nrta_copy", "nrta_collective" };
    mrd_rec_arg args[3];
    mrd_rec_what what = { .flags = MRD_RECF_API };
    int saved = errno;
    queue *q;

    if (!mrd_rec_on(MRD_CAP_API) || !take_lock())
        return;
    if ((q = find(nrt_request->seq)) != NULL || (q = make(nrt_request)) != NULL) {
        share_place(nrt_request->status);
        make_room(q);
        what.name = mrd_rec_name(names[nrt_request->work]);
        what.name_text = names[nrt_request->work];
        what.domain = mrd_rec_name("nrt");
        what.track = q->track;
        args[0] = mrd_nrt_u64(MRD_NRT_KEY_nrta_seq_id, nrt_request->seq);
        args[1] = mrd_nrt_i64(MRD_NRT_KEY_queue, nrt_request->queue);
        args[2] = nrt_request->arg;
        *place(q, q->tail++) = (request){ .seq = nrt_request->seq,
                                          .span = mrd_rec_begin(&what, args, 3),
                                          .since_ticks = mrd_rec_now(),
                                          .status = nrt_request->status };
        atomic_fetch_add(&under_way, 1);
    }
    drop_lock();
    errno = saved;
}

void
mrd_nrt_async_ended(nrta_seq_t seq)
{
    int saved = errno;
    queue *q;

    if (atomic_load(&under_way) == 0 || !take_lock())
        return;
    if ((q = find(seq)) != NULL)
        end_up_to(q, seq);
    drop_lock();
    errno = saved;
}

/* ---- errors of the older interface ----------------------------------------------------------- */

static size_t *
reported_of(const nrta_error_tracker_t *tracker)
{
    for (size_t i = 0; i < TRACKERS_MAX; i++)
        if (trackers[i].tracker == tracker)
            return &trackers[i].told;
    trackers[next_tracker % TRACKERS_MAX].tracker = tracker;
    trackers[next_tracker % TRACKERS_MAX].told = 0;
    return &trackers[next_tracker++ % TRACKERS_MAX].told;
}

/* Records an error as a span of its own (nrta_error, duration 0), because the span of its request
 * has already ended. */
static void
tell_error(const nrta_error_t *error)
{
    mrd_rec_arg args[3] = { mrd_nrt_u64(MRD_NRT_KEY_nrta_seq_id, error->seq_id),
                            mrd_nrt_i64(MRD_NRT_KEY_status, (int64_t) error->error_code),
                            mrd_nrt_text(MRD_NRT_KEY_status_text,
                                         mrd_nrt_status_name((NRT_STATUS) error->error_code)) };
    mrd_rec_what what = { .name = mrd_rec_name("nrta_error"),
                          .name_text = "nrta_error",
                          .domain = mrd_rec_name("nrt"),
                          .flags = MRD_RECF_API };
    uint64_t now = mrd_rec_now();

    mrd_rec_span(&what, now, now, args, 3);
}

void
mrd_nrt_async_errors(const nrta_error_tracker_t *tracker, const nrta_error_t *list, size_t count)
{
    int saved = errno;
    size_t *told;

    if (list == NULL || !mrd_rec_on(MRD_CAP_API) || !take_lock())
        return;
    told = reported_of(tracker);
    *told = *told > count ? 0 : *told;
    for (; *told < count; (*told)++) {
        const nrta_error_t *error = &list[*told];
        NRT_STATUS status = (NRT_STATUS) error->error_code;
        queue *q = find(error->seq_id);

        while (q != NULL && q->head != q->tail && place(q, q->head)->seq < error->seq_id)
            end_first(q, NULL);
        if (q != NULL && q->head != q->tail && place(q, q->head)->seq == error->seq_id)
            end_first(q, &status);
        else
            tell_error(error);
    }
    drop_lock();
    errno = saved;
}

void
mrd_nrt_async_tracker_gone(const nrta_error_tracker_t *tracker)
{
    int saved = errno;

    if (tracker == NULL || !take_lock())
        return;
    for (size_t i = 0; i < TRACKERS_MAX; i++)
        if (trackers[i].tracker == tracker)
            trackers[i].tracker = NULL;
    drop_lock();
    errno = saved;
}

/* ---- polling the runtime for ends ---------------------------------------------------------- */

static NRT_STATUS
ask(unsigned version, nrta_seq_t seq, bool *ret_done)
{
    if (version == 2)
        return MRD_NRT_REAL(nrta2_is_completed) == NULL
                   ? NRT_FAILURE
                   : MRD_NRT_REAL(nrta2_is_completed)(seq, ret_done);
    return MRD_NRT_REAL(nrta3_is_completed) == NULL
               ? NRT_FAILURE
               : MRD_NRT_REAL(nrta3_is_completed)(seq, ret_done);
}

/* Finds the oldest request of the first queue that is not empty, from index *at on. Sets *at to the
 * index of that queue. Returns false if all these queues are empty. */
static bool
oldest_from(size_t *at, unsigned *ret_version, nrta_seq_t *ret_seq)
{
    bool found = false;

    if (!take_lock())
        return false;
    for (; *at < n_queues && !found; *at += !found) {
        const queue *q = queues[*at];

        if ((found = q->head != q->tail)) {
            *ret_version = q->version;
            *ret_seq = place(q, q->head)->seq;
        }
    }
    drop_lock();
    return found;
}

static void
not_ended(nrta_seq_t seq, uint64_t asked)
{
    queue *q;

    if (!take_lock())
        return;
    q = find(seq);
    for (uint32_t i = q == NULL ? 0 : q->head; q != NULL && i != q->tail; i++)
        if (place(q, i)->seq >= seq && place(q, i)->since_ticks < asked)
            place(q, i)->since_ticks = asked;
    drop_lock();
}

bool
mrd_nrt_async_poll(void)
{
    int saved = errno;
    nrta_seq_t seq = 0;
    unsigned version = 0, looks = 0;
    size_t at = 0;

    mrd_nrt_ours_begin();
    while (atomic_load(&under_way) > 0 && looks++ < LOOK_MAX && oldest_from(&at, &version, &seq)) {
        uint64_t asked = mrd_rec_now();
        bool done = false;

        if (ask(version, seq, &done) == NRT_SUCCESS && done) {
            mrd_nrt_async_ended(seq);
        } else {
            not_ended(seq, asked);
            at++;
        }
    }
    mrd_nrt_ours_end();
    errno = saved;
    return atomic_load(&under_way) > 0;
}

void
mrd_nrt_async_closed(void)
{
    if (!take_lock())
        return;
    for (size_t i = 0; i < n_queues; i++) {
        free(queues[i]->ring);
        free(queues[i]);
    }
    n_queues = 0;
    atomic_store(&under_way, 0);
    memset(trackers, 0, sizeof(trackers));
    drop_lock();
}
