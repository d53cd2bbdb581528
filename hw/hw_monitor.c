/*
 * hw/hw_monitor.c - the backend that reads counters from the vendor's tool neuron-monitor. The tool
 * runs as a child process and prints a report in each period, as a JSON object on one line.
 *
 * Every number in a report becomes a counter, whose name is the path in the report. An element of
 * an array is named by its pid or its neuron_device_index. Arrays without these, such as the array
 * of loaded models, are ignored. The time of a value is the time at which the line arrived.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf/json.h"
#include "base/num.h"
#include "hw/child.h"
#include "hw/hw_monitor.h"

#define LINE_MAX_BYTES (4u << 20)
#define RESTART_AFTER  (30 * MRD_SEC)

typedef struct {
    char *path;
    mrd_dur_ns period;
    mrd_child child;
    mrd_buf pending; /* the incomplete last line */
    mrd_hw_table table;
    mrd_local_ns last_line, started;
} monitor;

/* ---- From a report to counters ---- */

static bool
ends(const char *text, const char *with)
{
    return mrd_str_ends(mrd_str_of(text), with);
}

static mrd_unit
unit_of(const char *path, const char *key)
{
    if (ends(key, "utilization") || strstr(path, "vcpu_usage.") != NULL)
        return strcmp(key, "context_switch_count") == 0 ? MRD_UNIT_COUNT : MRD_UNIT_PERCENT;
    if (ends(key, "_bytes") || ends(key, "memory_size") || strstr(path, "used_bytes") != NULL)
        return MRD_UNIT_BYTES;
    return strstr(path, "latency_stats.") != NULL ? MRD_UNIT_NONE : MRD_UNIT_COUNT;
}

/* Returns the number that follows `component` in the path, for example a core's index. Returns
 * MRD_NONE if there is none. */
static int64_t
index_after(const char *path, const char *component)
{
    const char *at = strstr(path, component);
    int64_t v;
    size_t n;

    if (at == NULL)
        return MRD_NONE;
    at += strlen(component);
    n = strcspn(at, ".");
    return mrd_num_i64((mrd_str){ at, n }, &v) == MRD_OK && v >= 0 ? v : MRD_NONE;
}

static void
leaf(mrd_hw_table *table, const char *path, const char *key, const mrd_json *json, mrd_local_ns at)
{
    mrd_hw_counter counter = { .device_idx = index_after(path, "neuron_devices."),
                               .core_idx = index_after(path, "neuroncores_in_use."),
                               .pid = index_after(path, "runtime.") };
    char scratch[64];
    mrd_str text;
    int64_t i;
    double d;
    size_t row;

    if (mrd_json_text(json, scratch, &text) != MRD_OK || text.p != scratch ||
        mrd_num_double(text, &d) != MRD_OK)
        return; /* texts and booleans are not counters */
    if (counter.core_idx == MRD_NONE)
        counter.core_idx = index_after(path, "neuroncore_memory_usage.");
    if (snprintf(counter.name, sizeof(counter.name), "%s", path) >= (int) sizeof(counter.name)) {
        table->refused++;
        return;
    }
    counter.unit = unit_of(path, key);
    /* The first value decides whether a counter is an integer or a double. Percentages and rates
     * are always doubles. */
    counter.flags = counter.unit == MRD_UNIT_PERCENT || counter.unit == MRD_UNIT_NONE ||
                            strchr(text.p, '.') != NULL
                        ? MRD_HW_DOUBLE
                        : 0;
    row = mrd_hw_table_add(table, &counter, 0);
    if (row == MRD_HW_NO_ROW)
        return;
    if ((table->rows[row].counter.flags & MRD_HW_DOUBLE) != 0)
        mrd_hw_table_set_d(table, row, d, at);
    else if (mrd_num_scaled(text, 0, &i) == MRD_OK)
        mrd_hw_table_set_i(table, row, i, at);
}

static bool
element_name(const mrd_json *element, char name[32])
{
    int64_t id = mrd_json_int(element, "pid", -1);

    if (id < 0)
        id = mrd_json_int(element, "neuron_device_index", -1);
    snprintf(name, 32, "%lld", (long long) id);
    return id >= 0;
}

static void flatten(mrd_hw_table *table, char path[MRD_HW_NAME_MAX], mrd_json *json,
                    mrd_local_ns at, unsigned depth);

static void
child_of(mrd_hw_table *table, char path[MRD_HW_NAME_MAX], const char *key, mrd_json *json,
         mrd_local_ns at, unsigned depth)
{
    size_t len = strlen(path);
    int n = snprintf(path + len, MRD_HW_NAME_MAX - len, ".%s", key);

    if (n < (int) (MRD_HW_NAME_MAX - len)) {
        if (mrd_json_is_object(json) || mrd_json_is_array(json))
            flatten(table, path, json, at, depth);
        else
            leaf(table, path, key, json, at);
    } else {
        table->refused++;
    }
    path[len] = '\0';
}

