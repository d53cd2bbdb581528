#include "trace/table/sqlite.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/obj.h"
#include "trace/table/queries.h"

#define APPLICATION_ID 0x4d524454 /* the characters "MRDT" in the database's header */

typedef struct {
    const mrd_table_def *t;
    /* the rows are in the table <name>_data, and <name> is a view that adds the columns of the
     * track */
    bool by_track;
    sqlite3_stmt *insert;
} table;

struct mrd_sqlite {
    const mrd_sink_env *env;
    const mrd_dialect *dialect;
    mrd_rows *rows;
    sqlite3 *db;
    char *path; /* path of the temporary file */
    table *tables;
    mrd_buf sql;
};

static mrd_err
bad(const mrd_sqlite *sqlite, mrd_why *why)
{
    int code = sqlite->db == NULL ? SQLITE_NOMEM : sqlite3_errcode(sqlite->db);

    return mrd_why_set(why,
                       code == SQLITE_FULL    ? MRD_FULL
                       : code == SQLITE_NOMEM ? MRD_NOMEM
                                              : MRD_IO,
                       sqlite->db == NULL ? 0 : sqlite3_system_errno(sqlite->db),
                       "writing the database %s: %s", sqlite->path,
                       sqlite->db == NULL ? "out of memory" : sqlite3_errmsg(sqlite->db));
}

static mrd_err
run(mrd_sqlite *sqlite, const char *sql, mrd_why *why)
{
    return sqlite3_exec(sqlite->db, sql, NULL, NULL, NULL) == SQLITE_OK ? MRD_OK : bad(sqlite, why);
}

static mrd_err
run_text(mrd_sqlite *sqlite, mrd_why *why)
{
    mrd_err err = sqlite->sql.err != MRD_OK ? mrd_why_set(why, sqlite->sql.err, 0, "database")
                                            : run(sqlite, mrd_buf_cstr(&sqlite->sql), why);

    mrd_buf_reset(&sqlite->sql);
    return err;
}

/* ---- Making tables and views ---- */

static bool
is_stored(const table *t, size_t column)
{
    return !t->by_track || !mrd_field_of_track(t->t->columns[column].field);
}

static const char *
type_of(const table *t, mrd_col_type type)
{
    if (type == MRD_COL_DOUBLE || type == MRD_COL_FLOAT)
        return "REAL";
    return type == MRD_COL_TEXT || (type == MRD_COL_SID && !t->by_track) ? "TEXT" : "INTEGER";
}

/* Returns the name of the column in the table `tracks` that has this field. */
static const char *
track_column(const mrd_sqlite *sqlite, mrd_field field)
{
    for (size_t i = 0; i < sqlite->dialect->n; i++) {
        const mrd_table_def *def = &sqlite->dialect->tables[i];

        for (size_t c = 0; c < def->n && def->rows == MRD_ROWS_TRACKS; c++) {
            if (def->columns[c].field == field)
                return def->columns[c].name;
        }
    }
    return "track_id";
}

static void
put_view(mrd_sqlite *sqlite, const table *t)
{
    mrd_buf_fmt(&sqlite->sql, "CREATE VIEW %s AS SELECT ", t->t->name);
    for (size_t i = 0; i < t->t->n; i++) {
        const mrd_column *column = &t->t->columns[i];

        mrd_buf_text(&sqlite->sql, i == 0 ? "" : ", ");
        if (!is_stored(t, i) && column->field == F_TRACK)
            mrd_buf_fmt(&sqlite->sql, "d.track_id AS %s", column->name);
        else if (!is_stored(t, i))
            mrd_buf_fmt(&sqlite->sql, "t.%s AS %s", track_column(sqlite, column->field),
                        column->name);
        else if (column->type == MRD_COL_SID)
            mrd_buf_fmt(&sqlite->sql, "(SELECT text FROM strings WHERE id = d.%s) AS %s",
                        column->name, column->name);
        else
            mrd_buf_fmt(&sqlite->sql, "d.%s AS %s", column->name, column->name);
    }
    mrd_buf_fmt(&sqlite->sql,
                " FROM %s_data AS d LEFT JOIN tracks AS t ON t.track_id = d.track_id;\n",
                t->t->name);
}

