/* trace/import/device/sysprof_own.c - reads the "meridian" object of files that Meridian wrote. It
 * has the processes, tracks, clocks and artifacts. */
#include "trace/import/device/sysprof_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "base/num.h"
#include "trace/json/catalog_json.h"

bool
mrd_sysprof_source(mrd_str name, uint32_t *ret_source)
{
    for (uint32_t i = 0; i <= MRD_SRC_MERIDIAN; i++) {
        if (mrd_str_is(name, mrd_source_text((mrd_source_kind) i))) {
            *ret_source = i;
            return true;
        }
    }
    return false;
}

mrd_unit
mrd_sysprof_unit(mrd_str name)
{
    for (int i = MRD_UNIT_NS; i <= MRD_UNIT_PERCENT; i++) {
        if (mrd_str_is(name, mrd_unit_text((mrd_unit) i)))
            return (mrd_unit) i;
    }
    return MRD_UNIT_NONE;
}

static mrd_sid
doc_sid(sysprof *prof, const mrd_json *json, const char *key)
{
    const char *text = mrd_json_str(json, key, "");

    return text[0] == '\0' ? MRD_SID_EMPTY : mrd_strtab_addz(prof->strings, text);
}

static int64_t
doc_pid(const mrd_json *json)
{
    int64_t pid;

    return mrd_num_i64(mrd_str_of(mrd_json_str(json, "process_id", "")), &pid) == MRD_OK ? pid : 0;
}

static void
own_identity(sysprof *prof, const mrd_json *json, mrd_process *process)
{
    int64_t scope = mrd_json_int(json, "scope", 0);

    mrd_process_init(process);
    process->instance_id = doc_sid(prof, json, "instance_id");
    process->process_id = doc_pid(json);
    process->profile = prof->profile;
    if (scope > 0 && scope <= 0xffff)
        process->scope = (prof->scope_input + 1) << 16 | (uint32_t) scope;
}

static void
own_process(sysprof *prof, const mrd_json *json)
{
    int64_t clock = mrd_json_int(json, "clock", 0);
    mrd_process process;

    own_identity(prof, json, &process);
    process.name = doc_sid(prof, json, "name");
    process.container_pid = mrd_json_int(json, "container_pid", MRD_NONE);
    process.job = doc_sid(prof, json, "job");
    process.pod = doc_sid(prof, json, "pod");
    process.labels = doc_sid(prof, json, "labels");
    process.rank = mrd_json_int(json, "rank", MRD_NONE);
    process.world_size = mrd_json_int(json, "world_size", MRD_NONE);
    process.worker_gid = mrd_json_int(json, "worker_gid", MRD_NONE);
    process.sort_index = mrd_json_int(json, "sort_index", MRD_NONE);
    process.clock = clock > 0 && (size_t) clock < prof->n_clocks ? prof->clocks[clock] : 0;
    process.flags = (mrd_json_bool(json, "simulated", false) ? MRD_PROC_SIMULATED : 0u) |
                    (mrd_json_bool(json, "no_pid", false) ? MRD_PROC_NO_PID : 0u) |
                    (mrd_json_bool(json, "node", false) ? MRD_PROC_NODE : 0u);
    mrd_catalog_process(prof->cat, &process);
}

static mrd_track_id
own_track(sysprof *prof, const mrd_json *json)
{
    uint32_t source = MRD_SRC_RUNTIME;
    mrd_process process;
    mrd_track track;

    own_identity(prof, json, &process);
    mrd_sysprof_source(mrd_str_of(mrd_json_str(json, "trace_event_source", "")), &source);
    mrd_track_init(&track, mrd_catalog_process(prof->cat, &process), (mrd_source_kind) source);
    track.kind = mrd_json_bool(json, "counter", false) ? MRD_TRACK_COUNTER : MRD_TRACK_SPANS;
    track.lnc_idx = mrd_json_int(json, "lnc_idx", MRD_NONE);
    track.pcore_idx = mrd_json_int(json, "pcore_idx", MRD_NONE);
    track.device_idx = mrd_json_int(json, "device_idx", MRD_NONE);
    track.thread_id = mrd_json_int(json, "thread_id", MRD_NONE);
    track.worker_gid = mrd_json_int(json, "worker_gid", MRD_NONE);
    track.sort_index = mrd_json_int(json, "sort_index", MRD_NONE);
    track.name = doc_sid(prof, json, "track");
    track.unit = mrd_sysprof_unit(mrd_str_of(mrd_json_str(json, "unit", "")));
    track.unit_name = doc_sid(prof, json, "unit_name");
    return mrd_catalog_track(prof->cat, &track);
}

/* Returns the catalog's number of the clock with this name and node if an earlier file of the same
 * trace has added it. Else returns 0. */
static uint32_t
known_clock(const sysprof *prof, const mrd_clock_info *info)
{
    size_t n;
    const mrd_clock_info *clock_info = mrd_catalog_clocks(prof->cat, &n);

    for (uint32_t i = 1; i < n; i++)
        if (clock_info[i].name == info->name && clock_info[i].node == info->node)
            return i;
    return 0;
}

