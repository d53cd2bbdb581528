#include "trace/table/sqlite.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/obj.h"
#include "trace/table/queries.h"

#define APPLICATION_ID 0x4d524454 /* "MRDT" */

typedef struct {
    const mrd_table_def *t;
    bool by_track; /* rows are in <name>_data, and the table is a view */
    sqlite3_stmt *insert;
} table;

struct mrd_sqlite {
    const mrd_sink_env *env;
    const mrd_dialect *dialect;
    mrd_rows *rows;
    sqlite3 *db;
    char *path; /* the temporary file */
    table *tables;
    mrd_buf sql;
};

static mrd_err
bad(const mrd_sqlite *s, mrd_why *why)
{
    int code = s->db == NULL ? SQLITE_NOMEM : sqlite3_errcode(s->db);

    return mrd_why_set(why,
                       code == SQLITE_FULL    ? MRD_FULL
                       : code == SQLITE_NOMEM ? MRD_NOMEM
                                              : MRD_IO,
                       s->db == NULL ? 0 : sqlite3_system_errno(s->db),
                       "writing the database %s: %s", s->path,
                       s->db == NULL ? "out of memory" : sqlite3_errmsg(s->db));
}

static mrd_err
run(mrd_sqlite *s, const char *sql, mrd_why *why)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? MRD_OK : bad(s, why);
}

static mrd_err
run_text(mrd_sqlite *s, mrd_why *why)
{
    mrd_err err = s->sql.err != MRD_OK ? mrd_why_set(why, s->sql.err, 0, "database")
                                       : run(s, mrd_buf_cstr(&s->sql), why);

    mrd_buf_reset(&s->sql);
    return err;
}

/* ---- Tables and views ---- */

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

/* Returns the column of `tracks` with this field. */
static const char *
track_column(const mrd_sqlite *s, mrd_field field)
{
    for (size_t i = 0; i < s->dialect->n; i++) {
        const mrd_table_def *t = &s->dialect->tables[i];

        for (size_t c = 0; c < t->n && t->rows == MRD_ROWS_TRACKS; c++) {
            if (t->columns[c].field == field)
                return t->columns[c].name;
        }
    }
    return "track_id";
}

static void
put_view(mrd_sqlite *s, const table *t)
{
    mrd_buf_fmt(&s->sql, "CREATE VIEW %s AS SELECT ", t->t->name);
    for (size_t i = 0; i < t->t->n; i++) {
        const mrd_column *c = &t->t->columns[i];

        mrd_buf_text(&s->sql, i == 0 ? "" : ", ");
        if (!is_stored(t, i) && c->field == F_TRACK)
            mrd_buf_fmt(&s->sql, "d.track_id AS %s", c->name);
        else if (!is_stored(t, i))
            mrd_buf_fmt(&s->sql, "t.%s AS %s", track_column(s, c->field), c->name);
        else if (c->type == MRD_COL_SID)
            mrd_buf_fmt(&s->sql, "(SELECT text FROM strings WHERE id = d.%s) AS %s", c->name,
                        c->name);
        else
            mrd_buf_fmt(&s->sql, "d.%s AS %s", c->name, c->name);
    }
    mrd_buf_fmt(&s->sql, " FROM %s_data AS d LEFT JOIN tracks AS t ON t.track_id = d.track_id;\n",
                t->t->name);
}

static mrd_err
make_table(mrd_sqlite *s, table *t, mrd_why *why)
{
    size_t stored = 0;
    bool key = t->t->rows == MRD_ROWS_EVENTS || t->t->rows == MRD_ROWS_TRACKS;

    mrd_buf_fmt(&s->sql, "CREATE TABLE %s%s (", t->t->name, t->by_track ? "_data" : "");
    for (size_t i = 0; i < t->t->n; i++) {
        const mrd_column *c = &t->t->columns[i];

        if (is_stored(t, i))
            mrd_buf_fmt(&s->sql, "%s%s %s%s", stored == 0 ? "" : ", ", c->name, type_of(t, c->type),
                        stored == 0 && key ? " PRIMARY KEY" : "");
        stored += is_stored(t, i);
    }
    mrd_buf_fmt(&s->sql, "%s) STRICT;\n", t->by_track ? ", track_id INTEGER" : "");
    if (t->by_track)
        put_view(s, t);
    return run_text(s, why);
}

