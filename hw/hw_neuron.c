/*
 * hw/hw_neuron.c - the backend that reads counters of Neuron devices from sysfs
 * (<sys>/devices/virtual/neuron_device/neuron<N>).
 *
 * The tree differs between driver versions, so the backend lists its files. Every readable file
 * below stats/ of a device or a core is a counter if it contains a number. The name of the counter
 * is the file's path. Some names have a defined meaning:
 *
 *   memory_usage       bytes in use
 *   nc_time_in_use     microseconds (converted to ns)
 *   power/utilization  one line with minimum, maximum and average in percent
 *
 * Some versions of the Neuron software leave certain counters at 0. For these, 0 means "unknown".
 * Status counters have two spellings, infer_* (documentation) and execute_* (driver). A caller can
 * use either spelling.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "hw/hw_table.h"

#define DEPTH_MAX 12

typedef enum { FILE_NUMBER, FILE_POWER } file_kind;

/* Where the value of a row in the table comes from. */
typedef struct {
    char *path; /* path below the root of sysfs */
    file_kind kind;
    unsigned part; /* which number of a POWER file: 0 minimum, 1 maximum, 2 average */
    int64_t scale;
} origin;

typedef struct {
    char *root;
    mrd_hw_table table;
    origin *origins; /* indexed by row of the table */
    size_t origin_cap;
    mrd_buf text;
    mrd_err err; /* NOMEM if memory ran out while listing */
} neuron;

static const struct {
    const char *word; /* a component of the path */
    int64_t scale;
    mrd_unit unit;
    uint32_t flags;
} meanings[] = {
    { "memory_usage", 1, MRD_UNIT_BYTES, 0 },
    { "nc_time_in_use", 1000, MRD_UNIT_NS, MRD_HW_CUMULATIVE | MRD_HW_ZERO_UNKNOWN },
    { "flop_count", 1, MRD_UNIT_COUNT, MRD_HW_CUMULATIVE | MRD_HW_ZERO_UNKNOWN },
    { "inference_count", 1, MRD_UNIT_COUNT, MRD_HW_CUMULATIVE | MRD_HW_ZERO_UNKNOWN },
    { "model_load_count", 1, MRD_UNIT_COUNT, MRD_HW_CUMULATIVE | MRD_HW_ZERO_UNKNOWN },
};

static bool
has_component(const char *path, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = path; (p = strstr(p, word)) != NULL; p++)
        if ((p == path || p[-1] == '/') && (p[len] == '/' || p[len] == '\0'))
            return true;
    return false;
}

static const char *
last_component(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static void
add_row(neuron *d, const char *path, const char *suffix, int64_t device, int64_t core, origin from,
        mrd_unit unit, uint32_t flags)
{
    mrd_hw_counter counter = {
        .unit = unit, .flags = flags, .device_idx = device, .core_idx = core, .pid = MRD_NONE
    };
    size_t row;

    if (snprintf(counter.name, sizeof(counter.name), "%s%s", path, suffix) >=
        (int) sizeof(counter.name)) {
        d->table.refused++;
        return;
    }
    for (char *p = counter.name; *p != '\0'; p++)
        if (*p == '/')
            *p = '.';
    if (mrd_hw_table_find(&d->table, mrd_str_of(counter.name)) != MRD_HW_NO_ROW ||
        (row = mrd_hw_table_add(&d->table, &counter, 0)) == MRD_HW_NO_ROW)
        return;
    if (!MRD_VEC_ROOM(d->origins, row, d->origin_cap, 1)) {
        /* a row without an origin could not be read */
        mrd_hw_table_drop_last(&d->table);
        d->err = MRD_NOMEM;
        return;
    }
    d->origins[row] = from;
    if ((d->origins[row].path = strdup(path)) == NULL)
        d->err = MRD_NOMEM;
}

static bool
holds_number(neuron *device, const char *path)
{
    mrd_str rest;
    int64_t v;

    if (!mrd_hw_read(device->root, path, &device->text))
        return errno != ENOENT && errno != EACCES; /* busy now, but may have a number later */
    rest = (mrd_str){ (char *) device->text.p, device->text.len };
    return mrd_hw_int(mrd_hw_word(&rest), &v);
}

static void
add_file(neuron *d, const char *path, int64_t device, int64_t core)
{
    static const char *const part[] = { ".min_percent", ".max_percent", ".avg_percent" };
    origin from = { .kind = FILE_NUMBER, .scale = 1 };
    mrd_unit unit = MRD_UNIT_COUNT;
    uint32_t flags = strcmp(last_component(path), "present") == 0 ? 0 : MRD_HW_CUMULATIVE;

    if (has_component(path, "power")) {
        if (strcmp(last_component(path), "utilization") != 0)
            return; /* another file of Linux's power management, not of Neuron */
        from.kind = FILE_POWER;
        for (from.part = 0; from.part < MRD_COUNT(part); from.part++)
            add_row(d, path, part[from.part], device, core, from, MRD_UNIT_PERCENT, MRD_HW_DOUBLE);
        return;
    }
    if (!holds_number(d, path))
        return;
    for (size_t i = 0; i < MRD_COUNT(meanings); i++)
        if (has_component(path, meanings[i].word)) {
            unit = meanings[i].unit;
            from.scale = meanings[i].scale;
            flags =
                flags == 0 ? meanings[i].flags & ~(uint32_t) MRD_HW_CUMULATIVE : meanings[i].flags;
            break;
        }
    add_row(d, path, "", device, core, from, unit, flags);
}

/* Lists a directory sorted by name, so that equal trees give counters in the same order. Returns
 * the number of entries, or -1 on an error. */
static int
list_dir(neuron *device, const char *path, struct dirent ***ret_entries)
{
    char full[2048];

    if (snprintf(full, sizeof(full), "%s/%s", device->root, path) >= (int) sizeof(full))
        return -1;
    return scandir(full, ret_entries, NULL, versionsort);
}

static bool
is_dir(neuron *device, const char *path, bool *ret_file)
{
    char full[2048];
    struct stat st;

    *ret_file = false;
    if (snprintf(full, sizeof(full), "%s/%s", device->root, path) >= (int) sizeof(full) ||
        lstat(full, &st) != 0)
        return false;
    *ret_file = S_ISREG(st.st_mode);
    /* do not follow symbolic links such as `subsystem`, because they leave the tree */
    return S_ISDIR(st.st_mode);
}

static void
walk(neuron *d, const char *path, int64_t device, int64_t core, unsigned depth)
{
    struct dirent **entries = NULL;
    int n = depth > DEPTH_MAX ? -1 : list_dir(d, path, &entries);

    for (int i = 0; i < n; i++) {
        char child[1024];
        bool file;

        if (entries[i]->d_name[0] != '.' && snprintf(child, sizeof(child), "%s/%s", path,
                                                     entries[i]->d_name) < (int) sizeof(child)) {
            if (is_dir(d, child, &file))
                walk(d, child, device, core, depth + 1);
            else if (file)
                add_file(d, child, device, core);
        }
        free(entries[i]);
    }
    free(entries);
}

/* Returns the number in a name that consists of `prefix` and a number, for example 12 for
 * "neuron12". Returns -1 for other names. */
static int64_t
numbered(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);
    int64_t v;

    if (strncmp(name, prefix, len) != 0 || !isdigit((unsigned char) name[len]) ||
        mrd_num_i64(mrd_str_of(name + len), &v) != MRD_OK || v > 65535)
        return -1;
    return v;
}