static void
own_clock(sysprof *prof, const mrd_json *json, size_t i)
{
    mrd_clock_info info = { .name = doc_sid(prof, json, "name"),
                            .node = doc_sid(prof, json, "node"),
                            .quality = doc_sid(prof, json, "quality"),
                            .method = doc_sid(prof, json, "method"),
                            .estimate_ns = mrd_json_int(json, "estimate_ns", 0),
                            .bound_ns = mrd_json_int(json, "bound_ns", -1),
                            .noise_ns = mrd_json_int(json, "noise_ns", -1) };
    int64_t epochs = mrd_json_int(json, "epochs", 0),
            violations = mrd_json_int(json, "violations", 0);

    info.epochs = epochs < 0 || epochs > UINT32_MAX ? 0 : (uint32_t) epochs;
    info.violations = violations < 0 ? 0 : (uint64_t) violations;
    prof->clocks[i] = i == 0                                  ? 0
                      : prof->scope_input != prof->imp->input ? known_clock(prof, &info)
                                                              : 0;
    if (i > 0 && prof->clocks[i] == 0)
        prof->clocks[i] = mrd_catalog_add_clock(prof->cat, &info);
}

static void
own_artifact(sysprof *prof, const mrd_json *json)
{
    mrd_artifact artifact = { .path = doc_sid(prof, json, "path"),
                              .kind = doc_sid(prof, json, "kind"),
                              .instance_id = doc_sid(prof, json, "instance_id"),
                              .process_id = mrd_json_int(json, "process_id", MRD_NONE),
                              .nc_idx = mrd_json_int(json, "nc_idx", MRD_NONE),
                              .decoded_by = doc_sid(prof, json, "decoded_by") };
    int64_t size = mrd_json_int(json, "size", 0);

    snprintf(artifact.sha256, sizeof(artifact.sha256), "%.64s", mrd_json_str(json, "sha256", ""));
    artifact.size = size < 0 ? 0 : (uint64_t) size;
    mrd_catalog_add_artifact(prof->cat, &artifact);
}

/* Adds the device profile that the file describes. All events of the file belong to this
 * profile. */
static void
own_device_profile(sysprof *prof, const mrd_json *json)
{
    mrd_devprofile devprofile = { .name = doc_sid(prof, json, "name"),
                                  .model = doc_sid(prof, json, "model_id"),
                                  .instance_id = doc_sid(prof, json, "instance_id"),
                                  .process_id = mrd_json_int(json, "process_id", MRD_NONE),
                                  .nc_idx = mrd_json_int(json, "nc_id", MRD_NONE),
                                  .session = mrd_json_int(json, "session_id", MRD_NONE) };

    prof->profile = mrd_catalog_add_devprofile(prof->cat, &devprofile);
}

void
mrd_sysprof_own_fini(sysprof *prof)
{
    free(prof->clocks);
    free(prof->tracks);
    prof->clocks = NULL;
    prof->tracks = NULL;
    prof->n_clocks = prof->n_tracks = 0;
}

static void
own_lists(sysprof *prof, mrd_json *doc)
{
    mrd_json *clocks = mrd_json_get(doc, "clocks"), *list = mrd_json_get(doc, "processes");

    mrd_sysprof_own_fini(prof);
    prof->n_clocks = mrd_json_size(clocks);
    prof->clocks = calloc(prof->n_clocks + 1, sizeof(*prof->clocks));
    if (prof->clocks == NULL)
        prof->n_clocks = 0;
    for (size_t i = 0; i < prof->n_clocks; i++)
        own_clock(prof, mrd_json_at(clocks, i), i);
    if (strcmp(mrd_json_str(doc, "format", ""), "device_profile") == 0)
        own_device_profile(prof, mrd_json_at(mrd_json_get(doc, "device_profiles"), 0));
    for (size_t i = 0; i < mrd_json_size(list); i++)
        own_process(prof, mrd_json_at(list, i));
    list = mrd_json_get(doc, "tracks");
    prof->n_tracks = mrd_json_size(list);
    prof->tracks = calloc(prof->n_tracks + 1, sizeof(*prof->tracks));
    if (prof->tracks == NULL)
        prof->n_tracks = 0;
    for (size_t i = 0; i < mrd_json_size(list); i++) {
        mrd_track_id track = own_track(prof, mrd_json_at(list, i));

        if (i < prof->n_tracks)
            prof->tracks[i] = track;
    }
    list = mrd_json_get(doc, "artifacts");
    for (size_t i = 0; i < mrd_json_size(list); i++)
        own_artifact(prof, mrd_json_at(list, i));
    list = mrd_json_get(doc, "notes");
    for (size_t i = 0; i < mrd_json_size(list); i++) {
        char scratch[64];
        mrd_str text;

        if (mrd_json_text(mrd_json_at(list, i), scratch, &text) == MRD_OK)
            mrd_catalog_note(prof->cat, MRD_STR_FMT, MRD_STR_ARG(text));
    }
}

mrd_err
mrd_sysprof_own(sysprof *prof)
{
    mrd_json *doc = NULL;
    mrd_str raw;
    mrd_err err = mrd_json_raw(prof->r, MRD_JSON_MAX, &raw);

    prof->own = true;
    if (err != MRD_OK && mrd_json_reader_err(prof->r, NULL) != MRD_OK)
        return err;
    if (err == MRD_OK)
        err = mrd_json_parse(raw, "meridian", &doc, NULL);
    if (err == MRD_NOMEM)
        return err;
    if (err != MRD_OK || !mrd_json_is_object(doc)) {
        mrd_catalog_note(prof->cat, "'%s': what its head says about processes could not be used",
                         mrd_in_name(prof->imp->in));
        mrd_json_free(doc);
        return MRD_OK;
    }
    own_lists(prof, doc);
    if (mrd_json_bool(doc, "simulated", false) && mrd_catalog_get(prof->cat, "simulated") == NULL)
        mrd_catalog_set(prof->cat, "simulated", mrd_in_name(prof->imp->in));
    if (mrd_json_bool(doc, "incomplete", false))
        mrd_catalog_note(prof->cat, "'%s' was written from incomplete inputs",
                         mrd_in_name(prof->imp->in));
    mrd_json_free(doc);
    return MRD_OK;
}
