/* agent/daemon/collect_counters.c - counters for sessions: counters that a session requests are sampled
 * while it records and for this session only. The node's counters are emitted completely when a
 * session begins. */
#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"
#include "base/conf/log.h"

static mrd_err
on_counter(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    mrd_session_counters *c = self;

    return mrd_record_event_of(c->agent->record, c->session, process, clock, ev);
}

static mrd_session_counters *
find(mrd_agent *a, uint64_t session)
{
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        if (a->counters[i].session == session)
            return &a->counters[i];
    return NULL;
}

static void
add_stats(mrd_sample_stats *to, const mrd_sample_stats *st)
{
    to->begun += st->begun;
    to->refused += st->refused;
    to->samples += st->samples;
    to->failed += st->failed;
}

static void
let_go(mrd_agent *a, mrd_session_counters *c)
{
    mrd_sample_stats st;

    mrd_sample_get_stats(c->sample, &st);
    add_stats(&a->counters_before, &st);
    mrd_record_process_gone(a->record, mrd_sample_node(c->sample));
    mrd_sample_close(c->sample);
    *c = (mrd_session_counters){ 0 };
}

/* Refuses a session with counters that this node does not have. The message names the counter and
 * the closest known one. */
static mrd_err
begin_counters(void *self, uint64_t session, mrd_why *why)
{
    mrd_agent *a = self;
    mrd_sample_options o = { .instance_id = a->node.instance_id,
                             .proc_root = a->o.proc_root,
                             .simulated = a->o.simulated,
                             .strict = true,
                             .event = on_counter };
    const mrd_strlist *list = mrd_record_counters(a->record, session, &o.period);
    mrd_session_counters *c;
    mrd_err err;

    if (list->n == 0 || find(a, session) != NULL)
        return MRD_OK;
    if ((c = find(a, 0)) == NULL)
        return mrd_why_set(why, MRD_LIMIT, 0, "at most %d sessions can have counters of their own",
                           MRD_RECORD_SESSIONS);
    o.patterns = (const char *const *) list->v; /* valid while the session exists */
    o.n_patterns = list->n;
    o.self = c;
    err = mrd_sample_open(a->hw, &o, &c->sample, why);
    if (err != MRD_OK)
        return err;
    c->agent = a;
    c->session = session;
    return MRD_OK;
}

/* Returns true if it records or will record. A session with a known stop time records until then. */
static bool
is_recording(const mrd_record_status *st)
{
    return st->phase == MRD__NODE_PHASE__NODE_RECORDING ||
           (st->phase == MRD__NODE_PHASE__NODE_STOPPING &&
            mrd_local_before(mrd_local_now(), st->stop));
}

/* Overwrites *st with the session's state. */
static bool
samples(const mrd_agent *a, const mrd_session_counters *c, mrd_record_status *st)
{
    return c->session != 0 && mrd_record_find(a->record, c->session, st) && is_recording(st);
}

static void
step_sessions(mrd_agent *a, mrd_local_ns now)
{
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++) {
        mrd_session_counters *c = &a->counters[i];
        mrd_record_status st;

        if (samples(a, c, &st) && !mrd_local_before(now, st.start)) {
            mrd_sample_repeat(c->sample, st.recorder);
            mrd_sample_step(c->sample, NULL, now);
        }
    }
}

/* Returns when a session begins to record here. INT64_MAX means that it does not. */
static mrd_local_ns
begins_ns(const mrd_record_status *st)
{
    if (!is_recording(st))
        return (mrd_local_ns){ INT64_MAX };
    return mrd_local_after(st->start, st->reported) ? st->start : st->reported;
}

/* Emits all counters when a session begins, so that even a short session has a counter that does
 * not change. A flight recorder sends windows, and each window needs a first value, so it gets all
 * values every time. */
