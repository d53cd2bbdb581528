/*
 * trace/import/device/import_sysprof.c - reads exported system profiles. There are three layouts:
 *   guide     the layout in the vendor's guide (`trace_events`, numbers in strings).
 *   newer     the newer layout, with singular names (`trace_event`, ...).
 *   Meridian  files that Meridian wrote. The original events are restored from them.
 *
 * Rows are converted one by one, with the sections in any order. Rows about memory and CPUs of the
 * host become counters with the names of hw/hw.h. Old files do not state the source of an event. In
 * such a file, an event with `type` 99999 or a `group` framework-* is from the framework. An event
 * with a name that the vendor lists as a hardware event is from the device. All others are from the
 * runtime.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/event_type.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "trace/import/device/sysprof_int.h"
#include "trace/json/catalog_json.h"
#include "trace/json/json_names.h"
#include "trace/model/arg_keys.h"

/* ---- Identity ---- */

static uint32_t
scope_of(const sysprof *prof, const mrd_json_row *row)
{
    int64_t scope = mrd_row_number(row, MRD_ROW_SCOPE);

    if (scope <= 0 || scope > 0xffff)
        return 0;
    return (prof->imp->input + 1) << 16 | (uint32_t) scope;
}

static void
identify(const sysprof *prof, const mrd_json_row *row, row_identity *id)
{
    const mrd_identity *place = &prof->imp->identity;

    memset(id, 0, sizeof(*id)); /* clears the padding, too, because ids are compared as bytes */
    id->instance = mrd_row_sid(row, MRD_ROW_INSTANCE);
    id->pid = mrd_row_number(row, MRD_ROW_PROCESS);
    id->process_name = mrd_row_sid(row, MRD_ROW_PROCESS_NAME);
    id->lnc = mrd_row_number(row, MRD_ROW_LNC);
    if (id->lnc == MRD_NONE)
        id->lnc = mrd_row_number(row, MRD_ROW_NC);
    id->pcore = mrd_row_number(row, MRD_ROW_PCORE);
    id->device = mrd_row_number(row, MRD_ROW_DEVICE);
    id->thread = mrd_row_number(row, MRD_ROW_THREAD);
    id->worker = mrd_row_number(row, MRD_ROW_WORKER);
    id->track = mrd_row_sid(row, MRD_ROW_TRACK);
    id->scope = scope_of(prof, row);
    id->node = mrd_row_flag(row, MRD_ROW_NODE);
    if (id->instance == MRD_SID_EMPTY)
        id->instance = place->instance_id;
    if (id->instance == MRD_SID_EMPTY) {
        id->instance = prof->unknown;
        id->scope = id->scope != 0 ? id->scope : prof->imp->input + 1;
    }
    if (id->pid == MRD_NONE && id->process_name == MRD_SID_EMPTY)
        id->pid = place->process_id;
}

static mrd_proc_id
process_of(sysprof *prof, const row_identity *id)
{
    mrd_process process;

    mrd_process_init(&process);
    process.instance_id = id->instance;
    process.process_id = id->pid;
    process.scope = id->scope;
    process.flags = id->node ? MRD_PROC_NODE : 0;
    if (id->pid == MRD_NONE) {
        process.process_id = 0;
        if (!id->node) {
            process.flags |= MRD_PROC_NO_PID;
            process.name = id->process_name;
            process.scope = process.scope != 0 ? process.scope : prof->imp->input + 1;
            /* The file states a name instead of a pid. The name's string id becomes the pid, so
             * that processes with different names stay apart. */
            if (id->process_name != MRD_SID_EMPTY)
                process.process_id = (int64_t) id->process_name;
        }
    }
    return mrd_catalog_process(prof->cat, &process);
}

static mrd_track_id
track_of(sysprof *prof, const row_identity *id, mrd_track_kind kind, mrd_unit unit,
         mrd_sid unit_name)
{
    cached_track *track = &prof->cache[mrd_hash64(id, sizeof(*id), kind) & (CACHE_TRACKS - 1)];
    mrd_track t;

    if (track->used && kind == MRD_TRACK_SPANS && memcmp(&track->key, id, sizeof(*id)) == 0)
        return track->track;
    mrd_track_init(&t, process_of(prof, id), (mrd_source_kind) id->source);
    t.kind = kind;
    t.lnc_idx = id->lnc;
    t.pcore_idx = id->pcore;
    t.device_idx = id->device;
    t.thread_id = id->thread;
    t.name = id->track;
    t.unit = unit;
    t.unit_name = unit_name;
    t.worker_gid = id->worker;
    if (kind != MRD_TRACK_SPANS)
        return mrd_catalog_track(prof->cat, &t);
    *track = (cached_track){ .key = *id, .track = mrd_catalog_track(prof->cat, &t), .used = true };
    return track->track;
}

