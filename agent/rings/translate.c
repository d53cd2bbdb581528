/* agent/rings/translate.c - converts ring records to events. A record without arguments, and with
 * known name and track (ring_tracks.h), costs two array reads and one call. */
#include <math.h>
#include <stdlib.h>

#include "agent/rings/blobs.h"
#include "agent/rings/drain_int.h"
#include "agent/rings/loss_count.h"
#include "agent/rings/ring_tracks.h"
#include "base/num.h"
#include "trace/import/nrt/import_nrt.h"

static inline uint32_t
source_of(const mrd_ring_event *ev)
{
    return (ev->flags & MRD_RECF_API) != 0 ? MRD_SRC_API : MRD_SRC_ANNOTATION;
}

/* ---- Arguments of events ---- */

static bool
args_ready(mrd_drain *drain, proc *pr)
{
    if (drain->args_catalog != pr->pub.catalog) {
        mrd_args_free(drain->args);
        drain->args = mrd_args_new(mrd_catalog_strings(pr->pub.catalog));
        drain->args_catalog = drain->args == NULL ? NULL : pr->pub.catalog;
    }
    if (drain->args != NULL)
        mrd_args_reset(drain->args);
    return drain->args != NULL;
}

static void
add_arg(mrd_drain *drain, ring *r, const mrd_ring_arg *arg)
{
    mrd_sid key =
        arg->key != 0 ? mrd_drain_sid(r, arg->key) : mrd_drain_intern(r->proc, arg->key_text);

    switch (arg->type) {
    case MRD_ITEM_I64:
        mrd_args_int(drain->args, key, arg->v.i);
        break;
    case MRD_ITEM_U64:
        mrd_args_uint(drain->args, key, arg->v.u);
        break;
    case MRD_ITEM_F64:
        mrd_args_double(drain->args, key, arg->v.d);
        break;
    case MRD_ITEM_BOOL:
        mrd_args_bool(drain->args, key, arg->v.u != 0);
        break;
    case MRD_ITEM_ID:
        mrd_args_sid(drain->args, key, mrd_drain_sid(r, arg->v.id));
        break;
    default:
        mrd_args_str(drain->args, key, arg->v.text);
    }
}

static void
collect(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    mrd_ring_items items = { rec->body, rec->body_len };
    mrd_ring_arg arg;

    while (mrd_ring_item_next(&items, &arg))
        add_arg(drain, r, &arg);
}

static void
collect_again(mrd_drain *drain, const mrd_arg *args, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        switch (args[i].type) {
        case MRD_ARG_INT:
            mrd_args_int(drain->args, args[i].key, args[i].v.i);
            break;
        case MRD_ARG_UINT:
            mrd_args_uint(drain->args, args[i].key, args[i].v.u);
            break;
        case MRD_ARG_DOUBLE:
            mrd_args_double(drain->args, args[i].key, args[i].v.d);
            break;
        case MRD_ARG_BOOL:
            mrd_args_bool(drain->args, args[i].key, args[i].v.u != 0);
            break;
        case MRD_ARG_STR:
            mrd_args_sid(drain->args, args[i].key, args[i].v.sid);
            break;
        default:
            mrd_args_str(drain->args, args[i].key, (mrd_str){ args[i].v.text, args[i].len });
        }
}

static void
use_args(mrd_drain *drain, mrd_event *ev)
{
    size_t n = 0;

    ev->args = mrd_args_view(drain->args, &n);
    ev->arg_count = (uint32_t) n;
}

static inline void
take_args(mrd_drain *drain, ring *r, const mrd_ring_event *rec, mrd_event *ev)
{
    if (rec->body_len == 0 || !args_ready(drain, r->proc))
        return;
    collect(drain, r, rec);
    use_args(drain, ev);
}

/* ---- Each kind of record ---- */

static inline mrd_event
event_of(mrd_drain *drain, ring *r, const mrd_ring_event *rec, mrd_event_kind kind)
{
    return (mrd_event){
        .ts = { mrd_sat_add(rec->ts.ns, r->proc->shift_ns) },
        .kind = (uint8_t) kind,
        .flags = drain->o.simulated ? MRD_EV_SIMULATED : 0,
        .category = rec->domain == 0 ? 0 : mrd_drain_sid(r, rec->domain),
    };
}

static void
give_until(mrd_drain *drain, proc *pr, const mrd_event *ev, mrd_local_ns until)
{
    mrd_ev_ns before = pr->pub.open_until;

    pr->pub.open_until = (mrd_ev_ns){ until.ns };
    mrd_drain_give(drain, pr, MRD_DRAIN_RAW, ev);
    pr->pub.open_until = before;
}

