/*
 * trace/sink/sink_json.c - the vendor's JSON. Writes system_profile.json in the layout of the
 * vendor's guide (`trace_events`, `mem_usage`, `cpu_util`) or in the newer singular one
 * (`trace_event`, ...), and device_profile_model_<id>.json (sink_json_device.c).
 *
 * Keys of the guide have the guide's types, including numbers in strings. Other data has keys that
 * its readers ignore; docs/reference/json.md lists them. Rows of the smaller arrays are kept in
 * spools while trace_events is written.
 */
#include "trace/sink/sink_json.h"

#include <stdlib.h>

#include "base/obj.h"
#include "base/vec.h"
#include "trace/json/catalog_json.h"
#include "trace/json/json_names.h"
#include "trace/model/arg_keys.h"
#include "trace/sink/json_event.h"

/* How the samples of a track are written. */
typedef enum { ROLE_EVENT, ROLE_COUNTER, ROLE_MEM_USED, ROLE_MEM_PERCENT, ROLE_CPU } json_role;

/* Event arguments that become members of the event's JSON object. `guide` and `explorer` are true
 * if this applies to the layout of the vendor's guide, and to the newer layout. */
static const struct {
    mrd_arg_key key;
    bool guide, explorer;
    bool text; /* the guide's layout writes this number in quotes */
} promoted[] = {
    { MRD_KEY_SIZE, true, true, true },         { MRD_KEY_TENSOR, true, true, true },
    { MRD_KEY_TENSOR_NAME, true, true, false }, { MRD_KEY_EXEC, false, true, false },
    { MRD_KEY_PCORE, false, true, false },      { MRD_KEY_MODEL, false, true, false },
    { MRD_KEY_MODEL_NAME, false, true, false }, { MRD_KEY_PARENT, true, false, false },
    { MRD_KEY_TYPE, true, false, false },
};

enum { PROMOTED_PARENT = 7, PROMOTED_TYPE = 8, PROMOTED = MRD_COUNT(promoted) };

typedef struct {
    uint64_t at;
    json_role role;
    mrd_str cpu_id;
    bool runtime;
} json_track;

/* A row of mem_usage. A process has two counters of host memory, used bytes and percent. Their
 * samples at the same time share a row. */
typedef struct {
    mrd_event used, percent;
    mrd_proc_id process;
    bool has_used, has_percent;
} mem_row;

typedef struct {
    const mrd_sink_env *env;
    const mrd_catalog *cat;
    mrd_jw w;
    bool explorer;
    /* n_tracks + 1 entries. The encoded members of track i begin at tracks[i].at in `fragments`,
     * and end where the next track's members begin. */
    json_track *tracks;
    size_t n_tracks;
    mrd_buf fragments;
    mrd_sid promoted_key[PROMOTED];
    mrd_jw_spool mem, cpu, counters, losses;
    mem_row *rows; /* rows of mem_usage that have the current time, not written yet */
    size_t n_rows, cap_rows;
    uint64_t events, lost;
    mrd_ev_ns first, last;
    /* state of a device profile, which uses no other member of this struct; NULL for a system
     * profile */
    mrd_json_device *device;
} json_sink;

/* ---- Members of an event that depend only on its track, encoded once ---- */

static void
put_i64(mrd_jw *jw, mrd_str key, int64_t v, bool text)
{
    if (v == MRD_NONE || !text) {
        mrd_jw_put_i64(jw, key, v);
        return;
    }
    mrd_jw_key(jw, key);
    mrd_jw_i64_text(jw, v);
}

