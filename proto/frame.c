#include "proto/frame.h"

#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"

#define FRAME_MAGIC "MRDF"

static const char *const type_names[] = { "unknown",  "hello",       "welcome", "refuse",
                                          "ack",      "heartbeat",   "batch",   "clock data",
                                          "announce", "request",     "chunk",   "done",
                                          "probe",    "probe reply", "control", "control reply",
                                          "job",      "job reply" };

_Static_assert(MRD_COUNT(type_names) == MRD_FRAME_TYPES, "a name for every frame type");

const char *
mrd_frame_type_text(uint8_t type)
{
    return type < MRD_FRAME_TYPES ? type_names[type] : type_names[0];
}

static void
put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t) (v >> 8 * i);
}

static void
put_u64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t) (v >> 8 * i);
}

static uint32_t
get_u32(const uint8_t *p)
{
    return (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
}

static uint64_t
get_u64(const uint8_t *p)
{
    return get_u32(p) | (uint64_t) get_u32(p + 4) << 32;
}

uint64_t
mrd_agent_key(mrd_str instance_id)
{
    mrd_sha256 *sha = mrd_sha256_new();
    char hex[MRD_SHA256_HEX];
    uint64_t key = 0;

    MRD_ASSERT(sha != NULL);
    mrd_sha256_add(sha, instance_id.p, instance_id.len);
    mrd_sha256_hex(sha, hex);
    mrd_sha256_free(sha);
    for (int i = 15; i >= 0; i--) { /* two digits per byte, lowest byte first */
        char c = hex[i ^ 1];

        key = key << 4 | (uint64_t) (c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return key;
}

uint32_t
mrd_boot_key(mrd_str boot_id)
{
    uint32_t key = (uint32_t) mrd_hash64(boot_id.p, boot_id.len, 0);

    return boot_id.len == 0 ? 0 : key == 0 ? 1 : key;
}

void
mrd_frame_put(mrd_frame *frame, mrd_bytes body, uint8_t to[MRD_FRAME_HEADER])
{
    frame->body_len = (uint32_t) body.len;
    frame->body_crc = mrd_crc32c(0, body.p, body.len);
    mrd_frame_stamp(frame, to);
}

void
mrd_frame_stamp(const mrd_frame *frame, uint8_t to[MRD_FRAME_HEADER])
{
    memcpy(to, FRAME_MAGIC, 4);
    to[4] = MRD_WIRE_MAJOR;
    to[5] = frame->type;
    to[6] = frame->codec;
    to[7] = frame->clock;
    put_u32(to + 8, frame->body_len);
    put_u32(to + 12, frame->head_len);
    put_u32(to + 16, frame->head_raw);
    put_u32(to + 20, frame->cols_raw);
    put_u32(to + 24, frame->events);
    put_u32(to + 28, frame->body_crc);
    put_u64(to + 32, frame->agent);
    put_u64(to + 40, frame->epoch);
    put_u64(to + 48, frame->session);
    put_u64(to + 56, frame->seq);
    put_u64(to + 64, (uint64_t) frame->process_id);
    put_u64(to + 72, (uint64_t) frame->first.ns);
    put_u64(to + 80, (uint64_t) frame->last.ns);
    put_u32(to + 88, frame->boot);
    put_u32(to + 92, mrd_crc32c(0, to, 92));
}

static void
frame_fields(const uint8_t *bytes, mrd_frame *frame)
{
    *frame = (mrd_frame){ .type = bytes[5],
                          .codec = bytes[6],
                          .clock = bytes[7],
                          .body_len = get_u32(bytes + 8),
                          .head_len = get_u32(bytes + 12),
                          .head_raw = get_u32(bytes + 16),
                          .cols_raw = get_u32(bytes + 20),
                          .events = get_u32(bytes + 24),
                          .body_crc = get_u32(bytes + 28),
                          .agent = get_u64(bytes + 32),
                          .epoch = get_u64(bytes + 40),
                          .session = get_u64(bytes + 48),
                          .seq = get_u64(bytes + 56),
                          .process_id = (int64_t) get_u64(bytes + 64),
                          .first = { (int64_t) get_u64(bytes + 72) },
                          .last = { (int64_t) get_u64(bytes + 80) },
                          .boot = get_u32(bytes + 88) };
}

static uint32_t
body_limit(uint8_t type)
{
    switch (type) {
    case MRD_FRAME_BATCH:
        return MRD_FRAME_MAX - MRD_FRAME_HEADER;
    case MRD_FRAME_CHUNK:
        return MRD_CHUNK_MAX + 1024;
    default:
        return MRD_FRAME_MSG_MAX;
    }
}

/* Checks the lengths of the head or the columns of a batch: `len` bytes in the frame, `raw` bytes
 * after decompression. With any codec, a part is not compressed if both lengths are equal. */
static bool
batch_part_ok(const mrd_frame *frame, uint32_t len, uint32_t raw)
{
    return raw <= MRD_FRAME_RAW_MAX && (frame->codec == MRD_CODEC_NONE ? len == raw : len <= raw);
}

static mrd_err
batch_fields_check(const mrd_frame *frame, mrd_why *why)
{
    if (frame->events == 0 || frame->events > MRD_BATCH_EVENTS)
        return mrd_why_set(why, MRD_LIMIT, 0, "batch of %u events (1 to %u are allowed)",
                           frame->events, MRD_BATCH_EVENTS);
    if (frame->head_raw > MRD_FRAME_RAW_MAX || frame->cols_raw > MRD_FRAME_RAW_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "batch decompresses to more than %u bytes",
                           MRD_FRAME_RAW_MAX);
    if (frame->codec != MRD_CODEC_NONE && frame->codec != MRD_CODEC_ZSTD)
        return mrd_why_set(why, MRD_UNSUPPORTED, 0, "batch with unknown codec %u", frame->codec);
    if (frame->head_len > frame->body_len || mrd_ev_after(frame->first, frame->last) ||
        !batch_part_ok(frame, frame->head_len, frame->head_raw) ||
        !batch_part_ok(frame, frame->body_len - frame->head_len, frame->cols_raw))
        return mrd_why_set(why, MRD_CORRUPT, 0, "batch header contradicts itself");
    return MRD_OK;
}

mrd_err
mrd_frame_get(mrd_bytes data, mrd_frame *ret_frame, mrd_why *why)
{
    const uint8_t *bytes = data.p;
    mrd_frame frame;
    mrd_err err;

    if (data.len < MRD_FRAME_HEADER)
        return mrd_why_set(why, MRD_TRUNCATED, 0, "frame of %zu bytes is shorter than its header",
                           data.len);
    if (memcmp(bytes, FRAME_MAGIC, 4) != 0)
        return mrd_why_set(why, MRD_FORMAT, 0, "not a Meridian frame");
    if (bytes[4] != MRD_WIRE_MAJOR)
        return mrd_why_set(why, MRD_VERSION, 0,
                           "the peer uses wire version %u, this program %u: update the older one",
                           bytes[4], MRD_WIRE_MAJOR);
    if (get_u32(bytes + 92) != mrd_crc32c(0, bytes, 92))
        return mrd_why_set(why, MRD_CORRUPT, 0, "frame header fails its checksum");
    frame_fields(bytes, &frame);
    if (frame.type == 0 || frame.type >= MRD_FRAME_TYPES)
        return mrd_why_set(why, MRD_UNSUPPORTED, 0, "frame of unknown type %u", frame.type);
    if (frame.body_len > body_limit(frame.type))
        return mrd_why_set(why, MRD_LIMIT, 0, "%s frame of %u bytes (at most %u are allowed)",
                           mrd_frame_type_text(frame.type), frame.body_len, body_limit(frame.type));
    if (frame.type == MRD_FRAME_BATCH && (err = batch_fields_check(&frame, why)) != MRD_OK)
        return err;
    *ret_frame = frame;
    return MRD_OK;
}

mrd_err
mrd_frame_check(mrd_bytes data, mrd_frame *ret_frame, mrd_bytes *ret_body, mrd_why *why)
{
    mrd_bytes body;
    mrd_frame frame;
    mrd_err err = mrd_frame_get(data, &frame, why);

    if (err != MRD_OK)
        return err;
    body = (mrd_bytes){ data.p + MRD_FRAME_HEADER, data.len - MRD_FRAME_HEADER };
    if (body.len < frame.body_len)
        return mrd_why_set(why, MRD_TRUNCATED, 0, "%s frame has %zu of %u body bytes",
                           mrd_frame_type_text(frame.type), body.len, frame.body_len);
    if (body.len > frame.body_len)
        return mrd_why_set(why, MRD_CORRUPT, 0, "%s frame has %zu bytes behind its end",
                           mrd_frame_type_text(frame.type), body.len - frame.body_len);
    if (mrd_crc32c(0, body.p, body.len) != frame.body_crc)
        return mrd_why_set(why, MRD_CORRUPT, 0, "body of the %s frame fails its checksum",
                           mrd_frame_type_text(frame.type));
    *ret_frame = frame;
    *ret_body = body;
    return MRD_OK;
}

bool
mrd_instance_id_valid(mrd_str id)
{
    if (id.len == 0 || id.len > 128 || id.p[0] == '.')
        return false;
    for (size_t i = 0; i < id.len; i++) {
        char c = id.p[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}
