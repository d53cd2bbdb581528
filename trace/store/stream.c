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
block_free_all(mrd_block *b)
{
    while (b != NULL) {
        mrd_block *next = b->next;

        free(b);
        b = next;
    }
}

mrd_stream *
mrd_stream_new(mrd_store *store, const char *label)
{
    mrd_stream *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->store = store;
    s->ordered = true;
    if ((s->label = mrd_str_dup(mrd_str_of(label == NULL ? "" : label))) == NULL) {
        free(s);
        return NULL;
    }
    return s;
}

mrd_stream *
mrd_store_stream(mrd_store *st, uint32_t profile, const char *label)
{
    mrd_stream *s;

    if (!MRD_VEC_ROOM(st->streams, st->n, st->cap, 1))
        return NULL;
    if ((s = mrd_stream_new(st, label)) == NULL)
        return NULL;
    s->profile = profile;
    st->streams[st->n++] = s;
    return s;
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
mrd_stream_profile(const mrd_stream *s)
{
    return s->profile;
}

const char *
mrd_stream_label(const mrd_stream *s)
{
    return s->label;
}

uint64_t
mrd_stream_count(const mrd_stream *s)
{
    return s->count;
}

bool
mrd_stream_range(const mrd_stream *s, mrd_ev_ns *ret_first, mrd_ev_ns *ret_last)
{
    if (s->has_range) {
        *ret_first = mrd_time_shifted(s->earliest, s->shift_ns);
        *ret_last = mrd_time_shifted(s->latest, s->shift_ns);
    }
    return s->has_range;
}

void
mrd_stream_shift(mrd_stream *s, mrd_dur_ns delta_ns)
{
    s->shift_ns = mrd_sat_add(s->shift_ns, delta_ns);
}

void
mrd_stream_trust(mrd_stream *s, mrd_ev_ns first, mrd_ev_ns end)
{
    s->earliest = first;
    s->latest = end;
    s->has_mistimed = true;
}

/* Keeps the first failure of the stream with its message. */
static mrd_err
stream_fail(mrd_stream *s, const mrd_why *why)
{
    if (s->err == MRD_OK) {
        s->err = why->err;
        s->why = *why;
    }
    return s->err;
}

/* ---- Blocks ---- */

static void
stream_drop_blocks(mrd_stream *s)
{
    mrd_store *st = s->store;

    while (s->head != NULL) {
        mrd_block *b = s->head;

        s->head = b->next;
        if (b->size == st->block_size) {
            b->next = st->spare;
            st->spare = b;
        } else {
            free(b);
        }
    }
    st->used -= s->bytes;
    free(s->order);
    s->order = NULL;
    s->tail = NULL;
    s->last = NULL;
    s->bytes = 0;
    s->in_memory = 0;
    s->ordered = true;
}

static void
stream_free(mrd_stream *s)
{
    if (s == NULL)
        return;
    stream_drop_blocks(s);
    for (size_t i = 0; i < s->n_chains; i++)
        mrd_chain_fini(&s->chains[i]);
    stream_free(s->bound);
    free(s->chains);
    free(s->label);
    free(s);
}

void
mrd_stream_clear(mrd_stream *s)
{
    stream_drop_blocks(s);
    for (size_t i = 0; i < s->n_chains; i++)
        mrd_chain_release(&s->chains[i], s->store->fd);
    s->n_chains = 0;
    s->count = 0;
    s->has_range = s->has_flows = s->has_mistimed = false;
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
    mrd_block *b = st->spare;

    if (size == st->block_size && b != NULL)
        st->spare = b->next;
    else if ((b = malloc(sizeof(*b) + size)) == NULL)
        return NULL;
    b->next = NULL;
    b->used = 0;
    b->size = size;
    return b;
}

/* Appends the events of the source to the file as one sorted run. */
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
stream_sort(mrd_stream *s, mrd_why *why)
{
    if (s->ordered || s->order != NULL)
        return MRD_OK;
    if (!mrd_rec_sort(s->head, s->in_memory, &s->order))
        return mrd_why_set(why, MRD_NOMEM, 0, "sorting %llu events of %s",
                           (unsigned long long) s->in_memory, s->label);
    return MRD_OK;
}

static mrd_err
stream_add_run(mrd_stream *s, mrd_extent e, const mrd_rec *first, const mrd_rec *last, mrd_why *why)
{
    mrd_chain *c = mrd_stream_chain_for(s, first);

    if (c == NULL || !mrd_chain_append(c, e))
        return mrd_why_set(why, MRD_NOMEM, 0, "sorted runs of %s", s->label);
    c->last = *last;
    return MRD_OK;
}

/* Appends the records in memory to the file as one run. They are in order or were sorted. */
static mrd_err
stream_write_memory(mrd_stream *s, mrd_rec *ret_first, mrd_rec *ret_last, mrd_why *why)
{
    mrd_store *st = s->store;
    mrd_err err = MRD_OK;

    if (s->order == NULL) {
        *ret_first = *(const mrd_rec *) (const void *) s->head->data;
        *ret_last = *s->last;
        for (const mrd_block *b = s->head; b != NULL && err == MRD_OK; b = b->next)
            err = mrd_store_put(st, b->data, b->used, why);
    } else {
        *ret_first = *s->order[0];
        *ret_last = *s->order[s->in_memory - 1];
        for (size_t i = 0; i < s->in_memory && err == MRD_OK; i++)
            err = mrd_store_put(st, s->order[i], (size_t) s->order[i]->words * 8, why);
    }
    return err == MRD_OK ? mrd_store_flush(st, why) : err;
}

/* Moves the records in memory to the file. */
static mrd_err
stream_spill(mrd_stream *s, mrd_why *why)
{
    mrd_extent e;
    mrd_rec first, last;
    mrd_err err;

    if ((err = stream_sort(s, why)) != MRD_OK ||
        (err = mrd_store_open_file(s->store, why)) != MRD_OK)
        return err;
    e.at = s->store->file_len;
    s->store->out_len = 0;
    err = stream_write_memory(s, &first, &last, why);
    e.len = s->store->file_len - e.at;
    if (err == MRD_OK)
        err = stream_add_run(s, e, &first, &last, why);
    if (err == MRD_OK)
        stream_drop_blocks(s);
    else
        s->store->file_len = e.at; /* discard the incomplete run */
    return err;
}

/* Returns true if the disk is full, so that the store keeps its present events. The records in
 * memory stay there. */
static bool
store_is_full(mrd_store *st, const mrd_why *why)
{
    if (!st->keep || (why->err != MRD_FULL && why->err != MRD_IO))
        return false;
    if (st->full.err == MRD_OK)
        st->full = *why;
    return true;
}

/* Returns the stream to spill: the largest one that still accepts events. `self` is also considered
 * if it is hidden. */
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

/* Makes room for `need` bytes at the tail of the stream. */
static mrd_err
stream_room(mrd_stream *s, size_t need)
{
    mrd_store *st = s->store;
    mrd_why why = { 0 };
    mrd_stream *victim;
    mrd_block *b;

    if (st->used + need > st->budget && st->full.err == MRD_OK &&
        (victim = store_victim(st, s)) != NULL && stream_spill(victim, &why) != MRD_OK &&
        !store_is_full(st, &why)) {
        stream_drop_blocks(victim); /* its events are lost; its finish reports this */
        stream_fail(victim, &why);
        if (victim == s)
            return s->err;
    }
    /* Flow points add no events, so they may use the budget a second time. */
    if (st->full.err != MRD_OK && (!s->hidden || st->used + need > 2 * st->budget))
        return MRD_FULL;
    if ((b = store_block(st, need)) == NULL) {
        mrd_why_set(&why, MRD_NOMEM, 0, "events of %s", s->label);
        return stream_fail(s, &why);
    }
    if (s->tail == NULL)
        s->head = b;
    else
        s->tail->next = b;
    s->tail = b;
    s->bytes += b->size;
    st->used += b->size;
    return MRD_OK;
}

static mrd_err
stream_refuse(mrd_stream *s, size_t size)
{
    mrd_why why = { 0 };

    if (s->finished)
        mrd_why_set(&why, MRD_STATE, 0, "%s was finished already", s->label);
    else
        mrd_why_set(&why, MRD_LIMIT, 0, "event %llu of %s needs %zu bytes (at most %zu)",
                    (unsigned long long) s->count, s->label, size, MRD_REC_BYTES_MAX);
    return stream_fail(s, &why);
}

static void
stream_note_range(mrd_stream *s, const mrd_event *ev)
{
    mrd_ev_ns end = mrd_event_end(ev);

    if (end.ns == INT64_MAX)
        end = ev->ts;
    if (!s->has_range) {
        s->earliest = ev->ts;
        s->latest = end;
        s->has_range = true;
    }
    s->earliest = mrd_ev_before(ev->ts, s->earliest) ? ev->ts : s->earliest;
    s->latest = mrd_ev_after(end, s->latest) ? end : s->latest;
}

mrd_err
mrd_stream_push(mrd_stream *s, const mrd_event *ev)
{
    uint8_t has;
    size_t text, size = mrd_rec_size(ev, &has, &text);
    const mrd_rec *r;

    if (s->err != MRD_OK)
        return s->err;
    if (s->store->full.err != MRD_OK && !s->hidden)
        return MRD_FULL;
    if (s->finished || size > MRD_REC_BYTES_MAX || s->count > MRD_REC_SEQ_MAX)
        return stream_refuse(s, size);
    if (s->tail == NULL || s->tail->size - s->tail->used < size) {
        mrd_err err = stream_room(s, size);

        if (err != MRD_OK)
            return err;
    }
    r = (const mrd_rec *) (const void *) (s->tail->data + s->tail->used);
    mrd_rec_put(s->tail->data + s->tail->used, size, has, text, ev, s->count);
    s->tail->used += size;
    if (s->ordered && s->last != NULL && mrd_rec_order(s->last, r) > 0)
        s->ordered = false;
    s->last = r;
    s->count++;
    s->in_memory++;
    s->has_flows |= ev->kind == MRD_FLOW;
    if (!s->hidden)
        mrd_stream_note_flows(s, ev);
    stream_note_range(s, ev);
    return MRD_OK;
}

const mrd_why *
mrd_stream_failure(const mrd_stream *s)
{
    return s->err == MRD_OK ? NULL : &s->why;
}

/* Merges the oldest chains until the number of chains can be read at the same time. */
static mrd_err
stream_reduce(mrd_stream *s, mrd_why *why)
{
    while (s->n_chains > MRD_STORE_FAN_IN) {
        mrd_source *in;
        mrd_chain joined = { 0 };
        mrd_extent e;
        mrd_rec first;
        mrd_err err = mrd_stream_open_part(s, MRD_STORE_FAN_IN, false, &in, why);

        if (err != MRD_OK)
            return err;
        err = store_write_run(s->store, in, &e, &first, &joined.last, why);
        in->close(in);
        if (err == MRD_OK && !mrd_chain_append(&joined, e))
            err = mrd_why_set(why, MRD_NOMEM, 0, "sorted runs of %s", s->label);
        if (err != MRD_OK)
            return err;
        for (size_t i = 0; i < MRD_STORE_FAN_IN; i++)
            mrd_chain_release(&s->chains[i], s->store->fd);
        s->n_chains -= MRD_STORE_FAN_IN;
        memmove(s->chains, s->chains + MRD_STORE_FAN_IN, s->n_chains * sizeof(*s->chains));
        s->chains[s->n_chains++] = joined;
    }
    return MRD_OK;
}

mrd_err
mrd_stream_finish(mrd_stream *s, mrd_why *why)
{
    mrd_why own = { 0 };
    mrd_err err = s->err;

    s->finished = true;
    if (err == MRD_OK && (err = stream_sort(s, &own)) == MRD_OK) {
        err = stream_reduce(s, &own);
        if (err != MRD_OK && store_is_full(s->store, &own))
            err = MRD_OK; /* it can be read without this change */
    }
    if (err == MRD_OK && s->has_flows && (err = mrd_stream_bind(s, &own)) != MRD_OK &&
        store_is_full(s->store, &own)) {
        stream_free(s->bound);
        s->bound = NULL;
        err = MRD_OK;
    }
    if (err == MRD_OK)
        return MRD_OK;
    stream_fail(s, &own);
    if (why != NULL)
        *why = s->why;
    return s->err;
}

mrd_err
mrd_stream_open_pushed(mrd_stream *s, mrd_source **ret_source, mrd_why *why)
{
    mrd_err err = s->err;

    s->finished = true; /* else its memory might be spilled under the reader */
    if (err == MRD_OK)
        err = stream_sort(s, why);
    else if (why != NULL)
        *why = s->why;
    return err == MRD_OK ? mrd_stream_open_raw(s, ret_source, why) : err;
}
