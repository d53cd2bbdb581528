/* Tests the hash of models (SHA-256) by comparison with libcrypto, with and without the processor's
 * SHA instructions. The inputs have every length up to a few blocks, are long, come in random
 * chunks, or have any alignment. */
#include <stdlib.h>

#include "base/hash.h"
#include "capture/sha256.h"
#include "tests/check.h"
#include "tests/seed.h"

static uint8_t data[1 << 20];

static void
compare(size_t from, size_t len, size_t chunk_max)
{
    char want[MRD_SHA256_HEX], got[65];
    mrd_sha256 *other = mrd_sha256_new();

    mrd_sha256_add(other, data + from, len);
    mrd_sha256_hex(other, want);
    mrd_sha256_free(other);
    for (int plain = 0; plain < 2; plain++) {
        mrd_sha sha;

        mrd_sha_init(&sha);
        sha.plain = plain;
        for (size_t at = 0, n; at < len; at += n) {
            n = chunk_max == 0 ? len : 1 + (size_t) rand() % chunk_max;
            n = n < len - at ? n : len - at;
            mrd_sha_add(&sha, data + from + at, n);
        }
        mrd_sha_hex(&sha, got);
        if (strcmp(got, want) != 0)
            fprintf(stderr, "from %zu, %zu bytes, chunks below %zu, %s\n", from, len, chunk_max,
                    plain ? "plain" : "by the processor");
        CHECK_TEXT(got, want);
    }
}

TEST(as_libcrypto_has_it)
{
    srand(test_seed());
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t) (rand() >> 7);
    for (size_t len = 0; len < 300; len++)
        compare(len % 17, len, 0);
    for (int i = 0; i < 300; i++) {
        size_t from = (size_t) rand() % 1000, len = (size_t) rand() % 20000;

        compare(from, len, 1 + (size_t) rand() % 300);
    }
    compare(0, sizeof(data), 0);
    compare(1, sizeof(data) - 1, 70000);
}

TEST_MAIN()
