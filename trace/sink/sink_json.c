/*
 * trace/sink/sink_json.c - the vendor's JSON. Writes system_profile.json in the layout of the
 * vendor's guide (`trace_events`, `mem_usage`, `cpu_util`) or in the newer singular one
 * (`trace_event`, ...), and device_profile_model_<id>.json (sink_json_device.c).
 *
 * Keys of the guide have the guide's types, including numbers in strings. Other data has keys that
 * its readers ignore; docs/reference/json.md lists them. Rows of the smaller arrays are kept in spools while
 * trace_events is written.
 */
#include "trace/sink/sink_json.h"

#include <stdlib.h>

#include "base/obj.h"
#include "base/vec.h"
#include "trace/json/catalog_json.h"
#include "trace/json/json_names.h"
#include "trace/model/arg_keys.h"
#include "trace/sink/json_event.h"

/* The use of a track's samples. */
typedef enum { ROLE_EVENT, ROLE_COUNTER, ROLE_MEM_USED, ROLE_MEM_PERCENT, ROLE_CPU } json_role;

/* Arguments that become members of an event, by layout. */
static const struct {
    mrd_arg_key key;
    bool guide, explorer;
    bool text; /* guide: a number in quotes */
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

/* Both samples of host memory of one process and time make one row. */
typedef struct {
    mrd_track_id used_track, percent_track;
    mrd_event used, percent;
    mrd_proc_id process;
    bool has_used, has_percent;
} mem_row;

typedef struct {
    const mrd_sink_env *env;
    const mrd_catalog *cat;
    mrd_jw w;
    bool explorer;
    json_track *tracks; /* one more than tracks, for the end of the last fragment */
    size_t n_tracks;
    mrd_buf fragments;
    mrd_sid promoted_key[PROMOTED];
    mrd_jw_spool mem, cpu, counters, losses;
    mem_row *rows; /* rows of the current time */
    size_t n_rows, cap_rows;
    uint64_t events, lost;
    mrd_ev_ns first, last;
    mrd_json_device *device; /* for a device profile; all else is unused then */
} json_sink;

/* ---- Parts that all events of a track share, rendered once ---- */

static void
put_i64(mrd_jw *w, mrd_str key, int64_t v, bool text)
{
    if (v == MRD_NONE || !text) {
        mrd_jw_put_i64(w, key, v);
        return;
    }
    mrd_jw_key(w, key);
    mrd_jw_i64_text(w, v);
}

static void
put_identity(json_sink *s, mrd_jw *w, const mrd_track *t, uint32_t scope)
{
    const mrd_process *p = mrd_catalog_borrow_process(s->cat, t->process);
    bool vendor = s->explorer && t->kind == MRD_TRACK_SPANS; /* a row of the vendor's schema */
    char group[64];

    if (!s->explorer && t->kind == MRD_TRACK_SPANS) {
        MRD_JW_KEY(w, "group");
        mrd_jw_str(w, (mrd_str){ group, (size_t) mrd_json_group(t, group) });
    }
    mrd_jw_put_sid(w, MRD_STR("instance_id"), p->instance_id);
    if (s->explorer)
        mrd_jw_put_i64(w, MRD_STR("nc_idx"), t->lnc_idx);
    put_i64(w, MRD_STR("lnc_idx"), t->lnc_idx, !s->explorer);
    put_i64(w, MRD_STR("process_id"), p->process_id, true);
    if (scope != 0)
        mrd_jw_put_i64(w, MRD_STR("scope"), scope);
    mrd_jw_put_i64(w, MRD_STR("thread_id"), t->thread_id);
    mrd_jw_put_i64(w, MRD_STR("pcore_idx"), t->pcore_idx);
    mrd_jw_put_i64(w, MRD_STR("device_idx"), t->device_idx);
    put_i64(w, MRD_STR("worker_gid"), t->worker_gid != MRD_NONE ? t->worker_gid : p->worker_gid,
            false);
    MRD_JW_KEY(w, "trace_event_source");
    mrd_jw_str(w,
               mrd_str_of(vendor ? mrd_source_vendor_text(t->source) : mrd_source_text(t->source)));
    if (vendor && t->source > MRD_SRC_FRAMEWORK) {
        MRD_JW_KEY(w, "source");
        mrd_jw_str(w, mrd_str_of(mrd_source_text(t->source)));
    }
    mrd_jw_put_sid(w, MRD_STR("track"), t->name);
    if (t->kind == MRD_TRACK_COUNTER) {
        mrd_jw_put_flag(w, MRD_STR("node"), p->flags & MRD_PROC_NODE);
        if (t->unit != MRD_UNIT_NONE) {
            MRD_JW_KEY(w, "unit");
            mrd_jw_str(w, mrd_str_of(mrd_unit_text(t->unit)));
        }
        mrd_jw_put_sid(w, MRD_STR("unit_name"), t->unit_name);
    }
}

/* Writes the node of a mem_usage or cpu_util row, and the process only for a process's own
 * sample. */
static void
put_host_identity(json_sink *s, mrd_jw *w, const mrd_track *t, uint32_t scope)
{
    const mrd_process *p = mrd_catalog_borrow_process(s->cat, t->process);

    mrd_jw_put_sid(w, MRD_STR("instance_id"), p->instance_id);
    if (!(p->flags & MRD_PROC_NODE) || p->process_id != 0)
        put_i64(w, MRD_STR("process_id"), p->process_id, true);
    if (scope != 0)
        mrd_jw_put_i64(w, MRD_STR("scope"), scope);
    if (!(p->flags & MRD_PROC_NODE))
        mrd_jw_put_flag(w, MRD_STR("process"), true);
    if (mrd_str_is(mrd_catalog_text(s->cat, t->name), MRD_NAME_MEM_MONITOR))
        mrd_jw_put_sid(w, MRD_STR("track"), t->name);
}

static bool
collect(void *self, const void *data, size_t len)
{
    mrd_buf_add(self, data, len);
    return ((mrd_buf *) self)->err == MRD_OK;
}

static json_role
track_role(const mrd_catalog *cat, const mrd_track *t, mrd_str *ret_cpu_id)
{
    mrd_str name = mrd_catalog_text(cat, t->name);

    if (t->kind == MRD_TRACK_SPANS)
        return ROLE_EVENT;
    if (t->source != MRD_SRC_HOST || t->lnc_idx != MRD_NONE || t->pcore_idx != MRD_NONE ||
        t->device_idx != MRD_NONE || t->thread_id != MRD_NONE)
        return ROLE_COUNTER;
    if (mrd_str_is(name, MRD_NAME_MEM_USED) || mrd_str_is(name, MRD_NAME_MEM_MONITOR))
        return ROLE_MEM_USED;
    if (mrd_str_is(name, MRD_NAME_MEM_PERCENT))
        return ROLE_MEM_PERCENT;
    return mrd_json_cpu_id(name, ret_cpu_id) ? ROLE_CPU : ROLE_COUNTER;
}

static mrd_err
render_tracks(json_sink *s, mrd_why *why)
{
    uint32_t *scopes = mrd_catalog_scopes(s->cat);
    mrd_out *out = NULL;
    mrd_jw w;
    mrd_err err;

    s->n_tracks = mrd_catalog_tracks(s->cat);
    s->tracks = calloc(s->n_tracks + 1, sizeof(*s->tracks));
    if (scopes == NULL || s->tracks == NULL) {
        free(scopes);
        return mrd_why_set(why, MRD_NOMEM, 0, "json: tracks");
    }
    if ((err = mrd_out_func(collect, &s->fragments, "tracks", &out, why)) != MRD_OK) {
        free(scopes);
        return err;
    }
    mrd_jw_init(&w, out, mrd_catalog_strings(s->cat), s->env->options->pretty);
    for (size_t i = 0; i < s->n_tracks; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(s->cat, (mrd_track_id) i);
        json_track *j = &s->tracks[i];

        mrd_jw_flush(&w);
        j->at = mrd_out_size(out);
        j->role = track_role(s->cat, t, &j->cpu_id);
        j->runtime = mrd_source_is_runtime(t->source);
        if (mrd_catalog_profile_of(s->cat, (mrd_track_id) i) != s->env->profile)
            continue;
        mrd_jw_inside(&w, 3);
        if (j->role == ROLE_EVENT || j->role == ROLE_COUNTER)
            put_identity(s, &w, t, scopes[t->process]);
        else
            put_host_identity(s, &w, t, scopes[t->process]);
    }
    mrd_jw_fini(&w);
    s->tracks[s->n_tracks].at = mrd_out_size(out);
    free(scopes);
    return mrd_out_commit(out, why);
}

static void
put_fragment(const json_sink *s, mrd_jw *w, mrd_track_id track)
{
    const json_track *j = &s->tracks[track];

    if (j[1].at > j->at)
        mrd_jw_members(
            w, (mrd_str){ (const char *) s->fragments.p + j->at, (size_t) (j[1].at - j->at) });
}

/* ---- Events ---- */

/* Returns the index of the member for an argument, PROMOTED if it has none. The guide's numbers
 * must be integers. */
static size_t
promoted_index(const json_sink *s, const json_track *track, const mrd_arg *arg)
{
    size_t i = 0;
    bool number = mrd_arg_is_int(arg);

    while (i < PROMOTED && (s->promoted_key[i] != arg->key || s->promoted_key[i] == 0))
        i++;
    if (i == PROMOTED)
        return PROMOTED;
    if (i == PROMOTED_PARENT || i == PROMOTED_TYPE)
        return number && track->runtime ? i : PROMOTED;
    if (promoted[i].text && !s->explorer)
        return number ? i : PROMOTED;
    return arg->type == MRD_ARG_JSON ? PROMOTED : i;
}

static void
put_promoted(json_sink *s, mrd_jw *w, const mrd_arg *const at[PROMOTED])
{
    for (size_t i = 0; i < PROMOTED_PARENT; i++) {
        if (at[i] == NULL)
            continue;
        mrd_jw_key(w, mrd_str_of(mrd_arg_key_text(promoted[i].key)));
        if (promoted[i].text && !s->explorer && at[i]->type == MRD_ARG_INT)
            mrd_jw_i64_text(w, at[i]->v.i);
        else if (promoted[i].text && !s->explorer)
            mrd_jw_u64_text(w, at[i]->v.u);
        else
            mrd_jw_arg(w, at[i]);
    }
}

/* Separates arguments with their own member from the others, and returns the number of the
 * others. */
static uint32_t
sort_args(const json_sink *s, const mrd_event *ev, const mrd_arg *at[PROMOTED])
{
    const json_track *track = &s->tracks[ev->track];
    uint32_t rest = 0;

    for (uint32_t i = 0; i < ev->arg_count; i++) {
        size_t k = promoted_index(s, track, &ev->args[i]);

        if (k < PROMOTED && at[k] == NULL)
            at[k] = &ev->args[i];
        else
            rest++;
    }
    return rest;
}

static void
put_args(mrd_jw *w, const mrd_event *ev, const mrd_arg *const at[PROMOTED])
{
    MRD_JW_KEY(w, "args");
    mrd_jw_open(w, '{');
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];
        bool own = false;

        for (size_t k = 0; k < PROMOTED && !own; k++)
            own = at[k] == arg;
        if (own)
            continue;
        mrd_jw_key_sid(w, arg->key);
        mrd_jw_arg(w, arg);
    }
    mrd_jw_close(w, '}');
}

