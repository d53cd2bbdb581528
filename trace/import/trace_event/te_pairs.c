/* Pairs begins and ends of a Trace Event file to spans, in order of their times. */
#include "trace/import/trace_event/te_int.h"

/* In this store a record is an instant. `track` is its line, `flags` its te_part, `bound_ns` the
 * owner of its async id. All async records have one track, so that they keep the file's order. */
#define LATER_ASYNC UINT32_MAX

mrd_err
mrd_te_put(te *t, mrd_event *ev)
{
    if (t->refine != NULL && !t->refine(t, ev)) {
        t->input->records--;
        t->input->unfinished -= ev->kind == MRD_SPAN && ev->dur_ns < 0;
        return MRD_OK;
    }
    return mrd_import_put(t->imp, t->profile, ev);
}

mrd_err
mrd_te_later(te *t, const mrd_event *ev, te_part part, uint32_t line, uint32_t owner)
{
    mrd_event kept = *ev;

    if (t->later == NULL) {
        t->later_store = mrd_store_new(TE_LATER_MEMORY, NULL);
        if (t->later_store == NULL)
            return MRD_NOMEM;
        t->later = mrd_store_stream(t->later_store, 0, mrd_in_name(t->imp->in));
        if (t->later == NULL)
            return MRD_NOMEM;
    }
    kept.kind = part == TE_WHOLE ? MRD_SPAN : MRD_INSTANT;
    kept.flags = (uint8_t) part;
    kept.track = line == TE_NONE ? LATER_ASYNC : line;
    kept.bound_ns = owner == TE_NONE ? 0 : owner;
    return mrd_stream_push(t->later, &kept);
}

/* Returns the direction of the next point of an arrow, in order of time. */
static mrd_flow_dir
direction(te *t, mrd_flow point)
{
    mrd_map_key key = { point.id, 0, 0 };
    uint32_t left = mrd_map_get(&t->arrows, key);
    bool begun = left != MRD_MAP_NONE && (left & 1) != 0, last;

    if (!t->arrows_by_time || point.dir == MRD_FLOW_START || point.ends != 0)
        return point.dir;
    if (left == MRD_MAP_NONE) /* beyond the number of arrows that are counted */
        return MRD_FLOW_END;
    left = left < 2 ? 0 : left - 2;
    last = point.dir == MRD_FLOW_END || left < 2;
    /* This replaces an entry, which needs no memory. */
    (void) mrd_map_put(&t->arrows, key, begun && last ? left & ~1u : left | 1u);
    return !begun ? MRD_FLOW_START : last || !t->arrows_are_chains ? MRD_FLOW_END : MRD_FLOW_STEP;
}

/* Adds the arrows of a record to the n in t->flows. Returns their number. */
static uint8_t
add_flows(te *t, uint8_t n, const mrd_event *kept)
{
    for (uint8_t i = 0; i < kept->flow_count && n < TE_FLOWS_MAX; i++) {
        t->flows[n] = kept->flows[i];
        t->flows[n].dir = direction(t, kept->flows[i]);
        t->flows[n].ends = 0;
        n++;
    }
    return n;
}

/* Returns the kept record as an event on its line. Spans need a name, so a missing one is
 * replaced. */
static mrd_event
as_event(te *t, const mrd_event *kept, mrd_event_kind kind, uint32_t line)
{
    mrd_event ev = *kept;

    ev.kind = (uint8_t) kind;
    ev.flags = 0;
    ev.bound_ns = t->lines.lines[line].bound_ns;
    ev.flow_count = add_flows(t, 0, kept);
    ev.flows = t->flows;
    ev.track = mrd_te_track(&t->lines, line);
    if (ev.name == MRD_SID_EMPTY)
        ev.name = mrd_strtab_addz(t->strings, "(no name)");
    return ev;
}

static mrd_err
begin(te *t, const mrd_event *kept, mrd_open **top, uint32_t line)
{
    mrd_event ev = as_event(t, kept, MRD_SPAN, line);
    mrd_open *open;

    if (t->lines.lines[line].depth == TE_DEPTH_MAX) {
        t->input->records++;
        mrd_import_drop(t->imp, mrd_in_offset(t->imp->in), "more than %u open spans of one line",
                        TE_DEPTH_MAX);
        return MRD_OK;
    }
    if ((open = mrd_open_new(&ev)) == NULL)
        return MRD_NOMEM;
    open->below = *top;
    *top = open;
    t->lines.lines[line].depth++;
    t->input->records++;
    return MRD_OK;
}

/* Emits an end without its begin, at its time, with the facts that it states. */
static mrd_err
end_alone(te *t, const mrd_event *kept, uint32_t line)
{
    mrd_event ev = as_event(t, kept, MRD_SPAN, line);

    ev.flags = MRD_EV_NO_START;
    if (kept->name == MRD_SID_EMPTY)
        ev.name = t->word_end;
    t->input->records++;
    t->input->no_start++;
    return mrd_te_put(t, &ev);
}

static mrd_err
unfinished(te *t, const mrd_open *open)
{
    mrd_event ev = open->ev;

    ev.dur_ns = MRD_DUR_UNFINISHED;
    t->input->unfinished++;
    return mrd_te_put(t, &ev);
}

