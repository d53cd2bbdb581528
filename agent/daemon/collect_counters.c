/* agent/daemon/collect_counters.c - the collector of counters. Counters that a session requests are
 * sampled for this session only, while it records. When a session begins, the values of all
 * counters of the node are emitted. */
#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"
#include "base/conf/log.h"

static mrd_err
on_counter(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    mrd_session_counters *counters = self;

    return mrd_record_event_of(counters->agent->record, counters->session, process, clock, ev);
}

static mrd_session_counters *
find(mrd_agent *agent, uint64_t session)
{
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        if (agent->counters[i].session == session)
            return &agent->counters[i];
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
let_go(mrd_agent *agent, mrd_session_counters *counters)
{
    mrd_sample_stats st;

    mrd_sample_get_stats(counters->sample, &st);
    add_stats(&agent->counters_before, &st);
    mrd_record_process_gone(agent->record, mrd_sample_node(counters->sample));
    mrd_sample_close(counters->sample);
    *counters = (mrd_session_counters){ 0 };
}

/* Opens the counters that a session requests. If this node lacks one of them, the session is
 * refused with a message that names the counter and suggests the closest known one. */
static mrd_err
begin_counters(void *self, uint64_t session, mrd_why *why)
{
    mrd_agent *agent = self;
    mrd_sample_options options = { .instance_id = agent->node.instance_id,
                                   .proc_root = agent->o.proc_root,
                                   .simulated = agent->o.simulated,
                                   .strict = true,
                                   .event = on_counter };
    const mrd_strlist *list = mrd_record_counters(agent->record, session, &options.period);
    mrd_session_counters *counters;
    mrd_err err;

    if (list->n == 0 || find(agent, session) != NULL)
        return MRD_OK;
    if ((counters = find(agent, 0)) == NULL)
        return mrd_why_set(why, MRD_LIMIT, 0, "at most %d sessions can have counters of their own",
                           MRD_RECORD_SESSIONS);
    /* the sampler may keep pointers to the list, which is valid while the session exists */
    options.patterns = (const char *const *) list->v;
    options.n_patterns = list->n;
    options.self = counters;
    err = mrd_sample_open(agent->hw, &options, &counters->sample, why);
    if (err != MRD_OK)
        return err;
    counters->agent = agent;
    counters->session = session;
    return MRD_OK;
}

/* Returns true if the session records, or waits for its start. A session with a known stop time
 * records until then. */
static bool
is_recording(const mrd_record_status *st)
{
    return st->phase == MRD__NODE_PHASE__NODE_RECORDING ||
           (st->phase == MRD__NODE_PHASE__NODE_STOPPING &&
            mrd_local_before(mrd_local_now(), st->stop));
}

/* Returns true if the counters of this session must be sampled. Stores the session's state in
 * *st. */
static bool
samples(const mrd_agent *agent, const mrd_session_counters *counters, mrd_record_status *st)
{
    return counters->session != 0 && mrd_record_find(agent->record, counters->session, st) &&
           is_recording(st);
}

static void
step_sessions(mrd_agent *agent, mrd_local_ns now)
{
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++) {
        mrd_session_counters *counters = &agent->counters[i];
        mrd_record_status st;

        if (samples(agent, counters, &st) && !mrd_local_before(now, st.start)) {
            mrd_sample_repeat(counters->sample, st.recorder);
            mrd_sample_step(counters->sample, NULL, now);
        }
    }
}

/* Returns when a session begins to record on this node. INT64_MAX means that the session does not
 * record. */
static mrd_local_ns
begins_ns(const mrd_record_status *st)
{
    if (!is_recording(st))
        return (mrd_local_ns){ INT64_MAX };
    return mrd_local_after(st->start, st->reported) ? st->start : st->reported;
}

/* Emits the values of all counters when a session begins. Otherwise a short session would not get a
 * counter that does not change. While a flight recorder exists, every sample emits all counters,
 * because each time range that it saves needs a first value. */
