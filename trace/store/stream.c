#include "trace/store/stream.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/vec.h"
#include "trace/store/stream_int.h"
#include "trace/store/stream_rec_put.h"

#define STORE_MEMORY_MIN ((size_t) 1 << 20)

mrd_store *
mrd_store_new(size_t memory, const char *dir)
{
    mrd_store *st = calloc(1, sizeof(*st));
    const char *tmp = getenv("TMPDIR");

    if (st == NULL)
        return NULL;
    if (dir == NULL)
        dir = tmp != NULL && *tmp != '\0' ? tmp : "/tmp";
    st->fd = -1;
    st->budget = (memory < STORE_MEMORY_MIN ? STORE_MEMORY_MIN : memory) / 2;
    st->block_size = st->budget / 2048;
    st->block_size = st->block_size < 4096 ? 4096 : st->block_size & ~(size_t) 4095;
    st->block_size = st->block_size > 65536 ? 65536 : st->block_size;
    if ((st->dir = mrd_str_dup(mrd_str_of(dir))) == NULL) {
        free(st);
        return NULL;
    }
    return st;
}

void
mrd_store_keep(mrd_store *st)
{
    st->keep = true;
}

const mrd_why *
mrd_store_full(const mrd_store *st)
{
    return st->full.err == MRD_OK ? NULL : &st->full;
}

static void
block_free_all(mrd_block *block)
{
    while (block != NULL) {
        mrd_block *next = block->next;

        free(block);
        block = next;
    }
}

mrd_stream *
mrd_stream_new(mrd_store *store, const char *label)
{
    mrd_stream *stream = calloc(1, sizeof(*stream));

    if (stream == NULL)
        return NULL;
    stream->store = store;
    stream->ordered = true;
    if ((stream->label = mrd_str_dup(mrd_str_of(label == NULL ? "" : label))) == NULL) {
        free(stream);
        return NULL;
    }
    return stream;
}

mrd_stream *
mrd_store_stream(mrd_store *st, uint32_t profile, const char *label)
{
    mrd_stream *stream;

    if (!MRD_VEC_ROOM(st->streams, st->n, st->cap, 1))
        return NULL;
    if ((stream = mrd_stream_new(st, label)) == NULL)
        return NULL;
    stream->profile = profile;
    st->streams[st->n++] = stream;
    return stream;
}

size_t
mrd_store_streams(const mrd_store *st)
{
    return st->n;
}

mrd_stream *
mrd_store_at(const mrd_store *st, size_t i)
{
    return i < st->n ? st->streams[i] : NULL;
}

uint32_t
mrd_stream_profile(const mrd_stream *stream)
{
    return stream->profile;
}

const char *
mrd_stream_label(const mrd_stream *stream)
{
    return stream->label;
}

uint64_t
mrd_stream_count(const mrd_stream *stream)
{
    return stream->count;
}

bool
mrd_stream_range(const mrd_stream *stream, mrd_ev_ns *ret_first, mrd_ev_ns *ret_last)
{
    if (stream->has_range) {
        *ret_first = mrd_time_shifted(stream->earliest, stream->shift_ns);
        *ret_last = mrd_time_shifted(stream->latest, stream->shift_ns);
    }
    return stream->has_range;
}

void
mrd_stream_shift(mrd_stream *stream, mrd_dur_ns delta_ns)
{
    stream->shift_ns = mrd_sat_add(stream->shift_ns, delta_ns);
}

void
mrd_stream_trust(mrd_stream *stream, mrd_ev_ns first, mrd_ev_ns end)
{
    stream->earliest = first;
    stream->latest = end;
    stream->has_mistimed = true;
}

/* Stores the first failure of the stream and its message. */
static mrd_err
stream_fail(mrd_stream *stream, const mrd_why *why)
{
    if (stream->err == MRD_OK) {
        stream->err = why->err;
        stream->why = *why;
    }
    return stream->err;
}

static mrd_err
stream_no_memory(mrd_stream *stream)
{
    mrd_why why = { 0 };

    mrd_why_set(&why, MRD_NOMEM, 0, "events of %s", stream->label);
    return stream_fail(stream, &why);
}

/* ---- Blocks ---- */

static void
stream_drop_blocks(mrd_stream *stream)
{
    mrd_store *st = stream->store;

    while (stream->head != NULL) {
        mrd_block *block = stream->head;

        stream->head = block->next;
        if (block->size == st->block_size) {
            block->next = st->spare;
            st->spare = block;
        } else {
            free(block);
        }
    }
    st->used -= stream->bytes;
    free(stream->order);
    stream->order = NULL;
    stream->tail = NULL;
    stream->last = NULL;
    stream->bytes = 0;
    stream->in_memory = 0;
    stream->ordered = true;
}

