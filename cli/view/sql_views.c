#include "cli/view/sql_views.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/obj.h"
#include "base/url.h"
#include "trace/table/schema.h"

/* How an engine names the files of one table of one profile. */
typedef enum {
    AS_PATTERN,  /* read(PATTERN): a table function with a pattern of files */
    AS_TABLE,    /* a table of its own, which is created before the view */
    AS_RELATION, /* format.`PATTERN` */
} reading;

static const struct {
    const char *word, *name;
    reading reading;
    const char *view;         /* begins the statement of a view */
    const char *before;       /* text before the quoted pattern or directory */
    const char *after;        /* text after it */
    const char *text, *whole; /* AS_TABLE with columns: types of a text and of an integer */
} engines[] = {
    [MRD_ENGINE_NONE] = { "none", "", AS_PATTERN, NULL, NULL, NULL, NULL, NULL },
    [MRD_ENGINE_SQLITE] = { "sqlite", "SQLite", AS_PATTERN, NULL, NULL, NULL, NULL, NULL },
    [MRD_ENGINE_DUCKDB] = { "duckdb", "DuckDB", AS_PATTERN, "CREATE VIEW", "read_parquet(", ")",
                            NULL, NULL },
    [MRD_ENGINE_CLICKHOUSE] = { "clickhouse", "ClickHouse", AS_PATTERN, "CREATE VIEW", "file(",
                                ", Parquet)", NULL, NULL },
    [MRD_ENGINE_POLARS] = { "polars", "Polars", AS_PATTERN, "CREATE TABLE", "read_parquet(", ")",
                            NULL, NULL },
    [MRD_ENGINE_DATAFUSION] = { "datafusion", "DataFusion", AS_TABLE, "CREATE VIEW",
                                " STORED AS PARQUET LOCATION ", "", NULL, NULL },
    [MRD_ENGINE_SPARK] = { "spark", "Spark", AS_RELATION, "CREATE TEMPORARY VIEW", "parquet.", "",
                           NULL, NULL },
    [MRD_ENGINE_TRINO] = { "trino", "Trino", AS_TABLE, "CREATE VIEW",
                           " WITH (format = 'PARQUET', external_location = ", ")", "VARCHAR",
                           "BIGINT" },
};

const char *
mrd_engine_name(mrd_engine engine)
{
    return engines[engine].name;
}

const char *
mrd_engine_word(mrd_engine engine)
{
    return engines[engine].word;
}

/* Appends text in quotes. A quote inside of the text is doubled. */
static void
put_quoted(mrd_buf *to, char quote, const char *text)
{
    mrd_buf_byte(to, (uint8_t) quote);
    for (; *text != '\0'; text++) {
        if (*text == quote)
            mrd_buf_byte(to, (uint8_t) quote);
        mrd_buf_byte(to, (uint8_t) *text);
    }
    mrd_buf_byte(to, (uint8_t) quote);
}

/* Gets the directory with the tables of a profile. `word` is a profile's directory, and the tables
 * are in tables/ below it. A path on another machine stays as it is. */
static mrd_err
tables_of(const char *word, mrd_buf *ret_path, mrd_why *why)
{
    struct stat st;

    mrd_buf_fmt(ret_path, "%s/tables", word);
    if (stat(mrd_buf_cstr(ret_path), &st) != 0 || !S_ISDIR(st.st_mode)) {
        mrd_buf_reset(ret_path);
        mrd_buf_text(ret_path, word);
        if (stat(word, &st) == 0 && !S_ISDIR(st.st_mode))
            return mrd_why_set(why, MRD_INVALID, 0,
                               "'%s' is a file: give the folder that --output-format parquet wrote",
                               word);
    }
    return ret_path->err;
}

