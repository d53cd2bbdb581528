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

#define DRIFT_PART     10000  /* 100 ppm */
#define RATE_MAX       500000 /* ppb, the limit for a plausible clock */
#define RATE_BEND      5000   /* ppb/s, how fast the rate may change */
#define WORD_BOUND_MAX MRD_TIME_MAX
#define FRAME_LEN      16384
#define BREAKS         16
#define READINGS       4
#define SILENT         8           /* packets in a row without an answer: UDP is blocked */
#define BEAT_K         0x80000000u /* heartbeats as probes: k starts here */

struct mrd_clock_sync {
    mrd_clock_sync_options o;
    char host[256], boot_id[64];
    uint64_t agent;
    uint32_t epoch;
    mrd_timeprobe *probe;
    uint64_t answered, failed; /* of UDP at its last answer */
    mrd_linkprobe *link;       /* NULL: not needed */
    mrd_local_ns link_tried, link_received;
    uint64_t link_answered;
    uint32_t beats;
    unsigned source; /* of the last probe, mrd_stamp_source */
    uint64_t probes; /* over other transports than UDP */
    uint16_t port;
    uint8_t key[MRD_PROBE_KEY_LEN];
    mrd_pace pace;
    bool faster, recording;
    mrd_buf sent, joined;
    mrd_local_ns sent_since;
    mrd_epoch_watch watch;
    uint64_t session_boot;
    char reference[64]; /* the aggregator's timeline */
    mrd_local_ns watched_at;
    Mrd__ClockBreak breaks[BREAKS], *break_list[BREAKS];
    size_t n_breaks;
    mrd_hostclock *own;
    mrd_local_ns read_at; /* next reading */
    mrd_clock_reading readings[READINGS];
    Mrd__ClockReading *reading_list[READINGS];
    size_t n_readings;
    /* By heartbeats. */
    bool have_session_offset;
    mrd_dur_ns session_offset, beat_offset, beat_bound;
    mrd_local_ns beat_at;
    mrd_local_ns answered_at;
    mrd_peer_ns answer_raw;
    /* By the aggregator. */
    mrd_dur_ns word_offset, word_bound;
    int64_t word_rate, word_drift;       /* ns, ns, ppb, ppb; drift 0 means unknown */
    mrd_local_ns word_at, word_received; /* local time of its validity; when it arrived */
    char state[24], method[16];
    /* Suspended machines. */
    mrd_dur_ns asleep, lost; /* up to now; the last time */
    mrd_local_ns woke_at;    /* when that was detected. 0 means never suspended */
};

/* Returns "" if the address has no host for clock probes. */
static void
host_of(const char *address, char host[256])
{
    mrd_url url;

    host[0] = '\0';
    if (address != NULL && mrd_url_parse(address, &url) == MRD_OK && mrd_url_is(&url, "tcp"))
        (void) mrd_url_host(&url, host, 256);
}

/* Numbers of another client begin at 0 again, so each client has an epoch of its own, which the
 * next process does not use either. */
static void
next_epoch(mrd_clock_sync *c)
{
    uint32_t now = (uint32_t) (mrd_wall_now().ns / MRD_SEC);

    c->epoch = now > c->epoch ? now : c->epoch + 1;
}

mrd_err
mrd_clock_sync_open(const mrd_clock_sync_options *options, mrd_clock_sync **ret_clock, mrd_why *why)
{
    mrd_clock_sync *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "clock");
    c->o = *options;
    host_of(options->data_url, c->host);
    if ((c->own = mrd_hostclock_open(&(mrd_hostclock_options){ 0 })) == NULL) {
        free(c);
        return mrd_why_set(why, MRD_NOMEM, 0, "clock");
    }
    snprintf(c->boot_id, sizeof(c->boot_id), "%.63s", options->boot_id);
    c->agent = options->agent;
    next_epoch(c);
    c->beat_bound = c->word_bound = -1;
    c->asleep = mrd_asleep_now();
    if (c->asleep > MRD_EPOCH_SUSPEND_MIN) /* its time is unknown, but earlier */
        c->woke_at = mrd_local_now();
    *ret_clock = c;
    return MRD_OK;
}

