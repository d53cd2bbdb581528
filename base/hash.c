#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/obj.h"

struct mrd_sha256 {
    EVP_MD_CTX *ctx;
};

mrd_sha256 *
mrd_sha256_new(void)
{
    mrd_sha256 *sha = calloc(1, sizeof(*sha));

    if (sha == NULL)
        return NULL;
    sha->ctx = EVP_MD_CTX_new();
    if (sha->ctx == NULL || EVP_DigestInit_ex(sha->ctx, EVP_sha256(), NULL) != 1) {
        mrd_sha256_free(sha);
        return NULL;
    }
    return sha;
}

void
mrd_sha256_add(mrd_sha256 *sha, const void *data, size_t len)
{
    MRD_ASSERT(EVP_DigestUpdate(sha->ctx, data, len) == 1);
}

void
mrd_sha256_hex(mrd_sha256 *sha, char hex[MRD_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int len = 0;

    MRD_ASSERT(EVP_DigestFinal_ex(sha->ctx, sum, &len) == 1 && len == 32);
    for (unsigned i = 0; i < len; i++) {
        hex[2 * i] = digits[sum[i] >> 4];
        hex[2 * i + 1] = digits[sum[i] & 15];
    }
    hex[64] = '\0';
}

void
mrd_sha256_free(mrd_sha256 *sha)
{
    if (sha == NULL)
        return;
    EVP_MD_CTX_free(sha->ctx);
    free(sha);
}

struct mrd_md5 {
    EVP_MD_CTX *ctx;
};

mrd_md5 *
mrd_md5_new(void)
{
    mrd_md5 *md5 = calloc(1, sizeof(*md5));

    if (md5 == NULL)
        return NULL;
    md5->ctx = EVP_MD_CTX_new();
    if (md5->ctx == NULL || EVP_DigestInit_ex(md5->ctx, EVP_md5(), NULL) != 1) {
        mrd_md5_free(md5);
        return NULL;
    }
    return md5;
}

void
mrd_md5_add(mrd_md5 *md5, const void *data, size_t len)
{
    MRD_ASSERT(EVP_DigestUpdate(md5->ctx, data, len) == 1);
}

void
mrd_md5_base64(mrd_md5 *md5, char text[MRD_MD5_TEXT])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int len = 0;

    MRD_ASSERT(EVP_DigestFinal_ex(md5->ctx, sum, &len) == 1 && len == 16);
    MRD_ASSERT(EVP_EncodeBlock((unsigned char *) text, sum, (int) len) == MRD_MD5_TEXT - 1);
}

void
mrd_md5_free(mrd_md5 *md5)
{
    if (md5 == NULL)
        return;
    EVP_MD_CTX_free(md5->ctx);
    free(md5);
}

mrd_err
mrd_sha256_file(const char *path, char hex[MRD_SHA256_HEX], uint64_t *ret_size, mrd_why *why)
{
    enum { CHUNK = 1 << 20 };
    uint8_t *chunk = malloc(CHUNK);
    mrd_sha256 *sha = mrd_sha256_new();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t size = 0;
    mrd_err err = MRD_OK;

    if (fd < 0) {
        err = mrd_why_set(why, errno == ENOENT ? MRD_NOTFOUND : MRD_IO, errno, "%s", path);
        goto out;
    }
    if (chunk == NULL || sha == NULL) {
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
        goto out;
    }
    for (;;) {
        ssize_t n = read(fd, chunk, CHUNK);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err = mrd_why_set(why, MRD_IO, errno, "%s", path);
            goto out;
        }
        if (n == 0)
            break;
        mrd_sha256_add(sha, chunk, (size_t) n);
        size += (uint64_t) n;
    }
    mrd_sha256_hex(sha, hex);
    if (ret_size != NULL)
        *ret_size = size;
out:
    if (fd >= 0)
        close(fd);
    mrd_sha256_free(sha);
    free(chunk);
    return err;
}

#define HMAC_BLOCK 64

/* libcrypto's SHA-256. It is looked up once, because a look-up takes longer than hashing a
 * packet. */
static EVP_MD *sha256;

static void
sha256_find(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    MRD_ASSERT(sha256 != NULL);
}

/* Computes one of the two nested hashes of HMAC (RFC 2104): over the key, xor-ed with `pad`, and
 * the data. */
static void
hmac_half(EVP_MD_CTX *ctx, const uint8_t key[HMAC_BLOCK], uint8_t pad, mrd_bytes data,
          uint8_t sum[EVP_MAX_MD_SIZE])
{
    uint8_t block[HMAC_BLOCK];

    for (size_t i = 0; i < HMAC_BLOCK; i++)
        block[i] = key[i] ^ pad;
    MRD_ASSERT(EVP_DigestInit_ex(ctx, sha256, NULL) == 1 &&
               EVP_DigestUpdate(ctx, block, sizeof(block)) == 1 &&
               EVP_DigestUpdate(ctx, data.p, data.len) == 1 &&
               EVP_DigestFinal_ex(ctx, sum, NULL) == 1);
}

uint64_t
mrd_hmac64(mrd_bytes key, mrd_bytes data)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint8_t padded[HMAC_BLOCK] = { 0 }, sum[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint64_t v;

    pthread_once(&once, sha256_find);
    MRD_ASSERT(ctx != NULL && key.len <= HMAC_BLOCK);
    if (key.len > 0)
        memcpy(padded, key.p, key.len);
    hmac_half(ctx, padded, 0x36, data, sum);
    hmac_half(ctx, padded, 0x5c, (mrd_bytes){ sum, 32 }, sum);
    EVP_MD_CTX_free(ctx);
    memcpy(&v, sum, sizeof(v));
    return v;
}

static uint64_t
hash_mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t) a * b;

    return (uint64_t) product ^ (uint64_t) (product >> 64);
}

uint64_t
mrd_hash64(const void *data, size_t len, uint64_t seed)
{
    const uint8_t *bytes = data;
    uint64_t h = seed ^ 0x9e3779b97f4a7c15u, a, b;
    size_t left = len;

    for (; left >= 16; left -= 16, bytes += 16) {
        memcpy(&a, bytes, 8);
        memcpy(&b, bytes + 8, 8);
        h = hash_mix(a ^ 0xa0761d6478bd642fu, b ^ h);
    }
    a = b = 0;
    if (left >= 8) {
        memcpy(&a, bytes, 8);
        memcpy(&b, bytes + left - 8, 8);
    } else if (left > 0) {
        memcpy(&a, bytes, left);
    }
    return hash_mix(hash_mix(a ^ 0xe7037ed1a0b428dbu, b ^ h), len ^ 0x8ebc6af09c88c6e3u);
}

uint64_t
mrd_hash_seed(void)
{
    /* relaxed order is enough, because no other memory depends on the seed */
    static _Atomic uint64_t chosen;
    uint64_t seed = atomic_load_explicit(&chosen, memory_order_relaxed), none = 0;

    if (seed == 0) {
        mrd_random(&seed, sizeof(seed));
        seed |= 1;
        if (!atomic_compare_exchange_strong_explicit(&chosen, &none, seed, memory_order_relaxed,
                                                     memory_order_relaxed))
            seed = none; /* another thread has chosen the seed first */
    }
    return seed;
}

void
mrd_random(void *to, size_t len)
{
    uint8_t *p = to;

    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);

        MRD_ASSERT(n > 0 || errno == EINTR);
        if (n > 0) {
            p += n;
            len -= (size_t) n;
        }
    }
}
