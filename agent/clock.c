#include "agent/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "timesync/epoch.h"

#define BOUND_AGE  (60 * MRD_SEC) /* a tight heartbeat counts so long against a looser new one */
#define WORD_AGE   (30 * MRD_SEC) /* what the aggregator computed counts so long */
#define DRIFT_PART 10000          /* 100 ppm */
#define RATE_MAX   500000         /* ppb, of a clock that can be believed */
#define RATE_BEND  5000           /* ppb/s, how fast the rate may change */
#define WATCH      (2 * MRD_SEC)
#define FRAME_AGE  MRD_SEC
#define FRAME_LEN  16384
#define BREAKS     16

struct mrd_node_clock {
    char host[256], boot_id[64];
    uint64_t agent;
    uint32_t epoch;
    mrd_timeprobe *probe;
    uint16_t port;
    uint8_t key[MRD_PROBE_KEY_LEN];
    mrd_pace pace;
    bool faster;
    mrd_buf sent;
    int64_t sent_since;
    mrd_epoch_watch watch;
    uint64_t session_boot;
    int64_t watched_at;
    Mrd__ClockBreak breaks[BREAKS], *break_list[BREAKS];
    size_t n_breaks;
    /* By heartbeats. */
    bool have_session_offset;
    int64_t session_offset, beat_offset, beat_bound, beat_at;
    /* By the aggregator. */
    int64_t word_offset, word_bound, word_rate, word_drift; /* ns, ns, ppb, ppb; drift 0: unknown */
    int64_t word_at, word_heard; /* local: what it is true for, when it came */
    char state[24];
};

static void
host_of(const char *url, char host[256])
{
    const char *p = url == NULL ? NULL : strstr(url, "tcp://"), *end;

    host[0] = '\0';
    if (p == NULL)
        return;
    p += 6;
    if (*p == '[') {
        end = strchr(++p, ']');
    } else {
        end = strrchr(p, ':');
    }
    snprintf(host, 256, "%.*s", end == NULL ? (int) strlen(p) : (int) (end - p), p);
}

mrd_err
mrd_node_clock_open(const mrd_node_clock_options *options, mrd_node_clock **ret_clock, mrd_why *why)
{
    mrd_node_clock *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "clock");
    host_of(options->data_url, c->host);
    snprintf(c->boot_id, sizeof(c->boot_id), "%.63s", options->boot_id);
    c->agent = options->agent;
    c->epoch = (uint32_t) (mrd_wall_now().ns / MRD_SEC); /* grows with every start */
    c->beat_bound = c->word_bound = -1;
    *ret_clock = c;
    return MRD_OK;
}

void
mrd_node_clock_close(mrd_node_clock *c)
{
    if (c == NULL)
        return;
    mrd_timeprobe_close(c->probe);
    mrd_buf_fini(&c->sent);
    free(c);
}

static void
open_probe(mrd_node_clock *c)
{
    mrd_timeprobe_options o = {
        .host = c->host, .port = c->port, .agent = c->agent, .agent_epoch = c->epoch
    };

    mrd_timeprobe_close(c->probe);
    c->probe = NULL;
    if (c->port == 0 || c->host[0] == '\0')
        return;
    memcpy(o.key, c->key, sizeof(o.key));
    /* Without it heartbeats remain; the node says "unaligned" or "heartbeat" then. */
    if (mrd_timeprobe_open(&o, &c->probe, NULL) != MRD_OK)
        c->probe = NULL;
    c->pace = MRD_PACE_RUN;
    c->epoch++; /* the numbers of another client begin at 0 again */
}

