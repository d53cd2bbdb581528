/*
 * capture/sha256.h - SHA-256 without a library: libmeridian depends on libc only. Internal. Source:
 * FIPS 180-4. The daemons use base/hash.h. The test capture/sha256 compares the two
 * implementations.
 */
#ifndef MRD_CAPTURE_SHA256_H
#define MRD_CAPTURE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t h[8];
    uint64_t len;
    uint8_t block[64];
    bool plain; /* tests set it after init, to avoid the processor's SHA instructions */
} mrd_sha;

void mrd_sha_init(mrd_sha *sha);
void mrd_sha_add(mrd_sha *sha, const void *data, size_t len);
/* ends the computation and writes the hash as hexadecimal text */
void mrd_sha_hex(mrd_sha *sha, char hex[65]);

#endif
