#include "aggregator/clock/clocks.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/clock/timeserve.h"
#include "base/hash.h"
#include "base/url.h"
#include "proto/clock_reading.h"

#define OWN_EVERY (5 * MRD_SEC)

struct mrd_clocks {
    struct mrd_timeserve *serve; /* the time server; NULL if none is needed */
    struct mrd_hostclock *own;   /* reader of this machine's clocks; NULL if they cannot be read */
    /* the latest reading of this machine's clocks; raw_ns is 0 if there is none yet */
    mrd_clock_reading reading;
    /* array with a pointer to `reading`, as a ClockData message requires */
    Mrd__ClockReading *readings[1];
    mrd_buf joined;
};

mrd_err
mrd_clocks_open(const char *data_url, uint16_t port, mrd_timescale *scale, mrd_clocks **ret_clocks,
                mrd_why *why)
{
    mrd_timeserve_options options = { .port = port, .session_minus_raw = scale->offset };
    mrd_clocks *clocks = calloc(1, sizeof(*clocks));
    char host[256] = "";
    mrd_err err = MRD_OK;
    mrd_url url;

    if (clocks == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "clocks");
    /* An error is ignored. Without these readings, UTC cannot link the aggregator's timelines
     * before and after a reboot, but everything else works. */
    clocks->own = mrd_hostclock_open(&(mrd_hostclock_options){ 0 });
    if (mrd_url_parse(data_url, &url) != MRD_OK || !mrd_url_is(&url, "tcp")) {
        /* agents with inproc or ipc URLs run on this machine, so they use the same clock */
        scale->same_clock = true;
    } else {
        (void) mrd_url_host(&url, host, sizeof(host));
        options.host = *host == '\0' || strcmp(host, "*") == 0 ? NULL : host;
        err = mrd_timeserve_open(&options, &clocks->serve, why);
    }
    if (err != MRD_OK)
        mrd_clocks_close(clocks);
    else
        *ret_clocks = clocks;
    return err;
}

void
mrd_clocks_close(mrd_clocks *clocks)
{
    if (clocks == NULL)
        return;
    mrd_timeserve_close(clocks->serve);
    mrd_hostclock_close(clocks->own);
    mrd_buf_fini(&clocks->joined);
    free(clocks);
}

uint16_t
mrd_clocks_port(const mrd_clocks *clocks)
{
    return clocks->serve == NULL ? 0 : mrd_timeserve_port(clocks->serve);
}

void
mrd_clocks_welcome(mrd_clocks *clocks, uint64_t agent, uint8_t key[MRD_PROBE_KEY_LEN])
{
    mrd_random(key, MRD_PROBE_KEY_LEN);
    if (clocks->serve != NULL)
        /* if this fails, the agent's clock stays unaligned */
        (void) mrd_timeserve_agent(clocks->serve, agent, key);
}

void
mrd_clocks_forget(mrd_clocks *clocks, uint64_t agent)
{
    if (clocks->serve != NULL)
        mrd_timeserve_forget(clocks->serve, agent);
}

static mrd_err
join(void *self, const mrd_probe_sent *half, mrd_probe *ret_probe)
{
    return mrd_timeserve_join(self, half, ret_probe);
}

/* Adds a reading of the aggregator's own clocks to a node's clock data, if the data contains
 * readings by the node. With such pairs of readings both clocks can be compared without packets.
 * The pairs also link the aggregator's timelines before and after its reboot, if no node's clock
 * continued during the reboot. */
static void
add_own(mrd_clocks *clocks, const mrd_timescale *timescale, Mrd__ClockData *data)
{
    int64_t now = mrd_local_now().ns;
    mrd_hostclock_reading reading;

    /* discards readings that a node sent in the members for readings of the aggregator */
    data->n_aggregator = 0;
    data->session_offset_ns = 0;
    if (strcmp(data->reference, timescale->timeline) != 0)
        return;
    data->session_offset_ns = timescale->offset;
    if (clocks->own == NULL || data->n_readings == 0)
        return;
    if (clocks->reading.m.raw_ns == 0 || now - clocks->reading.m.raw_ns >= OWN_EVERY) {
        mrd_hostclock_read(clocks->own, &reading);
        mrd_clock_reading_fill(&clocks->reading, &reading);
    }
    clocks->readings[0] = &clocks->reading.m;
    data->aggregator = clocks->readings;
    data->n_aggregator = 1;
}

void
mrd_clocks_take(mrd_clocks *clocks, mrd_node *node, const mrd_timescale *timescale,
                Mrd__ClockData *data)
{
    if (data->reference[0] == '\0')
        data->reference = (char *) (uintptr_t) timescale->timeline;
    add_own(clocks, timescale, data);
    mrd_node_take_clock(node, timescale, data, clocks->serve == NULL ? NULL : join, clocks->serve,
                        &clocks->joined);
}
