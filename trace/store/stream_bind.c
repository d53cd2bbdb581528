/*
 * Binding of flow points. A point may lie inside a span that began long before it, so the binding
 * is found in a pass of its own: every event has a position in the sorted stream, and a second,
 * hidden stream holds (position of the target, flow), which the store sorts and bounds like any
 * other. A point that stays alone is an MRD_INSTANT at its own position there.
 */
#include <stdlib.h>

#include "trace/store/stream_int.h"

#define BIND_FLOWS_MAX 255 /* mrd_event.flow_count is 8 bits */

typedef struct {
    int64_t end_ns;
    uint64_t pos;
    uint32_t flows;
} bind_span;

/* Spans of one track in order of their start; those that ended stay until room is needed. */
typedef struct {
    bind_span *v;
    size_t n, cap;
} bind_track;

typedef struct {
    mrd_stream *bound;
    bind_track *tracks;
    size_t n_tracks;
    /* Points at one time of one track, until all that begins there was seen. */
    int64_t at_ns;
    mrd_track_id at_track;
    size_t waiting;
    mrd_flow flow[BIND_FLOWS_MAX];
    uint64_t flow_pos[BIND_FLOWS_MAX];
    bind_span exact; /* what begins there, innermost so far */
    bool has_exact, exact_is_span;
    mrd_err err;
} binder;

static bind_track *
bind_track_at(binder *b, mrd_track_id id)
{
    if (id >= b->n_tracks) {
        size_t n = (size_t) id + 1 > b->n_tracks * 2 ? (size_t) id + 1 : b->n_tracks * 2;
        bind_track *v = realloc(b->tracks, n * sizeof(*v));

        if (v == NULL)
            return NULL;
        memset(v + b->n_tracks, 0, (n - b->n_tracks) * sizeof(*v));
        b->tracks = v;
        b->n_tracks = n;
    }
    return &b->tracks[id];
}

static void
bind_forget_ended(bind_track *t, int64_t now_ns)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->n; i++) {
        if (t->v[i].end_ns >= now_ns)
            t->v[kept++] = t->v[i];
    }
    t->n = kept;
}

static void
bind_open(binder *b, const mrd_event *ev, uint64_t pos)
{
    bind_track *t = bind_track_at(b, ev->track);

    while (t != NULL && t->n > 0 && t->v[t->n - 1].end_ns < ev->ts_ns)
        t->n--;
    if (t != NULL && t->n == t->cap)
        bind_forget_ended(t, ev->ts_ns);
    if (t != NULL && t->n > t->cap / 2) {
        size_t cap = t->cap * 2;
        bind_span *v = realloc(t->v, cap * sizeof(*v));

        if (v == NULL)
            t = NULL;
        else
            t->v = v, t->cap = cap;
    } else if (t != NULL && t->cap == 0) {
        if ((t->v = malloc(8 * sizeof(*t->v))) != NULL)
            t->cap = 8;
        else
            t = NULL;
    }
    if (t == NULL) {
        b->err = MRD_NOMEM;
        return;
    }
    t->v[t->n++] = (bind_span){ mrd_event_end(ev), pos, ev->flow_count };
}

/* The innermost span that contains the time; one that ends there only when no other does. */
static bind_span *
bind_enclosing(bind_track *t, int64_t at_ns)
{
    bind_span *touching = NULL;

    for (size_t i = t->n; i-- > 0;) {
        if (t->v[i].end_ns > at_ns)
            return &t->v[i];
        if (t->v[i].end_ns == at_ns && touching == NULL)
            touching = &t->v[i];
    }
    return touching;
}

static void
bind_push(binder *b, uint8_t kind, uint64_t pos, mrd_flow flow)
{
    mrd_event ev = {
        .ts_ns = (int64_t) pos, .kind = kind, .id = flow.id, .flow_dir = (uint8_t) flow.dir
    };

    if (b->err == MRD_OK)
        b->err = mrd_stream_push(b->bound, &ev);
}

/* All that begins at the time of the waiting points is known: attach them. */
static void
bind_resolve(binder *b)
{
    bind_track *t = bind_track_at(b, b->at_track);
    bind_span *target = NULL;

    if (t == NULL)
        b->err = MRD_NOMEM;
    else if (!b->has_exact)
        target = bind_enclosing(t, b->at_ns);
    else
        target = b->exact_is_span ? &t->v[t->n - 1] : &b->exact;
    for (size_t i = 0; i < b->waiting; i++) {
        if (target != NULL && target->flows < BIND_FLOWS_MAX) {
            target->flows++;
            bind_push(b, MRD_FLOW, target->pos, b->flow[i]);
        } else {
            bind_push(b, MRD_INSTANT, b->flow_pos[i], b->flow[i]);
        }
    }
    b->waiting = 0;
    b->has_exact = false;
}

static void
bind_point(binder *b, const mrd_event *ev, uint64_t pos)
{
    mrd_flow flow = { ev->id, (mrd_flow_dir) ev->flow_dir };

    if (b->waiting == BIND_FLOWS_MAX) {
        bind_push(b, MRD_INSTANT, pos, flow);
        return;
    }
    b->at_ns = ev->ts_ns;
    b->at_track = ev->track;
    b->flow[b->waiting] = flow;
    b->flow_pos[b->waiting++] = pos;
}