static mrd_str
sid_text(const sysprof *prof, mrd_sid sid)
{
    return mrd_strtab_get(prof->strings, sid);
}

static uint32_t
guess_source(const sysprof *prof, const mrd_json_row *row)
{
    mrd_str group = sid_text(prof, mrd_row_sid(row, MRD_ROW_GROUP));

    if (mrd_row_number(row, MRD_ROW_TYPE) == MRD_TYPE_FRAMEWORK ||
        mrd_str_starts(group, "framework"))
        return MRD_SRC_FRAMEWORK;
    return mrd_type_is_hardware(sid_text(prof, mrd_row_sid(row, MRD_ROW_NAME))) ? MRD_SRC_DEVICE
                                                                                : MRD_SRC_RUNTIME;
}

/* ---- Times ---- */

static bool
unit_exponent(const sysprof *prof, const mrd_json_row *row, int *ret_exp10)
{
    static const struct {
        const char *name;
        int exp10;
    } units[] = { { "ns", 0 }, { "ps", -3 }, { "us", 3 }, { "ms", 6 }, { "s", 9 } };
    mrd_sid unit = mrd_row_sid(row, MRD_ROW_TIME_UNIT);

    *ret_exp10 = 0;
    if (unit == MRD_SID_EMPTY || unit == prof->ns)
        return true;
    for (size_t i = 0; i < MRD_COUNT(units); i++) {
        if (mrd_str_is(sid_text(prof, unit), units[i].name)) {
            *ret_exp10 = units[i].exp10;
            return true;
        }
    }
    return false;
}

static bool
text_ns(mrd_str text, int exp10, int64_t *ret_ns)
{
    if (exp10 == 0 && mrd_num_i64(text, ret_ns) == MRD_OK)
        return true;
    return text.len > 0 && mrd_num_scaled(text, exp10, ret_ns) == MRD_OK;
}

/* Sets the times of the event from the row. If a time is missing or invalid, counts the row as
 * dropped and returns false. */
static bool
row_times(sysprof *prof, mrd_event *ev)
{
    const mrd_json_row *row = &prof->row;
    int exp10;

    if (!unit_exponent(prof, row, &exp10)) {
        mrd_import_drop(prof->imp, row->offset, "timestamp_unit '" MRD_STR_FMT "' is not known",
                        MRD_STR_ARG(sid_text(prof, mrd_row_sid(row, MRD_ROW_TIME_UNIT))));
        return false;
    }
    if (!text_ns(mrd_row_text(row, MRD_ROW_TIMESTAMP), exp10, &ev->ts.ns)) {
        mrd_import_drop(prof->imp, row->offset, "a row without a usable timestamp");
        return false;
    }
    ev->dur_ns = 0;
    if (mrd_row_has(row, MRD_ROW_DURATION) &&
        (!text_ns(mrd_row_text(row, MRD_ROW_DURATION), exp10, &ev->dur_ns) || ev->dur_ns < 0)) {
        mrd_import_drop(prof->imp, row->offset, "a row whose duration is negative or out of range");
        return false;
    }
    return true;
}

/* ---- Events ---- */

/* The keys of a row that determine the process, core and track of its event. */
#define WHOSE_KEYS                                                                                 \
    { "instance_id", MRD_ROW_INSTANCE }, { "lnc_idx", MRD_ROW_LNC }, { "nc_idx", MRD_ROW_NC },     \
        { "process_id", MRD_ROW_PROCESS }, { "scope", MRD_ROW_SCOPE },                             \
        { "thread_id", MRD_ROW_THREAD }, { "pcore_idx", MRD_ROW_PCORE },                           \
        { "device_idx", MRD_ROW_DEVICE }, { "worker_gid", MRD_ROW_WORKER },                        \
        { "trace_event_source", MRD_ROW_SOURCE }, { "source", MRD_ROW_OWN_SOURCE },                \
    {                                                                                              \
        "track", MRD_ROW_TRACK                                                                     \
    }

