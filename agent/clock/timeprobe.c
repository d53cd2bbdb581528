#include "agent/clock/timeprobe.h"

#include "base/conf/agent_waits.h"
#include "base/sys/udpstamp.h"

#include <stdlib.h>
#include <string.h>

#define FLIGHT  128  /* maximum number of pairs of packets in flight; a power of two */
#define DONE    1024 /* maximum number of halves of probes that wait to be taken; a power of two */
#define WARMUPS 2    /* number of warm-up packets before each pair */
/* after this number of attempts with warm-up packets, the pair is sent even if the path is slow */
#define TRIES 4
#define SENDS 32 /* number of send times of warm-up packets that are kept for comparison */
/* Pause between warm-up packets, before the pair, and between its two packets. It is too short for
 * a timer, so the client waits in a loop. */
#define GAP (8 * MRD_US)
/* maximum number of packets that wait for their transmit stamp; a power of two */
#define NUMBERS 512
/* value in number_k for a warm-up packet, which has no probe number */
#define NO_K UINT32_MAX

typedef struct {
    bool sent, answered, again;
    /* RAW times read in user space, before sending and after receiving */
    mrd_local_ns before, after;
    mrd_wall_ns sent_wall, got_wall; /* timestamps of the kernel; 0 means none */
} half;

typedef struct {
    bool used;
    uint32_t k; /* probe number of the pair's first packet */
    mrd_local_ns deadline;
    /* readings of the RAW and the wall clock, before sending and just after the last answer */
    mrd_xread x, after;
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
    int tries; /* number of attempts with warm-up packets for the next pair */
    /* time that sending the last warm-up packet of each attempt took, in ns */
    int64_t took[SENDS];
    size_t took_count;
    /* number_k[i % NUMBERS] is the probe number (k) of the i-th packet that the socket sent */
    uint32_t number_k[NUMBERS];
    mrd_probe_sent done[DONE];
    size_t done_head, done_tail;
};

mrd_err
mrd_timeprobe_open(const mrd_timeprobe_options *options, mrd_timeprobe **ret_probe, mrd_why *why)
{
    mrd_timeprobe *probe = calloc(1, sizeof(*probe));
    uint8_t warmup[MRD_PROBE_BEGIN_LEN];
    mrd_err err;

    if (probe == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "probe client");
    probe->options = *options;
    /* the text is valid only during open, so this pointer must not be used later */
    probe->options.host = NULL;
    mrd_probe_pace_init(&probe->pace, options->pairs_per_s);
    if ((err = mrd_udp_open(options->host, options->port, false, &probe->fd, why)) != MRD_OK) {
        free(probe);
        return err;
    }
    if (options->user_stamps)
        mrd_udp_unstamped(probe->fd);
    mrd_probe_packet_begin(MRD_PROBE_WARMUP, warmup);
    (void) mrd_udp_drop(probe->fd, warmup);
    mrd_timeprobe_burst(probe);
    *ret_probe = probe;
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
    mrd_xread xread;

    mrd_clock_cross(&xread.raw0, &xread.wall, &xread.raw1);
    return xread;
}

/* ---- Finishing a pair of packets ---- */

static void
push_done(mrd_timeprobe *probe, const mrd_probe_sent *sent)
{
    if (probe->done_head - probe->done_tail == DONE) {
        probe->done_tail++;
        probe->counts.overwritten++;
    }
    probe->done[probe->done_head++ % DONE] = *sent;
}

/* Gets one time of a packet. Converts the kernel's timestamp to the RAW clock, or uses the time
 * from user space if there is none. Returns false if the wall clock was set meanwhile. */
static bool
stamp(mrd_timeprobe *probe, const pair *q, const mrd_xread *now, mrd_wall_ns wall,
      mrd_local_ns user, int64_t *ret_raw, uint8_t *ret_source, uint32_t *widest)
{
    mrd_local_ns raw;
    mrd_dur_ns ns;
    mrd_err err = mrd_stamp_bridge(&q->x, now, wall.ns, &raw, &ns);

    *ret_raw = user.ns;
    *ret_source = MRD_STAMP_UDP_USER;
    if (err == MRD_OK) {
        *ret_raw = raw.ns;
        *ret_source = MRD_STAMP_UDP_KERNEL;
        *widest = (uint32_t) ns > *widest ? (uint32_t) ns : *widest;
    } else {
        probe->counts.no_kernel_stamp++;
    }
    return err != MRD_CLOCK;
}