/* Ends a scope that was open when its process exited. If this agent saw the process running, the
 * process exited just now. Otherwise the scope stays open until all rings of the process were read,
 * because the time of their newest record shows how long the process existed at least. */
static void
leave(mrd_drain *drain, proc *pr, const mrd_event *ev)
{
    uint64_t key = mrd_drain_left_key(pr);
    mrd_local_ns now = mrd_local_now();

    drain->counts.begun++;
    if (!pr->seen_alive && mrd_open_spans_add(&pr->open, key, false, now, ev) == MRD_OK) {
        mrd_open_spans_find(&pr->open, key, false)->left = true;
        drain->counts.held++;
    } else {
        give_until(drain, pr, ev, now);
    }
}

static inline mrd_event
span_of(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    mrd_event ev = event_of(drain, r, rec, MRD_SPAN);

    ev.dur_ns = rec->dur_ns < 0 ? MRD_DUR_UNFINISHED : rec->dur_ns;
    ev.name = mrd_drain_name(r, rec);
    ev.track = mrd_drain_track(r, rec->tid, rec->track, source_of(rec), 0);
    return ev;
}

void
mrd_drain_scope(mrd_drain *drain, ring *r, const mrd_ring_event *rec, mrd_event *ret_event)
{
    *ret_event = span_of(drain, r, rec);
}

/* Makes a flow (an arrow in the timeline) from the call that queued an asynchronous request to the
 * runtime's work on it. */
static void
call_arrow(ring *r, mrd_event *ev, mrd_flow *arrow)
{
    proc *pr = r->proc;
    const mrd_arg *seq;

    if (pr->seq_key == MRD_SID_EMPTY)
        pr->seq_key = mrd_strtab_addz(mrd_catalog_strings(pr->pub.catalog), NRT_SEQ_KEY);
    seq = mrd_event_arg(ev, pr->seq_key);
    if (!mrd_nrt_is_seq(seq))
        return;
    *arrow = (mrd_flow){ .id = mrd_nrt_seq_flow(pr->flow_scope, seq->v.u), .dir = MRD_FLOW_START };
    ev->flows = arrow;
    ev->flow_count = 1;
}

static inline void
span(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    mrd_event ev = span_of(drain, r, rec);
    mrd_flow arrow;

    take_args(drain, r, rec, &ev);
    if (source_of(rec) == MRD_SRC_API && ev.arg_count > 0)
        call_arrow(r, &ev, &arrow);
    if (rec->dur_ns < 0)
        leave(drain, r->proc, &ev);
    else
        mrd_drain_give_new(drain, r->proc, &ev);
}

static void
remember(mrd_drain *drain, proc *pr, uint64_t key, bool early, const mrd_event *ev)
{
    drain->counts.begun++;
    if (mrd_open_spans_add(&pr->open, key, early, mrd_local_now(), ev) != MRD_OK) {
        drain->counts.dropped[MRD_DROP_LIMIT]++;
    } else {
        drain->counts.held++;
        mrd_open_spans_find(&pr->open, key, early)->lost = pr->lost;
    }
}

static bool
has_key(const mrd_event *ev, mrd_sid key)
{
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (ev->args[i].key == key)
            return true;
    }
    return false;
}

/* Emits one span from a start and an end, with the arguments of both. If both have an argument of
 * the same name, the end's value is used. */
static void
complete(mrd_drain *drain, proc *pr, const mrd_event *start, const mrd_event *end)
{
    mrd_event ev = *start;

    ev.dur_ns = mrd_ev_after(end->ts, start->ts) ? mrd_ev_diff(end->ts, start->ts) : 0;
    if (end->arg_count > 0 && args_ready(drain, pr)) {
        for (uint32_t i = 0; i < start->arg_count; i++) {
            if (!has_key(end, start->args[i].key))
                collect_again(drain, &start->args[i], 1);
        }
        collect_again(drain, end->args, end->arg_count);
        use_args(drain, &ev);
    }
    drain->counts.held--;
    mrd_drain_give(drain, pr, MRD_DRAIN_RAW, &ev);
}

static void
remember_begin(mrd_drain *drain, proc *pr, uint64_t key, uint32_t source, const mrd_event *ev)
{
    mrd_open_span *span = mrd_open_spans_find(&pr->open, key, false);

    if (span != NULL && span->saved && span->ev.ts.ns == ev->ts.ns)
        return; /* nothing to do, because the log of open spans has already restored this span */
    remember(drain, pr, key, false, ev);
    if (MRD_LINE(source) == MRD_LINE_MODELS &&
        (span = mrd_open_spans_find(&pr->open, key, false)) != NULL)
        span->model = true;
}

