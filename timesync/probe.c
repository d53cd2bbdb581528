#include "timesync/probe.h"

#include "base/hash.h"
#include "base/num.h"
#include "timesync/bytes.h"

#include <stdlib.h>
#include <string.h>

/* Limits |session - local| in ns, so that the difference of two offsets and their errors fits into
 * int64. */
#define OFFSET_MAX (INT64_MAX / 2 - 1024 * MRD_SEC)

/* An oscillator is off by at most 500 ppm, so it gains or loses at most 1 ns in this many ns. */
#define XREAD_RATE_PART 2000

/* ---- Time stamps of packets ---- */

/* Returns the wall clock minus RAW in ns, at the middle of the two RAW readings. */
static int64_t
xread_difference(const mrd_xread *xread)
{
    return xread->wall - (xread->raw0 + (xread->raw1 - xread->raw0) / 2);
}

mrd_err
mrd_stamp_bridge(const mrd_xread *before, const mrd_xread *after, int64_t wall,
                 mrd_local_ns *ret_raw, mrd_dur_ns *ret_e)
{
    int64_t d0 = xread_difference(before), d1 = xread_difference(after), change = d1 - d0;
    int64_t b0 = before->raw1 - before->raw0, b1 = after->raw1 - after->raw0;

    if (wall == 0)
        return MRD_AGAIN;
    if (b0 < 0 || b1 < 0)
        return MRD_INVALID;
    if (mrd_sat_abs(change) >
        MRD_XREAD_CHANGE_MAX + mrd_sat_abs(after->raw1 - before->raw0) / XREAD_RATE_PART)
        return MRD_CLOCK;
    ret_raw->ns = wall - (d0 + change / 2);
    /* Rounds halves up. Adds 1, because the middles of the brackets above were rounded to
     * integers. */
    *ret_e = ((b0 > b1 ? b0 : b1) + 1) / 2 + ((change < 0 ? -change : change) + 1) / 2 + 1;
    return MRD_OK;
}

/* ---- One probe: joining its halves ---- */

static bool
same_id(mrd_probe_id a, mrd_probe_id b)
{
    return a.agent == b.agent && a.agent_epoch == b.agent_epoch && a.k == b.k;
}

/* Returns true if the offset between a time of the node and a session time is within OFFSET_MAX, or
 * if one of the two is missing. */
static bool
offset_sane(int64_t node, int64_t session)
{
    return node == 0 || session == 0 || mrd_sat_abs(mrd_sat_sub(session, node)) <= OFFSET_MAX;
}

static bool
stamps_sane(int64_t a1, int64_t r2, int64_t r3, int64_t a4)
{
    return mrd_time_sane(a1) && mrd_time_sane(a4) && mrd_time_sane(r2) && mrd_time_sane(r3) &&
           offset_sane(a1, r2) && offset_sane(a4, r3);
}

/* Returns true if the four times of a probe are impossible with any offset between the two
 * clocks. */
static bool
contradicts_itself(const mrd_probe_sent *sent, const mrd_probe_served *served)
{
    int64_t e = (int64_t) sent->e + served->e, stay, trip;

    if (!stamps_sane(sent->a1, served->r2, served->r3, sent->a4))
        return true;
    if (sent->a4 == 0 || served->r3 == 0)
        return false;
    trip = sent->a4 - sent->a1;
    stay = served->r3 - served->r2;
    return trip < -e || stay < -e || trip - stay < -2 * e - trip / 2000 - 1;
}

