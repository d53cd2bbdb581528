/*
 * trace/import/device/import_monitor.c - reads reports of neuron-monitor as counters. Each report
 * is a JSON object, on one line or several.
 *
 * Every number of a report becomes a sample of a counter. The counter's name is the path of keys
 * inside the group. The counter belongs to the core, device or process that the path names. Two
 * spellings of a name are one counter ("numeric" and "numerical", "effective_flops" and "flops"). A
 * group with a non-empty "error" becomes an instant with this text, on a track of the same core,
 * device or process.
 *
 * Time: reports have no time of their own. The reader uses a numeric top-level "timestamp" (or
 * timestamp_ns, timestamp_ms, time) that a recorder has added. Without it, the reports begin at
 * zero, one period apart, and a note says so. The period is the shortest one that the report's
 * groups state.
 */
#include "trace/import/import.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "base/num.h"
#include "base/obj.h"
#include "trace/json/json_read.h"

#define MON_REPORT_MAX (4u << 20)
#define MON_NAME_MAX   200
#define MON_DEPTH      16            /* maximum nesting of objects in a group of a report */
#define MON_PERIOD     (5 * MRD_SEC) /* default period of neuron-monitor */

/* Where the samples of an object belong: process, core and counter name. Nested objects inherit
 * this. */
typedef struct {
    mrd_proc_id process;
    mrd_source_kind source;
    int64_t lnc_idx, pcore_idx, device_idx;
    char name[MON_NAME_MAX]; /* path of the counter's key inside the report's group */
} mon_place;

typedef struct {
    mrd_import *imp;
    mrd_json_reader *r;
    mrd_input *input;
    mrd_sid instance;
    bool has_instance;
    uint64_t offset; /* offset of the current report in the file */
    uint64_t reports, timed;
    mrd_wall_ns now;
    mrd_dur_ns period_ns;
    mrd_sid word_error, key_group, key_text;
    mrd_err err;
} mon;

static const struct {
    const char *key, *canonical;
} mon_aliases[] = {
    { "numeric", "numerical" },
    { "effective_flops", "flops" },
};

static void
mon_put(mon *monitor, const mon_place *at, const char *key, mrd_str number)
{
    static const struct {
        const char *part, *unit_name;
        mrd_unit unit;
    } units[] = {
        { "utilization", NULL, MRD_UNIT_PERCENT }, { "vcpu", NULL, MRD_UNIT_PERCENT },
        { "bytes", NULL, MRD_UNIT_BYTES },         { "memory", NULL, MRD_UNIT_BYTES },
        { "latency", "s", MRD_UNIT_NONE },         { "period", "s", MRD_UNIT_NONE },
        { "flops", "flop/s", MRD_UNIT_NONE },
    };
    mrd_event ev = { .ts = { monitor->now.ns },
                     .kind = MRD_COUNTER,
                     .bound_ns = MRD_BOUND_UNKNOWN };
    char name[2 * MON_NAME_MAX];
    mrd_track track;

    if (monitor->err != MRD_OK)
        return;
    for (size_t i = 0; i < MRD_COUNT(mon_aliases); i++) {
        if (strcmp(key, mon_aliases[i].key) == 0)
            key = mon_aliases[i].canonical;
    }
    snprintf(name, sizeof(name), "%s%s%s", at->name, at->name[0] != '\0' ? " " : "", key);
    mrd_track_init(&track, at->process, at->source);
    track.kind = MRD_TRACK_COUNTER;
    track.lnc_idx = at->lnc_idx;
    track.pcore_idx = at->pcore_idx;
    track.device_idx = at->device_idx;
    track.name = ev.name = mrd_catalog_intern(monitor->imp->catalog, name);
    track.unit = MRD_UNIT_COUNT;
    for (size_t i = 0; i < MRD_COUNT(units) && strcmp(key, "context_switch_count") != 0; i++) {
        if (strstr(name, units[i].part) == NULL)
            continue;
        track.unit = units[i].unit;
        if (units[i].unit_name != NULL)
            track.unit_name = mrd_catalog_intern(monitor->imp->catalog, units[i].unit_name);
        if (units[i].unit_name != NULL || strcmp(units[i].part, "bytes") != 0)
            break;
    }
    ev.track = mrd_catalog_track(monitor->imp->catalog, &track);
    if (mrd_num_i64(number, &ev.ivalue) == MRD_OK)
        ev.flags = MRD_EV_INT;
    else if (mrd_num_double(number, &ev.value) != MRD_OK) {
        monitor->input->records++;
        mrd_import_drop(monitor->imp, monitor->offset, "'%s' is out of range", name);
        return;
    }
    monitor->input->records++;
    monitor->err = mrd_import_put(monitor->imp, 0, &ev);
}

