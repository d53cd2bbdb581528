/*
 * Binds flow points to events. The span around a point may have begun long before it, so this takes
 * a separate pass over the sorted stream. The pass writes pairs to a second, hidden stream: the
 * position of an event in the stream, and a flow point that is bound to it. The store sorts the
 * hidden stream and limits its memory, as for any other stream. A point without an event goes there
 * as an MRD_INSTANT at its own position.
 */
#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "trace/store/stream_int.h"

#define BIND_FLOWS_MAX 255 /* mrd_event.flow_count is 8 bits */
/* Number of outermost open spans of a track that are searched one by one. Spans further inside are
 * found by their end (bind_track.ends). */
#define BIND_LOOK 64

typedef struct {
    mrd_ev_ns start, end;
    uint64_t pos;
    uint32_t flows;
} bind_span;

typedef struct {
    mrd_flow flow;
    uint64_t pos, seq;
    bool next; /* the point has MRD_EV_NEXT: it belongs to the next span that begins on the track */
} bind_flow;

/* The spans of one track in order of begin. Ended ones are removed only when room is needed. */
typedef struct {
    bind_span *v;
    size_t n, cap;
    /* end time -> index in `v` of the last span with this end; without the first BIND_LOOK spans */
    mrd_map ends;
    bind_flow *next; /* points that wait for the next span on the track, at most BIND_FLOWS_MAX */
    size_t n_next;
} bind_track;

typedef struct {
    mrd_stream *bound;
    bind_track *tracks;
    size_t n_tracks;
    /* Flow points with equal time and track. They are bound when all events that begin at this time
     * have been read. */
    mrd_ev_ns at;
    mrd_track_id at_track;
    size_t waiting;
    bind_flow flow[BIND_FLOWS_MAX];
    bind_span exact;    /* the innermost event that begins at `at` */
    uint64_t exact_seq; /* smallest seq of the events that begin at `at` */
    bool has_exact, exact_is_span;
    uint64_t first_pos; /* position of the outermost span that begins at `at`, valid if has_first */
    bool has_first;
    mrd_err err;
} binder;

static bind_track *
bind_track_at(binder *b, mrd_track_id id)
{
    return MRD_VEC_REACH(b->tracks, b->n_tracks, id) ? &b->tracks[id] : NULL;
}

static mrd_map_key
bind_end_key(const bind_span *span)
{
    return (mrd_map_key){ (uint64_t) span->end.ns, 0, 0 };
}

/* Removes the innermost span, which has ended. Also removes its end from `ends`, because
 * all other spans with this end have ended, too. */
static void
bind_pop(bind_track *track)
{
    if (--track->n >= BIND_LOOK)
        mrd_map_remove(&track->ends, bind_end_key(&track->v[track->n]));
}

/* Adds span v[i] to `ends`. */
static mrd_err
bind_note_end(bind_track *track, size_t i)
{
    const bind_span *span = &track->v[i];

    return i < BIND_LOOK || !mrd_ev_before(span->start, span->end)
               ? MRD_OK
               : mrd_map_put(&track->ends, bind_end_key(span), (uint32_t) i);
}

static mrd_err
bind_forget_ended(bind_track *track, mrd_ev_ns now)
{
    mrd_err err = MRD_OK;
    size_t kept = 0;

    mrd_map_fini(&track->ends);
    for (size_t i = 0; i < track->n && err == MRD_OK; i++) {
        if (mrd_ev_before(track->v[i].end, now))
            continue;
        track->v[kept] = track->v[i];
        err = bind_note_end(track, kept++);
    }
    track->n = kept;
    return err;
}