static void
begin(mrd_drain *drain, ring *r, const mrd_ring_event *rec, uint64_t key, uint32_t source,
      mrd_sid name)
{
    mrd_open_span *early = mrd_open_spans_find(&r->proc->open, key, true);
    mrd_event ev = event_of(drain, r, rec, MRD_SPAN);
    mrd_open_span *copy;

    ev.dur_ns = MRD_DUR_UNFINISHED;
    ev.name = name;
    ev.id = rec->value;
    ev.track = mrd_drain_track(r, rec->tid, rec->track, source, 0);
    take_args(drain, r, rec, &ev);
    if (early == NULL) {
        remember_begin(drain, r->proc, key, source, &ev);
        return;
    }
    mrd_open_spans_take(&r->proc->open, early);
    /* Copy the start and its arguments first, because complete() overwrites the scratch memory that
     * has the arguments. */
    if (mrd_open_spans_add(&r->proc->open, key, false, (mrd_local_ns){ 0 }, &ev) == MRD_OK) {
        copy = mrd_open_spans_find(&r->proc->open, key, false);
        mrd_open_spans_take(&r->proc->open, copy);
        complete(drain, r->proc, &copy->ev, &early->ev);
        free(copy);
    } else {
        drain->counts.held--;
        drain->counts.dropped[MRD_DROP_LIMIT]++;
    }
    free(early);
}

static void
end(mrd_drain *drain, ring *r, const mrd_ring_event *rec, uint64_t key, uint32_t source)
{
    mrd_open_span *start = mrd_open_spans_find(&r->proc->open, key, false);
    mrd_event ev = event_of(drain, r, rec, MRD_SPAN);
    mrd_open_span *copy;

    ev.name = mrd_drain_name(r, rec);
    ev.id = rec->value;
    ev.flags |= MRD_EV_NO_START;
    ev.track = mrd_drain_track(r, rec->tid, rec->track, source, 0);
    take_args(drain, r, rec, &ev);
    if (start == NULL) {
        remember(drain, r->proc, key, true, &ev);
        if (MRD_LINE(source) == MRD_LINE_MODELS &&
            (start = mrd_open_spans_find(&r->proc->open, key, true)) != NULL)
            start->model = true;
        return;
    }
    mrd_open_spans_take(&r->proc->open, start);
    if (ev.arg_count == 0) {
        complete(drain, r->proc, &start->ev, &ev);
    } else if (mrd_open_spans_add(&r->proc->open, key, true, (mrd_local_ns){ 0 }, &ev) == MRD_OK) {
        copy = mrd_open_spans_find(&r->proc->open, key, true);
        mrd_open_spans_take(&r->proc->open, copy);
        complete(drain, r->proc, &start->ev, &copy->ev);
        free(copy);
    } else {
        drain->counts.held--;
        drain->counts.dropped[MRD_DROP_LIMIT]++;
    }
    free(start);
}

static void
instant(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    static const uint32_t line[] = { MRD_LINE_THREAD, MRD_LINE_PROCESS, MRD_LINE_GLOBAL,
                                     MRD_LINE_THREAD };
    mrd_event ev = event_of(drain, r, rec, MRD_INSTANT);
    uint32_t scope = (uint32_t) rec->flags >> MRD_RECF_SHIFT & 3;
    bool own = line[scope] == MRD_LINE_THREAD;

    ev.id = rec->value;
    ev.name = mrd_drain_name(r, rec);
    ev.track =
        mrd_drain_track(r, own ? rec->tid : 0, rec->track, MRD_SRC_ANNOTATION | line[scope], 0);
    take_args(drain, r, rec, &ev);
    mrd_drain_give_new(drain, r->proc, &ev);
}

