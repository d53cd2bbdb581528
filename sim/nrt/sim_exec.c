/*
 * Simulates one execution: the runtime's work on the host, the work of the cores, and the events of
 * both. Durations and counts are published totals of a Trainium 2 run. An execution takes 11.45 ms,
 * with 159 us before and 68 us after the device part. It has 98 collectives of 9.5 us, 99 tensor
 * frees of 0.1 us and 17 copies of 3.6 us.
 *
 * The device's times are computed, not measured. The device's work starts when the host submits it,
 * and takes exactly the computed time, even if the host's threads wake up late.
 */
#include "sim.h"

#define PRE_NS     (159 * MRD_US)
#define POST_NS    (68 * MRD_US)
#define SUBMIT_NS  (20 * MRD_US)
#define BARRIER_NS (20 * MRD_US) /* time for transfers after all participants have arrived */
#define CC_NS      9500
#define COPYIN_NS  3600
#define FREE_NS    100
#define SWITCH_NS  (40 * MRD_US)
#define CONSUME_NS (27 * MRD_US)

typedef struct {
    sim_model *model;
    sim_core *core;
    uint64_t exec_id, nth, seq; /* nth is the number of the execution on this core, from 1 */
    /* true time when the switch of models began; 0 if the core keeps its model */
    int64_t switch_start;
    int64_t dev_start, dev_end, arrive, last, barrier_end;
    double link; /* factor for the duration of transfers */
    bool collective;
} run;

static int64_t
many(int64_t count)
{
    return (int64_t) ((double) count * sim.set.event_scale + 0.5);
}

static uint64_t
salt(const run *r, uint64_t what)
{
    return sim_mix(r->core->global * 1000003u + what, r->nth);
}

static uint32_t
rank_of(const run *r)
{
    return r->core->g_id;
}

/* Emits `n` spans of at most `each` ns, evenly distributed between the times `from` and `to`. */
static void
bulk(const run *r, sim_type type, int64_t n, int64_t each, int64_t from, int64_t to,
     const uint64_t *arg, size_t arg_count)
{
    int64_t step = n > 0 ? (to - from) / n : 0;

    each = each < step ? each : step * 9 / 10;
    for (int64_t i = 0; i < n; i++)
        sim_span(r->core, type, r->model, from + i * step, from + i * step + each, arg, arg_count);
}

static void
emit_at(const run *r, sim_type type, int phase, int64_t raw, unsigned pcore, uint64_t tracking,
        const uint64_t *arg, size_t n)
{
    sim_emit_args args = { .core = r->core,
                           .type = type,
                           .phase = phase,
                           .raw = raw,
                           .pcore = pcore,
                           .tracking = tracking,
                           .seq = r->seq,
                           .model = r->model };

    for (size_t i = 0; i < n; i++)
        args.arg[i] = arg[i];
    sim_emit(&args);
}

static void
hw_span(const run *r, sim_type type, unsigned pcore, int64_t from, int64_t to, const uint64_t *arg,
        size_t n)
{
    uint64_t tracking = sim_tracking();

    emit_at(r, type, SIM_START, from, pcore, tracking, arg, n);
    emit_at(r, type, SIM_STOP, to, pcore, tracking, NULL, 0);
}

/* Waits until all participants of the collective have arrived. Stores the latest arrival in
 * r->last, which is the same for all participants. */
static NRT_STATUS
meet(run *r)
{
    sim_model *model = r->model;
    sim_coll_op op = { .rank = model->ctx_id,
                       .count = model->ctx_count,
                       .key = sim_mix(model->hash, model->group),
                       .seq = ++model->cc_seq,
                       .arrive = r->arrive };
    const sim_fault *hang =
        sim_fault_hit(SIM_FAULT_COLLECTIVE_HANG, r->core->idx, rank_of(r), r->nth);
    uint64_t arg[3] = { 0, r->exec_id, r->core->global }, t;
    NRT_STATUS status;

    if (hang != NULL) {
        sim_sleep_until(sim_raw() + sim.exec_timeout_ns);
        return (NRT_STATUS) hang->status;
    }
    t = sim_begin(r->core, SIM_EV_enc_barrier, model, r->seq, arg, 3);
    status = sim_coll_wait(&op, &r->last);
    sim_end(r->core, SIM_EV_enc_barrier, t, r->seq, NULL, 0);
    return status;
}

/* Returns the time in ns for transfers after the barrier, in which the collectives run. */
static int64_t
transfer_ns(const run *r)
{
    return (int64_t) ((double) r->model->exec_ns * sim.set.time_scale * 3 / 10);
}

