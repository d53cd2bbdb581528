#include "aggregator/hub.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/node_clock.h"
#include "aggregator/timeserve.h"
#include "base/hash.h"
#include "base/num.h"
#include "timesync/follow.h"

/* ---- Live ---- */

/* The host of "tcp://host:port"; "" for any address. */
static void
url_host(const char *url, char *host, size_t size)
{
    const char *p = strstr(url, "://"), *end;

    p = p == NULL ? url : p + 3;
    end = strrchr(p, ':');
    if (*p == '[') { /* [::1]:7770 */
        p++;
        end = strchr(p, ']');
    }
    snprintf(host, size, "%.*s", end == NULL ? (int) strlen(p) : (int) (end - p), p);
    if (strcmp(host, "*") == 0)
        *host = '\0';
}

mrd_err
clocks_open(hub *h, const char *data_url, uint16_t port, mrd_why *why)
{
    mrd_timeserve_options o = { .port = port, .session_minus_raw = h->session_offset_ns };
    char host[256];

    h->own = mrd_hostclock_open(&(mrd_hostclock_options){ 0 }); /* without it UTC links nothing */
    if (strstr(data_url, "tcp://") == NULL) { /* inproc, ipc: the agents' clock is ours */
        h->same_clock = true;
        return MRD_OK;
    }
    url_host(data_url, host, sizeof(host));
    o.host = *host == '\0' ? NULL : host;
    return mrd_timeserve_open(&o, &h->timeserve, why);
}

void
clocks_close(hub *h)
{
    mrd_timeserve_close(h->timeserve);
    h->timeserve = NULL;
    mrd_hostclock_close(h->own);
    h->own = NULL;
}

uint16_t
clocks_port(const hub *h)
{
    return h->timeserve == NULL ? 0 : mrd_timeserve_port(h->timeserve);
}

void
clocks_hello(hub *h, hub_node *n)
{
    mrd_random(n->probe_key, sizeof(n->probe_key));
    if (h->timeserve != NULL)
        (void) mrd_timeserve_agent(h->timeserve, n->key,
                                   n->probe_key); /* else it stays unaligned */
}

void
clocks_forget(hub_node *n)
{
    mrd_follow_free(n->follow);
    n->follow = NULL;
    free(n->probes);
    n->probes = NULL;
}

/* A minute, to check packets held out: what is written into profiles is solved again from the
 * journal. For ever, a thousand nodes would fill half a gigabyte an hour. */
#define LAGGED_KEEP 128

static void
follow(hub_node *n, const mrd_probe *probe)
{
    mrd_follow_options o = mrd_follow_defaults;

    o.lagged_keep = LAGGED_KEEP;
    if (n->follow == NULL)
        n->follow =
            mrd_follow_new(n->instance_id, mrd_hash64(n->boot_id, strlen(n->boot_id), 0), &o);
    if (n->follow != NULL)
        mrd_follow_probe(n->follow, probe);
}

/* A node in several sessions sends the same halves in a frame of each, so that each journal is
 * whole; the time server joins a half once. */
#define PROBES_REMEMBERED 128 /* a frame is a second of at most 16 a second, or a burst */

struct probe_memory {
    mrd_probe v[PROBES_REMEMBERED];
    size_t next;
};

static void
remember(hub_node *n, const mrd_probe *probe)
{
    if (n->probes == NULL && (n->probes = calloc(1, sizeof(*n->probes))) == NULL)
        return; /* only a second session would miss it */
    n->probes->v[n->probes->next++ % PROBES_REMEMBERED] = *probe;
}

static bool
recall(const hub_node *n, const mrd_probe_id *id, mrd_probe *ret_probe)
{
    for (size_t i = 0; n->probes != NULL && i < PROBES_REMEMBERED; i++) {
        const mrd_probe *p = &n->probes->v[i];

        if (p->id.agent == id->agent && p->id.agent_epoch == id->agent_epoch && p->id.k == id->k) {
            *ret_probe = *p;
            return true;
        }
    }
    return false;
}

#define OWN_EVERY (5 * MRD_SEC)

/* Our own reading beside each of the node's: what links our next incarnation to this one where no node
 * does, and what a node's clock can be compared with without a packet. */
static void
add_own(hub *h, Mrd__ClockData *data)
{
    int64_t now = mrd_local_now().ns;
    mrd_hostclock_reading r;

    data->n_aggregator = 0; /* nobody else's word */
    data->session_offset_ns = 0;
    if (strcmp(data->reference, h->timeline) != 0)
        return;
    data->session_offset_ns = h->session_offset_ns;
    if (h->own == NULL || data->n_readings == 0)
        return;
    if (h->own_reading.m.raw_ns == 0 || now - h->own_reading.m.raw_ns >= OWN_EVERY) {
        mrd_hostclock_read(h->own, &r);
        mrd_clock_reading_fill(&h->own_reading, &r);
    }
    h->own_list[0] = &h->own_reading.m;
    data->aggregator = h->own_list;
    data->n_aggregator = 1;
}

