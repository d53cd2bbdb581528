/*
 * trace/sink/sink_chrome.c - writes Trace Event JSON (the Chrome format), for tools that require
 * it.
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
    /* pid: number of the track's process in the file; tid: number of the track's lane 0 */
    uint32_t pid, tid;
    uint32_t *lanes; /* tids of lane 1 and higher; 0 until the lane has a name */
    uint32_t n_lanes;
    /* name of the counter in the file, unique within the process; for a counter only */
    char *counter;
} chrome_track;

typedef struct {
    const mrd_sink_env *env;
    const mrd_catalog *cat;
    mrd_jw w;
    mrd_lanes *lanes;
    /* For flow arrows with several ends: id of the arrow -> number of ends that still come. */
    mrd_map fans;
    chrome_track *tracks;
    size_t n_tracks;
    uint32_t next_tid;
    mrd_ev_ns base;
    bool started; /* the head of the file was written, with the base time */
    mrd_err err;  /* NOMEM if a name could not be stored */
} chrome_sink;

/* ---- Metadata ---- */

static void
put_meta(chrome_sink *sink, const char *name, uint32_t pid, uint32_t tid)
{
    mrd_jw *jw = &sink->w;

    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "ph", str, MRD_STR("M"));
    MRD_JW_PUT(jw, "pid", u64, pid);
    MRD_JW_PUT(jw, "tid", u64, tid);
    MRD_JW_PUT(jw, "ts", u64, 0);
    MRD_JW_PUT(jw, "name", str, mrd_str_of(name));
    MRD_JW_PUT(jw, "args", open, '{');
}

static void
end_meta(chrome_sink *sink)
{
    mrd_jw_close(&sink->w, '}');
    mrd_jw_close(&sink->w, '}');
}

static void
put_sort_index(chrome_sink *sink, const char *name, uint32_t pid, uint32_t tid, uint64_t index)
{
    put_meta(sink, name, pid, tid);
    MRD_JW_PUT(&sink->w, "sort_index", u64, index);
    end_meta(sink);
}

static void
process_title(const mrd_catalog *cat, const mrd_process *process, mrd_buf *to)
{
    mrd_str name = mrd_catalog_text(cat, process->name);

    to->len = 0;
    mrd_buf_str(to, mrd_catalog_text(cat, process->instance_id));
    if (process->flags & MRD_PROC_NODE)
        mrd_buf_text(to, " host");
    else if (!(process->flags & MRD_PROC_NO_PID))
        mrd_buf_fmt(to, " pid %lld", (long long) process->process_id);
    if (process->rank != MRD_NONE)
        mrd_buf_fmt(to, " rank %lld", (long long) process->rank);
    if (name.len > 0)
        mrd_buf_fmt(to, " " MRD_STR_FMT, MRD_STR_ARG(name));
}

static void
put_process(chrome_sink *sink, mrd_proc_id id, uint64_t sort_index, mrd_buf *title)
{
    const mrd_process *process = mrd_catalog_borrow_process(sink->cat, id);
    mrd_jw *jw = &sink->w;

    process_title(sink->cat, process, title);
    put_meta(sink, "process_name", id + 1, 0);
    MRD_JW_PUT(jw, "name", str, (mrd_str){ (const char *) title->p, title->len });
    MRD_JW_PUT(jw, "instance_id", sid, process->instance_id);
    MRD_JW_PUT(jw, "process_id", i64, process->process_id);
    mrd_jw_put_i64(jw, MRD_STR("container_pid"), process->container_pid);
    mrd_jw_put_i64(jw, MRD_STR("rank"), process->rank);
    mrd_jw_put_i64(jw, MRD_STR("world_size"), process->world_size);
    mrd_jw_put_i64(jw, MRD_STR("worker_gid"), process->worker_gid);
    end_meta(sink);
    put_sort_index(sink, "process_sort_index", id + 1, 0, sort_index);
}

