/*
 * trace/table/rows.h - events of a merged profile as rows of the tables of a dialect (schema.h): what
 * writers of Parquet, SQLite and CSV are given.
 *
 * Rows of events, counters, flows, losses, steps and collectives come while events do, in their order;
 * all other tables come with finish, one after the other. Memory grows with tracks, names and workers,
 * not with events. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_ROWS_H
#define MRD_TRACE_TABLE_ROWS_H

#include "trace/model/sink.h"
#include "trace/table/schema.h"

/* A row of the dialect's table number `table`: its columns' fields are in slots. Where the table is
 * mrd_rows_by_track, fields of the track are not: mrd_rows_track has them, by slots[F_TRACK]. Borrowed
 * for the call. */
typedef mrd_err mrd_rows_fn(void *self, size_t table, const mrd_slot slots[F_COUNT]);

/* Rows whose fields F_TRACK to F_TRACK_LAST are those of the track in F_TRACK. */
static inline bool
mrd_rows_by_track(mrd_rows_kind kind)
{
    return kind <= MRD_ROWS_LOSSES || kind == MRD_ROWS_CPU;
}

static inline bool
mrd_field_of_track(mrd_field f)
{
    return f >= F_TRACK && f <= F_TRACK_LAST;
}

typedef struct mrd_rows mrd_rows;

/* `env` outlives it. Errors: NOMEM. */
mrd_err mrd_rows_new(const mrd_sink_env *env, const mrd_dialect *dialect, mrd_rows_fn *give,
                     void *self, mrd_rows **ret_rows, mrd_why *why);
void mrd_rows_free(mrd_rows *r); /* NULL is fine */
/* Errors: NOMEM, STATE for a track that was not there, those of give. */
mrd_err mrd_rows_event(mrd_rows *r, const mrd_event *ev);
/* Once, after the last event. */
mrd_err mrd_rows_finish(mrd_rows *r);

/* Fields F_TRACK .. F_TRACK_LAST of a track, at [field - F_TRACK]. */
const mrd_slot *mrd_rows_track(const mrd_rows *r, mrd_track_id track);
size_t mrd_rows_tracks(const mrd_rows *r);
/* Text of a SID of a row: the catalog's, and words of the tables themselves. NUL-terminated. */
mrd_str mrd_rows_text(const mrd_rows *r, mrd_sid sid);
size_t mrd_rows_sids(const mrd_rows *r); /* all are below */

/* What names a profile's tables: letters, digits, '-', '_' and '.', with s- in front ("s-files" where there is no session), and
 * the day it begins, UTC ("1970-01-01" where times are not of an epoch). */
const char *mrd_rows_session(const mrd_rows *r);
const char *mrd_rows_date(const mrd_rows *r);

#endif