static void
sample_begun(mrd_agent *a, mrd_local_ns now)
{
    bool begun = false, recorder = false;

    for (size_t i = 0; i < mrd_record_sessions(a->record); i++) {
        mrd_record_status st;
        mrd_local_ns at;

        mrd_record_get(a->record, i, &st);
        at = begins_ns(&st);
        begun = begun || (!mrd_local_after(at, now) && mrd_local_after(at, a->all_given));
        recorder = recorder || (!mrd_local_after(at, now) && st.recorder);
    }
    mrd_sample_repeat(a->sample, recorder);
    if (!begun)
        return;
    mrd_sample_all_now(a->sample);
    a->all_given = now;
}

static mrd_local_ns
sample_begun_ns(const mrd_agent *a)
{
    mrd_local_ns next = { INT64_MAX };

    for (size_t i = 0; i < mrd_record_sessions(a->record); i++) {
        mrd_record_status st;
        mrd_local_ns at;

        mrd_record_get(a->record, i, &st);
        at = begins_ns(&st);
        if (mrd_local_after(at, a->all_given) && mrd_local_before(at, next))
            next = at;
    }
    return next;
}

void
mrd_agent_counters_sum(const mrd_agent *a, mrd_sample_stats *sum)
{
    add_stats(sum, &a->counters_before);
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++) {
        mrd_sample_stats st;

        if (a->counters[i].session == 0)
            continue;
        mrd_sample_get_stats(a->counters[i].sample, &st);
        add_stats(sum, &st);
    }
}

static mrd_err
start_counters(void *self, mrd_why *why)
{
    mrd_agent *a = self;
    mrd_hw_options ho = { .proc_root = a->o.proc_root,
                          .sys_root = a->o.sys_root,
                          .cgroup_root = a->o.cgroup_root,
                          .monitor = a->o.monitor,
                          .monitor_period = a->o.sample_period,
                          .fake_script = a->fake_script };
    mrd_sample_options so = { .instance_id = a->node.instance_id,
                              .proc_root = a->o.proc_root,
                              .simulated = a->o.simulated,
                              .period = a->o.sample_period,
                              .process_period = a->o.process_period,
                              .patterns = (const char *const *) a->o.counters.v,
                              .n_patterns = a->o.counters.n,
                              .event = mrd_agent_event,
                              .self = a };
    mrd_err err = mrd_hw_open(&ho, &a->hw, why);

    return err != MRD_OK ? err : mrd_sample_open(a->hw, &so, &a->sample, why);
}

static void
step_counters(void *self, mrd_local_ns now)
{
    mrd_agent *a = self;

    sample_begun(a, now);
    mrd_sample_step(a->sample, a->drain, now);
    step_sessions(a, now);
}

static mrd_local_ns
next_of_counters(const void *self)
{
    const mrd_agent *a = self;
    mrd_local_ns next = mrd_local_min(sample_begun_ns(a), mrd_sample_next_ns(a->sample));
    mrd_record_status st;

    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        if (samples(a, &a->counters[i], &st))
            next = mrd_local_min(next, mrd_sample_next_ns(a->counters[i].sample));
    return next;
}

static void
end_counters(void *self, uint64_t session)
{
    mrd_session_counters *c = find(self, session);

    if (c != NULL)
        let_go(self, c);
}

static void
account_counters(const void *self, mrd_collector_account *sum)
{
    const mrd_agent *a = self;
    mrd_sample_stats st;

    mrd_sample_get_stats(a->sample, &st);
    mrd_agent_counters_sum(a, &st);
    sum->begun += st.begun;
    sum->dropped[MRD_DROP_MEMORY] += st.refused;
}

/* Stops counters of sessions before the recorder is closed. */
static void
stop_counters(void *self)
{
    mrd_agent *a = self;

    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        if (a->counters[i].session != 0)
            let_go(a, &a->counters[i]);
}

static void
close_counters(void *self)
{
    mrd_agent *a = self;

    mrd_sample_close(a->sample);
    mrd_hw_close(a->hw);
    a->sample = NULL;
    a->hw = NULL;
}

const mrd_collector mrd_collector_counters = {
    .name = "counters",
    .start = start_counters,
    .step = step_counters,
    .next_ns = next_of_counters,
    .begin = begin_counters,
    .end = end_counters,
    .account = account_counters,
    .stop = stop_counters,
    .close = close_counters,
    .pauses = true,
};
