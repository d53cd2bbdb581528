#include "cli/view/profile_write.h"
#include "cli/view/place.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/near.h"
#include "base/num.h"
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/term/progress.h"
#include "cli/view/session_name.h"
#include "trace/sink/export.h"
#include "trace/sink/group.h"
#include "trace/sink/perfetto/pf_parts.h"
#include "trace/store/merge.h"

enum { MAX_FORMATS = 16 };

static volatile sig_atomic_t interrupted;

static void
on_interrupt(int sig)
{
    interrupted = sig;
}

static mrd_err
check_order(const mrd_profile_options *options, const mrd_filter *filter, mrd_why *why)
{
    if (options->start == NULL || options->end == NULL || mrd_ev_before(filter->start, filter->end))
        return MRD_OK;
    return mrd_why_set(why, MRD_RANGE, 0, "--start %s is not before --end %s", options->start,
                       options->end);
}

/* Returns true if a time option is relative to the first event, which is known only after the input
 * was read. */
static bool
is_relative(const char *time)
{
    mrd_ev_ns early = { 0 }, late = { 0 };

    return time != NULL &&
           mrd_filter_time(mrd_str_of(time), (mrd_ev_ns){ 0 }, &early, NULL) == MRD_OK &&
           mrd_filter_time(mrd_str_of(time), (mrd_ev_ns){ MRD_SEC }, &late, NULL) == MRD_OK &&
           early.ns != late.ns;
}

mrd_err
mrd_profile_check(const mrd_profile_options *options, mrd_why *why)
{
    mrd_filter filter = { .types = options->types,
                          .cores = options->cores,
                          .processes = options->processes };
    mrd_group group;
    mrd_err err;

    if ((err = mrd_session_name_check(options->session_id, why)) != MRD_OK)
        return err;
    if (options->formats.n > MAX_FORMATS)
        return mrd_why_set(why, MRD_INVALID, 0, "--output-format: at most %d formats", MAX_FORMATS);
    for (size_t i = 0; i < options->formats.n; i++) {
        const char *names[MAX_FORMATS];
        char guess[MRD_NEAR_TEXT];
        size_t n;
        const mrd_sink_ops *const *sinks = mrd_sinks(&n);

        if (mrd_sink_find(mrd_str_of(options->formats.v[i])) != NULL)
            continue;
        for (size_t k = 0; k < n && k < MAX_FORMATS; k++)
            names[k] = sinks[k]->name;
        if (strcmp(options->formats.v[i], "db") == 0)
            return mrd_why_set(
                why, MRD_INVALID, 0,
                "--output-format db is neuron-explorer's: there is no database here; "
                "parquet-explorer writes its tables (--help lists all formats)");
        mrd_near_text(options->formats.v[i], names, n < MAX_FORMATS ? n : MAX_FORMATS, "", guess);
        return mrd_why_set(why, MRD_INVALID, 0, "--output-format '%s' is unknown%s",
                           options->formats.v[i], *guess == '\0' ? " (--help lists them)" : guess);
    }
    if (options->primary != NULL &&
        (err = mrd_group_parse(mrd_str_of(options->primary), &group, why)) != MRD_OK)
        return mrd_why_prefix(why, err, "--system-trace-primary-group");
    if (options->secondary != NULL &&
        (err = mrd_group_parse(mrd_str_of(options->secondary), &group, why)) != MRD_OK)
        return mrd_why_prefix(why, err, "--system-trace-secondary-group");
    if (options->start != NULL &&
        (err = mrd_filter_time(mrd_str_of(options->start), (mrd_ev_ns){ 0 }, &filter.start, why)) !=
            MRD_OK)
        return mrd_why_prefix(why, err, "--start");
    if (options->end != NULL && (err = mrd_filter_time(mrd_str_of(options->end), (mrd_ev_ns){ 0 },
                                                       &filter.end, why)) != MRD_OK)
        return mrd_why_prefix(why, err, "--end");
    if (is_relative(options->start) == is_relative(options->end) &&
        (err = check_order(options, &filter, why)) != MRD_OK)
        return err;
    return mrd_filter_check(&filter, why);
}

