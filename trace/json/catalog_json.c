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

/* Returns true if an input of the catalog was incomplete or failed. */
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
put_process(mrd_jw *jw, const mrd_catalog *cat, const uint32_t *scopes, mrd_proc_id id)
{
    const mrd_process *process = mrd_catalog_borrow_process(cat, id);
    uint32_t scope = scopes == NULL ? 0 : scopes[id];

    mrd_jw_open(jw, '{');
    mrd_jw_put_sid(jw, MRD_STR("instance_id"), process->instance_id);
    MRD_JW_PUT(jw, "process_id", i64_text, process->process_id);
    if (scope != 0)
        mrd_jw_put_i64(jw, MRD_STR("scope"), scope);
    mrd_jw_put_sid(jw, MRD_STR("name"), process->name);
    mrd_jw_put_i64(jw, MRD_STR("container_pid"), process->container_pid);
    mrd_jw_put_sid(jw, MRD_STR("job"), process->job);
    mrd_jw_put_sid(jw, MRD_STR("pod"), process->pod);
    mrd_jw_put_sid(jw, MRD_STR("labels"), process->labels);
    mrd_jw_put_i64(jw, MRD_STR("rank"), process->rank);
    mrd_jw_put_i64(jw, MRD_STR("world_size"), process->world_size);
    mrd_jw_put_i64(jw, MRD_STR("worker_gid"), process->worker_gid);
    mrd_jw_put_i64(jw, MRD_STR("sort_index"), process->sort_index);
    if (process->clock != 0)
        mrd_jw_put_i64(jw, MRD_STR("clock"), process->clock);
    mrd_jw_put_flag(jw, MRD_STR("simulated"), process->flags & MRD_PROC_SIMULATED);
    mrd_jw_put_flag(jw, MRD_STR("no_pid"), process->flags & MRD_PROC_NO_PID);
    mrd_jw_put_flag(jw, MRD_STR("node"), process->flags & MRD_PROC_NODE);
    mrd_jw_close(jw, '}');
}

/* Writes a track. The order of tracks is that of their ids. So events at the same time have the
 * same order when the file is read again. */
static void
put_track(mrd_jw *jw, const mrd_catalog *cat, const uint32_t *scopes, mrd_track_id id)
{
    const mrd_track *track = mrd_catalog_borrow_track(cat, id);
    const mrd_process *process = mrd_catalog_borrow_process(cat, track->process);
    uint32_t scope = scopes == NULL ? 0 : scopes[track->process];

    mrd_jw_open(jw, '{');
    mrd_jw_put_sid(jw, MRD_STR("instance_id"), process->instance_id);
    MRD_JW_PUT(jw, "process_id", i64_text, process->process_id);
    if (scope != 0)
        mrd_jw_put_i64(jw, MRD_STR("scope"), scope);
    MRD_JW_PUT(jw, "trace_event_source", str, mrd_str_of(mrd_source_text(track->source)));
    mrd_jw_put_flag(jw, MRD_STR("counter"), track->kind == MRD_TRACK_COUNTER);
    mrd_jw_put_i64(jw, MRD_STR("lnc_idx"), track->lnc_idx);
    mrd_jw_put_i64(jw, MRD_STR("pcore_idx"), track->pcore_idx);
    mrd_jw_put_i64(jw, MRD_STR("device_idx"), track->device_idx);
    mrd_jw_put_i64(jw, MRD_STR("thread_id"), track->thread_id);
    mrd_jw_put_sid(jw, MRD_STR("track"), track->name);
    mrd_jw_put_i64(jw, MRD_STR("worker_gid"), track->worker_gid);
    if (track->unit != MRD_UNIT_NONE) {
        MRD_JW_PUT(jw, "unit", str, mrd_str_of(mrd_unit_text(track->unit)));
    }
    mrd_jw_put_sid(jw, MRD_STR("unit_name"), track->unit_name);
    mrd_jw_put_i64(jw, MRD_STR("sort_index"), track->sort_index);
    mrd_jw_close(jw, '}');
}

static void
put_input(mrd_jw *jw, const mrd_input *in)
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

    mrd_jw_open(jw, '{');
    mrd_jw_put_sid(jw, MRD_STR("path"), in->path);
    mrd_jw_put_sid(jw, MRD_STR("format"), in->format);
    MRD_JW_PUT(jw, "state", str, mrd_str_of(mrd_input_state_text(in->state)));
    for (size_t i = 0; i < MRD_COUNT(counts); i++) {
        mrd_jw_key(jw, counts[i].key);
        mrd_jw_u64(jw, counts[i].v);
    }
    mrd_jw_put_sid(jw, MRD_STR("error"), in->error);
    mrd_jw_close(jw, '}');
}

static void
put_clock(mrd_jw *jw, const mrd_clock_info *info)
{
    mrd_jw_open(jw, '{');
    mrd_jw_put_sid(jw, MRD_STR("name"), info->name);
    mrd_jw_put_sid(jw, MRD_STR("node"), info->node);
    mrd_jw_put_sid(jw, MRD_STR("quality"), info->quality);
    mrd_jw_put_sid(jw, MRD_STR("method"), info->method);
    MRD_JW_PUT(jw, "estimate_ns", i64, info->estimate_ns);
    mrd_jw_put_i64(jw, MRD_STR("bound_ns"), info->bound_ns);
    mrd_jw_put_i64(jw, MRD_STR("noise_ns"), info->noise_ns);
    mrd_jw_put_i64(jw, MRD_STR("epochs"), info->epochs);
    MRD_JW_PUT(jw, "violations", u64, info->violations);
    mrd_jw_close(jw, '}');
}