static const mrd_row_key event_keys[] = {
    { "duration", MRD_ROW_DURATION },
    { "duration_ns", MRD_ROW_DURATION },
    { "group", MRD_ROW_GROUP },
    WHOSE_KEYS,
    { "id", MRD_ROW_ID },
    { "name", MRD_ROW_NAME },
    { "size", MRD_ROW_NUMBER_ARG },
    { "tensor_id", MRD_ROW_NUMBER_ARG },
    { "timestamp", MRD_ROW_TIMESTAMP },
    { "start_ts", MRD_ROW_TIMESTAMP },
    { "timestamp_unit", MRD_ROW_TIME_UNIT },
    { "parent_id", MRD_ROW_PARENT },
    { "type", MRD_ROW_TYPE },
    { "category", MRD_ROW_CATEGORY },
    { "kind", MRD_ROW_KIND },
    { "unfinished", MRD_ROW_UNFINISHED },
    { "no_start", MRD_ROW_NO_START },
    { "simulated", MRD_ROW_SIMULATED },
    { "clock_bound_ns", MRD_ROW_BOUND },
    { "flow_id", MRD_ROW_FLOW_ID },
    { "flow_dir", MRD_ROW_FLOW_DIR },
    { "args", MRD_ROW_ARGS },
    { NULL, MRD_ROW_FIELDS },
};

/* Stores the row's members `group`, `kind`, `parent_id`, `type` and `nc_idx` as arguments. Members
 * that Meridian would write with the same value anyway are left out. */
static void
keep_guide_members(sysprof *prof, const row_identity *id)
{
    const mrd_json_row *row = &prof->row;
    mrd_track track;
    char group[64];
    int64_t value;

    mrd_track_init(&track, 0, (mrd_source_kind) id->source);
    track.lnc_idx = id->lnc;
    track.thread_id = id->thread;
    if (mrd_row_has(row, MRD_ROW_GROUP)) {
        mrd_str said = sid_text(prof, mrd_row_sid(row, MRD_ROW_GROUP));
        size_t len = (size_t) mrd_json_group(&track, group);

        if (!mrd_str_eq(said, (mrd_str){ group, len }))
            mrd_args_str(row->args, mrd_strtab_addz(prof->strings, "group"), said);
    }
    if (mrd_row_has(row, MRD_ROW_KIND) &&
        !mrd_str_is(sid_text(prof, mrd_row_sid(row, MRD_ROW_KIND)), "instant"))
        mrd_args_sid(row->args, mrd_strtab_addz(prof->strings, "kind"),
                     mrd_row_sid(row, MRD_ROW_KIND));
    value = mrd_row_number(row, MRD_ROW_PARENT);
    if (mrd_row_has(row, MRD_ROW_PARENT) && value != 0)
        mrd_args_int(row->args, mrd_arg_key_add(prof->strings, MRD_KEY_PARENT), value);
    value = mrd_row_number(row, MRD_ROW_TYPE);
    if (mrd_row_has(row, MRD_ROW_TYPE) && value != 0 &&
        value != mrd_json_event_type(track.source, sid_text(prof, mrd_row_sid(row, MRD_ROW_NAME))))
        mrd_args_int(row->args, mrd_arg_key_add(prof->strings, MRD_KEY_TYPE), value);
    if (mrd_row_has(row, MRD_ROW_NC) && mrd_row_has(row, MRD_ROW_LNC) &&
        mrd_row_number(row, MRD_ROW_NC) != id->lnc)
        mrd_args_int(row->args, mrd_strtab_addz(prof->strings, "nc_idx"),
                     mrd_row_number(row, MRD_ROW_NC));
}

/* Sets the physical core of a device event from device_core_idx, which only newer files have. In
 * the configuration LNC 2, two physical cores form one logical core and run the same execution. So
 * the number of the logical core does not determine the physical core. */
static void
find_physical_core(sysprof *prof, row_identity *id)
{
    const mrd_arg *core;
    mrd_sid key;

    if (prof->own || id->source != MRD_SRC_DEVICE || id->pcore != MRD_NONE)
        return;
    key = mrd_arg_key_find(prof->strings, MRD_KEY_PCORE);
    core = key == MRD_SID_EMPTY ? NULL : mrd_args_find(prof->row.args, key);
    if (core != NULL && core->type == MRD_ARG_INT && core->v.i >= 0)
        id->pcore = core->v.i;
}

/* Sets *ret_source to the source of the row's event, such as runtime or device. Returns false if
 * the row states no source, or an unknown one. */
