/*
 * trace/import/device/import_devprof.c - reads exported device profiles of the vendor or of
 * Meridian. Their sections are `instruction`, `dma`, `cc_stream`, `summary` and others.
 *
 * Unit of time. Times may be in nano-, pico- or microseconds, and the file does not state which.
 * So the file is read twice. The first pass finds the total length of the rows in the file's unit,
 * and the lengths that the file states in a known unit. These are total_time and total_active_time
 * of `summary` in seconds, and last_hw_timestamp minus first_hw_timestamp in ns. The unit is the
 * power of ten for which a stated length agrees with the rows within 2 %. If there is none, or two
 * stated lengths need different units, the file is refused with error UNIT. Files that Meridian
 * wrote are in nanoseconds.
 *
 * Each row becomes a span or an instant. Its category is the name of its section. Rows without a
 * time (`summary`, tables of layers) become instants at the first time of the profile, so that they
 * are not lost. Tracks are engines, queues and streams. Arguments keep the numbers and units of the
 * file.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "base/num.h"
#include "base/obj.h"
#include "trace/import/device/devprof_cc.h"
#include "trace/import/json_rows.h"

#define UNIT_TOLERANCE 0.02

/* Results of the first pass over the file, which finds the unit of its times. */
typedef struct {
    bool own;
    uint64_t timed_rows;
    bool any_section;
    /* first begin and last end of the rows in `instruction` and `dma`, in the file's unit of
     * time */
    long double first, last;
    mrd_str first_text; /* `first` as text, exactly as in the file */
    char first_digits[MRD_ROW_TEXT_MAX];
    long double all_first, all_last; /* first begin and last end of all rows, in the file's unit */
    mrd_str all_first_text;
    char all_first_digits[MRD_ROW_TEXT_MAX];
    /* lengths of the profile that `summary` states, in seconds; 0 means unknown */
    double total_time_s, total_active_s;
    long double flops; /* model_flops of `summary`; 0 means unknown */
    bool in_summary;
    long double hw_first, hw_last;
    bool has_hw_first, has_hw_last;
} devprof_scan;

typedef struct {
    mrd_import *imp;
    mrd_catalog *cat;
    mrd_strtab *strings;
    mrd_input *input;
    mrd_json_reader *r;
    mrd_json_row row;
    mrd_flow flows[MRD_ROW_FLOWS];
    devprof_scan scan;
    int exp10;       /* converts times: time in ns = time in the file * 10^exp10 */
    mrd_ev_ns first; /* time for rows without a time of their own */
    uint32_t profile;
    mrd_proc_id process;
    int64_t nc_idx;
    mrd_sid section;
} devprof;

/* ---- First pass ---- */

static bool
to_number(mrd_str text, long double *ret_v)
{
    char copy[MRD_ROW_TEXT_MAX + 1];
    double check;

    if (text.len == 0 || text.len > MRD_ROW_TEXT_MAX || mrd_num_double(text, &check) != MRD_OK)
        return false;
    memcpy(copy, text.p, text.len);
    copy[text.len] = '\0';
    *ret_v = strtold(copy, NULL);
    return true;
}

static void
see_first(long double at, mrd_str text, long double *first, char *digits, mrd_str *ret_text)
{
    if (ret_text->p != NULL && at >= *first)
        return;
    *first = at;
    memcpy(digits, text.p, text.len);
    *ret_text = (mrd_str){ digits, text.len };
}

typedef struct {
    long double at, dur;
    char digits[MRD_ROW_TEXT_MAX];
    size_t n_digits;
    bool has_at;
} scan_row;

static void
scan_number(devprof_scan *scan, scan_row *row, mrd_str key, mrd_str text)
{
    long double v;

    if (!to_number(text, &v))
        return;
    if (mrd_str_is(key, "timestamp") || mrd_str_is(key, "start_ts")) {
        row->at = v;
        row->has_at = true;
        memcpy(row->digits, text.p, text.len);
        row->n_digits = text.len;
    } else if (mrd_str_is(key, "duration")) {
        row->dur = v;
    } else if (mrd_str_is(key, "total_time")) {
        scan->total_time_s = (double) v;
    } else if (mrd_str_is(key, "total_active_time")) {
        scan->total_active_s = (double) v;
    } else if (mrd_str_is(key, "model_flops") && scan->in_summary) {
        scan->flops = v;
    } else if (mrd_str_is(key, "first_hw_timestamp")) {
        scan->hw_first = v;
        scan->has_hw_first = true;
    } else if (mrd_str_is(key, "last_hw_timestamp")) {
        scan->hw_last = v;
        scan->has_hw_last = true;
    }
}