void
mrd_clock_sync_close(mrd_clock_sync *c)
{
    if (c == NULL)
        return;
    mrd_timeprobe_close(c->probe);
    mrd_linkprobe_close(c->link);
    mrd_hostclock_close(c->own);
    mrd_buf_fini(&c->sent);
    mrd_buf_fini(&c->joined);
    free(c);
}

static void
open_probe(mrd_clock_sync *c)
{
    mrd_timeprobe_options o = {
        .host = c->host, .port = c->port, .agent = c->agent, .agent_epoch = c->epoch
    };

    mrd_timeprobe_close(c->probe);
    c->probe = NULL;
    c->answered = c->failed = 0;
    if (c->port == 0 || c->host[0] == '\0' ||
        (c->o.transport != MRD_PROBES_AUTO && c->o.transport != MRD_PROBES_UDP))
        return;
    memcpy(o.key, c->key, sizeof(o.key));
    /* On errors the other transports remain. */
    if (mrd_timeprobe_open(&o, &c->probe, NULL) != MRD_OK)
        c->probe = NULL;
    c->pace = MRD_PACE_RUN;
    next_epoch(c);
}

void
mrd_clock_sync_welcome(mrd_clock_sync *c, const Mrd__Welcome *w)
{
    bool same = c->probe != NULL && w->probe_key.len == sizeof(c->key) && w->time_port == c->port &&
                memcmp(w->probe_key.data, c->key, sizeof(c->key)) == 0;

    c->session_boot = mrd_hash64(w->boot_id, strlen(w->boot_id), 0);
    if (strncmp(c->reference, w->boot_id, sizeof(c->reference) - 1) != 0)
        c->joined.len = 0, c->answered_at = (mrd_local_ns){ 0 }; /* answers of another clock */
    snprintf(c->reference, sizeof(c->reference), "%.63s", w->boot_id);
    c->session_offset = mrd_time_sane(w->session_offset_ns) ? w->session_offset_ns : 0;
    c->have_session_offset = c->session_offset != 0;
    c->beat_bound = c->word_bound = -1; /* it may be another aggregator */
    c->state[0] = '\0';
    mrd_linkprobe_close(c->link);
    c->link = NULL;
    c->link_tried = (mrd_local_ns){ 0 };
    if (same) {
        mrd_timeprobe_burst(c->probe);
        return;
    }
    c->port = w->time_port > 65535 ? 0 : (uint16_t) w->time_port;
    if (w->probe_key.len == sizeof(c->key))
        memcpy(c->key, w->probe_key.data, sizeof(c->key));
    else
        c->port = 0;
    open_probe(c);
}

static bool
udp_silent(const mrd_clock_sync *c)
{
    mrd_timeprobe_counts n;

    if (c->probe == NULL)
        return true;
    n = mrd_timeprobe_counters(c->probe);
    return n.answered == c->answered && n.lost + n.unsent - c->failed >= SILENT;
}

static bool
link_silent(const mrd_clock_sync *c, mrd_local_ns now)
{
    return c->link == NULL || c->link_received.ns == 0 ||
           mrd_local_diff(now, c->link_received) > MRD_WAIT_LINK_FRESH;
}

static bool
slept(const mrd_clock_sync *c)
{
    return mrd_asleep_now() - c->asleep > MRD_EPOCH_SUSPEND_MIN;
}

/* This clock stood still during a suspend while the others continued. Discards the estimate and the
 * pending probes. */
static void
notice_sleep(mrd_clock_sync *c)
{
    mrd_dur_ns now = mrd_asleep_now();

    if (now - c->asleep <= MRD_EPOCH_SUSPEND_MIN)
        return;
    c->lost = now - c->asleep;
    c->asleep = now;
    c->woke_at = mrd_local_now();
    c->watched_at.ns = 0;
    c->beat_bound = c->word_bound = -1;
    c->answered_at = (mrd_local_ns){ 0 };
    c->state[0] = '\0';
}

