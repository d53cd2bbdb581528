#include "agent/clock/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/clock/linkprobe.h"
#include "base/conf/agent_waits.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/url.h"
#include "hw/hostclock.h"
#include "proto/clock_reading.h"
#include "timesync/epoch.h"

/* Assumed maximum rate error of any clock, as the fraction 1/DRIFT_PART (100 ppm). */
#define DRIFT_PART     10000
#define RATE_MAX       500000 /* largest plausible rate error of a clock, in ppb */
#define RATE_BEND      5000   /* maximum change of a clock's rate, in ppb per second */
#define WORD_BOUND_MAX MRD_TIME_MAX
#define FRAME_LEN      16384
#define BREAKS         16
#define READINGS       4
/* After this number of consecutive packets without an answer, UDP counts as blocked. */
#define SILENT 8
/* Numbers (k) of probes that are made from heartbeats begin here. Other probes have smaller
 * numbers. */
#define BEAT_K 0x80000000u

struct mrd_clock_sync {
    mrd_clock_sync_options o;
    char host[256], boot_id[64];
    uint64_t agent;
    uint32_t epoch;
    mrd_timeprobe *probe;
    /* The UDP client's counts when it last received an answer: packets that were answered, and
     * packets that were lost or not sent. */
    uint64_t answered, failed;
    /* probe client on the separate connection; NULL means that the connection is not open */
    mrd_linkprobe *link;
    mrd_local_ns link_tried, link_received;
    uint64_t link_answered;
    uint32_t beats;
    unsigned source; /* where the times of the last probe came from, a mrd_stamp_source */
    uint64_t probes; /* number of answered probes that did not use UDP */
    uint16_t port;
    uint8_t key[MRD_PROBE_KEY_LEN];
    mrd_pace pace;
    bool faster, recording;
    mrd_buf sent, joined;
    mrd_local_ns sent_since;
    mrd_epoch_watch watch;
    uint64_t session_boot;
    char reference[64]; /* name of the aggregator's clock, to which estimates refer */
    mrd_local_ns watched_at;
    Mrd__ClockBreak breaks[BREAKS], *break_list[BREAKS];
    size_t n_breaks;
    mrd_hostclock *own;
    mrd_local_ns read_at; /* when this node's own clocks are read next */
    mrd_clock_reading readings[READINGS];
    Mrd__ClockReading *reading_list[READINGS];
    size_t n_readings;
    /* The members from here on are the estimate of the offset from heartbeats. */
    bool have_session_offset;
    mrd_dur_ns session_offset, beat_offset, beat_bound;
    mrd_local_ns beat_at;
    mrd_local_ns answered_at;
    mrd_peer_ns answer_raw;
    /* The members from here on are the aggregator's estimate of the offset (word_*). */
    mrd_dur_ns word_offset, word_bound;
    /* rate of this node's clock and the error of this rate, in ppb; an error of 0 means unknown */
    int64_t word_rate, word_drift;
    /* local time for which the aggregator's estimate is valid, and when the estimate arrived */
    mrd_local_ns word_at, word_received;
    char state[24], method[16];
    /* The members from here on are about suspends of this machine. */
    /* asleep: total time of suspends up to now. lost: length of the last suspend. */
    mrd_dur_ns asleep, lost;
    mrd_local_ns woke_at; /* when the last suspend was detected; 0 means never suspended */
};

/* Gets the host of a tcp address, to which UDP probes are sent; "" for other addresses. */
static void
host_of(const char *address, char host[256])
{
    mrd_url url;

    host[0] = '\0';
    if (address != NULL && mrd_url_parse(address, &url) == MRD_OK && mrd_url_is(&url, "tcp"))
        (void) mrd_url_host(&url, host, 256);
}

/* Starts a new epoch of probe numbers, because each new probe client begins again with number 0.
 * The epoch is at least the wall clock's time in seconds, so that an agent that starts later uses a
 * larger epoch. */
