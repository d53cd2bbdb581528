/*
 * trace/sink/sink_parquet.c - writes the tables of trace/table/schema.h as Parquet files, for
 * DuckDB, ClickHouse, pandas and others. docs/reference/data.md describes them.
 */
#include "base/obj.h"
#include "trace/table/parts.h"

typedef struct {
    mrd_parts *parts;
    bool failed, folder;
} parquet_sink;

static mrd_err
parquet_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    parquet_sink *sink = state;

    sink->folder = env->dir != NULL;
    return mrd_parts_open(env, &mrd_dialect_meridian, &sink->parts, why);
}

static mrd_err
parquet_event(void *state, const mrd_event *ev)
{
    parquet_sink *sink = state;
    mrd_err err = mrd_parts_event(sink->parts, ev);

    sink->failed = sink->failed || err != MRD_OK;
    return err;
}

static mrd_err
parquet_close(void *state, mrd_why *why)
{
    parquet_sink *sink = state;

    /* `why` is NULL if another output failed. Then the files are removed, too, because without a
     * manifest they count as incomplete. */
    return mrd_parts_close(sink->parts, !sink->failed && (why != NULL || !sink->folder), why);
}

const mrd_sink_ops mrd_sink_parquet = {
    .name = "parquet",
    .stem = "tables",
    .suffix = ".tar",
    .media_type = "application/x-tar",
    .what = "tables as a folder of Parquet files, for DuckDB, ClickHouse, pandas; over HTTP a tar "
            "archive",
    .state_size = sizeof(parquet_sink),
    .folder = true,
    .lists_files = true,
    .open = parquet_open,
    .event = parquet_event,
    .close = parquet_close,
};
