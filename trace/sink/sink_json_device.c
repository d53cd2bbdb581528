/*
 * trace/sink/sink_json_device.c - writes device_profile_model_<id>.json. The document has one array
 * per kind of row (instruction, dma, cc_stream, ...). The kind of a row is its event's category.
 * Rows are flat objects with the keys of the source, and times in nanoseconds.
 */
#include <stdlib.h>

#include "base/obj.h"
#include "trace/sink/json_event.h"
#include "trace/sink/sink_json.h"

/* Names of the members that Meridian writes in each row. An argument with one of these names goes
 * into the member "args". */
static const char *const reserved_keys[] = {
    "timestamp", "duration",    "name",           "track",   "kind",     "unfinished",
    "no_start",  "simulated",   "clock_bound_ns", "flow_id", "flow_dir", "args",
    "id",        "instance_id", "process_id",     "nc_idx",
};

#define RESERVED MRD_COUNT(reserved_keys)

/* Maximum number of arrays in the document, one per kind of row. Rows of any further kind go into
 * the array "event". */
#define DEVICE_SECTIONS 64u

typedef struct {
    mrd_sid name; /* name of the array, which is the kind of its rows; 0 for the array "event" */
    mrd_jw_spool spool;
} device_section;

struct mrd_json_device {
    const mrd_sink_env *env;
    mrd_sid instruction;
    device_section section[DEVICE_SECTIONS];
    size_t n_sections;
    mrd_jw_spool counters, losses;
    mrd_sid reserved[RESERVED];
    /* names of the document's other members, so an array must have another name */
    mrd_sid taken[4];
    /* the rows are from several processes or cores, so each row states its process and core */
    bool many;
};

static bool
several_cores(const mrd_sink_env *env)
{
    const mrd_track *first = NULL;

    for (size_t i = 0; i < mrd_catalog_tracks(env->catalog); i++) {
        const mrd_track *track = mrd_catalog_borrow_track(env->catalog, (mrd_track_id) i);

        if (mrd_catalog_profile_of(env->catalog, (mrd_track_id) i) != env->profile)
            continue;
        if (first != NULL && (track->process != first->process || track->lnc_idx != first->lnc_idx))
            return true;
        first = track;
    }
    return false;
}

mrd_err
mrd_json_device_open(const mrd_sink_env *env, mrd_jw *jw, mrd_json_device **ret_device,
                     mrd_why *why)
{
    mrd_strtab *strings = mrd_catalog_strings(env->catalog);
    mrd_json_device *device = calloc(1, sizeof(*device));

    if (device == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "json: device profile");
    device->env = env;
    device->instruction = mrd_strtab_find(strings, MRD_STR("instruction"));
    for (size_t i = 0; i < MRD_COUNT(reserved_keys); i++)
        device->reserved[i] = mrd_strtab_find(strings, mrd_str_of(reserved_keys[i]));
    device->taken[0] = mrd_strtab_find(strings, MRD_STR("counters"));
    device->taken[1] = mrd_strtab_find(strings, MRD_STR("losses"));
    device->taken[2] = mrd_strtab_find(strings, MRD_STR("meridian"));
    device->taken[3] = mrd_strtab_find(strings, MRD_STR("event"));
    device->many = several_cores(env);
    MRD_JW_PUT(jw, "instruction", open, '[');
    *ret_device = device;
    return MRD_OK;
}

static bool
is_reserved(const mrd_json_device *device, mrd_sid key)
{
    for (size_t i = 0; i < MRD_COUNT(reserved_keys); i++) {
        if (device->reserved[i] == key && key != MRD_SID_EMPTY)
            return true;
    }
    return false;
}

static void
put_row_args(mrd_json_device *device, mrd_jw *jw, const mrd_event *ev)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (is_reserved(device, ev->args[i].key)) {
            kept++;
            continue;
        }
        mrd_jw_key_sid(jw, ev->args[i].key);
        mrd_jw_arg(jw, &ev->args[i]);
    }
    if (kept == 0)
        return;
    MRD_JW_PUT(jw, "args", open, '{');
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (!is_reserved(device, ev->args[i].key))
            continue;
        mrd_jw_key_sid(jw, ev->args[i].key);
        mrd_jw_arg(jw, &ev->args[i]);
    }
    mrd_jw_close(jw, '}');
}

static bool
has_section(const mrd_json_device *device, mrd_sid category)
{
    for (size_t i = 0; i < MRD_COUNT(device->taken); i++) {
        if (device->taken[i] == category)
            return false;
    }
    return category != MRD_SID_EMPTY;
}

