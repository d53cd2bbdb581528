/*
 * proto/codec.h - compression of the parts of a batch, and the scratch memory of encoder and
 * decoder. proto/codec.c is the only user of zstd and lz4; outside of proto/ one is made, handed on
 * and freed (proto/batch.h), its inside is in proto/codec_int.h.
 */
#ifndef MRD_PROTO_CODEC_H
#define MRD_PROTO_CODEC_H

#include "proto/frame.h"

/* Compression contexts and scratch memory, reused. One per thread. */
typedef struct mrd_codec mrd_codec;

mrd_codec *mrd_codec_new(void); /* NULL without memory */
void mrd_codec_free(mrd_codec *codec);

#endif