static NRT_STATUS
device(run *r)
{
    double factor = sim_fault_factor(SIM_FAULT_SLOW_CORE, r->core->idx, rank_of(r), r->nth);
    int64_t whole = (int64_t) ((double) sim_scaled(r->model->exec_ns, salt(r, 1)) * factor);
    NRT_STATUS status;

    if (whole >= MRD_SEC)
        sim_truth_flush();
    r->dev_start = sim_raw();
    r->collective = r->model->ctx_count > 1;
    if (!r->collective) {
        r->dev_end = r->dev_start + whole;
        sim_sleep_until(r->dev_end);
        return NRT_SUCCESS;
    }
    r->arrive = r->dev_start + whole * 7 / 10;
    sim_sleep_until(r->arrive);
    if ((status = meet(r)) != NRT_SUCCESS) {
        r->dev_end = sim_raw();
        return status;
    }
    /* All participants must compute the same times from here on, so only common values are used. */
    r->barrier_end = r->last + BARRIER_NS;
    r->link = sim_fault_factor(SIM_FAULT_SLOW_LINK, r->core->idx, rank_of(r), r->nth);
    r->dev_end = r->barrier_end + (int64_t) ((double) transfer_ns(r) * r->link) + 3 * MRD_US;
    sim_sleep_until(r->dev_end);
    return NRT_SUCCESS;
}

/* Returns a delay of up to 1 us, which differs between cores. On real machines, participants do not
 * leave a collective exactly together either. */
static int64_t
raggedness(const run *r, uint64_t i)
{
    return (int64_t) (sim_mix(salt(r, 9), i) % 1000);
}

static void
collectives(const run *r)
{
    int64_t n = many(r->model->cc), room = r->dev_end - r->barrier_end - 2 * MRD_US;
    int64_t step = n > 0 && room > 0 ? room / n : 0, each = CC_NS < step ? CC_NS : step * 9 / 10;
    uint64_t bar[1] = { r->exec_id };

    if (r->barrier_end == 0)
        return;
    if (n > 0 && r->link > 1.0) /* a slow link lengthens only the collectives */
        each += (int64_t) ((double) transfer_ns(r) * (r->link - 1.0)) / n;
    each = each < step ? each : step * 9 / 10;
    hw_span(r, SIM_EV_cc_exec_barrier, 0, r->arrive, r->barrier_end + raggedness(r, 0), bar, 1);
    for (int64_t i = 0; i < n && step > 0; i++) {
        int64_t end = r->barrier_end + (i + 1) * step;
        uint64_t arg[4] = { r->model->group, (uint64_t) i, r->exec_id, (uint64_t) i % 2 };

        hw_span(r, SIM_EV_cc_running, 0, end - each, end + raggedness(r, (uint64_t) i + 1) % 200,
                arg, 4);
    }
}

/* Records a sync point at the end of the work: a reading of the host clock and one of the device
 * clock. The host reading is wrong by a random time of up to SIMNRT_SYNC_NOISE_NS. */
static void
sync_point(run *r, unsigned pcore)
{
    int64_t noise = sim.set.sync_noise_ns, at = r->dev_end;
    uint64_t arg[3];

    if (noise > 0)
        noise = (int64_t) (sim_mix(salt(r, 5), pcore) % (uint64_t) (2 * noise + 1)) - noise;
    r->core->sync_dev[pcore] = (int64_t) sim_dev(r->core, pcore, at);
    r->core->sync_cpu[pcore] = sim_wall(at + noise);
    arg[0] = r->exec_id;
    arg[1] = (uint64_t) r->core->sync_dev[pcore];
    arg[2] = (uint64_t) r->core->sync_cpu[pcore];
    emit_at(r, SIM_EV_timestamp_sync_point, SIM_INSTANT, at, pcore, sim_tracking(), arg, 3);
}

static void
hardware_events(run *r)
{
    uint64_t arg[1] = { r->exec_id };

    if (sim_fault_hit(SIM_FAULT_DROP_SYNC, r->core->idx, rank_of(r), r->nth) == NULL)
        for (unsigned p = 0; p < r->core->lnc; p++)
            sync_point(r, p);
    for (unsigned p = 0; p < r->core->lnc; p++) {
        int64_t late = p * 2 * MRD_US; /* the second core of a pair starts slightly later, in ns */

        if (r->switch_start != 0)
            hw_span(r, SIM_EV_nc_model_switch, p, r->switch_start, r->dev_start, arg, 1);
        if (r->dev_start + late < r->dev_end)
            hw_span(r, SIM_EV_nc_exec_running, p, r->dev_start + late, r->dev_end, arg, 1);
    }
    if (r->collective)
        collectives(r);
}

