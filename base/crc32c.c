#include "base/hash.h"

#include <pthread.h>

#define CRC32C_POLY 0x82f63b78u /* Castagnoli, reflected */

static uint32_t crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;
static bool crc_hardware;

static void
crc_init(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int k = 0; k < 8; k++)
            c = (c & 1) != 0 ? c >> 1 ^ CRC32C_POLY : c >> 1;
        crc_table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int t = 1; t < 8; t++)
            crc_table[t][i] = crc_table[t - 1][i] >> 8 ^ crc_table[0][crc_table[t - 1][i] & 255];
    }
#if defined(__x86_64__)
    crc_hardware = __builtin_cpu_supports("sse4.2") != 0;
#endif
}

/* Eight tables, eight bytes a step (Kounavis and Berry, "slicing-by-8"). */
static uint32_t
crc_soft(uint32_t c, const uint8_t *p, size_t len)
{
    for (; len >= 8; p += 8, len -= 8) {
        c ^= (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
        c = crc_table[7][c & 255] ^ crc_table[6][c >> 8 & 255] ^ crc_table[5][c >> 16 & 255] ^
            crc_table[4][c >> 24] ^ crc_table[3][p[4]] ^ crc_table[2][p[5]] ^ crc_table[1][p[6]] ^
            crc_table[0][p[7]];
    }
    while (len-- > 0)
        c = c >> 8 ^ crc_table[0][(c ^ *p++) & 255];
    return c;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
crc_sse(uint32_t start, const uint8_t *p, size_t len)
{
    uint64_t c = start, v;

    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&v, p, 8);
        c = __builtin_ia32_crc32di(c, v);
    }
    while (len-- > 0)
        c = __builtin_ia32_crc32qi((uint32_t) c, *p++);
    return (uint32_t) c;
}
#endif

uint32_t
mrd_crc32c(uint32_t start, const void *data, size_t len)
{
    pthread_once(&crc_once, crc_init);
#if defined(__x86_64__)
    if (crc_hardware)
        return ~crc_sse(~start, data, len);
#endif
    return ~crc_soft(~start, data, len);
}

uint32_t
mrd_crc32c_soft(uint32_t start, const void *data, size_t len)
{
    pthread_once(&crc_once, crc_init);
    return ~crc_soft(~start, data, len);
}