static mrd_err
scan_object(devprof_scan *scan, mrd_json_reader *reader, bool main_rows)
{
    scan_row row = { 0 };
    mrd_jr_type type;
    mrd_str key, text, digits;
    long double end;

    mrd_json_enter(reader);
    while ((type = mrd_json_next(reader, &key, &text)) != MRD_JR_END) {
        if (type == MRD_JR_ERROR)
            return mrd_json_reader_err(reader, NULL);
        if (type == MRD_JR_NUMBER || type == MRD_JR_STRING)
            scan_number(scan, &row, key, text);
    }
    if (!row.has_at)
        return MRD_OK;
    end = row.at + (row.dur > 0 ? row.dur : 0);
    digits = (mrd_str){ row.digits, row.n_digits };
    see_first(row.at, digits, &scan->all_first, scan->all_first_digits, &scan->all_first_text);
    if (scan->timed_rows == 0 || end > scan->all_last)
        scan->all_last = end;
    scan->timed_rows++;
    if (main_rows) {
        bool first = scan->first_text.p == NULL;

        see_first(row.at, digits, &scan->first, scan->first_digits, &scan->first_text);
        if (first || end > scan->last)
            scan->last = end;
    }
    return MRD_OK;
}

static mrd_err
scan_member(devprof_scan *scan, mrd_json_reader *reader, mrd_str key, mrd_jr_type type)
{
    bool main_rows = mrd_str_is(key, "instruction") || mrd_str_is(key, "dma");
    unsigned depth;

    scan->in_summary = mrd_str_is(key, "summary");
    if (mrd_str_is(key, "meridian")) {
        scan->own = true;
        return MRD_OK;
    }
    if (type == MRD_JR_OBJECT || type == MRD_JR_ARRAY)
        scan->any_section = true;
    if (type == MRD_JR_OBJECT)
        return scan_object(scan, reader, main_rows);
    if (type != MRD_JR_ARRAY)
        return MRD_OK;
    mrd_json_enter(reader);
    depth = mrd_json_depth(reader);
    while ((type = mrd_json_next(reader, NULL, NULL)) != MRD_JR_END) {
        mrd_json_damage damage;

        if (type == MRD_JR_OBJECT) {
            mrd_json_mark(reader, mrd_json_reader_offset(reader), depth);
            scan_object(scan, reader, main_rows);
        }
        /* Skip damaged text here. mrd_rows_read() counts it in the second pass. */
        if (mrd_json_reader_err(reader, NULL) != MRD_OK && !mrd_json_resume(reader, depth, &damage))
            return mrd_json_reader_err(reader, NULL);
    }
    return MRD_OK;
}

/* Calls `call` for each member of the document. Errors: the errors of the reader and of `call`. */
static mrd_err
each_member(mrd_json_reader *reader, const char *name,
            mrd_err (*call)(void *self, mrd_json_reader *reader, mrd_str key, mrd_jr_type type,
                            mrd_str text),
            void *self, mrd_why *why)
{
    mrd_jr_type type = mrd_json_next(reader, NULL, NULL);
    mrd_str key, text;
    mrd_err err = MRD_OK;

    if (type == MRD_JR_ERROR)
        return mrd_json_reader_err(reader, why);
    if (type != MRD_JR_OBJECT)
        return mrd_why_set(why, MRD_FORMAT, 0, "'%s': a device profile is an object, not %s", name,
                           mrd_jr_type_text(type));
    mrd_json_enter(reader);
    while (err == MRD_OK && (type = mrd_json_next(reader, &key, &text)) != MRD_JR_END) {
        if (type == MRD_JR_ERROR)
            break;
        err = call(self, reader, key, type, text);
    }
    if (err == MRD_OK && type == MRD_JR_END && mrd_json_next(reader, NULL, NULL) == MRD_JR_END)
        return MRD_OK;
    if (mrd_json_reader_err(reader, why) != MRD_OK)
        return mrd_json_reader_err(reader, why);
    return mrd_why_set(why, err, 0, "'%s': %s", name, mrd_err_text(err));
}

static mrd_err
scan_call(void *self, mrd_json_reader *reader, mrd_str key, mrd_jr_type type, mrd_str text)
{
    (void) text;
    return scan_member(self, reader, key, type);
}

static mrd_err
scan_input(devprof *prof, mrd_why *why)
{
    mrd_json_reader *reader = NULL;
    mrd_in *in = NULL;
    mrd_err err = mrd_in_again(prof->imp->in, &in, why);

    if (err == MRD_OK)
        err = mrd_json_reader_open(in, &reader, why);
    if (err == MRD_OK)
        err = each_member(reader, mrd_in_name(in), scan_call, &prof->scan, why);
    mrd_json_reader_close(reader);
    mrd_in_close(in);
    return err;
}

