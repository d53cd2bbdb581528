/*
 * trace/sink/sink_chrome.c - Trace Event JSON, for tools that require it.
 *
 * Times are microseconds with three decimals after `baseTimeNanoseconds`. So they are exact, also
 * in readers that use doubles. pid and tid are small numbers. The metadata events state their
 * meaning (process_name, thread_name: args have instance_id, process_id, lnc_idx, ...). Spans are
 * X, unfinished spans B without E, instants i, samples C, arrows s, t, f, and losses X of category
 * meridian.loss. Spans that overlap have further tids with the same name. Facts for which the
 * format has no field are in args, under keys that begin with "meridian.".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/json/catalog_json.h"
#include "trace/model/lanes.h"
#include "trace/sink/json_event.h"
#include "trace/sink/sinks.h"

typedef struct {
    uint32_t pid, tid; /* of lane 0 */
    uint32_t *lanes;   /* tids of the other lanes; 0 until they are named */
    uint32_t n_lanes;
    char *counter; /* counters: the name, unique in the process */
} chrome_track;

typedef struct {
    const mrd_sink_env *env;
    const mrd_catalog *cat;
    mrd_jw w;
    mrd_lanes *lanes;
    mrd_map fans; /* id of an arrow with several ends -> number of ends that follow */
    chrome_track *tracks;
    size_t n_tracks;
    uint32_t next_tid;
    mrd_ev_ns base;
    bool started; /* the head was written with the base */
    mrd_err err;  /* out of memory for a name */
} chrome_sink;

/* ---- Metadata ---- */

static void
put_meta(chrome_sink *s, const char *name, uint32_t pid, uint32_t tid)
{
    mrd_jw *w = &s->w;

    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "ph");
    mrd_jw_str(w, MRD_STR("M"));
    MRD_JW_KEY(w, "pid");
    mrd_jw_u64(w, pid);
    MRD_JW_KEY(w, "tid");
    mrd_jw_u64(w, tid);
    MRD_JW_KEY(w, "ts");
    mrd_jw_u64(w, 0);
    MRD_JW_KEY(w, "name");
    mrd_jw_str(w, mrd_str_of(name));
    MRD_JW_KEY(w, "args");
    mrd_jw_open(w, '{');
}

static void
end_meta(chrome_sink *s)
{
    mrd_jw_close(&s->w, '}');
    mrd_jw_close(&s->w, '}');
}

static void
put_sort_index(chrome_sink *s, const char *name, uint32_t pid, uint32_t tid, uint64_t index)
{
    put_meta(s, name, pid, tid);
    MRD_JW_KEY(&s->w, "sort_index");
    mrd_jw_u64(&s->w, index);
    end_meta(s);
}

static void
process_title(const mrd_catalog *cat, const mrd_process *p, mrd_buf *to)
{
    mrd_str name = mrd_catalog_text(cat, p->name);

    to->len = 0;
    mrd_buf_str(to, mrd_catalog_text(cat, p->instance_id));
    if (p->flags & MRD_PROC_NODE)
        mrd_buf_text(to, " host");
    else if (!(p->flags & MRD_PROC_NO_PID))
        mrd_buf_fmt(to, " pid %lld", (long long) p->process_id);
    if (p->rank != MRD_NONE)
        mrd_buf_fmt(to, " rank %lld", (long long) p->rank);
    if (name.len > 0)
        mrd_buf_fmt(to, " " MRD_STR_FMT, MRD_STR_ARG(name));
}

static void
put_process(chrome_sink *s, mrd_proc_id id, uint64_t sort_index, mrd_buf *title)
{
    const mrd_process *p = mrd_catalog_borrow_process(s->cat, id);
    mrd_jw *w = &s->w;

    process_title(s->cat, p, title);
    put_meta(s, "process_name", id + 1, 0);
    MRD_JW_KEY(w, "name");
    mrd_jw_str(w, (mrd_str){ (const char *) title->p, title->len });
    MRD_JW_KEY(w, "instance_id");
    mrd_jw_sid(w, p->instance_id);
    MRD_JW_KEY(w, "process_id");
    mrd_jw_i64(w, p->process_id);
    mrd_jw_put_i64(w, MRD_STR("container_pid"), p->container_pid);
    mrd_jw_put_i64(w, MRD_STR("rank"), p->rank);
    mrd_jw_put_i64(w, MRD_STR("world_size"), p->world_size);
    mrd_jw_put_i64(w, MRD_STR("worker_gid"), p->worker_gid);
    end_meta(s);
    put_sort_index(s, "process_sort_index", id + 1, 0, sort_index);
}

