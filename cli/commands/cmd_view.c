/* `meridian view`: reads capture directories and trace files, and writes one merged profile. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/obj.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/term/progress.h"
#include "cli/view/output_lock.h"
#include "cli/view/times.h"
#include "cli/view/view.h"
#include "trace/import/import.h"
#include "trace/sink/text.h"

typedef struct {
    mrd_view_options view;
    /* port at which the result is served as by `meridian open`; 0 means that it is not served */
    int64_t port;
} settings;

#define AT(member) .offset = offsetof(settings, view.member)

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Input" },
    { .name = "session-dir",
      .letter = 'd',
      .type = MRD_OPT_PATHS,
      AT(dirs),
      .arg = "DIR",
      .help =
          "capture directory, or a folder of traces; repeatable (files may be given as words)" },
    { .name = "ignore-system-profile",
      .type = MRD_OPT_BOOL,
      AT(ignore_system),
      .help = "do not read the system profile" },
    { .name = "ignore-device-profile",
      .type = MRD_OPT_BOOL,
      AT(ignore_device),
      .help = "do not read device profiles" },
    { .name = "vendor-tool",
      .type = MRD_OPT_STR,
      AT(vendor_tool),
      .arg = "PATH|none",
      .env = "MERIDIAN_VENDOR_TOOL",
      .help = "neuron-explorer or neuron-profile, to convert NTFF and .pb files (default: found on "
              "PATH "
              "or in /opt/aws/neuron/bin)" },
    { .name = "vendor-timeout",
      .type = MRD_OPT_DUR,
      AT(vendor_timeout),
      .def = "10min",
      .min = MRD_MS,
      .max = 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "time limit of one conversion" },
    { .name = "vendor-memory",
      .type = MRD_OPT_SIZE,
      AT(vendor_memory),
      .def = "0",
      .min = 0,
      .max = INT64_MAX / 2,
      .arg = "SIZE",
      .help = "memory that a conversion may use, its child processes included; 0: no limit" },
    { .name = "vendor-size",
      .type = MRD_OPT_SIZE,
      AT(vendor_size),
      .def = "64G",
      .min = 0,
      .max = INT64_MAX / 2,
      .arg = "SIZE",
      .help = "bytes that a conversion may write; 0: no limit" },
    MRD_VIEW_KIND_ROWS(settings, view),
    MRD_VIEW_CLOCK_ROWS(settings, view),
    { .name = "clock",
      .type = MRD_OPT_CHOICE,
      AT(clock),
      .def = "aligned",
      .arg = "aligned,utc,raw",
      .help = "times to write: aligned; utc, each process's own wall clock; raw, as the input has "
              "them" },
    MRD_PROFILE_OUTPUT_ROWS(settings, view.profile, "profile"),
    { .name = "port",
      .type = MRD_OPT_INT,
      .offset = offsetof(settings, port),
      .def = "0",
      .min = 0,
      .max = 65535,
      .arg = "N",
      .help = "then show the profile as `meridian open --port N` does; ui.perfetto.dev may only "
              "fetch from 9001" },
    MRD_PROFILE_SLICE_ROWS(settings, view.profile),
    MRD_VIEW_RESOURCE_ROWS(settings, view),
};

static const char more[] =
    "Examples\n  meridian view -d ./output                      a capture directory of one or many "
    "nodes\n  meridian view rank*.json.gz -o merged          framework traces of several ranks\n  "
    "meridian view -d ./output --output-format json,summary-text \\\n      "
    "--system-trace-filter-event-type ^nrt_tensor_free --start 2s --end 4s\n\nKinds of input are "
    "recognised by content: Trace Event JSON (Kineto, JAX, Chrome), XSpace\n(.xplane.pb), "
    "Perfetto traces (track events), runtime system trace JSON, exported system and\ndevice "
    "profile "
    "JSON, neuron-monitor reports, dumps of PyTorch's flight recorder; plain, gzip\nor zstd.\n";

/* Returns the bytes of all files below `path`, for the progress line; 0 if unknown. */
static uint64_t
input_size(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t) st.st_size : 0;
}

typedef struct {
    mrd_progress progress;
    uint64_t done, total; /* bytes of the files that were read, and bytes of all input files */
} view_reading;

static void
show_reading(void *self, const char *path, uint64_t done, uint64_t total)
{
    view_reading *reading = self;

    (void) total;
    mrd_progress_show(&reading->progress, reading->done + done, reading->total, "B", path);
}

