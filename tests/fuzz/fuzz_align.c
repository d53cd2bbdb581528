/* Fuzzes the decoder of alignment files. It either decodes a table or refuses it. A decoded table
 * maps times and can be encoded again. */
#include "timesync/align.h"

#include "base/hash.h"
#include "base/obj.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
use(const mrd_align *align)
{
    static const int64_t times[] = { INT64_MIN, -1, 0, 250000000, 1000000000000LL, INT64_MAX };
    mrd_align_cursor cursor = { 0, 0 };
    mrd_sess_ns last = { INT64_MIN };
    mrd_align_summary summary;
    mrd_local_ns back;
    mrd_buf again = { 0 };

    for (size_t i = 0; i < MRD_COUNT(times); i++) {
        mrd_align_bound b;
        mrd_sess_ns s;

        if (!mrd_align_map(align, &cursor, (mrd_local_ns){ times[i] }, &s, &b))
            break;
        if (s.ns < last.ns || b.lo.ns > s.ns || b.hi.ns < s.ns)
            abort();
        last = s;
    }
    (void) mrd_align_unmap(align, last, &back);
    for (size_t i = 0; i < mrd_align_segment_count(align); i++)
        (void) mrd_align_summarise(align, i, &summary);
    if (mrd_align_encode(align, &again) != MRD_OK)
        abort();
    mrd_buf_fini(&again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    mrd_align *align = NULL;

    memcpy(copy, data, size);
    if (size > 24) { /* a right length and checksum, so that the payload is decoded */
        uint32_t crc = mrd_crc32(0, copy + 24, size - 24);

        for (size_t i = 0; i < 4; i++)
            copy[12 + i] = (uint8_t) (crc >> (8 * i));
        for (size_t i = 0; i < 8; i++)
            copy[16 + i] = (uint8_t) ((uint64_t) (size - 24) >> (8 * i));
    }
    if (mrd_align_decode((mrd_bytes){ copy, size }, &align, NULL) == MRD_OK)
        use(align);
    mrd_align_free(align);
    free(copy);
    return 0;
}
