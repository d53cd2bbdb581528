/* Reads the head of files that Meridian wrote: identities, tracks, clocks and artifacts. */
#include "trace/import/device/sysprof_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "base/num.h"
#include "trace/json/catalog_json.h"

/* Finds the source of a track by its exported name. Returns false for an unknown name. */
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
doc_sid(sysprof *s, const mrd_json *v, const char *key)
{
    const char *text = mrd_json_str(v, key, "");

    return text[0] == '\0' ? MRD_SID_EMPTY : mrd_strtab_addz(s->strings, text);
}

static int64_t
doc_pid(const mrd_json *v)
{
    int64_t pid;

    return mrd_num_i64(mrd_str_of(mrd_json_str(v, "process_id", "")), &pid) == MRD_OK ? pid : 0;
}

static void
own_identity(sysprof *s, const mrd_json *v, mrd_process *p)
{
    int64_t scope = mrd_json_int(v, "scope", 0);

    mrd_process_init(p);
    p->instance_id = doc_sid(s, v, "instance_id");
    p->process_id = doc_pid(v);
    p->profile = s->profile;
    if (scope > 0 && scope <= 0xffff)
        p->scope = (s->scope_input + 1) << 16 | (uint32_t) scope;
}

static void
own_process(sysprof *s, const mrd_json *v)
{
    int64_t clock = mrd_json_int(v, "clock", 0);
    mrd_process p;

    own_identity(s, v, &p);
    p.name = doc_sid(s, v, "name");
    p.container_pid = mrd_json_int(v, "container_pid", MRD_NONE);
    p.job = doc_sid(s, v, "job");
    p.pod = doc_sid(s, v, "pod");
    p.labels = doc_sid(s, v, "labels");
    p.rank = mrd_json_int(v, "rank", MRD_NONE);
    p.world_size = mrd_json_int(v, "world_size", MRD_NONE);
    p.worker_gid = mrd_json_int(v, "worker_gid", MRD_NONE);
    p.sort_index = mrd_json_int(v, "sort_index", MRD_NONE);
    p.clock = clock > 0 && (size_t) clock < s->n_clocks ? s->clocks[clock] : 0;
    p.flags = (mrd_json_bool(v, "simulated", false) ? MRD_PROC_SIMULATED : 0u) |
              (mrd_json_bool(v, "no_pid", false) ? MRD_PROC_NO_PID : 0u) |
              (mrd_json_bool(v, "node", false) ? MRD_PROC_NODE : 0u);
    mrd_catalog_process(s->cat, &p);
}

static mrd_track_id
own_track(sysprof *s, const mrd_json *v)
{
    uint32_t source = MRD_SRC_RUNTIME;
    mrd_process p;
    mrd_track t;

    own_identity(s, v, &p);
    mrd_sysprof_source(mrd_str_of(mrd_json_str(v, "trace_event_source", "")), &source);
    mrd_track_init(&t, mrd_catalog_process(s->cat, &p), (mrd_source_kind) source);
    t.kind = mrd_json_bool(v, "counter", false) ? MRD_TRACK_COUNTER : MRD_TRACK_SPANS;
    t.lnc_idx = mrd_json_int(v, "lnc_idx", MRD_NONE);
    t.pcore_idx = mrd_json_int(v, "pcore_idx", MRD_NONE);
    t.device_idx = mrd_json_int(v, "device_idx", MRD_NONE);
    t.thread_id = mrd_json_int(v, "thread_id", MRD_NONE);
    t.worker_gid = mrd_json_int(v, "worker_gid", MRD_NONE);
    t.sort_index = mrd_json_int(v, "sort_index", MRD_NONE);
    t.name = doc_sid(s, v, "track");
    t.unit = mrd_sysprof_unit(mrd_str_of(mrd_json_str(v, "unit", "")));
    t.unit_name = doc_sid(s, v, "unit_name");
    return mrd_catalog_track(s->cat, &t);
}

/* Returns the clock of this name and node that an earlier part added, 0 if there is none. */
static uint32_t
known_clock(const sysprof *s, const mrd_clock_info *c)
{
    size_t n;
    const mrd_clock_info *v = mrd_catalog_clocks(s->cat, &n);

    for (uint32_t i = 1; i < n; i++)
        if (v[i].name == c->name && v[i].node == c->node)
            return i;
    return 0;
}

static void
own_clock(sysprof *s, const mrd_json *v, size_t i)
{
    mrd_clock_info c = { .name = doc_sid(s, v, "name"),
                         .node = doc_sid(s, v, "node"),
                         .quality = doc_sid(s, v, "quality"),
                         .method = doc_sid(s, v, "method"),
                         .estimate_ns = mrd_json_int(v, "estimate_ns", 0),
                         .bound_ns = mrd_json_int(v, "bound_ns", -1),
                         .noise_ns = mrd_json_int(v, "noise_ns", -1) };
    int64_t epochs = mrd_json_int(v, "epochs", 0), violations = mrd_json_int(v, "violations", 0);

    c.epochs = epochs < 0 || epochs > UINT32_MAX ? 0 : (uint32_t) epochs;
    c.violations = violations < 0 ? 0 : (uint64_t) violations;
    s->clocks[i] = i == 0 ? 0 : s->scope_input != s->imp->input ? known_clock(s, &c) : 0;
    if (i > 0 && s->clocks[i] == 0)
        s->clocks[i] = mrd_catalog_add_clock(s->cat, &c);
}

