/*
 * trace/sink/sink_parquet_explorer.c - writes the system profile as Parquet files with the tables,
 * columns and names of the vendor's schema. docs/reference/data.md describes them.
 */
#include "base/obj.h"
#include "trace/table/parts.h"

typedef struct {
    mrd_parts *parts;
    bool failed, folder;
} explorer_sink;

static mrd_err
explorer_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    explorer_sink *sink = state;

    sink->folder = env->dir != NULL;
    return mrd_parts_open(env, &mrd_dialect_explorer, &sink->parts, why);
}

static mrd_err
explorer_event(void *state, const mrd_event *ev)
{
    explorer_sink *sink = state;
    mrd_err err = mrd_parts_event(sink->parts, ev);

    sink->failed = sink->failed || err != MRD_OK;
    return err;
}

static mrd_err
explorer_close(void *state, mrd_why *why)
{
    explorer_sink *sink = state;

    /* `why` is NULL if another output failed. Then the files are removed, too, because without a
     * manifest they count as incomplete. */
    return mrd_parts_close(sink->parts, !sink->failed && (why != NULL || !sink->folder), why);
}

const mrd_sink_ops mrd_sink_parquet_explorer = {
    .name = "parquet-explorer",
    .stem = "system_profile",
    .suffix = ".tar",
    .media_type = "application/x-tar",
    .what = "the vendor's tables (schema 7.4.0) as a folder of Parquet "
            "files; over HTTP a tar archive",
    .state_size = sizeof(explorer_sink),
    .folder = true,
    .each_half = true,
    .lists_files = true,
    .open = explorer_open,
    .event = explorer_event,
    .close = explorer_close,
};
