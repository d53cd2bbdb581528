/*
 * base/hash.h - SHA-256 and MD5 of files, CRC-32 of frames, and the 64-bit hash of hash tables.
 * libcrypto implements SHA-256 and HMAC. Threads: an object belongs to one thread.
 */
#ifndef MRD_BASE_HASH_H
#define MRD_BASE_HASH_H

#include "base/buf.h"

#define MRD_SHA256_HEX 65

typedef struct mrd_sha256 mrd_sha256;

mrd_sha256 *mrd_sha256_new(void); /* Returns NULL if out of memory. */
void mrd_sha256_add(mrd_sha256 *sha, const void *data, size_t len);
/* Ends the computation and writes the hash as hexadecimal text. */
void mrd_sha256_hex(mrd_sha256 *sha, char hex[MRD_SHA256_HEX]);
void mrd_sha256_free(mrd_sha256 *sha);
/* Hashes a whole file in chunks of 1 MiB. ret_size may be NULL. */
mrd_err mrd_sha256_file(const char *path, char hex[MRD_SHA256_HEX], uint64_t *ret_size,
                        mrd_why *why);

#define MRD_MD5_TEXT 25

/* MD5 for the bodies of S3 requests. It is used only to detect accidental changes. */
typedef struct mrd_md5 mrd_md5;

mrd_md5 *mrd_md5_new(void); /* Returns NULL if out of memory or if FIPS mode forbids MD5. */
void mrd_md5_add(mrd_md5 *md5, const void *data, size_t len);
/* Ends the computation and writes the hash as Base64 text. */
void mrd_md5_base64(mrd_md5 *md5, char text[MRD_MD5_TEXT]);
void mrd_md5_free(mrd_md5 *md5);

/* Returns the first 8 bytes of the HMAC-SHA-256 as a little-endian number. A key has at most 64
 * bytes. */
uint64_t mrd_hmac64(mrd_bytes key, mrd_bytes data);
/* Return the CRC-32 (as in zlib) and the CRC-32C (Castagnoli). They use special instructions if the
 * processor has them; the _soft functions never do. `start` is 0, or the result for the preceding
 * bytes. */
uint32_t mrd_crc32(uint32_t start, const void *data, size_t len);
uint32_t mrd_crc32_soft(uint32_t start, const void *data, size_t len);
uint32_t mrd_crc32c(uint32_t start, const void *data, size_t len);
uint32_t mrd_crc32c_soft(uint32_t start, const void *data, size_t len);
/* Returns a 64-bit hash. An attacker with the seed can construct collisions, so hash tables take
 * their seed from mrd_hash_seed. */
uint64_t mrd_hash64(const void *data, size_t len, uint64_t seed);
/* Returns a random seed for tables with keys from outside. The seed is the same for the whole
 * process. Any thread may call this. */
uint64_t mrd_hash_seed(void);
/* Fills memory with random bytes from the kernel. */
void mrd_random(void *to, size_t len);

#endif