/* One profile that is written: its streams and their time range. */
typedef struct {
    uint32_t number;
    mrd_source **sources;
    size_t n;
    uint64_t events;
    mrd_ev_ns first, last;
} profile_part;

static mrd_err
part_open(mrd_store *store, mrd_alignment *alignment, mrd_places *places, uint32_t number,
          profile_part *part, mrd_why *why)
{
    size_t streams = mrd_store_streams(store);
    mrd_err err = MRD_OK;

    *part = (profile_part){ .number = number, .first = { INT64_MAX }, .last = { INT64_MIN } };
    part->sources = calloc(streams + 1, sizeof(*part->sources));
    if (part->sources == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "opening %zu streams", streams);
    for (size_t i = 0; i < streams && err == MRD_OK; i++) {
        mrd_stream *stream = mrd_store_at(store, i);
        mrd_ev_ns first, last;

        if (mrd_stream_profile(stream) != number)
            continue;
        if (alignment != NULL ? mrd_alignment_range(alignment, i, &first, &last)
                              : mrd_stream_range(stream, &first, &last)) {
            mrd_places_range(places, i, &first, &last);
            part->first = mrd_ev_min(first, part->first);
            part->last = mrd_ev_max(last, part->last);
        }
        part->events += mrd_stream_count(stream);
        err = alignment != NULL ? mrd_alignment_open(alignment, i, &part->sources[part->n], why)
                                : mrd_stream_open(stream, &part->sources[part->n], why);
        if (err == MRD_OK)
            err = mrd_places_open(places, i, part->sources[part->n], &part->sources[part->n], why);
        if (err == MRD_OK)
            part->sources[part->n++]->key = i;
    }
    return err;
}

static void
part_close(profile_part *part)
{
    for (size_t i = 0; i < part->n; i++)
        part->sources[i]->close(part->sources[i]);
    free(part->sources);
}

static void
output_path(const mrd_profile_options *options, const mrd_catalog *cat, uint32_t number,
            const mrd_sink_ops *ops, mrd_buf *ret_path)
{
    mrd_buf_reset(ret_path);
    mrd_buf_fmt(ret_path, "%s/", options->dir);
    if (number == 0) {
        mrd_buf_text(ret_path, ops->stem);
    } else {
        mrd_place_file(cat, number, ret_path);
    }
    /* A summary of a device profile gets the suffix "_summary". Without it, it would have the same
     * name as the device profile in JSON. */
    if (number != 0 && strcmp(ops->stem, "summary") == 0)
        mrd_buf_text(ret_path, "_summary");
    mrd_buf_text(ret_path, ops->folder && !options->print ? "/" MRD_FOLDER_MANIFEST : ops->suffix);
}

typedef struct {
    mrd_progress progress;
    uint64_t total;
} profile_writing;

static bool
show_writing(void *self, uint64_t events)
{
    profile_writing *writing = self;

    mrd_progress_show(&writing->progress, events, writing->total, "events", NULL);
    return interrupted == 0;
}

static mrd_err
part_filter(const mrd_profile_options *options, const profile_part *part, mrd_filter *ret_filter,
            mrd_why *why)
{
    mrd_err err = MRD_OK;

    *ret_filter = (mrd_filter){ .start = { INT64_MIN },
                                .end = { INT64_MAX },
                                .instances = options->instances,
                                .types = options->types,
                                .cores = options->cores,
                                .processes = options->processes };
    if (options->start != NULL)
        err = mrd_filter_time(mrd_str_of(options->start), part->first, &ret_filter->start, why);
    if (err == MRD_OK && options->end != NULL)
        err = mrd_filter_time(mrd_str_of(options->end), part->first, &ret_filter->end, why);
    return err == MRD_OK ? check_order(options, ret_filter, why) : err;
}