static void
put_guide_numbers(json_sink *s, mrd_jw *w, const mrd_event *ev, const mrd_arg *const at[PROMOTED])
{
    const json_track *j = &s->tracks[ev->track];
    const mrd_arg *type = at[PROMOTED_TYPE];
    const mrd_track *t = mrd_catalog_borrow_track(s->cat, ev->track);

    if (j->runtime) {
        MRD_JW_KEY(w, "parent_id");
        if (at[PROMOTED_PARENT] != NULL)
            mrd_jw_arg(w, at[PROMOTED_PARENT]);
        else
            mrd_jw_u64(w, 0);
    }
    MRD_JW_KEY(w, "type");
    if (type != NULL)
        mrd_jw_arg(w, type);
    else
        mrd_jw_i64(w, mrd_json_event_type(t->source, mrd_catalog_text(s->cat, ev->name)));
}

static void
put_event(json_sink *s, mrd_jw *w, const mrd_event *ev)
{
    const mrd_arg *at[PROMOTED] = { NULL };
    uint32_t rest = ev->arg_count == 0 ? 0 : sort_args(s, ev, at);

    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "duration");
    mrd_jw_i64(w, ev->kind != MRD_SPAN || ev->dur_ns < 0 ? 0 : ev->dur_ns);
    put_fragment(s, w, ev->track);
    if (ev->id != 0 || (s->tracks[ev->track].runtime && !s->explorer)) {
        MRD_JW_KEY(w, "id");
        mrd_jw_u64(w, ev->id);
    }
    MRD_JW_KEY(w, "name");
    mrd_jw_sid(w, ev->name);
    put_promoted(s, w, at);
    MRD_JW_KEY(w, "timestamp");
    mrd_jw_i64(w, ev->ts.ns);
    if (s->explorer) {
        MRD_JW_KEY(w, "timestamp_unit");
        mrd_jw_str(w, MRD_STR("ns"));
    } else {
        put_guide_numbers(s, w, ev, at);
    }
    mrd_json_put_marks(w, ev);
    if (rest > 0)
        put_args(w, ev, at);
    mrd_jw_close(w, '}');
}

