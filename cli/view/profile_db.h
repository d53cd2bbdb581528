/*
 * cli/view/profile_db.h - opens profiles (SQLite databases) read-only. They may come from anywhere.
 *
 * A database is more than data. Its schema can name any function or file, its views may never end,
 * and a journal file next to it makes SQLite change and remove files. So each database is opened as
 * an immutable file, a journal is ignored, and SQLite may only read.
 *
 * Threads: a connection belongs to one thread. The limits apply to the process.
 */
#ifndef MRD_CLI_VIEW_PROFILE_DB_H
#define MRD_CLI_VIEW_PROFILE_DB_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/clock.h"

#define MRD_PROFILE_DBS 10 /* maximum number of profiles in one connection */

typedef struct {
    /* Maximum CPU time of the process; 0 means no limit. Beyond the limit, the process ends with a
     * message and status 1. */
    mrd_dur_ns cpu;
    int64_t memory;    /* bytes that SQLite may allocate; beyond it a query fails */
    const char *label; /* beginning of messages on stderr, such as "meridian sql" */
} mrd_profile_db_limits;

/*
 * Opens n profiles as the schemas p0, p1, ... of one connection. Each path is a profile.sqlite, or
 * a directory that contains one.
 *
 * With several profiles, a view joins each table over all of them. The session_id of the second
 * profile then ends with #2, and so on.
 *
 * Prints a message on stderr for each ignored journal. The caller closes the connection with
 * sqlite3_close. Errors: NOTFOUND, FORMAT (not a database, or not a profile), LIMIT (too many),
 * INVALID (a table that cannot be read), NOMEM.
 */
mrd_err mrd_profile_db_open(const char *const *paths, size_t n, const mrd_profile_db_limits *limits,
                            sqlite3 **ret_db, mrd_why *why);
/* Fills *why with the last error of the connection, and returns it: FORMAT, LIMIT (memory) or
 * INVALID. `what` begins the message. */
mrd_err mrd_profile_db_failed(sqlite3 *db, const char *what, mrd_why *why);

#endif
