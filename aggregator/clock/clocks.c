#include "aggregator/clock/clocks.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/clock/timeserve.h"
#include "base/hash.h"
#include "base/url.h"
#include "proto/clock_reading.h"

#define OWN_EVERY (5 * MRD_SEC)

struct mrd_clocks {
    struct mrd_timeserve *serve;    /* NULL: none */
    struct mrd_hostclock *own;      /* this machine's clocks. NULL means cannot be read */
    mrd_clock_reading reading;      /* the latest reading; raw_ns 0 means none yet */
    Mrd__ClockReading *readings[1]; /* as a message takes it */
    mrd_buf joined;
};

mrd_err
mrd_clocks_open(const char *data_url, uint16_t port, mrd_timescale *scale, mrd_clocks **ret_clocks,
                mrd_why *why)
{
    mrd_timeserve_options o = { .port = port, .session_minus_raw = scale->offset };
    mrd_clocks *c = calloc(1, sizeof(*c));
    char host[256] = "";
    mrd_err err = MRD_OK;
    mrd_url url;

    if (c == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "clocks");
    /* without it, UTC links no incarnations */
    c->own = mrd_hostclock_open(&(mrd_hostclock_options){ 0 });
    if (mrd_url_parse(data_url, &url) != MRD_OK || !mrd_url_is(&url, "tcp")) {
        scale->same_clock = true; /* inproc and ipc: agents use our clock */
    } else {
        (void) mrd_url_host(&url, host, sizeof(host));
        o.host = *host == '\0' || strcmp(host, "*") == 0 ? NULL : host;
        err = mrd_timeserve_open(&o, &c->serve, why);
    }
    if (err != MRD_OK)
        mrd_clocks_close(c);
    else
        *ret_clocks = c;
    return err;
}

void
mrd_clocks_close(mrd_clocks *c)
{
    if (c == NULL)
        return;
    mrd_timeserve_close(c->serve);
    mrd_hostclock_close(c->own);
    mrd_buf_fini(&c->joined);
    free(c);
}

uint16_t
mrd_clocks_port(const mrd_clocks *c)
{
    return c->serve == NULL ? 0 : mrd_timeserve_port(c->serve);
}

void
mrd_clocks_welcome(mrd_clocks *c, uint64_t agent, uint8_t key[MRD_PROBE_KEY_LEN])
{
    mrd_random(key, MRD_PROBE_KEY_LEN);
    if (c->serve != NULL)
        (void) mrd_timeserve_agent(c->serve, agent, key); /* else it stays unaligned */
}

void
mrd_clocks_forget(mrd_clocks *c, uint64_t agent)
{
    if (c->serve != NULL)
        mrd_timeserve_forget(c->serve, agent);
}

static mrd_err
join(void *self, const mrd_probe_sent *half, mrd_probe *ret_probe)
{
    return mrd_timeserve_join(self, half, ret_probe);
}

/* Adds our own reading next to each reading of the node. The readings link our next incarnation to
 * this one if no node does, and they allow a comparison with a node's clock without packets. */
static void
add_own(mrd_clocks *c, const mrd_timescale *t, Mrd__ClockData *data)
{
    int64_t now = mrd_local_now().ns;
    mrd_hostclock_reading r;

    data->n_aggregator = 0; /* only our own readings may be in it */
    data->session_offset_ns = 0;
    if (strcmp(data->reference, t->timeline) != 0)
        return;
    data->session_offset_ns = t->offset;
    if (c->own == NULL || data->n_readings == 0)
        return;
    if (c->reading.m.raw_ns == 0 || now - c->reading.m.raw_ns >= OWN_EVERY) {
        mrd_hostclock_read(c->own, &r);
        mrd_clock_reading_fill(&c->reading, &r);
    }
    c->readings[0] = &c->reading.m;
    data->aggregator = c->readings;
    data->n_aggregator = 1;
}

void
mrd_clocks_take(mrd_clocks *c, mrd_node *n, const mrd_timescale *t, Mrd__ClockData *data)
{
    if (data->reference[0] == '\0')
        data->reference = (char *) (uintptr_t) t->timeline;
    add_own(c, t, data);
    mrd_node_take_clock(n, t, data, c->serve == NULL ? NULL : join, c->serve, &c->joined);
}