/* Writes a point of an arrow without a span. */
static void
put_flow_point(json_sink *s, mrd_jw *w, const mrd_event *ev)
{
    mrd_flow flow = { .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir };
    mrd_event point = *ev;

    point.kind = MRD_INSTANT;
    point.id = 0;
    point.flows = &flow;
    point.flow_count = 1;
    point.dur_ns = 0;
    put_event(s, w, &point);
}

/* ---- Counters and losses ---- */

static mrd_jw *
spool_row(json_sink *s, mrd_jw_spool *spool)
{
    mrd_jw *w = mrd_jw_spool_writer(spool, mrd_catalog_strings(s->cat), s->env->options->pretty, 2);

    if (w != NULL)
        mrd_jw_open(w, '{');
    return w;
}

/* Writes the first members of a host row. */
static void
put_row_start(json_sink *s, mrd_jw *w, mrd_track_id track)
{
    MRD_JW_KEY(w, "duration");
    mrd_jw_u64(w, 1);
    put_fragment(s, w, track);
}

static void
put_row_end(mrd_jw *w, const mrd_event *ev)
{
    MRD_JW_KEY(w, "timestamp");
    mrd_jw_i64(w, ev->ts.ns);
    mrd_jw_put_flag(w, MRD_STR("simulated"), ev->flags & MRD_EV_SIMULATED);
    mrd_json_put_bound(w, ev->bound_ns);
    mrd_jw_close(w, '}');
}