static void
sink_options(const mrd_profile_options *options, const profile_part *part, mrd_sink_options *ret)
{
    *ret = (mrd_sink_options){
        .show_flows = options->flows,
        .identity = part->events <= MRD_SINK_IDENTITY_MAX,
        .compress = options->compress,
        .split = (uint64_t) options->split,
        .pretty = options->pretty,
        .same_clock = options->same_clock,
        .classify = options->classify,
        .json_layout = options->json_layout == 0 ? MRD_JSON_GUIDE : MRD_JSON_EXPLORER,
        /* later than September 2001: such times count from 1970, smaller ones from another start */
        .wall_time = part->first.ns > 1000000000 * MRD_SEC
    };
    if (options->primary != NULL)
        mrd_group_parse(mrd_str_of(options->primary), &ret->primary, NULL);
    if (options->secondary != NULL)
        mrd_group_parse(mrd_str_of(options->secondary), &ret->secondary, NULL);
}

static void
stream_went_bad(void *self, uint64_t key, const mrd_why *why)
{
    bool *bad = self;

    (void) key;
    *bad = true;
    mrd_cli_say("an input ended early", mrd_str_of(why->text));
}

static mrd_err
exists(const char *path, mrd_why *why)
{
    return mrd_why_set(why, MRD_EXISTS, 0,
                       "%s exists: --force replaces it, -o DIR writes elsewhere", path);
}

/* Checks that no file of a device profile exists. It is unknown before reading which models the
 * input has, so a file of any model is an error. */
static mrd_err
check_models(const mrd_profile_options *options, mrd_why *why)
{
    DIR *dir = opendir(options->dir);
    struct dirent *entry;
    mrd_buf path = { 0 };
    mrd_err err = MRD_OK;

    while (dir != NULL && err == MRD_OK && (entry = readdir(dir)) != NULL) {
        if (!mrd_str_starts(mrd_str_of(entry->d_name), "device_profile_model_"))
            continue;
        mrd_buf_fmt(&path, "%s/%s", options->dir, entry->d_name);
        err = exists(mrd_buf_cstr(&path), why);
    }
    if (dir != NULL)
        closedir(dir);
    mrd_buf_fini(&path);
    return err;
}

mrd_err
mrd_profile_check_output(const mrd_profile_options *options, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_err err = MRD_OK;

    if (options->force)
        return MRD_OK;
    for (size_t i = 0; i < options->formats.n && err == MRD_OK; i++) {
        const mrd_sink_ops *ops = mrd_sink_find(mrd_str_of(options->formats.v[i]));

        mrd_buf_reset(&path);
        mrd_buf_fmt(&path, "%s/%s%s", options->dir, ops->stem,
                    ops->folder ? "/" MRD_FOLDER_MANIFEST : ops->suffix);
        if (access(mrd_buf_cstr(&path), F_OK) == 0)
            err = exists(mrd_buf_cstr(&path), why);
    }
    mrd_buf_fini(&path);
    return err != MRD_OK ? err : check_models(options, why);
}

static bool
push_file(void *self, const void *data, size_t len)
{
    return fwrite(data, 1, len, self) == len;
}

/* Opens the output of one format: a file or, with options->print, the stream `to`. */
static mrd_err
open_target(const mrd_profile_options *options, const char *path, FILE *to, mrd_out **ret_out,
            mrd_why *why)
{
    if (options->print)
        return mrd_out_func(push_file, to, "the output", ret_out, why);
    if (!options->force && access(path, F_OK) == 0)
        return exists(path, why);
    /* This command holds the directory's lock, so partial files in it are left over from a killed
     * run. */
    mrd_remove_parts_of(path);
    return mrd_out_file(path, ret_out, why);
}

/* Gets the directory of a file, malloc'd. Returns false if out of memory. */
static bool
folder_of(const char *path, char **ret_dir)
{
    *ret_dir = mrd_str_dup((mrd_str){ path, (size_t) (strrchr(path, '/') - path) });
    return *ret_dir != NULL;
}

typedef struct {
    mrd_export_target v[MAX_FORMATS];
    char *dirs[MAX_FORMATS]; /* for each format with several files: its directory */
    size_t n;
} profile_targets;

/* Opens one output per format. Without events, opens only the formats that can list files. On
 * failure, aborts all outputs that it opened. */
