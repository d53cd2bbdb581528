/*
 * timesync/probe.h - clock probes: their packets, how their two halves are joined, and the
 * inequalities that follow
 *
 * A probe is a request and its answer. The agent sends request k at time a1 of its clock. The
 * aggregator receives the request at r2 and answers at r3, both in session time. The agent receives
 * the answer at a4. The answer contains no time, because the aggregator keeps r2 and r3. The agent
 * sends the other half (k, a1, a4, e) with its next batch, and a joiner combines the two halves. A
 * packet is received no earlier than it was sent, so
 *
 *     request    offset(a1) <= r2 - a1 + e
 *     answer     offset(a4) >= r3 - a4 - e
 *
 * Nothing else is assumed. A request that arrives twice is answered once. The inequality of its
 * answer is not used, because r3 and a4 might belong to different copies.
 *
 * Units    int64 ns. A stamp of 0 means "none".
 * Sign     offset = session - local.
 * Threads  only one thread at a time may use a joiner. Any thread may call the other functions.
 * Limits   every decoder here checks length and version before it uses a field.
 * Source   docs/reference/timesync.md sections 2 and 3.
 */
#ifndef MRD_TIMESYNC_PROBE_H
#define MRD_TIMESYNC_PROBE_H

#include "base/buf.h"
#include "base/clock.h"
#include "timesync/label.h"

#include <stdbool.h>

/* ---- Time stamps of packets ---- */

/* One reading of the wall clock with a bracket. The wall clock showed `wall` at some time between
 * raw0 and raw1. These were read from CLOCK_MONOTONIC_RAW before and after the wall clock. */
typedef struct {
    int64_t raw0, wall, raw1;
} mrd_xread;

/* Limit in ns. Between two readings, wall clock minus RAW may change by this limit plus 500 ppm of
 * the time between them. A larger change shows a step or a slew. During a long round trip, the rate
 * error of the oscillator alone exceeds this limit, so the 500 ppm are added. */
#define MRD_XREAD_CHANGE_MAX 1000

/*
 * Converts a kernel time stamp of the wall clock to CLOCK_MONOTONIC_RAW by the readings before and
 * after it. *ret_e is the uncertainty in ns: half the wider bracket plus half the change between
 * the two readings. Errors:
 *
 *   CLOCK    wall minus RAW changed by more than MRD_XREAD_CHANGE_MAX allows. Discard the probe.
 *   AGAIN    the stamp is 0.
 *   INVALID  the times of a bracket decrease.
 */
mrd_err mrd_stamp_bridge(const mrd_xread *before, const mrd_xread *after, int64_t wall,
                         mrd_local_ns *ret_raw, mrd_dur_ns *ret_e);

/* ---- One probe ---- */

typedef struct {
    uint64_t agent; /* id of the agent, unique in the session */
    /* identifies one series of probes of the agent; within one agent_epoch, k is never used
     * twice */
    uint32_t agent_epoch;
    uint32_t k;
} mrd_probe_id;

/* The half of a probe that the agent measures. */
typedef struct {
    mrd_probe_id id;
    /* times of the request and the answer by CLOCK_MONOTONIC_RAW of the agent's node; a4 is 0 if no
     * answer has arrived */
    int64_t a1, a4;
    uint32_t e;               /* uncertainty of a1 and a4, in ns */
    uint8_t position;         /* position of this probe in its pair: 0 or 1 */
    uint8_t source1, source4; /* mrd_stamp_source of a1, and of a4 */
    bool again;               /* true if more than one answer arrived for this request */
} mrd_probe_sent;

/* The half of a probe that the aggregator measures. */
typedef struct {
    mrd_probe_id id;
    /* session times of the request and the answer; r3 is 0 until the kernel reports when the answer
     * was sent */
    int64_t r2, r3;
    uint32_t e; /* uncertainty of r2 and r3, in ns */
    uint8_t source2, source3;
    bool again; /* the request arrived more than once */
} mrd_probe_served;

/* A probe with both halves joined. */
typedef struct {
    mrd_probe_id id;
    int64_t a1, a4, r2, r3;
    uint32_t e; /* sum of the uncertainties of the agent's and the aggregator's stamps, in ns */
    uint8_t position;
    /* the worse of the two stamp sources of the request (up) and of the answer (down) */
    uint8_t source_up, source_down;
    /* whether the inequality of the request (up) and of the answer (down) may be used */
    bool up, down;
    bool held_out; /* true if the probe only checks the alignment, and is not an input of it */
} mrd_probe;

/* One inequality for a clock's offset. It limits the offset at local time t to at most v, or at
 * least v. */
typedef struct {
    int64_t t, v;
    bool lower; /* true means offset(t) >= v, false means offset(t) <= v */
    uint8_t position, source;
} mrd_ineq;

/*
 * Joins the two halves of a probe, which have the same id. Errors: INVALID if the ids differ,
 * CORRUPT if the stamps contradict each other. Stamps contradict each other if, on either side, the
 * answer precedes the request. They also do if the agent's round trip is shorter than the
 * aggregator's time from r2 to r3 by more than the uncertainties plus 500 ppm. A contradicting
 * probe must not be used.
 */
mrd_err mrd_probe_join(const mrd_probe_sent *sent, const mrd_probe_served *served,
                       mrd_probe *ret_probe);
