/*
 * agent/translate.c - ring records to events. Names and tracks are looked up once per ring and id;
 * after that a record without arguments costs two array reads and one call.
 */
#include <math.h>
#include <stdlib.h>

#include "agent/drain_int.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/import/import_nrt.h"

/* ---- Counting ---- */

static inline void
give(mrd_drain *p, proc *pr, unsigned clock, const mrd_event *ev)
{
    mrd_err err = p->o.event(p->o.self, &pr->pub, clock, ev);

    if (err == MRD_OK && ev->kind != MRD_LOSS)
        p->counts.events++;
    else if (err == MRD_OK)
        p->counts.losses++;
    else if (ev->kind != MRD_LOSS)
        p->counts
            .dropped[err == MRD_LIMIT || err == MRD_INVALID ? MRD_DROP_LIMIT : MRD_DROP_MEMORY]++;
}

void
mrd_drain_give(mrd_drain *p, proc *pr, unsigned clock, const mrd_event *ev)
{
    give(p, pr, clock, ev);
}

static inline void
give_new(mrd_drain *p, proc *pr, const mrd_event *ev)
{
    p->counts.begun++;
    give(p, pr, MRD_DRAIN_RAW, ev);
}

static const char *const causes[MRD_DROP_CAUSES] = {
    [MRD_DROP_RING_FULL] = "ring-full",
    [MRD_DROP_RING_BIG] = "ring-record-too-big",
    [MRD_DROP_RING_OTHER] = "ring-other",
    [MRD_DROP_BLOB] = "runtime-json-cut",
    [MRD_DROP_JSON] = "runtime-json-bad",
    [MRD_DROP_BAD_RING] = "ring-damaged",
    [MRD_DROP_LIMIT] = "limit",
    [MRD_DROP_MEMORY] = "memory",
    [MRD_DROP_SPOOL] = "spool-full",
    [MRD_DROP_REFUSED] = "refused",
    [MRD_DROP_UNSENT] = "not-recorded",
    [MRD_DROP_WINDOW] = "recorder-window",
    [MRD_DROP_RESTART] = "agent-restarted",
    [MRD_DROP_RUNTIME] = NRT_LOST_RING,
    [MRD_DROP_DAMAGED] = "spool-damaged",
    [MRD_DROP_RECORDER] = "recorder-memory",
};

const char *
mrd_drop_text(mrd_drop_cause cause)
{
    return (unsigned) cause < MRD_DROP_CAUSES ? causes[cause] : "unknown";
}

mrd_drop_cause
mrd_drain_cause(unsigned ring_cause)
{
    switch (ring_cause) {
    case MRD_RING_LOST_FULL:
        return MRD_DROP_RING_FULL;
    case MRD_RING_LOST_BIG:
        return MRD_DROP_RING_BIG;
    case MRD_RING_LOST_BLOB:
        return MRD_DROP_BLOB;
    default:
        return MRD_DROP_RING_OTHER;
    }
}

/* ---- Names ---- */

static mrd_sid
intern(proc *pr, mrd_str text)
{
    return mrd_strtab_add(mrd_catalog_strings(pr->pub.catalog), text);
}

static bool
names_room(ring *r, uint32_t id)
{
    return MRD_VEC_REACH(r->names, r->n_names, id);
}

/* Empty text is not cached: it may be defined later. */
static mrd_sid
sid_slow(ring *r, uint32_t id)
{
    mrd_sid sid;

    if (id == 0 || id >= MRD_RING_NAMES_MAX)
        return 0;
    sid = intern(r->proc, mrd_ring_text(r->reader, id));
    if (sid != 0 && (id < r->n_names || names_room(r, id)))
        r->names[id] = sid;
    return sid;
}

/* The catalog's id of a dictionary text. */
static inline mrd_sid
sid_of(ring *r, uint32_t id)
{
    return id < r->n_names && r->names[id] != 0 ? r->names[id] : sid_slow(r, id);
}

static mrd_sid
name_slow(ring *r, const mrd_ring_event *ev)
{
    mrd_sid sid = ev->name != 0 ? sid_of(r, ev->name) : intern(r->proc, ev->name_text);

    return sid != 0 ? sid : intern(r->proc, MRD_STR("(unnamed)"));
}

