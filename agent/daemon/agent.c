/* agent/daemon/agent.c - opens, runs and closes the agent. Its loop calls the collectors
 * (agent/daemon/collector.h), then the recorder and the connection to the aggregator. */
#include "agent/daemon/agent.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/secret.h"

/* ---- Callbacks of the agent's modules ---- */

static void
on_spool_dropped(void *self, const mrd_spool_item *item)
{
    mrd_agent *agent = self;

    agent->dropped_spool += item->events;
    agent->clock_lost += item->type == MRD_FRAME_CLOCK_DATA;
    if (agent->record != NULL)
        mrd_record_dropped(agent->record, item, MRD_DROP_SPOOL);
    mrd_log(MRD_LOG_WARN, "AGT-SPOOL-FULL",
            "The spool is full, the oldest %s was dropped: session=%" PRIx64 " events=%" PRIu64,
            item->type == MRD_FRAME_CLOCK_DATA ? "clock data" : "batch", item->session,
            item->events);
}

static void
on_delivered(void *self, const mrd_spool_item *item)
{
    mrd_agent *agent = self;

    agent->delivered += item->events;
    mrd_record_delivered(agent->record, item);
}

static void
on_refused(void *self, const mrd_spool_item *item, const char *message)
{
    mrd_agent *agent = self;

    agent->dropped_refused += item->events;
    agent->clock_lost += item->type == MRD_FRAME_CLOCK_DATA;
    mrd_record_dropped(agent->record, item, MRD_DROP_REFUSED);
    mrd_log(MRD_LOG_WARN, "AGT-REFUSED",
            "A batch will never be stored and its events were dropped: events=%" PRIu64
            " reason=%s",
            item->events, message);
}

static void
on_foreign(void *self, uint64_t tag, const mrd_msg *msg)
{
    mrd_agent *agent = self;

    if ((tag & MRD_TAG_JOB) != 0)
        mrd_jobs_answer(agent->jobs, tag & (MRD_TAG_JOB - 1), msg);
    else if ((tag & ~MRD_PUBLISH_FOREIGN) != MRD_TAG_CLOCK)
        mrd_files_answer(agent->files, tag & ~MRD_PUBLISH_FOREIGN, msg);
}

static void
on_sessions_known(void *self, bool all)
{
    mrd_agent *agent = self;

    if (all)
        agent->wait_until = (mrd_local_ns){ 0 };
    mrd_record_sessions_known(agent->record, mrd_local_now(), all);
}

bool
mrd_agent_waits(mrd_agent *agent, mrd_local_ns now)
{
    if (mrd_record_sessions(agent->record) > 0)
        agent->wait_until = (mrd_local_ns){ 0 };
    if (agent->wait_until.ns == 0)
        return false;
    if (!mrd_local_before(now, agent->wait_until)) {
        agent->wait_until = (mrd_local_ns){ 0 };
        mrd_log(MRD_LOG_WARN, "AGT-NO-SESSIONS",
                "No aggregator has answered for %lld s, so it is not known which sessions are "
                "under way: "
                "what programs record is read now, and a session that this node joins later counts "
                "it as lost (started-late)",
                (long long) (MRD_WAIT_SESSIONS / MRD_SEC));
    }
    return agent->wait_until.ns != 0;
}

uint32_t
mrd_agent_boot_key(const mrd_agent *agent)
{
    return mrd_boot_key(mrd_str_of(agent->node.boot_id));
}

/* ---- The loop ---- */

static double
cpu_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

/* Sleeps after a step of the loop, so that the CPU use of all steps stays below --cpu-limit. A
 * single sleep lasts at most 50 ms, because heartbeats must continue. If a longer sleep is needed,
 * the following steps skip the rings for the rest of the time. */
static void
cap_cpu(mrd_agent *agent, double used)
{
    int64_t pause;
    struct timespec ts;

    agent->pause_ns += (int64_t) (used * (100.0 / agent->o.cpu_limit - 1.0) * 1e9);
    if (agent->pause_ns > MRD_WAIT_PAUSE_MAX)
        agent->pause_ns = MRD_WAIT_PAUSE_MAX;
    pause = agent->pause_ns < MRD_WAIT_PAUSE_ONCE ? agent->pause_ns : MRD_WAIT_PAUSE_ONCE;
    if (pause <= 0)
        return;
    ts = (struct timespec){ 0, (long) pause };
    (void) nanosleep(&ts, NULL);
    agent->pause_ns -= pause;
    agent->capped_ns += pause;
}

mrd_local_ns
mrd_agent_next_ns(const mrd_agent *agent)
{
    mrd_local_ns next =
        mrd_local_min(mrd_collectors_next_ns(agent), mrd_record_next_ns(agent->record));

    next = mrd_local_min(next, mrd_agent_reach_next_ns(agent));
    return agent->publish == NULL ? next : mrd_local_min(next, mrd_publish_next_ns(agent->publish));
}

