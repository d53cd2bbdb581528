/* trace/import/import_file.c - reads one file with one importer, and stores the result in one
 * mrd_input. */
#include "trace/import/foreign.h"
#include "trace/import/import.h"

#include <stdlib.h>

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/import/import_times.h"
#include "trace/import/same_data.h"

/* The stream of events that an input has for one profile. */
typedef struct {
    uint32_t profile;
    mrd_stream *stream; /* NULL if the user does not want this profile */
} file_stream;

typedef struct {
    mrd_import imp; /* must be first, because file_emit() casts mrd_import to file_reading */
    const mrd_read_options *options;
    const char *path;
    file_stream *streams;
    size_t n, cap, last;
    mrd_times times; /* times of the records of the system profile */
    mrd_sample sample;
    mrd_dur_ns base; /* offset already added to all times of the system profile */
    uint64_t emitted;
    bool is_beside; /* no importer reads the file, and frameworks write such files beside traces */
    mrd_read_end end;
    /* an error of Meridian's own storage, or NOMEM; errors in the file's contents are stored in
     * mrd_input */
    mrd_why own;
} file_reading;

static mrd_err
file_stream_of(file_reading *reading, uint32_t profile, mrd_stream **ret_stream)
{
    bool wanted = profile == 0 ? reading->options->system : reading->options->device;

    for (size_t i = 0; i < reading->n; i++) {
        if (reading->streams[i].profile == profile) {
            reading->last = i;
            *ret_stream = reading->streams[i].stream;
            return MRD_OK;
        }
    }
    if (!MRD_VEC_ROOM(reading->streams, reading->n, reading->cap, 1))
        return MRD_NOMEM;
    reading->streams[reading->n] = (file_stream){ profile, NULL };
    if (wanted) {
        reading->streams[reading->n].stream =
            mrd_store_stream(reading->options->store, profile, reading->path);
        if (reading->streams[reading->n].stream == NULL)
            return MRD_NOMEM;
    }
    reading->last = reading->n;
    *ret_stream = reading->streams[reading->n++].stream;
    return MRD_OK;
}

static uint64_t
text_hash(const mrd_catalog *cat, mrd_sid sid)
{
    mrd_str text = mrd_catalog_text(cat, sid);

    return mrd_hash64(text.p, text.len, 1);
}

static uint64_t
arg_hash(const mrd_catalog *cat, const mrd_arg *arg)
{
    const uint64_t parts[] = {
        text_hash(cat, arg->key),
        arg->type == MRD_ARG_STR ? text_hash(cat, arg->v.sid)
        : arg->type == MRD_ARG_TEXT || arg->type == MRD_ARG_JSON
            ? mrd_hash64(arg->v.text, arg->len, 1)
            : arg->v.u,
    };

    return mrd_hash64(parts, sizeof(parts), arg->type);
}

/* Returns the hash of the events up to and including `ev`. `before` is the hash of the events
 * before `ev`. */
static uint64_t
event_hash(const mrd_catalog *cat, const mrd_event *ev, uint64_t before)
{
    bool has_value = ev->kind == MRD_COUNTER || ev->kind == MRD_LOSS;
    const uint64_t parts[] = {
        before,
        (uint64_t) ev->ts.ns,
        (uint64_t) ev->dur_ns,
        ev->id,
        has_value ? (uint64_t) ev->ivalue : 0,
        ev->track,
        text_hash(cat, ev->name),
        text_hash(cat, ev->category),
        (uint64_t) ev->kind | (uint64_t) ev->flags << 8 | (uint64_t) ev->flow_dir << 16,
    };
    uint64_t hash = mrd_hash64(parts, sizeof(parts), ev->arg_count);

    for (uint32_t i = 0; i < ev->arg_count; i++)
        hash = hash * 31 + arg_hash(cat, &ev->args[i]);
    return hash >> 1;
}

/* Adds an event to the running hash of this file. If the file only grew since the last reading, the
 * running hash at some point equals the last reading's final hash. Then discards the events read
 * until now, because the last reading has stored them. */
