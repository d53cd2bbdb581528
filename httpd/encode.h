/* httpd/encode.h - compresses replies of the HTTP server while they are sent */
#ifndef MRD_HTTPD_ENCODE_H
#define MRD_HTTPD_ENCODE_H

#include "base/sys/out.h"

typedef enum { MRD_ENCODE_NONE, MRD_ENCODE_GZIP, MRD_ENCODE_ZSTD } mrd_encoding;

/* Returns the best encoding that an Accept-Encoding header allows. `accept` is NULL if the header
 * is missing. "q=0" forbids an encoding. */
mrd_encoding mrd_encode_choose(const char *accept);
/* name in the Content-Encoding header, such as "gzip" */
const char *mrd_encode_name(mrd_encoding encoding);
/*
 * A compressor at level 1, which writes to the borrowed `to`. mrd_encoder_push compresses more
 * bytes, and can be used as a mrd_out_func. mrd_encoder_end writes the remaining bytes. Errors:
 * NOMEM, IO and errors of `to`.
 */
typedef struct mrd_encoder mrd_encoder;
mrd_err mrd_encoder_open(mrd_encoding encoding, mrd_out *to, mrd_encoder **ret_encoder,
                         mrd_why *why);
bool mrd_encoder_push(void *encoder, const void *data, size_t len);
mrd_err mrd_encoder_end(mrd_encoder *encoder);
void mrd_encoder_free(mrd_encoder *encoder); /* ignores NULL */
/* Replaces the bytes in the buffer by compressed ones. Leaves the buffer unchanged on errors. */
mrd_err mrd_encode_buf(mrd_encoding encoding, mrd_buf *body);

#endif