static void
stream_free(mrd_stream *stream)
{
    if (stream == NULL)
        return;
    stream_drop_blocks(stream);
    for (size_t i = 0; i < stream->n_chains; i++)
        mrd_chain_fini(&stream->chains[i]);
    stream_free(stream->bound);
    free(stream->chains);
    free(stream->label);
    free(stream);
}

void
mrd_stream_clear(mrd_stream *stream)
{
    stream_drop_blocks(stream);
    for (size_t i = 0; i < stream->n_chains; i++)
        mrd_chain_release(&stream->chains[i], stream->store->fd);
    stream->n_chains = 0;
    stream->count = 0;
    stream->has_range = stream->has_flows = stream->has_mistimed = false;
}

void
mrd_store_free(mrd_store *st)
{
    if (st == NULL)
        return;
    for (size_t i = 0; i < st->n; i++)
        stream_free(st->streams[i]);
    block_free_all(st->spare);
    if (st->fd >= 0)
        close(st->fd);
    free(st->streams);
    free(st->fans.one);
    mrd_map_fini(&st->fans.more);
    free(st->out);
    free(st->dir);
    free(st);
}

static mrd_block *
store_block(mrd_store *st, size_t need)
{
    size_t size = need > st->block_size ? need : st->block_size;
    mrd_block *block = st->spare;

    if (size == st->block_size && block != NULL)
        st->spare = block->next;
    else if ((block = malloc(sizeof(*block) + size)) == NULL)
        return NULL;
    block->next = NULL;
    block->used = 0;
    block->size = size;
    return block;
}

/* Writes the events of a source to the end of the file, as one sorted run. */
static mrd_err
store_write_run(mrd_store *st, mrd_source *in, mrd_extent *ret_extent, mrd_rec *ret_first,
                mrd_rec *ret_last, mrd_why *why)
{
    const mrd_event *ev;
    mrd_buf rec = { 0 };
    mrd_err err = mrd_store_open_file(st, why);
    mrd_step step = MRD_END;
    uint64_t start = st->file_len;
    bool any = false;

    while (err == MRD_OK && (step = in->next(in, &ev, why)) == MRD_MORE) {
        uint8_t has;
        size_t text, size = mrd_rec_size(ev, &has, &text);

        mrd_buf_reset(&rec);
        if (!mrd_buf_room(&rec, size)) {
            err = mrd_why_set(why, MRD_NOMEM, 0, "an event of %zu bytes", size);
            break;
        }
        mrd_rec_put(rec.p, size, has, text, ev, ev->seq);
        memcpy(ret_last, rec.p, sizeof(*ret_last));
        if (!any)
            *ret_first = *ret_last;
        any = true;
        err = mrd_store_put(st, rec.p, size, why);
    }
    if (err == MRD_OK && step == MRD_BAD)
        err = mrd_why_err(why);
    if (err == MRD_OK)
        err = mrd_store_flush(st, why);
    st->out_len = 0;
    mrd_buf_fini(&rec);
    *ret_extent = (mrd_extent){ start, st->file_len - start };
    return err;
}

static mrd_err
stream_sort(mrd_stream *stream, mrd_why *why)
{
    if (stream->ordered || stream->order != NULL)
        return MRD_OK;
    if (!mrd_rec_sort(stream->head, stream->in_memory, &stream->order))
        return mrd_why_set(why, MRD_NOMEM, 0, "sorting %llu events of %s",
                           (unsigned long long) stream->in_memory, stream->label);
    return MRD_OK;
}

static mrd_err
stream_add_run(mrd_stream *stream, mrd_extent extent, const mrd_rec *first, const mrd_rec *last,
               mrd_why *why)
{
    mrd_chain *chain = mrd_stream_chain_for(stream, first);

    if (chain == NULL || !mrd_chain_append(chain, extent))
        return mrd_why_set(why, MRD_NOMEM, 0, "sorted runs of %s", stream->label);
    chain->last = *last;
    return MRD_OK;
}

/* Writes the stream's records in memory to the end of the file, as one run. They are in order, or
 * stream_sort has sorted them. */
