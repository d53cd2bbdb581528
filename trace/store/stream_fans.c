/*
 * trace/store/stream_fans.c - counts the ends of arrows, for example from the launch of a graph to
 * its kernels.
 *
 * A sink writes events in order of time, and needs the number of ends at the start of an arrow. So
 * the ends are counted when events are pushed. Nearly all arrows have one end. To save memory, the
 * first end of an arrow only sets two bits in a bit set (a Bloom filter), and only further ends are
 * counted in a table. If other arrows have set both bits before, the first end counts as a further
 * one. mrd_flow.ends of this arrow is then too large by one.
 */
#include <stdlib.h>

#include "trace/store/stream_int.h"

#define BITS_LOG2 24
#define BITS      (UINT64_C(1) << BITS_LOG2)
#define FLOWS_MAX 255 /* mrd_event.flow_count is 8 bits */

/* Sets the two bits of an id. Returns true if both were set before. */
static bool
is_seen(uint64_t *bits, uint64_t id)
{
    uint64_t hash = id * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t a = hash >> (64 - BITS_LOG2), b = hash << BITS_LOG2 >> (64 - BITS_LOG2);
    bool seen = (bits[a / 64] >> (a % 64) & bits[b / 64] >> (b % 64) & 1) != 0;

    bits[a / 64] |= UINT64_C(1) << (a % 64);
    bits[b / 64] |= UINT64_C(1) << (b % 64);
    return seen;
}

/* Counts one more end of the arrow `id`. Returns false if out of memory. */
static bool
note_end(mrd_fans *fans, uint64_t id)
{
    mrd_map_key key = { id, 0, 0 };
    uint32_t n;

    fans->ends++;
    if (fans->one == NULL && (fans->one = calloc(BITS / 64, sizeof(*fans->one))) == NULL)
        return false;
    if (!is_seen(fans->one, id))
        return true;
    n = mrd_map_get(&fans->more, key);
    if (n == MRD_MAP_NONE && fans->more.used >= MRD_STORE_FANS) {
        fans->is_full = true;
        return true;
    }
    if (n == MRD_MAP_NONE)
        n = 1;
    return n == MRD_FLOW_ENDS_MAX || mrd_map_put(&fans->more, key, n + 1) == MRD_OK;
}

bool
mrd_store_lacks_ends(const mrd_store *store)
{
    return store->fans.is_full;
}

static bool
note_point(mrd_stream *stream, mrd_flow point)
{
    stream->has_starts |= point.dir == MRD_FLOW_START;
    return point.dir != MRD_FLOW_END || note_end(&stream->store->fans, point.id);
}

bool
mrd_stream_note_flows(mrd_stream *stream, const mrd_event *ev)
{
    mrd_flow own = { .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir };
    bool noted = ev->kind != MRD_FLOW || note_point(stream, own);

    for (uint8_t i = 0; i < ev->flow_count; i++)
        noted = note_point(stream, ev->flows[i]) && noted;
    return noted;
}

typedef struct {
    mrd_source base;
    mrd_source *inner;
    const mrd_map *more;
    /* number of ends that may still be written; limits the size of the output if one id has many
     * starts */
    uint64_t left;
    mrd_event ev;
    mrd_flow flows[FLOWS_MAX];
} fan_reader;

static mrd_step
fans_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    fan_reader *reader = (fan_reader *) (void *) self;
    const mrd_event *ev;
    mrd_step step = reader->inner->next(reader->inner, &ev, why);
    bool is_copied = false;

    if (step != MRD_MORE)
        return step;
    *ret_event = ev;
    for (uint8_t i = 0; i < ev->flow_count; i++) {
        const mrd_flow *flow = &ev->flows[i];
        uint32_t ends = flow->dir != MRD_FLOW_START
                            ? MRD_MAP_NONE
                            : mrd_map_get(reader->more, (mrd_map_key){ flow->id, 0, 0 });

        if (ends == MRD_MAP_NONE || ends > reader->left)
            continue;
        if (!is_copied) {
            reader->ev = *ev;
            memcpy(reader->flows, ev->flows, ev->flow_count * sizeof(*reader->flows));
            reader->ev.flows = reader->flows;
            is_copied = true;
            *ret_event = &reader->ev;
        }
        reader->flows[i].ends = ends;
        reader->left -= ends;
    }
    return step;
}

static void
fans_close(mrd_source *self)
{
    fan_reader *reader = (fan_reader *) (void *) self;

    reader->inner->close(reader->inner);
    free(reader);
}

mrd_err
mrd_stream_open_fans(const mrd_stream *stream, mrd_source *inner, mrd_source **ret_source,
                     mrd_why *why)
{
    fan_reader *reader = calloc(1, sizeof(*reader));

    if (reader == NULL) {
        inner->close(inner);
        return mrd_why_set(why, MRD_NOMEM, 0, "flows of %s", stream->label);
    }
    reader->base = (mrd_source){ .next = fans_next, .close = fans_close, .key = inner->key };
    reader->inner = inner;
    reader->more = &stream->store->fans.more;
    reader->left = 2 * stream->store->fans.ends;
    *ret_source = &reader->base;
    return MRD_OK;
}