static mrd_err
open_targets(const mrd_profile_options *options, const mrd_catalog *cat, const profile_part *part,
             FILE *to, profile_targets *t, mrd_strlist *paths, mrd_why *why)
{
    uint32_t number = part->number;
    mrd_export_target *targets = t->v;
    char **dirs = t->dirs;
    mrd_buf path = { 0 };
    size_t count = 0;
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < options->formats.n && err == MRD_OK; i++) {
        const mrd_sink_ops *ops = mrd_sink_find(mrd_str_of(options->formats.v[i]));
        const char *name;

        if ((number != 0 && !ops->device_too) || (part->events == 0 && !ops->lists_files))
            continue;
        output_path(options, cat, number, ops, &path);
        name = mrd_buf_cstr(&path);
        if (mrd_strlist_has(paths, mrd_str_of(name)))
            continue; /* the user named this format twice */
        if ((err = open_target(options, name, to, &targets[count].out, why)) == MRD_OK) {
            targets[count++].ops = ops;
            if (mrd_strlist_add(paths, mrd_str_of(name)) != MRD_OK ||
                (ops->folder && !options->print && !folder_of(name, &dirs[count - 1])))
                err = mrd_why_set(why, MRD_NOMEM, 0, "%s", name);
            targets[count - 1].dir = dirs[count - 1];
            if (!options->print && err == MRD_OK)
                targets[count - 1].path = paths->v[paths->n - 1];
        }
    }
    if (err != MRD_OK) {
        for (size_t i = 0; i < count; i++)
            mrd_out_abort(targets[i].out);
        count = 0;
    }
    mrd_buf_fini(&path);
    t->n = count;
    return err;
}

static mrd_err
write_part(const mrd_profile_options *options, mrd_catalog *cat, profile_part *part, FILE *to,
           mrd_strlist *paths, mrd_profile_result *result, mrd_why *why)
{
    profile_targets targets = { .n = 0 };
    mrd_export_result exported = { 0 };
    mrd_sink_options sink;
    mrd_filter filter;
    mrd_source *merged = NULL;
    profile_writing writing = { .total = part->events };
    size_t files = paths->n;
    bool bad = false;
    mrd_err err;

    sink_options(options, part, &sink);
    if ((err = part_filter(options, part, &filter, why)) != MRD_OK ||
        (err = open_targets(options, cat, part, to, &targets, paths, why)) != MRD_OK ||
        targets.n == 0)
        goto out;
    err = mrd_merge_open(part->sources, part->n, stream_went_bad, &bad, &merged, why);
    part->n = 0; /* the merge owns the sources now */
    if (err != MRD_OK) {
        for (size_t i = 0; i < targets.n; i++)
            mrd_out_abort(targets.v[i].out);
        goto out;
    }
    mrd_progress_start(&writing.progress, "writing");
    err = mrd_export_run(merged,
                         &(mrd_export_job){ .catalog = cat,
                                            .profile = part->number,
                                            .options = &sink,
                                            .filter = &filter,
                                            .first = part->first,
                                            .last = part->last,
                                            .targets = targets.v,
                                            .n_targets = targets.n,
                                            .progress = show_writing,
                                            .self = &writing },
                         &exported, why);
    mrd_progress_end(&writing.progress);
    if (err == MRD_OK) {
        result->files += paths->n - files;
        result->events += exported.events;
        result->held += exported.held;
        result->arrows += exported.arrows;
        result->incomplete = result->incomplete || bad;
    }
out:
    for (size_t i = 0; i < MAX_FORMATS; i++)
        free(targets.dirs[i]);
    return err;
}

/* Prints the first page of the summary; the file contains the rest. */
static void
print_summary(const char *path, FILE *to)
{
    enum { LINES = 90 };
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t size = 0, n = 0;

    while (file != NULL && getline(&line, &size, file) > 0) {
        if (n++ < LINES)
            fputs(line, to);
    }
    if (n > LINES)
        fprintf(to, "... and %zu more lines in %s\n", n - LINES, path);
    free(line);
    if (file != NULL)
        fclose(file);
}