static int64_t
bent(const mrd_timeprobe *probe, int64_t raw)
{
    return raw == 0 || probe->options.bend == NULL
               ? raw
               : probe->options.bend(probe->options.bend_self, raw);
}

static void
finish_half(mrd_timeprobe *probe, const pair *q, int i, const mrd_xread *now)
{
    const half *h = &q->half[i];
    mrd_probe_sent sent = { .id = { probe->options.agent, probe->options.agent_epoch,
                                    q->k + (uint32_t) i },
                            .position = (uint8_t) i,
                            .again = h->again };
    bool ok;

    if (!h->sent)
        return;
    ok = stamp(probe, q, now, h->sent_wall, h->before, &sent.a1, &sent.source1, &sent.e);
    if (h->answered)
        ok = stamp(probe, q, now, h->got_wall, h->after, &sent.a4, &sent.source4, &sent.e) && ok;
    else
        probe->counts.lost++;
    if (!ok) {
        probe->counts.stepped++;
        return;
    }
    sent.a1 = bent(probe, sent.a1);
    sent.a4 = bent(probe, sent.a4);
    push_done(probe, &sent);
}

static void
finish_pair(mrd_timeprobe *probe, pair *q)
{
    if (!q->answered)
        q->after = cross_read();
    for (int i = 0; i < 2; i++)
        finish_half(probe, q, i, &q->after);
    q->used = false;
    probe->flying--;
}

/* Returns true if all sent packets of the pair are answered. No timestamp is missing then, because
 * the timestamp of sending arrives before the answer. */
static bool
complete(const pair *q)
{
    return (q->half[0].answered || !q->half[0].sent) && (q->half[1].answered || !q->half[1].sent);
}

/* ---- Sending and receiving ---- */

/* Sends a packet of this kind with probe number k, at least GAP after the time *at. Sets *at to the
 * time just before sending. Returns false if the socket refused the packet. */
static bool
send_packet(mrd_timeprobe *probe, mrd_probe_kind kind, uint32_t k, int64_t *at)
{
    mrd_probe_packet packet = { kind,
                                (uint8_t) (k % 2),
                                probe->options.session,
                                probe->options.agent,
                                probe->options.agent_epoch,
                                k };
    uint8_t wire[MRD_PROBE_PACKET_LEN];
    int64_t earliest = *at + GAP;
    mrd_err err;

    mrd_probe_packet_encode(&packet, probe->options.key, wire);
    while ((*at = mrd_local_now().ns) < earliest)
        continue;
    /* The kernel also makes timestamps for warm-up packets, so that its code for this is in the
     * caches. */
    err = mrd_udp_send(probe->fd, wire, sizeof(wire), NULL);
    if (err == MRD_OK)
        probe->number_k[probe->number++ % NUMBERS] = kind == MRD_PROBE_WARMUP ? NO_K : k;
    probe->counts.unsent += err != MRD_OK;
    return err == MRD_OK;
}

static int
order_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return x < y ? -1 : x > y;
}

/*
 * Sends the warm-up packets of the next pair. Returns true if the pair should be sent now.
 *
 * Returns false if the send time of the last warm-up packet is over 10 % longer than the fastest
 * quarter of recent ones. The processor is then slow (its frequency, its caches, another program on
 * the core), and so are the delays in both directions. The send time also varies for other reasons,
 * so the caller delays a pair at most three times.
 */
static bool
wake_path(mrd_timeprobe *probe, int64_t *at)
{
    int64_t took, sorted[SENDS], quarter;
    size_t n = probe->took_count < SENDS ? probe->took_count : SENDS;

    for (int i = 0; i < WARMUPS; i++)
        (void) send_packet(probe, MRD_PROBE_WARMUP, probe->k, at);
    took = mrd_local_now().ns - *at;
    memcpy(sorted, probe->took, sizeof(sorted));
    probe->took[probe->took_count++ % SENDS] = took;
    if (n < SENDS / 4)
        return true;
    qsort(sorted, n, sizeof(*sorted), order_int64);
    quarter = sorted[n / 4];
    return took <= quarter + quarter / 10;
}

