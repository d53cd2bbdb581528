/* Fuzzes the JSON reader. It must return the same values and the same result for any size of its
 * window. */
#include <stdlib.h>

#include "base/hash.h"
#include "base/obj.h"
#include "trace/json/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    mrd_err err;
    uint64_t hash, offset;
} outcome;

static outcome
scan(const uint8_t *data, size_t size, size_t chunk, bool enter)
{
    outcome o = { 0 };
    mrd_json_reader *r = NULL;
    mrd_in *in = NULL;
    mrd_jr_type type;
    mrd_str key, text;

    if (mrd_in_memory((mrd_bytes){ data, size }, "fuzz", &in, NULL) != MRD_OK)
        return o;
    if (chunk > 0)
        mrd_in_set_chunk(in, chunk);
    MRD_ASSERT(mrd_json_reader_open(in, &r, NULL) == MRD_OK);
    mrd_json_many(r);
    /* Leaving the last container and the end of the input both give END at the top level: stop at
     * the second. */
    for (bool on_top = false; (type = mrd_json_next(r, &key, &text)) != MRD_JR_ERROR;) {
        bool again = on_top;

        on_top = type == MRD_JR_END && mrd_json_depth(r) == 0;
        if (on_top && again)
            break;
        o.hash = mrd_hash64(key.p, key.len, o.hash + type);
        o.hash = mrd_hash64(text.p, text.len, o.hash);
        if (enter)
            mrd_json_enter(r);
        else if (type == MRD_JR_OBJECT || type == MRD_JR_ARRAY) {
            if (mrd_json_raw(r, 64, &text) == MRD_OK)
                o.hash = mrd_hash64(text.p, text.len, o.hash);
        }
    }
    o.err = mrd_json_reader_err(r, NULL);
    o.offset = mrd_json_reader_offset(r);
    mrd_json_reader_close(r);
    mrd_in_close(in);
    return o;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    outcome whole = scan(data, size, 0, true), chunks = scan(data, size, 3, true);
    outcome raw = scan(data, size, 0, false), raw_chunks = scan(data, size, 5, false);

    /* How much a damaged zstd or gzip stream gives before its error depends on the size of the
     * buffer. */
    if (size >= 2 && (memcmp(data, "\x1f\x8b", 2) == 0 || memcmp(data, "\x28\xb5", 2) == 0))
        return 0;
    MRD_ASSERT(whole.err == chunks.err && whole.hash == chunks.hash);
    MRD_ASSERT(whole.offset == chunks.offset);
    MRD_ASSERT(raw.err == raw_chunks.err && raw.hash == raw_chunks.hash);
    MRD_ASSERT(whole.err == raw.err && whole.offset == raw.offset);
    return 0;
}