/* Finds the exponent E of the file's unit: span * 10^E ns must equal `seconds` within
 * UNIT_TOLERANCE. Returns false if no exponent fits. */
static bool
unit_that_fits(long double span, double seconds, int *ret_exp10)
{
    static const int exponents[] = { 0, -3, 3, 6, 9 };

    if (!(span > 0) || !(seconds > 0))
        return false;
    for (size_t i = 0; i < MRD_COUNT(exponents); i++) {
        long double got = span * powl(10, exponents[i] - 9);

        if (fabsl(got - (long double) seconds) <= UNIT_TOLERANCE * (long double) seconds) {
            *ret_exp10 = exponents[i];
            return true;
        }
    }
    return false;
}

static mrd_err
refuse_unit(const devprof *prof, long double span, const char *reason, mrd_why *why)
{
    return mrd_why_set(why, MRD_UNIT, 0,
                       "'%s': the unit of time cannot be inferred: rows span %.0Lf units, "
                       "total_time is %g s, total_active_time %g s (0: not said), the hardware "
                       "stamps span %g ns; %s",
                       mrd_in_name(prof->imp->in), span, prof->scan.total_time_s,
                       prof->scan.total_active_s,
                       prof->scan.has_hw_first && prof->scan.has_hw_last
                           ? (double) (prof->scan.hw_last - prof->scan.hw_first)
                           : 0.0,
                       reason);
}

static mrd_err
infer_unit(devprof *prof, mrd_why *why)
{
    const devprof_scan *scan = &prof->scan;
    bool main_rows = scan->first_text.p != NULL;
    long double span = main_rows ? scan->last - scan->first : scan->all_last - scan->all_first;
    double references[3] = { scan->total_time_s, scan->total_active_s,
                             scan->has_hw_first && scan->has_hw_last
                                 ? (double) (scan->hw_last - scan->hw_first) / 1e9
                                 : 0 };
    bool found = false;
    int exp10 = 0;

    if (scan->own || scan->timed_rows == 0)
        return MRD_OK;
    for (size_t i = 0; i < MRD_COUNT(references); i++) {
        int fits;

        if (!unit_that_fits(span, references[i], &fits))
            continue;
        if (found && fits != exp10)
            return refuse_unit(prof, span, "two of these ask for different units", why);
        exp10 = fits;
        found = true;
    }
    if (!found)
        return refuse_unit(prof, span, "no power of ten joins them within 2 %", why);
    prof->exp10 = exp10;
    return MRD_OK;
}

/* ---- The process that the profile belongs to ---- */

/* Returns the name of a file without directories and suffixes: "ntff" for "a/b/ntff.json.gz". */
static mrd_str
stem(const char *path)
{
    const char *slash = strrchr(path, '/');
    mrd_str str = mrd_str_of(slash == NULL ? path : slash + 1);
    static const char *const suffixes[] = { ".gz", ".zst", ".json" };

    for (size_t i = 0; i < MRD_COUNT(suffixes); i++) {
        if (mrd_str_ends(str, suffixes[i]) && str.len > strlen(suffixes[i]))
            str.len -= strlen(suffixes[i]);
    }
    return str;
}

/* Returns the profile to which an earlier file of this model belongs, or 0. So all files of a model
 * form one profile with all cores of the model. */
static uint32_t
profile_of_model(const devprof *prof, mrd_sid model)
{
    size_t n;
    const mrd_devprofile *list = mrd_catalog_devprofiles(prof->cat, &n);

    for (uint32_t i = 1; i < n && model != MRD_SID_EMPTY; i++) {
        if (list[i].model == model)
            return i;
    }
    return 0;
}

/* Returns the profile name `wanted`, or `wanted` with "_<turn>" appended if `turn` is above 1. Sets
 * *ret_taken to true if another profile has this name already. */
static mrd_sid
numbered_name(const devprof *prof, mrd_str wanted, unsigned turn, bool *ret_taken)
{
    size_t n;
    const mrd_devprofile *list = mrd_catalog_devprofiles(prof->cat, &n);
    mrd_buf text = { 0 };
    mrd_sid name;

    mrd_buf_str(&text, wanted);
    if (turn > 1)
        mrd_buf_fmt(&text, "_%u", turn);
    name = mrd_strtab_add(prof->strings, (mrd_str){ (const char *) text.p, text.len });
    mrd_buf_fini(&text);
    *ret_taken = false;
    for (uint32_t i = 1; i < n && !*ret_taken; i++)
        *ret_taken = list[i].name == name;
    return name;
}