static void
put_identity(json_sink *sink, mrd_jw *jw, const mrd_track *track, uint32_t scope)
{
    const mrd_process *process = mrd_catalog_borrow_process(sink->cat, track->process);
    /* true for rows of events in the newer layout, which the vendor's schema defines */
    bool vendor = sink->explorer && track->kind == MRD_TRACK_SPANS;
    char group[64];

    if (!sink->explorer && track->kind == MRD_TRACK_SPANS) {
        size_t len = (size_t) mrd_json_group(track, group);

        MRD_JW_PUT(jw, "group", str, (mrd_str){ group, len });
    }
    mrd_jw_put_sid(jw, MRD_STR("instance_id"), process->instance_id);
    if (sink->explorer)
        mrd_jw_put_i64(jw, MRD_STR("nc_idx"), track->lnc_idx);
    put_i64(jw, MRD_STR("lnc_idx"), track->lnc_idx, !sink->explorer);
    put_i64(jw, MRD_STR("process_id"), process->process_id, true);
    if (scope != 0)
        mrd_jw_put_i64(jw, MRD_STR("scope"), scope);
    mrd_jw_put_i64(jw, MRD_STR("thread_id"), track->thread_id);
    mrd_jw_put_i64(jw, MRD_STR("pcore_idx"), track->pcore_idx);
    mrd_jw_put_i64(jw, MRD_STR("device_idx"), track->device_idx);
    put_i64(jw, MRD_STR("worker_gid"),
            track->worker_gid != MRD_NONE ? track->worker_gid : process->worker_gid, false);
    MRD_JW_PUT(jw, "trace_event_source", str,
               mrd_str_of(vendor ? mrd_source_vendor_text(track->source)
                                 : mrd_source_text(track->source)));
    if (vendor && track->source > MRD_SRC_FRAMEWORK) {
        MRD_JW_PUT(jw, "source", str, mrd_str_of(mrd_source_text(track->source)));
    }
    mrd_jw_put_sid(jw, MRD_STR("track"), track->name);
    if (track->kind == MRD_TRACK_COUNTER) {
        mrd_jw_put_flag(jw, MRD_STR("node"), process->flags & MRD_PROC_NODE);
        if (track->unit != MRD_UNIT_NONE) {
            MRD_JW_PUT(jw, "unit", str, mrd_str_of(mrd_unit_text(track->unit)));
        }
        mrd_jw_put_sid(jw, MRD_STR("unit_name"), track->unit_name);
    }
}

/* Writes the node of a mem_usage or cpu_util row, and the process if the sample concerns only one
 * process. */
static void
put_host_identity(json_sink *sink, mrd_jw *jw, const mrd_track *track, uint32_t scope)
{
    const mrd_process *process = mrd_catalog_borrow_process(sink->cat, track->process);

    mrd_jw_put_sid(jw, MRD_STR("instance_id"), process->instance_id);
    if (!(process->flags & MRD_PROC_NODE) || process->process_id != 0)
        put_i64(jw, MRD_STR("process_id"), process->process_id, true);
    if (scope != 0)
        mrd_jw_put_i64(jw, MRD_STR("scope"), scope);
    if (!(process->flags & MRD_PROC_NODE))
        mrd_jw_put_flag(jw, MRD_STR("process"), true);
    if (mrd_str_is(mrd_catalog_text(sink->cat, track->name), MRD_NAME_MEM_MONITOR))
        mrd_jw_put_sid(jw, MRD_STR("track"), track->name);
}

static bool
collect(void *self, const void *data, size_t len)
{
    mrd_buf_add(self, data, len);
    return ((mrd_buf *) self)->err == MRD_OK;
}

static json_role
track_role(const mrd_catalog *cat, const mrd_track *track, mrd_str *ret_cpu_id)
{
    mrd_str name = mrd_catalog_text(cat, track->name);

    if (track->kind == MRD_TRACK_SPANS)
        return ROLE_EVENT;
    if (track->source != MRD_SRC_HOST || track->lnc_idx != MRD_NONE ||
        track->pcore_idx != MRD_NONE || track->device_idx != MRD_NONE ||
        track->thread_id != MRD_NONE)
        return ROLE_COUNTER;
    if (mrd_str_is(name, MRD_NAME_MEM_USED) || mrd_str_is(name, MRD_NAME_MEM_MONITOR))
        return ROLE_MEM_USED;
    if (mrd_str_is(name, MRD_NAME_MEM_PERCENT))
        return ROLE_MEM_PERCENT;
    return mrd_json_cpu_id(name, ret_cpu_id) ? ROLE_CPU : ROLE_COUNTER;
}