static void
walk_device(neuron *d, const char *name, int64_t device)
{
    struct dirent **entries = NULL;
    int n = list_dir(d, name, &entries);
    char path[1024];

    snprintf(path, sizeof(path), "%s/stats", name);
    walk(d, path, device, MRD_NONE, 0);
    for (int i = 0; i < n; i++) {
        int64_t core = numbered(entries[i]->d_name, "neuron_core");

        if (core >= 0) {
            snprintf(path, sizeof(path), "%.64s/%.256s/stats", name, entries[i]->d_name);
            walk(d, path, device, core, 0);
        }
        free(entries[i]);
    }
    free(entries);
}

static mrd_err
neuron_refresh(void *state, mrd_why *why)
{
    neuron *d = state;
    struct dirent **entries = NULL;
    int n = list_dir(d, "", &entries);

    for (int i = 0; i < n; i++) {
        int64_t device = numbered(entries[i]->d_name, "neuron");

        if (device >= 0)
            walk_device(d, entries[i]->d_name, device);
        free(entries[i]);
    }
    free(entries);
    return d->err == MRD_OK ? MRD_OK
                            : mrd_why_set(why, d->err, 0, "Neuron counters of %s", d->root);
}

static void
root_of(const mrd_hw_options *options, char root[1024])
{
    snprintf(root, 1024, "%s/devices/virtual/neuron_device",
             options->sys_root == NULL ? "/sys" : options->sys_root);
}

static bool
neuron_probe(const mrd_hw_options *options, mrd_why *why)
{
    char root[1024];

    root_of(options, root);
    if (access(root, R_OK | X_OK) == 0)
        return true;
    (void) mrd_why_set(why, MRD_NOTFOUND, errno, "no Neuron driver: %s", root);
    return false;
}

static void
neuron_close(void *state)
{
    neuron *device = state;

    if (device == NULL)
        return;
    for (size_t i = 0; i < device->table.n; i++)
        free(device->origins[i].path);
    free(device->origins);
    mrd_hw_table_fini(&device->table);
    mrd_buf_fini(&device->text);
    free(device->root);
    free(device);
}

static mrd_err
neuron_open(const mrd_hw_options *options, void **ret_state, mrd_why *why)
{
    neuron *device = calloc(1, sizeof(*device));
    char root[1024];
    mrd_err err = MRD_NOMEM;

    root_of(options, root);
    if (device == NULL || (device->root = strdup(root)) == NULL ||
        (err = neuron_refresh(device, why)) != MRD_OK) {
        neuron_close(device);
        return mrd_why_set(why, err, 0, "Neuron counters");
    }
    *ret_state = device;
    return MRD_OK;
}