static bool
find_source(sysprof *prof, uint32_t *ret_source)
{
    mrd_json_row *row = &prof->row;
    mrd_sid own = mrd_row_sid(row, MRD_ROW_OWN_SOURCE);

    if (mrd_row_has(row, MRD_ROW_OWN_SOURCE)) {
        if (mrd_sysprof_source(sid_text(prof, own), ret_source))
            return true;
        mrd_args_sid(row->args, mrd_strtab_addz(prof->strings, "source"), own);
    }
    return mrd_sysprof_source(sid_text(prof, mrd_row_sid(row, MRD_ROW_SOURCE)), ret_source);
}

static mrd_err
put_event(sysprof *prof)
{
    mrd_json_row *row = &prof->row;
    mrd_event ev = { 0 };
    row_identity id;
    size_t n_args;

    prof->input->records++;
    if (!row_times(prof, &ev))
        return MRD_OK;
    if (mrd_row_sid(row, MRD_ROW_NAME) == MRD_SID_EMPTY) {
        mrd_import_drop(prof->imp, row->offset, "an event without a name");
        return MRD_OK;
    }
    identify(prof, row, &id);
    if (!find_source(prof, &id.source)) {
        id.source = guess_source(prof, row);
        if (mrd_row_has(row, MRD_ROW_SOURCE))
            mrd_args_sid(row->args, mrd_strtab_addz(prof->strings, "trace_event_source"),
                         mrd_row_sid(row, MRD_ROW_SOURCE));
    }
    find_physical_core(prof, &id);
    keep_guide_members(prof, &id);
    mrd_row_marks(row, prof->strings, &ev);
    ev.name = mrd_row_sid(row, MRD_ROW_NAME);
    ev.track = track_of(prof, &id, MRD_TRACK_SPANS, MRD_UNIT_NONE, MRD_SID_EMPTY);
    ev.args = mrd_args_view(row->args, &n_args);
    ev.arg_count = (uint32_t) n_args;
    ev.flow_count = mrd_row_flows(prof->imp, row, prof->flows);
    ev.flows = prof->flows;
    prof->input->unfinished += ev.kind == MRD_SPAN && ev.dur_ns < 0;
    prof->input->no_start += (ev.flags & MRD_EV_NO_START) != 0;
    return mrd_import_put(prof->imp, 0, &ev);
}

/* ---- Counters ---- */

static const mrd_row_key host_keys[] = {
    { "duration", MRD_ROW_DURATION },
    { "instance_id", MRD_ROW_INSTANCE },
    { "process_id", MRD_ROW_PROCESS },
    { "process", MRD_ROW_OWN_PROCESS },
    { "track", MRD_ROW_TRACK },
    { "scope", MRD_ROW_SCOPE },
    { "timestamp", MRD_ROW_TIMESTAMP },
    { "timestamp_unit", MRD_ROW_TIME_UNIT },
    { "simulated", MRD_ROW_SIMULATED },
    { "clock_bound_ns", MRD_ROW_BOUND },
    { "usage", MRD_ROW_USED },
    { "used_bytes", MRD_ROW_USED },
    { "percent_usage", MRD_ROW_PERCENT },
    { "used_percent", MRD_ROW_PERCENT },
    { "cpu_id", MRD_ROW_CPU },
    { "util", MRD_ROW_VALUE },
    { "util_percent", MRD_ROW_VALUE },
    { "hbm_idx", MRD_ROW_HBM },
    { "device_idx", MRD_ROW_DEVICE },
    { NULL, MRD_ROW_FIELDS },
};

/* Sets the process of a row about the host, such as CPU usage. A row without a process belongs to
 * the node itself. */
static void
identify_host(const sysprof *prof, row_identity *id)
{
    identify(prof, &prof->row, id);
    id->source = MRD_SRC_HOST;
    id->node = !mrd_row_flag(&prof->row, MRD_ROW_OWN_PROCESS);
    if (id->node && !mrd_row_has(&prof->row, MRD_ROW_PROCESS))
        id->pid = 0;
}

static mrd_err
put_sample(sysprof *prof, const row_identity *id, const char *name, mrd_unit unit, mrd_event *ev,
           mrd_str number)
{
    row_identity named = *id;

    prof->input->records++;
    if (!mrd_row_sample(number, ev)) {
        mrd_import_drop(prof->imp, prof->row.offset, "'%s' is out of range", name);
        return MRD_OK;
    }
    named.track = mrd_strtab_addz(prof->strings, name);
    ev->track = track_of(prof, &named, MRD_TRACK_COUNTER, unit, MRD_SID_EMPTY);
    return mrd_import_put(prof->imp, 0, ev);
}