static void
track_title(const mrd_catalog *cat, const mrd_track *t, mrd_buf *to)
{
    mrd_str name = mrd_catalog_text(cat, t->name);

    to->len = 0;
    if (name.len > 0)
        mrd_buf_str(to, name);
    else
        mrd_buf_text(to, mrd_source_text(t->source));
    if (t->device_idx != MRD_NONE)
        mrd_buf_fmt(to, " device %lld", (long long) t->device_idx);
    if (t->lnc_idx != MRD_NONE)
        mrd_buf_fmt(to, " NC %lld", (long long) t->lnc_idx);
    if (t->pcore_idx != MRD_NONE)
        mrd_buf_fmt(to, " core %lld", (long long) t->pcore_idx);
    if (t->thread_id != MRD_NONE)
        mrd_buf_fmt(to, " tid %lld", (long long) t->thread_id);
}

static void
put_thread(chrome_sink *s, mrd_track_id id, uint32_t tid, uint32_t lane)
{
    const mrd_track *t = mrd_catalog_borrow_track(s->cat, id);
    mrd_buf title = { 0 };
    mrd_jw *w = &s->w;

    track_title(s->cat, t, &title);
    if (lane > 0)
        mrd_buf_fmt(&title, " (lane %u)", lane + 1);
    put_meta(s, "thread_name", t->process + 1, tid);
    MRD_JW_KEY(w, "name");
    mrd_jw_str(w, (mrd_str){ (const char *) title.p, title.len });
    s->err = title.err != MRD_OK ? title.err : s->err;
    mrd_buf_fini(&title);
    MRD_JW_KEY(w, "trace_event_source");
    mrd_jw_str(w, mrd_str_of(mrd_source_text(t->source)));
    mrd_jw_put_i64(w, MRD_STR("lnc_idx"), t->lnc_idx);
    mrd_jw_put_i64(w, MRD_STR("pcore_idx"), t->pcore_idx);
    mrd_jw_put_i64(w, MRD_STR("device_idx"), t->device_idx);
    mrd_jw_put_i64(w, MRD_STR("thread_id"), t->thread_id);
    mrd_jw_put_i64(w, MRD_STR("worker_gid"), t->worker_gid);
    if (t->name != MRD_SID_EMPTY) {
        MRD_JW_KEY(w, "track");
        mrd_jw_sid(w, t->name);
    }
    end_meta(s);
    /* All lanes of a track have one position. Their names give them an order. */
    put_sort_index(s, "thread_sort_index", t->process + 1, tid, s->tracks[id].tid);
}

typedef struct {
    const mrd_catalog *cat;
    mrd_proc_id id;
} process_key;

