/* CRC-32 and CRC-32C. Both use the same algorithm with different polynomials. The portable version
 * uses tables. If the processor has carry-less multiplication, another version processes 64 bytes
 * per step (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction"). */
#include <pthread.h>

#include "base/hash.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct {
    uint32_t poly; /* the polynomial, bit-reflected */
    /* multipliers that advance a 16-byte remainder by 64 and by 16 bytes of data */
    uint64_t fold[2][2];
    uint32_t table[8][256];
} crc;

static crc crc32_iso = { .poly = 0xedb88320u }; /* the CRC-32 of zlib */
static crc crc32c = { .poly = 0x82f63b78u };    /* Castagnoli's CRC-32C */
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;
#if defined(__x86_64__)
static bool has_multiply, has_crc32c;
#endif

static inline uint32_t
times_x(uint32_t c, uint32_t poly)
{
    return c >> 1 ^ (poly & (0 - (c & 1)));
}

/* Returns x^n modulo the polynomial, with its bits in the reversed order that the carry-less
 * multiplication needs. */
static uint64_t
power_of_x(unsigned n, uint32_t poly)
{
    uint32_t c = 0x80000000u;

    while (n-- > 0)
        c = times_x(c, poly);
    return (uint64_t) c << 1;
}

static void
crc_prepare(crc *k)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int bit = 0; bit < 8; bit++)
            c = times_x(c, k->poly);
        k->table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int t = 1; t < 8; t++)
            k->table[t][i] = k->table[t - 1][i] >> 8 ^ k->table[0][k->table[t - 1][i] & 255];
    }
    for (unsigned i = 0; i < 2; i++) {
        unsigned bits = i == 0 ? 512 : 128;

        k->fold[i][0] = power_of_x(bits + 32, k->poly);
        k->fold[i][1] = power_of_x(bits - 32, k->poly);
    }
}

static void
crc_init(void)
{
    crc_prepare(&crc32_iso);
    crc_prepare(&crc32c);
#if defined(__x86_64__)
    has_multiply = __builtin_cpu_supports("pclmul") != 0;
    has_crc32c = __builtin_cpu_supports("sse4.2") != 0;
#endif
}

/* Processes eight bytes per step with eight tables (Kounavis and Berry, "slicing-by-8"). */
static uint32_t
crc_soft(const crc *k, uint32_t c, const uint8_t *bytes, size_t len)
{
    for (; len >= 8; bytes += 8, len -= 8) {
        c ^= (uint32_t) bytes[0] | (uint32_t) bytes[1] << 8 | (uint32_t) bytes[2] << 16 |
             (uint32_t) bytes[3] << 24;
        c = k->table[7][c & 255] ^ k->table[6][c >> 8 & 255] ^ k->table[5][c >> 16 & 255] ^
            k->table[4][c >> 24] ^ k->table[3][bytes[4]] ^ k->table[2][bytes[5]] ^
            k->table[1][bytes[6]] ^ k->table[0][bytes[7]];
    }
    while (len-- > 0)
        c = c >> 8 ^ k->table[0][(c ^ *bytes++) & 255];
    return c;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
crc_step(uint32_t start, const uint8_t *bytes, size_t len)
{
    uint64_t c = start, v;

    for (; len >= 8; bytes += 8, len -= 8) {
        memcpy(&v, bytes, 8);
        c = _mm_crc32_u64(c, v);
    }
    while (len-- > 0)
        c = _mm_crc32_u8((uint32_t) c, *bytes++);
    return (uint32_t) c;
}

__attribute__((target("pclmul"))) static inline __m128i
fold(__m128i m128i, __m128i by, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(m128i, by, 0x00),
            high = _mm_clmulepi64_si128(m128i, by, 0x11);

    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

static inline __m128i
load(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *) (const void *) p);
}

/* Reduces the data to 16 bytes. The CRC of these bytes with start value 0 equals the CRC of the
 * data with start value c. `len` must be a multiple of 16, and at least 64. */
__attribute__((target("pclmul"))) static void
crc_fold(const crc *k, uint32_t c, const uint8_t *bytes, size_t len, uint8_t to[16])
{
    const __m128i far = load((const uint8_t *) k->fold[0]);
    const __m128i near = load((const uint8_t *) k->fold[1]);
    __m128i v0 = _mm_xor_si128(load(bytes), _mm_cvtsi32_si128((int) c));
    __m128i v1 = load(bytes + 16), v2 = load(bytes + 32), v3 = load(bytes + 48);

    for (bytes += 64, len -= 64; len >= 64; bytes += 64, len -= 64) {
        v0 = fold(v0, far, load(bytes));
        v1 = fold(v1, far, load(bytes + 16));
        v2 = fold(v2, far, load(bytes + 32));
        v3 = fold(v3, far, load(bytes + 48));
    }
    v0 = fold(fold(fold(v0, near, v1), near, v2), near, v3);
    for (; len > 0; bytes += 16, len -= 16)
        v0 = fold(v0, near, load(bytes));
    _mm_storeu_si128((__m128i *) (void *) to, v0);
}
#endif

/* Updates a checksum without the bit inversions that CRC-32 makes at the start and the end. */
static uint32_t
crc_update(const crc *k, uint32_t c, const uint8_t *bytes, size_t len)
{
#if defined(__x86_64__)
    if (has_multiply && len >= 128) {
        size_t whole = len & ~(size_t) 15;
        uint8_t rest[32];

        crc_fold(k, c, bytes, whole, rest);
        memcpy(rest + 16, bytes + whole, len - whole);
        return crc_update(k, 0, rest, 16 + len - whole);
    }
    if (has_crc32c && k == &crc32c)
        return crc_step(c, bytes, len);
#endif
    return crc_soft(k, c, bytes, len);
}

uint32_t
mrd_crc32(uint32_t start, const void *data, size_t len)
{
    pthread_once(&crc_once, crc_init);
    return ~crc_update(&crc32_iso, ~start, data, len);
}

uint32_t
mrd_crc32c(uint32_t start, const void *data, size_t len)
{
    pthread_once(&crc_once, crc_init);
    return ~crc_update(&crc32c, ~start, data, len);
}

uint32_t
mrd_crc32_soft(uint32_t start, const void *data, size_t len)
{
    pthread_once(&crc_once, crc_init);
    return ~crc_soft(&crc32_iso, ~start, data, len);
}

uint32_t
mrd_crc32c_soft(uint32_t start, const void *data, size_t len)
{
    pthread_once(&crc_once, crc_init);
    return ~crc_soft(&crc32c, ~start, data, len);
}
