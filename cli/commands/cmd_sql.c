/* `meridian sql QUERY PROFILE...`: runs a query in SQLite over profiles that are SQLite
 * databases. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf/json.h"
#include "base/near.h"
#include "base/obj.h"
#include "base/plain.h"
#include "cli/cli.h"
#include "cli/term/table.h"
#include "cli/view/profile_db.h"
#include "cli/view/sql_views.h"
#include "trace/sink/text.h"
#include "trace/table/csv.h"
#include "trace/table/queries.h"
#include "trace/table/schema.h"

enum { FORMAT_TEXT, FORMAT_CSV, FORMAT_TSV, FORMAT_JSON, FORMAT_MARKDOWN };

/* number of first rows; their cells determine the widths of the columns */
#define ALIGN_ROWS  500
#define ALIGN_BYTES (1 << 20) /* bytes after which the widths are determined even with fewer rows */
#define WIDE        60        /* maximum width of a text cell, in columns of the terminal */

typedef struct {
    int format, engine;
    bool print, list;
    mrd_dur_ns timeout;
    int64_t memory;
} settings;

#define AT(member) .offset = offsetof(settings, member)

static const mrd_opt table[] = {
    { .name = "format",
      .letter = 'f',
      .type = MRD_OPT_CHOICE,
      AT(format),
      .def = "text",
      .arg = "text,csv,tsv,json,markdown",
      .help =
          "how rows are printed; json: one object a line; tsv: for other programs, NULL is \\N" },
    { .name = "list", .type = MRD_OPT_BOOL, AT(list), .help = "name the shipped queries" },
    { .name = "print",
      .type = MRD_OPT_BOOL,
      AT(print),
      .help = "print the SQL instead of running it" },
    { .name = "engine",
      .type = MRD_OPT_CHOICE,
      AT(engine),
      .def = "none",
      .arg = MRD_ENGINE_CHOICES,
      .help = "with --print: first the views that this engine needs to see the tables of the "
              "profiles given (--output-format parquet)" },
    { .name = "timeout",
      .type = MRD_OPT_DUR,
      AT(timeout),
      .def = "5min",
      .min = 0,
      .max = 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "CPU time after which a query is stopped; 0: no limit" },
    { .name = "memory",
      .type = MRD_OPT_SIZE,
      AT(memory),
      .def = "1G",
      .min = 0,
      .max = INT64_MAX / 2,
      .arg = "SIZE",
      .help = "memory that a query may use; 0: no limit" },
};

static const char more[] =
    "QUERY is the name of a shipped query (--list), a file, or SQL. PROFILE is a profile.sqlite "
    "or a\nfolder that holds one; session_id tells the rows of several profiles apart. Tables:\n"
    "docs/reference/data.md\n"
    "\n"
    "Examples\n"
    "  meridian view rank*.json.gz --output-format sqlite -o profile\n"
    "  meridian sql late_ranks profile\n"
    "  meridian sql 'SELECT name, SUM(dur_ns) FROM events GROUP BY name' profile --format csv\n"
    "  meridian sql top_kernels profile --format markdown\n"
    "  meridian sql step_breakdown profile --print --engine duckdb | duckdb\n";

/* ---- Arguments ---- */

static mrd_err
load_file(const char *path, mrd_buf *sql, mrd_why *why)
{
    FILE *file = fopen(path, "r");
    char chunk[4096];
    size_t n;
    mrd_err err = MRD_OK;

    if (file == NULL)
        return mrd_why_set(why, MRD_IO, errno, "cannot read '%s'", path);
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        mrd_buf_add(sql, chunk, n);
    if (ferror(file))
        err = mrd_why_set(why, MRD_IO, errno, "cannot read '%s'", path);
    fclose(file);
    return err;
}

static mrd_err
unknown(const char *word, mrd_why *why)
{
    const char *names[32];
    char guess[MRD_NEAR_TEXT];
    size_t n;
    const mrd_query *query = mrd_queries(&n);

    n = n < MRD_COUNT(names) ? n : MRD_COUNT(names);
    for (size_t i = 0; i < n; i++)
        names[i] = query[i].name;
    mrd_near_text(word, names, n, "", guess);
    return mrd_why_set(why, MRD_INVALID, 0, "'%s' is neither a shipped query nor a file nor SQL%s",
                       word, *guess == '\0' ? " (--list names the queries)" : guess);
}

static mrd_err
find_query(const char *word, mrd_buf *sql, mrd_why *why)
{
    const mrd_query *shipped = mrd_query_find(mrd_str_of(word));

    if (shipped != NULL)
        mrd_buf_text(sql, shipped->sql);
    else if (access(word, F_OK) == 0)
        return load_file(word, sql, why);
    else if (strpbrk(word, " \t\n") == NULL)
        return unknown(word, why);
    else
        mrd_buf_text(sql, word);
    return sql->err == MRD_OK ? MRD_OK : mrd_why_set(why, sql->err, 0, "query");
}