static inline mrd_sid
name_of(ring *r, const mrd_ring_event *ev)
{
    return ev->name < r->n_names && r->names[ev->name] != 0 ? r->names[ev->name] : name_slow(r, ev);
}

/* ---- Tracks ---- */

/* How a track is made, above the source in ring_track.source. */
enum {
    LINE_THREAD = 0,
    LINE_PROCESS = 1u << 8,
    LINE_GLOBAL = 2u << 8,
    LINE_COUNTER = 3u << 8,
    LINE_MODELS = 4u << 8,
    LINE_OWN = 5u << 8
};

#define SOURCE(bits) ((mrd_source_kind) ((bits) &0xff))
#define LINE(bits)   ((bits) & ~0xffu)

static mrd_unit
unit_of(mrd_str unit)
{
    static const struct {
        const char *text;
        mrd_unit unit;
    } rows[] = { { "bytes", MRD_UNIT_BYTES },     { "B", MRD_UNIT_BYTES },
                 { "ns", MRD_UNIT_NS },           { "%", MRD_UNIT_PERCENT },
                 { "percent", MRD_UNIT_PERCENT }, { "count", MRD_UNIT_COUNT } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        if (mrd_str_is(unit, rows[i].text))
            return rows[i].unit;
    return MRD_UNIT_NONE;
}

static void
own_track(ring *r, const mrd_ring_track_info *info, mrd_track *t)
{
    mrd_str unit = mrd_ring_text(r->reader, info->def.unit);

    t->name = intern(r->proc, info->name);
    t->lnc_idx = info->def.lnc_idx < 0 ? MRD_NONE : info->def.lnc_idx;
    t->pcore_idx = info->def.pcore_idx < 0 ? MRD_NONE : info->def.pcore_idx;
    t->device_idx = info->def.device_idx < 0 ? MRD_NONE : info->def.device_idx;
    if (t->kind != MRD_TRACK_COUNTER)
        return;
    t->unit = unit_of(unit);
    t->unit_name = t->unit == MRD_UNIT_NONE ? intern(r->proc, unit) : 0;
}

static mrd_track_id
make_track(ring *r, const ring_track *want)
{
    const mrd_ring_track_info *info =
        want->track == 0 ? NULL : mrd_ring_track_of(r->reader, want->track);
    unsigned line = LINE(want->source);
    mrd_track t;

    mrd_track_init(&t, r->proc->pub.id, SOURCE(want->source));
    if (line == LINE_COUNTER)
        t.kind = MRD_TRACK_COUNTER;
    if (info != NULL) {
        own_track(r, info, &t);
    } else if (line == LINE_THREAD || line == LINE_OWN) {
        t.thread_id = want->tid;
        t.name = intern(r->proc, mrd_ring_thread_name(r->reader, want->tid));
    } else if (line == LINE_COUNTER) {
        t.name = sid_of(r, want->name);
    } else {
        t.name = intern(r->proc, line == LINE_MODELS    ? MRD_STR("loaded models")
                                 : line == LINE_PROCESS ? MRD_STR("process")
                                                        : MRD_STR("global"));
    }
    return mrd_catalog_track(r->proc->pub.catalog, &t);
}

static bool
same_line(const ring_track *a, const ring_track *b)
{
    return a->tid == b->tid && a->track == b->track && a->source == b->source && a->name == b->name;
}

static bool
same_track(const void *self, uint32_t i, const void *want)
{
    return same_line(&((const ring *) self)->tracks[i], want);
}

static uint64_t
line_hash(const ring_track *want)
{
    const uint32_t key[4] = { (uint32_t) want->tid, want->track, want->source, want->name };

    return mrd_hash64(key, sizeof(key), mrd_hash_seed());
}

/* NULL: it was not met yet. */
static const ring_track *
find_track(const ring *r, const ring_track *want)
{
    uint32_t i = mrd_index_find(&r->by_line, line_hash(want), same_track, r, want);

    return i == MRD_INDEX_NONE ? NULL : &r->tracks[i];
}

static mrd_track_id
track_slow(ring *r, const ring_track *want)
{
    const ring_track *have = find_track(r, want);

    if (have == NULL) {
        if (!MRD_VEC_ROOM(r->tracks, r->n_tracks, r->cap_tracks, 1) ||
            mrd_index_add(&r->by_line, line_hash(want), (uint32_t) r->n_tracks) != MRD_OK)
            return make_track(r, want);
        have = &r->tracks[r->n_tracks];
        r->tracks[r->n_tracks] = *want;
        r->tracks[r->n_tracks].used = true;
        r->tracks[r->n_tracks++].id = make_track(r, want);
    }
    r->last_track[LINE(want->source) == LINE_COUNTER] = *have;
    return have->id;
}

static inline mrd_track_id
track_of(ring *r, int32_t tid, uint32_t track, uint32_t source, uint32_t name)
{
    ring_track want = { .tid = tid, .track = track, .source = source, .name = name };
    const ring_track *last = &r->last_track[LINE(source) == LINE_COUNTER];

    if (last->used && same_line(last, &want))
        return last->id;
    return track_slow(r, &want);
}

static inline uint32_t
source_of(const mrd_ring_event *ev)
{
    return (ev->flags & MRD_RECF_API) != 0 ? MRD_SRC_API : MRD_SRC_ANNOTATION;
}

/* ---- Arguments ---- */

static bool
args_ready(mrd_drain *p, proc *pr)
{
    if (p->args_catalog != pr->pub.catalog) {
        mrd_args_free(p->args);
        p->args = mrd_args_new(mrd_catalog_strings(pr->pub.catalog));
        p->args_catalog = p->args == NULL ? NULL : pr->pub.catalog;
    }
    if (p->args != NULL)
        mrd_args_reset(p->args);
    return p->args != NULL;
}

static void
add_arg(mrd_drain *p, ring *r, const mrd_ring_arg *a)
{
    mrd_sid key = a->key != 0 ? sid_of(r, a->key) : intern(r->proc, a->key_text);

    switch (a->type) {
    case MRD_ITEM_I64:
        mrd_args_int(p->args, key, a->v.i);
        break;
    case MRD_ITEM_U64:
        mrd_args_uint(p->args, key, a->v.u);
        break;
    case MRD_ITEM_F64:
        mrd_args_double(p->args, key, a->v.d);
        break;
    case MRD_ITEM_BOOL:
        mrd_args_bool(p->args, key, a->v.u != 0);
        break;
    case MRD_ITEM_ID:
        mrd_args_sid(p->args, key, sid_of(r, a->v.id));
        break;
    default:
        mrd_args_str(p->args, key, a->v.text);
    }
}

static void
collect(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    mrd_ring_items items = { rec->body, rec->body_len };
    mrd_ring_arg arg;

    while (mrd_ring_item_next(&items, &arg))
        add_arg(p, r, &arg);
}

static void
collect_again(mrd_drain *p, const mrd_arg *args, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        switch (args[i].type) {
        case MRD_ARG_INT:
            mrd_args_int(p->args, args[i].key, args[i].v.i);
            break;
        case MRD_ARG_UINT:
            mrd_args_uint(p->args, args[i].key, args[i].v.u);
            break;
        case MRD_ARG_DOUBLE:
            mrd_args_double(p->args, args[i].key, args[i].v.d);
            break;
        case MRD_ARG_BOOL:
            mrd_args_bool(p->args, args[i].key, args[i].v.u != 0);
            break;
        case MRD_ARG_STR:
            mrd_args_sid(p->args, args[i].key, args[i].v.sid);
            break;
        default:
            mrd_args_str(p->args, args[i].key, (mrd_str){ args[i].v.text, args[i].len });
        }
}

static void
use_args(mrd_drain *p, mrd_event *ev)
{
    size_t n = 0;

    ev->args = mrd_args_view(p->args, &n);
    ev->arg_count = (uint32_t) n;
}

static inline void
take_args(mrd_drain *p, ring *r, const mrd_ring_event *rec, mrd_event *ev)
{
    if (rec->body_len == 0 || !args_ready(p, r->proc))
        return;
    collect(p, r, rec);
    use_args(p, ev);
}

/* ---- Kinds ---- */

static inline mrd_event
event_of(mrd_drain *p, ring *r, const mrd_ring_event *rec, mrd_event_kind kind)
{
    return (mrd_event){
        .ts_ns = rec->ts_ns + r->proc->shift_ns,
        .kind = (uint8_t) kind,
        .flags = p->o.simulated ? MRD_EV_SIMULATED : 0,
        .category = rec->domain == 0 ? 0 : sid_of(r, rec->domain),
    };
}

static void
give_until(mrd_drain *p, proc *pr, const mrd_event *ev, int64_t until_ns)
{
    int64_t before = pr->pub.open_until_ns;

    pr->pub.open_until_ns = until_ns;
    give(p, pr, MRD_DRAIN_RAW, ev);
    pr->pub.open_until_ns = before;
}

uint64_t
mrd_drain_left_key(proc *pr)
{
    return ++pr->n_left * 0x9e3779b97f4a7c15u ^ 0x4c454654u;
}

/* A scope that its owner died in. One that was seen alive died a moment ago; of another only its
 * rings tell until when it lived, all of them: the scope waits for the last. */
static void
leave(mrd_drain *p, proc *pr, const mrd_event *ev)
{
    uint64_t key = mrd_drain_left_key(pr);
    int64_t now = mrd_local_now().ns;

    p->counts.begun++;
    if (!pr->seen_alive && mrd_open_spans_add(&pr->open, key, false, now, ev) == MRD_OK) {
        mrd_open_spans_find(&pr->open, key, false)->left = true;
        p->counts.held++;
    } else {
        give_until(p, pr, ev, now);
    }
}

static inline mrd_event
span_of(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    mrd_event ev = event_of(p, r, rec, MRD_SPAN);

    ev.dur_ns = rec->dur_ns < 0 ? MRD_DUR_UNFINISHED : rec->dur_ns;
    ev.name = name_of(r, rec);
    ev.track = track_of(r, rec->tid, rec->track, source_of(rec), 0);
    return ev;
}

void
mrd_drain_scope(mrd_drain *p, ring *r, const mrd_ring_event *rec, mrd_event *ret_event)
{
    *ret_event = span_of(p, r, rec);
}

/* From a call that queued an asynchronous request to what the runtime does for it. */
static void
call_arrow(ring *r, mrd_event *ev, mrd_flow *arrow)
{
    proc *pr = r->proc;

    if (pr->seq_key == MRD_SID_EMPTY)
        pr->seq_key = mrd_strtab_addz(mrd_catalog_strings(pr->pub.catalog), NRT_SEQ_KEY);
    for (uint32_t i = 0; i < ev->arg_count; i++)
        if (ev->args[i].key == pr->seq_key && ev->args[i].v.u != 0) {
            *arrow =
                (mrd_flow){ mrd_nrt_seq_flow(pr->flow_scope, ev->args[i].v.u), MRD_FLOW_START };
            ev->flows = arrow;
            ev->flow_count = 1;
            return;
        }
}

static inline void
span(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    mrd_event ev = span_of(p, r, rec);
    mrd_flow arrow;

    take_args(p, r, rec, &ev);
    if (source_of(rec) == MRD_SRC_API && ev.arg_count > 0)
        call_arrow(r, &ev, &arrow);
    if (rec->dur_ns < 0)
        leave(p, r->proc, &ev);
    else
        give_new(p, r->proc, &ev);
}

static void
remember(mrd_drain *p, proc *pr, uint64_t key, bool early, const mrd_event *ev)
{
    p->counts.begun++;
    if (mrd_open_spans_add(&pr->open, key, early, mrd_local_now().ns, ev) != MRD_OK) {
        p->counts.dropped[MRD_DROP_LIMIT]++;
    } else {
        p->counts.held++;
        mrd_open_spans_find(&pr->open, key, early)->lost = pr->lost;
    }
}

/* Start and end have met: one span, with the arguments of both. */
static void
complete(mrd_drain *p, proc *pr, const mrd_event *start, const mrd_event *end)
{
    mrd_event ev = *start;

    ev.dur_ns = end->ts_ns > start->ts_ns ? end->ts_ns - start->ts_ns : 0;
    if (end->arg_count > 0 && args_ready(p, pr)) {
        collect_again(p, start->args, start->arg_count);
        collect_again(p, end->args, end->arg_count);
        use_args(p, &ev);
    }
    p->counts.held--;
    mrd_drain_give(p, pr, MRD_DRAIN_RAW, &ev);
}

static void
remember_begin(mrd_drain *p, proc *pr, uint64_t key, uint32_t source, const mrd_event *ev)
{
    mrd_open_span *s = mrd_open_spans_find(&pr->open, key, false);

    if (s != NULL && s->saved && s->ev.ts_ns == ev->ts_ns)
        return; /* a predecessor told of it */
    remember(p, pr, key, false, ev);
    if (LINE(source) == LINE_MODELS && (s = mrd_open_spans_find(&pr->open, key, false)) != NULL)
        s->model = true;
}

static void
begin(mrd_drain *p, ring *r, const mrd_ring_event *rec, uint64_t key, uint32_t source, mrd_sid name)
{
    mrd_open_span *early = mrd_open_spans_find(&r->proc->open, key, true);
    mrd_event ev = event_of(p, r, rec, MRD_SPAN);
    mrd_open_span *copy;

    ev.dur_ns = MRD_DUR_UNFINISHED;
    ev.name = name;
    ev.id = rec->value;
    ev.track = track_of(r, rec->tid, rec->track, source, 0);
    take_args(p, r, rec, &ev);
    if (early == NULL) {
        remember_begin(p, r->proc, key, source, &ev);
        return;
    }
    mrd_open_spans_take(&r->proc->open, early);
    /* The start's arguments lie in the scratch that complete() will use: keep a copy. */
    if (mrd_open_spans_add(&r->proc->open, key, false, 0, &ev) == MRD_OK) {
        copy = mrd_open_spans_find(&r->proc->open, key, false);
        mrd_open_spans_take(&r->proc->open, copy);
        complete(p, r->proc, &copy->ev, &early->ev);
        free(copy);
    } else {
        p->counts.held--;
        p->counts.dropped[MRD_DROP_LIMIT]++;
    }
    free(early);
}

static void
end(mrd_drain *p, ring *r, const mrd_ring_event *rec, uint64_t key, uint32_t source)
{
    mrd_open_span *start = mrd_open_spans_find(&r->proc->open, key, false);
    mrd_event ev = event_of(p, r, rec, MRD_SPAN);
    mrd_open_span *copy;

    ev.name = name_of(r, rec);
    ev.id = rec->value;
    ev.flags |= MRD_EV_NO_START;
    ev.track = track_of(r, rec->tid, rec->track, source, 0);
    take_args(p, r, rec, &ev);
    if (start == NULL) {
        remember(p, r->proc, key, true, &ev);
        if (LINE(source) == LINE_MODELS &&
            (start = mrd_open_spans_find(&r->proc->open, key, true)) != NULL)
            start->model = true;
        return;
    }
    mrd_open_spans_take(&r->proc->open, start);
    if (ev.arg_count == 0) {
        complete(p, r->proc, &start->ev, &ev);
    } else if (mrd_open_spans_add(&r->proc->open, key, true, 0, &ev) == MRD_OK) {
        copy = mrd_open_spans_find(&r->proc->open, key, true);
        mrd_open_spans_take(&r->proc->open, copy);
        complete(p, r->proc, &start->ev, &copy->ev);
        free(copy);
    } else {
        p->counts.held--;
        p->counts.dropped[MRD_DROP_LIMIT]++;
    }
    free(start);
}

static void
instant(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    static const uint32_t line[] = { LINE_THREAD, LINE_PROCESS, LINE_GLOBAL, LINE_THREAD };
    mrd_event ev = event_of(p, r, rec, MRD_INSTANT);
    uint32_t scope = (uint32_t) rec->flags >> MRD_RECF_SHIFT & 3;
    bool own = line[scope] == LINE_THREAD;

    ev.id = rec->value;
    ev.name = name_of(r, rec);
    ev.track = track_of(r, own ? rec->tid : 0, rec->track, MRD_SRC_ANNOTATION | line[scope], 0);
    take_args(p, r, rec, &ev);
    give_new(p, r->proc, &ev);
}

static void
counter(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    mrd_event ev = event_of(p, r, rec, MRD_COUNTER);
    unsigned type = (unsigned) rec->flags >> MRD_RECF_SHIFT;

    if (type == MRD_REC_F64) {
        memcpy(&ev.value, &rec->value, sizeof(ev.value));
        if (!isfinite(ev.value)) {
            p->counts.begun++;
            p->counts.dropped[MRD_DROP_LIMIT]++;
            return;
        }
    } else {
        ev.ivalue = (int64_t) rec->value;
        ev.flags |= MRD_EV_INT | (type == MRD_REC_U64 ? MRD_EV_UNSIGNED : 0);
    }
    /* A counter's line is its track, or one named by the counter. */
    if (rec->track == 0 && rec->name == 0) {
        mrd_track t;

        mrd_track_init(&t, r->proc->pub.id, MRD_SRC_ANNOTATION);
        t.kind = MRD_TRACK_COUNTER;
        t.name = name_of(r, rec);
        ev.track = mrd_catalog_track(r->proc->pub.catalog, &t);
    } else {
        ev.track = track_of(r, 0, rec->track, MRD_SRC_ANNOTATION | LINE_COUNTER,
                            rec->track == 0 ? rec->name : 0);
    }
    give_new(p, r->proc, &ev);
}

static void
flow(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    static const mrd_flow_dir dirs[] = { MRD_FLOW_START, MRD_FLOW_STEP, MRD_FLOW_END,
                                         MRD_FLOW_STEP };
    mrd_event ev = event_of(p, r, rec, MRD_FLOW);

    ev.flow_dir = (uint8_t) dirs[(unsigned) rec->flags >> MRD_RECF_SHIFT & 3];
    ev.id = mrd_flow_id(r->proc->flow_scope, 0, rec->value);
    ev.name = name_of(r, rec);
    /* Not source_of: the bit of a step is that of an API call in spans. */
    ev.track = track_of(r, rec->tid, rec->track, MRD_SRC_ANNOTATION, 0);
    give_new(p, r->proc, &ev);
}

/* How long which model was loaded: a span per model on one line of the process. */
static void
model(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    uint64_t key = mrd_drain_model_key(rec->value);
    uint32_t source = MRD_SRC_API | LINE_MODELS;
    mrd_ring_event line = *rec;

    line.tid = 0;
    line.track = 0;
    if (p->o.model != NULL) {
        mrd_event ev = event_of(p, r, rec, MRD_INSTANT);

        ev.name = name_of(r, rec);
        take_args(p, r, rec, &ev);
        p->o.model(p->o.self, &r->proc->pub, rec->value, (rec->flags & MRD_RECF_UNLOAD) == 0, &ev);
    }
    if ((rec->flags & MRD_RECF_UNLOAD) != 0)
        end(p, r, &line, key, source);
    else
        begin(p, r, &line, key, source, name_of(r, rec));
}

static void
notice(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    mrd_event ev = event_of(p, r, rec, MRD_INSTANT);

    ev.name = name_of(r, rec);
    ev.track = track_of(r, rec->tid, 0, MRD_SRC_MERIDIAN | LINE_OWN, 0);
    take_args(p, r, rec, &ev);
    if (p->o.notice != NULL)
        p->o.notice(p->o.self, &r->proc->pub, &ev);
    give_new(p, r->proc, &ev);
}

/* ---- Blobs: runtime JSON in chunks, with room behind for who scans it ---- */

static void
blob_end(mrd_drain *p, ring *r, bool cut)
{
    r->blob.open = false;
    if (r->blob.p != NULL)
        memset(r->blob.p + r->blob.len, 0, MRD_IN_PAD);
    (void) mrd_drain_text_seen(p, r, r->blob.pos);
    mrd_drain_runtime(p, r, (mrd_str){ (char *) r->blob.p, r->blob.len }, cut);
    r->blob.len = 0;
}

static bool
blob_room(blob *b, size_t more)
{
    return MRD_VEC_ROOM_MAX(b->p, b->len, b->cap, more + MRD_IN_PAD,
                            MRD_DRAIN_BLOB_MAX + MRD_IN_PAD);
}

/* A chunk that does not continue the blob under way: chunks between were lost (and counted by the
 * writer). What was there is a cut document. */
static void
blob_chunk(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    blob *b = &r->blob;

    if (!p->again)
        p->counts.blob_bytes += rec->body_len;
    if (b->open &&
        ((rec->flags & MRD_RECF_FIRST) != 0 || rec->domain != b->number || rec->value != b->len))
        blob_end(p, r, true);
    if ((rec->flags & MRD_RECF_FIRST) != 0) {
        mrd_ring_stats st;

        mrd_ring_get_stats(r->reader, &st);
        b->open = true;
        b->pos = st.read - ((sizeof(mrd_ring_rec) + rec->body_len + MRD_RING_UNIT - 1) &
                            ~(uint64_t) (MRD_RING_UNIT - 1));
        b->apart = (rec->flags & MRD_RECF_APART) != 0;
        b->number = rec->domain;
        b->len = 0;
    }
    if (!b->open)
        return; /* the rest of a blob whose start was lost */
    if (!blob_room(b, rec->body_len)) {
        blob_end(p, r, true);
        if (!p->again)
            mrd_drain_lost(p, r->proc, MRD_DROP_BLOB, 1, rec->ts_ns, rec->ts_ns);
        return;
    }
    memcpy(b->p + b->len, rec->body, rec->body_len);
    b->len += rec->body_len;
    if ((rec->flags & (MRD_RECF_LAST | MRD_RECF_CUT)) != 0)
        blob_end(p, r, (rec->flags & MRD_RECF_CUT) != 0);
}

/* ---- Entry points ---- */

void
mrd_drain_record(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    p->counts.records++;
    switch (rec->kind) {
    case MRD_REC_SPAN:
        span(p, r, rec);
        break;
    case MRD_REC_BEGIN:
        begin(p, r, rec, rec->value, source_of(rec), name_of(r, rec));
        break;
    case MRD_REC_END:
        end(p, r, rec, rec->value, source_of(rec));
        break;
    case MRD_REC_INSTANT:
        instant(p, r, rec);
        break;
    case MRD_REC_COUNTER:
        counter(p, r, rec);
        break;
    case MRD_REC_FLOW:
        flow(p, r, rec);
        break;
    case MRD_REC_BLOB:
        blob_chunk(p, r, rec);
        break;
    case MRD_REC_MODEL:
        model(p, r, rec);
        break;
    case MRD_REC_NOTICE:
        notice(p, r, rec);
        break;
    default: /* the reader gives no other kind */
        break;
    }
}

/* As span() and counter() for what needs no lookup beyond the ring's own tables; false: they do. */
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
                             .source = MRD_SRC_ANNOTATION | LINE_COUNTER,
                             .name = rec->track == 0 ? rec->name : 0 };
    } else if (rec->kind != MRD_REC_SPAN) {
        return false;
    }
    have = &r->last_track[is_counter];
    if (!have->used || !same_line(have, &want)) {
        if ((have = find_track(r, &want)) == NULL)
            return false;
    }
    ev->track = have->id;
    ev->name = is_counter ? 0 : r->names[rec->name]; /* a counter's is its track's */
    ev->category = rec->domain == 0 ? 0 : r->names[rec->domain];
    ev->kind = is_counter ? MRD_COUNTER : MRD_SPAN;
    ev->ivalue = is_counter ? (int64_t) rec->value : 0;
    ev->flags &= (uint8_t) ~(MRD_EV_INT | MRD_EV_UNSIGNED);
    if (is_counter)
        ev->flags |= MRD_EV_INT | (type == MRD_REC_U64 ? MRD_EV_UNSIGNED : 0);
    return true;
}