static mrd_err
stream_write_memory(mrd_stream *stream, mrd_rec *ret_first, mrd_rec *ret_last, mrd_why *why)
{
    mrd_store *st = stream->store;
    mrd_err err = MRD_OK;

    if (stream->order == NULL) {
        *ret_first = *(const mrd_rec *) (const void *) stream->head->data;
        *ret_last = *stream->last;
        for (const mrd_block *block = stream->head; block != NULL && err == MRD_OK;
             block = block->next)
            err = mrd_store_put(st, block->data, block->used, why);
    } else {
        *ret_first = *stream->order[0];
        *ret_last = *stream->order[stream->in_memory - 1];
        for (size_t i = 0; i < stream->in_memory && err == MRD_OK; i++)
            err = mrd_store_put(st, stream->order[i], (size_t) stream->order[i]->words * 8, why);
    }
    return err == MRD_OK ? mrd_store_flush(st, why) : err;
}

/* Moves the stream's records from memory to the file. */
static mrd_err
stream_spill(mrd_stream *stream, mrd_why *why)
{
    mrd_extent extent;
    mrd_rec first, last;
    mrd_err err;

    if ((err = stream_sort(stream, why)) != MRD_OK ||
        (err = mrd_store_open_file(stream->store, why)) != MRD_OK)
        return err;
    extent.at = stream->store->file_len;
    stream->store->out_len = 0;
    err = stream_write_memory(stream, &first, &last, why);
    extent.len = stream->store->file_len - extent.at;
    if (err == MRD_OK)
        err = stream_add_run(stream, extent, &first, &last, why);
    if (err == MRD_OK)
        stream_drop_blocks(stream);
    else
        stream->store->file_len = extent.at; /* discard the incomplete run */
    return err;
}

/* Returns true if writing failed because of a full or broken disk, and the store has to keep its
 * events. The records then stay in memory. */
static bool
store_is_full(mrd_store *st, const mrd_why *why)
{
    if (!st->keep || (why->err != MRD_FULL && why->err != MRD_IO))
        return false;
    if (st->full.err == MRD_OK)
        st->full = *why;
    return true;
}

/* Chooses the stream to move to disk: the largest one that is not finished. Includes `self`, which
 * may be a hidden stream. Returns NULL if that has no records in memory. */
static mrd_stream *
store_victim(mrd_store *st, mrd_stream *self)
{
    mrd_stream *best = self;

    for (size_t i = 0; i < st->n; i++) {
        if (!st->streams[i]->finished && st->streams[i]->bytes > best->bytes)
            best = st->streams[i];
    }
    return best->in_memory > 0 ? best : NULL;
}

/* Makes room for a record of `need` bytes at the end of the stream. */
static mrd_err
stream_room(mrd_stream *stream, size_t need)
{
    mrd_store *st = stream->store;
    mrd_why why = { 0 };
    mrd_stream *victim;
    mrd_block *block;

    if (st->used + need > st->budget && st->full.err == MRD_OK &&
        (victim = store_victim(st, stream)) != NULL && stream_spill(victim, &why) != MRD_OK &&
        !store_is_full(st, &why)) {
        /* The events of this stream are lost, which mrd_stream_finish() reports. */
        stream_drop_blocks(victim);
        stream_fail(victim, &why);
        if (victim == stream)
            return stream->err;
    }
    /* A hidden stream only has the flow points of another stream. It may exceed the budget, up to
     * twice its size. */
    if (st->full.err != MRD_OK && (!stream->hidden || st->used + need > 2 * st->budget))
        return MRD_FULL;
    if ((block = store_block(st, need)) == NULL)
        return stream_no_memory(stream);
    if (stream->tail == NULL)
        stream->head = block;
    else
        stream->tail->next = block;
    stream->tail = block;
    stream->bytes += block->size;
    st->used += block->size;
    return MRD_OK;
}

static mrd_err
stream_refuse(mrd_stream *stream, size_t size)
{
    mrd_why why = { 0 };

    if (stream->finished)
        mrd_why_set(&why, MRD_STATE, 0, "%s was finished already", stream->label);
    else
        mrd_why_set(&why, MRD_LIMIT, 0, "event %llu of %s needs %zu bytes (at most %zu)",
                    (unsigned long long) stream->count, stream->label, size, MRD_REC_BYTES_MAX);
    return stream_fail(stream, &why);
}

static void
stream_note_range(mrd_stream *stream, const mrd_event *ev)
{
    mrd_ev_ns end = mrd_event_end(ev);

    if (end.ns == INT64_MAX)
        end = ev->ts;
    if (!stream->has_range) {
        stream->earliest = ev->ts;
        stream->latest = end;
        stream->has_range = true;
    }
    stream->earliest = mrd_ev_before(ev->ts, stream->earliest) ? ev->ts : stream->earliest;
    stream->latest = mrd_ev_after(end, stream->latest) ? end : stream->latest;
}

