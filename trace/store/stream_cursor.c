/* Cursors of one sorted run, in memory or in the temporary file. */
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
    const mrd_rec *const *order; /* NULL means the order of the blocks */
    size_t i, n;
} memory_cursor;

static const mrd_rec *
memory_rec(memory_cursor *c)
{
    const mrd_rec *r;

    if (c->order != NULL) {
        if (c->i + 1 < c->n)
            __builtin_prefetch(c->order[c->i + 1]);
        return c->order[c->i];
    }
    while (c->at == c->block->used) {
        c->block = c->block->next;
        c->at = 0;
    }
    r = (const mrd_rec *) (const void *) (c->block->data + c->at);
    c->at += (size_t) r->words * 8;
    __builtin_prefetch(c->block->data + c->at);
    return r;
}

static mrd_step
memory_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    memory_cursor *c = (memory_cursor *) (void *) self;

    if (c->i == c->n)
        return MRD_END;
    if (!mrd_rec_get(memory_rec(c), &c->ev, &c->args)) {
        mrd_why_set(why, MRD_NOMEM, 0, "arguments of an event");
        return MRD_BAD;
    }
    c->i++;
    *ret_event = &c->ev;
    return MRD_MORE;
}

static void
memory_close(mrd_source *self)
{
    memory_cursor *c = (memory_cursor *) (void *) self;

    mrd_buf_fini(&c->args);
    free(c);
}

mrd_err
mrd_cursor_memory(const mrd_stream *stream, mrd_source **ret_source, mrd_why *why)
{
    memory_cursor *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", stream->label);
    c->base = (mrd_source){ .next = memory_next, .close = memory_close };
    c->block = stream->head;
    c->order = stream->order;
    c->n = stream->in_memory;
    *ret_source = &c->base;
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
    uint64_t done; /* bytes of the current extent that were read */
    uint8_t *buf;
    size_t at, have, cap;
} file_cursor;

static mrd_err
file_read(file_cursor *c, mrd_why *why)
{
    while (c->have < c->cap && c->extent < c->chain->n) {
        const mrd_extent *e = &c->chain->v[c->extent];
        size_t room = c->cap - c->have;
        size_t want = e->len - c->done < room ? (size_t) (e->len - c->done) : room;
        ssize_t got = pread(c->fd, c->buf + c->have, want, (off_t) (e->at + c->done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return mrd_why_set(why, MRD_IO, got == 0 ? EIO : errno,
                               "cannot read back the sorted events of %s", c->label);
        c->have += (size_t) got;
        c->done += (size_t) got;
        if (c->done == e->len) {
            c->extent++;
            c->done = 0;
        }
    }
    return MRD_OK;
}

/* Makes `need` bytes available at `at`. Fewer are available only at the end of the chain. */
static mrd_err
file_fill(file_cursor *c, size_t need, mrd_why *why)
{
    memmove(c->buf, c->buf + c->at, c->have - c->at);
    c->have -= c->at;
    c->at = 0;
    if (!MRD_VEC_ROOM(c->buf, 0, c->cap, need))
        return mrd_why_set(why, MRD_NOMEM, 0, "an event of %zu bytes of %s", need, c->label);
    return file_read(c, why);
}

static mrd_step
file_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    file_cursor *c = (file_cursor *) (void *) self;
    const mrd_rec *r;

    if (c->have - c->at < sizeof(mrd_rec)) {
        if (file_fill(c, sizeof(mrd_rec), why) != MRD_OK)
            return MRD_BAD;
        if (c->have == 0)
            return MRD_END;
    }
    r = (const mrd_rec *) (const void *) (c->buf + c->at);
    if (c->have - c->at < (size_t) r->words * 8) {
        size_t need = (size_t) r->words * 8;

        if (file_fill(c, need, why) != MRD_OK)
            return MRD_BAD;
        r = (const mrd_rec *) (const void *) c->buf;
    }
    if (!mrd_rec_get(r, &c->ev, &c->args)) {
        mrd_why_set(why, MRD_NOMEM, 0, "arguments of an event of %s", c->label);
        return MRD_BAD;
    }
    c->at += (size_t) r->words * 8;
    __builtin_prefetch(c->buf + c->at); /* the next record, which may be needed much later */
    *ret_event = &c->ev;
    return MRD_MORE;
}

static void
file_close(mrd_source *self)
{
    file_cursor *c = (file_cursor *) (void *) self;

    mrd_buf_fini(&c->args);
    free(c->buf);
    free(c);
}

mrd_err
mrd_cursor_file(int fd, const char *label, const mrd_chain *chain, size_t buffer,
                mrd_source **ret_source, mrd_why *why)
{
    file_cursor *c = calloc(1, sizeof(*c));

    if (c == NULL || (c->buf = malloc(buffer)) == NULL) {
        free(c);
        return mrd_why_set(why, MRD_NOMEM, 0, "a read buffer for %s", label);
    }
    c->base = (mrd_source){ .next = file_next, .close = file_close };
    c->fd = fd;
    c->label = label;
    c->chain = chain;
    c->cap = buffer;
    *ret_source = &c->base;
    return MRD_OK;
}
