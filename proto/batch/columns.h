/*
 * proto/batch/columns.h - the columns of a batch, which columns each form uses, and how varints are
 * encoded.
 *
 * The encoder and the decoder share this file. A form is the set of properties that many events
 * share. docs/reference/wire.md section 5 is the specification.
 */
#ifndef MRD_PROTO_BATCH_COLUMNS_H
#define MRD_PROTO_BATCH_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Numbers of the columns, which are the field numbers of the message BatchColumns. */
enum {
    COL_TS = 1,
    COL_FORM,
    COL_TRACK,
    COL_NAME,
    COL_DUR,
    COL_ID,
    COL_COUNTER_INT,
    COL_COUNTER_DOUBLE,
    COL_BOUND,
    COL_FLOW_ID,
    COL_FLOW_DIR,
    COL_ARG_INT,
    COL_ARG_UINT,
    COL_ARG_DOUBLE,
    COL_ARG_STR,
    COL_TEXT_LEN,
    COL_TEXT,
    COLS
};

/* The integer form_bits of a form: the event's kind in the low three bits, then these flags. */
enum {
    FORM_KIND = 7,
    FORM_HAS_ID = 1 << 3,
    FORM_HAS_BOUND = 1 << 4,
    FORM_UNFINISHED = 1 << 5,
    FORM_DIR_SHIFT = 6, /* two bits: flow_dir of a FLOW event */
    FORM_FLAGS_SHIFT = 8,
    FORM_BITS_END = 1 << 16
};

static inline uint64_t
zigzag(int64_t v)
{
    return (uint64_t) v << 1 ^ (v < 0 ? UINT64_MAX : 0);
}

static inline int64_t
unzigzag(uint64_t v)
{
    return (int64_t) (v >> 1 ^ (0 - (v & 1)));
}

/*
 * Varints are encoded and decoded without a branch for each byte. The lengths of times and
 * durations are nearly random, and a mispredicted branch costs more than the arithmetic. Writing
 * may change, and reading may access, VARINT_ROOM bytes from p on.
 */
#define VARINT_ROOM 10

/* Loads eight little-endian bytes with one access. */
static inline uint64_t
load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

static inline void
store64(uint8_t *p, uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    memcpy(p, &v, sizeof(v));
}

static inline void
store32(uint8_t *p, uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    memcpy(p, &v, sizeof(v));
}

/* Returns the number of bytes of the varint of v. v must have at most 56 bits. */
static inline unsigned
varint_len(uint64_t v)
{
    return ((63 - (unsigned) __builtin_clzll(v | 1)) * 9 + 73) / 64;
}

static inline uint8_t *
varint_put(uint8_t *bytes, uint64_t value)
{
    if (__builtin_expect(value >> 28 == 0, 1)) {
        unsigned len = varint_len(value);
        uint32_t x = (uint32_t) (value & 0x0fffc000u) << 2 | (uint32_t) (value & 0x3fffu);

        x = (x & 0x3f803f80u) << 1 | (x & 0x007f007fu) | 0x00808080u >> (32 - 8 * len);
        store32(bytes, x);
        return bytes + len;
    }
    if (__builtin_expect(value >> 56 == 0, 1)) {
        unsigned len = varint_len(value);
        uint64_t x = (value & 0x00fffffff0000000u) << 4 | (value & 0x000000000fffffffu);

        x = (x & 0x0fffc0000fffc000u) << 2 | (x & 0x00003fff00003fffu);
        x = (x & 0x3f803f803f803f80u) << 1 | (x & 0x007f007f007f007fu);
        store64(bytes, x | 0x0080808080808080u >> (64 - 8 * len));
        return bytes + len;
    }
    while (value >= 0x80) {
        *bytes++ = (uint8_t) (value | 0x80);
        value >>= 7;
    }
    *bytes++ = (uint8_t) value;
    return bytes;
}

/* Writes v as a varint at p and returns the varint's end. It is for columns of small numbers.
 * Nearly all of them take one byte, so that the processor predicts the branch. */
static inline uint8_t *
varint_put_small(uint8_t *p, uint64_t v)
{
    if (__builtin_expect(v >= 0x80, 0))
        return varint_put(p, v);
    *p = (uint8_t) v;
    return p + 1;
}

static inline uint32_t
load32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    return v;
}

/* Reads a varint of more than four bytes. */
static inline uint64_t
varint_get_long(const uint8_t **at)
{
    const uint8_t *bytes = *at;
    uint64_t x = load64(bytes), stop = ~x & 0x8080808080808080u, v = 0;
    unsigned shift = 0;

    if (__builtin_expect(stop != 0, 1)) {
        x &= stop ^ (stop - 1); /* keep the bits up to the varint's last byte */
        x = (x & 0x7f007f007f007f00u) >> 1 | (x & 0x007f007f007f007fu);
        x = (x & 0x3fff00003fff0000u) >> 2 | (x & 0x00003fff00003fffu);
        x = (x & 0x0fffffff00000000u) >> 4 | (x & 0x000000000fffffffu);
        *at = bytes + ((unsigned) __builtin_ctzll(stop) + 1) / 8;
        return x;
    }
    for (; *bytes >= 0x80; bytes++, shift += 7)
        v |= (uint64_t) (*bytes & 0x7f) << (shift & 63);
    v |= (uint64_t) *bytes << (shift & 63);
    *at = bytes + 1;
    return v;
}

/* Reads a varint at *at and moves *at to its end. A varint longer than ten bytes gives an undefined
 * number. */
static inline uint64_t
varint_get(const uint8_t **at)
{
    uint32_t x = load32(*at), stop = ~x & 0x80808080u;

    if (__builtin_expect(stop == 0, 0))
        return varint_get_long(at);
    x &= stop ^ (stop - 1);
    x = (x & 0x7f007f00u) >> 1 | (x & 0x007f007fu);
    *at += ((unsigned) __builtin_ctz(stop) + 1) / 8;
    return (x & 0x3fff0000u) >> 2 | (x & 0x00003fffu);
}

/* Writes n varints to p and returns their end. The function may also overwrite the VARINT_ROOM
 * bytes after the end. */
typedef uint8_t *mrd_varints_put(uint8_t *p, const uint64_t *v, uint32_t n);

/* Returns the fastest function for this processor, or the portable function if `plain` is set. */
mrd_varints_put *mrd_batch_varints(bool plain);

#endif
