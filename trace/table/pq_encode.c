#include "trace/table/pq_encode.h"

#include <endian.h>

enum {
    BLOCK = 128,
    MINI = 32,
    MINIS = BLOCK / MINI,
    /* a run of fewer equal values is stored as packed bits, together with its neighbours */
    RUN_MIN = 16
};

void
mrd_pq_put_varint(mrd_buf *to, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;

    while (v >= 0x80) {
        bytes[n++] = (uint8_t) (v | 0x80);
        v >>= 7;
    }
    bytes[n++] = (uint8_t) v;
    mrd_buf_add(to, bytes, n);
}

/* ---- Runs and packed bits ---- */

static void
put_run(mrd_buf *to, uint32_t value, size_t n, unsigned width)
{
    uint32_t le = htole32(value);

    mrd_pq_put_varint(to, (uint64_t) n << 1);
    mrd_buf_add(to, &le, (width + 7) / 8);
}

/* Appends n values as packed bits, in groups of 8. Zeros fill the last group. */
static void
put_packed(mrd_buf *to, const uint32_t *values, size_t n, unsigned width)
{
    size_t groups = (n + 7) / 8, bytes = groups * width;
    uint64_t bits = 0;
    unsigned held = 0;
    uint8_t *p, *end;

    mrd_pq_put_varint(to, (uint64_t) groups << 1 | 1);
    if (!mrd_buf_room(to, bytes + 8))
        return;
    p = to->p + to->len;
    end = p + bytes;
    for (size_t i = 0; i < n; i++) {
        bits |= (uint64_t) values[i] << held;
        held += width;
        if (held >= 32) {
            uint32_t le = htole32((uint32_t) bits);

            memcpy(p, &le, 4);
            p += 4;
            bits >>= 32;
            held -= 32;
        }
    }
    bits = htole64(bits);
    memcpy(p, &bits, 8); /* stores up to 8 bytes more than needed, for which there is room */
    p += (held + 7) / 8;
    if (p < end)
        memset(p, 0, (size_t) (end - p));
    to->len += bytes;
}

static size_t
run_at(const uint32_t *values, size_t n)
{
    size_t i = 1;

    while (i < n && values[i] == values[0])
        i++;
    return i;
}

void
mrd_pq_put_hybrid(mrd_buf *to, const uint32_t *values, size_t n, unsigned width)
{
    /* First value that is not written yet. Values before a run are packed in groups of 8, so the
     * number of values from here to a run is a multiple of 8. */
    size_t packed = 0, i = 0;

    if (width == 0) {
        if (n > 0)
            put_run(to, 0, n, 0);
        return;
    }
    while (i < n) {
        size_t run = run_at(values + i, n - i);

        if (run < RUN_MIN && i + run < n) {
            i += run < 8 ? 8 : run / 8 * 8;
            i = i < n ? i : n;
            continue;
        }
        if (i > packed)
            put_packed(to, values + packed, i - packed, width);
        put_run(to, values[i], run, width);
        i += run;
        packed = i;
    }
    if (i > packed)
        put_packed(to, values + packed, i - packed, width);
}

static void
to_bytes(uint8_t *restrict p, const uint32_t *restrict values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t) values[i];
}

static void
to_pairs(uint8_t *restrict p, const uint32_t *restrict values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t le = htole16((uint16_t) values[i]);

        memcpy(p + 2 * i, &le, 2);
    }
}

void
mrd_pq_put_index(mrd_buf *to, const uint32_t *values, size_t n, unsigned width)
{
    size_t groups = (n + 7) / 8, bytes = groups * width;

    if ((width != 8 && width != 16) || n < 2 ||
        memcmp(values, values + 1, (n - 1) * sizeof(*values)) == 0) {
        mrd_pq_put_hybrid(to, values, n, width);
        return;
    }
    mrd_pq_put_varint(to, (uint64_t) groups << 1 | 1);
    if (!mrd_buf_room(to, bytes))
        return;
    if (width == 8)
        to_bytes(to->p + to->len, values, n);
    else
        to_pairs(to->p + to->len, values, n);
    memset(to->p + to->len + n * (width / 8), 0, bytes - n * (width / 8));
    to->len += bytes;
}