static void
track_title(const mrd_catalog *cat, const mrd_track *track, mrd_buf *to)
{
    mrd_str name = mrd_catalog_text(cat, track->name);

    to->len = 0;
    if (name.len > 0)
        mrd_buf_str(to, name);
    else
        mrd_buf_text(to, mrd_source_text(track->source));
    if (track->device_idx != MRD_NONE)
        mrd_buf_fmt(to, " device %lld", (long long) track->device_idx);
    if (track->lnc_idx != MRD_NONE)
        mrd_buf_fmt(to, " NC %lld", (long long) track->lnc_idx);
    if (track->pcore_idx != MRD_NONE)
        mrd_buf_fmt(to, " core %lld", (long long) track->pcore_idx);
    if (track->thread_id != MRD_NONE)
        mrd_buf_fmt(to, " tid %lld", (long long) track->thread_id);
}

static void
put_thread(chrome_sink *sink, mrd_track_id id, uint32_t tid, uint32_t lane)
{
    const mrd_track *track = mrd_catalog_borrow_track(sink->cat, id);
    mrd_buf title = { 0 };
    mrd_jw *jw = &sink->w;

    track_title(sink->cat, track, &title);
    if (lane > 0)
        mrd_buf_fmt(&title, " (lane %u)", lane + 1);
    put_meta(sink, "thread_name", track->process + 1, tid);
    MRD_JW_PUT(jw, "name", str, (mrd_str){ (const char *) title.p, title.len });
    sink->err = title.err != MRD_OK ? title.err : sink->err;
    mrd_buf_fini(&title);
    MRD_JW_PUT(jw, "trace_event_source", str, mrd_str_of(mrd_source_text(track->source)));
    mrd_jw_put_i64(jw, MRD_STR("lnc_idx"), track->lnc_idx);
    mrd_jw_put_i64(jw, MRD_STR("pcore_idx"), track->pcore_idx);
    mrd_jw_put_i64(jw, MRD_STR("device_idx"), track->device_idx);
    mrd_jw_put_i64(jw, MRD_STR("thread_id"), track->thread_id);
    mrd_jw_put_i64(jw, MRD_STR("worker_gid"), track->worker_gid);
    if (track->name != MRD_SID_EMPTY) {
        MRD_JW_PUT(jw, "track", sid, track->name);
    }
    end_meta(sink);
    /* all lanes of a track get the same sort index; viewers then order them by name */
    put_sort_index(sink, "thread_sort_index", track->process + 1, tid, sink->tracks[id].tid);
}

typedef struct {
    const mrd_catalog *cat;
    mrd_proc_id id;
} process_key;

/* Orders processes by rank, then by the sort index of the source, then by node and process number.
 * Processes without a rank come last. */
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
put_processes(chrome_sink *sink)
{
    size_t n = mrd_catalog_processes(sink->cat);
    process_key *keys = malloc((n + 1) * sizeof(*keys));
    mrd_buf title = { 0 };

    if (keys == NULL) {
        sink->err = MRD_NOMEM;
        return;
    }
    for (size_t i = 0; i < n; i++)
        keys[i] = (process_key){ sink->cat, (mrd_proc_id) i };
    qsort(keys, n, sizeof(*keys), process_order);
    for (size_t i = 0; i < n; i++) {
        if (mrd_catalog_borrow_process(sink->cat, keys[i].id)->profile == sink->env->profile)
            put_process(sink, keys[i].id, i, &title);
    }
    sink->err = title.err != MRD_OK ? title.err : sink->err;
    mrd_buf_fini(&title);
    free(keys);
}

/* Gives each counter of a process a different name, because Chrome identifies a counter by process
 * and name. */
