/*
 * trace/pb_write.h - writing protobuf by hand: varints at a pointer for the hot path, fields into a
 * mrd_buf for the rest. `tag` is field << 3 | wire type. Numbers of the Perfetto messages are named
 * in trace/pf_file.h.
 */
#ifndef MRD_TRACE_PB_WRITE_H
#define MRD_TRACE_PB_WRITE_H

#include "base/buf.h"

#define MRD_PB_VARINT_MAX 10

/* Writes v at p and returns the byte behind it. */
static inline uint8_t *
mrd_pb_varint(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t) (v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t) v;
    return p;
}

/* The same for one to four bytes, without a branch that depends on v < 2^28; writes four bytes. */
static inline uint8_t *
mrd_pb_varint28(uint8_t *p, uint32_t v)
{
    unsigned more = (31u - (unsigned) __builtin_clz(v | 1)) * 37 >> 8; /* highest bit / 7 */
    uint32_t bytes = (v & 0x7f) | (v << 1 & 0x7f00) | (v << 2 & 0x7f0000) | (v << 3 & 0x7f000000);

    bytes |= 0x808080u & ((1u << more * 8) - 1);
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t) (bytes >> 8 * i);
    return p + more + 1;
}

/* As mrd_pb_varint, for numbers of which nearly all are below 2^28; writes at least four bytes. */
static inline uint8_t *
mrd_pb_varint_short(uint8_t *p, uint64_t v)
{
    return __builtin_expect(v < 1u << 28, 1) ? mrd_pb_varint28(p, (uint32_t) v)
                                             : mrd_pb_varint(p, v);
}

static inline uint8_t *
mrd_pb_fixed64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        *p++ = (uint8_t) (v >> 8 * i);
    return p;
}

static inline void
mrd_pb_raw(mrd_buf *buf, uint64_t v)
{
    if (mrd_buf_room(buf, MRD_PB_VARINT_MAX))
        buf->len = (size_t) (mrd_pb_varint(buf->p + buf->len, v) - buf->p);
}

static inline void
mrd_pb_u64(mrd_buf *buf, uint32_t tag, uint64_t v)
{
    mrd_pb_raw(buf, tag);
    mrd_pb_raw(buf, v);
}

static inline void
mrd_pb_bytes(mrd_buf *buf, uint32_t tag, const void *p, size_t len)
{
    mrd_pb_raw(buf, tag);
    mrd_pb_raw(buf, len);
    mrd_buf_add(buf, p, len);
}

static inline void
mrd_pb_str(mrd_buf *buf, uint32_t tag, mrd_str s)
{
    mrd_pb_bytes(buf, tag, s.p, s.len);
}

/* A message inside a message: fields added between open and close are its body. */
static inline size_t
mrd_pb_open(mrd_buf *buf, uint32_t tag)
{
    mrd_pb_raw(buf, tag);
    return buf->len;
}

/* Puts the length in front of what was added since `at`. */
static inline void
mrd_pb_close(mrd_buf *buf, size_t at)
{
    uint8_t length[MRD_PB_VARINT_MAX];
    size_t body = buf->len - at, n = (size_t) (mrd_pb_varint(length, body) - length);

    if (!mrd_buf_room(buf, n))
        return;
    memmove(buf->p + at + n, buf->p + at, body);
    memcpy(buf->p + at, length, n);
    buf->len += n;
}

#endif
