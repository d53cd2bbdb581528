#include "agent/clock/timeprobe.h"

#include "base/conf/agent_waits.h"
#include "base/sys/udpstamp.h"

#include <stdlib.h>
#include <string.h>

#define FLIGHT  128  /* pairs in flight; a power of two */
#define DONE    1024 /* finished halves waiting to be taken; a power of two */
#define WARMUPS 2    /* ahead of each pair */
#define TRIES   4    /* a pair is sent after its fourth warm-up packets at the latest */
#define SENDS   32   /* number of remembered send times of warm-up packets */
/* between warm-up packets, before the pair, and inside it; too short for a timer */
#define GAP     (8 * MRD_US)
#define NUMBERS 512 /* pending transmit stamps; a power of two */
/* for a warm-up packet's transmit stamp, because no pair begins there */
#define NO_K UINT32_MAX

typedef struct {
    bool sent, answered, again;
    mrd_local_ns before, after;      /* RAW from user space: before sending, after receiving */
    mrd_wall_ns sent_wall, got_wall; /* kernel stamps, 0 none */
} half;

typedef struct {
    bool used;
    uint32_t k; /* of the first packet */
    mrd_local_ns deadline;
    mrd_xread x, after; /* before sending, immediately after the last answer */
    bool answered;
    half half[2];
} pair;

struct mrd_timeprobe {
    mrd_timeprobe_options options;
    mrd_timeprobe_counts counts;
    mrd_probe_pace pace;
    int fd;
    uint32_t k, number;
    pair flight[FLIGHT];
    size_t flying;
    int tries;           /* of the next pair */
    int64_t took[SENDS]; /* time for sending the last warm-up packet of each try */
    size_t took_count;
    uint32_t number_k[NUMBERS]; /* k of the packet with this transmit number */
    mrd_probe_sent done[DONE];
    size_t done_head, done_tail;
};

mrd_err
mrd_timeprobe_open(const mrd_timeprobe_options *options, mrd_timeprobe **ret_probe, mrd_why *why)
{
    mrd_timeprobe *p = calloc(1, sizeof(*p));
    uint8_t warmup[MRD_PROBE_BEGIN_LEN];
    mrd_err err;

    if (p == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "probe client");
    p->options = *options;
    p->options.host = NULL; /* used only during open, and borrowed */
    mrd_probe_pace_init(&p->pace, options->pairs_per_s);
    if ((err = mrd_udp_open(options->host, options->port, false, &p->fd, why)) != MRD_OK) {
        free(p);
        return err;
    }
    if (options->user_stamps)
        mrd_udp_unstamped(p->fd);
    mrd_probe_packet_begin(MRD_PROBE_WARMUP, warmup);
    (void) mrd_udp_drop(p->fd, warmup);
    mrd_timeprobe_burst(p);
    *ret_probe = p;
    return MRD_OK;
}

void
mrd_timeprobe_close(mrd_timeprobe *probe)
{
    if (probe == NULL)
        return;
    mrd_udp_close(probe->fd);
    free(probe);
}

int
mrd_timeprobe_fd(const mrd_timeprobe *probe)
{
    return probe->fd;
}

void
mrd_timeprobe_burst(mrd_timeprobe *probe)
{
    mrd_probe_pace_burst(&probe->pace, mrd_local_now());
}

bool
mrd_timeprobe_bursting(const mrd_timeprobe *probe)
{
    return probe->pace.burst > 0 || probe->flying > 0;
}

void
mrd_timeprobe_pace(mrd_timeprobe *probe, mrd_pace pace)
{
    mrd_probe_pace_set(&probe->pace, pace, mrd_local_now());
}

mrd_timeprobe_counts
mrd_timeprobe_counters(const mrd_timeprobe *probe)
{
    return probe->counts;
}

static mrd_xread
cross_read(void)
{
    mrd_xread x;

    mrd_clock_cross(&x.raw0, &x.wall, &x.raw1);
    return x;
}

/* ---- Finishing a pair ---- */

static void
push_done(mrd_timeprobe *p, const mrd_probe_sent *sent)
{
    if (p->done_head - p->done_tail == DONE) {
        p->done_tail++;
        p->counts.overwritten++;
    }
    p->done[p->done_head++ % DONE] = *sent;
}

/* Gets one stamp: the kernel's, converted, or else the one from user space. Returns false if the
 * wall clock moved. */
