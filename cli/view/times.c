#include "cli/view/times.h"

#include <stdlib.h>

#include "base/obj.h"
#include "trace/sink/text.h"

/* Inputs with a longer gap between them probably belong to different runs. */
#define APART_NS (3600 * MRD_SEC)

typedef struct {
    const char *path;
    mrd_ev_ns first, last;
} input_range;

static int
range_order(const void *a, const void *b)
{
    const input_range *x = a, *y = b;

    return mrd_ev_before(x->first, y->first) ? -1 : mrd_ev_after(x->first, y->first);
}

/* Adds a note about the widest gap between inputs, if it is longer than APART_NS. */
static void
note_apart(mrd_catalog *cat, input_range *range, size_t n)
{
    uint64_t widest = APART_NS;
    size_t before = n, latest = 0;
    char text[MRD_DUR_TEXT];

    qsort(range, n, sizeof(*range), range_order);
    for (size_t i = 1; i < n; i++) {
        if (mrd_ev_after(range[i].first, range[latest].last) &&
            (uint64_t) range[i].first.ns - (uint64_t) range[latest].last.ns >= widest) {
            widest = (uint64_t) range[i].first.ns - (uint64_t) range[latest].last.ns;
            before = i;
        }
        latest = mrd_ev_after(range[i].last, range[latest].last) ? i : latest;
    }
    if (before < n)
        mrd_catalog_note(cat,
                         "'%s' begins %s after all inputs before it have ended: "
                         "they are not of one run, or one of them counts its time from another "
                         "start; give them separately, or align them (--align)",
                         range[before].path, mrd_text_long(widest, text));
}

mrd_err
mrd_note_times(mrd_catalog *cat, mrd_store *store, bool as_they_are, mrd_why *why)
{
    size_t streams = mrd_store_streams(store), count = 0;
    input_range *range = calloc(streams + 1, sizeof(*range));

    if (range == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "comparing the inputs' times");
    for (size_t i = 0; i < streams; i++) {
        const mrd_stream *stream = mrd_store_at(store, i);
        input_range *r = &range[count];

        if (mrd_stream_profile(stream) != 0 || !mrd_stream_range(stream, &r->first, &r->last))
            continue;
        r->path = mrd_stream_label(stream);
        if (r->first.ns < 0)
            mrd_catalog_note(cat,
                             "'%s' has times before zero: Perfetto refuses them, so all times of a "
                             ".pftrace are later by whole seconds (its attribute "
                             "meridian.time_shift_ns); other outputs keep them",
                             r->path);
        count++;
    }
    if (as_they_are)
        note_apart(cat, range, count);
    free(range);
    return MRD_OK;
}