static void
next_epoch(mrd_clock_sync *sync)
{
    uint32_t now = (uint32_t) (mrd_wall_now().ns / MRD_SEC);

    sync->epoch = now > sync->epoch ? now : sync->epoch + 1;
}

mrd_err
mrd_clock_sync_open(const mrd_clock_sync_options *options, mrd_clock_sync **ret_clock, mrd_why *why)
{
    mrd_clock_sync *sync = calloc(1, sizeof(*sync));

    if (sync == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "clock");
    sync->o = *options;
    host_of(options->data_url, sync->host);
    if ((sync->own = mrd_hostclock_open(&(mrd_hostclock_options){ 0 })) == NULL) {
        free(sync);
        return mrd_why_set(why, MRD_NOMEM, 0, "clock");
    }
    snprintf(sync->boot_id, sizeof(sync->boot_id), "%.63s", options->boot_id);
    sync->agent = options->agent;
    next_epoch(sync);
    sync->beat_bound = sync->word_bound = -1;
    sync->asleep = mrd_asleep_now();
    /* The machine was suspended before this process began. The time of the last suspend is unknown,
     * so it is assumed to have ended now. */
    if (sync->asleep > MRD_EPOCH_SUSPEND_MIN)
        sync->woke_at = mrd_local_now();
    *ret_clock = sync;
    return MRD_OK;
}

void
mrd_clock_sync_close(mrd_clock_sync *sync)
{
    if (sync == NULL)
        return;
    mrd_timeprobe_close(sync->probe);
    mrd_linkprobe_close(sync->link);
    mrd_hostclock_close(sync->own);
    mrd_buf_fini(&sync->sent);
    mrd_buf_fini(&sync->joined);
    free(sync);
}

static void
open_probe(mrd_clock_sync *sync)
{
    mrd_timeprobe_options options = {
        .host = sync->host, .port = sync->port, .agent = sync->agent, .agent_epoch = sync->epoch
    };

    mrd_timeprobe_close(sync->probe);
    sync->probe = NULL;
    sync->answered = sync->failed = 0;
    if (sync->port == 0 || sync->host[0] == '\0' ||
        (sync->o.transport != MRD_PROBES_AUTO && sync->o.transport != MRD_PROBES_UDP))
        return;
    memcpy(options.key, sync->key, sizeof(options.key));
    /* errors are ignored, because there are other transports for probes */
    if (mrd_timeprobe_open(&options, &sync->probe, NULL) != MRD_OK)
        sync->probe = NULL;
    sync->pace = MRD_PACE_RUN;
    next_epoch(sync);
}

void
mrd_clock_sync_welcome(mrd_clock_sync *sync, const Mrd__Welcome *welcome)
{
    bool same = sync->probe != NULL && welcome->probe_key.len == sizeof(sync->key) &&
                welcome->time_port == sync->port &&
                memcmp(welcome->probe_key.data, sync->key, sizeof(sync->key)) == 0;

    sync->session_boot = mrd_hash64(welcome->boot_id, strlen(welcome->boot_id), 0);
    if (strncmp(sync->reference, welcome->boot_id, sizeof(sync->reference) - 1) != 0)
        sync->joined.len = 0,
        /* answers before this welcome were about another clock */
            sync->answered_at = (mrd_local_ns){ 0 };
    snprintf(sync->reference, sizeof(sync->reference), "%.63s", welcome->boot_id);
    sync->session_offset =
        mrd_time_sane(welcome->session_offset_ns) ? welcome->session_offset_ns : 0;
    sync->have_session_offset = sync->session_offset != 0;
    /* the estimate is discarded, because the aggregator may be another one than before */
    sync->beat_bound = sync->word_bound = -1;
    sync->state[0] = '\0';
    mrd_linkprobe_close(sync->link);
    sync->link = NULL;
    sync->link_tried = (mrd_local_ns){ 0 };
    if (same) {
        mrd_timeprobe_burst(sync->probe);
        return;
    }
    sync->port = welcome->time_port > 65535 ? 0 : (uint16_t) welcome->time_port;
    if (welcome->probe_key.len == sizeof(sync->key))
        memcpy(sync->key, welcome->probe_key.data, sizeof(sync->key));
    else
        sync->port = 0;
    open_probe(sync);
}