static void
flatten(mrd_hw_table *table, char path[MRD_HW_NAME_MAX], mrd_json *json, mrd_local_ns at,
        unsigned depth)
{
    if (depth > 16)
        return;
    if (mrd_json_is_array(json)) {
        for (size_t i = 0; i < mrd_json_size(json); i++) {
            char name[32];

            if (element_name(mrd_json_at(json, i), name))
                child_of(table, path, name, mrd_json_at(json, i), at, depth + 1);
        }
        return;
    }
    for (void *it = mrd_json_iter(json); it != NULL; it = mrd_json_iter_next(json, it)) {
        const char *key = mrd_json_iter_key(it);

        if (strcmp(key, "pid") != 0 && strcmp(key, "neuron_device_index") != 0)
            child_of(table, path, key, mrd_json_iter_value(it), at, depth + 1);
    }
}

mrd_err
mrd_hw_monitor_parse(mrd_str line, mrd_hw_table *table, mrd_local_ns at, mrd_why *why)
{
    static const struct {
        const char *key, *prefix;
    } parts[] = { { "neuron_runtime_data", "runtime" },
                  { "system_data", "system" },
                  { "neuron_hardware_info", "hardware" } };
    mrd_json *doc = NULL;
    mrd_err err = mrd_json_parse(line, "neuron-monitor report", &doc, why);

    if (err != MRD_OK)
        return err;
    if (!mrd_json_is_object(doc)) {
        mrd_json_free(doc);
        return mrd_why_set(why, MRD_FORMAT, 0, "neuron-monitor report is not a JSON object");
    }
    table->round++;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char path[MRD_HW_NAME_MAX];
        mrd_json *part = mrd_json_get(doc, parts[i].key);

        snprintf(path, sizeof(path), "%s", parts[i].prefix);
        if (part != NULL && (mrd_json_is_object(part) || mrd_json_is_array(part)))
            flatten(table, path, part, at, 0);
    }
    mrd_json_free(doc);
    return MRD_OK;
}

/* ---- The child process that runs neuron-monitor ---- */

static mrd_err
start(monitor *m, mrd_why *why)
{
    const char *argv[] = { m->path, "-c", "/proc/self/fd/3", NULL };
    mrd_buf config = { 0 };
    /* neuron-monitor ignores a period with a fraction and uses 5 s, so round up to whole
     * seconds. */
    long long s = (m->period + MRD_SEC - 1) / MRD_SEC;
    mrd_err err;

    mrd_buf_fmt(&config,
                "{\"period\":\"%llds\",\"neuron_runtimes\":[{\"tag_filter\":\".*\",\"metrics\":["
                "{\"type\":\"neuroncore_counters\"},{\"type\":\"memory_used\"},"
                "{\"type\":\"neuron_runtime_vcpu_usage\"},{\"type\":\"execution_stats\"}]}],"
                "\"system_metrics\":[{\"type\":\"vcpu_usage\"},{\"type\":\"memory_info\"},"
                "{\"type\":\"neuron_hw_counters\"}]}",
                s > 0 ? s : 1);
    err = config.err != MRD_OK
              ? mrd_why_set(why, config.err, 0, "neuron-monitor")
              : mrd_child_start(argv, (mrd_str){ (char *) config.p, config.len }, &m->child, why);
    mrd_buf_fini(&config);
    mrd_buf_reset(&m->pending);
    m->started = mrd_local_now();
    m->last_line = (mrd_local_ns){ 0 };
    return err;
}

static void
take_line(monitor *m, mrd_str line)
{
    mrd_local_ns at = mrd_local_now();

    if (line.len == 0)
        return;
    if (mrd_hw_monitor_parse(line, &m->table, at, NULL) == MRD_OK)
        m->last_line = at;
}

/* Parses the complete lines in m->pending and removes them. Ignores lines that are not reports. */
static void
take_lines(monitor *m)
{
    uint8_t *p = m->pending.p, *end = p + m->pending.len, *nl;

    for (; p < end && (nl = memchr(p, '\n', (size_t) (end - p))) != NULL; p = nl + 1)
        take_line(m, (mrd_str){ (char *) p, (size_t) (nl - p) });
    m->pending.len = (size_t) (end - p);
    memmove(m->pending.p, p, m->pending.len);
    if (m->pending.len > LINE_MAX_BYTES)
        /* No report is this long, so drop the beginning of the line. The rest of the line is no
         * valid report, and will be ignored. */
        m->pending.len = 0;
}

