#include "trace/json/catalog_json.h"

#include <stdlib.h>

#include "base/obj.h"

const char *
mrd_unit_text(mrd_unit unit)
{
    static const char *const text[] = { "", "ns", "count", "bytes", "percent" };

    return (size_t) unit < MRD_COUNT(text) ? text[unit] : "";
}

const char *
mrd_input_state_text(mrd_input_state state)
{
    static const char *const text[] = { "ok", "incomplete", "failed", "skipped" };

    return (size_t) state < MRD_COUNT(text) ? text[state] : "unknown";
}

/* Returns true if an input was incomplete or failed. */
static bool
catalog_incomplete(const mrd_catalog *cat)
{
    size_t n;
    const mrd_input *in = mrd_catalog_inputs(cat, &n);

    for (size_t i = 0; i < n; i++) {
        if ((in[i].state != MRD_INPUT_OK && in[i].state != MRD_INPUT_SKIPPED) || in[i].dropped > 0)
            return true;
    }
    return false;
}

bool
mrd_catalog_simulated(const mrd_catalog *cat)
{
    if (mrd_catalog_get(cat, "simulated") != NULL)
        return true;
    for (size_t i = 0; i < mrd_catalog_processes(cat); i++) {
        if (mrd_catalog_borrow_process(cat, (mrd_proc_id) i)->flags & MRD_PROC_SIMULATED)
            return true;
    }
    return false;
}

uint32_t *
mrd_catalog_scopes(const mrd_catalog *cat)
{
    size_t n = mrd_catalog_processes(cat);
    uint32_t *number = calloc(n + 1, sizeof(*number)), next = 1;

    if (number == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        uint32_t scope = mrd_catalog_borrow_process(cat, (mrd_proc_id) i)->scope;

        for (size_t k = i; scope != 0 && k-- > 0 && number[i] == 0;) {
            if (mrd_catalog_borrow_process(cat, (mrd_proc_id) k)->scope == scope)
                number[i] = number[k];
        }
        if (scope != 0 && number[i] == 0)
            number[i] = next++;
    }
    return number;
}

static void
put_process(mrd_jw *w, const mrd_catalog *cat, const uint32_t *scopes, mrd_proc_id id)
{
    const mrd_process *p = mrd_catalog_borrow_process(cat, id);
    uint32_t scope = scopes == NULL ? 0 : scopes[id];

    mrd_jw_open(w, '{');
    mrd_jw_put_sid(w, MRD_STR("instance_id"), p->instance_id);
    MRD_JW_KEY(w, "process_id");
    mrd_jw_i64_text(w, p->process_id);
    if (scope != 0)
        mrd_jw_put_i64(w, MRD_STR("scope"), scope);
    mrd_jw_put_sid(w, MRD_STR("name"), p->name);
    mrd_jw_put_i64(w, MRD_STR("container_pid"), p->container_pid);
    mrd_jw_put_sid(w, MRD_STR("job"), p->job);
    mrd_jw_put_sid(w, MRD_STR("pod"), p->pod);
    mrd_jw_put_sid(w, MRD_STR("labels"), p->labels);
    mrd_jw_put_i64(w, MRD_STR("rank"), p->rank);
    mrd_jw_put_i64(w, MRD_STR("world_size"), p->world_size);
    mrd_jw_put_i64(w, MRD_STR("worker_gid"), p->worker_gid);
    mrd_jw_put_i64(w, MRD_STR("sort_index"), p->sort_index);
    if (p->clock != 0)
        mrd_jw_put_i64(w, MRD_STR("clock"), p->clock);
    mrd_jw_put_flag(w, MRD_STR("simulated"), p->flags & MRD_PROC_SIMULATED);
    mrd_jw_put_flag(w, MRD_STR("no_pid"), p->flags & MRD_PROC_NO_PID);
    mrd_jw_put_flag(w, MRD_STR("node"), p->flags & MRD_PROC_NODE);
    mrd_jw_close(w, '}');
}

/* Tracks are written in order of their ids. When the file is read again, events with equal times
 * keep their order. */
