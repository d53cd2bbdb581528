/*
 * aggregator/encode.h - content encodings of HTTP replies, made while the bytes go out.
 */
#ifndef MRD_AGGREGATOR_ENCODE_H
#define MRD_AGGREGATOR_ENCODE_H

#include "base/out.h"

typedef enum { MRD_ENCODE_NONE, MRD_ENCODE_GZIP, MRD_ENCODE_ZSTD } mrd_encoding;

/* The best encoding that an Accept-Encoding header allows (NULL: none); "q=0" forbids. */
mrd_encoding mrd_encode_choose(const char *accept);
const char *mrd_encode_name(mrd_encoding encoding); /* "gzip" */
/* Copies the rest of fd through the encoding, level 1. Errors: IO, NOMEM, and those of out. */
mrd_err mrd_encode_file(int fd, mrd_encoding encoding, mrd_out *out, mrd_why *why);

#endif
