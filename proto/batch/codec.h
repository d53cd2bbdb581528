/*
 * proto/batch/codec.h - compression for batches, and scratch memory of the encoder and decoder.
 * proto/batch/codec.c is the only file that uses zstd. Code outside proto/ only creates a codec,
 * passes it to proto/batch/batch.h and frees it. proto/batch/codec_int.h has the internals.
 */
#ifndef MRD_PROTO_BATCH_CODEC_H
#define MRD_PROTO_BATCH_CODEC_H

#include "proto/frame.h"

/* Compression contexts and scratch memory, reused between batches. Each thread needs its own. */
typedef struct mrd_codec mrd_codec;

mrd_codec *mrd_codec_new(void); /* NULL if out of memory */
void mrd_codec_free(mrd_codec *codec);

#endif
