/*
 * Simulates explicit asynchronous execution of the runtime. There is one worker thread per
 * combination of core, unit (kind of work) and queue, and requests of a queue run in their order.
 * sim_async_2.c and sim_async_3.c implement the two versions of the runtime's interface.
 */
#include "sim_async.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/sys/threads.h"

#define UNITS      SIM_UNIT_COUNT
#define QUEUES_MAX 3
#define WATCH_MAX  256

struct nrta_error_tracker {
    uint32_t lnc;
    pthread_mutex_t lock;
    nrta_error_t *list;
    size_t count, room;
};

struct nrt_cc_context {
    sim_coll_op op;
    sim_core *core;
};

typedef struct {
    sim_async_unit unit;
    uint64_t seq;
    sim_async_err err;
    /* compute */
    sim_model *model;
    nrt_tensor_set_t *output;
    sim_async_move move;
    /* communicator, only for collectives */
    nrt_cc_context_t *cc;
} request;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    pthread_t thread;
    bool runs, stop;
    uint32_t core, unit, id; /* the top 16 bits of the queue's sequence numbers are its id */
    request *ring;
    /* total numbers of requests that were scheduled (head) and that the worker has taken (tail) */
    uint64_t head, tail;
    uint64_t completed; /* sequence number of the last completed request */
    int unit_fd;        /* descriptor that is signalled when a request completes; -1 means none */
    struct {
        uint64_t seq;
        int fd;
        bool own;
    } watch[WATCH_MAX];
    size_t watches;
} queue;

static queue *queues[SIM_CORES_MAX][UNITS][QUEUES_MAX];
static pthread_mutex_t queues_lock = PTHREAD_MUTEX_INITIALIZER;
static const int unit_queues[UNITS] = { 2, 2, 2, 1, 3 };

static void
record_error(const request *req, NRT_STATUS status)
{
    nrta_error_tracker_t *tracker = req->err.tracker;

    if (req->err.status != NULL) /* the status is stored before the request is reported complete */
        __atomic_store_n(req->err.status, status, __ATOMIC_RELEASE);
    if (tracker == NULL || status == NRT_SUCCESS)
        return;
    pthread_mutex_lock(&tracker->lock);
    if (tracker->count == tracker->room) {
        size_t room = tracker->room == 0 ? 16 : tracker->room * 2;
        nrta_error_t *grown = realloc(tracker->list, room * sizeof(*grown));

        if (grown != NULL) {
            tracker->list = grown;
            tracker->room = room;
        }
    }
    if (tracker->count < tracker->room)
        tracker->list[tracker->count++] = (nrta_error_t){ req->seq, (uint64_t) status };
    pthread_mutex_unlock(&tracker->lock);
}

static NRT_STATUS
run_copy(const sim_async_move *move)
{
    void *bounce = malloc(move->size);
    NRT_STATUS status = bounce == NULL ? NRT_RESOURCE : NRT_SUCCESS;

    if (status == NRT_SUCCESS)
        status = sim_tensor_move(move->tensor, bounce, NULL, move->offset, move->size);
    if (status == NRT_SUCCESS)
        status = sim_tensor_move(move->dst, NULL, bounce, move->dst_offset, move->size);
    free(bounce);
    return status;
}

static NRT_STATUS
run_collective(request *req)
{
    nrt_cc_context_t *cc = req->cc;
    int64_t last;
    uint64_t arg[4] = { cc->op.key & 0xffff, cc->op.seq, 0, 0 };
    NRT_STATUS status;

    cc->op.arrive = sim_raw();
    status = sim_coll_wait(&cc->op, &last);
    if (status == NRT_SUCCESS) {
        sim_sleep_until(last + 20 * MRD_US);
        sim_span(cc->core, SIM_EV_cc_running, NULL, cc->op.arrive, last + 20 * MRD_US, arg, 4);
    }
    free(cc);
    return status;
}