/* Emits an instant with an error text from the report. Ignores an empty text. */
static void
mon_put_error(mon *monitor, const mon_place *at, const char *group, const char *text)
{
    mrd_event ev = { .ts = { monitor->now.ns },
                     .kind = MRD_INSTANT,
                     .name = monitor->word_error,
                     .bound_ns = MRD_BOUND_UNKNOWN };
    mrd_arg args[2] = { { .key = monitor->key_group, .type = MRD_ARG_STR },
                        { .key = monitor->key_text, .type = MRD_ARG_TEXT } };
    mrd_track track;

    if (monitor->err != MRD_OK || text[0] == '\0')
        return;
    mrd_track_init(&track, at->process, at->source);
    track.lnc_idx = at->lnc_idx;
    track.pcore_idx = at->pcore_idx;
    track.device_idx = at->device_idx;
    track.name = monitor->word_error;
    args[0].v.sid = mrd_catalog_intern(monitor->imp->catalog, group);
    args[1].v.text = text;
    args[1].len = (unsigned) strlen(text) & MRD_ARG_TEXT_MAX;
    ev.args = args;
    ev.arg_count = 2;
    ev.track = mrd_catalog_track(monitor->imp->catalog, &track);
    monitor->input->records++;
    monitor->err = mrd_import_put(monitor->imp, 0, &ev);
}

static void
mon_name_add(mon_place *at, const char *word)
{
    size_t n = strlen(at->name);

    snprintf(at->name + n, sizeof(at->name) - n, "%s%.60s", n > 0 ? " " : "", word);
}

static int64_t
mon_index(const char *text)
{
    int64_t v;

    return mrd_num_i64(mrd_str_of(text), &v) == MRD_OK && v >= 0 ? v : MRD_NONE;
}

/* Returns the number after the last dot of a physical core's key: 7 for "nc_v3.7". Returns MRD_NONE
 * for other keys. */
static int64_t
mon_physical(const char *key)
{
    const char *dot = strrchr(key, '.');

    return strncmp(key, "nc_v", 4) == 0 && dot != NULL ? mon_index(dot + 1) : MRD_NONE;
}

static void mon_walk(mon *monitor, mon_place at, const char *group, mrd_json *json, unsigned depth);

/* Sets device, core and model from members of `json` that contain a device, core or model index.
 * `parent` is the key of the object, or of the list that contains it. */
static void
mon_identify(mon_place *at, const char *parent, const mrd_json *json)
{
    int64_t device = mrd_json_int(json, "neuron_device_index", MRD_NONE);
    int64_t core = mrd_json_int(json, "neuroncore_index", MRD_NONE);
    char text[48];

    if (device >= 0)
        at->device_idx = device;
    if (core >= 0)
        at->lnc_idx = core;
    if (strcmp(parent, "loaded_models") == 0) {
        snprintf(text, sizeof(text), "model %lld",
                 (long long) mrd_json_int(json, "model_id", MRD_NONE));
        mon_name_add(at, text);
    }
}

/* Reads the object or array `json` of a report. `key` is its key. `at` says to which process, core
 * and counter the surrounding object belongs. */