static bool
udp_silent(const mrd_clock_sync *sync)
{
    mrd_timeprobe_counts counts;

    if (sync->probe == NULL)
        return true;
    counts = mrd_timeprobe_counters(sync->probe);
    return counts.answered == sync->answered &&
           counts.lost + counts.unsent - sync->failed >= SILENT;
}

static bool
link_silent(const mrd_clock_sync *sync, mrd_local_ns now)
{
    return sync->link == NULL || sync->link_received.ns == 0 ||
           mrd_local_diff(now, sync->link_received) > MRD_WAIT_LINK_FRESH;
}

static bool
slept(const mrd_clock_sync *sync)
{
    return mrd_asleep_now() - sync->asleep > MRD_EPOCH_SUSPEND_MIN;
}

/* Detects a suspend of the machine. The RAW clock stood still during the suspend, while the clocks
 * of other nodes continued. So the estimate and the probes that were sent before are discarded. */
static void
notice_sleep(mrd_clock_sync *sync)
{
    mrd_dur_ns now = mrd_asleep_now();

    if (now - sync->asleep <= MRD_EPOCH_SUSPEND_MIN)
        return;
    sync->lost = now - sync->asleep;
    sync->asleep = now;
    sync->woke_at = mrd_local_now();
    sync->watched_at.ns = 0;
    sync->beat_bound = sync->word_bound = -1;
    sync->answered_at = (mrd_local_ns){ 0 };
    sync->state[0] = '\0';
}

/* Makes a clock probe from the times at which a heartbeat and its answer were sent and received.
 * Used only if no other transport gets answers, because the error of such a probe is larger. */
static void
beat_probe(mrd_clock_sync *sync, mrd_local_ns sent_ns, const Mrd__Ack *ack, mrd_local_ns received)
{
    mrd_probe_sent sent = { .id = { sync->agent, sync->epoch, BEAT_K + 2 * sync->beats },
                            .a1 = sent_ns.ns,
                            .a4 = received.ns,
                            .source1 = MRD_STAMP_BATCH,
                            .source4 = MRD_STAMP_BATCH };
    mrd_probe_served served = { .id = sent.id,
                                .r2 = mrd_sat_add(ack->local_ns, sync->session_offset),
                                .r3 = mrd_sat_add(ack->reply_local_ns, sync->session_offset),
                                .source2 = MRD_STAMP_BATCH,
                                .source3 = MRD_STAMP_BATCH };
    mrd_probe probe;

    if (sync->host[0] == '\0' || sync->o.transport == MRD_PROBES_UDP ||
        sync->o.transport == MRD_PROBES_NNG || !udp_silent(sync) || !link_silent(sync, received) ||
        mrd_probe_join(&sent, &served, &probe) != MRD_OK)
        return;
    sync->beats++;
    sync->probes++;
    sync->source = MRD_STAMP_BATCH;
    if (sync->joined.len == 0 && sync->sent.len == 0)
        sync->sent_since = received;
    if (sync->joined.len < 8 * FRAME_LEN)
        mrd_probe_encode(&probe, &sync->joined);
}

/* Returns true if offset, time and bound in the aggregator's estimate are plausible. */
static bool
word_sane(const Mrd__ClockEstimate *estimate)
{
    return mrd_time_sane(estimate->offset_ns) && mrd_time_sane(estimate->at_local_ns) &&
           estimate->bound_ns < WORD_BOUND_MAX;
}