mrd_err
mrd_stream_push(mrd_stream *stream, const mrd_event *ev)
{
    uint8_t has;
    size_t text, size = mrd_rec_size(ev, &has, &text);
    const mrd_rec *rec;

    if (stream->err != MRD_OK)
        return stream->err;
    if (stream->store->full.err != MRD_OK && !stream->hidden)
        return MRD_FULL;
    if (stream->finished || size > MRD_REC_BYTES_MAX || stream->count > MRD_REC_SEQ_MAX)
        return stream_refuse(stream, size);
    if (stream->tail == NULL || stream->tail->size - stream->tail->used < size) {
        mrd_err err = stream_room(stream, size);

        if (err != MRD_OK)
            return err;
    }
    rec = (const mrd_rec *) (const void *) (stream->tail->data + stream->tail->used);
    mrd_rec_put(stream->tail->data + stream->tail->used, size, has, text, ev, stream->count);
    stream->tail->used += size;
    if (stream->ordered && stream->last != NULL && mrd_rec_order(stream->last, rec) > 0)
        stream->ordered = false;
    stream->last = rec;
    stream->count++;
    stream->in_memory++;
    stream->has_flows |= ev->kind == MRD_FLOW;
    stream_note_range(stream, ev);
    if (stream->hidden || mrd_stream_note_flows(stream, ev))
        return MRD_OK;
    return stream_no_memory(stream);
}

const mrd_why *
mrd_stream_failure(const mrd_stream *stream)
{
    return stream->err == MRD_OK ? NULL : &stream->why;
}

/* Merges the oldest chains into one, until so few are left that all can be read at the same
 * time. */
static mrd_err
stream_reduce(mrd_stream *stream, mrd_why *why)
{
    while (stream->n_chains > MRD_STORE_FAN_IN) {
        mrd_source *in;
        mrd_chain joined = { 0 };
        mrd_extent extent;
        mrd_rec first;
        mrd_err err = mrd_stream_open_part(stream, MRD_STORE_FAN_IN, false, &in, why);

        if (err != MRD_OK)
            return err;
        err = store_write_run(stream->store, in, &extent, &first, &joined.last, why);
        in->close(in);
        if (err == MRD_OK && !mrd_chain_append(&joined, extent))
            err = mrd_why_set(why, MRD_NOMEM, 0, "sorted runs of %s", stream->label);
        if (err != MRD_OK)
            return err;
        for (size_t i = 0; i < MRD_STORE_FAN_IN; i++)
            mrd_chain_release(&stream->chains[i], stream->store->fd);
        stream->n_chains -= MRD_STORE_FAN_IN;
        memmove(stream->chains, stream->chains + MRD_STORE_FAN_IN,
                stream->n_chains * sizeof(*stream->chains));
        stream->chains[stream->n_chains++] = joined;
    }
    return MRD_OK;
}

mrd_err
mrd_stream_finish(mrd_stream *stream, mrd_why *why)
{
    mrd_why own = { 0 };
    mrd_err err = stream->err;

    stream->finished = true;
    if (err == MRD_OK && (err = stream_sort(stream, &own)) == MRD_OK) {
        err = stream_reduce(stream, &own);
        if (err != MRD_OK && store_is_full(stream->store, &own))
            err = MRD_OK; /* no error, because the stream can also be read with more chains */
    }
    if (err == MRD_OK && stream->has_flows && (err = mrd_stream_bind(stream, &own)) != MRD_OK &&
        store_is_full(stream->store, &own)) {
        stream_free(stream->bound);
        stream->bound = NULL;
        err = MRD_OK;
    }
    if (err == MRD_OK)
        return MRD_OK;
    stream_fail(stream, &own);
    if (why != NULL)
        *why = stream->why;
    return stream->err;
}

mrd_err
mrd_stream_open_pushed(mrd_stream *stream, mrd_source **ret_source, mrd_why *why)
{
    mrd_err err = stream->err;

    /* a finished stream stays in memory, so the reader can refer to it */
    stream->finished = true;
    if (err == MRD_OK)
        err = stream_sort(stream, why);
    else if (why != NULL)
        *why = stream->why;
    return err == MRD_OK ? mrd_stream_open_raw(stream, ret_source, why) : err;
}