static void
bind_open(binder *b, const mrd_event *ev, uint64_t pos)
{
    bind_track *track = bind_track_at(b, ev->track);

    if (track == NULL) {
        b->err = MRD_NOMEM;
        return;
    }
    while (track->n > 0 && mrd_ev_before(track->v[track->n - 1].end, ev->ts))
        bind_pop(track);
    if (track->n == track->cap) {
        b->err = bind_forget_ended(track, ev->ts);
        /* Doubling leaves half of the array free, so that this scan for ended spans is rare. */
        if (b->err != MRD_OK ||
            !MRD_VEC_ROOM(track->v, track->n, track->cap, track->n == 0 ? 1 : track->n)) {
            b->err = MRD_NOMEM;
            return;
        }
    }
    track->v[track->n++] = (bind_span){ ev->ts, mrd_event_end(ev), pos, ev->flow_count };
    b->err = bind_note_end(track, track->n - 1);
}

/* Returns the innermost span that ends exactly at this time and began earlier. NULL if there is
 * none. */
static bind_span *
bind_touching(bind_track *track, mrd_ev_ns at)
{
    uint32_t above = track->n > BIND_LOOK
                         ? mrd_map_get(&track->ends, (mrd_map_key){ (uint64_t) at.ns, 0, 0 })
                         : MRD_MAP_NONE;

    if (above != MRD_MAP_NONE)
        return &track->v[above];
    for (size_t i = track->n < BIND_LOOK ? track->n : BIND_LOOK; i-- > 0;) {
        if (track->v[i].end.ns == at.ns && mrd_ev_before(track->v[i].start, at))
            return &track->v[i];
    }
    return NULL;
}

/* Returns the innermost span around this time, if no span begins at it. A span that ends exactly
 * then is only the second choice. */
static bind_span *
bind_enclosing(bind_track *track, mrd_ev_ns at)
{
    while (track->n > 0 && mrd_ev_before(track->v[track->n - 1].end, at))
        bind_pop(track);
    for (size_t i = track->n; i-- > 0;) {
        if (mrd_ev_after(track->v[i].end, at))
            return &track->v[i];
    }
    return bind_touching(track, at);
}

/* Finds a track's span by its position in the stream, by binary search. */
static bind_span *
bind_find(bind_track *track, uint64_t pos)
{
    size_t from = 0, to = track->n;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (track->v[middle].pos < pos)
            from = middle + 1;
        else
            to = middle;
    }
    return from < track->n && track->v[from].pos == pos ? &track->v[from] : NULL;
}

static void
bind_push(binder *b, uint8_t kind, uint64_t pos, mrd_flow flow)
{
    mrd_event ev = {
        .ts = { (int64_t) pos }, .kind = kind, .id = flow.id, .flow_dir = (uint8_t) flow.dir
    };

    if (b->err == MRD_OK)
        b->err = mrd_stream_push(b->bound, &ev);
}

/* Binds a point to `target`. The point stays unbound if `target` is NULL or already has
 * BIND_FLOWS_MAX points. */
static void
bind_attach(binder *b, bind_span *target, const bind_flow *flow)
{
    if (target != NULL && target->flows < BIND_FLOWS_MAX) {
        target->flows++;
        bind_push(b, MRD_FLOW, target->pos, flow->flow);
    } else {
        bind_push(b, MRD_INSTANT, flow->pos, flow->flow);
    }
}

/* Stores a point until the next span on its track begins. */
static void
bind_wait_next(binder *b, bind_track *track, const bind_flow *flow)
{
    if (track->next == NULL &&
        (track->next = malloc(BIND_FLOWS_MAX * sizeof(*track->next))) == NULL)
        b->err = MRD_NOMEM;
    else if (track->n_next == BIND_FLOWS_MAX)
        bind_attach(b, NULL, flow);
    else
        track->next[track->n_next++] = *flow;
}

/* Returns the event to which a point is bound. All events that begin at its time have been read. */
static bind_span *
bind_target(binder *b, bind_track *track, const bind_flow *flow)
{
    bind_span *touching = flow->flow.dir == MRD_FLOW_START ? bind_touching(track, b->at) : NULL;

    if (touching != NULL && (!b->has_exact || b->exact_seq > flow->seq))
        return touching;
    if (!b->has_exact)
        return bind_enclosing(track, b->at);
    return b->exact_is_span ? bind_find(track, b->exact.pos) : &b->exact;
}