static void
plain_other(mrd_drain *p, ring *r, const mrd_ring_rec *rec, int64_t ts_ns, int64_t dur_ns,
            int32_t tid)
{
    mrd_ring_event ev = { .kind = rec->kind,
                          .flags = rec->flags,
                          .units = rec->units,
                          .name = rec->name,
                          .domain = rec->domain,
                          .track = rec->track,
                          .value = rec->value,
                          .ts_ns = ts_ns,
                          .dur_ns = dur_ns,
                          .tid = tid };

    mrd_drain_record(p, r, &ev);
}

uint64_t
mrd_drain_plain(mrd_drain *p, ring *r, uint64_t most)
{
    mrd_ring_window *place = mrd_ring_borrow_window(r->reader), w = *place;
    mrd_event ev = { .flags = p->o.simulated ? MRD_EV_SIMULATED : 0 };
    const mrd_ring_rec *rec;
    int64_t ts_ns, dur_ns;
    uint64_t n = 0;

    while (n < most && (rec = mrd_ring_plain(&w, &ts_ns, &dur_ns)) != NULL) {
        n++;
        if (!plain_event(r, rec, w.tid, &ev)) {
            plain_other(p, r, rec, ts_ns, dur_ns, w.tid);
            continue;
        }
        p->counts.records++;
        ev.ts_ns = ts_ns + r->proc->shift_ns;
        ev.dur_ns = dur_ns;
        give_new(p, r->proc, &ev);
    }
    *place = w;
    return n;
}