static uint8_t
worse(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

mrd_err
mrd_probe_join(const mrd_probe_sent *sent, const mrd_probe_served *served, mrd_probe *ret_probe)
{
    mrd_probe probe = { .id = sent->id };
    uint64_t e = (uint64_t) sent->e + served->e;

    if (!same_id(sent->id, served->id))
        return MRD_INVALID;
    if (e > UINT32_MAX || contradicts_itself(sent, served))
        return MRD_CORRUPT;
    probe.a1 = sent->a1;
    probe.a4 = sent->a4;
    probe.r2 = served->r2;
    probe.r3 = served->r3;
    probe.e = (uint32_t) e;
    probe.position = sent->position;
    probe.source_up = worse(sent->source1, served->source2);
    probe.source_down = worse(sent->source4, served->source3);
    probe.up = probe.a1 != 0 && probe.r2 != 0;
    probe.down = probe.a4 != 0 && probe.r3 != 0 && !sent->again && !served->again;
    probe.held_out = mrd_probe_held_out(probe.id);
    *ret_probe = probe;
    return MRD_OK;
}

size_t
mrd_probe_ineqs(const mrd_probe *probe, mrd_ineq ret_ineq[2])
{
    size_t n = 0;

    if (probe->up)
        ret_ineq[n++] = (mrd_ineq){ .t = probe->a1,
                                    .v = probe->r2 - probe->a1 + probe->e,
                                    .position = probe->position,
                                    .source = probe->source_up };
    if (probe->down)
        ret_ineq[n++] = (mrd_ineq){ .t = probe->a4,
                                    .v = probe->r3 - probe->a4 - probe->e,
                                    .lower = true,
                                    .position = probe->position,
                                    .source = probe->source_down };
    return n;
}

bool
mrd_probe_held_out(mrd_probe_id id)
{
    uint32_t pair = id.k / 2;
    uint64_t key[2] = { id.agent, (uint64_t) id.agent_epoch << 32 | pair / 10 };

    return pair % 10 == 1 + mrd_hash64(key, sizeof(key), 0) % 8;
}

bool
mrd_probe_beside_held_out(mrd_probe_id id)
{
    mrd_probe_id before = { id.agent, id.agent_epoch, id.k - 2 };

    return mrd_probe_held_out(id) || (id.k >= 2 && mrd_probe_held_out(before));
}

/* ---- The joiner of the aggregator ---- */

typedef struct {
    mrd_probe_served served;
    bool used, taken;
} join_slot;

struct mrd_joiner {
    size_t mask;
    mrd_join_counts counts;
    join_slot *slots;
};

mrd_joiner *
mrd_joiner_new(size_t capacity)
{
    mrd_joiner *joiner = calloc(1, sizeof(*joiner));
    size_t n = 1;

    if (joiner == NULL)
        return NULL;
    while (n < capacity)
        n *= 2;
    joiner->mask = n - 1;
    if ((joiner->slots = calloc(n, sizeof(*joiner->slots))) == NULL) {
        free(joiner);
        return NULL;
    }
    return joiner;
}

void
mrd_joiner_free(mrd_joiner *joiner)
{
    if (joiner == NULL)
        return;
    free(joiner->slots);
    free(joiner);
}

/* Returns true if the probe id `a` comes after `b`: it has another agent_epoch, or the same
 * agent_epoch and a larger k. */
static bool
id_after(mrd_probe_id a, mrd_probe_id b)
{
    return a.agent_epoch != b.agent_epoch || a.k > b.k;
}

bool
mrd_joiner_served(mrd_joiner *joiner, const mrd_probe_served *served)
{
    join_slot *slot = &joiner->slots[served->id.k & joiner->mask];

    if (slot->used && same_id(slot->served.id, served->id)) {
        slot->served.again = true;
        joiner->counts.replayed++;
        return false;
    }
    if (slot->used && !id_after(served->id, slot->served.id)) {
        joiner->counts.replayed++;
        return false;
    }
    if (slot->used && !slot->taken)
        joiner->counts.overwritten++;
    *slot = (join_slot){ .served = *served, .used = true };
    return true;
}

void
mrd_joiner_answered(mrd_joiner *joiner, const mrd_probe_served *served)
{
    join_slot *slot = &joiner->slots[served->id.k & joiner->mask];

    if (!slot->used || !same_id(slot->served.id, served->id))
        return;
    slot->served.r3 = served->r3;
    slot->served.source3 = served->source3;
    slot->served.e = served->e;
    slot->served.r2 = served->r2;
}

mrd_err
mrd_joiner_sent(mrd_joiner *joiner, const mrd_probe_sent *sent, mrd_probe *ret_probe)
{
    join_slot *slot = &joiner->slots[sent->id.k & joiner->mask];
    mrd_err err;

    if (!slot->used || !same_id(slot->served.id, sent->id)) {
        joiner->counts.unmatched++;
        return MRD_NOTFOUND;
    }
    if (slot->taken) {
        joiner->counts.replayed++;
        return MRD_EXISTS;
    }
    slot->taken = true;
    err = mrd_probe_join(sent, &slot->served, ret_probe);
    if (err == MRD_OK)
        joiner->counts.joined++;
    else
        joiner->counts.contradictory++;
    return err;
}

mrd_join_counts
mrd_joiner_counts(const mrd_joiner *joiner)
{
    return joiner->counts;
}

/* ---- UDP packets ---- */

#define PACKET_TAG_AT 32

static const uint8_t packet_magic[2] = { 'M', 'T' };

static void
put_le(uint8_t *to, uint64_t v, size_t width)
{
    for (size_t i = 0; i < width; i++)
        to[i] = (uint8_t) (v >> (8 * i));
}

void
mrd_probe_packet_begin(mrd_probe_kind kind, uint8_t to[MRD_PROBE_BEGIN_LEN])
{
    memcpy(to, packet_magic, sizeof(packet_magic));
    to[2] = MRD_PROBE_VERSION;
    to[3] = (uint8_t) kind;
}

void
mrd_probe_packet_encode(const mrd_probe_packet *packet, const uint8_t key[MRD_PROBE_KEY_LEN],
                        uint8_t to[MRD_PROBE_PACKET_LEN])
{
    memset(to, 0, MRD_PROBE_PACKET_LEN);
    mrd_probe_packet_begin(packet->kind, to);
    to[4] = packet->position;
    put_le(to + 8, packet->session, 8);
    put_le(to + 16, packet->agent, 8);
    put_le(to + 24, packet->agent_epoch, 4);
    put_le(to + 28, packet->k, 4);
    put_le(to + PACKET_TAG_AT,
           mrd_hmac64((mrd_bytes){ key, MRD_PROBE_KEY_LEN }, (mrd_bytes){ to, PACKET_TAG_AT }), 8);
}

mrd_err
mrd_probe_packet_decode(mrd_bytes data, mrd_probe_packet *ret_packet)
{
    mrd_reader reader = { data.p, data.len, 8, false };

    if (data.len < MRD_PROBE_PACKET_LEN)
        return MRD_TRUNCATED;
    if (data.len > MRD_PROBE_PACKET_LEN || memcmp(data.p, packet_magic, sizeof(packet_magic)) != 0)
        return MRD_FORMAT;
    if (data.p[2] != MRD_PROBE_VERSION)
        return MRD_VERSION;
    if (data.p[3] < MRD_PROBE_REQUEST || data.p[3] > MRD_PROBE_WARMUP)
        return MRD_FORMAT;
    ret_packet->kind = (mrd_probe_kind) data.p[3];
    ret_packet->position = data.p[4];
    ret_packet->session = mrd_reader_fixed(&reader, 8);
    ret_packet->agent = mrd_reader_fixed(&reader, 8);
    ret_packet->agent_epoch = (uint32_t) mrd_reader_fixed(&reader, 4);
    ret_packet->k = (uint32_t) mrd_reader_fixed(&reader, 4);
    return MRD_OK;
}

bool
mrd_probe_packet_proven(mrd_bytes data, const uint8_t key[MRD_PROBE_KEY_LEN])
{
    uint8_t want[8], differ = 0;

    if (data.len != MRD_PROBE_PACKET_LEN)
        return false;
    put_le(want,
           mrd_hmac64((mrd_bytes){ key, MRD_PROBE_KEY_LEN }, (mrd_bytes){ data.p, PACKET_TAG_AT }),
           8);
    for (size_t i = 0; i < sizeof(want); i++)
        differ |= (uint8_t) (want[i] ^ data.p[PACKET_TAG_AT + i]);
    return differ == 0;
}

/* ---- Records in journal and batches ---- */

static void
put_id(mrd_probe_id id, mrd_buf *to)
{
    mrd_put_fixed(to, id.agent, 8);
    mrd_put_varint(to, id.agent_epoch);
    mrd_put_varint(to, id.k);
}

static mrd_probe_id
read_id(mrd_reader *reader)
{
    mrd_probe_id id = { .agent = mrd_reader_fixed(reader, 8) };
    uint64_t epoch = mrd_reader_varint(reader), k = mrd_reader_varint(reader);

    reader->bad = reader->bad || epoch > UINT32_MAX || k > UINT32_MAX;
    id.agent_epoch = (uint32_t) epoch;
    id.k = (uint32_t) k;
    return id;
}

/* Appends a time as its difference from `ref`, another time of the record. The difference is
 * unsigned and wraps, so it cannot overflow. */
static void
put_after(int64_t t, int64_t ref, mrd_buf *to)
{
    mrd_put_zigzag(to, (int64_t) ((uint64_t) t - (uint64_t) ref));
}

static int64_t
read_after(mrd_reader *reader, int64_t ref)
{
    return (int64_t) ((uint64_t) mrd_reader_zigzag(reader) + (uint64_t) ref);
}

void
mrd_probe_sent_encode(const mrd_probe_sent *sent, mrd_buf *to)
{
    put_id(sent->id, to);
    mrd_put_zigzag(to, sent->a1);
    put_after(sent->a4, sent->a1, to);
    mrd_put_varint(to, sent->e);
    mrd_put_fixed(to, sent->position, 1);
    mrd_put_fixed(to, (uint64_t) (sent->source1 << 4 | sent->source4), 1);
    mrd_put_fixed(to, sent->again, 1);
}

static bool
sources_sane(uint64_t both)
{
    return (both >> 4) < MRD_STAMP_SOURCES && (both & 15) < MRD_STAMP_SOURCES;
}

mrd_err
mrd_probe_sent_decode(mrd_bytes data, size_t *at, mrd_probe_sent *ret_sent)
{
    mrd_reader reader = { data.p, data.len, *at, false };
    mrd_probe_sent sent = { .id = read_id(&reader) };
    uint64_t e, position, sources, again;

    sent.a1 = mrd_reader_zigzag(&reader);
    sent.a4 = read_after(&reader, sent.a1);
    e = mrd_reader_varint(&reader);
    position = mrd_reader_fixed(&reader, 1);
    sources = mrd_reader_fixed(&reader, 1);
    again = mrd_reader_fixed(&reader, 1);
    if (reader.bad)
        return MRD_TRUNCATED;
    if (e > UINT32_MAX || again > 1 || !sources_sane(sources))
        return MRD_CORRUPT;
    sent.e = (uint32_t) e;
    sent.position = (uint8_t) position;
    sent.source1 = (uint8_t) (sources >> 4);
    sent.source4 = (uint8_t) (sources & 15);
    sent.again = again == 1;
    *at = reader.at;
    *ret_sent = sent;
    return MRD_OK;
}

void
mrd_probe_encode(const mrd_probe *probe, mrd_buf *to)
{
    put_id(probe->id, to);
    mrd_put_zigzag(to, probe->a1);
    put_after(probe->a4, probe->a1, to);
    mrd_put_zigzag(to, probe->r2);
    put_after(probe->r3, probe->r2, to);
    mrd_put_varint(to, probe->e);
    mrd_put_fixed(to, probe->position, 1);
    mrd_put_fixed(to, (uint64_t) (probe->source_up << 4 | probe->source_down), 1);
    mrd_put_fixed(to, (uint64_t) (probe->up | probe->down << 1), 1);
}

mrd_err
mrd_probe_decode(mrd_bytes data, size_t *at, mrd_probe *ret_probe)
{
    mrd_reader reader = { data.p, data.len, *at, false };
    mrd_probe probe = { .id = read_id(&reader) };
    uint64_t e, position, sources, flags;

    probe.a1 = mrd_reader_zigzag(&reader);
    probe.a4 = read_after(&reader, probe.a1);
    probe.r2 = mrd_reader_zigzag(&reader);
    probe.r3 = read_after(&reader, probe.r2);
    e = mrd_reader_varint(&reader);
    position = mrd_reader_fixed(&reader, 1);
    sources = mrd_reader_fixed(&reader, 1);
    flags = mrd_reader_fixed(&reader, 1);
    if (reader.bad)
        return MRD_TRUNCATED;
    if (e > UINT32_MAX || flags > 3 || !sources_sane(sources) ||
        !stamps_sane(probe.a1, probe.r2, probe.r3, probe.a4))
        return MRD_CORRUPT;
    probe.e = (uint32_t) e;
    probe.position = (uint8_t) position;
    probe.source_up = (uint8_t) (sources >> 4);
    probe.source_down = (uint8_t) (sources & 15);
    probe.up = (flags & 1) != 0;
    probe.down = (flags & 2) != 0;
    probe.held_out = mrd_probe_held_out(probe.id);
    *at = reader.at;
    *ret_probe = probe;
    return MRD_OK;
}