static mrd_err
put_counter(json_sink *s, const mrd_event *ev)
{
    mrd_jw *w = spool_row(s, &s->counters);

    if (w == NULL)
        return MRD_NOMEM;
    MRD_JW_KEY(w, "value");
    mrd_json_put_sample(w, ev);
    put_fragment(s, w, ev->track);
    mrd_jw_put_sid(w, MRD_STR("name"), ev->name);
    mrd_jw_put_sid(w, MRD_STR("category"), ev->category);
    put_row_end(w, ev);
    return MRD_OK;
}

static mrd_err
put_cpu(json_sink *s, const mrd_event *ev)
{
    mrd_jw *w = spool_row(s, &s->cpu);

    if (w == NULL)
        return MRD_NOMEM;
    put_row_start(s, w, ev->track);
    MRD_JW_KEY(w, "cpu_id");
    mrd_jw_str(w, s->tracks[ev->track].cpu_id);
    mrd_jw_key(w, s->explorer ? MRD_STR("util_percent") : MRD_STR("util"));
    mrd_json_put_sample(w, ev);
    put_row_end(w, ev);
    return MRD_OK;
}

static mrd_err
flush_memory(json_sink *s)
{
    for (size_t i = 0; i < s->n_rows; i++) {
        const mem_row *r = &s->rows[i];
        const mrd_event *any = r->has_used ? &r->used : &r->percent;
        mrd_jw *w = spool_row(s, &s->mem);

        if (w == NULL)
            return MRD_NOMEM;
        put_row_start(s, w, any->track);
        if (r->has_percent) {
            mrd_jw_key(w, s->explorer ? MRD_STR("used_percent") : MRD_STR("percent_usage"));
            mrd_json_put_sample(w, &r->percent);
        }
        if (r->has_used) {
            mrd_jw_key(w, s->explorer ? MRD_STR("used_bytes") : MRD_STR("usage"));
            mrd_json_put_sample(w, &r->used);
        }
        put_row_end(w, any);
    }
    s->n_rows = 0;
    return MRD_OK;
}