static bool
stamp(mrd_timeprobe *p, const pair *q, const mrd_xread *now, mrd_wall_ns wall, mrd_local_ns user,
      int64_t *ret_raw, uint8_t *ret_source, uint32_t *e)
{
    mrd_local_ns raw;
    mrd_dur_ns ns;
    mrd_err err = mrd_stamp_bridge(&q->x, now, wall.ns, &raw, &ns);

    *ret_raw = user.ns;
    *ret_source = MRD_STAMP_UDP_USER;
    if (err == MRD_OK) {
        *ret_raw = raw.ns;
        *ret_source = MRD_STAMP_UDP_KERNEL;
        *e = (uint32_t) ns > *e ? (uint32_t) ns : *e;
    } else {
        p->counts.no_kernel_stamp++;
    }
    return err != MRD_CLOCK;
}

static int64_t
bent(const mrd_timeprobe *p, int64_t raw)
{
    return raw == 0 || p->options.bend == NULL ? raw : p->options.bend(p->options.bend_self, raw);
}

static void
finish_half(mrd_timeprobe *p, const pair *q, int i, const mrd_xread *now)
{
    const half *h = &q->half[i];
    mrd_probe_sent s = { .id = { p->options.agent, p->options.agent_epoch, q->k + (uint32_t) i },
                         .position = (uint8_t) i,
                         .again = h->again };
    bool ok;

    if (!h->sent)
        return;
    ok = stamp(p, q, now, h->sent_wall, h->before, &s.a1, &s.source1, &s.e);
    if (h->answered)
        ok = stamp(p, q, now, h->got_wall, h->after, &s.a4, &s.source4, &s.e) && ok;
    else
        p->counts.lost++;
    if (!ok) {
        p->counts.stepped++;
        return;
    }
    s.a1 = bent(p, s.a1);
    s.a4 = bent(p, s.a4);
    push_done(p, &s);
}

static void
finish_pair(mrd_timeprobe *p, pair *q)
{
    if (!q->answered)
        q->after = cross_read();
    for (int i = 0; i < 2; i++)
        finish_half(p, q, i, &q->after);
    q->used = false;
    p->flying--;
}

/* Transmit stamps arrive before the answers that follow them, so there is nothing else to wait for. */
static bool
complete(const pair *q)
{
    return (q->half[0].answered || !q->half[0].sent) && (q->half[1].answered || !q->half[1].sent);
}

/* ---- Sending and receiving ---- */

/* Sends `kind` at k, GAP after *at, and sets *at to the time just before it. Returns false if the
 * socket refused. */
static bool
send_packet(mrd_timeprobe *p, mrd_probe_kind kind, uint32_t k, int64_t *at)
{
    mrd_probe_packet packet = {
        kind, (uint8_t) (k % 2), p->options.session, p->options.agent, p->options.agent_epoch, k
    };
    uint8_t wire[MRD_PROBE_PACKET_LEN];
    int64_t earliest = *at + GAP;
    mrd_err err;

    mrd_probe_packet_encode(&packet, p->options.key, wire);
    while ((*at = mrd_local_now().ns) < earliest)
        continue;
    /* Warm-up packets get stamps, too, because the stamping code must also be warm. */
    err = mrd_udp_send(p->fd, wire, sizeof(wire), NULL);
    if (err == MRD_OK)
        p->number_k[p->number++ % NUMBERS] = kind == MRD_PROBE_WARMUP ? NO_K : k;
    p->counts.unsent += err != MRD_OK;
    return err == MRD_OK;
}

static int
order_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return x < y ? -1 : x > y;
}

/*
 * Sends the warm-up packets of the next pair. Returns false if sending the last one took over 10 %
 * longer than the fastest quarter of recent ones. The processor is slow then (its clock, its
 * caches, another program on the core), and so are the delays in both directions. Returns false at
 * most three times in a row, because the measurement itself varies.
 */
static bool
wake_path(mrd_timeprobe *p, int64_t *at)
{
    int64_t took, sorted[SENDS], quarter;
    size_t n = p->took_count < SENDS ? p->took_count : SENDS;

    for (int i = 0; i < WARMUPS; i++)
        (void) send_packet(p, MRD_PROBE_WARMUP, p->k, at);
    took = mrd_local_now().ns - *at;
    memcpy(sorted, p->took, sizeof(sorted));
    p->took[p->took_count++ % SENDS] = took;
    if (n < SENDS / 4)
        return true;
    qsort(sorted, n, sizeof(*sorted), order_int64);
    quarter = sorted[n / 4];
    return took <= quarter + quarter / 10;
}

