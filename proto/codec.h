/*
 * proto/codec.h - compression of the parts of a batch, and the scratch memory of encoder and
 * decoder. Inside proto/ only; proto/codec.c is the only user of zstd and lz4.
 */
#ifndef MRD_PROTO_CODEC_H
#define MRD_PROTO_CODEC_H

#include "proto/batch.h"

#define CODEC_SLACK 16

/* What the encoder sorts: time relative to the first event, and which row. */
typedef struct {
    uint64_t key;
    uint32_t row;
} mrd_codec_slot;

struct mrd_codec {
    void *zstd_c, *zstd_d; /* made when first needed */
    void *lz4;
    mrd_buf head, cols, packed; /* scratch of one encode or decode */
    mrd_codec_slot *slots[2];
    uint32_t *offsets; /* as many as slots */
    size_t slots_cap;
};

/* Appends src compressed, or as it is when that is not longer. Errors: NOMEM. */
mrd_err mrd_codec_pack(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, mrd_buf *to);
/* *ret_data: src itself when it was not compressed, else `to`, which then holds raw_len bytes and
 * has CODEC_SLACK readable ones behind them. Errors: CORRUPT, NOMEM. raw_len was checked against
 * MRD_FRAME_RAW_MAX. */
mrd_err mrd_codec_unpack(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, size_t raw_len,
                         mrd_buf *to, mrd_bytes *ret_data, mrd_why *why);
/* Room for n slots in both arrays and n offsets; false without memory. */
bool mrd_codec_slots(mrd_codec *codec, size_t n);

#endif