static mrd_err
prepare(mrd_sqlite *s, table *t, mrd_why *why)
{
    size_t n = t->by_track;
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < t->t->n; i++)
        n += is_stored(t, i);
    mrd_buf_fmt(&s->sql, "INSERT INTO %s%s VALUES (", t->t->name, t->by_track ? "_data" : "");
    for (size_t i = 0; i < n; i++)
        mrd_buf_text(&s->sql, i == 0 ? "?" : ",?");
    mrd_buf_text(&s->sql, ")");
    if (s->sql.err != MRD_OK)
        err = mrd_why_set(why, s->sql.err, 0, "database");
    else if (sqlite3_prepare_v3(s->db, mrd_buf_cstr(&s->sql), -1, SQLITE_PREPARE_PERSISTENT,
                                &t->insert, NULL) != SQLITE_OK)
        err = bad(s, why);
    mrd_buf_reset(&s->sql);
    return err;
}

/* ---- Rows ---- */

static void
bind(mrd_sqlite *s, const table *t, const mrd_column *c, int at, const mrd_slot *slot)
{
    mrd_str text;

    switch (c->type) {
    case MRD_COL_I64:
    case MRD_COL_BOOL:
        if (c->optional && slot->i == -1)
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
        text = mrd_rows_text(s->rows, slot->sid);
        sqlite3_bind_text(t->insert, at, text.len == 0 ? "" : text.p, (int) text.len,
                          SQLITE_STATIC);
        break;
    case MRD_COL_TEXT:
        sqlite3_bind_text(t->insert, at, slot->text.len == 0 ? "" : slot->text.p,
                          (int) slot->text.len, SQLITE_STATIC);
        break;
    case MRD_COL_FLOWS:
        break; /* types of the other dialect */
    }
}

static mrd_err
put_row(void *self, size_t number, const mrd_slot slots[F_COUNT])
{
    mrd_sqlite *s = self;
    table *t = &s->tables[number];
    int at = 0;

    for (size_t i = 0; i < t->t->n; i++) {
        if (is_stored(t, i))
            bind(s, t, &t->t->columns[i], ++at, &slots[t->t->columns[i].field]);
    }
    if (t->by_track)
        sqlite3_bind_int64(t->insert, ++at, slots[F_TRACK].i);
    if (sqlite3_step(t->insert) != SQLITE_DONE)
        return sqlite3_errcode(s->db) == SQLITE_FULL ? MRD_FULL : MRD_IO;
    return sqlite3_reset(t->insert) == SQLITE_OK ? MRD_OK : MRD_IO;
}

static mrd_err
put_strings(mrd_sqlite *s, mrd_why *why)
{
    sqlite3_stmt *insert = NULL;
    mrd_err err = MRD_OK;

    if (sqlite3_prepare_v2(s->db, "INSERT INTO strings VALUES (?,?)", -1, &insert, NULL) !=
        SQLITE_OK)
        return bad(s, why);
    for (size_t i = 0; i < mrd_rows_sids(s->rows) && err == MRD_OK; i++) {
        mrd_str text = mrd_rows_text(s->rows, (mrd_sid) i);

        sqlite3_bind_int64(insert, 1, (int64_t) i);
        sqlite3_bind_text(insert, 2, text.len == 0 ? "" : text.p, (int) text.len, SQLITE_STATIC);
        if (sqlite3_step(insert) != SQLITE_DONE || sqlite3_reset(insert) != SQLITE_OK)
            err = bad(s, why);
    }
    sqlite3_finalize(insert);
    return err;
}

/* ---- Lifecycle ---- */

static mrd_err
make_file(mrd_sqlite *s, mrd_why *why)
{
    const char *dir = getenv("TMPDIR");
    int fd;

    if (asprintf(&s->path, "%s/meridian-XXXXXX", dir != NULL && *dir != '\0' ? dir : "/var/tmp") <
        0) {
        s->path = NULL;
        return mrd_why_set(why, MRD_NOMEM, 0, "database");
    }
    if ((fd = mkstemp(s->path)) < 0)
        return mrd_why_set(why, MRD_IO, errno, "cannot make a temporary file as %s", s->path);
    close(fd);
    return sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ==
                   SQLITE_OK
               ? MRD_OK
               : bad(s, why);
}