static void
send_pair(mrd_timeprobe *p, mrd_local_ns now)
{
    pair *q = &p->flight[(p->k / 2) % FLIGHT];
    int64_t at = 0;

    if (!wake_path(p, &at) && p->pace.burst == 0 && ++p->tries < TRIES) {
        p->counts.postponed++;
        mrd_probe_pace_again(&p->pace, now);
        return;
    }
    p->tries = 0;
    if (q->used)
        finish_pair(p, q);
    *q = (pair){ .used = true, .k = p->k, .deadline = mrd_local_add(now, MRD_WAIT_UDP_ANSWER) };
    p->flying++;
    p->k += 2;
    p->counts.pairs++;
    q->x = cross_read();
    for (uint32_t i = 0; i < 2; i++) {
        q->half[i].sent = send_packet(p, MRD_PROBE_REQUEST, q->k + i, &at);
        q->half[i].before = (mrd_local_ns){ at };
        p->counts.sent += q->half[i].sent;
    }
    if (!q->half[0].sent && !q->half[1].sent) {
        q->used = false;
        p->flying--;
    }
    mrd_probe_pace_next(&p->pace, (mrd_probe_id){ p->options.agent, p->options.agent_epoch, p->k },
                        now);
}

static half *
find_half(mrd_timeprobe *p, uint32_t k, pair **ret_pair)
{
    pair *q = &p->flight[(k / 2) % FLIGHT];

    *ret_pair = q;
    return q->used && q->k == k - k % 2 ? &q->half[k % 2] : NULL;
}

static void
take_transmit_stamps(mrd_timeprobe *p)
{
    uint32_t number;
    int64_t wall;

    while (mrd_udp_sent(p->fd, &number, &wall) == MRD_OK) {
        pair *q;
        half *h = number < p->number && p->number - number <= NUMBERS
                      ? find_half(p, p->number_k[number % NUMBERS], &q)
                      : NULL;

        if (h != NULL)
            h->sent_wall = (mrd_wall_ns){ wall };
    }
}

static void
take_answers(mrd_timeprobe *p)
{
    uint8_t wire[MRD_PROBE_PACKET_LEN + 1];
    int64_t wall;
    size_t len;
    mrd_err err;

    while ((err = mrd_udp_recv(p->fd, wire, sizeof(wire), &len, &wall, NULL)) == MRD_OK) {
        mrd_local_ns now = mrd_local_now();
        mrd_bytes data = { wire, len < sizeof(wire) ? len : sizeof(wire) };
        mrd_probe_packet packet;
        pair *q;
        half *h;

        err = mrd_probe_packet_decode(data, &packet);
        if (err == MRD_OK && packet.kind == MRD_PROBE_WARMUP)
            continue; /* the kernel could not drop it */
        if (err != MRD_OK || packet.kind != MRD_PROBE_ANSWER ||
            packet.session != p->options.session || packet.agent != p->options.agent ||
            packet.agent_epoch != p->options.agent_epoch ||
            !mrd_probe_packet_proven(data, p->options.key) ||
            (h = find_half(p, packet.k, &q)) == NULL || !h->sent) {
            p->counts.foreign++;
            continue;
        }
        if (h->answered) {
            h->again = true;
            continue;
        }
        h->answered = true;
        h->after = now;
        h->got_wall = (mrd_wall_ns){ wall };
        q->after = cross_read();
        q->answered = true;
        p->counts.answered++;
        if (complete(q))
            finish_pair(p, q);
    }
    (void) err; /* MRD_NET is an ICMP error of an earlier packet; its probe counts as lost */
}

static void
give_up_late(mrd_timeprobe *p, mrd_local_ns now)
{
    for (size_t i = 0; p->flying > 0 && i < FLIGHT; i++) {
        if (p->flight[i].used && !mrd_local_after(p->flight[i].deadline, now))
            finish_pair(p, &p->flight[i]);
    }
}

void
mrd_timeprobe_step(mrd_timeprobe *probe)
{
    mrd_local_ns now;

    take_transmit_stamps(probe);
    take_answers(probe);
    now = mrd_local_now();
    if (mrd_probe_pace_due(&probe->pace, now))
        send_pair(probe, now);
    give_up_late(probe, now);
}

mrd_local_ns
mrd_timeprobe_deadline(const mrd_timeprobe *probe)
{
    mrd_local_ns at = probe->pace.next;

    for (size_t i = 0; probe->flying > 0 && i < FLIGHT; i++) {
        if (probe->flight[i].used && mrd_local_before(probe->flight[i].deadline, at))
            at = probe->flight[i].deadline;
    }
    return at;
}

bool
mrd_timeprobe_take(mrd_timeprobe *probe, mrd_probe_sent *ret_sent)
{
    if (probe->done_head == probe->done_tail)
        return false;
    *ret_sent = probe->done[probe->done_tail++ % DONE];
    return true;
}