static mrd_err
render_tracks(json_sink *sink, mrd_why *why)
{
    uint32_t *scopes = mrd_catalog_scopes(sink->cat);
    mrd_out *out = NULL;
    mrd_jw jw;
    mrd_err err;

    sink->n_tracks = mrd_catalog_tracks(sink->cat);
    sink->tracks = calloc(sink->n_tracks + 1, sizeof(*sink->tracks));
    if (scopes == NULL || sink->tracks == NULL) {
        free(scopes);
        return mrd_why_set(why, MRD_NOMEM, 0, "json: tracks");
    }
    if ((err = mrd_out_func(collect, &sink->fragments, "tracks", &out, why)) != MRD_OK) {
        free(scopes);
        return err;
    }
    mrd_jw_init(&jw, out, mrd_catalog_strings(sink->cat), sink->env->options->pretty);
    for (size_t i = 0; i < sink->n_tracks; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(sink->cat, (mrd_track_id) i);
        json_track *j = &sink->tracks[i];

        mrd_jw_flush(&jw);
        j->at = mrd_out_size(out);
        j->role = track_role(sink->cat, track, &j->cpu_id);
        j->runtime = mrd_source_is_runtime(track->source);
        if (mrd_catalog_profile_of(sink->cat, (mrd_track_id) i) != sink->env->profile)
            continue;
        mrd_jw_inside(&jw, 3);
        if (j->role == ROLE_EVENT || j->role == ROLE_COUNTER)
            put_identity(sink, &jw, track, scopes[track->process]);
        else
            put_host_identity(sink, &jw, track, scopes[track->process]);
    }
    mrd_jw_fini(&jw);
    sink->tracks[sink->n_tracks].at = mrd_out_size(out);
    free(scopes);
    return mrd_out_commit(out, why);
}

static void
put_fragment(const json_sink *sink, mrd_jw *jw, mrd_track_id track)
{
    const json_track *j = &sink->tracks[track];

    if (j[1].at > j->at)
        mrd_jw_members(
            jw, (mrd_str){ (const char *) sink->fragments.p + j->at, (size_t) (j[1].at - j->at) });
}

/* ---- Events ---- */

/* Returns the index in `promoted` of an argument that becomes a member of the event, else PROMOTED.
 * In the guide's layout, some members have to be numbers, so their argument must be an integer. */
static size_t
promoted_index(const json_sink *sink, const json_track *track, const mrd_arg *arg)
{
    size_t i = 0;
    bool number = mrd_arg_is_int(arg);

    while (i < PROMOTED && (sink->promoted_key[i] != arg->key || sink->promoted_key[i] == 0))
        i++;
    if (i == PROMOTED)
        return PROMOTED;
    if (i == PROMOTED_PARENT || i == PROMOTED_TYPE)
        return number && track->runtime ? i : PROMOTED;
    if (promoted[i].text && !sink->explorer)
        return number ? i : PROMOTED;
    return arg->type == MRD_ARG_JSON ? PROMOTED : i;
}

static void
put_promoted(json_sink *sink, mrd_jw *jw, const mrd_arg *const at[PROMOTED])
{
    for (size_t i = 0; i < PROMOTED_PARENT; i++) {
        if (at[i] == NULL)
            continue;
        mrd_jw_key(jw, mrd_str_of(mrd_arg_key_text(promoted[i].key)));
        if (promoted[i].text && !sink->explorer && at[i]->type == MRD_ARG_INT)
            mrd_jw_i64_text(jw, at[i]->v.i);
        else if (promoted[i].text && !sink->explorer)
            mrd_jw_u64_text(jw, at[i]->v.u);
        else
            mrd_jw_arg(jw, at[i]);
    }
}

/* Stores in at[] the event's arguments that become members of the event. Returns the number of
 * other arguments. */
static uint32_t
sort_args(const json_sink *sink, const mrd_event *ev, const mrd_arg *at[PROMOTED])
{
    const json_track *track = &sink->tracks[ev->track];
    uint32_t rest = 0;

    for (uint32_t i = 0; i < ev->arg_count; i++) {
        size_t k = promoted_index(sink, track, &ev->args[i]);

        if (k < PROMOTED && at[k] == NULL)
            at[k] = &ev->args[i];
        else
            rest++;
    }
    return rest;
}