static void
mon_descend(mon *monitor, const mon_place *at, const char *group, const char *parent,
            const char *key, mrd_json *json, unsigned depth)
{
    mon_place below = *at;
    int64_t index = mon_index(key);

    if (mon_physical(key) != MRD_NONE)
        below.pcore_idx = mon_physical(key);
    else if (index != MRD_NONE && strncmp(parent, "neuroncore", 10) == 0)
        below.lnc_idx = index;
    else if (index != MRD_NONE && strcmp(parent, "usage_data") == 0) {
        mon_name_add(&below, "cpu");
        mon_name_add(&below, key);
    } else if (strcmp(key, "v3d") != 0 && strcmp(key, "neuroncores_in_use") != 0 &&
               strcmp(key, "usage_data") != 0 && strcmp(key, "neuron_devices") != 0 &&
               strcmp(key, "loaded_models") != 0 && strcmp(key, "subgraphs") != 0)
        mon_name_add(&below, key);
    if (mrd_json_is_array(json)) {
        for (size_t i = 0; i < mrd_json_size(json); i++) {
            mon_place element = below;

            mon_identify(&element, key, mrd_json_at(json, i));
            mon_walk(monitor, element, group, mrd_json_at(json, i), depth + 1);
        }
        return;
    }
    mon_identify(&below, key, json);
    mon_walk(monitor, below, key, json, depth + 1);
}

/* Drops a value of the report that is no object or is nested too deeply. Counts one dropped record,
 * even if the value contains several numbers. */
static void
mon_pass_over(mon *monitor, const mon_place *at, const mrd_json *json)
{
    mrd_json_type type = mrd_json_type_of(json);

    if (type != MRD_JSON_INT && type != MRD_JSON_REAL && mrd_json_size(json) == 0)
        return;
    monitor->input->records++;
    mrd_import_drop(monitor->imp, monitor->offset, "'%s' has numbers in a list, or too deep",
                    at->name);
}

/* Reads the members of an object of a report. */
static void
mon_walk(mon *monitor, mon_place at, const char *group, mrd_json *json, unsigned depth)
{
    if (!mrd_json_is_object(json) || depth > MON_DEPTH) {
        mon_pass_over(monitor, &at, json);
        return;
    }
    for (void *it = mrd_json_iter(json); it != NULL; it = mrd_json_iter_next(json, it)) {
        const char *key = mrd_json_iter_key(it);
        mrd_json *member = mrd_json_iter_value(it);
        char scratch[64];
        mrd_str text;

        if (mrd_json_is_object(member) || mrd_json_is_array(member))
            mon_descend(monitor, &at, group, group, key, member, depth);
        else if (strcmp(key, "error") == 0)
            mon_put_error(monitor, &at, group, mrd_json_str(json, "error", ""));
        else if (mrd_str_ends(mrd_str_of(key), "_index") || strcmp(key, "model_id") == 0)
            continue; /* mon_identify has used these already */
        else if (mrd_json_text(member, scratch, &text) == MRD_OK && text.p == scratch)
            mon_put(monitor, &at, key, text);
    }
}

/* ---- A report ---- */

static mrd_proc_id
mon_process(mon *monitor, int64_t pid, const char *tag)
{
    mrd_process process;

    mrd_process_init(&process);
    process.instance_id = monitor->instance;
    process.process_id = pid == MRD_NONE ? 0 : pid;
    process.flags = pid == MRD_NONE ? MRD_PROC_NODE : 0;
    process.scope = monitor->has_instance ? 0 : monitor->imp->input + 1;
    if (pid != MRD_NONE && tag[0] != '\0')
        process.name = mrd_catalog_intern(monitor->imp->catalog, tag);
    return mrd_catalog_process(monitor->imp->catalog, &process);
}

static void
mon_runtimes(mon *monitor, mrd_json *runtimes)
{
    for (size_t i = 0; i < mrd_json_size(runtimes); i++) {
        mrd_json *rt = mrd_json_at(runtimes, i), *report = mrd_json_get(rt, "report");
        int64_t pid = mrd_json_int(rt, "pid", MRD_NONE);
        mon_place at = { .source = MRD_SRC_DEVCTR,
                         .lnc_idx = MRD_NONE,
                         .pcore_idx = MRD_NONE,
                         .device_idx = MRD_NONE };

        at.process = mon_process(monitor, pid, mrd_json_str(rt, "neuron_runtime_tag", ""));
        mon_put_error(monitor, &at, "neuron_runtime_data", mrd_json_str(rt, "error", ""));
        mon_walk(monitor, at, "report", report, 0);
    }
}