static void
list_queries(void)
{
    size_t n;
    const mrd_query *query = mrd_queries(&n);

    for (size_t i = 0; i < n; i++)
        printf("%-24s %.*s\n", query[i].name, MRD_STR_ARG(mrd_query_title(&query[i])));
}

/* ---- Printing rows ---- */

typedef struct {
    const settings *set;
    /* format text: cells of the first rows, kept until the widths of the columns are determined */
    mrd_strlist held;
    size_t held_bytes; /* bytes of the cells in `held` */
    size_t n;          /* number of columns in a row */
    int *width;
    uint64_t rows;
    bool told; /* true after the line with the column names was printed */
} printer;

static bool
is_number(sqlite3_stmt *st, int i)
{
    int type = sqlite3_column_type(st, i);

    return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

static void
print_cell(const char *text, int width, bool right, bool last)
{
    int pad = width - (int) mrd_text_columns(mrd_str_of(text));
    mrd_buf plain = { 0 }; /* receives the text without control characters */

    mrd_plain_text(&plain, mrd_str_of(text));
    for (; right && pad > 0; pad--)
        putchar(' ');
    fwrite(plain.p, 1, plain.len, stdout);
    mrd_buf_fini(&plain);
    for (; !right && !last && pad > 0; pad--)
        putchar(' ');
    fputs(last ? "\n" : "  ", stdout);
}

static void
print_held(printer *p)
{
    for (size_t i = 0; i < p->held.n; i++) {
        /* the first character only says whether the cell is a number */
        const char *cell = p->held.v[i] + 1;
        int w = (int) mrd_text_columns(mrd_str_of(cell));

        if (w > p->width[i % p->n])
            p->width[i % p->n] = w < WIDE ? w : WIDE;
    }
    for (size_t i = 0; i < p->held.n; i++)
        print_cell(p->held.v[i] + 1, p->width[i % p->n], p->held.v[i][0] == '#',
                   i % p->n == p->n - 1);
    mrd_strlist_fini(&p->held);
    p->held = (mrd_strlist){ 0 };
    p->told = true;
}

static mrd_err
put_text(printer *p, bool number, const char *text)
{
    mrd_buf cell = { 0 };
    mrd_err err;

    mrd_buf_byte(&cell, number ? '#' : ' ');
    mrd_buf_text(&cell, text == NULL ? "" : text);
    p->held_bytes += cell.len;
    err =
        cell.err != MRD_OK ? cell.err : mrd_strlist_add(&p->held, mrd_str_of(mrd_buf_cstr(&cell)));
    mrd_buf_fini(&cell);
    return err;
}

/* Returns a cell as text. A double gets the digits that are needed to read it back exactly. For
 * NULL, the text's p is NULL. */
static mrd_str
cell_of(sqlite3_stmt *st, int i, char number[40])
{
    if (sqlite3_column_type(st, i) == SQLITE_FLOAT && isfinite(sqlite3_column_double(st, i))) {
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(number, 40, "%.*g", digits, sqlite3_column_double(st, i));
            if (strtod(number, NULL) == sqlite3_column_double(st, i))
                break;
        }
        return mrd_str_of(number);
    }
    return (mrd_str){ (const char *) sqlite3_column_text(st, i),
                      (size_t) sqlite3_column_bytes(st, i) };
}

/* Appends a field in the tab-separated format of ClickHouse, MySQL and PostgreSQL. Escapes
 * characters that would end the field. */
static void
put_tsv(mrd_buf *to, mrd_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        switch (text.p[i]) {
        case '\t':
            mrd_buf_text(to, "\\t");
            break;
        case '\n':
            mrd_buf_text(to, "\\n");
            break;
        case '\r':
            mrd_buf_text(to, "\\r");
            break;
        case '\\':
            mrd_buf_text(to, "\\\\");
            break;
        default:
            mrd_buf_byte(to, (uint8_t) text.p[i]);
            break;
        }
    }
}

