#include "aggregator/core/node/clock.h"

#include <stdlib.h>

#include "aggregator/core/common/text.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "timesync/follow.h"

/* Number of completed probes that are stored. A node in several sessions sends its times of a probe
 * once for each session, so that each journal has them. The time server can complete a probe only
 * once, so the stored result is used for the other sessions. A frame has the probes of one second
 * (at most 16), or a burst. */
#define PROBES_REMEMBERED 128

struct mrd_probe_memory {
    mrd_probe v[PROBES_REMEMBERED];
    size_t next;
};

static void
follow(mrd_node *node, const mrd_probe *probe)
{
    if (node->follow == NULL)
        node->follow =
            mrd_follow_new(node->instance_id, mrd_hash64(node->boot_id, strlen(node->boot_id), 0),
                           &mrd_follow_defaults);
    if (node->follow != NULL)
        mrd_follow_probe(node->follow, probe);
    if (node->probes == NULL && (node->probes = calloc(1, sizeof(*node->probes))) == NULL)
        return; /* out of memory, so frames that other sessions receive lack this probe */
    node->probes->v[node->probes->next++ % PROBES_REMEMBERED] = *probe;
}

static bool
recall(const mrd_node *node, const mrd_probe_id *id, mrd_probe *ret_probe)
{
    for (size_t i = 0; node->probes != NULL && i < PROBES_REMEMBERED; i++) {
        const mrd_probe *probe = &node->probes->v[i];

        if (probe->id.agent == id->agent && probe->id.agent_epoch == id->agent_epoch &&
            probe->id.k == id->k) {
            *ret_probe = *probe;
            return true;
        }
    }
    return false;
}

void
mrd_node_asleep(mrd_node *node, mrd_dur_ns asleep, mrd_local_ns at)
{
    mrd_epoch_break epoch_break = { .cause = MRD_EPOCH_SUSPEND, .keep_rate = true, .before = at };
    bool more = node->has_asleep && mrd_sat_sub(asleep, node->asleep) > MRD_EPOCH_SUSPEND_MIN;

    if (!mrd_time_sane(asleep) || !mrd_time_sane(at.ns))
        return;
    if (node->has_asleep && !more) {
        if (mrd_sat_sub(node->asleep, asleep) <= MRD_EPOCH_SUSPEND_MIN &&
            mrd_local_before(node->told, at))
            node->told = at;
        return;
    }
    if (more) {
        epoch_break.after = mrd_local_before(node->told, at) ? node->told : at;
        epoch_break.lost = asleep - node->asleep;
        if (node->follow != NULL)
            mrd_follow_break(node->follow, &epoch_break);
    }
    /* if the total did not grow, the report only confirms that the machine was not suspended */
    if (more || asleep > MRD_EPOCH_SUSPEND_MIN)
        node->awake = at;
    node->has_asleep = true;
    node->asleep = asleep;
    node->told = at;
}

static bool
is_suspend(const Mrd__ClockBreak *clock_break)
{
    return clock_break->cause == MRD_EPOCH_SUSPEND && mrd_clock_break_sane(clock_break);
}

/* Returns true if the agent is of an earlier release, which reports each suspend of the machine,
 * but not the total time in suspend. */
static bool
is_of_earlier_release(const Mrd__ClockData *data)
{
    for (size_t i = 0; i < data->n_breaks; i++)
        if (is_suspend(data->breaks[i]))
            return data->asleep_ns == 0;
    return false;
}

/* Returns true if the data is from the node's current boot. A spool keeps frames across a reboot,
 * but their times belong to the earlier boot's clock. They must not change the estimate of the
 * current clock. */
static bool
is_of_this_boot(const mrd_node *node, const Mrd__ClockData *data)
{
    return data->boot_id[0] == '\0' || node->boot_id[0] == '\0' ||
           strncmp(data->boot_id, node->boot_id, sizeof(node->boot_id) - 1) == 0;
}

/* Returns true if a probe that the node sent at its time a1 can be used for its current clock. If
 * the frame arrived late, the machine may have been suspended since then. */