static void
consume(const run *r)
{
    for (unsigned p = 0; p < r->core->lnc; p++) {
        uint64_t t =
            sim_begin(r->core, SIM_EV_notification_consume_errors, r->model, r->seq, NULL, 0);

        sim_end(r->core, SIM_EV_notification_consume_errors, t, r->seq, NULL, 0);
        t = sim_begin(r->core, SIM_EV_exec_consume_gpsimd_stdio, r->model, r->seq, NULL, 0);
        sim_end(r->core, SIM_EV_exec_consume_gpsimd_stdio, t, r->seq, NULL, 0);
    }
    if (r->collective) {
        uint64_t t = sim_begin(r->core, SIM_EV_exec_consume_cc_core_notifications, r->model, r->seq,
                               NULL, 0);

        sim_sleep_until(sim_raw() + sim_scaled(CONSUME_NS, salt(r, 4)));
        sim_end(r->core, SIM_EV_exec_consume_cc_core_notifications, t, r->seq, NULL, 0);
    }
}

static void
before(const run *r)
{
    uint64_t copy[4] = { 0, 1, 0, 4096 }, t;
    uint64_t exec[1] = { r->exec_id };
    uint64_t dma[5] = { sim_hbm(r->core) % sim_hbms(), 1, 1, sim_device(r->core), 1 };
    int64_t from, mid, to;

    const sim_fault *slow = sim_fault_hit(SIM_FAULT_SLOW_HOST, r->core->idx, rank_of(r), r->nth);

    t = sim_begin(r->core, SIM_EV_kbl_exec_pre, r->model, r->seq, exec, 1);
    from = sim_raw();
    to = from + sim_scaled(PRE_NS, salt(r, 2)) + (slow == NULL ? 0 : slow->ns);
    sim_sleep_until(to);
    to = sim_raw();
    mid = from + (to - from) / 2;
    bulk(r, SIM_EV_dmem_buf_copyin, many(r->model->copyins), COPYIN_NS, from, mid, copy, 4);
    bulk(r, SIM_EV_nrt_dma_mem_alloc, many(r->model->copyins * 6 / 17), 4200, mid, to, dma, 5);
    sim_end(r->core, SIM_EV_kbl_exec_pre, t, r->seq, NULL, 0);
}

static void
after(const run *r)
{
    uint64_t exec[1] = { r->exec_id }, fre[3] = { r->exec_id, 4096, 0 };
    uint64_t dma[5] = { sim_hbm(r->core) % sim_hbms(), 1, 1, sim_device(r->core), 1 };
    uint64_t t = sim_begin(r->core, SIM_EV_kbl_exec_post, r->model, r->seq, exec, 1);
    int64_t from = sim_raw(), mid, to;

    sim_sleep_until(from + sim_scaled(POST_NS, salt(r, 3)));
    to = sim_raw();
    mid = from + (to - from) / 2;
    bulk(r, SIM_EV_nrt_tensor_free, many(r->model->tensor_frees), FREE_NS, from, mid, fre, 3);
    bulk(r, SIM_EV_nrt_dma_mem_dealloc, many(r->model->tensor_frees * 9 / 99), 3400, mid, to, dma,
         5);
    sim_end(r->core, SIM_EV_kbl_exec_post, t, r->seq, NULL, 0);
}

static NRT_STATUS
injected(const run *r, NRT_STATUS status)
{
    const sim_fault *fault;
    uint64_t num[1] = { r->exec_id }, hw[3] = { 1, 0, r->exec_id };

    if (status != NRT_SUCCESS)
        return status;
    if ((fault = sim_fault_hit(SIM_FAULT_NUMERICAL, r->core->idx, rank_of(r), r->nth)) != NULL) {
        emit_at(r, SIM_EV_numerical_err, SIM_INSTANT, r->dev_end, 0, sim_tracking(), num, 1);
        return (NRT_STATUS) fault->status;
    }
    if ((fault = sim_fault_hit(SIM_FAULT_EXEC_ERROR, r->core->idx, rank_of(r), r->nth)) != NULL) {
        emit_at(r, SIM_EV_hw_notify, SIM_INSTANT, r->dev_end, 0, sim_tracking(), hw, 3);
        return (NRT_STATUS) fault->status;
    }
    return NRT_SUCCESS;
}