static void
put_track(mrd_jw *w, const mrd_catalog *cat, const uint32_t *scopes, mrd_track_id id)
{
    const mrd_track *t = mrd_catalog_borrow_track(cat, id);
    const mrd_process *p = mrd_catalog_borrow_process(cat, t->process);
    uint32_t scope = scopes == NULL ? 0 : scopes[t->process];

    mrd_jw_open(w, '{');
    mrd_jw_put_sid(w, MRD_STR("instance_id"), p->instance_id);
    MRD_JW_KEY(w, "process_id");
    mrd_jw_i64_text(w, p->process_id);
    if (scope != 0)
        mrd_jw_put_i64(w, MRD_STR("scope"), scope);
    MRD_JW_KEY(w, "trace_event_source");
    mrd_jw_str(w, mrd_str_of(mrd_source_text(t->source)));
    mrd_jw_put_flag(w, MRD_STR("counter"), t->kind == MRD_TRACK_COUNTER);
    mrd_jw_put_i64(w, MRD_STR("lnc_idx"), t->lnc_idx);
    mrd_jw_put_i64(w, MRD_STR("pcore_idx"), t->pcore_idx);
    mrd_jw_put_i64(w, MRD_STR("device_idx"), t->device_idx);
    mrd_jw_put_i64(w, MRD_STR("thread_id"), t->thread_id);
    mrd_jw_put_sid(w, MRD_STR("track"), t->name);
    mrd_jw_put_i64(w, MRD_STR("worker_gid"), t->worker_gid);
    if (t->unit != MRD_UNIT_NONE) {
        MRD_JW_KEY(w, "unit");
        mrd_jw_str(w, mrd_str_of(mrd_unit_text(t->unit)));
    }
    mrd_jw_put_sid(w, MRD_STR("unit_name"), t->unit_name);
    mrd_jw_put_i64(w, MRD_STR("sort_index"), t->sort_index);
    mrd_jw_close(w, '}');
}

static void
put_input(mrd_jw *w, const mrd_input *in)
{
    const struct {
        mrd_str key;
        uint64_t v;
    } counts[] = { { MRD_STR("bytes"), in->bytes },
                   { MRD_STR("records"), in->records },
                   { MRD_STR("events"), in->events },
                   { MRD_STR("dropped"), in->dropped },
                   { MRD_STR("unfinished"), in->unfinished },
                   { MRD_STR("no_start"), in->no_start },
                   { MRD_STR("lost"), in->lost },
                   { MRD_STR("skipped_bytes"), in->skipped } };

    mrd_jw_open(w, '{');
    mrd_jw_put_sid(w, MRD_STR("path"), in->path);
    mrd_jw_put_sid(w, MRD_STR("format"), in->format);
    MRD_JW_KEY(w, "state");
    mrd_jw_str(w, mrd_str_of(mrd_input_state_text(in->state)));
    for (size_t i = 0; i < MRD_COUNT(counts); i++) {
        mrd_jw_key(w, counts[i].key);
        mrd_jw_u64(w, counts[i].v);
    }
    mrd_jw_put_sid(w, MRD_STR("error"), in->error);
    mrd_jw_close(w, '}');
}

static void
put_clock(mrd_jw *w, const mrd_clock_info *c)
{
    mrd_jw_open(w, '{');
    mrd_jw_put_sid(w, MRD_STR("name"), c->name);
    mrd_jw_put_sid(w, MRD_STR("node"), c->node);
    mrd_jw_put_sid(w, MRD_STR("quality"), c->quality);
    mrd_jw_put_sid(w, MRD_STR("method"), c->method);
    MRD_JW_KEY(w, "estimate_ns");
    mrd_jw_i64(w, c->estimate_ns);
    mrd_jw_put_i64(w, MRD_STR("bound_ns"), c->bound_ns);
    mrd_jw_put_i64(w, MRD_STR("noise_ns"), c->noise_ns);
    mrd_jw_put_i64(w, MRD_STR("epochs"), c->epochs);
    MRD_JW_KEY(w, "violations");
    mrd_jw_u64(w, c->violations);
    mrd_jw_close(w, '}');
}

static void
put_artifact(mrd_jw *w, const mrd_artifact *a)
{
    mrd_jw_open(w, '{');
    mrd_jw_put_sid(w, MRD_STR("path"), a->path);
    mrd_jw_put_sid(w, MRD_STR("kind"), a->kind);
    if (a->sha256[0] != '\0') {
        MRD_JW_KEY(w, "sha256");
        mrd_jw_str(w, mrd_str_of(a->sha256));
    }
    MRD_JW_KEY(w, "size");
    mrd_jw_u64(w, a->size);
    mrd_jw_put_sid(w, MRD_STR("instance_id"), a->instance_id);
    mrd_jw_put_i64(w, MRD_STR("process_id"), a->process_id);
    mrd_jw_put_i64(w, MRD_STR("nc_idx"), a->nc_idx);
    mrd_jw_put_sid(w, MRD_STR("decoded_by"), a->decoded_by);
    mrd_jw_close(w, '}');
}

