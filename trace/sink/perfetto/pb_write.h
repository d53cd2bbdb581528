/*
 * trace/sink/perfetto/pb_write.h - writes protobuf without a library: varints at a pointer for the
 * hot path, fields into a mrd_buf otherwise. `tag` is field << 3 | wire type.
 * trace/sink/perfetto/pf_file.h has the numbers of the Perfetto messages.
 */
#ifndef MRD_TRACE_PB_WRITE_H
#define MRD_TRACE_PB_WRITE_H

#include "base/buf.h"

#define MRD_PB_VARINT_MAX 10

/* Writes v at p and returns the byte after it. */
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

/* Returns the number of bytes that v takes as a varint. */
static inline unsigned
mrd_pb_varint_len(uint64_t v)
{
    return (63 - (unsigned) __builtin_clzll(v | 1)) / 7 + 1;
}

/* Writes v < 2^28 as a varint of one to four bytes, without a branch. Stores four bytes in any
 * case, but returns the address after the varint. */
static inline uint8_t *
mrd_pb_varint28(uint8_t *p, uint32_t v)
{
    /* bit length of v divided by 7, rounded up */
    unsigned len = ((31 - (unsigned) __builtin_clz(v | 1)) * 9 + 73) / 64;
    uint32_t x = (v & 0x0fffc000u) << 2 | (v & 0x3fffu);

    x = (x & 0x3f803f80u) << 1 | (x & 0x007f007fu) | 0x00808080u >> (32 - 8 * len);
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t) (x >> 8 * i);
    return p + len;
}

/* Writes v like mrd_pb_varint, but faster if v is below 2^28. May store up to four bytes for a
 * shorter varint. */
static inline uint8_t *
mrd_pb_varint_short(uint8_t *p, uint64_t v)
{
    return __builtin_expect(v < 1u << 28, 1) ? mrd_pb_varint28(p, (uint32_t) v)
                                             : mrd_pb_varint(p, v);
}

/* A small encoded field in a register: tag and value from the lowest byte on, their length in the
 * highest byte. 0 means no field. */
typedef uint64_t mrd_pb_field;

/* Encodes a field. The two varints must fit in seven bytes, and each byte holds 7 bits. So tag must
 * be below 2^14 (two bytes) and v below 2^32 (five), or tag below 2^21 and v below 2^28. */
static inline mrd_pb_field
mrd_pb_field_of(uint32_t tag, uint32_t v)
{
    uint8_t bytes[MRD_PB_VARINT_MAX];
    unsigned n = (unsigned) (mrd_pb_varint(mrd_pb_varint(bytes, tag), v) - bytes);
    mrd_pb_field field = (mrd_pb_field) n << 56;

    for (unsigned i = 0; i < n; i++)
        field |= (mrd_pb_field) bytes[i] << 8 * i;
    return field;
}

static inline unsigned
mrd_pb_field_len(mrd_pb_field field)
{
    return (unsigned) (field >> 56);
}

static inline uint8_t *
mrd_pb_fixed64(uint8_t *p, uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    /* copies eight bytes at once, because a compiler does not optimize a loop over bytes */
    memcpy(p, &v, sizeof(v));
    return p + sizeof(v);
}

/* Writes a field and returns the address after it. Always stores eight bytes, although the field
 * may be shorter. */
static inline uint8_t *
mrd_pb_put_field(uint8_t *p, mrd_pb_field field)
{
    (void) mrd_pb_fixed64(p, field);
    return p + mrd_pb_field_len(field);
}

/* mrd_pb_bytes_len returns the size of a field with `len` bytes of contents and a tag below 128.
 * mrd_pb_put_bytes writes the field. */
static inline size_t
mrd_pb_bytes_len(size_t len)
{
    return 1 + mrd_pb_varint_len(len) + len;
}

static inline uint8_t *
mrd_pb_put_bytes(uint8_t *p, uint32_t tag, const void *bytes, size_t len)
{
    *p++ = (uint8_t) tag;
    p = mrd_pb_varint(p, len);
    memcpy(p, bytes, len);
    return p + len;
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
mrd_pb_field_add(mrd_buf *buf, mrd_pb_field field)
{
    if (mrd_buf_room(buf, sizeof(field)))
        buf->len = (size_t) (mrd_pb_put_field(buf->p + buf->len, field) - buf->p);
}

static inline void
mrd_pb_bytes(mrd_buf *buf, uint32_t tag, const void *p, size_t len)
{
    mrd_pb_raw(buf, tag);
    mrd_pb_raw(buf, len);
    mrd_buf_add(buf, p, len);
}

static inline void
mrd_pb_str(mrd_buf *buf, uint32_t tag, mrd_str str)
{
    mrd_pb_bytes(buf, tag, str.p, str.len);
}

/* Begins a nested message. The fields that are added until mrd_pb_close are its body. Returns the
 * position for mrd_pb_close. */
static inline size_t
mrd_pb_open(mrd_buf *buf, uint32_t tag)
{
    mrd_pb_raw(buf, tag);
    return buf->len;
}

/* Ends the nested message that began at `at`, by inserting its length there. */
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