static bool
is_of_now(mrd_node *node, const Mrd__ClockData *data, int64_t a1)
{
    mrd_dur_ns asleep = data->asleep_ns;
    int64_t from = a1;

    if (!is_of_this_boot(node, data))
        return false;
    if (is_of_earlier_release(data))
        return true;
    for (size_t i = 0; i < data->n_breaks; i++) {
        const Mrd__ClockBreak *clock_break = data->breaks[i];

        if (!is_suspend(clock_break))
            continue;
        if (clock_break->before_ns > a1)
            asleep = mrd_sat_sub(asleep, clock_break->lost_ns);
        else
            from = clock_break->before_ns;
    }
    mrd_node_asleep(node, asleep, (mrd_local_ns){ from });
    return mrd_sat_sub(node->asleep, asleep) <= MRD_EPOCH_SUSPEND_MIN;
}

/* Takes the probes that were sent over the data connection. They are complete, because the reply
 * contains the aggregator's times. Skips probes that claim more precise time stamps than this
 * transport has. */
static void
take_whole(mrd_node *node, const mrd_timescale *timescale, const Mrd__ClockData *data,
           mrd_buf *joined)
{
    mrd_bytes own = { data->joined.data, data->joined.len };
    mrd_probe probe;
    size_t at = 0;

    while (at < own.len && mrd_probe_decode(own, &at, &probe) == MRD_OK) {
        if (probe.id.agent != node->key || probe.source_up > MRD_STAMP_NNG ||
            probe.source_down > MRD_STAMP_NNG)
            continue;
        if (strcmp(data->reference, timescale->timeline) == 0 &&
            !recall(node, &probe.id, &(mrd_probe){ 0 }) && is_of_now(node, data, probe.a1))
            follow(node, &probe);
        mrd_probe_encode(&probe, joined);
    }
}

static void
take_halves(mrd_node *node, const Mrd__ClockData *data, mrd_probe_join_fn *join, void *self,
            mrd_buf *joined)
{
    mrd_bytes sent = { data->sent.data, data->sent.len };
    mrd_probe_sent half;
    mrd_probe probe;
    size_t at = 0;

    while (at < sent.len && mrd_probe_sent_decode(sent, &at, &half) == MRD_OK) {
        if (half.id.agent != node->key || join == NULL)
            continue;
        if (!recall(node, &half.id, &probe)) {
            if (join(self, &half, &probe) != MRD_OK)
                /* skipped, because join() has counted the failure; the other probes are still
                 * usable */
                continue;
            if (is_of_now(node, data, half.a1))
                follow(node, &probe);
        }
        mrd_probe_encode(&probe, joined);
    }
}

void
mrd_node_take_clock(mrd_node *node, const mrd_timescale *timescale, Mrd__ClockData *data,
                    mrd_probe_join_fn *join, void *self, mrd_buf *joined)
{
    mrd_buf_reset(joined);
    take_whole(node, timescale, data, joined);
    take_halves(node, data, join, self, joined);
    for (size_t i = 0; i < data->n_breaks && node->follow != NULL && is_of_this_boot(node, data);
         i++) {
        mrd_epoch_break epoch_break = mrd_clock_break_of(data->breaks[i]);

        if (mrd_clock_break_sane(data->breaks[i]) &&
            (epoch_break.cause != MRD_EPOCH_SUSPEND || is_of_earlier_release(data)))
            mrd_follow_break(node->follow, &epoch_break);
    }
    if (data->n_readings > 0 && is_of_this_boot(node, data) &&
        mrd_host_reading_take(&node->reading, data->readings[data->n_readings - 1]))
        node->has_reading = true;
    if (joined->err != MRD_OK)
        mrd_buf_reset(joined);
    data->sent.len = 0;
    data->joined = (ProtobufCBinaryData){ joined->len, joined->p };
}