/* Emits a counter sample for each number under an unknown key of the row. Counts other values as
 * dropped. */
static mrd_err
put_other_samples(sysprof *prof, const row_identity *id, const char *prefix, mrd_event *ev)
{
    size_t n;
    const mrd_arg *args = mrd_args_view(prof->row.args, &n);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        mrd_str key = sid_text(prof, args[i].key);
        row_identity named = *id;
        char name[256];

        prof->input->records++;
        snprintf(name, sizeof(name), "%s" MRD_STR_FMT, prefix, MRD_STR_ARG(key));
        ev->flags &= (uint8_t) ~(MRD_EV_INT | MRD_EV_UNSIGNED);
        if (args[i].type == MRD_ARG_DOUBLE) {
            ev->value = args[i].v.d;
        } else if (mrd_arg_is_int(&args[i])) {
            ev->ivalue = args[i].v.i;
            ev->flags |= MRD_EV_INT | (args[i].type == MRD_ARG_UINT ? MRD_EV_UNSIGNED : 0);
        } else {
            mrd_import_drop(prof->imp, prof->row.offset, "'%s' of a sample is not a number", name);
            continue;
        }
        named.track = mrd_strtab_addz(prof->strings, name);
        ev->track =
            track_of(prof, &named, MRD_TRACK_COUNTER,
                     mrd_str_ends(key, "_bytes") ? MRD_UNIT_BYTES : MRD_UNIT_NONE, MRD_SID_EMPTY);
        err = mrd_import_put(prof->imp, 0, ev);
    }
    return err;
}

/* Sets time and flags of a counter sample. Counts a row with an invalid time as dropped, and
 * returns false. */
static bool
sample_times(sysprof *prof, mrd_event *ev)
{
    if (!row_times(prof, ev)) {
        prof->input->records++;
        return false;
    }
    mrd_row_marks(&prof->row, prof->strings, ev);
    ev->kind = MRD_COUNTER;
    ev->dur_ns = 0;
    ev->id = 0;
    return true;
}

static mrd_err
put_memory(sysprof *prof)
{
    mrd_event ev = { 0 };
    row_identity id;
    mrd_str track = sid_text(prof, mrd_row_sid(&prof->row, MRD_ROW_TRACK));
    bool monitor = mrd_str_is(track, MRD_NAME_MEM_MONITOR);
    mrd_err err = MRD_OK;

    if (!sample_times(prof, &ev))
        return MRD_OK;
    identify_host(prof, &id);
    if (mrd_row_has(&prof->row, MRD_ROW_USED))
        err = put_sample(prof, &id, monitor ? MRD_NAME_MEM_MONITOR : MRD_NAME_MEM_USED,
                         MRD_UNIT_BYTES, &ev, mrd_row_text(&prof->row, MRD_ROW_USED));
    if (err == MRD_OK && mrd_row_has(&prof->row, MRD_ROW_PERCENT))
        err = put_sample(prof, &id, MRD_NAME_MEM_PERCENT, MRD_UNIT_PERCENT, &ev,
                         mrd_row_text(&prof->row, MRD_ROW_PERCENT));
    return err == MRD_OK ? put_other_samples(prof, &id, "mem.", &ev) : err;
}

static mrd_err
put_cpu(sysprof *prof)
{
    mrd_str cpu = sid_text(prof, mrd_row_sid(&prof->row, MRD_ROW_CPU));
    mrd_event ev = { 0 };
    row_identity id;
    char name[256];
    mrd_err err = MRD_OK;

    if (!sample_times(prof, &ev))
        return MRD_OK;
    if (mrd_str_is(cpu, MRD_NAME_CPU_AVERAGE))
        cpu = MRD_STR(MRD_NAME_CPU_ALL);
    identify_host(prof, &id);
    snprintf(name, sizeof(name), MRD_NAME_CPU_PREFIX "%.*s" MRD_NAME_CPU_SUFFIX,
             cpu.len > 128 ? 128 : (int) cpu.len, cpu.len == 0 ? "" : cpu.p);
    if (mrd_row_has(&prof->row, MRD_ROW_VALUE))
        err = put_sample(prof, &id, name, MRD_UNIT_PERCENT, &ev,
                         mrd_row_text(&prof->row, MRD_ROW_VALUE));
    snprintf(name, sizeof(name), MRD_NAME_CPU_PREFIX "%.*s.", cpu.len > 128 ? 128 : (int) cpu.len,
             cpu.len == 0 ? "" : cpu.p);
    return err == MRD_OK ? put_other_samples(prof, &id, name, &ev) : err;
}