/* Returns a name that no other profile has: `wanted`, with a number if necessary. Thousands of
 * profiles can have the same name. To find a free number quickly, the function doubles the number
 * until it is free, and then bisects between the last used number and this one. */
static mrd_sid
fresh_name(const devprof *prof, mrd_str wanted)
{
    unsigned used = 0, open = 1;
    bool taken;
    mrd_sid name = numbered_name(prof, wanted, open, &taken);

    while (taken && open < 1u << 30) {
        used = open;
        open *= 2;
        name = numbered_name(prof, wanted, open, &taken);
    }
    /* invariant: the name with number `used` is taken, and the name with number `open` is free */
    while (open - used > 1) {
        unsigned middle = used + (open - used) / 2;
        mrd_sid between = numbered_name(prof, wanted, middle, &taken);

        if (taken) {
            used = middle;
        } else {
            open = middle;
            name = between;
        }
    }
    return name;
}

static void
register_profile(devprof *prof, const mrd_devprofile *told)
{
    const mrd_identity *place = &prof->imp->identity;
    mrd_devprofile devprofile = *told;
    mrd_process proc;
    char text[32];

    if (devprofile.instance_id == MRD_SID_EMPTY)
        devprofile.instance_id = place->instance_id;
    if (devprofile.process_id == MRD_NONE)
        devprofile.process_id = place->process_id;
    if (devprofile.nc_idx == MRD_NONE)
        devprofile.nc_idx = place->nc_idx;
    if (devprofile.session == MRD_NONE)
        devprofile.session = place->session;
    if (devprofile.model == MRD_SID_EMPTY && place->model != MRD_NONE) {
        snprintf(text, sizeof(text), "%lld", (long long) place->model);
        devprofile.model = mrd_strtab_addz(prof->strings, text);
    }
    devprofile.total_time_s = prof->scan.total_time_s;
    prof->profile = profile_of_model(prof, devprofile.model);
    if (prof->profile == 0) {
        mrd_str wanted = devprofile.name != MRD_SID_EMPTY
                             ? mrd_strtab_get(prof->strings, devprofile.name)
                             : stem(mrd_in_name(prof->imp->in));

        devprofile.name = fresh_name(prof, wanted);
        prof->profile = mrd_catalog_add_devprofile(prof->cat, &devprofile);
    } else {
        mrd_catalog_note(prof->cat,
                         "device profile of model " MRD_STR_FMT
                         ": several captures stand in one file",
                         MRD_STR_ARG(mrd_strtab_get(prof->strings, devprofile.model)));
    }
    mrd_process_init(&proc);
    proc.instance_id = devprofile.instance_id;
    proc.process_id = devprofile.process_id == MRD_NONE ? 0 : devprofile.process_id;
    proc.flags = devprofile.process_id == MRD_NONE ? MRD_PROC_NO_PID : 0;
    proc.rank = place->rank;
    proc.job = place->job;
    proc.profile = prof->profile;
    if (devprofile.instance_id == MRD_SID_EMPTY || devprofile.process_id == MRD_NONE)
        proc.scope = prof->imp->input + 1;
    prof->process = mrd_catalog_process(prof->cat, &proc);
    prof->nc_idx = devprofile.nc_idx;
}

static int64_t
whole(long double v, bool has)
{
    return has && v > 0 && v < 9.2e18L ? (int64_t) roundl(v) : MRD_NONE;
}

/* Stores the profile's times in the catalog, so that the profile can later be placed on the time
 * axis of the system profile. Files that Meridian wrote are already on this axis. */
static void
register_capture(devprof *prof)
{
    const devprof_scan *scan = &prof->scan;
    long double scale = powl(10, prof->exp10), total = scan->total_time_s * 1e9L;
    mrd_device_capture capture = { .label =
                                       mrd_strtab_addz(prof->strings, mrd_in_name(prof->imp->in)),
                                   .profile = prof->profile,
                                   .process = prof->process,
                                   .nc_idx = prof->nc_idx,
                                   .first = prof->first,
                                   .hw_first = { whole(scan->hw_first, scan->has_hw_first) },
                                   .hw_last = { whole(scan->hw_last, scan->has_hw_last) },
                                   .flops = whole(scan->flops, true),
                                   .total_ns =
                                       total > 0 && total < 9.2e18L ? (int64_t) roundl(total) : 0 };

    if (scan->own || scan->timed_rows == 0 || prof->profile == 0)
        return;
    capture.last = (mrd_ev_ns){ whole(scan->all_last * scale, true) };
    if (capture.last.ns == MRD_NONE || mrd_ev_before(capture.last, capture.first))
        capture.last = capture.first;
    mrd_catalog_add_capture(prof->cat, &capture);
}

