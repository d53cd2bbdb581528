/* Readers (cursors) of one sorted run, in memory or in the temporary file. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/vec.h"
#include "trace/store/stream_int.h"

typedef struct {
    mrd_source base;
    mrd_event ev;
    mrd_buf args;
    const mrd_block *block;
    size_t at;
    /* the records in sorted order; NULL if the blocks already have them in order */
    const mrd_rec *const *order;
    size_t i, n;
} memory_cursor;

static const mrd_rec *
memory_rec(memory_cursor *cursor)
{
    const mrd_rec *rec;

    if (cursor->order != NULL) {
        if (cursor->i + 1 < cursor->n)
            __builtin_prefetch(cursor->order[cursor->i + 1]);
        return cursor->order[cursor->i];
    }
    while (cursor->at == cursor->block->used) {
        cursor->block = cursor->block->next;
        cursor->at = 0;
    }
    rec = (const mrd_rec *) (const void *) (cursor->block->data + cursor->at);
    cursor->at += (size_t) rec->words * 8;
    __builtin_prefetch(cursor->block->data + cursor->at);
    return rec;
}

static mrd_step
memory_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    memory_cursor *cursor = (memory_cursor *) (void *) self;

    if (cursor->i == cursor->n)
        return MRD_END;
    if (!mrd_rec_get(memory_rec(cursor), &cursor->ev, &cursor->args)) {
        mrd_why_set(why, MRD_NOMEM, 0, "arguments of an event");
        return MRD_BAD;
    }
    cursor->i++;
    *ret_event = &cursor->ev;
    return MRD_MORE;
}

static void
memory_close(mrd_source *self)
{
    memory_cursor *cursor = (memory_cursor *) (void *) self;

    mrd_buf_fini(&cursor->args);
    free(cursor);
}

mrd_err
mrd_cursor_memory(const mrd_stream *stream, mrd_source **ret_source, mrd_why *why)
{
    memory_cursor *cursor = calloc(1, sizeof(*cursor));

    if (cursor == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", stream->label);
    cursor->base = (mrd_source){ .next = memory_next, .close = memory_close };
    cursor->block = stream->head;
    cursor->order = stream->order;
    cursor->n = stream->in_memory;
    *ret_source = &cursor->base;
    return MRD_OK;
}

typedef struct {
    mrd_source base;
    mrd_event ev;
    mrd_buf args;
    int fd;
    const char *label;
    const mrd_chain *chain;
    size_t extent;
    uint64_t done; /* number of bytes of the current extent that were read */
    uint8_t *buf;
    size_t at, have, cap;
} file_cursor;

static mrd_err
file_read(file_cursor *cursor, mrd_why *why)
{
    while (cursor->have < cursor->cap && cursor->extent < cursor->chain->n) {
        const mrd_extent *extent = &cursor->chain->v[cursor->extent];
        size_t room = cursor->cap - cursor->have;
        size_t want =
            extent->len - cursor->done < room ? (size_t) (extent->len - cursor->done) : room;
        ssize_t got = pread(cursor->fd, cursor->buf + cursor->have, want,
                            (off_t) (extent->at + cursor->done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return mrd_why_set(why, MRD_IO, got == 0 ? EIO : errno,
                               "cannot read back the sorted events of %s", cursor->label);
        cursor->have += (size_t) got;
        cursor->done += (size_t) got;
        if (cursor->done == extent->len) {
            cursor->extent++;
            cursor->done = 0;
        }
    }
    return MRD_OK;
}

/* Loads data until `need` bytes are available at `at`, or the chain ends. */
static mrd_err
file_fill(file_cursor *cursor, size_t need, mrd_why *why)
{
    memmove(cursor->buf, cursor->buf + cursor->at, cursor->have - cursor->at);
    cursor->have -= cursor->at;
    cursor->at = 0;
    if (!MRD_VEC_ROOM(cursor->buf, 0, cursor->cap, need))
        return mrd_why_set(why, MRD_NOMEM, 0, "an event of %zu bytes of %s", need, cursor->label);
    return file_read(cursor, why);
}

static mrd_step
file_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    file_cursor *cursor = (file_cursor *) (void *) self;
    const mrd_rec *rec;

    if (cursor->have - cursor->at < sizeof(mrd_rec)) {
        if (file_fill(cursor, sizeof(mrd_rec), why) != MRD_OK)
            return MRD_BAD;
        if (cursor->have == 0)
            return MRD_END;
    }
    rec = (const mrd_rec *) (const void *) (cursor->buf + cursor->at);
    if (cursor->have - cursor->at < (size_t) rec->words * 8) {
        size_t need = (size_t) rec->words * 8;

        if (file_fill(cursor, need, why) != MRD_OK)
            return MRD_BAD;
        rec = (const mrd_rec *) (const void *) cursor->buf;
    }
    if (!mrd_rec_get(rec, &cursor->ev, &cursor->args)) {
        mrd_why_set(why, MRD_NOMEM, 0, "arguments of an event of %s", cursor->label);
        return MRD_BAD;
    }
    cursor->at += (size_t) rec->words * 8;
    __builtin_prefetch(cursor->buf +
                       cursor->at); /* prefetch the next record, which may be used much later */
    *ret_event = &cursor->ev;
    return MRD_MORE;
}

static void
file_close(mrd_source *self)
{
    file_cursor *cursor = (file_cursor *) (void *) self;

    mrd_buf_fini(&cursor->args);
    free(cursor->buf);
    free(cursor);
}

mrd_err
mrd_cursor_file(int fd, const char *label, const mrd_chain *chain, size_t buffer,
                mrd_source **ret_source, mrd_why *why)
{
    file_cursor *cursor = calloc(1, sizeof(*cursor));

    if (cursor == NULL || (cursor->buf = malloc(buffer)) == NULL) {
        free(cursor);
        return mrd_why_set(why, MRD_NOMEM, 0, "a read buffer for %s", label);
    }
    cursor->base = (mrd_source){ .next = file_next, .close = file_close };
    cursor->fd = fd;
    cursor->label = label;
    cursor->chain = chain;
    cursor->cap = buffer;
    *ret_source = &cursor->base;
    return MRD_OK;
}