static size_t
neuron_count(const void *state)
{
    return ((const neuron *) state)->table.n;
}

static const mrd_hw_counter *
neuron_at(const void *state, size_t i)
{
    return &((const neuron *) state)->table.rows[i].counter;
}

/* Finds a status counter by the other spelling of its name: infer_ instead of execute_, or
 * the reverse. */
static mrd_err
neuron_resolve(void *state, mrd_str name, size_t *ret_index)
{
    static const char *const spelling[] = { ".infer_", ".execute_" };
    neuron *device = state;
    char text[MRD_HW_NAME_MAX], other[MRD_HW_NAME_MAX + 4];

    if (name.len >= sizeof(text))
        return MRD_NOTFOUND;
    memcpy(text, name.p, name.len);
    text[name.len] = '\0';
    for (size_t i = 0; i < 2; i++) {
        char *at = strstr(text, spelling[i]);
        size_t row;

        if (at == NULL)
            continue;
        snprintf(other, sizeof(other), "%.*s%s%s", (int) (at - text), text, spelling[1 - i],
                 at + strlen(spelling[i]));
        row = mrd_hw_table_find(&device->table, mrd_str_of(other));
        if (row == MRD_HW_NO_ROW)
            continue;
        *ret_index = row;
        return MRD_OK;
    }
    return MRD_NOTFOUND;
}

/* Parses number `part` of the three percentages at the end of a line such as
 * "POWER_STATUS_VALID,1787754540,0.32,3.04,1.57". */
static bool
power_value(mrd_str text, unsigned part, double *ret_v)
{
    mrd_str word = mrd_hw_word(&text), field[5];
    size_t n = 0;

    for (const char *p = word.p, *end = word.p + word.len; n < 5 && p <= end; n++) {
        const char *comma = p < end ? memchr(p, ',', (size_t) (end - p)) : NULL;

        field[n] = (mrd_str){ p, (size_t) ((comma == NULL ? end : comma) - p) };
        p += field[n].len + 1;
    }
    return n == 5 && mrd_str_is(field[0], "POWER_STATUS_VALID") &&
           mrd_num_double(field[2 + part], ret_v) == MRD_OK;
}

static void
set_value(neuron *device, size_t row, mrd_local_ns at)
{
    const origin *from = &device->origins[row];
    mrd_str text = { (char *) device->text.p, device->text.len };
    int64_t v;
    double percent;

    if (from->kind == FILE_POWER && power_value(text, from->part, &percent)) {
        mrd_hw_table_set_d(&device->table, row, percent, at);
    } else if (from->kind == FILE_NUMBER && mrd_hw_int(mrd_hw_word(&text), &v)) {
        mrd_hw_table_set_i(&device->table, row,
                           __builtin_mul_overflow(v, from->scale, &v) ? INT64_MAX : v, at);
    } else {
        mrd_hw_table_set_i(&device->table, row, 0, at);
        device->table.rows[row].value.state = MRD_HW_UNKNOWN;
    }
}

static bool
device_there(neuron *d, int64_t device)
{
    char path[1100];

    snprintf(path, sizeof(path), "%s/neuron%lld", d->root, (long long) device);
    return access(path, F_OK) == 0;
}

static mrd_err
neuron_sample(void *state, const uint32_t *want, size_t count, mrd_hw_value *ret_values,
              mrd_local_ns deadline, mrd_why *why)
{
    neuron *d = state;
    const char *held = NULL; /* path of the file that was read into d->text, or NULL */

    d->table.round++;
    for (size_t i = 0; i < count; i++) {
        const origin *from = &d->origins[want[i]];
        int64_t device = d->table.rows[want[i]].counter.device_idx;
        mrd_local_ns at = mrd_local_now();

        if (at.ns > deadline.ns)
            return mrd_why_set(why, MRD_TIMEOUT, 0,
                               "Neuron counters: %zu of %zu read before the deadline", i, count);
        if ((held == NULL || strcmp(held, from->path) != 0) &&
            !mrd_hw_read(d->root, from->path, &d->text)) {
            int sys = errno;

            held = NULL;
            if (sys == ENODEV || sys == ENXIO || sys == EIO || !device_there(d, device))
                return mrd_why_set(why, MRD_CLOSED, sys, "Neuron device %lld is gone (%s/%s)",
                                   (long long) device, d->root, from->path);
            continue; /* this counter has no value, but the others may have one */
        }
        held = from->path;
        set_value(d, want[i], at);
    }
    mrd_hw_table_take(&d->table, want, count, ret_values, mrd_local_now());
    return MRD_OK;
}

const mrd_hw_backend mrd_hw_backend_neuron = {
    .name = "neuron",
    .what = "Neuron driver's sysfs: memory, status, power and use of each device and core",
    .may_block = true,
    .probe = neuron_probe,
    .open = neuron_open,
    .refresh = neuron_refresh,
    .count = neuron_count,
    .at = neuron_at,
    .resolve = neuron_resolve,
    .sample = neuron_sample,
    .close = neuron_close,
};