/* ---- Second pass: rows ---- */

static const mrd_row_key vendor_keys[] = {
    { "timestamp", MRD_ROW_TIMESTAMP },
    { "start_ts", MRD_ROW_TIMESTAMP },
    { "duration", MRD_ROW_DURATION },
    { "name", MRD_ROW_NAME },
    { "id", MRD_ROW_ID },
    { "instance_id", MRD_ROW_INSTANCE },
    { "process_id", MRD_ROW_PROCESS },
    { "nc_idx", MRD_ROW_NC },
    { NULL, MRD_ROW_FIELDS },
};

static const mrd_row_key own_keys[] = {
    { "timestamp", MRD_ROW_TIMESTAMP },
    { "duration", MRD_ROW_DURATION },
    { "name", MRD_ROW_NAME },
    { "track", MRD_ROW_TRACK },
    { "id", MRD_ROW_ID },
    { "instance_id", MRD_ROW_INSTANCE },
    { "process_id", MRD_ROW_PROCESS },
    { "nc_idx", MRD_ROW_NC },
    { "kind", MRD_ROW_KIND },
    { "unfinished", MRD_ROW_UNFINISHED },
    { "no_start", MRD_ROW_NO_START },
    { "simulated", MRD_ROW_SIMULATED },
    { "clock_bound_ns", MRD_ROW_BOUND },
    { "flow_id", MRD_ROW_FLOW_ID },
    { "flow_dir", MRD_ROW_FLOW_DIR },
    { "category", MRD_ROW_CATEGORY },
    { "args", MRD_ROW_ARGS },
    { NULL, MRD_ROW_FIELDS },
};

static const mrd_row_key extra_keys[] = {
    { "timestamp", MRD_ROW_TIMESTAMP },
    { "duration", MRD_ROW_DURATION },
    { "name", MRD_ROW_NAME },
    { "track", MRD_ROW_TRACK },
    { "instance_id", MRD_ROW_INSTANCE },
    { "process_id", MRD_ROW_PROCESS },
    { "nc_idx", MRD_ROW_NC },
    { "simulated", MRD_ROW_SIMULATED },
    { "clock_bound_ns", MRD_ROW_BOUND },
    { "value", MRD_ROW_VALUE },
    { "lost", MRD_ROW_LOST },
    { NULL, MRD_ROW_FIELDS },
};

/* For each section of the file, the keys that can state a row's name, and the keys that can state
 * its track. The first key that exists in the row is used. Section "" stands for all sections that
 * are not listed. */
static const struct {
    const char *section;
    const char *name[4], *track[4];
} shapes[] = {
    { "instruction",
      { "opcode", "label", "hlo_name" },
      { "engine", "subgroup", "timeline_track" } },
    { "dma",
      { "variable", "queue_type", "dma_queue" },
      { "dma_queue", "queue_name", "queue_type" } },
    { "cc_stream", { "operation", "algorithm", "label" }, { "stream_id", "stream_index" } },
    { "cc_op", { "operation", "algorithm", "label" }, { "stream_id", "stream_index" } },
    { "", { "label", "opcode", "operation" }, { "engine", "stream_id" } },
};

/* Returns the value of the first of these keys that the row has, if the value is a text or an
 * integer. An integer follows the key's name, as in "stream_id 3". Returns MRD_SID_EMPTY if the row
 * has none of the keys. */
static mrd_sid
arg_as_name(devprof *prof, const char *const keys[4])
{
    for (size_t i = 0; i < 4 && keys[i] != NULL; i++) {
        mrd_sid key = mrd_strtab_find(prof->strings, mrd_str_of(keys[i]));
        const mrd_arg *arg = key == MRD_SID_EMPTY ? NULL : mrd_args_find(prof->row.args, key);
        char text[96];

        if (arg == NULL)
            continue;
        if (arg->type == MRD_ARG_STR && arg->v.sid != MRD_SID_EMPTY)
            return arg->v.sid;
        if (arg->type == MRD_ARG_TEXT && arg->len > 0)
            return mrd_strtab_add(prof->strings, (mrd_str){ arg->v.text, arg->len });
        if (arg->type != MRD_ARG_INT)
            continue;
        snprintf(text, sizeof(text), "%s %lld", keys[i], (long long) arg->v.i);
        return mrd_strtab_addz(prof->strings, text);
    }
    return MRD_SID_EMPTY;
}

static size_t
shape_of(const devprof *prof)
{
    mrd_str section = mrd_strtab_get(prof->strings, prof->section);
    size_t i = 0;

    while (shapes[i].section[0] != '\0' && !mrd_str_is(section, shapes[i].section))
        i++;
    return i;
}