size_t
mrd_agent_fds(const mrd_agent *agent, int fds[MRD_AGENT_FDS])
{
    const int own[] = { agent->transport == NULL ? -1 : agent->transport->fd(agent->transport),
                        mrd_metrics_fd(agent->metrics) };
    size_t n = mrd_collectors_fds(agent, fds, MRD_AGENT_FDS - MRD_COUNT(own));

    for (size_t i = 0; i < MRD_COUNT(own); i++) {
        if (own[i] >= 0)
            fds[n++] = own[i];
    }
    return n;
}

static void
wait_for_news(mrd_agent *agent, int timeout_ms)
{
    mrd_local_ns now = mrd_local_now();
    mrd_local_ns next =
        mrd_local_min(mrd_local_add(now, timeout_ms * MRD_MS), mrd_agent_next_ns(agent));
    mrd_dur_ns left = mrd_local_diff(next, now);
    struct timespec ts = { left / MRD_SEC, left % MRD_SEC };
    struct pollfd polled[MRD_AGENT_FDS];
    int fds[MRD_AGENT_FDS];
    size_t n = mrd_agent_fds(agent, fds);

    if (left <= 0)
        return;
    for (size_t i = 0; i < n; i++)
        polled[i] = (struct pollfd){ fds[i], POLLIN, 0 };
    (void) ppoll(polled, n, &ts, NULL);
}

/* Logs that writes to the spool failed. Otherwise the operator would see this only in the agent's
 * counts. Events that could not be written to the spool stay in the rings or are dropped. */
static void
watch_spool(mrd_agent *agent, mrd_local_ns now)
{
    mrd_spool_stats stats;

    mrd_spool_get_stats(agent->spool, &stats);
    if (stats.failures != agent->spool_failures) {
        if (agent->spool_failed.ns == 0)
            mrd_log(MRD_LOG_ERROR, "AGT-SPOOL-FAILS",
                    "Events cannot be written to the spool: they wait in the rings until these are "
                    "full, and are dropped and counted: reason=%s",
                    mrd_spool_failure(agent->spool));
        agent->spool_failures = stats.failures;
        agent->spool_failed = now;
    } else if (agent->spool_failed.ns != 0 &&
               mrd_local_diff(now, agent->spool_failed) >= MRD_WAIT_SPOOL_CALM) {
        agent->spool_failed = (mrd_local_ns){ 0 };
        mrd_log(MRD_LOG_INFO, "AGT-SPOOL-WRITES", "Events are written to the spool again");
    }
}

void
mrd_agent_step(mrd_agent *agent, int timeout_ms)
{
    double before = agent->o.cpu_limit > 0 ? cpu_seconds() : 0;
    mrd_local_ns now = mrd_local_now();

    mrd_collectors_step(agent, now);
    mrd_record_step(agent->record, now);
    watch_spool(agent, now);
    if (agent->publish != NULL)
        mrd_publish_step(agent->publish, now);
    mrd_agent_reach_step(agent, now);
    mrd_agent_secrets_step(agent, now);
    mrd_agent_forget_flushed(agent, now);
    mrd_metrics_step(agent->metrics, now);
    if (agent->o.cpu_limit > 0)
        cap_cpu(agent, cpu_seconds() - before);
    if (timeout_ms > 0)
        wait_for_news(agent, timeout_ms);
}

bool
mrd_agent_drain(mrd_agent *agent, mrd_dur_ns patience)
{
    mrd_local_ns end = mrd_local_add(mrd_local_now(), patience);
    mrd_spool_stats st;

    mrd_collectors_finish(agent);
    do {
        mrd_record_flush(agent->record);
        mrd_agent_step(agent, 5);
        mrd_spool_get_stats(agent->spool, &st);
    } while ((st.items > 0 || !mrd_collectors_idle(agent)) &&
             mrd_local_before(mrd_local_now(), end));
    return st.items == 0;
}

/* ---- Open and close ---- */

static mrd_err
open_publish(mrd_agent *agent, mrd_why *why)
{
    mrd_publish_options options = { .transport = agent->transport,
                                    .spool = agent->spool,
                                    .agent = agent->key,
                                    .hello = mrd_agent_hello,
                                    .heartbeat = mrd_agent_heartbeat,
                                    .welcome = mrd_agent_welcome,
                                    .directive = mrd_agent_directive,
                                    .sessions_known = on_sessions_known,
                                    .control = mrd_agent_survey,
                                    .delivered = on_delivered,
                                    .refused = on_refused,
                                    .foreign = on_foreign,
                                    .clock = mrd_agent_clock,
                                    .self = agent };

    return agent->transport == NULL ? MRD_OK : mrd_publish_open(&options, &agent->publish, why);
}