static void
put_args(mrd_jw *jw, const mrd_event *ev, const mrd_arg *const at[PROMOTED])
{
    MRD_JW_PUT(jw, "args", open, '{');
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];
        bool own = false;

        for (size_t k = 0; k < PROMOTED && !own; k++)
            own = at[k] == arg;
        if (own)
            continue;
        mrd_jw_key_sid(jw, arg->key);
        mrd_jw_arg(jw, arg);
    }
    mrd_jw_close(jw, '}');
}

static void
put_guide_numbers(json_sink *sink, mrd_jw *jw, const mrd_event *ev,
                  const mrd_arg *const at[PROMOTED])
{
    const json_track *track = &sink->tracks[ev->track];
    const mrd_arg *type = at[PROMOTED_TYPE];
    const mrd_track *t = mrd_catalog_borrow_track(sink->cat, ev->track);

    if (track->runtime) {
        MRD_JW_KEY(jw, "parent_id");
        if (at[PROMOTED_PARENT] != NULL)
            mrd_jw_arg(jw, at[PROMOTED_PARENT]);
        else
            mrd_jw_u64(jw, 0);
    }
    MRD_JW_KEY(jw, "type");
    if (type != NULL)
        mrd_jw_arg(jw, type);
    else
        mrd_jw_i64(jw, mrd_json_event_type(t->source, mrd_catalog_text(sink->cat, ev->name)));
}

static void
put_event(json_sink *sink, mrd_jw *jw, const mrd_event *ev)
{
    const mrd_arg *at[PROMOTED] = { NULL };
    uint32_t rest = ev->arg_count == 0 ? 0 : sort_args(sink, ev, at);

    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "duration", i64, ev->kind != MRD_SPAN || ev->dur_ns < 0 ? 0 : ev->dur_ns);
    put_fragment(sink, jw, ev->track);
    if (ev->id != 0 || (sink->tracks[ev->track].runtime && !sink->explorer)) {
        MRD_JW_PUT(jw, "id", u64, ev->id);
    }
    MRD_JW_PUT(jw, "name", sid, ev->name);
    put_promoted(sink, jw, at);
    MRD_JW_PUT(jw, "timestamp", i64, ev->ts.ns);
    if (sink->explorer) {
        MRD_JW_PUT(jw, "timestamp_unit", str, MRD_STR("ns"));
    } else {
        put_guide_numbers(sink, jw, ev, at);
    }
    mrd_json_put_marks(jw, ev);
    if (rest > 0)
        put_args(jw, ev, at);
    mrd_jw_close(jw, '}');
}

/* Writes a point of a flow arrow that belongs to no span. */
static void
put_flow_point(json_sink *sink, mrd_jw *jw, const mrd_event *ev)
{
    mrd_flow flow = { .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir };
    mrd_event point = *ev;

    point.kind = MRD_INSTANT;
    point.id = 0;
    point.flows = &flow;
    point.flow_count = 1;
    point.dur_ns = 0;
    put_event(sink, jw, &point);
}

/* ---- Counters and losses ---- */

static mrd_jw *
spool_row(json_sink *sink, mrd_jw_spool *spool)
{
    mrd_jw *jw =
        mrd_jw_spool_writer(spool, mrd_catalog_strings(sink->cat), sink->env->options->pretty, 2);

    if (jw != NULL)
        mrd_jw_open(jw, '{');
    return jw;
}

/* Writes the first members of a row of host memory or CPU use. */
static void
put_row_start(json_sink *sink, mrd_jw *jw, mrd_track_id track)
{
    MRD_JW_PUT(jw, "duration", u64, 1);
    put_fragment(sink, jw, track);
}

static void
put_row_end(mrd_jw *jw, const mrd_event *ev)
{
    MRD_JW_PUT(jw, "timestamp", i64, ev->ts.ns);
    mrd_jw_put_flag(jw, MRD_STR("simulated"), ev->flags & MRD_EV_SIMULATED);
    mrd_json_put_bound(jw, ev->bound_ns);
    mrd_jw_close(jw, '}');
}