static void
note_end(file_reading *reading, const mrd_event *ev)
{
    reading->end.events = event_hash(reading->imp.catalog, ev, reading->end.events);
    if (reading->options->had == 0 || reading->end.continued ||
        reading->end.events != reading->options->had)
        return;
    for (size_t i = 0; i < reading->n; i++)
        if (reading->streams[i].stream != NULL)
            mrd_stream_clear(reading->streams[i].stream);
    reading->end.continued = true;
    reading->end.dropped = mrd_import_input(&reading->imp)->dropped;
}

static void
file_progress(const file_reading *reading)
{
    if (reading->options->progress != NULL)
        reading->options->progress(reading->options->self, reading->path,
                                   mrd_in_file_bytes(reading->imp.in),
                                   mrd_in_file_size(reading->imp.in));
}

static mrd_err
file_emit(mrd_import *imp, uint32_t profile, const mrd_event *ev)
{
    file_reading *reading = (file_reading *) imp->emit_self;
    mrd_stream *stream = NULL;
    mrd_err err = MRD_OK;

    if (reading->n > 0 && reading->streams[reading->last].profile == profile)
        stream = reading->streams[reading->last].stream;
    else
        err = file_stream_of(reading, profile, &stream);
    if (profile == 0)
        mrd_times_add(&reading->times, ev);
    if (profile == 0 && reading->options->once != NULL)
        mrd_sample_add(&reading->sample, ev);
    if (err == MRD_OK && stream != NULL)
        err = mrd_stream_push(stream, ev);
    if (err != MRD_OK) {
        const mrd_why *failure = stream == NULL ? NULL : mrd_stream_failure(stream);

        if (failure != NULL)
            reading->own = *failure;
        else
            mrd_why_set(&reading->own, err, 0, "its events");
    }
    if (reading->options->ret_end != NULL)
        note_end(reading, ev);
    if ((++reading->emitted & 65535) == 0)
        file_progress(reading);
    return err;
}

static mrd_err
file_shift(mrd_import *imp, uint32_t profile, mrd_dur_ns delta_ns)
{
    file_reading *reading = (file_reading *) imp->emit_self;
    mrd_stream *stream;
    mrd_err err = file_stream_of(reading, profile, &stream);

    if (err == MRD_OK && stream != NULL)
        mrd_stream_shift(stream, delta_ns);
    if (profile == 0)
        reading->base = mrd_sat_add(reading->base, delta_ns);
    return err;
}

static bool
file_cancelled(mrd_import *imp)
{
    const file_reading *reading = (const file_reading *) imp->emit_self;

    return reading->options->cancelled(reading->options->self);
}

#define UTF_16 "is text in UTF-16: convert it with 'iconv -f UTF-16 -t UTF-8' and give the result"

/* Returns advice if the file is an archive, is compressed, or is text in another encoding. NULL for
 * other files. */
