/*
 * trace/sink/sink_csv.c - writes the tables of trace/table/schema.h as CSV files, for spreadsheets
 * and small scripts. docs/reference/data.md describes them.
 */
#include "base/obj.h"
#include "trace/table/csv.h"

typedef struct {
    mrd_csv *csv;
    bool failed, folder;
} csv_sink;

static mrd_err
csv_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    csv_sink *sink = state;

    sink->folder = env->dir != NULL;
    return mrd_csv_open(env, &sink->csv, why);
}

static mrd_err
csv_event(void *state, const mrd_event *ev)
{
    csv_sink *sink = state;
    mrd_err err = mrd_csv_event(sink->csv, ev);

    sink->failed = sink->failed || err != MRD_OK;
    return err;
}

static mrd_err
csv_close(void *state, mrd_why *why)
{
    csv_sink *sink = state;

    /* `why` is NULL if another output failed. Then the files are removed, too, because without a
     * manifest they count as incomplete. */
    return mrd_csv_close(sink->csv, !sink->failed && (why != NULL || !sink->folder), why);
}

const mrd_sink_ops mrd_sink_csv = {
    .name = "csv",
    .stem = "csv",
    .suffix = ".tar",
    .media_type = "application/x-tar",
    .what = "tables as a folder of CSV files; over HTTP a tar archive",
    .state_size = sizeof(csv_sink),
    .folder = true,
    .lists_files = true,
    .open = csv_open,
    .event = csv_event,
    .close = csv_close,
};