/* Returns the process of a row. If the row states none, returns the profile's process. Rows of a
 * profile with several cores may belong to several processes. */
static mrd_proc_id
row_process(devprof *prof)
{
    const mrd_process *own = mrd_catalog_borrow_process(prof->cat, prof->process);
    mrd_process process = *own;

    if (!mrd_row_has(&prof->row, MRD_ROW_INSTANCE) && !mrd_row_has(&prof->row, MRD_ROW_PROCESS))
        return prof->process;
    if (mrd_row_has(&prof->row, MRD_ROW_INSTANCE))
        process.instance_id = mrd_row_sid(&prof->row, MRD_ROW_INSTANCE);
    if (mrd_row_has(&prof->row, MRD_ROW_PROCESS)) {
        process.process_id = mrd_row_number(&prof->row, MRD_ROW_PROCESS);
        process.flags &= ~(uint32_t) MRD_PROC_NO_PID;
    }
    return mrd_catalog_process(prof->cat, &process);
}

static mrd_track_id
row_track(devprof *prof, mrd_track_kind kind, size_t shape)
{
    mrd_track track;

    mrd_track_init(&track, row_process(prof), MRD_SRC_DEVPROF);
    track.kind = kind;
    track.lnc_idx =
        mrd_row_has(&prof->row, MRD_ROW_NC) ? mrd_row_number(&prof->row, MRD_ROW_NC) : prof->nc_idx;
    track.name = mrd_row_sid(&prof->row, MRD_ROW_TRACK);
    if (track.name == MRD_SID_EMPTY)
        track.name = arg_as_name(prof, shapes[shape].track);
    if (track.name == MRD_SID_EMPTY)
        track.name = prof->section;
    return mrd_catalog_track(prof->cat, &track);
}

/* Sets begin and length of an event from its row. A row without a time becomes an instant. Counts a
 * row with an invalid time as dropped, and returns false. */
static bool
row_times(devprof *prof, mrd_event *ev)
{
    const mrd_json_row *row = &prof->row;
    bool open = ev->dur_ns < 0;

    if (!mrd_row_has(row, MRD_ROW_TIMESTAMP)) {
        ev->ts = prof->first;
        ev->kind = MRD_INSTANT;
        ev->dur_ns = 0;
        return true;
    }
    if (mrd_num_scaled(mrd_row_text(row, MRD_ROW_TIMESTAMP), prof->exp10, &ev->ts.ns) != MRD_OK) {
        mrd_import_drop(prof->imp, row->offset, "a timestamp out of range");
        return false;
    }
    if (ev->kind == MRD_INSTANT || open || !mrd_row_has(row, MRD_ROW_DURATION))
        return true;
    if (mrd_num_scaled(mrd_row_text(row, MRD_ROW_DURATION), prof->exp10, &ev->dur_ns) != MRD_OK ||
        ev->dur_ns < 0) {
        mrd_import_drop(prof->imp, row->offset, "a row whose duration is negative or out of range");
        return false;
    }
    return true;
}

static mrd_err
put_event(devprof *prof)
{
    mrd_event ev = { 0 };
    size_t shape = shape_of(prof), n_args;

    prof->input->records++;
    mrd_row_marks(&prof->row, prof->strings, &ev);
    if (!row_times(prof, &ev))
        return MRD_OK;
    if (!prof->scan.own || !mrd_str_is(mrd_strtab_get(prof->strings, prof->section), "event"))
        ev.category = prof->section;
    ev.name = mrd_row_sid(&prof->row, MRD_ROW_NAME);
    if (ev.name == MRD_SID_EMPTY)
        ev.name = arg_as_name(prof, shapes[shape].name);
    if (ev.name == MRD_SID_EMPTY)
        ev.name = prof->section;
    ev.track = row_track(prof, MRD_TRACK_SPANS, shape);
    if (!prof->scan.own && mrd_str_is(mrd_strtab_get(prof->strings, prof->section), "cc_op"))
        mrd_devprof_cc(prof->row.args, prof->strings, &ev, prof->exp10);
    ev.args = mrd_args_view(prof->row.args, &n_args);
    ev.arg_count = (uint32_t) n_args;
    ev.flow_count = mrd_row_flows(prof->imp, &prof->row, prof->flows);
    ev.flows = prof->flows;
    prof->input->unfinished += ev.kind == MRD_SPAN && ev.dur_ns < 0;
    prof->input->no_start += (ev.flags & MRD_EV_NO_START) != 0;
    return mrd_import_put(prof->imp, prof->profile, &ev);
}

