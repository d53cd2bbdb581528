/*
 * trace/sink/sink_sqlite.c - writes the tables of trace/table/schema.h as one SQLite database,
 * which docs/reference/data.md describes
 */
#include "trace/model/sink.h"
#include "trace/table/sqlite.h"

typedef struct {
    mrd_sqlite *db;
    bool failed;
} sqlite_sink;

static mrd_err
sqlite_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    return mrd_sqlite_open(env, &((sqlite_sink *) state)->db, why);
}

static mrd_err
sqlite_event(void *state, const mrd_event *ev)
{
    sqlite_sink *sink = state;
    mrd_err err = mrd_sqlite_event(sink->db, ev);

    sink->failed = sink->failed || err != MRD_OK;
    return err;
}

static mrd_err
sqlite_close(void *state, mrd_why *why)
{
    sqlite_sink *sink = state;

    return mrd_sqlite_close(sink->db, !sink->failed, why);
}

const mrd_sink_ops mrd_sink_sqlite = {
    .name = "sqlite",
    .stem = "profile",
    .suffix = ".sqlite",
    .media_type = "application/vnd.sqlite3",
    .title = "SQLite",
    .what = "tables as one SQLite database, with the shipped queries as views",
    .state_size = sizeof(sqlite_sink),
    .lists_files = true,
    .open = sqlite_open,
    .event = sqlite_event,
    .close = sqlite_close,
};