static mrd_err
put_device_memory(sysprof *prof)
{
    mrd_event ev = { 0 };
    row_identity id;
    char prefix[48];

    if (!sample_times(prof, &ev))
        return MRD_OK;
    identify_host(prof, &id);
    id.source = MRD_SRC_DEVCTR;
    snprintf(prefix, sizeof(prefix), "hbm.%lld.",
             (long long) mrd_row_number(&prof->row, MRD_ROW_HBM));
    return put_other_samples(prof, &id, mrd_row_has(&prof->row, MRD_ROW_HBM) ? prefix : "hbm.",
                             &ev);
}

static const mrd_row_key counter_keys[] = {
    { "value", MRD_ROW_VALUE },         WHOSE_KEYS,
    { "node", MRD_ROW_NODE },           { "unit", MRD_ROW_UNIT },
    { "unit_name", MRD_ROW_UNIT_NAME }, { "name", MRD_ROW_NAME },
    { "category", MRD_ROW_CATEGORY },   { "timestamp", MRD_ROW_TIMESTAMP },
    { "simulated", MRD_ROW_SIMULATED }, { "clock_bound_ns", MRD_ROW_BOUND },
    { NULL, MRD_ROW_FIELDS },
};

static mrd_err
put_counter(sysprof *prof)
{
    mrd_event ev = { 0 };
    row_identity id;

    if (!sample_times(prof, &ev))
        return MRD_OK;
    prof->input->records++;
    identify(prof, &prof->row, &id);
    if (!find_source(prof, &id.source))
        id.source = MRD_SRC_HOST;
    if (!mrd_row_has(&prof->row, MRD_ROW_VALUE) ||
        !mrd_row_sample(mrd_row_text(&prof->row, MRD_ROW_VALUE), &ev)) {
        mrd_import_drop(prof->imp, prof->row.offset, "a counter without a value");
        return MRD_OK;
    }
    ev.name = mrd_row_sid(&prof->row, MRD_ROW_NAME);
    ev.track = track_of(prof, &id, MRD_TRACK_COUNTER,
                        mrd_sysprof_unit(sid_text(prof, mrd_row_sid(&prof->row, MRD_ROW_UNIT))),
                        mrd_row_sid(&prof->row, MRD_ROW_UNIT_NAME));
    return mrd_import_put(prof->imp, 0, &ev);
}

static const mrd_row_key loss_keys[] = {
    { "lost", MRD_ROW_LOST },
    { "group", MRD_ROW_GROUP },
    WHOSE_KEYS,
    { "cause", MRD_ROW_NAME },
    { "category", MRD_ROW_CATEGORY },
    { "unfinished", MRD_ROW_UNFINISHED },
    { "duration", MRD_ROW_DURATION },
    { "timestamp", MRD_ROW_TIMESTAMP },
    { "simulated", MRD_ROW_SIMULATED },
    { "clock_bound_ns", MRD_ROW_BOUND },
    { NULL, MRD_ROW_FIELDS },
};

static mrd_err
put_loss(sysprof *prof)
{
    mrd_event ev = { 0 };
    row_identity id;

    prof->input->records++;
    if (!row_times(prof, &ev))
        return MRD_OK;
    if (mrd_row_number(&prof->row, MRD_ROW_LOST) < 0 ||
        mrd_row_sid(&prof->row, MRD_ROW_NAME) == MRD_SID_EMPTY) {
        mrd_import_drop(prof->imp, prof->row.offset, "a loss without a number or a cause");
        return MRD_OK;
    }
    identify(prof, &prof->row, &id);
    if (!find_source(prof, &id.source))
        id.source = MRD_SRC_MERIDIAN;
    mrd_row_marks(&prof->row, prof->strings, &ev);
    ev.kind = MRD_LOSS;
    ev.name = mrd_row_sid(&prof->row, MRD_ROW_NAME);
    ev.ivalue = mrd_row_number(&prof->row, MRD_ROW_LOST);
    ev.track = track_of(prof, &id, MRD_TRACK_SPANS, MRD_UNIT_NONE, MRD_SID_EMPTY);
    prof->input->lost += (uint64_t) ev.ivalue;
    return mrd_import_put(prof->imp, 0, &ev);
}