/* Reads and parses the output that is available. With `wait`, waits for the first report until the
 * deadline. */
static mrd_err
pump(monitor *m, bool wait, mrd_local_ns deadline, mrd_why *why)
{
    char text[64];
    mrd_err err;

    do {
        mrd_local_ns until = wait && m->last_line.ns == 0 ? deadline : (mrd_local_ns){ 0 };

        err = mrd_child_read(&m->child, until, 65536, &m->pending);
        if (err == MRD_OK)
            take_lines(m);
    } while (err == MRD_OK || (err == MRD_AGAIN && wait && m->last_line.ns == 0 &&
                               mrd_local_now().ns < deadline.ns));
    if (err == MRD_AGAIN)
        return MRD_OK;
    if (err != MRD_CLOSED)
        return mrd_why_set(why, err, 0, "neuron-monitor ('%s')", m->path);
    mrd_child_end(&m->child, text);
    return mrd_why_set(why, err, 0, "neuron-monitor ('%s') closed its output: %s", m->path, text);
}

static bool
monitor_probe(const mrd_hw_options *options, mrd_why *why)
{
    char path[1024];

    if (mrd_child_find(options->monitor, "neuron-monitor", path))
        return true;
    (void) mrd_why_set(why, MRD_NOTFOUND, 0, "no neuron-monitor on PATH or in /opt/aws/neuron/bin");
    return false;
}

static void
monitor_close(void *state)
{
    monitor *m = state;

    if (m == NULL)
        return;
    mrd_child_stop(&m->child);
    mrd_buf_fini(&m->pending);
    mrd_hw_table_fini(&m->table);
    free(m->path);
    free(m);
}

static mrd_err
monitor_open(const mrd_hw_options *options, void **ret_state, mrd_why *why)
{
    monitor *m = calloc(1, sizeof(*m));
    char path[1024];
    mrd_err err = MRD_NOMEM;

    if (m != NULL)
        m->child = MRD_CHILD_NONE;
    if (m == NULL || !mrd_child_find(options->monitor, "neuron-monitor", path) ||
        (m->path = strdup(path)) == NULL) {
        (void) mrd_why_set(why, err, 0, "neuron-monitor");
    } else {
        m->period = options->monitor_period > 0 ? options->monitor_period : MRD_SEC;
        if ((err = start(m, why)) == MRD_OK)
            /* The first report determines the list of counters. If none arrives in time, the list
             * stays empty for now. */
            (void) pump(m, true, (mrd_local_ns){ mrd_local_now().ns + 2 * MRD_SEC }, NULL);
    }
    if (err != MRD_OK) {
        monitor_close(m);
        return err;
    }
    *ret_state = m;
    return MRD_OK;
}

static mrd_err
monitor_refresh(void *state, mrd_why *why)
{
    monitor *m = state;

    if (m->child.pid <= 0 && mrd_local_now().ns - m->started.ns > RESTART_AFTER) {
        mrd_child_stop(&m->child);
        return start(m, why);
    }
    /* no error here: monitor_sample reports that the child has ended */
    (void) pump(m, false, (mrd_local_ns){ 0 }, NULL);
    return MRD_OK;
}

static size_t
monitor_count(const void *state)
{
    return ((const monitor *) state)->table.n;
}

static const mrd_hw_counter *
monitor_at(const void *state, size_t i)
{
    return &((const monitor *) state)->table.rows[i].counter;
}

static mrd_err
monitor_sample(void *state, const uint32_t *want, size_t n, mrd_hw_value *ret_values,
               mrd_local_ns deadline, mrd_why *why)
{
    monitor *m = state;
    mrd_err err = pump(m, true, deadline, why);

    if (err != MRD_OK)
        return err;
    if (m->last_line.ns == 0)
        return mrd_why_set(why, MRD_TIMEOUT, 0, "neuron-monitor has not reported yet");
    if (mrd_local_now().ns - m->last_line.ns > 10 * m->period + 10 * MRD_SEC)
        return mrd_why_set(why, MRD_CLOSED, 0, "neuron-monitor stopped reporting");
    mrd_hw_table_take(&m->table, want, n, ret_values, m->last_line);
    return MRD_OK;
}

const mrd_hw_backend mrd_hw_backend_monitor = {
    .name = "monitor",
    .what = "neuron-monitor: core utilization, memory, executions and errors of each runtime",
    .may_block = true,
    .probe = monitor_probe,
    .open = monitor_open,
    .refresh = monitor_refresh,
    .count = monitor_count,
    .at = monitor_at,
    .sample = monitor_sample,
    .close = monitor_close,
};