/* Orders by rank if known, then by the source's request, then by node and number. */
static int
process_order(const void *a, const void *b)
{
    const process_key *x = a, *y = b;
    const mrd_process *p = mrd_catalog_borrow_process(x->cat, x->id),
                      *q = mrd_catalog_borrow_process(y->cat, y->id);
    int64_t u[3] = { mrd_none_last(p->rank), mrd_none_last(p->sort_index), p->process_id },
            v[3] = { mrd_none_last(q->rank), mrd_none_last(q->sort_index), q->process_id };

    for (size_t i = 0; i < 3; i++) {
        int order = i == 2 ? strcmp(mrd_catalog_text(x->cat, p->instance_id).p,
                                    mrd_catalog_text(x->cat, q->instance_id).p)
                           : 0;

        if (order != 0)
            return order;
        if (u[i] != v[i])
            return u[i] < v[i] ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

static void
put_processes(chrome_sink *s)
{
    size_t n = mrd_catalog_processes(s->cat);
    process_key *keys = malloc((n + 1) * sizeof(*keys));
    mrd_buf title = { 0 };

    if (keys == NULL) {
        s->err = MRD_NOMEM;
        return;
    }
    for (size_t i = 0; i < n; i++)
        keys[i] = (process_key){ s->cat, (mrd_proc_id) i };
    qsort(keys, n, sizeof(*keys), process_order);
    for (size_t i = 0; i < n; i++) {
        if (mrd_catalog_borrow_process(s->cat, keys[i].id)->profile == s->env->profile)
            put_process(s, keys[i].id, i, &title);
    }
    s->err = title.err != MRD_OK ? title.err : s->err;
    mrd_buf_fini(&title);
    free(keys);
}

/* Makes a name for the counter, because Chrome identifies counters only by process and name. */
static bool
counter_name(chrome_sink *s, mrd_track_id id)
{
    const mrd_track *t = mrd_catalog_borrow_track(s->cat, id);
    mrd_buf title = { 0 };

    track_title(s->cat, t, &title);
    if (title.err == MRD_OK)
        s->tracks[id].counter = mrd_str_dup((mrd_str){ (const char *) title.p, title.len });
    mrd_buf_fini(&title);
    return s->tracks[id].counter != NULL;
}

static void
start(chrome_sink *s, mrd_ev_ns first)
{
    mrd_jw *w = &s->w;

    s->started = true;
    s->base = mrd_ev_after(s->env->first, s->env->last) ? first : mrd_ev_min(s->env->first, first);
    mrd_jw_open(w, '{');
    /* The profile's name lets readers find the list of events after a head of any length. */
    mrd_catalog_json(w, s->cat, s->env->profile, "traceEvents");
    MRD_JW_KEY(w, "displayTimeUnit");
    mrd_jw_str(w, MRD_STR("ns"));
    MRD_JW_KEY(w, "baseTimeNanoseconds");
    mrd_jw_i64(w, s->base.ns);
    MRD_JW_KEY(w, "traceEvents");
    mrd_jw_open(w, '[');
    put_processes(s);
}

/* ---- Events ---- */

/* Returns the tid of the lane, and names a new one. 0 if out of memory. */
static uint32_t
lane_tid(chrome_sink *s, mrd_track_id track, uint32_t lane)
{
    chrome_track *t = &s->tracks[track];

    if (t->tid == 0) {
        t->tid = s->next_tid++;
        put_thread(s, track, t->tid, 0);
    }
    if (lane == 0)
        return t->tid;
    if (!MRD_VEC_REACH(t->lanes, t->n_lanes, lane - 1))
        return 0;
    if (t->lanes[lane - 1] == 0) {
        t->lanes[lane - 1] = s->next_tid++;
        put_thread(s, track, t->lanes[lane - 1], lane);
    }
    return t->lanes[lane - 1];
}

static int64_t
since_base(const chrome_sink *s, mrd_ev_ns ts)
{
    int64_t v;

    if (__builtin_sub_overflow(ts.ns, s->base.ns, &v))
        return mrd_ev_before(ts, s->base) ? INT64_MIN : INT64_MAX;
    return v;
}

static void
put_head(chrome_sink *s, mrd_str ph, uint32_t pid, uint32_t tid, mrd_ev_ns ts)
{
    mrd_jw *w = &s->w;

    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "ph");
    mrd_jw_str(w, ph);
    MRD_JW_KEY(w, "pid");
    mrd_jw_u64(w, pid);
    MRD_JW_KEY(w, "tid");
    mrd_jw_u64(w, tid);
    MRD_JW_KEY(w, "ts");
    mrd_jw_us(w, since_base(s, ts));
}

static void
put_cat(mrd_jw *w, mrd_sid category)
{
    if (category == MRD_SID_EMPTY)
        return;
    MRD_JW_KEY(w, "cat");
    mrd_jw_sid(w, category);
}

static void
put_args(mrd_jw *w, const mrd_event *ev)
{
    bool no_start = ev->flags & MRD_EV_NO_START, simulated = ev->flags & MRD_EV_SIMULATED;

    if (ev->arg_count == 0 && ev->id == 0 && ev->bound_ns == 0 && !no_start && !simulated)
        return;
    MRD_JW_KEY(w, "args");
    mrd_jw_open(w, '{');
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        mrd_jw_key_sid(w, ev->args[i].key);
        mrd_jw_arg(w, &ev->args[i]);
    }
    if (ev->id != 0) {
        MRD_JW_KEY(w, "meridian.id");
        mrd_jw_u64(w, ev->id);
    }
    if (ev->bound_ns != MRD_BOUND_LOCAL && ev->bound_ns != MRD_BOUND_UNKNOWN) {
        MRD_JW_KEY(w, "meridian.clock_bound_ns");
        mrd_jw_u64(w, ev->bound_ns);
    }
    if (no_start) {
        MRD_JW_KEY(w, "meridian.no_start");
        mrd_jw_bool(w, true);
    }
    if (simulated) {
        MRD_JW_KEY(w, "meridian.simulated");
        mrd_jw_bool(w, true);
    }
    mrd_jw_close(w, '}');
}