static bool
counter_name(chrome_sink *sink, mrd_track_id id)
{
    const mrd_track *track = mrd_catalog_borrow_track(sink->cat, id);
    mrd_buf title = { 0 };

    track_title(sink->cat, track, &title);
    if (title.err == MRD_OK)
        sink->tracks[id].counter = mrd_str_dup((mrd_str){ (const char *) title.p, title.len });
    mrd_buf_fini(&title);
    return sink->tracks[id].counter != NULL;
}

static void
start(chrome_sink *sink, mrd_ev_ns first)
{
    mrd_jw *jw = &sink->w;

    sink->started = true;
    sink->base = mrd_ev_after(sink->env->first, sink->env->last)
                     ? first
                     : mrd_ev_min(sink->env->first, first);
    mrd_jw_open(jw, '{');
    /* The catalog gets the name "traceEvents" from mrd_catalog_json(). So readers find the list of
     * events, however long the text before it is. */
    mrd_catalog_json(jw, sink->cat, sink->env->profile, "traceEvents");
    MRD_JW_PUT(jw, "displayTimeUnit", str, MRD_STR("ns"));
    MRD_JW_PUT(jw, "baseTimeNanoseconds", i64, sink->base.ns);
    MRD_JW_PUT(jw, "traceEvents", open, '[');
    put_processes(sink);
}

/* ---- Events ---- */

/* Returns the tid of a lane, and writes the lane's name at its first use. Returns 0 if out of
 * memory. */
static uint32_t
lane_tid(chrome_sink *sink, mrd_track_id track, uint32_t lane)
{
    chrome_track *t = &sink->tracks[track];

    if (t->tid == 0) {
        t->tid = sink->next_tid++;
        put_thread(sink, track, t->tid, 0);
    }
    if (lane == 0)
        return t->tid;
    if (!MRD_VEC_REACH(t->lanes, t->n_lanes, lane - 1))
        return 0;
    if (t->lanes[lane - 1] == 0) {
        t->lanes[lane - 1] = sink->next_tid++;
        put_thread(sink, track, t->lanes[lane - 1], lane);
    }
    return t->lanes[lane - 1];
}

static int64_t
since_base(const chrome_sink *sink, mrd_ev_ns ts)
{
    int64_t v;

    if (__builtin_sub_overflow(ts.ns, sink->base.ns, &v))
        return mrd_ev_before(ts, sink->base) ? INT64_MIN : INT64_MAX;
    return v;
}

static void
put_head(chrome_sink *sink, mrd_str ph, uint32_t pid, uint32_t tid, mrd_ev_ns ts)
{
    mrd_jw *jw = &sink->w;

    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "ph", str, ph);
    MRD_JW_PUT(jw, "pid", u64, pid);
    MRD_JW_PUT(jw, "tid", u64, tid);
    MRD_JW_PUT(jw, "ts", us, since_base(sink, ts));
}

static void
put_cat(mrd_jw *jw, mrd_sid category)
{
    if (category == MRD_SID_EMPTY)
        return;
    MRD_JW_PUT(jw, "cat", sid, category);
}

static void
put_args(mrd_jw *jw, const mrd_event *ev)
{
    bool no_start = ev->flags & MRD_EV_NO_START, simulated = ev->flags & MRD_EV_SIMULATED;

    if (ev->arg_count == 0 && ev->id == 0 && ev->bound_ns == 0 && !no_start && !simulated)
        return;
    MRD_JW_PUT(jw, "args", open, '{');
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        mrd_jw_key_sid(jw, ev->args[i].key);
        mrd_jw_arg(jw, &ev->args[i]);
    }
    if (ev->id != 0) {
        MRD_JW_PUT(jw, "meridian.id", u64, ev->id);
    }
    if (ev->bound_ns != MRD_BOUND_LOCAL && ev->bound_ns != MRD_BOUND_UNKNOWN) {
        MRD_JW_PUT(jw, "meridian.clock_bound_ns", u64, ev->bound_ns);
    }
    if (no_start) {
        MRD_JW_PUT(jw, "meridian.no_start", bool, true);
    }
    if (simulated) {
        MRD_JW_PUT(jw, "meridian.simulated", bool, true);
    }
    mrd_jw_close(jw, '}');
}