static void
counter(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    mrd_event ev = event_of(drain, r, rec, MRD_COUNTER);
    unsigned type = (unsigned) rec->flags >> MRD_RECF_SHIFT;

    if (type == MRD_REC_F64) {
        memcpy(&ev.value, &rec->value, sizeof(ev.value));
        if (!isfinite(ev.value)) {
            drain->counts.begun++;
            drain->counts.dropped[MRD_DROP_LIMIT]++;
            return;
        }
    } else {
        ev.ivalue = (int64_t) rec->value;
        ev.flags |= MRD_EV_INT | (type == MRD_REC_U64 ? MRD_EV_UNSIGNED : 0);
    }
    /* A counter uses its own track, or else a track with the counter's name. */
    if (rec->track == 0 && rec->name == 0) {
        mrd_track track;

        mrd_track_init(&track, r->proc->pub.id, MRD_SRC_ANNOTATION);
        track.kind = MRD_TRACK_COUNTER;
        track.name = mrd_drain_name(r, rec);
        ev.track = mrd_catalog_track(r->proc->pub.catalog, &track);
    } else {
        ev.track = mrd_drain_track(r, 0, rec->track, MRD_SRC_ANNOTATION | MRD_LINE_COUNTER,
                                   rec->track == 0 ? rec->name : 0);
    }
    mrd_drain_give_new(drain, r->proc, &ev);
}

static void
flow(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    static const mrd_flow_dir dirs[] = { MRD_FLOW_START, MRD_FLOW_STEP, MRD_FLOW_END,
                                         MRD_FLOW_STEP };
    mrd_event ev = event_of(drain, r, rec, MRD_FLOW);

    ev.flow_dir = (uint8_t) dirs[(unsigned) rec->flags >> MRD_RECF_SHIFT & 3];
    ev.id = mrd_flow_id(r->proc->flow_scope, 0, rec->value);
    ev.name = mrd_drain_name(r, rec);
    /* Do not use source_of() here. It tests a flag bit that means "API call" in a span, but "step"
     * in a flow. */
    ev.track = mrd_drain_track(r, rec->tid, rec->track, MRD_SRC_ANNOTATION, 0);
    mrd_drain_give_new(drain, r->proc, &ev);
}

/* Emits a span for the time in which a model is loaded. All models of a process share a track. */
static void
model(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    uint64_t key = mrd_drain_model_key(rec->value);
    uint32_t source = MRD_SRC_API | MRD_LINE_MODELS;
    mrd_ring_event line = *rec;

    line.tid = 0;
    line.track = 0;
    if (drain->o.model != NULL) {
        mrd_event ev = event_of(drain, r, rec, MRD_INSTANT);

        ev.name = mrd_drain_name(r, rec);
        take_args(drain, r, rec, &ev);
        drain->o.model(drain->o.self, &r->proc->pub, rec->value,
                       (rec->flags & MRD_RECF_UNLOAD) == 0, &ev);
    }
    if ((rec->flags & MRD_RECF_UNLOAD) != 0)
        end(drain, r, &line, key, source);
    else
        begin(drain, r, &line, key, source, mrd_drain_name(r, rec));
}

/* Adds the labels that a process reports about itself to the labels of the process. */
static void
add_labels(const mrd_drain_process *process, mrd_str labels)
{
    mrd_process *p = mrd_catalog_borrow_process(process->catalog, process->id);
    mrd_str have = mrd_catalog_text(process->catalog, p->labels);
    mrd_buf all = { 0 };

    mrd_buf_str(&all, labels);
    if (labels.len > 0 && !mrd_str_has(have, mrd_buf_cstr(&all))) {
        mrd_buf_reset(&all);
        mrd_buf_fmt(&all, MRD_STR_FMT "%s" MRD_STR_FMT, MRD_STR_ARG(have), have.len > 0 ? "," : "",
                    MRD_STR_ARG(labels));
        p->labels = mrd_catalog_intern(process->catalog, mrd_buf_cstr(&all));
    }
    mrd_buf_fini(&all);
}

static void
notice(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    const mrd_catalog *cat = r->proc->pub.catalog;
    mrd_event ev = event_of(drain, r, rec, MRD_INSTANT);

    ev.name = mrd_drain_name(r, rec);
    ev.track = mrd_drain_track(r, rec->tid, 0, MRD_SRC_MERIDIAN | MRD_LINE_OWN, 0);
    take_args(drain, r, rec, &ev);
    for (uint32_t i = 0; i < ev.arg_count; i++) {
        if (mrd_str_is(mrd_catalog_text(cat, ev.args[i].key), "labels"))
            add_labels(&r->proc->pub, mrd_arg_text(mrd_catalog_strings(cat), &ev.args[i]));
    }
    mrd_drain_notice(drain, r->proc, &ev);
}

/* ---- Functions that the drain calls for each record ---- */