static mem_row *
memory_row(json_sink *s, mrd_proc_id process, bool used)
{
    for (size_t i = 0; i < s->n_rows; i++) {
        mem_row *r = &s->rows[i];

        if (r->process == process && !(used ? r->has_used : r->has_percent))
            return r;
    }
    if (!MRD_VEC_ROOM(s->rows, s->n_rows, s->cap_rows, 1))
        return NULL;
    s->rows[s->n_rows] = (mem_row){ .process = process };
    return &s->rows[s->n_rows++];
}

static mrd_err
put_memory(json_sink *s, const mrd_event *ev, bool used)
{
    const mrd_track *t = mrd_catalog_borrow_track(s->cat, ev->track);
    mrd_err err = MRD_OK;
    mem_row *r;

    if (s->n_rows > 0 &&
        (s->rows[0].has_used ? s->rows[0].used : s->rows[0].percent).ts.ns != ev->ts.ns)
        err = flush_memory(s);
    if (err != MRD_OK || (r = memory_row(s, t->process, used)) == NULL)
        return MRD_NOMEM;
    if (used) {
        r->used = *ev;
        r->has_used = true;
    } else {
        r->percent = *ev;
        r->has_percent = true;
    }
    return MRD_OK;
}

static mrd_err
put_loss(json_sink *s, const mrd_event *ev)
{
    mrd_jw *w = spool_row(s, &s->losses);

    if (w == NULL)
        return MRD_NOMEM;
    s->lost += ev->ivalue < 0 ? 0 : (uint64_t) ev->ivalue;
    MRD_JW_KEY(w, "lost");
    mrd_jw_i64(w, ev->ivalue);
    put_fragment(s, w, ev->track);
    MRD_JW_KEY(w, "cause");
    mrd_jw_sid(w, ev->name);
    mrd_jw_put_sid(w, MRD_STR("category"), ev->category);
    mrd_jw_put_flag(w, MRD_STR("unfinished"), ev->dur_ns < 0);
    MRD_JW_KEY(w, "duration");
    mrd_jw_i64(w, ev->dur_ns < 0 ? 0 : ev->dur_ns);
    put_row_end(w, ev);
    return MRD_OK;
}