/* If nothing else answers, the four stamps of a heartbeat serve as a probe, although a loose one. */
static void
beat_probe(mrd_clock_sync *c, mrd_local_ns sent_ns, const Mrd__Ack *ack, mrd_local_ns received)
{
    mrd_probe_sent sent = { .id = { c->agent, c->epoch, BEAT_K + 2 * c->beats },
                            .a1 = sent_ns.ns,
                            .a4 = received.ns,
                            .source1 = MRD_STAMP_BATCH,
                            .source4 = MRD_STAMP_BATCH };
    mrd_probe_served served = { .id = sent.id,
                                .r2 = mrd_sat_add(ack->local_ns, c->session_offset),
                                .r3 = mrd_sat_add(ack->reply_local_ns, c->session_offset),
                                .source2 = MRD_STAMP_BATCH,
                                .source3 = MRD_STAMP_BATCH };
    mrd_probe p;

    if (c->host[0] == '\0' || c->o.transport == MRD_PROBES_UDP ||
        c->o.transport == MRD_PROBES_NNG || !udp_silent(c) || !link_silent(c, received) ||
        mrd_probe_join(&sent, &served, &p) != MRD_OK)
        return;
    c->beats++;
    c->probes++;
    c->source = MRD_STAMP_BATCH;
    if (c->joined.len == 0 && c->sent.len == 0)
        c->sent_since = received;
    if (c->joined.len < 8 * FRAME_LEN)
        mrd_probe_encode(&p, &c->joined);
}

/* Returns true if the aggregator's estimate is plausible: possible times and a possible bound. */
static bool
word_sane(const Mrd__ClockEstimate *e)
{
    return mrd_time_sane(e->offset_ns) && mrd_time_sane(e->at_local_ns) &&
           e->bound_ns < WORD_BOUND_MAX;
}

void
mrd_clock_sync_ack(mrd_clock_sync *c, mrd_local_ns sent, const Mrd__Ack *ack, mrd_local_ns received)
{
    int64_t round = mrd_sat_sub(received.ns, sent.ns), theirs;
    int64_t bound = round / 2 + round / DRIFT_PART + 1; /* the clocks drifted apart meanwhile */

    notice_sleep(c);
    if (mrd_local_before(sent, c->woke_at))
        return;
    if (ack->clock != NULL && word_sane(ack->clock) &&
        (ack->clock->at_local_ns == 0 || ack->clock->at_local_ns >= c->woke_at.ns)) {
        c->word_offset = ack->clock->offset_ns;
        c->word_bound = ack->clock->bound_ns;
        c->word_rate = ack->clock->rate_ppb;
        if (c->word_rate > RATE_MAX || c->word_rate < -RATE_MAX)
            c->word_rate = 0;
        c->word_drift = ack->clock->drift_ppb > RATE_MAX ? 0 : (int64_t) ack->clock->drift_ppb;
        c->word_at =
            (mrd_local_ns){ ack->clock->at_local_ns == 0 ? received.ns : ack->clock->at_local_ns };
        c->word_received = received;
        c->faster = ack->clock->probe_faster;
        snprintf(c->state, sizeof(c->state), "%.23s", ack->clock->state);
    }
    if (ack->local_ns == 0 || !c->have_session_offset || bound < 0 ||
        !mrd_time_sane(ack->local_ns) || !mrd_time_sane(ack->reply_local_ns) ||
        !mrd_time_sane(sent.ns) || !mrd_time_sane(received.ns))
        return;
    theirs = ack->local_ns + (ack->reply_local_ns - ack->local_ns) / 2;
    c->answered_at = received;
    c->answer_raw = (mrd_peer_ns){ ack->reply_local_ns };
    beat_probe(c, sent, ack, received);
    if (c->beat_bound >= 0 && mrd_local_diff(received, c->beat_at) < MRD_WAIT_BEAT_KEPT &&
        bound > c->beat_bound + mrd_local_diff(received, c->beat_at) / DRIFT_PART)
        return;
    c->beat_offset = mrd_time_clamp(mrd_sat_sub(mrd_sat_add(theirs, c->session_offset),
                                                sent.ns + mrd_local_diff(received, sent) / 2));
    c->beat_bound = bound;
    c->beat_at = received;
}