static void
own_artifact(sysprof *s, const mrd_json *v)
{
    mrd_artifact a = { .path = doc_sid(s, v, "path"),
                       .kind = doc_sid(s, v, "kind"),
                       .instance_id = doc_sid(s, v, "instance_id"),
                       .process_id = mrd_json_int(v, "process_id", MRD_NONE),
                       .nc_idx = mrd_json_int(v, "nc_idx", MRD_NONE),
                       .decoded_by = doc_sid(s, v, "decoded_by") };
    int64_t size = mrd_json_int(v, "size", 0);

    snprintf(a.sha256, sizeof(a.sha256), "%.64s", mrd_json_str(v, "sha256", ""));
    a.size = size < 0 ? 0 : (uint64_t) size;
    mrd_catalog_add_artifact(s->cat, &a);
}

/* Adds the device profile of which the file has the events. */
static void
own_device_profile(sysprof *s, const mrd_json *v)
{
    mrd_devprofile d = { .name = doc_sid(s, v, "name"),
                         .model = doc_sid(s, v, "model_id"),
                         .instance_id = doc_sid(s, v, "instance_id"),
                         .process_id = mrd_json_int(v, "process_id", MRD_NONE),
                         .nc_idx = mrd_json_int(v, "nc_id", MRD_NONE),
                         .session = mrd_json_int(v, "session_id", MRD_NONE) };

    s->profile = mrd_catalog_add_devprofile(s->cat, &d);
}

void
mrd_sysprof_own_fini(sysprof *s)
{
    free(s->clocks);
    free(s->tracks);
    s->clocks = NULL;
    s->tracks = NULL;
    s->n_clocks = s->n_tracks = 0;
}

static void
own_lists(sysprof *s, mrd_json *doc)
{
    mrd_json *clocks = mrd_json_get(doc, "clocks"), *list = mrd_json_get(doc, "processes");

    mrd_sysprof_own_fini(s);
    s->n_clocks = mrd_json_size(clocks);
    s->clocks = calloc(s->n_clocks + 1, sizeof(*s->clocks));
    if (s->clocks == NULL)
        s->n_clocks = 0;
    for (size_t i = 0; i < s->n_clocks; i++)
        own_clock(s, mrd_json_at(clocks, i), i);
    if (strcmp(mrd_json_str(doc, "format", ""), "device_profile") == 0)
        own_device_profile(s, mrd_json_at(mrd_json_get(doc, "device_profiles"), 0));
    for (size_t i = 0; i < mrd_json_size(list); i++)
        own_process(s, mrd_json_at(list, i));
    list = mrd_json_get(doc, "tracks");
    s->n_tracks = mrd_json_size(list);
    s->tracks = calloc(s->n_tracks + 1, sizeof(*s->tracks));
    if (s->tracks == NULL)
        s->n_tracks = 0;
    for (size_t i = 0; i < mrd_json_size(list); i++) {
        mrd_track_id track = own_track(s, mrd_json_at(list, i));

        if (i < s->n_tracks)
            s->tracks[i] = track;
    }
    list = mrd_json_get(doc, "artifacts");
    for (size_t i = 0; i < mrd_json_size(list); i++)
        own_artifact(s, mrd_json_at(list, i));
    list = mrd_json_get(doc, "notes");
    for (size_t i = 0; i < mrd_json_size(list); i++) {
        char scratch[64];
        mrd_str text;

        if (mrd_json_text(mrd_json_at(list, i), scratch, &text) == MRD_OK)
            mrd_catalog_note(s->cat, MRD_STR_FMT, MRD_STR_ARG(text));
    }
}

mrd_err
mrd_sysprof_own(sysprof *s)
{
    mrd_json *doc = NULL;
    mrd_str raw;
    mrd_err err = mrd_json_raw(s->r, MRD_JSON_MAX, &raw);

    s->own = true;
    if (err != MRD_OK && mrd_json_reader_err(s->r, NULL) != MRD_OK)
        return err;
    if (err == MRD_OK)
        err = mrd_json_parse(raw, "meridian", &doc, NULL);
    if (err == MRD_NOMEM)
        return err;
    if (err != MRD_OK || !mrd_json_is_object(doc)) {
        mrd_catalog_note(s->cat, "'%s': what its head says about processes could not be used",
                         mrd_in_name(s->imp->in));
        mrd_json_free(doc);
        return MRD_OK;
    }
    own_lists(s, doc);
    if (mrd_json_bool(doc, "simulated", false) && mrd_catalog_get(s->cat, "simulated") == NULL)
        mrd_catalog_set(s->cat, "simulated", mrd_in_name(s->imp->in));
    if (mrd_json_bool(doc, "incomplete", false))
        mrd_catalog_note(s->cat, "'%s' was written from incomplete inputs",
                         mrd_in_name(s->imp->in));
    mrd_json_free(doc);
    return MRD_OK;
}
