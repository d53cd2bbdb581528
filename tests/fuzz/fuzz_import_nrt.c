#include "tests/fuzz/import.h"
#include "tests/trace/nrt_ways.h"

/* Fuzzes the reader of the runtime's trace like any importer. Also compares the events of its fast
 * path with the events of its general JSON reader. The last byte selects the size of the reads. */
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