static mrd_err
read_inputs(const mrd_view_options *set, const mrd_strlist *words, mrd_catalog *cat,
            mrd_store *store, mrd_why *why)
{
    view_reading reading = { 0 };
    mrd_read_once once = { 0 };
    bool never = set->vendor_tool != NULL && strcmp(set->vendor_tool, "none") == 0;
    mrd_read_options options = { .catalog = cat,
                                 .store = store,
                                 .system = !set->ignore_system,
                                 .device = !set->ignore_device,
                                 .vendor_tool = never ? "" : set->vendor_tool,
                                 .vendor_timeout_ms = set->vendor_timeout / MRD_MS,
                                 .vendor_memory = (uint64_t) set->vendor_memory,
                                 .vendor_disk = (uint64_t) set->vendor_size,
                                 .once = &once,
                                 .progress = show_reading,
                                 .self = &reading };
    mrd_identity nowhere = MRD_IDENTITY_UNKNOWN;
    mrd_err err = MRD_OK, end;

    for (size_t i = 0; i < words->n && set->dirs.n == 0; i++)
        reading.total += input_size(words->v[i]);
    mrd_progress_start(&reading.progress, "reading");
    for (size_t i = 0; i < set->dirs.n && err == MRD_OK; i++)
        err = mrd_read_dir(&options, set->dirs.v[i], why);
    for (size_t i = 0; i < words->n && err == MRD_OK; i++) {
        struct stat st;

        if (stat(words->v[i], &st) != 0)
            err = mrd_why_set(why, MRD_NOTFOUND, errno, "cannot read '%s'", words->v[i]);
        else if (S_ISDIR(st.st_mode))
            err = mrd_read_dir(&options, words->v[i], why);
        else
            err = mrd_read_file(&options, words->v[i], &nowhere, why);
        reading.done += input_size(words->v[i]);
    }
    mrd_progress_end(&reading.progress);
    end = mrd_read_once_end(&once, cat, store);
    err = err != MRD_OK ? err : end;
    if (err == MRD_OK)
        err = mrd_catalog_err(cat);
    if (err != MRD_OK && why->err == MRD_OK)
        mrd_why_set(why, err, 0, "reading the inputs");
    for (size_t i = 0; i < mrd_store_streams(store) && err == MRD_OK; i++)
        err = mrd_stream_finish(mrd_store_at(store, i), why);
    return err;
}

/* Prints one line about the part of an input that is missing. */
static void
report_input(const mrd_input *in, mrd_str error)
{
    mrd_buf line = { 0 };

    mrd_buf_str(&line, error);
    if (in->skipped > 0)
        mrd_buf_fmt(&line, " (%" PRIu64 " record%s and %" PRIu64 " byte%s of text are lost)",
                    in->dropped, mrd_plural(in->dropped), in->skipped, mrd_plural(in->skipped));
    else if (in->dropped > 0 && in->events > 0)
        mrd_buf_fmt(&line, " (%" PRIu64 " of %" PRIu64 " records are lost)", in->dropped,
                    in->records);
    mrd_cli_say(in->state == MRD_INPUT_FAILED ? "not read" : "read in part",
                line.err != MRD_OK ? error : (mrd_str){ (const char *) line.p, line.len });
    mrd_buf_fini(&line);
}

bool
mrd_view_report_inputs(const mrd_catalog *cat)
{
    size_t n;
    const mrd_input *inputs = mrd_catalog_inputs(cat, &n);
    bool whole = true;

    for (size_t i = 0; i < n; i++) {
        const mrd_input *in = &inputs[i];

        if (in->state != MRD_INPUT_INCOMPLETE && in->state != MRD_INPUT_FAILED)
            continue;
        whole = false;
        report_input(in, mrd_catalog_text(cat, in->error));
    }
    for (size_t i = 0; i < mrd_catalog_notes(cat); i++)
        mrd_cli_say("note", mrd_catalog_note_at(cat, i));
    return whole;
}

/* Adds the clocks of all inputs to the catalog (the names, tracks and clocks of the profile), and
 * aligns the clocks if the options request it. */
static mrd_err
align_inputs(const mrd_view_options *set, mrd_catalog *cat, mrd_store *store,
             mrd_alignment **ret_alignment, mrd_why *why)
{
    mrd_align_options options = { .method = (mrd_align_method) set->align,
                                  .times = (mrd_align_times) set->clock,
                                  .trust = set->trust,
                                  .memory = (size_t) set->memory,
                                  .classify = set->profile.classify };
    mrd_err err = mrd_alignment_new(&options, cat, store, ret_alignment, why);

    if (err == MRD_OK && mrd_alignment_refused(*ret_alignment) != NULL)
        mrd_cli_say("the inputs are not all aligned",
                    mrd_str_of(mrd_alignment_refused(*ret_alignment)));
    return err;
}