static mrd_err
make_schema(mrd_sqlite *s, mrd_why *why)
{
    mrd_err err =
        run(s,
            "PRAGMA journal_mode = off; PRAGMA synchronous = off; PRAGMA locking_mode = exclusive;"
            "PRAGMA cache_size = -16384; BEGIN;"
            "CREATE TABLE strings (id INTEGER PRIMARY KEY, text TEXT) STRICT;",
            why);

    mrd_buf_fmt(&s->sql, "PRAGMA application_id = %d; PRAGMA user_version = %s;", APPLICATION_ID,
                s->dialect->version);
    if (err == MRD_OK)
        err = run_text(s, why);
    for (size_t i = 0; i < s->dialect->n && err == MRD_OK; i++) {
        s->tables[i].t = &s->dialect->tables[i];
        s->tables[i].by_track = mrd_rows_by_track(s->tables[i].t->rows);
        if ((err = make_table(s, &s->tables[i], why)) == MRD_OK)
            err = prepare(s, &s->tables[i], why);
    }
    return err;
}

static void
sqlite_free(mrd_sqlite *s)
{
    for (size_t i = 0; s->tables != NULL && i < s->dialect->n; i++)
        sqlite3_finalize(s->tables[i].insert);
    sqlite3_close(s->db);
    if (s->path != NULL)
        (void) unlink(s->path);
    mrd_rows_free(s->rows);
    mrd_buf_fini(&s->sql);
    free(s->tables);
    free(s->path);
    free(s);
}

mrd_err
mrd_sqlite_open(const mrd_sink_env *env, mrd_sqlite **ret_db, mrd_why *why)
{
    mrd_sqlite *s = calloc(1, sizeof(*s));
    mrd_err err = MRD_OK;

    if (s == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "database");
    s->env = env;
    s->dialect = &mrd_dialect_meridian;
    if ((s->tables = calloc(s->dialect->n, sizeof(*s->tables))) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "database");
    if (err == MRD_OK)
        err = make_file(s, why);
    if (err == MRD_OK)
        err = make_schema(s, why);
    if (err == MRD_OK)
        err = mrd_rows_new(env, s->dialect, put_row, s, &s->rows, why);
    if (err == MRD_OK)
        *ret_db = s;
    else
        sqlite_free(s);
    return err;
}

mrd_err
mrd_sqlite_event(mrd_sqlite *s, const mrd_event *ev)
{
    return mrd_rows_event(s->rows, ev);
}

/* Makes a view for each shipped query. */
static mrd_err
make_views(mrd_sqlite *s, mrd_why *why)
{
    size_t n;
    const mrd_query *q = mrd_queries(&n);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        bool taken = false; /* "losses" is a table */

        for (size_t t = 0; t < s->dialect->n; t++)
            taken = taken || strcmp(s->dialect->tables[t].name, q[i].name) == 0;
        mrd_buf_fmt(&s->sql, "CREATE VIEW %s%s AS\n%s;", q[i].name, taken ? "_by_cause" : "",
                    q[i].sql);
        err = run_text(s, why);
    }
    return err;
}

static mrd_err
give_file(mrd_sqlite *s, mrd_why *why)
{
    FILE *f = fopen(s->path, "rb");
    char chunk[65536];
    size_t n;
    mrd_err err = MRD_OK;

    if (f == NULL)
        return mrd_why_set(why, MRD_IO, errno, "cannot read %s", s->path);
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        mrd_out_add(s->env->out, chunk, n);
    if (ferror(f))
        err = mrd_why_set(why, MRD_IO, errno, "cannot read %s", s->path);
    fclose(f);
    return err;
}

static mrd_err
finish(mrd_sqlite *s, mrd_why *why)
{
    mrd_err err = mrd_rows_finish(s->rows);

    if (err != MRD_OK)
        return sqlite3_errcode(s->db) != SQLITE_OK && sqlite3_errcode(s->db) != SQLITE_DONE
                   ? bad(s, why)
                   : mrd_why_set(why, err, 0, "database");
    if ((err = put_strings(s, why)) != MRD_OK || (err = make_views(s, why)) != MRD_OK)
        return err;
    err = run(s,
              "CREATE INDEX collectives_id ON collectives (collective_id);"
              "CREATE INDEX events_track ON events_data (track_id, ts_ns);"
              "CREATE INDEX flows_row ON flows_data (row_id);"
              "COMMIT;",
              why);
    for (size_t i = 0; i < s->dialect->n; i++) {
        sqlite3_finalize(s->tables[i].insert);
        s->tables[i].insert = NULL;
    }
    if (err == MRD_OK && sqlite3_close(s->db) != SQLITE_OK)
        err = bad(s, why);
    if (err != MRD_OK)
        return err;
    s->db = NULL;
    return give_file(s, why);
}

mrd_err
mrd_sqlite_close(mrd_sqlite *s, bool good, mrd_why *why)
{
    mrd_err err = good ? finish(s, why) : MRD_OK;

    sqlite_free(s);
    return err;
}
