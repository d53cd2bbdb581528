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

/* ---- stamps ---- */

/* One bracketed reading of the wall clock: raw0 <= the instant of wall <= raw1. */
typedef struct {
    int64_t raw0, wall, raw1;
} mrd_xread;

/* ns: a change between two reads of more than this, and more than 500 ppm of the time between them,
 * is a step or a slew. The second limit is needed because in a long round trip the oscillator's own
 * rate changes it by more. */
#define MRD_XREAD_CHANGE_MAX 1000

/*
 * Converts a kernel stamp (wall clock) to RAW by the readings before and after it. ret_e is half
 * the wider bracket plus half the change between both. Errors: CLOCK if the difference changed by
 * more than that (discard the probe), AGAIN for a stamp of 0, INVALID for a bracket with decreasing
 * times.
 */
mrd_err mrd_stamp_bridge(const mrd_xread *before, const mrd_xread *after, int64_t wall,
                         mrd_local_ns *ret_raw, mrd_dur_ns *ret_e);

/* ---- one probe ---- */

typedef struct {
    uint64_t agent;       /* agent id, unique in the session */
    uint32_t agent_epoch; /* identifies a start of the agent's probes; k never repeats within one */
    uint32_t k;
} mrd_probe_id;

/* The agent's half. */
typedef struct {
    mrd_probe_id id;
    int64_t a1, a4;           /* RAW; a4 is 0 until an answer arrives */
    uint32_t e;               /* ns: uncertainty of a1 and a4 */
    uint8_t position;         /* in its pair: 0 or 1 */
    uint8_t source1, source4; /* mrd_stamp_source of a1 and of a4 */
    bool again;               /* more than one answer arrived */
} mrd_probe_sent;

/* The aggregator's half. */
typedef struct {
    mrd_probe_id id;
    int64_t r2, r3; /* session; r3 is 0 until the transmit stamp arrives */
    uint32_t e;     /* ns: uncertainty of r2 and r3 */
    uint8_t source2, source3;
    bool again; /* the request arrived more than once */
} mrd_probe_served;

/* Both. */
typedef struct {
    mrd_probe_id id;
    int64_t a1, a4, r2, r3;
    uint32_t e; /* both ends together */
    uint8_t position;
    uint8_t source_up, source_down; /* the worse stamp of each direction */
    bool up, down;                  /* which inequalities hold */
    bool held_out;                  /* used for checking instead of the fit */
} mrd_probe;

/* One inequality on the offset at local time t. */
typedef struct {
    int64_t t, v; /* offset(t) <= v, or >= v when lower */
    bool lower;
    uint8_t position, source;
} mrd_ineq;

/*
 * Joins two halves of the same id. Errors: INVALID if the ids differ, and CORRUPT if the probe
 * contradicts itself, so that none of it may be used. That is an answer before the request on
 * either side, or a round trip that is too short. It may be shorter than the time at the aggregator
 * only by the stamps' uncertainty and 500 ppm.
 */
mrd_err mrd_probe_join(const mrd_probe_sent *sent, const mrd_probe_served *served,
                       mrd_probe *ret_probe);
/* Writes 0 to 2 inequalities and returns their number. */
size_t mrd_probe_ineqs(const mrd_probe *probe, mrd_ineq ret_ineq[2]);
/*
 * Returns true if the pair is held out. One of every ten pairs is held out. Among pairs n with the
 * same n / 10 it is the pair at 1 + hash(agent, agent_epoch, n / 10) mod 8. So never two in a row
 * are held out, and the fit has no gaps. Pairs begin at even k, n = k / 2.
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

/* `capacity` is the number of served requests kept per joiner (one agent), rounded up to a power of
 * two. */
mrd_joiner *mrd_joiner_new(size_t capacity);
void mrd_joiner_free(mrd_joiner *joiner);
/*
 * Stores a request at its arrival (r2; r3 still 0). Returns true if it is new and must be answered.
 * Returns false for a repeated one (which voids its backward inequality), and for one of the same
 * agent_epoch that is older than the ring. Another agent_epoch is a later start, whether greater or
 * not: it is a time of the wall clock, and requests of an earlier start were made with another key.
 */
bool mrd_joiner_served(mrd_joiner *joiner, const mrd_probe_served *served);
/* Stores when the answer was sent: r3, its source, and e of both stamps. Unknown ids are ignored. */
void mrd_joiner_answered(mrd_joiner *joiner, const mrd_probe_served *served);
/* Errors: NOTFOUND (the other half is unknown or overwritten), EXISTS (this half was joined
 * before), and errors of mrd_probe_join. All are counted. */
mrd_err mrd_joiner_sent(mrd_joiner *joiner, const mrd_probe_sent *sent, mrd_probe *ret_probe);
mrd_join_counts mrd_joiner_counts(const mrd_joiner *joiner);

/* ---- The UDP packet: docs/reference/timesync.md section 3 ---- */

#define MRD_PROBE_VERSION    1
#define MRD_PROBE_PACKET_LEN 40 /* equal for request and answer, so there is no amplification */
#define MRD_PROBE_BEGIN_LEN  4
#define MRD_PROBE_KEY_LEN    32

/* Warm-up packets precede a pair, and its answers, and wake the path. They are neither answered nor
 * recorded, and their tag is not checked. k is the pair's. */
typedef enum { MRD_PROBE_REQUEST = 1, MRD_PROBE_ANSWER = 2, MRD_PROBE_WARMUP = 3 } mrd_probe_kind;

typedef struct {
    mrd_probe_kind kind;
    uint8_t position; /* in its pair */
    uint64_t session, agent;
    uint32_t agent_epoch, k;
} mrd_probe_packet;

/* Writes the first bytes of every packet of that kind, for the kernel's filter of warm-up packets. */
void mrd_probe_packet_begin(mrd_probe_kind kind, uint8_t to[MRD_PROBE_BEGIN_LEN]);
/* Encodes with the tag of `key`. */
void mrd_probe_packet_encode(const mrd_probe_packet *packet, const uint8_t key[MRD_PROBE_KEY_LEN],
                             uint8_t to[MRD_PROBE_PACKET_LEN]);
/*
 * Reads the fields without verification, for finding the key. Errors: TRUNCATED, FORMAT (magic,
 * kind, or bytes after the end), VERSION.
 */
mrd_err mrd_probe_packet_decode(mrd_bytes data, mrd_probe_packet *ret_packet);
/* Returns true if the tag matches the key (compared in constant time); data as above. */
bool mrd_probe_packet_proven(mrd_bytes data, const uint8_t key[MRD_PROBE_KEY_LEN]);

/* ---- The record in the journal and in batches ---- */

/* Appends one agent half (about 25 bytes) or one joined probe (about 35). */
void mrd_probe_sent_encode(const mrd_probe_sent *sent, mrd_buf *to);
void mrd_probe_encode(const mrd_probe *probe, mrd_buf *to);
/* Reads one at *at and moves it. Errors: TRUNCATED, CORRUPT. */
mrd_err mrd_probe_sent_decode(mrd_bytes data, size_t *at, mrd_probe_sent *ret_sent);
mrd_err mrd_probe_decode(mrd_bytes data, size_t *at, mrd_probe *ret_probe);

#endif