static void
switch_model(run *r)
{
    uint64_t arg[1] = { 1 };

    if (r->core->last == r->model)
        return;
    r->switch_start = sim_raw();
    hw_span(r, SIM_EV_nrt_model_switch, 0, r->switch_start, r->switch_start + MRD_US, arg, 1);
    sim_sleep_until(r->switch_start + sim_scaled(SWITCH_NS, salt(r, 6)));
    r->core->last = r->model;
}

NRT_STATUS
sim_run(sim_model *model, nrt_tensor_set_t *output, uint64_t seq)
{
    run r = { .model = model, .core = model->core, .seq = seq };
    const sim_fault *step, *stuck;
    uint64_t submit, kmgr, wait;
    NRT_STATUS status;

    pthread_mutex_lock(&r.core->busy);
    r.exec_id = atomic_fetch_add(&sim.exec_next, 1) + 1;
    r.nth = ++r.core->execs;
    sim_truth_line("exec tid=%llu core=%u exec_id=%llu", (unsigned long long) sim_thread_id(),
                   r.core->idx, (unsigned long long) r.exec_id);
    model->execs++;
    if ((step = sim_fault_hit(SIM_FAULT_CLOCK_STEP, r.core->idx, rank_of(&r), r.nth)) != NULL)
        atomic_fetch_add(&r.core->step, step->ns);
    submit = sim_begin(r.core, SIM_EV_nrt_model_submit, model, seq, NULL, 0);
    sim_sleep_until(sim_raw() + sim_scaled(SUBMIT_NS, salt(&r, 7)));
    sim_end(r.core, SIM_EV_nrt_model_submit, submit, seq, NULL, 0);
    kmgr = sim_begin(r.core, SIM_EV_kmgr_exec_core, model, seq, NULL, 0);
    before(&r);
    switch_model(&r);
    wait = sim_begin(r.core, SIM_EV_kbl_exec_wait, model, seq, &r.exec_id, 1);
    status = device(&r);
    stuck = sim_fault_hit(SIM_FAULT_STUCK_EXEC, r.core->idx, rank_of(&r), r.nth);
    if (stuck != NULL && status == NRT_SUCCESS) {
        sim_truth_flush();
        sim_sleep_until(sim_raw() + sim.exec_timeout_ns);
        r.dev_end = sim_raw();
        status = (NRT_STATUS) stuck->status;
    }
    sim_end(r.core, SIM_EV_kbl_exec_wait, wait, seq, NULL, 0);
    hardware_events(&r);
    status = injected(&r, status);
    consume(&r);
    after(&r);
    sim_end(r.core, SIM_EV_kmgr_exec_core, kmgr, seq, NULL, 0);
    sim_debug_executed(r.core, r.exec_id);
    sim_inspect_executed(model, status);
    if (status == NRT_SUCCESS)
        sim_set_complete(output);
    pthread_mutex_unlock(&r.core->busy);
    return status;
}

static NRT_STATUS
exec_check(nrt_model_t *model, const nrt_tensor_set_t *input, const nrt_tensor_set_t *output)
{
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if ((status = sim_model_check(model)) != NRT_SUCCESS)
        return status;
    if ((status = sim_set_check(input)) != NRT_SUCCESS)
        return status;
    return sim_set_check(output);
}

NRT_STATUS
nrt_execute(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output)
{
    NRT_STATUS status = exec_check(model, input, output);
    uint64_t t;

    if (status != NRT_SUCCESS)
        return status;
    t = sim_begin(model->core, SIM_EV_nrt_execute, model, 0, NULL, 0);
    status = sim_run(model, output, 0);
    sim_end(model->core, SIM_EV_nrt_execute, t, 0, NULL, 0);
    return status;
}

NRT_STATUS
nrt_execute_repeat(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output,
                   int repeat)
{
    NRT_STATUS status = exec_check(model, input, output);
    uint64_t t;

    if (status != NRT_SUCCESS)
        return status;
    if (repeat <= 0)
        return NRT_INVALID;
    t = sim_begin(model->core, SIM_EV_nrt_execute, model, 0, NULL, 0);
    for (int i = 0; i < repeat && status == NRT_SUCCESS; i++)
        status = sim_run(model, output, 0);
    sim_end(model->core, SIM_EV_nrt_execute, t, 0, NULL, 0);
    return status;
}
