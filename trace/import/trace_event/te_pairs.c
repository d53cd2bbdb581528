/* trace/import/trace_event/te_pairs.c - pairs the begins and ends in a Trace Event file, in order
 * of time. Each pair becomes a span. */
#include "trace/import/trace_event/te_int.h"

/* A stored record is an instant, or a span if it is complete. Three of its members have another
 * meaning: `track` is the index of its line, `flags` its te_part, `bound_ns` the owner of its async
 * id. Async records all have the track LATER_ASYNC, which keeps them in the order of the file. */
#define LATER_ASYNC UINT32_MAX

mrd_err
mrd_te_put(te *import, mrd_event *ev)
{
    if (import->refine != NULL && !import->refine(import, ev)) {
        import->input->records--;
        import->input->unfinished -= ev->kind == MRD_SPAN && ev->dur_ns < 0;
        return MRD_OK;
    }
    return mrd_import_put(import->imp, import->profile, ev);
}

mrd_err
mrd_te_later(te *import, const mrd_event *ev, te_part part, uint32_t line, uint32_t owner)
{
    mrd_event kept = *ev;

    if (import->later == NULL) {
        import->later_store = mrd_store_new(TE_LATER_MEMORY, NULL);
        if (import->later_store == NULL)
            return MRD_NOMEM;
        import->later = mrd_store_stream(import->later_store, 0, mrd_in_name(import->imp->in));
        if (import->later == NULL)
            return MRD_NOMEM;
    }
    kept.kind = part == TE_WHOLE ? MRD_SPAN : MRD_INSTANT;
    kept.flags = (uint8_t) part;
    kept.track = line == TE_NONE ? LATER_ASYNC : line;
    kept.bound_ns = owner == TE_NONE ? 0 : owner;
    return mrd_stream_push(import->later, &kept);
}

/* Returns the direction of a flow arrow's point. Must be called in order of time, because the first
 * point begins the arrow and the last one ends it. */
static mrd_flow_dir
direction(te *import, mrd_flow point)
{
    mrd_map_key key = { point.id, 0, 0 };
    uint32_t left = mrd_map_get(&import->arrows, key);
    bool begun = left != MRD_MAP_NONE && (left & 1) != 0, last;

    if (!import->arrows_by_time || point.dir == MRD_FLOW_START || point.ends != 0)
        return point.dir;
    /* this flow arrow was not counted, because the file has too many arrows */
    if (left == MRD_MAP_NONE)
        return MRD_FLOW_END;
    left = left < 2 ? 0 : left - 2;
    last = point.dir == MRD_FLOW_END || left < 2;
    /* cannot fail, because the entry exists */
    (void) mrd_map_put(&import->arrows, key, begun && last ? left & ~1u : left | 1u);
    return !begun                               ? MRD_FLOW_START
           : last || !import->arrows_are_chains ? MRD_FLOW_END
                                                : MRD_FLOW_STEP;
}

/* Appends the flow arrows of a record to the n elements in import->flows. Returns the new number of
 * elements. */
static uint8_t
add_flows(te *import, uint8_t n, const mrd_event *kept)
{
    for (uint8_t i = 0; i < kept->flow_count && n < TE_FLOWS_MAX; i++) {
        import->flows[n] = kept->flows[i];
        import->flows[n].dir = direction(import, kept->flows[i]);
        import->flows[n].ends = 0;
        n++;
    }
    return n;
}

/* Converts a stored record to an event on the track of its line. A record without a name gets the
 * name "(no name)". */
static mrd_event
as_event(te *import, const mrd_event *kept, mrd_event_kind kind, uint32_t line)
{
    mrd_event ev = *kept;

    ev.kind = (uint8_t) kind;
    ev.flags = 0;
    ev.bound_ns = import->lines.lines[line].bound_ns;
    ev.flow_count = add_flows(import, 0, kept);
    ev.flows = import->flows;
    ev.track = mrd_te_track(&import->lines, line);
    if (ev.name == MRD_SID_EMPTY)
        ev.name = mrd_strtab_addz(import->strings, "(no name)");
    return ev;
}

static mrd_err
begin(te *import, const mrd_event *kept, mrd_open **top, uint32_t line)
{
    mrd_event ev = as_event(import, kept, MRD_SPAN, line);
    mrd_open *open;

    if (import->lines.lines[line].depth == TE_DEPTH_MAX) {
        import->input->records++;
        mrd_import_drop(import->imp, mrd_in_offset(import->imp->in),
                        "more than %u open spans of one line", TE_DEPTH_MAX);
        return MRD_OK;
    }
    if ((open = mrd_open_new(&ev)) == NULL)
        return MRD_NOMEM;
    open->below = *top;
    *top = open;
    import->lines.lines[line].depth++;
    import->input->records++;
    return MRD_OK;
}

/* Emits a span for an end without a begin. Time, name and arguments come from the end. */
static mrd_err
end_alone(te *import, const mrd_event *kept, uint32_t line)
{
    mrd_event ev = as_event(import, kept, MRD_SPAN, line);

    ev.flags = MRD_EV_NO_START;
    if (kept->name == MRD_SID_EMPTY)
        ev.name = import->word_end;
    import->input->records++;
    import->input->no_start++;
    return mrd_te_put(import, &ev);
}