/* Prints the first paragraph of the report, if there were workers. */
static void
print_verdict(const char *path, FILE *to)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    bool any =
        file != NULL && getline(&line, &size, file) > 0 && strstr(line, " of 0 workers") == NULL;

    if (any)
        fprintf(to, "\n%s", line);
    while (any && getline(&line, &size, file) > 0 && *line != '\n')
        fputs(line, to);
    free(line);
    if (file != NULL)
        fclose(file);
}

/* Prints one line about a written file. */
static void
report_file(const char *path, FILE *to)
{
    char size[MRD_SIZE_TEXT];
    struct stat st;

    fprintf(to, "  %-48s %s\n", path,
            mrd_cli_size(stat(path, &st) == 0 ? (uint64_t) st.st_size : 0, size));
}

/* Prints the further files of a Perfetto trace that was split, and the index that lists them. */
static void
report_parts(const char *path, FILE *to)
{
    mrd_buf name = { 0 };
    size_t part = 2;

    for (;; part++) {
        mrd_pf_part_path(path, part, &name);
        if (name.err != MRD_OK || access(mrd_buf_cstr(&name), F_OK) != 0)
            break;
        report_file(mrd_buf_cstr(&name), to);
    }
    mrd_pf_index_path(path, &name);
    if (part > 2 && name.err == MRD_OK)
        fprintf(to, "  %-48s times and nodes of the %zu parts; each opens alone\n",
                mrd_buf_cstr(&name), part - 1);
    mrd_buf_fini(&name);
}

static void
report(const mrd_strlist *paths, const mrd_profile_result *result, FILE *to)
{
    const char *trace = NULL;

    for (size_t i = 0; i < paths->n; i++) {
        if (mrd_str_ends(mrd_str_of(paths->v[i]), "summary.txt"))
            print_summary(paths->v[i], to);
        if (mrd_str_ends(mrd_str_of(paths->v[i]), "report.txt"))
            print_verdict(paths->v[i], to);
    }
    fprintf(to, "\nWrote %" PRIu64 " event%s", result->events, mrd_plural(result->events));
    if (result->arrows > 0)
        fprintf(to, " and %" PRIu64 " arrow%s from calls to what they began", result->arrows,
                mrd_plural(result->arrows));
    if (result->held > 0)
        fprintf(to, " (%" PRIu64 " outside the slice)", result->held);
    fprintf(to, ":\n");
    for (size_t i = 0; i < paths->n; i++) {
        report_file(paths->v[i], to);
        if (!mrd_str_ends(mrd_str_of(paths->v[i]), ".pftrace"))
            continue;
        report_parts(paths->v[i], to);
        trace = trace == NULL ? paths->v[i] : trace;
    }
    if (trace != NULL)
        fprintf(to, "Open it: meridian open %s   (or drop the file on https://ui.perfetto.dev)\n",
                trace);
}

/* Returns true if the inputs contain only files that were not decoded. The outputs can still list
 * such files. */
static bool
holds_only_files(const mrd_catalog *cat, const mrd_store *store)
{
    size_t files;

    mrd_catalog_artifacts(cat, &files);
    for (size_t i = 0; i < mrd_store_streams(store); i++)
        if (mrd_stream_count(mrd_store_at(store, i)) > 0)
            return false;
    return files > 0;
}

static void
say_without_events(const mrd_catalog *cat, const mrd_store *store, const mrd_profile_result *result)
{
    size_t files;

    mrd_catalog_artifacts(cat, &files);
    if (result->files > 0)
        fprintf(stderr, "the inputs hold no events: the output lists %zu file%s\n", files,
                mrd_plural(files));
    else if (holds_only_files(cat, store))
        fprintf(stderr, "the inputs hold no events: no output was written; --output-format "
                        "summary-text, json or sqlite lists the files\n");
    else
        fprintf(stderr, "the inputs hold no events: no output was written\n");
}

/* Returns true if a format has a column or a folder with the session's name. */
static bool
needs_name(const mrd_strlist *formats)
{
    static const char *const with_name[] = { "parquet", "parquet-explorer", "sqlite", "csv" };

    for (size_t i = 0; i < MRD_COUNT(with_name); i++) {
        if (mrd_strlist_has(formats, mrd_str_of(with_name[i])))
            return true;
    }
    return false;
}