void
mrd_drain_record(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    drain->counts.records++;
    switch (rec->kind) {
    case MRD_REC_SPAN:
        span(drain, r, rec);
        break;
    case MRD_REC_BEGIN:
        begin(drain, r, rec, rec->value, source_of(rec), mrd_drain_name(r, rec));
        break;
    case MRD_REC_END:
        end(drain, r, rec, rec->value, source_of(rec));
        break;
    case MRD_REC_INSTANT:
        instant(drain, r, rec);
        break;
    case MRD_REC_COUNTER:
        counter(drain, r, rec);
        break;
    case MRD_REC_FLOW:
        flow(drain, r, rec);
        break;
    case MRD_REC_BLOB:
        mrd_drain_blob_chunk(drain, r, rec);
        break;
    case MRD_REC_MODEL:
        model(drain, r, rec);
        break;
    case MRD_REC_NOTICE:
        notice(drain, r, rec);
        break;
    default: /* the ring reader returns no other kind of record */
        break;
    }
}

/* Fast variant of span() and counter(), for records whose name and track are in the ring's tables.
 * Returns false for other records. */
static inline bool
plain_event(const ring *r, const mrd_ring_rec *rec, int32_t tid, mrd_event *ev)
{
    bool is_counter = rec->kind == MRD_REC_COUNTER;
    unsigned type = (unsigned) rec->flags >> MRD_RECF_SHIFT;
    uint32_t source = (rec->flags & MRD_RECF_API) != 0 ? MRD_SRC_API : MRD_SRC_ANNOTATION;
    ring_track want = { .tid = tid, .track = rec->track, .source = source };
    const ring_track *have;

    if (rec->name >= r->n_names || r->names[rec->name] == 0 || rec->domain >= r->n_names ||
        (rec->domain != 0 && r->names[rec->domain] == 0))
        return false;
    if (is_counter) {
        if (type == MRD_REC_F64)
            return false;
        want = (ring_track){ .track = rec->track,
                             .source = MRD_SRC_ANNOTATION | MRD_LINE_COUNTER,
                             .name = rec->track == 0 ? rec->name : 0 };
    } else if (rec->kind != MRD_REC_SPAN) {
        return false;
    }
    have = &r->last_track[is_counter];
    if (!have->used || !mrd_drain_same_line(have, &want)) {
        if ((have = mrd_drain_track_find(r, &want)) == NULL)
            return false;
    }
    ev->track = have->id;
    ev->name = is_counter ? 0 : r->names[rec->name]; /* a counter has the name of its track */
    ev->category = rec->domain == 0 ? 0 : r->names[rec->domain];
    ev->kind = is_counter ? MRD_COUNTER : MRD_SPAN;
    ev->ivalue = is_counter ? (int64_t) rec->value : 0;
    ev->flags &= (uint8_t) ~(MRD_EV_INT | MRD_EV_UNSIGNED);
    if (is_counter)
        ev->flags |= MRD_EV_INT | (type == MRD_REC_U64 ? MRD_EV_UNSIGNED : 0);
    return true;
}

static void
plain_other(mrd_drain *drain, ring *r, const mrd_ring_rec *rec, int64_t ts_ns, int64_t dur_ns,
            int32_t tid)
{
    mrd_ring_event ev = { .kind = rec->kind,
                          .flags = rec->flags,
                          .units = rec->units,
                          .name = rec->name,
                          .domain = rec->domain,
                          .track = rec->track,
                          .value = rec->value,
                          .ts = { ts_ns },
                          .dur_ns = dur_ns,
                          .tid = tid };

    mrd_drain_record(drain, r, &ev);
}

uint64_t
mrd_drain_plain(mrd_drain *drain, ring *r, uint64_t most)
{
    mrd_ring_window *place = mrd_ring_borrow_window(r->reader), window = *place;
    mrd_event ev = { .flags = drain->o.simulated ? MRD_EV_SIMULATED : 0 };
    mrd_ring_rec rec;
    int64_t ts_ns, dur_ns;
    uint64_t n = 0;

    while (n < most && mrd_ring_plain(&window, &rec, &ts_ns, &dur_ns)) {
        n++;
        if (!plain_event(r, &rec, window.tid, &ev)) {
            plain_other(drain, r, &rec, ts_ns, dur_ns, window.tid);
            continue;
        }
        drain->counts.records++;
        ev.ts = (mrd_ev_ns){ mrd_sat_add(ts_ns, r->proc->shift_ns) };
        ev.dur_ns = dur_ns;
        mrd_drain_give_new(drain, r->proc, &ev);
    }
    *place = window;
    return n;
}

void
mrd_drain_loss(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    mrd_local_ns first = { mrd_sat_add(rec->ts.ns, r->proc->shift_ns) };

    mrd_drain_lost(drain, r->proc, mrd_drain_cause(rec->flags), rec->value, first,
                   (mrd_local_ns){ mrd_sat_add(first.ns, rec->dur_ns) });
}