static bool
is_word(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Appends a cell of a Markdown table, on one line. Escapes characters that have a meaning in
 * Markdown or HTML, because a kernel's name may contain any character. '_' is not escaped, because
 * inside of a name it has no meaning. */
static void
put_markdown(mrd_buf *to, mrd_str text)
{
    mrd_buf plain = { 0 };

    mrd_plain_text(&plain, text);
    for (size_t i = 0; i < plain.len; i++) {
        uint8_t c = plain.p[i];
        bool inside =
            i > 0 && i + 1 < plain.len && is_word(plain.p[i - 1]) && is_word(plain.p[i + 1]);

        if (strchr("\\|<>*`[]&~$", c) != NULL || (c == '_' && !inside))
            mrd_buf_byte(to, '\\');
        mrd_buf_byte(to, c);
    }
    if (plain.err != MRD_OK)
        to->err = plain.err;
    mrd_buf_fini(&plain);
}

/* Appends a value in one of the formats. text.p NULL means the value NULL. */
static void
put_value(mrd_buf *to, int format, bool number, mrd_str text)
{
    if (text.p == NULL)
        mrd_buf_text(to, format == FORMAT_JSON ? "null" : format == FORMAT_TSV ? "\\N" : "");
    else if (number)
        mrd_buf_str(to, text);
    else if (format == FORMAT_JSON)
        mrd_json_quote(to, text);
    else if (format == FORMAT_CSV)
        mrd_csv_text(to, text);
    else if (format == FORMAT_TSV)
        put_tsv(to, text);
    else
        put_markdown(to, text);
}

/* For each format: the text before the first cell of a line, the text between cells, and the text
 * after the last cell. */
static const char *const line_marks[][3] = {
    [FORMAT_CSV] = { "", ",", "\n" },
    [FORMAT_TSV] = { "", "\t", "\n" },
    [FORMAT_JSON] = { "{", ",", "}\n" },
    [FORMAT_MARKDOWN] = { "| ", " | ", " |\n" },
};

/* Prints the collected output, and clears the buffer. */
static mrd_err
print_part(mrd_buf *part)
{
    mrd_err err = part->err;

    if (err == MRD_OK)
        fwrite(part->p, 1, part->len, stdout);
    mrd_buf_fini(part);
    return err;
}

/* Prints a row cell by cell, because a row may have many columns with large values. */
static mrd_err
put_row_line(const printer *p, sqlite3_stmt *st)
{
    int format = p->set->format;
    mrd_err err = MRD_OK;

    for (int i = 0; i < (int) p->n && err == MRD_OK; i++) {
        mrd_buf cell = { 0 };
        char number[40];
        mrd_str text = cell_of(st, i, number);
        bool finite = isfinite(sqlite3_column_double(st, i));

        mrd_buf_text(&cell, line_marks[format][i > 0]);
        if (format == FORMAT_JSON) {
            mrd_json_quote(&cell, mrd_str_of(sqlite3_column_name(st, i)));
            mrd_buf_byte(&cell, ':');
        }
        put_value(&cell, format, is_number(st, i) && (finite || format != FORMAT_JSON), text);
        err = print_part(&cell);
    }
    fputs(line_marks[format][2], stdout);
    return err;
}

/* Prints the line with the names of the columns, for formats that have it. */
static mrd_err
put_head_line(const printer *p, sqlite3_stmt *st)
{
    int format = p->set->format;
    mrd_buf line = { 0 };

    for (int i = 0; i < (int) p->n; i++) {
        mrd_buf_text(&line, line_marks[format][i > 0]);
        put_value(&line, format, false, mrd_str_of(sqlite3_column_name(st, i)));
    }
    mrd_buf_text(&line, line_marks[format][2]);
    for (size_t i = 0; i < p->n && format == FORMAT_MARKDOWN; i++)
        mrd_buf_text(&line, i + 1 < p->n ? "|---" : "|---|\n");
    return print_part(&line);
}

static mrd_err
put_row(printer *p, sqlite3_stmt *st)
{
    mrd_err err = MRD_OK;

    p->rows++;
    if (p->set->format != FORMAT_TEXT)
        return put_row_line(p, st);
    for (int i = 0; i < (int) p->n && err == MRD_OK; i++)
        err = put_text(p, is_number(st, i), (const char *) sqlite3_column_text(st, i));
    if (err == MRD_OK && (p->told || p->rows == ALIGN_ROWS || p->held_bytes >= ALIGN_BYTES))
        print_held(p);
    return err;
}

static mrd_err
put_head(printer *p, sqlite3_stmt *st)
{
    mrd_err err = MRD_OK;

    p->n = (size_t) sqlite3_column_count(st);
    if ((p->width = calloc(p->n + 1, sizeof(*p->width))) == NULL)
        return MRD_NOMEM;
    if (p->set->format == FORMAT_JSON)
        return MRD_OK;
    if (p->set->format != FORMAT_TEXT)
        return put_head_line(p, st);
    for (int i = 0; i < (int) p->n && err == MRD_OK; i++)
        err = put_text(p, false, sqlite3_column_name(st, i));
    return err;
}

/* Runs the first statement of `sql` and prints its rows. Stores the text after this statement in
 * *ret_left. */
static mrd_err
run_statement(const settings *set, sqlite3 *db, const char *sql, const char **ret_left,
              mrd_why *why)
{
    printer p = { .set = set };
    sqlite3_stmt *st = NULL;
    mrd_err err = MRD_OK;
    int step = SQLITE_DONE;

    if (sqlite3_prepare_v2(db, sql, -1, &st, ret_left) != SQLITE_OK)
        return mrd_profile_db_failed(db, "the query", why);
    if (st == NULL)
        return MRD_OK; /* there was no statement, only a comment */
    if (sqlite3_column_count(st) > 0 && (err = put_head(&p, st)) != MRD_OK)
        mrd_why_set(why, err, 0, "query");
    while (err == MRD_OK && (step = sqlite3_step(st)) == SQLITE_ROW) {
        if ((err = put_row(&p, st)) != MRD_OK)
            mrd_why_set(why, err, 0, "query");
    }
    if (err == MRD_OK && step != SQLITE_DONE)
        err = mrd_profile_db_failed(db, "the query", why);
    if (p.held.n > 0)
        print_held(&p);
    mrd_strlist_fini(&p.held);
    free(p.width);
    sqlite3_finalize(st);
    return err;
}

/* Extends the message of a failed query by the names of the profiles that have another version of
 * the tables than this program. */
static void
blame_version(sqlite3 *db, const mrd_strlist *words, mrd_err err, mrd_why *why)
{
    for (size_t i = 0; i + 1 < words->n; i++) {
        sqlite3_stmt *st = NULL;
        char ask[48];
        const char *version = NULL;

        snprintf(ask, sizeof(ask), "PRAGMA p%zu.user_version", i);
        if (sqlite3_prepare_v2(db, ask, -1, &st, NULL) == SQLITE_OK &&
            sqlite3_step(st) == SQLITE_ROW)
            version = (const char *) sqlite3_column_text(st, 0);
        if (version != NULL && strcmp(version, mrd_dialect_meridian.version) != 0)
            mrd_why_prefix(why, err,
                           "'%s' has tables of another version of Meridian (%s, this one's is %s: "
                           "write the profile again)",
                           words->v[i + 1], version, mrd_dialect_meridian.version);
        sqlite3_finalize(st);
    }
}

static mrd_err
run_query(const settings *set, const char *sql, const mrd_strlist *words, mrd_why *why)
{
    const mrd_profile_db_limits limits = { set->timeout, set->memory, "meridian sql" };
    sqlite3 *db = NULL;
    mrd_err err =
        mrd_profile_db_open((const char *const *) words->v + 1, words->n - 1, &limits, &db, why);

    while (err == MRD_OK && sql != NULL && *sql != '\0')
        err = run_statement(set, db, sql, &sql, why);
    if (err == MRD_INVALID && db != NULL)
        blame_version(db, words, err, why);
    if (err == MRD_OK && (fflush(stdout) != 0 || ferror(stdout)))
        err = mrd_why_set(why, MRD_IO, errno, "cannot write the output");
    sqlite3_close(db);
    return err;
}

static int
run(void *self, const mrd_strlist *words)
{
    const settings *set = self;
    mrd_buf sql = { 0 }, views = { 0 };
    mrd_why why = { 0 };
    int status = MRD_EXIT_OK;
    mrd_err err;

    if (set->list) {
        list_queries();
        return MRD_EXIT_OK;
    }
    if (words->n == 0 || (words->n == 1 && !set->print)) {
        fprintf(stderr, "meridian sql: give a query and a profile (--help shows examples)\n");
        return MRD_EXIT_USAGE;
    }
    if (set->engine > MRD_ENGINE_SQLITE && !set->print) {
        fprintf(stderr,
                "meridian sql: queries run in SQLite here: --print --engine %s prints what "
                "%s is to run\n",
                mrd_engine_word((mrd_engine) set->engine),
                mrd_engine_name((mrd_engine) set->engine));
        return MRD_EXIT_USAGE;
    }
    err = find_query(words->v[0], &sql, &why);
    if (err == MRD_OK && set->print) {
        if (words->n > 1)
            err = mrd_sql_views((mrd_engine) set->engine, words->v + 1, words->n - 1, &views, &why);
        if (err == MRD_OK)
            printf("%s%s;\n", mrd_buf_cstr(&views), mrd_buf_cstr(&sql));
    } else if (err == MRD_OK) {
        err = run_query(set, mrd_buf_cstr(&sql), words, &why);
    }
    if (err != MRD_OK) {
        mrd_cli_error("sql", &why);
        status = err == MRD_INVALID ? MRD_EXIT_USAGE : MRD_EXIT_FAILED;
    }
    mrd_buf_fini(&views);
    mrd_buf_fini(&sql);
    return status;
}

int
mrd_cmd_sql(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cli_frame frame = { .usage = "QUERY|FILE PROFILE... [options]",
                            .more = more,
                            .table = table,
                            .rows = MRD_COUNT(table),
                            .settings = &set,
                            .max_words = MRD_PROFILE_DBS + 1,
                            .run = run };

    return mrd_cli_main(&frame, argc, argv);
}
