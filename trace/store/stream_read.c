/* Reads a stream: merges its sorted runs into one source, and changes times if requested. */
#include <stdlib.h>

#include "trace/store/merge.h"
#include "trace/store/stream_int.h"

/* STREAM_READ_ALL is the total size of a stream's read buffers, in bytes. The other two are the
 * limits for the buffer of one chain. */
enum { STREAM_READ_ALL = 1 << 20, STREAM_READ_ONE_MIN = 4 << 10, STREAM_READ_ONE_MAX = 128 << 10 };

typedef struct {
    mrd_source base;
    mrd_source *merged;
    bool bad;
    mrd_why why;
} stream_reader;

static void
reader_bad(void *self, uint64_t key, const mrd_why *why)
{
    stream_reader *reader = self;

    (void) key;
    reader->bad = true;
    reader->why = *why;
}

static mrd_step
reader_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    stream_reader *reader = (stream_reader *) (void *) self;
    mrd_step step = reader->bad ? MRD_BAD : reader->merged->next(reader->merged, ret_event, why);

    if (!reader->bad)
        return step;
    if (why != NULL)
        *why = reader->why;
    return MRD_BAD;
}

static void
reader_close(mrd_source *self)
{
    stream_reader *reader = (stream_reader *) (void *) self;

    if (reader->merged != NULL)
        reader->merged->close(reader->merged);
    free(reader);
}

/* Merges all cursors, which it owns. If one of them fails, the whole source fails. Otherwise events
 * would be missing unnoticed. */
static mrd_err
reader_open(mrd_source **cursors, size_t n, mrd_source **ret_source, mrd_why *why)
{
    stream_reader *reader;
    mrd_err err;

    if (n == 1) {
        *ret_source = cursors[0];
        return MRD_OK;
    }
    if ((reader = calloc(1, sizeof(*reader))) == NULL) {
        for (size_t i = 0; i < n; i++)
            cursors[i]->close(cursors[i]);
        return mrd_why_set(why, MRD_NOMEM, 0, "a reader");
    }
    reader->base = (mrd_source){ .next = reader_next, .close = reader_close };
    if ((err = mrd_merge_open(cursors, n, reader_bad, reader, &reader->merged, why)) != MRD_OK) {
        free(reader);
        return err;
    }
    *ret_source = &reader->base;
    return MRD_OK;
}

/* Opens a source over the first n chains and, if `memory` is true, the records in memory. */
mrd_err
mrd_stream_open_part(mrd_stream *stream, size_t n, bool memory, mrd_source **ret_source,
                     mrd_why *why)
{
    mrd_source **cursors = malloc((n + 1) * sizeof(*cursors));
    size_t opened = 0, buffer = STREAM_READ_ALL / (n == 0 ? 1 : n);
    mrd_err err = cursors != NULL ? MRD_OK : mrd_why_set(why, MRD_NOMEM, 0, "a reader");

    buffer = buffer < STREAM_READ_ONE_MIN ? STREAM_READ_ONE_MIN : buffer;
    buffer = buffer > STREAM_READ_ONE_MAX ? STREAM_READ_ONE_MAX : buffer;
    for (; err == MRD_OK && opened < n; opened += err == MRD_OK)
        err = mrd_cursor_file(stream->store->fd, stream->label, &stream->chains[opened], buffer,
                              &cursors[opened], why);
    if (err == MRD_OK && memory &&
        (err = mrd_cursor_memory(stream, &cursors[opened], why)) == MRD_OK)
        opened++;
    if (err == MRD_OK) {
        err = reader_open(cursors, opened, ret_source, why);
        opened = 0;
    }
    while (opened > 0) {
        opened--;
        cursors[opened]->close(cursors[opened]);
    }
    free(cursors);
    return err;
}

mrd_err
mrd_stream_open_raw(mrd_stream *stream, mrd_source **ret_source, mrd_why *why)
{
    return mrd_stream_open_part(stream, stream->n_chains,
                                stream->in_memory > 0 || stream->n_chains == 0, ret_source, why);
}

/* A source that returns copies of a stream's events with changed times and flags. */
typedef struct {
    mrd_source base;
    mrd_source *inner;
    const mrd_stream *stream;
    mrd_event ev;
} stream_shifter;

static bool
is_mistimed(const mrd_stream *stream, const mrd_event *ev)
{
    mrd_ev_ns end = mrd_event_end(ev);

    return mrd_ev_before(ev->ts, stream->earliest) || mrd_ev_after(ev->ts, stream->latest) ||
           (end.ns != INT64_MAX && mrd_ev_after(end, stream->latest));
}

static mrd_step
shifter_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    stream_shifter *sh = (stream_shifter *) self;
    const mrd_event *ev;
    mrd_step step = sh->inner->next(sh->inner, &ev, why);

    if (step != MRD_MORE)
        return step;
    sh->ev = *ev;
    sh->ev.ts = mrd_time_shifted(ev->ts, sh->stream->shift_ns);
    if (sh->stream->has_mistimed && is_mistimed(sh->stream, ev))
        sh->ev.flags |= MRD_EV_MISTIMED;
    *ret_event = &sh->ev;
    return MRD_MORE;
}

static void
shifter_close(mrd_source *self)
{
    stream_shifter *sh = (stream_shifter *) self;

    sh->inner->close(sh->inner);
    free(sh);
}

/* Opens a source with changed times and flags. Owns `inner`, also on failure. */
static mrd_err
shifter_open(mrd_source *inner, const mrd_stream *stream, mrd_source **ret_source, mrd_why *why)
{
    stream_shifter *sh = calloc(1, sizeof(*sh));

    if (sh == NULL) {
        inner->close(inner);
        return mrd_why_set(why, MRD_NOMEM, 0, "a reader");
    }
    *sh = (stream_shifter){
        .base = { .next = shifter_next, .close = shifter_close, .key = inner->key },
        .inner = inner,
        .stream = stream
    };
    *ret_source = &sh->base;
    return MRD_OK;
}

mrd_err
mrd_stream_open(mrd_stream *stream, mrd_source **ret_source, mrd_why *why)
{
    mrd_source *raw;
    mrd_err err;

    if (!stream->finished)
        return mrd_why_set(why, MRD_STATE, 0, "%s is not finished", stream->label);
    if (stream->err != MRD_OK) {
        if (why != NULL)
            *why = stream->why;
        return stream->err;
    }
    if ((err = mrd_stream_open_raw(stream, &raw, why)) != MRD_OK)
        return err;
    if (stream->bound != NULL && (err = mrd_stream_open_bound(stream, raw, &raw, why)) != MRD_OK)
        return err;
    if (stream->has_starts && stream->store->fans.more.used > 0 &&
        (err = mrd_stream_open_fans(stream, raw, &raw, why)) != MRD_OK)
        return err;
    if (stream->shift_ns != 0 || stream->has_mistimed)
        return shifter_open(raw, stream, ret_source, why);
    *ret_source = raw;
    return MRD_OK;
}