/* ---- Probes ---- */

static void
watch(mrd_clock_sync *c, mrd_local_ns now)
{
    mrd_epoch_reading r = { .raw = now, .session_boot_id = c->session_boot };
    mrd_epoch_break b;
    struct timespec ts;

    /* Returns true if `now` certainly lies before the next suspend and after the last one. */
    if ((c->watched_at.ns != 0 && mrd_local_diff(now, c->watched_at) < MRD_WAIT_SUSPEND_LOOK) ||
        slept(c))
        return;
    c->watched_at = now;
    r.boot_id = mrd_hash64(c->boot_id, strlen(c->boot_id), 0);
    clock_gettime(CLOCK_MONOTONIC, &ts);
    r.monotonic = ts.tv_sec * MRD_SEC + ts.tv_nsec;
    r.boottime = r.monotonic + c->asleep;
    r.has_vm_marker = mrd_hostclock_marker(c->own, &r.vm_marker);
    if (!mrd_epoch_watch_add(&c->watch, &r, &b) || c->n_breaks == BREAKS)
        return;
    mrd__clock_break__init(&c->breaks[c->n_breaks]);
    c->breaks[c->n_breaks].cause = (uint32_t) b.cause;
    c->breaks[c->n_breaks].after_ns = b.after.ns;
    c->breaks[c->n_breaks].before_ns = b.before.ns;
    c->breaks[c->n_breaks].keep_rate = b.keep_rate;
    c->breaks[c->n_breaks].lost_ns = b.lost;
    c->n_breaks++;
    mrd_clock_sync_burst(c);
}

/* ---- The node's own clocks ---- */

/* Also reads when a recording begins, so that every session has at least one reading. */
static void
read_own(mrd_clock_sync *c, mrd_local_ns now, bool recording)
{
    mrd_hostclock_reading r;

    if ((mrd_local_before(now, c->read_at) && (c->recording || !recording)) ||
        c->n_readings == READINGS) {
        c->recording = recording;
        return;
    }
    c->recording = recording;
    c->read_at = mrd_local_add(now, MRD_WAIT_NODE_CLOCKS);
    mrd_hostclock_read(c->own, &r);
    mrd_clock_reading_fill(&c->readings[c->n_readings], &r);
    c->reading_list[c->n_readings] = &c->readings[c->n_readings].m;
    c->n_readings++;
}

/* ---- Transports ---- */

static void
step_udp(mrd_clock_sync *c, mrd_pace pace, mrd_local_ns now)
{
    mrd_probe_sent half;
    mrd_timeprobe_counts n;

    if (pace != c->pace)
        mrd_timeprobe_pace(c->probe, pace);
    c->pace = pace;
    mrd_timeprobe_step(c->probe);
    n = mrd_timeprobe_counters(c->probe);
    if (n.answered != c->answered) {
        c->answered = n.answered;
        c->failed = n.lost + n.unsent;
    }
    while (mrd_timeprobe_take(c->probe, &half)) {
        if (half.a1 < c->woke_at.ns)
            continue;
        if (half.a4 != 0)
            c->source = half.source1 < half.source4 ? half.source1 : half.source4;
        if (c->sent.len == 0 && c->joined.len == 0)
            c->sent_since = now;
        if (c->sent.len < 8 * FRAME_LEN) /* not taken in time: drops the newest */
            mrd_probe_sent_encode(&half, &c->sent);
    }
}

static void
open_link(mrd_clock_sync *c, mrd_local_ns now)
{
    mrd_transport *t = NULL;

    if (c->o.connect == NULL || c->host[0] == '\0' || !c->have_session_offset ||
        (c->link_tried.ns != 0 && mrd_local_diff(now, c->link_tried) < MRD_WAIT_LINK_FRESH))
        return;
    c->link_tried = now;
    if (c->o.connect(c->o.connect_self, &t, NULL) == MRD_OK)
        c->link = mrd_linkprobe_open(t, c->agent, (next_epoch(c), c->epoch), c->reference);
    c->link_received = (mrd_local_ns){ 0 };
    c->link_answered = 0;
}

