#include "tests/fuzz/import.h"
#include "tests/trace/nrt_ways.h"

/* As any importer; and what the fast way through its events gives is what the reader gives. The
 * last byte chooses how much arrives at once. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + MRD_IN_PAD);
    uint64_t read;

    MRD_ASSERT(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    MRD_ASSERT(!ways_differ((mrd_str){ text, size },
                            size > 0 && data[size - 1] < 32 ? data[size - 1] + 1u : 0, &read));
    free(text);
    return fuzz_import(&mrd_import_nrt, data, size);
}