static mrd_err
open_parts(mrd_agent *agent, mrd_why *why)
{
    mrd_record_options ro = { .agent = agent->key,
                              .codec = MRD_CODEC_ZSTD,
                              .flush_ns = agent->o.flush,
                              .recorder_max = (uint64_t) agent->o.recorder_bytes,
                              .boot = mrd_agent_boot_key(agent) };
    mrd_spool_options so = { .dir = agent->o.spool_dir,
                             .max_bytes = (uint64_t) agent->o.spool_bytes,
                             .boot_id = agent->node.boot_id,
                             .dropped = on_spool_dropped,
                             .self = agent };
    mrd_spool_stats st;
    mrd_err err = mrd_spool_open(&so, &agent->spool, why);

    if (err != MRD_OK)
        return err;
    mrd_spool_get_stats(agent->spool, &st);
    agent->recovered = st.recovered_events;
    if (st.damaged_events > 0)
        mrd_log(MRD_LOG_WARN, "AGT-SPOOL-DAMAGED",
                "The spool was cut, or segments of it were removed, while no agent ran; their "
                "events are counted as lost: dir=%s events=%" PRIu64,
                agent->o.spool_dir, st.damaged_events);
    if ((err = mrd_collectors_open(agent, why)) != MRD_OK)
        return err;
    if (agent->o.spool_dir != NULL) {
        snprintf(agent->state_path, sizeof(agent->state_path), "%s/sessions", agent->o.spool_dir);
        ro.state_path = agent->state_path;
        ro.boot_id = agent->node.boot_id;
    }
    ro.files = mrd_collectors_positions;
    ro.files_self = agent;
    ro.spool = agent->spool;
    ro.drain = agent->drain;
    if ((err = mrd_record_open(&ro, &agent->record, why)) != MRD_OK ||
        (err = mrd_collectors_start(agent, why)) != MRD_OK ||
        (err = mrd_trigger_open(&(mrd_trigger_options){ .errors = true }, &agent->errors, why)) !=
            MRD_OK ||
        (err = open_publish(agent, why)) != MRD_OK)
        return err;
    return mrd_agent_open_metrics(agent, why);
}

/* Starts the collectors for sessions that a previous agent saved and this agent continues. */
static void
resume_sessions(mrd_agent *agent)
{
    for (size_t i = 0; i < mrd_record_sessions(agent->record); i++) {
        mrd_record_status st;
        mrd_why why = { 0 };

        mrd_record_get(agent->record, i, &st);
        if (mrd_collectors_begin(agent, st.id, &why) != MRD_OK)
            mrd_log(MRD_LOG_WARN, "AGT-COUNTERS",
                    "The counters of a session are not sampled: session=%s reason=%s", st.name,
                    why.text);
    }
}

mrd_err
mrd_agent_open(const mrd_agent_options *options, const mrd_node_identity *node,
               mrd_transport *transport, mrd_agent **ret_agent, mrd_why *why)
{
    mrd_agent *agent = calloc(1, sizeof(*agent));
    mrd_err err = MRD_OK;

    if (agent == NULL) {
        if (transport != NULL)
            transport->close(transport);
        return mrd_why_set(why, MRD_NOMEM, 0, "agent");
    }
    agent->o = *options;
    agent->node = *node;
    agent->transport = transport;
    agent->proc_root = options->proc_root == NULL ? "/proc" : options->proc_root;
    agent->key = mrd_agent_key(mrd_str_of(node->instance_id));
    mrd_random(&agent->run, sizeof(agent->run));
    if (options->token_file != NULL)
        err = mrd_agent_token_load(agent, why);
    if (err == MRD_OK)
        err = open_parts(agent, why);
    if (err == MRD_OK)
        err = mrd_agent_open_enrol(agent, why);
    if (err != MRD_OK) {
        mrd_agent_close(agent);
        return err;
    }
    resume_sessions(agent);
    if (agent->publish != NULL)
        agent->wait_until = mrd_local_add(mrd_local_now(), MRD_WAIT_SESSIONS);
    mrd_drain_hold(agent->drain, mrd_agent_waits(agent, mrd_local_now()));
    *ret_agent = agent;
    return MRD_OK;
}

void
mrd_agent_close(mrd_agent *agent)
{
    if (agent == NULL)
        return;
    /* The connection is closed first, so that no message arrives any more. The rest is closed in
     * the reverse order of opening. */
    if (agent->transport != NULL)
        agent->transport->close(agent->transport);
    mrd_enrol_close(agent->enrol);
    mrd_metrics_close(agent->metrics);
    mrd_secret_free(agent->metrics_token);
    mrd_publish_close(agent->publish);
    mrd_trigger_close(agent->errors);
    mrd_collectors_stop(agent);
    mrd_record_close(agent->record);
    mrd_collectors_close(agent);
    mrd_spool_close(agent->spool);
    mrd_secret_free(agent->token);
    free(agent);
}

mrd_record *
mrd_agent_borrow_record(const mrd_agent *agent)
{
    return agent->record;
}

mrd_drain *
mrd_agent_borrow_drain(const mrd_agent *agent)
{
    return agent->drain;
}