static void
step_link(mrd_clock_sync *c, mrd_pace pace, mrd_local_ns now)
{
    mrd_probe p;

    mrd_linkprobe_pace(c->link, pace);
    mrd_linkprobe_step(c->link);
    if (mrd_linkprobe_answered(c->link) != c->link_answered) {
        c->link_answered = mrd_linkprobe_answered(c->link);
        c->link_received = now;
    }
    while (mrd_linkprobe_take(c->link, &p)) {
        if (p.a1 < c->woke_at.ns)
            continue;
        c->source = MRD_STAMP_NNG;
        c->probes++;
        if (c->sent.len == 0 && c->joined.len == 0)
            c->sent_since = now;
        if (c->joined.len < 8 * FRAME_LEN)
            mrd_probe_encode(&p, &c->joined);
    }
}

/* Opens the connection when UDP does not answer and closes it when UDP answers. */
static void
step_transports(mrd_clock_sync *c, mrd_pace pace, mrd_local_ns now)
{
    bool silent = udp_silent(c);

    if (c->probe != NULL)
        step_udp(c, silent && c->link != NULL ? MRD_PACE_IDLE : pace, now);
    if (c->o.transport == MRD_PROBES_UDP || c->o.transport == MRD_PROBES_HEARTBEAT)
        return;
    if (silent && c->link == NULL)
        open_link(c, now);
    if (!silent && c->link != NULL) {
        mrd_linkprobe_close(c->link);
        c->link = NULL;
        c->link_tried = (mrd_local_ns){ 0 };
        mrd_timeprobe_burst(c->probe);
    }
    if (c->link != NULL)
        step_link(c, pace, now);
}

void
mrd_clock_sync_step(mrd_clock_sync *c, bool recording)
{
    mrd_local_ns now = mrd_local_now();
    bool known =
        c->word_bound >= 0 && mrd_local_diff(now, c->word_received) < MRD_WAIT_ESTIMATE_VALID;
    mrd_pace want = recording ? (c->faster ? MRD_PACE_FAST : MRD_PACE_RUN)
                    : known   ? MRD_PACE_IDLE
                              : MRD_PACE_RUN; /* a session may begin soon */

    notice_sleep(c);
    now = mrd_local_now();
    watch(c, now);
    read_own(c, now, recording);
    step_transports(c, want, now);
}

void
mrd_clock_sync_burst(mrd_clock_sync *c)
{
    if (c->probe != NULL)
        mrd_timeprobe_burst(c->probe);
    if (c->link != NULL)
        mrd_linkprobe_burst(c->link);
}

static const char *
transport_text(const mrd_clock_sync *c)
{
    return c->source == MRD_STAMP_NNG ? "nng" : c->source == MRD_STAMP_BATCH ? "heartbeat" : "udp";
}

bool
mrd_clock_sync_take(mrd_clock_sync *c, bool force, Mrd__ClockData *to)
{
    mrd_local_ns now = mrd_local_now();
    size_t len = c->sent.len + c->joined.len;

    if (len == 0 && c->n_breaks == 0 && c->n_readings == 0)
        return false;
    if (!force && c->n_breaks == 0 && c->n_readings == 0 && len < FRAME_LEN &&
        mrd_local_diff(now, c->sent_since) < MRD_WAIT_CLOCK_FRAME)
        return false;
    snprintf(c->method, sizeof(c->method), "%s", transport_text(c));
    mrd__clock_data__init(to);
    to->boot_id = c->boot_id;
    to->method = c->method;
    to->sent = (ProtobufCBinaryData){ c->sent.len, c->sent.p };
    to->joined = (ProtobufCBinaryData){ c->joined.len, c->joined.p };
    to->readings = c->reading_list;
    to->reference = c->reference;
    to->n_readings = c->n_readings;
    to->asleep_ns = c->asleep;
    for (size_t i = 0; i < c->n_breaks; i++)
        c->break_list[i] = &c->breaks[i];
    to->breaks = c->break_list;
    to->n_breaks = c->n_breaks;
    c->sent.len = c->joined.len = 0; /* the bytes stay valid until the next step */
    c->n_breaks = c->n_readings = 0;
    return true;
}