void
mrd_clock_sync_ack(mrd_clock_sync *sync, mrd_local_ns sent, const Mrd__Ack *ack,
                   mrd_local_ns received)
{
    int64_t round = mrd_sat_sub(received.ns, sent.ns), theirs;
    /* half of the round trip, plus the drift of the clocks during the round trip */
    int64_t bound = round / 2 + round / DRIFT_PART + 1;

    notice_sleep(sync);
    if (mrd_local_before(sent, sync->woke_at))
        return;
    if (ack->clock != NULL && word_sane(ack->clock) &&
        (ack->clock->at_local_ns == 0 || ack->clock->at_local_ns >= sync->woke_at.ns)) {
        sync->word_offset = ack->clock->offset_ns;
        sync->word_bound = ack->clock->bound_ns;
        sync->word_rate = ack->clock->rate_ppb;
        if (sync->word_rate > RATE_MAX || sync->word_rate < -RATE_MAX)
            sync->word_rate = 0;
        sync->word_drift = ack->clock->drift_ppb > RATE_MAX ? 0 : (int64_t) ack->clock->drift_ppb;
        sync->word_at =
            (mrd_local_ns){ ack->clock->at_local_ns == 0 ? received.ns : ack->clock->at_local_ns };
        sync->word_received = received;
        sync->faster = ack->clock->probe_faster;
        snprintf(sync->state, sizeof(sync->state), "%.23s", ack->clock->state);
    }
    if (ack->local_ns == 0 || !sync->have_session_offset || bound < 0 ||
        !mrd_time_sane(ack->local_ns) || !mrd_time_sane(ack->reply_local_ns) ||
        !mrd_time_sane(sent.ns) || !mrd_time_sane(received.ns))
        return;
    theirs = ack->local_ns + (ack->reply_local_ns - ack->local_ns) / 2;
    sync->answered_at = received;
    sync->answer_raw = (mrd_peer_ns){ ack->reply_local_ns };
    beat_probe(sync, sent, ack, received);
    if (sync->beat_bound >= 0 && mrd_local_diff(received, sync->beat_at) < MRD_WAIT_BEAT_KEPT &&
        bound > sync->beat_bound + mrd_local_diff(received, sync->beat_at) / DRIFT_PART)
        return;
    sync->beat_offset = mrd_time_clamp(mrd_sat_sub(mrd_sat_add(theirs, sync->session_offset),
                                                   sent.ns + mrd_local_diff(received, sent) / 2));
    sync->beat_bound = bound;
    sync->beat_at = received;
}

/* ---- Detecting suspends ---- */

static void
watch(mrd_clock_sync *sync, mrd_local_ns now)
{
    mrd_epoch_reading reading = { .raw = now, .session_boot_id = sync->session_boot };
    mrd_epoch_break epoch_break;
    struct timespec ts;

    /* A suspend between the readings of two clocks would distort the result. So if a suspend was
     * just detected, this turn reads nothing. */
    if ((sync->watched_at.ns != 0 &&
         mrd_local_diff(now, sync->watched_at) < MRD_WAIT_SUSPEND_LOOK) ||
        slept(sync))
        return;
    sync->watched_at = now;
    reading.boot_id = mrd_hash64(sync->boot_id, strlen(sync->boot_id), 0);
    clock_gettime(CLOCK_MONOTONIC, &ts);
    reading.monotonic = ts.tv_sec * MRD_SEC + ts.tv_nsec;
    reading.boottime = reading.monotonic + sync->asleep;
    reading.has_vm_marker = mrd_hostclock_marker(sync->own, &reading.vm_marker);
    if (!mrd_epoch_watch_add(&sync->watch, &reading, &epoch_break) || sync->n_breaks == BREAKS)
        return;
    mrd__clock_break__init(&sync->breaks[sync->n_breaks]);
    sync->breaks[sync->n_breaks].cause = (uint32_t) epoch_break.cause;
    sync->breaks[sync->n_breaks].after_ns = epoch_break.after.ns;
    sync->breaks[sync->n_breaks].before_ns = epoch_break.before.ns;
    sync->breaks[sync->n_breaks].keep_rate = epoch_break.keep_rate;
    sync->breaks[sync->n_breaks].lost_ns = epoch_break.lost;
    sync->n_breaks++;
    mrd_clock_sync_burst(sync);
}

