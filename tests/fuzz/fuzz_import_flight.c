#include "tests/fuzz/import.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_import(&mrd_import_flight, data, size);
}