/* Stores the 0 to 2 inequalities that follow from a probe, and returns their number. */
size_t mrd_probe_ineqs(const mrd_probe *probe, mrd_ineq ret_ineq[2]);
/*
 * Returns true if the pair of probe `id` only checks the alignment (is held out). A pair is the
 * requests k and k + 1 with even k, and has the number n = k / 2. One of ten pairs is held out: the
 * pair with n mod 10 = 1 + hash(agent, agent_epoch, n / 10) mod 8. So two held-out pairs never
 * follow each other.
 */
bool mrd_probe_held_out(mrd_probe_id id);
/* Returns true if the pair of probe `id`, or the pair before it, is held out. Such pairs are sent
 * after half the usual interval, so that the pairs that are not held out have about equal
 * distances. */
bool mrd_probe_beside_held_out(mrd_probe_id id);

/* ---- Joining at the aggregator: a bounded ring of served requests per agent ---- */

typedef struct {
    uint64_t joined, unmatched, replayed, contradictory, overwritten;
} mrd_join_counts;

typedef struct mrd_joiner mrd_joiner;

/* Creates a joiner for one agent. `capacity` is the number of requests that it remembers, rounded
 * up to a power of two. NULL if out of memory. */
mrd_joiner *mrd_joiner_new(size_t capacity);
void mrd_joiner_free(mrd_joiner *joiner);
/*
 * Stores a request when it arrives (r2 is set, r3 is still 0). Returns true if the request is new
 * and must be answered. Returns false for a repeated request, and makes the inequality of its
 * answer unusable. Also returns false for a request of the same agent_epoch that is older than the
 * stored ones.
 *
 * A request with another agent_epoch always counts as a later start of the agent. agent_epoch is a
 * wall clock time, so it may be smaller than before. Requests of an earlier start do not reach this
 * function, because they were signed with another key.
 */
bool mrd_joiner_served(mrd_joiner *joiner, const mrd_probe_served *served);
/* Stores r3 (when the answer was sent), its source, and the uncertainty e of both stamps. An
 * unknown id is ignored. */
void mrd_joiner_answered(mrd_joiner *joiner, const mrd_probe_served *served);
/* Joins the agent's half with the stored half of the aggregator. Errors: NOTFOUND if the
 * aggregator's half is unknown or overwritten, EXISTS if this probe was joined before, and the
 * errors of mrd_probe_join(). Each result is counted. */
mrd_err mrd_joiner_sent(mrd_joiner *joiner, const mrd_probe_sent *sent, mrd_probe *ret_probe);
mrd_join_counts mrd_joiner_counts(const mrd_joiner *joiner);

/* ---- The UDP packet: docs/reference/timesync.md section 3 ---- */

#define MRD_PROBE_VERSION 1
/* Length of a packet in bytes. Requests and answers have the same length, so that forged sender
 * addresses gain no amplification. */
#define MRD_PROBE_PACKET_LEN 40
#define MRD_PROBE_BEGIN_LEN  4
#define MRD_PROBE_KEY_LEN    32

/* Warm-up packets are sent before a pair of requests, and before its answers, to wake idle hardware
 * on the path. They are not answered, recorded or authenticated. They carry the probe number (k) of
 * the pair. */
typedef enum { MRD_PROBE_REQUEST = 1, MRD_PROBE_ANSWER = 2, MRD_PROBE_WARMUP = 3 } mrd_probe_kind;

typedef struct {
    mrd_probe_kind kind;
    uint8_t position; /* position of the probe in its pair: 0 or 1 */
    uint64_t session, agent;
    uint32_t agent_epoch, k;
} mrd_probe_packet;

/* Writes the first bytes of a packet, which are equal in all packets of a kind. The kernel's socket
 * filter drops warm-up packets by these bytes. */
void mrd_probe_packet_begin(mrd_probe_kind kind, uint8_t to[MRD_PROBE_BEGIN_LEN]);
/* Encodes a packet, with an authentication tag made with `key`. */
void mrd_probe_packet_encode(const mrd_probe_packet *packet, const uint8_t key[MRD_PROBE_KEY_LEN],
                             uint8_t to[MRD_PROBE_PACKET_LEN]);
/*
 * Decodes the fields of a packet. It does not verify the tag, because the caller needs the fields
 * to find the key. Errors: TRUNCATED, VERSION, and FORMAT for a wrong magic or kind, or for bytes
 * after the end.
 */
mrd_err mrd_probe_packet_decode(mrd_bytes data, mrd_probe_packet *ret_packet);
/* Returns true if the authentication tag of the encoded packet `data` matches the key. The
 * comparison takes constant time. */
bool mrd_probe_packet_proven(mrd_bytes data, const uint8_t key[MRD_PROBE_KEY_LEN]);

/* ---- The record in the journal and in batches ---- */

/* Append the agent's half of a probe (about 25 bytes) or a complete probe (about 35 bytes). */
void mrd_probe_sent_encode(const mrd_probe_sent *sent, mrd_buf *to);
void mrd_probe_encode(const mrd_probe *probe, mrd_buf *to);
/* Read one record at offset *at and advance *at past it. Errors: TRUNCATED, CORRUPT. */
mrd_err mrd_probe_sent_decode(mrd_bytes data, size_t *at, mrd_probe_sent *ret_sent);
mrd_err mrd_probe_decode(mrd_bytes data, size_t *at, mrd_probe *ret_probe);

#endif
