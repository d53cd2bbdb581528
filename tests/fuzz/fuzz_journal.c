/* Fuzzes the reader of journals. The input becomes the segments of a journal directory, each from
 * one header's magic to the next. The directory is scanned, and every listed frame is read. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregator/journal/journal.h"
#include "base/obj.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SEGMENTS 4

/* Writes the next segment and returns its length. The last one gets the rest. */
static size_t
write_segment(const char *dir, unsigned number, const uint8_t *data, size_t size)
{
    const uint8_t *next =
        size < 8 || number == SEGMENTS ? NULL : memmem(data + 1, size - 1, "MRDJRNL1", 8);
    size_t len = next == NULL ? size : (size_t) (next - data);
    char path[96];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%06u.mrj", dir, number);
    if ((f = fopen(path, "wb")) == NULL || fwrite(data, 1, len, f) != len || fclose(f) != 0)
        abort();
    return len;
}

static void
read_all(const mrd_journal_index *x)
{
    mrd_buf buf = { 0 };

    for (size_t i = 0; i < x->n; i++) {
        mrd_frame frame;
        mrd_bytes body;

        (void) mrd_journal_read(x, &x->entries[i], i % 2 == 1, &buf, &frame, &body, NULL);
    }
    mrd_buf_fini(&buf);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[64] = "/tmp/mrd-fuzz-XXXXXX", path[96];
    mrd_journal_index x;
    unsigned n = 0;

    if (mkdtemp(dir) == NULL)
        abort();
    do {
        size_t len = write_segment(dir, ++n, data, size);

        data += len;
        size -= len;
    } while (size > 0);
    if (mrd_journal_scan(dir, &x, NULL) == MRD_OK) {
        read_all(&x);
        mrd_journal_index_fini(&x);
    }
    for (; n > 0; n--) {
        snprintf(path, sizeof(path), "%s/%06u.mrj", dir, n);
        unlink(path);
    }
    rmdir(dir);
    return 0;
}