/* ---- Facts about the whole profile ---- */

/* Stores the members of a metadata row in the catalog as "input.<number>.<section>.<key>". With
 * `notes`, only the row's message is stored, as a note. Rows that Meridian wrote are ignored. */
static mrd_err
put_fact_rows(sysprof *prof, const char *section, bool notes)
{
    static const mrd_row_key none[] = { { NULL, MRD_ROW_FIELDS } };
    mrd_err err = mrd_row_read(&prof->row, prof->r, none, prof->strings);
    size_t n;
    const mrd_arg *args;
    mrd_buf value = { 0 };

    if (err != MRD_OK)
        return err;
    args = mrd_args_view(prof->row.args, &n);
    for (size_t i = 0; i < n; i++) {
        mrd_str key = sid_text(prof, args[i].key), text = { args[i].v.text, args[i].len };
        char name[160];

        if (prof->own || mrd_str_is(key, "category"))
            continue;
        mrd_buf_reset(&value);
        if (args[i].type == MRD_ARG_STR)
            text = sid_text(prof, args[i].v.sid);
        if (args[i].type == MRD_ARG_STR || args[i].type == MRD_ARG_TEXT ||
            args[i].type == MRD_ARG_JSON)
            mrd_buf_str(&value, text);
        else if (args[i].type == MRD_ARG_DOUBLE)
            mrd_buf_fmt(&value, "%.17g", args[i].v.d);
        else if (args[i].type == MRD_ARG_INT)
            mrd_buf_i64(&value, args[i].v.i);
        else
            mrd_buf_u64(&value, args[i].v.u);
        snprintf(name, sizeof(name), "input.%u.%s." MRD_STR_FMT, prof->imp->input, section,
                 MRD_STR_ARG(key));
        if (notes && mrd_str_is(key, "message"))
            mrd_catalog_note(prof->cat, "'%s' warns: %.400s", mrd_in_name(prof->imp->in),
                             mrd_buf_cstr(&value));
        else if (!notes)
            mrd_catalog_set(prof->cat, name, mrd_buf_cstr(&value));
    }
    mrd_buf_fini(&value);
    return MRD_OK;
}

static mrd_err
put_metadata(sysprof *prof)
{
    return put_fact_rows(prof, "system_profile_metadata", false);
}

static mrd_err
put_profile_list(sysprof *prof)
{
    return put_fact_rows(prof, "device_profile_list", false);
}

static mrd_err
put_warning(sysprof *prof)
{
    return put_fact_rows(prof, "warnings", true);
}

/* ---- The document ---- */

static const struct {
    const char *key;
    /* keys of the section's rows; NULL if the function put() reads the rows by itself */
    const mrd_row_key *keys;
    mrd_err (*put)(sysprof *s);
} sections[] = {
    { "trace_events", event_keys, put_event },
    { "trace_event", event_keys, put_event },
    { "mem_usage", host_keys, put_memory },
    { "host_mem_usage", host_keys, put_memory },
    { "cpu_util", host_keys, put_cpu },
    { "cpu_usage", host_keys, put_cpu },
    { "device_mem_usage", host_keys, put_device_memory },
    { "system_profile_hbm_usage", host_keys, put_device_memory },
    { "counters", counter_keys, put_counter },
    { "losses", loss_keys, put_loss },
    { "system_profile_metadata", NULL, put_metadata },
    { "device_profile_list", NULL, put_profile_list },
    { "warnings", NULL, put_warning },
    { "warning", NULL, put_warning },
};

static mrd_err
read_row(void *self)
{
    sysprof *prof = self;
    mrd_err err = MRD_OK;

    if (sections[prof->section].keys != NULL)
        err = mrd_row_read(&prof->row, prof->r, sections[prof->section].keys, prof->strings);
    return err == MRD_OK ? sections[prof->section].put(prof) : err;
}