static mrd_err
make_table(mrd_sqlite *sqlite, table *t, mrd_why *why)
{
    size_t stored = 0;
    bool key = t->t->rows == MRD_ROWS_EVENTS || t->t->rows == MRD_ROWS_TRACKS;

    mrd_buf_fmt(&sqlite->sql, "CREATE TABLE %s%s (", t->t->name, t->by_track ? "_data" : "");
    for (size_t i = 0; i < t->t->n; i++) {
        const mrd_column *column = &t->t->columns[i];

        if (is_stored(t, i))
            mrd_buf_fmt(&sqlite->sql, "%s%s %s%s", stored == 0 ? "" : ", ", column->name,
                        type_of(t, column->type), stored == 0 && key ? " PRIMARY KEY" : "");
        stored += is_stored(t, i);
    }
    mrd_buf_fmt(&sqlite->sql, "%s) STRICT;\n", t->by_track ? ", track_id INTEGER" : "");
    if (t->by_track)
        put_view(sqlite, t);
    return run_text(sqlite, why);
}

static mrd_err
prepare(mrd_sqlite *sqlite, table *t, mrd_why *why)
{
    size_t n = t->by_track;
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < t->t->n; i++)
        n += is_stored(t, i);
    mrd_buf_fmt(&sqlite->sql, "INSERT INTO %s%s VALUES (", t->t->name, t->by_track ? "_data" : "");
    for (size_t i = 0; i < n; i++)
        mrd_buf_text(&sqlite->sql, i == 0 ? "?" : ",?");
    mrd_buf_text(&sqlite->sql, ")");
    if (sqlite->sql.err != MRD_OK)
        err = mrd_why_set(why, sqlite->sql.err, 0, "database");
    else if (sqlite3_prepare_v3(sqlite->db, mrd_buf_cstr(&sqlite->sql), -1,
                                SQLITE_PREPARE_PERSISTENT, &t->insert, NULL) != SQLITE_OK)
        err = bad(sqlite, why);
    mrd_buf_reset(&sqlite->sql);
    return err;
}

/* ---- Inserting rows ---- */

static void
bind(mrd_sqlite *sqlite, const table *t, const mrd_column *column, int at, const mrd_slot *slot)
{
    mrd_str text;

    switch (column->type) {
    case MRD_COL_I64:
    case MRD_COL_BOOL:
        if (column->optional && slot->i == -1)
            sqlite3_bind_null(t->insert, at);
        else
            sqlite3_bind_int64(t->insert, at, slot->i);
        break;
    case MRD_COL_DOUBLE:
    case MRD_COL_FLOAT:
        sqlite3_bind_double(t->insert, at, slot->d);
        break;
    case MRD_COL_SID:
        if (t->by_track) {
            sqlite3_bind_int64(t->insert, at, slot->sid);
            break;
        }
        text = mrd_rows_text(sqlite->rows, slot->sid);
        sqlite3_bind_text(t->insert, at, text.len == 0 ? "" : text.p, (int) text.len,
                          SQLITE_STATIC);
        break;
    case MRD_COL_TEXT:
        sqlite3_bind_text(t->insert, at, slot->text.len == 0 ? "" : slot->text.p,
                          (int) slot->text.len, SQLITE_STATIC);
        break;
    case MRD_COL_FLOWS:
        /* only the explorer dialect has such columns, and it is never written as SQLite */
        break;
    }
}