/* ---- The node's own clocks ---- */

/* Reads the node's own clocks when the period is over. Also reads them when a recording begins, so
 * that every session has at least one reading. */
static void
read_own(mrd_clock_sync *sync, mrd_local_ns now, bool recording)
{
    mrd_hostclock_reading reading;

    if ((mrd_local_before(now, sync->read_at) && (sync->recording || !recording)) ||
        sync->n_readings == READINGS) {
        sync->recording = recording;
        return;
    }
    sync->recording = recording;
    sync->read_at = mrd_local_add(now, MRD_WAIT_NODE_CLOCKS);
    mrd_hostclock_read(sync->own, &reading);
    mrd_clock_reading_fill(&sync->readings[sync->n_readings], &reading);
    sync->reading_list[sync->n_readings] = &sync->readings[sync->n_readings].m;
    sync->n_readings++;
}

/* ---- Transports of clock probes ---- */

static void
step_udp(mrd_clock_sync *sync, mrd_pace pace, mrd_local_ns now)
{
    mrd_probe_sent half;
    mrd_timeprobe_counts counts;

    if (pace != sync->pace)
        mrd_timeprobe_pace(sync->probe, pace);
    sync->pace = pace;
    mrd_timeprobe_step(sync->probe);
    counts = mrd_timeprobe_counters(sync->probe);
    if (counts.answered != sync->answered) {
        sync->answered = counts.answered;
        sync->failed = counts.lost + counts.unsent;
    }
    while (mrd_timeprobe_take(sync->probe, &half)) {
        if (half.a1 < sync->woke_at.ns)
            continue;
        if (half.a4 != 0)
            sync->source = half.source1 < half.source4 ? half.source1 : half.source4;
        if (sync->sent.len == 0 && sync->joined.len == 0)
            sync->sent_since = now;
        /* New probes are dropped if the caller has not taken the earlier ones in time. */
        if (sync->sent.len < 8 * FRAME_LEN)
            mrd_probe_sent_encode(&half, &sync->sent);
    }
}

static void
open_link(mrd_clock_sync *sync, mrd_local_ns now)
{
    mrd_transport *transport = NULL;

    if (sync->o.connect == NULL || sync->host[0] == '\0' || !sync->have_session_offset ||
        (sync->link_tried.ns != 0 && mrd_local_diff(now, sync->link_tried) < MRD_WAIT_LINK_FRESH))
        return;
    sync->link_tried = now;
    if (sync->o.connect(sync->o.connect_self, &transport, NULL) == MRD_OK)
        sync->link = mrd_linkprobe_open(transport, sync->agent, (next_epoch(sync), sync->epoch),
                                        sync->reference);
    sync->link_received = (mrd_local_ns){ 0 };
    sync->link_answered = 0;
}

static void
step_link(mrd_clock_sync *sync, mrd_pace pace, mrd_local_ns now)
{
    mrd_probe probe;

    mrd_linkprobe_pace(sync->link, pace);
    mrd_linkprobe_step(sync->link);
    if (mrd_linkprobe_answered(sync->link) != sync->link_answered) {
        sync->link_answered = mrd_linkprobe_answered(sync->link);
        sync->link_received = now;
    }
    while (mrd_linkprobe_take(sync->link, &probe)) {
        if (probe.a1 < sync->woke_at.ns)
            continue;
        sync->source = MRD_STAMP_NNG;
        sync->probes++;
        if (sync->sent.len == 0 && sync->joined.len == 0)
            sync->sent_since = now;
        if (sync->joined.len < 8 * FRAME_LEN)
            mrd_probe_encode(&probe, &sync->joined);
    }
}