/* Emits a row of "losses" (if `loss` is true) or "counters", which are sections of Meridian's own
 * files. */
static mrd_err
put_own_extra(devprof *prof, bool loss)
{
    mrd_event ev = { 0 };

    prof->input->records++;
    mrd_row_marks(&prof->row, prof->strings, &ev);
    if (!row_times(prof, &ev))
        return MRD_OK;
    ev.name = mrd_row_sid(&prof->row, MRD_ROW_NAME);
    ev.id = 0;
    if (loss) {
        ev.kind = MRD_LOSS;
        ev.ivalue = mrd_row_number(&prof->row, MRD_ROW_LOST);
        if (ev.ivalue < 0 || ev.name == MRD_SID_EMPTY) {
            mrd_import_drop(prof->imp, prof->row.offset, "a loss without a number or a cause");
            return MRD_OK;
        }
        prof->input->lost += (uint64_t) ev.ivalue;
        ev.track = row_track(prof, MRD_TRACK_SPANS, 0);
        return mrd_import_put(prof->imp, prof->profile, &ev);
    }
    ev.kind = MRD_COUNTER;
    ev.dur_ns = 0;
    if (!mrd_row_has(&prof->row, MRD_ROW_VALUE) ||
        !mrd_row_sample(mrd_row_text(&prof->row, MRD_ROW_VALUE), &ev)) {
        mrd_import_drop(prof->imp, prof->row.offset, "a counter without a value");
        return MRD_OK;
    }
    ev.track = row_track(prof, MRD_TRACK_COUNTER, 0);
    return mrd_import_put(prof->imp, prof->profile, &ev);
}

static mrd_err
read_row(void *self)
{
    devprof *prof = self;
    mrd_str section = mrd_strtab_get(prof->strings, prof->section);
    bool counters = prof->scan.own && mrd_str_is(section, "counters");
    bool losses = prof->scan.own && mrd_str_is(section, "losses");
    mrd_err err = mrd_row_read(&prof->row, prof->r,
                               counters || losses ? extra_keys
                               : prof->scan.own   ? own_keys
                                                  : vendor_keys,
                               prof->strings);

    if (err != MRD_OK)
        return err;
    return counters || losses ? put_own_extra(prof, losses) : put_event(prof);
}

/* Reads the object "meridian" in a file that Meridian wrote. Registers the device profile that it
 * describes. */
static mrd_err
read_own(devprof *prof)
{
    mrd_devprofile told = { .process_id = MRD_NONE, .nc_idx = MRD_NONE, .session = MRD_NONE };
    mrd_json *doc = NULL, *first;
    mrd_str raw;
    mrd_err err = mrd_json_raw(prof->r, MRD_JSON_MAX, &raw);
    const char *text;

    if (err != MRD_OK && mrd_json_reader_err(prof->r, NULL) != MRD_OK)
        return err;
    if (err == MRD_OK)
        err = mrd_json_parse(raw, "meridian", &doc, NULL);
    if (err == MRD_NOMEM)
        return err;
    first = err == MRD_OK ? mrd_json_at(mrd_json_get(doc, "device_profiles"), 0) : NULL;
    if (first != NULL) {
        if ((text = mrd_json_str(first, "name", ""))[0] != '\0')
            told.name = mrd_strtab_addz(prof->strings, text);
        if ((text = mrd_json_str(first, "model_id", ""))[0] != '\0')
            told.model = mrd_strtab_addz(prof->strings, text);
        if ((text = mrd_json_str(first, "instance_id", ""))[0] != '\0')
            told.instance_id = mrd_strtab_addz(prof->strings, text);
        told.process_id = mrd_json_int(first, "process_id", MRD_NONE);
        told.nc_idx = mrd_json_int(first, "nc_id", MRD_NONE);
        told.session = mrd_json_int(first, "session_id", MRD_NONE);
    }
    if (doc != NULL && mrd_json_bool(doc, "simulated", false) &&
        mrd_catalog_get(prof->cat, "simulated") == NULL)
        mrd_catalog_set(prof->cat, "simulated", mrd_in_name(prof->imp->in));
    mrd_json_free(doc);
    if (prof->profile == 0)
        register_profile(prof, &told);
    return MRD_OK;
}

/* Stores a top-level member that is no object or array in the catalog, as
 * "input.<number>.<key>". */
static void
put_fact(devprof *prof, mrd_str key, mrd_str text)
{
    char name[128], value[256];

    if (mrd_str_is(key, "simulated")) {
        if (mrd_catalog_get(prof->cat, "simulated") == NULL)
            mrd_catalog_set(prof->cat, "simulated", mrd_in_name(prof->imp->in));
        return;
    }
    snprintf(name, sizeof(name), "input.%u.%.*s", prof->imp->input,
             key.len > 80 ? 80 : (int) key.len, key.p);
    snprintf(value, sizeof(value), "%.*s", text.len > 200 ? 200 : (int) text.len,
             text.p == NULL ? "" : text.p);
    mrd_catalog_set(prof->cat, name, value);
}

