/* Fuzzes the spool. The input is the only segment of a spool directory. The spool is opened, every
 * item is read, one is added, and the spool is opened again. Committed frames must still be
 * present. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/spool/spool.h"
#include "base/sys/out.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
dropped(void *self, const mrd_spool_item *item)
{
    (void) self;
    (void) item;
}

static mrd_err
add_one(mrd_spool *s)
{
    uint8_t frame[MRD_FRAME_HEADER + 8] = { 0 };
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA,
                    .epoch = mrd_spool_epoch(s),
                    .session = 7,
                    .seq = mrd_spool_next_seq(s, 7) };
    mrd_err err;

    mrd_frame_put(&f, (mrd_bytes){ frame + MRD_FRAME_HEADER, 8 }, frame);
    err = mrd_spool_add(s, (mrd_bytes){ frame, sizeof(frame) }, 0, NULL);
    return err != MRD_OK ? err : mrd_spool_commit(s, NULL, 0, NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/mrd-fuzz-XXXXXX", path[96];
    mrd_buf frame = { 0 };
    mrd_spool *s = NULL;
    mrd_spool_stats before, after;
    FILE *f;

    if (mkdtemp(dir) == NULL)
        abort();
    snprintf(path, sizeof(path), "%s/spool-0000000000000001.mrs", dir);
    if ((f = fopen(path, "wb")) == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    if (mrd_spool_open(&(mrd_spool_options){ .dir = dir,
                                             .max_bytes = MRD_SPOOL_MIN_BYTES,
                                             .dropped = dropped },
                       &s, NULL) == MRD_OK) {
        mrd_spool_item item;

        for (uint64_t id = 0; mrd_spool_peek(s, id, &item); id = item.id + 1)
            (void) mrd_spool_read(s, item.id, &frame, NULL);
        if (add_one(s) == MRD_OK) {
            mrd_spool_get_stats(s, &before);
            mrd_spool_close(s);
            s = NULL;
            if (mrd_spool_open(&(mrd_spool_options){ .dir = dir,
                                                     .max_bytes = MRD_SPOOL_MIN_BYTES,
                                                     .dropped = dropped },
                               &s, NULL) != MRD_OK)
                abort();
            mrd_spool_get_stats(s, &after);
            if (after.items != before.items || after.events != before.events)
                abort();
        }
    }
    mrd_spool_close(s);
    mrd_buf_fini(&frame);
    mrd_remove_tree(dir);
    return 0;
}