static NRT_STATUS
run_move(const request *req)
{
    static const sim_type types[2] = { SIM_EV_nrt_tensor_read, SIM_EV_nrt_tensor_write };
    const sim_async_move *move = &req->move;
    uint64_t arg[2] = { move->tensor->id, move->size }, t;
    NRT_STATUS status;
    sim_core *core;

    if (move->dst != NULL)
        return run_copy(move);
    core = move->tensor->storage != NULL && move->tensor->storage->core != NULL
               ? move->tensor->storage->core
               : &sim.core[0];
    t = sim_begin(core, types[move->from != NULL], NULL, req->seq, arg, 2);
    status = sim_tensor_move(move->tensor, move->to, move->from, move->offset, move->size);
    sim_end(core, types[move->from != NULL], t, req->seq, NULL, 0);
    return status;
}

/* Calls the program's registered function after an execution has ended. Reads the function and its
 * parameter under one lock, because the program may register others. */
static void
tell(uint32_t model_id, uint32_t core, nrta_seq_t seq, NRT_STATUS status)
{
    NRT_ASYNC_EXEC_STATUS_CALLBACK call;
    void *params;

    pthread_mutex_lock(&sim.lock);
    call = sim.callback;
    params = sim.callback_params;
    pthread_mutex_unlock(&sim.lock);
    if (call != NULL)
        call(params, model_id, core, seq, status);
}

static NRT_STATUS
run_request(request *req)
{
    switch (req->unit) {
    case SIM_UNIT_COMPUTE:
        return sim_model_check(req->model) == NRT_SUCCESS
                   ? sim_run(req->model, req->output, req->seq)
                   : NRT_INVALID_HANDLE;
    case SIM_UNIT_COLLECTIVES:
        return run_collective(req);
    default:
        break;
    }
    return run_move(req);
}

static void
signal_fd(int fd)
{
    uint64_t one = 1;

    if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
        return; /* the watching program has closed the descriptor */
}

/* Marks the requests up to `seq` as complete, and signals everyone that waits for them. The caller
 * holds q->lock. */
static void
complete(queue *q, uint64_t seq)
{
    size_t kept = 0;

    q->completed = seq;
    for (size_t i = 0; i < q->watches; i++) {
        if (q->watch[i].seq > seq) {
            q->watch[kept++] = q->watch[i];
            continue;
        }
        signal_fd(q->watch[i].fd);
        if (q->watch[i].own)
            close(q->watch[i].fd);
    }
    q->watches = kept;
    signal_fd(q->unit_fd);
    pthread_cond_broadcast(&q->done);
}