static void
bind_resolve(binder *b)
{
    bind_track *track = bind_track_at(b, b->at_track);

    if (track == NULL)
        b->err = MRD_NOMEM;
    for (size_t i = 0; i < b->waiting && b->err == MRD_OK; i++) {
        const bind_flow *flow = &b->flow[i];

        if (!flow->next)
            bind_attach(b, bind_target(b, track, flow), flow);
        else if (b->has_first)
            bind_attach(b, bind_find(track, b->first_pos), flow);
        else
            bind_wait_next(b, track, flow);
    }
    b->waiting = 0;
    b->has_exact = b->has_first = false;
}

static void
bind_point(binder *b, const mrd_event *ev, uint64_t pos)
{
    bind_flow flow = { { .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir },
                       pos,
                       ev->seq,
                       (ev->flags & MRD_EV_NEXT) != 0 };

    if (b->waiting == BIND_FLOWS_MAX) {
        bind_attach(b, NULL, &flow);
        return;
    }
    b->at = ev->ts;
    b->at_track = ev->track;
    b->flow[b->waiting++] = flow;
}

/* Called when a span begins on this track. Binds the flow points to it that wait for the next
 * span. */
static void
bind_next(binder *b, mrd_track_id track)
{
    bind_track *t = bind_track_at(b, track);

    for (size_t i = 0; t != NULL && i < t->n_next; i++)
        bind_attach(b, &t->v[t->n - 1], &t->next[i]);
    if (t != NULL)
        t->n_next = 0;
}

/* Stores an event that begins at the same time as the flow points that wait to be bound to a
 * span. */
static void
bind_exact(binder *b, const mrd_event *ev, uint64_t pos, bool begins)
{
    if (!b->has_exact || ev->seq < b->exact_seq)
        b->exact_seq = ev->seq;
    b->exact = (bind_span){ ev->ts, ev->ts, pos, ev->flow_count };
    b->exact_is_span = ev->kind == MRD_SPAN;
    b->has_exact = true;
    if (begins && !b->has_first) {
        b->first_pos = pos;
        b->has_first = true;
    }
}

static void
bind_event(binder *b, const mrd_event *ev, uint64_t pos)
{
    bool begins = ev->kind == MRD_SPAN && (ev->flags & MRD_EV_NO_START) == 0;

    if (b->waiting > 0 && (ev->ts.ns != b->at.ns || ev->track != b->at_track))
        bind_resolve(b);
    if (ev->kind == MRD_FLOW)
        bind_point(b, ev, pos);
    if (ev->kind == MRD_SPAN) {
        bind_open(b, ev, pos);
        if (b->err == MRD_OK && begins)
            bind_next(b, ev->track);
    }
    if (b->waiting > 0 && (ev->kind == MRD_SPAN || ev->kind == MRD_INSTANT))
        bind_exact(b, ev, pos, begins);
}

/* The stream has ended: points that still wait for a span stay unbound. */
static void
bind_leave(binder *b)
{
    for (size_t i = 0; i < b->n_tracks; i++) {
        for (size_t k = 0; k < b->tracks[i].n_next; k++)
            bind_attach(b, NULL, &b->tracks[i].next[k]);
    }
}

mrd_err
mrd_stream_bind(mrd_stream *stream, mrd_why *why)
{
    binder *b = calloc(1, sizeof(*b));
    mrd_source *in = NULL;
    const mrd_event *ev;
    mrd_step step = MRD_BAD;
    mrd_err err;

    if (b == NULL || (stream->bound = mrd_stream_new(stream->store, stream->label)) == NULL) {
        free(b);
        return mrd_why_set(why, MRD_NOMEM, 0, "flows of %s", stream->label);
    }
    b->bound = stream->bound;
    stream->bound->hidden = true;
    if ((err = mrd_stream_open_raw(stream, &in, why)) == MRD_OK) {
        for (uint64_t pos = 0; b->err == MRD_OK && (step = in->next(in, &ev, why)) == MRD_MORE;
             pos++)
            bind_event(b, ev, pos);
        if (b->waiting > 0)
            bind_resolve(b);
        bind_leave(b);
        in->close(in);
        err = b->err != MRD_OK && b->bound->err == MRD_OK
                  ? mrd_why_set(why, b->err, 0, "flows of %s", stream->label)
              : step == MRD_BAD ? mrd_why_err(why)
                                : mrd_stream_finish(stream->bound, why);
    }
    for (size_t i = 0; i < b->n_tracks; i++) {
        free(b->tracks[i].v);
        free(b->tracks[i].next);
        mrd_map_fini(&b->tracks[i].ends);
    }
    free(b->tracks);
    free(b);
    return err;
}