void
mrd_drain_lost(mrd_drain *p, proc *pr, mrd_drop_cause cause, uint64_t count, int64_t first_ns,
               int64_t last_ns)
{
    mrd_event ev = { .kind = MRD_LOSS,
                     .ts_ns = first_ns,
                     .dur_ns = last_ns > first_ns ? last_ns - first_ns : 0,
                     .ivalue = count > INT64_MAX ? INT64_MAX : (int64_t) count };
    mrd_track t;

    p->counts.begun += count;
    p->counts.dropped[cause] += count;
    pr->lost += count;
    mrd_track_init(&t, pr->pub.id, MRD_SRC_MERIDIAN);
    t.name = intern(pr, MRD_STR("losses"));
    ev.track = mrd_catalog_track(pr->pub.catalog, &t);
    ev.name = intern(pr, mrd_str_of(mrd_drop_text(cause)));
    mrd_drain_give(p, pr, MRD_DRAIN_RAW, &ev);
}

void
mrd_drain_loss(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    int64_t first = rec->ts_ns + r->proc->shift_ns;

    mrd_drain_lost(p, r->proc, mrd_drain_cause(rec->flags), rec->value, first, first + rec->dur_ns);
}

static void
give_open(mrd_drain *p, proc *pr, mrd_open_span *s)
{
    p->counts.held--;
    mrd_drain_give(p, pr, MRD_DRAIN_RAW, &s->ev);
    mrd_open_spans_take(&pr->open, s);
    free(s);
}

