/* Opens streams, and maps their times to the timeline of the alignment. */
#include "cli/view/align_int.h"

#include <stdlib.h>

#include "base/obj.h"
#include "trace/store/merge.h"

/* A source that returns only the events of one unit in a stream, and maps their times to the
 * timeline of the alignment. */
typedef struct {
    mrd_source base;
    mrd_source *inner;
    mrd_alignment *a;
    /* only events of this unit are returned; NO_UNIT means all events with times that need no
     * mapping */
    uint32_t unit;
    mrd_event ev;
} part_source;

/* Returns true if a time belongs to the unit's clock. One program may write some times that count
 * from 1970 and others that count from the boot. These are two different clocks. */
static bool
is_of_clock(const unit *u, int64_t local)
{
    return local != 0 && (local > EPOCH_NS) == (u->first.ns > EPOCH_NS);
}

static bool
is_moved(const mrd_alignment *alignment, uint32_t u)
{
    return u != NO_UNIT && alignment->units[u].table != NULL && !alignment->units[u].reference;
}

/* Returns true if a local time lies in a segment that the alignment covers. Outside of the
 * segments, the mapping is only extrapolated. */
static bool
is_known(const unit *at, int64_t local)
{
    for (size_t i = 0; i < at->n_segments; i++) {
        if (local >= at->segments[i].from && local <= at->segments[i].to)
            return true;
    }
    return false;
}

static int64_t
map_time(mrd_alignment *alignment, uint32_t u, int64_t local, uint32_t *bound)
{
    unit *at = &alignment->units[u];
    mrd_align_bound range;
    mrd_sess_ns there;
    uint64_t sum;

    if (!mrd_align_map(at->table, &at->cursor, (mrd_local_ns){ local }, &there, &range))
        return local;
    sum = (uint64_t) *bound + mrd_align_radius(there, &range);
    if (sum > MRD_BOUND_UNKNOWN || !is_known(at, local))
        sum = MRD_BOUND_UNKNOWN;
    *bound = (uint32_t) sum;
    return there.ns;
}

/* Returns true if an event of the reference unit is near a step of any clock. The clock of the
 * reference unit defines session time. If it jumps itself, all other clocks therefore seem to
 * jump. */
static bool
is_beside_break(const mrd_alignment *alignment, uint32_t u, mrd_ev_ns session)
{
    for (size_t i = 0; alignment->units[u].reference && i < alignment->n_breaks; i++) {
        if (session.ns >= alignment->breaks[i].from && session.ns <= alignment->breaks[i].to)
            return true;
    }
    return false;
}

static mrd_step
part_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    part_source *source = (part_source *) (void *) self;
    const mrd_event *ev;
    mrd_step step;
    uint32_t u;

    do {
        if ((step = source->inner->next(source->inner, &ev, why)) != MRD_MORE)
            return step;
        u = mrd_alignment_unit_of(source->a, ev->track);
    } while ((is_moved(source->a, u) ? u : NO_UNIT) != source->unit);
    source->ev = *ev;
    /* nothing relates this clock to the timeline at this time */
    if (u == NO_UNIT || source->a->units[u].table == NULL ||
        !is_of_clock(&source->a->units[u], ev->ts.ns) || is_beside_break(source->a, u, ev->ts))
        source->ev.bound_ns = MRD_BOUND_UNKNOWN;
    else if (source->unit != NO_UNIT)
        source->ev.ts = (mrd_ev_ns){ map_time(source->a, u, ev->ts.ns, &source->ev.bound_ns) };
    *ret_event = &source->ev;
    return MRD_MORE;
}

static void
part_close(mrd_source *self)
{
    part_source *source = (part_source *) (void *) self;

    source->inner->close(source->inner);
    free(source);
}

static mrd_err
part_open(mrd_alignment *alignment, size_t stream, uint32_t u, mrd_source **ret_source,
          mrd_why *why)
{
    part_source *source = calloc(1, sizeof(*source));
    mrd_err err;

    if (source == NULL)
        return mrd_align_no_memory(why);
    if ((err = mrd_stream_open(mrd_store_at(alignment->store, stream), &source->inner, why)) !=
        MRD_OK) {
        free(source);
        return err;
    }
    source->base = (mrd_source){ .next = part_next, .close = part_close, .key = u };
    source->a = alignment;
    source->unit = u;
    *ret_source = &source->base;
    return MRD_OK;
}

static bool
moves_times(const mrd_alignment *alignment, size_t stream)
{
    return alignment->mapped && alignment->options.times == MRD_TIMES_ALIGNED &&
           mrd_stream_profile(mrd_store_at(alignment->store, stream)) == 0;
}

/* Opens the sources for one stream: one for each unit with a mapped clock, and one for all others
 * together. */
static mrd_err
open_parts(mrd_alignment *alignment, size_t stream, mrd_source **parts, size_t *n, mrd_why *why)
{
    mrd_err err = MRD_OK;
    bool rest = false;

    for (size_t i = 0; i < alignment->n_at && err == MRD_OK; i++) {
        uint32_t u = alignment->at[i].unit;

        if (alignment->at[i].stream != stream || (!is_moved(alignment, u) && rest))
            continue;
        rest = rest || !is_moved(alignment, u);
        err = part_open(alignment, stream, is_moved(alignment, u) ? u : NO_UNIT, &parts[*n], why);
        *n += err == MRD_OK;
    }
    return err;
}

mrd_err
mrd_alignment_open(mrd_alignment *alignment, size_t i, mrd_source **ret_source, mrd_why *why)
{
    mrd_source **parts;
    size_t n = 0;
    mrd_err err;

    if (!moves_times(alignment, i))
        return mrd_stream_open(mrd_store_at(alignment->store, i), ret_source, why);
    if ((parts = calloc(alignment->n_units + 2, sizeof(*parts))) == NULL)
        return mrd_align_no_memory(why);
    err = open_parts(alignment, i, parts, &n, why);
    if (err == MRD_OK && n == 1)
        *ret_source = parts[0];
    else if (err == MRD_OK)
        err = mrd_merge_open(parts, n, NULL, NULL, ret_source, why);
    else
        while (n > 0)
            n--, parts[n]->close(parts[n]);
    free(parts);
    return err;
}

static int64_t
session_time(mrd_alignment *alignment, uint32_t u, mrd_local_ns local)
{
    uint32_t bound = 0;

    return is_moved(alignment, u) && is_of_clock(&alignment->units[u], local.ns)
               ? map_time(alignment, u, local.ns, &bound)
               : local.ns;
}

bool
mrd_alignment_range(mrd_alignment *alignment, size_t i, mrd_ev_ns *ret_first, mrd_ev_ns *ret_last)
{
    int64_t first = INT64_MAX, last = INT64_MIN;

    if (!moves_times(alignment, i))
        return mrd_stream_range(mrd_store_at(alignment->store, i), ret_first, ret_last);
    for (size_t k = 0; k < alignment->n_at; k++) {
        const presence *at = &alignment->at[k];
        int64_t from, to, end;

        if (at->stream != i || mrd_local_after(at->first, at->last))
            continue;
        from = session_time(alignment, at->unit, at->first);
        to = session_time(alignment, at->unit, at->last);
        end = session_time(alignment, at->unit, at->longest_at) + at->longest;
        first = from < first ? from : first;
        last = to > last ? to : last;
        last = end > last ? end : last;
    }
    if (first > last)
        return false;
    *ret_first = (mrd_ev_ns){ first };
    *ret_last = (mrd_ev_ns){ last };
    return true;
}
