/* agent/daemon/collect_clock.c - the collector of clock data: the offset of the node's clock to the
 * session clock (agent/clock/clock.h). Sends it in frames to the recording sessions. Without a
 * session it only updates the aggregator's live estimate. */
#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"

/* Opens a connection to the aggregator that only carries clock probes. */
static mrd_err
connect_probes(void *self, mrd_transport **ret_transport, mrd_why *why)
{
    const mrd_agent *agent = self;
    mrd_link_options options = { .data_url = agent->o.data_url,
                                 .tls = { agent->o.tls_ca, agent->o.tls_cert, agent->o.tls_key,
                                          agent->o.tls_name },
                                 .window = 1,
                                 .reply_ns = MRD_WAIT_PROBE_REPLY };

    return (mrd_agent_joins(&agent->o) ? mrd_transport_link_later
                                       : mrd_transport_link)(&options, ret_transport, why);
}

static mrd_err
start_clock(void *self, mrd_why *why)
{
    mrd_agent *agent = self;
    mrd_clock_sync_options options = { .data_url = agent->o.data_url,
                                       .boot_id = agent->node.boot_id,
                                       .agent = agent->key,
                                       .transport = (mrd_probes_transport) agent->o.clock_probes,
                                       .connect = agent->transport == NULL ? NULL : connect_probes,
                                       .connect_self = agent };

    return mrd_clock_sync_open(&options, &agent->clock, why);
}

/* Sends clock data to the recording sessions. Without a session, the data updates only the
 * aggregator's live estimate. */
static void
ship_clock(mrd_agent *agent, const Mrd__ClockData *data)
{
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA,
                    .agent = agent->key,
                    .boot = mrd_agent_boot_key(agent) };
    mrd_record_status st;
    mrd_buf frame = { 0 };
    bool stored = false;

    for (size_t i = 0; i < mrd_record_sessions(agent->record); i++) {
        mrd_record_get(agent->record, i, &st);
        if (mrd_record_is_under_way(st.phase)) {
            if (mrd_record_message(agent->record, st.id, MRD_FRAME_CLOCK_DATA, data, NULL) ==
                MRD_OK)
                stored = true;
            else
                agent->clock_lost++;
        }
    }
    if (!stored && mrd_msg_pack(&f, data, &frame, NULL) == MRD_OK)
        (void) mrd_publish_foreign(agent->publish, MRD_TAG_CLOCK,
                                   (mrd_bytes){ frame.p, frame.len });
    mrd_buf_fini(&frame);
}

static void
step_clock(void *self, mrd_local_ns now)
{
    mrd_agent *agent = self;
    Mrd__ClockData data;
    mrd_clock_sync_view view;
    mrd_record_status st;
    bool recording = false, ended = false;

    if (agent->publish == NULL)
        return;
    for (size_t i = 0; i < mrd_record_sessions(agent->record); i++) {
        mrd_record_get(agent->record, i, &st);
        recording = recording || st.phase == MRD__NODE_PHASE__NODE_RECORDING;
        ended =
            ended || (st.phase == MRD__NODE_PHASE__NODE_STOPPING && mrd_local_after(now, st.stop));
    }
    /* Send a burst of probes when a session has stopped. The clock offset is then measured after
     * the session's last event, and before the agent reports the session as complete. */
    if (ended && !agent->ended)
        mrd_clock_sync_burst(agent->clock);
    agent->ended = ended;
    mrd_clock_sync_step(agent->clock, recording || ended);
    mrd_clock_sync_get(agent->clock, &view);
    if (view.slept > 0 && mrd_local_before(agent->woke, view.woke)) {
        agent->woke = view.woke;
        mrd_record_slept(agent->record, view.woke, view.slept);
        mrd_publish_heartbeat_now(agent->publish);
        mrd_log(MRD_LOG_WARN, "AGT-SLEPT", "The machine was suspended: seconds=%.1f",
                (double) view.slept / MRD_SEC);
    }
    if (mrd_clock_sync_take(agent->clock, ended, &data))
        ship_clock(agent, &data);
}

static mrd_local_ns
next_of_clock(const void *self)
{
    const mrd_agent *agent = self;

    return mrd_clock_sync_next_ns(agent->clock);
}

static void
fds_of_clock(const void *self, int ret_fds[MRD_COLLECTOR_FDS])
{
    const mrd_agent *agent = self;

    ret_fds[0] = mrd_clock_sync_fd(agent->clock);
    ret_fds[1] = mrd_clock_sync_link_fd(agent->clock);
}

static void
stop_clock(void *self)
{
    mrd_agent *agent = self;

    mrd_clock_sync_close(agent->clock);
    agent->clock = NULL;
}

const mrd_collector mrd_collector_clock = {
    .name = "clock",
    .start = start_clock,
    .step = step_clock,
    .next_ns = next_of_clock,
    .fds = fds_of_clock,
    .stop = stop_clock,
    /* needed if the agent's phase `start` failed, because stop is not called then */
    .close = stop_clock,
};
