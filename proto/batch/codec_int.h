/* proto/batch/codec_int.h - internals of proto/batch/codec.h, for the encoder and decoder. */
#ifndef MRD_PROTO_BATCH_CODEC_INT_H
#define MRD_PROTO_BATCH_CODEC_INT_H

#include "proto/batch/codec.h"
#include "proto/batch/columns.h"

#define CODEC_SLACK 16

/* A row to be sorted: `key` is its time in ns since the batch's first event, `row` its index. */
typedef struct {
    uint64_t key;
    uint32_t row;
} mrd_codec_slot;

/* How to compress a column: with a full search for repetitions, with a short search, with entropy
 * coding only (for numbers without repetitions), or not at all. */
typedef enum { MRD_PACK_SEARCH, MRD_PACK_SKIM, MRD_PACK_CODES, MRD_PACK_STORE } mrd_pack_way;

/* The way to compress one column that was best in earlier batches. The next `left` batches use it
 * without a comparison. `lasts` is the value from which `left` counts down. */
typedef struct {
    uint8_t way, left, lasts;
} mrd_habit;

struct mrd_codec {
    void *zstd_c[MRD_PACK_STORE], *zstd_d; /* zstd contexts, created when first needed */
    mrd_buf head, cols, packed;            /* scratch memory of one encode or decode */
    size_t ends[COLS];                     /* offset of each column's end in `cols` */
    mrd_codec_slot *slots[2];
    uint32_t
        *offsets; /* scratch memory; it has the same number of entries as each array of `slots` */
    size_t slots_cap;
};

/* Appends src compressed, or uncompressed if compression does not make it shorter. Errors:
 * NOMEM. */
mrd_err mrd_codec_pack(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, mrd_buf *to);
/* Appends n columns, where column i is src[ends[i - 1]..ends[i]). A long column becomes a Zstandard
 * frame of its own, which is compressed as habits[i] says. Neighbouring short columns share a
 * frame. */
mrd_err mrd_codec_pack_columns(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, const size_t *ends,
                               mrd_habit *habits, size_t n, mrd_buf *to);
/* Decompresses src. *ret_data is src itself if src was not compressed. Otherwise *ret_data is in
 * `to`, which then holds raw_len bytes followed by CODEC_SLACK readable bytes. The caller must have
 * checked raw_len against MRD_FRAME_RAW_MAX. Errors: CORRUPT, NOMEM. */
mrd_err mrd_codec_unpack(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, size_t raw_len,
                         mrd_buf *to, mrd_bytes *ret_data, mrd_why *why);
/* Ensures space for n entries in both arrays `slots` and in `offsets`. Returns false if out of
 * memory. */
bool mrd_codec_slots(mrd_codec *codec, size_t n);

#endif
