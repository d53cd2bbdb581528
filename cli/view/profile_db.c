#include "cli/view/profile_db.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/client.h"
#include "trace/table/schema.h"

#define MAKE_IT                                                                                    \
    "make one with --output-format sqlite (view, inspect) or --format sqlite (fetch, record)"

/* Maximum bytes of a value or row. The limit keeps each single operation short. */
#define VALUE_MAX (16 << 20)
/* Maximum length of a LIKE pattern in bytes. It is small, because SQLite compares the pattern at
 * each position of a value. */
#define PATTERN_MAX 1000
#define CACHE_KIB   65536 /* KiB of page cache for all profiles together */

mrd_err
mrd_profile_db_failed(sqlite3 *db, const char *what, mrd_why *why)
{
    char size[MRD_SIZE_TEXT];

    switch (sqlite3_errcode(db)) {
    case SQLITE_NOTADB:
        return mrd_why_set(why, MRD_FORMAT, 0, "%s is no SQLite file: " MAKE_IT, what);
    case SQLITE_NOMEM:
        return mrd_why_set(why, MRD_LIMIT, 0, "%s needs more than %s of memory (--memory)", what,
                           mrd_cli_size((uint64_t) sqlite3_hard_heap_limit64(-1), size));
    case SQLITE_AUTH:
        return mrd_why_set(why, MRD_INVALID, 0, "%s: %s: a profile is only read", what,
                           sqlite3_errmsg(db));
    default:
        return mrd_why_set(why, MRD_INVALID, 0, "%s: %s", what, sqlite3_errmsg(db));
    }
}

/* Runs the statements in `sql` and frees the text. `what` begins the message of an error. */
static mrd_err
run_sql(sqlite3 *db, const char *what, mrd_buf *sql, mrd_why *why)
{
    mrd_err err = sql->err != MRD_OK ? mrd_why_set(why, sql->err, 0, "%s", what) : MRD_OK;

    if (err == MRD_OK && sqlite3_exec(db, mrd_buf_cstr(sql), NULL, NULL, NULL) != SQLITE_OK)
        err = mrd_profile_db_failed(db, what, why);
    mrd_buf_fini(sql);
    return err;
}

/* ---- Limits ---- */

static char timeout_text[200];

static void
stop_process(int sig)
{
    (void) sig;
    (void) !write(STDERR_FILENO, timeout_text, strlen(timeout_text));
    _exit(MRD_EXIT_FAILED);
}

/* Limits the CPU time of the process. The kernel counts the time, and a signal handler ends the
 * process. SQLite's own check is not enough: it runs between operations, and one operation on large
 * values may take minutes. Elapsed time is not limited, because a pager may stop the output. */
static void
limit_cpu(const mrd_profile_db_limits *limits)
{
    const struct sigaction action = { .sa_handler = stop_process };
    char dur[MRD_DUR_TEXT];
    struct rusage used;
    struct rlimit limit;

    if (limits->cpu == 0 || getrusage(RUSAGE_SELF, &used) != 0 ||
        getrlimit(RLIMIT_CPU, &limit) != 0)
        return;
    snprintf(timeout_text, sizeof(timeout_text),
             "%s: the query was stopped after %s of CPU time (--timeout allows more)\n",
             limits->label, mrd_dur_text(limits->cpu, dur));
    limit.rlim_cur = (rlim_t) (used.ru_utime.tv_sec + used.ru_stime.tv_sec +
                               (limits->cpu + MRD_SEC - 1) / MRD_SEC);
    if (limit.rlim_cur > limit.rlim_max)
        limit.rlim_cur = limit.rlim_max;
    (void) sigaction(SIGXCPU, &action, NULL);
    (void) setrlimit(RLIMIT_CPU, &limit);
}

/* ---- Allowed actions of a statement ---- */

/* Returns true for a pragma that only describes a schema. */
static bool
pragma_reads(const char *name, const char *value)
{
    static const char *const about[] = { "table_info", "table_xinfo", "table_list",
                                         "index_list", "index_info",  "index_xinfo" };

    if (value == NULL &&
        (sqlite3_stricmp(name, "user_version") == 0 || sqlite3_stricmp(name, "database_list") == 0))
        return true;
    for (size_t i = 0; i < MRD_COUNT(about); i++)
        if (sqlite3_stricmp(name, about[i]) == 0)
            return true;
    return false;
}

/* Allows only actions that read. SQLite calls this function for each action when it compiles a
 * statement, including the actions of views. */
static int
allow_reading(void *self, int action, const char *one, const char *two, const char *schema,
              const char *view)
{
    (void) self;
    (void) schema;
    (void) view;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return sqlite3_stricmp(two, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
    /* SQLite updates sqlite_master to declare the columns of json_each(), without writing data. */
    case SQLITE_UPDATE:
        return strcmp(one, "sqlite_master") == 0 ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_PRAGMA:
        return pragma_reads(one, two) ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

/* ---- Opening profiles ---- */

static mrd_err
open_connection(const mrd_profile_db_limits *limits, sqlite3 **ret_db, mrd_why *why)
{
    sqlite3 *db = NULL;

    limit_cpu(limits);
    (void) sqlite3_hard_heap_limit64(limits->memory);
    if (sqlite3_open_v2("", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI,
                        NULL) != SQLITE_OK) {
        sqlite3_close(db);
        return mrd_why_set(why, MRD_NOMEM, 0, "SQLite");
    }
    (void) sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void) sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void) sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    (void) sqlite3_limit(db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
    (void) sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_MAX);
    *ret_db = db;
    return MRD_OK;
}