static mrd_err
put_row(void *self, size_t number, const mrd_slot slots[F_COUNT])
{
    mrd_sqlite *sqlite = self;
    table *t = &sqlite->tables[number];
    int at = 0;

    for (size_t i = 0; i < t->t->n; i++) {
        if (is_stored(t, i))
            bind(sqlite, t, &t->t->columns[i], ++at, &slots[t->t->columns[i].field]);
    }
    if (t->by_track)
        sqlite3_bind_int64(t->insert, ++at, slots[F_TRACK].i);
    if (sqlite3_step(t->insert) != SQLITE_DONE)
        return sqlite3_errcode(sqlite->db) == SQLITE_FULL ? MRD_FULL : MRD_IO;
    return sqlite3_reset(t->insert) == SQLITE_OK ? MRD_OK : MRD_IO;
}

static mrd_err
put_strings(mrd_sqlite *sqlite, mrd_why *why)
{
    sqlite3_stmt *insert = NULL;
    mrd_err err = MRD_OK;

    if (sqlite3_prepare_v2(sqlite->db, "INSERT INTO strings VALUES (?,?)", -1, &insert, NULL) !=
        SQLITE_OK)
        return bad(sqlite, why);
    for (size_t i = 0; i < mrd_rows_sids(sqlite->rows) && err == MRD_OK; i++) {
        mrd_str text = mrd_rows_text(sqlite->rows, (mrd_sid) i);

        sqlite3_bind_int64(insert, 1, (int64_t) i);
        sqlite3_bind_text(insert, 2, text.len == 0 ? "" : text.p, (int) text.len, SQLITE_STATIC);
        if (sqlite3_step(insert) != SQLITE_DONE || sqlite3_reset(insert) != SQLITE_OK)
            err = bad(sqlite, why);
    }
    sqlite3_finalize(insert);
    return err;
}

/* ---- Opening and closing ---- */

static mrd_err
make_file(mrd_sqlite *sqlite, mrd_why *why)
{
    const char *dir = getenv("TMPDIR");
    int fd;

    if (asprintf(&sqlite->path, "%s/meridian-XXXXXX",
                 dir != NULL && *dir != '\0' ? dir : "/var/tmp") < 0) {
        sqlite->path = NULL;
        return mrd_why_set(why, MRD_NOMEM, 0, "database");
    }
    if ((fd = mkstemp(sqlite->path)) < 0)
        return mrd_why_set(why, MRD_IO, errno, "cannot make a temporary file as %s", sqlite->path);
    close(fd);
    return sqlite3_open_v2(sqlite->path, &sqlite->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                           NULL) == SQLITE_OK
               ? MRD_OK
               : bad(sqlite, why);
}

static mrd_err
make_schema(mrd_sqlite *sqlite, mrd_why *why)
{
    mrd_err err =
        run(sqlite,
            "PRAGMA journal_mode = off; PRAGMA synchronous = off; PRAGMA locking_mode = exclusive;"
            "PRAGMA cache_size = -16384; BEGIN;"
            "CREATE TABLE strings (id INTEGER PRIMARY KEY, text TEXT) STRICT;",
            why);

    mrd_buf_fmt(&sqlite->sql, "PRAGMA application_id = %d; PRAGMA user_version = %s;",
                APPLICATION_ID, sqlite->dialect->version);
    if (err == MRD_OK)
        err = run_text(sqlite, why);
    for (size_t i = 0; i < sqlite->dialect->n && err == MRD_OK; i++) {
        sqlite->tables[i].t = &sqlite->dialect->tables[i];
        sqlite->tables[i].by_track = mrd_rows_by_track(sqlite->tables[i].t->rows);
        if ((err = make_table(sqlite, &sqlite->tables[i], why)) == MRD_OK)
            err = prepare(sqlite, &sqlite->tables[i], why);
    }
    return err;
}

static void
sqlite_free(mrd_sqlite *sqlite)
{
    for (size_t i = 0; sqlite->tables != NULL && i < sqlite->dialect->n; i++)
        sqlite3_finalize(sqlite->tables[i].insert);
    sqlite3_close(sqlite->db);
    if (sqlite->path != NULL)
        (void) unlink(sqlite->path);
    mrd_rows_free(sqlite->rows);
    mrd_buf_fini(&sqlite->sql);
    free(sqlite->tables);
    free(sqlite->path);
    free(sqlite);
}