static void
put_artifact(mrd_jw *jw, const mrd_artifact *artifact)
{
    mrd_jw_open(jw, '{');
    mrd_jw_put_sid(jw, MRD_STR("path"), artifact->path);
    mrd_jw_put_sid(jw, MRD_STR("kind"), artifact->kind);
    if (artifact->sha256[0] != '\0') {
        MRD_JW_PUT(jw, "sha256", str, mrd_str_of(artifact->sha256));
    }
    MRD_JW_PUT(jw, "size", u64, artifact->size);
    mrd_jw_put_sid(jw, MRD_STR("instance_id"), artifact->instance_id);
    mrd_jw_put_i64(jw, MRD_STR("process_id"), artifact->process_id);
    mrd_jw_put_i64(jw, MRD_STR("nc_idx"), artifact->nc_idx);
    mrd_jw_put_sid(jw, MRD_STR("decoded_by"), artifact->decoded_by);
    mrd_jw_close(jw, '}');
}

static void
put_devprofile(mrd_jw *jw, const mrd_devprofile *devprofile)
{
    mrd_jw_open(jw, '{');
    mrd_jw_put_sid(jw, MRD_STR("name"), devprofile->name);
    mrd_jw_put_sid(jw, MRD_STR("model_id"), devprofile->model);
    mrd_jw_put_sid(jw, MRD_STR("instance_id"), devprofile->instance_id);
    mrd_jw_put_i64(jw, MRD_STR("process_id"), devprofile->process_id);
    mrd_jw_put_i64(jw, MRD_STR("nc_id"), devprofile->nc_idx);
    mrd_jw_put_i64(jw, MRD_STR("session_id"), devprofile->session);
    mrd_jw_close(jw, '}');
}

static void
put_lists(mrd_jw *jw, const mrd_catalog *cat, uint32_t profile)
{
    size_t count;
    const mrd_input *in = mrd_catalog_inputs(cat, &count);
    uint32_t *scopes = mrd_catalog_scopes(cat);

    if (scopes == NULL)
        mrd_out_fail(jw->out, MRD_NOMEM);
    MRD_JW_PUT(jw, "inputs", open, '[');
    for (size_t i = 0; i < count; i++)
        put_input(jw, &in[i]);
    mrd_jw_close(jw, ']');
    MRD_JW_PUT(jw, "clocks", open, '[');
    const mrd_clock_info *clocks = mrd_catalog_clocks(cat, &count);
    for (size_t i = 0; i < count; i++)
        put_clock(jw, &clocks[i]);
    mrd_jw_close(jw, ']');
    MRD_JW_PUT(jw, "processes", open, '[');
    for (size_t i = 0; i < mrd_catalog_processes(cat); i++) {
        if (mrd_catalog_borrow_process(cat, (mrd_proc_id) i)->profile == profile)
            put_process(jw, cat, scopes, (mrd_proc_id) i);
    }
    mrd_jw_close(jw, ']');
    MRD_JW_PUT(jw, "tracks", open, '[');
    for (size_t i = 0; i < mrd_catalog_tracks(cat); i++) {
        if (mrd_catalog_profile_of(cat, (mrd_track_id) i) == profile)
            put_track(jw, cat, scopes, (mrd_track_id) i);
    }
    mrd_jw_close(jw, ']');
    MRD_JW_PUT(jw, "artifacts", open, '[');
    const mrd_artifact *artifacts = mrd_catalog_artifacts(cat, &count);
    for (size_t i = 0; i < count; i++)
        put_artifact(jw, &artifacts[i]);
    mrd_jw_close(jw, ']');
    MRD_JW_PUT(jw, "device_profiles", open, '[');
    const mrd_devprofile *profiles = mrd_catalog_devprofiles(cat, &count);
    for (size_t i = 1; i < count; i++) {
        if (profile == 0 || i == profile)
            put_devprofile(jw, &profiles[i]);
    }
    mrd_jw_close(jw, ']');
    free(scopes);
}

void
mrd_catalog_json(mrd_jw *jw, const mrd_catalog *cat, uint32_t profile, const char *format)
{
    const char *version = mrd_catalog_get(cat, "meridian.version");

    MRD_JW_PUT(jw, "meridian", open, '{');
    MRD_JW_PUT(jw, "format", str, mrd_str_of(format));
    MRD_JW_PUT(jw, "version", str, mrd_str_of(version == NULL ? "" : version));
    MRD_JW_PUT(jw, "simulated", bool, mrd_catalog_simulated(cat));
    MRD_JW_PUT(jw, "incomplete", bool, catalog_incomplete(cat));
    put_lists(jw, cat, profile);
    MRD_JW_PUT(jw, "facts", open, '{');
    for (size_t i = 0; i < mrd_catalog_facts(cat); i++) {
        mrd_str key, value;

        mrd_catalog_fact(cat, i, &key, &value);
        mrd_jw_key_sid(jw, mrd_strtab_find(mrd_catalog_strings(cat), key));
        mrd_jw_str(jw, value);
    }
    mrd_jw_close(jw, '}');
    MRD_JW_PUT(jw, "notes", open, '[');
    for (size_t i = 0; i < mrd_catalog_notes(cat); i++)
        mrd_jw_str(jw, mrd_catalog_note_at(cat, i));
    mrd_jw_close(jw, ']');
    mrd_jw_close(jw, '}');
}