/* Runs the probe clients. Opens the separate connection when UDP gets no answers, and closes it
 * when UDP gets answers again. */
static void
step_transports(mrd_clock_sync *sync, mrd_pace pace, mrd_local_ns now)
{
    bool silent = udp_silent(sync);

    if (sync->probe != NULL)
        step_udp(sync, silent && sync->link != NULL ? MRD_PACE_IDLE : pace, now);
    if (sync->o.transport == MRD_PROBES_UDP || sync->o.transport == MRD_PROBES_HEARTBEAT)
        return;
    if (silent && sync->link == NULL)
        open_link(sync, now);
    if (!silent && sync->link != NULL) {
        mrd_linkprobe_close(sync->link);
        sync->link = NULL;
        sync->link_tried = (mrd_local_ns){ 0 };
        mrd_timeprobe_burst(sync->probe);
    }
    if (sync->link != NULL)
        step_link(sync, pace, now);
}

void
mrd_clock_sync_step(mrd_clock_sync *sync, bool recording)
{
    mrd_local_ns now = mrd_local_now();
    bool known =
        sync->word_bound >= 0 && mrd_local_diff(now, sync->word_received) < MRD_WAIT_ESTIMATE_VALID;
    mrd_pace want = recording ? (sync->faster ? MRD_PACE_FAST : MRD_PACE_RUN)
                    : known   ? MRD_PACE_IDLE
                            /* without an estimate, probes at full pace, because a session may begin
                             * soon */
                            : MRD_PACE_RUN;

    notice_sleep(sync);
    now = mrd_local_now();
    watch(sync, now);
    read_own(sync, now, recording);
    step_transports(sync, want, now);
}

void
mrd_clock_sync_burst(mrd_clock_sync *sync)
{
    if (sync->probe != NULL)
        mrd_timeprobe_burst(sync->probe);
    if (sync->link != NULL)
        mrd_linkprobe_burst(sync->link);
}

static const char *
transport_text(const mrd_clock_sync *sync)
{
    return sync->source == MRD_STAMP_NNG     ? "nng"
           : sync->source == MRD_STAMP_BATCH ? "heartbeat"
                                             : "udp";
}

bool
mrd_clock_sync_take(mrd_clock_sync *sync, bool force, Mrd__ClockData *to)
{
    mrd_local_ns now = mrd_local_now();
    size_t len = sync->sent.len + sync->joined.len;

    if (len == 0 && sync->n_breaks == 0 && sync->n_readings == 0)
        return false;
    if (!force && sync->n_breaks == 0 && sync->n_readings == 0 && len < FRAME_LEN &&
        mrd_local_diff(now, sync->sent_since) < MRD_WAIT_CLOCK_FRAME)
        return false;
    snprintf(sync->method, sizeof(sync->method), "%s", transport_text(sync));
    mrd__clock_data__init(to);
    to->boot_id = sync->boot_id;
    to->method = sync->method;
    to->sent = (ProtobufCBinaryData){ sync->sent.len, sync->sent.p };
    to->joined = (ProtobufCBinaryData){ sync->joined.len, sync->joined.p };
    to->readings = sync->reading_list;
    to->reference = sync->reference;
    to->n_readings = sync->n_readings;
    to->asleep_ns = sync->asleep;
    for (size_t i = 0; i < sync->n_breaks; i++)
        sync->break_list[i] = &sync->breaks[i];
    to->breaks = sync->break_list;
    to->n_breaks = sync->n_breaks;
    /* resets only the lengths, because *to points to the bytes until the next step */
    sync->sent.len = sync->joined.len = 0;
    sync->n_breaks = sync->n_readings = 0;
    return true;
}

/* Computes how much the offset changes and how much its bound grows within `age` nanoseconds after
 * the aggregator's estimate (before it if negative). Uses the estimated rate only if its error is
 * smaller than the assumed error of any clock (DRIFT_PART). The error of a rate from few probes can
 * be far larger. */