bool
mrd_node_check_causality(mrd_node *node, const mrd_timescale *timescale, mrd_causality *to,
                         mrd_local_ns local, mrd_local_ns received, bool answer, bool *ret_violated)
{
    int64_t session = mrd_sat_add(received.ns, timescale->offset), by;
    mrd_align_bound bound;
    mrd_sess_ns at;

    if (node->follow == NULL || local.ns == 0 || mrd_local_before(local, node->awake) ||
        !mrd_time_sane(local.ns) || !mrd_time_sane(received.ns) ||
        !mrd_follow_live(node->follow, local, &at, &bound) ||
        /* no check, because a bound with a lower quality than this is not reliable */
        bound.quality < MRD_ALIGN_EXTRAPOLATED)
        return false;
    by = answer ? mrd_sat_sub(session, bound.hi.ns) : mrd_sat_sub(bound.lo.ns, session);
    to->checked++;
    *ret_violated = by > 0;
    if (by <= 0)
        return true;
    to->violations++;
    to->worst = by > to->worst ? by : to->worst;
    return true;
}

/* Returns the rate in ppb at which the error bound of the node's clock has to grow; 0 if unknown.
 * The node extrapolates the estimate as a straight line. The growing bound around this line must
 * contain the solver's bounds from 30 s before to 30 s after the estimate. Comparing only one
 * second after it is not enough, because the solver's bound can be narrow between two probes. */
static uint64_t
drift_of(mrd_follow *follow, mrd_local_ns local, mrd_sess_ns at, uint32_t radius, int64_t rate_ppb)
{
    static const int seconds[] = { 1, 2, 4, 8, 16, 30, -1, -2, -4, -8, -16, -30 };
    int64_t drift = 1;

    for (size_t i = 0; i < MRD_COUNT(seconds); i++) {
        int64_t s = seconds[i], line = at.ns + s * (MRD_SEC + rate_ppb), room;
        mrd_align_bound bound;
        mrd_sess_ns then;
        uint32_t wide;

        if (!mrd_follow_live(follow, (mrd_local_ns){ local.ns + s * MRD_SEC }, &then, &bound) ||
            (wide = mrd_align_radius(then, &bound)) == UINT32_MAX)
            return 0;
        room = mrd_sat_abs(mrd_sat_sub(then.ns, line)) + (int64_t) wide - (int64_t) radius;
        room = room / mrd_sat_abs(s) + 1;
        drift = room > drift ? room : drift;
    }
    return (uint64_t) drift;
}

bool
mrd_node_estimate(mrd_node *node, const mrd_timescale *timescale, mrd_local_ns local,
                  Mrd__ClockEstimate *ret, char text[24])
{
    mrd_align_bound bound;
    mrd_dur_ns now, best;
    mrd_sess_ns at, later;
    uint32_t radius;

    mrd__clock_estimate__init(ret);
    ret->at_local_ns = local.ns;
    ret->state = text;
    if (timescale->same_clock && !node->simulated &&
        strcmp(node->boot_id, timescale->boot_id) == 0) {
        ret->offset_ns = timescale->offset;
        mrd_text_set(text, 24, "aligned");
        return true;
    }
    if (node->follow == NULL || local.ns == 0 || mrd_local_before(local, node->awake) ||
        !mrd_time_sane(local.ns) || !mrd_follow_live(node->follow, local, &at, &bound) ||
        !mrd_time_sane(at.ns))
        return false;
    radius = mrd_align_radius(at, &bound);
    mrd_follow_width(node->follow, &now, &best);
    ret->offset_ns = at.ns - local.ns;
    ret->bound_ns = radius == UINT32_MAX ? -1 : (int64_t) radius;
    ret->probe_faster = best > 0 && now > 2 * best;
    mrd_text_set(text, 24, mrd_align_quality_text(bound.quality));
    if (mrd_follow_live(node->follow, (mrd_local_ns){ local.ns + MRD_SEC }, &later, &bound) &&
        mrd_align_radius(later, &bound) != UINT32_MAX) {
        ret->rate_ppb = mrd_sat_sub(later.ns, at.ns + MRD_SEC);
        ret->drift_ppb = drift_of(node->follow, local, at, radius, ret->rate_ppb);
    }
    return true;
}