static void
put_devprofile(mrd_jw *w, const mrd_devprofile *d)
{
    mrd_jw_open(w, '{');
    mrd_jw_put_sid(w, MRD_STR("name"), d->name);
    mrd_jw_put_sid(w, MRD_STR("model_id"), d->model);
    mrd_jw_put_sid(w, MRD_STR("instance_id"), d->instance_id);
    mrd_jw_put_i64(w, MRD_STR("process_id"), d->process_id);
    mrd_jw_put_i64(w, MRD_STR("nc_id"), d->nc_idx);
    mrd_jw_put_i64(w, MRD_STR("session_id"), d->session);
    mrd_jw_close(w, '}');
}

static void
put_lists(mrd_jw *w, const mrd_catalog *cat, uint32_t profile)
{
    size_t n;
    const mrd_input *in = mrd_catalog_inputs(cat, &n);
    uint32_t *scopes = mrd_catalog_scopes(cat);

    MRD_JW_KEY(w, "inputs");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        put_input(w, &in[i]);
    mrd_jw_close(w, ']');
    MRD_JW_KEY(w, "clocks");
    mrd_jw_open(w, '[');
    const mrd_clock_info *clocks = mrd_catalog_clocks(cat, &n);
    for (size_t i = 0; i < n; i++)
        put_clock(w, &clocks[i]);
    mrd_jw_close(w, ']');
    MRD_JW_KEY(w, "processes");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < mrd_catalog_processes(cat); i++) {
        if (mrd_catalog_borrow_process(cat, (mrd_proc_id) i)->profile == profile)
            put_process(w, cat, scopes, (mrd_proc_id) i);
    }
    mrd_jw_close(w, ']');
    MRD_JW_KEY(w, "tracks");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < mrd_catalog_tracks(cat); i++) {
        if (mrd_catalog_profile_of(cat, (mrd_track_id) i) == profile)
            put_track(w, cat, scopes, (mrd_track_id) i);
    }
    mrd_jw_close(w, ']');
    MRD_JW_KEY(w, "artifacts");
    mrd_jw_open(w, '[');
    const mrd_artifact *artifacts = mrd_catalog_artifacts(cat, &n);
    for (size_t i = 0; i < n; i++)
        put_artifact(w, &artifacts[i]);
    mrd_jw_close(w, ']');
    MRD_JW_KEY(w, "device_profiles");
    mrd_jw_open(w, '[');
    const mrd_devprofile *profiles = mrd_catalog_devprofiles(cat, &n);
    for (size_t i = 1; i < n; i++) {
        if (profile == 0 || i == profile)
            put_devprofile(w, &profiles[i]);
    }
    mrd_jw_close(w, ']');
    free(scopes);
}

void
mrd_catalog_json(mrd_jw *w, const mrd_catalog *cat, uint32_t profile, const char *format)
{
    const char *version = mrd_catalog_get(cat, "meridian.version");

    MRD_JW_KEY(w, "meridian");
    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "format");
    mrd_jw_str(w, mrd_str_of(format));
    MRD_JW_KEY(w, "version");
    mrd_jw_str(w, mrd_str_of(version == NULL ? "" : version));
    MRD_JW_KEY(w, "simulated");
    mrd_jw_bool(w, mrd_catalog_simulated(cat));
    MRD_JW_KEY(w, "incomplete");
    mrd_jw_bool(w, catalog_incomplete(cat));
    put_lists(w, cat, profile);
    MRD_JW_KEY(w, "facts");
    mrd_jw_open(w, '{');
    for (size_t i = 0; i < mrd_catalog_facts(cat); i++) {
        mrd_str key, value;

        mrd_catalog_fact(cat, i, &key, &value);
        mrd_jw_key_sid(w, mrd_strtab_find(mrd_catalog_strings(cat), key));
        mrd_jw_str(w, value);
    }
    mrd_jw_close(w, '}');
    MRD_JW_KEY(w, "notes");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < mrd_catalog_notes(cat); i++)
        mrd_jw_str(w, mrd_catalog_note_at(cat, i));
    mrd_jw_close(w, ']');
    mrd_jw_close(w, '}');
}