static void
word_moved(const mrd_clock_sync *sync, int64_t age, int64_t *ret_by, int64_t *ret_growth)
{
    double s = fabs((double) age / MRD_SEC), any = (double) MRD_SEC / DRIFT_PART * s;
    double known = (double) sync->word_drift * s + 0.5 * RATE_BEND * s * s;

    if (sync->word_drift > 0 && known < any && s <= (double) MRD_WAIT_ESTIMATE_VALID / MRD_SEC) {
        *ret_by = (int64_t) ((double) age / MRD_SEC * (double) sync->word_rate);
        *ret_growth = (int64_t) (known < any ? known : any) + 1;
    } else {
        *ret_by = 0;
        *ret_growth = (int64_t) any;
    }
}

void
mrd_clock_sync_at(const mrd_clock_sync *sync, mrd_local_ns at, mrd_clock_sync_view *ret_view)
{
    int64_t age = mrd_sat_sub(mrd_time_clamp(at.ns), sync->word_at.ns);
    mrd_clock_sync_view view = { .bound_ns = -1,
                                 .method = "none",
                                 .probes = sync->probes,
                                 .answered = sync->answered_at,
                                 .woke = sync->woke_at,
                                 .slept = sync->lost,
                                 .answer_raw = sync->answered_at.ns == 0 ? ((mrd_peer_ns){ 0 })
                                                                         : sync->answer_raw };

    snprintf(view.state, sizeof(view.state), "%s",
             sync->state[0] == '\0' ? "unaligned" : sync->state);
    if (sync->probe != NULL)
        view.probes += mrd_timeprobe_counters(sync->probe).answered;
    if (slept(sync)) {
        /* the machine was suspended since the last turn; the offset is unknown until the next turn
         * handles this */
        view.known = false;
    } else if (sync->word_bound >= 0 &&
               mrd_local_diff(mrd_local_now(), sync->word_received) < MRD_WAIT_ESTIMATE_VALID) {
        int64_t by, growth;

        word_moved(sync, age, &by, &growth);
        view.known = true;
        view.offset_ns = mrd_time_clamp(mrd_sat_add(sync->word_offset, by));
        view.bound_ns = mrd_sat_add(sync->word_bound, growth);
        snprintf(view.method, sizeof(view.method), "%s", mrd_stamp_source_text(sync->source));
    } else if (sync->beat_bound >= 0) {
        view.known = true;
        view.offset_ns = sync->beat_offset;
        view.bound_ns = mrd_sat_add(sync->beat_bound,
                                    mrd_sat_abs(mrd_sat_sub(at.ns, sync->beat_at.ns)) / DRIFT_PART);
        snprintf(view.method, sizeof(view.method), "heartbeat");
    }
    /* for times before the machine's last suspend, the error is unknown */
    if (mrd_local_before(at, sync->woke_at))
        view.bound_ns = -1;
    *ret_view = view;
}

void
mrd_clock_sync_get(const mrd_clock_sync *sync, mrd_clock_sync_view *ret_view)
{
    mrd_clock_sync_at(sync, mrd_local_now(), ret_view);
}

int
mrd_clock_sync_fd(const mrd_clock_sync *sync)
{
    return sync->probe == NULL ? -1 : mrd_timeprobe_fd(sync->probe);
}

int
mrd_clock_sync_link_fd(const mrd_clock_sync *sync)
{
    return sync->link == NULL ? -1 : mrd_linkprobe_fd(sync->link);
}

mrd_local_ns
mrd_clock_sync_next_ns(const mrd_clock_sync *sync)
{
    mrd_local_ns udp =
        sync->probe == NULL ? ((mrd_local_ns){ INT64_MAX }) : mrd_timeprobe_deadline(sync->probe);
    mrd_local_ns link =
        sync->link == NULL ? ((mrd_local_ns){ INT64_MAX }) : mrd_linkprobe_next_ns(sync->link);

    return mrd_local_before(udp, link) ? udp : link;
}