static void
put_flow_point(chrome_sink *s, const mrd_flow *flow, uint32_t pid, uint32_t tid, mrd_ev_ns ts)
{
    static const char *const ph[] = { "t", "s", "t", "f" };
    mrd_jw *w = &s->w;
    char id[24];

    put_head(s, mrd_str_of(ph[flow->dir & 3]), pid, tid, ts);
    MRD_JW_KEY(w, "name");
    mrd_jw_str(w, MRD_STR("flow"));
    MRD_JW_KEY(w, "cat");
    mrd_jw_str(w, MRD_STR("flow"));
    /* Hexadecimal text, because readers with doubles would confuse large numbers, and
     * trace_processor reads text as hexadecimal. */
    MRD_JW_KEY(w, "id");
    mrd_jw_str(w, (mrd_str){ id, (size_t) snprintf(id, sizeof(id), "0x%" PRIx64, flow->id) });
    if (flow->dir == MRD_FLOW_END) {
        MRD_JW_KEY(w, "bp");
        mrd_jw_str(w, MRD_STR("e"));
    }
    mrd_jw_close(w, '}');
}

/* Each end of an arrow gets an id, and the start is written once for each of them. */
static void
put_flow(chrome_sink *s, const mrd_flow *flow, uint32_t pid, uint32_t tid, mrd_ev_ns ts)
{
    mrd_map_key key = { flow->id, 0, 0 };
    mrd_flow point = { .id = flow->id, .dir = flow->dir };
    uint32_t n;

    if (flow->dir == MRD_FLOW_START && flow->ends > 1 &&
        mrd_map_put(&s->fans, key, flow->ends) == MRD_OK)
        for (n = flow->ends; --n > 0;) {
            point.id = mrd_flow_end_id(flow->id, n);
            put_flow_point(s, &point, pid, tid, ts);
            point.id = flow->id;
        }
    if (flow->dir == MRD_FLOW_END && (n = mrd_map_get(&s->fans, key)) != MRD_MAP_NONE) {
        point.id = mrd_flow_end_id(flow->id, n - 1);
        if (n == 1 || mrd_map_put(&s->fans, key, n - 1) != MRD_OK)
            mrd_map_remove(&s->fans, key);
    }
    put_flow_point(s, &point, pid, tid, ts);
}

static void
put_span(chrome_sink *s, const mrd_event *ev, uint32_t pid, uint32_t tid)
{
    mrd_jw *w = &s->w;
    bool open = ev->kind == MRD_SPAN && ev->dur_ns < 0;

    put_head(s,
             ev->kind == MRD_INSTANT ? MRD_STR("i")
             : open                  ? MRD_STR("B")
                                     : MRD_STR("X"),
             pid, tid, ev->ts);
    if (ev->kind == MRD_SPAN && !open) {
        MRD_JW_KEY(w, "dur");
        mrd_jw_us(w, ev->dur_ns);
    }
    if (ev->kind == MRD_INSTANT) {
        MRD_JW_KEY(w, "s");
        mrd_jw_str(w, MRD_STR("t"));
    }
    MRD_JW_KEY(w, "name");
    mrd_jw_sid(w, ev->name);
    put_cat(w, ev->category);
    put_args(w, ev);
    mrd_jw_close(w, '}');
    for (uint8_t i = 0; i < ev->flow_count; i++)
        put_flow(s, &ev->flows[i], pid, tid, ev->ts);
}

static void
put_loss(chrome_sink *s, const mrd_event *ev, uint32_t pid, uint32_t tid)
{
    mrd_jw *w = &s->w;

    put_head(s, MRD_STR("X"), pid, tid, ev->ts);
    MRD_JW_KEY(w, "dur");
    mrd_jw_us(w, ev->dur_ns < 0 ? 0 : ev->dur_ns);
    MRD_JW_KEY(w, "name");
    mrd_jw_sid(w, ev->name);
    MRD_JW_KEY(w, "cat");
    mrd_jw_str(w, MRD_STR("meridian.loss"));
    MRD_JW_KEY(w, "args");
    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "meridian.lost");
    mrd_jw_i64(w, ev->ivalue);
    mrd_jw_close(w, '}');
    mrd_jw_close(w, '}');
}