static mrd_err
read_member(void *self, mrd_json_reader *reader, mrd_str key, mrd_jr_type type, mrd_str text)
{
    static const mrd_devprofile unknown = { .process_id = MRD_NONE,
                                            .nc_idx = MRD_NONE,
                                            .session = MRD_NONE };
    devprof *prof = self;
    mrd_sid section;

    (void) reader;
    if (type != MRD_JR_OBJECT && type != MRD_JR_ARRAY) {
        put_fact(prof, key,
                 type == MRD_JR_STRING || type == MRD_JR_NUMBER || type == MRD_JR_WORD
                     ? text
                     : mrd_str_of(mrd_jr_type_text(type)));
        return MRD_OK;
    }
    if (mrd_str_is(key, "meridian") && type == MRD_JR_OBJECT)
        return read_own(prof);
    section = mrd_strtab_add(prof->strings, key);
    if (prof->profile == 0)
        register_profile(prof, &unknown);
    prof->section = section;
    return type == MRD_JR_OBJECT
               ? read_row(prof)
               : mrd_rows_read(prof->imp, prof->r, mrd_strtab_get(prof->strings, prof->section),
                               read_row, prof);
}

static mrd_err
read_input(devprof *prof, mrd_why *why)
{
    mrd_str first =
        prof->scan.first_text.p != NULL ? prof->scan.first_text : prof->scan.all_first_text;
    mrd_err err = mrd_json_reader_open(prof->imp->in, &prof->r, why);

    if (first.p == NULL || mrd_num_scaled(first, prof->exp10, &prof->first.ns) != MRD_OK)
        prof->first = (mrd_ev_ns){ 0 };
    if (err == MRD_OK)
        err = each_member(prof->r, mrd_in_name(prof->imp->in), read_member, prof, why);
    register_capture(prof);
    return err;
}

static mrd_err
devprof_run(mrd_import *imp, mrd_why *why)
{
    devprof *prof = calloc(1, sizeof(*prof));
    mrd_err err;

    if (prof == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(imp->in));
    prof->imp = imp;
    prof->cat = imp->catalog;
    prof->strings = mrd_catalog_strings(imp->catalog);
    prof->input = mrd_import_input(imp);
    err = scan_input(prof, why);
    if (err == MRD_OK && !prof->scan.any_section)
        err = mrd_why_set(why, MRD_EMPTY, 0, "'%s' has no section of a device profile",
                          mrd_in_name(imp->in));
    if (err == MRD_OK)
        err = infer_unit(prof, why);
    if (err == MRD_OK && (prof->row.args = mrd_args_new(prof->strings)) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(imp->in));
    if (err == MRD_OK)
        err = read_input(prof, why);
    if (prof->r != NULL)
        mrd_import_note_text(prof->imp, prof->r);
    mrd_json_reader_close(prof->r);
    mrd_args_free(prof->row.args);
    free(prof);
    return err;
}

/* Returns how likely the file is a device profile (mrd_import_ops.probe). 95: Meridian wrote it.
 * 80: the text has "instruction", or two of the other words that are typical for a device profile.
 * 0: any other file. */
static int
devprof_probe(mrd_str head, const char *name)
{
    static const char *const words[] = { "\"dma\"",           "\"layer_summary\"",
                                         "\"neff_node\"",     "\"cc_stream\"",
                                         "\"active_time\"",   "\"summary_groups\"",
                                         "\"profile_info\"",  "\"total_time\"",
                                         "\"evt_wait_time\"", "\"opcode\"" };
    mrd_str start = { head.p, head.len < 256 ? head.len : 256 };
    size_t found = 0;

    (void) name;
    if (mrd_str_first(head) != '{')
        return 0;
    if (mrd_str_has(start, "\"meridian\""))
        return mrd_str_has(start, "\"device_profile\"") ? 95 : 0;
    for (size_t i = 0; i < MRD_COUNT(words); i++)
        found += mrd_str_has(head, words[i]);
    if (mrd_str_has(head, "\"instruction\""))
        found += 2;
    return found >= 2 ? 80 : 0;
}

const mrd_import_ops mrd_import_devprof = {
    .name = "device-profile-json",
    .what = "exported device profile (instruction, dma, ...), vendor's or meridian's",
    .probe = devprof_probe,
    .run = devprof_run,
};
