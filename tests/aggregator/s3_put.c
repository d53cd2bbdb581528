/* s3_put BUCKET KEY FILE...: puts files as KEY/<n> with mrd_s3_put and prints the number of bytes
 * sent, one per line. Used by tests/aggregator/s3_test.py. The environment has the address, the
 * credentials, and S3_PUT_TIMEOUT_MS, the timeout of a request. If S3_PUT_WITHOUT is set, the
 * allocation with this number fails, and the last line is the number of allocations. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "aggregator/export/s3.h"
#include "tests/memory.h"

int
main(int argc, char **argv)
{
    mrd_s3_options o = { .bucket = argc > 3 ? argv[1] : "" };
    const char *timeout = getenv("S3_PUT_TIMEOUT_MS"), *without = getenv("S3_PUT_WITHOUT");
    mrd_why why = { 0 };
    mrd_s3 *s3 = NULL;
    mrd_err err;

    if (argc < 4)
        return 2;
    o.timeout = timeout == NULL ? 0 : strtol(timeout, NULL, 10) * MRD_MS;
    memory_fails_at = without == NULL ? 0 : strtoull(without, NULL, 10);
    err = mrd_s3_open(&o, &s3, &why);
    for (int i = 3; i < argc && err == MRD_OK; i++) {
        uint64_t sent;
        char key[256];

        snprintf(key, sizeof(key), "%s/%d", argv[2], i - 3);
        if ((err = mrd_s3_put(s3, key, argv[i], &sent, &why)) == MRD_OK)
            printf("%" PRIu64 "\n", sent);
    }
    mrd_s3_close(s3);
    if (without != NULL)
        printf("%" PRIu64 "\n", (uint64_t) memory_asked);
    if (err != MRD_OK)
        fprintf(stderr, "%s: %s\n", mrd_err_name(err), why.text);
    return err == MRD_OK ? 0 : 1;
}
