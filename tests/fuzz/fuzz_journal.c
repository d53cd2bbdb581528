/* A journal folder with one segment of these bytes: listed, and every frame that is listed is read.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "aggregator/journal.h"
#include "base/obj.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char dir[64], path[96];
    mrd_journal_index x;
    mrd_buf buf = { 0 };
    FILE *f;

    if (dir[0] == '\0') {
        snprintf(dir, sizeof(dir), "/tmp/mrd-fuzz-XXXXXX");
        if (mkdtemp(dir) == NULL)
            abort();
        snprintf(path, sizeof(path), "%s/000001.mrj", dir);
    }
    if ((f = fopen(path, "wb")) == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    if (mrd_journal_scan(dir, &x, NULL) == MRD_OK) {
        for (size_t i = 0; i < x.n; i++) {
            mrd_frame frame;
            mrd_bytes body;

            (void) mrd_journal_read(&x, &x.entries[i], i % 2 == 1, &buf, &frame, &body, NULL);
        }
        mrd_journal_index_fini(&x);
    }
    mrd_buf_fini(&buf);
    unlink(path);
    rmdir(dir);
    dir[0] = '\0';
    return 0;
}