/* Gets the aggregator's offset `age` later (or earlier), and the growth of its bound. A rate that
 * is no better known than any clock's is ignored, because a rate from few probes can be far worse. */
static void
word_moved(const mrd_clock_sync *c, int64_t age, int64_t *ret_by, int64_t *ret_growth)
{
    double s = fabs((double) age / MRD_SEC), any = (double) MRD_SEC / DRIFT_PART * s;
    double known = (double) c->word_drift * s + 0.5 * RATE_BEND * s * s;

    if (c->word_drift > 0 && known < any && s <= (double) MRD_WAIT_ESTIMATE_VALID / MRD_SEC) {
        *ret_by = (int64_t) ((double) age / MRD_SEC * (double) c->word_rate);
        *ret_growth = (int64_t) (known < any ? known : any) + 1;
    } else {
        *ret_by = 0;
        *ret_growth = (int64_t) any;
    }
}

void
mrd_clock_sync_at(const mrd_clock_sync *c, mrd_local_ns at, mrd_clock_sync_view *ret_view)
{
    int64_t age = mrd_sat_sub(mrd_time_clamp(at.ns), c->word_at.ns);
    mrd_clock_sync_view v = { .bound_ns = -1,
                              .method = "none",
                              .probes = c->probes,
                              .answered = c->answered_at,
                              .woke = c->woke_at,
                              .slept = c->lost,
                              .answer_raw =
                                  c->answered_at.ns == 0 ? ((mrd_peer_ns){ 0 }) : c->answer_raw };

    snprintf(v.state, sizeof(v.state), "%s", c->state[0] == '\0' ? "unaligned" : c->state);
    if (c->probe != NULL)
        v.probes += mrd_timeprobe_counters(c->probe).answered;
    if (slept(c)) {
        v.known = false; /* until the next turn */
    } else if (c->word_bound >= 0 &&
               mrd_local_diff(mrd_local_now(), c->word_received) < MRD_WAIT_ESTIMATE_VALID) {
        int64_t by, growth;

        word_moved(c, age, &by, &growth);
        v.known = true;
        v.offset_ns = mrd_time_clamp(mrd_sat_add(c->word_offset, by));
        v.bound_ns = mrd_sat_add(c->word_bound, growth);
        snprintf(v.method, sizeof(v.method), "%s", mrd_stamp_source_text(c->source));
    } else if (c->beat_bound >= 0) {
        v.known = true;
        v.offset_ns = c->beat_offset;
        v.bound_ns =
            mrd_sat_add(c->beat_bound, mrd_sat_abs(mrd_sat_sub(at.ns, c->beat_at.ns)) / DRIFT_PART);
        snprintf(v.method, sizeof(v.method), "heartbeat");
    }
    /* it stood still for this long, according to the system */
    if (mrd_local_before(at, c->woke_at))
        v.bound_ns = -1;
    *ret_view = v;
}

void
mrd_clock_sync_get(const mrd_clock_sync *c, mrd_clock_sync_view *ret_view)
{
    mrd_clock_sync_at(c, mrd_local_now(), ret_view);
}

int
mrd_clock_sync_fd(const mrd_clock_sync *c)
{
    return c->probe == NULL ? -1 : mrd_timeprobe_fd(c->probe);
}

int
mrd_clock_sync_link_fd(const mrd_clock_sync *c)
{
    return c->link == NULL ? -1 : mrd_linkprobe_fd(c->link);
}

mrd_local_ns
mrd_clock_sync_next_ns(const mrd_clock_sync *c)
{
    mrd_local_ns udp =
        c->probe == NULL ? ((mrd_local_ns){ INT64_MAX }) : mrd_timeprobe_deadline(c->probe);
    mrd_local_ns link =
        c->link == NULL ? ((mrd_local_ns){ INT64_MAX }) : mrd_linkprobe_next_ns(c->link);

    return mrd_local_before(udp, link) ? udp : link;
}