void
mrd_node_clock_welcome(mrd_node_clock *c, const Mrd__Welcome *w)
{
    bool same = c->probe != NULL && w->probe_key.len == sizeof(c->key) && w->time_port == c->port &&
                memcmp(w->probe_key.data, c->key, sizeof(c->key)) == 0;

    c->session_boot = mrd_hash64(w->boot_id, strlen(w->boot_id), 0);
    c->session_offset = w->session_offset_ns;
    c->have_session_offset = w->session_offset_ns != 0;
    c->beat_bound = c->word_bound = -1; /* perhaps another aggregator */
    c->state[0] = '\0';
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

void
mrd_node_clock_ack(mrd_node_clock *c, int64_t sent_ns, const Mrd__Ack *ack, int64_t received_ns)
{
    int64_t bound = (received_ns - sent_ns) / 2 + 1;
    int64_t theirs = ack->local_ns + (ack->reply_local_ns - ack->local_ns) / 2;

    if (ack->clock != NULL) {
        c->word_offset = ack->clock->offset_ns;
        c->word_bound = ack->clock->bound_ns;
        c->word_rate = ack->clock->rate_ppb;
        if (c->word_rate > RATE_MAX || c->word_rate < -RATE_MAX)
            c->word_rate = 0;
        c->word_drift = ack->clock->drift_ppb > RATE_MAX ? 0 : (int64_t) ack->clock->drift_ppb;
        c->word_at = ack->clock->at_local_ns == 0 ? received_ns : ack->clock->at_local_ns;
        c->word_heard = received_ns;
        c->faster = ack->clock->probe_faster;
        snprintf(c->state, sizeof(c->state), "%.23s", ack->clock->state);
    }
    if (ack->local_ns == 0 || !c->have_session_offset || bound < 0)
        return;
    if (c->beat_bound >= 0 && received_ns - c->beat_at < BOUND_AGE &&
        bound > c->beat_bound + (received_ns - c->beat_at) / DRIFT_PART)
        return;
    c->beat_offset = theirs + c->session_offset - (sent_ns + (received_ns - sent_ns) / 2);
    c->beat_bound = bound;
    c->beat_at = received_ns;
}

/* ---- Probes ---- */

static void
watch(mrd_node_clock *c, int64_t now)
{
    mrd_epoch_reading r = { .raw = { now }, .session_boot_id = c->session_boot };
    mrd_epoch_break b;
    struct timespec ts;

    if (now - c->watched_at < WATCH)
        return;
    c->watched_at = now;
    r.boot_id = mrd_hash64(c->boot_id, strlen(c->boot_id), 0);
    clock_gettime(CLOCK_MONOTONIC, &ts);
    r.monotonic = ts.tv_sec * MRD_SEC + ts.tv_nsec;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    r.boottime = ts.tv_sec * MRD_SEC + ts.tv_nsec;
    if (!mrd_epoch_watch_add(&c->watch, &r, &b) || c->n_breaks == BREAKS)
        return;
    mrd__clock_break__init(&c->breaks[c->n_breaks]);
    c->breaks[c->n_breaks].cause = (uint32_t) b.cause;
    c->breaks[c->n_breaks].after_ns = b.after.ns;
    c->breaks[c->n_breaks].before_ns = b.before.ns;
    c->breaks[c->n_breaks].keep_rate = b.keep_rate;
    c->breaks[c->n_breaks].lost_ns = b.lost;
    c->n_breaks++;
    if (c->probe != NULL)
        mrd_timeprobe_burst(c->probe);
}

void
mrd_node_clock_step(mrd_node_clock *c, bool recording)
{
    int64_t now = mrd_local_now().ns;
    bool known = c->word_bound >= 0 && now - c->word_heard < WORD_AGE;
    mrd_pace want = recording ? (c->faster ? MRD_PACE_FAST : MRD_PACE_RUN)
                    : known   ? MRD_PACE_IDLE
                              : MRD_PACE_RUN; /* a session may begin soon */
    mrd_probe_sent half;

    watch(c, now);
    if (c->probe == NULL)
        return;
    if (want != c->pace) {
        mrd_timeprobe_pace(c->probe, want);
        c->pace = want;
    }
    mrd_timeprobe_step(c->probe);
    while (mrd_timeprobe_take(c->probe, &half)) {
        if (c->sent.len == 0)
            c->sent_since = now;
        if (c->sent.len < 8 * FRAME_LEN) /* nobody takes them: the newest are left out */
            mrd_probe_sent_encode(&half, &c->sent);
    }
}

void
mrd_node_clock_burst(mrd_node_clock *c)
{
    if (c->probe != NULL)
        mrd_timeprobe_burst(c->probe);
}

bool
mrd_node_clock_take(mrd_node_clock *c, bool force, Mrd__ClockData *to)
{
    static char method[] = "udp";
    int64_t now = mrd_local_now().ns;

    if (c->sent.len == 0 && c->n_breaks == 0)
        return false;
    if (!force && c->n_breaks == 0 && c->sent.len < FRAME_LEN && now - c->sent_since < FRAME_AGE)
        return false;
    mrd__clock_data__init(to);
    to->boot_id = c->boot_id;
    to->method = method;
    to->sent = (ProtobufCBinaryData){ c->sent.len, c->sent.p };
    for (size_t i = 0; i < c->n_breaks; i++)
        c->break_list[i] = &c->breaks[i];
    to->breaks = c->break_list;
    to->n_breaks = c->n_breaks;
    c->sent.len = 0; /* the bytes stay until the next step */
    c->n_breaks = 0;
    return true;
}

/* How much wider the aggregator's bound is `age` later (or earlier). */
static int64_t
word_growth(const mrd_node_clock *c, int64_t age)
{
    double s = fabs((double) age / MRD_SEC), known;

    known = (double) c->word_drift * s + 0.5 * RATE_BEND * s * s;
    return c->word_drift > 0 && known < (double) MRD_SEC / DRIFT_PART * s
               ? (int64_t) known + 1
               : (int64_t) ((double) MRD_SEC / DRIFT_PART * s);
}

void
mrd_node_clock_at(const mrd_node_clock *c, int64_t at, mrd_node_clock_view *ret_view)
{
    mrd_node_clock_view v = { .bound_ns = -1, .method = "none" };

    snprintf(v.state, sizeof(v.state), "%s", c->state[0] == '\0' ? "unaligned" : c->state);
    if (c->probe != NULL)
        v.probes = mrd_timeprobe_counters(c->probe).answered;
    if (c->word_bound >= 0 && mrd_local_now().ns - c->word_heard < WORD_AGE) {
        v.known = true;
        v.offset_ns = c->word_offset +
                      (int64_t) ((double) (at - c->word_at) / MRD_SEC * (double) c->word_rate);
        v.bound_ns = c->word_bound + word_growth(c, at - c->word_at);
        v.method = "udp";
    } else if (c->beat_bound >= 0) {
        v.known = true;
        v.offset_ns = c->beat_offset;
        v.bound_ns =
            c->beat_bound + (at > c->beat_at ? at - c->beat_at : c->beat_at - at) / DRIFT_PART;
        v.method = "heartbeat";
    }
    *ret_view = v;
}

void
mrd_node_clock_get(const mrd_node_clock *c, mrd_node_clock_view *ret_view)
{
    mrd_node_clock_at(c, mrd_local_now().ns, ret_view);
}

int
mrd_node_clock_fd(const mrd_node_clock *c)
{
    return c->probe == NULL ? -1 : mrd_timeprobe_fd(c->probe);
}

int64_t
mrd_node_clock_next_ns(const mrd_node_clock *c)
{
    return c->probe == NULL ? INT64_MAX : mrd_timeprobe_deadline(c->probe).ns;
}