static mrd_err
unfinished(te *import, const mrd_open *open)
{
    mrd_event ev = open->ev;

    ev.dur_ns = MRD_DUR_UNFINISHED;
    import->input->unfinished++;
    return mrd_te_put(import, &ev);
}

static mrd_err
close_span(te *import, const mrd_event *end, const mrd_open *open)
{
    mrd_event ev = open->ev;
    mrd_err err;

    if (__builtin_sub_overflow(end->ts.ns, ev.ts.ns, &ev.dur_ns))
        return unfinished(import, open);
    if (end->flow_count > 0) {
        memcpy(import->flows, open->ev.flows, open->ev.flow_count * sizeof(*import->flows));
        ev.flow_count = add_flows(import, open->ev.flow_count, end);
        ev.flows = import->flows;
    }
    err = mrd_join(&import->joiner, &open->ev, end->args, end->arg_count, &ev.args, &ev.arg_count);
    return err != MRD_OK ? err : mrd_te_put(import, &ev);
}

/* Closes the innermost open span with the name of the end record. If the record has no name, closes
 * the innermost open span. */
static mrd_err
end(te *import, const mrd_event *kept, mrd_open **top, uint32_t line)
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
        return end_alone(import, kept, line);
    open = *at;
    *at = open->below;
    import->lines.lines[line].depth--;
    err = close_span(import, kept, open);
    mrd_open_free(open);
    return err;
}

static mrd_err
mark(te *import, const mrd_event *kept, uint32_t line)
{
    mrd_event_kind kind = kept->flags == TE_WHOLE ? MRD_SPAN : MRD_INSTANT;
    mrd_event ev = as_event(import, kept, kind, line);

    import->input->records++;
    return mrd_te_put(import, &ev);
}

static mrd_err
pair_thread(te *import, const mrd_event *kept)
{
    te_line *line = &import->lines.lines[kept->track];

    switch ((te_part) kept->flags) {
    case TE_BEGIN:
        return begin(import, kept, &line->top, kept->track);
    case TE_END:
        return end(import, kept, &line->top, kept->track);
    case TE_MARK:
    case TE_WHOLE:
        break;
    }
    return mark(import, kept, kept->track);
}

/* Handles the begin, end or mark of an async span. All spans with one async id are on the line on
 * which the outermost one began. */
static mrd_err
pair_async(te *import, const mrd_event *kept)
{
    uint32_t owner = kept->bound_ns, proc = import->lines.owners[owner].proc, line, async;
    mrd_map_key key = { mrd_te_owner_key(&import->lines, owner), kept->category, kept->id };
    mrd_err err = MRD_OK;

    async = mrd_te_async_get(&import->lines, key);
    if (async != TE_NONE)
        line = import->lines.asyncs[async].line;
    else
        err = mrd_te_named_line(&import->lines, TE_ASYNC, proc, kept->name, kept->category, &line);
    if (err == MRD_OK && async == TE_NONE && kept->flags == TE_BEGIN)
        err = mrd_te_async_open(&import->lines, key, line, &async);
    if (err == MRD_LIMIT) {
        import->input->records++;
        mrd_import_drop(import->imp, mrd_in_offset(import->imp->in),
                        "more different async ids and names than are kept");
        return MRD_OK;
    }
    if (err != MRD_OK)
        return err;
    if (kept->flags == TE_MARK)
        return mark(import, kept, line);
    if (async == TE_NONE)
        return end_alone(import, kept, line);
    if (kept->flags == TE_BEGIN)
        return begin(import, kept, &import->lines.asyncs[async].top, line);
    err = end(import, kept, &import->lines.asyncs[async].top, line);
    if (import->lines.asyncs[async].top == NULL)
        mrd_te_async_close(&import->lines, async);
    return err;
}

/* Emits all open spans as unfinished, outermost first, and frees them. If `err` is an error, only
 * frees them. Returns `err`, or an error of its own. */
static mrd_err
flush(te *import, mrd_open **top, mrd_err err)
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
            err = unfinished(import, open);
        mrd_open_free(open);
    }
    return err;
}

mrd_err
mrd_te_pair(te *import, mrd_why *why)
{
    mrd_source *in = NULL;
    const mrd_event *kept;
    mrd_step step;
    mrd_err err;

    if (import->later == NULL)
        return MRD_OK;
    if ((err = mrd_stream_finish(import->later, why)) != MRD_OK ||
        (err = mrd_stream_open(import->later, &in, why)) != MRD_OK)
        return err;
    while (err == MRD_OK && (step = in->next(in, &kept, why)) == MRD_MORE)
        err = kept->track == LATER_ASYNC ? pair_async(import, kept) : pair_thread(import, kept);
    if (err == MRD_OK && step == MRD_BAD)
        err = why != NULL && why->err != MRD_OK ? why->err : MRD_IO;
    in->close(in);
    for (size_t i = 0; i < import->lines.n_lines; i++)
        err = flush(import, &import->lines.lines[i].top, err);
    for (size_t i = 0; i < import->lines.n_asyncs; i++)
        err = flush(import, &import->lines.asyncs[i].top, err);
    return err;
}