static const char *
container_advice(mrd_str head)
{
    static const struct {
        size_t at;
        mrd_str bytes;
        const char *advice;
    } rows[] = {
        { 257,
          { "ustar", 5 },
          "is a tar archive: unpack it with 'tar -xf' and give the files in it" },
        { 0, { "PK\3\4", 4 }, "is a zip archive: unpack it with 'unzip' and give the files in it" },
        { 0, { "PK\5\6", 4 }, "is a zip archive without files" },
        { 0, { "7z\xbc\xaf\x27\x1c", 6 }, "is a 7z archive: unpack it and give the files in it" },
        { 0,
          { "\xfd"
            "7zXZ",
            5 },
          "is compressed by xz: decompress it with 'xz -d' and give the result" },
        { 0,
          { "BZh", 3 },
          "is compressed by bzip2: decompress it with 'bunzip2' and give the result" },
        { 0, { "\xff\xfe", 2 }, UTF_16 },
        { 0, { "\xfe\xff", 2 }, UTF_16 },
        { 0, { "[\0", 2 }, UTF_16 },
        { 0, { "{\0", 2 }, UTF_16 },
        { 0, { "\0[", 2 }, UTF_16 },
        { 0, { "\0{", 2 }, UTF_16 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_str bytes = rows[i].bytes;

        if (head.len >= rows[i].at + bytes.len &&
            memcmp(head.p + rows[i].at, bytes.p, bytes.len) == 0)
            return rows[i].advice;
    }
    return NULL;
}

/* Returns why no importer accepts this file, and what to do. */
static const char *
file_advice(mrd_str head, const char *path, bool *ret_beside)
{
    mrd_str name = mrd_str_of(path);
    const char *container = container_advice(head), *foreign = mrd_foreign_advice(head, ret_beside);
    char first = mrd_str_first(head);

    if (head.len == 0)
        return "is empty";
    if (container != NULL)
        return container;
    if (foreign != NULL)
        return foreign;
    if (mrd_str_ends(name, ".pftrace") || mrd_str_ends(name, ".perfetto-trace"))
        return "has the name of a Perfetto trace but is not one: write it again with the program "
               "that made it";
    if (mrd_str_ends(name, ".neff"))
        return "is a compiled model, which has no events: give the capture directory that it "
               "belongs to (-d)";
    if (mrd_str_ends(name, ".ntff"))
        return "is a device profile in Neuron's own format, which is not public: convert it with "
               "'neuron-explorer view --output-format json' (or neuron-profile) and give the "
               "result";
    if (mrd_str_ends(name, ".xplane.pb"))
        return "has the name of an XSpace of the XLA profiler but is not one: give the "
               "trace.json.gz that the JAX profiler writes beside it";
    if (mrd_str_ends(name, ".pb"))
        return "is a protobuf without a public schema: convert its folder with 'neuron-explorer "
               "view --output-format json' and give the result";
    if (first == ' ' || first == '{' || first == '[')
        return mrd_str_has(head, "\xef\xbb\xbf")
                   ? "is JSON with a byte order mark, which JSON does not allow"
                   : "is JSON, but none of the known kinds (Trace Event, runtime system trace, "
                     "exported system or device profile, neuron-monitor report)";
    if (head.len >= 3 && memcmp(head.p, "\xef\xbb\xbf", 3) == 0)
        return "begins with a byte order mark: save it as UTF-8 without one";
    return "has an unknown format: expected JSON (plain, gzip or zstd), an XSpace or a Perfetto "
           "trace; 'meridian view --help' lists the kinds";
}

static bool
recorded_pid(const file_reading *reading, int64_t pid)
{
    mrd_catalog *cat = reading->imp.catalog;

    for (mrd_proc_id id = 0; id < mrd_catalog_processes(cat); id++) {
        const mrd_process *process = mrd_catalog_borrow_process(cat, id);

        if (process->process_id == pid && process->instance_id == reading->options->node &&
            process->scope == 0 && (process->flags & MRD_PROC_NODE) == 0)
            return true;
    }
    return false;
}

/* Returns the first value of a key "pid" that is the pid of a recorded process. Other values are
 * skipped, because in some files this key has device numbers. MRD_NONE if there is no such
 * value. */
static int64_t
recorded_process(const file_reading *reading, mrd_str head)
{
    static const char key[] = "\"pid\"";
    const char *at = head.p, *end = head.p + head.len;

    while ((at = memmem(at, (size_t) (end - at), key, sizeof(key) - 1)) != NULL) {
        const char *from = at += sizeof(key) - 1;
        int64_t pid;

        while (from < end && (*from == ' ' || *from == ':'))
            from++;
        for (at = from; at < end && *at >= '0' && *at <= '9';)
            at++;
        if (at < end && mrd_num_i64((mrd_str){ from, (size_t) (at - from) }, &pid) == MRD_OK &&
            recorded_pid(reading, pid))
            return pid;
    }
    return MRD_NONE;
}

/* Returns the pid of the only recorded process; MRD_NONE if there are several, or none. */
static int64_t
only_recorded(const file_reading *reading)
{
    mrd_catalog *cat = reading->imp.catalog;
    int64_t found = MRD_NONE;

    for (mrd_proc_id id = 0; id < mrd_catalog_processes(cat); id++) {
        const mrd_process *process = mrd_catalog_borrow_process(cat, id);

        if (process->instance_id != reading->options->node || process->scope != 0 ||
            (process->flags & MRD_PROC_NODE) != 0)
            continue;
        if (found != MRD_NONE && found != process->process_id)
            return MRD_NONE;
        found = process->process_id;
    }
    return found;
}

static void
find_owner(file_reading *reading, const mrd_import_ops *ops, mrd_str head)
{
    if (reading->options->node == MRD_SID_EMPTY ||
        reading->imp.identity.instance_id != MRD_SID_EMPTY)
        return;
    reading->imp.identity.instance_id = reading->options->node;
    if (reading->imp.identity.process_id == MRD_NONE)
        reading->imp.identity.process_id =
            ops == &mrd_import_xplane ? only_recorded(reading) : recorded_process(reading, head);
}

static mrd_err
file_run(file_reading *reading, mrd_why *why)
{
    const mrd_import_ops *ops;
    mrd_bytes data;
    mrd_str head;
    mrd_err err = mrd_in_fill(reading->imp.in, MRD_PROBE_BYTES, &data, why);

    if (err != MRD_OK)
        return err;
    head =
        (mrd_str){ (const char *) data.p, data.len < MRD_PROBE_BYTES ? data.len : MRD_PROBE_BYTES };
    if ((ops = mrd_import_detect(head, reading->path)) == NULL)
        return mrd_why_set(why, head.len == 0 ? MRD_EMPTY : MRD_FORMAT, 0, "'%s' %s", reading->path,
                           file_advice(head, reading->path, &reading->is_beside));
    mrd_import_input(&reading->imp)->format = mrd_catalog_intern(reading->imp.catalog, ops->name);
    find_owner(reading, ops, head);
    return ops->run(&reading->imp, why);
}

/* Sets the input's error if the file's names need more memory than MRD_STRTAB_INPUT. All events are
 * kept, but further names were replaced by a placeholder. `refused` is the number of names that
 * were replaced before this file. */
static void
file_names(file_reading *reading, uint64_t refused)
{
    mrd_input *input = mrd_import_input(&reading->imp);
    mrd_strtab *strings = mrd_catalog_strings(reading->imp.catalog);
    mrd_why said = { 0 };

    if ((refused = mrd_strtab_refused(strings) - refused) == 0 || input->error != MRD_SID_EMPTY)
        return;
    mrd_why_set(&said, MRD_LIMIT, 0,
                "'%s': %" PRIu64 " time%s a name stands as '" MRD_STR_FMT
                "': a file may have %zu MiB of them, 64 bytes for each included",
                reading->path, refused, mrd_plural(refused),
                MRD_STR_ARG(mrd_strtab_get(strings, MRD_SID_FULL)), MRD_STRTAB_INPUT >> 20);
    input->error = mrd_catalog_intern(reading->imp.catalog, said.text);
}

/* Adds notes about records with wrong times. Limits the stream's range of times to the records with
 * correct times. */
static void
file_mark_mistimed(file_reading *reading)
{
    mrd_times_verdict times;
    char far_by[MRD_DUR_TEXT];

    if (!mrd_times_judge(&reading->times, &times))
        return;
    for (size_t i = 0; i < reading->n; i++)
        if (reading->streams[i].profile == 0 && reading->streams[i].stream != NULL)
            mrd_stream_trust(reading->streams[i].stream, times.first, times.end);
    if (times.without > 0)
        mrd_catalog_note(reading->imp.catalog,
                         "'%s': %" PRIu64
                         " record%s no time (0, where the others count from 1970): "
                         "left out of windows, shares and timelines",
                         reading->path, times.without, times.without == 1 ? " has" : "s have");
    if (times.far > 0)
        mrd_catalog_note(reading->imp.catalog,
                         "'%s': %" PRIu64 " record%s far from all others ('" MRD_STR_FMT
                         "' by %s): left out of windows, shares and timelines",
                         reading->path, times.far, times.far == 1 ? " lies" : "s lie",
                         MRD_STR_ARG(mrd_catalog_text(reading->imp.catalog, times.far_name)),
                         mrd_dur_text(times.far_by, far_by));
}

static void
file_conclude(file_reading *reading, mrd_err err, const mrd_why *why)
{
    mrd_input *input = mrd_import_input(&reading->imp);
    mrd_why said = { 0 };

    input->bytes = reading->imp.in == NULL ? 0 : mrd_in_file_bytes(reading->imp.in);
    if (err != MRD_OK) {
        input->state = input->events > 0    ? MRD_INPUT_INCOMPLETE
                       : reading->is_beside ? MRD_INPUT_SKIPPED
                                            : MRD_INPUT_FAILED;
        input->error = mrd_catalog_intern(reading->imp.catalog, why->text);
        if (reading->is_beside)
            mrd_catalog_note(reading->imp.catalog, "not read: %s", why->text);
    } else if (input->error != MRD_SID_EMPTY) {
        mrd_str text = mrd_catalog_text(reading->imp.catalog, input->error);

        /* The importer described the first dropped record in input->error. Prefix this with the
         * file's name. */
        input->state = input->events > 0 ? MRD_INPUT_INCOMPLETE : MRD_INPUT_FAILED;
        mrd_why_set(&said, MRD_INCOMPLETE, 0, "'%s': " MRD_STR_FMT, reading->path,
                    MRD_STR_ARG(text));
        if (!mrd_str_starts(text, "'"))
            input->error = mrd_catalog_intern(reading->imp.catalog, said.text);
    } else if (input->events == 0 && !reading->imp.describes) {
        input->state = MRD_INPUT_FAILED;
        mrd_why_set(&said, MRD_EMPTY, 0, "'%s' holds no events", reading->path);
        input->error = mrd_catalog_intern(reading->imp.catalog, said.text);
    } else {
        input->state = MRD_INPUT_OK;
    }
}

/* Adds the input to the inputs that are searched for copies of each other. Inputs with events of
 * device profiles are left out. */
static mrd_err
file_remember(file_reading *reading)
{
    bool only_system =
        reading->n == 1 && reading->streams[0].profile == 0 && reading->streams[0].stream != NULL;

    if (reading->options->once == NULL || !only_system) {
        mrd_sample_fini(&reading->sample);
        return MRD_OK;
    }
    return mrd_same_data_add(reading->options->once,
                             &(mrd_read_input){ .input = reading->imp.input,
                                                .place = reading->imp.identity,
                                                .backend = reading->imp.backend,
                                                .base = reading->base,
                                                .stream = reading->streams[0].stream,
                                                .sample = reading->sample });
}

mrd_err
mrd_read_file(const mrd_read_options *options, const char *path, const mrd_identity *identity,
              mrd_why *why)
{
    mrd_input blank = { .state = MRD_INPUT_FAILED };
    file_reading reading = { .options = options, .path = path };
    uint64_t refused;
    mrd_why said = { 0 };
    bool again;
    mrd_err err = mrd_read_once_check(options->once, path, identity, &again);

    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "'%s'", path);
    if (again)
        return MRD_OK;
    blank.path = mrd_catalog_intern(options->catalog, path);
    reading.imp = (mrd_import){ .catalog = options->catalog,
                                .identity = *identity,
                                .part_max = options->part_max,
                                .input = mrd_catalog_add_input(options->catalog, &blank),
                                .emit = file_emit,
                                .emit_self = &reading,
                                .shift = file_shift,
                                .cancelled = options->cancelled != NULL ? file_cancelled : NULL };
    if ((err = mrd_catalog_err(options->catalog)) != MRD_OK)
        return mrd_why_set(why, err, 0, "'%s'", path);
    err = options->fd != NULL ? mrd_in_fd(*options->fd, path, &reading.imp.in, &said)
                              : mrd_in_file(path, &reading.imp.in, &said);
    refused = mrd_strtab_allow(mrd_catalog_strings(options->catalog), MRD_STRTAB_INPUT);
    mrd_catalog_allow(options->catalog, MRD_CATALOG_INPUT);
    if (err == MRD_OK)
        err = file_run(&reading, &said);
    (void) mrd_strtab_allow(mrd_catalog_strings(options->catalog), MRD_STRTAB_ANY);
    mrd_catalog_allow(options->catalog, MRD_CATALOG_ANY);
    file_names(&reading, refused);
    file_conclude(&reading, err, &said);
    if (reading.imp.in != NULL) {
        mrd_import_note_reasons(&reading.imp);
        file_mark_mistimed(&reading);
        file_progress(&reading);
    }
    mrd_in_close(reading.imp.in);
    if (file_remember(&reading) != MRD_OK && reading.own.err == MRD_OK)
        mrd_why_set(&reading.own, MRD_NOMEM, 0, "its events");
    free(reading.streams);
    if (options->ret_end != NULL)
        *options->ret_end = reading.end;
    if (reading.own.err != MRD_OK)
        return mrd_why_set(why, reading.own.err, 0, "'%s': %s", path, reading.own.text);
    if ((err = mrd_catalog_err(options->catalog)) != MRD_OK)
        return mrd_why_set(why, err, 0, "'%s'", path);
    return MRD_OK;
}
