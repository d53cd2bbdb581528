/*
 * proto/codec_int.h - inside of proto/codec.h, for encoder and decoder.
 */
#ifndef MRD_PROTO_CODEC_INT_H
#define MRD_PROTO_CODEC_INT_H

#include "proto/codec.h"
#include "proto/columns.h"

#define CODEC_SLACK 16

/* What the encoder sorts: time relative to the first event, and which row. */
typedef struct {
    uint64_t key;
    uint32_t row;
} mrd_codec_slot;

/* How a chunk of the columns is packed: with a search for repetitions, with hardly one, with none
 * (numbers that only have an uneven distribution), not at all. */
typedef enum { MRD_PACK_SEARCH, MRD_PACK_SKIM, MRD_PACK_CODES, MRD_PACK_STORE } mrd_pack_way;

/* What did well for a column of earlier batches: for `left` more it is used without a comparison.
 */
typedef struct {
    uint8_t way, left, lasts;
} mrd_habit;

struct mrd_codec {
    void *zstd_c[MRD_PACK_STORE], *zstd_d; /* made when first needed */
    mrd_buf head, cols, packed;            /* scratch of one encode or decode */
    size_t ends[COLS];                     /* of the columns in cols */
    mrd_codec_slot *slots[2];
    uint32_t *offsets; /* as many as slots */
    size_t slots_cap;
};

/* Appends src compressed, or as it is when that is not longer. Errors: NOMEM. */
mrd_err mrd_codec_pack(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, mrd_buf *to);
/* The same for columns, src[ends[i - 1]..ends[i]) each: Zstandard gets those that are long enough
 * in frames of their own, for each its habits[i], and neighbours that are not in one together. */
mrd_err mrd_codec_pack_columns(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, const size_t *ends,
                               mrd_habit *habits, size_t n, mrd_buf *to);
/* *ret_data: src itself when it was not compressed, else `to`, which then holds raw_len bytes and
 * has CODEC_SLACK readable ones behind them. Errors: CORRUPT, NOMEM. raw_len was checked against
 * MRD_FRAME_RAW_MAX. */
mrd_err mrd_codec_unpack(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, size_t raw_len,
                         mrd_buf *to, mrd_bytes *ret_data, mrd_why *why);
/* Room for n slots in both arrays and n offsets; false without memory. */
bool mrd_codec_slots(mrd_codec *codec, size_t n);

#endif
