/*
 * base/hash.h - SHA-256 of artifacts, CRC-32 of frames, and the 64-bit hash of hash tables.
 * SHA-256 and HMAC come from libcrypto. Threads: a mrd_sha256 belongs to one.
 */
#ifndef MRD_BASE_HASH_H
#define MRD_BASE_HASH_H

#include "base/buf.h"

#define MRD_SHA256_HEX 65

typedef struct mrd_sha256 mrd_sha256;

mrd_sha256 *mrd_sha256_new(void); /* NULL without memory */
void mrd_sha256_add(mrd_sha256 *sha, const void *data, size_t len);
void mrd_sha256_hex(mrd_sha256 *sha, char hex[MRD_SHA256_HEX]); /* ends the computation */
void mrd_sha256_free(mrd_sha256 *sha);
/* Of a whole file, in 1 MiB chunks; *ret_size may be NULL. */
mrd_err mrd_sha256_file(const char *path, char hex[MRD_SHA256_HEX], uint64_t *ret_size,
                        mrd_why *why);

#define MRD_MD5_TEXT 25

/* MD5, which S3 wants of bodies; against accidents only. */
typedef struct mrd_md5 mrd_md5;

mrd_md5 *mrd_md5_new(void); /* NULL without memory, and where the system allows no MD5 (FIPS) */
void mrd_md5_add(mrd_md5 *md5, const void *data, size_t len);
void mrd_md5_base64(mrd_md5 *md5, char text[MRD_MD5_TEXT]); /* ends the computation */
void mrd_md5_free(mrd_md5 *md5);

/* The first 8 bytes (little-endian) of HMAC-SHA-256; a key has at most 64 bytes. */
uint64_t mrd_hmac64(mrd_bytes key, mrd_bytes data);
/* CRC-32 (zlib's) and CRC-32C (Castagnoli), by the processor's own instructions where there are any;
 * _soft never uses them. start 0; chain by passing on. */
uint32_t mrd_crc32(uint32_t start, const void *data, size_t len);
uint32_t mrd_crc32_soft(uint32_t start, const void *data, size_t len);
uint32_t mrd_crc32c(uint32_t start, const void *data, size_t len);
uint32_t mrd_crc32c_soft(uint32_t start, const void *data, size_t len);
/* Not for adversaries who know the seed; tables seed it from the system. */
uint64_t mrd_hash64(const void *data, size_t len, uint64_t seed);
/* Random, the same for the whole process: for tables whose keys come from outside. Any thread. */
uint64_t mrd_hash_seed(void);
/* Random bytes from the system. */
void mrd_random(void *to, size_t len);

#endif