void
clocks_take(hub *h, hub_node *n, Mrd__ClockData *data, mrd_buf *joined)
{
    mrd_bytes sent = { data->sent.data, data->sent.len };
    mrd_bytes own = { data->joined.data, data->joined.len };
    mrd_probe_sent half;
    mrd_probe probe;
    size_t at = 0;

    mrd_buf_reset(joined);
    if (data->reference[0] == '\0')
        data->reference = h->timeline;
    add_own(h, data);
    /* Probes over a connection come whole: the reply carried our stamps. A better label than theirs
     * is not believed. */
    while (at < own.len && mrd_probe_decode(own, &at, &probe) == MRD_OK) {
        if (probe.id.agent != n->key || probe.source_up > MRD_STAMP_NNG ||
            probe.source_down > MRD_STAMP_NNG)
            continue;
        if (strcmp(data->reference, h->timeline) == 0 && !recall(n, &probe.id, &(mrd_probe){ 0 })) {
            follow(n, &probe);
            remember(n, &probe);
        }
        mrd_probe_encode(&probe, joined);
    }
    for (at = 0; at < sent.len && mrd_probe_sent_decode(sent, &at, &half) == MRD_OK;) {
        if (half.id.agent != n->key || h->timeserve == NULL)
            continue;
        if (!recall(n, &half.id, &probe)) {
            if (mrd_timeserve_join(h->timeserve, &half, &probe) != MRD_OK)
                continue; /* counted by the joiner; loses only this sample */
            follow(n, &probe);
            remember(n, &probe);
        }
        mrd_probe_encode(&probe, joined);
    }
    for (size_t i = 0; i < data->n_breaks && n->follow != NULL; i++) {
        mrd_epoch_break b = mrd_clock_break_of(data->breaks[i]);

        if (data->breaks[i]->cause < MRD_EPOCH_CAUSES && mrd_clock_break_sane(data->breaks[i]))
            mrd_follow_break(n->follow, &b);
    }
    if (data->n_readings > 0 &&
        mrd_host_reading_take(&n->reading, data->readings[data->n_readings - 1]))
        n->has_reading = true;
    if (joined->err != MRD_OK)
        mrd_buf_reset(joined);
    data->sent.len = 0;
    data->joined = (ProtobufCBinaryData){ joined->len, joined->p };
}

void
clocks_causality(hub *h, hub_node *n, hub_causality *to, int64_t local_ns, int64_t received_ns,
               bool answer)
{
    int64_t session = mrd_sat_add(received_ns, h->session_offset_ns), by;
    mrd_align_bound bound;
    mrd_sess_ns at;

    if (n->follow == NULL || local_ns == 0 || !mrd_time_sane(local_ns) ||
        !mrd_time_sane(received_ns) ||
        !mrd_follow_live(n->follow, (mrd_local_ns){ local_ns }, &at, &bound) ||
        bound.quality < MRD_ALIGN_EXTRAPOLATED) /* says itself that it is not to be trusted */
        return;
    by = answer ? mrd_sat_sub(session, bound.hi.ns) : mrd_sat_sub(bound.lo.ns, session);
    h->stats.clock_frames++;
    to->checked++;
    if (by <= 0)
        return;
    h->stats.clock_frame_violations++;
    to->violations++;
    to->worst_ns = by > to->worst_ns ? by : to->worst_ns;
}

bool
clocks_live(hub *h, hub_node *n, int64_t local_ns, Mrd__ClockEstimate *ret, char text[24])
{
    mrd_align_bound bound;
    mrd_dur_ns now, best;
    mrd_sess_ns at, later;
    uint32_t radius;

    mrd__clock_estimate__init(ret);
    ret->at_local_ns = local_ns;
    ret->state = text;
    if (h->same_clock && !n->simulated && strcmp(n->boot_id, h->boot_id) == 0) {
        ret->offset_ns = h->session_offset_ns;
        hub_copy(text, 24, "aligned");
        return true;
    }
    if (n->follow == NULL || local_ns == 0 || !mrd_time_sane(local_ns) ||
        !mrd_follow_live(n->follow, (mrd_local_ns){ local_ns }, &at, &bound) ||
        !mrd_time_sane(at.ns))
        return false;
    radius = mrd_align_radius(at, &bound);
    mrd_follow_width(n->follow, &now, &best);
    ret->offset_ns = at.ns - local_ns;
    ret->bound_ns = radius == UINT32_MAX ? -1 : (int64_t) radius;
    ret->probe_faster = best > 0 && now > 2 * best;
    hub_copy(text, 24, mrd_align_quality_text(bound.quality));
    if (mrd_follow_live(n->follow, (mrd_local_ns){ local_ns + MRD_SEC }, &later, &bound) &&
        mrd_align_radius(later, &bound) != UINT32_MAX) {
        int64_t wider = (int64_t) mrd_align_radius(later, &bound) - (int64_t) radius;

        ret->rate_ppb = mrd_sat_sub(later.ns, at.ns + MRD_SEC);
        ret->drift_ppb = wider > 0 ? (uint64_t) wider : 1;
    }
    return true;
}
