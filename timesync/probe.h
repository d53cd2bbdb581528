/*
 * timesync/probe.h - clock probes: their messages, the joining of their two halves, and the
 * resulting inequalities
 *
 * The agent sends request k at a1 (its clock). The aggregator receives it at r2 and answers at r3
 * (session clock). The agent receives the answer at a4. The answer contains no time: each side
 * keeps its own stamps, the agent sends (k, a1, a4, e) with its next batch, and the joiner combines
 * both.
 *
 *     forward    offset(a1) <= r2 - a1 + e     received no earlier than sent
 *     backward   offset(a4) >= r3 - a4 - e
 *
 * Nothing else is used. A request that arrived twice is answered once, and its backward inequality
 * is void, because r3 and a4 might belong to different copies.
 *
 * Units    int64 ns. A stamp of 0 means "none".
 * Sign     offset = session - local.
 * Threads  a joiner belongs to one thread; the rest is stateless.
 * Limits   every decoder here checks length and version before it uses a field.
 * Source   docs/reference/timesync.md sections 2 and 3.
 */
#ifndef MRD_TIMESYNC_PROBE_H
#define MRD_TIMESYNC_PROBE_H

#include "base/buf.h"
#include "base/clock.h"
#include "timesync/label.h"

#include <stdbool.h>

/* ---- Time stamps ---- */

/* One bracketed reading of the wall clock. The wall clock showed `wall` at an instant between raw0
 * and raw1, read from CLOCK_MONOTONIC_RAW before and after. */
typedef struct {
    int64_t raw0, wall, raw1;
} mrd_xread;

/* In ns. Between two reads, the difference between the clocks may change by this plus 500 ppm of
 * the time between the reads. A larger change shows a step or a slew. The 500 ppm are needed for
 * long round trips, in which the rate error of the oscillator alone causes a larger change than
 * this. */
#define MRD_XREAD_CHANGE_MAX 1000

/*
 * Converts a kernel time stamp of the wall clock to CLOCK_MONOTONIC_RAW by the readings before and
 * after it. ret_e is half the wider bracket plus half the change between both. Errors: CLOCK if
 * wall minus RAW changed by more than MRD_XREAD_CHANGE_MAX allows (discard the probe), AGAIN for a
 * stamp of 0, INVALID for a bracket with decreasing times.
 */
mrd_err mrd_stamp_bridge(const mrd_xread *before, const mrd_xread *after, int64_t wall,
                         mrd_local_ns *ret_raw, mrd_dur_ns *ret_e);

/* ---- One probe ---- */

typedef struct {
    uint64_t agent; /* agent id, unique in the session */
    /* identifies one start of the agent's probing; k does not repeat under one agent_epoch */
    uint32_t agent_epoch;
    uint32_t k;
} mrd_probe_id;

/* The agent's half of a probe. */
typedef struct {
    mrd_probe_id id;
    int64_t a1, a4;   /* CLOCK_MONOTONIC_RAW of the agent's node; a4 is 0 until an answer arrives */
    uint32_t e;       /* ns: uncertainty of a1 and a4 */
    uint8_t position; /* position of this probe in its pair: 0 or 1 */
    uint8_t source1, source4; /* mrd_stamp_source of a1, and of a4 */
    bool again;               /* more than one answer arrived for this request */
} mrd_probe_sent;

/* The aggregator's half of a probe. */
typedef struct {
    mrd_probe_id id;
    int64_t r2, r3; /* session time; r3 is 0 until the kernel's transmit stamp arrives */
    uint32_t e;     /* ns: uncertainty of r2 and r3 */
    uint8_t source2, source3;
    bool again; /* the request arrived more than once */
} mrd_probe_served;

/* A probe with both halves joined. */
typedef struct {
    mrd_probe_id id;
    int64_t a1, a4, r2, r3;
    uint32_t e; /* ns: uncertainty of the agent's stamps plus uncertainty of the aggregator's */
    uint8_t position;
    /* the worse of the two stamp sources of the request (up) and of the answer (down) */
    uint8_t source_up, source_down;
    bool up, down; /* whether the inequality of the request (up) and of the answer (down) holds */
    bool held_out; /* this probe is used for checking instead of the fit */
} mrd_probe;

/* One inequality, which limits the offset at local time t. */
typedef struct {
    int64_t t, v;
    bool lower; /* true means offset(t) >= v, false means offset(t) <= v */
    uint8_t position, source;
} mrd_ineq;

/*
 * Joins two halves of the same id. Errors: INVALID if the ids differ. CORRUPT if the probe
 * contradicts itself; then none of it may be used. A probe contradicts itself if an answer precedes
 * its request on either side. It also does if its round trip is shorter than the time at the
 * aggregator by more than the stamps' uncertainty and 500 ppm explain.
 */
mrd_err mrd_probe_join(const mrd_probe_sent *sent, const mrd_probe_served *served,
                       mrd_probe *ret_probe);