/* Begins a row with the members that all kinds of rows have. */
static void
put_row_head(mrd_json_device *device, mrd_jw *jw, const mrd_event *ev)
{
    const mrd_track *track = mrd_catalog_borrow_track(device->env->catalog, ev->track);
    mrd_event bare = *ev;

    if (has_section(device, ev->category))
        bare.category = MRD_SID_EMPTY; /* the name of the section states the category */
    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "timestamp", i64, ev->ts.ns);
    MRD_JW_PUT(jw, "duration", i64, ev->dur_ns < 0 ? 0 : ev->dur_ns);
    if (ev->name != MRD_SID_EMPTY) {
        MRD_JW_PUT(jw, "name", sid, ev->name);
    }
    MRD_JW_PUT(jw, "track", sid, track->name);
    if (device->many) {
        const mrd_process *process =
            mrd_catalog_borrow_process(device->env->catalog, track->process);

        MRD_JW_PUT(jw, "instance_id", sid, process->instance_id);
        MRD_JW_PUT(jw, "process_id", i64_text, process->process_id);
        if (track->lnc_idx != MRD_NONE) {
            MRD_JW_PUT(jw, "nc_idx", i64, track->lnc_idx);
        }
    }
    if (ev->id != 0 && ev->kind != MRD_FLOW) {
        MRD_JW_PUT(jw, "id", u64, ev->id);
    }
    mrd_json_put_marks(jw, &bare);
}

static mrd_jw_spool *
section_of(mrd_json_device *device, mrd_sid category)
{
    for (size_t i = 1; i < device->n_sections; i++) {
        if (device->section[i].name == category)
            return &device->section[i].spool;
    }
    if (device->n_sections == DEVICE_SECTIONS)
        return &device->section[0].spool;
    /* Section 0 is "event". It takes rows without a kind, and rows of new kinds when all sections
     * are in use. */
    if (device->n_sections == 0)
        device->n_sections = 1;
    if (!has_section(device, category))
        return &device->section[0].spool;
    device->section[device->n_sections].name = category;
    return &device->section[device->n_sections++].spool;
}

static mrd_jw *
spool_writer(mrd_json_device *device, mrd_jw_spool *spool)
{
    return mrd_jw_spool_writer(spool, mrd_catalog_strings(device->env->catalog),
                               device->env->options->pretty, 2);
}

static mrd_err
put_extra(mrd_json_device *device, const mrd_event *ev)
{
    mrd_jw *jw = spool_writer(device, ev->kind == MRD_LOSS ? &device->losses : &device->counters);

    if (jw == NULL)
        return MRD_NOMEM;
    put_row_head(device, jw, ev);
    if (ev->kind == MRD_LOSS) {
        MRD_JW_PUT(jw, "lost", i64, ev->ivalue);
    } else {
        MRD_JW_KEY(jw, "value");
        mrd_json_put_sample(jw, ev);
    }
    mrd_jw_close(jw, '}');
    return MRD_OK;
}

mrd_err
mrd_json_device_event(mrd_json_device *device, mrd_jw *jw, const mrd_event *ev)
{
    mrd_flow flow = { .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir };
    mrd_event row = *ev;

    if (ev->track >= mrd_catalog_tracks(device->env->catalog))
        return MRD_STATE;
    if (ev->kind == MRD_COUNTER || ev->kind == MRD_LOSS)
        return put_extra(device, ev);
    if (ev->kind == MRD_FLOW) {
        row.kind = MRD_INSTANT;
        row.id = 0;
        row.flows = &flow;
        row.flow_count = 1;
    }
    if (device->instruction == MRD_SID_EMPTY || ev->category != device->instruction) {
        if ((jw = spool_writer(device, section_of(device, ev->category))) == NULL)
            return MRD_NOMEM;
    }
    put_row_head(device, jw, &row);
    put_row_args(device, jw, ev);
    mrd_jw_close(jw, '}');
    return MRD_OK;
}

static mrd_err
put_section(mrd_jw *jw, mrd_str key, mrd_jw_spool *spool, mrd_why *why)
{
    mrd_err err;

    if (spool->elements == 0)
        return MRD_OK;
    mrd_jw_key(jw, key);
    mrd_jw_open(jw, '[');
    err = mrd_jw_spool_drain(spool, jw, why);
    mrd_jw_close(jw, ']');
    return err;
}

mrd_err
mrd_json_device_close(mrd_json_device *device, mrd_jw *jw, mrd_why *why)
{
    mrd_err err = MRD_OK;

    mrd_jw_close(jw, ']');
    for (size_t i = 0; i < device->n_sections && err == MRD_OK; i++) {
        device_section *section = &device->section[i];

        if (section->name == MRD_SID_EMPTY) {
            err = put_section(jw, MRD_STR("event"), &section->spool, why);
        } else if (section->spool.elements > 0) {
            mrd_jw_key_sid(jw, section->name);
            mrd_jw_open(jw, '[');
            err = mrd_jw_spool_drain(&section->spool, jw, why);
            mrd_jw_close(jw, ']');
        }
    }
    if (err == MRD_OK)
        err = put_section(jw, MRD_STR("counters"), &device->counters, why);
    if (err == MRD_OK)
        err = put_section(jw, MRD_STR("losses"), &device->losses, why);
    for (size_t i = 0; i < device->n_sections; i++)
        mrd_jw_spool_fini(&device->section[i].spool);
    mrd_jw_spool_fini(&device->counters);
    mrd_jw_spool_fini(&device->losses);
    free(device);
    return err;
}