static void *
work(void *arg)
{
    queue *q = arg;

    pthread_mutex_lock(&q->lock);
    while (true) {
        request req;
        NRT_STATUS status;

        while (q->head == q->tail && !q->stop)
            pthread_cond_wait(&q->more, &q->lock);
        if (q->head == q->tail)
            break;
        req = q->ring[q->tail % (uint64_t) sim.set.queue_depth];
        pthread_mutex_unlock(&q->lock);
        status = run_request(&req);
        record_error(&req, status);
        if (req.unit == SIM_UNIT_COMPUTE)
            tell(req.model->id, q->core, req.seq, status);
        pthread_mutex_lock(&q->lock);
        q->tail++;
        complete(q, req.seq);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

static queue *
queue_new(uint32_t core, uint32_t unit, uint32_t index)
{
    queue *q = calloc(1, sizeof(*q));

    if (q == NULL || (q->ring = calloc((size_t) sim.set.queue_depth, sizeof(*q->ring))) == NULL) {
        free(q);
        return NULL;
    }
    pthread_mutex_init(&q->lock, NULL);
    mrd_cond_init(&q->more);
    mrd_cond_init(&q->done);
    q->core = core;
    q->unit = unit;
    q->unit_fd = -1;
    q->id = core * UNITS * QUEUES_MAX + unit * QUEUES_MAX + index;
    q->completed = (uint64_t) q->id << 48;
    q->runs = mrd_masked_thread(&q->thread, NULL, work, q) == 0;
    if (!q->runs) {
        free(q->ring);
        free(q);
        return NULL;
    }
    return q;
}

static queue *
queue_of(uint32_t core, uint32_t unit, int index, bool make)
{
    queue *q = NULL;

    if (core >= sim.core_count || unit >= UNITS || index < 0 || index >= unit_queues[unit])
        return NULL;
    pthread_mutex_lock(&queues_lock);
    if (queues[core][unit][index] == NULL && make)
        queues[core][unit][index] = queue_new(core, unit, (uint32_t) index);
    q = queues[core][unit][index];
    if (q != NULL && unit == SIM_UNIT_COMPUTE)
        atomic_store(&sim.async_used, true);
    pthread_mutex_unlock(&queues_lock);
    return q;
}

static queue *
queue_of_seq(nrta_seq_t seq)
{
    uint32_t id = (uint32_t) NRTA_SEQ_GET_XU_ID(seq);

    return queue_of(id / (UNITS * QUEUES_MAX), id / QUEUES_MAX % UNITS, (int) (id % QUEUES_MAX),
                    false);
}

static NRT_STATUS
schedule(uint32_t core, int index, const request *req, nrta_seq_t *ret_seq)
{
    queue *q;
    request *slot;

    if (ret_seq == NULL || index < 0 || index >= unit_queues[req->unit])
        return NRT_INVALID;
    if ((q = queue_of(core, req->unit, index, true)) == NULL)
        return NRT_RESOURCE;
    pthread_mutex_lock(&q->lock);
    if (q->head - q->tail == (uint64_t) sim.set.queue_depth) {
        pthread_mutex_unlock(&q->lock);
        return NRT_QUEUE_FULL;
    }
    slot = &q->ring[q->head % (uint64_t) sim.set.queue_depth];
    *slot = *req;
    q->head++;
    *ret_seq = slot->seq = ((uint64_t) q->id << 48) + q->head;
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
    return NRT_SUCCESS;
}

static void
queue_close(queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    for (size_t i = 0; i < q->watches; i++)
        if (q->watch[i].own)
            close(q->watch[i].fd);
    free(q->ring);
    free(q);
}

void
sim_async_close(void)
{
    for (uint32_t c = 0; c < SIM_CORES_MAX; c++)
        for (uint32_t u = 0; u < UNITS; u++)
            for (uint32_t i = 0; i < QUEUES_MAX; i++) {
                if (queues[c][u][i] != NULL)
                    queue_close(queues[c][u][i]);
                queues[c][u][i] = NULL;
            }
}

void
sim_async_forked(void)
{
    pthread_mutex_init(&queues_lock, NULL);
    /* cleared, because the worker threads do not exist in the child */
    memset(queues, 0, sizeof(queues));
}

/* ---- functions for both versions of the interface ------------------------------------------- */

NRT_STATUS
sim_async_execute(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output,
                  int queue_index, sim_async_err err, nrta_seq_t *seq)
{
    request req = { .unit = SIM_UNIT_COMPUTE, .model = model, .output = output, .err = err };
    NRT_STATUS status;
    uint64_t t;

    SIM_NEEDS_OPEN();
    if ((status = sim_model_check(model)) != NRT_SUCCESS ||
        (status = sim_set_check(input)) != NRT_SUCCESS ||
        (status = sim_set_check(output)) != NRT_SUCCESS)
        return status;
    t = sim_begin(model->core, SIM_EV_nrta_execute_schedule, model, 0, NULL, 0);
    status = schedule(model->core->idx, queue_index, &req, seq);
    sim_end(model->core, SIM_EV_nrta_execute_schedule, t, status == NRT_SUCCESS ? *seq : 0, NULL,
            0);
    return status;
}

NRT_STATUS
sim_async_tensor(sim_async_unit unit, const sim_async_move *move, int lnc_idx, int queue_index,
                 sim_async_err err, nrta_seq_t *seq)
{
    request req = { .unit = unit, .move = *move, .err = err };
    const sim_core *of;
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if (move->dst == NULL && move->to == NULL && move->from == NULL)
        return NRT_INVALID;
    if ((status = sim_tensor_check(move->tensor)) != NRT_SUCCESS ||
        (move->dst != NULL && (status = sim_tensor_check(move->dst)) != NRT_SUCCESS))
        return status;
    if (move->tensor->storage == NULL || move->offset > move->tensor->size ||
        move->size > move->tensor->size - move->offset)
        return NRT_INVALID;
    of = move->tensor->storage->core;
    if (lnc_idx == SIM_LNC_OF_TENSOR)
        lnc_idx = of == NULL ? 0 : (int) of->idx;
    if (lnc_idx < 0 || (uint32_t) lnc_idx >= sim.core_count)
        return NRT_INVALID;
    return schedule((uint32_t) lnc_idx, queue_index, &req, seq);
}

NRT_STATUS
sim_async_cc_prepare(const nrt_cc_comm_t *comm, const nrt_tensor_list_t *input,
                     const nrt_tensor_list_t *output, nrt_cc_op_type_t cc_op,
                     nrt_cc_context_t **ctx)
{
    static _Atomic uint64_t prepared[SIM_CORES_MAX];
    nrt_cc_context_t *context;

    SIM_NEEDS_OPEN();
    if (comm == NULL || input == NULL || output == NULL || ctx == NULL || comm->rank_n == 0 ||
        comm->rank >= comm->rank_n || comm->vnc >= sim.core_count || (unsigned) cc_op > 2)
        return NRT_INVALID;
    if ((context = calloc(1, sizeof(*context))) == NULL)
        return NRT_RESOURCE;
    context->core = &sim.core[comm->vnc];
    context->op = (sim_coll_op){ .rank = comm->rank, .count = comm->rank_n };
    context->op.key = sim_mix(0x6e6563, (uint64_t) cc_op);
    context->op.seq = atomic_fetch_add(&prepared[comm->vnc], 1) + 1;
    for (uint32_t i = 0; comm->replica_group != NULL && i < comm->rank_n; i++)
        context->op.key = sim_mix(context->op.key, comm->replica_group[i]);
    *ctx = context;
    return NRT_SUCCESS;
}

NRT_STATUS
sim_async_cc_schedule(nrt_cc_context_t **ctx, int queue_index, sim_async_err err, nrta_seq_t *seq)
{
    request req = { .unit = SIM_UNIT_COLLECTIVES, .err = err };
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if (ctx == NULL || *ctx == NULL || queue_index != 0)
        return NRT_INVALID;
    req.cc = *ctx;
    status = schedule((*ctx)->core->idx, queue_index, &req, seq);
    if (status == NRT_SUCCESS)
        *ctx = NULL; /* the worker thread frees the context */
    return status;
}

NRT_STATUS
sim_async_is_completed(nrta_seq_t seq, bool *is_completed)
{
    queue *q;
    NRT_STATUS status = NRT_SUCCESS;

    SIM_NEEDS_OPEN();
    if (is_completed == NULL || (q = queue_of_seq(seq)) == NULL)
        return NRT_INVALID;
    pthread_mutex_lock(&q->lock);
    if (NRTA_SEQ_GET_SEQ_NUM(seq) == 0 || NRTA_SEQ_GET_SEQ_NUM(seq) > q->head)
        status = NRT_INVALID;
    else
        *is_completed = seq <= q->completed;
    pthread_mutex_unlock(&q->lock);
    return status;
}

NRT_STATUS
sim_async_get_sequence(uint32_t lnc, sim_async_unit unit, int queue_index, nrta_seq_t *seq)
{
    queue *q;

    SIM_NEEDS_OPEN();
    if (seq == NULL || lnc >= sim.core_count ||
        (q = queue_of(lnc, (uint32_t) unit, queue_index, true)) == NULL)
        return NRT_INVALID;
    pthread_mutex_lock(&q->lock);
    *seq = q->completed;
    pthread_mutex_unlock(&q->lock);
    return NRT_SUCCESS;
}

static void
unwatch(queue *q, nrta_seq_t seq)
{
    size_t kept = 0;

    for (size_t i = 0; i < q->watches; i++)
        if (q->watch[i].seq != seq || q->watch[i].own)
            q->watch[kept++] = q->watch[i];
    q->watches = kept;
}

static NRT_STATUS
watch(nrta_seq_t seq, int fd, bool own)
{
    queue *q = queue_of_seq(seq);
    NRT_STATUS status = NRT_SUCCESS;

    if (q == NULL)
        return NRT_INVALID;
    pthread_mutex_lock(&q->lock);
    if (NRTA_SEQ_GET_SEQ_NUM(seq) == 0 || NRTA_SEQ_GET_SEQ_NUM(seq) > q->head)
        status = NRT_INVALID;
    else if (fd < 0)
        unwatch(q, seq);
    else if (seq <= q->completed) {
        signal_fd(fd);
        if (own)
            close(fd);
    } else if (q->watches == WATCH_MAX)
        status = NRT_RESOURCE;
    else {
        q->watch[q->watches].seq = seq;
        q->watch[q->watches].fd = fd;
        q->watch[q->watches++].own = own;
    }
    pthread_mutex_unlock(&q->lock);
    return status;
}

NRT_STATUS
sim_async_handle(nrta_seq_t seq, int *fd)
{
    int handle, own;
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if (fd == NULL)
        return NRT_INVALID;
    handle = eventfd(0, EFD_CLOEXEC);
    /* duplicated, because the caller may close its descriptor before the request completes */
    own = dup(handle);
    if (handle < 0 || own < 0)
        return NRT_RESOURCE;
    if ((status = watch(seq, own, true)) != NRT_SUCCESS) {
        close(handle);
        close(own);
        return status;
    }
    *fd = handle;
    return NRT_SUCCESS;
}

NRT_STATUS
sim_async_watch(nrta_seq_t seq, int fd)
{
    SIM_NEEDS_OPEN();
    return watch(seq, fd, false);
}

NRT_STATUS
sim_async_watch_unit(uint32_t lnc, sim_async_unit unit, int queue_index, int fd)
{
    queue *q;

    SIM_NEEDS_OPEN();
    if ((q = queue_of(lnc, (uint32_t) unit, queue_index, true)) == NULL)
        return NRT_INVALID;
    pthread_mutex_lock(&q->lock);
    q->unit_fd = fd < 0 ? -1 : fd; /* a negative descriptor ends the watch */
    pthread_mutex_unlock(&q->lock);
    return NRT_SUCCESS;
}

NRT_STATUS
sim_async_tracker_create(uint32_t lnc, nrta_error_tracker_t **tracker)
{
    nrta_error_tracker_t *t;

    SIM_NEEDS_OPEN();
    if (tracker == NULL || lnc >= sim.core_count)
        return NRT_INVALID;
    if ((t = calloc(1, sizeof(*t))) == NULL)
        return NRT_RESOURCE;
    t->lnc = lnc;
    pthread_mutex_init(&t->lock, NULL);
    *tracker = t;
    return NRT_SUCCESS;
}

void
sim_async_tracker_destroy(nrta_error_tracker_t *tracker)
{
    if (tracker == NULL)
        return;
    pthread_mutex_destroy(&tracker->lock);
    free(tracker->list);
    free(tracker);
}

NRT_STATUS
sim_async_tracker_list(nrta_error_tracker_t *tracker, const nrta_error_t **list, size_t *count)
{
    if (tracker == NULL || list == NULL || count == NULL)
        return NRT_INVALID;
    pthread_mutex_lock(&tracker->lock);
    *list = tracker->list;
    *count = tracker->count;
    pthread_mutex_unlock(&tracker->lock);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK callback, void *params)
{
    SIM_NEEDS_OPEN();
    pthread_mutex_lock(&sim.lock);
    sim.callback_params = params;
    sim.callback = callback;
    pthread_mutex_unlock(&sim.lock);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_async_drain_queued_execs(int32_t vnc)
{
    queue *q;

    SIM_NEEDS_OPEN();
    if (vnc < 0 || (uint32_t) vnc >= sim.core_count)
        return NRT_INVALID;
    if ((q = queue_of((uint32_t) vnc, SIM_UNIT_COMPUTE, 0, false)) == NULL)
        return NRT_SUCCESS;
    pthread_mutex_lock(&q->lock);
    while (q->tail < q->head)
        pthread_cond_wait(&q->done, &q->lock);
    pthread_mutex_unlock(&q->lock);
    return NRT_SUCCESS;
}