static void
send_pair(mrd_timeprobe *probe, mrd_local_ns now)
{
    pair *q = &probe->flight[(probe->k / 2) % FLIGHT];
    int64_t at = 0;

    if (!wake_path(probe, &at) && probe->pace.burst == 0 && ++probe->tries < TRIES) {
        probe->counts.postponed++;
        mrd_probe_pace_again(&probe->pace, now);
        return;
    }
    probe->tries = 0;
    if (q->used)
        finish_pair(probe, q);
    *q = (pair){ .used = true, .k = probe->k, .deadline = mrd_local_add(now, MRD_WAIT_UDP_ANSWER) };
    probe->flying++;
    probe->k += 2;
    probe->counts.pairs++;
    q->x = cross_read();
    for (uint32_t i = 0; i < 2; i++) {
        q->half[i].sent = send_packet(probe, MRD_PROBE_REQUEST, q->k + i, &at);
        q->half[i].before = (mrd_local_ns){ at };
        probe->counts.sent += q->half[i].sent;
    }
    if (!q->half[0].sent && !q->half[1].sent) {
        q->used = false;
        probe->flying--;
    }
    mrd_probe_pace_next(
        &probe->pace, (mrd_probe_id){ probe->options.agent, probe->options.agent_epoch, probe->k },
        now);
}

static half *
find_half(mrd_timeprobe *probe, uint32_t k, pair **ret_pair)
{
    pair *q = &probe->flight[(k / 2) % FLIGHT];

    *ret_pair = q;
    return q->used && q->k == k - k % 2 ? &q->half[k % 2] : NULL;
}

static void
take_transmit_stamps(mrd_timeprobe *probe)
{
    uint32_t number;
    int64_t wall;

    while (mrd_udp_sent(probe->fd, &number, &wall) == MRD_OK) {
        pair *q;
        half *h = number < probe->number && probe->number - number <= NUMBERS
                      ? find_half(probe, probe->number_k[number % NUMBERS], &q)
                      : NULL;

        if (h != NULL)
            h->sent_wall = (mrd_wall_ns){ wall };
    }
}

static void
take_answers(mrd_timeprobe *probe)
{
    uint8_t wire[MRD_PROBE_PACKET_LEN + 1];
    int64_t wall;
    size_t len;
    mrd_err err;

    while ((err = mrd_udp_recv(probe->fd, wire, sizeof(wire), &len, &wall, NULL)) == MRD_OK) {
        mrd_local_ns now = mrd_local_now();
        mrd_bytes data = { wire, len < sizeof(wire) ? len : sizeof(wire) };
        mrd_probe_packet packet;
        pair *q;
        half *h;

        err = mrd_probe_packet_decode(data, &packet);
        if (err == MRD_OK && packet.kind == MRD_PROBE_WARMUP)
            /* a warm-up packet that was reflected; normally the kernel drops these packets
             * (mrd_udp_drop) */
            continue;
        if (err != MRD_OK || packet.kind != MRD_PROBE_ANSWER ||
            packet.session != probe->options.session || packet.agent != probe->options.agent ||
            packet.agent_epoch != probe->options.agent_epoch ||
            !mrd_probe_packet_proven(data, probe->options.key) ||
            (h = find_half(probe, packet.k, &q)) == NULL || !h->sent) {
            probe->counts.foreign++;
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
        probe->counts.answered++;
        if (complete(q))
            finish_pair(probe, q);
    }
    (void) err; /* MRD_NET is an ICMP error for an earlier packet, which counts as lost */
}

static void
give_up_late(mrd_timeprobe *probe, mrd_local_ns now)
{
    for (size_t i = 0; probe->flying > 0 && i < FLIGHT; i++) {
        if (probe->flight[i].used && !mrd_local_after(probe->flight[i].deadline, now))
            finish_pair(probe, &probe->flight[i]);
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
