/* Fuzzes the decoder of batches. The checksums are right, because an attacker can compute them,
 * too. */
#include <stdlib.h>

#include "base/obj.h"
#include "proto/batch/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_codec *codec = mrd_codec_new();
    mrd_batch_reader *r = mrd_batch_reader_new(codec);
    uint8_t header[MRD_FRAME_HEADER];
    mrd_batch_info info;
    const mrd_event *ev;
    mrd_frame f, raw = { 0 };
    uint32_t n = 0;

    (void) mrd_frame_get((mrd_bytes){ data, size }, &f, NULL);
    if (size > MRD_FRAME_HEADER) {
        mrd_bytes body = { data + MRD_FRAME_HEADER, size - MRD_FRAME_HEADER };

        /* The lengths in the header are random, and its checksum is corrected. */
        raw.type = MRD_FRAME_BATCH;
        raw.codec = data[6] % (MRD_CODEC_ZSTD + 1);
        raw.clock = data[7];
        memcpy(&raw.head_len, data + 12, 4);
        memcpy(&raw.head_raw, data + 16, 4);
        memcpy(&raw.cols_raw, data + 20, 4);
        memcpy(&raw.events, data + 24, 4);
        memcpy(&raw.process_id, data + 64, 8);
        memcpy(&raw.first, data + 72, 8);
        memcpy(&raw.last, data + 80, 8);
        mrd_frame_put(&raw, body, header);
        if (mrd_frame_get((mrd_bytes){ header, sizeof(header) }, &f, NULL) == MRD_OK &&
            mrd_batch_open(r, &f, body, cat, &info, NULL) == MRD_OK) {
            while (mrd_batch_next(r, &ev, NULL) == MRD_MORE) {
                MRD_ASSERT(ev->kind >= MRD_SPAN && ev->kind <= MRD_LOSS);
                for (uint32_t i = 0; i < ev->arg_count; i++)
                    MRD_ASSERT(ev->args[i].key < mrd_strtab_count(mrd_catalog_strings(cat)));
                n++;
            }
            MRD_ASSERT(n <= f.events);
        }
    }
    mrd_batch_reader_free(r);
    mrd_codec_free(codec);
    mrd_catalog_free(cat);
    return 0;
}