static void
put_flow_point(chrome_sink *sink, const mrd_flow *flow, uint32_t pid, uint32_t tid, mrd_ev_ns ts)
{
    static const char *const ph[] = { "t", "s", "t", "f" };
    mrd_jw *jw = &sink->w;
    char id[24];

    put_head(sink, mrd_str_of(ph[flow->dir & 3]), pid, tid, ts);
    MRD_JW_PUT(jw, "name", str, MRD_STR("flow"));
    MRD_JW_PUT(jw, "cat", str, MRD_STR("flow"));
    /* The id is hexadecimal text. A reader that uses doubles would round a large number, and
     * trace_processor reads text as hexadecimal. */
    snprintf(id, sizeof(id), "0x%" PRIx64, flow->id);
    MRD_JW_PUT(jw, "id", str, mrd_str_of(id));
    if (flow->dir == MRD_FLOW_END) {
        MRD_JW_PUT(jw, "bp", str, MRD_STR("e"));
    }
    mrd_jw_close(jw, '}');
}

/* Writes a point of a flow arrow. The format allows one end per arrow. So each end of an arrow with
 * several ends becomes an arrow of its own, and the start is written once for each of them. */
static void
put_flow(chrome_sink *sink, const mrd_flow *flow, uint32_t pid, uint32_t tid, mrd_ev_ns ts)
{
    mrd_map_key key = { flow->id, 0, 0 };
    mrd_flow point = { .id = flow->id, .dir = flow->dir };
    uint32_t n;

    if (flow->dir == MRD_FLOW_START && flow->ends > 1 &&
        mrd_map_put(&sink->fans, key, flow->ends) == MRD_OK)
        for (n = flow->ends; --n > 0;) {
            point.id = mrd_flow_end_id(flow->id, n);
            put_flow_point(sink, &point, pid, tid, ts);
            point.id = flow->id;
        }
    if (flow->dir == MRD_FLOW_END && (n = mrd_map_get(&sink->fans, key)) != MRD_MAP_NONE) {
        point.id = mrd_flow_end_id(flow->id, n - 1);
        if (n == 1 || mrd_map_put(&sink->fans, key, n - 1) != MRD_OK)
            mrd_map_remove(&sink->fans, key);
    }
    put_flow_point(sink, &point, pid, tid, ts);
}

static void
put_span(chrome_sink *sink, const mrd_event *ev, uint32_t pid, uint32_t tid)
{
    mrd_jw *jw = &sink->w;
    bool open = ev->kind == MRD_SPAN && ev->dur_ns < 0;

    put_head(sink,
             ev->kind == MRD_INSTANT ? MRD_STR("i")
             : open                  ? MRD_STR("B")
                                     : MRD_STR("X"),
             pid, tid, ev->ts);
    if (ev->kind == MRD_SPAN && !open) {
        MRD_JW_PUT(jw, "dur", us, ev->dur_ns);
    }
    if (ev->kind == MRD_INSTANT) {
        MRD_JW_PUT(jw, "s", str, MRD_STR("t"));
    }
    MRD_JW_PUT(jw, "name", sid, ev->name);
    put_cat(jw, ev->category);
    put_args(jw, ev);
    mrd_jw_close(jw, '}');
    for (uint8_t i = 0; i < ev->flow_count; i++)
        put_flow(sink, &ev->flows[i], pid, tid, ev->ts);
}

static void
put_loss(chrome_sink *sink, const mrd_event *ev, uint32_t pid, uint32_t tid)
{
    mrd_jw *jw = &sink->w;

    put_head(sink, MRD_STR("X"), pid, tid, ev->ts);
    MRD_JW_PUT(jw, "dur", us, ev->dur_ns < 0 ? 0 : ev->dur_ns);
    MRD_JW_PUT(jw, "name", sid, ev->name);
    MRD_JW_PUT(jw, "cat", str, MRD_STR("meridian.loss"));
    MRD_JW_PUT(jw, "args", open, '{');
    MRD_JW_PUT(jw, "meridian.lost", i64, ev->ivalue);
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, '}');
}