mrd_err
mrd_sqlite_open(const mrd_sink_env *env, mrd_sqlite **ret_db, mrd_why *why)
{
    mrd_sqlite *sqlite = calloc(1, sizeof(*sqlite));
    mrd_err err = MRD_OK;

    if (sqlite == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "database");
    sqlite->env = env;
    sqlite->dialect = &mrd_dialect_meridian;
    if ((sqlite->tables = calloc(sqlite->dialect->n, sizeof(*sqlite->tables))) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "database");
    if (err == MRD_OK)
        err = make_file(sqlite, why);
    if (err == MRD_OK)
        err = make_schema(sqlite, why);
    if (err == MRD_OK)
        err = mrd_rows_new(env, sqlite->dialect, put_row, sqlite, &sqlite->rows, why);
    if (err == MRD_OK)
        *ret_db = sqlite;
    else
        sqlite_free(sqlite);
    return err;
}

mrd_err
mrd_sqlite_event(mrd_sqlite *sqlite, const mrd_event *ev)
{
    return mrd_rows_event(sqlite->rows, ev);
}

/* Makes a view for each shipped query (trace/table/queries.h). */
static mrd_err
make_views(mrd_sqlite *sqlite, mrd_why *why)
{
    size_t n;
    const mrd_query *query = mrd_queries(&n);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        /* a query with the name of a table, such as "losses", gets another name */
        bool taken = false;

        for (size_t t = 0; t < sqlite->dialect->n; t++)
            taken = taken || strcmp(sqlite->dialect->tables[t].name, query[i].name) == 0;
        mrd_buf_fmt(&sqlite->sql, "CREATE VIEW %s%s AS\n%s;", query[i].name,
                    taken ? "_by_cause" : "", query[i].sql);
        err = run_text(sqlite, why);
    }
    return err;
}

static mrd_err
give_file(mrd_sqlite *sqlite, mrd_why *why)
{
    FILE *file = fopen(sqlite->path, "rb");
    char chunk[65536];
    size_t n;
    mrd_err err = MRD_OK;

    if (file == NULL)
        return mrd_why_set(why, MRD_IO, errno, "cannot read %s", sqlite->path);
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        mrd_out_add(sqlite->env->out, chunk, n);
    if (ferror(file))
        err = mrd_why_set(why, MRD_IO, errno, "cannot read %s", sqlite->path);
    fclose(file);
    return err;
}

static mrd_err
finish(mrd_sqlite *sqlite, mrd_why *why)
{
    mrd_err err = mrd_rows_finish(sqlite->rows);

    if (err != MRD_OK)
        return sqlite3_errcode(sqlite->db) != SQLITE_OK &&
                       sqlite3_errcode(sqlite->db) != SQLITE_DONE
                   ? bad(sqlite, why)
                   : mrd_why_set(why, err, 0, "database");
    if ((err = put_strings(sqlite, why)) != MRD_OK || (err = make_views(sqlite, why)) != MRD_OK)
        return err;
    err = run(sqlite,
              "CREATE INDEX collectives_id ON collectives (collective_id);"
              "CREATE INDEX events_track ON events_data (track_id, ts_ns);"
              "CREATE INDEX flows_row ON flows_data (row_id);"
              "COMMIT;",
              why);
    for (size_t i = 0; i < sqlite->dialect->n; i++) {
        sqlite3_finalize(sqlite->tables[i].insert);
        sqlite->tables[i].insert = NULL;
    }
    if (err == MRD_OK && sqlite3_close(sqlite->db) != SQLITE_OK)
        err = bad(sqlite, why);
    if (err != MRD_OK)
        return err;
    sqlite->db = NULL;
    return give_file(sqlite, why);
}

mrd_err
mrd_sqlite_close(mrd_sqlite *sqlite, bool good, mrd_why *why)
{
    mrd_err err = good ? finish(sqlite, why) : MRD_OK;

    sqlite_free(sqlite);
    return err;
}