/* Appends the statement that creates a table with the files of one profile. */
static void
put_table(mrd_engine engine, const mrd_table_def *def, size_t number, const char *folder,
          mrd_buf *to)
{
    mrd_buf address = { 0 };
    mrd_url url;
    char *absolute = NULL;

    mrd_buf_text(to, engine == MRD_ENGINE_DATAFUSION ? "CREATE EXTERNAL TABLE" : "CREATE TABLE");
    mrd_buf_fmt(to, " p%zu_%s", number, def->name);
    for (size_t c = 0; c < def->n && engines[engine].text != NULL; c++) {
        const mrd_column *column = &def->columns[c];

        mrd_buf_fmt(to, "%s%s %s", c == 0 ? " (" : ", ", column->name,
                    column->type == MRD_COL_I64      ? engines[engine].whole
                    : column->type == MRD_COL_DOUBLE ? "DOUBLE"
                                                     : engines[engine].text);
    }
    /* Trino accepts only an address with a scheme. */
    if (engine == MRD_ENGINE_TRINO &&
        (mrd_url_parse(folder, &url) != MRD_OK || url.scheme.len == 0)) {
        absolute = realpath(folder, NULL);
        mrd_buf_text(&address, "file://");
    }
    mrd_buf_fmt(&address, "%s/table=%s/", absolute != NULL ? absolute : folder, def->name);
    free(absolute);
    mrd_buf_fmt(to, "%s%s", engines[engine].text != NULL ? ")" : "", engines[engine].before);
    put_quoted(to, '\'', mrd_buf_cstr(&address));
    mrd_buf_fmt(to, "%s;\n", engines[engine].after);
    if (address.err != MRD_OK)
        to->err = address.err;
    mrd_buf_fini(&address);
}

/* Appends the columns of a table. The session_id tells the profiles apart as in join_table in
 * profile_db.c. */
static void
put_columns(const mrd_table_def *def, size_t number, mrd_buf *to)
{
    for (size_t c = 0; c < def->n; c++) {
        const char *name = def->columns[c].name;

        if (number > 1 && strcmp(name, "session_id") == 0)
            mrd_buf_fmt(to, "%ssession_id || '#%zu' AS session_id", c == 0 ? "" : ", ", number);
        else
            mrd_buf_fmt(to, "%s%s", c == 0 ? "" : ", ", name);
    }
}

/* Appends the statements for one table. folders[k] has the tables of profile k. */
static void
put_view(mrd_engine engine, const mrd_table_def *def, char *const *folders, size_t n, mrd_buf *to)
{
    mrd_buf pattern = { 0 };

    for (size_t k = 0; k < n && engines[engine].reading == AS_TABLE; k++)
        put_table(engine, def, k + 1, folders[k], to);
    mrd_buf_fmt(to, "%s %s AS", engines[engine].view, def->name);
    for (size_t k = 0; k < n; k++) {
        mrd_buf_text(to, k == 0 ? " SELECT " : " UNION ALL SELECT ");
        if (n == 1)
            mrd_buf_byte(to, '*');
        else
            put_columns(def, k + 1, to);
        mrd_buf_text(to, " FROM ");
        mrd_buf_reset(&pattern);
        mrd_buf_fmt(&pattern, "%s/table=%s/*/*/*.parquet", folders[k], def->name);
        if (engines[engine].reading == AS_TABLE) {
            mrd_buf_fmt(to, "p%zu_%s", k + 1, def->name);
        } else {
            mrd_buf_text(to, engines[engine].before);
            put_quoted(to, engines[engine].reading == AS_RELATION ? '`' : '\'',
                       mrd_buf_cstr(&pattern));
            mrd_buf_text(to, engines[engine].after);
        }
    }
    mrd_buf_text(to, ";\n");
    if (pattern.err != MRD_OK)
        to->err = pattern.err;
    mrd_buf_fini(&pattern);
}

mrd_err
mrd_sql_views(mrd_engine engine, char *const *profiles, size_t n, mrd_buf *to, mrd_why *why)
{
    mrd_strlist folders = { 0 };
    mrd_err err = MRD_OK;

    for (size_t k = 0; k < n && err == MRD_OK; k++) {
        mrd_buf path = { 0 };

        if ((err = tables_of(profiles[k], &path, why)) == MRD_OK &&
            (err = mrd_strlist_add(&folders, mrd_str_of(mrd_buf_cstr(&path)))) != MRD_OK)
            mrd_why_set(why, err, 0, "views");
        mrd_buf_fini(&path);
    }
    for (size_t i = 0; i < mrd_dialect_meridian.n && err == MRD_OK && engines[engine].view != NULL;
         i++)
        put_view(engine, &mrd_dialect_meridian.tables[i], folders.v, folders.n, to);
    if (err == MRD_OK && (err = to->err) != MRD_OK)
        mrd_why_set(why, err, 0, "views");
    mrd_strlist_fini(&folders);
    return err;
}