int
mrd_view_run(const char *command, mrd_view_options *set, const mrd_strlist *words)
{
    mrd_why why = { 0 };
    mrd_catalog *cat = mrd_catalog_new();
    mrd_store *store = mrd_store_new((size_t) set->memory, set->spill_dir);
    mrd_alignment *alignment = NULL;
    mrd_kernel_rules *rules = NULL;
    mrd_profile_result result = { 0 };
    mrd_output_lock lock = MRD_OUTPUT_LOCK_NONE;
    char times[64];
    int status = MRD_EXIT_FAILED;
    bool whole;
    mrd_err err;

    if (cat == NULL || store == NULL) {
        err = mrd_why_set(&why, MRD_NOMEM, 0, "starting");
        goto out;
    }
    mrd_catalog_set(cat, "meridian.version", MRD_RELEASE);
    if (*mrd_version_commit() != '\0')
        mrd_catalog_set(cat, "meridian.commit", mrd_version_commit());
    if (set->profile.same_clock && set->align != 0)
        err = mrd_why_set(&why, MRD_INVALID, 0,
                          "--same-clock and --align: times of one clock are not moved; give one of "
                          "them");
    else
        err = mrd_profile_check(&set->profile, &why);
    if (err == MRD_OK && set->classify != NULL)
        err = mrd_kernel_rules_load(set->classify, &rules, &why);
    set->profile.classify = rules;
    if (err != MRD_OK) {
        status = MRD_EXIT_USAGE;
        goto out;
    }
    if (!set->profile.print &&
        ((err = mrd_profile_check_output(&set->profile, &why)) != MRD_OK ||
         (err = mrd_output_lock_take(&lock, set->profile.dir, &why)) != MRD_OK))
        goto out;
    if ((err = read_inputs(set, words, cat, store, &why)) != MRD_OK)
        goto out;
    if ((err = mrd_note_times(cat, store, set->align == 0, &why)) != MRD_OK)
        goto out;
    if (!set->profile.print && mrd_store_lacks_ends(store))
        mrd_catalog_note(cat, "too many arrows have several ends: some of them may be drawn as a "
                              "chain through their ends");
    whole = mrd_view_report_inputs(cat);
    if ((err = mrd_filter_check_types(&set->profile.types, cat, &why)) != MRD_OK) {
        status = MRD_EXIT_USAGE;
        goto out;
    }
    if ((err = align_inputs(set, cat, store, &alignment, &why)) != MRD_OK)
        goto out;
    whole = whole && mrd_alignment_refused(alignment) == NULL;
    set->profile.alignment = alignment;
    snprintf(times, sizeof(times), "%d %d %" PRId64, set->align, set->clock, set->trust);
    set->profile.times = times;
    if ((err = mrd_profile_write(&set->profile, cat, store, set->to == NULL ? stdout : set->to,
                                 &result, &why)) != MRD_OK)
        goto out;
    if (result.files == 0)
        status = MRD_EXIT_FAILED; /* mrd_profile_write printed the reason */
    else
        status = whole && !result.incomplete ? MRD_EXIT_OK : MRD_EXIT_INCOMPLETE;
out:
    if (err != MRD_OK)
        mrd_cli_error(command, &why);
    mrd_output_lock_release(&lock);
    mrd_alignment_free(alignment);
    mrd_kernel_rules_free(rules);
    mrd_store_free(store);
    mrd_catalog_free(cat);
    return status;
}

static int
run(void *self, const mrd_strlist *words)
{
    settings *set = self;
    char number[8], open[] = "open", port[] = "--port";
    char *argv[] = { open, set->view.profile.dir, port, number, NULL };
    int status, shown = MRD_EXIT_OK;

    if (set->port > 0 && !mrd_strlist_has(&set->view.profile.formats, MRD_STR("perfetto"))) {
        fprintf(stderr, "meridian view: --port shows a Perfetto file: add perfetto to "
                        "--output-format\n");
        return MRD_EXIT_USAGE;
    }
    if (words->n > 0 || set->view.dirs.n > 0) {
        status = mrd_view_run("view", &set->view, words);
        snprintf(number, sizeof(number), "%" PRId64, set->port);
        if (set->port > 0 && (status == MRD_EXIT_OK || status == MRD_EXIT_INCOMPLETE))
            shown = mrd_cmd_open(MRD_COUNT(argv) - 1, argv);
        return shown != MRD_EXIT_OK ? shown : status;
    }
    fprintf(stderr,
            "meridian view: nothing to read: give -d DIR or files (--help shows examples)\n");
    return MRD_EXIT_USAGE;
}

int
mrd_cmd_view(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cli_frame frame = { .usage = "[-d DIR]... [FILE]... [options]",
                            .more = more,
                            .table = table,
                            .rows = MRD_COUNT(table),
                            .settings = &set,
                            .max_words = UINT_MAX,
                            .run = run };

    return mrd_cli_main(&frame, argc, argv);
}
