/*
 * timesync/bytes.h - appends and reads little-endian fields and varints. Internal to timesync/.
 *
 * A reader never reads beyond its input, and sets `bad` instead. Read all fields, then check `bad`
 * before using them.
 */
#ifndef MRD_TIMESYNC_BYTES_H
#define MRD_TIMESYNC_BYTES_H

#include "base/buf.h"

typedef struct {
    const uint8_t *p;
    size_t len, at;
    bool bad; /* the input was truncated or a varint was too long; later reads return 0 */
} mrd_reader;

static inline uint64_t
mrd_reader_fixed(mrd_reader *reader, size_t width)
{
    uint64_t v = 0;

    if (reader->bad || reader->len - reader->at < width) {
        reader->bad = true;
        return 0;
    }
    for (size_t i = 0; i < width; i++)
        v |= (uint64_t) reader->p[reader->at + i] << (8 * i);
    reader->at += width;
    return v;
}

static inline uint64_t
mrd_reader_varint(mrd_reader *reader)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = mrd_reader_fixed(reader, 1);

        v |= (byte & 0x7f) << shift;
        if (byte < 0x80)
            return v;
    }
    reader->bad = true;
    return 0;
}

static inline int64_t
mrd_reader_zigzag(mrd_reader *reader)
{
    uint64_t v = mrd_reader_varint(reader);

    return (int64_t) (v >> 1) ^ -(int64_t) (v & 1);
}

static inline float
mrd_reader_float(mrd_reader *reader)
{
    uint32_t bits = (uint32_t) mrd_reader_fixed(reader, 4);
    float v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

static inline double
mrd_reader_double(mrd_reader *reader)
{
    uint64_t bits = mrd_reader_fixed(reader, 8);
    double v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

static inline void
mrd_put_fixed(mrd_buf *to, uint64_t v, size_t width)
{
    for (size_t i = 0; i < width; i++)
        mrd_buf_byte(to, (uint8_t) (v >> (8 * i)));
}

static inline void
mrd_put_varint(mrd_buf *to, uint64_t v)
{
    while (v >= 0x80) {
        mrd_buf_byte(to, (uint8_t) (v | 0x80));
        v >>= 7;
    }
    mrd_buf_byte(to, (uint8_t) v);
}

static inline void
mrd_put_zigzag(mrd_buf *to, int64_t v)
{
    mrd_put_varint(to, ((uint64_t) v << 1) ^ (v < 0 ? UINT64_MAX : 0));
}

static inline void
mrd_put_float(mrd_buf *to, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    mrd_put_fixed(to, bits, 4);
}

static inline void
mrd_put_double(mrd_buf *to, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    mrd_put_fixed(to, bits, 8);
}

#endif