/* ---- The sink ---- */

static void
see_range(json_sink *s, const mrd_event *ev)
{
    mrd_ev_ns end = ev->ts;

    if (ev->ts.ns == 0)
        return;
    if (ev->kind == MRD_SPAN && ev->dur_ns > 0 &&
        __builtin_add_overflow(ev->ts.ns, ev->dur_ns, &end.ns))
        end = (mrd_ev_ns){ INT64_MAX };
    s->first = mrd_ev_min(ev->ts, s->first);
    s->last = mrd_ev_max(end, s->last);
}

static mrd_err
json_event(void *state, const mrd_event *ev)
{
    json_sink *s = state;

    if (s->device != NULL)
        return mrd_json_device_event(s->device, &s->w, ev);
    if (ev->track >= s->n_tracks)
        return MRD_STATE; /* not in the catalog when the sink was opened */
    s->events++;
    see_range(s, ev);
    switch (ev->kind) {
    case MRD_COUNTER:
        switch (s->tracks[ev->track].role) {
        case ROLE_MEM_USED:
            return put_memory(s, ev, true);
        case ROLE_MEM_PERCENT:
            return put_memory(s, ev, false);
        case ROLE_CPU:
            return put_cpu(s, ev);
        default:
            return put_counter(s, ev);
        }
    case MRD_LOSS:
        return put_loss(s, ev);
    case MRD_FLOW:
        put_flow_point(s, &s->w, ev);
        return MRD_OK;
    default:
        put_event(s, &s->w, ev);
        return MRD_OK;
    }
}

static mrd_err
json_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    json_sink *s = state;
    mrd_strtab *strings = mrd_catalog_strings(env->catalog);
    mrd_err err;

    s->env = env;
    s->cat = env->catalog;
    s->explorer = env->options->json_layout == MRD_JSON_EXPLORER;
    s->first = (mrd_ev_ns){ INT64_MAX };
    s->last = (mrd_ev_ns){ INT64_MIN };
    mrd_jw_init(&s->w, env->out, strings, env->options->pretty);
    mrd_jw_open(&s->w, '{');
    if (env->profile != 0) {
        mrd_catalog_json(&s->w, s->cat, env->profile, "device_profile");
        if ((err = mrd_json_device_open(env, &s->w, &s->device, why)) != MRD_OK)
            mrd_jw_fini(&s->w);
        return err;
    }
    for (size_t i = 0; i < PROMOTED; i++) {
        if (s->explorer ? promoted[i].explorer : promoted[i].guide)
            s->promoted_key[i] = mrd_arg_key_find(strings, promoted[i].key);
    }
    mrd_catalog_json(&s->w, s->cat, 0, "system_profile");
    mrd_jw_key(&s->w, s->explorer ? MRD_STR("trace_event") : MRD_STR("trace_events"));
    mrd_jw_open(&s->w, '[');
    if ((err = render_tracks(s, why)) != MRD_OK) {
        free(s->tracks);
        mrd_buf_fini(&s->fragments);
        mrd_jw_fini(&s->w);
    }
    return err;
}

static mrd_err
put_section(json_sink *s, const char *key, mrd_jw_spool *spool, mrd_why *why)
{
    mrd_err err;

    mrd_jw_key(&s->w, mrd_str_of(key));
    mrd_jw_open(&s->w, '[');
    err = mrd_jw_spool_drain(spool, &s->w, why);
    mrd_jw_close(&s->w, ']');
    return err;
}

static void
put_listed_profile(json_sink *s, const mrd_devprofile *d)
{
    mrd_jw *w = &s->w;

    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "device_profile_name");
    mrd_jw_sid(w, d->name);
    mrd_jw_put_sid(w, MRD_STR("instance_id"), d->instance_id);
    mrd_jw_put_i64(w, MRD_STR("process_id"), d->process_id);
    mrd_jw_put_i64(w, MRD_STR("nc_id"), d->nc_idx);
    mrd_jw_put_i64(w, MRD_STR("session_id"), d->session);
    mrd_jw_put_sid(w, MRD_STR("model_id"), d->model);
    mrd_jw_close(w, '}');
}