static mrd_err
read_member(sysprof *prof, mrd_str key, mrd_jr_type type)
{
    char name[80];

    for (size_t i = 0; i < MRD_COUNT(sections); i++) {
        if (!mrd_str_is(key, sections[i].key))
            continue;
        prof->any_section = true;
        prof->section = i;
        if (type == MRD_JR_ARRAY)
            return mrd_rows_read(prof->imp, prof->r, key, read_row, prof);
        if (type == MRD_JR_OBJECT)
            return read_row(prof);
        if (type == MRD_JR_NULL)
            return MRD_OK;
        prof->input->records++;
        mrd_import_drop(prof->imp, mrd_json_reader_offset(prof->r),
                        "%s is %s where an array belongs", sections[i].key, mrd_jr_type_text(type));
        return MRD_OK;
    }
    if (mrd_str_is(key, "meridian") && type == MRD_JR_OBJECT)
        return mrd_sysprof_own(prof);
    snprintf(name, sizeof(name), "%.*s", key.len > 60 ? 60 : (int) key.len, key.p);
    mrd_catalog_note(prof->cat, "'%s': section '%s' is not known and was passed over",
                     mrd_in_name(prof->imp->in), name);
    return MRD_OK;
}

static mrd_err
read_document(sysprof *prof, mrd_why *why)
{
    mrd_jr_type type = mrd_json_next(prof->r, NULL, NULL);
    mrd_str key;
    mrd_err err = MRD_OK;

    if (type == MRD_JR_ERROR)
        return mrd_json_reader_err(prof->r, why);
    if (type != MRD_JR_OBJECT)
        return mrd_why_set(why, MRD_FORMAT, 0, "'%s': a system profile is an object, not %s",
                           mrd_in_name(prof->imp->in), mrd_jr_type_text(type));
    mrd_json_enter(prof->r);
    while (err == MRD_OK && (type = mrd_json_next(prof->r, &key, NULL)) != MRD_JR_END) {
        if (type == MRD_JR_ERROR)
            break;
        err = read_member(prof, key, type);
    }
    if (err == MRD_OK && type == MRD_JR_END && mrd_json_next(prof->r, NULL, NULL) == MRD_JR_END)
        return MRD_OK;
    if (mrd_json_reader_err(prof->r, why) != MRD_OK)
        return mrd_json_reader_err(prof->r, why);
    return mrd_why_set(why, err, 0, "'%s': events could not be kept", mrd_in_name(prof->imp->in));
}

static mrd_err
sysprof_run(mrd_import *imp, mrd_why *why)
{
    sysprof *prof = calloc(1, sizeof(*prof));
    mrd_err err = MRD_OK;

    if (prof == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(imp->in));
    prof->imp = imp;
    prof->scope_input = imp->input;
    prof->cat = imp->catalog;
    prof->strings = mrd_catalog_strings(imp->catalog);
    prof->input = mrd_import_input(imp);
    prof->ns = mrd_strtab_addz(prof->strings, "ns");
    prof->unknown = mrd_strtab_addz(prof->strings, "unknown");
    if ((prof->row.args = mrd_args_new(prof->strings)) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(imp->in));
    if (err == MRD_OK)
        err = mrd_json_reader_open(imp->in, &prof->r, why);
    if (err == MRD_OK)
        err = read_document(prof, why);
    if (err == MRD_OK && !prof->any_section)
        err = mrd_why_set(why, MRD_EMPTY, 0, "'%s' has no section of a system profile",
                          mrd_in_name(imp->in));
    if (prof->r != NULL)
        mrd_import_note_text(prof->imp, prof->r);
    mrd_json_reader_close(prof->r);
    mrd_args_free(prof->row.args);
    mrd_sysprof_own_fini(prof);
    free(prof);
    return err;
}

/* Detects a JSON object that begins with Meridian's "meridian" object, or has a section of a system
 * profile. Searches for "meridian" only near the start, because this object may be longer than
 * `head`. */
static int
sysprof_probe(mrd_str head, const char *name)
{
    mrd_str start = { head.p, head.len < 256 ? head.len : 256 };

    (void) name;
    if (mrd_str_first(head) != '{')
        return 0;
    if (mrd_str_has(start, "\"meridian\""))
        return mrd_str_has(start, "\"system_profile\"") ? 95 : 0;
    if (mrd_str_has(head, "\"trace_events\"") || mrd_str_has(head, "\"trace_event\""))
        return 88;
    return mrd_str_has(head, "\"cpu_util\"") || mrd_str_has(head, "\"mem_usage\"") ||
                   mrd_str_has(head, "\"device_mem_usage\"") ||
                   mrd_str_has(head, "\"system_profile_metadata\"")
               ? 60
               : 0;
}

const mrd_import_ops mrd_import_sysprof = {
    .name = "system-profile-json",
    .what =
        "exported system profile (neuron-profile, neuron-explorer, meridian), old and new layout",
    .probe = sysprof_probe,
    .run = sysprof_run,
};