static mrd_err
put_counter(json_sink *sink, const mrd_event *ev)
{
    mrd_jw *jw = spool_row(sink, &sink->counters);

    if (jw == NULL)
        return MRD_NOMEM;
    MRD_JW_KEY(jw, "value");
    mrd_json_put_sample(jw, ev);
    put_fragment(sink, jw, ev->track);
    mrd_jw_put_sid(jw, MRD_STR("name"), ev->name);
    mrd_jw_put_sid(jw, MRD_STR("category"), ev->category);
    put_row_end(jw, ev);
    return MRD_OK;
}

static mrd_err
put_cpu(json_sink *sink, const mrd_event *ev)
{
    mrd_jw *jw = spool_row(sink, &sink->cpu);

    if (jw == NULL)
        return MRD_NOMEM;
    put_row_start(sink, jw, ev->track);
    MRD_JW_PUT(jw, "cpu_id", str, sink->tracks[ev->track].cpu_id);
    mrd_jw_key(jw, sink->explorer ? MRD_STR("util_percent") : MRD_STR("util"));
    mrd_json_put_sample(jw, ev);
    put_row_end(jw, ev);
    return MRD_OK;
}

static mrd_err
flush_memory(json_sink *sink)
{
    for (size_t i = 0; i < sink->n_rows; i++) {
        const mem_row *row = &sink->rows[i];
        const mrd_event *any = row->has_used ? &row->used : &row->percent;
        mrd_jw *jw = spool_row(sink, &sink->mem);

        if (jw == NULL)
            return MRD_NOMEM;
        put_row_start(sink, jw, any->track);
        if (row->has_percent) {
            mrd_jw_key(jw, sink->explorer ? MRD_STR("used_percent") : MRD_STR("percent_usage"));
            mrd_json_put_sample(jw, &row->percent);
        }
        if (row->has_used) {
            mrd_jw_key(jw, sink->explorer ? MRD_STR("used_bytes") : MRD_STR("usage"));
            mrd_json_put_sample(jw, &row->used);
        }
        put_row_end(jw, any);
    }
    sink->n_rows = 0;
    return MRD_OK;
}

static mem_row *
memory_row(json_sink *sink, mrd_proc_id process, bool used)
{
    for (size_t i = 0; i < sink->n_rows; i++) {
        mem_row *row = &sink->rows[i];

        if (row->process == process && !(used ? row->has_used : row->has_percent))
            return row;
    }
    if (!MRD_VEC_ROOM(sink->rows, sink->n_rows, sink->cap_rows, 1))
        return NULL;
    sink->rows[sink->n_rows] = (mem_row){ .process = process };
    return &sink->rows[sink->n_rows++];
}

static mrd_err
put_memory(json_sink *sink, const mrd_event *ev, bool used)
{
    const mrd_track *track = mrd_catalog_borrow_track(sink->cat, ev->track);
    mrd_err err = MRD_OK;
    mem_row *row;

    if (sink->n_rows > 0 &&
        (sink->rows[0].has_used ? sink->rows[0].used : sink->rows[0].percent).ts.ns != ev->ts.ns)
        err = flush_memory(sink);
    if (err != MRD_OK || (row = memory_row(sink, track->process, used)) == NULL)
        return MRD_NOMEM;
    if (used) {
        row->used = *ev;
        row->has_used = true;
    } else {
        row->percent = *ev;
        row->has_percent = true;
    }
    return MRD_OK;
}

static mrd_err
put_loss(json_sink *sink, const mrd_event *ev)
{
    mrd_jw *jw = spool_row(sink, &sink->losses);

    if (jw == NULL)
        return MRD_NOMEM;
    sink->lost += ev->ivalue < 0 ? 0 : (uint64_t) ev->ivalue;
    MRD_JW_PUT(jw, "lost", i64, ev->ivalue);
    put_fragment(sink, jw, ev->track);
    MRD_JW_PUT(jw, "cause", sid, ev->name);
    mrd_jw_put_sid(jw, MRD_STR("category"), ev->category);
    mrd_jw_put_flag(jw, MRD_STR("unfinished"), ev->dur_ns < 0);
    MRD_JW_PUT(jw, "duration", i64, ev->dur_ns < 0 ? 0 : ev->dur_ns);
    put_row_end(jw, ev);
    return MRD_OK;
}

/* ---- The sink ---- */