static void
bind_event(binder *b, const mrd_event *ev, uint64_t pos)
{
    if (b->waiting > 0 && (ev->ts_ns != b->at_ns || ev->track != b->at_track))
        bind_resolve(b);
    if (ev->kind == MRD_FLOW)
        bind_point(b, ev, pos);
    if (ev->kind == MRD_SPAN)
        bind_open(b, ev, pos);
    if (b->waiting > 0 && (ev->kind == MRD_SPAN || ev->kind == MRD_INSTANT)) {
        b->exact = (bind_span){ ev->ts_ns, pos, ev->flow_count };
        b->exact_is_span = ev->kind == MRD_SPAN;
        b->has_exact = true;
    }
}

mrd_err
mrd_stream_bind(mrd_stream *s, mrd_why *why)
{
    binder *b = calloc(1, sizeof(*b));
    mrd_source *in = NULL;
    const mrd_event *ev;
    mrd_step step = MRD_BAD;
    mrd_err err;

    if (b == NULL || (s->bound = mrd_stream_new(s->store, s->label)) == NULL) {
        free(b);
        return mrd_why_set(why, MRD_NOMEM, 0, "flows of %s", s->label);
    }
    b->bound = s->bound;
    if ((err = mrd_stream_open_raw(s, &in, why)) == MRD_OK) {
        for (uint64_t pos = 0; b->err == MRD_OK && (step = in->next(in, &ev, why)) == MRD_MORE;
             pos++)
            bind_event(b, ev, pos);
        if (b->waiting > 0)
            bind_resolve(b);
        in->close(in);
        err = b->err != MRD_OK && b->bound->err == MRD_OK
                  ? mrd_why_set(why, b->err, 0, "flows of %s", s->label)
              : step == MRD_BAD ? mrd_why_err(why)
                                : mrd_stream_finish(s->bound, why);
    }
    for (size_t i = 0; i < b->n_tracks; i++)
        free(b->tracks[i].v);
    free(b->tracks);
    free(b);
    return err;
}

typedef struct {
    mrd_source base;
    mrd_source *raw, *bound;
    const mrd_event *next_bound; /* NULL at the end */
    uint64_t pos;
    mrd_event ev;
    mrd_flow flows[BIND_FLOWS_MAX];
} bound_reader;

static mrd_step
bound_peek(bound_reader *r, mrd_why *why)
{
    mrd_step step = r->bound->next(r->bound, &r->next_bound, why);

    if (step != MRD_MORE)
        r->next_bound = NULL;
    return step;
}

/* Attaches the flows of the present position to a copy of the event. */
static mrd_step
bound_attach(bound_reader *r, const mrd_event *ev, uint64_t pos, mrd_why *why)
{
    r->ev = *ev;
    if (ev->flow_count > 0)
        memcpy(r->flows, ev->flows, ev->flow_count * sizeof(*r->flows));
    while (r->next_bound != NULL && (uint64_t) r->next_bound->ts_ns == pos) {
        r->flows[r->ev.flow_count++] =
            (mrd_flow){ r->next_bound->id, (mrd_flow_dir) r->next_bound->flow_dir };
        if (bound_peek(r, why) == MRD_BAD)
            return MRD_BAD;
    }
    r->ev.flows = r->flows;
    return MRD_MORE;
}

static mrd_step
bound_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    bound_reader *r = (bound_reader *) (void *) self;
    mrd_step step;

    while ((step = r->raw->next(r->raw, ret_event, why)) == MRD_MORE) {
        uint64_t pos = r->pos++;
        bool named = r->next_bound != NULL && (uint64_t) r->next_bound->ts_ns == pos;

        if ((*ret_event)->kind == MRD_FLOW) {
            if (named) /* stays alone */
                return bound_peek(r, why) == MRD_BAD ? MRD_BAD : MRD_MORE;
            continue;
        }
        if (!named)
            return MRD_MORE;
        step = bound_attach(r, *ret_event, pos, why);
        *ret_event = &r->ev;
        return step;
    }
    return step;
}

static void
bound_close(mrd_source *self)
{
    bound_reader *r = (bound_reader *) (void *) self;

    r->raw->close(r->raw);
    r->bound->close(r->bound);
    free(r);
}

mrd_err
mrd_stream_open_bound(mrd_stream *s, mrd_source *raw, mrd_source **ret_source, mrd_why *why)
{
    bound_reader *r = calloc(1, sizeof(*r));
    mrd_err err;

    if (r == NULL) {
        raw->close(raw);
        return mrd_why_set(why, MRD_NOMEM, 0, "flows of %s", s->label);
    }
    if ((err = mrd_stream_open_raw(s->bound, &r->bound, why)) != MRD_OK) {
        raw->close(raw);
        free(r);
        return err;
    }
    r->base = (mrd_source){ .next = bound_next, .close = bound_close };
    r->raw = raw;
    if (bound_peek(r, why) == MRD_BAD) {
        bound_close(&r->base);
        return mrd_why_err(why);
    }
    *ret_source = &r->base;
    return MRD_OK;
}