/* ---- Deltas ---- */

/* Packs MINI values of `width` bits. The buffer must have 8 bytes more than needed. Returns the
 * end. */
static uint8_t *
pack_bits(uint8_t *bytes, const uint64_t *values, unsigned width)
{
    uint64_t bits = 0;
    unsigned held = 0;

    for (size_t i = 0; i < MINI; i++) {
        bits |= values[i] << held;
        held += width;
        if (held >= 64) {
            uint64_t le = htole64(bits);

            memcpy(bytes, &le, 8);
            bytes += 8;
            held -= 64;
            bits = held == 0 ? 0 : values[i] >> (width - held);
        }
    }
    /* MINI * width is a multiple of 32, so the remaining bits are whole bytes */
    bits = htole64(bits);
    memcpy(bytes, &bits, 8);
    return bytes + held / 8;
}

/* Packs MINI values like pack_bits, but faster. Only for a width of whole bytes. */
static uint8_t *
pack_bytes(uint8_t *p, const uint64_t *values, unsigned width)
{
    for (size_t i = 0; i < MINI; i++, p += width / 8) {
        uint64_t le = htole64(values[i]);

        memcpy(p, &le, 8);
    }
    return p;
}

/* Computes the n differences between successive values, beginning with values[0] - values[-1].
 * Subtracts the least difference from all of them, and returns it. Fills the rest of the block with
 * zeros. */
static int64_t
block_deltas(uint64_t deltas[BLOCK], const int64_t *values, size_t n)
{
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < n; i++)
        deltas[i] = (uint64_t) values[i] - (uint64_t) values[(ptrdiff_t) i - 1];
    for (size_t i = 0; i < n; i++)
        least = (int64_t) deltas[i] < least ? (int64_t) deltas[i] : least;
    for (size_t i = n; i < BLOCK; i++)
        deltas[i] = (uint64_t) least;
    for (size_t i = 0; i < BLOCK; i++)
        deltas[i] -= (uint64_t) least;
    return least;
}

static void
put_block(mrd_buf *to, const int64_t *values, size_t n, bool bytes)
{
    uint64_t deltas[BLOCK];
    uint8_t *widths, *p;

    mrd_pq_put_zigzag(to, block_deltas(deltas, values, n));
    if (!mrd_buf_room(to, MINIS + BLOCK * 8 + 8))
        return;
    widths = to->p + to->len;
    p = widths + MINIS;
    for (size_t m = 0; m < MINIS; m++) {
        const uint64_t *mini = deltas + m * MINI;
        uint64_t over = 0;
        unsigned width;

        for (size_t i = 0; i < MINI; i++)
            over |= mini[i];
        width = mrd_pq_width(over);
        width = bytes ? (width + 7) / 8 * 8 : width;
        /* miniblocks after the last value have width 0, as the format requires */
        widths[m] = (uint8_t) width;
        if (width > 0)
            p = width % 8 == 0 ? pack_bytes(p, mini, width) : pack_bits(p, mini, width);
    }
    to->len = (size_t) (p - to->p);
}

void
mrd_pq_put_delta(mrd_buf *to, const int64_t *values, size_t n, bool bytes)
{
    mrd_pq_put_varint(to, BLOCK);
    mrd_pq_put_varint(to, MINIS);
    mrd_pq_put_varint(to, n);
    mrd_pq_put_zigzag(to, n == 0 ? 0 : values[0]);
    for (size_t i = 1; i < n; i += BLOCK)
        put_block(to, values + i, n - i < BLOCK ? n - i : BLOCK, bytes);
}