static void
see_range(json_sink *sink, const mrd_event *ev)
{
    mrd_ev_ns end = ev->ts;

    if (ev->ts.ns == 0)
        return;
    if (ev->kind == MRD_SPAN && ev->dur_ns > 0 &&
        __builtin_add_overflow(ev->ts.ns, ev->dur_ns, &end.ns))
        end = (mrd_ev_ns){ INT64_MAX };
    sink->first = mrd_ev_min(ev->ts, sink->first);
    sink->last = mrd_ev_max(end, sink->last);
}

static mrd_err
json_event(void *state, const mrd_event *ev)
{
    json_sink *sink = state;

    if (sink->device != NULL)
        return mrd_json_device_event(sink->device, &sink->w, ev);
    if (ev->track >= sink->n_tracks)
        return MRD_STATE; /* the track was not in the catalog when the sink was opened */
    sink->events++;
    see_range(sink, ev);
    switch (ev->kind) {
    case MRD_COUNTER:
        switch (sink->tracks[ev->track].role) {
        case ROLE_MEM_USED:
            return put_memory(sink, ev, true);
        case ROLE_MEM_PERCENT:
            return put_memory(sink, ev, false);
        case ROLE_CPU:
            return put_cpu(sink, ev);
        default:
            return put_counter(sink, ev);
        }
    case MRD_LOSS:
        return put_loss(sink, ev);
    case MRD_FLOW:
        put_flow_point(sink, &sink->w, ev);
        return MRD_OK;
    default:
        put_event(sink, &sink->w, ev);
        return MRD_OK;
    }
}

static mrd_err
json_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    json_sink *sink = state;
    mrd_strtab *strings = mrd_catalog_strings(env->catalog);
    mrd_err err;

    sink->env = env;
    sink->cat = env->catalog;
    sink->explorer = env->options->json_layout == MRD_JSON_EXPLORER;
    sink->first = (mrd_ev_ns){ INT64_MAX };
    sink->last = (mrd_ev_ns){ INT64_MIN };
    mrd_jw_init(&sink->w, env->out, strings, env->options->pretty);
    mrd_jw_open(&sink->w, '{');
    if (env->profile != 0) {
        mrd_catalog_json(&sink->w, sink->cat, env->profile, "device_profile");
        if ((err = mrd_json_device_open(env, &sink->w, &sink->device, why)) != MRD_OK)
            mrd_jw_fini(&sink->w);
        return err;
    }
    for (size_t i = 0; i < PROMOTED; i++) {
        if (sink->explorer ? promoted[i].explorer : promoted[i].guide)
            sink->promoted_key[i] = mrd_arg_key_find(strings, promoted[i].key);
    }
    mrd_catalog_json(&sink->w, sink->cat, 0, "system_profile");
    mrd_jw_key(&sink->w, sink->explorer ? MRD_STR("trace_event") : MRD_STR("trace_events"));
    mrd_jw_open(&sink->w, '[');
    if ((err = render_tracks(sink, why)) != MRD_OK) {
        free(sink->tracks);
        mrd_buf_fini(&sink->fragments);
        mrd_jw_fini(&sink->w);
    }
    return err;
}

static mrd_err
put_section(json_sink *sink, const char *key, mrd_jw_spool *spool, mrd_why *why)
{
    mrd_err err;

    mrd_jw_key(&sink->w, mrd_str_of(key));
    mrd_jw_open(&sink->w, '[');
    err = mrd_jw_spool_drain(spool, &sink->w, why);
    mrd_jw_close(&sink->w, ']');
    return err;
}

static void
put_listed_profile(json_sink *sink, const mrd_devprofile *devprofile)
{
    mrd_jw *jw = &sink->w;

    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "device_profile_name", sid, devprofile->name);
    mrd_jw_put_sid(jw, MRD_STR("instance_id"), devprofile->instance_id);
    mrd_jw_put_i64(jw, MRD_STR("process_id"), devprofile->process_id);
    mrd_jw_put_i64(jw, MRD_STR("nc_id"), devprofile->nc_idx);
    mrd_jw_put_i64(jw, MRD_STR("session_id"), devprofile->session);
    mrd_jw_put_sid(jw, MRD_STR("model_id"), devprofile->model);
    mrd_jw_close(jw, '}');
}