typedef struct {
    mrd_source base;
    mrd_source *raw, *bound;
    /* the next entry of the hidden stream; NULL at its end */
    const mrd_event *next_bound;
    uint64_t pos;
    mrd_event ev;
    mrd_flow flows[BIND_FLOWS_MAX];
} bound_reader;

static mrd_step
bound_peek(bound_reader *reader, mrd_why *why)
{
    mrd_step step = reader->bound->next(reader->bound, &reader->next_bound, why);

    if (step != MRD_MORE)
        reader->next_bound = NULL;
    return step;
}

/* Copies the event, and attaches the flow points that are bound to it. */
static mrd_step
bound_attach(bound_reader *reader, const mrd_event *ev, uint64_t pos, mrd_why *why)
{
    reader->ev = *ev;
    if (ev->flow_count > 0)
        memcpy(reader->flows, ev->flows, ev->flow_count * sizeof(*reader->flows));
    while (reader->next_bound != NULL && (uint64_t) reader->next_bound->ts.ns == pos) {
        reader->flows[reader->ev.flow_count++] =
            (mrd_flow){ .id = reader->next_bound->id,
                        .dir = (mrd_flow_dir) reader->next_bound->flow_dir };
        if (bound_peek(reader, why) == MRD_BAD)
            return MRD_BAD;
    }
    reader->ev.flows = reader->flows;
    return MRD_MORE;
}

static mrd_step
bound_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    bound_reader *reader = (bound_reader *) (void *) self;
    mrd_step step;

    while ((step = reader->raw->next(reader->raw, ret_event, why)) == MRD_MORE) {
        uint64_t pos = reader->pos++;
        bool named = reader->next_bound != NULL && (uint64_t) reader->next_bound->ts.ns == pos;

        if ((*ret_event)->kind == MRD_FLOW) {
            if (named) /* an unbound point is returned as an event of its own */
                return bound_peek(reader, why) == MRD_BAD ? MRD_BAD : MRD_MORE;
            continue;
        }
        if (!named)
            return MRD_MORE;
        step = bound_attach(reader, *ret_event, pos, why);
        *ret_event = &reader->ev;
        return step;
    }
    return step;
}

static void
bound_close(mrd_source *self)
{
    bound_reader *reader = (bound_reader *) (void *) self;

    reader->raw->close(reader->raw);
    reader->bound->close(reader->bound);
    free(reader);
}

mrd_err
mrd_stream_open_bound(mrd_stream *stream, mrd_source *raw, mrd_source **ret_source, mrd_why *why)
{
    bound_reader *reader = calloc(1, sizeof(*reader));
    mrd_err err;

    if (reader == NULL) {
        raw->close(raw);
        return mrd_why_set(why, MRD_NOMEM, 0, "flows of %s", stream->label);
    }
    if ((err = mrd_stream_open_raw(stream->bound, &reader->bound, why)) != MRD_OK) {
        raw->close(raw);
        free(reader);
        return err;
    }
    reader->base = (mrd_source){ .next = bound_next, .close = bound_close };
    reader->raw = raw;
    if (bound_peek(reader, why) == MRD_BAD) {
        bound_close(&reader->base);
        return mrd_why_err(why);
    }
    *ret_source = &reader->base;
    return MRD_OK;
}