static mrd_err
close_span(te *t, const mrd_event *end, const mrd_open *open)
{
    mrd_event ev = open->ev;
    mrd_err err;

    if (__builtin_sub_overflow(end->ts.ns, ev.ts.ns, &ev.dur_ns))
        return unfinished(t, open);
    if (end->flow_count > 0) {
        memcpy(t->flows, open->ev.flows, open->ev.flow_count * sizeof(*t->flows));
        ev.flow_count = add_flows(t, open->ev.flow_count, end);
        ev.flows = t->flows;
    }
    err = mrd_join(&t->joiner, &open->ev, end->args, end->arg_count, &ev.args, &ev.arg_count);
    return err != MRD_OK ? err : mrd_te_put(t, &ev);
}

/* Closes the innermost span with the end's name, or the innermost span if the end has no name. */
static mrd_err
end(te *t, const mrd_event *kept, mrd_open **top, uint32_t line)
{
    mrd_open **at = top, *open;
    mrd_err err;

    for (unsigned n = 0; *at != NULL && kept->name != MRD_SID_EMPTY; at = &(*at)->below) {
        if ((*at)->ev.name == kept->name)
            break;
        if (++n == TE_LOOK_DOWN) {
            at = NULL;
            break;
        }
    }
    if (at == NULL || *at == NULL)
        return end_alone(t, kept, line);
    open = *at;
    *at = open->below;
    t->lines.lines[line].depth--;
    err = close_span(t, kept, open);
    mrd_open_free(open);
    return err;
}

static mrd_err
mark(te *t, const mrd_event *kept, uint32_t line)
{
    mrd_event_kind kind = kept->flags == TE_WHOLE ? MRD_SPAN : MRD_INSTANT;
    mrd_event ev = as_event(t, kept, kind, line);

    t->input->records++;
    return mrd_te_put(t, &ev);
}

static mrd_err
pair_thread(te *t, const mrd_event *kept)
{
    te_line *l = &t->lines.lines[kept->track];

    switch ((te_part) kept->flags) {
    case TE_BEGIN:
        return begin(t, kept, &l->top, kept->track);
    case TE_END:
        return end(t, kept, &l->top, kept->track);
    case TE_MARK:
    case TE_WHOLE:
        break;
    }
    return mark(t, kept, kept->track);
}

/* Async spans of one id share the line on which the outermost of them began. */
static mrd_err
pair_async(te *t, const mrd_event *kept)
{
    uint32_t owner = kept->bound_ns, proc = t->lines.owners[owner].proc, line, async;
    mrd_map_key key = { mrd_te_owner_key(&t->lines, owner), kept->category, kept->id };
    mrd_err err = MRD_OK;

    async = mrd_te_async_get(&t->lines, key);
    if (async != TE_NONE)
        line = t->lines.asyncs[async].line;
    else
        err = mrd_te_named_line(&t->lines, TE_ASYNC, proc, kept->name, kept->category, &line);
    if (err == MRD_OK && async == TE_NONE && kept->flags == TE_BEGIN)
        err = mrd_te_async_open(&t->lines, key, line, &async);
    if (err == MRD_LIMIT) {
        t->input->records++;
        mrd_import_drop(t->imp, mrd_in_offset(t->imp->in),
                        "more different async ids and names than are kept");
        return MRD_OK;
    }
    if (err != MRD_OK)
        return err;
    if (kept->flags == TE_MARK)
        return mark(t, kept, line);
    if (async == TE_NONE)
        return end_alone(t, kept, line);
    if (kept->flags == TE_BEGIN)
        return begin(t, kept, &t->lines.asyncs[async].top, line);
    err = end(t, kept, &t->lines.asyncs[async].top, line);
    if (t->lines.asyncs[async].top == NULL)
        mrd_te_async_close(&t->lines, async);
    return err;
}

/* Emits the open spans, outermost first. After an error they are only freed. */
static mrd_err
flush(te *t, mrd_open **top, mrd_err err)
{
    mrd_open *reversed = NULL;

    while (*top != NULL) {
        mrd_open *open = *top;

        *top = open->below;
        open->below = reversed;
        reversed = open;
    }
    while (reversed != NULL) {
        mrd_open *open = reversed;

        reversed = open->below;
        if (err == MRD_OK)
            err = unfinished(t, open);
        mrd_open_free(open);
    }
    return err;
}

mrd_err
mrd_te_pair(te *t, mrd_why *why)
{
    mrd_source *in = NULL;
    const mrd_event *kept;
    mrd_step step;
    mrd_err err;

    if (t->later == NULL)
        return MRD_OK;
    if ((err = mrd_stream_finish(t->later, why)) != MRD_OK ||
        (err = mrd_stream_open(t->later, &in, why)) != MRD_OK)
        return err;
    while (err == MRD_OK && (step = in->next(in, &kept, why)) == MRD_MORE)
        err = kept->track == LATER_ASYNC ? pair_async(t, kept) : pair_thread(t, kept);
    if (err == MRD_OK && step == MRD_BAD)
        err = why != NULL && why->err != MRD_OK ? why->err : MRD_IO;
    in->close(in);
    for (size_t i = 0; i < t->lines.n_lines; i++)
        err = flush(t, &t->lines.lines[i].top, err);
    for (size_t i = 0; i < t->lines.n_asyncs; i++)
        err = flush(t, &t->lines.asyncs[i].top, err);
    return err;
}