/* Writes the lists that only the newer layout has, from the catalog: device profiles and
 * warnings. */
static void
put_explorer_lists(json_sink *sink)
{
    mrd_jw *jw = &sink->w;
    size_t n;
    const mrd_devprofile *devprofile = mrd_catalog_devprofiles(sink->cat, &n);
    const mrd_artifact *artifact;

    MRD_JW_PUT(jw, "device_profile_list", open, '[');
    for (size_t i = 1; i < n; i++)
        put_listed_profile(sink, &devprofile[i]);
    artifact = mrd_catalog_artifacts(sink->cat, &n);
    for (size_t i = 0; i < n; i++)
        if (mrd_catalog_is_only_carried(sink->cat, &artifact[i]))
            put_listed_profile(sink, &(mrd_devprofile){ .name = artifact[i].profile,
                                                        .instance_id = artifact[i].instance_id,
                                                        .process_id = artifact[i].process_id,
                                                        .nc_idx = artifact[i].nc_idx,
                                                        .session = artifact[i].session });
    mrd_jw_close(jw, ']');
    MRD_JW_PUT(jw, "warnings", open, '[');
    for (size_t i = 0; i < mrd_catalog_notes(sink->cat); i++) {
        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "category", str, MRD_STR("meridian"));
        MRD_JW_PUT(jw, "message", str, mrd_catalog_note_at(sink->cat, i));
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
}

/* Writes the totals of the profile. first_ts_ns and last_ts_ns are strings, as in the vendor's
 * schema. */
static void
put_totals(json_sink *sink)
{
    mrd_jw *jw = &sink->w;
    bool any = !mrd_ev_after(sink->first, sink->last);

    MRD_JW_PUT(jw, "system_profile_metadata", open, '[');
    mrd_jw_open(jw, '{');
    put_i64(jw, MRD_STR("first_ts_ns"), any ? sink->first.ns : MRD_NONE, true);
    put_i64(jw, MRD_STR("last_ts_ns"), any ? sink->last.ns : MRD_NONE, true);
    MRD_JW_PUT(jw, "events_written", u64, sink->events);
    MRD_JW_PUT(jw, "events_lost", u64, sink->lost);
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, ']');
}

static mrd_err
finish_system(json_sink *sink, mrd_why *why)
{
    mrd_err err;

    mrd_jw_close(&sink->w, ']');
    if (flush_memory(sink) != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "json: mem_usage");
    if ((err = put_section(sink, "mem_usage", &sink->mem, why)) != MRD_OK ||
        (err = put_section(sink, "cpu_util", &sink->cpu, why)) != MRD_OK ||
        (err = put_section(sink, "counters", &sink->counters, why)) != MRD_OK ||
        (err = put_section(sink, "losses", &sink->losses, why)) != MRD_OK)
        return err;
    if (sink->explorer)
        put_explorer_lists(sink);
    put_totals(sink);
    return MRD_OK;
}

static mrd_err
json_close(void *state, mrd_why *why)
{
    json_sink *sink = state;
    mrd_err err;

    if (sink->device != NULL)
        err = mrd_json_device_close(sink->device, &sink->w, why);
    else
        err = finish_system(sink, why);
    mrd_jw_close(&sink->w, '}');
    mrd_jw_end(&sink->w);
    mrd_jw_fini(&sink->w);
    mrd_jw_spool_fini(&sink->mem);
    mrd_jw_spool_fini(&sink->cpu);
    mrd_jw_spool_fini(&sink->counters);
    mrd_jw_spool_fini(&sink->losses);
    mrd_buf_fini(&sink->fragments);
    free(sink->tracks);
    free(sink->rows);
    return err;
}

const mrd_sink_ops mrd_sink_json = {
    .name = "json",
    .stem = "system_profile",
    .suffix = ".json",
    .media_type = "application/json",
    .title = "JSON",
    .what = "the vendor's JSON, for scripts",
    .state_size = sizeof(json_sink),
    .device_too = true,
    .each_half = true,
    .lists_files = true,
    .open = json_open,
    .event = json_event,
    .close = json_close,
};