static void
mon_system(mon *monitor, mrd_json *system)
{
    for (void *it = mrd_json_iter(system); it != NULL; it = mrd_json_iter_next(system, it)) {
        const char *key = mrd_json_iter_key(it);
        mon_place at = { .process = mon_process(monitor, MRD_NONE, ""),
                         .source =
                             strcmp(key, "neuron_hw_counters") == 0 ? MRD_SRC_DEVCTR : MRD_SRC_HOST,
                         .lnc_idx = MRD_NONE,
                         .pcore_idx = MRD_NONE,
                         .device_idx = MRD_NONE };

        mon_name_add(&at, key);
        mon_walk(monitor, at, key, mrd_json_iter_value(it), 0);
    }
}

/* Sets *shortest to the shortest "period" of all groups in `json`. */
static void
mon_shortest(mrd_json *json, unsigned depth, double *shortest)
{
    double period = mrd_json_is_object(json) ? mrd_json_num(json, "period", 0) : 0;

    if (period > 0 && (*shortest == 0 || period < *shortest))
        *shortest = period;
    if (depth == 5)
        return;
    if (mrd_json_is_array(json)) {
        for (size_t i = 0; i < mrd_json_size(json); i++)
            mon_shortest(mrd_json_at(json, i), depth + 1, shortest);
    } else if (mrd_json_is_object(json)) {
        for (void *it = mrd_json_iter(json); it != NULL; it = mrd_json_iter_next(json, it))
            mon_shortest(mrd_json_iter_value(it), depth + 1, shortest);
    }
}

/* Parses a time since 1970. Its magnitude tells the unit: seconds, milli-, micro- or
 * nanoseconds. */
static bool
mon_epoch(mrd_str number, mrd_wall_ns *ret)
{
    int64_t whole;

    if (mrd_num_scaled(number, 0, &whole) != MRD_OK || whole < 1000000000)
        return false;
    return mrd_num_scaled(number,
                          whole >= 100000000000000000 ? 0
                          : whole >= 100000000000000  ? 3
                          : whole >= 100000000000     ? 6
                                                      : 9,
                          &ret->ns) == MRD_OK;
}

static void
mon_time(mon *monitor, mrd_json *report)
{
    static const char *const keys[] = { "timestamp", "timestamp_ns", "timestamp_ms", "time" };
    double shortest = 0;
    char scratch[64];
    mrd_str text;

    for (size_t i = 0; i < MRD_COUNT(keys); i++) {
        mrd_json *json = mrd_json_get(report, keys[i]);

        if (json != NULL && mrd_json_text(json, scratch, &text) == MRD_OK &&
            mon_epoch(text, &monitor->now)) {
            monitor->timed++;
            return;
        }
    }
    mon_shortest(report, 0, &shortest);
    if (shortest > 0 && shortest < 1e6)
        monitor->period_ns = (int64_t) (shortest * 1e9);
    monitor->now = mrd_wall_add(monitor->now, monitor->period_ns);
}

static void
mon_facts(mon *monitor, mrd_json *report)
{
    static const char *const parts[] = { "instance_info", "neuron_hardware_info" };

    for (size_t i = 0; i < MRD_COUNT(parts); i++) {
        mrd_json *part = mrd_json_get(report, parts[i]);

        if (!mrd_json_is_object(part))
            continue;
        for (void *it = mrd_json_iter(part); it != NULL; it = mrd_json_iter_next(part, it)) {
            char key[160], value[256], scratch[64];
            mrd_str text;

            if (mrd_json_text(mrd_json_iter_value(it), scratch, &text) != MRD_OK || text.len == 0)
                continue;
            snprintf(key, sizeof(key), "input.%u.%.100s", monitor->imp->input,
                     mrd_json_iter_key(it));
            snprintf(value, sizeof(value), "%.*s", (int) (text.len < 200 ? text.len : 200), text.p);
            mrd_catalog_set(monitor->imp->catalog, key, value);
        }
    }
}