static mrd_err
put_counter(chrome_sink *sink, const mrd_event *ev, uint32_t pid)
{
    mrd_jw *jw = &sink->w;

    if (sink->tracks[ev->track].counter == NULL && !counter_name(sink, ev->track))
        return MRD_NOMEM;
    put_head(sink, MRD_STR("C"), pid, 0, ev->ts);
    MRD_JW_PUT(jw, "name", str, mrd_str_of(sink->tracks[ev->track].counter));
    put_cat(jw, ev->category);
    MRD_JW_PUT(jw, "args", open, '{');
    if (ev->name != MRD_SID_EMPTY)
        mrd_jw_key_sid(jw, ev->name);
    else
        MRD_JW_KEY(jw, "value");
    mrd_json_put_sample(jw, ev);
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, '}');
    return MRD_OK;
}

static mrd_err
chrome_event(void *state, const mrd_event *ev)
{
    chrome_sink *sink = state;
    mrd_flow flow = { .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir };
    uint32_t pid, tid;

    if (ev->track >= sink->n_tracks)
        return MRD_STATE; /* the track was not in the catalog when the sink was opened */
    /* an impossible time would stretch the time axis of viewers */
    if (ev->flags & MRD_EV_MISTIMED)
        return MRD_OK;
    if (!sink->started)
        start(sink, ev->ts);
    pid = mrd_catalog_borrow_track(sink->cat, ev->track)->process + 1;
    if (ev->kind == MRD_COUNTER)
        return put_counter(sink, ev, pid);
    if ((tid = lane_tid(sink, ev->track, mrd_lanes_put(sink->lanes, ev))) == 0)
        return MRD_NOMEM;
    if (ev->kind == MRD_FLOW)
        put_flow(sink, &flow, pid, tid, ev->ts);
    else if (ev->kind == MRD_LOSS)
        put_loss(sink, ev, pid, tid);
    else
        put_span(sink, ev, pid, tid);
    return sink->err != MRD_OK ? sink->err : mrd_lanes_err(sink->lanes);
}

static mrd_err
chrome_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    chrome_sink *sink = state;

    sink->env = env;
    sink->cat = env->catalog;
    sink->next_tid = 1;
    sink->n_tracks = mrd_catalog_tracks(env->catalog);
    sink->tracks = calloc(sink->n_tracks + 1, sizeof(*sink->tracks));
    sink->lanes = mrd_lanes_new(sink->n_tracks);
    if (sink->tracks == NULL || sink->lanes == NULL) {
        free(sink->tracks);
        mrd_lanes_free(sink->lanes);
        mrd_map_fini(&sink->fans);
        return mrd_why_set(why, MRD_NOMEM, 0, "chrome: tracks");
    }
    mrd_jw_init(&sink->w, env->out, mrd_catalog_strings(env->catalog), false);
    return MRD_OK;
}

static mrd_err
chrome_close(void *state, mrd_why *why)
{
    chrome_sink *sink = state;

    (void) why;
    if (!sink->started)
        start(sink, (mrd_ev_ns){ 0 });
    mrd_jw_close(&sink->w, ']');
    mrd_jw_close(&sink->w, '}');
    mrd_jw_end(&sink->w);
    mrd_jw_fini(&sink->w);
    for (size_t i = 0; i < sink->n_tracks; i++) {
        free(sink->tracks[i].lanes);
        free(sink->tracks[i].counter);
    }
    free(sink->tracks);
    mrd_lanes_free(sink->lanes);
    mrd_map_fini(&sink->fans);
    return sink->err;
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
