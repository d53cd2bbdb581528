/*
 * trace/table/rows.h - converts events of a merged profile to rows of the tables of a dialect
 * (schema.h), for the writers of Parquet, SQLite and CSV.
 *
 * Rows of events, counters, flows, losses, steps and collectives are emitted with the events, in
 * their order. All other tables are emitted by mrd_rows_finish, table by table. Memory depends on
 * the numbers of tracks, names and workers, not of events. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_ROWS_H
#define MRD_TRACE_TABLE_ROWS_H

#include "trace/model/sink.h"
#include "trace/table/schema.h"

/* Receives one row of table number `table`. slots[f] has the value of field f. If mrd_rows_by_track
 * is true for the table, slots[F_TRACK] is the track's number. The other fields of the track are
 * then unset, and mrd_rows_track returns them. `slots` is valid during the call. */
typedef mrd_err mrd_rows_fn(void *self, size_t table, const mrd_slot slots[F_COUNT]);

/* Returns true if the table's rows belong to tracks. F_TRACK to F_TRACK_LAST then depend only on
 * the track. */
static inline bool
mrd_rows_by_track(mrd_rows_kind kind)
{
    return kind <= MRD_ROWS_LOSSES || kind == MRD_ROWS_CPU;
}

static inline bool
mrd_field_of_track(mrd_field field)
{
    return field >= F_TRACK && field <= F_TRACK_LAST;
}

typedef struct mrd_rows mrd_rows;

/* Creates a converter. `env` must outlive it. Errors: NOMEM. */
mrd_err mrd_rows_new(const mrd_sink_env *env, const mrd_dialect *dialect, mrd_rows_fn *give,
                     void *self, mrd_rows **ret_rows, mrd_why *why);
void mrd_rows_free(mrd_rows *rows); /* NULL is allowed */
/* Emits the rows of an event. Errors: NOMEM, STATE for an unknown track, errors of `give`. */
mrd_err mrd_rows_event(mrd_rows *rows, const mrd_event *ev);
/* Emits the rows of all other tables. Call once, after the last event. */
mrd_err mrd_rows_finish(mrd_rows *rows);

/* Returns the fields F_TRACK to F_TRACK_LAST of a track. The first one is F_TRACK, at index 0. */
const mrd_slot *mrd_rows_track(const mrd_rows *rows, mrd_track_id track);
size_t mrd_rows_tracks(const mrd_rows *rows);
/* Returns the text of a SID (the id of a text) in a row, NUL-terminated. It comes from the catalog,
 * or is a word of the tables themselves. */
mrd_str mrd_rows_text(const mrd_rows *rows, mrd_sid sid);
size_t mrd_rows_sids(const mrd_rows *rows); /* a number that is greater than all SIDs */

/* Return the name and the date in the paths of the tables' files. The name is "s-" and the
 * session's id, with only letters, digits, '-', '_' and '.'; "s-files" without a session. The date
 * is the UTC day on which the profile begins, "1970-01-01" for times without an epoch. */
const char *mrd_rows_session(const mrd_rows *rows);
const char *mrd_rows_date(const mrd_rows *rows);

#endif