/* Writes the 0 to 2 inequalities that follow from a probe, and returns their number. */
size_t mrd_probe_ineqs(const mrd_probe *probe, mrd_ineq ret_ineq[2]);
/*
 * Returns true if the pair of probe `id` is held out of the fit for checking. Pairs begin at even
 * k, and a pair has the number n = k / 2. One of every ten pairs is held out, the one with
 * n mod 10 = 1 + hash(agent, agent_epoch, n / 10) mod 8. So two pairs in a row are never held out,
 * and the fit has no gaps.
 */
bool mrd_probe_held_out(mrd_probe_id id);
/* Returns true if the pair of id, or the previous one, is held out. The two are then sent at half
 * the distance, so that the pairs of the fit have about equal distances. */
bool mrd_probe_beside_held_out(mrd_probe_id id);

/* ---- Joining at the aggregator: a bounded ring of served requests per agent ---- */

typedef struct {
    uint64_t joined, unmatched, replayed, contradictory, overwritten;
} mrd_join_counts;

typedef struct mrd_joiner mrd_joiner;

/* Creates a joiner for one agent. `capacity` is the number of served requests that it keeps,
 * rounded up to a power of two. NULL if out of memory. */
mrd_joiner *mrd_joiner_new(size_t capacity);
void mrd_joiner_free(mrd_joiner *joiner);
/*
 * Stores a request at its arrival (r2 is set, r3 is still 0). Returns true if the request is new
 * and must be answered. Returns false for a repeated request (which voids its backward inequality),
 * and for a request of the same agent_epoch that is older than the ring. A request with another
 * agent_epoch always counts as a later start, even if its agent_epoch is smaller. agent_epoch is a
 * wall clock time, which may decrease. Requests of an earlier start do not arrive here, because
 * they were signed with another key.
 */
bool mrd_joiner_served(mrd_joiner *joiner, const mrd_probe_served *served);
/* Stores when the answer was sent (r3), the source of r3, and e of both stamps. Unknown ids are
 * ignored. */
void mrd_joiner_answered(mrd_joiner *joiner, const mrd_probe_served *served);
/* Joins the agent's half with the stored half of the aggregator. Errors: NOTFOUND (the aggregator's
 * half is unknown or overwritten), EXISTS (this half was joined before), and errors of
 * mrd_probe_join. All are counted. */
mrd_err mrd_joiner_sent(mrd_joiner *joiner, const mrd_probe_sent *sent, mrd_probe *ret_probe);
mrd_join_counts mrd_joiner_counts(const mrd_joiner *joiner);

/* ---- The UDP packet: docs/reference/timesync.md section 3 ---- */

#define MRD_PROBE_VERSION 1
/* equal for request and answer, so that a forged sender address gains no amplification */
#define MRD_PROBE_PACKET_LEN 40
#define MRD_PROBE_BEGIN_LEN  4
#define MRD_PROBE_KEY_LEN    32

/* Warm-up packets precede a pair of requests, and its answers, to wake idle hardware on the path.
 * They are neither answered nor recorded, and their tag is not checked. Their k is the pair's. */
typedef enum { MRD_PROBE_REQUEST = 1, MRD_PROBE_ANSWER = 2, MRD_PROBE_WARMUP = 3 } mrd_probe_kind;

typedef struct {
    mrd_probe_kind kind;
    uint8_t position; /* position of the probe in its pair: 0 or 1 */
    uint64_t session, agent;
    uint32_t agent_epoch, k;
} mrd_probe_packet;

/* Writes the first bytes that all packets of a kind have in common. The kernel's filter drops
 * warm-up packets by these bytes. */
void mrd_probe_packet_begin(mrd_probe_kind kind, uint8_t to[MRD_PROBE_BEGIN_LEN]);
/* Encodes a packet, with an authentication tag made with `key`. */
void mrd_probe_packet_encode(const mrd_probe_packet *packet, const uint8_t key[MRD_PROBE_KEY_LEN],
                             uint8_t to[MRD_PROBE_PACKET_LEN]);
/*
 * Reads the fields without verifying the tag, because they are needed to find the key. Errors:
 * TRUNCATED, FORMAT (magic, kind, or bytes after the end), VERSION.
 */
mrd_err mrd_probe_packet_decode(mrd_bytes data, mrd_probe_packet *ret_packet);
/* Returns true if the tag in `data`, an encoded packet, matches the key. The comparison takes
 * constant time. */
bool mrd_probe_packet_proven(mrd_bytes data, const uint8_t key[MRD_PROBE_KEY_LEN]);

/* ---- The record in the journal and in batches ---- */

/* Append one agent half (about 25 bytes) or one joined probe (about 35 bytes). */
void mrd_probe_sent_encode(const mrd_probe_sent *sent, mrd_buf *to);
void mrd_probe_encode(const mrd_probe *probe, mrd_buf *to);
/* Read one record at offset *at and advance *at past it. Errors: TRUNCATED, CORRUPT. */
mrd_err mrd_probe_sent_decode(mrd_bytes data, size_t *at, mrd_probe_sent *ret_sent);
mrd_err mrd_probe_decode(mrd_bytes data, size_t *at, mrd_probe *ret_probe);

#endif
