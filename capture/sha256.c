#include "capture/sha256.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t
ror(uint32_t v, int n)
{
    return v >> n | v << (32 - n);
}

static inline uint32_t
word_of(const uint8_t *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

/* Computes one round of SHA-256, which changes only d and h. The caller rotates the arguments from
 * round to round instead of moving the values. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                           \
    do {                                                                                           \
        h += (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) + ((e & (f ^ g)) ^ g) + k[i] + w[i];            \
        d += h;                                                                                    \
        h += (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) + ((a & b) | (c & (a | b)));                    \
    } while (0)

static void
blocks_plain(uint32_t state[8], const uint8_t *p, size_t n)
{
    for (; n > 0; n--, p += 64) {
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5],
                 g = state[6], h = state[7], w[64];

        for (int i = 0; i < 16; i++)
            w[i] = word_of(p + 4 * i);
        for (int i = 16; i < 64; i++)
            w[i] = w[i - 16] + (ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3) +
                   w[i - 7] + (ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10);
        for (int i = 0; i < 64; i += 8) {
            ROUND(a, b, c, d, e, f, g, h, i);
            ROUND(h, a, b, c, d, e, f, g, i + 1);
            ROUND(g, h, a, b, c, d, e, f, i + 2);
            ROUND(f, g, h, a, b, c, d, e, i + 3);
            ROUND(e, f, g, h, a, b, c, d, i + 4);
            ROUND(d, e, f, g, h, a, b, c, i + 5);
            ROUND(c, d, e, f, g, h, a, b, i + 6);
            ROUND(b, c, d, e, f, g, h, a, i + 7);
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
        state[5] += f;
        state[6] += g;
        state[7] += h;
    }
}

#if defined(__x86_64__)
/* Hashes n blocks with the SHA instructions of x86. They take the state in two registers, (a b e f)
 * and (c d g h) from the high end, and do two rounds per instruction. */
__attribute__((target("sha,sse4.1"))) static void
blocks_x86(uint32_t state[8], const uint8_t *bytes, size_t n)
{
    const __m128i turn = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i dcba = _mm_loadu_si128((const __m128i *) (const void *) state);
    __m128i hgfe = _mm_loadu_si128((const __m128i *) (const void *) (state + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

    for (; n > 0; n--, bytes += 64) {
        __m128i m128is[4], abef_before = abef, cdgh_before = cdgh;

        for (int i = 0; i < 4; i++)
            m128is[i] = _mm_shuffle_epi8(
                _mm_loadu_si128((const __m128i *) (const void *) (bytes + 16 * i)), turn);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i *first = &m128is[i % 4], *last = &m128is[(i + 3) % 4], both;

            if (i >= 4)
                *first = _mm_sha256msg2_epu32(
                    _mm_add_epi32(_mm_sha256msg1_epu32(*first, m128is[(i + 1) % 4]),
                                  _mm_alignr_epi8(*last, m128is[(i + 2) % 4], 4)),
                    *last);
            both = _mm_add_epi32(*first,
                                 _mm_loadu_si128((const __m128i *) (const void *) (k + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, both);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(both, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    cdab = _mm_shuffle_epi32(abef, 0x1b); /* f e b a */
    efgh = _mm_shuffle_epi32(cdgh, 0xb1); /* d c h g */
    _mm_storeu_si128((__m128i *) (void *) state, _mm_blend_epi16(cdab, efgh, 0xf0));
    _mm_storeu_si128((__m128i *) (void *) (state + 4), _mm_alignr_epi8(efgh, cdab, 8));
}

static bool
has_sha(void)
{
    static _Atomic int known; /* 0 if not checked yet, 1 if not supported, 2 if supported */
    unsigned a = 0, b = 0, c = 0, d = 0;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);

    if (answer == 0) {
        bool sse = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & 1u << 19) != 0;

        answer = sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & 1u << 29) != 0 ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}
#endif

static void
add_blocks(mrd_sha *sha, const uint8_t *p, size_t n)
{
#if defined(__x86_64__)
    if (!sha->plain && has_sha()) {
        blocks_x86(sha->h, p, n);
        return;
    }
#endif
    blocks_plain(sha->h, p, n);
}

void
mrd_sha_init(mrd_sha *sha)
{
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

    memcpy(sha->h, start, sizeof(start));
    sha->len = 0;
    sha->plain = false;
}

void
mrd_sha_add(mrd_sha *sha, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    size_t held = (size_t) (sha->len % 64);

    sha->len += len;
    if (held > 0) {
        size_t n = 64 - held < len ? 64 - held : len;

        memcpy(sha->block + held, bytes, n);
        bytes += n;
        len -= n;
        if (held + n < 64)
            return;
        add_blocks(sha, sha->block, 1);
    }
    if (len >= 64)
        add_blocks(sha, bytes, len / 64);
    if (len % 64 > 0)
        memcpy(sha->block, bytes + len / 64 * 64, len % 64);
}

void
mrd_sha_hex(mrd_sha *sha, char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    uint64_t bits = sha->len * 8;
    uint8_t pad[72] = { 0x80 };
    size_t n = 64 - (size_t) ((sha->len + 8) % 64);

    for (size_t i = 0; i < 8; i++)
        pad[n + i] = (uint8_t) (bits >> (56 - 8 * i));
    mrd_sha_add(sha, pad, n + 8);
    for (size_t i = 0; i < 64; i++)
        hex[i] = digits[sha->h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = '\0';
}