/* Finds the database that an argument names: the file itself, or the one in the directory. */
static mrd_err
find_database(const char *word, char path[4096], mrd_why *why)
{
    struct stat st;

    if (stat(word, &st) != 0)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "cannot read '%s'", word);
    snprintf(path, 4096, S_ISDIR(st.st_mode) ? "%s/profile.sqlite" : "%s", word);
    if (access(path, R_OK) != 0 || stat(path, &st) != 0)
        return errno == ENOENT
                   ? mrd_why_set(why, MRD_NOTFOUND, 0, "there is no '%s': " MAKE_IT, path)
                   : mrd_why_set(why, MRD_NOTFOUND, errno, "cannot read '%s'", path);
    if (!S_ISREG(st.st_mode))
        return mrd_why_set(why, MRD_FORMAT, 0, "'%s' is not a regular file: " MAKE_IT, path);
    return MRD_OK;
}

/* Prints a message if a journal file is next to the database. Meridian's profiles never have a
 * journal, so another program has changed the database or is changing it. */
static void
name_ignored(const char *path, const char *label)
{
    static const char *const suffixes[] = { "-journal", "-wal" };
    struct stat st;

    for (size_t i = 0; i < MRD_COUNT(suffixes); i++) {
        mrd_buf text = { 0 };

        mrd_buf_fmt(&text, "%s%s", path, suffixes[i]);
        if (text.err == MRD_OK && lstat(mrd_buf_cstr(&text), &st) == 0 && st.st_size > 0) {
            mrd_buf_text(&text, " is ignored, though changes that another program did not finish "
                                "may be in it: rows may be missing or wrong");
            mrd_cli_say(label, mrd_str_of(mrd_buf_cstr(&text)));
        }
        mrd_buf_fini(&text);
    }
}

/* Attaches a database to the connection as schema number i. With immutable=1, SQLite ignores a
 * journal file. */
static mrd_err
attach(sqlite3 *db, size_t i, size_t n, const char *word, const char *label, mrd_why *why)
{
    char path[4096];
    mrd_buf sql = { 0 };
    sqlite3_stmt *st = NULL;
    mrd_err err = find_database(word, path, why);

    if (err != MRD_OK)
        return err;
    name_ignored(path, label);
    mrd_buf_text(&sql, "ATTACH 'file:");
    mrd_client_escape(&sql, path);
    mrd_buf_fmt(&sql, "?mode=ro&immutable=1' AS p%zu; PRAGMA p%zu.cache_size = -%zu", i, i,
                CACHE_KIB / n);
    if ((err = run_sql(db, path, &sql, why)) != MRD_OK)
        return err;
    mrd_buf_fmt(&sql, "SELECT EXISTS (SELECT 1 FROM p%zu.strings)", i);
    if (sqlite3_prepare_v2(db, mrd_buf_cstr(&sql), -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW)
        err = mrd_why_set(why, MRD_FORMAT, 0,
                          "'%s' is not a profile that Meridian wrote as SQLite: %s", path,
                          sqlite3_errmsg(db));
    sqlite3_finalize(st);
    mrd_buf_fini(&sql);
    return err;
}

/* Creates a view with the rows of one table from all profiles. */
static mrd_err
join_table(sqlite3 *db, const mrd_table_def *def, size_t profiles, mrd_why *why)
{
    mrd_buf sql = { 0 };

    mrd_buf_fmt(&sql, "CREATE TEMP VIEW %s AS", def->name);
    for (size_t p = 0; p < profiles; p++) {
        mrd_buf_text(&sql, p == 0 ? " SELECT " : " UNION ALL SELECT ");
        for (size_t c = 0; c < def->n; c++) {
            const char *name = def->columns[c].name;

            mrd_buf_text(&sql, c == 0 ? "" : ", ");
            if (p > 0 && strcmp(name, "session_id") == 0)
                mrd_buf_fmt(&sql, "session_id || '#%zu' AS session_id", p + 1);
            else
                mrd_buf_text(&sql, name);
        }
        mrd_buf_fmt(&sql, " FROM p%zu.%s", p, def->name);
    }
    return run_sql(db, def->name, &sql, why);
}

mrd_err
mrd_profile_db_open(const char *const *paths, size_t n, const mrd_profile_db_limits *limits,
                    sqlite3 **ret_db, mrd_why *why)
{
    mrd_buf settings = { 0 };
    sqlite3 *db = NULL;
    mrd_err err;

    if (n > MRD_PROFILE_DBS)
        return mrd_why_set(why, MRD_LIMIT, 0, "at most %d profiles at once", MRD_PROFILE_DBS);
    err = open_connection(limits, &db, why);
    for (size_t i = 0; i < n && err == MRD_OK; i++)
        err = attach(db, i, n, paths[i], limits->label, why);
    for (size_t i = 0; i < mrd_dialect_meridian.n && n > 1 && err == MRD_OK; i++)
        err = join_table(db, &mrd_dialect_meridian.tables[i], n, why);
    mrd_buf_text(&settings, "PRAGMA cell_size_check = 1; PRAGMA query_only = 1");
    if (err == MRD_OK)
        err = run_sql(db, "SQLite", &settings, why);
    if (err == MRD_OK) {
        (void) sqlite3_set_authorizer(db, allow_reading, NULL);
        *ret_db = db;
        db = NULL;
    }
    mrd_buf_fini(&settings);
    (void) sqlite3_close(db);
    return err;
}