static mrd_err
add_settings(mrd_strlist *to, const char *name, const mrd_strlist *values)
{
    mrd_err err = mrd_strlist_add(to, mrd_str_of(name));

    for (size_t i = 0; i < values->n && err == MRD_OK; i++)
        err = mrd_strlist_add(to, mrd_str_of(values->v[i]));
    return err;
}

/* Sets the session's name in the catalog: the user's, or one that is made from the inputs and the
 * options that select or move events. */
static mrd_err
name_session(const mrd_profile_options *options, mrd_catalog *cat, mrd_why *why)
{
    const char *const texts[] = { options->start, options->end, options->times };
    mrd_strlist settings = { 0 };
    mrd_err err = MRD_OK;

    if (options->session_id != NULL)
        mrd_catalog_set(cat, "session.id", options->session_id);
    if (mrd_catalog_get(cat, "session.id") != NULL || !needs_name(&options->formats))
        return MRD_OK;
    for (size_t i = 0; i < MRD_COUNT(texts) && err == MRD_OK; i++)
        err = mrd_strlist_add(&settings, mrd_str_of(texts[i] == NULL ? "" : texts[i]));
    if (err == MRD_OK)
        err = add_settings(&settings, "cores", &options->cores);
    if (err == MRD_OK)
        err = add_settings(&settings, "types", &options->types);
    if (err == MRD_OK)
        err = add_settings(&settings, "instances", &options->instances);
    if (err == MRD_OK)
        err = add_settings(&settings, "processes", &options->processes);
    err = err != MRD_OK ? mrd_why_set(why, err, 0, "the session's name")
                        : mrd_session_name_set(&settings, cat, why);
    mrd_strlist_fini(&settings);
    return err;
}

mrd_err
mrd_profile_write(const mrd_profile_options *options, mrd_catalog *cat, mrd_store *store, FILE *to,
                  mrd_profile_result *ret_result, mrd_why *why)
{
    struct sigaction act = { .sa_handler = on_interrupt }, old_int, old_term;
    mrd_profile_result result = { 0 };
    mrd_strlist paths = { 0 };
    uint64_t events = 0;
    mrd_places *places = NULL;
    size_t profiles;
    mrd_err err;

    mrd_catalog_devprofiles(cat, &profiles);
    if ((err = name_session(options, cat, why)) != MRD_OK)
        return err;
    if ((err = mrd_places_new(cat, store, options->alignment, &places, why)) != MRD_OK)
        return err;
    sigaction(SIGINT, &act, &old_int);
    sigaction(SIGTERM, &act, &old_term);
    for (uint32_t p = 0; p < (options->print ? 1 : profiles) && err == MRD_OK; p++) {
        profile_part part;

        if ((err = part_open(store, options->alignment, places, p, &part, why)) == MRD_OK &&
            (part.events > 0 || (p == 0 && holds_only_files(cat, store)))) {
            events += part.events;
            err = write_part(options, cat, &part, to, &paths, &result, why);
        }
        part_close(&part);
    }
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGTERM, &old_term, NULL);
    if (err == MRD_CANCELLED && interrupted != 0)
        mrd_why_set(why, err, 0, "interrupted; no incomplete output was left");
    if (err == MRD_OK && events == 0)
        say_without_events(cat, store, &result);
    if (err == MRD_OK && result.files > 0 && !options->print)
        report(&paths, &result, to);
    if (err == MRD_OK && events > 0 && result.events == 0) {
        result.incomplete = true;
        if (result.held > 0)
            fprintf(
                stderr,
                "the slice is empty: all %" PRIu64
                " %s outside it (--start, --end, --filter-process, --system-trace-filter-...)\n",
                events, events == 1 ? "event lies" : "events lie");
        else
            fprintf(stderr, "the outputs show none of the %" PRIu64 " event%s of the inputs\n",
                    events, mrd_plural(events));
    }
    mrd_places_free(places);
    mrd_strlist_fini(&paths);
    *ret_result = result;
    return err;
}
