/* The events of a row of frames as one source. */
#include <stdlib.h>

#include "proto/batch.h"

typedef struct {
    mrd_source source;
    mrd_catalog *cat;
    mrd_codec *codec;
    mrd_batch_reader *reader;
    mrd_step (*fetch)(void *self, mrd_bytes *ret_frame, mrd_why *why);
    void (*self_free)(void *self);
    void *self;
    bool open;
} batch_source;

static mrd_step
source_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    batch_source *s = (batch_source *) self;
    mrd_batch_info info;
    mrd_bytes data, body;
    mrd_frame frame;
    mrd_step step;

    for (;;) {
        if (s->open) {
            step = mrd_batch_next(s->reader, ret_event, why);
            if (step != MRD_END)
                return step;
            s->open = false;
        }
        step = s->fetch(s->self, &data, why);
        if (step != MRD_MORE)
            return step;
        if (mrd_frame_check(data, &frame, &body, why) != MRD_OK ||
            mrd_batch_open(s->reader, &frame, body, s->cat, &info, why) != MRD_OK)
            return MRD_BAD;
        s->open = true;
    }
}

static void
source_close(mrd_source *self)
{
    batch_source *s = (batch_source *) self;

    mrd_batch_reader_free(s->reader);
    mrd_codec_free(s->codec);
    if (s->self_free != NULL)
        s->self_free(s->self);
    free(s);
}

mrd_err
mrd_batch_source(mrd_catalog *cat,
                 mrd_step (*fetch)(void *self, mrd_bytes *ret_frame, mrd_why *why),
                 void (*self_free)(void *self), void *self, mrd_source **ret_source, mrd_why *why)
{
    batch_source *s = calloc(1, sizeof(*s));

    if (s == NULL || (s->codec = mrd_codec_new()) == NULL ||
        (s->reader = mrd_batch_reader_new(s->codec)) == NULL) {
        if (s != NULL)
            mrd_codec_free(s->codec);
        free(s);
        return mrd_why_set(why, MRD_NOMEM, 0, "batch source");
    }
    s->source = (mrd_source){ .next = source_next, .close = source_close };
    s->cat = cat;
    s->fetch = fetch;
    s->self_free = self_free;
    s->self = self;
    *ret_source = &s->source;
    return MRD_OK;
}