static mrd_err
put_counter(chrome_sink *s, const mrd_event *ev, uint32_t pid)
{
    mrd_jw *w = &s->w;

    if (s->tracks[ev->track].counter == NULL && !counter_name(s, ev->track))
        return MRD_NOMEM;
    put_head(s, MRD_STR("C"), pid, 0, ev->ts);
    MRD_JW_KEY(w, "name");
    mrd_jw_str(w, mrd_str_of(s->tracks[ev->track].counter));
    put_cat(w, ev->category);
    MRD_JW_KEY(w, "args");
    mrd_jw_open(w, '{');
    if (ev->name != MRD_SID_EMPTY)
        mrd_jw_key_sid(w, ev->name);
    else
        MRD_JW_KEY(w, "value");
    mrd_json_put_sample(w, ev);
    mrd_jw_close(w, '}');
    mrd_jw_close(w, '}');
    return MRD_OK;
}

static mrd_err
chrome_event(void *state, const mrd_event *ev)
{
    chrome_sink *s = state;
    mrd_flow flow = { .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir };
    uint32_t pid, tid;

    if (ev->track >= s->n_tracks)
        return MRD_STATE; /* not in the catalog when the sink was opened */
    /* viewers would show all the time between this event and the others */
    if (ev->flags & MRD_EV_MISTIMED)
        return MRD_OK;
    if (!s->started)
        start(s, ev->ts);
    pid = mrd_catalog_borrow_track(s->cat, ev->track)->process + 1;
    if (ev->kind == MRD_COUNTER)
        return put_counter(s, ev, pid);
    if ((tid = lane_tid(s, ev->track, mrd_lanes_put(s->lanes, ev))) == 0)
        return MRD_NOMEM;
    if (ev->kind == MRD_FLOW)
        put_flow(s, &flow, pid, tid, ev->ts);
    else if (ev->kind == MRD_LOSS)
        put_loss(s, ev, pid, tid);
    else
        put_span(s, ev, pid, tid);
    return s->err != MRD_OK ? s->err : mrd_lanes_err(s->lanes);
}

static mrd_err
chrome_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    chrome_sink *s = state;

    s->env = env;
    s->cat = env->catalog;
    s->next_tid = 1;
    s->n_tracks = mrd_catalog_tracks(env->catalog);
    s->tracks = calloc(s->n_tracks + 1, sizeof(*s->tracks));
    s->lanes = mrd_lanes_new(s->n_tracks);
    if (s->tracks == NULL || s->lanes == NULL) {
        free(s->tracks);
        mrd_lanes_free(s->lanes);
        mrd_map_fini(&s->fans);
        return mrd_why_set(why, MRD_NOMEM, 0, "chrome: tracks");
    }
    mrd_jw_init(&s->w, env->out, mrd_catalog_strings(env->catalog), false);
    return MRD_OK;
}

static mrd_err
chrome_close(void *state, mrd_why *why)
{
    chrome_sink *s = state;

    (void) why;
    if (!s->started)
        start(s, (mrd_ev_ns){ 0 });
    mrd_jw_close(&s->w, ']');
    mrd_jw_close(&s->w, '}');
    mrd_jw_end(&s->w);
    mrd_jw_fini(&s->w);
    for (size_t i = 0; i < s->n_tracks; i++) {
        free(s->tracks[i].lanes);
        free(s->tracks[i].counter);
    }
    free(s->tracks);
    mrd_lanes_free(s->lanes);
    mrd_map_fini(&s->fans);
    return s->err;
}

const mrd_sink_ops mrd_sink_chrome = {
    .name = "chrome",
    .stem = "system_profile",
    .suffix = ".trace.json",
    .media_type = "application/json",
    .title = "Chrome JSON",
    .what = "Trace Event JSON, for chrome://tracing and its relatives",
    .state_size = sizeof(chrome_sink),
    .device_too = true,
    .open = chrome_open,
    .event = chrome_event,
    .close = chrome_close,
};