/* Writes rows of the newer layout that are derived from the catalog. */
static void
put_explorer_lists(json_sink *s)
{
    mrd_jw *w = &s->w;
    size_t n;
    const mrd_devprofile *d = mrd_catalog_devprofiles(s->cat, &n);
    const mrd_artifact *a;

    MRD_JW_KEY(w, "device_profile_list");
    mrd_jw_open(w, '[');
    for (size_t i = 1; i < n; i++)
        put_listed_profile(s, &d[i]);
    a = mrd_catalog_artifacts(s->cat, &n);
    for (size_t i = 0; i < n; i++)
        if (mrd_catalog_is_only_carried(s->cat, &a[i]))
            put_listed_profile(s, &(mrd_devprofile){ .name = a[i].profile,
                                                     .instance_id = a[i].instance_id,
                                                     .process_id = a[i].process_id,
                                                     .nc_idx = a[i].nc_idx,
                                                     .session = a[i].session });
    mrd_jw_close(w, ']');
    MRD_JW_KEY(w, "warnings");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < mrd_catalog_notes(s->cat); i++) {
        mrd_jw_open(w, '{');
        MRD_JW_KEY(w, "category");
        mrd_jw_str(w, MRD_STR("meridian"));
        MRD_JW_KEY(w, "message");
        mrd_jw_str(w, mrd_catalog_note_at(s->cat, i));
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
}

/* Writes totals. first_ts_ns and last_ts_ns are strings, as in the vendor's schema. */
static void
put_totals(json_sink *s)
{
    mrd_jw *w = &s->w;
    bool any = !mrd_ev_after(s->first, s->last);

    MRD_JW_KEY(w, "system_profile_metadata");
    mrd_jw_open(w, '[');
    mrd_jw_open(w, '{');
    put_i64(w, MRD_STR("first_ts_ns"), any ? s->first.ns : MRD_NONE, true);
    put_i64(w, MRD_STR("last_ts_ns"), any ? s->last.ns : MRD_NONE, true);
    MRD_JW_KEY(w, "events_written");
    mrd_jw_u64(w, s->events);
    MRD_JW_KEY(w, "events_lost");
    mrd_jw_u64(w, s->lost);
    mrd_jw_close(w, '}');
    mrd_jw_close(w, ']');
}

static mrd_err
finish_system(json_sink *s, mrd_why *why)
{
    mrd_err err;

    mrd_jw_close(&s->w, ']');
    if (flush_memory(s) != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "json: mem_usage");
    if ((err = put_section(s, "mem_usage", &s->mem, why)) != MRD_OK ||
        (err = put_section(s, "cpu_util", &s->cpu, why)) != MRD_OK ||
        (err = put_section(s, "counters", &s->counters, why)) != MRD_OK ||
        (err = put_section(s, "losses", &s->losses, why)) != MRD_OK)
        return err;
    if (s->explorer)
        put_explorer_lists(s);
    put_totals(s);
    return MRD_OK;
}

static mrd_err
json_close(void *state, mrd_why *why)
{
    json_sink *s = state;
    mrd_err err;

    if (s->device != NULL)
        err = mrd_json_device_close(s->device, &s->w, why);
    else
        err = finish_system(s, why);
    mrd_jw_close(&s->w, '}');
    mrd_jw_end(&s->w);
    mrd_jw_fini(&s->w);
    mrd_jw_spool_fini(&s->mem);
    mrd_jw_spool_fini(&s->cpu);
    mrd_jw_spool_fini(&s->counters);
    mrd_jw_spool_fini(&s->losses);
    mrd_buf_fini(&s->fragments);
    free(s->tracks);
    free(s->rows);
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