void
mrd_drain_flush_open(mrd_drain *p, proc *pr)
{
    for (size_t i = 0; i < pr->open.n_slots; i++)
        while (pr->open.slots[i] != NULL)
            give_open(p, pr, pr->open.slots[i]);
}

/* An exec left them; the process goes on. */
void
mrd_drain_flush_left(mrd_drain *p, proc *pr)
{
    int64_t before = pr->pub.open_until_ns;

    pr->pub.open_until_ns = pr->newest_ns > 0 ? pr->newest_ns : 1;
    for (size_t i = 0; i < pr->open.n_slots; i++)
        for (mrd_open_span *s = pr->open.slots[i], *next; s != NULL; s = next) {
            next = s->next;
            if (s->left)
                give_open(p, pr, s);
        }
    pr->pub.open_until_ns = before;
}

void
mrd_drain_sweep(mrd_drain *p, proc *pr, int64_t now, int64_t age)
{
    if (pr->seen_alive && pr->n_left > pr->left_given) {
        mrd_drain_flush_left(p, pr);
        pr->left_given = pr->n_left;
    }
    for (size_t i = 0; i < pr->open.n_slots && pr->open.n_early > 0; i++)
        for (mrd_open_span *s = pr->open.slots[i], *next; s != NULL; s = next) {
            next = s->next;
            if (s->early && now - s->since > age)
                give_open(p, pr, s);
        }
}

void
mrd_drain_blob_end(mrd_drain *p, ring *r)
{
    if (r->blob.open)
        blob_end(p, r, true);
}

/* Of what a predecessor took over only texts tell something: what is still open of them. */
void
mrd_drain_again(mrd_drain *p, ring *r, const mrd_ring_event *rec)
{
    p->again = true;
    if (rec->kind == MRD_REC_BLOB)
        blob_chunk(p, r, rec);
    p->again = false;
}

void
mrd_drain_ring_forget(ring *r)
{
    free(r->texts);
    free(r->names);
    free(r->tracks);
    mrd_index_fini(&r->by_line);
    free(r->blob.p);
}
