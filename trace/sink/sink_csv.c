/*
 * trace/sink/sink_csv.c - the tables of trace/table/schema.h as CSV files, for spreadsheets and small
 * scripts: docs/reference/data.md.
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
    csv_sink *s = state;

    s->folder = env->dir != NULL;
    return mrd_csv_open(env, &s->csv, why);
}

static mrd_err
csv_event(void *state, const mrd_event *ev)
{
    csv_sink *s = state;
    mrd_err err = mrd_csv_event(s->csv, ev);

    s->failed = s->failed || err != MRD_OK;
    return err;
}

static mrd_err
csv_close(void *state, mrd_why *why)
{
    csv_sink *s = state;

    /* A NULL `why` means that another output failed: no files remain without a manifest. */
    return mrd_csv_close(s->csv, !s->failed && (why != NULL || !s->folder), why);
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