static mrd_err
mon_report(mon *monitor, mrd_str raw)
{
    mrd_json *report = NULL, *info;
    const char *id;
    mrd_err err = mrd_json_parse(raw, "report", &report, NULL);

    if (err == MRD_NOMEM)
        return err;
    if (err != MRD_OK) {
        monitor->input->records++;
        mrd_import_drop(monitor->imp, monitor->offset,
                        "a report with numbers beyond 64 bits or nested too deeply");
        return MRD_OK;
    }
    info = mrd_json_get(report, "instance_info");
    id = mrd_json_is_object(info) ? mrd_json_str(info, "instance_id", "") : "";
    if (monitor->imp->identity.instance_id != MRD_SID_EMPTY)
        monitor->instance = monitor->imp->identity.instance_id;
    else if (id[0] != '\0')
        monitor->instance = mrd_catalog_intern(monitor->imp->catalog, id);
    else if (!monitor->has_instance)
        monitor->instance = mrd_catalog_intern(monitor->imp->catalog, "unknown");
    monitor->has_instance = monitor->has_instance ||
                            monitor->imp->identity.instance_id != MRD_SID_EMPTY || id[0] != '\0';
    mon_time(monitor, report);
    if (monitor->reports++ == 0)
        mon_facts(monitor, report);
    if (mrd_json_is_array(mrd_json_get(report, "neuron_runtime_data")))
        mon_runtimes(monitor, mrd_json_get(report, "neuron_runtime_data"));
    if (mrd_json_is_object(mrd_json_get(report, "system_data")))
        mon_system(monitor, mrd_json_get(report, "system_data"));
    mrd_json_free(report);
    return monitor->err;
}

static mrd_err
mon_read(mon *monitor)
{
    mrd_jr_type type;
    mrd_str raw;
    mrd_err err = MRD_OK;

    mrd_json_many(monitor->r);
    while (err == MRD_OK && (type = mrd_json_next(monitor->r, NULL, NULL)) > MRD_JR_END) {
        monitor->offset = mrd_json_reader_offset(monitor->r);
        if (type == MRD_JR_OBJECT &&
            (err = mrd_json_raw(monitor->r, MON_REPORT_MAX, &raw)) == MRD_OK) {
            err = mon_report(monitor, raw);
            continue;
        }
        if (err == MRD_NOMEM || mrd_json_reader_err(monitor->r, NULL) != MRD_OK)
            break;
        err = MRD_OK;
        monitor->input->records++;
        mrd_import_drop(monitor->imp, monitor->offset,
                        "a report that is not an object of at most %u bytes", MON_REPORT_MAX);
    }
    return err != MRD_OK ? err : mrd_json_reader_err(monitor->r, NULL);
}

static mrd_err
mon_run(mrd_import *imp, mrd_why *why)
{
    mon monitor = { .imp = imp, .input = mrd_import_input(imp), .period_ns = MON_PERIOD };
    mrd_err err = mrd_json_reader_open(imp->in, &monitor.r, why);

    if (err != MRD_OK)
        return err;
    monitor.word_error = mrd_catalog_intern(imp->catalog, "neuron-monitor error");
    monitor.key_group = mrd_catalog_intern(imp->catalog, "group");
    monitor.key_text = mrd_catalog_intern(imp->catalog, "error");
    err = mon_read(&monitor);
    if (err != MRD_OK && mrd_json_reader_err(monitor.r, why) == MRD_OK)
        mrd_why_set(why, err, 0, "'%s': events could not be kept", mrd_in_name(imp->in));
    if (monitor.reports > monitor.timed)
        mrd_catalog_note(imp->catalog,
                         "'%s': %llu of %llu reports state no time; they are placed one period "
                         "apart, from zero",
                         mrd_in_name(imp->in),
                         (unsigned long long) (monitor.reports - monitor.timed),
                         (unsigned long long) monitor.reports);
    if (monitor.r != NULL)
        mrd_import_note_text(imp, monitor.r);
    mrd_json_reader_close(monitor.r);
    return err;
}

static int
mon_probe(mrd_str head, const char *name)
{
    (void) name;
    if (!mrd_str_has(head, "{"))
        return 0;
    if (mrd_str_has(head, "\"neuron_runtime_data\""))
        return 85;
    return mrd_str_has(head, "\"neuron_hw_counters\"") && mrd_str_has(head, "\"system_data\"") ? 80
                                                                                               : 0;
}

const mrd_import_ops mrd_import_monitor = {
    .name = "neuron-monitor",
    .what = "reports of neuron-monitor, one JSON object per period",
    .probe = mon_probe,
    .run = mon_run,
};