static void
sample_begun(mrd_agent *agent, mrd_local_ns now)
{
    bool begun = false, recorder = false;

    for (size_t i = 0; i < mrd_record_sessions(agent->record); i++) {
        mrd_record_status st;
        mrd_local_ns at;

        mrd_record_get(agent->record, i, &st);
        at = begins_ns(&st);
        begun = begun || (!mrd_local_after(at, now) && mrd_local_after(at, agent->all_given));
        recorder = recorder || (!mrd_local_after(at, now) && st.recorder);
    }
    mrd_sample_repeat(agent->sample, recorder);
    if (!begun)
        return;
    mrd_sample_all_now(agent->sample);
    agent->all_given = now;
}

static mrd_local_ns
sample_begun_ns(const mrd_agent *agent)
{
    mrd_local_ns next = { INT64_MAX };

    for (size_t i = 0; i < mrd_record_sessions(agent->record); i++) {
        mrd_record_status st;
        mrd_local_ns at;

        mrd_record_get(agent->record, i, &st);
        at = begins_ns(&st);
        if (mrd_local_after(at, agent->all_given) && mrd_local_before(at, next))
            next = at;
    }
    return next;
}

void
mrd_agent_counters_sum(const mrd_agent *agent, mrd_sample_stats *sum)
{
    add_stats(sum, &agent->counters_before);
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++) {
        mrd_sample_stats st;

        if (agent->counters[i].session == 0)
            continue;
        mrd_sample_get_stats(agent->counters[i].sample, &st);
        add_stats(sum, &st);
    }
}

static mrd_err
start_counters(void *self, mrd_why *why)
{
    mrd_agent *agent = self;
    mrd_hw_options ho = { .proc_root = agent->o.proc_root,
                          .sys_root = agent->o.sys_root,
                          .cgroup_root = agent->o.cgroup_root,
                          .monitor = agent->o.monitor,
                          .monitor_period = agent->o.sample_period };
    mrd_sample_options so = { .instance_id = agent->node.instance_id,
                              .proc_root = agent->o.proc_root,
                              .simulated = agent->o.simulated,
                              .period = agent->o.sample_period,
                              .process_period = agent->o.process_period,
                              .patterns = (const char *const *) agent->o.counters.v,
                              .n_patterns = agent->o.counters.n,
                              .event = mrd_agent_event,
                              .self = agent };
    mrd_err err = mrd_hw_open(&ho, &agent->hw, why);

    return err != MRD_OK ? err : mrd_sample_open(agent->hw, &so, &agent->sample, why);
}

static void
step_counters(void *self, mrd_local_ns now)
{
    mrd_agent *agent = self;

    sample_begun(agent, now);
    mrd_sample_step(agent->sample, agent->drain, now);
    step_sessions(agent, now);
}

static mrd_local_ns
next_of_counters(const void *self)
{
    const mrd_agent *agent = self;
    mrd_local_ns next = mrd_local_min(sample_begun_ns(agent), mrd_sample_next_ns(agent->sample));
    mrd_record_status st;

    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        if (samples(agent, &agent->counters[i], &st))
            next = mrd_local_min(next, mrd_sample_next_ns(agent->counters[i].sample));
    return next;
}

static void
end_counters(void *self, uint64_t session)
{
    mrd_session_counters *counters = find(self, session);

    if (counters != NULL)
        let_go(self, counters);
}

static void
account_counters(const void *self, mrd_collector_account *sum)
{
    const mrd_agent *agent = self;
    mrd_sample_stats st;

    mrd_sample_get_stats(agent->sample, &st);
    mrd_agent_counters_sum(agent, &st);
    sum->begun += st.begun;
    sum->dropped[MRD_DROP_MEMORY] += st.refused;
}

/* Stops the counters of all sessions, before the recorder is closed. */
static void
stop_counters(void *self)
{
    mrd_agent *agent = self;

    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        if (agent->counters[i].session != 0)
            let_go(agent, &agent->counters[i]);
}

static void
close_counters(void *self)
{
    mrd_agent *agent = self;

    mrd_sample_close(agent->sample);
    mrd_hw_close(agent->hw);
    agent->sample = NULL;
    agent->hw = NULL;
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
